package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/run"
)

// A display shows the steps of a run to whoever waits for it.
type display interface {
	show(run.Event)
	close()
}

// newDisplay chooses a live view on a terminal that can draw one, and one line a cell everywhere else.
func newDisplay(x IO, cells []plan.Cell, jobs int) display {
	tally := &tally{total: len(cells), jobs: jobs, started: time.Now()}
	f, ok := terminal(x.Err)
	if !ok || x.getenv("TERM") == "dumb" || x.getenv("CI") != "" {
		return &lines{w: x.Err, tally: tally}
	}
	x.Out = f
	return newLive(newGrid(screenOf(x), tally, cells, time.Now), func() (int, int) { return sizeOf(f) })
}

// A tally counts what has happened.
type tally struct {
	total, jobs                                  int
	done, kept, passed, failed, errored, skipped int
	running                                      int
	cost                                         float64
	work                                         time.Duration // of the cells that were run
	started                                      time.Time
}

func (t *tally) add(e run.Event) {
	switch e.Kind {
	case run.Started:
		t.running++
	case run.Retrying:
		t.running--
		t.spend(e.Result)
	case run.Ungraded:
		t.done++
		t.kept++
	case run.Finished:
		t.done++
		if e.Kept {
			t.kept++
		} else if e.Result.Status != result.Skipped {
			t.running--
			t.work += e.Result.Took.Total
			t.spend(e.Result)
		}
		switch e.Result.Status {
		case result.Passed:
			t.passed++
		case result.Failed:
			t.failed++
		case result.Errored:
			t.errored++
		case result.Skipped:
			t.skipped++
		}
	}
}

func (t *tally) spend(r *result.Result) {
	if r.Agent.Usage != nil && r.Agent.Usage.CostUSD != nil {
		t.cost += *r.Agent.Usage.CostUSD
	}
}

// left estimates the time until the end from the cells that were run; negative is not known.
func (t *tally) left() time.Duration {
	ran := t.done - t.kept - t.skipped
	if ran == 0 {
		return -1
	}
	return t.work / time.Duration(ran) * time.Duration(t.total-t.done) / time.Duration(max(1, t.jobs))
}

func (t *tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%d cells", t.done, t.total)
	for _, part := range []struct {
		n    int
		what string
	}{{t.running, "running"}, {t.passed, "passed"}, {t.failed, "failed"}, {t.errored, "errored"}, {t.skipped, "skipped"}, {t.kept, "kept"}} {
		if part.n > 0 {
			fmt.Fprintf(&b, " · %d %s", part.n, part.what)
		}
	}
	if t.cost > 0 {
		fmt.Fprintf(&b, " · $%.2f", t.cost)
	}
	if left := t.left(); left > 0 && t.done < t.total {
		fmt.Fprintf(&b, " · about %s left", left.Round(time.Second))
	}
	return b.String()
}

// lines writes one line a finished cell.
type lines struct {
	w     io.Writer
	tally *tally
}

func (l *lines) show(e run.Event) {
	l.tally.add(e)
	switch e.Kind {
	case run.Finished:
		if !e.Kept {
			fmt.Fprintf(l.w, "[%*d/%d] %s\n", len(fmt.Sprint(l.tally.total)), l.tally.done, l.tally.total, cellLine(e))
		}
	case run.Retrying:
		fmt.Fprintf(l.w, "        %s\n", cellLine(e))
	case run.Ungraded:
		fmt.Fprintf(l.w, "        %s\n", keptLine(e))
	}
}

// keptLine tells that a cell keeps the grades that it had.
func keptLine(e run.Event) string {
	return fmt.Sprintf("kept    %s  not graded again: %s", cellName(e.Cell), e.Why)
}

func (l *lines) close() { fmt.Fprintln(l.w, l.tally) }

// cellLine tells one event in one line: status, cell, time, size of the change, and why.
func cellLine(e run.Event) string {
	r := e.Result
	var b strings.Builder
	fmt.Fprintf(&b, "%-7s %s", r.Status, cellName(e.Cell))
	if r.Status != result.Skipped {
		fmt.Fprintf(&b, "  %.1fs", r.Took.Total.Seconds())
	}
	if s := r.DiffScope; s != nil {
		fmt.Fprintf(&b, "  %s +%d −%d", plural(s.FilesTouched, "file"), s.LinesAdded, s.LinesRemoved)
	}
	for _, why := range []string{string(r.Class), string(r.Reason), r.Detail} {
		if why != "" {
			fmt.Fprintf(&b, "  %s", printable(why, 200))
		}
	}
	if e.Kind == run.Retrying {
		fmt.Fprintf(&b, "  (again in %s)", e.Wait.Round(100*time.Millisecond))
	}
	return b.String()
}

func cellName(c plan.Cell) string { return fmt.Sprintf("%s %s t%d", c.Case, c.Arm(), c.Trial) }

// printable makes foreign text safe for a terminal and a log: one plain line of at most n characters.
func printable(s string, n int) string {
	clean := plainLine(s)
	if runes := []rune(clean); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return clean
}

// plainLine makes one line of a text, without what a terminal would obey, a reader could not see, or the runner of GitHub
// Actions would read as a command of the old form: no control or formatting characters, such as those that change the
// direction of a text or have no width, and no ##[.
func plainLine(s string) string {
	return strings.ReplaceAll(strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case !unicode.IsGraphic(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "�")), "##[", "# #[")
}

// unobeyed makes lines of a text for people that may quote foreign ones no commands to the runner of GitHub Actions, in whose
// steps any command of ours may run: no ##[, and no :: where a line begins.
func unobeyed(text string) string {
	text = strings.ReplaceAll(text, "##[", "# #[")
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") {
			b.WriteString("│ ")
		}
		b.WriteString(line)
	}
	return b.String()
}
