package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The descriptors that a supervisor starts with, beside the streams of its command. In a box these are not its own
// streams, and there is no folder.
const (
	linkFD    = 3
	dirFD     = 4
	streamsFD = 5 // three of them
	doorFD    = 8
)

// Supervise is the body of the hidden subcommand that runs one command for a [Host]: it starts the command in a session
// of its own, inherits every orphan below it, ends all of them when the command has ended, when it is told to, or when
// the host is gone, and reports how the command ended. It returns the exit code of this process. Call it before anything
// else is set up: a supervisor is started for each command.
//
// With the argument frames it does so for a host that is elsewhere: see [framesName].
func Supervise(args []string) int {
	switch {
	case len(args) == 1 && args[0] == framesName:
		return superviseFrames()
	case len(args) > 0 && args[0] == surveyName:
		return survey(args[1:])
	}
	var link unix.Stat_t
	if err := unix.Fstat(linkFD, &link); err != nil || link.Mode&unix.S_IFMT != unix.S_IFSOCK || len(args) > 0 {
		fmt.Fprintln(os.Stderr, "assay: supervise is started by assay itself, with a socket as descriptor 3 and no arguments")
		return 2
	}
	host := os.NewFile(linkFD, "host")
	orders := make(chan order)
	go listen(host, orders)
	first, ok := <-orders
	if !ok || first.Start == nil {
		return 1 // the host is gone
	}
	s := supervisor{orders: orders, exited: make(chan os.Signal, 1), streams: []*os.File{os.Stdin, os.Stdout, os.Stderr}}
	rep, err := s.run(*first.Start)
	if err != nil {
		rep.Fault = err.Error()
	}
	if json.NewEncoder(host).Encode(rep) != nil {
		return 1
	}
	return 0
}

// listen passes on what the host says, until it is gone.
func listen(host *os.File, orders chan<- order) {
	defer close(orders)
	for dec := json.NewDecoder(host); ; {
		var o order
		if dec.Decode(&o) != nil {
			return
		}
		orders <- o
	}
}

// supervisor runs in one goroutine, so that it never signals a pid that it has collected already.
type supervisor struct {
	orders  <-chan order
	streams []*os.File     // stdin, stdout and stderr of the command
	exited  chan os.Signal // SIGCHLD
	pid     int            // of the command, which leads a group and a session
	ended   bool           // the command itself has ended
	alone   bool           // and nothing that descends from us is left
	drained bool           // nobody holds the output open
	kill    time.Time      // when the grace is over; zero: not told to stop
	began   time.Time
	report  report
}

func (s *supervisor) run(c start) (report, error) {
	err := s.settle()
	if err == nil && c.Box != nil {
		err = c.Box.settle()
	}
	if err != nil {
		return s.report, err
	}
	started, err := s.start(c)
	// From here on the streams belong to the command alone, so that their end is its end.
	closeAll(s.streams)
	if err != nil || !started {
		return s.report, err
	}
	for !s.ended && (s.kill.IsZero() || time.Now().Before(s.kill)) {
		s.wait(s.kill)
	}
	// What the command left behind may finish its output (a tee), unless we are in a hurry.
	for end := time.Now().Add(linger); !s.alone && !s.drained && s.kill.IsZero() && time.Now().Before(end); {
		s.wait(end)
	}
	s.sweep()
	return s.report, nil
}

// settle makes this process what a supervisor has to be.
func (s *supervisor) settle() error {
	// The command gets its three streams and nothing else: not ours, and not what who started assay left open.
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("supervisor: %w", err)
	}
	for _, entry := range fds {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd >= linkFD {
			unix.CloseOnExec(fd)
		}
	}
	unix.Umask(0o022) // the same for all commands, whatever ours is
	// Handlers of ours are reset in the command; signals that we ignore it would ignore, too.
	signal.Notify(make(chan os.Signal, 1)) // all of them: in a box no command can end us by one
	signal.Notify(s.exited, unix.SIGCHLD)
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("supervisor: dumpable: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("supervisor: child subreaper: %w", err)
	}
	return nil
}

// enter goes to the folder of the command.
func (s *supervisor) enter(c start) error {
	if c.Work == nil {
		return os.NewSyscallError("fchdir", unix.Fchdir(dirFD))
	}
	root, err := os.OpenRoot(string(c.Work))
	if err != nil {
		return err
	}
	defer root.Close()
	dir, err := openFolder(root, string(c.Dir))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Chdir()
}

// start starts the command. A program that cannot be run is data: it is reported as a shell does it.
func (s *supervisor) start(c start) (started bool, err error) {
	argv, env := stringsOf(c.Argv), stringsOf(c.Env)
	s.began = time.Now()
	if err := s.enter(c); err != nil {
		return false, s.noFolder(string(c.Dir), err)
	}
	var path string
	err = as(c.User, func() (err error) {
		path, err = find(argv[0], env)
		return err
	})
	if err == nil {
		s.pid, err = fork(path, argv, env, s.streams, c.User)
	}
	switch {
	case err == nil:
		return true, nil
	case ourFault(err):
		return false, fmt.Errorf("start: %w", err)
	case err == errNoProgram, errors.Is(err, fs.ErrNotExist):
		s.report.Code = 127
	default:
		s.report.Code = 126
	}
	fmt.Fprintf(s.streams[2], "assay: %s: %v\n", argv[0], err)
	return false, nil
}

// noFolder reports a folder that cannot be entered; it is data unless we have run out of something.
func (s *supervisor) noFolder(dir string, err error) error {
	if ourFault(err) {
		return fmt.Errorf("start: %w", err)
	}
	s.report.Code = 126
	io.WriteString(s.streams[2], noFolderText(dir, err))
	return nil
}

func stringsOf(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

// errNoProgram is said of a name that no folder of PATH holds.
var errNoProgram = errors.New("no such program on PATH")

// find looks a program up. Folders of PATH that are not absolute are passed over: they would be the agent's.
func find(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, v := range env {
		list, ok := strings.CutPrefix(v, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", errNoProgram
}

// fork starts a program in a session of its own, without a terminal.
func fork(path string, argv, env []string, streams []*os.File, user int) (pid int, err error) {
	attr := &syscall.ProcAttr{Env: env, Sys: &syscall.SysProcAttr{Setsid: true}}
	for _, f := range streams {
		attr.Files = append(attr.Files, f.Fd()) // which makes it blocking, as programs expect it
	}
	if user != 0 {
		attr.Sys.Credential = credential(user)
		if err := noNewPrivileges(); err != nil {
			return 0, err
		}
	}
	// A program that was written a moment ago may still be open for writing in a process that is just being forked.
	for end := time.Now().Add(time.Second); ; time.Sleep(5 * time.Millisecond) {
		pid, err = syscall.ForkExec(path, argv, attr)
		if !errors.Is(err, unix.ETXTBSY) || time.Now().After(end) {
			return pid, err
		}
	}
}

// wait waits for the next thing to happen, at most until the given time unless that is zero.
func (s *supervisor) wait(until time.Time) {
	var timer <-chan time.Time
	if !until.IsZero() {
		timer = time.After(time.Until(until))
	}
	select {
	case o, ok := <-s.orders:
		s.reap() // what has ended before the order came was not ended by it
		s.obey(o, ok)
	case <-s.exited:
		s.reap()
	case <-timer:
	}
}

// obey does what the host says; ok is false when the host is gone.
func (s *supervisor) obey(o order, ok bool) {
	now := time.Now()
	switch {
	case !ok:
		s.orders = nil
		s.kill = now
	case o.Drained:
		s.drained = true
	case o.Stop != nil && !s.ended:
		if s.kill.IsZero() {
			s.report.Stopped = true
			unix.Kill(-s.pid, unix.SIGTERM)
		}
		if at := now.Add(*o.Stop); s.kill.IsZero() || at.Before(s.kill) {
			s.kill = at
		}
	case o.Stop != nil:
		s.kill = now // it has ended, there is nothing to be patient for
	}
}

// reap collects all that have ended. When the kernel says that we have no child, nothing descends from us: every orphan
// would have become our child.
func (s *supervisor) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			s.alone = true
			return
		case pid == 0:
			return
		case pid == s.pid && !s.ended:
			s.ended = true
			s.report.Took = time.Since(s.began)
			s.report.Code = status.ExitStatus() // -1 for a signal
			if status.Signaled() {
				s.report.Signal = unix.SignalName(status.Signal())
			}
		}
	}
}

// sweep ends all that descends from us. One round is not enough: while we read, they fork.
func (s *supervisor) sweep() {
	if !s.ended {
		unix.Kill(-s.pid, unix.SIGKILL)
	}
	swept := map[process]bool{}
	self := os.Getpid()
	var left []process
	for end := time.Now().Add(sweepLimit); !s.alone && time.Now().Before(end); {
		left = withDescendants(children(self))
		for _, p := range left {
			p.kill()
			if p.pid != s.pid && !p.zombie {
				swept[process{pid: p.pid, started: p.started}] = true
			}
		}
		s.wait(time.Now().Add(2 * time.Millisecond))
	}
	s.report.Swept = len(swept)
	if s.alone {
		return
	}
	if !s.ended {
		s.report.Code, s.report.Took = -1, time.Since(s.began)
	}
	for _, p := range left[:min(len(left), 20)] {
		s.report.Survivors = append(s.report.Survivors, p.String())
	}
}
