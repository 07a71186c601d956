package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// overlaid returns a sandbox whose places show their trees, and its twin, which copies the same ones. It skips where
// overlays cannot be mounted.
func overlaid(t testing.TB, files map[string]string, allow ...string) (shows, copies *Sandbox) {
	t.Helper()
	shows = newSandbox(t, files, allow...)
	if !canOverlay(shows.Scratch) {
		t.Skip("overlays cannot be mounted here: that takes CAP_SYS_ADMIN and a folder that is not in an overlay")
	}
	t.Cleanup(func() { must(t, errors.Join(Unmount(shows.Scratch), noMounts(shows.Scratch))) })
	shows.Overlay = true
	other := shows.Options
	other.Scratch, other.Overlay = filepath.Join(t.TempDir(), "scratch"), false
	copies, err := New(other)
	must(t, err)
	return shows, copies
}

func noMounts(dir string) error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if left := mountsBelow(dir, table); err == nil && len(left) > 0 {
		err = fmt.Errorf("mounts are left: %v", left)
	}
	return err
}

// large is a tree that is worth showing, with one of each thing that a tree may hold.
func large(more map[string]string) map[string]string {
	files := map[string]string{"f/run.sh*": "#!/bin/sh\n", "f/deep/link@": "../run.sh", "f/empty/": "", "f/deep/empty/": "", "f/.hidden": "h", "f/ä b": "name"}
	for i := range showFiles {
		files[fmt.Sprintf("f/d%d/e%d/f%d", i%7, i%3, i)] = strings.Repeat("x", i)
	}
	for name, text := range more {
		files[name] = text
	}
	return files
}

// listed is the whole of a folder as text: names, modes, links and the sums of all files.
func listed(t testing.TB, dir string) string {
	t.Helper()
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	tree, err := readTree(root, foreignRules, nil)
	must(t, err)
	modes := &strings.Builder{}
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			fmt.Fprintln(modes, info.Mode(), strings.TrimPrefix(name, dir))
		}
		return err
	}))
	return string(tree.listing()) + modes.String()
}

func TestShownAndCopiedAreTheSameBytes(t *testing.T) {
	shows, copies := overlaid(t, large(nil))
	c := folderCase("f")
	for _, env := range []*Environment{nil, environment(t, `{type: command, inputs: [a], run: ["for i in $(seq 600); do echo $i > {env}/$i; done; ln -s 1 {env}/link; mkdir {env}/d; chmod 755 {env}/2"]}`)} {
		if env != nil {
			write(t, filepath.Join(shows.Suite, "f"), map[string]string{"a": "x"})
			shows.folders, copies.folders = map[[2]string]*tree{}, map[[2]string]*tree{}
		}
		a, b := open(t, shows, resolve(t, shows, c), Needs{Environment: env}), open(t, copies, resolve(t, copies, c), Needs{Environment: env})
		if a.Layout != Shown || b.Layout != Copied {
			t.Fatalf("the layouts are %s and %s", a.Layout, b.Layout)
		}
		if diff := cmp.Diff(listed(t, b.Root), listed(t, a.Root)); diff != "" {
			t.Errorf("environment %v: (-copied +shown)\n%s", env != nil, diff)
		}
		if device(filepath.Join(a.Work, "run.sh")) != device(a.Work) {
			t.Error("files of the tree seem to be mounted, so no snapshot would count them")
		}
	}
}

func TestShownRepositoryIsThatOfACopy(t *testing.T) {
	g := newGitServer(t)
	shows, copies := overlaid(t, nil, "127.0.0.1")
	files := map[string]string{}
	for name, text := range large(nil) {
		files[strings.TrimPrefix(name, "f/")] = text
	}
	delete(files, "empty/")
	delete(files, "deep/empty/")
	commit := g.commit(t, "r", files)
	a, b := open(t, shows, resolve(t, shows, g.repo("r", commit, "")), Needs{}), open(t, copies, resolve(t, copies, g.repo("r", commit, "")), Needs{})
	if a.Layout != Shown {
		t.Fatalf("the layout is %s", a.Layout)
	}
	if diff := cmp.Diff(listed(t, b.Root), listed(t, a.Root)); diff != "" {
		t.Errorf("(-copied +shown)\n%s", diff)
	}
	if out := runGit(t, a.Work, "status", "--porcelain"); out != "" {
		t.Errorf("git sees changes: %s", out)
	}
}

func TestWhatAPlaceWritesStaysThere(t *testing.T) {
	s, _ := overlaid(t, large(nil))
	src := resolve(t, s, folderCase("f"))
	first := open(t, s, src, Needs{})
	before := listed(t, first.Work)
	must(t, errors.Join(
		os.WriteFile(filepath.Join(first.Work, "run.sh"), []byte("mine"), 0o755),
		os.Rename(filepath.Join(first.Work, "d1"), filepath.Join(first.Work, "moved")),
		os.RemoveAll(filepath.Join(first.Work, "d2")),
		os.Chmod(filepath.Join(first.Work, "d3"), 0),
		os.Mkdir(filepath.Join(first.Work, "new"), 0o755),
	))
	second := open(t, s, src, Needs{})
	if diff := cmp.Diff(before, listed(t, second.Work)); diff != "" {
		t.Errorf("what one place wrote is in another: %s", diff)
	}
	must(t, errors.Join(first.Close(t.Context()), second.Close(t.Context()), noMounts(s.Scratch)))
	if left, _ := filepath.Glob(filepath.Join(s.Scratch, "[pu]*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// Whoever runs as our user can find the tree that places show. The cell that was there is not counted, and the next one
// gets a tree that nobody touched.
func TestA14ShownTreeIsWatched(t *testing.T) {
	s, _ := overlaid(t, large(nil))
	src := resolve(t, s, folderCase("f"))
	for _, change := range []func(tree string) error{
		func(tree string) error {
			return os.WriteFile(filepath.Join(tree, "run.sh"), []byte("#!/bin/no\n"), 0o755)
		},
		func(tree string) error { return os.WriteFile(filepath.Join(tree, "more"), nil, 0o644) },
		func(tree string) error { return os.Chmod(filepath.Join(tree, "deep"), 0o700) },
		func(tree string) error { return os.Remove(filepath.Join(tree, "d1", "e1", "f1")) },
	} {
		p, err := s.Open(t.Context(), src, Needs{})
		must(t, err)
		want := listed(t, p.Work)
		stages, err := filepath.Glob(filepath.Join(s.Scratch, "stage*"))
		must(t, err)
		must(t, change(filepath.Join(stages[len(stages)-1], "tree")))
		if err := p.Close(t.Context()); !errors.Is(err, errChanged) {
			t.Errorf("the place was closed with %v", err)
		}
		next := open(t, s, src, Needs{})
		if diff := cmp.Diff(want, listed(t, next.Work)); diff != "" || len(next.Findings) != 1 {
			t.Errorf("findings %v\n%s", next.Findings, diff)
		}
		must(t, next.Close(t.Context()))
		for _, old := range stages {
			must(t, os.RemoveAll(old))
		}
	}
}

func TestA15PoisonedEnvironmentIsNotShown(t *testing.T) {
	s, _ := overlaid(t, map[string]string{"f/a": "x"})
	src := resolve(t, s, folderCase("f"))
	n := Needs{Environment: environment(t, `{type: command, inputs: [a], run: ["for i in $(seq 600); do echo $i > {env}/$i; done"]}`)}
	must(t, open(t, s, src, n).Close(t.Context()))
	entries, err := filepath.Glob(filepath.Join(s.Cache, "env-*"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(entries[0], "tree/7"), []byte("8\n"), 0o644))
	p := open(t, s, src, n)
	data, err := os.ReadFile(filepath.Join(p.Folders.Env, "7"))
	must(t, err)
	if string(data) != "7\n" || len(p.Findings) != 1 || p.Findings[0].Kind != FoundBadCache {
		t.Errorf("the place holds %q, findings %v", data, p.Findings)
	}
}

// childScratch names the folder in which the child of the next test makes its places.
const childScratch = "SANDBOX_TEST_SCRATCH"

func TestMountsOfAKilledProcessAreEnded(t *testing.T) {
	if dir := os.Getenv(childScratch); dir != "" {
		s := newSandbox(t, large(nil))
		s.Scratch, s.Overlay = dir, true
		_, err := s.Open(t.Context(), resolve(t, s, folderCase("f")), Needs{})
		must(t, err)
		fmt.Println("ready")
		select {}
	}
	s, _ := overlaid(t, nil)
	cmd := exec.Command(os.Args[0], "-test.run=^TestMountsOfAKilledProcessAreEnded$")
	cmd.Env = append(os.Environ(), childScratch+"="+s.Scratch)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	seen := make([]byte, 64)
	n, err := out.Read(seen)
	must(t, errors.Join(err, cmd.Process.Kill()))
	if !bytes.HasPrefix(seen[:n], []byte("ready")) {
		t.Fatalf("the child said %q", seen[:n])
	}
	_ = cmd.Wait()
	if noMounts(s.Scratch) == nil {
		t.Fatal("the killed process left no mount, so this test shows nothing")
	}
	must(t, errors.Join(Unmount(s.Scratch), noMounts(s.Scratch), RemoveAll(s.Scratch)))
}

func TestMountsBelow(t *testing.T) {
	t.Parallel()
	table := "22 1 8:1 / / rw - ext4 /dev/a rw\n" +
		"30 22 0:5 / /tmp/x rw - tmpfs t rw\n" +
		"31 22 0:5 / /tmp/x/a\\040b\\134c rw shared:1 - overlay assay rw\n" +
		"32 22 0:5 / /tmp/xy/b rw - overlay assay rw\n" +
		"garbage\n33 22 0:5 / /tmp/x/c\\9 rw - overlay assay rw\n"
	if diff := cmp.Diff([]string{"/tmp/x/a b\\c", "/tmp/x/c\\9"}, mountsBelow("/tmp/x", []byte(table))); diff != "" {
		t.Error(diff)
	}
}
