package result

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// maxJournal bounds what is read of one journal: more than a million notes.
const maxJournal = 256 << 20

var errNotCommitted = errors.New("the record is not the one that the journal says was committed")

// A witness is what a journal tells of the records. Who writes a better record can give it a right sum, but not the one
// that the journal has of the record that was committed.
type witness struct {
	attempts  map[string]int       // highest attempt, by cell folder
	committed map[string]committed // the last one that became a record, by cell folder
	damaged   bool                 // some notes are lost, so that there may have been later attempts
	size      int64                // bytes of the journal that this was read from
}

type committed struct {
	attempt int
	sum     string // empty in journals of earlier versions
}

func newWitness() *witness {
	return &witness{attempts: map[string]int{}, committed: map[string]committed{}}
}

// readWitness reads the journal of the ledger at dir. One that is not there tells nothing. No lock is taken, so its last
// line may be half written.
func readWitness(dir string) (*witness, error) {
	w := newWitness()
	data, err := readCapped(filepath.Join(dir, journalName), maxJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil
	}
	if err != nil {
		return w, err
	}
	w.size = int64(len(data))
	for line := range bytes.Lines(data[:bytes.LastIndexByte(data, '\n')+1]) {
		n, err := parseNote(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			w.damaged = true
			continue
		}
		w.hear(n)
	}
	return w, nil
}

func (w *witness) hear(n Note) {
	w.attempts[n.Cell] = max(w.attempts[n.Cell], n.Attempt)
	if n.What == noteCommitted {
		w.committed[n.Cell] = committed{n.Attempt, n.Sum}
	}
}

// check tells whether the record in a folder can be the one that was committed there. A cell whose commit is not in the
// journal is believed: it was copied here, or its writer was killed between the record and the note.
func (w *witness) check(rel string, r Result) error {
	c, ok := w.committed[rel]
	switch {
	case !ok || c.sum == "":
		return nil
	case r.Attempt == c.attempt && r.Sum == c.sum:
		return nil
	case r.Attempt > c.attempt && (r.Attempt <= w.attempts[rel] || w.damaged):
		return nil
	}
	return errNotCommitted
}

// checkAgain is check for who holds no lock: since the witness was read, the writer may have gone on.
func (w *witness) checkAgain(dir, rel string, r Result) error {
	err := w.check(rel, r)
	if err == nil {
		return nil
	}
	if info, statErr := os.Lstat(filepath.Join(dir, journalName)); statErr != nil || info.Size() == w.size {
		return err
	}
	later, readErr := readWitness(dir)
	if readErr != nil {
		return err
	}
	return later.check(rel, r)
}
