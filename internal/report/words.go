package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/bench"
)

// mostTold bounds the cases that a sentence names; the tables have them all.
const mostTold = 3

// sentence tells what one comparison found, and what its fresh trials add. Only the two clear verdicts use a verb of change.
func sentence(b bench.Benchmark, c bench.Comparison, m markup) string {
	return strings.Join(append([]string{found(c, m, b.Gate.Settings.MinCoverage)}, aboutFresh(c, m, plannedFresh(b))...), " ")
}

// found tells what one comparison found.
func found(c bench.Comparison, m markup, minCoverage float64) string {
	head, base := m.name(c.Head.ID.Harness, c.Head.ID.Model, c.Head.ID.Condition), baseName(c, m)
	switch c.Verdict {
	case bench.Regressed:
		return movement(c, m, "less", deciding(c, c.PGlobal, c.SignflipP))
	case bench.Improved:
		return movement(c, m, "more", deciding(c, c.PGlobalBetter, c.SignflipBetter))
	case bench.Equivalent:
		return fmt.Sprintf("%s and %s are the same for practical purposes: %s.", head, base, m.text(reasonText(c)))
	case bench.NoEvidence:
		return fmt.Sprintf("%s against %s allows no verdict (%s): %s.", head, base, numbers(c), m.text(reasonText(c)))
	case bench.Underpowered:
		return fmt.Sprintf("%s against %s could not be decided (%s): %s.", head, base, numbers(c), m.text(reasonText(c)))
	}
	return fmt.Sprintf("%s against %s was not measured well enough: %s.", head, base, notMeasured(c, m, minCoverage))
}

// numbers are the effect of a comparison and its interval.
func numbers(c bench.Comparison) string {
	switch {
	case c.EffectPP == nil:
		return "nothing to compare"
	case c.LoPP == nil || c.HiPP == nil:
		return signed(*c.EffectPP) + " pp"
	}
	return fmt.Sprintf("%s pp, 95 %% interval %s", signed(*c.EffectPP), interval(signed, c.LoPP, c.HiPP))
}

// baseName says what a comparison is against.
func baseName(c bench.Comparison, m markup) string {
	if c.Axis == "baseline" {
		return "its stored baseline"
	}
	return m.name(c.Base.ID.Condition)
}

// deciding is the p of the test that decided.
func deciding(c bench.Comparison, stratified, signflip *float64) *float64 {
	if c.Test == "signflip_exact" {
		return signflip
	}
	return stratified
}

// movement tells of a suite that moved as a whole, or of the single cases that did when the suite cannot be said to.
func movement(c bench.Comparison, m markup, how string, p *float64) string {
	head, base := m.name(c.Head.ID.Harness, c.Head.ID.Model, c.Head.ID.Condition), baseName(c, m)
	cases := caseList(c, m, how == "less")
	if len(c.Reasons) > 0 && c.Reasons[0].Case != "" {
		return fmt.Sprintf("%s passes single cases %s often than %s: %s. All cases together: %s.", head, how, base, cases, numbers(c))
	}
	told := fmt.Sprintf("%s passes %s often than %s: %s; %d of %d %s passed less often and %d more often; %s, margin %s pp.", head, how, base, numbers(c),
		c.NWorse, c.NPairs, plural(c.NPairs, "case", "cases"), c.NBetter, pEquals(p), short(c.MarginPP))
	if cases != "" {
		told += " By themselves: " + cases + "."
	}
	return told
}

// caseList tells of the cases that moved significantly by themselves.
func caseList(c bench.Comparison, m markup, worse bool) string {
	var moved []string
	for _, p := range c.PCases {
		switch {
		case worse && p.Regressed && p.Phase == bench.ConfirmPhase && p.Confirm != nil:
			moved = append(moved, m.name(p.Case)+" "+beforeAndNow(p.Confirm.Base, p.Confirm.Head)+", in fresh trials")
		case worse && p.Regressed, !worse && p.Improved:
			moved = append(moved, m.name(p.Case)+" "+beforeAndNow(p.Base, p.Head))
		}
	}
	return listed(moved)
}

// beforeAndNow says in words how many trials of a case passed on both sides.
func beforeAndNow(base, head bench.Passes) string {
	return fmt.Sprintf("passed %d of %d before and %d of %d now", base.Passed, base.N, head.Passed, head.N)
}

// fromTo says the same in short.
func fromTo(base, head bench.Passes) string {
	return fmt.Sprintf("%d/%d → %d/%d", base.Passed, base.N, head.Passed, head.N)
}

// listed joins the first of some phrases and says how many more there are.
func listed(phrases []string) string {
	if more := len(phrases) - mostTold; more > 0 {
		phrases = append(slices.Clone(phrases[:mostTold]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(phrases, "; ")
}

// notMeasured says what makes a measurement worthless.
func notMeasured(c bench.Comparison, m markup, minCoverage float64) string {
	var out []string
	short := shortOfCells(c.Coverage, minCoverage)
	for _, r := range c.Reasons {
		switch {
		case r.Code == "low_coverage" && short != "": // there is one for each side
			out = append(out, short)
		case r.Code == "errors_differ_by_arm":
			base, head := c.Coverage.Base, c.Coverage.Head
			out = append(out, fmt.Sprintf("errors fall unevenly, %d of %d cells errored in the baseline and %d of %d in the candidate (%s)",
				base.Errored, base.Planned, head.Errored, head.Planned, pEquals(c.InfraSkewP)))
		default:
			out = append(out, m.text(r.Text))
		}
	}
	return strings.Join(slices.Compact(out), "; ")
}

// shortOfCells says how much of the plan was scored on the sides where it is too little; empty when it is enough.
func shortOfCells(c bench.PairCoverage, least float64) string {
	var sides []string
	for _, side := range []struct {
		name string
		c    bench.Coverage
	}{{"baseline", c.Base}, {"candidate", c.Head}} {
		if side.c.Planned > 0 && side.c.Share < least-1e-9 {
			sides = append(sides, fmt.Sprintf("%d of %d planned cells of the %s (%s)", side.c.Scored, side.c.Planned, side.name, wholePercent(side.c.Share)))
		}
	}
	if len(sides) == 0 {
		return ""
	}
	return fmt.Sprintf("only %s were scored, and at least %s %% are needed", strings.Join(sides, " and "), short(100*least))
}

// plannedFresh is how many fresh trials a side each of the worst cases was to have when the run was planned; 0 is none.
func plannedFresh(b bench.Benchmark) int {
	confirm := b.Gate.Settings.Confirm
	if b.Gate.Planned != nil {
		confirm = b.Gate.Planned.Confirm
	}
	if confirm == nil {
		return 0
	}
	return confirm.Trials
}

// aboutFresh tells what fresh trials add to a verdict: that they are not there, whom they cleared, and that they ended early.
// What was not measured well enough is not judged by any trials.
func aboutFresh(c bench.Comparison, m markup, planned int) []string {
	if known(c.Verdict) == bench.Invalid {
		return nil
	}
	if slices.ContainsFunc(c.Warnings, func(w bench.Warning) bool { return w.Code == "confirm_not_run" }) {
		return []string{unconfirmed(c)}
	}
	var cleared, out []string
	early := false
	for _, p := range c.PCases {
		if p.Confirm == nil || p.Phase != bench.ConfirmPhase {
			continue
		}
		early = early || min(p.Confirm.Base.Planned, p.Confirm.Head.Planned) < planned
		if !p.Regressed {
			cleared = append(cleared, m.name(p.Case)+" "+beforeAndNow(p.Confirm.Base, p.Confirm.Head))
		}
	}
	if len(cleared) > 0 {
		out = append(out, fmt.Sprintf("Fresh trials did not confirm the fall of %s: %s.", casesOfSuite(len(cleared)), listed(cleared)))
	}
	if early {
		out = append(out, "The fresh trials ended early, since those that were left could change nothing.")
	}
	return out
}

// unconfirmed says that single cases are judged by the trials by which they were found.
func unconfirmed(c bench.Comparison) string {
	scored, planned := 0, 0
	for _, p := range c.PCases {
		if p.Confirm != nil {
			scored, planned = scored+p.Confirm.Base.N+p.Confirm.Head.N, planned+p.Confirm.Base.Planned+p.Confirm.Head.Planned
		}
	}
	if planned == 0 {
		return "The cases that fell most were not run again, so single cases are judged by their first trials."
	}
	return fmt.Sprintf("Of the fresh trials of the cases that fell most only %d of %d were scored, so single cases are judged by their first trials.", scored, planned)
}

func casesOfSuite(n int) string { return fmt.Sprintf("%d %s", n, plural(n, "case", "cases")) }

func reasonText(c bench.Comparison) string {
	var out []string
	for _, r := range c.Reasons {
		out = append(out, r.Text)
	}
	return strings.Join(out, "; ")
}
