package diffscope

import (
	"cmp"
	"context"
	"path"

	"github.com/go-git/go-git/v5/plumbing"
)

// copies finds the created files in scope that repeat a file of the tree before whose path still is a file: first those of
// equal content, then those that share at least half of their lines with a file that the change modified. A file that was
// moved is no copy.
func copies(ctx context.Context, before, after Tree, p Patch) ([]Rename, error) {
	created, err := createdFiles(p)
	if err != nil || len(created) == 0 {
		return []Rename{}, err
	}
	whole, err := copiedWhole(ctx, before, after, created)
	if err != nil {
		return nil, err
	}
	var left []*change
	for _, c := range created {
		if whole[c] == "" {
			left = append(left, c)
		}
	}
	matches, err := similarPairs(modifiedFiles(p), left)
	if err != nil {
		return nil, err
	}
	best := bestSources(matches)
	found := []Rename{}
	for _, c := range created {
		if from := whole[c]; from != "" {
			found = append(found, Rename{printable(from), c.row.Path, 1})
		} else if m, ok := best[c]; ok {
			found = append(found, Rename{m.from.row.Path, c.row.Path, m.similarity})
		}
	}
	return found, ctx.Err()
}

// createdFiles are the files that may be copies, in the order of their paths.
func createdFiles(p Patch) ([]*change, error) {
	var created []*change
	for i := range p.changes {
		c := &p.changes[i]
		if c.where == inScope && c.old == nil && !c.hidden && c.new.isFile() && c.new.blob != nil && c.new.size > 0 {
			created = append(created, c)
		}
	}
	if len(created) == 0 {
		return nil, nil
	}
	moves, err := movedPaths(p.changes)
	if err != nil {
		return nil, err
	}
	moved := map[*change]bool{}
	for _, m := range moves {
		moved[m.to] = true
	}
	var left []*change
	for _, c := range created {
		if !moved[c] {
			left = append(left, c)
		}
	}
	return left, nil
}

// copiedWhole gives the source of each created file whose content the tree before has: the first one of the same name, or
// else the first one. Only contents of the same size are hashed.
func copiedWhole(ctx context.Context, before, after Tree, created []*change) (map[*change]string, error) {
	type named struct {
		id   plumbing.Hash
		base string
	}
	sizes := map[int64]bool{}
	for _, c := range created {
		sizes[c.new.size] = true
	}
	first, firstNamed := map[plumbing.Hash]string{}, map[named]string{}
	for i := range before.entries {
		e := &before.entries[i]
		if !sizes[e.size] || !e.isFile() || e.blob == nil || !after.hasFile(e.path) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		id := e.blob.hash()
		keepFirst(first, id, e.path)
		keepFirst(firstNamed, named{id, path.Base(e.path)}, e.path)
	}
	sources := map[*change]string{}
	for _, c := range created {
		if len(first) == 0 {
			break
		}
		id := c.new.blob.hash()
		if from := cmp.Or(firstNamed[named{id, path.Base(c.path)}], first[id]); from != "" {
			sources[c] = from
		}
	}
	return sources, ctx.Err()
}

func keepFirst[K comparable](m map[K]string, key K, name string) {
	if _, known := m[key]; !known {
		m[key] = name
	}
}

func (t Tree) hasFile(name string) bool {
	e := find(t.entries, name)
	return e != nil && e.isFile()
}

// modifiedFiles are the files that were there before and still are, and differ.
func modifiedFiles(p Patch) []*change {
	var modified []*change
	for i := range p.changes {
		c := &p.changes[i]
		if c.old != nil && c.new != nil && c.old.isFile() && c.new.isFile() && c.row.Uncounted == "" {
			modified = append(modified, c)
		}
	}
	return modified
}

// bestSources picks for each created file the most similar source; of several the first one of the same name, or else the
// first one.
func bestSources(matches []pathPair) map[*change]pathPair {
	best := map[*change]pathPair{}
	for _, m := range matches {
		known, has := best[m.to]
		if !has || m.similarity > known.similarity || m.similarity == known.similarity && m.sameName() && !known.sameName() {
			best[m.to] = m
		}
	}
	return best
}

func (p pathPair) sameName() bool { return path.Base(p.from.path) == path.Base(p.to.path) }
