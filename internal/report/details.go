package report

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
)

// Details tells what a benchmark does not hold of a cell: what the agent said and did, its patch, the logs. It may be asked for
// several cells at once.
type Details interface {
	Cell(r bench.Run) (Cell, error)
}

// A Cell is the page of one cell. Its texts are made safe to look at, not to be markup: nothing in them is hidden, and each is
// cut to a bound. What was cut is named in Cut.
type Cell struct {
	Folder   string      `json:"folder,omitempty"` // below the folder of results; empty: not known
	Facts    [][2]string `json:"facts"`
	Talk     []Turn      `json:"talk"`
	Patch    string      `json:"patch,omitempty"`
	Scope    []string    `json:"scope"` // facts of the change
	Checks   []Check     `json:"checks"`
	Logs     []Log       `json:"logs"`
	Earlier  []string    `json:"earlier"`  // attempts before this one
	Findings []string    `json:"findings"` // what changed no number
	Cut      []string    `json:"cut"`
}

// A Check is one assertion of a cell.
type Check struct {
	ID       string `json:"id"`
	Type     string `json:"type,omitempty"`
	Gate     bool   `json:"gate,omitempty"`
	Held     string `json:"held"`
	Text     string `json:"text"`
	Evidence string `json:"evidence,omitempty"`
	Log      string `json:"log,omitempty"`
}

// A Log is the tail of a file of the cell.
type Log struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Bounds of a cell's page. Those of texts are characters, those of files bytes.
const (
	mostSpoken   = 6000
	mostToolText = 3000
	mostPatch    = 48 << 10
	mostLog      = 6 << 10
	mostChecks   = 100
	mostTrace    = 64 << 20
)

// Ledger gives the details of the cells of the results in dir, whose manifest is m.
func Ledger(dir string, m result.Manifest) Details {
	d := ledger{dir: dir, m: m, at: make(map[cellID]int, len(m.Cells))}
	for i, c := range m.Cells {
		d.at[cellID{c.Case, bench.ArmID{Harness: c.Harness, Model: c.Model, Condition: c.Condition}, c.Trial}] = i
	}
	return d
}

type ledger struct {
	dir string
	m   result.Manifest
	at  map[cellID]int
}

// A cellID names a cell of a benchmark.
type cellID struct {
	name  string
	arm   bench.ArmID
	trial int
}

func (d ledger) Cell(r bench.Run) (Cell, error) {
	i, planned := d.at[cellID{r.Case, r.Arm(), r.Trial}]
	if !planned {
		return Cell{}, errors.New("the results hold no such cell")
	}
	rel := result.Dir(d.m.Cells[i])
	rec, ok, err := result.ReadOne(d.dir, d.m.Cells[i])
	switch {
	case err != nil:
		return Cell{}, err
	case !ok:
		return Cell{}, fmt.Errorf("%s has no record", rel)
	}
	return d.read(rel, r, rec)
}

// read makes the page of a cell of its record and the files beside it.
func (d ledger) read(rel string, run bench.Run, r result.Result) (Cell, error) {
	root, err := openCell(d.dir, rel)
	if err != nil {
		return Cell{}, err
	}
	defer root.Close()
	f := files{root}
	c := Cell{Folder: rel, Facts: cellFacts(run, &r), Scope: scopeLines(run, r), Earlier: earlier(r), Findings: findings(r)}
	c.Talk = f.talk(&c)
	c.Patch = f.head("diff.patch", mostPatch, &c)
	c.Checks = f.checks(r, &c)
	for _, name := range []string{"environment.log", "setup.log", "agent.log"} {
		if text := f.tail(name, mostLog, &c); text != "" {
			c.Logs = append(c.Logs, Log{name, text})
		}
	}
	return c, nil
}

// openCell opens the folder of a cell. It may come from elsewhere: links out of the results are not followed.
func openCell(dir, rel string) (*os.Root, error) {
	results, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer results.Close()
	return results.OpenRoot(rel)
}

// files are those beside the record of a cell, links out of its folder aside.
type files struct{ root *os.Root }

// open opens a regular file; a FIFO at its place is not waited for.
func (f files) open(name string) (*os.File, int64, error) {
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, 0, errors.Join(fmt.Errorf("%s is not a regular file", name), err, file.Close())
	}
	return file, info.Size(), nil
}

// head is the beginning of a file, and tail its end; empty when it is not there.
func (f files) head(name string, most int64, c *Cell) string { return f.part(name, 0, most, c) }
func (f files) tail(name string, most int64, c *Cell) string { return f.part(name, -1, most, c) }

func (f files) part(name string, from, most int64, c *Cell) string {
	file, size, err := f.open(name)
	if err != nil {
		c.unread(name, err)
		return ""
	}
	defer file.Close()
	which := "first"
	if from < 0 {
		from, which = max(0, size-most), "last"
	}
	data, err := io.ReadAll(io.NewSectionReader(file, from, most))
	if err != nil {
		c.unread(name, err)
	}
	if size > most {
		c.Cut = append(c.Cut, fmt.Sprintf("%s: the %s %d of %d bytes are here", name, which, most, size))
	}
	return shown(string(data), int(most))
}

// unread names a file that is there and cannot be read.
func (c *Cell) unread(name string, err error) {
	if !errors.Is(err, fs.ErrNotExist) {
		c.Cut = append(c.Cut, fmt.Sprintf("%s could not be read: %s", name, clean(err.Error(), evidenceHTML)))
	}
}

func (f files) checks(r result.Result, c *Cell) []Check {
	var out []Check
	for _, s := range r.Scores[:min(len(r.Scores), mostChecks)] {
		k := Check{ID: clean(s.ID, nameSize), Type: clean(s.Type, nameSize), Gate: s.Gate, Held: held(s.Passed), Text: shown(s.Text, mostToolText),
			Evidence: shown(cmp.Or(s.Evidence, s.Error), mostToolText)}
		if name := "assertions/" + s.ID + ".log"; fs.ValidPath(name) {
			k.Log = f.tail(name, mostLog, c)
		}
		out = append(out, k)
	}
	if left := len(r.Scores) - len(out); left > 0 {
		c.Cut = append(c.Cut, fmt.Sprintf("assertions: the first %d of %d are here", len(out), len(r.Scores)))
	}
	return out
}

func exitText(exit *int) string {
	if exit == nil {
		return ""
	}
	return fmt.Sprintf("exit %d", *exit)
}

func took(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return seconds(d)
}

func seconds(d time.Duration) string { return short(d.Seconds()) + " s" }

// join joins the parts that are not empty.
func join(sep string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(parts), func(s string) bool { return strings.TrimSpace(s) == "" }), sep)
}

// usageOf is a usage in words; empty when nothing of it is known.
func usageOf(u *trace.Usage) string {
	if u == nil {
		return ""
	}
	var parts []string
	for _, n := range []struct {
		count *int64
		what  string
	}{{u.Input, "input"}, {u.CacheRead, "cache read"}, {u.CacheWrite, "cache write"}, {u.Output, "output"}, {u.Reasoning, "of it reasoning"}} {
		if n.count != nil {
			parts = append(parts, fmt.Sprintf("%d %s", *n.count, n.what))
		}
	}
	if len(parts) > 0 {
		parts = []string{"tokens: " + strings.Join(parts, ", ")}
	}
	if u.CostUSD != nil {
		parts = append(parts, usd(*u.CostUSD))
	}
	return join(" · ", append(parts, clean(join(" ", u.Scope, u.Source), nameSize))...)
}

// cellFacts are the numbers of a cell. The record is nil where only the benchmark is there.
func cellFacts(run bench.Run, r *result.Result) [][2]string {
	out := [][2]string{{"status", join(", ", string(run.Status), clean(run.Class, nameSize), clean(run.Reason, nameSize))}}
	add := func(name, value string) {
		if value != "" {
			out = append(out, [2]string{name, value})
		}
	}
	add("why", clean(run.Detail, evidenceHTML))
	add("phase", map[string]string{bench.ConfirmPhase: "fresh trial, in no rate"}[run.Phase])
	add("score", orNotMeasured(run.Score, short))
	add("cost, all attempts", orNotMeasured(run.CostUSD, usd))
	add("turns", countOr(run.Turns))
	add("tokens", countOr(run.Result.Tokens))
	add("tool calls", countOr(run.Result.ToolCalls))
	add("agent's time", orNotMeasured(run.Result.TimeSeconds, func(s float64) string { return short(s) + " s" }))
	if r == nil {
		return out
	}
	add("usage", usageOf(r.Agent.Usage))
	add("agent stopped", clean(join(", ", string(r.Agent.Stop), r.Agent.Detail, exitText(r.Agent.Exit), r.Agent.Signal), evidenceHTML))
	add("model, as reported", clean(join(" ", r.Agent.Model, r.Agent.Version), evidenceHTML))
	for _, b := range []struct {
		name  string
		usage *trace.Usage
	}{{"responder", r.Beside.Responder}, {"judges", r.Beside.Judge}, {"calibration", r.Beside.Calibration}} {
		add(b.name+", beside the agent", usageOf(b.usage))
	}
	add("condition", conditionFact(r.ConditionHeld()))
	add("egress", egressFact(r.Egress))
	add("hidden assets", hiddenFact(r.Contamination))
	add("secrets taken out", redactedFact(r.Redacted))
	add("layout", clean(r.Layout, nameSize))
	add("places and setup", took(r.Took.Place))
	add("grading", took(r.Took.Grade))
	add("whole cell", took(r.Took.Total))
	if r.Attempt > 1 {
		add("attempt", fmt.Sprint(r.Attempt))
	}
	return out
}

const unmeasuredText = "not measured"

func orNotMeasured(v *float64, format func(float64) string) string {
	if v == nil {
		return unmeasuredText
	}
	return format(*v)
}

func countOr[N int | int64](v *N) string {
	if v == nil {
		return unmeasuredText
	}
	return fmt.Sprint(*v)
}

func conditionFact(held *bool) string {
	switch {
	case held == nil:
		return "not checked"
	case *held:
		return "verified"
	}
	return "not as it should be"
}

// egressFact tells what the place of the agent could reach, as it was seen from inside.
func egressFact(e *result.Egress) string {
	if e == nil {
		return "nobody looked"
	}
	if !e.Proven {
		return clean(e.Policy+", not proven", nameSize)
	}
	return clean(fmt.Sprintf("%s, proven: interfaces %s, %d routes beyond loopback, canary %s", e.Policy, join(" ", e.Interfaces...), e.Routes, e.Canary), evidenceHTML)
}

// hiddenFact tells how far it is proven that the agent did not have the hidden assets of its case; empty when there were none.
func hiddenFact(c *result.Contamination) string {
	if c == nil {
		return ""
	}
	text := fmt.Sprintf("proven: the agent had none of them, %d %s looked for", c.Files, plural(c.Files, "file", "files"))
	switch {
	case c.Proven && !c.Prevents:
		text += "; it could read the files of the host, so this may miss one that it looked for"
	case !c.Proven:
		text = "not proven: " + join(" ", c.Why...)
	}
	return clean(text, evidenceHTML)
}

// redactedFact tells from which files of the cell secrets were taken out, and how many; empty when none were.
func redactedFact(found map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(found)) {
		parts = append(parts, fmt.Sprintf("%d in %s", found[name], name))
	}
	return clean(strings.Join(parts, ", "), evidenceHTML)
}

// scopeLines are the facts of the change of a cell, its files among them.
func scopeLines(run bench.Run, r result.Result) []string {
	out := briefScope(run)
	if r.DiffScope == nil {
		return out
	}
	for _, f := range r.DiffScope.Files[:min(len(r.DiffScope.Files), mostRows)] {
		lines := "not counted"
		if f.LinesAdded != nil && f.LinesRemoved != nil {
			lines = fmt.Sprintf("+%d −%d", *f.LinesAdded, *f.LinesRemoved)
		}
		if f.Binary {
			lines = "binary"
		}
		out = append(out, clean(fmt.Sprintf("%s: %s, %s", f.Path, f.Status, lines), evidenceHTML))
	}
	if more := len(r.DiffScope.Files) - mostRows; more > 0 {
		out = append(out, fmt.Sprintf("%d more files", more))
	}
	return out
}

// briefScope are the facts of a change that a benchmark holds.
func briefScope(run bench.Run) []string {
	var out []string
	switch s := run.DiffScope; {
	case s != nil:
		line := fmt.Sprintf("files touched %d, lines +%d −%d, hunks %d", s.FilesTouched, s.LinesAdded, s.LinesRemoved, s.Hunks)
		if s.NoChange {
			line += ", no change"
		}
		if s.Approximate {
			line += ", bounds only"
		}
		out = append(out, line)
	case run.Unmeasured != nil:
		out = append(out, clean("diff scope not measured: "+run.Unmeasured.Class+", "+run.Unmeasured.Why, evidenceHTML))
	default:
		out = append(out, "diff scope not measured")
	}
	for _, s := range runSignals(run) {
		out = append(out, "test tampering? "+clean(s, evidenceHTML))
	}
	for _, s := range runFacts(run) {
		out = append(out, clean(s, evidenceHTML))
	}
	return out
}

func earlier(r result.Result) []string {
	var out []string
	for _, a := range r.Earlier[:min(len(r.Earlier), mostRows)] {
		out = append(out, clean(fmt.Sprintf("attempt %d: %s, cost %s", a.Attempt, join(", ", string(a.Status), string(a.Class), a.Detail), orNotMeasured(a.CostUSD, usd)), evidenceHTML))
	}
	return out
}

func findings(r result.Result) []string {
	var out []string
	for _, f := range r.Findings[:min(len(r.Findings), mostRows)] {
		out = append(out, clean(join(" ", f.Kind, f.Path, f.Text), evidenceHTML))
	}
	return out
}

// brief is the page of a cell as far as a benchmark tells of it.
func brief(r bench.Run) Cell {
	c := Cell{Facts: cellFacts(r, nil), Scope: briefScope(r)}
	for _, e := range r.Expectations[:min(len(r.Expectations), mostChecks)] {
		c.Checks = append(c.Checks, Check{ID: clean(e.ID, nameSize), Type: clean(e.Type, nameSize), Gate: e.Gate, Held: held(e.Passed),
			Text: shown(e.Text, mostToolText), Evidence: shown(e.Evidence, mostToolText)})
	}
	return c
}
