package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/assay-ci/assay/internal/run"
	"github.com/assay-ci/assay/internal/suite"
)

// A project is a suite and the folder that its paths may not leave: the repository that holds it, or else the folder
// above the suite's.
type project struct {
	root string // host path
	fsys fs.FS  // of root; links that leave it are refused
	file string // slash path of suite.yaml below root
}

// openProject finds the suite that a command's argument names: a folder with a suite.yaml, or the file itself.
func openProject(arg string) (*project, error) {
	name, err := filepath.Abs(arg)
	if err != nil {
		return nil, usage(err)
	}
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage(fmt.Errorf("there is no suite at %s; name a folder that holds a suite.yaml, or make one with assay init", arg))
	}
	if err != nil {
		return nil, usage(err)
	}
	if info.IsDir() {
		name = filepath.Join(name, "suite.yaml")
	}
	top := repositoryOf(filepath.Dir(name))
	rel, err := filepath.Rel(top, name)
	if err != nil {
		return nil, usage(err)
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, usage(err)
	}
	return &project{root: top, fsys: root.FS(), file: filepath.ToSlash(rel)}, nil
}

// repositoryOf returns the nearest folder at or above dir that holds a .git, or the folder above dir.
func repositoryOf(dir string) string {
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			return d
		}
		if d == filepath.Dir(d) {
			return filepath.Dir(dir)
		}
	}
}

// load reads the suite, against a base. Faults print paths as the caller would write them.
func (p *project) load(base suite.Base) (*suite.Suite, error) {
	s, err := suite.LoadAgainst(p.fsys, base, p.file, run.Owned)
	return s, p.relate(err)
}

// relate makes faults print their paths as the caller would write them, and marks them as the caller's to mend.
func (p *project) relate(err error) error {
	var problems suite.Problems
	if !errors.As(err, &problems) {
		return err
	}
	return usage(p.relative(problems))
}

// relative rewrites the paths of problems from below the project's root to below the working directory.
func (p *project) relative(problems suite.Problems) suite.Problems {
	wd, err := os.Getwd()
	if err != nil {
		return problems
	}
	out := make(suite.Problems, len(problems))
	for i, q := range problems {
		if rel, err := filepath.Rel(wd, filepath.Join(p.root, filepath.FromSlash(q.Pos.File))); err == nil && q.Pos.File != "" {
			q.Pos.File = filepath.ToSlash(rel)
		}
		out[i] = q
	}
	return out
}
