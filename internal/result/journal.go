package result

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"
	"time"

	"github.com/assay-ci/assay/internal/trace"
	jsonv2 "github.com/go-json-experiment/json"
)

// A Note is one line of the journal: what was about to happen or had happened, before the record of the cell could say
// so. The journal decides the number of the next attempt and what has been spent, and a record that is another than the one
// it saw is not believed; all else is read from the records.
type Note struct {
	At      time.Time   `json:"at"`
	What    string      `json:"what"` // run, attempt, stopped, interrupted, committed, set_aside
	Cell    string      `json:"cell,omitempty"`
	Attempt int         `json:"attempt,omitempty"`
	Status  Status      `json:"status,omitempty"`
	Class   trace.Class `json:"class,omitempty"`
	CostUSD *float64    `json:"cost_usd,omitempty"`
	Text    string      `json:"text,omitempty"`
	Sum     string      `json:"sum,omitempty"` // of the record that was committed
}

// noteCommitted says that an attempt became the record of its cell.
const noteCommitted = "committed"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A journal is an append-only file of notes, one line each: eight hex digits of CRC-32C, a space, JSON. One write is one
// line, so that a killed process leaves at most one torn line, and that the last.
type journal struct {
	mu   sync.Mutex
	file *os.File
}

// openJournal opens the journal at path, cuts off a torn last line, and returns its readable notes. Bad lines before the
// last are counted and passed over.
func openJournal(path string) (j *journal, notes []Note, bad int, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, 0, err
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, nil, 0, errors.Join(err, f.Close())
	}
	if end := bytes.LastIndexByte(data, '\n') + 1; end < len(data) {
		data = data[:end]
		if err := f.Truncate(int64(end)); err != nil {
			return nil, nil, 0, errors.Join(err, f.Close())
		}
	}
	notes, bad = readNotes(data)
	return &journal{file: f}, notes, bad, nil
}

// readNotes parses a journal, passing over lines that are damaged.
func readNotes(data []byte) (notes []Note, bad int) {
	for line := range bytes.Lines(data) {
		n, err := parseNote(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			bad++
			continue
		}
		notes = append(notes, n)
	}
	return notes, bad
}

func parseNote(line []byte) (Note, error) {
	var n Note
	sum, body, ok := bytes.Cut(line, []byte(" "))
	if !ok || string(sum) != string(checksum(body)) {
		return n, errors.New("checksum does not match")
	}
	return n, jsonv2.Unmarshal(body, &n, asWritten)
}

// checksum is the CRC-32C of a note in hex.
func checksum(body []byte) []byte {
	return hex.AppendEncode(nil, binary.BigEndian.AppendUint32(nil, crc32.Checksum(body, castagnoli)))
}

// write appends one note; durable waits until it is on disk.
func (j *journal) write(n Note, durable bool) error {
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	line := fmt.Appendf(make([]byte, 0, len(body)+10), "%s %s\n", checksum(body), body)
	j.mu.Lock()
	defer j.mu.Unlock()
	if n, err := j.file.Write(line); err != nil {
		return errors.Join(err, j.takeBack(n))
	}
	if durable {
		return j.file.Sync()
	}
	return nil
}

// takeBack cuts off the first bytes of a line that a full disk did not take whole, so that the next note has a line of its
// own.
func (j *journal) takeBack(n int) error {
	if n == 0 {
		return nil
	}
	end, err := j.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	return j.file.Truncate(end - int64(n))
}

// sync waits until what was written is on disk.
func (j *journal) sync() error { return j.file.Sync() }

func (j *journal) close() error { return errors.Join(j.file.Sync(), j.file.Close()) }
