package cli

import (
	"errors"
	"slices"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/suite"
)

// copySuffix ends the name of the copy of a condition. No condition of a suite can have it in its name.
const copySuffix = "~aa"

// runTwice leaves of the conditions the baseline alone, and sets a copy beside it.
func runTwice(s *suite.Suite) error {
	at := slices.IndexFunc(s.Conditions, func(c suite.Condition) bool { return c.Baseline })
	if at < 0 {
		return usage(errors.New("--aa runs the baseline twice, and no condition is marked as the baseline"))
	}
	again := s.Conditions[at]
	again.ID, again.Baseline, again.CopyOf = again.ID+copySuffix, false, again.ID
	s.Conditions = []suite.Condition{s.Conditions[at], again}
	return nil
}

// neverGates are the settings of a gate that lets everything pass that was measured: two equal arms have nothing to be failed
// for.
func neverGates(g result.Gate) result.Gate {
	g.FailOn, g.Underpowered, g.MinPassRate = []string{string(bench.Invalid)}, "warn", nil
	return g
}
