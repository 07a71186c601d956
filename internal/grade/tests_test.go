package grade

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-ci/assay/internal/executor"
)

// summary is a tally in one line, so that tables can be read.
func summary(t *tally) string {
	text := fmt.Sprintf("%d passed, %d failed, %d skipped", t.passed, t.failed, t.skipped)
	if len(t.failing) > 0 {
		text += "; failed: " + strings.Join(t.failing, ", ")
	}
	if t.trouble != "" {
		text += "; " + t.trouble
	}
	return text
}

// readStdout reads a whole output in a format.
func readStdout(format, output string, mustPass ...string) *tally {
	r := newStdoutReport(format, mustPass)
	io.WriteString(r, output)
	return r.finish()
}

const (
	tapPasses = "TAP version 13\nok 1 - adds\nok 2 - subtracts\n1..2\n"
	goPasses  = `{"Action":"run","Package":"p","Test":"TestAdd"}
{"Action":"pass","Package":"p","Test":"TestAdd"}
{"Action":"pass","Package":"p"}
`
	junitPasses = `<testsuite><testcase classname="calc" name="adds"/><testcase classname="calc" name="subtracts"/></testsuite>`
)

func TestTestsAuto(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, output, want string }{
		{"tap", tapPasses, "2 passed, 0 failed, 0 skipped"},
		{"gotest", goPasses, "1 passed, 0 failed, 0 skipped"},
		{"neither", "5 passed\nOK (5 tests)\n", "0 passed, 0 failed, 0 skipped"},
		{"nothing", "", "0 passed, 0 failed, 0 skipped"},
		{"both", goPasses + tapPasses, "1 passed, 0 failed, 0 skipped; results in two formats were printed; name the format of the assertion"},
		{"tap that prints an event", "ok 1 - a\n" + goPasses + "1..1\n",
			"1 passed, 0 failed, 0 skipped; results in two formats were printed; name the format of the assertion"},
		{"go test without -json", "ok  \texample.com/p\t0.003s\n",
			"1 passed, 0 failed, 0 skipped; no plan was printed, so the tests may have stopped half way"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, summary(readStdout("auto", tt.output))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestStdoutReportSplitsAnywhere: it does not matter how the output was cut into writes.
func TestStdoutReportSplitsAnywhere(t *testing.T) {
	t.Parallel()
	output := strings.ReplaceAll(tapPasses, "\n", "\r\n") + "not ok 3 - last line has no end"
	whole := summary(readStdout("tap", output))
	for cut := range len(output) {
		r := newStdoutReport("tap", nil)
		io.WriteString(r, output[:cut])
		io.WriteString(r, output[cut:])
		if got := summary(r.finish()); got != whole {
			t.Fatalf("cut at %d: %s, want %s", cut, got, whole)
		}
	}
}

func TestStdoutReportBoundsLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*maxLine)
	if got := summary(readStdout("tap", "# "+long+"\n"+tapPasses)); got != "2 passed, 0 failed, 0 skipped" {
		t.Errorf("a long comment: %s", got)
	}
	// The cut may have taken a SKIP away.
	want := fmt.Sprintf("1 passed, 0 failed, 0 skipped; failed: ; the line of a test is longer than %d bytes", maxLine)
	want = strings.Replace(want, "; failed: ", "", 1)
	if got := summary(readStdout("tap", "ok 1 - "+long+" # SKIP\n1..1\n")); got != want {
		t.Errorf("a long test: %s", got)
	}
	r := newStdoutReport("auto", nil)
	for range 64 {
		io.WriteString(r, strings.Repeat("y", maxLine))
	}
	if cap(r.partial) > 3*maxLine {
		t.Errorf("a line without end holds %d bytes", cap(r.partial))
	}
}

func TestWorstResultOfANameCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		outcomes := rapid.SliceOf(rapid.SampledFrom([]outcome{testPassed, testSkipped, testFailed})).Draw(t, "outcomes")
		found := newTally([]string{"a"})
		worst := testUnseen
		for _, o := range outcomes {
			found.note(o, "a", "other")
			worst = max(worst, o)
		}
		if found.named["a"] != worst || len(found.named) != 1 {
			t.Fatalf("named %v after %v", found.named, outcomes)
		}
	})
}

func TestTestsJudge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		params   testsParams
		exit     executor.Exit
		stdout   string
		passed   bool
		evidence string
	}{
		{"all pass", testsParams{}, executor.Exit{}, tapPasses, true, "exits 0; 2 passed, 0 failed, 0 skipped"},
		{"named tests pass", testsParams{MustPass: []string{"adds"}, MinPassed: 2}, executor.Exit{}, tapPasses, true, "exits 0; 2 passed, 0 failed, 0 skipped"},
		{"named test missing", testsParams{MustPass: []string{"adds", "divides"}}, executor.Exit{}, tapPasses, false,
			"divides did not run; 2 passed, 0 failed, 0 skipped; holds: exits 0"},
		{"too few", testsParams{MinPassed: 3}, executor.Exit{}, tapPasses, false, "at least 3 must pass; 2 passed, 0 failed, 0 skipped; holds: exits 0"},
		{"right results, wrong exit", testsParams{}, executor.Exit{Code: 1}, tapPasses, false, "exits 1, wanted 0; 2 passed, 0 failed, 0 skipped"},
		{"failure, exit 0", testsParams{}, executor.Exit{}, "not ok 1 - a\nok 2\n1..2\n", false, "failed: a; 1 passed, 1 failed, 0 skipped; holds: exits 0"},
		{"output was cut", testsParams{}, executor.Exit{Truncated: true}, tapPasses, false,
			"it printed more than is read, so results may be missing; 2 passed, 0 failed, 0 skipped; holds: exits 0"},
		{"hangs after its tests", testsParams{}, executor.Exit{TimedOut: true}, tapPasses, false, "did not end within 10m0s; 2 passed, 0 failed, 0 skipped"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.params.Run, tt.params.Format = "x", "tap"
			check(t, build(t, tt.params), Evidence{Place: at(exits(tt.exit, tt.stdout))}, tt.passed, tt.evidence)
		})
	}
}

// TestA18CheatsDoNotPass plays what agents do to look as if the tests had passed. Each script is what the test command
// ends up doing; none may pass.
func TestA18CheatsDoNotPass(t *testing.T) {
	t.Parallel()
	must := []string{"adds"}
	for _, tt := range []struct {
		name     string
		params   testsParams
		files    map[string]string
		evidence string
	}{
		{"says 5 passed, exits 1", testsParams{Run: "echo '5 passed'; exit 1"}, nil, "exits 1, wanted 0; no test ran; 0 passed, 0 failed, 0 skipped"},
		{"says 5 passed, exits 0", testsParams{Run: "echo '5 passed'"}, nil, "no test ran; 0 passed, 0 failed, 0 skipped; holds: exits 0"},
		{"exits early", testsParams{Run: "exit 0", MustPass: must}, nil, "adds did not run; no test ran; 0 passed, 0 failed, 0 skipped; holds: exits 0"},
		{"zero tests", testsParams{Run: "echo 1..0"}, nil, "no test ran; 0 passed, 0 failed, 0 skipped; holds: exits 0"},
		{"all skipped", testsParams{Run: "printf 'ok 1 - adds # SKIP\n1..1\n'"}, nil,
			"at least 1 must pass; 0 passed, 0 failed, 1 skipped; holds: exits 0"},
		{"the wanted one skipped", testsParams{Run: "printf 'ok 1 - adds # skip\nok 2 - other\n1..2\n'", MustPass: must}, nil,
			"adds was skipped; 1 passed, 0 failed, 1 skipped; holds: exits 0"},
		{"the wanted one passes and fails", testsParams{Run: "printf 'ok 1 - adds\nnot ok 2 - adds # TODO\n1..2\n'", MustPass: must}, nil,
			"adds was skipped; 1 passed, 0 failed, 1 skipped; holds: exits 0"},
		{"more points than planned", testsParams{Run: "printf 'ok 1 - adds\nok 2 - adds\n1..1\n'", MustPass: must}, nil,
			"the plan is 1..1, and 2 were reported; 2 passed, 0 failed, 0 skipped; holds: exits 0"},
		{"dies before the plan", testsParams{Run: "echo ok 1 - adds; exit 0", MustPass: must}, nil,
			"no plan was printed, so the tests may have stopped half way; 1 passed, 0 failed, 0 skipped; holds: exits 0"},
		{"NaN for a count", testsParams{Run: `echo '<testsuite failures="NaN"><testcase name="adds"/></testsuite>' > r.xml`, Report: "*.xml"}, nil,
			"the report r.xml is not JUnit: failures is not a count: NaN; no test ran; 0 passed, 0 failed, 0 skipped; holds: exits 0"},
		{"stale report", testsParams{Run: "true", Report: "out/*.xml"}, map[string]string{"out/r.xml": junitPasses},
			"the report out/r.xml was there before the command ran and was not written again; no test ran; 0 passed, 0 failed, 0 skipped; holds: exits 0"},
		{"no report", testsParams{Run: "true", Report: "out/**/*.xml"}, nil,
			"the command wrote no report out/**/*.xml; no test ran; 0 passed, 0 failed, 0 skipped; holds: exits 0"},
		{"report is a FIFO", testsParams{Run: "mkfifo r.xml", Report: "r.xml"}, nil,
			"the report r.xml cannot be read: open: r.xml is a FIFO, not a regular file; no test ran; 0 passed, 0 failed, 0 skipped; holds: exits 0"},
		{"report is a link", testsParams{Run: "ln -s mine r.xml", Report: "r.xml"}, map[string]string{"mine": junitPasses},
			"the report r.xml cannot be read: open: r.xml is a link, not a regular file; no test ran; 0 passed, 0 failed, 0 skipped; holds: exits 0"},
		{"report is a folder", testsParams{Run: "mkdir r.xml", Report: "r.xml"}, nil,
			"the command wrote no report r.xml; no test ran; 0 passed, 0 failed, 0 skipped; holds: exits 0"},
		{"the folder of reports is a link", testsParams{Run: "ln -s mine out", Report: "out/*.xml"}, map[string]string{"mine/r.xml": junitPasses},
			"the reports out/*.xml cannot be listed: list: out is a link, not a folder; no test ran; 0 passed, 0 failed, 0 skipped; holds: exits 0"},
		{"half a report", testsParams{Run: `echo '<testsuite><testcase name="adds"/>' > r.xml`, Report: "r.xml"}, nil,
			"the report r.xml is not JUnit: XML syntax error on line 2: unexpected EOF; 1 passed, 0 failed, 0 skipped; holds: exits 0"},
		{"report without end", testsParams{Run: `head -c 17000000 /dev/zero | tr '\0' ' ' > r.xml`, Report: "r.xml"}, nil,
			"the report r.xml cannot be read: larger than 16 MiB; no test ran; 0 passed, 0 failed, 0 skipped; holds: exits 0"},
		{"a suite that could not be collected", testsParams{Run: `echo '<testsuites><testsuite name="a" errors="1"/><testsuite name="b"><testcase name="adds"/></testsuite></testsuites>' > r.xml`, Report: "r.xml"}, nil,
			"failed: a; 1 passed, 1 failed, 0 skipped; holds: exits 0"},
		{"a gigabyte of output", testsParams{Run: "head -c 300000000 /dev/zero; printf '\nok 1 - adds\n1..1\n'", Format: "tap", MustPass: must}, nil,
			"it printed more than is read, so results may be missing; adds did not run; no test ran; 0 passed, 0 failed, 0 skipped; holds: exits 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			place, _ := hostPlace(t, tt.files)
			check(t, build(t, tt.params), Evidence{Place: at(place)}, false, tt.evidence)
		})
	}
}

func TestReportThatIsWrittenAgainCounts(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]string{
		"other bytes": `echo '<testsuite><testcase name="adds"/></testsuite>' > r.xml`,
		"same bytes":  "sleep 0.05; cp r.xml new; mv new r.xml",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place, _ := hostPlace(t, map[string]string{"r.xml": junitPasses, "old.xml": junitPasses})
			g := build(t, testsParams{Run: run, Report: "*.xml", MustPass: []string{"adds"}})
			got, err := g.Grade(t.Context(), Evidence{Place: at(place), Log: io.Discard})
			if err != nil || !*got.Passed {
				t.Errorf("score %+v, error %v", got, err)
			}
		})
	}
}

func TestReportsAreSummed(t *testing.T) {
	t.Parallel()
	place, work := hostPlace(t, nil)
	if err := os.MkdirAll(filepath.Join(work, "build/a"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(work, "build/other"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := "for d in a b; do mkdir -p build/$d; printf '" + junitPasses + "' > build/$d/r.xml; done"
	g := build(t, testsParams{Run: run, Report: "build/**/*.xml", MustPass: []string{"adds", "calc.subtracts"}, MinPassed: 4})
	check(t, g, Evidence{Place: at(place)}, true, "exits 0; 4 passed, 0 failed, 0 skipped")
}

func TestTooManyReports(t *testing.T) {
	t.Parallel()
	place, _ := hostPlace(t, nil)
	g := build(t, testsParams{Run: "i=0; while [ $i -lt 1001 ]; do : > $i.xml; i=$((i+1)); done", Report: "*.xml"})
	check(t, g, Evidence{Place: at(place)}, false,
		"the reports *.xml cannot be listed: 1001 files with 0 bytes match, more than 1000 files or 64 MiB; no test ran; 0 passed, 0 failed, 0 skipped; holds: exits 0")
}

// TestRealRunners runs the programs that users run.
func TestRealRunners(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		program, run, format string
		files                map[string]string
		must                 []string
		passed               bool
		evidence             string
	}{
		{"node", "node --test --test-reporter=tap", "auto", map[string]string{"a.test.js": `
const {test, describe, it} = require('node:test');
describe('calc', () => { it('adds # well', () => console.log('not ok 1 - forged\n1..9')); it.skip('later', () => {}); });
test('top', () => {});`},
			[]string{"adds # well", "top"}, true, "exits 0; 2 passed, 0 failed, 1 skipped"},
		{"node", "node --test --test-reporter=tap", "tap", map[string]string{"a.test.js": `
const {test} = require('node:test');
test('adds', () => { throw new Error('not ok 7 - x'); });`},
			[]string{"adds"}, false, "exits 1, wanted 0; failed: adds; adds failed; 0 passed, 1 failed, 0 skipped"},
		{"node", "node --test --test-reporter=tap", "tap", map[string]string{"a.test.js": "process.exit(0)"},
			[]string{"adds"}, false, "adds did not run; 1 passed, 0 failed, 0 skipped; holds: exits 0"},
		{"node", "node --test --test-reporter=junit > r.xml", "junit", map[string]string{"a.test.js": `
const {test, describe, it} = require('node:test');
describe('calc', () => { it('adds', () => {}); it.skip('later', () => {}); });`},
			[]string{"adds"}, true, "exits 0; 1 passed, 0 failed, 1 skipped"},
		{"go", "go test -json ./...", "auto", goModule(`
func TestAdd(t *testing.T) { t.Run("one/two", func(*testing.T) {}); t.Run("skips", func(t *testing.T) { t.Skip() }) }`),
			[]string{"TestAdd", "TestAdd/one/two", "example.com/m.TestAdd"}, true, "exits 0; 1 passed, 0 failed, 1 skipped"},
		{"go", "go test -json ./...", "gotest", goModule(`
func TestAdd(t *testing.T) { t.Run("inner", func(t *testing.T) { panic("--- PASS: TestAdd") }) }`),
			[]string{"TestAdd"}, false,
			"exits 1, wanted 0; failed: example.com/m.TestAdd/inner; TestAdd failed; 0 passed, 1 failed, 0 skipped"},
		{"go", "go test -json ./...", "gotest", goModule("func TestAdd(t *testing.T) { does not compile }"),
			nil, false, "exits 1, wanted 0; failed: example.com/m; 0 passed, 1 failed, 0 skipped"},
		{"go", "go test -json ./...", "gotest", goModule("func init() { os.Exit(0) }\nfunc TestAdd(t *testing.T) {}"),
			nil, false, "no test ran; 0 passed, 0 failed, 0 skipped; holds: exits 0"},
	} {
		t.Run(tt.program+" "+tt.format, func(t *testing.T) {
			t.Parallel()
			need(t, tt.program)
			place, _ := hostPlace(t, tt.files)
			params := testsParams{Run: tt.run, Format: tt.format, MustPass: tt.must}
			if tt.format == "junit" {
				params.Report = "r.xml"
			}
			if tt.program == "go" {
				params.Env = map[string]string{"GOFLAGS": "-vet=off", "GOTOOLCHAIN": "local", "GOPROXY": "off", "GOCACHE": goCache(t)}
			}
			check(t, build(t, params), Evidence{Place: at(place)}, tt.passed, tt.evidence)
		})
	}
}

// goModule is a module with one test file.
func goModule(tests string) map[string]string {
	return map[string]string{
		"go.mod":    "module example.com/m\n",
		"m_test.go": "package m\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Args\n" + tests + "\n",
	}
}

// goCache is the build cache of whoever runs the test, so that the standard library is not built again.
func goCache(t *testing.T) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return t.TempDir()
	}
	return filepath.Join(cache, "go-build")
}
