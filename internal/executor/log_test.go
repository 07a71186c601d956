package executor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// pattern returns n bytes in which no short piece repeats soon, so that a misplaced byte shows.
func pattern(n int) []byte {
	p := make([]byte, n)
	x := uint32(1)
	for i := range p {
		x = x*1664525 + 1013904223
		p[i] = byte(x >> 24)
	}
	return p
}

// kept is what a log of all keeps, by definition.
func kept(all []byte) []byte {
	if len(all) <= logHead+logTail {
		return all
	}
	marker := fmt.Sprintf("\n[assay: %d bytes seen, %d dropped here]\n", len(all), len(all)-logHead-logTail)
	return bytes.Join([][]byte{all[:logHead], all[len(all)-logTail:]}, []byte(marker))
}

func TestLogKeepsHeadAndTail(t *testing.T) {
	t.Parallel()
	source := pattern(logHead + 3*logTail)
	sizes := []int{0, 1, 7, logHead - 1, logHead, logHead + 1, logHead + logTail - 1, logHead + logTail, logHead + logTail + 1,
		logHead + 2*logTail, logHead + 2*logTail + 5, len(source)}
	for _, size := range sizes {
		for _, chunk := range []int{1 << 16, 100_003, logTail, len(source)} {
			var got bytes.Buffer
			l := NewLog(&got)
			for rest := source[:size]; len(rest) > 0; {
				n := min(chunk, len(rest))
				if m, err := l.Write(rest[:n]); m != n || err != nil {
					t.Fatalf("Write(%d bytes) = %d, %v", n, m, err)
				}
				rest = rest[n:]
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), kept(source[:size])) {
				t.Errorf("%d bytes in pieces of %d: kept %d bytes, not the first and last 4 MiB", size, chunk, got.Len())
			}
		}
	}
}

func TestLogDoesNotDependOnHowItIsWritten(t *testing.T) {
	t.Parallel()
	source := pattern(logHead + 2*logTail)
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(logHead, len(source)).Draw(t, "size")
		var got bytes.Buffer
		l := NewLog(&got)
		for rest := source[:size]; len(rest) > 0; {
			n := min(rapid.IntRange(1, 3<<20).Draw(t, "piece"), len(rest))
			l.Write(rest[:n])
			rest = rest[n:]
		}
		l.Close()
		if !bytes.Equal(got.Bytes(), kept(source[:size])) {
			t.Fatalf("%d bytes: kept something else than the first and last 4 MiB", size)
		}
	})
}

func TestLogStreamsItsHead(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	l := NewLog(&got)
	io.WriteString(l, "first line\n")
	if diff := cmp.Diff("first line\n", got.String()); diff != "" {
		t.Errorf("before Close (-want +got):\n%s", diff)
	}
}

func TestLogReportsItsDestination(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	l := NewLog(writerFunc(func(p []byte) (int, error) { return 0, full }))
	if n, err := l.Write([]byte("abc")); n != 3 || !errors.Is(err, full) {
		t.Errorf("Write = %d, %v; want 3, %v", n, err, full)
	}
	if err := l.Close(); !errors.Is(err, full) {
		t.Errorf("Close = %v, want %v", err, full)
	}
	if _, err := l.Write([]byte("abc")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Write after Close = %v, want %v", err, fs.ErrClosed)
	}
}

func TestLogCloseTwiceWritesOnce(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	l := NewLog(&got)
	l.Write(pattern(logHead + logTail + 1))
	l.Close()
	once := got.Len()
	l.Close()
	if got.Len() != once {
		t.Errorf("the second Close wrote %d bytes", got.Len()-once)
	}
}

func TestLogFromManyGoroutines(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	l := NewLog(&got)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				io.WriteString(l, "0123456789\n")
			}
		})
	}
	all.Wait()
	l.Close()
	if want := bytes.Repeat([]byte("0123456789\n"), 8000); !bytes.Equal(got.Bytes(), want) {
		t.Error("lines were torn or lost")
	}
}

func BenchmarkLog(b *testing.B) {
	piece := pattern(32 << 10)
	b.SetBytes(1 << 30)
	b.ReportAllocs()
	for b.Loop() {
		l := NewLog(io.Discard)
		for range 1 << 30 / len(piece) {
			l.Write(piece)
		}
		l.Close()
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
