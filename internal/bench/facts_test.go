package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/result"
)

// measured is one passed cell with a diff scope, in a suite of its own.
func measured(scope *diffscope.Scope) (result.Manifest, []result.Result) {
	m, results := input([]outcomes{{"a", "", "P"}})
	results[0].DiffScope = scope
	return m, results
}

func TestFactsOfARun(t *testing.T) {
	t.Parallel()
	m, results := measured(&diffscope.Scope{
		Counts:    diffscope.Counts{FilesTouched: 2, LinesAdded: 9, LinesRemoved: 3, Hunks: 2},
		Outside:   diffscope.Outside{Counts: diffscope.Counts{FilesTouched: 1, LinesAdded: 4, LinesRemoved: 1}},
		Reference: &diffscope.Excess{ExcessLines: 7, Ratio: 13.0 / 6, FilePrecision: ptr(0.5), FileRecall: 1, Approximate: true},
		Facts: &diffscope.Facts{
			Churn: diffscope.Churn{WhitespaceLines: 2, EffectiveLines: 10, CommentLines: 1, UnlexedLines: 3},
			Buckets: diffscope.Buckets{
				Code: diffscope.Counts{LinesAdded: 3}, Test: diffscope.Counts{LinesAdded: 3}, Docs: diffscope.Counts{LinesRemoved: 3},
				Lockfile: diffscope.Counts{LinesAdded: 1}, Generated: diffscope.Counts{LinesAdded: 1}, Vendored: diffscope.Counts{LinesAdded: 1},
			},
			Tampering: []diffscope.Finding{{Kind: "skip_added", Path: "a_test.go", Text: "line 12: t.Skip("}},
			Dependencies: diffscope.Dependencies{
				Added:   []diffscope.Dependency{{File: "b", Name: "y"}, {File: "a", Name: "y"}, {File: "a", Name: "x"}},
				Removed: []diffscope.Dependency{{File: "a", Name: "z"}}, Unread: []string{"c"},
			},
			Shape: diffscope.Shape{
				NewExecutables: []string{"run.sh"}, NewLinks: []diffscope.NewLink{{Path: "l", Target: "..", Leaves: true}, {Path: "m", Target: "l"}},
				LargeFiles: []diffscope.SizedFile{{Path: "big", Bytes: 2 << 20}},
			},
		},
	})
	results[0].TraceChurn = &result.TraceChurn{Edits: 3, LinesWritten: ptr(30), LinesLost: ptr(0), PathsUndone: []string{"x", "y"}}
	b := mustMake(t, m, results)
	wantScope := &Scope{
		FilesTouched: 2, LinesAdded: 9, LinesRemoved: 3, Hunks: 2, OutsideFiles: ptr(1), OutsideLines: ptr(5),
		Reference: &Excess{ExcessLines: 7, Ratio: 13.0 / 6, FilePrecision: ptr(0.5), FileRecall: 1, Approximate: true},
	}
	wantFacts := &DiffFacts{
		EffectiveLines: 10, WhitespaceLines: 2, CommentLines: 1, UnlexedLines: 3,
		LinesByBucket: LinesByBucket{Code: 3, Test: 3, Docs: 3, Lockfile: 1, Generated: 1, Vendored: 1},
		Tampering:     []result.Finding{{Kind: "skip_added", Path: "a_test.go", Text: "line 12: t.Skip("}}, TamperingCount: 1, TamperingKinds: []string{"skip_added"},
		DependenciesAdded: []string{"x", "y"}, AddedCount: 2, DependenciesRemoved: []string{"z"}, RemovedCount: 1, UnreadManifests: 1,
		NewExecutables: 1, NewLinks: 2, LeavingLinks: 1, LargeFiles: 1,
	}
	wantChurn := &TraceChurn{Edits: 3, LinesWritten: ptr(30), LinesLost: ptr(0), PathsUndone: 2}
	run, arm := b.Runs[0], b.Arms[0]
	for name, diff := range map[string]string{
		"scope": cmp.Diff(wantScope, run.DiffScope), "facts": cmp.Diff(wantFacts, run.DiffFacts), "churn": cmp.Diff(wantChurn, run.TraceChurn),
		"medians": cmp.Diff([]*Estimate{{10, nil, nil, 1}, {0.25, nil, nil, 1}, {0.25, nil, nil, 1}, {0.25, nil, nil, 1}, {7, nil, nil, 1}, {13.0 / 6, nil, nil, 1}}, sixMedians(arm.DiffScope.Passed)),
		"signals": cmp.Diff(ArmSignals{Inspected: 1, Tampered: ptr(1), TamperingKinds: []string{"skip_added"}, AddedDependencies: ptr(1), Measured: 1, Outside: ptr(1), NoChange: ptr(0)}, arm.DiffScope.Signals),
	} {
		if diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	row := b.DiffScope[0].Value[0]
	if *row.OutsideFiles != 1 || *row.EffectiveLines != 10 {
		t.Errorf("the row has outside %d, effective %d", *row.OutsideFiles, *row.EffectiveLines)
	}
}

func sixMedians(m ScopeMedians) []*Estimate {
	return []*Estimate{m.EffectiveLines, m.TestShare, m.DocsShare, m.GeneratedShare, m.ExcessLines, m.Ratio}
}

// What nobody looked for is null, never 0.
func TestUnknownFactsAreNull(t *testing.T) {
	t.Parallel()
	unmeasured, unmeasuredResults := measured(nil)
	old, oldResults := measured(&diffscope.Scope{Counts: diffscope.Counts{FilesTouched: 1, LinesAdded: 2}, Outside: diffscope.Outside{
		Counts: diffscope.Counts{FilesTouched: 1}, Approximate: true}})
	for _, c := range []struct {
		name         string
		b            Benchmark
		run, signals string
	}{
		{"not measured", mustMake(t, unmeasured, unmeasuredResults), `"diff_scope":null,"diff_facts":null,"trace_churn":null}`,
			`{"inspected":0,"tampered":null,"added_dependencies":null,"measured":0,"outside":null,"no_change":null}`},
		{"no facts", mustMake(t, old, oldResults), `"outside_files":1,"outside_lines":null,"reference":null},"diff_facts":null,"trace_churn":null}`,
			`{"inspected":0,"tampered":null,"added_dependencies":null,"measured":1,"outside":1,"no_change":0}`},
	} {
		run, err := json.Marshal(c.b.Runs[0])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(string(run), c.run) {
			t.Errorf("%s: the run is %s", c.name, run)
		}
		arm := c.b.Arms[0].DiffScope
		signals, err := json.Marshal(arm.Signals)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.signals, string(signals)); diff != "" {
			t.Errorf("%s, signals (-want +got):\n%s", c.name, diff)
		}
		for i, e := range append(sixMedians(arm.Scored), sixMedians(arm.Passed)...) {
			if e != nil {
				t.Errorf("%s: median %d is %v", c.name, i, *e)
			}
		}
		if c.b.DiffScope[0].Value[0].EffectiveLines != nil {
			t.Errorf("%s: the row has effective lines", c.name)
		}
	}
}

// An empty change has no shares: nothing of nothing is not 0 %.
func TestNoLinesHaveNoShare(t *testing.T) {
	t.Parallel()
	m, results := measured(&diffscope.Scope{NoChange: true, Facts: &diffscope.Facts{}})
	arm := mustMake(t, m, results).Arms[0].DiffScope
	if arm.Passed.TestShare != nil || arm.Passed.EffectiveLines == nil || *arm.Signals.NoChange != 1 {
		t.Errorf("%+v", arm)
	}
}

func TestFactsAreBounded(t *testing.T) {
	t.Parallel()
	f := &diffscope.Facts{}
	long := strings.Repeat("ä\xff", longestText)
	for i := range 300 {
		f.Tampering = append(f.Tampering, diffscope.Finding{Kind: "test_deleted", Path: long, Text: long})
		f.Dependencies.Added = append(f.Dependencies.Added, diffscope.Dependency{Name: fmt.Sprintf("%03d%s", i, long)})
		f.Dependencies.Removed = append(f.Dependencies.Removed, diffscope.Dependency{Name: fmt.Sprintf("%03d", i)})
	}
	f.Tampering = append(f.Tampering, diffscope.Finding{Kind: "skip_added"})
	m, results := measured(&diffscope.Scope{Facts: f})
	got := mustMake(t, m, results).Runs[0].DiffFacts
	if len(got.Tampering) != 20 || got.TamperingCount != 301 || !slices.Equal(got.TamperingKinds, []string{"skip_added", "test_deleted"}) {
		t.Errorf("%d of %d findings of %q", len(got.Tampering), got.TamperingCount, got.TamperingKinds)
	}
	if len(got.DependenciesAdded) != 20 || got.AddedCount != 300 || len(got.DependenciesRemoved) != 20 || got.RemovedCount != 300 {
		t.Errorf("%d of %d dependencies added, %d of %d removed", len(got.DependenciesAdded), got.AddedCount, len(got.DependenciesRemoved), got.RemovedCount)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if most := 3 * 20 * (longestText + 200); len(text) > most {
		t.Errorf("the facts of one run take %d bytes, at most %d were expected", len(text), most)
	}
}

// Facts are signals: without them every rate, comparison and verdict is the same.
func TestFactsDecideNothing(t *testing.T) {
	t.Parallel()
	m, results := demo()
	b := mustMake(t, m, results)
	for i := range results {
		results[i].TraceChurn = nil
		if s := results[i].DiffScope; s != nil {
			s.Facts, s.Reference, s.Outside = nil, nil, diffscope.Outside{}
		}
	}
	bare := mustMake(t, m, results)
	for i := range b.Arms {
		for _, of := range []*ScopeMedians{&b.Arms[i].DiffScope.Scored, &b.Arms[i].DiffScope.Passed} {
			of.EffectiveLines, of.TestShare, of.DocsShare, of.GeneratedShare, of.ExcessLines, of.Ratio = nil, nil, nil, nil, nil, nil
		}
		b.Arms[i].DiffScope.Signals = bare.Arms[i].DiffScope.Signals
	}
	b.Runs, b.DiffScope = bare.Runs, bare.DiffScope
	if diff := cmp.Diff(bare, b); diff != "" {
		t.Errorf("facts changed more than facts (-without +with):\n%s", diff)
	}
}

// newFields of benchmark.json are those that a file from before the facts does not have.
var newFields = []string{
	"signals", "effective_lines", "test_share", "docs_share", "generated_share", "excess_lines", "ratio", "diff_facts",
	"trace_churn", "outside_files", "outside_lines", "reference",
}

// A benchmark.json from before the facts is read, shown, compared with and judged as ever, and its facts are unknown.
func TestReadBeforeFacts(t *testing.T) {
	t.Parallel()
	m, results := demo()
	now := mustMake(t, m, results)
	data, err := now.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	data, err = json.Marshal(without(tree, newFields))
	if err != nil {
		t.Fatal(err)
	}
	old, err := Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range old.Runs {
		if r.DiffFacts != nil || r.TraceChurn != nil || r.DiffScope != nil && (r.DiffScope.OutsideFiles != nil || r.DiffScope.Reference != nil) {
			t.Fatalf("%s knows what its file does not say: %+v", r.Case, r)
		}
	}
	for _, a := range old.Arms {
		if s := a.DiffScope.Signals; s.Tampered != nil || s.AddedDependencies != nil || s.Outside != nil || s.NoChange != nil || a.DiffScope.Passed.EffectiveLines != nil {
			t.Errorf("%s knows what its file does not say: %+v", a, s)
		}
	}
	against, same := now.Against(stored(old)), now.Against(stored(now))
	if diff := cmp.Diff(same.Comparisons, against.Comparisons); diff != "" {
		t.Errorf("an old baseline compares otherwise (-new +old):\n%s", diff)
	}
	if !old.Of(mustCount(t, m, results)) {
		t.Error("an old benchmark of the same results is not the same results")
	}
	regated, err := old.Regate(now.Gate.Settings)
	if err != nil {
		t.Fatal(err)
	}
	if regated.Verdict != now.Verdict {
		t.Errorf("judged again, the old benchmark is %s, want %s", regated.Verdict, now.Verdict)
	}
}

// without is a JSON value without the named members, at any depth.
func without(value any, names []string) any {
	switch v := value.(type) {
	case map[string]any:
		for _, n := range names {
			delete(v, n)
		}
		for k := range v {
			v[k] = without(v[k], names)
		}
	case []any:
		for i := range v {
			v[i] = without(v[i], names)
		}
	}
	return value
}
