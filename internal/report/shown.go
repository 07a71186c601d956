package report

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// shown is foreign text of several lines as a person may look at it: lines, tabs and blanks stay, colours of terminals go, and
// what cannot be seen, such as a mark of direction, is written as its number, since it may be there to deceive. Of a text
// longer than most characters its first three quarters and its end are kept, with a note between.
func shown(s string, most int) string {
	if len(s) > most {
		s = middleCut(s, most)
	}
	var out strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\x1b':
			size = max(1, escapeLength(s[i:]))
		case r == '\r':
			if !strings.HasPrefix(s[i+1:], "\n") {
				out.WriteByte('\n')
			}
		case r == '\n' || r == '\t':
			out.WriteRune(r)
		case r == '\u2028' || r == '\u2029' || hidden(r):
			fmt.Fprintf(&out, "⟨U+%04X⟩", r)
		default:
			out.WriteRune(r)
		}
		i += size
	}
	return out.String()
}

// middleCut leaves the middle of a text out.
func middleCut(s string, most int) string {
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	head := most * 3 / 4
	return fmt.Sprintf("%s\n[… %d characters left out …]\n%s", string(runes[:head]), len(runes)-most, string(runes[len(runes)-(most-head):]))
}
