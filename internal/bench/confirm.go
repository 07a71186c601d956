package bench

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/stats"
)

// The phases of a run. The screen runs all cases; some are then run again, and only their fresh trials can convict them: the
// trials by which they were chosen would do so too often.
const (
	screenPhase  = "screen"
	ConfirmPhase = plan.Confirm // of the fresh trials
)

// A Suspect is a case that is to be run again on both sides of a comparison.
type Suspect struct {
	Case       string
	Base, Head ArmID
	Fall       float64 // of the pass rate in the screen, ½ to 1
	Trials     int     // fresh ones, on each side
	level      float64 // that the adjusted p of its fresh trials is held to
}

// The bounds of what is run again.
const (
	suspectFall = 0.5 // of the pass rate, at least
	mostScreen  = 7   // trials a side; more of them can convict by themselves
)

// Suspects are the cases that the plan says to run again, the largest fall first for each comparison: those whose rate fell
// by half or more in a comparison that gates and whose both sides can be run. It is empty when the plan does not confirm.
// What was run again already changes nothing: equal screens have equal suspects.
func (b Benchmark) Suspects() []Suspect {
	var out []Suspect
	for _, c := range b.Comparisons {
		out = append(out, c.suspects(b.planned().Confirm)...)
	}
	return out
}

// suspects are those of one comparison. What is compared with a stored baseline cannot be run again on both sides.
func (c Comparison) suspects(plan *result.Confirm) []Suspect {
	if plan == nil || !c.Gates || c.Obstacle != nil || c.Axis == axisBaseline {
		return nil
	}
	var out []Suspect
	for _, p := range c.PCases {
		fall := p.Base.tally().Rate() - p.Head.tally().Rate()
		if fall >= suspectFall-slack && max(p.Base.Planned, p.Head.Planned) <= mostScreen {
			out = append(out, Suspect{p.Case, c.Base.ID, c.Head.ID, fall, plan.Trials, c.Alpha / 2})
		}
	}
	slices.SortFunc(out, func(x, y Suspect) int {
		return cmp.Or(cmp.Compare(whole(y.Fall), whole(x.Fall)), strings.Compare(x.Case, y.Case))
	})
	return out[:min(len(out), plan.Cases)]
}

// whole is a fall in steps of slack: 3/3 to 1/3 and 2/3 to 0/3 are the same fall, though not the same float.
func whole(fall float64) int64 { return int64(math.Round(fall / slack)) }

// notConfirmed tells whether there are suspects and none was run again.
func (c Comparison) notConfirmed(plan *result.Confirm) bool {
	return len(c.suspects(plan)) > 0 && !slices.ContainsFunc(c.PCases, func(p CasePair) bool { return p.Confirm != nil })
}

// A fresh is what the trials of a case showed when it was run again.
type fresh struct {
	at         int // of the case in the evidence
	base, head Passes
}

// p is the one-sided p-value that the case got worse. A side without a scored trial says nothing.
func (f fresh) p() float64 {
	if f.base.N == 0 || f.head.N == 0 {
		return 1
	}
	return stats.StratifiedExact([]stats.Tally{f.base.tally()}, []stats.Tally{f.head.tally()}).Less
}

// confirmed tells whether enough of the fresh trials were scored to take the place of the screen's.
func (e evidence) confirmed() bool {
	scored, planned := 0, 0
	for _, f := range e.fresh {
		scored, planned = scored+f.base.N+f.head.N, planned+f.base.Planned+f.head.Planned
	}
	return planned > 0 && share(scored, planned) >= e.gate.MinCoverage-slack
}

// holmWorse are the adjusted p-values of the cases that can be convicted by themselves: all of the screen, or those that were
// run again. The others have none.
func (e evidence) holmWorse(screen []float64) []*float64 {
	out := make([]*float64, len(screen))
	if !e.confirmed() {
		for i, p := range stats.Holm(screen) {
			out[i] = &p
		}
		return out
	}
	var p []float64
	for _, f := range e.fresh {
		p = append(p, f.p())
	}
	for i, q := range stats.Holm(p) {
		out[e.fresh[i].at] = &q
	}
	return out
}

// freshOf are the fresh trials of a case of the evidence, or nil.
func (e evidence) freshOf(at int) *fresh {
	for i := range e.fresh {
		if e.fresh[i].at == at {
			return &e.fresh[i]
		}
	}
	return nil
}

// pointers to all values.
func pointers(values []float64) []*float64 {
	out := make([]*float64, len(values))
	for i := range values {
		out[i] = &values[i]
	}
	return out
}

// A Watch follows the fresh trials of suspects, to tell when no further one could change which cases regressed.
type Watch struct {
	suspects []Suspect
	seen     map[slot]stats.Tally
	lost     map[slot]int // trials that will never be scored
}

type slot struct {
	name string
	arm  ArmID
}

// NewWatch follows the trials of these suspects.
func NewWatch(suspects []Suspect) *Watch {
	return &Watch{suspects, make(map[slot]stats.Tally), make(map[slot]int)}
}

// Count takes note of one fresh trial.
func (w *Watch) Count(name string, arm ArmID, s result.Status) {
	at := slot{name, arm}
	t := w.seen[at]
	switch s {
	case result.Passed:
		t.Passed++
		t.N++
	case result.Failed:
		t.N++
	default:
		w.lost[at]++
	}
	w.seen[at] = t
}

// Decided tells whether the trials that are still to come can change nothing: each suspect is convicted even if all of them
// go for the head, or none even if all go against it. A case that lost a trial is never decided, since its coverage may yet
// have a say.
func (w *Watch) Decided() bool {
	for _, s := range w.suspects {
		at := []slot{{s.Case, s.Base}, {s.Case, s.Head}}
		if w.lost[at[0]]+w.lost[at[1]] > 0 {
			return false
		}
		base, head := w.seen[at[0]], w.seen[at[1]]
		against, inFavour := completed(base, head, s.Trials)
		convicted := inFavour*float64(w.family(s)) <= s.level+slack
		cleared := against > s.level+slack
		if !convicted && !cleared {
			return false
		}
	}
	return true
}

// family is the number of cases that share the level of a suspect.
func (w *Watch) family(of Suspect) int {
	n := 0
	for _, s := range w.suspects {
		if s.Base == of.Base && s.Head == of.Head {
			n++
		}
	}
	return n
}

// completed are the p-values of a case when all trials to come go against the head, and when all go for it.
func completed(base, head stats.Tally, trials int) (against, inFavour float64) {
	p := func(basePassed, headPassed int) float64 {
		return fresh{
			base: Passes{Passed: basePassed, N: max(trials, base.N)}, head: Passes{Passed: headPassed, N: max(trials, head.N)},
		}.p()
	}
	leftBase, leftHead := max(0, trials-base.N), max(0, trials-head.N)
	return p(base.Passed+leftBase, head.Passed), p(base.Passed, head.Passed+leftHead)
}
