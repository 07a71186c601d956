package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// placesBinary holds the Go benchmarks of places, below the root of the repository.
const placesBinary = "bin/places.test"

// The benchmarks of places and the units that each must print. Where overlays can be mounted, there are more.
var placesBenchmarks = map[string][]string{
	"BenchmarkPlaces":       {"ms/2000-files-copied", "ms/20000-files-copied"},
	"BenchmarkEnvironments": {"venv-cached/rebuilt", "node-cached/rebuilt"},
}

// measurePlaces measures what the place of a cell costs, and an environment that was made before beside one that was not,
// and prints what came out. The error says that a bar was missed, or that nothing could be measured.
func measurePlaces(ctx context.Context, rounds int, out, log io.Writer) error {
	if rounds < leastRounds {
		return fmt.Errorf("%w: at least %d rounds", errUsage, leastRounds)
	}
	binary, err := filepath.Abs(placesBinary)
	if err != nil {
		return err
	}
	if _, err := os.Stat(binary); err != nil {
		return fmt.Errorf("%w; call make bench from the root of the repository", err)
	}
	b, err := newBed(disk, os.TempDir())
	if err != nil {
		return err
	}
	values, err := b.takePlaces(ctx, binary, rounds, log)
	if err := errors.Join(err, os.RemoveAll(b.root)); err != nil {
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

// takePlaces runs the benchmarks once a round, each in a process of its own. The first round only warms the disk.
func (b bed) takePlaces(ctx context.Context, binary string, rounds int, log io.Writer) (map[string][]float64, error) {
	if err := os.MkdirAll(b.tree, 0o755); err != nil {
		return nil, err
	}
	argv := []string{binary, "-test.run=^$", "-test.bench=^(BenchmarkPlaces|BenchmarkEnvironments)$", "-test.benchtime=1x"}
	values := map[string][]float64{}
	for round := range rounds + 1 {
		fmt.Fprintf(log, "round %d of %d\n", round, rounds)
		if _, err := b.take(ctx, program{name: "places"}, argv); err != nil {
			return nil, err
		}
		text, err := os.ReadFile(b.log)
		if err != nil {
			return nil, err
		}
		taken, err := parsePlaces(string(text))
		if err != nil {
			return nil, err
		}
		for unit, value := range taken {
			if round > 0 {
				values[unit] = append(values[unit], value)
			}
		}
	}
	return values, nil
}

// parsePlaces reads what the benchmarks measured, by unit, and fails when one of them did not: a skipped one is not fast.
func parsePlaces(text string) (map[string]float64, error) {
	taken := map[string]float64{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("the benchmark of places printed %q: %w", line, err)
			}
			taken[fields[i+1]] = value
		}
	}
	for name, units := range placesBenchmarks {
		for _, unit := range units {
			if taken[unit] <= 0 {
				return nil, fmt.Errorf("%s did not measure %s; it needs python3, node and npm:\n%s", name, unit, text)
			}
		}
	}
	return taken, nil
}
