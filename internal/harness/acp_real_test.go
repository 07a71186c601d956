package harness_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/trace"
)

// Tests with real agents want ASSAY_AGENTS, a folder with a folder for each agent in which npm has installed it, and
// ASSAY_MODELSERVER, a scripted model server that is started with a port and a log folder. They run only where an agent
// could reach nothing else:
//
//	unshare -n sh -c 'ip link set lo up && go test ./internal/harness -run RealACP'

// realACP returns the program of an agent, the base address of the model server, and the folder of the requests it got.
func realACP(t *testing.T, folder, program string) (agent, models, log string) {
	t.Helper()
	agents, server := os.Getenv("ASSAY_AGENTS"), os.Getenv("ASSAY_MODELSERVER")
	if agents == "" || server == "" {
		t.Skip("ASSAY_AGENTS and ASSAY_MODELSERVER do not name agents and a model for them")
	}
	agent = filepath.Join(agents, folder, "node_modules", ".bin", program)
	if _, err := os.Stat(agent); err != nil {
		t.Skipf("no %s: %v", program, err)
	}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if l.Flags&(net.FlagUp|net.FlagLoopback) == net.FlagUp {
			t.Skipf("an agent of others is not run where it could reach the internet, by %s", l.Name)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	log = t.TempDir()
	c := exec.Command("python3", "-u", server, fmt.Sprint(port), log, `(/[\w.+/-]*/001/work)(?![\w.+-])`) // gemini has a folder called work of its own
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Skipf("no model server: %v", err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the model server said %q: %v", line, err)
	}
	return agent, fmt.Sprintf("http://127.0.0.1:%d", port), log
}

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
			agent, models, log := realACP(t, a.folder, a.name)
			run := func(t *testing.T, scenario, policy string, change func(*place)) (*place, harness.Outcome, []trace.Event) {
				t.Helper()
				p := newPlace(t, map[string]string{"calc.py": "def add(a, b):\n    return a - b\n", "README.md": "calc\n"})
				p.Model, p.Prompt = a.model, "Fix add()"
				if policy != "" {
					p.Responder = acpPlace(t, policy).Responder
				}
				if change != nil {
					change(p)
				}
				o, events := p.drive(t, build(t, "acp", fmt.Sprintf("{agent: %s, program: %s, base_url: \"%s/s/%s%s\"}", a.name, agent, models, scenario, a.path)))
				t.Logf("%s %s %s %s: calls %s; p%d q%d plans %d; usage %s; version %s, model %s; survivors %q, swept %d; %q", scenario, o.Stop, o.Class, o.Detail, callLine(events),
					tally(events, trace.KindPermissionRequest), tally(events, trace.KindQuestion), tally(events, trace.KindPlan), usageLine(o.Usage), o.Version, o.Model, o.Survivors, o.Swept, o.FinalText)
				for _, r := range results(events) {
					if r.Status == trace.StatusError {
						t.Logf("%s %q failed: %.300s", r.Name, r.Paths, r.Output)
					}
				}
				if len(o.Survivors) > 0 {
					t.Errorf("survivors %q", o.Survivors)
				}
				return p, o, events
			}
			t.Run("edit", func(t *testing.T) {
				p, o, events := run(t, "edit", "", func(p *place) {
					extras := t.TempDir()
					if err := os.MkdirAll(filepath.Join(extras, "skills", "greeter"), 0o755); err != nil {
						t.Fatal(err)
					}
					for name, text := range map[string]string{
						"skills/greeter/SKILL.md": "---\nname: greeter\ndescription: Greets in the manner of lighthouse keepers.\n---\nSay ahoy.\n",
						"notes.md":                "Always mind the marmalade clause of this repository.\n",
					} {
						if err := os.WriteFile(filepath.Join(extras, name), []byte(text), 0o644); err != nil {
							t.Fatal(err)
						}
					}
					p.Extras = harness.Extras{SkillsDir: filepath.Join(extras, "skills"), InstructionsFile: filepath.Join(extras, "notes.md")}
				})
				if text, _ := p.file(t, "calc.py"); !strings.Contains(text, "a + b") || o.Stop != trace.StopEndTurn || o.FinalText != "Fixed add() in calc.py; verified 2+3=5." {
					t.Errorf("%s %s: %s; calc.py holds %q", o.Stop, o.Class, o.Detail, text)
				}
				if strings.Contains(callLine(events), "none") {
					t.Error(callLine(events))
				}
				for _, marker := range []string{"manner of lighthouse keepers", "marmalade clause"} {
					if !requested(t, log, marker) {
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

// requested tells whether a request to the model server holds a text.
func requested(t *testing.T, log, text string) bool {
	t.Helper()
	bodies, err := filepath.Glob(filepath.Join(log, "body-*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range bodies {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), text) {
			return true
		}
	}
	return false
}
