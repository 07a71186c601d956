package cli

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/assay-ci/assay/internal/diffscope"
)

// The bounds on what a person is shown; --json and --patch have all.
const (
	maxFaceItems = 20   // of a list below the table
	maxFaceLines = 500  // of the patch below the table
	maxFaceLine  = 1000 // bytes of such a line
	maxFaceName  = 200  // characters of a name in a list
)

// A face shows the size of a change to a person. Names and lines of the folders are written by strangers: all of them pass
// through diffscope.Visible.
type face struct {
	screen
	out *bufio.Writer
}

func newFace(s screen) *face { return &face{s, bufio.NewWriter(s.w)} }

// show prints the size of a change, and on a terminal the start of its patch.
func (f *face) show(s diffscope.Scope, p diffscope.Patch) error {
	f.scope(s)
	if f.isTerminal && !p.Empty() {
		f.line("")
		if err := f.patch(p, maxFaceLines); err != nil {
			return err
		}
	}
	return f.out.Flush()
}

func (f *face) line(format string, args ...any) {
	fmt.Fprintln(f.out, unobeyed(fmt.Sprintf(format, args...)))
}

// scope prints all but the patch: the rows, what else there is to say of the numbers, and the facts.
func (f *face) scope(s diffscope.Scope) {
	c := f.columnsFor(s)
	if s.NoChange {
		f.line("no change")
	} else {
		f.line("%s", f.paint(dim, c.header()))
		f.rows(c, s.Files, s.Counts, s.Approximate)
	}
	f.apart(c, "Outside the scope, existed before, and not in the totals:", &s.Outside)
	f.apart(c, "Ignored, and not in the totals:", s.Ignored)
	f.doubts(s)
	f.list("Renamed, and counted as a delete and a create:", renameItems(s.Renames))
	f.list("Skipped:", skipItems(s.Skipped))
	f.list("Findings:", findingItems(s.Findings))
	f.reference(s.Reference)
	f.facts(s)
}

// apart prints rows that are not part of the headline.
func (f *face) apart(c columns, title string, o *diffscope.Outside) {
	if o == nil || o.FilesTouched == 0 {
		return
	}
	f.title(title)
	f.rows(c, o.Files, o.Counts, o.Approximate)
}

func (f *face) title(text string) { f.line("\n%s", f.paint(bold, text)) }

// list prints the first items below a title, or nothing when there is none.
func (f *face) list(title string, items []string) {
	if len(items) == 0 {
		return
	}
	f.title(title)
	for _, item := range items[:min(len(items), maxFaceItems)] {
		f.line("  %s", item)
	}
	if more := len(items) - maxFaceItems; more > 0 {
		f.line("  and %d more; --json has all", more)
	}
}

// doubts says in words why the numbers are not exact.
func (f *face) doubts(s diffscope.Scope) {
	var tooMany, uncounted []string
	for _, list := range [][]diffscope.Row{s.Files, s.Outside.Files} {
		for _, r := range list {
			if r.Approximate {
				tooMany = append(tooMany, shownName(r.Path))
			}
			if r.Uncounted != "" {
				uncounted = append(uncounted, fmt.Sprintf("%s: %s", shownName(r.Path), uncountedReason(r.Uncounted)))
			}
		}
	}
	f.list("Approximate: too different to find the fewest lines in bounded time, so there may be fewer:", tooMany)
	f.list("Approximate: the lines of these files are not known, so the totals may be too low:", uncounted)
}

func uncountedReason(why string) string {
	switch why {
	case "too_large":
		return "larger than 64 MiB, or with too many lines"
	case "unreadable":
		return "it may not be read"
	}
	return diffscope.Visible(why, "")
}

// shownName is a name of the folders, for a list.
func shownName(name string) string { return middle(diffscope.Visible(name, ""), maxFaceName) }

func renameItems(renames []diffscope.Rename) []string {
	var items []string
	for _, r := range renames {
		items = append(items, fmt.Sprintf("%s → %s (%d %% the same)", shownName(r.From), shownName(r.To), percent(r.Similarity)))
	}
	return items
}

// percent is a share in whole percent, never rounded up: 100 means all.
func percent(share float64) int { return int(100*share + 1e-9) }

func skipItems(skipped []diffscope.Skip) []string {
	var items []string
	for _, s := range skipped {
		items = append(items, fmt.Sprintf("%s (%s)", shownName(s.Path), s.Why))
	}
	return items
}

func findingItems(findings []diffscope.Finding) []string {
	var items []string
	for _, n := range findings {
		items = append(items, fmt.Sprintf("%s: %s", shownName(n.Path), shownName(n.Text)))
	}
	return items
}

// reference sets the change against a known good one.
func (f *face) reference(e *diffscope.Excess) {
	if e == nil {
		return
	}
	size := fmt.Sprintf("%s more than the reference, which changes %s in %s; ratio %.2f",
		plural(e.ExcessLines, "line"), plural(e.LinesChanged, "line"), plural(e.FilesTouched, "file"), e.Ratio)
	items := []string{size}
	if e.FilePrecision != nil {
		items = append(items, fmt.Sprintf("%d %% of the files touched are touched by the reference", percent(*e.FilePrecision)))
	}
	items = append(items, fmt.Sprintf("%d %% of the files of the reference are touched", percent(e.FileRecall)))
	if e.Approximate {
		items = append(items, "one of the two sizes is a bound, and so are these numbers")
	}
	f.list("Against the reference:", items)
}

// facts prints those that say something.
func (f *face) facts(s diffscope.Scope) {
	if s.Facts == nil {
		return
	}
	f.list("What was changed:", append(kindItems(s.Facts.Buckets), churnItems(s)...))
	f.list("May make a test pass without a fix:", findingItems(s.Facts.Tampering))
	f.list("Dependencies:", dependencyItems(s.Facts.Dependencies))
	f.list("New executables and links, and large files:", shapeItems(s.Facts.Shape))
	f.list("Copied from a file that is still there:", renameItems(s.Facts.Copies))
}

// kindItems tells of the files in scope that are not plain code.
func kindItems(b diffscope.Buckets) []string {
	var items []string
	for _, k := range []struct {
		name string
		diffscope.Counts
	}{{"test", b.Test}, {"docs", b.Docs}, {"lockfile", b.Lockfile}, {"generated", b.Generated}, {"vendored", b.Vendored}} {
		if k.FilesTouched > 0 {
			items = append(items, fmt.Sprintf("%s: %s +%d −%d", k.name, plural(k.FilesTouched, "file"), k.LinesAdded, k.LinesRemoved))
		}
	}
	return items
}

// churnItems tells of the lines that may not matter.
func churnItems(s diffscope.Scope) []string {
	var items []string
	c := s.Facts.Churn
	if c.WhitespaceLines > 0 {
		items = append(items, fmt.Sprintf("%d of %s changed differ in blanks only", c.WhitespaceLines, plural(s.LinesChanged(), "line")))
	}
	if c.CommentLines > 0 {
		item := fmt.Sprintf("%d of %s changed hold comments only", c.CommentLines, plural(s.LinesChanged(), "line"))
		if c.UnlexedLines > 0 {
			item += fmt.Sprintf("; of %d it is not known", c.UnlexedLines)
		}
		items = append(items, item)
	}
	return items
}

func dependencyItems(d diffscope.Dependencies) []string {
	var items []string
	for _, list := range []struct {
		what string
		of   []diffscope.Dependency
	}{{"added", d.Added}, {"removed", d.Removed}} {
		for _, n := range list.of {
			name := strings.TrimSpace(shownName(n.Name) + " " + shownName(n.Version))
			items = append(items, fmt.Sprintf("%s %s (%s)", list.what, name, shownName(n.File)))
		}
	}
	for _, file := range d.Unread {
		items = append(items, fmt.Sprintf("%s changed and could not be understood", shownName(file)))
	}
	if d.LockfileLines > 0 {
		items = append(items, fmt.Sprintf("%s changed in lockfiles", plural(d.LockfileLines, "line")))
	}
	return items
}

func shapeItems(s diffscope.Shape) []string {
	var items []string
	for _, name := range s.NewExecutables {
		items = append(items, fmt.Sprintf("%s can be executed", shownName(name)))
	}
	for _, l := range s.NewLinks {
		item := fmt.Sprintf("%s is a link to %s", shownName(l.Path), shownName(l.Target))
		if l.Leaves {
			item += ", outside the folder"
		}
		items = append(items, item)
	}
	for _, l := range s.LargeFiles {
		items = append(items, fmt.Sprintf("%s has %.1f MiB", shownName(l.Path), float64(l.Bytes)/(1<<20)))
	}
	return items
}

// patch prints the patch for a person, at most limit lines of it; 0 means all.
func (f *face) patch(p diffscope.Patch, limit int) error {
	n := 0
	for l, err := range p.Lines() {
		if err != nil {
			return err
		}
		if n++; limit > 0 && n > limit {
			f.line("%s", f.paint(yellow, "The patch goes on; --patch prints all of it."))
			return nil
		}
		if limit > 0 && len(l.Text) > maxFaceLine {
			l.Text = l.Text[:maxFaceLine] + "…"
		}
		f.line("%s", f.paintLine(l))
	}
	return nil
}

func (f *face) paintLine(l diffscope.Line) string {
	line := diffscope.Visible(l.Text, "\t")
	switch l.Kind {
	case diffscope.HeaderLine:
		return f.paint(bold, line)
	case diffscope.HunkLine:
		return f.paint(yellow, line)
	case diffscope.AddedLine:
		return f.paint(green, line)
	case diffscope.RemovedLine:
		return f.paint(red, line)
	case diffscope.NoteLine:
		return f.paint(dim, line)
	}
	return line
}
