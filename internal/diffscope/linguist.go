package diffscope

import (
	"embed"
	"path"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
)

// linguistFiles are lists of expressions on paths. linguist/README.md says where each comes from.
//
//go:embed linguist/*.txt
var linguistFiles embed.FS

// The rules on paths.
var (
	vendoredPaths  = sync.OnceValue(func() []pathRule { return readPathRules("vendored") })
	generatedPaths = sync.OnceValue(func() []pathRule { return readPathRules("generated") })
	testPaths      = sync.OnceValue(func() []pathRule { return readPathRules("test", "test-more") })
	docsPaths      = sync.OnceValue(func() []pathRule { return readPathRules("documentation") })
)

// A pathRule is an expression on paths. Hardly any path holds its literal, so hardly any expression is ever compiled.
type pathRule struct {
	literal    string // in every path that matches
	expression func() *regexp.Regexp
}

func readPathRules(names ...string) []pathRule {
	var rules []pathRule
	for _, name := range names {
		text, err := linguistFiles.ReadFile("linguist/" + name + ".txt")
		if err != nil {
			panic(err) // it is part of this program
		}
		for line := range strings.Lines(string(text)) {
			rules = append(rules, newPathRule(strings.TrimSuffix(line, "\n")))
		}
	}
	return rules
}

// newPathRule makes a rule of an expression, whose dot also stands for a line feed: a path may hold one.
func newPathRule(expression string) pathRule {
	expression = "(?s)" + expression
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		panic(err) // it is part of this program
	}
	return pathRule{
		literal:    requiredLiteral(parsed),
		expression: sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) }),
	}
}

// requiredLiteral is the longest literal that every match holds, as far as the parts in a row tell.
func requiredLiteral(e *syntax.Regexp) string {
	switch {
	case e.Op == syntax.OpLiteral && e.Flags&syntax.FoldCase == 0:
		return string(e.Rune)
	case e.Op == syntax.OpConcat, e.Op == syntax.OpCapture, e.Op == syntax.OpPlus:
		longest := ""
		for _, part := range e.Sub {
			if literal := requiredLiteral(part); len(literal) > len(longest) {
				longest = literal
			}
		}
		return longest
	}
	return ""
}

// maxRuleBytes bounds how many bytes of paths the rules read for one change: those of a path once for each list, and again
// for each expression that is tried.
const maxRuleBytes = 32 << 20

// matches tells whether a rule holds for a path. None does once the rules have read too much: what is left is then code.
func (k *classifier) matches(rules []pathRule, name string) bool {
	if !k.mayRead(name) {
		return false
	}
	for i := range rules {
		r := &rules[i]
		if !strings.Contains(name, r.literal) {
			continue
		}
		if !k.mayRead(name) {
			return false
		}
		if r.expression().MatchString(name) {
			return true
		}
	}
	return false
}

func (k *classifier) mayRead(name string) bool {
	k.ruleBytes += len(name)
	return k.ruleBytes <= maxRuleBytes
}

// isLockfile tells whether a package manager writes the file that has this name.
func isLockfile(name string) bool {
	base := path.Base(name)
	switch base {
	case "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "deno.lock",
		"go.sum", "go.work.sum", "Gopkg.lock", "glide.lock",
		"Cargo.lock",
		"poetry.lock", "Pipfile.lock", "uv.lock", "pdm.lock", "pylock.toml", "pixi.lock", "conda-lock.yml",
		"Gemfile.lock", "gems.locked",
		"composer.lock", "symfony.lock",
		"mix.lock", "rebar.lock",
		"pubspec.lock", "Podfile.lock", "Cartfile.resolved", "Package.resolved",
		"packages.lock.json", "paket.lock",
		"gradle.lockfile", "buildscript-gradle.lockfile",
		"conan.lock", "vcpkg-lock.json",
		"stack.yaml.lock", "cabal.project.freeze", "spago.lock", "shard.lock", "dub.selections.json", "esy.lock", "renv.lock",
		"flake.lock", "MODULE.bazel.lock", ".terraform.lock.hcl", "Chart.lock", "buf.lock":
		return true
	}
	return strings.HasPrefix(base, "pylock.") && strings.HasSuffix(base, ".toml") || strings.HasSuffix(base, ".esy.lock")
}

// isProse tells whether a file is text for people by its name. linguist leaves these out of its statistics by their language.
func isProse(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".md", ".markdown", ".rst", ".adoc", ".asciidoc", ".org", ".textile", ".rdoc":
		return true
	}
	return false
}
