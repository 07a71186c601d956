package report

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/result"
)

// A Column is one number or word of every cell, for notebooks. Value is nil where it is not known.
type Column struct {
	Name, Doc string
	Value     func(r *result.Result) any // string, bool, int, int64, float64 or nil
}

// Columns are those of the rows, in their order. A name that stands here keeps its meaning.
func Columns() []Column {
	return []Column{
		{"case", "case of the suite", func(r *result.Result) any { return r.Case }},
		{"harness", "harness of the arm", func(r *result.Result) any { return r.Harness }},
		{"model", "model of the arm, as the suite names it", func(r *result.Result) any { return r.Model }},
		{"condition", "condition of the arm", func(r *result.Result) any { return r.Condition }},
		{"trial", "number of the trial, from 1", func(r *result.Result) any { return r.Trial }},
		{"phase", "screen, drift, rerun or confirm; trials of confirm belong in no rate", func(r *result.Result) any { return cmp.Or(r.Phase, "screen") }},
		{"key", "digest of all that may change what the agent does", func(r *result.Result) any { return r.Key }},
		{"status", "passed, failed, errored, skipped, or pending when there is no result; only passed and failed belong in a rate", func(r *result.Result) any { return cmp.Or(string(r.Status), "pending") }},
		{"class", "whose fault it was, of errored", func(r *result.Result) any { return textOrNil(string(r.Class)) }},
		{"reason", "why it was not run, of skipped", func(r *result.Result) any { return textOrNil(string(r.Reason)) }},
		{"detail", "one sentence for a person", func(r *result.Result) any { return textOrNil(clean(r.Detail, sentenceSize)) }},
		{"attempt", "number of the attempt that this row tells, from 1", func(r *result.Result) any { return nonZero(r.Attempt) }},
		{"condition_verified", "whether the condition was seen to hold; unknown when nothing showed it", func(r *result.Result) any { return valueOrNil(r.ConditionHeld()) }},
		{"score", "weighted mean of the assertions that are no gates, 0 to 1", func(r *result.Result) any { return valueOrNil(r.Score) }},
		{"threshold", "score that passes", func(r *result.Result) any {
			if r.Status == "" {
				return nil
			}
			return r.Threshold
		}},
		{"assertions_passed", "assertions that held", func(r *result.Result) any {
			return decided(r, func(s result.Score) bool { return s.Passed != nil && *s.Passed })
		}},
		{"assertions_failed", "assertions that did not hold", func(r *result.Result) any {
			return decided(r, func(s result.Score) bool { return s.Passed != nil && !*s.Passed })
		}},
		{"assertions_undecided", "assertions whose grader could not tell", func(r *result.Result) any { return decided(r, func(s result.Score) bool { return s.Passed == nil }) }},

		{"files_touched", "existing and new files that were changed, in scope", ofScope(func(r *result.Result) any { return r.DiffScope.FilesTouched })},
		{"lines_added", "lines added, in scope", ofScope(func(r *result.Result) any { return r.DiffScope.LinesAdded })},
		{"lines_removed", "lines removed, in scope", ofScope(func(r *result.Result) any { return r.DiffScope.LinesRemoved })},
		{"lines_changed", "added and removed together", ofScope(func(r *result.Result) any { return r.DiffScope.LinesChanged() })},
		{"hunks", "hunks at zero context, in scope", ofScope(func(r *result.Result) any { return r.DiffScope.Hunks })},
		{"no_change", "nothing was touched, in scope or outside", ofScope(func(r *result.Result) any { return r.DiffScope.NoChange })},
		{"scope_approximate", "the numbers of the diff scope are bounds", ofScope(func(r *result.Result) any { return r.DiffScope.Approximate })},
		{"scope_unmeasured", "why there is no diff scope", func(r *result.Result) any {
			if r.Unmeasured == nil {
				return nil
			}
			return textOrNil(r.Unmeasured.Class)
		}},
		{"outside_files", "existing files outside scope that were edited or deleted", ofScope(func(r *result.Result) any { return r.DiffScope.Outside.FilesTouched })},
		{"outside_lines", "added and removed in them", ofScope(func(r *result.Result) any {
			if r.DiffScope.Outside.Approximate {
				return nil
			}
			return r.DiffScope.Outside.LinesChanged()
		})},
		{"effective_lines", "lines changed without those that only move blanks", ofFacts(func(r *result.Result) any { return r.DiffScope.Facts.Churn.EffectiveLines })},
		{"whitespace_lines", "lines changed that only move blanks", ofFacts(func(r *result.Result) any { return r.DiffScope.Facts.Churn.WhitespaceLines })},
		{"comment_lines", "lines changed that hold comments and nothing else", ofFacts(func(r *result.Result) any { return r.DiffScope.Facts.Churn.CommentLines })},
		{"unlexed_lines", "lines changed of which nobody could tell whether they are comments", ofFacts(func(r *result.Result) any { return r.DiffScope.Facts.Churn.UnlexedLines })},
		{"code_lines", "lines changed in code", ofFacts(func(r *result.Result) any { return r.DiffScope.Facts.Buckets.Code.LinesChanged() })},
		{"test_lines", "lines changed in tests", ofFacts(func(r *result.Result) any { return r.DiffScope.Facts.Buckets.Test.LinesChanged() })},
		{"docs_lines", "lines changed in documents", ofFacts(func(r *result.Result) any { return r.DiffScope.Facts.Buckets.Docs.LinesChanged() })},
		{"lockfile_lines", "lines changed in lockfiles", ofFacts(func(r *result.Result) any { return r.DiffScope.Facts.Buckets.Lockfile.LinesChanged() })},
		{"generated_lines", "lines changed in generated files", ofFacts(func(r *result.Result) any { return r.DiffScope.Facts.Buckets.Generated.LinesChanged() })},
		{"vendored_lines", "lines changed in vendored files", ofFacts(func(r *result.Result) any { return r.DiffScope.Facts.Buckets.Vendored.LinesChanged() })},
		{"tampering", "findings of what may make a test pass without a fix", ofFacts(func(r *result.Result) any { return len(r.DiffScope.Facts.Tampering) })},
		{"excess_lines", "lines changed more than the reference does, at least 0", ofReference(func(r *result.Result) any { return r.DiffScope.Reference.ExcessLines })},
		{"reference_ratio", "size over that of the reference", ofReference(func(r *result.Result) any { return r.DiffScope.Reference.Ratio })},
		{"file_precision", "share of the touched files that the reference touches", ofReference(func(r *result.Result) any { return valueOrNil(r.DiffScope.Reference.FilePrecision) })},
		{"file_recall", "share of the reference's files that are touched", ofReference(func(r *result.Result) any { return r.DiffScope.Reference.FileRecall })},
		{"edits", "calls of editing tools that succeeded", ofChurn(func(r *result.Result) any { return r.TraceChurn.Edits })},
		{"lines_written", "added and removed by them together", ofChurn(func(r *result.Result) any { return valueOrNil(r.TraceChurn.LinesWritten) })},
		{"lines_lost", "of these, how many the final tree does not show", ofChurn(func(r *result.Result) any { return valueOrNil(r.TraceChurn.LinesLost) })},

		{"stop", "why the agent ended", func(r *result.Result) any { return textOrNil(string(r.Agent.Stop)) }},
		{"turns", "turns of the agent", func(r *result.Result) any { return valueOrNil(r.Agent.Turns) }},
		{"model_reported", "model as the agent named it", func(r *result.Result) any { return textOrNil(clean(r.Agent.Model, sentenceSize)) }},
		{"agent_version", "version of the agent", func(r *result.Result) any { return textOrNil(clean(r.Agent.Version, sentenceSize)) }},
		{"input_tokens", "without cached ones", ofUsage(func(r *result.Result) any { return valueOrNil(r.Agent.Usage.Input) })},
		{"cache_read_tokens", "input read from a cache", ofUsage(func(r *result.Result) any { return valueOrNil(r.Agent.Usage.CacheRead) })},
		{"cache_write_tokens", "input written to a cache", ofUsage(func(r *result.Result) any { return valueOrNil(r.Agent.Usage.CacheWrite) })},
		{"output_tokens", "with reasoning", ofUsage(func(r *result.Result) any { return valueOrNil(r.Agent.Usage.Output) })},
		{"reasoning_tokens", "a part of output_tokens", ofUsage(func(r *result.Result) any { return valueOrNil(r.Agent.Usage.Reasoning) })},
		{"cost_usd", "of the agent in this attempt", ofUsage(func(r *result.Result) any { return valueOrNil(r.Agent.Usage.CostUSD) })},
		{"responder_cost_usd", "of the model that answered questions; unknown when there was none", func(r *result.Result) any {
			if r.Beside.Responder == nil {
				return nil
			}
			return valueOrNil(r.Beside.Responder.CostUSD)
		}},
		{"judge_cost_usd", "of the models that judged; unknown when there was none", func(r *result.Result) any {
			if r.Beside.Judge == nil {
				return nil
			}
			return valueOrNil(r.Beside.Judge.CostUSD)
		}},
		{"started", "when the attempt began, RFC 3339 in UTC", func(r *result.Result) any {
			if r.Started.IsZero() {
				return nil
			}
			return r.Started.UTC().Format(time.RFC3339Nano)
		}},
		{"place_seconds", "to open the place and set it up", func(r *result.Result) any { return measuredSeconds(r.Took.Place) }},
		{"agent_seconds", "of the agent", func(r *result.Result) any { return measuredSeconds(r.Took.Agent) }},
		{"scope_seconds", "to measure the change", func(r *result.Result) any { return measuredSeconds(r.Took.Scope) }},
		{"grade_seconds", "to grade", func(r *result.Result) any { return measuredSeconds(r.Took.Grade) }},
		{"total_seconds", "of the whole attempt", func(r *result.Result) any { return measuredSeconds(r.Took.Total) }},
	}
}

// RowFormats are the formats that WriteRows knows.
var RowFormats = []string{"csv", "jsonl"}

// WriteRows writes one row for each result, as they come: csv with a header, or jsonl. What is not known is an empty field,
// or null. In csv a text that begins like a formula gets a ' in front, since spreadsheets would run it; jsonl has it as it is.
func WriteRows(w io.Writer, format string, results iter.Seq2[result.Result, error]) error {
	columns := Columns()
	if format == "csv" {
		return writeCSV(w, columns, results)
	}
	for r, err := range results {
		if err != nil {
			return err
		}
		line, err := jsonRow(columns, &r)
		if err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// jsonRow is a row as an object with its keys in the order of the columns.
func jsonRow(columns []Column, r *result.Result) ([]byte, error) {
	line := []byte("{")
	for i, c := range columns {
		value, err := json.Marshal(finite(c.Value(r)))
		if err != nil {
			return nil, fmt.Errorf("row of %s, %s: %w", r.Case, c.Name, err)
		}
		if i > 0 {
			line = append(line, ',')
		}
		line = append(strconv.AppendQuote(line, c.Name), ':')
		line = append(line, value...)
	}
	return append(line, '}', '\n'), nil
}

func writeCSV(w io.Writer, columns []Column, results iter.Seq2[result.Result, error]) error {
	out := csv.NewWriter(w)
	row := make([]string, len(columns))
	for i, c := range columns {
		row[i] = c.Name
	}
	if err := out.Write(row); err != nil {
		return err
	}
	for r, err := range results {
		if err != nil {
			return err
		}
		for i, c := range columns {
			row[i] = field(finite(c.Value(&r)))
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// field is a value as a field of CSV.
func field(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case string:
		if strings.ContainsAny(v[:min(1, len(v))], "=+-@\t\r") {
			return "'" + v
		}
		return v
	}
	return fmt.Sprint(v)
}

// finite takes numbers for unknown that JSON cannot hold.
func finite(v any) any {
	if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return nil
	}
	return v
}

func ofScope(value func(*result.Result) any) func(*result.Result) any {
	return when(func(r *result.Result) bool { return r.DiffScope != nil }, value)
}

func ofFacts(value func(*result.Result) any) func(*result.Result) any {
	return when(func(r *result.Result) bool { return r.DiffScope != nil && r.DiffScope.Facts != nil }, value)
}

func ofReference(value func(*result.Result) any) func(*result.Result) any {
	return when(func(r *result.Result) bool { return r.DiffScope != nil && r.DiffScope.Reference != nil }, value)
}

func ofChurn(value func(*result.Result) any) func(*result.Result) any {
	return when(func(r *result.Result) bool { return r.TraceChurn != nil }, value)
}

func ofUsage(value func(*result.Result) any) func(*result.Result) any {
	return when(func(r *result.Result) bool { return r.Agent.Usage != nil }, value)
}

func when(there func(*result.Result) bool, value func(*result.Result) any) func(*result.Result) any {
	return func(r *result.Result) any {
		if !there(r) {
			return nil
		}
		return value(r)
	}
}

// decided counts assertions; nobody knows any of a cell that was not graded.
func decided(r *result.Result, which func(result.Score) bool) any {
	if len(r.Scores) == 0 {
		return nil
	}
	n := 0
	for _, s := range r.Scores {
		if which(s) {
			n++
		}
	}
	return n
}

func valueOrNil[T any](v *T) any {
	if v == nil {
		return nil
	}
	return *v
}

func textOrNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func nonZero(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

// measuredSeconds is a duration; one of 0 was not measured.
func measuredSeconds(d time.Duration) any {
	if d <= 0 {
		return nil
	}
	return math.Round(d.Seconds()*1e6) / 1e6
}
