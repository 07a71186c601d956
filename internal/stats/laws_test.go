package stats

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Uneven trials make so many values that every pass counts alike; the test stays exact.
func TestStratifiedExactCountsPasses(t *testing.T) {
	base := []Tally{{16, 17}, {12, 18}, {3, 19}, {20, 20}, {1, 23}}
	head := []Tally{{11, 23}, {15, 19}, {2, 18}, {11, 17}, {0, 29}}
	e := StratifiedExact(base, head)
	if !e.Counted {
		t.Fatal("the exact differences were used")
	}
	if e.Less <= 0 || e.Less >= 1 || e.Less+e.Greater <= 1 {
		t.Errorf("tails %v and %v", e.Less, e.Greater)
	}
}

func drawTallies(t *rapid.T) (base, head []Tally) {
	n := rapid.IntRange(1, 8).Draw(t, "cases")
	for range n {
		x, y := rapid.IntRange(1, 6).Draw(t, "base trials"), rapid.IntRange(1, 6).Draw(t, "head trials")
		base = append(base, Tally{rapid.IntRange(0, x).Draw(t, "base"), x})
		head = append(head, Tally{rapid.IntRange(0, y).Draw(t, "head"), y})
	}
	return base, head
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestSwappingSidesSwapsTails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, head := drawTallies(t)
		e, swapped := StratifiedExact(base, head), StratifiedExact(head, base)
		if !near(e.Less, swapped.Greater) || !near(e.Greater, swapped.Less) {
			t.Fatalf("tails %v, swapped %v", e, swapped)
		}
		diff, lo, hi := StratNewcombe(base, head, 0.95)
		back, lo2, hi2 := StratNewcombe(head, base, 0.95)
		if !near(diff, -back) || !near(lo, -hi2) || !near(hi, -lo2) {
			t.Fatalf("%v [%v, %v], swapped %v [%v, %v]", diff, lo, hi, back, lo2, hi2)
		}
		s, _ := SignFlip(base, head)
		s2, _ := SignFlip(head, base)
		if !near(s.Less, s2.Greater) {
			t.Fatalf("sign flip %v, swapped %v", s, s2)
		}
	})
}

func TestUninformativeCaseChangesNoP(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, head := drawTallies(t)
		before := StratifiedExact(base, head).Less
		n := base[0].N // a new number of trials may change the unit, not the law
		all := rapid.Bool().Draw(t, "all passed")
		k := map[bool]int{true: n}[all]
		after := StratifiedExact(append(base, Tally{k, n}), append(head, Tally{k, n})).Less
		if !near(before, after) {
			t.Fatalf("p %v became %v", before, after)
		}
	})
}

func TestIntervalsHoldTheirEstimate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, head := drawTallies(t)
		diff, lo, hi := StratNewcombe(base, head, 0.95)
		if !(lo <= diff+1e-12 && diff <= hi+1e-12 && lo < hi && lo >= -1 && hi <= 1) {
			t.Fatalf("%v is not in [%v, %v]", diff, lo, hi)
		}
		value, lo, hi, _ := CaseMeanInterval(base, 0.95)
		if !(lo <= value+1e-12 && value <= hi+1e-12 && lo < hi && lo >= 0 && hi <= 1) {
			t.Fatalf("%v is not in [%v, %v]", value, lo, hi)
		}
	})
}

// p of the exact test by going through every way to place the passes, for one and two cases.
func TestStratifiedExactAgainstEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, head := drawTallies(t)
		base, head = base[:min(2, len(base))], head[:min(2, len(head))]
		// Each case contributes its possible (difference × common, weight) pairs; 60 divides by all trials to 6.
		law := map[int]float64{0: 1}
		at := 0
		for i := range base {
			x, y := base[i], head[i]
			sum, next, total := x.Passed+y.Passed, map[int]float64{}, 0.0
			for k := 0; k <= y.N; k++ {
				if sum-k < 0 || sum-k > x.N {
					continue
				}
				ways := math.Exp(logChoose(y.N, k) + logChoose(x.N, sum-k))
				total += ways
				for v, p := range law {
					next[v+k*60/y.N-(sum-k)*60/x.N] += p * ways
				}
			}
			for v := range next {
				next[v] /= total
			}
			law = next
			at += y.Passed*60/y.N - x.Passed*60/x.N
		}
		want := 0.0
		for v, p := range law {
			if v <= at {
				want += p
			}
		}
		if got := StratifiedExact(base, head).Less; !near(got, want) {
			t.Fatalf("p = %v, enumeration says %v", got, want)
		}
	})
}
