package result

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"github.com/assay-ci/assay/internal/plan"
)

// An Entry is one attempt at a cell that is being written. Its files lie in a folder of the attempt until Commit moves
// them up, so that a torn attempt never mixes with a whole one.
type Entry struct {
	ledger  *Ledger
	rel     string // the cell's folder below the ledger
	attempt int

	mu    sync.Mutex
	files map[string]*File
}

// Begin starts the next attempt at a cell and writes so into the journal, durably if the attempt may cost money.
func (l *Ledger) Begin(c plan.Cell, why string, durable bool) (*Entry, error) {
	e := &Entry{ledger: l, rel: Dir(c), files: map[string]*File{}}
	if err := os.MkdirAll(e.cell(), 0o755); err != nil {
		return nil, err
	}
	for made := false; !made; {
		e.attempt = l.nextAttempt(e.rel)
		err := os.Mkdir(e.dir(), 0o755)
		// A folder that the journal does not know is left of a power cut; its number is used up.
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		made = err == nil
	}
	return e, l.Write(Note{What: "attempt", Cell: e.rel, Attempt: e.attempt, Text: why}, durable)
}

func (l *Ledger) nextAttempt(rel string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts[rel]++
	return l.attempts[rel]
}

// Attempt is the number of the attempt, from 1.
func (e *Entry) Attempt() int { return e.attempt }

func (e *Entry) cell() string { return e.ledger.path(e.rel) }
func (e *Entry) dir() string  { return filepath.Join(e.cell(), fmt.Sprintf("attempt-%d", e.attempt)) }

// A File is one file of an attempt. It is made at the first write, so an empty file costs nothing.
type File struct {
	name string
	mu   sync.Mutex
	f    *os.File
	buf  *bufio.Writer
	sum  hash.Hash
	err  error
}

// Create returns the named file of the attempt, such as trace.jsonl or assertions/correct.log.
func (e *Entry) Create(name string) *File {
	f := &File{name: filepath.Join(e.dir(), filepath.FromSlash(name))}
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
		if err := f.flush(); err != nil {
			return nil, err
		}
	}
	return os.Open(filepath.Join(e.dir(), filepath.FromSlash(name)))
}

// Committed opens a file of the attempt that is the cell's record now.
func (e *Entry) Committed(name string) (*os.File, error) {
	return os.Open(filepath.Join(e.cell(), filepath.FromSlash(name)))
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
	f.sum.Write(p)
	n, err := f.buf.Write(p)
	f.err = err
	return n, err
}

func (f *File) open() error {
	if err := os.MkdirAll(filepath.Dir(f.name), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(f.name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	f.f, f.buf, f.sum = file, bufio.NewWriterSize(file, 8<<10), sha256.New()
	return nil
}

// flush hands buffered bytes to the file.
func (f *File) flush() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.f != nil && f.err == nil {
		f.err = f.buf.Flush()
	}
	return f.err
}

// finish makes the file durable and returns its digest; ok is false when nothing was ever written.
func (f *File) finish() (digest string, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.f == nil {
		return "", false, f.err
	}
	if f.err == nil {
		f.err = f.buf.Flush()
	}
	err = errors.Join(f.err, f.f.Sync(), f.f.Close())
	f.f, f.err = nil, fs.ErrClosed
	return hex.EncodeToString(f.sum.Sum(nil)), true, err
}

// Commit makes the attempt the cell's record. Every other file is on disk before the record is, and the record appears
// by one rename: a reader finds the whole cell or none of it.
func (e *Entry) Commit(r Result) error {
	r.Attempt, r.Files = e.attempt, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(e.files)) {
		digest, ok, err := e.files[name].finish()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if ok {
			r.Files[name] = digest
		}
	}
	if err := e.keepEarlier(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		if err := moveUp(e.dir(), e.cell(), filepath.FromSlash(name)); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(e.dir()); err != nil {
		return err
	}
	record, err := encode(r)
	if err != nil {
		return err
	}
	if err := e.ledger.replace(filepath.Join(e.cell(), recordName), record); err != nil {
		return err
	}
	if err := e.syncFolders(); err != nil {
		return err
	}
	return e.ledger.spend(Note{What: "committed", Cell: e.rel, Attempt: e.attempt, Status: r.Status, Class: r.Class, CostUSD: cost(r)})
}

// keepEarlier moves the files of an already committed attempt into a folder of their own. Its record stays until the new
// one replaces it.
func (e *Entry) keepEarlier() error {
	var r Result
	old, err := readCapped(filepath.Join(e.cell(), recordName), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		r, err = decode(old)
	}
	if err != nil { // who runs everything afresh never looked at it
		return e.ledger.setAside(e.rel, err)
	}
	kept := filepath.Join(e.cell(), fmt.Sprintf("attempt-%d", r.Attempt))
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		if err := moveUp(e.cell(), kept, filepath.FromSlash(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// syncFolders makes the cell's folder durable, and once a run each folder above it.
func (e *Entry) syncFolders() error {
	if err := syncDir(e.cell()); err != nil {
		return err
	}
	l := e.ledger
	for rel := path.Dir(e.rel); rel != "."; rel = path.Dir(rel) {
		// The folder directly above gained this cell's entry; those further up only the first time.
		if rel != path.Dir(e.rel) {
			l.mu.Lock()
			known := l.synced[rel]
			l.synced[rel] = true
			l.mu.Unlock()
			if known {
				break
			}
		}
		if err := syncDir(l.path(rel)); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) spend(n Note) error {
	if n.CostUSD != nil {
		l.mu.Lock()
		l.spent += *n.CostUSD
		l.mu.Unlock()
	}
	return l.Write(n, false)
}

func cost(r Result) *float64 {
	if r.Agent.Usage == nil {
		return nil
	}
	return r.Agent.Usage.CostUSD
}

// Abandon ends an attempt without a record: its files stay in the attempt's folder as evidence, and what it cost is in
// the journal. what is interrupted, or errored when another attempt follows.
func (e *Entry) Abandon(what string, r Result) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(e.files)) {
		_, _, err := e.files[name].finish()
		errs = append(errs, err)
	}
	os.Remove(e.dir()) // only when it is empty
	errs = append(errs, e.ledger.spend(Note{What: what, Cell: e.rel, Attempt: e.attempt, Status: r.Status, Class: r.Class, CostUSD: cost(r), Text: r.Detail}))
	return errors.Join(errs...)
}
