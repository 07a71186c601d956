package redact

import "strings"

// A view is a stream as one reader would understand it: without line breaks, and with one kind of escape undone. It runs
// the automaton over what it understands, and remembers where in the stream that stood.
type view struct {
	forms *matcher
	text  unescaper
	found func(start, end int64, secret int32)

	state  int32
	starts []int64 // where the latest characters began, at least as many as the depth of state
	breaks int     // line breaks since the last character

	torn span // the beginning of a form that a cut mark may follow
	seen int  // bytes of the cut mark that followed it; 0: none is looked for
}

// cutMark is what stands behind a text that was cut, with or without its bracket.
const cutMark = "[…"

// maxBreaks is how many characters that break lines may stand in a row within a secret; more of them part two texts.
const maxBreaks = 8

func newView(m *matcher, undo escape, found func(start, end int64, secret int32)) *view {
	v := &view{forms: m, found: found}
	v.text = unescaper{undo: undo, char: v.char}
	return v
}

// read takes one byte of the stream. The beginning of a form is a secret too when a cut mark stands right behind it: whoever
// shortened the text could not know that it cut a secret in two.
func (v *view) read(c byte, at int64) {
	if v.seen > 0 || c == cutMark[0] || c == cutMark[1] {
		v.lookForCut(c, at)
	}
	v.text.read(c, at)
}

// lookForCut takes a byte that may be one of a cut mark.
func (v *view) lookForCut(c byte, at int64) {
	depth := int(v.forms.states[v.state].depth)
	switch {
	case v.seen > 0 && c == cutMark[v.seen]:
		v.seen++
	case depth >= minLength && (c == cutMark[0] || c == cutMark[1]):
		v.torn = span{start: v.starts[len(v.starts)-depth], end: at, secret: v.forms.owner(v.state)}
		v.seen = 1 + strings.IndexByte(cutMark, c)
	default:
		v.seen = 0
	}
	if v.seen == len(cutMark) {
		v.found(v.torn.start, v.torn.end, v.torn.secret)
		v.seen = 0
	}
}

// resting says that the view is not in the middle of something.
func (v *view) resting() bool { return v.state == 0 && v.seen == 0 && !v.text.pending() }

// char takes one character, which the stream writes from start to end.
func (v *view) char(c byte, start, end int64) {
	if c == '\r' || c == '\n' {
		if v.breaks++; v.breaks > maxBreaks {
			v.state, v.starts = 0, v.starts[:0]
		}
		return
	}
	v.breaks = 0
	v.state = v.forms.next(v.state, c)
	if v.state == 0 {
		v.starts = v.starts[:0]
		return
	}
	v.starts = append(v.starts, start)
	now := &v.forms.states[v.state]
	if now.length > 0 {
		v.found(v.starts[len(v.starts)-int(now.length)], end, now.secret)
	}
	if depth := int(now.depth); len(v.starts) > 2*depth+64 {
		v.starts = v.starts[:copy(v.starts, v.starts[len(v.starts)-depth:])]
	}
}

// begun is where the earliest secret begins that may still come, given that the stream was read to end.
func (v *view) begun(end int64) int64 {
	if v.seen > 0 {
		end = v.torn.start
	}
	if v.state != 0 {
		return min(end, v.starts[len(v.starts)-int(v.forms.states[v.state].depth)])
	}
	if v.text.pending() {
		return min(end, v.text.from)
	}
	return end
}
