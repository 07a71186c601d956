package diffscope

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// A place is a work folder with a repository of its own, and the agent that works in it.
type place struct {
	*testing.T
	root   string
	marker string // a file outside, which a command of the agent makes when it runs
}

func (p place) git(args ...string) string { p.Helper(); return git(p, p.root, args...) }
func (p place) path(name string) string   { return filepath.Join(p.root, name) }
func (p place) remove(name string)        { p.Helper(); must(p, os.RemoveAll(p.path(name))) }
func (p place) link(target, name string)  { p.Helper(); must(p, os.Symlink(target, p.path(name))) }
func (p place) rename(from, to string)    { p.Helper(); must(p, os.Rename(p.path(from), p.path(to))) }
func (p place) chmod(name string, m uint32) {
	p.Helper()
	must(p, os.Chmod(p.path(name), os.FileMode(m)))
}
func (p place) read(name string) string { p.Helper(); return readFile(p, p.path(name)) }

func (p place) write(name, text string) {
	p.Helper()
	must(p, os.MkdirAll(filepath.Dir(p.path(name)), 0o755))
	must(p, os.WriteFile(p.path(name), []byte(text), 0o644))
}

// edit is what the agent is here for: one line of a.txt, which is one file, one line added, one removed, one hunk.
func (p place) edit() {
	p.Helper()
	p.write("a.txt", strings.Replace(p.read("a.txt"), "line 2\n", "LINE 2\n", 1))
}

// program writes a script that tells that it ran and passes its input on.
func (p place) program(name string) string {
	p.Helper()
	p.write(name, "#!/bin/sh\n: >'"+p.marker+"'\ncat\n")
	p.chmod(name, 0o755)
	return p.path(name)
}

// commit puts everything in the repository.
func (p place) commit() {
	p.Helper()
	p.git("add", "-A")
	p.git("commit", "-q", "--allow-empty", "-m", "work")
}

func readFile(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	must(t, err)
	return string(data)
}

// What becomes of a script that asks git in the place itself. It is misled when the answer is wrong, when there is none, or
// when a command of the agent's runs for it.
const (
	fooled   = "git add -A and git diff --cached mislead"
	created  = "git diff HEAD misleads: it leaves out what is new"
	right    = "neither misleads"
	notAsked = "takes too long to ask"
)

var (
	oneLine = Counts{1, 1, 1, 1}
	rewrite = Counts{1, 12, 12, 1} // every line of a.txt
)

// hostile are the workspaces that want to be measured wrong. Each starts with 12 lines in a.txt and one in b.txt, committed.
var hostile = []struct {
	name    string
	prepare func(place) // before the first commit
	agent   func(place)
	naive   string
	want    Counts
}{
	// The repository.
	{"the work is committed", nil, func(p place) { p.edit(); p.commit() }, fooled, oneLine},
	{"history and refs are rewritten", nil, func(p place) {
		p.edit()
		p.git("checkout", "-q", "--orphan", "other")
		p.commit()
		p.git("branch", "-f", "main")
		p.git("reflog", "expire", "--expire=now", "--all")
	}, fooled, oneLine},
	{"a replace ref shows another past", nil, func(p place) {
		old := strings.TrimSpace(p.git("rev-parse", "HEAD:a.txt"))
		p.edit()
		p.git("replace", old, strings.TrimSpace(p.git("hash-object", "-w", "a.txt")))
	}, fooled, oneLine},
	{".git is deleted", nil, func(p place) { p.edit(); p.remove(".git") }, fooled, oneLine},
	{".git is made anew", nil, func(p place) { p.edit(); p.remove(".git"); p.git("init", "-q") }, fooled, oneLine},
	{".git is a file that points nowhere", nil, func(p place) {
		p.edit()
		p.remove(".git")
		p.write(".git", "gitdir: /nowhere\n")
	}, fooled, oneLine},
	{"core.worktree names a clean copy", nil, func(p place) {
		elsewhere := p.TempDir()
		copyFolder(p, p.root, elsewhere)
		p.git("config", "core.worktree", elsewhere)
		p.edit()
	}, fooled, oneLine},

	// The index.
	{"index.lock is left", nil, func(p place) { p.edit(); p.git("add", "-A"); p.edit(); p.write(".git/index.lock", "") }, fooled, oneLine},
	{"assume-unchanged", nil, func(p place) { p.git("update-index", "--assume-unchanged", "a.txt"); p.edit() }, fooled, oneLine},
	{"skip-worktree", nil, func(p place) { p.git("update-index", "--skip-worktree", "a.txt"); p.edit() }, fooled, oneLine},
	{"sparse checkout", nil, func(p place) {
		p.git("config", "core.sparseCheckout", "true")
		p.git("config", "sparse.expectFilesOutsideOfPatterns", "true")
		p.write(".git/info/sparse-checkout", "/b.txt\n")
		p.git("update-index", "--skip-worktree", "a.txt")
		p.edit()
	}, fooled, oneLine},
	{"the time is set back after an edit of equal size", func(p place) {
		must(p, os.Chtimes(p.path("a.txt"), time.Unix(1e9, 0), time.Unix(1e9, 0)))
	}, func(p place) {
		p.git("config", "core.trustctime", "false")
		p.edit()
		must(p, os.Chtimes(p.path("a.txt"), time.Unix(1e9, 0), time.Unix(1e9, 0)))
	}, fooled, oneLine},

	// Ignore rules.
	{".gitignore hides files", nil, func(p place) { p.write(".gitignore", "*\n"); p.write("new.txt", "1\n2\n") }, fooled, Counts{2, 3, 0, 2}},
	{"info/exclude hides files", nil, func(p place) { p.write(".git/info/exclude", "*\n"); p.write("new.txt", "1\n2\n") }, fooled, Counts{1, 2, 0, 1}},
	{"core.excludesFile hides files", nil, func(p place) {
		p.write(".git/hide", "*\n")
		p.git("config", "core.excludesFile", p.path(".git/hide"))
		p.write("new.txt", "1\n2\n")
	}, fooled, Counts{1, 2, 0, 1}},

	// Attributes.
	{"attribute -diff", nil, func(p place) { p.edit(); p.write(".gitattributes", "* -diff\n") }, fooled, Counts{2, 2, 1, 2}},
	{"attribute binary", nil, func(p place) { p.edit(); p.write(".git/info/attributes", "* binary\n") }, fooled, oneLine},
	{"attribute linguist-generated", nil, func(p place) { p.edit(); p.write(".git/info/attributes", "* linguist-generated\n") }, right, oneLine},
	{"attribute eol", nil, func(p place) {
		p.write(".git/info/attributes", "* text eol=lf\n")
		p.write("a.txt", strings.ReplaceAll(p.read("a.txt"), "\n", "\r\n"))
	}, fooled, rewrite},
	{"attribute working-tree-encoding", nil, func(p place) {
		p.edit()
		p.write(".git/info/attributes", "*.txt working-tree-encoding=UTF-16\n")
	}, fooled, oneLine},

	// Commands of the agent's.
	{"filter", nil, func(p place) {
		p.edit()
		p.git("config", "filter.x.clean", p.program(".git/program"))
		p.write(".git/info/attributes", "* filter=x\n")
	}, fooled, oneLine},
	{"filter process", nil, func(p place) {
		p.edit()
		p.git("config", "filter.x.process", p.program(".git/program"))
		p.write(".git/info/attributes", "* filter=x\n")
	}, fooled, oneLine},
	{"textconv", nil, func(p place) {
		p.edit()
		p.git("config", "diff.x.textconv", p.program(".git/program"))
		p.write(".git/info/attributes", "* diff=x\n")
	}, fooled, oneLine},
	{"fsmonitor", nil, func(p place) { p.edit(); p.git("config", "core.fsmonitor", p.program(".git/program")) }, fooled, oneLine},
	{"hooks", nil, func(p place) { p.edit(); p.program(".git/hooks/post-index-change") }, fooled, oneLine},
	{"core.hooksPath", nil, func(p place) {
		p.edit()
		p.git("config", "core.hooksPath", filepath.Dir(p.program(".git/mine/post-index-change")))
	}, fooled, oneLine},
	{"diff.external", nil, func(p place) { p.edit(); p.git("config", "diff.external", p.program(".git/program")) }, fooled, oneLine},

	// Settings.
	{"autocrlf", nil, func(p place) {
		p.git("config", "core.autocrlf", "input")
		p.write("a.txt", strings.ReplaceAll(p.read("a.txt"), "\n", "\r\n"))
	}, fooled, rewrite},
	{"fileMode", nil, func(p place) { p.git("config", "core.fileMode", "false"); p.chmod("a.txt", 0o755) }, fooled, Counts{1, 0, 0, 0}},
	{"interHunkContext", nil, func(p place) {
		p.git("config", "diff.interHunkContext", "100")
		p.edit()
		p.write("a.txt", strings.Replace(p.read("a.txt"), "line 11\n", "LINE 11\n", 1))
	}, fooled, Counts{1, 2, 2, 2}},
	{"diff.algorithm", func(p place) { p.write("a.txt", readFile(p, casePath("before"))) }, func(p place) {
		p.git("config", "diff.algorithm", "patience")
		p.write("a.txt", readFile(p, casePath("after")))
	}, fooled, Counts{1, 10, 11, 9}},
	{"diff.renames", nil, func(p place) {
		p.git("config", "diff.renames", "copies")
		p.edit()
		p.write("copy.txt", p.read("a.txt"))
	}, fooled, Counts{2, 13, 1, 2}},

	// Repositories in the tree.
	{"a nested repository without a commit", nil, func(p place) {
		p.write("sub/new.txt", "1\n2\n3\n")
		git(p, p.path("sub"), "init", "-q")
	}, fooled, Counts{1, 3, 0, 1}},
	{"a nested repository with a commit", nil, func(p place) {
		p.write("sub/new.txt", "1\n2\n3\n")
		git(p, p.path("sub"), "init", "-q")
		place{p.T, p.path("sub"), p.marker}.commit()
	}, fooled, Counts{1, 3, 0, 1}},
	{"an edit in a submodule", func(p place) {
		p.write("sub/old.txt", "1\n2\n3\n")
		git(p, p.path("sub"), "init", "-q")
		place{p.T, p.path("sub"), p.marker}.commit()
	}, func(p place) { p.write("sub/old.txt", "1\ntwo\n3\n") }, fooled, oneLine},

	// Files that turn into others.
	{"line ends flip", nil, func(p place) { p.write("a.txt", strings.ReplaceAll(p.read("a.txt"), "\n", "\r\n")) }, right, rewrite},
	{"the encoding flips", nil, func(p place) {
		var wide bytes.Buffer
		must(p, binary.Write(&wide, binary.LittleEndian, utf16.Encode([]rune(p.read("a.txt")))))
		p.write("a.txt", wide.String())
	}, right, Counts{1, 0, 0, 0}},
	{"a rename", nil, func(p place) { p.rename("a.txt", "c.txt") }, fooled, Counts{2, 12, 12, 2}},
	{"a rename of the case alone", nil, func(p place) { p.rename("a.txt", "A.txt") }, fooled, Counts{2, 12, 12, 2}},
	{"a swap", nil, func(p place) {
		p.rename("a.txt", "c.txt")
		p.rename("b.txt", "a.txt")
		p.rename("c.txt", "b.txt")
	}, right, Counts{2, 13, 13, 2}},
	{"a file becomes a folder", nil, func(p place) { p.remove("a.txt"); p.write("a.txt/in", "x\n") }, created, Counts{2, 1, 12, 2}},
	{"a folder becomes a file", func(p place) { p.write("dir/in", "x\n") }, func(p place) {
		p.remove("dir")
		p.write("dir", "y\nz\n")
	}, created, Counts{2, 2, 1, 2}},
	{"a file becomes a link", nil, func(p place) { p.remove("b.txt"); p.link("b\nc", "b.txt") }, fooled, Counts{1, 2, 1, 2}},
	{"a folder becomes a link", func(p place) { p.write("dir/in", "x\n") }, func(p place) {
		p.remove("dir")
		p.link("/", "dir")
	}, created, Counts{2, 1, 1, 2}},
	{"the same content is written again", nil, func(p place) {
		text := p.read("a.txt")
		p.remove("a.txt")
		p.write("a.txt", text)
	}, right, Counts{}},
	{"empty folders", nil, func(p place) { must(p, os.MkdirAll(p.path("x/y/z"), 0o755)) }, right, Counts{}},
	{"the final newline goes", nil, func(p place) { p.write("a.txt", strings.TrimSuffix(p.read("a.txt"), "\n")) }, right, oneLine},
	{"a NUL in byte 8,000", nil, func(p place) { p.write("new", strings.Repeat("a\n", 4500)[:7999]+"\x00\n") }, created, Counts{1, 0, 0, 0}},
	{"a NUL in byte 8,001", nil, func(p place) { p.write("new", strings.Repeat("a\n", 4500)[:8000]+"\x00\n") }, created, Counts{1, 4001, 0, 1}},
	{"content that looks like a patch", nil, func(p place) {
		p.write("a.txt", p.read("a.txt")+"--- a/x\n+++ b/x\n@@ -1 +1 @@\n\\ No newline at end of file\ndiff --git a/x b/x\n")
	}, right, Counts{1, 5, 0, 1}},

	// Links and names.
	{"links out and in circles", nil, func(p place) {
		for name, target := range map[string]string{
			"root": "/", "up": "..", "self": "self", "tick": "tock", "tock": "tick", "one/to": "../two/to", "two/to": "../../outside",
		} {
			must(p, os.MkdirAll(filepath.Dir(p.path(name)), 0o755))
			p.link(target, name)
		}
	}, created, Counts{7, 7, 0, 7}},
	{"odd names", nil, func(p place) {
		for _, name := range []string{"new\nline", "quo\"te", "tab\there", "-dash", ":(glob)*", "back\\slash", " ", strings.Repeat("n", 255)} {
			p.write(name, "x\n")
		}
	}, created, Counts{8, 8, 0, 8}},
	{"a name that is not UTF-8", nil, func(p place) {
		if err := os.WriteFile(p.path("bad\xff\xfe"), []byte("x\n"), 0o644); err != nil {
			p.Skipf("this file system does not take the name: %v", err)
		}
	}, created, Counts{1, 1, 0, 1}},
	{"a hard link to a file outside", nil, func(p place) {
		outside := p.TempDir() + "/secret"
		must(p, os.WriteFile(outside, []byte("s\n"), 0o644))
		must(p, os.Link(outside, p.path("new")))
	}, created, Counts{1, 1, 0, 1}},

	// Things that are no files, and sizes.
	{"a pipe and a socket", nil, func(p place) {
		p.edit()
		must(p, unix.Mkfifo(p.path("pipe"), 0o644))
		socket, err := net.Listen("unix", p.path("socket"))
		must(p, err)
		p.Cleanup(func() { socket.Close() })
	}, right, oneLine},
	{"5,000 nested folders", nil, nest, fooled, Counts{1, 1, 0, 1}},
	{"200,000 files", nil, func(p place) {
		if testing.Short() {
			p.Skip("makes 200,000 files")
		}
		for i := range 200 { // many names of few files are fast to make
			first := fmt.Sprintf("%d/0", i)
			p.write(first, "x\n")
			for j := 1; j < 1000; j++ {
				must(p, os.Link(p.path(first), p.path(fmt.Sprintf("%d/%d", i, j))))
			}
		}
	}, notAsked, Counts{200_000, 200_000, 0, 200_000}},
	{"a file of more than 1 GiB", nil, func(p place) { p.edit(); p.sparse(1<<30 + 1) }, notAsked, Counts{2, 1, 1, 1}},
	{"a sparse file of 1 TiB", nil, func(p place) { p.edit(); p.sparse(1 << 40) }, fooled, Counts{2, 1, 1, 1}},
	{"a file and a folder that may not be read", func(p place) { p.write("dir/in", "x\n") }, func(p place) {
		if os.Geteuid() == 0 {
			p.Skip("root can read everything; TestUnreadableEntries has this case without a disk")
		}
		p.edit()
		p.chmod("b.txt", 0)
		p.chmod("dir", 0)
		p.Cleanup(func() { os.Chmod(p.path("dir"), 0o755) })
	}, fooled, Counts{4, 1, 1, 1}},

	// The end.
	{"killed in the middle of a write", nil, func(p place) {
		p.write("a.txt", p.read("a.txt")[:len("line 1\nline 2\nli")])
		p.write(".git/index.lock", "DIRC")
		p.write(".git/objects/00/tmp_obj_x", "half")
	}, fooled, Counts{1, 1, 10, 1}},
}

// casePath is one side of the conformance case that tells algorithms apart.
func casePath(side string) string {
	names, _ := filepath.Glob("testdata/cases/62-algorithm-sensitive/" + side + "/*")
	return names[0]
}

func (p place) sparse(size int64) {
	p.Helper()
	p.write("large", "")
	if err := os.Truncate(p.path("large"), size); err != nil {
		p.Skipf("this file system has no file of %d bytes: %v", size, err)
	}
}

// nest makes a file whose path is longer than any system call takes.
func nest(p place) {
	dir, err := unix.Open(p.root, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(p, err)
	for range 5000 {
		must(p, unix.Mkdirat(dir, "d", 0o755))
		next, err := unix.Openat(dir, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(p, err)
		unix.Close(dir)
		dir = next
	}
	p.Cleanup(func() { // os.RemoveAll would hold every folder open
		for os.Rename(p.path("d/d"), p.path("rest")) == nil {
			must(p, os.Remove(p.path("d")))
			must(p, os.Rename(p.path("rest"), p.path("d")))
		}
	})
	file, err := unix.Openat(dir, "file", unix.O_CREAT|unix.O_WRONLY, 0o644)
	must(p, err)
	_, err = unix.Write(file, []byte("x\n"))
	must(p, err)
	unix.Close(file)
	unix.Close(dir)
}

// TestHostileWorkspace shows for each workspace what git says when it is asked in the place itself, and then that our
// numbers are the true ones and that nothing of the agent's has run for them.
func TestHostileWorkspace(t *testing.T) {
	t.Parallel()
	for _, test := range hostile {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := place{t, t.TempDir(), t.TempDir() + "/ran"}
			p.write("a.txt", twelveLines())
			p.write("b.txt", "b\n")
			if test.prepare != nil {
				test.prepare(p)
			}
			p.git("init", "-q", "-b", "main")
			p.commit()
			before := take(t, p.root)
			test.agent(p)
			p.checkNaive(test.naive, test.want)
			os.Remove(p.marker)
			_, got := compare(t, before, again(t, before, p.root), Paths{})
			if diff := cmp.Diff(test.want, got.Counts); diff != "" {
				t.Errorf("our counts (-want +got):\n%s", diff)
			}
			if p.ran() {
				t.Error("a command of the agent's ran")
			}
		})
	}
}

func twelveLines() string {
	var text strings.Builder
	for i := range 12 {
		fmt.Fprintf(&text, "line %d\n", i+1)
	}
	return text.String()
}

func (p place) ran() bool {
	_, err := os.Lstat(p.marker)
	return err == nil
}

// checkNaive asks git in two ways and holds the answers to what the table says of them.
func (p place) checkNaive(want string, truth Counts) {
	p.Helper()
	if want == notAsked {
		return
	}
	head := p.isMisled(truth, [][]string{{"diff", "HEAD", "--numstat"}, {"diff", "HEAD", "-U0"}})
	staged := p.isMisled(truth, [][]string{{"add", "-A"}, {"diff", "--cached", "--numstat"}, {"diff", "--cached", "-U0"}})
	got := right
	switch {
	case staged:
		got = fooled
	case head:
		got = created
	}
	if got != want {
		p.Errorf("git: %s, want: %s", got, want)
	}
}

func (p place) isMisled(truth Counts, commands [][]string) bool {
	p.Helper()
	os.Remove(p.marker)
	counts, err := p.naive(commands)
	p.Logf("git %v: %+v, error %v, ran a command: %v", commands[0], counts, err, p.ran())
	return err != nil || counts != truth || p.ran()
}

// naive runs git commands in the place and adds up what they print, as a script would.
func (p place) naive(commands [][]string) (Counts, error) {
	p.Helper()
	var c Counts
	for _, args := range commands {
		var out, diagnosis bytes.Buffer
		cmd := gitCommand(p, p.root, args...)
		cmd.Stdout, cmd.Stderr = &out, &diagnosis
		must(p, cmd.Start())
		patience := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
		err := cmd.Wait()
		patience.Stop()
		if err != nil {
			first, _, _ := strings.Cut(diagnosis.String(), "\n")
			return c, fmt.Errorf("%w: %s", err, first)
		}
		for line := range strings.Lines(out.String()) {
			var added, removed int
			switch {
			case strings.HasPrefix(line, "@@ "):
				c.Hunks++
			case args[len(args)-1] == "--numstat":
				fmt.Sscanf(line, "%d\t%d\t", &added, &removed) // "-" for a binary file stays 0
				c.FilesTouched++
				c.LinesAdded += added
				c.LinesRemoved += removed
			}
		}
	}
	return c, nil
}
