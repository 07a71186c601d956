package grade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/result"
)

type filesParams struct {
	Present []string          `yaml:"present" doc:"RE2s; each must match in at least one text file" rule:"regex"`
	Absent  []string          `yaml:"absent" doc:"RE2s; none may match in any text file" rule:"regex"`
	In      []string          `yaml:"in" doc:"globs of the files that present and absent look into; default: all" rule:"glob"`
	Exist   []string          `yaml:"exist" doc:"paths of files or folders that must be there" rule:"path"`
	Missing []string          `yaml:"missing" doc:"paths that must not be there" rule:"path"`
	Equal   map[string]string `yaml:"equal" doc:"path in the tree: file of the case's folder with the same bytes" rule:"path"`
}

const (
	maxFile   = 64 << 20 // bytes of a file that is read
	textProbe = 8000     // a NUL in the first bytes makes a file binary, as git has it
)

// files grades what lies in the agent's frozen tree. A link is never followed and never earns credit; a file that cannot
// be read proves nothing, so no absence can be shown beside it.
type files struct {
	present, absent []*regexp.Regexp
	in              []string
	exist, missing  []string
	equal           map[string]string
	fault           func(key, msg, hint string) error
}

var (
	_ Grader  = (*files)(nil)
	_ Checker = (*files)(nil)
)

func buildFiles(s Settings) (Grader, error) {
	var p filesParams
	if err := s.Decode(&p); err != nil {
		return nil, err
	}
	f := &files{in: p.In, exist: cleanPaths(p.Exist), missing: cleanPaths(p.Missing), equal: map[string]string{}, fault: s.Fault}
	var faults []error
	compile := func(key string, sources []string) (list []*regexp.Regexp) {
		for i, source := range sources {
			re, err := regexp.Compile(source)
			if err != nil {
				faults = append(faults, s.Fault(fmt.Sprintf("%s[%d]", key, i), err.Error(), ""))
			}
			list = append(list, re)
		}
		return list
	}
	f.present, f.absent = compile("present", p.Present), compile("absent", p.Absent)
	for _, inTree := range slices.Sorted(maps.Keys(p.Equal)) {
		if !fs.ValidPath(inTree) || inTree == "." {
			faults = append(faults, s.Fault("equal."+inTree, fmt.Sprintf("%q is not a path in the tree", inTree), "slash separated, relative, without . and .."))
		}
		f.equal[inTree] = path.Clean(p.Equal[inTree])
	}
	switch {
	case len(p.Present)+len(p.Absent)+len(p.Exist)+len(p.Missing)+len(p.Equal) == 0:
		faults = append(faults, s.Fault("", "nothing is asserted", "name at least one of present, absent, exist, missing and equal"))
	case len(p.In) > 0 && len(p.Present)+len(p.Absent) == 0:
		faults = append(faults, s.Fault("in", "in only restricts present and absent, and neither is there", ""))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return f, nil
}

func cleanPaths(paths []string) []string {
	clean := make([]string, len(paths))
	for i, p := range paths {
		clean[i] = path.Clean(p)
	}
	return clean
}

// Check finds the files of equal that the case does not have.
func (f *files) Check(caseDir fs.FS) error {
	var faults []error
	for _, inTree := range slices.Sorted(maps.Keys(f.equal)) {
		if _, err := readWhole(caseDir, f.equal[inTree]); err != nil {
			faults = append(faults, f.fault("equal."+inTree, err.Error(), "paths are relative to the folder of the case"))
		}
	}
	return errors.Join(faults...)
}

// text is what the assertion says.
func (f *files) text() string {
	var parts []string
	add := func(word string, list []string) {
		if len(list) > 0 {
			parts = append(parts, word+" "+strings.Join(list, ", "))
		}
	}
	add("present", slashed(f.present))
	add("absent", slashed(f.absent))
	add("in", f.in)
	add("exist", f.exist)
	add("missing", f.missing)
	add("equal", slices.Sorted(maps.Keys(f.equal)))
	return strings.Join(parts, "; ")
}

func slashed(list []*regexp.Regexp) []string {
	texts := make([]string, len(list))
	for i, re := range list {
		texts[i] = "/" + re.String() + "/"
	}
	return texts
}

func (f *files) Grade(ctx context.Context, e Evidence) (result.Score, error) {
	var v verdict
	err := f.judge(ctx, e, &v)
	return score(f.text(), v.passed(), v.evidence(), err)
}

func (f *files) judge(ctx context.Context, e Evidence, v *verdict) error {
	if len(f.present)+len(f.absent) > 0 {
		if err := f.search(ctx, e.Tree, v); err != nil {
			return err
		}
	}
	for _, name := range f.exist {
		_, state, err := look(e.Tree, name)
		if err != nil {
			return err
		}
		v.add(state == isThere, "%s %s", show(name), state)
	}
	for _, name := range f.missing {
		_, state, err := look(e.Tree, name)
		if err != nil {
			return err
		}
		v.add(state == isNotThere, "%s %s", show(name), state)
	}
	for _, name := range slices.Sorted(maps.Keys(f.equal)) {
		if err := f.compare(e, name, v); err != nil {
			return err
		}
	}
	return nil
}

// search looks for all expressions in one walk over the tree.
func (f *files) search(ctx context.Context, tree fs.FS, v *verdict) error {
	all := slices.Concat(f.present, f.absent)
	s := search{tree: tree, in: f.in, expressions: all, where: make([]string, len(all))}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return s.visit(name, d, err)
	})
	if err != nil {
		return fmt.Errorf("search the tree: %w", err)
	}
	for i, re := range all {
		wanted := i < len(f.present)
		if s.where[i] != "" {
			v.add(wanted, "/%s/ is in %s", re, s.where[i])
		} else {
			v.add(!wanted && len(s.unread) == 0, "/%s/ is nowhere (text files searched: %d, binary files left out: %d)", re, s.texts, s.binaries)
		}
	}
	if len(s.unread) > 0 {
		v.note("could not be read: %s", showAll(s.unread, len(s.unread)))
	}
	return nil
}

// A search is one walk over the tree and what it found.
type search struct {
	tree        fs.FS
	in          []string
	expressions []*regexp.Regexp
	where       []string // file and line of each expression's first match; empty: none
	texts       int
	binaries    int
	unread      []string
}

func (s *search) visit(name string, d fs.DirEntry, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission): // a folder that cannot be listed
		s.unread = append(s.unread, name)
		return nil
	case err != nil:
		return err
	case !d.Type().IsRegular(), len(s.in) > 0 && !covers(s.in, name):
		return nil
	}
	content, err := readWhole(s.tree, name)
	switch {
	case errors.Is(err, errNoContent):
		s.unread = append(s.unread, name)
	case err != nil:
		return err
	case bytes.IndexByte(content[:min(len(content), textProbe)], 0) >= 0:
		s.binaries++
	default:
		s.texts++
		s.match(name, content)
	}
	return nil
}

func (s *search) match(name string, content []byte) {
	for i, re := range s.expressions {
		if s.where[i] != "" {
			continue
		}
		if at := re.FindIndex(content); at != nil {
			s.where[i] = fmt.Sprintf("%s:%d", show(name), 1+bytes.Count(content[:at[0]], []byte("\n")))
		}
	}
}

// What look finds at a path.
const (
	isThere    = "is there"
	isNotThere = "is not there"
	isLink     = "is a link, or lies below one"
	isUnread   = "cannot be read, or lies below a folder that cannot"
)

// look tells what is at a path of the tree without following a link on the way. The info is nil unless something is there.
func look(tree fs.FS, name string) (info fs.FileInfo, state string, err error) {
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		info, err = fs.Lstat(tree, name[:i])
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, isNotThere, nil
		case errors.Is(err, fs.ErrPermission):
			return nil, isUnread, nil
		case err != nil:
			return nil, "", err
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, isLink, nil
		case i < len(name) && !info.IsDir():
			return nil, isNotThere, nil
		}
	}
	return info, isThere, nil
}

// compare tells whether a file of the tree has the bytes of its model.
func (f *files) compare(e Evidence, name string, v *verdict) error {
	want, err := readWhole(e.CaseDir, f.equal[name])
	if err != nil {
		return fmt.Errorf("the case's file: %w", err)
	}
	info, state, err := look(e.Tree, name)
	switch {
	case err != nil:
		return err
	case info == nil:
		v.add(false, "%s %s", show(name), state)
		return nil
	case !info.Mode().IsRegular():
		v.add(false, "%s is not a file", show(name))
		return nil
	case info.Size() != int64(len(want)):
		v.add(false, "%s has %d bytes, %s of the case has %d", show(name), info.Size(), f.equal[name], len(want))
		return nil
	}
	got, err := readWhole(e.Tree, name)
	switch {
	case errors.Is(err, errNoContent):
		v.add(false, "%s %s", show(name), isUnread)
	case err != nil:
		return err
	case bytes.Equal(got, want):
		v.add(true, "%s equals %s of the case", show(name), f.equal[name])
	default:
		v.add(false, "%s differs from %s of the case", show(name), f.equal[name])
	}
	return nil
}

// errNoContent is the error of a file that is there and whose bytes nobody can have: too large, or unreadable already
// when the tree was frozen.
var errNoContent = errors.New("cannot be read")

// readWhole reads a regular file.
func readWhole(fsys fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(fsys, name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", name)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s is larger than %d MiB: %w", name, maxFile>>20, errNoContent)
	}
	file, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoContent, err)
	}
	defer file.Close()
	var content bytes.Buffer
	content.Grow(int(info.Size()) + bytes.MinRead)
	if _, err := content.ReadFrom(io.LimitReader(file, maxFile)); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return content.Bytes(), nil
}
