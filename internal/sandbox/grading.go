package sandbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
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
	Hidden *Assets                // nil: none
}

// Grading makes a place in which graders run: the agent's tree byte for byte, without what it could use to speak for
// itself, and the hidden assets over it. Its environment is made over the source, before the agent's tree arrives.
//
// A .git and compiled Python are left out. Files that tools load without being asked (see autoloaded) are as they were
// before the agent, unless an entry of Files names them. Each such case is a finding.
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
	g := &grading{layer: newLayer(root, s.umasked), names: h.Files, hidden: h.Hidden}
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
	if err := g.layHidden(); err != nil {
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
	names   []string
	hidden  *Assets
	before  map[string]original // autoloaded files as they were
	intact  map[string]bool     // those that the agent left alone
	refused map[string]bool     // those of the agent that were not laid
	found   []Finding
	count   int
	bytes   int64
}

// original is a file as it was before the agent.
type original struct {
	File
	sum [sha256.Size]byte
}

// autoloaded are names of files, and of folders, that common tools load without being asked. An agent that writes one can
// make every test pass.
var autoloaded = []string{
	"conftest.py", "sitecustomize", "sitecustomize.py", "usercustomize", "usercustomize.py", "*.pth",
	"pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg",
	"jest.config.*", "vitest.config.*", "vitest.workspace.*",
	".npmrc", ".envrc", ".bashrc", ".bash_profile", ".profile",
}

// isAutoloaded says whether a file is one of the autoloaded, or in a folder that is.
func isAutoloaded(name string) bool {
	if strings.Contains("/"+name, "/node_modules/.bin/") {
		return true
	}
	for part := range strings.SplitSeq(name, "/") {
		for _, pattern := range autoloaded {
			if ok, _ := path.Match(pattern, part); ok {
				return true
			}
		}
	}
	return false
}

// isBytecode says whether a file is compiled Python. It may say that it must not be compared with its source, and then it
// is run in the place of it, hidden tests included.
func isBytecode(name string) bool {
	return strings.HasSuffix(name, ".pyc") || strings.HasSuffix(name, ".pyo")
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

// guarded says whether a file of the agent is laid only as it was before.
func (g *grading) guarded(name string) bool { return isAutoloaded(name) && !g.named(name) }

// remember keeps what may be needed of the tree before the agent.
func (g *grading) remember(before iter.Seq2[File, error]) error {
	g.before, g.intact, g.refused = map[string]original{}, map[string]bool{}, map[string]bool{}
	for f, err := range before {
		if err != nil {
			return err
		}
		if f.Mode.IsDir() || !g.guarded(f.Path) {
			continue
		}
		sum, err := sumOf(f)
		if err != nil {
			return err
		}
		g.before[f.Path] = original{f, sum}
	}
	return nil
}

// sumOf is the sha256 of a file's bytes, or of a link's target.
func sumOf(f File) (sum [sha256.Size]byte, err error) {
	if f.Mode&fs.ModeSymlink != 0 {
		return sha256.Sum256([]byte(f.Link)), nil
	}
	r, err := f.Open()
	if err != nil {
		return sum, err
	}
	defer r.Close()
	h := sha256.New()
	if n, err := io.Copy(h, io.LimitReader(r, maxBytes+1)); err != nil || n > maxBytes {
		return sum, errors.Join(err, fmt.Errorf("%s: %w", f.Path, ErrTooLarge))
	}
	h.Sum(sum[:0])
	return sum, nil
}

// same says whether the agent left a file as it was.
func (g *grading) same(f File) (bool, error) {
	was, ok := g.before[f.Path]
	if !ok || was.Mode.Type() != f.Mode.Type() || fileMode(was.Mode) != fileMode(f.Mode) {
		return false, nil
	}
	sum, err := sumOf(f)
	return sum == was.sum, err
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
			same, err := g.same(f)
			if err != nil {
				return err
			}
			if !same {
				g.refuse(f)
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

// refuse notes an autoloaded file that the agent made or changed.
func (g *grading) refuse(f File) {
	text := "made by the agent; left out of the grading place"
	if _, ok := g.before[f.Path]; ok {
		text = "changed by the agent; graded as it was before"
	}
	g.refused[f.Path] = true
	g.note(FoundAutoloaded, f.Path, text)
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
		if g.intact[name] || !g.guarded(name) {
			continue
		}
		if !g.refused[name] {
			g.note(FoundAutoloaded, name, "removed by the agent; graded as it was before")
		}
		if err := g.agentFile(was.File); err != nil {
			return err
		}
	}
	return nil
}

// layHidden lays the hidden assets over everything, so that nothing can overwrite them but a command of the graders.
func (g *grading) layHidden() error {
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
	return nil
}

func (g *grading) note(kind, name, text string) {
	g.found = append(g.found, Finding{Kind: kind, Path: name, Text: text})
}
