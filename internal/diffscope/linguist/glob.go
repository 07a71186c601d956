package linguist

import (
	"slices"
	"strings"
)

// A glob is a pattern of .gitattributes in parts, each of which matches some bytes. Matching follows all ways through the
// parts at once, so its time is bounded by parts × bytes.
type glob []globPart

type globPart struct {
	kind globKind
	c    byte     // of oneByte
	set  *byteSet // of oneOf
}

type globKind int8

const (
	oneByte  globKind = iota
	oneOf             // a byte of a class, which never holds a slash
	anyRun            // any bytes without a slash, or none
	deepRun           // any bytes, or none
	mayEnter          // nothing; the two parts that follow may be left out
	never             // matches nothing: the pattern is broken
)

// A byteSet has a bit for each byte.
type byteSet [4]uint64

// Where the slash is in a byteSet. No class may hold it.
const (
	slashWord = '/' >> 6
	slashBit  = 1 << ('/' & 63)
)

func (s *byteSet) has(c byte) bool { return s[c>>6]>>(c&63)&1 != 0 }

func (s *byteSet) add(c byte) { s[c>>6] |= 1 << (c & 63) }

// not is all other bytes but the slash.
func (s byteSet) not() *byteSet {
	for i := range s {
		s[i] = ^s[i]
	}
	s[slashWord] &^= slashBit
	return &s
}

// newGlob takes a pattern apart. Two stars cross folders where they are a part of the path by themselves; elsewhere they are
// like one.
func newGlob(pattern string) glob {
	g := glob{}
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*':
			start := i
			for i+1 < len(pattern) && pattern[i+1] == '*' {
				i++
			}
			g = append(g, stars(pattern, start, i+1)...)
			if g[len(g)-1].kind == oneByte {
				i++ // the slash behind the stars
			}
		case '?':
			g = append(g, globPart{kind: oneOf, set: byteSet{}.not()})
		case '[':
			set, length := newByteSet(pattern[i+1:])
			if length == 0 {
				return append(g, globPart{kind: never})
			}
			g = append(g, globPart{kind: oneOf, set: set})
			i += length
		case '\\':
			if i++; i == len(pattern) {
				return append(g, globPart{kind: never})
			}
			g = append(g, globPart{kind: oneByte, c: pattern[i]})
		default:
			g = append(g, globPart{kind: oneByte, c: c})
		}
	}
	return g
}

// stars are the parts for the stars from start to end, with the slash behind them when folders may be left out.
func stars(pattern string, start, end int) []globPart {
	rest := pattern[end:]
	alone := end-start > 1 && (start == 0 || pattern[start-1] == '/')
	switch {
	case alone && strings.HasPrefix(rest, "/"):
		return []globPart{{kind: mayEnter}, {kind: deepRun}, {kind: oneByte, c: '/'}}
	case alone && (rest == "" || strings.HasPrefix(rest, `\/`)):
		return []globPart{{kind: deepRun}}
	}
	return []globPart{{kind: anyRun}}
}

// newByteSet reads a class from behind its bracket, and how long it is with the closing one; 0 when it is broken.
func newByteSet(class string) (_ *byteSet, length int) {
	var set byteSet
	i := 0
	negated := class != "" && (class[0] == '!' || class[0] == '^')
	if negated {
		i++
	}
	last := -1 // the byte before, when it may start a range
	for start := i; i < len(class); i++ {
		c := class[i]
		switch {
		case c == ']' && i > start:
			if negated {
				return set.not(), i + 1
			}
			set[slashWord] &^= slashBit
			return &set, i + 1
		case c == '-' && last >= 0 && i+1 < len(class) && class[i+1] != ']':
			if i++; class[i] == '\\' {
				i++
			}
			if i == len(class) {
				return nil, 0
			}
			for in := last; in <= int(class[i]); in++ {
				set.add(byte(in))
			}
			last = -1
		case c == '[' && strings.HasPrefix(class[i+1:], ":"):
			is, length := namedClass(class[i+2:])
			switch {
			case length == 0:
				set.add('[')
				last = '['
				continue
			case is == nil:
				return nil, 0
			}
			for in := range 256 {
				if is(byte(in)) {
					set.add(byte(in))
				}
			}
			i += 1 + length
			last = -1
		default:
			if c == '\\' {
				if i++; i == len(class) {
					return nil, 0
				}
			}
			set.add(class[i])
			last = int(class[i])
		}
	}
	return nil, 0
}

// namedClass reads a name such as alpha from behind "[:", and how long it is with the ":]" at its end; 0 when there is no such
// end. The func is nil for a name that is not known, and when no bracket follows at all.
func namedClass(text string) (is func(byte) bool, length int) {
	closing := strings.IndexByte(text, ']')
	switch {
	case closing < 0:
		return nil, len(text) + 1
	case closing == 0 || text[closing-1] != ':':
		return nil, 0
	}
	return asciiClass(text[:closing-1]), closing + 1
}

func asciiClass(name string) func(byte) bool {
	switch name {
	case "alnum":
		return func(c byte) bool { return isASCIILetter(c) || isASCIIDigit(c) }
	case "alpha":
		return isASCIILetter
	case "blank":
		return func(c byte) bool { return c == ' ' || c == '\t' }
	case "cntrl":
		return func(c byte) bool { return c < ' ' || c == 0x7f }
	case "digit":
		return isASCIIDigit
	case "graph":
		return func(c byte) bool { return c > ' ' && c < 0x7f }
	case "lower":
		return func(c byte) bool { return c >= 'a' && c <= 'z' }
	case "print":
		return func(c byte) bool { return c >= ' ' && c < 0x7f }
	case "punct":
		return func(c byte) bool { return c > ' ' && c < 0x7f && !isASCIILetter(c) && !isASCIIDigit(c) }
	case "space":
		return func(c byte) bool { return c != 0 && strings.IndexByte(" \t\n\r", c) >= 0 }
	case "upper":
		return func(c byte) bool { return c >= 'A' && c <= 'Z' }
	case "xdigit":
		return func(c byte) bool { return isASCIIDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
	}
	return nil
}

func isASCIILetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isASCIIDigit(c byte) bool { return c >= '0' && c <= '9' }

// matches tells whether the whole text can be divided among the parts.
func (g glob) matches(text string) bool {
	now, next := make([]bool, len(g)+1), make([]bool, len(g)+1)
	g.reach(now, 0)
	for i := range len(text) {
		clear(next)
		for at, reached := range now[:len(g)] {
			if !reached {
				continue
			}
			switch part := g[at]; {
			case part.kind == oneByte && part.c == text[i], part.kind == oneOf && part.set.has(text[i]):
				g.reach(next, at+1)
			case part.kind == deepRun, part.kind == anyRun && text[i] != '/':
				g.reach(next, at)
			}
		}
		if !slices.Contains(next, true) {
			return false
		}
		now, next = next, now
	}
	return now[len(g)]
}

// reach marks a part as one that may match next, and those behind it when it may match nothing.
func (g glob) reach(states []bool, at int) {
	for !states[at] {
		states[at] = true
		if at == len(g) {
			return
		}
		switch g[at].kind {
		case mayEnter:
			g.reach(states, at+3)
		case anyRun, deepRun:
		default:
			return
		}
		at++
	}
}
