//go:build negative

package result

import (
	"path"
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
