package result

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-ci/assay/internal/plan"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
)

// Names of the ledger's own files.
const (
	manifestName = "manifest.json"
	journalName  = "journal.jsonl"
	lockName     = ".lock"
	pendingName  = ".pending" // a folder: files that are not whole yet
)

// lockWait is how long a second writer waits for the first.
const lockWait = 10 * time.Second

// A Ledger is a folder of results with one writer. Its methods may be called at the same time for different cells.
type Ledger struct {
	dir     string
	lock    *flock.Flock
	journal *journal
	now     func() time.Time
	redact  Redactor // nil: there are no secrets

	mu      sync.Mutex
	witness *witness        // what the journal knows of the records
	synced  map[string]bool // folders whose entry is known to be on disk
	spent   float64
}

// A Locked error says who holds a ledger.
type Locked struct{ Dir, Holder string }

func (e *Locked) Error() string {
	return fmt.Sprintf("%s is in use by %s; wait for it, or choose another folder with --out", e.Dir, e.Holder)
}

// Open opens or makes the ledger at dir for writing. While it is open no other process can write there: a second one
// waits ten seconds and then gets a *Locked, or the context's error. now is the wall clock of the journal's stamps.
func Open(ctx context.Context, dir string, now func() time.Time) (*Ledger, error) {
	if err := os.MkdirAll(filepath.Join(dir, "cells"), 0o755); err != nil {
		return nil, err
	}
	lock, err := acquire(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := emptyPending(dir); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	j, notes, bad, err := openJournal(filepath.Join(dir, journalName))
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	l := &Ledger{dir: dir, lock: lock, journal: j, now: now, witness: newWitness(), synced: map[string]bool{}}
	l.witness.damaged = bad > 0
	for _, n := range notes {
		l.witness.hear(n)
		if n.CostUSD != nil {
			l.spent += *n.CostUSD
		}
	}
	return l, nil
}

// acquire takes the writer's lock and leaves our name in it for whoever comes second.
func acquire(ctx context.Context, dir string) (*flock.Flock, error) {
	name := filepath.Join(dir, lockName)
	lock := flock.New(name, flock.SetFlag(os.O_CREATE|os.O_RDWR))
	deadline := time.Now().Add(lockWait)
	for {
		ok, err := lock.TryLock()
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		if ok {
			break
		}
		if time.Now().After(deadline) {
			holder, _ := os.ReadFile(name)
			return nil, &Locked{Dir: dir, Holder: strings.TrimSpace(string(holder))}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	host, _ := os.Hostname()
	who := fmt.Sprintf("process %d on %s\n", os.Getpid(), host)
	if err := os.WriteFile(name, []byte(who), 0o644); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return lock, nil
}

// emptyPending removes what a killed writer had not finished.
func emptyPending(dir string) error {
	dir = filepath.Join(dir, pendingName)
	return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755))
}

// Close releases the ledger.
func (l *Ledger) Close() error {
	return errors.Join(l.journal.close(), os.RemoveAll(l.path(pendingName)), l.lock.Unlock())
}

// A Redactor takes secrets out of what is kept.
type Redactor interface {
	// Clean returns the bytes without secrets, and how many marks stand for them.
	Clean([]byte) (clean []byte, masked int)
	// Writer passes on to another writer; it may hold bytes back until it is closed, which leaves the other one open. It adds
	// the number of its marks to masked.
	Writer(w io.Writer, masked *int) io.WriteCloser
}

// Redact has everything that is written from here on pass through r. It must be called before the first Begin.
func (l *Ledger) Redact(r Redactor) { l.redact = r }

// clean is a text without secrets.
func (l *Ledger) clean(b []byte) []byte {
	if l.redact == nil {
		return b
	}
	clean, _ := l.redact.Clean(b)
	return clean
}

// Dir is the ledger's folder.
func (l *Ledger) Dir() string { return l.dir }

// Spent is the money that the journal knows to have been spent, over all attempts ever made here.
func (l *Ledger) Spent() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.spent
}

// Write appends a note to the journal; durable waits until it is on disk.
func (l *Ledger) Write(n Note, durable bool) error {
	n.At, n.Text = l.now().UTC(), string(l.clean([]byte(n.Text)))
	if err := l.journal.write(n, durable); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// PutManifest replaces the manifest, atomically and durably.
func (l *Ledger) PutManifest(m Manifest) error {
	m.Schema = Schema
	b, err := marshalManifest(m)
	if err != nil {
		return err
	}
	return l.PutReport(manifestName, b)
}

// marshalManifest writes one cell a line: a person can read it, and 100,000 cells stay a reasonable file.
func marshalManifest(m Manifest) ([]byte, error) {
	cells := m.Cells
	m.Cells = []plan.Cell{}
	head, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	mark := []byte(`"cells": []`)
	at := bytes.LastIndex(head, mark)
	var b bytes.Buffer
	b.Write(head[:at])
	b.WriteString(`"cells": [`)
	for i, c := range cells {
		line, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n    ")
		b.Write(line)
	}
	b.WriteString("\n  ]")
	b.Write(head[at+len(mark):])
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// PutReport writes a file beside the manifest, atomically and durably.
func (l *Ledger) PutReport(name string, data []byte) error {
	if err := l.replace(filepath.Join(l.dir, name), l.clean(data)); err != nil {
		return err
	}
	return syncDir(l.dir)
}

// replace writes a file of the ledger in one step: whoever reads it finds the old bytes or the new ones, and a killed
// writer leaves nothing beside it.
func (l *Ledger) replace(name string, data []byte) error {
	return renameio.WriteFile(name, data, 0o644, renameio.WithTempDir(l.path(pendingName)), renameio.IgnoreUmask())
}

// maxManifest bounds what is read of one manifest: some million cells.
const maxManifest = 1 << 30

// ErrNotJSON is in the error of a manifest that something spoilt.
var ErrNotJSON = errors.New("it is not JSON")

// ReadManifest reads the manifest of the ledger at dir. A ledger that has none yet gives fs.ErrNotExist.
func ReadManifest(dir string) (Manifest, error) {
	var m Manifest
	b, err := readCapped(filepath.Join(dir, manifestName), maxManifest)
	if err != nil {
		return m, err
	}
	if err := jsonv2.Unmarshal(b, &m, asWritten); err != nil {
		if bad := (*jsontext.SyntacticError)(nil); errors.As(err, &bad) {
			err = fmt.Errorf("%w: %w", ErrNotJSON, err)
		}
		return m, fmt.Errorf("%s: %w", filepath.Join(dir, manifestName), err)
	}
	if m.Schema != Schema {
		return m, fmt.Errorf("%s: schema %d, this version reads %d", filepath.Join(dir, manifestName), m.Schema, Schema)
	}
	return m, nil
}

// Lookup returns the record of a cell. ok is false when there is none that can be used: none at all, or one that is
// damaged or not the one that was committed, which is then set aside under another name and written into the journal, so
// that only this cell runs again.
func (l *Ledger) Lookup(c plan.Cell) (r Result, ok bool, err error) {
	rel := Dir(c)
	dir := l.path(rel)
	r, err = readWhole(dir)
	switch {
	case errors.Is(err, errNoRecord):
		return Result{}, false, nil
	case err == nil && r.Key != c.Key:
		err = errOtherCell
	case err == nil:
		err = l.believe(rel, r)
	}
	if err == nil {
		return r, true, nil
	}
	if err := l.setAside(rel, err); err != nil {
		return Result{}, false, err
	}
	return Result{}, false, nil
}

// believe tells whether a record can be the one that was committed.
func (l *Ledger) believe(rel string, r Result) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.witness.check(rel, r)
}

var errOtherCell = errors.New("the record is of another cell")

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

func (l *Ledger) setAside(rel string, why error) error {
	name := filepath.Join(l.path(rel), recordName)
	for n := 1; ; n++ {
		bad := fmt.Sprintf("%s.bad-%d", name, n)
		if exists(bad) {
			continue
		}
		if err := os.Rename(name, bad); err != nil {
			return err
		}
		return l.Write(Note{What: "set_aside", Cell: rel, Text: why.Error()}, true)
	}
}

func (l *Ledger) path(rel string) string { return filepath.Join(l.dir, filepath.FromSlash(rel)) }

// Read yields the records of the cells, in their order, from the ledger at dir. A cell without a record is passed over;
// one whose record is damaged, or not the one that the journal saw, is an error value, and reading goes on; so is a journal
// that cannot be read. The files beside a record are not looked at: only its own bytes enter a number. No lock is taken.
func Read(dir string, cells []plan.Cell) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		if seen, ok := heard(dir, yield); ok {
			eachRecord(dir, cells, seen, parseWhole, yield)
		}
	}
}

// ReadNumbers is [Read] in less time, for who counts: the cell, its attempt and end, the counts of its diff scope, turns and
// usage of its agent, and durations. All else is empty.
func ReadNumbers(dir string, cells []plan.Cell) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		if seen, ok := heard(dir, yield); ok {
			eachRecord(dir, cells, seen, parseNumbers, yield)
		}
	}
}

// ReadAll yields what [Read] does for the cells, which are some of the planned ones, and then the records of the ledger that
// belong to none of the planned: results of an earlier suite or selection. They are kept and named, and enter no number.
func ReadAll(dir string, cells, planned []plan.Cell) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		if seen, ok := heard(dir, yield); ok && eachRecord(dir, cells, seen, parseWhole, yield) {
			eachStranger(dir, planned, seen, yield)
		}
	}
}

// heard reads the journal; ok is false when nothing more is to be yielded.
func heard(dir string, yield func(Result, error) bool) (seen *witness, ok bool) {
	seen, err := readWitness(dir)
	return seen, err == nil || yield(Result{}, err)
}

// An answer is what became of reading the record of a cell; neither ok nor an error: it has none.
type answer struct {
	r   Result
	ok  bool
	err error
}

// eachRecord yields the records of the cells, until it is told to stop. The next ones are read meanwhile.
func eachRecord(dir string, cells []plan.Cell, seen *witness, parse parser, yield func(Result, error) bool) bool {
	next := make(chan []answer)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		defer close(next)
		for batch := range slices.Chunk(cells, readBatch) {
			select {
			case next <- answersOf(dir, batch, seen, parse):
			case <-stop:
				return
			}
		}
	}()
	for answers := range next {
		for _, a := range answers {
			if (a.ok || a.err != nil) && !yield(a.r, a.err) {
				return false
			}
		}
	}
	return true
}

// answersOf reads the records of a few cells, on all processors.
func answersOf(dir string, batch []plan.Cell, seen *witness, parse parser) []answer {
	answers := make([]answer, len(batch))
	var next atomic.Int64
	var readers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(batch)) {
		readers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(batch); i = int(next.Add(1)) - 1 {
				a := &answers[i]
				a.r, a.ok, a.err = recordOf(dir, batch[i], seen, parse)
			}
		})
	}
	readers.Wait()
	return answers
}

// readBatch is how many records are read at once: reading them is most of the time that a report takes, and holding all of
// them would be most of its memory.
const readBatch = 64

// ReadOne reads the record of a cell that [Read] has yielded before; the journal is not asked again.
func ReadOne(dir string, c plan.Cell) (r Result, ok bool, err error) {
	return recordOf(dir, c, newWitness(), parseWhole)
}

// recordOf reads the record of one cell; ok is false when it has none.
func recordOf(dir string, c plan.Cell, seen *witness, parse parser) (r Result, ok bool, err error) {
	rel := Dir(c)
	r, err = readRecord(filepath.Join(dir, filepath.FromSlash(rel)), parse)
	switch {
	case errors.Is(err, errNoRecord):
		return Result{}, false, nil
	case err == nil && r.Key != c.Key:
		err = errOtherCell
	case err == nil:
		err = seen.checkAgain(dir, rel, r)
	}
	if err != nil {
		return Result{}, false, fmt.Errorf("%s: %w", rel, err)
	}
	return r, true, nil
}

// eachStranger yields the records of the ledger at dir that belong to none of the cells.
func eachStranger(dir string, cells []plan.Cell, seen *witness, yield func(Result, error) bool) {
	planned := make(map[string]bool, len(cells))
	for _, c := range cells {
		planned[Dir(c)] = true
	}
	arms, err := filepath.Glob(filepath.Join(dir, "cells", "*", "*"))
	if err != nil {
		yield(Result{}, err)
		return
	}
	for _, arm := range arms {
		trials, _ := os.ReadDir(arm) // what cannot be listed is no folder of an arm
		for _, trial := range trials {
			folder := filepath.Join(arm, trial.Name())
			rel, err := filepath.Rel(dir, folder)
			if err != nil || planned[filepath.ToSlash(rel)] {
				continue
			}
			r, err := readRecord(folder, parseWhole)
			if errors.Is(err, errNoRecord) {
				continue
			}
			if err == nil {
				err = seen.checkAgain(dir, filepath.ToSlash(rel), r)
			}
			if err != nil {
				r, err = Result{}, fmt.Errorf("%s: %w", filepath.ToSlash(rel), err)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// syncDir makes the entries of a folder durable; renaming a file into it does not.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
