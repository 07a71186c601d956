//go:build negative

package publish

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestA27WithoutTheControl: whoever joins the names of an archive to a folder writes beside it.
func TestA27WithoutTheControl(t *testing.T) {
	data := zipOf(t, zipEntry{name: "../x", data: "x"})
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if z == nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range z.File {
		if err := os.WriteFile(filepath.Join(dir, "into", f.Name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "x")); err != nil {
		t.Errorf("%v: the attack of A27 shows nothing", err)
	}
}
