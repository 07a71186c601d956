package grade

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/assay-ci/assay/internal/suite"
)

const suiteYAML = `name: x
matrix:
  harnesses: [{id: e, type: echo}]
  conditions: [{id: c}]
`

const caseHead = `id: one
prompt: fix it
source: {path: fixture}
assertions:
`

// loadCase reads the assertions of a case through the real decoder.
func loadCase(t *testing.T, assertions string) []suite.Assertion {
	t.Helper()
	s, err := suite.Load(fstest.MapFS{
		"evals/suite.yaml":       {Data: []byte(suiteYAML)},
		"evals/one/case.yaml":    {Data: []byte(caseHead + assertions)},
		"evals/one/fixture/a.js": {Data: []byte("1\n")},
	}, "evals", nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.Cases[0].Assertions
}

func buildBlock(b suite.Block) (Grader, error) {
	for _, kind := range Kinds {
		if kind.Name == b.Kind {
			return kind.Build(b)
		}
	}
	return nil, errors.New("unknown kind " + b.Kind)
}

// TestEveryParameterDecodes writes every parameter of every kind once, as a user would.
func TestEveryParameterDecodes(t *testing.T) {
	t.Parallel()
	all := loadCase(t, `
- {id: a, type: command, run: "node --test", timeout: 90s, expect_exit: 1, expect_stdout: "^ok", env: {TZ: Asia/Tokyo}}
- {id: g, type: command, argv: [go, vet]}
- {id: h, type: tests, run: x, timeout: 90s, expect_exit: 1, expect_stdout: "^ok", env: {TZ: Asia/Tokyo}}
- {id: b, type: tests, argv: [go, test, -json, ./...], format: gotest, must_pass: [TestA], min_passed: 3}
- {id: c, type: tests, run: x, report: "out/**/*.xml"}
- {id: d, type: files, present: [utc], absent: [eval], in: [src], exist: [a.js], missing: [b.js], equal: {a.js: fixture/a.js}}
- {id: e, type: trace, require_tools: [edit], forbid_tools: [fetch], order: [read, edit], max_tool_calls: 9, max_turns: 5, max_tokens: 10000, max_cost_usd: 0.5}
- {id: f, type: diff_scope, max_files_touched: 1, max_lines_changed: 8, max_hunks: 2, max_outside_files: 0, max_excess_lines: 5, max_ratio: 1.5, allow: ["src/**"], deny: [".github/**"], allow_no_change: true}
- {id: i, type: llm_judge, rubric: [It names the cause., It is polite.], model: m, votes: 5, with_diff_scope: true, with_trace: true, calibration: labels.jsonl}
- {id: j, type: llm_judge, rubric: It names the cause., model: m}
`)
	written := map[string]bool{}
	for _, a := range all {
		g, err := buildBlock(a.Block)
		if err != nil {
			t.Errorf("%s: %v", a.ID, err)
		}
		for key := range strings.SplitSeq(string(a.Block.Canonical()), `"`) {
			written[a.Block.Kind+"."+key] = true
		}
		if c, ok := g.(*tests); ok && a.ID == "c" && (c.format != "junit" || c.min != 1 || c.command.timeout.Minutes() != 10) {
			t.Errorf("the defaults of tests are %+v", c)
		}
	}
	for _, kind := range Kinds {
		for _, field := range suite.Describe(kind.Params) {
			if !written[kind.Name+"."+field.Name] {
				t.Errorf("%s: parameter %s is not written here", kind.Name, field.Name)
			}
		}
	}
}

func TestFaultsStandAtTheirPlace(t *testing.T) {
	t.Parallel()
	all := loadCase(t, `
- {id: a, type: command, run: x, argv: [y]}
- {id: b, type: files, exist: [a], equal: {../a: b, a: b}}
- {id: c, type: tests, run: x, format: junit, must_pass: [a, ""]}
- {id: d, type: trace}
- {id: e, type: diff_scope, allow_no_change: true}
- {id: f, type: llm_judge, rubric: {a: b}, model: m, votes: 4}
- {id: g, type: llm_judge, rubric: [It is so., 7, " "], model: m}
- {id: h, type: llm_judge, rubric: [], votes: 17, calibration: ../labels.jsonl}
- {id: i, type: llm_judge, rubric: [" "], model: m}
`)
	var got strings.Builder
	for _, a := range all {
		g, err := buildBlock(a.Block)
		if g != nil || err == nil {
			t.Fatalf("%s was built", a.ID)
		}
		got.WriteString(suite.Flatten(err).Error() + "\n\n")
	}
	golden(t, "faults.golden", got.String())
}
