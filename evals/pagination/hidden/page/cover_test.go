package page_test

import (
	"testing"

	"example.com/service/page"
)

// Whatever the sizes, the pages of a list hold each item once and in order, and only the last has no next.
func TestPagesCoverTheList(t *testing.T) {
	for total := 0; total <= 25; total++ {
		for size := 1; size <= 12; size++ {
			next := 0
			for number := 1; ; number++ {
				w, err := page.Of(total, number, size)
				if err != nil {
					t.Fatal(err)
				}
				if w.Lo != next || w.Hi < w.Lo || w.Hi-w.Lo > size {
					t.Fatalf("page %d of size %d over %d items is %+v, want it to start at %d", number, size, total, w, next)
				}
				next = w.Hi
				if !w.HasNext {
					break
				}
				if w.Hi == w.Lo {
					t.Fatalf("page %d of size %d over %d items is empty and has a next one", number, size, total)
				}
			}
			if next != total {
				t.Errorf("pages of size %d over %d items end at %d", size, total, next)
			}
		}
	}
}

func TestBehindTheEnd(t *testing.T) {
	w, err := page.Of(23, 4, 10)
	if err != nil || w != (page.Window{Lo: 23, Hi: 23}) {
		t.Errorf("page 4 of 23 items: got %+v, %v", w, err)
	}
}
