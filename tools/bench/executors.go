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
	"os"
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

//go:embed harbor_alone.py
var harborScript string

// measureExecutors measures what a place in a container costs beside a bare container and beside Harbor, and prints what came
// out. The command in it does nothing, so all that a place takes is overhead. The error says that a bar was missed, or that
// nothing could be measured.
func measureExecutors(ctx context.Context, rounds int, out, log io.Writer) error {
	g := goBench{name: "executor", pattern: "^(" + dockerPlace + "|" + bareContainer + ")$", times: "8x", parse: parseExecutors}
	if os.Getenv("ASSAY_HARBOR") != "" {
		g.beside = runHarbor
	}
	values, err := g.values(ctx, rounds, log)
	if errors.Is(err, errNoContainer) {
		fmt.Fprintf(out, "%v, so no place in one was measured\n", errNoContainer)
		return nil
	}
	if err != nil {
		return err
	}
	bars := []bar{
		{what: "place in a container / docker run, exec and rm", values: ratios(values[dockerPlace], values[bareContainer]), limit: 1.3},
	}
	names := []string{dockerPlace, bareContainer}
	if g.beside != nil {
		names = append(names, harborAlone, harborStart)
		bars = append(bars, bar{what: "place in a container / Harbor alone", values: ratios(values[dockerPlace], values[harborAlone]), limit: 0.1})
	} else {
		fmt.Fprintln(out, "ASSAY_HARBOR names no Python that has Harbor, so nothing was measured beside it; see tools/harbor.sh")
	}
	for _, name := range names {
		fmt.Fprintf(out, "ms min, median, max: %s %s\n", strings.TrimPrefix(name, "Benchmark"), strings.ReplaceAll(spread(values[name], "%.0f"), "\t", " "))
	}
	return printBars(out, "ratio", bars)
}

// runHarbor makes one place by Harbor alone, of the image that the benchmarks use, and gives the milliseconds that it took.
func runHarbor(ctx context.Context, b bed) (map[string]float64, error) {
	image := cmp.Or(os.Getenv("ASSAY_IMAGE"), "debian:bookworm-slim")
	folder, err := os.MkdirTemp(b.root, "harbor-")
	if err != nil {
		return nil, err
	}
	if _, err := b.take(ctx, program{name: "harbor"}, []string{os.Getenv("ASSAY_HARBOR"), "-I", "-c", harborScript, image, folder}); err != nil {
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
