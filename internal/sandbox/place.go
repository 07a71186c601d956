package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/suite"
)

// A Place is where one cell works, or where its graders do.
type Place struct {
	executor.Folders
	Inside   executor.Folders // the same as agent, setup and graders see them
	Exec     executor.Executor
	Env      []string  // NAME=value: what Needs and the environment set, for agent, setup and graders alike
	Findings []Finding // what came up while it was made
	Layout   string    // how its tree came to be there: Copied or Shown

	sandbox  *Sandbox
	base     string  // the scratch folder that it is in
	shown    []shown // overlay mounts
	worktree *worktree
	once     sync.Once
	closed   error
}

// Needs are what a place has besides its tree.
type Needs struct {
	Environment *Environment
	Env         []string         // NAME=value of case and condition; they win over those of the environment
	Log         io.Writer        // output of the environment's commands; nil: dropped
	Network     executor.Network // what the commands reach
	Label       string           // whose place it is

	around surroundings // of the environment
	source *Source      // that an agent is to work on
}

// Open makes a place and lays the source out in it. The error is an *Error of class sandbox or environment.
func (s *Sandbox) Open(ctx context.Context, src *Source, n Needs) (*Place, error) {
	if err := s.lookAround(ctx, &n); err != nil {
		return nil, err
	}
	n.source = src
	return s.somewhere(ctx, n, func(p *Place) error {
		if err := s.layOut(ctx, p, src); err != nil {
			return err
		}
		return s.furnish(ctx, p, src, n)
	})
}

// Probe makes an empty place, to look around in where the commands of cells will run. The environment may be nil; it is not
// built.
func (s *Sandbox) Probe(ctx context.Context, env *Environment) (*Place, error) {
	return s.somewhere(ctx, Needs{Environment: env, Network: executor.NetNone, Label: "preflight"}, func(*Place) error { return nil })
}

// somewhere makes a place in memory while there is room for one, and else on the disk, and fills it.
func (s *Sandbox) somewhere(ctx context.Context, n Needs, fill func(*Place) error) (*Place, error) {
	if s.Memory != "" && roomIn(s.Memory) {
		p, err := s.placeIn(ctx, s.Memory, n, fill)
		if !errors.Is(err, syscall.ENOSPC) {
			return p, err
		}
	}
	return s.placeIn(ctx, s.Scratch, n, fill)
}

func (s *Sandbox) placeIn(ctx context.Context, base string, n Needs, fill func(*Place) error) (*Place, error) {
	p, err := s.newPlace(ctx, base, n)
	if err != nil {
		return nil, err
	}
	if err := fill(p); err != nil {
		return nil, errors.Join(err, p.Close(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// newPlace makes an empty place with its executor.
func (s *Sandbox) newPlace(ctx context.Context, base string, n Needs) (*Place, error) {
	root, err := os.MkdirTemp(base, "p")
	if err != nil {
		return nil, &Error{Class: "sandbox", What: "make a place", Err: err}
	}
	p := &Place{sandbox: s, base: base, Layout: Copied, Folders: executor.Folders{
		Root: root,
		Work: filepath.Join(root, "work"),
		Home: filepath.Join(root, "home"),
		Tmp:  filepath.Join(root, "tmp"),
	}}
	if !n.Environment.empty() {
		p.Folders.Env = filepath.Join(root, "env")
	}
	p.Inside = s.Places.Inside(p.Folders)
	p.Env = append(n.Environment.vars(p.Inside.Env, n.around.search), n.Env...)
	// Home and tmp are made by whoever needs them first: the executor for a command, or Equip. Many places never do.
	for _, dir := range []string{p.Work, p.Folders.Env} {
		if dir != "" && err == nil {
			err = os.Mkdir(dir, 0o755)
		}
	}
	if err == nil {
		s.show(ctx, base, p, n.source) // before anybody holds the folder open
		p.Exec, err = s.Places.Open(ctx, executor.Spec{Folders: p.Folders, Env: p.Env, Network: n.Network, Image: n.Environment.Image(), Label: n.Label})
	}
	if err != nil {
		return nil, errors.Join(&Error{Class: "sandbox", What: "make a place", Err: err}, p.Close(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// insideRoot is the folder of the place as its commands see it.
func (p *Place) insideRoot() string { return path.Dir(p.Inside.Work) }

// pull brings what the place holds to this host, when it is held elsewhere.
func (p *Place) pull(ctx context.Context) error {
	if m, ok := p.Exec.(executor.Mirror); ok {
		return wrap("sandbox", "environment", m.Pull(ctx))
	}
	return nil
}

// layOut fills the work folder. A cache entry that changed under us is made again, once.
func (s *Sandbox) layOut(ctx context.Context, p *Place, src *Source) error {
	if src.worktree != nil {
		p.worktree = src.worktree
		return wrap("sandbox", src.what, src.worktree.add(ctx, p.Work))
	}
	if p.Layout == Shown {
		return nil
	}
	err := s.layTrees(ctx, p.Work, src)
	if errors.Is(err, errChanged) && src.again != nil {
		var found []Finding
		if found, err = src.again(ctx); err == nil {
			p.Findings = append(p.Findings, found...)
			err = errors.Join(p.clearWork(), s.layTrees(ctx, p.Work, src))
		}
	}
	return wrap("sandbox", src.what, err)
}

func (s *Sandbox) layTrees(ctx context.Context, dir string, src *Source) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := src.work.lay(ctx, root, ".", s.umasked); err != nil || src.git == nil {
		return err
	}
	if err := makeDir(root, ".git", s.umasked); err != nil {
		return err
	}
	return src.git.lay(ctx, root, ".git", s.umasked)
}

// clearWork empties the work folder. The folder itself stays: the executor has it open.
func (p *Place) clearWork() error {
	entries, err := os.ReadDir(p.Work)
	for _, e := range entries {
		err = errors.Join(err, RemoveAll(filepath.Join(p.Work, e.Name())))
	}
	return err
}

// wrap gives an error its class, unless it has one.
func wrap(class, what string, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &Error{Class: class, What: what, Err: err}
}

// Setup runs the setup commands of a case, one after the other. The error is an *Error of class environment.
func (p *Place) Setup(ctx context.Context, commands []suite.Command, log io.Writer) error {
	for _, c := range commands {
		argv, name := c.Argv, strings.Join(c.Argv, " ")
		if c.Run != "" {
			argv, name = []string{"sh", "-c", c.Run}, c.Run
		}
		cmd := executor.Command{Argv: argv, Env: append(slices.Clip(p.Env), pairs(c.Env)...), Timeout: c.Timeout}
		if err := p.run(ctx, "setup "+fmt.Sprintf("%q", name), cmd, log); err != nil {
			return err
		}
	}
	return nil
}

// run runs one command that must end with exit code 0.
func (p *Place) run(ctx context.Context, what string, cmd executor.Command, log io.Writer) error {
	if cmd.Timeout == 0 {
		cmd.Timeout = stepTimeout
	}
	out := &tail{to: log}
	cmd.Stdout, cmd.Stderr = out, out
	exit, err := p.Exec.Run(ctx, cmd)
	switch {
	case err != nil:
	case exit.Cancelled:
		err = context.Canceled
	case exit.TimedOut:
		err = fmt.Errorf("ran past its limit of %v", cmd.Timeout)
	case exit.Signal != "":
		err = fmt.Errorf("ended by %s", exit.Signal)
	case exit.Code != 0:
		err = fmt.Errorf("exit code %d", exit.Code)
	default:
		return nil
	}
	return &Error{Class: "environment", What: what, Err: err, Log: out.String()}
}

// pairs are the variables of a mapping as NAME=value, sorted.
func pairs(vars map[string]string) []string {
	list := make([]string, 0, len(vars))
	for name, value := range vars {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

// Lay puts files of a condition into the work folder: path there → file or folder below the host folder base ("": the
// suite's). What stands at such a path is replaced. Files are read once, so every cell gets the same bytes.
func (s *Sandbox) Lay(ctx context.Context, p *Place, base string, files map[string]string) error {
	if len(files) == 0 {
		return nil
	}
	root, err := os.OpenRoot(p.Work)
	if err != nil {
		return wrap("sandbox", "condition files", err)
	}
	defer root.Close()
	for _, to := range sortedKeys(files) {
		t, err := s.folder(base, files[to], sourceRules)
		if err == nil {
			err = s.replace(ctx, root, to, t)
		}
		if err != nil {
			return wrap("sandbox", "condition file "+files[to], err)
		}
	}
	return nil
}

// replace lays a tree at a path, over what is there.
func (s *Sandbox) replace(ctx context.Context, root *os.Root, to string, t *tree) error {
	if _, git := gitIn(to); git || !inTree(to) {
		return fmt.Errorf("cannot be laid at %q", to)
	}
	l := newLayer(root, s.umasked)
	for i := range t.entries {
		e := &t.entries[i]
		name := to
		if !t.single {
			name = path.Join(to, e.path)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := l.entry(t, e, name, e.mode); err != nil {
			return err
		}
	}
	return nil
}

// Holds tells whether a tree has the files of a condition as [Sandbox.Lay] laid them. The error names the first that it has
// not. Of a file, its bytes count; its mode is the tree's own matter.
func (s *Sandbox) Holds(base string, files map[string]string, in fs.FS) error {
	for _, to := range sortedKeys(files) {
		t, err := s.folder(base, files[to], sourceRules)
		if err != nil {
			return wrap("sandbox", "condition file "+files[to], err)
		}
		for i := range t.entries {
			e := &t.entries[i]
			name := to
			if !t.single {
				name = path.Join(to, e.path)
			}
			if !e.isIn(in, name) {
				return fmt.Errorf("file %s is not in the tree as it was laid when the agent starts; setup changed it", name)
			}
		}
	}
	return nil
}

// isIn tells whether a tree has the entry under a name. Trees have no folders of their own.
func (e *entry) isIn(tree fs.FS, name string) bool {
	switch {
	case e.mode.IsDir():
		return true
	case e.mode&fs.ModeSymlink != 0:
		link, err := fs.ReadLink(tree, name)
		return err == nil && link == e.link
	}
	f, err := tree.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return err == nil && bytes.Equal(sum.Sum(nil), e.sum[:])
}

// Equip puts the skills and the instructions of a condition into the home of a place, outside its tree. It returns the
// folder that holds one folder a skill, and the path of the instructions, as an agent sees them; what the condition lacks
// is empty.
func (s *Sandbox) Equip(ctx context.Context, p *Place, base string, skills []string, instructions string) (skillsDir, instructionsFile string, err error) {
	const shelf = ".assay"
	if len(skills) == 0 && instructions == "" {
		return "", "", nil
	}
	if err := os.Mkdir(p.Home, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", "", wrap("sandbox", "condition", err)
	}
	root, err := os.OpenRoot(p.Home)
	if err != nil {
		return "", "", wrap("sandbox", "condition", err)
	}
	defer root.Close()
	put := func(from, to string) error {
		t, err := s.folder(base, from, sourceRules)
		if err == nil {
			err = s.replace(ctx, root, to, t)
		}
		return wrap("sandbox", "condition "+from, err)
	}
	seen := map[string]bool{}
	for _, skill := range skills {
		name := path.Base(path.Clean(skill))
		if seen[name] {
			return "", "", wrap("sandbox", "condition "+skill, fmt.Errorf("two skills are named %s", name))
		}
		seen[name] = true
		skillsDir = path.Join(p.Inside.Home, shelf, "skills")
		if err := put(skill, path.Join(shelf, "skills", name)); err != nil {
			return "", "", err
		}
	}
	if instructions != "" {
		name := path.Join(shelf, path.Base(instructions))
		instructionsFile = path.Join(p.Inside.Home, name)
		if err := put(instructions, name); err != nil {
			return "", "", err
		}
	}
	return skillsDir, instructionsFile, nil
}

// Close ends what runs in the place and removes it. It is idempotent; its error says what could not be removed.
func (p *Place) Close(ctx context.Context) error {
	p.once.Do(func() {
		if p.Exec != nil {
			p.closed = p.Exec.Close(ctx)
		}
		p.closed = errors.Join(p.closed, p.unmount(), RemoveAll(p.Root))
		if p.worktree != nil {
			p.closed = errors.Join(p.closed, p.worktree.prune(ctx))
		}
		p.closed = wrap("sandbox", "remove a place", p.closed)
	})
	return p.closed
}

// RemoveAll removes a folder, also when folders in it have lost the modes that removing takes, or something in it was made
// immutable by an agent that is root.
func RemoveAll(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer root.Close()
	unlock(root, filepath.Base(dir))
	return os.RemoveAll(dir)
}

// unlock makes what is in a tree removable, top down. What it cannot open, the removal will name.
func unlock(root *os.Root, dir string) {
	info, err := root.Lstat(dir)
	if err != nil || !info.IsDir() {
		return
	}
	free(root, dir)
	if info.Mode().Perm()&0o700 != 0o700 {
		_ = root.Chmod(dir, 0o700)
	}
	sub, err := root.OpenRoot(dir)
	if err != nil {
		return
	}
	defer sub.Close()
	entries, _ := fs.ReadDir(sub.FS(), ".")
	for _, e := range entries {
		switch {
		case e.IsDir():
			unlock(sub, e.Name())
		case e.Type().IsRegular():
			free(sub, e.Name())
		}
	}
}

// free releases one file or folder.
func free(root *os.Root, name string) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	_ = release(f)
	_ = f.Close()
}
