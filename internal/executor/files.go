package executor

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	maxFile    = 64 << 20 // bytes of one file
	maxEntries = 200_000
	maxDepth   = 256 // folders in folders; each holds a descriptor while it is listed
)

// folder is the FS of a folder of this host. An agent may be changing it at the same time, so a look at a name only
// gives good errors: what keeps us inside is os.Root, and what we opened is compared with what we looked at.
type folder struct {
	root  *os.Root
	owner int // user and group of what is put there; 0: we
}

var _ FS = folder{}

func (f folder) Open(name string) (fs.File, error) {
	if err := f.walk(name, false); err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	looked, err := f.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if err := regular(name, looked); err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	opened, err := file.Stat()
	if err == nil && !os.SameFile(looked, opened) {
		err = fmt.Errorf("open: %s was exchanged while it was opened", name)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &cappedFile{file, name, maxFile}, nil
}

// regular says why a name cannot be read as a file.
func regular(name string, info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is %s, not a regular file", name, describe(info.Mode()))
	case info.Size() > maxFile:
		return fmt.Errorf("%s holds %d bytes, more than the %d that are read", name, info.Size(), maxFile)
	}
	return nil
}

// cappedFile ends with an error when the file grows past the cap while it is read. It has no method but those of
// fs.File, so that there is no other way to read it.
type cappedFile struct {
	fs.File
	name string
	left int64
}

func (f *cappedFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p[:min(int64(len(p)), f.left+1)])
	if f.left -= int64(n); f.left < 0 {
		return 0, fmt.Errorf("read %s: more than %d bytes", f.name, maxFile)
	}
	return n, err
}

func (f folder) Put(name string, r io.Reader, mode fs.FileMode) error {
	if err := f.walk(name, true); err != nil {
		return fmt.Errorf("put: %w", err)
	}
	if name == "." {
		return errors.New("put: the work folder is a folder, not a file")
	}
	temp := path.Join(path.Dir(name), ".assay-put-"+rand.Text())
	err := f.write(temp, r, mode)
	if err == nil {
		err = f.root.Rename(temp, name)
	}
	if err != nil {
		f.root.Remove(temp) // best effort: it may not have been made
		return fmt.Errorf("put %s: %w", name, err)
	}
	return nil
}

// write makes a new file.
func (f folder) write(name string, r io.Reader, mode fs.FileMode) error {
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode.Perm())
	if err != nil {
		return err
	}
	// The file is hidden behind a plain writer, or io would take 32 KiB of its own for each small file.
	n, err := io.CopyBuffer(struct{ io.Writer }{file}, io.LimitReader(r, maxFile+1), make([]byte, 4<<10))
	if err == nil && n > maxFile {
		err = fmt.Errorf("more than %d bytes", maxFile)
	}
	if err == nil {
		err = file.Chmod(mode.Perm()) // whatever our umask is
	}
	if err == nil && f.owner != 0 {
		err = file.Chown(f.owner, f.owner)
	}
	return errors.Join(err, file.Close())
}

// walk checks that every parent of name is a real folder, and makes those that are missing if asked to.
func (f folder) walk(name string, create bool) error {
	if !filepath.IsLocal(name) || path.Clean(name) != name {
		return fmt.Errorf("%q is not a clean path below the work folder", name)
	}
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		parent := name[:i]
		info, err := f.root.Lstat(parent)
		switch {
		case create && errors.Is(err, fs.ErrNotExist):
			if err := f.mkdir(parent); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		case err != nil:
			return err
		case !info.IsDir():
			return fmt.Errorf("%s: %s is %s, not a folder", name, parent, describe(info.Mode()))
		}
	}
	return nil
}

// mkdir makes a folder, and gives it to its owner by what was made and not by its name, which an agent may exchange.
func (f folder) mkdir(name string) error {
	if err := f.root.Mkdir(name, 0o755); err != nil || f.owner == 0 {
		return err
	}
	dir, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return errors.Join(dir.Chown(f.owner, f.owner), dir.Close())
}

func (f folder) List(dir string) ([]Entry, error) {
	entries, err := f.list(dir, maxEntries)
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	return entries, nil
}

func (f folder) list(dir string, most int) ([]Entry, error) {
	dir = path.Clean(dir) // "" and "." are the work folder
	if err := f.walk(dir, false); err != nil {
		return nil, err
	}
	info, err := f.root.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is %s, not a folder", dir, describe(info.Mode()))
	}
	l := listing{most: most}
	if err := l.add(f.root, dir, strings.TrimPrefix(dir+"/", "./"), 0); err != nil {
		return nil, err
	}
	slices.SortFunc(l.entries, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	return l.entries, nil
}

type listing struct {
	entries []Entry
	most    int
}

// add appends what is below the folder called name in root; prefix leads the paths of its entries.
func (l *listing) add(root *os.Root, name, prefix string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: more than %d folders deep", shorten(prefix, 100), maxDepth)
	}
	root, err := root.OpenRoot(name)
	if err != nil {
		return fmt.Errorf("%s: %w", prefix, err)
	}
	defer root.Close()
	dir, err := root.Open(".")
	if err != nil {
		return fmt.Errorf("%s: %w", prefix, err)
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			if err := l.entry(root, name, prefix+name, depth); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", prefix, err)
		}
	}
}

func (l *listing) entry(root *os.Root, name, full string, depth int) error {
	if len(l.entries) == l.most {
		return fmt.Errorf("more than %d entries", l.most)
	}
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // gone since the folder was read
	}
	if err != nil {
		return fmt.Errorf("%s: %w", full, err)
	}
	e := Entry{Path: full, Mode: info.Mode(), Size: info.Size()}
	if info.Mode().Type() == fs.ModeSymlink {
		if e.Link, err = root.Readlink(name); err != nil {
			return fmt.Errorf("%s: %w", full, err)
		}
	}
	l.entries = append(l.entries, e)
	if info.IsDir() {
		return l.add(root, name, full+"/", depth+1)
	}
	return nil
}

// describe names what a path is, for an error.
func describe(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeSymlink != 0:
		return "a link"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}
