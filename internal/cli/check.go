package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/run"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/spf13/cobra"
)

func newCheck(x IO) *cobra.Command {
	var preflight, asJSON bool
	cmd := &cobra.Command{
		Use:   "check [SUITE]",
		Short: "find every fault of a suite, with its place",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := openWork(cmd.Context(), x, suiteArg(args), plan.Selection{}, nil)
			if asJSON {
				return checkJSON(x, w, err)
			}
			if err != nil {
				return err
			}
			defer w.close()
			if preflight {
				if err := w.probe(cmd.Context(), x); err != nil {
					return err
				}
			}
			fmt.Fprintf(x.Out, "%s: %s, %s, %s, no fault\n", w.suite.Name, plural(len(w.suite.Cases), "case"),
				plural(len(w.suite.Conditions), "condition"), plural(len(w.plan.Cells), "cell"))
			return nil
		},
	}
	cmd.Flags().BoolVar(&preflight, "preflight", false, "also reach for every source, tool and harness")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// checkJSON prints the faults and the cases for programs.
func checkJSON(x IO, w *work, err error) error {
	type checked struct {
		Case string `json:"case"`
	}
	out := struct {
		Faults   suite.Problems `json:"faults"`
		Warnings suite.Problems `json:"warnings"`
		Cases    []checked      `json:"cases"`
	}{suite.Problems{}, suite.Problems{}, []checked{}}
	if err != nil && !errors.As(err, &out.Faults) {
		return err
	}
	if w != nil {
		defer w.close()
		out.Warnings = append(out.Warnings, w.suite.Warnings...)
		for _, c := range w.suite.Cases {
			out.Cases = append(out.Cases, checked{c.ID})
		}
	}
	if perr := printJSON(x, out); perr != nil {
		return perr
	}
	if len(out.Faults) > 0 {
		return &exit{ExitUsage, nil}
	}
	return nil
}

// probe reaches for everything that the plan needs and prints what cannot be reached.
func (w *work) probe(ctx context.Context, x IO) error {
	out, err := w.kit.Preflight(ctx, w.plan.Cells, x.getenv("PATH"))
	if err != nil {
		return w.project.relate(err)
	}
	printUnreachable(x, out)
	for _, u := range out {
		if u.Required {
			return unmeasured(errors.New("something required cannot be reached"))
		}
	}
	return nil
}

func printUnreachable(x IO, list []run.Unreachable) {
	for _, u := range list {
		need := "optional"
		if u.Required {
			need = "required"
		}
		fmt.Fprintf(x.Err, "cannot reach (%s) %s: %s\n", need, u.What, printable(u.Text, 500))
	}
}
