package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
)

// A player is an agent that plays the scenarios.
type player struct {
	id      string // also the id of its harness in the suite
	folder  string // of ASSAY_AGENTS, in which it is installed; empty: it is a part of Assay
	harness string // the rest of its row in the suite
	shell   string // its own name of the tool that runs commands
	asks    bool   // it asks for permission
	time    time.Duration
}

// players are all agents that call a model. time is enough for one to start, to ask its model twice and to run a command.
var players = []player{
	{"openai", "", "type: openai, models: [gpt-5.5]", "bash", true, 2 * time.Second},
	{"claude-code", "claude", "type: claude-code, models: [claude-sonnet-4-5]", "Bash", true, 12 * time.Second},
	{"codex", "codex", "type: codex, models: [gpt-5.5]", "exec_command", false, 8 * time.Second},
	{"claude-agent-acp", "claude-acp", "type: acp, agent: claude-agent-acp, models: [claude-sonnet-4-5]", "Bash", true, 12 * time.Second},
	{"codex-acp", "codex-acp", "type: acp, agent: codex-acp, models: [gpt-5.5]", "exec_command", false, 8 * time.Second},
	{"gemini", "gemini", "type: gemini, models: [gemini-2.5-pro]", "run_shell_command", false, 40 * time.Second},
	{"gemini-acp", "gemini", "type: acp, agent: gemini, models: [gemini-2.5-pro]", "run_shell_command", true, 40 * time.Second},
	{"opencode", "opencode", "type: opencode, models: [gpt-5.5]", "bash", false, 40 * time.Second},
	{"opencode-acp", "opencode", "type: acp, agent: opencode, models: [gpt-5.5]", "bash", true, 40 * time.Second},
}

// A scenario is what a model does, and how the cell of every agent must end: status, stop and class, and where it counts
// something, how much of it.
type scenario struct {
	id     string
	turns  string // of the model; SHELL is the agent's own name of its shell, which only a malformed call needs
	limits string // TIME is the agent's
	policy string // auto-approve when empty
	counts func([]trace.Event) string
	fails  bool // the model only fails: the agent must end soon after its first call
	want   string
	but    exceptions
}

// exceptions are agents for which the cell ends otherwise than for all others.
type exceptions []struct{ player, want, why string }

const (
	lost    = "errored no_terminal_event harness_crash"
	inAssay = "it is no process of its own: the command ends itself, and the model hears of it and goes on"
)

// quick is how long a model that only fails may keep an agent: one that tries again for minutes is ended before.
const quick = 30 * time.Second

// patience is how long a model that only fails may keep this agent. opencode waits 2, 4, 8 and 16 seconds between its
// requests, which no setting changes, until the gateway refuses the one after the fifth failure.
func (p player) patience() time.Duration {
	if p.folder == "opencode" {
		return 2 * quick
	}
	return quick
}

// outcomes is the table of how cells end.
var outcomes = []scenario{
	{id: "well", turns: `[{calls: [{bash: "true"}]}, {say: Done.}]`, want: "passed end_turn"},
	{id: "refusal", turns: `[{say: "I cannot help with that.", stop: refusal}]`, want: "failed refusal"},
	{id: "cut-answer", turns: `[{say: "The answer is", stop: max_tokens}]`, want: "failed max_tokens"},
	{id: "http-400", turns: `[{http: 400}]`, fails: true, want: "errored error model_request"},
	{id: "http-401", turns: `[{http: 401}]`, fails: true, want: "errored error model_auth"},
	{id: "http-429", turns: `[{http: 429}]`, fails: true, want: "errored error model_limit"},
	{id: "http-500", turns: `[{http: 500}]`, fails: true, want: "errored error model_api"},
	{id: "http-500-late", turns: `[{calls: [{bash: "true"}]}, {http: 500}]`, fails: true, want: "errored error model_api"},
	{id: "max-turns", turns: `[{calls: [{bash: "true"}]}]`, limits: "max_turns: 3", want: "failed max_turns"},
	{id: "budget", turns: `[{calls: [{bash: "true"}]}]`, limits: "max_cost_usd: 0.005", want: "failed max_cost"},
	{id: "silence", turns: `[{say: Done., pause: 1h}]`, limits: "timeout: TIME", want: "errored timeout model_api"},
	{id: "silence-late", turns: `[{calls: [{bash: "true"}]}, {say: Done., pause: 1h}]`, limits: "timeout: TIME", want: "failed timeout"},
	{id: "sigint", turns: `[{calls: [{bash: "sh signal.sh INT"}]}, {say: Done.}]`, want: "errored killed harness_crash", but: exceptions{
		{"openai", "passed end_turn", inAssay},
		{"codex", lost, "it ends with exit code 1"},
		{"claude-agent-acp", lost, "it ends with exit code 0"},
		{"gemini", lost, "it ends with exit code 0"},
		{"gemini-acp", lost, "it ends with exit code 0"},
	}},
	{id: "sigterm", turns: `[{calls: [{bash: "sh signal.sh TERM"}]}, {say: Done.}]`, want: "errored killed harness_crash", but: exceptions{
		{"openai", "passed end_turn", inAssay},
		{"claude-code", lost, "it ends with exit code 143"},
		{"claude-agent-acp", lost, "it ends with exit code 0"},
		{"gemini", lost, "it ends with exit code 0"},
		{"gemini-acp", lost, "it ends with exit code 0"},
	}},
	{id: "lost-terminal-event", turns: `[{calls: [{bash: "sh signal.sh KILL"}]}, {say: Done.}]`, want: "errored killed harness_crash", but: exceptions{
		{"openai", "passed end_turn", inAssay},
	}},
	{id: "question", turns: `[{calls: [{ask: {question: "Which one?", header: Which, options: [{label: This, description: The first}, {label: That, description: The second}]}}]}, {say: Done.}]`,
		counts: questions, want: "passed end_turn, 0 questions", but: exceptions{ // the others have no tool that asks
			{"claude-code", "passed end_turn, 1 questions", "it can ask"},
			{"claude-agent-acp", "passed end_turn, 1 questions", "it can ask"},
		}},
	{id: "unknown-tool", turns: `[{calls: [{raw: {name: no_such_tool, input: {a: 1}}}]}, {say: Done.}]`, counts: toolErrors,
		want: "passed end_turn, 1 tool errors", but: exceptions{
			{"codex-acp", "passed end_turn, 0 tool errors", "it does not tell of a call that it cannot make"},
			{"gemini-acp", "passed end_turn, 0 tool errors", "it does not tell of a call that it cannot make"},
		}},
	{id: "malformed-call", turns: `[{calls: [{raw: {name: SHELL, input: {nonsense: [1]}}}]}, {say: Done.}]`, counts: toolErrors,
		want: "passed end_turn, 1 tool errors", but: exceptions{
			{"codex-acp", "passed end_turn, 0 tool errors", "it does not tell of a call that it cannot make"},
		}},
	{id: "denied", turns: `[{calls: [{bash: "touch denied.txt"}]}, {say: Done.}]`, policy: "auto-deny", counts: denials, want: "passed end_turn, 1 denied"},
}

func questions(events []trace.Event) string {
	return fmt.Sprintf(", %d questions", countOf(events, func(e trace.Event) bool { return e.Kind == trace.KindAnswer }))
}

func toolErrors(events []trace.Event) string {
	return fmt.Sprintf(", %d tool errors", countOf(events, func(e trace.Event) bool {
		return e.Kind == trace.KindToolResult && e.Tool.Status == trace.StatusError
	}))
}

func denials(events []trace.Event) string {
	return fmt.Sprintf(", %d denied", countOf(events, func(e trace.Event) bool {
		return e.Kind == trace.KindPermissionResponse && e.Ask.Outcome == "denied"
	}))
}

func countOf(events []trace.Event, is func(trace.Event) bool) int {
	n := 0
	for _, e := range events {
		if is(e) {
			n++
		}
	}
	return n
}

// sinceFirstCall is the time from an agent's first call of its model to its end. A start that other work slows down is not
// in it.
func sinceFirstCall(events []trace.Event) time.Duration {
	for _, e := range events {
		if e.Kind == trace.KindModelCall {
			return events[len(events)-1].At - (e.At - e.Call.Took)
		}
	}
	return 0
}

// TestOutcomes plays every scenario to every agent through the gateway, and holds the ledger against the table. Agents of
// others run where the condition agents of TestScripts holds; the one of our own always does.
func TestOutcomes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the host executor contains processes on Linux only")
	}
	if testing.Short() {
		t.Skip("runs agents up to their time limits")
	}
	for _, p := range players {
		t.Run(p.id, func(t *testing.T) {
			if p.folder != "" && !(loopbackOnly() && areInstalled([]string{p.folder})) {
				t.Skip("real agents run where tools/agents.sh has installed them and only loopback can be reached: make e2e-agents")
			}
			dir := t.TempDir()
			p.play(t, dir, "")
			if p.asks {
				p.play(t, dir, "auto-deny")
			}
			for _, left := range processesWith(dir) {
				t.Errorf("still running: %s", left)
			}
		})
	}
}

// play runs the scenarios of one policy as one suite.
func (p player) play(t *testing.T, dir, policy string) {
	t.Helper()
	name := cmp.Or(policy, "auto-approve")
	p.writeSuite(t, filepath.Join(dir, name), policy)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "assay", "run", name, "--jobs", "2", "--out", "results-"+name)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+strings.Join(append(agentPrograms(), os.Getenv("PATH")), string(os.PathListSeparator)),
		"TMPDIR="+filepath.Join(dir, "tmp"), "ASSAY_CACHE="+filepath.Join(dir, "cache"), quickEnd)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	t.Logf("%s\nended after %s: %v", out, time.Since(began).Round(time.Second), err)
	results := filepath.Join(dir, "results-"+name)
	m, err := result.ReadManifest(results)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]result.Result{}
	for r, err := range result.Read(results, m.Cells) {
		if err != nil {
			t.Fatal(err)
		}
		got[r.Case] = r
	}
	for _, s := range outcomes {
		if s.policy == policy {
			p.hold(t, s, got[s.id], tracesOf(t, results, s.id))
		}
	}
}

// hold holds one cell against the table.
func (p player) hold(t *testing.T, s scenario, r result.Result, events []trace.Event) {
	t.Helper()
	got := strings.TrimRight(fmt.Sprintf("%s %s %s", r.Status, r.Agent.Stop, r.Class), " ")
	if s.counts != nil {
		got += s.counts(events)
	}
	t.Logf("%-20s %-45s %5.1fs %s", s.id, got, r.Took.Agent.Seconds(), r.Agent.Detail)
	want, why := s.expected(p)
	if got != want {
		t.Errorf("%s: %s, want %s%s; %s", s.id, got, want, why, r.Detail)
	}
	if took := sinceFirstCall(events); s.fails && took > p.patience() {
		t.Errorf("%s: the agent ended %s after its first call, more than %s", s.id, took, p.patience())
	}
	if len(r.Agent.Survivors) > 0 {
		t.Errorf("%s left %q", s.id, r.Agent.Survivors)
	}
}

// expected is how a cell of the agent must end, and why when that is an exception.
func (s scenario) expected(p player) (want, why string) {
	for _, e := range s.but {
		if e.player == p.id {
			return e.want, " (" + e.why + ")"
		}
	}
	return s.want, ""
}

// tracesOf returns the events of the one cell of a case.
func tracesOf(t *testing.T, results, id string) []trace.Event {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(results, "cells", id, "*", "t*", "trace.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("case %s has the traces %q, %v", id, files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var events []trace.Event
	for e, err := range trace.Read(bytes.NewReader(text)) {
		if err != nil {
			t.Fatalf("the trace of case %s: %v", id, err)
		}
		events = append(events, e)
	}
	return events
}

// signalScript sends a signal to the agent that runs it: to the topmost process of its cell. Then it gives the agent time
// to end before the command does.
const signalScript = `p=$$
while [ "$p" -gt 1 ]; do
	if tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | grep -qx "ASSAY_CELL=${ASSAY_CELL:?}"; then agent=$p; fi
	p=$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$p/status")
done
kill -s "$1" "$agent"
sleep 5
`

// writeSuite writes the scenarios of one policy as a suite with one agent.
func (p player) writeSuite(t *testing.T, dir, policy string) {
	t.Helper()
	files := map[string]string{
		"suite.yaml": fmt.Sprintf(`name: outcomes
retries: 0
limits: {timeout: 90s}
interaction: {policy: %s}
matrix:
  trials: 1
  harnesses: [{id: %s, %s, model_script: model.yaml}]
  conditions: [{id: only, baseline: true}]
`, cmp.Or(policy, "auto-approve"), p.id, p.harness),
		"../tmp/.keep": "",
	}
	fill := strings.NewReplacer("SHELL", p.shell, "TIME", p.time.String())
	for _, s := range outcomes {
		if s.policy != policy {
			continue
		}
		files[s.id+"/case.yaml"] = fmt.Sprintf("id: %s\nprompt: Do what is to be done.\nsource: {path: source}\nlimits: {%s}\n"+
			"assertions: [{id: kept, type: files, exist: [signal.sh], missing: [denied.txt]}]\n", s.id, fill.Replace(s.limits))
		files[s.id+"/model.yaml"] = "turns: " + fill.Replace(s.turns) + "\n"
		files[s.id+"/source/signal.sh"] = signalScript
	}
	for name, text := range files {
		name = filepath.Join(dir, name)
		must(os.MkdirAll(filepath.Dir(name), 0o755))
		must(os.WriteFile(name, []byte(text), 0o644))
	}
}

// processesWith lists the processes that have a path below the folder in their environment or on their command line.
func processesWith(dir string) []string {
	var out []string
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		environ, _ := os.ReadFile(filepath.Join(folder, "environ")) // a process may end at any time
		cmdline, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
		if bytes.Contains(slices.Concat(environ, cmdline), []byte(dir+"/")) {
			out = append(out, string(bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '})))
		}
	}
	return out
}
