package stats

import (
	"math"
	"slices"
)

// maxSupport bounds the number of values a test statistic may take; beyond it a coarser statistic is used.
const maxSupport = 2_000_000

// An Exact is the law of a test statistic, seen from where the observation lies.
type Exact struct {
	Less, Greater float64 // P(T <= t) and P(T >= t)
	Counted       bool    // the statistic is the number of passes, since the exact differences had too many values
}

// TwoSided doubles the smaller tail.
func (e Exact) TwoSided() float64 { return math.Min(1, 2*math.Min(e.Less, e.Greater)) }

// StratifiedExact asks whether no case changed: given each case's total of passes, the passes of the head are
// hypergeometric, and T is the sum of the case differences. T is held in whole numbers, so ties are ties.
func StratifiedExact(base, head []Tally) Exact {
	steps, counted := wholeSteps(base, head)
	sums, at := law{chances: []float64{1}}, 0
	for i := range base {
		x, y := base[i], head[i]
		sum := x.Passed + y.Passed
		first, last := max(0, sum-x.N), min(y.N, sum)
		if first == last {
			continue // all or nothing passed: this case can say nothing
		}
		sums.add(hypergeometric(x.N, y.N, sum, first, last), steps[i])
		at += (y.Passed - first) * steps[i]
	}
	e := sums.tails(at)
	e.Counted = counted
	return e
}

// wholeSteps says how far T moves with one more pass in each case, in the largest unit in which all moves are whole.
// When that has too many values every pass counts the same, and counted is true.
func wholeSteps(base, head []Tally) (steps []int, counted bool) {
	common := 1
	for i := range base {
		for _, n := range []int{base[i].N, head[i].N} {
			common = common / gcd(common, n) * n
			if common > 1<<31 { // far beyond maxSupport, and safely below an overflow
				return ones(len(base)), true
			}
		}
	}
	steps, unit, support := make([]int, len(base)), 0, 0
	for i := range base {
		steps[i] = common/base[i].N + common/head[i].N
		unit = gcd(unit, steps[i])
	}
	for i := range steps {
		steps[i] /= unit
		support += steps[i] * min(base[i].N, head[i].N)
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

// A law holds the chances of a sum of independent whole numbers. Of thousands of them nearly all values are too unlikely to
// matter, and would take nearly all of the time, so those at the ends are cut off. Their chances count for both tails: no p is
// smaller than it would be with them.
type law struct {
	chances []float64 // of the values from the first one that is kept
	first   int
	cut     float64 // chance of all that was cut off
}

const (
	cutFrom    = 1 << 13 // values; a law of fewer is kept whole, to the last bit
	negligible = 1e-30   // a chance that may be cut off: of 1<<17 values in 10,000 steps these are less than 1e-20
)

// add adds an independent variable with the given chances, whose values lie step apart.
func (l *law) add(chances []float64, step int) {
	l.chances = convolve(l.chances, chances, step)
	for last := len(l.chances) - 1; last >= cutFrom && l.chances[last] < negligible; last-- {
		l.cut += l.chances[last]
		l.chances = l.chances[:last]
	}
	for len(l.chances) > cutFrom && l.chances[0] < negligible {
		l.cut += l.chances[0]
		l.chances, l.first = l.chances[1:], l.first+1
	}
}

// tails sums the chances on both sides of a value, that value included in both.
func (l *law) tails(at int) Exact {
	e := Exact{Less: l.cut, Greater: l.cut}
	for i, p := range l.chances {
		if l.first+i <= at {
			e.Less += p
		}
		if l.first+i >= at {
			e.Greater += p
		}
	}
	e.Less, e.Greater = math.Min(e.Less, 1), math.Min(e.Greater, 1)
	return e
}

// SignFlip asks whether cases like these go one way: under "no direction" every difference may as well have had
// the other sign. It reports false when the differences have too many values to enumerate.
func SignFlip(base, head []Tally) (e Exact, ok bool) {
	common := 1
	for i := range base {
		for _, n := range []int{base[i].N, head[i].N} {
			common = common / gcd(common, n) * n
			if common > maxSupport {
				return Exact{}, false
			}
		}
	}
	d := make([]int, len(base))
	for i := range d {
		d[i] = head[i].Passed*(common/head[i].N) - base[i].Passed*(common/base[i].N)
	}
	return SignFlipOf(d)
}

// SignFlipOf is SignFlip for differences that are whole already.
func SignFlipOf(d []int) (e Exact, ok bool) {
	unit, span, sum := 0, 0, 0
	for _, x := range d {
		unit = gcd(unit, abs(x))
		span += abs(x)
		sum += x
	}
	if unit == 0 {
		return Exact{Less: 1, Greater: 1}, true
	}
	if span/unit > maxSupport {
		return Exact{}, false
	}
	// Flipping a sign moves the sum by twice the difference, so the sum over all positive signs is counted.
	sums, coin := law{chances: []float64{1}}, []float64{0.5, 0.5}
	for _, x := range d {
		if x != 0 {
			sums.add(coin, abs(x)/unit)
		}
	}
	return sums.tails((span + sum) / 2 / unit), true
}

func abs(x int) int { return max(x, -x) }

// LeastP is the smallest p that StratifiedExact could give for these numbers of trials, whatever the outcome.
func LeastP(base, head []Tally) float64 {
	log := 0.0
	for i := range base {
		log -= logChoose(base[i].N+head[i].N, head[i].N)
	}
	return math.Exp(log)
}
