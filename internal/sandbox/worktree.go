package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/assay-ci/assay/internal/suite"
)

// A worktree is a local repository whose HEAD is checked out in a place. It shares refs, configuration and objects with
// the repository, so it does not isolate; whoever asks for it gets it. Nothing else here calls git.
type worktree struct {
	git    string // host path of the program
	repo   string // host path of the repository
	commit string
	mu     sync.Mutex
}

// worktreeSource finds the commit that is checked out. The tree is also read, for its links and as what a grading place
// resets files to.
func (s *Sandbox) worktreeSource(ctx context.Context, src suite.Source) (*Source, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, &Unavailable{What: "worktree", Reason: "no_cli", Text: "git not found on PATH; install git, or use isolation: copy"}
	}
	plain, err := s.folderSource(src)
	if err != nil {
		return nil, err
	}
	w := &worktree{git: program, repo: filepath.Join(s.Suite, filepath.FromSlash(src.Path))}
	if _, err := os.Lstat(filepath.Join(w.repo, ".git")); err != nil {
		return nil, fault(src.At, "use copy, or name the folder that holds .git", "source %s is not the top of a git repository", src.Path)
	}
	out, err := w.run(ctx, "rev-parse", "--verify", "--end-of-options", "HEAD^{commit}")
	if err != nil {
		return nil, fault(src.At, "", "source %s: %v", src.Path, err)
	}
	w.commit = strings.TrimSpace(out)
	plain.worktree = w
	plain.Digest = digestOf("worktree", w.commit)
	return plain, nil
}

// add checks the commit out into an empty folder.
func (w *worktree) add(ctx context.Context, dir string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.run(ctx, "worktree", "add", "--quiet", "--detach", "--force", "--", dir, w.commit)
	return err
}

// prune makes the repository forget worktrees whose folders are gone.
func (w *worktree) prune(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.run(ctx, "worktree", "prune", "--expire", "now")
	return err
}

// run calls git with nothing of the host's configuration and with hooks and monitors off.
func (w *worktree) run(ctx context.Context, args ...string) (string, error) {
	fixed := []string{"-C", w.repo, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"}
	cmd := exec.CommandContext(ctx, w.git, append(fixed, args...)...)
	cmd.Env = []string{
		"PATH=" + filepath.Dir(w.git) + ":/usr/bin:/bin",
		"LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_TERMINAL_PROMPT=0",
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("git %s: %w", args[0], errors.Join(err, errors.New(strings.TrimSpace(stderr.String()))))
	}
	return stdout.String(), nil
}
