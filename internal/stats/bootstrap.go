package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// A Bootstrap is what resampling says of a statistic.
type Bootstrap struct {
	Lo, Hi       float64
	Z0           float64 // how far the statistic lies from the middle of its resamples
	Acceleration float64 // how its scatter changes with it
	Percentile   bool    // plain percentiles, since every case left out gives the same value
}

// BCa is the interval of a statistic of n cases, corrected for bias and skew. of gives the statistic of a list of case
// numbers, which may repeat; draws is how many resamples are made. Equal seeds give equal bits. (Efron 1987.)
func BCa(n, draws int, conf float64, seed [2]uint64, of func(cases []int, r *rand.Rand) float64) Bootstrap {
	r := rand.New(rand.NewPCG(seed[0], seed[1]))
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	observed, drawn, cases := of(all, nil), make([]float64, draws), make([]int, n)
	below := 0.0
	for b := range drawn {
		for i := range cases {
			cases[i] = r.IntN(n)
		}
		drawn[b] = of(cases, r)
		switch {
		case drawn[b] < observed:
			below++
		case drawn[b] == observed:
			below += 0.5
		}
	}
	slices.Sort(drawn)
	left := make([]float64, n)
	for i := range left {
		left[i] = of(slices.Delete(slices.Clone(all), i, i+1), nil)
	}
	out := Bootstrap{Percentile: true}
	if a, ok := Acceleration(left); ok && below > 0 && below < float64(draws) {
		out = Bootstrap{Z0: distuv.UnitNormal.Quantile(below / float64(draws)), Acceleration: a}
	}
	lo, hi := BCaLevels(out.Z0, out.Acceleration, conf)
	out.Lo, out.Hi = quantile(drawn, lo), quantile(drawn, hi)
	return out
}

// Acceleration is a sixth of the skewness of what leaving out each case leaves, signed so that a long upper tail of the
// cases is positive; false when all are equal.
func Acceleration(left []float64) (float64, bool) {
	m, squares, cubes := Mean(left), 0.0, 0.0
	for _, x := range left {
		d := m - x
		squares += d * d
		cubes += d * d * d
	}
	if squares <= slack*slack {
		return 0, false
	}
	return cubes / (6 * math.Pow(squares, 1.5)), true
}

// BCaLevels are the levels of the resamples at which the interval ends.
func BCaLevels(z0, acceleration, conf float64) (lo, hi float64) {
	level := func(z float64) float64 {
		return distuv.UnitNormal.CDF(z0 + (z0+z)/(1-acceleration*(z0+z)))
	}
	z := zQuantile(conf)
	return level(-z), level(z)
}

// quantile is the smallest of the sorted values that at least a share q lies at or below.
func quantile(sorted []float64, q float64) float64 {
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[max(0, min(i, len(sorted)-1))]
}
