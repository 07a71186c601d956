package report

import (
	"fmt"
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
	w.comparisons(b)

	fell, rose := movedCases(b)
	w.fell(fell, mostRows)
	w.rose(rose, mostRows)
	w.line("## Cases")
	w.cases(b, caseNames(b))
	w.missing(b, mostRows)
	w.strangers(b)
	w.scopeRows(b)

	w.line("## Method")
	for _, p := range method(b) {
		w.line("%s", text(p, 2000))
	}
	w.table([]string{"what", "value"}, "ll")
	for _, p := range provenance(b) {
		w.row(p[0], code(p[1], 200))
	}
	return []byte(w.String()), nil
}

// inMarkdown is the markup of sentences here.
var inMarkdown = markup{codeName, func(s string) string { return text(s, sentenceSize) }}

// A writer writes Markdown. What goes in as an argument is Markdown already: foreign text has been through text or code.
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
		w.line("> **Scripted agents.** %s", text(s, 400))
	}
}

func (w *writer) gateLine(b bench.Benchmark) {
	w.line("Gate: **%s** (exit code %d), decided by %s.", text(b.Gate.Result, nameSize), b.Gate.ExitCode, code(b.Gate.By, nameSize))
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
			cases = fmt.Sprintf("%d ▲ %d ▼", c.NBetter, c.NWorse)
			if c.EffectPP != nil {
				delta = fmt.Sprintf("**%s** (%s)", signed(*c.EffectPP), interval(signed, c.LoPP, c.HiPP))
				line = "`" + bar(*c.LoPP, *c.EffectPP, *c.HiPP, scale) + "`"
			}
		case a.Baseline:
			name = "baseline " + name
		}
		if a.Simulated {
			name += " (scripted)"
		}
		w.row(name, passRate(a), delta, line, cases, estimate(short, a.DiffScope.Passed.FilesTouched), estimate(short, a.DiffScope.Passed.LinesChanged), money(a.Cost))
	}
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
	w.table([]string{"arm", "tokens", "turns", "seconds", "pass@k", "pass^k", "cells with diff scope"}, "lllllll")
	for _, a := range b.Arms {
		anyOf, all := unknown, unknown
		for _, p := range a.PassAt {
			if p.Any != nil {
				anyOf, all = fmt.Sprintf("%s %% (k = %d)", percent(*p.Any), p.K), fmt.Sprintf("%s %% (k = %d)", percent(*p.All), p.K)
			}
		}
		w.row(codeName(a.Harness, a.Model, a.Condition), estimate(short, a.Tokens), estimate(short, a.Turns), estimate(short, a.Duration), anyOf, all,
			fmt.Sprintf("%d of %d scored", a.DiffScope.Scored.Cells, a.DiffScope.Scored.Cells+a.DiffScope.Scored.Unmeasured))
	}
	w.line("Medians over cases of a case's median, over scored trials. Tokens are fresh input and output.")
}

// comparisons writes the table of comparisons with their reasons.
func (w *writer) comparisons(b bench.Benchmark) {
	if len(b.Comparisons) == 0 {
		return
	}
	w.line("## Comparisons")
	w.table([]string{"head against base", "verdict", "pairs", "p worse", "p better", "detectable, pp", "cases like these, pp", "why"}, "lllllrll")
	for _, c := range b.Comparisons {
		like := unknown
		if c.CasesLikeThese != nil {
			like = interval(signed, &c.CasesLikeThese.LoPP, &c.CasesLikeThese.HiPP)
		}
		var why []string
		for _, r := range c.Reasons[:min(len(c.Reasons), 5)] {
			why = append(why, strings.TrimSpace(code(r.Case, nameSize)+" "+text(r.Text, 400)))
		}
		w.row(codeName(c.Head.ID.Harness, c.Head.ID.Model, c.Head.ID.Condition)+" against "+codeName(c.Base.ID.Condition), word(c.Verdict),
			fmt.Sprintf("%d of %d cases", c.NPairs, c.NCases), pValue(c.PGlobal), pValue(c.PGlobalBetter), detectable(c.MDEPP), like, strings.Join(why, "; "))
	}
	w.line("p is exact and one-sided. Detectable is the smallest effect that four of five such runs would have found.")
}

// fell writes the cases whose rate fell.
func (w *writer) fell(cases []moved, most int) {
	if len(cases) == 0 {
		return
	}
	w.line("### Cases that passed less often")
	w.table([]string{"case", "arm", "baseline → now", "Holm p", "significant", "why"}, "lllrll")
	for _, m := range cases[:min(len(cases), most)] {
		w.row(code(m.Case, nameSize), codeName(m.Head.Harness, m.Head.Model, m.Head.Condition), passes(m), pValue(&m.PHolm), yesNo(m.Regressed), text(m.Why, evidenceSize))
	}
	w.more(len(cases)-most, "cases that passed less often")
}

// rose writes the cases whose rate rose.
func (w *writer) rose(cases []moved, most int) {
	if len(cases) == 0 {
		return
	}
	w.line("### Cases that passed more often")
	w.table([]string{"case", "arm", "baseline → now", "Holm p", "significant"}, "lllrl")
	for _, m := range cases[:min(len(cases), most)] {
		w.row(code(m.Case, nameSize), codeName(m.Head.Harness, m.Head.Model, m.Head.Condition), passes(m), pValue(&m.PImprovedHolm), yesNo(m.Improved))
	}
	w.more(len(cases)-most, "cases that passed more often")
}

func passes(m moved) string {
	return fmt.Sprintf("%d/%d → %d/%d", m.CasePair.Base.Passed, m.CasePair.Base.N, m.CasePair.Head.Passed, m.CasePair.Head.N)
}

func yesNo(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}

// mostColumns of a table that people can read.
const mostColumns = 8

// cases writes one table of the named cases for each harness and model: dots and diff scope by condition.
func (w *writer) cases(b bench.Benchmark, names []string) {
	marks, found := dots(b), byCase(b)
	for _, g := range groups(b) {
		arms := g.Arms
		for len(arms) > 0 {
			n := min(len(arms), (mostColumns-1)/2)
			w.caseTable(g, arms[:n], names, marks, found)
			arms = arms[n:]
		}
	}
	w.line("%s. Files / lines are medians of the passed trials. %s", dotLegend, smallerIsNotBetter)
}

func (w *writer) caseTable(g group, arms []bench.Arm, names []string, marks map[caseArm][]string, found map[caseArm]bench.CaseArm) {
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
	for _, name := range names[:min(len(names), mostRows)] {
		cells := []string{code(name, nameSize)}
		for _, a := range arms {
			cells = append(cells, strings.Join(marks[caseArm{name, a.ArmID}], ""))
		}
		for _, a := range arms {
			c := found[caseArm{name, a.ArmID}]
			cells = append(cells, scopeOf(c.FilesTouched, c.LinesChanged))
		}
		w.row(cells...)
	}
	w.more(len(names)-mostRows, "cases")
}

// missing writes the cells that are in no rate.
func (w *writer) missing(b bench.Benchmark, most int) {
	if len(b.Missing) == 0 {
		return
	}
	w.line("### Not scored: %d of %d cells", len(b.Missing), b.Coverage.Planned)
	w.table([]string{"case", "arm", "trial", "status", "class or reason", "detail"}, "llrlll")
	for _, m := range b.Missing[:min(len(b.Missing), most)] {
		w.row(code(m.Case, nameSize), codeName(m.Harness, m.Model, m.Condition), fmt.Sprint(m.Trial), text(m.Status, nameSize), text(missingWhy(m), nameSize), text(m.Detail, evidenceSize))
	}
	w.more(len(b.Missing)-most, "cells that were not scored")
	w.line("They are in no rate.")
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
		w.table([]string{"case", "harness · model", "trial", "status", "files", "lines + −", "hunks", "remark"}, "llrlrrrl")
		for _, r := range of.Value[:min(len(of.Value), mostRows)] {
			w.row(code(r.Case, nameSize), codeName(r.Harness, r.Model), fmt.Sprint(r.Trial), text(string(r.Status), nameSize),
				count(r.FilesTouched), linesOf(r), count(r.Hunks), text(remark(r), evidenceSize))
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
	case r.Approximate != nil && *r.Approximate:
		return "bounds only"
	}
	return ""
}
