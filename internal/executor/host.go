package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// HostOptions describe a place on this host. The folders are absolute; the place does not remove them.
type HostOptions struct {
	Work       string   // exists
	Home, Tmp  string   // made before the first command, unless they are there
	Env        []string // NAME=value, what the place itself sets
	Host       []string // the environment of the host, from which PATH, LANG, LC_ALL and TZ are taken
	Supervisor []string // argv that runs [Supervise]; its first element is a path
	Token      string   // unique to this place; marks its processes as ASSAY_CELL=<token>

	inside Folders // Home and Tmp as commands see them; empty: the same
}

// A Host is a place on this host. Its commands run as the user that we are: see [Kinds] for what that does not protect.
type Host struct {
	env        map[string]string
	supervisor []string
	root       *os.Root
	furnish    func() error       // makes home and tmp
	boxed      *boxed             // the walls around its commands; nil: they are not in a box
	user       *placeUser         // that its commands run as; nil: the one that we are
	ended      context.CancelFunc // ends all running commands
	life       context.Context

	mu      sync.Mutex
	closed  bool
	used    bool           // a command was run
	running sync.WaitGroup // commands
}

var _ Executor = (*Host)(nil)

// contained is canContain, asked once: the answer is a property of the kernel.
var contained = sync.OnceValue(canContain)

// NewHost opens a place. It is an error where the processes of a command cannot be contained: anywhere but on Linux.
func NewHost(o HostOptions) (*Host, error) {
	if err := contained(); err != nil {
		return nil, fmt.Errorf("host executor: %w", err)
	}
	if len(o.Supervisor) == 0 || o.Token == "" {
		return nil, errors.New("host executor: no supervisor or no token given")
	}
	for _, dir := range []string{o.Home, o.Tmp, o.Work} {
		info, err := os.Stat(dir)
		missing := errors.Is(err, fs.ErrNotExist) && dir != o.Work
		if err != nil && !missing {
			return nil, fmt.Errorf("host executor: %w", err)
		}
		if !filepath.IsAbs(dir) || !missing && !info.IsDir() {
			return nil, fmt.Errorf("host executor: %s: want the absolute path of a folder", dir)
		}
	}
	env, err := placeEnv(o)
	if err != nil {
		return nil, fmt.Errorf("host executor: %w", err)
	}
	root, err := os.OpenRoot(o.Work)
	if err != nil {
		return nil, fmt.Errorf("host executor: %w", err)
	}
	life, ended := context.WithCancel(context.Background())
	furnish := sync.OnceValue(func() error { return errors.Join(makeFolder(o.Home), makeFolder(o.Tmp)) })
	return &Host{env: env, supervisor: slices.Clone(o.Supervisor), root: root, furnish: furnish, life: life, ended: ended}, nil
}

func makeFolder(dir string) error {
	if err := os.Mkdir(dir, 0o755); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Files returns the work folder.
func (h *Host) Files() FS {
	f := folder{root: h.root}
	if h.user != nil {
		f.owner = h.user.id
	}
	return f
}

// Close cancels the commands that run, waits for their end, and ends every process that carries the token of the place.
// It does so in a few seconds, even when the context has ended: who cancels a run still wants its processes gone. The
// second call does nothing.
func (h *Host) Close(context.Context) error {
	h.mu.Lock()
	closed := h.closed
	h.closed = true
	h.mu.Unlock()
	if closed {
		return nil
	}
	h.ended()
	gone := make(chan struct{})
	go func() { h.running.Wait(); close(gone) }()
	var err error
	select {
	case <-gone:
	case <-time.After(cancelGrace + 2*hardLimit):
		err = errors.New("close place: a command still runs, because a writer of its output blocks")
	}
	if h.used {
		endOrphans()
		endMarked(tokenName + "=" + h.env[tokenName])
	}
	if h.user != nil {
		err = errors.Join(err, h.user.end())
	}
	return errors.Join(err, h.root.Close())
}

// enter registers a command with the place; leave it with h.running.Done.
func (h *Host) enter() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errors.New("the place is closed")
	}
	h.used = true
	h.running.Add(1)
	return nil
}

// Run runs one command below a supervisor of its own.
func (h *Host) Run(ctx context.Context, c Command) (Exit, error) {
	if err := h.enter(); err != nil {
		return Exit{}, fmt.Errorf("run: %w", err)
	}
	defer h.running.Done()
	env, err := checkCommand(c, h.env)
	if err != nil {
		return Exit{}, fmt.Errorf("run: %w", err)
	}
	err = h.furnish()
	if err == nil && h.user != nil {
		err = h.user.moveIn()
	}
	if err != nil {
		return Exit{}, fmt.Errorf("run %s: %w", c.Argv[0], err)
	}
	if ctx.Err() != nil { // called off before it began: nothing is started
		late := errors.Is(context.Cause(ctx), context.DeadlineExceeded)
		return Exit{Code: -1, TimedOut: late, Cancelled: !late}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.life, cancel)()

	dir, err := openFolder(h.root, c.Dir)
	switch {
	case ourFault(err):
		return Exit{}, fmt.Errorf("run %s: %w", c.Argv[0], err)
	case err != nil:
		return noFolder(c, err)
	}
	defer dir.Close()
	exit, err := supervise(ctx, h.seat(c, env, dir), c)
	if err != nil {
		return exit, fmt.Errorf("run %s: %w", c.Argv[0], err)
	}
	return exit, nil
}

// seat is how the supervisor of a command is started in this place.
func (h *Host) seat(c Command, env []string, dir *os.File) seat {
	s := seat{argv: h.supervisor, dir: dir, start: start{Argv: bytesOf(c.Argv), Env: bytesOf(env)}}
	switch {
	case h.boxed != nil:
		h.boxed.seat(&s, c.Dir)
	case h.user != nil:
		s.start.User = h.user.id
	}
	return s
}

// openFolder opens a folder below the work folder, never one that a link leads away to.
func openFolder(work *os.Root, dir string) (*os.File, error) {
	return work.OpenFile(filepath.Clean(dir), os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
}

// checkCommand refuses what can never be run and returns the environment of the command, which starts from that of the
// place.
func checkCommand(c Command, place map[string]string) ([]string, error) {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return nil, errors.New("no program named")
	}
	for i, arg := range c.Argv {
		if strings.ContainsRune(arg, 0) {
			return nil, fmt.Errorf("argument %d of %q holds a NUL byte", i, c.Argv[0])
		}
	}
	if c.Dir != "" && !filepath.IsLocal(c.Dir) {
		return nil, fmt.Errorf("folder %q is not below the work folder", c.Dir)
	}
	env := maps.Clone(place)
	if err := addEnv(env, c.Env); err != nil {
		return nil, err
	}
	return listEnv(env), nil
}

// ourFault reports whether an error says that this host has run out of something, and not that something is wrong with
// the command.
func ourFault(err error) bool {
	for _, shortage := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, shortage) {
			return true
		}
	}
	return false
}

// noFolder is the end of a command whose folder is not there: an agent may have removed it, so it is data.
func noFolder(c Command, err error) (Exit, error) {
	text := noFolderText(c.Dir, err)
	exit := Exit{Code: 126, Err: int64(len(text))}
	if c.Stderr != nil {
		if _, err := io.WriteString(c.Stderr, text); err != nil {
			return exit, fmt.Errorf("run %s: %w", c.Argv[0], err)
		}
	}
	return exit, nil
}

// noFolderText is what a command whose folder is not there says on its stderr.
func noFolderText(dir string, err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return fmt.Sprintf("assay: folder %s: %v\n", dir, err)
}
