package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-ci/assay/internal/result"
)

// lone is a run without a baseline condition: outcomes are those of its one arm.
func lone(t testing.TB, cases []outcomes, change ...func(*result.Manifest, []result.Result)) Benchmark {
	t.Helper()
	for i := range cases {
		cases[i].base = ""
	}
	m, results := input(cases)
	m.Conditions = m.Conditions[1:]
	for _, c := range change {
		c(&m, results)
	}
	return mustMake(t, m, results)
}

// suiteOf gives each case one outcome, named by its letter: a, b, c, …
func suiteOf(heads ...string) []outcomes {
	var out []outcomes
	for i, letters := range heads {
		out = append(out, outcomes{name: string(rune('a' + i)), head: letters})
	}
	return out
}

func stored(b Benchmark) Stored {
	return Stored{Benchmark: &b, Origin: Origin{Source: "merge-base", SHA: strings.Repeat("c", 40)}}
}

// line tells of a comparison in one line.
func line(c Comparison) string {
	mark := ""
	if c.Gates {
		mark = "gates "
	}
	out := fmt.Sprintf("%s%s %s: %s (%s)", mark, c.Axis, c.Head.ID.Condition, c.Verdict, codes(c.Reasons))
	for _, u := range c.Unpaired {
		out += fmt.Sprintf(" -%s %s", u.Case, u.Reason)
	}
	return out
}

func lines(b Benchmark) string {
	var out []string
	for _, c := range b.Comparisons {
		out = append(out, line(c))
	}
	return strings.Join(out, "\n")
}

func TestAgainst(t *testing.T) {
	t.Parallel()
	digest := func(at int, agent, grade string) func(*result.Manifest, []result.Result) {
		return func(m *result.Manifest, _ []result.Result) {
			m.Cases[at].AgentDigest, m.Cases[at].GradeDigest = agent, grade
		}
	}
	good := []string{"PPPPP", "PPPPP"}
	for _, c := range []struct {
		name       string
		base, head []string
		change     func(*result.Manifest, []result.Result) // of the head
		want       string
		text       string // of the first reason
		exit       int
	}{
		{"a case broke", good, []string{"PPPPP", "FFFFF"}, nil, "gates baseline with: regressed (suite_regressed, case_regressed b)", "", 1},
		{"a case mended", []string{"PPPPP", "FFFFF"}, good, nil, "gates baseline with: improved (suite_improved, case_improved b)", "", 0},
		{"a case that the change edits leaves the pairing", []string{"PPPPP", "PPPPP"}, []string{"PPPPP", "FFFFF"}, digest(1, "edited", ""),
			"gates baseline with: underpowered (too_few_cases) -b case_changed", "", 0},
		{"so does one that is graded otherwise", good, []string{"PPPPP", "FFFFF"}, digest(1, "", "edited"),
			"gates baseline with: underpowered (too_few_cases) -b graders_changed", "", 0},
		{"a new case", []string{"PPPPP"}, []string{"FFFFF", "PPPPP"}, nil, "gates baseline with: regressed (suite_regressed, case_regressed a) -b only_head", "", 1},
		{"nothing gets better by leaving a case out", []string{"FFFFF", "PPPPP"}, []string{"PPPPP"}, nil,
			"gates baseline with: no_evidence (missing_cells_decide) -b only_base", "scored cells say improved, but with 5 missing cells against the candidate it would be regressed", 0},
		{"every case is another", []string{"PPPPP"}, []string{"FFFFF"}, digest(0, "edited", ""),
			"gates baseline with: no_evidence (incomparable) -a case_changed", "no case is the same on both sides: 1 case changed", 0},
		{"the model is another", good, []string{"PPPPP", "FFFFF"}, func(_ *result.Manifest, r []result.Result) {
			for i := range r {
				r[i].Agent.Model = "opus-5.1"
			}
		}, "gates baseline with: no_evidence (incomparable)", "model as reported: opus-5 in the baseline, opus-5.1 in the candidate", 0},
		{"the agent is another", good, good, func(m *result.Manifest, _ []result.Result) { m.Harnesses[0].Type = "codex" },
			"gates baseline with: no_evidence (incomparable)", "harness type: claude-code in the baseline, codex in the candidate", 0},
		{"the agent's version is another", good, good, func(m *result.Manifest, _ []result.Result) { m.Harnesses[0].Version = "2" },
			"gates baseline with: no_evidence (incomparable)", "harness version: 1 in the baseline, 2 in the candidate", 0},
		{"diffs are measured otherwise", good, good, func(m *result.Manifest, _ []result.Result) { m.Algorithm = "histogram" },
			"gates baseline with: no_evidence (incomparable)", "diff algorithm: test in the baseline, histogram in the candidate", 0},
		{"grades are given otherwise", good, good, func(m *result.Manifest, _ []result.Result) { m.Rules = "2" },
			"gates baseline with: no_evidence (incomparable)", "grading rules: 1 in the baseline, 2 in the candidate", 0},
		{"commands run elsewhere", good, good, func(m *result.Manifest, _ []result.Result) { m.Executor = "docker" },
			"gates baseline with: no_evidence (incomparable)", "executor: host in the baseline, docker in the candidate", 0},
		{"the condition is what is under test", good, []string{"PPPPP", "FFFFF"}, func(m *result.Manifest, _ []result.Result) { m.Conditions[0].Digest = "edited" },
			"gates baseline with: regressed (suite_regressed, case_regressed b)", "", 1},
		{"low coverage is no excuse", good, []string{"PPPPP", "-----"}, nil,
			"gates baseline with: invalid (low_coverage) -b unscored_head", "candidate: 5 of 10 planned cells scored (50 %), at least 90 % are needed", 3},
		{"nor for an incomparable one", good, []string{"PPPPP", "-----"}, digest(0, "edited", ""),
			"gates baseline with: invalid (no_pairs, low_coverage) -a case_changed -b unscored_head", "", 3},
		{"cells that only the change plans are in no pair, and missed all the same", []string{"PPPPP"}, []string{"PPPPP", "-----"}, nil,
			"gates baseline with: invalid (low_coverage) -b only_head", "", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			say := func(m *result.Manifest, r []result.Result) {
				m.Rules, m.Harnesses[0].Version = "1", "1"
				for i := range r {
					r[i].Agent.Model = "opus-5"
				}
			}
			base := lone(t, suiteOf(c.base...), say)
			if c.change == nil {
				c.change = func(*result.Manifest, []result.Result) {}
			}
			b := lone(t, suiteOf(c.head...), say, c.change).Against(stored(base))
			if got := lines(b); got != c.want || b.Gate.ExitCode != c.exit || b.Reason != b.Comparisons[0].Reasons[0] {
				t.Errorf("%s, exit %d\nwant %s, exit %d", got, b.Gate.ExitCode, c.want, c.exit)
			}
			if got := b.Reason.Text; c.text != "" && got != c.text {
				t.Errorf("reason %q, want %q", got, c.text)
			}
			if c := b.Comparisons[0]; c.Obstacle != nil && slices.ContainsFunc(c.PCases, func(p CasePair) bool { return p.Regressed || p.Improved }) {
				t.Errorf("a case moved in what cannot be compared: %+v", c.PCases)
			}
			if b.Origin.SHA == "" || b.Origin.Source != "merge-base" {
				t.Errorf("origin %+v", b.Origin)
			}
		})
	}
}

func TestAgainstNothing(t *testing.T) {
	t.Parallel()
	head := lone(t, suiteOf("PPP"))
	untrusted := head
	untrusted.Metadata.Untrusted = true
	other := lone(t, suiteOf("PPP"), func(m *result.Manifest, r []result.Result) {
		m.Conditions[0].ID = "other"
		for i := range m.Cells {
			m.Cells[i].Condition, r[i].Condition = "other", "other"
		}
	})
	for _, c := range []struct {
		name   string
		stored Stored
		code   string
		text   string
	}{
		{"none", Stored{Origin: Origin{Source: "none", Why: "no run of commit c0ffee1; push to main first"}}, noBaseline, "no run of commit c0ffee1; push to main first"},
		{"none, and nobody says why", Stored{}, noBaseline, "no stored baseline was found"},
		{"too old", Stored{Origin: Origin{Source: "none", Reason: staleBaseline, Why: "20 days old"}}, staleBaseline, "20 days old"},
		{"a word of its own is no reason", Stored{Origin: Origin{Source: "none", Reason: "could_not_look", Why: "403"}}, noBaseline, "403"},
		{"not trusted", stored(untrusted), noBaseline, "the stored results come from a run that is not trusted; measure the baseline again"},
		{"another arm", stored(other), noBaseline, "the stored baseline has no such arm"},
	} {
		b := head.Against(c.stored)
		if len(b.Comparisons) != 1 || !b.Comparisons[0].Gates || b.Verdict != NoEvidence || b.Reason != (Reason{Code: c.code, Text: c.text}) || b.Gate.ExitCode != 0 {
			t.Errorf("%s: %s, %+v", c.name, lines(b), b.Reason)
		}
		strict, err := b.Regate(with(gate, func(g *result.Gate) { g.FailOn = []string{noBaseline, staleBaseline} }))
		if err != nil || strict.Gate.ExitCode != 1 || strict.Gate.By != c.code {
			t.Errorf("%s, to a gate that wants one: %+v, %v", c.name, strict.Gate, err)
		}
	}
	lost := lone(t, suiteOf("P--")).Against(Stored{})
	if lost.Verdict != Invalid || lost.Reason.Code != lowCoverage || lost.Gate.ExitCode != 3 {
		t.Errorf("without a baseline and most cells: %s %+v", lost.Verdict, lost.Reason)
	}
}

func with(g result.Gate, change func(*result.Gate)) result.Gate {
	change(&g)
	return g
}

// threeWays is a run with a baseline condition, a candidate and the candidate's base version, all trials alike in one of
// them. The letters are those of two cases.
func threeWays(t testing.TB, baseline, twin, head string) Benchmark {
	t.Helper()
	m, results := input([]outcomes{{"a", baseline, head}, {"b", baseline, head}})
	m.Conditions = append(m.Conditions, result.Condition{ID: "with@base", TwinOf: "with"})
	for _, name := range []string{"a", "b"} {
		for trial, letter := range twin {
			r := cellResult(name, "with@base", trial+1, letter)
			m.Cells, results = append(m.Cells, r.Cell), append(results, r)
		}
	}
	return mustMake(t, m, results)
}

func TestWhichComparisonGates(t *testing.T) {
	t.Parallel()
	const up, down = "PPPPP", "FFFFF"
	base := threeWays(t, up, up, up)
	b := threeWays(t, down, up, up).Against(stored(base))
	want := `baseline without: regressed (suite_regressed, case_regressed a, case_regressed b)
gates twin with: underpowered (too_few_cases)
baseline with: underpowered (too_few_cases)
condition with: improved (suite_improved, case_improved a, case_improved b)`
	if diff := cmp.Diff(want, lines(b)); diff != "" {
		t.Error(diff)
	}
	if b.Verdict != Underpowered || b.Gate.ExitCode != 0 {
		t.Errorf("the baseline's drift gates: %s, %+v", b.Verdict, b.Gate)
	}
	for _, c := range b.Comparisons {
		if c.Alpha != gate.Alpha {
			t.Errorf("%s has alpha %v, and one comparison gates", line(c), c.Alpha)
		}
	}

	plain := func(baseline, head string) Benchmark {
		m, results := input([]outcomes{{"a", baseline, head}, {"b", baseline, head}})
		return mustMake(t, m, results)
	}
	two := plain(up, down).Against(stored(plain(up, up)))
	want = `baseline without: underpowered (too_few_cases)
gates baseline with: regressed (suite_regressed, case_regressed a, case_regressed b)
condition with: regressed (suite_regressed, case_regressed a, case_regressed b)`
	if diff := cmp.Diff(want, lines(two)); diff != "" {
		t.Error(diff)
	}

	// An obstacle leaves the gate to the next comparison, unless the gate asks for exactly that.
	strange := plain(up, up)
	strange.Fingerprint.Executor = "docker"
	passed := plain(down, up).Against(stored(strange))
	want = `baseline without: no_evidence (incomparable)
baseline with: no_evidence (incomparable)
gates condition with: improved (suite_improved, case_improved a, case_improved b)`
	if diff := cmp.Diff(want, lines(passed)); diff != "" {
		t.Error(diff)
	}
	strict, err := passed.Regate(with(gate, func(g *result.Gate) { g.FailOn = []string{incomparable} }))
	if err != nil || strict.Verdict != Improved || strict.Gate.ExitCode != 1 || strict.Gate.By != incomparable || strict.Gate.Result != "failed" {
		t.Errorf("%s %+v, %v", strict.Verdict, strict.Gate, err)
	}
}

// A base version is no candidate: not in the summary's first place, under no floor, and the verdict is not its.
func TestTwinsAreNotUnderTest(t *testing.T) {
	t.Parallel()
	b := threeWays(t, "PPPPP", "FFFFF", "PPPPP")
	if b.RunSummary.Conditions[0].Condition != "with" || b.RunSummary.Conditions[2].Condition != "with@base" {
		t.Errorf("summary %+v", b.RunSummary.Conditions)
	}
	low, err := b.Regate(with(gate, func(g *result.Gate) { g.MinPassRate = ptr(0.2) }))
	if err != nil || low.Gate.ExitCode != 0 {
		t.Errorf("%+v, %v", low.Gate, err)
	}
	high, err := b.Regate(with(gate, func(g *result.Gate) { g.MinPassRate = ptr(0.9) }))
	if err != nil || high.Gate.By != belowFloor || high.Gate.ExitCode != 1 {
		t.Errorf("ten passed trials of two cases prove 90 %%: %+v, %v", high.Gate, err)
	}
}

func TestFailOn(t *testing.T) {
	t.Parallel()
	verdicts := map[Verdict]Benchmark{}
	for _, c := range [][]outcomes{
		{{"tz", "PPPPP", "FFFFF"}}, {{"tz", "PPP", "FFF"}}, times(40, "PPPFF", "FPPPF"), times(2, "--", "--"),
		{{"tz", "FFFFF", "PPPPP"}}, times(24, "PPPPPPPPPP", "PPPPPPPPPP"),
	} {
		m, results := input(c)
		b := mustMake(t, m, results)
		verdicts[b.Verdict] = b
	}
	for _, c := range []struct {
		failOn       []string
		underpowered string
		want         map[Verdict]int // those that are not there pass
	}{
		{nil, "warn", map[Verdict]int{Regressed: 1, Invalid: 3}},
		{nil, "fail", map[Verdict]int{Regressed: 1, Invalid: 3, Underpowered: 1}},
		{[]string{}, "warn", nil},
		{[]string{"regressed"}, "warn", map[Verdict]int{Regressed: 1}},
		{[]string{"invalid"}, "warn", map[Verdict]int{Invalid: 3}},
		{[]string{"no_evidence", "underpowered"}, "warn", map[Verdict]int{NoEvidence: 1, Underpowered: 1}},
		{[]string{"no_baseline", "incomparable", "stale_baseline"}, "warn", nil},
	} {
		if len(verdicts) != len(worstFirst) {
			t.Fatalf("%d verdicts", len(verdicts))
		}
		for v, b := range verdicts {
			got, err := b.Regate(with(gate, func(g *result.Gate) { g.FailOn, g.Underpowered = c.failOn, c.underpowered }))
			if err != nil || got.Verdict != v || got.Gate.ExitCode != c.want[v] || got.Gate.Result != decisions[c.want[v]] {
				t.Errorf("fail_on %q, underpowered %s, %s: %+v, %v; want exit %d", c.failOn, c.underpowered, v, got.Gate, err, c.want[v])
			}
		}
	}
	b := verdicts[Regressed]
	if _, err := b.Regate(with(gate, func(g *result.Gate) { g.FailOn = []string{"improved"} })); err == nil || !strings.Contains(err.Error(), `"improved"; it may hold regressed, underpowered, no_evidence, invalid, no_baseline, incomparable, stale_baseline`) {
		t.Errorf("unknown word: %v", err)
	}
	if _, err := b.Regate(result.Gate{}); err == nil {
		t.Error("alpha 0 is taken")
	}
}

// The gate looks past a regression that it was told to let pass.
func TestGateIsDecidedByWhatItSaysNoTo(t *testing.T) {
	t.Parallel()
	m, results := input([]outcomes{{"tz", "PPPPPPPP", "FFFFFFFF"}})
	m.Conditions = append(m.Conditions, result.Condition{ID: "other"})
	m.Gate.FailOn = []string{"underpowered"}
	for trial := range 2 {
		r := cellResult("tz", "other", trial+1, 'P')
		m.Cells, results = append(m.Cells, r.Cell), append(results, r)
	}
	b := mustMake(t, m, results)
	if b.Verdict != Regressed || b.Gate.ExitCode != 1 || b.Gate.By != tooFewTrials || !strings.HasPrefix(b.Gate.Text, "claude/opus/other: ") {
		t.Errorf("%s, %+v", b.Verdict, b.Gate)
	}
}

func TestRegate(t *testing.T) {
	t.Parallel()
	m, results := input(times(20, "PPP", "PFP"))
	m.Gate.MarginPP = 50
	planned := mustMake(t, m, results)
	if planned.Verdict != Underpowered || planned.Gate.PostHoc {
		t.Fatalf("%s, %+v", planned.Verdict, planned.Gate)
	}
	strict := with(m.Gate, func(g *result.Gate) {
		g.MarginPP, g.FailOn, g.MinPassRate = 2, []string{"regressed", "no_evidence"}, ptr(0.5)
	})
	b, err := planned.Regate(strict)
	if err != nil {
		t.Fatal(err)
	}
	if b.Verdict != Regressed || b.Gate.ExitCode != 1 || !b.Gate.PostHoc || b.Gate.Planned.MarginPP != 50 {
		t.Errorf("%s, %+v", b.Verdict, b.Gate)
	}
	if want := "The gate's settings are not those that the run was planned under: margin_pp 50 → 2, min_pass_rate none → 0.5, fail_on regressed+invalid → regressed+no_evidence."; b.Notes[0] != want {
		t.Errorf("note %q", b.Notes[0])
	}
	back, err := b.Regate(m.Gate)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(planned, back); diff != "" {
		t.Errorf("the planned settings do not give the planned decision back:\n%s", diff)
	}
}

func TestGateChanged(t *testing.T) {
	t.Parallel()
	base := lone(t, suiteOf("PPP", "PPP"))
	b := lone(t, suiteOf("PPP", "PPP"), func(m *result.Manifest, _ []result.Result) { m.Gate.MarginPP = 30 }).Against(stored(base))
	want := Warning{gateChanged, "the gate has changed since the stored baseline was measured: margin_pp 2 → 30"}
	if !slices.Contains(b.Comparisons[0].Warnings, want) || b.Origin.Gate == nil || b.Gate.PostHoc {
		t.Errorf("%+v, %+v", b.Comparisons[0].Warnings, b.Origin)
	}
	same := lone(t, suiteOf("PPP", "PPP")).Against(stored(base))
	if same.Origin.Gate != nil || slices.ContainsFunc(same.Comparisons[0].Warnings, func(w Warning) bool { return w.Code == gateChanged }) {
		t.Errorf("%+v", same.Comparisons[0].Warnings)
	}
}

func TestCasesDiffer(t *testing.T) {
	t.Parallel()
	base := lone(t, suiteOf("PPP", "PPP", "PPP"))
	head := suiteOf("PPP", "PPP", "PPP", "PPP")[:]
	head = append(head[:1], head[2:]...) // b is gone, d is new
	b := lone(t, head, func(m *result.Manifest, _ []result.Result) { m.Cases[1].GradeDigest = "edited" }).Against(stored(base))
	if want := (Warning{casesDiffer, "1 case graded otherwise, 1 case new, 1 case gone"}); !slices.Contains(b.Comparisons[0].Warnings, want) {
		t.Errorf("%+v", b.Comparisons[0].Warnings)
	}
}

// drawnRun is a run with two conditions, drawnArm one of the candidate alone.
func drawnRun(t *rapid.T, cases []outcomes) Benchmark {
	m, results := input(cases)
	m.Gate.MinCoverage = 0
	b, err := Make(m, sequence(results))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func drawnArm(t *rapid.T, cases []outcomes) Benchmark {
	cases = slices.Clone(cases)
	for i := range cases {
		cases[i].base = ""
	}
	return drawnRun(t, cases)
}

func TestABaselineChangesNoRate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		head, base := drawnRun(t, drawOutcomes(t)), drawnArm(t, drawOutcomes(t))
		before, err := head.JSON()
		if err != nil {
			t.Fatal(err)
		}
		b := head.Against(stored(base))
		after, _ := head.JSON()
		if !bytes.Equal(before, after) {
			t.Fatal("Against changed its receiver")
		}
		b.Comparisons, b.Origin, b.History, b.Gate = head.Comparisons, nil, nil, head.Gate
		b.Verdict, b.Reason, b.Notes = head.Verdict, head.Reason, head.Notes
		if diff := cmp.Diff(head, b); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestNothingMovesAgainstItself(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := drawnArm(t, drawOutcomes(t))
		c := b.Against(stored(b)).Comparisons[0]
		if c.Axis != axisBaseline || c.Verdict == Regressed || c.Verdict == Improved {
			t.Fatal(line(c))
		}
	})
}

// A cell that is lost on either side, or a case that the change leaves out, is never good news.
func TestLosingNeverImprovesAgainstABaseline(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base, head := drawOutcomes(t), drawOutcomes(t)
		verdict := func() Verdict { return drawnArm(t, head).Against(stored(drawnArm(t, base))).Comparisons[0].Verdict }
		before := verdict()
		if side := rapid.SampledFrom([]*[]outcomes{&base, &head}).Draw(t, "side"); side == &head && len(head) > 1 && rapid.Bool().Draw(t, "whole case") {
			head = head[:len(head)-1]
		} else {
			lost := &(*side)[rapid.IntRange(0, len(*side)-1).Draw(t, "case")]
			lost.head = "-" + lost.head[1:]
		}
		if after := verdict(); after == Improved && before != Improved {
			t.Fatalf("%s became improved", before)
		}
	})
}

// The order of what a file lists changes nothing, and neither does writing it down in between.
func TestOrderOfAStoredBaselineChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		head, base := drawnRun(t, drawOutcomes(t)), drawnArm(t, drawOutcomes(t))
		want, err := head.Against(stored(base)).JSON()
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		random.Shuffle(len(base.CaseArms), func(i, j int) { base.CaseArms[i], base.CaseArms[j] = base.CaseArms[j], base.CaseArms[i] })
		random.Shuffle(len(base.Arms), func(i, j int) { base.Arms[i], base.Arms[j] = base.Arms[j], base.Arms[i] })
		random.Shuffle(len(head.Comparisons), func(i, j int) {
			head.Comparisons[i], head.Comparisons[j] = head.Comparisons[j], head.Comparisons[i]
		})
		got, err := again(t, head).Against(stored(again(t, base))).JSON()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, got) {
			t.Fatal(cmp.Diff(string(want), string(got)))
		}
	})
}

// A benchmark that was read can be judged again, to the byte: with the same settings, and with others.
func TestJudgedAgainIsTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		run := rapid.SampledFrom([]func(*rapid.T, []outcomes) Benchmark{drawnArm, drawnRun}).Draw(t, "run")
		b := run(t, drawOutcomes(t)).Against(stored(drawnArm(t, drawOutcomes(t))))
		other := with(b.Gate.Settings, func(g *result.Gate) { g.MarginPP, g.MinCoverage, g.MarginEqPP = 20, 0.7, 40 })
		here, err := b.Regate(other)
		if err != nil {
			t.Fatal(err)
		}
		there, err := again(t, b).Regate(other)
		if err != nil {
			t.Fatal(err)
		}
		x, _ := here.JSON()
		y, _ := there.JSON()
		if !bytes.Equal(x, y) {
			t.Fatal(cmp.Diff(string(x), string(y)))
		}
		same, _ := b.Regate(b.Gate.Settings)
		if diff := cmp.Diff(b, same); diff != "" {
			t.Fatal(diff)
		}
	})
}

// again writes a benchmark and reads it.
func again(t interface{ Fatal(...any) }, b Benchmark) Benchmark {
	data, err := b.JSON()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return back
}

func TestReadRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*Benchmark)
		want   string
	}{
		{"an alpha", func(b *Benchmark) { b.Gate.Settings.Alpha = 1 }, "alpha of the gate is 1"},
		{"a planned alpha", func(b *Benchmark) { b.Gate.Planned = &result.Gate{} }, "alpha of the gate is 0"},
		{"a word", func(b *Benchmark) { b.Gate.Settings.FailOn = []string{"bad luck"} }, `fail_on of the gate holds "bad luck"`},
		{"a verdict", func(b *Benchmark) { b.Verdict = "fine" }, `there is no verdict "fine"`},
		{"a decision", func(b *Benchmark) { b.Gate.ExitCode = 7 }, "does not go with its exit code 7"},
		{"a green word", func(b *Benchmark) { b.Gate.Result = "passed" }, `the gate's result "passed" does not go with its exit code 1`},
		{"an arm twice", func(b *Benchmark) { b.Arms = append(b.Arms, b.Arms[0]) }, "arm claude/opus/without is there twice"},
		{"negative counts", func(b *Benchmark) { b.Arms[0].Coverage.Passed = -1 }, "the counts of arm claude/opus/without do not add up"},
		{"more scored than planned", func(b *Benchmark) { b.CaseArms[0].Coverage.Planned = 1 }, "the counts of case tz of arm claude/opus/without do not add up"},
		{"a case twice", func(b *Benchmark) { b.CaseArms = append(b.CaseArms, b.CaseArms[0]) }, "the counts of case tz"},
		{"more trials than anyone has", func(b *Benchmark) {
			c := &b.CaseArms[0].Coverage
			*c = Coverage{Planned: 1 << 30, Scored: 1 << 30, Passed: 1 << 30}
		}, "do not add up"},
		{"a pair without trials", func(b *Benchmark) { b.Comparisons[0].PCases[0].Base = Passes{} }, "comparison of claude/opus/with: case tz is paired without trials"},
		{"more passes than trials", func(b *Benchmark) { b.Comparisons[0].PCases[0].Base.Passed = 9 }, "the counts of case tz do not add up"},
		{"a pair twice", func(b *Benchmark) {
			b.Comparisons[0].PCases = append(b.Comparisons[0].PCases, b.Comparisons[0].PCases[0])
		}, "case tz is there twice"},
		{"no reason", func(b *Benchmark) { b.Comparisons[0].Reasons = nil }, "no verdict with a reason"},
	} {
		m, results := input([]outcomes{{"tz", "PPPPP", "FFFFF"}})
		b := mustMake(t, m, results)
		c.change(&b)
		data, err := b.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(bytes.NewReader(data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// Whatever a stored baseline holds, comparing with it ends, and the result can be written down, read and judged again.
func FuzzAgainst(f *testing.F) {
	m, results := input([]outcomes{{"tz", "PPP", "FFF"}, {"b", "P-E", "S"}})
	head := mustMake(f, m, results)
	for _, b := range []Benchmark{head, head.Against(stored(head)), head.Against(Stored{})} {
		data, err := json.Marshal(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		foreign, err := Read(bytes.NewReader(data))
		if err != nil || foreign.Coverage.Planned > 100 {
			return
		}
		for _, c := range foreign.CaseArms {
			if c.Coverage.Planned > 100 {
				return // it would end as well, only later
			}
		}
		if again(t, head.Against(stored(foreign))).Gate.Result == "" {
			t.Error("no decision")
		}
		b, err := foreign.Regate(gate)
		if err != nil {
			t.Fatal(err)
		}
		again(t, b.Against(stored(head)))
	})
}

// created is the only clock of an origin.
func TestWithoutTimesOfABaseline(t *testing.T) {
	t.Parallel()
	b := lone(t, suiteOf("PPP"))
	s := stored(b)
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	s.Origin.Created = &early
	x := b.Against(s)
	s.Origin.Created = &late
	y := b.Against(s)
	if diff := cmp.Diff(x.WithoutTimes(), y.WithoutTimes()); diff != "" || x.Origin.Created != &early {
		t.Error(diff, x.Origin)
	}
}
