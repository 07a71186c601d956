// Package redact takes secrets out of text before it reaches a disk or a page: make a [Redactor] from the secrets of a run
// and put it between a program and its log.
//
//	r := redact.New([]redact.Secret{{Name: "API_KEY", Value: key}})
//	w := r.Writer(file)
//	… what is written to w reaches the file with every form of the key replaced by [redacted:API_KEY] …
//	err := w.Close()
//
// A secret is found in the forms that programs write it in: as it is, in base64 (both alphabets, wherever in the encoded
// text it begins), in hex, percent-encoded, with the escapes of JSON, C or a shell, quoted for a shell, as HTML, and
// reversed; in each of them also across line breaks, and across the borders of what was written at once. Nothing is
// guessed: a text that merely looks like a secret stays. Encodings of encodings (but for strings of JSON, in which any
// may stand), compressed text and escaped characters beyond U+FFFF are not found. Of a secret that was cut in
// two before it came here, the beginning is found where an ellipsis marks the cut (abc… or abc[…); the end is not.
//
// Line breaks within a secret are kept behind its mark, so lines keep their numbers.
package redact

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"html"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// minLength is the least length of a value that is taken for a secret. To mask a shorter one would eat the report.
const minLength = 8

// TooShort says whether a value is too short to be masked: it has fewer than 8 bytes, not counting line breaks and what may
// be an escape. Whoever takes in secrets refuses such a one.
func TooShort(value string) bool {
	v := unbroken(value)
	return min(len(unescaped(backslash, v)), len(unescaped(percent, v))) < minLength
}

// minLine is the least length of a line that is a secret by itself when the whole secret has several, as a private key
// does. A patch has signs between its lines.
const minLine = 16

// A Secret is a value that must not be seen. Its name is put in its place.
type Secret struct {
	Name, Value string
}

// A Redactor knows the forms of some secrets. It never changes and may be used from many goroutines. A nil Redactor knows
// no secret.
type Redactor struct {
	forms *matcher
	marks []string // by the number of the secret
}

// New makes a Redactor. Values that are [TooShort] are ignored.
func New(secrets []Secret) *Redactor {
	r := &Redactor{forms: newMatcher()}
	for _, s := range secrets {
		if TooShort(s.Value) {
			continue
		}
		number := int32(len(r.marks))
		r.marks = append(r.marks, "[redacted:"+plainName(s.Name)+"]")
		for _, f := range forms(s.Value) {
			r.forms.add(f, number)
		}
		for line := range strings.Lines(s.Value) {
			line = strings.TrimSpace(line)
			if len(line) < minLine || TooShort(line) || strings.HasPrefix(line, "-----") {
				continue // the head and foot of a key are no secret
			}
			for _, f := range forms(line) {
				r.forms.add(f, number)
			}
		}
	}
	r.forms.link()
	return r
}

// Bytes returns b without secrets. It may be b itself.
func (r *Redactor) Bytes(b []byte) []byte {
	clean, _ := r.Clean(b)
	return clean
}

// Clean returns b without secrets, and how many marks stand for them now. It may be b itself.
func (r *Redactor) Clean(b []byte) (clean []byte, masked int) {
	if r.idle() {
		return b, 0
	}
	var out bytes.Buffer
	out.Grow(len(b))
	s := newScanner(r, &out)
	s.feed(b) // writing to a buffer cannot fail
	s.flush()
	return out.Bytes(), s.masked
}

// String returns text without secrets.
func (r *Redactor) String(text string) string {
	if r.idle() {
		return text
	}
	return string(r.Bytes([]byte(text)))
}

// Writer returns a writer that passes what it is given on to w, without secrets. It holds back no more than what may be the
// beginning of a secret; Close passes that on too, and leaves w open. It is for one goroutine at a time. To masked, which
// may be nil, it adds the number of marks that it wrote.
func (r *Redactor) Writer(w io.Writer, masked *int) io.WriteCloser {
	if r.idle() {
		return passing{w}
	}
	return &writer{to: w, scan: newScanner(r, nil), masked: masked}
}

func (r *Redactor) idle() bool { return r == nil || len(r.marks) == 0 }

type passing struct{ io.Writer }

func (passing) Close() error { return nil }

type writer struct {
	to     io.Writer
	scan   *scanner
	masked *int // nil: nobody asks
	err    error
}

func (w *writer) Write(p []byte) (int, error) {
	w.step(func() error { return w.scan.feed(p) })
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

func (w *writer) Close() error {
	w.step(w.scan.flush)
	return w.err
}

// buffers are for the time of one call, since a text with many beginnings of secrets is passed on in many parts.
var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 32<<10) }}

// step does one step of the scanner, and passes on what came of it at once.
func (w *writer) step(do func() error) {
	if w.err != nil {
		return
	}
	b := buffers.Get().(*bufio.Writer)
	b.Reset(w.to)
	w.scan.to = b
	before := w.scan.masked
	w.err = do()
	if w.err == nil {
		w.err = b.Flush()
	}
	if w.masked != nil {
		*w.masked += w.scan.masked - before
	}
	b.Reset(nil)
	buffers.Put(b)
}

// plainName keeps a mark harmless wherever it is put.
func plainName(name string) string {
	return strings.Map(func(c rune) rune {
		if c == '_' || c == '-' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			return c
		}
		return '_'
	}, name)
}

// forms are the texts in which a value is looked for, without line breaks. Escapes are not among them: they are undone in
// what is searched, for there are too many ways to write them.
func forms(value string) []string {
	v := unbroken(value)
	list := []string{
		v,
		unbroken(unescaped(backslash, v)), // as it is seen where escapes are undone
		unbroken(unescaped(percent, v)),
		unbroken(url.QueryEscape(v)), // spaces become plus signs
		strings.ReplaceAll(v, " ", "+"),
		strings.ReplaceAll(v, "'", `'\''`),
		unbroken(unescaped(backslash, strings.ReplaceAll(v, "'", `'\''`))), // the same within a string of JSON
		strings.ReplaceAll(v, "'", `'"'"'`),
		html.EscapeString(v),
		strings.ReplaceAll(html.EscapeString(v), "+", "&#43;"),
		backwards(v),
	}
	for _, raw := range []string{v, value} { // a break that is part of the value is encoded with it
		list = append(list, hex.EncodeToString([]byte(raw)), strings.ToUpper(hex.EncodeToString([]byte(raw))))
		for before := range 3 {
			list = append(list, encodedAt(base64.RawStdEncoding, before, raw), encodedAt(base64.RawURLEncoding, before, raw))
		}
	}
	slices.Sort(list)
	list = slices.DeleteFunc(slices.Compact(list), func(f string) bool { return len(f) < minLength })
	// In JSON, behind a backslash that is no part of it, its first letter is taken for that of an escape: a line break is gone.
	if f := unbroken(unescaped(backslash, `\`+v)); len(f) >= minLength-1 {
		list = append(list, f)
	}
	return list
}

// encodedAt is the part of the base64 form of value that does not depend on what stands around it, when the number of
// bytes before it leaves the given remainder by 3.
func encodedAt(enc *base64.Encoding, before int, value string) string {
	whole := enc.EncodeToString([]byte(strings.Repeat("x", before) + value))
	first := (before*8 + 5) / 6
	last := (before + len(value)) * 8 / 6
	return whole[first:last]
}

func backwards(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// unbroken returns text without line breaks. It works on bytes: a secret need not be UTF-8.
func unbroken(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r", ""), "\n", "")
}
