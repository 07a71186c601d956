package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-ci/assay/internal/suite"
)

// format is the version of the key's definition. Raising it makes every cell run again.
const format = 1

// A Selection narrows a suite and tells what the suite's files do not hold. Patterns are those of path.Match; an empty
// list selects everything.
type Selection struct {
	Cases, Harnesses, Models, Conditions []string

	Trials   int               // 0: as the cases say
	Seed     string            // empty: from the suite's digest
	Executor string            // kind of the executor
	Versions map[string]string // version of the agent, by harness id
	Rules    string            // version of the rules that measure and grade
	Images   map[string]string // id of the image of a case's environment, by case
}

// Takes tells whether a case is selected.
func (sel Selection) Takes(id string) bool { return selects(sel.Cases, id) }

// A Plan is the list of cells of one run, in the order in which they should run.
type Plan struct {
	Seed  string `json:"seed"`
	Cells []Cell `json:"cells"`
}

// Expand lists the cells of the suite that sel selects, in seeded random order: all first trials before all second ones,
// so that a spent budget costs every case alike, and the conditions of one case and trial side by side, so that drift of
// a provider hits them alike. Each position follows from a digest of the cell's own coordinates: adding a case moves no
// other pair. A pattern that selects nothing is an error.
func Expand(s *suite.Suite, sel Selection) (*Plan, error) {
	if err := sel.check(s); err != nil {
		return nil, err
	}
	seed := sel.Seed
	if seed == "" {
		seed = strings.TrimPrefix(s.Digest, "sha256:")
		seed = seed[:min(16, len(seed))]
	}
	var cells []Cell
	for _, h := range s.Harnesses {
		if !selects(sel.Harnesses, h.ID) {
			continue
		}
		fixed := newInput(s, h, sel)
		for _, m := range h.Models {
			if !selects(sel.Models, m) {
				continue
			}
			for _, c := range s.Cases {
				if sel.Takes(c.ID) {
					cells = append(cells, caseCells(s, sel, fixed, c, h.ID, m)...)
				}
			}
		}
	}
	order(cells, seed)
	return &Plan{Seed: seed, Cells: cells}, nil
}

// caseCells lists the cells of one case under one harness and model.
func caseCells(s *suite.Suite, sel Selection, in input, c suite.Case, harness, model string) []Cell {
	trials := c.Trials
	if sel.Trials > 0 {
		trials = sel.Trials
	}
	var cells []Cell
	for _, cond := range s.Conditions {
		if cond.Spare || !selects(sel.Conditions, cond.ID) {
			continue
		}
		in.Condition = cond.Digest
		for t := 1; t <= trials; t++ {
			in.Cell = Cell{Case: c.ID, Harness: harness, Model: model, Condition: cond.ID, Trial: t}
			cells = append(cells, in.cell(c, sel))
		}
	}
	return cells
}

// cell is the cell of the input with its keys.
func (in input) cell(c suite.Case, sel Selection) Cell {
	in.Case, in.Image = c.AgentDigest, sel.Images[c.ID]
	cell := in.Cell
	cell.Key = digest(in)
	cell.GradeKey = digest(struct{ Key, Grade, Rules string }{cell.Key, c.GradeDigest, sel.Rules})
	return cell
}

// A Slot is one case in one arm.
type Slot struct {
	Case string
	Arm
}

// Again lists fresh trials of slots of the plan, in the order in which they should run: so many of each, counted on from the
// last trial of the case. A slot that is named twice is run once; one that the suite does not have is left out.
func (p *Plan) Again(s *suite.Suite, sel Selection, slots []Slot, trials int) []Cell {
	last := make(map[string]int)
	for _, c := range p.Cells {
		last[c.Case] = max(last[c.Case], c.Trial)
	}
	wanted := make(map[Slot]bool)
	for _, slot := range slots {
		wanted[slot] = true
	}
	var cells []Cell
	for _, h := range s.Harnesses {
		in := newInput(s, h, sel)
		for _, m := range h.Models {
			for _, c := range s.Cases {
				for _, cond := range s.Conditions {
					if !wanted[Slot{c.ID, Arm{h.ID, m, cond.ID}}] {
						continue
					}
					in.Condition = cond.Digest
					for t := 1; t <= trials; t++ {
						in.Cell = Cell{Case: c.ID, Harness: h.ID, Model: m, Condition: cond.ID, Trial: last[c.ID] + t, Phase: Confirm}
						cells = append(cells, in.cell(c, sel))
					}
				}
			}
		}
	}
	order(cells, p.Seed)
	return cells
}

// Twins lists the wanted cells of the plan once more, in their order, with the base version of their condition and the given
// phase. Cells whose condition has none are left out.
func (p *Plan) Twins(s *suite.Suite, sel Selection, phase string, wanted func(Cell) bool) []Cell {
	inputs, cases, twins := make(map[string]input), make(map[string]suite.Case), make(map[string]suite.Condition)
	for _, h := range s.Harnesses {
		inputs[h.ID] = newInput(s, h, sel)
	}
	for _, c := range s.Cases {
		cases[c.ID] = c
	}
	for _, c := range s.Conditions {
		if c.TwinOf != "" {
			twins[c.TwinOf] = c
		}
	}
	var cells []Cell
	for _, c := range p.Cells {
		twin, ok := twins[c.Condition]
		if !ok || !wanted(c) {
			continue
		}
		in := inputs[c.Harness]
		in.Condition = twin.Digest
		in.Cell = Cell{Case: c.Case, Harness: c.Harness, Model: c.Model, Condition: twin.ID, Trial: c.Trial, Phase: phase}
		cells = append(cells, in.cell(cases[c.Case], sel))
	}
	return cells
}

// input is what a key is made of: everything that may change what the agent does. Paths, times, ports, host names and
// the order of things are never in it.
type input struct {
	Format      int
	Cell        Cell
	Case        string
	Condition   string
	Harness     json.RawMessage
	Version     string
	Interaction json.RawMessage
	Executor    string
	Image       string `json:",omitempty"` // of the case; left out where it has none, so that older keys stay what they were
}

// newInput is what all cells of a harness share.
func newInput(s *suite.Suite, h suite.Harness, sel Selection) input {
	return input{
		Format: format, Harness: h.Block.Canonical(), Version: sel.Versions[h.ID],
		Interaction: json.RawMessage(s.Interaction.Canonical()), Executor: sel.Executor,
	}
}

func digest(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, numbers and canonical JSON only
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// order sorts cells into rounds by trial, blocks by the digest of seed and block, and arms inside a block likewise.
func order(cells []Cell, seed string) {
	type place struct{ block, arm string }
	places := make(map[Cell]place, len(cells))
	for _, c := range cells {
		block := strings.Join([]string{c.Case, c.Harness, c.Model, strconv.Itoa(c.Trial)}, "\x00")
		places[c] = place{hash(seed, block), hash(seed, block, c.Condition)}
	}
	slices.SortFunc(cells, func(a, b Cell) int {
		if a.Trial != b.Trial {
			return a.Trial - b.Trial
		}
		pa, pb := places[a], places[b]
		if c := strings.Compare(pa.block, pb.block); c != 0 {
			return c
		}
		return strings.Compare(pa.arm, pb.arm)
	})
}

func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return string(sum[:])
}

// Part returns the cells of one shard, written i/n with i counted from 1; an empty shard is the whole. All cells of a case
// stay in one shard, so its pairs share clock and machine; the largest cases are dealt first, each to the shard that
// holds the fewest cells.
func Part(cells []Cell, shard string) ([]Cell, error) {
	if shard == "" {
		return cells, nil
	}
	is, ns, ok := strings.Cut(shard, "/")
	i, err1 := strconv.Atoi(is)
	n, err2 := strconv.Atoi(ns)
	if !ok || err1 != nil || err2 != nil || i < 1 || i > n || n > maxShards {
		return nil, fmt.Errorf("%q is no shard; it is i/n with 1 ≤ i ≤ n ≤ %d, such as 2/4", shard, maxShards)
	}
	home := deal(cells, n)
	return slices.DeleteFunc(slices.Clone(cells), func(c Cell) bool { return home[c.Case] != i-1 }), nil
}

// maxShards is how many jobs one matrix of GitHub holds.
const maxShards = 256

// deal gives each case one of n shards, counted from 0.
func deal(cells []Cell, n int) map[string]int {
	sizes := map[string]int{}
	for _, c := range cells {
		sizes[c.Case]++
	}
	cases := slices.SortedFunc(maps.Keys(sizes), func(a, b string) int {
		return cmp.Or(sizes[b]-sizes[a], strings.Compare(a, b))
	})
	load := make([]int, n)
	home := map[string]int{}
	for _, id := range cases {
		least := slices.Index(load, slices.Min(load))
		home[id] = least
		load[least] += sizes[id]
	}
	return home
}

// maxTrials is how many trials a suite may ask for as well.
const maxTrials = 1000

// check finds patterns that select nothing: a typo must not shrink a benchmark.
func (sel Selection) check(s *suite.Suite) error {
	if sel.Trials < 0 || sel.Trials > maxTrials {
		return fmt.Errorf("%d trials cannot be planned; 1 to %d can", sel.Trials, maxTrials)
	}
	var cases, harnesses, models, conditions []string
	for _, c := range s.Cases {
		cases = append(cases, c.ID)
	}
	for _, h := range s.Harnesses {
		harnesses = append(harnesses, h.ID)
		models = append(models, h.Models...)
	}
	for _, c := range s.Conditions {
		if !c.Spare {
			conditions = append(conditions, c.ID)
		}
	}
	for _, f := range []struct {
		what     string
		patterns []string
		have     []string
	}{
		{"case", sel.Cases, cases},
		{"harness", sel.Harnesses, harnesses},
		{"model", sel.Models, models},
		{"condition", sel.Conditions, conditions},
	} {
		for _, p := range f.patterns {
			if !slices.ContainsFunc(f.have, func(id string) bool { return selects([]string{p}, id) }) {
				slices.Sort(f.have)
				return fmt.Errorf("no %s matches %q; the suite has %s", f.what, p, strings.Join(slices.Compact(f.have), ", "))
			}
		}
	}
	return nil
}

// selects tells whether id matches one of the patterns, or there are none.
func selects(patterns []string, id string) bool {
	if len(patterns) == 0 {
		return true
	}
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, id)
		return p == id || err == nil && ok
	})
}
