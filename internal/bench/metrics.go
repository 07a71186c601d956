package bench

import (
	"math"
	"sort"

	"github.com/assay-ci/assay/internal/stats"
)

// The kinds of metrics.
const (
	ratioKind      = "ratio"
	differenceKind = "difference"
)

// durationMetric is the one that a wall clock makes.
const durationMetric = "duration_seconds"

// metricKinds are all metrics, with the number of a case that each compares.
var metricKinds = []struct {
	name, kind string
	of         func(*CaseArm) *float64
}{
	{"cost_usd", ratioKind, func(c *CaseArm) *float64 { return c.CostUSD }},
	{"tokens", ratioKind, func(c *CaseArm) *float64 { return c.Tokens }},
	{durationMetric, ratioKind, func(c *CaseArm) *float64 { return c.Duration }},
	{"turns", ratioKind, func(c *CaseArm) *float64 { return c.Turns }},
	{"lines_changed", differenceKind, func(c *CaseArm) *float64 { return c.LinesChanged }},
	{"files_touched", differenceKind, func(c *CaseArm) *float64 { return c.FilesTouched }},
}

// metrics compares everything but the passes of two arms, over the cases that are the same on both sides.
func metrics(base, head side, cases []pairedCase) []Metric {
	out := make([]Metric, len(metricKinds))
	for i, m := range metricKinds {
		var x, y []float64
		for _, c := range cases {
			b, h := base.all[c.name], head.all[c.name]
			if c.apart != "" || b == nil || h == nil || !usable(m.kind, m.of(b)) || !usable(m.kind, m.of(h)) {
				continue
			}
			x, y = append(x, *m.of(b)), append(y, *m.of(h))
		}
		out[i] = metric(m.name, m.kind, x, y)
	}
	return out
}

// What an agent says of itself, and what a foreign file says, may be any number. Beyond these no ratio means anything.
const (
	leastMedian = 1e-12
	mostMedian  = 1e15
)

// usable tells whether a median of a case is known, and such that a difference or a ratio can be formed with it.
func usable(kind string, median *float64) bool {
	least := 0.0
	if kind == ratioKind {
		least = leastMedian
	}
	return median != nil && *median >= least && *median <= mostMedian
}

// metric compares one number of paired cases.
func metric(name, kind string, base, head []float64) Metric {
	m := Metric{Name: name, Kind: kind, NPairs: len(base), Base: medianOf(base), Head: medianOf(head)}
	if len(base) == 0 {
		return m
	}
	d := make([]float64, len(base))
	for i := range d {
		d[i] = moved(kind, base[i], head[i])
	}
	value, lo, hi, ok, _ := stats.MedianOfPairs(d, confidence) // no error: there are differences
	m.Value = movedBy(kind, value)
	if ok && lo < hi { // values that are all one would promise that all others are, too
		m.Lo, m.Hi = movedBy(kind, lo), movedBy(kind, hi)
	}
	ranks, _ := stats.SignedRank(d) // when nothing moved both tails are 1
	p := ranks.TwoSided()
	m.P = &p
	return m
}

// moved is how far head lies from base: a difference, for ratios one of logarithms. Those are rounded, so that equal ratios
// are equal numbers and share a rank.
func moved(kind string, base, head float64) float64 {
	if kind == differenceKind {
		return head - base
	}
	const unit = 1e-12
	return math.Round((math.Log(head)-math.Log(base))/unit) * unit
}

// movedBy makes a ratio of a difference of logarithms, and leaves other differences as they are.
func movedBy(kind string, d float64) *float64 {
	if kind == ratioKind {
		d = math.Exp(d)
	}
	return &d
}

// medianOf is the median of values in any order; nil without any.
func medianOf(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	sorted := append([]float64(nil), values...)
	sort.Float64s(sorted)
	m := stats.Median(sorted)
	return &m
}

// splitOf tells what makes the paired cases scatter: chance inside them, or that they took the change differently. It is nil
// when that cannot be told, or nothing scattered.
func splitOf(base, head []stats.Tally) *Split {
	s, ok := stats.VarianceSplit(base, head)
	if !ok || s.Chance == 0 && s.Cases == 0 {
		return nil
	}
	out := Split{Chance: s.Chance, Cases: s.Cases, Advice: "both"}
	switch {
	case s.Chance > 2*s.Cases:
		out.Advice = "trials"
	case s.Cases > 2*s.Chance:
		out.Advice = "cases"
	}
	return &out
}
