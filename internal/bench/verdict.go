package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/stats"
)

// A Verdict is what a comparison says, in one of six words.
type Verdict string

// The verdicts, worst first: the verdict of a suite is the first that any of its comparisons has.
const (
	Regressed    Verdict = "regressed"
	Invalid      Verdict = "invalid"
	Underpowered Verdict = "underpowered"
	NoEvidence   Verdict = "no_evidence"
	Equivalent   Verdict = "equivalent"
	Improved     Verdict = "improved"
)

// worstFirst orders the verdicts for a suite.
var worstFirst = []Verdict{Regressed, Invalid, Underpowered, NoEvidence, Equivalent, Improved}

// Exit codes of run, gate and compare.
const (
	ExitPassed     = 0
	ExitFailed     = 1
	ExitUnmeasured = 3
)

// ExitCode is 0 when the gate lets the verdict pass, 1 when it says no and 3 when too little was measured to say.
func (v Verdict) ExitCode(g result.Gate) int {
	switch {
	case !slices.Contains(failOn(g), string(v)):
		return ExitPassed
	case v == Invalid:
		return ExitUnmeasured
	}
	return ExitFailed
}

// A Reason says why a verdict is what it is. Code is one of Reasons; Case is set when it is about one case.
type Reason struct {
	Code string `json:"code"`
	Case string `json:"case,omitempty"`
	Text string `json:"text"`
}

// A Warning changes no verdict. Code is one of Warnings.
type Warning struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// The codes of reasons.
const (
	suiteRegressed      = "suite_regressed"
	caseRegressed       = "case_regressed"
	suiteImproved       = "suite_improved"
	caseImproved        = "case_improved"
	withinMargin        = "within_margin"
	intervalSpansMargin = "interval_spans_margin"
	missingCellsDecide  = "missing_cells_decide"
	noBaseline          = "no_baseline"
	staleBaseline       = "stale_baseline"
	baselineDrifted     = "baseline_drifted"
	incomparable        = "incomparable"
	tooFewTrials        = "too_few_trials"
	tooFewCases         = "too_few_cases"
	noPairs             = "no_pairs"
	lowCoverage         = "low_coverage"
	errorsDifferByArm   = "errors_differ_by_arm"
	conditionNotHeld    = "condition_not_held"
	oneFingerprint      = "one_fingerprint"
	belowFloor          = "below_floor"
)

// A Code is a word of a closed list with what it means.
type Code struct {
	Code    string
	Verdict Verdict // that it explains; empty when it explains the gate or nothing
	Doc     string
}

// Reasons are all reasons there are.
var Reasons = []Code{
	{suiteRegressed, Regressed, "the exact test over all cases says that they got worse, by at least the margin"},
	{caseRegressed, Regressed, "one case got worse, after adjusting for the number of cases"},
	{suiteImproved, Improved, "the exact test over all cases says that they got better, by at least the margin"},
	{caseImproved, Improved, "one case got better, after adjusting for the number of cases"},
	{withinMargin, Equivalent, "the 90 % interval of the effect lies inside the equivalence margin"},
	{intervalSpansMargin, NoEvidence, "the interval of the effect holds changes that matter and changes that do not"},
	{missingCellsDecide, NoEvidence, "the cells that were not scored could turn the verdict"},
	{noBaseline, NoEvidence, "there is nothing to compare with"},
	{staleBaseline, NoEvidence, "the stored baseline is too old to compare with"},
	{baselineDrifted, NoEvidence, "fresh trials of the base differ from the stored ones, so the stored baseline was dropped"},
	{incomparable, NoEvidence, "the two sides differ in more than what is under test, or have no case in common"},
	{tooFewTrials, Underpowered, "no outcome of so few trials could be significant"},
	{tooFewCases, Underpowered, "only a very large effect could be found with so few cases"},
	{noPairs, Invalid, "no case was scored on both sides"},
	{lowCoverage, Invalid, "too few of the planned cells were scored"},
	{errorsDifferByArm, Invalid, "errored cells fall unevenly on the two sides"},
	{conditionNotHeld, Invalid, "agents of an arm did not have their condition, so it is not compared"},
	{oneFingerprint, Invalid, "only one side says what was measured, and how"},
	{belowFloor, "", "the lower bound of an arm's pass rate is below the floor that the suite sets"},
}

// The codes of warnings.
const (
	signflipCannotDecide = "signflip_cannot_decide"
	countWeighted        = "count_weighted"
	worstCaseRegressed   = "worst_case_regressed"
	notPowered           = "underpowered"
	gateChanged          = "gate_changed"
	casesDiffer          = "cases_differ"
	confirmNotRun        = "confirm_not_run"
	casesNotAdmitted     = "not_admitted"
	noFingerprint        = "no_fingerprint"
	baselineNotRerun     = "baseline_not_rerun"
	driftNotChecked      = "drift_not_checked"
	ageNotKnown          = "age_not_known"
)

// Warnings are all warnings there are.
var Warnings = []Code{
	{signflipCannotDecide, "", "so few cases moved that the claim about cases like these cannot be significant"},
	{countWeighted, "", "the numbers of trials are so uneven that the exact test counts every pass alike"},
	{worstCaseRegressed, "", "if every missing cell had gone against the head it would have regressed"},
	{notPowered, "", "the gate passed because nothing was found, not because nothing is there"},
	{gateChanged, "", "the suite's gate is not the one that the stored baseline was measured under; both are printed"},
	{confirmNotRun, "", "the worst cases were to be run again, and too few of their fresh trials were scored"},
	{casesNotAdmitted, "", "cases that failed their admission are out of the comparison by name, or cases have no record of one"},
	{noFingerprint, "", "neither side says what was measured, and how, so they were compared as they are"},
	{baselineNotRerun, "", "a cached baseline was not run again, so what has drifted since counts as the change's doing"},
	{driftNotChecked, "", "too few of the fresh trials that check a cached baseline were scored"},
	{ageNotKnown, "", "nobody knows when the stored baseline was measured, so it may be too old"},
	{casesDiffer, "", "cases that are not the same on both sides left the comparison; they are listed"},
}

// evidence is what the rules of a verdict look at.
type evidence struct {
	gate       result.Gate
	alpha      float64       // of this comparison
	base, head []stats.Tally // paired cases, in the order of names
	names      []string
	fresh      []fresh // trials of the cases that were run again
	coverage   PairCoverage
	skewP      float64
	obstacle   *Reason // what forbids to compare, or nil
}

// judged is a verdict with its numbers.
type judged struct {
	verdict Verdict
	reasons []Reason
	numbers numbers
}

// slack keeps rounding from deciding: floats are compared to thresholds with this much room.
const slack = 1e-9

// judge walks the rules in their order; the first that matches is the verdict. Validity comes before all others, then
// what forbids to compare, and one broken case beats a rising suite.
func judge(e evidence) judged {
	var j judged
	if len(e.base) > 0 {
		j.numbers = measure(e)
	}
	if r := e.validity(); len(r) > 0 {
		j.verdict, j.reasons = Invalid, r
	} else if e.obstacle != nil {
		j.verdict, j.reasons = NoEvidence, []Reason{*e.obstacle}
	} else {
		j.verdict, j.reasons = e.rules(j.numbers)
	}
	return j
}

// validity lists everything that makes a measurement worthless. Without a base there is none of it to be measured.
func (e evidence) validity() []Reason {
	var out []Reason
	if e.obstacle != nil && (e.obstacle.Code == conditionNotHeld || e.obstacle.Code == oneFingerprint) {
		out = append(out, *e.obstacle)
	}
	noBase := e.obstacle != nil && e.coverage.Base.Planned == 0
	if len(e.base) == 0 && (!noBase || e.coverage.Head.Scored == 0) {
		out = append(out, Reason{Code: noPairs, Text: "no case has a scored trial on both sides"})
	}
	for _, side := range []struct {
		name string
		c    Coverage
	}{{"baseline", e.coverage.Base}, {"candidate", e.coverage.Head}} {
		if side.c.Share < e.gate.MinCoverage-slack && !(noBase && side.c.Planned == 0) {
			out = append(out, Reason{Code: lowCoverage, Text: lowCoverageText(side.name, side.c, e.gate.MinCoverage)})
		}
	}
	if e.skewP < infraSkew {
		out = append(out, Reason{Code: errorsDifferByArm, Text: fmt.Sprintf("%d of %d cells errored in the baseline, %d of %d in the candidate; %s",
			e.coverage.Base.Errored, e.coverage.Base.Planned, e.coverage.Head.Errored, e.coverage.Head.Planned, pText(e.skewP))})
	}
	return out
}

// infraSkew is the level below which errored cells count as falling on one side.
const infraSkew = 0.01

func lowCoverageText(side string, c Coverage, floor float64) string {
	return fmt.Sprintf("%s: %d of %d planned cells scored (%.3g %%), at least %.3g %% are needed", side, c.Scored, c.Planned, 100*c.Share, 100*floor)
}

// rules are the steps from regressed to no_evidence, over numbers that exist.
func (e evidence) rules(n numbers) (Verdict, []Reason) {
	global := e.global(n)
	if r := e.moved(global.Less, -n.effectPP, n.holmWorse, suiteRegressed, caseRegressed); len(r) > 0 {
		return Regressed, r
	}
	if r := e.moved(global.Greater, n.effectPP, pointers(n.holmBetter), suiteImproved, caseImproved); len(r) > 0 {
		return Improved, r
	}
	if eq := e.gate.MarginEqPP; n.lo90PP >= -eq-slack && n.hi90PP <= eq+slack {
		return Equivalent, []Reason{{Code: withinMargin, Text: fmt.Sprintf("90 %% interval %s to %s pp, inside ±%.3g pp", signed(n.lo90PP), signed(n.hi90PP), eq)}}
	}
	if r := e.underpowered(n); len(r) > 0 {
		return Underpowered, r
	}
	return NoEvidence, []Reason{{Code: intervalSpansMargin, Text: fmt.Sprintf(
		"the interval holds changes that matter and changes that do not; %.0f pp would have been found in 4 of 5 such runs; %s", *n.mdePP, e.narrower(n))}}
}

// narrower says what plan would tell a change from none: one that finds a change of the equivalence margin, and so has an
// interval that fits inside when there is none.
func (e evidence) narrower(n numbers) string {
	limit := e.gate.MarginEqPP
	if *n.mdePP <= limit+slack {
		return "the effect lies at the edge of what matters, so only a larger run would decide"
	}
	return fmt.Sprintf("for %.3g pp %s", limit, e.remedy(n, limit))
}

// population is the claim that gates on cases like these instead of on these cases.
const population = "population"

// global is the test of all cases that belongs to the claim. When it could not be computed it convicts nobody.
func (e evidence) global(n numbers) stats.Exact {
	switch {
	case e.gate.Claim != population:
		return n.exact
	case n.signflip != nil:
		return *n.signflip
	}
	return stats.Exact{Less: 1, Greater: 1}
}

// moved gives the reasons to say that the head moved in one direction: p and effectPP are those of that direction.
func (e evidence) moved(p, effectPP float64, holm []*float64, suite, single string) []Reason {
	var out []Reason
	level := e.alpha/2 + slack
	if p <= level && effectPP >= e.gate.MarginPP-slack {
		out = append(out, Reason{Code: suite, Text: fmt.Sprintf("%.1f pp over %d cases, %s, margin %.3g pp", effectPP, len(e.base), pText(p), e.gate.MarginPP)})
	}
	for i, q := range holm {
		if q != nil && *q <= level {
			base, head, fresh := e.base[i], e.head[i], ""
			if f := e.freshOf(i); f != nil && single == caseRegressed && e.confirmed() {
				base, head, fresh = f.base.tally(), f.head.tally(), " in fresh trials"
			}
			out = append(out, Reason{Code: single, Case: e.names[i], Text: fmt.Sprintf("%d/%d to %d/%d%s, Holm %s",
				base.Passed, base.N, head.Passed, head.N, fresh, pText(*q))})
		}
	}
	return out
}

// underpowered gives the reasons to say that nothing could have been found, with what would change that.
func (e evidence) underpowered(n numbers) []Reason {
	cases := len(e.base)
	if n.pMin > e.alpha/2+slack {
		trials, ok := stats.TrialsToTell(cases, e.alpha/2)
		text := fmt.Sprintf("the least p that these trials allow is %.2g, above %.2g", n.pMin, e.alpha/2)
		if ok {
			text += fmt.Sprintf("; %d trials a side, or more cases, would do", trials)
		}
		return []Reason{{Code: tooFewTrials, Text: text}}
	}
	if n.mdePP == nil {
		return []Reason{{Code: tooFewCases, Text: "one case says nothing about the suite; at least 2 are needed"}}
	}
	if limit := e.gate.MDEMaxPP; *n.mdePP > limit+slack {
		found := fmt.Sprintf("only an effect of %.0f pp or more", *n.mdePP)
		if *n.mdePP > 100 {
			found = "no effect, however large,"
		}
		return []Reason{{Code: tooFewCases, Text: fmt.Sprintf("%s would have been found in 4 of 5 such runs, the limit is %.3g pp; %s", found, limit, e.remedy(n, limit))}}
	}
	return nil
}

// remedy says what plan would bring the minimal detectable effect down to so many percentage points.
func (e evidence) remedy(n numbers, effectPP float64) string {
	limit := effectPP / 100
	trials := 0
	for i := range e.base {
		trials += e.base[i].N + e.head[i].N
	}
	each := float64(trials) / float64(2*len(e.base))
	var ways []string
	if k, ok := stats.TrialsFor(len(e.base), n.sdFloor, n.sd, each, e.alpha, limit); ok {
		ways = append(ways, fmt.Sprintf("about %d trials a side", k))
	}
	if k, ok := stats.CasesFor(n.sd, e.alpha, limit); ok {
		ways = append(ways, fmt.Sprintf("about %d cases", k))
	}
	if len(ways) == 0 {
		return "no plan of a reasonable size would decide"
	}
	return strings.Join(ways, " or ") + " would decide"
}

// pText is a p-value for a person, with its sign of equality. It never says zero.
func pText(p float64) string {
	if p < 1e-4 {
		return "p < 0.0001"
	}
	return fmt.Sprintf("p = %.2g", p)
}

// signed is a difference with a true minus sign.
func signed(v float64) string { return strings.Replace(fmt.Sprintf("%+.1f", v), "-", "−", 1) }
