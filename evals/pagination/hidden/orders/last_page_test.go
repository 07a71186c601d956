package orders_test

import (
	"strings"
	"testing"

	"example.com/service/orders"
)

func book(n int) *orders.Book {
	b := new(orders.Book)
	for id := 1; id <= n; id++ {
		b.Add(orders.Order{ID: id, Customer: "ann", Cents: int64(id) * 5})
	}
	return b
}

func TestLastPageIsComplete(t *testing.T) {
	last, err := book(23).List("ann", 3, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(last.Orders) != 3 || last.Orders[2].ID != 1 {
		t.Errorf("page 3 of 23 orders: got %v, want orders 3, 2 and 1", last.Orders)
	}
	if last.Next != 0 {
		t.Errorf("page 3 of 23 orders names page %d as the next", last.Next)
	}
}

func TestSingleOrder(t *testing.T) {
	only, err := book(1).List("ann", 1, 10)
	if err != nil || len(only.Orders) != 1 || only.Next != 0 {
		t.Errorf("one order: got %+v, %v", only, err)
	}
}

func TestExportHoldsEveryOrder(t *testing.T) {
	for _, n := range []int{0, 1, 49, 50, 51, 123} {
		var out strings.Builder
		if err := book(n).Export(&out, "ann"); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), "\n"); got != n {
			t.Errorf("export of %d orders has %d lines", n, got)
		}
		if n > 0 && !strings.HasSuffix(out.String(), "1\t0.05\n") {
			t.Errorf("export of %d orders does not end with the oldest order", n)
		}
	}
}
