package cli

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A sweep removes what a dead process left behind, and nothing that only looks like it.
func TestSweep(t *testing.T) {
	temp := t.TempDir()
	living, err := newScratch(temp)
	must(err)
	defer living.remove()
	dead, err := newScratch(temp)
	must(err)
	must(os.MkdirAll(filepath.Join(dead.dir, "place", "deep"), 0o755))
	must(os.Chmod(filepath.Join(dead.dir, "place"), 0)) // an agent may leave it so
	must(dead.lock.Close())                             // as the end of its process does

	must(os.Mkdir(filepath.Join(temp, "assay-notes"), 0o755))
	must(os.Mkdir(filepath.Join(temp, "assay-folder.lock"), 0o755))
	must(os.Mkdir(filepath.Join(temp, "assay-linked"), 0o755))
	must(os.Symlink("/dev/null", filepath.Join(temp, "assay-linked.lock")))
	must(syscall.Mkfifo(filepath.Join(temp, "assay-fifo.lock"), 0o644))

	sweep(temp)

	left := map[string]bool{}
	entries, err := os.ReadDir(temp)
	must(err)
	for _, e := range entries {
		left[e.Name()] = true
	}
	want := map[string]bool{
		filepath.Base(living.dir): true, filepath.Base(living.lock.Name()): true,
		"assay-notes": true, "assay-folder.lock": true, "assay-linked": true, "assay-linked.lock": true, "assay-fifo.lock": true,
	}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

// Several processes that start at the same moment, and sweep each other's half-made scratch folders, each get one.
func TestScratchAtTheSameTime(t *testing.T) {
	temp := t.TempDir()
	made := make(chan *scratch)
	for range 8 {
		go func() {
			for range 50 {
				s, err := newScratch(temp)
				must(err)
				made <- s
			}
		}()
	}
	for range 8 * 50 {
		s := <-made
		if _, err := os.Stat(s.dir); err != nil {
			t.Error(err)
		}
		s.remove()
	}
}
