package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/report"
	"github.com/spf13/cobra"
)

// maxHistory is how many runs a history may have.
const maxHistory = 1000

func newHistory(x IO) *cobra.Command {
	var asJSON bool
	format := "text"
	cmd := &cobra.Command{
		Use:   "history DIR|FILE...",
		Short: "show the arms of many runs over time",
		Long: `Show what many runs measured, in the order of time: each arm with its pass rate and interval, and
where the fingerprint changed, what of it did. DIR is a results folder, or a folder of such folders;
FILE is a benchmark.json.

Nothing is tested here: two runs that differ may differ by chance, or by what the table names.
assay compare sets two of them against each other. The pages of a run show its history too: that of
its stored baseline, which is handed on from run to run, or what assay report --history names.`,
		Example: `assay history archive
assay history archive assay-results --format md
assay history archive assay-results --json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			h, err := historyOf(args)
			if err != nil {
				return usage(err)
			}
			switch {
			case asJSON:
				page, err := json.MarshalIndent(h, "", "  ")
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(x.Out, "%s\n", page)
				return err
			case format == "md":
				_, err := x.Out.Write(report.History(h))
				return err
			}
			screenOf(x).showHistory(h)
			return nil
		},
	}
	words(cmd.Flags(), &format, "format", "how the history is written; md has a chart for GitHub", "text", "md")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the history for programs")
	cmd.MarkFlagsMutuallyExclusive("json", "format")
	return cmd
}

// historyOf makes the history of the results that the arguments name.
func historyOf(args []string) (bench.History, error) {
	names, err := pastNames(args)
	if err != nil {
		return bench.History{}, err
	}
	past, err := readPast(names)
	return bench.MakeHistory(past), err
}

// pastNames are the results that the arguments name, each a folder or a file.
func pastNames(args []string) ([]string, error) {
	var names []string
	for _, arg := range args {
		found, err := pastBelow(arg)
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	if len(names) > maxHistory {
		return nil, fmt.Errorf("%d runs are more than %d; name fewer of them", len(names), maxHistory)
	}
	return names, nil
}

func readPast(names []string) ([]bench.Past, error) {
	var past []bench.Past
	for _, name := range names {
		b, err := readResults(name)
		if err != nil {
			return nil, err
		}
		past = append(past, bench.PastOf(name, b))
	}
	return past, nil
}

// withHistory is the benchmark of a folder with the runs that the arguments name before it. The folder may be among them.
func withHistory(b *bench.Benchmark, dir string, args []string) (*bench.Benchmark, error) {
	if len(args) == 0 {
		return b, nil
	}
	names, err := pastNames(args)
	if err != nil {
		return nil, fmt.Errorf("--history: %w", err)
	}
	past, err := readPast(slices.DeleteFunc(names, func(name string) bool { return samePlace(name, dir) }))
	if err != nil {
		return nil, fmt.Errorf("--history: %w", err)
	}
	out := b.After(past)
	return &out, nil
}

// samePlace tells whether two paths are one file or folder, or one is the benchmark.json of the other.
func samePlace(a, b string) bool {
	at := func(name string) fs.FileInfo {
		if filepath.Base(name) == benchmarkFile {
			name = filepath.Dir(name)
		}
		info, _ := os.Stat(name)
		return info
	}
	x, y := at(a), at(b)
	return x != nil && y != nil && os.SameFile(x, y)
}

// pastBelow are the results that an argument stands for: itself, or the folders in it that hold results.
func pastBelow(arg string) ([]string, error) {
	info, err := os.Stat(arg)
	if err != nil || !info.IsDir() || holdsResults(arg) {
		return []string{arg}, err
	}
	list, err := os.ReadDir(arg)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, d := range list {
		if name := filepath.Join(arg, d.Name()); d.IsDir() && holdsResults(name) {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s holds no results, and no folder in it does", arg)
	}
	return found, nil
}

// holdsResults tells whether a folder has a ledger or a benchmark.
func holdsResults(dir string) bool {
	for _, name := range []string{"manifest.json", benchmarkFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// showHistory prints a table an arm.
func (s screen) showHistory(h bench.History) {
	for i, a := range h.Arms {
		if i > 0 {
			fmt.Fprintln(s.w)
		}
		fmt.Fprintln(s.w, s.paint(bold, middle(clean(a.String()), s.width-1)))
		s.drawTable(historyColumns(h, a))
	}
}

func historyColumns(h bench.History, a bench.ArmHistory) []column {
	when, commit := column{head: "planned (UTC)"}, column{head: "commit"}
	rate, drawn := column{head: "pass rate, 95 % interval"}, column{head: "0 %" + strings.Repeat(" ", rateBar-8) + "100 %"}
	scored, changed := column{head: "scored", right: true}, column{head: "changed since the run before"}
	for i, p := range a.Points {
		if p == nil {
			continue
		}
		r := h.Runs[i]
		stamp := "not known"
		if r.Timestamp != nil {
			stamp = r.Timestamp.UTC().Format("2006-01-02 15:04")
		}
		when.add(stamp, "")
		commit.add(clean(r.Commit[:min(9, len(r.Commit))]), dim)
		rate.add(estimateText(p.PassRate, 100, " %", 1), "")
		drawn.add(drawRate(p.PassRate), green)
		scored.add(fmt.Sprintf("%d/%d", p.Coverage.Scored, p.Coverage.Planned), coverageColor(p.Coverage))
		changed.add(changesText(r), yellow)
	}
	return []column{when, rate, changed, scored, drawn, commit}
}

// mostChanges is how many changes a row names.
const mostChanges = 2

// changesText tells the first changes of a run.
func changesText(r bench.PastRun) string {
	var told []string
	for _, c := range r.Changes[:min(len(r.Changes), mostChanges)] {
		told = append(told, printable(clean(c.String()), 60))
	}
	if more := len(r.Changes) - len(told) + r.More; more > 0 {
		told = append(told, fmt.Sprintf("%d more", more))
	}
	return strings.Join(told, "; ")
}

// rateBar is how long the picture of a pass rate is, in characters.
const rateBar = 21

// drawRate draws an estimate between 0 and 100 %, with its interval where there is one.
func drawRate(e *bench.Estimate) string {
	if e == nil {
		return ""
	}
	at := func(v float64) int { return int(math.Round(min(1, max(0, v)) * (rateBar - 1))) }
	line := []rune(strings.Repeat(" ", rateBar))
	if e.Lo != nil && e.Hi != nil {
		for i := at(*e.Lo); i <= at(*e.Hi); i++ {
			line[i] = '─'
		}
	}
	line[at(e.Value)] = '●'
	return strings.TrimRight(string(line), " ")
}
