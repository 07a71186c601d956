package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// What a place takes.
const (
	maxEntries = 200_000
	maxBytes   = 1 << 30
)

// A tree is a folder that was read: its entries, parents before what they hold, each file with the sha256 of its bytes.
type tree struct {
	dir     string // host path of the folder that still holds the bytes
	entries []entry
	single  bool  // not a folder but one file: its only entry, in dir
	kept    bool  // every entry has its bytes in memory
	stamp   stamp // of the folder, from before it was read
}

type entry struct {
	path string      // slash separated, below the tree
	mode fs.FileMode // ModeDir|0755, ModeSymlink|0777, 0644 or 0755
	link string
	size int64
	sum  [sha256.Size]byte
	data []byte

	stamp stamp // from before it was read
}

// rules say what a tree may hold.
type rules struct {
	anyLink bool // links are text that nobody resolves
	keepGit bool
}

var (
	sourceRules  = rules{}
	foreignRules = rules{anyLink: true, keepGit: true} // what commands of an environment made
)

// badTree is the error of a tree that breaks the rules.
type badTree struct{ text string }

func (b *badTree) Error() string { return b.text }

// errChanged says that bytes on the disk are no longer what they were when they were read.
var errChanged = errors.New("changed since it was read")

// A budget is memory that trees may keep their bytes in.
type budget struct{ left int64 }

const keepAtMost = 4 << 20 // bytes of one tree

func (b *budget) take(n int64) bool {
	if b == nil || n > keepAtMost {
		return false
	}
	if atomic.AddInt64(&b.left, -n) >= 0 {
		return true
	}
	atomic.AddInt64(&b.left, n)
	return false
}

// readPath reads the folder or the file at a slash path below base, which it cannot leave.
func readPath(base, name string, r rules, memory *budget) (*tree, error) {
	root, err := os.OpenRoot(base)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name = filepath.FromSlash(path.Clean(name))
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		sub, err := root.OpenRoot(name)
		if err != nil {
			return nil, err
		}
		defer sub.Close()
		return readTree(sub, r, memory)
	}
	parent, err := root.OpenRoot(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	t := &tree{dir: parent.Name(), single: true}
	if err := t.add(filepath.Base(name), info, ""); err != nil {
		return nil, err
	}
	return t, t.fill(parent, memory)
}

// readTree reads a whole folder.
func readTree(root *os.Root, r rules, memory *budget) (*tree, error) {
	info, err := root.Stat(".")
	if err != nil {
		return nil, err
	}
	t := &tree{dir: root.Name(), stamp: stampOf(info)}
	if err := t.walk(root, ".", r); err != nil {
		return nil, err
	}
	if !r.anyLink {
		if err := t.checkLinks(); err != nil {
			return nil, err
		}
	}
	return t, t.fill(root, memory)
}

// walk adds what a folder holds, sorted by name, each folder before its own entries. Names are any bytes.
func (t *tree) walk(root *os.Root, dir string, r rules) error {
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	found, err := f.ReadDir(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	slices.SortFunc(found, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, d := range found {
		if !r.keepGit && strings.EqualFold(d.Name(), ".git") {
			continue
		}
		name := path.Join(dir, d.Name())
		info, err := root.Lstat(name)
		if err != nil {
			return err
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = root.Readlink(name); err != nil {
				return err
			}
		}
		if err := t.add(name, info, link); err != nil {
			return err
		}
		if info.IsDir() {
			if err := t.walk(root, name, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// inTree says whether name is a path below a tree, whatever its bytes.
func inTree(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return !strings.Contains(name, "\x00")
}

// gitIn returns the path of the .git that a path is or is in.
func gitIn(name string) (string, bool) {
	for end := 0; end <= len(name); end++ {
		if end < len(name) && name[end] != '/' {
			continue
		}
		if strings.EqualFold(path.Base(name[:end]), ".git") {
			return name[:end], true
		}
	}
	return "", false
}

// add appends one entry, with the few modes that a place knows.
func (t *tree) add(name string, info fs.FileInfo, link string) error {
	e := entry{path: name, link: link, stamp: stampOf(info)}
	switch info.Mode().Type() {
	case 0:
		e.mode, e.size = fileMode(info.Mode()), info.Size()
	case fs.ModeDir:
		e.mode = fs.ModeDir | 0o755
	case fs.ModeSymlink:
		e.mode = fs.ModeSymlink | 0o777
	default:
		return &badTree{fmt.Sprintf("%q is %s; only files, folders and links can be laid out", name, kindOf(info.Mode()))}
	}
	t.entries = append(t.entries, e)
	if len(t.entries) > maxEntries {
		return ErrTooLarge
	}
	return nil
}

func fileMode(m fs.FileMode) fs.FileMode {
	if m&0o111 != 0 {
		return 0o755
	}
	return 0o644
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}

// fill reads every file: its sum, and its bytes when the memory allows it.
func (t *tree) fill(root *os.Root, memory *budget) error {
	total := t.size()
	if total > maxBytes {
		return ErrTooLarge
	}
	t.kept = memory.take(total)
	return t.each(func(e *entry, buf *scratch) error {
		if !e.mode.IsRegular() {
			return nil
		}
		f, err := openRegular(root, e.path)
		if err != nil {
			return err
		}
		defer f.Close()
		if t.kept {
			e.data = make([]byte, e.size)
			_, err = io.ReadFull(f, e.data)
			e.sum = sha256.Sum256(e.data)
		} else {
			e.sum, err = sumUpTo(f, e.size, buf)
		}
		if err != nil {
			return fmt.Errorf("%s: %w: %w", e.path, errChanged, err)
		}
		return nil
	})
}

// sumUpTo is the sha256 of the next size bytes, which must be there.
func sumUpTo(r io.Reader, size int64, buf *scratch) (sum [sha256.Size]byte, err error) {
	hash := sha256.New()
	n, err := io.CopyBuffer(hash, io.LimitReader(r, size), buf.of(min(size, 256<<10)+1))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	hash.Sum(sum[:0])
	return sum, err
}

func (t *tree) size() (total int64) {
	for i := range t.entries {
		total += t.entries[i].size
	}
	return total
}

// scratch is memory that one worker uses for one file after the other.
type scratch []byte

func (s *scratch) of(n int64) []byte {
	if int64(cap(*s)) < n {
		*s = make([]byte, n)
	}
	return (*s)[:n]
}

// each calls do for every entry, for several at a time when there are many.
func (t *tree) each(do func(*entry, *scratch) error) error {
	var next atomic.Int64
	work := func() error {
		var buf scratch
		for {
			i := int(next.Add(1)) - 1
			if i >= len(t.entries) {
				return nil
			}
			if err := do(&t.entries[i], &buf); err != nil {
				next.Store(int64(len(t.entries)))
				return err
			}
		}
	}
	if len(t.entries) < 64 {
		return work()
	}
	var group errgroup.Group
	for range runtime.GOMAXPROCS(0) {
		group.Go(work)
	}
	return group.Wait()
}

// openRegular opens a regular file for reading, and nothing else; a FIFO that took its place does not hang us.
func openRegular(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", name, errChanged)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// checkLinks refuses links that are absolute, that leave the tree on the way, or that lead nowhere.
func (t *tree) checkLinks() error {
	at := make(map[string]*entry, len(t.entries))
	for i := range t.entries {
		at[t.entries[i].path] = &t.entries[i]
	}
	var bad []string
	for i := range t.entries {
		e := &t.entries[i]
		if e.mode.Type() != fs.ModeSymlink {
			continue
		}
		hops := 40 // as many as Linux follows
		if _, err := follow(at, path.Dir(e.path), e.link, &hops); err != nil {
			bad = append(bad, fmt.Sprintf("link %q to %q %v", e.path, e.link, err))
		}
	}
	if bad == nil {
		return nil
	}
	return &badTree{strings.Join(bad, "; ")}
}

// follow walks a link's target from the folder dir, as the kernel would, but over the entries that were read. It returns
// the path that the target names.
func follow(at map[string]*entry, dir, target string, hops *int) (string, error) {
	if *hops--; *hops < 0 {
		return "", errors.New("goes round in circles")
	}
	if target == "" || path.IsAbs(target) {
		return "", errors.New("is absolute; a link must be relative and stay in the tree")
	}
	here := dir
	for part := range strings.SplitSeq(target, "/") {
		if e := at[here]; here != "." && (e == nil || !e.mode.IsDir()) {
			return "", errors.New("leads nowhere") // a file has no parts
		}
		switch part {
		case "", ".":
		case "..":
			if here == "." {
				return "", errors.New("leaves the tree")
			}
			here = path.Dir(here)
		default:
			next := path.Join(here, part)
			e := at[next]
			switch {
			case e == nil:
				return "", errors.New("leads nowhere")
			case e.mode.Type() == fs.ModeSymlink:
				var err error
				if next, err = follow(at, here, e.link, hops); err != nil {
					return "", err
				}
			}
			here = next
		}
	}
	return here, nil
}

// listing is the tree as text, one line an entry: equal for equal trees, and the thing that is hashed and compared.
func (t *tree) listing() []byte {
	var b bytes.Buffer
	for _, e := range t.entries {
		fmt.Fprintf(&b, "%s %x %d %q %q\n", e.mode, e.sum, e.size, e.path, e.link)
	}
	return b.Bytes()
}

func (t *tree) digest() string {
	sum := sha256.Sum256(t.listing())
	return hex.EncodeToString(sum[:])
}

// sub is the part of a tree below one of its folders.
func (t *tree) sub(dir string) *tree {
	s := &tree{dir: filepath.Join(t.dir, filepath.FromSlash(dir)), kept: t.kept}
	for _, e := range t.entries {
		if name, ok := strings.CutPrefix(e.path, dir+"/"); ok {
			e.path = name
			s.entries = append(s.entries, e)
		}
	}
	return s
}

// find returns the entry at a path, or nil.
func (t *tree) find(name string) *entry {
	for i := range t.entries {
		if t.entries[i].path == name {
			return &t.entries[i]
		}
	}
	return nil
}

// open returns the bytes of a file. From the disk they are not checked: whoever reads must compare the sum.
func (t *tree) open(e *entry) (io.ReadSeekCloser, error) {
	if t.kept {
		return struct {
			io.ReadSeeker
			io.Closer
		}{bytes.NewReader(e.data), io.NopCloser(nil)}, nil
	}
	root, err := os.OpenRoot(t.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return openRegular(root, e.path)
}

// read returns the bytes of a small file, which are those that were hashed.
func (t *tree) read(e *entry) ([]byte, error) {
	f, err := t.open(e)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, e.size))
	if err == nil && sha256.Sum256(data) != e.sum {
		err = fmt.Errorf("%s: %w", e.path, errChanged)
	}
	return data, err
}

// files gives the tree in the form in which agents' trees arrive.
func (t *tree) files() iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for i := range t.entries {
			e := &t.entries[i]
			open := func() (io.ReadCloser, error) { return t.open(e) }
			if !yield(File{Path: e.path, Mode: e.mode, Link: e.link, Open: open}, nil) {
				return
			}
		}
	}
}

// lay writes the tree below prefix ("." for root itself), where nothing of it may stand yet.
func (t *tree) lay(ctx context.Context, root *os.Root, prefix string, setMode bool) error {
	for i := range t.entries {
		if e := &t.entries[i]; e.mode.IsDir() {
			if err := makeDir(root, filepath.Join(prefix, e.path), setMode); err != nil {
				return err
			}
		}
	}
	var from *os.Root
	if !t.kept {
		var err error
		if from, err = os.OpenRoot(t.dir); err != nil {
			return err
		}
		defer from.Close()
	}
	return t.each(func(e *entry, buf *scratch) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		to := filepath.Join(prefix, e.path)
		switch {
		case e.mode.IsDir():
			return nil
		case e.mode.Type() == fs.ModeSymlink:
			return root.Symlink(e.link, to)
		case t.kept:
			return writeFile(root, to, e.mode, setMode, func(f *os.File) error {
				_, err := f.Write(e.data)
				return err
			})
		default:
			return copyFile(from, e, root, to, setMode, buf)
		}
	})
}

// copyFile copies a file from the disk and proves that what arrived is what was once read.
func copyFile(from *os.Root, e *entry, root *os.Root, to string, setMode bool, buf *scratch) error {
	src, err := openRegular(from, e.path)
	if err != nil {
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	defer src.Close()
	changed := fmt.Errorf("%s: %w", e.path, errChanged)
	return writeFile(root, to, e.mode, setMode, func(dst *os.File) error {
		if e.size <= 1<<20 {
			data := buf.of(e.size)
			if _, err := io.ReadFull(src, data); err != nil || sha256.Sum256(data) != e.sum {
				return changed
			}
			_, err := dst.Write(data)
			return err
		}
		// A large file is handed to the kernel, which may share its blocks, and the copy is hashed.
		n, err := io.Copy(dst, src)
		if err != nil {
			return err
		}
		if _, err := dst.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if sum, err := sumUpTo(dst, n, buf); err != nil || sum != e.sum {
			return changed
		}
		return nil
	})
}

func makeDir(root *os.Root, name string, setMode bool) error {
	if err := root.Mkdir(name, 0o755); err != nil {
		return err
	}
	if setMode {
		return root.Chmod(name, 0o755)
	}
	return nil
}

// writeFile makes a file that must not exist. Nothing is followed and nothing is replaced.
func writeFile(root *os.Root, name string, mode fs.FileMode, setMode bool, fill func(*os.File) error) error {
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil && setMode {
		err = f.Chmod(mode)
	}
	return errors.Join(err, f.Close())
}
