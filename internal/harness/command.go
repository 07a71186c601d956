package harness

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/trace"
)

// command runs any program as the agent. How it ended is told by its exit code, and better by the trace that it may write.
type command struct {
	params   commandParams
	settings Settings // positions for faults
}

var (
	_ Harness = (*command)(nil)
	_ Prober  = (*command)(nil)
	_ Checker = (*command)(nil)
)

type commandParams struct {
	Argv    []string          `yaml:"argv" doc:"the program and its arguments, no shell between; {prompt_file} {model} {work} {home} {trace_file} {skills} {instructions} are filled in, other braces stay" rule:"required"`
	Stdin   string            `yaml:"stdin" doc:"what the program reads on standard input: prompt or none" default:"none" rule:"oneof=prompt none"`
	Version []string          `yaml:"version" doc:"a program and its arguments that print the agent's version"`
	Env     map[string]string `yaml:"env" doc:"environment of the program; values are filled in like argv" rule:"env"`
}

// commandAbout is the page of this kind.
var commandAbout = About{
	Example: `{id: mine, type: command, argv: [my-agent, --model, "{model}", --skills, "{skills}", --prompt-file, "{prompt_file}"], models: [small]}`,
	Runs: "The program is started once a cell, in the work folder and without a shell. Placeholders are filled in, and the " +
		"prompt goes by a file or by standard input. Exit code 0 is the end of its turn; any other is an error.",
	Records: "What it prints, and the end of that as its final text. An agent that can say more writes Assay's trace, one JSON " +
		"object a line, to `{trace_file}`; it is taken into the trace of the cell.",
	Silent: []string{
		"Without a trace of its own it tells no tool calls, no turns and no tokens. They are not known, never zero.",
		"It calls its models around the gateway: cost is not measured, and nobody can see whether the condition reached " +
			"the model.",
		"A provider that fails looks like an agent that fails, unless its exit code or its trace says so.",
		"It asks nothing, so no policy but auto-approve can be held.",
	},
	Limits: "Assay ends the program and all that it started when `limits.timeout` is over and when it has printed too much. " +
		"Turns are counted in its own trace, after its end, and money not at all.",
}

func buildCommand(s Settings) (Harness, error) {
	var p commandParams
	if err := s.Decode(&p); err != nil {
		return nil, err
	}
	h := &command{p, s}
	var faults []error
	if len(p.Argv) == 0 || p.Argv[0] == "" {
		return nil, s.Fault("argv", "argv needs a program", "such as argv: [my-agent, --prompt-file, \"{prompt_file}\"]")
	}
	if filler(Task{}).Replace(p.Argv[0]) != p.Argv[0] {
		faults = append(faults, s.Fault("argv[0]", "the program itself cannot be a placeholder", "start a fixed program and give it the value as an argument"))
	}
	if p.Stdin != "prompt" && !h.uses("{prompt_file}") {
		faults = append(faults, s.Fault("argv", "the prompt never reaches the agent", "put {prompt_file} into argv or set stdin: prompt"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return h, nil
}

// uses tells whether the settings mention a placeholder.
func (h *command) uses(placeholder string) bool {
	return mention(placeholder, h.params.Argv, h.params.Env)
}

// Check implements Checker.
func (h *command) Check(t Task) error { return checkTold(t, h.params.Argv, h.params.Env, h.settings) }

// Probe implements Prober.
func (h *command) Probe(ctx context.Context, look func(string) (string, error), run func(context.Context, []string) (string, error)) (string, error) {
	return probe(ctx, h.params.Argv[0], "install it or put it on PATH", h.params.Version, look, run)
}

// Names of our files in HOME: the work folder holds nothing of ours.
const (
	promptName = "assay-prompt.txt"
	traceName  = "assay-trace.jsonl"
)

// filler fills the placeholders of a template for one cell. It reads a template once, so a value that looks like a
// placeholder is not filled again.
func filler(t Task) *strings.Replacer {
	return strings.NewReplacer(
		"{prompt_file}", path.Join(t.Home, promptName),
		"{model}", t.Model,
		"{work}", t.Work,
		"{home}", t.Home,
		"{trace_file}", path.Join(t.Home, traceName),
		"{skills}", t.Extras.SkillsDir,
		"{instructions}", t.Extras.InstructionsFile,
	)
}

// Drive implements Harness.
func (h *command) Drive(ctx context.Context, t Task, emit func(trace.Event)) (Outcome, error) {
	argv, env := h.commandLine(t)
	opening(t, trace.Session{Harness: "command", Agent: argv[0], Argv: argv, Env: envNames(env)}, emit)
	if h.uses("{prompt_file}") || h.uses("{trace_file}") {
		if err := prepare(ctx, t); err != nil && ctx.Err() == nil {
			return Outcome{}, err
		}
	}
	o, err := h.run(ctx, t, argv, env)
	if err != nil {
		return Outcome{}, err
	}
	if h.uses("{trace_file}") && ctx.Err() == nil {
		if err := mergeTrace(ctx, t, &o, emit); err != nil {
			return Outcome{}, err
		}
	}
	if t.Limits.MaxTurns > 0 && o.Turns == nil {
		emit(warning("max_turns is not enforced: this agent does not tell its turns"))
	}
	return closing(o, emit), nil
}

// commandLine fills the templates. What case and condition name in the environment wins over the settings.
func (h *command) commandLine(t Task) (argv, env []string) {
	fill := filler(t)
	for _, arg := range h.params.Argv {
		argv = append(argv, fill.Replace(arg))
	}
	return argv, agentEnv(t, filledEnv(fill, h.params.Env))
}

// prepare writes the prompt file and removes a trace file that an earlier run left. Both lie outside the work folder, so
// it goes through a command.
func prepare(ctx context.Context, t Task) error {
	return lay(ctx, t, "the prompt file", t.Prompt, `rm -rf -- "$1" "$2" && cat >"$1"`, path.Join(t.Home, promptName), path.Join(t.Home, traceName))
}

// run runs the agent to its end.
func (h *command) run(ctx context.Context, t Task, argv, env []string) (Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := &output{log: t.Log, limit: t.Limits.MaxOutput, over: func() { cancel(errOutput) }}
	said, complained := trace.NewTail(4<<10), trace.NewTail(400)
	c := executor.Command{
		Argv: argv, Env: env,
		Stdout: out.stream(said), Stderr: out.stream(complained),
		Timeout: t.Limits.Timeout, Grace: t.Limits.Grace,
	}
	if h.params.Stdin == "prompt" {
		c.Stdin = strings.NewReader(t.Prompt)
	}
	if t.Limits.MaxOutput > 0 {
		c.MaxOutput = t.Limits.MaxOutput + 1 // so that passing the limit is seen
	}
	ex, err := t.Exec.Run(ctx, c)
	if err != nil {
		return Outcome{}, fmt.Errorf("run agent %s: %w", argv[0], err)
	}
	seen, err := out.state()
	if err != nil {
		return Outcome{}, err
	}
	o := ending(ctx, t.Limits, ex, complained.String())
	o.FinalText, o.Answered = said.String(), seen > 0
	o.Survivors, o.Swept = ex.Survivors, ex.Swept
	return o, nil
}

// ending derives the outcome from what we did to the agent, and only then from how it exited.
func ending(ctx context.Context, l Limits, ex executor.Exit, complaint string) Outcome {
	o := Outcome{Signal: ex.Signal}
	if ex.Signal == "" {
		o.Exit = &ex.Code
	}
	switch {
	case ex.TimedOut:
		o.Stop, o.Detail = trace.StopTimeout, timeoutDetail(l)
	case ex.Cancelled, errors.Is(context.Cause(ctx), errOutput):
		o.Stop, o.Detail = halt(ctx, l)
	case ex.OOM:
		o.Stop, o.Class, o.Detail = trace.StopKilled, trace.ClassHarnessCrash, "out of memory"
	case ex.Signal != "":
		o.Stop, o.Class, o.Detail = trace.StopKilled, trace.ClassHarnessCrash, "ended by "+ex.Signal+", which Assay did not send"
	case ex.Code == 0:
		o.Stop = trace.StopEndTurn
	default:
		o.Stop, o.Class = trace.StopError, trace.ClassHarnessCrash
		if ex.Code == 126 || ex.Code == 127 {
			o.Class = trace.ClassHarnessConfig // the program cannot be started, or a wrapper did not find it
		}
		o.Detail = fmt.Sprintf("exit %d", ex.Code)
		if said := printable(complaint); said != "" {
			o.Detail += ": " + said
		}
	}
	return o
}

// printable is a foreign text without control characters. Its white space stays: a secret that was broken over lines is
// found only where the breaks still are, so texts are folded when they are shown, after secrets were taken out.
func printable(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, s))
}

func warning(detail string) trace.Event {
	return trace.Event{Kind: trace.KindError, Err: &trace.Fault{Class: trace.ClassWarning, Detail: detail}}
}
