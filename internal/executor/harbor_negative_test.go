//go:build negative

package executor

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestA13WithoutTheLookAtLinks: who lays a place's tar file out name by name writes where the place likes.
func TestA13WithoutTheLookAtLinks(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "canary")
	if err := os.WriteFile(outside, []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
	sent := packed(t, workDir(), tarEntry{Header: tar.Header{Name: "work/l", Linkname: filepath.Dir(outside), Typeflag: tar.TypeSymlink}},
		tarEntry{Header: tar.Header{Name: "work/l/canary", Mode: 0o644}, text: "evil"})
	dir, r := t.TempDir(), tar.NewReader(bytes.NewReader(sent))
	for {
		h, err := r.Next()
		if err != nil {
			break
		}
		name := filepath.Join(dir, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			os.Mkdir(name, 0o755)
		case tar.TypeSymlink:
			os.Symlink(h.Linkname, name)
		default:
			text, _ := io.ReadAll(r)
			os.WriteFile(name, text, 0o644)
		}
	}
	if text, _ := os.ReadFile(outside); string(text) != "evil" {
		t.Errorf("the file outside holds %q: the attack does not work, so its control shows nothing", text)
	}
}

// TestA07HarborWithoutTheSweep: a container outlives whoever started it.
func TestA07HarborWithoutTheSweep(t *testing.T) {
	b := newHarbor(t)
	p, _ := newFar(t, b)
	syscall.Kill(p.bridge.process.Process.Pid, syscall.SIGKILL)
	<-p.bridge.ended
	if leftOf(t, b, "label=com.docker.compose.project="+p.session) == "" {
		t.Error("nothing was left: the attack does not work, so its control shows nothing")
	}
	b.remove(context.Background(), "label=com.docker.compose.project="+p.session, func(owner) bool { return true })
}
