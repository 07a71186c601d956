// Package report turns a benchmark into pages: [Faces] is the table of them, and each face is one function from a
// benchmark to bytes. To add a page, write one file with such a function and give it a row. What a pull request is told,
// before, during and after a run, is a [Page], which knows how much room each place has.
//
// Pages count nothing. Every number they show is a field of the benchmark, so two pages cannot disagree. Everything
// that agents, suites and models wrote is text and never markup: Markdown goes through one escaper (escape.go), HTML
// through html/template. No page says that nothing got worse unless the numbers do: no evidence stays no evidence.
package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/assay-ci/assay/internal/bench"
)

// A Face is one page. Write is pure: the same benchmark gives the same bytes.
type Face struct {
	Name  string // for --format
	File  string // in the folder of results
	Doc   string
	Write func(io.Writer, bench.Benchmark) error // in parts, where a large run would make it large
}

// Render is the page in one piece.
func (f Face) Render(b bench.Benchmark) ([]byte, error) {
	var page bytes.Buffer
	err := f.Write(&page, b)
	return page.Bytes(), err
}

// inOne writes a page that is made in one piece.
func inOne(page func(bench.Benchmark) ([]byte, error)) func(io.Writer, bench.Benchmark) error {
	return func(w io.Writer, b bench.Benchmark) error {
		data, err := page(b)
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	}
}

// Faces are all pages there are.
var Faces = []Face{
	{"json", "benchmark.json", "every number, for programs", writeJSON},
	{"md", "report.md", "the whole report, for reading in a terminal or a repository", inOne(Markdown)},
	{"html", "report.html", "the whole report in one file that needs no network", inOne(HTML)},
	{"junit", "junit.xml", "every cell as a test case, for CI systems", JUnit},
	{"comment", "comment.md", "the report as a comment on a pull request, within its size limit", inOne(comment)},
}

func writeJSON(w io.Writer, b bench.Benchmark) error { return b.WriteJSON(w) }

// smallerIsNotBetter stands beside every table that shows diff scope.
const smallerIsNotBetter = "A smaller diff is not better by itself; read it next to the pass rate."

// scripted stands on top of every page whose agents, or some of them, no model drove.
func scripted(b bench.Benchmark) string {
	if !b.Simulated {
		return ""
	}
	return fmt.Sprintf("The agents of %s play a script; no model drove them. These numbers show what the tool does and say nothing about any model.",
		strings.Join(b.Metadata.Simulated, ", "))
}

// word is a verdict as pages print it: glyph and word always together, since neither mail nor every eye shows colour.
func word(v bench.Verdict) string {
	switch v {
	case bench.Regressed:
		return "❌ regressed"
	case bench.Improved:
		return "✅ improved"
	case bench.Equivalent:
		return "🟰 equivalent"
	case bench.NoEvidence:
		return "⚪ no evidence"
	case bench.Underpowered:
		return "⚪ underpowered"
	}
	return "⛔ invalid"
}

// known is the verdict, or invalid when it is none of the six words.
func known(v bench.Verdict) bench.Verdict {
	switch v {
	case bench.Regressed, bench.Improved, bench.Equivalent, bench.NoEvidence, bench.Underpowered:
		return v
	}
	return bench.Invalid
}

// Headline is the verdict in one line of plain text. It may hold text of the suite and is not escaped.
func Headline(b bench.Benchmark) string {
	return title(b) + ": " + strings.Join(sentences(b, plain), " ")
}

// title is the verdict of the suite, with how many of the gating comparisons share it when there are several.
func title(b bench.Benchmark) string {
	all := gating(b)
	same := 0
	for _, c := range all {
		if c.Verdict == b.Verdict {
			same++
		}
	}
	if len(all) < 2 || same == 0 {
		return word(b.Verdict)
	}
	return fmt.Sprintf("%s, %d of %d arms", word(b.Verdict), same, len(all))
}

// gating are the comparisons that the verdict is made of: at most one for each arm under test.
func gating(b bench.Benchmark) []*bench.Comparison {
	var out []*bench.Comparison
	for i := range b.Comparisons {
		if b.Comparisons[i].Gates {
			out = append(out, &b.Comparisons[i])
		}
	}
	return out
}

// mostSentences bounds the comparisons that a headline tells of; the table has them all.
const mostSentences = 3

// A markup writes foreign text in the language of a page.
type markup struct {
	name func(parts ...string) string // an arm, a condition or a case
	text func(s string) string
}

// plain is the markup of a terminal.
var plain = markup{plainName, func(s string) string { return clean(s, sentenceSize) }}

// sentenceSize bounds a reason, in characters.
const sentenceSize = 600

// telling are the gating comparisons, those with the suite's verdict first.
func telling(b bench.Benchmark) []*bench.Comparison {
	order := gating(b)
	slices.SortStableFunc(order, func(x, y *bench.Comparison) int {
		return rank(x.Verdict == b.Verdict) - rank(y.Verdict == b.Verdict)
	})
	return order
}

// sentences tell what the gating comparisons found, those with the suite's verdict first.
func sentences(b bench.Benchmark, m markup) []string {
	order := telling(b)
	if len(order) == 0 {
		return []string{capital(strings.TrimSuffix(m.text(b.Reason.Text), ".")) + "."}
	}
	var out []string
	for _, c := range order[:min(len(order), mostSentences)] {
		out = append(out, sentence(b, *c, m))
	}
	if more := len(order) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("%d more below.", more))
	}
	if text := aboutCached(b, m); text != "" {
		out = append(out, text)
	}
	if b.Gate.Result == "failed" && b.Gate.By != b.Reason.Code {
		out = append(out, "The gate says no: "+m.text(b.Gate.Text)+".")
	}
	return out
}

func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

// plainName is a name of several parts on one line.
func plainName(parts ...string) string {
	short := make([]string, len(parts))
	for i, p := range parts {
		short[i] = clean(p, 40) // a name is no place for a story
	}
	return strings.Join(short, " · ")
}

func capital(s string) string {
	if s == "" {
		return s
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// coverageLine says how much of the plan was scored.
func coverageLine(b bench.Benchmark) string {
	c := b.Coverage
	line := fmt.Sprintf("Coverage %s: %d of %d planned cells scored", wholePercent(c.Share), c.Scored, c.Planned)
	for _, part := range []struct {
		n    int
		what string
	}{{c.Errored, "errored"}, {c.Skipped, "skipped"}, {c.Pending, "pending"}} {
		if part.n > 0 {
			line += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	if b.Interrupted {
		line += ". The run was stopped before its end"
	}
	return line + "."
}

// comparisonOf is the gating comparison in which an arm is the head, or nil.
func comparisonOf(b bench.Benchmark, arm bench.ArmID) *bench.Comparison {
	for i := range b.Comparisons {
		if c := &b.Comparisons[i]; c.Gates && c.Head.ID == arm {
			return c
		}
	}
	return nil
}

// A moved case passed less, or more, often in the head of a gating comparison than in its base.
type moved struct {
	*bench.CasePair
	Of *bench.Comparison
}

// movedCases lists the cases whose rate fell and those whose rate rose, the largest significance first.
func movedCases(b bench.Benchmark) (fell, rose []moved) {
	for _, c := range gating(b) {
		for i := range c.PCases {
			p := &c.PCases[i]
			switch cross := p.Head.Passed*p.Base.N - p.Base.Passed*p.Head.N; {
			case cross < 0:
				fell = append(fell, moved{p, c})
			case cross > 0:
				rose = append(rose, moved{p, c})
			}
		}
	}
	slices.SortFunc(fell, func(x, y moved) int { return cmp.Or(cmp.Compare(x.P, y.P), inOrder(x, y)) })
	slices.SortFunc(rose, func(x, y moved) int { return cmp.Or(cmp.Compare(x.PImproved, y.PImproved), inOrder(x, y)) })
	return fell, rose
}

// inOrder compares moved cases of one significance.
func inOrder(x, y moved) int {
	return cmp.Or(strings.Compare(x.Case, y.Case), strings.Compare(x.Of.Head.Arm, y.Of.Head.Arm))
}

type caseArm struct {
	name string
	arm  bench.ArmID
}

// failures gives the first failed assertion of each of the named cases and each arm, with its evidence.
func failures(b bench.Benchmark, names []string) map[caseArm]string {
	out, wanted := make(map[caseArm]string), set(names)
	for i := range b.Runs {
		r := &b.Runs[i]
		at := caseArm{r.Case, r.Arm()}
		if !wanted[r.Case] || out[at] != "" {
			continue
		}
		for _, e := range r.Expectations {
			if e.Passed != nil && !*e.Passed {
				out[at] = strings.TrimSuffix(e.ID+": "+e.Evidence, ": ")
				break
			}
		}
	}
	return out
}

// set is a list to look names up in.
func set(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[n] = true
	}
	return out
}

// dots are the cells of each of the named cases and each arm in the order of trials: ● passed, ○ failed, ✕ errored,
// – skipped, · pending. Fresh trials stand behind a ┊.
func dots(b bench.Benchmark, names []string) map[caseArm][]string {
	type cell struct {
		trial int
		fresh bool
		dot   string
	}
	cells, wanted := make(map[caseArm][]cell), set(names)
	for i := range b.Runs {
		r := &b.Runs[i]
		if !wanted[r.Case] {
			continue
		}
		if dot := map[string]string{"passed": "●", "failed": "○"}[string(r.Status)]; dot != "" {
			at := caseArm{r.Case, r.Arm()}
			cells[at] = append(cells[at], cell{r.Trial, r.Phase == bench.ConfirmPhase, dot})
		}
	}
	for _, m := range b.Missing {
		if !wanted[m.Case] {
			continue
		}
		dot := map[string]string{"errored": "✕", "skipped": "–"}[m.Status]
		if dot == "" {
			dot = "·"
		}
		at := caseArm{m.Case, m.Arm()}
		cells[at] = append(cells[at], cell{m.Trial, false, dot})
	}
	out := make(map[caseArm][]string, len(cells))
	for at, list := range cells {
		slices.SortStableFunc(list, func(x, y cell) int { return cmp.Or(rank(!x.fresh)-rank(!y.fresh), x.trial-y.trial) })
		for i, c := range list {
			if c.fresh && (i == 0 || !list[i-1].fresh) {
				out[at] = append(out[at], freshMark)
			}
			out[at] = append(out[at], c.dot)
		}
	}
	return out
}

// dotLegend explains dots.
const dotLegend = "● passed ○ failed ✕ errored – skipped · no result"

// freshMark stands before the fresh trials of a case that was run again.
const freshMark = "┊"

// dotsOf explains the dots of a benchmark.
func dotsOf(b bench.Benchmark) string {
	if slices.ContainsFunc(b.CaseArms, func(c bench.CaseArm) bool { return c.Confirm != nil }) {
		return dotLegend + "; fresh trials, which are in no rate, stand behind " + freshMark
	}
	return dotLegend
}

// A group is all arms of one harness and model: a baseline and its candidates.
type group struct {
	Harness, Model string
	Arms           []bench.Arm
}

func groups(b bench.Benchmark) []group {
	var out []group
	for _, a := range b.Arms {
		if n := len(out); n == 0 || out[n-1].Harness != a.Harness || out[n-1].Model != a.Model {
			out = append(out, group{Harness: a.Harness, Model: a.Model})
		}
		last := &out[len(out)-1]
		last.Arms = append(last.Arms, a)
	}
	return out
}

// caseNames are the cases, by name.
func caseNames(b bench.Benchmark) []string {
	var out []string
	for _, c := range b.CaseArms {
		if len(out) == 0 || out[len(out)-1] != c.Case {
			out = append(out, c.Case)
		}
	}
	return out
}

// byCase finds what the arms did on the named cases.
func byCase(b bench.Benchmark, names []string) map[caseArm]*bench.CaseArm {
	out, wanted := make(map[caseArm]*bench.CaseArm), set(names)
	for i := range b.CaseArms {
		if c := &b.CaseArms[i]; wanted[c.Case] {
			out[caseArm{c.Case, c.ArmID}] = c
		}
	}
	return out
}

// armNames gives arms names as short as they can be told apart in the benchmark.
func armNames(b bench.Benchmark) func(bench.ArmID) string {
	conditions, models := make(map[string]bool), make(map[string]map[string]bool) // models of a harness
	severalModels := false
	for _, a := range b.Arms {
		conditions[a.Condition] = true
		if models[a.Harness] == nil {
			models[a.Harness] = make(map[string]bool)
		}
		models[a.Harness][a.Model] = true
		severalModels = severalModels || len(models[a.Harness]) > 1
	}
	return func(a bench.ArmID) string {
		if len(b.Arms) < 2 {
			return plainName(a.Harness, a.Model, a.Condition)
		}
		var parts []string
		if len(models) > 1 {
			parts = append(parts, a.Harness)
		}
		if severalModels {
			parts = append(parts, a.Model)
		}
		if len(conditions) > 1 {
			parts = append(parts, a.Condition)
		}
		return plainName(parts...)
	}
}

// scopeOf is a diff scope as "files / lines" of two known numbers.
func scopeOf(files, lines *float64) string {
	if files == nil || lines == nil {
		return unknown
	}
	return short(*files) + " / " + short(*lines)
}

// missingWhy is the class or reason of a cell that is in no rate, and its detail.
func missingWhy(m bench.Missing) string {
	why := m.Class
	if why == "" {
		why = m.Reason
	}
	if m.Attempts > 1 {
		why += fmt.Sprintf(", %d attempts", m.Attempts)
	}
	return strings.TrimPrefix(why, ", ")
}

// provenance is what was run with what, by name.
func provenance(b bench.Benchmark) [][2]string {
	rows := [][2]string{
		{"suite", b.Metadata.Suite},
		{"tool", "assay " + b.Metadata.Tool},
		{"seed", b.Metadata.Seed},
		{"executor", b.Fingerprint.Executor},
		{"isolation", b.Metadata.Isolation},
		{"isolation of keys", cmp.Or(b.Metadata.KeyIsolation, "not known")},
		{"diff algorithm", b.Fingerprint.Algorithm},
		{"suite digest", b.Fingerprint.Suite},
		{"fingerprint", b.Fingerprint.Digest},
	}
	if c := b.Contamination; c != nil {
		rows = append(rows, [2]string{"contamination proof", contamination(*c)})
	}
	return rows
}

// contamination says of how many cells it is proven that their agents did not have the hidden assets.
func contamination(c bench.Contamination) string {
	text := fmt.Sprintf("%d of %d %s with hidden assets", c.Proven, c.Cells, plural(c.Cells, "cell", "cells"))
	if !c.Prevents {
		text += "; agents could read the files of the host, so it can miss one that looked for them"
	}
	return text
}

// unknown is what stands for a number that was not measured.
const unknown = "–"

// signed is a difference in percentage points with a true minus sign.
func signed(v float64) string {
	s := fmt.Sprintf("%+.1f", v)
	if s == "+0.0" || s == "-0.0" {
		return "0.0"
	}
	return strings.Replace(s, "-", "−", 1)
}

// short is a number with at most three significant digits, and all digits of a large whole part.
func short(v float64) string {
	format := "%.3g"
	if math.Abs(v) >= 100 {
		format = "%.0f"
	}
	return strings.Replace(fmt.Sprintf(format, v), "-", "−", 1)
}

func percent(v float64) string { return fmt.Sprintf("%.1f", 100*v) }

// wholePercent is a share in percent, never rounded up to all of it.
func wholePercent(share float64) string { return fmt.Sprintf("%.0f %%", math.Floor(100*share)) }

// interval is "lo … hi", or a dash without one.
func interval(format func(float64) string, lo, hi *float64) string {
	if lo == nil || hi == nil {
		return unknown
	}
	return format(*lo) + " … " + format(*hi)
}

// estimate is "value (lo … hi)"; the interval is left out where there is none.
func estimate(format func(float64) string, e *bench.Estimate) string {
	switch {
	case e == nil:
		return unknown
	case e.Lo == nil || e.Hi == nil:
		return format(e.Value)
	}
	return fmt.Sprintf("%s (%s)", format(e.Value), interval(format, e.Lo, e.Hi))
}

// pValue never prints a zero.
func pValue(p *float64) string {
	switch {
	case p == nil:
		return unknown
	case *p < 1e-4:
		return "< 0.0001"
	case *p > 0.9999:
		return "1"
	}
	return fmt.Sprintf("%.2g", *p)
}

// money is a cost with what is not known of it.
func money(c bench.Cost) string {
	switch {
	case c.USD == nil:
		return unknown
	case c.Unknown > 0:
		return fmt.Sprintf("≥ %s (%d unknown)", usd(*c.USD), c.Unknown)
	}
	return usd(*c.USD)
}

// usd is an amount of money; small ones keep the digits that tell them from nothing.
func usd(v float64) string {
	if v > 0 && v < 0.1 {
		return fmt.Sprintf("$%.4f", v)
	}
	return fmt.Sprintf("$%.2f", v)
}

// pEquals is a p-value with its sign of equality.
func pEquals(p *float64) string {
	if v := pValue(p); strings.HasPrefix(v, "<") {
		return "p " + v
	}
	return "p = " + pValue(p)
}

// detectable is the smallest effect that would have been found; there is none beyond all of it.
func detectable(pp *float64) string {
	switch {
	case pp == nil:
		return unknown
	case *pp > 100:
		return "> 100"
	}
	return short(*pp)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// barWidth is the length of an interval bar in characters.
const barWidth = 21

// barScale is the smallest of a few round bounds, in percentage points, that holds every interval of a page.
func barScale(b bench.Benchmark) float64 {
	most := 0.0
	for _, c := range gating(b) {
		for _, v := range []*float64{c.EffectPP, c.LoPP, c.HiPP} {
			if v != nil {
				most = max(most, math.Abs(*v))
			}
		}
	}
	for _, scale := range []float64{10, 25, 50} {
		if most <= scale {
			return scale
		}
	}
	return 100
}

// bar draws lo ≤ value ≤ hi on a line from −scale to +scale, with zero in its middle.
func bar(lo, value, hi, scale float64) string {
	at := func(v float64) int {
		return min(barWidth-1, max(0, int(math.Round((v+scale)/(2*scale)*(barWidth-1)))))
	}
	line := []rune(strings.Repeat("·", barWidth))
	for i := at(lo); i <= at(hi); i++ {
		line[i] = '━'
	}
	line[barWidth/2] = '│'
	line[at(lo)], line[at(hi)] = '┣', '┫'
	line[at(value)] = '╋'
	return string(line)
}
