//go:build negative

package run

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
)

// TestA03AnswerTextAlone: a runner that looks at what an agent answered, and not at how it ended, passes one that exits
// with 7.
func TestA03AnswerTextAlone(t *testing.T) {
	t.Parallel()
	answer, err := exec.Command("sh", "-c", "echo Done, all tests pass.; exit 7").Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Fatalf("the agent ended with %v", err)
	}
	passed := func(answer string) bool { return strings.Contains(answer, "all tests pass") }
	if !passed(string(answer)) {
		t.Errorf("the answer %q does not pass: the attack of A03 shows nothing", answer)
	}
	status, class, _, graded := ended(harness.Outcome{Stop: trace.StopError, FinalText: string(answer)}, true)
	if status != result.Errored || class != trace.ClassHarnessCrash || graded {
		t.Errorf("the same end is %s (%s), graded %v", status, class, graded)
	}
}
