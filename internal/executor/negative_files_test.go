//go:build negative

package executor

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestA26WithoutTheControl: whoever opens what an agent left hangs at a FIFO, and whoever reads a file to its end reads a
// terabyte.
func TestA26WithoutTheControl(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		f, err := os.Open(fifo)
		if err == nil {
			f.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Errorf("the FIFO was opened (%v): the attack of A26 shows nothing", err)
	case <-time.After(200 * time.Millisecond):
	}
	writer, err := os.OpenFile(fifo, os.O_WRONLY, 0) // lets the other end go
	if err != nil {
		t.Fatal(err)
	}
	writer.Close()
	<-opened

	sparse, err := os.Create(filepath.Join(t.TempDir(), "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer sparse.Close()
	if err := sparse.Truncate(1 << 40); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	if n, err := io.CopyN(io.Discard, sparse, 2*maxFile); n != 2*maxFile || err != nil {
		t.Errorf("read %d bytes, %v: the attack of A26 shows nothing", n, err)
	}
}
