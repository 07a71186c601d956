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

// redactBinary holds the Go benchmark of the redactor, below the root of the repository.
const redactBinary = "bin/redact.test"

// measureRedact measures how fast secrets are taken out of what agents print, and prints what came out. The error says that a
// bar was missed, or that nothing could be measured.
func measureRedact(ctx context.Context, rounds int, out, log io.Writer) error {
	if rounds < leastRounds {
		return fmt.Errorf("%w: at least %d rounds", errUsage, leastRounds)
	}
	binary, err := filepath.Abs(redactBinary)
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
	speeds, err := b.takeRedact(ctx, binary, rounds, log)
	if err := errors.Join(err, os.RemoveAll(b.root)); err != nil {
		return err
	}
	return errors.Join(
		printBars(out, "MB/CPU s", []bar{
			{what: "secrets taken out of a log", values: speeds["log"], limit: 300, atLeast: true},
			{what: "secrets taken out of a trace", values: speeds["trace"], limit: 100, atLeast: true},
		}),
		printBars(out, "ratio", []bar{
			{what: "a log / a search for each secret as it is", values: slower(speeds, "log"), limit: 4},
			{what: "a trace / a search for each secret as it is", values: slower(speeds, "trace"), limit: 8},
		}))
}

// slower says, round by round, how many times longer a text takes than the bare search.
func slower(speeds map[string][]float64, text string) []float64 {
	var ratios []float64
	for i, speed := range speeds[text] {
		ratios = append(ratios, speeds["bare"][i]/speed)
	}
	return ratios
}

// takeRedact runs the benchmark once a round, each in a process of its own. The first round only warms the disk.
func (b bed) takeRedact(ctx context.Context, binary string, rounds int, log io.Writer) (map[string][]float64, error) {
	if err := os.MkdirAll(b.tree, 0o755); err != nil {
		return nil, err
	}
	argv := []string{binary, "-test.run=^$", "-test.bench=^BenchmarkSpeed$", "-test.benchtime=64x"}
	speeds := map[string][]float64{}
	for round := range rounds + 1 {
		fmt.Fprintf(log, "round %d of %d\n", round, rounds)
		if _, err := b.take(ctx, program{name: "redact"}, argv); err != nil {
			return nil, err
		}
		text, err := os.ReadFile(b.log)
		if err != nil {
			return nil, err
		}
		of, err := parseRedact(string(text))
		if err != nil {
			return nil, err
		}
		if round == 0 {
			continue
		}
		for name, speed := range of {
			speeds[name] = append(speeds[name], speed)
		}
	}
	return speeds, nil
}

// parseRedact reads the speed of each text, in MB a second of a processor, and fails when one is missing.
func parseRedact(text string) (map[string]float64, error) {
	speeds := map[string]float64{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "BenchmarkSpeed/") {
			continue
		}
		_, name, _ := strings.Cut(fields[0], "/")
		name, _, _ = strings.Cut(name, "-") // what follows is the number of processors
		for i := 2; i+1 < len(fields); i += 2 {
			if fields[i+1] != "MB/cpu-s" {
				continue
			}
			speed, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("the benchmark of the redactor printed %q: %w", line, err)
			}
			speeds[name] = speed
		}
	}
	for _, name := range []string{"log", "trace", "bare"} {
		if speeds[name] <= 0 {
			return nil, fmt.Errorf("the benchmark of the redactor has no speed of %s:\n%s", name, text)
		}
	}
	return speeds, nil
}
