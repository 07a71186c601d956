package lexers

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alecthomas/chroma/v2"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "copy the lexers from the module")

// Each line of a sample starts with what it is: "c|" holds comments only, " |" does not.
var samples = map[string]string{
	"a.awk": `
c|# one
 |BEGIN { x = "# no" } # behind
c|  # two
`,
	"a.sh": `
 |#!/bin/sh
c|# one
 |echo "# no" # behind
 |cat <<END
 |# text
 |END
c|	# two
 |echo ${#x} a#b
`,
	"a.c": `
 |#include <stdio.h>
c|// one
c|/* two
 |
c|   three */
 |char *s = "// no /* no"; // behind
 |int /* inside */ x;
c|/* a */ /* b */
 |#define X 1
`,
	"a.cs": `
c|// one
c|/// <summary>two</summary>
c|/* three
c| * four */
 |var s = "// no"; // behind
 |var t = @"/* no";
 |#region x
`,
	"a.cpp": `
c|// one
c|/* two
c|   three */
 |auto s = "// no"; // behind
 |#pragma once
`,
	"CMakeLists.txt": `
c|# one
 |set(x "# no") # behind
c|  # two
`,
	"a.css": `
c|/* one
c|   two */
 |a { content: "/* no */"; } /* behind */
 |a { color: red }
`,
	"a.clj": `
c|; one
c|;; two
 |(def s "; no") ; behind
`,
	"a.dart": `
c|// one
c|/// two
c|/* three
c|   four */
 |var s = '// no'; // behind
`,
	"Dockerfile": `
c|# one
 |FROM a
 |RUN echo "# no"
 |CMD ["a", "# no"]
c|# two
 |ENV A=b
`,
	"a.ex": `
c|# one
 |s = "# no" # behind
 |t = "a #{x}"
c|  # two
`,
	"a.elm": `
c|-- one
c|{- two
c|   three -}
 |s = "-- no" -- behind
`,
	"a.erl": `
c|% one
c|%% two
 |f() -> "% no". % behind
`,
	"a.fs": `
c|// one
c|/// two
c|(* three
c|   four *)
 |let s = "// no (*" // behind
`,
	"a.go": `
c|// one
 |package a
c|/* two
 |
c|   three */
 |var s = "// no" // behind
 |var t = ` + "`" + `
 |// no
 |/* no ` + "`" + `
 |var r = '/' /* inside */
c|/* a */ // b
`,
	"a.graphql": `
c|# one
 |type A { b: Int } # behind
 |query { a(s: "# no") }
c|  # two
`,
	"a.gradle": `
c|// one
c|/* two
c|   three */
 |def s = "// no" // behind
`,
	"a.hcl": `
c|# one
c|// two
c|/* three
c|   four */
 |a = "# no" # behind
`,
	"a.html": `
 |<!DOCTYPE html>
c|<!-- one
c|     two -->
 |<p title="<!-- no">text // no</p> <!-- behind -->
 |<script>
c|  // three
 |  var s = "// no";
 |</script>
 |<style>
c|  /* four */
 |</style>
`,
	"a.hs": `
 |module A where
c|-- one
c|{- two
c|   three -}
 |s = "-- no" -- behind
`,
	"a.ini": `
c|; one
c|# two
 |[a]
 |b = "; no"
`,
	"a.json": `
 |{
 |  "a": "// no",
 |  "b": [1, null]
 |}
`,
	"a.jsonc": `
 |{
c|  // one
c|  // two
 |  "a": "// no" // behind
 |}
`,
	"a.java": `
c|// one
c|/** two
c| *  three
c| */
 |String s = "// no"; // behind
 |@Test void f() {}
`,
	"a.js": `
c|// one
c|/* two
c|   three */
 |const s = "// no"; // behind
 |const r = /\/\*/g;
 |const t = ` + "`" + `
 |// no
 |` + "`" + `;
`,
	"a.jsx": `
c|// one
c|/* two
c|   three */
 |const s = "// no"; // behind
 |const e = <a href="//no">text</a>;
`,
	"a.jl": `
c|# one
c|#= two
c|   three =#
 |s = "# no" # behind
`,
	"a.kt": `
c|// one
c|/* two
c|   three */
 |val s = "// no" // behind
`,
	"a.lua": `
c|-- one
c|--[[ two
c|     three ]]
 |local s = "-- no" -- behind
`,
	"Makefile": `
c|# one
 |A = b # behind
 |all: a
 |	echo "# no"
 |
c|# two
`,
	"a.nix": `
c|# one
c|/* two
c|   three */
 |{ s = "# no"; } # behind
`,
	"a.ml": `
c|(* one
c|   two *)
 |let s = "(* no" (* behind *)
`,
	"a.m": `
 |#import "a.h"
c|// one
c|/* two
c|   three */
 |NSString *s = @"// no"; // behind
`,
	"a.php": `
 |<p>It's // no</p>
 |<?php
c|// one
c|# two
c|/** three
c| *  four
c| */
 |$s = "// no"; // behind
 |?>
 |<p>// no # no</p>
 |<?= $s ?>
`,
	"a.pl": `
c|# one
 |my $s = "# no"; # behind
c|=pod
 |
c|two
 |
c|=cut
 |my $n = $#list;
`,
	"a.ps1": `
c|# one
c|<# two
c|   .SYNOPSIS
c|   three #>
 |$s = "# no" # behind
`,
	"a.properties": `
c|# one
c|! two
 |a = b # no
`,
	"a.proto": `
c|// one
c|/* two
c|   three */
 |string s = 1 [default = "// no"]; // behind
`,
	"a.py": `
c|# one
 |s = "# no"  # behind
 |def f():
 |    """A docstring.
 |
 |    # no
 |    """
c|    # two
 |t = '''
 |# no
 |'''
`,
	"a.R": `
c|# one
 |s <- "# no" # behind
c|#' two
`,
	"a.rb": `
c|# one
 |s = "# no #{x}" # behind
c|=begin
c|two
c|=end
`,
	"a.rs": `
c|//! zero
c|// one
c|/// two
c|/* three /* four */
c|   five */
 |#[derive(Debug)]
 |let s = "// no"; // behind
`,
	"a.scss": `
c|// one
c|/* two
c|   three */
 |$s: "// no"; // behind
 |a { color: red; }
`,
	"a.sql": `
c|-- one
c|/* two
c|   three */
 |select '-- no', 1; -- behind
`,
	"a.scala": `
c|// one
c|/* two
c|   three */
 |val s = "// no" // behind
`,
	"a.swift": `
c|// one
c|/* two
c|   three */
 |let s = "// no" // behind
`,
	"a.toml": `
c|# one
 |[a]
 |b = "# no" # behind
`,
	"a.tf": `
c|# one
c|// two
c|/* three
c|   four */
 |a = "# no" # behind
`,
	"a.ts": `
c|// one
c|/* two
c|   three */
 |const s: string = "// no"; // behind
 |const t = ` + "`" + `
 |// no
 |` + "`" + `;
`,
	"a.xml": `
 |<?xml version="1.0"?>
c|<!-- one
c|     two -->
 |<a b="no">text</a> <!-- behind -->
 |<![CDATA[ <!-- no --> ]]>
`,
	"a.yaml": `
c|# one
 |a: "# no" # behind
 |b: a#b
 |c: |
 |  text
c|# two
`,
	"a.zig": `
c|// one
c|/// two
 |const s = "// no"; // behind
`,
}

func TestCommentOnly(t *testing.T) {
	t.Parallel()
	seen := map[*Language]bool{}
	for name, sample := range samples {
		text, want := parseSample(t, sample)
		l := For(name)
		if l == nil {
			t.Fatalf("%s has no language", name)
		}
		seen[l] = true
		for variant, text := range map[string]string{
			"as it is":             text,
			"with CRLF":            strings.ReplaceAll(text, "\n", "\r\n"),
			"without a final LF":   strings.TrimSuffix(text, "\n"),
			"with a mark in front": "\ufeff" + text,
			"with bad UTF-8":       strings.ReplaceAll(text, "two", "tw\xf6\xff"),
		} {
			t.Run(name+" "+variant, func(t *testing.T) {
				t.Parallel()
				got, err := l.CommentOnly(text, len(want))
				must(t, err)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("which lines hold comments only (-want +got):\n%s", diff)
				}
			})
		}
	}
	for i := range languages {
		if l := &languages[i]; !seen[l] {
			t.Errorf("%s %v has no sample", l.name, l.lexers)
		}
	}
}

// parseSample returns the text of a sample, and which of its lines hold comments only.
func parseSample(t testing.TB, sample string) (text string, comments []bool) {
	t.Helper()
	for line := range strings.Lines(strings.TrimPrefix(sample, "\n")) {
		mark, rest, ok := strings.Cut(line, "|")
		if !ok || mark != "c" && mark != " " {
			t.Fatalf("the line %q of a sample has no mark", line)
		}
		text += rest
		comments = append(comments, mark == "c")
	}
	return text, comments
}

func TestCommentOnlyOfFewLines(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a.go", "a.c"} {
		got, err := For(name).CommentOnly("/* one\ntwo */\nx\n// three\n", 2)
		must(t, err)
		if !slices.Equal(got, []bool{true, true}) {
			t.Errorf("%s: %v for the first two lines", name, got)
		}
	}
}

func TestCommentOnlyBounds(t *testing.T) {
	t.Parallel()
	line := "# " + strings.Repeat("x", 97) + "\n"
	for name, c := range map[string]struct {
		text  string
		known bool
	}{
		"the largest text":    {strings.Repeat(line, maxLexed/len(line)), true},
		"a larger text":       {strings.Repeat(line, maxLexed/len(line)+1), false},
		"the longest line":    {"#" + strings.Repeat("x", maxLexedLine-2) + "\n", true},
		"a longer line":       {"#" + strings.Repeat("x", maxLexedLine-1) + "\n", false},
		"only a mark":         {"\ufeff", true},
		"carriage returns":    {"# a\r# b\r", true},
		"a NUL":               {"# a\x00\n", true},
		"a comment that ends": {"#", true},
	} {
		for _, file := range []string{"a.toml", "a.go"} {
			got, err := For(file).CommentOnly(c.text, countLines(c.text))
			must(t, err)
			if (got != nil) != c.known || c.known && len(got) != countLines(c.text) {
				t.Errorf("%s as %s: known %v with %d lines, want %v", name, file, got != nil, len(got), c.known)
			}
		}
	}
}

// A lexer that panics, here since it hands text to one that is not there, leaves the comments unknown.
func TestCommentOnlyOutlivesPanic(t *testing.T) {
	t.Parallel()
	l := &Language{name: "Makefile", lexers: []string{"makefile.xml"}}
	if got, err := l.CommentOnly("# one\nall:\n\techo\n", 3); got != nil || err != nil {
		t.Errorf("%v, %v for a lexer that panics", got, err)
	}
}

func TestCommentOnlyOfBrokenLexer(t *testing.T) {
	t.Parallel()
	l := &Language{name: "None", lexers: []string{"none.xml"}}
	if got, err := l.CommentOnly("# one\n", 1); got != nil || err == nil || !strings.Contains(err.Error(), "lexer of None") {
		t.Errorf("%v, %v for a lexer that is not there", got, err)
	}
}

func TestMark(t *testing.T) {
	t.Parallel()
	comment := func(text string) chroma.Token { return chroma.Token{Type: chroma.CommentSingle, Value: text} }
	for name, c := range map[string]struct {
		tokens []chroma.Token
		every  time.Duration // how long each token takes
		ok     bool
		slow   bool
	}{
		"whole":            {[]chroma.Token{comment("# a\n"), comment("# b\n")}, 0, true, false},
		"empty tokens":     {[]chroma.Token{comment(""), comment("# a\n# b\n"), comment("")}, 0, true, false},
		"an end too early": {[]chroma.Token{comment("# a\n")}, 0, false, false},
		"another text":     {[]chroma.Token{comment("# a\n"), comment("# c\n")}, 0, false, false},
		"a text too long":  {[]chroma.Token{comment("# a\n# b\n\n")}, 0, false, false},
		"a slow token":     {[]chroma.Token{comment("# a\n"), comment("# b\n")}, maxToken, false, true},
		"many tokens":      {slices.Repeat([]chroma.Token{comment("")}, 100), maxToken / 2, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // its clock stands still but for Sleep
				next := func() chroma.Token {
					time.Sleep(c.every)
					if len(c.tokens) == 0 {
						return chroma.EOF
					}
					token := c.tokens[0]
					c.tokens = c.tokens[1:]
					return token
				}
				var m lineMarks
				ok, slow := m.mark("# a\n# b\n", 2, next, For("a.py").isComment, time.Now().Add(maxLexing))
				if ok != c.ok || slow != c.slow {
					t.Errorf("ok %v, slow %v; want %v, %v", ok, slow, c.ok, c.slow)
				}
				if ok && !slices.Equal(m.lines, []bool{true, true}) {
					t.Errorf("lines %v", m.lines)
				}
			})
		})
	}
}

func TestFor(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"main.go": "Go", "a/b/main.py": "Python", "Makefile": "Makefile", "docker/Dockerfile.dev": "Dockerfile", "a.tsx": "TypeScript",
		"a.jsx": "JavaScript", "a.h": "C", ".env": "Bash", "tsconfig.json": "JSON", "a.tf": "HCL",
		"README.md": "", "notes.txt": "", "a.rst": "", "LICENSE": "", "py": "", "a.py.orig": "", "a.PY": "", "": "", "a.go/b": "",
		"\xff.py": "Python", "a\nb.rs": "Rust", "[.go": "Go",
	} {
		got := ""
		if l := For(name); l != nil {
			got = l.name
		}
		if got != want {
			t.Errorf("the language of %q is %q, want %q", name, got, want)
		}
	}
}

// TestLanguages holds the table to its order, and to the names that the lexers themselves give for their files.
func TestLanguages(t *testing.T) {
	t.Parallel()
	if !slices.IsSortedFunc(languages, func(a, b Language) int { return strings.Compare(a.name, b.name) }) {
		t.Error("the languages are not sorted by name")
	}
	known := map[string]string{}
	used := map[string]bool{}
	for _, l := range languages {
		if !slices.IsSorted(l.patterns) {
			t.Errorf("the patterns of %s are not sorted", l.name)
		}
		for _, pattern := range l.patterns {
			if other, twice := known[pattern]; twice {
				t.Errorf("%s is of %s and of %s", pattern, other, l.name)
			}
			known[pattern] = l.name
			if len(l.lexers) > 0 && !strings.Contains(lexerFile(t, l.lexers[0]), "<filename>"+pattern+"</filename>") {
				t.Errorf("%s does not name %s as one of its files", l.lexers[0], pattern)
			}
		}
		for _, name := range l.lexers {
			used[name] = true
		}
	}
	files, err := lexerFiles.ReadDir(".")
	must(t, err)
	for _, file := range files {
		if !used[file.Name()] {
			t.Errorf("no language uses %s", file.Name())
		}
	}
}

func lexerFile(t testing.TB, name string) string {
	t.Helper()
	data, err := lexerFiles.ReadFile(name)
	must(t, err)
	return string(data)
}

// TestLexersAreWhole looks for what would make a lexer panic in the midst of a text: a state or another lexer that is not there.
func TestLexersAreWhole(t *testing.T) {
	t.Parallel()
	states := regexp.MustCompile(`<state name="([^"]*)"`)
	references := regexp.MustCompile(`<(?:push|include|usingself|combined) state="([^"]*)"`)
	others := regexp.MustCompile(`<using lexer="([^"]*)"`)
	names := regexp.MustCompile(`<(?:name|alias)>([^<]*)<`)
	for _, l := range languages {
		var have []string
		for _, file := range l.lexers {
			for _, m := range names.FindAllStringSubmatch(lexerFile(t, file), -1) {
				have = append(have, strings.ToLower(m[1]))
			}
		}
		for _, file := range l.lexers {
			text := lexerFile(t, file)
			for _, m := range others.FindAllStringSubmatch(text, -1) {
				if !slices.Contains(have, strings.ToLower(m[1])) {
					t.Errorf("%s: %s hands text to %s, which is not in the table's row", l.name, file, m[1])
				}
			}
			defined := []string{"#pop"}
			for _, m := range states.FindAllStringSubmatch(text, -1) {
				defined = append(defined, m[1])
			}
			for _, m := range references.FindAllStringSubmatch(text, -1) {
				if !slices.Contains(defined, m[1]) {
					t.Errorf("%s: %s has no state %s", l.name, file, m[1])
				}
			}
		}
	}
}

// TestLexerFiles compares the copies with the module that they are of, and renews them with -update.
func TestLexerFiles(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/alecthomas/chroma/v2").Output()
	module := strings.TrimSpace(string(out))
	if _, missing := os.Stat(filepath.Join(module, "lexers", "embedded")); err != nil || module == "" || missing != nil {
		t.Skip("needs chroma in the module cache")
	}
	from := map[string]string{"COPYING": "COPYING"}
	for _, l := range languages {
		for _, name := range l.lexers {
			from[name] = filepath.Join("lexers", "embedded", name)
		}
	}
	for name, source := range from {
		want, err := os.ReadFile(filepath.Join(module, source))
		must(t, err)
		if *update {
			must(t, os.WriteFile(name, want, 0o644))
		}
		got, err := os.ReadFile(name)
		must(t, err)
		if string(got) != string(want) {
			t.Errorf("%s is not the one of the module; go test ./internal/diffscope/lexers -run TestLexerFiles -update copies it", name)
		}
	}
}

// FuzzCommentOnly gives foreign text to every lexer. It asks below the place where a panic is caught, so one is found.
func FuzzCommentOnly(f *testing.F) {
	for name, sample := range samples {
		text, _ := parseSample(f, sample)
		f.Add(slices.IndexFunc(languages, func(l Language) bool { return slices.Equal(l.patterns, For(name).patterns) }), text)
	}
	f.Add(0, "a\n# b\n\xff")
	f.Add(0, "# b\r\n\n \x00/* a")
	f.Fuzz(func(t *testing.T, which int, text string) {
		if len(text) > 10_000 {
			return
		}
		l := &languages[((which%len(languages))+len(languages))%len(languages)]
		n := countLines(text)
		if countLines(plainText(text)) != n {
			t.Fatalf("%d lines, %d when plain", n, countLines(plainText(text)))
		}
		marks, err := l.markLines(plainText(text), n)
		must(t, err)
		if marks != nil && len(marks) != n {
			t.Fatalf("%s: %d marks for %d lines", l.name, len(marks), n)
		}
	})
}

func BenchmarkCommentOnly(b *testing.B) {
	for name, body := range map[string]string{
		"a.go": "// Add returns the sum.\nfunc Add(a, b int) int {\n\treturn a + b // as it is\n}\n\n",
		"a.py": "# the sum\ndef add(a, b):\n    \"\"\"Return a sum.\"\"\"\n    return a + b  # as it is\n\n",
	} {
		text := strings.Repeat(body, 100)
		for kind, prepare := range map[string]func(){"first": opened.Clear, "again": func() {}} {
			b.Run(name+" "+kind, func(b *testing.B) {
				for b.Loop() {
					prepare()
					only, err := For(name).CommentOnly(text, 500)
					must(b, err)
					if len(only) != 500 || !only[0] || only[1] {
						b.Fatalf("%v", only)
					}
				}
			})
		}
	}
}

// countLines counts a last line without a line feed, too.
func countLines(text string) int { return len(slices.Collect(strings.Lines(text))) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
