package report

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// gap is a character without width. It parts what GitHub would otherwise join to a mention, a reference or a link after
// all Markdown is done, where an entity does not help.
const gap = "\u200b"

// clean is text without what a reader cannot see: no control characters (line breaks become blanks), no escape
// sequences of terminals, nothing that changes the direction of writing or has no width. Bad UTF-8 becomes U+FFFD. At
// most limit characters are kept.
func clean(s string, limit int) string {
	if len(s) <= limit && printable(s) {
		return strings.TrimSpace(s)
	}
	var out strings.Builder
	kept := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == '\x1b' {
			i += escapeLength(s[i:])
			continue
		}
		i += size
		switch {
		case r == '\n' || r == '\r' || r == '\t' || r == '\u2028' || r == '\u2029':
			r = ' '
		case hidden(r):
			continue
		}
		if kept == limit {
			return strings.TrimSpace(out.String()) + "…"
		}
		out.WriteRune(r)
		kept++
	}
	return strings.TrimSpace(out.String())
}

// printable tells whether a text is nothing but ASCII that is seen, and blanks, as nearly all are.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// hidden tells whether a character is left out: controls, marks of direction, zero width, tags, private use.
func hidden(r rune) bool {
	if r < utf8.RuneSelf { // nearly all are
		return r < ' ' || r == 0x7f
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs) || r == '\u034f' || r == '\u115f' || r == '\u1160' || r == '\u3164' || r == '\uffa0'
}

// escapeLength is the length of the terminal escape sequence at the start of s: ESC [ … up to its final letter, or ESC
// and one more byte.
func escapeLength(s string) int {
	if len(s) < 2 || s[1] != '[' {
		return min(len(s), 1)
	}
	for i := 2; i < len(s); i++ {
		if s[i] >= 0x40 && s[i] <= 0x7e {
			return i + 1
		}
		if s[i] < 0x20 || s[i] > 0x7e {
			return i
		}
	}
	return len(s)
}

// Text is foreign text as Markdown that shows just this text: on one line, without markup, mention, reference, link,
// emoji or formula, and no command at its start. At most limit characters of it are kept, and a cut ends with "…".
func Text(s string, limit int) string {
	runes := []rune(clean(s, limit))
	var out strings.Builder
	hex := 0 // hexadecimal digits in a row
	for i, r := range runes {
		switch {
		case r == '&':
			out.WriteString("&amp;")
		case r == '<':
			out.WriteString("&lt;")
		case r == '>':
			out.WriteString("&gt;")
		case r == '|':
			out.WriteString("&#124;") // a table would cut at an escaped one, if its escape is escaped
		case r == '$':
			out.WriteString("&#36;")
		case strings.ContainsRune("\\`*_~[]", r), i == 0 && strings.ContainsRune("#+-=", r), opensList(runes, i):
			out.WriteString("\\" + string(r))
		default:
			out.WriteRune(r)
		}
		if hex++; !isHex(r) {
			hex = 0
		}
		if hex == mostHex && i+1 < len(runes) && isHex(runes[i+1]) || partsAfter(runes, i) {
			out.WriteString(gap)
			hex = 0
		}
	}
	return out.String()
}

// opensList tells whether the character ends the number of an ordered list at the start of the text.
func opensList(runes []rune, i int) bool {
	if i == 0 || runes[i] != '.' && runes[i] != ')' || i+1 < len(runes) && runes[i+1] != ' ' {
		return false
	}
	for _, r := range runes[:i] {
		if r < '0' || r > '9' {
			return false
		}
	}
	return true
}

// partsAfter tells whether a gap belongs behind a character. At the end of the text too: what a page writes next may join it.
func partsAfter(runes []rune, i int) bool {
	last := i+1 == len(runes)
	if !last && runes[i+1] == ' ' {
		return false
	}
	switch runes[i] {
	case '@', '#', '$':
		return true
	case ':':
		return !last || i == 0 // sentences may end with it, but two of them are a command to the runner
	case '/':
		return i == 0 // a command such as /eval stands at the start
	case '-':
		return i >= 2 && strings.EqualFold(string(runes[i-2:i]), "gh")
	case 'w', 'W':
		return i >= 2 && strings.EqualFold(string(runes[i-2:i+1]), "www")
	}
	return false
}

// mostHex is how many hexadecimal digits may stand together: a word of seven or more would become a link to a commit. What
// stands before them does not matter, since not all agree on where a word begins.
const mostHex = 6

func isHex(r rune) bool { return r >= '0' && r <= '9' || r >= 'a' && r <= 'f' || r >= 'A' && r <= 'F' }

func hexRun(runes []rune) int {
	n := 0
	for n < len(runes) && isHex(runes[n]) {
		n++
	}
	return n
}

// code is foreign text as a code span, where GitHub looks for nothing. Text that could leave a span, or that a table
// would cut, falls back to Text.
func code(s string, limit int) string {
	s = clean(s, limit)
	if s == "" || strings.ContainsAny(s, "`|\\") {
		return Text(s, limit)
	}
	return "`" + s + "`"
}

// codeName is an arm or another name of several parts as one code span.
func codeName(parts ...string) string { return code(plainName(parts...), nameSize*3) }
