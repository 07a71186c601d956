package executor

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/redact"
)

// TestA24CutsAreMarked has programs of others say a secret where an error about them is cut, at every byte of it. A redactor
// finds what is left.
func TestA24CutsAreMarked(t *testing.T) {
	t.Parallel()
	const secret = `sk-"canary"-0123456789abcdef`
	secrets := redact.New([]redact.Secret{{Name: "KEY", Value: secret}})
	for name, c := range map[string]struct {
		at  int // where a text is cut
		say func(said string) string
	}{
		"docker": {500, func(said string) string {
			c := &clipped{most: 2 << 10}
			c.Write([]byte(said))
			return c.String()
		}},
		"report": {200, func(said string) string { _, err := parseReport(said); return err.Error() }},
		"report number": {200, func(said string) string {
			_, err := parseReport("assay x 2 3 4 5 6 7 8 9\n" + said[24:])
			return err.Error()
		}},
		"look":        {200, func(said string) string { _, err := parseLook(said); return err.Error() }},
		"look routes": {200, func(said string) string { _, err := parseLook("has\nx\ny\n" + said[8:]); return err.Error() }},
		"lacks":       {100, func(said string) string { _, err := parseLook("lacks " + said); return err.Error() }},
		"answer":      {200, func(said string) string { _, err := parseAnswer([]byte(said)); return err.Error() }},
		"supervisor":  {500, func(said string) string { return fmt.Sprintf("%q", shorten(said, 500)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for have := 8; have < len(secret); have++ {
				text := c.say(strings.Repeat("x", c.at-have) + secret + " and more")
				record, err := json.Marshal(map[string]string{"detail": text})
				if err != nil {
					t.Fatal(err)
				}
				for _, text := range []string{text, string(record)} {
					if clean := secrets.String(text); strings.Contains(clean, "sk-") || !strings.Contains(clean, "[redacted:KEY]…") {
						t.Errorf("%d bytes of the secret: %s", have, clean)
					}
				}
			}
		})
	}
}
