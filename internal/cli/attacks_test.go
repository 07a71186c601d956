package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/assay-ci/assay/internal/result"
)

// An attack is a suite in a folder of its own, and the real binary.
type attack struct {
	t        *testing.T
	dir, bin string
}

// newAttack writes the files of an archive below a folder.
func newAttack(t *testing.T, files string) *attack {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("agents run on Linux only")
	}
	dir := t.TempDir()
	a := &attack{t: t, dir: dir, bin: buildPrograms(t, dir)}
	for _, f := range txtar.Parse([]byte(files)).Files {
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		must(os.MkdirAll(filepath.Dir(name), 0o755))
		must(os.WriteFile(name, f.Data, 0o644))
	}
	return a
}

// assay runs the binary in the folder, which must end with an exit code, and returns all that it printed.
func (a *attack) assay(code int, args ...string) string {
	a.t.Helper()
	cmd := exec.CommandContext(a.t.Context(), filepath.Join(a.bin, "assay"), args...)
	cmd.Dir = a.dir
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Join(a.dir, "tmp"), "ASSAY_CACHE="+filepath.Join(a.dir, "cache"))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		a.t.Fatalf("%v ended with %v, want exit code %d\n%s", args, err, code, out)
	}
	return string(out)
}

// results are those of the ledger, by case and condition.
func (a *attack) results() map[string]result.Result {
	a.t.Helper()
	out := filepath.Join(a.dir, "assay-results")
	m, err := result.ReadManifest(out)
	must(err)
	all := map[string]result.Result{}
	for r, err := range result.Read(out, m.Cells) {
		must(err)
		all[r.Case+" "+r.Condition] = r
	}
	return all
}

// TestA14ForgedRecords: whoever writes better results into the ledger and takes the plan away has the cell run again, and
// the plan is the same.
func TestA14ForgedRecords(t *testing.T) {
	t.Parallel()
	a := newAttack(t, `
-- suite/suite.yaml --
name: forged
matrix:
  harnesses: [{id: idle, type: script, steps: [{say: done}]}]
  conditions: [{id: a, baseline: true}, {id: b, prompt_prefix: "Please. "}]
  trials: 1
-- suite/task/case.yaml --
id: task
prompt: Fix it.
source: {path: fixture}
assertions: [{id: fixed, type: files, present: [FIXED]}]
-- suite/task/fixture/answer.txt --
BROKEN
`)
	a.assay(0, "run", "suite")
	records, err := filepath.Glob(filepath.Join(a.dir, "assay-results/cells/task/*b/*/result.json"))
	if err != nil || len(records) != 1 {
		t.Fatalf("records: %v %v", records, err)
	}
	honest, err := os.ReadFile(records[0])
	must(err)
	must(os.WriteFile(records[0], []byte(strings.ReplaceAll(string(honest), `"failed"`, `"passed"`)), 0o644))
	if out := a.assay(0, "report", "assay-results"); !strings.Contains(out, "1 of 2 planned cells") {
		t.Errorf("a forged record is read:\n%s", out)
	}
	must(os.Remove(filepath.Join(a.dir, "assay-results/manifest.json")))
	if out := a.assay(0, "run", "suite"); !strings.Contains(out, "2/2 cells · 2 failed · 1 kept") {
		t.Errorf("the forged cell, and no other, should run again:\n%s", out)
	}
	if r := a.results()["task b"]; r.Status != result.Failed || r.Attempt != 2 {
		t.Errorf("the forged cell is %s, attempt %d", r.Status, r.Attempt)
	}
}

const toldSuite = `
-- suite/suite.yaml --
name: told
matrix:
  harnesses: [{id: shell, type: command, stdin: prompt, argv: [sh], env: {GIVEN: "{instructions}"}}]
  conditions:
    - {id: plain, baseline: true}
    - {id: told, files: {notes/test.txt: notes.md}}
    - {id: taught, files: {notes/test.txt: taught.md}}
  trials: 1
-- suite/notes.md --
The tests are these:
grep -q '^FIXED' answer.txt || exit 1
test "$(wc -l < answer.txt)" -eq 1 || exit 1
test "$(head -c 5 answer.txt)" = FIXED || exit 1
-- suite/taught.md --
Read the task, write a test of your own, and look at the whole file before you change a line of it.
-- suite/task/case.yaml --
id: task
prompt: echo FIXED > answer.txt
source: {path: fixture}
hidden: hidden
assertions: [{id: correct, type: command, run: sh tests/test.sh, gate: true}]
-- suite/task/fixture/answer.txt --
BROKEN
-- suite/task/hidden/tests/test.sh --
grep -q '^FIXED' answer.txt || exit 1
test "$(wc -l < answer.txt)" -eq 1 || exit 1
test "$(head -c 5 answer.txt)" = FIXED || exit 1
`

// TestA21GivenTests: an agent that is given the hidden tests is not measured, and costs nothing. What a source shows at
// another place is the same.
func TestA21GivenTests(t *testing.T) {
	t.Parallel()
	a := newAttack(t, toldSuite)
	a.assay(3, "run", "suite")
	all := a.results()
	for _, condition := range []string{"plain", "taught"} {
		if r := all["task "+condition]; r.Status != result.Passed || !r.Contamination.Proven {
			t.Errorf("%s: %s %s, %+v", condition, r.Status, r.Detail, r.Contamination)
		}
	}
	r := all["task told"]
	if r.Status != result.Errored || r.Class != "grader" || !strings.Contains(r.Detail, "notes/test.txt holds 100 % of the hidden file tests/test.sh") ||
		r.Attempt != 1 || r.Took.Agent != 0 || r.Contamination.Proven {
		t.Errorf("told: %s %s attempt %d after %v: %s", r.Status, r.Class, r.Attempt, r.Took.Agent, r.Detail)
	}
	report, err := os.ReadFile(filepath.Join(a.dir, "assay-results/report.md"))
	must(err)
	if !strings.Contains(string(report), "2 of 3 cells with hidden assets") {
		t.Error("the report does not count the proofs")
	}

	test, err := os.ReadFile(filepath.Join(a.dir, "suite/task/hidden/tests/test.sh"))
	must(err)
	must(os.WriteFile(filepath.Join(a.dir, "suite/task/fixture/old-test.sh"), test, 0o644))
	a.assay(3, "run", "suite")
	if r := a.results()["task plain"]; r.Status != result.Errored || !strings.Contains(r.Detail, "old-test.sh holds 100 %") {
		t.Errorf("the source shows the test: %s %s", r.Status, r.Detail)
	}
}

// TestA21CanaryIsSeen: an agent that reads in the grading place of another cell, as one can on a bare host, does not pass.
func TestA21CanaryIsSeen(t *testing.T) {
	t.Parallel()
	a := newAttack(t, `
-- suite/suite.yaml --
name: canary
matrix:
  harnesses: [{id: shell, type: command, stdin: prompt, argv: [sh]}]
  trials: 1
-- suite/slow/case.yaml --
id: slow
prompt: echo FIXED > answer.txt
source: {path: fixture}
hidden: hidden
assertions: [{id: correct, type: command, run: "while [ ! -e ../../seen ]; do sleep 0.1; done", timeout: 20s}]
-- suite/slow/fixture/answer.txt --
BROKEN
-- suite/slow/hidden/tests/test.sh --
grep -q '^FIXED' answer.txt
-- suite/snoop/case.yaml --
id: snoop
prompt: |
  n=0
  until grep -rhs assay-canary- ../.. || [ $n -gt 150 ]; do n=$((n + 1)); sleep 0.1; done
  touch ../../seen
  echo FIXED > answer.txt
source: {path: fixture}
hidden: hidden
assertions: [{id: correct, type: command, run: sh tests/test.sh, gate: true}]
-- suite/snoop/fixture/answer.txt --
BROKEN
-- suite/snoop/hidden/tests/test.sh --
grep -q '^FIXED' answer.txt
`)
	a.assay(0, "run", "suite", "--jobs", "2")
	all := a.results()
	r := all["snoop default"]
	if r.Status != result.Failed || !strings.Contains(r.Detail, "of the agent holds the canary of a grading place") || r.Contamination.Proven {
		t.Errorf("snoop: %s: %s %+v", r.Status, r.Detail, r.Contamination)
	}
	if r := all["slow default"]; r.Status != result.Passed || !r.Contamination.Proven {
		t.Errorf("slow: %s: %s %+v", r.Status, r.Detail, r.Contamination)
	}
}

// nothingToDo is a case that an agent passes by doing nothing.
const nothingToDo = `
-- suite/suite.yaml --
name: nothing
matrix:
  harnesses: [{id: idle, type: script, steps: [{say: done}]}]
  trials: 1
-- suite/task/case.yaml --
id: task
prompt: Fix it.
source: {path: fixture}
assertions: [{id: there, type: files, exist: [answer.txt]}]
-- suite/task/fixture/answer.txt --
BROKEN
`

// TestA22NullAgent: a case that an agent passes by doing nothing is refused, and so is an assertion that asserts nothing.
func TestA22NullAgent(t *testing.T) {
	t.Parallel()
	a := newAttack(t, nothingToDo+`
-- empty.yaml --
id: task
prompt: Fix it.
source: {path: fixture}
assertions: [{id: there, type: files}]
`)
	if out := a.assay(2, "check", "suite", "--admit", "--times", "1"); !strings.Contains(out, "an agent that does nothing is not failed") {
		t.Errorf("the case is admitted:\n%s", out)
	}
	must(os.Rename(filepath.Join(a.dir, "empty.yaml"), filepath.Join(a.dir, "suite/task/case.yaml")))
	if out := a.assay(2, "check", "suite"); !strings.Contains(out, "suite/task/case.yaml:4:") {
		t.Errorf("an assertion that asserts nothing:\n%s", out)
	}
}
