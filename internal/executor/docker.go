package executor

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"debug/elf"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// DockerParams are the settings of the executor docker.
type DockerParams struct {
	Image     string   `yaml:"image" doc:"of every place whose case names no other; it is never pulled"`
	CPUs      float64  `yaml:"cpus" doc:"processors that a place may use" default:"2" rule:"above=0"`
	Memory    string   `yaml:"memory" doc:"memory that a place may use, what it keeps in temporary folders included; with swap it is not more" default:"4GiB"`
	Processes int      `yaml:"processes" doc:"processes and threads that a place may have at once" default:"512" rule:"min=64"`
	Network   string   `yaml:"network" doc:"what agents reach: nothing but the model gateway, or nothing; graders reach nothing" default:"gateway" rule:"oneof=gateway none"`
	Mount     []string `yaml:"mount" doc:"folders of this host, such as that of an agent's program, which every place sees read-only under the same path; a bin or .bin folder right in one of them goes on PATH"`
	Runtime   string   `yaml:"runtime" doc:"runtime of the containers, as the daemon knows it, such as runsc; the daemon's own when absent"`
}

// Folders of a place as its commands see them.
const (
	insideSockets = "/.assay/run"
)

// nobody is the user of a place when we are root. Images need not know it.
const nobody = 65532

// dockerBackend makes places of containers. Everything is asked of the docker command, so contexts, DOCKER_HOST and
// look-alikes work as they do in a shell.
type dockerBackend struct {
	params DockerParams
	memory int64 // bytes

	session  Session
	docker   docker
	run      string // unique to this run
	owner    owner  // we
	uid, gid int
	network  Network // while agents work
	program  string  // as the daemon sees it
	base     string  // folder of the sockets of all places
	mounts   []mount // ours, when we are in a container ourselves; nil otherwise
	images   map[string]image
	canary   *canaryListener // nil: there is no bridge that we could listen on

	mu       sync.Mutex
	closed   bool
	places   map[*container]bool
	removing sync.WaitGroup // containers
}

func buildDocker(s Settings) (Backend, error) {
	b := &dockerBackend{places: map[*container]bool{}, images: map[string]image{}}
	if err := s.Decode(&b.params); err != nil {
		return nil, err
	}
	var err error
	if b.memory, err = parseSize(b.params.Memory); err != nil {
		return nil, s.Fault("memory", err.Error(), "write it like 4GiB or 512MiB")
	}
	for _, dir := range b.params.Mount {
		if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || dir == "/" || strings.HasPrefix(dir+"/", "/assay/") || strings.HasPrefix(dir+"/", "/.assay/") {
			return nil, s.Fault("mount", fmt.Sprintf("%q is not the absolute path of a folder that can be shown to a place", dir), "")
		}
	}
	return b, nil
}

// parseSize reads a size such as 4GiB.
func parseSize(text string) (int64, error) {
	for unit, bytes := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			n, err := strconv.ParseInt(number, 10, 32)
			if err == nil && n > 0 {
				return n * bytes, nil
			}
		}
	}
	return 0, fmt.Errorf("%q is not a size", text)
}

// Start looks for the daemon, the images and what can be enforced, by making a place and looking at it from inside.
func (b *dockerBackend) Start(ctx context.Context, s Session) (Facts, error) {
	b.session = s
	b.uid, b.gid = os.Getuid(), os.Getgid()
	if b.uid == 0 {
		b.uid, b.gid = nobody, nobody
	}
	b.network = cmp.Or(s.Network, Network(b.params.Network), NetGateway)
	b.run = rand.Text()
	for _, step := range []func(context.Context) error{
		b.findDaemon, b.collect, b.findImages, b.copyProgram, b.openCanary, b.probe,
	} {
		if err := step(ctx); err != nil {
			return Facts{}, errors.Join(err, b.Close(context.WithoutCancel(ctx)))
		}
	}
	row := kindOf("docker")
	ids := map[string]string{}
	for name, i := range b.images {
		ids[name] = i.ID
	}
	return Facts{Name: b.name(), Network: b.network, Isolation: row.Isolation, Keys: row.Keys, Images: ids}, nil
}

// name is the kind with what makes numbers differ.
func (b *dockerBackend) name() string {
	name := fmt.Sprintf("docker, %v cpus, %s, %d processes", b.params.CPUs, sizeText(b.memory), b.params.Processes)
	if b.params.Runtime != "" {
		name += ", runtime " + b.params.Runtime
	}
	if b.network != NetGateway {
		name += ", network " + string(b.network)
	}
	if i, ok := b.images[b.imageName()]; ok {
		name += ", image " + i.short()
	}
	return name
}

func sizeText(n int64) string {
	if n%(1<<30) == 0 {
		return fmt.Sprintf("%d GiB", n>>30)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// unavailable is why this executor cannot be used.
func unavailable(reason, format string, args ...any) error {
	return &Unavailable{What: "executor docker", Reason: reason, Text: fmt.Sprintf(format, args...)}
}

// findDaemon finds the command and its daemon.
func (b *dockerBackend) findDaemon(ctx context.Context) error {
	if runtime.GOOS != "linux" {
		return unavailable("no_daemon", "places need a Linux daemon on this host; run assay on Linux")
	}
	var err error
	if b.docker, err = findDocker(b.session.Environ); err != nil {
		return unavailable("no_cli", "%v; install it, or use another executor", err)
	}
	if _, err := b.docker.output(ctx, "version", "--format", "{{json .Server}}"); err != nil {
		return unavailable("no_daemon", "no daemon answers: %v; start it, or set DOCKER_HOST", err)
	}
	if b.owner, err = ourselves(); err != nil {
		return err
	}
	b.mounts = b.docker.ownMounts(ctx)
	return nil
}

// collect removes the containers of runs that are gone: those of a process that has ended, and of an earlier boot. Those of
// processes that we cannot see are left alone.
func (b *dockerBackend) collect(ctx context.Context) error {
	out, err := b.docker.output(ctx, "ps", "--all", "--no-trunc", "--filter", "label="+labelOwner,
		"--format", `{{.ID}} {{.Label "`+labelSpace+`"}} {{.Label "`+labelOwner+`"}}`)
	if err != nil {
		return unavailable("no_daemon", "%v", err)
	}
	var dead []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 3 && (owner{f[2], f[1]}).gone() {
			dead = append(dead, f[0])
		}
	}
	if len(dead) == 0 {
		return nil
	}
	_, _ = b.docker.output(ctx, append([]string{"rm", "--force", "--volumes"}, dead...)...) // another run may be at it, too
	return nil
}

// imageName is the image of places whose case names none.
func (b *dockerBackend) imageName() string { return cmp.Or(b.session.Image, b.params.Image) }

// findImages resolves every image to its id. None is pulled: what a run measures must not depend on when it was run.
func (b *dockerBackend) findImages(ctx context.Context) error {
	names := slices.Clone(b.session.Images)
	if name := b.imageName(); name != "" {
		names = append(names, name)
	}
	if len(names) == 0 {
		return unavailable("no_image", "no image is named; write image: under executor in suite.yaml, or use --image")
	}
	for _, name := range names {
		if strings.HasPrefix(name, "-") {
			return unavailable("no_image", "%q cannot be the name of an image", name)
		}
		i, err := b.docker.image(ctx, name)
		if err != nil {
			return unavailable("no_image", "image %s: %v; build it, or get it by docker pull %[1]s", name, err)
		}
		b.images[name] = i
	}
	return nil
}

// copyProgram puts this program where containers can be given it: other than its own path, that of the copy is of a folder
// that we know to be on a disk of the daemon's host, or can translate to one.
func (b *dockerBackend) copyProgram(context.Context) error {
	if err := checkStatic(b.session.Program); err != nil {
		return unavailable("policy_unenforceable", "%v; build assay with CGO_ENABLED=0", err)
	}
	copied := filepath.Join(b.session.Scratch, "assay")
	err := copyProgram(b.session.Program, copied)
	if err != nil {
		return err
	}
	if b.program, err = b.outside(copied); err != nil {
		return err
	}
	b.base, err = os.MkdirTemp(b.session.Scratch, "s") // only we can enter it
	return err
}

// checkStatic tells whether a program runs where there is nothing but itself.
func checkStatic(program string) error {
	f, err := elf.Open(program)
	if err != nil {
		return fmt.Errorf("places need this program, which is no Linux program: %w", err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("places need this program, which is linked with libraries that images may not have")
		}
	}
	return nil
}

// openCanary listens where a place must not reach: at this host's end of the daemon's bridge.
func (b *dockerBackend) openCanary(ctx context.Context) error {
	address, err := b.docker.bridge(ctx)
	if err != nil || address == "" {
		return nil
	}
	b.canary, _ = newCanary(address) // there is none when the bridge is that of another host
	return nil
}

// probe makes a place as agents will have it and checks from inside that what is asked for holds.
func (b *dockerBackend) probe(ctx context.Context) error {
	root, err := os.MkdirTemp(b.session.Scratch, "probe")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	f := Folders{Root: root, Work: filepath.Join(root, "work"), Home: filepath.Join(root, "home"), Tmp: filepath.Join(root, "tmp")}
	if err := os.Mkdir(f.Work, 0o755); err != nil {
		return err
	}
	place, err := b.Open(ctx, Spec{Folders: f, Network: NetNone, Image: slices.Sorted(maps.Keys(b.images))[0], Label: "probe"})
	if err != nil {
		var known *Unavailable
		if errors.As(err, &known) {
			return known
		}
		return unavailable("policy_unenforceable", "a place could not be made: %v", err)
	}
	defer place.Close(ctx)
	if e := place.(Prover).Egress(); !e.Proven {
		return unavailable("policy_unenforceable", "a place without a network reaches interfaces %v, %d routes, canary %s", e.Interfaces, e.Routes, e.Canary)
	}
	return nil
}

// verify tells whether a census shows what was asked for, but for the network, see [census.egress].
func (b *dockerBackend) verify(c census, nonce string) error {
	var wrong []string
	expect := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	expect(c.Nonce == nonce, "its folder is not the one of this host (%q)", shorten(c.Nonce, 200))
	expect(c.Uncontained == "", "processes cannot be contained: %s", c.Uncontained)
	expect(c.Unwritable == "", "its work folder cannot be written to: %s", c.Unwritable)
	expect(!c.Capabilities, "it has capabilities")
	expect(c.NoNewPrivs, "programs can gain privileges")
	expect(!c.RootWritable, "the image's files can be changed")
	expect(c.Memory == b.memory, "the limit of memory is %d bytes", c.Memory)
	expect(c.Processes == int64(b.params.Processes), "the limit of processes is %d", c.Processes)
	expect(c.CPUs > b.params.CPUs-0.01 && c.CPUs < b.params.CPUs+0.01, "the limit of cpus is %v", c.CPUs)
	if wrong == nil {
		return nil
	}
	return unavailable("policy_unenforceable", "a place is not what was asked for: %s", strings.Join(wrong, "; "))
}

// outside is the path of a file of ours as the daemon's host knows it.
func (b *dockerBackend) outside(file string) (string, error) {
	if b.mounts == nil {
		return file, nil
	}
	var best *mount
	for i, m := range b.mounts {
		rel, err := filepath.Rel(m.Destination, file)
		if err == nil && filepath.IsLocal(rel) && (best == nil || len(m.Destination) > len(best.Destination)) {
			best = &b.mounts[i]
		}
	}
	if best == nil || best.Source == "" {
		return "", unavailable("policy_unenforceable",
			"assay runs in a container, and %s is not on a folder that it shares with the daemon's host; set TMPDIR to one that is", file)
	}
	rel, err := filepath.Rel(best.Destination, file)
	return filepath.Join(best.Source, rel), err
}

// Inside gives the folders their names in a place.
func (b *dockerBackend) Inside(f Folders) Folders { return inside(f) }

// Close removes what the run still has.
func (b *dockerBackend) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	left := slices.Collect(maps.Keys(b.places))
	b.mu.Unlock()
	var err error
	for _, c := range left {
		err = errors.Join(err, c.Close(ctx))
	}
	b.removing.Wait()
	if b.canary != nil {
		b.canary.close()
	}
	if b.base != "" {
		err = errors.Join(err, os.RemoveAll(b.base))
	}
	return err
}

// A docker is the docker command.
type docker struct {
	path string
	env  []string
}

// findDocker finds the command on the PATH of an environment. Of that it is given what it reads itself, and no keys.
func findDocker(environ []string) (d docker, err error) {
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case name == "PATH":
			d.path, _ = onPath("docker", value)
		case strings.HasPrefix(name, "DOCKER_"), strings.HasSuffix(strings.ToLower(name), "_proxy"):
		case slices.Contains([]string{"HOME", "USER", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"}, name):
		default:
			continue
		}
		d.env = append(d.env, v)
	}
	if d.path == "" {
		return d, errors.New("there is no docker on PATH")
	}
	return d, nil
}

func (d docker) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.path, args...)
	cmd.Env = d.env
	cmd.WaitDelay = linger
	return cmd
}

// output runs the command and returns what it prints. What it says of a failure is quoted, never read.
func (d docker) output(ctx context.Context, args ...string) ([]byte, error) {
	said := &clipped{most: 2 << 10}
	cmd := d.command(ctx, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("docker %s: %w%s", args[0], errors.Join(ctx.Err(), err), said)
	}
	return out.Bytes(), nil
}

// inspect decodes what the daemon tells of one thing.
func (d docker) inspect(ctx context.Context, into any, args ...string) error {
	out, err := d.output(ctx, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("docker %s: %w", args[0], err)
	}
	return nil
}

// An image is what a place is made of.
type image struct {
	ID     string `json:"Id"`
	Config struct{ Env []string }
}

// short is the beginning of the id, for people.
func (i image) short() string {
	_, hex, _ := strings.Cut(i.ID, ":")
	return hex[:min(12, len(hex))]
}

func (d docker) image(ctx context.Context, name string) (i image, err error) {
	return i, d.inspect(ctx, &i, "image", "inspect", "--format", "{{json .}}", name)
}

// bridge is this host's address on the network that containers have by default; empty when there is none.
func (d docker) bridge(ctx context.Context) (string, error) {
	var n struct {
		IPAM struct{ Config []struct{ Gateway string } }
	}
	if err := d.inspect(ctx, &n, "network", "inspect", "--format", "{{json .}}", "bridge"); err != nil {
		return "", err
	}
	for _, c := range n.IPAM.Config {
		if ip := net.ParseIP(c.Gateway); ip != nil && ip.To4() != nil {
			return c.Gateway, nil
		}
	}
	return "", nil
}

// A mount is a folder of the host that a container sees.
type mount struct{ Source, Destination string }

// ownMounts are the mounts of the container that we run in; nil when we are in none, or in one of another daemon.
func (d docker) ownMounts(ctx context.Context) []mount {
	name, err := os.Hostname()
	if _, missing := os.Stat("/.dockerenv"); err != nil || missing != nil || strings.HasPrefix(name, "-") {
		return nil
	}
	var own struct{ Mounts []mount }
	if d.inspect(ctx, &own, "container", "inspect", "--format", "{{json .}}", name) != nil {
		return nil
	}
	return append([]mount{}, own.Mounts...)
}

// mountArg is the argument of --mount, whose fields are those of a line of CSV.
func mountArg(fields ...string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	w.Write(fields)
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

// searchPath is the PATH of a place: that of its image, then the programs of what is mounted.
func (b *dockerBackend) searchPath(own string) string {
	folders := []string{cmp.Or(own, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")}
	for _, dir := range b.params.Mount {
		for _, bin := range []string{"bin", ".bin"} {
			if info, err := os.Stat(filepath.Join(dir, bin)); err == nil && info.IsDir() {
				folders = append(folders, path.Join(dir, bin))
			}
		}
	}
	return strings.Join(folders, ":")
}

// kindOf is the row of an executor.
func kindOf(name string) Kind {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
	return Kinds[i]
}
