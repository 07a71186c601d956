package executor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// This is the supervisor's side of the frames.

// superviseFrames is Supervise for a host that speaks in frames on our stdin and stdout.
func superviseFrames() int {
	// A write to our stdout when the host is gone must not end us before we have ended the command.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	far := &farSide{stdin: make(chan []byte, stdinWindow+1), orders: make(chan order)}
	go far.read()
	first, ok := <-far.orders
	if !ok || first.Start == nil || first.Start.Work == nil {
		fmt.Fprintln(os.Stderr, "assay: supervise frames is started by assay itself, which sends it frames")
		return 2
	}
	rep, err := far.run(*first.Start)
	if err != nil {
		rep.Fault = err.Error()
	}
	text, err := json.Marshal(rep)
	if err != nil || far.write(frameReport, text) != nil {
		return 1
	}
	return 0
}

// A farSide is a supervisor's end of the frames.
type farSide struct {
	orders chan order  // closed when the host is gone
	stdin  chan []byte // frames; an empty one is the end

	mu  sync.Mutex // frames are written whole
	buf []byte
}

// read takes frames of the host apart, until it is gone.
func (s *farSide) read() {
	defer close(s.orders)
	var buf []byte
	for {
		kind, payload, err := readFrame(os.Stdin, &buf)
		if err != nil {
			return
		}
		switch kind {
		case frameStdin:
			select {
			case s.stdin <- bytes.Clone(payload):
			default: // more than the window allows
				return
			}
		case frameOrder:
			var o order
			if json.Unmarshal(payload, &o) != nil {
				return
			}
			s.orders <- o
		default:
			return
		}
	}
}

func (s *farSide) write(kind byte, payload []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf = appendFrame(s.buf[:0], kind, payload)
	_, err := os.Stdout.Write(s.buf)
	return err
}

// run runs the command with pipes of its own, and passes on what goes through them.
func (s *farSide) run(c start) (report, error) {
	var ours, theirs []*os.File
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return report{}, err
		}
		if i == 0 {
			r, w = w, r
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	go s.feed(ours[0])
	var both sync.WaitGroup
	both.Go(func() { s.pump(frameStdout, ours[1]) })
	both.Go(func() { s.pump(frameStderr, ours[2]) })

	before := oomKills()
	sup := supervisor{orders: s.orders, exited: make(chan os.Signal, 1), streams: theirs}
	rep, err := sup.run(c)
	rep.OOM = oomKills() > before
	closeAll(theirs)
	// What something outside of the command's tree still holds open is read, and the rest is not waited for.
	ours[1].SetReadDeadline(time.Now().Add(linger))
	ours[2].SetReadDeadline(time.Now().Add(linger))
	both.Wait()
	return rep, err
}

// feed writes stdin to the command. One that does not read it, or no longer, is nobody's fault.
func (s *farSide) feed(w *os.File) {
	for p := range s.stdin {
		if len(p) == 0 {
			w.Close()
			return
		}
		if _, err := w.Write(p); err != nil {
			s.write(frameTaken, nil)
			return
		}
		if s.write(frameTaken, []byte{1}) != nil {
			return
		}
	}
}

// pump passes a stream of the command on. It never stops reading, also when the host is gone.
func (s *farSide) pump(kind byte, r *os.File) {
	buf := make([]byte, maxFrame)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			s.write(kind, buf[:n])
		}
		if err == io.EOF {
			s.write(kind, nil)
		}
		if err != nil {
			return
		}
	}
}

// oomKills is how many processes of this container the memory limit has ended; 0 where nothing counts them.
func oomKills() int {
	for _, file := range []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(text) {
			if count, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
				n, _ := strconv.Atoi(string(bytes.TrimSpace(count)))
				return n
			}
		}
	}
	return 0
}
