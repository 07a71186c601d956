package run

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/redact"
	"github.com/assay-ci/assay/internal/redacttest"
)

// TestA24ClipLeavesNoBeginning has a text cut at every byte of a secret in it: what is kept of the record is redacted later.
func TestA24ClipLeavesNoBeginning(t *testing.T) {
	t.Parallel()
	const secret = "sk-cut/ 7Fq+\"v'é<&$Zr0"
	r := redact.New([]redact.Secret{{Name: "KEY", Value: secret}})
	for at := 8; at < len(secret)-1; at++ {
		record, err := json.Marshal(clip(strings.Repeat("x", 100-at)+secret+" and more", 100))
		if err != nil {
			t.Fatal(err)
		}
		if len(redacttest.Find(string(record), secret[:8])) == 0 {
			t.Fatalf("cut at %d: nothing is tested with %s", at, record)
		}
		if out := r.String(string(record)); len(redacttest.Find(out, secret[:8])) > 0 {
			t.Errorf("cut at %d: a part is left in %s", at, out)
		}
	}
}
