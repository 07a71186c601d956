package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/joshdk/go-junit"

	"github.com/assay-ci/assay/internal/bench"
)

// tally counts the cells of a benchmark by what JUnit calls them.
type tally struct{ Tests, Failures, Errors, Skipped int }

func tallyOf(b bench.Benchmark) tally {
	n := tally{}
	for _, a := range b.Arms {
		c := a.Coverage
		n.Tests += c.Planned
		n.Failures += c.Failed
		n.Errors += c.Errored
		n.Skipped += c.Skipped + c.Pending
	}
	for _, c := range b.CaseArms {
		if c.Confirm != nil {
			n.Tests += c.Confirm.Planned
			n.Failures += c.Confirm.Failed
			n.Errors += c.Confirm.Errored
			n.Skipped += c.Confirm.Skipped + c.Confirm.Pending
		}
	}
	return n
}

// A parser that others wrote counts what the benchmark counts, and finds the numbers of each cell.
func TestJUnitByAGoParser(t *testing.T) {
	b := demo(t)
	page, err := JUnit(b)
	if err != nil {
		t.Fatal(err)
	}
	suites, err := junit.Ingest(page)
	if err != nil {
		t.Fatal(err)
	}
	got, seen := tally{}, map[string]bool{}
	for _, s := range suites {
		got.Tests += s.Totals.Tests
		got.Failures += s.Totals.Failed
		got.Errors += s.Totals.Error
		got.Skipped += s.Totals.Skipped
		if s.Properties["verdict"] != string(b.Verdict) {
			t.Errorf("%s: verdict %q, want %s", s.Name, s.Properties["verdict"], b.Verdict)
		}
		for _, c := range s.Tests {
			seen[c.Classname+" "+c.Name] = true
		}
	}
	if diff := cmp.Diff(tallyOf(b), got); diff != "" {
		t.Error(diff)
	}
	if len(seen) != got.Tests {
		t.Errorf("%d testcases have %d names", got.Tests, len(seen))
	}
	for _, r := range b.Runs {
		if r.DiffScope != nil && !bytes.Contains(page, []byte(`name="diff_scope.hunks"`)) {
			t.Error("no diff scope is told")
		}
	}
}

const readJUnit = `
import json, sys
from junitparser import JUnitXml
x = JUnitXml.fromfile(sys.argv[1])
cells = [c for s in x for c in s]
kinds = {"Failure": 0, "Error": 0, "Skipped": 0}
for c in cells:
    for r in c.result:
        kinds[type(r).__name__] += 1
json.dump({"Tests": len(cells), "Failures": kinds["Failure"], "Errors": kinds["Error"], "Skipped": kinds["Skipped"]}, sys.stdout)
`

// So does the parser that publishers of test results use. ASSAY_JUNITPARSER names a Python that has it.
func TestJUnitByJunitparser(t *testing.T) {
	python := os.Getenv("ASSAY_JUNITPARSER")
	if python == "" {
		t.Skip("ASSAY_JUNITPARSER is not set; make junit names a Python with junitparser")
	}
	b := demo(t)
	page, err := JUnit(b)
	if err != nil {
		t.Fatal(err)
	}
	name := t.TempDir() + "/junit.xml"
	if err := os.WriteFile(name, page, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, "-c", readJUnit, name).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got tally
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if diff := cmp.Diff(tallyOf(b), got); diff != "" {
		t.Error(diff)
	}
}

// Whatever an agent prints, the file stays XML and says nothing that the agent chose.
func FuzzJUnit(f *testing.F) {
	f.Add("]]></failure><testcase/>\x00\x1b[31m\ufffe\xff &amp; \"'")
	f.Fuzz(func(t *testing.T, hostile string) {
		no := false
		b := bench.Benchmark{
			Arms: []bench.Arm{{ArmID: bench.ArmID{Harness: hostile, Model: "m", Condition: "c"}}},
			Runs: []bench.Run{{
				Case: hostile, Harness: hostile, Model: "m", Condition: "c", Trial: 1, Status: "failed", Detail: hostile,
				Expectations: []bench.Expectation{{ID: hostile, Text: hostile, Evidence: hostile, Passed: &no}},
			}},
		}
		page, err := JUnit(b)
		if err != nil {
			t.Fatal(err)
		}
		cases := 0
		for dec := xml.NewDecoder(bytes.NewReader(page)); ; {
			token, err := dec.Token()
			if token == nil {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "testcase" {
				cases++
			}
		}
		if cases != 1 {
			t.Errorf("%d testcases, want 1:\n%s", cases, page)
		}
		if strings.ContainsAny(string(page), "\x00\x1b") {
			t.Errorf("control characters:\n%q", page)
		}
	})
}
