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
	size  int                     // bytes of the names in open
	seen  bool
}

// goTestKey names a test, or a package when Test is empty.
type goTestKey struct{ Package, Test string }

type goTestRun struct{ hasSub, subFailed bool }

var _ lineReader = (*goTest)(nil)

// maxOpen bounds the names of the tests that run at one time, in bytes.
const maxOpen = 16 << 20

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
		g.drop(key)
	}
}

func (g *goTest) start(key goTestKey) {
	g.seen = true
	g.put(key, goTestRun{})
	if key.Test != "" {
		parent := g.parent(key)
		g.put(parent, goTestRun{hasSub: true, subFailed: g.open[parent].subFailed})
	}
}

func (g *goTest) finish(key goTestKey, o outcome) {
	g.seen = true
	run := g.open[key]
	g.drop(key)
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
	if key.Test != "" && o == testFailed {
		g.put(g.parent(key), goTestRun{hasSub: true, subFailed: true})
	}
}

func (g *goTest) put(key goTestKey, run goTestRun) {
	if _, ok := g.open[key]; !ok {
		g.size += len(key.Package) + len(key.Test)
	}
	if g.size > maxOpen {
		g.found.distrust("too many tests run at one time: their names have more than %d MiB", maxOpen>>20)
		return
	}
	g.open[key] = run
}

func (g *goTest) drop(key goTestKey) {
	if _, ok := g.open[key]; ok {
		g.size -= len(key.Package) + len(key.Test)
		delete(g.open, key)
	}
}

// parent finds the running test that a test belongs to, or its package, which go before 1.20 does not tell to have
// started. Names of sub-tests may hold slashes themselves, so the nearest one that runs is taken.
func (g *goTest) parent(key goTestKey) goTestKey {
	for range maxDepth {
		key.Test = key.Test[:max(0, strings.LastIndexByte(key.Test, '/'))]
		if _, ok := g.open[key]; ok {
			return key
		}
	}
	return goTestKey{Package: key.Package}
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
