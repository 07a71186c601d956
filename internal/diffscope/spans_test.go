package diffscope

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSpans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, patch string
		want        [][2]int
		fails       bool
	}{
		{name: "no patch: a large or binary file"},
		{name: "one hunk with context", patch: "@@ -3,4 +3,5 @@ func f()\n a\n-b\n+c\n+d\n e\n f", want: [][2]int{{3, 7}}},
		{name: "two hunks", patch: "@@ -1 +1,2 @@\n a\n+b\n@@ -10,2 +11 @@\n a\n-b\n", want: [][2]int{{1, 2}, {11, 11}}},
		{name: "a new file", patch: "@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file", want: [][2]int{{1, 2}}},
		{name: "a removed file has no right side", patch: "@@ -1,2 +0,0 @@\n-a\n-b"},
		{name: "only removed lines", patch: "@@ -5,2 +4,0 @@\n-a\n-b"},
		{name: "a header that promises more than there is", patch: "@@ -1,9 +1,9000 @@\n a\n+b", want: [][2]int{{1, 2}}},
		{name: "an empty line of context without its blank", patch: "@@ -1,3 +1,3 @@\n a\n\n+b\n-c", want: [][2]int{{1, 3}}},
		{name: "no newline before the change", patch: "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n", want: [][2]int{{1, 1}}},
		{name: "no hunk", patch: "not a patch", fails: true},
		{name: "a number that is none", patch: "@@ -1 +99999999999999999999 @@\n a", fails: true},
		{name: "too large", patch: strings.Repeat("@", maxHunks+1), fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Spans(c.patch)
			if (err != nil) != c.fails {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzSpans holds every patch to spans that exist: ends in order, none before the first line, no more lines than the
// patch itself has.
func FuzzSpans(f *testing.F) {
	for _, seed := range []string{
		"", "@@ -1 +1 @@\n a", "@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file", "@@ -1,9 +2147483647,9 @@\n+a\n+b",
		"@@ -1 +-1 @@\n+a", "@@ -1 +1 @@\n--- a\n+++ b\n@@ -1 +1 @@", "@@ @@\n", "@@ -1 +1 @@\r\n+a\r\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, patch string) {
		spans, err := Spans(patch)
		if err != nil && spans != nil {
			t.Fatal("spans beside an error")
		}
		lines := 0
		for _, s := range spans {
			if s[0] < 1 || s[1] < s[0] {
				t.Fatalf("span %v", s)
			}
			lines += s[1] - s[0] + 1
		}
		if most := strings.Count(patch, "\n") + 1; lines > most {
			t.Fatalf("%d lines on the right side of a patch of %d", lines, most)
		}
	})
}
