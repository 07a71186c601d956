package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// measureRedact measures how fast secrets are taken out of what agents print, and prints what came out. The error says that a
// bar was missed, or that nothing could be measured.
func measureRedact(ctx context.Context, rounds int, out, log io.Writer) error {
	speeds, err := goBench{name: "redact", pattern: "^BenchmarkSpeed$", times: "64x", parse: parseRedact}.values(ctx, rounds, log)
	if err != nil {
		return err
	}
	return errors.Join(
		printBars(out, "MB/CPU s", []bar{
			{what: "secrets taken out of a log", values: speeds["log"], limit: 300, atLeast: true},
			{what: "secrets taken out of a trace", values: speeds["trace"], limit: 100, atLeast: true},
		}),
		printBars(out, "ratio", []bar{
			{what: "a log / a search for each secret as it is", values: ratios(speeds["bare"], speeds["log"]), limit: 4},
			{what: "a trace / a search for each secret as it is", values: ratios(speeds["bare"], speeds["trace"]), limit: 8},
		}))
}

// parseRedact reads the speed of each text, in MB a second of a processor, and fails when one is missing.
func parseRedact(text string) (map[string]float64, error) {
	benchmarks, err := readGoBench(text)
	if err != nil {
		return nil, err
	}
	speeds := map[string]float64{}
	for _, name := range []string{"log", "trace", "bare"} {
		if speeds[name] = benchmarks["BenchmarkSpeed/"+name]["MB/cpu-s"]; speeds[name] <= 0 {
			return nil, fmt.Errorf("no speed of %s", name)
		}
	}
	return speeds, nil
}
