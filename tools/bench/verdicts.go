package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// The benchmark summarises so many cells, and makes so many verdicts of them.
const (
	summarisedCells = 100_000
	madeVerdicts    = 10
)

// measureVerdicts measures how long it takes to summarise many cells, and how much memory, and prints what came out. The
// error says that a bar was missed, or that nothing could be measured.
func measureVerdicts(ctx context.Context, rounds int, out, log io.Writer) error {
	values, err := goBench{name: "verdicts", pattern: "^BenchmarkCells$", times: "1x", parse: parseVerdicts}.values(ctx, rounds, log)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("summary of %d cells with %d verdicts", summarisedCells, madeVerdicts)
	return errors.Join(
		printBars(out, "s", []bar{{what: what, values: values["s"], limit: 3, seconds: true}}),
		printBars(out, "MiB", []bar{{what: what, values: values[peakMiB], limit: 300}}))
}

// parseVerdicts reads the seconds of one summary, and fails when it was not of all cells: then its time means nothing.
func parseVerdicts(text string) (map[string]float64, error) {
	benchmarks, err := readGoBench(text)
	if err != nil {
		return nil, err
	}
	of := benchmarks["BenchmarkCells"]
	if of["ns/op"] <= 0 || of["cells"] != summarisedCells || of["verdicts"] != madeVerdicts {
		return nil, fmt.Errorf("it did not summarise %d cells with %d verdicts", summarisedCells, madeVerdicts)
	}
	return map[string]float64{"s": of["ns/op"] / 1e9}, nil
}
