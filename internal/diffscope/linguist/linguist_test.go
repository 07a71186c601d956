package linguist

import (
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-enry/go-enry/v2"
	"github.com/go-enry/go-enry/v2/data"
)

var update = flag.Bool("update", false, "make the lists anew from go-enry")

// TestLinguistFiles holds the files to what go-enry says; -update makes them anew.
func TestLinguistFiles(t *testing.T) {
	t.Parallel()
	for name, matchers := range map[string][]*regexp.Regexp{
		"vendored": data.VendorMatchers, "documentation": data.DocumentationMatchers, "test": data.TestMatchers,
	} {
		var want strings.Builder
		for _, m := range matchers {
			want.WriteString(m.String() + "\n")
		}
		file := name + ".txt"
		if *update {
			must(t, os.WriteFile(file, []byte(want.String()), 0o644))
		}
		got, err := os.ReadFile(file)
		must(t, err)
		if string(got) != want.String() {
			t.Errorf("%s is not what go-enry has: run the test with -update", file)
		}
	}
	readme, err := os.ReadFile("README.md")
	must(t, err)
	if !strings.Contains(string(readme), data.LinguistCommit) {
		t.Errorf("README.md names another commit of linguist than %s", data.LinguistCommit)
	}
}

// TestPathRules compares our way through the rules, literals first, with go-enry, on paths made of parts of the expressions.
func TestPathRules(t *testing.T) {
	t.Parallel()
	var words []string
	for _, name := range []string{"vendored", "documentation", "test", "generated", "test-more"} {
		for _, r := range readPathRules(name) {
			words = append(words, strings.TrimSuffix(r.literal, "/"), strings.TrimPrefix(r.literal, "."))
		}
	}
	words = append(words, "a", "1.2", "x y", ".js", ".css", "-min", "Test", "é", "\xff")
	random := rand.New(rand.NewPCG(1, 2))
	tests, hits := readPathRules("test"), 0
	for range 5_000 {
		var b strings.Builder
		for range 1 + random.IntN(5) {
			b.WriteString(words[random.IntN(len(words))])
			if random.IntN(2) == 0 {
				b.WriteByte('/')
			}
		}
		name := b.String()
		k := &Classifier{}
		for _, kind := range []struct {
			name      string
			got, want bool
		}{
			{"vendored", k.matches(vendoredPaths(), name), enry.IsVendor(name)},
			{"documentation", k.matches(docsPaths(), name), enry.IsDocumentation(name)},
			{"test", k.matches(tests, name), enry.IsTest(name)},
		} {
			if kind.got != kind.want {
				t.Errorf("%q is %s: %v, go-enry says %v", name, kind.name, kind.got, kind.want)
			}
			if kind.want {
				hits++
			}
		}
	}
	if hits < 1500 {
		t.Errorf("only %d of 15,000 verdicts are yes: the paths are too dull", hits)
	}
}

// TestFileWithoutSample: what a file holds is asked for only when neither attribute nor name tells whether it is generated.
func TestFileWithoutSample(t *testing.T) {
	t.Parallel()
	k, err := New(folder{".gitattributes": "a.go linguist-generated\nb.go -linguist-generated\n"}.attributesFiles())
	must(t, err)
	for name, want := range map[string]bool{"a.go": true, "b.go": false, "Pods/c.m": true} {
		got, err := k.File(name).IsGenerated(func() (head, tail string, err error) {
			t.Errorf("asked what %s holds", name)
			return "", "", nil
		})
		must(t, err)
		if got != want {
			t.Errorf("%s is generated: %v, want %v", name, got, want)
		}
	}
	broken := errors.New("broken")
	if got, err := k.File("c.go").IsGenerated(func() (head, tail string, err error) { return "// @generated", "", broken }); got || err != broken {
		t.Errorf("%v, %v of a file that cannot be read", got, err)
	}
}

func BenchmarkFile(b *testing.B) {
	k := &Classifier{}
	nothing := func() (head, tail string, err error) { return "", "", nil }
	for b.Loop() {
		k.ruleBytes = 0
		f := k.File("internal/some/package/with/names/main_file.go")
		f.IsVendored()
		IsLockfile(f.path)
		f.IsGenerated(nothing)
		f.IsTest()
		f.IsDocs()
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
