package harness_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/trace"
)

// A codexRun is one run of codex that is played back.
type codexRun struct {
	stdout   []byte
	stderr   string
	exit     executor.Exit
	sessions []byte // what the command that reads the session files prints
	reading  executor.Exit
}

// recordedCodex reads a run from testdata.
func recordedCodex(t testing.TB, name string) codexRun {
	t.Helper()
	base := filepath.Join("testdata", "streams", "codex", name)
	stdout, err := os.ReadFile(base + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var sessions []byte
	for _, suffix := range []string{"", "-2"} {
		b, err := os.ReadFile(base + ".rollout" + suffix + ".jsonl")
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var meta struct{ Payload struct{ ID string } }
		if err := json.NewDecoder(bytes.NewReader(b)).Decode(&meta); err != nil || meta.Payload.ID == "" {
			t.Fatalf("%s: the session file begins with %v, %v", name, meta, err)
		}
		sessions = fmt.Appendf(sessions, "\n2026/11/21/rollout-2026-11-21T06-12-32-%s.jsonl\n%s", meta.Payload.ID, b)
	}
	return codexRun{stdout: stdout, sessions: sessions}
}

// place makes a task whose executor plays the run back.
func (r codexRun) place() *place {
	p := &place{Task: harness.Task{
		Model: "gpt-5-codex", Prompt: "Fix add().", Home: "/cell/home", Work: "/cell/work",
		Limits: harness.Limits{Timeout: time.Minute},
	}}
	p.Exec = fake{run: func(_ context.Context, c executor.Command) (executor.Exit, error) {
		switch {
		case c.Argv[0] == "codex":
			io.WriteString(c.Stderr, r.stderr)
			c.Stdout.Write(r.stdout)
			r.exit.Out = int64(len(r.stdout))
			return r.exit, nil
		case c.Stdin == nil:
			c.Stdout.Write(r.sessions)
			return r.reading, nil
		}
		return executor.Exit{}, nil
	}}
	return p
}

func (r codexRun) play(t testing.TB) (harness.Outcome, []trace.Event) {
	t.Helper()
	return r.place().drive(t, build(t, "codex", "{}"))
}

// codexTally is what a run comes to, in short.
type codexTally struct {
	Stop     trace.StopReason
	Class    trace.Class
	Answered bool
	Calls    int // of the model, by the usage of the session; -1: no usage
	Turns    int // by the session file; -1: not known
	Tools    string
	Extra    string // what else is worth seeing
}

func tallyOf(t testing.TB, o harness.Outcome, events []trace.Event) codexTally {
	t.Helper()
	got := codexTally{Stop: o.Stop, Class: o.Class, Answered: o.Answered, Calls: -1, Turns: -1}
	if o.Turns != nil {
		got.Turns = *o.Turns
	}
	if o.Usage != nil {
		n := *o.Usage.Output / 50
		got.Calls = int(n)
		want := fmt.Sprint([]int64{1000*n + n*(n-1)/2, 200 * n, 0, 50 * n, 7 * n})
		if u := o.Usage; fmt.Sprint([]int64{*u.Input, *u.CacheRead, *u.CacheWrite, *u.Output, *u.Reasoning}) != want || u.CostUSD != nil {
			t.Errorf("usage %s, want %s", compact(t, u), want)
		}
	}
	calls, faults, kinds, status := 0, 0, map[trace.Kind]int{}, map[string]int{}
	for _, e := range events {
		kinds[e.Kind]++
		if e.Kind == trace.KindError && e.Err.Class != trace.ClassWarning {
			faults++
		}
		if e.Kind == trace.KindToolCall {
			calls++
			if e.Late {
				status["late"]++
			}
			if e.Parent != "" {
				status["of a sub-agent"]++
			}
		}
		if e.Kind == trace.KindToolResult && e.Tool.Status != trace.StatusOK {
			status[string(e.Tool.Status)]++
		}
	}
	got.Tools = fmt.Sprint(calls)
	for _, word := range []string{"late", "of a sub-agent", "error", "denied", "none"} {
		if status[word] > 0 {
			got.Tools += fmt.Sprintf(" %d %s", status[word], word)
		}
	}
	if open := calls - kinds[trace.KindToolResult]; open > 0 {
		got.Tools += fmt.Sprintf(" %d open", open)
	}
	var extra []string
	if n := kinds[trace.KindRetry]; n > 0 {
		extra = append(extra, fmt.Sprintf("%d retries", n))
	}
	if faults > 0 {
		extra = append(extra, fmt.Sprintf("%d faults", faults))
	}
	got.Extra = strings.Join(extra, ", ")
	return got
}

// TestCodexTellsRecordedRuns is the table of what real runs come to.
func TestCodexTellsRecordedRuns(t *testing.T) {
	t.Parallel()
	failed := executor.Exit{Code: 1}
	killed := executor.Exit{Code: -1, Signal: "SIGTERM", TimedOut: true}
	for _, c := range []struct {
		run, stderr string
		exit        executor.Exit
		want        codexTally
		detail      string
	}{
		{"edit", "", executor.Exit{}, codexTally{"end_turn", "", true, 5, 5, "4", ""}, ""},
		{"edit_codemode", "", executor.Exit{}, codexTally{"end_turn", "", true, 5, 5, "4 1 late 1 error", ""}, ""},
		{"edit_slug", "", executor.Exit{}, codexTally{"end_turn", "", true, 1, 1, "0", ""}, ""},
		{"cmd", "", executor.Exit{}, codexTally{"end_turn", "", true, 3, 3, "2 1 error", ""}, ""},
		{"cmd_codemode", "", executor.Exit{}, codexTally{"end_turn", "", true, 3, 3, "2 1 error", ""}, ""},
		{"write", "", executor.Exit{}, codexTally{"end_turn", "", true, 2, 2, "1", ""}, ""},
		{"deny_ro", "", executor.Exit{}, codexTally{"end_turn", "", true, 3, 3, "2 2 late 2 error", ""}, ""},
		{"default_sbx", "", executor.Exit{}, codexTally{"end_turn", "", true, 3, 3, "2 2 late 2 error", ""}, ""},
		{"bypass", "", executor.Exit{}, codexTally{"end_turn", "", true, 3, 3, "2", ""}, ""},
		{"ask", "", executor.Exit{}, codexTally{"end_turn", "", true, 2, 2, "1 1 late 1 error", ""}, ""},
		{"badargs", "", executor.Exit{}, codexTally{"end_turn", "", true, 2, 2, "1 1 late 1 error", ""}, ""},
		{"badpatch", "", executor.Exit{}, codexTally{"end_turn", "", true, 3, 3, "2 1 late 1 error", ""}, ""},
		{"skill", "", executor.Exit{}, codexTally{"end_turn", "", true, 1, 1, "0", ""}, ""},
		{"noplug", "", executor.Exit{}, codexTally{"end_turn", "", true, 1, 1, "0", ""}, ""},
		{"mcp", "", executor.Exit{}, codexTally{"end_turn", "", true, 3, 3, "4 1 late 1 error", ""}, ""},
		// Two commands ran on in the background until codex ended; standard output tells their start only.
		{"background", "", executor.Exit{}, codexTally{"end_turn", "", true, 4, 4, "3 1 late 1 error 2 open", ""}, ""},
		// Three calls of the sub-agent, of which two failed; what it used is not in the usage, which is not known then.
		{"subagent", "", executor.Exit{}, codexTally{"end_turn", "", true, -1, 4, "6 3 late 3 of a sub-agent 2 error", ""}, ""},
		{"refusal", "", failed, codexTally{"refusal", "", true, -1, 0, "0", "1 retries, 1 faults"},
			"stream disconnected before completion: Incomplete response returned, reason: content_filter"},
		{"truncate", "", failed, codexTally{"max_tokens", "", true, -1, 1, "0", "1 faults"}, "Incomplete response returned, reason: max_output_tokens"},
		{"loop", "", killed, codexTally{"timeout", "model_api", true, -1, -1, "192", ""}, "time limit of 1m0s reached"},
		{"timeout_term", "", killed, codexTally{"timeout", "model_api", false, -1, 0, "0", ""}, "time limit of 1m0s reached"},
		{"err400", "", failed, codexTally{"error", "model_request", false, -1, 0, "0", "1 faults"}, `{"type": "error", "error": {"type": "invalid_request_error",` +
			` "message": "scripted bad request", "code": 400, "status": "INVALID_ARGUMENT"}}`},
		{"err401", "", failed, codexTally{"error", "model_auth", false, -1, 0, "0", "2 retries, 1 faults"},
			"unexpected status 401 Unauthorized: scripted invalid key, url: http://127.0.0.1:18080/s/err401/v1/responses"},
		{"err429", "", failed, codexTally{"error", "model_limit", false, -1, 0, "0", "1 retries, 1 faults"}, "exceeded retry limit, last status: 429 Too Many Requests"},
		{"err500", "", failed, codexTally{"error", "model_api", false, -1, 0, "0", "2 retries, 1 faults"},
			"We’re currently experiencing high demand, which may cause temporary errors."},
		{"overlong", "", failed, codexTally{"error", "context_overflow", false, -1, 0, "0", "1 faults"},
			"Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying."},
		{"nogit", "Not inside a trusted directory.\n", failed, codexTally{"no_terminal_event", "harness_config", false, -1, -1, "0", ""},
			"exit 1 before it said anything: Not inside a trusted directory."},
	} {
		t.Run(c.run, func(t *testing.T) {
			t.Parallel()
			r := recordedCodex(t, c.run)
			r.exit, r.stderr = c.exit, c.stderr
			o, events := r.play(t)
			if diff := cmp.Diff(c.want, tallyOf(t, o, events)); diff != "" {
				t.Error(diff)
			}
			if o.Detail != c.detail {
				t.Errorf("detail %q", o.Detail)
			}
			if len(r.sessions) > 0 && (o.Version != "0.169.0" || !strings.HasPrefix(o.Model, "gpt-")) {
				t.Errorf("version %q, model %q", o.Version, o.Model)
			}
		})
	}
}

// TestCodexTraces shows the traces of three runs: a plain one, one whose calls are told late, and one with a sub-agent.
func TestCodexTraces(t *testing.T) {
	t.Parallel()
	for _, run := range []string{"edit_codemode", "mcp", "subagent"} {
		r := recordedCodex(t, run)
		p := r.place()
		_, events := p.drive(t, build(t, "codex", "{}"))
		p.golden(t, "codex-"+run, events)
	}
}

// TestCodexCutAnywhere: an agent that dies after any of its lines ends in one stop, and passes only if it had said its last.
func TestCodexCutAnywhere(t *testing.T) {
	t.Parallel()
	for _, run := range []string{"edit", "edit_codemode", "subagent", "background", "refusal", "err429", "mcp"} {
		r := recordedCodex(t, run)
		lines := bytes.SplitAfter(r.stdout, []byte("\n"))
		for n := range lines {
			cut := r
			cut.stdout, cut.exit = bytes.Join(lines[:n], nil), executor.Exit{Code: -1, Signal: "SIGKILL"}
			o, _ := cut.play(t)
			whole := bytes.Contains(cut.stdout, []byte(`"turn.completed"`))
			failed := bytes.Contains(cut.stdout, []byte(`"turn.failed"`))
			if (o.Stop == trace.StopEndTurn) != whole || (o.Stop == trace.StopKilled) != (!whole && !failed) {
				t.Errorf("%s after %d lines: %s", run, n, o.Stop)
			}
		}
	}
}

// TestCodexCutSessionFile: what is missing of the session file never adds a call, and is told.
func TestCodexCutSessionFile(t *testing.T) {
	t.Parallel()
	for run, late := range map[string]int{"edit": 0, "cmd": 0, "cmd_codemode": 0, "bypass": 0, "deny_ro": 2, "badargs": 1} {
		r := recordedCodex(t, run)
		for n := 0; n < len(r.sessions); n += 101 {
			cut := r
			cut.sessions = r.sessions[:n]
			_, events := cut.play(t)
			got, warned := 0, false
			for _, e := range events {
				if e.Late && e.Kind == trace.KindToolCall {
					got++
				}
				warned = warned || e.Err != nil && strings.HasPrefix(e.Err.Detail, "truncated:")
			}
			halfLine := n > 0 && r.sessions[n-1] != '\n' && r.sessions[n] != '\n'
			if got > late || halfLine && !warned {
				t.Errorf("%s cut at byte %d: %d calls, warned %t", run, n, got, warned)
			}
		}
	}
}

// TestCodexReadsSessionFiles feeds session files that no recording has.
func TestCodexReadsSessionFiles(t *testing.T) {
	t.Parallel()
	const (
		first  = "2026/11/21/rollout-1-t1.jsonl\n"
		second = "\n2026/11/21/rollout-2-t2.jsonl\n"
		third  = "\n2026/11/21/rollout-3-t3.jsonl\n"
	)
	call := func(id, name string) string {
		return fmt.Sprintf(`{"type":"response_item","payload":{"type":"function_call","call_id":%q,"name":%q,"arguments":"{}"}}`+"\n", id, name)
	}
	output := func(id, out string) string {
		return fmt.Sprintf(`{"type":"response_item","payload":{"type":"function_call_output","call_id":%q,"output":%s}}`+"\n", id, out)
	}
	item := func(id, kind string) string {
		return fmt.Sprintf(`{"type":"event_msg","payload":{"type":"item_completed","item":{"id":%q,"type":%q,"status":"completed"}}}`+"\n", id, kind)
	}
	ran := `{"type":"item.started","item":{"id":"item_1","type":"command_execution"}}` + "\n"
	spawned := `{"type":"item.completed","item":{"id":"item_0","type":"collab_tool_call","tool":"spawn_agent","receiver_thread_ids":["t2"]}}` + "\n"
	const unread, absent = " truncated: the session files", " truncated: the session file of"
	for _, c := range []struct {
		name, stdout, sessions string
		reading                executor.Exit
		want                   string // the late events
	}{
		{"an image that was looked at", "", first + call("a", "view_image") + item("a", "ImageView") + output("a", `[{"type":"input_image"}]`),
			executor.Exit{}, " view_image ok"},
		{"an answer in JSON", "", first + call("a", "get_goal") + output("a", `"{\"goal\":null}"`), executor.Exit{}, " get_goal ok"},
		{"a refusal in words", "", first + call("a", "get_goal") + output("a", `"no goal"`), executor.Exit{}, " get_goal error"},
		{"a patch", "", first + call("a", "apply_patch") + output("a", `"Exit code: 0\nWall time: 0\nOutput:\nExit code: 7\n"`),
			executor.Exit{}, " apply_patch ok"},
		{"an output of another type", "", first + call("a", "f") + output("a", `{"x":1}`), executor.Exit{}, " f error"},
		{"an output twice", "", first + call("a", "f") + output("a", `"no"`) + output("a", `"{}"`), executor.Exit{}, " f error"},
		{"an output without its call", "", first + output("a", `"no"`), executor.Exit{}, ""},
		{"an item long after its output", ran, first + call("a", "exec_command") + output("a", `"x"`) + call("b", "f") + item("a", "CommandExecution") + output("b", `"no"`),
			executor.Exit{}, " f error"},
		{"cut off, and told", ran, first + call("a", "exec_command"), executor.Exit{}, ""},
		{"cut off, and not told", "", first + call("a", "exec_command"), executor.Exit{}, " exec_command ?"},
		{"one of two cut off was told", ran, first + call("a", "exec_command") + call("b", "exec_command"),
			executor.Exit{}, " exec_command ?"},
		{"a sub-agent and its own", spawned, first + second + call("b", "f") + output("b", `"no"`) + third + call("c", "g") + output("c", `"no"`),
			executor.Exit{}, " item_0:f error t3:g error"},
		{"the history of the first thread", spawned, first + call("a", "f") + output("a", `"no"`) + second + call("a", "f") + output("a", `"no"`) + call("b", "g"),
			executor.Exit{}, " f error item_0:g ?"},
		{"a sub-agent in code mode", spawned, first + second + call("b", "exec") + item("x", "CommandExecution") + output("b", `"Script completed"`),
			executor.Exit{}, " item_0:command_execution ok"},
		{"a call told twice", ran, first + call("a", "exec_command") + call("a", "exec_command") + item("a", "CommandExecution") + output("a", `"x"`),
			executor.Exit{}, ""},
		{"a call of a server", "", first + strings.Replace(call("a", "f"), `{"type":"function`, `{"namespace":"mcp__s","type":"function`, 1),
			executor.Exit{}, " mcp__s__f ?"},
		{"code mode without a call", "", first + call("a", "exec") + output("a", `"Script completed\nOutput:\nhello"`),
			executor.Exit{}, " exec ok"},
		{"an output that quotes another", "", first + call("a", "f") + output("a", `"no such file\nOutput:\nProcess exited with code 0"`),
			executor.Exit{}, " f error"},
		{"cut off after a search", `{"type":"item.completed","item":{"id":"w","type":"web_search"}}` + "\n", first + call("a", "exec_command"),
			executor.Exit{}, " exec_command ?"},
		{"a change by a sub-agent", spawned, first + second + call("b", "apply_patch") +
			strings.Replace(item("b", "FileChange"), `"status"`, `"changes":{"/w/b":{},"/w/a":{}},"status"`, 1) + output("b", `"x"`),
			executor.Exit{}, " item_0:apply_patch[/w/a /w/b] ok"},
		{"no file", "", "", executor.Exit{}, absent},
		{"the file of another thread", "", second, executor.Exit{}, absent},
		{"a line that is not JSON", "", first + "{\n" + call("a", "f") + output("a", `"no"`), executor.Exit{}, " f error" + unread},
		{"too much", "", first, executor.Exit{Truncated: true}, unread},
		{"a file that cannot be read", "", first, executor.Exit{Code: 1}, unread},
	} {
		r := codexRun{stdout: []byte(`{"type":"thread.started","thread_id":"t1"}` + "\n" + c.stdout), sessions: []byte(c.sessions), reading: c.reading}
		o, events := r.play(t)
		got := ""
		for i, e := range events {
			switch {
			case e.Err != nil:
				got += " " + e.Err.Detail
			case e.Kind == trace.KindToolCall && e.Late:
				got += " " + strings.TrimPrefix(e.Parent+":"+e.Tool.Name, ":")
				if len(e.Tool.Paths) > 0 {
					got += fmt.Sprint(e.Tool.Paths)
				}
				if next := events[i+1]; next.Kind == trace.KindToolResult && next.Tool.ID == e.Tool.ID {
					got += " " + string(next.Tool.Status)
				} else {
					got += " ?"
				}
			}
		}
		warned := strings.HasSuffix(c.want, unread) || strings.HasSuffix(c.want, absent)
		if got != c.want && !(warned && strings.HasPrefix(got, c.want)) {
			t.Errorf("%s:%s, want%s", c.name, got, c.want)
		}
		if (o.Turns == nil) != warned {
			t.Errorf("%s: turns %v", c.name, o.Turns)
		}
	}
}

// TestCodexTellsWhatItDoesNotKnow feeds lines that no recording has.
func TestCodexTellsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	plan := `{"type":"item.%s","item":{"id":"p","type":"todo_list","items":[{"text":"a","completed":%t}]}}` + "\n"
	for _, c := range []struct{ name, stdout, want string }{
		{"nothing", "", ""},
		{"blank lines", "\n \r\n", ""},
		{"not JSON", "npm warn\n\xff\xfe{\n[1]\n", "other other other"},
		{"a new type", `{"type":"turn.paused"}`, "other"},
		{"a new item", `{"type":"item.completed","item":{"id":"1","type":"hologram"}}`, "other"},
		{"a field of another type", `{"type":"item.completed","item":{"id":1,"type":"agent_message","text":"hi"}}`, "assistant_text"},
		{"a call without a start", `{"type":"item.completed","item":{"id":"1","type":"web_search","query":"q"}}`,
			"tool_call tool_result"},
		{"a call that is updated", `{"type":"item.updated","item":{"id":"1","type":"command_execution"}}`, "other"},
		{"a plan told again", fmt.Sprintf(plan+plan+plan, "started", false, "updated", true, "completed", true), "plan plan"},
		{"a sub-agent found done twice", strings.Repeat(`{"type":"item.completed","item":{"id":"1","type":"collab_tool_call","tool":"wait","agents_states":{"t":{"status":"completed"}}}}`+"\n", 2),
			"tool_call tool_result subagent tool_call tool_result"},
		{"another reason to fail", `{"type":"turn.failed","error":{"message":"boom"}}`, "error"},
	} {
		_, events := codexRun{stdout: []byte(c.stdout)}.play(t)
		var kinds []string
		for _, e := range events[2 : len(events)-1] {
			kinds = append(kinds, string(e.Kind))
		}
		if got := strings.Join(kinds, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestCodexEndsOfATurn: the last turn decides, and one that began is no end.
func TestCodexEndsOfATurn(t *testing.T) {
	t.Parallel()
	const begun, done = `{"type":"turn.started"}` + "\n", `{"type":"turn.completed","usage":{"input_tokens":7,"cached_input_tokens":9}}` + "\n"
	fails := func(text string) string {
		return compact(t, map[string]any{"type": "turn.failed", "error": map[string]any{"message": text}})
	}
	for _, c := range []struct {
		name, stdout string
		exit         executor.Exit
		want         string
	}{
		{"completed", begun + done, executor.Exit{}, "end_turn "},
		{"a second one that never ends", begun + done + begun, executor.Exit{}, "no_terminal_event harness_crash"},
		{"a second one that fails", begun + done + begun + fails("x"), executor.Exit{Code: 1}, "error model_api"},
		{"a parameter of that name", fails(`{"error":{"type":"invalid_request_error","message":"unknown parameter max_output_tokens"}}`),
			executor.Exit{Code: 1}, "error model_request"},
		{"no more quota", fails(`{"error":{"type":"insufficient_quota"}}`), executor.Exit{Code: 1}, "error model_limit"},
		{"a status out of range", fails("unexpected status 999"), executor.Exit{Code: 1}, "error model_api"},
		{"a crash after a retry", begun + `{"type":"error","message":"Reconnecting... 1/2 (unexpected status 401)"}`,
			executor.Exit{Code: 1}, "no_terminal_event model_auth"},
		{"a crash after a retry that helped", begun + `{"type":"error","message":"Reconnecting... 1/2 (unexpected status 401)"}` + "\n" +
			`{"type":"item.completed","item":{"type":"reasoning"}}`, executor.Exit{Code: 1}, "no_terminal_event harness_crash"},
		{"killed by others", begun, executor.Exit{Code: -1, Signal: "SIGKILL", OOM: true}, "killed harness_crash"},
		{"absent", "", executor.Exit{Code: 127}, "no_terminal_event harness_config"},
	} {
		o, _ := codexRun{stdout: []byte(c.stdout), exit: c.exit}.play(t)
		if got := fmt.Sprintf("%s %s", o.Stop, o.Class); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if o.Usage != nil && o.Usage.Input != nil {
			t.Errorf("%s: more cached tokens than tokens make an input of %d", c.name, *o.Usage.Input)
		}
	}
}

func TestCodexCountsTurnsWhenNobodyElseDoes(t *testing.T) {
	t.Parallel()
	p := recordedCodex(t, "edit").place()
	p.Limits.MaxTurns = 4
	if o, _ := p.drive(t, build(t, "codex", "{}")); o.Stop != trace.StopMaxTurns || !strings.HasPrefix(o.Detail, "5 turns, more than 4") {
		t.Errorf("%s %s", o.Stop, o.Detail)
	}
	r := recordedCodex(t, "edit")
	r.exit = executor.Exit{Code: -1, Signal: "SIGTERM", TimedOut: true}
	p = r.place()
	p.Limits.MaxTurns = 4
	if o, _ := p.drive(t, build(t, "codex", "{}")); o.Stop != trace.StopTimeout {
		t.Errorf("%s %s", o.Stop, o.Detail)
	}
}

// TestCodexResults is the table of how a call can end.
func TestCodexResults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ item, want string }{
		{`"type":"command_execution","status":"completed","exit_code":0,"aggregated_output":"out"`, "ok 0 out"},
		{`"type":"command_execution","status":"completed","exit_code":3`, "error 3 "},
		{`"type":"command_execution","status":"failed","exit_code":-1`, "error ? "},
		{`"type":"command_execution","status":"declined","exit_code":null`, "denied ? "},
		{`"type":"command_execution","status":"in_progress"`, "none ? "},
		{`"type":"file_change","status":"failed"`, "error ? "},
		{`"type":"mcp_tool_call","status":"completed","result":{"content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]}`,
			"ok ? a\nb"},
		{`"type":"mcp_tool_call","status":"failed","error":{"message":"no"}`, "error ? no"},
		{`"type":"web_search","query":"q"`, "ok ? "},
		{`"type":"collab_tool_call","tool":"wait","status":"dreaming"`, "none ? "},
	} {
		_, events := codexRun{stdout: []byte(`{"type":"item.completed","item":{"id":"1",` + c.item + `}}`)}.play(t)
		r, exit := results(events)[0], "?"
		if r.Exit != nil {
			exit = fmt.Sprint(*r.Exit)
		}
		if got := fmt.Sprintf("%s %s %s", r.Status, exit, r.Output); got != c.want {
			t.Errorf("%s: %q, want %q", c.item, got, c.want)
		}
	}
}

// TestCodexCalledOff: who calls a run off does not wait for its session files.
func TestCodexCalledOff(t *testing.T) {
	t.Parallel()
	r := recordedCodex(t, "edit")
	p := r.place()
	ctx, cancel := context.WithCancel(t.Context())
	inner := p.Exec
	p.Exec = fake{run: func(runs context.Context, c executor.Command) (executor.Exit, error) {
		if ctx.Err() != nil {
			t.Error("a command after the end")
		}
		ex, err := inner.Run(runs, c)
		if c.Argv[0] == "codex" {
			cancel()
			ex = executor.Exit{Code: -1, Signal: "SIGKILL", Cancelled: true}
		}
		return ex, err
	}}
	if o, _ := p.driveUntil(t, ctx, build(t, "codex", "{}")); o.Stop != trace.StopCancelled || o.Version != "" || o.Turns != nil {
		t.Errorf("outcome %+v", o)
	}
}

// codexStart is what codex was started with.
type codexStart struct {
	prompt, config string
	furnish, env   []string
}

func startCodex(t testing.TB, h harness.Harness, task harness.Task) codexStart {
	t.Helper()
	var s codexStart
	task.Exec = fake{run: func(_ context.Context, c executor.Command) (executor.Exit, error) {
		b, err := io.ReadAll(c.Stdin)
		if err != nil {
			t.Error(err)
		}
		if c.Argv[0] == "sh" {
			s.config, s.furnish = string(b), c.Argv[4:]
		} else {
			s.prompt, s.env = string(b), c.Env
		}
		return executor.Exit{}, nil
	}}
	if _, err := h.Drive(t.Context(), task, func(trace.Event) {}); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCodexIsStarted(t *testing.T) {
	t.Parallel()
	h := build(t, "codex", `{base_url: "http://127.0.0.1:9/v1", key_env: PROVIDER_KEY, env: {A: settings, B: settings}}`)
	s := startCodex(t, h, harness.Task{
		Model: "gpt-5.5", Prompt: "Fix it.\n\n", Home: "/cell/home", Env: []string{"B=case", "PROVIDER_KEY=k-1"},
		Extras: harness.Extras{SkillsDir: "/skills", InstructionsFile: "/in.md", MCP: []harness.MCPServer{
			{Name: "a b", Argv: []string{"serve", "--x"}, Env: []string{"K=1", "A=\"", "K=2"}}, {Name: "far", URL: "http://h/mcp"},
		}},
	})
	if s.prompt != "Fix it.\n\n" {
		t.Errorf("prompt %q", s.prompt)
	}
	if diff := cmp.Diff([]string{"/cell/home", ".codex/config.toml", "/in.md", ".codex/AGENTS.md", "/skills", ".codex/skills"}, s.furnish); diff != "" {
		t.Error(diff)
	}
	env := []string{"A=settings", "ASSAY_MODEL_KEY=none", "B=case", "CODEX_HOME=/cell/home/.codex", "PROVIDER_KEY=k-1"}
	if diff := cmp.Diff(env, s.env); diff != "" {
		t.Error(diff)
	}
	want := `model = "gpt-5.5"
model_provider = "assay"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.assay]
name = "assay"
base_url = "http://127.0.0.1:9/v1"
wire_api = "responses"
env_key = "ASSAY_MODEL_KEY"
request_max_retries = 2
stream_max_retries = 2

[mcp_servers."a b"]
required = true
command = "serve"
args = ["--x"]
env = {"A" = "\"", "K" = "2"}

[mcp_servers."far"]
required = true
url = "http://h/mcp"
`
	if diff := cmp.Diff(want, s.config); diff != "" {
		t.Error(diff)
	}
}

// TestCodexSettingsAreTOML: whatever a name holds, a parser of TOML reads it back.
func TestCodexSettingsAreTOML(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not here to read TOML")
	}
	texts := []string{"", "a\"b\\c", "'''", `"""`, "\x00\x01\x7f\r\n\t", "é\u2028\U0001F600", "[x]\n# y = 1", `\u0041`, "C:\\path"}
	for seed := range 300 {
		texts = append(texts, rapid.String().Example(seed))
	}
	var env []string
	for i, s := range texts {
		env = append(env, fmt.Sprintf("N%d=%s", i, s))
	}
	names := []string{"plain", "a.b \"c\"\n", "\\", "é"}
	task := harness.Task{Model: strings.Join(names, "")}
	for _, name := range names {
		task.Extras.MCP = append(task.Extras.MCP, harness.MCPServer{Name: name, Argv: append([]string{name}, texts...), Env: env})
	}
	c := exec.Command(python, "-c", `import sys
try:
    import tomllib
except ImportError:
    sys.exit(3)
import json
print(json.dumps(tomllib.loads(sys.stdin.buffer.read().decode())))`)
	c.Stdin = strings.NewReader(startCodex(t, build(t, "codex", "{}"), task).config)
	out, err := c.Output()
	if c.ProcessState.ExitCode() == 3 {
		t.Skip("python3 has no tomllib before 3.11")
	}
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Model   string
		Servers map[string]struct {
			Command string
			Args    []string
			Env     map[string]string
		} `json:"mcp_servers"`
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if got.Model != task.Model || len(got.Servers) != len(names) {
		t.Errorf("model %q, %d servers", got.Model, len(got.Servers))
	}
	for _, name := range names {
		server := got.Servers[name]
		if diff := cmp.Diff(texts, server.Args); diff != "" || server.Command != name {
			t.Errorf("command %q, %s", server.Command, diff)
		}
		for i, s := range texts {
			if back := server.Env[fmt.Sprintf("N%d", i)]; back != s {
				t.Errorf("%q became %q", s, back)
			}
		}
	}
}

// TestCodexLaysItsSettings runs the commands that lay settings and read session files in a real place, with a program in
// the role of codex.
func TestCodexLaysItsSettings(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	root := filepath.Dir(p.Home)
	for name, text := range map[string]string{
		"skills/greeter/SKILL.md": "greet", "in.md": "Be kind.", "home/.codex/auth.json": "left by others",
		"codex": `#!/bin/sh
cd "$CODEX_HOME" && cat skills/greeter/SKILL.md AGENTS.md >"$HOME/seen" && ls -a >>"$HOME/seen"
mkdir -p sessions/2026/11/21 && cd sessions/2026/11/21
mkfifo rollout-1-t1.jsonl; ln -s /etc/passwd rollout-2-t1.jsonl; mkdir rollout-3-t1.jsonl
printf '%s\n%s' '{"type":"session_meta","payload":{"cli_version":"9"}}' '{"type":"response_item","payload":{"type":"function_call","name":"f","arguments":"{}","call_id":"c"}}' >rollout-4-t1.jsonl
echo '{"type":"thread.started","thread_id":"t1"}'
cat >"$HOME/prompt"
`,
	} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.Extras = harness.Extras{SkillsDir: filepath.Join(root, "skills"), InstructionsFile: filepath.Join(root, "in.md")}
	o, events := p.drive(t, build(t, "codex", "program: "+filepath.Join(root, "codex")))
	seen, err := os.ReadFile(filepath.Join(p.Home, "seen"))
	if err != nil || string(seen) != "greetBe kind..\n..\nAGENTS.md\nconfig.toml\nskills\n" {
		t.Errorf("codex saw %q, %v", seen, err)
	}
	if prompt, err := os.ReadFile(filepath.Join(p.Home, "prompt")); err != nil || string(prompt) != p.Prompt {
		t.Errorf("codex heard %q, %v", prompt, err)
	}
	if call := events[len(events)-2]; o.Version != "9" || call.Tool == nil || !call.Late || call.Tool.ID != "c" {
		t.Errorf("version %q, before the stop came %s", o.Version, compact(t, call))
	}
}

func TestCodexTellsOurOwnFailuresApart(t *testing.T) {
	t.Parallel()
	broken := errors.New("no fork")
	for n := range 3 {
		runs := 0
		task := harness.Task{Exec: fake{run: func(_ context.Context, c executor.Command) (executor.Exit, error) {
			if runs++; runs > n {
				return executor.Exit{}, broken
			}
			if c.Stdout != nil {
				io.WriteString(c.Stdout, `{"type":"thread.started","thread_id":"t"}`)
			}
			return executor.Exit{}, nil
		}}}
		if _, err := build(t, "codex", "{}").Drive(t.Context(), task, func(trace.Event) {}); !errors.Is(err, broken) {
			t.Errorf("after %d commands: %v", n, err)
		}
	}
	full := fake{run: func(_ context.Context, c executor.Command) (executor.Exit, error) {
		io.WriteString(c.Stderr, "disk full")
		return executor.Exit{Code: 1}, nil
	}}
	if _, err := build(t, "codex", "{}").Drive(t.Context(), harness.Task{Exec: full}, func(trace.Event) {}); err == nil ||
		err.Error() != "lay the settings of the agent: exit 1: disk full" {
		t.Error(err)
	}
}

func TestCodexFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ settings, want string }{
		{"base_url: api.openai.com", "is not an http or https address"},
		{"base_url: 'file:///x'", "is not an http"},
		{"env: {GITHUB_TOKEN: x}", "suite.yaml:1:7: GITHUB_TOKEN never"},
		{"modell: x", "suite.yaml:1:1: unknown key"},
	} {
		if _, err := kind(t, "codex").Build(settings(t, c.settings)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.settings, err, c.want)
		}
	}
}

func TestCodexNamesItsModels(t *testing.T) {
	t.Parallel()
	h := build(t, "codex", "key_env: PROVIDER_KEY").(harness.Caller)
	models, err := h.Models(harness.Task{Model: "gpt-5.5"})
	if err != nil || len(models) != 1 || models[0].Name != "gpt-5.5" || models[0].Dialect != "responses" ||
		models[0].BaseURL != "https://api.openai.com/v1" || models[0].KeyEnv != "PROVIDER_KEY" || models[0].Side {
		t.Errorf("%+v, %v", models, err)
	}
	if _, err := h.Models(harness.Task{Model: "none"}); err == nil || !strings.Contains(err.Error(), "this harness needs models") {
		t.Error(err)
	}
}

func TestCodexProbesItsProgram(t *testing.T) {
	t.Parallel()
	look := func(name string) (string, error) {
		if name == "codex" {
			return "/bin/codex", nil
		}
		return "", exec.ErrNotFound
	}
	run := func(_ context.Context, argv []string) (string, error) {
		return strings.Join(argv, " ") + "\ncodex-cli 1", nil
	}
	if version, err := build(t, "codex", "{}").(harness.Prober).Probe(t.Context(), look, run); err != nil || version != "codex --version" {
		t.Errorf("%q, %v", version, err)
	}
	if _, err := build(t, "codex", "program: other").(harness.Prober).Probe(t.Context(), look, run); err == nil ||
		!strings.Contains(err.Error(), "agent other: executable file not found") {
		t.Error(err)
	}
}

// sound checks what every trace promises, however odd the bytes it came from.
func sound(t *testing.T, r codexRun) {
	t.Helper()
	p := r.place()
	var b bytes.Buffer
	w := trace.NewWriter(&b, func() time.Duration { return 0 })
	stops := 0
	o, err := build(t, "codex", "{}").Drive(t.Context(), p.Task, func(e trace.Event) {
		if e.Kind == trace.KindStop {
			stops++
		}
		w.Emit(e)
	})
	if err != nil || stops != 1 {
		t.Fatalf("%d stops, %v", stops, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, err := range trace.Read(&b) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if o.Stop == trace.StopEndTurn && !bytes.Contains(r.stdout, []byte("turn.completed")) && !bytes.Contains(r.stdout, []byte(`\u`)) {
		t.Error("it ended well, and never said so")
	}
	if u := o.Usage; u != nil {
		for _, n := range []*int64{u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning} {
			if n != nil && *n < 0 {
				t.Errorf("usage %s", compact(t, u))
			}
		}
	}
}

// FuzzCodex feeds any standard output.
func FuzzCodex(f *testing.F) {
	for _, run := range []string{"edit", "subagent", "refusal", "err429", "mcp", "background"} {
		f.Add(recordedCodex(f, run).stdout, 0)
	}
	f.Add([]byte(`{"type":"item.completed","item":{"type":"todo_list","items":null}}`), 1)
	f.Add([]byte(`{"type":"turn.completed","usage":{"input_tokens":-9223372036854775808,"cached_input_tokens":9223372036854775807}}`), 0)
	f.Fuzz(func(t *testing.T, stdout []byte, code int) {
		sound(t, codexRun{stdout: stdout, exit: executor.Exit{Code: code}})
	})
}

// FuzzRollout feeds any session files.
func FuzzRollout(f *testing.F) {
	for _, run := range []string{"edit", "edit_codemode", "subagent", "deny_ro", "mcp"} {
		r := recordedCodex(f, run)
		f.Add(r.stdout, r.sessions)
	}
	f.Fuzz(func(t *testing.T, stdout, sessions []byte) { sound(t, codexRun{stdout: stdout, sessions: sessions}) })
}
