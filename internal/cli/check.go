package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/run"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/spf13/cobra"
)

func newCheck(x IO) *cobra.Command {
	var preflight, asJSON, admit bool
	var sel plan.Selection
	var o admitOptions
	var allow []string
	var base string
	cmd := &cobra.Command{
		Use:   "check [SUITE]",
		Short: "find every fault of a suite, with its place",
		Long: `Find every fault of a suite, with its place. With --admit also find out whether its cases measure
anything: an agent that does nothing and one that only adds noise must fail each case, the reference must
pass it, and its graders must agree with themselves. The records are written to admission.json beside the
suite; commit it, and every run knows.`,
		Example: `assay check evals
assay check evals --admit
assay check evals --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return usage(err)
			}
			w, err := openWork(cmd.Context(), x, workOptions{Suite: suiteArg(args), Select: sel, Allow: allow, Base: base})
			if err == nil {
				defer w.close()
			}
			var unreached []run.Unreachable
			if err == nil {
				unreached, err = w.check(cmd.Context(), x, preflight)
			}
			var admission *admitted
			if err == nil && admit {
				admission, err = w.admit(cmd.Context(), x, o)
			}
			if asJSON {
				err = checkJSON(x, w, unreached, admission, err)
			}
			if err != nil {
				return err
			}
			printUnreachable(x, unreached)
			if slices.ContainsFunc(unreached, func(u run.Unreachable) bool { return u.Required }) {
				return unmeasured(errors.New("something required cannot be reached"))
			}
			if !asJSON && admit {
				admission.print(x)
			} else if !asJSON {
				fmt.Fprintf(x.Out, "%s: %s, %s, %s, no fault\n", w.suite.Name, plural(len(w.suite.Cases), "case"),
					plural(len(w.suite.Conditions), "condition"), plural(len(w.plan.Cells), "cell"))
			}
			return admission.err()
		},
	}
	cmd.Flags().BoolVar(&preflight, "preflight", false, "also reach for every source, tool, harness, model and the executor")
	cmd.Flags().BoolVar(&admit, "admit", false, "also try every case with agents that need no model, and record which cases are admitted")
	cmd.Flags().IntVar(&o.Times, "times", 5, "with --admit, trials of each of these agents")
	cmd.Flags().StringSliceVar(&sel.Cases, "case", nil, "only these cases (`globs`)")
	jobsFlag(cmd, &o.Jobs)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	allowFlag(cmd, &allow)
	baseFlag(cmd, &base)
	return cmd
}

// check looks for what only the trees of the cases show: references that do not apply, and with the preflight all that
// cannot be reached. Its warnings join those of the suite.
func (w *work) check(ctx context.Context, x IO, preflight bool) ([]run.Unreachable, error) {
	if err := w.kit.CheckPrices(w.plan.Cells, w.suite.Budget.MaxCostUSD); err != nil {
		return nil, w.project.relate(err)
	}
	if !preflight {
		return nil, w.project.relate(w.kit.CheckReferences(ctx))
	}
	if _, _, err := w.seat(x, 1); err != nil {
		return nil, err
	}
	unreached, err := w.kit.Preflight(ctx, w.plan.Cells, w.reach(runOptions{}, x))
	if err != nil {
		return nil, w.project.relate(err)
	}
	warnings, err := w.kit.Unmatched(ctx)
	for _, warning := range w.project.relative(warnings) {
		fmt.Fprintln(x.Err, warning.Error())
	}
	w.suite.Warnings = append(w.suite.Warnings, warnings...)
	return unreached, err
}

// checkJSON prints what was found for programs: the faults in err, or the cases and what cannot be reached. Its error is
// what remains to be said by the exit code.
func checkJSON(x IO, w *work, unreached []run.Unreachable, admission *admitted, err error) error {
	type checked struct {
		Case string `json:"case"`
	}
	type missing struct {
		What     string `json:"what"`
		Reason   string `json:"reason"`
		Required bool   `json:"required"`
		Text     string `json:"text"`
	}
	out := struct {
		Faults      suite.Problems `json:"faults"`
		Warnings    suite.Problems `json:"warnings"`
		Unreachable []missing      `json:"unreachable"`
		Cases       []checked      `json:"cases"`

		Admissions []result.Admission `json:"admissions,omitempty"`
		NotTried   map[string]string  `json:"not_tried,omitempty"` // why, by case
	}{Faults: suite.Problems{}, Warnings: suite.Problems{}, Unreachable: []missing{}, Cases: []checked{}}
	if admission != nil {
		out.Admissions, out.NotTried = admission.tried, admission.untried
	}
	if err != nil && !errors.As(err, &out.Faults) {
		return err
	}
	for _, u := range unreached {
		out.Unreachable = append(out.Unreachable, missing{u.What, u.Reason, u.Required, u.Text})
	}
	if w != nil {
		out.Warnings = append(out.Warnings, w.project.relative(w.suite.Warnings)...)
		for _, c := range w.suite.Cases {
			out.Cases = append(out.Cases, checked{c.ID})
		}
	}
	if err := printJSON(x, out); err != nil {
		return err
	}
	if len(out.Faults) > 0 {
		return &exit{ExitUsage, nil}
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
