package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/result"
	"github.com/rogpeppe/go-internal/txtar"
)

// A yard is a folder of its own in which a test starts the real program as a user does: with a suite, a temporary folder, a
// cache, and assay and fake-agent on the PATH.
type yard struct {
	*testing.T
	dir string
}

// newYard makes a yard and writes the files of a txtar archive into it.
func newYard(t *testing.T, archive string) *yard {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the host executor contains processes on Linux only")
	}
	if testing.Short() {
		t.Skip("starts the real program many times")
	}
	built, err := builtAssay()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	must(err)
	y := &yard{t, t.TempDir()}
	must(os.MkdirAll(y.path("bin"), 0o755))
	must(os.MkdirAll(y.path("tmp"), 0o755))
	must(os.Link(built, y.path("bin", "assay")))
	must(os.Link(self, y.path("bin", "fake-agent")))
	y.lay(archive)
	return y
}

// builtAssay builds the program once, beside the test's own binary: that folder goes when the test ends. Each yard has a
// link to it, so that the processes of one yard are known by the path of their program.
var builtAssay = sync.OnceValues(func() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	name := filepath.Join(filepath.Dir(self), "assay-of-"+filepath.Base(self))
	out, err := exec.Command("go", "build", "-o", name, "github.com/assay-ci/assay/cmd/assay").CombinedOutput()
	if err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return name, nil
})

func (y *yard) path(elem ...string) string {
	return filepath.Join(append([]string{y.dir}, elem...)...)
}

// lay writes the files of a txtar archive.
func (y *yard) lay(archive string) {
	for _, f := range txtar.Parse([]byte(archive)).Files {
		y.write(f.Name, string(f.Data))
	}
}

func (y *yard) write(name, text string) {
	y.Helper()
	must(os.MkdirAll(filepath.Dir(y.path(name)), 0o755))
	must(os.WriteFile(y.path(name), []byte(text), 0o644))
}

func (y *yard) read(name string) string {
	y.Helper()
	b, err := os.ReadFile(y.path(name))
	if err != nil {
		y.Fatal(err)
	}
	return string(b)
}

// A started run is one process of assay run.
type started struct {
	cmd    *exec.Cmd
	ledger string
	out    bytes.Buffer  // both streams
	done   chan struct{} // closed when it has ended
}

// start starts assay run on the suite of the yard, with two jobs.
func (y *yard) start(out string, args ...string) *started {
	y.Helper()
	return y.startAt("suite", out, args...)
}

func (y *yard) startAt(suite, out string, args ...string) *started {
	y.Helper()
	s := &started{ledger: out, done: make(chan struct{})}
	s.cmd = exec.Command(y.path("bin", "assay"), append([]string{"run", suite, "--jobs", "2", "--out", out}, args...)...)
	s.cmd.Dir = y.dir
	s.cmd.Env = append(os.Environ(), "PATH="+y.path("bin")+":"+os.Getenv("PATH"), "TMPDIR="+y.path("tmp"), "ASSAY_CACHE="+y.path("cache"))
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	s.cmd.WaitDelay = 10 * time.Second // a survivor that holds the streams is the finding of another check
	must(s.cmd.Start())
	go func() { defer close(s.done); _ = s.cmd.Wait() }()
	y.Cleanup(func() { _ = s.cmd.Process.Kill(); <-s.done })
	return s
}

// run starts assay run and waits for its end.
func (y *yard) run(out string, args ...string) ended {
	y.Helper()
	return y.end(y.start(out, args...))
}

// An ended run is what a user sees of it, and the benchmark it wrote with times emptied.
type ended struct {
	Code      int // -1: by a signal
	Text      string
	Benchmark string
}

var keptCells = regexp.MustCompile(`· (\d+) kept`)

// kept is the number of cells that the ledger held already.
func (e ended) kept() int {
	m := keptCells.FindStringSubmatch(e.Text)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	must(err)
	return n
}

// end waits for the end of a run.
func (y *yard) end(s *started) ended {
	y.Helper()
	select {
	case <-s.done:
	case <-time.After(2 * time.Minute):
		y.Fatal("the run does not end")
	}
	e := ended{Code: s.cmd.ProcessState.ExitCode(), Text: s.out.String()}
	if b, err := y.benchmark(s.ledger); err == nil {
		text, err := b.WithoutTimes().JSON()
		must(err)
		e.Benchmark = string(text)
	} else if !errors.Is(err, fs.ErrNotExist) {
		y.Errorf("%s: %v", s.ledger, err)
	}
	return e
}

// benchmark reads the benchmark.json of a results folder of the yard.
func (y *yard) benchmark(out string) (bench.Benchmark, error) {
	f, err := os.Open(y.path(out, "benchmark.json"))
	if err != nil {
		return bench.Benchmark{}, err
	}
	defer f.Close()
	return bench.Read(f)
}

// records returns the records of all planned cells that a ledger holds, by the folder of the cell. One that cannot be read
// is an error of the test.
func (y *yard) records(out string) map[string]result.Result {
	y.Helper()
	m, err := result.ReadManifest(y.path(out))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		y.Error(err)
		return nil
	}
	records := map[string]result.Result{}
	for r, err := range result.Read(y.path(out), m.Cells) {
		if err != nil {
			y.Error(err)
			continue
		}
		records[result.Dir(r.Cell)] = r
	}
	return records
}

// journal returns the notes of a ledger's journal, as far as its lines are whole.
func (y *yard) journal(out string) []result.Note {
	data, err := os.ReadFile(y.path(out, "journal.jsonl"))
	if err != nil {
		return nil
	}
	var notes []result.Note
	for line := range strings.Lines(string(data)) {
		var n result.Note
		if _, body, ok := strings.Cut(line, " "); ok && json.Unmarshal([]byte(body), &n) == nil {
			notes = append(notes, n)
		}
	}
	return notes
}

// noted counts the notes of a kind.
func (y *yard) noted(out, what string) int {
	n := 0
	for _, note := range y.journal(out) {
		if note.What == what {
			n++
		}
	}
	return n
}

// until waits for something that a run does, or for the end of the run, and tells which it was.
func (y *yard) until(s *started, happened func() bool) bool {
	for end := time.Now().Add(time.Minute); !happened(); {
		select {
		case <-s.done:
			return happened()
		case <-time.After(time.Millisecond):
		}
		if time.Now().After(end) {
			y.Fatal("waited for a minute")
		}
	}
	return true
}

// content returns every file below a folder of the yard but for the lock and the journal, which tell of every start.
func (y *yard) content(dir string) map[string]string {
	y.Helper()
	files := map[string]string{}
	must(filepath.WalkDir(y.path(dir), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == ".lock" || d.Name() == "journal.jsonl" {
			return err
		}
		b, err := os.ReadFile(name)
		rel, _ := filepath.Rel(y.path(dir), name)
		files[rel] = string(b)
		return err
	}))
	return files
}

// noneLeft asserts that no process of the yard is left, known by its program or by its environment. Supervisors need a
// moment to see that assay is gone.
func (y *yard) noneLeft() {
	y.Helper()
	var left []string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if left = y.processes(); len(left) == 0 {
			return
		}
	}
	y.Errorf("still running: %q", left)
}

func (y *yard) processes() []string {
	left := processesOf(y.path("bin"))
	list, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range list {
		if env, err := os.ReadFile(name); err == nil && bytes.Contains(env, []byte(y.dir)) {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
			left = append(left, string(line))
		}
	}
	return left
}

// noPlaceLeft asserts that the temporary folder is empty.
func (y *yard) noPlaceLeft() {
	y.Helper()
	left, err := os.ReadDir(y.path("tmp"))
	must(err)
	for _, d := range left {
		y.Errorf("left in the temporary folder: %s", d.Name())
	}
}

// smallDisk mounts a file system of the given size, such as 64k, on a folder of the yard.
func (y *yard) smallDisk(name, size string) {
	y.Helper()
	if os.Geteuid() != 0 {
		y.Skip("mounting a small disk takes root")
	}
	must(os.MkdirAll(y.path(name), 0o755))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", y.path(name)).CombinedOutput(); err != nil {
		y.Skipf("no small disk can be mounted here: %v: %s", err, out)
	}
	y.Cleanup(func() {
		if err := exec.Command("umount", y.path(name)).Run(); err != nil {
			y.Errorf("umount: %v", err)
		}
	})
}

// remount changes the options of a small disk.
func (y *yard) remount(name, options string) {
	y.Helper()
	if out, err := exec.Command("mount", "-o", "remount,"+options, y.path(name)).CombinedOutput(); err != nil {
		y.Fatalf("remount: %v: %s", err, out)
	}
}

// signalled tells whether a run was ended by a signal.
func (s *started) signalled(sig syscall.Signal) bool {
	status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == sig
}
