package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// The tests of this file decide nothing in Assay. Each is what another tool gates with, or what a reader may ask for. Fisher's
// stands in the false-alarm table of docs/verdicts.md.

// McNemar is the two-sided exact test of trials that are paired one by one, and its mid-p. It is right with one trial a case
// and cries wolf with more.
func McNemar(onlyBase, onlyHead int) (p, mid float64) {
	moved := onlyBase + onlyHead
	if moved == 0 {
		return 1, 1
	}
	law, k := distuv.Binomial{N: float64(moved), P: 0.5}, float64(min(onlyBase, onlyHead))
	tail := 2 * law.CDF(k)
	return math.Min(1, tail), math.Min(1, tail-law.Prob(k))
}

// SignTest asks whether more cases rose than fell.
func SignTest(rose, fell int) Exact {
	if rose+fell == 0 {
		return Exact{Less: 1, Greater: 1}
	}
	law := distuv.Binomial{N: float64(rose + fell), P: 0.5}
	return Exact{Less: math.Min(1, law.CDF(float64(rose))), Greater: math.Min(1, law.CDF(float64(fell)))}
}

// LeastSignFlip is the smallest one-sided p that SignFlip can give when so many cases moved.
func LeastSignFlip(moved int) float64 { return math.Exp2(-float64(moved)) }

// Fisher is the two-sided exact test of one case: the chance of all outcomes no likelier than the one seen.
func Fisher(base, head Tally) float64 {
	sum := base.Passed + head.Passed
	first, last := max(0, sum-base.N), min(head.N, sum)
	law := hypergeometric(base.N, head.N, sum, first, last)
	seen, p := law[head.Passed-first], 0.0
	for _, q := range law {
		if q <= seen*(1+1e-7) { // equal up to rounding
			p += q
		}
	}
	return math.Min(1, p)
}

// A CMH is the chi-squared test of strata by Cochran, Mantel and Haenszel: the normal approximation of StratifiedExact.
type CMH struct {
	Chi2, P                   float64
	Chi2Corrected, PCorrected float64 // with the continuity correction
	OddsRatio                 float64 // of head, pooled; infinite when only the head ever passed
}

// MantelHaenszel is the test over cases with outcomes of both kinds; there is at least one.
func MantelHaenszel(base, head []Tally) CMH {
	var observed, expected, variance, up, down float64
	for i := range base {
		x, y := base[i], head[i]
		n, passed := float64(x.N+y.N), float64(x.Passed+y.Passed)
		observed += float64(x.Passed)
		expected += float64(x.N) * passed / n
		variance += float64(x.N) * float64(y.N) * passed * (n - passed) / (n * n * (n - 1))
		up += float64(x.Passed) * float64(y.N-y.Passed) / n
		down += float64(y.Passed) * float64(x.N-x.Passed) / n
	}
	p := func(chi2 float64) float64 { return distuv.ChiSquared{K: 1}.Survival(chi2) }
	distance := math.Abs(observed - expected)
	c := CMH{Chi2: distance * distance / variance, OddsRatio: up / down}
	corrected := math.Max(0, distance-0.5)
	c.Chi2Corrected = corrected * corrected / variance
	c.P, c.PCorrected = p(c.Chi2), p(c.Chi2Corrected)
	return c
}

// NonInferior is the one-sided paired t test that cases like these lose less than a margin, with the lower 95 % bound. As a
// gate it turns most identical candidates down.
func NonInferior(d []float64, margin float64) (t, p, lower float64) {
	n := float64(len(d))
	se := StdDev(d) / math.Sqrt(n)
	law := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}
	t = (Mean(d) + margin) / se
	return t, law.Survival(t), Mean(d) - law.Quantile(0.95)*se
}
