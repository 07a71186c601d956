package executor

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A harborPlace is a place of Harbor: a copy elsewhere of folders of this host.
type harborPlace struct {
	backend *harborBackend
	spec    Spec
	session string
	token   string
	folder  string // of ours, on this host
	bridge  *bridge
	env     map[string]string
	egress  Egress

	once   sync.Once
	closed atomic.Bool

	sync  sync.Mutex // held while the folders are made the same
	known state      // of the folders of this host, when they were last the same as those of the place; nil: never
	ahead bool       // a command may have changed what the place has
	lost  error      // the place did not do as told, so it was deleted
}

var (
	_ Executor = (*harborPlace)(nil)
	_ Mirror   = (*harborPlace)(nil)
	_ Prover   = (*harborPlace)(nil)
)

// open makes the place and looks around in it.
func (p *harborPlace) open(ctx context.Context, image string) error {
	b := p.backend
	var err error
	if p.folder, err = os.MkdirTemp(b.folder, "p"); err != nil {
		return err
	}
	if p.bridge, err = startBridge(ctx, b.python(), b.env(), p.folder); err != nil {
		return err
	}
	network := NetNone
	if b.kind.engine == "" || p.spec.Network == NetOpen {
		network = NetOpen
	}
	r := request{
		Do: "start", Backend: b.kind.name, Image: image, Folder: p.folder, Session: p.session,
		CPUs: b.params.CPUs, CPUMode: b.modes.cpu(), MemoryMB: b.memory, MemoryMode: b.modes.memory(),
	}
	if b.kind.engine == "" {
		r.Image = cmp.Or(p.spec.Image, b.session.Image)
	} else {
		compose, err := b.writeCompose(p.folder, p.spec, network)
		if err != nil {
			return err
		}
		r.Compose = []string{compose}
	}
	starting, cancel := context.WithTimeout(ctx, farStart)
	defer cancel()
	if _, err := p.bridge.ask(starting, r); err != nil {
		return err
	}
	return p.lookAround(ctx, network)
}

// lookAround proves what the place reaches, before anything of a cell ran there.
func (p *harborPlace) lookAround(ctx context.Context, network Network) error {
	a, err := p.line(ctx, farProbe, probeScript)
	if err != nil {
		return err
	}
	look, err := parseLook(a.Out)
	if err != nil {
		return err
	}
	p.egress = egressOf(network, look.interfaces, look.routes, canaryNone)
	in := p.backend.Inside(p.spec.Folders)
	p.env, err = placeEnv(HostOptions{Home: in.Home, Tmp: in.Tmp, Token: p.token, Env: p.spec.Env, Host: []string{"PATH=" + look.path, "LANG=C.UTF-8"}})
	return err
}

// Egress is what the place reached when it was new.
func (p *harborPlace) Egress() Egress { return p.egress }

// line runs a line of ours in the place.
func (p *harborPlace) line(ctx context.Context, limit time.Duration, script string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if len(script) <= maxLine {
		return p.bridge.ask(ctx, request{Do: "exec", Command: script})
	}
	name, err := p.put(ctx, strings.NewReader(script))
	if err != nil {
		return answer{}, err
	}
	return p.bridge.ask(ctx, request{Do: "exec", Command: "bash " + name + "; rm " + name})
}

// put writes a file of the place that only root reads, and returns its name there.
func (p *harborPlace) put(ctx context.Context, r io.Reader) (string, error) {
	f, err := os.CreateTemp(p.folder, "put")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	_, err = io.Copy(f, r)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	name := farRun + "/" + rand.Text()
	_, err = p.bridge.ask(ctx, request{Do: "put", Src: f.Name(), Dst: name})
	return name, err
}

// get fetches a file of the place. What comes is opened as what a stranger sent: it may be a link to anywhere.
func (p *harborPlace) get(ctx context.Context, name string) (*os.File, error) {
	dir, err := os.MkdirTemp(p.folder, "get")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	to := filepath.Join(dir, "file")
	if _, err := p.bridge.ask(ctx, request{Do: "get", Src: name, Dst: to}); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(to, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("the place sent something else than a file for %s", name)
	}
	return f, nil
}

// Run runs one command as a line of ours; its output arrives when it has ended.
func (p *harborPlace) Run(ctx context.Context, c Command) (Exit, error) {
	if p.closed.Load() {
		return Exit{}, errors.New("run: the place is closed")
	}
	env, err := checkCommand(c, p.env)
	if err != nil {
		return Exit{}, fmt.Errorf("run: %w", err)
	}
	if ctx.Err() != nil { // called off before it began: nothing is started
		late := errors.Is(context.Cause(ctx), context.DeadlineExceeded)
		return Exit{Code: -1, TimedOut: late, Cancelled: !late}, nil
	}
	exit, err := p.run(ctx, c, env)
	if err != nil {
		return exit, fmt.Errorf("run %s: %w", c.Argv[0], err)
	}
	return exit, nil
}

func (p *harborPlace) run(ctx context.Context, c Command, env []string) (Exit, error) {
	if err := p.push(ctx, true); err != nil {
		return Exit{}, err
	}
	far := farCommand{
		id: rand.Text(), dir: path.Join(InsideRoot, "work", c.Dir), argv: c.Argv, env: env, limit: cmp.Or(c.MaxOutput, defaultMaxOutput),
	}
	if c.Stdin != nil {
		name, err := p.put(ctx, c.Stdin)
		if err != nil {
			return Exit{}, fmt.Errorf("its standard input: %w", err)
		}
		far.stdin = name
	}
	began := time.Now()
	exit, a, err := p.watch(ctx, c, far)
	exit.Took = time.Since(began)
	if err != nil {
		exit.Code = -1
		return exit, err
	}
	rep, err := parseReport(a.Out)
	if err != nil {
		return exit, err
	}
	exit.Code, exit.Signal, exit.Swept, exit.Survivors = rep.code, rep.signal, rep.swept, rep.survivors
	exit.TimedOut, exit.Cancelled = exit.TimedOut && rep.stopped, exit.Cancelled && rep.stopped
	exit.Out, exit.Err = rep.out.kept+rep.out.more, rep.err.kept+rep.err.more
	exit.Truncated = rep.short || rep.out.more > 0 || rep.err.more > 0
	return exit, p.pass(far, rep, c)
}

// watch waits for the report and stops the command when its time is over. The Exit says only why we stopped it. A place that
// does not end the command is deleted.
func (p *harborPlace) watch(ctx context.Context, c Command, far farCommand) (exit Exit, a answer, err error) {
	type ending struct {
		answer
		error
	}
	asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ended := make(chan ending, 1)
	go func() {
		a, err := p.line(asking, 1<<62, far.script())
		ended <- ending{a, err}
	}()
	var timeout, hard <-chan time.Time
	stop := func(grace time.Duration) {
		go p.line(asking, grace+farExec, stopScript(far.id, grace))
		hard = time.After(grace + farExec)
	}
	if c.Timeout > 0 {
		timeout = time.After(c.Timeout)
	}
	grace, cancelled := cmp.Or(c.Grace, defaultGrace), ctx.Done()
	for {
		select {
		case e := <-ended:
			return exit, e.answer, e.error
		case <-timeout:
			timeout, exit.TimedOut = nil, true
			stop(grace)
		case <-cancelled:
			cancelled, timeout = nil, nil
			if ctx.Err() == context.DeadlineExceeded {
				exit.TimedOut = true
				stop(grace)
				continue
			}
			exit.Cancelled = !exit.TimedOut
			stop(min(grace, cancelGrace))
		case <-hard:
			return exit, a, p.lose(errors.New("the place did not end it, so the place was deleted"))
		}
	}
}

// lose deletes the place.
func (p *harborPlace) lose(err error) error {
	p.sync.Lock()
	p.lost = err
	p.sync.Unlock()
	p.delete()
	return err
}

// pass hands the output on.
func (p *harborPlace) pass(far farCommand, rep farReport, c Command) error {
	err := p.passStream(far, "out", rep.out, c.Stdout)
	if err == nil {
		err = p.passStream(far, "err", rep.err, c.Stderr)
	}
	if !rep.out.inline || !rep.err.inline {
		_, gone := p.line(context.Background(), farProbe, "rm -rf "+farRun+"/"+far.id)
		err = errors.Join(err, gone)
	}
	if err != nil {
		return fmt.Errorf("pass its output on: %w", err)
	}
	return nil
}

func (p *harborPlace) passStream(far farCommand, name string, s farStream, w io.Writer) error {
	if w == nil || s.kept == 0 {
		return nil
	}
	from := io.Reader(bytes.NewReader(s.data))
	if !s.inline {
		ctx, cancel := context.WithTimeout(context.Background(), mirrorTime)
		defer cancel()
		f, err := p.get(ctx, farRun+"/"+far.id+"/"+name)
		if err != nil {
			return err
		}
		defer f.Close()
		from = io.LimitReader(f, s.kept)
	}
	_, err := io.Copy(w, from)
	return err
}

// names are the folders of the place that are the same on both sides. What a command leaves in home or tmp stays there.
func (p *harborPlace) names(back bool) []string {
	names := []string{"work"}
	if p.spec.Folders.Env != "" {
		names = append(names, "env")
	}
	if !back {
		names = append(names, "home")
	}
	return names
}

// push brings what changed on this host to the place. A command that follows makes the place the newer one.
func (p *harborPlace) push(ctx context.Context, command bool) error {
	p.sync.Lock()
	defer p.sync.Unlock()
	if p.lost != nil {
		return p.lost
	}
	err := p.pushLocked(ctx)
	p.ahead = p.ahead || command
	return err
}

func (p *harborPlace) pushLocked(ctx context.Context) error {
	now, err := stateOf(p.spec.Root, p.names(false))
	if err != nil {
		return fmt.Errorf("bring its folders to the place: %w", err)
	}
	fresh, gone := now.since(p.known)
	if p.known != nil && len(fresh) == 0 && len(gone) == 0 {
		return nil
	}
	if err := p.send(ctx, fresh, gone); err != nil {
		return fmt.Errorf("bring its folders to the place: %w", err)
	}
	p.known = now
	return nil
}

func (p *harborPlace) send(ctx context.Context, fresh, gone []string) error {
	root, err := os.OpenRoot(p.spec.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	r, w := io.Pipe()
	go func() { w.CloseWithError(packTar(w, root, fresh, gone)) }()
	ctx, cancel := context.WithTimeout(ctx, mirrorTime)
	defer cancel()
	name, err := p.put(ctx, r)
	r.CloseWithError(io.ErrClosedPipe)
	if err != nil {
		return err
	}
	return p.ours(ctx, `cd `+InsideRoot+` && tar -xOf "$f" `+goneName+` | xargs -0 -r rm -rf -- && tar -xpf "$f" --exclude `+goneName+` && rm "$f"`, name)
}

// ours runs a line of ours that must succeed, with $f as a file.
func (p *harborPlace) ours(ctx context.Context, script, file string) error {
	a, err := p.line(ctx, mirrorTime, ourPath+"; f="+file+"; "+script)
	if err == nil && a.Code != 0 {
		err = fmt.Errorf("exit code %d: %q", a.Code, shorten(a.Out, 400))
	}
	return err
}

// Pull makes work and env of this host what those of the place are, if a command may have changed them. What it brings is what
// a stranger sent: it is laid out in a folder that is empty, and then takes the place of what was there.
func (p *harborPlace) Pull(ctx context.Context) error {
	p.sync.Lock()
	defer p.sync.Unlock()
	if p.lost != nil {
		return p.lost
	}
	if !p.ahead {
		return nil
	}
	if err := p.pushLocked(ctx); err != nil { // or what is newer here would be lost
		return err
	}
	if err := p.receive(ctx); err != nil {
		return fmt.Errorf("bring the folders of the place to this host: %w", err)
	}
	p.ahead = false
	return nil
}

func (p *harborPlace) receive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, mirrorTime)
	defer cancel()
	far := farRun + "/" + rand.Text()
	names := p.names(true)
	pack := fmt.Sprintf(`tar -cf - -C %s --numeric-owner %s 2>"$f.said" | head -c %d >"$f"`, InsideRoot, strings.Join(names, " "), maxMirror)
	if err := p.ours(ctx, pack, far); err != nil {
		return err
	}
	sent, err := p.get(ctx, far)
	if err != nil {
		return err
	}
	defer sent.Close()
	dir, err := os.MkdirTemp(p.spec.Root, "sent")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := unpackTar(sent, root, names); err != nil {
		return err
	}
	for _, name := range names {
		if err := replaceContent(filepath.Join(p.spec.Root, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	now, err := stateOf(p.spec.Root, p.names(false))
	p.known = now
	return errors.Join(err, p.ours(ctx, `rm -f "$f" "$f.said"`, far))
}

// Files is the work folder. It is read and written on this host, which is made the same as the place before.
func (p *harborPlace) Files() FS { return mirrored{p} }

// mirrored is the FS of a place that is elsewhere.
type mirrored struct{ place *harborPlace }

func (m mirrored) here(do func(folder) error) error {
	if err := m.place.Pull(context.Background()); err != nil {
		return err
	}
	root, err := os.OpenRoot(m.place.spec.Work)
	if err != nil {
		return err
	}
	defer root.Close()
	return do(folder{root: root})
}

func (m mirrored) Open(name string) (f fs.File, err error) {
	err = m.here(func(d folder) (err error) { f, err = d.Open(name); return err })
	return f, err
}

func (m mirrored) Put(name string, r io.Reader, mode fs.FileMode) error {
	return m.here(func(d folder) error { return d.Put(name, r, mode) })
}

func (m mirrored) List(dir string) (list []Entry, err error) {
	err = m.here(func(d folder) (err error) { list, err = d.List(dir); return err })
	return list, err
}

// Close calls off the commands that run and deletes the place, which takes a while: it is done behind the cells that follow,
// and the backend's Close waits for it.
func (p *harborPlace) Close(context.Context) error {
	if !p.closed.Swap(true) {
		p.backend.ending.Go(p.delete)
	}
	return nil
}

// delete ends the process of Harbor, which deletes the place; where we can look, we look whether it did.
func (p *harborPlace) delete() {
	p.once.Do(func() {
		b := p.backend
		var err error
		if p.bridge != nil {
			err = p.bridge.close()
		}
		if err != nil && b.kind.engine != "" {
			b.remove(context.Background(), "label=com.docker.compose.project="+p.session, func(owner) bool { return true })
		}
		_ = os.RemoveAll(p.folder) // what is left goes with the folder of the run
		b.mu.Lock()
		delete(b.places, p)
		b.mu.Unlock()
	})
}
