package run

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
)

// evidence are the files of a cell that its agent left; grading again starts from them.
var evidence = []string{"trace.jsonl", "agent.log", result.PatchName}

// unrebuildable says why the kept evidence of a cell does not hold its whole tree; empty when it does.
func unrebuildable(kept result.Result) string {
	switch {
	case kept.DiffScope == nil:
		return "its change was not measured"
	case slices.ContainsFunc(slices.Concat(kept.DiffScope.Files, kept.DiffScope.Outside.Files),
		func(r diffscope.Row) bool { return r.Uncounted != "" }):
		return "it changed files that no patch can hold"
	case kept.Redacted[result.PatchName] > 0:
		return "a secret was taken out of its patch"
	}
	return ""
}

// regrade grades the kept work of a cell once more: its graders changed, its agent did not, so no agent is run. done is
// false when the work cannot be rebuilt from what was kept.
func (r *runner) regrade(ctx context.Context, c plan.Cell, kept result.Result) (done bool, err error) {
	if why := unrebuildable(kept); why != "" {
		if r.Regrade {
			r.tell(Event{Kind: Ungraded, Cell: c, Result: &kept, Why: why})
		}
		return false, nil
	}
	entry, err := r.Ledger.Begin(c, "its graders changed, its agent did not: graded again", false)
	if err != nil {
		return false, err
	}
	r.tell(Event{Kind: Started, Cell: c, Attempt: 1})
	res, err := r.kit.relive(ctx, c, entry, kept)
	if ctx.Err() != nil {
		return false, errors.Join(ErrInterrupted, entry.Abandon("interrupted", res))
	}
	if err != nil {
		return false, entry.Abandon("errored", res)
	}
	if err := r.Ledger.Commit(result.Finished{Entry: entry, Result: res, Kept: true}); err != nil {
		return false, err
	}
	r.tell(Event{Kind: Finished, Cell: c, Result: &res, Attempt: 1})
	return true, nil
}

// relive gives a cell the part of its life that comes after its agent. The error says that the tree could not be rebuilt.
func (k *Kit) relive(ctx context.Context, c plan.Cell, e *result.Entry, kept result.Result) (result.Result, error) {
	l := k.newLife(c, e)
	l.res.Agent, l.res.Started, l.res.Earlier = kept.Agent, kept.Started, kept.Earlier
	l.res.PolicyRules, l.res.ConditionVerified = kept.PolicyRules, kept.ConditionVerified
	l.res.Beside.Responder = kept.Beside.Responder
	l.res.TraceChurn = kept.TraceChurn // same trace, same trees; the work folder that its paths lie in is gone
	l.res.Took.Agent = kept.Took.Agent
	l.res.Redacted = redactedBefore(kept)
	l.outcome = harness.Outcome{
		Stop: kept.Agent.Stop, Detail: kept.Agent.Detail, Turns: kept.Agent.Turns, Usage: kept.Agent.Usage,
		Answered: kept.Agent.Answered, Survivors: kept.Agent.Survivors,
	}
	started := time.Now()
	for _, step := range []func(context.Context) error{l.open, l.setup, l.snapshotBefore, l.guardAgain, l.rebuild} {
		if err := step(ctx); err != nil {
			return l.res, errors.Join(err, l.close(context.WithoutCancel(ctx)))
		}
	}
	l.res.Egress = kept.Egress // of the place that the agent was in
	err := l.assess(ctx)
	if err = errors.Join(err, l.close(context.WithoutCancel(ctx))); err != nil {
		l.fail(err)
	}
	l.res.Took.Total = kept.Took.Agent + time.Since(started)
	return l.res, nil
}

// guardAgain is guardHidden for an agent that has worked in an earlier attempt.
func (l *life) guardAgain(ctx context.Context) error {
	err := l.guardHidden(ctx)
	if l.watch != nil {
		l.watch.Order.Earlier = true
	}
	return err
}

// redactedBefore counts what was taken out of the evidence when it was new.
func redactedBefore(kept result.Result) map[string]int {
	counts := map[string]int{}
	for _, name := range evidence {
		if n := kept.Redacted[name]; n > 0 {
			counts[name] = n
		}
	}
	return counts
}

// assess measures and grades the work, up to the first thing that cannot be done.
func (l *life) assess(ctx context.Context) error {
	for _, step := range []func(context.Context) error{l.refer, l.calibrate, l.measure, l.searchWork, l.grade} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rebuild makes the tree that the agent left from the first tree and the kept patch, and takes the other evidence over.
func (l *life) rebuild(context.Context) error {
	var patch []byte
	for _, name := range evidence {
		f, err := l.entry.Committed(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		data, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		if name == result.PatchName {
			patch = data // measure writes it again
			continue
		}
		if _, err := l.entry.Create(name).Write(data); err != nil {
			return err
		}
	}
	tree := *l.before
	if len(patch) > 0 {
		var err error
		if tree, err = diffscope.Apply(*l.before, patch); err != nil {
			return &fault{trace.ClassUnmeasured, err}
		}
	}
	l.after = &tree
	return nil
}
