package diffscope

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func shapeBetween(t testing.TB, before, after Tree, scope Paths) Shape {
	t.Helper()
	patch, _ := compare(t, before, after, scope)
	s, err := shapeOf(patch)
	must(t, err)
	return s
}

func TestShape(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 1<<20)
	before := folder{"a/x": "1\n", "a/y": "1\n", "b/run": "#!\n", "b/tool": "echo\n", "link": "-> a/x", "same": "-> a", "was": "file\n", "gone/z": "1\n", "out/q": "1\n", "kept": "k\n", "turned": "-> a/y"}
	root := before.write(t)
	first := take(t, root)
	for name, content := range (folder{
		"a/x": "2\n", "b/run": "#! more\n", "link": "-> ../a/x", "was": "-> /etc", "big": big + "\n", "exact": big, "made.sh": "#!\n", "\xff": "-> \xfe/..",
		"out/q": big + "\n" + big, "turned": "#! now a program\n", "out/new": "1\n",
	}) {
		os.Remove(root + "/" + name)
		folder{name: content}.lay(t, root, name)
	}
	must(t, os.Chmod(root+"/b/tool", 0o755))
	must(t, os.RemoveAll(root+"/gone"))
	second := again(t, first, root)

	want := Shape{
		LargestFile:    &SizedFile{"big", 1<<20 + 1},
		LargeFiles:     []SizedFile{{"big", 1<<20 + 1}},
		NewExecutables: []string{"b/tool", "made.sh", "turned"},
		NewLinks:       []NewLink{{"link", "../a/x", true}, {"was", "/etc", true}, {`\xff`, `\xfe/..`, false}},
		FoldersTouched: 5, // the root, a, b, gone, and out with its new file
	}
	if diff := cmp.Diff(want, shapeBetween(t, first, second, Paths{Files: []string{"a", "b", "link", "was", "gone", "turned"}})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	all := shapeBetween(t, first, second, Paths{})
	if all.LargestFile.Path != "out/q" || len(all.LargeFiles) != 2 {
		t.Errorf("with out/q in scope: %+v", all)
	}
	none := Shape{LargeFiles: []SizedFile{}, NewExecutables: []string{}, NewLinks: []NewLink{}}
	if diff := cmp.Diff(none, shapeBetween(t, first, first, Paths{})); diff != "" {
		t.Errorf("no change (-want +got):\n%s", diff)
	}
	none.FoldersTouched = 6
	deleted := shapeBetween(t, first, Tree{}, Paths{})
	if none.FoldersTouched = deleted.FoldersTouched; !cmp.Equal(none, deleted) || deleted.FoldersTouched != 5 {
		t.Errorf("everything deleted: %+v", deleted)
	}
}

// TestShapeSizes: an empty file has 0 bytes, and what could not be looked at has no size.
func TestShapeSizes(t *testing.T) {
	t.Parallel()
	after := Tree{entries: []entry{
		{path: "a", mode: 0o100644, why: unreadable},
		{path: "b", mode: 0o40000, why: unreadable},
	}}
	if s := shapeBetween(t, Tree{}, after, Paths{}); s.LargestFile != nil {
		t.Errorf("the largest of the unreadable is %+v", s.LargestFile)
	}
	after.entries = append(after.entries, entry{path: "c", mode: 0o100644, blob: &blob{}})
	if s := shapeBetween(t, Tree{}, after, Paths{}); s.LargestFile == nil || *s.LargestFile != (SizedFile{"c", 0}) {
		t.Errorf("the largest is %+v, want the empty file", s.LargestFile)
	}
	after.entries = append(after.entries, entry{path: "d", mode: 0o100755, why: tooLarge, size: 2 << 30})
	if s := shapeBetween(t, Tree{}, after, Paths{}); *s.LargestFile != (SizedFile{"d", 2 << 30}) || len(s.NewExecutables) != 1 {
		t.Errorf("with a file that was not read: %+v", s)
	}
}

func TestLeaves(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		link, target string
		want         bool
	}{
		{"a", "b", false}, {"a", ".", false}, {"a", "..", true}, {"a", "../x", true}, {"a", "/x", true}, {"a", "..x", false}, {"a", "b/../..", true},
		{"d/a", "..", false}, {"d/a", "../..", true}, {"d/a", "../e", false}, {"d/e/a", "../../../x", true}, {"d/e/a", "../../x", false},
		{"d/a", "./.././../x", true}, {"d/a", "x/../../y", false}, {"a", "b//..//..", true}, {"a", "", false}, {"..a/b", "..", false}, {"a", "...", false},
	} {
		if got := leaves(test.link, test.target); got != test.want {
			t.Errorf("%s -> %s: %v, want %v", test.link, test.target, got, test.want)
		}
	}
}
