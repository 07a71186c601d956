// Package lexers tells which lines of a text hold comments and nothing else, in some fifty languages. [For] finds the language
// of a file by its name, and [Language.CommentOnly] reads the text:
//
//	only, err := lexers.For("a.py").CommentOnly("# one\nx = 1 # two\n", 2) // [true false]
//
// A comment is what the language's lexer calls one: a docstring of Python is a string, and a preprocessor line is code. The
// lexers are patterns in files beside this one (see README.md), read when a language is first met; Go is read by Go's own
// scanner. Texts are foreign: what is too large, or takes too long, is not known.
package lexers

import (
	"embed"
	"fmt"
	"go/scanner"
	"go/token"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/chroma/v2"
)

// What is lexed of one side of a file. Beyond any of these nothing is known of its comments. The lexers match backtracking
// patterns, so their time depends on what an agent wrote: from 0.07 to 6 MB a second for what people write.
const (
	maxLexed     = 256 << 10              // bytes
	maxLexedLine = 10_000                 // bytes of a line
	maxLexing    = 5 * time.Second        // for the text, looked at after each token
	maxToken     = 250 * time.Millisecond // for a token. A lexer gives up a pattern after that time without saying so
)

// A Language is one whose comments can be told from its code.
type Language struct {
	name     string
	patterns []string // globs of file names; no file name is in two languages
	lexers   []string // files: the lexer, and those that it hands parts of a text to. None: see goLines
	docs     bool     // what the lexer calls a documentation string is a comment
}

// languages are sorted by name. Prose such as Markdown or plain text is not among them: it has no code to tell from comments.
var languages = []Language{
	{name: "Awk", patterns: []string{"*.awk"}, lexers: []string{"awk.xml"}},
	{name: "Bash", patterns: []string{"*.bash", "*.ksh", "*.sh", "*.zsh", ".bash_*", ".bashrc", ".env", ".env.*", ".zshrc"},
		lexers: []string{"bash.xml"}},
	{name: "C", patterns: []string{"*.c", "*.h"}, lexers: []string{"c.xml"}},
	{name: "C#", patterns: []string{"*.cs"}, lexers: []string{"c#.xml"}},
	{name: "C++", patterns: []string{"*.C", "*.H", "*.c++", "*.cc", "*.cpp", "*.cxx", "*.h++", "*.hh", "*.hpp", "*.hxx", "*.tpp"},
		lexers: []string{"c++.xml"}},
	{name: "CMake", patterns: []string{"*.cmake", "CMakeLists.txt"}, lexers: []string{"cmake.xml"}},
	{name: "CSS", patterns: []string{"*.css"}, lexers: []string{"css.xml"}},
	{name: "Clojure", patterns: []string{"*.clj", "*.edn"}, lexers: []string{"clojure.xml"}},
	{name: "Dart", patterns: []string{"*.dart"}, lexers: []string{"dart.xml"}},
	{name: "Dockerfile", patterns: []string{"*.Dockerfile", "Containerfile", "Containerfile.*", "Dockerfile", "Dockerfile.*"},
		lexers: []string{"docker.xml", "bash.xml", "json.xml"}},
	{name: "Elixir", patterns: []string{"*.ex", "*.exs"}, lexers: []string{"elixir.xml"}},
	{name: "Elm", patterns: []string{"*.elm"}, lexers: []string{"elm.xml"}},
	{name: "Erlang", patterns: []string{"*.erl", "*.escript", "*.hrl"}, lexers: []string{"erlang.xml"}},
	{name: "F#", patterns: []string{"*.fs", "*.fsi"}, lexers: []string{"fsharp.xml"}, docs: true},
	{name: "Go", patterns: []string{"*.go"}},
	{name: "GraphQL", patterns: []string{"*.graphql", "*.graphqls"}, lexers: []string{"graphql.xml"}},
	{name: "Groovy", patterns: []string{"*.gradle", "*.groovy"}, lexers: []string{"groovy.xml"}},
	{name: "HCL", patterns: []string{"*.hcl", "*.tf"}, lexers: []string{"terraform.xml"}},
	{name: "HTML", patterns: []string{"*.htm", "*.html", "*.xhtml"}, lexers: []string{"html.xml", "css.xml", "javascript.xml"}},
	{name: "Haskell", patterns: []string{"*.hs"}, lexers: []string{"haskell.xml"}},
	{name: "INI", patterns: []string{"*.cfg", "*.ini", "*.service", "*.socket", ".editorconfig", ".gitconfig", ".pylintrc", "pylintrc"},
		lexers: []string{"ini.xml"}},
	{name: "JSON", patterns: []string{"*.json", "*.json5", "*.jsonc", "*.jsonl"}, lexers: []string{"json.xml"}},
	{name: "Java", patterns: []string{"*.java"}, lexers: []string{"java.xml"}},
	{name: "JavaScript", patterns: []string{"*.cjs", "*.js", "*.jsm", "*.mjs"}, lexers: []string{"javascript.xml"}},
	{name: "JavaScript", patterns: []string{"*.jsx"}, lexers: []string{"react.xml"}},
	{name: "Julia", patterns: []string{"*.jl"}, lexers: []string{"julia.xml"}},
	{name: "Kotlin", patterns: []string{"*.kt", "*.kts"}, lexers: []string{"kotlin.xml"}},
	{name: "Lua", patterns: []string{"*.lua", "*.wlua"}, lexers: []string{"lua.xml"}},
	{name: "Makefile", patterns: []string{"*.mak", "*.mk", "GNUmakefile", "Makefile", "Makefile.*", "makefile"},
		lexers: []string{"makefile.xml", "bash.xml"}},
	{name: "Nix", patterns: []string{"*.nix"}, lexers: []string{"nix.xml"}},
	{name: "OCaml", patterns: []string{"*.ml", "*.mli"}, lexers: []string{"ocaml.xml"}},
	{name: "Objective-C", patterns: []string{"*.m"}, lexers: []string{"objective-c.xml"}},
	{name: "PHP", patterns: []string{"*.php"}, lexers: []string{"php.xml"}, docs: true},
	{name: "Perl", patterns: []string{"*.pl", "*.pm", "*.t"}, lexers: []string{"perl.xml"}},
	{name: "PowerShell", patterns: []string{"*.ps1", "*.psd1", "*.psm1"}, lexers: []string{"powershell.xml"}, docs: true},
	{name: "Properties", patterns: []string{"*.properties"}, lexers: []string{"properties.xml"}},
	{name: "Protocol Buffer", patterns: []string{"*.proto"}, lexers: []string{"protocol_buffer.xml"}},
	{name: "Python", patterns: []string{"*.bzl", "*.py", "*.pyi", "*.pyw", "*.star", "BUILD", "BUILD.bazel", "MODULE.bazel", "SConscript",
		"SConstruct", "WORKSPACE", "WORKSPACE.bazel"}, lexers: []string{"python.xml"}},
	{name: "R", patterns: []string{"*.R", "*.r", ".Rprofile"}, lexers: []string{"r.xml"}},
	{name: "Ruby", patterns: []string{"*.gemspec", "*.rake", "*.rb", "Gemfile", "Rakefile", "Vagrantfile"}, lexers: []string{"ruby.xml"}},
	{name: "Rust", patterns: []string{"*.rs"}, lexers: []string{"rust.xml"}, docs: true},
	{name: "SCSS", patterns: []string{"*.scss"}, lexers: []string{"scss.xml"}},
	{name: "SQL", patterns: []string{"*.sql"}, lexers: []string{"sql.xml"}},
	{name: "Scala", patterns: []string{"*.scala"}, lexers: []string{"scala.xml"}},
	{name: "Swift", patterns: []string{"*.swift"}, lexers: []string{"swift.xml"}},
	{name: "TOML", patterns: []string{"*.toml", "Pipfile"}, lexers: []string{"toml.xml"}},
	{name: "TypeScript", patterns: []string{"*.cts", "*.mts", "*.ts", "*.tsx"}, lexers: []string{"typescript.xml"}},
	{name: "XML", patterns: []string{"*.csproj", "*.fsproj", "*.svg", "*.vcxproj", "*.wsdl", "*.xml", "*.xsd", "*.xsl", "*.xslt"},
		lexers: []string{"xml.xml"}},
	{name: "YAML", patterns: []string{"*.yaml", "*.yml"}, lexers: []string{"yaml.xml"}},
	{name: "Zig", patterns: []string{"*.zig", "*.zon"}, lexers: []string{"zig.xml"}},
}

// For returns the language of a path by its file name, or nil.
func For(name string) *Language {
	name = path.Base(name)
	for i := range languages {
		for _, pattern := range languages[i].patterns {
			if matched, _ := path.Match(pattern, name); matched {
				return &languages[i]
			}
		}
	}
	return nil
}

// Name is what people call the language. Several rows of the table may share one.
func (l *Language) Name() string { return l.name }

// CommentOnly tells of each of the first n lines of a text, which has at least n, whether it holds comments and, beside
// blanks, nothing else. It is nil when that is not known: the text is larger than 256 KiB, has a line above 10,000 bytes, or
// was not read within 5 seconds. The error is for a lexer of ours that is broken.
func (l *Language) CommentOnly(text string, n int) (lines []bool, err error) {
	if !isLexable(text) {
		return nil, nil
	}
	defer func() { // a fault of the libraries must not end the measuring of all other files
		if recover() != nil {
			lines, err = nil, nil
		}
	}()
	return l.markLines(plainText(text), n)
}

func isLexable(text string) bool {
	if len(text) > maxLexed {
		return false
	}
	for line := range strings.Lines(text) {
		if len(line) > maxLexedLine {
			return false
		}
	}
	return true
}

// plainText writes a text as lexers expect it, with the same lines: UTF-8 without a mark at the start, every line with a line
// feed and no carriage return before it.
func plainText(text string) string {
	if text != "" && text[len(text)-1] != '\n' {
		text += "\n"
	}
	text = strings.TrimPrefix(text, "\ufeff")
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\r\n", "\n")
}

// markLines is CommentOnly for a plain text.
func (l *Language) markLines(text string, n int) ([]bool, error) {
	if len(l.lexers) == 0 {
		return goLines(text)[:n], nil
	}
	lexer, err := l.lexer()
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(maxLexing); ; {
		next, err := lexer.Tokenise(&chroma.TokeniseOptions{State: "root"}, text)
		if err != nil {
			return nil, fmt.Errorf("lexer of %s: %w", l.name, err)
		}
		m := lineMarks{lines: make([]bool, 0, n)}
		ok, slow := m.mark(text, n, next, l.isComment, deadline)
		if ok {
			return m.lines[:n], nil
		}
		if !slow {
			return nil, nil
		}
	}
}

// isComment tells whether a kind of token is a comment. What a preprocessor reads is code, though lexers call it a comment.
func (l *Language) isComment(t chroma.TokenType) bool {
	if t == chroma.LiteralStringDoc {
		return l.docs
	}
	return t.InCategory(chroma.Comment) && t != chroma.CommentPreproc && t != chroma.CommentPreprocFile
}

// lineMarks collects the lines of a text, part by part.
type lineMarks struct {
	lines            []bool // of each line that ended: whether it holds comments only
	hasComment, code bool   // of the line that did not end
}

// add appends a part of the text that is a comment as a whole, or not at all.
func (m *lineMarks) add(part string, isComment bool) {
	for i := range len(part) {
		switch {
		case part[i] == '\n':
			m.lines = append(m.lines, m.hasComment && !m.code)
			m.hasComment, m.code = false, false
		case isBlank(part[i]):
		case isComment:
			m.hasComment = true
		default:
			m.code = true
		}
	}
}

// isBlank tells whether a byte is a space, tab, line feed, vertical tab, form feed or carriage return.
func isBlank(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// mark adds the tokens of the first n lines of a text. It is not ok when the tokens are not the text again or the time is
// over, nor when a token took so long that it may be a wrong one. That is slow: a busy machine may be to blame, not the text.
func (m *lineMarks) mark(
	text string, n int, next chroma.Iterator, isComment func(chroma.TokenType) bool, deadline time.Time,
) (ok, slow bool) {
	for last := time.Now(); len(m.lines) < n; {
		t := next()
		now := time.Now()
		switch {
		case now.After(deadline):
			return false, false
		case now.Sub(last) >= maxToken:
			return false, true
		case t == chroma.EOF || !strings.HasPrefix(text, t.Value):
			return false, false
		}
		last = now
		text = text[len(t.Value):]
		m.add(t.Value, isComment(t.Type))
	}
	return true, false
}

// goLines is CommentOnly for all lines of a Go text. The literals of the scanner lack carriage returns, so only the places
// where comments start are taken from it.
func goLines(text string) []bool {
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, scanner.ScanComments)
	var m lineMarks
	done := 0
	for {
		pos, tok, _ := s.Scan()
		if tok == token.EOF {
			m.add(text[done:], false)
			return m.lines
		}
		if tok == token.COMMENT {
			start := file.Offset(pos)
			m.add(text[done:start], false)
			done = start + goComment(text[start:])
			m.add(text[start:done], true)
		}
	}
}

// goComment returns the length of the comment that a text starts with.
func goComment(text string) int {
	end := "\n"
	if strings.HasPrefix(text, "/*") {
		end = "*/"
	}
	i := strings.Index(text[2:], end)
	if i < 0 {
		return len(text)
	}
	return 2 + i + len(end)
}

//go:embed *.xml
var lexerFiles embed.FS

// opened holds lexers by language. Opening one takes milliseconds, so none is opened before it is needed.
var opened sync.Map

// lexer returns the lexer of a language that has files.
func (l *Language) lexer() (chroma.Lexer, error) {
	open, _ := opened.LoadOrStore(l, sync.OnceValues(l.open))
	return open.(func() (chroma.Lexer, error))()
}

// open reads the files. Each language has lexers of its own for the parts that are written in another one.
func (l *Language) open() (chroma.Lexer, error) {
	var first *chroma.RegexLexer
	together := chroma.NewLexerRegistry()
	for _, name := range slices.Backward(l.lexers) {
		var err error
		if first, err = chroma.NewXMLLexer(lexerFiles, name); err != nil {
			return nil, fmt.Errorf("lexer of %s: %w", l.name, err)
		}
		together.Register(first)
	}
	if l.name == "PHP" {
		return phpInText(first)
	}
	return first, nil
}

// phpInText makes a lexer for PHP files of the one for PHP: what stands outside of <?php and ?> is no code of PHP, and
// nothing that could be a comment of it.
func phpInText(php *chroma.RegexLexer) (chroma.Lexer, error) {
	inside, err := php.Rules()
	if err != nil {
		return nil, fmt.Errorf("lexer of PHP: %w", err)
	}
	rules := inside.Rename("root", "php").Merge(chroma.Rules{"root": {
		{Pattern: `<\?(?:php\b|=)?`, Type: chroma.CommentPreproc, Mutator: chroma.Push("php")},
		{Pattern: `[^<]+|<`, Type: chroma.Other},
	}})
	return chroma.NewLexer(php.Config(), func() chroma.Rules { return rules })
}
