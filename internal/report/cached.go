package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/bench"
)

// cachedFor says how long before this run its stored baseline was measured.
func cachedFor(b bench.Benchmark) string {
	then, now := b.Origin.Created, b.Metadata.Timestamp
	if then == nil || now == nil || now.Before(*then) {
		return "cached baseline, age not known"
	}
	switch days := int(now.Sub(*then) / (24 * time.Hour)); days {
	case 0:
		return "cached baseline, less than a day"
	default:
		return fmt.Sprintf("cached baseline, %d %s", days, plural(days, "day", "days"))
	}
}

// aboutCached tells of a run with a cached baseline how old that is, and what of it was checked; empty when it has none.
func aboutCached(b bench.Benchmark, m markup) string {
	if b.Origin == nil || !b.Origin.Cached {
		return ""
	}
	var found []string
	for _, c := range b.Comparisons {
		if text := cachedOf(b, c, m); text != "" && !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	text := capital(cachedFor(b))
	if len(found) > 0 {
		text += ": " + listed(found)
	}
	return text + "."
}

// cachedOf tells what is known of the cached baseline of one comparison.
func cachedOf(b bench.Benchmark, c bench.Comparison, m markup) string {
	if c.Axis != "baseline" {
		return ""
	}
	var out []string
	if c.Drift != nil {
		out = append(out, m.text(c.Drift.Text()))
	}
	if runAnew(b, c.Head.ID) {
		out = append(out, "the base was run in full, and decides in its place")
	}
	for _, w := range c.Warnings {
		if w.Code == "baseline_not_rerun" || w.Code == "age_not_known" {
			out = append(out, m.text(w.Text))
		}
	}
	if len(out) > 0 && len(gating(b)) > 1 {
		out[0] = m.name(c.Head.ID.Harness, c.Head.ID.Model, c.Head.ID.Condition) + ": " + out[0]
	}
	return strings.Join(out, "; ")
}

// runAnew tells whether an arm with a cached baseline is judged by a fresh one.
func runAnew(b bench.Benchmark, head bench.ArmID) bool {
	return slices.ContainsFunc(b.Comparisons, func(c bench.Comparison) bool { return c.Axis == "twin" && c.Head.ID == head && c.Gates })
}
