package bench

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// gate is what a suite has when it says nothing.
var gate = result.Gate{Alpha: 0.05, MarginPP: 2, MarginEqPP: 5, MDEMaxPP: 15, MinCoverage: 0.9, Claim: "suite", Underpowered: "warn"}

// outcomes are the trials of one case: a letter a trial, by condition. P passed, F failed, E errored, S skipped,
// - planned and without a result.
type outcomes struct {
	name       string
	base, head string
}

// times gives n cases of the same outcomes.
func times(n int, base, head string) []outcomes {
	var out []outcomes
	for i := range n {
		out = append(out, outcomes{fmt.Sprintf("case-%03d", i), base, head})
	}
	return out
}

// input makes what Make takes, for one scripted harness and the conditions without (baseline) and with.
func input(cases []outcomes) (result.Manifest, []result.Result) {
	m := result.Manifest{
		Schema: result.Schema, Tool: "test", Suite: "suite", Digest: "sha256:0", Seed: "1", Executor: "host", Algorithm: "test",
		Created: time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC), Gate: gate,
		Harnesses:  []result.Harness{{ID: "claude", Type: "claude-code", Models: []string{"opus"}}},
		Conditions: []result.Condition{{ID: "without", Baseline: true, Digest: "a"}, {ID: "with", Digest: "b"}},
	}
	var results []result.Result
	for i, c := range cases {
		m.Cases = append(m.Cases, result.Case{ID: c.name, File: c.name + "/case.yaml", Line: 1})
		for _, side := range []struct{ condition, letters string }{{"without", c.base}, {"with", c.head}} {
			for trial, letter := range side.letters {
				r := cellResult(c.name, side.condition, trial+1, letter)
				r.Took.Agent = time.Duration(i+trial+1) * time.Second
				m.Cells = append(m.Cells, r.Cell)
				if letter != '-' {
					results = append(results, r)
				}
			}
		}
	}
	return m, results
}

func cellResult(name, condition string, trial int, letter rune) result.Result {
	r := result.Result{Schema: result.Schema, Attempt: 1, Threshold: 1}
	r.Case, r.Harness, r.Model, r.Condition, r.Trial = name, "claude", "opus", condition, trial
	r.Key = fmt.Sprintf("%s-%s-%d", name, condition, trial)
	r.GradeKey = "g-" + r.Key
	yes := letter == 'P'
	switch letter {
	case 'P':
		r.Status = result.Passed
	case 'F':
		r.Status = result.Failed
	case 'E':
		r.Status, r.Class, r.Detail = result.Errored, "model_api", "529 overloaded"
	case 'S':
		r.Status, r.Reason = result.Skipped, result.BudgetSpent
	}
	if r.Status.Scored() {
		r.Scores = []result.Score{{ID: "correct", Type: "command", Gate: true, Weight: 1, Passed: &yes, Text: "the tests pass", Evidence: "exit"}}
	}
	return r
}

func sequence(results []result.Result) iter.Seq2[result.Result, error] {
	return func(yield func(result.Result, error) bool) {
		for _, r := range results {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// mustMake makes a benchmark, and holds it against the count of the same results, in another order.
func mustMake(t rapid.TB, m result.Manifest, results []result.Result) Benchmark {
	t.Helper()
	b, err := Make(m, sequence(results))
	if err != nil {
		t.Fatal(err)
	}
	backwards := slices.Clone(results)
	slices.Reverse(backwards)
	if !b.Of(mustCount(t, m, backwards)) {
		t.Error("the benchmark is not of the results that it was made from")
	}
	return b
}

// mustCount counts results of which no more is known than result.ReadNumbers gives.
func mustCount(t rapid.TB, m result.Manifest, results []result.Result) Counts {
	t.Helper()
	numbers := make([]result.Result, len(results))
	for i, r := range results {
		numbers[i] = result.Result{
			Cell: r.Cell, Attempt: r.Attempt, Status: r.Status, Class: r.Class, Reason: r.Reason,
			Agent: result.Agent{Turns: r.Agent.Turns, Usage: r.Agent.Usage}, Took: r.Took,
		}
		if r.DiffScope != nil {
			numbers[i].DiffScope = &diffscope.Scope{Counts: r.DiffScope.Counts}
		}
	}
	c, err := Count(m, sequence(numbers))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func codes(reasons []Reason) string {
	var out []string
	for _, r := range reasons {
		out = append(out, strings.TrimSuffix(r.Code+" "+r.Case, " "))
	}
	return strings.Join(out, ", ")
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	broken := append(times(9, "FFPPF", "PPPPF"), outcomes{"timezone", "PPPPPPPP", "FFFFFFFF"})
	for _, c := range []struct {
		name    string
		cases   []outcomes
		change  func(*result.Gate)
		verdict Verdict
		reasons string
		exit    int
	}{
		{"one case of five trials broke", []outcomes{{"tz", "PPPPP", "FFFFF"}}, nil, Regressed, "suite_regressed, case_regressed tz", 1},
		{"three trials of one case cannot tell", []outcomes{{"tz", "PPP", "FFF"}}, nil, Underpowered, "too_few_trials", 0},
		{"underpowered fails a release", []outcomes{{"tz", "PPP", "FFF"}}, func(g *result.Gate) { g.Underpowered = "fail" }, Underpowered, "too_few_trials", 1},
		{"a population has more than one case", []outcomes{{"a", "PPPPP", "FFFFF"}, {"b", "PPPPP", "FFFFF"}}, func(g *result.Gate) { g.Claim = "population" }, Regressed, "case_regressed a, case_regressed b", 1},
		{"a population of cases that all fell", times(6, "PPP", "FFF"), func(g *result.Gate) { g.Claim = "population" }, Regressed, "suite_regressed", 1},
		{"one case mended", []outcomes{{"tz", "FFFFF", "PPPPP"}}, nil, Improved, "suite_improved, case_improved tz", 0},
		{"every case fell a little", times(20, "PPP", "PFP"), nil, Regressed, "suite_regressed", 1},
		{"a fall inside the margin is none", times(20, "PPP", "PFP"), func(g *result.Gate) { g.MarginPP = 50 }, Underpowered, "too_few_cases", 0},
		{"one broken case beats a rising suite", broken, nil, Regressed, "case_regressed timezone", 1},
		{"many equal cases", times(24, "PPPPPPPPPP", "PPPPPPPPPP"), nil, Equivalent, "within_margin", 0},
		{"few equal cases", times(5, "PPPPP", "PPPPP"), nil, Underpowered, "too_few_cases", 0},
		{"noise", times(40, "PPPFF", "FPPPF"), nil, NoEvidence, "interval_spans_margin", 0},
		{"low coverage of the candidate", times(10, "PPPPP", "PPP-S"), nil, Invalid, "low_coverage", 3},
		{"errors fall on one side", times(10, "PPPPP", "PPEPP"), func(g *result.Gate) { g.MinCoverage = 0.5 }, Invalid, "errors_differ_by_arm", 3},
		{"the candidate's CLI is missing", times(9, "PP", "EE"), nil, Invalid, "no_pairs, low_coverage, errors_differ_by_arm", 3},
		{"nothing ran", times(2, "--", "--"), nil, Invalid, "no_pairs, low_coverage, low_coverage", 3},
		{"missing cells could turn it", []outcomes{{"tz", "FFFFF", "PPPP-"}}, func(g *result.Gate) { g.Alpha, g.MinCoverage = 0.02, 0.5 }, NoEvidence, "missing_cells_decide", 0},
		{"pass rate below the floor", []outcomes{{"tz", "FFFFF", "PPPPP"}, {"b", "FFFFF", "FFFFF"}}, func(g *result.Gate) { g.MinPassRate = ptr(0.8) }, Improved, "suite_improved, case_improved tz", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m, results := input(c.cases)
			if c.change != nil {
				c.change(&m.Gate)
			}
			b := mustMake(t, m, results)
			got := b.Comparisons[0]
			if b.Verdict != c.verdict || codes(got.Reasons) != c.reasons || b.Gate.ExitCode != c.exit {
				t.Errorf("%s (%s), exit %d; want %s (%s), exit %d\n%+v", b.Verdict, codes(got.Reasons), b.Gate.ExitCode, c.verdict, c.reasons, c.exit, got.Reasons)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

func TestNoBaseline(t *testing.T) {
	t.Parallel()
	m, results := input([]outcomes{{"a", "", "PPP"}})
	m.Conditions = m.Conditions[1:]
	b := mustMake(t, m, results)
	if b.Verdict != NoEvidence || b.Reason.Code != noBaseline || b.RunSummary.Delta != nil {
		t.Errorf("%s %+v, delta %v", b.Verdict, b.Reason, b.RunSummary.Delta)
	}
	b = mustMake(t, m, results[:1])
	if b.Verdict != Invalid || b.Reason.Code != lowCoverage || b.Gate.Result != "unmeasured" {
		t.Errorf("one of three cells: %s %+v", b.Verdict, b.Reason)
	}
}

func TestDifferentModelsAreIncomparable(t *testing.T) {
	t.Parallel()
	m, results := input(times(3, "PPP", "PPP"))
	for i := range results {
		results[i].Agent.Model = "opus-" + results[i].Condition
	}
	b := mustMake(t, m, results)
	if b.Verdict != NoEvidence || b.Reason.Code != incomparable || b.Reason.Text != "model as reported: opus-without in the baseline, opus-with in the candidate" {
		t.Errorf("%s %+v", b.Verdict, b.Reason)
	}
}

// TestLostConditionIsNotCompared: one cell in a hundred without its condition says that the others may have had it by luck.
func TestLostConditionIsNotCompared(t *testing.T) {
	t.Parallel()
	for name, side := range map[string]string{"baseline": "without", "candidate": "with"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, results := input(times(10, "PFPFPFPFPF", "PPPPPPPPPP"))
			yes, lost := true, false
			for i := range results {
				results[i].ConditionVerified = &yes
				if r := &results[i]; r.Condition == side && !lost {
					lost = true
					r.Status, r.Class, r.ConditionVerified, r.Scores = result.Errored, trace.ClassCondition, new(bool), nil
				}
			}
			b := mustMake(t, m, results)
			if b.Verdict != Invalid || b.Reason.Code != conditionNotHeld || b.Gate.ExitCode != ExitUnmeasured || len(b.Comparisons[0].Reasons) != 1 {
				t.Errorf("%s %+v, exit code %d", b.Verdict, b.Reason, b.Gate.ExitCode)
			}
			if p := b.Comparisons[0].PCases; p[0].Improved || p[0].Regressed {
				t.Errorf("a case was judged: %+v", p[0])
			}
			for _, a := range b.Arms {
				want := Held{Verified: 100}
				if a.Condition == side {
					want = Held{Verified: 99, NotHeld: 1}
				}
				if a.Held != want {
					t.Errorf("%s: %+v", a, a.Held)
				}
			}
			if again, err := b.Regate(gate); err != nil || again.Verdict != Invalid {
				t.Errorf("judged again: %v, %v", again.Verdict, err)
			}
		})
	}
	m, results := input(times(2, "PF-", "ES-"))
	if a := mustMake(t, m, results).Arms; a[0].Held != (Held{Unknown: 4}) || a[1].Held != (Held{Unknown: 2}) {
		t.Errorf("%+v and %+v", a[0].Held, a[1].Held)
	}
}

func TestWorstCaseWarning(t *testing.T) {
	t.Parallel()
	m, results := input(append(times(11, "PPPPP", "PPPPP"), outcomes{"tz", "PPPPP", "-----"}))
	c := mustMake(t, m, results).Comparisons[0]
	if c.Verdict != NoEvidence || c.WorstCase == nil || c.WorstCase.Verdict != Regressed || c.Warnings[0].Code != worstCaseRegressed {
		t.Errorf("%s, worst case %+v, warnings %+v", c.Verdict, c.WorstCase, c.Warnings)
	}
	if diff := cmp.Diff([]Unpaired{{"tz", "unscored_head", Passes{5, 5, 5, 0}, Passes{0, 0, 5, 0}}}, c.Unpaired); diff != "" {
		t.Error(diff)
	}
}

// With two candidates each has half of the level.
func TestAlphaIsShared(t *testing.T) {
	t.Parallel()
	m, results := input([]outcomes{{"tz", "PPPPP", "FFFFF"}})
	m.Conditions = append(m.Conditions, result.Condition{ID: "other"})
	for trial := range 5 {
		r := cellResult("tz", "other", trial+1, 'P')
		m.Cells = append(m.Cells, r.Cell)
		results = append(results, r)
	}
	b := mustMake(t, m, results)
	if len(b.Comparisons) != 2 || b.Comparisons[0].Alpha != 0.025 || b.Verdict != Regressed {
		t.Errorf("%d comparisons, alpha %v, %s", len(b.Comparisons), b.Comparisons[0].Alpha, b.Verdict)
	}
	if want := "claude/opus/with: "; !strings.HasPrefix(b.Reason.Text, want) {
		t.Errorf("reason %q does not name the arm", b.Reason.Text)
	}
	var keys []string
	for _, e := range b.RunSummary.Conditions {
		keys = append(keys, e.Condition)
	}
	if diff := cmp.Diff([]string{"with", "without", "other"}, keys); diff != "" {
		t.Error(diff)
	}
}

func TestResultsThatDoNotBelong(t *testing.T) {
	t.Parallel()
	m, results := input([]outcomes{{"a", "PPP", "PPP"}})
	stale := results[0]
	stale.GradeKey = "graded otherwise"
	results[0] = stale
	b, err := Make(m, func(yield func(result.Result, error) bool) {
		if yield(result.Result{}, errors.New("cells/b: torn")) {
			sequence(results)(yield)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Missing) != 1 || b.Missing[0].Status != "pending" || b.Coverage.Planned != 6 || b.Coverage.Scored != 5 {
		t.Errorf("missing %+v, coverage %+v", b.Missing, b.Coverage)
	}
	if diff := cmp.Diff([]string{"a claude/opus/without trial 1"}, b.Unplanned); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"cells/b: torn"}, b.Unreadable); diff != "" {
		t.Error(diff)
	}
}

func TestMakeRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*result.Manifest, *[]result.Result)
		want   string
	}{
		{"no gate", func(m *result.Manifest, _ *[]result.Result) { m.Gate = result.Gate{} }, "manifest: alpha of the gate is 0, it must lie between 0 and 1"},
		{"a cell twice", func(m *result.Manifest, _ *[]result.Result) { m.Cells = append(m.Cells, m.Cells[0]) }, "is planned twice"},
		{"a result twice", func(_ *result.Manifest, r *[]result.Result) { *r = append(*r, (*r)[0]) }, "ledger: two results of a claude/opus/with"},
		{"unknown condition", func(m *result.Manifest, _ *[]result.Result) { m.Conditions = m.Conditions[:1] }, "has a condition that is not listed"},
	} {
		m, results := input([]outcomes{{"a", "P", "P"}})
		c.change(&m, &results)
		if _, err := Make(m, sequence(results)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
		if _, err := Count(m, sequence(results)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("count, %s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// A benchmark is of no other results: not of these without one, nor with another end of one.
func TestCountSeesEveryResult(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, results := input(drawOutcomes(t))
		if len(results) == 0 {
			return
		}
		b := mustMake(t, m, results)
		i := rapid.IntRange(0, len(results)-1).Draw(t, "which")
		other := slices.Clone(results)
		switch rapid.SampledFrom([]string{"gone", "other end", "other tokens"}).Draw(t, "change") {
		case "gone":
			other = slices.Delete(other, i, i+1)
		case "other end":
			other[i].Status = map[result.Status]result.Status{result.Passed: result.Failed, result.Failed: result.Errored, result.Errored: result.Skipped, result.Skipped: result.Passed}[other[i].Status]
		default:
			if !other[i].Status.Scored() {
				return // in no median
			}
			for j := range other { // a median may stay where it is when one value moves
				other[j].Agent.Usage = &trace.Usage{Input: ptr(int64(1 << 40)), Output: ptr(int64(j))}
			}
		}
		if b.Of(mustCount(t, m, other)) {
			t.Errorf("of other results too: %v", other[i].Cell)
		}
	})
}

// drawOutcomes gives a small suite with every kind of end.
func drawOutcomes(t *rapid.T) []outcomes {
	letters := rapid.StringOfN(rapid.SampledFrom([]rune("PPPPFFFFES-")), 1, 6, -1)
	var out []outcomes
	for i := range rapid.IntRange(1, 6).Draw(t, "cases") {
		out = append(out, outcomes{fmt.Sprintf("case-%d", i), letters.Draw(t, "base"), letters.Draw(t, "head")})
	}
	return out
}

func TestOrderChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, results := input(drawOutcomes(t))
		want, err := Make(m, sequence(results))
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		random.Shuffle(len(results), func(i, j int) { results[i], results[j] = results[j], results[i] })
		random.Shuffle(len(m.Cells), func(i, j int) { m.Cells[i], m.Cells[j] = m.Cells[j], m.Cells[i] })
		random.Shuffle(len(m.Cases), func(i, j int) { m.Cases[i], m.Cases[j] = m.Cases[j], m.Cases[i] })
		got, err := Make(m, sequence(results))
		if err != nil {
			t.Fatal(err)
		}
		a, _ := want.JSON()
		b, _ := got.JSON()
		if !bytes.Equal(a, b) {
			t.Fatal(cmp.Diff(string(a), string(b)))
		}
	})
}

// Losing a scored cell is never good news.
func TestLosingACellNeverImproves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, results := input(drawOutcomes(t))
		m.Gate.MinCoverage = 0
		before, err := Make(m, sequence(results))
		if err != nil {
			t.Fatal(err)
		}
		lost := rapid.IntRange(0, max(0, len(results)-1)).Draw(t, "lost")
		if before.Verdict == Improved || len(results) == 0 || !results[lost].Status.Scored() {
			return
		}
		after, err := Make(m, sequence(slices.Delete(slices.Clone(results), lost, lost+1)))
		if err != nil {
			t.Fatal(err)
		}
		if after.Verdict == Improved {
			t.Fatalf("%s became improved without %s %s %d (%s)", before.Verdict, results[lost].Case, results[lost].Condition, results[lost].Trial, results[lost].Status)
		}
	})
}

func TestCoverageAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, results := input(drawOutcomes(t))
		b, err := Make(m, sequence(results))
		if err != nil {
			t.Fatal(err)
		}
		c := b.Coverage
		if c.Planned != len(m.Cells) || c.Scored != c.Passed+c.Failed || c.Planned != c.Scored+c.Errored+c.Skipped+c.Pending || len(b.Missing) != c.Planned-c.Scored {
			t.Fatalf("%+v with %d missing of %d cells", c, len(b.Missing), len(m.Cells))
		}
		rows := 0
		for _, e := range b.DiffScope {
			rows += len(e.Value)
		}
		if len(b.Runs) != rows || rows != c.Scored+c.Errored {
			t.Fatalf("%d runs, %d rows of diff scope, %d cells were run", len(b.Runs), rows, c.Scored+c.Errored)
		}
	})
}

// Two runs that differ in their clocks only are the same without times, and only then.
func TestWithoutTimes(t *testing.T) {
	t.Parallel()
	m, results := input(times(6, "PPP", "PFP"))
	a := mustMake(t, m, results)
	m.Created = m.Created.Add(time.Hour)
	for i := range results {
		results[i].Took.Agent += time.Duration(i+1) * time.Millisecond
		results[i].Took.Total += time.Minute
		results[i].Started = time.Unix(int64(i), 0)
	}
	b := mustMake(t, m, results)
	if cmp.Equal(a, b) {
		t.Error("the clocks left no trace at all")
	}
	if diff := cmp.Diff(a.WithoutTimes(), b.WithoutTimes()); diff != "" {
		t.Error(diff)
	}
	if a.Runs[0].Result.TimeSeconds == nil {
		t.Error("WithoutTimes changed its receiver")
	}
}

func TestEveryCodeIsDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/verdicts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Reasons {
		verdict := string(c.Verdict)
		if verdict == "" {
			verdict = "–"
		}
		if row := fmt.Sprintf("| `%s` | %s | %s |\n", c.Code, verdict, c.Doc); !strings.Contains(string(doc), row) {
			t.Errorf("docs/verdicts.md lacks the row %s", row)
		}
	}
	for _, c := range Warnings {
		if row := fmt.Sprintf("| `%s` | %s |\n", c.Code, c.Doc); !strings.Contains(string(doc), row) {
			t.Errorf("docs/verdicts.md lacks the row %s", row)
		}
	}
}

// BenchmarkMake keeps an eye on 1,000 cases of five trials.
func BenchmarkMake(b *testing.B) {
	m, results := input(times(1000, "PPPFP", "PFPPF"))
	for b.Loop() {
		mustMake(b, m, results)
	}
}

// BenchmarkCells summarises 100,000 cells of ten arms and their baselines: make bench runs it once in a process of its own
// and holds its time and memory to bars. Results are made one by one, as they are read.
func BenchmarkCells(b *testing.B) {
	const cases, models, trials = 1000, 10, 5
	m, _ := input(nil)
	m.Harnesses[0].Models = nil
	m.Cells = make([]plan.Cell, 0, cases*models*trials*len(m.Conditions))
	for model := range models {
		name := fmt.Sprintf("model-%d", model)
		m.Harnesses[0].Models = append(m.Harnesses[0].Models, name)
		for i := range cases {
			for _, condition := range m.Conditions {
				for trial := range trials {
					c := cellResult(fmt.Sprintf("case-%03d", i), condition.ID, trial+1, 'P').Cell
					c.Model = name
					m.Cells = append(m.Cells, c)
				}
			}
		}
	}
	for b.Loop() {
		got, err := Make(m, func(yield func(result.Result, error) bool) {
			for i, c := range m.Cells {
				if !yield(benchmarked(c, i), nil) {
					return
				}
			}
		})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(got.Coverage.Scored), "cells")
		b.ReportMetric(float64(len(got.Comparisons)), "verdicts")
	}
}

// benchmarked is a result with everything that a summary is made of.
func benchmarked(c plan.Cell, i int) result.Result {
	letter := 'P'
	if i%7 < i%3 {
		letter = 'F'
	}
	r := cellResult(c.Case, c.Condition, c.Trial, letter)
	r.Cell = c
	n := int64(i%997 + i%13 + 1)
	r.Took.Agent = time.Duration(n) * time.Second
	r.Agent.Turns = ptr(int(n % 19))
	r.Agent.Usage = &trace.Usage{Input: ptr(100 * n), Output: ptr(n), CostUSD: ptr(0.001 * float64(n))}
	r.DiffScope = &diffscope.Scope{Counts: diffscope.Counts{FilesTouched: int(n % 5), LinesAdded: int(n % 53), LinesRemoved: 2, Hunks: int(n % 7)}}
	return r
}
