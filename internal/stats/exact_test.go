package stats

import "testing"

// Leaving out what is 0 changes no bit.
func TestTrimChangesNothing(t *testing.T) {
	law, at, whole, place := []float64{1}, 0, []float64{1}, 0
	for i := range 3000 {
		add := []float64{0.1, 0.2, 0.4, 0.2, 0.1}
		whole, place = convolve(whole, add, 1), place+i%5
		law, at = trim(convolve(law, add, 1), at+i%5)
	}
	if len(law) > len(whole)*3/4 {
		t.Errorf("%d of %d values are left: nothing was tried", len(law), len(whole))
	}
	for _, off := range []int{-len(whole), -1000, 0, 1000, len(whole)} {
		if got, want := tails(law, at+off), tails(whole, place+off); got != want {
			t.Errorf("at %d: %v, want %v", off, got, want)
		}
	}
}
