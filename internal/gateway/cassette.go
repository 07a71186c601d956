package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/assay-ci/assay/internal/redact"
	"github.com/assay-ci/assay/internal/trace"
)

// A cassette is the recording of one cell, a file of JSON Lines: a head, one entry for each exchange in the order in which
// they ended, and a foot that says how many there are. While it is written it has another name, so a file under its own
// name is whole, and what a crash leaves is a beginning that nobody takes for more.
const (
	cassetteVersion = 1
	cassetteEnd     = ".jsonl"
	unfinishedEnd   = ".jsonl.unfinished"
	maxCassette     = 1 << 30 // bytes of a file that is played
)

// An Exchange is a request and what a provider answered.
type Exchange struct {
	Lane    string // main, aux, sub:1, …
	Ordinal int    // of the request in its lane, from 1, in the order in which the requests came
	Dialect Dialect
	Path    string // below the base URL; it names the model in some dialects
	Request []byte
	Status  int
	Header  http.Header // Content-Type, Retry-After and X-Should-Retry are kept
	Body    []byte      // of an answer that came at once
	Chunks  []Chunk     // of one that came in parts
	Cut     bool        // the answer did not come to its end
}

// A Chunk is a part of a streamed answer.
type Chunk struct {
	At   time.Duration // since the request
	Data []byte
}

// A head is the first line of a cassette.
type head struct {
	Cassette int    `json:"cassette"` // the version
	Name     string `json:"name"`
}

// A foot is the last line.
type foot struct {
	End int `json:"end"` // the number of entries
}

// An entry is any other line.
type entry struct {
	Lane    string            `json:"lane"`
	Ordinal int               `json:"ordinal"`
	Dialect Dialect           `json:"dialect"`
	Path    string            `json:"path,omitempty"`
	Digest  string            `json:"digest"`  // of Request
	Request json.RawMessage   `json:"request"` // folded
	Status  int               `json:"status"`
	Header  map[string]string `json:"header,omitempty"`
	Body    *blob             `json:"body,omitempty"`
	Chunks  []chunkEntry      `json:"chunks,omitempty"`
	Cut     bool              `json:"cut,omitempty"`
}

type chunkEntry struct {
	AtMS int64 `json:"at_ms"`
	Data blob  `json:"data"`
}

// A blob is bytes, written as a text if they are one.
type blob []byte

// MarshalJSON writes a text, or {"base64": …}.
func (b blob) MarshalJSON() ([]byte, error) {
	if utf8.Valid(b) {
		return marshal(string(b)), nil
	}
	return marshal(map[string][]byte{"base64": b}), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (b *blob) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*b = blob(text)
		return nil
	}
	var o struct{ Base64 []byte }
	err := json.Unmarshal(data, &o)
	*b = o.Base64
	return err
}

// cassettePath is the file of a cell. Parts of the name that are no safe file names are replaced by safe ones that no other
// part gets.
func cassettePath(dir, name, end string) string {
	safe := regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,80}$`)
	parts := []string{dir}
	for part := range strings.SplitSeq(name, "/") {
		if !safe.MatchString(part) {
			plain := regexp.MustCompile(`[^a-z0-9-]+`).ReplaceAllString(strings.ToLower(part), "_")
			part = fmt.Sprintf("%s-%.12x", plain[:min(40, len(plain))], sha256.Sum256([]byte(part)))
		}
		parts = append(parts, part)
	}
	return filepath.Join(parts...) + end
}

// A Recorder writes the cassette of one cell. Its methods may be called at the same time.
type Recorder struct {
	secrets *redact.Redactor
	final   string
	mu      sync.Mutex
	file    *os.File
	seen    map[place]bool
	err     error
}

// place is where an exchange stands in a cell.
type place struct {
	lane    string
	ordinal int
}

// Record begins the recording of a cell below dir. An earlier recording stays until Close. Requests and answers are
// recorded without secrets.
func Record(dir, name string, secrets *redact.Redactor) (*Recorder, error) {
	r := &Recorder{secrets: secrets, final: cassettePath(dir, name, cassetteEnd), seen: map[place]bool{}}
	if err := os.MkdirAll(filepath.Dir(r.final), 0o755); err != nil {
		return nil, fmt.Errorf("record %s: %w", name, err)
	}
	file, err := os.Create(cassettePath(dir, name, unfinishedEnd))
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", name, err)
	}
	r.file = file
	if err := r.write(head{cassetteVersion, name}); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return r, nil
}

// Add records an exchange.
func (r *Recorder) Add(x Exchange) error {
	e := r.entry(x)
	r.mu.Lock()
	defer r.mu.Unlock()
	at := place{x.Lane, x.Ordinal}
	if x.Ordinal < 1 || r.seen[at] {
		return fmt.Errorf("record request %d of lane %s: it was recorded already, or its number is not one", x.Ordinal, x.Lane)
	}
	r.seen[at] = true
	return r.write(e)
}

func (r *Recorder) entry(x Exchange) *entry {
	e := &entry{Lane: x.Lane, Ordinal: x.Ordinal, Dialect: x.Dialect, Path: r.secrets.String(x.Path), Status: x.Status, Cut: x.Cut}
	e.Request = foldClean(x, r.secrets)
	e.Digest = digestFolded(e.Request)
	for _, name := range []string{"Content-Type", "Retry-After", "X-Should-Retry"} {
		if v := x.Header.Get(name); v != "" {
			if e.Header == nil {
				e.Header = map[string]string{}
			}
			e.Header[name] = r.secrets.String(v)
		}
	}
	clean := newCleaner(x.Request, r.secrets)
	if x.Chunks == nil {
		body := blob(clean.text(string(x.Body)))
		e.Body = &body
		return e
	}
	e.Chunks = clean.stream(x.Dialect, x.Chunks)
	return e
}

// write adds a line. After a line that could not be written whole, there are no others.
func (r *Recorder) write(l any) error {
	if r.err == nil {
		if _, err := r.file.Write(append(marshal(l), '\n')); err != nil {
			r.err = fmt.Errorf("record to %s: %w", r.file.Name(), err)
		}
	}
	return r.err
}

// Close ends the recording and gives it its name. Without it, or when something could not be written, the recording stays
// unfinished and is not played.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(foot{len(r.seen)})
	if r.err == nil {
		r.err = r.file.Sync()
	}
	if err := r.file.Close(); r.err == nil {
		r.err = err
	}
	if r.err != nil {
		return r.err
	}
	return os.Rename(r.file.Name(), r.final)
}

// A Player answers the requests of a cell from its cassette. Its methods may be called at the same time.
type Player struct {
	secrets *redact.Redactor
	mu      sync.Mutex
	entries map[place]*entry
	played  map[place]bool
}

// Replay opens the cassette of a cell. The secrets are those of now: they are taken out of requests before these are
// compared, as they were when the cassette was recorded.
func Replay(dir, name string, secrets *redact.Redactor) (*Player, error) {
	file := cassettePath(dir, name, cassetteEnd)
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(cassettePath(dir, name, unfinishedEnd)); err == nil {
			return nil, fmt.Errorf("the recording of %s was not finished; record it again", name)
		}
		return nil, fmt.Errorf("there is no recording of %s in %s; record it first", name, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", name, err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxCassette {
		return nil, fmt.Errorf("replay %s: %s is no regular file of at most %d bytes", name, file, maxCassette)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", name, err)
	}
	entries, err := readCassette(data, name)
	if err != nil {
		return nil, fmt.Errorf("replay %s: %s: %w; record it again", name, file, err)
	}
	return &Player{secrets: secrets, entries: entries, played: map[place]bool{}}, nil
}

// readCassette takes nothing but a whole and undamaged cassette.
func readCassette(data []byte, name string) (map[place]*entry, error) {
	entries := map[place]*entry{}
	ended := false
	number := 0
	for text := range bytes.Lines(data) {
		number++
		var l struct {
			head
			End *int `json:"end"`
			entry
		}
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		switch {
		case ended:
			return nil, fmt.Errorf("line %d stands behind the end", number)
		case number == 1:
			if l.Cassette != cassetteVersion || l.Name != name {
				return nil, fmt.Errorf("it begins with version %d of %q, not with version %d", l.Cassette, trace.Shorten(l.Name, 200), cassetteVersion)
			}
		case l.End != nil:
			if *l.End != len(entries) {
				return nil, fmt.Errorf("it has %d entries and says %d", len(entries), *l.End)
			}
			ended = true
		default:
			if err := l.entry.check(); err != nil {
				return nil, fmt.Errorf("line %d: %w", number, err)
			}
			at := place{l.Lane, l.Ordinal}
			if entries[at] != nil {
				return nil, fmt.Errorf("line %d: request %d of lane %s is there twice", number, l.Ordinal, l.Lane)
			}
			entries[at] = &l.entry
		}
	}
	if !ended {
		return nil, errors.New("its end is missing")
	}
	return entries, nil
}

func (e *entry) check() error {
	switch {
	case e.Ordinal < 1:
		return errors.New("it is no exchange")
	case e.Status < 100 || e.Status > 999:
		return fmt.Errorf("an answer cannot have the status %d", e.Status)
	case digestFolded(e.Request) != e.Digest:
		return errors.New("the request is not the one that was recorded")
	}
	return nil
}

// Next answers a request: of x, all up to Request is read. An error says how the request differs from the recorded one, or
// that there is none; it is a sentence for people, of some thousand bytes at most.
func (p *Player) Next(x Exchange) (Exchange, error) {
	folded := foldClean(x, p.secrets)
	p.mu.Lock()
	defer p.mu.Unlock()
	at := place{x.Lane, x.Ordinal}
	e := p.entries[at]
	const again = "record the cell again if its agent or suite has changed"
	switch {
	case e == nil:
		return Exchange{}, fmt.Errorf("the recording has no request %d of lane %s; %s", x.Ordinal, x.Lane, again)
	case p.played[at]:
		return Exchange{}, fmt.Errorf("request %d of lane %s was answered from the recording already", x.Ordinal, x.Lane)
	case e.Dialect != x.Dialect || e.Path != p.secrets.String(x.Path):
		return Exchange{}, fmt.Errorf("request %d of lane %s went to %s %q when it was recorded, and goes to %s %q; %s",
			x.Ordinal, x.Lane, e.Dialect, excerpt(e.Path, 0), x.Dialect, excerpt(x.Path, 0), again)
	case digestFolded(folded) != e.Digest:
		return Exchange{}, fmt.Errorf("request %d of lane %s differs from the recorded one; %s:\n%s",
			x.Ordinal, x.Lane, again, differences(e.Request, folded))
	}
	p.played[at] = true
	return e.answer(x), nil
}

func (e *entry) answer(x Exchange) Exchange {
	x.Status, x.Cut, x.Header = e.Status, e.Cut, http.Header{}
	for name, v := range e.Header {
		x.Header.Set(name, v)
	}
	if e.Body != nil {
		x.Body = withFolders(*e.Body, x.Request)
		return x
	}
	x.Chunks = []Chunk{}
	for _, c := range e.Chunks {
		x.Chunks = append(x.Chunks, Chunk{At: time.Duration(c.AtMS) * time.Millisecond, Data: withFolders(c.Data, x.Request)})
	}
	return x
}

// Leftover is how many exchanges of the recording were not played. It is for the end of a cell.
func (p *Player) Leftover() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.entries) - len(p.played)
}
