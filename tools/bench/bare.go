package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// bare does for each case in evals, repeat times, what no tool can leave out, and nothing else: it copies the source into
// a fresh folder, hashes that, writes the answer, hashes again, writes three files of results below out, and removes the
// folder. Nothing is synced. It is the limit that assay is held against.
func bare(ctx context.Context, evals string, repeat int, out string, jobs int) error {
	sources, err := filepath.Glob(filepath.Join(evals, "*", "source"))
	if err != nil {
		return err
	}
	if len(sources) == 0 {
		return fmt.Errorf("no case in %s has a source", evals)
	}
	work, err := os.MkdirTemp("", "bare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cells := make(chan int)
	var workers sync.WaitGroup
	for range jobs {
		workers.Go(func() {
			for i := range cells {
				source := sources[i%len(sources)]
				name := fmt.Sprintf("%s-%d", filepath.Base(filepath.Dir(source)), i/len(sources))
				if err := bareCell(source, filepath.Join(work, name), filepath.Join(out, name)); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < len(sources)*repeat && ctx.Err() == nil; i++ {
		cells <- i
	}
	close(cells)
	workers.Wait()
	return context.Cause(ctx)
}

// bareCell runs one cell in the folder work.
func bareCell(source, work, out string) error {
	if err := copyFolder(source, work); err != nil {
		return err
	}
	before, err := hashFolder(work)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(work, "ANSWER.md"), []byte(prompt), 0o644); err != nil {
		return err
	}
	after, err := hashFolder(work)
	if err != nil {
		return err
	}
	if err := bareResults(out, before, after); err != nil {
		return err
	}
	return os.RemoveAll(work)
}

// bareResults writes three files of 1 KiB, which is about what a tool has to say of such a cell.
func bareResults(out string, before, after []byte) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	text := fmt.Appendf(nil, "{\"before\":\"%x\",\"after\":\"%x\"}\n", before, after)
	text = append(text, bytes.Repeat([]byte(" "), 1<<10-len(text))...)
	for _, name := range []string{"trace.jsonl", "diff.patch", recordName} {
		if err := os.WriteFile(filepath.Join(out, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := to + name[len(from):]
		if d.IsDir() {
			return os.Mkdir(target, 0o755)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o644)
	})
}

// hashFolder is the sha256 over the names and bytes of all files.
func hashFolder(dir string) ([]byte, error) {
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		fmt.Fprintf(sum, "%s %d\n", name[len(dir):], len(data))
		sum.Write(data)
		return err
	})
	return sum.Sum(nil), err
}
