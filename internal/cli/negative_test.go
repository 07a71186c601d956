//go:build negative

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// TestA09WithoutTheWalls shows that the agent that looks for keys finds them when it is started as any program starts
// another: with our environment, by a parent whose own is open.
func TestA09WithoutTheWalls(t *testing.T) {
	r := newCanaryRun(t)
	key := r.canaries[0]
	parent := exec.Command("sh", append([]string{"-c", `mkdir -p w/home w/tmp; cd w; HOME=$PWD/home TMPDIR=$PWD/tmp "$@" "$LEAKED"; true`, "sh", r.path("bin", "fake-agent")},
		strings.Fields(r.snooping())...)...)
	parent.Dir = r.dir
	parent.Env = []string{"PATH=" + os.Getenv("PATH"), "LEAKED=" + key.value, key.name + "=" + key.value}
	if out, err := parent.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	names, err := filepath.Glob(r.path("loot", "loot-*"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	var l loot
	b, err := os.ReadFile(names[0])
	must(err)
	must(json.Unmarshal(b, &l))
	for _, where := range []string{"environ", "cmdline"} {
		if !slices.Contains(l.Hits, key.name+" raw in "+where) {
			t.Errorf("the agent did not find the key in %s: %v", where, l.Hits)
		}
	}
}
