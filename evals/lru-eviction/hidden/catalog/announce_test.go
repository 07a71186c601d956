package catalog_test

import (
	"testing"

	"example.com/service/catalog"
)

func TestAnnouncedPriceStaysAtHand(t *testing.T) {
	asked := map[string]int{}
	c := catalog.New(func(article string) (int64, error) { asked[article]++; return 100, nil }, 2)

	price := func(article string, want int64) {
		t.Helper()
		if got, err := c.Price(article); err != nil || got != want {
			t.Errorf("price of %s: got %d, %v, want %d", article, got, err, want)
		}
	}
	price("nut", 100)
	price("bolt", 100)
	c.Announce("nut", 120)
	price("gear", 100)
	price("nut", 120)
	if asked["nut"] != 1 {
		t.Errorf("the source was asked %d times for nut, want once", asked["nut"])
	}
}
