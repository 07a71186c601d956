package report

import (
	"fmt"
	"strings"

	"github.com/assay-ci/assay/internal/bench"
)

// How much of a history the page holds; assay history --json has all of it.
const (
	mostPast    = 30 // runs, the newest
	mostCharts  = 6  // arms that have a chart
	mostChanges = 5  // of a run
)

// History is a history as Markdown for GitHub: a table of the runs with what changed, and for each arm its numbers and a
// chart. In a chart stands no foreign text: a run goes by its number, an arm by its heading.
func History(h bench.History) []byte {
	w := &writer{}
	w.line("## History")
	if len(h.Runs) == 0 {
		w.line("There are no earlier runs.")
		return []byte(w.String())
	}
	first := max(0, len(h.Runs)-mostPast)
	if first > 0 {
		w.line("The newest %d of %d runs.", len(h.Runs)-first, len(h.Runs))
	}
	w.table([]string{"run", "planned (UTC)", "commit", "verdict", "changed since the run before"}, "rllll")
	for i, r := range h.Runs[first:] {
		w.row(fmt.Sprint(first+i+1), plannedAt(r), code(r.Commit, 9), word(known(r.Verdict)), changesText(r.Changes))
	}
	for i, a := range h.Arms {
		w.line("### %s", codeName(a.Harness, a.Model, a.Condition))
		w.pastOf(a, first)
		if i < mostCharts {
			w.chart(a, first)
		}
	}
	w.line("What changed between two runs may be any of the things named above, or chance. Nothing is tested here.")
	return []byte(w.String())
}

func plannedAt(r bench.PastRun) string {
	if r.Timestamp == nil {
		return unknown
	}
	return r.Timestamp.UTC().Format("2006-01-02 15:04")
}

func changesText(list []bench.Change) string {
	var told []string
	for i, c := range list {
		if i == mostChanges {
			told = append(told, fmt.Sprintf("%d more", len(list)-i))
			break
		}
		told = append(told, Text(c.String(), nameSize*2))
	}
	return strings.Join(told, "; ")
}

// pastOf is the table of an arm.
func (w *writer) pastOf(a bench.ArmHistory, first int) {
	w.table([]string{"run", "pass rate, % (95 % interval)", "scored", "cost of a trial, $", "lines changed"}, "rlrrr")
	for i, p := range a.Points[first:] {
		if p == nil {
			continue
		}
		w.row(fmt.Sprint(first+i+1), estimate(percent, p.PassRate), fmt.Sprintf("%d/%d", p.Coverage.Scored, p.Coverage.Planned),
			estimate(usd, p.CostUSD), estimate(short, p.LinesChanged))
	}
}

// chart draws the pass rate of an arm and the ends of its interval over the runs that have all three. A chart of one run
// shows nothing, so there is none.
func (w *writer) chart(a bench.ArmHistory, first int) {
	var runs, rate, lo, hi []string
	for i, p := range a.Points[first:] {
		if p == nil || p.PassRate == nil || p.PassRate.Lo == nil || p.PassRate.Hi == nil {
			continue
		}
		runs = append(runs, fmt.Sprintf("%q", fmt.Sprint(first+i+1)))
		rate, lo, hi = append(rate, percent(p.PassRate.Value)), append(lo, percent(*p.PassRate.Lo)), append(hi, percent(*p.PassRate.Hi))
	}
	if len(runs) < 2 {
		return
	}
	w.line("```mermaid\nxychart-beta\n    title \"Pass rate, and the ends of its interval\"\n    x-axis \"run\" [%s]\n"+
		"    y-axis \"passed, %%\" 0 --> 100\n    bar [%s]\n    line [%s]\n    line [%s]\n```",
		strings.Join(runs, ", "), strings.Join(rate, ", "), strings.Join(lo, ", "), strings.Join(hi, ", "))
}
