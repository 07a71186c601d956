package sandbox

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// A layer writes entries over a tree that may already stand there, while nobody else does. It never writes through a link:
// what stands at the path of an entry, and a link or a file where a folder must be, is removed first.
type layer struct {
	root     *os.Root
	setMode  bool
	folders  map[string]bool   // known to be real folders
	replaced func(name string) // told what was removed; nil: nobody
}

func newLayer(root *os.Root, setMode bool) *layer {
	return &layer{root: root, setMode: setMode, folders: map[string]bool{".": true}}
}

// entry writes one entry of a tree under another name and mode.
func (l *layer) entry(t *tree, e *entry, name string, mode fs.FileMode) error {
	switch {
	case e.mode.IsDir():
		return l.folder(name)
	case e.mode&fs.ModeSymlink != 0:
		return l.link(name, e.link)
	}
	return l.file(name, mode, func(to *os.File) error {
		from, err := t.open(e)
		if err != nil {
			return err
		}
		defer from.Close()
		sum := sha256.New()
		if _, err := io.Copy(io.MultiWriter(to, sum), from); err != nil {
			return err
		}
		if !bytes.Equal(sum.Sum(nil), e.sum[:]) {
			return fmt.Errorf("%s: %w", e.path, errChanged)
		}
		return nil
	})
}

// folder makes sure that a folder is there, and that each part of its path is one.
func (l *layer) folder(name string) error {
	if l.folders[name] {
		return nil
	}
	if err := l.folder(path.Dir(name)); err != nil {
		return err
	}
	err := makeDir(l.root, name, l.setMode)
	if errors.Is(err, fs.ErrExist) {
		info, known := l.root.Lstat(name)
		if known == nil && info.IsDir() {
			err = nil
		} else if err = l.remove(name); err == nil {
			err = makeDir(l.root, name, l.setMode)
		}
	}
	if err == nil {
		l.folders[name] = true
	}
	return err
}

func (l *layer) file(name string, mode fs.FileMode, fill func(*os.File) error) error {
	return l.place(name, func() error { return writeFile(l.root, name, mode, l.setMode, fill) })
}

func (l *layer) link(name, target string) error {
	return l.place(name, func() error { return l.root.Symlink(target, name) })
}

// place calls write, which must not replace anything, and once more when something stood in its way.
func (l *layer) place(name string, write func() error) error {
	if err := l.folder(path.Dir(name)); err != nil {
		return err
	}
	err := write()
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := l.remove(name); err != nil {
		return err
	}
	return write()
}

func (l *layer) remove(name string) error {
	for dir := range l.folders {
		if dir == name || strings.HasPrefix(dir, name+"/") {
			delete(l.folders, dir)
		}
	}
	if l.replaced != nil {
		l.replaced(name)
	}
	return l.root.RemoveAll(name)
}
