package executor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// This is the host's side of a supervisor: what it is told, what it answers, and the streams of its command.

// SuperviseName is the hidden subcommand of this program whose body is [Supervise].
const SuperviseName = "supervise"

const (
	defaultGrace     = 5 * time.Second
	cancelGrace      = time.Second // who interrupts us sits in front of the screen
	defaultMaxOutput = 256 << 20
	maxReport        = 1 << 20
	linger           = 500 * time.Millisecond  // for what a command left behind to finish its output
	sweepLimit       = 1500 * time.Millisecond // then what is left is a survivor
	hardLimit        = 2 * time.Second         // after the grace, a supervisor without a report is ended itself
)

// An order goes from the host to a supervisor, over a socket that no one else holds. Its end means that the host is gone.
type order struct {
	Start   *start         `json:",omitempty"` // first and once
	Stop    *time.Duration `json:",omitempty"` // end the command: TERM, then after this long KILL
	Drained bool           `json:",omitempty"` // nobody holds the output open any more
}

// start holds bytes, since arguments and variables need not be UTF-8.
type start struct {
	Argv, Env [][]byte
	Work, Dir []byte    `json:",omitempty"` // work folder and the folder below it; nil: the folder is open already
	User      int       `json:",omitempty"` // and group, that the command runs as; 0: the supervisor's
	Box       *boxStart `json:",omitempty"` // the supervisor is in a box with its command
}

// A boxStart is what differs for a supervisor in a box. Its folders come by their paths: an open folder from outside of the
// box would be a way out of it.
type boxStart struct {
	Gateway string // host:port to listen at; empty: nowhere
}

// A seat is how one supervisor of this host is started.
type seat struct {
	argv    []string // runs [Supervise]
	dir     *os.File // of the command, when it is not in a box
	start   start
	gateway string // host:port of this host that the port of a boxStart leads to
}

// A report is the one answer of a supervisor, when the command and everything it started has ended.
type report struct {
	Fault     string `json:",omitempty"` // we could not run it: no fork
	Code      int
	Signal    string `json:",omitempty"`
	OOM       bool   `json:",omitempty"` // the memory limit of the place ended something meanwhile
	Stopped   bool   // the command was still running when it was told to stop
	Took      time.Duration
	Survivors []string `json:",omitempty"`
	Swept     int
}

// A link is how we speak with one supervisor and its command. [pipes] is the link to a process of this host, frames the
// one to a process elsewhere.
type link interface {
	stdin() io.WriteCloser
	stdout() io.Reader
	stderr() io.Reader
	// tell sends an order and never blocks for long. A supervisor that does not take it is found by the hard limit, or by
	// its end.
	tell(o order)
	// listen waits for the report; ok is false when the supervisor ended without one.
	listen() (rep report, ok bool)
	// kill ends a supervisor that does not report.
	kill()
	// lost ends what a supervisor left behind that did not report, and says what is known of its end.
	lost() error
	// end collects a supervisor that has nothing left to do. Its streams end soon afterwards.
	end()
	// close gives back what is left, when the streams have ended.
	close()
}

// A supervision is our side of one supervisor.
type supervision struct {
	link    link
	out     *stream
	err     *stream
	drained chan struct{} // closed when both streams have ended
	fed     chan error    // one value when stdin has ended: what is wrong with its reader
	reports chan report   // closed without a value when the supervisor ended without one
}

// supervise runs a command of this host below a supervisor, until nothing of it is left.
func supervise(ctx context.Context, to seat, c Command) (Exit, error) {
	l, err := spawn(to)
	if err != nil {
		return Exit{}, fmt.Errorf("start supervisor: %w", err)
	}
	return attend(ctx, l, c, to.start)
}

// attend runs a command below the supervisor at the other end of a link, until nothing of it is left.
func attend(ctx context.Context, l link, c Command, first start) (Exit, error) {
	began := time.Now()
	l.tell(order{Start: &first})
	s := follow(l, c)
	exit, rep, err := s.watch(ctx, c)
	unfed := s.end()

	exit.Out, exit.Err = s.out.seen, s.err.seen
	exit.Truncated = s.out.short || s.err.short
	if err != nil {
		exit.Code, exit.Took = -1, time.Since(began)
		return exit, err
	}
	exit.Code, exit.Signal, exit.OOM, exit.Took = rep.Code, rep.Signal, rep.OOM, rep.Took
	exit.TimedOut = exit.TimedOut && rep.Stopped
	exit.Cancelled = exit.Cancelled && rep.Stopped
	exit.Survivors, exit.Swept = rep.Survivors, rep.Swept
	if err := cmp.Or(s.out.failed, s.err.failed); err != nil {
		return exit, fmt.Errorf("pass its output on: %w", err)
	}
	if unfed != nil {
		return exit, fmt.Errorf("read its stdin: %w", unfed)
	}
	return exit, nil
}

// follow begins to feed and to read a command.
func follow(l link, c Command) *supervision {
	limit := c.MaxOutput
	if limit == 0 {
		limit = defaultMaxOutput
	}
	var turn sync.Mutex
	s := &supervision{
		link:    l,
		out:     &stream{r: l.stdout(), w: c.Stdout, turn: &turn, limit: limit},
		err:     &stream{r: l.stderr(), w: c.Stderr, turn: &turn, limit: limit},
		drained: make(chan struct{}),
		fed:     make(chan error, 1),
		reports: make(chan report, 1),
	}
	go s.feed(c.Stdin)
	go s.drain()
	go s.listen()
	return s
}

func bytesOf(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}

// pipes is the link to a supervisor that is our child: the pipes are its command's own, and no one else holds the socket.
type pipes struct {
	process      *exec.Cmd
	socket       *os.File // orders out, the report in
	in, out, err *os.File
	boxed        bool
	said         bytes.Buffer // by the program that makes the box
	door         *door        // to the gateway; nil: none
}

// spawn starts a supervisor with the folder and the pipes of a command.
func spawn(to seat) (_ *pipes, err error) {
	var ours, theirs []*os.File // stdin, stdout, stderr, link, door
	defer func() {
		closeAll(theirs)
		if err != nil {
			closeAll(ours)
		}
	}()
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		if i == 0 {
			r, w = w, r
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	for range 2 {
		near, far, err := socketPair()
		if err != nil {
			return nil, err
		}
		ours, theirs = append(ours, near), append(theirs, far)
		if to.gateway == "" {
			break
		}
	}

	process := exec.Command(to.argv[0], to.argv[1:]...)
	process.Env = []string{}
	// Not in our group, so that Ctrl-C reaches us alone; but in our session, unlike all that it starts: see endOrphans.
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &pipes{process: process, socket: ours[3], in: ours[0], out: ours[1], err: ours[2]}
	if to.start.Box == nil {
		process.Stdin, process.Stdout, process.Stderr = theirs[0], theirs[1], theirs[2]
		process.ExtraFiles = []*os.File{theirs[3], to.dir}
	} else {
		// The program that makes the box keeps its own streams open; those of the command are none of its business.
		p.boxed = true
		process.Stderr, process.WaitDelay = &p.said, linger
		process.ExtraFiles = []*os.File{theirs[3], nil, theirs[0], theirs[1], theirs[2]}
		process.ExtraFiles = append(process.ExtraFiles, theirs[4:]...)
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	if to.gateway != "" {
		p.door = openDoor(ours[4], to.gateway)
	}
	return p, nil
}

func (p *pipes) stdin() io.WriteCloser { return p.in }
func (p *pipes) stdout() io.Reader     { return p.out }
func (p *pipes) stderr() io.Reader     { return p.err }

func (p *pipes) tell(o order) {
	p.socket.SetWriteDeadline(time.Now().Add(hardLimit))
	json.NewEncoder(p.socket).Encode(o)
}

func (p *pipes) listen() (rep report, ok bool) {
	return rep, json.NewDecoder(io.LimitReader(p.socket, maxReport)).Decode(&rep) == nil
}

func (p *pipes) kill() { p.process.Process.Kill() }

// lost is called for a supervisor that someone killed, perhaps we.
func (p *pipes) lost() error {
	p.kill()
	err := p.process.Wait() // from here on its orphans are ours
	endOrphans()
	if said := strings.TrimSpace(p.said.String()); said != "" {
		return fmt.Errorf("its supervisor ended without a report (%w): %s", err, shorten(said, 500))
	}
	return fmt.Errorf("its supervisor ended without a report (%w)", err)
}

// end gives the streams a moment: when something outside the command's tree holds them, what is in the pipes is read and
// the rest is not waited for.
func (p *pipes) end() {
	// It might have been stopped by the command. Who made a box collects who is in it first.
	patience := time.Duration(0)
	if p.boxed {
		patience = linger
	}
	late := time.AfterFunc(patience, p.kill)
	p.process.Wait()
	late.Stop()
	if p.door != nil {
		p.door.close()
	}
	p.out.SetReadDeadline(time.Now().Add(linger))
	p.err.SetReadDeadline(time.Now().Add(linger))
}

func (p *pipes) close() { closeAll([]*os.File{p.in, p.out, p.err, p.socket}) }

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// socketPair makes the link to a supervisor. It is a socket and not two pipes because a process of the same user can open
// our pipes through /proc and write a report of its own; a socket it cannot open.
func socketPair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock() // SOCK_CLOEXEC is not everywhere
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "host")
	if err := syscall.SetNonblock(fds[0], true); err != nil { // so that reading it can be ended
		syscall.Close(fds[0])
		theirs.Close()
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fds[0]), "supervisor"), theirs, nil
}

// feed copies stdin. A command that does not read it, or no longer, is nobody's fault.
func (s *supervision) feed(r io.Reader) {
	var err error
	if r != nil {
		_, err = io.Copy(s.link.stdin(), r)
	}
	s.link.stdin().Close()
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) {
		err = nil
	}
	s.fed <- err
}

// drain reads both streams to their end.
func (s *supervision) drain() {
	var both sync.WaitGroup
	both.Go(s.out.pump)
	both.Go(s.err.pump)
	both.Wait()
	close(s.drained)
}

// listen waits for the report.
func (s *supervision) listen() {
	if rep, ok := s.link.listen(); ok {
		s.reports <- rep
	}
	close(s.reports)
}

// watch waits for the report and stops the command when its time is over. The Exit says only why we stopped it.
func (s *supervision) watch(ctx context.Context, c Command) (exit Exit, rep report, err error) {
	grace := c.Grace
	if grace == 0 {
		grace = defaultGrace
	}
	var timeout, hard <-chan time.Time
	var hardAt time.Time
	stop := func(grace time.Duration) {
		s.link.tell(order{Stop: &grace})
		if at := time.Now().Add(grace + hardLimit); hard == nil || at.Before(hardAt) {
			hard, hardAt = time.After(time.Until(at)), at
		}
	}
	if c.Timeout > 0 {
		timeout = time.After(c.Timeout)
	}
	cancelled, drained := ctx.Done(), s.drained
	for {
		select {
		case <-timeout:
			timeout = nil
			exit.TimedOut = true
			stop(grace)
		case <-cancelled:
			cancelled, timeout = nil, nil
			if ctx.Err() == context.DeadlineExceeded {
				exit.TimedOut = true
				stop(grace)
				continue
			}
			exit.Cancelled = !exit.TimedOut
			stop(min(grace, cancelGrace))
		case <-drained:
			drained = nil
			s.link.tell(order{Drained: true})
		case <-hard:
			hard = nil
			s.link.kill()
		case rep, ok := <-s.reports:
			if !ok {
				return exit, rep, s.link.lost()
			}
			if rep.Fault != "" {
				return exit, rep, errors.New(rep.Fault)
			}
			return exit, rep, nil
		}
	}
}

// end collects the supervisor and waits until the streams have ended. The error is of the reader of stdin.
func (s *supervision) end() error {
	s.link.end()
	<-s.drained
	s.link.close()
	select {
	case err := <-s.fed:
		return err
	case <-time.After(linger): // blocked in a Read that is not ours to end
		return nil
	}
}

// A stream passes the bytes of one pipe on up to a limit, counts all of them and never stops reading.
type stream struct {
	r      io.Reader
	w      io.Writer
	turn   *sync.Mutex // the streams of a command write in turn
	limit  int64
	seen   int64
	short  bool  // not all bytes were passed on
	failed error // of w
}

func (s *stream) pump() {
	buf := make([]byte, 64<<10)
	for {
		n, err := s.r.Read(buf)
		s.pass(buf[:n])
		if err != nil {
			s.short = s.short || err != io.EOF
			return
		}
	}
}

func (s *stream) pass(p []byte) {
	room := max(s.limit-s.seen, 0)
	s.seen += int64(len(p))
	if int64(len(p)) > room {
		p, s.short = p[:room], true
	}
	if s.w == nil || len(p) == 0 || s.failed != nil {
		return
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	_, s.failed = s.w.Write(p)
}
