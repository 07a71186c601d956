package report

import (
	"strings"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/bench"
)

// The age of a cached baseline is told in one wording, with what of it was checked.
func TestAboutCached(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	p := func(v float64) *float64 { return &v }
	fine := &bench.Drift{NCases: 4, Stored: bench.Passes{Passed: 19, N: 20}, Fresh: bench.Passes{Passed: 4, N: 4}, P: p(1)}
	moved := &bench.Drift{NCases: 4, Stored: bench.Passes{Passed: 19, N: 20}, Fresh: bench.Passes{N: 4}, P: p(0.0012), Seen: true}
	stored := func(condition string, d *bench.Drift, warnings ...string) bench.Comparison {
		c := bench.Comparison{Axis: "baseline", Gates: true, Head: bench.Side{ID: bench.ArmID{Harness: "codex", Model: "m", Condition: condition}}, Drift: d}
		for _, code := range warnings {
			c.Warnings = append(c.Warnings, bench.Warning{Code: code, Text: "text of " + code})
		}
		return c
	}
	twin := stored("with", nil)
	twin.Axis = "twin"
	beside := stored("with", moved)
	beside.Gates = false
	for _, c := range []struct {
		age  time.Duration
		of   []bench.Comparison
		want string
	}{
		{time.Hour, nil, "Cached baseline, less than a day."},
		{25 * time.Hour, []bench.Comparison{stored("with", fine)},
			"Cached baseline, 1 day: 4 of 4 fresh trials of the base passed, and 19 of 20 stored ones, over 4 cases; p = 1, no drift seen."},
		{72 * time.Hour, []bench.Comparison{twin, beside}, "Cached baseline, 3 days: 0 of 4 fresh trials of the base passed, and 19 of 20 stored ones, " +
			"over 4 cases; p = 0.0012, it has drifted; the base was run in full, and decides in its place."},
		{72 * time.Hour, []bench.Comparison{stored("with", nil, "underpowered", "baseline_not_rerun")}, "Cached baseline, 3 days: text of baseline_not_rerun."},
		{-time.Hour, []bench.Comparison{stored("with", nil, "baseline_not_rerun", "age_not_known")},
			"Cached baseline, age not known: text of baseline_not_rerun; text of age_not_known."},
		{72 * time.Hour, []bench.Comparison{stored("with", fine), stored("other", moved)}, "Cached baseline, 3 days: " +
			"codex · m · with: 4 of 4 fresh trials of the base passed, and 19 of 20 stored ones, over 4 cases; p = 1, no drift seen; " +
			"codex · m · other: 0 of 4 fresh trials of the base passed, and 19 of 20 stored ones, over 4 cases; p = 0.0012, it has drifted."},
	} {
		then := now.Add(-c.age)
		b := bench.Benchmark{Comparisons: c.of, Origin: &bench.Origin{Source: "file", Created: &then, Cached: true}}
		b.Metadata.Timestamp = &now
		if got := aboutCached(b, plain); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
		b.Origin.Cached = false
		if got := aboutCached(b, plain); got != "" {
			t.Errorf("said of a baseline that somebody named: %s", strings.TrimSpace(got))
		}
	}
}
