package report

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/bench"
)

// comment is comment.md: the page of a run that GitHub knows nothing of.
func comment(b bench.Benchmark) ([]byte, error) {
	return Page{State: Done, Benchmark: &b}.Comment(CommentBudget), nil
}

// lastLevel is the shortest page. Each level leaves out more, and says so: 0 all, 1 without unchanged cases, 2 without
// the bodies of details, 3 with at most 20 moved cases, 4 headline, table and links, 5 a line and links.
const lastLevel = 5

// How much a page shows beside the levels.
const (
	mostArms   = 30     // rows of the table
	mostLost   = 20     // groups of cells that were not scored
	mostFaults = 100    // of a suite
	mostMoved  = 20     // cases from level 3 on
	mostFew    = 5      // of any list from level 4 on
	mostCells  = 30_000 // cases by arms of a wide page; more would not fit the summary of a job
)

// A view is what all levels of one page share.
type view struct {
	Page
	wide       bool // tables may be wide, and lists long
	b          bench.Benchmark
	fell, rose []moved
	names      []string // of all cases
	changed    []string // of the cases that moved
	lost       []lostCells
}

func newView(p Page, wide bool) *view {
	v := &view{Page: p, wide: wide, b: p.benchmark()}
	v.State = p.state()
	if v.State != Done {
		return v
	}
	v.fell, v.rose = movedCases(v.b)
	v.names = caseNames(v.b)
	v.changed = changed(v.names, v.fell, v.rose)
	v.lost = notScored(v.b, v.pick(mostLost, mostRows))
	return v
}

// pick is a bound of an ordinary page or of a wide one.
func (v *view) pick(narrow, wide int) int {
	if v.wide {
		return wide
	}
	return narrow
}

// whole writes the page from its heading on.
func (v *view) whole(w *writer, level int) {
	w.line("## %s", strings.Replace(v.title(), " ", " Assay: ", 1))
	v.head(w, level)
	v.body(w, level)
	v.foot(w, level)
}

// head writes what must be seen: what happened, and how far it can be trusted.
func (v *view) head(w *writer, level int) {
	if v.unverified() {
		w.alert("CAUTION", "**Not verified.** These numbers come from a run that the pull request itself controlled. They are shown, and they decide nothing.")
	}
	if level == lastLevel {
		w.line("%s", Text(v.Status(), statusSize))
		w.line("The page was too long for this place; `report.md`, `report.html` and `benchmark.json` have it all.")
		return
	}
	v.lostPlaces(w)
	switch v.State {
	case Done:
		v.verdict(w)
	case Running:
		w.line("%s", v.progress())
	case Awaiting:
		v.awaiting(w)
	case NothingToRun:
		w.line("%s", v.because("There is nothing to run."))
		w.line("Nothing was measured, so nothing is said about the change.")
	case SuiteFault:
		w.line("The suite cannot be run as it is. No cell was started, and nothing is said about the change.")
		v.faults(w, level)
	default:
		w.line("%s", v.because("Assay could not do its work."))
		w.line("This is a failure of Assay or of what it runs on, and says nothing about the change.")
	}
}

// lostPlaces says where the page could not be written.
func (v *view) lostPlaces(w *writer) {
	if len(v.Lost) == 0 {
		return
	}
	var items []string
	for _, place := range v.Lost[:min(len(v.Lost), mostLost)] {
		items = append(items, "- "+Text(place, evidenceSize))
	}
	w.alert("NOTE", append([]string{fmt.Sprintf("**Places that could not be written: %d.**", len(v.Lost)), ""}, items...)...)
}

// alert writes one of GitHub's boxes.
func (w *writer) alert(kind string, lines ...string) {
	w.line("> [!%s]", kind)
	for _, line := range lines {
		w.WriteString(strings.TrimSpace("> "+line) + "\n")
	}
}

// because is the text of the page, or another when there is none.
func (v *view) because(otherwise string) string {
	if strings.TrimSpace(v.Text) == "" {
		return otherwise
	}
	return Text(v.Text, sentenceSize)
}

// progress says how far a run is.
func (v *view) progress() string {
	line := fmt.Sprintf("**%d of %d cells have ended**", v.Ended, v.Planned)
	if v.Planned > 0 {
		done := min(max(v.Ended, 0), v.Planned)
		full := int(int64(done) * barWidth / int64(v.Planned))
		line = "`" + strings.Repeat("━", full) + strings.Repeat("·", barWidth-full) + "` " + line
	}
	if v.CostUSD != nil {
		line += fmt.Sprintf(", %s spent", usd(*v.CostUSD))
	}
	return line + ". There is no verdict until all have; this page is updated on the way."
}

// awaiting says what a maintainer may allow.
func (v *view) awaiting(w *writer) {
	w.line("%s", v.because("This pull request may not use the keys of this repository by itself."))
	line := v.Command
	if line == "" && isSHA(v.Marker.SHA) {
		line = "/eval " + v.Marker.SHA
	}
	if line != "" {
		w.line("A maintainer who has read the change may start the run with this comment: %s", code(line, evidenceSize))
	}
	w.line("It would run %s.", v.cost())
}

// faults lists what is wrong with the suite.
func (v *view) faults(w *writer, level int) {
	most := v.pick(mostFaults, mostRows)
	switch {
	case level >= 4:
		most = mostFew
	case level == 3:
		most = mostMoved
	}
	w.WriteByte('\n')
	for _, f := range v.Faults[:min(len(v.Faults), most)] {
		item := code(f.String(), 2*nameSize) + " " + Text(f.Text, sentenceSize)
		if f.Hint != "" {
			item += " (" + Text(f.Hint, sentenceSize) + ")"
		}
		w.WriteString("- " + item + "\n")
	}
	if more := len(v.Faults) - most; more > 0 {
		w.line("+%d more; `assay check` lists them all.", more)
	}
}

// verdict writes the sentences and the table of the arms.
func (v *view) verdict(w *writer) {
	b := v.b
	w.banner(b)
	for i, s := range sentences(b, inMarkdown) {
		if i == 0 {
			s = "**" + s + "**"
		}
		w.line("%s", s)
	}
	v.baseline(w)
	line := coverageLine(b)
	if !v.unverified() {
		line += fmt.Sprintf(" Gate: **%s**.", Text(b.Gate.Result, nameSize))
	}
	w.line("%s", line)
	v.gateChanges(w)

	arms := b.Arms
	if !v.wide {
		arms = underTest(b)
	}
	shown := worstArms(b, arms)
	if v.wide {
		w.arms(b, shown)
	} else {
		w.armsInShort(b, shown)
	}
	w.more(len(arms)-len(shown), "arms")
	w.line("Files and lines are medians over cases, of the passed trials. %s", smallerIsNotBetter)
	w.signals(b, shown)
}

// gateChanges says that the gate is not what it was: when the run was planned, or when the stored baseline was measured.
func (v *view) gateChanges(w *writer) {
	var changes []string
	if v.b.Gate.PostHoc && len(v.b.Notes) > 0 {
		changes = append(changes, v.b.Notes[0]) // which settings, and how
	}
	for _, c := range gating(v.b) {
		for _, warning := range c.Warnings {
			if warning.Code == "gate_changed" && !slices.Contains(changes, warning.Text) {
				changes = append(changes, warning.Text)
			}
		}
	}
	for _, change := range changes[:min(len(changes), mostFew)] {
		w.alert("IMPORTANT", capital(Text(change, sentenceSize)))
	}
}

// baseline says of a stored baseline what a reader must know before the numbers: that there is none, or that it is not
// what the pull request started from.
func (v *view) baseline(w *writer) {
	o := v.b.Origin
	if o == nil || o.Source == "merge-base" && o.Behind == 0 {
		return
	}
	if o.Source != "none" {
		w.line("%s", v.origin())
		return
	}
	if slices.ContainsFunc(gating(v.b), func(c *bench.Comparison) bool { return c.Axis != "baseline" }) {
		w.line("There is no stored baseline; arms are compared within this run.")
	}
}

// origin says where the stored baseline came from, or why there is none.
func (v *view) origin() string {
	o := v.b.Origin
	if o.Source == "none" {
		return fmt.Sprintf("There is no stored baseline: %s.", strings.TrimSuffix(Text(o.Why, sentenceSize), "."))
	}
	parts := []string{"The stored baseline comes from " + sourceName(o.Source)}
	if o.SHA != "" {
		parts = append(parts, "commit "+code(o.SHA, nameSize))
	}
	if o.Behind > 0 {
		parts = append(parts, fmt.Sprintf("%d %s before the merge base", o.Behind, plural(o.Behind, "commit", "commits")))
	}
	if o.Created != nil {
		parts = append(parts, "measured "+o.Created.UTC().Format(time.DateOnly)+" ("+cachedFor(v.b)+")")
	}
	return strings.Join(parts, ", ") + "."
}

// sourceName is a step of the ladder of baselines in words.
func sourceName(source string) string {
	switch source {
	case "merge-base":
		return "the merge base"
	case "ancestor":
		return "an ancestor"
	case "file", "release", "run", "ref":
		return "a " + source
	}
	return Text(source, nameSize)
}

// underTest are the arms that a comparison gates, or all when there is no such comparison.
func underTest(b bench.Benchmark) []bench.Arm {
	var out []bench.Arm
	for _, a := range b.Arms {
		if comparisonOf(b, a.ArmID) != nil {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return b.Arms
	}
	return out
}

// worstArms are the arms of a table: all, or the worst when there are very many.
func worstArms(b bench.Benchmark, arms []bench.Arm) []bench.Arm {
	if len(arms) <= mostArms {
		return arms
	}
	var out []bench.Arm
	for _, verdict := range []bench.Verdict{bench.Regressed, bench.Invalid, bench.Underpowered, bench.NoEvidence, bench.Equivalent, bench.Improved} {
		for _, a := range arms {
			if c := comparisonOf(b, a.ArmID); c != nil && known(c.Verdict) == verdict && len(out) < mostArms {
				out = append(out, a)
			}
		}
	}
	if len(out) == 0 {
		return arms[:mostArms]
	}
	return out
}

// armsInShort writes the table of the arms under test, each with what its baseline took.
func (w *writer) armsInShort(b bench.Benchmark, arms []bench.Arm) {
	scale, short := barScale(b), armNames(b)
	w.table([]string{"arm", "pass rate, %", "Δ paired, pp", fmt.Sprintf("−%.0f … 0 … +%.0f", scale, scale), "cases", together("files / lines"), "cost"}, "lllclll")
	for _, a := range arms {
		name := code(short(a.ArmID), 3*nameSize)
		delta, line, cases, base := unknown, unknown, unknown, (*bench.Arm)(nil)
		if c := comparisonOf(b, a.ArmID); c != nil {
			name = together(word(c.Verdict)) + " " + name
			cases = movedCounts(c)
			delta, line = effect(c, scale)
			base = baseArm(b, c)
		}
		if a.Simulated {
			name += " (scripted)"
		}
		cost := func(a bench.Arm) string { return money(a.Cost) }
		w.row(name, parted(passRate(a)), parted(delta), line, together(cases), was(a, base, medians), was(a, base, cost))
	}
}

// together is text that a narrow table does not break.
func together(s string) string { return strings.ReplaceAll(s, " ", "\u00a0") }

// brackets are a part of a figure that belongs together.
var brackets = regexp.MustCompile(`\([^()]*\)`)

// parted is a figure that a narrow table does not break inside of brackets.
func parted(s string) string { return brackets.ReplaceAllStringFunc(s, together) }

// baseArm is the arm of this run that a comparison is against, or nil when it is not of this run.
func baseArm(b bench.Benchmark, c *bench.Comparison) *bench.Arm {
	for i := range b.Arms {
		if b.Arms[i].ArmID == c.Base.ID && b.Arms[i].ArmID != c.Head.ID {
			return &b.Arms[i]
		}
	}
	return nil
}

// was is a figure of an arm, with that of its baseline.
func was(a bench.Arm, base *bench.Arm, figure func(bench.Arm) string) string {
	out := figure(a)
	if base == nil || figure(*base) == unknown {
		return out
	}
	return parted(fmt.Sprintf("%s (was %s)", out, figure(*base)))
}

// medians are the files and lines of an arm's passed trials.
func medians(a bench.Arm) string {
	files, lines := a.DiffScope.Passed.FilesTouched, a.DiffScope.Passed.LinesChanged
	if files == nil || lines == nil {
		return unknown
	}
	return together(scopeOf(&files.Value, &lines.Value))
}

// body writes what a reader looks for next: which cases, and what is behind the numbers.
func (v *view) body(w *writer, level int) {
	if v.State != Done || level == lastLevel {
		return
	}
	if level == 4 {
		w.line("The page was too long for this place; the cases are in `report.md`, `report.html` and `benchmark.json`.")
		return
	}
	most := mostRows
	if level >= 3 {
		most = mostMoved
	}
	w.fell(v.b, v.fell, most)
	v.notScored(w, level)
	v.notCompared(w, level)
	if len(v.rose) > 0 {
		w.details(fmt.Sprintf("Cases that passed more often: %d", len(v.rose)), level, func() { w.rose(v.b, v.rose, most) })
	}
	v.allCases(w, level)
	if h := past(v.b); h != nil && v.wide { // mail shows the source of a chart, so comments have none
		w.details(fmt.Sprintf("History: %d runs", len(h.Runs)), level, func() { w.history(*h, mostCharts) })
	}
	w.details("Baseline and method", level, func() {
		v.provenance(w)
		if len(v.b.Comparisons) > 0 {
			w.comparisons(v.b)
		}
		if v.wide {
			w.effort(v.b)
		}
		w.method(v.b)
	})
}

// allCases writes the cases: all, or from level 1 on those that moved.
func (v *view) allCases(w *writer, level int) {
	most := v.pick(mostRows, max(mostRows, mostCells/max(1, len(v.b.Arms))))
	names, what := v.names, fmt.Sprintf("All %d cases", len(v.names))
	if level >= 1 {
		names, what = v.changed, fmt.Sprintf("%d of %d cases", len(v.changed), len(v.names))
	}
	if slices.ContainsFunc(gating(v.b), func(c *bench.Comparison) bool { return c.NPairs > 0 }) {
		what += fmt.Sprintf(": %d passed more or less often", len(v.changed))
	}
	shown := names[:min(len(names), most)]
	w.details(what, level, func() {
		if len(shown) > 0 {
			w.cases(v.b, shown)
		}
		w.more(len(v.names)-len(shown), "cases")
	})
}

// provenance writes where the stored baseline came from, and what was not taken for one.
func (v *view) provenance(w *writer) {
	o := v.b.Origin
	if o == nil {
		return
	}
	w.line("%s", v.origin())
	if o.URL != "" {
		w.line("It was read from %s.", code(o.URL, evidenceSize))
	}
	if len(o.Rejected) == 0 {
		return
	}
	w.line("Looked at and not taken:")
	w.table([]string{"candidate", "why not"}, "ll")
	for _, r := range o.Rejected[:min(len(o.Rejected), mostLost)] {
		w.row(code(r.What, nameSize), Text(r.Why, evidenceSize))
	}
	w.more(len(o.Rejected)-mostLost, "candidates")
}

// lostCells are trials of one case and arm that were not scored for the same reason.
type lostCells struct {
	status, name, why string
	arm               bench.ArmID
	trials            []string
}

// notScored groups the cells that are in no rate; at most so many groups are listed.
func notScored(b bench.Benchmark, most int) []lostCells {
	type key struct {
		status, name, why string
		arm               bench.ArmID
	}
	at := make(map[key]int)
	var out []lostCells
	for _, m := range b.Missing {
		why := missingWhy(m)
		if m.Detail != "" {
			why = strings.TrimPrefix(why+": "+m.Detail, ": ")
		}
		k := key{m.Status, m.Case, why, m.Arm()}
		i, known := at[k]
		if !known {
			if len(out) == most {
				continue
			}
			i = len(out)
			at[k] = i
			out = append(out, lostCells{status: m.Status, name: m.Case, why: why, arm: m.Arm()})
		}
		if len(out[i].trials) < mostLost {
			out[i].trials = append(out[i].trials, fmt.Sprint(m.Trial))
		}
	}
	return out
}

// notScored is the warning about cells that are in no rate.
func (v *view) notScored(w *writer, level int) {
	if len(v.b.Missing) == 0 {
		return
	}
	groups := v.lost
	if level >= 2 {
		groups = groups[:min(len(groups), mostFew)]
	}
	name, left := armNames(v.b), len(v.b.Missing)
	lines := []string{fmt.Sprintf("**Not scored: %d of %d cells.** They are in no rate.", len(v.b.Missing), v.b.Coverage.Planned), ""}
	for _, g := range groups {
		lines = append(lines, fmt.Sprintf("- %s: %s %s, trial %s (%s)", Text(g.status, nameSize), code(g.name, nameSize), code(name(g.arm), nameSize), strings.Join(g.trials, ", "), Text(g.why, evidenceSize)))
		left -= len(g.trials)
	}
	w.alert("WARNING", lines...)
	w.more(left, "cells that were not scored")
}

// notCompared lists the cases that are in a rate and in no comparison, or in neither.
func (v *view) notCompared(w *writer, level int) {
	type key struct{ name, reason string }
	listed := make(map[key]bool)
	var items []string
	for _, c := range gating(v.b) {
		for _, u := range c.Unpaired {
			if k := (key{u.Case, u.Reason}); !listed[k] {
				listed[k] = true
				if len(items) < mostLost {
					items = append(items, code(u.Case, nameSize)+" ("+Text(unpairedWhy(u.Reason), nameSize)+")")
				}
			}
		}
	}
	if len(listed) == 0 {
		return
	}
	if level >= 2 {
		items = items[:min(len(items), mostFew)]
	}
	w.line("Not compared: %s.", strings.Join(items, ", "))
	w.more(len(listed)-len(items), "cases that were not compared")
}

// unpairedWhy says why a case could not be compared.
func unpairedWhy(reason string) string {
	switch reason {
	case "unscored_base":
		return "not scored in the baseline"
	case "unscored_head":
		return "not scored in the candidate"
	case "unscored_both":
		return "not scored on either side"
	case "case_changed":
		return "changed since the baseline"
	case "graders_changed":
		return "graded otherwise since the baseline"
	case "only_base":
		return "no longer there"
	case "only_head":
		return "new"
	case "not_admitted":
		return "failed its admission"
	}
	return reason
}

// details writes a part that a reader opens. From level 2 on only its title stays.
func (w *writer) details(title string, level int, body func()) {
	if level >= 2 {
		w.line("%s: see `report.md`.", title)
		return
	}
	w.line("<details><summary><b>%s</b></summary>", title)
	body()
	w.line("</details>")
}

// foot writes where everything is, and how to look again.
func (v *view) foot(w *writer, level int) {
	var parts []string
	for _, l := range []struct{ text, address string }{{"results", v.Links.Artifact}, {"run", v.Links.Run}, {"commit", v.Links.Commit}} {
		if link := linkTo(l.text, l.address); link != "" {
			parts = append(parts, link)
		}
	}
	if again := v.again(); again != "" && level < lastLevel {
		parts = append(parts, "again: "+code(again, evidenceSize))
	}
	if len(parts) > 0 {
		w.line("%s", strings.Join(parts, " · "))
	}
}

// simple is a case id that needs no quoting in a command.
var simple = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// again is the line by which a maintainer looks closer at what was measured: more trials, of the worst case if one fell.
func (v *view) again() string {
	if v.State != Done || !isSHA(v.Marker.SHA) {
		return ""
	}
	line := "/eval " + v.Marker.SHA
	if len(v.fell) > 0 && simple.MatchString(v.fell[0].Case) {
		line += " --case " + v.fell[0].Case
	}
	return line + fmt.Sprintf(" --trials %d", min(10, max(5, v.b.Metadata.RunsPerConfiguration+2)))
}

// maxLink bounds an address, in bytes.
const maxLink = 400

// linkTo is a link to an address that we made ourselves, or nothing when it is no address of a page.
func linkTo(text, address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return ""
	}
	var out strings.Builder
	for _, c := range []byte(address) {
		if strings.IndexByte(linkBytes, c) >= 0 {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	if out.Len() > maxLink {
		return ""
	}
	return "[" + text + "](" + out.String() + ")"
}

// linkBytes may stand in the destination of a link as they are.
const linkBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._/:?#@=%,;+~"

// changed keeps the names of cases that moved.
func changed(names []string, lists ...[]moved) []string {
	is := make(map[string]bool)
	for _, list := range lists {
		for _, m := range list {
			is[m.Case] = true
		}
	}
	var out []string
	for _, n := range names {
		if is[n] {
			out = append(out, n)
		}
	}
	return out
}
