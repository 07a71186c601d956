package diffscope

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

const (
	maxText  = 64 << 20 // bytes of a file whose lines are counted
	maxLines = 8 << 20  // lines of both sides of a file whose lines are counted
	sniffed  = 8000     // bytes that are searched for a NUL, as git does
)

// The values of Row.Status.
const (
	added       = "added"
	modified    = "modified"
	deleted     = "deleted"
	typeChanged = "type_changed"
)

// Compare measures what became of before. The patch holds every change, the scope sorts them into what counts and what does
// not. The error is for a glob that is none, or for kept content that cannot be read back.
func Compare(before, after Tree, scope Paths) (Patch, Scope, error) {
	files, err := globs(scope.Files)
	if err != nil {
		return Patch{}, Scope{}, err
	}
	ignore, err := globs(scope.Ignore)
	if err != nil {
		return Patch{}, Scope{}, err
	}
	changes, findings := pair(before, after)
	s := Scope{Algorithm: Algorithm, Files: []Row{}, Skipped: []Skip{}, Renames: []Rename{}, Outside: Outside{Files: []Row{}}}
	if len(scope.Ignore) > 0 {
		s.Ignored = &Outside{Files: []Row{}}
	}
	headline := Outside{Files: s.Files}
	for i := range changes {
		c := &changes[i]
		if err := c.measure(); err != nil {
			return Patch{}, Scope{}, fmt.Errorf("compare %s: %w", printable(c.path), err)
		}
		created := c.old == nil
		switch {
		case created && ignore.cover(c.path):
			c.where = ignored
			s.Ignored.add(c.row)
		case created || len(files) == 0 || files.cover(c.path):
			c.where = inScope
			headline.add(c.row)
		default:
			c.where = outside
			s.Outside.add(c.row)
		}
	}
	s.Counts, s.Files, s.Approximate = headline.Counts, headline.Files, headline.Approximate
	s.NoChange = s.FilesTouched == 0 && s.Outside.FilesTouched == 0
	s.Skipped = append(s.Skipped, after.skipped...)
	s.Findings = sortFindings(append(findings, compareGit(before, after)...), after.hardLinks, before.hardLinks)
	s.Renames, err = renames(changes)
	return Patch{changes}, s, err
}

// add counts a row.
func (o *Outside) add(r Row) {
	o.Counts.add(r)
	o.Approximate = o.Approximate || r.Approximate || r.Uncounted != ""
	o.Files = append(o.Files, r)
}

// patterns are checked globs. One that ends up without wildcards covers itself and all below.
type patterns []string

func globs(list []string) (patterns, error) {
	var p patterns
	for _, glob := range list {
		if glob == "" || !doublestar.ValidatePattern(glob) {
			return nil, fmt.Errorf("%q is not a glob", glob)
		}
		p = append(p, path.Clean(glob))
	}
	return p, nil
}

func (p patterns) cover(name string) bool {
	for _, glob := range p {
		if strings.ContainsAny(glob, `*?[{\`) {
			if doublestar.MatchUnvalidated(glob, name) {
				return true
			}
		} else if glob == "." || name == glob || strings.HasPrefix(name, glob) && name[len(glob)] == '/' {
			return true
		}
	}
	return false
}

// Covers tells whether a glob of [Paths] covers a path of the tree. The error is for a glob that is none.
func (t Tree) Covers(glob string) (bool, error) {
	p, err := globs([]string{glob})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(t.entries, func(e entry) bool { return p.cover(e.path) }), nil
}

// A change is one path that differs between two trees.
type change struct {
	path     string
	old, new *entry // nil: the path is not in that tree
	hidden   bool   // the side that is nil may have the path, in a folder that could not be read
	edits    []edit // of text under one type
	row      Row
	where    where
}

// A where says which list of the scope a change is in.
type where string

const (
	inScope where = "in scope"
	outside where = "outside"
	ignored where = "ignored"
)

// pair finds the paths that differ.
func pair(before, after Tree) (changes []change, findings []Finding) {
	a, b := before.entries, after.entries
	closedBefore, closedAfter := closedFolders(a), closedFolders(b)
	for len(a) > 0 || len(b) > 0 {
		var c change
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].path < b[0].path:
			c = change{path: a[0].path, old: &a[0]}
			c.hidden = isBelow(c.path, closedAfter)
		case len(a) == 0 || b[0].path < a[0].path:
			c = change{path: b[0].path, new: &b[0]}
			c.hidden = isBelow(c.path, closedBefore)
		default:
			c = change{path: a[0].path, old: &a[0], new: &b[0]}
		}
		if c.old != nil {
			a = a[1:]
		}
		if c.new != nil {
			b = b[1:]
		}
		if c.old == nil || c.new == nil {
			changes = append(changes, c)
		} else if same, known := c.old.unchanged(c.new); !same {
			changes = append(changes, c)
		} else if !known {
			findings = append(findings, Finding{"unread", printable(c.path), "its content was not read in either tree: " + c.new.why})
		}
	}
	return changes, findings
}

// closedFolders lists the folders that could not be read, sorted.
func closedFolders(entries []entry) []string {
	var closed []string
	for i := range entries {
		if entries[i].mode == filemode.Dir {
			closed = append(closed, entries[i].path)
		}
	}
	return closed
}

// isBelow tells whether a path lies below one of the folders, which are sorted.
func isBelow(name string, folders []string) bool {
	if len(folders) == 0 {
		return false
	}
	for i := range len(name) {
		if name[i] == '/' && contains(folders, name[:i]) {
			return true
		}
	}
	return false
}

// measure fills the row, and the edits that its numbers come from.
func (c *change) measure() error {
	r := &c.row
	r.Path = printable(c.path)
	if !utf8.ValidString(c.path) {
		r.PathBase64 = base64.StdEncoding.EncodeToString([]byte(c.path))
	}
	switch {
	case c.hidden:
		r.Status = modified
	case c.old == nil:
		r.Status = added
	case c.new == nil:
		r.Status = deleted
	case c.retyped():
		r.Status = typeChanged
	default:
		r.Status = modified
		r.ModeChanged = c.old.mode != c.new.mode
	}
	if r.Uncounted = c.uncounted(); r.Uncounted != "" {
		return nil
	}
	for _, e := range []*entry{c.old, c.new} {
		binary, err := e.isBinary()
		if err != nil {
			return err
		}
		r.Binary = r.Binary || binary
	}
	if r.Binary {
		c.fill(Counts{})
		return nil
	}
	old, err := c.old.load()
	if err != nil {
		return err
	}
	new, err := c.new.load()
	if err != nil {
		return err
	}
	c.count(old, new)
	return nil
}

// fill writes the numbers of lines and hunks to the row.
func (c *change) fill(n Counts) {
	c.row.LinesAdded, c.row.LinesRemoved, c.row.Hunks = &n.LinesAdded, &n.LinesRemoved, &n.Hunks
}

// retyped tells whether a file became a link, or the other way round.
func (c *change) retyped() bool {
	return c.old != nil && c.new != nil && c.old.mode != c.new.mode && !(c.old.isFile() && c.new.isFile())
}

func (e *entry) isFile() bool { return e.mode == filemode.Regular || e.mode == filemode.Executable }

// uncounted says why the lines cannot be counted, or nothing.
func (c *change) uncounted() string {
	if c.hidden {
		return unreadable
	}
	for _, e := range []*entry{c.old, c.new} {
		switch {
		case e == nil:
		case e.blob == nil:
			return e.why
		case e.size > maxText:
			return tooLarge
		}
	}
	return ""
}

// load returns the content of an entry; a path that does not exist has none.
func (e *entry) load() (string, error) {
	if e == nil {
		return "", nil
	}
	return e.blob.load()
}

func (e *entry) isBinary() (bool, error) {
	if e == nil {
		return false, nil
	}
	start, err := e.blob.start(sniffed)
	return strings.IndexByte(start, 0) >= 0, err
}

// count finds the edits between the two contents, which are text, and fills the row from them.
func (c *change) count(old, new string) {
	removed, added := countLines(old), countLines(new)
	switch {
	case c.retyped():
		c.fill(Counts{LinesAdded: added, LinesRemoved: removed, Hunks: min(removed, 1) + min(added, 1)})
		return
	case old == new: // only the mode changed
	case old == "" || new == "":
		c.edits = []edit{{0, removed, 0, added}}
	case removed+added > maxLines:
		c.row.Uncounted = tooLarge
		return
	default:
		edits, exact := diffLines(splitLines(old), splitLines(new), exactSteps)
		c.edits, c.row.Approximate = edits, !exact
	}
	var n Counts
	for _, e := range c.edits {
		n.LinesRemoved += e.oldEnd - e.oldStart
		n.LinesAdded += e.newEnd - e.newStart
		n.Hunks++
	}
	c.fill(n)
}

// compareGit reports .git folders and files that came, went, or changed below the root. The one at the root is the agent's
// to use.
func compareGit(before, after Tree) []Finding {
	var findings []Finding
	for _, git := range after.gits {
		if !contains(before.gits, git) {
			findings = append(findings, Finding{"git_created", printable(git), "a .git was created; what is in it does not count"})
		} else if !slices.EqualFunc(within(before.nested, git), within(after.nested, git), equalEntries) {
			findings = append(findings, Finding{"git_changed", printable(git), "the .git of a nested repository changed; what is in it does not count"})
		}
	}
	for _, git := range before.gits {
		if !contains(after.gits, git) {
			findings = append(findings, Finding{"git_changed", printable(git), "a .git was removed; what is in it does not count"})
		}
	}
	return findings
}

func contains(sorted []string, s string) bool {
	_, found := slices.BinarySearch(sorted, s)
	return found
}

// within returns the entry at a path, or all entries below it.
func within(entries []entry, name string) []entry {
	if file := find(entries, name); file != nil {
		return []entry{*file}
	}
	start, end := below(entries, name+"/")
	return entries[start:end]
}

// below returns the range of the entries whose paths start with a prefix that ends in a slash.
func below(entries []entry, prefix string) (start, end int) {
	start = sort.Search(len(entries), func(i int) bool { return entries[i].path >= prefix })
	end = start + sort.Search(len(entries)-start, func(i int) bool { return !strings.HasPrefix(entries[start+i].path, prefix) })
	return start, end
}

func equalEntries(e, f entry) bool {
	same, _ := e.unchanged(&f)
	return e.path == f.path && same
}

// sortFindings adds the hard links that are new and sorts by path and kind.
func sortFindings(findings []Finding, links, known []string) []Finding {
	for _, link := range links {
		if !contains(known, link) {
			findings = append(findings, Finding{"hard_link", printable(link), "the file has another name outside the tree"})
		}
	}
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Kind, b.Kind))
	})
	return append([]Finding{}, findings...)
}

// printable writes bytes that are not UTF-8 as \xNN.
func printable(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	var b strings.Builder
	for i, r := range name {
		if _, size := utf8.DecodeRuneInString(name[i:]); r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, `\x%02x`, name[i])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
