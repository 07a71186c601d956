package harness

import "strings"

// A ToolNamer is a harness whose agent offers the tools of an MCP server to its model under names that tell the server.
type ToolNamer interface {
	// ToolsOf returns what those names begin with; empty when it is not known.
	ToolsOf(server string) string
}

var (
	_ ToolNamer = (*claude)(nil)
	_ ToolNamer = (*codex)(nil)
	_ ToolNamer = (*gemini)(nil)
	_ ToolNamer = (*opencode)(nil)
	_ ToolNamer = (*acp)(nil)
)

// ToolsOf implements ToolNamer.
func (h *claude) ToolsOf(server string) string { return claudeTools(server) }

// ToolsOf implements ToolNamer.
func (h *codex) ToolsOf(server string) string { return codexTools(server) }

// ToolsOf implements ToolNamer.
func (h *gemini) ToolsOf(server string) string { return geminiTools(server) }

// ToolsOf implements ToolNamer.
func (h *opencode) ToolsOf(server string) string { return opencodeTools(server) }

// ToolsOf implements ToolNamer. How an agent names them that is known by its argv alone nobody can say.
func (h *acp) ToolsOf(server string) string {
	switch h.params.Agent {
	case "claude-agent-acp":
		return claudeTools(server)
	case "codex-acp":
		return codexTools(server)
	case "gemini":
		return geminiTools(server)
	case "opencode":
		return opencodeTools(server)
	}
	return ""
}

func claudeTools(server string) string { return "mcp__" + keep(server, "-") + "__" }

func codexTools(server string) string { return "mcp__" + keep(server, "") + "__" }

func opencodeTools(server string) string { return keep(server, "-") + "_" }

// geminiTools is cut where the CLI cuts the middle out of a long name.
func geminiTools(server string) string {
	name := keep(server, "-.:") + "_"
	if !strings.HasPrefix(name, "mcp_") {
		name = "mcp_" + name
	}
	return name[:min(len(name), 30)]
}

// keep writes an underscore for what is no letter, digit or underscore, nor one of further.
func keep(name, further string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || strings.ContainsRune(further, r) {
			return r
		}
		return '_'
	}, name)
}
