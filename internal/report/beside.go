package report

import (
	"fmt"
	"strings"

	"github.com/assay-ci/assay/internal/bench"
)

// beside writes what was asked of models beside the agents: what it cost, and how far the judges can be trusted.
func (w *writer) beside(b bench.Benchmark) {
	var parts []string
	for _, p := range []struct {
		of   string
		cost bench.Cost
	}{{"the responder", b.Beside.Responder}, {"judges", b.Beside.Judge}, {"the calibration of judges", b.Beside.Calibration}} {
		switch {
		case p.cost.USD == nil && p.cost.Unknown == 0:
		case p.cost.USD == nil:
			parts = append(parts, p.of+" at a cost that is not known")
		default:
			parts = append(parts, p.of+" "+money(p.cost))
		}
	}
	if len(parts) > 0 {
		w.line("Models asked beside the agents, in none of the costs above: %s.", strings.Join(parts, ", "))
	}
	if len(b.Judges) == 0 {
		return
	}
	w.line("## Judges")
	w.table([]string{"assertion", "judge", "cells", "votes with the majority", "on work that people have judged"}, "lllll")
	for _, j := range b.Judges {
		votes := unknown
		if j.Votes > 0 {
			votes = fmt.Sprintf("%d of %d", j.Agreed, j.Votes)
		}
		w.row(codeName(j.Case, j.Assertion), code(j.Model, nameSize), fmt.Sprint(j.Cells), votes, calibration(j))
	}
}

// calibration is how a judge did on work that people have judged.
func calibration(j bench.Judge) string {
	c := j.Calibration
	if c == nil {
		return "not calibrated"
	}
	said := fmt.Sprintf("passed %d of %d that hold, failed %d of %d that do not (kappa %.2f, AC1 %.2f, %d undecided)",
		c.HoldsPassed, c.Holding, c.FailsRefused, c.Failing, c.Kappa, c.AC1, c.Undecided)
	if !c.Heard {
		return "**not heard**: " + said
	}
	return said
}
