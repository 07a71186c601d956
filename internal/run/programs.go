package run

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/sandbox"
)

// Programs finds programs where the commands of cells will run, and runs short ones there. The zero value stands for places
// that nobody can look into: then no program is found missing.
type Programs struct {
	look func(ctx context.Context, name string) error // wraps exec.ErrNotFound when it is not there
	run  func(ctx context.Context, argv []string) (string, error)
	of   func(t *task) Programs // those of a case whose places are made of an image of its own; nil: there are none such
}

// imageKind is the kind of environment by which a case names an image.
const imageKind = "image"

// forCase are the programs in the places of a case.
func (p Programs) forCase(t *task) Programs {
	if p.of == nil || t.Environment.Kind != imageKind {
		return p
	}
	return p.of(t)
}

// maxSaid is how much of what a short program prints is kept, in bytes.
const maxSaid = 4 << 10

// HostPrograms are those of this host, in the folders of path, a PATH value.
func HostPrograms(path string) Programs {
	return Programs{
		look: func(_ context.Context, name string) error {
			_, err := lookPath(name, path)
			return err
		},
		run: func(ctx context.Context, argv []string) (string, error) {
			name, err := lookPath(argv[0], path)
			if err != nil {
				return "", err
			}
			cmd := exec.CommandContext(ctx, name, argv[1:]...)
			cmd.Env = []string{"PATH=" + path, "TERM=dumb"}
			cmd.WaitDelay = time.Second
			out, err := cmd.CombinedOutput()
			return string(out[:min(len(out), maxSaid)]), err
		},
	}
}

// lookPath finds a program in the folders of path, a PATH value.
func lookPath(name, path string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(path) {
		if full, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return full, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

// A lookout is an empty place in which programs are looked for. It is made when somebody first looks.
type lookout struct {
	place func() (*sandbox.Place, error)
}

// PlacePrograms are those of places of the sandbox: of its own image, and of each image that a case names. Call done when
// nobody looks any more.
func PlacePrograms(ctx context.Context, box *sandbox.Sandbox) (p Programs, done func()) {
	var mu sync.Mutex
	var opened []*sandbox.Place
	byImage := map[string]Programs{}
	programs := func(image string, env *sandbox.Environment) Programs {
		mu.Lock()
		defer mu.Unlock()
		known, ok := byImage[image]
		if !ok {
			l := &lookout{sync.OnceValues(func() (*sandbox.Place, error) {
				place, err := box.Probe(ctx, env)
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					opened = append(opened, place)
				}
				return place, err
			})}
			known = Programs{look: l.look, run: l.run}
			byImage[image] = known
		}
		return known
	}
	p = programs("", nil)
	p.of = func(t *task) Programs { return programs(string(t.Environment.Canonical()), t.env) }
	return p, func() {
		mu.Lock()
		defer mu.Unlock()
		for _, place := range opened {
			_ = place.Close(context.WithoutCancel(ctx)) // the backend removes what is left
		}
	}
}

// shellIsThere begins what the lookout's shell prints: an answer without it comes from a place that has no shell.
const shellIsThere = "looking"

func (l *lookout) look(ctx context.Context, name string) error {
	said, exit, err := l.command(ctx, []string{"sh", "-c", "echo " + shellIsThere + `; command -v -- "$1" >/dev/null 2>&1`, "sh", name})
	switch {
	case err != nil:
		return err
	case !strings.HasPrefix(said, shellIsThere):
		return fmt.Errorf("the place has no sh to look for %s with: %s", name, firstLine(said))
	case exit.Code != 0:
		return fmt.Errorf("%s: %w", name, exec.ErrNotFound)
	}
	return nil
}

func (l *lookout) run(ctx context.Context, argv []string) (string, error) {
	said, exit, err := l.command(ctx, argv)
	switch {
	case err != nil:
		return "", err
	case exit.Code == 127:
		return "", fmt.Errorf("%s: %w", argv[0], exec.ErrNotFound)
	case exit.TimedOut:
		return "", context.DeadlineExceeded
	case exit.Signal != "":
		return "", errors.New("ended by " + exit.Signal)
	case exit.Code != 0:
		return "", fmt.Errorf("exit status %d", exit.Code)
	}
	return said, nil
}

// command runs a program in the place and returns the head of what it printed.
func (l *lookout) command(ctx context.Context, argv []string) (string, executor.Exit, error) {
	place, err := l.place()
	if err != nil {
		return "", executor.Exit{}, err
	}
	var said firstBytes
	exit, err := place.Exec.Run(ctx, executor.Command{Argv: argv, Stdout: &said, Stderr: &said, Timeout: probeTime})
	return string(said), exit, err
}

// firstBytes keep the beginning of what is written to them.
type firstBytes []byte

func (f *firstBytes) Write(p []byte) (int, error) {
	*f = append(*f, p[:min(len(p), maxSaid-len(*f))]...)
	return len(p), nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return clip(line, 200)
}
