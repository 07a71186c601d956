package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/bench"
)

// verdictsPage says what each word and number means.
const verdictsPage = "https://github.com/assay-ci/assay/blob/main/docs/verdicts.md"

// method is the paragraphs on how the numbers came about, in plain text that may hold text of the suite.
func method(b bench.Benchmark) []string {
	out := []string{
		trialsMethod(b) + "A pass rate is the mean over cases of each case's rate, with a 95 % interval at the effective size (Wilson). Only passed and failed cells are in it.",
	}
	if len(b.Comparisons) > 0 {
		out = append(out, testsMethod(b))
	}
	if len(gating(b)) > 0 {
		out = append(out, freshMethod(b))
	}
	out = append(out, "Diff scope is the median over cases of the median over passed trials: files touched, and lines added and removed together.")
	for _, c := range b.Comparisons {
		for _, w := range c.Warnings {
			out = append(out, fmt.Sprintf("Warning for %s: %s.", plainName(c.Head.ID.Harness, c.Head.ID.Model, c.Head.ID.Condition), w.Text))
		}
	}
	return append(out, b.Notes...)
}

// trialsMethod says how many trials were planned, without those of cases that were run again.
func trialsMethod(b bench.Benchmark) string {
	var planned []int
	for _, c := range b.CaseArms {
		if c.Coverage.Planned > 0 {
			planned = append(planned, c.Coverage.Planned)
		}
	}
	if len(planned) == 0 {
		return ""
	}
	each := fmt.Sprint(slices.Max(planned))
	if least := slices.Min(planned); least < slices.Max(planned) {
		each = fmt.Sprintf("%d to %s", least, each)
	}
	cases, arms := len(caseNames(b)), len(b.Arms)
	text := fmt.Sprintf("Planned were %s %s of each of %d %s in each of %d %s",
		each, plural(slices.Max(planned), "trial", "trials"), cases, plural(cases, "case", "cases"), arms, plural(arms, "arm", "arms"))
	if b.Metadata.Seed != "" {
		text += ", in an order that follows from the seed below"
	}
	return text + ". "
}

// testsMethod names the tests and intervals, and what they are held to.
func testsMethod(b bench.Benchmark) string {
	g, all := b.Gate.Settings, gating(b)
	text := "Comparisons are paired by case. The effect is the mean difference of the case rates, with a 95 % stratified Newcombe interval. " +
		"All cases together are judged by " + globalTest(all) + ", a single case by Fisher's exact test, adjusted by Holm; p is exact and one-sided. "
	if len(all) > 0 {
		text += fmt.Sprintf("α = %s is shared by %d gating %s, so that each direction of %s is held to %s. ",
			short(g.Alpha), len(all), plural(len(all), "comparison", "comparisons"), plural(len(all), "it", "each"), short(all[0].Alpha/2))
	}
	return text + fmt.Sprintf("Margin %s pp, equivalence margin %s pp by a 90 %% interval, largest acceptable detectable effect %s pp, least coverage %s %%.",
		short(g.MarginPP), short(g.MarginEqPP), short(g.MDEMaxPP), short(100*g.MinCoverage))
}

// globalTest names the test of all cases together that gates.
func globalTest(all []*bench.Comparison) string {
	if slices.ContainsFunc(all, func(c *bench.Comparison) bool { return c.Test == "signflip_exact" }) {
		return "sign flips of the case differences, since the suite claims for cases like these"
	}
	return "a stratified test that holds the passes of each case"
}

// mostRerun bounds the cases that are named as run again.
const mostRerun = 10

// freshMethod says how the worst cases were to be run again, and which were.
func freshMethod(b bench.Benchmark) string {
	trials := plannedFresh(b)
	if trials == 0 {
		return "No case was to be run again (gate.confirm is off), so single cases are judged by the trials of the plan."
	}
	if !slices.ContainsFunc(gating(b), func(c *bench.Comparison) bool { return c.Axis != "baseline" }) {
		return "What is compared with a stored baseline cannot be run again on both sides, so single cases are judged by the trials of the plan."
	}
	var again []string
	for _, c := range gating(b) {
		for _, p := range c.PCases {
			if p.Confirm != nil {
				again = append(again, fmt.Sprintf("%s (%d and %d trials scored)", plainName(p.Case), p.Confirm.Base.N, p.Confirm.Head.N))
			}
		}
	}
	text := fmt.Sprintf("Cases whose rate fell by half or more were to be run again, with %d fresh trials a side, the largest falls first; "+
		"fresh trials alone can convict such a case, with Holm over those that were run again, and they are in no rate. ", trials)
	if len(again) == 0 {
		return text + "None was run again."
	}
	if more := len(again) - mostRerun; more > 0 {
		again = append(again[:mostRerun], fmt.Sprintf("%d more", more))
	}
	return text + "Run again: " + strings.Join(again, ", ") + "."
}
