package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/run"
	"github.com/assay-ci/assay/internal/trace"
)

// gridPlan is a plan of so many cases, two arms and three trials.
func gridPlan(cases int) (cells []plan.Cell) {
	for i := range cases {
		for _, arm := range []string{"without_skill", "with_skill"} {
			for trial := range 3 {
				cells = append(cells, plan.Cell{Case: fmt.Sprintf("case-%02d", i+1), Harness: "claude", Model: "claude-opus-5", Condition: arm, Trial: trial + 1})
			}
		}
	}
	return cells
}

// play ends the first 23 cells in several ways, and leaves two under way.
func play(show func(run.Event), cells []plan.Cell) {
	cost := 0.05
	for i, c := range cells[:23] {
		status := []result.Status{result.Passed, result.Failed, result.Passed, result.Errored, result.Passed, result.Skipped}[i%6]
		if status != result.Skipped {
			show(run.Event{Kind: run.Started, Cell: c})
		}
		r := &result.Result{Status: status}
		r.Took.Total = 2 * time.Second
		r.Agent.Usage = &trace.Usage{CostUSD: &cost}
		show(run.Event{Kind: run.Finished, Cell: c, Result: r})
	}
	for _, c := range cells[23:25] {
		show(run.Event{Kind: run.Started, Cell: c})
	}
}

// TestGridFits draws the same moment of a run for terminals of several sizes. No frame is larger than its terminal.
func TestGridFits(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	for _, size := range [][2]int{{120, 30}, {80, 16}, {50, 12}, {40, 6}, {40, 2}, {120, 1}} {
		now := time.Unix(1_000_000, 0)
		cells := gridPlan(12)
		g := newGrid(screen{}, &tally{total: len(cells), jobs: 2}, cells, func() time.Time { return now })
		play(g.add, cells)
		now = now.Add(12 * time.Second)
		lines := g.frame(size[0], size[1])
		fmt.Fprintf(&got, "== %d × %d\n%s\n", size[0], size[1], strings.Join(lines, "\n"))
		if len(lines) >= max(2, size[1]) {
			t.Errorf("%d lines on a terminal of %d", len(lines), size[1])
		}
		for _, line := range lines {
			if width(line) >= size[0] {
				t.Errorf("%d characters on a terminal of %d: %s", width(line), size[0], line)
			}
		}
	}
	sameAsGolden(t, "testdata/grid.golden", got.Bytes())
}

// TestLiveView: what did not pass scrolls by above the grid, each frame takes the place of the last one, and the last frame
// stays.
func TestLiveView(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		cells := gridPlan(12)
		l := newLive(newGrid(screen{w: &out, hasColor: true}, &tally{total: len(cells), jobs: 2}, cells, time.Now), func() (int, int) { return 100, 30 })
		time.Sleep(2 * frameEvery)
		play(l.show, cells)
		time.Sleep(time.Second)
		l.close()
		text := out.String()
		if n := strings.Count(text, "errored case-"); n != 4 {
			t.Errorf("%d errored cells were told of, not 4", n)
		}
		if up, down := strings.Count(text, "\x1b[K\n"), strings.Count(text, "\x1b[J"); up == 0 || down < 3 {
			t.Errorf("%d lines in %d frames", up, down)
		}
		last := text[strings.LastIndex(text, "\r")+1:]
		if strings.Contains(last, "errored case-") || !strings.Contains(last, "23/72 cells · 2 running") {
			t.Errorf("the last frame is %q", last)
		}
		if !strings.Contains(last, "\x1b[32m●\x1b[0m\x1b[31m✗\x1b[0m") {
			t.Errorf("no colors in %q", last)
		}
	})
}
