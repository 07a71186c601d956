package harness_test

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/suite"
)

// cellOf is a cell of case tz, of which only what preflight knows is there.
func cellOf(files map[string]string) harness.Task {
	dir := fstest.MapFS{}
	for name, text := range files {
		dir[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return harness.Task{
		Case: "tz", Model: "m1", Condition: "with_skill", Trial: 2, CaseDir: dir,
		Script: func(name string) (harness.Settings, error) { return suite.ReadBlock(dir, name) },
	}
}

func models(t testing.TB, kind, settings string, task harness.Task) ([]gateway.Model, error) {
	t.Helper()
	return build(t, kind, settings).(harness.Caller).Models(task)
}

func TestModelsOfAHarness(t *testing.T) {
	t.Parallel()
	gem := gateway.Upstream{Dialect: gateway.Gemini, BaseURL: "https://generativelanguage.googleapis.com", KeyEnv: "GEMINI_API_KEY"}
	own := gateway.Upstream{Dialect: gateway.Chat, BaseURL: "https://models.example/v1", KeyEnv: "MY_KEY"}
	def := gateway.Upstream{Dialect: gateway.Chat, BaseURL: "https://api.openai.com/v1", KeyEnv: "OPENAI_API_KEY"}
	for _, c := range []struct {
		kind, settings string
		want           []gateway.Model
	}{
		{"gemini", "{}", []gateway.Model{
			{Name: "m1", Upstream: gem}, {Name: "gemini-3-flash-preview", Upstream: gem, Side: true},
			{Name: "gemini-3.1-pro-preview-customtools", Upstream: gem, Side: true},
		}},
		{"opencode", "{base_url: \"https://models.example/v1/\", key_env: MY_KEY, side_models: [small, m1, small]}", []gateway.Model{
			{Name: "m1", Upstream: own}, {Name: "small", Upstream: own, Side: true},
		}},
		{"openai", "{}", []gateway.Model{{Name: "m1", Upstream: def}}},
	} {
		got, err := models(t, c.kind, c.settings, cellOf(nil))
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", c.kind, err, diff)
		}
	}
}

func TestAHarnessThatCallsModelsNeedsOne(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"claude-code", "codex", "gemini", "opencode", "openai"} {
		task := cellOf(nil)
		task.Model = "none"
		if _, err := models(t, kind, "{}", task); err == nil || !strings.Contains(err.Error(), "suite.yaml:1:1: this harness needs models") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestUpstreamFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"base_url: api.example.com":                  "suite.yaml:1:11: base_url",
		"base_url: ftp://x":                          "is not an http or https address",
		"base_url: https://me:secret@x/v1":           "has more than scheme, host and path",
		"base_url: https://x/v1?key=1":               "has more than scheme, host and path",
		"{model_script: m.yaml, base_url: http://x}": "base_url and model_script cannot both be set",
		"{model_script: m.yaml, key_env: X}":         "key_env and model_script cannot both be set",
		"model_script: ../m.yaml":                    "leads out of its folder",
		"side_models: [\"\"]":                        "a side model needs a name",
		"base_ulr: http://x":                         "did you mean base_url?",
	} {
		for _, name := range []string{"claude-code", "codex", "gemini", "opencode", "openai"} {
			if _, err := kind(t, name).Build(settings(t, text)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s: %v does not say %q", name, text, err, want)
			}
		}
	}
}

func TestModelScript(t *testing.T) {
	t.Parallel()
	got, err := models(t, "openai", `model_script: "play/{condition}-{trial}.yaml"`, cellOf(map[string]string{"play/with_skill-2.yaml": `
turns:
  - {think: Hm., say: Reading., calls: [{read: calc.py}, {plan: {items: [Fix, {text: Verify, status: in_progress}]}}]}
  - calls:
      - edit: {path: calc.py, old: a - b, new: a + b}
      - write: {path: x, content: y}
      - bash: python3 calc.py
      - ask: {question: "Which?", options: [first, {label: second, description: the other}]}
      - skill: greeter
      - agent: Say hi.
      - raw: {name: no_such, input: {x: 1}}
      - raw: {name: bare}
    pause: 2s
  - {http: 429}
  - {say: No., stop: refusal}
`}))
	if err != nil {
		t.Fatal(err)
	}
	call := func(kind, input string) gateway.Call { return gateway.Call{Kind: kind, Input: []byte(input)} }
	want := &gateway.Script{Turns: []gateway.Turn{
		{Think: "Hm.", Say: "Reading.", Calls: []gateway.Call{
			call("read", `{"path":"calc.py"}`),
			call("plan", `{"items":[{"text":"Fix","status":"pending"},{"text":"Verify","status":"in_progress"}]}`),
		}},
		{Calls: []gateway.Call{
			call("edit", `{"path":"calc.py","old":"a - b","new":"a + b"}`),
			call("write", `{"path":"x","content":"y"}`),
			call("bash", `{"command":"python3 calc.py"}`),
			call("ask", `{"question":"Which?","header":"","options":[{"label":"first","description":""},{"label":"second","description":"the other"}]}`),
			call("skill", `{"name":"greeter"}`),
			call("agent", `{"prompt":"Say hi."}`),
			{Kind: "raw", Name: "no_such", Input: []byte(`{"x":1}`)},
			{Kind: "raw", Name: "bare", Input: []byte(`{}`)},
		}, Pause: 2 * time.Second},
		{HTTP: 429},
		{Say: "No.", Stop: "refusal"},
	}}
	if diff := cmp.Diff([]gateway.Model{{Name: "m1", Upstream: gateway.Upstream{Dialect: gateway.Chat, Script: want}}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestModelScriptFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"turns: []":                              "turns must not be empty",
		"turns: [{}]":                            "m.yaml:1:9: a turn needs something that the model does",
		"turns: [{http: 500, say: x}]":           "m.yaml:1:9: a turn with http says nothing else",
		"turns: [{http: 200}]":                   "http: 200 is less than 400",
		"turns: [{stop: later}]":                 `stop: found "later"`,
		"turns: [{calls: [{}]}]":                 "m.yaml:1:18: a call is one use of a tool, not 0",
		"turns: [{calls: [{bash: x, read: y}]}]": "m.yaml:1:18: a call is one use of a tool, not 2",
		"turns: [{calls: [{edit: {old: x}}]}]":   "path is missing",
		"turns: [{sya: x}]":                      "did you mean say?",
	} {
		if _, err := models(t, "gemini", "model_script: m.yaml", cellOf(map[string]string{"m.yaml": text})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not say %q", text, err, want)
		}
	}
	if _, err := models(t, "gemini", "model_script: none.yaml", cellOf(nil)); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Error(err)
	}
	out := cellOf(nil)
	out.Model = "../../x"
	if _, err := models(t, "gemini", `model_script: "{model}.yaml"`, out); err == nil || !strings.Contains(err.Error(), "leads out of the folder of case tz") {
		t.Error(err)
	}
}
