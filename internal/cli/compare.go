package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/report"
	"github.com/spf13/cobra"
)

func newCompare(x IO) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "compare BASE HEAD",
		Short: "set the results of two runs against each other",
		Long: `Compare two results folders or benchmark.json files, arm by arm (harness, model and condition) and
case by case. Only cases that ask and grade the same on both sides are compared; the others are
listed. The gate's settings are those of HEAD.`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			stored, err := readStored(args[0])
			if err != nil {
				return usage(err)
			}
			head, err := readResults(args[1])
			if err != nil {
				return usage(err)
			}
			alone := *head
			alone.Comparisons = nil // what HEAD compared with itself is not asked for
			b := alone.Against(stored)
			if asJSON {
				page, err := b.JSON()
				if err != nil {
					return err
				}
				if _, err := x.Out.Write(page); err != nil {
					return err
				}
			} else {
				printComparison(x.Out, *stored.Benchmark, b)
			}
			return gateExit(&b)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print HEAD's benchmark.json with the comparisons")
	return cmd
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
		fmt.Fprintf(w, "%-12s %s: %s\n", c.Verdict, printable(c.Head.Arm, 120), effect)
		for _, reason := range c.Reasons {
			fmt.Fprintf(w, "%-12s %s\n", "", printable(reason.Text, 600))
		}
		for _, warning := range c.Warnings {
			fmt.Fprintf(w, "%-12s warning: %s\n", "", printable(warning.Text, 600))
		}
	}
	for _, a := range base.Arms {
		if !slices.ContainsFunc(b.Arms, func(h bench.Arm) bool { return h.ArmID == a.ArmID }) {
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
