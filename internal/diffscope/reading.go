package diffscope

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Line is one line of a patch for people, without its line feed. Its bytes are those of the tree: whoever shows it to
// somebody passes it through [Visible] first.
type Line struct {
	Kind LineKind
	Text string
}

// A LineKind says what a line of a patch is. It is known from where the line stands: a removed line may look like a header.
type LineKind byte

// The kinds of lines. Those of a hunk are named by their first character.
const (
	HeaderLine  LineKind = 'h' // names a file, or says why its content is not shown
	HunkLine    LineKind = '@'
	SameLine    LineKind = ' '
	AddedLine   LineKind = '+'
	RemovedLine LineKind = '-'
	NoteLine    LineKind = '\\' // there is no line feed at the end of the file
)

// Lines is the patch as WriteTo writes it, but for the content of binary files and of those whose lines were not counted: a
// line says how large it is.
func (p Patch) Lines() iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		for i := range p.changes {
			c := &p.changes[i]
			more := true
			err := c.read(func(l Line) bool {
				more = yield(l, nil)
				return more
			})
			if err != nil {
				yield(Line{}, fmt.Errorf("patch of %s: %w", printable(c.path), err))
				return
			}
			if !more {
				return
			}
		}
	}
}

// read gives the lines of one path until yield wants no more.
func (c *change) read(yield func(Line) bool) error {
	lines := &lineWriter{yield: yield}
	w := bufio.NewWriter(lines)
	if err := c.writeReadable(w); err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if err := w.Flush(); err != nil && !errors.Is(err, errEnough) {
		return err
	}
	return nil
}

// writeReadable is write without the content of files that are no text.
func (c *change) writeReadable(w *bufio.Writer) error {
	unread := c.hidden || c.old != nil && c.old.blob == nil || c.new != nil && c.new.blob == nil
	switch {
	case unread:
		return c.write(w)
	case c.retyped():
		for _, half := range []change{{path: c.path, old: c.old}, {path: c.path, new: c.new}} {
			if err := half.measure(); err != nil {
				return err
			}
			if err := half.writeReadable(w); err != nil {
				return err
			}
		}
		return nil
	case c.row.Binary:
		return c.writeSizes(w, "binary")
	case c.row.Uncounted != "":
		return c.writeSizes(w, c.row.Uncounted)
	}
	return c.write(w)
}

// writeSizes writes how large the two contents are instead of what is in them.
func (c *change) writeSizes(w *bufio.Writer, why string) error {
	c.writeHeader(w)
	var sizes [2]int64
	for i, e := range []*entry{c.old, c.new} {
		if e != nil {
			sizes[i] = e.size
		}
	}
	_, err := fmt.Fprintf(w, "# content not shown (%s): %d bytes before, %d after\n", why, sizes[0], sizes[1])
	return err
}

// errEnough ends the writing of a patch whose reader wants no more.
var errEnough = errors.New("enough")

// A lineWriter cuts the patch of one path into lines.
type lineWriter struct {
	yield  func(Line) bool
	inHunk bool
	rest   []byte // of a line that has no end yet
}

var _ io.Writer = (*lineWriter)(nil)

func (l *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, after, ended := bytes.Cut(p, []byte("\n"))
		l.rest = append(l.rest, line...)
		if !ended {
			return n, nil
		}
		p = after
		text := string(l.rest)
		l.rest = l.rest[:0]
		if !l.yield(Line{l.kind(text), text}) {
			return 0, errEnough
		}
	}
}

// kind tells what a line is. Every line of a hunk starts with one of five characters, and no header does that follows one.
func (l *lineWriter) kind(line string) LineKind {
	switch {
	case strings.HasPrefix(line, "@@ "):
		l.inHunk = true
		return HunkLine
	case l.inHunk && line != "" && strings.IndexByte(" +-\\", line[0]) >= 0:
		return LineKind(line[0])
	}
	l.inHunk = false
	return HeaderLine
}

// Visible is text of which nothing is hidden and nothing acts on a terminal: controls, marks of direction, characters
// without width and bytes that are not UTF-8 are written as \r, \x1b or \u202e. Characters in keep stay as they are.
func Visible(text, keep string) string {
	if strings.IndexFunc(text, func(r rune) bool { return isHidden(r) || r == utf8.RuneError }) < 0 {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case isHidden(r) && !strings.ContainsRune(keep, r):
			writeEscape(&b, r)
		default:
			b.WriteString(text[i : i+size])
		}
		i += size
	}
	return b.String()
}

func writeEscape(b *strings.Builder, r rune) {
	switch {
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\r':
		b.WriteString(`\r`)
	case r == '\t':
		b.WriteString(`\t`)
	case r < utf8.RuneSelf:
		fmt.Fprintf(b, `\x%02x`, r)
	case r <= 0xffff:
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}

// isHidden tells whether a reader would not see a character: controls, formats, private use and what is not assigned, line
// separators, and the letters and marks that have no shape. Hidden text has been used to talk to models.
func isHidden(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f
	}
	return !unicode.IsGraphic(r) || unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
