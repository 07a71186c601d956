package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
)

// Layouts of a place: how its tree came to be there. What is in it is the same, byte for byte.
const (
	Copied = "copy"
	Shown  = "overlay"
)

// A tree of fewer files and bytes is copied as fast as it is shown.
const (
	showFiles = 500
	showBytes = 16 << 20
)

// A stage is a tree that was laid out once in a scratch folder, and that overlay mounts show in any number of places. What
// an agent writes goes to a folder of its own. Nobody may write to the stage itself, and as whoever runs as our user could,
// its files are looked at before each use and after it: their inodes and the times of their last change, which no program
// can set back.
type stage struct {
	tree *tree
	dir  string // of the stage; tree is below it
}

type stages struct {
	mu      sync.Mutex
	made    map[stageKey]*stage
	probed  map[string]bool // by scratch folder: whether overlays can be mounted there
	refused map[stageKey]bool
}

type stageKey struct {
	base string
	work *tree
}

// shows tells whether a tree is to be shown in places of a scratch folder, and not copied into them.
func (s *Sandbox) shows(base string, t *tree) bool {
	if !s.Overlay || t == nil || len(t.entries) < showFiles && t.size() < showBytes {
		return false
	}
	s.stages.mu.Lock()
	defer s.stages.mu.Unlock()
	can, known := s.stages.probed[base]
	if !known {
		can = canOverlay(base)
		s.stages.probed[base] = can
	}
	return can
}

// show lets an empty place show the tree of a source, if that is how it is to have it. Whatever goes wrong, the tree can
// still be copied.
func (s *Sandbox) show(ctx context.Context, base string, p *Place, src *Source) {
	if src == nil || src.work == nil || !s.shows(base, src.work) {
		return
	}
	st, err := s.stage(ctx, base, p, src)
	if err == nil && p.mount(base, p.Work, st.tree) == nil {
		p.Layout = Shown
	}
}

// stage returns the stage of a source in a scratch folder. One that was changed is left where it is, with a finding, and
// another is made.
func (s *Sandbox) stage(ctx context.Context, base string, p *Place, src *Source) (*stage, error) {
	key := stageKey{base, src.work}
	defer s.cache.lock(fmt.Sprintf("stage %s %p", base, src.work))()
	s.stages.mu.Lock()
	st, refused := s.stages.made[key], s.stages.refused[key]
	s.stages.mu.Unlock()
	if refused {
		return nil, errChanged
	}
	if st != nil {
		err := st.tree.unchanged()
		if err == nil {
			return st, nil
		}
		p.Findings = append(p.Findings, Finding{Kind: FoundBadCache, Path: st.dir, Text: "the tree that places show: " + err.Error()})
	}
	st, err := s.newStage(ctx, base, src)
	s.stages.mu.Lock()
	defer s.stages.mu.Unlock()
	if err != nil {
		s.stages.refused[key] = ctx.Err() == nil
		return nil, err
	}
	s.stages.made[key] = st
	return st, nil
}

// newStage lays out the tree of a source, and its .git, and reads it back.
func (s *Sandbox) newStage(ctx context.Context, base string, src *Source) (_ *stage, err error) {
	dir, err := os.MkdirTemp(base, "stage")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, RemoveAll(dir))
		}
	}()
	at := filepath.Join(dir, "tree")
	if err := os.Mkdir(at, 0o755); err != nil {
		return nil, err
	}
	if err := s.layTrees(ctx, at, src); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(at)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	t, err := readTree(root, foreignRules, nil)
	if err != nil {
		return nil, err
	}
	return &stage{tree: t, dir: dir}, t.isThatOf(src)
}

// isThatOf tells whether a tree that was laid out holds what its source does.
func (t *tree) isThatOf(src *Source) error {
	want := map[string]entry{}
	for _, e := range src.work.entries {
		want[e.path] = e
	}
	if src.git != nil {
		want[".git"] = entry{mode: fs.ModeDir | 0o755}
		for _, e := range src.git.entries {
			want[path.Join(".git", e.path)] = e
		}
	}
	for _, e := range t.entries {
		w, ok := want[e.path]
		if !ok || w.mode != e.mode || w.link != e.link || w.sum != e.sum {
			return fmt.Errorf("%s: %w", e.path, errChanged)
		}
	}
	if len(want) != len(t.entries) {
		return fmt.Errorf("%d of %d entries: %w", len(t.entries), len(want), errChanged)
	}
	return nil
}

// unchanged tells whether the files of a tree on the disk are still those that were read.
func (t *tree) unchanged() error {
	same := func(name string, was stamp) error {
		info, err := os.Lstat(filepath.Join(t.dir, name))
		if err != nil || stampOf(info) != was {
			return fmt.Errorf("%s: %w", name, errChanged)
		}
		return nil
	}
	if err := same(".", t.stamp); err != nil {
		return err
	}
	return t.each(func(e *entry, _ *scratch) error { return same(e.path, e.stamp) })
}

// A stamp tells whether a file was touched: its inode, and when it was last changed in any way, in nanoseconds.
type stamp struct {
	inode   uint64
	changed int64
}

// A shown is an overlay mount of a place.
type shown struct {
	at    string // where it is mounted
	upper string // holds what is written there
	tree  *tree  // what it shows
}

// mount shows a tree at a folder of the place.
func (p *Place) mount(base, at string, t *tree) error {
	upper, err := os.MkdirTemp(base, "upper")
	if err != nil {
		return err
	}
	if err := mountOverlay(t.dir, upper, at); err != nil {
		return errors.Join(err, RemoveAll(upper))
	}
	p.shown = append(p.shown, shown{at, upper, t})
	return nil
}

// unmount ends all that the place shows. The error says what could not be ended, or that what was shown had been changed,
// so that nobody knows what the agent saw.
func (p *Place) unmount() error {
	var errs []error
	for _, m := range p.shown {
		errs = append(errs, unmountOverlay(m.at), RemoveAll(m.upper), m.tree.unchanged())
	}
	p.shown = nil
	return errors.Join(errs...)
}

// overlayable tells whether a path can stand in the options of a mount.
func overlayable(dir string) bool { return !strings.ContainsAny(dir, `,:\"`) }
