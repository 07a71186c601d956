// Package trace is the neutral record of what an agent did: every harness writes one, and graders, reports and exports
// read it without knowing which agent spoke. Read a trace with [Read]; write one with a [Writer].
//
// A trace is JSON Lines, one [Event] a line, in the order in which the events reached us. The first event carries the
// schema version, the last is exactly one [KindStop]. What could not be measured is absent, never zero: the numbers of
// [Usage] are pointers for that reason. The native line of the agent stays beside the parsed fields in Raw, so nothing
// that an agent said is lost to our understanding of it.
package trace

import (
	"encoding/json"
	"time"
)

// Schema is the version that the first event of a trace carries.
const Schema = 1

// Kind says what an event tells. A reader meets unknown kinds as KindOther, always with Raw.
type Kind string

// The kinds of events.
const (
	KindSessionStart       Kind = "session_start"
	KindUserMessage        Kind = "user_message"
	KindAssistantText      Kind = "assistant_text"
	KindThinking           Kind = "thinking"
	KindToolCall           Kind = "tool_call"
	KindToolResult         Kind = "tool_result"
	KindPlan               Kind = "plan"
	KindPermissionRequest  Kind = "permission_request"
	KindPermissionResponse Kind = "permission_response"
	KindQuestion           Kind = "question"
	KindAnswer             Kind = "answer"
	KindFileIO             Kind = "file_io"
	KindUsage              Kind = "usage"
	KindModelCall          Kind = "model_call"
	KindRetry              Kind = "retry"
	KindError              Kind = "error"
	KindSubagent           Kind = "subagent"
	KindStop               Kind = "stop"
	KindOther              Kind = "other"
)

// An Event is one thing that happened, as one line of the trace.
type Event struct {
	Schema    int             `json:"schema,omitempty"`    // Schema, in the first event only
	Seq       int             `json:"seq"`                 // from 1, without a gap
	At        time.Duration   `json:"at"`                  // nanoseconds since the harness started, taken on arrival
	Kind      Kind            `json:"kind"`                //
	Text      string          `json:"text,omitempty"`      //
	Parent    string          `json:"parent,omitempty"`    // tool call id of the sub-agent that spoke
	Synthetic bool            `json:"synthetic,omitempty"` // written by the agent's machinery, not by model or user
	Late      bool            `json:"late,omitempty"`      // learned after the fact, from a second source
	Session   *Session        `json:"session,omitempty"`   // of session_start
	Tool      *Tool           `json:"tool,omitempty"`      // of tool_call and tool_result
	Plan      []PlanItem      `json:"plan,omitempty"`      // of plan
	Ask       *Ask            `json:"ask,omitempty"`       // of permission_* , question and answer
	Usage     *Usage          `json:"usage,omitempty"`     // of usage and model_call
	Call      *ModelCall      `json:"call,omitempty"`      // of model_call
	Err       *Fault          `json:"err,omitempty"`       // of error and retry
	Stop      *Stop           `json:"stop,omitempty"`      // of stop
	Raw       json.RawMessage `json:"raw,omitempty"`       // the native line
	RawLine   int             `json:"raw_line,omitempty"`  // its line number in agent.log
}

// A Session says what was started.
type Session struct {
	Harness       string   `json:"harness"`
	Agent         string   `json:"agent,omitempty"`
	Version       string   `json:"version,omitempty"`
	Model         string   `json:"model,omitempty"`          // asked for
	ModelReported string   `json:"model_reported,omitempty"` // what the agent said it used
	Argv          []string `json:"argv,omitempty"`
	Env           []string `json:"env,omitempty"` // names only
	Tools         []string `json:"tools,omitempty"`
	Skills        []string `json:"skills,omitempty"`
}

// A Tool is a call of a tool or its result; ID joins the two.
type Tool struct {
	ID       string          `json:"id"`
	Name     string          `json:"name,omitempty"` // as the agent calls it
	Kind     ToolKind        `json:"kind,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`
	Paths    []string        `json:"paths,omitempty"`
	Title    string          `json:"title,omitempty"`
	Status   ToolStatus      `json:"status,omitempty"` // of a result
	Exit     *int            `json:"exit,omitempty"`   // nil: not known
	Output   string          `json:"output,omitempty"`
	Diff     string          `json:"diff,omitempty"`
	Duration time.Duration   `json:"duration,omitempty"`
}

// ToolKind is the neutral kind of a tool: ACP's words and three of ours (skill, agent, ask).
type ToolKind string

// The kinds of tools.
const (
	ToolRead    ToolKind = "read"
	ToolEdit    ToolKind = "edit"
	ToolDelete  ToolKind = "delete"
	ToolMove    ToolKind = "move"
	ToolSearch  ToolKind = "search"
	ToolExecute ToolKind = "execute"
	ToolThink   ToolKind = "think"
	ToolFetch   ToolKind = "fetch"
	ToolSkill   ToolKind = "skill"
	ToolAgent   ToolKind = "agent"
	ToolAsk     ToolKind = "ask"
	ToolOther   ToolKind = "other"
)

// ToolStatus says how a tool call ended.
type ToolStatus string

// The ends of a tool call. StatusNone: no result was seen.
const (
	StatusOK     ToolStatus = "ok"
	StatusError  ToolStatus = "error"
	StatusDenied ToolStatus = "denied"
	StatusNone   ToolStatus = "none"
)

// A PlanItem is one line of an agent's plan.
type PlanItem struct {
	Text   string `json:"text"`
	Status string `json:"status,omitempty"`
}

// An Ask is what an agent wanted to know or to be allowed, and in the answering event what it was told.
type Ask struct {
	ID        string     `json:"id"`
	CallID    string     `json:"call_id,omitempty"` // the tool call that waits for a permission
	Name      string     `json:"name,omitempty"`    // the tool's native name
	Kind      ToolKind   `json:"kind,omitempty"`
	Input     string     `json:"input,omitempty"` // the tool's input, as text
	Options   []Option   `json:"options,omitempty"`
	Questions []Question `json:"questions,omitempty"`

	Choice  string   `json:"choice,omitempty"`  // id of the option that was taken
	Outcome string   `json:"outcome,omitempty"` // allowed, denied or cancelled
	Answers []string `json:"answers,omitempty"` // one a question
	By      string   `json:"by,omitempty"`      // the policy, and the number of its rule
	Reason  string   `json:"reason,omitempty"`
}

// An Option is one possible reply to a permission request. Kind is allow_once, allow_always, reject_once or reject_always.
type Option struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	Kind string `json:"kind"`
}

// A Question is one question of an agent.
type Question struct {
	Text    string   `json:"text"`
	Header  string   `json:"header,omitempty"`
	Options []Choice `json:"options,omitempty"`
	Multi   bool     `json:"multi,omitempty"` // several choices may be taken
	Free    bool     `json:"free,omitempty"`  // free text is allowed
}

// A Choice is one possible answer to a question.
type Choice struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
	Default     bool   `json:"default,omitempty"` // marked as default or recommended by the agent
}

// Usage counts tokens and money. Every number is a pointer: nil was not measured, and is never taken for 0.
type Usage struct {
	Input      *int64   `json:"input"`            // without cached tokens
	CacheRead  *int64   `json:"cache_read"`       //
	CacheWrite *int64   `json:"cache_write"`      //
	Output     *int64   `json:"output"`           // what is billed, reasoning included
	Reasoning  *int64   `json:"reasoning"`        // a part of Output
	CostUSD    *float64 `json:"cost_usd"`         //
	Scope      string   `json:"scope,omitempty"`  // session, turn, step, last_step or context
	Source     string   `json:"source,omitempty"` // gateway or agent
}

// A ModelCall is one call of a model as the gateway saw it. What it used and cost is the Usage of its event.
type ModelCall struct {
	Ordinal   int           `json:"ordinal"`              // from 1, in the order in which the calls of the cell began
	Lane      string        `json:"lane"`                 // main, aux, sub:<n>, count, responder or judge
	Model     string        `json:"model"`                // as the request named it
	HTTP      int           `json:"http,omitempty"`       // status of the answer; absent: none came
	Finish    string        `json:"finish,omitempty"`     // end, tool, refusal, max_tokens or other; absent: not told
	Partial   bool          `json:"partial,omitempty"`    // the answer was cut: its usage is what was seen of it
	FirstByte time.Duration `json:"first_byte,omitempty"` // nanoseconds until the first byte of the answer; absent: none came
	Took      time.Duration `json:"took"`                 // nanoseconds until the end of the answer
}

// A Fault is an error that the agent or its provider reported. Class "warning" never changes an outcome.
type Fault struct {
	Class     Class  `json:"class"`
	HTTP      int    `json:"http,omitempty"`
	Retryable bool   `json:"retryable,omitempty"`
	Detail    string `json:"detail,omitempty"`
}

// StopReason says why an agent ended. Only StopEndTurn can pass.
type StopReason string

// The stop reasons.
const (
	StopEndTurn         StopReason = "end_turn"
	StopMaxTurns        StopReason = "max_turns"
	StopMaxCost         StopReason = "max_cost"
	StopMaxTokens       StopReason = "max_tokens"
	StopRefusal         StopReason = "refusal"
	StopTimeout         StopReason = "timeout"
	StopCancelled       StopReason = "cancelled"
	StopError           StopReason = "error"
	StopKilled          StopReason = "killed"
	StopNoTerminalEvent StopReason = "no_terminal_event"
)

// A Stop closes a trace.
type Stop struct {
	Reason    StopReason `json:"reason"`
	Class     Class      `json:"class,omitempty"` // of an error
	Detail    string     `json:"detail,omitempty"`
	Exit      *int       `json:"exit,omitempty"`
	Signal    string     `json:"signal,omitempty"`
	By        string     `json:"by,omitempty"` // who sent the signal: assay, or empty
	FinalText string     `json:"final_text,omitempty"`
}

// Class says whose fault it was that a cell could not be measured. The list is closed.
type Class string

// The classes. ClassWarning is used in traces only and never decides a status.
const (
	ClassSandbox         Class = "sandbox"
	ClassEnvironment     Class = "environment"
	ClassExecutor        Class = "executor"
	ClassHarnessConfig   Class = "harness_config"
	ClassHarnessCrash    Class = "harness_crash"
	ClassHarnessProtocol Class = "harness_protocol"
	ClassModelAuth       Class = "model_auth"
	ClassModelRequest    Class = "model_request"
	ClassModelLimit      Class = "model_limit"
	ClassModelAPI        Class = "model_api"
	ClassContextOverflow Class = "context_overflow"
	ClassModelNotAllowed Class = "model_not_allowed"
	ClassStalled         Class = "stalled"
	ClassCondition       Class = "condition"
	ClassCassette        Class = "cassette"
	ClassResponder       Class = "responder"
	ClassGrader          Class = "grader"
	ClassUnmeasured      Class = "unmeasured"
	ClassWarning         Class = "warning"
)
