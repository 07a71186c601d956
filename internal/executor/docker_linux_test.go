package executor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// testImage is what the places of these tests are made of: any image with a shell, and a program sleep.
func testImage() string { return cmp.Or(os.Getenv("ASSAY_IMAGE"), "debian:bookworm-slim") }

// settings are those of an executor block that was decoded elsewhere.
type settings struct{ params DockerParams }

func (s settings) Decode(into any) error {
	*into.(*DockerParams) = s.params
	return nil
}
func (s settings) Fault(key, msg, hint string) error {
	return fmt.Errorf("%s: %s (%s)", key, msg, hint)
}

func smallParams() DockerParams {
	return DockerParams{Image: testImage(), CPUs: 2, Memory: "256MiB", Processes: 128, Network: "gateway"}
}

// staticSelf is this program without libraries: itself, or a second build of it.
var staticSelf = sync.OnceValues(func() (string, error) {
	program := self("")[0]
	if checkStatic(program) == nil {
		return program, nil
	}
	dir, err := os.MkdirTemp("", "assay-test-")
	if err != nil {
		return "", err
	}
	built := filepath.Join(dir, "executor.test")
	cmd := exec.Command("go", "test", "-c", "-o", built, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build a static test program: %w: %s", err, out)
	}
	return built, nil
})

// startDocker starts a backend of its own for a test.
func startDocker(t testing.TB, params DockerParams, s Session) (*dockerBackend, Facts, error) {
	t.Helper()
	needDocker(t)
	var err error
	if s.Program, err = staticSelf(); err != nil {
		t.Fatal(err)
	}
	s.Environ = os.Environ()
	if s.Scratch == "" {
		s.Scratch = t.TempDir()
	}
	b, err := buildDocker(settings{params})
	if err != nil {
		t.Fatal(err)
	}
	facts, err := b.Start(t.Context(), s)
	return b.(*dockerBackend), facts, err
}

// needDocker skips a test where no daemon answers, or has not the image.
func needDocker(t testing.TB) {
	t.Helper()
	if why := dockerMissing(); why != "" {
		t.Skip("no container can be started here: " + why)
	}
}

var dockerMissing = sync.OnceValue(func() string {
	d, err := findDocker(os.Environ())
	if err != nil {
		return err.Error()
	}
	if _, err := d.image(context.Background(), testImage()); err != nil {
		return err.Error()
	}
	return ""
})

// shared is the backend of the tests that need no other.
var shared struct {
	once    sync.Once
	scratch string
	backend Backend
	err     error
}

func sharedDocker(t testing.TB) Backend {
	t.Helper()
	needDocker(t)
	shared.once.Do(func() {
		if shared.scratch, shared.err = os.MkdirTemp("", "assay-test-"); shared.err != nil {
			return
		}
		var program string
		if program, shared.err = staticSelf(); shared.err != nil {
			return
		}
		if shared.backend, shared.err = buildDocker(settings{smallParams()}); shared.err == nil {
			_, shared.err = shared.backend.Start(context.Background(), Session{Program: program, Scratch: shared.scratch, Environ: os.Environ()})
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.backend
}

// endDocker ends what the tests shared.
func endDocker() (err error) {
	if shared.backend != nil {
		err = shared.backend.Close(context.Background())
	}
	if program, built := staticSelfBuilt(); built {
		os.RemoveAll(filepath.Dir(program))
	}
	return errors.Join(err, os.RemoveAll(shared.scratch))
}

// staticSelfBuilt tells whether a second build was made.
func staticSelfBuilt() (string, bool) {
	if shared.backend == nil {
		return "", false
	}
	program, err := staticSelf()
	return program, err == nil && program != self("")[0]
}

// folders makes those of a place.
func folders(t testing.TB) Folders {
	t.Helper()
	f := foldersIn(t.TempDir())
	if err := os.Mkdir(f.Work, 0o755); err != nil {
		t.Fatal(err)
	}
	return f
}

func foldersIn(root string) Folders {
	return Folders{Root: root, Work: filepath.Join(root, "work"), Home: filepath.Join(root, "home"), Tmp: filepath.Join(root, "tmp")}
}

func dockerPlace(t testing.TB) *place { return placeOf(t, sharedDocker(t), NetNone) }

// placeOf opens a place of a backend.
func placeOf(t testing.TB, b Backend, network Network) *place {
	t.Helper()
	f := folders(t)
	e, err := b.Open(t.Context(), Spec{Folders: f, Network: network, Label: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	p := &place{Executor: e, dir: f.Work, in: b.Inside(f).Work, program: insideProgram,
		another: func(t testing.TB) *place { return placeOf(t, b, network) }}
	p.alive = func(t testing.TB) []string {
		t.Helper()
		var out bytes.Buffer
		if _, err := e.Run(context.Background(), Command{Argv: p.self("living", p.in), Stdout: &out}); err != nil {
			c := e.(*container)
			top, err := c.backend.docker.output(context.Background(), "top", c.name)
			if err == nil {
				t.Errorf("the place cannot be looked into, and these run: %s", top)
			}
			return nil
		}
		return strings.Fields(out.String())
	}
	return p
}

// containersOf are the ids of the containers with a label, whatever their state.
func containersOf(t testing.TB, label string) []string {
	t.Helper()
	d, err := findDocker(os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	out, err := d.output(context.Background(), "ps", "--all", "--quiet", "--filter", "label="+label)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// eventually waits until something holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// clientOf is the process of docker that runs a command in a place.
func clientOf(name string) *process {
	for _, p := range children(os.Getpid()) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if bytes.Contains(line, []byte("\x00exec\x00")) && bytes.Contains(line, []byte(name)) {
			return &p
		}
	}
	return nil
}

func TestDockerFacts(t *testing.T) {
	b, facts, err := startDocker(t, smallParams(), Session{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(t.Context())
	id := facts.Images[testImage()]
	if !strings.HasPrefix(id, "sha256:") {
		t.Errorf("image ids: %v", facts.Images)
	}
	want := "docker, 2 cpus, 256 MiB, 128 processes, image " + strings.TrimPrefix(id, "sha256:")[:12]
	if facts.Name != want || facts.Network != NetGateway || facts.Keys != "container" {
		t.Errorf("facts: %+v, want the name %q", facts, want)
	}
}

func TestA06KilledClientEndsTheCommand(t *testing.T) {
	t.Parallel()
	p := dockerPlace(t)
	c := p.Executor.(*container)
	var err error
	var ended sync.WaitGroup
	ended.Go(func() {
		_, err = p.Run(context.Background(), Command{Argv: p.self("family", p.in, "note", p.in+"/main")})
	})
	waitFor(p.dir + "/main")
	clientOf(c.name).kill()
	ended.Wait()
	if err == nil {
		t.Error("no error")
	}
	if top, err := c.backend.docker.output(t.Context(), "top", c.name); err == nil {
		t.Errorf("these live on: %s", top)
	}
	if exit, err := p.Run(t.Context(), Command{Argv: []string{"true"}}); err == nil {
		t.Errorf("a place that has ended runs on: %+v", exit)
	}
}

// The supervisor alone ends its command when the host is gone.
func TestA06SupervisorEndsWithItsHost(t *testing.T) {
	t.Parallel()
	p := dockerPlace(t)
	c := p.Executor.(*container)
	if err := c.furnish(); err != nil {
		t.Fatal(err)
	}
	client := c.backend.docker.command(t.Context(), "exec", "--interactive", c.name, insideProgram, SuperviseName, framesName)
	f, err := dial(client, func(err error) error { return err })
	if err != nil {
		t.Fatal(err)
	}
	f.tell(order{Start: &start{Argv: bytesOf(p.self("family", p.in, "stubborn", p.in+"/main")), Work: []byte(c.work)}})
	waitFor(p.dir + "/main")
	f.end()
	eventually(t, "the command ends", func() bool { return len(p.alive(t)) == 0 })
}

func playDockerHost(dir, label string) int {
	b, err := buildDocker(settings{smallParams()})
	if err == nil {
		_, err = b.Start(context.Background(), Session{Program: self("")[0], Scratch: filepath.Join(dir, "scratch"), Environ: os.Environ()})
	}
	if err == nil {
		var e Executor
		if e, err = b.Open(context.Background(), Spec{Folders: foldersIn(dir), Network: NetNone, Label: label}); err == nil {
			_, err = e.Run(context.Background(), Command{Argv: []string{insideProgram, "play", "family", InsideRoot + "/work", "stubborn", InsideRoot + "/work/main"}})
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// killedHost starts a run in a process of its own, and kills it while an agent works.
func killedHost(t *testing.T) (label string) {
	t.Helper()
	needDocker(t)
	program, err := staticSelf()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"work", "scratch"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	label = t.Name() + strconv.Itoa(os.Getpid())
	host := exec.Command(program, "play", "dockerhost", dir, label)
	host.Stderr = os.Stderr
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(dir + "/work/main")
	host.Process.Kill()
	host.Wait()
	return label
}

func TestA07OurDeathLeavesNoContainer(t *testing.T) {
	label := labelCell + "=" + killedHost(t)
	d := sharedDocker(t).(*dockerBackend).docker
	for _, id := range containersOf(t, label) {
		eventually(t, "the container ends with us", func() bool {
			_, err := d.output(t.Context(), "top", id)
			return err != nil
		})
	}
	b, _, err := startDocker(t, smallParams(), Session{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(t.Context())
	if left := containersOf(t, label); len(left) > 0 {
		t.Errorf("left after the next start: %q", left)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left := containersOf(t, labelRun+"="+b.run); len(left) > 0 {
		t.Errorf("left after Close: %q", left)
	}
}

func TestA08PlacesReachNothing(t *testing.T) {
	t.Parallel()
	b := sharedDocker(t).(*dockerBackend)
	if b.canary == nil {
		t.Skip("the daemon has no bridge on this host that a canary could listen on")
	}
	canary := b.canary.address()
	for _, network := range []Network{NetNone, NetGateway} {
		p := placeOf(t, b, network)
		e := p.Executor.(Prover).Egress()
		want := Egress{Policy: network, Proven: true, Interfaces: []string{"lo"}, Canary: "unreached"}
		if !slices.Equal(e.Interfaces, want.Interfaces) || e.Proven != want.Proven || e.Canary != want.Canary || e.Routes != 0 || e.Policy != network {
			t.Errorf("%s: %+v, want %+v", network, e, want)
		}
		if exit, out, _ := run(t, p, Command{Argv: p.self("dial", canary, "")}); exit.Code == 0 {
			t.Errorf("%s: a command reached the canary: %s", network, out)
		}
	}
	// The positive control: on the bridge the same canary answers.
	p := placeOf(t, b, NetOpen)
	if e := p.Executor.(Prover).Egress(); e.Canary != "reached" || e.Proven || e.Routes == 0 {
		t.Errorf("open: %+v", e)
	}
	if exit, out, _ := run(t, p, Command{Argv: p.self("dial", canary, "")}); exit.Code != 0 {
		t.Errorf("open: the canary is not reached: %s", out)
	}
}

func TestA08WhatCannotBeEnforcedIsRefused(t *testing.T) {
	t.Parallel()
	for rule, change := range map[string]struct {
		params func(*DockerParams)
		reason string
	}{
		"no such image":   {func(p *DockerParams) { p.Image = "assay.invalid/none:1" }, "no_image"},
		"no image":        {func(p *DockerParams) { p.Image = "" }, "no_image"},
		"no such runtime": {func(p *DockerParams) { p.Runtime = "assay-none" }, "policy_unenforceable"},
		"no such folder":  {func(p *DockerParams) { p.Mount = []string{"/no/such/folder"} }, "policy_unenforceable"},
	} {
		params := smallParams()
		change.params(&params)
		b, _, err := startDocker(t, params, Session{})
		var u *Unavailable
		if !errors.As(err, &u) || u.Reason != change.reason {
			t.Errorf("%s: %v, want the reason %s", rule, err, change.reason)
		}
		b.Close(t.Context())
	}
}

func TestA08CensusIsJudged(t *testing.T) {
	t.Parallel()
	good := census{Interfaces: []string{"lo"}, Canary: "unreached", Nonce: "n", NoNewPrivs: true, Memory: 256 << 20, Processes: 128, CPUs: 2}
	b := &dockerBackend{params: smallParams(), memory: 256 << 20}
	if err := b.verify(good, "n"); err != nil {
		t.Error(err)
	}
	if !good.egress(NetGateway).Proven || good.egress(NetOpen).Proven {
		t.Error("a good census is not judged as it should be")
	}
	for rule, change := range map[string]func(*census){
		"another folder":     func(c *census) { c.Nonce = "m" },
		"uncontained":        func(c *census) { c.Uncontained = "old kernel" },
		"unwritable":         func(c *census) { c.Unwritable = "read-only" },
		"capabilities":       func(c *census) { c.Capabilities = true },
		"new privileges":     func(c *census) { c.NoNewPrivs = false },
		"writable image":     func(c *census) { c.RootWritable = true },
		"no limit of memory": func(c *census) { c.Memory = 0 },
		"more processes":     func(c *census) { c.Processes = 4096 },
		"more cpus":          func(c *census) { c.CPUs = 4 },
	} {
		c := good
		change(&c)
		if err := b.verify(c, "n"); err == nil {
			t.Errorf("%s: not refused", rule)
		}
	}
	for rule, change := range map[string]func(*census){
		"an interface":   func(c *census) { c.Interfaces = []string{"lo", "eth0"} },
		"no look":        func(c *census) { c.Interfaces = nil },
		"a route":        func(c *census) { c.Routes = 1 },
		"canary reached": func(c *census) { c.Canary = "reached" },
	} {
		c := good
		change(&c)
		if c.egress(NetNone).Proven {
			t.Errorf("%s: counts as proven", rule)
		}
	}
}

func TestA09NoKeyIsVisible(t *testing.T) {
	const canary = "sk-canary-3141592653589793"
	t.Setenv("OPENAI_API_KEY", canary)
	t.Setenv("HTTPS_PROXY", "")
	b, _, err := startDocker(t, smallParams(), Session{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	p := placeOf(t, b, NetGateway)
	if exit, out, _ := run(t, p, Command{Argv: p.self("search", canary)}); exit.Code != 0 || out != "" {
		t.Errorf("%+v: found in %s", exit, out)
	}
	for _, v := range b.docker.env {
		if strings.Contains(v, canary) {
			t.Errorf("docker is given %s", v)
		}
	}
	text, err := b.docker.output(t.Context(), "container", "inspect", p.Executor.(*container).name)
	if err != nil || bytes.Contains(text, []byte(canary)) {
		t.Errorf("%v: the daemon knows it: %s", err, text)
	}
}

// gatewayForTest answers every connection by its name and what was sent.
func gatewayForTest(t *testing.T, name string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				text, _ := io.ReadAll(conn)
				fmt.Fprintf(conn, "%s heard %s", name, text)
			}()
		}
	}()
	return l.Addr().String()
}

func TestA10EachPlaceHasItsOwnWayToTheGateway(t *testing.T) {
	address := gatewayForTest(t, "gateway")
	b, _, err := startDocker(t, smallParams(), Session{Gateway: func() string { return address }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	one, two, none := placeOf(t, b, NetGateway), placeOf(t, b, NetGateway), placeOf(t, b, NetNone)
	for _, p := range []*place{one, two} {
		if exit, out, _ := run(t, p, Command{Argv: p.self("dial", address, "hello")}); exit.Code != 0 || out != "gateway heard hello" {
			t.Errorf("%+v: %s", exit, out)
		}
	}
	if exit, out, _ := run(t, none, Command{Argv: none.self("dial", address, "hello")}); exit.Code == 0 {
		t.Errorf("a place without a network reaches the gateway: %s", out)
	}
	foreign := filepath.Join(one.Executor.(*container).doors.dir, gatewaySocket)
	script := "test -S " + insideSockets + "/" + gatewaySocket + " && echo own; ls " + foreign + " 2>/dev/null; ls -d /proc/1/root" + foreign + " 2>/dev/null; echo x 2>/dev/null >" + insideSockets + "/x; true"
	if exit, out, _ := run(t, two, Command{Argv: []string{"sh", "-c", script}}); exit.Code != 0 || out != "own\n" {
		t.Errorf("%+v: the second place sees %q", exit, out)
	}
	if _, err := os.Stat(filepath.Join(two.Executor.(*container).doors.dir, "x")); err == nil {
		t.Error("a place wrote beside its socket")
	}
}

// A long path of the temporary folder is no reason to leave sockets elsewhere, where no sweep would find them.
func TestSocketsStayInTheScratchFolder(t *testing.T) {
	t.Parallel()
	scratch := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	if err := os.Mkdir(scratch, 0o755); err != nil {
		t.Fatal(err)
	}
	address := gatewayForTest(t, "gateway")
	b, _, err := startDocker(t, smallParams(), Session{Scratch: scratch, Gateway: func() string { return address }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	p := placeOf(t, b, NetGateway)
	if exit, out, _ := run(t, p, Command{Argv: p.self("dial", address, "hello")}); exit.Code != 0 || out != "gateway heard hello" {
		t.Errorf("%+v: %s", exit, out)
	}
	dir := p.Executor.(*container).doors.dir
	if !strings.HasPrefix(dir, scratch+"/") {
		t.Errorf("the sockets are in %s", dir)
	}
	if err := p.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("they are still there: %v", err)
	}
}

func TestA11AGreedyPlaceHarmsOnlyItself(t *testing.T) {
	t.Parallel()
	p := dockerPlace(t)
	neighbour := p.another(t)
	still := func() {
		t.Helper()
		if exit, _, _ := run(t, neighbour, Command{Argv: neighbour.self("exit", "7")}); exit.Code != 7 {
			t.Errorf("neighbour: %+v", exit)
		}
	}
	var bombed sync.WaitGroup
	bombed.Go(func() {
		exit, err := p.Run(context.Background(), Command{Argv: []string{"sh", "-c", "bomb() { bomb | bomb & }; bomb; sleep 1"}, Timeout: 10 * time.Second, Grace: time.Second})
		if len(exit.Survivors) > 0 {
			t.Errorf("%v: survivors %q", err, exit.Survivors)
		}
	})
	still()
	bombed.Wait()
	still()

	p = p.another(t)
	exit, out, _ := run(t, p, Command{Argv: p.self("hog", strconv.Itoa(512<<20))})
	if !exit.OOM || exit.Signal != "SIGKILL" || out != "" {
		t.Errorf("memory: %+v %s", exit, out)
	}
	if exit, out, _ := run(t, p, Command{Argv: p.self("fill", p.in+"/big", strconv.Itoa(3<<30))}); exit.Code == 0 {
		t.Errorf("a file of 3 GiB: %+v %s", exit, out)
	}
	if exit, _, _ := run(t, p, Command{Argv: p.self("exit", "7")}); exit.Code != 7 || exit.OOM {
		t.Errorf("after its limits: %+v", exit)
	}
	still()
}

func BenchmarkDockerPlace(b *testing.B) {
	backend := sharedDocker(b)
	for b.Loop() {
		e, err := backend.Open(b.Context(), Spec{Folders: folders(b), Network: NetNone, Label: "bench"})
		if err != nil {
			b.Fatal(err)
		}
		if exit, err := e.Run(b.Context(), Command{Argv: []string{"true"}}); err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
		if err := e.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		backend.(*dockerBackend).removing.Wait() // the bare container is removed within its time, too
	}
}

func BenchmarkBareContainer(b *testing.B) {
	d := sharedDocker(b).(*dockerBackend).docker
	for b.Loop() {
		id, err := d.output(b.Context(), "run", "--detach", "--init", "--network", "none", testImage(), "sleep", "1000")
		if err != nil {
			b.Fatal(err)
		}
		name := strings.TrimSpace(string(id))
		for _, args := range [][]string{{"exec", name, "true"}, {"rm", "--force", name}} {
			if _, err := d.output(b.Context(), args...); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"4GiB": 4 << 30, "512MiB": 512 << 20, "1KiB": 1024} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "4", "4GB", "-1GiB", "0GiB", "GiB", "1.5GiB", "99999999999GiB"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%s: %d", text, got)
		}
	}
}

func TestMountArgKeepsCommas(t *testing.T) {
	t.Parallel()
	if got := mountArg("type=bind", "src=/a,b", "dst=/c"); got != `type=bind,"src=/a,b",dst=/c` {
		t.Error(got)
	}
}

func TestPathsOfAContainerAreTranslated(t *testing.T) {
	t.Parallel()
	b := &dockerBackend{mounts: []mount{{"/home/runner/work", "/github/workspace"}, {"/var/tmp", "/github/workspace/tmp"}, {"", "/volatile"}}}
	for file, want := range map[string]string{"/github/workspace/a/b": "/home/runner/work/a/b", "/github/workspace/tmp/p1": "/var/tmp/p1"} {
		if got, err := b.outside(file); err != nil || got != want {
			t.Errorf("%s: %s, %v", file, got, err)
		}
	}
	for _, file := range []string{"/tmp/p1", "/github/workspace2/x", "/volatile/x"} {
		if got, err := b.outside(file); err == nil {
			t.Errorf("%s: %s", file, got)
		}
	}
	if got, err := (&dockerBackend{}).outside("/tmp/p1"); err != nil || got != "/tmp/p1" {
		t.Errorf("on a host: %s, %v", got, err)
	}
}

func TestFramesComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	var b []byte
	b = appendFrame(b, frameStdout, []byte("a\x00b"))
	b = appendFrame(b, frameStderr, nil)
	b = appendFrame(b, frameReport, []byte("{}"))
	r := bytes.NewReader(b)
	var buf []byte
	for _, want := range []string{"1a\x00b", "2", "r{}"} {
		kind, payload, err := readFrame(r, &buf)
		if got := string(kind) + string(payload); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	if _, _, err := readFrame(r, &buf); err != io.EOF {
		t.Error(err)
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add(appendFrame(nil, frameStdout, []byte("text")))
	f.Add([]byte{frameStdout, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{frameReport, 0, 0, 0, 9, '{'})
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := bytes.NewReader(stream)
		var buf, again []byte
		for {
			kind, payload, err := readFrame(r, &buf)
			if err != nil {
				break
			}
			again = appendFrame(again, kind, payload)
		}
		if !bytes.HasPrefix(stream, again) {
			t.Fatalf("%q became %q", stream, again)
		}
	})
}
