package diffscope

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The bounds that docs/diff-scope.md names.
const (
	maxLexed     = 256 << 10
	maxLexedLine = 10_000
)

// changeOf measures one path; a content that starts with "-> " is a link, and noFile says that there is no such path.
func changeOf(t testing.TB, name, old, new string) *change {
	t.Helper()
	side := func(content string) *entry {
		if content == noFile {
			return nil
		}
		e := &entry{path: name, mode: filemode.Regular}
		if target, isLink := strings.CutPrefix(content, "-> "); isLink {
			e.mode, content = filemode.Symlink, target
		}
		e.size, e.blob = int64(len(content)), &blob{text: content}
		return e
	}
	c := &change{path: name, old: side(old), new: side(new)}
	must(t, c.measure())
	return c
}

const noFile = "noFile"

func TestWhitespaceLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old, new         string
		changed, ignored int
	}{
		"indented":                    {"a\nb\nc\n", "a\n\tb\nc\n", 2, 2},
		"blanks inside":               {"a = b\n", "a=b\n", 2, 2},
		"trailing blanks":             {"a\n", "a  \t\n", 2, 2},
		"CRLF":                        {"a\nb\n", "a\r\nb\r\n", 4, 4},
		"form feed and vertical tab":  {"a\n", "\fa\v\n", 2, 2},
		"final line feed":             {"a", "a\n", 2, 2},
		"blank lines in":              {"a\nb\n", "a\n\n \nb\n", 2, 2},
		"blank lines out":             {"a\n\n\nb\n", "a\nb\n", 2, 2},
		"another word":                {"a\nb\n", "a\nc\n", 2, 0},
		"another word and a blank":    {"a\nb\n", "a \nc\n", 4, 2},
		"a line split in two":         {"a b\n", "a\nb\n", 3, 0},
		"a blank that is not one":     {"a\n", "\u00a0a\n", 2, 0},
		"bad UTF-8":                   {"\xfea\n", "\xffa\n", 2, 0},
		"bad UTF-8 and a blank":       {"\xfea\n", " \xfea\n", 2, 2},
		"created":                     {noFile, "a\n\n  \nb\n", 4, 2},
		"created with only blanks":    {noFile, "\n\n \n", 3, 3},
		"created empty":               {noFile, "", 0, 0},
		"deleted":                     {"a\n\nb", noFile, 3, 1},
		"emptied":                     {"a\n\n", "", 2, 1},
		"binary":                      {"a\x00", "a \x00", 0, 0},
		"link elsewhere":              {"-> a", "-> b", 2, 0},
		"file to link":                {"a\n\n", "-> a", 3, 0},
		"wrapped in an if, unchanged": {"a()\nb()\n", "if c {\n\ta()\n\tb()\n}\n", 6, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row := changeOf(t, "a.txt", c.old, c.new)
			if changed := *row.row.LinesAdded + *row.row.LinesRemoved; changed != c.changed {
				t.Errorf("%d lines changed, want %d", changed, c.changed)
			}
			got, err := row.whitespaceLines()
			must(t, err)
			if got == nil || *got != c.ignored {
				t.Errorf("whitespace lines %v, want %d", deref(got), c.ignored)
			}
		})
	}
}

func deref(n *int) any {
	if n == nil {
		return nil
	}
	return *n
}

func TestWhitespaceLinesUnknown(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]Row{
		"uncounted":   {Uncounted: tooLarge},
		"approximate": {Approximate: true},
	} {
		if got, err := (&change{row: row}).whitespaceLines(); got != nil || err != nil {
			t.Errorf("%s: %v, %v", name, deref(got), err)
		}
	}
	long := strings.Repeat("x\n", maxSearchedAgain/2)
	for content, known := range map[string]bool{long: true, long + "y\n": false} {
		c := changeOf(t, "a.txt", long, " "+content)
		if got, err := c.whitespaceLines(); (got != nil) != known || err != nil {
			t.Errorf("%d lines: %v, %v", maxSearchedAgain/2+strings.Count(content, "\n"), deref(got), err)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	shuffled := func() string {
		words := slices.Repeat([]string{"a \n", " b\n", "c\n"}, 1000)
		random.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		return strings.Join(words, "")
	}
	if _, exact := changedBesideBlanks(shuffled(), shuffled(), 1000); exact {
		t.Error("a count that was cut short is exact")
	}
}

// TestWhitespaceLaws: it is never more than what changed, all of it when nothing else did, and the same in both directions.
func TestWhitespaceLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.StringMatching(`([ab \t]{0,3}\n){0,8}[ab ]{0,2}`)
		old, new := text.Draw(r, "old"), text.Draw(r, "new")
		forth, back := changeOf(t, "a", old, new), changeOf(t, "a", new, old)
		ignored, err := forth.whitespaceLines()
		must(t, err)
		reverse, err := back.whitespaceLines()
		must(t, err)
		changed := *forth.row.LinesAdded + *forth.row.LinesRemoved
		if *ignored > changed || *ignored < 0 || *ignored != *reverse {
			r.Errorf("%d of %d lines, %d in the other direction", *ignored, changed, *reverse)
		}
		same := slices.Equal(withoutBlanks(old), withoutBlanks(new))
		if same && *ignored != changed || !same && *ignored == changed {
			r.Errorf("%d of %d lines; equal beside blanks: %v", *ignored, changed, same)
		}
	})
}

func TestCommentLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, old, new string
		language       string
		lines          any
	}{
		"added":             {"a.go", "package a\n", "// A is one.\n\npackage a\n", "Go", 1},
		"removed":           {"a.py", "# a\n# b\nx\n", "x\n", "Python", 2},
		"replaced":          {"a.c", "// a\nint x;\n", "// b\nint y;\n", "C", 2},
		"behind code":       {"a.c", "int x;\n", "int x; // a\n", "C", 0},
		"code commented":    {"a.c", "int x;\n", "// int x;\n", "C", 1},
		"block opened":      {"a.c", "a;\nb;\n", "/*\na;\nb;\n", "C", 1},
		"inside of a block": {"a.c", "/*\n a\n*/\n", "/*\n a\n\n b\n*/\n", "C", 1},
		"in a string":       {"a.py", "x = '''\n'''\n", "x = '''\n# a\n'''\n", "Python", 0},
		"docstring":         {"a.py", "def f():\n  pass\n", "def f():\n  \"\"\"A.\"\"\"\n  pass\n", "Python", 0},
		"created":           {"a.py", noFile, "# a\n\nx\n# b", "Python", 2},
		"deleted":           {"a.py", "# a\nx\n", noFile, "Python", 1},
		"created empty":     {"a.py", noFile, "", "Python", 0},
		"JSON":              {"a.json", "{}\n", "{\"a\": 1}\n", "JSON", 0},
		"prose":             {"a.md", "a\n", "<!-- b -->\n", "", nil},
		"unknown":           {"a", "# a\n", "# b\n", "", nil},
		"binary":            {"a.py", "a\x00", "b\x00", "Python", 0},
		"link":              {"a.py", "-> # a", "-> # b", "", nil},
		"file to link":      {"a.py", "# a\n", "-> # a", "", nil},
		"CRLF":              {"a.py", "# a\nx\n", "# a\r\nx\r\n", "Python", 2},
		"too large before":  {"a.py", strings.Repeat("x\n", maxLexed/2+1), "# a\n", "Python", nil},
		"too large after":   {"a.py", "# a\n", strings.Repeat("x\n", maxLexed/2+1), "Python", nil},
		"large, not needed": {"a.py", strings.Repeat("x\n", maxLexed/2), strings.Repeat("x\n", maxLexed/2) + "# a\n", "Python", nil},
		"a line too long":   {"a.js", "a\n", strings.Repeat("x", maxLexedLine+1), "JavaScript", nil},
		"a mark in front":   {"a.py", "# a\n", "\ufeff# a\n", "Python", 2},
		"removed at last":   {"a.py", "# a\nx\ny\n# b\n", "# c\nx\ny\n", "Python", 3},
		"added at last":     {"a.py", "# a\nx\ny\n", "# c\nx\ny\n# b\n", "Python", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			language, lines, err := changeOf(t, c.path, c.old, c.new).commentLines()
			must(t, err)
			if language != c.language || deref(lines) != c.lines {
				t.Errorf("%q, %v; want %q, %v", language, deref(lines), c.language, c.lines)
			}
		})
	}
	language, lines, err := (&change{path: "a.py", row: Row{Uncounted: tooLarge}}).commentLines()
	if language != "Python" || lines != nil || err != nil {
		t.Errorf("uncounted: %q, %v, %v", language, deref(lines), err)
	}
}

// TestChurnFacts goes through Inspect: whether what is here reaches the facts of a change.
func TestChurnFacts(t *testing.T) {
	t.Parallel()
	before := folder{"a.go": "package a\nvar x int\n", "b.txt": "b\n", "sub/c.py": "x=1\n"}.tree(t)
	after := folder{"a.go": "package a\n\n// X is one.\nvar  x int\n", "b.txt": "c\n", "sub/c.py": "x = 1\n"}.tree(t)
	patch, _ := compare(t, before, after, Paths{})
	facts, err := Inspect(t.Context(), before, after, patch)
	must(t, err)
	want := Churn{WhitespaceLines: 5, EffectiveLines: 3, CommentLines: 1, UnlexedLines: 2}
	if diff := cmp.Diff(want, facts.Churn); diff != "" {
		t.Errorf("churn (-want +got):\n%s", diff)
	}
}

// FuzzCommentLines gives foreign text to every language, on both sides of a change.
func FuzzCommentLines(f *testing.F) {
	names := strings.Fields(`
		a.awk a.sh a.c a.cs a.cpp CMakeLists.txt a.css a.clj a.dart Dockerfile a.ex a.elm a.erl a.fs a.go a.graphql a.gradle
		a.hcl a.html a.hs a.ini a.json a.java a.js a.jsx a.jl a.kt a.lua Makefile a.nix a.ml a.m a.php a.pl a.ps1 a.properties
		a.proto a.py a.R a.rb a.rs a.scss a.sql a.scala a.swift a.toml a.ts a.xml a.yaml a.zig`)
	for i := range names {
		f.Add(i, "a\n# b\nc\n", "# a\n// b\n-- c\n/* d\n\n*/ e\n")
	}
	f.Add(0, "a\n# b\n\xff", "# b\r\n\n \x00/* a")
	f.Fuzz(func(t *testing.T, which int, old, new string) {
		if len(old)+len(new) > 10_000 {
			return
		}
		c := changeOf(t, names[((which%len(names))+len(names))%len(names)], old, new)
		language, lines, err := c.commentLines()
		must(t, err)
		if language == "" {
			t.Errorf("%s has no language", c.path)
		}
		if changed := *c.row.LinesAdded + *c.row.LinesRemoved; lines != nil && *lines > changed {
			t.Errorf("%s: %d comment lines of %d changed", language, *lines, changed)
		}
	})
}

// TestLexingIsBounded: what comes after the bound on all files of a change is not lexed, and said to be so.
func TestLexingIsBounded(t *testing.T) {
	t.Parallel()
	line := "# " + strings.Repeat("c", 98) + "\n"
	after := folder{}
	for i := range 12 {
		after[fmt.Sprintf("%02d.yaml", i)] = strings.Repeat(line, (200<<10)/len(line))
	}
	patch, scope, err := Compare(Tree{}, after.tree(t), Paths{})
	if err != nil {
		t.Fatal(err)
	}
	facts, err := Inspect(t.Context(), Tree{}, after.tree(t), patch)
	if err != nil {
		t.Fatal(err)
	}
	if c := facts.Churn; c.CommentLines+c.UnlexedLines != scope.LinesChanged() || c.UnlexedLines == 0 || c.CommentLines == 0 {
		t.Errorf("%+v of %d lines", c, scope.LinesChanged())
	}
	if last := facts.Files[11]; last.CommentLines != nil || last.Language != "" {
		t.Errorf("the last file is past the bound: %+v", last)
	}
}
