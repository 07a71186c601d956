package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/redact"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/run"
)

// confirm runs the worst cases of the screen again on both sides. Which cases these are follows from the screen alone, so
// going on later finds the same. The fresh cells are in the manifest before the first of them starts.
func (w *work) confirm(ctx context.Context, x IO, secrets *redact.Redactor, o run.Options) error {
	b, err := benchmarkOf(o.Ledger.Dir())
	if err != nil {
		return err
	}
	suspects := b.Suspects()
	if len(suspects) == 0 {
		return nil
	}
	cells := w.again(suspects)
	if err := extendManifest(o.Ledger, plan.Confirm, cells, nil); err != nil {
		return err
	}
	does := fmt.Sprintf("running it again, %d fresh trials a side at most", suspects[0].Trials)
	if o.Regrade {
		does = "grading the fresh trials that it has"
	}
	fmt.Fprintf(x.Err, "the pass rate of %s fell by half or more: %s\n", namesOf(suspects), does)
	o.Unreached = w.unreachedAgain(cells, o.Unreached)
	var mu sync.Mutex // cells start while others finish
	watch := bench.NewWatch(suspects)
	o.Enough = func() bool {
		mu.Lock()
		defer mu.Unlock()
		return watch.Decided()
	}
	also := o.Progress
	o.Progress = func(e run.Event) {
		if e.Kind == run.Finished && e.Result.Reason != result.Decided {
			mu.Lock()
			watch.Count(e.Cell.Case, bench.ArmID(e.Cell.Arm()), e.Result.Status)
			mu.Unlock()
		}
		if also != nil {
			also(e)
		}
	}
	return execute(ctx, x, secrets, w.kit, cells, o)
}

// again are the fresh cells of all suspects.
func (w *work) again(suspects []bench.Suspect) []plan.Cell {
	var slots []plan.Slot
	trials := 0
	for _, s := range suspects {
		slots = append(slots, plan.Slot{Case: s.Case, Arm: plan.Arm(s.Base)}, plan.Slot{Case: s.Case, Arm: plan.Arm(s.Head)})
		trials = max(trials, s.Trials)
	}
	return w.plan.Again(w.suite, w.selected, slots, trials)
}

// unreachedAgain says why fresh cells are skipped, by key: what the cells of the screen could not reach they cannot either.
func (w *work) unreachedAgain(cells []plan.Cell, unreached map[string]string) map[string]string {
	why := make(map[plan.Slot]string)
	for _, c := range w.plan.Cells {
		if text, ok := unreached[c.Key]; ok {
			why[plan.Slot{Case: c.Case, Arm: c.Arm()}] = text
		}
	}
	out := maps.Clone(unreached)
	for _, c := range cells {
		arm := c.Arm()
		arm.Condition = w.planned(arm.Condition)
		if text, ok := why[plan.Slot{Case: c.Case, Arm: arm}]; ok {
			out[c.Key] = text
		}
	}
	return out
}

// extendManifest writes down the cells of a phase, and the conditions that they alone have, beside what was planned. They take
// the place of those that the phase had. When these were others, what was added after them goes too: it followed from them.
func extendManifest(l *result.Ledger, phase string, cells []plan.Cell, conditions []result.Condition) error {
	m, err := result.ReadManifest(l.Dir())
	if err != nil {
		return err
	}
	at := func(c plan.Cell) int { return slices.Index(plan.Phases, c.Phase) } // the screen has no place in it
	of := slices.Index(plan.Phases, phase)
	had := slices.DeleteFunc(slices.Clone(m.Cells), func(c plan.Cell) bool { return c.Phase != phase })
	same := slices.Equal(had, cells)
	planned := slices.DeleteFunc(slices.Clone(m.Cells), func(c plan.Cell) bool { return at(c) == of || at(c) > of && !same })
	planned = append(planned, cells...)
	slices.SortStableFunc(planned, func(a, b plan.Cell) int { return cmp.Compare(at(a), at(b)) })
	has := slices.Clone(m.Conditions)
	for _, c := range conditions {
		has = append(slices.DeleteFunc(has, func(h result.Condition) bool { return h.ID == c.ID }), c)
	}
	if slices.Equal(planned, m.Cells) && slices.Equal(has, m.Conditions) {
		return nil
	}
	m.Cells, m.Conditions = planned, has
	return l.PutManifest(m)
}

// withoutAdded is a manifest without what was added to it since.
func withoutAdded(m result.Manifest) result.Manifest {
	m.Cells = screenCells(m.Cells)
	m.Conditions = slices.DeleteFunc(slices.Clone(m.Conditions), func(c result.Condition) bool { return c.Spare })
	return m
}

// screenCells are the cells that were planned from the start.
func screenCells(cells []plan.Cell) []plan.Cell {
	return slices.DeleteFunc(slices.Clone(cells), func(c plan.Cell) bool { return c.Phase != "" })
}

func namesOf(suspects []bench.Suspect) string {
	var names []string
	for _, s := range suspects {
		if name := printable(s.Case, 64); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
