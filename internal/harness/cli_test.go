package harness_test

import (
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/harness"
)

// TestProgramIsOne: a program that is named by a relative path would be another one in each case.
func TestProgramIsOne(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claude-code", "codex", "gemini", "opencode"} {
		for _, program := range []string{`""`, "bin/agent", "./agent"} {
			_, err := kind(t, name).Build(settings(t, "program: "+program))
			if err == nil || !strings.Contains(err.Error(), "suite.yaml:1:10: program must be a name or an absolute path") {
				t.Errorf("%s %s: %v", name, program, err)
			}
		}
		build(t, name, "program: /opt/agent")
	}
}

// TestNobodyLeadsAnAgentElsewhere: what a harness sets itself cannot be set by its settings, by a case or by a condition.
func TestNobodyLeadsAnAgentElsewhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, settings, name, by string }{
		{"claude-code", "", "ANTHROPIC_BASE_URL", "claude-code"},
		{"claude-code", "", "CLAUDE_CODE_USE_BEDROCK", "claude-code"},
		{"claude-code", "", "CLAUDE_CODE_MAX_RETRIES", "claude-code"},
		{"codex", "", "CODEX_HOME", "codex"},
		{"codex", "", "ASSAY_MODEL_KEY", "codex"},
		{"gemini", "", "GOOGLE_GEMINI_BASE_URL", "gemini"},
		{"opencode", "", "XDG_CONFIG_HOME", "opencode"},
		{"acp", "agent: claude-agent-acp, ", "ANTHROPIC_MODEL", "claude-agent-acp"},
		{"acp", "agent: codex-acp, ", "CODEX_HOME", "codex-acp"},
	} {
		_, err := kind(t, c.kind).Build(settings(t, "{"+c.settings+"env: {A: b, "+c.name+": x}}"))
		if want := c.name + " is set by " + c.by + " itself"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not say %q", c.kind, err, want)
		}
		checker := build(t, c.kind, "{"+c.settings+"env: {A: b}}").(harness.Checker)
		task := harness.Task{Model: "m", Case: "tz", Condition: "with", Env: []string{"A=c", c.name + "=x"}}
		if want := "case tz or condition with sets " + c.name + ", which " + c.by + " sets itself"; !strings.Contains(errorText(checker.Check(task)), want) {
			t.Errorf("%s: %v does not say %q", c.kind, checker.Check(task), want)
		}
		task.Env = task.Env[:1]
		if err := checker.Check(task); err != nil {
			t.Errorf("%s: %v", c.kind, err)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
