package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-ci/assay/internal/bench"
)

// JUnit writes the benchmark as JUnit XML, which CI systems list case by case: a testsuite for each arm and a testcase for each
// planned cell. A failed cell is a failure, an errored one an error, and one without a result is skipped; none of them is a
// pass; of these, system-out tells every assertion. Fresh trials of cases that were run again are there too, with "(confirm)" in their name: counts of this file are no
// rates. Characters that XML cannot hold become U+FFFD.
func JUnit(w io.Writer, b bench.Benchmark) error {
	cells := make(map[bench.ArmID][]junitCase)
	ran := make(map[cellID]bool, len(b.Runs))
	for i := range b.Runs {
		r := &b.Runs[i]
		ran[cellID{r.Case, r.Arm(), r.Trial}] = true
		cells[r.Arm()] = append(cells[r.Arm()], junitRun(r))
	}
	for _, m := range b.Missing {
		if !ran[cellID{m.Case, m.Arm(), m.Trial}] {
			cells[m.Arm()] = append(cells[m.Arm()], junitMissing(m))
		}
	}
	doc := junitSuites{Name: clean(b.Metadata.Suite, sentenceSize)}
	for _, a := range b.Arms {
		doc.add(junitArm(b, a, cells[a.ArmID]))
	}
	_, err := io.WriteString(w, xml.Header)
	enc := xml.NewEncoder(w)
	enc.Indent("", " ")
	if err = cmp.Or(err, enc.Encode(doc)); err == nil {
		_, err = io.WriteString(w, "\n")
	}
	if err != nil {
		return fmt.Errorf("write JUnit: %w", err)
	}
	return nil
}

type junitCounts struct {
	Tests    int    `xml:"tests,attr"`
	Failures int    `xml:"failures,attr"`
	Errors   int    `xml:"errors,attr"`
	Skipped  int    `xml:"skipped,attr"`
	Time     string `xml:"time,attr"` // seconds, of the agents

	seconds float64
}

func (n *junitCounts) add(o junitCounts) {
	n.Tests, n.Failures, n.Errors, n.Skipped = n.Tests+o.Tests, n.Failures+o.Failures, n.Errors+o.Errors, n.Skipped+o.Skipped
	n.seconds += o.seconds
	n.Time = strconv.FormatFloat(n.seconds, 'f', 3, 64)
}

type junitSuites struct {
	XMLName xml.Name `xml:"testsuites"`
	Name    string   `xml:"name,attr"`
	junitCounts
	Suites []junitSuite `xml:"testsuite"`
}

func (d *junitSuites) add(s junitSuite) {
	d.Suites = append(d.Suites, s)
	d.junitCounts.add(s.junitCounts)
}

type junitSuite struct {
	Name string `xml:"name,attr"`
	junitCounts
	Timestamp  string           `xml:"timestamp,attr,omitempty"` // when the run was planned
	Properties *junitProperties `xml:"properties"`
	Cases      []junitCase      `xml:"testcase"`
}

type junitCase struct {
	Class      string           `xml:"classname,attr"`
	Name       string           `xml:"name,attr"`
	Time       string           `xml:"time,attr,omitempty"` // seconds, of the agent; absent: not known
	Properties *junitProperties `xml:"properties"`
	Failure    *junitOutcome    `xml:"failure"`
	Error      *junitOutcome    `xml:"error"`
	Skipped    *junitOutcome    `xml:"skipped"`
	Output     string           `xml:"system-out,omitempty"` // every assertion with its evidence; absent when all is well

	order   cellID
	seconds float64
}

type junitOutcome struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

type junitProperties struct {
	List []junitProperty `xml:"property"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

// add puts a property to the others; one without a value is not known and stays out.
func (p *junitProperties) add(name, value string) {
	if value != "" {
		p.List = append(p.List, junitProperty{name, clean(value, sentenceSize)})
	}
}

func (p *junitProperties) orNil() *junitProperties {
	if len(p.List) == 0 {
		return nil
	}
	return p
}

// junitArm is the testsuite of an arm.
func junitArm(b bench.Benchmark, a bench.Arm, cells []junitCase) junitSuite {
	s := junitSuite{Name: clean(a.ArmID.String(), sentenceSize), Properties: &junitProperties{}, Cases: cells}
	slices.SortStableFunc(cells, func(x, y junitCase) int {
		return cmp.Or(strings.Compare(x.order.name, y.order.name), x.order.trial-y.order.trial)
	})
	if t := b.Metadata.Timestamp; t != nil {
		s.Timestamp = t.UTC().Format("2006-01-02T15:04:05")
	}
	p := s.Properties
	p.add("verdict", string(known(b.Verdict)))
	p.add("reason", b.Reason.Code)
	p.add("gate", b.Gate.Result)
	if c := comparisonOf(b, a.ArmID); c != nil {
		p.add("arm.verdict", string(known(c.Verdict)))
		p.add("arm.compared_with", c.Base.Arm)
	}
	p.add("arm.baseline", strconv.FormatBool(a.Baseline))
	if a.PassRate != nil {
		p.add("arm.pass_rate", decimal(&a.PassRate.Value))
	}
	p.add("arm.cost_usd", decimal(a.Cost.USD))
	p.add("arm.cost_unknown_attempts", strconv.Itoa(a.Cost.Unknown))
	if b.Simulated {
		p.add("scripted", scripted(b))
	}
	p.add("suite_digest", b.Fingerprint.Suite)
	p.add("commit", b.Metadata.Commit)
	p.add("diff_scope.note", smallerIsNotBetter)
	for _, c := range cells {
		s.junitCounts.add(c.counts())
	}
	return s
}

func (c junitCase) counts() junitCounts {
	n := junitCounts{Tests: 1, seconds: c.seconds}
	switch {
	case c.Failure != nil:
		n.Failures = 1
	case c.Error != nil:
		n.Errors = 1
	case c.Skipped != nil:
		n.Skipped = 1
	}
	return n
}

// junitRun is the testcase of a cell whose agent was started.
func junitRun(r *bench.Run) junitCase {
	c := newJUnitCase(cellID{r.Case, r.Arm(), r.Trial}, r.Phase)
	if t := r.Result.TimeSeconds; t != nil {
		c.seconds, c.Time = *t, strconv.FormatFloat(*t, 'f', 3, 64)
	}
	c.Properties = runProperties(r).orNil()
	if r.Status != "passed" {
		c.Output = evidence(r.Expectations, func(bench.Expectation) bool { return true })
	}
	switch r.Status {
	case "passed":
	case "failed":
		c.Failure = failureOf(r)
	case "skipped":
		c.Skipped = &junitOutcome{Message: told(r.Reason, r.Detail)}
	default: // an unknown status is no pass
		c.Error = &junitOutcome{Message: told(cmp.Or(r.Class, string(r.Status)), r.Detail), Type: clean(r.Class, nameSize), Text: cleanLines(r.Detail)}
	}
	return c
}

// junitMissing is the testcase of a cell whose agent was not started.
func junitMissing(m bench.Missing) junitCase {
	c := newJUnitCase(cellID{m.Case, m.Arm(), m.Trial}, "")
	why := told(missingWhy(m), m.Detail)
	switch m.Status {
	case "errored":
		c.Error = &junitOutcome{Message: why, Type: clean(m.Class, nameSize), Text: cleanLines(m.Detail)}
	case "skipped":
		c.Skipped = &junitOutcome{Message: why}
	default:
		c.Skipped = &junitOutcome{Message: told("no result", m.Status)}
	}
	return c
}

func newJUnitCase(id cellID, phase string) junitCase {
	name := fmt.Sprintf("%s, trial %d", clean(id.name, sentenceSize), id.trial)
	if phase != "" && phase != "screen" {
		name += " (" + clean(phase, nameSize) + ")"
	}
	return junitCase{Class: clean(id.arm.String(), sentenceSize), Name: name, order: id}
}

// runProperties are the numbers of a cell.
func runProperties(r *bench.Run) *junitProperties {
	p := &junitProperties{}
	p.add("score", decimal(r.Score))
	p.add("cost_usd", decimal(r.CostUSD))
	p.add("tokens", whole(r.Result.Tokens))
	p.add("turns", whole(r.Turns))
	if s := r.DiffScope; s != nil {
		p.add("diff_scope.files_touched", strconv.Itoa(s.FilesTouched))
		p.add("diff_scope.lines_added", strconv.Itoa(s.LinesAdded))
		p.add("diff_scope.lines_removed", strconv.Itoa(s.LinesRemoved))
		p.add("diff_scope.hunks", strconv.Itoa(s.Hunks))
		p.add("diff_scope.approximate", strconv.FormatBool(s.Approximate))
		p.add("diff_scope.outside_files", whole(s.OutsideFiles))
	}
	if r.Unmeasured != nil {
		p.add("diff_scope.unmeasured", r.Unmeasured.Class)
	}
	return p
}

// failureOf names the first assertion that did not hold, and tells of all.
func failureOf(r *bench.Run) *junitOutcome {
	broken := func(e bench.Expectation) bool { return e.Passed != nil && !*e.Passed }
	i := slices.IndexFunc(r.Expectations, broken)
	if i < 0 {
		return &junitOutcome{Message: cmp.Or(clean(r.Detail, sentenceSize), "failed"), Type: "cell"}
	}
	first := r.Expectations[i]
	return &junitOutcome{Message: told(first.ID, first.Text), Type: clean(first.Type, nameSize), Text: evidence(r.Expectations, broken)}
}

// evidence lists assertions with what was found, a paragraph each.
func evidence(list []bench.Expectation, which func(bench.Expectation) bool) string {
	var out strings.Builder
	for _, e := range list {
		if !which(e) {
			continue
		}
		outcome := "not decided"
		if e.Passed != nil {
			outcome = map[bool]string{true: "passed", false: "failed"}[*e.Passed]
		}
		fmt.Fprintf(&out, "%s %s (%s): %s\n", outcome, clean(e.ID, nameSize), clean(e.Type, nameSize), clean(e.Text, sentenceSize))
		if e.Evidence != "" {
			fmt.Fprintf(&out, "%s\n", cleanLines(e.Evidence))
		}
	}
	return out.String()
}

// told is what happened and why, of which either may be absent.
func told(what, why string) string {
	return clean(strings.TrimSuffix(strings.TrimPrefix(what+": "+why, ": "), ": "), sentenceSize)
}

// cleanLines is foreign text of several lines without what a reader cannot see, and at most lineSize characters of a line.
func cleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = clean(line, lineSize)
	}
	return strings.Join(lines, "\n")
}

// lineSize bounds a line of evidence in files for machines, in characters.
const lineSize = 4000

// decimal is a number as programs read it; empty when it is not known.
func decimal(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}

// whole is an integer as programs read it; empty when it is not known.
func whole[N int | int64](v *N) string {
	if v == nil {
		return ""
	}
	return strconv.FormatInt(int64(*v), 10)
}
