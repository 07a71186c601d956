package diffscope

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScope(t *testing.T) {
	t.Parallel()
	before := folder{"src/a.go": "1\n", "src/b/c.go": "1\n", "src2/d.go": "1\n", "doc.md": "1\n", "gone/x": "1\n"}.tree(t)
	after := folder{
		"src/a.go": "2\n", "src/b/c.go": "2\n", "src2/d.go": "2\n", "doc.md": "2\n",
		"new.md": "n\n", "out/cache.log": "l\n", "src/n.go": "n\n",
	}.tree(t)
	created := []string{"new.md", "out/cache.log", "src/n.go"}
	for _, test := range []struct {
		rule                      string
		files, ignore             []string
		inScope, outside, ignored []string
	}{
		{rule: "no files means everything", inScope: []string{"doc.md", "gone/x", "new.md", "out/cache.log", "src/a.go", "src/b/c.go", "src/n.go", "src2/d.go"}},
		{rule: "a folder covers all below and not its namesakes", files: []string{"src"},
			inScope: []string{"new.md", "out/cache.log", "src/a.go", "src/b/c.go", "src/n.go"}, outside: []string{"doc.md", "gone/x", "src2/d.go"}},
		{rule: "spellings of a folder", files: []string{"./src/"},
			inScope: []string{"new.md", "out/cache.log", "src/a.go", "src/b/c.go", "src/n.go"}, outside: []string{"doc.md", "gone/x", "src2/d.go"}},
		{rule: "the root covers everything", files: []string{"."},
			inScope: []string{"doc.md", "gone/x", "new.md", "out/cache.log", "src/a.go", "src/b/c.go", "src/n.go", "src2/d.go"}},
		{rule: "a star stays in its folder", files: []string{"src/*"},
			inScope: []string{"new.md", "out/cache.log", "src/a.go", "src/n.go"}, outside: []string{"doc.md", "gone/x", "src/b/c.go", "src2/d.go"}},
		{rule: "two stars cross folders", files: []string{"**/*.go"},
			inScope: []string{"new.md", "out/cache.log", "src/a.go", "src/b/c.go", "src/n.go", "src2/d.go"}, outside: []string{"doc.md", "gone/x"}},
		{rule: "alternatives", files: []string{"{doc.md,gone/**}"},
			inScope: append([]string{"doc.md", "gone/x"}, created...), outside: []string{"src/a.go", "src/b/c.go", "src2/d.go"}},
		{rule: "created files always count", files: []string{"nothing"},
			inScope: created, outside: []string{"doc.md", "gone/x", "src/a.go", "src/b/c.go", "src2/d.go"}},
		{rule: "ignore takes created files only", ignore: []string{"**/*.log", "doc.md", "src/a.go"},
			inScope: []string{"doc.md", "gone/x", "new.md", "src/a.go", "src/b/c.go", "src/n.go", "src2/d.go"}, ignored: []string{"out/cache.log"}},
	} {
		t.Run(test.rule, func(t *testing.T) {
			t.Parallel()
			_, s := compare(t, before, after, Paths{Files: test.files, Ignore: test.ignore})
			check := func(what string, want []string, got []Row, n int) {
				if diff := cmp.Diff(append([]string{}, want...), paths(got)); diff != "" || n != len(want) {
					t.Errorf("%s: %d files (-want +got):\n%s", what, n, diff)
				}
			}
			check("in scope", test.inScope, s.Files, s.FilesTouched)
			check("outside", test.outside, s.Outside.Files, s.Outside.FilesTouched)
			if (s.Ignored != nil) != (test.ignore != nil) {
				t.Fatalf("ignored is %v", s.Ignored)
			}
			if s.Ignored != nil {
				check("ignored", test.ignored, s.Ignored.Files, s.Ignored.FilesTouched)
			}
		})
	}
}

func paths(rows []Row) []string {
	got := []string{}
	for _, r := range rows {
		got = append(got, r.Path)
	}
	return got
}

func TestBadGlob(t *testing.T) {
	t.Parallel()
	for _, glob := range []string{"", "[", "{a", "a["} {
		for _, scope := range []Paths{{Files: []string{glob}}, {Ignore: []string{glob}}} {
			if _, _, err := Compare(Tree{}, Tree{}, scope); err == nil {
				t.Errorf("%+v is accepted", scope)
			}
		}
	}
}

// TestWorkedExample is the example of docs/diff-scope.md.
func TestWorkedExample(t *testing.T) {
	t.Parallel()
	before := folder{"README.md": "Due dates.\n", "src/due.js": "function due(date) {\n  const day = date.getDay();\n  return day;\n}\n"}
	after := folder{
		"README.md":     "Due dates in UTC.\n",
		"src/due.js":    "function due(date) {\n  const day = date.getUTCDay();\n  return day;\n}\nmodule.exports = due;\n",
		"src/notes.txt": "checked\ntwice\n",
	}
	_, s := compare(t, before.tree(t), after.tree(t), Paths{Files: []string{"src/**"}})
	want := []Counts{{2, 4, 1, 3}, {1, 1, 1, 1}}
	if diff := cmp.Diff(want, []Counts{s.Counts, s.Outside.Counts}); diff != "" {
		t.Errorf("in scope, outside (-want +got):\n%s", diff)
	}
}

// TestNumbers are rules of counting that the conformance cases do not hold.
func TestNumbers(t *testing.T) {
	t.Parallel()
	nul := func(at int) string { return strings.Repeat("a\n", 4500)[:at] + "\x00\n" }
	for _, test := range []struct {
		rule          string
		before, after folder
		want          Counts
	}{
		{"a file becomes a folder: a delete and a create", folder{"a": "1\n2\n"}, folder{"a/b": "3\n"}, Counts{2, 1, 2, 2}},
		{"a link becomes a file", folder{"a": "-> b"}, folder{"a": "1\n2\n"}, Counts{1, 2, 1, 2}},
		{"an empty file becomes a link", folder{"a": ""}, folder{"a": "-> b"}, Counts{1, 1, 0, 1}},
		{"a binary file becomes a link", folder{"a": "\x00"}, folder{"a": "-> b"}, Counts{1, 0, 0, 0}},
		{"a NUL at byte 8,000 is binary", folder{"a": nul(7999)}, folder{"a": ""}, Counts{1, 0, 0, 0}},
		{"a NUL at byte 8,001 is text", folder{"a": nul(8000)}, folder{"a": ""}, Counts{1, 0, 4001, 1}},
		{"two files swap", folder{"a": "1\n", "b": "2\n"}, folder{"a": "2\n", "b": "1\n"}, Counts{2, 2, 2, 2}},
		{"same content written again", folder{"a": "1\n"}, folder{"a": "1\n"}, Counts{}},
		{"an exec bit on a link's twin", folder{"a": "#!x\n"}, folder{"a": "-> #!x\n"}, Counts{1, 1, 1, 2}},
	} {
		_, s := compare(t, test.before.tree(t), test.after.tree(t), Paths{})
		if diff := cmp.Diff(test.want, s.Counts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.rule, diff)
		}
	}
}

func TestRenames(t *testing.T) {
	t.Parallel()
	long := lines("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
	before := folder{"whole": long, "edited": strings.ToUpper(long), "half": "1\n2\n3\n4\n", "link": "-> x", "empty": "", "binary": "\x00a", "less": "p\nq\nr\n"}
	after := folder{
		"sub/whole": long, "sub/edited": strings.Replace(strings.ToUpper(long), "C\n", "", 1), "sub/half": "4\n3\nx\ny\n",
		"sub/link": "-> x", "sub/empty": "", "sub/binary": "\x00a", "sub/less": "p\nx\ny\n",
	}
	_, s := compare(t, before.tree(t), after.tree(t), Paths{})
	want := []Rename{
		{"binary", "sub/binary", 1}, {"edited", "sub/edited", 0.9}, {"half", "sub/half", 0.5}, {"link", "sub/link", 1}, {"whole", "sub/whole", 1},
	}
	if diff := cmp.Diff(want, s.Renames); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if s.FilesTouched != 14 {
		t.Errorf("%d files touched, want 14: a rename is a delete and a create", s.FilesTouched)
	}
}

func TestScopeJSON(t *testing.T) {
	t.Parallel()
	before := folder{"src/due.js": "1\n2\n", "old": "x\n"}.tree(t)
	after := folder{"src/due.js": "1\ntwo\n3\n", "notes.md": "n\n", "bad\xffname": "\x00", "sub/.git/HEAD": "x"}.tree(t)
	_, s := compare(t, before, after, Paths{Files: []string{"src"}, Ignore: []string{"*.tmp"}})
	got, err := json.MarshalIndent(s, "", "  ")
	must(t, err)
	golden := "testdata/scope.json"
	if *update {
		must(t, os.WriteFile(golden, append(got, '\n'), 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, after := range []Tree{{}, folder{"sub/whole": "x\n", "a": "y\n"}.tree(t)} {
		_, s := compare(t, Tree{}, after, Paths{})
		text, err := json.Marshal(s)
		must(t, err)
		if strings.Contains(string(text), "null") {
			t.Errorf("a list is null: %s", text)
		}
	}
}

// BenchmarkSmallCell is what a cell pays on a fixture of three files: two snapshots and the comparison.
func BenchmarkSmallCell(b *testing.B) {
	root := folder{"README.md": lines("read", "me"), "src/due.js": lines("1", "2", "3", "4"), "src/due.test.js": lines("t", "u")}.write(b)
	changed := folder{"README.md": lines("read", "me"), "src/due.js": lines("1", "two", "3", "4"), "src/due.test.js": lines("t", "u")}.write(b)
	b.ReportAllocs()
	for b.Loop() {
		before := take(b, root)
		compare(b, before, again(b, before, changed), Paths{})
	}
}

func BenchmarkManyFiles(b *testing.B) {
	for _, n := range []int{3_000, 20_000} {
		files := folder{}
		for i := range n {
			files[fmt.Sprintf("dir%d/sub%d/file%d.txt", i/500, i/50%10, i)] = strings.Repeat(fmt.Sprintln("line", i), 100)
		}
		root := files.write(b)
		before := take(b, root)
		for i := range 20 {
			must(b, os.WriteFile(fmt.Sprintf("%s/dir0/sub0/file%d.txt", root, i), []byte("edited\n"), 0o644))
		}
		after := again(b, before, root)
		b.Run(fmt.Sprint("snapshot-", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				take(b, root)
			}
		})
		b.Run(fmt.Sprint("again-", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				again(b, before, root)
			}
		})
		b.Run(fmt.Sprint("compare-", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				compare(b, before, after, Paths{})
			}
		})
	}
}
