package stats

import "testing"

// What is cut off a law of many values makes no p smaller, and none that anybody looks at larger.
func TestLawIsCut(t *testing.T) {
	t.Parallel()
	cut, whole, at := law{chances: []float64{1}}, []float64{1}, 0
	for i := range 3000 {
		add := []float64{0.1, 0.2, 0.4, 0.2, 0.1}
		whole = convolve(whole, add, 3)
		cut.add(add, 3)
		at += i % 5 * 3
		if i < 500 && (cut.cut != 0 || len(cut.chances) != len(whole)) {
			t.Fatalf("of %d values %d are left: small laws are kept whole", len(whole), len(cut.chances))
		}
	}
	if len(cut.chances) > len(whole)*3/4 {
		t.Errorf("%d of %d values are left: nothing was tried", len(cut.chances), len(whole))
	}
	exact := law{chances: whole}
	for _, off := range []int{-len(whole), -3000, -1000, 0, 1000, 3000, len(whole)} {
		got, want := cut.tails(at+off), exact.tails(at+off)
		for _, p := range [][2]float64{{got.Less, want.Less}, {got.Greater, want.Greater}} {
			if p[0] < p[1]*(1-1e-12) || p[0] > p[1]*(1+1e-12)+1e-20 {
				t.Errorf("at %d: %v, want %v", off, got, want)
			}
		}
	}
}
