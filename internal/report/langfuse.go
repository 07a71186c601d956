package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
)

// A LangfuseScore is the body of one POST to /api/public/scores. Its id is made of the trace and the name, so sending it
// twice leaves one.
type LangfuseScore struct {
	ID       string  `json:"id"`
	TraceID  string  `json:"traceId"`
	Name     string  `json:"name"`
	Value    float64 `json:"value"`
	DataType string  `json:"dataType"` // NUMERIC or BOOLEAN, of which the value is 0 or 1
	Comment  string  `json:"comment,omitempty"`
}

// ForLangfuse adds to the spans of one cell what Langfuse reads from attributes of its own: the kind of each observation,
// what went in and came out, and what was used and spent. Only calls of models carry usage, so its sums count nothing twice.
func ForLangfuse(m result.Manifest, r result.Result, spans []Span) []Span {
	for i := range spans {
		s := &spans[i]
		s.Attributes = append(s.Attributes, langfuseAttributes(s)...)
		if s.role == roleCell {
			s.Attributes = append(s.Attributes, langfuseTrace(m, &r, spans)...)
		}
	}
	return spans
}

func langfuseAttributes(s *Span) []Attribute {
	kind := map[role]string{roleCell: "span", roleAgent: "agent", roleModel: "generation", roleTool: "tool"}[s.role]
	list := compact(text("langfuse.observation.type", kind), text("langfuse.observation.input", s.input), text("langfuse.observation.output", s.output))
	if s.Failed {
		list = append(list, compact(Attribute{"langfuse.observation.level", "ERROR"}, text("langfuse.observation.status_message", s.Message))...)
	}
	if s.role != roleModel {
		return list
	}
	list = append(list, compact(text("langfuse.observation.model.name", s.model))...)
	if s.firstByte > 0 {
		list = append(list, Attribute{"langfuse.observation.completion_start_time", s.Start.Add(s.firstByte).UTC().Format(time.RFC3339Nano)})
	}
	if u := s.usage; u != nil {
		list = append(list, langfuseUsage(u)...)
	}
	return list
}

// langfuseUsage counts each token once: kinds of input stand beside each other, not inside each other.
func langfuseUsage(u *trace.Usage) []Attribute {
	tokens := map[string]int64{}
	for _, n := range []struct {
		name  string
		value *int64
	}{{"input", u.Input}, {"input_cache_read", u.CacheRead}, {"input_cache_creation", u.CacheWrite}, {"output", u.Output}} {
		if n.value != nil {
			tokens[n.name] = *n.value
		}
	}
	var list []Attribute
	if len(tokens) > 0 {
		list = append(list, Attribute{"langfuse.observation.usage_details", asJSON(tokens)})
	}
	if u.CostUSD != nil {
		list = append(list, Attribute{"langfuse.observation.cost_details", asJSON(map[string]float64{"total": *u.CostUSD})})
	}
	return list
}

// langfuseTrace is what the trace as a whole is called. Cells of a run share a session.
func langfuseTrace(m result.Manifest, r *result.Result, spans []Span) []Attribute {
	var input, output string
	for _, s := range spans {
		if s.role == roleAgent {
			input, output = s.input, s.output
		}
	}
	return compact(
		text("langfuse.trace.name", r.Case), text("session.id", RunID(m)), text("langfuse.release", m.Commit), text("langfuse.version", m.Digest),
		texts("langfuse.trace.tags", []string{"assay", r.Harness, r.Model, r.Condition, string(r.Status)}),
		text("langfuse.trace.input", input), text("langfuse.trace.output", output),
	)
}

// LangfuseScores are what is known of how good a cell was. A cell that was not scored has no score named passed.
func LangfuseScores(r result.Result) []LangfuseScore {
	id := traceID(&r)
	var out []LangfuseScore
	add := func(name string, value *float64, kind, comment string) {
		if value == nil {
			return
		}
		sum := sha256.Sum256([]byte("assay score\x00" + string(id[:]) + "\x00" + name))
		out = append(out, LangfuseScore{
			ID: hex.EncodeToString(sum[:16]), TraceID: hex.EncodeToString(id[:]), Name: clean(name, nameSize), Value: *value, DataType: kind,
			Comment: clean(comment, lineSize),
		})
	}
	if r.Status.Scored() {
		passed := r.Status == result.Passed
		add("passed", boolValue(&passed), "BOOLEAN", r.Detail)
		add("score", r.Score, "NUMERIC", "")
	}
	for _, s := range r.Scores {
		add("assertion."+s.ID, boolValue(s.Passed), "BOOLEAN", s.Evidence)
	}
	if s := r.DiffScope; s != nil {
		for _, n := range []struct {
			name  string
			value int
		}{{"files_touched", s.FilesTouched}, {"lines_changed", s.LinesChanged()}, {"hunks", s.Hunks}} {
			value := float64(n.value)
			add("diff_scope."+n.name, &value, "NUMERIC", "")
		}
	}
	return out
}

func boolValue(v *bool) *float64 {
	if v == nil {
		return nil
	}
	value := 0.0
	if *v {
		value = 1
	}
	return &value
}

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("report: numbers by name are always JSON: " + err.Error())
	}
	return strings.TrimSpace(string(b))
}
