package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/google/go-cmp/cmp"
)

// shell is the least executor that can run the commands of a place.
type shell struct {
	folders executor.Folders
	env     []string
	closed  int
}

func (s *shell) Run(ctx context.Context, c executor.Command) (executor.Exit, error) {
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir = filepath.Join(s.folders.Work, c.Dir)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.folders.Home}, c.Env...)
	cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	exit := executor.Exit{TimedOut: errors.Is(ctx.Err(), context.DeadlineExceeded), Cancelled: errors.Is(ctx.Err(), context.Canceled)}
	if cmd.ProcessState == nil {
		return exit, err
	}
	exit.Code = cmd.ProcessState.ExitCode()
	return exit, nil
}
func (s *shell) Files() executor.FS          { return nil }
func (s *shell) Close(context.Context) error { s.closed++; return nil }

// shells makes places of shells.
type shells struct{ fail error }

func (s shells) Open(_ context.Context, p executor.Spec) (executor.Executor, error) {
	if s.fail != nil {
		return nil, s.fail
	}
	return &shell{folders: p.Folders, env: p.Env}, nil
}
func (shells) Inside(f executor.Folders) executor.Folders { return f }

// newSandbox returns a sandbox whose suite folder holds files (path → text).
func newSandbox(t testing.TB, files map[string]string, allow ...string) *Sandbox {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "suite"), files)
	s, err := New(Options{
		Suite:   filepath.Join(dir, "suite"),
		Scratch: filepath.Join(dir, "scratch"),
		Cache:   filepath.Join(dir, "cache"),
		Allow:   allow,
		Places:  shells{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// write makes files below dir. A path that ends in "@" is a link to its text, one that ends in "/" an empty folder, one
// that ends in "*" is executable.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	for _, name := range sortedKeys(files) {
		text := files[name]
		at := filepath.Join(dir, strings.TrimRight(name, "@*/"))
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		switch {
		case strings.HasSuffix(name, "@"):
			must(t, os.Symlink(text, at))
		case strings.HasSuffix(name, "/"):
			must(t, os.MkdirAll(at, 0o755))
		case strings.HasSuffix(name, "*"):
			must(t, os.WriteFile(at, []byte(text), 0o755))
		default:
			must(t, os.WriteFile(at, []byte(text), 0o644))
		}
	}
}

// look reads a folder into the form that write takes.
func look(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			if inside, _ := os.ReadDir(name); len(inside) == 0 {
				found[rel+"/"] = ""
			}
		case info.Mode()&fs.ModeSymlink != 0:
			found[rel+"@"], err = os.Readlink(name)
		default:
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if info.Mode()&0o111 != 0 {
				rel += "*"
			}
			found[rel] = string(data)
		}
		return err
	}))
	return found
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func folderCase(path string) suite.Case {
	return suite.Case{ID: "c", Source: suite.Source{Path: path, Isolation: "auto", At: suite.Pos{File: "case.yaml", Line: 3, Col: 9}}}
}

func resolve(t testing.TB, s *Sandbox, c suite.Case) *Source {
	t.Helper()
	src, err := s.Resolve(t.Context(), c)
	must(t, err)
	return src
}

func open(t testing.TB, s *Sandbox, src *Source, n Needs) *Place {
	t.Helper()
	p, err := s.Open(t.Context(), src, n)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close(context.Background())) })
	return p
}

// places counts what is left in the scratch folder.
func places(t testing.TB, s *Sandbox) int {
	t.Helper()
	entries, err := os.ReadDir(s.Scratch)
	must(t, err)
	return len(entries)
}

func TestOpenLaysTheFolder(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"a.txt": "one\n", "bin/run*": "#!/bin/sh\n", "empty/": "", "latin-\xe9": "bytes", "link@": "a.txt", "deep/down/up@": "../../bin",
	}
	s := newSandbox(t, nil)
	write(t, filepath.Join(s.Suite, "fixture"), files)
	write(t, filepath.Join(s.Suite, "fixture"), map[string]string{".git/config": "x", "deep/.git": "gitdir: /elsewhere"})
	must(t, os.Chmod(filepath.Join(s.Suite, "fixture/a.txt"), 0o600|fs.ModeSetuid))
	src := resolve(t, s, folderCase("fixture"))

	p := open(t, s, src, Needs{Env: []string{"A=1"}})
	if diff := cmp.Diff(files, look(t, p.Work)); diff != "" {
		t.Error(diff)
	}
	info, err := os.Lstat(filepath.Join(p.Work, "a.txt"))
	must(t, err)
	if info.Mode() != 0o644 {
		t.Errorf("a.txt has mode %v, want 0644", info.Mode())
	}
	if diff := cmp.Diff([]string{"A=1"}, p.Exec.(*shell).env); diff != "" {
		t.Error(diff)
	}
	must(t, p.Close(t.Context()))
	must(t, p.Close(t.Context()))
	if n := p.Exec.(*shell).closed; n != 1 {
		t.Errorf("the executor was closed %d times", n)
	}
	if n := places(t, s); n != 0 {
		t.Errorf("%d places are left", n)
	}
}

func TestSameBytesWhetherKeptOrCopied(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, nil)
	files := map[string]string{"big": strings.Repeat("0123456789abcdef", 1<<17), "small": "x", "x/y@": "../big"}
	for i := range 100 {
		files["many/"+string(rune('a'+i%26))+strings.Repeat("z", i)] = strings.Repeat("q", i)
	}
	write(t, filepath.Join(s.Suite, "f"), files)
	kept := resolve(t, s, folderCase("f"))
	s.memory.left = 0
	s.folders = map[[2]string]*tree{}
	copied := resolve(t, s, folderCase("f"))
	if !kept.work.kept || copied.work.kept || kept.Digest != copied.Digest {
		t.Fatalf("kept %v %s, copied %v %s", kept.work.kept, kept.Digest, copied.work.kept, copied.Digest)
	}
	for _, src := range []*Source{kept, copied} {
		if diff := cmp.Diff(files, look(t, open(t, s, src, Needs{}).Work)); diff != "" {
			t.Error(diff)
		}
	}
	write(t, filepath.Join(s.Suite, "f"), map[string]string{"small": "y"})
	_, err := s.Open(t.Context(), copied, Needs{})
	var broken *Error
	if !errors.As(err, &broken) || broken.Class != "sandbox" || !errors.Is(err, errChanged) {
		t.Errorf("a source that changed since preflight was laid out: %v", err)
	}
	if n := places(t, s); n != 2 {
		t.Errorf("%d places, want the two that are open", n)
	}
}

func TestManyOpensAtOnce(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, map[string]string{"f/a": "1", "f/b/c": "2"})
	src := resolve(t, s, folderCase("f"))
	errs := make(chan error)
	for range 20 {
		go func() {
			p, err := s.Open(context.Background(), src, Needs{})
			if err == nil {
				err = errors.Join(os.WriteFile(filepath.Join(p.Work, "a"), []byte("mine"), 0o644), p.Close(context.Background()))
			}
			errs <- err
		}()
	}
	for range 20 {
		must(t, <-errs)
	}
	if diff := cmp.Diff(map[string]string{"a": "1", "b/c": "2"}, look(t, open(t, s, src, Needs{}).Work)); diff != "" {
		t.Error(diff)
	}
	if n := places(t, s); n != 1 {
		t.Errorf("%d places, want 1", n)
	}
}

// TestA13Links: links that leave the tree, however they go about it, refuse the source.
func TestA13Links(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		files map[string]string
		want  string // part of the error; empty: the tree is fine
	}{
		{"to a file", map[string]string{"a": "", "l@": "a"}, ""},
		{"to a folder and back", map[string]string{"d/a": "", "d/l@": "../d/./a"}, ""},
		{"to itself as a folder", map[string]string{"l@": "."}, ""},
		{"through a link to a folder", map[string]string{"d/e/a": "", "l@": "d/e", "m@": "l/a"}, ""},
		{"absolute", map[string]string{"l@": "/etc/passwd"}, "absolute"},
		{"absolute to the tree itself", map[string]string{"a": "", "l@": "/"}, "absolute"},
		{"one up", map[string]string{"l@": "../x"}, "leaves"},
		{"up and in again", map[string]string{"a": "", "l@": "../f/a"}, "leaves"},
		{"dangling", map[string]string{"l@": "nowhere"}, "nowhere"},
		{"chained in-root links that escape", map[string]string{"d/e/x": "", "up@": "d/e/..", "d/e/out@": "../../up/../.."}, "leaves"},
		{"loop", map[string]string{"l@": "m", "m@": "l"}, "circles"},
		{"a part of a file", map[string]string{"a": "", "l@": "a/b"}, "nowhere"},
		{"up out of a file", map[string]string{"a": "", "b": "", "l@": "a/../b"}, "nowhere"},
		{"into .git", map[string]string{".git/HEAD": "", "l@": ".git/HEAD"}, "nowhere"},
		{"through a link that goes up", map[string]string{"d/e/f": "", "l@": "d/e", "m@": "l/../../../x"}, "leaves"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t, nil)
			write(t, filepath.Join(s.Suite, "f"), tt.files)
			_, err := s.Resolve(t.Context(), folderCase("f"))
			var problem suite.Problem
			switch {
			case tt.want == "":
				must(t, err)
			case !errors.As(err, &problem) || !strings.Contains(problem.Msg, tt.want) || problem.Line != 3:
				t.Errorf("got %v, want a problem that says %q", err, tt.want)
			}
		})
	}
}

func TestSpecialFilesAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, at string){
		"FIFO": func(t *testing.T, at string) { must(t, syscall.Mkfifo(at, 0o644)) },
		"socket": func(t *testing.T, at string) {
			l, err := net.Listen("unix", at)
			must(t, err)
			t.Cleanup(func() { l.Close() })
		},
		"device": func(t *testing.T, at string) {
			if err := syscall.Mknod(at, syscall.S_IFCHR|0o644, 1<<8|3); err != nil {
				t.Skipf("no device can be made here: %v", err)
			}
		},
	}
	for kind, make := range tests {
		t.Run(kind, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "s") // sockets have short names
			must(t, err)
			t.Cleanup(func() { os.RemoveAll(dir) })
			make(t, filepath.Join(dir, "x"))
			s := newSandbox(t, nil)
			s.Suite = filepath.Dir(dir)
			_, err = s.Resolve(t.Context(), folderCase(filepath.Base(dir)))
			if err == nil || !strings.Contains(err.Error(), "a "+kind) {
				t.Errorf("got %v, want an error that names a %s", err, kind)
			}
		})
	}
}

func TestResolveFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		src  suite.Source
		want string
	}{
		{"missing", suite.Source{Path: "none"}, "no such file"},
		{"file", suite.Source{Path: "a"}, "is a file"},
		{"clone of a folder", suite.Source{Path: "f", Isolation: "clone"}, "cannot be isolated by clone"},
		{"worktree of a repository", suite.Source{Repo: &suite.Repo{}, Isolation: "worktree"}, "cannot be isolated by worktree"},
	}
	s := newSandbox(t, map[string]string{"a": "", "f/a": ""})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := s.Resolve(t.Context(), suite.Case{Source: tt.src})
			var problem suite.Problem
			if !errors.As(err, &problem) || !strings.Contains(problem.Msg, tt.want) {
				t.Errorf("got %v, want a problem that says %q", err, tt.want)
			}
		})
	}
}

func TestNewRefusesOpenFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o777))
	if _, err := New(Options{Suite: dir, Scratch: dir, Cache: dir}); err == nil || !strings.Contains(err.Error(), "others may write") {
		t.Errorf("got %v", err)
	}
}

func TestUnfinishedBuildsAreSwept(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, nil)
	write(t, s.Cache, map[string]string{".new-old/tree/a": "", ".new-young/tree/a": "", "env-1/tree/a": ""})
	longAgo := time.Now().Add(-48 * time.Hour)
	for _, name := range []string{".new-old", "env-1"} {
		must(t, os.Chtimes(filepath.Join(s.Cache, name), longAgo, longAgo))
	}
	s.cache.sweep(time.Now())
	if diff := cmp.Diff(map[string]string{".new-young/tree/a": "", "env-1/tree/a": ""}, look(t, s.Cache)); diff != "" {
		t.Error(diff)
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	look := func(name string) error {
		switch name {
		case "yes":
			return nil
		case "dark":
			return errors.New("nobody can look")
		}
		return fmt.Errorf("%s: %w", name, exec.ErrNotFound)
	}
	must(t, Tools([]string{"yes"}, look))
	for text, want := range map[string]*Unavailable{
		"yes no never": {What: "tools", Reason: "no_cli", Text: "no, never not found on PATH; install no, never"},
		"no dark":      {What: "tools", Reason: "unknown", Text: "nobody can look"},
	} {
		var missing *Unavailable
		if err := Tools(strings.Fields(text), look); !errors.As(err, &missing) {
			t.Fatalf("got %v", err)
		}
		if diff := cmp.Diff(want, missing); diff != "" {
			t.Error(diff)
		}
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	var all bytes.Buffer
	out := &tail{to: &all}
	for range 3 {
		_, err := io.WriteString(out, strings.Repeat("x", 3000))
		must(t, err)
	}
	_, err := io.WriteString(out, strings.Repeat("y", 5000)+"\xffend")
	must(t, err)
	if got := out.String(); len(got) > tailSize+2 || !strings.HasSuffix(got, "y\uFFFDend") || all.Len() != 14004 {
		t.Errorf("kept %d bytes, passed on %d", len(got), all.Len())
	}
}

func kinds(found []Finding) []string {
	list := []string{}
	for _, f := range found {
		list = append(list, f.Kind+" "+f.Path)
	}
	sort.Strings(list)
	return list
}
