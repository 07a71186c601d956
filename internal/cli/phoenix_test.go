package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// phoenixSpan is a span as Arize Phoenix gives it back.
type phoenixSpan struct {
	Name    string `json:"name"`
	Kind    string `json:"span_kind"`
	Parent  string `json:"parent_id"`
	Start   string `json:"start_time"`
	Context struct {
		Trace string `json:"trace_id"`
		Span  string `json:"span_id"`
	} `json:"context"`
}

// A receiver that others wrote shows every span when it is asked through its own API, and pushing twice changes nothing.
// ASSAY_PHOENIX names a Python that has arize-phoenix: make e2e-otlp installs one.
func TestExportToPhoenix(t *testing.T) {
	python := os.Getenv("ASSAY_PHOENIX")
	if python == "" {
		t.Skip("ASSAY_PHOENIX is not set; make e2e-otlp sets it")
	}
	dir := t.TempDir()
	must(os.CopyFS(dir+"/suite", os.DirFS("testdata/exported")))
	out := dir + "/results"
	assay := dir + "/assay" // a run starts itself again, which a test must not
	for _, args := range [][]string{{"go", "build", "-o", assay, repository + "/cmd/assay"}, {assay, "run", dir + "/suite", "--out", out}} {
		if said, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
	}
	want := map[string]map[string]any{}
	for line := range strings.Lines(says(t, "export", out, "--to", "otlp", "--dry-run")) {
		var s map[string]any
		must(json.Unmarshal([]byte(line), &s))
		want[s["span_id"].(string)] = s
	}
	if len(want) < 8 {
		t.Fatalf("%d spans are too few to show anything", len(want))
	}
	base := startPhoenix(t, python)
	for push := range 2 {
		said := says(t, "export", out, "--to", "otlp", "--endpoint", base)
		if !strings.Contains(said, fmt.Sprintf("%d of %d spans taken", len(want), len(want))) {
			t.Fatalf("push %d: %s", push+1, said)
		}
		got := phoenixSpans(t, base, len(want))
		if len(got) != len(want) {
			t.Fatalf("push %d: %d spans are there, want %d", push+1, len(got), len(want))
		}
		kinds := map[string]int{}
		for _, s := range got {
			w := want[s.Context.Span]
			if w == nil || s.Name != w["name"] || s.Context.Trace != w["trace_id"] || (w["parent_span_id"] != nil && s.Parent != w["parent_span_id"]) {
				t.Errorf("push %d: %+v, want %v", push+1, s, w)
				continue
			}
			began, err := time.Parse(time.RFC3339Nano, s.Start)
			meant, _ := time.Parse(time.RFC3339Nano, w["start"].(string))
			if err != nil || began.Sub(meant).Abs() > time.Microsecond {
				t.Errorf("%s began at %s, want %s", s.Name, s.Start, w["start"])
			}
			kinds[s.Kind]++
		}
		if kinds["LLM"] == 0 || kinds["TOOL"] == 0 || kinds["AGENT"] == 0 {
			t.Errorf("it does not see what the spans are: %v", kinds)
		}
	}
}

// startPhoenix starts Phoenix on loopback and gives its address once it answers.
func startPhoenix(t *testing.T, python string) string {
	t.Helper()
	port, grpc := freePort(t), freePort(t)
	log, err := os.Create(t.TempDir() + "/log")
	must(err)
	defer log.Close()
	cmd := exec.Command(filepath.Join(filepath.Dir(python), "phoenix"), "serve")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "PHOENIX_WORKING_DIR="+t.TempDir(), "PHOENIX_HOST=127.0.0.1", "PHOENIX_PORT="+port,
		"PHOENIX_GRPC_PORT="+grpc, "PHOENIX_TELEMETRY_ENABLED=false")
	must(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
	})
	base := "http://127.0.0.1:" + port
	giveUp := time.After(4 * time.Minute)
	for {
		if resp, err := http.Get(base + "/v1/projects"); err == nil {
			resp.Body.Close()
			return base
		}
		select {
		case err := <-ended:
			ended <- err
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("phoenix ended: %v\n%s", err, said)
		case <-giveUp:
			t.Fatal("phoenix does not answer")
		case <-time.After(200 * time.Millisecond): // it has no other way to say that it listens
		}
	}
}

// phoenixSpans reads the spans back. Phoenix stores them some time after it took them: so the last look is one after the
// number was right, or none of a minute.
func phoenixSpans(t *testing.T, base string, want int) []phoenixSpan {
	t.Helper()
	var page struct {
		Data []phoenixSpan `json:"data"`
	}
	for range 60 {
		resp, err := http.Get(base + "/v1/projects/default/spans?limit=1000")
		must(err)
		body, err := io.ReadAll(resp.Body)
		must(err)
		resp.Body.Close()
		page.Data = nil
		if resp.StatusCode == http.StatusOK {
			must(json.Unmarshal(body, &page))
		}
		done := len(page.Data) >= want
		time.Sleep(time.Second) // what would come twice comes now
		if done {
			break
		}
	}
	return page.Data
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(err)
	return port
}
