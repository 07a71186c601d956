package diffscope

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// FuzzDiff holds the differ to its laws on small texts: each byte of the input is a line.
func FuzzDiff(f *testing.F) {
	f.Add([]byte("abc"), []byte("abc"), uint8(50))
	f.Add([]byte(""), []byte("a"), uint8(1))
	f.Add([]byte("abcabba"), []byte("cbabac"), uint8(3))
	f.Add([]byte("aaaaaaaaab"), []byte("baaaaaaaaa"), uint8(2))
	f.Add([]byte("{a}{a}{a}"), []byte("{a}{b}{a}{a}"), uint8(20))
	f.Fuzz(func(t *testing.T, old, new []byte, alphabet uint8) {
		if len(old)*len(new) > 40_000 {
			return
		}
		a, b := letters(old, alphabet), letters(new, alphabet)
		common := longestCommon(a, b)
		edits, exact := diffLines(a, b, exactSteps)
		if !exact {
			t.Error("a small pair was cut short")
		}
		checkScript(t, a, b, edits)
		added, removed := total(edits)
		if added != len(b)-common || removed != len(a)-common {
			t.Errorf("added %d, removed %d; the shortest script has %d and %d", added, removed, len(b)-common, len(a)-common)
		}
		backward, _ := diffLines(b, a, exactSteps)
		if backAdded, backRemoved := total(backward); backAdded != removed || backRemoved != added {
			t.Errorf("swapped: added %d, removed %d, want %d and %d", backAdded, backRemoved, removed, added)
		}
	})
}

func letters(text []byte, alphabet uint8) []string {
	lines := []string{}
	for _, c := range text {
		lines = append(lines, fmt.Sprintln(int(c)%(int(alphabet)%50+1)))
	}
	return lines
}

// longestCommon is the length of a longest common subsequence, by the quadratic table.
func longestCommon(a, b []string) int {
	row := make([]int, len(b)+1)
	for i := range a {
		diagonal := 0
		for j := range b {
			above := row[j+1]
			if a[i] == b[j] {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	return row[len(b)]
}

// checkScript fails when the edits do not turn a into b, or two of them touch.
func checkScript(t *testing.T, a, b []string, edits []edit) {
	t.Helper()
	got := []string{}
	at := 0
	for i, e := range edits {
		if e.oldStart < at || i > 0 && e.oldStart == at {
			t.Fatalf("edit %d of %v touches the one before", i, edits)
		}
		got = append(got, a[at:e.oldStart]...)
		if len(got) != e.newStart {
			t.Fatalf("edit %d of %v starts at line %d of the new text", i, edits, len(got))
		}
		got = append(got, b[e.newStart:e.newEnd]...)
		at = e.oldEnd
	}
	got = append(got, a[at:]...)
	if !slices.Equal(got, b) {
		t.Fatalf("script %v gives\n%q, want\n%q", edits, got, b)
	}
}

func total(edits []edit) (added, removed int) {
	for _, e := range edits {
		added += e.newEnd - e.newStart
		removed += e.oldEnd - e.oldStart
	}
	return added, removed
}

func TestSplitLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":           {},
		"\n":         {"\n"},
		"a":          {"a"},
		"a\n":        {"a\n"},
		"a\r\nb":     {"a\r\n", "b"},
		"\n\n":       {"\n", "\n"},
		"a\rb\x00\n": {"a\rb\x00\n"},
	} {
		if diff := cmp.Diff(want, splitLines(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
		if n := countLines(text); n != len(want) {
			t.Errorf("%q has %d lines, want %d", text, n, len(want))
		}
	}
}

// TestSlide shows where a group of changed lines comes to rest.
func TestSlide(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rule     string
		old, new string // a letter is a line
		want     []edit
	}{
		{"an insertion goes down as far as it can", "a b c", "a b b b c", []edit{{2, 2, 2, 4}}},
		{"a repeated block goes down", "{ x }", "{ x } { x }", []edit{{3, 3, 3, 6}}},
		{"groups that meet are one hunk", "a a", "b a a b a", []edit{{0, 0, 0, 1}, {2, 2, 3, 5}}},
		{"a group stays beside the other side's change", "a b x b c", "a b y c", []edit{{2, 4, 2, 3}}},
	} {
		edits, exact := diffLines(strings.Fields(test.old), strings.Fields(test.new), exactSteps)
		if diff := cmp.Diff(test.want, edits, cmp.AllowUnexported(edit{})); diff != "" || !exact {
			t.Errorf("%s: exact %v (-want +got):\n%s", test.rule, exact, diff)
		}
	}
}

// TestCostBound holds the worst pairs to a valid script in bounded time.
func TestCostBound(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	random := rand.New(rand.NewPCG(1, 2))
	old := make([]string, 60_000)
	for i := range old {
		old[i] = fmt.Sprintln(random.IntN(1000))
	}
	new := slices.Clone(old)
	random.Shuffle(len(new), func(i, j int) { new[i], new[j] = new[j], new[i] })
	start := time.Now()
	edits, exact := diffLines(old, new, exactSteps/20)
	t.Logf("%d lines shuffled: %v", len(old), time.Since(start))
	if exact {
		t.Error("the search was not cut short")
	}
	checkScript(t, old, new, edits)
}

func BenchmarkDiff(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	shuffled := func(n, values int) (old, new []string) {
		for range n {
			old = append(old, fmt.Sprintln(random.IntN(values)))
		}
		new = slices.Clone(old)
		random.Shuffle(n, func(i, j int) { new[i], new[j] = new[j], new[i] })
		return old, new
	}
	edited := func(n, edits int) (old, new []string) {
		for i := range n {
			old = append(old, fmt.Sprintln("line", i))
		}
		new = slices.Clone(old)
		for i := range edits {
			new[i*(n/edits)] = fmt.Sprintln("edit", i)
		}
		return old, new
	}
	for _, c := range []struct {
		name string
		pair func() (old, new []string)
	}{
		{"million-1000-edits", func() (old, new []string) { return edited(1_000_000, 1000) }},
		{"million-shuffled", func() (old, new []string) { return shuffled(1_000_000, 1000) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			old, new := c.pair()
			b.ReportAllocs()
			for b.Loop() {
				diffLines(old, new, exactSteps)
			}
		})
	}
}
