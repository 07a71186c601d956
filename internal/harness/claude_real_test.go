package harness_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/trace"
)

// mcpServer is a tool server with one tool, whose name it takes from its environment.
const mcpServer = `
import sys, json, os
for line in sys.stdin:
    m = json.loads(line)
    if 'id' in m:
        r = {}
        if m['method'] == 'initialize':
            r = {'protocolVersion': m['params']['protocolVersion'], 'capabilities': {'tools': {}}, 'serverInfo': {'name': 'x', 'version': '1'}}
        if m['method'] == 'tools/list':
            r = {'tools': [{'name': os.environ['TOOL'], 'description': 'Finds notes', 'inputSchema': {'type': 'object'}}]}
        print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'result': r}), flush=True)
`

// TestClaudeReal drives the real CLI against a scripted model.
func TestClaudeReal(t *testing.T) {
	cli := realAgent(t, "claude", "claude")
	models := scriptedModels(t)
	drive := func(t *testing.T, scenario, policy string, change func(*place)) (*place, harness.Outcome, []trace.Event) {
		t.Helper()
		p := newPlace(t, map[string]string{"calc.py": calcPy})
		p.Model, p.Responder = "claude-sonnet-4-5", policyOf(t, "policy: "+policy)
		if change != nil {
			change(p)
		}
		o, events := p.driveReal(t, build(t, "claude-code", "program: "+cli+"\nbase_url: "+models.url(scenario, "")+"\n"))
		if o.Version != "" && o.Version != "2.1.197" {
			t.Errorf("version %s", o.Version)
		}
		return p, o, events
	}
	calls := func(t *testing.T, events []trace.Event, want ...string) {
		t.Helper()
		if got := topCalls(events); !slices.Equal(got, want) {
			t.Errorf("tools %q, want %q", got, want)
		}
	}

	t.Run("edit", func(t *testing.T) {
		p, o, events := drive(t, "edit", "auto-approve", nil)
		if text, _ := p.file(t, "calc.py"); o.Stop != trace.StopEndTurn || text != calcFixed {
			t.Errorf("%+v, %q", o, text)
		}
		if _, err := os.Stat(filepath.Join(p.Work, ".claude")); err == nil {
			t.Error("the CLI keeps its settings in the work folder")
		}
		calls(t, events, "Read ok", "TaskCreate ok", "Edit ok", "Bash ok")
		claudeRun{calls: 5}.checkUsage(t, o.Usage)
		if *o.Turns != 5 || kindsOf(events)[trace.KindPermissionRequest] != 2 {
			t.Errorf("%d turns, %v", *o.Turns, kindsOf(events))
		}
	})
	t.Run("deny", func(t *testing.T) {
		p, o, events := drive(t, "deny", "auto-deny", nil)
		if _, there := p.file(t, "denied.txt"); o.Stop != trace.StopEndTurn || there || kindsOf(events)[trace.KindPermissionRequest] == 0 {
			t.Errorf("%+v, denied.txt there: %v", o, there)
		}
		calls(t, events, "Bash denied", "Edit error")
	})
	t.Run("interrupt", func(t *testing.T) {
		p, o, events := drive(t, "deny", "auto-deny", func(p *place) { p.Responder = interrupting })
		if _, there := p.file(t, "denied.txt"); o.Stop != trace.StopCancelled || !o.Answered || there {
			t.Errorf("%+v, denied.txt there: %v", o, there)
		}
		if o.Exit == nil || o.Usage == nil { // it heard its deny and ended by itself
			t.Errorf("exit %v, signal %q, usage %v", o.Exit, o.Signal, o.Usage)
		}
		calls(t, events, "Bash denied")
	})
	t.Run("ask", func(t *testing.T) {
		_, o, events := drive(t, "ask", "auto-approve", nil)
		if n := kindsOf(events); o.Stop != trace.StopEndTurn || n[trace.KindQuestion] != 1 || n[trace.KindAnswer] != 1 {
			t.Errorf("%+v, %v", o, n)
		}
		calls(t, events, "AskUserQuestion ok")
		if out := results(events)[0].Output; !strings.Contains(out, "Postgres") {
			t.Errorf("the model was told %q", out)
		}
	})
	t.Run("ask, declined", func(t *testing.T) {
		_, o, events := drive(t, "ask", "auto-deny", nil)
		if o.Stop != trace.StopEndTurn {
			t.Errorf("%+v", o)
		}
		calls(t, events, "AskUserQuestion denied")
	})
	t.Run("sub-agent", func(t *testing.T) {
		_, o, events := drive(t, "subagent", "auto-approve", nil)
		if o.Stop != trace.StopEndTurn || *o.Turns != 2 || *o.Usage.Input != 11005 {
			t.Errorf("%+v", o)
		}
		calls(t, events, "Agent ok")
	})
	t.Run("skill", func(t *testing.T) {
		const marker, instructions = "Greets people nicely and in rhyme", "Always answer in the voice of a lighthouse keeper."
		shown := func(from int) (skill, rules bool) {
			for _, body := range models.requests(t)[from:] {
				text := compact(t, body)
				skill, rules = skill || strings.Contains(text, marker), rules || strings.Contains(text, instructions)
			}
			return skill, rules
		}
		before := len(models.requests(t))
		_, o, events := drive(t, "skill", "auto-approve", func(p *place) { p.equip(t, marker, instructions) })
		if skill, rules := shown(before); o.Stop != trace.StopEndTurn || !skill || !rules {
			t.Errorf("%+v; the model saw the skill: %v, the instructions: %v", o, skill, rules)
		}
		calls(t, events, "Skill ok")
		before = len(models.requests(t))
		_, o, events = drive(t, "skill", "auto-approve", nil)
		if skill, rules := shown(before); o.Stop != trace.StopEndTurn || skill || rules {
			t.Errorf("%+v; the model saw the skill: %v, the instructions: %v", o, skill, rules)
		}
		calls(t, events, "Skill error")
	})
	t.Run("mcp", func(t *testing.T) {
		_, o, events := drive(t, "plain", "auto-approve", func(p *place) {
			p.Extras.MCP = []harness.MCPServer{
				{Name: "files", Argv: []string{"python3", "-c", mcpServer}, Env: []string{"TOOL=find_notes"}},
				{Name: "absent", Argv: []string{"/no/such/program"}},
			}
			tree := `{"mcpServers":{"tree":{"command":"/no/such/program"}}}` // not asked for by the condition
			if err := os.WriteFile(filepath.Join(p.Work, ".mcp.json"), []byte(tree), 0o644); err != nil {
				t.Fatal(err)
			}
		})
		tools, warnings := "", ""
		for _, e := range events {
			if e.Session != nil {
				tools += strings.Join(e.Session.Tools, " ")
			}
			if e.Err != nil {
				warnings += e.Err.Detail + ";"
			}
		}
		if o.Stop != trace.StopEndTurn || !strings.Contains(tools, "mcp__files__find_notes") || warnings != `the agent could not reach its MCP server "absent";` {
			t.Errorf("%+v with tools %s, warnings %s", o, tools, warnings)
		}
	})
	t.Run("refusal", func(t *testing.T) {
		if _, o, _ := drive(t, "refusal", "auto-approve", nil); o.Stop != trace.StopRefusal {
			t.Errorf("%+v", o)
		}
	})
	t.Run("cut answer", func(t *testing.T) {
		if _, o, _ := drive(t, "truncate", "auto-approve", nil); o.Stop != trace.StopMaxTokens {
			t.Errorf("%+v", o)
		}
	})
	for scenario, class := range map[string]trace.Class{
		"err400": trace.ClassModelRequest, "err401": trace.ClassModelAuth, "err429": trace.ClassModelLimit,
		"err500": trace.ClassModelAPI, "overlong": trace.ClassContextOverflow,
	} {
		t.Run(scenario, func(t *testing.T) {
			if _, o, _ := drive(t, scenario, "auto-approve", nil); o.Stop != trace.StopError || o.Class != class || o.Answered {
				t.Errorf("%+v", o)
			}
		})
	}
	t.Run("loop", func(t *testing.T) {
		_, o, _ := drive(t, "loop", "auto-approve", func(p *place) { p.Limits.Timeout = 20 * time.Second })
		if o.Stop != trace.StopTimeout || !o.Answered || *o.Turns < 1 {
			t.Errorf("%+v", o)
		}
	})
	t.Run("silence", func(t *testing.T) {
		_, o, _ := drive(t, "slow", "auto-approve", func(p *place) { p.Limits.Timeout = 6 * time.Second })
		if o.Stop != trace.StopTimeout || o.Class != trace.ClassModelAPI || o.Answered {
			t.Errorf("%+v", o)
		}
	})
	t.Run("a prompt that is a command", func(t *testing.T) {
		_, o, _ := drive(t, "plain", "auto-approve", func(p *place) { p.Prompt = "/nosuch fix the bug" })
		if o.Stop != trace.StopError || o.Class != trace.ClassHarnessConfig || !strings.Contains(o.Detail, "Unknown command: /nosuch") {
			t.Errorf("%+v", o)
		}
	})
	t.Run("a long prompt", func(t *testing.T) {
		long := strings.Repeat("Fix the bug. \u00e4\U0001F642\n\"", 20_000)
		before := len(models.requests(t))
		_, o, _ := drive(t, "plain", "auto-approve", func(p *place) { p.Prompt = long })
		if o.Stop != trace.StopEndTurn || !strings.Contains(compact(t, models.requests(t)[before:]), strings.Trim(compact(t, long), `"`)) {
			t.Errorf("%+v", o)
		}
	})
}
