package diffscope

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// A conformance case, as testdata/cases/README.md describes it.
type conformance struct {
	Files       []string        `json:"files"`
	Materialize map[string][]op `json:"materialize"`
}

type op struct{ Op, Path, Text, Base64, Target, Mode string }

func TestConformance(t *testing.T) {
	t.Parallel()
	cases := conformanceTrees(t)
	if len(cases) != 45 {
		t.Fatalf("found %d cases, want 45", len(cases))
	}
	for name, c := range cases {
		dir := filepath.Join("testdata/cases", name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := take(t, c.before)
			for name, after := range map[string]Tree{"Snapshot": take(t, c.after), "Again": again(t, before, c.after)} {
				_, got := compare(t, before, after, Paths{Files: c.files})
				var want Counts
				readJSON(t, filepath.Join(dir, "expected.json"), &want)
				if diff := cmp.Diff(want, got.Counts); diff != "" {
					t.Errorf("%s: counts (-want +got):\n%s", name, diff)
				}
				var reference struct {
					Files   []Row  `json:"files"`
					Outside Counts `json:"outside_scope"`
				}
				readJSON(t, filepath.Join(dir, "reference.json"), &reference)
				if diff := cmp.Diff(append([]Row{}, reference.Files...), got.Files); diff != "" {
					t.Errorf("%s: rows (-want +got):\n%s", name, diff)
				}
				if diff := cmp.Diff(reference.Outside, got.Outside.Counts); diff != "" {
					t.Errorf("%s: outside scope (-want +got):\n%s", name, diff)
				}
				if wantNone := want.FilesTouched+reference.Outside.FilesTouched == 0; got.NoChange != wantNone {
					t.Errorf("%s: no_change is %v, want %v", name, got.NoChange, wantNone)
				}
			}
		})
	}
}

func (o op) apply(t *testing.T, root string) {
	t.Helper()
	name := filepath.Join(root, o.Path)
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	switch o.Op {
	case "write":
		content := []byte(o.Text)
		if o.Base64 != "" {
			var err error
			content, err = base64.StdEncoding.DecodeString(o.Base64)
			must(t, err)
		}
		must(t, os.WriteFile(name, content, 0o644))
	case "symlink":
		must(t, os.Symlink(o.Target, name))
	case "chmod":
		mode, err := strconv.ParseUint(o.Mode, 8, 32)
		must(t, err)
		must(t, os.Chmod(name, os.FileMode(mode)))
	case "mkdir":
		must(t, os.MkdirAll(name, 0o755))
	case "mkfifo":
		must(t, unix.Mkfifo(name, 0o644))
	case "git-init", "git-init-commit":
		must(t, os.MkdirAll(name, 0o755))
		git(t, name, "init", "-q", ".")
		if o.Op == "git-init-commit" {
			git(t, name, "add", "-A")
			git(t, name, "commit", "-q", "-m", "c")
		}
	default:
		t.Fatalf("unknown op %q", o.Op)
	}
}

// git runs git without any configuration of this machine, and skips the test where there is none.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := gitCommand(t, dir, args...).Output()
	if err != nil {
		if exit, ok := err.(*exec.ExitError); ok {
			t.Fatalf("git %v: %v\n%s", args, err, exit.Stderr)
		}
		t.Fatalf("git %v: %v", args, err)
	}
	return string(out)
}

func gitCommand(t testing.TB, dir string, args ...string) *exec.Cmd {
	t.Helper()
	program, err := exec.LookPath("git")
	if err != nil {
		t.Skip("needs git")
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=c", "GIT_AUTHOR_EMAIL=c@localhost", "GIT_COMMITTER_NAME=c", "GIT_COMMITTER_EMAIL=c@localhost",
	}
	return cmd
}

func take(t testing.TB, root string) Tree {
	t.Helper()
	tree, err := Snapshot(t.Context(), root)
	must(t, err)
	return tree
}

func again(t testing.TB, before Tree, root string) Tree {
	t.Helper()
	tree, err := before.Again(t.Context(), root)
	must(t, err)
	return tree
}

func compare(t testing.TB, before, after Tree, scope Paths) (Patch, Scope) {
	t.Helper()
	patch, s, err := Compare(before, after, scope)
	must(t, err)
	return patch, s
}

func readJSON(t testing.TB, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(name)
	must(t, err)
	must(t, json.Unmarshal(data, into))
}

// copyFolder copies regular files with mode 644; a missing folder is an empty one.
func copyFolder(t testing.TB, from, to string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	if !os.IsNotExist(err) {
		must(t, err)
	}
	for _, e := range entries {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if e.IsDir() {
			must(t, os.Mkdir(target, 0o755))
			copyFolder(t, source, target)
			continue
		}
		data, err := os.ReadFile(source)
		must(t, err)
		must(t, os.WriteFile(target, data, 0o644))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func lines(text ...string) string { return strings.Join(text, "\n") + "\n" }
