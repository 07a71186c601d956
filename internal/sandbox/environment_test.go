package sandbox

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/assay-ci/assay/internal/suite"
	"github.com/google/go-cmp/cmp"
)

// environment builds an environment from the YAML of its settings, through a suite as users write it.
func environment(t testing.TB, text string) *Environment {
	t.Helper()
	e, err := buildFrom(t, text)
	must(t, err)
	return e
}

func buildFrom(t testing.TB, text string) (*Environment, error) {
	t.Helper()
	loaded, err := suite.Load(fstest.MapFS{
		"suite.yaml": {Data: []byte("name: s\nmatrix:\n  harnesses: [{id: e, type: echo}]\n  conditions: [{id: a, baseline: true}]\n")},
		"c/case.yaml": {Data: []byte("id: c\nprompt: p\nsource: {path: f}\nassertions: [{id: x, type: command, run: \"true\"}]\n" +
			"environment: " + text + "\n")},
		"c/f/a": {},
	}, "suite.yaml", nil)
	must(t, err)
	block := loaded.Cases[0].Environment
	for _, k := range Kinds {
		if k.Name == block.Kind {
			return k.Build(block)
		}
	}
	t.Fatalf("no environment %s", block.Kind)
	return nil, nil
}

func TestEnvironmentSettings(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, want string }{
		{`{type: none}`, ""},
		{`{type: command, run: ["true"], env: {A_1: x}, inputs: [go.mod]}`, ""},
		{`{type: none, run: [x]}`, `unknown key "run"`},
		{`{type: command}`, "run"},
		{`{type: command, run: [x], env: {"A=B": x}}`, "A=B"},
		{`{type: command, run: [x], inputs: [../x]}`, "../x"},
		{`{type: command, run: [x], timeout: 0s}`, "timeout"},
	}
	for _, tt := range tests {
		e, err := buildFrom(t, tt.text)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.text, err, tt.want)
		}
		if !e.empty() && e.timeout != 15*time.Minute {
			t.Errorf("%s: the default limit is %v", tt.text, e.timeout)
		}
	}
	for _, k := range Kinds {
		if k.Doc == "" || k.Params == nil {
			t.Errorf("%s lacks its doc or its params", k.Name)
		}
	}
}

func TestEnvironmentWithoutInputsRunsInEachPlace(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, map[string]string{"f/a": "text"})
	src := resolve(t, s, folderCase("f"))
	e := environment(t, `{type: command, run: ["cp a {env}/b; touch here", 'printf "$WHERE" > {env}/where'], env: {WHERE: "{env}/x", A: e}}`)
	p := open(t, s, src, Needs{Environment: e, Env: []string{"A=case"}})
	want := map[string]string{"b": "text", "where": p.Folders.Env + "/x"}
	if diff := cmp.Diff(want, look(t, p.Folders.Env)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"A=e", "WHERE=" + p.Folders.Env + "/x", "A=case"}, p.Env); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(filepath.Join(p.Work, "here")); err != nil {
		t.Error("the commands do not run in the tree")
	}
}

func TestEnvironmentWithInputsIsMadeOnce(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, map[string]string{"f/go.mod": "module m", "f/lib/a": "1", "f/other": "x"})
	count := filepath.Join(t.TempDir(), "count")
	e := environment(t, `{type: command, run: ["echo made >> `+count+`; ls -R > {env}/seen; mkdir {env}/d; ln -s /etc {env}/abs; touch {env}/d/x; chmod 555 {env}/d"],
		env: {CACHE: "{env}"}, inputs: [go.mod, lib]}`)
	src := resolve(t, s, folderCase("f"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			p, err := s.Open(t.Context(), src, Needs{Environment: e})
			if err == nil {
				err = errors.Join(os.WriteFile(filepath.Join(p.Folders.Env, "d/x"), []byte("mine"), 0o644), p.Close(t.Context()))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s.cache = newCache(s.Cache, s.memory) // a later run
	p := open(t, s, src, Needs{Environment: e})
	want := map[string]string{"seen": ".:\ngo.mod\nlib\n\n./lib:\na\n", "abs@": "/etc", "d/x": ""}
	if diff := cmp.Diff(want, look(t, p.Folders.Env)); diff != "" {
		t.Error(diff)
	}
	made := func() int {
		data, err := os.ReadFile(count)
		must(t, err)
		return bytes.Count(data, []byte("made"))
	}
	if n := made(); n != 1 {
		t.Errorf("it was made %d times", n)
	}
	if diff := cmp.Diff([]string{"CACHE=" + p.Folders.Env}, p.Env); diff != "" {
		t.Error(diff)
	}

	entries, err := filepath.Glob(filepath.Join(s.Cache, "env-*"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(entries[0], "tree/d/x"), []byte("trojan"), 0o644))
	s.cache = newCache(s.Cache, s.memory)
	p = open(t, s, src, Needs{Environment: e})
	if diff := cmp.Diff(want, look(t, p.Folders.Env)); diff != "" || made() != 2 || len(p.Findings) != 1 {
		t.Errorf("made %d times, findings %v\n%s", made(), p.Findings, diff)
	}

	write(t, s.Suite, map[string]string{"f/lib/a": "2"})
	s.folders = map[[2]string]*tree{}
	open(t, s, resolve(t, s, folderCase("f")), Needs{Environment: e})
	if n := made(); n != 3 {
		t.Errorf("after an input changed it was made %d times, want 3", n)
	}
}

func TestEnvironmentFailures(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, map[string]string{"f/a": ""})
	src := resolve(t, s, folderCase("f"))
	tests := []struct {
		name string
		env  Environment
		want string
	}{
		{"exit", Environment{run: []string{"echo why; exit 3"}, timeout: time.Minute}, "exit code 3\nwhy\n"},
		{"exit when cached", Environment{run: []string{"echo why; exit 3"}, inputs: []string{"a"}, timeout: time.Minute}, "exit code 3\nwhy\n"},
		{"limit", Environment{run: []string{"exec sleep 9"}, timeout: 30 * time.Millisecond}, "ran past its limit"},
		{"missing input", Environment{run: []string{"true"}, inputs: []string{"b"}, timeout: time.Minute}, `input "b" is not in the source`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.Open(t.Context(), src, Needs{Environment: &tt.env})
			var broken *Error
			if !errors.As(err, &broken) || broken.Class != "environment" || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want class environment and %q", err, tt.want)
			}
			if n := places(t, s); n != 0 {
				t.Errorf("%d places are left", n)
			}
		})
	}
}
