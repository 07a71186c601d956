package diffscope

import (
	"os"
	"strings"
	"testing"
)

// TestAgainSharesWhatIsOnDisk takes a second snapshot that has room in memory for everything, after a first one that had none.
// Kept twice, all of it would have to be hashed for the comparison.
func TestAgainSharesWhatIsOnDisk(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a line\n", 5000)
	root := folder{"empty": "", "short": "x\n", "long": long, "last": long, "longer": long}.write(t)
	lim := standardLimits()
	lim.memory = 0
	before, err := snapshot(t.Context(), root, Tree{}, lim)
	must(t, err)
	must(t, os.WriteFile(root+"/last", []byte(long[:len(long)-1]+"!"), 0o644))
	must(t, os.WriteFile(root+"/longer", []byte(long+"\n"), 0o644))
	after := again(t, before, root)
	for name, shared := range map[string]bool{"empty": true, "short": true, "long": true, "last": false, "longer": false} {
		old, new := find(before.entries, name).blob, find(after.entries, name).blob
		if (old == new) != shared {
			t.Errorf("%s: shared is %v, want %v", name, old == new, shared)
		}
	}
	if _, s := compare(t, before, after, Paths{}); s.Counts != (Counts{FilesTouched: 2, LinesAdded: 2, LinesRemoved: 1, Hunks: 2}) {
		t.Errorf("counts %+v", s.Counts)
	}
}
