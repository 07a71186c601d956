//go:build negative

package sandbox

import (
	"os"
	"path/filepath"
	"testing"
)

// What would happen if a cached environment was handed out as it lies there: the poison arrives.
func TestA15PoisonedEnvironmentWithoutTheControl(t *testing.T) {
	s := newSandbox(t, map[string]string{"f/a": "x"})
	src := resolve(t, s, folderCase("f"))
	open(t, s, src, Needs{Environment: environment(t, `{type: command, inputs: [a], run: ["echo good > {env}/tool"]}`)})
	entries, err := filepath.Glob(filepath.Join(s.Cache, "env-*"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(entries[0], "tree/tool"), []byte("poison\n"), 0o644))
	place := t.TempDir()
	must(t, os.CopyFS(place, os.DirFS(filepath.Join(entries[0], "tree"))))
	if got := look(t, place)["tool"]; got != "poison\n" {
		t.Errorf("the attack did not work even without the control: %q", got)
	}
}

// What would happen if nobody looked at a shown tree again: the next place shows what another cell wrote there.
func TestA14ShownTreeWithoutTheControl(t *testing.T) {
	s, _ := overlaid(t, large(nil))
	src := resolve(t, s, folderCase("f"))
	must(t, open(t, s, src, Needs{}).Close(t.Context()))
	stages, err := filepath.Glob(filepath.Join(s.Scratch, "stage*"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(stages[0], "tree/run.sh"), []byte("poison\n"), 0o755))
	upper, at := t.TempDir(), filepath.Join(s.Scratch, "at")
	must(t, os.Mkdir(at, 0o755))
	must(t, mountOverlay(filepath.Join(stages[0], "tree"), upper, at))
	defer func() { must(t, unmountOverlay(at)) }()
	if got := look(t, at)["run.sh*"]; got != "poison\n" {
		t.Errorf("the attack did not work even without the control: %q", got)
	}
}
