package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Where compare finds and keeps things, below the root of the repository.
const (
	assayBinary = "bin/assay"
	cacheFolder = ".cache"
)

// leastRounds is the smallest number of pairs that a median is taken of.
const leastRounds = 5

// thousand is the workload that the bars are about.
var thousand = workload{cases: 10, models: 10, trials: 10, files: 3}

// A series is what one program needed for one job on one bed, a sample a round.
type series struct {
	program, job, bed string
	jobs              int // at the same time; 0: the job is not one of cells
}

// samples are all series of a run.
type samples map[series][]sample

// A comparison is a run of compare under way.
type comparison struct {
	programs []program
	beds     []*bed
	rounds   int
	samples
}

// compare measures everything and prints what came out. The error says that a bar was missed, or that something could not
// be measured.
func compare(ctx context.Context, rounds int, out, log io.Writer) error {
	if rounds < leastRounds {
		return fmt.Errorf("%w: at least %d rounds", errUsage, leastRounds)
	}
	c := &comparison{rounds: rounds, samples: samples{}}
	if err := c.findPrograms(ctx, log); err != nil {
		return err
	}
	err := c.makeBeds(log)
	if err == nil {
		err = c.measure(ctx, log)
	}
	if err = errors.Join(err, c.removeBeds()); err != nil {
		return err
	}
	c.printFigures(out)
	return printBars(out, "ratio", c.bars())
}

func (c *comparison) findPrograms(ctx context.Context, log io.Writer) error {
	assay, err := filepath.Abs(assayBinary)
	if err != nil {
		return err
	}
	if _, err := os.Stat(assay); err != nil {
		return fmt.Errorf("%w; call make bench from the root of the repository", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cache, err := filepath.Abs(cacheFolder)
	if err != nil {
		return err
	}
	c.programs = []program{assayProgram(assay), bareProgram(self, thousand)}
	touchstone, err := installPeer(ctx, cache)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		fmt.Fprintf(log, "%s cannot be installed, so every row about it is left out: %v\n", peer, err)
	default:
		c.programs = append(c.programs, touchstoneProgram(touchstone))
	}
	return nil
}

// makeBeds makes a bed in memory, where there is such a file system, and one on the disk.
func (c *comparison) makeBeds(log io.Writer) error {
	places := []struct{ name, dir string }{{tmpfs, "/dev/shm"}, {disk, cacheFolder}}
	for _, at := range places {
		if info, err := os.Stat(at.dir); at.name == tmpfs && (err != nil || !info.IsDir()) {
			fmt.Fprintf(log, "%s is not there, so every row about %s is left out\n", at.dir, at.name)
			continue
		}
		dir, err := filepath.Abs(at.dir)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		b, err := newBed(at.name, dir)
		if b.root != "" {
			c.beds = append(c.beds, &b)
		}
		if err == nil {
			err = thousand.write(b.tree)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *comparison) removeBeds() error {
	var errs []error
	for _, b := range c.beds {
		errs = append(errs, os.RemoveAll(b.root))
	}
	return errors.Join(errs...)
}

// The names of beds and jobs.
const (
	tmpfs  = "tmpfs"
	disk   = "disk"
	start  = "cold start"
	echo   = "echo cells"
	resume = "resume"
)

// measure lets the programs take turns. The first round warms up and does not count. Who begins changes from round to
// round, so that nobody always follows the same one.
func (c *comparison) measure(ctx context.Context, log io.Writer) error {
	for round := range c.rounds + 1 {
		fmt.Fprintf(log, "round %d of %d\n", round, c.rounds)
		for _, b := range c.beds {
			for i := range c.programs {
				p := c.programs[(i+round)%len(c.programs)]
				taken, err := c.turn(ctx, b, p)
				if err != nil {
					return err
				}
				if round == 0 {
					continue
				}
				for of, s := range taken {
					c.samples[of] = append(c.samples[of], s)
				}
			}
		}
	}
	return nil
}

// turn measures everything that one program does on one bed.
func (c *comparison) turn(ctx context.Context, b *bed, p program) (map[series]sample, error) {
	taken := map[series]sample{}
	for _, jobs := range []int{1, 2} {
		s, err := b.fresh(ctx, p, jobs, thousand.cells())
		if err != nil {
			return nil, err
		}
		taken[series{p.name, echo, b.name, jobs}] = s
	}
	if p.again != nil {
		s, err := b.resume(ctx, p, thousand.cells())
		if err != nil {
			return nil, err
		}
		taken[series{p.name, resume, b.name, 0}] = s
	}
	if p.help != nil {
		s, err := b.take(ctx, p, p.help)
		if err != nil {
			return nil, err
		}
		taken[series{p.name, start, b.name, 0}] = s
	}
	return taken, nil
}

// bars are the ratios that assay is held to, as far as both sides were measured. Those of speed are cells per second over
// cells per second; the others are assay's time or memory over the peer's.
func (c *comparison) bars() []bar {
	var bars []bar
	add := func(what string, ratios []float64, atLeast bool, limit float64) {
		if len(ratios) > 0 {
			bars = append(bars, bar{what: what, values: ratios, atLeast: atLeast, limit: limit})
		}
	}
	add("cold start / touchstone's", ratios(c.wall("assay", start, c.beds[0].name, 0), c.wall("touchstone", start, c.beds[0].name, 0)), false, 0.1)
	add("resume with nothing to do / touchstone's, tmpfs", ratios(c.wall("assay", resume, tmpfs, 0), c.wall("touchstone", resume, tmpfs, 0)), false, 0.2)
	one, two := c.wall("touchstone", echo, tmpfs, 1), c.wall("touchstone", echo, tmpfs, 2)
	add("cells/s / touchstone's, tmpfs, --jobs 1", ratios(one, c.wall("assay", echo, tmpfs, 1)), true, 2.5)
	add("cells/s / touchstone's better, tmpfs, --jobs 2", ratios(lesser(one, two), c.wall("assay", echo, tmpfs, 2)), true, 5)
	for _, bed := range []string{tmpfs, disk} {
		for _, jobs := range []int{1, 2} {
			perRound := ratios(c.wall("bare loop", echo, bed, jobs), c.wall("assay", echo, bed, jobs))
			add(fmt.Sprintf("cells/s / the bare loop's, %s, --jobs %d", bed, jobs), perRound, true, 0.5)
		}
	}
	for _, jobs := range []int{1, 2} {
		perRound := ratios(c.peak("assay", echo, tmpfs, jobs), c.peak("touchstone", echo, tmpfs, jobs))
		add(fmt.Sprintf("peak memory / touchstone's, tmpfs, --jobs %d", jobs), perRound, false, 1)
	}
	return bars
}

// wall gives the seconds of a series, one a round; nil when it was not measured.
func (taken samples) wall(program, job, bed string, jobs int) []float64 {
	var out []float64
	for _, s := range taken[series{program, job, bed, jobs}] {
		out = append(out, s.wall.Seconds())
	}
	return out
}

// peak gives the bytes of memory of a series, one a round.
func (taken samples) peak(program, job, bed string, jobs int) []float64 {
	var out []float64
	for _, s := range taken[series{program, job, bed, jobs}] {
		out = append(out, float64(s.peak))
	}
	return out
}

// ratios divides round by round; it is empty when one side was not measured.
func ratios(over, under []float64) []float64 {
	if len(over) != len(under) {
		return nil
	}
	out := make([]float64, len(over))
	for i := range over {
		out[i] = over[i] / under[i]
	}
	return out
}

// lesser takes the lesser of each round.
func lesser(a, b []float64) []float64 {
	out := slices.Clone(a)
	for i := range min(len(a), len(b)) {
		out[i] = min(a[i], b[i])
	}
	return out
}
