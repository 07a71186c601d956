package executor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The walls that the host executor can put between agents and the rest of this host.
const (
	WallAuto = "auto"
	WallBox  = "bwrap"
	WallUser = "uid"
	WallNone = "none"
)

// HostParams are the settings of the executor host.
type HostParams struct {
	Isolation string `yaml:"isolation" default:"auto" rule:"oneof=auto bwrap uid none" doc:"what stands between agents and this host: bwrap is bubblewrap, uid another user (needs root); auto takes bwrap where the run is not trusted or asks for a network that only bwrap can hold, and else none"`
}

// hostBackend makes places of this host.
type hostBackend struct {
	params  HostParams
	session Session
	box     *box            // nil: no bubblewrap
	users   *users          // nil: everything runs as the user that we are
	canary  *canaryListener // there when box is
}

func buildHost(s Settings) (Backend, error) {
	b := &hostBackend{}
	return b, s.Decode(&b.params)
}

// Start tries the walls that may be used, and takes the first that holds.
func (b *hostBackend) Start(ctx context.Context, s Session) (Facts, error) {
	b.session = s
	if s.Image != "" || len(s.Images) > 0 {
		return Facts{}, &Unavailable{What: "executor host", Reason: "no_image", Text: "places of this host are made of no image; use --executor docker"}
	}
	wall := cmp.Or(s.Isolation, b.params.Isolation, WallAuto)
	closed := s.Network == NetNone || s.Network == NetGateway
	switch {
	case wall == WallBox || wall == WallAuto && (closed || s.Untrusted):
		return b.startBox(ctx, wall)
	case closed:
		return Facts{}, unenforceable("with isolation " + wall + " commands reach whatever this host reaches, so network " + string(s.Network) +
			" cannot be held; use --isolation bwrap or --executor docker, or network open")
	case wall == WallUser:
		return b.startUsers(ctx)
	}
	return plainFacts(), nil
}

// plainFacts are those of a host without a wall.
func plainFacts() Facts {
	return Facts{Name: "host", Network: NetOpen, Isolation: Kinds[0].Isolation, Keys: Kinds[0].Keys}
}

func unenforceable(text string) error {
	return &Unavailable{What: "executor host", Reason: "policy_unenforceable", Text: text}
}

// startBox gets bubblewrap ready, and tries whether it holds.
func (b *hostBackend) startBox(ctx context.Context, wall string) (Facts, error) {
	err := b.tryBox(ctx)
	switch {
	case err == nil:
		return Facts{Name: "host, bwrap", Network: cmp.Or(b.session.Network, NetGateway), Isolation: boxIsolation, Keys: "namespace"}, nil
	case wall == WallBox:
		return Facts{}, unenforceable(fmt.Sprintf("isolation bwrap cannot be held: %v", err))
	case b.session.Network == "":
		f := plainFacts()
		f.Unwalled = fmt.Sprintf("this run is not trusted, and nothing stands between its agents and this host, since bubblewrap cannot be used (%v); "+
			"use --executor docker or a host with bubblewrap, or take the risk with --isolation none", err)
		return f, nil
	}
	return Facts{}, unenforceable(fmt.Sprintf("network %s cannot be held on this host, since bubblewrap cannot be used (%v); use --executor docker, or network open",
		b.session.Network, err))
}

// boxIsolation and userIsolation say what a wall does not protect.
const (
	boxIsolation = "The agent runs in bubblewrap: it sees the programs of this host and its own folders, processes and network alone. " +
		"It shares the kernel, and can use memory, CPU, disk and processes without limit."
	userIsolation = "The agent runs as a user of its own: it can read what this host shows to every user, reach the network, leave files " +
		"in shared folders such as /tmp, and use memory, disk and processes without limit."
)

// startUsers tries whether another user is a wall here.
func (b *hostBackend) startUsers(ctx context.Context) (Facts, error) {
	if err := b.tryUsers(ctx); err != nil {
		return Facts{}, unenforceable(fmt.Sprintf("isolation uid cannot be held: %v", err))
	}
	return Facts{Name: "host, uid", Network: NetOpen, Isolation: userIsolation, Keys: "uid"}, nil
}

// tryBox makes a place in a box and looks around in it.
func (b *hostBackend) tryBox(ctx context.Context) error {
	environ := b.environ()
	closed := append([]string{b.session.Scratch}, b.session.Closed...)
	if home := environ["HOME"]; filepath.IsAbs(home) {
		closed = append(closed, filepath.Clean(home))
	}
	made, err := newBox(b.session.Program, environ["PATH"], environ["HOME"], closed)
	if err != nil {
		return err
	}
	if b.canary == nil {
		if b.canary, err = newCanary("127.0.0.1"); err != nil {
			return err
		}
	}
	t, err := newTrial(b.session.Scratch)
	if err != nil {
		return err
	}
	defer t.remove()
	walls := &boxed{box: made, folders: t.Folders, network: NetNone}
	seen, err := walls.survey(ctx, b.canary.address(), append(t.secrets, inside(t.Folders).Work+"/own")...)
	if err != nil {
		return err
	}
	if err := holds(seen, inside(t.Folders).Work+"/own"); err != nil {
		return err
	}
	if e := seen.egress(NetNone); !e.Proven {
		return fmt.Errorf("a box reaches more than it may: interfaces %v, %d routes, canary %s", e.Interfaces, e.Routes, e.Canary)
	}
	b.box = made
	return nil
}

// tryUsers looks around as another user.
func (b *hostBackend) tryUsers(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("it takes root to run commands as other users")
	}
	t, err := newTrial(b.session.Scratch)
	if err != nil {
		return err
	}
	defer t.remove()
	all := newUsers()
	user, err := all.take(t.Folders)
	if err != nil {
		return err
	}
	defer user.end()
	if err := user.moveIn(); err != nil {
		return err
	}
	seen, err := surveyAs(ctx, b.session.Program, b.session.Scratch, user.id, append(t.secrets, t.Work+"/own")...)
	if err != nil {
		return fmt.Errorf("%w; every user must be able to pass the folders above %s", err, b.session.Scratch)
	}
	if seen.User != user.id {
		return fmt.Errorf("commands run as user %d, not %d", seen.User, user.id)
	}
	if err := holds(seen, t.Work+"/own"); err != nil {
		return err
	}
	b.users = all
	return nil
}

// holds checks that a look around could read its own file, and nothing else.
func holds(seen sight, own string) error {
	if !slices.Equal(seen.Readable, []string{own}) {
		return fmt.Errorf("it does not hold: of all that was tried, commands can read %q", seen.Readable)
	}
	return nil
}

// A trial is a place that walls are tried on.
type trial struct {
	Folders
	secrets []string // files that no command of a place may read
}

func newTrial(scratch string) (*trial, error) {
	root, err := os.MkdirTemp(scratch, "t")
	if err != nil {
		return nil, err
	}
	t := &trial{Folders: Folders{Root: root, Work: root + "/work", Home: root + "/home", Tmp: root + "/tmp"}}
	for _, dir := range []string{t.Work, t.Home, t.Tmp} {
		err = errors.Join(err, os.Mkdir(dir, 0o755))
	}
	secret := filepath.Join(scratch, "canary")
	t.secrets = []string{secret, fmt.Sprintf("/proc/%d/environ", os.Getpid())}
	err = errors.Join(err, os.WriteFile(t.Work+"/own", []byte("own"), 0o600), os.WriteFile(secret, []byte("secret"), 0o600))
	if err != nil {
		t.remove()
		return nil, err
	}
	return t, nil
}

func (t *trial) remove() {
	os.RemoveAll(t.Root)
	os.Remove(t.secrets[0])
}

// environ are the variables of the host.
func (b *hostBackend) environ() map[string]string {
	vars := map[string]string{}
	for _, v := range b.session.Environ {
		if name, value, ok := strings.Cut(v, "="); ok {
			vars[name] = value
		}
	}
	return vars
}

func (b *hostBackend) Open(ctx context.Context, s Spec) (Executor, error) {
	o := HostOptions{
		Work: s.Work, Home: s.Home, Tmp: s.Tmp, Env: s.Env, Host: b.session.Environ,
		Supervisor: []string{b.session.Program, SuperviseName}, Token: rand.Text(),
	}
	switch {
	case b.box != nil:
		return b.openBox(ctx, s, o)
	case b.users != nil:
		return b.openUser(ctx, s, o)
	}
	return NewHost(o)
}

func (b *hostBackend) Inside(f Folders) Folders {
	if b.box != nil {
		return inside(f)
	}
	return f
}

func (b *hostBackend) Close(context.Context) error {
	if b.canary != nil {
		b.canary.close()
	}
	return nil
}
