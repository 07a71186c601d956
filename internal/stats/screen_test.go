package stats

import (
	"math"
	"testing"
)

// By hand: 3 of 3 to 0 of 3 has p 1/20; 5 of 5 to 0 of 5 has 1/252, and to 1 of 5 has 6/252.
func TestScreenByItself(t *testing.T) {
	for _, c := range []struct {
		s        Screen
		from, to float64
		want     float64
	}{
		{Screen{Cases: 1, Trials: 3, Level: 0.025}, 1, 0, 0},
		{Screen{Cases: 1, Trials: 3, Level: 0.05}, 1, 0, 1},
		{Screen{Cases: 1, Trials: 5, Level: 0.025}, 1, 0, 1},
		{Screen{Cases: 1, Trials: 5, Level: 0.025}, 1, 0.5, 6.0 / 32},
		{Screen{Cases: 6, Trials: 5, Level: 0.025}, 1, 0.5, 1.0 / 32},
		{Screen{Cases: 7, Trials: 5, Level: 0.025}, 1, 0.5, 0},
	} {
		if got := c.s.ByItself(c.from, c.to); !(math.Abs(got-c.want) <= 1e-12) {
			t.Errorf("%+v: %v, want %v", c.s, got, c.want)
		}
	}
}

func TestScreenByFresh(t *testing.T) {
	alone := Screen{Cases: 1, Trials: 3, Fall: 0.5, Again: 3, Fresh: 8, Level: 0.025}
	// Half of all screens fall by two passes or more; of 8 fresh trials at most 3 may pass: 93 of 256.
	if got, want := alone.ByFresh(1, 0.5), 0.5*93/256; !(math.Abs(got-want) <= 1e-12) {
		t.Errorf("one case: %v, want %v", got, want)
	}
	many := alone
	many.Cases = 50
	if got := many.ByFresh(0.95, 0.02); got < 0.93 || got >= alone.ByFresh(0.95, 0.02) {
		t.Errorf("one of fifty: %v; others take its place and share its level", got)
	}
	if got := (Screen{Cases: 20, Trials: 3, Fall: 0.5, Level: 0.025}).ByFresh(1, 0); got != 0 {
		t.Errorf("nothing is run again, yet %v", got)
	}
	if got := many.Suspects(); got <= 0 || got >= 3 {
		t.Errorf("%v of at most 3 are run again", got)
	}
}

// The sd is that of the floor: its mean over all outcomes of an unchanged case.
func TestScreenMeanSD(t *testing.T) {
	for _, k := range []int{1, 3, 5, 20} {
		s, mean := Screen{Trials: k}, 0.0
		for x := range k + 1 {
			for y := range k + 1 {
				floor, _ := SuiteSD([]Tally{{x, k}}, []Tally{{y, k}})
				mean += floor * floor * Screen{Trials: k}.exactly(x, y)
			}
		}
		if got := s.MeanSD(); !(math.Abs(got-math.Sqrt(mean)) <= 1e-12) {
			t.Errorf("%d trials: %v, want %v", k, got, math.Sqrt(mean))
		}
	}
}

// exactly is the chance of one outcome of an unchanged case, by the integral over its difficulty q = sin².
func (s Screen) exactly(x, y int) float64 {
	const steps = 2000
	sum := 0.0
	for i := range steps {
		sin, cos := math.Sincos((float64(i) + 0.5) / steps * math.Pi / 2)
		sum += math.Pow(sin, float64(2*(x+y))) * math.Pow(cos, float64(2*(2*s.Trials-x-y))) / steps
	}
	return sum * math.Exp(logChoose(s.Trials, x)+logChoose(s.Trials, y))
}
