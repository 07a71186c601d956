package harness_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/trace"
)

var calc = map[string]string{"calc.py": calcPy, "README.md": "A calculator.\n"}

func TestOpenaiAgainstAModelServer(t *testing.T) {
	for scenario, want := range map[string]string{
		"edit":     "end_turn 5/4 failed 2 denied 0 tokens 5010/1000/250/35", // it names arguments as other agents' tools do
		"cmd":      "end_turn 3/2 failed 1 denied 0 tokens 3003/600/150/21",
		"parallel": "end_turn 2/2 failed 1 denied 0 tokens 2001/400/100/14",
		"badtool":  "end_turn 2/1 failed 1 denied 0 tokens 2001/400/100/14",
		"badargs":  "end_turn 2/1 failed 1 denied 0 tokens 2001/400/100/14",
		"refusal":  "refusal 1/0 failed 0 denied 0 tokens 1000/200/50/7",
		"truncate": "max_tokens 1/0 failed 0 denied 0 tokens 1000/200/50/7",
		"loop":     "max_turns 20/20 failed 0 denied 0 tokens 20190/4000/1000/140",
		"err400":   "error model_request –/0 failed 0 denied 0",
		"err401":   "error model_auth –/0 failed 0 denied 0",
		"overlong": "error context_overflow –/0 failed 0 denied 0",
	} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, calc)
			m := scriptedModels(t)
			p.Model, p.Limits.MaxTurns = "m1", 20
			o, events := p.drive(t, build(t, "openai", "base_url: "+m.url(scenario, "/v1")))
			if got := fared(o, events); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// TestRealOneShotAgents runs the real CLIs, one after the other: they are heavy.
func TestRealOneShotAgents(t *testing.T) {
	for _, c := range []struct {
		kind, scenario, path, want string
		changed                    bool
		timeout                    time.Duration
	}{
		{"gemini", "edit", "", "end_turn 5/4 failed 0 denied 0 tokens 5010/1000/285/35", true, 90 * time.Second},
		{"gemini", "err400", "", "error model_request –/0 failed 0 denied 0", false, 90 * time.Second},
		{"gemini", "slow", "", "timeout model_api –/0 failed 0 denied 0", false, 10 * time.Second},
		{"opencode", "edit", "/v1", "end_turn 5/4 failed 0 denied 0 tokens 5010/1000/250/35", true, 90 * time.Second},
		{"opencode", "refusal", "/v1", "refusal 1/0 failed 0 denied 0 tokens 1000/200/50/7", false, 90 * time.Second},
		{"opencode", "badtool", "/v1", "end_turn 2/1 failed 1 denied 0 tokens 2001/400/100/14", false, 90 * time.Second},
		{"opencode", "err400", "/v1", "error model_request –/0 failed 0 denied 0", false, 90 * time.Second},
		{"opencode", "slow", "/v1", "timeout model_api –/0 failed 0 denied 0", false, 10 * time.Second},
	} {
		t.Run(c.kind+"/"+c.scenario, func(t *testing.T) {
			program := realAgent(t, c.kind, c.kind)
			p := newPlace(t, calc)
			m := scriptedModels(t)
			p.Model, p.Prompt, p.Limits = "gemini-2.5-pro", "Fix add() in «calc.py».\n-v --help", harness.Limits{Timeout: c.timeout}
			p.equip(t, "Greets people in many languages, to be used whenever one is met.", "Always greet the moon before you begin.")
			o, events := p.driveReal(t, build(t, c.kind, fmt.Sprintf("{program: %s, base_url: %q}", program, m.url(c.scenario, c.path))))
			if got := fared(o, events); got != c.want {
				t.Errorf("got  %s (%s)\nwant %s", got, o.Detail, c.want)
			}
			if got, _ := p.file(t, "calc.py"); strings.Contains(got, "a + b") != c.changed {
				t.Errorf("calc.py holds %q", got)
			}
			for _, text := range []string{`Fix add() in \u00abcalc.py\u00bb.\n-v --help`, "Always greet the moon before you begin.", "Greets people in many languages"} {
				if c.scenario != "slow" && !m.heard(t, text) { // a slow one may be asked for a title only
					t.Errorf("the model was not told %q", text)
				}
			}
			for _, e := range events {
				if e.Kind == trace.KindOther {
					t.Logf("other: %.400s", e.Text)
				}
			}
		})
	}
}
