package bench

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/stats"
)

// numbers are everything computed over the paired cases of a comparison.
type numbers struct {
	effectPP, loPP, hiPP float64
	lo90PP, hi90PP       float64
	exact                stats.Exact
	signflip             *stats.Exact
	like                 *Interval
	pWorse, pBetter      []float64  // of each case
	holmWorse            []*float64 // nil: other cases were run again
	holmBetter           []float64
	pMin                 float64
	sdFloor, sd          float64
	mdePP                *float64
	uninformative        int
	fell, rose           int
}

// measure computes the numbers; there is at least one pair.
func measure(e evidence) numbers {
	var n numbers
	diff, lo, hi := stats.StratNewcombe(e.base, e.head, confidence)
	n.effectPP, n.loPP, n.hiPP = 100*diff, 100*lo, 100*hi
	_, lo, hi = stats.StratNewcombe(e.base, e.head, 0.90)
	n.lo90PP, n.hi90PP = 100*lo, 100*hi
	n.exact = stats.StratifiedExact(e.base, e.head)
	if s, ok := stats.SignFlip(e.base, e.head); ok {
		n.signflip = &s
	}
	d := make([]float64, len(e.base))
	for i, x := range e.base {
		y := e.head[i]
		one := stats.StratifiedExact(e.base[i:i+1], e.head[i:i+1])
		n.pWorse, n.pBetter = append(n.pWorse, one.Less), append(n.pBetter, one.Greater)
		d[i] = y.Rate() - x.Rate()
		switch cross := y.Passed*x.N - x.Passed*y.N; {
		case cross < 0:
			n.fell++
		case cross > 0:
			n.rose++
		}
		if sum := x.Passed + y.Passed; sum == 0 || sum == x.N+y.N {
			n.uninformative++
		}
	}
	n.holmWorse, n.holmBetter = e.holmWorse(n.pWorse), stats.Holm(n.pBetter)
	if lo, hi, ok := stats.PairedT(d, confidence); ok {
		n.like = &Interval{100 * lo, 100 * hi}
	}
	n.pMin = stats.LeastP(e.base, e.head)
	n.sdFloor, n.sd = stats.SuiteSD(e.base, e.head)
	if len(e.base) > 1 {
		mde := 100 * stats.MDE(len(e.base), n.sd, e.alpha, stats.WantedPower)
		n.mdePP = &mde
	}
	return n
}

// A pairing is two arms side by side, before anything is said about them. A comparison keeps all of it.
type pairing struct {
	axis       string
	base, head ArmID
	cases      []pairedCase // by name
	coverage   PairCoverage
	obstacle   *Reason
	drift      *Drift
	metrics    []Metric // they depend on no setting, so they are kept when it is judged again
}

// A pairedCase is one case on both sides.
type pairedCase struct {
	name       string
	base, head Passes
	again      *pairedAgain // nil: it was not run again
	apart      string       // why it is not the same case on both sides; empty when it is
}

// A pairedAgain is the fresh trials of a case that was run again.
type pairedAgain struct{ base, head Passes }

// A side is one arm as its benchmark tells of it.
type side struct {
	Arm
	cases map[string]Coverage
	fresh map[string]Coverage // of the cases that were run again
	drift map[string]Coverage // trials that check stored results
	all   map[string]*CaseArm
}

// sides are the arms of a benchmark.
func (b Benchmark) sides() map[ArmID]side {
	out := make(map[ArmID]side, len(b.Arms))
	for _, a := range b.Arms {
		out[a.ArmID] = side{a, make(map[string]Coverage), make(map[string]Coverage), make(map[string]Coverage), make(map[string]*CaseArm)}
	}
	for i, c := range b.CaseArms {
		if s, ok := out[c.ArmID]; ok {
			s.cases[c.Case], s.all[c.Case] = c.Coverage, &b.CaseArms[i]
			if c.Confirm != nil {
				s.fresh[c.Case] = *c.Confirm
			}
			if c.Drift != nil {
				s.drift[c.Case] = *c.Drift
			}
		}
	}
	return out
}

// pair sets two arms of one run side by side. Cases that are out stay apart, and count in no coverage.
func pair(axis string, base, head side, out map[string]bool) pairing {
	p := pairing{axis: axis, base: base.ArmID, head: head.ArmID}
	p.coverage.Base, p.coverage.Head = base.without(out), head.without(out)
	p.coverage.Coverage = p.coverage.Base.plus(p.coverage.Head)
	for _, name := range sortedUnion(base.cases, head.cases) {
		one := pairedCase{name: name, base: base.cases[name].passes(), head: head.cases[name].passes()}
		x, inBase := base.fresh[name]
		y, inHead := head.fresh[name]
		if out[name] {
			one.apart = notAdmitted
		}
		if inBase && inHead {
			one.again = &pairedAgain{x.passes(), y.passes()}
		}
		p.cases = append(p.cases, one)
	}
	p.metrics = metrics(base, head, p.cases)
	p.obstacle = lostCondition(base.Arm, head.Arm)
	if field := differ(base.Arm, head.Arm); p.obstacle == nil && field != "" {
		p.obstacle = &Reason{Code: incomparable, Text: field}
	}
	return p
}

// lostCondition is the reason not to compare arms of which one holds cells without their condition: the others of that arm
// had it by luck. It is nil when there are none.
func lostCondition(base, head Arm) *Reason {
	if base.Held.NotHeld+head.Held.NotHeld == 0 {
		return nil
	}
	return &Reason{Code: conditionNotHeld, Text: fmt.Sprintf("%d of %d cells in the baseline and %d of %d in the candidate did not have their condition",
		base.Held.NotHeld, base.Coverage.Planned, head.Held.NotHeld, head.Coverage.Planned)}
}

// pairing is what the comparison was made from.
func (c Comparison) pairing() pairing {
	p := pairing{axis: c.Axis, base: c.Base.ID, head: c.Head.ID, coverage: c.Coverage, obstacle: c.Obstacle, drift: c.Drift, metrics: c.Metrics}
	for _, x := range c.PCases {
		one := pairedCase{name: x.Case, base: x.Base, head: x.Head}
		if x.Confirm != nil {
			one.again = &pairedAgain{x.Confirm.Base, x.Confirm.Head}
		}
		p.cases = append(p.cases, one)
	}
	for _, x := range c.Unpaired {
		one := pairedCase{name: x.Case, base: x.Base, head: x.Head}
		if !strings.HasPrefix(x.Reason, unscored) {
			one.apart = x.Reason
		}
		p.cases = append(p.cases, one)
	}
	slices.SortFunc(p.cases, func(a, b pairedCase) int { return strings.Compare(a.name, b.name) })
	return p
}

// compare judges a pairing. alpha is the share of the family's level that this comparison has.
func compare(p pairing, g result.Gate, alpha float64) Comparison {
	e := evidence{gate: g, alpha: alpha, coverage: p.coverage, obstacle: p.obstacle, skewP: p.infraSkewP()}
	var paired []pairedCase
	var unpaired []Unpaired
	for _, x := range p.cases {
		if why := cmp.Or(x.apart, x.unscored()); why != "" {
			unpaired = append(unpaired, Unpaired{x.name, why, x.base, x.head})
			continue
		}
		if x.again != nil {
			e.fresh = append(e.fresh, fresh{len(paired), x.again.base, x.again.head})
		}
		paired = append(paired, x)
		e.names, e.base, e.head = append(e.names, x.name), append(e.base, x.base.tally()), append(e.head, x.head.tally())
	}

	j := judge(e)
	c := Comparison{
		Axis: p.axis, Base: Side{p.base.String(), p.base}, Head: Side{p.head.String(), p.head},
		Alpha: alpha, Obstacle: p.obstacle, MarginPP: g.MarginPP, NCases: len(p.cases), NPairs: len(paired), Test: "stratified_exact",
		PCases: []CasePair{}, Metrics: orEmpty(p.metrics), Coverage: p.coverage, Drift: p.drift, InfraSkewP: &e.skewP, Unpaired: orEmpty(unpaired),
		Verdict: j.verdict, Reasons: j.reasons, Warnings: []Warning{},
	}
	if g.Claim == population {
		c.Test = "signflip_exact"
	}
	if len(paired) > 0 {
		c.fill(e, paired, j.numbers)
	}
	if len(paired) > 0 && c.Verdict != Invalid && c.Obstacle == nil {
		c.imputeWorst(e, p.cases)
	}
	if c.Verdict == Underpowered {
		c.warn(notPowered, "nothing was found, and little could have been found: a regression is not ruled out")
	}
	differing := slices.DeleteFunc(slices.Clone(p.cases), func(x pairedCase) bool { return x.apart == notAdmitted })
	if text := apartText(differing); text != "" && len(paired) > 0 {
		c.warn(casesDiffer, text)
	}
	c.ExitCode = exitCode(c.Verdict, c.Reasons, g)
	return c
}

// fill lays the numbers of the paired cases into the comparison.
func (c *Comparison) fill(e evidence, paired []pairedCase, n numbers) {
	c.EffectPP, c.LoPP, c.HiPP = &n.effectPP, &n.loPP, &n.hiPP
	c.PGlobal, c.PGlobalBetter, c.PMin = &n.exact.Less, &n.exact.Greater, &n.pMin
	c.CasesLikeThese, c.MDEPP = n.like, n.mdePP
	c.NUninformative, c.NWorse, c.NBetter = n.uninformative, n.fell, n.rose
	c.Split = splitOf(e.base, e.head)
	if n.signflip != nil {
		c.SignflipP, c.SignflipBetter = &n.signflip.Less, &n.signflip.Greater
	}
	for i, x := range paired {
		one := CasePair{
			Case: x.name, Phase: screenPhase, Base: x.base, Head: x.head,
			P: n.pWorse[i], PHolm: n.holmWorse[i], PImproved: n.pBetter[i], PImprovedHolm: n.holmBetter[i],
			Regressed: e.obstacle == nil && n.holmWorse[i] != nil && *n.holmWorse[i] <= e.alpha/2+slack,
			Improved:  e.obstacle == nil && n.holmBetter[i] <= e.alpha/2+slack,
		}
		if x.again != nil {
			one.Confirm = &Confirmation{x.again.base, x.again.head, fresh{base: x.again.base, head: x.again.head}.p()}
			if n.holmWorse[i] != nil && e.confirmed() {
				one.Phase = ConfirmPhase
			}
		}
		c.PCases = append(c.PCases, one)
	}
	if len(e.fresh) > 0 && !e.confirmed() {
		c.warn(confirmNotRun, "too few of the fresh trials of the worst cases were scored, so the cases are judged by the screen")
	}
	slices.SortFunc(c.PCases, func(a, b CasePair) int {
		return cmp.Or(cmp.Compare(a.P, b.P), strings.Compare(a.Case, b.Case))
	})
	if moved := n.fell + n.rose; moved > 0 && moved < 5 {
		c.warn(signflipCannotDecide, fmt.Sprintf("%d %s moved; 5 are needed", moved, plural(moved, "case", "cases")))
	}
	if n.exact.Counted {
		c.warn(countWeighted, "the numbers of trials differ so much that the exact test counts every pass alike")
	}
}

func (c *Comparison) warn(code, text string) { c.Warnings = append(c.Warnings, Warning{code, text}) }

// imputeWorst judges again with every missing base cell passed and every missing head cell failed. A case that only the
// base has is missing from the head as a whole. A good verdict that does not survive this was decided by what is missing.
func (c *Comparison) imputeWorst(e evidence, cases []pairedCase) {
	worst, missing := evidence{gate: e.gate, alpha: e.alpha}, 0
	against := func(base, head Passes) (Passes, Passes) {
		lostBase, lostHead := base.Planned-base.N, head.Planned-head.N
		missing += lostBase + lostHead
		base.Passed, base.N, head.N = base.Passed+lostBase, base.N+lostBase, head.N+lostHead
		return base, head
	}
	for _, x := range cases {
		switch x.apart {
		case "":
		case onlyBase:
			x.head.Planned = x.base.Planned
		default:
			continue // not the same case, so neither side says anything about the other
		}
		base, head := against(x.base, x.head)
		if base.N == 0 || head.N == 0 {
			continue
		}
		if x.again != nil && e.confirmed() {
			base, head := against(x.again.base, x.again.head)
			worst.fresh = append(worst.fresh, fresh{len(worst.names), base, head})
		}
		worst.names, worst.base, worst.head = append(worst.names, x.name), append(worst.base, base.tally()), append(worst.head, head.tally())
	}
	if missing == 0 {
		return
	}
	n := measure(worst)
	verdict, _ := worst.rules(n)
	c.WorstCase = &WorstCase{EffectPP: n.effectPP, Verdict: verdict}
	switch {
	case verdict == c.Verdict:
	case c.Verdict == Improved || c.Verdict == Equivalent:
		c.Reasons = []Reason{{Code: missingCellsDecide, Text: fmt.Sprintf("scored cells say %s, but with %d missing cells against the candidate it would be %s", c.Verdict, missing, verdict)}}
		c.Verdict = NoEvidence
	case verdict == Regressed && c.Verdict != Regressed:
		c.warn(worstCaseRegressed, fmt.Sprintf("with %d missing cells against the candidate it would have regressed", missing))
	}
}

// infraSkewP asks with the exact test whether errored cells fall on one side, in either direction.
func (p pairing) infraSkewP() float64 {
	var x, y []stats.Tally
	for _, c := range p.cases {
		if c.apart == "" && c.base.Planned > 0 && c.head.Planned > 0 {
			x = append(x, stats.Tally{Passed: c.base.Errored, N: c.base.Planned})
			y = append(y, stats.Tally{Passed: c.head.Errored, N: c.head.Planned})
		}
	}
	if len(x) == 0 {
		return 1
	}
	return stats.StratifiedExact(x, y).TwoSided()
}

// differ names the field, other than the condition, in which what was run differs between the arms; empty when none
// is known to.
func differ(base, head Arm) string {
	return cmp.Or(
		differIn("model as reported", base.Models, head.Models),
		differIn("agent version", base.Versions, head.Versions),
	)
}

// differIn compares one field of both sides. What is not known differs from nothing.
func differIn(field string, base, head []string) string {
	base, head = slices.DeleteFunc(slices.Clone(base), isEmpty), slices.DeleteFunc(slices.Clone(head), isEmpty)
	if len(base) == 0 || len(head) == 0 || slices.Equal(base, head) {
		return ""
	}
	return fmt.Sprintf("%s: %s in the baseline, %s in the candidate", field, strings.Join(base, ", "), strings.Join(head, ", "))
}

func (c Coverage) passes() Passes { return Passes{c.Passed, c.Scored, c.Planned, c.Errored} }

func (p Passes) tally() stats.Tally { return stats.Tally{Passed: p.Passed, N: p.N} }

// unscored starts the reasons of cases that lack a scored trial on a side.
const unscored = "unscored"

// unscored says which side of the case has no scored trial; empty when both have one.
func (c pairedCase) unscored() string {
	switch {
	case c.base.N == 0 && c.head.N == 0:
		return unscored + "_both"
	case c.base.N == 0:
		return unscored + "_base"
	case c.head.N == 0:
		return unscored + "_head"
	}
	return ""
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// plus adds two coverages.
func (c Coverage) plus(d Coverage) Coverage {
	c.Planned += d.Planned
	c.Scored += d.Scored
	c.Passed += d.Passed
	c.Failed += d.Failed
	c.Errored += d.Errored
	c.Skipped += d.Skipped
	c.Pending += d.Pending
	c.Share = share(c.Scored, c.Planned)
	return c
}

// share is part of whole; nothing planned is nothing covered.
func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return math.Min(1, float64(part)/float64(whole))
}

// sortedUnion are the keys of both maps.
func sortedUnion[V any](a, b map[string]V) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}
