package sandbox

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/suite"
	"github.com/google/go-cmp/cmp"
)

// handed turns what write takes into a tree as it is handed over.
func handed(files map[string]string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for _, name := range sortedKeys(files) {
			text := files[name]
			f := File{Path: strings.TrimRight(name, "@*/!"), Mode: 0o644, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
			switch name[len(name)-1] {
			case '@':
				f.Mode, f.Link = fs.ModeSymlink|0o777, text
			case '*':
				f.Mode = 0o755
			case '!':
				f.Mode = 0o755 | fs.ModeSetuid
			case '/':
				f.Mode = fs.ModeDir | 0o755
			}
			if !yield(f, nil) {
				return
			}
		}
	}
}

func gradingSandbox(t *testing.T, source, hidden map[string]string) (*Sandbox, *Source, *Assets) {
	t.Helper()
	s := newSandbox(t, nil)
	write(t, filepath.Join(s.Suite, "f"), source)
	write(t, filepath.Join(s.Suite, "hidden"), hidden)
	c := folderCase("f")
	c.Hidden = "hidden"
	a, err := s.Assets(t.Context(), c)
	must(t, err)
	return s, resolve(t, s, c), a
}

func grade(t *testing.T, s *Sandbox, src *Source, h Handover) (*Place, []Finding) {
	t.Helper()
	p, found, err := s.Grading(t.Context(), src, h, Needs{})
	must(t, err)
	t.Cleanup(func() { must(t, p.Close(t.Context())) })
	return p, found
}

func TestGradingTree(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name                  string
		source, agent, hidden map[string]string
		files                 []string
		want                  map[string]string
		found                 []string
	}{
		{
			name:   "the agent's bytes, links as text",
			source: map[string]string{"a": "1"},
			agent:  map[string]string{"a": "2", "run*": "x", "d/": "", "out@": "/etc/passwd", "e/dangling@": "../../../x", "latin-\xe9": "", "su!": "x"},
			want:   map[string]string{"a": "2", "run*": "x", "d/": "", "out@": "/etc/passwd", "e/dangling@": "../../../x", "latin-\xe9": "", "su*": "x"},
			found:  []string{"setuid_stripped su"},
		},
		{
			name:  "no .git, no compiled Python",
			agent: map[string]string{"a": "", ".git/hooks/pre-commit*": "evil", ".git/config": "", "sub/.GIT": "gitdir: /", "__pycache__/t.cpython-312.pyc": "evil", "__pycache__/u.pyc": "evil", "x.pyc": ""},
			want:  map[string]string{"a": ""},
			found: []string{"bytecode_dropped ./", "bytecode_dropped __pycache__/", "git_dropped .git", "git_dropped sub/.GIT"},
		},
		{
			name:   "autoloaded files are as before",
			source: map[string]string{"conftest.py": "theirs", "setup.cfg": "kept", "t/pytest.ini": "gone", "node_modules/.bin/jest@": "../jest/cli.js", "node_modules/jest/cli.js": "real"},
			agent: map[string]string{"conftest.py": "evil", "setup.cfg": "kept", "t/sub/conftest.py": "evil", "sitecustomize.py": "", "x.pth": "", "usercustomize/__init__.py": "",
				"jest.config.ts": "", "vitest.config.mjs": "", ".npmrc": "", "deep/.envrc": "", ".bashrc": "", "tox.ini@": "a", "node_modules/.bin/jest@": "../../evil", "node_modules/.bin/node": "trojan",
				"node_modules/jest/cli.js": "real", "conftest.py.txt": "fine"},
			want: map[string]string{"conftest.py": "theirs", "setup.cfg": "kept", "t/pytest.ini": "gone", "node_modules/.bin/jest@": "../jest/cli.js", "node_modules/jest/cli.js": "real", "conftest.py.txt": "fine"},
			found: []string{"autoloaded_reset .bashrc", "autoloaded_reset .npmrc", "autoloaded_reset conftest.py", "autoloaded_reset deep/.envrc", "autoloaded_reset jest.config.ts",
				"autoloaded_reset node_modules/.bin/jest", "autoloaded_reset node_modules/.bin/node", "autoloaded_reset sitecustomize.py", "autoloaded_reset t/pytest.ini",
				"autoloaded_reset t/sub/conftest.py", "autoloaded_reset tox.ini", "autoloaded_reset usercustomize/__init__.py", "autoloaded_reset vitest.config.mjs", "autoloaded_reset x.pth"},
		},
		{
			name:   "an autoloaded file that the case names is the agent's",
			source: map[string]string{"conftest.py": "theirs", "t/conftest.py": "theirs"},
			agent:  map[string]string{"conftest.py": "agent", "t/conftest.py": "agent", "a.pth": "", "src/tox.ini": "agent"},
			files:  []string{"conftest.py", "**/*.pth", "**", "t/**", "src/*"},
			want:   map[string]string{"conftest.py": "agent", "t/conftest.py": "theirs", "a.pth": ""},
			found:  []string{"autoloaded_reset src/tox.ini", "autoloaded_reset t/conftest.py"},
		},
		{
			name:   "a reset goes through no link and no file",
			source: map[string]string{"t/conftest.py": "theirs", "u/conftest.py": "theirs"},
			agent:  map[string]string{"evil/conftest.txt": "", "t@": "evil", "u": "a file"},
			want:   map[string]string{"evil/conftest.txt": "", "t/conftest.py": "theirs", "u/conftest.py": "theirs"},
			found:  []string{"autoloaded_reset t/conftest.py", "autoloaded_reset u/conftest.py", "in_the_way t", "in_the_way u"},
		},
		{
			name:   "hidden assets come last",
			agent:  map[string]string{"a": "", "tests/one_test": "evil", "tests/two_test@": "../../../../canary", "lib@": "/tmp", "dir/x/y": "", "dir/x/z": ""},
			hidden: map[string]string{"tests/one_test": "true", "tests/two_test": "two", "lib/helper*": "h", "dir/x": "file", "new/l@": "../tests/one_test"},
			want:   map[string]string{"a": "", "tests/one_test": "true", "tests/two_test": "two", "lib/helper*": "h", "dir/x": "file", "new/l@": "../tests/one_test"},
			found:  []string{"hidden_overwritten dir/x", "hidden_overwritten lib", "hidden_overwritten tests/one_test", "hidden_overwritten tests/two_test"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, src, hidden := gradingSandbox(t, tt.source, tt.hidden)
			p, found := grade(t, s, src, Handover{Tree: handed(tt.agent), Files: tt.files, Hidden: hidden})
			if diff := cmp.Diff(tt.want, look(t, p.Work)); diff != "" {
				t.Error(diff)
			}
			if tt.found == nil {
				tt.found = []string{}
			}
			if diff := cmp.Diff(tt.found, kinds(found)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestBeforeIsWhatResetsGoBackTo: what setup made is not the agent's doing.
func TestBeforeIsWhatResetsGoBackTo(t *testing.T) {
	t.Parallel()
	s, src, _ := gradingSandbox(t, map[string]string{"a": ""}, nil)
	made := map[string]string{"a": "", "node_modules/.bin/jest@": "../jest"}
	p, found := grade(t, s, src, Handover{Tree: handed(made), Before: handed(made)})
	if diff := cmp.Diff(made, look(t, p.Work)); diff != "" || len(found) != 0 {
		t.Errorf("findings %v\n%s", found, diff)
	}
}

// TestA12HiddenAssetsNeverLeaveThePlace: a link of the agent at the path of a hidden asset, or on the way to it, does not
// lead a write to the host.
func TestA12HiddenAssetsNeverLeaveThePlace(t *testing.T) {
	t.Parallel()
	s, src, hidden := gradingSandbox(t, nil, map[string]string{"tests/a": "answer", "b": "answer", "deep/down/c": "answer"})
	host := t.TempDir()
	write(t, host, map[string]string{"canary": "untouched", "deep/down/c": "untouched"})
	before := look(t, host)
	agent := map[string]string{"tests@": host, "b@": filepath.Join(host, "canary"), "deep@": filepath.Join(host, "deep")}
	p, _ := grade(t, s, src, Handover{Tree: handed(agent), Hidden: hidden})
	if diff := cmp.Diff(before, look(t, host)); diff != "" {
		t.Error(diff)
	}
	info, err := os.Lstat(filepath.Join(p.Work, "b"))
	must(t, err)
	if info.Mode() != 0o444 {
		t.Errorf("a hidden file has mode %v, want read-only", info.Mode())
	}
}

// TestA17ChangedAssets: hidden assets that are no longer those of preflight are not graded with.
func TestA17ChangedAssets(t *testing.T) {
	t.Parallel()
	s, src, hidden := gradingSandbox(t, map[string]string{"a": ""}, map[string]string{"t": "true"})
	must(t, hidden.Verify())
	write(t, s.Suite, map[string]string{"hidden/t": "evil"})
	_, _, err := s.Grading(t.Context(), src, Handover{Tree: handed(nil), Hidden: hidden}, Needs{})
	for _, err := range []error{err, hidden.Verify()} {
		var broken *Error
		if !errors.As(err, &broken) || broken.Class != "grader" {
			t.Errorf("got %v, want class grader", err)
		}
	}
	if n := places(t, s); n != 0 {
		t.Errorf("%d places are left", n)
	}
	var none *Assets
	must(t, none.Verify())
}

// TestChangedTestSettings: a file with other uses too, in which the agent changed how tests are run, is as before.
func TestChangedTestSettings(t *testing.T) {
	t.Parallel()
	before := map[string]string{"pyproject.toml": "[tool.pytest.ini_options]\n", "a.toml": "old"}
	s, src, _ := gradingSandbox(t, before, nil)
	agent := map[string]string{"pyproject.toml": "[tool.pytest.ini_options]\naddopts='-p evil'\n", "a.toml": "new"}
	p, notes := grade(t, s, src, Handover{Tree: handed(agent), Config: []string{"pyproject.toml"}})
	if diff := cmp.Diff(map[string]string{"pyproject.toml": before["pyproject.toml"], "a.toml": "new"}, look(t, p.Work)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"autoloaded_reset pyproject.toml"}, kinds(notes)); diff != "" {
		t.Error(diff)
	}
}

func TestHostileHandovers(t *testing.T) {
	t.Parallel()
	s, src, _ := gradingSandbox(t, map[string]string{"a": ""}, nil)
	broken := errors.New("broken")
	one := func(f File, err error) iter.Seq2[File, error] {
		return func(yield func(File, error) bool) { yield(f, err) }
	}
	zeros := func() (io.ReadCloser, error) { return io.NopCloser(&endless{}), nil }
	tests := []struct {
		name string
		tree iter.Seq2[File, error]
		want error // nil: any
	}{
		{"up", one(File{Path: "../x"}, nil), nil},
		{"absolute", one(File{Path: "/x"}, nil), nil},
		{"nothing", one(File{Path: ""}, nil), nil},
		{"empty part", one(File{Path: "a//b"}, nil), nil},
		{"error", one(File{}, broken), broken},
		{"too many", func(yield func(File, error) bool) {
			for yield(File{Path: "d", Mode: fs.ModeDir}, nil) {
			}
		}, ErrTooLarge},
		{"unreadable", one(File{Path: "a", Open: func() (io.ReadCloser, error) { return nil, broken }}, nil), broken},
		{"endless autoloaded", one(File{Path: "conftest.py", Open: zeros}, nil), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, _, err := s.Grading(t.Context(), src, Handover{Tree: tt.tree}, Needs{})
			if tt.name == "endless autoloaded" {
				must(t, err) // it is not even read, since there was none before
				must(t, p.Close(t.Context()))
				return
			}
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
	if n := places(t, s); n != 0 {
		t.Errorf("%d places are left", n)
	}
}

type endless struct{}

func (*endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestGradingEnvironment: the commands of an environment see the source, never what the agent wrote.
func TestGradingEnvironment(t *testing.T) {
	t.Parallel()
	s, src, _ := gradingSandbox(t, map[string]string{"build.sh": "echo ours > $1/made; touch litter"}, nil)
	for _, text := range []string{`{type: command, run: ["sh build.sh {env}"], env: {E: "{env}"}}`, `{type: command, run: ["sh build.sh {env}"], env: {E: "{env}"}, inputs: [build.sh]}`} {
		n := Needs{Environment: environment(t, text), Log: new(bytes.Buffer)}
		p, _, err := s.Grading(t.Context(), src, Handover{Tree: handed(map[string]string{"build.sh": "echo evil > $1/made", "new": ""})}, n)
		must(t, err)
		if diff := cmp.Diff(map[string]string{"made": "ours\n"}, look(t, p.Folders.Env)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(map[string]string{"build.sh": "echo evil > $1/made", "new": ""}, look(t, p.Work)); diff != "" {
			t.Error(diff)
		}
		if !slices.Equal(p.Env, []string{"E=" + p.Folders.Env}) {
			t.Errorf("env: %v", p.Env)
		}
		must(t, p.Close(t.Context()))
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, map[string]string{"f/a": "", "file": ""})
	c := folderCase("f")
	if a, err := s.Assets(t.Context(), c); a != nil || err != nil {
		t.Errorf("a case without: %v, %v", a, err)
	}
	for _, hidden := range []string{"none", "file"} {
		c.Hidden = hidden
		var problem suite.Problem
		if _, err := s.Assets(t.Context(), c); !errors.As(err, &problem) {
			t.Errorf("%s: %v", hidden, err)
		}
	}
	c.Fixtures = &suite.Repo{}
	if _, err := s.Assets(t.Context(), c); err == nil {
		t.Error("hidden and fixtures at once")
	}

	g := newGitServer(t)
	id := g.commit(t, "r", map[string]string{"hidden/t": "true"})
	repo := g.repo("r", id, "hidden")
	c.Hidden, c.Fixtures = "", repo.Source.Repo
	s.Allow = []string{"127.0.0.1"}
	s.client = newClient(s.Allow, nil)
	a, err := s.Assets(t.Context(), c)
	must(t, err)
	p, _ := grade(t, s, resolve(t, s, c), Handover{Tree: handed(nil), Hidden: a})
	if diff := cmp.Diff(map[string]string{"t": "true"}, look(t, p.Work)); diff != "" {
		t.Error(diff)
	}
	must(t, a.Verify())
}
