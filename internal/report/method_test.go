package report

import (
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/result"
)

// The method is told from the benchmark: nothing in it is the same for every plan.
func TestMethod(t *testing.T) {
	t.Parallel()
	two := []result.Condition{{ID: "without", Baseline: true}, {ID: "with"}, {ID: "other"}}
	three := suite(t, two, map[string]string{"without": "PPPPP", "with": "PPPPP", "other": "PPPP"})
	flips := pair(t, 6, "PPPPP", "PPPPP")
	flips.Comparisons[0].Test = "signflip_exact"
	stored := confirmed(t, broken())
	stored.Comparisons[0].Axis = "baseline"
	for _, c := range []struct {
		name string
		b    bench.Benchmark
		want []string
	}{
		{"plain", pair(t, 2, "PPP", "PPP"), []string{"3 trials of each of 2 cases in each of 2 arms", "the seed below", "a stratified test", "shared by 1 gating comparison", "held to 0.025", "gate.confirm is off"}},
		{"arms", three, []string{"4 to 5 trials of each of 1 case in each of 3 arms", "shared by 2 gating comparisons", "held to 0.0125"}},
		{"population", flips, []string{"sign flips of the case differences"}},
		{"a stored baseline", stored, []string{"cannot be run again on both sides"}},
		{"nobody was run again", confirmed(t, broken()), []string{"8 fresh trials a side", "None was run again."}},
		{"one was run again", confirmed(t, broken(), rerun{"timezone", "PPPPPPPP", "PFFFFFF-"}), []string{"Run again: timezone (8 and 7 trials scored)."}},
	} {
		text := strings.Join(method(c.b), "\n")
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in\n%s", c.name, want, text)
			}
		}
	}
}

// Fresh trials stand apart from those of the screen, and what was not run since it could change nothing is no dot.
func TestFreshDots(t *testing.T) {
	t.Parallel()
	b := confirmed(t, broken(), rerun{"timezone", "PPPPPddd", "FFFFFddd"})
	head := bench.ArmID{Harness: "codex", Model: "gpt-5.5", Condition: "with"}
	if got := strings.Join(dots(b, []string{"timezone"})[caseArm{"timezone", head}], ""); got != "○○○┊○○○○○" {
		t.Errorf("%s", got)
	}
	if !strings.Contains(dotsOf(b), freshMark) || strings.Contains(dotsOf(pair(t, 1, "P", "P")), freshMark) {
		t.Error("fresh trials are explained where there are none, or not where there are")
	}
}

// Metrics say what is a factor and what a difference, and nothing that is not known.
func TestMetricRows(t *testing.T) {
	t.Parallel()
	number := func(v float64) *float64 { return &v }
	b := bench.Benchmark{Comparisons: []bench.Comparison{{Metrics: []bench.Metric{
		{Name: "cost_usd", Kind: "ratio", NPairs: 8, Value: number(1.25), Lo: number(0.9), Hi: number(1.6)},
		{Name: "lines_changed", Kind: "difference", NPairs: 2, Value: number(3)},
		{Name: "files_touched", Kind: "difference", NPairs: 2, Value: number(-1)},
		{Name: "turns", Kind: "ratio", NPairs: 1},
		{Name: "tokens", Kind: "ratio"},
	}, Split: &bench.Split{Chance: 3, Cases: 1, Advice: "trials"}}}}
	var got []string
	for _, m := range metricRows(b) {
		got = append(got, m.Title()+" "+m.Change())
	}
	if want := "cost, USD ×1.25 (×0.9 … ×1.6)|lines changed +3|files touched −1|turns –"; strings.Join(got, "|") != want {
		t.Errorf("%v, want %s", got, want)
	}
	if s := scatter(b.Comparisons[0], plain); !strings.Contains(s, "75 % of the scatter") || !strings.HasSuffix(s, "plan more trials.") {
		t.Errorf("%s", s)
	}
}
