package redact

import (
	"bytes"
	"unicode/utf8"
)

// An escape is a way in which a character is written as several others.
type escape byte

const (
	none      escape = 0
	backslash escape = '\\' // \n \" \/ \u0041 \x41 and, by a shell, \$
	percent   escape = '%'  // %41
)

// Line breaks within an escape are passed over: a log that is cut into lines of one length is cut anywhere.

// maxBackslashes is how many backslashes in a row count as one: text that is escaped again has more of them each time.
const maxBackslashes = 16

// An unescaper undoes one kind of escape. What looks like the beginning of an escape and is none stands for itself, but
// backslashes are dropped in any case.
type unescaper struct {
	undo escape
	char func(c byte, start, end int64) // takes what was understood, and where in the stream it stood

	begun []byte // an escape that is not whole yet
	from  int64  // where it began
}

// plain says whether a byte is what it is, whatever was read before.
func (u *unescaper) plain(c byte) bool {
	return len(u.begun) == 0 && (u.undo == none || c != byte(u.undo))
}

func (u *unescaper) pending() bool { return len(u.begun) > 0 }

func (u *unescaper) read(c byte, at int64) {
	if len(u.begun) > 0 && u.more(c, at) {
		return
	}
	if u.plain(c) {
		u.char(c, at, at+1)
		return
	}
	u.begun, u.from = append(u.begun[:0], c), at
}

// more takes one more byte of an escape, and says whether it belonged to it.
func (u *unescaper) more(c byte, at int64) bool {
	if u.undo == backslash && c == '\\' && u.begun[len(u.begun)-1] == '\\' {
		if len(u.begun) == maxBackslashes {
			u.char(c, u.from, at) // so many part two texts
			u.begun, u.from = u.begun[:0], at
		}
		u.begun = append(u.begun, c)
		return true
	}
	u.begun = append(u.begun, c)
	text, is := u.decode()
	switch is {
	case part:
		return true
	case broken:
		u.begun = u.begun[:len(u.begun)-1]
		u.finish()
		return false
	}
	u.begun = u.begun[:0]
	for i := range len(text) {
		u.char(text[i], u.from, at+1)
	}
	return true
}

// finish takes the bytes of a broken escape for what they are.
func (u *unescaper) finish() {
	rest := u.begun
	if u.undo == backslash {
		rest = bytes.TrimLeft(rest, `\`)
	}
	start, at := u.from, u.from+int64(len(u.begun)-len(rest))
	u.begun = u.begun[:0]
	for _, c := range rest {
		u.char(c, start, at+1)
		at++
		start = at
	}
}

// decoding says what the beginning of an escape is.
type decoding int

const (
	part decoding = iota
	whole
	broken // its last byte does not belong to it
)

// decode returns what the escape that was read so far stands for.
func (u *unescaper) decode() (string, decoding) {
	if u.undo == percent {
		return number(u.begun[1:], 2, oneByte)
	}
	rest := bytes.TrimLeft(u.begun, `\`)
	letters := bytes.TrimLeft(rest, "\r\n")
	torn := len(letters) < len(rest)
	switch {
	case len(letters) == 0 && len(rest) <= maxBreaks:
		return "", part
	case len(letters) == 0, torn && letters[0] == '\\':
		return "", broken
	}
	switch letters[0] {
	case 'u':
		return number(letters[1:], 4, oneRune)
	case 'x':
		return number(letters[1:], 2, oneByte)
	}
	if !torn { // after a break, a shell has gone on with the line
		switch letters[0] {
		case 'n':
			return "\n", whole
		case 'r':
			return "\r", whole
		case 't':
			return "\t", whole
		}
	}
	return string(letters[:1]), whole
}

func oneByte(n int) string { return string([]byte{byte(n)}) }

func oneRune(n int) string { return string(utf8.AppendRune(nil, rune(n))) }

// number reads hex digits, as many as want, and passes over line breaks.
func number(digits []byte, want int, text func(int) string) (string, decoding) {
	n, read := 0, 0
	for _, c := range digits {
		switch {
		case isBreak(c):
		case isHex(c):
			n = n<<4 | bytes.IndexByte([]byte("0123456789abcdef"), c|0x20)
			read++
		default:
			return "", broken
		}
	}
	switch {
	case read == want:
		return text(n), whole
	case len(digits)-read > maxBreaks:
		return "", broken
	}
	return "", part
}

func isBreak(c byte) bool { return c == '\r' || c == '\n' }

// unescaped is a text as a view understands it.
func unescaped(undo escape, text string) string {
	var out []byte
	u := unescaper{undo: undo, char: func(c byte, _, _ int64) { out = append(out, c) }}
	for i := range len(text) {
		u.read(text[i], int64(i))
	}
	u.finish()
	return string(out)
}
