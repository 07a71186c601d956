package diffscope

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// patchOf is the text of the patch between two trees.
func patchOf(t testing.TB, before, after Tree) []byte {
	t.Helper()
	patch, _, err := Compare(before, after, Paths{})
	must(t, err)
	var text bytes.Buffer
	_, err = patch.WriteTo(&text)
	must(t, err)
	return text.Bytes()
}

func share(x float64) *float64 { return &x }

func TestReference(t *testing.T) {
	t.Parallel()
	before := folder{"src/a": "1\n2\n3\n", "src/b": "x\n", "README": "r\n"}
	good := folder{"src/a": "1\ntwo\n3\n", "src/b": "x\n", "README": "r\n"}
	other := folder{"src/a": "1\n2\n3\n", "src/b": "y\nz\n", "README": "r\n"}
	first := before.tree(t)
	for _, test := range []struct {
		rule       string
		after      folder
		references []folder
		want       Excess
	}{
		{"the reference itself", good, []folder{good},
			Excess{FilesTouched: 1, LinesChanged: 2, Ratio: 1, FilePrecision: share(1), FileRecall: 1}},
		{"more lines in more files", folder{"src/a": "1\ntwo\n3\n4\n", "src/b": "x\n", "src/c": "n\n", "README": "r\n"}, []folder{good},
			Excess{FilesTouched: 1, LinesChanged: 2, ExcessLines: 2, Ratio: 5.0 / 3, FilePrecision: share(0.5), FileRecall: 1}},
		{"fewer lines elsewhere", folder{"src/a": "1\n2\n3\n", "src/b": "x\ny\n", "README": "r\n"}, []folder{good},
			Excess{FilesTouched: 1, LinesChanged: 2, Ratio: 2.0 / 3, FilePrecision: share(0), FileRecall: 0}},
		{"no change", before, []folder{good}, Excess{FilesTouched: 1, LinesChanged: 2, Ratio: 1.0 / 3}},
		{"what lies outside does not count", folder{"src/a": "1\ntwo\n3\n", "src/b": "x\n", "README": "r\ns\n"}, []folder{good},
			Excess{FilesTouched: 1, LinesChanged: 2, Ratio: 1, FilePrecision: share(1), FileRecall: 1}},
		{"the one that is exceeded least", good, []folder{{"src/a": "1\n2\n", "src/b": "x\n", "README": "r\n"}, good},
			Excess{FilesTouched: 1, LinesChanged: 2, Ratio: 1, FilePrecision: share(1), FileRecall: 1}},
		{"of those, the one of the highest recall", good, []folder{other, good},
			Excess{FilesTouched: 1, LinesChanged: 2, Ratio: 1, FilePrecision: share(1), FileRecall: 1}},
	} {
		var patches [][]byte
		for _, r := range test.references {
			patches = append(patches, patchOf(t, first, r.tree(t)))
		}
		paths := Paths{Files: []string{"src"}}
		_, scope := compare(t, first, test.after.tree(t), paths)
		got, err := Reference(first, scope, paths, patches...)
		must(t, err)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.rule, diff)
		}
	}
}

// TestReferenceIsABound: when one of the two sizes is not known exactly, neither is what lies between them.
func TestReferenceIsABound(t *testing.T) {
	t.Parallel()
	exact, bound := Scope{Counts: Counts{FilesTouched: 1, LinesAdded: 1}}, Scope{Counts: Counts{FilesTouched: 1}, Approximate: true}
	if e := exact.Against([]Scope{exact}); e.Approximate {
		t.Errorf("two exact sizes: %+v", e)
	}
	if e, f := exact.Against([]Scope{bound}), bound.Against([]Scope{exact}); !e.Approximate || !f.Approximate {
		t.Errorf("one of two sizes is a bound: %+v, %+v", e, f)
	}
	if e := exact.Against(nil); e != nil {
		t.Errorf("against no reference: %+v", e)
	}
}

func TestReferenceRefuses(t *testing.T) {
	t.Parallel()
	before := folder{"src/a": "1\n", "README": "r\n"}.tree(t)
	good := "--- a/src/a\n+++ b/src/a\n@@ -1 +1 @@\n-1\n+2\n"
	for _, test := range []struct {
		rule    string
		patches []string
		want    string
		patch   int
		line    int
	}{
		{"does not apply", []string{good, "\n" + strings.Replace(good, "-1\n", "-x\n", 1)}, "patch 2: line 2: the hunk in line 4 does not fit src/a", 2, 2},
		{"is broken", []string{"--- a/src/a\n+++ b/src/a\n@@ x @@\n"}, `patch 1: line 3: the hunk header "@@ x @@" is broken`, 1, 3},
		{"is empty", []string{""}, "patch 1: there is no patch in it", 1, 0},
		{"changes nothing", []string{good, "diff --git a/src/a b/src/a\n"}, "patch 2: it changes nothing in scope", 2, 0},
		{"lies outside", []string{"--- a/README\n+++ b/README\n@@ -1 +1 @@\n-r\n+s\n"}, "patch 1: it changes nothing in scope", 1, 0},
	} {
		var patches [][]byte
		for _, p := range test.patches {
			patches = append(patches, []byte(p))
		}
		_, err := Reference(before, Scope{}, Paths{Files: []string{"src"}}, patches...)
		var bad *PatchError
		if err == nil || err.Error() != test.want || !errors.As(err, &bad) || bad.Patch != test.patch || bad.Line != test.line {
			t.Errorf("%s: error %v, want %q", test.rule, err, test.want)
		}
	}
	if _, err := Reference(before, Scope{}, Paths{}); err == nil {
		t.Error("no reference at all is no error")
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	tree := folder{"src/a.go": "1\n", "README": "r\n"}.tree(t)
	for glob, want := range map[string]bool{
		"src": true, "./src/": true, ".": true, "src/*.go": true, "**/*.go": true, "README": true,
		"sr": false, "*.go": false, "src/b": false, "README/x": false,
	} {
		if got, err := tree.Covers(glob); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", glob, got, err, want)
		}
	}
	if _, err := tree.Covers("[a"); err == nil {
		t.Error("a broken glob is no error")
	}
}

// TestReferenceLaws holds on any trees: who makes exactly the reference exceeds it by nothing, who changes nothing has no
// precision, and a further reference never makes the excess larger.
func TestReferenceLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		before, made, wanted := randomFolder(r).tree(t), randomFolder(r).tree(t), randomFolder(r).tree(t)
		paths := Paths{}
		if rapid.Bool().Draw(r, "files") {
			paths.Files = []string{"a", "d"}
		}
		reference := patchOf(t, before, wanted)
		_, exactly := compare(t, before, wanted, paths)
		if exactly.FilesTouched == 0 {
			r.Skip("nothing in scope")
		}
		got, err := Reference(before, exactly, paths, reference)
		must(t, err)
		want := Excess{FilesTouched: exactly.FilesTouched, LinesChanged: exactly.LinesChanged(), Ratio: 1, FilePrecision: share(1), FileRecall: 1}
		if diff := cmp.Diff(want, got); diff != "" {
			r.Fatalf("exactly the reference (-want +got):\n%s", diff)
		}
		_, null := compare(t, before, before, paths)
		if got, err = Reference(before, null, paths, reference); err != nil || got.FilePrecision != nil || got.ExcessLines != 0 || got.FileRecall != 0 {
			r.Fatalf("no change: %+v, %v", got, err)
		}
		_, scope := compare(t, before, made, paths)
		one, err := Reference(before, scope, paths, reference)
		must(t, err)
		if one.ExcessLines != max(0, scope.LinesChanged()-exactly.LinesChanged()) || (one.ExcessLines > 0) != (one.Ratio > 1) {
			r.Fatalf("%d lines against %d: %+v", scope.LinesChanged(), exactly.LinesChanged(), one)
		}
		if scope.FilesTouched == 0 {
			return
		}
		both, err := Reference(before, scope, paths, reference, patchOf(t, before, made))
		must(t, err)
		if both.ExcessLines != 0 || both.FileRecall < one.FileRecall && one.ExcessLines == 0 {
			r.Fatalf("two references: %+v, one: %+v", both, one)
		}
	})
}
