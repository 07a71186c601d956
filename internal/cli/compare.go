package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/report"
	"github.com/assay-ci/assay/internal/result"
	"github.com/spf13/cobra"
)

func newCompare(x IO) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "compare BASE HEAD",
		Short: "set the results of two runs against each other",
		Long: `Compare two results folders or benchmark.json files, arm by arm (harness, model and condition) and
case by case; one arm on each side always pairs. Only cases that ask and grade the same on both
sides are compared; the others are listed. The gate's settings are those of HEAD.

A benchmark.json of another program needs nothing but runs[], each with case, harness, model,
condition, trial and status (passed, failed, errored or skipped); it may have missing[].`,
		Example: `assay compare assay-results quick
assay compare assay-results/benchmark.json quick --json`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			base, b, err := compareFiles(args[0], args[1])
			if err != nil {
				return usage(err)
			}
			if asJSON {
				if err := b.WriteJSON(x.Out); err != nil {
					return err
				}
			} else {
				printComparison(x.Out, base, b)
			}
			return gateExit(&b)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print HEAD's benchmark.json with the comparisons")
	return cmd
}

// compareFiles reads both sides and compares them.
func compareFiles(baseName, headName string) (base, head bench.Benchmark, err error) {
	from, err := sourceOf(baseName)
	if err != nil {
		return base, head, err
	}
	to, err := sourceOf(headName)
	if err != nil {
		return base, head, err
	}
	settings, origin := plainGate, bench.Origin{Source: "file"}
	if b := from.Benchmark; b != nil {
		settings = b.Gate.Settings
		origin.SHA, origin.Created = b.Metadata.Commit, b.Metadata.Timestamp
	}
	base, head, err = bench.Compare(from, to, settings, origin)
	if errors.Is(err, bench.ErrNoCommonArm) {
		err = fmt.Errorf("%w: %s has %s; %s has %s", err, baseName, armNames(base), headName, armNames(head))
	}
	return base, head, err
}

// plainGate are the settings of a suite that says nothing of its gate, for two files that have none.
var plainGate = result.Gate{Alpha: 0.05, MarginPP: 2, MarginEqPP: 5, MDEMaxPP: 15, MinCoverage: 0.9, Claim: "suite", Underpowered: "warn"}

// sourceOf reads a results folder, or a benchmark.json whoever wrote it.
func sourceOf(name string) (bench.Source, error) {
	if info, err := os.Stat(name); err != nil || info.IsDir() {
		b, err := readResults(name)
		return bench.Source{Benchmark: b}, err
	}
	f, err := openRegular(filepath.Dir(name), filepath.Base(name))
	if err != nil {
		return bench.Source{}, err
	}
	defer f.Close()
	b, err := bench.Read(f)
	if err == nil {
		return bench.Source{Benchmark: &b}, nil
	}
	var version struct {
		Schema any `json:"schema_version"`
	}
	_, err2 := f.Seek(0, io.SeekStart)
	if err2 == nil {
		err2 = json.NewDecoder(f).Decode(&version)
	}
	if err2 != nil || version.Schema != nil {
		return bench.Source{}, fmt.Errorf("%s: %w", name, err)
	}
	if _, err = f.Seek(0, io.SeekStart); err != nil {
		return bench.Source{}, err
	}
	runs, err := bench.ReadRuns(f)
	if err != nil {
		return bench.Source{}, fmt.Errorf("%s: %w", name, err)
	}
	return bench.Source{Runs: &runs}, nil
}

// armNames are the arms of a benchmark, for an error.
func armNames(b bench.Benchmark) string {
	var names []string
	for _, a := range b.Arms {
		names = append(names, printable(a.String(), 120))
	}
	return strings.Join(names, ", ")
}

func printComparison(w io.Writer, base, b bench.Benchmark) {
	fmt.Fprintf(w, "%s\n\n", report.Headline(b))
	for _, c := range b.Comparisons {
		effect := "nothing to compare"
		if c.EffectPP != nil {
			effect = fmt.Sprintf("%s pp (%s to %s) over %d of %d cases, %d better, %d worse",
				points(*c.EffectPP), points(*c.LoPP), points(*c.HiPP), c.NPairs, c.NCases, c.NBetter, c.NWorse)
		}
		if !c.Gates {
			effect += " (a baseline; does not gate)"
		}
		arm := printable(c.Head.Arm, 120)
		if c.Base.ID != c.Head.ID {
			arm += " against " + printable(c.Base.Arm, 120)
		}
		fmt.Fprintf(w, "%-12s %s: %s\n", c.Verdict, arm, effect)
		for _, reason := range c.Reasons {
			fmt.Fprintf(w, "%-12s %s\n", "", printable(reason.Text, 600))
		}
		for _, warning := range c.Warnings {
			fmt.Fprintf(w, "%-12s warning: %s\n", "", printable(warning.Text, 600))
		}
	}
	for _, a := range base.Arms {
		if len(base.Arms) > 1 && !slices.ContainsFunc(b.Arms, func(h bench.Arm) bool { return h.ArmID == a.ArmID }) {
			fmt.Fprintf(w, "%-12s %s: only BASE has it\n", "", printable(a.String(), 120))
		}
	}
	unpaired := make(map[string]map[string]bool)
	for _, c := range b.Comparisons {
		for _, u := range c.Unpaired {
			if unpaired[u.Reason] == nil {
				unpaired[u.Reason] = make(map[string]bool)
			}
			unpaired[u.Reason][printable(u.Case, 64)] = true
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(unpaired)) {
		cases := slices.Sorted(maps.Keys(unpaired[reason]))
		fmt.Fprintf(w, "not compared, %s: %s\n", reason, strings.Join(cases, ", "))
	}
}

// points is a difference with its sign, a true minus.
func points(v float64) string { return strings.Replace(fmt.Sprintf("%+.1f", v), "-", "−", 1) }
