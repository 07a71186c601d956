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
	percent   escape = '%'  // %41, and line breaks as a string of JSON has them
)

// maxBackslashes is how many backslashes in a row count as one: text that is escaped again has more of them each time.
const maxBackslashes = 16

// maxEscape is how many bytes an escape may have. Line breaks in it are passed over, also those that are escaped themselves:
// a log is cut into lines anywhere, and then put into a string of JSON.
const maxEscape = 64

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
	return len(u.begun) == 0 && (u.undo == none || c != byte(u.undo) && c != byte(backslash))
}

func (u *unescaper) pending() bool { return len(u.begun) > 0 }

func (u *unescaper) read(c byte, at int64) {
	switch {
	case len(u.begun) > 0:
		u.more(c, at)
	case u.plain(c):
		u.char(c, at, at+1)
	default:
		u.begun, u.from = append(u.begun, c), at
	}
}

// more takes one more byte of an escape.
func (u *unescaper) more(c byte, at int64) {
	if c == '\\' && len(u.begun) == maxBackslashes && len(u.letters()) == 0 {
		u.char(c, u.from, at) // so many part two texts
		u.begun, u.from = append(u.begun[:0], c), at
		return
	}
	u.begun = append(u.begun, c)
	text, is := u.decode()
	switch {
	case is == broken, is == part && len(u.begun) == maxEscape:
		u.giveUp()
	case is == whole:
		u.begun = u.begun[:0]
		for i := range len(text) {
			u.char(text[i], u.from, at+1)
		}
	}
}

// letters is what follows the sign, or the backslashes, with which an escape begins.
func (u *unescaper) letters() []byte {
	if u.begun[0] == byte(percent) {
		return u.begun[1:]
	}
	return bytes.TrimLeft(u.begun, `\`)
}

// giveUp takes what looked like the beginning of an escape for itself, where backslashes are undone without them, and reads
// what followed again.
func (u *unescaper) giveUp() {
	rest := u.letters()
	at := u.from + int64(len(u.begun)-len(rest))
	switch {
	case u.undo == percent:
		for i, c := range bytes.Clone(u.begun[:len(u.begun)-len(rest)]) {
			u.char(c, u.from+int64(i), u.from+int64(i)+1)
		}
	case len(rest) > 0 && (rest[0] == 'n' || rest[0] == 'r'):
		rest, at = rest[1:], at+1
		u.char('\n', u.from, at)
	}
	again := bytes.Clone(rest)
	u.begun = u.begun[:0]
	for i, c := range again {
		u.read(c, at+int64(i))
	}
}

// finish takes what was begun for itself: nothing follows.
func (u *unescaper) finish() {
	for len(u.begun) > 0 {
		u.giveUp()
	}
}

// decoding says what the beginning of an escape is.
type decoding int

const (
	part decoding = iota
	whole
	broken
)

// decode returns what the escape that was read so far stands for.
func (u *unescaper) decode() (string, decoding) {
	letters := u.letters()
	switch {
	case u.begun[0] == byte(percent):
		return number(letters, 2, oneByte)
	case u.undo == percent:
		return escapedBreak(letters)
	}
	torn, state := afterBreaks(letters)
	if state != whole {
		return "", state
	}
	backslashes := len(u.begun) - len(letters)
	if len(letters) > 0 && len(torn) == len(letters) && backslashes > 2 && (letters[0] == 'n' || letters[0] == 'r') {
		// A backslash in a string of JSON, and an escaped line break behind it.
		if torn, state = afterBreaks(letters[1:]); state == broken {
			return "", broken
		}
		if len(torn) == 0 {
			return "", part
		}
	}
	switch {
	case len(torn) == 0:
		return "", part
	case torn[0] == 'u':
		return number(torn[1:], 4, oneRune)
	case torn[0] == 'x':
		return number(torn[1:], 2, oneByte)
	case len(torn) < len(letters):
		return "", broken // a shell has gone on with the line
	case letters[0] == 'n', letters[0] == 'r':
		return "\n", whole
	case letters[0] == 't':
		return "\t", whole
	}
	return string(letters[:1]), whole
}

// escapedBreak is what backslashes stand for where only line breaks are undone.
func escapedBreak(letters []byte) (string, decoding) {
	switch {
	case len(letters) == 0:
		return "", part
	case letters[0] == 'n' || letters[0] == 'r':
		return "\n", whole
	}
	return "", broken
}

// afterBreaks is a text without the line breaks at its beginning, escaped ones too. It is part while the last of them may go
// on, and broken where a backslash begins something else.
func afterBreaks(text []byte) ([]byte, decoding) {
	for len(text) > 0 {
		switch {
		case isBreak(text[0]):
			text = text[1:]
		case text[0] == '\\':
			letters := bytes.TrimLeft(text, `\`)
			switch {
			case len(letters) == 0:
				return nil, part
			case letters[0] != 'n' && letters[0] != 'r':
				return nil, broken
			}
			text = letters[1:]
		default:
			return text, whole
		}
	}
	return nil, whole
}

func oneByte(n int) string { return string([]byte{byte(n)}) }

func oneRune(n int) string { return string(utf8.AppendRune(nil, rune(n))) }

// number reads hex digits, as many as want, with any line breaks between them.
func number(digits []byte, want int, text func(int) string) (string, decoding) {
	n := 0
	for read := 0; ; read++ {
		if read == want {
			return text(n), whole
		}
		var state decoding
		if digits, state = afterBreaks(digits); state != whole {
			return "", state
		}
		if len(digits) == 0 {
			return "", part
		}
		if !isHex(digits[0]) {
			return "", broken
		}
		n = n<<4 | bytes.IndexByte([]byte("0123456789abcdef"), digits[0]|0x20)
		digits = digits[1:]
	}
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
