package bench

import (
	"iter"
	"reflect"
	"slices"

	"github.com/assay-ci/assay/internal/result"
)

// Counts is what the cells of a run came to before anything was compared: enough to tell whether a benchmark is of these
// results, for a part of what it costs to make one.
type Counts struct {
	digest   string // of the fingerprint
	settings result.Gate
	cases    []CaseArm
}

// Count counts the results of the planned cells as [Make] does, with the same errors. Of a result it needs what
// [result.ReadNumbers] gives.
func Count(m result.Manifest, results iter.Seq2[result.Result, error]) (Counts, error) {
	settings, err := settingsOf(m)
	if err != nil {
		return Counts{}, err
	}
	order := newOrder(m)
	arms, counted := make(map[ArmID]*arm), make(map[cell]bool, len(m.Cells)) // counted: of each planned cell, whether it was
	for _, c := range m.Cells {
		c := cell(c)
		if _, twice := counted[c]; twice {
			return Counts{}, plannedTwice(c)
		}
		if err := order.lists(c); err != nil {
			return Counts{}, err
		}
		counted[c] = false
		if arms[c.arm()] == nil {
			arms[c.arm()] = order.newArm(c.arm())
		}
	}
	for r, err := range results {
		c := cell(r.Cell)
		twice, planned := counted[c]
		switch {
		case err != nil || !planned:
		case twice:
			return Counts{}, resultsTwice(c)
		default:
			counted[c] = true
			arms[c.arm()].take(c, newRecord(r, 0, &Run{}))
		}
	}
	for c, done := range counted {
		if !done {
			arms[c.arm()].take(c, nil)
		}
	}
	return Counts{fingerprint(m).Digest, settings, order.caseArms(arms)}, nil
}

// Of tells whether the benchmark was made from the same plan, with the same end of every case, and under the same settings as
// planned; how its arms were compared and decided is not asked.
func (b Benchmark) Of(c Counts) bool {
	return b.Fingerprint.Digest == c.digest && slices.EqualFunc(b.CaseArms, c.cases, CaseArm.same) && reflect.DeepEqual(b.planned(), c.settings)
}

// same tells whether both are one arm on one case with one end. An older benchmark.json knows no medians of cost to duration.
func (c CaseArm) same(d CaseArm) bool {
	if c.unmeasured() || d.unmeasured() {
		c.CostUSD, c.Tokens, c.Turns, c.Duration = nil, nil, nil, nil
		d.CostUSD, d.Tokens, d.Turns, d.Duration = nil, nil, nil, nil
	}
	return reflect.DeepEqual(c, d)
}

func (c CaseArm) unmeasured() bool {
	return c.CostUSD == nil && c.Tokens == nil && c.Turns == nil && c.Duration == nil
}
