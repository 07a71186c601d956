package grade

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// goTest reads what `go test -json` prints, one event a line. Lines that are no events are passed over, since compilers
// and shells print on the same stream. A test that has sub-tests is not counted, unless it failed by itself; a package
// counts as failed when it failed without a failed test, as one that did not build does.
type goTest struct {
	found *tally
	open  map[goTestKey]goTestRun // started and not ended
	seen  bool
}

// goTestKey names a test, or a package when Test is empty.
type goTestKey struct{ Package, Test string }

type goTestRun struct{ hasSub, subFailed bool }

var _ lineReader = (*goTest)(nil)

// maxOpenTests bounds how many tests may be running at one time.
const maxOpenTests = 100_000

func newGoTest(mustPass []string) *goTest {
	return &goTest{found: newTally(mustPass), open: map[goTestKey]goTestRun{}}
}

func (g *goTest) line(text []byte, cut bool) {
	if cut || !bytes.HasPrefix(text, []byte("{")) {
		return
	}
	var event struct{ Action, Package, Test string }
	if json.Unmarshal(text, &event) != nil || event.Package == "" {
		return
	}
	key := goTestKey{event.Package, event.Test}
	switch event.Action {
	case "start", "run":
		g.start(key)
	case "pass":
		g.finish(key, testPassed)
	case "skip":
		g.finish(key, testSkipped)
	case "fail":
		g.finish(key, testFailed)
	case "bench": // a benchmark ended, which is no test
		delete(g.open, key)
	}
}

func (g *goTest) start(key goTestKey) {
	g.seen = true
	if len(g.open) >= maxOpenTests {
		g.found.distrust("more than %d tests run at one time", maxOpenTests)
		return
	}
	g.open[key] = goTestRun{}
	if key.Test == "" {
		return
	}
	parent, ok := g.parent(key)
	if !ok { // go before 1.20 does not tell that a package starts
		parent = goTestKey{Package: key.Package}
	}
	g.open[parent] = goTestRun{hasSub: true, subFailed: g.open[parent].subFailed}
}

func (g *goTest) finish(key goTestKey, o outcome) {
	g.seen = true
	run := g.open[key]
	delete(g.open, key)
	name := key.Package
	if key.Test != "" {
		name += "." + key.Test
		g.found.note(o, key.Test, name)
	}
	if key.Test == "" || run.hasSub {
		g.found.countParent(o, name, run.subFailed)
	} else {
		g.found.count(o, name)
	}
	if parent, ok := g.parent(key); ok && o == testFailed {
		g.open[parent] = goTestRun{hasSub: true, subFailed: true}
	}
}

// parent finds the running test or package that a test belongs to. Names of sub-tests may hold slashes themselves.
func (g *goTest) parent(key goTestKey) (goTestKey, bool) {
	for key.Test != "" {
		key.Test = key.Test[:max(0, strings.LastIndexByte(key.Test, '/'))]
		if _, ok := g.open[key]; ok {
			return key, true
		}
	}
	return key, false
}

func (g *goTest) end() (*tally, bool) {
	var unfinished []string
	for key := range g.open {
		unfinished = append(unfinished, strings.TrimSuffix(key.Package+"."+key.Test, "."))
	}
	if slices.Sort(unfinished); len(unfinished) > 0 {
		g.found.distrust("did not finish: %s", showAll(unfinished, len(unfinished)))
	}
	return g.found, g.seen
}
