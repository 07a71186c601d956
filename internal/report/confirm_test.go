package report

import (
	"testing"

	"github.com/assay-ci/assay/internal/bench"
)

// A case that fresh trials convicted is told by them, and one that they cleared is not told at all.
func TestFreshTrialsAreTold(t *testing.T) {
	t.Parallel()
	screen := bench.CasePair{Case: "timezone", Phase: "screen", Base: bench.Passes{Passed: 3, N: 3}, Head: bench.Passes{N: 3}}
	fresh := &bench.Confirmation{Base: bench.Passes{Passed: 8, N: 8}, Head: bench.Passes{Passed: 1, N: 8}}
	convicted, cleared, alone := screen, screen, screen
	convicted.Phase, convicted.Confirm, convicted.Regressed = "confirm", fresh, true
	cleared.Phase, cleared.Confirm = "confirm", &bench.Confirmation{Base: fresh.Base, Head: fresh.Base}
	alone.Regressed = true
	for _, c := range []struct {
		name        string
		pair        bench.CasePair
		list, table string
	}{
		{"convicted", convicted, "timezone passed 8 of 8 before and 1 of 8 now, in fresh trials", "3/3 → 0/3, fresh 8/8 → 1/8"},
		{"cleared", cleared, "", "3/3 → 0/3, fresh 8/8 → 8/8"},
		{"by the screen alone", alone, "timezone passed 3 of 3 before and 0 of 3 now", "3/3 → 0/3"},
	} {
		if got := caseList(bench.Comparison{PCases: []bench.CasePair{c.pair}}, plain, true); got != c.list {
			t.Errorf("%s: %q, want %q", c.name, got, c.list)
		}
		if got := passes(moved{CasePair: &c.pair}); got != c.table {
			t.Errorf("%s: %q, want %q", c.name, got, c.table)
		}
	}
}
