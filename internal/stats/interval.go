package stats

import (
	"fmt"
	"math"
	"math/big"

	"gonum.org/v1/gonum/stat/distuv"
)

// A Tally is what one case did in one arm: passed of N scored trials.
type Tally struct{ Passed, N int }

// Rate is the share of the trials that passed; not a number without any.
func (t Tally) Rate() float64 { return float64(t.Passed) / float64(t.N) }

// slack is how much a spread of equal rates may come to by rounding.
const slack = 1e-9

// zQuantile is the two-sided normal quantile of a confidence level.
func zQuantile(conf float64) float64 { return distuv.UnitNormal.Quantile(1 - (1-conf)/2) }

// tQuantile is the two-sided Student quantile of a confidence level.
func tQuantile(conf, df float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(1 - (1-conf)/2)
}

// Wilson is the score interval of k passed of n trials.
func Wilson(k, n int, conf float64) (lo, hi float64, err error) {
	if n < 1 || k < 0 || k > n {
		return 0, 0, fmt.Errorf("interval of %d passed of %d trials: not a proportion", k, n)
	}
	lo, hi = WilsonAt(float64(k)/float64(n), float64(n), zQuantile(conf))
	return lo, hi, nil
}

// WilsonAt is Wilson's interval for a rate p at a size n that need not be whole. The ends are forced to 0 and 1 where
// the rate is, because rounding must not deny what was seen.
func WilsonAt(p, n, z float64) (lo, hi float64) {
	z2 := z * z
	mid := (p + z2/(2*n)) / (1 + z2/n)
	half := z / (1 + z2/n) * math.Sqrt(p*(1-p)/n+z2/(4*n*n))
	lo, hi = mid-half, mid+half
	if p <= 0 {
		lo = 0
	}
	if p >= 1 {
		hi = 1
	}
	return math.Max(lo, 0), math.Min(hi, 1)
}

// CaseMeanInterval is the pass rate of an arm: the mean of the case rates, with Wilson's interval at the effective
// size. Trials inside a case resemble each other, so the effective size comes from the spread between cases, not from
// the number of trials. Every tally has at least one trial, and there is at least one.
func CaseMeanInterval(cases []Tally, conf float64) (value, lo, hi, nEff float64) {
	m := float64(len(cases))
	trials, rates := 0, make([]float64, len(cases))
	for i, c := range cases {
		trials += c.N
		rates[i] = c.Rate()
	}
	value = Mean(rates)
	nEff = 1
	if len(cases) > 1 {
		shrink := zQuantile(conf) / tQuantile(conf, m-1)
		nEff = m * shrink * shrink
		// Equal rates may differ in the last bit; such a spread is none.
		if s := StdDev(rates); s > slack {
			nEff = value * (1 - value) / (s * s / m) * shrink * shrink
		}
		nEff = math.Min(math.Max(nEff, 1), float64(trials))
	}
	lo, hi = WilsonAt(value, nEff, zQuantile(conf))
	return value, lo, hi, nEff
}

// StratNewcombe is the mean difference of the case rates, head minus base, with the interval that adds the squares of
// the distances to each case's Wilson limits. It is never zero wide. Both slices hold the same cases in the same order.
func StratNewcombe(base, head []Tally, conf float64) (diff, lo, hi float64) {
	var down, up float64
	z := zQuantile(conf)
	for i := range base {
		x, y := base[i].Rate(), head[i].Rate()
		lb, ub := WilsonAt(x, float64(base[i].N), z)
		lh, uh := WilsonAt(y, float64(head[i].N), z)
		diff += y - x
		down += (y-lh)*(y-lh) + (ub-x)*(ub-x)
		up += (uh-y)*(uh-y) + (x-lb)*(x-lb)
	}
	n := float64(len(base))
	diff /= n
	return diff, math.Max(diff-math.Sqrt(down)/n, -1), math.Min(diff+math.Sqrt(up)/n, 1)
}

// PairedT is the mean of d with Student's interval, the claim about cases like these. It reports false when there is
// none: one case, or no spread, where a zero-wide interval would be a lie.
func PairedT(d []float64, conf float64) (lo, hi float64, ok bool) {
	s := 0.0
	if len(d) > 1 {
		s = StdDev(d)
	}
	if s <= slack {
		return 0, 0, false
	}
	n := float64(len(d))
	half := tQuantile(conf, n-1) * s / math.Sqrt(n)
	return Mean(d) - half, Mean(d) + half, true
}

// ClusterSE is the standard error of the mean of all trials when trials of one case go together.
func ClusterSE(cases []Tally) float64 {
	var passed, n int
	for _, c := range cases {
		passed += c.Passed
		n += c.N
	}
	rate := float64(passed) / float64(n)
	sum := 0.0
	for _, c := range cases {
		r := float64(c.Passed) - rate*float64(c.N)
		sum += r * r
	}
	g := float64(len(cases))
	return math.Sqrt(sum) / float64(n) * math.Sqrt(g/(g-1))
}

// MedianRanks gives the ranks, from 1, of the order statistics that bound the median of n values, and the confidence
// that they really have. ok is false when n is too small for any such pair.
func MedianRanks(n int, conf float64) (lo, hi int, actual float64, ok bool) {
	// below is P(fewer than r of n values lie under the median).
	below := func(r int) float64 {
		if r < 1 {
			return 0
		}
		return distuv.Binomial{N: float64(n), P: 0.5}.CDF(float64(r - 1))
	}
	for lo+1 <= n/2 && below(lo+1) <= (1-conf)/2 {
		lo++
	}
	return lo, n + 1 - lo, 1 - 2*below(lo), lo > 0
}

// PassAtK is the chance that at least one of k trials passes, from c passed of n. It is an exact rational until the last
// step, and an error when k trials cannot be drawn from n.
func PassAtK(n, c, k int) (float64, error) {
	none, err := choose(n-c, n, k)
	if err != nil {
		return 0, err
	}
	v, _ := none.Sub(big.NewRat(1, 1), none).Float64()
	return v, nil
}

// PassHatK is the chance that all of k trials pass, from c passed of n.
func PassHatK(n, c, k int) (float64, error) {
	all, err := choose(c, n, k)
	if err != nil {
		return 0, err
	}
	v, _ := all.Float64()
	return v, nil
}

// PassAt is the mean over cases of PassAtK and of PassHatK: what k trials of a case like these would show. It is an error when
// a case has fewer than k trials.
func PassAt(cases []Tally, k int) (anyOf, all float64, err error) {
	type chances struct{ anyOf, all float64 }
	known := make(map[Tally]chances) // large suites have few different tallies
	for _, c := range cases {
		of, ok := known[c]
		if !ok {
			if of.anyOf, err = PassAtK(c.N, c.Passed, k); err != nil {
				return 0, 0, err
			}
			if of.all, err = PassHatK(c.N, c.Passed, k); err != nil {
				return 0, 0, err
			}
			known[c] = of
		}
		anyOf, all = anyOf+of.anyOf, all+of.all
	}
	n := float64(len(cases))
	return anyOf / n, all / n, nil
}

// choose is C(part, k) / C(n, k): the chance that k trials drawn from n all come from a part of them.
func choose(part, n, k int) (*big.Rat, error) {
	if k < 1 || k > n || part < 0 || part > n {
		return nil, fmt.Errorf("%d trials drawn from %d, %d of a kind: not possible", k, n, part)
	}
	var up, down big.Int
	up.Binomial(int64(part), int64(k))
	down.Binomial(int64(n), int64(k))
	return new(big.Rat).SetFrac(&up, &down), nil
}

// RuleOfThree is the failure rate that n passes in a row still allow, at 95 % one-sided.
func RuleOfThree(n int) float64 { return 1 - math.Pow(0.05, 1/float64(n)) }

// Mean of at least one value.
func Mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// StdDev is the sample standard deviation of at least two values.
func StdDev(v []float64) float64 {
	m, sum := Mean(v), 0.0
	for _, x := range v {
		sum += (x - m) * (x - m)
	}
	return math.Sqrt(sum / float64(len(v)-1))
}

// Median of sorted values.
func Median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
