package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// A bar is a limit that assay is held to.
type bar struct {
	what    string
	values  []float64 // one a round
	atLeast bool      // or at most
	limit   float64
	seconds bool // absolute: judged by the least of its rounds, since whatever else the machine does only adds to it
}

// The judgements of a bar.
const (
	met       = "met"
	missed    = "MISSED"
	undecided = "undecided"
)

// judge holds the median against the limit. One that is on the wrong side by less than the interquartile range of its
// rounds is undecided.
func (b bar) judge() string {
	judged := quantile(b.values, 0.5)
	if b.seconds {
		judged = slices.Min(b.values)
	}
	short := b.limit - judged
	if !b.atLeast {
		short = -short
	}
	switch {
	case short <= 0:
		return met
	case short < quantile(b.values, 0.75)-quantile(b.values, 0.25):
		return undecided
	}
	return missed
}

// quantile interpolates between the two nearest of the sorted values. values must not be empty.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	below, part := math.Modf(at)
	i := int(below)
	if part == 0 {
		return sorted[i]
	}
	return sorted[i] + part*(sorted[i+1]-sorted[i])
}

// spread prints the least, the median and the largest value.
func spread(values []float64, format string) string {
	return fmt.Sprintf(format+"\t"+format+"\t"+format, slices.Min(values), quantile(values, 0.5), slices.Max(values))
}

// printFigures prints what was measured. These are context: only their ratios are held against anything.
func (c *comparison) printFigures(out io.Writer) {
	fmt.Fprintf(out, "%v; %d rounds\n\n", thousand, c.rounds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "bed\tjob\tjobs\tprogram\tms min\tmedian\tmax\tcells/s\tpeak MiB\t")
	for _, b := range c.beds {
		for _, at := range []struct {
			job  string
			jobs int
		}{{echo, 1}, {echo, 2}, {resume, 0}, {start, 0}} {
			for _, p := range c.programs {
				seconds := c.wall(p.name, at.job, b.name, at.jobs)
				if len(seconds) == 0 {
					continue
				}
				jobs, rate := "-", "-"
				if at.jobs > 0 {
					jobs, rate = fmt.Sprint(at.jobs), fmt.Sprintf("%.0f", float64(thousand.cells())/quantile(seconds, 0.5))
				}
				milliseconds := make([]float64, len(seconds))
				for i, s := range seconds {
					milliseconds[i] = s * 1000
				}
				peak := quantile(c.peak(p.name, at.job, b.name, at.jobs), 0.5) / (1 << 20)
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%.1f\t\n", b.name, at.job, jobs, p.name, spread(milliseconds, "%.1f"), rate, peak)
			}
		}
	}
	w.Flush()
}

// printBars prints what was measured, all of it in one unit, beside the bars. The error says that one was missed.
func printBars(out io.Writer, unit string, bars []bar) error {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\tmin\tmedian\tmax\tbar\t\t\n", unit)
	misses := 0
	for _, b := range bars {
		sign := "≤"
		if b.atLeast {
			sign = "≥"
		}
		judged := b.judge()
		if judged == missed {
			misses++
		}
		fmt.Fprintf(w, "%s\t%s\t%s %g\t%s\t\n", b.what, spread(b.values, "%.3f"), sign, b.limit, judged)
	}
	w.Flush()
	if misses > 0 {
		return errors.New("a bar was missed")
	}
	return nil
}
