package run

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/grade"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
)

// beside opens the cell's door for what is asked of models beside its agent, by the responder or by judges. Each lane has a
// cassette of its own, since a cell that is graded again asks its judges again and its responder not.
func (l *life) beside(lane string) (*gateway.Cell, error) {
	if l.kit.gateway == nil {
		return nil, errors.New("there is no gateway to a model")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if door := l.asides[lane]; door != nil {
		return door, nil
	}
	door, err := l.kit.gateway.Open(gateway.Spec{Name: l.doorName() + "/" + lane})
	if err != nil {
		return nil, err
	}
	if l.asides == nil {
		l.asides = map[string]*gateway.Cell{}
	}
	l.asides[lane] = door
	return door, nil
}

// closeAsides ends what is asked beside the agent, and writes down what it used.
func (l *life) closeAsides() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	for _, lane := range slices.Sorted(maps.Keys(l.asides)) {
		seen := l.asides[lane].Close()
		switch lane {
		case "responder":
			l.res.Beside.Responder = seen.Aux.Responder
		case "judge":
			l.res.Beside.Judge = seen.Aux.Judge
		}
		if seen.Mismatch != "" {
			err = errors.Join(err, &fault{trace.ClassCassette, errors.New(seen.Mismatch)})
		}
	}
	return err
}

// A trial is the calibration of one judge, which is done once in a run.
type trial struct {
	mu   sync.Mutex
	done bool
	err  error // why there is none
}

// calibrate tries the judges of the case that are to be tried, unless another cell has. One that is not to be heard is found
// before the agent costs anything.
func (l *life) calibrate(ctx context.Context) error {
	for _, g := range l.task.graders {
		judge, ok := g.Grader.(grade.Calibrated)
		if !ok || !judge.NeedsCalibration() {
			continue
		}
		if err := l.try(ctx, g, judge); err != nil {
			return l.unheard(g, judge, err)
		}
		if _, err := judge.Standing(); err != nil {
			return l.unheard(g, judge, err)
		}
	}
	return nil
}

// unheard is why nothing can be measured without the judge.
func (l *life) unheard(g grader, judge grade.Calibrated, err error) error {
	judged, _ := judge.Standing() // err says more
	l.res.Scores = append(l.res.Scores, result.Score{
		ID: g.ID, Type: g.Block.Kind, Gate: g.Assertion.Gate, Weight: g.Weight, Error: clip(err.Error(), 2<<10), Judged: &judged,
	})
	var f *fault
	if errors.As(err, &f) {
		return err
	}
	return &fault{trace.ClassGrader, err}
}

// try calibrates a judge once. What the calls used is of this cell's attempt, so that every call is counted once.
func (l *life) try(ctx context.Context, g grader, judge grade.Calibrated) error {
	g.trial.mu.Lock()
	defer g.trial.mu.Unlock()
	if g.trial.done {
		return g.trial.err
	}
	err := l.tryNow(ctx, g, judge)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	g.trial.done, g.trial.err = true, err
	return err
}

func (l *life) tryNow(ctx context.Context, g grader, judge grade.Calibrated) error {
	if l.kit.gateway == nil {
		return errors.New("there is no gateway to a model")
	}
	dir, err := fs.Sub(l.kit.fsys, l.task.Dir)
	if err != nil {
		return err
	}
	door, err := l.kit.gateway.Open(gateway.Spec{Name: l.cell.Case + "/calibration/" + g.ID})
	if err != nil {
		return err
	}
	ask := func(ctx context.Context, r grade.JudgeRequest) (string, error) { return l.kit.judgeBy(ctx, door, r) }
	err = judge.Calibrate(ctx, patient(ask, l.kit.suite.Retries), dir)
	seen := door.Close()
	l.res.Beside.Calibration = plus(l.res.Beside.Calibration, seen.Aux.Judge)
	if seen.Mismatch != "" {
		return &fault{trace.ClassCassette, errors.New(seen.Mismatch)}
	}
	return err
}

// patient asks again when a model is busy: one of some hundred calls must not cost all the others.
func patient(ask grade.Judge, retries int) grade.Judge {
	return func(ctx context.Context, r grade.JudgeRequest) (string, error) {
		for n := 1; ; n++ {
			answer, err := ask(ctx, r)
			var failed *gateway.CallError
			if err == nil || n > retries || !errors.As(err, &failed) || !failed.Fault.Retryable {
				return answer, err
			}
			select {
			case <-time.After(backoff(n)):
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
	}
}

// misjudged tells whether a judge of the cell's case is not to be heard in this run: another attempt would not help.
func (k *Kit) misjudged(c plan.Cell) bool {
	return slices.ContainsFunc(k.cases[c.Case].graders, func(g grader) bool {
		judge, ok := g.Grader.(grade.Calibrated)
		if !ok || !judge.NeedsCalibration() {
			return false
		}
		g.trial.mu.Lock()
		defer g.trial.mu.Unlock()
		_, err := judge.Standing()
		return g.trial.done && err != nil
	})
}

// plus is the sum of two usages of a gateway. What one of them does not know is not known of both.
func plus(a, b *trace.Usage) *trace.Usage {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return &trace.Usage{
		Input: add(a.Input, b.Input), CacheRead: add(a.CacheRead, b.CacheRead), CacheWrite: add(a.CacheWrite, b.CacheWrite),
		Output: add(a.Output, b.Output), Reasoning: add(a.Reasoning, b.Reasoning), CostUSD: add(a.CostUSD, b.CostUSD),
		Scope: a.Scope, Source: a.Source,
	}
}

func add[N int64 | float64](a, b *N) *N {
	if a == nil || b == nil {
		return nil
	}
	sum := *a + *b
	return &sum
}
