//go:build negative

package cli

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

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
