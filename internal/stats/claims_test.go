package stats

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestOrderOfCasesChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, head := drawTallies(t)
		e, s := StratifiedExact(base, head), must(SignFlip(base, head))
		diff, lo, hi := StratNewcombe(base, head, 0.95)
		slices.Reverse(base)
		slices.Reverse(head)
		e2, s2 := StratifiedExact(base, head), must(SignFlip(base, head))
		diff2, lo2, hi2 := StratNewcombe(base, head, 0.95)
		for _, pair := range [][2]float64{{e.Less, e2.Less}, {e.Greater, e2.Greater}, {s.Less, s2.Less}, {diff, diff2}, {lo, lo2}, {hi, hi2}} {
			if !near(pair[0], pair[1]) {
				t.Fatalf("%v became %v", pair[0], pair[1])
			}
		}
	})
}

func must(e Exact, _ bool) Exact { return e }

func TestIntervalsOfOneRateHoldIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "n")
		k := rapid.IntRange(0, n).Draw(t, "k")
		rate := float64(k) / float64(n)
		for name, of := range map[string]func(k, n int, conf float64) (lo, hi float64, err error){
			"Wilson": Wilson, "ClopperPearson": ClopperPearson, "Jeffreys": Jeffreys,
		} {
			if lo, hi, err := of(k, n, 0.95); err != nil || !(0 <= lo && lo <= rate+1e-12 && rate <= hi+1e-12 && hi <= 1 && lo < hi) {
				t.Fatalf("%s of %d/%d: [%v, %v], %v", name, k, n, lo, hi, err)
			}
		}
		if mean, lo, hi, err := UniformBeta(k, n, 0.95); err != nil || !(lo < mean && mean < hi) {
			t.Fatalf("UniformBeta of %d/%d: %v in [%v, %v], %v", k, n, mean, lo, hi, err)
		}
	})
}

func TestIntervalsOfDifferencesHoldThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SliceOfN(rapid.Float64Range(-1, 1), 1, 20).Draw(t, "d")
		if lo, hi, ok := PairedT(d, 0.95); ok && !(lo < Mean(d) && Mean(d) < hi) {
			t.Fatalf("paired t: %v is not in [%v, %v]", Mean(d), lo, hi)
		}
		value, lo, hi, ok, err := MedianOfPairs(d, 0.95)
		if err != nil || ok && !(lo <= value && value <= hi) {
			t.Fatalf("median of pairs: %v is not in [%v, %v], %v", value, lo, hi, err)
		}
		there, _ := SignedRank(d)
		for i := range d {
			d[i] = -d[i]
		}
		if back, _ := SignedRank(d); !near(there.Less, back.Greater) {
			t.Fatalf("signed ranks %v, of the other sign %v", there, back)
		}
	})
}

// No spread has no interval: one of no width would claim to know the effect.
func TestNoSpreadHasNoInterval(t *testing.T) {
	for _, d := range [][]float64{{0.2}, {0, 0, 0}, {0.1, 0.1, 0.1, 0.1}} {
		if lo, hi, ok := PairedT(d, 0.95); ok {
			t.Errorf("%v: [%v, %v]", d, lo, hi)
		}
	}
}

// A p is never adjusted below one that was smaller before, and never below itself.
func TestHolmKeepsTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 12).Draw(t, "p")
		q := Holm(p)
		for i := range p {
			if q[i] < p[i] || q[i] > 1 {
				t.Fatalf("%v became %v", p, q)
			}
			for j := range p {
				if p[i] < p[j] && q[i] > q[j] {
					t.Fatalf("%v became %v", p, q)
				}
			}
		}
	})
}
