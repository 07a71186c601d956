package bench

import (
	"math"
	"testing"

	"github.com/assay-ci/assay/internal/stats"
	"github.com/google/go-cmp/cmp"
)

// The comparison that docs/verdicts.md prints: six cases of five trials, one cell lost.
func TestMeasurePublishedExample(t *testing.T) {
	of := func(passed ...int) (cases []stats.Tally) {
		for _, k := range passed {
			cases = append(cases, stats.Tally{Passed: k, N: 5})
		}
		return cases
	}
	e := evidence{alpha: 0.05,
		base: of(5, 4, 2, 3, 5, 0),
		head: of(0, 3, 2, 3, 5, 0),
	}
	e.head[2].N = 4
	n := measure(e)
	for _, v := range []struct {
		name      string
		got, want float64
	}{
		{"effect_pp", n.effectPP, -18.333333333333332},
		{"p_global", n.exact.Less, 0.07370683061584422},
		{"signflip_p", n.signflip.Less, 0.25},
		{"lo_pp", n.loPP, -35.130133397113156},
		{"hi_pp", n.hiPP, 1.6202394902569992},
		{"mde_pp", *n.mdePP, 59.0898},
		{"p of the first case", n.pWorse[0], 0.003968253968253968},
		{"p_holm of the first case", *n.holmWorse[0], 0.023809523809523808},
	} {
		if math.Abs(v.got-v.want) > 1e-4 {
			t.Errorf("%s = %v, want %v", v.name, v.got, v.want)
		}
	}
	if n.uninformative != 2 || n.fell+n.rose != 3 {
		t.Errorf("%d cases say nothing and %d moved, want 2 and 3", n.uninformative, n.fell+n.rose)
	}
}

func TestMedianEstimate(t *testing.T) {
	t.Parallel()
	p := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		name string
		in   []float64
		want *Estimate
	}{
		{"nothing", nil, nil},
		{"five cases have no interval", []float64{5, 1, 4, 2, 3}, &Estimate{Value: 3, N: 5}},
		{"six cases have one", []float64{6, 5, 1, 4, 2, 3}, &Estimate{Value: 3.5, Lo: p(1), Hi: p(6), N: 6}},
	} {
		if diff := cmp.Diff(c.want, medianEstimate(c.in)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
