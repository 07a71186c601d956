package run

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/sandbox"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/google/go-cmp/cmp"
)

// TestMarkers: what a condition brings is wanted, what only others bring must be absent, and what two conditions share
// proves nothing about either of them.
func TestMarkers(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, content := range map[string]string{
		"skills/a/SKILL.md": "---\nname: a\ndescription: The first of two skills, told at such length that it is cut\n---\n",
		"skills/b/SKILL.md": "---\nname: b\ndescription: Another skill\n---\n",
		"rules.md":          "# Rules\n\nAlways write the tests before the code.\n",
		"short.md":          "Be brief.\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	conditions := []suite.Condition{
		{ID: "bare"},
		{ID: "one", Skills: []string{"skills/a"}, Instructions: "rules.md"},
		{ID: "two", Skills: []string{"skills/a", "skills/b"}, PromptPrefix: "Think\n  first. "},
		{ID: "short", Instructions: "short.md"},
	}
	k := &Kit{suite: &suite.Suite{Conditions: conditions}, sandbox: &sandbox.Sandbox{Options: sandbox.Options{Suite: root}}, conditions: map[string]suite.Condition{}}
	for _, c := range conditions {
		k.conditions[c.ID] = c
	}
	wanted := func(of, text string) gateway.Marker { return gateway.Marker{Of: of, Text: text, Wanted: true} }
	absent := func(of, text string) gateway.Marker { return gateway.Marker{Of: of, Text: text} }
	first, second := "The first of two skills, told at such le", "Another skill"
	rules, prefix := "Always write the tests before the code.", "Think first."
	for condition, want := range map[string][]gateway.Marker{
		"bare":  {absent("skill a", first), absent("instructions", rules), absent("skill b", second), absent("prompt_prefix", prefix)},
		"one":   {wanted("skill a", first), wanted("instructions", rules), absent("skill b", second), absent("prompt_prefix", prefix)},
		"two":   {wanted("skill a", first), wanted("skill b", second), wanted("prompt_prefix", prefix), absent("instructions", rules)},
		"short": {absent("skill a", first), absent("instructions", rules), absent("skill b", second), absent("prompt_prefix", prefix)},
	} {
		got, err := k.markers(condition)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", condition, err, diff)
		}
	}
}
