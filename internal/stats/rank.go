package stats

import (
	"errors"
	"math"
	"slices"

	moremath "github.com/aclements/go-moremath/stats"
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
// ones, in the law of all signs. Zeros are left out; ties share their rank. It is exact, and false when nothing moved.
// (Wilcoxon 1945; ties by their doubled mid-ranks, so that sums are whole numbers.)
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
	return SignFlipOf(ranks)
}

// MedianOfPairs is the middle of paired differences: the median of the means of all pairs, each value with itself too. Its
// limits come from the exact law of signed ranks; ok is false when so few differences (5 at 95 %) allow none. (Hodges and
// Lehmann 1963.) It is an error without differences.
func MedianOfPairs(d []float64, conf float64) (value, lo, hi float64, ok bool, err error) {
	if len(d) == 0 {
		return 0, 0, 0, false, errors.New("no differences have no middle")
	}
	walsh := make([]float64, 0, len(d)*(len(d)+1)/2)
	for i, a := range d {
		for _, b := range d[i:] {
			walsh = append(walsh, (a+b)/2)
		}
	}
	slices.Sort(walsh)
	value = Median(walsh)
	cut := signedRankCut(len(d), (1-conf)/2)
	if cut == 0 {
		return value, 0, 0, false, nil
	}
	return value, walsh[cut-1], walsh[len(walsh)-cut], true, nil
}

// signedRankCut is the largest c with P(the sum of positive ranks < c) ≤ tail, for n differences without ties.
func signedRankCut(n int, tail float64) int {
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
