package diffscope

import (
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// largeFile is the size above which a file is listed as large, in bytes.
const largeFile = 1 << 20

// shapeOf says what kind of things a change left in scope.
func shapeOf(p Patch) (Shape, error) {
	s := Shape{LargeFiles: []SizedFile{}, NewExecutables: []string{}, NewLinks: []NewLink{}}
	folders := map[string]bool{}
	for i := range p.changes {
		c := &p.changes[i]
		if c.where != inScope {
			continue
		}
		folders[path.Dir(c.path)] = true
		switch {
		case c.new == nil:
		case c.new.isFile():
			s.addFile(c)
		case c.new.mode == filemode.Symlink && c.new.blob != nil && !c.hidden:
			if err := s.addLink(c); err != nil {
				return Shape{}, err
			}
		}
	}
	s.FoldersTouched = len(folders)
	return s, nil
}

// addFile notes a file that is there after the change. One that could not even be looked at has no size.
func (s *Shape) addFile(c *change) {
	if sized := (SizedFile{c.row.Path, c.new.size}); c.new.blob != nil || c.new.size > 0 {
		if s.LargestFile == nil || sized.Bytes > s.LargestFile.Bytes {
			s.LargestFile = &sized
		}
		if sized.Bytes > largeFile {
			s.LargeFiles = append(s.LargeFiles, sized)
		}
	}
	isNew := c.old == nil || c.old.mode != filemode.Executable
	if c.new.mode == filemode.Executable && isNew && !c.hidden {
		s.NewExecutables = append(s.NewExecutables, c.row.Path)
	}
}

// addLink notes a link, which is new, or is in the change because its target is.
func (s *Shape) addLink(c *change) error {
	target, err := c.new.load()
	if err != nil {
		return err
	}
	s.NewLinks = append(s.NewLinks, NewLink{c.row.Path, printable(target), leaves(c.path, target)})
	return nil
}

// leaves tells whether the target of a link lies outside the tree. It goes by the text alone: no other link is followed.
func leaves(link, target string) bool {
	if path.IsAbs(target) {
		return true
	}
	target = path.Join(path.Dir(link), target)
	return target == ".." || strings.HasPrefix(target, "../")
}
