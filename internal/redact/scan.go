package redact

import (
	"bytes"
	"cmp"
	"io"
	"slices"
)

// A scanner takes secrets out of one stream. Every view looks at every byte; what no view can still make a secret of is
// passed on. The result does not depend on how the stream was cut.
type scanner struct {
	marks  []string // by the number of the secret
	to     io.Writer
	forms  *matcher
	views  []*view
	held   []byte // the bytes from base on that were not passed on, a part of buffer
	base   int64
	buffer []byte
	pos    int64  // of the next byte
	fresh  []span // found since hits was put in order
	hits   []span // apart, in order; none ended before base
	masked int    // marks that were written
}

// A span is a part of the stream that is a secret, or several that overlap.
type span struct {
	start, end int64
	length     int64 // of the longest match in it, whose name it bears
	at         int64 // where that match begins
	secret     int32
	breaks     int // line feeds in it that were dropped from held already
}

func newScanner(r *Redactor, to io.Writer) *scanner {
	s := &scanner{marks: r.marks, to: to, forms: r.forms}
	for _, undo := range []escape{none, backslash, percent} {
		s.views = append(s.views, newView(r.forms, undo, s.found))
	}
	return s
}

// piece bounds, in bytes, how much is looked at before what is harmless is passed on, and so what is held.
const piece = 1 << 10

func (s *scanner) feed(p []byte) error {
	for len(p) > 0 {
		if s.resting() {
			n := s.forms.harmless(p)
			if n > 0 {
				if err := s.emit(p[:n]); err != nil {
					return err
				}
				s.pos, s.base = s.pos+int64(n), s.base+int64(n)
			}
			if p = p[n:]; len(p) == 0 {
				return nil
			}
		}
		n, err := s.look(p[:min(len(p), piece)])
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// resting says that no view is in the middle of something.
func (s *scanner) resting() bool {
	for _, v := range s.views {
		if !v.resting() {
			return false
		}
	}
	return true
}

// look has every view read the next bytes, until all of them rest again, and says how many it were.
func (s *scanner) look(p []byte) (int, error) {
	n := 0
	for n < len(p) && (n == 0 || !s.resting()) {
		for _, v := range s.views {
			v.read(p[n], s.pos+int64(n))
		}
		n++
	}
	end := s.pos + int64(n)
	safe := end
	for _, v := range s.views {
		safe = min(safe, v.begun(end))
	}
	s.buffer = append(append(s.buffer[:0], s.held...), p[:n]...)
	s.held = s.buffer
	s.pos = end
	s.settle()
	return n, s.pass(safe)
}

func (s *scanner) emit(p []byte) error {
	_, err := s.to.Write(p)
	return err
}

func (s *scanner) flush() error {
	for _, v := range s.views {
		v.text.finish()
	}
	s.settle()
	return s.pass(s.pos)
}

func (s *scanner) found(start, end int64, secret int32) {
	s.fresh = append(s.fresh, span{start: start, end: end, length: end - start, at: start, secret: secret})
}

// settle puts what was found in order, and makes one of what overlaps.
func (s *scanner) settle() {
	if len(s.fresh) == 0 {
		return
	}
	all := append(s.hits, s.fresh...)
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	s.hits = all[:1]
	for _, h := range all[1:] {
		if last := &s.hits[len(s.hits)-1]; h.start < last.end {
			*last = last.with(h)
		} else {
			s.hits = append(s.hits, h)
		}
	}
	s.fresh = s.fresh[:0]
}

func (a span) with(b span) span {
	if b.length > a.length || b.length == a.length && (b.at < a.at || b.at == a.at && b.secret < a.secret) {
		a.length, a.at, a.secret = b.length, b.at, b.secret
	}
	a.start, a.end, a.breaks = min(a.start, b.start), max(a.end, b.end), a.breaks+b.breaks
	return a
}

// pass passes on what stands before a position, and drops what is a secret there.
func (s *scanner) pass(safe int64) error {
	done := 0
	for done < len(s.hits) && s.hits[done].start < safe {
		h := &s.hits[done]
		if err := s.out(h.start); err != nil {
			return err
		}
		upto := min(h.end, safe)
		h.breaks += bytes.Count(s.held[:upto-s.base], []byte("\n"))
		s.drop(upto)
		if h.end > safe {
			break // it may grow yet
		}
		mark := append([]byte(s.marks[h.secret]), bytes.Repeat([]byte("\n"), h.breaks)...)
		if err := s.emit(mark); err != nil {
			return err
		}
		s.masked++
		done++
	}
	s.hits = slices.Delete(s.hits, 0, done)
	return s.out(safe)
}

func (s *scanner) out(upto int64) error {
	if upto <= s.base {
		return nil
	}
	err := s.emit(s.held[:upto-s.base])
	s.drop(upto)
	return err
}

func (s *scanner) drop(upto int64) {
	s.held, s.base = s.held[upto-s.base:], upto
}
