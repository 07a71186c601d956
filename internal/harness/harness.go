// Package harness drives one agent through one task and tells what it did as a trace. Pick a kind from [Kinds], build it
// from its settings, call Drive: events come while the agent works, and the [Outcome] says how it ended. What a kind does,
// records and cannot know stands in its row; assay explain and docs/harnesses show it.
//
// A new agent is one file and one row. If it is a program that prints lines, its type embeds a cli, which does all that
// such agents have in common, and its Drive hands a program and a talker, who understands the lines, to the session:
// gemini.go shows the whole of it. If it speaks the Agent Client Protocol, it is a row of acpAgents and nothing else.
//
// An agent's failure is data: a non-zero exit, a timeout or a refusal comes back as an [Outcome], and only an end of its
// own (trace.StopEndTurn) can ever pass. An error from Drive means that we could not do our work.
//
// What an agent is to see comes through the executor alone, so that it may live on this host, in a container or
// elsewhere. Its prompt goes by file or standard input, never by argv: argv is bounded, and every process can read it.
package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/responder"
	"github.com/assay-ci/assay/internal/trace"
)

// A Harness drives one kind of agent. Drive may be called for several cells at the same time.
type Harness interface {
	// Drive runs the agent on the task until it ends, its time is up or ctx ends, and emits its trace: session_start
	// first, and exactly one stop last unless there is an error. emit may block; it is called from one goroutine at a time.
	Drive(ctx context.Context, t Task, emit func(trace.Event)) (Outcome, error)
}

// A Task is what one cell asks of an agent.
type Task struct {
	Case, Model, Condition string
	Trial                  int
	Prompt                 string
	Exec                   executor.Executor
	Work, Home             string                              // absolute paths as the agent sees them
	Env                    []string                            // NAME=value, what case and condition name
	CaseDir                fs.FS                               // the folder of the case; for settings that name files of it, never laid in the place
	Script                 func(path string) (Settings, error) // parses a YAML file of CaseDir; its faults carry positions
	Extras                 Extras
	Limits                 Limits
	Log                    io.Writer // agent.log: the raw bytes of the agent's output
	Responder              responder.Responder
	Gateway                *gateway.Cell // what the agent calls its models through; nil: it calls none, or calls them around us
}

// Extras are the parts of a condition that need the harness's help. Paths are absolute in the place, outside Work; empty
// means that the condition has none.
type Extras struct {
	SkillsDir        string // one folder a skill
	InstructionsFile string
	MCP              []MCPServer
}

// An MCPServer is a tool server of a condition: a program that is started in the place, or an address.
type MCPServer struct {
	Name string
	Argv []string
	Env  []string // NAME=value
	URL  string   // instead of Argv
}

// Limits end an agent that does not end by itself. Zero is no limit.
type Limits struct {
	Timeout   time.Duration
	Grace     time.Duration // between TERM and KILL; 0 is the executor's own
	MaxTurns  int
	MaxOutput int64 // bytes of agent.log
}

// Outcome says how an agent ended.
type Outcome struct {
	Stop      trace.StopReason
	Class     trace.Class // when Stop is error, killed or no_terminal_event
	Detail    string
	FinalText string
	Exit      *int
	Signal    string
	Turns     *int         // completed main-lane model answers; nil: not known
	Usage     *trace.Usage // nil: not measured
	Model     string       // as the agent reported it
	Version   string       // as the agent reported it
	Answered  bool         // the agent showed at least one sign of work: a model answer, output, a tool call
	Survivors []string     // processes that outlived the sweep
	Swept     int
}

// OutputLimit begins the Detail of an agent that was ended because its output passed Limits.MaxOutput. Its Stop is
// trace.StopCancelled: the limit is the agent's own failure, not ours.
const OutputLimit = "output_limit"

// Settings are the raw settings of one block of a suite.
type Settings interface {
	// Decode decodes strictly into a pointer to a struct: an unknown key is an error.
	Decode(into any) error
	// Fault returns an error at the place of the key, such as steps[2].write.path.
	Fault(key, msg, hint string) error
}

// A Kind is one row of the table of harnesses.
type Kind struct {
	Name      string
	Doc       string   // one line
	Params    any      // zero value of the struct that its settings decode into
	Simulated bool     // no model answers: its agents are scripted, and every page says so
	Outside   bool     // its loop runs in this program: only its commands run in the place
	Takes     []string // keys of a condition that it can honour: skills, instructions, mcp
	Asks      []string // what its agents ask of the responder: permission, question
	About     About
	Build     func(s Settings) (Harness, error)
}

// About is the page of a kind: what a person wants to know before trusting its numbers. Texts are whole sentences in which
// backquotes mark what is typed.
type About struct {
	Install  string           // the command line that installs the version that the tests are written for; empty: there is nothing to install
	Example  string           // an item of matrix.harnesses, in YAML
	Runs     string           // how the agent is run
	Records  string           // what the trace of a cell holds
	Silent   []string         // what the agent cannot tell us or tells wrongly, and what is done about it
	Limits   string           // what ends an agent that goes too far
	Profiles func() []Profile // the agents that are known by name, where the kind drives several; nil: it is one
}

// A Profile is one of several agents of a kind.
type Profile struct {
	Name, Install, Runs string
	Mode                string // of the session, when it is set
	Silent              []string
}

// What ends the agents of most kinds.
const (
	timeLimits = "Assay ends the agent and all that it started when `limits.timeout` is over, when it has been silent for three minutes, " +
		"and when it has printed too much."
	modelLimits = timeLimits + " The gateway counts turns and money: it refuses the model call after `limits.max_turns` answers or " +
		"`limits.max_cost_usd` dollars, which stops every agent the same way."
)

// Kinds is the table of harnesses. It is never changed.
var Kinds = []Kind{
	{
		Name:      "echo",
		Doc:       "writes the prompt to ANSWER.md: the agent that measures what Assay itself costs",
		Params:    echoParams{},
		Simulated: true,
		Takes:     []string{"skills", "instructions", "mcp"},
		About:     echoAbout,
		Build:     buildEcho,
	},
	{
		Name:      "script",
		Doc:       "plays a written list of steps: edits, commands, messages, questions, sleeps, exits",
		Params:    scriptParams{},
		Simulated: true,
		Takes:     []string{"skills", "instructions", "mcp"},
		Asks:      []string{"permission", "question"},
		About:     scriptAbout,
		Build:     buildScript,
	},
	{
		Name:   "command",
		Doc:    "runs any program as the agent, by an argv template; the prompt goes by file or standard input",
		Params: commandParams{},
		Takes:  []string{"skills", "instructions"},
		About:  commandAbout,
		Build:  buildCommand,
	},
	{
		Name:   "claude-code",
		Doc:    "runs the Claude Code CLI; its permission prompts and questions go to the responder",
		Params: cliParams{},
		Takes:  []string{"skills", "instructions", "mcp"},
		Asks:   []string{"permission", "question"},
		About:  claudeAbout,
		Build:  buildClaude,
	},
	{
		Name:   "gemini",
		Doc:    "runs the Gemini CLI, which does all it wants without asking",
		Params: cliParams{},
		Takes:  []string{"skills", "instructions", "mcp"},
		About:  geminiAbout,
		Build:  buildGemini,
	},
	{
		Name:   "opencode",
		Doc:    "runs opencode, which does all it wants without asking",
		Params: cliParams{},
		Takes:  []string{"skills", "instructions", "mcp"},
		About:  opencodeAbout,
		Build:  buildOpencode,
	},
	{
		Name:    "openai",
		Doc:     "a plain agent of our own over the Chat Completions of any provider",
		Params:  openaiParams{},
		Outside: true,
		Takes:   []string{"skills", "instructions"},
		Asks:    []string{"permission"},
		About:   openaiAbout,
		Build:   buildOpenai,
	},
	{
		Name:   "codex",
		Doc:    "runs OpenAI's codex CLI, which works without asking",
		Params: cliParams{},
		Takes:  []string{"skills", "instructions", "mcp"},
		About:  codexAbout,
		Build:  buildCodex,
	},
	{
		Name:   "acp",
		Doc:    "drives an agent over the Agent Client Protocol: one that Assay knows by name, or any other by its argv",
		Params: acpParams{},
		Takes:  []string{"skills", "instructions", "mcp"},
		Asks:   []string{"permission", "question"},
		About:  acpAbout,
		Build:  buildACP,
	},
}

// A Prober is a harness that needs something of the host, such as a program on PATH.
type Prober interface {
	// Probe returns the version of the agent that would run, empty when it has none to tell. look finds a program on the
	// PATH of the place, run returns what a short command printed. The error says what is missing and how to get it.
	Probe(ctx context.Context, look func(name string) (string, error), run func(ctx context.Context, argv []string) (string, error)) (version string, err error)
}

// A Caller is a harness whose agent calls its models through the gateway.
type Caller interface {
	// Models returns what the agent may call in the cell of t, the model under test first. It is asked in preflight and
	// again for each cell; of the task it needs what Check needs. The error holds suite faults.
	Models(t Task) ([]gateway.Model, error)
}

// A Checker is a harness whose settings can be wrong for one case, model or condition and right for another.
type Checker interface {
	// Check finds in preflight what Drive would stumble over. Of the task it needs all but Prompt, Exec, Log and
	// Responder; of Extras, only which of them are empty matters. The error holds suite faults.
	Check(t Task) error
}

// An Asker is a harness whose settings decide what its agent asks. Of any other, Kind.Asks holds.
type Asker interface {
	// Asks returns what the agent asks of the responder, in the words of Kind.Asks. known is false for an agent of which
	// nobody knows whether it asks before it acts.
	Asks() (what []string, known bool)
}

// opening emits the two events that begin every trace.
func opening(t Task, s trace.Session, emit func(trace.Event)) {
	if t.Model != "none" {
		s.Model = t.Model
	}
	emit(trace.Event{Kind: trace.KindSessionStart, Session: &s})
	emit(trace.Event{Kind: trace.KindUserMessage, Text: t.Prompt})
}

// closing emits the stop that ends every trace, and returns the outcome it was made from.
func closing(o Outcome, emit func(trace.Event)) Outcome {
	s := &trace.Stop{Reason: o.Stop, Class: o.Class, Detail: o.Detail, Exit: o.Exit, Signal: o.Signal, FinalText: o.FinalText}
	if o.Stop == trace.StopTimeout || o.Stop == trace.StopCancelled || o.Signal != "" && o.Stop != trace.StopKilled {
		s.By = "assay"
	}
	emit(trace.Event{Kind: trace.KindStop, Stop: s})
	return o
}

// halt says why the context of an agent ended: an output over the limit, its time, or someone who called it off.
func halt(ctx context.Context, l Limits) (stop trace.StopReason, detail string) {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errOutput):
		return trace.StopCancelled, fmt.Sprintf("%s: more than %d bytes", OutputLimit, l.MaxOutput)
	case errors.Is(cause, context.DeadlineExceeded):
		return trace.StopTimeout, timeoutDetail(l)
	}
	return trace.StopCancelled, "called off"
}

func timeoutDetail(l Limits) string {
	if l.Timeout <= 0 {
		return "time is up"
	}
	return fmt.Sprintf("time limit of %s reached", l.Timeout)
}

// envNames returns the names of NAME=value pairs: a trace never holds their values.
func envNames(env []string) []string {
	names := make([]string, len(env))
	for i, kv := range env {
		names[i], _, _ = strings.Cut(kv, "=")
	}
	return names
}
