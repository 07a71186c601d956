package diffscope

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestApply(t *testing.T) {
	t.Parallel()
	before := folder{"a.txt": "1\n2\n3\n", "b c.txt": "x\n", "dir/run": "r\n"}.tree(t)
	same := map[string]string{"a.txt": "-rw-r--r-- 1\n2\n3\n", "b c.txt": "-rw-r--r-- x\n", "dir/run": "-rw-r--r-- r\n"}
	for _, test := range []struct {
		rule, patch string
		want        map[string]string // what differs from before; "" is a file that is gone
	}{
		{"a plain diff with times", "--- a/a.txt\t2026-01-01 00:00:00 +0000\n+++ b/a.txt\t2026-01-01 00:00:01 +0000\n@@ -2 +2 @@\n-2\n+two\n",
			map[string]string{"a.txt": "-rw-r--r-- 1\ntwo\n3\n"}},
		{"a commit message in front and a signature behind", "From: x\n\n a | 2 +-\n\ndiff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,2 @@\n 1\n-2\n 3\n-- \n2.39\n",
			map[string]string{"a.txt": "-rw-r--r-- 1\n3\n"}},
		{"an insertion without context", "--- a/a.txt\n+++ b/a.txt\n@@ -3,0 +4,2 @@ func\n+4\n+5\n\\ No newline at end of file\n",
			map[string]string{"a.txt": "-rw-r--r-- 1\n2\n3\n4\n5"}},
		{"two hunks", "--- a/a.txt\n+++ b/a.txt\n@@ -0,0 +1 @@\n+0\n@@ -3 +4 @@\n-3\n+three\n",
			map[string]string{"a.txt": "-rw-r--r-- 0\n1\n2\nthree\n"}},
		{"lines that look like a header", "--- a/a.txt\n+++ b/a.txt\n@@ -1,0 +2,3 @@\n+++ b/x\n+@@ -1 +1 @@\n+-- \n",
			map[string]string{"a.txt": "-rw-r--r-- 1\n++ b/x\n@@ -1 +1 @@\n-- \n2\n3\n"}},
		{"a rename with an edit and a name with a blank", "diff --git a/b c.txt b/d e.txt\nsimilarity index 50%\nrename from b c.txt\nrename to d e.txt\n--- a/b c.txt\t\n+++ b/d e.txt\t\n@@ -1 +1 @@\n-x\n+y\n",
			map[string]string{"b c.txt": "", "d e.txt": "-rw-r--r-- y\n"}},
		{"a copy", "diff --git a/a.txt b/c\nsimilarity index 100%\ncopy from a.txt\ncopy to c\n", map[string]string{"c": "-rw-r--r-- 1\n2\n3\n"}},
		{"a mode", "diff --git a/dir/run b/dir/run\nold mode 100644\nnew mode 100755\n", map[string]string{"dir/run": "-rwxr-xr-x r\n"}},
		{"an empty file with a blank in its name", "diff --git a/e f b/e f\nnew file mode 100644\nindex 0000000..e69de29\n", map[string]string{"e f": "-rw-r--r-- "}},
		{"a file becomes a folder", "--- a/a.txt\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-1\n-2\n-3\n--- /dev/null\n+++ b/a.txt/in\n@@ -0,0 +1 @@\n+i\n",
			map[string]string{"a.txt": "", "a.txt/in": "-rw-r--r-- i\n"}},
		{"two files swap names", "diff --git a/a.txt b/dir/run\nrename from a.txt\nrename to dir/run\ndiff --git a/dir/run b/a.txt\nrename from dir/run\nrename to a.txt\n",
			map[string]string{"a.txt": "-rw-r--r-- r\n", "dir/run": "-rw-r--r-- 1\n2\n3\n"}},
	} {
		after, err := Apply(before, []byte(test.patch))
		if err != nil {
			t.Errorf("%s: %v", test.rule, err)
			continue
		}
		want := map[string]string{}
		for _, from := range []map[string]string{same, test.want} {
			for name, content := range from {
				if want[name] = content; content == "" {
					delete(want, name)
				}
			}
		}
		if diff := cmp.Diff(want, listing(t, after)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.rule, diff)
		}
	}
	if diff := cmp.Diff(same, listing(t, before)); diff != "" {
		t.Errorf("the tree before changed (-want +got):\n%s", diff)
	}
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	before := folder{"a.txt": "1\n2\n3\n", "b": "x\n", "dir/c": ""}.tree(t)
	head := "--- a/a.txt\n+++ b/a.txt\n"
	for _, test := range []struct{ rule, patch, want string }{
		{"nothing", "", "there is no patch"},
		{"prose", "hello\n", "there is no patch"},
		{"a line that is not there", head + "@@ -2 +2 @@\n-x\n+y\n", "line 1: the hunk in line 3 does not fit a.txt"},
		{"a hunk one line off", head + "@@ -1 +1 @@\n-2\n+y\n", "does not fit"},
		{"a hunk behind the end", head + "@@ -9,0 +9 @@\n+y\n", "does not fit"},
		{"hunks in the wrong order", head + "@@ -3 +3 @@\n-3\n+y\n@@ -1 +1 @@\n-1\n+y\n", "line 1: the hunk in line 6 does not fit"},
		{"a missing final line feed", head + "@@ -3 +3 @@\n-3\n\\ No newline at end of file\n+y\n", "does not fit"},
		{"too few lines", head + "@@ -1,2 +1,2 @@\n-1\n+y\n", "ends inside of the hunk in line 3"},
		{"fewer lines than it says", head + "@@ -1,2 +1,2 @@\n-1\n+y\nx\n", "line 6: the hunk in line 3 has fewer lines"},
		{"too many lines", head + "@@ -1 +1 @@\n-1\n+y\n+z\n", "line 6: the hunk in line 3 has more lines"},
		{"a broken header", head + "@@ -1 +x @@\n-1\n+y\n", "header"},
		{"a hunk without a file", "@@ -1 +1 @@\n-1\n+y\n", "line 1: the hunk belongs to no file"},
		{"an unknown file", "--- a/none\n+++ b/none\n@@ -1 +1 @@\n-1\n+y\n", "none does not exist"},
		{"a file that exists is created", "--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+y\n", "exists already"},
		{"a file in a file", "--- /dev/null\n+++ b/b/c\n@@ -0,0 +1 @@\n+y\n", "below a file"},
		{"a file over a folder", "--- /dev/null\n+++ b/dir\n@@ -0,0 +1 @@\n+y\n", "a folder at once"},
		{"a delete that leaves lines", "--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n", "leaves lines"},
		{"one file twice", strings.Repeat(head+"@@ -1 +1 @@\n-1\n+y\n", 2), "changed twice"},
		{"a way out", "--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+y\n", "may touch"},
		{"an absolute way out", "--- /dev/null\n+++ b//etc/x\n@@ -0,0 +1 @@\n+y\n", "may touch"},
		{"a repository", "--- /dev/null\n+++ b/.git/config\n@@ -0,0 +1 @@\n+y\n", "may touch"},
		{"no folder in front", "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-1\n+y\n", "folder in front"},
		{"a submodule", "diff --git a/s b/s\nnew file mode 160000\n", "mode"},
		{"another mode", "diff --git a/b b/b\nold mode 100755\nnew mode 100644\n", "b has mode 100644"},
		{"a binary file without content", "diff --git a/b b/b\nindex 1..2\nBinary files a/b and b/b differ\n", "line 3: the patch does not hold"},
		{"a binary difference", "diff --git a/b b/b\nindex 1..2\nGIT binary patch\ndelta 3\nKc$@(M\n\n", "line 4"},
		{"broken binary", "diff --git a/b b/b\nindex 1..2\nGIT binary patch\nliteral 3\nZZZ\n\n", "line 5"},
	} {
		_, err := Apply(before, []byte(test.patch))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q in it", test.rule, err, test.want)
		}
	}
}

// FuzzApply holds Apply to its law: what a patch makes of a tree is what Compare then finds.
func FuzzApply(f *testing.F) {
	every, err := os.ReadFile("testdata/every.patch")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(every)
	f.Add([]byte("--- a/gone.txt\n+++ b/gone.txt\n@@ -1 +1 @@\n-one\n+2\n"))
	f.Add([]byte("diff --git a/same b/b\nrename from same\nrename to b\n"))
	before := everyBefore.tree(f)
	f.Fuzz(func(t *testing.T, patch []byte) {
		after, err := Apply(before, patch)
		if err != nil {
			return
		}
		made, _, err := Compare(before, after, Paths{})
		must(t, err)
		var text bytes.Buffer
		_, err = made.WriteTo(&text)
		must(t, err)
		if made.Empty() {
			return
		}
		twice, err := Apply(before, text.Bytes())
		must(t, err)
		if twice.ID() != after.ID() {
			t.Errorf("the patch of what was applied gives another tree:\n%s", &text)
		}
	})
}
