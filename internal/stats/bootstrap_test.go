package stats

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// TestBCAEndOfSkewed goes through every resample of twelve values in whole numbers and finds the lower end of their mean.
func TestBCAEndOfSkewed(t *testing.T) {
	t.Parallel()
	values, observed := []int{0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 5, 5}, 14 // fifths
	law := []float64{1}
	for range values {
		next := make([]float64, len(law)+5)
		for sum, p := range law {
			for _, v := range values {
				next[sum+v] += p / float64(len(values))
			}
		}
		law = next
	}
	below := law[observed] / 2
	for _, p := range law[:observed] {
		below += p
	}
	level, _ := BCaLevels(distuv.UnitNormal.Quantile(below), 0.0681213414536332, 0.95)
	sum, at := 0.0, -1
	for sum < level {
		at++
		sum += law[at]
	}
	if got := float64(at) / 5 / 12; math.Abs(got-corrected["bca_skew12 lo"]) > 1e-12 {
		t.Errorf("the lower end is %v at level %v", got, level)
	}
}

// A statistic that no case moves has no acceleration, and its interval says that it is plain percentiles.
func TestBCAWithoutScatter(t *testing.T) {
	t.Parallel()
	b := BCa(5, 100, 0.95, [2]uint64{1, 1}, func([]int, *rand.Rand) float64 { return 3 })
	if !b.Percentile || b.Lo != 3 || b.Hi != 3 {
		t.Errorf("%+v", b)
	}
}

func TestBCARepeats(t *testing.T) {
	t.Parallel()
	d := []float64{1, 5, 2, 8, 3, 3, 9}
	a, b := BCa(len(d), 1000, 0.95, [2]uint64{7, 7}, meanOf(d)), BCa(len(d), 1000, 0.95, [2]uint64{7, 7}, meanOf(d))
	if a != b {
		t.Errorf("%+v, then %+v", a, b)
	}
}
