package suite

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// The limits of a folder that a suite names.
const (
	maxEntries = 200_000
	maxTree    = 1 << 30 // bytes
	maxLinks   = 40      // followed for one path
	maxFaults  = 20      // reported of one folder
)

// files reads what a suite names. Every path goes through find, so no link leads out of fsys, and nothing but regular
// files is ever opened: a FIFO would wait for a writer.
type files struct {
	fsys       fs.FS
	trees      map[string]tree // by path, so that a folder which several settings name is read once
	buf        []byte          // for hashing
	where      string          // ends what is said of a file; empty for the work tree
	absentHint string          // what to try when a file is not there
}

func newFiles(fsys fs.FS) files {
	return files{fsys: fsys, trees: map[string]tree{}, buf: make([]byte, 64<<10)}
}

// A tree is the content of a file or a folder. A nil slice of entries is a tree that was not read.
type tree struct {
	entries []entry // sorted by path
	faults  []error // of entries that cannot be used, at most maxFaults
}

// An entry is one file or link. Modes are reduced to what a commit keeps.
type entry struct {
	path string // below the tree; "." when the tree is a file
	kind entryKind
	sum  string // raw sha256 of a file, target of a link
}

type entryKind string

const (
	plainFile  entryKind = "file"
	executable entryKind = "executable"
	symlink    entryKind = "link"
)

var (
	errOutside = errors.New("leads out of the tree through a link")
	errLinks   = errors.New("goes through too many links")
)

// find follows name step by step and returns its path without links, and what is there.
func (f *files) find(name string) (real string, info fs.FileInfo, err error) {
	if !fs.ValidPath(name) {
		return "", nil, errors.New("leads out of the tree")
	}
	return f.follow(".", name)
}

// follow is find below the folder root, which no link may leave; root itself holds no link.
func (f *files) follow(root, name string) (real string, info fs.FileInfo, err error) {
	real = "."
	steps := strings.Split(name, "/")
	for links := 0; len(steps) > 0; {
		step := steps[0]
		steps = steps[1:]
		switch {
		case step == "" || step == ".":
			continue
		case step == ".." && real == ".":
			return "", nil, errOutside
		case step == "..":
			real = path.Dir(real)
			continue
		}
		next := path.Join(real, step)
		info, err = fs.Lstat(f.fsys, path.Join(root, next))
		if err != nil {
			return "", nil, plain(err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if len(steps) > 0 && !info.IsDir() {
				return "", nil, fs.ErrNotExist
			}
			real = next
			continue
		}
		if links++; links > maxLinks {
			return "", nil, errLinks
		}
		target, err := fs.ReadLink(f.fsys, path.Join(root, next))
		if err != nil {
			return "", nil, plain(err)
		}
		if path.IsAbs(target) || strings.Contains(target, `\`) {
			return "", nil, errOutside
		}
		steps = append(strings.Split(target, "/"), steps...)
	}
	real = path.Join(root, real)
	info, err = fs.Lstat(f.fsys, real)
	return real, info, plain(err)
}

// plain drops the operation and the path from an error: the problem says the path, in the words of the suite.
func plain(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fs.ErrNotExist
	}
	return err
}

// read returns a regular file of at most limit bytes, and one byte more of a longer one.
func (f *files) read(name string, limit int64) ([]byte, error) {
	real, info, err := f.find(name)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a regular file")
	}
	if err != nil {
		return nil, err
	}
	file, err := f.fsys.Open(real)
	if err != nil {
		return nil, plain(err)
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit+1))
}

// similar proposes a name that stands beside the path real, which does not exist and was written as written.
func (f *files) similar(real, written string) string {
	siblings, err := fs.ReadDir(f.fsys, path.Dir(real))
	if err != nil || len(siblings) > 1000 {
		return ""
	}
	var names []string
	for _, s := range siblings {
		names = append(names, s.Name())
	}
	if best := nearest(path.Base(real), names); best != "" {
		return "did you mean " + path.Join(path.Dir(written), best) + "?"
	}
	return ""
}

// tree reads the file or folder at a path without links.
func (f *files) tree(real string) tree {
	t, ok := f.trees[real]
	if !ok {
		t = f.walk(real, nil)
		f.trees[real] = t
	}
	return t
}

// walk lists root and hashes its files. Paths of skip are left out, and so is every .git: an agent never gets it.
func (f *files) walk(root string, skip []string) tree {
	t := tree{entries: []entry{}}
	var bytes int64
	err := fs.WalkDir(f.fsys, root, func(name string, at fs.DirEntry, err error) error {
		rel := name
		if root != "." {
			rel = strings.TrimPrefix(strings.TrimPrefix(name, root), "/")
		}
		switch {
		case err != nil:
			return fmt.Errorf("%q: %w", name, plain(err))
		case slices.Contains(skip, name), at.Name() == ".git" && name != root:
			if at.IsDir() {
				return fs.SkipDir
			}
			return nil
		case at.IsDir():
			return nil
		case len(t.entries) == maxEntries:
			return fmt.Errorf("%q holds more than %d files", root, maxEntries)
		}
		e, size, err := f.entry(root, orElse(rel, "."), at)
		if err != nil {
			if t.faults = append(t.faults, err); len(t.faults) == maxFaults {
				return fs.SkipAll
			}
			return nil
		}
		if bytes += size; bytes > maxTree {
			return fmt.Errorf("%q holds more than %d bytes", root, maxTree)
		}
		t.entries = append(t.entries, e)
		return nil
	})
	if err != nil {
		t.faults = append(t.faults, err)
	}
	slices.SortFunc(t.entries, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return t
}

// entry reads one file or link of a tree.
func (f *files) entry(root, rel string, at fs.DirEntry) (e entry, size int64, err error) {
	name := path.Join(root, rel)
	info, err := at.Info()
	if err != nil {
		return e, 0, fmt.Errorf("%q: %w", name, plain(err))
	}
	e = entry{path: rel, kind: plainFile}
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		e.kind = symlink
		if e.sum, err = fs.ReadLink(f.fsys, name); err == nil {
			_, _, err = f.follow(root, rel)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("is a link to nothing")
		}
	case !mode.IsRegular():
		err = errors.New("is neither a file, a folder nor a link")
	case mode&0o111 != 0:
		e.kind = executable
		e.sum, size, err = f.hash(name)
	default:
		e.sum, size, err = f.hash(name)
	}
	if err != nil {
		return e, 0, fmt.Errorf("%q %w", name, plain(err))
	}
	return e, size, nil
}

func (f *files) hash(name string) (sum string, size int64, err error) {
	file, err := f.fsys.Open(name)
	if err != nil {
		return "", 0, err
	}
	defer file.Close()
	h := sha256.New()
	size, err = io.CopyBuffer(h, io.LimitReader(file, maxTree+1), f.buf)
	return string(h.Sum(nil)), size, err
}

// below tells whether p is dir or lies in it.
func below(p, dir string) bool {
	return p == dir || dir == "." || strings.HasPrefix(p, dir+"/")
}

// caseFiles finds the case.yaml of every case below dir, sorted. A folder whose name begins with a dot, the folders of
// a case and those of another suite hold no cases of ours. A name that looks like a slip is a problem: a case that is
// not found would be missed by nobody.
func (f *files) caseFiles(dir string) (names []string, problems Problems) {
	slip := func(name, msg, hint string) {
		problems = append(problems, Problem{Pos: Pos{File: name}, Level: LevelFault, Msg: msg, Hint: hint})
	}
	seen := 0
	var look func(folder string)
	look = func(folder string) {
		entries, err := fs.ReadDir(f.fsys, folder)
		if err != nil {
			slip(folder, "the folder cannot be read: "+plain(err).Error(), "")
			return
		}
		if seen += len(entries); seen > maxEntries {
			return
		}
		has := func(name string) bool {
			return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name && !e.IsDir() })
		}
		switch {
		case folder == dir && has(caseName):
			slip(path.Join(folder, caseName), "a case cannot lie beside suite.yaml", "give it a folder of its own")
		case folder != dir && has(caseName):
			names = append(names, path.Join(folder, caseName))
			return
		case folder != dir && has(suiteName):
			return
		case has("case.yml"):
			slip(path.Join(folder, "case.yml"), "the file of a case is named case.yaml", "rename it")
			return
		}
		for _, e := range entries {
			if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
				look(path.Join(folder, e.Name()))
			}
		}
	}
	look(dir)
	if seen > maxEntries {
		slip(dir, fmt.Sprintf("more than %d files beside the cases", maxEntries), "keep the suite in a folder of its own")
	}
	slices.Sort(names)
	return names, problems
}
