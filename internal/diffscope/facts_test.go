package diffscope

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"testing"
)

// TestFactsAddUp holds the facts of every conformance case against its four numbers: the facts share them out, and lose
// and invent nothing.
func TestFactsAddUp(t *testing.T) {
	t.Parallel()
	for name, trees := range conformanceTrees(t) {
		before, after := take(t, trees.before), take(t, trees.after)
		patch, scope := compare(t, before, after, Paths{Files: trees.files})
		checkFacts(t, name, before, after, patch, scope)
	}
}

// checkFacts looks at a change for its facts, and holds them against its numbers.
func checkFacts(t *testing.T, name string, before, after Tree, patch Patch, scope Scope) {
	t.Helper()
	facts, err := Inspect(t.Context(), before, after, patch)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	var sum Counts
	buckets := reflect.ValueOf(facts.Buckets)
	for i := range buckets.NumField() {
		n := buckets.Field(i).Interface().(Counts)
		sum.FilesTouched += n.FilesTouched
		sum.LinesAdded += n.LinesAdded
		sum.LinesRemoved += n.LinesRemoved
		sum.Hunks += n.Hunks
	}
	if sum != scope.Counts {
		t.Errorf("%s: the buckets are %+v together, the scope is %+v", name, sum, scope.Counts)
	}
	churn := facts.Churn
	if churn.EffectiveLines+churn.WhitespaceLines != scope.LinesChanged() {
		t.Errorf("%s: %+v of %d lines changed", name, churn, scope.LinesChanged())
	}
	if churn.CommentLines < 0 || churn.CommentLines+churn.UnlexedLines > scope.LinesChanged() {
		t.Errorf("%s: %+v of %d lines changed", name, churn, scope.LinesChanged())
	}
	if len(facts.Files) != len(scope.Files)+len(scope.Outside.Files) {
		t.Errorf("%s: %d rows of facts for %d files", name, len(facts.Files), len(scope.Files)+len(scope.Outside.Files))
	}
}

// TestNoFacts: where nothing changed there is nothing to say, and no list is null.
func TestNoFacts(t *testing.T) {
	t.Parallel()
	tree := folder{"go.mod": "module m\n", "a_test.go": "package m\n", "run.sh": "#!/bin/sh\n"}.tree(t)
	patch, _ := compare(t, tree, tree, Paths{})
	facts, err := Inspect(t.Context(), tree, tree, patch)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(facts)
	if err != nil {
		t.Fatal(err)
	}
	const none = `{"files_touched":0,"lines_added":0,"lines_removed":0,"hunks":0}`
	want := `{"files":[],"churn":{"whitespace_lines":0,"effective_lines":0,"comment_lines":0,"unlexed_lines":0},` +
		`"buckets":{"code":` + none + `,"test":` + none + `,"docs":` + none + `,"lockfile":` + none + `,"generated":` + none + `,"vendored":` + none + `},` +
		`"tampering":[],"dependencies":{"added":[],"removed":[],"unread":[],"lockfile_lines":0},` +
		`"shape":{"largest_file":null,"large_files":[],"new_executables":[],"new_links":[],"folders_touched":0},"copies":[]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A twoFolders is a conformance case on disk.
type twoFolders struct {
	before, after string
	files         []string
}

func conformanceTrees(t *testing.T) map[string]twoFolders {
	t.Helper()
	dirs, err := filepath.Glob("testdata/cases/*/case.json")
	must(t, err)
	cases := map[string]twoFolders{}
	for _, dir := range dirs {
		dir = filepath.Dir(dir)
		var c conformance
		readJSON(t, filepath.Join(dir, "case.json"), &c)
		folders := map[string]string{}
		for _, side := range []string{"before", "after"} {
			folders[side] = t.TempDir()
			copyFolder(t, filepath.Join(dir, side), folders[side])
			for _, o := range c.Materialize[side] {
				o.apply(t, folders[side])
			}
		}
		cases[filepath.Base(dir)] = twoFolders{folders["before"], folders["after"], c.Files}
	}
	return cases
}
