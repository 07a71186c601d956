package grade

import (
	"regexp"
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

var (
	tapPlan      = regexp.MustCompile(`^1\.\.([0-9]+)(?:\s*#.*)?\s*$`)
	tapPoint     = regexp.MustCompile(`^(not )?ok(?:\s+[0-9]+)?(?:\s+(.*))?$`)
	tapDirective = regexp.MustCompile(`(?i)^#\s*(skip|todo)`)
	tapUnescape  = strings.NewReplacer(`\\`, `\`, `\#`, `#`)
)

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
		if m := tapPlan.FindStringSubmatch(body); m != nil {
			t.plan(depth, m[1])
		}
	case strings.HasPrefix(body, "ok"), strings.HasPrefix(body, "not ok"):
		if m := tapPoint.FindStringSubmatch(body); m != nil {
			t.point(depth, m[1] == "", m[2], cut)
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
			t.found.distrust("a plan says %d sub-tests, %d were reported", sub.plan, sub.points)
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
		t.found.distrust("the plan says %d tests, %d were reported", top.plan, top.points)
	}
	return t.found, t.seen
}

// tapDescription splits what follows a test point into the name of the test and its directive: skip, todo or nothing.
func tapDescription(text string) (name, directive string) {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' {
			i++ // what follows is escaped
			continue
		}
		if text[i] != '#' {
			continue
		}
		if m := tapDirective.FindStringSubmatch(text[i:]); m != nil {
			text, directive = text[:i], strings.ToLower(m[1])
		}
	}
	text = strings.TrimSpace(text)
	text = strings.TrimSpace(strings.TrimPrefix(text, "- "))
	return tapUnescape.Replace(text), directive
}
