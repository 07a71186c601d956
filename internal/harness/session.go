package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/responder"
	"github.com/assay-ci/assay/internal/trace"
)

const (
	maxLine = 16 << 20        // bytes of a line of an agent's output; a longer one is kept in agent.log only
	idle    = 3 * time.Minute // without a sign of life, an agent is stalled
	manners = 2 * time.Second // an agent gets to end by itself, once its input has ended or it was told to stop
)

var (
	errStalled     = errors.New("stalled")
	errInterrupted = errors.New("interrupted by the responder")
	errTurns       = errors.New("more turns than allowed")
	errDone        = errors.New("the agent told its end")
)

// A program is an agent's CLI that prints lines: how it is started, and who understands it.
type program struct {
	argv, env []string
	talker    talker
	stays     bool // it does not end with its input
}

// A talker understands the lines of one agent, and answers them where its protocol asks for it. It is called from one
// goroutine, line by line, and must take any bytes.
type talker interface {
	// begin says what the agent is to hear first.
	begin(s *session)
	// line takes one line of standard output without its line feed.
	line(s *session, line []byte)
	// told returns how the agent fared by its own account, after the last line.
	told() account
}

// A quitter is a talker whose protocol can tell an agent to stop. Its agent hears of every limit so before it is ended, and
// may end its session with [session.done].
type quitter interface {
	// quit tells the agent. It is called at most once, from a goroutine of its own.
	quit(s *session)
}

// An account is what an agent's own output says of its session. It may be wrong: what we did and what the gateway saw
// count for more.
type account struct {
	Stop      trace.StopReason // of its terminal event; empty when there was none
	Class     trace.Class      // when Stop is error
	Detail    string
	LastFault *trace.Fault // the last error or retry that it told of
	FinalText string
	Turns     *int
	Usage     *trace.Usage
	Model     string
	Version   string
	Answered  bool // a model answered at least once
}

// A session is one run of a program: what a talker can do while it lasts.
type session struct {
	ctx    context.Context
	task   Task
	emitTo func(trace.Event)
	stdin  *mailbox
	cancel context.CancelCauseFunc
	watch  *watch

	end context.CancelFunc // of a process that does not end with its input

	raw      []byte // of the line that is being understood, until an event carries it
	rawLine  int
	askFault error // the first that the responder had

	ended error             // why the responder's reply ended the agent; nil: it did not
	leave func(cause error) // ends an agent that has heard a last reply
}

// emit adds an event to the trace. The first one that a line gives rise to carries the line.
func (s *session) emit(e trace.Event) {
	if s.rawLine > 0 && e.RawLine == 0 {
		e.RawLine = s.rawLine
		if e.Raw == nil {
			e.Raw, s.raw = s.raw, nil
		}
	}
	s.watch.saw(e)
	s.emitTo(e)
}

// turned says that the agent's own model has given n answers. Where no gateway counts them, and refuses the one above the
// limit, an agent that goes on is ended here.
func (s *session) turned(n int) {
	if limit := s.task.Limits.MaxTurns; s.task.Gateway == nil && limit > 0 && n > limit {
		s.cancel(errTurns)
	}
}

// send gives the agent one line on its standard input.
func (s *session) send(line []byte) {
	s.stdin.Write(append(bytes.TrimSuffix(line, []byte("\n")), '\n'))
}

// hangUp ends the agent's standard input.
func (s *session) hangUp() { s.stdin.Close() }

// done ends an agent that has told its end: its input ends, and what is left of it after a while is ended by us. Nothing
// that happens from here on changes how the agent ended.
func (s *session) done() {
	s.hangUp()
	s.cancel(errDone)
	if s.end != nil {
		s.end()
	}
}

// gently returns the context of a quitter's process. It outlives that of the session by the time that an agent gets to end
// by itself.
func (s *session) gently(q quitter) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.ctx))
	if s.task.Limits.Timeout > 0 {
		timer := time.AfterFunc(s.task.Limits.Timeout, func() { s.cancel(context.DeadlineExceeded) })
		context.AfterFunc(ctx, func() { timer.Stop() })
	}
	context.AfterFunc(s.ctx, func() {
		if !errors.Is(context.Cause(s.ctx), errDone) {
			q.quit(s)
		}
		select {
		case <-time.After(manners):
		case <-ctx.Done():
		}
		cancel()
	})
	return ctx, cancel
}

// gentle corrects how a quitter's process ended: the reason is that of the session, also when the process ended by itself
// after it was told to stop, or was ended by us when its work was done.
func (s *session) gentle(ex executor.Exit) executor.Exit {
	switch cause := context.Cause(s.ctx); {
	case cause == nil:
	case errors.Is(cause, errDone):
		ex.TimedOut, ex.Cancelled = false, false
	case errors.Is(cause, context.DeadlineExceeded):
		ex.TimedOut, ex.Cancelled = true, false
	default:
		ex.Cancelled = true
	}
	return ex
}

// ask puts a permission or a question to the responder and gives the agent the reply by answer. Both sides are in the trace.
// When the responder cannot decide, the reply denies and the agent is ended: the cell cannot be measured. An agent is ended
// only after it was answered, and whatever it asks from then on is denied.
func (s *session) ask(a trace.Ask, answer func(responder.Reply)) {
	request, response := trace.KindPermissionRequest, trace.KindPermissionResponse
	if len(a.Options) == 0 && len(a.Questions) > 0 {
		request, response = trace.KindQuestion, trace.KindAnswer
	}
	s.emit(trace.Event{Kind: request, Ask: &a})
	s.watch.pause()
	policy := s.task.Responder
	if s.ended != nil {
		policy = leaving{s.ended}
	}
	reply, err := responder.Ask(s.ctx, policy, a)
	s.watch.resume()
	reply.Interrupt = reply.Interrupt || err != nil
	s.emit(trace.Event{Kind: response, Ask: &trace.Ask{
		ID: a.ID, CallID: a.CallID, Choice: reply.Choice, Outcome: reply.Outcome, Answers: reply.Answers, By: reply.By, Reason: reply.Reason,
	}})
	answer(reply)
	switch {
	case s.ended != nil || s.ctx.Err() != nil || !reply.Interrupt:
		return
	case err != nil:
		s.askFault, s.ended = err, err
	default:
		s.ended = errInterrupted
	}
	s.leave(s.ended)
}

// leaving denies whatever is asked by an agent that is being ended.
type leaving struct{ cause error }

func (l leaving) Answer(context.Context, trace.Ask) (responder.Reply, error) {
	return responder.Reply{}, fmt.Errorf("the agent is being ended: %w", l.cause)
}

// leaveSoon ends an agent whose protocol has no word for it but the reply that it was given: it gets to end by itself.
func (s *session) leaveSoon(cause error) {
	timer := time.AfterFunc(manners, func() { s.cancel(cause) })
	context.AfterFunc(s.ctx, func() { timer.Stop() })
}

// drive runs the program to its end and tells how it ended. The caller emits the opening before and the closing after.
func (p program) drive(ctx context.Context, t Task, emit func(trace.Event)) (Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &session{ctx: ctx, task: t, emitTo: emit, stdin: newMailbox(), cancel: cancel, watch: newWatch(idle, cancel)}
	s.leave = s.leaveSoon
	defer s.watch.stop()
	defer s.stdin.Close()
	if t.Gateway != nil {
		t.Gateway.OnActivity(s.watch.alive)
	}
	out := &output{log: t.Log, limit: t.Limits.MaxOutput, over: func() { cancel(errOutput) }}
	lines := &liner{to: func(n int, line []byte) {
		s.watch.alive()
		s.raw, s.rawLine = bytes.Clone(line), n
		p.talker.line(s, line)
		s.raw, s.rawLine = nil, 0
	}, tooLong: func(n int) {
		s.emit(trace.Event{Kind: trace.KindOther, RawLine: n, Text: fmt.Sprintf("a line of more than %d bytes; agent.log has it", maxLine)})
	}}
	complained := trace.NewExcerpt()
	c := executor.Command{
		Argv: p.argv, Env: p.env, Stdin: s.stdin,
		Stdout: io.MultiWriter(out.stream(trace.NewTail(1)), lines), Stderr: complained,
		Timeout: t.Limits.Timeout, Grace: t.Limits.Grace,
	}
	if t.Limits.MaxOutput > 0 {
		c.MaxOutput = t.Limits.MaxOutput + 1 // so that passing the limit is seen
	}
	p.talker.begin(s)
	run := ctx
	q, quits := p.talker.(quitter)
	if quits = quits && ctx.Err() == nil; quits {
		s.leave = cancel
		var end context.CancelFunc
		run, end = s.gently(q)
		defer end()
		c.Timeout = 0 // the session's
		if p.stays {
			s.end = end
		}
	}
	ex, err := t.Exec.Run(run, c)
	if err != nil {
		return Outcome{}, fmt.Errorf("run agent %s: %w", p.argv[0], err)
	}
	if quits {
		ex = s.gentle(ex)
	}
	lines.flush()
	if s.ended != nil {
		cancel(s.ended) // also when the agent ended by itself
	}
	seen, err := out.state()
	if err != nil {
		return Outcome{}, err
	}
	if complained.Size() > 0 {
		emit(trace.Event{Kind: trace.KindOther, Text: "standard error: " + complained.String()})
	}
	if s.askFault != nil {
		return Outcome{Class: trace.ClassResponder}, s.askFault
	}
	a := p.talker.told()
	a.Answered = a.Answered || seen > 0 && a.Stop == trace.StopEndTurn
	return conclude(ctx, t, ex, a, complained.String()), nil
}

// A mailbox is standard input that is written while the agent reads it: Read waits for what comes, Write never waits, so
// an agent that does not read cannot hold us up.
type mailbox struct {
	mu     sync.Mutex
	come   *sync.Cond
	buf    bytes.Buffer
	closed bool
}

func newMailbox() *mailbox {
	m := &mailbox{}
	m.come = sync.NewCond(&m.mu)
	return m
}

func (m *mailbox) Read(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.buf.Len() == 0 && !m.closed {
		m.come.Wait()
	}
	return m.buf.Read(p)
}

func (m *mailbox) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, io.ErrClosedPipe
	}
	m.come.Signal()
	return m.buf.Write(p)
}

// Close ends the input after what was written.
func (m *mailbox) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.come.Broadcast()
	return nil
}

// A liner cuts a stream into lines, counted from 1.
type liner struct {
	to      func(n int, line []byte) // without the line feed; only until it returns
	tooLong func(n int)
	buf     []byte
	n       int
	skip    bool // the line is too long, and the rest of it is not looked at
}

func (l *liner) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte("\n"))
		rest = after
		if !l.skip {
			l.buf = append(l.buf, part...)
		}
		if len(l.buf) > maxLine {
			l.skip, l.buf = true, nil
			l.tooLong(l.n + 1)
		}
		if whole {
			l.end()
		}
	}
	return len(p), nil
}

// end closes a line.
func (l *liner) end() {
	l.n++
	if !l.skip {
		l.to(l.n, bytes.TrimSuffix(l.buf, []byte("\r")))
	}
	l.buf, l.skip = l.buf[:0], false
}

// flush closes a last line that has no line feed.
func (l *liner) flush() {
	if len(l.buf) > 0 {
		l.end()
	}
}

// A watch ends an agent that gives no sign of life: no line, no byte from its model, and no tool call of its own that is
// still open.
type watch struct {
	mu    sync.Mutex
	limit time.Duration
	timer *time.Timer
	holds int             // asks that are pending
	open  map[string]bool // tool calls without a result
	end   context.CancelCauseFunc
}

func newWatch(limit time.Duration, end context.CancelCauseFunc) *watch {
	w := &watch{limit: limit, open: map[string]bool{}, end: end}
	w.timer = time.AfterFunc(limit, w.fire)
	return w
}

func (w *watch) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holds > 0 || len(w.open) > 0 {
		w.timer.Reset(w.limit)
		return
	}
	w.end(errStalled)
}

func (w *watch) alive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Reset(w.limit)
}

// saw notes which tool calls are open.
func (w *watch) saw(e trace.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case e.Tool == nil || e.Tool.ID == "" || e.Late:
	case e.Kind == trace.KindToolCall:
		w.open[e.Tool.ID] = true
	case e.Kind == trace.KindToolResult:
		delete(w.open, e.Tool.ID)
	}
	w.timer.Reset(w.limit)
}

func (w *watch) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holds++
}

func (w *watch) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holds--
	w.timer.Reset(w.limit)
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
}
