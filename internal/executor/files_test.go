package executor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// canary is the content of a file outside the place that nothing may read or change.
const canary = "canary of the host\n"

// newFolder returns the files of a new work folder, the folder, and a folder outside of it that holds the canary.
func newFolder(t *testing.T) (files folder, work, outside string) {
	t.Helper()
	base := t.TempDir()
	work, outside = filepath.Join(base, "work"), filepath.Join(base, "outside")
	for _, dir := range []string{work, outside} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(outside, "canary"), []byte(canary), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(work)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return folder{root: root}, work, outside
}

func read(f FS, name string) (string, error) {
	file, err := f.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	b, err := io.ReadAll(file)
	return string(b), err
}

func TestPutAndOpen(t *testing.T) {
	t.Parallel()
	files, work, _ := newFolder(t)
	for _, step := range []struct {
		name, text string
		mode       fs.FileMode
	}{
		{"ANSWER.md", "first", 0o644},
		{"ANSWER.md", "second", 0o755 | fs.ModeSetuid},
		{"a/b/c.txt", "deep", 0o600},
		{"a/b/\xff\n.bin", "\x00\xff", 0o644},
	} {
		if err := files.Put(step.name, strings.NewReader(step.text), step.mode); err != nil {
			t.Fatalf("Put(%q): %v", step.name, err)
		}
		got, err := read(files, step.name)
		if err != nil || got != step.text {
			t.Errorf("Open(%q) = %q, %v; want %q", step.name, got, err, step.text)
		}
		info, err := os.Stat(filepath.Join(work, step.name))
		if err != nil || info.Mode() != step.mode.Perm() {
			t.Errorf("mode of %q = %v, want %v", step.name, info.Mode(), step.mode.Perm())
		}
	}
	list, err := files.List("")
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, e := range list {
		paths = append(paths, e.Path)
	}
	if diff := cmp.Diff([]string{"ANSWER.md", "a", "a/b", "a/b/c.txt", "a/b/\xff\n.bin"}, paths); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
}

// Twelve shapes by which an agent could lead us out of its folder, or onto something that is not a file.
func TestA12A13LinkShapes(t *testing.T) {
	t.Parallel()
	link := func(target, name string) func(work string) error {
		return func(work string) error { return os.Symlink(target, filepath.Join(work, name)) }
	}
	all := func(steps ...func(string) error) func(string) error {
		return func(work string) error {
			for _, step := range steps {
				if err := step(work); err != nil {
					return err
				}
			}
			return nil
		}
	}
	dir := func(name string) func(string) error {
		return func(work string) error { return os.Mkdir(filepath.Join(work, name), 0o755) }
	}
	for _, shape := range []struct {
		rule string
		make func(work string) error
		name string // to be opened and put
		put  bool   // Put replaces it
	}{
		{"absolute link to a host file", func(work string) error {
			return os.Symlink(filepath.Join(filepath.Dir(work), "outside/canary"), filepath.Join(work, "x"))
		}, "x", true},
		{"relative link to a host file", link("../outside/canary", "x"), "x", true},
		{"link to a file inside", link("real", "x"), "x", true},
		{"dangling link", link("nowhere", "x"), "x", true},
		{"link to itself", link("x", "x"), "x", true},
		{"link through proc", link("/proc/self/environ", "x"), "x", true},
		{"chain of two links that leave", all(link("../outside", "d"), link("d/canary", "x")), "x", true},
		{"folder on the way is a link that leaves", link("../outside", "d"), "d/canary", false},
		{"folder on the way is an absolute link", func(work string) error {
			return os.Symlink(filepath.Join(filepath.Dir(work), "outside"), filepath.Join(work, "d"))
		}, "d/canary", false},
		{"folder on the way is a link inside", all(dir("sub"), link("sub", "d")), "d/canary", false},
		{"two links inside that leave together", all(dir("sub"), link("sub/..", "d"), link("d/..", "e")), "e/outside/canary", false},
		{"folder in place of the file", dir("x"), "x", false},
	} {
		t.Run(shape.rule, func(t *testing.T) {
			t.Parallel()
			files, work, outside := newFolder(t)
			if err := os.WriteFile(filepath.Join(work, "real"), []byte("inside"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := shape.make(work); err != nil {
				t.Fatal(err)
			}
			if got, err := read(files, shape.name); err == nil {
				t.Errorf("Open read %q", got)
			}
			list, err := files.List(".")
			if err != nil {
				t.Fatalf("List: %v", err)
			}
			for _, e := range list {
				if strings.Contains(e.Path, "canary") {
					t.Errorf("List followed a link to %s", e.Path)
				}
				if (e.Mode.Type() == fs.ModeSymlink) != (e.Link != "") {
					t.Errorf("List: %+v", e)
				}
			}
			err = files.Put(shape.name, strings.NewReader("new"), 0o644)
			if shape.put != (err == nil) {
				t.Errorf("Put = %v", err)
			}
			if got, err := read(files, shape.name); shape.put && (err != nil || got != "new") {
				t.Errorf("after Put: %q, %v", got, err)
			}
			for path, want := range map[string]string{filepath.Join(outside, "canary"): canary, filepath.Join(work, "real"): "inside"} {
				if got, _ := os.ReadFile(path); string(got) != want {
					t.Errorf("%s is now %q", path, got)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(work, ".assay-put-*")); len(left) > 0 {
				t.Errorf("temporary files left: %q", left)
			}
		})
	}
}

func TestFilesRefuseNames(t *testing.T) {
	t.Parallel()
	files, _, _ := newFolder(t)
	for _, name := range []string{"", ".", "..", "../outside/canary", "/etc/passwd", "a/../b", "a//b", "a/", "./a", "a\x00b"} {
		if _, err := files.Open(name); err == nil {
			t.Errorf("Open(%q) succeeded", name)
		}
		if err := files.Put(name, strings.NewReader("x"), 0o644); err == nil {
			t.Errorf("Put(%q) succeeded", name)
		}
	}
	for _, dir := range []string{"..", "/", "../outside", "missing", "a\x00b"} {
		if _, err := files.List(dir); err == nil {
			t.Errorf("List(%q) succeeded", dir)
		}
	}
}

// within fails the test when f takes long: it hangs.
func within(t *testing.T, d time.Duration, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(d):
		t.Fatalf("hangs for %v", d)
	}
}

func TestA26WhatIsNoFileNeverHangs(t *testing.T) {
	t.Parallel()
	files, work, _ := newFolder(t)
	if err := syscall.Mkfifo(filepath.Join(work, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	sparse, err := os.Create(filepath.Join(work, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	sparse.Close()
	if err := os.Truncate(sparse.Name(), 1<<40); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	within(t, 5*time.Second, func() {
		for _, name := range []string{"fifo", "sparse", "fifo/x"} {
			if _, err := files.Open(name); err == nil {
				t.Errorf("Open(%q) succeeded", name)
			}
		}
		if _, err := files.List("fifo"); err == nil {
			t.Error("List of a FIFO succeeded")
		}
		list, err := files.List("")
		if err != nil || len(list) != 2 {
			t.Errorf("List = %v, %v", list, err)
		}
		if err := files.Put("fifo", strings.NewReader("x"), 0o644); err != nil {
			t.Errorf("Put over a FIFO: %v", err)
		}
	})
}

// TestA26DevicesAndSockets: what is no file is listed for what it is, and never opened.
func TestA26DevicesAndSockets(t *testing.T) {
	t.Parallel()
	files, work, _ := newFolder(t)
	names := []string{"s"}
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(socket)
	if err := syscall.Bind(socket, &syscall.SockaddrUnix{Name: filepath.Join(work, "s")}); err != nil {
		t.Fatal(err)
	}
	const zero = 1<<8 | 5 // the number of /dev/zero
	if err := syscall.Mknod(filepath.Join(work, "zero"), syscall.S_IFCHR|0o666, zero); err == nil {
		names = append(names, "zero")
	}
	within(t, 5*time.Second, func() {
		for _, name := range names {
			if _, err := files.Open(name); err == nil {
				t.Errorf("Open(%q) succeeded", name)
			}
		}
		list, err := files.List("")
		if err != nil || len(list) != len(names) {
			t.Fatalf("List = %v, %v", list, err)
		}
		for _, e := range list {
			if e.Mode.IsRegular() {
				t.Errorf("%s is listed as a file", e.Path)
			}
		}
	})
}

func TestFilesAreCapped(t *testing.T) {
	t.Parallel()
	files, work, _ := newFolder(t)
	endless := readerFunc(func(p []byte) (int, error) { return len(p), nil })
	if err := files.Put("big", endless, 0o644); err == nil {
		t.Error("Put of an endless file succeeded")
	}
	if list, err := files.List(""); err != nil || len(list) > 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}

	grows := filepath.Join(work, "grows")
	if err := os.WriteFile(grows, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := files.Open("grows")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(grows, maxFile+1); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, f); err == nil {
		t.Errorf("read %d bytes of a file that grew", n)
	}
}

func TestA26ManyAndDeep(t *testing.T) {
	t.Parallel()
	files, work, _ := newFolder(t)
	deep := filepath.Join(work, strings.Repeat("d/", maxDepth+2))
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := files.List(""); err == nil || !strings.Contains(err.Error(), "deep") {
		t.Errorf("List of a deep tree = %v", err)
	}
	if err := os.RemoveAll(filepath.Join(work, "d")); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		if err := files.Put(fmt.Sprintf("f%d/x", i), strings.NewReader(""), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := files.list("", 24); err != nil || len(list) != 24 {
		t.Errorf("24 entries of 24: %d, %v", len(list), err)
	}
	if list, err := files.list("", 23); err == nil || list != nil {
		t.Errorf("24 entries of 23: %d, %v", len(list), err)
	}
}

func TestOpenWithoutPermission(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	files, work, _ := newFolder(t)
	if err := os.Mkdir(filepath.Join(work, "closed"), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(work, "secret"), nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Open("secret"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Open = %v", err)
	}
	if _, err := files.List(""); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("List = %v", err)
	}
}

func TestPutKeepsTheOldFileWhenTheNewOneFails(t *testing.T) {
	t.Parallel()
	files, _, _ := newFolder(t)
	if err := files.Put("x", strings.NewReader("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := files.Put("x", readerFunc(func([]byte) (int, error) { return 0, broken }), 0o644); !errors.Is(err, broken) {
		t.Errorf("Put = %v, want %v", err, broken)
	}
	if got, err := read(files, "x"); got != "old" || err != nil {
		t.Errorf("Open = %q, %v", got, err)
	}
}

func BenchmarkPut(b *testing.B) {
	root, err := os.OpenRoot(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer root.Close()
	text := bytes.Repeat([]byte("x"), 200)
	for i := 0; b.Loop(); i++ {
		if err := (folder{root: root}).Put(fmt.Sprintf("f%d", i), bytes.NewReader(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
