package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/result"
)

// spent gives every scored result of input a cost, tokens, turns, a time and a size, all from factor by condition.
func spent(results []result.Result, factor map[string]float64) {
	for i := range results {
		r := &results[i]
		if !r.Status.Scored() {
			continue
		}
		f, n := factor[r.Condition], float64(len(r.Case)+i%7+1)
		usage := fmt.Sprintf(`{"input":%d,"output":%d,"cost_usd":%g}`, int(1000*f*n), 0, 0.25*f*n)
		if err := json.Unmarshal([]byte(usage), &r.Agent.Usage); err != nil {
			panic(err)
		}
		r.Agent.Turns = ptr(int(4 * f))
		r.DiffScope = &diffscope.Scope{Counts: diffscope.Counts{FilesTouched: int(2 * f), LinesAdded: int(10 * f)}}
	}
}

func metricOf(t *testing.T, c Comparison, name string) Metric {
	t.Helper()
	at := slices.IndexFunc(c.Metrics, func(m Metric) bool { return m.Name == name })
	if at < 0 {
		t.Fatalf("no metric %s", name)
	}
	return c.Metrics[at]
}

// text is a metric in one line; a number that is not known is a dash.
func (m Metric) text() string {
	out := []string{m.Name, m.Kind, fmt.Sprint(m.NPairs)}
	for _, v := range []*float64{m.Base, m.Head, m.Value, m.Lo, m.Hi, m.P} {
		if v == nil {
			out = append(out, "-")
			continue
		}
		out = append(out, fmt.Sprintf("%.5g", *v))
	}
	return strings.Join(out, " ")
}

// The wanted values are worked out by hand; the formulas themselves are held to those of other software in stats.
func TestMetric(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, kind string
		base, head []float64
		want       string
	}{
		{"no pair", ratioKind, nil, nil, "m ratio 0 - - - - - -"},
		{"one pair", ratioKind, []float64{2}, []float64{3}, "m ratio 1 2 3 1.5 - - 1"},
		{"five pairs have no interval", differenceKind, []float64{1, 2, 3, 4, 5}, []float64{2, 4, 6, 8, 10}, "m difference 5 3 6 3 - - 0.0625"},
		{"six have one", differenceKind, []float64{1, 2, 3, 4, 5, 6}, []float64{2, 4, 6, 8, 10, 12}, "m difference 6 3.5 7 3.5 1 6 0.03125"},
		{"ratios of six", ratioKind, []float64{1, 1, 1, 1, 1, 1}, []float64{2, 4, 8, 16, 32, 64}, "m ratio 6 1 12 11.314 2 64 0.03125"},
		{"equal ratios share a rank", ratioKind, []float64{10, 7, 3}, []float64{11, 7.7, 3 / 1.1}, "m ratio 3 7 7.7 1.0488 - - 1"},
		{"nothing moved", ratioKind, []float64{1, 2, 3, 4, 5, 6}, []float64{1, 2, 3, 4, 5, 6}, "m ratio 6 3.5 3.5 1 - - 1"},
	} {
		if got := metric("m", c.kind, c.base, c.head).text(); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// drawPairs are case medians of both sides.
func drawPairs(t *rapid.T) (base, head []float64) {
	for range rapid.IntRange(1, 20).Draw(t, "pairs") {
		base = append(base, float64(rapid.IntRange(1, 50).Draw(t, "base")))
		head = append(head, float64(rapid.IntRange(1, 50).Draw(t, "head")))
	}
	return base, head
}

func TestMetricLaws(t *testing.T) {
	t.Parallel()
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }
	rapid.Check(t, func(t *rapid.T) {
		base, head := drawPairs(t)
		for _, kind := range []string{ratioKind, differenceKind} {
			m, swapped := metric("m", kind, base, head), metric("m", kind, head, base)
			back := func(v float64) float64 {
				if kind == ratioKind {
					return 1 / v
				}
				return -v
			}
			if !near(*m.Value, back(*swapped.Value)) || *m.P != *swapped.P {
				t.Fatalf("%s, sides swapped %s", m.text(), swapped.text())
			}
			if (m.Lo == nil) != (swapped.Lo == nil) || m.Lo != nil && (!near(*m.Lo, back(*swapped.Hi)) || !near(*m.Hi, back(*swapped.Lo))) {
				t.Fatalf("%s, sides swapped %s", m.text(), swapped.text())
			}
			if m.Lo != nil && (*m.Lo > *m.Value || *m.Hi < *m.Value) {
				t.Fatalf("%s: its interval does not hold its value", m.text())
			}

			order := rand.New(rand.NewPCG(1, uint64(len(base)))).Perm(len(base))
			x, y := make([]float64, len(base)), make([]float64, len(base))
			for i, at := range order {
				x[i], y[i] = base[at], head[at]
			}
			if diff := cmp.Diff(m, metric("m", kind, x, y)); diff != "" {
				t.Fatalf("the order of cases matters: %s", diff)
			}

			// Where all went one way, a case that did not move draws the middle towards no change.
			for i := range base {
				x[i], y[i] = min(base[i], head[i]), max(base[i], head[i])
			}
			before, after := metric("m", kind, x, y), metric("m", kind, append(x, 5), append(y, 5))
			none := *movedBy(kind, 0)
			if *after.Value > *before.Value+1e-9 || *after.Value < none-1e-9 {
				t.Fatalf("with a case that did not move %s becomes %s", before.text(), after.text())
			}
		}
	})
}

// One run, its stored self, and both again from files and under other settings have the same metrics.
func TestMetricsOfAComparison(t *testing.T) {
	t.Parallel()
	cases := append(times(8, "PPP", "PPP"), outcomes{"fails-in-base", "FFF", "PPP"}, outcomes{"lost", "EEE", "PPP"})
	m, results := input(cases)
	m.Gate.MinCoverage = 0.5
	spent(results, map[string]float64{"without": 2, "with": 1})
	for i := range results {
		if results[i].Case == "case-000" && results[i].Condition == "with" {
			results[i].Agent.Usage, results[i].Agent.Turns = nil, ptr(0)
		}
	}
	b := mustMake(t, m, results)
	c := b.Comparisons[0]
	for _, want := range []struct {
		name  string
		pairs int
		value float64
	}{
		{"cost_usd", 8, 0.5}, {"tokens", 8, 0.5}, {"turns", 8, 0.5}, {durationMetric, 9, 1}, {"lines_changed", 8, -10}, {"files_touched", 8, -2},
	} {
		got := metricOf(t, c, want.name)
		if got.NPairs != want.pairs || got.Value == nil || math.Abs(*got.Value-want.value) > 0.2*math.Abs(want.value) {
			t.Errorf("%s, want %d pairs and about %g", got.text(), want.pairs, want.value)
		}
	}

	data, err := b.JSON()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	other := b.Gate.Settings
	other.MarginPP = 30
	regated, err := back.Regate(other)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c.Metrics, regated.Comparisons[0].Metrics); diff != "" {
		t.Errorf("decided again, the metrics differ: %s", diff)
	}
	if diff := cmp.Diff(c.Split, regated.Comparisons[0].Split); diff != "" {
		t.Errorf("decided again, the split differs: %s", diff)
	}

	self := b.Against(stored(back)).Comparisons
	for _, c := range self {
		if c.Axis != axisBaseline {
			continue
		}
		for _, m := range c.Metrics {
			if m.NPairs == 0 || *m.Base != *m.Head || *m.P != 1 {
				t.Errorf("%s against itself: %s", c.Head.Arm, m.text())
			}
		}
	}
}

// The trials that a case was run again with are in no median, and a case that is not the same on both sides is in none.
func TestMetricsLeaveOut(t *testing.T) {
	t.Parallel()
	m, results := input(times(3, "PP", "PP"))
	spent(results, map[string]float64{"without": 2, "with": 1})
	b := mustMake(t, m, results)
	old := b
	old.Fingerprint.Cases = slices.Clone(b.Fingerprint.Cases)
	old.Fingerprint.Cases[0].Agent = "another"
	against := b.Against(stored(old))
	for _, c := range against.Comparisons {
		if n := metricOf(t, c, "turns").NPairs; c.Axis == axisBaseline && n != 2 {
			t.Errorf("%d pairs, of which one has another case on its other side", n)
		}
	}
}

// Whatever a foreign file says of a median, the benchmark can be written.
func TestMetricsOfForeignNumbers(t *testing.T) {
	t.Parallel()
	m, results := input(times(2, "PPP", "PPP"))
	spent(results, map[string]float64{"without": 2, "with": 1})
	b := mustMake(t, m, results)
	for _, foreign := range []float64{-1, 0, 5e-324, 1e-300, 1e308} {
		old := b
		old.CaseArms = slices.Clone(b.CaseArms)
		for i := range old.CaseArms {
			c := &old.CaseArms[i]
			c.CostUSD, c.Tokens, c.LinesChanged = &foreign, &foreign, &foreign
		}
		against := b.Against(stored(old))
		if _, err := against.JSON(); err != nil {
			t.Errorf("%g: %v", foreign, err)
		}
		for _, c := range against.Comparisons {
			if n := metricOf(t, c, "cost_usd").NPairs; c.Axis == axisBaseline && n != 0 {
				t.Errorf("%g: %d pairs have a ratio", foreign, n)
			}
		}
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what   string
		cases  []outcomes
		advice string
	}{
		{"every case is a coin", times(12, "PFPFPF", "FPFPFP"), "trials"},
		{"half of the cases broke", append(times(4, "PPP", "PPP"), outcomes{"x", "PPP", "FFF"}, outcomes{"y", "PPP", "FFF"}), "cases"},
		{"some of each", []outcomes{{"a", "PPPF", "PFFF"}, {"b", "PFPF", "PPPP"}, {"c", "PPFF", "PFPF"}, {"d", "PPPP", "PPFF"}}, "both"},
		{"nothing scattered", times(5, "PPP", "PPP"), ""},
		{"one trial", times(5, "P", "F"), ""},
		{"one case", times(1, "PPF", "FPF"), ""},
	} {
		m, results := input(c.cases)
		s := mustMake(t, m, results).Comparisons[0].Split
		switch {
		case s == nil && c.advice == "":
		case s == nil || s.Advice != c.advice:
			t.Errorf("%s: %+v, want %q", c.what, s, c.advice)
		}
	}
}

// Each verdict that decides nothing says what plan would.
func TestRemedies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cases []outcomes
		gate  func(*result.Gate)
		want  string
	}{
		{times(1, "PPP", "FFF"), nil, "; 4 trials a side, or more cases, would do"},
		{times(5, "PPPPP", "PPPPP"), nil, "trials a side or about"},
		{times(40, "PPPFF", "FPPPF"), nil, "such runs; for 5 pp about 40 trials a side or about 306 cases would decide"},
		{times(40, "PPPFF", "FPPPF"), func(g *result.Gate) { g.MarginEqPP = 0 }, "for 0 pp no plan of a reasonable size would decide"},
		{times(40, "PPPFF", "PPFFF"), func(g *result.Gate) { g.MarginPP, g.MarginEqPP = 50, 15 }, "only a larger run would decide"},
	} {
		m, results := input(c.cases)
		if c.gate != nil {
			c.gate(&m.Gate)
		}
		got := mustMake(t, m, results).Comparisons[0]
		if text := got.Reasons[0].Text; !strings.Contains(text, c.want) {
			t.Errorf("%s: %q does not hold %q", got.Verdict, text, c.want)
		}
	}
}

// A benchmark.json from before the medians of cases is of the same results; one with other medians is not.
func TestOfResultsWithoutMedians(t *testing.T) {
	t.Parallel()
	m, results := input(times(2, "PPP", "PPP"))
	spent(results, map[string]float64{"without": 2, "with": 1})
	b := mustMake(t, m, results)
	old, other := b, b
	old.CaseArms, other.CaseArms = slices.Clone(b.CaseArms), slices.Clone(b.CaseArms)
	for i := range old.CaseArms {
		c := &old.CaseArms[i]
		c.CostUSD, c.Tokens, c.Turns, c.Duration = nil, nil, nil, nil
	}
	other.CaseArms[0].Tokens = ptr(1.0)
	counts := mustCount(t, m, results)
	if !old.Of(counts) || other.Of(counts) {
		t.Errorf("old %t, other %t", old.Of(counts), other.Of(counts))
	}
}
