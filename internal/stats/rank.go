package stats

import (
	"errors"
	"math"
	"slices"

	moremath "github.com/aclements/go-moremath/stats"
	"gonum.org/v1/gonum/stat/distuv"
)

// MannWhitney asks whether values of y tend to lie above or below those of x, two-sided, from values that are not paired.
// u counts the pairs with x above y, a tie as a half. It is exact up to 50 values a side, 25 with ties. It is an error when
// a side is empty or all values are one.
func MannWhitney(x, y []float64) (u, p float64, err error) {
	r, err := moremath.MannWhitneyUTest(x, y, moremath.LocationDiffers)
	if err != nil {
		return 0, 0, err
	}
	return r.U, r.P, nil
}

// Shift is how far y lies above x: the median of all differences between a value of each. Both have values. (Hodges and
// Lehmann 1963.)
func Shift(x, y []float64) float64 {
	all := make([]float64, 0, len(x)*len(y))
	for _, a := range x {
		for _, b := range y {
			all = append(all, b-a)
		}
	}
	slices.Sort(all)
	return Median(all)
}

// SignedRank asks whether paired differences go one way, by the ranks of their sizes: the sum of the ranks of the positive
// ones, in the law of all signs. Zeros are left out; ties share their rank. It is exact while at most mostRanked moved,
// above by the normal law, and false when nothing moved. (Wilcoxon 1945; ties by their doubled mid-ranks, so that sums are
// whole numbers.)
func SignedRank(d []float64) (e Exact, ok bool) {
	moved := slices.DeleteFunc(slices.Clone(d), func(x float64) bool { return x == 0 })
	if len(moved) == 0 {
		return Exact{Less: 1, Greater: 1}, false
	}
	slices.SortFunc(moved, func(a, b float64) int {
		switch a, b := math.Abs(a), math.Abs(b); {
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return 0
	})
	ranks := make([]int, len(moved)) // doubled, with the sign of the difference
	for from := 0; from < len(moved); {
		to := from
		for to < len(moved) && math.Abs(moved[to]) == math.Abs(moved[from]) {
			to++
		}
		for i := from; i < to; i++ {
			ranks[i] = from + 1 + to
			if moved[i] < 0 {
				ranks[i] = -ranks[i]
			}
		}
		from = to
	}
	if len(ranks) > mostRanked {
		return signedRankNormal(ranks), true
	}
	return SignFlipOf(ranks)
}

// mostRanked is the largest number of differences whose signed ranks are counted out. The time for it grows with the cube of
// the number, and the normal law is by then within 0.0005 of theirs.
const mostRanked = 200

// signedRankNormal is the law of doubled signed ranks that are many. Ties need no correction: their ranks say it all.
func signedRankNormal(ranks []int) Exact {
	sum, squares, unit := 0, 0.0, 0
	for _, r := range ranks {
		sum += r
		squares += float64(r) * float64(r)
		unit = gcd(unit, abs(r))
	}
	above := func(by int) float64 { return distuv.UnitNormal.CDF(float64(by) / math.Sqrt(squares)) }
	return Exact{Less: above(sum + unit), Greater: above(unit - sum)} // a unit is half of the step that one flip makes
}

// MedianOfPairs is the middle of paired differences: the median of the means of all pairs, each value with itself too. Its
// limits come from the exact law of signed ranks; ok is false when so few differences (5 at 95 %) allow none. (Hodges and
// Lehmann 1963.) It is an error without differences.
func MedianOfPairs(d []float64, conf float64) (value, lo, hi float64, ok bool, err error) {
	if len(d) == 0 {
		return 0, 0, 0, false, errors.New("no differences have no middle")
	}
	sorted := slices.Sorted(slices.Values(d))
	means := len(d) * (len(d) + 1) / 2
	value = (pairMean(sorted, (means+1)/2) + pairMean(sorted, means/2+1)) / 2
	cut := signedRankCut(len(d), (1-conf)/2)
	if cut == 0 {
		return value, 0, 0, false, nil
	}
	return value, pairMean(sorted, cut), pairMean(sorted, means+1-cut), true, nil
}

// pairMean is the k-th smallest, from 1, of the means of all pairs of sorted values, each value with itself too. It halves
// the numbers that it could be: to lay out the means of some thousand values would take gigabytes.
func pairMean(sorted []float64, k int) float64 {
	lo, hi := place(sorted[0]), place(sorted[len(sorted)-1])
	for lo < hi {
		mid := lo>>1 + hi>>1 + lo&hi&1
		if pairsUpTo(sorted, floatAt(mid)) >= k {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return floatAt(lo)
}

// pairsUpTo counts the pairs whose mean is at most limit.
func pairsUpTo(sorted []float64, limit float64) int {
	count, last := 0, len(sorted)-1
	for i, a := range sorted {
		for last >= i && (a+sorted[last])/2 > limit {
			last--
		}
		if last < i {
			break
		}
		count += last - i + 1
	}
	return count
}

// place numbers the floats in their order, and floatAt is the float of a number.
func place(x float64) int64 {
	bits := int64(math.Float64bits(x))
	if bits < 0 {
		return math.MinInt64 - bits
	}
	return bits
}

func floatAt(place int64) float64 {
	if place < 0 {
		place = math.MinInt64 - place
	}
	return math.Float64frombits(uint64(place))
}

// signedRankCut is the largest c with P(the sum of positive ranks < c) ≤ tail, for n differences without ties.
func signedRankCut(n int, tail float64) int {
	if n > mostRanked {
		mean, sd := float64(n)*float64(n+1)/4, math.Sqrt(float64(n)*float64(n+1)*float64(2*n+1)/24)
		return int(mean + distuv.UnitNormal.Quantile(tail)*sd + 0.5)
	}
	law := []float64{1}
	for rank := 1; rank <= n; rank++ {
		law = convolve(law, []float64{0.5, 0.5}, rank)
	}
	sum, c := 0.0, 0
	for c < len(law) && sum+law[c] <= tail {
		sum += law[c]
		c++
	}
	return c
}
