package sandbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/index"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// A history is a repository with one commit that has no parent and holds one tree. An agent finds the git it expects and
// nothing of what came before or after: answers have been looked up in the history of real repositories. Equal trees have
// equal commits, since author, date and message are fixed.
type history struct {
	tree, commit plumbing.Hash
	objects      map[plumbing.Hash]plumbing.EncodedObject
	order        []plumbing.Hash
	index        index.Index
}

func newHistory(t *tree) (*history, error) {
	h := &history{objects: map[plumbing.Hash]plumbing.EncodedObject{}, index: index.Index{Version: 2}}
	children := map[string][]*entry{}
	for i := range t.entries {
		e := &t.entries[i]
		children[path.Dir(e.path)] = append(children[path.Dir(e.path)], e)
	}
	var err error
	if h.tree, err = h.addTree(t, children, "."); err != nil {
		return nil, err
	}
	who := object.Signature{Name: "Assay", Email: "assay@localhost", When: time.Unix(946684800, 0).UTC()} // 2000-01-01
	commit := object.Commit{Author: who, Committer: who, Message: "the task's starting point\n", TreeHash: h.tree}
	encoded := new(plumbing.MemoryObject)
	if err := commit.Encode(encoded); err != nil {
		return nil, err
	}
	h.commit = h.add(encoded)
	return h, nil
}

func (h *history) add(o plumbing.EncodedObject) plumbing.Hash {
	id := o.Hash()
	if h.objects[id] == nil {
		h.objects[id] = o
		h.order = append(h.order, id)
	}
	return id
}

// addTree adds a folder and all below it. Git knows no empty folders; they are left out.
func (h *history) addTree(t *tree, children map[string][]*entry, dir string) (plumbing.Hash, error) {
	var made object.Tree
	for _, e := range children[dir] {
		te := object.TreeEntry{Name: path.Base(e.path)}
		switch {
		case e.mode.IsDir():
			te.Mode = filemode.Dir
			id, err := h.addTree(t, children, e.path)
			if err != nil {
				return id, err
			}
			if id == emptyTree {
				continue
			}
			te.Hash = id
		default:
			te.Mode = gitMode(e.mode)
			o, err := newBlob(t, e)
			if err != nil {
				return plumbing.ZeroHash, err
			}
			te.Hash = h.add(o)
			h.index.Entries = append(h.index.Entries, &index.Entry{Name: e.path, Hash: te.Hash, Mode: te.Mode, Size: uint32(o.Size())})
		}
		made.Entries = append(made.Entries, te)
	}
	if made.Entries == nil && dir != "." {
		return emptyTree, nil
	}
	sort.Sort(object.TreeEntrySorter(made.Entries))
	encoded := new(plumbing.MemoryObject)
	if err := made.Encode(encoded); err != nil {
		return plumbing.ZeroHash, err
	}
	return h.add(encoded), nil
}

// emptyTree is the id that every empty tree has.
var emptyTree = plumbing.ComputeHash(plumbing.TreeObject, nil)

func gitMode(m fs.FileMode) filemode.FileMode {
	switch {
	case m&fs.ModeSymlink != 0:
		return filemode.Symlink
	case m&0o111 != 0:
		return filemode.Executable
	}
	return filemode.Regular
}

// A blob is a file of a tree as a git object, whose bytes are read when they are needed.
type blob struct {
	plumbing.MemoryObject // of links; for files only its type counts
	tree                  *tree
	entry                 *entry
	id                    plumbing.Hash
}

func newBlob(t *tree, e *entry) (plumbing.EncodedObject, error) {
	if e.mode&fs.ModeSymlink != 0 {
		return memoryObject(plumbing.BlobObject, []byte(e.link)), nil
	}
	b := &blob{tree: t, entry: e}
	b.SetType(plumbing.BlobObject)
	f, err := t.open(e)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	id, sum := plumbing.NewHasher(plumbing.BlobObject, e.size), sha256.New()
	if _, err := io.Copy(io.MultiWriter(id, sum), f); err != nil {
		return nil, err
	}
	if !bytes.Equal(sum.Sum(nil), e.sum[:]) {
		return nil, fmt.Errorf("%s: %w", e.path, errChanged)
	}
	b.id = id.Sum()
	return b, nil
}

func (b *blob) Hash() plumbing.Hash            { return b.id }
func (b *blob) Size() int64                    { return b.entry.size }
func (b *blob) Reader() (io.ReadCloser, error) { return b.tree.open(b.entry) }

// objectSource gives the encoder of packs the objects of a history; nothing else of a storage is asked for.
type objectSource struct {
	storer.EncodedObjectStorer
	h *history
}

func (s objectSource) EncodedObject(_ plumbing.ObjectType, id plumbing.Hash) (plumbing.EncodedObject, error) {
	if o := s.h.objects[id]; o != nil {
		return o, nil
	}
	return nil, plumbing.ErrObjectNotFound
}

// texts are the files of the repository beside its objects.
func (h *history) texts() (map[string][]byte, error) {
	var idx bytes.Buffer
	if err := index.NewEncoder(&idx).Encode(&h.index); err != nil {
		return nil, err
	}
	return map[string][]byte{
		"HEAD":            []byte("ref: refs/heads/main\n"),
		"config":          []byte("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"),
		"index":           idx.Bytes(),
		"refs/heads/main": []byte(h.commit.String() + "\n"),
	}, nil
}

const packDir = "objects/pack"

// write makes the repository in an empty folder: one pack, its index, and four small files.
func (h *history) write(dir string) error {
	texts, err := h.texts()
	if err != nil {
		return err
	}
	for _, sub := range []string{packDir, "objects/info", "refs/heads", "refs/tags"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return h.writePack(filepath.Join(dir, packDir))
}

func (h *history) writePack(dir string) (err error) {
	f, err := os.Create(filepath.Join(dir, "pack"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	id, err := packfile.NewEncoder(f, objectSource{h: h}, false).Encode(h.order, 0)
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	idx, _, err := indexPack(f, len(h.order))
	if err != nil {
		return err
	}
	name := filepath.Join(dir, "pack-"+id.String())
	return errors.Join(os.Rename(f.Name(), name+".pack"), os.WriteFile(name+".idx", idx, 0o644))
}

// indexPack reads a pack of so many objects, and returns its index and the ids of the objects in it, made from their bytes.
func indexPack(pack io.ReadSeeker, count int) ([]byte, map[plumbing.Hash]bool, error) {
	if _, err := checkPack(pack, uint32(count)); err != nil {
		return nil, nil, err
	}
	if _, err := pack.Seek(0, io.SeekStart); err != nil {
		return nil, nil, err
	}
	var w idxfile.Writer
	parser, err := packfile.NewParser(packfile.NewScanner(pack), &w)
	if err != nil {
		return nil, nil, err
	}
	if _, err := parser.Parse(); err != nil {
		return nil, nil, err
	}
	made, err := w.Index()
	if err != nil {
		return nil, nil, err
	}
	ids := map[plumbing.Hash]bool{}
	entries, err := made.Entries()
	if err != nil {
		return nil, nil, err
	}
	defer entries.Close()
	for {
		e, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		ids[e.Hash] = true
	}
	var idx bytes.Buffer
	_, err = idxfile.NewEncoder(&idx).Encode(made)
	return idx.Bytes(), ids, err
}

// checkPack reads the head of a pack and returns a reader of the whole. The head says how many objects will come, and
// memory for all of them is taken at once by whoever reads on, so a lie must be found before.
func checkPack(pack io.Reader, most uint32) (io.Reader, error) {
	var head [12]byte
	if _, err := io.ReadFull(pack, head[:]); err != nil {
		return nil, fmt.Errorf("no pack: %w", err)
	}
	if n := binary.BigEndian.Uint32(head[8:]); string(head[:4]) != "PACK" || n > most {
		return nil, fmt.Errorf("a pack that begins with %q and has %d objects, more than %d", head[:4], n, most)
	}
	return io.MultiReader(bytes.NewReader(head[:]), pack), nil
}

// prove checks that a repository on the disk is this history: its objects, made from the bytes of the pack, are the
// objects of the tree and of the one commit, and its other files are the ones we write.
func (h *history) prove(t *tree) error {
	texts, err := h.texts()
	if err != nil {
		return err
	}
	var packs, indexes []*entry
	for i := range t.entries {
		e := &t.entries[i]
		want, ours := texts[e.path]
		switch {
		case e.mode.IsDir():
		case ours && sha256.Sum256(want) == e.sum:
			delete(texts, e.path)
		case path.Dir(e.path) == packDir && strings.HasSuffix(e.path, ".pack"):
			packs = append(packs, e)
		case path.Dir(e.path) == packDir && strings.HasSuffix(e.path, ".idx"):
			indexes = append(indexes, e)
		default:
			return fmt.Errorf("its repository has a foreign file %s", e.path)
		}
	}
	if len(texts) != 0 || len(packs) != 1 || len(indexes) != 1 {
		return errors.New("its repository is incomplete")
	}
	f, err := t.open(packs[0])
	if err != nil {
		return err
	}
	defer f.Close()
	idx, ids, err := indexPack(f, len(h.order))
	if err != nil {
		return fmt.Errorf("its repository has a bad pack: %w", err)
	}
	if sha256.Sum256(idx) != indexes[0].sum || len(ids) != len(h.objects) {
		return errors.New("its repository holds other objects than those of its tree")
	}
	for id := range ids {
		if h.objects[id] == nil {
			return fmt.Errorf("its repository holds %s, which is not of its tree", id)
		}
	}
	return nil
}
