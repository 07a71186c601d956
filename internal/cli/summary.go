package cli

import (
	"fmt"
	"strings"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/jedib0t/go-pretty/v6/text"
)

// A column is one column of a table for a person. Where there is no room for all columns, the last ones are left out.
type column struct {
	head  string
	right bool // aligned
	cells []entry
}

// An entry is a text that is clean already, and its color.
type entry struct {
	text  string
	color color
}

// drawTable prints columns side by side.
func (s screen) drawTable(columns []column) {
	wide := make([]int, 0, len(columns))
	sum := 0
	for i, c := range columns {
		most := width(c.head)
		for _, x := range c.cells {
			most = max(most, width(x.text))
		}
		if sum += most + 2; sum > s.width+1 && i > 1 {
			break
		}
		wide = append(wide, most)
	}
	columns = columns[:len(wide)]
	for row := -1; len(columns) > 0 && row < len(columns[0].cells); row++ {
		var line strings.Builder
		for i, c := range columns {
			x := entry{c.head, bold}
			if row >= 0 {
				x = c.cells[row]
			}
			padded := text.Pad(x.text, wide[i], ' ')
			if c.right {
				padded = padLeft(x.text, wide[i])
			}
			if i == len(columns)-1 {
				padded = strings.TrimRight(padded, " ")
			}
			line.WriteString("  " + s.paint(x.color, padded))
		}
		fmt.Fprintln(s.w, line.String())
	}
}

// maxArm is how much of an arm's name a table shows, in characters.
const maxArm = 60

const notMeasured = "not measured"

// summarize prints a row an arm: its pass rate with the interval, what came of its cells, how it did against its baseline,
// and what it cost.
func summarize(s screen, b *bench.Benchmark) {
	arm, rate, scored := column{head: "arm"}, column{head: "pass rate, 95 % interval"}, column{head: "scored", right: true}
	verdict, effect := column{head: "verdict"}, column{head: "against its baseline"}
	spent, took := column{head: "cost", right: true}, column{head: "seconds a trial", right: true}
	size := column{head: "lines changed", right: true}
	for _, a := range b.Arms {
		c := comparisonFor(b, a.ArmID)
		arm.add(middle(clean(a.String()), min(maxArm, s.width/2)), "")
		rate.add(estimateText(a.PassRate, 100, " %", 1), "")
		scored.add(fmt.Sprintf("%d/%d", a.Coverage.Scored, a.Coverage.Planned), coverageColor(a.Coverage))
		verdict.add(verdictText(c), verdictColor(c))
		effect.add(effectOf(c), "")
		spent.add(costText(a.Cost), "")
		took.add(valueText(a.Duration, 1), "")
		size.add(valueText(a.DiffScope.Passed.LinesChanged, 0), "")
	}
	s.drawTable([]column{arm, rate, scored, verdict, effect, spent, took, size})
}

func (c *column) add(text string, color color) { c.cells = append(c.cells, entry{text, color}) }

// comparisonFor is the comparison that tells most of an arm: the one that gates, else the first one. Nil: there is none.
func comparisonFor(b *bench.Benchmark, id bench.ArmID) *bench.Comparison {
	var found *bench.Comparison
	for i, c := range b.Comparisons {
		if c.Head.ID == id && (found == nil || c.Gates && !found.Gates) {
			found = &b.Comparisons[i]
		}
	}
	return found
}

func verdictText(c *bench.Comparison) string {
	if c == nil {
		return ""
	}
	return clean(strings.ReplaceAll(string(c.Verdict), "_", " "))
}

func verdictColor(c *bench.Comparison) color {
	if c == nil {
		return ""
	}
	switch c.Verdict {
	case bench.Regressed, bench.Invalid:
		return red
	case bench.Improved, bench.Equivalent:
		return green
	}
	return yellow
}

func effectOf(c *bench.Comparison) string {
	switch {
	case c == nil:
		return ""
	case c.EffectPP == nil:
		return "nothing to compare"
	case c.LoPP == nil || c.HiPP == nil:
		return points(*c.EffectPP) + " pp"
	}
	return fmt.Sprintf("%s pp (%s to %s)", points(*c.EffectPP), points(*c.LoPP), points(*c.HiPP))
}

func coverageColor(c bench.Coverage) color {
	if c.Scored < c.Planned {
		return yellow
	}
	return ""
}

// estimateText is a number with its interval, as far as there is one.
func estimateText(e *bench.Estimate, scale float64, unit string, digits int) string {
	if e == nil {
		return notMeasured
	}
	told := fmt.Sprintf("%.*f%s", digits, scale*e.Value, unit)
	if e.Lo != nil && e.Hi != nil {
		told += fmt.Sprintf(" (%.*f to %.*f)", digits, scale**e.Lo, digits, scale**e.Hi)
	}
	return told
}

func valueText(e *bench.Estimate, digits int) string {
	if e == nil {
		return notMeasured
	}
	return fmt.Sprintf("%.*f", digits, e.Value)
}

// costText is the money that is known to be spent, with a mark when that is not all of it.
func costText(c bench.Cost) string {
	switch {
	case c.USD == nil:
		return notMeasured
	case c.Unknown > 0:
		return fmt.Sprintf("at least $%.2f", *c.USD)
	}
	return fmt.Sprintf("$%.2f", *c.USD)
}
