package stats

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"
)

// WantedPower is that of every minimal detectable effect.
const WantedPower = 0.8

// A tTest is a two-sided paired t test over some number of cases. gonum has no noncentral t; the power is an integral
// over the law of the sample's standard deviation, laid out here once and used for every effect.
type tTest struct {
	cases    float64
	critical float64
	at       []float64 // sample standard deviations, in units of the true one
	weight   []float64
}

// newTTest is the test over n cases, at least 2.
func newTTest(n int, alpha float64) tTest {
	const points = 400
	df := float64(n - 1)
	t := tTest{float64(n), tQuantile(1-alpha, df), make([]float64, points), make([]float64, points)}
	chi, width := distuv.ChiSquared{K: df}, 12/math.Sqrt(df)
	quad.Legendre{}.FixedLocations(t.at, t.weight, math.Max(0, 1-width), 1+width)
	for i, s := range t.at {
		t.weight[i] *= 2 * s * df * chi.Prob(s*s*df)
	}
	return t
}

// power is the chance to find a mean difference of so many standard deviations.
func (t tTest) power(effect float64) float64 {
	nc, sum := effect*math.Sqrt(t.cases), 0.0
	for i, s := range t.at {
		sum += t.weight[i] * (distuv.UnitNormal.CDF(nc-t.critical*s) + distuv.UnitNormal.CDF(-nc-t.critical*s))
	}
	return sum
}

// MDE is the smallest mean difference that a paired t test over n cases would find with the given power, when the case
// differences have the standard deviation sd. n is at least 2.
func MDE(n int, sd, alpha, power float64) float64 {
	plan := tPlan{n, alpha, power}
	effect, known := leastEffects.Load(plan)
	if !known {
		effect, _ = leastEffects.LoadOrStore(plan, plan.leastEffect())
	}
	return effect.(float64) * sd
}

// A tPlan is what the least effect of a t test follows from, in standard deviations of the case differences.
type tPlan struct {
	cases        int
	alpha, power float64
}

// leastEffects keeps the least effect of each plan: the comparisons of a run share a few plans, and each takes milliseconds.
var leastEffects sync.Map

func (p tPlan) leastEffect() float64 {
	t := newTTest(p.cases, p.alpha)
	lo, hi := 0.0, 1.0
	for t.power(hi) < p.power {
		lo, hi = hi, 2*hi
	}
	for range 60 {
		if mid := (lo + hi) / 2; t.power(mid) < p.power {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// SuiteSD is the standard deviation to plan with: that of the case differences, but never below what so many trials
// must scatter by chance. Without the floor five identical cases would claim to see any effect.
func SuiteSD(base, head []Tally) (floor, used float64) {
	d := make([]float64, len(base))
	for i := range base {
		x, y := base[i], head[i]
		d[i] = y.Rate() - x.Rate()
		q := (float64(x.Passed+y.Passed) + 0.5) / float64(x.N+y.N+1)
		floor += q * (1 - q) * (1/float64(x.N) + 1/float64(y.N))
	}
	floor = math.Sqrt(floor / float64(len(base)))
	used = floor
	if len(d) > 1 {
		used = math.Max(floor, StdDev(d))
	}
	return floor, used
}

// The largest plans that are given as advice.
const (
	mostCases  = 10_000
	mostTrials = 200
)

// CasesFor is the number of cases at which an effect would be found; false when no plan does.
func CasesFor(sd, alpha, effect float64) (int, bool) {
	return firstWhere(2, mostCases, func(n int) bool { return newTTest(n, alpha).power(effect/sd) >= WantedPower })
}

// TrialsFor is the number of trials a side at which it would be, for the same n cases, when the scatter by chance
// shrinks with the trials and the rest of sd stays. trials is the number a side now.
func TrialsFor(n int, floor, sd, trials, alpha, effect float64) (int, bool) {
	stays, t := math.Max(0, sd*sd-floor*floor), newTTest(n, alpha)
	return firstWhere(1, mostTrials, func(k int) bool {
		return t.power(effect/math.Sqrt(stays+floor*floor*trials/float64(k))) >= WantedPower
	})
}

// TrialsToTell is the number of trials a side at which some outcome of so many cases would have a p of at most level; false
// when no plan does.
func TrialsToTell(cases int, level float64) (int, bool) {
	return firstWhere(1, mostTrials, func(k int) bool { return -float64(cases)*logChoose(2*k, k) <= math.Log(level) })
}

// firstWhere is the first whole number from lo to hi that satisfies a condition which stays true once it is.
func firstWhere(lo, hi int, holds func(int) bool) (int, bool) {
	if !holds(hi) {
		return 0, false
	}
	for lo < hi {
		if mid := (lo + hi) / 2; holds(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return hi, true
}
