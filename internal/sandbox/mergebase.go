package sandbox

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// MergeBase returns the full id of the commit where the histories of two revisions of a local repository part: the best
// common ancestor. Of several, which merges in both directions make, it is the newest, and of equally old ones the one with
// the smallest id. A history that this clone holds only in part is an error when the answer could lie in what is missing.
func MergeBase(repo, a, b string) (sha string, err error) {
	l, err := openLocal(repo)
	if err != nil {
		return "", err
	}
	ia, err := l.resolve(a)
	if err != nil {
		return "", err
	}
	ib, err := l.resolve(b)
	if err != nil {
		return "", err
	}
	bases, err := l.mergeBases(ia, ib)
	if err != nil {
		return "", fmt.Errorf("merge base of %s and %s: %w", a, b, err)
	}
	if len(bases) == 0 {
		return "", fmt.Errorf("%s and %s have no commit in common", a, b)
	}
	return bases[0].Hash.String(), nil
}

// mergeBases returns the best common ancestors, the newest first.
func (l *localRepo) mergeBases(a, b plumbing.Hash) ([]*object.Commit, error) {
	common, err := l.commonAncestors(a, b)
	if err != nil {
		return nil, err
	}
	// Where clocks were wrong, an ancestor of another base may have been met first.
	var best []*object.Commit
	for _, c := range common {
		beaten := false
		for _, other := range common {
			if beaten || other.Hash == c.Hash {
				continue
			}
			shared, err := l.commonAncestors(c.Hash, other.Hash)
			if err != nil {
				return nil, err
			}
			beaten = slices.ContainsFunc(shared, func(s *object.Commit) bool { return s.Hash == c.Hash })
		}
		if !beaten {
			best = append(best, c)
		}
	}
	slices.SortFunc(best, func(x, y *object.Commit) int {
		return cmp.Or(y.Committer.When.Compare(x.Committer.When), cmp.Compare(x.Hash.String(), y.Hash.String()))
	})
	return best, nil
}

// paint marks whose history a commit was met in.
type paint uint8

const (
	ofA paint = 1 << iota
	ofB
	stale // below a common ancestor that is known already
)

// commonAncestors walks both histories from the newest commit to older ones, and returns the commits where they first meet.
// It ends when all that is left to look at lies below those.
func (l *localRepo) commonAncestors(a, b plumbing.Hash) ([]*object.Commit, error) {
	painted := map[plumbing.Hash]paint{}
	found := map[plumbing.Hash]*object.Commit{}
	var next queue
	push := func(id plumbing.Hash, p paint) error {
		if painted[id]&p == p {
			return nil
		}
		c, err := l.commit(id)
		if errors.Is(err, plumbing.ErrObjectNotFound) && p&stale != 0 {
			return nil // where the answer cannot be, a clone may end
		}
		if err != nil {
			return err
		}
		painted[id] |= p
		heap.Push(&next, c)
		return nil
	}
	if err := push(a, ofA); err != nil {
		return nil, err
	}
	if err := push(b, ofB); err != nil {
		return nil, err
	}
	for slices.ContainsFunc(next, func(c *object.Commit) bool { return painted[c.Hash]&stale == 0 }) {
		c := heap.Pop(&next).(*object.Commit)
		p := painted[c.Hash]
		if p == ofA|ofB {
			found[c.Hash] = c
			p |= stale
		}
		for _, parent := range c.ParentHashes {
			if err := push(parent, p); err != nil {
				return nil, err
			}
		}
	}
	var bases []*object.Commit
	for id, c := range found {
		if painted[id]&stale == 0 {
			bases = append(bases, c)
		}
	}
	return bases, nil
}

// queue is a heap of commits, the newest on top.
type queue []*object.Commit

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return when(q[i]).After(when(q[j])) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(c any)        { *q = append(*q, c.(*object.Commit)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func when(c *object.Commit) time.Time { return c.Committer.When }
