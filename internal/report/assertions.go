package report

import (
	"fmt"

	"github.com/assay-ci/assay/internal/bench"
)

// assertions writes which assertions measure nothing, and what the scores are without them. Nothing is written when all may.
func (w *writer) assertions(b bench.Benchmark) {
	var unhealthy []bench.Assertion
	for _, a := range b.Assertions {
		if !bench.Healthy(a.Class) {
			unhealthy = append(unhealthy, a)
		}
	}
	if len(unhealthy) == 0 {
		return
	}
	w.line("## Assertions")
	w.line("%d of %d assertions tell nothing apart here. They count all the same; docs/verdicts.md says what each word means.", len(unhealthy), len(b.Assertions))
	w.table([]string{"case", "assertion", "class", "passed"}, "lllr")
	for _, a := range unhealthy[:min(len(unhealthy), mostRows)] {
		class := Text(a.Class, nameSize)
		if a.SameAs != "" {
			class += " (same as " + code(a.SameAs, nameSize) + ")"
		}
		w.row(code(a.Case, nameSize), code(a.ID, nameSize), class, fmt.Sprintf("%d/%d", a.Passed, a.Cells))
	}
	w.more(len(unhealthy)-mostRows, "assertions that tell nothing apart")
	for _, s := range b.Scores {
		if s.All == nil {
			continue
		}
		without := "no score is left"
		if s.Healthy != nil {
			without = fmt.Sprintf("%.2f", *s.Healthy)
		}
		w.line("Score of %s: %.2f; without these assertions: %s.", codeName(s.Harness, s.Model, s.Condition), *s.All, without)
	}
}
