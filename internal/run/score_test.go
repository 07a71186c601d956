package run

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/grade"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/suite"
)

// fickle is a grader that writes down what it sees and can tell only when it is asked for the second time.
type fickle struct{ asked int }

func (f *fickle) Grade(_ context.Context, e grade.Evidence) (result.Score, error) {
	f.asked++
	if _, err := fmt.Fprintf(e.Log, "asked %d times\n", f.asked); err != nil {
		return result.Score{}, err
	}
	if f.asked == 1 {
		return result.Score{}, errors.New("the grader could not tell")
	}
	yes, one := true, 1.0
	return result.Score{Passed: &yes, Value: &one}, nil
}

// A grader that is asked again writes a log of its own, so that the first one stands in no way.
func TestAGraderIsAskedAgain(t *testing.T) {
	t.Parallel()
	ledger, err := result.Open(t.Context(), t.TempDir(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	entry, err := ledger.Begin(plan.Cell{Case: "a", Harness: "h", Model: "m", Condition: "c", Trial: 1, Key: "k"}, "first attempt", false)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := diffscope.Snapshot(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := &life{kit: &Kit{suite: &suite.Suite{Retries: 1}}, entry: entry, after: &tree, task: &task{}}
	l.task.graders = []grader{{Assertion: suite.Assertion{ID: "right", Weight: 1}, Grader: &fickle{}}}
	if err := l.scores(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := l.res.Scores[0]; s.Passed == nil || !*s.Passed || s.Error != "" {
		t.Errorf("%+v", s)
	}
}
