package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// errNoContainer stands for what the benchmarks of executors say where no daemon answers, or has not the image.
var errNoContainer = errors.New("no container can be started here")

// The two benchmarks of containers: a place of ours, and what the same takes with the docker CLI alone.
const (
	dockerPlace   = "BenchmarkDockerPlace"
	bareContainer = "BenchmarkBareContainer"
)

// harborAlone is what the same takes with Harbor, by its own API; harborStart is the part until its command ran.
const (
	harborAlone = "Harbor alone"
	harborStart = "Harbor alone, until the command ran"
)

// dockerCell is a cell of assay with its two places, from a whole run: what is looked for before the first cell is in it.
const dockerCell = "assay run, a cell"

// The suite of those cells: an agent with one command that does nothing, and a grader with another, each in its own place.
const (
	dockerCells = 12
	dockerSuite = `name: bench
matrix:
  harnesses:
    - {id: scripted, type: script, script: agent.yaml}
  conditions:
    - {id: only, baseline: true}
  trials: %d
`
	dockerCase = `id: one
prompt: Do nothing.
source: {path: source}
assertions:
  - {id: runs, type: command, run: "true"}
`
	dockerAgent = `steps:
  - run: "true"
`
)

//go:embed harbor_alone.py
var harborScript string

// measureExecutors measures what a place in a container, and a cell of two, cost beside bare containers, and a place beside
// Harbor, and prints what came out. The commands do nothing, so all that these take is overhead. The error says that a bar was
// missed, or that nothing could be measured.
func measureExecutors(ctx context.Context, rounds int, out, log io.Writer) error {
	g := goBench{name: "executor", pattern: "^(" + dockerPlace + "|" + bareContainer + ")$", times: "8x", parse: parseExecutors}
	withHarbor := os.Getenv("ASSAY_HARBOR") != ""
	g.beside = func(ctx context.Context, b bed) (map[string]float64, error) {
		taken, err := runCells(ctx, b)
		if err != nil || !withHarbor {
			return taken, err
		}
		more, err := runHarbor(ctx, b)
		maps.Copy(taken, more)
		return taken, err
	}
	values, err := g.values(ctx, rounds, log)
	if errors.Is(err, errNoContainer) {
		fmt.Fprintf(out, "%v, so no place in one was measured\n", errNoContainer)
		return nil
	}
	if err != nil {
		return err
	}
	place := ratios(values[dockerPlace], values[bareContainer])
	cell := ratios(values[dockerCell], values[bareContainer])
	for i := range cell {
		cell[i] /= 2 // places
	}
	bars := []bar{
		{what: "place in a container / docker run, exec and rm", values: place, limit: 1.3},
		{what: "cell in containers / docker run, exec and rm of its places", values: cell, limit: 1.3},
	}
	names := []string{dockerPlace, dockerCell, bareContainer}
	if withHarbor {
		names = append(names, harborAlone, harborStart)
		beside := ratios(values[dockerPlace], values[harborAlone])
		bars = append(bars, bar{what: "place in a container / Harbor alone", values: beside, limit: 0.1})
	} else {
		fmt.Fprintln(out, "ASSAY_HARBOR names no Python that has Harbor, so nothing was measured beside it; see tools/harbor.sh")
	}
	for _, name := range names {
		figures := strings.ReplaceAll(spread(values[name], "%.0f"), "\t", " ")
		fmt.Fprintf(out, "ms min, median, max: %s %s\n", strings.TrimPrefix(name, "Benchmark"), figures)
	}
	return printBars(out, "ratio", bars)
}

// runCells runs a few cells with assay, one after the other, and gives the milliseconds that each took.
func runCells(ctx context.Context, b bed) (map[string]float64, error) {
	binary, err := filepath.Abs(assayBinary)
	if err != nil {
		return nil, err
	}
	p := assayProgram(binary)
	evals := filepath.Join(b.tree, p.dir, "evals")
	for _, f := range [][]string{
		{fmt.Sprintf(dockerSuite, dockerCells), "suite.yaml"},
		{dockerCase, "one", "case.yaml"},
		{dockerAgent, "one", "agent.yaml"},
		{"one line\n", "one", "source", "file.txt"},
	} {
		if err := put(f[0], append([]string{evals}, f[1:]...)...); err != nil {
			return nil, err
		}
	}
	local := p.run
	p.run = func(b bed, jobs int) []string {
		return append(local(b, jobs), "--executor", "docker", "--image", benchImage())
	}
	s, err := b.fresh(ctx, p, 1, dockerCells)
	if err != nil {
		return nil, err
	}
	return map[string]float64{dockerCell: s.wall.Seconds() * 1000 / dockerCells}, nil
}

// benchImage is the image that the benchmarks use.
func benchImage() string { return cmp.Or(os.Getenv("ASSAY_IMAGE"), "debian:bookworm-slim") }

// runHarbor makes one place by Harbor alone and gives the milliseconds that it took.
func runHarbor(ctx context.Context, b bed) (map[string]float64, error) {
	folder, err := os.MkdirTemp(b.root, "harbor-")
	if err != nil {
		return nil, err
	}
	argv := []string{os.Getenv("ASSAY_HARBOR"), "-I", "-c", harborScript, benchImage(), folder}
	if _, err := b.take(ctx, program{name: "harbor"}, argv); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(b.log)
	if err != nil {
		return nil, err
	}
	return parseHarbor(text)
}

// parseHarbor reads the line that ends what the script printed.
func parseHarbor(text []byte) (map[string]float64, error) {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	var took struct{ Start, Exec, Delete float64 } // seconds
	if err := json.Unmarshal(lines[len(lines)-1], &took); err != nil || took.Start <= 0 || took.Exec <= 0 || took.Delete <= 0 {
		return nil, fmt.Errorf("harbor did not measure anything (%w): %s", cmp.Or(err, errors.New("a time is missing")), text)
	}
	started := (took.Start + took.Exec) * 1000
	return map[string]float64{harborAlone: started + took.Delete*1000, harborStart: started}, nil
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
