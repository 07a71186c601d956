package grade

import (
	"strconv"
	"strings"
)

// tap reads the Test Anything Protocol, versions 12 to 14, sub-tests included: those are indented by four spaces and come
// before the test point of their parent. A parent is not counted, unless it failed by itself. Lines that are not TAP are
// passed over. TODO counts as skipped, since it says nothing; a `not ok` is a failure whatever SKIP says.
//
// A stream is trusted when it has exactly one plan on the top level and each plan matches its test points. A program that
// died half way, or that was made to print points of its own, breaks that.
type tap struct {
	found  *tally
	levels []tapLevel // by depth; the top level is always there
	last   int        // indentation of the line before, when that was a test point; else -1
	yaml   int        // indentation of the YAML block that we are in; else -1
	seen   bool
}

// tapLevel is the list of test points at one depth.
type tapLevel struct {
	points int
	plan   int // -1: none yet
	failed bool
}

var _ lineReader = (*tap)(nil)

// maxDepth bounds how deep reports may nest.
const maxDepth = 64

var tapUnescape = strings.NewReplacer(`\\`, `\`, `\#`, `#`)

func newTAP(mustPass []string) *tap {
	return &tap{found: newTally(mustPass), levels: []tapLevel{{plan: -1}}, last: -1, yaml: -1}
}

func (t *tap) line(text []byte, cut bool) {
	body := strings.TrimLeft(string(text), " ")
	indent := len(text) - len(body)
	last := t.last
	t.last = -1
	switch {
	case t.yaml >= 0:
		if indent == t.yaml && strings.TrimRight(body, " ") == "..." {
			t.yaml = -1
		}
		return
	case last >= 0 && indent == last+2 && strings.TrimRight(body, " ") == "---":
		t.yaml = indent
		return
	case indent%4 != 0:
		return
	}
	depth := indent / 4
	switch {
	case strings.HasPrefix(body, "TAP version "):
		t.seen = true
	case strings.HasPrefix(body, "Bail out!"):
		t.seen = true
		t.found.distrust("bailed out: %s", show(strings.TrimSpace(strings.TrimPrefix(body, "Bail out!"))))
	case strings.HasPrefix(body, "1.."):
		if digits, found := tapPlan(body); found {
			t.plan(depth, digits)
		}
	case strings.HasPrefix(body, "ok"), strings.HasPrefix(body, "not ok"):
		if ok, description, found := tapPoint(body); found {
			t.point(depth, ok, description, cut)
			t.last = indent
		}
	}
}

// level returns the list at a depth and makes the ones above it; nil when it is too deep.
func (t *tap) level(depth int) *tapLevel {
	t.seen = true
	if depth >= maxDepth {
		t.found.distrust("sub-tests are nested more than %d deep", maxDepth)
		return nil
	}
	for len(t.levels) <= depth {
		t.levels = append(t.levels, tapLevel{plan: -1})
	}
	return &t.levels[depth]
}

func (t *tap) plan(depth int, digits string) {
	level := t.level(depth)
	if level == nil {
		return
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		t.found.distrust("the plan is not a number: 1..%s", show(digits))
	}
	if level.plan >= 0 {
		t.found.distrust("two plans were printed, 1..%d and 1..%d", level.plan, n)
	}
	level.plan = n
}

func (t *tap) point(depth int, ok bool, description string, cut bool) {
	level := t.level(depth)
	if level == nil {
		return
	}
	if cut {
		t.found.distrust("the line of a test is longer than %d bytes", maxLine)
	}
	name, directive := tapDescription(description)
	o := testPassed
	switch {
	case directive == "todo", ok && directive == "skip":
		o = testSkipped
	case !ok:
		o = testFailed
	}
	sub := t.closeBelow(depth)
	level.points++
	level.failed = level.failed || sub.failed || o == testFailed
	t.found.note(o, name)
	if sub.points > 0 || sub.plan >= 0 {
		t.found.countParent(o, name, sub.failed)
	} else {
		t.found.count(o, name)
	}
}

// closeBelow ends the lists of sub-tests below a depth and returns the one that belongs to the next point there.
func (t *tap) closeBelow(depth int) tapLevel {
	sub := tapLevel{plan: -1}
	for i := len(t.levels) - 1; i > depth; i-- {
		sub = t.levels[i]
		if sub.plan >= 0 && sub.plan != sub.points {
			t.found.distrust("the plan of sub-tests is 1..%d, and %d were reported", sub.plan, sub.points)
		}
		if sub.points > 0 && i > depth+1 {
			t.found.distrust("sub-tests were reported without their test")
		}
	}
	t.levels = t.levels[:depth+1]
	return sub
}

func (t *tap) end() (*tally, bool) {
	if t.closeBelow(0).points > 0 {
		t.found.distrust("sub-tests were reported without their test")
	}
	switch top := t.levels[0]; {
	case !t.seen:
	case top.plan < 0:
		t.found.distrust("no plan was printed, so the tests may have stopped half way")
	case top.plan != top.points:
		t.found.distrust("the plan is 1..%d, and %d were reported", top.plan, top.points)
	}
	return t.found, t.seen
}

// tapPlan finds the number of a plan, such as "1..4" or "1..0 # skip no database".
func tapPlan(body string) (digits string, found bool) {
	rest := strings.TrimPrefix(body, "1..")
	after := strings.TrimLeft(rest, "0123456789")
	digits = strings.TrimSuffix(rest, after)
	after = strings.TrimSpace(after)
	return digits, digits != "" && (after == "" || after[0] == '#')
}

// tapPoint splits a test point, such as "not ok 2 - adds # TODO", and leaves its number out: points come in order.
func tapPoint(body string) (ok bool, description string, found bool) {
	rest, not := strings.CutPrefix(body, "not ")
	rest, found = strings.CutPrefix(rest, "ok")
	if !found || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return false, "", false
	}
	rest = strings.TrimSpace(rest)
	if after := strings.TrimLeft(rest, "0123456789"); after == "" || after[0] == ' ' || after[0] == '\t' {
		rest = strings.TrimSpace(after)
	}
	return !not, rest, true
}

// tapDescription splits what follows a test point into the name of the test and its directive: skip, todo or nothing.
func tapDescription(text string) (name, directive string) {
	for i := 0; i < len(text) && directive == ""; i++ {
		switch text[i] {
		case '\\':
			i++ // what follows is escaped
		case '#':
			if directive = tapDirective(text[i+1:]); directive != "" {
				text = text[:i]
			}
		}
	}
	text = strings.TrimSpace(text)
	text = strings.TrimSpace(strings.TrimPrefix(text, "- "))
	return tapUnescape.Replace(text), directive
}

// tapDirective tells which directive a text begins with, in any case of letters.
func tapDirective(text string) string {
	text = strings.TrimLeft(text, " \t")
	word := strings.ToLower(text[:min(len(text), len("skip"))])
	if word == "skip" || word == "todo" {
		return word
	}
	return ""
}
