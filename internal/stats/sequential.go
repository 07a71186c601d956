package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// EProcess is the evidence against a fair coin after each of the given tosses, by betting on every bias alike. Stopping at any
// time is allowed: under a fair coin it ever reaches 1/α with a chance of at most α. (Ville 1939.)
func EProcess(tosses []bool) []float64 { return wealth(tosses, 0, 1) }

// EProcessUp bets on heads being more likely alone, so it finds that sooner and never finds the contrary.
func EProcessUp(tosses []bool) []float64 { return wealth(tosses, 0.5, 1) }

// wealth is the likelihood ratio of a uniform mixture of biases between two, against a fair coin.
func wealth(tosses []bool, from, to float64) []float64 {
	out, heads := make([]float64, len(tosses)), 0
	for i, head := range tosses {
		if head {
			heads++
		}
		a, b := float64(heads+1), float64(i+1-heads+1)
		mass := mathext.RegIncBeta(a, b, to) - mathext.RegIncBeta(a, b, from)
		out[i] = math.Exp(mathext.Lbeta(a, b)+float64(i+1)*math.Ln2) * mass / (to - from)
	}
	return out
}

// AnytimeP is a p-value that may be read after any toss: one over the most that the evidence ever was, at most 1.
func AnytimeP(evidence []float64) float64 {
	most := 1.0
	for _, e := range evidence {
		most = math.Max(most, e)
	}
	return 1 / most
}

// An SPRT decides between two pass rates with as few trials as it can. (Wald 1945.)
type SPRT struct {
	P0, P1      float64 // the rates
	Alpha, Beta float64 // how often it may wrongly say P1, and P0
}

// Bounds are the ends of the log likelihood ratio: at or below lower it says P0, at or above upper P1.
func (s SPRT) Bounds() (lower, upper float64) {
	return math.Log(s.Beta / (1 - s.Alpha)), math.Log((1 - s.Beta) / s.Alpha)
}

// Decide follows trials until a bound is reached. ratio holds the log likelihood ratio after each trial that it looked at;
// rate is 0 or 1 for P0 or P1, and -1 when the trials do not suffice.
func (s SPRT) Decide(passed []bool) (ratio []float64, rate int) {
	lower, upper := s.Bounds()
	sum := 0.0
	for _, ok := range passed {
		if ok {
			sum += math.Log(s.P1 / s.P0)
		} else {
			sum += math.Log((1 - s.P1) / (1 - s.P0))
		}
		ratio = append(ratio, sum)
		switch {
		case sum >= upper:
			return ratio, 1
		case sum <= lower:
			return ratio, 0
		}
	}
	return ratio, -1
}
