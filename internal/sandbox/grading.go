package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/suite"
	"github.com/bmatcuk/doublestar/v4"
)

// Assets are what only graders may see: the hidden folder of a case, or a folder of its fixtures repository.
type Assets struct {
	Digest   string    // sha256 of the list of files, as hex
	Findings []Finding // what came up when they were resolved

	what string
	tree *tree
}

// Assets finds the hidden assets of a case; nil when it has none. Errors are those of [Sandbox.Resolve].
func (s *Sandbox) Assets(ctx context.Context, c suite.Case) (*Assets, error) {
	switch {
	case c.Fixtures != nil && c.Hidden != "":
		return nil, fault(c.At, "", "a case has hidden or fixtures, not both")
	case c.Fixtures != nil:
		src, err := s.repoSource(ctx, *c.Fixtures)
		if err != nil {
			return nil, err
		}
		return &Assets{Digest: src.Digest, Findings: src.Findings, what: "fixtures " + c.Fixtures.URL, tree: src.work}, nil
	case c.Hidden != "":
		t, err := s.folder(s.Suite, c.Hidden, sourceRules)
		if err == nil && t.single {
			err = &badTree{"is a file; a folder is wanted"}
		}
		if err != nil {
			return nil, atPlace(c.At, "hidden", c.Hidden, err)
		}
		return &Assets{Digest: t.digest(), what: "hidden " + c.Hidden, tree: t}, nil
	}
	return nil, nil
}

// Verify reads the assets once more and compares. Call it before and after their use: what changed in between was not what
// the case was checked with. The error is an *Error of class grader.
func (a *Assets) Verify() error {
	if a == nil {
		return nil
	}
	root, err := os.OpenRoot(a.tree.dir)
	if err != nil {
		return wrap("grader", a.what, err)
	}
	defer root.Close()
	now, err := readTree(root, sourceRules, nil)
	if err == nil && now.digest() != a.Digest {
		err = errChanged
	}
	return wrap("grader", a.what, err)
}

// A Handover is what a grading place is made from.
type Handover struct {
	Tree   iter.Seq2[File, error] // what the agent left behind, folders before what they hold
	Before iter.Seq2[File, error] // the tree when the agent began; nil: the source's
	Files  []string               // the files of the case that the agent is asked to change, as globs
	Config []string               // paths of files with other uses too, in which the agent changed how tests are run
	Hidden *Assets                // nil: none
	Canary string                 // what one more file among the hidden assets holds, under a name nobody can guess; empty: there is none
}

// Grading makes a place in which graders run: the agent's tree byte for byte, without what it could use to speak for
// itself, and the hidden assets over it. Its environment is made over the source, before the agent's tree arrives.
//
// A .git and compiled Python are left out. Files that tools load without being asked (see autoloaded), and those of Config,
// are as they were before the agent, unless an entry of Files names them; of a package.json, the parts that tell how tests
// are run are. So are the packages that were installed before, while those that the agent added are there. A Python module
// at the top of the tree that the agent made, and that would be imported in the place of one of Python's own, is left out.
// Each such case is a finding.
//
// The error is an *Error of class sandbox, environment or grader; it wraps ErrTooLarge when the agent's tree is too large.
func (s *Sandbox) Grading(ctx context.Context, src *Source, h Handover, n Needs) (*Place, []Finding, error) {
	if err := h.Hidden.Verify(); err != nil {
		return nil, nil, err
	}
	if err := s.lookAround(ctx, &n); err != nil {
		return nil, nil, err
	}
	var found []Finding
	p, err := s.somewhere(ctx, n, func(p *Place) (err error) {
		found, err = s.gradingTree(ctx, p, src, h, n)
		return wrap("sandbox", "grading place", err)
	})
	if err != nil {
		return nil, nil, err
	}
	p.Findings = append(p.Findings, found...)
	return p, p.Findings, nil
}

func (s *Sandbox) gradingTree(ctx context.Context, p *Place, src *Source, h Handover, n Needs) ([]Finding, error) {
	if !n.Environment.empty() {
		if err := s.furnishOverSource(ctx, p, src, n); err != nil {
			return nil, err
		}
	}
	before := h.Before
	if before == nil {
		before = src.work.files()
	}
	root, err := os.OpenRoot(p.Work)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	g := &grading{layer: newLayer(root, s.umasked), names: h.Files, config: h.Config, hidden: h.Hidden}
	g.replaced = func(name string) { g.note(FoundInTheWay, name, "removed for a file that was there before") }
	if err := g.remember(before); err != nil {
		return nil, err
	}
	if err := g.layAgent(ctx, h.Tree); err != nil {
		return nil, err
	}
	if err := g.reset(); err != nil {
		return nil, err
	}
	if err := g.layHidden(h.Canary); err != nil {
		return nil, wrap("grader", h.Hidden.what, err)
	}
	return g.found, nil
}

// furnishOverSource runs an environment's commands where they ran for the agent, on the source's tree, so that nothing the
// agent wrote has a say in them. What they left in the work folder is part of the agent's tree already.
func (s *Sandbox) furnishOverSource(ctx context.Context, p *Place, src *Source, n Needs) error {
	if n.Environment.cached() {
		return s.furnish(ctx, p, src, n)
	}
	if err := s.layOut(ctx, p, &Source{what: src.what, work: src.work, git: src.git, again: src.again}); err != nil {
		return err
	}
	if err := s.furnish(ctx, p, src, n); err != nil {
		return err
	}
	return p.clearWork()
}

// grading fills the work folder of one grading place.
type grading struct {
	*layer
	names     []string
	config    []string
	hidden    *Assets
	before    map[string]File // guarded files as they were
	manifests map[string]bool // each package.json that was there
	packages  map[string]bool // those that were installed
	tops      map[string]bool // what was at the top of the tree
	intact    map[string]bool // guarded files that are laid as they may be
	refused   map[string]bool // those of the agent that were not laid
	told      map[string]bool // findings, so that each is told once
	found     []Finding
	count     int
	bytes     int64
}

// named says whether the case asks for this very file. A glob over a whole folder does not: src/** is about the code.
func (g *grading) named(name string) bool {
	for _, pattern := range g.names {
		last := path.Base(pattern)
		exact := !strings.ContainsAny(last, "*?[{")
		for _, own := range autoloaded {
			exact = exact || last == own
		}
		if ok, _ := doublestar.Match(pattern, name); ok && exact {
			return true
		}
	}
	return false
}

// guarded says whether a file of the agent is laid only as it was before, or not at all when it was not there.
func (g *grading) guarded(name string) bool {
	if g.named(name) {
		return false
	}
	if pkg, ok := installed(name); ok && g.packages[pkg] {
		return true
	}
	top, _, _ := strings.Cut(name, "/")
	return isAutoloaded(name) || g.manifests[name] || slices.Contains(g.config, name) || isShadow(name) && !g.tops[top]
}

// remember keeps what may be needed of the tree before the agent.
func (g *grading) remember(before iter.Seq2[File, error]) error {
	g.before, g.intact, g.refused, g.told = map[string]File{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	g.manifests, g.packages, g.tops = map[string]bool{}, map[string]bool{}, map[string]bool{}
	for f, err := range before {
		if err != nil {
			return err
		}
		top, _, _ := strings.Cut(f.Path, "/")
		g.tops[top] = true
		if f.Mode.IsDir() {
			continue
		}
		if pkg, ok := installed(f.Path); ok {
			g.packages[pkg] = true
		} else if path.Base(f.Path) == "package.json" {
			g.manifests[f.Path] = true
		}
		if g.guarded(f.Path) {
			g.before[f.Path] = f
		}
	}
	return nil
}

// same says whether the agent left a file as it was.
func (g *grading) same(f File) (bool, error) {
	was, ok := g.before[f.Path]
	switch {
	case !ok || was.Mode.Type() != f.Mode.Type():
		return false, nil
	case f.Mode&fs.ModeSymlink != 0:
		return was.Link == f.Link, nil
	case fileMode(was.Mode) != fileMode(f.Mode):
		return false, nil
	}
	return sameBytes(was, f)
}

// sameBytes compares two files. It reads no further than the shorter one goes.
func sameBytes(a, b File) (bool, error) {
	x, err := a.Open()
	if err != nil {
		return false, err
	}
	defer x.Close()
	y, err := b.Open()
	if err != nil {
		return false, err
	}
	defer y.Close()
	var one, two [32 << 10]byte
	for {
		n, errX := io.ReadFull(x, one[:])
		m, errY := io.ReadFull(y, two[:])
		if err := errors.Join(unlessEnd(errX), unlessEnd(errY)); err != nil || !bytes.Equal(one[:n], two[:m]) {
			return false, err
		}
		if errX != nil {
			return true, nil
		}
	}
}

func unlessEnd(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}

// layAgent lays what the agent left behind.
func (g *grading) layAgent(ctx context.Context, tree iter.Seq2[File, error]) error {
	dropped := map[string]bool{}
	drop := func(kind, name string) {
		if !dropped[name] {
			dropped[name] = true
			g.note(kind, name, "left out of the grading place")
		}
	}
	for f, err := range tree {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && !inTree(f.Path) {
			err = fmt.Errorf("%q is not a path in a tree", f.Path)
		}
		if err != nil {
			return err
		}
		if at, ok := gitIn(f.Path); ok {
			drop(FoundGit, at)
			continue
		}
		if isBytecode(f.Path) {
			drop(FoundBytecode, path.Dir(f.Path)+"/")
			continue
		}
		if !f.Mode.IsDir() && g.guarded(f.Path) {
			if f, err = g.asBefore(f); err != nil {
				return err
			}
			if f.Path == "" {
				continue
			}
			g.intact[f.Path] = true
		}
		if err := g.agentFile(f); err != nil {
			return err
		}
	}
	return nil
}

// asBefore returns what may be laid of a guarded file: the file when the agent left it alone, a package.json with its parts
// put back, or nothing, an empty File.
func (g *grading) asBefore(f File) (File, error) {
	same, err := g.same(f)
	switch {
	case err != nil || same:
		return f, err
	case g.manifests[f.Path] && f.Mode.IsRegular() && g.before[f.Path].Mode.IsRegular():
		merged, changed, err := mergeFiles(g.before[f.Path], f)
		if err == nil && !changed {
			return f, nil
		}
		if err == nil {
			g.tell(FoundAutoloaded, f.Path, "changed by the agent; graded with the parts that tell how tests are run as they were before")
			f.Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(merged)), nil }
			return f, nil
		}
	}
	g.refuse(f)
	return File{}, nil
}

// maxManifest is how large a package.json may be, in bytes, for its parts to be told apart.
const maxManifest = 4 << 20

func mergeFiles(before, after File) (merged []byte, changed bool, err error) {
	was, err := readFile(before)
	if err != nil {
		return nil, false, err
	}
	now, err := readFile(after)
	if err != nil {
		return nil, false, err
	}
	return mergeRunners(was, now)
}

func readFile(f File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err == nil && len(data) > maxManifest {
		err = ErrTooLarge
	}
	return data, errors.Join(err, r.Close())
}

// refuse notes a guarded file that the agent made or changed.
func (g *grading) refuse(f File) {
	g.refused[f.Path] = true
	if _, ok := g.before[f.Path]; ok {
		g.noteGuarded(f.Path, "changed by the agent; graded as it was before")
	} else {
		g.noteGuarded(f.Path, "made by the agent; left out of the grading place")
	}
}

// noteGuarded notes what became of a guarded file. Of a package that was installed, it is told once.
func (g *grading) noteGuarded(name, text string) {
	kind := FoundAutoloaded
	if pkg, ok := installed(name); ok && !isAutoloaded(name) {
		_, pkg, _ = strings.Cut(pkg[1:], "/")
		kind, name = FoundDependency, name[:strings.LastIndex(name, pkg)+len(pkg)]
		text = "an installed package that the agent changed; graded as it was before"
	} else if isShadow(name) {
		kind = FoundShadow
	}
	g.tell(kind, name, text)
}

// tell notes a finding once.
func (g *grading) tell(kind, name, text string) {
	if key := kind + " " + name; !g.told[key] {
		g.told[key] = true
		g.note(kind, name, text)
	}
}

// agentFile lays one entry, with the modes that a place knows.
func (g *grading) agentFile(f File) error {
	if g.count++; g.count > maxEntries {
		return ErrTooLarge
	}
	if f.Mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 && !f.Mode.IsDir() {
		g.note(FoundSetuid, f.Path, "laid without it")
	}
	switch f.Mode.Type() {
	case fs.ModeDir:
		return g.folder(f.Path)
	case fs.ModeSymlink:
		return g.link(f.Path, f.Link)
	case 0:
		return g.file(f.Path, fileMode(f.Mode), func(to *os.File) error { return g.copyAgent(to, f) })
	}
	g.note(FoundUnknownEntry, f.Path, kindOf(f.Mode))
	return nil
}

func (g *grading) copyAgent(to *os.File, f File) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	n, err := io.Copy(to, io.LimitReader(r, maxBytes-g.bytes+1))
	if g.bytes += n; err == nil && g.bytes > maxBytes {
		err = ErrTooLarge
	}
	return err
}

// reset lays the autoloaded files that were there before the agent and are not as they were.
func (g *grading) reset() error {
	for _, name := range sortedKeys(g.before) {
		was := g.before[name]
		if g.intact[name] {
			continue
		}
		if !g.refused[name] {
			g.noteGuarded(name, "removed by the agent; graded as it was before")
		}
		if err := g.agentFile(was); err != nil {
			return err
		}
	}
	return nil
}

// layHidden lays the hidden assets over everything, so that nothing can overwrite them but a command of the graders.
func (g *grading) layHidden(canary string) error {
	if g.hidden == nil {
		return nil
	}
	g.replaced = func(name string) {
		g.note(FoundOverwritten, name, "what stood there was removed")
	}
	t := g.hidden.tree
	for i := range t.entries {
		e := &t.entries[i]
		mode := e.mode &^ 0o222 // read-only to whoever grades
		if err := g.entry(t, e, e.path, mode); err != nil {
			return err
		}
	}
	if canary == "" {
		return nil
	}
	return g.file(".assay-"+rand.Text(), 0o444, func(to *os.File) error {
		_, err := to.WriteString(canary + "\n")
		return err
	})
}

func (g *grading) note(kind, name, text string) {
	g.found = append(g.found, Finding{Kind: kind, Path: name, Text: text})
}
