package run

import (
	"fmt"
	"strings"

	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
)

// slack absorbs the rounding of a weighted mean that should equal its threshold.
const slack = 1e-9

// ended gives the status that the agent's end alone decides, and whether its work is to be graded. An empty status leaves
// the decision to the grading. worked says that the agent showed a sign of work: an answer, output or a changed file.
func ended(o harness.Outcome, worked bool) (status result.Status, class trace.Class, detail string, graded bool) {
	switch {
	case len(o.Survivors) > 0:
		return result.Errored, trace.ClassExecutor, fmt.Sprintf("%d processes outlived the agent and could not be ended: %s",
			len(o.Survivors), strings.Join(o.Survivors, "; ")), false
	case o.Stop == trace.StopEndTurn && worked:
		return "", "", "", true
	case o.Stop == trace.StopEndTurn:
		return result.Errored, trace.ClassHarnessCrash, "the agent ended at once, without an answer, output or a change", false
	case o.Stop == trace.StopTimeout && !worked:
		return result.Errored, orClass(o.Class, trace.ClassStalled), orText(o.Detail, "the agent reached its time limit without an answer, output or a change"), false
	case crashed(o.Stop):
		return result.Errored, orClass(o.Class, trace.ClassHarnessCrash), orText(o.Detail, "the agent ended by "+string(o.Stop)), false
	default:
		return result.Failed, "", orText(o.Detail, "the agent ended by "+string(o.Stop)), true
	}
}

// crashed tells whether the agent ended in a way that leaves nothing to grade.
func crashed(s trace.StopReason) bool {
	return s == trace.StopError || s == trace.StopKilled || s == trace.StopNoTerminalEvent
}

func orClass(c, otherwise trace.Class) trace.Class {
	if c == "" {
		return otherwise
	}
	return c
}

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// graded gives the status that the scores decide, with the weighted mean of those that are no gates; the mean is nil when
// all are gates. One score that could not be told makes the cell errored: neither a pass nor a failure was measured.
func graded(scores []result.Score, threshold float64) (status result.Status, class trace.Class, detail string, mean *float64) {
	var sum, weights float64
	var broken, failed []string
	for _, s := range scores {
		switch {
		case s.Passed == nil:
			broken = append(broken, s.ID+": "+s.Error)
		case s.Gate && !*s.Passed:
			failed = append(failed, s.ID)
		case !s.Gate:
			weights += s.Weight
			sum += s.Weight * *s.Value
		}
	}
	if len(broken) > 0 {
		return result.Errored, trace.ClassGrader, strings.Join(broken, "; "), nil
	}
	if weights > 0 {
		m := sum / weights
		mean = &m
	}
	switch {
	case len(failed) > 0:
		return result.Failed, "", "gate not held: " + strings.Join(failed, ", "), mean
	case mean != nil && *mean < threshold-slack:
		return result.Failed, "", fmt.Sprintf("score %.3g is below the threshold %.3g", *mean, threshold), mean
	}
	return result.Passed, "", "", mean
}
