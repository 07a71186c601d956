package grade

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// goEvents writes events from lines such as "run p TestA".
func goEvents(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		if fields := strings.Fields(line); len(fields) == 3 {
			fmt.Fprintf(&b, "{\"Action\":%q,\"Package\":%q,\"Test\":%q}\n", fields[0], fields[1], fields[2])
		} else if len(fields) == 2 {
			fmt.Fprintf(&b, "{\"Action\":%q,\"Package\":%q}\n", fields[0], fields[1])
		}
	}
	return b.String()
}

func TestGoTest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, output, want string }{
		{"empty", "", "0 passed, 0 failed, 0 skipped"},
		{"one test", goPasses, "1 passed, 0 failed, 0 skipped"},
		{"text between events", "# example.com/p\n{not json}\n{\"a\":1}\nnull\n[1]\n" + goPasses + "FAIL? no\n", "1 passed, 0 failed, 0 skipped"},
		{"sub-tests stand for their parent", goEvents("run p A\nrun p A/x\nrun p A/x/y\nskip p A/x/y\npass p A/x\nrun p A/z\npass p A/z\npass p A\npass p"),
			"1 passed, 0 failed, 1 skipped"},
		{"a failed sub-test is one failure", goEvents("run p A\nrun p A/x\nfail p A/x\nfail p A\nfail p"), "0 passed, 1 failed, 0 skipped; failed: p.A/x"},
		{"a parent that fails by itself", goEvents("run p A\nrun p A/x\npass p A/x\nfail p A\nfail p"), "1 passed, 1 failed, 0 skipped; failed: p.A"},
		{"a package that fails by itself", goEvents("start p\nfail p"), "0 passed, 1 failed, 0 skipped; failed: p"},
		{"a package that fails after its tests", goEvents("start p\nrun p A\npass p A\nfail p"), "1 passed, 1 failed, 0 skipped; failed: p"},
		{"no test files", goEvents("start p\nskip p"), "0 passed, 0 failed, 0 skipped"},
		{"a test that never ended", goEvents("start p\nrun p A\nrun p B\npass p B\npass p"), "1 passed, 0 failed, 0 skipped; did not finish: p.A"},
		{"a package that never ended", goEvents("start p\nrun p A\npass p A"), "1 passed, 0 failed, 0 skipped; did not finish: p"},
		{"parallel tests", goEvents("start p\nrun p A\npause p A\nrun p B\npause p B\ncont p A\ncont p B\npass p B\npass p A\npass p"), "2 passed, 0 failed, 0 skipped"},
		{"two packages", goEvents("start p\nstart q\nrun q A\nrun p A\npass p A\nfail q A\npass p\nfail q"), "1 passed, 1 failed, 0 skipped; failed: q.A"},
		{"NaN", `{"Action":"pass","Package":"p","Test":"A","Elapsed":NaN}` + "\n", "0 passed, 0 failed, 0 skipped"},
		{"a benchmark", goEvents("start p\nrun p BenchmarkX\nbench p BenchmarkX\npass p"), "0 passed, 0 failed, 0 skipped"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, summary(readStdout("gotest", tt.output))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestGoTestNames(t *testing.T) {
	t.Parallel()
	output := goEvents("run p A\npass p A\nrun q A\nskip q A\nrun p B\nrun p B/c\npass p B/c\npass p B\npass p\npass q")
	found := readStdout("gotest", output, "A", "p.A", "q.A", "B", "B/c", "p.B/c", "C")
	want := map[string]outcome{
		"A": testSkipped, "p.A": testPassed, "q.A": testSkipped, "B": testPassed, "B/c": testPassed, "p.B/c": testPassed, "C": testUnseen,
	}
	if diff := cmp.Diff(want, found.named); diff != "" {
		t.Error(diff)
	}
}

func TestGoTestBoundsRunningTests(t *testing.T) {
	t.Parallel()
	g := newGoTest(nil)
	long := strings.Repeat("/", 60_000)
	for i := range 300 {
		g.line([]byte(goEvents(fmt.Sprintf("run p %d%s", i, long))), false)
	}
	held := 0
	for key := range g.open {
		held += len(key.Test)
	}
	if found, _ := g.end(); held > maxOpen || found.trouble != "too many tests run at one time: their names have more than 16 MiB" {
		t.Errorf("%d bytes held, trouble %q", held, found.trouble)
	}
}

func FuzzGoTest(f *testing.F) {
	f.Add([]byte(goPasses))
	f.Add([]byte(goEvents("start p\nrun p A\nrun p A/x\nfail p A/x\nfail p A\nfail p")))
	f.Add([]byte(goEvents("skip p\nrun p /\npass p /\npass p //")))
	f.Add([]byte("{\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"\\u0000\"}\n{"))
	f.Fuzz(func(t *testing.T, output []byte) { fuzzStdout(t, "gotest", output) })
}

// fuzzStdout holds the laws of every report on standard output: a result for each line at most, bounded lists, and the
// same tally however the output is split.
func fuzzStdout(t *testing.T, format string, output []byte) {
	whole := newStdoutReport(format, []string{"A", "adds"})
	whole.Write(output)
	found := whole.finish()
	lines := strings.Count(string(output), "\n") + 1
	if n := found.passed + found.failed + found.skipped; n > lines || found.passed < 0 || found.failed < 0 || found.skipped < 0 {
		t.Errorf("%s from %d lines", summary(found), lines)
	}
	if len(found.failing) > maxRows || len(found.failing) > found.failed || len(found.named) != 2 {
		t.Errorf("lists grew: %s, %v", summary(found), found.named)
	}
	split := newStdoutReport(format, []string{"A", "adds"})
	for i := range output {
		split.Write(output[i : i+1])
	}
	if diff := cmp.Diff(summary(found), summary(split.finish())); diff != "" {
		t.Errorf("byte by byte:\n%s", diff)
	}
}
