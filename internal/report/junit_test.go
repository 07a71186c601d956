package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
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

// A parser that others wrote counts what the benchmark counts, and finds each cell as it ended.
func TestJUnitByAGoParser(t *testing.T) {
	b := demo(t)
	page, err := Face{Write: JUnit}.Render(b)
	if err != nil {
		t.Fatal(err)
	}
	suites, err := junit.Ingest(page)
	if err != nil {
		t.Fatal(err)
	}
	got, seen := tally{}, map[string]junit.Test{}
	for _, s := range suites {
		got.Tests += s.Totals.Tests
		got.Failures += s.Totals.Failed
		got.Errors += s.Totals.Error
		got.Skipped += s.Totals.Skipped
		if s.Properties["verdict"] != string(b.Verdict) {
			t.Errorf("%s: verdict %q, want %s", s.Name, s.Properties["verdict"], b.Verdict)
		}
		for _, c := range s.Tests {
			seen[c.Classname+" "+c.Name] = c
		}
	}
	if diff := cmp.Diff(tallyOf(b), got); diff != "" {
		t.Error(diff)
	}
	if len(seen) != got.Tests {
		t.Errorf("%d testcases have %d names", got.Tests, len(seen))
	}
	words := map[junit.Status]string{junit.StatusPassed: "passed", junit.StatusFailed: "failed", junit.StatusError: "errored", junit.StatusSkipped: "skipped"}
	for i := range b.Runs {
		r := &b.Runs[i]
		c := newJUnitCase(cellID{r.Case, r.Arm(), r.Trial}, r.Phase)
		is := seen[c.Class+" "+c.Name]
		if words[is.Status] != string(r.Status) || r.Result.TimeSeconds != nil && is.Duration.Seconds() != *r.Result.TimeSeconds {
			t.Errorf("%s %s: %s in %s, want %s in %v s", c.Class, c.Name, is.Status, is.Duration, r.Status, r.Result.TimeSeconds)
		}
	}
}

// numbersOf are cost and diff scope of a cell, as far as they are known.
func numbersOf(r *bench.Run) map[string]string {
	out := map[string]string{}
	if r.CostUSD != nil {
		out["cost_usd"] = fmt.Sprint(*r.CostUSD)
	}
	if s := r.DiffScope; s != nil {
		for name, n := range map[string]int{"files_touched": s.FilesTouched, "lines_added": s.LinesAdded, "lines_removed": s.LinesRemoved, "hunks": s.Hunks} {
			out["diff_scope."+name] = fmt.Sprint(n)
		}
	}
	return out
}

const readJUnit = `
import json, sys
from junitparser import JUnitXml, Properties
x = JUnitXml.fromfile(sys.argv[1])
cells = [c for s in x for c in s]
kinds = {"Failure": 0, "Error": 0, "Skipped": 0}
numbers = {}
for c in cells:
    for r in c.result:
        kinds[type(r).__name__] += 1
    told = c.child(Properties)
    numbers[c.classname + " " + c.name] = {p.name: p.value for p in told} if told is not None else {}
json.dump({
    "Tally": {"Tests": len(cells), "Failures": kinds["Failure"], "Errors": kinds["Error"], "Skipped": kinds["Skipped"]},
    "Numbers": numbers,
}, sys.stdout)
`

// So does the parser that publishers of test results use, and it finds cost and diff scope of each cell. ASSAY_JUNITPARSER names a Python that has it.
func TestJUnitByJunitparser(t *testing.T) {
	python := os.Getenv("ASSAY_JUNITPARSER")
	if python == "" {
		t.Skip("ASSAY_JUNITPARSER is not set; make junit names a Python with junitparser")
	}
	b := demo(t)
	page, err := Face{Write: JUnit}.Render(b)
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
	var got struct {
		Tally   tally
		Numbers map[string]map[string]string
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if diff := cmp.Diff(tallyOf(b), got.Tally); diff != "" {
		t.Error(diff)
	}
	told := map[string]int{}
	for i := range b.Runs {
		r := &b.Runs[i]
		c := newJUnitCase(cellID{r.Case, r.Arm(), r.Trial}, r.Phase)
		for name, want := range numbersOf(r) {
			told[name]++
			if is := got.Numbers[c.Class+" "+c.Name][name]; is != want {
				t.Errorf("%s %s: %s is %q, want %q", c.Class, c.Name, name, is, want)
			}
		}
	}
	if told["cost_usd"] == 0 || told["diff_scope.hunks"] == 0 {
		t.Errorf("no numbers were looked at: %v", told)
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
		page, err := Face{Write: JUnit}.Render(b)
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
