package main

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// A pair is two folders, before and after, with a known change between them. Each time it is written it has the same bytes.
type pair struct {
	name  string // of the folder that holds both
	what  string
	tree  bool   // a source tree, not one long file
	want  counts // the change
	bound bool   // no shortest script can be found in bounded time: assay may count up to 5 % more lines than git
	write func(before, after string) error
}

// counts are the size of a change: files, lines added, lines removed.
type counts struct{ files, added, removed int }

const million = 1_000_000

// The pairs that are measured.
var (
	small    = treePair("small", 3, 1, 1)
	medium   = treePair("medium", 3_000, 20, 10)
	large    = treePair("large", 20_000, 20, 10)
	edited   = pair{name: "edited", what: "a million lines, replaced: 1000", want: counts{1, 1000, 1000}, write: writeEdited}
	shuffled = pair{name: "shuffled", what: "a million lines, shuffled", want: counts{1, million, million}, write: writeShuffled,
		bound: true}
)

// treePair is a source tree of which some files have some lines replaced.
func treePair(name string, files, edited, lines int) pair {
	what := fmt.Sprintf("%d files, lines replaced: %d", files, edited*lines)
	write := func(before, after string) error { return writeTree(before, after, files, edited, lines) }
	return pair{name: name, what: what, tree: true, want: counts{edited, edited * lines, edited * lines}, write: write}
}

// writeTree writes files of 0.5 to 20 KiB, of which most are small, into folders up to four deep.
func writeTree(before, after string, files, edited, lines int) error {
	random := rand.New(rand.NewPCG(1, uint64(files)))
	for i := range files {
		name := treePath(random, i)
		text := sourceText(random)
		if err := put(strings.Join(text, ""), before, name); err != nil {
			return err
		}
		if i%(files/edited) == 0 && i/(files/edited) < edited {
			for n, at := range random.Perm(len(text))[:lines] {
				text[at] = fmt.Sprintf("\tedit(%d, %d)\n", i, n)
			}
		}
		if err := put(strings.Join(text, ""), after, name); err != nil {
			return err
		}
	}
	return nil
}

func treePath(random *rand.Rand, i int) string {
	path := []string{fmt.Sprintf("part%d", i/500)}
	for range random.IntN(4) {
		path = append(path, fmt.Sprintf("sub%d", random.IntN(5)))
	}
	return filepath.Join(append(path, fmt.Sprintf("file%d.go", i))...)
}

// sourceText makes lines as programs have them: some that are everywhere, and some that are nowhere else.
func sourceText(random *rand.Rand) []string {
	everywhere := []string{"\n", "}\n", "\t}\n", "\treturn err\n", "\tif err != nil {\n"}
	size := int(512 * math.Pow(40, random.Float64()))
	var lines []string
	for size > 0 {
		line := everywhere[random.IntN(len(everywhere))]
		if random.IntN(3) > 0 {
			line = fmt.Sprintf("\tvalue%x := compute(%d, %d)\n", random.Uint32(), random.IntN(100), random.IntN(100))
		}
		lines = append(lines, line)
		size -= len(line)
	}
	return lines
}

// writeEdited writes one file of a million different lines, and replaces 1,000 of them.
func writeEdited(before, after string) error {
	line := func(i int) string { return fmt.Sprintf("line %d\n", i) }
	edit := func(i int) string {
		if i%1000 == 500 {
			return fmt.Sprintf("edit %d\n", i)
		}
		return line(i)
	}
	return errors.Join(writeMillion(before, line), writeMillion(after, edit))
}

// writeShuffled writes one file of a million lines, of which each value is there a thousand times, in two orders.
func writeShuffled(before, after string) error {
	random := rand.New(rand.NewPCG(1, million))
	values := make([]int, million)
	for i := range values {
		values[i] = random.IntN(1000)
	}
	line := func(i int) string { return fmt.Sprintln(values[i]) }
	if err := writeMillion(before, line); err != nil {
		return err
	}
	random.Shuffle(million, func(i, j int) { values[i], values[j] = values[j], values[i] })
	return writeMillion(after, line)
}

func writeMillion(dir string, line func(i int) string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "lines.txt"))
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for i := range million {
		w.WriteString(line(i))
	}
	return errors.Join(w.Flush(), f.Close())
}

// check holds what assay counted of the pair against what was changed, and against what git counts.
func (p pair) check(assay, git counts, approximate bool) error {
	right := assay == p.want && assay.lines() <= git.lines()
	if p.bound {
		right = assay.added == assay.removed && assay.added <= p.want.added && assay.lines() <= git.lines()*105/100
	}
	if !right || assay.files != git.files || approximate != p.bound {
		return fmt.Errorf("%s: assay counts %+v (approximate: %v), git %+v, and %+v was changed: its time means nothing",
			p.what, assay, approximate, git, p.want)
	}
	return nil
}

func (c counts) lines() int { return c.added + c.removed }
