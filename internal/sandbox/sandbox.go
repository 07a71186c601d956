// Package sandbox makes and removes the place where one cell works: [Sandbox.Resolve] finds the tree of a case (a folder,
// or a commit of a repository through a verified cache), [Sandbox.Open] lays it out for an agent, [Sandbox.Grading] lays
// out what the agent left behind together with the hidden assets for the graders, and [Place.Close] removes every trace.
//
// Three kinds of bytes pass through here and none is trusted: what a suite names, what a server sends, and what an agent
// left behind. A tree is read once, in preflight, into a list with a sha256 for each file; from then on it is laid out from
// memory, or from a disk whose bytes must still have that sum. Links are text: they are resolved over the list, never by
// the kernel, and a tree with a link that leaves it is refused. A tree of a repository is checked against its commit id.
//
// What cannot be reached is an [Unavailable], what the author of a suite must change is a [suite.Problem], and what broke
// while a cell was alive is an [Error] with the class of its status.
package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/suite"
)

// Options configure a Sandbox. Folders are made with mode 0700.
type Options struct {
	Suite   string            // host path of the folder that suite paths are relative to
	Base    string            // the same of the files of the base revision; empty: no condition reads from there
	Scratch string            // places are made below it
	Memory  string            // a folder in memory where they are made while it has room; empty: none. See MemoryFolder
	Cache   string            // verified sources and environments are kept below it
	Allow   []string          // private hosts that sources may name
	Places  Places            // a started executor.Backend
	Hides   bool              // agents cannot read the files of the host, and so not the suite
	Network executor.Network  // what agents reach; everybody else in a place reaches nothing, where that can be enforced
	Overlay bool              // trees may be shown in places by overlay mounts, where those can be had: agents are of the user that we are
	Images  map[string]string // id of each image that environments name; see executor.Facts
}

// Places is the part of an executor.Backend that makes places.
type Places interface {
	Open(ctx context.Context, s executor.Spec) (executor.Executor, error)
	Inside(f executor.Folders) executor.Folders
}

// A File is one entry of a tree that is laid out in a grading place.
type File struct {
	Path string // slash separated, any bytes
	Mode fs.FileMode
	Link string // target, when Mode is a symbolic link
	Open func() (io.ReadCloser, error)
}

// A Finding is something found while a place was made that a reader should know of. Kind is one of the Found constants.
type Finding struct{ Kind, Path, Text string }

// The kinds of findings.
const (
	FoundBadCache     = "cache_rebuilt"      // a cache entry had changed; it was set aside and made again
	FoundGit          = "git_dropped"        // a .git that the agent left behind
	FoundSetuid       = "setuid_stripped"    // a setuid or setgid bit
	FoundBytecode     = "bytecode_dropped"   // compiled Python, which is loaded in the place of its source
	FoundAutoloaded   = "autoloaded_reset"   // a file that tools load unasked, back as it was before the agent
	FoundDependency   = "dependency_reset"   // an installed package, back as it was before the agent
	FoundShadow       = "module_dropped"     // a Python module at the top of the tree in the place of one of Python's own
	FoundOverwritten  = "hidden_overwritten" // something stood at the path of a hidden asset
	FoundInTheWay     = "in_the_way"         // a file or link stood where a folder must be
	FoundUnknownEntry = "not_laid"           // neither a file nor a folder nor a link
)

// Unavailable is the error of a source, tool or asset that cannot be reached. Reason is no_auth, not_found, no_network,
// bad_commit, no_cli or unknown.
type Unavailable struct {
	What   string
	Reason string
	Text   string
}

func (u *Unavailable) Error() string { return u.What + ": " + u.Reason + ": " + u.Text }

// An Error is something that broke while a place was made or used.
type Error struct {
	Class string // of the cell's status: sandbox, environment or grader
	What  string
	Err   error
	Log   string // the last 4 KiB of the output of the command that failed, if one did
}

func (e *Error) Error() string {
	text := e.What + ": " + e.Err.Error()
	if e.Log != "" {
		text += "\n" + e.Log
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrTooLarge says that a tree has more entries or bytes than a place takes. For an agent's tree it is the agent's doing.
var ErrTooLarge = fmt.Errorf("more than %d entries or %d MiB", maxEntries, maxBytes>>20)

// A Sandbox makes places. Its methods may be called at the same time.
type Sandbox struct {
	Options
	client  *http.Client
	cache   *cache
	memory  *budget
	umasked bool // the umask of this process takes bits away from 0755 and 0644

	mu      sync.Mutex
	folders map[[2]string]*tree // folders and files of suites, as they were when they were first read
	seen    map[string]surroundings
	stages  stages
}

// New returns a Sandbox whose scratch and cache folders exist.
func New(o Options) (*Sandbox, error) {
	for _, dir := range []*string{&o.Suite, &o.Scratch, &o.Cache} {
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return nil, err
		}
		*dir = abs
	}
	if o.Base != "" && !filepath.IsAbs(o.Base) {
		return nil, fmt.Errorf("the folder of the base revision is not absolute: %s", o.Base)
	}
	for _, dir := range []string{o.Scratch, o.Cache} {
		if err := private(dir); err != nil {
			return nil, err
		}
	}
	umasked, err := umasked(o.Scratch)
	if err != nil {
		return nil, err
	}
	memory := &budget{left: 32 << 20}
	cache := newCache(o.Cache, memory)
	cache.sweep(time.Now())
	return &Sandbox{
		Options: o,
		client:  newClient(o.Allow, nil),
		cache:   cache,
		memory:  memory,
		umasked: umasked,
		folders: map[[2]string]*tree{},
		seen:    map[string]surroundings{},
		stages:  stages{made: map[stageKey]*stage{}, probed: map[string]bool{}, refused: map[stageKey]bool{}},
	}, nil
}

// private makes a folder that only we may enter, and refuses one that others may write to.
func private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	if info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("others may write to %s: choose a folder of your own, or chmod go-w it", dir)
	}
	return nil
}

// umasked finds out whether modes must be set once more after a file is made, so that a tree looks the same on each host.
func umasked(dir string) (bool, error) {
	probe, err := os.MkdirTemp(dir, "umask-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(probe)
	sub := filepath.Join(probe, "d")
	if err := os.Mkdir(sub, 0o755); err != nil {
		return false, err
	}
	info, err := os.Lstat(sub)
	return err == nil && info.Mode().Perm() != 0o755, err
}

// A Source is the tree of a case, read and checked, ready to be laid out any number of times.
type Source struct {
	Digest   string    // sha256 of the list of its files, as hex
	Findings []Finding // what came up when it was resolved

	what     string
	work     *tree
	git      *tree // what the place's .git holds; nil: no repository
	worktree *worktree
	// again puts right what the cache holds; nil for a source that is not of the cache.
	again func(context.Context) ([]Finding, error)
}

// Files gives the tree as it was read.
func (s *Source) Files() iter.Seq2[File, error] { return s.work.files() }

// Resolve finds the tree of a case. The error is an *Unavailable when the source cannot be reached, and a suite.Problem
// when the case must be changed.
func (s *Sandbox) Resolve(ctx context.Context, c suite.Case) (*Source, error) {
	switch src := c.Source; {
	case src.Repo != nil && (src.Isolation == "" || src.Isolation == "auto" || src.Isolation == "clone"):
		return s.repoSource(ctx, *src.Repo)
	case src.Repo != nil:
		return nil, fault(src.At, "", "a repository cannot be isolated by %s; use auto or clone", src.Isolation)
	case src.Isolation == "worktree":
		return s.worktreeSource(ctx, src)
	case src.Isolation == "clone":
		return nil, fault(src.At, "use copy, or name the repository with repo and commit", "a folder cannot be isolated by clone")
	default:
		return s.folderSource(src)
	}
}

func (s *Sandbox) folderSource(src suite.Source) (*Source, error) {
	t, err := s.folder(s.Suite, src.Path, sourceRules)
	if err != nil {
		return nil, atPlace(src.At, "source", src.Path, err)
	}
	if t.single {
		return nil, fault(src.At, "", "source %s is a file; a folder is wanted", src.Path)
	}
	return &Source{Digest: t.digest(), what: "source " + src.Path, work: t}, nil
}

// folder reads a folder or a file of a suite, once: whoever asks later gets it as it was then.
func (s *Sandbox) folder(base, path string, r rules) (*tree, error) {
	if base == "" {
		base = s.Suite
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := [2]string{base, path}
	if t := s.folders[key]; t != nil {
		return t, nil
	}
	t, err := readPath(base, path, r, s.memory)
	if err == nil {
		s.folders[key] = t
	}
	return t, err
}

// fault is a problem that the author of the suite must put right.
func fault(at suite.Pos, hint, format string, args ...any) error {
	return suite.Problem{Pos: at, Level: suite.LevelFault, Msg: fmt.Sprintf(format, args...), Hint: hint}
}

// atPlace turns what is wrong with a folder of a suite into a problem at the setting that names it.
func atPlace(at suite.Pos, what, path string, err error) error {
	var bad *badTree
	if errors.As(err, &bad) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrTooLarge) {
		return fault(at, "", "%s %s: %v", what, path, err)
	}
	return fmt.Errorf("%s %s: %w", what, path, err)
}

// Tools looks for programs; look is asked for one, and its error wraps exec.ErrNotFound when the program is not there. The
// error is an *Unavailable that names all that are missing, or says why nobody could look.
func Tools(names []string, look func(name string) error) error {
	var missing []string
	for _, name := range names {
		switch err := look(name); {
		case errors.Is(err, exec.ErrNotFound):
			missing = append(missing, name)
		case err != nil:
			return &Unavailable{What: "tools", Reason: "unknown", Text: err.Error()}
		}
	}
	if missing == nil {
		return nil
	}
	list := strings.Join(missing, ", ")
	return &Unavailable{What: "tools", Reason: "no_cli", Text: list + " not found on PATH; install " + list}
}

// A tail passes output on and remembers its end, for an error message.
type tail struct {
	mu   sync.Mutex
	to   io.Writer // may be nil
	last []byte
}

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p[max(0, len(p)-tailSize):]...)
	t.last = t.last[max(0, len(t.last)-tailSize):]
	if t.to == nil {
		return len(p), nil
	}
	return t.to.Write(p)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.ToValidUTF8(t.last, []byte("\uFFFD")))
}
