package suite

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// A Pos is a place in a file; Line and Col count from 1, Col in characters. Line 0 is the file as a whole.
type Pos struct {
	File      string
	Line, Col int
}

// String is file:line:col, or the file alone.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Level says how much a problem matters.
type Level string

// The levels. A fault stops the case it is in, or the suite; a warning stops nothing.
const (
	LevelFault   Level = "fault"
	LevelWarning Level = "warning"
)

// A Problem is something wrong with a suite, at a place that its author can go to.
type Problem struct {
	Pos
	Level     Level
	Msg, Hint string // Hint says what to try next; often empty

	snippet string // the line at Pos, without its break
	width   int    // characters of it that are at fault
}

// Error prints file:line:col and the message, the source line with a caret under the token, and the hint.
func (p Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.Pos.String() + ": ")
	}
	if p.Level == LevelWarning {
		b.WriteString("warning: ")
	}
	b.WriteString(p.Msg)
	if p.snippet != "" {
		line, caret := underline(p.snippet, p.Col, p.width)
		fmt.Fprintf(&b, "\n  %s\n  %s", line, caret)
	}
	if p.Hint != "" {
		b.WriteString("\nhint: " + p.Hint)
	}
	return b.String()
}

// MarshalJSON is the face for machines: file, line, col, level, message and hint. A line of 0 is the file as a whole.
func (p Problem) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		File    string `json:"file"`
		Line    int    `json:"line"`
		Col     int    `json:"col"`
		Level   Level  `json:"level"`
		Message string `json:"message"`
		Hint    string `json:"hint,omitempty"`
	}{p.File, p.Line, p.Col, p.Level, p.Msg, p.Hint})
}

// Problems are all that is wrong, sorted by file, line and column.
type Problems []Problem

// Error prints every problem, one below the other.
func (ps Problems) Error() string {
	texts := make([]string, len(ps))
	for i, p := range ps {
		texts[i] = p.Error()
	}
	return strings.Join(texts, "\n")
}

// Flatten gathers what stands in err, also below errors.Join and %w, as one sorted list, so that faults which several
// rooms found print together. An error that is no Problem becomes one without a place.
func Flatten(err error) Problems {
	return collect(err).sorted()
}

func collect(err error) Problems {
	switch e := err.(type) {
	case nil:
		return nil
	case Problem:
		return Problems{e}
	case Problems:
		return slices.Clone(e)
	case interface{ Unwrap() []error }:
		var ps Problems
		for _, inner := range e.Unwrap() {
			ps = append(ps, collect(inner)...)
		}
		return ps
	}
	if inner := errors.Unwrap(err); inner != nil {
		if ps := collect(inner); slices.ContainsFunc(ps, func(p Problem) bool { return p.File != "" }) {
			return ps
		}
	}
	return Problems{{Level: LevelFault, Msg: err.Error()}}
}

// sorted orders the problems and drops repetitions, which aliases make: one node is then read at several places.
func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col),
			cmp.Compare(a.Msg, b.Msg))
	})
	return slices.Compact(ps)
}

// err is nil for an empty list, so that no caller meets a non-nil error without a problem in it.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps.sorted()
}

// snippetMax is how many characters of a long line are shown around the fault.
const snippetMax = 120

// underline returns line as it can be shown, and the caret line below it. Tabs stay tabs in both, and a character that
// a terminal draws two cells wide is two wide in the caret line.
func underline(line string, col, width int) (shown, caret string) {
	runes := []rune(line)
	at := min(max(col-1, 0), len(runes))
	if len(runes) > snippetMax {
		from := max(0, min(at-snippetMax/3, len(runes)-snippetMax))
		runes, at = runes[from:from+snippetMax], at-from
	}
	var out, under strings.Builder
	for i, r := range runes {
		if r != '\t' && !unicode.IsGraphic(r) {
			r = unicode.ReplacementChar // control and direction characters would move the caret or worse
		}
		out.WriteRune(r)
		cells := cellsOf(r)
		switch {
		case i < at && r == '\t':
			under.WriteByte('\t')
		case i < at:
			under.WriteString(strings.Repeat(" ", cells))
		case i == at:
			under.WriteString("^" + strings.Repeat("~", max(cells-1, 0)))
		case i < at+width:
			under.WriteString(strings.Repeat("~", cells))
		}
	}
	if at >= len(runes) {
		under.WriteByte('^')
	}
	return strings.TrimRight(out.String(), " \t"), under.String()
}

// wide are the scripts and symbols that terminals draw two cells wide.
var wide = []*unicode.RangeTable{
	unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana, unicode.Yi,
	{
		R16: []unicode.Range16{{Lo: 0x3000, Hi: 0x303e, Stride: 1}, {Lo: 0xff01, Hi: 0xff60, Stride: 1}, {Lo: 0xffe0, Hi: 0xffe6, Stride: 1}},
		R32: []unicode.Range32{{Lo: 0x1f300, Hi: 0x1f64f, Stride: 1}, {Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1}, {Lo: 0x1f900, Hi: 0x1faff, Stride: 1}},
	},
}

func cellsOf(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0x1100 && unicode.In(r, wide...):
		return 2
	}
	return 1
}

// quote shows a piece of foreign text in a message: escaped, and cut when it is long.
func quote(s string) string {
	const most = 80
	if runes := []rune(s); len(runes) > most {
		return fmt.Sprintf("%q", string(runes[:most])+"…")
	}
	return fmt.Sprintf("%q", s)
}

// didYouMean proposes the known word that is nearest to got, or lists the known words when none is near.
func didYouMean(got string, known []string) string {
	if best := nearest(got, known); best != "" {
		return "did you mean " + best + "?"
	}
	if len(known) == 0 {
		return ""
	}
	return "known: " + strings.Join(known, ", ")
}

// nearest is the known word that got is probably a slip of, or empty.
func nearest(got string, known []string) (best string) {
	limit := 2 + min(len(got), 30)/3 // farther than this is another word
	for _, k := range known {
		if d := distance(got, k); d < limit {
			best, limit = k, d
		}
	}
	return best
}

// distance is the number of letters to insert, delete, replace or swap with their neighbour to turn a into b, without
// regard to case, hyphens being underscores.
func distance(a, b string) int {
	fold := func(s string) []rune { return []rune(strings.ReplaceAll(strings.ToLower(s), "-", "_")) }
	s, t := fold(a), fold(b)
	if len(s) > 64 {
		return len(s) // no key is that long
	}
	before, prev, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(s); i++ {
		row[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(t)]
}
