package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/suite"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	objectcache "github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

const (
	fetchTimeout = 5 * time.Minute
	maxPack      = 2 << 30 // bytes that a server may send
	maxObjects   = 10_000_000
	maxDepth     = 128 // folders within folders
)

// repoSource finds one folder of one commit. Its cache entry holds three folders: tree, the files; git, a repository whose
// only commit is that tree; and proof, the objects that lead from the commit id to the tree.
func (s *Sandbox) repoSource(ctx context.Context, r suite.Repo) (*Source, error) {
	if err := checkRepo(r, s.Allow); err != nil {
		return nil, err
	}
	r.Subdir = path.Clean(r.Subdir)
	key := "repo-" + digestOf("1", r.URL, r.Commit, r.Subdir)
	load := func(ctx context.Context) (*tree, []Finding, error) {
		return s.cache.load(ctx, key, sourceRules,
			func(t *tree) error { return proveEntry(t, r) },
			func(ctx context.Context, dir string) error { return s.export(ctx, r, dir) })
	}
	t, found, err := load(ctx)
	if err != nil {
		return nil, err
	}
	work := t.sub("tree")
	return &Source{
		Digest:   work.digest(),
		Findings: found,
		what:     "repository " + r.URL,
		work:     work,
		git:      t.sub("git"),
		again: func(ctx context.Context) ([]Finding, error) {
			s.cache.forget(key)
			_, found, err := load(ctx)
			return found, err
		},
	}, nil
}

func digestOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])[:32]
}

var commitID = regexp.MustCompile(`^[0-9a-f]{40}$`)

// checkRepo refuses whatever is not plain https to a host, so that no other transport is ever asked for. A host that
// the user allows by name may be reached by http.
func checkRepo(r suite.Repo, allow []string) error {
	u, err := url.Parse(r.URL)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-"):
		return fault(r.At, "write https://host/path", "%q is not the address of a repository", r.URL)
	case u.User != nil:
		return fault(r.At, "leave the name and password out", "the address of a repository must not hold credentials")
	case u.Scheme != "https" && !(u.Scheme == "http" && allowed(allow, u.Hostname())):
		return fault(r.At, "write https://host/path", "repositories are read over https only, not %q", u.Scheme)
	case u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") == "":
		return fault(r.At, "write https://host/path", "%q is not the address of a repository", r.URL)
	case len(r.Commit) == 64:
		return fault(r.At, "", "repositories with SHA-256 ids cannot be read yet")
	case !commitID.MatchString(r.Commit):
		return fault(r.At, "a branch or a tag moves, a commit does not", "commit %q is not 40 lower-case hex digits", r.Commit)
	case r.Subdir != "" && !fs.ValidPath(path.Clean(r.Subdir)):
		return fault(r.At, "", "subdir %q leaves the repository", r.Subdir)
	}
	return nil
}

// errDamaged says that objects of the cached repository are missing or are not what their ids say.
var errDamaged = errors.New("damaged")

// export writes a new cache entry.
func (s *Sandbox) export(ctx context.Context, r suite.Repo, dir string) error {
	key := "bare-" + digestOf("1", r.URL, r.Commit)
	defer s.cache.lock(key)()
	bare := filepath.Join(s.cache.dir, key)
	for attempt := 0; ; attempt++ {
		fetched, err := s.fetched(ctx, r, bare)
		if err != nil {
			return err
		}
		x := &exporter{from: fetched, at: r, dir: dir}
		err = x.export()
		if attempt == 0 && errors.Is(err, errDamaged) {
			_, moved := setAside(bare)
			if err = errors.Join(moved, emptyDir(dir)); err == nil {
				continue
			}
		}
		return err
	}
}

func emptyDir(dir string) error { return errors.Join(RemoveAll(dir), os.Mkdir(dir, 0o700)) }

// fetched returns the objects of a commit, from the bare repository in the cache or else from the server. All folders of
// the commit that cases name share it.
func (s *Sandbox) fetched(ctx context.Context, r suite.Repo, bare string) (storer.EncodedObjectStorer, error) {
	if _, err := os.Lstat(bare); err == nil {
		return objectsOf(bare), nil
	}
	temp, err := os.MkdirTemp(s.cache.dir, unfinished)
	if err != nil {
		return nil, err
	}
	defer RemoveAll(temp)
	objects := objectsOf(temp)
	if err := objects.Init(); err != nil {
		return nil, err
	}
	if err := s.fetch(ctx, r, objects); err != nil {
		return nil, s.reachError(r, err)
	}
	if err := install(temp, bare); err != nil {
		return nil, err
	}
	return objectsOf(bare), nil
}

// objectsOf is the object store of the bare repository in dir. Nothing of it is read until an object is asked for, so a
// store that is damaged shows as objects that are missing.
func objectsOf(dir string) *filesystem.Storage {
	return filesystem.NewStorage(osfs.New(dir), objectcache.NewObjectLRUDefault())
}

// noCommit is the error of a repository that answers and does not have the commit.
type noCommit struct{ text string }

func (n *noCommit) Error() string { return n.text }

// fetch asks for the commit alone. Servers that do not hand out bare commits are asked for all branches and tags.
func (s *Sandbox) fetch(ctx context.Context, r suite.Repo, to storer.Storer) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	endpoint, err := transport.NewEndpoint(r.URL)
	if err != nil {
		return err
	}
	session, err := githttp.NewClient(s.client).NewUploadPackSession(endpoint, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	refs, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return err
	}
	want := plumbing.NewHash(r.Commit)
	heads := tips(refs)
	_, isTip := heads[want]
	refusal := "no branch or tag of it leads to " + r.Commit
	if isTip || refs.Capabilities.Supports(capability.AllowReachableSHA1InWant) || refs.Capabilities.Supports(capability.AllowTipSHA1InWant) {
		err := fetchWants(ctx, session, refs, []plumbing.Hash{want}, 1, to)
		if err == nil && to.HasEncodedObject(want) == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			refusal = err.Error()
		}
	}
	if len(heads) == 0 {
		return &noCommit{refusal}
	}
	var wants []plumbing.Hash
	for h := range heads {
		wants = append(wants, h)
	}
	if err := fetchWants(ctx, session, refs, wants, 0, to); err != nil {
		return err
	}
	if to.HasEncodedObject(want) != nil {
		return &noCommit{refusal}
	}
	return nil
}

// tips are the commits that branches and tags point to.
func tips(refs *packp.AdvRefs) map[plumbing.Hash]bool {
	heads := map[plumbing.Hash]bool{}
	for name, hash := range refs.References {
		if strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/") {
			heads[hash] = true
		}
	}
	return heads
}

func fetchWants(ctx context.Context, session transport.UploadPackSession, refs *packp.AdvRefs, wants []plumbing.Hash, depth int, to storer.Storer) error {
	req := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	req.Wants = wants
	if depth > 0 && refs.Capabilities.Supports(capability.Shallow) {
		req.Depth = packp.DepthCommits(depth)
		if err := req.Capabilities.Set(capability.Shallow); err != nil {
			return err
		}
	}
	answer, err := session.UploadPack(ctx, req)
	if err != nil {
		return err
	}
	defer answer.Close()
	pack, err := checkPack(demux(req.Capabilities, &capped{r: answer, left: maxPack}), maxObjects)
	if err != nil {
		return err
	}
	return packfile.UpdateObjectStorage(to, pack)
}

func demux(caps *capability.List, r io.Reader) io.Reader {
	switch {
	case caps.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, r)
	case caps.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, r)
	}
	return r
}

// capped is a reader that refuses to go on after so many bytes.
type capped struct {
	r    io.Reader
	left int64
}

func (c *capped) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return n, fmt.Errorf("the server sent more than %d MiB", maxPack>>20)
	}
	return n, err
}

// reachError says why a repository could not be read.
func (s *Sandbox) reachError(r suite.Repo, err error) error {
	var refused *refusedAddress
	if errors.As(err, &refused) {
		return fault(r.At, "--allow-private-hosts names hosts that may be reached nevertheless", "repository %s: %v", r.URL, refused)
	}
	return &Unavailable{What: "repository " + r.URL, Reason: reason(err), Text: err.Error()}
}

func reason(err error) string {
	var missing *noCommit
	var network net.Error
	var op *net.OpError
	switch {
	case errors.As(err, &missing):
		return "bad_commit"
	case errors.Is(err, transport.ErrAuthenticationRequired), errors.Is(err, transport.ErrAuthorizationFailed):
		return "no_auth"
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return "not_found"
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		return "bad_commit"
	case errors.As(err, &op), errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "no_network"
	}
	return "unknown"
}

// An exporter writes one folder of a commit to the disk, every object checked against its id.
type exporter struct {
	from  storer.EncodedObjectStorer
	at    suite.Repo
	dir   string
	root  *os.Root
	count int
	bytes int64
}

func (x *exporter) export() error {
	root, err := os.OpenRoot(x.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	x.root = root
	for _, dir := range []string{"tree", "git", "proof"} {
		if err := root.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	top, err := x.top()
	if err != nil {
		return err
	}
	if err := x.tree(top, "tree", 0); err != nil {
		return err
	}
	return x.finish(top)
}

// finish reads back what was written, refuses links that leave it, and makes the repository of the place.
func (x *exporter) finish(top plumbing.Hash) error {
	written, err := x.root.OpenRoot("tree")
	if err != nil {
		return err
	}
	defer written.Close()
	t, err := readTree(written, sourceRules, nil)
	if err != nil {
		return atPlace(x.at.At, "repository", x.at.URL, err)
	}
	h, err := newHistory(t)
	if err != nil {
		return err
	}
	if h.tree != top {
		return fault(x.at.At, "", "repository %s: the folder cannot be laid out as git has it (a file mode of old times, or names that this disk holds to be equal)", x.at.URL)
	}
	return h.write(filepath.Join(x.dir, "git"))
}

// top walks from the commit to the folder that the case names and notes the objects on the way as proof.
func (x *exporter) top() (plumbing.Hash, error) {
	step := 0
	return walkProof(x.at, func(kind plumbing.ObjectType, id plumbing.Hash) ([]byte, error) {
		raw, err := x.object(kind, id)
		if err != nil {
			return nil, err
		}
		name := filepath.Join("proof", strconv.Itoa(step))
		step++
		return raw, x.root.WriteFile(name, raw, 0o644)
	})
}

// walkProof goes from a commit down to the tree of its folder; object returns the bytes of an object whose id is checked.
func walkProof(r suite.Repo, object func(plumbing.ObjectType, plumbing.Hash) ([]byte, error)) (plumbing.Hash, error) {
	raw, err := object(plumbing.CommitObject, plumbing.NewHash(r.Commit))
	if err != nil {
		return plumbing.ZeroHash, err
	}
	commit, err := decodeCommit(raw)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	at := commit.TreeHash
	if r.Subdir == "." {
		return at, nil
	}
	for _, part := range strings.Split(r.Subdir, "/") {
		raw, err := object(plumbing.TreeObject, at)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		t, err := decodeTree(raw)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		i := indexOf(t, part)
		if i < 0 || t.Entries[i].Mode != filemode.Dir {
			return plumbing.ZeroHash, fault(r.At, "", "commit %.12s of %s has no folder %s", r.Commit, r.URL, r.Subdir)
		}
		at = t.Entries[i].Hash
	}
	return at, nil
}

func indexOf(t *object.Tree, name string) int {
	for i, e := range t.Entries {
		if e.Name == name {
			return i
		}
	}
	return -1
}

func decodeCommit(raw []byte) (*object.Commit, error) {
	var c object.Commit
	return &c, c.Decode(memoryObject(plumbing.CommitObject, raw))
}

func decodeTree(raw []byte) (*object.Tree, error) {
	var t object.Tree
	return &t, t.Decode(memoryObject(plumbing.TreeObject, raw))
}

func memoryObject(kind plumbing.ObjectType, raw []byte) *plumbing.MemoryObject {
	o := new(plumbing.MemoryObject)
	o.SetType(kind)
	_, _ = o.Write(raw) // a MemoryObject takes all
	return o
}

// object reads an object of the entry and proves that its bytes have its id.
func (x *exporter) object(kind plumbing.ObjectType, id plumbing.Hash) ([]byte, error) {
	raw, err := verified(x.from, kind, id, maxBytes-x.bytes)
	x.bytes += int64(len(raw))
	if errors.Is(err, ErrTooLarge) {
		return nil, fault(x.at.At, "", "repository %s: %v", x.at.URL, ErrTooLarge)
	}
	return raw, err
}

// tree writes one folder.
func (x *exporter) tree(id plumbing.Hash, dir string, depth int) error {
	raw, err := x.object(plumbing.TreeObject, id)
	if err != nil {
		return err
	}
	t, err := decodeTree(raw)
	if err != nil {
		return fmt.Errorf("tree %s: %w", id, err)
	}
	for _, e := range t.Entries {
		if x.count++; x.count > maxEntries || depth > maxDepth {
			return fault(x.at.At, "", "repository %s: %v", x.at.URL, ErrTooLarge)
		}
		if !inTree(e.Name) || strings.Contains(e.Name, "/") || strings.EqualFold(e.Name, ".git") {
			return fault(x.at.At, "", "repository %s: an entry is named %q", x.at.URL, e.Name)
		}
		if err := x.entry(e, path.Join(dir, e.Name), depth); err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) entry(e object.TreeEntry, name string, depth int) error {
	shown := strings.TrimPrefix(name, "tree/")
	switch e.Mode {
	case filemode.Dir:
		if err := x.root.Mkdir(name, 0o755); err != nil {
			return err
		}
		return x.tree(e.Hash, name, depth+1)
	case filemode.Submodule:
		return fault(x.at.At, "name a commit that holds the files themselves", "repository %s: %s is a submodule", x.at.URL, shown)
	}
	raw, err := x.object(plumbing.BlobObject, e.Hash)
	if err != nil {
		return err
	}
	if e.Mode == filemode.Symlink {
		return x.root.Symlink(string(raw), name)
	}
	if keptInLFS(raw) {
		return fault(x.at.At, "name a commit that holds the files themselves", "repository %s: %s is kept in Git LFS", x.at.URL, shown)
	}
	mode := fs.FileMode(0o644)
	if e.Mode == filemode.Executable {
		mode = 0o755
	}
	return writeFile(x.root, name, mode, false, func(f *os.File) error {
		_, err := f.Write(raw)
		return err
	})
}

// proveEntry checks a cache entry against the commit id: proof leads from the id to the id of the tree, the files have that
// id, and the repository holds this tree and nothing else.
func proveEntry(t *tree, r suite.Repo) error {
	step := 0
	top, err := walkProof(r, func(kind plumbing.ObjectType, id plumbing.Hash) ([]byte, error) {
		e := t.find("proof/" + strconv.Itoa(step))
		if e == nil {
			return nil, errors.New("its proof is incomplete")
		}
		step++
		raw, err := t.read(e)
		if err == nil && plumbing.ComputeHash(kind, raw) != id {
			err = errors.New("its proof is of another commit")
		}
		return raw, err
	})
	if err != nil {
		return err
	}
	work := t.sub("tree")
	if err := work.checkLinks(); err != nil {
		return err
	}
	h, err := newHistory(work)
	if err != nil {
		return err
	}
	if h.tree != top {
		return errors.New("its files are not those of the commit")
	}
	return h.prove(t.sub("git"))
}
