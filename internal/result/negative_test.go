//go:build negative

package result

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestA32WithoutTheControl: names that are merely made harmless, or merely joined, put two cells into one folder or one cell
// outside of the ledger.
func TestA32WithoutTheControl(t *testing.T) {
	joined := func(names ...string) string { return path.Join("cells", strings.Join(names, "-")) }
	if joined("a", "b-c") != joined("a-b", "c") {
		t.Error("joined names are told apart: the attack of A32 shows nothing")
	}
	harmless := func(name string) string { return strings.ReplaceAll(name, "/", "-") }
	if harmless("a/b") != harmless("a-b") {
		t.Error("a/b and a-b are told apart: the attack of A32 shows nothing")
	}
	if out := path.Join("cells", "../../x"); !strings.HasPrefix(out, "../") {
		t.Error("../x stays below the ledger: the attack of A32 shows nothing")
	}
}

// TestA14WithoutTheJournal: a record whose own sum is right is believed where nobody else knows what was committed.
func TestA14WithoutTheJournal(t *testing.T) {
	dir, cells := forged(t)
	if err := os.Remove(filepath.Join(dir, journalName)); err != nil {
		t.Fatal(err)
	}
	l := open(t, dir)
	defer l.Close()
	if r, ok, err := l.Lookup(cells[0]); !ok || err != nil || r.Status != Passed {
		t.Errorf("the forged record is %s (%v %v): the attack of A14 shows nothing", r.Status, ok, err)
	}
}
