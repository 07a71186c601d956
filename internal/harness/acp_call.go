package harness

import (
	"bytes"
	"encoding/json"
	"io"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-ci/assay/internal/trace"
)

// An acpCallUpdate is what a frame says of a tool call: all of it in the first, what has changed in those that follow.
// A permission request carries one too, and may be the first.
type acpCallUpdate struct {
	Update    string          `json:"sessionUpdate"` // empty in a permission request
	ID        string          `json:"toolCallId"`
	Title     string          `json:"title"`
	Kind      string          `json:"kind"`
	Status    string          `json:"status"`
	RawInput  json.RawMessage `json:"rawInput"`
	RawOutput json.RawMessage `json:"rawOutput"`
	Content   []struct {
		Type    string          `json:"type"`
		Content json.RawMessage `json:"content"`
		Path    string          `json:"path"`
		OldText string          `json:"oldText"`
		NewText string          `json:"newText"`
	} `json:"content"`
	Locations []struct {
		Path string `json:"path"`
	} `json:"locations"`
	Meta json.RawMessage `json:"_meta"`
}

// acpMeta is what claude-agent-acp adds to its updates.
type acpMeta struct {
	ToolName string `json:"toolName"`
	Parent   string `json:"parentToolUseId"`
}

func (u acpCallUpdate) meta() acpMeta { return metaOf(u.Meta) }

// metaOf reads what anyone may write into as he likes: what has another shape says nothing.
func metaOf(raw json.RawMessage) acpMeta {
	var m struct {
		Claude acpMeta `json:"claudeCode"`
	}
	if json.Unmarshal(raw, &m) != nil {
		return acpMeta{}
	}
	return m.Claude
}

const (
	maxOpenCalls = 256      // of one session; the oldest is given up for a further one
	maxEnded     = 4096     // ids of ended calls that are remembered
	maxName      = 512      // bytes of a name that an agent gives; a path may have eight times as many
	maxInput     = 1 << 20  // bytes of a call's input, or of its output, that are kept while it is open
	maxFrames    = 64 << 10 // bytes of native lines that are kept behind one event
)

// acpCalls merges what is told of tool calls into one call and one result each.
type acpCalls struct {
	agent acpAgent
	work  string
	emit  func(trace.Event)
	open  map[string]*acpCall
	order []string // ids of open calls, oldest first
	ended map[string]bool
	line  int // number of the frame that is being understood
}

// An acpCall is one call that has not ended.
type acpCall struct {
	tool    trace.Tool
	kind    string          // the protocol's
	shown   json.RawMessage // the input that its event told
	told    bool            // its event is in the trace
	denied  bool
	parent  string
	out     json.RawMessage // rawOutput
	text    string          // of its content
	natives acpLines
}

func newACPCalls(agent acpAgent, work string, emit func(trace.Event)) *acpCalls {
	return &acpCalls{agent: agent, work: work, emit: emit, open: map[string]*acpCall{}, ended: map[string]bool{}}
}

// at returns the open call with the update's id, a new one at its first sight. It is nil for a call that has ended, or whose
// id is none.
func (cs *acpCalls) at(u acpCallUpdate) *acpCall {
	if c := cs.open[u.ID]; c != nil {
		return c
	}
	if u.ID == "" || len(u.ID) > maxName || cs.ended[u.ID] {
		return nil
	}
	if len(cs.order) == maxOpenCalls {
		cs.end(cs.open[cs.order[0]], "")
	}
	c := &acpCall{tool: trace.Tool{ID: u.ID}}
	cs.open[u.ID] = c
	cs.order = append(cs.order, u.ID)
	return c
}

// update takes one update of a call. It reports whether there is a call that it belongs to.
func (cs *acpCalls) update(u acpCallUpdate, frame []byte) bool {
	c := cs.at(u)
	if c == nil {
		return false
	}
	c.natives.add(frame, cs.line)
	cs.merge(c, u)
	switch u.Status {
	case "completed", "failed":
		cs.end(c, u.Status)
		return true
	}
	// Some agents announce a call before they know its arguments.
	if u.Status == "in_progress" || u.Update == "tool_call_update" && len(c.tool.Input) > 0 {
		cs.tell(c)
	}
	return true
}

// asked takes the call of a permission request and makes sure that it is in the trace. It is nil for a call that is none.
func (cs *acpCalls) asked(u acpCallUpdate) *acpCall {
	c := cs.at(u)
	if c == nil {
		return nil
	}
	cs.merge(c, u)
	cs.tell(c)
	return c
}

// merge adds what an update says. What it leaves out or leaves empty has not changed.
func (cs *acpCalls) merge(c *acpCall, u acpCallUpdate) {
	if cs.agent.nameOf != nil {
		if name := cs.agent.nameOf(u); name != "" && len(name) <= maxName {
			c.tool.Name = name
		}
	}
	if u.Kind != "" {
		c.kind = u.Kind
	}
	if u.Title != "" {
		c.tool.Title = u.Title
	}
	if m := u.meta(); m.Parent != "" {
		c.parent = m.Parent
	}
	if !blankJSON(u.RawInput) && len(u.RawInput) <= maxInput {
		c.tool.Input = u.RawInput
	}
	if !blankJSON(u.RawOutput) && len(u.RawOutput) <= maxInput {
		c.out = u.RawOutput
	}
	for _, l := range u.Locations {
		cs.addPath(c, l.Path)
	}
	var text strings.Builder
	for _, part := range u.Content {
		if part.Type == "diff" {
			cs.addPath(c, part.Path)
			c.tool.Diff = acpDiff(cs.relative(part.Path), part.OldText, part.NewText)
		}
		text.WriteString(acpText(part.Content))
	}
	// While a call is open, its content says what it is about to do.
	if (u.Status == "completed" || u.Status == "failed") && text.Len() <= maxInput {
		c.text = text.String()
	}
	c.tool.Kind = kindOfCall(c.tool.Name, c.kind)
	cs.wrapped(c, u)
}

// wrapped sees a call of a tool that is not there, which the agent makes a call of another tool that always succeeds.
func (cs *acpCalls) wrapped(c *acpCall, u acpCallUpdate) {
	if cs.agent.noTool == "" || u.Title != cs.agent.noTool && c.tool.Name != cs.agent.noTool {
		return
	}
	c.tool.Status = trace.StatusError
	var in struct {
		Tool string `json:"tool"`
	}
	if json.Unmarshal(c.tool.Input, &in) == nil && in.Tool != "" && len(in.Tool) <= maxName {
		c.tool.Name, c.tool.Kind = in.Tool, trace.KindOfTool(in.Tool)
	}
}

func (cs *acpCalls) addPath(c *acpCall, p string) {
	if p = cs.relative(p); p != "" && len(p) <= 8*maxName && len(c.tool.Paths) < 100 && !slices.Contains(c.tool.Paths, p) {
		c.tool.Paths = append(slices.Clip(c.tool.Paths), p) // an event may hold the list
	}
}

// relative is a path as the tree knows it; one outside stays as it is.
func (cs *acpCalls) relative(p string) string {
	if p == cs.work {
		return "."
	}
	return strings.TrimPrefix(p, strings.TrimSuffix(cs.work, "/")+"/")
}

// tell puts the call into the trace, once.
func (cs *acpCalls) tell(c *acpCall) {
	if c.told {
		return
	}
	c.told, c.shown = true, c.tool.Input
	call := trace.Tool{ID: c.tool.ID, Name: c.tool.Name, Kind: c.tool.Kind, Input: c.tool.Input, Paths: c.tool.Paths, Title: c.tool.Title}
	e := trace.Event{Kind: trace.KindToolCall, Parent: c.parent, Tool: &call}
	cs.put(e, &c.natives)
}

// end puts the result of the call into the trace and forgets it. status is the protocol's, empty when none came.
func (cs *acpCalls) end(c *acpCall, status string) {
	cs.tell(c)
	r := c.tool
	r.Output = cs.output(c)
	r.Exit = exitOf(c, status)
	r.Status = statusOf(c, status, r.Exit)
	if sameJSON(r.Input, c.shown) {
		r.Input = nil
	}
	e := trace.Event{Kind: trace.KindToolResult, Parent: c.parent, Tool: &r}
	cs.put(e, &c.natives)
	delete(cs.open, r.ID)
	cs.order = slices.DeleteFunc(cs.order, func(id string) bool { return id == r.ID })
	if len(cs.ended) == maxEnded {
		clear(cs.ended)
	}
	cs.ended[r.ID] = true
}

// put emits an event of a call with the frames behind it. When these are none, the frame that led to it has an event of its
// own.
func (cs *acpCalls) put(e trace.Event, behind *acpLines) {
	if e.Raw, e.RawLine = behind.take(); e.RawLine == 0 {
		e.RawLine = cs.line
	}
	cs.emit(e)
}

// endAll ends the calls of which no result was seen.
func (cs *acpCalls) endAll() {
	for len(cs.order) > 0 {
		cs.end(cs.open[cs.order[0]], "")
	}
}

func statusOf(c *acpCall, status string, exit *int) trace.ToolStatus {
	switch {
	case c.denied && status != "completed":
		return trace.StatusDenied
	case status == "":
		return trace.StatusNone
	case status == "failed", c.tool.Status == trace.StatusError, c.tool.Kind == trace.ToolExecute && exit != nil && *exit != 0:
		return trace.StatusError
	}
	return trace.StatusOK
}

// kindOfCall goes by the native name first.
func kindOfCall(name, kind string) trace.ToolKind {
	if k := trace.KindOfTool(name); k != trace.ToolOther {
		return k
	}
	switch k := trace.ToolKind(kind); k {
	case trace.ToolRead, trace.ToolEdit, trace.ToolDelete, trace.ToolMove, trace.ToolSearch, trace.ToolExecute, trace.ToolThink, trace.ToolFetch:
		return k
	}
	return trace.ToolOther
}

// acpOutput is the raw output of the agents that give an object.
type acpOutput struct {
	Output    *string `json:"output"`
	Formatted *string `json:"formatted_output"`
	ExitCode  *int    `json:"exit_code"`
	Metadata  struct {
		Exit *int `json:"exit"`
	} `json:"metadata"`
}

// output is what the call gave, as text.
func (cs *acpCalls) output(c *acpCall) string {
	var s string
	if json.Unmarshal(c.out, &s) == nil && s != "" {
		return s
	}
	var o acpOutput
	if json.Unmarshal(c.out, &o) == nil {
		for _, text := range []*string{o.Output, o.Formatted} {
			if text != nil {
				return *text
			}
		}
	}
	if c.text != "" {
		return c.text
	}
	return string(c.out)
}

// exitOf is the exit code of a command, where the agent tells it.
func exitOf(c *acpCall, status string) *int {
	var o acpOutput
	if json.Unmarshal(c.out, &o) == nil {
		if o.ExitCode != nil {
			return o.ExitCode
		}
		if o.Metadata.Exit != nil {
			return o.Metadata.Exit
		}
	}
	var said string // claude-agent-acp
	if status != "failed" || c.tool.Kind != trace.ToolExecute || json.Unmarshal(c.out, &said) != nil {
		return nil
	}
	rest, ok := strings.CutPrefix(said, "Exit code ")
	if !ok {
		return nil
	}
	digits, _, _ := strings.Cut(rest, "\n")
	code, err := strconv.Atoi(digits)
	if err != nil {
		return nil
	}
	return &code
}

// sameJSON reports whether two values are the same, whatever the order of their keys.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// blankJSON reports whether a value says nothing.
func blankJSON(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", "{}", `""`:
		return true
	}
	return false
}

// acpText is the text of a content block, empty for one of another kind.
func acpText(raw json.RawMessage) string {
	var c struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &c) != nil || c.Type != "text" {
		return ""
	}
	return c.Text
}

// acpDiff shows what an agent says that it replaces. Both texts are its own.
func acpDiff(name, before, after string) string {
	x := trace.NewExcerpt()
	io.WriteString(x, "--- "+path.Clean(name)+"\n+++ "+path.Clean(name)+"\n")
	for _, side := range []struct{ sign, text string }{{"-", before}, {"+", after}} {
		for line := range strings.Lines(side.text) {
			io.WriteString(x, side.sign+strings.TrimSuffix(line, "\n")+"\n")
		}
	}
	return x.String()
}

// natives are the native lines behind one event: one as it is, several as a list. What is too much is in agent.log only.
type acpLines struct {
	line int // of the first
	list [][]byte
	size int
}

func (n *acpLines) add(line []byte, at int) {
	if n.line == 0 {
		n.line = at
	}
	if n.size += len(line); n.size <= maxFrames {
		n.list = append(n.list, bytes.Clone(line))
	}
}

// take returns them and begins anew.
func (n *acpLines) take() (json.RawMessage, int) {
	list, line := n.list, n.line
	*n = acpLines{}
	switch len(list) {
	case 0:
		return nil, line
	case 1:
		return list[0], line
	}
	return slices.Concat([]byte("["), bytes.Join(list, []byte(",")), []byte("]")), line
}
