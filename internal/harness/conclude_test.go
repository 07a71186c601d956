package harness_test

import (
	"encoding/json"
	"testing"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/trace"
)

// A prompt that is too long from the beginning measures nothing. A context that the agent filled itself is a limit that it
// hit: it must not leave the rate by that.
func TestContextOverflow(t *testing.T) {
	t.Parallel()
	overflow := gateway.Turn{HTTP: 400, Say: "prompt is too long"}
	works := gateway.Turn{Calls: []gateway.Call{{Kind: "raw", Name: "list", Input: json.RawMessage("{}")}}}
	for name, c := range map[string]struct {
		turns []gateway.Turn
		stop  trace.StopReason
		class trace.Class
	}{
		"at once": {[]gateway.Turn{overflow}, trace.StopError, trace.ClassContextOverflow},
		"later":   {[]gateway.Turn{works, overflow}, trace.StopMaxTokens, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, err := gateway.New(gateway.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			up := gateway.Upstream{Dialect: gateway.Chat, Script: &gateway.Script{Turns: c.turns}}
			door, err := g.Open(gateway.Spec{Name: "cell", Models: []gateway.Model{{Name: "m1", Upstream: up}}})
			if err != nil {
				t.Fatal(err)
			}
			p := &place{Task: harness.Task{Model: "m1", Prompt: "Fix.", Exec: fake{files: noFiles{}}, Work: "/work", Gateway: door}}
			p.Log = &p.log
			if o, _ := p.drive(t, build(t, "openai", "{}")); o.Stop != c.stop || o.Class != c.class {
				t.Errorf("%s %s (%s), want %s %s", o.Stop, o.Class, o.Detail, c.stop, c.class)
			}
		})
	}
}

// What an agent says of its context counts the same way where no gateway sees its calls.
func TestContextOverflowByItsOwnWord(t *testing.T) {
	t.Parallel()
	const (
		step  = `{"type":"step_finish","part":{"reason":"tool-calls","tokens":{"input":1,"output":1}}}` + "\n"
		fault = `{"type":"error","error":{"name":"ContextOverflowError","data":{"message":"too much"}}}` + "\n"
	)
	for said, want := range map[string]trace.Class{fault: trace.ClassContextOverflow, step + fault: ""} {
		_, o, _ := playStream(t, "opencode", &oneShot{stdout: []byte(said), exit: executor.Exit{Code: 1}})
		if stop := o.Stop; o.Class != want || (stop == trace.StopError) != (want != "") || (stop == trace.StopMaxTokens) != (want == "") {
			t.Errorf("%s%s %s (%s)", said, o.Stop, o.Class, o.Detail)
		}
	}
}
