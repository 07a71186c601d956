package bench

import (
	"cmp"
	"math"
	"slices"

	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/stats"
)

// An Assertion says whether one assertion of a case measures anything. None is ever dropped for it.
type Assertion struct {
	Case        string   `json:"case"`
	ID          string   `json:"id"`
	Type        string   `json:"type"`
	Gate        bool     `json:"gate"`
	Class       string   `json:"class"`       // one of Classes
	Base        Passes   `json:"base"`        // trials of the arms that others are compared with, in the comparisons that gate
	Head        Passes   `json:"head"`        // trials of these others
	Cells       int      `json:"cells"`       // of any arm in which it was graded
	Passed      int      `json:"passed"`      // of these
	SameAs      string   `json:"same_as"`     // the earlier assertion that it repeats, of redundant; else empty
	Correlation *float64 `json:"correlation"` // with the other assertions of the case; nil under 20 cells, or where nothing varies
	MDEPP       *float64 `json:"mde_pp"`      // the least difference found in four of five such runs; nil without two sides
}

// An ArmScore is the mean score of an arm over cases, from 0 to 1, of the assertions that are no gates: of all, and of those
// that measure something. Nil: there is none.
type ArmScore struct {
	ArmID
	All     *float64 `json:"all"`
	Healthy *float64 `json:"healthy"`
}

// The classes of assertions.
const (
	Flaky             = "flaky"
	Broken            = "broken"
	Vacuous           = "vacuous"
	Unreachable       = "unreachable"
	Saturated         = "saturated"
	Inverted          = "inverted"
	Redundant         = "redundant"
	NonDiscriminating = "non_discriminating"
	TooFewTrials      = "too_few_trials_to_tell"
	Useful            = "useful"
)

// Classes are all classes of assertions, in the order in which they are tried: the first that fits is it.
var Classes = []Code{
	{Flaky, "", "gradings of one tree disagree"},
	{Broken, "", "the reference does not pass it"},
	{Vacuous, "", "an agent that does nothing passes it, and it is not marked as a guard"},
	{Unreachable, "", "every trial of every arm fails it, though the reference passes it"},
	{Saturated, "", "every trial of every arm passes it"},
	{Inverted, "", "it tends to fail where the others of its case pass, over 20 cells or more"},
	{Redundant, "", "it ended in every cell as an earlier assertion of its case"},
	{NonDiscriminating, "", "the 90 % interval of the difference between both sides lies inside ±5 points"},
	{TooFewTrials, "", "a difference of 15 points would not have been found"},
	{Useful, "", "none of these"},
}

// Healthy tells whether an assertion of the class may measure something.
func Healthy(class string) bool { return class == Useful || class == TooFewTrials || class == "" }

// The thresholds of the classes.
const (
	cellsToCorrelate = 20
	sameWithinPP     = 5.0
	findablePP       = 15.0
)

// ClassOf is what an admission by itself says of an assertion; empty when it finds nothing wrong.
func ClassOf(x result.Exercised) string {
	switch {
	case x.Frozen.Flaky() && (x.Gate || !x.Judged):
		return Flaky
	case x.Session: // its counts are of sessions that nobody had
		return ""
	case x.Reference.Passed < x.Reference.N:
		return Broken
	case x.Null.N > 0 && x.Null.Passed == x.Null.N && !x.Guard:
		return Vacuous
	}
	return ""
}

// A graded is a scored run of the screen, with the weights of its assertions.
type graded struct {
	run     *Run
	weights []float64
}

// diagnose fills Assertions and Scores. Only cells of the screen count, as in every rate.
func (b *Benchmark) diagnose(m result.Manifest, runs []graded) {
	admissions := make(map[string]*result.Admission)
	for _, c := range m.Cases {
		admissions[c.ID] = c.Admission
	}
	byCase := make(map[string][]graded)
	var names []string
	for _, r := range runs { // in the order of cases
		if byCase[r.run.Case] == nil {
			names = append(names, r.run.Case)
		}
		byCase[r.run.Case] = append(byCase[r.run.Case], r)
	}
	sides := b.gatingSides()
	healthy := make(map[[2]string]bool)
	for _, name := range names {
		for _, a := range diagnoseCase(byCase[name], admissions[name], sides) {
			b.Assertions = append(b.Assertions, a)
			healthy[[2]string{name, a.ID}] = Healthy(a.Class)
		}
	}
	b.scoreArms(byCase, names, healthy)
}

// gatingSides tells of each arm in which comparisons of this run that gate it is base, and in which head.
func (b *Benchmark) gatingSides() (pairs [][2]ArmID) {
	for _, c := range b.Comparisons {
		if c.Gates && c.Axis != axisBaseline {
			pairs = append(pairs, [2]ArmID{c.Base.ID, c.Head.ID})
		}
	}
	return pairs
}

// diagnoseCase looks at the assertions of one case, in their order.
func diagnoseCase(runs []graded, admission *result.Admission, pairs [][2]ArmID) []Assertion {
	first := slices.MaxFunc(runs, func(x, y graded) int { return cmp.Compare(len(x.run.Expectations), len(y.run.Expectations)) })
	outcomes := make([][]*bool, len(first.run.Expectations)) // by assertion, then run; nil: not graded
	for i, e := range first.run.Expectations {
		for _, r := range runs {
			outcomes[i] = append(outcomes[i], r.outcome(e.ID))
		}
	}
	var out []Assertion
	for i, e := range first.run.Expectations {
		a := Assertion{Case: first.run.Case, ID: e.ID, Type: e.Type, Gate: e.Gate, Correlation: correlation(outcomes, i)}
		for _, passed := range outcomes[i] {
			if passed != nil {
				a.Cells++
			}
			if passed != nil && *passed {
				a.Passed++
			}
		}
		if earlier := slices.IndexFunc(outcomes[:i], func(other []*bool) bool { return equal(other, outcomes[i]) }); earlier >= 0 {
			a.SameAs = first.run.Expectations[earlier].ID
		}
		var x result.Exercised
		if admission != nil {
			x, _ = admission.Of(e.ID)
		}
		a.classify(x, runs, outcomes[i], pairs)
		out = append(out, a)
	}
	return out
}

// outcome is that of an assertion in the run; nil when it was not graded.
func (r graded) outcome(id string) *bool {
	i := slices.IndexFunc(r.run.Expectations, func(e Expectation) bool { return e.ID == id })
	if i < 0 {
		return nil
	}
	return r.run.Expectations[i].Passed
}

// equal tells whether two assertions ended alike in every run.
func equal(x, y []*bool) bool {
	return slices.EqualFunc(x, y, func(a, b *bool) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) })
}

// correlation is that of an assertion with the share of the other assertions of its case that passed, over the runs in which
// both are known (Pearson).
func correlation(outcomes [][]*bool, at int) *float64 {
	var x, y []float64
	for run, passed := range outcomes[at] {
		others, held := 0, 0
		for i := range outcomes {
			if o := outcomes[i][run]; i != at && o != nil {
				others++
				if *o {
					held++
				}
			}
		}
		if passed == nil || others == 0 {
			continue
		}
		value := 0.0
		if *passed {
			value = 1
		}
		x, y = append(x, value), append(y, float64(held)/float64(others))
	}
	if len(x) < cellsToCorrelate {
		return nil
	}
	sx, sy := stats.StdDev(x), stats.StdDev(y)
	if sx == 0 || sy == 0 {
		return nil
	}
	mx, my, sum := stats.Mean(x), stats.Mean(y), 0.0
	for i := range x {
		sum += (x[i] - mx) * (y[i] - my)
	}
	r := sum / (float64(len(x)-1) * sx * sy)
	return &r
}

// classify gives the first class whose rule holds.
func (a *Assertion) classify(x result.Exercised, runs []graded, outcomes []*bool, pairs [][2]ArmID) {
	base, head := tallyPairs(runs, outcomes, pairs)
	var diff, lo90, hi90 float64
	for i := range base {
		a.Base.Passed, a.Base.N = a.Base.Passed+base[i].Passed, a.Base.N+base[i].N
		a.Head.Passed, a.Head.N = a.Head.Passed+head[i].Passed, a.Head.N+head[i].N
	}
	a.Base.Planned, a.Head.Planned = a.Base.N, a.Head.N
	if len(base) > 0 {
		diff, lo90, hi90 = stats.StratNewcombe(base, head, 0.90)
		_, lo, hi := stats.StratNewcombe(base, head, confidence)
		mde := 100 * math.Max(hi-diff, diff-lo) * powerOverInterval
		a.MDEPP = &mde
	}
	redundant := a.SameAs
	a.SameAs = ""
	switch class := ClassOf(x); {
	case class != "":
		a.Class = class
	case a.Cells > 0 && a.Passed == 0 && x.Reference.N > 0 && !x.Session: // else nobody knows whether it can be passed
		a.Class = Unreachable
	case a.Cells > 0 && a.Passed == a.Cells:
		a.Class = Saturated
	case a.Correlation != nil && *a.Correlation < -slack:
		a.Class = Inverted
	case redundant != "":
		a.Class, a.SameAs = Redundant, redundant
	case len(base) > 0 && 100*lo90 >= -sameWithinPP-slack && 100*hi90 <= sameWithinPP+slack:
		a.Class = NonDiscriminating
	case a.MDEPP == nil || *a.MDEPP > findablePP+slack:
		a.Class = TooFewTrials
	default:
		a.Class = Useful
	}
}

// powerOverInterval turns half of a 95 % interval into the difference that is found four times of five: (1.960 + 0.842) / 1.960.
// The t form that suites have needs several cases, and an assertion has one. It chooses a word and decides nothing.
const powerOverInterval = 1.4294

// tallyPairs are the passes of an assertion on both sides of each comparison that has them.
func tallyPairs(runs []graded, outcomes []*bool, pairs [][2]ArmID) (base, head []stats.Tally) {
	by := make(map[ArmID]stats.Tally)
	for i, r := range runs {
		t := by[r.run.Arm()]
		if outcomes[i] != nil {
			t.N++
		}
		if outcomes[i] != nil && *outcomes[i] {
			t.Passed++
		}
		by[r.run.Arm()] = t
	}
	for _, p := range pairs {
		if x, y := by[p[0]], by[p[1]]; x.N > 0 && y.N > 0 {
			base, head = append(base, x), append(head, y)
		}
	}
	return base, head
}

// scoreArms fills Scores: trials of a case first, then cases.
func (b *Benchmark) scoreArms(byCase map[string][]graded, names []string, healthy map[[2]string]bool) {
	type sums struct{ all, healthy []float64 }
	over := make(map[ArmID]*sums)
	for _, a := range b.Arms {
		over[a.ArmID] = &sums{}
	}
	for _, name := range names {
		trials := make(map[ArmID]*sums)
		for _, r := range byCase[name] {
			if trials[r.run.Arm()] == nil {
				trials[r.run.Arm()] = &sums{}
			}
			t := trials[r.run.Arm()]
			t.all = appendKnown(t.all, r.weighted(func(string) bool { return true }))
			t.healthy = appendKnown(t.healthy, r.weighted(func(id string) bool { return healthy[[2]string{name, id}] }))
		}
		for arm, t := range trials {
			over[arm].all = appendKnown(over[arm].all, meanOf(t.all))
			over[arm].healthy = appendKnown(over[arm].healthy, meanOf(t.healthy))
		}
	}
	for _, a := range b.Arms {
		b.Scores = append(b.Scores, ArmScore{a.ArmID, meanOf(over[a.ArmID].all), meanOf(over[a.ArmID].healthy)})
	}
}

// weighted is the share of the chosen assertions that passed, by weight; gates have no part in it. Nil without any.
func (r graded) weighted(chosen func(id string) bool) *float64 {
	var sum, of float64
	for i, e := range r.run.Expectations {
		if e.Gate || e.Passed == nil || !chosen(e.ID) {
			continue
		}
		of += r.weights[i]
		if *e.Passed {
			sum += r.weights[i]
		}
	}
	if of == 0 {
		return nil
	}
	share := sum / of
	return &share
}

// meanOf is nil without any value.
func meanOf(v []float64) *float64 {
	if len(v) == 0 {
		return nil
	}
	m := stats.Mean(v)
	return &m
}
