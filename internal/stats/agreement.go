package stats

import (
	"errors"
	"math"
)

// A Confusion counts how a judge's words stand to the truth, or one judge's to another's.
type Confusion struct {
	BothYes, OnlyFirst, OnlySecond, BothNo int
}

func (c Confusion) total() float64 { return float64(c.BothYes + c.OnlyFirst + c.OnlySecond + c.BothNo) }

// Agreement is the share of items on which both say the same; not a number without items.
func (c Confusion) Agreement() float64 { return float64(c.BothYes+c.BothNo) / c.total() }

// Kappa is the agreement beyond chance, 1 at best, by Cohen's chance: each says yes as often as it does. It collapses when
// one answer is rare, so AC1 stands beside it.
func (c Confusion) Kappa() float64 {
	first, second := float64(c.BothYes+c.OnlyFirst)/c.total(), float64(c.BothYes+c.OnlySecond)/c.total()
	return beyond(c.Agreement(), first*second+(1-first)*(1-second))
}

// AC1 is the agreement beyond chance by Gwet's chance, which does not grow when one answer is rare. (Gwet 2008.)
func (c Confusion) AC1() float64 {
	yes := (float64(2*c.BothYes+c.OnlyFirst) + float64(c.OnlySecond)) / (2 * c.total())
	return beyond(c.Agreement(), 2*yes*(1-yes))
}

// FleissKappa is the agreement beyond chance of votes on items: votes[i][k] of the equally many votes on item i chose answer k.
func FleissKappa(votes [][]int) float64 {
	each := 0
	for _, n := range votes[0] {
		each += n
	}
	share, observed := make([]float64, len(votes[0])), 0.0
	for _, item := range votes {
		pairs := 0
		for k, n := range item {
			share[k] += float64(n) / float64(each*len(votes))
			pairs += n * (n - 1)
		}
		observed += float64(pairs) / float64(each*(each-1)*len(votes))
	}
	chance := 0.0
	for _, p := range share {
		chance += p * p
	}
	return beyond(observed, chance)
}

// beyond is how much of the room above chance was used; 1 when there was no room and none was lost.
func beyond(observed, chance float64) float64 {
	if chance == 1 {
		return 1
	}
	return (observed - chance) / (1 - chance)
}

// Corrected is the true rate behind an observed one, when a judge calls so much of what holds (sensitivity) and of what
// does not (specificity) by its name. A judge no better than chance is an error. (Rogan and Gladen 1978.)
func Corrected(observed, sensitivity, specificity float64) (float64, error) {
	if !(sensitivity+specificity > 1) {
		return 0, errors.New("sensitivity and specificity sum to no more than 1: such a judge says nothing")
	}
	return math.Max(0, math.Min(1, (observed+specificity-1)/(sensitivity+specificity-1))), nil
}
