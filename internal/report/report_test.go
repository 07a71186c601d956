package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"fmt"
	"html"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/result"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// demo is the benchmark that bench's own tests hold golden: everything that goes wrong, and texts that try to be markup.
func demo(t testing.TB) bench.Benchmark {
	t.Helper()
	f, err := os.Open("../bench/testdata/benchmark.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := bench.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// suite is a benchmark of cases with the given outcomes, a letter a trial: P passed, F failed, E errored, - pending.
func suite(t testing.TB, conditions []result.Condition, cases ...map[string]string) bench.Benchmark {
	t.Helper()
	m := result.Manifest{
		Suite: "suite", Tool: "test", Seed: "1", Executor: "host", Conditions: conditions,
		Gate:      result.Gate{Alpha: 0.05, MarginPP: 2, MarginEqPP: 5, MDEMaxPP: 15, MinCoverage: 0.9, Claim: "suite", Underpowered: "warn"},
		Harnesses: []result.Harness{{ID: "codex", Type: "codex", Models: []string{"gpt-5.5"}}},
	}
	var results []result.Result
	for i, c := range cases {
		name := fmt.Sprintf("case-%03d", i)
		m.Cases = append(m.Cases, result.Case{ID: name, File: name + "/case.yaml", Line: 1})
		for _, condition := range conditions {
			for trial, letter := range c[condition.ID] {
				var r result.Result
				r.Case, r.Harness, r.Model, r.Condition, r.Trial = name, "codex", "gpt-5.5", condition.ID, trial+1
				r.Attempt, r.Key = 1, fmt.Sprint(name, condition.ID, trial)
				m.Cells = append(m.Cells, r.Cell)
				if letter == '-' {
					continue
				}
				r.Status = map[rune]result.Status{'P': result.Passed, 'F': result.Failed, 'E': result.Errored}[letter]
				if letter == 'E' {
					r.Class = "model_api"
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

// pair is a suite of n equal cases with a baseline and a candidate.
func pair(t testing.TB, n int, base, head string) bench.Benchmark {
	t.Helper()
	cases := make([]map[string]string, n)
	for i := range cases {
		cases[i] = map[string]string{"without": base, "with": head}
	}
	return suite(t, []result.Condition{{ID: "without", Baseline: true}, {ID: "with"}}, cases...)
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	name = "testdata/" + name
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s is stale, run the test with -update:\n%s", name, cmp.Diff(string(want), string(got)))
	}
}

func TestFaces(t *testing.T) {
	b := demo(t)
	for _, f := range Faces {
		if f.Doc == "" {
			t.Errorf("%s has no doc", f.Name)
		}
		page, err := f.Render(b)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(page, []byte("%!")) || bytes.Contains(page, []byte("(0x")) {
			t.Errorf("%s holds a broken format", f.File)
		}
		for _, must := range []string{"scripted", "smaller diff is not better by itself"} {
			if !bytes.Contains(page, []byte(must)) {
				t.Errorf("%s does not say %q", f.File, must)
			}
		}
		if f.Name != "json" { // bench holds that one
			golden(t, f.File, page)
		}
	}
}

// Every state of a benchmark, by its headline and its comment.
func TestStates(t *testing.T) {
	two := []result.Condition{{ID: "without", Baseline: true}, {ID: "with"}}
	several := suite(t, append(two, result.Condition{ID: "other"}),
		map[string]string{"without": "PPPPP", "with": "FFFFF", "other": "PPPPP"},
		map[string]string{"without": "FPPPP", "with": "PPPPP", "other": "PPPFP"})
	floor := pair(t, 6, "FFFFF", "PPFPP")
	floor.Gate.By, floor.Gate.Result, floor.Gate.ExitCode, floor.Gate.Text = "below_floor", "failed", 1, "codex/gpt-5.5/with: pass rate 80.0 %, the floor is 90 %"
	stopped := pair(t, 3, "PP-", "P--")
	stopped.Interrupted = true
	var headlines strings.Builder
	for _, s := range []struct {
		name string
		b    bench.Benchmark
	}{
		{"regressed", pair(t, 2, "PPPPP", "FFFFF")},
		{"improved", pair(t, 2, "FFFFF", "PPPPP")},
		{"equivalent", pair(t, 24, "PPPPPPPPPP", "PPPPPPPPPP")},
		{"no_evidence", pair(t, 40, "PPPFF", "FPPPF")},
		{"underpowered", pair(t, 1, "PPP", "FFF")},
		{"invalid", pair(t, 4, "PPP", "EEE")},
		{"interrupted", stopped},
		{"several", several},
		{"below_floor", floor},
		{"no_baseline", suite(t, []result.Condition{{ID: "only"}}, map[string]string{"only": "PPF"})},
		{"nothing", suite(t, nil)},
	} {
		fmt.Fprintf(&headlines, "%-12s %s\n", s.name, Headline(s.b))
		golden(t, "comment-"+s.name+".md", Page{State: Done, Benchmark: &s.b}.Comment(CommentBudget))
		for _, f := range Faces {
			page, err := f.Render(s.b)
			if err != nil {
				t.Fatalf("%s of %s: %v", f.File, s.name, err)
			}
			if strings.Contains(strings.ToLower(string(page)), "no regression") {
				t.Errorf("%s of %s says that there is no regression", f.File, s.name)
			}
			if f.Name != "json" && f.Name != "junit" && !bytes.Contains(page, []byte(word(s.b.Verdict)[len("⚪"):])) {
				t.Errorf("%s of %s does not say %s", f.File, s.name, word(s.b.Verdict))
			}
		}
	}
	golden(t, "headlines.txt", []byte(headlines.String()))
}

func TestHTMLNeedsNothing(t *testing.T) {
	page, err := HTML(demo(t))
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	if link := `<a href="` + verdictsPage + `"`; strings.Count(text, link) != 1 { // the only one, for a reader to follow
		t.Errorf("%s is not there once", link)
	} else {
		text = strings.Replace(text, link, "<a", 1)
	}
	script := "<script>" + pageJS + "</script>"
	if strings.Count(text, script) != 1 {
		t.Error("the page's own script is not there once")
	}
	text = strings.Replace(text, script, "", 1)
	text = regexp.MustCompile(`<script type="application/json" id="[a-z0-9-]+"( data-packed)?>[^<]*</script>`).ReplaceAllString(text, "")
	for _, bad := range []string{`(?i)<(script|img|link|iframe|object|embed|form|base)`, `<[a-zA-Z][^>]*\s(src|href|style|action|on[a-z]+)=`, `url\(`, `@import`} {
		if found := regexp.MustCompile(bad).FindString(text); found != "" {
			t.Errorf("the page holds %q", found)
		}
	}
	css := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(text)[1]
	sum := sha256.Sum256([]byte(css))
	policy := html.UnescapeString(regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(text)[1])
	if want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, want) {
		t.Errorf("the policy %q does not allow the page's own style %s", policy, want)
	}
	sum = sha256.Sum256([]byte(pageJS))
	if want := "script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"; !strings.Contains(policy, want) || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy %q does not allow the page's own script %s and no other", policy, want)
	}
}

// A large run still makes a page that a browser opens at once.
func TestHTMLStaysSmall(t *testing.T) {
	cases := make([]map[string]string, 3000)
	for i := range cases {
		cases[i] = map[string]string{"without": "PPFPP", "with": "PFPPP"}
	}
	b := suite(t, []result.Condition{{ID: "without", Baseline: true}, {ID: "with"}}, cases...)
	for i := range b.Runs {
		b.Runs[i].Expectations = []bench.Expectation{{ID: "a", Text: "it holds", Evidence: strings.Repeat("x", 2000)}}
	}
	page, err := HTML(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(page) > 10<<20 {
		t.Errorf("%d bytes", len(page))
	}
	if !bytes.Contains(page, []byte("2500 more cases are in benchmark.json")) {
		t.Error("the page does not say what it leaves out")
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lo, value, hi, scale float64
		want                 string
	}{
		{13.9, 22.2, 30.6, 50, "··········│··┣╋━┫····"},
		{-52.8, -33.3, -16.7, 100, "·····┣━╋┫·│··········"},
		{-100, 0, 100, 100, "┣━━━━━━━━━╋━━━━━━━━━┫"},
		{-3, -3, -3, 10, "·······╋··│··········"},
	} {
		if got := bar(c.lo, c.value, c.hi, c.scale); got != c.want {
			t.Errorf("bar(%v, %v, %v, %v) = %s, want %s", c.lo, c.value, c.hi, c.scale, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		scale := rapid.SampledFrom([]float64{10, 25, 50, 100}).Draw(t, "scale")
		in := rapid.Float64Range(-2*scale, 2*scale)
		lo, hi := in.Draw(t, "a"), in.Draw(t, "b")
		lo, hi = min(lo, hi), max(lo, hi)
		line := []rune(bar(lo, rapid.Float64Range(lo, hi).Draw(t, "value"), hi, scale))
		if len(line) != barWidth || strings.Count(string(line), "╋") != 1 {
			t.Fatalf("%s", string(line))
		}
		for i, r := range line {
			if r == '┣' && i > strings.IndexRune(string(line), '╋') || r == '┫' && strings.ContainsRune(string(line[i:]), '╋') {
				t.Fatalf("%s is out of order", string(line))
			}
		}
	})
}
