package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/result"
)

// projection is the one file that a benchmark of one arm under test makes for a tool.
func projection(t testing.TB, b bench.Benchmark, format string) []byte {
	t.Helper()
	list, err := Project(b, format)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].Refused != "" {
		t.Fatalf("%d projections: %+v", len(list), list)
	}
	return list[0].File
}

func TestProjections(t *testing.T) {
	for _, format := range ProjectionFormats {
		golden(t, format+".json", projection(t, demo(t), format))
	}
}

// viewerReads is what skill-creator's viewer reads of a benchmark.json, and as what: by path, where * stands for every
// member. A ? allows null, which the viewer shows as a dash.
var viewerReads = map[string]string{
	"metadata.skill_name":             "string",
	"metadata.timestamp":              "string",
	"metadata.evals_run.*":            "number",
	"metadata.runs_per_configuration": "number",

	"run_summary.delta.pass_rate":    "string?",
	"run_summary.delta.time_seconds": "string?",
	"run_summary.delta.tokens":       "string?",

	"run_summary.with_skill.pass_rate.mean":         "number",
	"run_summary.with_skill.pass_rate.stddev":       "number",
	"run_summary.with_skill.time_seconds.mean":      "number",
	"run_summary.with_skill.time_seconds.stddev":    "number",
	"run_summary.with_skill.tokens.mean":            "number",
	"run_summary.with_skill.tokens.stddev":          "number",
	"run_summary.without_skill.pass_rate.mean":      "number",
	"run_summary.without_skill.pass_rate.stddev":    "number",
	"run_summary.without_skill.time_seconds.mean":   "number",
	"run_summary.without_skill.time_seconds.stddev": "number",
	"run_summary.without_skill.tokens.mean":         "number",
	"run_summary.without_skill.tokens.stddev":       "number",

	"runs.*.eval_id":                 "number",
	"runs.*.eval_name":               "string",
	"runs.*.configuration":           "string",
	"runs.*.run_number":              "number",
	"runs.*.result.pass_rate":        "number",
	"runs.*.result.passed":           "number",
	"runs.*.result.total":            "number",
	"runs.*.result.time_seconds":     "number?",
	"runs.*.result.errors":           "number",
	"runs.*.expectations.*.text":     "string",
	"runs.*.expectations.*.passed":   "bool",
	"runs.*.expectations.*.evidence": "string",

	"notes.*": "string",
}

// What the viewer reads is there with the type that it takes: in the projection always; in our own benchmark.json, a rate or an
// assertion that is not known is null, which the viewer shows as 0 % or as a failure.
func TestViewerReadsItAll(t *testing.T) {
	b := demo(t)
	own, err := b.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	unmarshal(t, projection(t, b, "skill-creator"), &doc)
	for path, want := range viewerReads {
		if checkRead(t, "projection: "+path, doc, strings.Split(path, "."), want) == 0 {
			t.Errorf("projection: there is no %s at all", path)
		}
	}
	unmarshal(t, own, &doc)
	for path, want := range viewerReads {
		if path == "runs.*.result.pass_rate" || path == "runs.*.expectations.*.passed" {
			want += "?"
		}
		checkRead(t, "benchmark.json: "+path, doc, strings.Split(path, "."), want)
	}
}

func unmarshal(t testing.TB, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// checkRead counts the values that stand at a path.
func checkRead(t *testing.T, what string, at any, path []string, want string) (found int) {
	t.Helper()
	if len(path) == 0 {
		kind := map[string]string{"string": "string", "float64": "number", "bool": "bool", "<nil>": "null"}[fmt.Sprintf("%T", at)]
		if optional := strings.TrimSuffix(want, "?"); kind != optional && (kind != "null" || want == optional) {
			t.Errorf("%s is a %s, want %s", what, kind, want)
		}
		return 1
	}
	switch node := at.(type) {
	case []any:
		if path[0] != "*" {
			t.Errorf("%s: a list stands where %q should", what, path[0])
		}
		for _, e := range node {
			found += checkRead(t, what, e, path[1:], want)
		}
	case map[string]any:
		next, ok := node[path[0]]
		if !ok && strings.HasSuffix(want, "?") {
			return 0
		}
		if !ok {
			t.Errorf("%s: there is no %q", what, path[0])
			return 0
		}
		return checkRead(t, what, next, path[1:], want)
	default:
		t.Errorf("%s: %T stands where %q should be found", what, at, path[0])
	}
	return found
}

// What eval-magic is given is what it publishes of its own file.
func TestEvalMagicByItsSchema(t *testing.T) {
	text, err := os.ReadFile("testdata/eval-magic.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]bench.Benchmark{"demo": demo(t), "nothing but rates": pair(t, 2, "PPF", "PFE")} {
		file, err := jsonschema.UnmarshalJSON(bytes.NewReader(projection(t, b, "eval-magic")))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(file); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// judged gives every run of a benchmark two assertions, of which one fails in failed cells.
func judged(b bench.Benchmark) bench.Benchmark {
	for i := range b.Runs {
		r := &b.Runs[i]
		yes, held := true, r.Status == "passed"
		r.Expectations = []bench.Expectation{{ID: "a", Text: "it holds", Passed: &yes}, {ID: "b", Text: "it holds", Passed: &held}}
	}
	return b
}

// viewed is what the tests read of a projection for skill-creator.
type viewed struct {
	Runs []struct {
		Eval          string `json:"eval_name"`
		Configuration string
		Run           int `json:"run_number"`
		Result        struct {
			Rate          float64 `json:"pass_rate"`
			Passed, Total int
		}
		Expectations []struct {
			Text   string
			Passed bool
		}
	}
	Notes   []string
	Summary map[string]json.RawMessage `json:"run_summary"`
}

// What was not measured is in no number of a projection, and is named.
func TestProjectionsHoldWhatWasScored(t *testing.T) {
	b := judged(pair(t, 1, "PPE", "PF-"))
	b.Runs[0].Expectations[0].Passed = nil // of a passed trial of the candidate: one grader could not tell
	var v viewed
	unmarshal(t, projection(t, b, "skill-creator"), &v)
	var got []string
	for _, r := range v.Runs {
		got = append(got, fmt.Sprintf("%s %d %d/%d %.2f", r.Configuration, r.Run, r.Result.Passed, r.Result.Total, r.Result.Rate))
	}
	if want := []string{"with 1 1/1 1.00", "with 2 1/2 0.50", "without 1 2/2 1.00", "without 2 2/2 1.00"}; !slices.Equal(got, want) {
		t.Errorf("runs %q, want %q", got, want)
	}
	for _, name := range []string{"with", "without"} {
		if !slices.Contains(v.Notes, "1 of 3 planned cells of "+name+" were not scored; they are in no number here.") {
			t.Errorf("%s: the notes do not name the missing cell: %q", name, v.Notes)
		}
	}
	if texts := v.Runs[1].Expectations; len(texts) != 2 || texts[0].Text == texts[1].Text {
		t.Errorf("the viewer knows assertions by their texts: %+v", texts)
	}
	var m struct {
		Missing int                       `json:"missing_gradings"`
		Summary map[string]map[string]any `json:"run_summary"`
		Delta   struct {
			Rate float64 `json:"pass_rate"`
		}
	}
	unmarshal(t, projection(t, b, "eval-magic"), &m)
	if m.Missing != 2 || m.Delta.Rate != -0.25 {
		t.Errorf("%d missing and a delta of %v, want 2 and -0.25", m.Missing, m.Delta.Rate)
	}
}

// A cell that failed although its assertions hold, at a limit for example, is no full pass anywhere.
func TestProjectionsTellOfFailedCells(t *testing.T) {
	b := judged(pair(t, 1, "P", "F"))
	yes := true
	b.Runs[0].Expectations[1].Passed = &yes
	var v viewed
	unmarshal(t, projection(t, b, "skill-creator"), &v)
	if r := v.Runs[0].Result; r.Passed != 2 || r.Total != 3 {
		t.Errorf("%d/%d, want 2/3", r.Passed, r.Total)
	}
}

// Arms are never mixed, and what may not be compared is not written.
func TestProjectionsRefuse(t *testing.T) {
	two := []result.Condition{{ID: "without", Baseline: true}, {ID: "with"}, {ID: "other"}, {ID: "lost"}}
	b := judged(suite(t, two, map[string]string{"without": "PP", "with": "PF", "other": "FF", "lost": "EE"}))
	for i := range b.Comparisons {
		if c := &b.Comparisons[i]; c.Head.ID.Condition == "other" {
			c.Obstacle = &bench.Reason{Code: "x", Text: "other is not what it was"}
		}
	}
	list, err := Project(b, "eval-magic")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, p := range list {
		got[p.Head.Condition] = p.Refused
		if (p.File == nil) != (p.Refused != "") {
			t.Errorf("%s: a file of %d bytes, refused %q", p.Head, len(p.File), p.Refused)
		}
	}
	want := map[string]string{"with": "", "other": "other is not what it was", "lost": "no cell of codex/gpt-5.5/lost was scored"}
	if len(got) != len(want) || got["with"] != want["with"] || got["other"] != want["other"] || got["lost"] != want["lost"] {
		t.Errorf("%v, want %v", got, want)
	}
}

// skill-creator's viewer lays texts into a script and into attributes as they are: nothing in them may end these.
func FuzzSkillCreator(f *testing.F) {
	f.Add(`</script><script>x()</script><!--" onmouseover="x()` + "\x1b[31m\xff\u2028")
	f.Fuzz(func(t *testing.T, hostile string) {
		b := judged(pair(t, 1, "P", "F"))
		b.Notes = append(b.Notes, hostile)
		b.Metadata.SkillName = hostile
		for i := range b.Runs {
			r := &b.Runs[i]
			r.EvalName, r.Detail, r.Notes = hostile, hostile, []string{hostile}
			r.Expectations[0].Text, r.Expectations[0].Evidence = hostile, hostile
		}
		var v any
		unmarshal(t, projection(t, b, "skill-creator"), &v)
		eachText(v, func(s string) {
			if strings.ContainsAny(s, `<>"&`) {
				t.Errorf("%q", s)
			}
		})
	})
}

func eachText(v any, do func(string)) {
	switch v := v.(type) {
	case string:
		do(v)
	case []any:
		for _, e := range v {
			eachText(e, do)
		}
	case map[string]any:
		for k, e := range v {
			do(k)
			eachText(e, do)
		}
	}
}
