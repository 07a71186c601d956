// Bench measures how fast assay is, as ratios taken in one run on one machine. Build it and type bin/bench compare, or just
// make bench: it runs the same thousand cells with assay, with a peer, and with a bare loop that does only what no tool can
// leave out, one after the other, and prints each ratio beside its bar.
//
// Ratios, because a second on one machine is two on another and five on the same one an hour later. The programs take turns
// within each round, and a ratio is formed within its round. So a machine that slows down slows down both sides of it.
//
// bin/bench diff does the same for diff scope: it measures assay diff beside git on folders with a known change, and the
// stages of a cell in one process. Numbers that are wrong end it, so that nothing is fast because it is wrong.
//
// bin/bench verdicts measures how long a summary of 100,000 cells with all its verdicts takes, and its memory, and bin/bench
// reports each page of them. bin/bench redact measures how fast secrets are taken out of what agents print, beside a bare search for them.
//
// bin/bench places measures what the place of a cell costs, and a cached environment beside one that is made anew. bin/bench
// executors measures what a place in a container costs beside a bare container, where a docker daemon answers, and beside one
// of Harbor, where ASSAY_HARBOR names a Python that has it.
//
// A bar that is missed by less than the ratios of the run differ among themselves (their interquartile range) is undecided:
// run again on a quieter machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage:
  bench gen DEST CASES MODELS TRIALS [FILES]   write one workload for assay and for touchstone
  bench bare [-jobs N] EVALS REPEAT OUT        the limit: copy, hash and write, and nothing else
  bench compare [-rounds N]                    measure bin/assay against both, from the root of the repository
  bench diff [-rounds N]                       measure diff scope against git, from there too
  bench verdicts [-rounds N]                   measure a summary of 100,000 cells, from there too
  bench reports [-rounds N]                    measure the pages of 100,000 cells, from there too
  bench places [-rounds N]                     measure places and cached environments, from there too
  bench executors [-rounds N]                  measure places in containers, from there too; needs a docker daemon
  bench redact [-rounds N]                     measure how fast secrets are taken out of logs, from there too
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// errUsage is the error of arguments that nothing can be done with.
var errUsage = errors.New("wrong arguments")

// run is the program. It returns 0, or 1 when something failed or a bar was missed, 2 for wrong arguments, and 130 when it
// was interrupted.
func run(ctx context.Context, args []string, out, log io.Writer) int {
	err := command(ctx, args, out, log)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		fmt.Fprintln(log, "bench: interrupted")
		return 130
	case errors.Is(err, errUsage):
		fmt.Fprint(log, usage)
		return 2
	}
	fmt.Fprintln(log, "bench:", err)
	return 1
}

func command(ctx context.Context, args []string, out, log io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	switch args[0] {
	case "gen":
		dest, w, err := parseGen(args[1:])
		if err != nil {
			return err
		}
		if err := w.write(dest); err != nil {
			return err
		}
		fmt.Fprintln(out, w)
		return nil
	case "bare":
		jobs := flags.Int("jobs", 1, "")
		if flags.Parse(args[1:]) != nil || flags.NArg() != 3 || *jobs < 1 {
			return errUsage
		}
		repeat, err := count(flags.Arg(1))
		if err != nil {
			return err
		}
		return bare(ctx, flags.Arg(0), repeat, flags.Arg(2), *jobs)
	case "compare", "diff", "verdicts", "reports", "places", "executors", "redact":
		rounds := flags.Int("rounds", 7, "")
		if flags.Parse(args[1:]) != nil || flags.NArg() != 0 {
			return errUsage
		}
		switch args[0] {
		case "diff":
			return measureDiff(ctx, *rounds, out, log)
		case "verdicts":
			return measureVerdicts(ctx, *rounds, out, log)
		case "reports":
			return measureReports(ctx, *rounds, out, log)
		case "places":
			return measurePlaces(ctx, *rounds, out, log)
		case "executors":
			return measureExecutors(ctx, *rounds, out, log)
		case "redact":
			return measureRedact(ctx, *rounds, out, log)
		}
		return compare(ctx, *rounds, out, log)
	}
	return errUsage
}
