package bench

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
)

// A checked case is one whose cached baseline was checked: the trials of the stored run, of the head, of the check and of the
// rest of the base version, a letter a trial as in outcomes.
type checked struct{ stored, head, drift, rest string }

// withTwin is a run of these cases, named a, b, …, with the cells of the base version, and the stored one to compare it with.
func withTwin(t testing.TB, cases []checked) (Benchmark, Stored) {
	t.Helper()
	var before, now []outcomes
	for i, c := range cases {
		name := string(rune('a' + i))
		before, now = append(before, outcomes{name: name, head: c.stored}), append(now, outcomes{name: name, head: c.head})
	}
	cached := stored(lone(t, before))
	cached.Cached = true
	m, results := input(now)
	m.Conditions = []result.Condition{m.Conditions[1], {ID: "with.base", TwinOf: "with", Spare: true, Digest: "b"}}
	for i, c := range cases {
		for at, phase := range []string{plan.Drift, plan.Rerun} {
			for trial, letter := range []string{c.drift, c.rest}[at] {
				r := cellResult(string(rune('a'+i)), "with.base", at+trial+1, letter)
				r.Phase = phase
				m.Cells = append(m.Cells, r.Cell)
				if letter != '-' {
					results = append(results, r)
				}
			}
		}
	}
	return mustMake(t, m, results), cached
}

func repeated(n int, c checked) []checked { return slices.Repeat([]checked{c}, n) }

func TestDrift(t *testing.T) {
	t.Parallel()
	const good, bad = "PPPPP", "FFFFF"
	worse := checked{good, bad, "P", ""}
	for _, c := range []struct {
		name  string
		cases []checked
		want  string // comparisons
		drift string // p, empty when the check says nothing
		warns string
		rerun bool
		exit  int
	}{
		{"no drift", repeated(4, checked{good, good, "P", ""}),
			"gates baseline with: underpowered (too_few_cases)", "1.0000", notPowered, false, 0},
		{"nobody looked", repeated(4, checked{good, good, "", ""}),
			"gates baseline with: underpowered (too_few_cases)", "", notPowered + " " + baselineNotRerun, false, 0},
		{"nobody looked, and it convicts", repeated(4, checked{good, bad, "", ""}),
			"gates baseline with: regressed (suite_regressed, case_regressed a, case_regressed b, case_regressed c, case_regressed d)", "",
			signflipCannotDecide + " " + baselineNotRerun, true, 1},
		{"drifted", repeated(4, checked{good, good, "F", ""}),
			"gates baseline with: no_evidence (baseline_drifted)", "0.0015", "", true, 0},
		{"drifted upwards", repeated(4, checked{bad, good, "P", ""}),
			"gates baseline with: no_evidence (baseline_drifted)", "0.0015", signflipCannotDecide, true, 0},
		{"at the level", []checked{{"PPPP", "PPPP", "F", ""}, {"PPPPPPP", "PPPPPPP", "F", ""}},
			"gates baseline with: no_evidence (baseline_drifted)", "0.0500", "", true, 0},
		{"two sides are counted", []checked{{"PPPP", "PPPP", "F", ""}, {"PPPPP", "PPPPP", "F", ""}},
			"gates baseline with: underpowered (too_few_cases)", "0.0667", notPowered, false, 0},
		{"too few fresh trials", append(repeated(3, checked{good, good, "P", ""}), checked{good, good, "S", ""}),
			"gates baseline with: underpowered (too_few_cases)", "", notPowered + " " + driftNotChecked, false, 0},
		{"too few to see a drift by", append(repeated(3, checked{good, good, "F", ""}), checked{good, good, "-", ""}),
			"gates baseline with: underpowered (too_few_cases)", "", notPowered + " " + driftNotChecked, false, 0},
		{"convicts", repeated(4, worse),
			"gates baseline with: regressed (suite_regressed, case_regressed a, case_regressed b, case_regressed c, case_regressed d)", "1.0000",
			signflipCannotDecide + " " + baselineNotRerun, true, 1},
		{"convicts, and the fresh baseline is as bad", append(repeated(3, checked{good, good, "P", "PPPP"}), checked{good, bad, "F", "FFFF"}),
			"gates twin with: underpowered (too_few_cases)\nbaseline with: regressed (suite_regressed, case_regressed d)", "0.3333",
			notPowered + " " + signflipCannotDecide, true, 0},
		{"convicts, and so does the fresh baseline", repeated(4, checked{good, bad, "P", "PPPP"}),
			"gates twin with: regressed (suite_regressed, case_regressed a, case_regressed b, case_regressed c, case_regressed d)\n" +
				"baseline with: regressed (suite_regressed, case_regressed a, case_regressed b, case_regressed c, case_regressed d)", "1.0000",
			signflipCannotDecide + " " + signflipCannotDecide, true, 1},
		{"convicts, and the fresh baseline was not measured", repeated(4, checked{good, bad, "P", "SSSS"}),
			"gates twin with: invalid (low_coverage)\n" +
				"baseline with: regressed (suite_regressed, case_regressed a, case_regressed b, case_regressed c, case_regressed d)", "1.0000",
			signflipCannotDecide + " " + signflipCannotDecide, true, 3},
		{"drifted, and the fresh baseline says that nothing changed", repeated(4, checked{good, bad, "F", "FFFF"}),
			"gates twin with: underpowered (too_few_cases)\nbaseline with: no_evidence (baseline_drifted)", "0.0015",
			notPowered + " " + signflipCannotDecide, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, cached := withTwin(t, c.cases)
			b = b.Against(cached)
			var warns []string
			p := ""
			for _, x := range b.Comparisons {
				for _, w := range x.Warnings {
					warns = append(warns, w.Code)
				}
				if x.Drift != nil && x.Drift.P != nil {
					p = fmt.Sprintf("%.4f", *x.Drift.P)
				}
			}
			if got := lines(b); got != c.want || p != c.drift || b.Gate.ExitCode != c.exit {
				t.Errorf("%s, p %s, exit %d\nwant %s, p %s, exit %d", got, p, b.Gate.ExitCode, c.want, c.drift, c.exit)
			}
			slices.Sort(warns)
			want := strings.Fields(c.warns)
			slices.Sort(want)
			if diff := cmp.Diff(want, warns); diff != "" && len(want)+len(warns) > 0 {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if got := len(b.Reruns()) == 1; got != c.rerun {
				t.Errorf("run in full: %v, want %v", got, c.rerun)
			}
			again, err := b.Regate(b.Gate.Settings)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(b.Comparisons, again.Comparisons); diff != "" {
				t.Errorf("judged again (-before +after):\n%s", diff)
			}
			page, err := b.JSON()
			if err != nil {
				t.Fatal(err)
			}
			if read, err := Read(bytes.NewReader(page)); err != nil || lines(read) != lines(b) {
				t.Errorf("read back: %v", err)
			}
		})
	}
}

// What is to be checked follows from the screen and the stored run: that it was checked changes nothing.
func TestChecks(t *testing.T) {
	t.Parallel()
	cases := append(repeated(2, checked{"PPP", "PPP", "", ""}), checked{"PPP", "SSS", "", ""})
	want := []Check{{ArmID{"claude", "opus", "with"}, []string{"a", "b"}}}
	for _, drift := range []string{"", "P", "F", "S"} {
		for i := range cases[:2] {
			cases[i].drift = drift
		}
		b, cached := withTwin(t, cases)
		if diff := cmp.Diff(want, b.Against(cached).Checks()); diff != "" {
			t.Errorf("after %q (-want +got):\n%s", drift, diff)
		}
		cached.Cached = false
		if got := b.Against(cached).Checks(); got != nil {
			t.Errorf("a baseline that somebody named is checked: %v", got)
		}
	}
	moved, other := withTwin(t, repeated(4, checked{"PPPPP", "PPPPP", "F", ""}))
	other.Benchmark.Fingerprint.Conditions[0].Digest = "of an older base"
	if c := moved.Against(other).Comparisons[0]; c.Drift != nil || c.Obstacle != nil {
		t.Errorf("a base that moved on is taken for a drift: %+v", c.Drift)
	}
	b, cached := withTwin(t, cases)
	cached.Benchmark.Fingerprint.Executor = "docker"
	if got := b.Against(cached).Checks(); got != nil {
		t.Errorf("what cannot be compared is checked: %v", got)
	}
}

// No trial of the base changes anything of the head, nor what the stored comparison counts.
func TestCheckChangesNoHead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		letters := rapid.StringMatching(`[PFES]{3}`)
		var cases, plain []checked
		for range rapid.IntRange(1, 5).Draw(rt, "cases") {
			c := checked{letters.Draw(rt, "stored"), letters.Draw(rt, "head"), rapid.StringMatching(`[PFES-]?`).Draw(rt, "drift"), ""}
			if c.drift != "" {
				c.rest = rapid.StringMatching(`([PFES-]{2})?`).Draw(rt, "rest")
			}
			cases, plain = append(cases, c), append(plain, checked{c.stored, c.head, "", ""})
		}
		checked, cached := withTwin(t, cases)
		alone, _ := withTwin(t, plain)
		checked, alone = checked.Against(cached), alone.Against(cached)
		head := func(b Benchmark) any {
			var out []any
			for _, a := range b.Arms {
				if a.Condition == "with" {
					out = append(out, a)
				}
			}
			for _, c := range b.CaseArms {
				if c.Condition == "with" {
					out = append(out, c)
				}
			}
			for _, c := range b.Comparisons {
				if c.Axis == axisBaseline {
					out = append(out, c.EffectPP, c.PGlobal, c.Coverage, c.NPairs)
				}
			}
			return out
		}
		if diff := cmp.Diff(head(alone), head(checked)); diff != "" {
			rt.Errorf("(-alone +checked)\n%s", diff)
		}
	})
}

// Of a baseline with many trials the latest twenty count, for a run that takes it as it is.
func TestLatestTrials(t *testing.T) {
	t.Parallel()
	many := suiteOf(strings.Repeat("F", 30)+strings.Repeat("P", 17)+"ES-", strings.Repeat("P", 20))
	head := lone(t, suiteOf("PPP", "PPP"))
	for _, c := range []struct {
		cached bool
		want   Passes
	}{
		{true, Passes{Passed: 17, N: 17, Planned: 20, Errored: 1}},
		{false, Passes{Passed: 17, N: 47, Planned: 50, Errored: 1}},
	} {
		s := stored(lone(t, many))
		s.Cached = c.cached
		b := head.Against(s)
		at := slices.IndexFunc(b.Comparisons[0].PCases, func(p CasePair) bool { return p.Case == "a" })
		if got := b.Comparisons[0].PCases[at].Base; got != c.want {
			t.Errorf("cached %v: %+v, want %+v", c.cached, got, c.want)
		}
	}
}

func TestAgeOfStored(t *testing.T) {
	t.Parallel()
	head := lone(t, suiteOf("PPP"))
	fortnight := 14 * 24 * time.Hour
	at := func(age time.Duration) *time.Time {
		then := head.Metadata.Timestamp.Add(-age)
		return &then
	}
	for _, c := range []struct {
		name    string
		created *time.Time
		max     time.Duration
		code    string
		warns   bool
	}{
		{"fourteen days", at(fortnight), fortnight, tooFewTrials, false},
		{"a second more", at(fortnight + time.Second), fortnight, staleBaseline, false},
		{"any age", at(10 * fortnight), 0, tooFewTrials, false},
		{"not known", nil, fortnight, tooFewTrials, true},
		{"later than the run", at(-time.Hour), fortnight, tooFewTrials, false},
	} {
		s := stored(lone(t, suiteOf("PPP")))
		s.Origin.Created, s.MaxAge = c.created, c.max
		b := head.Against(s)
		warned := slices.ContainsFunc(b.Comparisons[0].Warnings, func(w Warning) bool { return w.Code == ageNotKnown })
		if b.Reason.Code != c.code || warned != c.warns {
			t.Errorf("%s: %+v, warnings %v", c.name, b.Reason, b.Comparisons[0].Warnings)
		}
	}
}
