package suite

import (
	"bytes"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

type commandParams struct {
	Run     string            `yaml:"run" rule:"required" doc:"a command line"`
	Timeout time.Duration     `yaml:"timeout" default:"10m" rule:"above=0s" doc:"time limit"`
	Expect  *int              `yaml:"expect_exit" rule:"min=0,max=255" doc:"exit code"`
	Match   string            `yaml:"expect_stdout" rule:"regex" doc:"pattern of its output"`
	Env     map[string]string `yaml:"env" rule:"env" doc:"its environment"`
}

type scopeParams struct {
	Files *int     `yaml:"max_files_touched" rule:"min=0" doc:"files at most"`
	Deny  []string `yaml:"deny" rule:"glob" doc:"files that stay as they are"`
}

type tree3 struct {
	Name  string  `yaml:"name"`
	Below []tree3 `yaml:"below"`
}

// sampleKinds are kinds as other rooms have them.
var sampleKinds = Kinds{
	Harnesses: []Kind{{"script", "plays steps", nil}, {"claude-code", "Claude Code", struct{}{}}, {"openai", "a chat API", struct {
		URL string `yaml:"base_url" doc:"address"`
	}{}}, {"echo", "changes nothing", nil}},
	Assertions: []Kind{{"command", "a command exits as expected", commandParams{}}, {"tests", "named tests pass", commandParams{}},
		{"diff_scope", "the change is small", &scopeParams{}}, {"files", "files hold a text", struct {
			Exist []string `yaml:"exist" rule:"path" doc:"paths"`
		}{}}, {"trace", "what the agent did", struct {
			Turns *int `yaml:"max_turns" rule:"min=0" doc:"turns at most"`
		}{}}},
	Environments: []Kind{{"none", "nothing", nil}, {"command", "commands", struct {
		Run []string `yaml:"run" rule:"required" doc:"command lines"`
	}{}}},
	Policies: []Kind{{"auto-approve", "says yes", nil}, {"scripted", "says what is written", struct {
		Answers []string `yaml:"answers" doc:"in their order"`
	}{}}},
}

func compiled(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("assay.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("assay.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON is a YAML file as a validator sees it.
func asJSON(t *testing.T, text []byte) (any, bool) {
	t.Helper()
	_, root, problems := parse("x.yaml", text)
	if len(problems) > 0 {
		return nil, false
	}
	data, err := json.Marshal(free(root))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return v, true
}

func TestSchemaIsGolden(t *testing.T) {
	got, err := Schema(sampleKinds)
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/schema.json"
	if *update {
		if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSchemaAcceptsGoodSuites and the one below hold schema and decoder together: an editor never marks a sound file.
func TestSchemaAcceptsGoodSuites(t *testing.T) {
	text, err := Schema(sampleKinds)
	if err != nil {
		t.Fatal(err)
	}
	open, err := Schema(Kinds{})
	if err != nil {
		t.Fatal(err)
	}
	for _, schema := range []*jsonschema.Schema{compiled(t, text), compiled(t, open)} {
		for _, file := range []string{"testdata/good/small.txtar", "testdata/good/full.txtar"} {
			s, fsys := load(t, file)
			names := []string{s.File}
			for _, c := range s.Cases {
				names = append(names, c.File)
			}
			for _, name := range names {
				v, _ := asJSON(t, fsys[name].Data)
				if err := schema.Validate(v); err != nil {
					t.Errorf("%s: %s: %v", file, name, err)
				}
			}
		}
	}
}

// TestSchemaRefusesBadSuites: of the faults that a schema can say, each is refused. Faults of the other files and of
// YAML itself are no matter of a schema.
func TestSchemaRefusesBadSuites(t *testing.T) {
	text, err := Schema(sampleKinds)
	if err != nil {
		t.Fatal(err)
	}
	schema := compiled(t, text)
	files, err := filepath.Glob("testdata/faults/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	sayable := []string{"type-", "unknown-key-", "missing-name", "missing-matrix", "missing-harness", "missing-case-id", "missing-source.",
		"missing-assertion-", "empty-harnesses", "range-", "word-", "env-bad-name", "setup-number", "id-upper-case", "id-slash", "id-too-long"}
	unsayable := []string{"type-aliased-value", "type-nul", "type-hexadecimal", "type-infinite", "range-timeout"}
	refused := 0
	for _, file := range files {
		name := filepath.Base(file)
		begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if !slices.ContainsFunc(sayable, begins) || slices.ContainsFunc(unsayable, begins) {
			continue
		}
		bad := false
		for _, f := range readArchive(t, file).Files {
			if base := path.Base(f.Name); base != suiteName && base != caseName {
				continue
			}
			if v, ok := asJSON(t, f.Data); ok && schema.Validate(v) != nil {
				bad = true
			}
		}
		if !bad {
			t.Errorf("%s: the schema accepts every file", name)
		}
		refused++
	}
	if refused < 50 {
		t.Errorf("%d faults were looked at, want at least 50", refused)
	}
}

func TestSchemaKnowsTheKinds(t *testing.T) {
	text, err := Schema(sampleKinds)
	if err != nil {
		t.Fatal(err)
	}
	schema := compiled(t, text)
	const sound = "id: a\nprompt: p\nsource: {path: t}\n"
	for assertion, ok := range map[string]bool{
		"{id: x, type: command, run: make, timeout: 1m30s, weight: 2}":         true,
		"{id: x, type: command, run: make, max_files_touched: 1}":              false, // of another kind
		"{id: x, type: command}":                                               false,
		"{id: x, type: command, run: make, expect_exit: 300}":                  false,
		"{id: x, type: comand, run: make}":                                     false,
		"{id: x, type: diff_scope, max_files_touched: null, deny: [\"*.md\"]}": true,
		"{id: x, type: diff_scope, deny: \"*.md\"}":                            false,
	} {
		v, _ := asJSON(t, []byte(sound+"assertions: ["+assertion+"]\n"))
		if err := schema.Validate(v); (err == nil) != ok {
			t.Errorf("%s: %v", assertion, err)
		}
	}
	for environment, ok := range map[string]bool{"{}": true, "{type: none}": true, "{run: [x]}": false, "{type: command, run: [x]}": true} {
		v, _ := asJSON(t, []byte(sound+"environment: "+environment+"\n"))
		if err := schema.Validate(v); (err == nil) != ok {
			t.Errorf("%s: %v", environment, err)
		}
	}
}

func TestDescribe(t *testing.T) {
	want := []Field{
		{"run", "text", "a command line", "required", ""},
		{"timeout", "duration", "time limit", "above 0s", "10m"},
		{"expect_exit", "whole number", "exit code", "min 0, max 255", ""},
		{"expect_stdout", "text", "pattern of its output", "regex", ""},
		{"env", "mapping to text", "its environment", "env", ""},
	}
	if diff := cmp.Diff(want, Describe(&commandParams{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var names []string
	for _, f := range Describe(settings{}) {
		names = append(names, f.Name+": "+f.Type)
	}
	if !slices.Contains(names, "steps[].run: text") || !slices.Contains(names, "inner.deep: text") || !slices.Contains(names, "free: anything") {
		t.Errorf("described %v", names)
	}
	if got := Describe(tree3{}); len(got) != 2 {
		t.Errorf("a struct that holds itself is described as %v", got)
	}
	if got := Describe(nil); got != nil {
		t.Errorf("nil is described as %v", got)
	}
}
