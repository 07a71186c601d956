//go:build negative

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/result"
)

// TestA22WithoutAdmission: a case that was not admitted is passed by an agent that does nothing, and so is every case of a
// grader that asks the agent whether it is done.
func TestA22WithoutAdmission(t *testing.T) {
	t.Parallel()
	a := newAttack(t, nothingToDo)
	a.assay(0, "run", "suite")
	if all := a.results(); len(all) != 1 || all["task default"].Status != result.Passed {
		t.Errorf("without admission: %+v: the attack of A22 shows nothing", all)
	}
	askTheAgent := func(r result.Result) bool { return strings.Contains(r.Agent.FinalText, "done") }
	task := filepath.Join(a.dir, "suite/task/case.yaml")
	text, err := os.ReadFile(task)
	must(err)
	must(os.WriteFile(task, []byte(strings.ReplaceAll(string(text), "exist: [answer.txt]", "present: [FIXED]")), 0o644))
	a.assay(0, "run", "suite")
	switch r := a.results()["task default"]; {
	case !askTheAgent(r):
		t.Errorf("the agent answers %q: the attack of A22 shows nothing", r.Agent.FinalText)
	case r.Status != result.Failed:
		t.Errorf("an agent that says so and does nothing is %s", r.Status)
	}
}

// TestA23WithoutTheControl: whoever asks git in the folder that an agent left runs the agent's programs.
func TestA23WithoutTheControl(t *testing.T) {
	y := newPlanted(t)
	scripts := []string{"sh " + y.path("plant.sh"), "git status", "git diff", "git add -A", "git -c user.name=a -c user.email=a@b commit -q -m x"}
	for _, script := range scripts {
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = y.path("suite", "task", "fixture")
		out, err := cmd.CombinedOutput()
		t.Logf("%s: %v\n%s", script, err, out)
	}
	for _, name := range []string{"fsmonitor", "clean", "external", "pre-commit"} {
		if ran := y.ran(); !slices.Contains(ran, name) {
			t.Errorf("%s was not run, but %q: the attack of A23 shows nothing", name, ran)
		}
	}
}

// TestA30WithoutTheControl: a plan that is made of what could be reached gives a whole benchmark of the rest, in which nothing
// is missing.
func TestA30WithoutTheControl(t *testing.T) {
	y := newAway(t)
	for _, unreached := range []string{"private", "nobody"} {
		must(os.RemoveAll(y.path("suite", unreached)))
	}
	code, said := y.ends("out")
	if code == ExitUsage || code == ExitUnmeasured || !strings.Contains(said, "4/4 cells · 4 passed") {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	if page := y.read("out/benchmark.json"); strings.Contains(page, "private") || !strings.Contains(page, `"skipped": 0`) {
		t.Error("the benchmark tells of cases that were left out: the attack of A30 shows nothing")
	}
}
