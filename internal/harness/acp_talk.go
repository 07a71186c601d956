package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/assay-ci/assay/internal/trace"
)

// acpTalk is the client's side of one session: JSON-RPC, one frame a line. At any time at most one request of ours is
// open: initialize, session/new, session/set_mode where the agent needs it, session/prompt. Its answer leads to the next.
type acpTalk struct {
	agent   acpAgent
	s       *session
	calls   *acpCalls
	message acpPassage

	id       int    // of our last request
	awaiting string // its method, empty when it is answered
	session  string // the agent's name for it
	mcpHTTP  bool   // it takes tool servers by address
	asks     int
	prompted atomic.Pointer[string] // the session whose prompt runs

	acc  account
	cost *float64 // of the session so far
}

var (
	_ talker  = (*acpTalk)(nil)
	_ quitter = (*acpTalk)(nil)
)

// An acpFrame is one message of either side.
type acpFrame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *acpError       `json:"error"`
}

type acpError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// Codes of JSON-RPC and of the protocol.
const (
	acpNoMethod   = -32601
	acpBadParams  = -32602
	acpInternal   = -32603
	acpNeedsLogin = -32000
	acpNotFound   = -32002
)

// An acpObject is a value that we send.
type acpObject = map[string]any

func (a *acpTalk) begin(s *session) {
	a.s = s
	a.calls = newACPCalls(a.agent, s.task.Work, func(e trace.Event) {
		a.acc.Answered = true
		s.emit(e)
	})
	a.request("initialize", acpObject{
		"protocolVersion": 1,
		"clientInfo":      acpObject{"name": "assay", "version": "1"},
		"clientCapabilities": acpObject{
			"fs":          acpObject{"readTextFile": true, "writeTextFile": true},
			"terminal":    false,
			"elicitation": acpObject{"form": acpObject{}},
		},
	})
}

func (a *acpTalk) line(s *session, line []byte) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	var f acpFrame
	if err := json.Unmarshal(line, &f); err != nil {
		a.other("a line that is no frame of the protocol")
		return
	}
	a.calls.line = s.rawLine
	hasID := len(f.ID) > 0 && string(f.ID) != "null"
	switch {
	case f.Method == "session/update":
		a.update(f.Params, line)
	case f.Method != "" && hasID:
		a.asked(f)
	case f.Method == "" && hasID && a.awaiting != "" && string(f.ID) == strconv.Itoa(a.id):
		a.answered(f)
	default:
		a.other(f.Method)
	}
}

// told implements talker. What was open when the agent's output ended stays without an answer.
func (a *acpTalk) told() account {
	a.flush()
	a.calls.line = 0
	a.calls.endAll()
	if a.acc.Usage == nil && a.cost != nil {
		a.acc.Usage = &trace.Usage{Scope: "session", Source: "agent"}
	}
	if a.acc.Usage != nil {
		a.acc.Usage.CostUSD = a.cost
	}
	return a.acc
}

// quit implements quitter: the protocol can cancel a prompt that runs, and no more.
func (a *acpTalk) quit(s *session) {
	if id := a.prompted.Load(); id != nil {
		a.send(acpObject{"jsonrpc": "2.0", "method": "session/cancel", "params": acpObject{"sessionId": *id}})
		return
	}
	s.hangUp()
}

// send gives the agent one frame.
func (a *acpTalk) send(frame acpObject) {
	line, err := acpJSON(frame)
	if err != nil {
		panic("harness: a frame of ours is always JSON: " + err.Error())
	}
	a.s.send([]byte(line))
}

func (a *acpTalk) request(method string, params acpObject) {
	a.id++
	a.awaiting = method
	a.send(acpObject{"jsonrpc": "2.0", "id": a.id, "method": method, "params": params})
}

func (a *acpTalk) reply(id json.RawMessage, result acpObject) {
	a.send(acpObject{"jsonrpc": "2.0", "id": id, "result": result})
}

func (a *acpTalk) refuse(id json.RawMessage, code int, format string, args ...any) {
	a.send(acpObject{"jsonrpc": "2.0", "id": id, "error": acpObject{"code": code, "message": fmt.Sprintf(format, args...)}})
}

// other keeps a frame that says nothing of the agent's work.
func (a *acpTalk) other(what string) {
	a.s.emit(trace.Event{Kind: trace.KindOther, Text: what})
}

// answered takes the answer to our request and makes the next one.
func (a *acpTalk) answered(f acpFrame) {
	method := a.awaiting
	a.awaiting = ""
	a.prompted.Store(nil)
	if f.Error != nil {
		a.failed(method, *f.Error)
		return
	}
	var err error
	switch method {
	case "initialize":
		err = a.initialized(f.Result)
	case "session/new":
		err = a.opened(f.Result)
	case "session/set_mode":
		a.other(method)
		a.prompt()
	case "session/prompt":
		err = a.ended(f.Result)
	}
	if err != nil {
		a.fail(trace.Fault{Class: trace.ClassHarnessProtocol, Detail: fmt.Sprintf("its answer to %s: %v", method, err)})
	}
}

func (a *acpTalk) initialized(result json.RawMessage) error {
	var r struct {
		Version int `json:"protocolVersion"`
		Agent   struct {
			Version string `json:"version"`
		} `json:"agentInfo"`
		Can struct {
			MCP struct {
				HTTP bool `json:"http"`
			} `json:"mcpCapabilities"`
		} `json:"agentCapabilities"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	a.other("initialize")
	if r.Version != 1 {
		return fmt.Errorf("it speaks version %d of the protocol, and Assay 1", r.Version)
	}
	a.acc.Version, a.mcpHTTP = trace.Shorten(r.Agent.Version, maxName), r.Can.MCP.HTTP
	servers, fault := a.mcpServers()
	if fault != "" {
		a.fail(trace.Fault{Class: trace.ClassHarnessConfig, Detail: fault})
		return nil
	}
	a.request("session/new", acpObject{"cwd": a.s.task.Work, "mcpServers": servers})
	return nil
}

// mcpServers are the tool servers of the condition in the words of the protocol.
func (a *acpTalk) mcpServers() (servers []acpObject, fault string) {
	servers = []acpObject{}
	for _, m := range a.s.task.Extras.MCP {
		if m.URL != "" {
			if !a.mcpHTTP {
				return nil, fmt.Sprintf("the agent takes no tool server by address, such as %s; name its program instead", m.Name)
			}
			servers = append(servers, acpObject{"type": "http", "name": m.Name, "url": m.URL, "headers": []acpObject{}})
			continue
		}
		if len(m.Argv) == 0 {
			return nil, fmt.Sprintf("the tool server %s has neither a program nor an address", m.Name)
		}
		env := []acpObject{}
		for _, kv := range m.Env {
			name, value, _ := strings.Cut(kv, "=")
			env = append(env, acpObject{"name": name, "value": value})
		}
		servers = append(servers, acpObject{"name": m.Name, "command": m.Argv[0], "args": append([]string{}, m.Argv[1:]...), "env": env})
	}
	return servers, ""
}

func (a *acpTalk) opened(result json.RawMessage) error {
	var r struct {
		Session string `json:"sessionId"`
		Modes   struct {
			Current   string `json:"currentModeId"`
			Available []struct {
				ID string `json:"id"`
			} `json:"availableModes"`
		} `json:"modes"`
		Models struct {
			Current string `json:"currentModelId"`
		} `json:"models"`
		Options []struct {
			ID      string          `json:"id"`
			Current json.RawMessage `json:"currentValue"`
		} `json:"configOptions"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	a.other("session/new")
	a.session, a.acc.Model = r.Session, r.Models.Current
	for _, o := range r.Options {
		if o.ID == "model" && a.acc.Model == "" {
			json.Unmarshal(o.Current, &a.acc.Model) // of another type: not told
		}
	}
	a.acc.Model = trace.Shorten(a.acc.Model, maxName)
	if a.agent.mode == "" || a.agent.mode == r.Modes.Current {
		a.prompt()
		return nil
	}
	var offered []string
	for _, m := range r.Modes.Available {
		if m.ID == a.agent.mode {
			a.request("session/set_mode", acpObject{"sessionId": a.session, "modeId": a.agent.mode})
			return nil
		}
		offered = append(offered, trace.Shorten(m.ID, 200))
	}
	offered = offered[:min(len(offered), 10)]
	a.fail(trace.Fault{Class: trace.ClassHarnessConfig,
		Detail: fmt.Sprintf("the agent has no mode %s; it has %q", a.agent.mode, offered)})
	return nil
}

func (a *acpTalk) prompt() {
	id := a.session
	a.prompted.Store(&id)
	a.request("session/prompt", acpObject{"sessionId": id, "prompt": []acpObject{{"type": "text", "text": a.s.task.Prompt}}})
}

// ended takes the terminal event.
func (a *acpTalk) ended(result json.RawMessage) error {
	var r struct {
		Reason string    `json:"stopReason"`
		Usage  *acpUsage `json:"usage"`
		Meta   struct {
			Quota *acpQuota `json:"quota"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	a.flush()
	a.calls.endAll()
	a.account(r.Usage, r.Meta.Quota)
	switch r.Reason {
	case "end_turn":
		a.acc.Stop = trace.StopEndTurn
	case "refusal":
		a.acc.Stop, a.acc.Detail = trace.StopRefusal, "the model refused"
	case "max_tokens":
		a.acc.Stop, a.acc.Detail = trace.StopMaxTokens, "the agent says that its model reached a token limit"
	case "max_turn_requests":
		a.acc.Stop, a.acc.Detail = trace.StopMaxTurns, "the agent reached a limit of its own"
		if a.agent.ownLimit != "" {
			a.acc.Detail = a.agent.ownLimit
		}
	case "cancelled":
		a.acc.Stop, a.acc.Detail = trace.StopCancelled, "the agent says that it was cancelled"
	default:
		return fmt.Errorf("stop reason %q is none", trace.Shorten(r.Reason, 100))
	}
	a.s.done()
	return nil
}

// failed takes an error in place of an answer.
func (a *acpTalk) failed(method string, e acpError) {
	a.disown(e.Message)
	if method == "session/prompt" && refused(e) {
		a.s.emit(trace.Event{Kind: trace.KindOther, Text: method})
		a.acc.Stop, a.acc.Detail = trace.StopRefusal, "the model refused"
		a.s.done()
		return
	}
	f := a.agent.faultOf(e)
	if method != "session/prompt" && f.HTTP == 0 && f.Class != trace.ClassModelAuth {
		f.Class = trace.ClassHarnessConfig
	}
	f.Detail = method + ": " + f.Detail
	a.fail(f)
}

// fail ends a session that cannot go on.
func (a *acpTalk) fail(f trace.Fault) {
	a.flush()
	a.calls.endAll()
	a.s.emit(trace.Event{Kind: trace.KindError, Err: &f})
	a.acc.Stop, a.acc.Class, a.acc.Detail, a.acc.LastFault = trace.StopError, f.Class, f.Detail, &f
	a.s.done()
}

// A passage is a message or a thought that arrives in pieces.
type acpPassage struct {
	kind       trace.Kind
	id, parent string // of its message; the sub-agent that speaks
	text       *trace.Excerpt
	natives    acpLines
}

// piece adds to the passage, or begins another one.
func (a *acpTalk) piece(kind trace.Kind, id, parent, text string, line []byte) {
	if a.agent.chatter != nil && a.agent.chatter(text) {
		a.s.emit(warning(text))
		return
	}
	m := &a.message
	if m.text == nil || m.kind != kind || m.id != id || m.parent != parent {
		a.flush()
		*m = acpPassage{kind: kind, id: id, parent: parent, text: trace.NewExcerpt()}
	}
	io.WriteString(m.text, text)
	m.natives.add(line, a.s.rawLine)
}

// flush puts the passage into the trace.
func (a *acpTalk) flush() {
	m := a.message
	a.message = acpPassage{}
	if m.text == nil {
		return
	}
	e := trace.Event{Kind: m.kind, Text: m.text.String(), Parent: m.parent}
	e.Raw, e.RawLine = m.natives.take()
	if strings.TrimSpace(e.Text) == "" {
		e.Kind, e.Text = trace.KindOther, "an empty message"
	} else {
		a.acc.Answered = true
	}
	if e.Kind == trace.KindAssistantText && e.Parent == "" {
		a.acc.FinalText = e.Text
	}
	a.s.emit(e)
}

// disown marks the message in progress as the agent's own when it only repeats an error that follows it.
func (a *acpTalk) disown(reason string) {
	m := &a.message
	if m.text == nil {
		return
	}
	text := m.text.String()
	if strings.TrimSpace(text) == "" || !strings.Contains(reason, text) {
		return
	}
	e := trace.Event{Kind: m.kind, Text: text, Synthetic: true}
	e.Raw, e.RawLine = m.natives.take()
	a.message = acpPassage{}
	a.s.emit(e)
}

// update takes what the agent tells of its work.
func (a *acpTalk) update(params json.RawMessage, line []byte) {
	var p struct {
		Update json.RawMessage `json:"update"`
	}
	var u struct {
		Is      string          `json:"sessionUpdate"`
		Message string          `json:"messageId"`
		Content json.RawMessage `json:"content"`
		Meta    json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(params, &p) != nil || json.Unmarshal(p.Update, &u) != nil {
		a.other("session/update")
		return
	}
	known := false
	switch u.Is {
	case "agent_message_chunk", "agent_thought_chunk":
		kind := trace.KindAssistantText
		if u.Is == "agent_thought_chunk" {
			kind = trace.KindThinking
		}
		if known = acpHasText(u.Content); known {
			a.piece(kind, u.Message, metaOf(u.Meta).Parent, acpText(u.Content), line)
		}
	case "tool_call", "tool_call_update":
		var c acpCallUpdate
		if json.Unmarshal(p.Update, &c) == nil {
			a.flush()
			known = a.calls.update(c, line)
		}
	case "plan":
		known = a.plan(p.Update)
	case "usage_update":
		known = a.filled(p.Update)
	}
	if !known {
		a.other(u.Is)
	}
}

func acpHasText(content json.RawMessage) bool {
	var c struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	return json.Unmarshal(content, &c) == nil && c.Type == "text" && c.Text != nil
}

func (a *acpTalk) plan(update json.RawMessage) bool {
	var u struct {
		Entries []struct {
			Text   string `json:"content"`
			Status string `json:"status"`
		} `json:"entries"`
	}
	if json.Unmarshal(update, &u) != nil {
		return false
	}
	a.flush()
	e := trace.Event{Kind: trace.KindPlan}
	for _, entry := range u.Entries {
		e.Plan = append(e.Plan, trace.PlanItem{Text: entry.Text, Status: entry.Status})
	}
	a.s.emit(e)
	return true
}

// filled takes how full the context is, and what the session has cost so far where the agent tells it.
func (a *acpTalk) filled(update json.RawMessage) bool {
	var u struct {
		Used int64 `json:"used"`
		Size int64 `json:"size"`
		Cost *struct {
			Amount   float64 `json:"amount"`
			Currency string  `json:"currency"`
		} `json:"cost"`
	}
	if json.Unmarshal(update, &u) != nil {
		return false
	}
	usage := trace.Usage{Scope: "context", Source: "agent"}
	if u.Cost != nil && u.Cost.Currency == "USD" {
		usage.Scope, usage.CostUSD = "session", count(&u.Cost.Amount)
		a.cost = usage.CostUSD
	}
	a.s.emit(trace.Event{Kind: trace.KindUsage, Usage: &usage, Text: fmt.Sprintf("%d of %d tokens of context", u.Used, u.Size)})
	return true
}

// acpUsage is the usage at the end of a prompt.
type acpUsage struct {
	Input      *int64 `json:"inputTokens"`
	Output     *int64 `json:"outputTokens"`
	Thought    *int64 `json:"thoughtTokens"`
	CacheRead  *int64 `json:"cachedReadTokens"`
	CacheWrite *int64 `json:"cachedWriteTokens"`
	Total      *int64 `json:"totalTokens"`
}

// acpQuota is gemini's report.
type acpQuota struct {
	Tokens struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
	} `json:"token_count"`
}

// account takes the agent's own report of the tokens. Only one whose parts add up to its total is understood.
func (a *acpTalk) account(u *acpUsage, q *acpQuota) {
	switch {
	case u != nil && u.Total != nil && *u.Total > 0:
		usage := trace.Usage{
			Input: u.Input, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Output: plusIf(u.Output, u.Thought), Reasoning: u.Thought,
			Scope: "session", Source: "agent",
		}
		text := ""
		if sum := worth(u.Input) + worth(u.CacheRead) + worth(u.CacheWrite) + worth(usage.Output); sum != *u.Total {
			usage.Input, usage.Output = nil, nil
			text = fmt.Sprintf("the parts sum to %d and the total is %d, so what they hold is not known", sum, *u.Total)
		}
		usage = claimed(usage)
		if a.agent.lastStep {
			usage.Scope = "last_step"
		} else {
			kept := usage
			a.acc.Usage = &kept
		}
		a.s.emit(trace.Event{Kind: trace.KindUsage, Usage: &usage, Text: text})
	case q != nil:
		a.s.emit(trace.Event{Kind: trace.KindUsage, Usage: &trace.Usage{Scope: "session", Source: "agent"},
			Text: fmt.Sprintf("%d input tokens with those from the cache, %d output tokens without thoughts; the main model only", q.Tokens.Input, q.Tokens.Output)})
	default:
		a.other("session/prompt")
	}
}

func worth(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// plusIf adds what is known to a number.
func plusIf(n, more *int64) *int64 {
	if n == nil || more == nil {
		return n
	}
	return plus(n, more)
}

// refused reports whether an error is how the agent tells of a refusal.
func refused(e acpError) bool {
	return strings.Contains(e.text(), "content_filter")
}

// maxErrorText is how many bytes of an error are kept.
const maxErrorText = 2000

// text is what an error says in words.
func (e acpError) text() string {
	var d struct {
		Message string `json:"message"`
	}
	json.Unmarshal(e.Data, &d) // of another shape: it has no words
	return trace.Shorten(printable(e.Message+" "+d.Message), maxErrorText)
}

// faultOf says what kind of fault an error of the agent tells of.
func (a acpAgent) faultOf(e acpError) trace.Fault {
	text := e.text()
	f := trace.Fault{Class: trace.ClassHarnessCrash, HTTP: acpStatus(e.Code, text), Detail: text}
	var d struct {
		Name string `json:"errorName"`
	}
	if json.Unmarshal(e.Data, &d) == nil && f.HTTP == 0 && a.fault != nil {
		f.HTTP = a.fault(d.Name)
	}
	switch {
	case strings.Contains(text, "context window"), strings.Contains(text, "context length"), strings.Contains(text, "rompt is too long"):
		f.Class = trace.ClassContextOverflow
	case f.HTTP != 0:
		f.Class = classOfHTTP(f.HTTP)
	case e.Code == acpNeedsLogin:
		f.Class = trace.ClassModelAuth
	case e.Code != acpInternal:
		f.Class = trace.ClassHarnessProtocol
	}
	return f
}

// acpStatus finds the HTTP status that an error tells in its code or in its words, 0 when it tells none.
func acpStatus(code int, text string) int {
	if code >= 400 && code < 600 {
		return code
	}
	for _, before := range []string{"API Error: ", `"code": `, `"code":`, "status code ", "unexpected status ", "HTTP "} {
		_, rest, found := strings.Cut(text, before)
		if !found || len(rest) < 3 {
			continue
		}
		if n, err := strconv.Atoi(rest[:3]); err == nil && n >= 400 && n < 600 {
			return n
		}
	}
	return 0
}
