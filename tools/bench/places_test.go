package main

import "testing"

func TestParsePlaces(t *testing.T) {
	t.Parallel()
	const whole = "BenchmarkPlaces-2 \t 1\t900 ns/op\t 20.5 ms/2000-files-copied\t 200 ms/20000-files-copied\n" +
		"BenchmarkEnvironments-2 \t 1\t900 ns/op\t 0.05 node-cached/rebuilt\t 0.01 venv-cached/rebuilt\nPASS\n"
	taken, err := parsePlaces(whole)
	if err != nil || taken["ms/2000-files-copied"] != 20.5 || taken["venv-cached/rebuilt"] != 0.01 {
		t.Errorf("got %v, %v", taken, err)
	}
	for _, text := range []string{"", "BenchmarkPlaces-2 \t 1\t900 ns/op\t 20.5 ms/2000-files-copied\n", "BenchmarkPlaces-2 \t 1\tsoon ns/op\n"} {
		if _, err := parsePlaces(text); err == nil {
			t.Errorf("%q is taken for a measurement", text)
		}
	}
}
