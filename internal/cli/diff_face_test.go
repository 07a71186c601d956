package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/google/go-cmp/cmp"
)

// folders lays the two folders that the golden faces are of.
func folders(t *testing.T) (before, after diffscope.Tree) {
	t.Helper()
	take := func(files map[string]string) diffscope.Tree {
		root := t.TempDir()
		for name, content := range files {
			full := filepath.Join(root, name)
			must(os.MkdirAll(filepath.Dir(full), 0o755))
			must(os.WriteFile(full, []byte(content), 0o644))
		}
		tree, err := diffscope.Snapshot(t.Context(), root)
		must(err)
		return tree
	}
	long := "src/a/rather/deep/folder/with/many/parts/in/it/and_a_long_name_at_the_end.go"
	return take(map[string]string{
			"README.md": "Due dates.\n", "src/due.js": "a\nb\nc\n", "gone.txt": strings.Repeat("x\n", 12), long: "1\n",
			"logo.png": "\x00", "-- odd": "-- looks like a header\n",
		}), take(map[string]string{
			"README.md": "Due dates in UTC.\n", "src/due.js": "a\nB\nc\nd", long: strings.Repeat("2\n", 40), "logo.png": "\x00\x01",
			"\x1b[31m\u202etxt.exe": "\x1b]0;title\x07\u202e\r\n", "漢字.md": "漢字\n", "cache/x.log": "junk\n", "-- odd": "++ looks like a header\n",
		})
}

// everything adds to a scope what the two folders do not have.
func everything(s *diffscope.Scope) {
	ten, half := 10, 0.5
	s.Files = append(s.Files, diffscope.Row{Path: "zz/huge.csv", Status: "modified", Uncounted: "too_large"},
		diffscope.Row{Path: "zz/shuffled", Status: "type_changed", LinesAdded: &ten, LinesRemoved: &ten, Hunks: &ten, Approximate: true, ModeChanged: true})
	s.Approximate = true
	s.Renames = []diffscope.Rename{{From: "gone.txt", To: "new\n.txt", Similarity: 0.875}}
	s.Skipped = []diffscope.Skip{{Path: "pipe", Why: "fifo"}}
	for i := range 22 {
		s.Findings = append(s.Findings, diffscope.Finding{Kind: "git_created", Path: fmt.Sprintf("sub%d/.git", i), Text: "a .git was created"})
	}
	s.Reference = &diffscope.Excess{FilesTouched: 1, LinesChanged: 1, ExcessLines: 1, Ratio: 1.5, FilePrecision: &half, FileRecall: 1, Approximate: true}
	s.Facts = &diffscope.Facts{
		Churn: diffscope.Churn{WhitespaceLines: 3, CommentLines: 2, UnlexedLines: 4},
		Buckets: diffscope.Buckets{
			Test:     diffscope.Counts{FilesTouched: 2, LinesAdded: 20},
			Vendored: diffscope.Counts{FilesTouched: 1, LinesRemoved: 9},
		},
		Tampering: []diffscope.Finding{{Kind: "test_skipped", Path: "due_test.js", Text: "a test is skipped\x1b[2J"}},
		Dependencies: diffscope.Dependencies{
			Added:         []diffscope.Dependency{{File: "package.json", Name: "left-pad", Version: "^1.3.0"}},
			Removed:       []diffscope.Dependency{{File: "go.mod", Name: "example.org/x"}},
			Unread:        []string{"Cargo.toml"},
			LockfileLines: 300,
		},
		Shape: diffscope.Shape{
			NewExecutables: []string{"run.sh"},
			NewLinks:       []diffscope.NewLink{{Path: "out", Target: "/etc", Leaves: true}},
			LargeFiles:     []diffscope.SizedFile{{Path: "big.bin", Bytes: 3 << 20}},
		},
		Copies: []diffscope.Rename{{From: "a.go", To: "b.go", Similarity: 1}},
	}
}

// TestDiffFace shows what a person sees on a terminal. The golden files have ␛ where the terminal gets an escape.
func TestDiffFace(t *testing.T) {
	t.Parallel()
	before, after := folders(t)
	patch, scope, err := diffscope.Compare(before, after, diffscope.Paths{
		Files: []string{"src", "gone.txt", "logo.png", "-- odd"}, Ignore: []string{"cache"},
	})
	must(err)
	everything(&scope)
	for name, s := range map[string]screen{
		"80":       {isTerminal: true, hasColor: true, width: 80},
		"40":       {isTerminal: true, hasColor: true, width: 40},
		"no-color": {isTerminal: true, width: 80},
		"plain":    {width: plainWidth},
	} {
		var out bytes.Buffer
		s.w = &out
		must(newFace(s).show(scope, patch))
		checkInert(t, name, s, out.String())
		got := strings.ReplaceAll(out.String(), "\x1b", "␛")
		golden := "testdata/diff-face-" + name + ".golden"
		if *update {
			must(os.WriteFile(golden, []byte(got), 0o644))
			continue
		}
		want, err := os.ReadFile(golden)
		must(err)
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", golden, diff)
		}
	}
}

// TestDiffTableKeepsNumbers gives a small screen to large numbers: it is the path that gives way.
func TestDiffTableKeepsNumbers(t *testing.T) {
	t.Parallel()
	n := 123_456_789
	c := diffscope.Counts{FilesTouched: 1_000_000, LinesAdded: n, LinesRemoved: n, Hunks: n}
	row := diffscope.Row{Path: strings.Repeat("漢", 5000), Status: "modified", LinesAdded: &n, LinesRemoved: &n, Hunks: &n}
	var out bytes.Buffer
	must(newFace(screen{w: &out, width: minimumWidth}).show(diffscope.Scope{Counts: c, Files: []diffscope.Row{row}}, diffscope.Patch{}))
	for _, want := range []string{"…", "+123456789  −123456789  123456789", "1000000 files"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

// TestDiffPatchIsLong cuts what would push the table out of sight.
func TestDiffPatchIsLong(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	must(os.WriteFile(root+"/long", []byte(strings.Repeat("é", 5000)+"\n"+strings.Repeat("x\n", 600)), 0o644))
	tree, err := diffscope.Snapshot(t.Context(), root)
	must(err)
	patch, scope, err := diffscope.Compare(diffscope.Tree{}, tree, diffscope.Paths{})
	must(err)
	var out bytes.Buffer
	must(newFace(screen{w: &out, isTerminal: true, width: 80}).show(scope, patch))
	table, shown, _ := strings.Cut(out.String(), "\n\n")
	if lines := strings.Split(strings.TrimSpace(shown), "\n"); len(lines) != maxFaceLines+1 || !strings.Contains(lines[maxFaceLines], "--patch") {
		t.Errorf("the patch has %d lines", len(lines))
	}
	if !strings.Contains(table, "+601") || strings.Count(shown, "é") > maxFaceLine {
		t.Errorf("the face is\n%s", out.String())
	}
	out.Reset()
	f := newFace(screen{w: &out, isTerminal: true, width: 80})
	must(f.patch(patch, 0))
	must(f.out.Flush())
	if n := strings.Count(out.String(), "\n+"); n != 602 || strings.Count(out.String(), "é") != 5000 {
		t.Errorf("the whole patch has %d added lines", n-1)
	}
}

// checkInert allows our own colors, and nothing else that acts on a terminal. No line of the table is wider than the screen.
func checkInert(t *testing.T, name string, s screen, out string) {
	t.Helper()
	plain := out
	if s.hasColor {
		plain = regexp.MustCompile("\x1b\\[([012]|3[123])m").ReplaceAllString(out, "")
	}
	if got := diffscope.Visible(plain, "\n\t"); got != plain {
		t.Errorf("%s: something in it acts on a terminal:\n%q", name, plain)
	}
	table, _, _ := strings.Cut(plain, "\n\n")
	for line := range strings.Lines(table) {
		if n := width(strings.TrimSuffix(line, "\n")); n > s.width {
			t.Errorf("%s: a line of the table has %d characters, want at most %d: %s", name, n, s.width, line)
		}
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ added, removed, largest, room, plus, minus int }{
		{0, 0, 0, 30, 0, 0},
		{2, 1, 3, 30, 2, 1},
		{30, 0, 30, 30, 30, 0},
		{100, 1, 101, 30, 29, 1},
		{1, 1_000_000, 1_000_001, 10, 1, 9},
		{1, 0, 1_000_000, 10, 1, 0},
		{500, 500, 1000, 10, 5, 5},
		{3, 3, 6, 1, 0, 0},
		{3, 3, 6, -4, 0, 0},
	} {
		plus, minus := bar(test.added, test.removed, test.largest, test.room)
		if plus != test.plus || minus != test.minus {
			t.Errorf("bar(%d, %d, %d, %d) = %d, %d, want %d, %d",
				test.added, test.removed, test.largest, test.room, plus, minus, test.plus, test.minus)
		}
	}
}

func TestMiddle(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		n    int
		want string
	}{
		{"short", 5, "short"},
		{"src/deep/folder/name.go", 13, "src/…/name.go"},
		{"漢字漢字漢字", 7, "漢…漢字"},
		{"abc", 1, "…"},
		{"abc", 0, ""},
		{"", 0, ""},
	} {
		if got := middle(test.text, test.n); got != test.want || width(got) > test.n {
			t.Errorf("middle(%q, %d) = %q, want %q", test.text, test.n, got, test.want)
		}
	}
}
