// Package e2e tests Assay against parts of nektos/act. It is a module of its own, since act brings some hundred others
// with it that Assay itself has no need of.
package e2e

import (
	"archive/zip"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/publish"
	"github.com/nektos/act/pkg/artifacts"
)

// TestArtifact uploads to act's artifact server and reads back what the server kept. Reading back is the point: the server
// answers some uploads well and keeps nothing of them.
func TestArtifact(t *testing.T) {
	kept := t.TempDir()
	address := serveArtifacts(t, kept)

	dir := t.TempDir()
	random := make([]byte, 9<<20) // two blocks
	rand.NewChaCha8([32]byte{}).Read(random)
	want := map[string]string{
		"benchmark.json":                 `{"schema_version":1}`,
		"cells/tz/qwen3%3A8b/diff.patch": "",
		"cells/tz/a/trace.jsonl":         string(random),
	}
	for name, data := range want {
		name = filepath.Join(dir, strings.ReplaceAll(name, "%3A", ":"))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"scp":"Actions.Results:21:49"}`)) // act's ids are integers
	masked := 0
	u := publish.Uploader{
		Token:      "e30." + claims + ".c2ln",
		Results:    address + "/",
		Server:     "https://github.com",
		Repository: "octo/demo",
		Run:        21,
		Attempt:    1,
		Client:     http.DefaultClient,
		Mask:       func(string) { masked++ },
		Now:        time.Now,
		Sleep:      func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
	page, err := u.Upload(t.Context(), "assay", dir, nil, 7)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(page, "https://github.com/octo/demo/actions/runs/21/artifacts/") || masked == 0 {
		t.Errorf("address %s, %d values masked", page, masked)
	}

	z, err := zip.OpenReader(filepath.Join(kept, "21", "assay", "assay.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := want[f.Name]; !ok || text != string(data) {
			t.Errorf("%s came back as %d bytes", f.Name, len(data))
		}
		delete(want, f.Name)
	}
	for name := range want {
		t.Errorf("%s did not come back", name)
	}
}

// serveArtifacts starts act's artifact server and waits until it takes connections.
func serveArtifacts(t *testing.T, dir string) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close() // the server can only be told a port, not a listener
	t.Cleanup(artifacts.Serve(t.Context(), dir, "127.0.0.1", fmt.Sprint(port)))
	address := fmt.Sprintf("127.0.0.1:%d", port)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			return "http://" + address
		}
		if time.Now().After(deadline) {
			t.Fatalf("act's artifact server does not come up: %v", err)
		}
	}
}
