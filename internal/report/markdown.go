package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/bench"
)

// How much of a list a Markdown page shows; benchmark.json has the rest.
const (
	mostRows     = 500
	evidenceSize = 160 // characters
	nameSize     = 64
)

// Markdown is report.md: the whole report.
func Markdown(b bench.Benchmark) ([]byte, error) {
	var w writer
	w.line("# %s", title(b))
	w.banner(b)
	for _, s := range sentences(b, inMarkdown) {
		w.line("%s", s)
	}
	w.line("%s", coverageLine(b))
	w.gateLine(b)

	w.line("## Arms")
	w.arms(b, b.Arms)
	w.line("%s", smallerIsNotBetter)
	w.effort(b)
	w.beside(b)
	if len(b.Comparisons) > 0 {
		w.line("## Comparisons")
		w.comparisons(b)
		w.metrics(b)
	}

	fell, rose := movedCases(b)
	w.fell(b, fell, mostRows)
	w.rose(b, rose, mostRows)
	w.line("## Cases")
	names := caseNames(b)
	w.cases(b, names[:min(len(names), mostRows)])
	w.more(len(names)-mostRows, "cases")
	w.missing(b, mostRows)
	w.strangers(b)
	w.assertions(b)
	w.facts(b)
	w.scopeRows(b)
	if h := past(b); h != nil {
		w.line("## History")
		w.history(*h, mostCharts)
	}

	w.line("## Method")
	w.method(b)
	return []byte(w.String()), nil
}

// inMarkdown is the markup of sentences here.
var inMarkdown = markup{codeName, func(s string) string { return Text(s, sentenceSize) }}

// A writer writes Markdown. What goes in as an argument is Markdown already: foreign text has been through Text or code.
type writer struct {
	strings.Builder
}

// line writes a paragraph or a heading, with a blank line before it.
func (w *writer) line(format string, args ...any) {
	if w.Len() > 0 {
		w.WriteByte('\n')
	}
	fmt.Fprintf(w, format, args...)
	w.WriteByte('\n')
}

// table opens a table. align has a letter a column: l, c or r.
func (w *writer) table(header []string, align string) {
	w.WriteByte('\n')
	w.row(header...)
	marks := make([]string, len(header))
	for i, a := range align {
		marks[i] = map[rune]string{'l': ":--", 'c': ":-:", 'r': "--:"}[a]
	}
	w.row(marks...)
}

// row writes one row of the table that is open.
func (w *writer) row(cells ...string) {
	w.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// more says what a list leaves out.
func (w *writer) more(left int, what string) {
	if left > 0 {
		w.line("+%d more %s in `benchmark.json`.", left, what)
	}
}

// banner says that agents are scripted.
func (w *writer) banner(b bench.Benchmark) {
	if s := scripted(b); s != "" {
		w.line("> **Scripted agents.** %s", Text(s, 400))
	}
}

func (w *writer) gateLine(b bench.Benchmark) {
	w.line("Gate: **%s** (exit code %d), decided by %s.", Text(b.Gate.Result, nameSize), b.Gate.ExitCode, code(b.Gate.By, nameSize))
}

// arms writes the table of arms.
func (w *writer) arms(b bench.Benchmark, arms []bench.Arm) {
	scale := barScale(b)
	w.table([]string{"arm", "pass rate, % (95 %)", "Δ paired, pp", fmt.Sprintf("−%.0f … 0 … +%.0f", scale, scale), "cases ▲ ▼", "files, median", "lines, median", "cost"}, "lllcclll")
	for _, a := range arms {
		name := codeName(a.Harness, a.Model, a.Condition)
		delta, line, cases := unknown, unknown, unknown
		switch c := comparisonOf(b, a.ArmID); {
		case c != nil:
			name = word(c.Verdict) + " " + name
			cases = movedCounts(c)
			delta, line = effect(c, scale)
		case a.Baseline:
			name = "baseline " + name
		}
		if a.Simulated {
			name += " (scripted)"
		}
		w.row(name, passRate(a), delta, line, cases, estimate(short, a.DiffScope.Passed.FilesTouched), estimate(short, a.DiffScope.Passed.LinesChanged), money(a.Cost))
	}
}

// movedCounts is how many cases passed more and less often.
func movedCounts(c *bench.Comparison) string {
	if c.NPairs == 0 {
		return unknown
	}
	return fmt.Sprintf("%d ▲ %d ▼", c.NBetter, c.NWorse)
}

// effect is the effect of a comparison with its interval, in figures and as a bar.
func effect(c *bench.Comparison, scale float64) (figures, line string) {
	if c.EffectPP == nil {
		return unknown, unknown
	}
	figures, line = fmt.Sprintf("**%s** (%s)", signed(*c.EffectPP), interval(signed, c.LoPP, c.HiPP)), unknown
	if c.LoPP != nil && c.HiPP != nil {
		line = "`" + bar(*c.LoPP, *c.EffectPP, *c.HiPP, scale) + "`"
	}
	return figures, line
}

// passRate is a rate with its interval and its denominator.
func passRate(a bench.Arm) string {
	out := fmt.Sprintf("%d/%d", a.Coverage.Passed, a.Coverage.Scored)
	if a.PassRate != nil {
		out = fmt.Sprintf("**%s** (%s) %s", percent(a.PassRate.Value), interval(percent, a.PassRate.Lo, a.PassRate.Hi), out)
	}
	if a.Coverage.Scored < a.Coverage.Planned {
		out += fmt.Sprintf(" of %d planned", a.Coverage.Planned)
	}
	return out
}

// effort writes what the arms took to get there.
func (w *writer) effort(b bench.Benchmark) {
	w.table([]string{"arm", "tokens", "turns", "seconds", "pass@k", "pass^k", "cells with diff scope", "condition verified"}, "llllllll")
	for _, a := range b.Arms {
		anyOf, all := unknown, unknown
		for _, p := range a.PassAt {
			if p.Any != nil && p.All != nil {
				anyOf, all = fmt.Sprintf("%s %% (k = %d)", percent(*p.Any), p.K), fmt.Sprintf("%s %% (k = %d)", percent(*p.All), p.K)
			}
		}
		w.row(codeName(a.Harness, a.Model, a.Condition), estimate(short, a.Tokens), estimate(short, a.Turns), estimate(short, a.Duration), anyOf, all,
			fmt.Sprintf("%d of %d scored", a.DiffScope.Scored.Cells, a.DiffScope.Scored.Cells+a.DiffScope.Scored.Unmeasured), conditionHeld(a))
	}
	w.line("Medians over cases of a case's median, over scored trials. Tokens are fresh input and output. %s", conditionLegend)
}

// conditionLegend explains what a verified condition is.
const conditionLegend = "A condition is verified when the first request of the agent to its model, or the first snapshot, shows that it was there and no other one."

// conditionHeld is how many of an arm's cells had their condition, for certain.
func conditionHeld(a bench.Arm) string {
	out := fmt.Sprintf("%d of %d", a.Held.Verified, a.Held.Verified+a.Held.NotHeld+a.Held.Unknown)
	if a.Held.NotHeld > 0 {
		out += fmt.Sprintf(", %d without it", a.Held.NotHeld)
	}
	if a.Held.Unknown > 0 {
		out += fmt.Sprintf(", %d not known", a.Held.Unknown)
	}
	return out
}

// comparisons writes the table of comparisons with their reasons.
func (w *writer) comparisons(b bench.Benchmark) {
	w.table([]string{"head against base", "verdict", "pairs", "p worse", "p better", "detectable, pp", "cases like these, pp", "why"}, "lllllrll")
	for _, c := range b.Comparisons {
		like := unknown
		if c.CasesLikeThese != nil {
			like = interval(signed, &c.CasesLikeThese.LoPP, &c.CasesLikeThese.HiPP)
		}
		var why []string
		for _, r := range c.Reasons[:min(len(c.Reasons), 5)] {
			why = append(why, strings.TrimSpace(code(r.Case, nameSize)+" "+Text(r.Text, 400)))
		}
		w.row(codeName(c.Head.ID.Harness, c.Head.ID.Model, c.Head.ID.Condition)+" against "+baseName(c, inMarkdown), word(c.Verdict),
			fmt.Sprintf("%d of %d cases", c.NPairs, c.NCases), pValue(c.PGlobal), pValue(c.PGlobalBetter), detectable(c.MDEPP), like, strings.Join(why, "; "))
	}
	w.line("p is exact and one-sided. Detectable is the smallest effect that four of five such runs would have found.")
}

// fell writes the cases whose rate fell, and why.
func (w *writer) fell(b bench.Benchmark, cases []moved, most int) {
	if len(cases) == 0 {
		return
	}
	shown := cases[:min(len(cases), most)]
	why, name := failures(b, casesOf(shown)), armNames(b)
	w.line("### Cases that passed less often")
	w.table([]string{"case", "arm", together("baseline → now"), together("Holm p"), "why"}, "lllrl")
	for _, m := range shown {
		w.row(mark(m.Regressed, "❌ ")+code(m.Case, nameSize), together(code(name(m.Of.Head.ID), 3*nameSize)), together(passes(m)), pValue(m.PHolm), Text(why[caseArm{m.Case, m.Of.Head.ID}], evidenceSize))
	}
	w.more(len(cases)-most, "cases that passed less often")
	w.significant("❌", slices.ContainsFunc(shown, func(m moved) bool { return m.Regressed }))
}

// rose writes the cases whose rate rose.
func (w *writer) rose(b bench.Benchmark, cases []moved, most int) {
	if len(cases) == 0 {
		return
	}
	name := armNames(b)
	w.line("### Cases that passed more often")
	w.table([]string{"case", "arm", together("baseline → now"), together("Holm p")}, "lllr")
	shown := cases[:min(len(cases), most)]
	for _, m := range shown {
		w.row(mark(m.Improved, "✅ ")+code(m.Case, nameSize), together(code(name(m.Of.Head.ID), 3*nameSize)), together(passes(m)), pValue(&m.PImprovedHolm))
	}
	w.more(len(cases)-most, "cases that passed more often")
	w.significant("✅", slices.ContainsFunc(shown, func(m moved) bool { return m.Improved }))
}

// significant says what the glyph before a moved case means, or that none has it.
func (w *writer) significant(glyph string, any bool) {
	if any {
		w.line("%s significant by itself, after Holm's adjustment.", glyph)
		return
	}
	w.line("None of them is significant by itself, after Holm's adjustment.")
}

// casesOf are the names of moved cases.
func casesOf(list []moved) []string {
	var out []string
	for _, m := range list {
		out = append(out, m.Case)
	}
	return out
}

func mark(on bool, glyph string) string {
	if on {
		return glyph
	}
	return ""
}

// passes are those of the screen, and of the fresh trials where the case was run again.
func passes(m moved) string {
	text := fromTo(m.CasePair.Base, m.CasePair.Head)
	if again := m.CasePair.Confirm; again != nil {
		text += ", fresh " + fromTo(again.Base, again.Head)
	}
	return text
}

// mostColumns of a table that people can read.
const mostColumns = 8

// cases writes one table of the named cases for each harness and model: dots and diff scope by condition.
func (w *writer) cases(b bench.Benchmark, names []string) {
	marks, found := dots(b, names), byCase(b, names)
	for _, g := range groups(b) {
		arms := g.Arms
		for len(arms) > 0 {
			n := min(len(arms), (mostColumns-1)/2)
			w.caseTable(g, arms[:n], names, marks, found)
			arms = arms[n:]
		}
	}
	w.line("%s. Files / lines are medians of the passed trials. %s", dotsOf(b), smallerIsNotBetter)
}

func (w *writer) caseTable(g group, arms []bench.Arm, names []string, marks map[caseArm][]string, found map[caseArm]*bench.CaseArm) {
	header, align := []string{codeName(g.Harness, g.Model)}, "l"
	for _, a := range arms {
		header = append(header, codeName(a.Condition))
		align += "c"
	}
	for _, a := range arms {
		header = append(header, "files / lines "+codeName(a.Condition))
		align += "l"
	}
	w.table(header, align)
	for _, name := range names {
		cells := []string{code(name, nameSize)}
		for _, a := range arms {
			cells = append(cells, strings.Join(marks[caseArm{name, a.ArmID}], ""))
		}
		for _, a := range arms {
			scope := unknown
			if c := found[caseArm{name, a.ArmID}]; c != nil {
				scope = scopeOf(c.FilesTouched, c.LinesChanged)
			}
			cells = append(cells, scope)
		}
		w.row(cells...)
	}
}

// missing writes the cells that are in no rate.
func (w *writer) missing(b bench.Benchmark, most int) {
	if len(b.Missing) == 0 {
		return
	}
	w.line("### Not scored: %d of %d cells", len(b.Missing), b.Coverage.Planned)
	w.table([]string{"case", "arm", "trial", "status", "class or reason", "detail"}, "llrlll")
	for _, m := range b.Missing[:min(len(b.Missing), most)] {
		w.row(code(m.Case, nameSize), codeName(m.Harness, m.Model, m.Condition), fmt.Sprint(m.Trial), Text(m.Status, nameSize), Text(missingWhy(m), nameSize), Text(m.Detail, evidenceSize))
	}
	w.more(len(b.Missing)-most, "cells that were not scored")
	w.line("They are in no rate.")
}

// method writes how the numbers came about, and what was run with what.
func (w *writer) method(b bench.Benchmark) {
	for _, p := range method(b) {
		w.line("%s", Text(p, 2000))
	}
	w.line("What each word and number means: [docs/verdicts.md](%s).", verdictsPage)
	w.table([]string{"what", "value"}, "ll")
	for _, p := range provenance(b) {
		w.row(p[0], code(p[1], 200))
	}
}

// strangers writes what lay in the ledger and did not belong, or could not be read.
func (w *writer) strangers(b bench.Benchmark) {
	for _, list := range []struct {
		title string
		items []string
	}{{"Records that could not be read", b.Unreadable}, {"Records of no planned cell, left out", b.Unplanned}} {
		if len(list.items) == 0 {
			continue
		}
		w.line("### %s: %d\n", list.title, len(list.items))
		for _, s := range list.items[:min(len(list.items), 20)] {
			fmt.Fprintf(w, "- %s\n", code(s, evidenceSize))
		}
		w.more(len(list.items)-20, "of them")
	}
}

// scopeRows writes the diff scope of every cell that was run, by condition.
func (w *writer) scopeRows(b bench.Benchmark) {
	w.line("## Diff scope of every cell")
	w.line("%s", smallerIsNotBetter)
	for _, of := range b.DiffScope {
		w.line("### %s", codeName(of.Condition))
		if len(of.Value) == 0 {
			w.line("No cell of this condition was run.")
			continue
		}
		w.table([]string{"case", "harness · model", "trial", "status", "files", "lines + −", "effective", "hunks", "remark"}, "llrlrrrrl")
		for _, r := range of.Value[:min(len(of.Value), mostRows)] {
			w.row(code(r.Case, nameSize), codeName(r.Harness, r.Model), fmt.Sprint(r.Trial), Text(string(r.Status), nameSize),
				count(r.FilesTouched), linesOf(r), count(r.EffectiveLines), count(r.Hunks), Text(remark(r), evidenceSize))
		}
		w.more(len(of.Value)-mostRows, "rows")
	}
}

func count(n *int) string {
	if n == nil {
		return unknown
	}
	return fmt.Sprint(*n)
}

func linesOf(r bench.ScopeRow) string {
	if r.LinesAdded == nil || r.LinesRemoved == nil {
		return unknown
	}
	return fmt.Sprintf("+%d −%d", *r.LinesAdded, *r.LinesRemoved)
}

// remark says what a reader must know of a row's numbers.
func remark(r bench.ScopeRow) string {
	switch {
	case r.Unmeasured != nil:
		return "not measured: " + r.Unmeasured.Class + ", " + r.Unmeasured.Why
	case r.FilesTouched == nil:
		return "not measured"
	case r.NoChange != nil && *r.NoChange:
		return "no change"
	}
	var out []string
	if r.Approximate != nil && *r.Approximate {
		out = append(out, "bounds only")
	}
	if r.OutsideFiles != nil && *r.OutsideFiles > 0 {
		out = append(out, filesOf(*r.OutsideFiles)+" outside scope")
	}
	return strings.Join(out, ", ")
}
