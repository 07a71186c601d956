package harness_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/trace"
)

func TestRealACP(t *testing.T) {
	agents := []struct {
		name, folder, model, path string
		starts                    time.Duration // well within
	}{
		{"claude-agent-acp", "claude-acp", "claude-sonnet-4-5", "", 8 * time.Second},
		{"gemini", "gemini", "gemini-2.5-pro", "", 12 * time.Second},
		{"codex-acp", "codex-acp", "gpt-5-codex", "/v1", 8 * time.Second},
		{"opencode", "opencode", "m1", "/v1", 40 * time.Second},
	}
	for _, a := range agents {
		t.Run(a.name, func(t *testing.T) {
			agent, models := realAgent(t, a.folder, a.name), scriptedModels(t)
			run := func(t *testing.T, scenario, policy string, change func(*place)) (*place, harness.Outcome, []trace.Event) {
				t.Helper()
				p := newPlace(t, map[string]string{"calc.py": calcPy, "README.md": "calc\n"})
				p.Model, p.Prompt = a.model, "Fix add()"
				if policy != "" {
					p.Responder = policyOf(t, "policy: "+policy)
				}
				if change != nil {
					change(p)
				}
				o, events := p.driveReal(t, build(t, "acp", fmt.Sprintf("{agent: %s, program: %s, base_url: %q}", a.name, agent, models.url(scenario, a.path))))
				t.Logf("calls %s; p%d q%d plans %d; usage %s; %q", callLine(events), tally(events, trace.KindPermissionRequest),
					tally(events, trace.KindQuestion), tally(events, trace.KindPlan), usageLine(o.Usage), o.FinalText)
				for _, r := range results(events) {
					if r.Status == trace.StatusError {
						t.Logf("%s %q failed: %.300s", r.Name, r.Paths, r.Output)
					}
				}
				return p, o, events
			}
			t.Run("edit", func(t *testing.T) {
				p, o, events := run(t, "edit", "", func(p *place) {
					p.equip(t, "Greets in the manner of lighthouse keepers.", "Always mind the marmalade clause of this repository.")
				})
				if text, _ := p.file(t, "calc.py"); !strings.Contains(text, "a + b") || o.Stop != trace.StopEndTurn || o.FinalText != "Fixed add() in calc.py; verified 2+3=5." {
					t.Errorf("%s %s: %s; calc.py holds %q", o.Stop, o.Class, o.Detail, text)
				}
				if strings.Contains(callLine(events), "none") {
					t.Error(callLine(events))
				}
				for _, marker := range []string{"manner of lighthouse keepers", "marmalade clause"} {
					if !models.heard(t, marker) {
						t.Errorf("no request holds %q", marker)
					}
				}
			})
			t.Run("deny", func(t *testing.T) {
				if a.name == "codex-acp" {
					t.Skip("codex-acp asks for nothing")
				}
				p, o, events := run(t, "deny", "auto-deny", nil)
				_, made := p.file(t, "denied.txt")
				if text, _ := p.file(t, "calc.py"); made || strings.Contains(text, "a + b") || o.Stop != trace.StopEndTurn && a.name != "opencode" {
					t.Errorf("%s %s: %s; denied.txt %v, calc.py %q", o.Stop, o.Class, o.Detail, made, text)
				}
				if !strings.Contains(callLine(events), "execute=denied") {
					t.Error(callLine(events))
				}
			})
			t.Run("ask", func(t *testing.T) {
				want := 0
				if a.name == "claude-agent-acp" {
					want = 1
				}
				if _, o, events := run(t, "ask", "", nil); o.Stop != trace.StopEndTurn || tally(events, trace.KindQuestion) != want {
					t.Errorf("%s %s: %s; %d questions", o.Stop, o.Class, o.Detail, tally(events, trace.KindQuestion))
				}
			})
			t.Run("bad request", func(t *testing.T) {
				if _, o, _ := run(t, "err400", "", nil); o.Stop != trace.StopError || o.Class != trace.ClassModelRequest || o.Answered {
					t.Errorf("%s %s: %s; answered %v", o.Stop, o.Class, o.Detail, o.Answered)
				}
			})
			t.Run("cancel", func(t *testing.T) {
				began := time.Now()
				_, o, events := run(t, "slow", "", func(p *place) { p.Limits.Timeout = a.starts })
				if o.Stop != trace.StopTimeout || time.Since(began) > a.starts+4*time.Second {
					t.Errorf("%s %s: %s after %s", o.Stop, o.Class, o.Detail, time.Since(began))
				}
				cancelled := false
				for _, e := range events {
					cancelled = cancelled || strings.Contains(string(e.Raw), `"stopReason":"cancelled"`)
				}
				if !cancelled {
					t.Errorf("ended after %s without a word", time.Since(began))
				}
			})
		})
	}
}
