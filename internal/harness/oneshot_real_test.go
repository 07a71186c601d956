package harness_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/trace"
)

// A playedModel is a model server of another make that plays written scenarios on loopback.
type playedModel struct {
	port int
	dir  string // of the requests that it got
}

// playModel starts the server for one place. ASSAY_MODELSERVER names it: a Python program that takes a port, a folder
// for what it logs, and how to find the work folder in a request.
func playModel(t *testing.T, p *place) playedModel {
	t.Helper()
	server := os.Getenv("ASSAY_MODELSERVER")
	if server == "" {
		t.Skip("ASSAY_MODELSERVER names no model server")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	m := playedModel{port: freePorts(t), dir: t.TempDir()}
	cmd := exec.CommandContext(t.Context(), python, server, fmt.Sprint(m.port), m.dir, "("+regexp.QuoteMeta(p.Work)+")")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the model server said %q: %v", line, err)
	}
	for end := time.Now().Add(10 * time.Second); ; { // it listens right after its line
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", m.port))
		if err == nil {
			conn.Close()
			return m
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// freePorts returns the first of two ports in a row that nobody listens on.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 100 {
		one, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := one.Addr().(*net.TCPAddr).Port
		two, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		one.Close()
		if err == nil {
			two.Close()
			return port
		}
	}
	t.Fatal("no two free ports in a row")
	return 0
}

func (m playedModel) url(scenario, path string) string {
	return fmt.Sprintf("http://127.0.0.1:%d/s/%s%s", m.port, scenario, path)
}

// heard tells whether a request to the model held the text.
func (m playedModel) heard(t *testing.T, text string) bool {
	t.Helper()
	bodies, err := filepath.Glob(filepath.Join(m.dir, "body-*.json"))
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

var calc = map[string]string{"calc.py": "def add(a, b):\n    return a - b\n", "README.md": "A calculator.\n"}

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
			m := playModel(t, p)
			p.Model, p.Limits.MaxTurns = "m1", 20
			o, events := p.drive(t, build(t, "openai", "base_url: "+m.url(scenario, "/v1")))
			if got := fared(o, events); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// alone skips a test of a real agent unless it can reach nothing but this host.
func alone(t *testing.T, kind string) (program string) {
	t.Helper()
	agents := os.Getenv("ASSAY_AGENTS")
	if agents == "" {
		t.Skip("ASSAY_AGENTS names no folder of installed agents")
	}
	program = filepath.Join(agents, kind, "node_modules", ".bin", kind)
	if _, err := os.Stat(program); err != nil {
		t.Skip(err)
	}
	nets, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nets {
		if n.Flags&net.FlagLoopback == 0 && n.Flags&net.FlagUp != 0 {
			t.Skip("there is a network; run it as: unshare -n sh -c 'ip link set lo up && go test …'")
		}
	}
	return program
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
			program := alone(t, c.kind)
			p := newPlace(t, calc)
			m := playModel(t, p)
			p.Model, p.Prompt, p.Limits = "gemini-2.5-pro", "Fix add() in «calc.py».\n-v --help", harness.Limits{Timeout: c.timeout}
			p.Extras = condition(t, p)
			o, events := p.drive(t, build(t, c.kind, fmt.Sprintf("{program: %s, base_url: %q}", program, m.url(c.scenario, c.path))))
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
			if len(o.Survivors) > 0 {
				t.Errorf("left behind: %q", o.Survivors)
			}
			for _, e := range events {
				if e.Kind == trace.KindOther {
					t.Logf("other: %.400s", e.Text)
				}
			}
		})
	}
}

// condition lays a skill and instructions beside the place.
func condition(t *testing.T, p *place) harness.Extras {
	t.Helper()
	dir := filepath.Join(filepath.Dir(p.Work), "extras")
	skill := filepath.Join(dir, "skills", "greeter")
	if err := os.MkdirAll(skill, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		filepath.Join(skill, "SKILL.md"): "---\nname: greeter\ndescription: Greets people in many languages, to be used whenever one is met.\n---\nSay hello.\n",
		filepath.Join(dir, "AGENTS.md"):  "Always greet the moon before you begin.\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return harness.Extras{SkillsDir: filepath.Dir(skill), InstructionsFile: filepath.Join(dir, "AGENTS.md")}
}
