package cli

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/report"
	"github.com/assay-ci/assay/internal/result"
)

// writeRows writes a row for each planned cell of the results in dir to a file, or to standard output when it has no name.
func writeRows(x IO, dir, format, file string) error {
	cells, err := sortedCells(dir)
	if err != nil {
		return err
	}
	lost := 0
	rows := everyCell(dir, cells, func(err error) {
		lost++
		fmt.Fprintf(x.Err, "assay: warning: %s; its row is pending\n", printable(err.Error(), 600))
	})
	if err := intoFile(x.Out, file, func(w io.Writer) error { return report.WriteRows(w, format, rows) }); err != nil {
		return err
	}
	if lost > 0 {
		return unmeasured(fmt.Errorf("%s could not be read", plural(lost, "record")))
	}
	return nil
}

// sortedCells are the planned cells of the results in dir, of its own part when it is that of a shard: by case, arm and trial.
func sortedCells(dir string) ([]plan.Cell, error) {
	m, err := manifestOf(dir)
	if err != nil {
		return nil, usage(err)
	}
	cells, err := plan.Part(m.Cells, m.Shard)
	if err != nil {
		return nil, usage(err)
	}
	cells = slices.Clone(cells)
	slices.SortFunc(cells, func(a, b plan.Cell) int {
		return cmp.Or(strings.Compare(a.Case, b.Case), strings.Compare(a.Arm().String(), b.Arm().String()), a.Trial-b.Trial, strings.Compare(a.Key, b.Key))
	})
	return cells, nil
}

// everyCell gives the record of each cell, and one without a status where there is none. broken hears of records that could
// not be read.
func everyCell(dir string, cells []plan.Cell, broken func(error)) iter.Seq2[result.Result, error] {
	return func(yield func(result.Result, error) bool) {
		next := 0
		for r, err := range result.Read(dir, cells) {
			if err != nil {
				broken(err)
				continue
			}
			for ; next < len(cells) && result.Dir(cells[next]) != result.Dir(r.Cell); next++ {
				if !yield(result.Result{Cell: cells[next]}, nil) {
					return
				}
			}
			next++
			if !yield(r, nil) {
				return
			}
		}
		for ; next < len(cells); next++ {
			if !yield(result.Result{Cell: cells[next]}, nil) {
				return
			}
		}
	}
}

// intoFile lets write fill a file, or out when the file has no name or is "-".
func intoFile(out io.Writer, file string, write func(io.Writer) error) error {
	if file == "" || file == "-" {
		return write(out)
	}
	f, err := os.Create(file)
	if err != nil {
		return usage(err)
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
