package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/assay-ci/assay/internal/bench"
)

// A chart sets one number of each arm against its pass rate.
type chart struct {
	Caption string
	Title   string // whole, for those who do not see the picture
	X, Y    []tick
	Points  []point
	Hidden  int // arms that it has no room for
}

// A point is one arm. Places are in percent, from the left and from the top.
type point struct {
	Number        int
	Name, Figures string
	Baseline      bool
	X, Y          float64
	HasRange      bool
	Lo, Hi        float64
	of            float64
}

// qualities are the charts of cost and of time; nil when there is no arm.
func qualities(b bench.Benchmark) []chart {
	if len(b.Arms) == 0 {
		return nil
	}
	return []chart{
		quality(b, "Median cost of a trial, in USD, and the pass rate with its 95 % interval.", usd, func(a bench.Arm) *bench.Estimate { return a.CostUSD }),
		quality(b, "Median time of the agent, in seconds, and the pass rate with its 95 % interval.",
			func(v float64) string { return short(v) + " s" }, func(a bench.Arm) *bench.Estimate { return a.Duration }),
	}
}

func quality(b bench.Benchmark, caption string, format func(float64) string, number func(bench.Arm) *bench.Estimate) chart {
	c := chart{Caption: caption, Title: caption}
	most := 0.0
	for i, a := range b.Arms {
		n := number(a)
		if n == nil || a.PassRate == nil {
			continue
		}
		if len(c.Points) == mostStrips {
			c.Hidden++
			continue
		}
		p := point{Number: i + 1, Name: plainName(a.Harness, a.Model, a.Condition), Baseline: a.Baseline, of: n.Value, Y: 100 - place(a.PassRate.Value, 0, 1),
			Figures: fmt.Sprintf("%s, %s %%", format(n.Value), percent(a.PassRate.Value))}
		if a.PassRate.Lo != nil && a.PassRate.Hi != nil {
			p.HasRange, p.Lo, p.Hi = true, 100-place(*a.PassRate.Lo, 0, 1), 100-place(*a.PassRate.Hi, 0, 1)
		}
		most = max(most, n.Value)
		c.Points = append(c.Points, p)
		c.Title += fmt.Sprintf(" %d, %s: %s.", p.Number, wholeOf(a.Harness, a.Model, a.Condition), p.Figures)
	}
	most = roundUp(most)
	for i := range c.Points {
		c.Points[i].X = place(c.Points[i].of, 0, most)
	}
	for _, share := range []float64{0, 0.5, 1} {
		c.X = append(c.X, tick{place(share, 0, 1), format(share * most)})
		c.Y = append(c.Y, tick{100 - place(share, 0, 1), fmt.Sprintf("%.0f %%", 100*share)})
	}
	return c
}

// roundUp is the least of 1, 2 and 5 times a power of ten that is larger by a little.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5, 10} {
		if v*1.05 <= f*power {
			return f * power
		}
	}
	return 20 * power
}

// A scopeRow is the sizes of the changes of one arm, of its passed or of its failed trials.
type scopeRow struct {
	Name, What, Title, Figures string
	Marks                      []cloudMark
	Ticks                      []tick
}

// A cloudMark is all trials of about one size.
type cloudMark struct{ At, R float64 }

// correctness sets the sizes of changes against whether they passed, on a logarithmic scale; nil when none is measured.
func correctness(b bench.Benchmark) []scopeRow {
	type side struct {
		arm    bench.ArmID
		passed bool
	}
	lines, most := make(map[side][]float64), 0.0
	for _, r := range b.Runs {
		if r.Status.Scored() && r.DiffScope != nil && r.Phase != bench.ConfirmPhase {
			n := float64(r.DiffScope.LinesChanged())
			at := side{r.Arm(), r.Status == "passed"}
			lines[at], most = append(lines[at], n), max(most, n)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	top := math.Log1p(max(10, most))
	var ticks []tick
	for n := 0.0; n <= max(10, most); n = max(1, n*10) {
		ticks = append(ticks, tick{place(math.Log1p(n), 0, top), short(n)})
	}
	var out []scopeRow
	for _, a := range b.Arms[:min(len(b.Arms), mostStrips)] {
		for _, what := range []string{"passed", "failed"} {
			out = append(out, scopeRowOf(a, what, lines[side{a.ArmID, what == "passed"}], top, ticks))
		}
	}
	return out
}

func scopeRowOf(a bench.Arm, what string, lines []float64, top float64, ticks []tick) scopeRow {
	row := scopeRow{Name: plainName(a.Harness, a.Model, a.Condition), What: what, Ticks: ticks, Figures: "no trial"}
	slices.Sort(lines)
	count := make(map[float64]int)
	var places []float64
	for _, n := range lines {
		at := math.Round(place(math.Log1p(n), 0, top))
		if count[at]++; count[at] == 1 {
			places = append(places, at)
		}
	}
	for _, at := range places {
		row.Marks = append(row.Marks, cloudMark{at, math.Round(10*min(12, 3+math.Sqrt(float64(count[at])))) / 10})
	}
	if n := len(lines); n > 0 {
		row.Figures = fmt.Sprintf("%d %s, from %s to %s lines", n, plural(n, "trial", "trials"), short(lines[0]), short(lines[n-1]))
	}
	row.Title = fmt.Sprintf("%s, lines changed where it %s: %s", wholeOf(a.Harness, a.Model, a.Condition), what, row.Figures)
	return row
}

// unhealthy are the assertions that tell nothing apart.
func unhealthy(b bench.Benchmark) []bench.Assertion {
	return slices.DeleteFunc(slices.Clone(b.Assertions), func(a bench.Assertion) bool { return bench.Healthy(a.Class) })
}

// classText says what the class of an assertion means.
func classText(a bench.Assertion) string {
	for _, c := range bench.Classes {
		if c.Code != a.Class {
			continue
		}
		if a.SameAs != "" {
			return c.Doc + ": " + clean(a.SameAs, nameSize)
		}
		return c.Doc
	}
	return ""
}

// scoreText is the score of an arm with and without the assertions that tell nothing apart; empty when there is none.
func scoreText(s bench.ArmScore) string {
	if s.All == nil {
		return ""
	}
	without := "none is left"
	if s.Healthy != nil {
		without = fmt.Sprintf("%.2f", *s.Healthy)
	}
	return fmt.Sprintf("Score of %s: %.2f; without them: %s.", plainName(s.Harness, s.Model, s.Condition), *s.All, without)
}
