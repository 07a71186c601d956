package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// golden is the digest of the workload 2 × 2 × 3 with 2 files. Figures of two runs can only be compared while it stays.
const golden = "63fc7562eeaaf9c126f557ff4e7f2e33eabbece29d67f7ec540efec2dde5d2a9"

func TestGenWritesTheSameBytes(t *testing.T) {
	t.Parallel()
	dest := filepath.Join(t.TempDir(), "tree")
	var out, log bytes.Buffer
	if code := run(context.Background(), []string{"gen", dest, "2", "2", "3", "2"}, &out, &log); code != 0 {
		t.Fatalf("exit code %d: %s", code, &log)
	}
	if want := "12 cells: 2 cases x 2 models x 3 trials, 2 files each\n"; out.String() != want {
		t.Errorf("printed %q, want %q", &out, want)
	}
	if got := digest(t, dest); got != golden {
		t.Errorf("the tree has digest %s, want %s", got, golden)
	}
	if code := run(context.Background(), []string{"gen", dest, "1", "1", "1"}, &out, &log); code != 1 {
		t.Errorf("a folder that exists: exit code %d", code)
	}
}

// digest is the sha256 over a line for each file: the sha256 of its bytes, a space, its slash separated path.
func digest(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		fmt.Fprintf(sum, "%x %s\n", sha256.Sum256(data), name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		nil, {"fly"}, {"gen", "x", "1", "1"}, {"gen", "x", "1", "0", "1"}, {"gen", "x", "1", "1", "-2"},
		{"bare", "evals", "1"}, {"bare", "-jobs", "0", "evals", "1", "out"}, {"bare", "evals", "none", "out"},
		{"compare", "-rounds", "4"}, {"compare", "more"}, {"diff", "-rounds", "4"}, {"diff", "more"}, {"verdicts", "-rounds", "4"},
	} {
		var log bytes.Buffer
		if code := run(context.Background(), args, &log, &log); code != 2 || !strings.HasPrefix(log.String(), "usage:") {
			t.Errorf("%q: exit code %d, %s", args, code, &log)
		}
	}
}

func bedWith(t *testing.T, w workload) bed {
	t.Helper()
	b, err := newBed(tmpfs, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.write(b.tree); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBareLoop lets the bare loop run a small workload, and the check of its results fail when one is gone.
func TestBareLoop(t *testing.T) {
	w := workload{cases: 2, models: 2, trials: 2, files: 3}
	b := bedWith(t, w)
	t.Setenv("TMPDIR", b.tmp)
	for _, jobs := range []int{1, 2} {
		if err := b.clear(); err != nil {
			t.Fatal(err)
		}
		if err := bare(context.Background(), filepath.Join(b.tree, "assay", "evals"), 4, b.out, jobs); err != nil {
			t.Fatal(err)
		}
		if err := b.check(bareProgram("", w), w.cells()); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(b.tmp); err != nil || len(left) > 0 {
		t.Errorf("it left %v in its temporary folder, %v", left, err)
	}
	if err := os.Remove(filepath.Join(b.out, "case-001-3", recordName)); err != nil {
		t.Fatal(err)
	}
	if err := b.check(bareProgram("", w), w.cells()); err == nil {
		t.Error("a result is missing and nobody said so")
	}
}

func TestBareLoopStops(t *testing.T) {
	t.Parallel()
	b := bedWith(t, workload{cases: 1, models: 1, trials: 1, files: 1})
	evals := filepath.Join(b.tree, "assay", "evals")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := bare(ctx, evals, 1, b.root, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if err := bare(context.Background(), evals, 1, filepath.Join(b.tree, "assay", "evals", "suite.yaml"), 1); err == nil {
		t.Error("a folder for results that is a file: no error")
	}
	if err := bare(context.Background(), b.tmp, 1, b.root, 1); err == nil {
		t.Error("no cases: no error")
	}
}

func TestHashFolderSeesEveryByte(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for what, files := range map[string]map[string]string{
		"one file":       {"a": "x"},
		"other bytes":    {"a": "y"},
		"other name":     {"b": "x"},
		"two files":      {"a": "x", "b": ""},
		"joined names":   {"a": "x", "c": ""},
		"nothing at all": {},
	} {
		dir := t.TempDir()
		for name, text := range files {
			if err := put(text, dir, name); err != nil {
				t.Fatal(err)
			}
		}
		sum, err := hashFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[string(sum)]; ok {
			t.Errorf("%s and %s have one hash", what, other)
		}
		seen[string(sum)] = what
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule    string
		ratios  []float64
		atLeast bool
		limit   float64
		want    string
	}{
		{"at the bar is met", []float64{2.5, 2.5, 2.5}, true, 2.5, met},
		{"above", []float64{1, 3, 4}, true, 2.5, met},
		{"below by more than the spread", []float64{2, 2.1, 2.2}, true, 2.5, missed},
		{"below by less than the spread", []float64{1.9, 2.4, 2.9}, true, 2.5, undecided},
		{"below by exactly the spread", []float64{1.5, 2, 2.5}, true, 2.5, missed},
		{"at most: below is met", []float64{0.1, 0.2, 0.3}, false, 0.2, met},
		{"at most: above by more than the spread", []float64{0.3, 0.31, 0.32}, false, 0.2, missed},
		{"at most: above by less than the spread", []float64{0.1, 0.21, 0.5}, false, 0.2, undecided},
		{"no spread, below", []float64{2, 2, 2}, true, 2.5, missed},
	} {
		if got := (bar{values: c.ratios, atLeast: c.atLeast, limit: c.limit}).judge(); got != c.want {
			t.Errorf("%s: %s, want %s", c.rule, got, c.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{[]float64{3}, 0.5, 3},
		{[]float64{4, 1, 3, 2}, 0.5, 2.5},
		{[]float64{5, 1, 4, 2, 3}, 0.25, 2},
		{[]float64{5, 1, 4, 2, 3}, 0.75, 4},
		{[]float64{5, 1}, 1, 5},
		{[]float64{5, 1}, 0, 1},
	} {
		if got := quantile(c.values, c.q); got != c.want {
			t.Errorf("quantile %g of %v is %g, want %g", c.q, c.values, got, c.want)
		}
	}
}

// TestBarsLeaveOutWhatWasNotMeasured also holds that a ratio is formed within its round.
func TestBarsLeaveOutWhatWasNotMeasured(t *testing.T) {
	t.Parallel()
	c := &comparison{beds: []*bed{{name: disk}}, samples: samples{
		{"assay", echo, disk, 1}:     {{wall: 10e9}, {wall: 50e9}},
		{"bare loop", echo, disk, 1}: {{wall: 6e9}, {wall: 10e9}},
	}}
	bars := c.bars()
	if len(bars) != 1 || fmt.Sprint(bars[0].values) != "[0.6 0.2]" {
		t.Errorf("bars %+v, want one with the ratios 0.6 and 0.2", bars)
	}
	var out bytes.Buffer
	if err := printBars(&out, "ratio", bars); err != nil || !strings.Contains(out.String(), undecided) {
		t.Errorf("%v\n%s", err, &out)
	}
	bars[0].values = []float64{0.1, 0.1}
	if err := printBars(&out, "ratio", bars); err == nil {
		t.Error("a bar was missed and nobody said so")
	}
}
