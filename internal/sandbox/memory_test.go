package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A place is made in memory while there is room, and on the disk when the memory turns out to be full.
func TestMemoryFullFallsBackToDisk(t *testing.T) {
	s := newSandbox(t, nil)
	memory := MemoryFolder()
	if memory == "" {
		t.Skip("this host has no memory folder with room")
	}
	dir, err := os.MkdirTemp(memory, "assay-test-")
	must(t, err)
	defer os.RemoveAll(dir)
	s.Memory = dir

	p, err := s.somewhere(context.Background(), Needs{}, func(*Place) error { return nil })
	must(t, err)
	if !strings.HasPrefix(p.Root, dir) {
		t.Errorf("the place is %s, not in memory", p.Root)
	}
	must(t, p.Close(context.Background()))

	tries := 0
	p, err = s.somewhere(context.Background(), Needs{}, func(p *Place) error {
		if tries++; strings.HasPrefix(p.Root, dir) {
			return wrap("sandbox", "test", &os.PathError{Op: "write", Path: p.Work, Err: syscall.ENOSPC})
		}
		return nil
	})
	must(t, err)
	if tries != 2 || !strings.HasPrefix(p.Root, s.Scratch) {
		t.Errorf("after %d tries the place is %s", tries, p.Root)
	}
	must(t, p.Close(context.Background()))
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("left in memory: %v", left)
	}
}
