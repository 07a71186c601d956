package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/trace"
)

const maxRollouts = 64 << 20 // bytes that are read of the session files of one cell

// rollouts reads the session files that codex leaves, one a thread, for what its standard output does not tell: calls that
// failed before they began, calls of tools without an item of their own, and all that sub-agents did. They are added to
// the trace when the agent has ended, marked late.
//
// Whether standard output told a call of the first thread is decided by the file itself. A call and its output stand there
// under one id; when the call ran, an item stands there too, which is what standard output tells. The item has the id of
// the call, and may come long after its output when the command ran on in the background. In code mode the model calls
// one tool, exec, with a program that makes the calls; the items then have ids of their own and stand between exec and its
// output. So a call is lost when no item has its id, and none with an unknown id came before its output. Calls without an
// output were cut off with the agent: as many of them are lost as standard output told fewer calls than the file.
type rollouts struct {
	session *codexTalker
	emit    func(trace.Event)

	at       *rollout // that is being read
	found    bool     // the file of the first thread
	whole    bool     // all files were read to their end
	seen     map[string]bool
	version  string
	model    string
	turns    int
	troubles int // lines that are not JSON, or too long
}

// read reads the files of a cell. What it cannot read is a warning in the trace, from which a reader sees that calls may be
// missing; the error is ours.
func (r *rollouts) read(ctx context.Context, t Task) error {
	lines := &liner{to: func(_ int, line []byte) { r.line(line) }, tooLong: func(int) { r.troubles++ }}
	ex, err := t.Exec.Run(ctx, executor.Command{
		// Each file after its name. A link or a FIFO that the agent left there is not read.
		Argv: []string{"sh", "-c", `cd -- "$1" 2>/dev/null || exit 0
for f in */*/*/rollout-*.jsonl; do
	[ -L "$f" ] || [ ! -f "$f" ] || { printf '\n%s\n' "$f" && cat -- "$f"; } || exit
done`, "sh", path.Join(t.Home, codexHome, "sessions")},
		Stdout:    lines,
		Timeout:   time.Minute,
		MaxOutput: maxRollouts,
	})
	if err != nil {
		return fmt.Errorf("read the session files of codex: %w", err)
	}
	lines.flush()
	r.end()
	r.whole = r.found && ex.Code == 0 && ex.Signal == "" && !ex.Truncated && r.troubles == 0
	// The word truncated tells graders that calls may be missing.
	switch {
	case r.whole || ctx.Err() != nil:
	case !r.found:
		r.emit(warning("truncated: the session file of codex is not there, so calls that its output does not tell are missing"))
	default:
		r.emit(warning("truncated: the session files of codex could not be read in full, so calls that its output does not tell may be missing"))
	}
	return nil
}

// complete puts what the files tell of the session into the outcome.
func (r *rollouts) complete(t Task, o *Outcome) {
	o.Model, o.Version = r.model, r.version
	if t.Gateway != nil || !r.whole {
		return // the gateway has counted, or nobody could
	}
	o.Turns = &r.turns
	if limit := t.Limits.MaxTurns; o.Stop == trace.StopEndTurn && limit > 0 && r.turns > limit {
		o.Stop, o.Detail = trace.StopMaxTurns, fmt.Sprintf("%d turns, more than %d; counted when the agent had ended", r.turns, limit)
	}
}

// A rollout is the file of one thread.
type rollout struct {
	first   bool   // of the agent itself, else of a sub-agent
	parent  string // the call that started the sub-agent
	calls   []*lateCall
	byID    map[string]*lateCall
	unknown int // items with an id that no call has
	known   int // calls that have an item, or still run
}

// A lateCall is one call of a thread.
type lateCall struct {
	call, result       trace.Tool
	callRaw, resultRaw json.RawMessage
	answered           bool // its output is there
	inner              bool // items stand for it, or standard output told it
	unknown            int  // of the rollout, when the call began
}

type rolloutLine struct {
	Type    string
	Payload rolloutPayload
}

type rolloutPayload struct {
	Type, Name, Namespace string
	CallID                string `json:"call_id"`
	Arguments             string // of function_call
	Input                 string // of custom_tool_call
	Output                json.RawMessage
	Item                  rolloutItem
	Version               string `json:"cli_version"` // of session_meta
	Model                 string // of turn_context
}

// rolloutItem is an item as the session file has it, which is not how standard output has it.
type rolloutItem struct {
	Type, ID, Status string
	Command          []string
	Output           string `json:"aggregated_output"`
	ExitCode         *int   `json:"exit_code"`
	Changes          map[string]json.RawMessage
	Stdout, Stderr   string // of a FileChange
	Server, Tool     string
	Arguments        json.RawMessage
	Result           struct{ Content []codexText }
	Prompt           *string
}

func (r *rollouts) line(line []byte) {
	switch {
	case len(line) == 0:
	case bytes.Contains(line, []byte("/rollout-")) && bytes.HasSuffix(line, []byte(".jsonl")) && line[0] != '{':
		r.begin(string(line))
	case r.at != nil:
		var l rolloutLine
		if !looseJSON(line, &l) {
			r.troubles++
			return
		}
		r.add(l, line)
	}
}

// begin begins the file of this name, which ends in the id of its thread.
func (r *rollouts) begin(name string) {
	r.end()
	name = strings.TrimSuffix(name, ".jsonl")
	r.at = &rollout{first: strings.HasSuffix(name, "-"+r.session.thread), byID: map[string]*lateCall{}}
	r.found = r.found || r.at.first
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	if r.at.first {
		return
	}
	thread := name[max(0, len(name)-len(r.session.thread)):]
	r.at.parent = r.session.agents[thread]
	if r.at.parent == "" {
		r.at.parent = thread // started by a sub-agent, or by a call that was not told
	}
}

func (r *rollouts) add(l rolloutLine, raw []byte) {
	p := l.Payload
	switch {
	case l.Type == "session_meta" && r.at.first && r.version == "":
		r.version = p.Version
	case l.Type == "turn_context" && r.at.first:
		r.model = p.Model
	case l.Type == "token_usage_record" && r.at.first:
		r.turns++
	case p.Type == "function_call" || p.Type == "custom_tool_call":
		r.at.begin(p, raw)
	case p.Type == "function_call_output" || p.Type == "custom_tool_call_output":
		r.at.answer(p, raw)
	case p.Type == "item_completed":
		r.at.item(p.Item, raw)
	}
}

func (o *rollout) begin(p rolloutPayload, raw []byte) {
	if o.byID[p.CallID] != nil {
		return // told twice
	}
	name := p.Name
	if strings.HasPrefix(p.Namespace, "mcp__") {
		name = p.Namespace + "__" + name
	}
	input := json.RawMessage(p.Arguments)
	if p.Type == "custom_tool_call" || !json.Valid(input) {
		input = textJSON(p.Arguments + p.Input)
	}
	o.keep(&lateCall{
		call:    trace.Tool{ID: p.CallID, Name: name, Kind: trace.KindOfTool(name), Input: input},
		callRaw: bytes.Clone(raw), unknown: o.unknown,
	})
}

func (o *rollout) keep(c *lateCall) {
	o.calls = append(o.calls, c)
	o.byID[c.call.ID] = c
}

func textJSON(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic("harness: a string is always JSON: " + err.Error())
	}
	return b
}

func (o *rollout) answer(p rolloutPayload, raw []byte) {
	c := o.byID[p.CallID]
	if c == nil {
		return
	}
	c.answered = true
	if o.unknown > c.unknown {
		c.inner = true
	}
	if c.result.Status == "" { // an item knows better
		c.result, c.resultRaw = lateResult(p.Output), bytes.Clone(raw)
	}
	if o.first && c.result.Status == trace.StatusNone { // it still runs, so its start was told
		o.tellsOf(c)
	}
}

// tellsOf notes that standard output told a call of the first thread. Nothing of it is needed any more.
func (o *rollout) tellsOf(c *lateCall) {
	if !c.inner {
		o.known++
	}
	c.inner, c.call.Input, c.callRaw, c.resultRaw = true, nil, nil, nil
}

// item takes what stands for a call that ran. Items of other types, such as ImageView, are not told on standard output.
func (o *rollout) item(it rolloutItem, raw []byte) {
	call, known := it.call()
	if !known {
		return
	}
	c := o.byID[it.ID]
	if c == nil {
		o.unknown++
		if o.first {
			return
		}
		c = &lateCall{call: call}
		o.keep(c)
	}
	if o.first {
		o.tellsOf(c)
		return
	}
	c.answered = true
	c.call.Paths = call.Paths
	c.result, c.resultRaw = it.result(), bytes.Clone(raw)
}

// end emits the calls of a thread that are news.
func (r *rollouts) end() {
	o := r.at
	r.at = nil
	if o == nil {
		return
	}
	told := r.session.calls - o.known - o.unknown // calls that were told and were cut off before their items
	for _, c := range o.calls {
		news := !c.inner && !r.seen[c.call.ID]
		r.seen[c.call.ID] = true
		if news && !c.answered {
			news = o.unknown == c.unknown
			if o.first && news && told > 0 {
				told--
				news = false
			}
		}
		if news {
			r.tell(c, o.parent)
		}
	}
}

func (r *rollouts) tell(c *lateCall, parent string) {
	call, result := c.call, c.result
	r.emit(trace.Event{Kind: trace.KindToolCall, Tool: &call, Parent: parent, Raw: c.callRaw, Late: true})
	if c.answered {
		result.ID, result.Name, result.Kind = call.ID, call.Name, call.Kind
		r.emit(trace.Event{Kind: trace.KindToolResult, Tool: &result, Parent: parent, Raw: c.resultRaw, Late: true})
	}
}

// call is the call that an item stands for; known is false for one that stands for none.
func (it rolloutItem) call() (call trace.Tool, known bool) {
	call.ID = it.ID
	switch it.Type {
	case "CommandExecution":
		call.Name, call.Input = "command_execution", inputOf(map[string]any{"command": it.Command})
	case "FileChange":
		call.Paths = slices.Sorted(maps.Keys(it.Changes))
		call.Name, call.Input = "file_change", inputOf(map[string]any{"changes": call.Paths})
	case "McpToolCall":
		call.Name, call.Input = mcpName(it.Server, it.Tool), it.Arguments
	case "CollabAgentToolCall":
		call.Name, call.Kind, call.Input = it.Tool, trace.ToolAgent, inputOf(map[string]any{"prompt": it.Prompt})
		return call, true
	default:
		return trace.Tool{}, false
	}
	call.Kind = trace.KindOfTool(call.Name)
	return call, true
}

func (it rolloutItem) result() trace.Tool {
	r := trace.Tool{Status: codexStatus(it.Status), Output: it.Output + it.Stdout + it.Stderr + joinTexts(it.Result.Content)}
	r.Exit, r.Status = knownExit(it.ExitCode, r.Status)
	return r
}

// lateResult reads the output of a call as the model got it: a text, or a list of parts.
func lateResult(output json.RawMessage) trace.Tool {
	var text string
	var parts []codexText
	if json.Unmarshal(output, &text) != nil {
		looseJSON(output, &parts)
		text = joinTexts(parts)
	}
	r := trace.Tool{Output: text, Status: trace.StatusError}
	head, _, _ := strings.Cut(text, "\nOutput:\n")
	switch {
	case exitIn(head) != nil:
		r.Exit, r.Status = knownExit(exitIn(head), trace.StatusOK)
	case strings.Contains(head, "\nProcess running with session ID "):
		r.Status = trace.StatusNone
	case strings.HasPrefix(head, "Script completed"), json.Valid([]byte(text)), len(parts) > 0 && text == "":
		r.Status = trace.StatusOK // what is refused is told in a sentence
	}
	return r
}

// exitIn finds the exit code in the head of an output.
func exitIn(head string) *int {
	for line := range strings.Lines(head) {
		for _, mark := range []string{"Process exited with code ", "Exit code: "} {
			if code, ok := strings.CutPrefix(strings.TrimSpace(line), mark); ok {
				if n, err := strconv.Atoi(code); err == nil {
					return &n
				}
			}
		}
	}
	return nil
}
