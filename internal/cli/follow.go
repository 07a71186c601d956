package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
)

// lookAgain is the pause before a file is looked at again. A person reads no faster, and asking the system to tell of
// changes would be one way on each system, and none on network folders.
const lookAgain = 100 * time.Millisecond

// followTrace yields the events of a cell as they are written, up to the stop. It waits for a trace that is not there yet,
// and for the rest of a line; it ends early with ctx.
func followTrace(ctx context.Context, dir string, c plan.Cell) iter.Seq2[trace.Event, error] {
	return func(yield func(trace.Event, error) bool) {
		f, err := awaitTrace(ctx, dir, c)
		if err != nil {
			yield(trace.Event{}, err)
			return
		}
		defer f.Close()
		for e, err := range trace.Read(&growing{ctx, f}) {
			if ctx.Err() != nil { // what was read of a line is no line
				yield(trace.Event{}, ctx.Err())
				return
			}
			if !yield(e, err) || e.Kind == trace.KindStop {
				return
			}
		}
	}
}

// awaitTrace opens the newest trace of a cell once there is one: a later attempt writes into a folder of its own.
func awaitTrace(ctx context.Context, dir string, c plan.Cell) (*os.File, error) {
	for {
		f, err := newestTrace(dir, result.Dir(c))
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		if err := pause(ctx, lookAgain); err != nil {
			return nil, err
		}
	}
}

// newestTrace opens the trace in the folder of a cell, or in that of an attempt, that was written to last.
func newestTrace(dir, cell string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names := []string{path.Join(cell, traceFile)}
	found, err := fs.ReadDir(root.FS(), cell)
	if err != nil {
		return nil, err
	}
	for _, d := range found {
		if strings.HasPrefix(d.Name(), "attempt-") {
			names = append(names, path.Join(cell, d.Name(), traceFile))
		}
	}
	newest, written := "", time.Time{}
	for _, name := range names {
		if info, err := root.Lstat(name); err == nil && (newest == "" || info.ModTime().After(written)) {
			newest, written = name, info.ModTime()
		}
	}
	if newest == "" {
		return nil, fs.ErrNotExist
	}
	return openRegular(dir, newest)
}

// growing reads a file that others still write to: at its end it waits for more.
type growing struct {
	ctx context.Context
	r   io.Reader
}

func (g *growing) Read(p []byte) (int, error) {
	for {
		n, err := g.r.Read(p)
		if n > 0 || err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		if err := pause(g.ctx, lookAgain); err != nil {
			return 0, err
		}
	}
}
