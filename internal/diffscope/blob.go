package diffscope

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
)

// A blob is the content of one file, or the target of a link. It is shared by all trees that hold it and never changes.
type blob struct {
	text string // the content, unless it is on disk
	disk *io.SectionReader
	once sync.Once
	id   plumbing.Hash
}

func (b *blob) size() int64 {
	if b.disk != nil {
		return b.disk.Size()
	}
	return int64(len(b.text))
}

// hash returns git's name for the content.
func (b *blob) hash() plumbing.Hash {
	b.once.Do(func() {
		if b.disk == nil { // keep sets the id of what is on disk
			h := plumbing.NewHasher(plumbing.BlobObject, int64(len(b.text)))
			io.WriteString(h, b.text)
			b.id = h.Sum()
		}
	})
	return b.id
}

// equal tells whether two blobs hold the same bytes.
func (b *blob) equal(c *blob) bool {
	switch {
	case b == c:
		return true
	case b.size() != c.size():
		return false
	case b.disk == nil && c.disk == nil:
		return b.text == c.text
	}
	return b.hash() == c.hash()
}

// holds tells whether the blob is the content, with the help of a scratch buffer.
func (b *blob) holds(content, scratch []byte) (bool, error) {
	if b.disk == nil {
		return b.text == string(content), nil
	}
	if b.size() != int64(len(content)) {
		return false, nil
	}
	for at := 0; at < len(content); {
		n := min(len(scratch), len(content)-at)
		if _, err := b.disk.ReadAt(scratch[:n], int64(at)); err != nil {
			return false, &Error{Class: "io", Why: "read back a snapshot from a temporary file", Err: err}
		}
		if !bytes.Equal(scratch[:n], content[at:at+n]) {
			return false, nil
		}
		at += n
	}
	return true, nil
}

func (b *blob) open() io.Reader {
	if b.disk != nil {
		return io.NewSectionReader(b.disk, 0, b.disk.Size())
	}
	return strings.NewReader(b.text)
}

// start returns the first n bytes, or all when there are fewer.
func (b *blob) start(n int) (string, error) {
	if b.disk == nil {
		return b.text[:min(n, len(b.text))], nil
	}
	start := make([]byte, min(int64(n), b.size()))
	_, err := b.disk.ReadAt(start, 0)
	return string(start), err
}

// load returns the whole content.
func (b *blob) load() (string, error) {
	if b.disk == nil {
		return b.text, nil
	}
	var text strings.Builder
	text.Grow(int(b.size()))
	_, err := io.Copy(&text, b.open())
	return text.String(), err
}

// A store keeps on disk what a snapshot does not keep in memory: in one file that has no name any more, so that nothing is
// left behind however this process ends. It is closed when no blob refers to it.
type store struct {
	file *os.File
	end  int64
}

// keep writes size bytes of r behind what the store has. The space is used again unless commit follows.
func (s *store) keep(r io.Reader, size int64) (*blob, error) {
	if err := s.open(); err != nil {
		return nil, &Error{Class: "io", Why: "keep a snapshot in a temporary file", Err: err}
	}
	h := plumbing.NewHasher(plumbing.BlobObject, size)
	chunk := make([]byte, min(size+1, 1<<20))
	for at := s.end; ; {
		n, err := r.Read(chunk)
		h.Write(chunk[:n])
		if _, err := s.file.WriteAt(chunk[:n], at); err != nil {
			return nil, &Error{Class: "io", Why: "keep a snapshot in a temporary file", Err: err}
		}
		at += int64(n)
		switch {
		case at-s.end > size, err == io.EOF && at-s.end < size:
			return nil, errMoved
		case err == io.EOF:
			return &blob{disk: io.NewSectionReader(s.file, s.end, size), id: h.Sum()}, nil
		case err != nil:
			return nil, err
		}
	}
}

func (s *store) open() error {
	if s.file != nil {
		return nil
	}
	f, err := os.CreateTemp("", "assay-snapshot-")
	if err != nil {
		return err
	}
	s.file = f
	return os.Remove(f.Name())
}

func (s *store) commit(b *blob) { s.end += b.size() }
