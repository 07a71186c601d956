package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A workload is a number of cells that assay and touchstone can both run: harness echo, which writes the prompt to
// ANSWER.md, and one check by regular expression. Both trees hold the same sources. Equal workloads give equal bytes.
type workload struct {
	cases, models, trials int
	files                 int // in the source folder of each case
}

func (w workload) cells() int { return w.cases * w.models * w.trials }

func (w workload) String() string {
	return fmt.Sprintf("%d cells: %d cases x %d models x %d trials, %d files each", w.cells(), w.cases, w.models, w.trials, w.files)
}

// parseGen reads DEST CASES MODELS TRIALS [FILES].
func parseGen(args []string) (dest string, w workload, err error) {
	if len(args) != 4 && len(args) != 5 {
		return "", w, errUsage
	}
	w.files = 3
	for i, n := range []*int{&w.cases, &w.models, &w.trials, &w.files}[:len(args)-1] {
		if *n, err = count(args[i+1]); err != nil {
			return "", w, err
		}
	}
	return args[0], w, nil
}

// count reads a number of at least 1.
func count(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%w: %q is not a positive number", errUsage, s)
	}
	return n, nil
}

const (
	word   = "BANANA"
	prompt = "Say the word " + word + " and write it to ANSWER.md."
)

const touchstoneCase = `id: %s
task:
  prompt: ` + prompt + `
source:
  path: ./source
matrix:
  harnesses: [echo]
  models: [%s]
  trials: %d
graders:
  - {type: files, patterns: ["` + word + `"]}
expect:
  pass_threshold: 1.0
`

const assaySuite = `name: bench
matrix:
  harnesses:
    - {id: echo, type: echo, models: [%s]}
  conditions:
    - {id: only, baseline: true}
  trials: %d
`

const assayCase = `id: %s
prompt: ` + prompt + `
source: {path: source}
assertions:
  - {id: says_it, type: files, present: ["` + word + `"]}
`

// write makes dest with touchstone/evals and assay/evals in it. It refuses a dest that exists.
func (w workload) write(dest string) error {
	if err := os.Mkdir(dest, 0o755); err != nil {
		return err
	}
	models := make([]string, w.models)
	for i := range models {
		models[i] = fmt.Sprintf("m%d", i)
	}
	list := strings.Join(models, ", ")
	touchstone, assay := filepath.Join(dest, "touchstone", "evals"), filepath.Join(dest, "assay", "evals")
	if err := put(fmt.Sprintf(assaySuite, list, w.trials), assay, "suite.yaml"); err != nil {
		return err
	}
	for i := range w.cases {
		name := fmt.Sprintf("case-%03d", i)
		if err := put(fmt.Sprintf(touchstoneCase, name, list, w.trials), touchstone, name, "case.yaml"); err != nil {
			return err
		}
		if err := put(fmt.Sprintf(assayCase, name), assay, name, "case.yaml"); err != nil {
			return err
		}
		for f := range w.files {
			text := strings.Repeat(fmt.Sprintf("line %d\n", f), 20)
			for _, evals := range []string{touchstone, assay} {
				if err := put(text, evals, name, "source", fmt.Sprintf("f%d.txt", f)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// put writes a file, its folders made.
func put(text string, path ...string) error {
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644)
}
