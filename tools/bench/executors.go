package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// errNoContainer stands for what the benchmarks of executors say where no daemon answers, or has not the image.
var errNoContainer = errors.New("no container can be started here")

// The two benchmarks of containers: a place of ours, and what the same takes with the docker CLI alone.
const (
	dockerPlace   = "BenchmarkDockerPlace"
	bareContainer = "BenchmarkBareContainer"
)

// measureExecutors measures what a place in a container costs beside a bare container, and prints what came out. The error
// says that a bar was missed, or that nothing could be measured.
func measureExecutors(ctx context.Context, rounds int, out, log io.Writer) error {
	values, err := goBench{"executor", "^(" + dockerPlace + "|" + bareContainer + ")$", "8x", parseExecutors}.values(ctx, rounds, log)
	if errors.Is(err, errNoContainer) {
		fmt.Fprintf(out, "%v, so no place in one was measured\n", errNoContainer)
		return nil
	}
	if err != nil {
		return err
	}
	ours, bare := values[dockerPlace], values[bareContainer]
	fmt.Fprintf(out, "ms min, median, max: a place %s; a bare container %s\n",
		strings.ReplaceAll(spread(ours, "%.0f"), "\t", " "), strings.ReplaceAll(spread(bare, "%.0f"), "\t", " "))
	return printBars(out, "ratio", []bar{
		{what: "place in a container / docker run, exec and rm", values: ratios(ours, bare), limit: 1.3},
	})
}

// parseExecutors reads how many milliseconds each benchmark took, and fails when one of them is missing.
func parseExecutors(text string) (map[string]float64, error) {
	if strings.Contains(text, errNoContainer.Error()) {
		return nil, errNoContainer
	}
	benchmarks, err := readGoBench(text)
	if err != nil {
		return nil, err
	}
	taken := map[string]float64{}
	for _, name := range []string{dockerPlace, bareContainer} {
		if taken[name] = benchmarks[name]["ns/op"] / 1e6; taken[name] <= 0 {
			return nil, fmt.Errorf("%s did not measure anything", name)
		}
	}
	return taken, nil
}
