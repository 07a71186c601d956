package sandbox

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/suite"
	"github.com/google/go-cmp/cmp"
)

func TestSetup(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, map[string]string{"f/a": "1"})
	src := resolve(t, s, folderCase("f"))
	tests := []struct {
		name     string
		commands []suite.Command
		want     string // of the error
		log      string
	}{
		{"lines and argv", []suite.Command{{Run: `printf "$A $B" > out && echo hi`, Env: map[string]string{"B": "b"}}, {Argv: []string{"echo", "$A"}}}, "", "hi\n$A\n"},
		{"a failure ends it", []suite.Command{{Run: "echo broken >&2; exit 7"}, {Run: "echo never"}}, "setup \"echo broken >&2; exit 7\": exit code 7\nbroken\n", "broken\n"},
		{"a limit", []suite.Command{{Run: "exec sleep 60", Timeout: 50 * time.Millisecond}}, "setup \"exec sleep 60\": ran past its limit of 50ms", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := open(t, s, src, Needs{Env: []string{"A=a"}})
			var log bytes.Buffer
			err := p.Setup(t.Context(), tt.commands, &log)
			got := ""
			var broken *Error
			if errors.As(err, &broken) {
				got = broken.Error()
			}
			if got != tt.want || (err != nil && broken.Class != "environment") || log.String() != tt.log {
				t.Errorf("got %q (%v), log %q", got, err, log.String())
			}
			if data, _ := os.ReadFile(filepath.Join(p.Work, "out")); err == nil && string(data) != "a b" {
				t.Errorf("out is %q", data)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := open(t, s, src, Needs{}).Setup(ctx, []suite.Command{{Run: "true"}}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestLayConditionFiles(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, map[string]string{
		"f/AGENTS.md": "old", "f/docs/a": "a", "f/link@": "docs",
		"variants/AGENTS.md": "new", "variants/dir/b": "b", "variants/dir/run*": "x",
	})
	src := resolve(t, s, folderCase("f"))
	p := open(t, s, src, Needs{})
	must(t, s.Lay(t.Context(), p, "", map[string]string{"AGENTS.md": "variants/AGENTS.md", "docs": "variants/dir", "link/c": "variants/AGENTS.md"}))
	want := map[string]string{"AGENTS.md": "new", "docs/a": "a", "docs/b": "b", "docs/run*": "x", "link/c": "new"}
	if diff := cmp.Diff(want, look(t, p.Work)); diff != "" {
		t.Error(diff)
	}

	write(t, s.Suite, map[string]string{"variants/AGENTS.md": "changed while running"})
	again := open(t, s, src, Needs{})
	must(t, s.Lay(t.Context(), again, "", map[string]string{"AGENTS.md": "variants/AGENTS.md"}))
	if got := look(t, again.Work)["AGENTS.md"]; got != "new" {
		t.Errorf("a later cell got %q", got)
	}

	base := t.TempDir() // the merge base, exported
	write(t, base, map[string]string{"variants/AGENTS.md": "of the base"})
	must(t, s.Lay(t.Context(), again, base, map[string]string{"AGENTS.md": "variants/AGENTS.md"}))
	if got := look(t, again.Work)["AGENTS.md"]; got != "of the base" {
		t.Errorf("from the base came %q", got)
	}

	for _, to := range []string{"../x", "/x", "", ".git/config", "a//b", "."} {
		if err := s.Lay(t.Context(), p, "", map[string]string{to: "variants/AGENTS.md"}); err == nil {
			t.Errorf("laid at %q", to)
		}
	}
	if err := s.Lay(t.Context(), p, "", map[string]string{"x": "../../etc/passwd"}); err == nil {
		t.Error("a file outside the suite was laid")
	}
}

func TestEquip(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, map[string]string{"f/a": "", "skills/bugs/SKILL.md": "---", "skills/bugs/x/run*": "", "AGENTS.md": "do", "more/bugs/SKILL.md": ""})
	p := open(t, s, resolve(t, s, folderCase("f")), Needs{})
	skills, instructions, err := s.Equip(t.Context(), p, "", []string{"skills/bugs"}, "AGENTS.md")
	must(t, err)
	if diff := cmp.Diff(map[string]string{"bugs/SKILL.md": "---", "bugs/x/run*": ""}, look(t, skills)); diff != "" {
		t.Error(diff)
	}
	if data, err := os.ReadFile(instructions); err != nil || string(data) != "do" {
		t.Errorf("instructions: %q, %v", data, err)
	}
	if diff := cmp.Diff(map[string]string{"a": ""}, look(t, p.Work)); diff != "" {
		t.Errorf("the tree was changed:\n%s", diff)
	}
	skills, instructions, err = s.Equip(t.Context(), p, "", nil, "")
	if skills != "" || instructions != "" || err != nil {
		t.Errorf("nothing became %q, %q, %v", skills, instructions, err)
	}
	if _, _, err = s.Equip(t.Context(), p, "", []string{"skills/bugs", "more/bugs"}, ""); err == nil || !strings.Contains(err.Error(), "two skills") {
		t.Errorf("got %v", err)
	}
}

// TestA33CloseRemovesWhatIsLocked removes folders that nobody may enter. Root may enter all, so the test then runs itself
// again as somebody else.
func TestA33CloseRemovesWhatIsLocked(t *testing.T) {
	if os.Geteuid() == 0 {
		self, err := os.Executable()
		must(t, err)
		dir, err := os.MkdirTemp("/tmp", "assay-close")
		must(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		must(t, os.Chown(dir, 65534, 65534))
		copied := filepath.Join(dir, "test")
		data, err := os.ReadFile(self)
		must(t, err)
		must(t, os.WriteFile(copied, data, 0o755))
		cmd := exec.Command(copied, "-test.run=^TestA33CloseRemovesWhatIsLocked$", "-test.v")
		cmd.Dir, cmd.Env = dir, []string{"TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS")) {
			t.Errorf("as another user: %v\n%s", err, out)
		}
		return
	}
	s := newSandbox(t, map[string]string{"f/a": ""})
	p := open(t, s, resolve(t, s, folderCase("f")), Needs{})
	outside := t.TempDir()
	must(t, os.Chmod(outside, 0o500))
	write(t, p.Work, map[string]string{"a1/b/c/d": "", "a1/e": "", "z/y": "", "out@": outside})
	for _, dir := range []string{"a1/b/c", "a1/b", "a1", "z"} {
		must(t, os.Chmod(filepath.Join(p.Work, dir), 0))
	}
	must(t, p.Close(t.Context()))
	if n := places(t, s); n != 0 {
		t.Errorf("%d places are left", n)
	}
	info, err := os.Stat(outside)
	must(t, err)
	if info.Mode().Perm() != 0o500 {
		t.Errorf("a folder behind a link has mode %v now", info.Mode())
	}
}

// TestA33CloseRemovesWhatIsImmutable: an agent that is root makes files and folders that not even root may remove.
func TestA33CloseRemovesWhatIsImmutable(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, map[string]string{"f/a": ""})
	p := open(t, s, resolve(t, s, folderCase("f")), Needs{})
	makeImmutable(t, p.Work)
	must(t, p.Close(t.Context()))
	if n := places(t, s); n != 0 {
		t.Errorf("%d places are left", n)
	}
}

// makeImmutable leaves in a folder what cannot be removed. It skips the test where there is no such thing.
func makeImmutable(t *testing.T, dir string) {
	t.Helper()
	write(t, dir, map[string]string{"fixed/sub/file": "", "fixed/log": ""})
	for _, step := range [][]string{{"+i", "fixed/sub/file"}, {"+a", "fixed/log"}, {"+i", "fixed/sub"}, {"+i", "fixed"}} {
		name := filepath.Join(dir, step[1])
		if out, err := exec.Command("chattr", step[0], name).CombinedOutput(); err != nil {
			must(t, RemoveAll(filepath.Join(dir, "fixed")))
			t.Skipf("nothing can be made immutable here: %v %s", err, out)
		}
	}
}

func TestFailedOpenLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, map[string]string{"f/a": ""})
	src := resolve(t, s, folderCase("f"))
	s.Places = shells{fail: errors.New("no daemon")}
	_, err := s.Open(t.Context(), src, Needs{})
	var broken *Error
	if !errors.As(err, &broken) || broken.Class != "sandbox" || !strings.Contains(err.Error(), "no daemon") {
		t.Errorf("got %v", err)
	}
	if n := places(t, s); n != 0 {
		t.Errorf("%d places are left", n)
	}
}

func TestWorktree(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	s := newSandbox(t, map[string]string{"f/a": "1"})
	repo := filepath.Join(s.Suite, "f")
	runGit(t, repo, "init", "-q", "-b", "main")
	runGit(t, repo, "add", "-A")
	runGit(t, repo, "commit", "-qm", "one")
	canary := filepath.Join(t.TempDir(), "canary")
	write(t, repo, map[string]string{".git/hooks/post-checkout*": "#!/bin/sh\ntouch " + canary + "\n"})
	c := folderCase("f")
	c.Source.Isolation = "worktree"
	src := resolve(t, s, c)
	p, other := open(t, s, src, Needs{}), open(t, s, src, Needs{})
	if log := runGit(t, p.Work, "log", "--format=%s"); log != "one" {
		t.Errorf("log: %q", log)
	}
	if data, err := os.ReadFile(filepath.Join(other.Work, "a")); err != nil || string(data) != "1" {
		t.Errorf("a is %q, %v", data, err)
	}
	must(t, p.Close(t.Context()))
	must(t, other.Close(t.Context()))
	if list := runGit(t, repo, "worktree", "list"); strings.Count(list, "\n") != 0 {
		t.Errorf("worktrees are left:\n%s", list)
	}
	if _, err := os.Lstat(canary); err == nil {
		t.Error("a hook was run")
	}

	write(t, s.Suite, map[string]string{"plain/a": ""})
	c.Source.Path = "plain"
	var problem suite.Problem
	if _, err := s.Resolve(t.Context(), c); !errors.As(err, &problem) {
		t.Errorf("a folder that is no repository: %v", err)
	}
}
