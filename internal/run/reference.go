package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/grade"
	"github.com/assay-ci/assay/internal/sandbox"
	"github.com/assay-ci/assay/internal/suite"
)

// maxReference is how large the patch of a reference may be, in bytes.
const maxReference = 64 << 20

// CheckReferences holds the reference of every case against the tree that its agents start from, where that is a folder
// of the suite as it is: nothing is fetched and no setup runs. The error is suite.Problems. Preflight does the same, and
// for repositories too.
func (k *Kit) CheckReferences(ctx context.Context) error {
	var faults []error
	for _, c := range k.suite.Cases {
		faults = append(faults, k.checkReference(ctx, k.cases[c.ID]))
	}
	if err := ctx.Err(); err != nil {
		return ErrInterrupted
	}
	if err := errors.Join(faults...); err != nil {
		return suite.Flatten(err)
	}
	return nil
}

// checkReference reads the reference of a case, and applies it where the tree that agents start from is known without
// any setup: no agent should run to find out that the suite is wrong.
func (k *Kit) checkReference(ctx context.Context, t *task) error {
	if t.Reference == "" {
		return nil
	}
	if err := k.readReference(t); err != nil {
		return err
	}
	before, known, err := k.sourceTree(ctx, t)
	if err != nil || !known {
		return err
	}
	_, err = t.references(before, true)
	return err
}

func (k *Kit) readReference(t *task) error {
	f, err := k.fsys.Open(t.Reference)
	if err != nil {
		return err
	}
	defer f.Close()
	patch, err := io.ReadAll(io.LimitReader(f, maxReference+1))
	if err == nil && len(patch) > maxReference {
		err = fmt.Errorf("it has more than %d MiB", maxReference>>20)
	}
	if err != nil {
		return t.badReference(0, err)
	}
	t.patch = patch
	return nil
}

// Unmatched warns of the entries of files that match nothing in the repository of their case, once the preflight has
// fetched it. Those of a folder are found when the suite is loaded.
func (k *Kit) Unmatched(ctx context.Context) (suite.Problems, error) {
	var warnings suite.Problems
	for _, c := range k.suite.Cases {
		if c.Source.Repo == nil || len(c.Files) == 0 {
			continue
		}
		before, known, err := k.sourceTree(ctx, k.cases[c.ID])
		if err != nil {
			return nil, err
		}
		if !known {
			continue
		}
		for i, glob := range c.Files {
			hit, err := before.Covers(glob)
			if err != nil {
				return nil, err
			}
			if !hit {
				warnings = append(warnings, suite.Problem{Pos: c.FilesAt[i], Level: suite.LevelWarning,
					Msg: fmt.Sprintf("files: %q matches nothing in the source", glob)})
			}
		}
	}
	return warnings, nil
}

// sourceTree is the tree that agents start from when neither setup nor environment nor the files of every condition
// change it. It is not known either when it lies in a repository that was not fetched, or that no place can be made of: the
// cells say why. No cell may run yet.
func (k *Kit) sourceTree(ctx context.Context, t *task) (tree diffscope.Tree, known bool, err error) {
	isBare := func(c suite.Condition) bool { return !c.Spare && len(c.Files) == 0 }
	if len(t.Setup) > 0 || t.env != nil || !slices.ContainsFunc(k.suite.Conditions, isBare) {
		return diffscope.Tree{}, false, nil
	}
	if t.Source.Repo == nil && t.Source.Isolation != "worktree" {
		tree, err = diffscope.Snapshot(ctx, filepath.Join(k.sandbox.Suite, filepath.FromSlash(t.Source.Path)))
		if err != nil {
			err = fmt.Errorf("source of case %s: %w", t.ID, err)
		}
		return tree, err == nil, err
	}
	if t.before != nil {
		return *t.before, true, nil
	}
	if t.source == nil {
		return diffscope.Tree{}, false, nil
	}
	p, err := k.sandbox.Open(ctx, t.source, sandbox.Needs{})
	if err != nil {
		return diffscope.Tree{}, false, nil
	}
	tree, err = t.firstTree(ctx, p.Work, t.Source.Repo != nil)
	return tree, err == nil, errors.Join(err, p.Close(context.WithoutCancel(ctx)))
}

// references measures the reference of the case, if it has one, on a tree that an agent starts from. One measurement
// serves every cell that shares its tree with others. The error is a suite.Problem when the reference does not fit.
func (t *task) references(before diffscope.Tree, shared bool) ([]diffscope.Scope, error) {
	if t.Reference == "" {
		return nil, nil
	}
	if !shared {
		return t.measureReference(before)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	if t.measured == nil {
		t.measured, err = t.measureReference(before)
	}
	return t.measured, err
}

func (t *task) measureReference(before diffscope.Tree) ([]diffscope.Scope, error) {
	found, err := diffscope.References(before, diffscope.Paths{Files: t.Files, Ignore: t.Ignore}, t.patch)
	var bad *diffscope.PatchError
	if errors.As(err, &bad) {
		err = t.badReference(bad.Line, bad.Err)
	}
	return found, err
}

// badReference is the fault of a reference, in a line of its patch; 0 is the patch as a whole.
func (t *task) badReference(line int, err error) error {
	at := suite.Pos{File: t.Reference, Line: line}
	if line > 0 {
		at.Col = 1
	}
	return suite.Problem{Pos: at, Level: suite.LevelFault, Msg: fmt.Sprintf("reference of case %s: %v", t.ID, err),
		Hint: "it must apply to the tree that agents start from, and change something that files covers"}
}

// needsReference finds the settings of a grader that its case has no reference for.
func (t *task) needsReference(g grader) error {
	r, ok := g.Grader.(grade.Referential)
	if !ok || t.Reference != "" {
		return nil
	}
	var faults []error
	for _, key := range r.NeedsReference() {
		faults = append(faults, g.Block.Fault(key, fmt.Sprintf("%s needs the case's reference: case %s names none", key, t.ID),
			"name a patch that solves the case under reference:, or leave the limit out"))
	}
	return errors.Join(faults...)
}
