package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// A program is one of the things that are measured. Each of its functions gives the command that does one job.
type program struct {
	name string
	dir  string                         // below the folder of the workload: where it is started
	help []string                       // nil: it has nothing to say
	run  func(b bed, jobs int) []string // runs every cell into b.out
	// again is told to run every cell into b.out, where they all are; nil: it cannot
	again func(b bed) ([]string, error)
	// record is the pattern below b.out of the files that it leaves one a cell of, and passed is what stands in each
	record, passed string
}

// recordName is what assay and the bare loop name the record of a cell.
const recordName = "result.json"

func assayProgram(binary string) program {
	run := func(b bed, jobs int) []string {
		return []string{binary, "run", "evals", "--out", b.out, "--jobs", strconv.Itoa(jobs)}
	}
	return program{
		name:   "assay",
		dir:    "assay",
		help:   []string{binary, "--help"},
		run:    run,
		again:  func(b bed) ([]string, error) { return run(b, 2), nil },
		record: "cells/*/*/*/" + recordName,
		passed: `"status":"passed"`,
	}
}

func touchstoneProgram(binary string) program {
	return program{
		name: "touchstone",
		dir:  "touchstone",
		help: []string{binary, "--help"},
		run: func(b bed, jobs int) []string {
			return []string{binary, "--runs-dir", b.out, "run", "--workers", strconv.Itoa(jobs)}
		},
		again: func(b bed) ([]string, error) {
			runs, err := os.ReadDir(b.out)
			if err != nil {
				return nil, err
			}
			if len(runs) != 1 {
				return nil, fmt.Errorf("touchstone left %d runs to resume, not one", len(runs))
			}
			return []string{binary, "--runs-dir", b.out, "run", "--resume", runs[0].Name()}, nil
		},
		record: "*/cells/*/" + recordName,
		passed: `"overall_passed": true`,
	}
}

func bareProgram(binary string, w workload) program {
	return program{
		name: "bare loop",
		dir:  "assay",
		run: func(b bed, jobs int) []string {
			return []string{binary, "bare", "-jobs", strconv.Itoa(jobs), "evals", strconv.Itoa(w.models * w.trials), b.out}
		},
		record: "*/" + recordName,
		passed: `"after":`,
	}
}

// A bed is where programs are measured: one folder on one file system, with the workload, the folder for results and
// everything temporary in it. The programs must make their work folders below TMPDIR, or they do not run on the same bed.
type bed struct {
	name                   string // tmpfs or disk
	root, tree, tmp, cache string
	out                    string // the results of the last run; another folder for each fresh one
	log                    string // what the last run printed
}

// newBed makes a bed below dir, with nothing in it yet. Whoever asked for it removes b.root.
func newBed(name, dir string) (bed, error) {
	root, err := os.MkdirTemp(dir, "assay-bench-")
	if err != nil {
		return bed{}, err
	}
	in := func(name string) string { return filepath.Join(root, name) }
	b := bed{name: name, root: root, tree: in("tree"), tmp: in("tmp"), cache: in("cache"), log: in("log")}
	return b, os.Mkdir(b.tmp, 0o700)
}

// clear gives the bed an empty folder for results, and waits until the disk has nothing to do any more, so that no run
// pays for the one before. For the same reason the old results stay on a disk until the end: ext4 without a journal is slow
// to make files for a minute after many were removed. In memory they go at once.
func (b *bed) clear() error {
	if b.name == tmpfs {
		if err := os.RemoveAll(b.out); err != nil {
			return err
		}
	}
	out, err := os.MkdirTemp(b.root, "out-")
	if err != nil {
		return err
	}
	b.out = out
	syscall.Sync()
	return nil
}

// A sample is one run of one program, from its start to its end.
type sample struct {
	wall time.Duration
	peak int64 // bytes of memory; never below the memory of this program, which is the process before it becomes another
}

// take measures one command in the bed.
func (b bed) take(ctx context.Context, p program, argv []string) (sample, error) {
	log, err := os.Create(b.log)
	if err != nil {
		return sample{}, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = filepath.Join(b.tree, p.dir)
	cmd.Env = append(os.Environ(), "TMPDIR="+b.tmp, "ASSAY_CACHE="+b.cache)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	started := time.Now()
	err = cmd.Run()
	wall := time.Since(started)
	if ctx.Err() != nil {
		return sample{}, ctx.Err()
	}
	if err != nil {
		return sample{}, fmt.Errorf("%v: %w\n%s", argv, err, b.lastWords())
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return sample{}, errors.New("this system does not tell the memory of a child")
	}
	peak := int64(usage.Maxrss)
	if runtime.GOOS == "linux" {
		peak <<= 10 // Linux counts it in KiB, macOS in bytes
	}
	return sample{wall, peak}, nil
}

// lastWords is the end of what the last run printed.
func (b bed) lastWords() []byte {
	text, err := os.ReadFile(b.log)
	if err != nil {
		return nil
	}
	return text[max(0, len(text)-2<<10):]
}

// fresh measures one run of every cell, and makes sure that every cell was run.
func (b *bed) fresh(ctx context.Context, p program, jobs, cells int) (sample, error) {
	if err := b.clear(); err != nil {
		return sample{}, err
	}
	s, err := b.take(ctx, p, p.run(*b, jobs))
	if err != nil {
		return s, err
	}
	return s, b.check(p, cells)
}

// resume measures another run over the results of the last one.
func (b bed) resume(ctx context.Context, p program, cells int) (sample, error) {
	argv, err := p.again(b)
	if err != nil {
		return sample{}, err
	}
	s, err := b.take(ctx, p, argv)
	if err != nil {
		return s, err
	}
	return s, b.check(p, cells)
}

// check counts the cells that a program says it passed.
func (b bed) check(p program, cells int) error {
	names, err := filepath.Glob(filepath.Join(b.out, filepath.FromSlash(p.record)))
	if err != nil {
		return err
	}
	passed := 0
	for _, name := range names {
		record, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.Contains(record, []byte(p.passed)) {
			passed++
		}
	}
	if passed != cells || len(names) != cells {
		return fmt.Errorf("%s left %d records, %d of them passed, for %d cells: its time means nothing\n%s",
			p.name, len(names), passed, cells, b.lastWords())
	}
	return nil
}
