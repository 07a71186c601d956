package gateway

import (
	"io"
	"net/http"
	"time"
)

// Cassettes record the calls of cells, or play them back.
type Cassettes interface {
	// open opens the cassette of a cell.
	open(name string) (tape, error)
	// replays reports whether they only play back, and so need no key.
	replays() bool
}

// A tape is the cassette of one cell. Its methods may be called at the same time.
type tape interface {
	// take returns the recorded answer to a request, nil when this tape records. The error says how the request differs
	// from the recorded one, or that there is none.
	take(k taped) (*taped, error)
	// keep records an exchange.
	keep(k taped) error
	// close ends the tape. left is the number of recorded exchanges that nobody asked for.
	close() (left int, err error)
}

// A taped exchange is a request and, when there is one, its answer.
type taped struct {
	lane    string
	ordinal int // in its lane, from 1, in the order in which the calls began
	dialect Dialect
	path    string // below the base URL
	request []byte

	status int
	header http.Header
	chunks []tapedChunk
	cut    bool // the answer did not come to its end
}

// A tapedChunk is a part of an answer, and when it came after the request.
type tapedChunk struct {
	at   time.Duration
	data []byte
}

// answer is the exchange as an answer. It does not wait between the chunks.
func (t *taped) answer() *answer {
	p := &pieces{}
	for _, c := range t.chunks {
		p.left = append(p.left, c.data)
	}
	var body io.Reader = p
	if t.cut {
		body = io.MultiReader(p, cutShort{})
	}
	return &answer{status: t.status, header: t.header.Clone(), body: io.NopCloser(body)}
}

// cutShort is the end of an answer that was cut.
type cutShort struct{}

func (cutShort) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// cleaned is the exchange without the secrets that clean takes out. A boundary between chunks would hide one, so an answer
// that has one becomes one chunk.
func (t taped) cleaned(clean func(string) string) taped {
	t.request = []byte(clean(string(t.request)))
	var all []byte
	for _, c := range t.chunks {
		all = append(all, c.data...)
	}
	if safe := clean(string(all)); safe != string(all) {
		t.chunks = []tapedChunk{{t.chunks[0].at, []byte(safe)}}
	}
	for _, values := range t.header {
		for i := range values {
			values[i] = clean(values[i])
		}
	}
	return t
}
