package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-ci/assay/internal/trace"
)

// A codexTalker understands the lines of codex exec --json. It says the prompt, and nothing else.
type codexTalker struct {
	said    account
	thread  string            // id of the session, which names its file
	begun   map[string]bool   // items that have started and not completed
	calls   int               // that were told and have an item in the session file
	agents  map[string]string // thread of a sub-agent: the call that started it
	ended   map[string]bool   // threads of sub-agents that are done
	plan    string            // the last one that was told
	trouble string            // text of the last error
}

var _ talker = (*codexTalker)(nil)

func newCodexTalker() *codexTalker {
	return &codexTalker{begun: map[string]bool{}, agents: map[string]string{}, ended: map[string]bool{}}
}

func (c *codexTalker) begin(s *session) {
	s.stdin.Write([]byte(s.task.Prompt))
	s.hangUp()
}

// told returns the account. Codex counts what its first agent used: with sub-agents, what the session used is not known.
func (c *codexTalker) told() account {
	a := c.said
	if len(c.agents) > 0 {
		a.Usage = nil
	}
	return a
}

// codexLine is one line of standard output.
type codexLine struct {
	Type     string      `json:"type"`
	ThreadID string      `json:"thread_id"`
	Message  string      `json:"message"`
	Error    codexError  `json:"error"`
	Usage    *codexUsage `json:"usage"`
	Item     codexItem   `json:"item"`
}

type codexError struct {
	Message string `json:"message"`
}

type codexUsage struct {
	Input      *int64 `json:"input_tokens"` // cached ones included
	Cached     *int64 `json:"cached_input_tokens"`
	CacheWrite *int64 `json:"cache_write_input_tokens"`
	Output     *int64 `json:"output_tokens"` // reasoning included
	Reasoning  *int64 `json:"reasoning_output_tokens"`
}

// codexItem is one thing that the agent did; which fields are set depends on its type.
type codexItem struct {
	ID, Type, Status string

	Text    string // of agent_message and reasoning
	Message string // of error

	Command  string // of command_execution
	Output   string `json:"aggregated_output"`
	ExitCode *int   `json:"exit_code"`

	Changes []struct{ Path, Kind string } // of file_change

	Server    string // of mcp_tool_call
	Tool      string // of mcp_tool_call and collab_tool_call
	Arguments json.RawMessage
	Result    struct{ Content []codexText }
	Error     *codexError

	Prompt    *string                                     // of collab_tool_call
	Receivers []string                                    `json:"receiver_thread_ids"`
	States    map[string]struct{ Status, Message string } `json:"agents_states"`

	Query string // of web_search

	Items []struct { // of todo_list
		Text      string
		Completed bool
	}
}

type codexText struct{ Type, Text string }

// looseJSON decodes b into a pointer to a struct. A field of another type than expected is as good as absent: what else the
// line says still counts. It returns false for what is not JSON.
func looseJSON(b []byte, into any) bool {
	err := json.Unmarshal(b, into)
	var mistyped *json.UnmarshalTypeError
	return err == nil || errors.As(err, &mistyped)
}

func (c *codexTalker) line(s *session, line []byte) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	var l codexLine
	if !looseJSON(line, &l) {
		s.emit(trace.Event{Kind: trace.KindOther, Text: "a line that is not JSON"})
		return
	}
	switch l.Type {
	case "thread.started":
		c.thread = l.ThreadID
	case "turn.started": // an earlier turn's end is not the end any more
		c.said.Stop, c.said.Class, c.said.Detail = "", "", ""
	case "turn.completed":
		c.completed(s, l.Usage)
	case "turn.failed":
		c.failed(s, l.Error.Message)
	case "error":
		c.fault(s, l.Message)
	case "item.started", "item.updated", "item.completed":
		c.item(s, l.Item, strings.TrimPrefix(l.Type, "item."))
	default:
		s.emit(trace.Event{Kind: trace.KindOther})
	}
}

func (c *codexTalker) completed(s *session, u *codexUsage) {
	c.answered()
	c.said.Stop, c.said.Class, c.said.Detail = trace.StopEndTurn, "", ""
	if u == nil {
		return
	}
	usage := u.neutral()
	c.said.Usage = &usage
	s.emit(trace.Event{Kind: trace.KindUsage, Usage: &usage})
}

func (u codexUsage) neutral() trace.Usage {
	n := claimed(trace.Usage{CacheRead: u.Cached, CacheWrite: u.CacheWrite, Output: u.Output, Reasoning: u.Reasoning, Scope: "session"})
	if all := count(u.Input); all != nil && n.CacheRead != nil {
		input := *all - *n.CacheRead
		n.Input = count(&input)
	}
	return n
}

// answered notes that a model answered: what went wrong before is over.
func (c *codexTalker) answered() {
	c.said.Answered, c.said.LastFault = true, nil
}

func (c *codexTalker) failed(s *session, text string) {
	if text != c.trouble { // else the line before has told it
		c.fault(s, text)
	}
	f := codexFault(text)
	c.said.Stop, c.said.Class, c.said.Detail = trace.StopError, f.Class, printable(text)
	switch {
	case strings.Contains(text, "content_filter"):
		c.said.Stop, c.said.Class = trace.StopRefusal, ""
	case strings.Contains(text, "reason: max_output_tokens"):
		c.said.Stop, c.said.Class = trace.StopMaxTokens, ""
	}
}

func (c *codexTalker) fault(s *session, text string) {
	f := codexFault(text)
	kind := trace.KindError
	if strings.HasPrefix(text, "Reconnecting... ") {
		kind, f.Retryable = trace.KindRetry, true
	}
	c.trouble, c.said.LastFault = text, &f
	s.emit(trace.Event{Kind: kind, Err: &f})
}

// codexFault reads an error of codex, which is a text, or the body of the provider's answer.
func codexFault(text string) trace.Fault {
	status := statusIn(text)
	f := trace.Fault{Class: classOfHTTP(status), HTTP: status, Detail: text}
	if strings.Contains(text, "context window") {
		f.Class = trace.ClassContextOverflow
	}
	return f
}

// statusIn finds the HTTP status in an error of codex, 0 when it tells none.
func statusIn(text string) int {
	for _, mark := range []string{"last status: ", "unexpected status "} {
		if _, after, ok := strings.Cut(text, mark); ok && len(after) >= 3 {
			if n, err := strconv.Atoi(after[:3]); err == nil && n >= 400 && n < 600 {
				return n
			}
		}
	}
	var body struct{ Error struct{ Type string } }
	if !looseJSON([]byte(text), &body) {
		return 0
	}
	switch body.Error.Type {
	case "invalid_request_error":
		return 400
	case "authentication_error":
		return 401
	case "rate_limit_error", "insufficient_quota":
		return 429
	}
	return 0
}

// item tells one item. phase is started, updated or completed.
func (c *codexTalker) item(s *session, it codexItem, phase string) {
	switch {
	case it.Type == "agent_message" && phase == "completed":
		c.answered()
		c.said.FinalText = it.Text
		s.emit(trace.Event{Kind: trace.KindAssistantText, Text: it.Text})
	case it.Type == "reasoning" && phase == "completed":
		c.answered()
		s.emit(trace.Event{Kind: trace.KindThinking, Text: it.Text})
	case it.Type == "error":
		s.emit(warning(it.Message))
	case it.Type == "todo_list":
		c.answered()
		c.tellPlan(s, it)
	default:
		call, known := it.call()
		if !known || phase == "updated" {
			s.emit(trace.Event{Kind: trace.KindOther})
			return
		}
		c.answered()
		c.tellCall(s, it, call, phase)
	}
}

// tellPlan tells a plan when it has changed: the end of a turn says it again.
func (c *codexTalker) tellPlan(s *session, it codexItem) {
	var plan []trace.PlanItem
	for _, step := range it.Items {
		status := "pending"
		if step.Completed {
			status = "completed"
		}
		plan = append(plan, trace.PlanItem{Text: step.Text, Status: status})
	}
	if now := fmt.Sprintf("%q", plan); now != c.plan {
		c.plan = now
		s.emit(trace.Event{Kind: trace.KindPlan, Plan: plan})
	}
}

func (c *codexTalker) tellCall(s *session, it codexItem, call trace.Tool, phase string) {
	if !c.begun[it.ID] {
		c.begun[it.ID] = true
		if it.Type != "web_search" {
			c.calls++
		}
		s.emit(trace.Event{Kind: trace.KindToolCall, Tool: &call})
	}
	if phase != "completed" {
		return
	}
	delete(c.begun, it.ID)
	result := it.result()
	result.ID, result.Name, result.Kind = call.ID, call.Name, call.Kind
	s.emit(trace.Event{Kind: trace.KindToolResult, Tool: &result})
	if it.Type == "collab_tool_call" {
		c.tellAgents(s, it)
	}
}

// tellAgents tells which sub-agents a call has started, and which it found to be done.
func (c *codexTalker) tellAgents(s *session, it codexItem) {
	for _, thread := range it.Receivers {
		if _, known := c.agents[thread]; it.Tool == "spawn_agent" && !known {
			c.agents[thread] = it.ID
			s.emit(trace.Event{Kind: trace.KindSubagent, Parent: it.ID, Text: "started"})
		}
	}
	for _, thread := range slices.Sorted(maps.Keys(it.States)) {
		state := it.States[thread]
		if !c.ended[thread] && (state.Status == "completed" || state.Status == "errored" || state.Status == "shutdown") {
			c.ended[thread] = true
			s.emit(trace.Event{Kind: trace.KindSubagent, Parent: c.agents[thread], Text: "done: " + state.Message})
		}
	}
}

// call is the tool call that an item is; known is false for an item that is none.
func (it codexItem) call() (call trace.Tool, known bool) {
	call = trace.Tool{ID: it.ID, Name: it.Type, Kind: trace.KindOfTool(it.Type)}
	switch it.Type {
	case "command_execution":
		call.Input = inputOf(map[string]any{"command": it.Command})
	case "file_change":
		call.Input = inputOf(map[string]any{"changes": it.Changes})
		for _, change := range it.Changes {
			call.Paths = append(call.Paths, change.Path)
		}
	case "mcp_tool_call":
		call.Name, call.Input = mcpName(it.Server, it.Tool), it.Arguments
	case "collab_tool_call":
		call.Name, call.Kind = it.Tool, trace.ToolAgent
		call.Input = inputOf(map[string]any{"prompt": it.Prompt, "receivers": it.Receivers})
	case "web_search":
		call.Kind, call.Input = trace.ToolFetch, inputOf(map[string]any{"query": it.Query})
	default:
		return trace.Tool{}, false
	}
	return call, true
}

// mcpName is the name of a server's tool as agents have it in common.
func mcpName(server, tool string) string { return "mcp__" + server + "__" + tool }

func inputOf(fields map[string]any) json.RawMessage {
	b, err := json.Marshal(fields)
	if err != nil {
		panic("harness: what came from JSON is always JSON: " + err.Error())
	}
	return b
}

// result says how the call ended that an item is.
func (it codexItem) result() trace.Tool {
	r := trace.Tool{Status: codexStatus(it.Status), Output: it.Output}
	r.Exit, r.Status = knownExit(it.ExitCode, r.Status)
	switch {
	case it.Error != nil:
		r.Status, r.Output = trace.StatusError, it.Error.Message
	case it.Type == "mcp_tool_call":
		r.Output = joinTexts(it.Result.Content)
	}
	return r
}

func codexStatus(status string) trace.ToolStatus {
	switch status {
	case "completed", "": // a search has none
		return trace.StatusOK
	case "failed":
		return trace.StatusError
	case "declined":
		return trace.StatusDenied
	}
	return trace.StatusNone
}

// knownExit is the exit code of a command and what it makes of its status. Codex says -1 for a command that it ended.
func knownExit(code *int, status trace.ToolStatus) (*int, trace.ToolStatus) {
	if code != nil && *code != 0 && status == trace.StatusOK {
		status = trace.StatusError
	}
	if code != nil && *code < 0 {
		code = nil
	}
	return code, status
}

func joinTexts(list []codexText) string {
	var texts []string
	for _, part := range list {
		if part.Text != "" {
			texts = append(texts, part.Text)
		}
	}
	return strings.Join(texts, "\n")
}
