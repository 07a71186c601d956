package cli

import (
	"strings"
	"testing"
)

// TestInitWritesTheWorkflowOfTheREADME: one is what the other says.
func TestInitWritesTheWorkflowOfTheREADME(t *testing.T) {
	t.Parallel()
	_, rest, _ := strings.Cut(readme(t), "# .github/workflows/assay.yml\n")
	want, _, _ := strings.Cut(rest, "```")
	_, got, _ := strings.Cut(workflow, "\n") // after its comment
	if got != want {
		t.Errorf("workflow.yml is not the workflow of the README:\n%s", got)
	}
}
