package trace

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxText is the size in bytes to which a [Writer] cuts a text or an output: its head and its tail, a note between.
const MaxText = headSize + tailSize + noteSize

const (
	headSize = 48 << 10
	tailSize = 16<<10 - noteSize
	noteSize = 64
)

// NewExcerpt returns an Excerpt as a trace keeps it of one text: the first 48 KiB and the last 16 KiB, a note between.
func NewExcerpt() *Excerpt { return &Excerpt{head: headSize, tail: tailSize} }

// NewTail returns an Excerpt that keeps the last n bytes only.
func NewTail(n int) *Excerpt { return &Excerpt{tail: n} }

// An Excerpt is a writer that remembers the head and the tail of what it was given, in flat memory however much that is.
type Excerpt struct {
	head, tail int
	first      []byte
	last       []byte // at most twice tail, so that a byte is moved once on average
	size       int64
}

// Write takes all of p. The error is always nil.
func (x *Excerpt) Write(p []byte) (int, error) {
	n := len(p)
	x.size += int64(n)
	k := min(n, x.head-len(x.first))
	x.first, p = append(x.first, p[:k]...), p[k:]
	if len(p) > x.tail {
		x.last, p = x.last[:0], p[len(p)-x.tail:]
	}
	if len(x.last)+len(p) > 2*x.tail {
		keep := x.last[len(x.last)-(x.tail-len(p)):]
		x.last = x.last[:copy(x.last, keep)]
	}
	x.last = append(x.last, p...)
	return n, nil
}

// Size returns how many bytes were written.
func (x *Excerpt) Size() int64 { return x.size }

// String returns the excerpt as text: invalid UTF-8 is repaired, and no character is cut in two. The tail
// begins with a whole word, unless the one before it is very long. An Excerpt that keeps a head says in a note how many bytes
// it left out; one that keeps the tail only is silent about it.
func (x *Excerpt) String() string {
	last := x.last[max(0, len(x.last)-x.tail):]
	left := x.size - int64(len(x.first)) - int64(len(last))
	if left == 0 {
		return text(append(x.first[:len(x.first):len(x.first)], last...))
	}
	last = last[partialStart(last):]
	last = last[cutWord(last, min(mostCut, x.tail/2)):]
	if x.head == 0 {
		return text(last)
	}
	first := x.first[:len(x.first)-partialEnd(x.first)]
	left = x.size - int64(len(first)) - int64(len(last))
	return text(first) + fmt.Sprintf("\n[… %d bytes left out …]\n", left) + text(last)
}

// mostCut is the length in bytes of a word up to which its end is dropped when its beginning was.
const mostCut = 256

// cutWord returns the number of bytes at the start of b that end a word cut in two: 0 when it is longer than most. The end
// of a secret would stand there, which no redactor knows; its beginning is known by the note behind it.
func cutWord(b []byte, most int) int {
	return max(0, bytes.IndexAny(b[:min(len(b), most)], " \t\r\n"))
}

func text(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// partialStart returns the number of bytes at the start of b that end a character cut in two.
func partialStart(b []byte) int {
	for i := 0; i < len(b) && i < utf8.UTFMax; i++ {
		if utf8.RuneStart(b[i]) {
			return i
		}
	}
	return 0
}

// partialEnd returns the number of bytes at the end of b that begin a character cut in two.
func partialEnd(b []byte) int {
	for i := 1; i <= len(b) && i < utf8.UTFMax; i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if utf8.FullRune(b[len(b)-i:]) {
				return 0
			}
			return i
		}
	}
	return 0
}
