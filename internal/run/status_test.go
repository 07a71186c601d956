package run

import (
	"math"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// How an agent ended decides the status, and whether its work is looked at. Only an end of its own, after a sign of work,
// leaves the decision to the grading.
func TestA03Ended(t *testing.T) {
	t.Parallel()
	type want struct {
		Status result.Status
		Class  trace.Class
		Graded bool
	}
	for name, test := range map[string]struct {
		outcome harness.Outcome
		worked  bool
		want    want
	}{
		"a turn that ended after work":        {harness.Outcome{Stop: trace.StopEndTurn}, true, want{"", "", true}},
		"a turn that ended without any":       {harness.Outcome{Stop: trace.StopEndTurn}, false, want{result.Errored, trace.ClassHarnessCrash, false}},
		"time limit after work":               {harness.Outcome{Stop: trace.StopTimeout}, true, want{result.Failed, "", true}},
		"time limit in silence":               {harness.Outcome{Stop: trace.StopTimeout}, false, want{result.Errored, trace.ClassStalled, false}},
		"time limit after a provider's error": {harness.Outcome{Stop: trace.StopTimeout, Class: trace.ClassModelAPI}, false, want{result.Errored, trace.ClassModelAPI, false}},
		"turn limit":                          {harness.Outcome{Stop: trace.StopMaxTurns}, true, want{result.Failed, "", true}},
		"cost limit":                          {harness.Outcome{Stop: trace.StopMaxCost}, true, want{result.Failed, "", true}},
		"refusal":                             {harness.Outcome{Stop: trace.StopRefusal}, true, want{result.Failed, "", true}},
		"output limit":                        {harness.Outcome{Stop: trace.StopCancelled, Detail: harness.OutputLimit}, true, want{result.Failed, "", true}},
		"an error of the agent":               {harness.Outcome{Stop: trace.StopError, Class: trace.ClassHarnessCrash}, true, want{result.Errored, trace.ClassHarnessCrash, false}},
		"an error without a class":            {harness.Outcome{Stop: trace.StopError}, true, want{result.Errored, trace.ClassHarnessCrash, false}},
		"a signal that we did not send":       {harness.Outcome{Stop: trace.StopKilled}, true, want{result.Errored, trace.ClassHarnessCrash, false}},
		"no end at all":                       {harness.Outcome{Stop: trace.StopNoTerminalEvent}, true, want{result.Errored, trace.ClassHarnessCrash, false}},
		"processes that could not be ended":   {harness.Outcome{Stop: trace.StopEndTurn, Survivors: []string{"x"}}, true, want{result.Errored, trace.ClassExecutor, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got want
			var detail string
			got.Status, got.Class, detail, got.Graded = ended(test.outcome, test.worked)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.Status != "" && detail == "" {
				t.Error("no word of why")
			}
		})
	}
}

func yes(id string, gate bool, weight float64) result.Score { return told(id, gate, weight, 1) }
func no(id string, gate bool, weight float64) result.Score  { return told(id, gate, weight, 0) }

func told(id string, gate bool, weight, value float64) result.Score {
	passed := value == 1
	return result.Score{ID: id, Gate: gate, Weight: weight, Passed: &passed, Value: &value}
}

func TestGraded(t *testing.T) {
	t.Parallel()
	half, two := 0.5, 2.0/3
	one, zero := 1.0, 0.0
	for name, test := range map[string]struct {
		scores    []result.Score
		threshold float64
		want      result.Status
		mean      *float64
	}{
		"gates alone can pass":                     {[]result.Score{yes("g", true, 1)}, 1, result.Passed, nil},
		"a gate adds no credit":                    {[]result.Score{yes("g", true, 9), no("a", false, 1)}, 0.5, result.Failed, &zero},
		"a gate must hold":                         {[]result.Score{no("g", true, 1), yes("a", false, 1)}, 0, result.Failed, &one},
		"the mean is weighted":                     {[]result.Score{yes("a", false, 2), no("b", false, 1)}, 0.6, result.Passed, &two},
		"below the threshold":                      {[]result.Score{yes("a", false, 1), no("b", false, 1)}, 0.6, result.Failed, &half},
		"at the threshold":                         {[]result.Score{yes("a", false, 1), no("b", false, 1)}, 0.5, result.Passed, &half},
		"what could not be told is neither":        {[]result.Score{yes("g", true, 1), {ID: "b", Error: "broken"}}, 0, result.Errored, nil},
		"a broken grader beats a gate that failed": {[]result.Score{no("g", true, 1), {ID: "b", Error: "broken"}}, 0, result.Errored, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, class, detail, mean := graded(test.scores, test.threshold)
			if status != test.want {
				t.Errorf("%s (%s), want %s", status, detail, test.want)
			}
			if (class == trace.ClassGrader) != (status == result.Errored) {
				t.Errorf("class %q of %s", class, status)
			}
			if diff := cmp.Diff(test.mean, mean); diff != "" {
				t.Errorf("mean (-want +got):\n%s", diff)
			}
		})
	}
}

// Laws: the order of assertions changes nothing, and turning a failed assertion into a passed one never lowers a cell.
func TestGradedLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		scores := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) result.Score {
			return told("x", rapid.Bool().Draw(t, "gate"), rapid.Float64Range(0.01, 10).Draw(t, "weight"), float64(rapid.IntRange(0, 1).Draw(t, "value")))
		}), 1, 6).Draw(t, "scores")
		threshold := rapid.Float64Range(0, 1).Draw(t, "threshold")
		status, _, _, mean := graded(scores, threshold)
		shuffled := rapid.Permutation(scores).Draw(t, "shuffled")
		again, _, _, meanAgain := graded(shuffled, threshold)
		if mean != nil && math.Abs(*mean-*meanAgain) > 1e-12 {
			t.Fatalf("the order changes the mean: %v, %v", *mean, *meanAgain)
		}
		if status != again && (mean == nil || math.Abs(*mean-threshold) > 1e-6) {
			t.Fatalf("the order changes the status: %s, %s", status, again)
		}
		better := append([]result.Score{}, scores...)
		i := rapid.IntRange(0, len(scores)-1).Draw(t, "i")
		better[i] = yes("x", scores[i].Gate, scores[i].Weight)
		if improved, _, _, _ := graded(better, threshold); status == result.Passed && improved != result.Passed {
			t.Fatal("a better score lowered the cell")
		}
	})
}

func TestBackoffGrowsAndIsBounded(t *testing.T) {
	t.Parallel()
	for n := 1; n < 70; n++ {
		for range 50 {
			if d := backoff(n); d < 0 || d >= longestPause || n == 1 && d >= firstPause {
				t.Fatalf("pause before attempt %d is %v", n+1, d)
			}
		}
	}
}

// A failed cell has no class, so nothing here can make it run again; of the errors, those that stay wrong do not.
func TestRetryable(t *testing.T) {
	t.Parallel()
	for class, want := range map[trace.Class]bool{
		trace.ClassModelAPI: true, trace.ClassModelLimit: true, trace.ClassSandbox: true, trace.ClassEnvironment: true,
		trace.ClassHarnessCrash: true, trace.ClassGrader: true, trace.ClassStalled: true,
		trace.ClassModelAuth: false, trace.ClassHarnessConfig: false, trace.ClassModelRequest: false, trace.ClassCondition: false,
	} {
		if got := retryable(class); got != want {
			t.Errorf("%s: %v, want %v", class, got, want)
		}
	}
	if d := time.Duration(0); backoff(1000) < d {
		t.Error("a late attempt overflows")
	}
}
