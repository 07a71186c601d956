package result

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-ci/assay/internal/plan"
)

// Cells that are committed together are each as whole as one committed alone, also those that replace an earlier attempt.
func TestCommitTogether(t *testing.T) {
	for _, n := range []int{1, together, 6 * together} {
		dir := t.TempDir()
		l := open(t, dir)
		var batch []Finished
		var cells []plan.Cell
		for i := range n {
			c := cell(fmt.Sprint("case", i), 1)
			if i%2 == 0 {
				commit(t, l, c, Errored, "first\n")
			}
			e, err := l.Begin(c, "test", false)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(e.Create("trace.jsonl"), "second\n")
			cells = append(cells, c)
			batch = append(batch, Finished{Entry: e, Result: Result{Cell: c, Status: Passed, Scores: []Score{}}})
		}
		if err := l.Commit(batch...); err != nil {
			t.Fatal(err)
		}
		for i, c := range cells {
			r, ok, err := l.Lookup(c)
			if !ok || err != nil || r.Status != Passed || r.Attempt != 2-i%2 {
				t.Errorf("%d together: cell %d is %v %v, attempt %d, %v", n, i, ok, r.Status, r.Attempt, err)
			}
			if b, err := os.ReadFile(filepath.Join(dir, Dir(c), "trace.jsonl")); err != nil || string(b) != "second\n" {
				t.Errorf("%d together: trace of cell %d is %q, %v", n, i, b, err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// One cell that cannot be written is an error, and the others are whole or absent, never torn.
func TestCommitTogetherStopsAtAnError(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	defer l.Close()
	var batch []Finished
	var cells []plan.Cell
	for i := range 2 * together {
		c := cell(fmt.Sprint("case", i), 1)
		e, err := l.Begin(c, "test", false)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(e.Create("trace.jsonl"), "x\n")
		cells, batch = append(cells, c), append(batch, Finished{Entry: e, Result: Result{Cell: c, Status: Passed, Scores: []Score{}}})
	}
	if err := os.Mkdir(filepath.Join(dir, Dir(cells[together]), newRecordName), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := l.Commit(batch...); err == nil {
		t.Error("a record that could not be written was committed")
	}
	for i, c := range cells {
		if r, ok, err := l.Lookup(c); err != nil || ok && r.Status != Passed {
			t.Errorf("cell %d: %v %v", i, r.Status, err)
		}
	}
	if bad, _ := filepath.Glob(filepath.Join(dir, "cells", "*", "*", "*", "*.bad-*")); len(bad) > 0 {
		t.Errorf("torn records: %v", bad)
	}
}
