package gateway

import (
	"bytes"
	"io"

	"github.com/assay-ci/assay/internal/redact"
)

// maxEvent is the largest event of a stream, in bytes, that is looked at; a larger one only passes through.
const maxEvent = 16 << 20

// events cuts a stream of server-sent events into events. It keeps every byte: the raw texts that it gives out are the
// stream.
type events struct {
	each func(raw, data []byte) // only until it returns; data is nil when the event has none or is too large
	raw  []byte                 // of the event that is being read
	line int                    // where its current line begins
	data []byte
	has  bool // the event has data
	skip bool // the event is too large; its head was given out
}

func (e *events) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			e.raw = append(e.raw, rest...)
			rest = nil
		} else {
			e.raw = append(e.raw, rest[:end]...)
			rest = rest[end:]
			e.endLine()
		}
		if len(e.raw) > maxEvent {
			e.skip, e.has = true, false
			e.give()
		}
	}
	return len(p), nil
}

func (e *events) endLine() {
	line := bytes.TrimRight(e.raw[e.line:], "\r\n")
	e.line = len(e.raw)
	if len(line) == 0 {
		e.give()
		e.skip = false
		return
	}
	if value, ok := bytes.CutPrefix(line, []byte("data:")); ok && !e.skip {
		if e.has {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, bytes.TrimPrefix(value, []byte(" "))...)
		e.has = true
	}
}

// give hands the event out and begins the next one.
func (e *events) give() {
	data := e.data
	if !e.has {
		data = nil
	}
	e.each(e.raw, data)
	e.raw, e.data, e.has, e.line = e.raw[:0], e.data[:0], false, 0
}

// flush gives out a last event that no blank line ended.
func (e *events) flush() {
	if len(e.raw) == 0 {
		return
	}
	if e.line < len(e.raw) {
		e.endLine()
	}
	if len(e.raw) > 0 {
		e.give()
	}
}

// A scrubber takes the key of a model out of an answer, in every form that a provider might echo it in. It holds back no
// more than what may be the beginning of the key, so what comes slowly still passes at once.
type scrubber struct {
	secrets *redact.Redactor
	out     bytes.Buffer
	w       io.WriteCloser // to out; nil: nothing came yet
}

// pass returns what of p, and of what was held back, can go on; only until the next call.
func (s *scrubber) pass(p []byte) []byte {
	if s.w == nil {
		s.w = s.secrets.Writer(&s.out, nil)
	}
	s.out.Reset()
	s.w.Write(p) // writing to a buffer cannot fail
	return s.out.Bytes()
}

// rest returns what was held back when nothing more comes.
func (s *scrubber) rest() []byte {
	if s.w == nil {
		return nil
	}
	s.out.Reset()
	s.w.Close()
	return s.out.Bytes()
}

// all is a whole text without the key.
func (s *scrubber) all(text string) string { return s.secrets.String(text) }

// A hold takes an answer apart as it passes: the meter reads it, the client gets what it asked for.
type hold struct {
	meter  *meter
	hide   bool // the chunk with the usage of a chat stream: the agent did not ask for it
	events *events
	body   []byte // of an answer in one piece
	out    []byte // what of the last bytes the client gets
}

func newHold(m *meter, stream, hide bool) *hold {
	h := &hold{meter: m, hide: hide}
	if stream {
		h.events = &events{each: h.event}
	}
	return h
}

func (h *hold) event(raw, data []byte) {
	if data != nil {
		h.meter.event(data)
	}
	if h.hide && !isUsageChunk(data) {
		h.out = append(h.out, raw...)
	}
}

// pass reads p and returns what the client gets for it now; only until the next call.
func (h *hold) pass(p []byte) []byte {
	if h.events == nil {
		h.body = append(h.body, p...)
		return p
	}
	h.out = h.out[:0]
	h.events.Write(p)
	if h.hide {
		return h.out
	}
	return p
}

// end reads what is left, and returns what the client still gets.
func (h *hold) end() []byte {
	if h.events == nil {
		h.meter.document(h.body)
		return nil
	}
	h.out = h.out[:0]
	h.events.flush()
	return h.out
}

// isUsageChunk tells the chunk that a chat stream has only because its usage was asked for: it has no choice.
func isUsageChunk(data []byte) bool {
	if !bytes.Contains(data, []byte(`"prompt_tokens"`)) {
		return false
	}
	var f struct {
		Choices []struct{} `json:"choices"`
		Usage   *struct{}  `json:"usage"`
		Error   *struct{}  `json:"error"`
	}
	return decode(data, &f) && len(f.Choices) == 0 && f.Usage != nil && f.Error == nil
}
