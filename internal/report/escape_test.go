package report

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	gmtext "github.com/yuin/goldmark/text"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/result"
)

func TestText(t *testing.T) {
	t.Parallel()
	visible := strings.NewReplacer(gap, "⌇")
	for _, c := range []struct{ in, want string }{
		{"plain words, 3.5 % of it (all)", "plain words, 3.5 % of it (all)"},
		{"a|b", "a&#124;b"},
		{"<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"},
		{"@octocat and @org/team", "@⌇octocat and @⌇org/team"},
		{"fixes #12, GH-7, owner/repo#1", "fixes #⌇12, GH-⌇7, owner/repo#⌇1"},
		{"see 0123456789abcdef, deadbeef and facade", "see 012345⌇6789ab⌇cdef, deadbe⌇ef and facade"},
		{"https://x.example www.x.example a@b.example", "https:⌇//x.example www⌇.x.example a@⌇b.example"},
		{":tada: and $x^2$", ":⌇tada: and &#36;⌇x^2&#36;⌇"},
		{"/eval abc", "/⌇eval abc"},
		{"::error::x and ##[error]x", ":⌇:⌇error:⌇:⌇x and #⌇#⌇\\[error\\]x"},
		{"# title", "\\# title"},
		{"1. first", "1\\. first"},
		{"- item", "\\- item"},
		{"`code` *b* _i_ ~s~ [l](u) \\", "\\`code\\` \\*b\\* \\_i\\_ \\~s\\~ \\[l\\](u) \\\\"},
		{"--> <!-- x", "\\--&gt; &lt;!-- x"},
		{"two\nlines\r\nand\ttab", "two lines  and tab"},
		{"\x1b[31mred\x1b[0m \x1b]0;t\x07", "red \\]0;t"},
		{"a\u202eb\u200bc\U000e0041d\x00e", "abcde"},
		{"bad \xff byte", "bad \ufffd byte"},
	} {
		if diff := cmp.Diff(c.want, visible.Replace(Text(c.in, 100))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.in, diff)
		}
	}
	if got := Text(strings.Repeat("ä", 50), 10); got != strings.Repeat("ä", 10)+"…" {
		t.Errorf("cut to %q", got)
	}
}

// live is what GitHub would make more of outside of code: a mention, an issue, a commit, an address, an emoji.
var live = regexp.MustCompile(`(^|[^\p{L}\p{N}_])@[\p{L}\p{N}]|#[0-9]|(?i:\bgh-[0-9])|\b[0-9a-f]{7,40}\b|://|(?i:www\.)|:[a-z0-9_+-]+:`)

// ourHeading are the headings that we write ourselves, but for those of report.md.
var ourHeading = regexp.MustCompile(`^((❌|✅|🟰|⚪|⛔|⏳|⏸️) Assay: [a-z0-9, -]+|Cases that passed (less|more) often)$`)

// isOurs tells whether a destination is one of our links. Percent signs apart, nothing is changed in one.
func isOurs(to string, ours Links) bool {
	for _, l := range []string{verdictsPage, ours.Artifact, ours.Run, ours.Commit} {
		if to == l || strings.Contains(linkTo("x", l), "("+to+")") {
			return true
		}
	}
	return false
}

// problems lists what Markdown made of a page that has none of it by our own hand, beside our links.
func problems(page []byte, ours Links) []string {
	var out []string
	md := goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote))
	root := md.Parser().Parse(gmtext.NewReader(page))
	columns := 0
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			if to := string(n.Destination); !isOurs(to, ours) {
				out = append(out, "a link to "+to)
			}
		case *ast.Heading:
			if heading := string(n.Lines().Value(page)); !ourHeading.MatchString(heading) {
				out = append(out, "heading "+heading)
			}
		case *ast.Image, *ast.AutoLink, *ast.RawHTML, *extast.FootnoteLink, *extast.TaskCheckBox, *extast.Strikethrough:
			out = append(out, n.Kind().String())
		case *ast.HTMLBlock:
			if block := string(n.Lines().Value(page)); !ourHTML.MatchString(block) {
				out = append(out, "HTML "+block)
			}
		case *ast.CodeSpan:
			return ast.WalkSkipChildren, nil
		case *ast.FencedCodeBlock:
			if chart := string(n.Lines().Value(page)); string(n.Language(page)) != "mermaid" || !ourChart.MatchString(chart) {
				out = append(out, "a block of code: "+chart)
			}
		case *ast.CodeBlock:
			out = append(out, n.Kind().String())
		case *extast.Table:
			columns = len(n.Alignments)
		case *extast.TableHeader, *extast.TableRow:
			if n.ChildCount() != columns {
				out = append(out, "a row of another width")
			}
		case *ast.Text:
			shown := html.UnescapeString(string(n.Segment.Value(page)))
			if found := live.FindString(shown); found != "" {
				out = append(out, fmt.Sprintf("%q in %q", found, shown))
			}
		}
		return ast.WalkContinue, nil
	})
	return out
}

// ourHTML is the only HTML that our pages hold.
var ourHTML = regexp.MustCompile(`^(<!-- assay \{[^>]*\} -->|<details><summary><b>[A-Za-z0-9:, ]+</b></summary>|</details>)\s*$`)

// ourChart is the only block of code that our pages hold.
var ourChart = regexp.MustCompile(`^xychart-beta
    title "Pass rate in percent, and the ends of its interval( \(\* something changed\))?"
    x-axis "run" \["[0-9]+\*?"(, "[0-9]+\*?")+\]
    y-axis "passed" 0 --> 100
    bar \[[0-9., ]+\]
    line \[[0-9., ]+\]
    line \[[0-9., ]+\]
$`)

// poison lays one text into every foreign field of a benchmark.
func poison(b bench.Benchmark, s string) bench.Benchmark {
	id := bench.ArmID{Harness: s, Model: s, Condition: s}
	b.Verdict, b.Reason.Text, b.Reason.Case = bench.Regressed, s, s
	b.Metadata.Suite, b.Metadata.Tool, b.Metadata.Seed, b.Metadata.Isolation = s, s, s, s
	b.Metadata.Simulated = []string{s}
	b.Notes, b.Unreadable, b.Unplanned = []string{s}, []string{s}, []string{s}
	b.Gate.By, b.Gate.Text, b.Gate.Result = "below_floor", s, s
	b.Fingerprint.Executor, b.Fingerprint.Suite = s, s
	b.Arms = []bench.Arm{b.Arms[0], b.Arms[1]}
	b.Arms[0].ArmID, b.Arms[1].ArmID = id, id
	c := b.Comparisons[0]
	c.Head.ID, c.Base.ID, c.Verdict = id, id, bench.Invalid
	c.Reasons = []bench.Reason{{Code: s, Case: s, Text: s}}
	c.Warnings = []bench.Warning{{Code: s, Text: s}}
	c.PCases = []bench.CasePair{
		{Case: s, Base: bench.Passes{Passed: 3, N: 3}, Head: bench.Passes{N: 3}, Regressed: true, Phase: bench.ConfirmPhase,
			Confirm: &bench.Confirmation{Base: bench.Passes{Passed: 8, N: 8, Planned: 8}, Head: bench.Passes{N: 8, Planned: 8}}},
		{Case: s, Base: bench.Passes{N: 3}, Head: bench.Passes{Passed: 3, N: 3}, Improved: true},
	}
	value := 1.5
	c.Metrics = []bench.Metric{{Name: s, Kind: s, NPairs: 1, Value: &value}}
	c.Split = &bench.Split{Chance: 1, Cases: 1, Advice: s}
	b.Comparisons = []bench.Comparison{c}
	b.CaseArms = []bench.CaseArm{{Case: s, ArmID: id}}
	no := false
	b.Runs = []bench.Run{{Case: s, Harness: s, Model: s, Condition: s, Trial: 1, Status: "failed", Detail: s, Class: s,
		Expectations: []bench.Expectation{{ID: s, Text: s, Evidence: s, Passed: &no}}, Notes: []string{s}}}
	one := 1
	b.Runs[0].DiffScope = &bench.Scope{OutsideFiles: &one}
	b.Runs[0].DiffFacts = &bench.DiffFacts{
		Tampering: []result.Finding{{Kind: s, Path: s, Text: s}, {Kind: s, Path: s, Text: s}}, TamperingCount: 9, TamperingKinds: []string{s, s},
		DependenciesAdded: []string{s, s}, AddedCount: 9, DependenciesRemoved: []string{s}, RemovedCount: 1,
	}
	for i := range b.Arms {
		b.Arms[i].DiffScope.Signals = bench.ArmSignals{Inspected: 1, Tampered: &one, TamperingKinds: []string{s, s}, Measured: 1, Outside: &one, NoChange: &one}
	}
	b.Missing = []bench.Missing{{Case: s, Harness: s, Model: s, Condition: s, Status: s, Class: s, Detail: s}}
	b.Gate.PostHoc = true
	b.Origin = &bench.Origin{Source: s, SHA: s, URL: s, Why: s, Reason: s, Behind: 2, Rejected: []bench.Rejected{{What: s, Why: s}}}
	b.DiffScope = bench.ByCondition[[]bench.ScopeRow]{{Condition: s, Value: []bench.ScopeRow{{Case: s, Harness: s, Model: s, Status: "failed"}}}}
	return withRuns(b, 3, s)
}

// poisoned are pages of every state with one text in every foreign field.
func poisoned(b bench.Benchmark, s string) []Page {
	var out []Page
	for _, state := range []State{Done, Running, Awaiting, NothingToRun, SuiteFault, Broken} {
		out = append(out, onGitHub(Page{State: state, Benchmark: &b, Planned: 3, Command: s, Text: s, Untrusted: true,
			Faults: []Fault{{s, 1, 1, s, s}, {File: s, Text: s}}, Lost: []string{s, s}}))
	}
	return out
}

// hostile texts that once broke some tool's page.
var hostile = []string{
	"@octocat", "@org/team", "<img src=x onerror=alert(1)>", "m|x", "a\\|b", "\\", "`", "``a`b", "[x](javascript:alert(1))", "![x](http://evil.example/p.png)",
	"http://evil.example", "www.evil.example", "a@b.example", "<http://evil.example>", "</details>", "-->", "<!--", "# h", "1. x", "- [ ] x", "```\ncode", "    code",
	"[^1]", "[x]: http://evil.example", "~~s~~", "&lt;b&gt;", "a\n\nb", "a\r| b |\n|--|", "==", "--", "***", "\u202e@x", "/eval x", "\x00\x1b[31m", "\xff\xfe", "{{.}}", "",
	"ftp://a.b", "mailto:a@b.c", "xmpp:a@b.c", "+ x", "> quote", "<b", "&", "&#x40;x", "\u2028x", "＠x", "https://\u200bx.example", "|", ":tada:", "$x$", "#123", "GH-12", "o/r#1", "deadbeefcafe", "::error::x", "##[error]x", "\U000e0041", "[!NOTE]", "%!s", "%2f..", "||", "\\\\|", "`|`", "a`|b",
}

func TestHostileTextIsText(t *testing.T) {
	b := demo(t)
	for _, s := range hostile {
		bad := poison(b, s)
		page, err := Markdown(bad)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range problems(page, Links{}) {
			if !strings.HasPrefix(problem, "heading ") { // report.md has more of them
				t.Errorf("%q in report.md makes %v", s, problem)
			}
		}
		for _, p := range poisoned(bad, s) {
			if bad := faultsOf(p, CommentBudget); bad != "" {
				t.Errorf("%q on a page that is %s: %s", s, p.State, bad)
			}
		}
	}
}

// tag is a tag of HTML.
var tag = regexp.MustCompile(`<[^>]*>`)

// Whatever agents wrote, report.html has the same tags, and nothing of what a reader cannot see.
func TestHostileFactsInHTML(t *testing.T) {
	b := demo(t)
	tags := func(s string) []string {
		page, err := HTML(poison(b, s))
		if err != nil {
			t.Fatal(err)
		}
		facts := strings.Join(append(runFacts(poison(b, s).Runs[0]), runSignals(poison(b, s).Runs[0])...), "\n")
		if !strings.Contains(facts, "and 7 more") || !strings.Contains(facts, "7 more\n") {
			t.Errorf("%q: the facts do not say what they leave out:\n%s", s, facts)
		}
		return tag.FindAllString(string(page), -1)
	}
	want := tags("plain")
	for _, s := range hostile {
		if s == "" {
			continue // what is empty is left out
		}
		if diff := cmp.Diff(want, tags(s)); diff != "" {
			t.Errorf("%q changes the tags of report.html (-want +got):\n%s", s, diff)
		}
	}
	for _, r := range []rune{'\u202e', '\u2028', '\x1b', '\U000e0041'} {
		s := "a" + string(r) + "b"
		bad := poison(b, s)
		for _, f := range Faces {
			page, err := f.Render(bad)
			if err != nil {
				t.Fatal(err)
			}
			if f.Name != "json" && strings.ContainsRune(string(page), r) {
				t.Errorf("%q reached %s", s, f.File)
			}
		}
	}
}

func FuzzEscape(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, out := range []string{Text(s, 200), code(s, 200)} {
			if !utf8.ValidString(out) || strings.ContainsAny(out, "\n\r\x00\x1b|") {
				t.Errorf("%q became %q", s, out)
			}
			page := []byte("before " + out + " after\n\n" + out + "\n\n| a | b |\n| :-- | :-- |\n| " + out + " | x |\n")
			if p := problems(page, Links{}); len(p) > 0 {
				t.Errorf("%q, written %q, makes %v", s, out, p)
			}
		}
	})
}

// FuzzPages lays one text into every foreign field of a whole benchmark and of a page of some state.
func FuzzPages(f *testing.F) {
	for i, s := range hostile {
		f.Add(s, uint8(i))
	}
	b := demo(f)
	plain, err := HTML(poison(b, "plain"))
	if err != nil {
		f.Fatal(err)
	}
	scripts := strings.Count(string(plain), "<script")
	f.Fuzz(func(t *testing.T, s string, state uint8) {
		bad := poison(b, s)
		all := poisoned(bad, s)
		if p := all[int(state)%len(all)]; faultsOf(p, CommentBudget) != "" {
			t.Errorf("%q on a page that is %s: %s", s, p.State, faultsOf(p, CommentBudget))
		}
		page, err := HTML(bad)
		if err != nil {
			t.Fatal(err)
		}
		if n := checkScripts(t, page); n != scripts || strings.Contains(strings.ToLower(string(page)), "<img") {
			t.Errorf("%q reached the page as markup: %d scripts, want %d", s, n, scripts)
		}
	})
}

// script is an element of a script, with its attributes and its text.
var script = regexp.MustCompile(`(?s)<script([^>]*)>(.*?)</script>`)

// ourBlock are the attributes of a block of data.
var ourBlock = regexp.MustCompile(`^ type="application/json" id="(grid-data|cells-\d+)"( data-packed)?$`)

// checkScripts counts the scripts of a page: blocks of data in ASCII, and at the end the one that the policy of the page allows.
func checkScripts(t *testing.T, page []byte) int {
	t.Helper()
	found := script.FindAllStringSubmatch(string(page), -1)
	lower := strings.ToLower(string(page))
	if n := strings.Count(lower, "<script"); n != len(found) || n == 0 || n != strings.Count(lower, "</script") {
		t.Fatalf("%d scripts begin, %d end, %d are whole", n, strings.Count(lower, "</script"), len(found))
	}
	for _, s := range found[:len(found)-1] {
		if !ourBlock.MatchString(s[1]) {
			t.Errorf("a script that is not ours: <script%s>", s[1])
		}
		if i := strings.IndexFunc(s[2], func(r rune) bool { return r < ' ' && r != '\n' || r >= 0x7f }); i >= 0 {
			t.Errorf("<script%s> holds %q", s[1], s[2][i:min(len(s[2]), i+8)])
		}
	}
	last := found[len(found)-1]
	if last[1] != "" || last[2] != pageJS {
		t.Errorf("the last script is not that of the page: <script%s>", last[1])
	}
	if policy := "script-src " + hashOf(last[2]) + ";"; !strings.Contains(html.UnescapeString(string(page)), policy) {
		t.Errorf("the page does not allow its own script alone: %s", policy)
	}
	return len(found)
}
