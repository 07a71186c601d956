package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/assay-ci/assay/internal/bench"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

// How much of a large run the page holds; benchmark.json has the rest. A page stays below about five megabytes.
const (
	mostCaseRows    = 500
	mostCellDetails = 1000
	evidenceHTML    = 600 // characters
)

// HTML is report.html of a benchmark of which nothing else is known.
func HTML(b bench.Benchmark) ([]byte, error) { return HTMLOver(b, nil) }

// HTMLOver is report.html: one file that needs no network. Its one script shows the cells, each with what the details tell of
// it, and runs nothing else; without a script the page has everything but the conversations. Without details, nil, its cells
// have what the benchmark tells.
func HTMLOver(b bench.Benchmark, d Details) ([]byte, error) {
	t, err := template.New("page").Funcs(template.FuncMap{
		"base": func(c bench.Comparison) string { return baseName(c, plain) },
		"word": word, "passes": passes, "short": short, "signed": signed, "percent": percent, "p": pValue, "name": plainName, "missingWhy": missingWhy,
		"estimate":    func(e *bench.Estimate) string { return estimate(short, e) },
		"interval":    func(c bench.Comparison) string { return interval(signed, c.LoPP, c.HiPP) },
		"like":        func(i *bench.Interval) string { return interval(signed, &i.LoPP, &i.HiPP) },
		"clean":       func(s string) string { return clean(s, evidenceHTML) },
		"long":        func(s string) string { return clean(s, 2000) },
		"verbatim":    func(s string) string { return lined(s, evidenceHTML) },
		"usd":         usd,
		"detectable":  detectable,
		"held":        held,
		"proven":      conditionHeld,
		"provenIs":    func() string { return conditionLegend },
		"known":       orUnknown,
		"metricsIs":   func() string { return metricsLegend },
		"verdictsAt":  func() string { return verdictsPage },
		"smaller":     func() string { return smallerIsNotBetter },
		"dotLegend":   dotsOf,
		"ofCells":     ofCells,
		"shares":      shares,
		"excess":      overReference,
		"runFacts":    runFacts,
		"runSignals":  runSignals,
		"factsLegend": func() string { return factsLegend },
		"classIs":     classText,
		"scoreOf":     scoreText,
		"notTested":   func() string { return notTested },
		"firstHidden": func(n, most int) int { return max(0, n-most) },
	}).Parse(pageHTML)
	if err != nil {
		return nil, fmt.Errorf("page.html: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, newSheet(b)); err != nil {
		return nil, fmt.Errorf("report.html: %w", err)
	}
	if err := appendCells(&out, b, d); err != nil {
		return nil, fmt.Errorf("report.html: %w", err)
	}
	return out.Bytes(), nil
}

// hashOf is the source of a content security policy that allows a text of the page itself.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// A sheet is what the template shows.
type sheet struct {
	bench.Benchmark
	CSS         template.CSS
	Policy      string // content security policy: the style sheet and the script of this page and nothing else
	Title       string
	Scripted    string
	Sentences   []string
	Coverage    string
	Rows        []armRow
	Rates       plot
	Forest      plot
	Strips      []strip
	Metrics     []metricRow
	Scatter     []string // of the comparisons
	HasFacts    bool
	HasExcess   bool // of any arm over references
	Quality     []chart
	Correct     []scopeRow
	Unhealthy   []bench.Assertion
	Trend       *trend // nil: no earlier run is known
	Fell, Rose  []moved
	Groups      []caseGroup
	CasesHidden int
	NotScored   []bench.Missing
	Method      []string
	Provenance  [][2]string
	why         map[caseArm]string
}

// Why is the first failed assertion of a case that fell, with its evidence.
func (s sheet) Why(m moved) string { return s.why[caseArm{m.Case, m.Of.Head.ID}] }

// An armRow is an arm with its comparison, if it has one.
type armRow struct {
	bench.Arm
	Comparison *bench.Comparison
}

// A caseGroup is the cases of one harness and model.
type caseGroup struct {
	group
	Cases []caseRow
}

// A caseRow is one case with a column for each arm.
type caseRow struct {
	Case    string
	Changed string // worse, better or empty
	Cells   []caseCell
	Runs    []bench.Run // with details; nil when the page has no room for them
	Missing []bench.Missing
}

// A caseCell is one case in one arm.
type caseCell struct {
	bench.CaseArm
	Dots  []string
	Scope string
	Width float64 // of the bar of lines changed, 0 to 100, relative to the widest of the page
}

func newSheet(b bench.Benchmark) sheet {
	p := sheet{
		Benchmark: b, CSS: template.CSS(pageCSS),
		Policy: "default-src 'none'; style-src " + hashOf(pageCSS) + "; script-src " + hashOf(pageJS) + "; base-uri 'none'; form-action 'none'",
		Title:  title(b), Scripted: scripted(b), Sentences: sentences(b, plain), Coverage: coverageLine(b),
		Rates: rates(b), Forest: forest(b), Strips: strips(b), Metrics: metricRows(b), Scatter: scatters(b, plain),
		HasFacts: hasFacts(b), HasExcess: hasReference(b),
		Quality: qualities(b), Correct: correctness(b), Unhealthy: unhealthy(b), Trend: trendOf(b),
		NotScored: b.Missing[:min(len(b.Missing), mostRows)], Method: method(b), Provenance: provenance(b),
	}
	for _, a := range b.Arms {
		p.Rows = append(p.Rows, armRow{a, comparisonOf(b, a.ArmID)})
	}
	p.Fell, p.Rose = movedCases(b)
	names := shownCases(caseNames(b), p.Fell, p.Rose)
	p.CasesHidden = len(caseNames(b)) - len(names)
	p.Groups = caseGroups(b, names, p.Fell, p.Rose)
	p.Fell, p.Rose = p.Fell[:min(len(p.Fell), mostRows)], p.Rose[:min(len(p.Rose), mostRows)]
	p.why = failures(b, casesOf(p.Fell))
	return p
}

// shownCases are all cases, or in a large run those that moved and then as many others as there is room for.
func shownCases(names []string, lists ...[]moved) []string {
	if len(names) <= mostCaseRows {
		return names
	}
	first := changed(names, lists...)
	is := make(map[string]bool)
	for _, n := range first {
		is[n] = true
	}
	for _, n := range names {
		if !is[n] {
			first = append(first, n)
		}
	}
	return first[:mostCaseRows]
}

func caseGroups(b bench.Benchmark, names []string, fell, rose []moved) []caseGroup {
	type slot struct{ harness, model, name string }
	runs, missing, changes := make(map[slot][]bench.Run), make(map[slot][]bench.Missing), make(map[slot]string)
	is := set(names)
	for i := range b.Runs {
		if r := &b.Runs[i]; is[r.Case] {
			at := slot{r.Harness, r.Model, r.Case}
			runs[at] = append(runs[at], *r)
		}
	}
	for _, m := range b.Missing {
		if is[m.Case] {
			at := slot{m.Harness, m.Model, m.Case}
			missing[at] = append(missing[at], m)
		}
	}
	for _, m := range rose {
		changes[slot{m.Of.Head.ID.Harness, m.Of.Head.ID.Model, m.Case}] = "better"
	}
	for _, m := range fell { // a case that fell in one arm is worth a look, whatever it did in others
		changes[slot{m.Of.Head.ID.Harness, m.Of.Head.ID.Model, m.Case}] = "worse"
	}
	widest := 0.0
	for _, c := range b.CaseArms {
		if c.LinesChanged != nil {
			widest = max(widest, *c.LinesChanged)
		}
	}
	marks, found, room := dots(b, names), byCase(b, names), mostCellDetails
	var out []caseGroup
	for _, g := range groups(b) {
		cg := caseGroup{group: g}
		for _, name := range names {
			at := slot{g.Harness, g.Model, name}
			row := caseRow{Case: name, Changed: changes[at], Missing: missing[at]}
			if room -= len(runs[at]); room >= 0 {
				row.Runs = runs[at]
			}
			for _, a := range g.Arms {
				var c bench.CaseArm
				if f := found[caseArm{name, a.ArmID}]; f != nil {
					c = *f
				}
				cell := caseCell{CaseArm: c, Dots: marks[caseArm{name, a.ArmID}], Scope: scopeOf(c.FilesTouched, c.LinesChanged)}
				if c.LinesChanged != nil && widest > 0 {
					cell.Width = math.Round(1000**c.LinesChanged/widest) / 10
				}
				row.Cells = append(row.Cells, cell)
			}
			cg.Cases = append(cg.Cases, row)
		}
		out = append(out, cg)
	}
	return out
}

// held says how an assertion ended.
func held(passed *bool) string {
	switch {
	case passed == nil:
		return "could not tell"
	case *passed:
		return "held"
	}
	return "did not hold"
}

// lined is foreign text that keeps its lines.
func lined(s string, limit int) string {
	var lines []string
	for line := range strings.SplitSeq(s, "\n") {
		line = clean(line, limit)
		if limit -= len([]rune(line)); limit < 0 {
			break
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
