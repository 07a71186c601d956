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
	"github.com/assay-ci/assay/internal/trace"
)

// codex runs OpenAI's codex CLI once, with its own sandbox open: the place of the cell is the fence. In this mode codex asks
// nobody for anything, so no policy but auto-approve can be held.
//
// Its standard output is told by codexTalker. Some calls are in its session files only; see rollout.go.
type codex struct {
	params   codexParams
	settings Settings // positions for faults
}

var (
	_ Harness = (*codex)(nil)
	_ Prober  = (*codex)(nil)
	_ Caller  = (*codex)(nil)
)

type codexParams struct {
	Program  string `yaml:"program" doc:"the codex CLI: a name to look for on PATH, or an absolute path" default:"codex"`
	upstream `yaml:",inline"`
	Env      map[string]string `yaml:"env" doc:"environment of the program" rule:"env"`
}

func buildCodex(s Settings) (Harness, error) {
	var p codexParams
	if err := s.Decode(&p); err != nil {
		return nil, err
	}
	var faults []error
	if p.Program == "" || strings.Contains(p.Program, "/") && !path.IsAbs(p.Program) {
		faults = append(faults, s.Fault("program", "program must be a name or an absolute path", "such as codex or /opt/codex/bin/codex"))
	}
	faults = append(faults, p.check(s))
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return &codex{p, s}, nil
}

// Probe implements Prober.
func (h *codex) Probe(ctx context.Context, look func(string) (string, error), run func(context.Context, []string) (string, error)) (string, error) {
	return probeProgram(ctx, h.params.Program, "npm install -g @openai/codex@0.169.0", look, run)
}

// Models implements Caller.
func (h *codex) Models(t Task) ([]gateway.Model, error) {
	return h.params.models(t, gateway.Responses, h.settings)
}

// Drive implements Harness.
func (h *codex) Drive(ctx context.Context, t Task, emit func(trace.Event)) (Outcome, error) {
	env, base := h.environment(t)
	// Without plugins: their synchronisation is a process that outlives codex.
	argv := []string{
		h.params.Program, "exec", "--json", "--sandbox", "danger-full-access", "--skip-git-repo-check", "--disable", "plugins", "-",
	}
	opening(t, trace.Session{Harness: "codex", Agent: argv[0], Argv: argv, Env: envNames(env)}, emit)
	if err := furnishCodex(ctx, t, codexConfig(t, base)); err != nil && ctx.Err() == nil {
		return Outcome{}, err
	}
	talk := newCodexTalker()
	o, err := program{argv: argv, env: env, talker: talk}.drive(ctx, t, emit)
	if err != nil {
		return o, err
	}
	if talk.thread != "" && ctx.Err() == nil {
		r := &rollouts{session: talk, emit: emit}
		if err := r.read(ctx, t); err != nil {
			return Outcome{}, err
		}
		r.complete(t, &o)
	}
	return closing(o, emit), nil
}

// codexKey is the variable that carries the key of the gateway. It is not OPENAI_API_KEY, which makes codex do more than
// call a model.
const codexKey = "ASSAY_MODEL_KEY"

// environment returns the environment of codex and the address where it finds its model. What case and condition name wins
// over the settings, and what holds the agent to its place wins over both.
func (h *codex) environment(t Task) (env []string, base string) {
	for _, name := range slices.Sorted(maps.Keys(h.params.Env)) {
		env = append(env, name+"="+h.params.Env[name])
	}
	env = append(env, t.Env...)
	base, key := h.params.address(t, gateway.Responses)
	return append(env, "CODEX_HOME="+codexHome(t), codexKey+"="+key), base
}

func codexHome(t Task) string { return path.Join(t.Home, ".codex") }

// codexConfig is the config.toml of one cell. Two retries of two kinds: more would hide a provider that is down for minutes.
func codexConfig(t Task, base string) string {
	var b strings.Builder
	set := func(key, value string) { fmt.Fprintf(&b, "%s = %s\n", key, value) }
	set("model", tomlString(t.Model))
	set("model_provider", tomlString("assay"))
	set("check_for_update_on_startup", "false")
	b.WriteString("\n[analytics]\n")
	set("enabled", "false")
	b.WriteString("\n[model_providers.assay]\n")
	set("name", tomlString("assay"))
	set("base_url", tomlString(base))
	set("wire_api", tomlString("responses"))
	set("env_key", tomlString(codexKey))
	set("request_max_retries", "2")
	set("stream_max_retries", "2")
	for _, m := range t.Extras.MCP {
		fmt.Fprintf(&b, "\n[mcp_servers.%s]\n", tomlString(m.Name))
		set("required", "true") // else codex goes on without a server that does not start, and the condition is lost
		if m.URL != "" {
			set("url", tomlString(m.URL))
			continue
		}
		program, args := "", []string(nil)
		if len(m.Argv) > 0 {
			program, args = m.Argv[0], m.Argv[1:]
		}
		set("command", tomlString(program))
		set("args", tomlStrings(args))
		set("env", tomlPairs(m.Env))
	}
	return b.String()
}

// furnishCodex makes the folder of settings afresh. It lies outside the work folder, so it goes through a command.
func furnishCodex(ctx context.Context, t Task, config string) error {
	const script = `rm -rf -- "$1" && mkdir -p -- "$1/skills" && cat >"$1/config.toml" || exit
[ -z "$2" ] || cp -R -- "$2/." "$1/skills/" || exit
[ -z "$3" ] || cat -- "$3" >"$1/AGENTS.md"`
	return lay(ctx, t, "the settings of codex", config, script, codexHome(t), t.Extras.SkillsDir, t.Extras.InstructionsFile)
}
