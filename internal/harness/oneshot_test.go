package harness_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/trace"
)

// A oneShot is an agent that prints recorded bytes: what it was given stands in it afterwards.
type oneShot struct {
	stdout []byte
	exit   executor.Exit

	argv, env []string
	prompt    string
	laid      string // settings file
}

func (a *oneShot) Run(_ context.Context, c executor.Command) (executor.Exit, error) {
	if c.Argv[0] == "sh" { // furnishes the home
		b, err := io.ReadAll(c.Stdin)
		a.laid = string(b)
		return executor.Exit{}, err
	}
	prompt, err := io.ReadAll(c.Stdin)
	if err != nil {
		return executor.Exit{}, err
	}
	a.argv, a.env, a.prompt = c.Argv, c.Env, string(prompt)
	if _, err := c.Stdout.Write(a.stdout); err != nil {
		return executor.Exit{}, err
	}
	exit := a.exit
	exit.Out = int64(len(a.stdout))
	return exit, nil
}
func (a *oneShot) Files() executor.FS          { return nil }
func (a *oneShot) Close(context.Context) error { return nil }

// playStream drives a harness of this kind with a recorded agent in place of its CLI.
func playStream(t testing.TB, kind string, a *oneShot) (*place, harness.Outcome, []trace.Event) {
	t.Helper()
	p := &place{Task: harness.Task{
		Case: "tz", Model: "m1", Condition: "with_skill", Trial: 1, Prompt: "Fix the bug.", Exec: a,
		Work: "/cell/work", Home: "/cell/home", Env: []string{"FOO=bar"},
	}}
	p.Log = &p.log
	o, events := p.drive(t, build(t, kind, "base_url: http://127.0.0.1:1/x"))
	return p, o, events
}

func stream(t testing.TB, kind, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "streams", kind, name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fared says in one line how an agent fared: its stop and class, answers/calls of tools, failed and denied calls, and
// tokens as input/cached/output/reasoning.
func fared(o harness.Outcome, events []trace.Event) string {
	calls, failed, denied := 0, 0, 0
	for _, e := range events {
		switch {
		case e.Kind == trace.KindToolCall:
			calls++
		case e.Kind == trace.KindToolResult && e.Tool.Status == trace.StatusError:
			failed++
		case e.Kind == trace.KindToolResult && e.Tool.Status == trace.StatusDenied:
			denied++
		}
	}
	turns := "–"
	if o.Turns != nil {
		turns = fmt.Sprint(*o.Turns)
	}
	line := strings.TrimSuffix(fmt.Sprintf("%s %s", o.Stop, o.Class), " ")
	line += fmt.Sprintf(" %s/%d failed %d denied %d", turns, calls, failed, denied)
	if u := o.Usage; u != nil {
		line += fmt.Sprintf(" tokens %d/%d/%d/%d", *u.Input, *u.CacheRead, *u.Output, *u.Reasoning)
	}
	return line
}

var timedOut = executor.Exit{Code: -1, Signal: "SIGTERM", TimedOut: true}

// recordings are the recorded runs of the agents that print lines and ask nothing, with how each of them ended.
var recordings = []struct {
	kind, name string
	exit       executor.Exit
	want       string
}{
	{"gemini", "edit", executor.Exit{}, "end_turn 5/4 failed 0 denied 0 tokens 5010/1000/285/35"},
	{"gemini", "cmd", executor.Exit{}, "end_turn 3/2 failed 0 denied 0 tokens 3003/600/171/21"}, // it hides the exit code
	{"gemini", "deny_default", executor.Exit{}, "end_turn 1/0 failed 0 denied 0 tokens 1000/200/57/7"},
	{"gemini", "ask", executor.Exit{}, "end_turn 1/0 failed 0 denied 0 tokens 1000/200/57/7"},
	{"gemini", "nogit", executor.Exit{}, "end_turn 1/0 failed 0 denied 0 tokens 1000/200/57/7"},
	{"gemini", "truncate", executor.Exit{}, "end_turn 1/0 failed 0 denied 0 tokens 1000/200/57/7"}, // only the gateway knows
	{"gemini", "maxturns", executor.Exit{Code: 53}, "max_turns 3/3 failed 0 denied 0 tokens 3003/600/171/21"},
	{"gemini", "err401", executor.Exit{Code: 145}, "error model_auth –/0 failed 0 denied 0"},
	{"gemini", "err500", timedOut, "timeout model_api –/0 failed 0 denied 0"}, // err429 prints the same
	{"gemini", "err500", executor.Exit{TimedOut: true}, "timeout model_api –/0 failed 0 denied 0"},
	{"gemini", "err500", executor.Exit{}, "no_terminal_event harness_crash –/0 failed 0 denied 0"}, // TERM from outside: exit 0
	{"gemini", "edit_json", executor.Exit{}, "end_turn –/0 failed 0 denied 0 tokens 5010/1000/285/35"},
	{"opencode", "edit", executor.Exit{}, "end_turn 5/4 failed 0 denied 0 tokens 5010/1000/250/35"},
	{"opencode", "edit", executor.Exit{Code: 1}, "error harness_crash 5/4 failed 0 denied 0 tokens 5010/1000/250/35"},
	{"opencode", "edit", executor.Exit{Code: -1, Signal: "SIGKILL"}, "killed harness_crash 5/4 failed 0 denied 0 tokens 5010/1000/250/35"},
	{"opencode", "cmd", executor.Exit{}, "end_turn 3/2 failed 1 denied 0 tokens 3003/600/150/21"},
	{"opencode", "deny_ask", executor.Exit{}, "end_turn 1/1 failed 0 denied 1 tokens 1000/200/50/7"},
	{"opencode", "ask", executor.Exit{}, "end_turn 1/0 failed 0 denied 0 tokens 1000/200/50/7"},
	{"opencode", "nogit", executor.Exit{}, "end_turn 1/0 failed 0 denied 0 tokens 1000/200/50/7"},
	{"opencode", "refusal", executor.Exit{Code: 1}, "refusal 1/0 failed 0 denied 0 tokens 1000/200/50/7"},
	{"opencode", "maxturns", timedOut, "timeout model_api 89/90 failed 0 denied 0 tokens 92916/17800/4450/623"},
	{"opencode", "err400", executor.Exit{Code: 1}, "error model_request –/0 failed 0 denied 0"},
}

func TestRecordedRuns(t *testing.T) {
	t.Parallel()
	for _, r := range recordings {
		t.Run(r.kind+"/"+r.name, func(t *testing.T) {
			t.Parallel()
			text := stream(t, r.kind, r.name)
			p, o, whole := playStream(t, r.kind, &oneShot{stdout: text, exit: r.exit})
			if got := fared(o, whole); got != r.want {
				t.Errorf("got  %s\nwant %s", got, r.want)
			}
			if p.log.String() != string(text) {
				t.Error("agent.log is not what the agent printed")
			}
		})
	}
}

func TestRecordedTraces(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"gemini", "opencode"} {
		p, _, events := playStream(t, kind, &oneShot{stdout: stream(t, kind, "edit")})
		p.golden(t, kind+"-edit", events)
	}
	p, _, events := playStream(t, "opencode", &oneShot{stdout: stream(t, "opencode", "refusal"), exit: executor.Exit{Code: 1}})
	p.golden(t, "opencode-refusal", events)
}

func TestOneShotAgentsAreStarted(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string][]string{
		"gemini": {
			"gemini --output-format stream-json --approval-mode yolo --model m1",
			"FOO=bar", "GEMINI_CLI_HOME=/cell/home", "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:1/x",
			`"selectedType":"gemini-api-key"`, `"httpUrl":"http://mcp"`, `"command":"tool","env":{"A":"b"}`,
		},
		"opencode": {
			"opencode run --format json --auto --model assay/m1",
			"FOO=bar", "XDG_CONFIG_HOME=/cell/home/.config", `"baseURL":"http://127.0.0.1:1/x"`, `"small_model":"assay/small"`,
			`"type":"remote","url":"http://mcp"`, `"command":["tool","x"]`,
		},
	} {
		a := &oneShot{}
		h := build(t, kind, "{base_url: \"http://127.0.0.1:1/x/\", side_models: [small], env: {FOO: settings}}")
		task := harness.Task{
			Model: "m1", Prompt: "Fix\n«it».", Exec: a, Work: "/cell/work", Home: "/cell/home", Env: []string{"FOO=bar"},
			Extras: harness.Extras{MCP: []harness.MCPServer{{Name: "one", URL: "http://mcp"}, {Name: "two", Argv: []string{"tool", "x"}, Env: []string{"A=b"}}}},
		}
		if _, err := h.Drive(t.Context(), task, func(trace.Event) {}); err != nil {
			t.Fatal(err)
		}
		if a.prompt != task.Prompt {
			t.Errorf("%s was given the prompt %q", kind, a.prompt)
		}
		given := strings.Join(a.argv, " ") + "\n" + strings.Join(a.env, "\n") + "\n" + a.laid
		for _, w := range want {
			if !strings.Contains(given, w) {
				t.Errorf("%s is not given %s:\n%s", kind, w, given)
			}
		}
	}
}

func TestGeminiRefusesAPromptThatItWouldCut(t *testing.T) {
	t.Parallel()
	p := &place{Task: harness.Task{Model: "m1", Prompt: strings.Repeat("x", 8<<20+1), Exec: &oneShot{}}}
	o, _ := p.drive(t, build(t, "gemini", "{}"))
	if o.Stop != trace.StopError || o.Class != trace.ClassHarnessConfig || !strings.Contains(o.Detail, "8388609 bytes") {
		t.Errorf("outcome %+v", o)
	}
}

func TestGeminiFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]trace.Class{
		`"error":{"type":"unknown","message":"[API Error: {\"error\":{\"code\": 429}}]"}`:                 trace.ClassModelLimit,
		`"error":{"type":"unknown","message":"[API Error: no such key (Status: PERMISSION_DENIED)]"}`:     trace.ClassModelAuth,
		`"error":{"type":"unknown","message":"[API Error: quota (Status: RESOURCE_EXHAUSTED)]"}`:          trace.ClassModelLimit,
		`"error":{"type":"unknown","message":"[API Error: no model (Status: NOT_FOUND)]"}`:                trace.ClassModelRequest,
		`"error":{"type":"unknown","message":"[API Error: {\"error\":{\"code\": 7}}]"}`:                   trace.ClassModelAPI,
		`"error":{"type":"FatalInputError","message":"no input"}`:                                         trace.ClassHarnessConfig,
		`"error":{"type":"FatalToolExecutionError","message":"disk full"}`:                                trace.ClassHarnessCrash,
		`"error":{"type":"INVALID_STREAM","message":"The model returned an empty response with no text"}`: trace.ClassModelAPI,
	} {
		_, o, _ := playStream(t, "gemini", &oneShot{stdout: []byte(`{"type":"result","status":"error",` + text + "}\n"), exit: executor.Exit{Code: 1}})
		if o.Stop != trace.StopError || o.Class != want {
			t.Errorf("%s: %s %s, want %s", text, o.Stop, o.Class, want)
		}
	}
}

func TestGeminiTellsALoopAsTurns(t *testing.T) {
	t.Parallel()
	_, o, events := playStream(t, "gemini", &oneShot{stdout: []byte(`
{"type":"message","role":"assistant","content":"one ","delta":true}
{"type":"message","role":"assistant","content":"answer","delta":true}
{"type":"tool_use","tool_name":"glob","tool_id":"a","parameters":{"dir_path":"/cell/work/src"}}
{"type":"tool_use","tool_name":"glob","tool_id":"b","parameters":{"path":7}}
{"type":"tool_result","tool_id":"b","status":"error","error":{"message":"not a text"}}
{"type":"error","severity":"warning","message":"Loop detected, stopping execution"}
{"type":"result","status":"success","stats":{"total_tokens":1}}
`)})
	if o.Stop != trace.StopMaxTurns || o.Detail != "loop_detected" || *o.Turns != 1 || o.FinalText != "one answer" {
		t.Errorf("outcome %+v", o)
	}
	var got []string
	for _, r := range results(events) {
		got = append(got, fmt.Sprintf("%s %s %s %s", r.ID, r.Name, r.Status, r.Output))
	}
	if diff := cmp.Diff([]string{"b glob error not a text", "a glob none "}, got); diff != "" {
		t.Error(diff)
	}
	if o.Usage.Input != nil || o.Usage.Output != nil || o.Usage.Reasoning != nil {
		t.Errorf("usage %s", compact(t, o.Usage))
	}
}

func TestOpencodeFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"name":"MessageOutputLengthError","data":{}}`:                                                         "max_tokens ",
		`{"name":"APIError","data":{"statusCode":400,"message":"no","responseBody":"context_length_exceeded"}}`: "error context_overflow",
		`{"name":"APIError","data":{"statusCode":401,"message":"no"}}`:                                          "error model_auth",
		`{"name":"APIError","data":{"message":"connection refused"}}`:                                           "error model_api",
		`{"name":"ProviderAuthError","data":{"message":"no key"}}`:                                              "error model_auth",
		`{"name":"UnknownError","data":{"message":"TypeError"}}`:                                                "error harness_crash",
	} {
		_, o, _ := playStream(t, "opencode", &oneShot{stdout: []byte(`{"type":"error","error":` + text + "}"), exit: executor.Exit{Code: 1}})
		if got := fmt.Sprintf("%s %s", o.Stop, o.Class); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestOpencodeNamesTheToolThatIsNotThere(t *testing.T) {
	t.Parallel()
	_, _, events := playStream(t, "opencode", &oneShot{stdout: []byte(
		`{"type":"tool_use","part":{"tool":"invalid","callID":"a","state":{"status":"completed","input":{"tool":"no_such","error":"x"},"output":"no such tool"}}}`)})
	r := results(events)
	if len(r) != 1 || r[0].Name != "no_such" || r[0].Status != trace.StatusError || r[0].Output != "no such tool" {
		t.Errorf("results %s", compact(t, r))
	}
}

func TestOpencodeDoesNotKnowThePriceOfItsModel(t *testing.T) {
	t.Parallel()
	_, o, _ := playStream(t, "opencode", &oneShot{stdout: []byte(
		`{"type":"step_finish","part":{"reason":"stop","cost":0,"tokens":{"input":1,"output":2,"reasoning":0,"cache":{"read":0}}}}`)})
	if u := o.Usage; u.CostUSD != nil || u.CacheWrite != nil || *u.Input != 1 || *u.Output != 2 {
		t.Errorf("usage %s", compact(t, u))
	}
}

func FuzzGemini(f *testing.F)   { fuzzStream(f, "gemini") }
func FuzzOpencode(f *testing.F) { fuzzStream(f, "opencode") }

// fuzzStream holds an agent's stream to what every trace promises, whatever its bytes are.
func fuzzStream(f *testing.F, kind string) {
	for _, r := range recordings {
		if r.kind == kind {
			f.Add(stream(f, r.kind, r.name))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, o, events := playStream(t, kind, &oneShot{stdout: text})
		var b bytes.Buffer
		w := trace.NewWriter(&b, func() time.Duration { return 0 })
		for _, e := range events {
			w.Emit(e)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if o.Stop == trace.StopEndTurn && !o.Answered {
			t.Error("a success without an answer")
		}
	})
}
