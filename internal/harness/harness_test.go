package harness_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/responder"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/assay-ci/assay/internal/trace"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestMain lets the test binary be the supervisor of the host executor.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "supervise" {
		os.Exit(executor.Supervise(nil))
	}
	os.Exit(m.Run())
}

// settings are the settings of a harness as a suite has them.
func settings(t testing.TB, text string) suite.Block {
	t.Helper()
	b, err := suite.ReadBlock(fstest.MapFS{"suite.yaml": {Data: []byte(text)}}, "suite.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func kind(t testing.TB, name string) harness.Kind {
	t.Helper()
	i := slices.IndexFunc(harness.Kinds, func(k harness.Kind) bool { return k.Name == name })
	if i < 0 {
		t.Fatalf("no harness %s", name)
	}
	return harness.Kinds[i]
}

func build(t testing.TB, name, text string) harness.Harness {
	t.Helper()
	h, err := kind(t, name).Build(settings(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// place is a task in a place on this host, and what the run of it left.
type place struct {
	harness.Task
	log bytes.Buffer
}

// newPlace makes a work folder that holds the files, by path.
func newPlace(t testing.TB, files map[string]string) *place {
	t.Helper()
	root := t.TempDir()
	dir := func(name string) string {
		d := filepath.Join(root, name)
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		return d
	}
	o := executor.HostOptions{
		Work: dir("work"), Home: dir("home"), Tmp: dir("tmp"),
		Host: []string{"PATH=" + os.Getenv("PATH")}, Supervisor: []string{os.Args[0], "supervise"}, Token: filepath.Base(root) + t.Name(),
	}
	for name, text := range files {
		name = filepath.Join(o.Work, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	host, err := executor.NewHost(o)
	if err != nil {
		t.Skipf("no place on this host: %v", err)
	}
	t.Cleanup(func() {
		if err := host.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	p := &place{Task: harness.Task{
		Case: "tz", Model: "none", Condition: "with_skill", Trial: 1, Prompt: "Fix the bug.",
		Exec: host, Work: o.Work, Home: o.Home, Env: []string{"FOO=bar"}, CaseDir: fstest.MapFS{},
		Limits: harness.Limits{Timeout: time.Minute, Grace: 100 * time.Millisecond},
	}}
	p.Log = &p.log
	p.Script = func(name string) (harness.Settings, error) { return suite.ReadBlock(p.CaseDir, name) }
	auto, err := responder.Kinds[0].Build(suite.Block{})
	if err != nil {
		t.Fatal(err)
	}
	p.Responder = auto
	return p
}

// drive runs the harness and returns its outcome and its trace, which it checks for what every trace promises.
func (p *place) drive(t testing.TB, h harness.Harness) (harness.Outcome, []trace.Event) {
	t.Helper()
	return p.driveUntil(t, t.Context(), h)
}

func (p *place) driveUntil(t testing.TB, ctx context.Context, h harness.Harness) (harness.Outcome, []trace.Event) {
	t.Helper()
	var events []trace.Event
	o, err := h.Drive(ctx, p.Task, func(e trace.Event) { events = append(events, e) })
	if err != nil {
		t.Fatal(err)
	}
	if len(events) < 3 || events[0].Kind != trace.KindSessionStart || events[1].Kind != trace.KindUserMessage || events[1].Text != p.Prompt {
		t.Errorf("the trace begins with %+v", events)
	}
	for i, e := range events {
		if last := i == len(events)-1; (e.Kind == trace.KindStop) != last {
			t.Fatalf("event %d of %d is a %s", i+1, len(events), e.Kind)
		}
	}
	s := events[len(events)-1].Stop
	if s.Reason != o.Stop || s.Class != o.Class || s.Detail != o.Detail || s.FinalText != o.FinalText {
		t.Errorf("the trace ends with %+v, the outcome is %+v", s, o)
	}
	return o, events
}

// file returns the content of a file of the work folder, and whether it is there.
func (p *place) file(t testing.TB, name string) (string, bool) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.Work, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b), err == nil
}

// golden compares a trace, its times and folders taken out, with a file of testdata.
func (p *place) golden(t *testing.T, name string, events []trace.Event) {
	t.Helper()
	var b bytes.Buffer
	w := trace.NewWriter(&b, func() time.Duration { return 0 })
	for _, e := range events {
		if e.Tool != nil && e.Tool.Duration != 0 {
			tool := *e.Tool
			tool.Duration = 1
			e.Tool = &tool
		}
		w.Emit(e)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := strings.NewReplacer(p.Work, "/work", p.Home, "/home").Replace(b.String())
	file := filepath.Join("testdata", name+".jsonl")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

// results returns the results of the tool calls.
func results(events []trace.Event) []*trace.Tool {
	var list []*trace.Tool
	for _, e := range events {
		if e.Kind == trace.KindToolResult {
			list = append(list, e.Tool)
		}
	}
	return list
}

// fake is an Executor made of funcs.
type fake struct {
	run   func(ctx context.Context, c executor.Command) (executor.Exit, error)
	files executor.FS
}

func (f fake) Run(ctx context.Context, c executor.Command) (executor.Exit, error) {
	return f.run(ctx, c)
}
func (f fake) Files() executor.FS          { return f.files }
func (f fake) Close(context.Context) error { return nil }

func TestEveryHarnessIsDescribed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range harness.Kinds {
		if k.Name == "" || k.Doc == "" || k.Params == nil || k.Build == nil || seen[k.Name] {
			t.Errorf("row %+v", k)
		}
		seen[k.Name] = true
	}
}

func TestEchoWritesThePrompt(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	o, events := p.drive(t, build(t, "echo", "{}"))
	if got, _ := p.file(t, "ANSWER.md"); got != p.Prompt {
		t.Errorf("ANSWER.md holds %q", got)
	}
	if o.Stop != trace.StopEndTurn || !o.Answered || o.Usage == nil || *o.Usage.Input != 0 || *o.Usage.CostUSD != 0 || *o.Turns != 1 {
		t.Errorf("outcome %+v", o)
	}
	p.golden(t, "echo", events)
}

func TestEchoStopsWithItsContext(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o, _ := p.driveUntil(t, ctx, build(t, "echo", "{}"))
	if _, there := p.file(t, "ANSWER.md"); o.Stop != trace.StopCancelled || o.Answered || there {
		t.Errorf("outcome %+v", o)
	}
}

func TestEchoRefusesSettings(t *testing.T) {
	t.Parallel()
	if _, err := kind(t, "echo").Build(settings(t, "file: x")); err == nil || !strings.Contains(err.Error(), "suite.yaml:1:1: unknown key") {
		t.Error(err)
	}
}

func BenchmarkEcho(b *testing.B) {
	p := newPlace(b, nil)
	h := build(b, "echo", "{}")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Drive(b.Context(), p.Task, func(trace.Event) {}); err != nil {
			b.Fatal(err)
		}
	}
}

func compact(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
