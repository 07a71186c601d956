package diffscope

import (
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/diffscope/lexers"
)

// maxSearchedAgain is how many lines of both sides of a file are searched a second time, for what blanks alone changed.
const maxSearchedAgain = 500_000

// whitespaceLines returns how many of the lines changed would not be when all blanks are taken out of both texts and empty
// lines are dropped. It is nil when the lines were not counted, when one of the two counts is only a bound, and for a file
// of more than 500,000 lines on both sides together.
func (c *change) whitespaceLines() (*int, error) {
	if c.row.Uncounted != "" || c.row.Approximate {
		return nil, nil
	}
	if len(c.edits) == 0 { // binary, retyped, or only the mode changed
		return new(int), nil
	}
	old, new, err := c.texts()
	if err != nil {
		return nil, err
	}
	if countLines(old)+countLines(new) > maxSearchedAgain {
		return nil, nil
	}
	changed, exact := changedBesideBlanks(old, new, exactSteps)
	if !exact {
		return nil, nil
	}
	whitespace := max(0, *c.row.LinesAdded+*c.row.LinesRemoved-changed)
	return &whitespace, nil
}

// changedBesideBlanks counts the lines added and removed between two texts without their blanks.
func changedBesideBlanks(old, new string, steps int) (changed int, exact bool) {
	edits, exact := diffLines(withoutBlanks(old), withoutBlanks(new), steps)
	for _, e := range edits {
		changed += e.oldEnd - e.oldStart + e.newEnd - e.newStart
	}
	return changed, exact
}

// withoutBlanks returns the lines of a text with every blank taken out, line feeds too, and without those that are empty
// then.
func withoutBlanks(text string) []string {
	var kept strings.Builder
	kept.Grow(len(text))
	ends := make([]int, 0, countLines(text))
	for line := range strings.Lines(text) {
		start := kept.Len()
		for i := range len(line) {
			if !isBlank(line[i]) {
				kept.WriteByte(line[i])
			}
		}
		if kept.Len() > start {
			ends = append(ends, kept.Len())
		}
	}
	lines, start := make([]string, len(ends)), 0
	for i, end := range ends {
		lines[i], start = kept.String()[start:end], end
	}
	return lines
}

// isBlank tells whether a byte is a space, tab, line feed, vertical tab, form feed or carriage return.
func isBlank(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// commentLines returns how many of the lines changed hold comments and nothing else, and the language that its file name
// stands for. Lines is nil when there is no lexer for it, or when it gave no answer within its bounds: too large, too slow.
//
// A comment is what the lexer calls one. A docstring of Python is a string to it, and a preprocessor line is code. A line
// needs at least one character of a comment: a blank line in a block comment is not counted.
func (c *change) commentLines() (language string, lines *int, err error) {
	l := lexers.For(c.path)
	if l == nil || !c.isOfFiles() {
		return "", nil, nil
	}
	if c.row.Uncounted != "" {
		return l.Name(), nil, nil
	}
	old, new, err := c.texts()
	if err != nil {
		return "", nil, err
	}
	total := 0
	for _, side := range []struct {
		text  string
		lines func(edit) (start, end int)
	}{
		{old, func(e edit) (int, int) { return e.oldStart, e.oldEnd }},
		{new, func(e edit) (int, int) { return e.newStart, e.newEnd }},
	} {
		n, err := countComments(l, side.text, c.edits, side.lines)
		if n == nil || err != nil {
			return l.Name(), nil, err
		}
		total += *n
	}
	return l.Name(), &total, nil
}

// What is lexed of a whole change: an agent may write any number of files, and lexers read some hundred kilobytes a second.
const (
	maxLexedInAll  = 2 << 20 // bytes
	maxLexingInAll = 10 * time.Second
)

// lexing is what may still be lexed of a change.
type lexing struct {
	left  budget
	until time.Time
}

func newLexing() *lexing { return &lexing{maxLexedInAll, time.Now().Add(maxLexingInAll)} }

// may tells whether both sides of a change may be lexed, and takes them off what is left.
func (l *lexing) may(c *change) bool {
	size := int64(0)
	for _, e := range []*entry{c.old, c.new} {
		if e != nil {
			size += e.size
		}
	}
	if size > int64(l.left) || time.Now().After(l.until) {
		return false
	}
	l.left -= budget(size)
	return true
}

// isOfFiles tells that neither side is a link, whose target is not in the language of its name.
func (c *change) isOfFiles() bool {
	return (c.old == nil || c.old.isFile()) && (c.new == nil || c.new.isFile())
}

// countComments counts the lines of one side of the edits that hold only comments. A side without changed lines is not lexed.
func countComments(l *lexers.Language, text string, edits []edit, lines func(edit) (start, end int)) (*int, error) {
	last := 0
	for _, e := range edits {
		if start, end := lines(e); start < end {
			last = end
		}
	}
	n := 0
	if last == 0 {
		return &n, nil
	}
	only, err := l.CommentOnly(text, last)
	if only == nil {
		return nil, err
	}
	for _, e := range edits {
		start, end := lines(e)
		if start == end { // it may lie behind the lines that were lexed
			continue
		}
		for _, isComment := range only[start:end] {
			if isComment {
				n++
			}
		}
	}
	return &n, nil
}

// texts returns the content of both sides.
func (c *change) texts() (old, new string, err error) {
	if old, err = c.old.load(); err != nil {
		return "", "", err
	}
	new, err = c.new.load()
	return old, new, err
}
