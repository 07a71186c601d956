package grade

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/assay-ci/assay/internal/diffscope"
)

func row(path string, added, removed int) diffscope.Row {
	return diffscope.Row{Path: path, Status: "modified", LinesAdded: &added, LinesRemoved: &removed, Hunks: ptr(1)}
}

// scopeOf is a scope with the rows in it.
func scopeOf(inScope, outside []diffscope.Row) *diffscope.Scope {
	s := &diffscope.Scope{Files: inScope, Outside: diffscope.Outside{Counts: countsOf(outside), Files: outside}, Counts: countsOf(inScope)}
	s.NoChange = len(inScope)+len(outside) == 0
	return s
}

func countsOf(rows []diffscope.Row) (c diffscope.Counts) {
	for _, r := range rows {
		c.FilesTouched++
		if r.LinesAdded != nil {
			c.LinesAdded += *r.LinesAdded
			c.LinesRemoved += *r.LinesRemoved
			c.Hunks += *r.Hunks
		}
	}
	return c
}

func TestScope(t *testing.T) {
	t.Parallel()
	two := scopeOf([]diffscope.Row{row("src/a.js", 3, 2), row("src/b\nc.js", 1, 0)}, nil)
	outside := scopeOf([]diffscope.Row{row("src/a.js", 1, 1)}, []diffscope.Row{row("README.md", 5, 0)})
	uncounted := scopeOf([]diffscope.Row{row("src/a.js", 1, 1), {Path: "big.bin", Status: "modified", Uncounted: "too_large"}}, nil)
	uncounted.Approximate = true
	binary := scopeOf([]diffscope.Row{{Path: "logo.png", Status: "added", Binary: true, LinesAdded: ptr(0), LinesRemoved: ptr(0), Hunks: ptr(0)}}, nil)
	badName := scopeOf([]diffscope.Row{{Path: `src/\xff.js`, PathBase64: base64.StdEncoding.EncodeToString([]byte("src/\xff.js")), Status: "added",
		LinesAdded: ptr(1), LinesRemoved: ptr(0), Hunks: ptr(1)}}, nil)
	for _, tt := range []struct {
		name     string
		params   scopeParams
		scope    *diffscope.Scope
		passed   bool
		evidence string
	}{
		{"the example of the design", scopeParams{MaxFilesTouched: ptr(1), MaxLinesChanged: ptr(8)}, two, false,
			"files touched 2 > 1; lines changed 6 <= 8 (4 added + 2 removed); hunks 2 (no limit)\n" +
				"src/a.js modified +3 -2, hunks 1\n" + `"src/b\nc.js" modified +1 -0, hunks 1`},
		{"inclusive", scopeParams{MaxFilesTouched: ptr(2), MaxLinesChanged: ptr(6), MaxHunks: ptr(2)}, two, true,
			"files touched 2 <= 2; lines changed 6 <= 6 (4 added + 2 removed); hunks 2 <= 2"},
		{"hunks", scopeParams{MaxHunks: ptr(1)}, binary, true, "files touched 1 (no limit); lines changed 0 (0 added + 0 removed) (no limit); hunks 0 <= 1"},
		{"outside is told", scopeParams{MaxFilesTouched: ptr(1)}, outside, true,
			"files touched 1 <= 1; lines changed 2 (1 added + 1 removed) (no limit); hunks 1 (no limit); files outside 1 (no limit)"},
		{"outside limit", scopeParams{MaxOutsideFiles: ptr(0)}, outside, false,
			"files touched 1 (no limit); lines changed 2 (1 added + 1 removed) (no limit); hunks 1 (no limit); files outside 1 > 0\noutside: README.md modified +5 -0, hunks 1"},
		{"allow covers outside as well", scopeParams{Allow: []string{"src"}}, outside, false,
			"files touched 1 (no limit); lines changed 2 (1 added + 1 removed) (no limit); hunks 1 (no limit); files outside 1 (no limit)\nnot allowed: README.md modified +5 -0, hunks 1"},
		{"allow holds", scopeParams{Allow: []string{"src/**"}}, two, true,
			"files touched 2 (no limit); lines changed 6 (4 added + 2 removed) (no limit); hunks 2 (no limit)"},
		{"deny", scopeParams{Deny: []string{"*.md"}}, outside, false,
			"files touched 1 (no limit); lines changed 2 (1 added + 1 removed) (no limit); hunks 1 (no limit); files outside 1 (no limit)\ndenied: README.md modified +5 -0, hunks 1"},
		{"deny sees the exact bytes", scopeParams{Deny: []string{"src/\xff.*"}}, badName, false,
			"files touched 1 (no limit); lines changed 1 (1 added + 0 removed) (no limit); hunks 1 (no limit)\ndenied: " + `"src/\\xff.js" added +1 -0, hunks 1`},
		{"lines of an uncounted file", scopeParams{MaxLinesChanged: ptr(8)}, uncounted, false,
			"files touched 2 (no limit); lines changed 2 <= 8 (1 added + 1 removed); hunks 1 (no limit); big.bin changed and was not counted (too_large); the numbers are bounds"},
		{"files with an uncounted one", scopeParams{MaxFilesTouched: ptr(2)}, uncounted, true,
			"files touched 2 <= 2; lines changed 2 (1 added + 1 removed) (no limit); hunks 1 (no limit); the numbers are bounds"},
		{"no change", scopeParams{MaxFilesTouched: ptr(1)}, scopeOf(nil, nil), false, "no change was made"},
		{"no change is right", scopeParams{MaxFilesTouched: ptr(1), AllowNoChange: true}, scopeOf(nil, nil), true,
			"files touched 0 <= 1; lines changed 0 (0 added + 0 removed) (no limit); hunks 0 (no limit)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check(t, build(t, tt.params), Evidence{Scope: tt.scope}, tt.passed, tt.evidence)
		})
	}
}

func TestScopeReference(t *testing.T) {
	t.Parallel()
	against := func(s *diffscope.Scope, reference int) *diffscope.Scope {
		size := diffscope.Scope{Counts: diffscope.Counts{FilesTouched: 1, LinesAdded: reference}}
		s.Reference = s.Against([]diffscope.Scope{size})
		return s
	}
	large := func(reference int) *diffscope.Scope {
		return against(scopeOf([]diffscope.Row{row("src/a.js", 14, 6)}, nil), reference)
	}
	uncounted := scopeOf([]diffscope.Row{row("src/a.js", 1, 1), {Path: "big.bin", Status: "modified", Uncounted: "too_large"}}, nil)
	uncounted.Approximate = true
	bound := large(20)
	bound.Reference.Approximate = true
	const counts = "files touched 1 (no limit); lines changed 20 (14 added + 6 removed) (no limit); hunks 1 (no limit); "
	for _, tt := range []struct {
		name     string
		params   scopeParams
		scope    *diffscope.Scope
		passed   bool
		evidence string
	}{
		{"told without a limit on it", scopeParams{MaxHunks: ptr(1)}, large(8), true,
			"files touched 1 (no limit); lines changed 20 (14 added + 6 removed) (no limit); hunks 1 <= 1; " +
				"excess lines 12 (reference changes 8) (no limit); ratio 2.333 (no limit)"},
		{"excess lines", scopeParams{MaxExcessLines: ptr(5)}, large(8), false,
			counts + "excess lines 12 > 5 (reference changes 8); ratio 2.333 (no limit)\nsrc/a.js modified +14 -6, hunks 1"},
		{"excess lines are inclusive", scopeParams{MaxExcessLines: ptr(12)}, large(8), true,
			counts + "excess lines 12 <= 12 (reference changes 8); ratio 2.333 (no limit)"},
		{"ratio", scopeParams{MaxRatio: ptr(2.)}, large(8), false,
			counts + "excess lines 12 (reference changes 8) (no limit); ratio 2.333 > 2\nsrc/a.js modified +14 -6, hunks 1"},
		{"ratio is inclusive", scopeParams{MaxRatio: ptr(2.1)}, large(9), true,
			counts + "excess lines 11 (reference changes 9) (no limit); ratio 2.1 <= 2.1"},
		{"a rounded ratio does not deny the verdict", scopeParams{MaxRatio: ptr(2.333)}, large(8), false,
			counts + "excess lines 12 (reference changes 8) (no limit); ratio 2.3333333333333335 > 2.333\nsrc/a.js modified +14 -6, hunks 1"},
		{"a smaller change than the reference", scopeParams{MaxExcessLines: ptr(0), MaxRatio: ptr(1.)}, large(99), true,
			counts + "excess lines 0 <= 0 (reference changes 99); ratio 0.21 <= 1"},
		{"of an uncounted file", scopeParams{MaxExcessLines: ptr(50)}, against(uncounted, 8), false,
			"files touched 2 (no limit); lines changed 2 (1 added + 1 removed) (no limit); hunks 1 (no limit); " +
				"excess lines 0 <= 50 (reference changes 8); ratio 0.333 (no limit); how far it goes beyond the reference is not known exactly; " +
				"big.bin changed and was not counted (too_large); the numbers are bounds"},
		{"of a reference that is a bound", scopeParams{MaxRatio: ptr(3.)}, bound, false,
			counts + "excess lines 0 (reference changes 20) (no limit); ratio 1 <= 3; how far it goes beyond the reference is not known exactly"},
		{"a bound without a limit on it", scopeParams{MaxHunks: ptr(1)}, bound, true,
			"files touched 1 (no limit); lines changed 20 (14 added + 6 removed) (no limit); hunks 1 <= 1; " +
				"excess lines 0 (reference changes 20) (no limit); ratio 1 (no limit)"},
		{"no change", scopeParams{MaxExcessLines: ptr(9)}, against(scopeOf(nil, nil), 8), false, "no change was made"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check(t, build(t, tt.params), Evidence{Scope: tt.scope}, tt.passed, tt.evidence)
		})
	}
	checkError(t, build(t, scopeParams{MaxRatio: ptr(3.)}), Evidence{Scope: scopeOf([]diffscope.Row{row("a", 1, 1)}, nil)},
		"there is no reference to measure the change against")
}

func TestScopeNeedsReference(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		params scopeParams
		want   string
	}{
		{scopeParams{MaxHunks: ptr(1)}, "[]"},
		{scopeParams{MaxExcessLines: ptr(0)}, "[max_excess_lines]"},
		{scopeParams{MaxExcessLines: ptr(0), MaxRatio: ptr(2.)}, "[max_excess_lines max_ratio]"},
	} {
		if got := fmt.Sprint(build(t, tt.params).(Referential).NeedsReference()); got != tt.want {
			t.Errorf("%+v needs the reference for %s, want %s", tt.params, got, tt.want)
		}
	}
}

func TestScopeUnmeasured(t *testing.T) {
	t.Parallel()
	g := build(t, scopeParams{MaxHunks: ptr(1)})
	check(t, g, Evidence{Unmeasured: "more than 1000000 entries", ByAgent: true}, false,
		"the change could not be measured, and the agent's tree was the cause: more than 1000000 entries")
	checkError(t, g, Evidence{Unmeasured: "disk full"}, "the change could not be measured: disk full")
}

func TestScopeListsFirstRows(t *testing.T) {
	t.Parallel()
	var rows []diffscope.Row
	for i := range 100 {
		rows = append(rows, row(fmt.Sprintf("f%02d", i), 1, 0))
	}
	got, err := build(t, scopeParams{MaxFilesTouched: ptr(1)}).Grade(t.Context(), Evidence{Scope: scopeOf(rows, nil)})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(got.Evidence, "\n")
	if len(lines) != maxRows+2 || lines[len(lines)-1] != "and 80 more" || len(got.Evidence) > maxText {
		t.Errorf("evidence\n%s", got.Evidence)
	}
}

// TestScopeLimitsAreMonotone: a change that keeps a limit keeps every larger one, and a smaller change keeps it too.
func TestScopeLimitsAreMonotone(t *testing.T) {
	t.Parallel()
	passes := func(t *rapid.T, rows []diffscope.Row, limit int) bool {
		g, err := buildScope(settings{scopeParams{MaxLinesChanged: &limit, AllowNoChange: true}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := g.Grade(t.Context(), Evidence{Scope: scopeOf(rows, nil)})
		if err != nil {
			t.Fatal(err)
		}
		return *s.Passed
	}
	rapid.Check(t, func(t *rapid.T) {
		var rows []diffscope.Row
		for i := range rapid.IntRange(0, 5).Draw(t, "rows") {
			rows = append(rows, row(fmt.Sprint(i), rapid.IntRange(0, 9).Draw(t, "added"), rapid.IntRange(0, 9).Draw(t, "removed")))
		}
		limit := rapid.IntRange(0, 60).Draw(t, "limit")
		if passes(t, rows, limit) && (!passes(t, rows, limit+1) || !passes(t, rows[:len(rows)/2], limit)) {
			t.Fatalf("a larger limit or a smaller change fails at %d", limit)
		}
	})
}
