//go:build negative

package executor

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// bounded is how long these tests wait for what is sure to come.
const bounded = 4 * time.Second

// TestA02WithoutOurPipes: os/exec with a buffer waits for whoever holds the pipe, long after the command itself has ended.
func TestA02WithoutOurPipes(t *testing.T) {
	release, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command("sh", "-c", "echo done; cat <&3 &")
	cmd.Stdout, cmd.ExtraFiles = &out, []*os.File{release}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	release.Close()
	waited := make(chan error, 1)
	go func() { waited <- cmd.Wait() }()
	for began := time.Now(); !errors.Is(syscall.Kill(cmd.Process.Pid, 0), syscall.ESRCH); runtime.Gosched() {
		if time.Since(began) > bounded {
			t.Fatal("the command itself does not end")
		}
	}
	select {
	case err := <-waited:
		t.Errorf("the command ended (%v) with its output held: the attack of A02 shows nothing", err)
	case <-time.After(500 * time.Millisecond):
	}
	hold.Close() // the child that holds the output ends
	select {
	case err := <-waited:
		if err != nil || out.String() != "done\n" {
			t.Errorf("%v, %q", err, out.String())
		}
	case <-time.After(bounded):
		t.Error("it was not the child that held the command")
	}
}

// TestA04OnePipeAfterTheOther: whoever reads standard output to its end first never sees it, for the program waits until
// somebody reads its standard error.
func TestA04OnePipeAfterTheOther(t *testing.T) {
	argv := self("noisy")
	cmd := exec.Command(argv[0], argv[1:]...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer time.AfterFunc(bounded, func() { cmd.Process.Kill() }).Stop()
	read := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(stdout)
		read <- string(b)
	}()
	if _, err := io.ReadFull(stderr, make([]byte, 1)); err != nil { // the flood has begun
		t.Fatal(err)
	}
	select {
	case got := <-read:
		t.Errorf("standard output ended with %q: the attack of A04 shows nothing", got)
	case <-time.After(500 * time.Millisecond):
	}
	if n, err := io.Copy(io.Discard, stderr); n != 299_999 || err != nil {
		t.Errorf("%d bytes more on standard error, %v", n, err)
	}
	if got := <-read; got != "done\n" {
		t.Errorf("after both were read, standard output is %q", got)
	}
}

// TestA05EverythingInABuffer: a buffer takes as much memory as an agent cares to print.
func TestA05EverythingInABuffer(t *testing.T) {
	const size = 64 << 20
	allocated := func(w io.Writer) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		argv := self("flood", strconv.Itoa(size))
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stdout = w
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	var all bytes.Buffer
	if n := allocated(&all); n < size || all.Len() != size {
		t.Errorf("a buffer of %d bytes took %d: the attack of A05 shows nothing", all.Len(), n)
	}
	var kept counter
	if n := allocated(NewLog(&kept)); n > size/4 {
		t.Errorf("the log took %d bytes of memory for an output of %d", n, size)
	}
}
