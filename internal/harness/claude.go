package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/trace"
)

// claude runs the Claude Code CLI as the agent. It talks with it line by line in both directions, so that its permission
// prompts and its questions reach the responder; see claudeTalk.
type claude struct {
	params   claudeParams
	settings Settings // positions for faults
}

var (
	_ Harness = (*claude)(nil)
	_ Prober  = (*claude)(nil)
	_ Checker = (*claude)(nil)
	_ Caller  = (*claude)(nil)
)

type claudeParams struct {
	Program  string `yaml:"program" doc:"the CLI, a name on PATH or a path" default:"claude"`
	upstream `yaml:",inline"`
	Env      map[string]string `yaml:"env" doc:"environment of the CLI" rule:"env"`
}

func buildClaude(s Settings) (Harness, error) {
	var p claudeParams
	if err := s.Decode(&p); err != nil {
		return nil, err
	}
	var faults []error
	if p.Program == "" {
		faults = append(faults, s.Fault("program", "program needs a name or a path", "leave it out to run claude from PATH"))
	}
	faults = append(faults, p.check(s))
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		if slices.Contains(claudeOwn, name) {
			faults = append(faults, s.Fault("env."+name, name+" is set by claude-code itself", "use model, base_url and key_env"))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return &claude{p, s}, nil
}

// claudeOwn names the variables that decide where the CLI calls its models and where it reads its settings from. A suite
// that set one of them would lead the agent around the gateway, or out of its own folders.
var claudeOwn = []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "CLAUDE_CONFIG_DIR"}

// Check implements Checker.
func (h *claude) Check(t Task) error {
	if t.Model == "" || t.Model == "none" {
		return h.settings.Fault("", "claude-code needs a model", "such as models: [claude-sonnet-4-5]")
	}
	for _, name := range envNames(t.Env) {
		if slices.Contains(claudeOwn, name) {
			return h.settings.Fault("", fmt.Sprintf("case %s or condition %s sets %s, which claude-code sets itself", t.Case, t.Condition, name),
				"take it out of env; models, base_url and key_env belong to the harness")
		}
	}
	return nil
}

// Models implements Caller.
func (h *claude) Models(t Task) ([]gateway.Model, error) {
	return h.params.models(t, gateway.Anthropic, h.settings)
}

// Probe implements Prober.
func (h *claude) Probe(ctx context.Context, look func(string) (string, error), run func(context.Context, []string) (string, error)) (string, error) {
	return probeProgram(ctx, h.params.Program, "npm install -g @anthropic-ai/claude-code@2.1.197", look, run)
}

// Drive implements Harness.
func (h *claude) Drive(ctx context.Context, t Task, emit func(trace.Event)) (Outcome, error) {
	argv, env := h.commandLine(t)
	opening(t, trace.Session{Harness: "claude-code", Agent: argv[0], Argv: argv, Env: envNames(env)}, emit)
	if err := layClaude(ctx, t); err != nil && ctx.Err() == nil {
		return Outcome{}, err
	}
	o, err := program{argv: argv, env: env, talker: newClaudeTalk(t.Prompt)}.drive(ctx, t, emit)
	if err != nil {
		return o, err
	}
	return closing(o, emit), nil
}

// claudeFiles are the places of our files in HOME: the work folder holds nothing of ours.
type claudeFiles struct{ config, plugin, mcp string }

func claudeFilesOf(t Task) claudeFiles {
	return claudeFiles{path.Join(t.Home, ".claude"), path.Join(t.Home, "assay-plugin"), path.Join(t.Home, "assay-mcp.json")}
}

// commandLine returns how the CLI is started. What case and condition name in the environment wins over the settings, and
// what keeps the agent in its cell wins over both.
func (h *claude) commandLine(t Task) (argv, env []string) {
	files := claudeFilesOf(t)
	argv = []string{h.params.Program, "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
		"--permission-prompt-tool", "stdio", "--model", t.Model}
	if t.Extras.SkillsDir != "" {
		argv = append(argv, "--plugin-dir", files.plugin)
	}
	if len(t.Extras.MCP) > 0 {
		argv = append(argv, "--mcp-config", files.mcp, "--strict-mcp-config")
	}
	base, key := h.params.address(t, gateway.Anthropic)
	set := maps.Clone(h.params.Env)
	if set == nil {
		set = map[string]string{}
	}
	for _, kv := range t.Env {
		name, value, _ := strings.Cut(kv, "=")
		set[name] = value
	}
	maps.Copy(set, map[string]string{
		"ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": key, "CLAUDE_CONFIG_DIR": files.config,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1",
		"CLAUDE_CODE_MAX_RETRIES": "2", // the CLI's own 10 keep a dead provider busy for three minutes
	})
	if len(t.Extras.MCP) > 0 { // else the first request may lack the tools of servers that are slow to start
		set["MCP_CONNECTION_NONBLOCKING"], set["MCP_CONNECT_TIMEOUT_MS"] = "0", "30000"
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		env = append(env, name+"="+set[name])
	}
	return argv, env
}

// layClaude puts what the condition wants the agent to have into HOME, where the CLI looks for it. HOME lies outside the
// work folder, so it goes through commands.
func layClaude(ctx context.Context, t Task) error {
	files := claudeFilesOf(t)
	if err := lay(ctx, t, "the agent's settings folder", "", `mkdir -p -- "$1"`, files.config); err != nil {
		return err
	}
	if dir := t.Extras.SkillsDir; dir != "" {
		const manifest = `{"name":"skills","version":"1.0.0","description":"Skills of this project"}`
		err := lay(ctx, t, "the skills", manifest,
			`rm -rf -- "$1" && mkdir -p -- "$1/.claude-plugin" && cat >"$1/.claude-plugin/plugin.json" && cp -R -- "$2" "$1/skills"`, files.plugin, dir)
		if err != nil {
			return err
		}
	}
	if file := t.Extras.InstructionsFile; file != "" {
		if err := lay(ctx, t, "the instructions", "", `cp -- "$1" "$2"`, file, path.Join(files.config, "CLAUDE.md")); err != nil {
			return err
		}
	}
	if len(t.Extras.MCP) > 0 {
		return lay(ctx, t, "the list of MCP servers", claudeMCP(t.Extras.MCP), `cat >"$1"`, files.mcp)
	}
	return nil
}

// claudeMCP is the file that tells the CLI of the tool servers.
func claudeMCP(servers []MCPServer) string {
	type server struct {
		Type    string            `json:"type"`
		Command string            `json:"command,omitempty"`
		Args    []string          `json:"args,omitempty"`
		Env     map[string]string `json:"env,omitempty"`
		URL     string            `json:"url,omitempty"`
	}
	list := map[string]server{}
	for _, m := range servers {
		s := server{Type: "http", URL: m.URL, Env: map[string]string{}}
		if m.URL == "" && len(m.Argv) > 0 {
			s.Type, s.Command, s.Args = "stdio", m.Argv[0], m.Argv[1:]
		}
		for _, kv := range m.Env {
			name, value, _ := strings.Cut(kv, "=")
			s.Env[name] = value
		}
		list[m.Name] = s
	}
	b, err := json.Marshal(map[string]any{"mcpServers": list})
	if err != nil {
		panic("harness: names and texts are always JSON: " + err.Error())
	}
	return string(b)
}
