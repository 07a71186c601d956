package report

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
)

var (
	largeCells = flag.Int("cells", 0, "cells of the run that TestLeaveLargeRun leaves")
	leaveAt    = flag.String("leave", "", "folder that TestLeaveLargeRun leaves results in; empty: it is skipped")
	results    = flag.String("results", "", "absolute `folder` of results that TestReportPictures draws")
	hurry      = flag.Bool("hurry", false, "fail when the first paint of a large report takes two seconds or more")
)

// A bed is a folder of results that was made up, with real records, traces and patches.
type bed struct {
	dir string
	m   result.Manifest
}

// newBed makes results of two arms and five trials. word is put into every text that agents and suites write.
func newBed(t testing.TB, cells int, word string) bed {
	t.Helper()
	return newBedAt(t, inMemory(t), cells, word)
}

func newBedAt(t testing.TB, dir string, cells int, word string) bed {
	t.Helper()
	b := bed{dir: dir, m: result.Manifest{
		Suite: "made up" + word, Tool: "test", Seed: "1", Executor: "host", Created: time.Unix(1_790_000_000, 0).UTC(),
		Conditions: []result.Condition{{ID: "without", Baseline: true}, {ID: "with" + word}},
		Gate:       result.Gate{Alpha: 0.05, MarginPP: 2, MarginEqPP: 5, MDEMaxPP: 15, MinCoverage: 0.9, Claim: "suite", Underpowered: "warn"},
		Harnesses:  []result.Harness{{ID: "codex", Type: "codex", Models: []string{"gpt-5.5"}}},
	}}
	for i := range (cells + 9) / 10 {
		name := fmt.Sprintf("case-%05d%s", i, word)
		b.m.Cases = append(b.m.Cases, result.Case{ID: name, File: name + "/case.yaml", Line: 1})
		for _, c := range b.m.Conditions {
			for trial := range 5 {
				b.m.Cells = append(b.m.Cells, plan.Cell{Case: name, Harness: "codex", Model: "gpt-5.5", Condition: c.ID, Trial: trial + 1, Key: fmt.Sprintf("%08d%s", len(b.m.Cells), strings.Repeat("0", 56))})
			}
		}
	}
	b.write(t, word)
	return b
}

// inMemory is a folder in memory where there is such a place: ten thousand cells on a disk that others use take minutes.
func inMemory(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "assay-report-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (b bed) write(t testing.TB, word string) {
	t.Helper()
	l, err := result.Open(t.Context(), b.dir, func() time.Time { return b.m.Created })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.PutManifest(b.m); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var batch []result.Finished
	for _, c := range b.m.Cells {
		e, err := l.Begin(c, "", false)
		if err != nil {
			t.Fatal(err)
		}
		w := trace.NewWriter(e.Create("trace.jsonl"), func() time.Duration { return time.Second })
		for _, event := range madeUpTalk(random, word) {
			w.Emit(event)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(e.Create("diff.patch"), "diff --git a/x b/x\n--- a/x%[1]s\n+++ b/x\n@@ -1 +1,2 @@%[1]s\n-old%[1]s\n+new %[2]d\n+%[1]s\n"+
			"--- a/x.go%[1]s\n+++ b/x.go\n@@ -1 +1,2 @@\n-return \"old\" // why%[1]s\n+return \"new\" /* why%[1]s\n+ 7 */\n", word, random.IntN(1000))
		fmt.Fprintf(e.Create("agent.log"), "a line%s\n", word)
		fmt.Fprintf(e.Create("assertions/correct.log"), "ok %d%s\n", random.IntN(1000), word)
		if batch = append(batch, result.Finished{Entry: e, Result: madeUpResult(random, c, word)}); len(batch) == 500 {
			if err := l.Commit(batch...); err != nil {
				t.Fatal(err)
			}
			batch = nil
		}
	}
	if err := l.Commit(batch...); err != nil {
		t.Fatal(err)
	}
}

func madeUpResult(random *rand.Rand, c plan.Cell, word string) result.Result {
	passed, cost := random.IntN(3) > 0, random.Float64()
	r := result.Result{Cell: c, Status: result.Passed, Detail: "detail" + word, Threshold: 1, Started: time.Unix(1_790_000_000, 0).UTC()}
	if !passed {
		r.Status = result.Failed
	}
	if random.IntN(50) == 0 {
		r.Status, r.Class = result.Errored, trace.ClassModelAPI
	}
	r.Scores = []result.Score{{ID: "correct", Type: "tests", Gate: true, Weight: 1, Passed: &passed, Text: "tests pass" + word, Evidence: "evidence" + word}}
	r.DiffScope = &diffscope.Scope{Counts: diffscope.Counts{FilesTouched: 1, LinesAdded: random.IntN(40), LinesRemoved: 1, Hunks: 1},
		Files: []diffscope.Row{{Path: "src/x.go" + word, Status: "modified", LinesAdded: ptr(1), LinesRemoved: ptr(1)}}}
	r.Agent = result.Agent{Stop: trace.StopEndTurn, Detail: word, FinalText: word, Turns: ptr(3), Usage: &trace.Usage{Input: ptr(int64(1200)), Output: ptr(int64(300)), CostUSD: &cost}}
	r.Egress = &result.Egress{Policy: "none", Proven: true, Interfaces: []string{"lo" + word}, Canary: "unreached"}
	r.Contamination = &result.Contamination{Why: []string{"The tree held a hidden file." + word}, Files: 2}
	r.Redacted = map[string]int{"trace.jsonl": 2, "agent.log": 1}
	r.Layout = "overlay"
	r.Earlier = []result.Attempt{{Attempt: 1, Status: result.Errored, Class: trace.ClassModelAPI, Detail: "overloaded" + word}}
	r.Findings = []result.Finding{{Kind: "kind", Path: word, Text: word}}
	r.Took = result.Durations{Agent: time.Duration(random.IntN(90)) * time.Second, Total: time.Minute}
	return r
}

func madeUpTalk(random *rand.Rand, word string) []trace.Event {
	call := func(kind trace.Kind, id string, tool trace.Tool) trace.Event {
		tool.ID, tool.Name, tool.Kind = id, "bash"+word, trace.ToolExecute
		return trace.Event{Kind: kind, Tool: &tool}
	}
	out := []trace.Event{
		{Kind: trace.KindSessionStart, Session: &trace.Session{Harness: "codex", Version: "1" + word}},
		{Kind: trace.KindUserMessage, Text: "Repair the weekly report." + word},
		{Kind: trace.KindThinking, Text: "Where are the dates made?" + word},
		{Kind: trace.KindPermissionRequest, Ask: &trace.Ask{ID: "p", Name: "bash" + word, Input: "rm -rf build" + word}},
		{Kind: trace.KindPermissionResponse, Ask: &trace.Ask{ID: "p", Outcome: "denied", By: "policy 1", Reason: "no" + word}},
		{Kind: trace.KindQuestion, Ask: &trace.Ask{ID: "q", Questions: []trace.Question{{Text: "Which day?" + word}}}},
		{Kind: trace.KindAnswer, Ask: &trace.Ask{ID: "q", Answers: []string{"Monday" + word}}},
		{Kind: trace.KindRetry, Err: &trace.Fault{Class: trace.ClassModelAPI, Detail: "overloaded" + word}},
		{Kind: trace.KindUsage, Usage: &trace.Usage{Input: ptr(int64(random.IntN(9000))), Output: ptr(int64(12)), Scope: "turn"}},
	}
	for i := range 6 {
		input, _ := json.Marshal(map[string]string{"command": fmt.Sprintf("go test ./room%d%s", random.IntN(100), word)})
		out = append(out, call(trace.KindToolCall, fmt.Sprint(i), trace.Tool{Input: input}),
			call(trace.KindToolResult, fmt.Sprint(i), trace.Tool{Status: trace.StatusOK, Exit: ptr(0), Output: fmt.Sprintf("ok %d %s\n", random.Int64(), word)}))
	}
	helper := func(e trace.Event) trace.Event {
		e.Parent = "helper"
		return e
	}
	asked := func(kind trace.Kind, ask trace.Ask) trace.Event {
		ask.ID, ask.CallID = "of helper", "helper"
		return trace.Event{Kind: kind, Ask: &ask}
	}
	return append(out,
		trace.Event{Kind: trace.KindPlan, Plan: []trace.PlanItem{{Text: "find it" + word, Status: "completed"}, {Text: "mend it" + word}}},
		trace.Event{Kind: trace.KindModelCall, Call: &trace.ModelCall{Ordinal: 2, Lane: "main", Model: "gpt-5.5" + word, HTTP: 200, Took: time.Second},
			Usage: &trace.Usage{Input: ptr(int64(70)), Output: ptr(int64(8))}},
		call(trace.KindToolCall, "helper", trace.Tool{Title: "look at the tests" + word}),
		asked(trace.KindPermissionRequest, trace.Ask{Name: "agent" + word, Input: "look" + word}),
		asked(trace.KindPermissionResponse, trace.Ask{Outcome: "allowed", By: "policy 2"}),
		helper(trace.Event{Kind: trace.KindUserMessage, Text: "Which tests fail?" + word}),
		helper(trace.Event{Kind: trace.KindAssistantText, Text: "Those of the dates." + word}),
		call(trace.KindToolResult, "helper", trace.Tool{Status: trace.StatusDenied, Output: "told" + word}),
		trace.Event{Kind: trace.KindAssistantText, Late: true, Text: "It is repaired." + word},
		trace.Event{Kind: trace.KindStop, Stop: &trace.Stop{Reason: trace.StopEndTurn}})
}

// benchmark is what the bed's results come to.
func (b bed) benchmark(t testing.TB) bench.Benchmark {
	t.Helper()
	out, err := bench.Make(b.m, result.Read(b.dir, b.m.Cells))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (b bed) page(t testing.TB) []byte {
	t.Helper()
	past := withRuns(b.benchmark(t), 12, strings.TrimPrefix(b.m.Suite, "made up"))
	page, err := HTMLOver(past, Ledger(b.dir, b.m))
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// What a reader finds in a report, as tools/browser/report.mjs tells it.
type visit struct {
	Console, Requests, Violations []string
	Dialogs                       int
	Themes                        map[string]seen
	Plain                         struct{ Cases int }
}

type seen struct {
	Ready, Paint       float64 // milliseconds
	Headings           []int
	Sideways, Wide     int
	Rows, Named, Said  int
	All, Failed, Worse string
	Up, Down, Sorted   string
	Cell, Dialog       string
	Parts              []string
	Back, Pwned        bool
}

// read opens a page in a browser and tries it. The test is skipped where the tools for it are not installed.
func read(t *testing.T, page []byte, pictures string) visit {
	t.Helper()
	tools, err := filepath.Abs("../../tools/browser")
	if err != nil {
		t.Fatal(err)
	}
	browser, err := exec.LookPath("chromium")
	if _, missing := os.Stat(filepath.Join(tools, "node_modules", "playwright-core")); err != nil || missing != nil {
		t.Skip("chromium or playwright is absent: npm ci --prefix tools/browser")
	}
	name := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(name, page, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	args := []string{filepath.Join(tools, "report.mjs"), browser, name}
	if pictures != "" {
		args = append(args, pictures)
	}
	cmd := exec.CommandContext(ctx, "node", args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var v visit
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatal(err)
	}
	for what, list := range map[string][]string{"the browser says": v.Console, "the page asks for": v.Requests, "not for everybody": v.Violations} {
		for _, line := range list {
			t.Errorf("%s: %s", what, line)
		}
	}
	if v.Dialogs > 0 {
		t.Errorf("%d dialogs of the browser", v.Dialogs)
	}
	for theme, s := range v.Themes {
		s.check(t, theme)
	}
	return v
}

// check holds what is so of every report that has a cell.
func (s seen) check(t *testing.T, theme string) {
	t.Helper()
	if s.Pwned {
		t.Errorf("%s: foreign text ran as a script", theme)
	}
	if s.Sideways > 0 || s.Wide > 0 {
		t.Errorf("%s: the page is %d pixels too wide, and %d tables that must not scroll", theme, s.Sideways, s.Wide)
	}
	for i := 1; i < len(s.Headings); i++ {
		if s.Headings[i] > s.Headings[i-1]+1 {
			t.Errorf("%s: headings jump: %v", theme, s.Headings)
			break
		}
	}
	if !s.Back {
		t.Errorf("%s: after a cell is closed the focus is not where it was", theme)
	}
	if s.Named != 1 {
		t.Errorf("%s: a case's name finds %d cases", theme, s.Named)
	}
	if s.Up == s.Down || s.Sorted != "descending" {
		t.Errorf("%s: sorting changes nothing: %s, %s", theme, s.Up, s.Down)
	}
}

// A report is read in a real browser: the grid filters and sorts, a cell opens by keyboard, and all of it is for everybody.
func TestReportInABrowser(t *testing.T) {
	b := newBed(t, 120, "")
	v := read(t, b.page(t), "")
	s := v.Themes["light"]
	if s.Rows != 12 || !strings.HasPrefix(s.All, "12 of 12 cases fit") {
		t.Errorf("%d rows; %s", s.Rows, s.All)
	}
	if s.Worse == s.All || !strings.Contains(s.Worse, "of 12 cases fit") {
		t.Errorf("worse and failed: %s", s.Worse)
	}
	for _, part := range []string{"Assertions", "Conversation", "Change", "Logs", "Attempts before", "Findings, which changed no number"} {
		if !slices.Contains(s.Parts, part) {
			t.Errorf("the cell has no part %q, only %q", part, s.Parts)
		}
	}
	for _, want := range []string{"Repair the weekly report.", "Where are the dates made?", "rm -rf build", "→ denied, policy 1", "Which day?", "Monday", "overloaded",
		"tokens: ", "ok, exit 0", "It is repaired.", "+new ", "files touched 1", "tests pass", "evidence", "a line", "none, proven",
		"user, the prompt", "agent 1", "☑ find it", "☐ mend it", "tokens: 70 input, 8 output", "look at the tests · denied", "2 turns of a sub-agent",
		"told to the sub-agent", "Those of the dates.", "→ allowed, policy 2", "learned after the fact", "command: go test ./room",
		"not proven: The tree held a hidden file.", "1 in agent.log, 2 in trace.jsonl", "overlay", "cells/case-00000/"} {
		if !strings.Contains(s.Dialog, want) {
			t.Errorf("the cell does not show %q", want)
		}
	}
	if v.Plain.Cases != 12 {
		t.Errorf("without script the page shows %d cases", v.Plain.Cases)
	}
}

// With -results, the pictures in docs/img are drawn again: of the report of these results, best those of the demo suite.
func TestReportPictures(t *testing.T) {
	if *results == "" {
		t.Skip("call it with -results=DIR")
	}
	page, err := os.ReadFile(filepath.Join(*results, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	pictures, err := filepath.Abs("../../docs/img/report")
	if err != nil {
		t.Fatal(err)
	}
	read(t, page, pictures)
	drawn, err := filepath.Glob(pictures + "-*.png")
	if err != nil || len(drawn) == 0 {
		t.Fatalf("%v, %v", drawn, err)
	}
	for _, name := range drawn {
		if info, err := os.Stat(name); err != nil || info.Size() > 300_000 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// A large run makes a page that opens at once and stays small.
func TestLargeReportInABrowser(t *testing.T) {
	b := newBed(t, 10_000, "")
	page := b.page(t)
	if len(page) > 10<<20 {
		t.Errorf("report.html has %d bytes", len(page))
	}
	v := read(t, page, "")
	for theme, s := range v.Themes {
		t.Logf("%s: %d bytes, first paint %.0f ms, grid %.0f ms, %d rows drawn; %s", theme, len(page), s.Paint, s.Ready, s.Rows, s.All)
		if *hurry && s.Paint >= 2000 {
			t.Errorf("%s: first paint after %.0f ms", theme, s.Paint)
		}
		if s.Rows > 300 || !strings.Contains(s.All, "of 1000 cases fit") {
			t.Errorf("%d rows are drawn at once; %s", s.Rows, s.All)
		}
	}
}

// hostileWeb is put into every text: it tries to end what it stands in, to run, to load and to deceive.
const hostileWeb = `</script></noscript></style></title><script>window.pwned=1</script><img src=http://127.0.0.1:1/x onerror=window.pwned=1>` +
	`"'><svg onload=window.pwned=1>&lt;script&gt;<!--` + "\u202e\u2028\u200b\x1b[31m\x07" + `{{.}}${window.pwned=1}]]>-->`

// Nothing in the texts of agents, suites and files ever runs, loads or ends what it stands in.
func TestHostileReportInABrowser(t *testing.T) {
	b := newBed(t, 40, hostileWeb)
	for _, c := range b.m.Cells[:10] { // a line of a mebibyte, in a file that no reader checks
		name := filepath.Join(b.dir, filepath.FromSlash(result.Dir(c)), "agent.log")
		if err := os.WriteFile(name, []byte(strings.Repeat("<", 1<<20)+hostileWeb), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page := b.page(t)
	if n := strings.Count(string(page), "</script>"); n != strings.Count(string(page), "<script") {
		t.Errorf("%d ends of scripts", n)
	}
	s := read(t, page, "").Themes["light"]
	if !strings.Contains(s.Dialog, "⟨U+202E⟩") || strings.ContainsRune(s.Dialog, '\u202e') {
		t.Error("a mark of direction is not written as its number")
	}
	if !strings.Contains(s.Dialog, "<script>window.pwned=1</script>") {
		t.Error("the text of the agent is not shown as it is")
	}
	if !strings.Contains(s.Dialog, "agent.log: the last 6144 of 10") {
		t.Error("the cut of a log is not named")
	}
}

// TestLeaveLargeRun leaves the results of a large run for make bench, which has assay report write each page of them.
func TestLeaveLargeRun(t *testing.T) {
	if *leaveAt == "" {
		t.Skip("call it with -leave=DIR -cells=100000")
	}
	newBedAt(t, *leaveAt, *largeCells, "")
}

// asked counts the cells whose files somebody asked for.
type asked struct{ n atomic.Int64 }

func (a *asked) Cell(r bench.Run) (Cell, error) {
	a.n.Add(1)
	return Cell{Folder: r.Case}, nil
}

// TestFilesOfLargeRuns: of a large run the files of the first cells are read, those of the others are not and their pages say so;
// no cell is lost, and none changes its place.
func TestFilesOfLargeRuns(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{0: 0, 1: 1, 10_240: 10_240, 10_300: 10_234, 20_000: 9264, 100_000: 1264, 1_000_000: 1024} {
		if told := n - untoldOf(n); told != want {
			t.Errorf("%d cells: the files of %d are read, want %d", n, told, want)
		}
	}
	const n = 12_000
	cells := make([]*gridCell, n)
	for i := range cells {
		cells[i] = &gridCell{run: &bench.Run{Case: strconv.Itoa(i), Phase: "screen"}}
	}
	var d asked
	i := 0
	for batch := range readAhead(cells, &d) {
		if batch.fault != nil {
			t.Fatal(batch.fault)
		}
		for j, page := range batch.pages {
			var c Cell
			if err := json.Unmarshal(page, &c); err != nil {
				t.Fatal(err)
			}
			told := i < n-untoldOf(n)
			if batch.cells[j] != cells[i] || told != (c.Folder == strconv.Itoa(i)) || told == (len(c.Cut) > 0) {
				t.Fatalf("cell %d: %+v", i, c)
			}
			i++
		}
	}
	if i != n || int(d.n.Load()) != n-untoldOf(n) {
		t.Errorf("%d cells of %d, the files of %d were read, want %d", i, n, d.n.Load(), n-untoldOf(n))
	}
	for range readAhead(cells, nil) {
		break // whoever packs them may have enough
	}
}
