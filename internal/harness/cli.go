package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/gateway"
)

// A cli is a command line program that a harness runs as its agent. A kind embeds one, says its own facts in it and has
// Check, Models and Probe for that; what is left for it to write is Drive, and a talker that understands the program.
type cli struct {
	kind       string // its row in Kinds
	program    string // the usual name
	install    string // the command line that installs it, at the version that the tests are written for
	dialect    gateway.Dialect
	sideModels []string                                 // that it calls unasked
	env        func(home, address, key string) []string // what leads it to its own home and to its models
	foreign    []string                                 // further variables that would lead it elsewhere

	params   cliParams
	settings Settings // positions for faults
}

// cliParams are the settings of every harness that runs a program of others.
type cliParams struct {
	Program  string `yaml:"program" doc:"the CLI: a name to look for on PATH, or an absolute path; its usual name when absent"`
	upstream `yaml:",inline"`
	Env      map[string]string `yaml:"env" doc:"environment of the CLI" rule:"env"`
}

// newCLI returns c with its settings.
func newCLI(c cli, s Settings) (cli, error) {
	c.params.Program, c.settings = c.program, s
	if err := s.Decode(&c.params); err != nil {
		return cli{}, err
	}
	if err := errors.Join(checkProgram(c.params.Program, c.program, s), c.params.check(s), checkReserved(c.kind, c.reserved(), c.params.Env, s)); err != nil {
		return cli{}, err
	}
	return c, nil
}

// checkProgram finds a program that would be another one for each cell: a relative path leads into the tree of a case.
func checkProgram(program, usual string, s Settings) error {
	if program == "" || strings.Contains(program, "/") && !path.IsAbs(program) {
		return s.Fault("program", "program must be a name or an absolute path", "leave it out to run "+usual+" from PATH")
	}
	return nil
}

// reserved names the variables that the harness sets itself, and those that would lead its program elsewhere.
func (c *cli) reserved() []string { return append(envNames(c.env("", "", "")), c.foreign...) }

// environment is the environment of the program in the cell of t.
func (c *cli) environment(t Task) []string {
	address, key := c.params.address(t, c.dialect)
	return agentEnv(t, c.params.Env, c.env(t.Home, address, key)...)
}

// Check implements Checker.
func (c *cli) Check(t Task) error { return checkTaskEnv(c.kind, c.reserved(), t, c.settings) }

// Models implements Caller.
func (c *cli) Models(t Task) ([]gateway.Model, error) {
	return c.params.models(t, c.dialect, c.settings, c.sideModels...)
}

// Probe implements Prober.
func (c *cli) Probe(ctx context.Context, look func(string) (string, error), run func(context.Context, []string) (string, error)) (string, error) {
	program := c.params.Program
	return probe(ctx, program, "install it with "+c.install+", or name it in program", []string{program, "--version"}, look, run)
}

// probe looks for the program of an agent, and asks for its version by a command; none: it has no way to tell. missing says
// how to get the program. One that is named by a relative path lies in the tree of a case, so it is not looked for here.
func probe(
	ctx context.Context, program, missing string, version []string,
	look func(string) (string, error), run func(context.Context, []string) (string, error),
) (string, error) {
	if path.IsAbs(program) || !strings.Contains(program, "/") {
		if _, err := look(program); err != nil {
			return "", fmt.Errorf("agent %s: %w; %s", program, err, missing)
		}
	}
	if len(version) == 0 {
		return "", nil
	}
	out, err := run(ctx, version)
	if err != nil {
		return "", fmt.Errorf("version of agent %s: %w", program, err)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(out, "\uFFFD")), "\n")
	return line, nil
}

// checkReserved finds variables in the settings that the harness of this kind sets itself: they would be lost without a
// word, or lead the agent around the gateway.
func checkReserved(kind string, reserved []string, env map[string]string, s Settings) error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if slices.Contains(reserved, name) {
			faults = append(faults, s.Fault("env."+name, name+" is set by "+kind+" itself", "use models, base_url and key_env"))
		}
	}
	return errors.Join(faults...)
}

// checkTaskEnv finds the same in the environment of a case or a condition.
func checkTaskEnv(kind string, reserved []string, t Task, s Settings) error {
	for _, name := range envNames(t.Env) {
		if slices.Contains(reserved, name) {
			return s.Fault("", fmt.Sprintf("case %s or condition %s sets %s, which %s sets itself", t.Case, t.Condition, name, kind),
				"take it out of env; models, base_url and key_env belong to the harness")
		}
	}
	return nil
}

// checkTold finds a part of the condition that a program is never told of by its templates: it would be lost without a word.
func checkTold(t Task, argv []string, env map[string]string, s Settings) error {
	for _, part := range []struct{ is, key string }{{t.Extras.SkillsDir, "skills"}, {t.Extras.InstructionsFile, "instructions"}} {
		placeholder := "{" + part.key + "}"
		if part.is != "" && !mention(placeholder, argv, env) {
			return s.Fault("argv", fmt.Sprintf("condition %s has %s, and the agent is never told where they are", t.Condition, part.key),
				"put "+placeholder+" into argv or env")
		}
	}
	return nil
}

// mention tells whether templates hold a placeholder.
func mention(placeholder string, argv []string, env map[string]string) bool {
	has := func(s string) bool { return strings.Contains(s, placeholder) }
	return slices.ContainsFunc(argv, has) || slices.ContainsFunc(slices.Collect(maps.Values(env)), has)
}

// filledEnv fills the templates of an environment.
func filledEnv(fill *strings.Replacer, env map[string]string) map[string]string {
	filled := map[string]string{}
	for name, value := range env {
		filled[name] = fill.Replace(value)
	}
	return filled
}

// agentEnv is the environment of an agent's program: what the settings name, then what case and condition name, and
// last what leads the agent to its home and its models, which nobody may turn elsewhere. It is sorted by name.
func agentEnv(t Task, settings map[string]string, ours ...string) []string {
	env := maps.Clone(settings)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, envMap(t.Env))
	maps.Copy(env, envMap(ours))
	return envList(env)
}

// envMap turns NAME=value pairs into a map; the last pair of a name counts.
func envMap(env []string) map[string]string {
	m := map[string]string{}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		m[name] = value
	}
	return m
}

// envList turns a map into NAME=value pairs, sorted.
func envList(m map[string]string) []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		env = append(env, name+"="+m[name])
	}
	return env
}
