package harness_test

import (
	"fmt"
	"testing"

	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/trace"
)

// Where no gateway refuses the call above the limit, an agent that goes on is ended by what its output tells.
func TestTurnLimitWithoutAGateway(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"gemini", "opencode"} {
		for limit, stop := range map[int]trace.StopReason{4: trace.StopMaxTurns, 5: trace.StopEndTurn} {
			p := &place{Task: harness.Task{
				Model: "m1", Prompt: "Fix.", Exec: &oneShot{stdout: stream(t, kind, "edit")}, Work: "/work", Home: "/home", Limits: harness.Limits{MaxTurns: limit},
			}}
			p.Log = &p.log
			o, _ := p.drive(t, build(t, kind, "base_url: http://127.0.0.1:1/x"))
			if o.Stop != stop || stop == trace.StopMaxTurns && o.Detail != fmt.Sprintf("turn limit of %d reached", limit) {
				t.Errorf("%s with %d turns allowed: %s %s", kind, limit, o.Stop, o.Detail)
			}
		}
	}
	said, _ := frames(t, "edit")
	for limit, stop := range map[int]trace.StopReason{4: trace.StopMaxTurns, 5: trace.StopEndTurn} {
		p := &place{Task: claudeTask(&claudeFake{said: said, write: 1 << 20}, allowing)}
		p.Log, p.Limits.MaxTurns = &p.log, limit
		if o, _ := p.drive(t, build(t, "claude-code", "{}")); o.Stop != stop {
			t.Errorf("claude-code with %d turns allowed: %s %s", limit, o.Stop, o.Detail)
		}
	}
}
