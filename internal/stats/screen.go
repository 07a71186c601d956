package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// A Screen is a suite before it is run: what it will find, and what that takes, follow from its size when its cases are of
// every difficulty, Beta(½,½), and its trials are independent. Of a case that changes all others are taken not to.
type Screen struct {
	Cases  int
	Trials int     // a side of each case
	Fall   float64 // of its rate by which a case is run again
	Again  int     // cases that are run again at most; 0: none
	Fresh  int     // trials a side of each of these
	Level  float64 // that the adjusted p of one case is held to
}

// MeanSD is the standard deviation that SuiteSD would find when nothing changed.
func (s Screen) MeanSD() float64 {
	k := float64(s.Trials)
	return math.Sqrt((2*k + 2) / (2*k + 1) / (4 * k))
}

// ByItself is the chance that the trials of the screen alone convict a case whose rate goes from one value to another, its p
// adjusted for the number of cases.
func (s Screen) ByItself(from, to float64) float64 {
	return convicts(s.Trials, from, to, s.Level/float64(s.Cases))
}

// ByFresh is the chance that such a case is among those that are run again and that its fresh trials convict it.
func (s Screen) ByFresh(from, to float64) float64 {
	convicted := make([]float64, s.Again+1) // by how many cases share the level
	for family := 1; family <= s.Again; family++ {
		convicted[family] = convicts(s.Fresh, from, to, s.Level/float64(family))
	}
	base, head := binomial(s.Trials, from), binomial(s.Trials, to)
	chance := 0.0
	for x := range s.Trials + 1 {
		for y := range s.Trials + 1 {
			if s.falls(x - y) {
				chance += base(x) * head(y) * s.chosen(x-y, convicted)
			}
		}
	}
	return chance
}

// chosen is the mean of convicted over how many others are run again too, where a case that fell by so many passes is.
func (s Screen) chosen(fell int, convicted []float64) float64 {
	suspect, further, alike := s.chance(s.falls), s.chance(func(d int) bool { return d > fell }), s.chance(func(d int) bool { return d == fell })
	ahead := further + alike/2 // of equal falls one is as often before as behind
	others, sum := s.Cases-1, 0.0
	for a := 0; a < s.Again && a <= others; a++ {
		before := binomial(others, ahead)(a)
		behind := binomial(others-a, math.Max(0, (suspect-ahead)/(1-ahead)))
		rest := 1.0
		for b := 0; a+b+1 < s.Again && a+b <= others; b++ {
			p := behind(b)
			sum += before * p * convicted[a+b+1]
			rest -= p
		}
		sum += before * math.Max(0, rest) * convicted[s.Again]
	}
	return sum
}

// Suspects is the mean number of cases that are run again when nothing changed.
func (s Screen) Suspects() float64 {
	law, fewer, mean := binomial(s.Cases, s.chance(s.falls)), 0.0, 0.0
	for most := range min(s.Again, s.Cases) {
		fewer += law(most)
		mean += 1 - fewer
	}
	return mean
}

// falls tells whether a case that fell by so many passes is one to run again.
func (s Screen) falls(passes int) bool { return float64(passes) >= (s.Fall-slack)*float64(s.Trials) }

// chance is that of an unchanged case whose fall, in passes, satisfies a condition.
func (s Screen) chance(holds func(fell int) bool) float64 {
	sum, k := 0.0, s.Trials
	for x := range k + 1 {
		for y := range k + 1 {
			if holds(x - y) {
				passed := float64(x+y) + 0.5
				sum += math.Exp(logChoose(k, x) + logChoose(k, y) + mathext.Lbeta(passed, float64(2*k)+1-passed) - mathext.Lbeta(0.5, 0.5))
			}
		}
	}
	return sum
}

// convicts is the chance that the exact test of one case has a p of at most level, one-sided.
func convicts(trials int, from, to, level float64) float64 {
	base, head := binomial(trials, from), binomial(trials, to)
	sum := 0.0
	for x := range trials + 1 {
		for y := range x {
			if StratifiedExact([]Tally{{x, trials}}, []Tally{{y, trials}}).Less <= level+slack {
				sum += base(x) * head(y)
			}
		}
	}
	return sum
}

// binomial is the chance of k passes of n, each with the chance p, for the chances that a library cannot take too: 0 and 1.
func binomial(n int, p float64) func(k int) float64 {
	return func(k int) float64 {
		return math.Exp(logChoose(n, k) + times(k, math.Log(p)) + times(n-k, math.Log1p(-p)))
	}
}

// times is n·x, and 0 for n = 0 whatever x is.
func times(n int, x float64) float64 {
	if n == 0 {
		return 0
	}
	return float64(n) * x
}
