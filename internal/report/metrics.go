package report

import (
	"fmt"

	"github.com/assay-ci/assay/internal/bench"
)

// metricsLegend explains the table of metrics.
const metricsLegend = "Middle ratio or difference of the cases that both sides know it of, candidate over or less baseline (Hodges and Lehmann), with a " +
	"95 % interval from six cases on; p is two-sided, by signed ranks. None of it decides anything."

// A metricRow is one number beside the passes, of one comparison.
type metricRow struct {
	Of *bench.Comparison
	bench.Metric
}

// metricRows are the metrics of all comparisons that have a pair.
func metricRows(b bench.Benchmark) []metricRow {
	var out []metricRow
	for i := range b.Comparisons {
		for _, m := range b.Comparisons[i].Metrics {
			if m.NPairs > 0 {
				out = append(out, metricRow{&b.Comparisons[i], m})
			}
		}
	}
	return out[:min(len(out), mostRows)]
}

// Title is the metric in words, with its unit.
func (m metricRow) Title() string {
	switch m.Name {
	case "cost_usd":
		return "cost, USD"
	case "duration_seconds":
		return "time, s"
	}
	return clean(words(m.Name), nameSize)
}

// Change is the change with its interval: a factor such as ×1.25, or a difference with its sign.
func (m metricRow) Change() string {
	if m.Value == nil {
		return unknown
	}
	format := func(v float64) string { return "×" + short(v) }
	if m.Kind != "ratio" {
		format = plusMinus
	}
	return estimate(format, &bench.Estimate{Value: *m.Value, Lo: m.Lo, Hi: m.Hi})
}

// plusMinus is a difference with its sign.
func plusMinus(v float64) string {
	if v > 0 {
		return "+" + short(v)
	}
	return short(v)
}

// orUnknown is a number, or a dash.
func orUnknown(v *float64) string {
	if v == nil {
		return unknown
	}
	return short(*v)
}

// scatter says what to plan to see smaller effects in a comparison; empty when nothing is known of it.
func scatter(c bench.Comparison, m markup) string {
	if c.Split == nil || c.Split.Chance+c.Split.Cases <= 0 {
		return ""
	}
	buy := m.text(c.Split.Advice)
	if c.Split.Advice == "both" {
		buy = "trials and cases"
	}
	return fmt.Sprintf("%s against %s: %s of the scatter between its case differences is chance, which more trials shrink; the rest only more cases do. "+
		"To see smaller effects, plan more %s.", m.name(c.Head.ID.Harness, c.Head.ID.Model, c.Head.ID.Condition), baseName(c, m),
		wholePercent(c.Split.Chance/(c.Split.Chance+c.Split.Cases)), buy)
}

// scatters are those of the first comparisons.
func scatters(b bench.Benchmark, m markup) []string {
	var out []string
	for _, c := range b.Comparisons[:min(len(b.Comparisons), mostArms)] {
		if s := scatter(c, m); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// metrics writes what the comparisons show beside passes, and where their scatter comes from.
func (w *writer) metrics(b bench.Benchmark) {
	if rows := metricRows(b); len(rows) > 0 {
		w.line("### Beside the passes")
		w.table([]string{"head against base", "number", "cases", "baseline", "now", "change (95 %)", "p"}, "llrrrlr")
		for _, m := range rows {
			id := m.Of.Head.ID
			w.row(codeName(id.Harness, id.Model, id.Condition)+" against "+baseName(*m.Of, inMarkdown), Text(m.Title(), nameSize),
				fmt.Sprint(m.NPairs), orUnknown(m.Base), orUnknown(m.Head), m.Change(), pValue(m.P))
		}
		w.line("%s", metricsLegend)
	}
	for _, s := range scatters(b, inMarkdown) {
		w.line("%s", s)
	}
}
