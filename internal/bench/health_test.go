package bench

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/result"
)

func sound() result.Admission {
	return result.Admission{
		Null: result.Caught{Caught: 5, N: 5}, Noise: result.Caught{Caught: 5, N: 5}, Reference: result.Caught{N: 5},
		Assertions: []result.Exercised{exercised("correct", nil)},
	}
}

func exercised(id string, edit func(*result.Exercised)) result.Exercised {
	x := result.Exercised{
		ID: id, Gate: true, Null: result.Tallied{Failed: 5, N: 5}, Noise: result.Tallied{Failed: 5, N: 5},
		Reference: result.Tallied{Passed: 5, N: 5}, Frozen: result.Tallied{Passed: 14, N: 14},
	}
	if edit != nil {
		edit(&x)
	}
	return x
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		edit  func(*result.Admission)
		state string
		why   string
	}{
		"sound":                      {func(*result.Admission) {}, result.Admitted, ""},
		"null passes once":           {func(a *result.Admission) { a.Null.Caught = 4 }, result.NotAdmitted, "does nothing is not failed, in 1 of 5"},
		"noise passes":               {func(a *result.Admission) { a.Noise.Caught = 0 }, result.NotAdmitted, "blank file is not failed, in 5 of 5"},
		"the reference fails once":   {func(a *result.Admission) { a.Assertions[0].Reference.Passed = 4 }, result.NotAdmitted, "does not pass correct, in 1 of 5"},
		"one grading of 14 differs":  {func(a *result.Admission) { a.Assertions[0].Frozen = result.Tallied{Passed: 13, Failed: 1, N: 14} }, result.NotAdmitted, "13 of 14 gradings of one tree, so two gradings differ 14 %"},
		"one grading could not tell": {func(a *result.Admission) { a.Assertions[0].Frozen.Passed = 13 }, result.NotAdmitted, "could not tell in 1"},
		"a judge that gates flips":   {func(a *result.Admission) { a.Assertions[0].Judged, a.Assertions[0].Frozen.Passed = true, 13 }, result.NotAdmitted, "flaky"},
		"a judge beside flips":       {func(a *result.Admission) { x := &a.Assertions[0]; x.Judged, x.Gate, x.Frozen.Passed = true, false, 13 }, result.Admitted, ""},
		"no reference":               {func(a *result.Admission) { a.Reference.N = 0; a.Assertions[0].Reference = result.Tallied{} }, result.Unproven, "names no reference"},
		"no reference and vacuous":   {func(a *result.Admission) { a.Reference.N, a.Null.Caught = 0, 0 }, result.NotAdmitted, "does nothing"},
		"only a session":             {func(a *result.Admission) { a.Assertions[0].Session, a.Null.Caught = true, 0 }, result.Unproven, "no assertion about the work"},
		"a session that nobody had": {func(a *result.Admission) {
			a.Assertions = append(a.Assertions, exercised("looked", func(x *result.Exercised) { x.Session, x.Reference.Passed = true, 0 }))
		}, result.Admitted, ""},
		"only guards tell nothing": {func(a *result.Admission) { a.Assertions[0].Guard, a.Null.Caught = true, 0 }, result.Unproven, "no guard"},
	} {
		a := sound()
		c.edit(&a)
		got := Admit(a)
		if got.State != c.state || !strings.Contains(strings.Join(got.Why, "\n"), c.why) || (c.why == "") != (len(got.Why) == 0) {
			t.Errorf("%s: %s %q, want %s %q", name, got.State, got.Why, c.state, c.why)
		}
	}
}

func TestDetection(t *testing.T) {
	t.Parallel()
	if got, want := Detection(14), "14 gradings of one tree show a grader that errs one time in five with 96 %, one in ten with 77 %"; got != want {
		t.Errorf("%s", got)
	}
	if got := Detection(29); !strings.HasSuffix(got, "one in ten with 95 %") {
		t.Errorf("%s", got)
	}
}

// assertionsOf makes a benchmark of one case with so many trials a side. Each assertion has a letter a trial: those of the
// base, then those of the head.
func assertionsOf(t *testing.T, admission *result.Admission, assertions [][2]string) []Assertion {
	t.Helper()
	letters := func(side int) string { return strings.Repeat("P", len(assertions[0][side])) }
	m, results := input([]outcomes{{"a", letters(0), letters(1)}})
	m.Cases[0].Admission = admission
	for i := range results {
		side := 0
		if results[i].Condition == "with" {
			side = 1
		}
		results[i].Scores = nil
		for n, a := range assertions {
			passed := a[side][results[i].Trial-1] == 'P'
			results[i].Scores = append(results[i].Scores, result.Score{ID: fmt.Sprint("x", n), Weight: 1, Passed: &passed})
		}
	}
	slices.Reverse(results)
	return mustMake(t, m, results).Assertions
}

func TestClasses(t *testing.T) {
	t.Parallel()
	all := func(letter string, n int) string { return strings.Repeat(letter, n) }
	half := all("PF", 10)
	for name, c := range map[string]struct {
		admission  *result.Admission
		assertions [][2]string
		want       string
	}{
		"flaky beats broken":   {&result.Admission{Assertions: []result.Exercised{exercised("x0", func(x *result.Exercised) { x.Frozen.Passed, x.Frozen.Failed, x.Reference.Passed = 7, 7, 2 })}}, [][2]string{{"PF", "PP"}}, Flaky},
		"broken":               {&result.Admission{Assertions: []result.Exercised{exercised("x0", func(x *result.Exercised) { x.Reference.Passed = 0 })}}, [][2]string{{"FF", "FF"}}, Broken},
		"vacuous":              {&result.Admission{Assertions: []result.Exercised{exercised("x0", func(x *result.Exercised) { x.Null.Passed = 5 })}}, [][2]string{{"PP", "PP"}}, Vacuous},
		"a guard is not":       {&result.Admission{Assertions: []result.Exercised{exercised("x0", func(x *result.Exercised) { x.Null.Passed, x.Guard = 5, true })}}, [][2]string{{"PP", "PP"}}, Saturated},
		"unreachable":          {&result.Admission{Assertions: []result.Exercised{exercised("x0", nil)}}, [][2]string{{"FFF", "FFF"}}, Unreachable},
		"perhaps unreachable":  {nil, [][2]string{{"FFF", "FFF"}}, TooFewTrials},
		"saturated":            {nil, [][2]string{{"PPP", "PPP"}}, Saturated},
		"inverted":             {nil, [][2]string{{"PF" + all("PF", 5), all("PF", 5)}, {"FP" + all("FP", 5), all("FP", 5)}}, Inverted + " " + Inverted},
		"too few to correlate": {nil, [][2]string{{"PFPF", "PFPF"}, {"FPFP", "FPFP"}}, TooFewTrials + " " + TooFewTrials},
		"redundant":            {nil, [][2]string{{half, half}, {half, half}}, TooFewTrials + " " + Redundant},
		"useful":               {nil, [][2]string{{all("F", 95) + "PFPPP", all("P", 99) + "F"}}, Useful},
		"nothing apart":        {nil, [][2]string{{"F" + all("P", 999), "F" + all("P", 999)}}, NonDiscriminating},
		"too few":              {nil, [][2]string{{"PF", "PF"}}, TooFewTrials},
	} {
		var got []string
		for _, a := range assertionsOf(t, c.admission, c.assertions) {
			got = append(got, a.Class)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// A case that failed its admission leaves the comparison, its coverage and the floor, by name and for good.
func TestNotAdmitted(t *testing.T) {
	t.Parallel()
	m, results := input([]outcomes{{"a", "PPPPP", "PPPPP"}, {"b", "PPPPP", "FFFFF"}, {"c", "PPPPP", "EEEEE"}})
	before := mustMake(t, m, results)
	if before.Verdict != Invalid {
		t.Fatalf("%s", before.Verdict)
	}
	m.Cases[1].Admission = &result.Admission{State: result.NotAdmitted, Why: []string{"flaky"}}
	m.Cases[2].Admission = &result.Admission{State: result.NotAdmitted, Why: []string{"vacuous"}}
	m.Gate.MinPassRate = new(float64)
	*m.Gate.MinPassRate = 0.2
	b := mustMake(t, m, results)
	again, err := b.Regate(b.Gate.Settings)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]Benchmark{"made": b, "judged again": again} {
		c := b.Comparisons[0]
		if b.Verdict != Underpowered || b.Gate.ExitCode != 0 || c.NPairs != 1 || c.Coverage.Planned != 10 || c.Coverage.Head.Errored != 0 {
			t.Errorf("%s: %s, exit %d, %d pairs, %+v", name, b.Verdict, b.Gate.ExitCode, c.NPairs, c.Coverage)
		}
		if len(c.Unpaired) != 2 || c.Unpaired[0].Reason != notAdmitted || c.Unpaired[1].Reason != notAdmitted {
			t.Errorf("%s: %+v", name, c.Unpaired)
		}
		if want := (Warning{casesNotAdmitted, "2 cases failed admission and left the comparison: b, c"}); !slices.Contains(c.Warnings, want) {
			t.Errorf("%s: %+v", name, c.Warnings)
		}
	}
	if b.Arms[1].NCases != 3 || len(b.CaseArms) != 6 {
		t.Errorf("a case is not shown: %d, %d", b.Arms[1].NCases, len(b.CaseArms))
	}
	across := b.Against(stored(before))
	for _, c := range across.Comparisons {
		if c.Axis == axisBaseline && (c.NPairs != 1 || len(c.Unpaired) != 2 || c.Unpaired[0].Reason != notAdmitted) {
			t.Errorf("%d pairs, %+v", c.NPairs, c.Unpaired)
		}
	}
}

func TestEveryClassIsDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/verdicts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Classes {
		if row := fmt.Sprintf("| `%s` | %s |\n", c.Code, c.Doc); !strings.Contains(string(doc), row) {
			t.Errorf("docs/verdicts.md lacks the row %s", row)
		}
	}
}
