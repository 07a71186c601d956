package cli

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/assay-ci/assay/internal/bench"
)

// TestSummary draws the same results on screens of several widths. What was not measured is said to be.
func TestSummary(t *testing.T) {
	t.Parallel()
	n := func(v float64) *float64 { return &v }
	b := bench.Benchmark{
		Arms: []bench.Arm{
			{
				ArmID: bench.ArmID{Harness: "claude", Model: "claude-opus-5", Condition: "without_skill"}, Baseline: true,
				Coverage: bench.Coverage{Planned: 36, Scored: 34}, PassRate: &bench.Estimate{Value: 0.5, Lo: n(0.341), Hi: n(0.659), N: 12},
				Cost: bench.Cost{USD: n(1.234), Unknown: 1}, Duration: &bench.Estimate{Value: 62.25, N: 12},
			},
			{
				ArmID:    bench.ArmID{Harness: "claude", Model: "claude-opus-5\x1b[2J\u202e", Condition: "with_skill"},
				Coverage: bench.Coverage{Planned: 36, Scored: 36}, PassRate: &bench.Estimate{Value: 0.25, N: 1}, Cost: bench.Cost{USD: n(2)},
				DiffScope: bench.ArmScope{Passed: bench.ScopeMedians{LinesChanged: &bench.Estimate{Value: 8, N: 12}}},
			},
			{ArmID: bench.ArmID{Harness: "codex", Model: "gpt-5.5", Condition: "with_skill"}},
		},
	}
	b.Comparisons = []bench.Comparison{
		{Head: bench.Side{ID: b.Arms[1].ArmID}, Verdict: bench.NoEvidence},
		{Head: bench.Side{ID: b.Arms[1].ArmID}, Gates: true, Verdict: bench.Regressed, EffectPP: n(-25), LoPP: n(-40.2), HiPP: n(-9.9)},
		{Head: bench.Side{ID: b.Arms[2].ArmID}, Gates: true, Verdict: bench.Invalid},
	}
	var got bytes.Buffer
	for _, width := range []int{160, 100, 60} {
		fmt.Fprintf(&got, "== %d\n", width)
		summarize(screen{w: &got, width: width}, &b)
	}
	fmt.Fprintln(&got, "== colors")
	summarize(screen{w: &got, width: 160, hasColor: true}, &b)
	sameAsGolden(t, "testdata/summary.golden", bytes.ReplaceAll(got.Bytes(), []byte("\x1b"), []byte("ESC")))
}
