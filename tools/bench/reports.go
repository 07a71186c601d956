package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// reportFaces are what assay report writes of the cells of a run.
var reportFaces = []string{"html", "md", "comment", "junit", "json", "csv"}

// measureReports measures how long assay report takes for each page of 100,000 cells, from the records and the benchmark.json
// that a run left, and how much memory. It prints what came out; the error says that a bar was missed, or that nothing could
// be measured.
func measureReports(ctx context.Context, rounds int, out, log io.Writer) error {
	if rounds < 1 {
		return fmt.Errorf("%w: at least 1 round", errUsage)
	}
	// In memory: half a million files are read back, and a disk that others use is not what is measured.
	b, err := newBed(tmpfs, "/dev/shm")
	if err != nil {
		return err
	}
	defer os.RemoveAll(b.root)
	seconds, memory, err := takeReports(ctx, b, rounds, log)
	if err != nil {
		return err
	}
	return errors.Join(printBars(out, "s", seconds), printBars(out, "MiB", memory))
}

// takeReports leaves the run in the bed, and takes every page of it.
func takeReports(ctx context.Context, b bed, rounds int, log io.Writer) (seconds, memory []bar, err error) {
	assay, errAssay := filepath.Abs("bin/assay")
	leave, errLeave := filepath.Abs("bin/report.test")
	if err := errors.Join(errAssay, errLeave, os.Mkdir(b.tree, 0o755)); err != nil {
		return nil, nil, err
	}
	run := filepath.Join(b.root, "run")
	fmt.Fprintf(log, "a run of %d cells\n", summarisedCells)
	for _, argv := range [][]string{
		{leave, "-test.run=^TestLeaveLargeRun$", "-leave=" + run, "-cells=" + strconv.Itoa(summarisedCells)},
		{assay, "report", run, "--format", "json", "-o", filepath.Join(run, "benchmark.json")},
	} {
		if _, err := b.take(ctx, program{}, argv); err != nil {
			return nil, nil, err
		}
	}
	for _, face := range reportFaces {
		what := fmt.Sprintf("%s of %d cells", face, summarisedCells)
		time, peak := bar{what: what, limit: 10, seconds: true}, bar{what: what, limit: 500}
		for round := range rounds {
			fmt.Fprintf(log, "%s, round %d of %d\n", face, round+1, rounds)
			s, err := b.take(ctx, program{}, []string{assay, "report", run, "--format", face, "-o", filepath.Join(b.root, "page")})
			if err != nil {
				return nil, nil, err
			}
			time.values, peak.values = append(time.values, s.wall.Seconds()), append(peak.values, float64(s.peak)/(1<<20))
		}
		seconds, memory = append(seconds, time), append(memory, peak)
	}
	return seconds, memory, nil
}
