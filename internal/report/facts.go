package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/bench"
)

// signalsNotVerdicts stands beside everything that shows facts about changes.
const signalsNotVerdicts = "These are signals for a reader, not verdicts: they change no rate and decide nothing."

// factsLegend explains the table of facts.
const factsLegend = "Lines and shares are medians over cases, of the passed trials; the other columns count scored cells. " +
	"Effective lines are lines changed without those in which only blanks changed. Generated takes in vendored files and lockfiles. " +
	signalsNotVerdicts

// How much is shown of what a cell has; its result.json has all.
const (
	mostSignals    = 3  // of a cell, in a list
	mostFactNames  = 10 // dependencies of a cell
	mostSuspicious = 50 // cells of the list
)

// hasFacts tells whether there is something to say about the changes of any arm.
func hasFacts(b bench.Benchmark) bool {
	return slices.ContainsFunc(b.Arms, func(a bench.Arm) bool { return a.DiffScope.Signals.Measured > 0 })
}

// hasReference tells whether passed trials of any arm were set against a reference.
func hasReference(b bench.Benchmark) bool {
	return slices.ContainsFunc(b.Arms, func(a bench.Arm) bool { return a.DiffScope.Passed.ExcessLines != nil })
}

// facts writes what is known of the changes beside their size: by arm, and the cells that are worth a look.
func (w *writer) facts(b bench.Benchmark) {
	if !hasFacts(b) {
		return
	}
	w.line("## Facts about the changes")
	header := []string{"arm", "effective lines", "tests / docs / generated, %", "test tampering signals", "new dependencies", "outside scope", "no change"}
	if hasReference(b) {
		header = slices.Insert(header, 3, "lines over the reference")
	}
	w.table(header, strings.Repeat("l", len(header)))
	for _, a := range b.Arms {
		s := a.DiffScope.Signals
		row := []string{
			codeName(a.Harness, a.Model, a.Condition), estimate(short, a.DiffScope.Passed.EffectiveLines), shares(a),
			tamperedCells(a), ofCells(s.AddedDependencies, s.Inspected), outsideCells(a), ofCells(s.NoChange, s.Measured),
		}
		if hasReference(b) {
			row = slices.Insert(row, 3, overReference(a))
		}
		w.row(row...)
	}
	w.line("%s", factsLegend)
	w.suspicious(b)
}

// suspicious lists the cells that show signals of test tampering.
func (w *writer) suspicious(b bench.Benchmark) {
	cells := tampered(b)
	if len(cells) == 0 {
		return
	}
	name := armNames(b)
	w.line("### What a reviewer should look at\n")
	for _, r := range cells[:min(len(cells), mostSuspicious)] {
		var found []string
		for _, t := range r.DiffFacts.Tampering[:min(len(r.DiffFacts.Tampering), mostSignals)] {
			found = append(found, signalIn(t.Kind, t.Path, t.Text))
		}
		if more := r.DiffFacts.TamperingCount - len(found); more > 0 {
			found = append(found, fmt.Sprintf("and %d more", more))
		}
		fmt.Fprintf(w, "- %s %s trial %d, %s: %s\n",
			code(r.Case, nameSize), code(name(r.Arm()), 3*nameSize), r.Trial, Text(string(r.Status), nameSize), strings.Join(found, "; "))
	}
	w.more(len(cells)-mostSuspicious, "cells with such signals")
}

// tampered are the runs with signals of test tampering, passed ones first: there a signal matters most.
func tampered(b bench.Benchmark) []*bench.Run {
	var out []*bench.Run
	for i := range b.Runs {
		if f := b.Runs[i].DiffFacts; f != nil && f.TamperingCount > 0 {
			out = append(out, &b.Runs[i])
		}
	}
	slices.SortStableFunc(out, func(x, y *bench.Run) int { return rank(x.Status == "passed") - rank(y.Status == "passed") })
	return out
}

// signalIn is a signal in Markdown.
func signalIn(kind, path, text string) string {
	out := Text(words(kind), nameSize)
	if path != "" {
		out += " in " + code(path, evidenceSize)
	}
	if text != "" {
		out += " (" + Text(text, evidenceSize) + ")"
	}
	return out
}

// words is the code of a signal for people.
func words(kind string) string { return strings.ReplaceAll(kind, "_", " ") }

// signals writes one line about what the arms show that is worth a look, or nothing.
func (w *writer) signals(b bench.Benchmark, arms []bench.Arm) {
	var out []string
	name := armNames(b)
	for _, a := range arms {
		base := (*bench.Arm)(nil)
		if c := comparisonOf(b, a.ArmID); c != nil {
			base = baseArm(b, c)
		}
		if found := armSignals(a, base); found != "" {
			out = append(out, code(name(a.ArmID), 3*nameSize)+" "+found)
		}
	}
	if len(out) == 0 {
		return
	}
	more := ""
	if len(out) > mostFew {
		out, more = out[:mostFew], fmt.Sprintf("; and %d more arms", len(out)-mostFew)
	}
	w.line("⚠️ Worth a look, and no verdict: %s.", strings.Join(out, "; ")+more)
}

// armSignals says what an arm shows that is worth a look, with what its baseline shows; empty when it is nothing.
func armSignals(a bench.Arm, base *bench.Arm) string {
	var out []string
	s := a.DiffScope.Signals
	if s.Tampered != nil && *s.Tampered > 0 {
		var kinds []string
		for _, kind := range s.TamperingKinds[:min(len(s.TamperingKinds), mostFew)] {
			kinds = append(kinds, Text(words(kind), nameSize))
		}
		out = append(out, fmt.Sprintf("shows signals of test tampering (%s) in %s", strings.Join(kinds, ", "), was(a, base, tamperedCells)))
	}
	if s.Outside != nil && *s.Outside > 0 {
		out = append(out, "touched existing files outside scope in "+was(a, base, outsideCells))
	}
	return strings.Join(out, " and ")
}

func tamperedCells(a bench.Arm) string {
	return ofCells(a.DiffScope.Signals.Tampered, a.DiffScope.Signals.Inspected)
}

func outsideCells(a bench.Arm) string {
	return ofCells(a.DiffScope.Signals.Outside, a.DiffScope.Signals.Measured)
}

// ofCells is a count of cells with what it is counted among.
func ofCells(n *int, all int) string {
	if n == nil {
		return unknown
	}
	return fmt.Sprintf("%d of %d %s", *n, all, plural(all, "cell", "cells"))
}

// shares are how much of an arm's changes is tests, documentation and generated files, in percent.
func shares(a bench.Arm) string {
	p := a.DiffScope.Passed
	if p.TestShare == nil || p.DocsShare == nil || p.GeneratedShare == nil {
		return unknown
	}
	return fmt.Sprintf("%s / %s / %s", short(100*p.TestShare.Value), short(100*p.DocsShare.Value), short(100*p.GeneratedShare.Value))
}

// overReference is by how much an arm's changes are larger than the references, with the number of cases that have one.
func overReference(a bench.Arm) string {
	p := a.DiffScope.Passed
	if p.ExcessLines == nil || p.Ratio == nil {
		return unknown
	}
	n := p.ExcessLines.N
	return fmt.Sprintf("%s, ratio %s, %d %s", estimate(short, p.ExcessLines), short(p.Ratio.Value), n, plural(n, "case", "cases"))
}

// runFacts are what is known of the change of a run beside its size, a line each; foreign names in them are not escaped.
func runFacts(r bench.Run) []string {
	var out []string
	if r.DiffScope != nil {
		out = append(out, scopeFacts(*r.DiffScope)...)
		if r.DiffFacts == nil {
			out = append(out, "effective lines, kinds of files, tampering and dependencies not measured")
		}
	}
	if r.DiffFacts != nil && r.DiffScope != nil && !r.DiffScope.NoChange {
		out = append(out, contentFacts(*r.DiffFacts)...)
	}
	if r.TraceChurn != nil {
		out = append(out, churnFact(*r.TraceChurn))
	}
	return out
}

func scopeFacts(s bench.Scope) []string {
	var out []string
	if s.OutsideFiles != nil && *s.OutsideFiles > 0 {
		lines := ", lines changed not known"
		if s.OutsideLines != nil {
			lines = fmt.Sprintf(", lines changed %d", *s.OutsideLines)
		}
		out = append(out, "outside scope: "+filesOf(*s.OutsideFiles)+lines)
	}
	if e := s.Reference; e != nil {
		line := fmt.Sprintf("against the reference: %d lines more, ratio %s, %s of its files touched",
			e.ExcessLines, short(e.Ratio), wholePercent(e.FileRecall))
		if e.FilePrecision != nil {
			line += fmt.Sprintf(", %s of the touched files also in it", wholePercent(*e.FilePrecision))
		}
		if e.Approximate {
			line += "; bounds only"
		}
		out = append(out, line)
	}
	return out
}

func contentFacts(f bench.DiffFacts) []string {
	line := fmt.Sprintf("effective lines %d, only blanks %d, only comments %d", f.EffectiveLines, f.WhitespaceLines, f.CommentLines)
	if f.UnlexedLines > 0 {
		line += fmt.Sprintf(" (not known of %d lines)", f.UnlexedLines)
	}
	out := []string{line}
	l := f.LinesByBucket
	out = appendCounts(out, "lines changed by kind of file: ", []counted{
		{l.Code, "code"}, {l.Test, "tests"}, {l.Docs, "docs"}, {l.Lockfile, "lockfiles"}, {l.Generated, "generated"}, {l.Vendored, "vendored"},
	})
	out = appendNames(out, "dependencies added: ", f.DependenciesAdded, f.AddedCount)
	out = appendNames(out, "dependencies removed: ", f.DependenciesRemoved, f.RemovedCount)
	return appendCounts(out, "", []counted{
		{f.UnreadManifests, "manifests that could not be read"}, {f.NewExecutables, "new executables"}, {f.NewLinks, "new links"},
		{f.LeavingLinks, "links out of the tree"}, {f.LargeFiles, "files above 1 MiB"},
	})
}

func churnFact(c bench.TraceChurn) string {
	line := fmt.Sprintf("trace: %d %s", c.Edits, plural(c.Edits, "edit", "edits"))
	if c.LinesWritten != nil && c.LinesLost != nil {
		line += fmt.Sprintf(" wrote %d lines, %d of them not in the final tree", *c.LinesWritten, *c.LinesLost)
	} else {
		line += ", lines written not known"
	}
	if c.PathsUndone > 0 {
		line += fmt.Sprintf(", %s undone", filesOf(c.PathsUndone))
	}
	return line
}

// A counted thing.
type counted struct {
	n    int
	what string
}

// appendCounts adds one line of the counts that are not zero, if there are any.
func appendCounts(to []string, title string, counts []counted) []string {
	var parts []string
	for _, c := range counts {
		if c.n != 0 {
			parts = append(parts, fmt.Sprintf("%s %d", c.what, c.n))
		}
	}
	if len(parts) == 0 {
		return to
	}
	return append(to, title+strings.Join(parts, ", "))
}

// appendNames adds one line of names, if there are any. n is how many there are in all.
func appendNames(to []string, title string, names []string, n int) []string {
	var shown []string
	for _, name := range names[:min(len(names), mostFactNames)] {
		shown = append(shown, plainName(name))
	}
	if n > len(shown) {
		shown = append(shown, fmt.Sprintf("%d more", n-len(shown)))
	}
	if len(shown) == 0 {
		return to
	}
	return append(to, title+strings.Join(shown, ", "))
}

func filesOf(n int) string { return fmt.Sprintf("%d %s", n, plural(n, "file", "files")) }

// runSignals are the signals of test tampering of a run in plain text, not escaped.
func runSignals(r bench.Run) []string {
	if r.DiffFacts == nil {
		return nil
	}
	var out []string
	for _, t := range r.DiffFacts.Tampering[:min(len(r.DiffFacts.Tampering), mostSignals)] {
		line := clean(words(t.Kind), nameSize)
		for _, part := range []string{t.Path, t.Text} {
			if part = clean(part, evidenceSize); part != "" {
				line += ": " + part
			}
		}
		out = append(out, line)
	}
	if more := r.DiffFacts.TamperingCount - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}
