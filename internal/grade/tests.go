package grade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/assay-ci/assay/internal/result"
)

type testsParams struct {
	Run          string            `yaml:"run" doc:"shell line, run by sh -c in the grading place"`
	Argv         []string          `yaml:"argv" doc:"program and arguments, run as they are; instead of run"`
	Timeout      time.Duration     `yaml:"timeout" doc:"a command that takes longer did not pass" default:"10m" rule:"above=0s"`
	ExpectExit   int               `yaml:"expect_exit" doc:"exit code that passes" default:"0" rule:"min=0,max=255"`
	ExpectStdout string            `yaml:"expect_stdout" doc:"RE2 that the first 1 MiB of standard output must match as well" rule:"regex"`
	Env          map[string]string `yaml:"env" doc:"environment variables, added to those of the case" rule:"env"`
	Format       string            `yaml:"format" doc:"how the tests report: junit files, or gotest (go test -json) or tap on standard output" default:"auto" rule:"oneof=auto junit gotest tap"`
	Report       string            `yaml:"report" doc:"glob of the JUnit files that the command writes in the grading place" rule:"glob"`
	MustPass     []string          `yaml:"must_pass" doc:"names of tests that must have run and passed"`
	MinPassed    int               `yaml:"min_passed" doc:"how many tests must pass at least" default:"1" rule:"min=1"`
}

// tests grades by a test command and by what its report says of each test. The exit code must be right, no test may have
// failed, at least one must have passed, and those that the case names must have run and passed: zero collected or
// skipped tests are not a pass.
//
// Without must_pass a program that ends early with code 0 can look like a short list of passed tests, so cases name the
// tests that they wait for.
type tests struct {
	command  *command
	format   string
	report   string // glob of the files of junit
	mustPass []string
	min      int
}

var _ Grader = (*tests)(nil)

func buildTests(s Settings) (Grader, error) {
	var p testsParams
	if err := s.Decode(&p); err != nil {
		return nil, err
	}
	c, faults := newCommand(s, commandParams{p.Run, p.Argv, p.Timeout, p.ExpectExit, p.ExpectStdout, p.Env})
	if p.Format == "auto" && p.Report != "" {
		p.Format = "junit"
	}
	switch {
	case p.Format == "junit" && p.Report == "":
		faults = append(faults, s.Fault("format", "junit needs report: the files that the command writes", "for example report: build/test-results/**/*.xml"))
	case p.Format != "junit" && p.Report != "":
		faults = append(faults, s.Fault("report", p.Format+" is read from standard output, not from files", "leave report out, or write format: junit"))
	}
	for i, name := range p.MustPass {
		if name == "" {
			faults = append(faults, s.Fault(fmt.Sprintf("must_pass[%d]", i), "the name of a test is empty", ""))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return &tests{c, p.Format, p.Report, p.MustPass, p.MinPassed}, nil
}

// text is what the assertion says.
func (t *tests) text() string {
	text := t.command.text() + " and its tests pass"
	if t.min > 1 {
		text += fmt.Sprintf(", at least %d", t.min)
	}
	if len(t.mustPass) > 0 {
		text += ", among them " + showAll(t.mustPass, len(t.mustPass))
	}
	return text
}

func (t *tests) Grade(ctx context.Context, e Evidence) (result.Score, error) {
	run := t.runStdout
	if t.format == "junit" {
		run = t.runFiles
	}
	ran, found, err := run(ctx, e)
	if err != nil {
		return score(t.text(), false, "", err)
	}
	v := t.judge(ran, found)
	return score(t.text(), v.passed(), v.evidence(), nil)
}

// runStdout reads the results while the command prints them.
func (t *tests) runStdout(ctx context.Context, e Evidence) (ran, *tally, error) {
	stdout := newStdoutReport(t.format, t.mustPass)
	ran, err := t.command.run(ctx, e, stdout)
	found := stdout.finish()
	if ran.truncated {
		found.distrust("it printed more than is read, so results may be missing")
	}
	return ran, found, err
}

// runFiles reads the results from files that the command wrote.
func (t *tests) runFiles(ctx context.Context, e Evidence) (ran, *tally, error) {
	place, err := e.Place(ctx)
	if err != nil {
		return ran{}, nil, fmt.Errorf("grading place: %w", err)
	}
	reports := newReports(t.report, place.Files())
	ran, err := t.command.run(ctx, e, io.Discard)
	found := newTally(t.mustPass)
	if err == nil {
		reports.read(found)
	}
	return ran, found, err
}

// judge puts the exit and the named results together.
func (t *tests) judge(ran ran, found *tally) *verdict {
	v := &verdict{}
	v.add(ran.passed, "%s", ran.evidence)
	if found.trouble != "" {
		v.add(false, "%s", found.trouble)
	}
	if found.failed > 0 {
		v.add(false, "failed: %s", showAll(found.failing, found.failed))
	}
	for _, name := range t.mustPass {
		if o := found.named[name]; o != testPassed {
			v.add(false, "%s %s", show(name), o)
		}
	}
	switch {
	case found.passed+found.failed+found.skipped == 0:
		v.add(false, "no test ran")
	case found.failed == 0 && found.passed < t.min:
		v.add(false, "at least %d must pass", t.min)
	}
	v.note("%d passed, %d failed, %d skipped", found.passed, found.failed, found.skipped)
	return v
}

// outcome is how one test ended. The order is from good to bad: of several results under one name the worst counts.
type outcome int

const (
	testUnseen outcome = iota
	testPassed
	testSkipped
	testFailed
)

func (o outcome) String() string {
	return [...]string{"did not run", "passed", "was skipped", "failed"}[o]
}

// A tally is what a test command reported. Its size does not grow with the report: a hostile one may name millions of
// tests.
type tally struct {
	passed, failed, skipped int
	failing                 []string           // the first names of the failed
	named                   map[string]outcome // of must_pass
	trouble                 string             // why the report cannot be trusted; empty: it can
}

func newTally(mustPass []string) *tally {
	t := &tally{named: make(map[string]outcome, len(mustPass))}
	for _, name := range mustPass {
		t.named[name] = testUnseen
	}
	return t
}

// note keeps how a test ended, under each name that a case may use for it.
func (t *tally) note(o outcome, names ...string) {
	for _, name := range names {
		if worst, wanted := t.named[name]; wanted {
			t.named[name] = max(worst, o)
		}
	}
}

// count counts a test; the name is the one that evidence shows.
func (t *tally) count(o outcome, name string) {
	switch o {
	case testPassed:
		t.passed++
	case testSkipped:
		t.skipped++
	case testFailed:
		t.failed++
		if len(t.failing) < maxRows {
			t.failing = append(t.failing, clip(name, maxName))
		}
	}
}

// countParent counts a test that has sub-tests: they stand for it, unless it failed by itself.
func (t *tally) countParent(o outcome, name string, subFailed bool) {
	if o == testFailed && !subFailed {
		t.count(o, name)
	}
}

// distrust keeps the first reason why the report does not count.
func (t *tally) distrust(format string, args ...any) {
	if t.trouble == "" {
		t.trouble = fmt.Sprintf(format, args...)
	}
}

// A lineReader reads one format of report line by line.
type lineReader interface {
	line(text []byte, cut bool)     // without the line end; cut: the line was longer
	end() (found *tally, seen bool) // seen: something of this format was there
}

// stdoutReport reads named results from standard output while the command runs.
type stdoutReport struct {
	readers []lineReader // one for each format that it may be
	partial []byte       // the line so far
	cut     bool
}

var _ io.Writer = (*stdoutReport)(nil)

// maxLine bounds a line of a report in bytes. Results are short; only what tests print is long.
const maxLine = 64 << 10

func newStdoutReport(format string, mustPass []string) *stdoutReport {
	r := &stdoutReport{}
	if format != "tap" {
		r.readers = append(r.readers, newGoTest(mustPass))
	}
	if format != "gotest" {
		r.readers = append(r.readers, newTAP(mustPass))
	}
	return r
}

func (r *stdoutReport) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		text, whole := bytes.CutSuffix(line, []byte("\n"))
		room := min(len(text), maxLine-len(r.partial))
		r.partial = append(r.partial, text[:room]...)
		r.cut = r.cut || room < len(text)
		if whole {
			r.flush()
		}
	}
	return len(p), nil
}

func (r *stdoutReport) flush() {
	text := bytes.TrimSuffix(r.partial, []byte("\r"))
	for _, reader := range r.readers {
		reader.line(text, r.cut)
	}
	r.partial, r.cut = r.partial[:0], false
}

// finish tells what was found. Output that holds two formats is not trusted: one of them was not printed by the test
// command, and nobody can tell which.
func (r *stdoutReport) finish() *tally {
	r.flush()
	found, seen := r.readers[0].end()
	for _, reader := range r.readers[1:] {
		other, otherSeen := reader.end()
		switch {
		case seen && otherSeen:
			found.distrust("results in two formats were printed; name the format of the assertion")
		case otherSeen:
			found, seen = other, true
		}
	}
	return found
}
