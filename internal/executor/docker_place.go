package executor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// removeLimit is how long the daemon may take to end a container, or to remove one.
const removeLimit = 30 * time.Second

// A container is a place in a container of its own. Its first process is our relay; every command is an exec of our
// supervisor, which speaks in frames with us.
type container struct {
	backend *dockerBackend
	name    string
	env     map[string]string
	folders Folders // of this host
	work    string  // as commands see it
	root    *os.Root
	doors   *doors
	egress  Egress

	life  context.Context
	ended context.CancelFunc // ends all running commands

	mu      sync.Mutex
	closed  bool
	dead    error // why it cannot run commands any more
	running sync.WaitGroup
}

var (
	_ Executor = (*container)(nil)
	_ Prover   = (*container)(nil)
)

// Open starts the container of a place and looks at it from inside.
func (b *dockerBackend) Open(ctx context.Context, s Spec) (_ Executor, err error) {
	i, ok := b.images[cmp.Or(s.Image, b.imageName())]
	if !ok {
		return nil, unavailable("no_image", "image %q was not looked for when the run began", cmp.Or(s.Image, b.imageName()))
	}
	env, err := b.placeEnv(i, s)
	if err != nil {
		return nil, fmt.Errorf("docker executor: %w", err)
	}
	c := &container{
		backend: b, name: "assay-" + strings.ToLower(rand.Text()), env: env, folders: s.Folders, work: b.Inside(s.Folders).Work,
	}
	c.life, c.ended = context.WithCancel(context.Background())
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil, errors.New("docker executor: the run is over")
	}
	b.places[c] = true
	b.mu.Unlock()
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close(context.WithoutCancel(ctx)))
		}
	}()
	if c.root, err = os.OpenRoot(s.Work); err != nil {
		return nil, fmt.Errorf("docker executor: %w", err)
	}
	if err := c.start(ctx, i, s); err != nil {
		return nil, err
	}
	return c, nil
}

// placeEnv is the environment that every command of a place starts from: that of the image, and over it our own and what
// the place sets.
func (b *dockerBackend) placeEnv(i image, s Spec) (map[string]string, error) {
	own := map[string]string{}
	for _, v := range i.Config.Env {
		if name, value, ok := strings.Cut(v, "="); ok && !ForbiddenEnv(name) {
			own[name] = value
		}
	}
	own["PATH"] = b.searchPath(own["PATH"])
	in := b.Inside(s.Folders)
	env, err := placeEnv(HostOptions{Home: in.Home, Tmp: in.Tmp, Host: listEnv(own), Env: s.Env, Token: rand.Text()})
	for name, value := range own {
		if _, set := env[name]; !set {
			env[name] = value
		}
	}
	return env, err
}

// start runs the container and checks what its relay finds.
func (c *container) start(ctx context.Context, i image, s Spec) error {
	b := c.backend
	if b.uid != os.Getuid() { // ours alone so far; the user of the place passes through, and can move nothing in it
		if err := os.Chmod(s.Root, 0o711); err != nil {
			return fmt.Errorf("docker executor: %w", err)
		}
	}
	gateway := ""
	if s.Network != NetNone && b.session.Gateway != nil {
		gateway = b.session.Gateway()
	}
	var err error
	if c.doors, err = openDoors(b.base, gateway); err != nil {
		return fmt.Errorf("docker executor: %w", err)
	}
	if err := c.own(); err != nil {
		return fmt.Errorf("docker executor: %w", err)
	}
	nonce := rand.Text()
	nonceAt := filepath.Join(s.Root, nonceFile)
	if err := os.WriteFile(nonceAt, []byte(nonce), 0o644); err != nil {
		return fmt.Errorf("docker executor: %w", err)
	}
	defer os.Remove(nonceAt)
	args, err := c.arguments(i, s, gateway)
	if err != nil {
		return err
	}
	if _, err := b.docker.output(ctx, args...); err != nil {
		return fmt.Errorf("docker executor: %w", err)
	}
	found, err := c.doors.await(ctx)
	if err != nil {
		return fmt.Errorf("docker executor: the relay of a place did not report: %w; %s", err, b.docker.state(context.WithoutCancel(ctx), c.name))
	}
	c.egress = found.egress(s.Network)
	return b.verify(found, nonce)
}

// arguments are those of docker for the container of a place. Nothing in them is a secret.
func (c *container) arguments(i image, s Spec, gateway string) ([]string, error) {
	b := c.backend
	place, err1 := b.outside(s.Root)
	sockets, err2 := b.outside(c.doors.dir)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	network := "none"
	if s.Network == NetOpen {
		network = "bridge"
	}
	memory := strconv.FormatInt(b.memory, 10)
	user := fmt.Sprintf("%d:%d", b.uid, b.gid)
	args := []string{
		"run", "--detach", "--init", "--pull", "never", "--name", c.name,
		"--label", labelRun + "=" + b.run, "--label", labelCell + "=" + s.Label,
		"--label", labelOwner + "=" + b.owner.process, "--label", labelSpace + "=" + b.owner.space,
		"--network", network, "--user", user, "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only",
		"--ipc", "private", "--hostname", "cell", "--workdir", "/", "--log-driver", "none", "--no-healthcheck",
		"--memory", memory, "--memory-swap", memory, "--cpus", strconv.FormatFloat(b.params.CPUs, 'f', -1, 64),
		"--pids-limit", strconv.Itoa(b.params.Processes),
		"--ulimit", "nofile=4096:4096", "--ulimit", "fsize=2147483648", "--ulimit", "core=0",
		"--tmpfs", "/tmp:rw,exec,nosuid,nodev,size=1g", "--tmpfs", "/home/agent:rw,exec,nosuid,nodev,size=1g,mode=0777",
		"--mount", mountArg("type=bind", "src="+place, "dst="+InsideRoot),
		"--mount", mountArg("type=bind", "src="+b.program, "dst="+insideProgram, "readonly"),
		"--mount", mountArg("type=bind", "src="+sockets, "dst="+insideSockets, "readonly"),
	}
	for _, dir := range b.params.Mount {
		outside, err := b.outside(dir)
		if err != nil {
			return nil, err
		}
		args = append(args, "--mount", mountArg("type=bind", "src="+outside, "dst="+dir, "readonly"))
	}
	// The command adds the proxies of its user, perhaps with a password, unless they are set.
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY"} {
		args = append(args, "--env", name+"=", "--env", strings.ToLower(name)+"=")
	}
	if b.params.Runtime != "" {
		args = append(args, "--runtime", b.params.Runtime)
	}
	port, canary := nothing, nothing
	if gateway != "" {
		_, p, err := net.SplitHostPort(gateway)
		if err != nil {
			return nil, fmt.Errorf("docker executor: gateway: %w", err)
		}
		port = p
	}
	if b.canary != nil {
		canary = b.canary.address()
	}
	return append(args, "--entrypoint", insideProgram, i.ID, RelayName, insideSockets, InsideRoot, port, canary), nil
}

// Egress is what the relay found when the place was opened.
func (c *container) Egress() Egress { return c.egress }

// Files returns the work folder, on this host.
func (c *container) Files() FS { return folder{root: c.root} }

// enter registers a command with the place; leave it with c.running.Done.
func (c *container) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return errors.New("the place is closed")
	case c.dead != nil:
		return fmt.Errorf("the place has ended: %w", c.dead)
	}
	c.running.Add(1)
	return nil
}

// Run runs one command below a supervisor of its own in the container. When that does not report, for example because it
// was killed, the whole container is ended, and every later Run is an error.
func (c *container) Run(ctx context.Context, cmd Command) (Exit, error) {
	if err := c.enter(); err != nil {
		return Exit{}, fmt.Errorf("run: %w", err)
	}
	defer c.running.Done()
	env, err := checkCommand(cmd, c.env)
	if err != nil {
		return Exit{}, fmt.Errorf("run: %w", err)
	}
	if err := c.furnish(); err != nil {
		return Exit{}, fmt.Errorf("run %s: %w", cmd.Argv[0], err)
	}
	if ctx.Err() != nil { // called off before it began: nothing is started
		late := errors.Is(context.Cause(ctx), context.DeadlineExceeded)
		return Exit{Code: -1, TimedOut: late, Cancelled: !late}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()

	client := c.backend.docker.command(context.Background(), "exec", "--interactive", "--workdir", "/", c.name, insideProgram, SuperviseName, framesName)
	first := start{Argv: bytesOf(cmd.Argv), Env: bytesOf(env), Work: []byte(c.work), Dir: []byte(cmd.Dir)}
	exit, err := runFramed(ctx, client, cmd, first, c.end)
	if err != nil {
		return exit, fmt.Errorf("run %s: %w", cmd.Argv[0], err)
	}
	return exit, nil
}

// end ends the container after a command whose end is not known: it may still run in there.
func (c *container) end(cause error) error {
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
	defer cancel()
	state := c.backend.docker.state(ctx, c.name)
	c.kill(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead == nil {
		c.dead = cause
	}
	return fmt.Errorf("%w; %s", cause, state)
}

// kill ends every process of the container. It is no error that there is none.
func (c *container) kill(ctx context.Context) {
	_, _ = c.backend.docker.output(ctx, "kill", c.name)
}

// state says in words what has become of a container.
func (d docker) state(ctx context.Context, name string) string {
	var s struct {
		Status    string
		ExitCode  int
		OOMKilled bool
		Error     string
	}
	if err := d.inspect(ctx, &s, "container", "inspect", "--format", "{{json .State}}", name); err != nil {
		return "its container is gone"
	}
	text := "its container is " + s.Status
	if s.Status != "running" {
		text += fmt.Sprintf(" with exit code %d", s.ExitCode)
	}
	if s.OOMKilled {
		text += ", after the memory limit ended a process"
	}
	if s.Error != "" {
		text += fmt.Sprintf(": %q", shorten(s.Error, 200))
	}
	return text
}

// Close cancels the commands that run, waits for their end, and ends every process of the container. What is left of it is
// removed in the background. The second call does nothing.
func (c *container) Close(ctx context.Context) error {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return nil
	}
	c.ended()
	gone := make(chan struct{})
	go func() { c.running.Wait(); close(gone) }()
	var err error
	select {
	case <-gone:
	case <-time.After(cancelGrace + 2*hardLimit):
		err = errors.New("close place: a command still runs, because a writer of its output blocks")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
	defer cancel()
	c.kill(ctx)
	if c.doors != nil {
		err = errors.Join(err, c.doors.close())
	}
	if c.root != nil {
		err = errors.Join(err, c.root.Close())
	}
	b := c.backend
	b.removing.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
		defer cancel()
		_, _ = b.docker.output(ctx, "rm", "--force", "--volumes", c.name) // what stays, the next run removes
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.places, c)
	return err
}

// furnish makes home and tmp, and gives what the place holds to its user.
func (c *container) furnish() error {
	for _, dir := range []string{c.folders.Home, c.folders.Tmp} {
		if err := makeFolder(dir); err != nil {
			return err
		}
	}
	return c.own()
}

// own gives the user of the place what we have laid there as root. What an agent has made is its own already, and links
// are not followed, so that nothing elsewhere changes hands.
func (c *container) own() error {
	if c.backend.uid == os.Getuid() {
		return nil
	}
	for _, dir := range []string{c.folders.Work, c.folders.Home, c.folders.Tmp, c.folders.Env} {
		if dir == "" {
			continue
		}
		if err := giveAway(dir, c.backend.uid, c.backend.gid); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// giveAway changes the owner of all in a folder that is root's, and of the folder.
func giveAway(dir string, uid, gid int) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return ignoreGone(err)
		}
		info, err := e.Info()
		if err != nil {
			return ignoreGone(err)
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != 0 {
			return nil
		}
		return ignoreGone(root.Lchown(path.Clean(name), uid, gid))
	})
}

// ignoreGone passes an error on, unless it says that something has gone meanwhile: other commands may be at work.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
