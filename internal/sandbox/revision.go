package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	objectcache "github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"
)

// What is read of a local repository.
const (
	maxBlob   = 256 << 20  // bytes of one file, which is held in memory while it is open
	maxMeta   = 64 << 20   // bytes of one commit, tag or folder
	maxListed = 10_000_000 // entries listed of one revision: equal folders can be nested to more than anyone can walk
)

// ErrNoRevision says that a repository has no branch and no tag of a name.
var ErrNoRevision = errors.New("no branch or tag of this clone has that name; a commit is named by its full id")

// OpenRevision returns the files of one commit of the local repository whose top folder is repo, and the full id of the
// commit. rev is HEAD, a branch, a tag or a full commit id.
//
// The bytes are those of the commit: no git is started, and no filter, hook or attribute of the repository is obeyed. Each
// object must have its id. Links are data that nothing here follows, so a path through a link does not exist; a submodule
// is an empty folder; a file kept in Git LFS cannot be opened. The file system may be used by several at a time.
func OpenRevision(repo, rev string) (files fs.FS, sha string, err error) {
	store, err := openLocal(repo)
	if err != nil {
		return nil, "", err
	}
	id, err := store.resolve(rev)
	if err != nil {
		return nil, "", err
	}
	c, err := store.commit(id)
	if err != nil {
		return nil, "", err
	}
	return &revision{store: store, top: c.TreeHash, folders: map[plumbing.Hash][]node{}}, id.String(), nil
}

// localRepo is a repository on this machine, for reading. Its configuration is not looked at.
type localRepo struct {
	*filesystem.Storage
	dir     string
	lenders []*filesystem.Storage // repositories that it borrows objects from
}

// EncodedObject returns an object of the repository or of a lender.
func (l *localRepo) EncodedObject(kind plumbing.ObjectType, id plumbing.Hash) (plumbing.EncodedObject, error) {
	o, err := l.Storage.EncodedObject(kind, id)
	for i := 0; errors.Is(err, plumbing.ErrObjectNotFound) && i < len(l.lenders); i++ {
		o, err = l.lenders[i].EncodedObject(kind, id)
	}
	return o, err
}

// EncodedObjectSize returns the size of an object of the repository or of a lender.
func (l *localRepo) EncodedObjectSize(id plumbing.Hash) (int64, error) {
	size, err := l.Storage.EncodedObjectSize(id)
	for i := 0; errors.Is(err, plumbing.ErrObjectNotFound) && i < len(l.lenders); i++ {
		size, err = l.lenders[i].EncodedObjectSize(id)
	}
	return size, err
}

// openLocal finds the repository whose top folder is dir: a clone, a linked worktree or a submodule.
func openLocal(dir string) (*localRepo, error) {
	git := filepath.Join(dir, ".git")
	info, err := os.Stat(git)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not the top of a git repository", dir)
	}
	if err == nil && !info.IsDir() {
		git, err = pointer(git, "gitdir: ")
	}
	if err != nil {
		return nil, fmt.Errorf("repository %s: %w", dir, err)
	}
	files, shared := osfs.New(git), git
	if to, err := pointer(filepath.Join(git, "commondir"), ""); err == nil {
		files, shared = dotgit.NewRepositoryFilesystem(osfs.New(git), osfs.New(to)), to
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("repository %s: %w", dir, err)
	}
	l := &localRepo{Storage: filesystem.NewStorage(files, objectcache.NewObjectLRUDefault()), dir: dir}
	return l, l.borrow(filepath.Join(shared, "objects"), 0)
}

// borrow opens the repositories that a folder of objects names as its lenders, and theirs, as far as git follows them.
func (l *localRepo) borrow(objects string, depth int) error {
	text, err := smallFile(filepath.Join(objects, "info", "alternates"))
	if errors.Is(err, fs.ErrNotExist) || depth > 5 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("repository %s: %w", l.dir, err)
	}
	for line := range strings.Lines(text) {
		to := strings.TrimRight(line, "\r\n")
		if to == "" || to[0] == '#' {
			continue
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(objects, to)
		}
		l.lenders = append(l.lenders, objectsOf(filepath.Dir(to)))
		if len(l.lenders) > 100 {
			return fmt.Errorf("repository %s borrows from more than 100 others", l.dir)
		}
		if err := l.borrow(to, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// pointer reads the path that a small file holds after a prefix; it is relative to the folder of the file.
func pointer(name, prefix string) (string, error) {
	text, err := smallFile(name)
	if err != nil {
		return "", err
	}
	to, ok := strings.CutPrefix(strings.TrimRight(text, "\r\n"), prefix)
	if !ok || to == "" {
		return "", fmt.Errorf("%s does not begin with %q", name, prefix)
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(name), to)
	}
	return to, nil
}

// smallFile reads at most 64 KiB of a regular file.
func smallFile(name string) (string, error) {
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return "", err
	}
	defer root.Close()
	f, err := openRegular(root, filepath.Base(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return string(text), err
}

// revisionNames are the full names that a short one may stand for, in git's own order.
var revisionNames = []string{"%s", "refs/%s", "refs/tags/%s", "refs/heads/%s", "refs/remotes/%s", "refs/remotes/%s/HEAD"}

// resolve returns the id of the commit that rev names.
func (l *localRepo) resolve(rev string) (plumbing.Hash, error) {
	if commitID.MatchString(rev) {
		return l.peel(plumbing.NewHash(rev))
	}
	for _, format := range revisionNames {
		name := fmt.Sprintf(format, rev)
		if name != "HEAD" && !strings.HasPrefix(name, "refs/") || !fs.ValidPath(name) {
			continue
		}
		ref, err := storer.ResolveReference(l, plumbing.ReferenceName(name))
		switch {
		case err == nil:
			return l.peel(ref.Hash())
		case !errors.Is(err, plumbing.ErrReferenceNotFound):
			return plumbing.ZeroHash, fmt.Errorf("read %s of %s: %w", name, l.dir, err)
		}
	}
	return plumbing.ZeroHash, fmt.Errorf("%s: %w", rev, ErrNoRevision)
}

// peel follows annotated tags to the commit below them.
func (l *localRepo) peel(id plumbing.Hash) (plumbing.Hash, error) {
	for range 10 {
		o, err := l.EncodedObject(plumbing.AnyObject, id)
		if err != nil {
			return id, l.missing("commit", id, err)
		}
		if o.Type() != plumbing.TagObject {
			return id, nil
		}
		raw, err := verified(l, plumbing.TagObject, id, maxMeta)
		if err != nil {
			return id, err
		}
		var tag object.Tag
		if err := tag.Decode(memoryObject(plumbing.TagObject, raw)); err != nil {
			return id, fmt.Errorf("tag %s: %w", id, err)
		}
		id = tag.Target
	}
	return id, fmt.Errorf("tag %s names a tag that names a tag, and so on", id)
}

// commit reads a commit.
func (l *localRepo) commit(id plumbing.Hash) (*object.Commit, error) {
	raw, err := verified(l, plumbing.CommitObject, id, maxMeta)
	if err != nil {
		return nil, l.missing("commit", id, err)
	}
	c, err := decodeCommit(raw)
	if err != nil {
		return nil, fmt.Errorf("commit %s: %w", id, err)
	}
	c.Hash = id
	return c, nil
}

// missing says what to do about an object that is not there, which is what clones of a part of a history lack.
func (l *localRepo) missing(what string, id plumbing.Hash, err error) error {
	if !errors.Is(err, plumbing.ErrObjectNotFound) {
		return err
	}
	return &absent{fmt.Sprintf("%s %s is not in this clone; %s", what, id, l.remedy())}
}

// absent is the error of an object that this clone does not hold.
type absent struct{ text string }

func (a *absent) Error() string { return a.text }

// Unwrap returns plumbing.ErrObjectNotFound.
func (a *absent) Unwrap() error { return plumbing.ErrObjectNotFound }

// remedy says how a clone gets what it lacks.
func (l *localRepo) remedy() string {
	if shallow, err := l.Shallow(); err == nil && len(shallow) > 0 {
		return "the clone is shallow, fetch all of its history: git fetch --unshallow, or fetch-depth: 0 of actions/checkout"
	}
	return "fetch it: git fetch origin, or fetch-depth: 0 of actions/checkout"
}

// verified reads an object of at most limit bytes and proves that its bytes have its id. The error is ErrTooLarge or an
// errDamaged, which wraps plumbing.ErrObjectNotFound when the object is not there.
func verified(from storer.EncodedObjectStorer, kind plumbing.ObjectType, id plumbing.Hash, limit int64) ([]byte, error) {
	size, err := from.EncodedObjectSize(id)
	if err != nil {
		return nil, fmt.Errorf("object %s: %w: %w", id, errDamaged, err)
	}
	if size > limit {
		return nil, ErrTooLarge
	}
	o, err := from.EncodedObject(kind, id)
	if err != nil {
		return nil, fmt.Errorf("object %s: %w: %w", id, errDamaged, err)
	}
	r, err := o.Reader()
	if err != nil {
		return nil, fmt.Errorf("object %s: %w: %w", id, errDamaged, err)
	}
	defer r.Close()
	raw, err := io.ReadAll(io.LimitReader(r, size+1))
	if err != nil || plumbing.ComputeHash(kind, raw) != id {
		return nil, fmt.Errorf("object %s: %w", id, errDamaged)
	}
	return raw, nil
}

// A revision is the tree of a commit as a file system.
type revision struct {
	mu      sync.Mutex // the store is for one at a time
	store   *localRepo
	top     plumbing.Hash
	folders map[plumbing.Hash][]node
	listed  int
}

var (
	_ fs.ReadDirFS  = (*revision)(nil)
	_ fs.ReadLinkFS = (*revision)(nil)
)

// A node is one entry of a folder. It is the file's DirEntry, and once its size is known the FileInfo too.
type node struct {
	name string
	mode fs.FileMode
	id   plumbing.Hash // zero for a submodule
	from *revision
}

func (n node) Name() string      { return n.name }
func (n node) IsDir() bool       { return n.mode.IsDir() }
func (n node) Type() fs.FileMode { return n.mode.Type() }

// Info looks up the size, which a folder does not tell.
func (n node) Info() (fs.FileInfo, error) {
	if n.IsDir() {
		return nodeInfo{n, 0}, nil
	}
	n.from.mu.Lock()
	defer n.from.mu.Unlock()
	size, err := n.from.store.EncodedObjectSize(n.id)
	if err != nil {
		return nil, n.from.store.missing("file", n.id, err)
	}
	return nodeInfo{n, size}, nil
}

type nodeInfo struct {
	node
	size int64
}

func (i nodeInfo) Size() int64        { return i.size }
func (i nodeInfo) Mode() fs.FileMode  { return i.mode }
func (i nodeInfo) ModTime() time.Time { return time.Time{} }
func (i nodeInfo) Sys() any           { return nil }

// find walks to a path; links are not followed.
func (r *revision) find(name string) (node, error) {
	at := node{name: ".", mode: fs.ModeDir | 0o755, id: r.top, from: r}
	if !fs.ValidPath(name) {
		return at, fs.ErrInvalid
	}
	if name == "." {
		return at, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if !at.IsDir() {
			return at, fs.ErrNotExist
		}
		list, err := r.folder(at)
		if err != nil {
			return at, err
		}
		i, ok := slices.BinarySearchFunc(list, part, func(n node, name string) int { return strings.Compare(n.name, name) })
		if !ok {
			return at, fs.ErrNotExist
		}
		at = list[i]
	}
	return at, nil
}

// folder lists a folder, sorted by name.
func (r *revision) folder(at node) ([]node, error) {
	if at.id.IsZero() { // a submodule
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if list, ok := r.folders[at.id]; ok {
		return list, nil
	}
	raw, err := verified(r.store, plumbing.TreeObject, at.id, maxMeta)
	if err != nil {
		return nil, r.store.missing("folder", at.id, err)
	}
	list, err := r.nodes(raw)
	if err != nil {
		return nil, fmt.Errorf("folder %s: %w", at.id, err)
	}
	r.folders[at.id] = list
	return list, nil
}

// nodes reads a tree object. Each name is a plain one and stands once.
func (r *revision) nodes(raw []byte) ([]node, error) {
	t, err := decodeTree(raw)
	if err != nil {
		return nil, err
	}
	list := make([]node, len(t.Entries))
	for i, e := range t.Entries {
		if !inTree(e.Name) || strings.Contains(e.Name, "/") || strings.EqualFold(e.Name, ".git") {
			return nil, fmt.Errorf("an entry is named %q", e.Name)
		}
		list[i] = node{name: e.Name, mode: revisionMode(e.Mode), id: e.Hash, from: r}
		if e.Mode == filemode.Submodule {
			list[i].id = plumbing.ZeroHash
		}
	}
	slices.SortFunc(list, func(a, b node) int { return strings.Compare(a.name, b.name) })
	for i := range max(0, len(list)-1) {
		if list[i].name == list[i+1].name {
			return nil, fmt.Errorf("two entries are named %q", list[i].name)
		}
	}
	return list, nil
}

func revisionMode(m filemode.FileMode) fs.FileMode {
	switch m {
	case filemode.Dir, filemode.Submodule:
		return fs.ModeDir | 0o755
	case filemode.Symlink:
		return fs.ModeSymlink | 0o777
	case filemode.Executable:
		return 0o755
	case filemode.Regular, filemode.Deprecated:
		return 0o644
	}
	return fs.ModeIrregular
}

// blob reads the bytes of a file or the target of a link.
func (r *revision) blob(n node) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	raw, err := verified(r.store, plumbing.BlobObject, n.id, maxBlob)
	switch {
	case errors.Is(err, ErrTooLarge):
		return nil, fmt.Errorf("has more than %d MiB", maxBlob>>20)
	case err != nil:
		return nil, r.store.missing("file", n.id, err)
	case keptInLFS(raw):
		return nil, errors.New("is kept in Git LFS, where it cannot be read from")
	}
	return raw, nil
}

// keptInLFS tells whether a file is only the note that git keeps of one that lies elsewhere.
func keptInLFS(raw []byte) bool {
	return len(raw) < 1024 && bytes.HasPrefix(raw, []byte("version https://git-lfs.github.com/spec/"))
}

// Open opens a file or a folder, but no link.
func (r *revision) Open(name string) (fs.File, error) {
	f, err := r.open(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return f, nil
}

func (r *revision) open(name string) (fs.File, error) {
	n, err := r.find(name)
	switch {
	case err != nil:
		return nil, err
	case n.IsDir():
		list, err := r.list(n)
		return &openFolder{node: n, rest: list}, err
	case !n.mode.IsRegular():
		return nil, errors.New("is not a regular file")
	}
	raw, err := r.blob(n)
	if err != nil {
		return nil, err
	}
	return &openFile{nodeInfo{n, int64(len(raw))}, bytes.NewReader(raw)}, nil
}

// ReadDir lists a folder, sorted by name.
func (r *revision) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := r.find(name)
	if err == nil && !n.IsDir() {
		err = errors.New("is not a folder")
	}
	var list []fs.DirEntry
	if err == nil {
		list, err = r.list(n)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	return list, nil
}

// list is folder for callers from outside, who may walk for ever.
func (r *revision) list(n node) ([]fs.DirEntry, error) {
	nodes, err := r.folder(n)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listed += len(nodes) + 1; r.listed > maxListed {
		return nil, ErrTooLarge
	}
	list := make([]fs.DirEntry, len(nodes))
	for i, n := range nodes {
		list[i] = n
	}
	return list, nil
}

// Lstat describes what is at a path, itself a link or not.
func (r *revision) Lstat(name string) (fs.FileInfo, error) {
	n, err := r.find(name)
	var info fs.FileInfo
	if err == nil {
		info, err = n.Info()
	}
	if err != nil {
		return nil, &fs.PathError{Op: "lstat", Path: name, Err: err}
	}
	return info, nil
}

// ReadLink returns the target of a link, as it was committed.
func (r *revision) ReadLink(name string) (string, error) {
	n, err := r.find(name)
	if err == nil && n.mode.Type() != fs.ModeSymlink {
		err = fs.ErrInvalid
	}
	var target []byte
	if err == nil {
		target, err = r.blob(n)
	}
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(target), nil
}

type openFile struct {
	nodeInfo
	*bytes.Reader
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.nodeInfo, nil }
func (f *openFile) Size() int64                { return f.nodeInfo.size }
func (f *openFile) Close() error               { return nil }

type openFolder struct {
	node
	rest []fs.DirEntry
}

func (f *openFolder) Stat() (fs.FileInfo, error) { return nodeInfo{f.node, 0}, nil }
func (f *openFolder) Close() error               { return nil }
func (f *openFolder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: f.name, Err: errors.New("is a folder")}
}

func (f *openFolder) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		n = len(f.rest)
	} else if len(f.rest) == 0 {
		return nil, io.EOF
	}
	list := f.rest[:min(n, len(f.rest))]
	f.rest = f.rest[len(list):]
	return list, nil
}

// CopyOut writes files and folders of a file system, such as a revision's, into a folder of the host, each at its own path
// there. Links are written as they are. A name that lies in another one is written once.
func CopyOut(files fs.FS, names []string, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	c := copying{from: files, to: root}
	var done []string
	for _, name := range slices.Sorted(slices.Values(names)) {
		if slices.ContainsFunc(done, func(d string) bool { return d == "." || name == d || strings.HasPrefix(name, d+"/") }) {
			continue
		}
		if err := fs.WalkDir(files, name, c.entry); err != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
		done = append(done, name)
	}
	return nil
}

// copying counts what it copies.
type copying struct {
	from  fs.FS
	to    *os.Root
	count int
	bytes int64
}

func (c *copying) entry(name string, e fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	if c.count++; c.count > maxEntries {
		return ErrTooLarge
	}
	if e.IsDir() {
		return c.to.MkdirAll(name, 0o755)
	}
	if err := c.to.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if e.Type() == fs.ModeSymlink {
		target, err := fs.ReadLink(c.from, name)
		if err != nil {
			return err
		}
		return c.to.Symlink(target, name)
	}
	info, err := e.Info()
	if err != nil {
		return err
	}
	from, err := c.from.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	return writeFile(c.to, name, fileMode(info.Mode()), false, func(f *os.File) error {
		n, err := io.Copy(f, io.LimitReader(from, maxBytes-c.bytes+1))
		if c.bytes += n; err == nil && c.bytes > maxBytes {
			err = ErrTooLarge
		}
		return err
	})
}
