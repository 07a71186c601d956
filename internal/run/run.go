// Package run makes results: it builds everything that a plan needs, finds out what cannot be reached before any work is
// done, and then gives each cell its life. Build a [Kit] from a suite with [Build]; ask it for [Kit.Versions] and
// [Kit.Preflight]; then call [Run], and read the ledger.
//
// A cell that is in the ledger with its key and a final status is not run again. A cell that could not be measured is
// tried again, a failed one never is: a retry that depends on the outcome would bend every rate.
package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"golang.org/x/sync/errgroup"
)

// Options say how the cells of a plan are run.
type Options struct {
	Ledger    *result.Ledger
	Jobs      int                       // cells at the same time, at least 1
	Retries   int                       // further attempts of a cell that errored
	MaxCost   float64                   // US dollars of the whole run; 0 is no limit
	Unreached map[string]string         // why a cell is skipped, by key, from Kit.Preflight
	Regrade   bool                      // grade the kept cells again, and run no agent
	Fresh     bool                      // run cells that the ledger already holds
	Enough    func() bool               // asked before a cell starts: true leaves it out, since it could change nothing; may be nil
	Progress  func(Event)               // told what happens, from one goroutine at a time; may be nil
	Backoff   func(n int) time.Duration // pause before attempt n+1; nil is the default
}

// An Event is one step of a run, for whoever shows its progress.
type Event struct {
	Kind    EventKind
	Cell    plan.Cell
	Result  *result.Result // of Finished, Retrying and Ungraded
	Kept    bool           // of Finished: the ledger held it, no agent was started
	Attempt int
	Wait    time.Duration // of Retrying: the pause before the next attempt
	Why     string        // of Ungraded: why the tree cannot be rebuilt
}

// EventKind says what happened to a cell.
type EventKind int

// The kinds of events.
const (
	Started EventKind = iota
	Retrying
	Finished
	Ungraded // the kept work cannot be graded again: the record stays as it was
)

// ErrInterrupted says that the run was stopped from outside. What was committed stays; what was under way was not.
var ErrInterrupted = errors.New("interrupted")

// Run gives every cell its life, in order, Jobs at a time, and returns when the ledger holds them all. An agent's failure
// is a result. The error is ErrInterrupted, or says that the ledger could not be written.
func Run(ctx context.Context, kit *Kit, cells []plan.Cell, o Options) error {
	r := &runner{kit: kit, Options: o, finished: make(chan finished, waiting)}
	if r.Backoff == nil {
		r.Backoff = backoff
	}
	ctx1, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx2 := errgroup.WithContext(ctx1)
	group.SetLimit(max(1, o.Jobs))
	var behind errgroup.Group
	behind.Go(func() error { return r.commitBehind(stop) })
	for _, c := range cells {
		if ctx2.Err() != nil {
			break
		}
		group.Go(func() error { return r.cell(ctx2, c) })
	}
	err := group.Wait()
	close(r.finished)
	if failed := behind.Wait(); failed != nil {
		err = failed // the others were only stopped by it
	}
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	return err
}

// waiting is how many finished cells may be on their way to the disk while the next ones run.
const waiting = 32

// A runner is a run under way.
type runner struct {
	Options
	kit      *Kit
	mu       sync.Mutex    // of Progress
	finished chan finished // cells whose records are to be written
}

func (r *runner) tell(e Event) {
	if r.Progress == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Progress(e)
}

// cell brings one cell into the ledger, unless it is there.
func (r *runner) cell(ctx context.Context, c plan.Cell) error {
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	why := "first attempt"
	if !r.Fresh {
		kept, ok, err := r.Ledger.Lookup(c)
		if err != nil {
			return err
		}
		if ok && kept.Status.Scored() {
			if kept.GradeKey == c.GradeKey && !r.Regrade {
				r.tell(Event{Kind: Finished, Cell: c, Result: &kept, Kept: true})
				return nil
			}
			if done, err := r.regrade(ctx, c, kept); done || err != nil {
				return err
			}
		}
		if ok && kept.Reason == result.Decided && (r.Regrade || kept.GradeKey == c.GradeKey) { // other graders may leave it open
			r.tell(Event{Kind: Finished, Cell: c, Result: &kept, Kept: true})
			return nil
		}
		if ok {
			why = reopened(kept)
		}
	}
	if r.Regrade {
		return nil
	}
	if reason, text := r.skip(c); reason != "" {
		return r.commitSkipped(c, reason, text)
	}
	return r.attempts(ctx, c, why)
}

func reopened(kept result.Result) string {
	if !kept.Status.Scored() {
		return "it was " + string(kept.Status)
	}
	return "its grading changed, and its tree cannot be rebuilt from what was kept"
}

// skip says why a cell must not be started, if so.
func (r *runner) skip(c plan.Cell) (result.Reason, string) {
	if text, ok := r.Unreached[c.Key]; ok {
		return result.Unavailable, text
	}
	if text := r.overBudget(); text != "" {
		return result.BudgetSpent, text
	}
	if r.Enough != nil && r.Enough() {
		return result.Decided, "the trials before it decide"
	}
	return "", ""
}

// overBudget says that no more money may be spent; empty when it may.
func (r *runner) overBudget() string {
	spent := r.Ledger.Spent()
	if r.kit.gateway != nil {
		spent = max(spent, r.kit.gateway.Spent()) // which knows what cells under way have spent, responder and judges too
	}
	switch {
	case r.MaxCost <= 0:
		return ""
	case spent >= r.MaxCost:
		return fmt.Sprintf("the run's budget of %s USD is spent (%s, over by %s)", usd(r.MaxCost), usd(spent), usd(spent-r.MaxCost))
	case r.kit.gateway != nil && r.kit.gateway.BudgetSpent():
		return fmt.Sprintf("the run's budget of %s USD cannot be enforced: too many answers did not tell what they used", usd(r.MaxCost))
	}
	return ""
}

// usd is an amount of money; small ones keep the digits that tell them from nothing.
func usd(v float64) string {
	if v > 0 && v < 0.095 {
		return fmt.Sprintf("%.4f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// bookAround counts against the budget what an agent says that it spent around the gateway.
func (k *Kit) bookAround(r result.Result) {
	if u := r.Agent.Usage; k.gateway != nil && u != nil && u.CostUSD != nil && u.Source != "gateway" {
		k.gateway.Book(*u.CostUSD)
	}
}

func (r *runner) commitSkipped(c plan.Cell, reason result.Reason, text string) error {
	entry, err := r.Ledger.Begin(c, "skipped: "+string(reason), false)
	if err != nil {
		return err
	}
	res := result.Result{Cell: c, Status: result.Skipped, Reason: reason, Detail: text, Scores: []result.Score{}, Started: r.kit.now().UTC()}
	if err := entry.Commit(res); err != nil {
		return err
	}
	r.tell(Event{Kind: Finished, Cell: c, Result: &res})
	return nil
}

// attempts runs the cell until it is scored or its attempts are used up.
func (r *runner) attempts(ctx context.Context, c plan.Cell, why string) error {
	var earlier []result.Attempt
	for n := 1; ; n++ {
		entry, err := r.Ledger.Begin(c, why, r.kit.spends(c))
		if err != nil {
			return err
		}
		r.tell(Event{Kind: Started, Cell: c, Attempt: n})
		res := r.kit.live(ctx, c, entry)
		r.kit.bookAround(res)
		if ctx.Err() != nil {
			return errors.Join(ErrInterrupted, entry.Abandon("interrupted", res))
		}
		res.Earlier = earlier
		if res.Status != result.Errored || n > r.Retries || !retryable(res.Class) || isGiven(res) || r.kit.misjudged(c) || r.overBudget() != "" {
			return r.commit(entry, c, res, n)
		}
		if err := entry.Abandon("errored", res); err != nil {
			return err
		}
		earlier = append(earlier, result.Attempt{
			Attempt: entry.Attempt(), Status: res.Status, Class: res.Class, Detail: res.Detail, CostUSD: costOf(res), Beside: res.Beside,
		})
		wait := r.Backoff(n)
		r.tell(Event{Kind: Retrying, Cell: c, Result: &res, Attempt: n, Wait: wait})
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ErrInterrupted
		}
		why = "it was errored: " + string(res.Class)
	}
}

// finished is a cell whose record is to be written, with what to tell once it is.
type finished struct {
	result.Finished
	event Event
}

// commit makes a result the cell's record, and tells so when it is one. A disk takes its time and the next cell needs
// nothing of it, so no worker waits for it; but what an agent cost is on disk and counted before the next one starts.
func (r *runner) commit(entry *result.Entry, c plan.Cell, res result.Result, n int) error {
	f := finished{result.Finished{Entry: entry, Result: res}, Event{Kind: Finished, Cell: c, Result: &res, Attempt: n}}
	if r.MaxCost > 0 || r.kit.spends(c) {
		return r.write(f)
	}
	r.finished <- f
	return nil
}

// commitBehind writes the records of finished cells until there are no more, as many at once as there are. It stops the
// run when one cannot be written.
func (r *runner) commitBehind(stop context.CancelFunc) (failed error) {
	for first := range r.finished {
		batch := []finished{first}
		for more := true; more && len(batch) < waiting; {
			select {
			case f, ok := <-r.finished:
				if more = ok; ok {
					batch = append(batch, f)
				}
			default:
				more = false
			}
		}
		if failed == nil {
			failed = r.write(batch...)
		}
		if failed != nil {
			stop()
		}
	}
	return failed
}

// write makes results the records of their cells.
func (r *runner) write(batch ...finished) error {
	all := make([]result.Finished, len(batch))
	for i, f := range batch {
		all[i] = f.Finished
	}
	if err := r.Ledger.Commit(all...); err != nil {
		return err
	}
	for _, f := range batch {
		r.tell(f.event)
	}
	return nil
}

func costOf(r result.Result) *float64 {
	if r.Agent.Usage == nil {
		return nil
	}
	return r.Agent.Usage.CostUSD
}
