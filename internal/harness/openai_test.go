package harness_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/responder"
	"github.com/assay-ci/assay/internal/trace"
)

// A chat plays a model over Chat Completions: it gives its answers one after the other and keeps the requests. It is
// stricter than real ones: each tool call of an answer must have got exactly one result, in their order.
type chat struct {
	mu       sync.Mutex
	answers  []string // bodies; one that begins with three digits has that HTTP status
	requests []chatRequest
}

type chatRequest struct {
	Model    string
	Messages []struct {
		Role    string
		Content *string
		Calls   []struct{ ID string } `json:"tool_calls"`
		CallID  string                `json:"tool_call_id"`
	}
	Tools  []any
	Stream bool
	raw    string
}

func (c *chat) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w.Result(), nil
}

func (c *chat) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	req := chatRequest{raw: string(body)}
	if err == nil {
		err = json.Unmarshal(body, &req)
	}
	if why := req.fault(r, err); why != "" {
		http.Error(w, why, http.StatusTeapot)
		return
	}
	n := min(len(c.requests), len(c.answers)-1)
	c.requests = append(c.requests, req)
	answer := c.answers[n]
	var status int
	if _, err := fmt.Sscanf(answer, "%03d ", &status); err == nil && status >= 300 {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		answer = answer[4:]
	}
	io.WriteString(w, answer)
}

func (q chatRequest) fault(r *http.Request, err error) string {
	if err != nil || r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/v1/chat/completions") || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		return fmt.Sprintf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	var open []string
	seen := map[string]bool{}
	for _, m := range q.Messages {
		if m.Role == "tool" {
			if len(open) == 0 || open[0] != m.CallID || m.Content == nil {
				return "a result for no call"
			}
			open = open[1:]
			continue
		}
		if len(open) > 0 || m.Content == nil {
			return "a call without a result, or a message without content"
		}
		for _, c := range m.Calls {
			if c.ID == "" || seen[c.ID] {
				return "a call without an id of its own"
			}
			seen[c.ID] = true
			open = append(open, c.ID)
		}
	}
	if len(open) > 0 || !q.Stream || len(q.Tools) != 6 {
		return "not the request of an agent"
	}
	return ""
}

// results are the contents of the tool messages in the last request.
func (c *chat) results() []string {
	var list []string
	for _, m := range c.requests[len(c.requests)-1].Messages {
		if m.Role == "tool" {
			list = append(list, *m.Content)
		}
	}
	return list
}

// says is a whole answer without a tool call.
func says(text string) string {
	return fmt.Sprintf(`{"model":"m1-x","choices":[{"index":0,"message":{"content":%q},"finish_reason":"stop"}],`+
		`"usage":{"prompt_tokens":1200,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":200},"completion_tokens_details":{"reasoning_tokens":7}}}`, text)
}

// uses is a streamed answer with one tool call for each pair of name and arguments.
func uses(pairs ...string) string {
	var b strings.Builder
	fmt.Fprint(&b, `data: {"model":"m1-x","choices":[{"index":0,"delta":{"role":"assistant","content":"I "}}]}`+"\n\n"+`: keep-alive`+"\n\n")
	fmt.Fprint(&b, `data: {"choices":[{"index":0,"delta":{"content":"will.","reasoning_content":"Hm."}}]}`+"\n\n")
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"id":"c","function":{"name":%q,"arguments":""}}]}}]}`+"\n\n", i/2, pairs[i])
		half := len(pairs[i+1]) / 2
		for _, part := range []string{pairs[i+1][:half], pairs[i+1][half:]} {
			fmt.Fprintf(&b, `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}}]}`+"\n\n", i/2, mustJSON(part))
		}
	}
	fmt.Fprint(&b, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`+"\n\n")
	fmt.Fprint(&b, `data: {"choices":[],"usage":{"prompt_tokens":1200,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":200},"completion_tokens_details":{"reasoning_tokens":7}}}`+"\n\ndata: [DONE]\n\n")
	return b.String()
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// converse drives the openai harness in a place against a chat server.
func converse(t testing.TB, p *place, c *chat) (harness.Outcome, []trace.Event) {
	t.Helper()
	srv := httptest.NewServer(c)
	defer srv.Close()
	p.Model = "m1"
	return p.drive(t, build(t, "openai", "{base_url: \""+srv.URL+"/v1\", seed: 7}"))
}

func TestOpenaiDoesItsWork(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"src/calc.py": "def add(a, b):\n    return a - b\n"})
	c := &chat{answers: []string{
		uses("list", "{}", "grep", `{"pattern": "return a", "glob": "*.py"}`, "read", `{"path": "src/calc.py", "from": 2, "lines": 5}`),
		uses("edit", `{"path": "`+p.Work+`/src/calc.py", "old": "a - b", "new": "a + b"}`, "write", `{"path": "new/NOTES.md", "content": "done\n"}`),
		uses("bash", `{"command": "cat src/calc.py; echo $FOO >&2; exit 3", "timeout": 20}`),
		says("Fixed."),
	}}
	o, events := converse(t, p, c)
	if got := fared(o, events); got != "end_turn 4/6 failed 1 denied 0 tokens 4000/800/200/28" {
		t.Error(got)
	}
	if o.FinalText != "Fixed." || o.Model != "m1-x" || o.Exit != nil || o.Usage.CostUSD != nil || o.Usage.CacheWrite != nil {
		t.Errorf("outcome %+v", o)
	}
	want := []string{
		"src/\n", "./src/calc.py:2:    return a - b\n", "    return a - b\n[lines 2 to 2 of 2]",
		"src/calc.py now has 32 bytes.", "new/NOTES.md now has 5 bytes.",
		"def add(a, b):\n    return a + b\nbar\n\n[exit 3]",
	}
	if diff := cmp.Diff(want, c.results()); diff != "" {
		t.Error(diff)
	}
	if got, _ := p.file(t, "new/NOTES.md"); got != "done\n" {
		t.Errorf("NOTES.md holds %q", got)
	}
	if r := c.requests[0]; r.Model != "m1" || !strings.Contains(*r.Messages[0].Content, p.Work) || *r.Messages[1].Content != p.Prompt ||
		!strings.Contains(r.raw, `"seed":7`) || strings.Contains(r.raw, "temperature") || strings.Contains(r.raw, "max_completion_tokens") {
		t.Errorf("the first request is %s", r.raw)
	}
	if !strings.Contains(p.log.String(), `"content":"will."`) {
		t.Errorf("agent.log is %q", p.log.String())
	}
	p.golden(t, "openai", events)
}

// TestOpenaiTellsTheModelOfBadCalls shows what a model hears that uses its tools wrongly. None of it ends the cell.
func TestOpenaiTellsTheModelOfBadCalls(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"a.txt": "x x\n", "d/f": "", "big.txt": strings.Repeat("0123456789abcde\n", 8<<10), "bin": strings.Repeat("a\xff", 40<<10)})
	outside := filepath.Join(filepath.Dir(p.Work), "secret.txt")
	if err := os.WriteFile(outside, []byte("secret needle"), 0o644); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link": outside, "dir": filepath.Dir(p.Work), "in": "a.txt"} {
		if err := os.Symlink(to, filepath.Join(p.Work, link)); err != nil {
			t.Fatal(err)
		}
	}
	var pairs, want []string
	for _, c := range [][3]string{
		{"no_such_tool", `{"x": 1}`, `There is no tool "no_such_tool". The tools are bash, read,`},
		{"bash", `{"command": 12`, "The arguments are not the JSON of this tool: unexpected end"},
		{"bash", `{"command": 12}`, "The arguments are not the JSON of this tool: json: cannot unmarshal number"},
		{"bash", ``, "The argument command is missing."},
		{"bash", `{"command": "true", "timeout": 601}`, "The timeout is 1 to 600 seconds."},
		{"bash", `{"command": "a\u0000b"}`, "A command has at most"},
		{"bash", mustJSON(map[string]string{"command": strings.Repeat("x", 101<<10)}), "A command has at most"},
		{"bash", `{"command": "printf begun; exec sleep 30", "timeout": 1}`, "begun\n[ended at its time limit]\n[exit"},
		{"read", `{"path": ""}`, "The argument path is missing."},
		{"read", `{"path": "a.txt", "from": 0}`, "Lines are counted from 1."},
		{"read", `{"path": "a.txt", "from": 9}`, "\n[lines 2 to 1 of 1]"},
		{"read", `{"path": "none.txt"}`, "statat none.txt: no such file"},
		{"read", `{"path": "d"}`, "open: d is a folder, not a regular file"},
		{"read", `{"path": "a\u0000b"}`, "statat a\x00b: invalid argument"},
		{"read", `{"path": "link"}`, "open: link is a link, not a regular file"},
		{"read", `{"path": "dir/secret.txt"}`, "open: dir/secret.txt: dir is a link, not a folder"},
		{"read", `{"path": "in"}`, "open: in is a link, not a regular file"},
		{"read", `{"path": "../secret.txt"}`, "../secret.txt is outside the work folder."},
		{"read", mustJSON(map[string]string{"path": outside}), outside + " is outside the work folder."},
		{"write", `{"path": "x"}`, "The argument content is missing."},
		{"write", `{"path": "link", "content": "x"}`, "open: link is a link"},
		{"write", `{"path": "dir/x", "content": "x"}`, "open: dir/x: dir is a link"},
		{"write", `{"path": "/etc/x", "content": "x"}`, "/etc/x is outside"},
		{"write", `{"path": "d", "content": "x"}`, "open: d is a folder"},
		{"write", `{"path": ".", "content": "x"}`, "open: . is a folder"},
		{"edit", `{"path": "a.txt", "old": "x", "new": "y"}`, "a.txt holds the old text 2 times, not once. Nothing was changed."},
		{"edit", `{"path": "a.txt", "old": "z", "new": "y"}`, "a.txt holds the old text 0 times"},
		{"edit", `{"path": "a.txt", "old": "", "new": "y"}`, "The argument old is missing."},
		{"edit", `{"path": "link", "old": "secret", "new": "y"}`, "open: link is a link"},
		{"grep", `{"pattern": "needle"}`, "No line matches."},
		{"grep", `{"pattern": "("}`, "grep: "},
		{"grep", `{}`, "The argument pattern is missing."},
		{"list", `{"path": "dir"}`, "list: dir is a link, not a folder"},
		{"list", `{"path": ".."}`, ".. is outside"},
	} {
		pairs, want = append(pairs, c[0], c[1]), append(want, c[2])
	}
	c := &chat{answers: []string{
		uses(pairs...),
		uses("read", `{"path": "big.txt", "lines": 9999}`, "read", `{"path": "bin"}`, "bash", `{"command": "cat big.txt bin"}`, "grep", `{"pattern": "0"}`, "list", `{"path": "d"}`),
		says("Sorry."),
	}}
	o, events := converse(t, p, c)
	got := c.results()
	for i, w := range want {
		if !strings.HasPrefix(got[i], w) {
			t.Errorf("%s %.80s: %.200q does not begin with %q", pairs[2*i], pairs[2*i+1], got[i], w)
		}
	}
	for i, text := range got {
		if len(text) > trace.MaxText || strings.Contains(text, "secret needle") {
			t.Errorf("result %d has %d bytes: %.80q", i, len(text), text)
		}
	}
	if len(got[len(want)]) < 60<<10 || !strings.Contains(got[len(want)], "bytes left out") {
		t.Errorf("a large file is told in %d bytes", len(got[len(want)]))
	}
	if o.Stop != trace.StopEndTurn || len(results(events)) != len(got) {
		t.Errorf("outcome %+v after %d results", o, len(results(events)))
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "secret needle" {
		t.Errorf("the file outside holds %q: %v", b, err)
	}
	if got, _ := p.file(t, "a.txt"); got != "x x\n" {
		t.Errorf("a.txt holds %q", got)
	}
}

func TestOpenaiEnds(t *testing.T) {
	t.Parallel()
	finish := func(why string) string {
		return `data: {"choices":[{"delta":{"content":"Well"},"finish_reason":"` + why + `"}]}`
	}
	for name, c := range map[string]struct {
		answers []string
		want    string
	}{
		"done":      {[]string{says("Done.")}, "end_turn "},
		"refusal":   {[]string{finish("content_filter")}, "refusal "},
		"refused":   {[]string{`{"choices":[{"message":{"refusal":"No."},"finish_reason":"stop"}]}`}, "refusal "},
		"cut":       {[]string{finish("length")}, "max_tokens "},
		"400":       {[]string{`400 {"error":{"message":"bad request"}}`}, "error model_request HTTP 400: bad request"},
		"overlong":  {[]string{`400 {"error":{"message":"long","code":"context_length_exceeded"}}`}, "error context_overflow HTTP 400: long"},
		"401":       {[]string{`401 no key`}, "error model_auth HTTP 401: no key"},
		"404":       {[]string{`404 `}, "error model_request HTTP 404:"},
		"307":       {[]string{`307 elsewhere`}, "error model_api HTTP 307: elsewhere"},
		"429":       {[]string{`429 {"error":{"message":"slow down"}}`}, "error model_limit HTTP 429: slow down"},
		"500":       {[]string{`500 oops`}, "error model_api HTTP 500: oops"},
		"recovered": {[]string{`500 oops`, `429 slow`, says("Done.")}, "end_turn "},
		"no chat":   {[]string{`<html>`}, "error model_api the answer ended before the model had finished"},
		"no JSON":   {[]string{`data: {`}, "error model_api the answer is not that of a chat: unexpected end of JSON input"},
		"broken":    {[]string{`data: {"choices":[{"delta":{"content":"We"}}]}`}, "error model_api the answer ended before the model had finished"},
		"within":    {[]string{`data: {"error":{"message":"overloaded"}}`}, "error model_api the model failed within its answer: overloaded"},
		"flood":     {[]string{uses(strings.Split(strings.Repeat("bash,{},", 129), ",")[:258]...)}, "error model_api more than 128 tool calls in one answer"},
		"max turns": {[]string{uses("list", "{}")}, "max_turns turn limit of 5 reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &place{Task: harness.Task{
					Model: "m1", Prompt: "Fix.", Exec: fake{files: noFiles{}}, Work: "/work", Limits: harness.Limits{MaxTurns: 5},
				}}
				h := build(t, "openai", "{}")
				harness.SetTransport(h, &chat{answers: c.answers})
				o, _ := p.drive(t, h)
				got := strings.Replace(fmt.Sprintf("%s %s %s", o.Stop, o.Class, o.Detail), "  ", " ", 1)
				if !strings.HasPrefix(got, c.want) {
					t.Errorf("%q does not begin with %q", got, c.want)
				}
				if o.Answered != (o.Turns != nil) || o.Stop == trace.StopError && o.Answered {
					t.Errorf("outcome %+v", o)
				}
			})
		})
	}
}

// noFiles is a work folder that is empty and stays so.
type noFiles struct{ executor.FS }

func (noFiles) List(string) ([]executor.Entry, error) { return nil, nil }

func TestOpenaiTriesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &place{Task: harness.Task{Model: "m1", Exec: fake{}}}
		h := build(t, "openai", "{}")
		harness.SetTransport(h, &chat{answers: []string{`429 slow`, `500 oops`, says("Done.")}})
		began := time.Now()
		o, events := p.drive(t, h)
		var retries []string
		for _, e := range events {
			if e.Kind == trace.KindRetry {
				retries = append(retries, e.Text)
			}
		}
		if diff := cmp.Diff([]string{"try 1 of 3 failed, the next in 7s", "try 2 of 3 failed, the next in 7s"}, retries); diff != "" {
			t.Error(diff)
		}
		if o.Stop != trace.StopEndTurn || time.Since(began) != 14*time.Second {
			t.Errorf("outcome %+v after %s", o, time.Since(began))
		}
	})
}

func TestOpenaiIsEnded(t *testing.T) {
	t.Parallel()
	silent := roundTrip(func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() })
	for name, c := range map[string]struct {
		timeout, cancel time.Duration
		want            string
	}{
		"timeout": {timeout: time.Minute, want: "timeout model_api time limit of 1m0s reached"},
		"stalled": {want: "error stalled nothing came from the agent or its model for 3m0s"},
		"called":  {cancel: time.Second, want: "cancelled  called off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				p := &place{Task: harness.Task{Model: "m1", Exec: fake{}, Limits: harness.Limits{Timeout: c.timeout}}}
				h := build(t, "openai", "{}")
				harness.SetTransport(h, silent)
				o, _ := p.driveUntil(t, ctx, h)
				if got := fmt.Sprintf("%s %s %s", o.Stop, o.Class, o.Detail); got != c.want || o.Answered {
					t.Errorf("%q, want %q", got, c.want)
				}
			})
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOpenaiNamesNoAddressInItsFaults(t *testing.T) {
	t.Parallel()
	p := &place{Task: harness.Task{Model: "m1", Exec: fake{}}}
	synctest.Test(t, func(t *testing.T) {
		h := build(t, "openai", "base_url: http://host/c/token/v1")
		harness.SetTransport(h, roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("refused") }))
		o, events := p.drive(t, h)
		if o.Class != trace.ClassModelAPI || strings.Contains(compact(t, events), "token/") {
			t.Errorf("outcome %+v", o)
		}
	})
}

func TestOpenaiAsksBeforeItActs(t *testing.T) {
	t.Parallel()
	calls := uses("list", "{}", "bash", `{"command": "touch ran"}`, "write", `{"path": "new", "content": ""}`, "edit", `{"path": "a", "old": "x", "new": "y"}`)
	for policy, want := range map[string]string{
		"policy: auto-approve": "end_turn ok ok ok ok asked 3",
		"policy: auto-deny":    "end_turn ok denied denied denied asked 3",
		"{policy: scripted, default: deny, rules: [{kind: execute, do: allow}]}":   "end_turn ok ok denied denied asked 3",
		"{policy: scripted, default: allow, rules: [{name: bash, do: interrupt}]}": "cancelled ok denied asked 1",
	} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, map[string]string{"a": "x"})
			p.Responder = policyOf(t, policy)
			o, events := converse(t, p, &chat{answers: []string{calls, says("Done.")}})
			got, asked := string(o.Stop), 0
			for _, r := range results(events) {
				got += " " + string(r.Status)
			}
			for _, e := range events {
				if e.Kind == trace.KindPermissionRequest {
					asked++
				}
			}
			if got += fmt.Sprintf(" asked %d", asked); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// policyOf builds a responder from its settings.
func policyOf(t testing.TB, text string) responder.Responder {
	t.Helper()
	for _, k := range responder.Kinds {
		head, rest, _ := strings.Cut(strings.Trim(text, "{}"), ",")
		if strings.TrimPrefix(head, "policy: ") != k.Name {
			continue
		}
		r, err := k.Build(settings(t, "{"+rest+"}"))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	t.Fatalf("no policy %s", text)
	return nil
}

func TestOpenaiEndsWhenTheResponderFails(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	p.Model, p.Responder = "m1", policyOf(t, "policy: scripted, default: fail")
	srv := httptest.NewServer(&chat{answers: []string{uses("bash", `{"command": "touch ran"}`)}})
	defer srv.Close()
	o, err := build(t, "openai", "base_url: "+srv.URL+"/v1").Drive(t.Context(), p.Task, func(trace.Event) {})
	if err == nil || o.Class != trace.ClassResponder {
		t.Errorf("outcome %+v, error %v", o, err)
	}
	if _, there := p.file(t, "ran"); there {
		t.Error("the command was run")
	}
}

func TestOpenaiIsToldOfTheCondition(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	extras := filepath.Join(p.Home, "extras")
	for name, text := range map[string]string{
		"INSTRUCTIONS.md":        "Always write tests.",
		"skills/greet/SKILL.md":  "---\nname: greeter\ndescription: >-\n  Greets people\n  in many languages.\n---\nSay hello.\n",
		"skills/other/SKILL.md":  "No head.",
		"skills/greet/words.txt": "hello",
	} {
		name = filepath.Join(extras, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(extras, "skills/link")); err != nil {
		t.Fatal(err)
	}
	p.Extras = harness.Extras{SkillsDir: filepath.Join(extras, "skills"), InstructionsFile: filepath.Join(extras, "INSTRUCTIONS.md")}
	c := &chat{answers: []string{
		uses("read", `{"path": "`+p.Extras.SkillsDir+`/greet/words.txt"}`, "read", `{"path": "`+p.Extras.SkillsDir+`/link"}`, "read", `{"path": "`+p.Extras.SkillsDir+`/../INSTRUCTIONS.md"}`),
		says("Done."),
	}}
	_, events := converse(t, p, c)
	system := *c.requests[0].Messages[0].Content
	for _, want := range []string{"Always write tests.", "\n- greeter: Greets people in many languages. (" + p.Extras.SkillsDir + "/greet/SKILL.md)", "\n- other:  ("} {
		if !strings.Contains(system, want) {
			t.Errorf("the system prompt lacks %q:\n%s", want, system)
		}
	}
	if diff := cmp.Diff([]string{"greeter", "other"}, events[0].Session.Skills); diff != "" {
		t.Error(diff)
	}
	got := c.results()
	if got[0] != "hello" || strings.Contains(got[1], "root") || !strings.HasSuffix(got[2], "is outside the work folder.") {
		t.Errorf("results %q", got)
	}
}

func TestSkillHeader(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"---\nname: a\ndescription: b: c\n---\nname: d": "a|b: c",
		"---\r\nname: 'a'\r\ndescription: \"b\"\r\n---": "a|b",
		"---\ndescription: |\n  b\n  c\nname: a":        "a|b c",
		"name: a":                                       "|",
		"":                                              "|",
		"---":                                           "|",
		"---\n\n:\n-\n\"":                               "|",
	} {
		name, description := harness.SkillHeader(text)
		if got := name + "|" + description; got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func FuzzChatAnswer(f *testing.F) {
	f.Add([]byte(says("Done.")))
	f.Add([]byte(uses("bash", `{"command": "true"}`, "read", "{}")))
	f.Add([]byte(`data: {"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"x"}},{"function":{"arguments":"{}"}},{"id":"b"}]},"finish_reason":"stop"}]}`))
	f.Add([]byte(`data: {"choices":[{"delta":{"tool_calls":[{"index":-9223372036854775808}]}}]}` + "\r\ndata:[DONE]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		said, calls, finish, err := harness.ReadChatAnswer(bytes.NewReader(text))
		again, calls2, finish2, err2 := harness.ReadChatAnswer(&slow{text})
		if said != again || calls != calls2 || finish != finish2 || (err == nil) != (err2 == nil) {
			t.Error("byte by byte, the answer is another one")
		}
		if err == nil && finish == "" || calls > 128 {
			t.Errorf("finish %q, %d calls", finish, calls)
		}
	})
}

// slow gives one byte at a time.
type slow struct{ text []byte }

func (s *slow) Read(p []byte) (int, error) {
	if len(s.text) == 0 {
		return 0, io.EOF
	}
	p[0] = s.text[0]
	s.text = s.text[1:]
	return 1, nil
}
