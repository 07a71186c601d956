package result

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/plan"
)

// forge writes a better record of a cell, whose own sum is right.
func forge(t *testing.T, dir string, c plan.Cell, change func(*Result)) {
	t.Helper()
	r, err := readRecord(filepath.Join(dir, Dir(c)), parseWhole)
	if err != nil {
		t.Fatal(err)
	}
	change(&r)
	record, err := encode(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, Dir(c), recordName), record, 0o644); err != nil {
		t.Fatal(err)
	}
}

func better(r *Result) { r.Status = Passed }

// forged is a ledger of two failed cells, the first of which says that it passed.
func forged(t *testing.T) (dir string, cells []plan.Cell) {
	t.Helper()
	dir, cells = t.TempDir(), []plan.Cell{cell("a", 1), cell("b", 1)}
	l := open(t, dir)
	for _, c := range cells {
		commit(t, l, c, Failed, "x\n")
	}
	if err := l.PutManifest(Manifest{Cells: cells}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	forge(t, dir, cells[0], better)
	return dir, cells
}

// A record that was written by another than assay is not believed, although its own sum is right: it enters no number, is
// named, and its cell alone runs again.
func TestA14ForgedRecordWithARightSum(t *testing.T) {
	dir, cells := forged(t)
	for what, seq := range map[string]func(yield func(Result, error) bool){"Read": Read(dir, cells), "strangers": ReadAll(dir, nil, nil)} {
		var got []string
		for r, err := range seq {
			got = append(got, fmt.Sprint(r.Case, r.Status, errors.Is(err, errNotCommitted)))
		}
		if strings.Join(got, " ") != "true bfailedfalse" {
			t.Errorf("%s yields %q", what, got)
		}
	}

	joined := open(t, t.TempDir())
	defer joined.Close()
	if err := Merge(joined, []string{dir}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []Status{Skipped, Failed} {
		if r, ok, err := joined.Lookup(cells[i]); !ok || err != nil || r.Status != want {
			t.Errorf("cell %d is joined as %s, want %s (%v %v)", i, r.Status, want, ok, err)
		}
	}

	l := open(t, dir)
	defer l.Close()
	if _, ok, err := l.Lookup(cells[1]); !ok || err != nil {
		t.Errorf("the honest cell: %v %v", ok, err)
	}
	if r, ok, err := l.Lookup(cells[0]); ok || err != nil {
		t.Fatalf("the forged cell is used: %s %v", r.Status, err)
	}
	if !exists(filepath.Join(dir, Dir(cells[0]), recordName+".bad-1")) {
		t.Error("the forged record is not kept")
	}
	commit(t, l, cells[0], Failed, "y\n")
	if r, ok, err := l.Lookup(cells[0]); !ok || err != nil || r.Status != Failed || r.Attempt != 2 {
		t.Errorf("run again it is %s, attempt %d (%v %v)", r.Status, r.Attempt, ok, err)
	}
}

// Which records are believed, in a ledger whose cell was committed at its second attempt.
func TestWitness(t *testing.T) {
	dropNotes := func(what string) func(*testing.T, string, plan.Cell) {
		return func(t *testing.T, dir string, _ plan.Cell) {
			editJournal(t, dir, func(line string) string {
				if strings.Contains(line, what) {
					return ""
				}
				return line
			})
		}
	}
	claim := func(attempt int) func(*testing.T, string, plan.Cell) {
		return func(t *testing.T, dir string, c plan.Cell) {
			forge(t, dir, c, func(r *Result) { r.Attempt = attempt })
		}
	}
	for name, test := range map[string]struct {
		do       func(t *testing.T, dir string, c plan.Cell)
		believed bool
	}{
		"as it was committed":                          {func(*testing.T, string, plan.Cell) {}, true},
		"killed between the record and the note":       {dropNotes(`"status":"failed"`), true},
		"no note of any commit":                        {dropNotes(noteCommitted), true},
		"no journal":                                   {dropNotes(""), true},
		"better than committed":                        {func(t *testing.T, dir string, c plan.Cell) { forge(t, dir, c, better) }, false},
		"an attempt before the committed one":          {claim(1), false},
		"an attempt that never began":                  {claim(3), false},
		"an attempt whose note is lost to the disk":    {func(t *testing.T, dir string, c plan.Cell) { claim(3)(t, dir, c); damageJournal(t, dir) }, true},
		"better than committed, and a damaged journal": {func(t *testing.T, dir string, c plan.Cell) { forge(t, dir, c, better); damageJournal(t, dir) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, c := t.TempDir(), cell("a", 1)
			l := open(t, dir)
			commit(t, l, c, Errored, "first\n")
			commit(t, l, c, Failed, "second\n")
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			test.do(t, dir, c)
			for _, err := range Read(dir, []plan.Cell{c}) {
				if (err == nil) != test.believed {
					t.Errorf("Read: %v", err)
				}
			}
			l = open(t, dir)
			defer l.Close()
			if _, ok, err := l.Lookup(c); ok != test.believed || err != nil {
				t.Errorf("Lookup: %v, %v", ok, err)
			}
		})
	}
}

// editJournal changes each line of a journal.
func editJournal(t *testing.T, dir string, change func(line string) string) {
	t.Helper()
	name := filepath.Join(dir, journalName)
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		out.WriteString(change(line))
	}
	if err := os.WriteFile(name, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// damageJournal makes its first note unreadable.
func damageJournal(t *testing.T, dir string) {
	t.Helper()
	first := true
	editJournal(t, dir, func(line string) string {
		if first {
			first = false
			return "x" + line
		}
		return line
	})
}

// A reader without the lock, whose journal is older than the record, looks again before it doubts.
func TestWitnessOfALedgerInUse(t *testing.T) {
	dir, c := t.TempDir(), cell("a", 1)
	l := open(t, dir)
	defer l.Close()
	commit(t, l, c, Errored, "first\n")
	seen, err := readWitness(dir)
	if err != nil {
		t.Fatal(err)
	}
	commit(t, l, c, Passed, "second\n")
	r, err := readRecord(filepath.Join(dir, Dir(c)), parseWhole)
	if err != nil {
		t.Fatal(err)
	}
	if err := seen.check(Dir(c), r); err == nil {
		t.Error("the journal that was read first knows of the second attempt")
	}
	if err := seen.checkAgain(dir, Dir(c), r); err != nil {
		t.Error(err)
	}
}
