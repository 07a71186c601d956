package diffscope

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// A folder describes a tree on disk: a value that starts with "-> " is a link, one that starts with "#!" is executable.
type folder map[string]string

func (f folder) write(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	for name := range f {
		f.lay(t, root, name)
	}
	return root
}

// lay makes one file or link of the folder.
func (f folder) lay(t testing.TB, root, name string) {
	t.Helper()
	full, content := root+"/"+name, f[name]
	must(t, os.MkdirAll(filepath.Dir(full), 0o755))
	if target, isLink := strings.CutPrefix(content, "-> "); isLink {
		must(t, os.Symlink(target, full))
		return
	}
	err := os.WriteFile(full, []byte(content), 0o644)
	if errors.Is(err, syscall.EILSEQ) {
		t.Skipf("this file system does not take the name %q", name)
	}
	must(t, err)
	if strings.HasPrefix(content, "#!") {
		must(t, os.Chmod(full, 0o755))
	}
}

func (f folder) tree(t testing.TB) Tree {
	t.Helper()
	return take(t, f.write(t))
}

func patchText(t testing.TB, p Patch) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := p.WriteTo(&b)
	must(t, err)
	if n != int64(b.Len()) {
		t.Errorf("WriteTo says %d bytes, wrote %d", n, b.Len())
	}
	return b.Bytes()
}

// every kind of change in one pair of trees.
var everyBefore = folder{
	"gone/empty":      "",
	"gone.txt":        "one\ntwo\n",
	"mode.sh":         "echo\n",
	"edited.txt":      lines("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18"),
	"no newline":      "a\nb",
	"binary":          "\x00\x01\x02",
	"binary gone":     "x\x00",
	"to link":         "text\nmore\n",
	"from link":       "-> target",
	"link":            "-> old",
	"file to folder":  "x\n",
	"folder/to file":  "y\n",
	"tab\tquote\"é\n": "odd name\n",
	"bad\xff":         "bad name\n",
	"same":            "same\n",
	"looks like":      "--- a/x\n+++ b/x\n@@ -1 +1 @@\n\\ No newline at end of file\n",
}

var everyAfter = folder{
	"new/deep/empty":        "",
	"new.txt":               "x",
	"mode.sh":               "#!echo\n",
	"edited.txt":            lines("1", "2", "3", "4", "5", "six", "7", "8", "9", "10", "11", "12", "thirteen", "14", "15", "16", "17", "18", "19"),
	"no newline":            "a\nb\n",
	"binary":                "\x00" + strings.Repeat("long enough for two lines ", 20) + "\xff\xfe!",
	"binary new":            "\x00\n",
	"to link":               "-> elsewhere",
	"from link":             "now\na\nfile\n",
	"link":                  "-> new",
	"file to folder/inside": "x\n",
	"folder":                "y\n",
	"tab\tquote\"é\n":       "odd name\nmore\n",
	"bad\xff":               "other\n",
	"-dash :(glob)":         "z\n",
	"same":                  "same\n",
	"looks like":            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n++ no\n",
}

func TestPatchGolden(t *testing.T) {
	t.Parallel()
	patch, _ := compare(t, everyBefore.tree(t), everyAfter.tree(t), Paths{})
	got := patchText(t, patch)
	golden := "testdata/every.patch"
	if *update {
		must(t, os.WriteFile(golden, got, 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestPatchRoundTrip(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string][2]folder{
		"forth":       {everyBefore, everyAfter},
		"back":        {everyAfter, everyBefore},
		"from empty":  {{}, everyAfter},
		"to empty":    {everyBefore, {}},
		"no change":   {everyBefore, everyBefore},
		"large lines": {{"a": strings.Repeat("x", 70_000)}, {"a": strings.Repeat("x", 70_000) + "\ny"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			roundTrip(t, pair[0], pair[1])
		})
	}
}

// TestRandomTrees compares snapshots, patches and counts with git on trees made at random.
func TestRandomTrees(t *testing.T) {
	t.Parallel()
	pairs := rapid.Custom(func(r *rapid.T) [2]folder {
		before, after := randomFolder(r), randomFolder(r)
		for name, content := range before {
			if rapid.Bool().Draw(r, "keep") {
				after[name] = content
			}
		}
		return [2]folder{before, after}
	})
	for seed := range 40 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			pair := pairs.Example(seed)
			roundTrip(t, pair[0], pair[1])
		})
	}
}

// randomFolder draws up to 12 paths. A name is always a link or never: for a file that becomes a link git's numstat and its
// hunks contradict each other.
func randomFolder(r *rapid.T) folder {
	f := folder{}
	for _, name := range []string{"a", "a.b", "d/x", "d/e/z", "d.c", "long name", "q\"uote", "ü", "tab\t", "d/link", "link"} {
		switch {
		case !rapid.Bool().Draw(r, "exists"):
		case strings.HasSuffix(name, "link"):
			f[name] = rapid.SampledFrom([]string{"-> a", "-> .", "-> /nowhere"}).Draw(r, "target")
		default:
			f[name] = randomText(r)
		}
	}
	return f
}

func randomText(r *rapid.T) string {
	if rapid.IntRange(0, 4).Draw(r, "kind") == 0 {
		return rapid.SampledFrom([]string{"", "\x00", "\x00\n", "#!sh\n", "no newline"}).Draw(r, "special")
	}
	lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "{\n", "}\n", "\n", "\r\n"}), 0, 60).Draw(r, "lines")
	return strings.Join(lines, "") + rapid.SampledFrom([]string{"", "end"}).Draw(r, "end")
}

func roundTrip(t *testing.T, before, after folder) {
	t.Helper()
	beforeRoot, afterRoot := before.write(t), after.write(t)
	beforeTree := take(t, beforeRoot)
	afterTree := again(t, beforeTree, afterRoot)
	store := t.TempDir()
	git(t, store, "init", "-q", "--bare", ".")
	beforeID, afterID := writeTree(t, store, beforeRoot), writeTree(t, store, afterRoot)
	if beforeTree.ID() != beforeID || afterTree.ID() != afterID {
		t.Errorf("ids %s and %s, git says %s and %s", beforeTree.ID(), afterTree.ID(), beforeID, afterID)
	}
	patch, scope := compare(t, beforeTree, afterTree, Paths{})
	if patch.Empty() != (beforeID == afterID) || scope.NoChange != patch.Empty() {
		t.Errorf("empty %v, no change %v with trees %s and %s", patch.Empty(), scope.NoChange, beforeID, afterID)
	}
	if want := gitCounts(t, store, beforeID, afterID); want != scope.Counts {
		t.Errorf("git counts %+v, ours %+v\n%s", want, scope.Counts, patchText(t, patch))
	}
	if patch.Empty() {
		return // which git apply refuses
	}
	text := patchText(t, patch)
	applied, err := Apply(beforeTree, text)
	if err != nil || applied.ID() != afterID {
		t.Errorf("Apply gives tree %s, want %s: %v\n%s", applied.ID(), afterID, err, text)
	}
	checkApply(t, beforeRoot, text, afterID)
	checkApply(t, afterRoot, text, beforeID, "-R")
}

// FuzzPatch holds the patch writer to its law with git as the judge: git apply makes the tree after of the tree before, and
// back. Each input is a batch of files, so that one process checks many of them.
func FuzzPatch(f *testing.F) {
	random := rand.New(rand.NewPCG(3, 4))
	for size := range 12 {
		seed := make([]byte, 40*size)
		for i := range seed {
			seed[i] = byte(random.Uint32())
		}
		f.Add(seed, size%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed []byte, back bool) {
		before, after := batch(seed)
		args := []string{}
		if back {
			args = append(args, "-R")
		}
		patch, _ := compare(t, before.memory(), after.memory(), Paths{})
		if patch.Empty() {
			return
		}
		if back {
			before, after = after, before
		}
		checkApply(t, before.write(t), patchText(t, patch), after.memory().ID(), args...)
	})
}

// batch makes two folders of bytes.
func batch(seed []byte) (before, after folder) {
	next := func(n int) int {
		if len(seed) == 0 {
			return 0
		}
		b := seed[0]
		seed = seed[1:]
		return int(b) % n
	}
	text := func() string {
		var b strings.Builder
		for range next(24) {
			b.WriteString([]string{
				"a\n", "b\n", "c\n", "\n", "\r\n", " \n", "\t\xff\n", "-\n", "+\n", "--- a/a\n", "+++ b/a\n", "@@ -1 +1 @@\n", "\\ No newline at end of file\n",
				"diff --git a/a b/a\n", "GIT binary patch\n", "# not in this patch: a\n", strings.Repeat("long", 30) + "\n", "no newline",
			}[next(18)])
		}
		return b.String()
	}
	content := func(old string) string {
		switch next(8) {
		case 0, 1, 2: // an edit
			lines := splitLines(strings.TrimPrefix(old, "-> "))
			from := next(len(lines) + 1)
			return strings.Join(lines[:from], "") + text() + strings.Join(lines[min(len(lines), from+next(4)):], "")
		case 3:
			return "#!" + old // executable
		case 4:
			return "-> t" + text()
		case 5:
			return "\x00" + text()
		case 6:
			return old
		}
		return text()
	}
	first, second := gardener{files: folder{}}, gardener{files: folder{}}
	for _, name := range []string{"a", "a/in", "a/deep/in", "b c", "bad\xff", "d/\"q\"", "d/\t", "d\n/x", "-e", "é", "f\\g", ":(glob)*"} {
		old := ""
		if next(4) > 0 {
			old = content(text())
			first.put(name, old)
		}
		if next(4) > 0 {
			second.put(name, content(old))
		}
	}
	return first.files, second.files
}

// memory is the tree that a snapshot of the folder would be.
func (f folder) memory() Tree {
	var tree Tree
	for _, name := range slices.Sorted(maps.Keys(f)) {
		mode, content := filemode.Regular, f[name]
		if target, isLink := strings.CutPrefix(content, "-> "); isLink {
			mode, content = filemode.Symlink, target
		} else if strings.HasPrefix(content, "#!") {
			mode = filemode.Executable
		}
		tree.entries = append(tree.entries, entry{path: name, mode: mode, size: int64(len(content)), blob: &blob{text: content}})
	}
	return tree
}

// writeTree makes git objects of a folder, byte for byte, and returns the id of its tree.
func writeTree(t *testing.T, store, root string) string {
	t.Helper()
	var index bytes.Buffer
	must(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		must(t, err)
		mode, content := "100644", []byte(nil)
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			must(t, err)
			mode, content = "120000", []byte(target)
		case info.Mode()&0o100 != 0:
			mode = "100755"
			fallthrough
		default:
			content, err = os.ReadFile(name)
			must(t, err)
		}
		hash := gitCommand(t, store, "hash-object", "-w", "--no-filters", "--stdin")
		hash.Stdin = bytes.NewReader(content)
		id, err := hash.Output()
		must(t, err)
		fmt.Fprintf(&index, "%s %s\t%s\x00", mode, bytes.TrimSpace(id), strings.TrimPrefix(name, root+"/"))
		return nil
	}))
	git(t, store, "read-tree", "--empty")
	update := gitCommand(t, store, "update-index", "-z", "--add", "--index-info")
	update.Stdin = &index
	must(t, update.Run())
	return strings.TrimSpace(git(t, store, "write-tree"))
}

// gitCounts is the diff scope as git sees it: lines from numstat, hunks at zero context.
func gitCounts(t *testing.T, store, before, after string) Counts {
	t.Helper()
	args := []string{"diff", "--no-renames", "--no-ext-diff", "--no-textconv", "--diff-algorithm=myers", "--no-color"}
	var c Counts
	for row := range strings.SplitSeq(strings.TrimSuffix(git(t, store, append(args, "--numstat", "-z", before, after)...), "\x00"), "\x00") {
		if row == "" {
			continue
		}
		var added, removed int
		fmt.Sscanf(row, "%d\t%d\t", &added, &removed) // "-" for a binary file stays 0
		c.FilesTouched++
		c.LinesAdded += added
		c.LinesRemoved += removed
	}
	for line := range strings.Lines(git(t, store, append(args, "-U0", before, after)...)) {
		if strings.HasPrefix(line, "@@ ") {
			c.Hunks++
		}
	}
	return c
}

// checkApply applies a patch to a folder with git and compares the outcome with a tree.
func checkApply(t *testing.T, root string, patch []byte, want string, args ...string) {
	t.Helper()
	apply := gitCommand(t, root, append([]string{"apply", "--whitespace=nowarn"}, args...)...)
	apply.Stdin = bytes.NewReader(patch)
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("git apply %v: %v\n%s\n%s", args, err, out, patch)
	}
	if got := take(t, root).ID(); got != want {
		t.Errorf("git apply %v gives tree %s, want %s\n%s", args, got, want, patch)
	}
}
