package stats

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// ClopperPearson is the interval of k passed of n trials that covers the true rate at least as often as it says, whatever
// that rate is. It is wider than Wilson's: the one to print where a guarantee is claimed.
func ClopperPearson(k, n int, conf float64) (lo, hi float64, err error) {
	return betaInterval(k, n, conf, 0, 1)
}

// Jeffreys is the central interval of what the rate may be after k passed of n trials, when nothing was known before that
// any scale of measurement would change. An end that was seen belongs to it.
func Jeffreys(k, n int, conf float64) (lo, hi float64, err error) {
	return betaInterval(k, n, conf, 0.5, 0.5)
}

// betaInterval takes its ends from Beta(k+low, n−k+1−low) and Beta(k+high, n−k+1−high).
func betaInterval(k, n int, conf, low, high float64) (lo, hi float64, err error) {
	if err := proportion(k, n); err != nil {
		return 0, 0, err
	}
	passed, failed, tail := float64(k), float64(n-k), (1-conf)/2
	lo, hi = 0, 1
	if k > 0 {
		lo = mathext.InvRegIncBeta(passed+low, failed+1-low, tail)
	}
	if k < n {
		hi = mathext.InvRegIncBeta(passed+high, failed+1-high, 1-tail)
	}
	return lo, hi, nil
}

// UniformBeta is the mean and the central interval of what the rate may be after k passed of n trials, when every rate was
// as likely as any other before.
func UniformBeta(k, n int, conf float64) (mean, lo, hi float64, err error) {
	if err := proportion(k, n); err != nil {
		return 0, 0, 0, err
	}
	a, b, tail := float64(k+1), float64(n-k+1), (1-conf)/2
	return a / (a + b), mathext.InvRegIncBeta(a, b, tail), mathext.InvRegIncBeta(a, b, 1-tail), nil
}

// BetaGreater is the chance that the rate of head is above that of base, when every pair of rates was as likely as any
// other before. It is no test: nothing bounds how often it is near 1 when nothing changed.
func BetaGreater(base, head Tally) float64 {
	// The sum over the head's passes of the chance to see them, in closed form: (Miller 2015).
	a, b := float64(base.Passed+1), float64(base.N-base.Passed+1)
	c, d := float64(head.Passed+1), float64(head.N-head.Passed+1)
	sum := 0.0
	for i := 0.0; i < c; i++ {
		sum += math.Exp(mathext.Lbeta(a+i, b+d) - math.Log(d+i) - mathext.Lbeta(1+i, d) - mathext.Lbeta(a, b))
	}
	return sum
}

// proportion refuses what cannot be passes of trials.
func proportion(k, n int) error {
	if n < 1 || k < 0 || k > n {
		return fmt.Errorf("interval of %d passed of %d trials: not a proportion", k, n)
	}
	return nil
}

// MajorityVote is how often most of m independent judges are right, m odd, when each is right with the chance p. Judges of
// one model err together, so it is an upper bound.
func MajorityVote(p float64, m int) float64 {
	return 1 - distuv.Binomial{N: float64(m), P: p}.CDF(float64(m/2))
}

// A Flake is how much the trials of one case disagree.
type Flake struct {
	Within   float64 // unbiased variance of one trial; 0 to ½
	Disagree float64 // chance that two trials differ, unbiased; 0 to 1
}

// FlakeOf needs at least two trials, since one disagrees with nothing.
func FlakeOf(t Tally) (Flake, error) {
	if t.N < 2 {
		return Flake{}, fmt.Errorf("%d trials cannot disagree; 2 are the least", t.N)
	}
	within := float64(t.Passed*(t.N-t.Passed)) / float64(t.N*(t.N-1))
	return Flake{within, 2 * within}, nil
}
