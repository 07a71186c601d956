package bench

import (
	"slices"

	"github.com/assay-ci/assay/internal/stats"
)

// confidence of every interval on a page.
const confidence = 0.95

// An Estimate is a number with its 95 % interval and the number of cases (trials, for a single case) behind it. Lo and Hi
// are nil when so few cases allow no interval; they are never made up, and never equal to Value for want of data.
type Estimate struct {
	Value float64  `json:"value"`
	Lo    *float64 `json:"lo"`
	Hi    *float64 `json:"hi"`
	N     int      `json:"n"`
}

// medianEstimate is the median of one value a case; nil without any.
func medianEstimate(values []float64) *Estimate {
	if len(values) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(values))
	e := &Estimate{Value: stats.Median(sorted), N: len(sorted)}
	if lo, hi, _, ok := stats.MedianRanks(len(sorted), confidence); ok {
		e.Lo, e.Hi = &sorted[lo-1], &sorted[hi-1]
	}
	return e
}
