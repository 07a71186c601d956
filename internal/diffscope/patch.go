package diffscope

import (
	"bufio"
	"compress/zlib"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing"
)

// shown is how many unchanged lines a patch shows around a change.
const shown = 3

// A Patch holds every change between two trees, in scope or not.
type Patch struct{ changes []change }

// Empty tells whether the two trees were the same.
func (p Patch) Empty() bool { return len(p.changes) == 0 }

// WriteTo writes the patch as git prints it, at context 3, renames as a delete and a create, and binary files whole. Applied
// to the before tree with git apply it gives the after tree, but for files whose content was never read: these are named in
// a line that git apply passes over.
func (p Patch) WriteTo(w io.Writer) (int64, error) {
	counter := &countingWriter{w: w}
	b := bufio.NewWriter(counter)
	for i := range p.changes {
		if err := p.changes[i].write(b); err != nil {
			return counter.n, fmt.Errorf("patch of %s: %w", printable(p.changes[i].path), err)
		}
	}
	err := b.Flush()
	return counter.n, err
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func (c *change) write(w *bufio.Writer) error {
	switch {
	case c.hidden || c.old != nil && c.old.blob == nil || c.new != nil && c.new.blob == nil:
		_, err := fmt.Fprintf(w, "# not in this patch: %s (%s)\n", quote(c.path), c.row.Uncounted)
		return err
	case c.retyped():
		gone, come := change{path: c.path, old: c.old}, change{path: c.path, new: c.new}
		for _, half := range []*change{&gone, &come} {
			if err := half.measure(); err != nil {
				return err
			}
			if err := half.write(w); err != nil {
				return err
			}
		}
		return nil
	}
	c.writeHeader(w)
	if c.old != nil && c.new != nil && c.old.blob.equal(c.new.blob) {
		return nil
	}
	if c.row.Binary || c.row.Uncounted != "" {
		return c.writeBinary(w)
	}
	return c.writeText(w)
}

// writeHeader writes the lines before the content.
func (c *change) writeHeader(w *bufio.Writer) {
	fmt.Fprintf(w, "diff --git %s %s\n", quote("a/"+c.path), quote("b/"+c.path))
	var oldID, newID plumbing.Hash
	mode := ""
	switch {
	case c.old == nil:
		fmt.Fprintf(w, "new file mode %o\n", uint32(c.new.mode))
		newID = c.new.blob.hash()
	case c.new == nil:
		fmt.Fprintf(w, "deleted file mode %o\n", uint32(c.old.mode))
		oldID = c.old.blob.hash()
	default:
		oldID, newID = c.old.blob.hash(), c.new.blob.hash()
		if c.old.mode != c.new.mode {
			fmt.Fprintf(w, "old mode %o\nnew mode %o\n", uint32(c.old.mode), uint32(c.new.mode))
		} else {
			mode = fmt.Sprintf(" %o", uint32(c.new.mode))
		}
	}
	if oldID != newID {
		fmt.Fprintf(w, "index %s..%s%s\n", oldID, newID, mode)
	}
}

// writeText writes the hunks of a text file.
func (c *change) writeText(w *bufio.Writer) error {
	if len(c.edits) == 0 {
		return nil // an empty file that came or went
	}
	oldText, err := c.old.load()
	if err != nil {
		return err
	}
	newText, err := c.new.load()
	if err != nil {
		return err
	}
	oldName, newName := "/dev/null", "/dev/null"
	if c.old != nil {
		oldName = quoteForHunks("a/" + c.path)
	}
	if c.new != nil {
		newName = quoteForHunks("b/" + c.path)
	}
	fmt.Fprintf(w, "--- %s\n+++ %s\n", oldName, newName)
	if oldText == "" || newText == "" { // one hunk, and perhaps a long one
		e := c.edits[0]
		fmt.Fprintf(w, "@@ -%s +%s @@\n", span(0, e.oldEnd), span(0, e.newEnd))
		writeLines(w, '-', strings.Lines(oldText))
		writeLines(w, '+', strings.Lines(newText))
		return nil
	}
	old, new := splitLines(oldText), splitLines(newText)
	for rest := c.edits; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].oldStart-rest[n-1].oldEnd <= 2*shown {
			n++
		}
		writeHunk(w, old, new, rest[:n])
		rest = rest[n:]
	}
	return nil
}

// writeHunk writes edits that are close to each other with the lines around them.
func writeHunk(w *bufio.Writer, old, new []string, edits []edit) {
	first, last := edits[0], edits[len(edits)-1]
	lead := min(shown, first.oldStart)
	trail := min(shown, len(old)-last.oldEnd)
	at := first.oldStart - lead
	fmt.Fprintf(w, "@@ -%s +%s @@\n", span(at, last.oldEnd+trail), span(first.newStart-lead, last.newEnd+trail))
	for _, e := range edits {
		writeLines(w, ' ', slices.Values(old[at:e.oldStart]))
		writeLines(w, '-', slices.Values(old[e.oldStart:e.oldEnd]))
		writeLines(w, '+', slices.Values(new[e.newStart:e.newEnd]))
		at = e.oldEnd
	}
	writeLines(w, ' ', slices.Values(old[at:at+trail]))
}

// span writes the lines [start, end) as hunk headers do: counted from 1, and an empty span is named by the line before it.
func span(start, end int) string {
	switch end - start {
	case 0:
		return fmt.Sprintf("%d,0", start)
	case 1:
		return fmt.Sprint(start + 1)
	}
	return fmt.Sprintf("%d,%d", start+1, end-start)
}

func writeLines(w *bufio.Writer, sign byte, lines iter.Seq[string]) {
	for line := range lines {
		w.WriteByte(sign)
		w.WriteString(line)
		if !strings.HasSuffix(line, "\n") {
			w.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// writeBinary writes the whole new content, and the whole old one so that the patch can be taken back.
func (c *change) writeBinary(w *bufio.Writer) error {
	w.WriteString("GIT binary patch\n")
	for _, e := range []*entry{c.new, c.old} {
		size, content := int64(0), io.Reader(strings.NewReader(""))
		if e != nil {
			size, content = e.size, e.blob.open()
		}
		fmt.Fprintf(w, "literal %d\n", size)
		lines := &base85Writer{w: w}
		z := zlib.NewWriter(lines)
		if _, err := io.Copy(z, content); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		lines.flush()
		w.WriteByte('\n')
	}
	return nil
}

// A base85Writer writes bytes as git's binary patches do: 52 a line, with their number as a letter in front, four bytes as
// five digits.
type base85Writer struct {
	w    *bufio.Writer
	line []byte
}

const base85Digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

func (b *base85Writer) Write(p []byte) (int, error) {
	for _, c := range p {
		if b.line = append(b.line, c); len(b.line) == 52 {
			b.flush()
		}
	}
	return len(p), nil
}

func (b *base85Writer) flush() {
	if len(b.line) == 0 {
		return
	}
	if n := len(b.line); n <= 26 {
		b.w.WriteByte(byte('A' + n - 1))
	} else {
		b.w.WriteByte(byte('a' + n - 27))
	}
	for len(b.line)%4 != 0 {
		b.line = append(b.line, 0)
	}
	for i := 0; i < len(b.line); i += 4 {
		word := uint32(b.line[i])<<24 | uint32(b.line[i+1])<<16 | uint32(b.line[i+2])<<8 | uint32(b.line[i+3])
		var digits [5]byte
		for d := 4; d >= 0; d-- {
			digits[d] = base85Digits[word%85]
			word /= 85
		}
		b.w.Write(digits[:])
	}
	b.w.WriteByte('\n')
	b.line = b.line[:0]
}

// quote writes a path as git does when it has bytes that would break a line or are not UTF-8.
func quote(name string) string {
	plain := utf8.ValidString(name)
	for i := range len(name) {
		plain = plain && name[i] >= ' ' && name[i] != 0x7f && name[i] != '"' && name[i] != '\\'
	}
	if plain {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// quoteForHunks is quote for the two lines above the hunks, where a tab must end a name that has a blank in it.
func quoteForHunks(name string) string {
	if q := quote(name); q != name || !strings.Contains(name, " ") {
		return q
	}
	return name + "\t"
}
