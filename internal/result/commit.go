package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// newRecordName is the record before its cell exists.
const newRecordName = recordName + ".new"

// together is how many cells make it worth to write the whole file system down at once instead of each file for itself.
// Two wait only where cells are about as short as a commit, a millisecond, so that nothing else fills the disk's queue.
const together = 2

// A Finished is an attempt whose result is known.
type Finished struct {
	Entry  *Entry
	Result Result
	Kept   bool // the agent's work is that of an earlier attempt, and what it cost is in the journal already
}

// Commit makes each attempt the record of its cell. The records and all files beside them are on disk before the first
// record gets its name, by one rename: a reader finds a whole cell or none of it. When Commit returns, the cells survive
// a power cut. After an error some of them may be there and others not; none is torn.
func (l *Ledger) Commit(batch ...Finished) error {
	atOnce := len(batch) >= together && canSyncAll
	sums := make([]string, len(batch))
	again := false // a record replaces another, and is believed only when the journal knows of its attempt
	for i, f := range batch {
		var err error
		if sums[i], err = f.Entry.writeRecord(f.Result); err != nil {
			return err
		}
		again = again || f.Entry.attempt > 1
		if err := f.Entry.finish(!atOnce); err != nil {
			return err
		}
	}
	switch {
	case atOnce:
		if err := syncAll(l.dir); err != nil {
			return err
		}
	case again:
		if err := l.journal.sync(); err != nil {
			return err
		}
	}
	for _, f := range batch {
		if err := f.Entry.name(); err != nil {
			return err
		}
		if !atOnce {
			if err := f.Entry.syncFolders(); err != nil {
				return err
			}
		}
	}
	if atOnce {
		if err := syncAll(l.dir); err != nil {
			return err
		}
	}
	for i, f := range batch {
		r := f.Result
		n := Note{What: noteCommitted, Cell: f.Entry.rel, Attempt: f.Entry.attempt, Status: r.Status, Class: r.Class, CostUSD: cost(f.spent()), Sum: sums[i]}
		l.mu.Lock()
		l.witness.hear(n)
		l.mu.Unlock()
		if err := l.spend(n); err != nil {
			return err
		}
	}
	return nil
}

// Commit makes the attempt the cell's record; see [Ledger.Commit].
func (e *Entry) Commit(r Result) error { return e.ledger.Commit(Finished{Entry: e, Result: r}) }

// writeRecord writes the record, with the digests of all files of the attempt, under a name that no reader looks for. It
// returns the record's own sum.
func (e *Entry) writeRecord(r Result) (string, error) {
	r.Attempt, r.Files, r.Redacted = e.attempt, map[string]string{}, maps.Clone(r.Redacted)
	for name, f := range e.files {
		digest, masked, ok, err := f.digest()
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		if ok {
			r.Files[name] = digest
			r.redacted(name, masked)
		}
	}
	r, err := e.ledger.cleanResult(r)
	if err != nil {
		return "", err
	}
	record, err := encode(r)
	if err != nil {
		return "", err
	}
	f := e.Create(newRecordName)
	f.redact = nil // it is clean, and its sum holds for these bytes
	_, err = f.Write(record)
	return string(record[len(record)-len(sumEnd)-sumLen : len(record)-len(sumEnd)]), err
}

// redacted counts what was taken out of a file of the cell.
func (r *Result) redacted(name string, masked int) {
	if masked == 0 {
		return
	}
	if r.Redacted == nil {
		r.Redacted = map[string]int{}
	}
	r.Redacted[name] += masked
	if name == PatchName {
		r.Findings = append(slices.Clip(r.Findings), Finding{Kind: EvidenceRedacted, Path: name,
			Text: "a secret was taken out of the patch, so the tree that the agent left cannot be rebuilt from it, nor graded again"})
	}
}

// cleanResult is a result without secrets in its texts.
func (l *Ledger) cleanResult(r Result) (Result, error) {
	if l.redact == nil {
		return r, nil
	}
	b, err := json.Marshal(r)
	if err != nil {
		return r, err
	}
	clean, masked := l.redact.Clean(b)
	if masked == 0 {
		return r, nil
	}
	var out Result
	if err := json.Unmarshal(clean, &out); err != nil {
		return r, fmt.Errorf("take secrets out of a record: %w", err)
	}
	out.redacted(recordName, masked)
	return out, nil
}

// finish closes every file of the attempt; durable makes each of them so first.
func (e *Entry) finish(durable bool) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(e.files)) {
		if err := e.files[name].finish(durable); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// name moves the files of the attempt to where the cell's files belong, and gives the record its name last.
func (e *Entry) name() error {
	if err := e.keepEarlier(); err != nil {
		return err
	}
	if e.dir != e.cell {
		for _, name := range slices.Sorted(maps.Keys(e.files)) {
			if name == newRecordName || !exists(filepath.Join(e.dir, filepath.FromSlash(name))) {
				continue
			}
			if err := moveUp(e.dir, e.cell, filepath.FromSlash(name)); err != nil {
				return err
			}
		}
	}
	if err := os.Rename(filepath.Join(e.dir, newRecordName), filepath.Join(e.cell, recordName)); err != nil {
		return err
	}
	if e.dir != e.cell {
		return os.RemoveAll(e.dir)
	}
	return nil
}

// syncFolders makes the cell's folder durable, and once a run each folder above it.
func (e *Entry) syncFolders() error {
	if err := syncDir(e.cell); err != nil {
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

// spent is the result without what an earlier attempt has paid for.
func (f Finished) spent() Result {
	r := f.Result
	if f.Kept {
		r.Agent.Usage, r.Beside.Responder = nil, nil
	}
	return r
}

// cost is all that is known to have been spent on the last attempt: by the agent and beside it. Nil: nothing is known.
func cost(r Result) *float64 {
	var sum *float64
	for _, u := range append(r.Beside.Parts(), r.Agent.Usage) {
		if u == nil || u.CostUSD == nil {
			continue
		}
		if sum == nil {
			sum = new(float64)
		}
		*sum += *u.CostUSD
	}
	return sum
}
