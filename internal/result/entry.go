package result

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/assay-ci/assay/internal/plan"
)

// An Entry is one attempt at a cell that is being written. The first attempt writes into the folder of the cell, where
// there is nothing else yet; a later one into a folder of its own, until Commit moves its files up. Without a record, what
// lies in the folder of a cell is of an attempt that was torn: Begin sets it apart, so it never mixes with a whole one.
type Entry struct {
	ledger  *Ledger
	rel     string // the cell's folder below the ledger
	cell    string // the same as a path of the host
	dir     string // where the attempt writes: the same, or a folder in it
	attempt int

	mu    sync.Mutex
	files map[string]*File
}

// Begin starts the next attempt at a cell and writes so into the journal, durably if the attempt may cost money.
func (l *Ledger) Begin(c plan.Cell, why string, durable bool) (*Entry, error) {
	e := &Entry{ledger: l, rel: Dir(c), files: map[string]*File{}}
	e.cell = l.path(e.rel)
	if err := e.place(); err != nil {
		return nil, err
	}
	return e, l.Write(Note{What: "attempt", Cell: e.rel, Attempt: e.attempt, Text: why}, durable)
}

// place takes the number of the attempt and makes the folder that it writes into.
func (e *Entry) place() error {
	err := os.Mkdir(e.cell, 0o755)
	if errors.Is(err, fs.ErrNotExist) { // the first of its arm
		err = os.MkdirAll(e.cell, 0o755)
	}
	switch {
	case err == nil:
		e.attempt, e.dir = e.ledger.nextAttempt(e.rel, 0), e.cell
		return nil
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	if err := e.setTornApart(); err != nil {
		return err
	}
	for {
		e.attempt = e.ledger.nextAttempt(e.rel, 1)
		e.dir = e.attemptDir(e.attempt)
		// A folder that the journal does not know is left of a power cut; its number is used up.
		if err := os.Mkdir(e.dir, 0o755); !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

// setTornApart moves what a torn attempt left in the cell's folder into one of its own. Beside a record there is nothing
// torn.
func (e *Entry) setTornApart() error {
	apart := e.attemptDir(max(1, e.ledger.lastAttempt(e.rel)))
	if exists(filepath.Join(e.cell, recordName)) {
		return nil
	}
	found, err := os.ReadDir(e.cell)
	if err != nil {
		return err
	}
	for _, d := range found {
		if strings.HasPrefix(d.Name(), "attempt-") || strings.HasPrefix(d.Name(), recordName+".bad-") {
			continue
		}
		if err := moveUp(e.cell, apart, d.Name()); err != nil {
			return err
		}
	}
	return nil
}

// nextAttempt gives the number of the next attempt at a cell; used up numbers are gone even when the journal lost them.
func (l *Ledger) nextAttempt(rel string, used int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.witness.attempts[rel] = max(l.witness.attempts[rel], used) + 1
	return l.witness.attempts[rel]
}

// lastAttempt is the number of the last attempt at a cell that the journal knows, 0 when it knows none.
func (l *Ledger) lastAttempt(rel string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.witness.attempts[rel]
}

// Note writes into the journal what is about to happen in the attempt. It does not wait for the disk: the order of the notes
// is what they are for, and a power cut costs the attempt as a whole.
func (e *Entry) Note(what, text string) error {
	return e.ledger.Write(Note{What: what, Cell: e.rel, Attempt: e.attempt, Text: text}, false)
}

// Attempt is the number of the attempt, from 1.
func (e *Entry) Attempt() int { return e.attempt }

func (e *Entry) attemptDir(n int) string { return filepath.Join(e.cell, fmt.Sprintf("attempt-%d", n)) }

// A File is one file of an attempt. It is made at the first write, so an empty file costs nothing. It has no buffer of its
// own: those who write little at a time bring one. What may be the beginning of a secret is held back until more comes or
// the file is read.
type File struct {
	name   string
	redact Redactor // nil: the bytes are kept as they are
	mu     sync.Mutex
	f      *os.File
	sum    hash.Hash
	clean  io.WriteCloser // to f and sum; nil: nothing is held back
	masked int            // marks in place of secrets
	err    error
}

// Create returns the named file of the attempt, such as trace.jsonl or assertions/correct.log.
func (e *Entry) Create(name string) *File {
	f := &File{name: filepath.Join(e.dir, filepath.FromSlash(name)), redact: e.ledger.redact}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.files[name] = f
	return f
}

// Open opens a file of the attempt for reading, as far as it is written. A file that nothing was written to is
// fs.ErrNotExist.
func (e *Entry) Open(name string) (*os.File, error) {
	e.mu.Lock()
	f := e.files[name]
	e.mu.Unlock()
	if f != nil {
		if err := f.release(); err != nil {
			return nil, err
		}
	}
	return os.Open(filepath.Join(e.dir, filepath.FromSlash(name)))
}

// Committed opens a file of the attempt that is the cell's record now.
func (e *Entry) Committed(name string) (*os.File, error) {
	return os.Open(filepath.Join(e.cell, filepath.FromSlash(name)))
}

func (f *File) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.f == nil && f.err == nil && len(p) > 0 {
		f.err = f.open()
	}
	if f.err != nil || len(p) == 0 {
		return 0, f.err
	}
	if f.redact == nil {
		var n int
		n, f.err = f.put(p)
		return n, f.err
	}
	if f.clean == nil {
		f.clean = f.redact.Writer(writerFunc(f.put), &f.masked)
	}
	if _, f.err = f.clean.Write(p); f.err != nil {
		return 0, f.err
	}
	return len(p), nil
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

// put writes bytes that may be kept.
func (f *File) put(p []byte) (int, error) {
	f.sum.Write(p)
	return f.f.Write(p)
}

// release writes what was held back.
func (f *File) release() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.releaseHeld()
	return f.err
}

func (f *File) releaseHeld() {
	if f.clean != nil && f.f != nil && f.err == nil {
		f.err = f.clean.Close()
	}
	f.clean = nil
}

func (f *File) open() error {
	const flags = os.O_CREATE | os.O_EXCL | os.O_WRONLY
	file, err := os.OpenFile(f.name, flags, 0o644)
	if errors.Is(err, fs.ErrNotExist) { // its folder is not there yet
		if err := os.MkdirAll(filepath.Dir(f.name), 0o755); err != nil {
			return err
		}
		file, err = os.OpenFile(f.name, flags, 0o644)
	}
	if err != nil {
		return err
	}
	f.f, f.sum = file, sha256.New()
	return nil
}

// digest returns the digest of what was written, and how many secrets were taken out of it; ok is false when nothing ever
// was written.
func (f *File) digest() (digest string, masked int, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.releaseHeld()
	if f.f == nil || f.err != nil {
		return "", 0, false, f.err
	}
	return hex.EncodeToString(f.sum.Sum(nil)), f.masked, true, nil
}

// finish closes the file; durable makes it so first.
func (f *File) finish(durable bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.releaseHeld()
	if f.f == nil {
		return f.err
	}
	err := f.err
	if durable {
		err = errors.Join(err, f.f.Sync())
	}
	err = errors.Join(err, f.f.Close())
	f.f, f.err = nil, fs.ErrClosed
	return err
}

// keepEarlier moves the files of an already committed attempt into a folder of their own. Its record stays until the new
// one replaces it.
func (e *Entry) keepEarlier() error {
	var r Result
	old, err := readCapped(filepath.Join(e.cell, recordName), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		r, err = decode(old, parseWhole)
	}
	if err != nil { // who runs everything afresh never looked at it
		return e.ledger.setAside(e.rel, err)
	}
	kept := e.attemptDir(r.Attempt)
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		if err := moveUp(e.cell, kept, filepath.FromSlash(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// moveUp renames one file from a folder to another, parents made.
func moveUp(from, to, name string) error {
	target := filepath.Join(to, name)
	err := os.Rename(filepath.Join(from, name), target)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return os.Rename(filepath.Join(from, name), target)
}

// Abandon ends an attempt without a record: its files stay in the attempt's folder as evidence, and what it cost is in
// the journal. what is interrupted, or errored when another attempt follows.
func (e *Entry) Abandon(what string, r Result) error {
	errs := []error{e.finish(true)}
	if e.dir == e.cell {
		errs = append(errs, e.setTornApart())
	} else {
		os.Remove(e.dir) // only when it is empty
	}
	errs = append(errs, e.ledger.spend(Note{What: what, Cell: e.rel, Attempt: e.attempt, Status: r.Status, Class: r.Class, CostUSD: cost(r), Text: r.Detail}))
	return errors.Join(errs...)
}
