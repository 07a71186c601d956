package report

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/bench"
)

// withRuns gives a benchmark a history of so many runs with itself, a day apart. In every other one the tool is not as in the
// one before. word is in every text.
func withRuns(b bench.Benchmark, runs int, word string) bench.Benchmark {
	at := time.Date(2026, 11, 1, 9, 30, 0, 0, time.UTC)
	var past []bench.Past
	for i := range runs - 1 {
		old := b
		created := at.AddDate(0, 0, i)
		old.Metadata.Timestamp, old.Metadata.Commit, old.Metadata.Tool = &created, fmt.Sprintf("%040d", i)+word, fmt.Sprintf("assay %d%s", i/2, word)
		old.Arms = slices.Clone(b.Arms)
		for j := range old.Arms {
			v := 0.3 + float64(i%5)/10
			lo, hi := v-0.2, v+0.1
			old.Arms[j].PassRate = &bench.Estimate{Value: v, Lo: &lo, Hi: &hi, N: 12}
		}
		past = append(past, bench.PastOf(word, &old))
	}
	created := at.AddDate(0, 0, runs)
	b.Metadata.Timestamp, b.Metadata.Tool = &created, fmt.Sprintf("assay %d%s", (runs-2)/2, word)
	return b.After(past)
}

// The report has a picture of each arm over the runs, and the same numbers as text.
func TestReportShowsTheHistory(t *testing.T) {
	t.Parallel()
	b := withRuns(pair(t, 6, "PPF", "PPP"), 6, "")
	data, err := HTML(b)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	_, page, found := strings.Cut(page, "<h2>Over time</h2>")
	page, _, _ = strings.Cut(page, "<h2>Method</h2>")
	if !found {
		t.Fatal("there is no history")
	}
	for want, n := range map[string]int{
		`<circle class="dot" r="4"/>`:                                            10, // the five runs before, of two arms
		`<circle class="dot" r="7"/>`:                                            2,
		`<line class="drift"`:                                                    4, // before the third and the fifth run
		"tool assay 0 → assay 1":                                                 1,
		"Before run 3 something changed. Run 3: 50.0 (30.0 … 60.0) %.":           2,
		"<td>50.0 (30.0 … 60.0)</td>":                                            2,
		"<td class=\"nowrap\">2026-11-03 09:30</td><td class=\"name\">000000000": 1,
	} {
		if got := strings.Count(page, want); got != n {
			t.Errorf("%d times %s, want %d", got, want, n)
		}
	}
	alone, err := HTML(pair(t, 6, "PPF", "PPP"))
	if err != nil || strings.Contains(string(alone), "Over time") {
		t.Errorf("a run that knows of no other has a history: %v", err)
	}
}

// mermaidBlock is a chart in Markdown.
var mermaidBlock = regexp.MustCompile("(?s)\n```mermaid\n(.*?)\n```\n")

// The summary of a job has a chart; the comment, which mail shows too, has none.
func TestSummaryShowsTheHistory(t *testing.T) {
	t.Parallel()
	b := withRuns(pair(t, 6, "PPF", "PPP"), 6, "")
	p := Page{State: Done, Benchmark: &b}
	whole := p.Summary(1_000_000)
	if n := len(mermaidBlock.FindAll(whole, -1)); n != 2 || !strings.Contains(string(whole), "<b>History: 6 runs</b>") {
		t.Errorf("%d charts in the summary", n)
	}
	if strings.Contains(string(p.Comment(CommentBudget)), "mermaid") {
		t.Error("the comment has a chart")
	}
	md, err := Markdown(b)
	if err != nil || len(mermaidBlock.FindAll(md, -1)) != 2 {
		t.Errorf("report.md has no charts: %v", err)
	}
	for _, budget := range []int{Floor, 8000, len(whole) - 1} {
		if bad := faultsOf(p, budget); bad != "" {
			t.Errorf("budget %d: %s", budget, bad)
		}
	}
}

// A history of thousands of arms and long names stays small on every page.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x<", 2000)
	b := withRuns(pair(t, 6, "PPF", "PPP"), 30, long)
	arm := b.History.Arms[0]
	for i := range 900 {
		arm.Condition = fmt.Sprint(long, i)
		b.History.Arms = append(b.History.Arms, arm)
	}
	var w writer
	w.history(*b.History, mostCharts)
	page, err := HTML(b)
	if err != nil {
		t.Fatal(err)
	}
	_, trend, _ := strings.Cut(string(page), "<h2>Over time</h2>")
	trend, _, _ = strings.Cut(trend, "<h2>Method</h2>")
	t.Logf("%d bytes of Markdown, %d of HTML", w.Len(), len(trend))
	if w.Len() > 60_000 || len(trend) > 120_000 {
		t.Errorf("%d bytes of Markdown, %d of HTML", w.Len(), len(trend))
	}
	if !strings.Contains(w.String(), "+896 more arms") || !strings.Contains(trend, "896 more arms") {
		t.Error("the pages do not say what they leave out")
	}
}

// A drawn chart is what the real mermaid made of it, as tools/browser/mermaid.mjs tells it.
type drawn struct {
	Error       string
	Texts       []string
	Bars, Lines int
}

// draw has charts drawn. The test is skipped where the tools for it are not installed.
func draw(t *testing.T, charts []string) []drawn {
	t.Helper()
	tools, err := filepath.Abs("../../tools/browser")
	if err != nil {
		t.Fatal(err)
	}
	browser, err := exec.LookPath("chromium")
	if _, missing := os.Stat(filepath.Join(tools, "node_modules", "@mermaid-js", "tiny")); err != nil || missing != nil {
		t.Skip("chromium or mermaid is absent: npm ci --prefix tools/browser")
	}
	data, err := json.Marshal(charts)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "charts.json")
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", filepath.Join(tools, "mermaid.mjs"), browser, name)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var all []drawn
	if err := json.Unmarshal(out, &all); err != nil || len(all) != len(charts) {
		t.Fatalf("%d of %d charts: %v", len(all), len(charts), err)
	}
	return all
}

// The real mermaid draws the charts of every page, whatever the names are, and draws no text but ours.
func TestMermaidDrawsTheHistory(t *testing.T) {
	var charts []string
	for _, runs := range []int{2, 6, 30} {
		b := withRuns(pair(t, 6, "PPF", "PPP"), runs, "\"]\n```\n    bar [9]\n%%{init: {}}%%\nclick x\n</svg><script>window.pwned=1</script>")
		for i := range b.History.Arms {
			b.History.Arms[i].Condition = "\"]\n```\nevil"
		}
		page := Page{State: Done, Benchmark: &b}.Summary(1_000_000)
		for _, m := range mermaidBlock.FindAllSubmatch(page, -1) {
			charts = append(charts, string(m[1]))
		}
	}
	if len(charts) != 6 {
		t.Fatalf("%d charts", len(charts))
	}
	ours := regexp.MustCompile(`^(\d+\*?|run|passed|Pass rate in percent, and the ends of its interval( \(\* something changed\))?)$`)
	all := draw(t, append(charts, "xychart-beta\n    x-axis [\"a\" b\"]\n    bar [1]"))
	for i, d := range all[:6] {
		runs := []int{2, 6, 30}[i/2]
		if d.Error != "" || d.Bars != runs || d.Lines != 2 {
			t.Errorf("%d runs: %d bars, %d lines, %s\n%s", runs, d.Bars, d.Lines, d.Error, charts[i])
		}
		for _, text := range d.Texts {
			if !ours.MatchString(text) {
				t.Errorf("the chart says %q", text)
			}
		}
	}
	if all[6].Error == "" {
		t.Error("mermaid draws what is no chart, so this test shows nothing")
	}
}

// A history that has not a point for each of its runs is none: no page can tell which run a point is of.
func TestHistoryWithoutPoints(t *testing.T) {
	b := bench.Benchmark{History: &bench.History{Runs: make([]bench.PastRun, 2), Arms: []bench.ArmHistory{{Points: make([]*bench.PastPoint, 3)}}}}
	if h := past(b); h != nil {
		t.Errorf("3 points of 2 runs are shown: %v", h)
	}
	if b.History.Arms[0].Points = b.History.Arms[0].Points[:2]; past(b) == nil {
		t.Error("2 points of 2 runs are not shown")
	}
}
