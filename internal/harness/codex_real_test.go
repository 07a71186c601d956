package harness_test

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/trace"
)

// TestRealCodex drives the real CLI in a place of this host. It is one test, for one heavy program at a time.
func TestRealCodex(t *testing.T) {
	program, models := realAgent(t, "codex", "codex"), scriptedModels(t)
	for _, c := range []struct {
		scenario, model string
		timeout         time.Duration
		want            codexTally
		file, content   string // a file as it is left
	}{
		{"edit", "gpt-5.5", time.Minute, codexTally{"end_turn", "", true, 5, 5, "4", ""}, "calc.py", calcFixed},
		{"edit", "gpt-5-codex", time.Minute, codexTally{"end_turn", "", true, 5, 5, "4", ""}, "calc.py", calcFixed},
		{"edit", "gpt-6-astra", time.Minute, codexTally{"end_turn", "", true, 5, 5, "4 1 late 1 error", ""}, "calc.py", calcFixed},
		{"write", "gpt-5.5", time.Minute, codexTally{"end_turn", "", true, 2, 2, "1", ""}, "NEW.txt", "hello\n"},
		{"cmd", "gpt-5.5", time.Minute, codexTally{"end_turn", "", true, 3, 3, "2 1 error", ""}, "ran.txt", ""},
		{"ask", "gpt-5.5", time.Minute, codexTally{"end_turn", "", true, 2, 2, "1 1 late 1 error", ""}, "calc.py", calcPy},
		{"badargs", "gpt-5.5", time.Minute, codexTally{"end_turn", "", true, 2, 2, "1 1 late 1 error", ""}, "calc.py", calcPy},
		{"refusal", "gpt-5.5", time.Minute, codexTally{"refusal", "", true, -1, 0, "0", "2 retries, 1 faults"}, "calc.py", calcPy},
		{"truncate", "gpt-5.5", time.Minute, codexTally{"max_tokens", "", true, -1, 1, "0", "1 faults"}, "calc.py", calcPy},
		{"err400", "gpt-5.5", time.Minute, codexTally{"error", "model_request", false, -1, 0, "0", "1 faults"}, "calc.py", calcPy},
		{"err401", "gpt-5.5", time.Minute, codexTally{"error", "model_auth", false, -1, 0, "0", "2 retries, 1 faults"}, "calc.py", calcPy},
		{"err429", "gpt-5.5", time.Minute, codexTally{"error", "model_limit", false, -1, 0, "0", "2 retries, 1 faults"}, "calc.py", calcPy},
		{"err500", "gpt-5.5", time.Minute, codexTally{"error", "model_api", false, -1, 0, "0", "2 retries, 1 faults"}, "calc.py", calcPy},
		{"overlong", "gpt-5.5", time.Minute, codexTally{"error", "context_overflow", false, -1, 0, "0", "1 faults"}, "calc.py", calcPy},
		{"slow", "gpt-5.5", 3 * time.Second, codexTally{"timeout", "model_api", false, -1, 0, "0", ""}, "calc.py", calcPy},
	} {
		t.Run(c.scenario+" "+c.model, func(t *testing.T) {
			p := newPlace(t, map[string]string{"calc.py": calcPy})
			p.Model, p.Limits.Timeout = c.model, c.timeout
			o, events := p.driveReal(t, build(t, "codex", fmt.Sprintf("{program: %q, base_url: %q}", program, models.url(c.scenario, "/v1"))))
			if diff := cmp.Diff(c.want, tallyOf(t, o, events)); diff != "" {
				t.Errorf("%s\n%s", diff, o.Detail)
			}
			if got, there := p.file(t, c.file); !there || strings.TrimSpace(got) != strings.TrimSpace(c.content) {
				t.Errorf("%s holds %q", c.file, got)
			}
			if o.Version == "" || o.Model != c.model {
				t.Errorf("version %q, model %q", o.Version, o.Model)
			}
			for _, e := range events {
				if e.Kind == trace.KindOther && !strings.HasPrefix(e.Text, "standard error:") {
					t.Errorf("not understood: %s", compact(t, e))
				}
			}
		})
	}
}

// TestRealCodexLoops: an agent that never ends is ended, with all that it had started.
func TestRealCodexLoops(t *testing.T) {
	program, models := realAgent(t, "codex", "codex"), scriptedModels(t)
	p := newPlace(t, nil)
	p.Model, p.Limits = "gpt-5.5", harness.Limits{Timeout: 4 * time.Second, Grace: 10 * time.Second}
	o, events := p.driveReal(t, build(t, "codex", fmt.Sprintf("{program: %q, base_url: %q}", program, models.url("loop", "/v1"))))
	got := tallyOf(t, o, events)
	if o.Stop != trace.StopTimeout || !o.Answered || o.Signal != "SIGTERM" {
		t.Errorf("%+v, ended by %q", got, o.Signal)
	}
	// Each answer of the model makes one call, the last of which may not have come to anything.
	if calls := len(slices.Collect(toolCalls(events))); got.Turns < 2 || calls < got.Turns-1 || calls > got.Turns+1 {
		t.Errorf("%d calls in %+v", calls, got)
	}
}

func toolCalls(events []trace.Event) iter.Seq[*trace.Tool] {
	return func(yield func(*trace.Tool) bool) {
		for _, e := range events {
			if e.Kind == trace.KindToolCall && !yield(e.Tool) {
				return
			}
		}
	}
}

// TestRealCodexTakesACondition: a server that does not start ends the cell, it is not left out.
func TestRealCodexTakesACondition(t *testing.T) {
	program, models := realAgent(t, "codex", "codex"), scriptedModels(t)
	h := build(t, "codex", fmt.Sprintf("{program: %q, base_url: %q}", program, models.url("plain", "/v1")))
	p := newPlace(t, nil)
	p.Model = "gpt-5.5"
	p.Extras.MCP = []harness.MCPServer{{Name: "tools", Argv: []string{"/nowhere/server"}}}
	o, _ := p.driveReal(t, h)
	if o.Stop != trace.StopNoTerminalEvent || o.Class != trace.ClassHarnessConfig || !strings.Contains(o.Detail, "required MCP servers failed") {
		t.Errorf("%s %s %s", o.Stop, o.Class, o.Detail)
	}
}
