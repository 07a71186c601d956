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

func TestParseHarbor(t *testing.T) {
	t.Parallel()
	taken, err := parseHarbor([]byte("some library says {}\n{\"start\": 1.5, \"exec\": 0.25, \"delete\": 10}\n"))
	if err != nil || taken[harborAlone] != 11750 || taken[harborStart] != 1750 {
		t.Errorf("got %v, %v", taken, err)
	}
	for _, text := range []string{"", "{}", `{"start": 1, "exec": 1}`, `{"start": 1, "exec": 1, "delete": 1}` + "\nTraceback"} {
		if taken, err := parseHarbor([]byte(text)); err == nil {
			t.Errorf("%q: %v", text, taken)
		}
	}
}
