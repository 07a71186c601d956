package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// newRepo is a repository that the git program made, so that what is read is what git writes.
func newRepo(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed; the repositories of these tests are made with it")
	}
	dir := filepath.Join(t.TempDir(), "repo")
	must(t, os.Mkdir(dir, 0o755))
	runGit(t, dir, "init", "-q", "-b", "main")
	return dir
}

// commit writes files and commits them; its id is returned. Dates are a minute apart, by the number of the commit.
func commit(t *testing.T, dir string, minute int, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	runGit(t, dir, "add", "-A")
	return committed(t, dir, minute, "commit", "-q", "--allow-empty", "-m", "m")
}

func committed(t *testing.T, dir string, minute int, args ...string) string {
	t.Helper()
	if out, err := datedGit(dir, minute, args...).CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return runGit(t, dir, "rev-parse", "HEAD")
}

func datedGit(dir string, minute int, args ...string) *exec.Cmd {
	date := time.Date(2024, 1, 1, 0, minute, 0, 0, time.UTC).Format(time.RFC3339)
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@localhost", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@localhost",
		"GIT_AUTHOR_DATE=" + date, "GIT_COMMITTER_DATE=" + date}
	return cmd
}

func readAt(t *testing.T, repo, rev, name string) string {
	t.Helper()
	files, _, err := OpenRevision(repo, rev)
	must(t, err)
	data, err := fs.ReadFile(files, name)
	must(t, err)
	return string(data)
}

func TestRevisionIsAFileSystem(t *testing.T) {
	dir := newRepo(t)
	must(t, os.WriteFile(filepath.Join(dir, "run.sh"), []byte("#!/bin/sh\n"), 0o755))
	sha := commit(t, dir, 1, map[string]string{"a/b.txt": "b\n", "a-b": "-", "a.b": ".", "empty": ""})
	files, got, err := OpenRevision(dir, "main")
	must(t, err)
	if got != sha {
		t.Errorf("the commit is %s, want %s", got, sha)
	}
	must(t, fstest.TestFS(files, "a/b.txt", "a-b", "a.b", "empty", "run.sh"))
	info, err := fs.Lstat(files, "run.sh")
	must(t, err)
	if info.Mode() != 0o755 || info.Size() != 10 {
		t.Errorf("run.sh has mode %v and %d bytes", info.Mode(), info.Size())
	}
}

// A link is a text: nothing follows it, wherever it leads.
func TestRevisionFollowsNoLink(t *testing.T) {
	dir := newRepo(t)
	must(t, os.Symlink("a/b.txt", filepath.Join(dir, "link")))
	must(t, os.Symlink("a", filepath.Join(dir, "folder")))
	must(t, os.Symlink("../../etc/passwd", filepath.Join(dir, "out")))
	commit(t, dir, 1, map[string]string{"a/b.txt": "b\n"})
	files, _, err := OpenRevision(dir, "HEAD")
	must(t, err)
	target, err := fs.ReadLink(files, "out")
	if err != nil || target != "../../etc/passwd" {
		t.Errorf("the link leads to %q: %v", target, err)
	}
	for _, name := range []string{"link", "folder", "out"} {
		if _, err := fs.ReadFile(files, name); err == nil {
			t.Errorf("%s was followed", name)
		}
	}
	for _, name := range []string{"out/passwd", "folder/b.txt", "a/b.txt/c", "none"} {
		if _, err := fs.Stat(files, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want that it does not exist", name, err)
		}
	}
}

func TestRevisionNames(t *testing.T) {
	dir := newRepo(t)
	first := commit(t, dir, 1, map[string]string{"f": "1"})
	runGit(t, dir, "tag", "light")
	runGit(t, dir, "tag", "-a", "-m", "t", "heavy")
	runGit(t, dir, "tag", "-a", "-m", "t", "heavier", "heavy")
	runGit(t, dir, "branch", "feature/x")
	runGit(t, dir, "update-ref", "refs/remotes/origin/trunk", first)
	runGit(t, dir, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
	second := commit(t, dir, 2, map[string]string{"f": "2"})
	check := func(t *testing.T) {
		for rev, want := range map[string]string{
			"HEAD": second, "main": second, "refs/heads/main": second, second: second, first: first, "light": first,
			"heavy": first, "heavier": first, "feature/x": first, "origin/trunk": first, "origin/HEAD": first, "origin": first,
		} {
			if _, got, err := OpenRevision(dir, rev); got != want || err != nil {
				t.Errorf("%s is %s (%v), want %s", rev, got, err, want)
			}
		}
		for _, rev := range []string{"", "nope", "../config", "config", "index", "HEAD~1", first[:10], "-x", "refs"} {
			if _, _, err := OpenRevision(dir, rev); err == nil {
				t.Errorf("%q was found", rev)
			}
		}
	}
	t.Run("loose", check)
	runGit(t, dir, "gc", "-q")
	if _, err := os.Stat(filepath.Join(dir, ".git", "packed-refs")); err != nil {
		t.Fatal("nothing was packed")
	}
	t.Run("packed", check)
	runGit(t, dir, "checkout", "-q", "--detach", first)
	if got := readAt(t, dir, "HEAD", "f"); got != "1" {
		t.Errorf("a detached HEAD reads %q", got)
	}
}

func TestRevisionInOtherRepositories(t *testing.T) {
	dir := newRepo(t)
	commit(t, dir, 1, map[string]string{"f": "1"})
	near := func(name string) string { return filepath.Join(filepath.Dir(dir), name) }

	runGit(t, dir, "worktree", "add", "-q", "-b", "side", near("tree"))
	commit(t, near("tree"), 2, map[string]string{"f": "side"})
	if got := readAt(t, near("tree"), "HEAD", "f"); got != "side" {
		t.Errorf("HEAD of a worktree reads %q", got)
	}
	if got := readAt(t, near("tree"), "main", "f"); got != "1" {
		t.Errorf("main of a worktree reads %q", got)
	}

	runGit(t, dir, "clone", "-q", "--shared", dir, near("borrower"))
	if got := readAt(t, near("borrower"), "origin/HEAD", "f"); got != "1" {
		t.Errorf("a clone that borrows its objects reads %q", got)
	}

	// What a sparse checkout of actions/checkout leaves in the configuration.
	runGit(t, dir, "config", "core.repositoryformatversion", "1")
	runGit(t, dir, "config", "extensions.worktreeConfig", "true")
	if got := readAt(t, dir, "HEAD", "f"); got != "1" {
		t.Errorf("a repository with extensions reads %q", got)
	}

	runGit(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", near("borrower"), "sub")
	commit(t, dir, 3, nil)
	files, _, err := OpenRevision(dir, "HEAD")
	must(t, err)
	if list, err := fs.ReadDir(files, "sub"); err != nil || len(list) != 0 {
		t.Errorf("a submodule holds %v: %v", list, err)
	}
	if got := readAt(t, filepath.Join(dir, "sub"), "HEAD", "f"); got != "1" {
		t.Errorf("HEAD of a submodule reads %q", got)
	}

	if _, _, err := OpenRevision(near("nowhere"), "HEAD"); err == nil || !strings.Contains(err.Error(), "not the top of a git repository") {
		t.Errorf("no repository: %v", err)
	}
}

func TestRevisionObeysNothingOfTheRepository(t *testing.T) {
	dir := newRepo(t)
	ran := filepath.Join(dir, "ran")
	runGit(t, dir, "config", "filter.evil.clean", "cat")
	commit(t, dir, 1, map[string]string{".gitattributes": "f filter=evil eol=crlf\n", "f": "a\nb\n"})
	runGit(t, dir, "config", "filter.evil.smudge", "touch "+ran)
	runGit(t, dir, "config", "core.fsmonitor", "touch "+ran)
	if got := readAt(t, dir, "HEAD", "f"); got != "a\nb\n" {
		t.Errorf("f reads %q, not what was committed", got)
	}
	if _, err := os.Lstat(ran); err == nil {
		t.Error("a command of the repository's configuration was run")
	}
}

func TestRevisionRefusesWhatItCannotVouchFor(t *testing.T) {
	dir := newRepo(t)
	commit(t, dir, 1, map[string]string{"f": "text", "big": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"})
	files, _, err := OpenRevision(dir, "HEAD")
	must(t, err)
	if _, err := fs.ReadFile(files, "big"); err == nil || !strings.Contains(err.Error(), "Git LFS") {
		t.Errorf("the note of a file in Git LFS: %v", err)
	}
	id := runGit(t, dir, "rev-parse", "HEAD:f")
	loose := filepath.Join(dir, ".git", "objects", id[:2], id[2:])
	other := runGit(t, dir, "rev-parse", "HEAD:big")
	foreign, err := os.ReadFile(filepath.Join(dir, ".git", "objects", other[:2], other[2:]))
	must(t, err)
	must(t, os.Remove(loose))
	must(t, os.WriteFile(loose, foreign, 0o644))
	if _, err := fs.ReadFile(files, "f"); !errors.Is(err, errDamaged) {
		t.Errorf("another file's bytes: %v", err)
	}
	must(t, os.Remove(loose))
	if _, err := fs.ReadFile(files, "f"); err == nil || !strings.Contains(err.Error(), "is not in this clone") {
		t.Errorf("no bytes: %v", err)
	}
}

// A tree that git itself would not make holds a name that leads elsewhere.
func TestRevisionRefusesForeignNames(t *testing.T) {
	dir := newRepo(t)
	commit(t, dir, 1, map[string]string{"f": "x"})
	blob := runGit(t, dir, "rev-parse", "HEAD:f")
	for _, name := range []string{"..", ".git", ".GIT", "a/b"} {
		raw := []byte("100644 " + name + "\x00")
		for i := 0; i < len(blob); i += 2 {
			raw = append(raw, unhex(blob[i])<<4|unhex(blob[i+1]))
		}
		must(t, os.WriteFile(filepath.Join(dir, ".git", "tree"), raw, 0o644))
		tree := runGit(t, dir, "hash-object", "-w", "--literally", "-t", "tree", ".git/tree")
		sha := runGit(t, dir, "commit-tree", "-m", "m", tree)
		files, _, err := OpenRevision(dir, sha)
		must(t, err)
		if _, err := fs.ReadDir(files, "."); err == nil {
			t.Errorf("a folder with an entry %q was listed", name)
		}
	}
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c - 'a' + 10
}

func TestCopyOut(t *testing.T) {
	dir := newRepo(t)
	must(t, os.MkdirAll(filepath.Join(dir, "skills/a"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "skills/a/run.sh"), []byte("#!/bin/sh\n"), 0o755))
	must(t, os.Symlink("SKILL.md", filepath.Join(dir, "skills/a/link")))
	commit(t, dir, 1, map[string]string{"skills/a/SKILL.md": "old", "skills/b/SKILL.md": "b", "AGENTS.md": "be brief", "x": "x"})
	files, _, err := OpenRevision(dir, "HEAD")
	must(t, err)
	out := t.TempDir()
	must(t, CopyOut(files, []string{"skills/a/SKILL.md", "skills/a", "AGENTS.md", "AGENTS.md"}, out))
	got, err := readPath(out, ".", sourceRules, nil)
	must(t, err)
	var names []string
	for _, e := range got.entries {
		names = append(names, e.mode.String()+" "+e.path+" "+e.link)
	}
	want := []string{
		"-rw-r--r-- AGENTS.md ", "drwxr-xr-x skills ", "drwxr-xr-x skills/a ", "-rw-r--r-- skills/a/SKILL.md ",
		"Lrwxrwxrwx skills/a/link SKILL.md", "-rwxr-xr-x skills/a/run.sh ",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("what was written (-want +got):\n%s", diff)
	}
	if err := CopyOut(files, []string{"gone"}, t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// commitTree runs git commit-tree at a minute and returns the commit.
func commitTree(t *testing.T, dir string, minute int, args []string) string {
	t.Helper()
	out, err := datedGit(dir, minute, args...).Output()
	must(t, err)
	return strings.TrimSpace(string(out))
}

// tryGit is what git prints, also when it ends with another exit code than 0.
func tryGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := datedGit(dir, 0, args...).Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out)
}

// FuzzRevisionFolder reads any bytes as a folder of a commit: whatever is listed has a plain name of its own, in order.
func FuzzRevisionFolder(f *testing.F) {
	id := strings.Repeat("\x01", 20)
	f.Add([]byte("100644 a\x00" + id + "40000 b\x00" + id))
	f.Add([]byte("120000 ..\x00" + id))
	f.Add([]byte("160000 sub\x00" + id + "100755 .git\x00" + id))
	f.Add([]byte("100644 a/../../b\x00" + id))
	f.Add([]byte("100644 a\x00" + id + "40000 a\x00" + id))
	f.Add([]byte("777 \xff\x00" + id))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, _ := new(revision).nodes(raw)
		for i, n := range list {
			if !inTree(n.name) || strings.Contains(n.name, "/") || strings.EqualFold(n.name, ".git") {
				t.Errorf("an entry is named %q", n.name)
			}
			if i > 0 && list[i-1].name >= n.name {
				t.Errorf("%q stands before %q", list[i-1].name, n.name)
			}
		}
	})
}
