package redact

// A view is a stream as one reader would understand it: without line breaks, and with one kind of escape undone. It runs
// the automaton over what it understands, and remembers where in the stream that stood.
type view struct {
	forms *matcher
	text  unescaper
	found func(start, end int64, secret int32)

	state  int32
	starts []int64 // where the latest characters began, at least as many as the depth of state
	breaks int     // line breaks since the last character
}

// maxBreaks is how many characters that break lines may stand in a row within a secret; more of them part two texts.
const maxBreaks = 8

func newView(m *matcher, undo escape, found func(start, end int64, secret int32)) *view {
	v := &view{forms: m, found: found}
	v.text = unescaper{undo: undo, char: v.char}
	return v
}

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
	if v.state != 0 {
		return v.starts[len(v.starts)-int(v.forms.states[v.state].depth)]
	}
	if v.text.pending() {
		return v.text.from
	}
	return end
}
