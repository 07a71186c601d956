package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/bench"
)

func ptr[T any](v T) *T { return &v }

// signalLine is the line of a comment that tells what is worth a look, or nothing.
func signalLine(b bench.Benchmark) string {
	for line := range strings.Lines(string(Page{State: Done, Benchmark: &b}.Comment(CommentBudget))) {
		if strings.HasPrefix(line, "⚠️ Worth a look") {
			return strings.ReplaceAll(strings.TrimSpace(line), "\u00a0", " ")
		}
	}
	return ""
}

func TestSignalLine(t *testing.T) {
	t.Parallel()
	const worth = "⚠️ Worth a look, and no verdict: "
	none := bench.ArmSignals{Inspected: 9, Tampered: ptr(0), AddedDependencies: ptr(2), Measured: 9, Outside: ptr(0), NoChange: ptr(1)}
	skips := bench.ArmSignals{Inspected: 8, Tampered: ptr(2), TamperingKinds: []string{"fewer_assertions", "skip_added"}, Measured: 9, Outside: ptr(0)}
	outside := bench.ArmSignals{Measured: 9, Outside: ptr(3)}
	for _, c := range []struct {
		name       string
		base, head bench.ArmSignals
		want       string
	}{
		{"nothing known", bench.ArmSignals{}, bench.ArmSignals{}, ""},
		{"nothing found", none, none, ""},
		{"only the baseline", skips, none, ""},
		{"tampering", none, skips, worth + "`with` shows signals of test tampering (fewer assertions, skip added) in 2 of 8 cells (was 0 of 9 cells)."},
		{"tampering, baseline not known", bench.ArmSignals{}, skips, worth + "`with` shows signals of test tampering (fewer assertions, skip added) in 2 of 8 cells."},
		{"outside", outside, outside, worth + "`with` touched existing files outside scope in 3 of 9 cells (was 3 of 9 cells)."},
		{"both", none, bench.ArmSignals{Inspected: 1, Tampered: ptr(1), TamperingKinds: []string{"test_deleted"}, Measured: 1, Outside: ptr(1)},
			worth + "`with` shows signals of test tampering (test deleted) in 1 of 1 cell (was 0 of 9 cells) and touched existing files outside scope in 1 of 1 cell (was 0 of 9 cells)."},
	} {
		b := pair(t, 2, "PPP", "PPF")
		b.Arms[0].DiffScope.Signals, b.Arms[1].DiffScope.Signals = c.base, c.head
		if diff := cmp.Diff(c.want, signalLine(b)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// However many arms and kinds there are, the line stays one line of bounded length, and says what it leaves out.
func TestSignalLineIsBounded(t *testing.T) {
	t.Parallel()
	b := pair(t, 2, "PPP", "PPF")
	var kinds []string
	for i := range 100 {
		kinds = append(kinds, strings.Repeat(fmt.Sprint("kind ", i, "|"), 50))
	}
	head, comparison := b.Arms[1], b.Comparisons[0]
	b.Arms, b.Comparisons = b.Arms[:1], nil
	for i := range 9 {
		a, c := head, comparison
		a.Condition = fmt.Sprint("with-", i)
		a.DiffScope.Signals = bench.ArmSignals{Inspected: 1, Tampered: ptr(1), TamperingKinds: kinds}
		c.Head.ID = a.ArmID
		b.Arms, b.Comparisons = append(b.Arms, a), append(b.Comparisons, c)
	}
	line := signalLine(b)
	if !strings.HasSuffix(line, "; and 4 more arms.") || len(line) > 6000 {
		t.Errorf("%d bytes: %s", len(line), line)
	}
}

// A cell that was measured without facts, as older ledgers have them, shows no number that nobody counted.
func TestUnknownFactsShowNoNumber(t *testing.T) {
	t.Parallel()
	b := example(t)
	page, err := Markdown(b)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "## Facts about the changes\n")
	if !found {
		t.Fatal("report.md has no facts")
	}
	section, _, _ = strings.Cut(section, "\nLines and shares")
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| claude") || strings.HasPrefix(line, "| codex") {
			cells := strings.Split(line, " | ")
			if want := []string{"–", "–", "–", "–"}; !slices.Equal(cells[1:5], want) {
				t.Errorf("the row shows %q, want %q", cells[1:5], want)
			}
		}
	}
	if strings.Contains(string(page), "over the reference") || strings.Contains(string(page), "reviewer should") {
		t.Error("report.md tells of references or signals, and there are none")
	}
	if got, want := runFacts(b.Runs[0]), []string{"effective lines, kinds of files, tampering and dependencies not measured"}; !slices.Equal(got, want) {
		t.Errorf("the cell shows %q, want %q", got, want)
	}
	b.Runs[0].DiffScope = nil
	if got := append(runFacts(b.Runs[0]), runSignals(b.Runs[0])...); got != nil {
		t.Errorf("a cell that was not measured shows %q", got)
	}
}

func TestRunFacts(t *testing.T) {
	t.Parallel()
	run := bench.Run{
		DiffScope: &bench.Scope{FilesTouched: 1, OutsideFiles: ptr(2), OutsideLines: ptr(5), Reference: &bench.Excess{ExcessLines: 7, Ratio: 2.5, FilePrecision: ptr(0.5), FileRecall: 1, Approximate: true}},
		DiffFacts: &bench.DiffFacts{
			EffectiveLines: 10, WhitespaceLines: 2, CommentLines: 1, UnlexedLines: 3, LinesByBucket: bench.LinesByBucket{Code: 8, Lockfile: 4},
			DependenciesAdded: []string{"x", "a\nb"}, AddedCount: 9, NewLinks: 1, LeavingLinks: 1,
		},
		TraceChurn: &bench.TraceChurn{Edits: 1, LinesWritten: ptr(20), LinesLost: ptr(0), PathsUndone: 1},
	}
	want := []string{
		"outside scope: 2 files, lines changed 5",
		"against the reference: 7 lines more, ratio 2.5, 100 % of its files touched, 50 % of the touched files also in it; bounds only",
		"effective lines 10, only blanks 2, only comments 1 (not known of 3 lines)",
		"lines changed by kind of file: code 8, lockfiles 4",
		"dependencies added: x, a b, 7 more",
		"new links 1, links out of the tree 1",
		"trace: 1 edit wrote 20 lines, 0 of them not in the final tree, 1 file undone",
	}
	if diff := cmp.Diff(want, runFacts(run)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	run.DiffScope.OutsideLines, run.DiffScope.Reference.FilePrecision, run.TraceChurn.LinesLost = nil, nil, nil
	for _, line := range []string{
		"outside scope: 2 files, lines changed not known",
		"against the reference: 7 lines more, ratio 2.5, 100 % of its files touched; bounds only",
		"trace: 1 edit, lines written not known, 1 file undone",
	} {
		if got := runFacts(run); !slices.Contains(got, line) {
			t.Errorf("%q is not in %q", line, got)
		}
	}
	run.DiffScope = &bench.Scope{NoChange: true}
	if got := runFacts(run); !slices.Equal(got, []string{"trace: 1 edit, lines written not known, 1 file undone"}) {
		t.Errorf("a cell without a change shows %q", got)
	}
}
