package cli

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/run"
	"github.com/jedib0t/go-pretty/v6/text"
)

// A mark is one cell on the grid. Each state has a shape of its own, so that nothing is told by its color alone.
type mark struct {
	shape string
	color color
}

var (
	markPlanned = mark{"·", dim}
	markRunning = mark{"◐", yellow}
	markPassed  = mark{"●", green}
	markFailed  = mark{"✗", red}
	markErrored = mark{"!", yellow}
	markSkipped = mark{"–", dim}
)

const (
	mostRunning = 4  // cells under way that are named below the grid
	mostCase    = 32 // characters of a case's name
	frameEvery  = 100 * time.Millisecond
)

// A grid is what the live view draws: a row a case, a column an arm, a mark a trial.
type grid struct {
	screen
	tally *tally
	cases []string
	arms  []string
	marks map[string]map[string][]mark // by case and arm; trials in the order of the plan
	at    map[plan.Cell]int            // in marks
	under map[plan.Cell]time.Time      // cells under way, and since when
	now   func() time.Time
}

func newGrid(s screen, t *tally, cells []plan.Cell, now func() time.Time) *grid {
	g := &grid{screen: s, tally: t, marks: map[string]map[string][]mark{}, at: map[plan.Cell]int{}, under: map[plan.Cell]time.Time{}, now: now}
	for _, c := range cells {
		arm := c.Arm().String()
		if g.marks[c.Case] == nil {
			g.marks[c.Case] = map[string][]mark{}
			g.cases = append(g.cases, c.Case)
		}
		if !slices.Contains(g.arms, arm) {
			g.arms = append(g.arms, arm)
		}
		row := g.marks[c.Case]
		g.at[c] = len(row[arm])
		row[arm] = append(row[arm], markPlanned)
	}
	return g
}

// add notes an event.
func (g *grid) add(e run.Event) {
	g.tally.add(e)
	m := markPlanned
	switch e.Kind {
	case run.Started:
		g.under[e.Cell] = g.now()
		m = markRunning
	case run.Finished:
		m = markOf(e.Result.Status)
	}
	if e.Kind != run.Started {
		delete(g.under, e.Cell)
	}
	if i, ok := g.at[e.Cell]; ok {
		g.marks[e.Cell.Case][e.Cell.Arm().String()][i] = m
	}
}

func markOf(s result.Status) mark {
	switch s {
	case result.Passed:
		return markPassed
	case result.Failed:
		return markFailed
	case result.Errored:
		return markErrored
	}
	return markSkipped
}

// frame draws the grid for a terminal of so many characters and lines: no line is wider, and there are fewer lines than it has.
func (g *grid) frame(width, height int) []string {
	below := append(g.running(), g.bar(), g.tally.String())
	for len(below) > max(1, height-1) {
		below = below[1:]
	}
	lines := append(g.table(width, height-1-len(below)), below...)
	for i, line := range lines {
		lines[i] = g.fit(line, width-1)
	}
	return lines
}

// fit cuts a line that is too wide. It loses its colors then, so that no sequence is cut in two.
func (g *grid) fit(line string, n int) string {
	if width(line) <= n {
		return line
	}
	return text.Trim(text.StripEscape(line), n)
}

// running names the cells that are under way for the longest time.
func (g *grid) running() []string {
	type one struct {
		name  string
		since time.Time
	}
	var all []one
	for c, since := range g.under {
		all = append(all, one{clean(cellName(c)), since})
	}
	slices.SortFunc(all, func(a, b one) int {
		if d := a.since.Compare(b.since); d != 0 {
			return d
		}
		return strings.Compare(a.name, b.name)
	})
	var lines []string
	for i, c := range all {
		if i == mostRunning {
			lines = append(lines, g.paint(dim, fmt.Sprintf("  and %d more", len(all)-i)))
			break
		}
		lines = append(lines, g.paint(yellow, markRunning.shape)+" "+c.name+g.paint(dim, "  "+g.now().Sub(c.since).Round(time.Second).String()))
	}
	return lines
}

// bar fills with the cells that are done.
func (g *grid) bar() string {
	const long = 40
	full := 0
	if g.tally.total > 0 {
		full = min(long, g.tally.done*long/g.tally.total)
	}
	return g.paint(green, strings.Repeat("█", full)) + g.paint(dim, strings.Repeat("░", long-full))
}

// table draws the rows of the cases, as many as there is room for: those with cells under way first, then those with cells
// to come. It is nil where there is no room for every arm.
func (g *grid) table(wide, high int) []string {
	first := 0
	for _, c := range g.cases {
		first = max(first, min(width(clean(c)), mostCase))
	}
	var heads, legend []string
	for _, arm := range g.arms {
		heads = append(heads, clean(arm))
	}
	columns, sum := g.columns(heads, first)
	if sum >= wide {
		heads, legend = g.letters()
		columns, sum = g.columns(heads, first)
	}
	if high -= len(legend) + 2; sum >= wide || high < 2 {
		return nil
	}
	lines := append(legend, g.header(heads, columns, first))
	rows, left := g.rows(high)
	for _, c := range rows {
		line := text.Pad(middle(clean(c), first), first, ' ')
		for i, arm := range g.arms {
			marks := g.marks[c][arm]
			line += "  " + g.draw(marks) + strings.Repeat(" ", max(0, columns[i]-len(marks)))
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	if left > 0 {
		lines = append(lines, g.paint(dim, plural(left, "more case")))
	}
	return append(lines, "")
}

// columns are the widths of the arms' columns under these heads, and sum that of the whole table.
func (g *grid) columns(heads []string, first int) (columns []int, sum int) {
	sum = first
	for i, arm := range g.arms {
		most := width(heads[i])
		for _, row := range g.marks {
			most = max(most, len(row[arm]))
		}
		columns, sum = append(columns, most), sum+2+most
	}
	return columns, sum
}

// letters are heads that take little room, and the lines that say which arm each of them is.
func (g *grid) letters() (heads, legend []string) {
	for i, arm := range g.arms {
		head := fmt.Sprint(i + 1)
		heads = append(heads, head)
		legend = append(legend, g.paint(bold, head)+" "+clean(arm))
	}
	return heads, legend
}

func (g *grid) header(heads []string, columns []int, first int) string {
	line := strings.Repeat(" ", first)
	for i, head := range heads {
		line += "  " + g.paint(bold, text.Pad(head, columns[i], ' '))
	}
	return line
}

// draw paints neighbours of one kind together.
func (g *grid) draw(marks []mark) string {
	var b strings.Builder
	for i := 0; i < len(marks); {
		n := i
		for n < len(marks) && marks[n] == marks[i] {
			n++
		}
		b.WriteString(g.paint(marks[i].color, strings.Repeat(marks[i].shape, n-i)))
		i = n
	}
	return b.String()
}

// rows are the cases that there is room for, in the order of the plan, and how many are left out.
func (g *grid) rows(room int) (rows []string, left int) {
	if len(g.cases) <= room {
		return g.cases, 0
	}
	room-- // the line that says how many are left out
	chosen := make(map[string]bool)
	for _, wanted := range []mark{markRunning, markPlanned, markFailed, markErrored} {
		for _, c := range g.cases {
			if len(chosen) < room && !chosen[c] && g.has(c, wanted) {
				chosen[c] = true
			}
		}
	}
	for _, c := range g.cases {
		if chosen[c] || len(chosen) < room {
			chosen[c] = true
			rows = append(rows, c)
		}
	}
	return rows, len(g.cases) - len(rows)
}

func (g *grid) has(c string, m mark) bool {
	for _, marks := range g.marks[c] {
		if slices.Contains(marks, m) {
			return true
		}
	}
	return false
}

// live draws a grid again and again at one place; what did not pass scrolls by above it.
type live struct {
	mu    sync.Mutex
	grid  *grid
	size  func() (width, height int)
	above []string // to be printed above the next frame
	drawn int      // lines of the last frame
	stop  chan struct{}
	ended chan struct{}
}

func newLive(g *grid, size func() (width, height int)) *live {
	l := &live{grid: g, size: size, stop: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		for tick := time.NewTicker(frameEvery); ; {
			select {
			case <-tick.C:
				l.draw()
			case <-l.stop:
				tick.Stop()
				l.draw()
				return
			}
		}
	}()
	return l
}

func (l *live) show(e run.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grid.add(e)
	if e.Kind == run.Retrying || e.Kind == run.Finished && e.Result.Status != result.Passed && !e.Kept {
		l.above = append(l.above, cellLine(e))
	}
	if e.Kind == run.Ungraded {
		l.above = append(l.above, keptLine(e))
	}
}

// draw writes one frame over the last one, in one write: each line ends by clearing what is left of the old one, and the
// cursor stays below. Nothing is cleared first, so nothing flickers.
func (l *live) draw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	width, height := l.size()
	lines := l.grid.frame(width, height)
	var b strings.Builder
	if l.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", l.drawn)
	}
	for _, line := range slices.Concat(l.above, lines) {
		b.WriteString(line + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	l.above, l.drawn = nil, len(lines)
	fmt.Fprint(l.grid.w, b.String())
}

func (l *live) close() {
	close(l.stop)
	<-l.ended
}
