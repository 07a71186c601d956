package redact

// A matcher is an automaton that finds the longest of many forms that ends at a place, in one pass (Aho and Corasick). A
// state is the longest beginning of a form with which the text read so far ends; state 0 is the empty one.
type matcher struct {
	states []state
	first  [256]int32      // the states that follow state 0
	pairs  [1 << 10]uint64 // a bit for every two bytes with which a form, or an escape, may begin
}

type state struct {
	child, sibling int32 // 0: none
	fail           int32 // the next shorter beginning of a form with which this one ends
	depth          int32 // bytes
	length         int32 // of the longest form that ends here; 0: none does
	secret         int32 // whose form it is
	label          byte
}

func newMatcher() *matcher { return &matcher{states: make([]state, 1)} }

// add makes a form known. When two secrets share a form, it belongs to the first.
func (m *matcher) add(form string, secret int32) {
	at := int32(0)
	for i := range len(form) {
		next := m.child(at, form[i])
		if next == 0 {
			next = int32(len(m.states))
			m.states = append(m.states, state{sibling: m.states[at].child, depth: m.states[at].depth + 1, label: form[i]})
			m.states[at].child = next
		}
		at = next
	}
	if m.states[at].length == 0 {
		m.states[at].length, m.states[at].secret = m.states[at].depth, secret
	}
}

func (m *matcher) child(at int32, c byte) int32 {
	for next := m.states[at].child; next != 0; next = m.states[next].sibling {
		if m.states[next].label == c {
			return next
		}
	}
	return 0
}

// link is called once, after the last form.
func (m *matcher) link() {
	var queue []int32
	for s := m.states[0].child; s != 0; s = m.states[s].sibling {
		c := m.states[s].label
		m.first[c] = s
		queue = append(queue, s)
		for _, between := range []byte{'\r', '\n', byte(backslash), byte(percent)} {
			m.begin(c, between)
		}
		for t := m.states[s].child; t != 0; t = m.states[t].sibling {
			m.begin(c, m.states[t].label)
		}
	}
	for c := range 256 {
		m.begin(byte(backslash), byte(c))
		m.begin(byte(percent), byte(c))
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for s := m.states[at].child; s != 0; s = m.states[s].sibling {
			fail := m.next(m.states[at].fail, m.states[s].label)
			m.states[s].fail = fail
			if m.states[s].length == 0 {
				m.states[s].length, m.states[s].secret = m.states[fail].length, m.states[fail].secret
			}
			queue = append(queue, s)
		}
	}
}

// next is the state after one more byte. Over a whole text its steps are at most two for each byte.
func (m *matcher) next(at int32, c byte) int32 {
	for at != 0 {
		if s := m.child(at, c); s != 0 {
			return s
		}
		at = m.states[at].fail
	}
	return m.first[c]
}

// owner is a secret to which the beginning of a form belongs.
func (m *matcher) owner(at int32) int32 {
	for m.states[at].child != 0 {
		at = m.states[at].child
	}
	return m.states[at].secret
}

func (m *matcher) begin(c, d byte) {
	pair := uint(c)<<8 | uint(d)
	m.pairs[pair>>6] |= 1 << (pair & 63)
}

// harmless is how many of the first bytes of p no view has to look at: no form begins with any of them in any view. Which
// form begins with the last ones may be for the next bytes to say; then those are not among them. Nor is one half of an
// escape.
func (m *matcher) harmless(p []byte) int {
	last := len(p) - 1
	for i := 0; i < last; {
		pair := uint(p[i])<<8 | uint(p[i+1])
		if m.pairs[pair>>6]>>(pair&63)&1 == 0 {
			i++
			continue
		}
		n := m.dismiss(p[i:])
		if n == 0 {
			return i
		}
		i += n
		if i > last {
			return len(p)
		}
	}
	if c := p[last]; m.first[c] != 0 || c == byte(backslash) || c == byte(percent) {
		return last
	}
	return len(p)
}

// dismiss is how many of the first bytes of p, which are at least two, are harmless although they look like a beginning: 0
// when they may be one.
func (m *matcher) dismiss(p []byte) int {
	if m.mayBegin(p) {
		return 0
	}
	switch escape(p[0]) {
	case percent:
		if isHex(p[1]) || isBreak(p[1]) || p[1] == byte(backslash) {
			return 0
		}
	case backslash:
		c := p[1]
		switch c {
		case 'u', 'x', '\r', '\n', byte(backslash), byte(percent):
			return 0
		}
		if c == 't' && m.first['\t'] != 0 || m.mayBegin(p[1:]) {
			return 0
		}
		return 2
	}
	return 1
}

// near is how many characters must be those of a form before a text is worth a look.
const near = 4

// mayBegin says whether a form may begin with the first bytes of p; what an escape stands for is not known here.
func (m *matcher) mayBegin(p []byte) bool {
	at := m.first[p[0]]
	if at == 0 {
		return false
	}
	for _, c := range p[1:] {
		switch {
		case c == '\r' || c == '\n':
			continue
		case c == byte(backslash) || c == byte(percent):
			return true
		}
		if at = m.child(at, c); at == 0 {
			return false
		}
		if m.states[at].depth >= near {
			return true
		}
	}
	return true
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}
