package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// stagesBinary holds the Go benchmark of the stages of diff scope, below the root of the repository.
const stagesBinary = "bin/diffscope.test"

// The programs that measure a pair. The stages are those of one cell, in one process.
const (
	assayDiff = "assay diff"
	gitDiff   = "git diff --no-index"
	gitAdd    = "git add, git diff"
)

// What git is told: nothing of this user's settings, and no renames, as assay has none. gitAddScript does what two
// snapshots and a comparison are, in a new repository below $1.
const (
	gitQuiet      = `export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1; `
	gitDiffScript = gitQuiet + `git diff --no-index --no-renames --numstat before after; test $? = 1`
	gitAddScript  = gitQuiet + `set -e; export GIT_DIR="$1/.git"
		git init -q; git --work-tree=before add -A; tree=$(git write-tree)
		git --work-tree=after add -A; git diff --cached --no-renames --numstat "$tree"`
)

// A diffing is a run of measureDiff under way.
type diffing struct {
	assay, stages string // programs
	bed           bed
	pairs         []pair
	rounds        int
	samples
}

// measureDiff measures diff scope beside git, and prints what came out. The error says that a bar was missed, that
// something could not be measured, or that a number was wrong.
func measureDiff(ctx context.Context, rounds int, out, log io.Writer) error {
	if rounds < leastRounds {
		return fmt.Errorf("%w: at least %d rounds", errUsage, leastRounds)
	}
	d := &diffing{rounds: rounds, pairs: []pair{small, medium, large, edited, shuffled}, samples: samples{}}
	err := d.prepare()
	if err == nil {
		err = d.measure(ctx, log)
	}
	if d.bed.root != "" {
		err = errors.Join(err, os.RemoveAll(d.bed.root))
	}
	if err != nil {
		return err
	}
	d.printFigures(out)
	return errors.Join(
		printBars(out, "ms", d.times()), printBars(out, "MiB", d.memory()), printBars(out, "ratio", d.ratios()))
}

// prepare finds the programs and writes the pairs.
func (d *diffing) prepare() error {
	for name, program := range map[string]*string{assayBinary: &d.assay, stagesBinary: &d.stages} {
		path, err := filepath.Abs(name)
		if err != nil {
			return err
		}
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%w; call make bench from the root of the repository", err)
		}
		*program = path
	}
	if _, err := exec.LookPath("git"); err != nil {
		return fmt.Errorf("git is what diff scope is measured against: %w", err)
	}
	name, dir := tmpfs, "/dev/shm"
	if _, err := os.Stat(dir); err != nil {
		name, dir = disk, os.TempDir()
	}
	var err error
	if d.bed, err = newBed(name, dir); err != nil {
		return err
	}
	for _, p := range d.pairs {
		side := func(name string) string { return filepath.Join(d.bed.tree, p.name, name) }
		if err := p.write(side("before"), side("after")); err != nil {
			return err
		}
	}
	return nil
}

// measure lets the programs take turns, as compare does.
func (d *diffing) measure(ctx context.Context, log io.Writer) error {
	for round := range d.rounds + 1 {
		fmt.Fprintf(log, "round %d of %d\n", round, d.rounds)
		for _, p := range d.pairs {
			taken, err := d.turn(ctx, p, round)
			if err != nil {
				return err
			}
			if round == 0 {
				continue
			}
			for of, s := range taken {
				d.samples[of] = append(d.samples[of], s)
			}
		}
	}
	return nil
}

// turn measures one pair with every program, and fails when their numbers do not fit together.
func (d *diffing) turn(ctx context.Context, p pair, round int) (map[series]sample, error) {
	taken := map[series]sample{}
	var assay, git counts
	var approximate bool
	programs := []func() (err error){
		func() (err error) { assay, approximate, err = d.takeAssay(ctx, p, taken); return },
		func() (err error) { git, err = d.takeGit(ctx, p, gitDiff, gitDiffScript, taken); return },
	}
	if p.tree {
		programs = append(programs,
			func() error { return d.takeStages(ctx, p, taken) },
			func() error { return d.takeGitAdd(ctx, p, taken) },
		)
	}
	for i := range programs {
		if err := programs[(i+round)%len(programs)](); err != nil {
			return nil, err
		}
	}
	return taken, p.check(assay, git, approximate)
}

// takeAssay measures assay diff.
func (d *diffing) takeAssay(ctx context.Context, p pair, taken map[series]sample) (counts, bool, error) {
	var scope struct {
		Files       int  `json:"files_touched"`
		Added       int  `json:"lines_added"`
		Removed     int  `json:"lines_removed"`
		Approximate bool `json:"approximate"`
	}
	text, err := d.take(ctx, p, assayDiff, []string{d.assay, "diff", "--json", "before", "after"}, taken)
	if err == nil {
		err = json.Unmarshal(text, &scope)
	}
	return counts{scope.Files, scope.Added, scope.Removed}, scope.Approximate, err
}

// takeGitAdd measures git add and git diff, which must say what was changed too.
func (d *diffing) takeGitAdd(ctx context.Context, p pair, taken map[series]sample) error {
	got, err := d.takeGit(ctx, p, gitAdd, gitAddScript, taken)
	if err == nil && got.files != p.want.files {
		err = fmt.Errorf("%s: %s counts %+v, and %+v was changed", p.what, gitAdd, got, p.want)
	}
	return err
}

// takeGit measures a script that ends with a git diff --numstat.
func (d *diffing) takeGit(ctx context.Context, p pair, program, script string, taken map[series]sample) (counts, error) {
	if err := d.bed.clear(); err != nil {
		return counts{}, err
	}
	text, err := d.take(ctx, p, program, []string{"sh", "-c", script, "sh", d.bed.out}, taken)
	if err != nil {
		return counts{}, err
	}
	return parseNumstat(string(text))
}

func parseNumstat(text string) (counts, error) {
	var sum counts
	for line := range strings.Lines(text) {
		var c counts
		if _, err := fmt.Sscanf(line, "%d\t%d\t", &c.added, &c.removed); err != nil {
			return sum, fmt.Errorf("git diff --numstat: %q: %w", line, err)
		}
		sum = counts{sum.files + 1, sum.added + c.added, sum.removed + c.removed}
	}
	return sum, nil
}

// takeStages runs the Go benchmark once, in a process of its own, as a cell would find it: with nothing warm but the disk.
func (d *diffing) takeStages(ctx context.Context, p pair, taken map[series]sample) error {
	text, err := d.take(ctx, p, "stages", []string{d.stages, "-before=before", "-after=after",
		"-test.run=^$", "-test.bench=^BenchmarkStages$", "-test.benchtime=1x"}, taken)
	if err != nil {
		return err
	}
	stages, got, err := parseStages(string(text))
	if err == nil && got != p.want {
		err = fmt.Errorf("%s: in one process assay counts %+v, and %+v was changed: its time means nothing", p.what, got, p.want)
	}
	for stage, wall := range stages {
		taken[series{program: stage, job: p.name}] = sample{wall: wall}
	}
	return err
}

// parseStages reads the time of each stage, and what the diff counted.
func parseStages(text string) (map[string]time.Duration, counts, error) {
	stages := map[string]time.Duration{}
	var got counts
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "BenchmarkStages/") {
			continue
		}
		_, name, _ := strings.Cut(fields[0], "/")
		stage, _, _ := strings.Cut(name, "-") // what follows is the number of processors
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, got, fmt.Errorf("the benchmark of the stages printed %q: %w", line, err)
			}
			switch fields[i+1] {
			case "ns/op":
				stages[stage] = time.Duration(value)
			case "files":
				got.files = int(value)
			case "added":
				got.added = int(value)
			case "removed":
				got.removed = int(value)
			}
		}
	}
	for _, stage := range stageNames {
		if stages[stage] == 0 {
			return nil, got, fmt.Errorf("the benchmark of the stages left out %s:\n%s", stage, text)
		}
	}
	return stages, got, nil
}

// take measures one command in the folder of a pair, and returns what it printed.
func (d *diffing) take(ctx context.Context, p pair, name string, argv []string, taken map[series]sample) ([]byte, error) {
	s, err := d.bed.take(ctx, program{name: name, dir: p.name}, argv)
	if err != nil {
		return nil, err
	}
	taken[series{program: name, job: p.name}] = s
	return os.ReadFile(d.bed.log)
}

// stageNames are the stages that the benchmark measures: a first snapshot, a second one, what comes after it (the
// comparison and the patch), and all of them as a cell has them.
var stageNames = []string{"snapshot", "again", "diff", "cell"}

// times are the bars in milliseconds, of stages in one process and of whole commands.
func (d *diffing) times() []bar {
	at := func(program string, p pair, limit float64) bar {
		return bar{what: program + ", " + p.what, values: d.milliseconds(program, p), limit: limit, seconds: true}
	}
	return []bar{
		at("cell", small, 5),
		at("snapshot", medium, 150),
		at("diff", medium, 10),
		at("snapshot", large, 1000),
		at("diff", large, 50),
		at(assayDiff, edited, 1000),
		at(assayDiff, shuffled, 10_000),
	}
}

// memory are the bars in MiB, of whole commands. That of the large pair keeps two trees.
func (d *diffing) memory() []bar {
	at := func(p pair, limit float64) bar {
		return bar{what: assayDiff + ", " + p.what, values: d.mebibytes(assayDiff, p), limit: limit}
	}
	return []bar{at(large, 256), at(edited, 512), at(shuffled, 512)}
}

// ratios are the bars of whole commands: assay's time over git's. On the small pair that is the start of a program, and
// assay is the larger one; a run starts it once for all of its cells.
func (d *diffing) ratios() []bar {
	at := func(git string, p pair, limit float64) bar {
		values := ratios(d.wall(assayDiff, p.name, "", 0), d.wall(git, p.name, "", 0))
		return bar{what: fmt.Sprintf("%s / %s, %s", assayDiff, git, p.what), values: values, limit: limit}
	}
	return []bar{
		at(gitAdd, small, 1),
		at(gitAdd, medium, 0.5),
		at(gitAdd, large, 0.5),
		at(gitDiff, small, 5),
		at(gitDiff, medium, 1),
		at(gitDiff, large, 1.5),
		at(gitDiff, edited, 3),
		at(gitDiff, shuffled, 0.5),
	}
}

func (d *diffing) milliseconds(program string, p pair) []float64 {
	return scale(d.wall(program, p.name, "", 0), 1000)
}

func (d *diffing) mebibytes(program string, p pair) []float64 {
	return scale(d.peak(program, p.name, "", 0), 1.0/(1<<20))
}

func scale(values []float64, by float64) []float64 {
	for i := range values {
		values[i] *= by
	}
	return values
}

// printFigures prints everything that was measured.
func (d *diffing) printFigures(out io.Writer) {
	fmt.Fprintf(out, "diff scope; %s; %d rounds\n\n", d.bed.name, d.rounds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "pair\tprogram or stage\tms min\tmedian\tmax\tpeak MiB\t")
	for _, p := range d.pairs {
		for _, program := range append([]string{assayDiff, gitDiff, gitAdd}, stageNames...) {
			milliseconds, peak := d.milliseconds(program, p), "-"
			if len(milliseconds) == 0 {
				continue
			}
			if mebibytes := quantile(d.mebibytes(program, p), 0.5); mebibytes > 0 {
				peak = fmt.Sprintf("%.1f", mebibytes)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t\n", p.what, program, spread(milliseconds, "%.1f"), peak)
		}
	}
	w.Flush()
}
