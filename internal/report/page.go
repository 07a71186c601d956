package report

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/assay-ci/assay/internal/bench"
)

// CommentBudget is how many bytes a comment may have: GitHub refuses a longer one than 65,536, and the rest is for what
// publishing adds.
const CommentBudget = 60_000

// Floor is the least budget that can be kept, in bytes: a smaller one counts as this one.
const Floor = 4096

// statusSize bounds a commit status: GitHub takes 140 characters.
const statusSize = 140

// A State is what a page is about. States are not verdicts: only Done has one.
type State string

// The states of a page.
const (
	Done         State = "done"           // measured; the benchmark says the rest
	Running      State = "running"        // cells are being run
	Awaiting     State = "awaiting"       // a maintainer must allow the run
	NothingToRun State = "nothing_to_run" // the plan is empty, or the pull request is a draft
	SuiteFault   State = "suite_fault"    // the suite cannot be read; nothing was run
	Broken       State = "error"          // our own work failed
)

// A Page is what a pull request is told, in whatever place: comment, check run, status, job summary. Every method is pure
// and keeps its budget, counted in bytes, when it is at least Floor. Text fields are foreign and not escaped.
type Page struct {
	State     State
	Benchmark *bench.Benchmark // of Done; nil otherwise
	Marker    Marker
	Links     Links
	Ended     int      // of Running: cells that have ended
	Planned   int      // of Running and Awaiting: cells of the plan
	CostUSD   *float64 // of Running: spent until now; of Awaiting: an estimate; nil: not known
	Command   string   // of Awaiting: the line that a maintainer may copy, /eval SHA
	Faults    []Fault  // of SuiteFault
	Text      string   // of NothingToRun, Awaiting and Broken: why, in one sentence
	Untrusted bool     // the numbers come from a run that a fork controlled: shown, never gating
	Lost      []string // places that could not be written, with the permission to add; shown in the summary
}

// A Fault of the suite, with its place in the repository.
type Fault struct {
	File      string
	Line, Col int
	Text      string
	Hint      string
}

// String is file:line:col, with as much of it as is known.
func (f Fault) String() string {
	out := f.File
	for _, n := range []int{f.Line, f.Col} {
		if n <= 0 {
			break
		}
		out += fmt.Sprintf(":%d", n)
	}
	return out
}

// Links are addresses that we made ourselves. An empty one is left out.
type Links struct {
	Artifact string // the uploaded results
	Run      string // the workflow run
	Commit   string // the measured commit
}

// Comment is the page as a comment on a pull request, at the fullest level that fits the budget. Its first line is the
// marker, so no cut ever hits it.
func (p Page) Comment(budget int) []byte {
	v := newView(p, false)
	return fit(budget, func(w *writer, level int) {
		w.WriteString(p.marker().line() + "\n")
		v.whole(w, level)
	})
}

// Summary is the page as the summary of a job: with wide tables and every case, as long as they fit the budget.
func (p Page) Summary(budget int) []byte {
	v := newView(p, true)
	return fit(budget, v.whole)
}

// Check is the page as a check run: a title in plain text, and two parts in Markdown that keep the budget each. text is
// empty when the summary says it all.
func (p Page) Check(budget int) (title string, summary, text []byte) {
	v := newView(p, false)
	summary = fit(budget, func(w *writer, level int) {
		v.head(w, level)
		v.foot(w, level)
	})
	text = fit(budget, v.body)
	return p.title(), summary, text
}

// fit writes a page at the fullest level that is not longer than the budget.
func fit(budget int, write func(w *writer, level int)) []byte {
	for level := range lastLevel {
		var w writer
		if write(&w, level); w.Len() <= budget {
			return []byte(w.String())
		}
	}
	var w writer
	write(&w, lastLevel)
	return []byte(w.String())
}

// Status is the page in one line of plain text, at most 140 bytes.
func (p Page) Status() string {
	line := p.status()
	if p.unverified() {
		line = "not verified: " + line
	}
	return cut(strings.TrimSuffix(clean(line, statusSize), ":"), statusSize)
}

func (p Page) status() string {
	switch p.state() {
	case Done:
		return verdictStatus(p.benchmark())
	case Running:
		return fmt.Sprintf("running: %d of %d cells", p.Ended, p.Planned)
	case Awaiting:
		return "waiting for a maintainer: " + p.cost()
	case NothingToRun:
		return "nothing to run: " + p.Text
	case SuiteFault:
		return "suite fault" + p.firstFault()
	}
	return "error: " + p.Text
}

// verdictStatus is the verdict with the numbers of the comparison that tells most of it.
func verdictStatus(b bench.Benchmark) string {
	verdict, why := known(b.Verdict), strings.ReplaceAll(b.Reason.Code, "_", " ")
	parts := []string{strings.ReplaceAll(string(verdict), "_", " ")}
	if verdict == bench.NoEvidence || verdict == bench.Underpowered || verdict == bench.Invalid {
		parts[0] += ", " + clean(why, 40)
	}
	if order := telling(b); len(order) > 0 && order[0].EffectPP != nil {
		c, name := order[0], armNames(b)
		parts[0] += fmt.Sprintf(": %s %s pp", clean(name(c.Head.ID), 40), signed(*c.EffectPP))
		if c.LoPP != nil && c.HiPP != nil {
			parts[0] += fmt.Sprintf(" (%s to %s)", signed(*c.LoPP), signed(*c.HiPP))
		}
		parts = append(parts, fmt.Sprintf("%d worse, %d better of %d %s", c.NWorse, c.NBetter, c.NCases, plural(c.NCases, "case", "cases")))
	}
	parts = append(parts, fmt.Sprintf("coverage %s", wholePercent(b.Coverage.Share)))
	if b.Gate.Result == "failed" && b.Verdict != bench.Regressed {
		parts[0] = "gate failed, " + parts[0]
	}
	return strings.ReplaceAll(strings.Join(parts, "; "), "−", "-") // every byte counts
}

// title is what the page says, as a glyph and a few words of our own: plain text and Markdown at once.
func (p Page) title() string {
	out := ""
	switch p.state() {
	case Done:
		out = title(p.benchmark())
	case Running:
		out = fmt.Sprintf("⏳ running, %d of %d cells", p.Ended, p.Planned)
	case Awaiting:
		out = "⏸️ waiting for a maintainer"
	case NothingToRun:
		out = "⚪ nothing to run"
	case SuiteFault:
		out = fmt.Sprintf("⛔ the suite has %d %s", len(p.Faults), plural(len(p.Faults), "fault", "faults"))
	default:
		out = "⛔ error"
	}
	if p.unverified() {
		out += ", not verified"
	}
	return out
}

// unverified tells whether the page shows numbers that nobody may rely on.
func (p Page) unverified() bool { return p.Untrusted && p.state() == Done }

// state is the state of the page; a word that is none of them is an error of ours.
func (p Page) state() State {
	switch p.State {
	case Done, Running, Awaiting, NothingToRun, SuiteFault:
		return p.State
	}
	return Broken
}

// benchmark is what a page that is Done shows.
func (p Page) benchmark() bench.Benchmark {
	if p.Benchmark == nil {
		return bench.Benchmark{}
	}
	return *p.Benchmark
}

// cost says how large the run would be.
func (p Page) cost() string {
	line := fmt.Sprintf("%d %s", p.Planned, plural(p.Planned, "cell", "cells"))
	if p.CostUSD == nil {
		return line + ", cost not known"
	}
	return line + ", about " + usd(*p.CostUSD)
}

// firstFault is the first fault, with its place among all.
func (p Page) firstFault() string {
	if len(p.Faults) == 0 {
		return ""
	}
	return fmt.Sprintf(" 1 of %d: %s: %s", len(p.Faults), p.Faults[0], p.Faults[0].Text)
}

// cut is s in at most limit bytes, with an ellipsis when some are missing.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	at := limit - len("…")
	for at > 0 && !utf8.RuneStart(s[at]) {
		at--
	}
	return s[:at] + "…"
}
