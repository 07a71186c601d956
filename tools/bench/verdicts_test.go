package main

import "testing"

func TestParseVerdicts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want float64
	}{
		{"goos: linux\nBenchmarkCells-2   \t 1\t2500000000 ns/op\t 100000 cells\t 10.00 verdicts\nPASS\n", 2.5},
		{"BenchmarkCells   \t 1\t2500000000 ns/op\t 100000 cells\t 10.00 verdicts\n", 2.5},
		{"BenchmarkCells-2   \t 1\t2500000000 ns/op\t 90000 cells\t 10.00 verdicts\n", 0},
		{"BenchmarkCells-2   \t 1\t2500000000 ns/op\t 100000 cells\t 9 verdicts\n", 0},
		{"BenchmarkCells-2   \t 1\tsoon ns/op\t 100000 cells\t 10 verdicts\n", 0},
		{"PASS\n", 0},
	} {
		got, err := parseVerdicts(c.text)
		if got["s"] != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%q: %v, %v; want %v", c.text, got, err, c.want)
		}
	}
}
