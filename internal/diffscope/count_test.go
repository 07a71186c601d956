package diffscope

import (
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"pgregory.net/rapid"
)

// TestLinesChanged: what is counted of two texts is what Compare counts of a file that became one from the other.
func TestLinesChanged(t *testing.T) {
	t.Parallel()
	text := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "\n", "d", "\x00\n"}), 0, 20).Draw(t, "lines"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		old, new := text.Draw(t, "old"), text.Draw(t, "new")
		got, left, ok := LinesChanged(old, new, exactSteps)
		blobs := []*blob{{text: old}, {text: new}}
		c := change{
			path: "f",
			old:  &entry{path: "f", mode: filemode.Regular, size: blobs[0].size(), blob: blobs[0]},
			new:  &entry{path: "f", mode: filemode.Regular, size: blobs[1].size(), blob: blobs[1]},
		}
		if err := c.measure(); err != nil {
			t.Fatal(err)
		}
		if want := *c.row.LinesAdded + *c.row.LinesRemoved; got != want || !ok || left > exactSteps {
			t.Fatalf("%d lines (%v, %d steps left), Compare counts %d", got, ok, left, want)
		}
	})
}

// TestLinesChangedIsBounded: behind a bound there is no number.
func TestLinesChangedIsBounded(t *testing.T) {
	t.Parallel()
	var old, new strings.Builder
	for i := range 3_000 {
		old.WriteString(string(rune('a'+i*7%26)) + "\n")
		new.WriteString(string(rune('a'+i*i%26)) + "\n")
	}
	if _, left, ok := LinesChanged(old.String(), new.String(), 1_000); ok || left >= 0 {
		t.Errorf("texts far apart: %v with %d steps left", ok, left)
	}
	if _, _, ok := LinesChanged("a\n", "b\n", -1); ok {
		t.Error("a number without any steps")
	}
	if _, _, ok := LinesChanged(strings.Repeat("\n", maxLines), "a\n", exactSteps); ok {
		t.Error("a number of too many lines")
	}
}
