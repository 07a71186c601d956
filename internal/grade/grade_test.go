package grade

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestMain lets the test binary be the supervisor of the host executor.
func TestMain(m *testing.M) {
	if os.Getenv("GRADE_TEST_SUPERVISOR") != "" {
		os.Exit(executor.Supervise(nil))
	}
	os.Exit(m.Run())
}

// settings stand for a block of a suite: the parameters as the decoder would leave them.
type settings struct{ params any }

func (s settings) Decode(into any) error {
	v := reflect.ValueOf(into).Elem()
	v.Set(reflect.ValueOf(s.params))
	for i := range v.NumField() {
		preset := v.Type().Field(i).Tag.Get("default")
		if field := v.Field(i); preset != "" && field.IsZero() {
			setDefault(field, preset)
		}
	}
	return nil
}

func setDefault(field reflect.Value, preset string) {
	switch field.Interface().(type) {
	case time.Duration:
		d, err := time.ParseDuration(preset)
		if err != nil {
			panic(err)
		}
		field.SetInt(int64(d))
	case string:
		field.SetString(preset)
	case int:
		var n int64
		if _, err := fmt.Sscan(preset, &n); err != nil {
			panic(err)
		}
		field.SetInt(n)
	case bool:
		field.SetBool(preset == "true")
	default:
		panic("no default is known for " + field.Type().String())
	}
}

func (s settings) Fault(key, msg, _ string) error { return fmt.Errorf("%s: %s", key, msg) }

// build makes the grader of params.
func build(t *testing.T, params any) Grader {
	t.Helper()
	for _, kind := range Kinds {
		if reflect.TypeOf(kind.Params) == reflect.TypeOf(params) {
			grader, err := kind.Build(settings{params})
			if err != nil {
				t.Fatal(err)
			}
			return grader
		}
	}
	t.Fatalf("no kind takes %T", params)
	return nil
}

// check grades and compares: passed, and the evidence.
func check(t *testing.T, g Grader, e Evidence, passed bool, evidence string) {
	t.Helper()
	if e.Log == nil {
		e.Log = io.Discard
	}
	got, err := g.Grade(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	value := map[bool]float64{true: 1}[passed]
	want := result.Score{Passed: &passed, Value: &value, Text: got.Text, Evidence: evidence, Judged: got.Judged}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("score (-want +got):\n%s", diff)
	}
	if got.Text == "" {
		t.Error("the score does not say what was asserted")
	}
}

// checkError grades and wants an error that holds the text.
func checkError(t *testing.T, g Grader, e Evidence, text string) {
	t.Helper()
	if e.Log == nil {
		e.Log = io.Discard
	}
	got, err := g.Grade(t.Context(), e)
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Fatalf("error %v, want one with %q", err, text)
	}
	if got.Passed != nil || got.Value != nil || got.Text == "" {
		t.Errorf("an assertion that could not be graded has the score %+v", got)
	}
}

// fakePlace is an executor made of a func.
type fakePlace struct {
	run   func(context.Context, executor.Command) (executor.Exit, error)
	files executor.FS
}

func (p fakePlace) Run(ctx context.Context, c executor.Command) (executor.Exit, error) {
	return p.run(ctx, c)
}
func (p fakePlace) Files() executor.FS          { return p.files }
func (p fakePlace) Close(context.Context) error { return nil }

func at(p executor.Executor) func(context.Context) (executor.Executor, error) {
	return func(context.Context) (executor.Executor, error) { return p, nil }
}

// exits is a place where every command ends so.
func exits(exit executor.Exit, stdout string) fakePlace {
	return fakePlace{run: func(_ context.Context, c executor.Command) (executor.Exit, error) {
		if _, err := io.WriteString(c.Stdout, stdout); err != nil {
			return executor.Exit{}, err
		}
		exit.Out = int64(len(stdout))
		return exit, nil
	}}
}

// hostPlace is a real place on this host that holds the files.
func hostPlace(t *testing.T, files map[string]string) (place *executor.Host, work string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the host executor needs Linux")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, dir := range []string{"work", "home", "tmp"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	work = filepath.Join(root, "work")
	for name, content := range files {
		path := filepath.Join(work, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	place, err = executor.NewHost(executor.HostOptions{
		Work: work, Home: filepath.Join(root, "home"), Tmp: filepath.Join(root, "tmp"),
		Host:       []string{"PATH=" + os.Getenv("PATH"), "LANG=C"},
		Supervisor: []string{"/usr/bin/env", "GRADE_TEST_SUPERVISOR=1", self},
		Token:      strings.ReplaceAll(t.Name(), "/", "-"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := place.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return place, work
}

// need skips the test when a program is absent.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("needs %s: %v", program, err)
	}
}

// golden compares with a golden file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run the test with -update)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func events(list ...trace.Event) iter.Seq2[trace.Event, error] {
	return func(yield func(trace.Event, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func ptr[T any](v T) *T { return &v }

func TestKindsAreDocumented(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, kind := range Kinds {
		if seen[kind.Name] || kind.Name == "" || kind.Doc == "" || strings.Contains(kind.Doc, "\n") {
			t.Errorf("kind %q: name and doc must be there, the name once, the doc in one line", kind.Name)
		}
		seen[kind.Name] = true
		params := reflect.TypeOf(kind.Params)
		if !reflect.ValueOf(kind.Params).IsZero() {
			t.Errorf("%s: Params is not a zero value", kind.Name)
		}
		for i := range params.NumField() {
			tag := params.Field(i).Tag
			if tag.Get("yaml") == "" || tag.Get("doc") == "" {
				t.Errorf("%s: %s has no key or no doc", kind.Name, params.Field(i).Name)
			}
		}
		if _, err := kind.Build(settings{kind.Params}); err == nil {
			t.Errorf("%s: an assertion that asserts nothing was built", kind.Name)
		}
	}
}

// TestTestsTakeWhatCommandTakes keeps the two lists of parameters equal.
func TestTestsTakeWhatCommandTakes(t *testing.T) {
	t.Parallel()
	tests := reflect.TypeFor[testsParams]()
	for i, command := 0, reflect.TypeFor[commandParams](); i < command.NumField(); i++ {
		want, got := command.Field(i), tests.Field(i)
		if want.Name != got.Name || want.Type != got.Type || want.Tag != got.Tag {
			t.Errorf("command has %v, tests has %v", want, got)
		}
	}
}

func TestDecodeFaultStopsBuild(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds {
		if g, err := kind.Build(brokenSettings{}); g != nil || !errors.Is(err, errBroken) {
			t.Errorf("%s: Build = %v, %v", kind.Name, g, err)
		}
	}
}

var errBroken = errors.New("broken")

type brokenSettings struct{}

func (brokenSettings) Decode(any) error                   { return errBroken }
func (brokenSettings) Fault(string, string, string) error { return nil }

func TestSettingsFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		build  func(Settings) (Grader, error)
		params any
		want   string
	}{
		{"run and argv", buildCommand, commandParams{Run: "a", Argv: []string{"b"}}, "argv: run and argv exclude each other"},
		{"no command", buildCommand, commandParams{}, "argv: no command: run or argv is needed"},
		{"empty argv", buildCommand, commandParams{Argv: []string{""}}, "argv: no command: run or argv is needed"},
		{"stdout", buildCommand, commandParams{Run: "a", ExpectStdout: "("}, "expect_stdout: error parsing regexp: missing closing ): `(`"},
		{"junit without report", buildTests, testsParams{Run: "a", Format: "junit"}, "format: junit needs report: the files that the command writes"},
		{"tap with report", buildTests, testsParams{Run: "a", Format: "tap", Report: "*.xml"}, "report: tap is read from standard output, not from files"},
		{"every fault", buildTests, testsParams{MustPass: []string{"a", ""}}, "argv: no command: run or argv is needed\nmust_pass[1]: the name of a test is empty"},
		{"files: nothing", buildFiles, filesParams{}, ": nothing is asserted"},
		{"files: in alone", buildFiles, filesParams{In: []string{"*"}, Exist: []string{"a"}}, "in: in only restricts present and absent, and neither is there"},
		{"files: all", buildFiles, filesParams{Present: []string{"a", "("}, Equal: map[string]string{"../a": "b"}},
			"present[1]: error parsing regexp: missing closing ): `(`\nequal.../a: \"../a\" is not a path in the tree"},
		{"trace: nothing", buildTrace, traceParams{}, ": nothing is asserted"},
		{"trace: empty", buildTrace, traceParams{Order: []string{"a", ""}}, "order[1]: the name of a tool is empty"},
		{"scope: nothing", buildScope, scopeParams{AllowNoChange: true}, ": no limit is given"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, err := tt.build(settings{tt.params})
			if g != nil || err == nil {
				t.Fatalf("built %v, %v", g, err)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"", ""}, {"12345678", "12345678"}, {"123456789", "12345…"}, {"1234äöü", "1234…"}, {"\xff", "\uFFFD"},
	} {
		if got := clip(tt.in, 8); got != tt.want {
			t.Errorf("clip(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOf(rapid.Byte()).Draw(t, "in"))
		limit := rapid.IntRange(3, 40).Draw(t, "limit")
		got := clip(in, limit)
		if len(got) > limit || !utf8.ValidString(got) {
			t.Fatalf("clip(%q, %d) = %q", in, limit, got)
		}
		if utf8.ValidString(in) && len(in) <= limit && got != in {
			t.Fatalf("clip changed %q to %q", in, got)
		}
	})
}

func TestShowForgesNoLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"src/a b.js", "src/a b.js"}, {"größe", "größe"}, {"a\npassed", `"a\npassed"`}, {"", `""`}, {"\x1b[2K", `"\x1b[2K"`}, {"a\xffb", `"a\xffb"`},
		{"a\u202eb", `"a\u202eb"`},
	} {
		if got := show(tt.in); got != tt.want {
			t.Errorf("show(%q) = %s, want %s", tt.in, got, tt.want)
		}
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		glob, path string
		want       bool
	}{
		{"src", "src/a/b.js", true}, {"src/", "src/a.js", true}, {"src", "srcs/a.js", false}, {"src/*.js", "src/a/b.js", false},
		{"src/**/*.js", "src/a/b.js", true}, {"**", "a", true}, {"a.js", "a.js", true}, {".github/**", ".github/workflows/ci.yml", true},
	} {
		if got := covers([]string{"nothing", tt.glob}, tt.path); got != tt.want {
			t.Errorf("covers(%q, %q) = %v", tt.glob, tt.path, got)
		}
	}
	if covers(nil, "a") {
		t.Error("no globs cover something")
	}
}

// forbidden fails the test when it is read: graders that need no place must not ask for one.
func forbidden(t *testing.T) func(context.Context) (executor.Executor, error) {
	return func(context.Context) (executor.Executor, error) {
		t.Error("a grading place was asked for")
		return nil, errors.New("no place")
	}
}

func TestOnlyPlaceKindsAskForAPlace(t *testing.T) {
	t.Parallel()
	for _, g := range []Grader{
		build(t, filesParams{Exist: []string{"a"}}), build(t, traceParams{MaxTurns: ptr(1)}), build(t, scopeParams{MaxHunks: ptr(1)}),
	} {
		if _, err := g.Grade(t.Context(), Evidence{Tree: fs.FS(emptyTree{}), Place: forbidden(t)}); err == nil {
			t.Errorf("%T graded without evidence", g)
		}
	}
	lost := errors.New("no docker")
	for _, g := range []Grader{build(t, commandParams{Run: "true"}), build(t, testsParams{Run: "true"}), build(t, testsParams{Run: "true", Report: "*.xml"})} {
		place := func(context.Context) (executor.Executor, error) { return nil, lost }
		if _, err := g.Grade(t.Context(), Evidence{Place: place, Log: &bytes.Buffer{}}); !errors.Is(err, lost) {
			t.Errorf("%T: error %v, want the place's", g, err)
		}
	}
}

// emptyTree is a tree whose folder is out of reach.
type emptyTree struct{}

func (emptyTree) Open(string) (fs.File, error) { return nil, errors.New("disk on fire") }

// TestSayings shows how each kind speaks: what was asserted, and what was found.
func TestSayings(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{"src/due.js": {Data: []byte("utc()\n")}, "notes.md": {Data: []byte("TODO\n")}}
	session := events(called("1", "Bash", trace.ToolExecute), trace.Event{Kind: trace.KindStop})
	change := scopeOf([]diffscope.Row{row("src/due.js", 4, 2), row("notes.md", 1, 0)}, []diffscope.Row{row("ci.yml", 1, 1)})
	passing := Evidence{Place: at(exits(executor.Exit{}, tapPasses)), Tree: tree, CaseDir: tree, Trace: session, Turns: ptr(2), Scope: change}
	failing := passing
	failing.Place = at(exits(executor.Exit{Code: 1}, "TAP version 13\nnot ok 1 - adds\nok 2 - late # SKIP\n1..2\n"))
	var b strings.Builder
	for _, params := range []any{
		commandParams{Run: "node --test"},
		commandParams{Argv: []string{"go", "vet", "./..."}, ExpectExit: 1, ExpectStdout: "^TAP"},
		testsParams{Run: "node --test --test-reporter=tap"},
		testsParams{Argv: []string{"./run-tests"}, Format: "tap", MinPassed: 2, MustPass: []string{"adds", "late"}},
		filesParams{Present: []string{`utc\(`, "tz"}, Absent: []string{"TODO"}, In: []string{"src/**", "*.md"}, Exist: []string{"src"},
			Missing: []string{"notes.md"}, Equal: map[string]string{"notes.md": "src/due.js"}},
		traceParams{RequireTools: []string{"Bash"}, ForbidTools: []string{"fetch"}, Order: []string{"read", "execute"}, MaxToolCalls: ptr(1),
			MaxTurns: ptr(1)},
		traceParams{MaxTokens: ptr[int64](1000), MaxCostUSD: ptr(0.5)},
		scopeParams{MaxFilesTouched: ptr(1), MaxLinesChanged: ptr(8)},
		scopeParams{MaxHunks: ptr(1), MaxOutsideFiles: ptr(0), Allow: []string{"src/**"}, Deny: []string{"*.yml"}},
	} {
		g := build(t, params)
		var said []string
		for _, e := range []Evidence{passing, failing} {
			e.Log = io.Discard
			s, err := g.Grade(t.Context(), e)
			outcome := "errored: " + fmt.Sprint(err)
			if err == nil {
				outcome = fmt.Sprintf("passed %v: %s", *s.Passed, s.Evidence)
			}
			if len(said) == 0 {
				said = append(said, s.Text)
			}
			if outcome != said[len(said)-1] {
				said = append(said, outcome)
			}
		}
		b.WriteString(strings.Join(said, "\n") + "\n\n")
	}
	golden(t, "sayings.golden", b.String())
}
