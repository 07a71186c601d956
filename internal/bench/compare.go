package bench

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/result"
)

// numbers are everything computed over the paired cases of a comparison.
type numbers struct {
	effectPP, loPP, hiPP  float64
	lo90PP, hi90PP        float64
	exact                 exact
	signflip              *exact
	like                  *Interval
	pWorse, pBetter       []float64 // of each case
	holmWorse, holmBetter []float64
	pMin                  float64
	sdFloor, sd           float64
	mdePP                 *float64
	uninformative         int
	fell, rose            int
}

// measure computes the numbers; there is at least one pair.
func measure(e evidence) numbers {
	var n numbers
	diff, lo, hi := stratNewcombe(e.base, e.head, confidence)
	n.effectPP, n.loPP, n.hiPP = 100*diff, 100*lo, 100*hi
	_, lo, hi = stratNewcombe(e.base, e.head, 0.90)
	n.lo90PP, n.hi90PP = 100*lo, 100*hi
	n.exact = stratifiedExact(e.base, e.head)
	if s, ok := signflipExact(e.base, e.head); ok {
		n.signflip = &s
	}
	d := make([]float64, len(e.base))
	for i, x := range e.base {
		y := e.head[i]
		one := stratifiedExact(e.base[i:i+1], e.head[i:i+1])
		n.pWorse, n.pBetter = append(n.pWorse, one.less), append(n.pBetter, one.greater)
		d[i] = y.rate() - x.rate()
		switch cross := y.passed*x.n - x.passed*y.n; {
		case cross < 0:
			n.fell++
		case cross > 0:
			n.rose++
		}
		if sum := x.passed + y.passed; sum == 0 || sum == x.n+y.n {
			n.uninformative++
		}
	}
	n.holmWorse, n.holmBetter = holm(n.pWorse), holm(n.pBetter)
	if lo, hi, ok := pairedT(d, confidence); ok {
		n.like = &Interval{100 * lo, 100 * hi}
	}
	n.pMin = leastP(e.base, e.head)
	n.sdFloor, n.sd = suiteSD(e.base, e.head)
	if len(e.base) > 1 {
		mde := 100 * mdeT(len(e.base), n.sd, e.alpha, wantedPower)
		n.mdePP = &mde
	}
	return n
}

// compare sets the head arm against the base arm. alpha is the share of the family's level that this comparison has.
func compare(base, head *arm, g result.Gate, alpha float64) Comparison {
	e := evidence{gate: g, alpha: alpha, incomparable: differ(base, head)}
	e.coverage = PairCoverage{Base: base.coverage(), Head: head.coverage()}
	e.coverage.Coverage = e.coverage.Base.plus(e.coverage.Head)
	e.skewP = infraSkewP(base, head)

	cases := sortedUnion(base.cases, head.cases)
	var unpaired []Unpaired
	for _, name := range cases {
		x, y := base.screen(name), head.screen(name)
		if x.n == 0 || y.n == 0 {
			unpaired = append(unpaired, Unpaired{name, unscored(x.n, y.n)})
			continue
		}
		e.names, e.base, e.head = append(e.names, name), append(e.base, x), append(e.head, y)
	}

	j := judge(e)
	c := Comparison{
		Axis: "condition", Base: Side{base.id.String(), base.id}, Head: Side{head.id.String(), head.id}, Gates: true,
		Alpha: alpha, MarginPP: g.MarginPP, NCases: len(cases), NPairs: len(e.names), Test: "stratified_exact",
		PCases: []CasePair{}, Coverage: e.coverage, InfraSkewP: &e.skewP, Unpaired: orEmpty(unpaired),
		Verdict: j.verdict, Reasons: j.reasons, Warnings: []Warning{},
	}
	if g.Claim == population {
		c.Test = "signflip_exact"
	}
	if len(e.names) > 0 {
		c.fill(e, j.numbers)
	}
	c.imputeWorst(base, head, e, cases)
	if c.Verdict == Underpowered {
		c.warn(notPowered, "nothing was found, and little could have been found: a regression is not ruled out")
	}
	c.ExitCode = c.Verdict.ExitCode(g)
	return c
}

// fill lays the numbers of the paired cases into the comparison.
func (c *Comparison) fill(e evidence, n numbers) {
	c.EffectPP, c.LoPP, c.HiPP = &n.effectPP, &n.loPP, &n.hiPP
	c.PGlobal, c.PGlobalBetter, c.PMin = &n.exact.less, &n.exact.greater, &n.pMin
	c.CasesLikeThese, c.MDEPP = n.like, n.mdePP
	c.NUninformative, c.NWorse, c.NBetter = n.uninformative, n.fell, n.rose
	if n.signflip != nil {
		c.SignflipP, c.SignflipBetter = &n.signflip.less, &n.signflip.greater
	}
	for i, name := range e.names {
		c.PCases = append(c.PCases, CasePair{
			Case: name, Phase: "screen",
			Base: Passes{e.base[i].passed, e.base[i].n}, Head: Passes{e.head[i].passed, e.head[i].n},
			P: n.pWorse[i], PHolm: n.holmWorse[i], PImproved: n.pBetter[i], PImprovedHolm: n.holmBetter[i],
			Regressed: n.holmWorse[i] <= e.alpha/2+slack, Improved: n.holmBetter[i] <= e.alpha/2+slack,
		})
	}
	slices.SortFunc(c.PCases, func(a, b CasePair) int {
		return cmp.Or(cmp.Compare(a.P, b.P), strings.Compare(a.Case, b.Case))
	})
	if moved := n.fell + n.rose; moved > 0 && moved < 5 {
		c.warn(signflipCannotDecide, fmt.Sprintf("%d %s moved; 5 are needed", moved, plural(moved, "case", "cases")))
	}
	if n.exact.counted {
		c.warn(countWeighted, "the numbers of trials differ so much that the exact test counts every pass alike")
	}
}

func (c *Comparison) warn(code, text string) { c.Warnings = append(c.Warnings, Warning{code, text}) }

// imputeWorst judges again with every missing base cell passed and every missing head cell failed. A good verdict that
// does not survive this was decided by what is missing.
func (c *Comparison) imputeWorst(base, head *arm, e evidence, cases []string) {
	if c.Verdict == Invalid || c.Coverage.Scored == c.Coverage.Planned {
		return
	}
	worst := evidence{gate: e.gate, alpha: e.alpha}
	for _, name := range cases {
		x, y := base.screen(name), head.screen(name)
		lostX, lostY := base.planned(name)-x.n, head.planned(name)-y.n
		x, y = tally{x.passed + lostX, x.n + lostX}, tally{y.passed, y.n + lostY}
		if x.n > 0 && y.n > 0 {
			worst.names, worst.base, worst.head = append(worst.names, name), append(worst.base, x), append(worst.head, y)
		}
	}
	n := measure(worst)
	verdict, _ := worst.rules(n)
	c.WorstCase = &WorstCase{EffectPP: n.effectPP, Verdict: verdict}
	switch {
	case verdict == c.Verdict:
	case c.Verdict == Improved || c.Verdict == Equivalent:
		c.Reasons = []Reason{{Code: missingCellsDecide, Text: fmt.Sprintf("scored cells say %s, but with %d missing cells against the candidate it would be %s",
			c.Verdict, c.Coverage.Planned-c.Coverage.Scored, verdict)}}
		c.Verdict = NoEvidence
	case verdict == Regressed && c.Verdict != Regressed:
		c.warn(worstCaseRegressed, fmt.Sprintf("with %d missing cells against the candidate it would have regressed", c.Coverage.Planned-c.Coverage.Scored))
	}
}

// infraSkewP asks with the exact test whether errored cells fall on one side, in either direction.
func infraSkewP(base, head *arm) float64 {
	var x, y []tally
	for _, name := range sortedUnion(base.cases, head.cases) {
		b, h := base.cases[name], head.cases[name]
		if b != nil && h != nil {
			x, y = append(x, tally{b.count.Errored, b.count.Planned}), append(y, tally{h.count.Errored, h.count.Planned})
		}
	}
	if len(x) == 0 {
		return 1
	}
	return stratifiedExact(x, y).twoSided()
}

// differ names the field, other than the condition, in which what was run differs between the arms; empty when none
// is known to.
func differ(base, head *arm) string {
	for _, f := range []struct {
		name       string
		base, head map[string]bool
	}{
		{"model as reported", base.models, head.models},
		{"agent version", base.versions, head.versions},
	} {
		x, y := sortedKeys(f.base), sortedKeys(f.head)
		if len(x) > 0 && len(y) > 0 && !slices.Equal(x, y) {
			return fmt.Sprintf("%s: %s in the baseline, %s in the candidate", f.name, strings.Join(x, ", "), strings.Join(y, ", "))
		}
	}
	return ""
}

func unscored(base, head int) string {
	switch {
	case base == 0 && head == 0:
		return "unscored_both"
	case base == 0:
		return "unscored_base"
	}
	return "unscored_head"
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
