package report

import (
	"fmt"
	"strings"

	"github.com/assay-ci/assay/internal/bench"
)

// How much of a history a page holds; benchmark.json and assay history --json have more.
const (
	mostPast    = 30 // runs, the newest
	mostCharts  = 6  // arms that have a chart
	mostChanges = 5  // of a run
)

// History is a history as Markdown for GitHub: a table of the runs with what changed, and for each arm its numbers and a
// chart. In a chart stands no foreign text: a run goes by its number, an arm by the line above.
func History(h bench.History) []byte {
	w := &writer{}
	w.line("## History")
	if len(h.Runs) == 0 {
		w.line("There are no earlier runs.")
		return []byte(w.String())
	}
	w.history(h, len(h.Arms))
	return []byte(w.String())
}

// past is the history of a benchmark; nil when it knows of no run but its own, or has not a point for each run.
func past(b bench.Benchmark) *bench.History {
	if b.History == nil || len(b.History.Runs) < 2 {
		return nil
	}
	for _, a := range b.History.Arms {
		if len(a.Points) != len(b.History.Runs) {
			return nil
		}
	}
	return b.History
}

// notTested stands beside every history.
const notTested = "What differs between two runs may come of any of the changes named here, of others that nobody recorded, or of chance. Nothing is tested here."

// history writes the runs, and then so many arms.
func (w *writer) history(h bench.History, arms int) {
	first := max(0, len(h.Runs)-mostPast)
	if first > 0 {
		w.line("The newest %d of %d runs.", len(h.Runs)-first, len(h.Runs))
	}
	w.table([]string{"run", "planned (UTC)", "commit", "verdict", "changed since the run before"}, "rllll")
	for i, r := range h.Runs[first:] {
		w.row(fmt.Sprint(first+i+1), plannedAt(r), code(r.Commit, 9), pastVerdict(r), changesText(r, func(s string) string { return Text(s, nameSize*2) }))
	}
	for i, a := range h.Arms[:min(len(h.Arms), arms)] {
		w.line("%s", codeName(a.Harness, a.Model, a.Condition))
		w.pastOf(a, first)
		if i < mostCharts {
			w.chart(h.Runs, a, first)
		}
	}
	w.more(len(h.Arms)-arms, "arms")
	w.line(notTested)
}

func plannedAt(r bench.PastRun) string {
	if r.Timestamp == nil {
		return unknown
	}
	return r.Timestamp.UTC().Format("2006-01-02 15:04")
}

// pastVerdict is the verdict of a run, which says nothing of models where agents were scripted.
func pastVerdict(r bench.PastRun) string {
	if r.Simulated {
		return word(known(r.Verdict)) + " (scripted)"
	}
	return word(known(r.Verdict))
}

// changedSince tells whether the fingerprint of a run is not that of the run before it.
func changedSince(r bench.PastRun) bool { return len(r.Changes) > 0 }

// changesText tells the first changes of a run, each as the page writes foreign text.
func changesText(r bench.PastRun, text func(string) string) string {
	var told []string
	for _, c := range r.Changes[:min(len(r.Changes), mostChanges)] {
		told = append(told, text(c.String()))
	}
	if more := len(r.Changes) - len(told) + r.More; more > 0 {
		told = append(told, fmt.Sprintf("%d more", more))
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
// shows nothing, so there is none. Runs whose fingerprint changed have a star.
func (w *writer) chart(all []bench.PastRun, a bench.ArmHistory, first int) {
	var runs, rate, lo, hi []string
	title, last := "Pass rate in percent, and the ends of its interval", -1
	for i, p := range a.Points[first:] {
		if p == nil || p.PassRate == nil || p.PassRate.Lo == nil || p.PassRate.Hi == nil {
			continue
		}
		star := ""
		if changedBetween(all[first:], last, i) {
			star, title = "*", "Pass rate in percent, and the ends of its interval (* something changed)"
		}
		last = i
		runs = append(runs, fmt.Sprintf(`"%d%s"`, first+i+1, star))
		rate, lo, hi = append(rate, percent(p.PassRate.Value)), append(lo, percent(*p.PassRate.Lo)), append(hi, percent(*p.PassRate.Hi))
	}
	if len(runs) < 2 {
		return
	}
	w.line("```mermaid\nxychart-beta\n    title \"%s\"\n    x-axis \"run\" [%s]\n"+
		"    y-axis \"passed\" 0 --> 100\n    bar [%s]\n    line [%s]\n    line [%s]\n```",
		title, strings.Join(runs, ", "), strings.Join(rate, ", "), strings.Join(lo, ", "), strings.Join(hi, ", "))
}

// changedBetween tells whether the fingerprint changed from one drawn run to the next, also in a run between that is not drawn.
// Without a run before, -1, nothing changed.
func changedBetween(runs []bench.PastRun, before, now int) bool {
	if before < 0 {
		return false
	}
	for _, r := range runs[before+1 : now+1] {
		if changedSince(r) {
			return true
		}
	}
	return false
}
