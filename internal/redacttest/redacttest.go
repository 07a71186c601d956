// Package redacttest writes a secret in every way in which a program may print it, and reads it back as somebody who looks
// for it would. It is for tests only.
package redacttest

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An Encoding is one way to write a secret.
type Encoding struct {
	Name   string // letters, digits and dashes
	Encode func(secret string) string
	Decode func(text string) string // reads all that a text holds in this encoding; text in others may become anything
}

// Encodings returns all of them.
func Encodings() []Encoding {
	list := []Encoding{
		{"raw", same, same},
		{"hex-lower", func(s string) string { return hex.EncodeToString([]byte(s)) }, unhex},
		{"hex-upper", func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) }, unhex},
		{"percent-lower", each("%%%02x"), numbers(`%([0-9a-fA-F]{2})`)},
		{"percent-upper", each("%%%02X"), numbers(`%([0-9a-fA-F]{2})`)},
		{"json", quoted, unquoted},
		{"unicode", each(`\u%04x`), numbers(`\\u00([0-9a-fA-F]{2})`)},
		{"x-escape", each(`\x%02x`), numbers(`\\x([0-9a-fA-F]{2})`)},
		{"shell-single", replacing("'", `'\''`), replacing(`'\''`, "'")},
		{"shell-dollar", preceding(`'\`), replacing(`\'`, "'", `\\`, `\`)},
		{"shell-double", preceding("\"\\$`"), unquoted},
		{"shell-backslash", preceding("\"'\\$` &|;<>()=*?[]#~!{}^"), unquoted},
		{"html", html.EscapeString, html.UnescapeString},
		{"reversed", reversed, reversed},
		{"folded", broken, unfolded},
	}
	for _, alphabet := range []struct {
		name  string
		enc   *base64.Encoding
		signs string
	}{{"std", base64.RawStdEncoding, `+/`}, {"url", base64.RawURLEncoding, `_-`}} {
		for before := range 3 {
			list = append(list, Encoding{
				"base64-" + alphabet.name + "-" + strconv.Itoa(before),
				func(s string) string {
					return alphabet.enc.EncodeToString([]byte(strings.Repeat("x", before) + s + "end"))
				},
				func(text string) string { return unbase64(alphabet.enc, alphabet.signs, text) },
			})
		}
	}
	return list
}

// Find names the encodings in which a text holds one of some secrets, also across line breaks, and within strings of JSON.
func Find(text string, secrets ...string) (names []string) {
	join := strings.NewReplacer("\r", "", "\n", "").Replace
	read := []string{text, join(text), unquoted(text), join(unquoted(text))}
	for _, e := range Encodings() {
		if slices.ContainsFunc(read, func(t string) bool { return holds(e.Decode(t), secrets) }) {
			names = append(names, e.Name)
		}
	}
	return names
}

func holds(text string, secrets []string) bool {
	return slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(text, s) })
}

func same(s string) string { return s }

// each writes every byte by a format.
func each(format string) func(string) string {
	return func(s string) string {
		var b strings.Builder
		for _, c := range []byte(s) {
			fmt.Fprintf(&b, format, c)
		}
		return b.String()
	}
}

// numbers undoes what stands for a byte: a pattern whose one group is its hex digits.
func numbers(pattern string) func(string) string {
	form := regexp.MustCompile(pattern)
	return func(s string) string {
		return form.ReplaceAllStringFunc(s, func(found string) string {
			n, _ := strconv.ParseUint(form.FindStringSubmatch(found)[1], 16, 8)
			return string([]byte{byte(n)})
		})
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b[1 : len(b)-1])
}

// unquoted undoes the escapes of JSON, and drops the backslashes of others.
func unquoted(s string) string {
	return regexp.MustCompile(`(?s)\\(u00[0-9a-fA-F]{2}|.)`).ReplaceAllStringFunc(s, func(escape string) string {
		switch {
		case escape == `\n`:
			return "\n"
		case escape == `\r`:
			return "\r"
		case len(escape) > 3:
			n, _ := strconv.ParseUint(escape[4:], 16, 8)
			return string([]byte{byte(n)})
		}
		return escape[1:]
	})
}

func replacing(pairs ...string) func(string) string { return strings.NewReplacer(pairs...).Replace }

// preceding writes a backslash before some characters.
func preceding(special string) func(string) string {
	return func(s string) string {
		var b strings.Builder
		for _, c := range []byte(s) {
			if strings.IndexByte(special, c) >= 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(c)
		}
		return b.String()
	}
}

func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// line is how many bytes of a broken secret stand on a line.
const line = 5

// broken writes a secret over several lines. What folds white space before secrets are taken out turns it into words.
func broken(s string) string {
	var b strings.Builder
	for part := range slices.Chunk([]byte(s), line) {
		b.Write(append(part, '\n'))
	}
	return b.String()
}

// unfolded joins such lines and words again, wherever in the text they begin.
func unfolded(text string) string {
	var out strings.Builder
	for from := range min(line+1, len(text)) {
		for part := range slices.Chunk([]byte(text[from:]), line+1) {
			if len(part) > line && (part[line] == ' ' || part[line] == '\n') {
				part = part[:line]
			}
			out.Write(part)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// unhex reads every run of hex digits, from its first digit and from its second.
func unhex(text string) string {
	var out strings.Builder
	for _, run := range regexp.MustCompile(`[0-9a-fA-F]+`).FindAllString(text, -1) {
		for from := range min(2, len(run)) {
			part := run[from:]
			b, _ := hex.DecodeString(part[:len(part)/2*2])
			out.Write(append(b, '\n'))
		}
	}
	return out.String()
}

// unbase64 reads every run of the alphabet, from each of its first four characters.
func unbase64(enc *base64.Encoding, signs, text string) string {
	var out strings.Builder
	for _, run := range regexp.MustCompile(`[A-Za-z0-9`+signs+`]+`).FindAllString(text, -1) {
		for from := range min(4, len(run)) {
			part := run[from:]
			b, _ := enc.DecodeString(part[:len(part)/4*4])
			out.Write(append(b, '\n'))
		}
	}
	return out.String()
}
