package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/result"
)

// neighbours is a suite of two agents that work at the same time: one keeps something, the other looks for it, and for what
// only our user may read.
const neighbours = `
-- suite/suite.yaml --
name: neighbours
retries: 0
limits: {timeout: 1m}
matrix:
  harnesses: [{id: shell, type: command, stdin: prompt, argv: [sh]}]
  trials: 1
-- suite/keeper/case.yaml --
id: keeper
prompt: |
  echo hidden from others >own.txt
  id -u >me.txt
  pwd >SHARED/keeper
  n=0; until [ -e SHARED/seen ] || [ $n -gt 300 ]; do n=$((n + 1)); sleep 0.1; done
source: {path: fixture}
assertions: [{id: done, type: files, exist: [own.txt, me.txt]}]
-- suite/keeper/fixture/f.txt --
x
-- suite/snoop/case.yaml --
id: snoop
prompt: |
  n=0; until [ -s SHARED/keeper ] || [ $n -gt 300 ]; do n=$((n + 1)); sleep 0.1; done
  cat "$(cat SHARED/keeper)/own.txt" SHARED/ours.txt >got.txt 2>/dev/null
  echo forged >"$(cat SHARED/keeper)/own.txt"
  id -u >me.txt
  echo looked >>got.txt
  touch SHARED/seen
source: {path: fixture}
assertions: [{id: done, type: files, exist: [got.txt, me.txt]}]
-- suite/snoop/fixture/f.txt --
x
`

// TestUsersOfTheirOwn: with isolation uid agents are users of their own. None reads or writes in the place of another that works
// beside it, nor reads a file of ours; without it one does all of that.
func TestUsersOfTheirOwn(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("it takes root to run commands as other users")
	}
	a := newAttack(t, neighbours)
	must(os.Chmod(filepath.Dir(a.dir), 0o711)) // every user must be able to pass the folders above a place
	for _, c := range []struct {
		isolation, name string
		got             []string // by the snoop
		own             string   // of the keeper, in the end
	}{
		{"none", "host", []string{"hidden from others", "ours alone", "looked"}, "forged"},
		{"uid", "host, uid", []string{"looked"}, "hidden from others"},
	} {
		t.Run(c.isolation, func(t *testing.T) {
			shared := filepath.Join(a.dir, "shared-"+c.isolation)
			must(os.Mkdir(shared, 0o755))
			must(os.Chmod(shared, 0o777)) // whatever our umask is
			must(os.WriteFile(filepath.Join(shared, "ours.txt"), []byte("ours alone\n"), 0o600))
			suite := "suite-" + c.isolation
			must(os.CopyFS(filepath.Join(a.dir, suite), os.DirFS(filepath.Join(a.dir, "suite"))))
			for _, name := range []string{"keeper", "snoop"} {
				file := filepath.Join(a.dir, suite, name, "case.yaml")
				text, err := os.ReadFile(file)
				must(err)
				must(os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "SHARED", shared)), 0o644))
			}
			out := filepath.Join(a.dir, "out-"+c.isolation)
			a.assay(0, "run", suite, "--jobs", "2", "--isolation", c.isolation, "--out", out)
			m, err := result.ReadManifest(out)
			must(err)
			if m.Executor != c.name {
				t.Errorf("the executor is %q, want %q", m.Executor, c.name)
			}
			keeper, snoop := addedLines(t, out, "keeper"), addedLines(t, out, "snoop")
			if got := strings.Join(snoop["got.txt"], ", "); got != strings.Join(c.got, ", ") {
				t.Errorf("the snoop has %q, want %q", got, c.got)
			}
			if own := strings.Join(keeper["own.txt"], ", "); own != c.own {
				t.Errorf("the keeper has %q, want %q", own, c.own)
			}
			same := keeper["me.txt"][0] == snoop["me.txt"][0]
			if same != (c.isolation == "none") || !same && (keeper["me.txt"][0] == "0" || snoop["me.txt"][0] == "0") {
				t.Errorf("they are the users %s and %s", keeper["me.txt"], snoop["me.txt"])
			}
		})
	}
}

// addedLines are the lines that the agent of a case added, by file.
func addedLines(t *testing.T, out, id string) map[string][]string {
	t.Helper()
	patches, err := filepath.Glob(filepath.Join(out, "cells", id, "*", "*", "diff.patch"))
	if err != nil || len(patches) != 1 {
		t.Fatalf("case %s has the patches %q, %v", id, patches, err)
	}
	text, err := os.ReadFile(patches[0])
	must(err)
	lines, file := map[string][]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if m := regexp.MustCompile(`^\+\+\+ "?b/(.*?)"?$`).FindStringSubmatch(line); m != nil {
			file = m[1]
		} else if added, is := strings.CutPrefix(line, "+"); is {
			lines[file] = append(lines[file], added)
		}
	}
	return lines
}
