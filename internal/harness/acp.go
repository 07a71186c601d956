package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/trace"
)

// acp drives an agent over the Agent Client Protocol, version 1. What is particular to an agent stands in its row of
// [acpAgents]; what we say and understand of the protocol is in acpTalk.
type acp struct {
	params   acpParams
	settings Settings // positions for faults
	agent    acpAgent
}

var (
	_ Harness = (*acp)(nil)
	_ Prober  = (*acp)(nil)
	_ Checker = (*acp)(nil)
	_ Caller  = (*acp)(nil)
	_ Asker   = (*acp)(nil)
)

type acpParams struct {
	Agent    string   `yaml:"agent" doc:"an agent that Assay knows how to set up: claude-agent-acp asks for permissions and asks questions, gemini and opencode ask for permissions, codex-acp never asks" rule:"oneof=claude-agent-acp codex-acp gemini opencode"`
	Argv     []string `yaml:"argv" doc:"any other agent that speaks the protocol on its standard streams, no shell between; {model} {work} {home} {gateway} {key} {skills} {instructions} are filled in, other braces stay; nobody knows whether it asks before it acts"`
	Program  string   `yaml:"program" doc:"the program of a known agent, when it is not on PATH under its own name"`
	Mode     string   `yaml:"mode" doc:"the session mode to set instead of the one in which the agent asks before it acts; the policy is then auto-approve"`
	Dialect  string   `yaml:"dialect" doc:"with argv: how the agent speaks to its model at {gateway}" rule:"oneof=anthropic chat responses gemini"`
	upstream `yaml:",inline"`
	Env      map[string]string `yaml:"env" doc:"environment of the program; values are filled in like argv" rule:"env"`
}

// acpAbout is the page of this kind.
var acpAbout = About{
	Example: `{id: claude-acp, type: acp, agent: claude-agent-acp, models: [claude-sonnet-4-5]}`,
	Runs: "The program is started once a cell and spoken to over its standard streams: a session in the work folder with " +
		"the MCP servers of the condition, the mode in which it asks, then the prompt. It may read and write files " +
		"through Assay, inside the work folder only, and gets no terminal. An agent that Assay does not know is named by " +
		"`argv`, and by `dialect` when it can be told where its models are.",
	Records: "Every frame as it came. Messages, thoughts, tool calls with their updates, plans, permissions, questions, files " +
		"that it read and wrote through Assay, and what it reports of its usage.",
	Silent: []string{
		"Turns are not told over this protocol. The gateway counts them.",
		"What an agent reports of its usage is its own affair: the whole, the last step, or how full its context is. The " +
			"gateway's count is the official one.",
		"A cancelled agent reports no usage.",
		"An agent without a `dialect` calls its models around the gateway: no tokens, no cost, no limit of turns or " +
			"money, and nobody can see whether the condition reached the model.",
	},
	Limits:   modelLimits,
	Profiles: acpProfiles,
}

func buildACP(s Settings) (Harness, error) {
	var p acpParams
	if err := s.Decode(&p); err != nil {
		return nil, err
	}
	h := &acp{params: p, settings: s}
	var faults []error
	fault := func(key, msg, hint string) { faults = append(faults, s.Fault(key, msg, hint)) }
	switch {
	case (p.Agent == "") == (len(p.Argv) == 0):
		return nil, s.Fault("agent", "one of agent and argv says what to run, and not both", "such as agent: gemini, or argv: [my-agent, --acp]")
	case p.Agent != "":
		i := slices.IndexFunc(acpAgents, func(a acpAgent) bool { return a.name == p.Agent })
		h.agent = acpAgents[i]
		if p.Dialect != "" {
			fault("dialect", "the dialect of "+p.Agent+" is known", "leave it out")
		}
		if p.Program != "" {
			faults = append(faults, checkProgram(p.Program, h.agent.argv[0], s))
			h.agent.argv = append([]string{p.Program}, h.agent.argv[1:]...)
		}
	default:
		h.agent = acpAgent{name: p.Argv[0], argv: p.Argv, dialect: gateway.Dialect(p.Dialect)}
		if p.Argv[0] == "" || strings.ContainsAny(p.Argv[0], "{}") {
			fault("argv[0]", "the program itself cannot be empty or a placeholder", "start a fixed program and give it the value as an argument")
		}
		if p.Program != "" {
			fault("program", "argv names the program already", "leave it out")
		}
	}
	faults = append(faults, p.check(s), checkReserved(h.agent.name, envNames(h.agent.env), p.Env, s))
	if p.Mode != "" {
		h.agent.mode = p.Mode
	}
	return h, errors.Join(faults...)
}

// Asks implements Asker. In a mode that is not its own an agent may act unasked.
func (h *acp) Asks() (what []string, known bool) {
	i := slices.IndexFunc(acpAgents, func(a acpAgent) bool { return a.name == h.params.Agent })
	if i < 0 {
		return nil, false
	}
	what = slices.Clone(acpAgents[i].asks)
	if h.params.Mode != "" && h.params.Mode != acpAgents[i].mode {
		what = slices.DeleteFunc(what, func(w string) bool { return w == "permission" })
	}
	return what, true
}

// Check implements Checker: a part of the condition that the agent is never told of would be lost without a word.
func (h *acp) Check(t Task) error {
	if h.params.Agent != "" {
		return checkTaskEnv(h.agent.name, envNames(h.agent.env), t, h.settings)
	}
	return checkTold(t, h.params.Argv, h.params.Env, h.settings)
}

// Probe implements Prober. An agent that has no way to print its version tells it when a session begins.
func (h *acp) Probe(ctx context.Context, look func(string) (string, error), run func(context.Context, []string) (string, error)) (string, error) {
	program, version := h.agent.argv[0], []string(nil)
	if h.agent.versioned {
		version = []string{program, "--version"}
	}
	return probe(ctx, program, h.agent.missing(), version, look, run)
}

// Models implements Caller. An agent without a dialect calls its models around us.
func (h *acp) Models(t Task) ([]gateway.Model, error) {
	if h.agent.dialect == "" {
		return nil, nil
	}
	return h.params.models(t, h.agent.dialect, h.settings, h.agent.sideModels...)
}

// Drive implements Harness.
func (h *acp) Drive(ctx context.Context, t Task, emit func(trace.Event)) (Outcome, error) {
	setup := h.setup(t)
	argv, env := h.commandLine(t, setup)
	opening(t, trace.Session{Harness: "acp", Agent: h.agent.name, Argv: argv, Env: envNames(env)}, emit)
	if err := h.furnish(ctx, t, setup); err != nil && ctx.Err() == nil {
		return Outcome{}, fmt.Errorf("set up agent %s: %w", h.agent.name, err)
	}
	talk := &acpTalk{agent: h.agent}
	o, err := program{argv: argv, env: env, talker: talk, stays: h.agent.stays}.drive(ctx, t, emit)
	if err != nil {
		return o, err
	}
	if t.Limits.MaxTurns > 0 && o.Turns == nil {
		emit(warning("max_turns is not enforced: over this protocol an agent does not tell its turns"))
	}
	return closing(o, emit), nil
}

// setup is what one cell gives an agent.
func (h *acp) setup(t Task) acpSetup {
	s := acpSetup{home: t.Home, model: t.Model, url: h.params.BaseURL, key: "none", mcp: t.Extras.MCP}
	if h.agent.dialect != "" {
		s.url, s.key = h.params.address(t, h.agent.dialect)
	}
	return s
}

// commandLine fills the templates.
func (h *acp) commandLine(t Task, s acpSetup) (argv, env []string) {
	fill := strings.NewReplacer(
		"{model}", t.Model, "{work}", t.Work, "{home}", t.Home, "{gateway}", s.url, "{key}", s.key,
		"{skills}", t.Extras.SkillsDir, "{instructions}", t.Extras.InstructionsFile,
	)
	for _, arg := range h.agent.argv {
		argv = append(argv, fill.Replace(arg))
	}
	var ours []string
	for _, kv := range h.agent.env {
		ours = append(ours, fill.Replace(kv))
	}
	if len(t.Extras.MCP) > 0 {
		ours = append(ours, h.agent.mcpEnv...)
	}
	return argv, agentEnv(t, filledEnv(fill, h.params.Env), ours...)
}

// furnish lays the agent's configuration and the parts of the condition into HOME.
func (h *acp) furnish(ctx context.Context, t Task, s acpSetup) error {
	f := furniture{config: h.agent.configFile, instructions: h.agent.instructions, skills: h.agent.skills}
	if h.agent.config != nil {
		content, err := h.agent.config(s)
		if err != nil {
			return err
		}
		f.content = content
	}
	return furnish(ctx, t, f)
}
