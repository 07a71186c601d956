// Package linguist tells what kind of file a path is: vendored, generated, a lockfile, a test, documentation. Give [New] the
// .gitattributes files of a tree, look a path up in it with [Classifier.File], and ask what you want to know of it:
//
//	k, err := linguist.New(files)
//	f := k.File("vendor/a/a_test.go")
//	f.IsVendored() // true, unless an attribute says that it is not
//	f.IsTest()     // true as well: which kind comes first is yours to say
//
// The rules are those of github-linguist, kept as data (see README.md), and some of ours. An attribute wins over a name, and
// both win over what a file holds. To judge a change, give it attributes and contents of the tree before: whoever made the
// change then has no say. Paths and attributes are foreign, so what a Classifier spends on them is bounded.
package linguist

import (
	"embed"
	"iter"
	"path"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
)

// A Classifier knows the kinds of paths. It is for one change and one goroutine: it adds up what it spends, and after 32 MiB
// of paths, or 100,000,000 steps in patterns of attributes, these have no say any more. The zero value has no attributes.
type Classifier struct {
	attributes     []folderRules // sorted by folder
	attributeSteps int
	ruleBytes      int
}

// New makes a Classifier of the .gitattributes files of a tree. The bounds on them hold in the order in which they are given.
// The error is for a file that cannot be loaded.
func New(files iter.Seq[AttributesFile]) (*Classifier, error) {
	attributes, err := readAttributes(files)
	if err != nil {
		return nil, err
	}
	return &Classifier{attributes: attributes}, nil
}

// A File is a path with what the attributes say about it.
type File struct {
	classifier *Classifier
	path       string
	attributes attributes
}

// File looks a path up, which has slashes and need not exist.
func (k *Classifier) File(path string) File { return File{k, path, k.attributesOf(path)} }

// IsVendored tells whether the file was copied from elsewhere.
func (f File) IsVendored() bool {
	return f.attributes.vendored.or(func() bool { return f.classifier.matches(vendoredPaths(), f.path) })
}

// IsGenerated tells whether a program wrote the file. When neither attribute nor name says so, the first and last [Sampled]
// bytes of it are asked for, or all when there are fewer, and nothing when it is not known what the file holds.
func (f File) IsGenerated(sample func() (head, tail string, err error)) (bool, error) {
	if f.attributes.generated != unspecified {
		return f.attributes.generated == yes, nil
	}
	if f.classifier.matches(generatedPaths(), f.path) {
		return true, nil
	}
	head, tail, err := sample()
	return err == nil && looksGenerated(f.path, head, tail), err
}

// IsTest tells whether the file is part of the tests.
func (f File) IsTest() bool { return f.classifier.matches(testPaths(), f.path) }

// IsDocs tells whether the file is for people to read.
func (f File) IsDocs() bool {
	return f.attributes.docs.or(func() bool { return isProse(f.path) || f.classifier.matches(docsPaths(), f.path) })
}

// ruleFiles are lists of expressions on paths.
//
//go:embed *.txt
var ruleFiles embed.FS

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
		text, err := ruleFiles.ReadFile(name + ".txt")
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
func (k *Classifier) matches(rules []pathRule, name string) bool {
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

func (k *Classifier) mayRead(name string) bool {
	k.ruleBytes += len(name)
	return k.ruleBytes <= maxRuleBytes
}

// IsLockfile tells whether a package manager writes the file that has this name. No attribute has a say in it.
func IsLockfile(name string) bool {
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
