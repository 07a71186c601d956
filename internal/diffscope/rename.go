package diffscope

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// The bounds on the search for renames, and on the one for copies. Both are information, so a missed one is no harm.
const (
	maxRenamePairs = 1000    // compared by their lines
	maxRenameFile  = 1 << 20 // bytes of a file that is compared by its lines
	maxRenameText  = 64 << 20
	minSimilarity  = 0.5
)

// A pathPair is a path before and one after, with the share of lines that both hold.
type pathPair struct {
	from, to   *change
	similarity float64
}

// renames matches deleted with created paths.
func renames(changes []change) ([]Rename, error) {
	moved, err := movedPaths(changes)
	if err != nil {
		return nil, err
	}
	found := []Rename{}
	for _, m := range moved {
		found = append(found, Rename{m.from.row.Path, m.to.row.Path, m.similarity})
	}
	slices.SortFunc(found, func(a, b Rename) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return found, nil
}

// movedPaths matches deleted with created paths: first those of equal content, then those that share at least half of their
// lines, the most similar first.
func movedPaths(changes []change) ([]pathPair, error) {
	var from, to []*change
	for i := range changes {
		c := &changes[i]
		switch {
		case c.row.Uncounted != "":
		case c.new == nil && c.old.size > 0:
			from = append(from, c)
		case c.old == nil && c.new.size > 0:
			to = append(to, c)
		}
	}
	if len(from) == 0 || len(to) == 0 {
		return nil, nil
	}
	found, from, to := movedWhole(from, to)
	similar, err := movedLines(from, to)
	return append(found, similar...), err
}

// movedWhole matches paths of equal content and returns those that are left.
func movedWhole(from, to []*change) (found []pathPair, fromLeft, toLeft []*change) {
	type key struct {
		id   plumbing.Hash
		file bool
	}
	wanted := map[key][]*change{}
	for _, f := range from {
		k := key{f.old.blob.hash(), f.old.isFile()}
		wanted[k] = append(wanted[k], f)
	}
	used := map[*change]bool{}
	for _, t := range to {
		k := key{t.new.blob.hash(), t.new.isFile()}
		if len(wanted[k]) == 0 {
			toLeft = append(toLeft, t)
			continue
		}
		f := wanted[k][0]
		wanted[k] = wanted[k][1:]
		used[f] = true
		found = append(found, pathPair{f, t, 1})
	}
	for _, f := range from {
		if !used[f] {
			fromLeft = append(fromLeft, f)
		}
	}
	return found, fromLeft, toLeft
}

// movedLines matches text files by the lines they share, each of them once.
func movedLines(from, to []*change) ([]pathPair, error) {
	candidates, err := similarPairs(from, to)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(candidates, func(a, b pathPair) int { return cmp.Compare(b.similarity, a.similarity) })
	var found []pathPair
	used := map[*change]bool{}
	for _, c := range candidates {
		if !used[c.from] && !used[c.to] {
			used[c.from], used[c.to] = true, true
			found = append(found, c)
		}
	}
	return found, nil
}

// similarPairs compares the old text of paths with the text of created ones, and returns the pairs that share at least half
// of their lines. It stops at the bounds.
func similarPairs(from, to []*change) ([]pathPair, error) {
	var found []pathPair
	to = slices.DeleteFunc(slices.Clone(to), func(t *change) bool { return t.row.Uncounted != "" || !t.new.linesMove(t.row.Binary) })
	pairs, text := 0, int64(0)
	for _, f := range from {
		if len(to) == 0 || !f.old.linesMove(f.row.Binary) {
			continue
		}
		old, err := f.old.load()
		if err != nil {
			return nil, err
		}
		oldLines, lines := countLines(old), map[string]int{}
		for line := range strings.Lines(old) {
			lines[line]++
		}
		for _, t := range to {
			pairs++
			text += f.old.size + t.new.size
			if pairs > maxRenamePairs || text > maxRenameText {
				return found, nil
			}
			new, err := t.new.load()
			if err != nil {
				return nil, err
			}
			if s := similarity(lines, oldLines, new, *t.row.LinesAdded); s >= minSimilarity {
				found = append(found, pathPair{f, t, s})
			}
		}
	}
	return found, nil
}

// linesMove tells whether the lines of an entry are worth comparing.
func (e *entry) linesMove(binary bool) bool { return e.isFile() && !binary && e.size <= maxRenameFile }

// similarity is the number of lines that two texts share, in any order, divided by the lines of the longer one. old holds how
// often each line occurs.
func similarity(old map[string]int, oldLines int, new string, newLines int) float64 {
	longer := max(oldLines, newLines)
	if float64(min(oldLines, newLines)) < minSimilarity*float64(longer) {
		return 0
	}
	shared := 0
	seen := map[string]int{}
	for line := range strings.Lines(new) {
		if seen[line]++; seen[line] <= old[line] {
			shared++
		}
	}
	return float64(shared) / float64(longer)
}
