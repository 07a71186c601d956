package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
)

// The benchmarks of places and the units that each must print. Where overlays can be mounted, there are more.
var placesBenchmarks = map[string][]string{
	"BenchmarkPlaces":       {"ms/2000-files-copied", "ms/20000-files-copied"},
	"BenchmarkEnvironments": {"venv-cached/rebuilt", "node-cached/rebuilt"},
}

// measurePlaces measures what the place of a cell costs, and an environment that was made before beside one that was not,
// and prints what came out. The error says that a bar was missed, or that nothing could be measured.
func measurePlaces(ctx context.Context, rounds int, out, log io.Writer) error {
	values, err := goBench{name: "places", pattern: "^(BenchmarkPlaces|BenchmarkEnvironments)$", times: "1x", parse: parsePlaces}.values(ctx, rounds, log)
	if err != nil {
		return err
	}
	ready := []bar{
		{what: "place of 2,000 files, copied", values: values["ms/2000-files-copied"], limit: 60, seconds: true},
		{what: "place of 20,000 files, copied", values: values["ms/20000-files-copied"], limit: 900, seconds: true},
	}
	if shown := values["ms/2000-files-shown"]; shown != nil {
		ready = append(ready,
			bar{what: "place of 2,000 files, shown", values: shown, limit: 30, seconds: true},
			bar{what: "place of 20,000 files, shown", values: values["ms/20000-files-shown"], limit: 150, seconds: true})
	} else {
		fmt.Fprintln(out, "overlays cannot be mounted here, so no place was shown")
	}
	return errors.Join(
		printBars(out, "ms", ready),
		printBars(out, "ratio", []bar{
			{what: "venv in a place, cached / rebuilt", values: values["venv-cached/rebuilt"], limit: 0.1},
			{what: "node_modules in a place, cached / rebuilt", values: values["node-cached/rebuilt"], limit: 0.1},
		}))
}

// parsePlaces reads what the benchmarks measured, by unit.
func parsePlaces(text string) (map[string]float64, error) {
	benchmarks, err := readGoBench(text)
	if err != nil {
		return nil, err
	}
	taken := map[string]float64{}
	for _, units := range benchmarks {
		maps.Copy(taken, units)
	}
	for name, units := range placesBenchmarks {
		for _, unit := range units {
			if taken[unit] <= 0 {
				return nil, fmt.Errorf("%s did not measure %s; it needs python3, node and npm", name, unit)
			}
		}
	}
	return taken, nil
}
