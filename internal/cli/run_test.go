package cli

import (
	"testing"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/suite"
)

// TestBudget holds the shards of a plan to the budget of the whole.
func TestBudget(t *testing.T) {
	t.Parallel()
	w := &work{plan: &plan.Plan{Cells: make([]plan.Cell, 8)}, suite: &suite.Suite{}}
	w.suite.Budget.MaxCostUSD = 20
	for _, c := range []struct {
		name  string
		asked float64
		cells int
		want  float64
	}{
		{"the whole plan has all of the suite's", 0, 8, 20},
		{"a shard has its share", 0, 2, 5},
		{"the caller's beats the suite's", 4, 8, 4},
		{"and is shared as well", 4, 6, 3},
	} {
		if got := w.budget(runOptions{MaxCostUSD: c.asked}, c.cells); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	w.suite.Budget.MaxCostUSD = 0
	if got := w.budget(runOptions{}, 2); got != 0 {
		t.Errorf("no limit became %v", got)
	}
}
