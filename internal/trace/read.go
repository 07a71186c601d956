package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// MaxLine is the longest line, in bytes without its newline, that [Read] decodes and a [Writer] writes.
const MaxLine = 16 << 20

// Limits of one trace, beside [MaxLine].
const (
	maxLines = 10_000_000
	maxDepth = 256 // levels of JSON within one line
)

// A LineError is one line of a trace that is JSON but no event. It is a value in the stream of [Read]: reading goes on.
type LineError struct {
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("trace line %d: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }

// Read yields the events of a trace in their order. No line ends the reading:
//
//   - a line that is not JSON, longer than [MaxLine] or nested more than 256 deep is an event of [KindOther] with a note in Text and the head of
//     the line, as a JSON string, in Raw;
//   - a line that is JSON but no event is a [LineError] beside a zero Event;
//   - an event of an unknown kind becomes KindOther, with the whole line in Raw.
//
// Bytes that are not UTF-8 become U+FFFD, empty lines are passed over. Only an error of r ends the sequence early, or that
// there are more than ten million lines; it is the last value.
func Read(r io.Reader) iter.Seq2[Event, error] { return read(r, maxLines) }

// read is Read with another limit of lines.
func read(r io.Reader, lines int) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		in := bufio.NewReaderSize(r, 16<<10) // a report reads thousands of short traces
		var line []byte
		for n := 1; ; n++ {
			var size int64
			var err error
			line, size, err = readLine(in, line[:0])
			if n > lines && !errors.Is(err, io.EOF) {
				yield(Event{}, fmt.Errorf("the trace has more than %d lines", lines))
				return
			}
			if size > 0 {
				if e, fault, ok := parse(line, size, n); ok && !yield(e, fault) {
					return
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Event{}, fmt.Errorf("trace line %d: %w", n, err))
				return
			}
		}
	}
}

// readLine appends the next line to buf, without its newline and at most MaxLine bytes of it, and returns the line's full
// size. The error is the reader's, io.EOF after the last line.
func readLine(in *bufio.Reader, buf []byte) (line []byte, size int64, err error) {
	for {
		part, err := in.ReadSlice('\n')
		ended := err == nil
		if ended {
			part = part[:len(part)-1]
		}
		size += int64(len(part))
		buf = append(buf, part[:min(len(part), MaxLine-len(buf))]...)
		if ended || !errors.Is(err, bufio.ErrBufferFull) {
			return buf, size, err
		}
	}
}

// forgiving reads as encoding/json does, in half the time: a trace may come from an agent.
var forgiving = jsonv1.DefaultOptionsV1()

// parse turns one line into an event or a fault; ok is false for a blank line.
func parse(line []byte, size int64, n int) (e Event, fault error, ok bool) {
	if size > int64(len(line)) {
		return foreign(line, fmt.Sprintf("line %d has %d bytes, more than %d, and was left out", n, size, MaxLine)), nil, true
	}
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return Event{}, nil, false
	}
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	err := jsonv2.Unmarshal(line, &e, forgiving)
	switch {
	case err != nil && !json.Valid(line):
		return foreign(line, fmt.Sprintf("line %d is not JSON", n)), nil, true
	case depthOf(line) > maxDepth:
		return foreign(line, fmt.Sprintf("line %d is nested more than %d deep, and was left out", n, maxDepth)), nil, true
	case err != nil:
		return Event{}, &LineError{n, err}, true
	case e.Kind == "":
		return Event{}, &LineError{n, errors.New("an event needs a kind")}, true
	}
	if !known(e.Kind) {
		e.Kind, e.Raw = KindOther, bytes.Clone(line)
	}
	return e, nil, true
}

// depthOf counts the levels of valid JSON.
func depthOf(line []byte) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// foreign is the event of a line that could not be read as one.
func foreign(line []byte, note string) Event {
	return Event{Kind: KindOther, Text: note, Raw: quote(line)}
}

func known(k Kind) bool {
	switch k {
	case KindSessionStart, KindUserMessage, KindAssistantText, KindThinking, KindToolCall, KindToolResult, KindPlan,
		KindPermissionRequest, KindPermissionResponse, KindQuestion, KindAnswer, KindFileIO, KindUsage, KindModelCall,
		KindRetry, KindError, KindSubagent, KindStop, KindOther:
		return true
	}
	return false
}
