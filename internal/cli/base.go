package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/sandbox"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/spf13/cobra"
)

// baseFlag declares the revision that a change is measured against.
func baseFlag(cmd *cobra.Command, base *string) {
	cmd.Flags().StringVar(base, "base", "", "`revision` whose merge base with HEAD is what from: base reads (default: the default branch)")
}

// defaultBranches are the names under which the branch is looked for that a change will be merged into.
var defaultBranches = []string{"origin/HEAD", "origin/main", "origin/master", "main", "master"}

// A baseRevision is what a work tree is measured against. Nothing of the repository is read before something asks for it.
type baseRevision struct {
	repo string // its top folder
	rev  string // a branch, a tag or a full commit id; empty: the first of defaultBranches that there is
	sha  string // full id of the merge base, once it was asked for

	files fs.FS
}

// of is the base as the loader of a suite takes it.
func (b *baseRevision) of(o workOptions) suite.Base {
	base := suite.Base{Open: b.open, Paired: o.Paired, Spare: o.Spare}
	if o.Untrusted {
		base.Rules = b.tip
	}
	return base
}

// open returns the files of the merge base of HEAD and the revision.
func (b *baseRevision) open() (fs.FS, error) {
	sha, err := b.mergeBase()
	if err != nil {
		return nil, err
	}
	b.files, b.sha, err = sandbox.OpenRevision(b.repo, sha)
	return b.files, err
}

// tip returns the files of the revision itself. Rules are taken from there: whoever makes a change chooses how old the
// commit is that it starts from. It must have been named: what a clone takes for its default branch may be a stranger's.
func (b *baseRevision) tip() (fs.FS, error) {
	if b.rev == "" {
		return nil, errors.New("name the branch that rules with --base")
	}
	files, _, err := sandbox.OpenRevision(b.repo, b.rev)
	return files, b.flagged(err)
}

// mergeBase finds where the history of HEAD leaves that of the revision.
func (b *baseRevision) mergeBase() (sha string, err error) {
	if b.rev != "" {
		sha, err := sandbox.MergeBase(b.repo, "HEAD", b.rev)
		return sha, b.flagged(err)
	}
	for _, name := range defaultBranches {
		sha, err := sandbox.MergeBase(b.repo, "HEAD", name)
		if !errors.Is(err, sandbox.ErrNoRevision) {
			return sha, err
		}
	}
	return "", fmt.Errorf("this clone has none of the branches %s; fetch one of them, or name the base with --base", strings.Join(defaultBranches, ", "))
}

// flagged says which flag a name came from that does not exist.
func (b *baseRevision) flagged(err error) error {
	if errors.Is(err, sandbox.ErrNoRevision) {
		return fmt.Errorf("--base %w", err)
	}
	return err
}

// copyOut writes what conditions read from the base below a folder, and returns where. It is empty when they read nothing.
func (b *baseRevision) copyOut(s *suite.Suite, scratch string) (dir string, err error) {
	var names []string
	for _, c := range s.Conditions {
		if c.From != "base" {
			continue
		}
		names = append(names, c.Skills...)
		names = slices.AppendSeq(names, maps.Values(c.Files))
		if c.Instructions != "" {
			names = append(names, c.Instructions)
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	dir = filepath.Join(scratch, "base")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	return dir, sandbox.CopyOut(b.files, names, dir)
}

// withTwins makes a selection of conditions one of their twins too: neither can be compared without the other.
func withTwins(sel plan.Selection, s *suite.Suite) plan.Selection {
	chosen := sel.Conditions
	for _, c := range s.Conditions {
		if c.TwinOf != "" && !c.Spare && slices.ContainsFunc(chosen, func(pattern string) bool {
			ok, _ := path.Match(pattern, c.TwinOf)
			return ok || pattern == c.TwinOf
		}) {
			sel.Conditions = append(slices.Clip(sel.Conditions), c.ID)
		}
	}
	return sel
}
