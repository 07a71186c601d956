package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/stats"
)

// Admit says what the counts of an admission mean, in its State and Why: agents without merit must fail the case in every
// trial, by an assertion that is no guard; the reference must pass all assertions; and no grader may disagree with itself
// on one tree. A judge that is no gate may: its votes are counted elsewhere.
func Admit(a result.Admission) result.Admission {
	a.Why = []string{}
	tells := slices.ContainsFunc(a.Assertions, func(x result.Exercised) bool { return !x.Session && !x.Guard })
	for _, agent := range []struct {
		name string
		seen result.Caught
	}{{"an agent that does nothing", a.Null}, {"an agent that only adds a comment and a blank file", a.Noise}} {
		if tells && agent.seen.Caught < agent.seen.N {
			a.Why = append(a.Why, fmt.Sprintf("%s is not failed, in %d of %d trials", agent.name, agent.seen.N-agent.seen.Caught, agent.seen.N))
		}
	}
	for _, x := range a.Assertions {
		if lost := x.Reference.N - x.Reference.Passed; !x.Session && lost > 0 {
			a.Why = append(a.Why, strings.TrimSuffix(fmt.Sprintf("the reference does not pass %s, in %d of %d trials: %s", x.ID, lost, x.Reference.N, x.Evidence), ": "))
		}
		if x.Frozen.Flaky() && (x.Gate || !x.Judged) {
			a.Why = append(a.Why, fmt.Sprintf("the grader of %s is flaky: %s", x.ID, flakeText(x.Frozen)))
		}
	}
	switch {
	case len(a.Why) > 0:
		a.State = result.NotAdmitted
	case !tells:
		a.State, a.Why = result.Unproven, []string{"no assertion about the work that is no guard: nothing tells it from none"}
	case a.Reference.N == 0:
		a.State, a.Why = result.Unproven, []string{"the case names no reference, so nothing shows that it can be solved"}
	default:
		a.State = result.Admitted
	}
	return a
}

// flakeText says how far gradings of one tree disagree.
func flakeText(t result.Tallied) string {
	text := fmt.Sprintf("it passed %d of %d gradings of one tree", t.Passed, t.N)
	if lost := t.N - t.Passed - t.Failed; lost > 0 {
		return text + fmt.Sprintf(" and could not tell in %d", lost)
	}
	if f, err := stats.FlakeOf(stats.Tally{Passed: t.Passed, N: t.N}); err == nil {
		text += fmt.Sprintf(", so two gradings differ %.0f %% of the time", 100*f.Disagree)
	}
	return text
}

// Detection is the rule by which a flake is found, with what it can miss: a grader that errs with the chance f shows a
// difference in n gradings with the chance 1 − fⁿ − (1−f)ⁿ.
func Detection(gradings int) string {
	chance := func(f float64) float64 {
		return 100 * (1 - math.Pow(f, float64(gradings)) - math.Pow(1-f, float64(gradings)))
	}
	return fmt.Sprintf("%d gradings of one tree show a grader that errs one time in five with %.0f %%, one in ten with %.0f %%",
		gradings, chance(0.2), chance(0.1))
}

func caseOf(number int, name string, c result.Case) Case {
	out := Case{EvalID: number, Case: name, File: c.File, Line: c.Line}
	if a := c.Admission; a != nil {
		out.Admission = a.State
		for _, why := range a.Why {
			out.AdmissionWhy = append(out.AdmissionWhy, clip(why))
		}
	}
	return out
}

// notAdmitted are the cases that failed their admission. They are run and shown, and no verdict is made of them.
func (b Benchmark) notAdmitted() map[string]bool {
	out := make(map[string]bool)
	for _, c := range b.Metadata.Cases {
		if c.Admission == result.NotAdmitted {
			out[c.Case] = true
		}
	}
	return out
}

// warnOfAdmission names the cases that are out of a comparison, and counts those of which nobody knows whether they should
// be. A plan whose maker did not look for records says nothing.
func (b Benchmark) warnOfAdmission(c *Comparison) {
	var failed []string
	for _, u := range c.Unpaired {
		if u.Reason == notAdmitted {
			failed = append(failed, u.Case)
		}
	}
	if n := len(failed); n > 0 {
		c.warn(casesNotAdmitted, fmt.Sprintf("%d %s failed admission and left the comparison: %s", n, plural(n, "case", "cases"), strings.Join(failed, ", ")))
	}
	unknown := 0
	for _, k := range b.Metadata.Cases {
		if k.Admission == result.NoRecord || k.Admission == result.Unproven {
			unknown++
		}
	}
	if unknown > 0 {
		c.warn(casesNotAdmitted, fmt.Sprintf("%d of %d cases %s not admitted: nothing shows that they tell good work from none; run assay check --admit",
			unknown, len(b.Metadata.Cases), plural(unknown, "is", "are")))
	}
}

// without is the coverage of an arm without some cases.
func (s side) without(out map[string]bool) Coverage {
	if len(out) == 0 {
		return s.Coverage
	}
	var sum Coverage
	for name, c := range s.cases {
		if !out[name] {
			sum = sum.plus(c)
		}
	}
	return sum
}

// admittedRate is the pass rate of an arm over the cases that did not fail their admission; nil when there are none.
func (b Benchmark) admittedRate(a Arm) *Estimate {
	out := b.notAdmitted()
	if len(out) == 0 {
		return a.PassRate
	}
	var tallies []stats.Tally
	for _, c := range b.CaseArms {
		if c.ArmID == a.ArmID && c.Coverage.Scored > 0 && !out[c.Case] {
			tallies = append(tallies, c.Coverage.passes().tally())
		}
	}
	if len(tallies) == 0 {
		return nil
	}
	value, lo, hi, _ := stats.CaseMeanInterval(tallies, confidence)
	return &Estimate{value, &lo, &hi, len(tallies)}
}
