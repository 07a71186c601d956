package diffscope

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// listing gives a tree as path, mode and content, with a marker for what was not read.
func listing(t testing.TB, tree Tree) map[string]string {
	t.Helper()
	got := map[string]string{}
	for f, err := range tree.Files() {
		if err != nil {
			got[f.Path] = "unread"
			continue
		}
		r, err := f.Open()
		must(t, err)
		content, err := io.ReadAll(r)
		must(t, err)
		must(t, r.Close())
		if f.Mode&fs.ModeSymlink != 0 && f.Link != string(content) {
			t.Errorf("%s: link %q, content %q", f.Path, f.Link, content)
		}
		got[f.Path] = fmt.Sprintf("%v %s", f.Mode, content)
	}
	return got
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	root := folder{
		"file":             "text\n",
		"run.sh":           "#!sh\n",
		"empty":            "",
		"dir/.hidden":      "h\n",
		"dir/deep/er/file": "d\n",
		"link":             "-> file",
		"loop":             "-> loop",
		"up":               "-> ..",
		"root":             "-> /",
		"one/to":           "-> ../two/to",
		"two/to":           "-> ../../outside",
		".gitignore":       "*\n",
		".git/config":      "x",
		"sub/.git/config":  "x",
		"sub/file":         "s\n",
		"mod/.git":         "gitdir: elsewhere\n",
	}.write(t)
	must(t, os.MkdirAll(root+"/nothing/in/here", 0o755))
	must(t, unix.Mkfifo(root+"/dir/pipe", 0o644))
	socket, err := net.Listen("unix", root+"/socket")
	must(t, err)
	t.Cleanup(func() { socket.Close() })
	tree := take(t, root)
	want := map[string]string{
		"file":             "-rw-r--r-- text\n",
		"run.sh":           "-rwxr-xr-x #!sh\n",
		"empty":            "-rw-r--r-- ",
		"dir/.hidden":      "-rw-r--r-- h\n",
		"dir/deep/er/file": "-rw-r--r-- d\n",
		"link":             "Lrwxrwxrwx file",
		"loop":             "Lrwxrwxrwx loop",
		"up":               "Lrwxrwxrwx ..",
		"root":             "Lrwxrwxrwx /",
		"one/to":           "Lrwxrwxrwx ../two/to",
		"two/to":           "Lrwxrwxrwx ../../outside",
		".gitignore":       "-rw-r--r-- *\n",
		"sub/file":         "-rw-r--r-- s\n",
	}
	if diff := cmp.Diff(want, listing(t, tree)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Skip{{"dir/pipe", "fifo"}, {"socket", "socket"}}, tree.skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{".git", "mod/.git", "sub/.git"}, tree.gits); diff != "" {
		t.Errorf("gits (-want +got):\n%s", diff)
	}
}

func TestSnapshotOfALink(t *testing.T) {
	t.Parallel()
	link := t.TempDir() + "/link"
	must(t, os.Symlink(folder{"a": "a\n"}.write(t), link))
	if diff := cmp.Diff(map[string]string{"a": "-rw-r--r-- a\n"}, listing(t, take(t, link))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSnapshotErrors(t *testing.T) {
	t.Parallel()
	root := folder{"a": "12345", "b/c": "12345", "b/d": "12345", "e/f": ""}.write(t)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		rule    string
		ctx     context.Context
		root    string
		lim     func(*limits)
		class   string
		byAgent bool
		is      error
	}{
		{rule: "no such folder", root: root + "/none", class: "io", is: fs.ErrNotExist},
		{rule: "not a folder", root: root + "/a", class: "io", is: unix.ENOTDIR},
		{rule: "too many entries", root: root, lim: func(l *limits) { l.entries = 5 }, class: "tree_too_big", byAgent: true},
		{rule: "too long paths", root: root, lim: func(l *limits) { l.paths = 5 }, class: "tree_too_big", byAgent: true},
		{rule: "too much content", root: root, lim: func(l *limits) { l.read = 14 }, class: "tree_too_big", byAgent: true},
		{rule: "too many open folders", root: root, lim: func(l *limits) { l.open = 1 }, class: "tree_too_big", byAgent: true},
		{rule: "canceled", ctx: canceled, root: root, is: context.Canceled},
	} {
		ctx, lim := t.Context(), standardLimits()
		if test.ctx != nil {
			ctx = test.ctx
		}
		if test.lim != nil {
			test.lim(&lim)
		}
		_, err := snapshot(ctx, test.root, Tree{}, lim)
		if err == nil {
			t.Errorf("%s: no error", test.rule)
			continue
		}
		var e *Error
		if errors.As(err, &e) != (test.class != "") || e != nil && (e.Class != test.class || e.ByAgent != test.byAgent) {
			t.Errorf("%s: %#v", test.rule, err)
		}
		if test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: %v is not %v", test.rule, err, test.is)
		}
	}
	lim := standardLimits()
	lim.entries, lim.read = 6, 15
	if _, err := snapshot(t.Context(), root, Tree{}, lim); err != nil {
		t.Errorf("just below the limits: %v", err)
	}
}

// TestContentOnDisk takes snapshots that may keep next to nothing in memory.
func TestContentOnDisk(t *testing.T) {
	t.Parallel()
	lim := standardLimits()
	lim.memory, lim.whole, lim.unread = 10, 20, 40
	small, large, huge := strings.Repeat("a\n", 9), strings.Repeat("b\n", 15), strings.Repeat("c\n", 30)
	root := folder{"1": "x\n", "2": small, "large": large, "huge": huge, "other": small}.write(t)
	before, err := snapshot(t.Context(), root, Tree{}, lim)
	must(t, err)
	want := map[string]string{
		"1": "-rw-r--r-- x\n", "2": "-rw-r--r-- " + small, "large": "-rw-r--r-- " + large, "huge": "unread", "other": "-rw-r--r-- " + small,
	}
	if diff := cmp.Diff(want, listing(t, before)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	must(t, os.WriteFile(root+"/2", []byte(small+"more\n"), 0o644))
	must(t, os.WriteFile(root+"/large", []byte(large[:28]+"z\n"), 0o644))
	must(t, os.WriteFile(root+"/new", []byte(huge), 0o644))
	after, err := snapshot(t.Context(), root, before, lim)
	must(t, err)
	if find(before.entries, "other").blob != find(after.entries, "other").blob {
		t.Error("content that did not change is kept twice")
	}
	apart, err := snapshot(t.Context(), root, Tree{}, lim)
	must(t, err)
	for name, tree := range map[string]Tree{"shared": after, "apart": apart} {
		patch, s := compare(t, before, tree, Paths{})
		if diff := cmp.Diff(Counts{FilesTouched: 3, LinesAdded: 2, LinesRemoved: 1, Hunks: 2}, s.Counts); diff != "" {
			t.Errorf("%s: counts (-want +got):\n%s", name, diff)
		}
		if new := s.Files[2]; new.Uncounted != "too_large" || new.LinesAdded != nil || !s.Approximate {
			t.Errorf("%s: a file that was not read: %+v, approximate %v", name, new, s.Approximate)
		}
		if diff := cmp.Diff([]Finding{{"unread", "huge", "its content was not read in either tree: too_large"}}, s.Findings); diff != "" {
			t.Errorf("%s: findings (-want +got):\n%s", name, diff)
		}
		if text := string(patchText(t, patch)); !strings.Contains(text, "# not in this patch: new (too_large)\n") || !strings.Contains(text, "+more\n") {
			t.Errorf("%s: patch:\n%s", name, text)
		}
	}
}

func TestAgainReadsEveryByte(t *testing.T) {
	t.Parallel()
	root := folder{"a": "one\n", "b": "two\n"}.write(t)
	clock := time.Unix(1, 0)
	must(t, os.Chtimes(root+"/a", clock, clock))
	before := take(t, root)
	must(t, os.WriteFile(root+"/a", []byte("eno\n"), 0o644))
	must(t, os.Chtimes(root+"/a", clock, clock))
	after := again(t, before, root)
	if _, s := compare(t, before, after, Paths{}); s.LinesAdded != 1 || s.LinesRemoved != 1 {
		t.Errorf("an edit of equal size and time counts %+v", s.Counts)
	}
	if find(before.entries, "b").blob != find(after.entries, "b").blob {
		t.Error("content that did not change is kept twice")
	}
	if before.ID() == after.ID() || take(t, root).ID() != after.ID() {
		t.Error("the ids of the trees do not follow their content")
	}
}

// TestMoving replaces the file under the walker, between the look at its folder and the look at the file itself.
func TestMoving(t *testing.T) {
	t.Parallel()
	root := folder{"a": "one\n"}.write(t)
	var st unix.Stat_t
	must(t, unix.Lstat(root+"/a", &st))
	must(t, os.WriteFile(root+"/a", []byte("longer\n"), 0o644))
	dir, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	defer unix.Close(dir)
	w := walker{ctx: t.Context(), lim: standardLimits(), buffer: make([]byte, 100)}
	if err := w.regular(dir, "a", &st); err != errMoved {
		t.Errorf("a file that grew: %v", err)
	}
	must(t, os.Remove(root+"/a"))
	must(t, unix.Mkfifo(root+"/a", 0o644))
	if err := w.regular(dir, "a", &st); err != errMoved {
		t.Errorf("a file that became a pipe: %v", err)
	}
	must(t, os.Remove(root+"/a"))
	must(t, os.Symlink("/etc/passwd", root+"/a"))
	if err := w.regular(dir, "a", &st); err != errMoved {
		t.Errorf("a file that became a link: %v", err)
	}
	must(t, os.Remove(root+"/a"))
	if err := w.regular(dir, "a", &st); err != errMoved {
		t.Errorf("a file that went away: %v", err)
	}
}

// TestWriterDuringSnapshots lets a process of the tree write all the time: a snapshot must end, with a tree or with the error that names
// the agent.
func TestWriterDuringSnapshots(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			name := filepath.Join(root, fmt.Sprint(i%7))
			if i%3 == 0 {
				os.Remove(name)
			} else {
				os.WriteFile(name, []byte(strings.Repeat("x\n", i%50)), 0o644)
			}
		}
	})
	for range 200 {
		_, err := Snapshot(ctx, root)
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Class != "tree_moving" || !e.ByAgent) {
			t.Errorf("unexpected error %v", err)
		}
	}
	cancel()
	writer.Wait()
}

func TestDeepFolders(t *testing.T) {
	t.Parallel()
	p := place{T: t, root: t.TempDir()}
	p.write("zz", "")
	nest(p)
	_, s := compare(t, folder{"zz": ""}.tree(t), take(t, p.root), Paths{})
	if s.FilesTouched != 1 || s.Files[0].Path != strings.Repeat("d/", 5000)+"file" {
		t.Errorf("counts %+v", s.Counts)
	}
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root can read everything")
	}
	root := folder{"file": "1\n", "dir/a": "1\n", "dir/b/c": "1\n", "same": "1\n"}.write(t)
	before := take(t, root)
	must(t, os.Chmod(root+"/file", 0))
	must(t, os.Chmod(root+"/dir", 0))
	t.Cleanup(func() { os.Chmod(root+"/dir", 0o755) })
	checkUnreadable(t, before, take(t, root))
}

// TestUnreadableEntries is TestUnreadable with a tree made by hand, so that root can run it.
func TestUnreadableEntries(t *testing.T) {
	t.Parallel()
	before := folder{"file": "1\n", "dir/a": "1\n", "dir/b/c": "1\n", "same": "1\n"}.tree(t)
	after := Tree{entries: []entry{
		{path: "dir", mode: 0o40000, why: unreadable},
		{path: "file", mode: 0o100644, size: 2, why: unreadable},
		*find(before.entries, "same"),
	}}
	checkUnreadable(t, before, after)
	_, s := compare(t, after, after, Paths{})
	if !s.NoChange || len(s.Findings) != 2 {
		t.Errorf("what was unreadable before and after: %+v", s)
	}
	entries, err := fs.ReadDir(after.FS(), "dir")
	if err != nil || len(entries) != 0 {
		t.Errorf("an unreadable folder lists %v, %v", entries, err)
	}
}

func checkUnreadable(t *testing.T, before, after Tree) {
	t.Helper()
	_, s := compare(t, before, after, Paths{})
	want := []Row{
		{Path: "dir", Status: "added", Uncounted: "unreadable"},
		{Path: "dir/a", Status: "modified", Uncounted: "unreadable"},
		{Path: "dir/b/c", Status: "modified", Uncounted: "unreadable"},
		{Path: "file", Status: "modified", Uncounted: "unreadable"},
	}
	if diff := cmp.Diff(want, s.Files); diff != "" || !s.Approximate || s.FilesTouched != 4 {
		t.Errorf("approximate %v, files %d (-want +got):\n%s", s.Approximate, s.FilesTouched, diff)
	}
}

func TestFindings(t *testing.T) {
	t.Parallel()
	root := folder{
		".git/HEAD": "1", "old/.git/HEAD": "1", "old/.git-x/a": "1", "kept/.git/HEAD": "1", "lost/.git": "1", "hard/known": "1",
	}.write(t)
	outside := t.TempDir()
	must(t, os.Link(root+"/hard/known", outside+"/known"))
	before := take(t, root)
	for _, name := range []string{".git/HEAD", "old/.git/HEAD"} {
		must(t, os.WriteFile(filepath.Join(root, name), []byte("2"), 0o644))
	}
	must(t, os.MkdirAll(root+"/new/deep/.git/objects", 0o755))
	must(t, os.RemoveAll(root+"/lost/.git"))
	must(t, os.WriteFile(outside+"/secret", []byte("s\n"), 0o644))
	must(t, os.Link(outside+"/secret", root+"/hard/new"))
	must(t, os.WriteFile(root+"/hard/a", []byte("s\n"), 0o644))
	must(t, os.Link(root+"/hard/a", root+"/hard/b"))
	_, s := compare(t, before, again(t, before, root), Paths{})
	var got []string
	for _, f := range s.Findings {
		got = append(got, f.Kind+" "+f.Path)
	}
	want := []string{"hard_link hard/new", "git_changed lost/.git", "git_created new/deep/.git", "git_changed old/.git"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Counts{FilesTouched: 3, LinesAdded: 3, Hunks: 3}, s.Counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestFS(t *testing.T) {
	t.Parallel()
	tree := folder{"a": "a\n", "a.b": "", "d/x": "x\n", "d.c": "", "d/e/f": "f\n"}.tree(t)
	if err := fstest.TestFS(tree.FS(), "a", "a.b", "d/x", "d/e/f", "d.c"); err != nil {
		t.Error(err)
	}
	if err := fstest.TestFS(Tree{}.FS()); err != nil {
		t.Errorf("empty tree: %v", err)
	}
}

func TestFSDoesNotFollowLinks(t *testing.T) {
	t.Parallel()
	view := folder{"a": "a\n", "dir/b": "b\n", "link": "-> a", "to dir": "-> dir", "odd": "-> \xff"}.tree(t).FS()
	for _, name := range []string{"link", "to dir", "to dir/b", "none", "../a", "/a", ""} {
		if _, err := fs.ReadFile(view, name); err == nil {
			t.Errorf("%q can be read", name)
		}
	}
	var walked []string
	must(t, fs.WalkDir(view, ".", func(name string, d fs.DirEntry, err error) error {
		walked = append(walked, d.Type().String()[:1]+" "+name)
		return err
	}))
	if diff := cmp.Diff([]string{"d .", "- a", "d dir", "- dir/b", "L link", "L odd", "L to dir"}, walked); diff != "" {
		t.Errorf("walk (-want +got):\n%s", diff)
	}
	if target, err := fs.ReadLink(view, "to dir"); target != "dir" || err != nil {
		t.Errorf("target %q, %v", target, err)
	}
}

// TestSharedTree uses one tree from many goroutines, as the cells of a case do. The race detector is the judge.
func TestSharedTree(t *testing.T) {
	t.Parallel()
	root := everyBefore.write(t)
	before := take(t, root)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			after, err := before.Again(t.Context(), root)
			if err != nil || after.ID() != before.ID() {
				t.Errorf("%v", err)
			}
			if _, s, err := Compare(before, after, Paths{}); err != nil || !s.NoChange {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
	group.Wait()
}
