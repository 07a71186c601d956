package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A folder is files by path; a content that starts with "-> " is a link.
type folder map[string]string

func (f folder) lay(t testing.TB) string {
	dir := t.TempDir()
	for name, content := range f {
		file := filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if target, isLink := strings.CutPrefix(content, "-> "); err == nil && isLink {
			err = os.Symlink(target, file)
		} else if err == nil {
			err = os.WriteFile(file, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (f folder) tree(t testing.TB) diffscope.Tree {
	tree, err := diffscope.Snapshot(context.Background(), f.lay(t))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// replayed plays edits between two trees, each as a call of its own.
func replayed(t testing.TB, before, after diffscope.Tree, edits ...trace.Edit) *result.TraceChurn {
	_, scope, err := diffscope.Compare(before, after, diffscope.Paths{})
	if err != nil {
		t.Fatal(err)
	}
	r := newReplay(before.FS(), after.FS(), "/work")
	for _, e := range edits {
		r.play([]trace.Edit{e})
	}
	return r.churn(&scope)
}

func counted(edits, written, lost int, undone ...string) *result.TraceChurn {
	return &result.TraceChurn{Edits: edits, LinesWritten: &written, LinesLost: &lost, PathsUndone: append([]string{}, undone...)}
}

// uncounted is the churn of a trace that does not say how many lines were written.
func uncounted(edits int, undone ...string) *result.TraceChurn {
	return &result.TraceChurn{Edits: edits, PathsUndone: append([]string{}, undone...)}
}

func write(path, text string) trace.Edit {
	return trace.Edit{Op: trace.EditWrite, Path: path, New: text}
}
func remove(path string) trace.Edit   { return trace.Edit{Op: trace.EditDelete, Path: path} }
func move(from, to string) trace.Edit { return trace.Edit{Op: trace.EditMove, Path: from, To: to} }
func replace(path, old, new string) trace.Edit {
	return trace.Edit{Op: trace.EditReplace, Path: path, Old: old, New: new}
}

func everywhere(e trace.Edit) trace.Edit { e.All = true; return e }

func TestChurn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, after folder
		edits         []trace.Edit
		want          *result.TraceChurn
	}{
		"no edits": {folder{"a": "1\n"}, folder{"a": "2\n"}, nil, nil},
		"written, rewritten and deleted": {folder{}, folder{},
			[]trace.Edit{write("a", "1\n2\n"), write("a", "1\n3\n"), remove("a")}, counted(3, 2+2+2, 6, "a")},
		"one line back and forth": {folder{"a": "1\n2\n3\n"}, folder{"a": "1\n2\n3\n"},
			[]trace.Edit{replace("a", "2", "x"), replace("a", "x", "2")}, counted(2, 4, 4, "a")},
		"each line once": {folder{"a": "1\n2\n3\n"}, folder{"a": "x\n2\ny\n"},
			[]trace.Edit{replace("a", "1", "x"), replace("a", "3", "y")}, counted(2, 4, 0)},
		"lines added behind a part of a line": {folder{"a": "1\n2\n"}, folder{"a": "1\nx\ny\n2\n"},
			[]trace.Edit{replace("a", "1", "1\nx\ny")}, counted(1, 2, 0)},
		"a file that exists is written": {folder{"a": "1\n2\n"}, folder{"a": "1\n3\n"}, []trace.Edit{write("a", "1\n3\n")}, counted(1, 2, 0)},
		"everywhere": {folder{"a": "x\n1\nx\nx\n"}, folder{"a": "y\n1\ny\ny\n"},
			[]trace.Edit{everywhere(replace("a", "x", "y"))}, counted(1, 6, 0)},
		"a name of the work folder in front": {folder{"d/a": "1\n"}, folder{"d/a": "2\n"},
			[]trace.Edit{replace("/work/./d//a", "1", "2")}, counted(1, 2, 0)},
		"outside the tree": {folder{}, folder{},
			[]trace.Edit{write("/tmp/a", "1\n"), write("../a", "1\n"), write("/workshop/a", "1\n"), write("d/.git/config", "1\n"), write("/work", "1\n")}, nil},
		"a move": {folder{"a": "1\n2\n"}, folder{"d/a": "1\n2\n"}, []trace.Edit{move("a", "d/a")}, counted(1, 4, 0)},
		"a move there and back": {folder{"a": "1\n2\n"}, folder{"a": "1\n2\n"},
			[]trace.Edit{move("a", "b"), move("b", "a")}, counted(2, 8, 8, "a", "b")},
		"a move into a folder":   {folder{"a": "1\n", "d/b": "2\n"}, folder{"d/a": "1\n", "d/b": "2\n"}, []trace.Edit{move("a", "d")}, counted(1, 2, 0)},
		"a move out of the tree": {folder{"a": "1\n"}, folder{}, []trace.Edit{move("a", "/tmp/a")}, counted(1, 1, 0)},
		"a move into the tree":   {folder{}, folder{"a": "1\n"}, []trace.Edit{move("/tmp/a", "a")}, uncounted(1)},
		"a folder is moved and deleted": {folder{"d/a": "1\n", "d/e/b": "2\n3\n"}, folder{},
			[]trace.Edit{write("d/c", "4\n"), move("d", "x"), remove("x")}, counted(3, 1+8+4, 13-3, "d/c", "x/a", "x/c", "x/e/b")},
		"a folder is moved there and back": {folder{"d/a": "1\n"}, folder{"d/a": "1\n"},
			[]trace.Edit{move("d", "e"), move("e", "d")}, counted(2, 4, 4, "d/a", "e/a")},
		"a call that does not say what it changed": {folder{"a": "1\n"}, folder{"a": "2\n"},
			[]trace.Edit{{Op: trace.EditUnsaid, Path: "a"}}, uncounted(1)},
		"nor which file": {folder{"a": "1\n"}, folder{"a": "1\n"}, []trace.Edit{replace("a", "1", "2"), {Op: trace.EditUnsaid}}, uncounted(2, "a")},
		"a command was there in between": {folder{"a": "1\n"}, folder{"a": "8\n9\n"},
			[]trace.Edit{replace("a", "7", "8\n9")}, counted(1, 3, 0)},
		"and then the file is not known": {folder{"a": "1\n"}, folder{"a": "x\n"},
			[]trace.Edit{replace("a", "7", "8"), write("a", "x\n")}, uncounted(2)},
		"in how many places is not known": {folder{"a": "1\n"}, folder{"a": "8\n8\n"}, []trace.Edit{everywhere(replace("a", "7", "8"))}, uncounted(1)},
		"which place is not known":        {folder{"a": "1\n1\n"}, folder{"a": "1\n2\n"}, []trace.Edit{replace("a", "1", "2")}, counted(1, 2, 0)},
		"text put in somewhere":           {folder{"a": "1\n"}, folder{"a": "1\n2\n3\n"}, []trace.Edit{replace("a", "", "2\n3\n")}, counted(1, 2, 0)},
		"a command did more than the edits": {folder{"a": "1\n"}, folder{"a": "1\n2\n3\n4\n"},
			[]trace.Edit{replace("a", "1\n", "1\n2\n")}, counted(1, 1, 0)},
		"binary content has no lines": {folder{"a": "\x001\n"}, folder{"a": "1\n2\n"}, []trace.Edit{write("a", "1\n2\n")}, counted(1, 0, 0)},
		"through a link":              {folder{"a": "1\n", "l": "-> a"}, folder{"a": "2\n", "l": "-> a"}, []trace.Edit{replace("l", "1", "2")}, uncounted(1)},
		"below a link made on the way": {folder{"d/a": "1\n"}, folder{"d/a": "2\n", "l": "-> d"},
			[]trace.Edit{replace("l/a", "1", "2")}, uncounted(1)},
		"a name that the trace had to repair": {folder{"\xff": "1\n"}, folder{"\xff": "2\n"}, []trace.Edit{write("\uFFFD", "2\n")},
			&result.TraceChurn{Edits: 1, LinesWritten: new(1), PathsUndone: []string{}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, replayed(t, test.before.tree(t), test.after.tree(t), test.edits...)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestChurnLaws: an agent whose edits all stay loses nothing, and one that takes all of them back loses everything.
func TestChurnLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		lines := make([]string, rapid.IntRange(1, 30).Draw(rt, "lines"))
		for i := range lines {
			lines[i] = fmt.Sprintf("old %d.\n", i)
		}
		before := folder{"a": strings.Join(lines, "")}
		var there, back []trace.Edit
		for _, i := range rapid.Permutation(indices(len(lines))).Draw(rt, "order")[:rapid.IntRange(1, len(lines)).Draw(rt, "edits")] {
			old, new := lines[i], strings.Repeat(fmt.Sprintf("new %d.\n", i), rapid.IntRange(1, 3).Draw(rt, "size"))
			lines[i] = new
			there = append(there, replace("a", old, new))
			back = append(back, replace("a", new, old))
		}
		after := folder{"a": strings.Join(lines, "")}
		first := before.tree(t)
		if c := replayed(t, first, after.tree(t), there...); c.LinesLost == nil || *c.LinesLost != 0 || len(c.PathsUndone) > 0 {
			rt.Fatalf("each line once: %+v", c)
		}
		c := replayed(t, first, first, append(there, back...)...)
		if c.LinesLost == nil || *c.LinesLost != *c.LinesWritten || !cmp.Equal(c.PathsUndone, []string{"a"}) {
			rt.Fatalf("there and back: %+v", c)
		}
	})
}

func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// TestChurnIsBounded: whatever an agent writes into its trace, the work has an end, and what is behind it is not known.
func TestChurnIsBounded(t *testing.T) {
	t.Parallel()
	many := func(n int, edit func(i int) trace.Edit) (edits []trace.Edit) {
		for i := range n {
			edits = append(edits, edit(i))
		}
		return edits
	}
	wide := folder{}
	for i := range 300 {
		wide[fmt.Sprintf("d/%d", i)] = "1\n"
	}
	for name, test := range map[string]struct {
		before folder
		edits  []trace.Edit
	}{
		"many edits":            {folder{}, many(20_000, func(i int) trace.Edit { return write(fmt.Sprint(i), "1\n") })},
		"many deleted files":    {folder{}, many(20_000, func(i int) trace.Edit { return remove(fmt.Sprint(i)) })},
		"a text that doubles":   {folder{"a": "x"}, many(60, func(int) trace.Edit { return everywhere(replace("a", "x", "xx")) })},
		"lines that double":     {folder{"a": "\n"}, many(60, func(int) trace.Edit { return everywhere(replace("a", "\n", "\n\n")) })},
		"a folder moved around": {wide, many(20_000, func(i int) trace.Edit { return move([]string{"d", "e"}[i%2], []string{"e", "d"}[i%2]) })},
		"a folder from name to name": {wide, append([]trace.Edit{move("d", "d0")},
			many(1_000, func(i int) trace.Edit { return move(fmt.Sprintf("d%d", i), fmt.Sprintf("d%d", i+1)) })...)},
		"a folder deleted again and again": {wide, many(50_000, func(int) trace.Edit { return remove("d") })},
		"deep paths":                       {folder{}, many(20_000, func(int) trace.Edit { return remove(strings.Repeat("d/", 2_000)) })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := test.before.tree(t)
			started := time.Now()
			c := replayed(t, tree, tree, test.edits...)
			if want := (&result.TraceChurn{Edits: len(test.edits)}); !cmp.Equal(want, c) {
				t.Errorf("%+v, want %+v", c, want)
			}
			t.Log(time.Since(started))
		})
	}
}

// TestChurnOfTextsFarApart: what cannot be counted exactly within the bound is not counted.
func TestChurnOfTextsFarApart(t *testing.T) {
	t.Parallel()
	var texts [2]strings.Builder
	for i := range 3_000 {
		fmt.Fprintln(&texts[0], i*7%97)
		fmt.Fprintln(&texts[1], i*i%97)
	}
	tree := folder{}.tree(t)
	r := newReplay(tree.FS(), tree.FS(), "/work")
	r.steps = 1_000
	r.play([]trace.Edit{write("a", texts[0].String())})
	r.play([]trace.Edit{write("a", texts[1].String())})
	if diff := cmp.Diff(&result.TraceChurn{Edits: 2}, r.churn(&diffscope.Scope{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestGaps: where a trace says that events are missing, what is left of it is no sum.
func TestGaps(t *testing.T) {
	t.Parallel()
	file := trace.NewTail(4 << 10)
	w := trace.NewWriter(file, func() time.Duration { return 0 })
	for range 9 {
		w.Emit(trace.Event{Kind: trace.KindToolCall, Tool: &trace.Tool{ID: "1", Paths: []string{strings.Repeat("x", 8<<20)}}})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	whole := `{"seq":1,"kind":"error","err":{"class":"warning","detail":"a new version is there"}}`
	for name, test := range map[string]struct {
		trace string
		gap   bool
	}{
		"a trace that passed its size": {file.String(), true},
		"a line that is too long":      {strings.Repeat("x", trace.MaxLine+1), true},
		"an agent's line in vain":      {`{"kind":"error","err":{"class":"warning","detail":"the agent's own trace line 3: no kind"}}`, true},
		"a whole trace":                {whole, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gap := false
			for e, err := range trace.Read(strings.NewReader(test.trace)) {
				if err != nil {
					t.Fatal(err)
				}
				gap = gap || isGap(e)
			}
			if gap != test.gap {
				t.Errorf("gap is %v, want %v", gap, test.gap)
			}
		})
	}
	tree := folder{}.tree(t)
	r := newReplay(tree.FS(), tree.FS(), "/work")
	r.play([]trace.Edit{write("a", "1\n")})
	r.gap = true
	if diff := cmp.Diff(&result.TraceChurn{Edits: 1}, r.churn(&diffscope.Scope{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestWorkFolderByLink: an agent may see the work folder by a name without links, and after the run the folder is gone.
func TestWorkFolderByLink(t *testing.T) {
	t.Parallel()
	dir := folder{"real/f": "x", "link": "-> real"}.lay(t)
	real, err := filepath.EvalSymlinks(filepath.Join(dir, "real"))
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "link", "p1", "work")
	tree := folder{}.tree(t)
	r := newReplay(tree.FS(), tree.FS(), work)
	for _, name := range []string{filepath.Join(work, "d/a"), filepath.Join(real, "p1", "work", "d/a"), "d/a"} {
		if got, ok := r.within(name); got != "d/a" || !ok {
			t.Errorf("%s became %q, %v", name, got, ok)
		}
	}
}
