package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/trace"
)

// opencode runs opencode once, with all permissions: run this way it rejects what it would have to ask for.
type opencode struct{ cli }

var (
	_ Harness = (*opencode)(nil)
	_ Prober  = (*opencode)(nil)
	_ Checker = (*opencode)(nil)
	_ Caller  = (*opencode)(nil)
)

const opencodeInstall = "npm install -g opencode-ai@1.18.33"

// opencodeAbout is the page of this kind.
var opencodeAbout = About{
	Install: opencodeInstall,
	Example: `{id: opencode, type: opencode, models: [some-model], base_url: "https://models.example.com/v1"}`,
	Runs: "One process a cell: `opencode run --format json --auto`, with the prompt on standard input. Its folders are new " +
		"in every cell, and it knows one provider, the gateway, over Chat Completions. Updates, sharing, its list of " +
		"models and the download of language servers are off.",
	Records: "Messages, thoughts, tool calls with exit codes and diffs, plans, and its own usage of each step.",
	Silent: []string{
		"It has no first and no last line. The end is known by the reason of its last step and by its exit code, which is " +
			"0 for an answer that was cut, too.",
		"A tool call is told once, when it is done: of one that never ends nothing is seen.",
		"A call of a tool that does not exist goes to a tool named invalid and succeeds. It is recorded under the name " +
			"that was called, as an error.",
		"It reports a cost of 0 for a model whose price it does not know. That is taken as not known.",
		"It writes a title for its session with a call of its own, which costs tokens of the first of `side_models`, or " +
			"else of the model under test.",
		"While a provider is down it tries again and prints nothing. The gateway ends that.",
		"It asks nothing: run this way it rejects what it would have to ask for. Use `acp` with `agent: opencode` for " +
			"other policies.",
		"It reads AGENTS.md, `.opencode/skills` and `.claude/skills` of the tree.",
		"One process takes 0.6 to 1.5 GB: choose `--jobs` by memory.",
	},
	Limits: modelLimits,
}

func buildOpencode(s Settings) (Harness, error) {
	c, err := newCLI(cli{kind: "opencode", program: "opencode", install: opencodeInstall, dialect: gateway.Chat, env: opencodeEnv}, s)
	return &opencode{c}, err
}

// opencodeEnv holds no address and no key: those stand in its settings file.
func opencodeEnv(home, _, _ string) []string {
	return []string{
		"XDG_CONFIG_HOME=" + path.Join(home, ".config"),
		"XDG_DATA_HOME=" + path.Join(home, ".local/share"),
		"XDG_CACHE_HOME=" + path.Join(home, ".cache"),
		"XDG_STATE_HOME=" + path.Join(home, ".local/state"),
		"OPENCODE_DISABLE_AUTOUPDATE=1",
		"OPENCODE_DISABLE_MODELS_FETCH=1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD=1",
		"OPENCODE_DISABLE_DEFAULT_PLUGINS=1",
	}
}

// opencodeProvider is the provider of our making that all its models belong to.
const opencodeProvider = "assay"

// Drive implements Harness.
func (h *opencode) Drive(ctx context.Context, t Task, emit func(trace.Event)) (Outcome, error) {
	p := program{
		argv:   []string{h.params.Program, "run", "--format", "json", "--auto", "--model", opencodeProvider + "/" + t.Model},
		env:    h.environment(t),
		talker: &opencodeTalker{},
	}
	opening(t, trace.Session{Harness: "opencode", Agent: h.params.Program, Argv: p.argv, Env: envNames(p.env)}, emit)
	if err := furnish(ctx, t, furniture{
		config: ".config/opencode/opencode.json", content: string(h.config(t)),
		instructions: ".config/opencode/AGENTS.md", skills: ".config/opencode/skills",
	}); err != nil && ctx.Err() == nil {
		return Outcome{}, err
	}
	o, err := p.drive(ctx, t, emit)
	if err != nil {
		return o, err
	}
	// It has no last event: the last step looks like an end even when something failed afterwards.
	if o.Stop == trace.StopEndTurn && o.Exit == nil {
		o.Stop, o.Class, o.Detail = trace.StopKilled, trace.ClassHarnessCrash, "ended by "+o.Signal+" after its last step"
	} else if o.Stop == trace.StopEndTurn && *o.Exit != 0 {
		o.Stop, o.Class, o.Detail = trace.StopError, trace.ClassHarnessCrash, fmt.Sprintf("exit %d after its last step", *o.Exit)
	}
	return closing(o, emit), nil
}

// config is the settings file of opencode. It knows one provider, whose models are those of the cell.
func (h *opencode) config(t Task) json.RawMessage {
	type object = map[string]any
	address, key := h.params.address(t, gateway.Chat)
	small := t.Model
	models := object{t.Model: object{"name": t.Model}}
	for _, name := range h.params.SideModels {
		models[name] = object{"name": name}
		small = h.params.SideModels[0]
	}
	mcp := object{}
	for _, s := range t.Extras.MCP {
		if s.URL != "" {
			mcp[s.Name] = object{"type": "remote", "url": s.URL, "enabled": true}
		} else {
			mcp[s.Name] = object{"type": "local", "command": s.Argv, "environment": envMap(s.Env), "enabled": true}
		}
	}
	return asJSON(object{
		"autoupdate":        false,
		"share":             "disabled",
		"enabled_providers": []string{opencodeProvider},
		"model":             opencodeProvider + "/" + t.Model,
		"small_model":       opencodeProvider + "/" + small,
		"provider": object{opencodeProvider: object{
			"npm": "@ai-sdk/openai-compatible", "name": opencodeProvider,
			"options": object{"baseURL": address, "apiKey": key},
			"models":  models,
		}},
		"mcp": mcp,
	})
}

// opencodeTalker understands the lines of opencode. A tool call is told once, when it is done; there is no first and no
// last event, so the end is known by the last step.
type opencodeTalker struct {
	s       *session
	account account
	turns   int
	reason  string // why the last step ended
	denied  bool   // the last tool call was
}

type opencodeLine struct {
	Type  string        `json:"type"`
	Part  opencodePart  `json:"part"`
	Error opencodeError `json:"error"`
}

type opencodePart struct {
	Text   string        `json:"text"`
	Tool   string        `json:"tool"`
	CallID string        `json:"callID"`
	State  opencodeState `json:"state"`
	Reason string        `json:"reason"`
	Cost   *float64      `json:"cost"`
	Tokens struct {
		Input     *int64 `json:"input"`
		Output    *int64 `json:"output"`
		Reasoning *int64 `json:"reasoning"`
		Cache     struct {
			Read  *int64 `json:"read"`
			Write *int64 `json:"write"`
		} `json:"cache"`
	} `json:"tokens"`
}

type opencodeState struct {
	Status   string          `json:"status"`
	Input    json.RawMessage `json:"input"`
	Output   string          `json:"output"`
	Error    string          `json:"error"`
	Title    string          `json:"title"`
	Metadata struct {
		Exit *int   `json:"exit"`
		Diff string `json:"diff"`
	} `json:"metadata"`
	Time struct {
		Start int64 `json:"start"` // ms
		End   int64 `json:"end"`
	} `json:"time"`
}

type opencodeError struct {
	Name string `json:"name"`
	Data struct {
		Message    string `json:"message"`
		StatusCode int    `json:"statusCode"`
		Retryable  bool   `json:"isRetryable"`
		Body       string `json:"responseBody"`
	} `json:"data"`
}

// begin gives the prompt on standard input: an argument has a limit, and every process can read it.
func (o *opencodeTalker) begin(s *session) {
	o.s = s
	s.stdin.Write([]byte(s.task.Prompt)) // fails only when the input is closed already
	s.hangUp()
}

func (o *opencodeTalker) line(s *session, line []byte) {
	var l opencodeLine
	if err := json.Unmarshal(line, &l); err != nil {
		s.emit(trace.Event{Kind: trace.KindOther})
		return
	}
	switch l.Type {
	case "step_start":
		o.reason = "" // the step before was not the last
	case "text":
		o.account.FinalText = l.Part.Text
		s.emit(trace.Event{Kind: trace.KindAssistantText, Text: l.Part.Text})
	case "reasoning":
		s.emit(trace.Event{Kind: trace.KindThinking, Text: l.Part.Text})
	case "tool_use":
		o.tool(l.Part)
	case "step_finish":
		o.step(l.Part)
	case "error":
		o.fault(l.Error)
	default:
		s.emit(trace.Event{Kind: trace.KindOther})
	}
}

// tool tells a call and its result. A call of a tool that does not exist goes to a tool named invalid, and succeeds.
func (o *opencodeTalker) tool(p opencodePart) {
	st := p.State
	call := trace.Tool{ID: p.CallID, Name: p.Tool, Input: st.Input, Title: st.Title, Paths: inputPaths(o.s.task.Work, st.Input)}
	result := trace.Tool{
		ID: p.CallID, Status: trace.StatusOK, Output: st.Output, Exit: st.Metadata.Exit, Diff: st.Metadata.Diff,
		Duration: time.Duration(min(max(st.Time.End-st.Time.Start, 0), 1e9)) * time.Millisecond,
	}
	if p.Tool == "invalid" {
		var in struct{ Tool string }
		if json.Unmarshal(st.Input, &in) == nil && in.Tool != "" {
			call.Name = in.Tool
		}
		result.Status = trace.StatusError
	}
	if st.Status != "completed" || result.Exit != nil && *result.Exit != 0 {
		result.Status, result.Output = trace.StatusError, or(st.Output, st.Error)
	}
	if o.denied = strings.Contains(st.Error, "user rejected permission"); o.denied {
		result.Status = trace.StatusDenied
	}
	call.Kind = trace.KindOfTool(call.Name)
	result.Name, result.Kind = call.Name, call.Kind
	o.s.emit(trace.Event{Kind: trace.KindToolCall, Tool: &call})
	if plan := planItems(st.Input); call.Kind == trace.ToolThink && len(plan) > 0 {
		o.s.emit(trace.Event{Kind: trace.KindPlan, Plan: plan})
	}
	o.s.emit(trace.Event{Kind: trace.KindToolResult, Tool: &result})
}

// step is the end of one answer of the model and of the calls that it made.
func (o *opencodeTalker) step(p opencodePart) {
	o.turns++
	o.s.turned(o.turns)
	o.reason = p.Reason
	u := claimed(trace.Usage{
		Input: p.Tokens.Input, CacheRead: p.Tokens.Cache.Read, CacheWrite: p.Tokens.Cache.Write,
		Output: plus(p.Tokens.Output, p.Tokens.Reasoning), Reasoning: p.Tokens.Reasoning, CostUSD: p.Cost, Scope: "step",
	})
	if u.CostUSD != nil && *u.CostUSD == 0 {
		u.CostUSD = nil // it says 0 of a model whose price it does not know
	}
	o.account.Usage = addUsage(o.account.Usage, u)
	o.s.emit(trace.Event{Kind: trace.KindUsage, Usage: &u})
}

func (o *opencodeTalker) fault(e opencodeError) {
	f := trace.Fault{Class: trace.ClassHarnessCrash, HTTP: e.Data.StatusCode, Retryable: e.Data.Retryable, Detail: or(e.Data.Message, e.Name)}
	a := &o.account
	a.Stop = trace.StopError
	switch {
	case e.Name == "ContentFilterError":
		a.Stop, f.Class = trace.StopRefusal, trace.ClassWarning
	case e.Name == "MessageOutputLengthError":
		a.Stop, f.Class = trace.StopMaxTokens, trace.ClassWarning
	case e.Name == "ContextOverflowError", overflows(e.Data.Message + e.Data.Body):
		f.Class = trace.ClassContextOverflow
	case e.Data.StatusCode >= 400:
		f.Class = classOfHTTP(e.Data.StatusCode)
	case e.Name == "ProviderAuthError":
		f.Class = trace.ClassModelAuth
	case e.Name == "APIError":
		f.Class = trace.ClassModelAPI
	}
	a.Detail = printable(f.Detail)
	if a.Stop == trace.StopError {
		a.Class, a.LastFault = f.Class, &f
	}
	o.s.emit(trace.Event{Kind: trace.KindError, Err: &f})
}

// overflows tells whether a provider's error says that a request is longer than its model takes.
func overflows(text string) bool {
	return strings.Contains(text, "context_length_exceeded") || strings.Contains(text, "prompt is too long") || strings.Contains(text, "context window")
}

func (o *opencodeTalker) told() account {
	a := o.account
	a.Answered = o.turns > 0 || a.FinalText != ""
	if o.turns > 0 {
		a.Turns = &o.turns
	}
	if a.Stop != "" {
		return a
	}
	switch {
	case o.reason == "stop", o.reason == "tool-calls" && o.denied:
		a.Stop = trace.StopEndTurn
	case o.reason == "length":
		a.Stop, a.Detail = trace.StopMaxTokens, "the model's last answer was cut at its token limit"
	case o.reason == "content-filter":
		a.Stop, a.Detail = trace.StopRefusal, "the model refused"
	}
	return a
}
