package harness

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/trace"
)

// codex runs OpenAI's codex CLI once, with its own sandbox open: the place of the cell is the fence. In this mode codex asks
// nobody for anything, so no policy but auto-approve can be held.
//
// Its standard output is told by codexTalker. Some calls are in its session files only; see rollout.go.
type codex struct{ cli }

var (
	_ Harness = (*codex)(nil)
	_ Prober  = (*codex)(nil)
	_ Checker = (*codex)(nil)
	_ Caller  = (*codex)(nil)
)

const codexInstall = "npm install -g @openai/codex@0.169.0"

// codexAbout is the page of this kind.
var codexAbout = About{
	Install: codexInstall,
	Example: `{id: codex, type: codex, models: [gpt-5.5]}`,
	Runs: "One process a cell: `codex exec --json --sandbox danger-full-access --skip-git-repo-check --disable plugins -`, " +
		"with the prompt on standard input. Its own sandbox is open, since the place of the cell is the fence. Its home " +
		"is new in every cell: the gateway is its only provider, a failed call is tried twice more, and an MCP server " +
		"that does not start ends the cell instead of being left out.",
	Records: "Messages, thoughts, commands with their exit codes, changed files, MCP calls, lists of things to do, and its own " +
		"usage. When it has ended, its session files are read too: calls that only they tell are in the trace with the " +
		"mark late.",
	Silent: []string{
		"Its output leaves out calls: commands that were denied, tools that do not exist, arguments that are no JSON and " +
			"questions give no line, and it exits with 0. They come from its session files.",
		"It reports no usage when a turn fails or when it is ended. The gateway's count is there all the same.",
		"A signal ends it without a last line.",
		"A server error of the provider is told as high demand. The status comes from the gateway.",
		"Which tools it offers depends on the name of the model: one that it does not know gets a shell and nothing else.",
		"It asks nothing, so no policy but auto-approve can be held.",
		"It reads AGENTS.md, `.codex/skills` and `.agents/skills` of the tree.",
	},
	Limits: modelLimits,
}

func buildCodex(s Settings) (Harness, error) {
	c, err := newCLI(cli{kind: "codex", program: "codex", install: codexInstall, dialect: gateway.Responses, env: codexEnv}, s)
	return &codex{c}, err
}

// codexKey is the variable that carries the key of the gateway. It is not OPENAI_API_KEY, which makes codex do more than
// call a model.
const codexKey = "ASSAY_MODEL_KEY"

func codexEnv(home, _, key string) []string {
	return []string{"CODEX_HOME=" + path.Join(home, codexHome), codexKey + "=" + key}
}

// Drive implements Harness.
func (h *codex) Drive(ctx context.Context, t Task, emit func(trace.Event)) (Outcome, error) {
	env := h.environment(t)
	// Without plugins: their synchronisation is a process that outlives codex.
	argv := []string{
		h.params.Program, "exec", "--json", "--sandbox", "danger-full-access", "--skip-git-repo-check", "--disable", "plugins", "-",
	}
	opening(t, trace.Session{Harness: "codex", Agent: argv[0], Argv: argv, Env: envNames(env)}, emit)
	base, _ := h.params.address(t, h.dialect)
	if err := furnish(ctx, t, furniture{
		config: codexHome + "/config.toml", content: codexConfig(t.Model, base, codexKey, t.Extras.MCP), instructions: codexHome + "/AGENTS.md", skills: codexHome + "/skills",
	}); err != nil && ctx.Err() == nil {
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

const codexHome = ".codex" // below HOME

// codexConfig is the config.toml of one cell; key names the variable that carries the key of the gateway. Two retries of two kinds: more would hide a provider that is down for minutes.
func codexConfig(model, base, key string, servers []MCPServer) string {
	var b strings.Builder
	set := func(key, value string) { fmt.Fprintf(&b, "%s = %s\n", key, value) }
	set("model", tomlString(model))
	set("model_provider", tomlString("assay"))
	set("check_for_update_on_startup", "false")
	b.WriteString("\n[analytics]\n")
	set("enabled", "false")
	b.WriteString("\n[model_providers.assay]\n")
	set("name", tomlString("assay"))
	set("base_url", tomlString(base))
	set("wire_api", tomlString("responses"))
	set("env_key", tomlString(key))
	set("request_max_retries", "2")
	set("stream_max_retries", "2")
	for _, m := range servers {
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
