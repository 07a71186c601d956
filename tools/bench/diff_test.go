package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPairsHaveTheSameBytes also holds that the line counts of a pair are those that it promises. Figures of two runs can only
// be compared while the digests stay.
func TestPairsHaveTheSameBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pair          pair
		before, after string
	}{
		{small, "9eca5b705e8c677f7571e429838cd41f1ac3312c4e7bf3386692b952df9154e5",
			"dccf4c2b66385e671bef5484582cbaf73118ff421652246758b9b598165bbb51"},
		{treePair("tree", 40, 5, 3), "f9747669f9b93e85f163a2837c8f0491f31be1acff09d97adac133b56389989c",
			"3aa2819009fb206ae7d918ff3dcd93996ed09abf96fc040ed8a5b4a101071d7b"},
	} {
		dir := t.TempDir()
		before, after := filepath.Join(dir, "before"), filepath.Join(dir, "after")
		if err := c.pair.write(before, after); err != nil {
			t.Fatal(err)
		}
		if got := digest(t, before); got != c.before {
			t.Errorf("%s: before has digest %s", c.pair.what, got)
		}
		if got := digest(t, after); got != c.after {
			t.Errorf("%s: after has digest %s", c.pair.what, got)
		}
		if got := replaced(t, before, after); got != c.pair.want {
			t.Errorf("%s: replaced %+v, want %+v", c.pair.what, got, c.pair.want)
		}
	}
}

// replaced counts the lines that differ at the same place.
func replaced(t *testing.T, before, after string) counts {
	t.Helper()
	var got counts
	err := filepath.WalkDir(before, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		old, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		new, err := os.ReadFile(after + name[len(before):])
		if err != nil {
			return err
		}
		n := 0
		lines := strings.Split(string(new), "\n")
		for i, line := range strings.Split(string(old), "\n") {
			if line != lines[i] {
				n++
			}
		}
		if n > 0 {
			got = counts{got.files + 1, got.added + n, got.removed + n}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestCheckOfAPair(t *testing.T) {
	t.Parallel()
	exact := pair{what: "exact", want: counts{2, 10, 10}}
	bound := pair{what: "bound", want: counts{1, 100, 100}, bound: true}
	for _, c := range []struct {
		rule        string
		pair        pair
		assay, git  counts
		approximate bool
		right       bool
	}{
		{"equal", exact, counts{2, 10, 10}, counts{2, 10, 10}, false, true},
		{"git is larger", exact, counts{2, 10, 10}, counts{2, 12, 12}, false, true},
		{"git is smaller", exact, counts{2, 10, 10}, counts{2, 9, 9}, false, false},
		{"nothing found", exact, counts{}, counts{2, 10, 10}, false, false},
		{"too few lines", exact, counts{2, 9, 10}, counts{2, 10, 10}, false, false},
		{"git has other files", exact, counts{2, 10, 10}, counts{3, 10, 10}, false, false},
		{"approximate for no reason", exact, counts{2, 10, 10}, counts{2, 10, 10}, true, false},
		{"a bound close to git's", bound, counts{1, 92, 92}, counts{1, 90, 90}, true, true},
		{"a bound far from git's", bound, counts{1, 99, 99}, counts{1, 90, 90}, true, false},
		{"a bound that does not say so", bound, counts{1, 90, 90}, counts{1, 90, 90}, false, false},
		{"a bound with uneven sides", bound, counts{1, 90, 91}, counts{1, 90, 90}, true, false},
		{"more lines than there are", bound, counts{1, 101, 101}, counts{1, 100, 100}, true, false},
	} {
		if err := c.pair.check(c.assay, c.git, c.approximate); (err == nil) != c.right {
			t.Errorf("%s: %v", c.rule, err)
		}
	}
}

func TestParseNumstat(t *testing.T) {
	t.Parallel()
	got, err := parseNumstat("1\t2\tbefore/a\n30\t0\tafter/b c\n")
	if want := (counts{2, 31, 2}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if got, err := parseNumstat(""); err != nil || got != (counts{}) {
		t.Errorf("no line: %+v, %v", got, err)
	}
	for _, text := range []string{"-\t-\tbinary\n", "fatal: not a git repository\n"} {
		if _, err := parseNumstat(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

const stagesText = `goos: linux
BenchmarkStages/snapshot-2   1   1500000 ns/op
BenchmarkStages/again-2      1    700000 ns/op
BenchmarkStages/diff         1    2500.5 ns/op   30.00 added   4.000 files   20.00 removed
BenchmarkStages/cell-16      1   3000000 ns/op
PASS
`

func TestParseStages(t *testing.T) {
	t.Parallel()
	stages, got, err := parseStages(stagesText)
	if err != nil || got != (counts{4, 30, 20}) {
		t.Errorf("%+v, %v", got, err)
	}
	for stage, want := range map[string]time.Duration{"snapshot": 1500000, "again": 700000, "diff": 2500, "cell": 3000000} {
		if stages[stage] != want {
			t.Errorf("%s took %v, want %v", stage, stages[stage], want)
		}
	}
	for line := range strings.Lines(stagesText) {
		if _, _, err := parseStages(strings.Replace(stagesText, line, "", 1)); strings.HasPrefix(line, "Bench") && err == nil {
			t.Errorf("without %q: no error", line)
		}
	}
}

func TestBarsOfSecondsTakeTheLeast(t *testing.T) {
	t.Parallel()
	for want, values := range map[string][]float64{
		met: {9, 20, 30}, undecided: {12, 20, 30}, missed: {12, 12, 12},
	} {
		if got := (bar{values: slices.Clone(values), limit: 10, seconds: true}).judge(); got != want {
			t.Errorf("%v: %s, want %s", values, got, want)
		}
	}
}
