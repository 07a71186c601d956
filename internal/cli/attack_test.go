package cli

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/result"
	"github.com/google/go-cmp/cmp"
)

// planted is a suite whose agent leaves a repository behind in which everything that git would run for somebody who asks it
// is a program of the agent's, and a grader that asks git.
const planted = `
-- suite/suite.yaml --
name: planted
retries: 0
matrix:
  trials: 1
  harnesses: [{id: planter, type: script, steps: [{run: "sh YARD/plant.sh"}, {say: done}]}]
-- suite/task/case.yaml --
id: task
prompt: Write FIXED into answer.txt.
source: {path: fixture}
assertions:
  - {id: correct, type: files, present: ["^FIXED"]}
  - {id: small, type: diff_scope, max_files_touched: 2}
  - {id: asks_git, type: command, run: "git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -q -m x && git diff HEAD && git status"}
-- suite/task/fixture/answer.txt --
BROKEN
-- plant.sh --
set -e
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q -b main .
git add -A
git commit -q -m base
canary() {
  printf '#!/bin/sh\n: >YARD/ran-%s\ncat\n' "$1" >"$2"
  chmod 755 "$2"
}
for hook in pre-commit post-checkout post-index-change reference-transaction; do canary $hook .git/hooks/$hook; done
for name in fsmonitor clean smudge textconv external pager sshcommand; do canary $name .git/canary-$name; done
git config filter.planted.clean "$PWD/.git/canary-clean"
git config filter.planted.smudge "$PWD/.git/canary-smudge"
git config diff.planted.textconv "$PWD/.git/canary-textconv"
git config diff.external "$PWD/.git/canary-external"
git config core.pager "$PWD/.git/canary-pager"
git config core.sshCommand "$PWD/.git/canary-sshcommand"
git config core.fsmonitor "$PWD/.git/canary-fsmonitor"
echo '* filter=planted diff=planted' >.gitattributes
echo FIXED >answer.txt
`

// newPlanted makes a yard with that suite.
func newPlanted(t *testing.T) *yard {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git for an agent to plant with")
	}
	y := newYard(t, planted)
	for _, name := range []string{"suite/suite.yaml", "plant.sh"} {
		y.write(name, strings.ReplaceAll(y.read(name), "YARD", y.dir))
	}
	return y
}

// ran are the planted programs that were run.
func (y *yard) ran() (names []string) {
	found, err := filepath.Glob(y.path("ran-*"))
	must(err)
	for _, name := range found {
		names = append(names, strings.TrimPrefix(filepath.Base(name), "ran-"))
	}
	return names
}

// TestA23NothingOfTheAgentsGitRuns: a cell is measured and graded, and graded again, and no hook, monitor, filter or converter
// of the agent's repository is run for it. Where strace works, it watches.
func TestA23NothingOfTheAgentsGitRuns(t *testing.T) {
	t.Parallel()
	y := newPlanted(t)
	for _, args := range [][]string{{"run", "suite", "--out", "out"}, {"grade", "out", "suite"}} {
		log := y.path("execve")
		cmd := exec.Command(y.path("bin", "assay"), args...)
		if watched := y.strace(log); watched != nil {
			cmd = exec.Command(watched[0], slices.Concat(watched[1:], []string{y.path("bin", "assay")}, args)...)
		}
		cmd.Dir, cmd.Env = y.dir, append(os.Environ(), "TMPDIR="+y.path("tmp"), "ASSAY_CACHE="+y.path("cache"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
		if data, err := os.ReadFile(log); err == nil {
			if !bytes.Contains(data, []byte(`execve("`+y.path("bin", "assay"))) {
				t.Fatal("strace saw nothing")
			}
			if hit := regexp.MustCompile(`execve\("[^"]*(canary-|/hooks/)[^\n]*`).Find(data); hit != nil {
				t.Errorf("%s ran %s", args, hit)
			}
		}
		if ran := y.ran(); ran != nil {
			t.Errorf("%s ran %q", args, ran)
		}
	}
	for _, r := range y.records("out") {
		if r.Status != result.Passed {
			t.Errorf("%s: %s\n%+v", r.Status, r.Detail, r.Scores)
		}
	}
}

// strace is the beginning of a command line that writes every program that is started to a file; nil where that is impossible.
func (y *yard) strace(log string) []string {
	watched := []string{"strace", "-f", "-qq", "-e", "trace=execve", "-o", log}
	if err := exec.Command(watched[0], append(watched[1:], "true")...).Run(); err != nil {
		y.Logf("not watched by strace: %v", err)
		return nil
	}
	return watched
}

// away is a suite of four cases, of which one lies in a private repository and one at an address where nobody answers.
const away = `
-- suite/suite.yaml --
name: away
retries: 0
matrix:
  trials: 2
  harnesses: [{id: echo, type: echo}]
-- suite/one/case.yaml --
id: one
prompt: Say BANANA.
source: {path: ../fixture}
assertions: [{id: says_it, type: files, present: [BANANA]}]
-- suite/two/case.yaml --
id: two
prompt: Say BANANA.
source: {path: ../fixture}
assertions: [{id: says_it, type: files, present: [BANANA]}]
-- suite/private/case.yaml --
id: private
prompt: Say BANANA.
source: {repo: "PRIVATE/r", commit: "1111111111111111111111111111111111111111"}
assertions: [{id: says_it, type: files, present: [BANANA]}]
-- suite/nobody/case.yaml --
id: nobody
prompt: Say BANANA.
source: {repo: "NOBODY/r", commit: "1111111111111111111111111111111111111111"}
assertions: [{id: says_it, type: files, present: [BANANA]}]
-- suite/fixture/f.txt --
x
`

func newAway(t *testing.T) *yard {
	t.Helper()
	private := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(private.Close)
	nobody := httptest.NewServer(nil)
	nobody.Close()
	return newYard(t, strings.NewReplacer("PRIVATE", private.URL, "NOBODY", nobody.URL).Replace(away))
}

// ends starts a run and returns its exit code and what it printed.
func (y *yard) ends(out string, args ...string) (int, string) {
	y.Helper()
	s := y.start(out, args...)
	<-s.done
	return s.cmd.ProcessState.ExitCode(), s.out.String()
}

// TestA30PlannedIsListed: sources that cannot be reached never make a benchmark smaller. The plan is written down before
// anything is reached for, every reason is told at once, and each cell that was not run is listed with its reason.
func TestA30PlannedIsListed(t *testing.T) {
	t.Parallel()
	y := newAway(t)
	code, said := y.ends("out", "--allow-private-hosts", "127.0.0.1")
	if code != ExitUnmeasured || !strings.Contains(said, "case private: repository") || !strings.Contains(said, "no_auth") || !strings.Contains(said, "no_network") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	m, err := result.ReadManifest(y.path("out"))
	must(err)
	if _, err := os.Stat(y.path("out", "cells", "one")); len(m.Cells) != 8 || len(m.Cases) != 4 || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%d cells of %d cases are planned; case one: %v", len(m.Cells), len(m.Cases), err)
	}

	code, said = y.ends("out", "--allow-private-hosts", "127.0.0.1", "--on-unavailable", "skip")
	if code != ExitUnmeasured || !strings.Contains(said, "8/8 cells · 4 passed · 4 skipped") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	got := map[string]string{}
	for _, r := range y.records("out") {
		got[r.Case] = string(r.Status) + " " + string(r.Reason) + " " + regexp.MustCompile("no_[a-z]+|$").FindString(r.Detail)
	}
	want := map[string]string{"one": "passed  ", "two": "passed  ", "private": "skipped unavailable no_auth", "nobody": "skipped unavailable no_network"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	page := y.read("out/benchmark.json")
	for _, name := range []string{"one", "two", "private", "nobody"} {
		if !strings.Contains(page, `"`+name+`"`) {
			t.Errorf("case %s is not in the benchmark", name)
		}
	}
}

// TestUnreachableExecutor: an executor that is not there is told together with all else that is not; nothing vanishes, and a
// folder that has results keeps them.
func TestUnreachableExecutor(t *testing.T) {
	t.Parallel()
	y := newAway(t)
	allow := []string{"--allow-private-hosts", "127.0.0.1", "--image", "none"} // the host makes places of no image
	code, said := y.ends("out", allow...)
	if code != ExitUnmeasured || !strings.Contains(said, "executor host: no_image: ") || !strings.Contains(said, "no_auth") || !strings.Contains(said, "no_network") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	if m, err := result.ReadManifest(y.path("out")); err != nil || len(m.Cells) != 8 {
		t.Errorf("%d cells are planned, %v", len(m.Cells), err)
	}
	code, said = y.ends("skipped", append(allow, "--on-unavailable", "skip")...)
	if code != ExitUnmeasured || !strings.Contains(said, "8/8 cells · 8 skipped") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	for _, r := range y.records("skipped") {
		if r.Status != result.Skipped || !strings.Contains(r.Detail, "no_image") {
			t.Errorf("%s %s: %s", r.Case, r.Status, r.Detail)
		}
	}

	if code, said := y.ends("kept", "--allow-private-hosts", "127.0.0.1", "--on-unavailable", "skip"); !strings.Contains(said, "4 passed") {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	before := y.read("kept/manifest.json") + y.read("kept/benchmark.json")
	code, said = y.ends("kept", append(allow, "--on-unavailable", "skip")...)
	if code != ExitUnmeasured || !strings.Contains(said, "the results in kept stay as they are") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	if after := y.read("kept/manifest.json") + y.read("kept/benchmark.json"); after != before {
		t.Error("the folder changed")
	}
}
