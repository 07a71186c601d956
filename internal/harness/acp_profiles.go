package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	npm        string // the package that it is installed from
	versioned  bool   // it knows --version
	dialect    gateway.Dialect
	sideModels []string // that it calls unasked

	configFile   string // below HOME, as are the next two
	config       func(acpSetup) (string, error)
	skills       string // folder, one folder a skill
	instructions string

	asks       []string // what it asks in that mode: permission, question
	mode       string // of the session, when the one that it begins in is not the one in which it asks before it acts
	stays      bool   // it does not end with its input
	silentDeny bool   // it says nothing of a call that was denied
	lastStep   bool   // the usage at its end is that of its last step
	ownLimit   string // what a stop at its own limit of requests means
	nameOf     func(acpCallUpdate) string
	chatter    func(text string) bool // a message that the agent's machinery wrote and not its model
	fault      func(name string) (status int)
}

// An acpSetup is what one cell gives an agent.
type acpSetup struct {
	home, model string
	url, key    string // of the model, in the agent's dialect
}

// acpAgents is the table of known agents. It is never changed.
var acpAgents = []acpAgent{
	{
		name:    "claude-agent-acp",
		argv:    []string{"claude-agent-acp"},
		npm:     "@agentclientprotocol/claude-agent-acp@0.49.0",
		dialect: gateway.Anthropic,
		env: []string{
			"ANTHROPIC_BASE_URL={gateway}", "ANTHROPIC_API_KEY={key}", "ANTHROPIC_MODEL={model}", "CLAUDE_CONFIG_DIR={home}/.claude",
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "CLAUDE_CODE_MAX_RETRIES=2", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1",
		},
		skills:       ".claude/skills",
		instructions: ".claude/CLAUDE.md",
		mode:         "default",
		asks:         []string{"permission", "question"},
		nameOf:       func(u acpCallUpdate) string { return u.meta().ToolName },
	},
	{
		name:         "codex-acp",
		argv:         []string{"codex-acp"},
		npm:          "@zed-industries/codex-acp@0.16.0",
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
	},
	{
		name:       "gemini",
		argv:       []string{"gemini", "--acp", "-m", "{model}"},
		npm:        "@google/gemini-cli@0.61.0",
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
	},
	{
		name:      "opencode",
		argv:      []string{"opencode", "acp"},
		npm:       "opencode-ai@1.18.33",
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
	},
}

// install says how to get the agent.
func (a acpAgent) install() string {
	if a.npm == "" {
		return "install it or put it on PATH"
	}
	return "install it with npm install -g " + a.npm + ", or name it in program"
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

func codexACPConfig(s acpSetup) (string, error) {
	return fmt.Sprintf(`model = %s
model_provider = "assay"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
plugins = false

[model_providers.assay]
name = "assay"
base_url = %s
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 2
stream_max_retries = 2
`, tomlString(s.model), tomlString(s.url)), nil
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
