package bench

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/assay-ci/assay/internal/result"
)

// add adds what an attempt spent beside its agent.
func (c *BesideCost) add(b result.Beside) {
	if b.Responder != nil {
		c.Responder.add(b.Responder.CostUSD)
	}
	if b.Judge != nil {
		c.Judge.add(b.Judge.CostUSD)
	}
	if b.Calibration != nil {
		c.Calibration.add(b.Calibration.CostUSD)
	}
}

// both is what the responder and the judges of one arm cost.
func (c BesideCost) both() Cost {
	sum := Cost{Unknown: c.Responder.Unknown + c.Judge.Unknown}
	for _, part := range []Cost{c.Responder, c.Judge} {
		if part.USD != nil {
			sum.add(part.USD)
		}
	}
	return sum
}

// add adds the cost of an attempt; nil is not known.
func (c *Cost) add(usd *float64) {
	if usd == nil {
		c.Unknown++
		return
	}
	if c.USD == nil {
		c.USD = new(float64)
	}
	*c.USD += *usd
}

// judged adds what the judges of a cell's case said of it.
func (b *Benchmark) judged(r *record) {
	for _, s := range r.judged {
		same := func(j Judge) bool {
			return j.Case == r.run.Case && j.Assertion == s.ID && j.Model == s.Judged.Model && reflect.DeepEqual(j.Calibration, s.Judged.Calibration)
		}
		i := slices.IndexFunc(b.Judges, same)
		if i < 0 {
			i = len(b.Judges)
			b.Judges = append(b.Judges, Judge{
				Case: r.run.Case, Assertion: s.ID, Judged: result.Judged{Model: s.Judged.Model, Calibration: s.Judged.Calibration},
			})
		}
		j := &b.Judges[i]
		j.Cells++
		j.Votes += s.Judged.Votes
		j.Agreed += s.Judged.Agreed
	}
}

func sortJudges(list []Judge) {
	slices.SortStableFunc(list, func(a, b Judge) int {
		return cmp.Or(cmp.Compare(a.Case, b.Case), cmp.Compare(a.Assertion, b.Assertion), cmp.Compare(a.Model, b.Model))
	})
}
