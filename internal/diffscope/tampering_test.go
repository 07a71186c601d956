package diffscope

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTampering(t *testing.T) {
	t.Parallel()
	testArchives(t, "testdata/tampering", tellFindings)
}

func TestTestsOutOfReach(t *testing.T) {
	t.Parallel()
	before := folder{"tests/a.py": "def test_a(): pass\n", "tests/b.py": "def test_b(): pass\n", "conftest.py": "x\n"}.memory()
	after := folder{"tests/a.py": "def test_a(): pass\n", "conftest.py": "x\n"}.memory()
	for i := range after.entries {
		after.entries[i].blob, after.entries[i].why = nil, unreadable
	}
	p, _ := compare(t, before, after, Paths{})
	want := "conftest.py test_config_changed: can no longer be read\n" +
		"tests/a.py test_deleted: the test file can no longer be read\n" +
		"tests/b.py test_deleted: the test file was deleted\n"
	if diff := cmp.Diff(want, tellFindings(t, p, guessedFacts(p))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A file that is too large or binary is not searched, and its settings are not known.
func TestTamperingWithWhatIsNotSearched(t *testing.T) {
	t.Parallel()
	blanks := strings.Repeat(" ", maxScanned)
	before := folder{"a_test.go": "t.Error()\n", "b_test.go": "t.Error()\n", "package.json": "{}", "setup.cfg": "x"}
	after := folder{"a_test.go": "t.Skip()\n" + blanks, "b_test.go": "t.Skip()\x00", "package.json": "{}" + blanks, "setup.cfg": "\x00"}
	p, _ := compare(t, before.memory(), after.memory(), Paths{})
	want := "package.json test_config_changed: changed; what it says about tests is not known\n" +
		"setup.cfg test_config_changed: changed; what it says about tests is not known\n"
	if diff := cmp.Diff(want, tellFindings(t, p, guessedFacts(p))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTamperingStopsAtItsBudget(t *testing.T) {
	t.Parallel()
	left := budget(10)
	old, new := folder{"x": "1234"}.memory(), folder{"x": "123"}.memory()
	c := change{path: "x", old: &old.entries[0], new: &new.entries[0]}
	must(t, c.measure())
	for round, want := range []bool{true, false} {
		if _, _, known, err := left.texts(&c, 100); err != nil || known != want {
			t.Errorf("round %d: known is %v (%v), want %v", round, known, err, want)
		}
	}
}

func TestIgnoredFilesAreNotTampered(t *testing.T) {
	t.Parallel()
	before := folder{"tests/a.py": "def test_a(): pass\n"}
	after := folder{"cache/a.py": "def test_a(): pass\n", "cache/conftest.py": "x\n", "z/conftest.py": "x\n"}
	p, _ := compare(t, before.memory(), after.memory(), Paths{Ignore: []string{"cache"}})
	want := "tests/a.py test_deleted: the test file was deleted\nz/conftest.py test_config_changed: created\n"
	if diff := cmp.Diff(want, tellFindings(t, p, guessedFacts(p))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		words      *testWords
		line, want string
	}{
		{&goTests, "\tx := \"t.Skip()\" // t.Skip()\n", `x := ""`},
		{&goTests, `x := "a\"b" + 'c' + t`, `x := "" + '' + t`},
		{&goTests, "//go:build linux\n", "//go:build linux"},
		{&goTests, "/* t.Skip() */\n", ""},
		{&goTests, "* t.Skip()\r\n", ""},
		{&goTests, "*x = 1\n", "*x = 1"},
		{&goTests, "a / b\n", "a / b"},
		{&goTests, `"open`, `"`},
		{&goTests, `"open\`, `"`},
		{&pythonTests, "x = '#' # '\n", "x = ''"},
		{&pythonTests, "\"\"\"it.skip\n", `"""`},
		{&rustTests, "fn a<'b>(x: &'b str) {}\n", "fn a<'b>(x: &'b str) {}"},
		{&phpTests, "#[Test] // x\n", "#[Test]"},
		{&rubyTests, "", ""},
	} {
		if got := test.words.code(test.line); got != test.want {
			t.Errorf("the code of %q is %q, want %q", test.line, got, test.want)
		}
	}
}

func TestHasWord(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code, word string
		want       bool
	}{
		{"xit(1)", "xit(", true},
		{"exit(1)", "xit(", false},
		{"exit(1); xit(2)", "xit(", true},
		{"model.fit(x)", "fit(", false},
		{"t.Skipped()", "t.Skip", false},
		{"t.Skipped()", "t.Skip*", true},
		{"at.Skip()", "t.Skip", false},
		{"s.T().Skip()", ".T().Skip*", true},
		{"skip", "^skip", true},
		{"skip_it", "^skip", false},
		{"x skip", "^skip", false},
		{"é" + "skip", "skip", false},
		{"", "^skip", false},
		{"", "skip", false},
	} {
		if got := hasWord(test.code, test.word); got != test.want {
			t.Errorf("%q has %q: %v, want %v", test.code, test.word, got, test.want)
		}
	}
}

// Each word is found where it stands alone, so that none is misspelt for what the search makes of a line.
func TestEveryWordCanBeFound(t *testing.T) {
	t.Parallel()
	for _, ext := range []string{".go", ".py", ".ts", ".java", ".rs", ".rb", ".cs", ".swift", ".php", ".cc"} {
		words := testWordsOf("x" + ext)
		for kind, list := range map[string][]string{"skip": words.skip, "focus": words.focus, "assert": words.assert, "test": words.test} {
			for _, word := range list {
				line := strings.Trim(word, "^*")
				if hits := words.find([]string{word}, "\n"+line+"\n"); len(hits) != 1 || hits[0] != (hit{1, line}) {
					t.Errorf("%s: the %s word %q in %q: %v", ext, kind, word, line, hits)
				}
			}
		}
	}
}

// Nothing panics, a change and its way back do not both lose tests, and no change is no finding.
func FuzzTampering(f *testing.F) {
	for name, text := range map[string]string{
		"a_test.go":           "func TestA(t *testing.T) {\n\tt.Skip(`x`) // y\n\tt.Error('\\'')\n}\n",
		"tests/a.py":          "@pytest.mark.skip\ndef test_a():\n    assert 1 # x\n",
		"a.test.ts":           "it.only(\"a\\\"\", () => { expect(1) });\n",
		"tests/a.rb":          "xit 'a' do\nexpect(1)\nend\n",
		"package.json":        `{"scripts": {"test": "x"}, "jest": [1]}`,
		"pyproject.toml":      "[tool.pytest.ini_options]\naddopts = [\"a\", {b = 1}]\n",
		"setup.cfg":           "[tool:pytest]\na = b\n[other]\n",
		"conftest.py":         "x",
		"tests/\xff.snap":     "\xff",
		".github/workflows/x": "x",
	} {
		f.Add(name, text, "")
		f.Add(name, text[:len(text)/2], text)
	}
	f.Fuzz(func(t *testing.T, name, old, new string) {
		there, back := inspectTampering(t, name, old, new), inspectTampering(t, name, new, old)
		for _, kind := range []string{"fewer_tests", "fewer_assertions"} {
			if there[kind] != "" && back[kind] != "" {
				t.Errorf("%s: %s there, %s back", kind, there[kind], back[kind])
			}
		}
		same := inspectTampering(t, name, old, old)
		for _, kind := range []string{"fewer_tests", "fewer_assertions", "skip_added", "test_deleted", "test_moved"} {
			if same[kind] != "" {
				t.Errorf("no change has %s: %s", kind, same[kind])
			}
		}
	})
}

func inspectTampering(t *testing.T, name, old, new string) map[string]string {
	t.Helper()
	p := onePath(t, name, old, new)
	findings, err := tampering(p, guessedFacts(p))
	must(t, err)
	found := map[string]string{}
	for _, f := range findings {
		found[f.Kind] = f.Text
	}
	return found
}

// The worst that fits into 1 MiB, to be seen with -bench.
func BenchmarkHostile(b *testing.B) {
	fill := func(head, part string) string {
		return head + strings.Repeat(part, (maxScanned-len(head)-10)/len(part))
	}
	var keys strings.Builder
	keys.WriteString("[tool.pytest." + strings.Repeat("a", 1000) + "]\n")
	for i := 0; keys.Len() < maxScanned-10; i++ {
		fmt.Fprintf(&keys, "%x=1\n", i)
	}
	for _, test := range []struct{ rule, name, text string }{
		{"keys", "pyproject.toml", keys.String()},
		{"elements", "pyproject.toml", fill("[tool.pytest]\n"+strings.Repeat("a", 1000)+"=[", "1,") + "]"},
		{"dependencies", "pyproject.toml", fill("[project]\ndependencies=[", `"a",`) + "]"},
		{"scripts", "package.json", fill(`{"scripts":{`, `"a":1,`) + `"b":1}}`},
		{"arrays", "package.json", fill("", "[")},
		{"names", "requirements.txt", fill("", "a\n")},
		{"continued", "requirements.txt", fill("", "a \\\n")},
		{"short lines", "a.test.ts", fill("", "a\n")},
		{"one line", "a.test.ts", fill("", "xxit(")},
		{"quotes", "a.test.ts", fill("", `"\"`)},
		{"skips", "a.test.ts", fill("", "it.skip(\n")},
		{"sections", "setup.cfg", fill("", "[pytest]\n")},
	} {
		b.Run(test.rule, func(b *testing.B) {
			b.ReportAllocs()
			p := onePath(b, test.name, "", test.text)
			for b.Loop() {
				_, err := tampering(p, guessedFacts(p))
				must(b, err)
				_, err = dependencies(p, guessedFacts(p))
				must(b, err)
			}
		})
	}
}

// onePath is the patch of one path that both trees have. It does not ask Compare whether the contents differ.
func onePath(t testing.TB, name, old, new string) Patch {
	t.Helper()
	before, after := folder{name: old}.memory(), folder{name: new}.memory()
	c := change{path: name, old: &before.entries[0], new: &after.entries[0], where: inScope}
	must(t, c.measure())
	return Patch{changes: []change{c}}
}
