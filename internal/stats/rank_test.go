package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The middle and its limits are those of the means laid out and sorted, to the bit.
func TestMedianOfPairsIsThatOfAllMeans(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(-1e3, 1e3), rapid.SampledFrom([]float64{0, 1, -1, 0.5})), 1, 40).Draw(t, "d")
		var means []float64
		for i, a := range d {
			for _, b := range d[i:] {
				means = append(means, (a+b)/2)
			}
		}
		slices.Sort(means)
		value, lo, hi, ok, err := MedianOfPairs(d, 0.95)
		if err != nil || value != Median(means) {
			t.Fatalf("%v, %v, want %v", value, err, Median(means))
		}
		cut := signedRankCut(len(d), 0.025)
		if ok != (len(d) > 5) || ok && (lo != means[cut-1] || hi != means[len(means)-cut]) {
			t.Fatalf("limits %v and %v (%t) of %d values", lo, hi, ok, len(d))
		}
	})
}

// Where counting ends, the normal law says the same within 0.0005, with ties and without.
func TestManyRanksAreNormal(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, steps := range []float64{3, 20, 1e9} {
		for _, drift := range []float64{0, 0.05, 0.1, 0.2} {
			d := make([]float64, mostRanked)
			ranks := make([]int, mostRanked)
			for i := range d {
				d[i] = math.Ceil((random.Float64()-0.5+drift)*steps) - 0.5
			}
			size := func(a float64) (below, equal int) {
				for _, b := range d {
					switch {
					case math.Abs(b) < math.Abs(a):
						below++
					case math.Abs(b) == math.Abs(a):
						equal++
					}
				}
				return below, equal
			}
			for i, x := range d {
				below, equal := size(x)
				ranks[i] = int(math.Copysign(float64(2*below+equal+1), x))
			}
			exact, ok := SignedRank(d)
			normal := signedRankNormal(ranks)
			if !ok || math.Abs(exact.Less-normal.Less) > 5e-4 || math.Abs(exact.Greater-normal.Greater) > 5e-4 {
				t.Errorf("%g steps, drift %g: exact %+v, normal %+v", steps, drift, exact, normal)
			}
		}
	}
	exact := signedRankCut(mostRanked, 0.025)
	if normal := signedRankCut(mostRanked+1, 0.025); normal <= exact || normal > exact+100 {
		t.Errorf("the cut goes from %d to %d with one value more", exact, normal)
	}
}

// A suite of thousands of cases is ranked in a moment: neither a list of all means nor the law of so many ranks is laid out.
func TestThousandsOfPairs(t *testing.T) {
	t.Parallel()
	d := make([]float64, 50_000)
	for i := range d {
		d[i] = float64(i) - 20_000
	}
	value, lo, hi, ok, err := MedianOfPairs(d, 0.95)
	if err != nil || !ok || value != 4999.5 || lo >= value || hi <= value || hi-lo > 600 {
		t.Errorf("%v [%v, %v] %t %v", value, lo, hi, ok, err)
	}
	if e, ok := SignedRank(d); !ok || e.Greater > 1e-9 || e.Less < 1-1e-9 {
		t.Errorf("%+v %t", e, ok)
	}
}
