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

// executorsBinary holds the Go benchmarks of executors, below the root of the repository.
const executorsBinary = "bin/executor.test"

// noContainer is what these benchmarks say where no daemon answers, or has not the image.
const noContainer = "no container can be started here"

// The two benchmarks of containers: a place of ours, and what the same takes with the docker CLI alone.
const (
	dockerPlace   = "BenchmarkDockerPlace"
	bareContainer = "BenchmarkBareContainer"
)

// measureExecutors measures what a place in a container costs beside a bare container, and prints what came out. The error
// says that a bar was missed, or that nothing could be measured.
func measureExecutors(ctx context.Context, rounds int, out, log io.Writer) error {
	if rounds < leastRounds {
		return fmt.Errorf("%w: at least %d rounds", errUsage, leastRounds)
	}
	binary, err := filepath.Abs(executorsBinary)
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
	ours, bare, err := b.takeExecutors(ctx, binary, rounds, log)
	if err := errors.Join(err, os.RemoveAll(b.root)); err != nil {
		return err
	}
	if ours == nil {
		fmt.Fprintln(out, noContainer+", so no place in one was measured")
		return nil
	}
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = ours[i] / bare[i]
	}
	fmt.Fprintf(out, "ms min, median, max: a place %s; a bare container %s\n",
		strings.ReplaceAll(spread(ours, "%.0f"), "\t", " "), strings.ReplaceAll(spread(bare, "%.0f"), "\t", " "))
	return printBars(out, "ratio", []bar{
		{what: "place in a container / docker run, exec and rm", values: ratios, limit: 1.3},
	})
}

// takeExecutors runs the benchmarks once a round, each round in a process of its own, and gives the milliseconds of a place
// and of a bare container by round; none where no container can be started. The first round only warms the disk.
func (b bed) takeExecutors(ctx context.Context, binary string, rounds int, log io.Writer) (ours, bare []float64, err error) {
	if err := os.MkdirAll(b.tree, 0o755); err != nil {
		return nil, nil, err
	}
	argv := []string{binary, "-test.run=^$", "-test.bench=^(" + dockerPlace + "|" + bareContainer + ")$", "-test.benchtime=8x", "-test.v"}
	for round := range rounds + 1 {
		fmt.Fprintf(log, "round %d of %d\n", round, rounds)
		if _, err := b.take(ctx, program{name: "executors"}, argv); err != nil {
			return nil, nil, err
		}
		text, err := os.ReadFile(b.log)
		if err != nil {
			return nil, nil, err
		}
		if strings.Contains(string(text), noContainer) {
			return nil, nil, nil
		}
		taken, err := parseExecutors(string(text))
		if err != nil {
			return nil, nil, err
		}
		if round > 0 {
			ours, bare = append(ours, taken[dockerPlace]), append(bare, taken[bareContainer])
		}
	}
	return ours, bare, nil
}

// parseExecutors reads how many milliseconds each benchmark took, and fails when one of them is missing.
func parseExecutors(text string) (map[string]float64, error) {
	taken := map[string]float64{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[3] != "ns/op" {
			continue
		}
		name, _, _ := strings.Cut(fields[0], "-") // what follows is the number of processors
		ns, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return nil, fmt.Errorf("the benchmark of executors printed %q: %w", line, err)
		}
		taken[name] = ns / 1e6
	}
	for _, name := range []string{dockerPlace, bareContainer} {
		if taken[name] <= 0 {
			return nil, fmt.Errorf("%s did not measure anything:\n%s", name, text)
		}
	}
	return taken, nil
}
