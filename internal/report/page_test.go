package report

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
)

const exampleSHA = "c0ffee1a2b3c4d5e6f708192a3b4c5d6e7f80912"

// exampleCells are the trials of a suite in four arms, a letter a trial as in suite: claude without and with the skill,
// codex without and with it. The numbers are invented.
var exampleCells = []struct {
	name  string
	cells [4]string
	why   string // codex fails with the skill
}{
	{"config-merge", [4]string{"PPF", "PPP", "PPF", "PFF"}, "correct: exit 1: TestMergeKeepsComments: the comment of key `ttl` is gone"},
	{"csv-quoting", [4]string{"PPP", "PPP", "PPP", "FPF"}, "correct: exit 1: 3 of 41 rows differ, first at line 7"},
	{"data-race", [4]string{"FFP", "PPP", "FFP", "FFP"}, "correct: exit 66: WARNING: DATA RACE in (*Cache).Get"},
	{"flaky-retry", [4]string{"PPP", "PPP", "PPP", "PFF"}, "correct: exit 1: TestRetryBackoff: slept 0s, want at least 100ms"},
	{"large-log", [4]string{"PFF", "PPP", "PP-", "PP-"}, ""},
	{"monorepo", [4]string{"PFF", "PPF", "PFF", "FEE"}, "minimal_fix: 9 files touched, at most 2 allowed"},
	{"pagination", [4]string{"PPF", "PPP", "PPP", "PFF"}, "correct: exit 1: page 3 repeats the last row of page 2"},
	{"path-traversal", [4]string{"PPF", "PPF", "FFF", "FFF"}, "no_bypass: ..%2f reaches /etc/passwd"},
	{"shell-glob", [4]string{"PFP", "PPP", "PFF", "PFF"}, "correct: exit 2: unmatched pattern is passed on"},
	{"sql-join", [4]string{"FPF", "PPF", "PPF", "PFF"}, "correct: exit 1: 12 rows, want 10"},
	{"timezone", [4]string{"PPF", "PPP", "PPP", "FFF"}, "minimal_fix: 6 files touched, at most 1 allowed"},
	{"unicode-slug", [4]string{"PPP", "PPP", "PPP", "FPF"}, "correct: exit 1: slug of “Žluťoučký” is empty"},
}

// example is the benchmark of the documented comment.
func example(t testing.TB) bench.Benchmark {
	t.Helper()
	m := result.Manifest{
		Suite: "investigating-bugs", Tool: "1.0.0", Digest: "sha256:5f0c", Seed: "7", Executor: "docker", Algorithm: "myers-1",
		Created:    time.Date(2026, 11, 21, 6, 31, 0, 0, time.UTC),
		Gate:       result.Gate{Alpha: 0.05, MarginPP: 2, MarginEqPP: 5, MDEMaxPP: 30, MinCoverage: 0.9, Claim: "suite", Underpowered: "warn"},
		Conditions: []result.Condition{{ID: "without_skill", Baseline: true}, {ID: "with_skill"}},
		Harnesses:  []result.Harness{{ID: "claude", Type: "claude-code", Models: []string{"claude-opus-5"}}, {ID: "codex", Type: "codex", Models: []string{"gpt-5.5"}}},
	}
	scopes := [4]diffscope.Counts{{FilesTouched: 2, LinesAdded: 9, LinesRemoved: 6}, {FilesTouched: 1, LinesAdded: 4, LinesRemoved: 2}, {FilesTouched: 2, LinesAdded: 8, LinesRemoved: 6}, {FilesTouched: 3, LinesAdded: 19, LinesRemoved: 9}}
	costs := [4]float64{0.094, 0.086, 0.108, 0.144}
	no := false
	var results []result.Result
	for i, c := range exampleCells {
		m.Cases = append(m.Cases, result.Case{ID: c.name, File: "evals/" + c.name + "/case.yaml", Line: 1})
		for arm, letters := range c.cells {
			for trial, letter := range letters {
				var r result.Result
				r.Case, r.Trial, r.Key = c.name, trial+1, fmt.Sprint(c.name, arm, trial)
				r.Harness, r.Model = m.Harnesses[arm/2].ID, m.Harnesses[arm/2].Models[0]
				r.Condition = m.Conditions[arm%2].ID
				m.Cells = append(m.Cells, r.Cell)
				cost, scope := costs[arm], scopes[arm]
				scope.LinesAdded += i % 3
				r.Attempt, r.Agent.Usage = 1, &trace.Usage{CostUSD: &cost}
				switch letter {
				case 'P':
					r.Status, r.DiffScope = result.Passed, &diffscope.Scope{Counts: scope}
				case 'F':
					id, evidence, _ := strings.Cut(c.why, ": ")
					r.Status, r.DiffScope = result.Failed, &diffscope.Scope{Counts: scope}
					r.Scores = []result.Score{{ID: id, Passed: &no, Evidence: evidence}}
				case 'E':
					r.Status, r.Class, r.Detail, r.Attempt = result.Errored, "model_api", "529 overloaded", 3
				case '-':
					r.Status, r.Reason, r.Agent.Usage = result.Skipped, result.BudgetSpent, nil
				}
				results = append(results, r)
			}
		}
	}
	b, err := bench.Make(m, func(yield func(result.Result, error) bool) {
		for _, r := range results {
			if !yield(r, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// onGitHub is a page of a workflow run.
func onGitHub(p Page) Page {
	p.Marker = Marker{Key: "assay", SHA: exampleSHA, Run: 1234567, Attempt: 1, Started: time.Date(2026, 11, 21, 6, 31, 0, 0, time.UTC)}
	p.Links = Links{
		Artifact: "https://github.com/octo/demo/actions/runs/1234567/artifacts/89", Run: "https://github.com/octo/demo/actions/runs/1234567",
		Commit: "https://github.com/octo/demo/commit/" + exampleSHA,
	}
	return p
}

// states are the pages that a pull request may see beside the verdicts of TestStates.
func states(t testing.TB) map[string]Page {
	regressed, spent := example(t), 4.21
	estimate := 15.27
	created := time.Date(2026, 11, 19, 3, 0, 0, 0, time.UTC)
	origin := bench.Origin{
		Source: "ancestor", SHA: "0badcafe0badcafe0badcafe0badcafe0badcafe", URL: "https://github.com/octo/demo/actions/runs/1200000", Created: &created, Behind: 3,
		Rejected: []bench.Rejected{{What: "artifact 4711 of run 1199999", Why: "it was made on a fork's branch named main"}, {What: "artifact 4700 of run 1199000", Why: "expired"}},
	}
	before := example(t)
	before.Fingerprint.Cases[3].Agent = "sha256:0"
	before.Gate.Settings.MarginPP = 5
	stored := example(t).Against(bench.Stored{Benchmark: &before, Origin: origin})

	only := suite(t, []result.Condition{{ID: "only"}}, map[string]string{"only": "PPF"}, map[string]string{"only": "PFF"})
	first := only.Against(bench.Stored{Origin: bench.Origin{Source: "none", Reason: "no_baseline",
		Why: "no artifact assay-baseline was found for the merge base or the 20 commits before it; run the baseline workflow on main once"}})
	older := only
	older.Fingerprint.Harnesses = []result.Harness{{ID: "codex", Type: "codex", Version: "1.4.0", Models: []string{"gpt-5.5"}}}
	newer := older
	newer.Fingerprint.Harnesses = []result.Harness{{ID: "codex", Type: "codex", Version: "1.5.0", Models: []string{"gpt-5.5"}}}
	exact := bench.Origin{Source: "merge-base", SHA: origin.SHA, URL: origin.URL, Created: &created}
	stale := newer.Against(bench.Stored{Benchmark: &older, Origin: exact})

	settings := regressed.Gate.Settings
	settings.MarginPP, settings.FailOn = 50, []string{"invalid"}
	regated, err := regressed.Regate(settings)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]Page{
		"example":        onGitHub(Page{State: Done, Benchmark: &regressed}),
		"untrusted":      onGitHub(Page{State: Done, Benchmark: &regressed, Untrusted: true}),
		"lost":           onGitHub(Page{State: Done, Benchmark: &regressed, Lost: []string{"check: 403; add checks: write to the permissions of the job", "status: 404"}}),
		"stored":         onGitHub(Page{State: Done, Benchmark: &stored}),
		"first_run":      onGitHub(Page{State: Done, Benchmark: &first}),
		"incomparable":   onGitHub(Page{State: Done, Benchmark: &stale}),
		"running":        onGitHub(Page{State: Running, Ended: 37, Planned: 144, CostUSD: &spent}),
		"post_hoc":       onGitHub(Page{State: Done, Benchmark: &regated}),
		"awaiting":       onGitHub(Page{State: Awaiting, Planned: 144, CostUSD: &estimate, Command: "/eval " + exampleSHA, Text: "The pull request comes from a fork, which may not use the keys of this repository."}),
		"nothing_to_run": onGitHub(Page{State: NothingToRun, Text: "The pull request is a draft; mark it ready to run the suite."}),
		"suite_fault": onGitHub(Page{State: SuiteFault, Faults: []Fault{
			{"evals/suite.yaml", 7, 3, "unknown key trails", "did you mean trials?"},
			{"evals/timezone/case.yaml", 12, 0, "the case has no assertion", ""},
		}}),
		"error": onGitHub(Page{State: Broken, Text: "out/benchmark.json: no space left on device"}),
	}
}

func TestPages(t *testing.T) {
	var lines strings.Builder
	all := states(t)
	for _, name := range sorted(all) {
		p := all[name]
		page := p.Comment(CommentBudget)
		golden(t, "page-"+name+".md", page)
		if bytes.Contains(page, []byte("%!")) || bytes.Contains(page, []byte("(0x")) {
			t.Errorf("%s holds a broken format", name)
		}
		title, _, _ := p.Check(CommentBudget)
		fmt.Fprintf(&lines, "%-14s %s\n%14s %s\n", name, title, "", p.Status())
		if bad := faultsOf(p, CommentBudget); bad != "" {
			t.Errorf("%s: %s", name, bad)
		}
	}
	golden(t, "statuses.txt", []byte(lines.String()))
	golden(t, "summary.md", all["example"].Summary(1_000_000))
	title, summary, text := all["example"].Check(CommentBudget)
	golden(t, "check.md", []byte(title+"\n\n---\n\n"+string(summary)+"\n---\n\n"+string(text)))
}

func sorted(all map[string]Page) []string {
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// commandLine is a line that a program takes for an order: ours, or that of the runner.
var commandLine = regexp.MustCompile(`(?m)^[\s>*-]*(/[a-z]|::|##\[)`)

// faultsOf says what is wrong with any face of a page.
func faultsOf(p Page, budget int) string {
	title, summary, text := p.Check(budget)
	comment := p.Comment(budget)
	for name, page := range map[string][]byte{"comment": comment, "summary": p.Summary(budget), "check summary": summary, "check text": text} {
		s := strings.TrimPrefix(string(page), p.marker().line())
		if name == "summary" { // the only page with charts
			s = mermaidBlock.ReplaceAllString(s, "")
		}
		switch {
		case len(page) > max(budget, Floor):
			return fmt.Sprintf("%s has %d bytes, the budget is %d", name, len(page), budget)
		case strings.Contains(s, "```"):
			return name + " holds a fence"
		case commandLine.MatchString(s):
			return name + " holds a command at the start of a line"
		}
		if bad := problems(page, p.Links); len(bad) > 0 {
			return fmt.Sprintf("%s: %v\n%s", name, bad, page)
		}
		if bad := unbalanced(string(page)); bad != "" {
			return fmt.Sprintf("%s: %s\n%s", name, bad, page)
		}
	}
	if m, ok := ReadMarker(string(comment)); !ok || m != p.marker() {
		return fmt.Sprintf("the marker reads as %v, want %v", m, p.marker())
	}
	if s := p.Status(); len(s) > statusSize || strings.ContainsAny(s, "\n\r\x00") {
		return fmt.Sprintf("the status is %q", s)
	}
	if strings.ContainsAny(title, "\n\r") || len(title) > statusSize {
		return fmt.Sprintf("the title is %q", title)
	}
	return ""
}

// unbalanced says what is open at the end of a page, or which row of a table has another width than its header.
func unbalanced(page string) string {
	depth, columns := 0, 0
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "<details>"):
			depth++
		case line == "</details>":
			depth--
		}
		if depth < 0 || depth > 1 {
			return "details are nested or closed twice"
		}
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		n := strings.Count(line, "|")
		if columns != 0 && n != columns {
			return "a row of another width: " + line
		}
		columns = n
	}
	if depth != 0 {
		return "details stay open"
	}
	return ""
}

// Whatever the benchmark, the state and the budget are, and whatever any text holds: every face keeps its budget, the
// marker stands first and reads back, and nothing foreign is more than text.
func TestAnyPage(t *testing.T) {
	text := rapid.OneOf(rapid.SampledFrom(hostile), rapid.String(), rapid.Map(rapid.SliceOfN(rapid.SampledFrom(hostile), 2, 40), func(s []string) string { return strings.Join(s, "") }))
	at := rapid.Map(rapid.Int64(), func(s int64) time.Time { return time.Unix(s%1e12, s%1e9) })
	generator := rapid.MakeCustom[Page](rapid.MakeConfig{
		Types: map[reflect.Type]*rapid.Generator[any]{reflect.TypeFor[time.Time](): at.AsAny(), reflect.TypeFor[bench.Verdict](): rapid.SampledFrom([]any{bench.Regressed, bench.Improved, bench.Equivalent, bench.NoEvidence, bench.Underpowered, bench.Invalid, bench.Verdict("| @x")})},
		Kinds: map[reflect.Kind]*rapid.Generator[any]{
			reflect.String: text.AsAny(), reflect.Int: rapid.IntRange(-9, 99_999).AsAny(),
			reflect.Float64: rapid.OneOf(rapid.Float64Range(-2, 2), rapid.Float64Range(-999, 999), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1)})).AsAny(),
		},
	})
	rapid.Check(t, func(t *rapid.T) {
		p := generator.Draw(t, "page")
		p.State = rapid.SampledFrom([]State{Done, Done, Done, Running, Awaiting, NothingToRun, SuiteFault, Broken, "| @x"}).Draw(t, "state")
		p.Marker.Key = rapid.SampledFrom([]string{"assay", "", "a--b-->c", "\xff<b>\n", strings.Repeat("é", 80), p.Marker.Key}).Draw(t, "key")
		p.Marker.SHA = rapid.SampledFrom([]string{exampleSHA, p.Marker.SHA}).Draw(t, "sha")
		p.Links.Run = rapid.SampledFrom([]string{"https://github.com/o/r/actions/runs/1", "https://x.example/a(b)|c d", p.Links.Run}).Draw(t, "link")
		if b := p.Benchmark; b != nil { // let the parts name each other, so that they meet on the page
			for i := range b.Comparisons {
				if n := len(b.Arms); n > 0 {
					b.Comparisons[i].Head.ID, b.Comparisons[i].Base.ID = b.Arms[i%n].ArmID, b.Arms[(i+1)%n].ArmID
				}
			}
			for i := range b.Runs {
				if n := len(b.CaseArms); n > 0 {
					c := b.CaseArms[i%n]
					b.Runs[i].Case, b.Runs[i].Harness, b.Runs[i].Model, b.Runs[i].Condition = c.Case, c.Harness, c.Model, c.Condition
				}
			}
		}
		budget := rapid.OneOf(rapid.IntRange(0, 2*Floor), rapid.IntRange(0, 100_000)).Draw(t, "budget")
		if bad := faultsOf(p, budget); bad != "" {
			t.Fatal(bad)
		}
	})
}

// The least budget holds the page that needs the most bytes for the least it may say.
func TestFloor(t *testing.T) {
	long := "https://github.com/" + strings.Repeat("x", maxLink-len("https://github.com/"))
	for _, state := range []State{Done, Running, Awaiting, NothingToRun, SuiteFault, Broken} {
		p := onGitHub(Page{State: state, Untrusted: true, Text: strings.Repeat("$", 999), Command: strings.Repeat("$", 999), Lost: slices.Repeat([]string{strings.Repeat("$", 999)}, 99)})
		p.Faults = slices.Repeat([]Fault{{strings.Repeat("$", 99), 1, 1, strings.Repeat("$", 999), strings.Repeat("$", 999)}}, 99)
		p.Marker.Key, p.Links = strings.Repeat("\x01", 200), Links{long, long, long}
		p.Marker.Run, p.Marker.Attempt = math.MinInt64, math.MinInt64
		if bad := faultsOf(p, 0); bad != "" {
			t.Errorf("%s: %s", state, bad)
		}
	}
}

// Each level is no longer than the one before, and says what it leaves out.
func TestLevels(t *testing.T) {
	b := huge(t, 200, 6)
	p := onGitHub(Page{State: Done, Benchmark: &b})
	sizes := map[int]bool{}
	last := 1 << 30
	for budget := 400_000; budget > Floor/2; budget = budget * 3 / 4 {
		page := p.Comment(budget)
		if len(page) > last {
			t.Errorf("a budget of %d bytes gives a longer page than a larger one", budget)
		}
		last = len(page)
		sizes[last] = true
		if !bytes.Contains(page, []byte("https://github.com/octo/demo/actions/runs/1234567)")) {
			t.Errorf("the page of %d bytes has lost its links", last)
		}
		if bad := unbalanced(string(page)); bad != "" {
			t.Errorf("the page of %d bytes: %s", last, bad)
		}
	}
	if len(sizes) < lastLevel {
		t.Errorf("only %d different pages; %d levels were expected", len(sizes), lastLevel)
	}
}

// huge is a benchmark of many cases and arms in which much moved and much is missing.
func huge(t testing.TB, cases, arms int) bench.Benchmark {
	b := demo(t)
	no := false
	arm, comparison := b.Arms[1], b.Comparisons[0]
	b.Arms, b.Comparisons, b.CaseArms, b.Runs, b.Missing = nil, nil, make([]bench.CaseArm, 0, cases*arms), make([]bench.Run, 0, cases*arms), nil
	var pairs []bench.CasePair
	for i := range cases {
		pairs = append(pairs, bench.CasePair{Case: fmt.Sprintf("case-%05d", i), P: float64(i%97) / 97, Base: bench.Passes{Passed: 2, N: 3}, Head: bench.Passes{Passed: i % 4, N: 3}})
	}
	for j := range arms {
		a, c := arm, comparison
		a.Condition = fmt.Sprintf("%02d|%s", j, strings.Repeat("<&|", 30))
		c.Head.ID, c.PCases = a.ArmID, pairs
		b.Arms, b.Comparisons = append(b.Arms, a), append(b.Comparisons, c)
	}
	for _, p := range pairs {
		for _, a := range b.Arms {
			b.CaseArms = append(b.CaseArms, bench.CaseArm{Case: p.Case, ArmID: a.ArmID})
			if len(b.Missing) < 10_000 {
				b.Missing = append(b.Missing, bench.Missing{Case: p.Case, Harness: a.Harness, Model: a.Model, Condition: a.Condition, Status: "errored", Detail: strings.Repeat("@", 500)})
			}
			b.Runs = append(b.Runs, bench.Run{Case: p.Case, Harness: a.Harness, Model: a.Model, Condition: a.Condition, Trial: 1, Status: result.Failed,
				Expectations: []bench.Expectation{{ID: "correct", Evidence: "it is not", Passed: &no}}})
		}
	}
	return b
}

func TestHugeBenchmarkFits(t *testing.T) {
	if testing.Short() {
		t.Skip("a benchmark of half a million cells takes memory")
	}
	b := huge(t, 10_000, 50)
	p := onGitHub(Page{State: Done, Benchmark: &b})
	if page := p.Comment(CommentBudget); len(page) > CommentBudget || len(page) < 2*Floor {
		t.Errorf("the comment has %d bytes", len(page))
	}
	if page := p.Summary(1_000_000); len(page) > 1_000_000 {
		t.Errorf("the summary has %d bytes", len(page))
	}
}

func BenchmarkHugeComment(b *testing.B) {
	data := huge(b, 10_000, 50)
	p := onGitHub(Page{State: Done, Benchmark: &data})
	for b.Loop() {
		p.Comment(CommentBudget)
	}
}

func TestReadMarker(t *testing.T) {
	t.Parallel()
	p := onGitHub(Page{State: Running})
	good := string(p.Comment(CommentBudget))
	line, _, _ := strings.Cut(good, "\n")
	for name, body := range map[string]string{"a whole comment": good, "one line": line, "Windows line ends": strings.ReplaceAll(good, "\n", "\r\n")} {
		m, ok := ReadMarker(body)
		if !ok {
			t.Errorf("%s is not read", name)
		}
		if diff := cmp.Diff(p.marker(), m); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, body := range map[string]string{
		"nothing": "", "second line": "\n" + good, "words before": "> " + good, "words behind": strings.Replace(good, "-->", "--> x", 1),
		"unknown field": strings.Replace(good, `"v":1`, `"v":1,"x":1`, 1), "another version": strings.Replace(good, `"v":1`, `"v":2`, 1),
		"field twice": strings.Replace(good, `"v":1`, `"v":1,"v":1`, 1), "other case": strings.Replace(good, `"key"`, `"Key"`, 1),
		"two values": strings.Replace(good, "}", "}{}", 1), "unknown state": strings.Replace(good, "running", "walking", 1),
		"a verdict while running": strings.Replace(good, `"running"`, `"running","verdict":"improved"`, 1),
		"no key":                  strings.Replace(good, `"assay"`, `""`, 1), "short commit": strings.Replace(good, exampleSHA, exampleSHA[:12], 1),
		"cut": line[:len(line)-1], "too long": strings.Replace(good, `"v":1`, `"v":1`+strings.Repeat(" ", maxMarker), 1),
	} {
		if m, ok := ReadMarker(body); ok {
			t.Errorf("%s is read as %v", name, m)
		}
	}
}

func FuzzReadMarker(f *testing.F) {
	f.Add(string(onGitHub(Page{State: Running}).Comment(CommentBudget)))
	f.Add(`<!-- assay {"v":1,"key":"a-\u002d\u003e","state":"done","verdict":"improved"} -->`)
	f.Add("<!-- assay {} -->")
	f.Fuzz(func(t *testing.T, body string) {
		m, ok := ReadMarker(body)
		if !ok {
			return
		}
		if again, ok := ReadMarker(m.line()); !ok || again != m || !strings.HasPrefix(body, m.line()) {
			t.Errorf("%q reads as %v and is written as %q", body, m, m.line())
		}
		if strings.Count(m.line(), "--") != 2 {
			t.Errorf("%q may end too early", m.line())
		}
	})
}
