package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	maxRaw   = 256 << 10 // bytes of Raw and of a tool's input
	maxTrace = 64 << 20  // bytes of a trace
)

// A Writer writes a trace and keeps its promises whatever its caller emits: events are numbered without a gap and stamped
// when they arrive, long texts are cut (see [MaxText]), and exactly one stop stands last. Its methods may be called at the
// same time.
type Writer struct {
	mu    sync.Mutex
	out   io.Writer
	clock func() time.Duration
	line  bytes.Buffer
	enc   *json.Encoder // into line
	seq   int
	size  int64
	full  bool // the trace has passed maxTrace
	done  bool // the stop is written
	err   error
}

// NewWriter returns a Writer that writes each event to w when it is emitted, so that a reader can follow. clock tells the time since the harness started; it never
// goes back.
func NewWriter(w io.Writer, clock func() time.Duration) *Writer {
	t := &Writer{out: w, clock: clock}
	t.enc = json.NewEncoder(&t.line)
	t.enc.SetEscapeHTML(false)
	return t
}

// Emit writes one event; its Schema, Seq and At are set here. Texts longer than MaxText and raw values over 256 KiB are
// cut. Once the trace has passed 64 MiB a warning is written, and of what follows only the stop. What comes after the stop
// is dropped. An error is kept for Close.
func (t *Writer) Emit(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.emit(e)
}

func (t *Writer) emit(e Event) {
	if t.done || t.err != nil || t.full && e.Kind != KindStop {
		return
	}
	if !t.encode(e) {
		return
	}
	if t.line.Len() > MaxLine {
		t.encode(warning(fmt.Sprintf("an event of kind %s had %d bytes, more than %d, and was left out", e.Kind, t.line.Len(), MaxLine)))
	}
	if e.Kind != KindStop && t.size+int64(t.line.Len()) > maxTrace {
		t.full = true
		t.encode(warning(fmt.Sprintf("truncated: the trace passed %d bytes; of what follows only the stop is kept", maxTrace)))
	}
	t.seq++
	t.done = e.Kind == KindStop
	t.size += int64(t.line.Len())
	if _, err := t.out.Write(t.line.Bytes()); err != nil {
		t.err = fmt.Errorf("write trace: %w", err)
	}
}

// encode puts the event into t.line as the next one of the trace.
func (t *Writer) encode(e Event) bool {
	e = cut(e)
	e.Schema, e.Seq, e.At = 0, t.seq+1, t.clock()
	if e.Seq == 1 {
		e.Schema = Schema
	}
	t.line.Reset()
	if err := t.enc.Encode(e); err != nil {
		t.err = fmt.Errorf("encode trace event %d (%s): %w", e.Seq, e.Kind, err)
		return false
	}
	return true
}

// Close ends the trace, with a stop of no_terminal_event when none came. It does not close the underlying writer. The
// error is the first that any Emit met; calling Close again returns it again.
func (t *Writer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.emit(Event{Kind: KindStop, Stop: &Stop{Reason: StopNoTerminalEvent, Class: ClassHarnessCrash}})
	return t.err
}

func warning(detail string) Event {
	return Event{Kind: KindError, Err: &Fault{Class: ClassWarning, Detail: detail}}
}

// cut shortens what is too long in e. The parts that e points to belong to the caller: they are copied before a change.
func cut(e Event) Event {
	e.Text = clip(e.Text)
	e.Raw = clipRaw(e.Raw)
	if p := e.Tool; p != nil && (len(p.Output) > MaxText || len(p.Diff) > MaxText || len(p.Title) > MaxText || len(p.Input) > 0) {
		c := *p
		c.Output, c.Diff, c.Title, c.Input = clip(c.Output), clip(c.Diff), clip(c.Title), clipRaw(c.Input)
		e.Tool = &c
	}
	if p := e.Ask; p != nil && (len(p.Input) > MaxText || len(p.Reason) > MaxText) {
		c := *p
		c.Input, c.Reason = clip(c.Input), clip(c.Reason)
		e.Ask = &c
	}
	if p := e.Err; p != nil && len(p.Detail) > MaxText {
		c := *p
		c.Detail = clip(c.Detail)
		e.Err = &c
	}
	if p := e.Stop; p != nil && (len(p.Detail) > MaxText || len(p.FinalText) > MaxText) {
		c := *p
		c.Detail, c.FinalText = clip(c.Detail), clip(c.FinalText)
		e.Stop = &c
	}
	return e
}

// Shorten cuts a text for a message after n bytes at most. By the mark at its end a redactor finds what is left of a secret
// that was cut; the precision of a verb leaves none.
func Shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

func clip(s string) string {
	if len(s) <= MaxText {
		return s
	}
	x := NewExcerpt()
	io.WriteString(x, s)
	return x.String()
}

// clipRaw returns raw, in repaired UTF-8, when it is JSON of an allowed size, else what is left of it as a JSON string.
func clipRaw(raw json.RawMessage) json.RawMessage {
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	if len(raw) == 0 || len(raw) <= maxRaw && json.Valid(raw) {
		return raw
	}
	return quote(raw)
}

// quote returns an excerpt of b as a JSON string.
func quote(b []byte) json.RawMessage {
	x := NewExcerpt()
	x.Write(b)
	q, err := json.Marshal(x.String())
	if err != nil {
		panic("trace: a string is always JSON: " + err.Error())
	}
	return q
}
