package sandbox

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"iter"
	"sync"
)

// How hidden assets are looked for. A text is cut into windows, one every few bytes, so that any passage of
// windowSize+windowStep bytes that two texts share holds one of them.
const (
	windowSize   = 64
	windowStep   = 16
	fewestBytes  = 16        // a file with less tells nothing: many others are like it
	fewestKinds  = 6         // different bytes of a window; a line of dashes tells nothing either
	mostWindowed = 4 << 20   // bytes of the hidden files of a case that are cut into windows; of the rest, whole files are known
	longPassage  = 512       // bytes in one piece that are no boilerplate
	almostAll    = 0.9       // share of a hidden file that makes a file of the source the same
	readAtOnce   = 128 << 10 // bytes
)

// A Search finds the content of a case's hidden assets in other bytes: whole files by their sha256, and texts by passages of
// 64 bytes. What the source of the case shows to everybody is not looked for; see [Search.Publish].
//
// Text that was encoded, compressed or indented otherwise is not found. Its methods may not be called at the same time as
// Publish, and else they may.
type Search struct {
	files   []wanted
	bySum   map[[sha256.Size]byte][]int
	sizes   map[int64]bool
	largest int64
	text    []byte // of all files that are cut into windows, one after the other
	windows []window
	first   map[uint64]int32 // window by hash
	filter  [1 << 13]uint64  // a bit for some of each hash: most bytes need no look into first
}

// wanted is one hidden file.
type wanted struct {
	path     string
	sum      [sha256.Size]byte
	size     int64
	all      int  // windows
	left     int  // of these, not public
	restored bool // the source has it, at the same path
}

// window is a piece of a hidden text.
type window struct {
	file   int32
	at     int32 // in Search.text
	next   int32 // with the same hash; -1: none
	public bool
}

// A Sighting is text of a hidden file where it should not be.
type Sighting struct {
	Hidden string  // path of the hidden file
	In     string  // what holds it
	Share  float64 // of what is looked for of the file, 0 to 1
	Told   bool    // it is the whole file, half of it, or a long passage: not what two texts have in common by chance
}

// Search reads the assets and gets ready to look for them. The error is an *Error of class grader.
func (a *Assets) Search() (*Search, error) {
	s := &Search{bySum: map[[sha256.Size]byte][]int{}, sizes: map[int64]bool{}, first: map[uint64]int32{}}
	for i := range a.tree.entries {
		e := &a.tree.entries[i]
		if !e.mode.IsRegular() || e.size < fewestBytes {
			continue
		}
		f := wanted{path: e.path, sum: e.sum, size: e.size}
		if int64(len(s.text))+e.size <= mostWindowed {
			data, err := a.tree.read(e)
			if err != nil {
				return nil, wrap("grader", a.what, err)
			}
			f.all = s.cut(data)
			f.left = f.all
		}
		s.bySum[e.sum] = append(s.bySum[e.sum], len(s.files))
		s.sizes[e.size] = true
		s.largest = max(s.largest, e.size)
		s.files = append(s.files, f)
	}
	return s, nil
}

// cut adds the windows of the next file and tells how many they are. What is no text has none.
func (s *Search) cut(data []byte) (n int) {
	if bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 {
		return 0
	}
	start := len(s.text)
	s.text = append(s.text, data...)
	for at := 0; at+windowSize <= len(data); at += windowStep {
		piece := data[at : at+windowSize]
		if kindsOf(piece) < fewestKinds {
			continue
		}
		h := hashOf(piece)
		next, known := s.first[h]
		if !known {
			next = -1
		}
		s.first[h] = int32(len(s.windows))
		s.windows = append(s.windows, window{file: int32(len(s.files)), at: int32(start + at), next: next})
		s.filter[h>>51] |= 1 << (h >> 45 & 63)
		n++
	}
	return n
}

// kindsOf counts the different bytes.
func kindsOf(b []byte) (n int) {
	var seen [256]bool
	for _, c := range b {
		if !seen[c] {
			seen[c] = true
			n++
		}
	}
	return n
}

// The rolling hash is a polynomial over the bytes of a window. It need not resist anybody: what it finds is compared.
const hashBase = 0x9E3779B97F4A7C15

func hashOf(b []byte) (h uint64) {
	for _, c := range b {
		h = h*hashBase + uint64(c) + 1
	}
	return h
}

// oldest is what the first byte of a window adds to its hash once it has left it.
var oldest = sync.OnceValue(func() (p uint64) {
	p = 1
	for range windowSize {
		p *= hashBase
	}
	return p
})

// Files tells how many hidden files there are to look for, and how many of them the source has at the same path.
func (s *Search) Files() (hidden, restored int) {
	for _, f := range s.files {
		if f.restored {
			restored++
		}
	}
	return len(s.files), restored
}

// Publish says what everybody may know: the tree of the source. A hidden file that the source has at the same path with the
// same bytes hides nothing, it only takes back what an agent does to it, so it is not looked for. Nor is any passage that the
// source holds, such as the head of each of its tests. A file elsewhere in the source that is a hidden file, or nearly, is
// the fault of the case, and found.
func (s *Search) Publish(source iter.Seq2[File, error]) (Look, error) {
	var l Look
	public := make([]bool, len(s.windows))
	buf := newBuffer("")
	err := eachFile(source, func(f File, r io.Reader) error {
		p, err := s.read(r, nil, buf)
		if err != nil {
			return err
		}
		l.Files++
		l.Bytes += p.size
		for w := range p.windows {
			public[w] = true
		}
		for i, n := range p.perFile(s, nil) {
			w := &s.files[i]
			switch {
			case w.path == f.Path:
				w.restored = w.restored || p.whole[i]
			case p.whole[i], w.all >= 4 && float64(n) >= almostAll*float64(w.all):
				l.Found = append(l.Found, Sighting{Hidden: w.path, In: f.Path, Share: share(n, w.all, p.whole[i]), Told: true})
			}
		}
		return nil
	})
	for i := range s.windows {
		if w := &s.windows[i]; public[i] || s.files[w.file].restored {
			w.public = true
			s.files[w.file].left--
		}
	}
	return l, err
}

// eachFile reads the regular files of a tree one after the other. Those that the tree has no content of are passed over:
// nobody could read them either.
func eachFile(tree iter.Seq2[File, error], do func(File, io.Reader) error) error {
	for f, err := range tree {
		if err != nil || !f.Mode.IsRegular() || f.Open == nil {
			continue
		}
		r, err := f.Open()
		if err == nil {
			err = errors.Join(do(f, r), r.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A Look is what was searched, and what was found.
type Look struct {
	Files    int   // files and streams
	Bytes    int64 // of them
	Found    []Sighting
	Canaries []string // what held the canary

	search *Search
	canary []byte
	buf    []byte // see newBuffer
}

// Look starts to look for the hidden assets, and for a canary, a text that nobody but us can know; empty: there is none.
func (s *Search) Look(canary string) *Look {
	return &Look{search: s, canary: []byte(canary), buf: newBuffer(canary)}
}

// newBuffer is what streams are read into, one after the other: a tree has thousands of files.
func newBuffer(canary string) []byte { return make([]byte, max(windowSize, len(canary))+readAtOnce) }

// Tree looks into the files of a tree. in stands before their paths.
func (l *Look) Tree(in string, tree iter.Seq2[File, error]) error {
	return eachFile(tree, func(f File, r io.Reader) error { return l.Stream(in+f.Path, r) })
}

// Folder looks into the regular files below a folder of this host. One that is not there holds nothing.
func (l *Look) Folder(in string, root fs.FS) error {
	return fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && name == ".":
			return nil
		case err != nil || !d.Type().IsRegular():
			return err
		}
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(l.Stream(in+name, f), f.Close())
	})
}

// Stream looks into all that r gives.
func (l *Look) Stream(in string, r io.Reader) error {
	p, err := l.search.read(r, l.canary, l.buf)
	if err != nil {
		return err
	}
	l.Files++
	l.Bytes += p.size
	if p.canary {
		l.Canaries = append(l.Canaries, in)
	}
	public := func(w int32) bool { return l.search.windows[w].public }
	for i, n := range p.perFile(l.search, public) {
		f := &l.search.files[i]
		if n == 0 && !p.whole[i] || f.restored {
			continue
		}
		told := p.whole[i] || 2*n >= f.left || p.longest(l.search, int32(i)) >= longPassage
		l.Found = append(l.Found, Sighting{Hidden: f.path, In: in, Share: share(n, f.left, p.whole[i]), Told: told})
	}
	return nil
}

func share(n, of int, whole bool) float64 {
	if whole || of == 0 {
		return 1
	}
	return float64(n) / float64(of)
}

// pieces is what one stream holds of the hidden files.
type pieces struct {
	size    int64
	windows map[int32]bool
	whole   map[int]bool // hidden files that it is
	canary  bool
}

// perFile counts the windows by hidden file, without those that are left out, and names the files that it is as a whole.
func (p *pieces) perFile(s *Search, leftOut func(w int32) bool) map[int]int {
	n := map[int]int{}
	for w := range p.windows {
		if leftOut == nil || !leftOut(w) {
			n[int(s.windows[w].file)]++
		}
	}
	for i := range p.whole {
		n[i] += 0
	}
	return n
}

// longest is the length of the longest passage of a hidden file that is there, in bytes, public parts aside.
func (p *pieces) longest(s *Search, file int32) (most int) {
	run := 0
	for i := range s.windows {
		w := &s.windows[i]
		if w.file != file {
			continue
		}
		if !p.windows[int32(i)] || w.public {
			run = 0
			continue
		}
		run++
		most = max(most, windowSize+(run-1)*windowStep)
	}
	return most
}

// read reads a stream to its end, through a buffer of newBuffer. Before it stand zeros, which no text begins with, so that
// there always is a whole window.
func (s *Search) read(r io.Reader, canary, buf []byte) (*pieces, error) {
	p := &pieces{windows: map[int32]bool{}, whole: map[int]bool{}}
	sum := sha256.New()
	held := len(buf) - readAtOnce // bytes that the next ones are read behind
	clear(buf[:held])
	h := hashOf(buf[:windowSize])
	for {
		n, err := r.Read(buf[held:])
		if p.size <= s.largest { // else it is no hidden file, whatever follows
			sum.Write(buf[held : held+n])
		}
		p.size += int64(n)
		h = s.roll(h, buf[held-windowSize:held+n], p.windows)
		p.canary = p.canary || len(canary) > 0 && bytes.Contains(buf[:held+n], canary)
		if err == io.EOF {
			break
		}
		if err != nil {
			return p, err
		}
		copy(buf, buf[n:held+n])
	}
	if s.sizes[p.size] {
		for _, i := range s.bySum[[sha256.Size]byte(sum.Sum(nil))] {
			p.whole[i] = true
		}
	}
	return p, nil
}

// roll moves on through a text that begins with the window whose hash is h, and notes the windows that it meets.
func (s *Search) roll(h uint64, text []byte, seen map[int32]bool) uint64 {
	filter, gone := &s.filter, oldest()
	leaving := text[:len(text)-windowSize]
	entering := text[windowSize:][:len(leaving)]
	for i, c := range leaving {
		h = h*hashBase + uint64(entering[i]) + 1 - (uint64(c)+1)*gone
		if filter[h>>51]>>(h>>45&63)&1 != 0 {
			s.match(h, text[i+1:i+1+windowSize], seen)
		}
	}
	return h
}

// match notes the windows that a piece is.
func (s *Search) match(h uint64, piece []byte, seen map[int32]bool) {
	w, ok := s.first[h]
	for ; ok && w >= 0; w = s.windows[w].next {
		if at := s.windows[w].at; bytes.Equal(s.text[at:at+windowSize], piece) {
			seen[w] = true
		}
	}
}
