package executor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// HarborParams are the settings of the executor harbor.
type HarborParams struct {
	Backend string  `yaml:"backend" doc:"where Harbor makes places" default:"docker" rule:"oneof=docker podman daytona modal e2b runloop gke"`
	Image   string  `yaml:"image" doc:"image of every place; it has bash, tar and setpriv. A backend elsewhere needs its digest, name@sha256:…"`
	CPUs    float64 `yaml:"cpus" doc:"processors of a place" default:"2" rule:"above=0"`
	Memory  string  `yaml:"memory" doc:"memory of a place, in MiB or GiB" default:"4GiB" rule:"regex=^[1-9][0-9]*(MiB|GiB)$"`
	Python  string  `yaml:"python" doc:"a Python of at least 3.12 that has harbor==0.25.0, or uv, which gets both" default:"python3.12"`
}

// A harborKind is a backend of Harbor as we use it.
type harborKind struct {
	name   string
	engine string   // the program that speaks to the daemon of this host which makes its places; empty: they are elsewhere
	extra  string   // of the package harbor, for uv
	env    []string // beginnings of the variables that hold its credentials, for Harbor alone
}

var harborKinds = []harborKind{
	{name: "docker", engine: "docker", env: []string{"DOCKER_"}},
	{name: "podman", engine: "podman", env: []string{"CONTAINER_", "CONTAINERS_", "XDG_"}},
	{name: "daytona", extra: "daytona", env: []string{"DAYTONA_"}},
	{name: "modal", extra: "modal", env: []string{"MODAL_"}},
	{name: "e2b", extra: "e2b", env: []string{"E2B_"}},
	{name: "runloop", extra: "runloop", env: []string{"RUNLOOP_"}},
	{name: "gke", extra: "gke", env: []string{"GOOGLE_", "GCP_", "CLOUDSDK_", "KUBECONFIG"}},
}

// Times of a place.
const (
	farStart = 15 * time.Minute // an image may have to be fetched to where the place is
	farProbe = time.Minute
	farExec  = 10 * time.Second // more than the command itself may take, for a line to begin and to end
)

// harborBackend makes places by Harbor: one process of it for each.
type harborBackend struct {
	params  HarborParams
	kind    harborKind
	memory  int64 // MiB
	session Session
	facts   Facts
	modes   resourceModes
	folder  string // of ours, for the run
	name    string // how the sessions of the run begin

	mu     sync.Mutex
	opened int
	closed bool
	places map[*harborPlace]bool
	ending sync.WaitGroup // places that are deleted behind the cells that had them
}

func buildHarbor(s Settings) (Backend, error) {
	b := &harborBackend{places: map[*harborPlace]bool{}}
	if err := s.Decode(&b.params); err != nil {
		return nil, err
	}
	at := slices.IndexFunc(harborKinds, func(k harborKind) bool { return k.name == b.params.Backend })
	if at < 0 {
		return nil, s.Fault("backend", "the executor harbor needs a backend", "write backend: docker, or where else its places are made")
	}
	bytes, err := parseSize(b.params.Memory)
	if err != nil {
		return nil, s.Fault("memory", "memory: "+err.Error(), "")
	}
	b.kind, b.memory = harborKinds[at], bytes>>20
	return b, nil
}

func (b *harborBackend) unavailable(reason, format string, args ...any) error {
	return &Unavailable{What: "executor harbor, backend " + b.kind.name, Reason: reason, Text: fmt.Sprintf(format, args...)}
}

// Start finds Harbor, asks it for its backend, and looks for the images.
func (b *harborBackend) Start(ctx context.Context, s Session) (Facts, error) {
	b.session = s
	network, err := b.network(s.Network)
	if err != nil {
		return Facts{}, err
	}
	if b.folder, err = os.MkdirTemp(s.Scratch, "harbor"); err != nil {
		return Facts{}, fmt.Errorf("executor harbor: %w", err)
	}
	b.name = "assay-" + strings.ToLower(rand.Text()[:8])
	if b.modes, err = b.capabilities(ctx); err != nil {
		return Facts{}, err
	}
	if b.kind.engine != "" {
		b.sweep(ctx)
	}
	images, err := b.images(ctx)
	if err != nil {
		return Facts{}, err
	}
	b.facts = Facts{
		Name:      fmt.Sprintf("harbor %s, %v cpus (%s), %s (%s)", b.kind.name, b.params.CPUs, b.modes.cpu(), b.params.Memory, b.modes.memory()),
		Network:   network,
		NoGateway: true,
		Isolation: b.isolation(),
		Keys:      "container",
		Images:    images,
	}
	return b.facts, nil
}

// network is what agents reach. Only where we make the network of a place ourselves can we hold it to none.
func (b *harborBackend) network(asked Network) (Network, error) {
	switch {
	case asked == NetGateway:
		return "", b.unavailable("policy_unenforceable", "the model gateway is on this host, and no place of Harbor reaches it; "+
			"use network none with a harness that runs outside of the place (openai, script), or --executor docker")
	case b.kind.engine == "" && asked != NetOpen:
		return "", b.unavailable("policy_unenforceable", "nobody has tried whether it holds a network policy, so it is used with --network open alone: "+
			"agents reach what the place of that vendor reaches")
	}
	return cmp.Or(asked, NetNone), nil
}

func (b *harborBackend) isolation() string {
	if b.kind.engine != "" {
		return "Containers of Harbor share the kernel of this host. Commands run there as a user without powers, with memory and processors limited; " +
			"files under /tmp and in the image's writable folders stay from one command to the next. Graders run in a second container."
	}
	return "Places are machines of " + b.kind.name + ", which Assay has never been run on: their walls, limits and network are that vendor's word."
}

// capabilities asks a process of Harbor that makes no place.
func (b *harborBackend) capabilities(ctx context.Context) (resourceModes, error) {
	folder, err := os.MkdirTemp(b.folder, "caps")
	if err != nil {
		return resourceModes{}, fmt.Errorf("executor harbor: %w", err)
	}
	bridge, err := startBridge(ctx, b.python(), b.env(), folder)
	if err != nil {
		return resourceModes{}, err
	}
	defer bridge.close()
	ctx, cancel := context.WithTimeout(ctx, farProbe)
	defer cancel()
	a, err := bridge.ask(ctx, request{Do: "caps", Backend: b.kind.name})
	if err != nil {
		return resourceModes{}, b.refusal(err)
	}
	if a.Caps.cpu() == "" || a.Caps.memory() == "" {
		return resourceModes{}, b.unavailable("policy_unenforceable", "it holds places to no limit of processors or memory")
	}
	return a.Caps, nil
}

// refusal makes of what a backend raised why it cannot be used.
func (b *harborBackend) refusal(err error) error {
	var f *bridgeFault
	if !errors.As(err, &f) {
		return b.unavailable("unknown", "%v", err)
	}
	switch {
	case f.Type == "credentials" && b.kind.engine != "":
		return b.unavailable("no_daemon", "%s", f.Message)
	case f.Type == "credentials":
		return b.unavailable("no_auth", "%s", f.Message)
	case f.Type == "extra":
		return b.unavailable("no_cli", "%s", f.Message)
	}
	return b.unavailable("unknown", "%s (%s)", f.Message, f.Cause)
}

func (m resourceModes) cpu() string    { return mode(m.CPULimit, m.CPURequest) }
func (m resourceModes) memory() string { return mode(m.MemoryLimit, m.MemoryRequest) }

// mode is the hardest way to hold a place to a limit; empty: there is none.
func mode(limit, request bool) string {
	switch {
	case limit:
		return "limit"
	case request:
		return "request"
	}
	return ""
}

// python is the beginning of the command line that runs the bridge.
func (b *harborBackend) python() []string {
	if path.Base(b.params.Python) != "uv" {
		return []string{b.lookPath(b.params.Python)}
	}
	wanted := harborInstall
	if b.kind.extra != "" {
		wanted = strings.Replace(wanted, "==", "["+b.kind.extra+"]==", 1)
	}
	return []string{b.lookPath(b.params.Python), "run", "--no-project", "--quiet", "--python", "3.12", "--with", wanted, "python"}
}

// lookPath finds a program in the PATH of the session. One that is not there keeps its name: starting it tells.
func (b *harborBackend) lookPath(name string) string {
	if strings.ContainsRune(name, filepath.Separator) {
		return name
	}
	for _, dir := range filepath.SplitList(valueOf(b.session.Environ, "PATH")) {
		full := filepath.Join(dir, name)
		if info, err := os.Stat(full); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return full
		}
	}
	return name
}

func valueOf(env []string, name string) string {
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// env is what a process of Harbor gets of the host: what its backend needs, and none of the keys of models.
func (b *harborBackend) env() []string {
	names := []string{"PATH=", "HOME=", "LANG=", "LC_ALL=", "TMPDIR=", "SSL_CERT_", "HTTP_PROXY=", "HTTPS_PROXY=", "NO_PROXY=",
		"http_proxy=", "https_proxy=", "no_proxy=", "UV_", "PIP_", "PYENV_"}
	names = append(names, b.kind.env...)
	env := []string{"HARBOR_TELEMETRY=off"}
	for _, v := range b.session.Environ {
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(v, n) }) {
			env = append(env, v)
		}
	}
	return env
}

// images finds the id of each image that the run names.
func (b *harborBackend) images(ctx context.Context) (map[string]string, error) {
	b.session.Image = cmp.Or(b.session.Image, b.params.Image)
	if b.session.Image == "" && len(b.session.Images) == 0 {
		return nil, b.unavailable("no_image", "no image is named; write image: in the executor's block, or use --image")
	}
	ids := map[string]string{}
	for _, name := range append([]string{b.session.Image}, b.session.Images...) {
		if name == "" {
			continue
		}
		id, err := b.imageID(ctx, name)
		if err != nil {
			return nil, err
		}
		ids[name] = id
	}
	return ids, nil
}

func (b *harborBackend) imageID(ctx context.Context, name string) (string, error) {
	if b.kind.engine == "" {
		if _, digest, ok := strings.Cut(name, "@sha256:"); ok && len(digest) == 64 {
			return "sha256:" + digest, nil
		}
		return "", b.unavailable("no_image", "%s may be another image tomorrow; name it by its digest, as in %s@sha256:…", name, name)
	}
	out, err := b.engine(ctx, "image", "inspect", "--format", "{{.Id}}", "--", name)
	id := strings.TrimSpace(out)
	if err != nil || !strings.HasPrefix(id, "sha256:") {
		return "", b.unavailable("no_image", "%s is not on this host; fetch it with %s pull, or build it", name, b.kind.engine)
	}
	return id, nil
}

// Inside are the folders of a place as its commands see them.
func (b *harborBackend) Inside(f Folders) Folders { return inside(f) }

// Open makes a place and looks around in it. Its folders go there with the first command.
func (b *harborBackend) Open(ctx context.Context, s Spec) (Executor, error) {
	image := b.facts.Images[cmp.Or(s.Image, b.session.Image)]
	if image == "" {
		return nil, fmt.Errorf("executor harbor: image %q was not looked for when the run began", cmp.Or(s.Image, b.session.Image))
	}
	p := &harborPlace{backend: b, spec: s, token: rand.Text()}
	var err error
	if p.session, err = b.admit(p); err != nil {
		return nil, err
	}
	if err := p.open(ctx, image); err != nil {
		return nil, errors.Join(fmt.Errorf("executor harbor: %w", err), p.Close(ctx))
	}
	return p, nil
}

// admit counts a place and names its session.
func (b *harborBackend) admit(p *harborPlace) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return "", errors.New("executor harbor: it is closed")
	}
	b.opened++
	b.places[p] = true
	return fmt.Sprintf("%s-%d", b.name, b.opened), nil
}

// Close deletes the places that are left and waits for those that are being deleted.
func (b *harborBackend) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	var left []*harborPlace
	for p := range b.places {
		left = append(left, p)
	}
	b.mu.Unlock()
	var errs []error
	for _, p := range left {
		errs = append(errs, p.Close(ctx))
	}
	b.ending.Wait()
	if b.folder != "" {
		errs = append(errs, os.RemoveAll(b.folder))
	}
	return errors.Join(errs...)
}
