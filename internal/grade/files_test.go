package grade

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/assay-ci/assay/internal/diffscope"
)

func file(content string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(content), Mode: 0o644} }

func link(target string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{
		"src/due.js":     file("const day = 1\nexports.due = utc(day)\n"),
		"src/old.js":     file("// nothing\n"),
		"test/due.js":    file("eval('1')\n"),
		"logo.png":       file("\x89PNG\x00eval("),
		"late.bin":       file(strings.Repeat("a", textProbe) + "\x00 eval2("),
		"latin1.txt":     file("gr\xf6\xdfe eins\n"),
		"empty":          file(""),
		"passwd":         link("/etc/passwd"),
		"folder":         link("src"),
		"dangling":       link("nowhere"),
		"with\nnewline":  file("odd name\n"),
		"deep/a/b/c.txt": file("deep\n"),
	}
	caseDir := fstest.MapFS{"want/due.js": file("const day = 1\nexports.due = utc(day)\n"), "want/test.js": file("eval('2')\n"), "want/empty": file("")}
	for _, tt := range []struct {
		name     string
		params   filesParams
		passed   bool
		evidence string
	}{
		{"present", filesParams{Present: []string{`utc\(`}}, true, `/utc\(/ is in src/due.js:2`},
		{"not present", filesParams{Present: []string{"tz"}}, false, "/tz/ is nowhere (text files searched: 8, binary files left out: 1)"},
		{"present in a restricted set", filesParams{Present: []string{"utc"}, In: []string{"test"}}, false, "/utc/ is nowhere (text files searched: 1, binary files left out: 0)"},
		{"present in a link", filesParams{Present: []string{"root:"}}, false, "/root:/ is nowhere (text files searched: 8, binary files left out: 1)"},
		{"absent", filesParams{Absent: []string{"tz"}}, true, "/tz/ is nowhere (text files searched: 8, binary files left out: 1)"},
		{"not absent", filesParams{Absent: []string{`eval\(`}}, false, `/eval\(/ is in test/due.js:1`},
		{"absent in a restricted set", filesParams{Absent: []string{`eval\(`}, In: []string{"src/**"}}, true, `/eval\(/ is nowhere (text files searched: 2, binary files left out: 0)`},
		{"a NUL after the probe is text", filesParams{Absent: []string{`eval2\(`}}, false, `/eval2\(/ is in late.bin:1`},
		{"Latin-1 is text", filesParams{Present: []string{"eins"}}, true, "/eins/ is in latin1.txt:1"},
		{"a name cannot forge a line", filesParams{Present: []string{"odd name"}}, true, `/odd name/ is in "with\nnewline":1`},
		{"multi-line", filesParams{Present: []string{`(?m)^exports`}}, true, `/(?m)^exports/ is in src/due.js:2`},
		{"exist", filesParams{Exist: []string{"src", "src/due.js", "deep/a"}}, true, "src is there; src/due.js is there; deep/a is there"},
		{"exist by a link", filesParams{Exist: []string{"passwd"}}, false, "passwd is a link, or lies below one"},
		{"exist below a link", filesParams{Exist: []string{"folder/due.js"}}, false, "folder/due.js is a link, or lies below one"},
		{"exist not", filesParams{Exist: []string{"src/none.js", "src/due.js/x"}}, false, "src/none.js is not there; src/due.js/x is not there"},
		{"missing", filesParams{Missing: []string{"src/none.js", "src/due.js/x"}}, true, "src/none.js is not there; src/due.js/x is not there"},
		{"missing but there", filesParams{Missing: []string{"src"}}, false, "src is there"},
		{"missing behind a dangling link", filesParams{Missing: []string{"dangling"}}, false, "dangling is a link, or lies below one"},
		{"missing below a link", filesParams{Missing: []string{"folder/none.js"}}, false, "folder/none.js is a link, or lies below one"},
		{"equal", filesParams{Equal: map[string]string{"src/due.js": "want/due.js", "empty": "./want/empty"}}, true,
			"empty equals want/empty of the case; src/due.js equals want/due.js of the case"},
		{"another size", filesParams{Equal: map[string]string{"src/old.js": "want/due.js"}}, false, "src/old.js has 11 bytes, want/due.js of the case has 37"},
		{"another byte", filesParams{Equal: map[string]string{"test/due.js": "want/test.js"}}, false, "test/due.js differs from want/test.js of the case"},
		{"equal to a folder", filesParams{Equal: map[string]string{"src": "want/due.js"}}, false, "src is not a file"},
		{"equal by a link", filesParams{Equal: map[string]string{"folder/due.js": "want/due.js"}}, false, "folder/due.js is a link, or lies below one"},
		{"equal to nothing", filesParams{Equal: map[string]string{"none": "want/empty"}}, false, "none is not there"},
		{"several, the broken first", filesParams{Present: []string{"utc", "tz"}, Absent: []string{"eval"}, Exist: []string{"src"}}, false,
			"/tz/ is nowhere (text files searched: 8, binary files left out: 1); /eval/ is in late.bin:1; holds: /utc/ is in src/due.js:2; src is there"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := Evidence{Tree: tree, CaseDir: caseDir, Place: forbidden(t)}
			check(t, build(t, tt.params), e, tt.passed, tt.evidence)
		})
	}
}

// sizedFS tells another size for its files, and that some cannot be opened.
type sizedFS struct {
	fstest.MapFS
	size   map[string]int64
	closed map[string]bool
}

func (s sizedFS) Stat(name string) (fs.FileInfo, error) {
	info, err := s.MapFS.Stat(name)
	if size, ok := s.size[name]; ok {
		return sizedInfo{info, size}, err
	}
	return info, err
}

func (s sizedFS) Open(name string) (fs.File, error) {
	if s.closed[name] {
		return nil, errors.New("mode 000 when it was frozen")
	}
	return s.MapFS.Open(name)
}

type sizedInfo struct {
	fs.FileInfo
	size int64
}

func (s sizedInfo) Size() int64 { return s.size }

func TestFilesThatCannotBeReadProveNothing(t *testing.T) {
	t.Parallel()
	tree := sizedFS{
		fstest.MapFS{"a.js": file("utc"), "big": file(""), "secret": file("")},
		map[string]int64{"big": maxFile + 1},
		map[string]bool{"secret": true},
	}
	check(t, build(t, filesParams{Absent: []string{"tz"}}), Evidence{Tree: tree}, false,
		"/tz/ is nowhere (text files searched: 1, binary files left out: 0); could not be read: big, secret")
	check(t, build(t, filesParams{Present: []string{"utc"}}), Evidence{Tree: tree}, true, "/utc/ is in a.js:1; could not be read: big, secret")
	check(t, build(t, filesParams{Absent: []string{"tz"}, In: []string{"*.js"}}), Evidence{Tree: tree}, true, "/tz/ is nowhere (text files searched: 1, binary files left out: 0)")
	equal := build(t, filesParams{Equal: map[string]string{"secret": "empty"}})
	check(t, equal, Evidence{Tree: tree, CaseDir: fstest.MapFS{"empty": file("")}}, false, "secret cannot be read, or lies below a folder that cannot")
}

// closedFolder refuses to list one folder, and to look below it.
type closedFolder struct {
	fstest.MapFS
	name string
}

func (c closedFolder) refuses(op, name string) error {
	if name == c.name || strings.HasPrefix(name, c.name+"/") {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrPermission}
	}
	return nil
}

func (c closedFolder) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := c.refuses("readdir", name); err != nil {
		return nil, err
	}
	return c.MapFS.ReadDir(name)
}

func (c closedFolder) Lstat(name string) (fs.FileInfo, error) {
	if name != c.name {
		if err := c.refuses("lstat", name); err != nil {
			return nil, err
		}
	}
	return c.MapFS.Lstat(name)
}

func TestFilesOfAClosedFolderProveNothing(t *testing.T) {
	t.Parallel()
	tree := closedFolder{fstest.MapFS{"a.js": file("utc"), "closed/b.js": file("tz")}, "closed"}
	check(t, build(t, filesParams{Absent: []string{"tz"}}), Evidence{Tree: tree}, false, "/tz/ is nowhere (text files searched: 1, binary files left out: 0); could not be read: closed")
	check(t, build(t, filesParams{Missing: []string{"closed/b.js"}}), Evidence{Tree: tree}, false,
		"closed/b.js cannot be read, or lies below a folder that cannot")
}

func TestFilesErrorsAreOurs(t *testing.T) {
	t.Parallel()
	for _, params := range []filesParams{
		{Present: []string{"a"}}, {Exist: []string{"a"}}, {Missing: []string{"a"}}, {Equal: map[string]string{"a": "b"}},
	} {
		checkError(t, build(t, params), Evidence{Tree: emptyTree{}, CaseDir: fstest.MapFS{"b": file("")}}, "disk on fire")
	}
	lost := Evidence{Tree: fstest.MapFS{"a": file("")}, CaseDir: fstest.MapFS{}}
	checkError(t, build(t, filesParams{Equal: map[string]string{"a": "b"}}), lost, "the case's file: open b: file does not exist")

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	g := build(t, filesParams{Present: []string{"a"}})
	if _, err := g.Grade(cancelled, Evidence{Tree: fstest.MapFS{"a": file("")}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after the end of the run", err)
	}
}

func TestFilesCheckFindsWhatTheCaseLacks(t *testing.T) {
	t.Parallel()
	g := build(t, filesParams{Equal: map[string]string{"a": "there", "b": "gone", "c": "folder"}}).(Checker)
	err := g.Check(fstest.MapFS{"there": file(""), "folder/x": file("")})
	want := "equal.b: open gone: file does not exist\nequal.c: folder is not a file"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if err := g.Check(fstest.MapFS{"there": file(""), "gone": file(""), "folder": file("")}); err != nil {
		t.Error(err)
	}
}

// TestA13FilesOfAFrozenTree grades a real snapshot: a link to a host file earns no credit, a FIFO does not hang.
func TestA13FilesOfAFrozenTree(t *testing.T) {
	t.Parallel()
	root, outside := t.TempDir(), filepath.Join(t.TempDir(), "answer")
	write := func(path, content string) {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(outside, "the answer is 42\n")
	write(filepath.Join(root, "a.txt"), "no answer\n")
	if err := os.Symlink(outside, filepath.Join(root, "answer")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	tree, err := diffscope.Snapshot(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	e := Evidence{Tree: tree.FS(), CaseDir: os.DirFS(filepath.Dir(outside))}
	check(t, build(t, filesParams{Present: []string{"42"}}), e, false, "/42/ is nowhere (text files searched: 1, binary files left out: 0)")
	check(t, build(t, filesParams{Exist: []string{"answer"}}), e, false, "answer is a link, or lies below one")
	check(t, build(t, filesParams{Equal: map[string]string{"answer": "answer"}}), e, false, "answer is a link, or lies below one")
	check(t, build(t, filesParams{Exist: []string{"a.txt"}, Missing: []string{"b.txt"}}), e, true, "a.txt is there; b.txt is not there")
}
