package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// These tests make places by Harbor itself, on a docker daemon. ASSAY_HARBOR is a Python that has it, ASSAY_HARBOR_IMAGE an image
// with bash, tar, setpriv, python3; see make e2e-harbor.

// fakeSettings are those of a suite.
type fakeSettings HarborParams

func (s fakeSettings) Decode(into any) error { *into.(*HarborParams) = HarborParams(s); return nil }
func (fakeSettings) Fault(key, msg, hint string) error {
	return fmt.Errorf("%s: %s; %s", key, msg, hint)
}

func harborParams(t testing.TB, backend string) (fakeSettings, Session) {
	t.Helper()
	python := os.Getenv("ASSAY_HARBOR")
	if python == "" {
		t.Skip("ASSAY_HARBOR names no Python that has Harbor; make e2e-harbor sets it")
	}
	image := os.Getenv("ASSAY_HARBOR_IMAGE")
	return fakeSettings{Backend: backend, Image: image, CPUs: 1, Memory: "512MiB", Python: python}, Session{Scratch: t.TempDir(), Environ: os.Environ()}
}

// newHarbor starts a backend on the docker daemon.
func newHarbor(t testing.TB) *harborBackend {
	t.Helper()
	params, session := harborParams(t, "docker")
	built, err := buildHarbor(params)
	if err != nil {
		t.Fatal(err)
	}
	b := built.(*harborBackend)
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if left := leftOf(t, b, "label="+labelRun+"="+b.name); left != "" {
			t.Error("left after Close:", left)
		}
	})
	facts, err := b.Start(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	if want := "harbor docker, 1 cpus (limit), 512MiB (limit)"; facts.Name != want || facts.Network != NetNone || !facts.NoGateway {
		t.Errorf("facts %+v", facts)
	}
	return b
}

// leftOf lists containers and networks.
func leftOf(t testing.TB, b *harborBackend, filter string) string {
	t.Helper()
	containers, err := b.engine(context.Background(), "ps", "-a", "--filter", filter, "--format", "{{.Names}}")
	networks, err2 := b.engine(context.Background(), "network", "ls", "--filter", filter, "--format", "{{.Name}}")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return containers + networks
}

// newFar opens a place over fresh folders.
func newFar(t testing.TB, b *harborBackend) (*harborPlace, Folders) {
	t.Helper()
	root := t.TempDir()
	f := Folders{Root: root, Work: root + "/work", Home: root + "/home", Tmp: root + "/tmp", Env: root + "/env"}
	if err := errors.Join(os.Mkdir(f.Work, 0o755), os.Mkdir(f.Env, 0o755)); err != nil {
		t.Fatal(err)
	}
	e, err := b.Open(t.Context(), Spec{Folders: f, Env: []string{"CASE=it's \"one\""}, Network: NetNone, Label: "case/arm/t1"})
	if err != nil {
		t.Fatal(err)
	}
	return e.(*harborPlace), f
}

func far(t testing.TB, p *harborPlace, c Command) (exit Exit, out, stderr string) {
	t.Helper()
	var o, e bytes.Buffer
	c.Stdout, c.Stderr = &o, &e
	exit, err := p.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return exit, o.String(), e.String()
}

func shell(text string, args ...string) Command {
	return Command{Argv: append([]string{"bash", "-c", text, "bash"}, args...)}
}

// TestHarborPlace is one place with what a cell does in it.
func TestHarborPlace(t *testing.T) {
	b := newHarbor(t)
	p, f := newFar(t, b)
	if e := p.Egress(); !e.Proven || e.Policy != NetNone || !slices.Equal(e.Interfaces, []string{"lo"}) || e.Routes != 0 {
		t.Errorf("egress %+v", e)
	}
	binary := bytes.Repeat([]byte{0, 1, 0xff, '\n', 'x'}, 10_000)
	if err := errors.Join(os.WriteFile(f.Work+"/bin", binary, 0o755), os.Symlink("bin", f.Work+"/link"), os.WriteFile(f.Env+"/e", []byte("env"), 0o644)); err != nil {
		t.Fatal(err)
	}

	t.Run("what it sees", func(t *testing.T) {
		exit, out, _ := far(t, p, shell(`pwd; id -u; stat -c '%a %s %U' bin; readlink link; cat ../env/e; echo; echo "$HOME $TMPDIR $CASE"; grep -E "Cap(Eff|Prm|Inh|Amb)|NoNewPrivs" /proc/self/status | tr -s '\t\n' ' '; ls /assay/run; touch /x`))
		want := "/assay/place/work\n65532\n755 50000 UNKNOWN\nbin\nenv\n/assay/place/home /assay/place/tmp it's \"one\"\n" +
			"CapInh: 0000000000000000 CapPrm: 0000000000000000 CapEff: 0000000000000000 CapAmb: 0000000000000000 NoNewPrivs: 1 "
		if exit.Code != 1 || out != want {
			t.Errorf("exit %+v\n got %s\nwant %s", exit, out, want)
		}
	})
	t.Run("codes, streams, folders", func(t *testing.T) {
		exit, out, stderr := far(t, p, shell(`printf 'a\377\0b'; echo oops >&2; exit 7`))
		if exit.Code != 7 || exit.Signal != "" || out != "a\xff\x00b" || stderr != "oops\n" || exit.Out != 4 || exit.Err != 5 {
			t.Errorf("%+v %q %q", exit, out, stderr)
		}
		for _, c := range []struct {
			Command
			code   int
			signal string
		}{
			{Command{Argv: []string{"no-such-program"}}, 127, ""},
			{Command{Argv: []string{"/etc/passwd"}}, 126, ""},
			{Command{Argv: []string{"true"}, Dir: "nowhere"}, 126, ""},
			{shell("exit 137"), 137, ""},
			{shell("kill -KILL $$"), -1, "SIGKILL"},
			{shell("kill -SEGV $$"), -1, "SIGSEGV"},
			{shell("kill -TERM $$"), 143, ""},
			{Command{Argv: []string{"bash", "-c", `test "$1" = "it's"`, "", "it's"}}, 0, ""},
			{Command{Argv: []string{"bash", "-c", `test ${#1} = 120000`, "", strings.Repeat("x", 120_000)}}, 0, ""},
		} {
			if exit, out, stderr := far(t, p, c.Command); exit.Code != c.code || exit.Signal != c.signal {
				t.Errorf("%.100q: %+v %q %q", c.Argv, exit, out, stderr)
			}
		}
	})
	t.Run("standard input", func(t *testing.T) {
		c := Command{Argv: []string{"cat"}, Stdin: bytes.NewReader(binary)}
		if _, out, _ := far(t, p, c); out != string(binary) {
			t.Errorf("%d bytes came back", len(out))
		}
	})
	t.Run("files both ways", func(t *testing.T) {
		far(t, p, shell(`rm bin; mkdir -p new/deep; echo made >new/deep/file; chmod 750 new/deep/file; mkfifo new/pipe; ln -s /etc/passwd out`))
		if text, err := read(p.Files(), "new/deep/file"); text != "made\n" || err != nil {
			t.Error(text, err)
		}
		if _, err := read(p.Files(), "out"); err == nil {
			t.Error("a link was followed")
		}
		if _, err := os.Lstat(f.Work + "/bin"); !errors.Is(err, os.ErrNotExist) {
			t.Error("a removed file is here still", err)
		}
		if err := p.Files().Put("new/deep/file", strings.NewReader("from here"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.RemoveAll(f.Work+"/link"), os.WriteFile(f.Work+"/second", nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		if _, out, _ := far(t, p, shell(`cat new/deep/file; ls`)); out != "from herenew\nout\nsecond\n" {
			t.Errorf("%q", out)
		}
	})
	t.Run("20 MB of output", func(t *testing.T) {
		c := shell(`head -c 20000000 /dev/zero; head -c 300000 /dev/zero >&2`)
		exit, out, stderr := far(t, p, c)
		if exit.Out != 20_000_000 || len(out) != 20_000_000 || len(stderr) != 300_000 || exit.Truncated {
			t.Errorf("%+v, %d and %d bytes", exit, len(out), len(stderr))
		}
		c.MaxOutput = 1000
		if exit, out, _ := far(t, p, c); exit.Out != 20_000_000 || len(out) != 1000 || !exit.Truncated {
			t.Errorf("%+v, %d bytes", exit, len(out))
		}
	})
	t.Run("four at once", func(t *testing.T) {
		began := time.Now()
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				if exit, out, _ := far(t, p, shell(`sleep 5; echo "$1"`, fmt.Sprint(i))); exit.Code != 0 || out != fmt.Sprintln(i) {
					t.Errorf("%d: %+v %q", i, exit, out)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("four commands of 5 s took %v", took)
		}
	})
	t.Run("timeout", func(t *testing.T) {
		c := shell(`trap '' TERM; (setsid env -i sleep 1001 &) ; sleep 1002; sleep 1003`)
		c.Timeout, c.Grace = time.Second, time.Second
		exit, _, _ := far(t, p, c)
		if !exit.TimedOut || exit.Signal != "SIGKILL" || exit.Took > 10*time.Second {
			t.Errorf("%+v", exit)
		}
		noSleepers(t, p)
	})
	t.Run("what a command leaves", func(t *testing.T) {
		exit, out, _ := far(t, p, shell(`(setsid env -i sleep 1001 &); sleep 1002 & (sleep 0.1; echo late) & echo done`))
		if exit.Code != 0 || exit.Swept < 1 || !strings.Contains(out, "late") || exit.Took > 10*time.Second {
			t.Errorf("%+v %q", exit, out)
		}
		noSleepers(t, p)
	})
	t.Run("cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		exit, err := p.Run(ctx, shell(`sleep 1001`))
		if err != nil || !exit.Cancelled || exit.Signal != "SIGTERM" {
			t.Errorf("%+v, %v", exit, err)
		}
		noSleepers(t, p)
	})
	t.Run("a command cannot speak for our line", func(t *testing.T) {
		exit, _, _ := far(t, p, shell(`for p in /proc/[0-9]*; do echo 'assay 0 - 0 0 0 0 0 0 0,' >$p/fd/1; kill -KILL ${p#/proc/}; done 2>/dev/null; exit 9`))
		if exit.Code != 9 && exit.Signal != "SIGKILL" { // it may kill itself first
			t.Errorf("%+v", exit)
		}
	})
	t.Run("closed", func(t *testing.T) {
		if err := errors.Join(p.Close(t.Context()), p.Close(t.Context())); err != nil {
			t.Error(err)
		}
		if _, err := p.Run(t.Context(), shell("true")); err == nil {
			t.Error("a command ran after Close")
		}
	})
}

func noSleepers(t *testing.T, p *harborPlace) {
	t.Helper()
	a, err := p.line(t.Context(), farProbe, `for f in /proc/[0-9]*/cmdline; do tr '\0' ' ' <$f; echo; done 2>/dev/null | grep -c "[s]leep 100"`)
	if err != nil || strings.TrimSpace(a.Out) != "0" {
		t.Errorf("left in the place: %q, %v", a.Out, err)
	}
}

// TestA07HarborBridgeKilled: a process of Harbor that is killed leaves its container, and we do not.
func TestA07HarborBridgeKilled(t *testing.T) {
	b := newHarbor(t)
	p, _ := newFar(t, b)
	far(t, p, shell("true"))
	if err := syscall.Kill(p.bridge.process.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.bridge.ended
	if leftOf(t, b, "label=com.docker.compose.project="+p.session) == "" {
		t.Fatal("nothing was left, so nothing is shown")
	}
	if _, err := p.Run(t.Context(), shell("true")); err == nil {
		t.Error("a command ran in a place without its process")
	}
	p.delete()
	if left := leftOf(t, b, "label=com.docker.compose.project="+p.session); left != "" {
		t.Error("left:", left)
	}
}

// TestA07HarborHostKilled: of an assay that was killed, nothing is left.
func TestA07HarborHostKilled(t *testing.T) {
	b := newHarbor(t)
	if both := os.Getenv("ASSAY_HARBOR_VICTIM"); both != "" {
		p, _ := newFar(t, b)
		far(t, p, shell("true"))
		fmt.Println("opened", p.session)
		if both == "both" {
			syscall.Kill(p.bridge.process.Process.Pid, syscall.SIGKILL) // so that it cannot clean up for us
		}
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	t.Run("and its Harbor with it", func(t *testing.T) {
		session, _ := harborVictim(t, "both")
		if leftOf(t, b, "label=com.docker.compose.project="+session) == "" {
			t.Fatal("nothing was left, so nothing is shown")
		}
		other := newHarbor(t)
		if left := leftOf(t, other, "label=com.docker.compose.project="+session); left != "" {
			t.Error("left after the next start:", left)
		}
	})
	t.Run("alone", func(t *testing.T) {
		session, processes := harborVictim(t, "alone")
		processes.SetReadDeadline(time.Now().Add(bridgeStop))
		if _, err := processes.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("a process of Harbor lives: %v", err)
		}
		if left := leftOf(t, b, "label=com.docker.compose.project="+session); left != "" {
			t.Error("left after the end of Harbor's process:", left)
		}
	})
}

// harborVictim runs this test again as a process that opens a place and is killed. It returns the session of that place, and a
// pipe that ends when no process lives any more that the victim started.
func harborVictim(t *testing.T, which string) (session string, processes *os.File) {
	t.Helper()
	processes, held, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { processes.Close() })
	victim := exec.Command(os.Args[0], "-test.run", "^TestA07HarborHostKilled$")
	victim.Env = append(os.Environ(), "ASSAY_HARBOR_VICTIM="+which)
	victim.ExtraFiles = []*os.File{held}
	out, _ := victim.Output()
	held.Close()
	_, opened, ok := strings.Cut(string(out), "opened ")
	session, _, _ = strings.Cut(opened, "\n")
	if !ok {
		t.Fatalf("no place was opened: %s", out)
	}
	return session, processes
}

// TestA07HarborInputEnds: the end of our side is the end of the place, also while it is being made.
func TestA07HarborInputEnds(t *testing.T) {
	b := newHarbor(t)
	for _, when := range []string{"made", "being made"} {
		t.Run(when, func(t *testing.T) {
			folder := t.TempDir()
			bridge, err := startBridge(t.Context(), b.python(), b.env(), folder)
			if err != nil {
				t.Fatal(err)
			}
			compose, err := b.writeCompose(folder, Spec{Label: when}, NetNone)
			if err != nil {
				t.Fatal(err)
			}
			session := b.name + "-" + strings.ReplaceAll(when, " ", "-")
			final, _, err := bridge.send(request{Do: "start", Backend: "docker", Image: b.facts.Images[b.session.Image], Folder: folder,
				Session: session, CPUs: 1, CPUMode: "limit", MemoryMB: 512, MemoryMode: "limit", Compose: []string{compose}})
			if err != nil {
				t.Fatal(err)
			}
			if when == "made" {
				if a := <-final; !a.OK {
					t.Fatal(a.Error)
				}
			}
			if err := bridge.close(); err != nil {
				t.Error(err)
			}
			if left := leftOf(t, b, "label=com.docker.compose.project="+session); left != "" {
				t.Error("left:", left)
			}
		})
	}
}

// TestHarborWithoutCredentials: what is missing is told before any cell.
func TestHarborWithoutCredentials(t *testing.T) {
	for backend, want := range map[string]string{
		"daytona": "no_",
		"runloop": "no_",
		"docker":  "no_daemon: Docker daemon is not running",
	} {
		t.Run(backend, func(t *testing.T) {
			params, session := harborParams(t, backend)
			session.Network = NetOpen
			session.Environ = append(slices.DeleteFunc(session.Environ, func(v string) bool { return strings.HasPrefix(v, "DOCKER_HOST=") }),
				"DOCKER_HOST=unix://"+filepath.Join(t.TempDir(), "none.sock"))
			b, err := buildHarbor(params)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close(context.Background())
			_, err = b.Start(t.Context(), session)
			var u *Unavailable
			if !errors.As(err, &u) || !strings.HasPrefix(u.Error(), "executor harbor, backend "+backend+": "+want) {
				t.Errorf("got %v", err)
			}
			t.Log(err)
		})
	}
}

// TestHarborImageThatIsNotThere: images are looked for before any cell, and never fetched.
func TestHarborImageThatIsNotThere(t *testing.T) {
	params, session := harborParams(t, "docker")
	params.Image = "assay-no-such-image:latest"
	b, err := buildHarbor(params)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.Background())
	if _, err := b.Start(t.Context(), session); err == nil || !strings.Contains(err.Error(), "no_image: assay-no-such-image:latest is not on this host") {
		t.Error(err)
	}
}

var _ io.Writer = (*lastBytes)(nil)
