//go:build negative

package result

import (
	"testing"

	"github.com/assay-ci/assay/internal/redacttest"
)

// TestA24WithoutTheRedactor shows that what a ledger is told is found in each of its files when nothing takes it out.
func TestA24WithoutTheRedactor(t *testing.T) {
	for _, e := range redacttest.Encodings() {
		dir := t.TempDir()
		l := open(t, dir)
		tell(t, l, e.Encode(told))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if found, files := leaks(t, dir); len(found) != files {
			t.Errorf("%s: found in %d of %d files", e.Name, len(found), files)
		}
	}
}
