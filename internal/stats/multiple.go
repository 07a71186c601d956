package stats

import (
	"cmp"
	"math"
	"slices"
)

// Holm adjusts p-values so that the chance of any false alarm among them stays below the level they are held to. The
// result is in the order of p. (Holm 1979.)
func Holm(p []float64) []float64 {
	adjusted, running := make([]float64, len(p)), 0.0
	for rank, i := range ascending(p) {
		running = math.Max(running, math.Min(1, float64(len(p)-rank)*p[i]))
		adjusted[i] = running
	}
	return adjusted
}

// BH adjusts p-values so that the expected share of false alarms among those at or below a level stays below it: a looser
// promise than Holm's, fit to order a list of what to look at. The result is in the order of p. (Benjamini and Hochberg 1995.)
func BH(p []float64) []float64 { return stepUp(p, 1) }

// BY is BH for p-values that may hang together in any way. (Benjamini and Yekutieli 2001.)
func BY(p []float64) []float64 {
	harmonic := 0.0
	for i := range p {
		harmonic += 1 / float64(i+1)
	}
	return stepUp(p, harmonic)
}

func stepUp(p []float64, factor float64) []float64 {
	adjusted, running := make([]float64, len(p)), 1.0
	order := ascending(p)
	for rank := len(p); rank > 0; rank-- {
		i := order[rank-1]
		running = math.Min(running, p[i]*factor*float64(len(p))/float64(rank))
		adjusted[i] = running
	}
	return adjusted
}

// ascending are the places of p from the smallest value to the largest, ties in their order.
func ascending(p []float64) []int {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	return order
}
