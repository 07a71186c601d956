package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A goBench is a Go benchmark of the module, in a test binary that make bench builds.
type goBench struct {
	name    string // of the binary bin/NAME.test, and in the log
	pattern string // of -test.bench
	times   string // of -test.benchtime
	// parse reads what one process measured, by name. It fails when something was not: a skipped benchmark is not fast.
	parse func(text string) (map[string]float64, error)
	// beside measures something else right after the benchmark, in the same round; nil when there is nothing.
	beside func(ctx context.Context, b bed) (map[string]float64, error)
}

// peakMiB is the name under which the memory of the process stands beside what parse gives.
const peakMiB = "peak MiB"

// values runs the benchmark once a round, each in a process of its own, and gives what came out by name and round. The first
// round only warms the disk.
func (g goBench) values(ctx context.Context, rounds int, log io.Writer) (map[string][]float64, error) {
	if rounds < leastRounds {
		return nil, fmt.Errorf("%w: at least %d rounds", errUsage, leastRounds)
	}
	binary, err := filepath.Abs(filepath.Join("bin", g.name+".test"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("%w; call make bench from the root of the repository", err)
	}
	b, err := newBed(disk, os.TempDir())
	if err != nil {
		return nil, err
	}
	values, err := g.rounds(ctx, b, binary, rounds, log)
	return values, errors.Join(err, os.RemoveAll(b.root))
}

func (g goBench) rounds(ctx context.Context, b bed, binary string, rounds int, log io.Writer) (map[string][]float64, error) {
	if err := os.MkdirAll(b.tree, 0o755); err != nil {
		return nil, err
	}
	argv := []string{binary, "-test.run=^$", "-test.bench=" + g.pattern, "-test.benchtime=" + g.times, "-test.v"}
	values := map[string][]float64{}
	for round := range rounds + 1 {
		fmt.Fprintf(log, "round %d of %d\n", round, rounds)
		s, err := b.take(ctx, program{name: g.name}, argv)
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(b.log)
		if err != nil {
			return nil, err
		}
		taken, err := g.parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("benchmark of %s: %w\n%s", g.name, err, text)
		}
		if g.beside != nil {
			more, err := g.beside(ctx, b)
			if err != nil {
				return nil, err
			}
			maps.Copy(taken, more)
		}
		if round == 0 {
			continue
		}
		taken[peakMiB] = float64(s.peak) / (1 << 20)
		for name, value := range taken {
			values[name] = append(values[name], value)
		}
	}
	return values, nil
}

// readGoBench reads what Go prints of benchmarks: the values of each by unit, under its name without the number of processors.
func readGoBench(text string) (map[string]map[string]float64, error) {
	out := map[string]map[string]float64{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name, _, _ := strings.Cut(fields[0], "-")
		units := map[string]float64{}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", strings.TrimSpace(line), err)
			}
			units[fields[i+1]] = value
		}
		out[name] = units
	}
	return out, nil
}
