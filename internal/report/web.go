package report

import (
	"bytes"
	"cmp"
	"compress/gzip"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"unicode/utf16"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/result"
)

//go:embed page.js
var pageJS string

// How large report.html may become, and what is kept together in it, in bytes.
const (
	pageBudget  = 9_900_000 // a page stays below 10 MiB
	shelfSize   = 384 << 10 // of the pages of cells that are packed together, before packing
	smallBlock  = 16 << 10  // what is smaller is not packed
	cellsAtOnce = 256       // that are read before they are packed
)

// Over gives all pages of a benchmark whose details are d: those that can show cells do.
func Over(d Details) []Face {
	all := slices.Clone(Faces)
	for i := range all {
		if all[i].Name == "html" {
			all[i].Write = inOne(func(b bench.Benchmark) ([]byte, error) { return HTMLOver(b, d) })
		}
	}
	return all
}

// A grid is what the page's script shows of a benchmark: names and numbers, and where the page of each cell is. Its rows are
// the cases, its columns the arms.
type grid struct {
	Arms    []gridArm  `json:"arms"`
	Cases   []string   `json:"cases"`
	Changed [][]string `json:"changed"` // of each case, by arm: worse, better or empty
	// Of each case, by arm: passed and scored trials, median cost, seconds and lines changed; null is not known.
	Numbers [][][5]*float64 `json:"numbers"`
	Phases  []string        `json:"phases"`
	States  []string        `json:"states"` // status, and the class or reason behind a blank
	Cells   [][7]int        `json:"cells"`  // case, arm, trial, phase, state, shelf or -1, place on the shelf
	Cut     string          `json:"cut"`    // which cells have no page here
}

type gridArm struct {
	Name      string   `json:"name"`
	Condition string   `json:"condition"`
	Parts     []string `json:"parts"` // harness, model and condition
	Baseline  bool     `json:"baseline"`
}

// A gridCell is a cell of the grid with what is known of it.
type gridCell struct {
	run  *bench.Run
	rank int // who comes first when there is no room for all
	row  [7]int
}

// newGrid lays the cells of a benchmark out, and gives them in the order in which they get their pages.
func newGrid(b bench.Benchmark) (grid, []*gridCell) {
	g := grid{Cases: []string{}, Phases: []string{"screen"}, States: []string{}}
	for _, a := range b.Arms {
		g.Arms = append(g.Arms, gridArm{plainName(a.Harness, a.Model, a.Condition), plainName(a.Condition), []string{shown(a.Harness, evidenceHTML), shown(a.Model, evidenceHTML), shown(a.Condition, evidenceHTML)}, a.Baseline})
	}
	arms, cases := make(map[bench.ArmID]int), make(map[string]int)
	for i, a := range b.Arms {
		arms[a.ArmID] = i
	}
	for i, name := range caseNames(b) {
		cases[name] = i
		g.Cases = append(g.Cases, plainName(name))
		g.Changed = append(g.Changed, make([]string, len(b.Arms)))
		g.Numbers = append(g.Numbers, make([][5]*float64, len(b.Arms)))
	}
	for _, c := range b.CaseArms {
		passed, scored := float64(c.Coverage.Passed), float64(c.Coverage.Scored)
		if a, ok := arms[c.ArmID]; ok {
			g.Numbers[cases[c.Case]][a] = [5]*float64{&passed, &scored, c.CostUSD, c.Duration, c.LinesChanged}
		}
	}
	fell, rose := movedCases(b)
	mark := func(list []moved, word string) {
		for _, m := range list {
			i, known := cases[m.Case]
			if a, ok := arms[m.Of.Head.ID]; ok && known {
				g.Changed[i][a] = word
			}
		}
	}
	mark(rose, "better")
	mark(fell, "worse")
	return g, g.lay(b, cases, arms, set(casesOf(fell)))
}

// lay puts the cells into the grid, in the order of its cases, arms and trials.
func (g *grid) lay(b bench.Benchmark, cases map[string]int, arms map[bench.ArmID]int, fell map[string]bool) []*gridCell {
	phases, states := map[string]int{"screen": 0}, map[string]int{}
	number := func(known map[string]int, list *[]string, name string) int {
		n, ok := known[name]
		if !ok {
			n = len(*list)
			known[name], *list = n, append(*list, name)
		}
		return n
	}
	var out []*gridCell
	ran := make(map[cellID]bool, len(b.Runs))
	put := func(r *bench.Run) {
		i, known := cases[r.Case]
		a, ok := arms[r.Arm()]
		if !known || !ok {
			return
		}
		state := number(states, &g.States, join(" ", string(r.Status), clean(cmp.Or(r.Class, r.Reason), nameSize)))
		out = append(out, &gridCell{r, rankOf(*r, fell[r.Case]), [7]int{i, a, r.Trial, number(phases, &g.Phases, clean(cmp.Or(r.Phase, "screen"), nameSize)), state, -1, 0}})
	}
	for i := range b.Runs {
		r := &b.Runs[i]
		ran[cellID{r.Case, r.Arm(), r.Trial}] = true
		put(r)
	}
	for _, m := range b.Missing {
		if !ran[cellID{m.Case, m.Arm(), m.Trial}] {
			put(&bench.Run{Case: m.Case, Harness: m.Harness, Model: m.Model, Condition: m.Condition, Trial: m.Trial,
				Status: result.Status(m.Status), Class: m.Class, Reason: m.Reason, Detail: m.Detail})
		}
	}
	slices.SortStableFunc(out, func(x, y *gridCell) int { return slices.Compare(x.row[:4], y.row[:4]) })
	return out
}

// rankOf says whose page is wanted first: cells of a case that fell, then those that did not pass, then one of each case.
func rankOf(r bench.Run, fell bool) int {
	passed := r.Status == "passed"
	switch {
	case fell && !passed:
		return 0
	case !passed:
		return 1
	case fell:
		return 2
	case r.Trial == 1:
		return 3
	}
	return 4
}

// shelve packs the pages of the cells, those first that are wanted most, into blocks that fit the room.
func (g *grid) shelve(cells []*gridCell, d Details, room int) (shelves [][]byte, err error) {
	order := slices.Clone(cells)
	slices.SortStableFunc(order, func(x, y *gridCell) int { return x.rank - y.rank })
	placed := 0
	if n := untoldOf(len(order)); d != nil && n > 0 {
		g.Cut = fmt.Sprintf("%d of %d cells are here without conversation, patch and logs: passed trials last. %s", n, len(order), theRest)
	}
	for batch := range readAhead(order, d) {
		if batch.fault != nil {
			return nil, batch.fault
		}
		for cells, pages := batch.cells, batch.pages; len(pages) > 0; {
			n := fits(pages)
			block, err := newBlock(fmt.Sprintf("cells-%d", len(shelves)), slices.Concat([]byte("["), bytes.Join(pages[:n], []byte(",\n")), []byte("]")))
			if err != nil {
				return nil, err
			}
			if room -= len(block); room < 0 {
				g.Cut = fmt.Sprintf("%d of %d cells have no page here, since the file would grow too large; those that did not pass came first. %s", len(order)-placed, len(order), theRest)
				return shelves, nil
			}
			for i, c := range cells[:n] {
				c.row[5], c.row[6] = len(shelves), i
			}
			shelves, placed = append(shelves, block), placed+n
			cells, pages = cells[n:], pages[n:]
		}
	}
	return shelves, nil
}

// untoldOf is how many of n cells are shown without their files being read. To read those of one takes as long as to read the
// records of ten, and a page of 100,000 cells may take ten seconds.
func untoldOf(n int) int { return max(0, n-max(1024, 11_264-n/10)) }

// theRest says where to look for what a page leaves out.
const theRest = "The folder of the results holds all of it, and assay trace prints it."

// untold are the details of cells whose files are not read.
type untold struct{}

func (untold) Cell(r bench.Run) (Cell, error) {
	c := brief(r)
	c.Cut = append(c.Cut, "Conversation, patch and logs are not here: the run has too many cells. "+theRest)
	return c, nil
}

// fits is how many pages go onto one shelf: at least one.
func fits(pages [][]byte) int {
	size := 0
	for i, p := range pages {
		if size += len(p); size > shelfSize && i > 0 {
			return i
		}
	}
	return len(pages)
}

// A batch is some cells with their pages.
type batch struct {
	cells []*gridCell
	pages [][]byte
	fault error
}

// readAhead makes the pages of cells, the next ones while somebody packs the last. The files of the last cells of a large run
// are not read.
func readAhead(order []*gridCell, d Details) iter.Seq[batch] {
	return func(yield func(batch) bool) {
		next := make(chan batch)
		stop := make(chan struct{})
		defer close(stop)
		send := func(b batch) bool {
			select {
			case next <- b:
				return true
			case <-stop:
				return false
			}
		}
		go func() {
			defer close(next)
			told := len(order) - untoldOf(len(order))
			for cells := range slices.Chunk(order[:told], cellsAtOnce) {
				if !send(readCells(cells, d)) {
					return
				}
			}
			if d != nil {
				d = untold{}
			}
			for cells := range slices.Chunk(order[told:], cellsAtOnce) {
				if !send(readCells(cells, d)) {
					return
				}
			}
		}()
		for b := range next {
			if !yield(b) {
				return
			}
		}
	}
}

// readCells makes the pages of cells, on all processors.
func readCells(cells []*gridCell, d Details) batch {
	pages, faults := make([][]byte, len(cells)), make([]error, len(cells))
	var readers sync.WaitGroup
	for w := range runtime.GOMAXPROCS(0) {
		readers.Go(func() {
			for i := w; i < len(cells); i += runtime.GOMAXPROCS(0) {
				pages[i], faults[i] = json.Marshal(pageOf(*cells[i].run, d))
			}
		})
	}
	readers.Wait()
	return batch{cells, pages, cmp.Or(faults...)}
}

// pageOf is all that is known of a cell; what could not be read is named on it.
func pageOf(r bench.Run, d Details) Cell {
	if d == nil || r.Phase == "" { // a cell that never ran
		return brief(r)
	}
	c, err := d.Cell(r)
	if err != nil {
		c = brief(r)
		c.Cut = append(c.Cut, "what the agent did could not be read: "+clean(err.Error(), evidenceHTML))
	}
	return c
}

// packers are used again: each is as large as what it packs.
var packers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// newBlock is a block of data for the page's script. No text in it can end it: in JSON that Go writes, no < stands for itself.
// What is not packed is ASCII alone, so that whoever reads the file itself is not deceived by what cannot be seen.
func newBlock(id string, data []byte) ([]byte, error) {
	packed := ""
	if len(data) <= smallBlock {
		data = asciiJSON(data)
	} else {
		var out bytes.Buffer
		z := packers.Get().(*gzip.Writer)
		defer packers.Put(z)
		z.Reset(&out)
		if _, err := z.Write(data); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
		packed, data = " data-packed", []byte(base64.StdEncoding.EncodeToString(out.Bytes()))
	}
	return fmt.Appendf(nil, "<script type=\"application/json\" id=%q%s>%s</script>\n", id, packed, data), nil
}

// asciiJSON is a JSON text with every character beyond ASCII, and the one of ASCII that JSON leaves and nobody sees, as its
// number. Such characters stand in strings alone, where that changes nothing.
func asciiJSON(data []byte) []byte {
	out := make([]byte, 0, len(data))
	for _, r := range string(data) {
		switch {
		case r < 0x7f:
			out = append(out, byte(r))
		case r <= 0xffff:
			out = fmt.Appendf(out, "\\u%04x", r)
		default:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, "\\u%04x\\u%04x", high, low)
		}
	}
	return out
}

// appendCells writes the cells behind the page, and the script that shows them.
func appendCells(page *bytes.Buffer, b bench.Benchmark, d Details) error {
	g, cells := newGrid(b)
	room := pageBudget - page.Len() - len(pageJS) - 14*len(cells) // a cell of the grid needs fewer than 14 bytes, packed
	shelves, err := g.shelve(cells, d, room)
	if err != nil {
		return err
	}
	g.Cells = make([][7]int, len(cells))
	for i, c := range cells {
		g.Cells[i] = c.row
	}
	data, err := json.Marshal(g)
	if err != nil {
		return err
	}
	block, err := newBlock("grid-data", data)
	if err != nil {
		return err
	}
	page.Write(block)
	for _, s := range shelves {
		page.Write(s)
	}
	page.WriteString("<script>" + pageJS + "</script>\n</body>\n</html>\n")
	return nil
}
