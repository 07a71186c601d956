package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/assay-ci/assay/internal/executor"
)

// standardPlace is the name that the root of a place has in what is cached, and in containers. A virtual environment holds
// the path of its own folder in the first lines of its programs; what was made under another name is written as if it had
// been made here, and copied back the same way.
const standardPlace = executor.InsideRoot

// maxMoved is the size of the largest file that is looked at: files with paths in them are small texts.
const maxMoved = 1 << 20

// naming lists the entries that name a folder: texts with its path in them, and links that lead into it. What cannot be read
// is left out; whoever lays the tree finds that out.
func (t *tree) naming(dir string) (list []*entry) {
	var mu sync.Mutex
	_ = t.each(func(e *entry, _ *scratch) error {
		if t.names(e, dir) {
			mu.Lock()
			list = append(list, e)
			mu.Unlock()
		}
		return nil
	})
	return list
}

func (t *tree) names(e *entry, dir string) bool {
	switch {
	case e.mode.Type() == fs.ModeSymlink:
		return e.link == dir || strings.HasPrefix(e.link, dir+"/")
	case !e.mode.IsRegular() || e.size > maxMoved:
		return false
	}
	data, err := t.read(e)
	return err == nil && bytes.Contains(data, []byte(dir)) && !bytes.ContainsRune(data, 0)
}

// move writes the listed entries of a tree that was laid below root once more, with one folder's path in the place of
// another's.
func (t *tree) move(root *os.Root, list []*entry, from, to string) error {
	for _, e := range list {
		if err := root.Remove(e.path); err != nil {
			return err
		}
		if e.mode.Type() == fs.ModeSymlink {
			if err := root.Symlink(to+strings.TrimPrefix(e.link, from), e.path); err != nil {
				return err
			}
			continue
		}
		data, err := t.read(e)
		if err != nil {
			return errors.Join(err, fmt.Errorf("%s: %w", e.path, errChanged))
		}
		data = bytes.ReplaceAll(data, []byte(from), []byte(to))
		err = writeFile(root, e.path, e.mode, true, func(f *os.File) error {
			_, err := f.Write(data)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// relink leads the links of node_modules that leave it into the tree of the place: those of workspaces, whose packages are
// the agent's to change. npm made them in the folder dir of a tree; now they lie in env, beside work.
func (t *tree) relink(dir string) {
	for i := range t.entries {
		e := &t.entries[i]
		if e.mode.Type() != fs.ModeSymlink || path.IsAbs(e.link) {
			continue
		}
		at := path.Dir(e.path)
		target := path.Join(at, e.link)
		if target == "node_modules" || strings.HasPrefix(target, "node_modules/") {
			continue
		}
		up := strings.Repeat("../", strings.Count(at, "/")+2)
		e.link = up + path.Join("work", dir, target)
	}
}
