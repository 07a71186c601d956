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

// verdictsBinary holds the Go benchmark of a large summary, below the root of the repository.
const verdictsBinary = "bin/verdicts.test"

// The benchmark summarises so many cells, and makes so many verdicts of them.
const (
	summarisedCells = 100_000
	madeVerdicts    = 10
)

// measureVerdicts measures how long it takes to summarise many cells, and how much memory, and prints what came out. The
// error says that a bar was missed, or that nothing could be measured.
func measureVerdicts(ctx context.Context, rounds int, out, log io.Writer) error {
	if rounds < leastRounds {
		return fmt.Errorf("%w: at least %d rounds", errUsage, leastRounds)
	}
	binary, err := filepath.Abs(verdictsBinary)
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
	seconds, mebibytes, err := b.takeVerdicts(ctx, binary, rounds, log)
	if err := errors.Join(err, os.RemoveAll(b.root)); err != nil {
		return err
	}
	what := fmt.Sprintf("summary of %d cells with %d verdicts", summarisedCells, madeVerdicts)
	return errors.Join(
		printBars(out, "s", []bar{{what: what, values: seconds, limit: 3, seconds: true}}),
		printBars(out, "MiB", []bar{{what: what, values: mebibytes, limit: 300}}))
}

// takeVerdicts runs the benchmark once a round, each in a process of its own. The first round only warms the disk.
func (b bed) takeVerdicts(ctx context.Context, binary string, rounds int, log io.Writer) (seconds, mebibytes []float64, err error) {
	if err := os.MkdirAll(b.tree, 0o755); err != nil {
		return nil, nil, err
	}
	argv := []string{binary, "-test.run=^$", "-test.bench=^BenchmarkCells$", "-test.benchtime=1x"}
	for round := range rounds + 1 {
		fmt.Fprintf(log, "round %d of %d\n", round, rounds)
		s, err := b.take(ctx, program{name: "verdicts"}, argv)
		if err != nil {
			return nil, nil, err
		}
		text, err := os.ReadFile(b.log)
		if err != nil {
			return nil, nil, err
		}
		wall, err := parseVerdicts(string(text))
		if err != nil {
			return nil, nil, err
		}
		if round > 0 {
			seconds, mebibytes = append(seconds, wall), append(mebibytes, float64(s.peak)/(1<<20))
		}
	}
	return seconds, mebibytes, nil
}

// parseVerdicts reads the seconds of one summary, and fails when it was not of all cells: then its time means nothing.
func parseVerdicts(text string) (float64, error) {
	of := map[string]float64{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "BenchmarkCells") {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return 0, fmt.Errorf("the benchmark of verdicts printed %q: %w", line, err)
			}
			of[fields[i+1]] = value
		}
	}
	if of["ns/op"] <= 0 || of["cells"] != summarisedCells || of["verdicts"] != madeVerdicts {
		return 0, fmt.Errorf("the benchmark of verdicts did not summarise %d cells with %d verdicts:\n%s", summarisedCells, madeVerdicts, text)
	}
	return of["ns/op"] / 1e9, nil
}
