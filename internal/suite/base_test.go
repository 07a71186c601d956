package suite

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// against is a base that holds these files.
func against(files fs.FS) Base {
	return Base{Open: func() (fs.FS, error) { return files, nil }}
}

// goneSkill is what the good suites read from the base, wherever they lie.
var goneSkill = fstest.MapFS{
	"skills/gone/SKILL.md":           {Data: []byte("how it was")},
	"deep/down/skills/gone/SKILL.md": {Data: []byte("how it was")},
}

// twoVersions is a suite before and after a change of its skill.
func twoVersions(conditions string) (head, base fstest.MapFS) {
	files := func(skill string) fstest.MapFS {
		fsys := fstest.MapFS{}
		put(fsys, "evals/suite.yaml", "name: two\nmatrix:\n  harnesses: [{id: bot, type: script}]\n  trials: 2\n  conditions:\n"+conditions)
		put(fsys, "evals/one/case.yaml", "id: one\nprompt: Fix the bug.\nsource: {path: tree}\nassertions: [{id: right, type: command, run: \"true\"}]\n")
		put(fsys, "evals/one/tree/main.go", "package main\n")
		put(fsys, "skills/fixing/SKILL.md", skill)
		put(fsys, "AGENTS.md", "Be brief.\n")
		return fsys
	}
	return files("new"), files("old")
}

func put(fsys fstest.MapFS, name, text string) {
	fsys[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
}

func mustLoad(t *testing.T, head fs.FS, base Base) *Suite {
	t.Helper()
	s, err := LoadAgainst(head, base, "evals", nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantFault holds the error of a load to one printed line.
func wantFault(t *testing.T, head fs.FS, base Base, want string) {
	t.Helper()
	_, err := LoadAgainst(head, base, "evals", nil)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is\n%v\nwant it to hold\n%s", err, want)
	}
}

const twoConditions = "    - {id: new, baseline: true, skills: [../skills/fixing]}\n    - {id: old, from: base, skills: [../skills/fixing]}\n"

func TestFromBaseReadsTheBase(t *testing.T) {
	head, base := twoVersions(twoConditions)
	first := mustLoad(t, head, against(base))
	put(head, "skills/fixing/SKILL.md", "newer")
	second := mustLoad(t, head, against(base))
	if first.Conditions[0].Digest == second.Conditions[0].Digest || first.Conditions[1].Digest != second.Conditions[1].Digest {
		t.Error("a change of the work tree must change the condition that reads it, and that one alone")
	}
	put(base, "skills/fixing/SKILL.md", "older")
	third := mustLoad(t, head, against(base))
	if second.Conditions[0].Digest != third.Conditions[0].Digest || second.Conditions[1].Digest == third.Conditions[1].Digest {
		t.Error("a change of the base must change the condition that reads it, and that one alone")
	}
	if second.Digest == third.Digest {
		t.Error("a change of the base must change the suite's digest")
	}
}

// A path is resolved in the tree that it is read from: a link may lead elsewhere there.
func TestFromBaseResolvesLinksInTheBase(t *testing.T) {
	head, base := twoVersions("    - {id: new, baseline: true, instructions: ../AGENTS.md}\n    - {id: old, from: base, instructions: ../AGENTS.md}\n")
	base["AGENTS.md"] = &fstest.MapFile{Data: []byte("docs/agents.md"), Mode: fs.ModeSymlink | 0o777}
	put(base, "docs/agents.md", "Be long.\n")
	s := mustLoad(t, head, against(base))
	if got := []string{s.Conditions[0].Instructions, s.Conditions[1].Instructions}; !cmp.Equal(got, []string{"AGENTS.md", "docs/agents.md"}) {
		t.Errorf("the instructions are %q", got)
	}
	base["AGENTS.md"].Data = []byte("../../etc/passwd")
	wantFault(t, head, against(base), "evals/suite.yaml:7:43: instructions: \"../AGENTS.md\" leads out of the tree through a link at the base")
}

func TestFromBaseFaults(t *testing.T) {
	head, base := twoVersions(twoConditions)
	delete(base, "skills/fixing/SKILL.md")
	wantFault(t, head, against(base), `evals/suite.yaml:7:38: skill: "../skills/fixing" does not exist at the base`)
	wantFault(t, head, against(base), "hint: what is new has no base version")
	put(base, "skills/fixing/README.md", "x")
	wantFault(t, head, against(base), `evals/suite.yaml:7:38: the skill "../skills/fixing" has no SKILL.md at the base`)
	wantFault(t, head, Base{Open: func() (fs.FS, error) { return nil, errors.New("fetch it") }}, "evals/suite.yaml:7:23: from: base: fetch it")
	wantFault(t, head, Base{}, "evals/suite.yaml:7:23: from: base: no base revision is known")
}

// A repository is looked at when something asks for it, and once.
func TestBaseIsOpenedOnDemand(t *testing.T) {
	opened := 0
	for conditions, want := range map[string]int{
		"    - {id: new, skills: [../skills/fixing]}\n":                            0,
		"    - {id: new, baseline: true}\n    - {id: old, from: base}\n":           0,
		twoConditions + "    - {id: o2, from: base, instructions: ../AGENTS.md}\n": 1,
	} {
		head, base := twoVersions(conditions)
		opened = 0
		mustLoad(t, head, Base{Open: func() (fs.FS, error) { opened++; return base, nil }})
		if opened != want {
			t.Errorf("the base was opened %d times, want %d, for\n%s", opened, want, conditions)
		}
	}
}

func paired(files fs.FS) Base {
	b := against(files)
	b.Paired = true
	return b
}

func TestPairedAddsTwins(t *testing.T) {
	head, base := twoVersions("" +
		"    - {id: without, baseline: true, env: {A: \"1\"}}\n" +
		"    - {id: with, skills: [../skills/fixing], env: {A: \"2\"}, prompt_prefix: \"Go. \"}\n" +
		"    - {id: brief, instructions: ../AGENTS.md, files: {x.md: ../new.md}}\n" +
		"    - {id: fresh, instructions: ../new.md}\n" +
		"    - {id: old, from: base, skills: [../skills/fixing], env: {A: \"2\"}, prompt_prefix: \"Go. \"}\n")
	put(head, "new.md", "new\n")
	put(head, "AGENTS.md", "Be briefer.\n")
	s := mustLoad(t, head, paired(base))
	want := []Condition{
		{ID: "without", Baseline: true, Env: map[string]string{"A": "1"}},
		{ID: "with", Skills: []string{"skills/fixing"}, Env: map[string]string{"A": "2"}, PromptPrefix: "Go. "},
		{ID: "with.base", TwinOf: "with", From: "base", Skills: []string{"skills/fixing"}, Env: map[string]string{"A": "2"}, PromptPrefix: "Go. "},
		{ID: "brief", Instructions: "AGENTS.md", Files: map[string]string{"x.md": "new.md"}},
		{ID: "brief.base", TwinOf: "brief", From: "base", Instructions: "AGENTS.md"},
		{ID: "fresh", Instructions: "new.md"},
		{ID: "old", From: "base", Skills: []string{"skills/fixing"}, Env: map[string]string{"A": "2"}, PromptPrefix: "Go. "},
	}
	if diff := cmp.Diff(want, s.Conditions, ignorePlaces, blocks, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	heads := slices.DeleteFunc(slices.Clone(s.Conditions), func(c Condition) bool { return c.TwinOf != "" })
	if diff := cmp.Diff(mustLoad(t, head, against(base)).Conditions, heads, blocks); diff != "" {
		t.Errorf("twins change the other conditions (-alone +with twins):\n%s", diff)
	}
	if s.Conditions[2].Digest != s.Conditions[6].Digest {
		t.Error("a twin and a condition that is written like it differ")
	}
	var said []string
	for _, w := range s.Warnings {
		said = append(said, fmt.Sprintf("%d: %s", w.Line, w.Msg))
	}
	wantSaid := []string{
		`8: the base has no "../new.md", so the base version of condition "brief" does without`,
		`9: condition "fresh" is new with this change, so it has no base version to be compared with`,
	}
	if diff := cmp.Diff(wantSaid, said); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestPairedSaysWhatIsTheSame(t *testing.T) {
	head, base := twoVersions("    - {id: with, skills: [../skills/fixing]}\n")
	put(head, "skills/fixing/SKILL.md", "old")
	s := mustLoad(t, head, paired(base))
	if len(s.Conditions) != 2 || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0].Msg, "are the same at the base") {
		t.Errorf("%d conditions, warnings: %v", len(s.Conditions), s.Warnings)
	}
}

// A spare twin lies ready and changes nothing: neither the digest nor what is said of the suite.
func TestSpareTwins(t *testing.T) {
	head, base := twoVersions("    - {id: with, skills: [../skills/fixing]}\n    - {id: fresh, instructions: ../new.md}\n    - {id: none, baseline: true}\n")
	put(head, "new.md", "new\n")
	spare := against(base)
	spare.Spare = true
	s, alone, twins := mustLoad(t, head, spare), mustLoad(t, head, against(base)), mustLoad(t, head, paired(base))
	if s.Digest != alone.Digest || s.Digest == twins.Digest || len(s.Warnings) != 0 {
		t.Errorf("digest %s, alone %s, paired %s; warnings %v", s.Digest, alone.Digest, twins.Digest, s.Warnings)
	}
	want := slices.Clone(twins.Conditions)
	head["skills/fixing/SKILL.md"] = base["skills/fixing/SKILL.md"] // as when the base was measured
	want[1].Spare, want[1].Digest = true, mustLoad(t, head, against(base)).Conditions[0].Digest
	if diff := cmp.Diff(want, s.Conditions, blocks); diff != "" || want[1].TwinOf != "with" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestPairedFaults(t *testing.T) {
	head, base := twoVersions("    - {id: with, baseline: true, skills: [../skills/fixing]}\n    - {id: With.base, env: {A: \"1\"}}\n")
	put(head, "evals/suite.yaml", strings.ReplaceAll(string(head["evals/suite.yaml"].Data), "With.base", "with.base"))
	wantFault(t, head, paired(base), `evals/suite.yaml:7:12: condition: the base version of another one gets the name "with.base"`)
	mustLoad(t, head, against(base))
	head, _ = twoVersions("    - {id: with, skills: [../skills/fixing]}\n")
	closed := Base{Paired: true, Open: func() (fs.FS, error) { return nil, errors.New("fetch it") }}
	wantFault(t, head, closed, "the base versions of the conditions cannot be read: fetch it")
}

// A case of the base may have a fault, and so may a condition: only its settings are taken.
func TestRulesOfTheBase(t *testing.T) {
	head, base := untrustedPair()
	s := mustLoad(t, head, ruledBy(base))
	if got := s.Harnesses[0]; len(s.Harnesses) != 1 || string(got.Block.Canonical()) != `{"kind":"openai","settings":{"base_url":"https://api.example.org/v1"}}` || !cmp.Equal(got.Models, []string{"small"}) {
		t.Errorf("the harnesses are %v, not those of the base", s.Harnesses)
	}
	if s.Budget.MaxCostUSD != 5 || s.Retries != 1 || s.Trials != 2 || s.Gate.MarginPP != 2 || s.Limits.MaxCostUSD != 1 || s.Name != "ours" {
		t.Errorf("budget %v, retries %d, trials %d, margin %v, limits %v of %s, not those of the base", s.Budget, s.Retries, s.Trials, s.Gate.MarginPP, s.Limits, s.Name)
	}
	if s.HeadGate == nil || s.HeadGate.MarginPP != 99 {
		t.Errorf("the gate that the change asks for is %v", s.HeadGate)
	}
	conditions := []Condition{
		{ID: "without", Baseline: true, Env: map[string]string{"MODE": "safe"}},
		{ID: "with", Skills: []string{"skills/fixing"}, PromptPrefix: "Go. "},
		{ID: "added", Instructions: "AGENTS.md"},
	}
	if diff := cmp.Diff(conditions, s.Conditions, ignorePlaces, blocks, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	one, two := s.Cases[0], s.Cases[1]
	if one.Prompt != "Fix it well." || one.Limits.MaxCostUSD != 0.5 || one.Limits.MaxTurns != 10 || one.Trials != 2 || one.Env["TZ"] != "UTC" {
		t.Errorf("the changed case has prompt %q, limits %v, %d trials and env %v", one.Prompt, one.Limits, one.Trials, one.Env)
	}
	if two.Limits.MaxCostUSD != 1 || two.Trials != 1 {
		t.Errorf("the new case has limits %v and %d trials, not those that it asked for, below those of the base", two.Limits, two.Trials)
	}
	if len(s.Warnings) != 11 {
		t.Errorf("%d warnings, want one for each thing that was not taken:\n%v", len(s.Warnings), s.Warnings)
	}
}

func TestRulesAreInTheDigests(t *testing.T) {
	head, base := untrustedPair()
	first := mustLoad(t, head, ruledBy(base))
	put(base, "evals/suite.yaml", strings.Replace(string(base["evals/suite.yaml"].Data), "max_cost_usd: 1}", "max_cost_usd: 0.9}", 1))
	second := mustLoad(t, head, ruledBy(base))
	if first.Cases[1].AgentDigest == second.Cases[1].AgentDigest {
		t.Error("the limits that hold are not in the digest of a case")
	}
}

func TestRulesFaults(t *testing.T) {
	for name, c := range map[string]struct{ file, from, to, want string }{
		"a harness of its own": {"evals/suite.yaml", "{id: oai,", "{id: mine,", `evals/suite.yaml:4:7: harness "mine" is not in the base's suite.yaml`},
		"env of a new condition": {"evals/suite.yaml", "{id: added,", "{id: added, env: {OPENAI_BASE_URL: x},",
			`evals/suite.yaml:10:7: condition "added" is not in the base's suite.yaml, and an untrusted run takes env and mcp from there`},
		"mcp of a new condition": {"evals/suite.yaml", "{id: added,", "{id: added, mcp: {x: y},", `condition "added" is not in the base's suite.yaml`},
		"env of a new case":      {"evals/two/case.yaml", "trials: 1", "env: {HTTPS_PROXY: x}", "evals/two/case.yaml:4:6: env: an untrusted run takes no environment variables from a new case"},
	} {
		head, base := untrustedPair()
		text := string(head[c.file].Data)
		if !strings.Contains(text, c.from) {
			t.Fatalf("%s: %s has no %s", name, c.file, c.from)
		}
		put(head, c.file, strings.Replace(text, c.from, c.to, 1))
		wantFault(t, head, ruledBy(base), c.want)
	}
	head, base := untrustedPair()
	wantFault(t, head, Base{Rules: func() (fs.FS, error) { return nil, errors.New("fetch it") }}, "an untrusted run needs the base's suite.yaml for its harnesses, limits and gate: fetch it")
	put(base, "evals/suite.yaml", "name: [\n")
	wantFault(t, head, ruledBy(base), "an untrusted run needs the base's suite.yaml")
	delete(base, "evals/suite.yaml")
	wantFault(t, head, ruledBy(base), "an untrusted run needs the base's suite.yaml for its harnesses, limits and gate: evals/suite.yaml: there is no such file")
}

// TestA29AddressesOfAStranger: a change that is not trusted says of no repository where it is, neither of a tree nor of hidden
// assets; one that a case of the base names may be named by others, at any commit.
func TestA29AddressesOfAStranger(t *testing.T) {
	commit := strings.Repeat("1", 40)
	tree := `source: {repo: "https://git.example.org/ours", commit: "` + commit + `"}`
	for name, c := range map[string]struct{ head, want string }{
		"a tree of their own": {strings.ReplaceAll(tree, "git.example.org/ours", "169.254.169.254/latest"),
			`evals/two/case.yaml:3:16: no case of the base has the repository "https://169.254.169.254/latest"`},
		"assets of their own": {"source: {path: ../one/tree}\nfixtures: {repo: \"https://git.example.org/theirs\", commit: \"" + commit + `"}`,
			`evals/two/case.yaml:4:18: no case of the base has the repository "https://git.example.org/theirs"`},
		"another commit of ours": {strings.ReplaceAll(tree, "1", "2"), ""},
	} {
		head, base := untrustedPair()
		text := string(head["evals/two/case.yaml"].Data)
		sourced := func(source string) string { return strings.Replace(text, "source: {path: ../one/tree}", source, 1) }
		put(base, "evals/one/case.yaml", strings.Replace(string(base["evals/one/case.yaml"].Data), "source: {path: gone}", tree, 1))
		put(head, "evals/two/case.yaml", sourced(c.head))
		if sourced("x") == text {
			t.Fatalf("the case is\n%s", text)
		}
		if c.want == "" {
			mustLoad(t, head, ruledBy(base))
			continue
		}
		t.Log(name)
		wantFault(t, head, ruledBy(base), c.want)
		mustLoad(t, head, against(base)) // who is trusted may
	}
}

func ruledBy(files fs.FS) Base { return Base{Rules: func() (fs.FS, error) { return files, nil }} }

// untrustedPair is a suite, and what a stranger made of it: everything that an untrusted run must not take is changed.
func untrustedPair() (head, base fstest.MapFS) {
	head, base = fstest.MapFS{}, fstest.MapFS{}
	put(base, "evals/suite.yaml", `name: ours
matrix:
  harnesses:
    - {id: oai, type: openai, base_url: "https://api.example.org/v1", models: [small]}
  trials: 2
  conditions:
    - {id: without, baseline: true, env: {MODE: safe}}
    - {id: with, from: base, skills: [../skills/gone]}
retries: 1
limits: {max_cost_usd: 1}
budget: {max_cost_usd: 5}
`)
	put(base, "evals/one/case.yaml", "id: one\nprompt: Fix it.\nlimits: {max_cost_usd: 0.5, max_turns: 10}\nenv: {TZ: UTC}\nsource: {path: gone}\n")
	put(base, "evals/broken/case.yaml", "id: [\n")
	put(head, "evals/suite.yaml", `name: theirs
matrix:
  harnesses:
    - {id: oai, type: openai, base_url: "https://evil.example.net/v1", models: [huge]}
  trials: 900
  conditions:
    - {id: without, env: {MODE: safe, OPENAI_BASE_URL: "https://evil.example.net"}}
    - {id: with, baseline: true, skills: [../skills/fixing], prompt_prefix: "Go. "}
    # added below
    - {id: added, instructions: ../AGENTS.md}
retries: 9
limits: {max_cost_usd: 1000}
budget: {max_cost_usd: 100000}
gate: {margin_pp: 99}
`)
	put(head, "evals/one/case.yaml", "id: one\nprompt: Fix it well.\ntrials: 500\nenv: {TZ: CET}\nlimits: {max_cost_usd: 70}\nsource: {path: tree}\nassertions: [{id: right, type: command, run: \"true\"}]\n")
	put(head, "evals/one/tree/main.go", "package main\n")
	put(head, "evals/two/case.yaml", "id: two\nprompt: Fix that.\nsource: {path: ../one/tree}\ntrials: 1\nlimits: {max_cost_usd: 70}\nassertions: [{id: right, type: command, run: \"true\"}]\n")
	put(head, "skills/fixing/SKILL.md", "new")
	put(head, "AGENTS.md", "Be brief.\n")
	return head, base
}
