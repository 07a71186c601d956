package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/redact"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/run"
	"github.com/assay-ci/assay/internal/suite"
)

// checkStored runs the base versions of the arms that are compared with a stored baseline: one trial of each case, to see
// whether it still holds, and all the others of an arm whose baseline does not, or would convict it. What is run follows from
// the screen, the stored results and the first trials, so going on later finds the same. The fresh cells are in the manifest
// before the first of them starts. Where no base version can be made nothing is run; the benchmark says so.
func (w *work) checkStored(ctx context.Context, x IO, secrets *redact.Redactor, stored bench.Stored, o run.Options) error {
	w.keepMeasured(x, stored)
	b, err := w.against(o.Ledger, stored)
	if err != nil {
		return err
	}
	checks := b.Checks()
	first := w.plan.Twins(w.suite, w.selected, plan.Drift, func(c plan.Cell) bool {
		return c.Trial == 1 && slices.ContainsFunc(checks, func(k bench.Check) bool {
			return k.Head == bench.ArmID(c.Arm()) && slices.Contains(k.Cases, c.Case)
		})
	})
	says := "checking the stored baseline: one fresh trial of the base on each case"
	if ran, err := w.runTwins(ctx, x, secrets, plan.Drift, first, says, o); err != nil || !ran {
		return err
	}
	if b, err = w.against(o.Ledger, stored); err != nil {
		return err
	}
	heads := b.Reruns()
	rest := w.plan.Twins(w.suite, w.selected, plan.Rerun, func(c plan.Cell) bool {
		return slices.Contains(heads, bench.ArmID(c.Arm())) && !(c.Trial == 1 && slices.ContainsFunc(first, func(f plan.Cell) bool {
			return f.Case == c.Case && f.Harness == c.Harness && f.Model == c.Model && w.planned(f.Condition) == c.Condition
		}))
	})
	_, err = w.runTwins(ctx, x, secrets, plan.Rerun, rest, "the stored baseline has drifted, or would convict: running the base in full", o)
	return err
}

// keepMeasured drops the spare base versions that are not what the stored results are of: the base has moved on since, so
// that running them would not show how the stored results have aged.
func (w *work) keepMeasured(x IO, stored bench.Stored) {
	w.suite.Conditions = slices.DeleteFunc(slices.Clone(w.suite.Conditions), func(c suite.Condition) bool {
		other := c.Spare && stored.Benchmark != nil && !stored.Measured(c.TwinOf, c.Digest)
		if other {
			fmt.Fprintf(x.Err, "condition %s of the base is not the one that the stored baseline measured, so it is not run again\n", printable(c.TwinOf, 64))
		}
		return other
	})
}

// against is the benchmark of a ledger as it is now, compared with stored results.
func (w *work) against(l *result.Ledger, stored bench.Stored) (bench.Benchmark, error) {
	b, err := benchmarkOf(l.Dir())
	if err != nil {
		return bench.Benchmark{}, err
	}
	return b.Against(stored), nil
}

// runTwins writes cells of base versions into the manifest and runs them; ran is false when there are none. Grading again
// takes those that were run, and plans no other.
func (w *work) runTwins(
	ctx context.Context, x IO, secrets *redact.Redactor, phase string, cells []plan.Cell, says string, o run.Options,
) (ran bool, err error) {
	if o.Regrade {
		if cells, err = heldCells(o.Ledger, cells); err != nil {
			return false, err
		}
	}
	if len(cells) == 0 {
		return false, nil
	}
	var conditions []result.Condition
	for _, c := range w.suite.Conditions {
		if slices.ContainsFunc(cells, func(cell plan.Cell) bool { return cell.Condition == c.ID }) {
			conditions = append(conditions, conditionOf(c))
		}
	}
	if err := extendManifest(o.Ledger, phase, cells, conditions); err != nil {
		return false, err
	}
	fmt.Fprintln(x.Err, says)
	o.Unreached = w.unreachedAgain(cells, o.Unreached)
	return true, execute(ctx, x, secrets, w.kit, cells, o)
}

// heldCells are those that the ledger holds.
func heldCells(l *result.Ledger, cells []plan.Cell) (kept []plan.Cell, err error) {
	for _, c := range cells {
		_, ok, err := l.Lookup(c)
		if err != nil {
			return nil, err
		}
		if ok {
			kept = append(kept, c)
		}
	}
	return kept, nil
}

// planned is the condition of the plan that a condition is the spare base version of, or itself.
func (w *work) planned(condition string) string {
	for _, c := range w.suite.Conditions {
		if c.Spare && c.ID == condition {
			return c.TwinOf
		}
	}
	return condition
}

// loadWithoutSpare loads a suite whose base versions cannot be made ready: that must not stop a run that may not need them.
// It returns the first error when they are not what is wrong.
func loadWithoutSpare(x IO, p *project, base *baseRevision, o workOptions, because error) (*suite.Suite, error) {
	o.Spare = false
	s, err := p.load(base.of(o))
	if err == nil {
		tellNoSpare(x, because)
	}
	return s, err
}

// dropSpare takes the spare base versions out of the suite; false when there are none.
func (w *work) dropSpare(x IO, because error) bool {
	rest := slices.DeleteFunc(slices.Clone(w.suite.Conditions), func(c suite.Condition) bool { return c.Spare })
	if len(rest) == len(w.suite.Conditions) {
		return false
	}
	w.suite.Conditions = rest
	tellNoSpare(x, w.project.relate(because))
	return true
}

func tellNoSpare(x IO, because error) {
	fmt.Fprintf(x.Err, "the base cannot be run to check a stored baseline: %v\n", because)
}
