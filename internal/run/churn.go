package run

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
)

// The bounds on the work for one trace. Behind any of them only the calls are counted: lines and paths are not known.
const (
	maxChanges = 10_000      // changes of one file each
	maxHeld    = 64 << 20    // bytes of files as the trace leaves them
	maxWork    = 256 << 20   // bytes of texts that are gone through, or what takes as long: about half a second
	maxSteps   = 200_000_000 // diagonals of all comparisons: about half a second
	maxPath    = 4096        // bytes; a longer path cannot be opened

	perLine = 64  // what takes as long as to go through a line, in bytes of its text
	perName = 256 // and through a name in a list
)

// churn reads from the trace what the agent wrote on its way, and sets it against what the final tree shows.
func (l *life) churn(ctx context.Context) error {
	if l.res.DiffScope == nil {
		return nil
	}
	r := newReplay(l.before.FS(), l.after.FS(), l.request.Work)
	calls := map[string]trace.Tool{} // that wait for their result
	for e, err := range l.readTrace() {
		var line *trace.LineError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &line):
			r.gap = true
		case err != nil:
			return &fault{trace.ClassUnmeasured, err}
		case e.Kind == trace.KindToolCall && e.Tool != nil && e.Tool.ID != "":
			calls[e.Tool.ID] = *e.Tool
		case e.Kind == trace.KindToolResult && e.Tool != nil:
			if call, known := calls[e.Tool.ID]; known && e.Tool.Status == trace.StatusOK {
				r.play(trace.Edits(call, *e.Tool))
			}
			delete(calls, e.Tool.ID)
		default:
			r.gap = r.gap || isGap(e)
		}
	}
	l.res.TraceChurn = r.churn(l.res.DiffScope)
	return nil
}

// isGap tells whether an event says that others are missing. They may have been edits, so what is left is no sum.
func isGap(e trace.Event) bool {
	text := e.Text
	switch {
	case e.Kind == trace.KindError && e.Err != nil && e.Err.Class == trace.ClassWarning:
		text = e.Err.Detail
	case e.Kind != trace.KindOther:
		return false
	}
	return strings.HasPrefix(text, "truncated: ") || strings.HasSuffix(text, "was left out") ||
		strings.HasPrefix(text, "the agent's own trace ")
}

// A replay plays the edits of a trace over the tree before, to see how many lines each of them changed.
type replay struct {
	before, after fs.FS
	roots         []string // the work folder, by every name that it has

	edits   int
	lines   int                // added and removed by all edits so far
	touched map[string]bool    // the paths that were edited
	now     map[string]*string // what edited files hold: empty for one that is gone, nil when it is not known
	unsaid  bool               // an edit does not say what it changed
	gap     bool               // events are missing
	over    bool               // a bound was passed

	changes, held, work, steps int
}

func newReplay(before, after fs.FS, work string) *replay {
	return &replay{
		before: before, after: after, roots: []string{path.Clean(work), resolved(work)},
		touched: map[string]bool{}, now: map[string]*string{}, steps: maxSteps,
	}
}

// resolved is the name of a folder without links. The folder itself may be gone; what is above it is still there.
func resolved(dir string) string {
	for up, rest := filepath.Clean(dir), ""; ; up, rest = filepath.Dir(up), filepath.Join(filepath.Base(up), rest) {
		if real, err := filepath.EvalSymlinks(up); err == nil {
			return filepath.Join(real, rest)
		}
		if up == filepath.Dir(up) {
			return filepath.Clean(dir)
		}
	}
}

// charge books work that grows with what an agent wrote.
func (r *replay) charge(bytes int) {
	r.work += bytes
	r.over = r.over || r.work > maxWork
}

// play plays what one call did. A call that did nothing in the tree does not count.
func (r *replay) play(edits []trace.Edit) {
	inTree := false
	for _, e := range edits {
		inTree = r.edit(e) || inTree
	}
	if inTree {
		r.edits++
	}
}

// edit plays one edit, and tells whether it is one in the tree.
func (r *replay) edit(e trace.Edit) bool {
	if e.Path == "" {
		r.unsaid = true
		return true
	}
	name, ok := r.within(e.Path)
	to, okTo := r.within(e.To)
	switch {
	case e.Op == trace.EditMove && okTo && !ok:
		r.vague(to)
		return true
	case !ok:
		return false
	case r.over:
	case r.linked(name):
		r.unsaid = true // what it changed has another path, which we do not follow
	case e.Op == trace.EditWrite:
		r.put(name, &e.New)
	case e.Op == trace.EditReplace:
		r.replace(name, e)
	case e.Op == trace.EditDelete || e.Op == trace.EditMove && !okTo:
		for _, file := range r.files(name) {
			r.put(file, new(string))
		}
	case e.Op == trace.EditMove && !r.linked(to):
		r.move(name, to)
	default:
		r.vague(name)
	}
	return true
}

// within turns a path as the agent wrote it into one of the tree. ok is false for one that is not in the tree: outside the
// work folder, the folder itself, or in a .git.
func (r *replay) within(name string) (string, bool) {
	if name == "" || len(name) > maxPath {
		return "", false
	}
	name = path.Clean(name)
	if path.IsAbs(name) {
		for _, root := range r.roots {
			if rest, ok := strings.CutPrefix(name, root+"/"); ok {
				name = rest
				break
			}
		}
	}
	return name, fs.ValidPath(name) && name != "." && !strings.Contains("/"+name+"/", "/.git/")
}

// linked tells whether a path is a link, or below one, before or after.
func (r *replay) linked(name string) bool {
	r.charge(len(name) * (1 + strings.Count(name, "/")))
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '/' {
			continue
		}
		there := false
		for _, tree := range []fs.FS{r.before, r.after} {
			info, err := fs.Lstat(tree, name[:i])
			if err == nil && info.Mode().Type() == fs.ModeSymlink {
				return true
			}
			there = there || err == nil
		}
		if !there {
			return false
		}
	}
	return false
}

// vague is a change of a path that nobody described.
func (r *replay) vague(name string) {
	r.unsaid = true
	r.put(name, nil)
}

// put gives a file a new content and counts what that changes; nil is a content that is not known.
func (r *replay) put(name string, content *string) {
	if r.changes++; r.changes > maxChanges {
		r.over = true
	}
	if r.over {
		return
	}
	old := r.content(name)
	r.touched[name] = true
	switch {
	case content == nil: // whoever does not know it has counted already, or said that it cannot be
	case old == nil:
		r.unsaid = true
	default:
		r.count(*old, *content)
	}
	r.keep(name, content)
}

// keep remembers what a file holds now.
func (r *replay) keep(name string, content *string) {
	if old := r.now[name]; old != nil {
		r.held -= len(*old)
	}
	if content != nil {
		r.held += len(*content)
	}
	r.now[name] = content
	r.over = r.over || r.held > maxHeld
}

// content returns what a file holds at this point of the trace, or nil when that is not known.
func (r *replay) content(name string) *string {
	if content, edited := r.now[name]; edited {
		return content
	}
	info, err := fs.Stat(r.before, name)
	if errors.Is(err, fs.ErrNotExist) {
		return new(string)
	}
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	if info.Size() > int64(maxHeld-r.held) {
		r.over = true
		return nil
	}
	data, err := fs.ReadFile(r.before, name)
	if err != nil {
		return nil
	}
	text := string(data)
	r.keep(name, &text)
	return &text
}

// replace plays a replacement. When the file does not hold the text as the trace has it so far, a command or a formatter
// was there in between; then the two texts alone say how many lines changed, and the file is not known any more.
func (r *replay) replace(name string, e trace.Edit) {
	if r.over {
		return
	}
	if old := r.content(name); old != nil && e.Old != "" {
		r.charge(len(*old))
		n := strings.Count(*old, e.Old)
		r.charge(perLine * n)
		if size := len(*old) + n*(len(e.New)-len(e.Old)); size > maxHeld {
			r.over = true
			return
		}
		if n == 1 || n > 1 && e.All {
			after := strings.ReplaceAll(*old, e.Old, e.New)
			r.put(name, &after)
			return
		}
	}
	if e.All {
		r.vague(name) // in how many places is not said
		return
	}
	r.put(name, nil)
	if e.Old != "" && !strings.HasSuffix(e.Old, "\n") && !strings.HasSuffix(e.New, "\n") {
		e.Old, e.New = e.Old+"\n", e.New+"\n" // both end in the middle of a line, and most likely of the same one
	}
	r.count(e.Old, e.New)
}

// move plays the move of a file, or of all files of a folder. To move into a folder that exists puts it there.
func (r *replay) move(from, to string) {
	if len(r.below(to)) > 0 {
		to = path.Join(to, path.Base(from))
	}
	for _, file := range r.files(from) {
		content := r.content(file)
		r.put(file, new(string))
		if content == nil {
			r.vague(to + file[len(from):])
		} else {
			r.put(to+file[len(from):], content)
		}
	}
}

// files lists the path itself, or what is below it when it is a folder.
func (r *replay) files(name string) []string {
	if below := r.below(name); len(below) > 0 {
		return below
	}
	return []string{name}
}

// below lists the files in a folder at this point of the trace, as far as a bound allows; a file has none.
func (r *replay) below(name string) []string {
	info, err := fs.Stat(r.before, name)
	_, edited := r.now[name]
	if err == nil && !info.IsDir() && !edited || r.exists(name) {
		return nil
	}
	var below []string
	r.charge(perName * len(r.now))
	for file := range r.now {
		if strings.HasPrefix(file, name+"/") && r.exists(file) {
			below = append(below, file)
		}
	}
	_ = fs.WalkDir(r.before, name, func(file string, d fs.DirEntry, err error) error {
		if r.charge(perName); r.over || len(below) > maxChanges {
			r.over = true
			return fs.SkipAll
		}
		if _, edited := r.now[file]; err == nil && !edited && !d.IsDir() {
			below = append(below, file)
		}
		return nil // a name that is not in the tree before has nothing in it to walk
	})
	slices.Sort(below)
	return below
}

// exists tells whether an edited file has something in it, as far as is known.
func (r *replay) exists(name string) bool {
	content, edited := r.now[name]
	return edited && (content == nil || *content != "")
}

// count adds the lines between two texts to the sum.
func (r *replay) count(old, new string) {
	if r.charge(len(old) + len(new) + perLine*(strings.Count(old, "\n")+strings.Count(new, "\n"))); r.over {
		return
	}
	n, left, ok := diffscope.LinesChanged(old, new, r.steps)
	r.lines, r.steps, r.over = r.lines+n, left, !ok
}

// churn is what the trace shows beyond the final tree, or nil when it shows no edits.
func (r *replay) churn(scope *diffscope.Scope) *result.TraceChurn {
	if r.edits == 0 {
		return nil
	}
	c := &result.TraceChurn{Edits: r.edits}
	if r.over || r.gap {
		return c
	}
	final, known := 0, true
	rows := rowsByPath(scope)
	c.PathsUndone = []string{}
	for _, name := range slices.Sorted(maps.Keys(r.touched)) {
		row, changed := rows[name]
		switch {
		case strings.ContainsRune(name, '\uFFFD'):
			known = false // a name in the trace is repaired when it is not UTF-8: which path it was is not known
		case !changed:
			c.PathsUndone = append(c.PathsUndone, name)
		case row.Uncounted != "" || row.Approximate:
			known = false
		default:
			final += *row.LinesAdded + *row.LinesRemoved
		}
	}
	if !r.unsaid {
		c.LinesWritten = &r.lines
		if lost := max(0, r.lines-final); known {
			c.LinesLost = &lost
		}
	}
	return c
}

// rowsByPath are all rows of a change, in scope or not. A path that is not UTF-8 cannot stand in a trace.
func rowsByPath(s *diffscope.Scope) map[string]diffscope.Row {
	rows := map[string]diffscope.Row{}
	add := func(list []diffscope.Row) {
		for _, row := range list {
			if row.PathBase64 == "" {
				rows[row.Path] = row
			}
		}
	}
	add(s.Files)
	add(s.Outside.Files)
	if s.Ignored != nil {
		add(s.Ignored.Files)
	}
	return rows
}
