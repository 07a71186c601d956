package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/trace"
)

// gemini runs the Gemini CLI once, without asking: in its other modes it takes tools away from the model instead of
// putting a question, so a policy that denies cannot be held here.
type gemini struct{ cli }

var (
	_ Harness = (*gemini)(nil)
	_ Prober  = (*gemini)(nil)
	_ Checker = (*gemini)(nil)
	_ Caller  = (*gemini)(nil)
)

// maxGeminiPrompt is how much of standard input the CLI reads, in bytes. It would leave out the rest without a word.
const maxGeminiPrompt = 8 << 20

const geminiInstall = "npm install -g @google/gemini-cli@0.61.0"

// geminiAbout is the page of this kind.
var geminiAbout = About{
	Install: geminiInstall,
	Example: `{id: gemini, type: gemini, models: [gemini-2.5-pro]}`,
	Runs: "One process a cell: `gemini --output-format stream-json --approval-mode yolo`, with the prompt on standard " +
		"input, 8 MiB at most. Its home is new in every cell; usage statistics, updates and the question whether it " +
		"trusts the folder are off.",
	Records: "Messages, tool calls, the output of commands, and its own usage of the session.",
	Silent: []string{
		"It hides the exit codes of commands: one that failed looks like one that did not, and its exit code is not " +
			"known.",
		"It tells no thoughts, and no output of tools that read or edit. The tokens of thoughts are in its total alone.",
		"An answer that was refused or cut looks like a whole one. The gateway sees the provider's reason, and that " +
			"counts.",
		"Its exit code is a remainder of the HTTP status, and after a signal it may be 0 without a last line.",
		"While a provider is down it tries again for more than a minute and prints nothing. The gateway ends that.",
		"It asks two further models whether it goes round in circles. They are allowed, and their money counts. When it " +
			"stops for that, the stop is max_turns with the detail loop_detected.",
		"It asks nothing: in its other modes it takes tools away from the model instead. Use `acp` with `agent: gemini` " +
			"for other policies.",
		"It reads GEMINI.md, `.gemini/skills` and `.agents/skills` of the tree.",
	},
	Limits: modelLimits,
}

func buildGemini(s Settings) (Harness, error) {
	c, err := newCLI(cli{
		kind: "gemini", program: "gemini", install: geminiInstall, dialect: gateway.Gemini,
		sideModels: geminiSideModels, env: geminiEnv, foreign: []string{"GOOGLE_GENAI_USE_VERTEXAI"},
	}, s)
	return &gemini{c}, err
}

// geminiSideModels are those that the CLI asks whether it goes round in circles. They are never changed.
var geminiSideModels = []string{"gemini-3-flash-preview", "gemini-3.1-pro-preview-customtools"}

func geminiEnv(home, address, key string) []string {
	return []string{
		"GEMINI_CLI_HOME=" + home, "GEMINI_API_KEY=" + key, "GOOGLE_GEMINI_BASE_URL=" + address,
		"GEMINI_CLI_NO_RELAUNCH=true", // one process instead of two
	}
}

// Drive implements Harness.
func (h *gemini) Drive(ctx context.Context, t Task, emit func(trace.Event)) (Outcome, error) {
	p := program{
		argv:   []string{h.params.Program, "--output-format", "stream-json", "--approval-mode", "yolo", "--model", t.Model},
		env:    h.environment(t),
		talker: &geminiTalker{fresh: true},
	}
	opening(t, trace.Session{Harness: "gemini", Agent: h.params.Program, Argv: p.argv, Env: envNames(p.env)}, emit)
	if len(t.Prompt) > maxGeminiPrompt {
		detail := fmt.Sprintf("the prompt has %d bytes, and the CLI reads %d", len(t.Prompt), maxGeminiPrompt)
		return closing(Outcome{Stop: trace.StopError, Class: trace.ClassHarnessConfig, Detail: detail}, emit), nil
	}
	if err := furnish(ctx, t, furniture{
		config: ".gemini/settings.json", content: string(geminiSettings(t.Extras.MCP)),
		instructions: ".gemini/GEMINI.md", skills: ".gemini/skills",
	}); err != nil && ctx.Err() == nil {
		return Outcome{}, err
	}
	o, err := p.drive(ctx, t, emit)
	if err != nil {
		return o, err
	}
	return closing(o, emit), nil
}

// geminiAttempts is how often the CLI asks for one answer. Its own 10 keep a dead provider busy for minutes.
const geminiAttempts = 3

// geminiSettings is the CLI's settings file. What it would ask a person, and what it would tell its maker, is off.
func geminiSettings(servers []MCPServer) json.RawMessage {
	type object = map[string]any
	mcp := object{}
	for _, s := range servers {
		if s.URL != "" {
			mcp[s.Name] = object{"httpUrl": s.URL, "trust": true}
		} else {
			mcp[s.Name] = object{"command": s.Argv[0], "args": s.Argv[1:], "env": envMap(s.Env), "trust": true}
		}
	}
	return asJSON(object{
		"security":   object{"auth": object{"selectedType": "gemini-api-key"}, "folderTrust": object{"enabled": false}},
		"privacy":    object{"usageStatisticsEnabled": false},
		"general":    object{"enableAutoUpdate": false, "enableAutoUpdateNotification": false, "maxAttempts": geminiAttempts},
		"mcpServers": mcp,
	})
}

// geminiTalker understands the CLI's stream. It tells no thoughts, hides the exit codes of commands, and tells an answer
// that was refused or cut like a whole one: only the gateway knows better.
type geminiTalker struct {
	s        *session
	account  account
	turns    int
	fresh    bool           // what the model says next is a new answer
	text     *trace.Excerpt // of the message that is being told, nil between messages
	textLine int            // where it began
	calls    int
	open     map[string]openCall
	streams  bool   // a line of the stream came
	unread   []byte // the lines before it, which may be one document
}

// An openCall is a call of a tool whose result has not come.
type openCall struct {
	tool trace.Tool
	n    int // it was the n-th call
}

type geminiLine struct {
	Type       string          `json:"type"`
	Model      string          `json:"model"`
	Role       string          `json:"role"`
	Content    string          `json:"content"`
	ToolName   string          `json:"tool_name"`
	ToolID     string          `json:"tool_id"`
	Parameters json.RawMessage `json:"parameters"`
	Status     string          `json:"status"`
	Output     string          `json:"output"`
	Severity   string          `json:"severity"`
	Message    string          `json:"message"`
	Error      struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	Stats *geminiStats `json:"stats"`
}

type geminiStats struct {
	Total  *int64 `json:"total_tokens"`
	Prompt *int64 `json:"input_tokens"` // cached ones included
	Output *int64 `json:"output_tokens"`
	Cached *int64 `json:"cached"`
	Input  *int64 `json:"input"`
}

// begin gives the CLI its prompt on standard input: an argument has a limit, and every process can read it.
func (g *geminiTalker) begin(s *session) {
	g.s, g.open = s, map[string]openCall{}
	s.stdin.Write([]byte(s.task.Prompt)) // fails only when the input is closed already
	s.hangUp()
}

func (g *geminiTalker) line(s *session, line []byte) {
	var l geminiLine
	if err := json.Unmarshal(line, &l); err != nil {
		g.keep(line)
		s.emit(trace.Event{Kind: trace.KindOther})
		return
	}
	g.streams = g.streams || l.Type != ""
	if l.Type != "message" || l.Role != "assistant" {
		g.flush()
	}
	switch l.Type {
	case "init":
		g.account.Model = l.Model
	case "message":
		g.message(l)
	case "tool_use":
		g.call(l)
	case "tool_result":
		g.result(l)
	case "error":
		g.fault(l)
	case "result":
		g.end(l)
	default:
		g.keep(line)
		s.emit(trace.Event{Kind: trace.KindOther})
	}
}

// keep keeps a line that is none of the stream, up to maxLine bytes of all of them.
func (g *geminiTalker) keep(line []byte) {
	if !g.streams && len(g.unread)+len(line) < maxLine {
		g.unread = append(append(g.unread, line...), '\n')
	}
}

// answers counts a new answer of the model where one begins.
func (g *geminiTalker) answers() {
	if g.fresh {
		g.turns++
		g.s.turned(g.turns)
		g.fresh = false
	}
}

// message takes a piece of a message. The CLI also tells the prompt, which stands in the trace already.
func (g *geminiTalker) message(l geminiLine) {
	switch l.Role {
	case "assistant":
		g.answers()
		if g.text == nil {
			g.text, g.textLine = trace.NewExcerpt(), g.s.rawLine
		}
		g.text.Write([]byte(l.Content))
	case "user":
	default:
		g.s.emit(trace.Event{Kind: trace.KindOther})
	}
}

// flush tells the message whose pieces came.
func (g *geminiTalker) flush() {
	if g.text == nil {
		return
	}
	g.account.FinalText = g.text.String()
	g.s.emit(trace.Event{Kind: trace.KindAssistantText, Text: g.account.FinalText, RawLine: g.textLine})
	g.text = nil
}

func (g *geminiTalker) call(l geminiLine) {
	g.answers()
	g.calls++
	tool := trace.Tool{ID: l.ToolID, Name: l.ToolName, Kind: trace.KindOfTool(l.ToolName)}
	g.open[l.ToolID] = openCall{tool, g.calls}
	tool.Input, tool.Paths = l.Parameters, inputPaths(g.s.task.Work, l.Parameters)
	g.s.emit(trace.Event{Kind: trace.KindToolCall, Tool: &tool})
	if plan := planItems(l.Parameters); tool.Kind == trace.ToolThink && len(plan) > 0 {
		g.s.emit(trace.Event{Kind: trace.KindPlan, Plan: plan})
	}
}

func (g *geminiTalker) result(l geminiLine) {
	g.fresh = true
	tool := g.open[l.ToolID].tool
	delete(g.open, l.ToolID)
	tool.ID, tool.Status, tool.Output = l.ToolID, trace.StatusOK, l.Output
	if l.Status != "success" {
		tool.Status, tool.Output = trace.StatusError, or(l.Output, l.Error.Message)
	}
	g.s.emit(trace.Event{Kind: trace.KindToolResult, Tool: &tool})
}

// fault is an error beside the end. Two of them are ends of their own that the CLI goes on to tell as a success.
func (g *geminiTalker) fault(l geminiLine) {
	f := trace.Fault{Class: trace.ClassWarning, Detail: l.Message}
	switch {
	case strings.HasPrefix(l.Message, "Loop detected"):
		g.account.Stop, g.account.Detail = trace.StopMaxTurns, "loop_detected"
	case strings.HasPrefix(l.Message, "Maximum session turns"):
		g.account.Stop, g.account.Detail = trace.StopMaxTurns, printable(l.Message)
	case l.Severity == "error":
		f = geminiFault("", l.Message)
		g.account.LastFault = &f
	}
	g.s.emit(trace.Event{Kind: trace.KindError, Err: &f})
}

func (g *geminiTalker) end(l geminiLine) {
	if u := l.Stats.usage(); u != nil && g.turns > 0 {
		g.account.Usage = u
		g.s.emit(trace.Event{Kind: trace.KindUsage, Usage: u})
	}
	if l.Status == "success" {
		if g.account.Stop == "" {
			g.account.Stop = trace.StopEndTurn
		}
		return
	}
	if l.Error.Type == "FatalTurnLimitedError" {
		g.account.Stop, g.account.Detail = trace.StopMaxTurns, printable(l.Error.Message)
		return
	}
	f := geminiFault(l.Error.Type, l.Error.Message)
	g.account.Stop, g.account.Class, g.account.Detail, g.account.LastFault = trace.StopError, f.Class, printable(f.Detail), &f
	g.s.emit(trace.Event{Kind: trace.KindError, Err: &f})
}

// usage is what the CLI counted, nil when it counted nothing. Thoughts are in its total alone.
func (st *geminiStats) usage() *trace.Usage {
	if st == nil || st.Total == nil || *st.Total == 0 {
		return nil
	}
	u := trace.Usage{Input: st.Input, CacheRead: st.Cached, Output: st.Output, Scope: "session"}
	if st.Prompt != nil && st.Output != nil {
		thoughts := *st.Total - *st.Prompt - *st.Output
		u.Reasoning, u.Output = count(&thoughts), plus(st.Output, &thoughts)
	}
	u = claimed(u)
	return &u
}

// A geminiDocument is what the CLI prints when it does not stream: its last answer and what it counted, by model.
type geminiDocument struct {
	Session  string  `json:"session_id"`
	Response *string `json:"response"`
	Error    *struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	Stats struct {
		Models map[string]struct {
			Tokens struct {
				Total      *int64 `json:"total"`
				Prompt     *int64 `json:"prompt"` // cached ones included
				Candidates *int64 `json:"candidates"`
				Cached     *int64 `json:"cached"`
				Input      *int64 `json:"input"`
			} `json:"tokens"`
		} `json:"models"`
	} `json:"stats"`
}

// document reads all that the CLI printed as one document, where that is what it is. It tells no calls.
func (g *geminiTalker) document() {
	var d geminiDocument
	if g.streams || json.Unmarshal(g.unread, &d) != nil || d.Session == "" || d.Response == nil && d.Error == nil {
		return
	}
	var sum *geminiStats
	for name, m := range d.Stats.Models {
		t := m.Tokens
		if sum == nil {
			g.account.Model = name
			sum = &geminiStats{Total: t.Total, Prompt: t.Prompt, Output: t.Candidates, Cached: t.Cached, Input: t.Input}
			continue
		}
		g.account.Model = "" // which of them is the main one is not told
		sum = &geminiStats{
			Total: plus(sum.Total, t.Total), Prompt: plus(sum.Prompt, t.Prompt), Output: plus(sum.Output, t.Candidates),
			Cached: plus(sum.Cached, t.Cached), Input: plus(sum.Input, t.Input),
		}
	}
	if u := sum.usage(); u != nil {
		g.account.Usage, g.account.Answered = u, true
		g.s.emit(trace.Event{Kind: trace.KindUsage, Usage: u})
	}
	if d.Error != nil {
		f := geminiFault(d.Error.Type, d.Error.Message)
		g.account.Stop, g.account.Class, g.account.Detail, g.account.LastFault = trace.StopError, f.Class, printable(f.Detail), &f
		g.s.emit(trace.Event{Kind: trace.KindError, Err: &f})
		return
	}
	g.account.Stop, g.account.FinalText = trace.StopEndTurn, *d.Response
	g.s.emit(trace.Event{Kind: trace.KindAssistantText, Text: *d.Response})
}

func (g *geminiTalker) told() account {
	g.flush()
	g.document()
	late := slices.SortedFunc(maps.Values(g.open), func(a, b openCall) int { return cmp.Compare(a.n, b.n) })
	for _, c := range late {
		c.tool.Status = trace.StatusNone
		g.s.emit(trace.Event{Kind: trace.KindToolResult, Tool: &c.tool})
	}
	a := g.account
	if g.turns > 0 {
		a.Answered, a.Turns = true, &g.turns
	}
	return a
}

// geminiFault reads an error by its type, by the HTTP status that its text quotes, or by the provider's name for it.
func geminiFault(kind, text string) trace.Fault {
	f := trace.Fault{Class: trace.ClassModelAPI, HTTP: quotedStatus(text), Detail: text}
	switch {
	case f.HTTP != 0:
		f.Class = classOfHTTP(f.HTTP)
	case kind == "FatalAuthenticationError", strings.Contains(text, "Status: UNAUTHENTICATED"), strings.Contains(text, "Status: PERMISSION_DENIED"):
		f.Class = trace.ClassModelAuth
	case strings.Contains(text, "Status: RESOURCE_EXHAUSTED"):
		f.Class = trace.ClassModelLimit
	case strings.Contains(text, "Status: INVALID_ARGUMENT"), strings.Contains(text, "Status: NOT_FOUND"):
		f.Class = trace.ClassModelRequest
	case kind == "FatalInputError", kind == "FatalConfigError", kind == "FatalSandboxError", kind == "FatalUntrustedWorkspaceError":
		f.Class = trace.ClassHarnessConfig
	case kind == "FatalToolExecutionError", kind == "FatalCancellationError":
		f.Class = trace.ClassHarnessCrash
	}
	return f
}

// quotedStatus finds the HTTP status in the JSON of a provider's error that a text quotes; 0 when there is none.
func quotedStatus(text string) int {
	_, after, ok := strings.Cut(text, `"code":`)
	after = strings.TrimLeft(after, " ")
	if !ok || len(after) < 3 {
		return 0
	}
	status, err := strconv.Atoi(after[:3])
	if err != nil || status < 400 || status > 599 {
		return 0
	}
	return status
}

// planItems reads the list of things to do from the input of the tool that keeps it.
func planItems(input json.RawMessage) []trace.PlanItem {
	var in struct {
		Todos []struct{ Content, Description, Status string }
	}
	if json.Unmarshal(input, &in) != nil {
		return nil
	}
	var items []trace.PlanItem
	for _, t := range in.Todos {
		items = append(items, trace.PlanItem{Text: or(t.Content, t.Description), Status: t.Status})
	}
	return items
}

// inputPaths returns the files that a tool's input names, relative to the work folder where they are below it.
func inputPaths(work string, input json.RawMessage) []string {
	var in struct {
		FilePath  string `json:"file_path"`
		FilePath2 string `json:"filePath"`
		Path      string `json:"path"`
		DirPath   string `json:"dir_path"`
	}
	if json.Unmarshal(input, &in) != nil {
		return nil // no object, or names that are no texts
	}
	var paths []string
	for _, p := range []string{in.FilePath, in.FilePath2, in.Path, in.DirPath} {
		if p == "" {
			continue
		}
		if rel, err := filepath.Rel(work, p); path.IsAbs(p) && err == nil && filepath.IsLocal(rel) {
			p = rel
		}
		paths = append(paths, p)
	}
	return paths
}
