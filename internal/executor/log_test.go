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
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// kept is what a log keeps of all, by definition.
func kept(all []byte, head, tail int) []byte {
	if len(all) <= head+tail {
		return all
	}
	marker := fmt.Sprintf("\n[assay: %d bytes seen, %d dropped here]\n", len(all), len(all)-head-tail)
	return bytes.Join([][]byte{all[:head], all[len(all)-tail:]}, []byte(marker))
}

func TestLogKeepsHeadAndTail(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		head, tail := rapid.IntRange(1, 20).Draw(t, "head"), rapid.IntRange(1, 20).Draw(t, "tail")
		pieces := rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 50)).Draw(t, "pieces")
		var got bytes.Buffer
		l := NewLog(&got)
		l.head, l.most = head, tail
		for _, p := range pieces {
			if n, err := l.Write(p); n != len(p) || err != nil {
				t.Fatalf("Write(%d bytes) = %d, %v", len(p), n, err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(kept(bytes.Join(pieces, nil), head, tail), got.Bytes(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("log (-want +got):\n%s", diff)
		}
	})
}

func TestLogKeepsFourMebibytesEach(t *testing.T) {
	t.Parallel()
	for _, size := range []int{8 << 20, 8<<20 + 1} {
		all := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
		var got bytes.Buffer
		l := NewLog(&got)
		l.Write(all)
		l.Close()
		if !bytes.Equal(got.Bytes(), kept(all, 4<<20, 4<<20)) {
			t.Errorf("%d bytes written: kept %d, not the first and last 4 MiB", size, got.Len())
		}
	}
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
	l.Write(make([]byte, logHead+logTail+1))
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
	piece := make([]byte, 32<<10)
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
