package executor

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The folders of a place of Harbor are on this host and in the place. What changed on the host since they were last the same
// goes there as a tar file, and what the place has comes back as one; it is read here, entry by entry, by nobody but us.

const (
	farUID     = 65532
	maxMirror  = 1 << 30 // bytes of a tar file that a place sends
	mirrorTime = 10 * time.Minute
	goneName   = ".assay-gone" // the entry of a tar file that lists what to remove, each name ended by a NUL
)

// A stamp tells whether a file of this host was changed.
type stamp struct {
	mode  fs.FileMode
	size  int64
	inode uint64
	time  int64 // of its content, in nanoseconds
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{mode: info.Mode()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = sys.Ino
	}
	if !info.IsDir() { // the entries of a folder have stamps of their own
		s.size, s.time = info.Size(), info.ModTime().UnixNano()
	}
	return s
}

// A state are the folders of a place on this host, by slash separated path below its root.
type state map[string]stamp

// stateOf looks at the folders of names below root. A folder that is not there is no fault.
func stateOf(root string, names []string) (state, error) {
	s := state{}
	for _, name := range names {
		err := filepath.WalkDir(filepath.Join(root, name), func(full string, d fs.DirEntry, err error) error {
			if err != nil {
				if errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, full)
			s[filepath.ToSlash(rel)] = stampOf(info)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// since compares with an earlier state: what is new or another, parents first, and what has to be removed before that.
func (s state) since(before state) (fresh, gone []string) {
	for name := range before {
		if _, there := s[name]; !there {
			gone = append(gone, name)
		}
	}
	replaced := map[string]bool{} // what a folder made anew holds is new
	for _, name := range slices.Sorted(maps.Keys(s)) {
		now := s[name]
		was, known := before[name]
		if known && (now.mode.Type() != was.mode.Type() || now.mode.IsDir() && now.inode != was.inode) {
			gone = append(gone, name)
			replaced[name] = true
		}
		if replaced[path.Dir(name)] {
			replaced[name] = true
		}
		if !known || now != was || replaced[name] {
			fresh = append(fresh, name)
		}
	}
	slices.Sort(gone)
	return fresh, gone
}

// packTar writes the named entries below root as they will be in a place, whose user owns them.
func packTar(w io.Writer, root *os.Root, fresh, gone []string) error {
	t := tar.NewWriter(w)
	list := strings.Join(append(gone, ""), "\x00")
	if err := t.WriteHeader(&tar.Header{Name: goneName, Mode: 0o600, Size: int64(len(list))}); err != nil {
		return err
	}
	if _, err := io.WriteString(t, list); err != nil {
		return err
	}
	for _, name := range fresh {
		if err := packEntry(t, root, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return t.Close()
}

func packEntry(t *tar.Writer, root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	h := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Uid: farUID, Gid: farUID, ModTime: info.ModTime(), Format: tar.FormatPAX}
	switch {
	case info.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case info.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = root.Readlink(name); err != nil {
			return err
		}
	case info.Mode().IsRegular():
		h.Typeflag, h.Size = tar.TypeReg, info.Size()
	default:
		return nil // nobody of ours makes such a thing
	}
	if err := t.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
		return err
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(t, f)
	return err
}

// unpackTar lays a tar file that a place sent out below an empty root: regular files, folders and links, and nothing outside
// of the named folders. Bits beyond the permissions are dropped. A file that does not come to its end, because the place holds
// more than a place may send, is made with its whole length and no content: whoever measures the tree finds it too large.
func unpackTar(r io.Reader, root *os.Root, names []string) error {
	t := tar.NewReader(r)
	for n := 0; ; n++ {
		h, err := t.Next()
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF) && n > 0:
			return nil // cut between two files: what came is too much already
		case err != nil:
			return err
		case n == maxEntries:
			return fmt.Errorf("more than %d entries", maxEntries)
		}
		name := path.Clean(h.Name)
		first, _, _ := strings.Cut(name, "/")
		if !filepath.IsLocal(name) || !slices.Contains(names, first) {
			return fmt.Errorf("it sent %q, which is not below its folders", shorten(h.Name, 200))
		}
		if err := unpackEntry(t, h, root, name); err != nil {
			return fmt.Errorf("%s: %w", shorten(name, 200), err)
		}
	}
}

func unpackEntry(t io.Reader, h *tar.Header, root *os.Root, name string) error {
	if err := noLinkAbove(root, name); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.Mkdir(name, 0o700); err != nil {
			return err
		}
		return root.Chmod(name, h.FileInfo().Mode().Perm()|0o700) // or we could not lay what it holds
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink: // tar tells the second name of a file this way
		other := path.Clean(h.Linkname)
		if !filepath.IsLocal(other) {
			return errors.New("it is a link out of its folders")
		}
		if info, err := root.Lstat(other); err != nil || !info.Mode().IsRegular() {
			return errors.New("it is a second name of what is not a file")
		}
		return root.Link(other, name)
	case tar.TypeReg:
		return unpackFile(t, h, root, name)
	}
	return nil // a device, a FIFO: it has no content, and is not made here
}

func noLinkAbove(root *os.Root, name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := root.Lstat(dir); err != nil || !info.IsDir() {
			return fmt.Errorf("%s is not a folder", shorten(dir, 200))
		}
	}
	return nil
}

func unpackFile(t io.Reader, h *tar.Header, root *os.Root, name string) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, t)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.Join(f.Truncate(0), f.Truncate(h.Size))
	}
	if err == nil {
		err = f.Chmod(h.FileInfo().Mode().Perm())
	}
	return errors.Join(err, f.Close())
}

// replaceContent makes the content of a folder that of another one of the same file system, which is left empty.
func replaceContent(of, by string) error {
	info, err := os.Lstat(by)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the place does not have it: what an agent cannot remove, nobody removed
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("the place has no folder %s any more", filepath.Base(by))
	}
	if err != nil {
		return err
	}
	old, err := os.ReadDir(of)
	if err != nil {
		return err
	}
	for _, e := range old {
		if err := os.RemoveAll(filepath.Join(of, e.Name())); err != nil {
			return err
		}
	}
	fresh, err := os.ReadDir(by)
	if err != nil {
		return err
	}
	for _, e := range fresh {
		if err := os.Rename(filepath.Join(by, e.Name()), filepath.Join(of, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
