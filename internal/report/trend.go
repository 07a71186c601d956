package report

import (
	"fmt"

	"github.com/assay-ci/assay/internal/bench"
)

// A trend is what report.html shows of the history of a benchmark.
type trend struct {
	Runs   []trendRun
	Charts []trendChart
	Hidden int // arms that it has no room for
}

// A trendRun is a row of the table of runs.
type trendRun struct {
	Number                         int
	When, Commit, Verdict, Changes string
}

// A trendChart is the pass rate of an arm over the runs. Places are in percent, from the left and from the top.
type trendChart struct {
	Name, Title string // the title is whole, for those who do not see the picture
	X, Y        []tick
	Drift       []float64 // where the fingerprint is not that of the run before
	Points      []trendPoint
}

// A trendPoint is one run of an arm, with its numbers for the table. A run that measured nothing is not drawn.
type trendPoint struct {
	Number                     int
	Rate, Scored, Cost, Lines  string
	Drawn, HasRange, IsCurrent bool
	X, Y, Lo, Hi               float64
}

// trendOf is nil when the benchmark knows of no earlier run.
func trendOf(b bench.Benchmark) *trend {
	h := past(b)
	if h == nil {
		return nil
	}
	first := max(0, len(h.Runs)-mostPast)
	out := &trend{Hidden: max(0, len(h.Arms)-mostCharts)}
	for i, r := range h.Runs[first:] {
		out.Runs = append(out.Runs, trendRun{first + i + 1, plannedAt(r), clean(r.Commit, 9), pastVerdict(r),
			changesText(r, func(s string) string { return clean(s, nameSize*2) })})
	}
	for _, a := range h.Arms[:min(len(h.Arms), mostCharts)] {
		out.Charts = append(out.Charts, trendChartOf(h.Runs, a, first))
	}
	return out
}

// mostLabels is how many runs of a chart have their number under it.
const mostLabels = 10

func trendChartOf(runs []bench.PastRun, a bench.ArmHistory, first int) trendChart {
	c := trendChart{Name: plainName(a.Harness, a.Model, a.Condition)}
	c.Title = fmt.Sprintf("Pass rate of %s over the runs.", wholeOf(a.Harness, a.Model, a.Condition))
	last := float64(len(runs) - first - 1)
	every := (len(runs)-first-1)/mostLabels + 1
	for i, p := range a.Points[first:] {
		number, x, r := first+i+1, place(float64(i), 0, last), runs[first+i]
		if (len(runs)-number)%every == 0 {
			c.X = append(c.X, tick{x, fmt.Sprint(number)})
		}
		if changedSince(r) {
			c.Drift = append(c.Drift, x)
			c.Title += fmt.Sprintf(" Before run %d something changed.", number)
		}
		if p == nil {
			continue
		}
		at := trendPointOf(p, number, x)
		at.IsCurrent = r.Name == bench.This
		c.Points = append(c.Points, at)
		if at.Drawn {
			c.Title += fmt.Sprintf(" Run %d: %s %%.", number, at.Rate)
		}
	}
	for _, share := range []float64{0, 0.5, 1} {
		c.Y = append(c.Y, tick{100 - place(share, 0, 1), fmt.Sprintf("%.0f %%", 100*share)})
	}
	return c
}

func trendPointOf(p *bench.PastPoint, number int, x float64) trendPoint {
	at := trendPoint{Number: number, X: x, Rate: estimate(percent, p.PassRate), Scored: fmt.Sprintf("%d/%d", p.Coverage.Scored, p.Coverage.Planned),
		Cost: estimate(usd, p.CostUSD), Lines: estimate(short, p.LinesChanged)}
	if r := p.PassRate; r != nil {
		at.Drawn, at.Y = true, 100-place(r.Value, 0, 1)
		if r.Lo != nil && r.Hi != nil {
			at.HasRange, at.Lo, at.Hi = true, 100-place(*r.Lo, 0, 1), 100-place(*r.Hi, 0, 1)
		}
	}
	return at
}
