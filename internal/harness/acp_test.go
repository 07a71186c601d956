package harness_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/responder"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/assay-ci/assay/internal/trace"
)

// A frame is one line of a recording: -> went to the agent, <- came from it.
type frame struct {
	Dir string          `json:"dir"`
	Msg json.RawMessage `json:"msg"`
}

func readFrames(t testing.TB, name string) []frame {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "streams", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var list []frame
	for line := range strings.Lines(string(b)) {
		var f frame
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		if f.Dir == "##" {
			continue
		}
		list = append(list, f)
	}
	return list
}

// A recorded agent plays a recording: it writes what the real agent wrote, and expects of us what its client sent.
type recorded struct {
	frames []frame
	stays  bool // it does not end with its input
	cancel func()
	differ []string // how what we sent differs from the recording
}

func (r *recorded) run(ctx context.Context, c executor.Command) (executor.Exit, error) {
	in := bufio.NewReader(c.Stdin)
	for i, f := range r.frames {
		if f.Dir == "<-" {
			c.Stdout.Write(append(f.Msg[:len(f.Msg):len(f.Msg)], '\n'))
			continue
		}
		if bytes.Contains(f.Msg, []byte("session/cancel")) {
			r.cancel()
		}
		line, err := in.ReadString('\n')
		if err != nil {
			r.differ = append(r.differ, fmt.Sprintf("frame %d: we sent nothing more, want %s", i+1, f.Msg))
			break
		}
		if diff := cmp.Diff(meaning(f.Msg), meaning([]byte(line))); diff != "" {
			r.differ = append(r.differ, fmt.Sprintf("frame %d (-recorded +ours):\n%s", i+1, diff))
		}
	}
	if rest, _ := io.ReadAll(in); len(rest) > 0 {
		r.differ = append(r.differ, fmt.Sprintf("we also sent %s", rest))
	}
	if r.stays {
		<-ctx.Done()
		return executor.Exit{Code: -1, Signal: "SIGTERM", Cancelled: true}, nil
	}
	return executor.Exit{}, nil
}

// meaning is a frame of ours without what may differ: our name, and what we offer.
func meaning(line []byte) any {
	var m map[string]any
	if err := json.Unmarshal(line, &m); err != nil {
		return string(line)
	}
	if m["method"] == "initialize" {
		p := m["params"].(map[string]any)
		delete(p, "clientInfo")
		delete(p, "clientCapabilities")
	}
	return m
}

// An acpRun is a recording and what is to be read in it.
type acpRun struct {
	name, settings, policy string
	stop                   trace.StopReason
	class                  trace.Class
	usage                  string // of the outcome
	calls                  string // a call as kind=status, in the order of their ends
	asks, questions, plans int
	model                  string
	final                  string // how the final text begins
}

var acpRuns = []acpRun{
	{name: "acp-claude/edit", settings: "agent: claude-agent-acp", stop: "end_turn", usage: "5010/1000/150/250 0.0196425",
		calls: "read=ok edit=ok execute=ok", asks: 2, plans: 2, model: "claude-sonnet-4-5", final: "Fixed add() in calc.py; verified 2+3=5."},
	{name: "acp-claude/edit_nofs", settings: "agent: claude-agent-acp", stop: "end_turn", usage: "5010/1000/150/250 0.0196425",
		calls: "read=ok edit=ok execute=ok", asks: 2, plans: 2, model: "claude-sonnet-4-5", final: "Fixed add() in calc.py; verified 2+3=5."},
	{name: "acp-claude/deny_reject", settings: "agent: claude-agent-acp", policy: "auto-deny", stop: "end_turn", usage: "3003/600/90/150 0.0117765",
		calls: "execute=denied edit=error", asks: 1, model: "claude-sonnet-4-5", final: "I was not able to, or was; done."},
	{name: "acp-claude/ask_elicit", settings: "agent: claude-agent-acp", stop: "end_turn", usage: "2001/400/60/100 0.007848",
		calls: "ask=ok", questions: 1, model: "claude-sonnet-4-5", final: "Thanks for the answer."},
	{name: "acp-claude/ask_noelicit", settings: "agent: claude-agent-acp", stop: "end_turn", usage: "1000/200/30/50 0.0039225",
		model: "claude-sonnet-4-5", final: "(no tool for ask"},
	{name: "acp-claude/err400", settings: "agent: claude-agent-acp", stop: "error", class: "model_request", usage: "-/-/-/- 0",
		model: "claude-sonnet-4-5"},
	{name: "acp-claude/cancel", settings: "agent: claude-agent-acp", stop: "cancelled", usage: "-/-/-/- 0.26532",
		calls: strings.Repeat("execute=ok ", 65) + "execute=none", model: "claude-sonnet-4-5", final: "step 65"},
	{name: "acp-gemini/edit", settings: "agent: gemini", stop: "end_turn",
		calls: "read=ok think=ok edit=ok execute=ok", asks: 3, model: "gemini-2.5-pro", final: "Fixed add() in calc.py; verified 2+3=5."},
	{name: "acp-gemini/edit_nofs", settings: "agent: gemini", stop: "end_turn",
		calls: "read=ok think=ok edit=ok execute=ok", asks: 3, model: "gemini-2.5-pro", final: "Fixed add() in calc.py; verified 2+3=5."},
	{name: "acp-gemini/edit_yolo", settings: "{agent: gemini, mode: yolo}", stop: "end_turn",
		calls: "read=ok think=ok edit=ok execute=ok", model: "gemini-2.5-pro", final: "Fixed add() in calc.py; verified 2+3=5."},
	{name: "acp-gemini/deny_reject", settings: "agent: gemini", policy: "auto-deny", stop: "end_turn",
		calls: "execute=denied edit=denied", asks: 2, model: "gemini-2.5-pro", final: "I was not able to, or was; done."},
	{name: "acp-gemini/ask_elicit", settings: "agent: gemini", stop: "end_turn", model: "gemini-2.5-pro", final: "(no tool for ask"},
	{name: "acp-gemini/ask_noelicit", settings: "agent: gemini", stop: "end_turn", model: "gemini-2.5-pro", final: "(no tool for ask"},
	{name: "acp-gemini/refusal", settings: "agent: gemini", stop: "end_turn", model: "gemini-2.5-pro", final: "I cannot help with that."},
	{name: "acp-gemini/cancel", settings: "agent: gemini", stop: "max_turns", calls: strings.Repeat("execute=ok ", 38), model: "gemini-2.5-pro", final: "step 36"},
	{name: "acp-opencode/edit", settings: "agent: opencode", stop: "end_turn", usage: "-/-/-/- 0.01908",
		calls: "read=ok think=ok edit=ok execute=ok", asks: 2, model: "loop/m1", final: "Fixed add() in calc.py; verified 2+3=5."},
	{name: "acp-opencode/ask_elicit", settings: "agent: opencode", stop: "end_turn", usage: "-/-/-/- 0.00381", model: "loop/m1", final: "(no tool for ask"},
	{name: "acp-opencode/err400", settings: "agent: opencode", stop: "error", class: "model_request", usage: "-/-/-/- 0", model: "loop/m1"},
	{name: "acp-opencode/cancel", settings: "agent: opencode", stop: "cancelled", usage: "-/-/-/- 0.034398",
		calls: strings.Repeat("execute=ok ", 9), asks: 9, model: "loop/m1", final: "step 8"},
	{name: "acp-codex/edit", settings: "{agent: codex-acp, mode: read-only}", stop: "end_turn",
		calls: "read=ok execute=ok", plans: 1, model: "gpt-5-codex", final: "Fixed add() in calc.py; verified 2+3=5."},
	{name: "acp-codex/edit_full", settings: "agent: codex-acp", stop: "end_turn",
		calls: "read=ok execute=ok execute=ok", plans: 1, model: "gpt-5-codex", final: "Fixed add() in calc.py; verified 2+3=5."},
	{name: "acp-codex/deny_reject", settings: "{agent: codex-acp, mode: read-only}", policy: "auto-deny", stop: "end_turn", model: "gpt-5-codex", final: "I was not able to, or was; done."},
	{name: "acp-codex/perm_cancel", settings: "{agent: codex-acp, mode: read-only}", stop: "end_turn", model: "gpt-5-codex", final: "I was not able to, or was; done."},
	{name: "acp-codex/ask_elicit", settings: "{agent: codex-acp, mode: read-only}", stop: "end_turn", model: "gpt-5-codex", final: "Thanks for the answer."},
	{name: "acp-codex/ask_noelicit", settings: "{agent: codex-acp, mode: read-only}", stop: "end_turn", model: "gpt-5-codex", final: "Thanks for the answer."},
	{name: "acp-codex/err400", settings: "{agent: codex-acp, mode: read-only}", stop: "error", class: "model_request", model: "gpt-5-codex"},
	{name: "acp-codex/cancel", settings: "{agent: codex-acp, mode: read-only}", stop: "cancelled",
		calls: strings.Repeat("execute=ok ", 16), model: "gpt-5-codex", final: "step 16"},
}

// acpPlace is a task for a recording, whose folders are those that it was made in.
func acpPlace(t testing.TB, policy string) *place {
	t.Helper()
	p := newPlace(t, map[string]string{"calc.py": "def add(a, b):\n    return a - b\n"})
	p.Work, p.Home, p.Prompt, p.Model = "/cell/work", "/cell/home", "Fix add()", "m1"
	p.Limits = harness.Limits{}
	if policy == "" {
		return p
	}
	for _, k := range responder.Kinds {
		if k.Name == policy {
			r, err := k.Build(suite.Block{})
			if err != nil {
				t.Fatal(err)
			}
			p.Responder = r
		}
	}
	return p
}

// play drives a harness against an agent that is a func.
func (p *place) play(t testing.TB, ctx context.Context, h harness.Harness, run func(context.Context, executor.Command) (executor.Exit, error)) (harness.Outcome, []trace.Event) {
	t.Helper()
	task := p.Task
	defer func() { p.Task = task }()
	p.Exec = fake{files: task.Exec.Files(), run: func(ctx context.Context, c executor.Command) (executor.Exit, error) {
		if c.Argv[0] == "sh" { // lays files into HOME
			return executor.Exit{}, nil
		}
		return run(ctx, c)
	}}
	return p.driveUntil(t, ctx, h)
}

func TestACPRecordings(t *testing.T) {
	t.Parallel()
	for _, c := range acpRuns {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p := acpPlace(t, c.policy)
			r := &recorded{frames: readFrames(t, c.name), stays: strings.HasPrefix(c.name, "acp-codex/"), cancel: cancel}
			o, events := p.play(t, ctx, build(t, "acp", c.settings), r.run)
			for _, d := range r.differ {
				t.Error(d)
			}
			if o.Stop != c.stop || o.Class != c.class {
				t.Errorf("stop %s %s: %s", o.Stop, o.Class, o.Detail)
			}
			got := struct {
				Usage, Calls, Model   string
				Asks, Questions, Plan int
			}{usageLine(o.Usage), callLine(events), o.Model, tally(events, trace.KindPermissionRequest), tally(events, trace.KindQuestion), tally(events, trace.KindPlan)}
			want := got
			want.Usage, want.Calls, want.Model = c.usage, strings.TrimSpace(c.calls), c.model
			want.Asks, want.Questions, want.Plan = c.asks, c.questions, c.plans
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if !strings.HasPrefix(o.FinalText, c.final) || c.final == "" && o.FinalText != "" {
				t.Errorf("final text %q", o.FinalText)
			}
			if o.Version == "" || o.Answered != (c.stop != "error") {
				t.Errorf("version %q, answered %v", o.Version, o.Answered)
			}
			if strings.HasSuffix(c.name, "/edit") || strings.HasSuffix(c.name, "/deny_reject") || strings.HasSuffix(c.name, "/ask_elicit") {
				p.golden(t, strings.ReplaceAll(c.name, "/", "-"), events)
			}
		})
	}
}

func tally(events []trace.Event, k trace.Kind) int {
	n := 0
	for _, e := range events {
		if e.Kind == k {
			n++
		}
	}
	return n
}

// callLine is what the results say; a call without a result, or a result without a call, shows.
func callLine(events []trace.Event) string {
	var list []string
	open := map[string]bool{}
	for _, e := range events {
		switch {
		case e.Kind == trace.KindToolCall:
			open[e.Tool.ID] = true
		case e.Kind == trace.KindToolResult && !open[e.Tool.ID]:
			list = append(list, "uncalled "+e.Tool.ID)
		case e.Kind == trace.KindToolResult:
			list = append(list, string(e.Tool.Kind)+"="+string(e.Tool.Status))
			delete(open, e.Tool.ID)
		}
	}
	for id := range open {
		list = append(list, "open "+id)
	}
	return strings.Join(list, " ")
}

func usageLine(u *trace.Usage) string {
	if u == nil {
		return ""
	}
	n := func(p *int64) string {
		if p == nil {
			return "-"
		}
		return fmt.Sprint(*p)
	}
	line := strings.Join([]string{n(u.Input), n(u.CacheRead), n(u.CacheWrite), n(u.Output)}, "/")
	if u.CostUSD != nil {
		line += fmt.Sprintf(" %.7g", *u.CostUSD)
	}
	return line
}

// A run may end after any byte.
func TestACPCutAnywhere(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"acp-claude/edit", "acp-claude/ask_elicit", "acp-gemini/edit", "acp-gemini/deny_reject", "acp-opencode/edit", "acp-codex/edit_full"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := acpPlace(t, "")
			frames := readFrames(t, name)
			i := slices.IndexFunc(acpRuns, func(c acpRun) bool { return c.name == name })
			h := build(t, "acp", acpRuns[i].settings)
			for n := range frames {
				for _, part := range []int{0, 2, 3} { // of a frame: none, half, all but its end
					cut := slices.Clone(frames[:n+1])
					if cut[n].Dir != "<-" {
						continue
					}
					r := &recorded{frames: cut[:n], cancel: func() {}}
					o, events := p.play(t, t.Context(), h, func(ctx context.Context, c executor.Command) (executor.Exit, error) {
						for _, f := range r.frames {
							if f.Dir == "<-" {
								c.Stdout.Write(append(f.Msg[:len(f.Msg):len(f.Msg)], '\n'))
							}
						}
						if part > 0 {
							c.Stdout.Write(cut[n].Msg[:len(cut[n].Msg)*(part-1)/part])
						}
						return executor.Exit{Code: 1, Out: 1}, nil
					})
					ended := slices.ContainsFunc(cut[:n], func(f frame) bool { return bytes.Contains(f.Msg, []byte(`"stopReason"`)) })
					if (o.Stop == trace.StopEndTurn) != ended || !ended && (o.Stop != trace.StopNoTerminalEvent || o.Class != trace.ClassHarnessCrash) {
						t.Fatalf("cut in frame %d: %s %s: %s", n+1, o.Stop, o.Class, o.Detail)
					}
					if line := callLine(events); strings.Contains(line, "open ") || strings.Contains(line, "uncalled") {
						t.Fatalf("cut in frame %d: %s", n+1, line)
					}
				}
			}
		})
	}
}

// talk is an agent of lines: it reads ours and answers with what reply gives for their method.
func talk(reply func(method string, id int, say func(string))) func(context.Context, executor.Command) (executor.Exit, error) {
	return func(ctx context.Context, c executor.Command) (executor.Exit, error) {
		in := bufio.NewScanner(c.Stdin)
		in.Buffer(nil, 64<<20)
		for in.Scan() {
			var m struct {
				ID     int    `json:"id"`
				Method string `json:"method"`
			}
			json.Unmarshal(in.Bytes(), &m)
			if m.Method == "" {
				m.Method = in.Text() // an answer to the agent
			}
			reply(m.Method, m.ID, func(s string) { io.WriteString(c.Stdout, s+"\n") })
		}
		return executor.Exit{}, nil
	}
}

// polite answers what every agent does, and leaves the prompt to work.
func polite(work func(id int, say func(string)), also func(answer string, say func(string))) func(context.Context, executor.Command) (executor.Exit, error) {
	return talk(func(method string, id int, say func(string)) {
		switch method {
		case "initialize":
			say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":1,"agentInfo":{"name":"x","version":"7"}}}`, id))
		case "session/new":
			say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"sessionId":"s"}}`, id))
		case "session/prompt":
			work(id, say)
		default:
			if also != nil {
				also(method, say)
			}
		}
	})
}

const anyAgent = "argv: [agent, --acp]"

func endTurn(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"end_turn"}}`, id)
}

func TestACPFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ method, params, want, file, holds string }{
		{"fs/read_text_file", `{"path":"/cell/work/calc.py"}`, `"result":{"content":"one\ntwo\nthree\n"}`, "", ""},
		{"fs/read_text_file", `{"path":"calc.py"}`, `"result":{"content":"one\ntwo\nthree\n"}`, "", ""},
		{"fs/read_text_file", `{"path":"/cell/work/calc.py","line":2,"limit":1}`, `"result":{"content":"two\n"}`, "", ""},
		{"fs/read_text_file", `{"path":"/cell/work/calc.py","line":3}`, `"result":{"content":"three\n"}`, "", ""},
		{"fs/read_text_file", `{"path":"/cell/work/calc.py","line":99,"limit":9}`, `"result":{"content":""}`, "", ""},
		{"fs/read_text_file", `{"path":"/cell/work/calc.py","line":-5,"limit":0}`, `"result":{"content":""}`, "", ""},
		{"fs/read_text_file", `{"path":"/cell/work/none"}`, `"code":-32002,"message":"Resource not found: /cell/work/none"`, "", ""},
		{"fs/read_text_file", `{"path":"/cell/work/../home/x"}`, `is not a file of the work folder`, "", ""},
		{"fs/read_text_file", `{"path":"/cell/workshop/x"}`, `is not a file of the work folder`, "", ""},
		{"fs/read_text_file", `{"path":"/etc/passwd"}`, `is not a file of the work folder`, "", ""},
		{"fs/read_text_file", `{"path":"/cell/work/out/passwd"}`, `out is a link, not a folder`, "", ""},
		{"fs/read_text_file", `{"path":"/cell/work/link"}`, `link is a link, not a regular file`, "", ""},
		{"fs/read_text_file", `{"path":"/cell/work/bin"}`, `bin is not UTF-8 text`, "", ""},
		{"fs/read_text_file", `{"path":"/cell/work"}`, `is not a file of the work folder`, "", ""},
		{"fs/read_text_file", `{"path":7}`, `"code":-32602`, "", ""},
		{"fs/write_text_file", `{"path":"/cell/work/a/b.txt","content":"<new>"}`, `"result":{}`, "a/b.txt", "<new>"},
		{"fs/write_text_file", `{"path":"/cell/work/calc.py","content":""}`, `"result":{}`, "calc.py", ""},
		{"fs/write_text_file", `{"path":"/cell/home/x","content":"x"}`, `is not a file of the work folder`, "", ""},
		{"fs/write_text_file", `{"path":"/cell/work/out/x","content":"x"}`, `out is a link, not a folder`, "", ""},
		{"fs/write_text_file", `{"path":"/cell/work/link","content":"x"}`, `link is a link`, "link", "one\ntwo\nthree\n"},
		{"terminal/create", `{}`, `"code":-32601`, "", ""},
		{"session/request_permission", `{"options":"x"}`, `"code":-32602`, "", ""},
		{"elicitation/create", `{"mode":"url"}`, `"code":-32602`, "", ""},
	} {
		t.Run(c.method+c.params, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, map[string]string{"calc.py": "one\ntwo\nthree\n", "bin": "\xff\xfe"})
			root := p.Work
			for name, to := range map[string]string{"out": "/etc", "link": "calc.py"} {
				if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(filepath.Join(root, "calc.py"), 0o640); err != nil {
				t.Fatal(err)
			}
			p.Work = "/cell/work"
			var heard, prompt = "", 0
			o, _ := p.play(t, t.Context(), build(t, "acp", anyAgent), polite(func(id int, say func(string)) {
				prompt = id
				say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"q-1","method":%q,"params":%s}`, c.method, c.params))
			}, func(answer string, say func(string)) {
				heard = answer
				say(endTurn(prompt))
			}))
			if !strings.Contains(heard, c.want) || !strings.Contains(heard, `"id":"q-1"`) || o.Stop != trace.StopEndTurn {
				t.Errorf("answer %s, stop %s", heard, o.Stop)
			}
			if info, err := os.Stat(filepath.Join(root, "calc.py")); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("calc.py: %v, %v", info, err)
			}
			if c.file != "" {
				if b, err := os.ReadFile(filepath.Join(root, c.file)); err != nil || string(b) != c.holds {
					t.Errorf("%s holds %q, %v", c.file, b, err)
				}
			}
		})
	}
}

func TestACPForms(t *testing.T) {
	t.Parallel()
	two := `{"question_1":{"type":"string","description":"Which?","oneOf":[{"const":"a","title":"A"},{"const":"b","title":"B"}]},` +
		`"question_1_custom":{"type":"string"},"question_0":{"type":"array","description":"All of?","items":{"anyOf":[{"const":"x"},{"const":"y"}]}},"question_0_custom":{"type":"string"}}`
	for _, c := range []struct{ name, rules, fields, want string }{
		{"first of each", "rules: []\ndefault: allow", two, `"result":{"action":"accept","content":{"question_0":["x"],"question_1":"a"}}`},
		{"a label", `rules: [{question_regex: Which, answer: b}, {question_regex: All, answer: "y"}]` + "\ndefault: fail", two, `"content":{"question_0":["y"],"question_1":"b"}`},
		{"free text", `rules: [{question_regex: Which, answer: neither}]` + "\ndefault: allow", two, `"content":{"question_0":["x"],"question_1_custom":"neither"}`},
		{"declined", "rules: []\ndefault: deny", two, `{"action":"decline"}`},
		{"no field", "rules: []\ndefault: allow", `{}`, `{"action":"accept","content":{}}`},
		{"default", "rules: []\ndefault: allow", `{"c":{"type":"string","enum":["a","b"],"default":"b"}}`, `"content":{"c":"b"}`},
		{"types", `rules: [{question_regex: int, answer: "7"}, {question_regex: num, answer: "1.5"}]` + "\ndefault: allow",
			`{"int":{"type":"integer"},"num":{"type":"number"},"yes":{"type":"boolean","default":false}}`, `"content":{"int":7,"num":1.5,"yes":false}`},
		{"not a number", "rules: []\ndefault: allow", `{"int":{"type":"integer"}}`, `{"action":"decline"}`},
		{"infinite", `rules: [{question_regex: num, answer: inf}]` + "\ndefault: allow", `{"num":{"type":"number"}}`, `{"action":"decline"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := acpPlace(t, "")
			p.Responder = scripted(t, c.rules)
			var heard, prompt = "", 0
			p.play(t, t.Context(), build(t, "acp", anyAgent), polite(func(id int, say func(string)) {
				prompt = id
				say(`{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{"mode":"form","message":"Tell me","requestedSchema":{"type":"object","properties":` + c.fields + `}}}`)
			}, func(answer string, say func(string)) {
				heard = answer
				say(endTurn(prompt))
			}))
			if !strings.Contains(heard, c.want) {
				t.Errorf("answer %s\nwant %s", heard, c.want)
			}
		})
	}
}

func scripted(t testing.TB, rules string) responder.Responder {
	t.Helper()
	for _, k := range responder.Kinds {
		if k.Name == "scripted" {
			r, err := k.Build(settings(t, rules))
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
	}
	t.Fatal("no scripted policy")
	return nil
}

// An agent hears of a limit before it is ended, in the words of its protocol.
func TestACPCancelsBeforeTerm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		obeys  bool
		took   time.Duration
		detail string
	}{
		{"an agent that obeys", true, time.Minute, "time limit of 1m0s reached"},
		{"an agent that does not", false, time.Minute + 2*time.Second, "time limit of 1m0s reached"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := acpPlace(t, "")
			synctest.Test(t, func(t *testing.T) {
				p.Limits.Timeout = time.Minute
				h := build(t, "acp", anyAgent)
				var mu sync.Mutex
				var heard []string
				began := time.Now()
				o, _ := p.play(t, t.Context(), h, func(ctx context.Context, cmd executor.Command) (executor.Exit, error) {
					prompt := 0
					gone := make(chan struct{})
					go func() {
						defer close(gone)
						polite(func(id int, say func(string)) { prompt = id }, func(answer string, say func(string)) {
							mu.Lock()
							heard = append(heard, answer)
							mu.Unlock()
							if c.obeys {
								say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"cancelled"}}`, prompt))
							}
						})(ctx, cmd)
					}()
					select {
					case <-gone:
						return executor.Exit{}, nil
					case <-ctx.Done():
						return executor.Exit{Code: -1, Signal: "SIGTERM", Cancelled: true}, nil
					}
				})
				mu.Lock()
				defer mu.Unlock()
				if !slices.Equal(heard, []string{"session/cancel"}) || o.Stop != trace.StopTimeout || o.Detail != c.detail || time.Since(began) != c.took {
					t.Errorf("heard %q; %s: %s after %s", heard, o.Stop, o.Detail, time.Since(began))
				}
			})
		})
	}
}

// A rule that interrupts ends the agent, and so does a responder that fails. The agent hears first that it was denied, and
// what it does from then on is refused.
func TestACPHearsItsDenyBeforeItIsEnded(t *testing.T) {
	t.Parallel()
	for rules, class := range map[string]trace.Class{
		"rules: [{kind: execute, do: interrupt}]\ndefault: allow": "",
		"rules: [{kind: execute, do: fail}]\ndefault: allow":      trace.ClassResponder,
	} {
		t.Run(rules, func(t *testing.T) {
			t.Parallel()
			p := acpPlace(t, "")
			p.Responder = scripted(t, rules)
			var heard []string
			var events []trace.Event
			task := p.Task
			task.Exec = fake{files: p.Exec.Files(), run: asksAndIsDenied(&heard)}
			o, err := build(t, "acp", anyAgent).Drive(t.Context(), task, func(e trace.Event) { events = append(events, e) })
			if class == "" && (err != nil || o.Stop != trace.StopCancelled || o.Detail != "the responder interrupted the agent") || o.Class != class || (err != nil) != (class != "") {
				t.Errorf("%+v, %v", o, err)
			}
			if len(heard) != 4 || !strings.Contains(heard[0], `"optionId":"n"`) || heard[1] != "session/cancel" ||
				!strings.Contains(heard[2], `"outcome":"cancelled"`) || !strings.Contains(heard[3], "being ended") {
				t.Errorf("heard %q", heard)
			}
			if _, there := p.file(t, "late.txt"); there {
				t.Error("an agent that is being ended wrote a file")
			}
			if line := callLine(events); class == "" && line != "execute=denied execute=denied" {
				t.Error(line)
			}
		})
	}
}

// asksAndIsDenied plays an agent that asks for a permission, and on the way out for another one and for a file.
func asksAndIsDenied(heard *[]string) func(context.Context, executor.Command) (executor.Exit, error) {
	const ask = `{"jsonrpc":"2.0","id":%d,"method":"session/request_permission","params":{"toolCall":{"toolCallId":"c%[1]d","kind":"%s","rawInput":{"command":"rm"}},` +
		`"options":[{"optionId":"y","kind":"allow_once","name":"y"},{"optionId":"n","kind":"reject_once","name":"n"}]}}`
	prompt := 0
	return polite(func(id int, say func(string)) {
		prompt = id
		say(fmt.Sprintf(ask, 0, "execute"))
	}, func(answer string, say func(string)) {
		switch *heard = append(*heard, answer); len(*heard) {
		case 2:
			say(fmt.Sprintf(ask, 1, "execute"))
			say(`{"jsonrpc":"2.0","id":2,"method":"fs/write_text_file","params":{"path":"late.txt","content":"x"}}`)
		case 4:
			say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"cancelled"}}`, prompt))
		}
	})
}

func TestACPEnds(t *testing.T) {
	t.Parallel()
	failing := func(method, rest string) func(context.Context, executor.Command) (executor.Exit, error) {
		return talk(func(m string, id int, say func(string)) {
			switch m {
			case method:
				say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, id, rest))
			case "initialize":
				say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":1}}`, id))
			case "session/new":
				say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"sessionId":"s","modes":{"currentModeId":"default"}}}`, id))
			}
		})
	}
	for _, c := range []struct {
		name, settings, method, rest string
		stop                         trace.StopReason
		class                        trace.Class
		detail                       string
	}{
		{"another version", anyAgent, "initialize", `"result":{"protocolVersion":2}`, "error", "harness_protocol", "speaks version 2"},
		{"no object", anyAgent, "initialize", `"result":[]`, "error", "harness_protocol", "its answer to initialize"},
		{"no session", anyAgent, "session/new", `"error":{"code":-32603,"message":"no config"}`, "error", "harness_config", "session/new: no config"},
		{"no login", anyAgent, "session/new", `"error":{"code":-32000,"message":"Authentication required"}`, "error", "model_auth", "Authentication required"},
		{"no such mode", "{agent: gemini, mode: party}", "session/new", `"result":{"sessionId":"s","modes":{"currentModeId":"a","availableModes":[{"id":"a"}]}}`, "error", "harness_config", `no mode party; it has ["a"]`},
		{"an error of its own", anyAgent, "session/prompt", `"error":{"code":-32603,"message":"boom"}`, "error", "harness_crash", "session/prompt: boom"},
		{"not understood", anyAgent, "session/prompt", `"error":{"code":-32602,"message":"what"}`, "error", "harness_protocol", "what"},
		{"status as its code", "agent: gemini", "session/prompt", `"error":{"code":429,"message":"slow down"}`, "error", "model_limit", "slow down"},
		{"status in words", anyAgent, "session/prompt", `"error":{"code":-32603,"message":"Internal error: API Error: 529 overloaded"}`, "error", "model_api", "529"},
		{"wrong key", anyAgent, "session/prompt", `"error":{"code":-32603,"message":"unexpected status 401 Unauthorized"}`, "error", "model_auth", "401"},
		{"wrong key of opencode", "agent: opencode", "session/prompt", `"error":{"code":-32603,"message":"no","data":{"errorName":"ProviderAuthError"}}`, "error", "model_auth", "no"},
		{"too long", anyAgent, "session/prompt", `"error":{"code":-32603,"message":"x","data":{"message":"exceeds the context window"}}`, "error", "context_overflow", "context window"},
		{"refusal in words", anyAgent, "session/prompt", `"error":{"code":-32603,"message":"x","data":{"message":"stopped: content_filter"}}`, "refusal", "", "the model refused"},
		{"refusal", anyAgent, "session/prompt", `"result":{"stopReason":"refusal"}`, "refusal", "", "the model refused"},
		{"cut", anyAgent, "session/prompt", `"result":{"stopReason":"max_tokens"}`, "max_tokens", "", "token limit"},
		{"its own limit", anyAgent, "session/prompt", `"result":{"stopReason":"max_turn_requests"}`, "max_turns", "", "a limit of its own"},
		{"gemini's loop", "agent: gemini", "session/prompt", `"result":{"stopReason":"max_turn_requests"}`, "max_turns", "", "loop_detected"},
		{"cancelled itself", anyAgent, "session/prompt", `"result":{"stopReason":"cancelled"}`, "cancelled", "", "the agent says"},
		{"no reason", anyAgent, "session/prompt", `"result":{}`, "error", "harness_protocol", "stop reason"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := acpPlace(t, "")
			o, _ := p.play(t, t.Context(), build(t, "acp", c.settings), failing(c.method, c.rest))
			if o.Stop != c.stop || o.Class != c.class || !strings.Contains(o.Detail, c.detail) {
				t.Errorf("%s %s: %s", o.Stop, o.Class, o.Detail)
			}
		})
	}
}

func TestACPSettings(t *testing.T) {
	t.Parallel()
	for settingsText, want := range map[string]string{
		"{}":                                          "one of agent and argv",
		"{agent: gemini, argv: [x]}":                  "one of agent and argv",
		"agent: cursor":                               "suite.yaml:1:",
		"{agent: gemini, dialect: chat}":              "the dialect of gemini is known",
		"argv: [\"{model}\"]":                         "cannot be empty or a placeholder",
		"{argv: [x], program: y}":                     "argv names the program already",
		"{argv: [x], base_url: models.example.org}":   "is not an http or https address",
		"{argv: [x], base_url: \"file:///etc/x\"}":    "is not an http or https address",
		"{argv: [x], dialect: smoke}":                 "suite.yaml:1:",
		"{argv: [x], env: {GITHUB_TOKEN_FILE: \"\"}}": "suite.yaml:1:",
	} {
		if _, err := kind(t, "acp").Build(settings(t, settingsText)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", settingsText, err)
		}
	}
}

func TestACPSaysWhatItCallsAndWhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ settings, want string }{
		{"agent: claude-agent-acp", "m anthropic https://api.anthropic.com ANTHROPIC_API_KEY false"},
		{"agent: codex-acp", "m responses https://api.openai.com/v1 OPENAI_API_KEY false"},
		{"{agent: opencode, base_url: \"http://x/v1\", key_env: MY_KEY}", "m chat http://x/v1 MY_KEY false"},
		{"agent: gemini", "m gemini https://generativelanguage.googleapis.com GEMINI_API_KEY false, " +
			"gemini-3-flash-preview gemini https://generativelanguage.googleapis.com GEMINI_API_KEY true, " +
			"gemini-3.1-pro-preview-customtools gemini https://generativelanguage.googleapis.com GEMINI_API_KEY true"},
		{"argv: [x]", ""},
		{"{argv: [x], dialect: anthropic}", "m anthropic https://api.anthropic.com ANTHROPIC_API_KEY false"},
	} {
		models, err := build(t, "acp", c.settings).(harness.Caller).Models(harness.Task{Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range models {
			got = append(got, fmt.Sprint(m.Name, " ", m.Dialect, " ", m.BaseURL, " ", m.KeyEnv, " ", m.Side))
		}
		if line := strings.Join(got, ", "); line != c.want {
			t.Errorf("%s: %s", c.settings, line)
		}
	}
}

func TestACPChecksConditions(t *testing.T) {
	t.Parallel()
	task := harness.Task{Condition: "c", Extras: harness.Extras{SkillsDir: "/s", InstructionsFile: "/i"}}
	for settingsText, want := range map[string]string{
		"agent: gemini":           "",
		"argv: [x]":               "condition c has skills",
		"argv: [x, \"{skills}\"]": "condition c has instructions",
		"{argv: [x, \"{skills}\"], env: {I: \"{instructions}\"}}": "",
	} {
		err := build(t, "acp", settingsText).(harness.Checker).Check(task)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", settingsText, err)
		}
	}
}

// What an agent gets to see of its cell: its configuration, its environment, the parts of the condition.
func TestACPFurnishes(t *testing.T) {
	t.Parallel()
	files := map[string][]string{
		"claude-agent-acp": {".claude/CLAUDE.md", ".claude/skills/greeter/SKILL.md"},
		"codex-acp":        {".codex/AGENTS.md", ".codex/config.toml", ".codex/skills/greeter/SKILL.md"},
		"gemini":           {".gemini/GEMINI.md", ".gemini/settings.json", ".gemini/skills/greeter/SKILL.md"},
		"opencode":         {".config/opencode/AGENTS.md", ".config/opencode/opencode.json", ".config/opencode/skills/greeter/SKILL.md"},
	}
	for agent, want := range files {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, nil)
			extras := t.TempDir()
			if err := os.MkdirAll(filepath.Join(extras, "skills", "greeter"), 0o755); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"skills/greeter/SKILL.md": "skill", "notes.md": "notes"} {
				if err := os.WriteFile(filepath.Join(extras, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			p.Model = `m"\x`
			p.Extras = harness.Extras{SkillsDir: filepath.Join(extras, "skills"), InstructionsFile: filepath.Join(extras, "notes.md")}
			p.Env = []string{"FOO=case"}
			host := p.Exec
			var c executor.Command
			p.Exec = fake{files: host.Files(), run: func(ctx context.Context, cmd executor.Command) (executor.Exit, error) {
				if cmd.Argv[0] == "sh" {
					return host.Run(ctx, cmd)
				}
				c = cmd
				return executor.Exit{Code: 1}, nil
			}}
			p.drive(t, build(t, "acp", "{agent: "+agent+", program: /opt/x, base_url: \"http://127.0.0.1:1/v1\", env: {FOO: suite, BAR: \"{model}\"}}"))
			var got []string
			for _, name := range want {
				b, err := os.ReadFile(filepath.Join(p.Home, name))
				if err != nil {
					t.Error(err)
					continue
				}
				got = append(got, name)
				text := string(b)
				if strings.HasSuffix(name, ".json") && !json.Valid(b) {
					t.Errorf("%s: %s", name, text)
				}
				if (strings.HasSuffix(name, "opencode.json") || strings.HasSuffix(name, ".toml")) && (!strings.Contains(text, `m\"\\x`) || !strings.Contains(text, `"http://127.0.0.1:1/v1"`)) {
					t.Errorf("%s: %s", name, text)
				}
			}
			if c.Argv[0] != "/opt/x" || !slices.Contains(c.Env, "FOO=case") || slices.Contains(c.Env, "FOO=suite") || !slices.Contains(c.Env, "BAR="+p.Model) {
				t.Errorf("argv %q, env %q", c.Argv, c.Env)
			}
			for _, kv := range append(c.Argv, c.Env...) {
				if strings.ContainsAny(kv, "{}") {
					t.Errorf("not filled in: %s", kv)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("laid %q", got)
			}
		})
	}
}

func TestACPCalls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, settings, updates, want string }{
		{"a command that fails in a success", "agent: opencode",
			`{"sessionUpdate":"tool_call","toolCallId":"c","title":"bash","kind":"execute","status":"pending"}
			 {"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","title":"false","rawOutput":{"output":"no","metadata":{"exit":3}}}`,
			`bash execute error exit 3 "no"`},
		{"a tool that is not there", "agent: opencode",
			`{"sessionUpdate":"tool_call","toolCallId":"c","title":"invalid","kind":"other","status":"pending"}
			 {"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","rawInput":{"tool":"no_such","error":"x"},"rawOutput":{"output":"unavailable"}}`,
			`no_such other error "unavailable"`},
		{"a tool that is not there, told late", "agent: opencode",
			`{"sessionUpdate":"tool_call","toolCallId":"c","title":"no_such","kind":"other","status":"pending","rawInput":{}}
			 {"sessionUpdate":"tool_call_update","toolCallId":"c","status":"in_progress","kind":"other","title":"invalid","rawInput":{"tool":"no_such","error":"x"}}
			 {"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","title":"Invalid Tool","rawOutput":{"output":"unavailable"}}`,
			`no_such other error "unavailable"`},
		{"a tool of that name of another agent", anyAgent,
			`{"sessionUpdate":"tool_call","toolCallId":"c","title":"invalid","kind":"other","status":"pending"}
			 {"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","rawInput":{"tool":"x"},"rawOutput":{"output":"fine"}}`,
			` other ok "fine"`},
		{"an exit code in words", "agent: claude-agent-acp",
			`{"sessionUpdate":"tool_call","toolCallId":"c","kind":"execute","_meta":{"claudeCode":{"toolName":"Bash"}},"status":"pending"}
			 {"sessionUpdate":"tool_call_update","toolCallId":"c","status":"failed","rawOutput":"Exit code 3\nout"}`,
			`Bash execute error exit 3 "Exit code 3\nout"`},
		{"an exit code as a number", "{agent: codex-acp, mode: default}",
			`{"sessionUpdate":"tool_call","toolCallId":"c","kind":"execute","status":"in_progress"}
			 {"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","rawOutput":{"formatted_output":"","exit_code":1}}`,
			` execute error exit 1 ""`},
		{"seen for the first time at its end", anyAgent,
			`{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","kind":"search","content":[{"type":"content","content":{"type":"text","text":"a"}},{"type":"content","content":{"type":"text","text":"b"}}]}`,
			` search ok "ab"`},
		{"told twice", anyAgent,
			`{"sessionUpdate":"tool_call","toolCallId":"c","kind":"read","status":"completed"}
			 {"sessionUpdate":"tool_call_update","toolCallId":"c","status":"failed"}`,
			` read ok ""`},
		{"without an end", anyAgent, `{"sessionUpdate":"tool_call","toolCallId":"c","kind":"switch_mode","status":"in_progress"}`, ` other none ""`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := acpPlace(t, "")
			_, events := p.play(t, t.Context(), build(t, "acp", c.settings), talk(func(m string, id int, say func(string)) {
				switch m {
				case "initialize":
					say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":1}}`, id))
				case "session/new":
					say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"sessionId":"s","modes":{"currentModeId":"default"}}}`, id))
				case "session/prompt":
					for u := range strings.Lines(c.updates) {
						say(`{"method":"session/update","params":{"update":` + strings.TrimSpace(u) + `}}`)
					}
					say(endTurn(id))
				}
			}))
			var got []string
			for _, r := range results(events) {
				exit := ""
				if r.Exit != nil {
					exit = fmt.Sprintf("exit %d ", *r.Exit)
				}
				got = append(got, fmt.Sprintf("%s %s %s %s%q", r.Name, r.Kind, r.Status, exit, r.Output))
			}
			if line := strings.Join(got, ", "); line != c.want || tally(events, trace.KindToolCall) != 1 {
				t.Errorf("%s\nwant %s", line, c.want)
			}
		})
	}
}

func TestACPToolServers(t *testing.T) {
	t.Parallel()
	p := acpPlace(t, "")
	p.Extras.MCP = []harness.MCPServer{{Name: "db", Argv: []string{"/bin/db", "-x"}, Env: []string{"A=1=2"}}, {Name: "web", URL: "http://127.0.0.1:9/mcp"}}
	agent := func(http bool) (harness.Outcome, string) {
		var opened string
		o, _ := p.play(t, t.Context(), build(t, "acp", anyAgent), func(ctx context.Context, c executor.Command) (executor.Exit, error) {
			in := bufio.NewReader(c.Stdin)
			in.ReadString('\n')
			fmt.Fprintf(c.Stdout, `{"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":%v}}}}`+"\n", http)
			opened, _ = in.ReadString('\n')
			return executor.Exit{}, nil
		})
		return o, opened
	}
	_, opened := agent(true)
	want := `"mcpServers":[{"args":["-x"],"command":"/bin/db","env":[{"name":"A","value":"1=2"}],"name":"db"},{"headers":[],"name":"web","type":"http","url":"http://127.0.0.1:9/mcp"}]`
	if !strings.Contains(opened, want) {
		t.Error(opened)
	}
	if o, opened := agent(false); o.Class != trace.ClassHarnessConfig || !strings.Contains(o.Detail, "web") || opened != "" {
		t.Errorf("%s: %s, %s", o.Class, o.Detail, opened)
	}
}

// An agent that breaks every rule gets a valid trace and holds nobody up.
func TestACPHostile(t *testing.T) {
	t.Parallel()
	p := acpPlace(t, "")
	lines := []string{
		`[]`, `7`, `"x"`, `{"id":{}}`, `{"id":1}`, `{"id":null,"method":"x"}`, `{"method":[]}`, "\xff\xfe", strings.Repeat("[", 20000),
		`{"method":"session/update"}`, `{"method":"session/update","params":[]}`, `{"method":"session/update","params":{"update":{"sessionUpdate":"notice"}}}`,
		`{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call"}}}`,
		`{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call","toolCallId":"a","_meta":7,"rawInput":"text"}}}`,
		`{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call_update","toolCallId":"b","status":"completed","content":[{"type":"content","content":7}]}}}`,
		`{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call_update","toolCallId":"b","status":"failed"}}}`,
		`{"method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"image"}}}}`,
		`{"method":"session/update","params":{"update":{"sessionUpdate":"usage_update","used":-1,"cost":{"amount":-3,"currency":"USD"}}}}`,
		`{"id":9,"method":"session/request_permission","params":{}}`, `{"id":10,"method":"session/request_permission","params":{"options":[{"optionId":"a","kind":"allow_once"},{"optionId":"a","kind":"reject_once"}]}}`,
		`{"id":11,"method":"elicitation/create","params":{"requestedSchema":{"properties":{"":{}}}}}`,
	}
	for i := range 3000 {
		lines = append(lines, fmt.Sprintf(`{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call","toolCallId":"n%d","status":"in_progress"}}}`, i))
	}
	p.Responder = scripted(t, "rules: []\ndefault: deny")
	o, events := p.play(t, t.Context(), build(t, "acp", anyAgent), polite(func(id int, say func(string)) {
		for _, l := range lines {
			say(l)
		}
		say(endTurn(id))
		say(endTurn(id))
	}, nil))
	line := callLine(events)
	if o.Stop != trace.StopEndTurn || strings.Contains(line, "open ") || strings.Contains(line, "uncalled") || strings.Count(line, "=") != 3002 {
		t.Errorf("%s: %s; %d results", o.Stop, o.Detail, strings.Count(line, "="))
	}
}

func TestACPResponderFails(t *testing.T) {
	t.Parallel()
	p := acpPlace(t, "")
	p.Responder = scripted(t, "rules: []\ndefault: fail")
	task := p.Task
	task.Exec = fake{files: p.Exec.Files(), run: polite(func(id int, say func(string)) {
		say(`{"id":0,"method":"session/request_permission","params":{"toolCall":{"toolCallId":"c"},"options":[{"optionId":"y","kind":"allow_once"}]}}`)
	}, func(answer string, say func(string)) {
		if strings.Contains(answer, "session/cancel") {
			say(`{"id":3,"result":{"stopReason":"cancelled"}}`)
		}
	})}
	o, err := build(t, "acp", anyAgent).Drive(t.Context(), task, func(trace.Event) {})
	if err == nil || o.Class != trace.ClassResponder {
		t.Errorf("%+v, %v", o, err)
	}
}

func FuzzACP(f *testing.F) {
	for _, name := range []string{"acp-claude/edit", "acp-gemini/deny_reject", "acp-opencode/edit", "acp-claude/ask_elicit", "acp-codex/err400"} {
		var theirs, all bytes.Buffer
		for _, fr := range readFrames(f, name) {
			if fr.Dir == "<-" {
				theirs.Write(append(fr.Msg, '\n'))
			}
			all.Write(append(fr.Msg, '\n')) // an agent may also send what only a client sends
		}
		f.Add(theirs.Bytes(), uint8(len(name)))
		f.Add(all.Bytes(), uint8(len(name)))
	}
	p := acpPlace(f, "")
	var agents []harness.Harness
	for _, s := range []string{"agent: claude-agent-acp", "agent: gemini", "agent: opencode", "agent: codex-acp", anyAgent} {
		agents = append(agents, build(f, "acp", s))
	}
	f.Fuzz(func(t *testing.T, out []byte, which uint8) {
		task := p.Task
		task.Log = nil
		told := make(chan []byte, 1)
		task.Exec = fake{files: emptyFiles{}, run: func(ctx context.Context, c executor.Command) (executor.Exit, error) {
			if c.Argv[0] != "sh" {
				go func() {
					b, _ := io.ReadAll(c.Stdin)
					told <- b
				}()
				c.Stdout.Write(out)
			}
			return executor.Exit{}, nil
		}}
		var written bytes.Buffer
		w := trace.NewWriter(&written, func() time.Duration { return 0 })
		stops := 0
		_, err := agents[int(which)%len(agents)].Drive(t.Context(), task, func(e trace.Event) {
			if e.Kind == trace.KindStop {
				stops++
			}
			w.Emit(e)
		})
		if stops != 1 && err == nil {
			t.Errorf("%d stops", stops)
		}
		for line := range bytes.Lines(<-told) {
			if !json.Valid(line) {
				t.Errorf("told %q", line)
			}
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		for _, err := range trace.Read(&written) {
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// emptyFiles is a work folder that takes everything and holds nothing.
type emptyFiles struct{ executor.FS }

func (emptyFiles) Open(string) (fs.File, error) { return nil, os.ErrNotExist }
func (emptyFiles) Put(_ string, r io.Reader, _ os.FileMode) error {
	_, err := io.Copy(io.Discard, r)
	return err
}
