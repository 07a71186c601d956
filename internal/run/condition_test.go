package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/sandbox"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/google/go-cmp/cmp"
)

// namer is a harness whose agents name the tools of servers.
type namer struct{ harness.Harness }

func (namer) ToolsOf(server string) string { return server + "_" }

// proofKit is a kit with two harnesses and one case; files lie below both the suite and the base.
func proofKit(t *testing.T, files map[string]string, conditions ...suite.Condition) *Kit {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	k := &Kit{
		suite:      &suite.Suite{Conditions: conditions},
		sandbox:    &sandbox.Sandbox{Options: sandbox.Options{Suite: root, Base: filepath.Join(root, "base")}},
		harnesses:  map[string]agent{"named": {Harness: namer{}}, "other": {}},
		conditions: map[string]suite.Condition{},
		cases:      map[string]*task{"fix": {Case: suite.Case{ID: "fix", Prompt: "Fix the\nbug that makes every third order arrive twice."}}},
	}
	for _, c := range conditions {
		k.conditions[c.ID] = c
	}
	return k
}

func skillFile(name, description string) string {
	return "---\nname: " + name + "\ndescription: " + description + "\n---\nDo it well.\n"
}

// servers are the settings of MCP servers with these names.
func servers(t *testing.T, names ...string) suite.Block {
	t.Helper()
	text := ""
	for _, n := range names {
		text += n + ": {argv: [serve]}\n"
	}
	b, err := suite.ReadBlock(fstest.MapFS{"mcp.yaml": {Data: []byte(text)}}, "mcp.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestProof: what a condition brings is wanted, what only others bring must be absent, and of what two conditions have
// alike a text is looked for in which they differ.
func TestProof(t *testing.T) {
	t.Parallel()
	const (
		first  = "The first of two skills, told at such length that it is cut"
		begins = "A skill that begins in the same way before and after, and then "
		rules  = "Always write the tests before the code."
		never  = "Never change two things in one commit, whatever comes."
	)
	k := proofKit(t, map[string]string{
		"skills/a/SKILL.md":      skillFile("a", first),
		"skills/b/SKILL.md":      skillFile("b", "Another skill"),
		"skills/c/SKILL.md":      skillFile("c", begins+"says more."),
		"base/skills/c/SKILL.md": skillFile("c", begins+"said less."),
		"rules.md":               "# Rules\n<!-- This comment is longer than all the rest, and Claude Code leaves it out. -->\n@other/file/that/is/long/enough/to/be/the/longest/line.md\n" + rules + "\n" + never + "\n",
		"base/rules.md":          "# Rules\n\n" + never + "\n",
		"short.md":               "Be\nbrief.\n",
		"lines.md":               "Be brief.\nBe kind.\nBe on time.\n",
		"quotes.md":              "The skill a is this one: " + first + ".\n",
		"orders.md":              "Fix the bug that makes every third order arrive twice.\n",
	},
		suite.Condition{ID: "bare"},
		suite.Condition{ID: "one", Skills: []string{"skills/a"}},
		suite.Condition{ID: "two", Skills: []string{"skills/a", "skills/b"}, PromptPrefix: "Think\n  first. "},
		suite.Condition{ID: "head", Skills: []string{"skills/c"}, Instructions: "rules.md"},
		suite.Condition{ID: "base", Skills: []string{"skills/c"}, Instructions: "rules.md", From: "base"},
		suite.Condition{ID: "short", Instructions: "short.md"},
		suite.Condition{ID: "lines", Instructions: "lines.md"},
		suite.Condition{ID: "quotes", Skills: []string{"skills/a"}, Instructions: "quotes.md"},
		suite.Condition{ID: "prompted", Instructions: "orders.md"},
		suite.Condition{ID: "laid", Files: map[string]string{".claude/skills": "skills"}},
		suite.Condition{ID: "tools", MCP: servers(t, "db", "db_x")},
		suite.Condition{ID: "tool", MCP: servers(t, "db_x")},
	)
	text := func(of, s string) string { return of + ": " + s }
	for id, want := range map[string]struct{ wanted, absent, not, unproven []string }{
		"bare": {absent: []string{text("skill a", first[:40]), text("skill b", "Another skill"), text("instructions", never), text("MCP server db", "db_"), text("MCP server db_x", "db_x_"),
			text("prompt_prefix", "Think first. Fix the bug that makes every third order")}, not: []string{"Fix the bug that makes every third order arrive twice."}},
		"one": {wanted: []string{text("skill a", first[:40])}, absent: []string{text("skill b", "Another skill")}, not: []string{first[:40]}},
		"two": {wanted: []string{text("skill a", first[:40]), text("skill b", "Another skill"), text("prompt_prefix", "Think first. Fix the bug that makes every third order")},
			absent: []string{text("instructions", never)}},
		"head":     {wanted: []string{text("skill c", begins+"says more."), text("instructions", rules)}, absent: []string{text("skill c", begins+"said less.")}, not: []string{"Never change"}},
		"base":     {wanted: []string{text("skill c", begins+"said less."), text("instructions", never)}, absent: []string{text("skill c", begins+"says more."), text("instructions", rules)}},
		"short":    {unproven: []string{"instructions: in fewer than 24 characters they cannot be told from chance"}},
		"lines":    {wanted: []string{text("instructions", "Be brief. Be kind. Be on time.")}},
		"quotes":   {wanted: []string{text("instructions", "The skill a is this one: "+first+".")}, unproven: []string{"skill a: what would show it is given to the agent in another way too"}},
		"prompted": {unproven: []string{"instructions: what would show it is given to the agent in another way too"}},
		"laid":     {absent: []string{text("instructions", never)}, not: []string{first[:40], "Another skill"}},
		"tools":    {wanted: []string{text("MCP server db_x", "db_x_")}, unproven: []string{"MCP server db: what would show it is given to the agent in another way too"}},
		"tool":     {wanted: []string{text("MCP server db_x", "db_x_")}, not: []string{"db_"}},
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			p, err := k.proofOf(plan.Cell{Case: "fix", Harness: "named", Condition: id})
			if err != nil {
				t.Fatal(err)
			}
			var wanted []string
			absent := map[string]bool{}
			for _, m := range p.markers {
				if m.Wanted {
					wanted = append(wanted, text(m.Of, m.Text))
				} else {
					absent[text(m.Of, m.Text)] = true
					for _, not := range want.not {
						if strings.HasSuffix(m.Text, not) || m.Text == not {
							t.Errorf("%s %q must be absent, and the agent is given it", m.Of, m.Text)
						}
					}
				}
				if tool := strings.HasPrefix(m.Of, "MCP"); m.Tool != tool {
					t.Errorf("%+v", m)
				}
			}
			if diff := cmp.Diff(want.wanted, wanted); diff != "" {
				t.Errorf("wanted (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want.unproven, p.unproven); diff != "" {
				t.Errorf("unproven (-want +got):\n%s", diff)
			}
			for _, a := range want.absent {
				if !absent[a] {
					t.Errorf("%q need not be absent; these are: %v", a, absent)
				}
			}
		})
	}
	p, err := k.proofOf(plan.Cell{Case: "fix", Harness: "other", Condition: "tool"})
	if err != nil || len(p.unproven) != 1 || !strings.Contains(p.unproven[0], "is not known") {
		t.Errorf("an agent whose names of tools are not known: %+v, %v", p, err)
	}
}

// TestProofOfBrokenSkills: a skill that no agent can show is told by its own cells, and does not break those of others.
func TestProofOfBrokenSkills(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no head":        "Look twice.\n",
		"no description": "---\nname: a\n---\n",
		"no name":        "---\ndescription: Looks at everything twice\n---\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := proofKit(t, map[string]string{"base/skill/SKILL.md": text}, suite.Condition{ID: "bare"}, suite.Condition{ID: "broken", From: "base", Skills: []string{"skill"}})
			if _, err := k.proofOf(plan.Cell{Case: "fix", Harness: "named", Condition: "broken"}); err == nil || !strings.Contains(err.Error(), "skill skill: its SKILL.md does not begin with") {
				t.Errorf("%v", err)
			}
			if p, err := k.proofOf(plan.Cell{Case: "fix", Harness: "named", Condition: "bare"}); err != nil || len(p.markers) != 0 {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
	k := proofKit(t, nil, suite.Condition{ID: "gone", Skills: []string{"skill"}})
	if _, err := k.proofOf(plan.Cell{Case: "fix", Harness: "named", Condition: "gone"}); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("%v", err)
	}
}
