package main

import "testing"

func TestParseExecutors(t *testing.T) {
	t.Parallel()
	const place, bare = "BenchmarkDockerPlace-2 \t 8\t600000000 ns/op\n", "BenchmarkBareContainer \t 8\t500000000 ns/op\n"
	taken, err := parseExecutors("goos: linux\nBenchmarkDockerPlace\n" + place + bare + "PASS\n")
	if err != nil || taken[dockerPlace] != 600 || taken[bareContainer] != 500 {
		t.Errorf("got %v, %v", taken, err)
	}
	for _, text := range []string{"", place, bare, place + "BenchmarkBareContainer 8 soon ns/op\n"} {
		if taken, err := parseExecutors(text); err == nil {
			t.Errorf("%q: %v", text, taken)
		}
	}
}
