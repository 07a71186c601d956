package diffscope

import "strings"

// LinesChanged counts the lines that a change of a text adds and removes together, as Compare counts those of a file. steps
// is the work that it may do, in diagonals of the search, and left what remains of it: a caller with many texts hands it
// on. ok is false when the bound was passed or the texts have too many lines; the number is not known then.
func LinesChanged(old, new string, steps int) (changed, left int, ok bool) {
	switch {
	case steps < 0:
		return 0, steps, false
	case old == new, looksBinary(old), looksBinary(new):
		return 0, steps, true
	case countLines(old)+countLines(new) > maxLines:
		return 0, steps, false
	}
	a, b := splitLines(old), splitLines(new)
	s := search{old: make([]bool, len(a)+1), new: make([]bool, len(b)+1), budget: steps, exact: true}
	s.mark(a, b)
	return marked(s.old) + marked(s.new), s.budget, s.exact
}

func looksBinary(text string) bool { return strings.IndexByte(text[:min(len(text), sniffed)], 0) >= 0 }

func marked(lines []bool) (n int) {
	for _, changed := range lines {
		if changed {
			n++
		}
	}
	return n
}
