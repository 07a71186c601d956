package harness

import (
	"context"
	"path"

	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/trace"
)

// claude runs the Claude Code CLI as the agent. It talks with it line by line in both directions, so that its permission
// prompts and its questions reach the responder; see claudeTalk.
type claude struct{ cli }

var (
	_ Harness = (*claude)(nil)
	_ Prober  = (*claude)(nil)
	_ Checker = (*claude)(nil)
	_ Caller  = (*claude)(nil)
)

const claudeInstall = "npm install -g @anthropic-ai/claude-code@2.1.197"

// claudeAbout is the page of this kind.
var claudeAbout = About{
	Install: claudeInstall,
	Example: `{id: claude, type: claude-code, models: [claude-sonnet-4-5]}`,
	Runs: "One process a cell: `claude -p --input-format stream-json --output-format stream-json --verbose " +
		"--permission-prompt-tool stdio`. The prompt, the answers to its permission prompts and those to its questions go " +
		"by standard input. Its settings folder is new in every cell: instructions are the CLAUDE.md in it, skills a " +
		"plugin beside it, and MCP servers are those of the condition alone. Its telemetry and its updates are off, and " +
		"it tries a failed model call twice instead of ten times.",
	Records: "Messages, thoughts, tool calls and their results, plans, permissions, questions, sub-agents, retries, the tools " +
		"and skills that it says it has, and its own usage and cost.",
	Silent: []string{
		"Its exit code says little: interrupted it exits with 0, and a provider's error comes as a success with a flag. " +
			"The last line of its stream decides.",
		"Its lines of usage come once for each part of an answer and leave out sub-agents. The sum over the models of its " +
			"last line is taken, and the gateway's count is the official one.",
		"While a sub-agent works in the background, its first end is not the last: it takes another turn, and is heard " +
			"until that has ended.",
		"It may call another model than the one it was told, where a name is old. The gateway refuses a model that is not " +
			"the cell's.",
		"A dozen skills of its own are in every cell. It also reads CLAUDE.md and `.claude/skills` of the tree, but no " +
			"AGENTS.md.",
		"Its own limits of turns and money count otherwise than Assay's, so they are not used.",
	},
	Limits: modelLimits,
}

func buildClaude(s Settings) (Harness, error) {
	c, err := newCLI(cli{
		kind: "claude-code", program: "claude", install: claudeInstall, dialect: gateway.Anthropic,
		env: claudeEnv, foreign: []string{"ANTHROPIC_MODEL", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"},
	}, s)
	return &claude{c}, err
}

func claudeEnv(home, address, key string) []string {
	return []string{
		"ANTHROPIC_BASE_URL=" + address, "ANTHROPIC_API_KEY=" + key, "CLAUDE_CONFIG_DIR=" + path.Join(home, claudeHome),
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1",
		"CLAUDE_CODE_MAX_RETRIES=2", // the CLI's own 10 keep a dead provider busy for three minutes
	}
}

// environment is that of the CLI, which waits for tool servers where there are any: else its first request may lack the tools
// of those that are slow to start.
func (h *claude) environment(t Task) []string {
	env := h.cli.environment(t)
	if len(t.Extras.MCP) > 0 {
		env = append(env, claudeMCPEnv...)
	}
	return env
}

var claudeMCPEnv = []string{"MCP_CONNECTION_NONBLOCKING=0", "MCP_CONNECT_TIMEOUT_MS=30000"}

// Drive implements Harness.
func (h *claude) Drive(ctx context.Context, t Task, emit func(trace.Event)) (Outcome, error) {
	argv, env := h.commandLine(t), h.environment(t)
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

const claudeHome = ".claude" // below HOME

func claudeFilesOf(t Task) claudeFiles {
	return claudeFiles{path.Join(t.Home, claudeHome), path.Join(t.Home, "assay-plugin"), path.Join(t.Home, "assay-mcp.json")}
}

// commandLine returns how the CLI is started.
func (h *claude) commandLine(t Task) []string {
	files := claudeFilesOf(t)
	argv := []string{h.params.Program, "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
		"--permission-prompt-tool", "stdio", "--model", t.Model}
	if t.Extras.SkillsDir != "" {
		argv = append(argv, "--plugin-dir", files.plugin)
	}
	if len(t.Extras.MCP) > 0 {
		argv = append(argv, "--mcp-config", files.mcp, "--strict-mcp-config")
	}
	return argv
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
		s := server{Type: "http", URL: m.URL, Env: envMap(m.Env)}
		if m.URL == "" && len(m.Argv) > 0 {
			s.Type, s.Command, s.Args = "stdio", m.Argv[0], m.Argv[1:]
		}
		list[m.Name] = s
	}
	return string(asJSON(map[string]any{"mcpServers": list}))
}
