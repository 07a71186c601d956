//go:build negative

package redact

import (
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/redacttest"
)

// TestA24WithoutTheRedactor shows what the redactor is for: what only looks for the secret as it is, in one write at a time,
// lets it through in every other encoding, and wherever it is cut.
func TestA24WithoutTheRedactor(t *testing.T) {
	var off *Redactor
	mask := func(s string) string { return strings.ReplaceAll(s, canaryValue, "***") }
	for _, e := range redacttest.Encodings() {
		text := around(e.Encode(canaryValue))
		if len(redacttest.Find(off.String(text), canaryValue)) == 0 {
			t.Errorf("%s: not found in a text that was never redacted", e.Name)
		}
		if found := redacttest.Find(mask(text), canaryValue); e.Name != "raw" && len(found) == 0 {
			t.Errorf("%s: a mask of the exact text would do", e.Name)
		}
	}
	text := around(canaryValue)
	for cut := len("the key: ") + 1; cut < len(text)-len(" and more"); cut++ {
		if len(redacttest.Find(mask(text[:cut])+mask(text[cut:]), canaryValue)) == 0 {
			t.Errorf("cut at %d: a mask of single writes would do", cut)
		}
	}
}
