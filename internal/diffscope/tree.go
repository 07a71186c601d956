package diffscope

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// A Tree is all files and links of a folder at one moment. It never changes and may be used by many goroutines at once.
// The zero value is an empty tree.
type Tree struct {
	entries   []entry // sorted by path bytes
	nested    []entry // what lies in .git folders below the root: compared, never counted
	gits      []string
	skipped   []Skip
	hardLinks []string // files that have names outside the tree
}

// An entry is one path of a tree.
type entry struct {
	path string
	mode filemode.FileMode // regular, executable or link; Dir for a folder that could not be read
	size int64
	blob *blob  // nil: not read
	why  string // of a nil blob: tooLarge or unreadable
}

// The values of Row.Uncounted.
const (
	tooLarge   = "too_large"
	unreadable = "unreadable"
)

// unchanged tells whether nothing differs that could be seen. known is false when neither content was read.
func (e *entry) unchanged(f *entry) (same, known bool) {
	switch {
	case e.mode != f.mode:
		return false, true
	case e.blob != nil && f.blob != nil:
		return e.blob.equal(f.blob), true
	case e.blob == nil && f.blob == nil:
		return e.size == f.size && e.why == f.why, false
	}
	return false, true
}

// find returns the entry of a path, or nil.
func find(entries []entry, path string) *entry {
	i, found := slices.BinarySearchFunc(entries, path, func(e entry, path string) int { return cmp.Compare(e.path, path) })
	if !found {
		return nil
	}
	return &entries[i]
}

// A File is one path of a tree.
type File struct {
	Path string                        // slash separated, any bytes
	Mode fs.FileMode                   // 0644, 0755 or fs.ModeSymlink|0777
	Size int64                         // in bytes
	Link string                        // the target of a link
	Open func() (io.ReadCloser, error) // the bytes as they were measured
}

// Files gives every file and link in the order of their path bytes. The error is for a path whose content the snapshot
// does not have, because it is larger than 1 GiB or could not be read; what follows is still given.
func (t Tree) Files() iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for i := range t.entries {
			e := &t.entries[i]
			f := File{Path: e.path, Mode: e.fileMode(), Size: e.size}
			if e.blob == nil {
				if !yield(f, e.absent()) {
					return
				}
				continue
			}
			f.Open = func() (io.ReadCloser, error) { return io.NopCloser(e.blob.open()), nil }
			if e.mode == filemode.Symlink {
				f.Link = e.blob.text
			}
			if !yield(f, nil) {
				return
			}
		}
	}
}

// Changed gives the files and links of the tree that are not in another one, or have other bytes there, as [Tree.Files] does.
func (t Tree) Changed(from Tree) iter.Seq2[File, error] {
	rest := Tree{}
	for i := range t.entries {
		e := &t.entries[i]
		was := find(from.entries, e.path)
		if was != nil && was.mode == e.mode && was.blob != nil && e.blob != nil && was.blob.equal(e.blob) {
			continue
		}
		rest.entries = append(rest.entries, *e)
	}
	return rest.Files()
}

func (e *entry) fileMode() fs.FileMode {
	switch e.mode {
	case filemode.Executable:
		return 0o755
	case filemode.Symlink:
		return fs.ModeSymlink | 0o777
	case filemode.Dir:
		return fs.ModeDir | 0o755
	}
	return 0o644
}

func (e *entry) absent() error {
	return fmt.Errorf("%s: the snapshot has no content of it: %s", printable(e.path), e.why)
}

// ID is the name that git gives to this tree, as git write-tree prints it. With a path whose content was not read, it is
// only a name for what was seen.
func (t Tree) ID() string {
	id, _ := treeID(t.entries, 0)
	return id.String()
}

// treeID hashes the folder whose path is the first prefix bytes of the first entry, and tells how many entries it has.
// A tree object lists a folder as if its name ended in a slash, and so do sorted paths.
func treeID(entries []entry, prefix int) (plumbing.Hash, int) {
	var object []byte
	add := func(mode, name string, id plumbing.Hash) {
		object = append(object, mode+" "+name+"\x00"...)
		object = append(object, id[:]...)
	}
	i := 0
	for i < len(entries) && entries[i].path[:min(prefix, len(entries[i].path))] == entries[0].path[:prefix] {
		e := &entries[i]
		name, _, isFolder := strings.Cut(e.path[prefix:], "/")
		if isFolder {
			id, n := treeID(entries[i:], prefix+len(name)+1)
			add("40000", name, id)
			i += n
			continue
		}
		add(fmt.Sprintf("%o", uint32(e.mode)), name, e.id())
		i++
	}
	return plumbing.ComputeHash(plumbing.TreeObject, object), i
}

func (e *entry) id() plumbing.Hash {
	if e.blob == nil {
		return plumbing.ComputeHash(plumbing.BlobObject, fmt.Appendf(nil, "%s: %d bytes", e.why, e.size))
	}
	return e.blob.hash()
}
