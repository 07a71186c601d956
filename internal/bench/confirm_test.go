package bench

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/stats"
)

// runAgain adds fresh trials of a case to what Make takes, a letter a trial as in outcomes.
func runAgain(m *result.Manifest, results *[]result.Result, name, base, head string) {
	for _, side := range []struct{ condition, letters string }{{"without", base}, {"with", head}} {
		for i, letter := range side.letters {
			r := cellResult(name, side.condition, 100+i, letter)
			r.Phase = ConfirmPhase
			m.Cells = append(m.Cells, r.Cell)
			if letter != '-' {
				*results = append(*results, r)
			}
		}
	}
}

func confirming(cases []outcomes) (result.Manifest, []result.Result) {
	m, results := input(cases)
	m.Gate.Confirm = &result.Confirm{Cases: 3, Trials: 8}
	return m, results
}

func TestSuspects(t *testing.T) {
	t.Parallel()
	cases := append(times(6, "PPP", "PPP"),
		outcomes{"b-half", "PPP", "PFF"}, outcomes{"a-half", "PPP", "PFF"}, outcomes{"little", "PPP", "PPF"},
		outcomes{"whole", "PPP", "FFF"}, outcomes{"c-half", "PPP", "PFF"}, outcomes{"rose", "FFF", "PPP"})
	for _, c := range []struct {
		name   string
		change func(*result.Manifest, *[]result.Result)
		want   []string
	}{
		{"the largest fall first, ties by name", nil, []string{"whole", "a-half", "b-half"}},
		{"off", func(m *result.Manifest, _ *[]result.Result) { m.Gate.Confirm = nil }, nil},
		{"equal falls by name, though their floats differ", func(m *result.Manifest, r *[]result.Result) {
			*m, *r = confirming([]outcomes{{"a", "PPF", "FFF"}, {"b", "PPP", "PFF"}})
		}, []string{"a", "b"}},
		{"one case", func(m *result.Manifest, _ *[]result.Result) { m.Gate.Confirm.Cases = 1 }, []string{"whole"}},
		{"the same when they were run again", func(m *result.Manifest, r *[]result.Result) {
			runAgain(m, r, "whole", "PPPPPPPP", "PPPPPPPP")
		}, []string{"whole", "a-half", "b-half"}},
		{"nothing to compare with", func(m *result.Manifest, _ *[]result.Result) { m.Conditions[0].Baseline = false }, nil},
	} {
		m, results := confirming(cases)
		if c.change != nil {
			c.change(&m, &results)
		}
		var got []string
		for _, s := range mustMake(t, m, results).Suspects() {
			got = append(got, s.Case)
			if s.Base.Condition != "without" || s.Head.Condition != "with" || s.Trials != 8 {
				t.Errorf("%s: %+v", c.name, s)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	m, results := confirming([]outcomes{{"many", "PPPPPPPP", "FFFFFFFF"}})
	if s := mustMake(t, m, results).Suspects(); s != nil {
		t.Errorf("8 trials a side are run again: %v", s)
	}
}

// Fresh trials alone convict, and they change no rate.
func TestConfirm(t *testing.T) {
	t.Parallel()
	cases := append(times(9, "PPP", "PPP"), outcomes{"suspect", "PPP", "FFF"})
	for _, c := range []struct {
		name       string
		base, head string // fresh trials of the suspect
		want       Verdict
		reasons    string
		phase      string
		warning    string
	}{
		{"broken", "PPPPPPPP", "FFFFFFFF", Regressed, "case_regressed suspect", ConfirmPhase, ""},
		{"chance", "PPPPPPPP", "PPPPPPPP", Underpowered, "too_few_cases", ConfirmPhase, ""},
		{"the screen's trials are not added", "PPPPPPPP", "PPPPFFFF", Underpowered, "too_few_cases", ConfirmPhase, ""},
		{"not run", "--------", "SSSSSSSS", Underpowered, "too_few_cases", screenPhase, confirmNotRun},
		{"half run", "PPPP----", "FFFF----", Underpowered, "too_few_cases", screenPhase, confirmNotRun},
		{"one lost", "PPPPPPPP", "FFFFFFFE", Regressed, "case_regressed suspect", ConfirmPhase, ""},
		{"two lost", "PPPPPPPP", "FFFFFFEE", Underpowered, "too_few_cases", screenPhase, confirmNotRun},
	} {
		m, results := confirming(cases)
		before := mustMake(t, m, results)
		runAgain(&m, &results, "suspect", c.base, c.head)
		b := mustMake(t, m, results)
		got := b.Comparisons[0]
		if got.Verdict != c.want || codes(got.Reasons) != c.reasons {
			t.Errorf("%s: %s, %s; want %s, %s", c.name, got.Verdict, codes(got.Reasons), c.want, c.reasons)
		}
		p := got.PCases[slices.IndexFunc(got.PCases, func(p CasePair) bool { return p.Case == "suspect" })]
		if p.Phase != c.phase || p.Confirm == nil {
			t.Errorf("%s: pair %+v", c.name, p)
		}
		if warned := slices.ContainsFunc(got.Warnings, func(w Warning) bool { return w.Code == confirmNotRun }); warned != (c.warning != "") {
			t.Errorf("%s: warnings %v", c.name, got.Warnings)
		}
		for i, a := range b.Arms {
			if diff := cmp.Diff(before.Arms[i].PassRate, a.PassRate); diff != "" || a.Coverage != before.Arms[i].Coverage {
				t.Errorf("%s: fresh trials changed an arm:\n%s", c.name, diff)
			}
		}
		if *got.PGlobal != *before.Comparisons[0].PGlobal || *got.EffectPP != *before.Comparisons[0].EffectPP {
			t.Errorf("%s: fresh trials changed the suite's test", c.name)
		}
		if judged, err := b.Regate(b.Gate.Settings); err != nil || judged.Comparisons[0].Verdict != got.Verdict {
			t.Errorf("%s: judged again it is %s, %v", c.name, judged.Comparisons[0].Verdict, err)
		}
	}
}

// No fresh trial that is lost can make a verdict better.
func TestLosingAFreshTrialNeverImproves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		letters := func(n int, of string) string {
			out := make([]byte, n)
			for i := range out {
				out[i] = rapid.SampledFrom([]byte(of)).Draw(t, "letter")
			}
			return string(out)
		}
		m, results := confirming(append(times(4, "PPP", "PPP"), outcomes{"suspect", "PPP", letters(3, "PF")}))
		runAgain(&m, &results, "suspect", letters(8, "PF"), letters(8, "PF"))
		full, err := Make(m, sequence(results))
		if err != nil {
			t.Fatal(err)
		}
		lost := rapid.IntRange(len(results)-16, len(results)-1).Draw(t, "lost")
		less, err := Make(m, sequence(slices.Delete(slices.Clone(results), lost, lost+1)))
		if err != nil {
			t.Fatal(err)
		}
		if less.Verdict == Improved && full.Verdict != Improved || less.Verdict == Equivalent && full.Verdict != Equivalent {
			t.Fatalf("%s became %s", full.Verdict, less.Verdict)
		}
	})
}

// When a watch says that all is decided, what it left out changes no case's verdict: over all orders and outcomes of fresh
// trials, the cases that regress are those that would regress with every trial run.
func TestDecidedIsDecided(t *testing.T) {
	t.Parallel()
	arms := [2]ArmID{{"h", "m", "without"}, {"h", "m", "with"}}
	rapid.Check(t, func(t *rapid.T) {
		trials := rapid.IntRange(1, 9).Draw(t, "trials")
		var suspects []Suspect
		for _, name := range []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "suspects")] {
			suspects = append(suspects, Suspect{name, arms[0], arms[1], 1, trials, 0.025})
		}
		rates := []int{rapid.IntRange(0, 10).Draw(t, "base rate"), rapid.IntRange(0, 10).Draw(t, "head rate")}
		w := NewWatch(suspects)
		now, all := map[slot]stats.Tally{}, map[slot]stats.Tally{}
		decided := false
		for trial := range trials {
			for _, s := range suspects {
				for side, arm := range arms {
					passed := rapid.IntRange(1, 10).Draw(t, fmt.Sprint("trial ", trial)) <= rates[side]
					one := stats.Tally{N: 1}
					status := result.Failed
					if passed {
						one.Passed, status = 1, result.Passed
					}
					at := slot{s.Case, arm}
					all[at] = stats.Tally{Passed: all[at].Passed + one.Passed, N: all[at].N + 1}
					if decided = decided || w.Decided(); !decided {
						w.Count(s.Case, arm, status)
						now[at] = all[at]
					}
				}
			}
		}
		regressed := func(seen map[slot]stats.Tally) []string {
			var p []float64
			for _, s := range suspects {
				x, y := seen[slot{s.Case, arms[0]}], seen[slot{s.Case, arms[1]}]
				p = append(p, fresh{base: Passes{Passed: x.Passed, N: x.N}, head: Passes{Passed: y.Passed, N: y.N}}.p())
			}
			var out []string
			for i, q := range stats.Holm(p) {
				if q <= 0.025+slack {
					out = append(out, suspects[i].Case)
				}
			}
			return out
		}
		if got, want := regressed(now), regressed(all); !slices.Equal(got, want) {
			t.Fatalf("stopped early %v regressed, with all trials %v; %v of %v", got, want, now, all)
		}
	})
}

func TestWatch(t *testing.T) {
	t.Parallel()
	s := []Suspect{{"a", ArmID{Condition: "x"}, ArmID{Condition: "y"}, 1, 8, 0.025}}
	w := NewWatch(s)
	if w.Decided() {
		t.Error("decided before the first trial")
	}
	for range 5 {
		w.Count("a", s[0].Base, result.Passed)
		w.Count("a", s[0].Head, result.Passed)
	}
	if !w.Decided() {
		t.Error("5 of 5 on both sides: the 3 that are left cannot convict")
	}
	w.Count("a", s[0].Head, result.Errored)
	if w.Decided() {
		t.Error("decided although a trial was lost")
	}
}
