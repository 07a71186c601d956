package diffscope

import (
	"math"
	"strings"
)

// The bound on the work for one pair of files. Below exactSteps the script is a shortest one. Above it a box of the search
// is cut at the furthest point that cutRounds rounds reached, and the script is only an upper bound.
const (
	exactSteps = 200_000_000 // diagonals visited, about half a second
	cutRounds  = 256
)

// An edit replaces the lines [oldStart, oldEnd) of one text by the lines [newStart, newEnd) of another. Either may be empty.
type edit struct{ oldStart, oldEnd, newStart, newEnd int }

// splitLines cuts a text after each line feed. What follows the last one is a line too, unless it is empty.
func splitLines(text string) []string {
	lines := make([]string, 0, countLines(text))
	for line := range strings.Lines(text) {
		lines = append(lines, line)
	}
	return lines
}

func countLines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// diffLines returns the edits that turn old into new, in order, with at least one common line between two of them. They
// are hunks at zero context. The number of lines in them is the least possible when exact is true.
//
// Several shortest scripts can exist with the same lines and another number of hunks, so the order of the search is part
// of the definition: see docs/diff-scope.md before changing anything here, and change the name in Algorithm with it.
func diffLines(old, new []string, steps int) (edits []edit, exact bool) {
	x := side{old, make([]bool, len(old)+1)}
	y := side{new, make([]bool, len(new)+1)}
	s := search{old: x.changed, new: y.changed, budget: steps, exact: true}
	s.mark(old, new)
	slide(x, y)
	slide(y, x)
	return collect(x.changed, y.changed), s.exact
}

// A side is one text and which of its lines are changed. changed has one element more than lines, which stays false.
type side struct {
	lines   []string
	changed []bool
}

// collect turns marks into edits: each is a maximal place where either side is changed.
func collect(old, new []bool) []edit {
	var edits []edit
	for i, j := 0, 0; ; i, j = i+1, j+1 {
		e := edit{oldStart: i, newStart: j}
		for old[i] {
			i++
		}
		for new[j] {
			j++
		}
		if e.oldEnd, e.newEnd = i, j; e.oldEnd > e.oldStart || e.newEnd > e.newStart {
			edits = append(edits, e)
		}
		if i == len(old)-1 {
			return edits
		}
	}
}

// A search is Myers's linear-space algorithm: find a point in the middle of a shortest path, then solve both halves.
type search struct {
	old, new         []bool    // marks by line number
	a, b             []int32   // the lines that can have a partner, as numbers that are equal where the lines are
	aLine, bLine     []int     // their line numbers
	forward, reverse diagonals // the furthest points of both directions
	budget           int       // steps that are left before the search may cut corners
	exact            bool
}

// diagonals holds the furthest position in a that a search reached on each diagonal, the difference of the positions in a
// and b. zero is the index of diagonal 0.
type diagonals struct {
	reach []int
	zero  int
}

func (d diagonals) at(k int) int     { return d.reach[d.zero+k] }
func (d diagonals) set(k, value int) { d.reach[d.zero+k] = value }

// mark finds the changed lines of both sides.
func (s *search) mark(old, new []string) {
	start, oldEnd, newEnd := 0, len(old), len(new)
	for start < min(oldEnd, newEnd) && old[start] == new[start] {
		start++
	}
	for oldEnd > start && newEnd > start && old[oldEnd-1] == new[newEnd-1] {
		oldEnd--
		newEnd--
	}
	if start < oldEnd && start < newEnd {
		s.number(old, new, start, oldEnd, newEnd)
		size := len(s.a) + len(s.b) + 3
		s.forward = diagonals{make([]int, size), len(s.b) + 1}
		s.reverse = diagonals{make([]int, size), len(s.b) + 1}
		s.box(0, len(s.a), 0, len(s.b))
		return
	}
	for i := start; i < oldEnd; i++ {
		s.old[i] = true
	}
	for j := start; j < newEnd; j++ {
		s.new[j] = true
	}
}

// number gives equal lines equal numbers. A line that only one side has is in no common subsequence: it is marked and
// left out, which is exact and makes the rest small. Frequent lines stay, since dropping them would make scripts longer.
func (s *search) number(old, new []string, start, oldEnd, newEnd int) {
	const inOld, inNew = 1, 2
	numbers := make(map[string]int32, oldEnd-start)
	var sides []uint8 // by number: which sides have the line
	assign := func(lines []string, side uint8) []int32 {
		ids := make([]int32, len(lines))
		for i, line := range lines {
			id, known := numbers[line]
			if !known {
				id = int32(len(sides))
				numbers[line] = id
				sides = append(sides, 0)
			}
			ids[i] = id
			sides[id] |= side
		}
		return ids
	}
	keep := func(ids []int32, marks []bool) (kept []int32, at []int) {
		for i, id := range ids {
			if sides[id] == inOld|inNew {
				kept, at = append(kept, id), append(at, start+i)
			} else {
				marks[start+i] = true
			}
		}
		return kept, at
	}
	oldIDs := assign(old[start:oldEnd], inOld)
	newIDs := assign(new[start:newEnd], inNew)
	s.a, s.aLine = keep(oldIDs, s.old)
	s.b, s.bLine = keep(newIDs, s.new)
}

// box marks the changed lines between two corners of the edit graph.
func (s *search) box(a0, a1, b0, b1 int) {
	for {
		for a0 < a1 && b0 < b1 && s.a[a0] == s.b[b0] {
			a0++
			b0++
		}
		for a0 < a1 && b0 < b1 && s.a[a1-1] == s.b[b1-1] {
			a1--
			b1--
		}
		if a0 == a1 || b0 == b1 {
			break
		}
		a, b := s.middle(a0, a1, b0, b1)
		s.box(a0, a, b0, b)
		a0, b0 = a, b
	}
	for _, i := range s.aLine[a0:a1] {
		s.old[i] = true
	}
	for _, j := range s.bLine[b0:b1] {
		s.new[j] = true
	}
}

// middle returns a point on a shortest path through the box, neither of whose sides is empty. It searches from both
// corners in turn, each from high to low diagonals, until the two meet on one.
func (s *search) middle(a0, a1, b0, b1 int) (a, b int) {
	lowest, highest := a0-b1, a1-b0
	first, last := a0-b0, a1-b1
	oddDistance := (first-last)&1 != 0
	fLow, fHigh, rLow, rHigh := first, first, last, last
	s.forward.set(first, a0)
	s.reverse.set(last, a1)
	for round := 1; ; round++ {
		fLow, fHigh = s.widen(s.forward, fLow, fHigh, lowest, highest, -1)
		for k := fHigh; k >= fLow; k -= 2 {
			a := s.forward.at(k + 1)
			if lower := s.forward.at(k - 1); lower >= a {
				a = lower + 1
			}
			for a < a1 && a-k < b1 && s.a[a] == s.b[a-k] {
				a++
			}
			s.forward.set(k, a)
			if oddDistance && rLow <= k && k <= rHigh && s.reverse.at(k) <= a {
				return a, a - k
			}
		}
		rLow, rHigh = s.widen(s.reverse, rLow, rHigh, lowest, highest, math.MaxInt)
		for k := rHigh; k >= rLow; k -= 2 {
			a := s.reverse.at(k+1) - 1
			if lower := s.reverse.at(k - 1); lower <= a {
				a = lower
			}
			for a > a0 && a-k > b0 && s.a[a-1] == s.b[a-k-1] {
				a--
			}
			s.reverse.set(k, a)
			if !oddDistance && fLow <= k && k <= fHigh && a <= s.forward.at(k) {
				return a, a - k
			}
		}
		s.budget -= (fHigh-fLow)/2 + (rHigh-rLow)/2 + 2
		if s.budget < 0 && round >= cutRounds {
			s.exact = false
			return s.furthest(a0, a1, b0, b1, fLow, fHigh, rLow, rHigh)
		}
	}
}

// widen lets a search use one diagonal more on either side, or one less where the box ends, and puts an unreachable
// position beyond both ends.
func (s *search) widen(d diagonals, low, high, lowest, highest, unreachable int) (int, int) {
	if low > lowest {
		low--
		d.set(low-1, unreachable)
	} else {
		low++
	}
	if high < highest {
		high++
		d.set(high+1, unreachable)
	} else {
		high--
	}
	return low, high
}

// furthest returns the point inside the box that either search came to with the longest way behind it.
func (s *search) furthest(a0, a1, b0, b1, fLow, fHigh, rLow, rHigh int) (a, b int) {
	longest := -1
	for k := fHigh; k >= fLow; k -= 2 {
		x := min(s.forward.at(k), a1, b1+k)
		if way := x + x - k - a0 - b0; way > longest {
			longest, a, b = way, x, x-k
		}
	}
	for k := rHigh; k >= rLow; k -= 2 {
		x := max(s.reverse.at(k), a0, b0+k)
		if way := a1 + b1 - x - (x - k); way > longest {
			longest, a, b = way, x, x-k
		}
	}
	return a, b
}

// A group is a run of changed lines [start, end) that an unchanged line or the end of the text follows; it may be empty.
// Both sides have the same number of groups, since both have the same unchanged lines.
type group struct{ start, end int }

func (s side) groupFrom(start int) group {
	g := group{start, start}
	for s.changed[g.end] {
		g.end++
	}
	return g
}

func (s side) groupBefore(g group) group {
	p := group{g.start - 1, g.start - 1}
	for p.start > 0 && s.changed[p.start-1] {
		p.start--
	}
	return p
}

// up moves the group one line up when that leaves the same text, and joins the group it meets.
func (s side) up(g group) (group, bool) {
	if g.start == 0 || s.lines[g.start-1] != s.lines[g.end-1] {
		return g, false
	}
	g.start--
	g.end--
	s.changed[g.start], s.changed[g.end] = true, false
	for g.start > 0 && s.changed[g.start-1] {
		g.start--
	}
	return g, true
}

// down moves the group one line down when that leaves the same text, and joins the group it meets.
func (s side) down(g group) (group, bool) {
	if g.end == len(s.lines) || s.lines[g.start] != s.lines[g.end] {
		return g, false
	}
	s.changed[g.start], s.changed[g.end] = false, true
	g.start++
	g.end++
	for s.changed[g.end] {
		g.end++
	}
	return g, true
}

// slide moves each group of x to where it reads best without changing the text: joined with all groups it can reach, then
// at the last place where the other side y has a change too, else as far down as it goes.
func slide(x, y side) {
	g, partner := x.groupFrom(0), y.groupFrom(0)
	for {
		if g.end > g.start {
			g, partner = settle(x, y, g, partner)
		}
		if g.end == len(x.lines) {
			return
		}
		g, partner = x.groupFrom(g.end+1), y.groupFrom(partner.end+1)
	}
}

// settle slides one group. partner is the group of y at the same unchanged line and moves in step.
func settle(x, y side, g, partner group) (group, group) {
	var lined int // the lowest end of g at which partner is not empty, or -1
	for size := -1; size != g.end-g.start; {
		size = g.end - g.start
		for moved := true; moved; {
			if g, moved = x.up(g); moved {
				partner = y.groupBefore(partner)
			}
		}
		lined = -1
		for moved := true; moved; {
			if partner.end > partner.start {
				lined = g.end
			}
			if g, moved = x.down(g); moved {
				partner = y.groupFrom(partner.end + 1)
			}
		}
	}
	for lined >= 0 && g.end > lined {
		g, _ = x.up(g)
		partner = y.groupBefore(partner)
	}
	return g, partner
}
