package diffscope

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"golang.org/x/sys/unix"
)

// An Error says why a tree has no measure.
type Error struct {
	Class   string // tree_too_big, tree_moving or io
	Why     string // a sentence for a person
	ByAgent bool   // the tree itself is the cause; with a tree that no agent touched, its author is
	Err     error  // the cause, or nil
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Why + ": " + e.Err.Error()
	}
	return e.Why
}

func (e *Error) Unwrap() error { return e.Err }

func tooBig(format string, args ...any) error {
	return &Error{Class: "tree_too_big", Why: fmt.Sprintf(format, args...), ByAgent: true}
}

// errMoved says that something changed while it was read.
var errMoved = &Error{Class: "tree_moving", Why: "the tree changed while it was read, twice", ByAgent: true}

// limits bound what a snapshot reads and keeps.
type limits struct {
	entries int   // files, links, folders and everything else
	paths   int   // bytes of all their paths
	open    int   // folders that are open at the same time
	read    int64 // bytes of content
	whole   int64 // a larger file is read in pieces and kept on disk
	unread  int64 // a larger file is not read at all
	memory  int64 // content kept in memory; the rest goes to disk
}

func standardLimits() limits {
	return limits{
		entries: 1_000_000,
		paths:   256 << 20,
		open:    512,
		read:    8 << 30,
		whole:   8 << 20,
		unread:  1 << 30,
		memory:  64 << 20,
	}
}

// Snapshot reads the folder at root, which may be a link to one; below it no link is followed and nothing is opened that
// is not a regular file or a folder. Errors are of type [*Error], or the error of ctx.
func Snapshot(ctx context.Context, root string) (Tree, error) {
	return Tree{}.Again(ctx, root)
}

// Again takes a new snapshot of the folder at root, where t was taken before. Every byte is read again; what is the same
// as in t is shared with it, so that the second snapshot of a folder takes little memory.
func (t Tree) Again(ctx context.Context, root string) (Tree, error) {
	tree, err := snapshot(ctx, root, t, standardLimits())
	if errors.Is(err, errMoved) {
		tree, err = snapshot(ctx, root, t, standardLimits())
	}
	return tree, err
}

func snapshot(ctx context.Context, root string, before Tree, lim limits) (Tree, error) {
	fd, err := retry(func() (int, error) { return unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return Tree{}, &Error{Class: "io", Why: "open " + root, Err: err}
	}
	w := walker{ctx: ctx, lim: lim, before: before}
	w.names, w.buffer, w.kept = make([]byte, 4<<10), make([]byte, 8<<10), make([]byte, 8<<10)
	w.tree.entries = make([]entry, 0, len(before.entries))
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return Tree{}, &Error{Class: "io", Why: "look at " + root, Err: err}
	}
	w.device = uint64(st.Dev)
	if err := w.folder(fd, &st); err != nil {
		return Tree{}, err
	}
	return w.finish(), nil
}

// A walker makes one snapshot.
type walker struct {
	ctx    context.Context
	lim    limits
	before Tree
	tree   Tree
	device uint64
	path   []byte // of the folder being read, with a slash at the end; empty at the root
	nested bool   // inside of a .git folder below the root
	links  map[inode]*linked
	store  store

	entries, paths, open int
	read, memory         int64

	names, buffer, kept []byte // scratch
}

// An inode names a file that has more than one name.
type inode struct{ device, number uint64 }

// linked are the names of one file.
type linked struct {
	total  uint64 // everywhere
	inTree []string
}

// finish sorts what was found.
func (w *walker) finish() Tree {
	t := w.tree
	byPath := func(a, b entry) int { return cmp.Compare(a.path, b.path) }
	slices.SortFunc(t.entries, byPath)
	slices.SortFunc(t.nested, byPath)
	slices.Sort(t.gits)
	slices.SortFunc(t.skipped, func(a, b Skip) int { return cmp.Compare(a.Path, b.Path) })
	for _, l := range w.links {
		if uint64(len(l.inTree)) < l.total {
			t.hardLinks = append(t.hardLinks, l.inTree...)
		}
	}
	slices.Sort(t.hardLinks)
	return t
}

// folder reads the folder fd, whose state is st, and closes it. It does so before it reads the last subfolder: a chain of
// folders needs no more open files than a single one.
func (w *walker) folder(fd int, st *unix.Stat_t) error {
	w.open++
	leave := sync.OnceFunc(func() {
		unix.Close(fd)
		w.open--
	})
	defer leave()
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if w.open > w.lim.open {
		return tooBig("folders are nested too deep and too wide: more than %d would have to be open at once", w.lim.open)
	}
	names, err := w.list(fd)
	if err != nil {
		return err
	}
	var folders []string
	for _, name := range names {
		isFolder, err := w.child(fd, name)
		if err != nil {
			return err
		}
		if isFolder {
			folders = append(folders, name)
		}
	}
	if moved(fd, st) {
		return errMoved
	}
	length, nested := len(w.path), w.nested
	for i, name := range folders {
		w.nested = nested || name == ".git"
		child, childState, err := w.enter(fd, name)
		if err != nil {
			return err
		}
		if i == len(folders)-1 {
			leave()
		}
		if child >= 0 {
			w.path = append(append(w.path, name...), '/')
			err = w.folder(child, childState)
		}
		w.path, w.nested = w.path[:length], nested
		if err != nil {
			return err
		}
	}
	return nil
}

// list returns the names in a folder.
func (w *walker) list(fd int) ([]string, error) {
	var names []string
	for {
		n, err := retry(func() (int, error) { return unix.ReadDirent(fd, w.names) })
		if err != nil {
			return nil, &Error{Class: "io", Why: "read the folder " + printable(string(w.path)), Err: err}
		}
		if n <= 0 {
			return names, nil
		}
		_, _, names = unix.ParseDirent(w.names[:n], -1, names)
		if w.entries+len(names) > w.lim.entries {
			return nil, tooBig("the tree has more than %d entries", w.lim.entries)
		}
	}
}

// child records what a name of the folder dir stands for. Subfolders are left to the caller.
func (w *walker) child(dir int, name string) (isFolder bool, err error) {
	w.entries++
	w.paths += len(w.path) + len(name)
	if w.entries > w.lim.entries {
		return false, tooBig("the tree has more than %d entries", w.lim.entries)
	}
	if w.paths > w.lim.paths {
		return false, tooBig("the paths of the tree are longer than %d bytes together", w.lim.paths)
	}
	if w.entries%256 == 0 && w.ctx.Err() != nil {
		return false, w.ctx.Err()
	}
	if name == ".git" && !w.nested {
		w.tree.gits = append(w.tree.gits, w.join(name))
		if len(w.path) == 0 {
			return false, nil // the repository that the agent works in
		}
		w.nested = true
		defer func() { w.nested = false }()
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return false, w.unreadable(name, &st, err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return true, nil
	case unix.S_IFREG:
		if uint64(st.Dev) != w.device {
			w.skip(name, "mount")
			return false, nil
		}
		return false, w.regular(dir, name, &st)
	case unix.S_IFLNK:
		return false, w.link(dir, name, &st)
	case unix.S_IFIFO:
		w.skip(name, "fifo")
	case unix.S_IFSOCK:
		w.skip(name, "socket")
	default:
		w.skip(name, "device")
	}
	return false, nil
}

// enter opens a subfolder. The file descriptor is -1 when there is nothing to read in it.
func (w *walker) enter(dir int, name string) (int, *unix.Stat_t, error) {
	st := new(unix.Stat_t)
	fd, err := retry(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		st.Mode = unix.S_IFDIR
		return -1, nil, w.unreadable(name, st, err)
	}
	if err := unix.Fstat(fd, st); err != nil {
		unix.Close(fd)
		return -1, nil, w.unreadable(name, st, err)
	}
	if uint64(st.Dev) != w.device {
		unix.Close(fd)
		w.skip(name, "mount")
		return -1, nil, nil
	}
	return fd, st, nil
}

// regular records a regular file.
func (w *walker) regular(dir int, name string, st *unix.Stat_t) error {
	mode := filemode.Regular
	if st.Mode&unix.S_IXUSR != 0 {
		mode = filemode.Executable
	}
	if st.Nlink > 1 && !w.nested {
		w.hardLink(name, st)
	}
	if st.Size > w.lim.unread {
		w.add(entry{path: w.join(name), mode: mode, size: st.Size, why: tooLarge})
		return nil
	}
	if w.read += st.Size; w.read > w.lim.read {
		return tooBig("the files of the tree have more than %d bytes together", w.lim.read)
	}
	fd, err := retry(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return w.unreadable(name, st, err)
	}
	defer unix.Close(fd)
	if moved(fd, st) {
		return errMoved
	}
	e := entry{path: w.join(name), mode: mode, size: st.Size}
	if st.Size > w.lim.whole {
		err = w.readLarge(fd, &e)
	} else {
		err = w.readSmall(fd, &e)
	}
	if err == nil && moved(fd, st) {
		err = errMoved
	}
	if err != nil {
		return w.unreadable(name, st, err)
	}
	w.add(e)
	return nil
}

// readSmall fills the blob of e. A file that grew is seen by its new size afterwards.
func (w *walker) readSmall(fd int, e *entry) error {
	if int64(len(w.buffer)) < e.size {
		w.buffer = make([]byte, e.size+e.size/4)
	}
	content := w.buffer[:e.size]
	if _, err := io.ReadFull(descriptor(fd), content); err == io.EOF || err == io.ErrUnexpectedEOF {
		return errMoved
	} else if err != nil {
		return err
	}
	if known := w.known(e.path); known != nil && known.blob != nil {
		same, err := known.blob.holds(content, w.kept)
		if err != nil {
			return err
		}
		if same {
			e.path, e.blob = known.path, known.blob
			return nil
		}
	}
	if w.memory+e.size > w.lim.memory {
		return w.keep(bytes.NewReader(content), e)
	}
	w.memory += e.size
	e.blob = &blob{text: string(content)}
	return nil
}

// readLarge fills the blob of e without holding the content in memory.
func (w *walker) readLarge(fd int, e *entry) error {
	return w.keep(io.LimitReader(&patientReader{w.ctx, descriptor(fd)}, e.size+1), e)
}

// keep writes content to disk, unless the tree before has the same.
func (w *walker) keep(content io.Reader, e *entry) error {
	b, err := w.store.keep(content, e.size)
	if err != nil {
		return err
	}
	if known := w.known(e.path); known != nil && known.blob != nil && known.blob.equal(b) {
		e.path, e.blob = known.path, known.blob
		return nil
	}
	w.store.commit(b)
	e.blob = b
	return nil
}

// known returns what the tree before has at a path, or nil.
func (w *walker) known(path string) *entry {
	if w.nested {
		return find(w.before.nested, path)
	}
	return find(w.before.entries, path)
}

// link records a symbolic link.
func (w *walker) link(dir int, name string, st *unix.Stat_t) error {
	n, err := retry(func() (int, error) { return unix.Readlinkat(dir, name, w.buffer) })
	if err != nil || n == len(w.buffer) {
		return w.unreadable(name, st, cmp.Or(err, fs.ErrInvalid))
	}
	w.add(entry{path: w.join(name), mode: filemode.Symlink, size: int64(n), blob: &blob{text: string(w.buffer[:n])}})
	return nil
}

func (w *walker) hardLink(name string, st *unix.Stat_t) {
	if w.links == nil {
		w.links = map[inode]*linked{}
	}
	key := inode{uint64(st.Dev), st.Ino}
	l := w.links[key]
	if l == nil {
		l = &linked{total: uint64(st.Nlink)}
		w.links[key] = l
	}
	l.inTree = append(l.inTree, w.join(name))
}

// unreadable decides what an error about a name means: the entry is recorded as unreadable, or the whole snapshot fails.
func (w *walker) unreadable(name string, st *unix.Stat_t, err error) error {
	switch {
	case errors.As(err, new(*Error)), err == w.ctx.Err():
		return err
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EIO):
		mode := filemode.Regular
		switch {
		case st.Mode&unix.S_IFMT == unix.S_IFDIR:
			mode = filemode.Dir
		case st.Mode&unix.S_IFMT == unix.S_IFLNK:
			mode = filemode.Symlink
		case st.Mode&unix.S_IXUSR != 0:
			mode = filemode.Executable
		}
		w.add(entry{path: w.join(name), mode: mode, size: st.Size, why: unreadable})
		return nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENXIO):
		return errMoved // it was another thing when its folder was read
	}
	return &Error{Class: "io", Why: "read " + printable(w.join(name)), Err: err}
}

func (w *walker) add(e entry) {
	if w.nested {
		w.tree.nested = append(w.tree.nested, e)
	} else {
		w.tree.entries = append(w.tree.entries, e)
	}
}

func (w *walker) skip(name, why string) {
	if !w.nested {
		w.tree.skipped = append(w.tree.skipped, Skip{printable(w.join(name)), why})
	}
}

func (w *walker) join(name string) string { return string(w.path) + name }

// moved tells whether the open file is another one than st says, or was changed since.
func moved(fd int, st *unix.Stat_t) bool {
	var now unix.Stat_t
	return unix.Fstat(fd, &now) != nil ||
		now.Dev != st.Dev || now.Ino != st.Ino || now.Mode != st.Mode || now.Size != st.Size || now.Ctim != st.Ctim
}

// A descriptor reads an open file.
type descriptor int

func (d descriptor) Read(p []byte) (int, error) {
	n, err := retry(func() (int, error) { return unix.Read(int(d), p) })
	if err != nil {
		return 0, err
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// A patientReader stops when its context ends.
type patientReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *patientReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// retry makes a system call again when a signal interrupted it.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}
