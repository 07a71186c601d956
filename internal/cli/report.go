package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/report"
	"github.com/assay-ci/assay/internal/result"
	"github.com/spf13/cobra"
)

func newReport(x IO) *cobra.Command {
	var format, file string
	var history []string
	var known []string
	for _, f := range report.Faces {
		known = append(known, f.Name)
	}
	known = append(known, report.RowFormats...)
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "write one page from the results in a folder",
		Long: `Write one page from the results in a folder, as assay run wrote it there.

csv and jsonl are for notebooks: one row for each planned cell with all its numbers. What is not
known is an empty field, or null. docs/exports.md tells the columns.

--history sets the arms beside those of earlier runs, as assay history does. Without it a page has
the history that the stored baseline of its run handed on.`,
		Example: `assay report assay-results --format html -o page.html
assay report assay-results --history archive --format html -o page.html
assay report assay-results --format junit -o junit.xml
assay report assay-results --format csv -o cells.csv`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(history) > 0 && !slices.Contains(withPast, format) {
				return usage(fmt.Errorf("--history is shown by --format %s only", strings.Join(withPast, ", ")))
			}
			if slices.Contains(report.RowFormats, format) {
				return writeRows(x, args[0], format, file)
			}
			faces := report.Faces
			if format == "html" { // the others look at no cell's files
				faces = report.Over(detailsOf(args[0]))
			}
			for _, f := range faces {
				if f.Name != format {
					continue
				}
				b, err := resultsOf(x, args[0])
				if err == nil {
					b, err = withHistory(b, args[0], history)
				}
				if err != nil {
					return usage(err)
				}
				return intoFile(x.Out, file, func(w io.Writer) error { return f.Write(w, *b) })
			}
			return usage(fmt.Errorf("--format is %q; it may be %s", format, strings.Join(known, ", ")))
		},
	}
	cmd.Flags().StringVar(&format, "format", "md", "one of "+strings.Join(known, ", "))
	cmd.Flags().StringVarP(&file, "output", "o", "", "`file` to write; standard output when absent")
	cmd.Flags().StringArrayVar(&history, "history", nil, "`path` of earlier results, or of a folder of them, that json, md and html show; may be repeated")
	return cmd
}

// withPast are the formats that show earlier runs.
var withPast = []string{"json", "md", "html"}

// detailsOf gives what the results in a folder tell of their cells; nil when they are in no folder of ours.
func detailsOf(dir string) report.Details {
	m, err := manifestOf(dir)
	if err != nil {
		return nil
	}
	return report.Ledger(dir, m)
}

// manifestOf reads the plan of a results folder.
func manifestOf(dir string) (result.Manifest, error) {
	m, err := result.ReadManifest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return m, noResults(dir)
	}
	return m, spoilt(err)
}

// noResults is a folder without a plan.
type noResults string

func (dir noResults) Error() string {
	return string(dir) + " holds no results; name the folder that assay run wrote"
}

// spoilt says what to do about a plan that is no JSON: whatever spoilt it, the cells do not need it.
func spoilt(err error) error {
	if !errors.Is(err, result.ErrNotJSON) {
		return err
	}
	return unmeasured(fmt.Errorf("%w; move it away: assay run writes it again, and keeps the cells", err))
}

// benchmarkOf reads a ledger into a benchmark: of its own part of the plan, when it is that of a shard.
func benchmarkOf(dir string) (*bench.Benchmark, error) {
	m, planned, err := ownPlan(dir)
	if err != nil {
		return nil, err
	}
	b, err := bench.Make(m, result.ReadAll(dir, m.Cells, planned))
	return &b, err
}

// countsOf counts a ledger as benchmarkOf does, and compares nothing.
func countsOf(dir string) (bench.Counts, error) {
	m, _, err := ownPlan(dir)
	if err != nil {
		return bench.Counts{}, err
	}
	return bench.Count(m, result.ReadNumbers(dir, m.Cells))
}

// ownPlan is the plan of a results folder with the cells that are its own part, when it is that of a shard, and all that are
// planned.
func ownPlan(dir string) (m result.Manifest, planned []plan.Cell, err error) {
	if m, err = manifestOf(dir); err != nil {
		return m, nil, err
	}
	planned = m.Cells
	m.Cells, err = plan.Part(planned, m.Shard)
	return m, planned, err
}
