package executor

import (
	"context"
	"encoding/binary"
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

// A supervisor in a container has one stream in and one out, so what a host and a supervisor say to each other, and what
// the command reads and writes, travels in frames: a byte that says what it is, four bytes of length, big endian, and the
// payload. This file is the frames and the host's side.
//
// The command never holds that stream: the supervisor makes pipes of its own for it. Its stdin is sent in windows, so that
// a command that does not read cannot keep an order from arriving.

// framesName is the argument of [SuperviseName] by which a supervisor speaks in frames on its stdin and stdout.
const framesName = "frames"

// The kinds of frames. An empty frame of a stream is its end.
const (
	frameOrder  byte = 'o' // host to supervisor: an order as JSON
	frameStdin  byte = 'i' // host to supervisor: bytes
	frameTaken  byte = 't' // supervisor to host: one frame of stdin was taken; empty: nobody reads stdin any more
	frameStdout byte = '1' // supervisor to host: bytes
	frameStderr byte = '2' // supervisor to host: bytes
	frameReport byte = 'r' // supervisor to host: the report as JSON, last
)

const (
	frameHead   = 5
	maxFrame    = 64 << 10 // bytes of a stream in one frame
	maxOrder    = 16 << 20 // an order that starts a command holds its arguments and environment
	stdinWindow = 64       // frames of stdin that are on their way
)

// appendFrame appends a frame to a buffer.
func appendFrame(buf []byte, kind byte, payload []byte) []byte {
	buf = append(buf, kind)
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(payload)))
	return append(buf, payload...)
}

// readFrame reads one frame into buf, which grows as needed. The payload is valid until the next call.
func readFrame(r io.Reader, buf *[]byte) (kind byte, payload []byte, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	kind = head[0]
	most := map[byte]uint32{
		frameOrder: maxOrder, frameReport: maxReport, frameStdin: maxFrame, frameStdout: maxFrame, frameStderr: maxFrame, frameTaken: 1,
	}[kind]
	size := binary.BigEndian.Uint32(head[1:])
	if most == 0 || size > most {
		return 0, nil, fmt.Errorf("frame %q of %d bytes", kind, size)
	}
	if uint32(cap(*buf)) < size {
		*buf = make([]byte, size)
	}
	payload = (*buf)[:size]
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return kind, payload, nil
}

// frames is the link to a supervisor behind the stdin and stdout of a client, such as docker exec.
type frames struct {
	client *exec.Cmd
	to     *os.File // stdin of the client
	from   *os.File // its stdout
	said   *clipped // what the client says itself
	ended  func(client error) error

	orders   chan []byte   // frames to send, before all else
	stdins   chan []byte   // frames of stdin to send
	window   chan struct{} // frames of stdin that were not taken yet
	unread   chan struct{} // closed when nobody reads stdin any more
	done     chan struct{} // closed when nothing is sent any more
	finish   func()        // closes done
	received chan struct{} // closed when nothing is received any more
	reports  chan report

	outR, errR *io.PipeReader
	outW, errW *io.PipeWriter
}

// dial starts a client whose far end is a supervisor that speaks in frames. When it ends without a report, ended says why;
// it is called once the client is gone, and ends what may be left at the far end.
func dial(client *exec.Cmd, ended func(client error) error) (*frames, error) {
	theirIn, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, theirOut, err := os.Pipe()
	if err != nil {
		closeAll([]*os.File{theirIn, to})
		return nil, err
	}
	f := &frames{
		client: client, to: to, from: from, said: &clipped{most: 2 << 10}, ended: ended,
		orders: make(chan []byte, 16), stdins: make(chan []byte), window: make(chan struct{}, stdinWindow),
		unread: make(chan struct{}), done: make(chan struct{}), received: make(chan struct{}), reports: make(chan report, 1),
	}
	f.finish = sync.OnceFunc(func() { close(f.done) })
	f.outR, f.outW = io.Pipe()
	f.errR, f.errW = io.Pipe()
	client.Stdin, client.Stdout, client.Stderr = theirIn, theirOut, f.said
	client.WaitDelay = linger
	client.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that Ctrl-C reaches us alone
	err = client.Start()
	closeAll([]*os.File{theirIn, theirOut})
	if err != nil {
		closeAll([]*os.File{to, from})
		return nil, err
	}
	go f.send()
	go f.receive()
	return f, nil
}

// send writes frames, orders first.
func (f *frames) send() {
	for {
		var frame []byte
		select {
		case frame = <-f.orders:
		default:
			select {
			case frame = <-f.orders:
			case frame = <-f.stdins:
			case <-f.done:
				return
			}
		}
		if _, err := f.to.Write(frame); err != nil {
			f.finish()
			return
		}
	}
}

// receive takes frames apart until the report, or the end.
func (f *frames) receive() {
	defer close(f.received)
	defer close(f.reports)
	defer f.outW.CloseWithError(io.ErrUnexpectedEOF) // unless its end has come
	defer f.errW.CloseWithError(io.ErrUnexpectedEOF)
	var buf []byte
	for {
		kind, payload, err := readFrame(f.from, &buf)
		if err != nil {
			return
		}
		switch kind {
		case frameStdout:
			passOn(f.outW, payload)
		case frameStderr:
			passOn(f.errW, payload)
		case frameTaken:
			f.taken(len(payload) > 0)
		case frameReport:
			var rep report
			if json.Unmarshal(payload, &rep) == nil {
				f.reports <- rep
			}
			return
		default:
			return
		}
	}
}

// passOn passes a frame of a stream on; an empty one is the end.
func passOn(w *io.PipeWriter, p []byte) {
	if len(p) == 0 {
		w.Close()
		return
	}
	w.Write(p)
}

func (f *frames) taken(read bool) {
	select {
	case <-f.window:
	default:
	}
	select {
	case <-f.unread:
	default:
		if !read {
			close(f.unread)
		}
	}
}

func (f *frames) stdin() io.WriteCloser { return (*framedStdin)(f) }
func (f *frames) stdout() io.Reader     { return f.outR }
func (f *frames) stderr() io.Reader     { return f.errR }

func (f *frames) tell(o order) {
	text, err := json.Marshal(o)
	if err != nil || len(text) > maxOrder {
		return // the supervisor will not report
	}
	select {
	case f.orders <- appendFrame(nil, frameOrder, text):
	default:
	}
}

func (f *frames) listen() (report, bool) {
	rep, ok := <-f.reports
	return rep, ok
}

func (f *frames) kill() { f.client.Process.Kill() }

func (f *frames) lost() error {
	f.end()
	return f.ended(fmt.Errorf("its supervisor ended without a report (%w)%s", errors.New(f.client.ProcessState.String()), f.said))
}

func (f *frames) end() {
	f.kill()
	f.client.Wait()
	f.finish()
	select {
	case <-f.received:
	case <-time.After(linger): // a helper of the client holds its stdout, or a writer blocks
		f.from.SetReadDeadline(time.Now())
	}
}

func (f *frames) close() { closeAll([]*os.File{f.to, f.from}) }

// framedStdin is the stdin of the command.
type framedStdin frames

// Write sends p, as the window allows. It fails when nobody reads stdin any more.
func (s *framedStdin) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		piece := p[:min(len(p), maxFrame)]
		select {
		case <-s.unread:
			return n, syscall.EPIPE
		case <-s.done:
			return n, os.ErrClosed
		case s.window <- struct{}{}:
		}
		if err := s.put(piece); err != nil {
			return n, err
		}
		n += len(piece)
		p = p[len(piece):]
	}
	return n, nil
}

func (s *framedStdin) put(p []byte) error {
	select {
	case s.stdins <- appendFrame(nil, frameStdin, p):
		return nil
	case <-s.done:
		return os.ErrClosed
	}
}

// Close sends the end of stdin.
func (s *framedStdin) Close() error { return s.put(nil) }

// A clipped keeps the first bytes of what is written to it, to quote them in an error.
type clipped struct {
	most int
	mu   sync.Mutex
	text []byte
}

func (c *clipped) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, p[:min(len(p), c.most-len(c.text))]...)
	return len(p), nil
}

// String is the text as the end of a sentence; empty when there is none.
func (c *clipped) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.text) == 0 {
		return ""
	}
	return fmt.Sprintf(": %q", shorten(string(c.text), 500))
}

// shorten cuts a text for an error after n bytes at most. By the mark at its end a redactor finds what is left of a secret that
// was cut; the precision of a verb leaves none.
func shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

// runFramed runs a command below the supervisor at the far end of a client.
func runFramed(ctx context.Context, client *exec.Cmd, c Command, first start, ended func(error) error) (Exit, error) {
	f, err := dial(client, ended)
	if err != nil {
		return Exit{}, fmt.Errorf("start %s: %w", client.Path, err)
	}
	return attend(ctx, f, c, first)
}
