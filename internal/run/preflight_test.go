package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/sandbox"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// boxes is a backend whose places hold other programs than this host.
type boxes struct {
	programs []string // that every place has
	open     atomic.Int32
	ever     atomic.Int32
	broken   error // of Open
}

func (b *boxes) Open(context.Context, executor.Spec) (executor.Executor, error) {
	if b.broken != nil {
		return nil, b.broken
	}
	b.open.Add(1)
	b.ever.Add(1)
	return &box{b, atomic.Bool{}}, nil
}

func (b *boxes) Inside(executor.Folders) executor.Folders {
	return executor.Folders{Work: "/assay/place/work", Home: "/assay/place/home", Tmp: "/tmp"}
}

type box struct {
	of     *boxes
	closed atomic.Bool
}

func (*box) Files() executor.FS { return nil }

func (b *box) Close(context.Context) error {
	if !b.closed.Swap(true) {
		b.of.open.Add(-1)
	}
	return nil
}

// Run stands for a shell that looks for a program, and for programs that tell their version.
func (b *box) Run(_ context.Context, c executor.Command) (executor.Exit, error) {
	name := c.Argv[0]
	if !slices.Contains(b.of.programs, name) {
		fmt.Fprintf(c.Stderr, "assay: %s: not found\n", name)
		return executor.Exit{Code: 127}, nil
	}
	if name != "sh" {
		fmt.Fprintln(c.Stdout, name+" 1.2.3 of the box")
		return executor.Exit{}, nil
	}
	fmt.Fprintln(c.Stdout, shellIsThere)
	if !slices.Contains(b.of.programs, c.Argv[len(c.Argv)-1]) {
		return executor.Exit{Code: 127}, nil
	}
	return executor.Exit{}, nil
}

// kitOf builds a suite, a txtar archive, over places, and plans its cells.
func kitOf(t *testing.T, places sandbox.Places, archive string) (*Kit, *sandbox.Sandbox, []plan.Cell) {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		name := filepath.Join(dir, "project", f.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, f.Data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	fsys := os.DirFS(filepath.Join(dir, "project"))
	s, err := suite.Load(fsys, "suite", Owned)
	if err != nil {
		t.Fatal(err)
	}
	box, err := sandbox.New(sandbox.Options{
		Suite: filepath.Join(dir, "project"), Scratch: filepath.Join(dir, "scratch"), Cache: filepath.Join(dir, "cache"), Places: places,
	})
	if err != nil {
		t.Fatal(err)
	}
	k, err := Build(s, fsys, box, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Expand(s, plan.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	return k, box, p.Cells
}

// twoCases are a case that needs tools and one that needs none.
const twoCases = `
-- suite/fine/case.yaml --
id: fine
prompt: Say BANANA.
source: {path: fixture}
assertions: [{id: says_it, type: files, present: [BANANA]}]
-- suite/fine/fixture/f.txt --
x
-- suite/tools/case.yaml --
id: tools
prompt: Say BANANA.
tools: [of-the-box, of-the-host]
source: {path: fixture}
assertions: [{id: says_it, type: files, present: [BANANA]}]
-- suite/tools/fixture/f.txt --
x
`

// reasons are What, Reason and the number of cells of each.
func reasons(list []Unreachable) (out []string) {
	for _, u := range list {
		out = append(out, fmt.Sprintf("%s %s %d", u.What, u.Reason, len(u.Cells)))
	}
	return out
}

// Programs are looked for where commands will run, not on this host.
func TestProgramsOfAPlace(t *testing.T) {
	t.Parallel()
	places := &boxes{programs: []string{"sh", "of-the-box", "agent"}}
	k, box, cells := kitOf(t, places, twoCases+`
-- suite/suite.yaml --
name: x
matrix:
  harnesses:
    - {id: there, type: command, stdin: prompt, argv: [agent], version: [agent, --version]}
    - {id: gone, type: command, stdin: prompt, argv: [sh-of-the-host]}
`)
	p, done := PlacePrograms(t.Context(), box)
	versions := k.Versions(t.Context(), p)
	if diff := cmp.Diff(map[string]string{"there": "agent 1.2.3 of the box"}, versions); diff != "" {
		t.Error(diff)
	}
	missing, err := k.Preflight(t.Context(), cells, Reach{Programs: p})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"harness gone no_cli 6", "case tools no_cli 6"}, reasons(missing)); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(missing[len(missing)-1].Text, "of-the-host not found") || strings.Contains(missing[len(missing)-1].Text, "of-the-box") {
		t.Errorf("%+v", missing)
	}
	done()
	if places.open.Load() != 0 || places.ever.Load() != 1 {
		t.Errorf("%d places are open, %d were made", places.open.Load(), places.ever.Load())
	}
}

// A place that cannot be opened, or has no shell, is no place without the program.
func TestProgramsOfABlindPlace(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		places *boxes
		reason string
		says   string
	}{
		"no shell":   {&boxes{}, Unknown, "no sh"},
		"no place":   {&boxes{broken: &executor.Unavailable{What: "executor box", Reason: NoDaemon, Text: "it went"}}, Unknown, "it went"},
		"some error": {&boxes{broken: errors.New("disk full")}, Unknown, "disk full"},
	} {
		k, box, cells := kitOf(t, tt.places, twoCases+"-- suite/suite.yaml --\nname: x\nmatrix: {harnesses: [{id: echo, type: echo}]}\n")
		p, done := PlacePrograms(t.Context(), box)
		missing, err := k.Preflight(t.Context(), cells, Reach{Programs: p})
		done()
		if err != nil || len(missing) != 1 || missing[0].Reason != tt.reason || !strings.Contains(missing[0].Text, tt.says) {
			t.Errorf("%s: %+v, %v", name, missing, err)
		}
	}
}

// A case that names an image has its programs looked for in a place of that image, one place for all cases that name it.
func TestProgramsOfAnImage(t *testing.T) {
	t.Parallel()
	places := &boxes{programs: []string{"sh", "go"}}
	_, box, _ := kitOf(t, places, twoCases+"-- suite/suite.yaml --\nname: x\nmatrix: {harnesses: [{id: echo, type: echo}]}\n")
	p, done := PlacePrograms(t.Context(), box)
	own := &task{Case: suite.Case{Environment: suite.Block{Kind: imageKind}}}
	for _, programs := range []Programs{p, p.forCase(&task{}), p.forCase(own), p.forCase(own)} {
		if err := programs.look(t.Context(), "go"); err != nil {
			t.Error(err)
		}
	}
	if places.ever.Load() != 2 {
		t.Errorf("%d places were made", places.ever.Load())
	}
	done()
	if places.open.Load() != 0 {
		t.Errorf("%d places are open", places.open.Load())
	}
}

// No place is made when nobody asks for a program.
func TestProgramsNobodyAsksFor(t *testing.T) {
	t.Parallel()
	places := &boxes{}
	k, box, _ := kitOf(t, places, twoCases+"-- suite/suite.yaml --\nname: x\nmatrix: {harnesses: [{id: echo, type: echo}]}\n")
	p, done := PlacePrograms(t.Context(), box)
	k.Versions(t.Context(), p)
	done()
	if places.ever.Load() != 0 {
		t.Error("a place was made")
	}
}

// Everything that cannot be reached is told at once, each with a reason of the closed list, and addresses of models are
// asked once.
func TestPreflightTellsEverything(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	models := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "Bearer good" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, "{}")
	}))
	defer models.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	k, _, cells := kitOf(t, &boxes{}, twoCases+strings.NewReplacer("MODELS", models.URL, "GONE", gone.URL).Replace(`
-- suite/suite.yaml --
name: x
matrix:
  trials: 1
  harnesses:
    - {id: good, type: openai, models: [a, b], base_url: "MODELS/v1", key_env: GOOD_KEY}
    - {id: bad, type: openai, models: [a], base_url: "MODELS/v1", key_env: BAD_KEY}
    - {id: none, type: openai, models: [a], base_url: "MODELS/v1", key_env: NO_KEY}
    - {id: away, type: openai, models: [a], base_url: "GONE/v1", key_env: GOOD_KEY}
`))
	keys := func(name string) string {
		return map[string]string{"GOOD_KEY": "good", "BAD_KEY": "bad"}[name]
	}
	reach := Reach{Programs: HostPrograms(""), Keys: keys, Executor: &executor.Unavailable{What: "executor box", Reason: NoDaemon, Text: "start it"}}
	missing, err := k.Preflight(t.Context(), cells, reach)
	if err != nil {
		t.Fatal(err)
	}
	got := reasons(missing)
	slices.Sort(got)
	want := []string{
		"case tools no_cli 5", "executor box no_daemon 10", "model key NO_KEY no_key 2", "models no_auth 2", "models no_network 2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if asked.Load() != 2 {
		t.Errorf("the models were asked %d times", asked.Load())
	}
	for _, u := range missing {
		if !u.Required || !slices.Contains(Reasons(), u.Reason) || u.Text == "" {
			t.Errorf("%+v", u)
		}
	}

	// A replay calls no model, so it reaches for none.
	reach.Keys = nil
	if missing, err = k.Preflight(t.Context(), cells, reach); err != nil || asked.Load() != 2 || len(missing) != 2 {
		t.Errorf("%+v, %v", reasons(missing), err)
	}
}

// In a run that is not trusted, no model at an address that is not public is reached, whatever its URL says.
func TestA29ModelsOfAnUntrustedRun(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	canary := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer canary.Close()
	k, _, cells := kitOf(t, &boxes{}, strings.Split(twoCases, "-- suite/tools")[0]+strings.ReplaceAll(`
-- suite/suite.yaml --
name: x
matrix: {trials: 1, harnesses: [{id: own, type: openai, models: [a], base_url: "CANARY/v1", key_env: KEY}]}
`, "CANARY", canary.URL))
	reach := Reach{Keys: func(string) string { return "key" }, Transport: sandbox.Transport(nil)}
	missing, err := k.Preflight(t.Context(), cells, reach)
	if err != nil || len(missing) != 1 || missing[0].Reason != Unknown || !strings.Contains(missing[0].Text, "not on the public internet; --allow-private-hosts") {
		t.Errorf("%+v, %v", missing, err)
	}
	if reached.Load() != 0 {
		t.Error("the canary was reached")
	}
	reach.Transport = sandbox.Transport([]string{"127.0.0.1"})
	if missing, err := k.Preflight(t.Context(), cells, reach); err != nil || len(missing) != 0 || reached.Load() != 1 {
		t.Errorf("an allowed host was not reached: %+v, %v", missing, err)
	}
}

func TestReasonsAreClosed(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&sandbox.Unavailable{Reason: "weather"}, &executor.Unavailable{Reason: ""}, &agentMissing{errors.New("no idea")},
	} {
		if got := reasonOf(err); got != Unknown {
			t.Errorf("%#v: %s", err, got)
		}
	}
	if got := reasonOf(suite.Problem{Msg: "x"}); got != "" {
		t.Errorf("a fault of the suite is %s", got)
	}
}
