//go:build negative

package cli

import (
	"fmt"
	"strings"
	"testing"
)

// TestA25WithoutTheLog shows what the log of a step is for: printed as it is, or behind a mark alone, an agent's text is
// obeyed; and commands that are switched off under a word that can be guessed are switched on again.
func TestA25WithoutTheLog(t *testing.T) {
	marked := func(text string) string {
		var b strings.Builder
		for line := range strings.Lines(text) {
			fmt.Fprintf(&b, "│ %s", line)
		}
		return b.String()
	}
	for name, printed := range map[string]string{
		"as it is":                  attacks,
		"behind a mark":             marked(attacks),
		"off under a word to guess": "::stop-commands::PWNED\n" + attacks,
	} {
		if commands, _ := obeyed(printed); len(commands) == 0 {
			t.Errorf("%s: the runner obeys nothing, so the attack is none", name)
		}
	}
	for _, bad := range []string{"\x1b", "\u202e", "\u200b"} {
		if !strings.Contains(attacks, bad) {
			t.Errorf("no attack has %q", bad)
		}
	}
}
