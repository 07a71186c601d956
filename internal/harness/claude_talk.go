package harness

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/responder"
	"github.com/assay-ci/assay/internal/trace"
)

// claudeTalk understands the stream-json lines of Claude Code and answers its control requests.
//
// What it must not be taken in by: a result line that says success and is_error at once, or success although no model was
// asked, because the prompt was taken for a command of the CLI; messages of the model "<synthetic>", which are error texts
// of the CLI; a message that comes once for each of its content blocks; and a usage that leaves out sub-agents, so that
// only the sums of modelUsage count.
type claudeTalk struct {
	prompt string
	begun  bool                  // the CLI has said what it is
	open   map[string]claudeCall // tool calls without a result, by id
	denied map[string]bool       // tool calls whose result is in the trace as denied
	agents map[string]string     // running sub-agents: task id to the tool call that started them

	turns    int
	lastID   string // of the last main-lane message of the model
	lastText string
	cut      bool // the CLI gave up on an answer that was cut at its token limit
	account  account
}

var _ talker = (*claudeTalk)(nil)

type claudeCall struct {
	name  string
	kind  trace.ToolKind
	since time.Time
}

func newClaudeTalk(prompt string) *claudeTalk {
	return &claudeTalk{prompt: prompt, open: map[string]claudeCall{}, denied: map[string]bool{}, agents: map[string]string{}}
}

// begin implements talker: it opens the control protocol and gives the prompt.
func (c *claudeTalk) begin(s *session) {
	sendJSON(s, map[string]any{
		"type": "control_request", "request_id": "init", "request": map[string]any{"subtype": "initialize", "hooks": nil},
	})
	sendJSON(s, map[string]any{
		"type": "user", "message": map[string]string{"role": "user", "content": c.prompt}, "parent_tool_use_id": nil, "session_id": "",
	})
}

// sendJSON sends a value that is always JSON.
func sendJSON(s *session, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic("harness: what is sent is always JSON: " + err.Error())
	}
	s.send(b)
}

// line implements talker. A line that no event came of is in the trace as it is.
func (c *claudeTalk) line(s *session, line []byte) {
	var head struct {
		Type    string `json:"type"`
		Subtype string `json:"subtype"`
	}
	err := json.Unmarshal(line, &head)
	switch {
	case head.Type == "result":
		c.result(s, line)
	case err != nil:
	case head.Type == "assistant":
		c.assistant(s, line)
	case head.Type == "user":
		c.user(s, line)
	case head.Type == "control_request":
		c.control(s, line)
	case head.Type == "system":
		c.system(s, head.Subtype, line)
	}
	if s.raw != nil && len(bytes.TrimSpace(line)) > 0 {
		s.emit(trace.Event{Kind: trace.KindOther, Text: strings.TrimSpace(head.Type + " " + head.Subtype)})
	}
}

// system takes what the CLI tells of itself.
func (c *claudeTalk) system(s *session, subtype string, line []byte) {
	switch {
	case subtype == "init":
		c.hello(s, line)
	case subtype == "api_retry":
		c.retry(s, line)
	case strings.HasPrefix(subtype, "task_"):
		c.task(s, subtype, line)
	}
}

// hello is what the CLI says of itself before it works.
func (c *claudeTalk) hello(s *session, line []byte) {
	var l struct {
		Version string   `json:"claude_code_version"`
		Model   string   `json:"model"`
		Tools   []string `json:"tools"`
		Skills  []string `json:"skills"`
		Servers []struct {
			Name   string `json:"name"`
			Status string `json:"status"`
		} `json:"mcp_servers"`
	}
	if json.Unmarshal(line, &l) != nil {
		return
	}
	if c.begun { // each turn begins with one
		c.resume()
		return
	}
	c.begun, c.account.Version, c.account.Model = true, l.Version, l.Model
	s.emit(trace.Event{Kind: trace.KindSessionStart, Session: &trace.Session{
		Harness: "claude-code", Version: l.Version, Model: s.task.Model, ModelReported: l.Model, Tools: l.Tools, Skills: l.Skills,
	}})
	for _, server := range l.Servers {
		if server.Status == "failed" {
			s.emit(warning(fmt.Sprintf("the agent could not reach its MCP server %q", server.Name)))
		}
	}
}

// resume takes back how the agent ended: it works on, and the result of that is to come.
func (c *claudeTalk) resume() {
	c.account.Stop, c.account.Class, c.account.Detail, c.account.FinalText, c.account.Usage = "", "", "", "", nil
}

// retry is a call of a model that failed and will be tried again.
func (c *claudeTalk) retry(s *session, line []byte) {
	var l struct {
		Attempt int     `json:"attempt"`
		Most    int     `json:"max_retries"`
		Delay   float64 `json:"retry_delay_ms"`
		Status  int     `json:"error_status"` // absent when there was no answer at all
		Error   string  `json:"error"`
	}
	if json.Unmarshal(line, &l) != nil {
		return
	}
	f := &trace.Fault{
		Class: classOfHTTP(l.Status), HTTP: l.Status, Retryable: true,
		Detail: fmt.Sprintf("%s; try %d of %d again after %.0f ms", cmp.Or(l.Error, "no answer"), l.Attempt, l.Most, l.Delay),
	}
	c.account.LastFault = f
	s.emit(trace.Event{Kind: trace.KindRetry, Err: f})
}

// task is the life of a sub-agent. Commands in the background are tasks as well, and stay as they are.
func (c *claudeTalk) task(s *session, subtype string, line []byte) {
	var l struct {
		ID          string `json:"task_id"`
		Call        string `json:"tool_use_id"`
		Type        string `json:"task_type"`
		Description string `json:"description"`
		Status      string `json:"status"`
	}
	if json.Unmarshal(line, &l) != nil || l.ID == "" {
		return
	}
	if subtype == "task_started" && l.Type == "local_agent" {
		c.agents[l.ID] = l.Call
	}
	call, known := c.agents[l.ID]
	if !known {
		return
	}
	text := "progress"
	switch subtype {
	case "task_started":
		text = "started: " + l.Description
	case "task_notification":
		delete(c.agents, l.ID)
		text = "done: " + l.Status
	}
	s.emit(trace.Event{Kind: trace.KindSubagent, Parent: call, Text: text})
}

// A claudeBlock is one content block of a message.
type claudeBlock struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	CallID   string          `json:"tool_use_id"`
	IsError  bool            `json:"is_error"`
	Content  json.RawMessage `json:"content"`
}

// claudeBlocks returns the blocks of a content, which may be a plain text; ok is false when it is neither.
func claudeBlocks(content json.RawMessage) (blocks []claudeBlock, ok bool) {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []claudeBlock{{Type: "text", Text: text}}, true
	}
	return blocks, json.Unmarshal(content, &blocks) == nil
}

func (c *claudeTalk) assistant(s *session, line []byte) {
	var l struct {
		Message struct {
			ID      string          `json:"id"`
			Model   string          `json:"model"`
			Content json.RawMessage `json:"content"`
		} `json:"message"`
		Parent string `json:"parent_tool_use_id"`
		Error  string `json:"error"`
	}
	if json.Unmarshal(line, &l) != nil {
		return
	}
	blocks, ok := claudeBlocks(l.Message.Content)
	if !ok {
		return
	}
	c.resume()
	if l.Message.Model == "<synthetic>" {
		c.synthetic(s, l.Parent, l.Error, blocks)
		return
	}
	c.account.Answered, c.account.LastFault = true, nil
	if l.Parent == "" {
		c.cut = false
		if l.Message.ID == "" || l.Message.ID != c.lastID {
			c.turns++
			s.turned(c.turns)
		}
		c.lastID = l.Message.ID
	}
	for _, b := range blocks {
		c.block(s, l.Parent, b)
	}
}

// block is one content block that a model wrote.
func (c *claudeTalk) block(s *session, parent string, b claudeBlock) {
	switch b.Type {
	case "text":
		if parent == "" {
			c.lastText = b.Text
		}
		s.emit(trace.Event{Kind: trace.KindAssistantText, Parent: parent, Text: b.Text})
	case "thinking":
		s.emit(trace.Event{Kind: trace.KindThinking, Parent: parent, Text: b.Thinking})
	case "tool_use":
		c.call(s, parent, b.ID, b.Name, b.Input)
	default:
		s.emit(trace.Event{Kind: trace.KindOther, Parent: parent, Text: "content " + b.Type})
	}
}

// call is the first sight of a tool call, which may be the request for its permission.
func (c *claudeTalk) call(s *session, parent, id, name string, input json.RawMessage) {
	if _, seen := c.open[id]; seen {
		return
	}
	kind := trace.KindOfTool(name)
	c.open[id] = claudeCall{name, kind, time.Now()}
	s.emit(trace.Event{Kind: trace.KindToolCall, Parent: parent, Tool: &trace.Tool{
		ID: id, Name: name, Kind: kind, Input: input, Paths: claudePaths(input),
	}})
}

// claudePaths returns the files that a tool call names.
func claudePaths(input json.RawMessage) []string {
	var in struct {
		File     string `json:"file_path"`
		Notebook string `json:"notebook_path"`
		Path     string `json:"path"`
	}
	if json.Unmarshal(input, &in) != nil {
		return nil
	}
	return slices.DeleteFunc([]string{in.File, in.Notebook, in.Path}, func(p string) bool { return p == "" })
}

// synthetic is a message that the CLI wrote in the place of a model: what went wrong, as text.
func (c *claudeTalk) synthetic(s *session, parent, kind string, blocks []claudeBlock) {
	var text strings.Builder
	for _, b := range blocks {
		text.WriteString(b.Text)
	}
	if kind == "" {
		s.emit(trace.Event{Kind: trace.KindAssistantText, Parent: parent, Synthetic: true, Text: text.String()})
		return
	}
	f := &trace.Fault{Class: trace.ClassWarning, Detail: text.String()}
	if kind != "max_output_tokens" {
		f.HTTP = claudeStatus(f.Detail)
		f.Class = claudeClass(kind, f.HTTP)
	}
	if parent == "" && f.Class == trace.ClassWarning {
		c.cut = true
	} else if parent == "" {
		c.account.LastFault = f
	}
	s.emit(trace.Event{Kind: trace.KindError, Parent: parent, Synthetic: true, Err: f})
}

// claudeStatus returns the HTTP status that an error text of the CLI begins with, 0 when there is none.
func claudeStatus(text string) int {
	rest, _ := strings.CutPrefix(text, "API Error: ")
	digits, _, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(digits)
	if err != nil || status < 100 || status > 599 {
		return 0
	}
	return status
}

// claudeClass is the class of an error by the CLI's own word for it, else by its HTTP status.
func claudeClass(kind string, status int) trace.Class {
	switch kind {
	case "authentication_failed", "billing_error", "oauth_org_not_allowed":
		return trace.ClassModelAuth
	case "rate_limit":
		return trace.ClassModelLimit
	case "invalid_request":
		return trace.ClassModelRequest
	}
	return classOfHTTP(status)
}

// user takes what the CLI puts in the place of a user: results of tools, prompts of sub-agents, notes of its own.
func (c *claudeTalk) user(s *session, line []byte) {
	var l struct {
		Message struct {
			Content json.RawMessage `json:"content"`
		} `json:"message"`
		Parent string          `json:"parent_tool_use_id"`
		Result json.RawMessage `json:"tool_use_result"`
	}
	if json.Unmarshal(line, &l) != nil {
		return
	}
	blocks, ok := claudeBlocks(l.Message.Content)
	if !ok {
		return
	}
	for _, b := range blocks {
		switch {
		case b.Type == "tool_result":
			diff := ""
			if len(blocks) == 1 { // the result beside the message is that of its one block
				diff = claudeDiff(l.Result)
			}
			c.toolResult(s, l.Parent, b, diff)
		case b.Type == "text" && l.Parent == "" && b.Text == c.prompt: // our own prompt, said back
		case b.Type == "text":
			s.emit(trace.Event{Kind: trace.KindUserMessage, Parent: l.Parent, Synthetic: true, Text: b.Text})
		default:
			s.emit(trace.Event{Kind: trace.KindOther, Parent: l.Parent, Text: "content " + b.Type})
		}
	}
}

func (c *claudeTalk) toolResult(s *session, parent string, b claudeBlock, diff string) {
	call := c.open[b.CallID]
	delete(c.open, b.CallID)
	tool := &trace.Tool{ID: b.CallID, Name: call.name, Kind: call.kind, Status: trace.StatusOK, Output: claudeOutput(b.Content), Diff: diff}
	if !call.since.IsZero() {
		tool.Duration = time.Since(call.since)
	}
	switch {
	case c.denied[b.CallID]:
		tool.Status = trace.StatusDenied
	case b.IsError:
		tool.Status, tool.Exit = trace.StatusError, claudeExit(call.kind, tool.Output)
	}
	s.emit(trace.Event{Kind: trace.KindToolResult, Parent: parent, Tool: tool})
}

// claudeOutput is what a tool told the model.
func claudeOutput(content json.RawMessage) string {
	blocks, _ := claudeBlocks(content)
	texts := make([]string, len(blocks))
	for i, b := range blocks {
		if texts[i] = b.Text; b.Type != "text" {
			texts[i] = "[" + b.Type + "]"
		}
	}
	return strings.Join(texts, "\n")
}

// claudeExit returns the exit code of a command that failed; nil when the CLI does not tell it.
func claudeExit(kind trace.ToolKind, output string) *int {
	rest, told := strings.CutPrefix(output, "Exit code ")
	digits, _, _ := strings.Cut(rest, "\n")
	code, err := strconv.Atoi(digits)
	if kind != trace.ToolExecute || !told || err != nil {
		return nil
	}
	return &code
}

// claudeDiff returns the change that an edit made, as the CLI tells it beside the result.
func claudeDiff(result json.RawMessage) string {
	var r struct {
		File  string `json:"filePath"`
		Hunks []struct {
			OldStart int      `json:"oldStart"`
			OldLines int      `json:"oldLines"`
			NewStart int      `json:"newStart"`
			NewLines int      `json:"newLines"`
			Lines    []string `json:"lines"`
		} `json:"structuredPatch"`
	}
	if len(result) == 0 || json.Unmarshal(result, &r) != nil || len(r.Hunks) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", r.File, r.File)
	for _, h := range r.Hunks {
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n", h.OldStart, h.OldLines, h.NewStart, h.NewLines)
		for _, line := range h.Lines {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// A claudeRequest is what the CLI wants to know of us.
type claudeRequest struct {
	ID      string `json:"request_id"`
	Request struct {
		Subtype string          `json:"subtype"`
		Tool    string          `json:"tool_name"`
		CallID  string          `json:"tool_use_id"`
		Agent   string          `json:"agent_id"` // of the sub-agent that asks, before its tool call is shown
		Input   json.RawMessage `json:"input"`
	} `json:"request"`
}

// control answers a request of the CLI. It waits for an answer, so each request that can be told apart gets one.
func (c *claudeTalk) control(s *session, line []byte) {
	var l claudeRequest
	if json.Unmarshal(line, &l) != nil {
		return
	}
	if l.Request.Subtype != "can_use_tool" {
		s.emit(trace.Event{Kind: trace.KindOther, Text: "control_request " + l.Request.Subtype})
		c.respond(s, map[string]any{"subtype": "error", "request_id": l.ID, "error": "not supported: " + l.Request.Subtype})
		return
	}
	if len(l.Request.Input) == 0 {
		l.Request.Input = json.RawMessage("{}")
	}
	c.call(s, c.agents[l.Request.Agent], l.Request.CallID, l.Request.Tool, l.Request.Input)
	c.permit(s, l)
}

func (c *claudeTalk) respond(s *session, response map[string]any) {
	sendJSON(s, map[string]any{"type": "control_response", "response": response})
}

// permit puts a permission or a question to the responder and tells the CLI the reply.
func (c *claudeTalk) permit(s *session, l claudeRequest) {
	input := l.Request.Input
	ask := trace.Ask{ID: l.ID, CallID: l.Request.CallID, Name: l.Request.Tool, Kind: trace.KindOfTool(l.Request.Tool)}
	if ask.Kind == trace.ToolAsk {
		ask.Questions = claudeQuestions(input)
	}
	if len(ask.Questions) == 0 {
		ask.Input = string(input)
		ask.Options = []trace.Option{{ID: "allow", Name: "Allow", Kind: "allow_once"}, {ID: "deny", Name: "Deny", Kind: "reject_once"}}
	}
	s.ask(ask, func(reply responder.Reply) {
		c.respond(s, map[string]any{"subtype": "success", "request_id": l.ID, "response": c.permitted(ask, input, reply)})
	})
}

// permitted is a reply in the words of the CLI.
func (c *claudeTalk) permitted(ask trace.Ask, input json.RawMessage, reply responder.Reply) map[string]any {
	id := ask.CallID
	if reply.Outcome != responder.Allowed {
		c.denied[id] = true
		return map[string]any{"behavior": "deny", "message": cmp.Or(reply.Reason, "denied by policy"), "interrupt": reply.Interrupt}
	}
	if call, open := c.open[id]; open { // what waits for an answer does not run yet
		call.since = time.Now()
		c.open[id] = call
	}
	return map[string]any{"behavior": "allow", "updatedInput": claudeAnswered(input, ask.Questions, reply.Answers)}
}

// claudeQuestions returns the questions that the input of the question tool holds. The CLI takes free text for any of
// them.
func claudeQuestions(input json.RawMessage) []trace.Question {
	var in struct {
		Questions []struct {
			Question string `json:"question"`
			Header   string `json:"header"`
			Multi    bool   `json:"multiSelect"`
			Options  []struct {
				Label       string `json:"label"`
				Description string `json:"description"`
			} `json:"options"`
		} `json:"questions"`
	}
	if json.Unmarshal(input, &in) != nil {
		return nil
	}
	var list []trace.Question
	for _, q := range in.Questions {
		one := trace.Question{Text: q.Question, Header: q.Header, Multi: q.Multi, Free: true}
		for _, o := range q.Options {
			one.Options = append(one.Options, trace.Choice{
				Label: o.Label, Description: o.Description, Default: strings.HasSuffix(o.Label, "(Recommended)"),
			})
		}
		list = append(list, one)
	}
	return list
}

// claudeAnswered returns the input that a tool may run with: the one it asked for, and beside the questions their answers.
func claudeAnswered(input json.RawMessage, questions []trace.Question, answers []string) json.RawMessage {
	fields := map[string]json.RawMessage{}
	if len(questions) == 0 || json.Unmarshal(input, &fields) != nil {
		return input
	}
	told := map[string]string{}
	for i, q := range questions {
		told[q.Text] = answers[i]
	}
	b, err := json.Marshal(told)
	if err != nil {
		panic("harness: texts are always JSON: " + err.Error())
	}
	fields["answers"] = b
	b, err = json.Marshal(fields)
	if err != nil {
		panic("harness: what was JSON is JSON again: " + err.Error())
	}
	return b
}

// A claudeResult is the terminal event.
type claudeResult struct {
	Subtype    string   `json:"subtype"`
	IsError    bool     `json:"is_error"`
	Status     int      `json:"api_error_status"`
	StopReason string   `json:"stop_reason"`
	Terminal   string   `json:"terminal_reason"`
	Result     string   `json:"result"`
	Errors     []string `json:"errors"`
	CostUSD    *float64 `json:"total_cost_usd"`
	Models     map[string]struct {
		Input      *int64 `json:"inputTokens"`
		Output     *int64 `json:"outputTokens"`
		CacheRead  *int64 `json:"cacheReadInputTokens"`
		CacheWrite *int64 `json:"cacheCreationInputTokens"`
	} `json:"modelUsage"`
	Denials []struct {
		Tool string `json:"tool_name"`
		ID   string `json:"tool_use_id"`
	} `json:"permission_denials"`
}

// result takes the end of a turn. With nothing more to hear the CLI ends, and gives commands in the background some
// seconds. While a sub-agent works in the background, though, another turn and its result are to come, and what it asks
// needs our ear.
func (c *claudeTalk) result(s *session, line []byte) {
	if len(c.agents) == 0 {
		s.hangUp()
	}
	var r claudeResult
	if err := json.Unmarshal(line, &r); err != nil { // one that cannot be read is no success
		c.account.Stop, c.account.Class = trace.StopError, trace.ClassHarnessProtocol
		c.account.Detail = "its result line cannot be read: " + err.Error()
		return
	}
	for _, d := range r.Denials { // the CLI denies by rules of its own as well, and says so only here
		if !c.denied[d.ID] {
			c.denied[d.ID] = true
			s.emit(trace.Event{Kind: trace.KindToolResult, Late: true, Tool: &trace.Tool{
				ID: d.ID, Name: d.Tool, Kind: trace.KindOfTool(d.Tool), Status: trace.StatusDenied,
			}})
		}
	}
	used := r.usage()
	if used != nil {
		c.account.Answered = true
		s.emit(trace.Event{Kind: trace.KindUsage, Usage: used})
	}
	if len(c.agents) == 0 {
		c.account.Usage = used
		c.conclude(r)
	}
}

// usage is what all models of the session used, sub-agents included; nil when none was called.
func (r claudeResult) usage() *trace.Usage {
	var sum *trace.Usage
	for _, name := range slices.Sorted(maps.Keys(r.Models)) {
		m := r.Models[name]
		sum = addUsage(sum, claimed(trace.Usage{Input: m.Input, Output: m.Output, CacheRead: m.CacheRead, CacheWrite: m.CacheWrite}))
	}
	if sum != nil {
		sum.CostUSD = count(r.CostUSD)
	}
	return sum
}

// conclude says how the agent ended by its result. The subtype alone does not tell: an API that never answered is a
// success by its subtype.
func (c *claudeTalk) conclude(r claudeResult) {
	a := &c.account
	a.Class, a.FinalText = "", c.lastText
	a.Detail = cmp.Or(r.Result, strings.Join(r.Errors, "; "))
	switch {
	case r.Subtype == "error_max_turns":
		a.Stop = trace.StopMaxTurns
	case r.Subtype == "error_max_budget_usd":
		a.Stop = trace.StopMaxCost
	case r.StopReason == "refusal":
		a.Stop = trace.StopRefusal
	case r.Terminal == "prompt_too_long" && c.turns > 0: // it filled the context itself
		a.Stop, a.Detail = trace.StopMaxTokens, "context overflow: "+a.Detail
	case r.Terminal == "prompt_too_long":
		a.Stop, a.Class = trace.StopError, trace.ClassContextOverflow
	case r.Terminal == "aborted_tools": // as at a SIGINT: had we interrupted it, that would count for more than its word
		a.Stop, a.Class, a.Detail = trace.StopKilled, trace.ClassHarnessCrash, "it was interrupted, which Assay did not do: "+a.Detail
	case c.cut:
		a.Stop = trace.StopMaxTokens
	case r.IsError || r.Subtype != "success":
		a.Stop, a.Class = trace.StopError, c.classOf(r)
	case !a.Answered: // a prompt such as /name is a command of the CLI, and an unknown one a success
		a.Stop, a.Class, a.Detail = trace.StopError, trace.ClassHarnessConfig, "it ended without asking a model: "+cmp.Or(r.Result, "it said nothing")
	default:
		a.Stop, a.FinalText, a.Detail = trace.StopEndTurn, r.Result, ""
	}
}

// classOf is the class of a result that is an error.
func (c *claudeTalk) classOf(r claudeResult) trace.Class {
	switch {
	case r.Status != 0:
		return classOfHTTP(r.Status)
	case c.account.LastFault != nil:
		return c.account.LastFault.Class
	}
	return trace.ClassHarnessCrash
}

// told implements talker.
func (c *claudeTalk) told() account {
	a := c.account
	a.FinalText = cmp.Or(a.FinalText, c.lastText)
	if c.turns > 0 || a.Stop != trace.StopEndTurn {
		a.Turns = &c.turns
	}
	return a
}
