package diffscope

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// FS is a read-only view of the tree. Links are listed as links and never followed: Open of one is an error, ReadLink gives
// its target. Names that are not UTF-8 can be opened too. There are no times, and empty folders do not exist.
func (t Tree) FS() fs.FS { return view{t.entries} }

type view struct{ entries []entry }

var (
	_ fs.ReadDirFS  = view{}
	_ fs.ReadFileFS = view{}
	_ fs.ReadLinkFS = view{}
)

var (
	errLink     = errors.New("is a link, and links are not followed")
	errFolder   = errors.New("is a folder")
	errNoFolder = errors.New("is not a folder")
)

// A node is a file, link or folder of the view.
type node struct {
	path   string // "." for the root
	entry  *entry // nil: a folder
	inside []entry
}

// lookup finds a name.
func (v view) lookup(op, name string) (node, error) {
	if name == "." {
		return node{path: ".", inside: v.entries}, nil
	}
	if !fs.ValidPath(strings.ToValidUTF8(name, "?")) {
		return node{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if e := find(v.entries, name); e != nil && e.mode != filemode.Dir {
		return node{path: name, entry: e}, nil
	}
	start, end := below(v.entries, name+"/")
	if start == end && find(v.entries, name) == nil {
		return node{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return node{path: name, inside: v.entries[start:end]}, nil
}

func (v view) Open(name string) (fs.File, error) {
	n, err := v.lookup("open", name)
	switch {
	case err != nil:
		return nil, err
	case n.entry == nil:
		return &openFolder{n, n.children()}, nil
	case n.entry.mode == filemode.Symlink:
		return nil, &fs.PathError{Op: "open", Path: name, Err: errLink}
	case n.entry.blob == nil:
		return nil, &fs.PathError{Op: "open", Path: name, Err: n.entry.absent()}
	}
	return &openFile{n, n.entry.blob.open()}, nil
}

func (v view) ReadFile(name string) ([]byte, error) {
	f, err := v.Open(name)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

func (v view) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := v.lookup("readdir", name)
	if err != nil {
		return nil, err
	}
	if n.entry != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errNoFolder}
	}
	return n.children(), nil
}

func (v view) Lstat(name string) (fs.FileInfo, error) {
	n, err := v.lookup("lstat", name)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// Stat is Lstat, since no link is followed.
func (v view) Stat(name string) (fs.FileInfo, error) { return v.Lstat(name) }

func (v view) ReadLink(name string) (string, error) {
	n, err := v.lookup("readlink", name)
	if err != nil {
		return "", err
	}
	if n.entry == nil || n.entry.mode != filemode.Symlink || n.entry.blob == nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return n.entry.blob.load()
}

// children lists a folder, sorted by name.
func (n node) children() []fs.DirEntry {
	prefix := n.path + "/"
	if n.path == "." {
		prefix = ""
	}
	var list []fs.DirEntry
	for rest := n.inside; len(rest) > 0; {
		e := &rest[0]
		name, _, isFolder := strings.Cut(e.path[len(prefix):], "/")
		child, end := node{path: prefix + name}, 1
		switch {
		case isFolder:
			_, end = below(rest, child.path+"/")
			child.inside = rest[:end]
		case e.mode != filemode.Dir: // which stands for a folder that could not be read
			child.entry = e
		}
		rest = rest[end:]
		list = append(list, fs.FileInfoToDirEntry(child))
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list
}

// A node is its own fs.FileInfo.
func (n node) Name() string       { return path.Base(n.path) }
func (n node) IsDir() bool        { return n.entry == nil }
func (n node) ModTime() time.Time { return time.Time{} }
func (n node) Sys() any           { return nil }

func (n node) Size() int64 {
	if n.entry == nil {
		return 0
	}
	return n.entry.size
}

func (n node) Mode() fs.FileMode {
	if n.entry == nil {
		return fs.ModeDir | 0o555
	}
	return n.entry.fileMode()
}

type openFile struct {
	node
	content io.Reader
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.node, nil }
func (f *openFile) Read(p []byte) (int, error) { return f.content.Read(p) }
func (f *openFile) Close() error               { return nil }

type openFolder struct {
	node
	rest []fs.DirEntry
}

func (f *openFolder) Stat() (fs.FileInfo, error) { return f.node, nil }
func (f *openFolder) Close() error               { return nil }

func (f *openFolder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: f.path, Err: errFolder}
}

func (f *openFolder) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 || n > len(f.rest) {
		if n > 0 && len(f.rest) == 0 {
			return nil, io.EOF
		}
		n = len(f.rest)
	}
	list := f.rest[:n]
	f.rest = f.rest[n:]
	return list, nil
}
