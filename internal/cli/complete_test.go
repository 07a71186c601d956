package cli

import (
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestExamples runs the examples in the help of every command, in a folder with a suite and results.
func TestExamples(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("agents run on Linux only")
	}
	dir := t.TempDir()
	assay := func(line string) {
		cmd := exec.Command("assay", strings.Fields(line)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "ASSAY_CACHE="+dir+"/cache", "TMPDIR="+dir, quickEnd)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("assay %s: %v\n%s", line, err, out)
		}
	}
	examples := map[string]string{}
	for _, c := range newRoot(IO{}).Commands() {
		if c.Example == "" {
			t.Errorf("assay %s has no example", c.Name())
		}
		examples[c.Name()] = c.Example
	}
	tour := strings.TrimPrefix(newRoot(IO{}).Example, examples["init"]+"\n")
	first := []string{examples["init"], examples["run"], tour, "assay run --out archive/monday", "assay run --shard 1/2 --out part-1", "assay run --shard 2/2 --out part-2"}
	delete(examples, "init")
	delete(examples, "run")
	delete(examples, "publish") // needs a pull request
	for _, lines := range slices.Concat(first, slices.Sorted(maps.Values(examples))) {
		for line := range strings.Lines(lines) {
			assay(strings.TrimPrefix(line, "assay "))
		}
	}
}
