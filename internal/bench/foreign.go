package bench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
)

// Runs are the cells of a benchmark.json that another program wrote: of it nothing but runs[] and missing[] is read, and of
// these what says which cell it was and how it ended.
type Runs struct {
	cells   []plan.Cell
	results []result.Result
}

// ReadRuns reads such a file. A run needs a case and a status; what it does not say of harness, model and condition is "none".
// It refuses a status that there is not, and two runs of one cell. A cell of missing[] was planned, and has no result.
func ReadRuns(r io.Reader) (Runs, error) {
	limited := &io.LimitedReader{R: r, N: maxFile}
	var file struct {
		Runs, Missing []struct {
			Case, Harness, Model, Condition, Phase, Status, Class string
			Trial                                                 int
		}
	}
	if err := json.NewDecoder(limited).Decode(&file); err != nil {
		return Runs{}, fmt.Errorf("read runs: %w", err)
	}
	if len(file.Runs) == 0 {
		return Runs{}, errors.New("read runs: there are none")
	}
	if len(file.Runs)+len(file.Missing) > mostOfArm*mostArms {
		return Runs{}, fmt.Errorf("read runs: more than %d", mostOfArm*mostArms)
	}
	var out Runs
	seen := make(map[plan.Cell]bool)
	for i, x := range slices.Concat(file.Runs, file.Missing) {
		c := plan.Cell{
			Case: x.Case, Harness: cmp.Or(x.Harness, "none"), Model: cmp.Or(x.Model, "none"), Condition: cmp.Or(x.Condition, "none"),
			Trial: x.Trial, Phase: x.Phase,
		}
		if c.Phase == screenPhase {
			c.Phase = ""
		}
		status, isRun := result.Status(x.Status), i < len(file.Runs)
		switch {
		case c.Case == "":
			return Runs{}, fmt.Errorf("read runs: run %d names no case", i+1)
		case c.Phase != "" && !slices.Contains(plan.Phases, c.Phase):
			return Runs{}, fmt.Errorf("read runs: %s: there is no phase %q", clip(cell(c).String()), clip(x.Phase))
		case seen[c]:
			return Runs{}, fmt.Errorf("read runs: two of %s", clip(cell(c).String()))
		case isRun && !slices.Contains([]result.Status{result.Passed, result.Failed, result.Errored, result.Skipped}, status):
			return Runs{}, fmt.Errorf("read runs: %s: there is no status %q", clip(cell(c).String()), clip(x.Status))
		}
		seen[c] = true
		out.cells = append(out.cells, c)
		if isRun || status == result.Errored || status == result.Skipped {
			out.results = append(out.results, result.Result{Cell: c, Status: status, Class: result.Class(x.Class)})
		}
	}
	return out, nil
}

// A Source is one side of a comparison of files: a benchmark of Assay, or the runs of another program.
type Source struct {
	Benchmark *Benchmark
	Runs      *Runs
}

// ErrNoCommonArm says that two files have no arm in common, so that nothing can be compared.
var ErrNoCommonArm = errors.New("no arm (harness, model and condition) is on both sides")

// Compare sets every arm of head against the same arm of base and decides, under the settings of head. One arm on each side
// always pairs. Of runs without a plan every trial of a case is taken to have been planned that the other side has of it. g
// are the settings of a head that has none; origin says where base came from. It returns both sides.
func Compare(base, head Source, g result.Gate, origin Origin) (from, to Benchmark, err error) {
	if from, err = base.planned(head, g); err != nil {
		return from, to, fmt.Errorf("BASE: %w", err)
	}
	if to, err = head.planned(base, g); err != nil {
		return from, to, fmt.Errorf("HEAD: %w", err)
	}
	lone := len(from.Arms) == 1 && len(to.Arms) == 1
	common := func(a Arm) bool {
		return slices.ContainsFunc(from.Arms, func(x Arm) bool { return x.ArmID == a.ArmID })
	}
	if !lone && !slices.ContainsFunc(to.Arms, common) {
		return from, to, ErrNoCommonArm
	}
	to.Comparisons = nil // what head compared with itself is not asked for
	return from, to.Against(Stored{Benchmark: &from, Origin: origin, lone: lone}), nil
}

// planned is the benchmark of a source, given the other one.
func (s Source) planned(other Source, g result.Gate) (Benchmark, error) {
	if s.Benchmark != nil {
		return *s.Benchmark, nil
	}
	cells := s.Runs.cells
	has := make(map[plan.Cell]bool, len(cells))
	cases := make(map[plan.Slot]bool)
	arms := make(map[plan.Arm]bool)
	for _, c := range cells {
		has[c], cases[plan.Slot{Case: c.Case, Arm: c.Arm()}], arms[c.Arm()] = true, true, true
	}
	theirs := other.screen()
	lone := len(arms) == 1 && !slices.ContainsFunc(theirs, func(c plan.Cell) bool { return c.Arm() != theirs[0].Arm() })
	for _, c := range theirs {
		if lone {
			c.Harness, c.Model, c.Condition = cells[0].Harness, cells[0].Model, cells[0].Condition
		}
		if cases[plan.Slot{Case: c.Case, Arm: c.Arm()}] && !has[c] {
			has[c] = true
			cells = append(slices.Clip(cells), c)
		}
	}
	return s.Runs.benchmark(cells, g)
}

// screen are the cells of the screen that the source tells of, without keys.
func (s Source) screen() []plan.Cell {
	var out []plan.Cell
	add := func(name string, a ArmID, trial int) {
		out = append(out, plan.Cell{Case: name, Harness: a.Harness, Model: a.Model, Condition: a.Condition, Trial: trial})
	}
	if s.Runs != nil {
		return slices.DeleteFunc(slices.Clone(s.Runs.cells), func(c plan.Cell) bool { return c.Phase != "" })
	}
	for _, r := range s.Benchmark.Runs {
		if r.Phase != ConfirmPhase {
			add(r.Case, r.Arm(), r.Trial)
		}
	}
	for _, m := range s.Benchmark.Missing {
		if m.Trial <= s.Benchmark.Metadata.RunsPerConfiguration { // those behind it are fresh ones
			add(m.Case, m.Arm(), m.Trial)
		}
	}
	return out
}

// benchmark makes a benchmark of the planned cells. It has no fingerprint: nobody said what was measured, and how.
func (f Runs) benchmark(planned []plan.Cell, g result.Gate) (Benchmark, error) {
	m := result.Manifest{Gate: g, Cells: planned}
	for _, c := range planned {
		if !slices.ContainsFunc(m.Harnesses, func(h result.Harness) bool { return h.ID == c.Harness }) {
			m.Harnesses = append(m.Harnesses, result.Harness{ID: c.Harness})
		}
		if !slices.ContainsFunc(m.Conditions, func(x result.Condition) bool { return x.ID == c.Condition }) {
			m.Conditions = append(m.Conditions, result.Condition{ID: c.Condition})
		}
	}
	b, err := Make(m, func(yield func(result.Result, error) bool) {
		for _, r := range f.results {
			if !yield(r, nil) {
				return
			}
		}
	})
	if err != nil {
		return b, err
	}
	b.Fingerprint = Fingerprint{}
	return b, b.sound()
}
