package harness_test

import (
	"bufio"
	"fmt"
	"iter"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/trace"
)

// realCodex is the codex of ASSAY_AGENTS, a folder of npm installs, and the address of the scripted model server that
// ASSAY_MODELSERVER names. Run the tests that need it where there is no way out:
//
//	unshare -n sh -c 'ip link set lo up && ASSAY_AGENTS=… ASSAY_MODELSERVER=… go test ./internal/harness -run RealCodex'
func realCodex(t *testing.T) (program, models string) {
	t.Helper()
	agents, server := os.Getenv("ASSAY_AGENTS"), os.Getenv("ASSAY_MODELSERVER")
	if agents == "" || server == "" {
		t.Skip("ASSAY_AGENTS and ASSAY_MODELSERVER do not name an agent and a model for it")
	}
	program = filepath.Join(agents, "codex", "node_modules", ".bin", "codex")
	if _, err := os.Stat(program); err != nil {
		t.Skipf("no codex: %v", err)
	}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(links, func(l net.Interface) bool { return l.Flags&(net.FlagUp|net.FlagLoopback) == net.FlagUp }); i >= 0 {
		t.Skipf("an agent of others is not run where it could reach the internet, by %s", links[i].Name)
	}
	return program, startModels(t, server)
}

// startModels starts the scripted model server and returns its address.
func startModels(t *testing.T, server string) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := fmt.Sprint(free.Addr().(*net.TCPAddr).Port)
	free.Close()
	c := exec.Command("python3", "-u", server, port, t.TempDir())
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Skipf("no model server: %v", err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it says when it listens
		t.Skipf("the model server does not start: %v", err)
	}
	return "http://127.0.0.1:" + port
}

// TestRealCodex drives the real CLI in a place of this host. It is one test, for one heavy program at a time.
func TestRealCodex(t *testing.T) {
	program, models := realCodex(t)
	const before, after = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"
	for _, c := range []struct {
		scenario, model string
		timeout         time.Duration
		want            codexTally
		file, content   string // a file as it is left
	}{
		{"edit", "gpt-5.5", time.Minute, codexTally{"end_turn", "", true, 5, 5, "4", ""}, "calc.py", after},
		{"edit", "gpt-5-codex", time.Minute, codexTally{"end_turn", "", true, 5, 5, "4", ""}, "calc.py", after},
		{"edit", "gpt-6-astra", time.Minute, codexTally{"end_turn", "", true, 5, 5, "4 1 late 1 error", ""}, "calc.py", after},
		{"write", "gpt-5.5", time.Minute, codexTally{"end_turn", "", true, 2, 2, "1", ""}, "NEW.txt", "hello\n"},
		{"cmd", "gpt-5.5", time.Minute, codexTally{"end_turn", "", true, 3, 3, "2 1 error", ""}, "ran.txt", ""},
		{"ask", "gpt-5.5", time.Minute, codexTally{"end_turn", "", true, 2, 2, "1 1 late 1 error", ""}, "calc.py", before},
		{"badargs", "gpt-5.5", time.Minute, codexTally{"end_turn", "", true, 2, 2, "1 1 late 1 error", ""}, "calc.py", before},
		{"refusal", "gpt-5.5", time.Minute, codexTally{"refusal", "", true, -1, 0, "0", "2 retries, 1 faults"}, "calc.py", before},
		{"truncate", "gpt-5.5", time.Minute, codexTally{"max_tokens", "", true, -1, 1, "0", "1 faults"}, "calc.py", before},
		{"err400", "gpt-5.5", time.Minute, codexTally{"error", "model_request", false, -1, 0, "0", "1 faults"}, "calc.py", before},
		{"err401", "gpt-5.5", time.Minute, codexTally{"error", "model_auth", false, -1, 0, "0", "2 retries, 1 faults"}, "calc.py", before},
		{"err429", "gpt-5.5", time.Minute, codexTally{"error", "model_limit", false, -1, 0, "0", "2 retries, 1 faults"}, "calc.py", before},
		{"err500", "gpt-5.5", time.Minute, codexTally{"error", "model_api", false, -1, 0, "0", "2 retries, 1 faults"}, "calc.py", before},
		{"overlong", "gpt-5.5", time.Minute, codexTally{"error", "context_overflow", false, -1, 0, "0", "1 faults"}, "calc.py", before},
		{"slow", "gpt-5.5", 3 * time.Second, codexTally{"timeout", "model_api", false, -1, 0, "0", ""}, "calc.py", before},
	} {
		t.Run(c.scenario+" "+c.model, func(t *testing.T) {
			p := newPlace(t, map[string]string{"calc.py": before})
			p.Model, p.Limits.Timeout = c.model, c.timeout
			o, events := p.drive(t, build(t, "codex", fmt.Sprintf("{program: %q, base_url: %q}", program, models+"/s/"+c.scenario+"/v1")))
			if diff := cmp.Diff(c.want, tallyOf(t, o, events)); diff != "" {
				t.Errorf("%s\n%s", diff, o.Detail)
			}
			if got, there := p.file(t, c.file); !there || strings.TrimSpace(got) != strings.TrimSpace(c.content) {
				t.Errorf("%s holds %q", c.file, got)
			}
			if len(o.Survivors) > 0 || o.Version == "" || o.Model != c.model {
				t.Errorf("survivors %v, version %q, model %q", o.Survivors, o.Version, o.Model)
			}
			for _, e := range events {
				if e.Kind == trace.KindOther && !strings.HasPrefix(e.Text, "standard error:") {
					t.Errorf("not understood: %s", compact(t, e))
				}
			}
		})
	}
}

// TestRealCodexLoops: an agent that never ends is ended, with all that it had started.
func TestRealCodexLoops(t *testing.T) {
	program, models := realCodex(t)
	p := newPlace(t, nil)
	p.Model, p.Limits = "gpt-5.5", harness.Limits{Timeout: 4 * time.Second, Grace: 10 * time.Second}
	o, events := p.drive(t, build(t, "codex", fmt.Sprintf("{program: %q, base_url: %q}", program, models+"/s/loop/v1")))
	got := tallyOf(t, o, events)
	if o.Stop != trace.StopTimeout || !o.Answered || o.Signal != "SIGTERM" || len(o.Survivors) > 0 {
		t.Errorf("%+v, ended by %q, survivors %v", got, o.Signal, o.Survivors)
	}
	// Each answer of the model makes one call, the last of which may not have come to anything.
	if calls := len(slices.Collect(toolCalls(events))); got.Turns < 2 || calls < got.Turns-1 || calls > got.Turns+1 {
		t.Errorf("%d calls in %+v", calls, got)
	}
}

func toolCalls(events []trace.Event) iter.Seq[*trace.Tool] {
	return func(yield func(*trace.Tool) bool) {
		for _, e := range events {
			if e.Kind == trace.KindToolCall && !yield(e.Tool) {
				return
			}
		}
	}
}

// TestRealCodexTakesACondition: a server that does not start ends the cell, it is not left out.
func TestRealCodexTakesACondition(t *testing.T) {
	program, models := realCodex(t)
	h := build(t, "codex", fmt.Sprintf("{program: %q, base_url: %q}", program, models+"/s/plain/v1"))
	p := newPlace(t, nil)
	p.Model = "gpt-5.5"
	p.Extras.MCP = []harness.MCPServer{{Name: "tools", Argv: []string{"/nowhere/server"}}}
	o, _ := p.drive(t, h)
	if o.Stop != trace.StopNoTerminalEvent || o.Class != trace.ClassHarnessConfig || !strings.Contains(o.Detail, "required MCP servers failed") {
		t.Errorf("%s %s %s", o.Stop, o.Class, o.Detail)
	}
}
