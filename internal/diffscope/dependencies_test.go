package diffscope

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDependencies(t *testing.T) {
	t.Parallel()
	testArchives(t, "testdata/dependencies", tellDependencies)
}

func TestDependenciesOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	small := folder{"package.json": `{"dependencies": {"a": "1"}}`}
	for rule, after := range map[string]string{
		"binary":          "{\x00}",
		"too large":       `{"dependencies": {"b": "1"}` + strings.Repeat(" ", maxManifest) + "}",
		"a name too long": `{"dependencies": {"` + strings.Repeat("b", maxName+1) + `": "1"}}`,
		"not JSON":        "dependencies",
	} {
		p, _ := compare(t, small.memory(), folder{"package.json": after}.memory(), Paths{})
		got, err := dependencies(p, guessedFacts(p))
		must(t, err)
		want := Dependencies{Added: []Dependency{}, Removed: []Dependency{}, Unread: []string{"package.json"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", rule, diff)
		}
	}
}

func TestDependenciesOfAnUnreadableManifest(t *testing.T) {
	t.Parallel()
	before := folder{"go.mod": "module m\n", "go.sum": "a\n"}.memory()
	after := folder{"go.mod": "module m\n", "go.sum": "b\n"}.memory()
	for i := range after.entries {
		after.entries[i].blob, after.entries[i].why = nil, unreadable
	}
	p, _ := compare(t, before, after, Paths{})
	got, err := dependencies(p, guessedFacts(p))
	must(t, err)
	want := Dependencies{Added: []Dependency{}, Removed: []Dependency{}, Unread: []string{"go.mod"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestIgnoredManifestsHaveNoDependencies(t *testing.T) {
	t.Parallel()
	after := folder{"a/package.json": `{"dependencies": {"a": "1"}}`, "b/package.json": `{"dependencies": {"b": "1"}}`}
	p, _ := compare(t, Tree{}, after.memory(), Paths{Ignore: []string{"a"}})
	got := tellDependencies(t, p, guessedFacts(p))
	if want := "+ b/package.json b \"1\"\n0 lockfile lines\n"; got != want {
		t.Errorf("got %s", got)
	}
}

func TestPythonName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"": "", "A": "a", "Foo.-_Bar": "foo-bar", "a__b": "a-b", "_x_": "x"} {
		if got := pythonName(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
}

func TestTOMLPaths(t *testing.T) {
	t.Parallel()
	text := "a = 1\nb.c = \"x\"\n[t]\nd = [\"e\", {f = 'g', h = []}, [true]]\n[[u.v]]\nw = 1979-05-27\n[\"q.r\"]\n"
	var got []string
	must(t, eachTOML(text, func(path []string, text string) { got = append(got, fmt.Sprintf("%q %s", path, text)) }))
	want := []string{
		`["a"] 1`, `["b" "c"] x`, `["t"] `, `["t" "d"] e`, `["t" "d"] `, `["t" "d" "f"] g`, `["t" "d"] true`,
		`["u" "v"] `, `["u" "v" "w"] 1979-05-27`, `["q.r"] `,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTOMLBounds(t *testing.T) {
	t.Parallel()
	for rule, text := range map[string]string{
		"deep table": "[a" + strings.Repeat(".a", maxTOMLKeys) + "]\n",
		"deep key":   "[a]\na" + strings.Repeat(".a", maxTOMLKeys-1) + " = 1\n",
		"deep value": "a = " + strings.Repeat("{a = ", maxTOMLKeys) + "1" + strings.Repeat("}", maxTOMLKeys) + "\n",
		"long key":   strings.Repeat("a", maxTOMLPath) + ".a = 1\n",
		"not closed": "a = [",
		"many lists": "a = " + strings.Repeat("[", maxManifest),
	} {
		if eachTOML(text, func([]string, string) {}) == nil {
			t.Errorf("%s is accepted", rule)
		}
	}
	ok := "[a" + strings.Repeat(".a", maxTOMLKeys-2) + "]\na = 1\nb = 2\n[c]\n" + strings.Repeat("a", maxTOMLPath-1) + " = 1\n"
	must(t, eachTOML(ok, func([]string, string) {}))
}

// What is added one way is removed the other way, whatever the bytes.
func FuzzDependencies(f *testing.F) {
	for name, text := range map[string]string{
		"go.mod":                   "module m\nrequire (\n\ta.b/c v1.0.0\n\td v1 // indirect\n)\n",
		"package.json":             `{"dependencies": {"a": "1", "b": 2}, "devDependencies": null}`,
		"composer.json":            `{"require": {"php": "8", "a/b": "1"}}`,
		"requirements.txt":         "a==1\n-e git+https://x/y#egg=b\n./c\nd @ https://x \\\n ; x\n",
		"pyproject.toml":           "[project]\ndependencies = [\"a>1\"]\n[tool.poetry.group.x.dependencies]\nb = {version = \"1\"}\n",
		"Cargo.toml":               "[target.'cfg(x)'.dependencies]\na = {package = \"b\"}\n[dependencies.c]\nversion = \"1\"\n",
		"Gemfile":                  "gem 'a', \"1\"\ngem(\"b\")\n",
		"a\xff/requirements/x.txt": "\xff\n",
		"go.sum":                   "x\n",
	} {
		f.Add(name, text, "")
		f.Add(name, text[:len(text)/2], text)
	}
	f.Fuzz(func(t *testing.T, name, old, new string) {
		there := inspectDependencies(t, name, old, new)
		back := inspectDependencies(t, name, new, old)
		there.Added, there.Removed = there.Removed, there.Added
		if diff := cmp.Diff(back, there); diff != "" {
			t.Errorf("the way back differs:\n%s", diff)
		}
		if same := inspectDependencies(t, name, old, old); len(same.Added)+len(same.Removed) > 0 {
			t.Errorf("no change has %+v", same)
		}
	})
}

func inspectDependencies(t *testing.T, name, old, new string) Dependencies {
	t.Helper()
	p := onePath(t, name, old, new)
	d, err := dependencies(p, guessedFacts(p))
	must(t, err)
	return d
}
