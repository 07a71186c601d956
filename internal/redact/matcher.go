package redact

// A matcher is an automaton that finds the longest of many forms that ends at a place, in one pass (Aho and Corasick). A
// state is the longest beginning of a form with which the text read so far ends; state 0 is the empty one.
type matcher struct {
	states []state
	first  [256]int32      // the states that follow state 0
	pairs  [1 << 10]uint64 // a bit for every two bytes with which a form may begin
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

func (m *matcher) begin(c, d byte) {
	pair := uint(c)<<8 | uint(d)
	m.pairs[pair>>6] |= 1 << (pair & 63)
}

// begins says whether a form may begin with two bytes, or with the first of them and something that is no part of it.
func (m *matcher) begins(c, d byte) bool {
	pair := uint(c)<<8 | uint(d)
	return m.pairs[pair>>6]>>(pair&63)&1 != 0
}
