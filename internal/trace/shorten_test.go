package trace

import (
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/redact"
)

// TestA24ShortenedSecrets puts a secret where an error about a foreign trace is cut, at every byte of it. A redactor finds what
// is left.
func TestA24ShortenedSecrets(t *testing.T) {
	t.Parallel()
	const secret = `sk-"canary"-0123456789abcdef`
	secrets := redact.New([]redact.Secret{{Name: "KEY", Value: secret}})
	for name, c := range map[string]struct {
		at  int // where a text is cut
		say func(said string) string
	}{
		"schema": {40, func(said string) string { return (&atifDocument{Schema: said}).check().Error() }},
		"source": {40, func(said string) string {
			return (&atifDocument{Schema: "ATIF-v1.6", Steps: []*atifStep{{ID: 1, Source: said}}}).check().Error()
		}},
		"text": {50, func(said string) string { return Shorten(said, 50) }},
	} {
		for have := 8; have < len(secret); have++ {
			text := c.say(strings.Repeat("x", c.at-have) + secret + " and more")
			if clean := secrets.String(text); strings.Contains(clean, "sk-") || !strings.Contains(clean, "[redacted:KEY]…") {
				t.Errorf("%s, %d bytes of the secret: %s", name, have, clean)
			}
		}
	}
}

func TestShorten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"aé", 2, "a…"}, {"aé", 3, "aé"},
	} {
		if got := Shorten(c.text, c.n); got != c.want {
			t.Errorf("%q to %d: %q, want %q", c.text, c.n, got, c.want)
		}
	}
}
