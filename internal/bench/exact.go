package bench

import (
	"cmp"
	"math"
	"slices"
)

// maxSupport bounds the number of values a test statistic may take; beyond it a coarser statistic is used.
const maxSupport = 2_000_000

// An exact is the law of a test statistic, seen from where the observation lies.
type exact struct {
	less, greater float64 // P(T <= t) and P(T >= t)
	counted       bool    // the statistic is the number of passes, since the exact differences had too many values
}

// twoSided doubles the smaller tail.
func (e exact) twoSided() float64 { return math.Min(1, 2*math.Min(e.less, e.greater)) }

// stratifiedExact asks whether no case changed: given each case's total of passes, the passes of the head are
// hypergeometric, and T is the sum of the case differences. T is held in whole numbers, so ties are ties.
func stratifiedExact(base, head []tally) exact {
	steps, counted := wholeSteps(base, head)
	law, at := []float64{1}, 0
	for i := range base {
		x, y := base[i], head[i]
		sum := x.passed + y.passed
		first, last := max(0, sum-x.n), min(y.n, sum)
		if first == last {
			continue // all or nothing passed: this case can say nothing
		}
		law = convolve(law, hypergeometric(x.n, y.n, sum, first, last), steps[i])
		at += (y.passed - first) * steps[i]
	}
	e := tails(law, at)
	e.counted = counted
	return e
}

// wholeSteps says how far T moves with one more pass in each case, in the largest unit in which all moves are whole.
// When that has too many values every pass counts the same, and counted is true.
func wholeSteps(base, head []tally) (steps []int, counted bool) {
	common := 1
	for i := range base {
		for _, n := range []int{base[i].n, head[i].n} {
			common = common / gcd(common, n) * n
			if common > 1<<31 { // far beyond maxSupport, and safely below an overflow
				return ones(len(base)), true
			}
		}
	}
	steps, unit, support := make([]int, len(base)), 0, 0
	for i := range base {
		steps[i] = common/base[i].n + common/head[i].n
		unit = gcd(unit, steps[i])
	}
	for i := range steps {
		steps[i] /= unit
		support += steps[i] * min(base[i].n, head[i].n)
	}
	if support > maxSupport {
		return ones(len(base)), true
	}
	return steps, false
}

func ones(n int) []int { return slices.Repeat([]int{1}, n) }

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// hypergeometric is the law of the head's passes from first to last, when sum passes fall on nBase + nHead trials.
func hypergeometric(nBase, nHead, sum, first, last int) []float64 {
	law, total := make([]float64, last-first+1), 0.0
	peak := math.Inf(-1)
	for i := range law {
		y := first + i
		law[i] = logChoose(nHead, y) + logChoose(nBase, sum-y)
		peak = math.Max(peak, law[i])
	}
	for i := range law {
		law[i] = math.Exp(law[i] - peak)
		total += law[i]
	}
	for i := range law {
		law[i] /= total
	}
	return law
}

func logChoose(n, k int) float64 {
	logFactorial := func(n int) float64 {
		v, _ := math.Lgamma(float64(n) + 1)
		return v
	}
	return logFactorial(n) - logFactorial(k) - logFactorial(n-k)
}

// convolve adds an independent variable with the given law, whose values lie step apart.
func convolve(law, add []float64, step int) []float64 {
	out := make([]float64, len(law)+(len(add)-1)*step)
	for j, q := range add {
		shifted := out[j*step:]
		for i, p := range law {
			shifted[i] += p * q
		}
	}
	return out
}

// tails sums a law on both sides of one of its values, that value included in both.
func tails(law []float64, at int) exact {
	var e exact
	for i, p := range law {
		if i <= at {
			e.less += p
		}
		if i >= at {
			e.greater += p
		}
	}
	e.less, e.greater = math.Min(e.less, 1), math.Min(e.greater, 1)
	return e
}

// signflipExact asks whether cases like these go one way: under "no direction" every difference may as well have had
// the other sign. It reports false when the differences have too many values to enumerate.
func signflipExact(base, head []tally) (e exact, ok bool) {
	common := 1
	for i := range base {
		for _, n := range []int{base[i].n, head[i].n} {
			common = common / gcd(common, n) * n
			if common > maxSupport {
				return exact{}, false
			}
		}
	}
	d := make([]int, len(base))
	for i := range d {
		d[i] = head[i].passed*(common/head[i].n) - base[i].passed*(common/base[i].n)
	}
	return signflip(d)
}

// signflip is signflipExact for differences that are whole already.
func signflip(d []int) (e exact, ok bool) {
	unit, span, sum := 0, 0, 0
	for _, x := range d {
		unit = gcd(unit, abs(x))
		span += abs(x)
		sum += x
	}
	if unit == 0 {
		return exact{less: 1, greater: 1}, true
	}
	if span/unit > maxSupport {
		return exact{}, false
	}
	// Flipping a sign moves the sum by twice the difference, so the sum over all positive signs is counted.
	law, coin := []float64{1}, []float64{0.5, 0.5}
	for _, x := range d {
		if x != 0 {
			law = convolve(law, coin, abs(x)/unit)
		}
	}
	return tails(law, (span+sum)/2/unit), true
}

func abs(x int) int { return max(x, -x) }

// holm adjusts p-values so that the chance of any false alarm among them stays below the level they are held to. The
// result is in the order of p.
func holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	adjusted, running := make([]float64, len(p)), 0.0
	for rank, i := range order {
		running = math.Max(running, math.Min(1, float64(len(p)-rank)*p[i]))
		adjusted[i] = running
	}
	return adjusted
}

// leastP is the smallest p that stratifiedExact could give for these numbers of trials, whatever the outcome.
func leastP(base, head []tally) float64 {
	log := 0.0
	for i := range base {
		log -= logChoose(base[i].n+head[i].n, head[i].n)
	}
	return math.Exp(log)
}
