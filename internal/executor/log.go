package executor

import (
	"fmt"
	"io"
	"io/fs"
	"sync"
)

const (
	logHead = 4 << 20
	logTail = 4 << 20
)

// A Log keeps the first and the last 4 MiB of what is written to it. The head goes to its destination as it comes; the
// tail is held in memory until Close writes it, behind a line that says how many bytes were seen and dropped between
// them. Up to 8 MiB nothing is dropped. A Log may be written from several goroutines.
type Log struct {
	head, most int // bytes kept at the beginning and at the end

	mu   sync.Mutex
	w    io.Writer
	seen int64
	tail []byte // a ring once it is full: the oldest byte is at next
	next int
	err  error // first error of w
	done bool
}

var _ io.WriteCloser = (*Log)(nil)

// NewLog returns a Log that writes to w. Closing the Log does not close w.
func NewLog(w io.Writer) *Log { return &Log{w: w, head: logHead, most: logTail} }

// Write takes all of p. Its error is the first one of the destination; the bytes are counted all the same.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return 0, fs.ErrClosed
	}
	n := len(p)
	if room := int64(l.head) - l.seen; room > 0 {
		head := p[:min(int64(n), room)]
		l.pass(head)
		p = p[len(head):]
	}
	l.seen += int64(n)
	l.keep(p)
	return n, l.err
}

// keep puts p at the end of the tail.
func (l *Log) keep(p []byte) {
	if len(p) > l.most {
		p = p[len(p)-l.most:]
	}
	if l.tail == nil && len(p) > 0 {
		l.tail = make([]byte, 0, l.most) // most logs never need it
	}
	if room := l.most - len(l.tail); room > 0 {
		n := min(len(p), room)
		l.tail = append(l.tail, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(l.tail[l.next:], p)
		l.next = (l.next + n) % l.most
		p = p[n:]
	}
}

// Close writes the tail, once. It returns the first error of the destination.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return l.err
	}
	l.done = true
	if dropped := l.seen - int64(l.head) - int64(len(l.tail)); dropped > 0 {
		l.pass(fmt.Appendf(nil, "\n[assay: %d bytes seen, %d dropped here]\n", l.seen, dropped))
	}
	l.pass(l.tail[l.next:])
	l.pass(l.tail[:l.next])
	l.tail, l.next = nil, 0
	return l.err
}

// pass writes to the destination until that fails once.
func (l *Log) pass(p []byte) {
	if l.err == nil && len(p) > 0 {
		_, l.err = l.w.Write(p)
	}
}
