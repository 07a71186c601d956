package report

import (
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
		{"see 0123456789abcdef", "see 0⌇123456789abcdef"},
		{"https://x.example www.x.example a@b.example", "https:⌇//x.example www⌇.x.example a@⌇b.example"},
		{":tada: and $x^2$", ":⌇tada: and &#36;⌇x^2&#36;"},
		{"/eval abc", "/⌇eval abc"},
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
		if diff := cmp.Diff(c.want, visible.Replace(text(c.in, 100))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.in, diff)
		}
	}
	if got := text(strings.Repeat("ä", 50), 10); got != strings.Repeat("ä", 10)+"…" {
		t.Errorf("cut to %q", got)
	}
}

// A mention that GitHub would see in what a browser shows, outside of code.
var mention = regexp.MustCompile(`(^|[^\p{L}\p{N}_])@[\p{L}\p{N}]`)

// problems lists what Markdown made of a page that has none of it by our own hand.
func problems(page []byte) []string {
	var out []string
	md := goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote))
	root := md.Parser().Parse(gmtext.NewReader(page))
	columns := 0
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link, *ast.Image, *ast.AutoLink, *ast.RawHTML, *extast.FootnoteLink, *extast.TaskCheckBox, *extast.Strikethrough:
			out = append(out, n.Kind().String())
		case *ast.HTMLBlock:
			if block := string(n.Lines().Value(page)); !ourHTML.MatchString(block) {
				out = append(out, "HTML "+block)
			}
		case *ast.CodeSpan:
			return ast.WalkSkipChildren, nil
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			out = append(out, n.Kind().String())
		case *extast.Table:
			columns = len(n.Alignments)
		case *extast.TableHeader, *extast.TableRow:
			if n.ChildCount() != columns {
				out = append(out, "a row of another width")
			}
		case *ast.Text:
			if mention.Match(n.Segment.Value(page)) {
				out = append(out, "mention in "+string(n.Segment.Value(page)))
			}
		}
		return ast.WalkContinue, nil
	})
	return out
}

// ourHTML is the only HTML that our pages hold.
var ourHTML = regexp.MustCompile(`^(<!-- assay \{[^>]*\} -->|<details><summary><b>[A-Za-z0-9: ]+</b></summary>|</details>)\s*$`)

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
		{Case: s, Base: bench.Passes{Passed: 3, N: 3}, Head: bench.Passes{N: 3}, Regressed: true},
		{Case: s, Base: bench.Passes{N: 3}, Head: bench.Passes{Passed: 3, N: 3}, Improved: true},
	}
	b.Comparisons = []bench.Comparison{c}
	b.CaseArms = []bench.CaseArm{{Case: s, ArmID: id}}
	no := false
	b.Runs = []bench.Run{{Case: s, Harness: s, Model: s, Condition: s, Trial: 1, Status: "failed", Detail: s, Class: s,
		Expectations: []bench.Expectation{{ID: s, Text: s, Evidence: s, Passed: &no}}, Notes: []string{s}}}
	b.Missing = []bench.Missing{{Case: s, Harness: s, Model: s, Condition: s, Status: s, Class: s, Detail: s}}
	b.DiffScope = bench.ByCondition[[]bench.ScopeRow]{{Condition: s, Value: []bench.ScopeRow{{Case: s, Harness: s, Model: s, Status: "failed"}}}}
	return b
}

// hostile texts that once broke some tool's page.
var hostile = []string{
	"@octocat", "@org/team", "<img src=x onerror=alert(1)>", "m|x", "a\\|b", "\\", "`", "``a`b", "[x](javascript:alert(1))", "![x](http://evil.example/p.png)",
	"http://evil.example", "www.evil.example", "a@b.example", "<http://evil.example>", "</details>", "-->", "<!--", "# h", "1. x", "- [ ] x", "```\ncode", "    code",
	"[^1]", "[x]: http://evil.example", "~~s~~", "&lt;b&gt;", "a\n\nb", "a\r| b |\n|--|", "==", "--", "***", "\u202e@x", "/eval x", "\x00\x1b[31m", "\xff\xfe", "{{.}}", "",
	"ftp://a.b", "mailto:a@b.c", "xmpp:a@b.c", "+ x", "> quote", "<b", "&", "&#x40;x", "\u2028x", "＠x", "https://\u200bx.example", "|", "||", "\\\\|", "`|`", "a`|b",
}

func TestHostileTextIsText(t *testing.T) {
	b := demo(t)
	for _, s := range hostile {
		bad := poison(b, s)
		page, err := Markdown(bad)
		if err != nil {
			t.Fatal(err)
		}
		for name, page := range map[string][]byte{"report.md": page, "comment.md": Comment(bad, CommentBudget)} {
			if p := problems(page); len(p) > 0 {
				t.Errorf("%q in %s makes %v", s, name, p)
			}
		}
	}
}

func FuzzEscape(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, out := range []string{text(s, 200), code(s, 200)} {
			if !utf8.ValidString(out) || strings.ContainsAny(out, "\n\r\x00\x1b|") {
				t.Errorf("%q became %q", s, out)
			}
			page := []byte("before " + out + " after\n\n" + out + "\n\n| a | b |\n| :-- | :-- |\n| " + out + " | x |\n")
			if p := problems(page); len(p) > 0 {
				t.Errorf("%q, written %q, makes %v", s, out, p)
			}
		}
	})
}

// FuzzPages lays one text into every foreign field of a whole benchmark.
func FuzzPages(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	b := demo(f)
	f.Fuzz(func(t *testing.T, s string) {
		bad := poison(b, s)
		if page := Comment(bad, CommentBudget); len(page) > CommentBudget {
			t.Errorf("%d bytes", len(page))
		} else if p := problems(page); len(p) > 0 {
			t.Errorf("%q makes %v of the comment", s, p)
		}
		page, err := HTML(bad)
		if err != nil {
			t.Fatal(err)
		}
		if lower := strings.ToLower(string(page)); strings.Count(lower, "<script") > 0 || strings.Count(lower, "<img") > 0 {
			t.Errorf("%q reached the page as markup", s)
		}
	})
}
