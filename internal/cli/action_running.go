package cli

import (
	"context"
	"sync"
	"time"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/report"
	"github.com/assay-ci/assay/internal/run"
)

// runningEvery is the least time between two edits of a comment that only say how far the run is.
const runningEvery = time.Minute

// runningTime bounds one such edit, and with it how long the end of a run may wait for it.
const runningTime = 20 * time.Second

// A newsreel tells a pull request how far a run is. It works beside the run: a slow GitHub never holds up a cell.
type newsreel struct {
	mu    sync.Mutex
	tally tally
	ready chan struct{} // closed when the plan is known
	over  chan struct{} // closed when there is nothing more to tell
	ended sync.WaitGroup
}

// announceRunning starts the news of a run. Without a pull request or a token there is nobody to tell, and what cannot be
// told is no loss: the verdict will be.
func (a *action) announceRunning(ctx context.Context) *newsreel {
	n := &newsreel{ready: make(chan struct{}), over: make(chan struct{})}
	if a.poster.hub == nil || a.poster.pull() == 0 {
		return n
	}
	quiet := *a.poster
	quiet.log = func(string) {}
	n.ended.Go(func() {
		select {
		case <-n.ready:
		case <-n.over:
			return
		}
		tick := time.NewTicker(runningEvery)
		defer tick.Stop()
		for {
			n.tell(ctx, quiet)
			select {
			case <-tick.C:
			case <-n.over:
				return
			}
		}
	})
	return n
}

func (n *newsreel) tell(ctx context.Context, p poster) {
	ctx, cancel := context.WithTimeout(ctx, runningTime)
	defer cancel()
	p.post(ctx, n.page(), nil)
}

// planned is told what will be run.
func (n *newsreel) planned(_ *work, cells []plan.Cell) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tally.total = len(cells)
	close(n.ready)
}

// event is told each step of the run.
func (n *newsreel) event(e run.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tally.add(e)
}

// stop ends the news before the verdict is told, so that none comes after it.
func (n *newsreel) stop() {
	close(n.over)
	n.ended.Wait()
}

func (n *newsreel) page() report.Page {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := report.Page{State: report.Running, Ended: n.tally.done, Planned: n.tally.total}
	if cost := n.tally.cost; cost > 0 {
		p.CostUSD = &cost
	}
	return p
}
