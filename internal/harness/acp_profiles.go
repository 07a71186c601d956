package harness

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/assay-ci/assay/internal/gateway"
)

// An acpAgent is one agent that speaks the protocol: how it is set up for a cell, and where it does not keep to what the
// others do. An agent that is named by argv has nothing but its argv and its dialect.
type acpAgent struct {
	name       string
	argv       []string // templates, as env and the values of acpParams.Env
	env        []string
	mcpEnv     []string // further ones where the condition has tool servers
	install    string   // the command line that installs it, at the version that the tests are written for
	versioned  bool     // it knows --version
	dialect    gateway.Dialect
	sideModels []string // that it calls unasked

	configFile   string // below HOME, as are the next two
	config       func(acpSetup) (string, error)
	skills       string // folder, one folder a skill
	instructions string

	asks       []string // what it asks in that mode: permission, question
	mode       string   // of the session, when the one that it begins in is not the one in which it asks before it acts
	stays      bool     // it does not end with its input
	silentDeny bool     // it says nothing of a call that was denied
	lastStep   bool     // the usage at its end is that of its last step
	noTool     string   // the tool that it calls in place of one that is not there
	ownLimit   string   // what a stop at its own limit of requests means
	nameOf     func(acpCallUpdate) string
	chatter    func(text string) bool // a message that the agent's machinery wrote and not its model
	fault      func(name string) (status int)

	silent []string // as in About
}

// An acpSetup is what one cell gives an agent.
type acpSetup struct {
	home, model string
	url, key    string // of the model, in the agent's dialect
	mcp         []MCPServer
}

// acpAgents is the table of known agents. It is never changed.
var acpAgents = []acpAgent{
	{
		name:    "claude-agent-acp",
		argv:    []string{"claude-agent-acp"},
		install: "npm install -g @agentclientprotocol/claude-agent-acp@0.49.0",
		dialect: gateway.Anthropic,
		env: []string{
			"ANTHROPIC_BASE_URL={gateway}", "ANTHROPIC_API_KEY={key}", "ANTHROPIC_MODEL={model}", "CLAUDE_CONFIG_DIR={home}/.claude",
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "CLAUDE_CODE_MAX_RETRIES=2", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1",
		},
		mcpEnv:       claudeMCPEnv,
		skills:       ".claude/skills",
		instructions: ".claude/CLAUDE.md",
		mode:         "default",
		asks:         []string{"permission", "question"},
		nameOf:       func(u acpCallUpdate) string { return u.meta().ToolName },
		silent: []string{
			"It carries a Claude Code of its own, of another version than the one beside it.",
			"The cost that it reports grows over the session. The last one counts.",
			"Cancelled, it reports no usage.",
		},
	},
	{
		name:         "codex-acp",
		argv:         []string{"codex-acp"},
		install:      "npm install -g @zed-industries/codex-acp@0.16.0",
		dialect:      gateway.Responses,
		env:          []string{"CODEX_HOME={home}/.codex", "OPENAI_API_KEY={key}"},
		configFile:   ".codex/config.toml",
		config:       codexACPConfig,
		skills:       ".codex/skills",
		instructions: ".codex/AGENTS.md",
		// In any other mode an edit vanishes without a call and without an ask; the place is the fence.
		mode:  "full-access",
		stays: true,
		chatter: func(text string) bool {
			return strings.HasPrefix(text, "Model metadata for `") && strings.HasSuffix(text, "can degrade performance and cause issues.")
		},
		silent: []string{
			"It asks nothing. In the mode in which it begins, an edit is neither made nor told.",
			"It reports how full its context is, and no tokens.",
			"It tells its user of missing model data by a message of the model. That message is recorded as a warning.",
			"It does not end with its input. Assay ends it.",
		},
	},
	{
		name:       "gemini",
		argv:       []string{"gemini", "--acp", "-m", "{model}"},
		install:    geminiInstall,
		versioned:  true,
		dialect:    gateway.Gemini,
		sideModels: geminiSideModels,
		env: []string{
			"GEMINI_CLI_HOME={home}", "GEMINI_API_KEY={key}", "GOOGLE_GEMINI_BASE_URL={gateway}", "GEMINI_CLI_NO_RELAUNCH=true",
		},
		configFile: ".gemini/settings.json",
		config: func(acpSetup) (string, error) {
			return `{"security":{"auth":{"selectedType":"gemini-api-key"},"folderTrust":{"enabled":false}},` +
				`"privacy":{"usageStatisticsEnabled":false},"general":{"enableAutoUpdate":false,"maxAttempts":` + strconv.Itoa(geminiAttempts) + `}}`, nil
		},
		skills:       ".gemini/skills",
		instructions: ".gemini/GEMINI.md",
		mode:         "default",
		asks:         []string{"permission"},
		silentDeny:   true,
		ownLimit:     "loop_detected",
		nameOf: func(u acpCallUpdate) string {
			name, _, _ := cutLast(u.ID, "__")
			return name
		},
		silent: []string{
			"It asks before every tool, its list of things to do included, and before the call itself is shown. Of a call " +
				"that was denied it tells no more.",
			"It tells titles and diffs of its calls, but no arguments and no output.",
			"The tokens that it reports include the cached ones and leave out thoughts.",
			"An answer that was refused looks like a whole one. The gateway's word counts.",
			"When its loop detector stops it, the stop is max_turns with the detail loop_detected.",
		},
	},
	{
		name:      "opencode",
		argv:      []string{"opencode", "acp"},
		install:   opencodeInstall,
		versioned: true,
		dialect:   gateway.Chat,
		env: []string{
			"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1",
		},
		configFile:   ".config/opencode/opencode.json",
		config:       opencodeACPConfig,
		skills:       ".config/opencode/skills",
		instructions: ".config/opencode/AGENTS.md",
		asks:         []string{"permission"}, // its configuration says so
		lastStep:     true,
		noTool:       "invalid",
		nameOf: func(u acpCallUpdate) string { // later titles are for people
			if u.Update == "tool_call" {
				return u.Title
			}
			return ""
		},
		fault: func(name string) int {
			switch name {
			case "ProviderAuthError":
				return 401
			case "APIError": // it retries what may pass, so what it tells of is about the request
				return 400
			}
			return 0
		},
		silent: []string{
			"Its settings say what it asks for: edits, commands and fetches.",
			"The usage at its end is that of its last step. Zeros after it was cancelled are taken as not known.",
		},
	},
}

// missing says how to get the agent.
func (a acpAgent) missing() string {
	if a.install == "" {
		return "install it or put it on PATH"
	}
	return "install it with " + a.install + ", or name it in program"
}

// acpProfiles is what a person wants to know of the known agents.
func acpProfiles() []Profile {
	var list []Profile
	for _, a := range acpAgents {
		list = append(list, Profile{Name: a.name, Install: a.install, Runs: strings.Join(a.argv, " "), Mode: a.mode, Silent: a.silent})
	}
	return list
}

// cutLast is strings.Cut at the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

func opencodeACPConfig(s acpSetup) (string, error) {
	return acpJSON(acpObject{
		"autoupdate": false, "share": "disabled",
		"model": "assay/" + s.model, "small_model": "assay/" + s.model,
		"permission": acpObject{"edit": "ask", "bash": "ask", "webfetch": "ask"},
		"provider": acpObject{"assay": acpObject{
			"npm": "@ai-sdk/openai-compatible", "name": "assay",
			"options": acpObject{"baseURL": s.url, "apiKey": s.key},
			"models":  acpObject{s.model: acpObject{"name": s.model}},
		}},
	})
}

// codexACPConfig is that of the codex CLI. The tool servers stand there too: what the protocol tells it of them does not
// reach its first request.
func codexACPConfig(s acpSetup) (string, error) {
	return codexConfig(s.model, s.url, "OPENAI_API_KEY", s.mcp) + "\n[features]\nplugins = false\n", nil
}

// acpJSON is v as one line of JSON, without escapes that only HTML needs.
func acpJSON(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}
