package main

import (
	"maps"
	"testing"
)

func TestParseRedact(t *testing.T) {
	t.Parallel()
	const log, trace, bare = "BenchmarkSpeed/log-2 \t 64\t6600000 ns/op\t 635.5 MB/cpu-s\n",
		"BenchmarkSpeed/trace \t 64\t12900000 ns/op\t 325.0 MB/cpu-s\n", "BenchmarkSpeed/bare-2 \t 64\t4300000 ns/op\t 975 MB/cpu-s\n"
	got, err := parseRedact("goos: linux\n" + log + trace + bare + "PASS\n")
	if want := map[string]float64{"log": 635.5, "trace": 325, "bare": 975}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, text := range []string{"PASS\n", log + trace, log + bare + "BenchmarkSpeed/trace 1 2 ns/op soon MB/cpu-s\n"} {
		if got, err := parseRedact(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
