package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	invopop "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/result"
)

// demo is a run of twelve cases with everything that goes wrong in real ones, and texts that try to be markup.
func demo() (result.Manifest, []result.Result) {
	m, results := input([]outcomes{
		{"timezone", "FFF", "PPP"},
		{"flaky-retry", "PFP", "PPP"},
		{"pagination", "PPP", "PPP"},
		{"csv-quoting", "PPP", "PPP"},
		{"data-race", "FFP", "PPP"},
		{"sql-join", "FFF", "FPP"},
		{"config-merge", "PPP", "PPF"},
		{"path-traversal", "FFF", "FFF"},
		{"unicode-slug", "PPP", "PPP"},
		{"monorepo", "PPP", "PEP"},
		{"large-log", "PPS", "PPS"},
		{"shell-glob", "PFP", "PPP"},
	})
	m.Suite = "investigating-bugs"
	m.Gate.MinCoverage = 0.9
	m.Harnesses[0].Simulated = true
	m.Isolation = "host executor: network and files outside the cell are not protected"
	m.Keys = "none"
	rename := func(r *result.Result) {
		r.Harness, r.Model = "claude", "opus|4 <b>"
		r.Condition = map[string]string{"without": "without_skill", "with": "with_skill"}[r.Condition]
	}
	m.Conditions[0].ID, m.Conditions[1].ID = "without_skill", "with_skill"
	m.Harnesses[0].Models = []string{"opus|4 <b>"}
	for i := range m.Cells {
		var r result.Result
		r.Cell = m.Cells[i]
		rename(&r)
		m.Cells[i] = r.Cell
	}
	for i := range results {
		r := &results[i]
		rename(r)
		dress(r, i)
	}
	return m, results
}

// dress gives a result of the demo what a real one has: sizes, usage, assertions, findings.
func dress(r *result.Result, i int) {
	if r.Status == result.Skipped {
		return
	}
	r.Agent.Version, r.Agent.Turns = "2.1.0", ptr(4+len(r.Case)%5+r.Trial)
	sprawl := 1
	if r.Condition == "without_skill" {
		sprawl = 4
	}
	size := map[bool]string{true: `{"input":%d,"output":%d,"cost_usd":0.02}`, false: `{"input":%d,"output":%d}`}[r.Case != "monorepo"]
	size = strings.Replace(size, "%d", "1800", 1)
	size = strings.Replace(size, "%d", "240", 1)
	if err := json.Unmarshal([]byte(size), &r.Agent.Usage); err != nil {
		panic(err)
	}
	scope := `{"files_touched":FILES,"lines_added":ADDED,"lines_removed":2,"hunks":FILES}`
	scope = strings.ReplaceAll(scope, "FILES", string(rune('0'+(sprawl+1)/2)))
	scope = strings.ReplaceAll(scope, "ADDED", string(rune('0'+sprawl+len(r.Case)%3+r.Trial%2)))
	switch {
	case r.Status == result.Errored:
		r.Earlier = []result.Attempt{{Attempt: 1, Status: result.Errored, Class: "model_api", CostUSD: ptr(0.01)}}
		r.Attempt = 2
		r.Detail = "529 overloaded | <script>alert(1)</script> @everyone"
	case r.Case == "unicode-slug" && r.Trial == 2:
		r.Unmeasured = &result.Unmeasured{Class: "tree_moving", Why: "src/a.go changed while it was read"}
	case r.Case == "path-traversal":
		scope = `{"files_touched":0,"lines_added":0,"lines_removed":0,"hunks":0,"no_change":true}`
	}
	if r.Status.Scored() && r.Unmeasured == nil {
		if err := json.Unmarshal([]byte(scope), &r.DiffScope); err != nil {
			panic(err)
		}
	}
	if r.DiffScope != nil {
		know(r)
	}
	if r.Status == result.Failed {
		r.Scores[0].Evidence = "exit 1: <img src=x onerror=alert(1)> | [click](https://evil.example) `tick` @octocat #1\n--- FAIL: TestWeekly\n\x1b[31m"
	}
	if r.Status.Scored() {
		small := sprawl == 1
		r.Scores = append(r.Scores,
			result.Score{ID: "minimal_fix", Type: "diff_scope", Weight: 1, Passed: &small, Text: "at most 1 file and 8 lines", Evidence: "see diff_scope"},
			result.Score{ID: "root_cause", Type: "llm_judge", Weight: 1, Text: "names the root cause", Error: "the judge did not answer"},
		)
		r.Score = ptr(map[bool]float64{true: 1, false: 0}[small])
	}
	if i%7 == 0 {
		r.Findings = []result.Finding{{Kind: "git_created", Path: "sub/.git", Text: "a new .git folder"}}
	}
}

// know gives a measured result of the demo what is known beside its size. One cell comes from before facts were looked for.
func know(r *result.Result) {
	s := r.DiffScope
	if r.Case == "csv-quoting" && r.Trial == 3 {
		return
	}
	s.Facts = &diffscope.Facts{Churn: diffscope.Churn{EffectiveLines: max(0, s.LinesChanged()-1), WhitespaceLines: min(1, s.LinesChanged())}}
	s.Facts.Buckets.Code, s.Facts.Buckets.Test = s.Counts, diffscope.Counts{LinesAdded: s.LinesAdded / 2}
	s.Facts.Buckets.Code.LinesAdded -= s.LinesAdded / 2
	with := r.Condition == "with_skill"
	switch {
	case r.Case == "sql-join" && with && r.Trial < 3:
		s.Facts.Tampering = []diffscope.Finding{
			{Kind: "fewer_assertions", Path: "join_test.go", Text: "5 before, 3 after"},
			{Kind: "skip_added", Path: "join|<img src=x onerror=alert(1)>_test.go", Text: "line 12: `t.Skip(` @octocat\n| a |\u202e"},
		}
	case r.Case == "flaky-retry" && !with && r.Trial == 2:
		for i := range 25 {
			s.Facts.Tampering = append(s.Facts.Tampering, diffscope.Finding{Kind: "test_deleted", Path: fmt.Sprintf("retry/%02d_test.go", i), Text: "deleted"})
		}
		s.Facts.Tampering[24].Kind = "test_config_changed"
	case r.Case == "monorepo" && !with:
		s.Outside.Counts = diffscope.Counts{FilesTouched: 1, LinesAdded: 3, Hunks: 1}
		s.Outside.Approximate = r.Trial == 3
	case r.Case == "pagination" && with:
		s.Facts.Dependencies.Added = []diffscope.Dependency{{File: "a/package.json", Name: "left-pad|<b>"}, {File: "b/package.json", Name: "left-pad|<b>"}}
		s.Facts.Dependencies.Unread = []string{"c/package.json"}
		s.Facts.Dependencies.Removed = []diffscope.Dependency{{File: "a/package.json", Name: "chalk"}}
		s.Facts.Shape.NewExecutables = []string{"run.sh"}
		s.Facts.Shape.NewLinks = []diffscope.NewLink{{Path: "up", Target: "../..", Leaves: true}, {Path: "here", Target: "a"}}
		s.Facts.Shape.LargeFiles = []diffscope.SizedFile{{Path: "dump.sql", Bytes: 2 << 20}}
	case r.Case == "timezone":
		lines := s.LinesChanged()
		s.Reference = &diffscope.Excess{ExcessLines: max(0, lines-6), Ratio: float64(lines+1) / 7, FilePrecision: ptr(1 / float64(s.FilesTouched)), FileRecall: 1}
		r.TraceChurn = &result.TraceChurn{Edits: 4, LinesWritten: ptr(lines + 8), LinesLost: ptr(8), PathsUndone: []string{"debug.log"}}
	case r.Case == "data-race":
		s.Reference = &diffscope.Excess{ExcessLines: 0, Ratio: 0.5, FilePrecision: ptr(1.0), FileRecall: 0.5, Approximate: true}
		r.TraceChurn = &result.TraceChurn{Edits: 2, PathsUndone: []string{}}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s is stale, run the test with -update:\n%s", name, cmp.Diff(string(want), string(got)))
	}
}

func TestGoldenBenchmark(t *testing.T) {
	m, results := demo()
	b := mustMake(t, m, results)
	data, err := b.JSON()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/benchmark.json", data)
	back, err := Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	again, err := back.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, again) {
		t.Errorf("benchmark.json changes when it is read and written again:\n%s", cmp.Diff(string(data), string(again)))
	}
}

// skill-creator's viewer takes the first key of run_summary for the candidate and the second for the baseline.
func TestRunSummaryOrder(t *testing.T) {
	t.Parallel()
	m, results := input([]outcomes{{"a", "PF", "PP"}})
	for _, swap := range []bool{false, true} {
		if swap {
			m.Conditions[0], m.Conditions[1] = m.Conditions[1], m.Conditions[0]
		}
		data, err := json.Marshal(mustMake(t, m, results).RunSummary)
		if err != nil {
			t.Fatal(err)
		}
		want := `{"with":{"pass_rate":{"mean":1,"stddev":0,"min":1,"max":1,"n":1},"time_seconds":{"mean":1.5,"stddev":0.707106781187,"min":1,"max":2,"n":2},"tokens":null},` +
			`"without":{"pass_rate":{"mean":0.5,"stddev":0,"min":0.5,"max":0.5,"n":1},"time_seconds":{"mean":1.5,"stddev":0.707106781187,"min":1,"max":2,"n":2},"tokens":null},` +
			`"delta":{"pass_rate":"+0.50","time_seconds":"+0.0","tokens":null}}`
		if diff := cmp.Diff(want, strings.ReplaceAll(string(data), "0.7071067811865476", "0.707106781187")); diff != "" {
			t.Errorf("baseline last %t (-want +got):\n%s", swap, diff)
		}
	}
}

// The schema in docs is made from the types, and real benchmarks keep it.
func TestSchema(t *testing.T) {
	data, err := json.MarshalIndent(schema(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "../../docs/benchmark.schema.json", append(data, '\n'))

	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("benchmark.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	checked, err := compiler.Compile("benchmark.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	full, fullResults := demo()
	empty := result.Manifest{Gate: gate}
	one, oneResults := input([]outcomes{{"a", "P", "-"}})
	lenient := with(full.Gate, func(g *result.Gate) { g.FailOn, g.MinPassRate = []string{}, ptr(0.1) })
	demo := mustMake(t, full, fullResults)
	regated, err := demo.Against(stored(demo)).Regate(lenient)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		b    Benchmark
	}{
		{"demo", demo},
		{"against itself, decided again", regated},
		{"against nothing", mustMake(t, one, oneResults).Against(Stored{})},
		{"empty", mustMake(t, empty, nil)},
		{"one", mustMake(t, one, oneResults)},
	} {
		text, err := c.b.JSON()
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := checked.Validate(value); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	broken, _ := jsonschema.UnmarshalJSON(strings.NewReader(`{"schema_version": 1, "verdict": "fine"}`))
	if checked.Validate(broken) == nil {
		t.Error("the schema takes anything")
	}
}

// schema reflects Benchmark. The reflector knows neither ordered objects nor that a pointer without omitempty is null
// when it is nil, so these two are added.
func schema(t *testing.T) *invopop.Schema {
	t.Helper()
	ref := func(name string) *invopop.Schema { return &invopop.Schema{Ref: "#/$defs/" + name} }
	object := func(values *invopop.Schema) *invopop.Schema {
		return &invopop.Schema{Type: "object", AdditionalProperties: values}
	}
	r := &invopop.Reflector{ExpandedStruct: true, Mapper: func(t reflect.Type) *invopop.Schema {
		switch t {
		case reflect.TypeFor[ByCondition[[]ScopeRow]]():
			return object(&invopop.Schema{Type: "array", Items: ref("ScopeRow")})
		case reflect.TypeFor[RunSummary]():
			s := object(ref("Summary"))
			s.Properties = invopop.NewProperties()
			s.Properties.Set("delta", nullable(ref("Delta")))
			s.Required = []string{"delta"}
			return s
		case reflect.TypeFor[Verdict]():
			return &invopop.Schema{Type: "string", Enum: []any{Regressed, Improved, Equivalent, NoEvidence, Underpowered, Invalid}}
		case reflect.TypeFor[result.Status]():
			return &invopop.Schema{Type: "string", Enum: []any{result.Passed, result.Failed, result.Errored, result.Skipped}}
		}
		return nil
	}}
	if err := r.AddGoComments("github.com/assay-ci/assay/internal/bench", "./", invopop.WithFullComment()); err != nil {
		t.Fatal(err)
	}
	s := r.Reflect(Benchmark{})
	s.ID, s.Title = "", "benchmark.json of Assay"
	r.ExpandedStruct = false
	roots := []reflect.Type{reflect.TypeFor[Benchmark]()}
	for _, mapped := range []any{ScopeRow{}, Summary{}, Delta{}} { // they stand behind the mapper's references
		maps.Copy(s.Definitions, r.Reflect(mapped).Definitions)
		roots = append(roots, reflect.TypeOf(mapped))
	}
	s.Definitions["Benchmark"] = s
	seen := make(map[reflect.Type]bool)
	for _, root := range roots {
		markNullable(root, s.Definitions, seen)
	}
	delete(s.Definitions, "Benchmark")
	return s
}

func nullable(s *invopop.Schema) *invopop.Schema {
	return &invopop.Schema{OneOf: []*invopop.Schema{s, {Type: "null"}}}
}

// markNullable lets every pointer field of t, and of the structs below it, be null. seen holds the types done.
func markNullable(t reflect.Type, defs invopop.Definitions, seen map[reflect.Type]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	s := defs[t.Name()]
	if t.Kind() != reflect.Struct || s == nil || seen[t] {
		return
	}
	seen[t] = true
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if property, ok := s.Properties.Get(name); ok && f.Type.Kind() == reflect.Pointer && options == "" {
			either := nullable(property)
			either.Description, property.Description = property.Description, ""
			s.Properties.Set(name, either)
		}
		if !f.Anonymous {
			markNullable(f.Type, defs, seen)
		}
	}
}

func FuzzRead(f *testing.F) {
	data, err := os.ReadFile("testdata/benchmark.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"schema_version":1,"run_summary":{"a":{},"delta":null},"diff_scope":{"a":[{}],"b":null}}`))
	f.Add([]byte(`{"schema_version":1,"run_summary":[],"diff_scope":null}`))
	f.Add([]byte(`{"schema_version":2} {}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		first, err := b.JSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Read(bytes.NewReader(first))
		if err != nil {
			t.Fatal(err)
		}
		second, err := again.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) {
			t.Error(cmp.Diff(string(first), string(second)))
		}
	})
}

// TestReadBrokenText: what is wrong is told, with its place.
func TestReadBrokenText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                   "unexpected EOF",
		"[]":                                 "into Go bench.recorded",
		"3":                                  "into Go bench.recorded",
		`{"schema_version":1,`:               "unexpected EOF",
		`{"runs":[{}`:                        "unexpected EOF",
		`{"runs":{}}`:                        `within "/runs"`,
		`{"runs":[3]}`:                       `within "/runs/0"`,
		`{"schema_version":"x"}`:             `within "/schema_version"`,
		`{"schema_version":2,"runs":[]}`:     "schema_version 2",
		`{"schema_version":1,"runs":null} x`: "after top-level value",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
