package run

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/google/go-cmp/cmp"
)

// callers are agents of every sort: three call models from their place, one from outside of it, and one calls none.
const callers = `
-- suite/suite.yaml --
name: callers
matrix:
  trials: 2
  harnesses:
    - {id: inside, type: claude-code, models: [m], model_script: agent/model.yaml}
    - {id: outside, type: openai, models: [m], model_script: agent/model.yaml}
    - {id: talks, type: acp, agent: codex-acp, models: [m], model_script: agent/model.yaml}
    - {id: plain, type: command, argv: [sh], stdin: prompt}
    - {id: real, type: codex, models: [m]}
-- suite/fine/case.yaml --
id: fine
prompt: Say BANANA.
source: {path: fixture}
assertions: [{id: says_it, type: files, present: [BANANA]}]
-- suite/fine/agent/model.yaml --
turns: [{say: Done.}]
-- suite/fine/fixture/f.txt --
x
`

// TestCheckGateway: agents that call models from their place are refused, each once and at its place in the suite, where no
// place reaches the gateway. Others are not, nor those of which no cell is to be run.
func TestCheckGateway(t *testing.T) {
	t.Parallel()
	k, _, all := kitOf(t, &boxes{}, callers)
	cellsOf := func(ids string) (some []plan.Cell) {
		for _, c := range all {
			if strings.Contains(ids, c.Harness) {
				some = append(some, c)
			}
		}
		return some
	}
	const every, hint = "inside outside talks plain real", "use openai, whose loop runs outside of the place, or script; or another executor, or network"
	fault := func(line, column int, kind string) string {
		return fmt.Sprintf("suite/suite.yaml:%d:%d the agents of %s call models from their place, and none of the executor boxes reaches the gateway: %s",
			line, column, kind, hint)
	}
	three := []string{fault(5, 26, "claude-code"), fault(7, 25, "acp"), fault(9, 24, "codex")}
	for _, c := range []struct {
		what   string
		places executor.Facts
		ids    string
		want   []string
	}{
		{"the gateway alone is reached", executor.Facts{Network: executor.NetGateway}, every, nil},
		{"everything is reached", executor.Facts{Network: executor.NetOpen}, every, nil},
		{"nothing is reached", executor.Facts{Network: executor.NetNone}, every, three},
		{"everything but the gateway is reached", executor.Facts{Network: executor.NetOpen, NoGateway: true}, every, three},
		{"nothing is reached, and nobody calls from there", executor.Facts{Network: executor.NetNone, NoGateway: true}, "outside plain", nil},
		{"nothing is reached, and few are run", executor.Facts{Network: executor.NetNone}, "plain real", three[2:]},
	} {
		c.places.Name = "boxes"
		if diff := cmp.Diff(c.want, faults(t, k.CheckGateway(cellsOf(c.ids), c.places))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
}

// faults are the problems of an error, with their places.
func faults(t *testing.T, err error) (list []string) {
	t.Helper()
	if err == nil {
		return nil
	}
	var problems suite.Problems
	if !errors.As(err, &problems) {
		t.Fatalf("%T: %v", err, err)
	}
	for _, p := range problems {
		list = append(list, fmt.Sprintf("%s:%d:%d %s: %s", p.File, p.Line, p.Col, p.Msg, p.Hint))
	}
	return list
}
