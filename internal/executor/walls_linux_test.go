package executor

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// An arena is a started host executor behind a wall, and a folder that every user can pass.
type arena struct {
	backend *hostBackend
	scratch string
	program string // a copy of this program that every user can run
	wall    string
}

// walls are all that could stand around a place.
var walls = []string{WallNone, WallUser, WallBox}

// newArena starts the executor behind a wall, and skips the test where that cannot be had.
func newArena(t testing.TB, wall string, s Session) *arena {
	t.Helper()
	scratch, err := os.MkdirTemp("", "arena")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(scratch) })
	if err := os.Chmod(scratch, 0o711); err != nil {
		t.Fatal(err)
	}
	a := &arena{&hostBackend{}, scratch, filepath.Join(scratch, "program"), wall}
	if err := copyProgram(self("")[0], a.program); err != nil {
		t.Fatal(err)
	}
	s.Program, s.Scratch, s.Isolation = a.program, scratch, wall
	s.Environ = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	if _, err := a.backend.Start(t.Context(), s); err != nil {
		if _, missing := exec.LookPath("bwrap"); wall == WallBox && missing != nil {
			t.Skip("bubblewrap is not on PATH")
		}
		if wall == WallUser && os.Geteuid() != 0 {
			t.Skip("only root can become other users")
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { a.backend.Close(context.Background()) })
	return a
}

// A pitch is one place of an arena.
type pitch struct {
	Executor
	Folders        // on this host
	in      string // a folder of the work folder, as commands see it
	host    string // the same on this host; its name is on the command line of all that a test starts
	arena   *arena
}

func (a *arena) open(t testing.TB, net Network) *pitch {
	t.Helper()
	root, err := os.MkdirTemp(a.scratch, "p")
	if err != nil {
		t.Fatal(err)
	}
	f := Folders{Root: root, Work: root + "/work", Home: root + "/home", Tmp: root + "/tmp"}
	mark := "mark-" + filepath.Base(root)
	if err := os.MkdirAll(filepath.Join(f.Work, mark), 0o755); err != nil {
		t.Fatal(err)
	}
	e, err := a.backend.Open(t.Context(), Spec{Folders: f, Network: net})
	if err != nil {
		t.Fatal(err)
	}
	p := &pitch{e, f, filepath.Join(a.backend.Inside(f).Work, mark), filepath.Join(f.Work, mark), a}
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if left := p.alive(); len(left) > 0 {
			t.Errorf("alive after Close: %v", left)
		}
	})
	return p
}

// network is the closest that a wall can hold.
func (a *arena) network() Network {
	if a.wall == WallBox {
		return NetNone
	}
	return NetOpen
}

// play is the argv of a part, as commands of the place see this program.
func (p *pitch) play(part string, args ...string) []string {
	program := p.arena.program
	if p.arena.wall == WallBox {
		program = insideProgram
	}
	return append([]string{program, "play", part}, args...)
}

// alive are the processes of this host that work on the folder of the pitch.
func (p *pitch) alive() []string { return named(filepath.Base(p.host)) }

// named are the command lines of the processes with a word on them.
func named(word string) []string {
	var list []string
	for _, pid := range holders(word) {
		line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
		list = append(list, strings.ReplaceAll(string(line), "\x00", " "))
	}
	return list
}

// holders are the pids of the processes with a word on their command line, but those that make a box.
func holders(word string) []string {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var list []string
	for _, dir := range dirs {
		line, _ := os.ReadFile(dir + "/cmdline")
		if bytes.Contains(line, []byte(word)) && !bytes.Contains(line, []byte("bwrap")) {
			list = append(list, filepath.Base(dir))
		}
	}
	return list
}

func (p *pitch) run(t testing.TB, c Command) (exit Exit, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	c.Stdout, c.Stderr = &out, &err
	exit, fault := p.Run(t.Context(), c)
	if fault != nil {
		t.Fatalf("Run %q: %v", c.Argv, fault)
	}
	return exit, out.String(), err.String()
}

// behindWalls runs a test behind each wall.
func behindWalls(t *testing.T, test func(t *testing.T, p *pitch)) {
	t.Parallel()
	for _, wall := range walls {
		t.Run(wall, func(t *testing.T) {
			t.Parallel()
			a := newArena(t, wall, Session{})
			test(t, a.open(t, a.network()))
		})
	}
}

func TestWallsExitIsData(t *testing.T) {
	behindWalls(t, func(t *testing.T, p *pitch) {
		if err := p.Files().Put("bin/script", strings.NewReader("#!/bin/sh\necho script >made\ncat made\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := p.Files().Put("plain.txt", strings.NewReader("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		os.Symlink("/", filepath.Join(p.Work, "away"))
		for _, c := range []struct {
			rule           string
			command        Command
			exit           Exit
			stdout, stderr string
		}{
			{"exits 7 with an error", Command{Argv: p.play("exit", "7")}, Exit{Code: 7}, "to stdout\n", "to stderr\n"},
			{"ends well", Command{Argv: p.play("exit", "0")}, Exit{}, "to stdout\n", "to stderr\n"},
			{"killed by a signal", Command{Argv: p.play("suicide")}, Exit{Code: -1, Signal: "SIGKILL"}, "", ""},
			{"bytes are kept", Command{Argv: p.play("raw")}, Exit{}, "a\xff\x00\xfe\nb", ""},
			{"no such program", Command{Argv: []string{"no-such-program"}}, Exit{Code: 127}, "", "assay: no-such-program: no such program on PATH\n"},
			{"not executable", Command{Argv: []string{"./plain.txt"}}, Exit{Code: 126}, "", "assay: ./plain.txt: permission denied\n"},
			{"writes in its folder", Command{Argv: []string{"./script"}, Dir: "bin"}, Exit{}, "script\n", ""},
			{"folder is not there", Command{Argv: []string{"true"}, Dir: "gone"}, Exit{Code: 126}, "", "assay: folder gone: no such file or directory\n"},
			{"folder leads away", Command{Argv: []string{"true"}, Dir: "away"}, Exit{Code: 126}, "", "assay: folder away: path escapes from parent\n"},
			{"stdin is at its end", Command{Argv: p.play("cat")}, Exit{}, "", ""},
			{"stdin is read", Command{Argv: p.play("cat"), Stdin: strings.NewReader("prompt \xff")}, Exit{}, "prompt \xff", ""},
			{"output closed early", Command{Argv: p.play("closed")}, Exit{Code: 5}, "", ""},
			{"starts clean", Command{Argv: p.play("state")}, Exit{},
				"blocking 0 true\nblocking 1 true\nblocking 2 true\nleads its session true\nleads its group true\nterminal false\n" +
					"umask 022\nTERM ignored false HUP ignored false\n", ""},
			{"home and temporary folder can be written", Command{Argv: []string{"sh", "-c", `touch "$HOME/a" "$TMPDIR/b"`}}, Exit{}, "", ""},
		} {
			t.Run(c.rule, func(t *testing.T) {
				exit, stdout, stderr := p.run(t, c.command)
				c.exit.Err, c.exit.Out = int64(len(c.stderr)), int64(len(c.stdout))
				if diff := cmp.Diff(c.exit, facts(exit)); diff != "" {
					t.Errorf("exit (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]string{c.stdout, c.stderr}, []string{stdout, stderr}); diff != "" {
					t.Errorf("output (-want +got):\n%s", diff)
				}
			})
		}
	})
}

func TestA01WallsNothingOutlivesItsCommand(t *testing.T) {
	behindWalls(t, func(t *testing.T, p *pitch) {
		exit, _, _ := p.run(t, Command{Argv: p.play("family", p.in, "exit", "0")})
		if left := p.alive(); len(left) > 0 {
			t.Errorf("outlived their command: %q", left)
		}
		if diff := cmp.Diff(Exit{Swept: 3, Out: 10, Err: 10}, facts(exit)); diff != "" {
			t.Errorf("exit (-want +got):\n%s", diff)
		}
	})
}

func TestA01WallsTimeoutEndsAll(t *testing.T) {
	behindWalls(t, func(t *testing.T, p *pitch) {
		const timeout, grace = 4 * time.Second, 300 * time.Millisecond // time enough for the family to be there
		began := time.Now()
		exit, _, _ := p.run(t, Command{Argv: p.play("family", p.in, "stubborn", p.in+"/main"), Timeout: timeout, Grace: grace})
		if took := time.Since(began); took < timeout+grace || took > timeout+grace+hardLimit {
			t.Errorf("took %v", took)
		}
		exit.Swept = 0
		if diff := cmp.Diff(Exit{Code: -1, Signal: "SIGKILL", TimedOut: true}, facts(exit)); diff != "" {
			t.Errorf("exit (-want +got):\n%s", diff)
		}
		if left := p.alive(); len(left) > 0 {
			t.Errorf("outlived their command: %q", left)
		}
	})
}

func TestWallsTermIsHeard(t *testing.T) {
	behindWalls(t, func(t *testing.T, p *pitch) {
		var out bytes.Buffer
		exit, err := p.Run(when(t, p.host+"/main"), Command{Argv: p.play("polite", p.in+"/main"), Stdout: &out})
		if diff := cmp.Diff(Exit{Code: 3, Cancelled: true, Out: 9}, facts(exit)); diff != "" || err != nil || out.String() != "good bye\n" {
			t.Errorf("%v, exit (-want +got):\n%s\noutput %q", err, diff, out.String())
		}
	})
}

func TestA02WallsHeldOutputEndsWithTheCommand(t *testing.T) {
	behindWalls(t, func(t *testing.T, p *pitch) {
		began := time.Now()
		exit, stdout, _ := p.run(t, Command{Argv: p.play("hold"), Timeout: 30 * time.Second})
		if over := time.Since(began) - exit.Took; over > 1500*time.Millisecond {
			t.Errorf("ended %v after the command", over)
		}
		if diff := cmp.Diff(Exit{Out: 5, Swept: 1}, facts(exit)); diff != "" || stdout != "done\n" {
			t.Errorf("exit (-want +got):\n%s\noutput %q", diff, stdout)
		}
	})
}

func TestA04WallsStderrFlood(t *testing.T) {
	behindWalls(t, func(t *testing.T, p *pitch) {
		exit, stdout, stderr := p.run(t, Command{Argv: p.play("noisy"), Stdin: readerFunc(func(p []byte) (int, error) { return len(p), nil })})
		if diff := cmp.Diff(Exit{Out: 5, Err: 300_000}, facts(exit)); diff != "" || stdout != "done\n" || len(stderr) != 300_000 {
			t.Errorf("exit (-want +got):\n%s\noutput %q, %d bytes on stderr", diff, stdout, len(stderr))
		}
	})
}

func TestWallsCloseEndsWhatRuns(t *testing.T) {
	behindWalls(t, func(t *testing.T, p *pitch) {
		var ended sync.WaitGroup
		var exit Exit
		var err error
		ended.Go(func() {
			exit, err = p.Run(context.Background(), Command{Argv: p.play("family", p.in, "stubborn", p.in+"/main")})
		})
		waitFor(p.host + "/main")
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if left := p.alive(); len(left) > 0 {
			t.Errorf("alive after Close: %q", left)
		}
		ended.Wait()
		if err != nil || !exit.Cancelled {
			t.Errorf("%+v, %v", exit, err)
		}
	})
}

func TestWallsEnvironmentIsExact(t *testing.T) {
	behindWalls(t, func(t *testing.T, p *pitch) {
		in := p.arena.backend.Inside(p.Folders)
		_, stdout, _ := p.run(t, Command{Argv: p.play("env"), Env: []string{"MINE=a=b"}})
		var got []string
		for line := range strings.Lines(stdout) {
			if !strings.HasPrefix(line, "ASSAY_CELL=") {
				got = append(got, strings.TrimSuffix(line, "\n"))
			}
		}
		want := []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + in.Home, "MINE=a=b",
			"PATH=/usr/local/bin:/usr/bin:/bin", "TERM=dumb", "TMPDIR=" + in.Tmp}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("environment (-want +got):\n%s", diff)
		}
	})
}

// TestA31SupervisorBehindAWall sends the supervisor every signal that there is.
func TestA31SupervisorBehindAWall(t *testing.T) {
	behindWalls(t, func(t *testing.T, p *pitch) {
		exit, err := p.Run(t.Context(), Command{Argv: p.play("revolt", p.in), Timeout: 20 * time.Second})
		switch {
		case p.arena.wall == WallNone && err == nil:
			t.Errorf("without a wall the supervisor lived: %+v", exit)
		case p.arena.wall != WallNone && (err != nil || exit.Code != 0 || exit.Swept != 3):
			t.Errorf("%+v, %v", exit, err)
		}
		if left := p.alive(); len(left) > 0 {
			t.Errorf("outlived their command: %q", left)
		}
	})
}

// TestWallsBetweenCells has one cell look for the files and processes of another.
func TestWallsBetweenCells(t *testing.T) {
	t.Parallel()
	for _, wall := range walls {
		t.Run(wall, func(t *testing.T) {
			t.Parallel()
			a := newArena(t, wall, Session{})
			one, two := a.open(t, a.network()), a.open(t, a.network())
			var ended sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			defer ended.Wait()
			defer cancel()
			ended.Go(func() { one.Run(ctx, Command{Argv: one.play("stubborn", one.in+"/main"), Grace: time.Millisecond}) })
			waitFor(one.host + "/main")
			pids := holders(filepath.Base(one.host))
			if len(pids) == 0 {
				t.Fatal("the first cell has no process")
			}
			out := ""
			for _, pid := range pids {
				_, text, _ := two.run(t, Command{Argv: two.play("meddle", one.host+"/main", pid)})
				out += text
			}
			if open := wall == WallNone; strings.Contains(out, "read") != open || strings.Contains(out, "signalled") != open {
				t.Errorf("behind %s another cell's file was read or its process signalled, or not: %q", wall, out)
			}
		})
	}
}

// TestA08BoxReachesNothing dials, from a box, what listens on this host; a place without a box is the control.
func TestA08BoxReachesNothing(t *testing.T) {
	t.Parallel()
	targets := listeners(t)
	for _, wall := range []string{WallBox, WallNone} {
		a := newArena(t, wall, Session{})
		p := a.open(t, a.network())
		_, got, _ := p.run(t, Command{Argv: p.play("reach", targets...)})
		for _, target := range targets {
			if reached := strings.Contains(got, "reached "+target+"\n"); reached != (wall == WallNone) {
				t.Errorf("behind %s: %s reached is %v", wall, target, reached)
			}
		}
		if e, ok := p.Executor.(Prover); ok != (wall == WallBox) || ok && !e.Egress().Proven {
			t.Errorf("behind %s: proof %+v", wall, e)
		}
	}
}

// listeners are addresses of this host that somebody listens at: its loopback, its other addresses, a socket without a file.
func listeners(t *testing.T) []string {
	t.Helper()
	var targets []string
	listen := func(network, addr string) {
		l, err := net.Listen(network, addr)
		if err != nil {
			t.Logf("%s %s: %v", network, addr, err)
			return
		}
		t.Cleanup(func() { l.Close() })
		go greet(l, "canary")
		targets = append(targets, network+"="+l.Addr().String())
	}
	listen("tcp", "127.0.0.1:0")
	listen("tcp", "[::1]:0")
	listen("unix", "@"+filepath.Base(t.TempDir())+t.Name())
	own, _ := net.InterfaceAddrs()
	for _, addr := range own {
		if ip, ok := addr.(*net.IPNet); ok && !ip.IP.IsLoopback() && ip.IP.To4() != nil {
			listen("tcp", ip.IP.String()+":0")
		}
	}
	return targets
}

// greet sends every caller a word.
func greet(l net.Listener, word string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		io.WriteString(c, word)
		c.Close()
	}
}

// TestA10BoxReachesItsGatewayAlone has two places call the gateway at the same time, and a third that may not.
func TestA10BoxReachesItsGatewayAlone(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go greet(l, "canary")
	gateway := l.Addr().String()
	others := listeners(t)
	a := newArena(t, WallBox, Session{Gateway: func() string { return gateway }})
	one, two, shut := a.open(t, NetGateway), a.open(t, NetGateway), a.open(t, NetNone)
	var all sync.WaitGroup
	for p, want := range map[*pitch]bool{one: true, two: true, shut: false} {
		all.Go(func() {
			_, got, _ := p.run(t, Command{Argv: p.play("reach", append([]string{"tcp=" + gateway, "tcp=" + gateway}, others...)...)})
			if reached := strings.Count(got, "reached tcp="+gateway+"\n"); reached != 2 && want || reached != 0 && !want {
				t.Errorf("reached the gateway %d times, want it: %v\n%s", reached, want, got)
			}
			for _, o := range others {
				if strings.Contains(got, "reached "+o+"\n") {
					t.Errorf("reached %s", o)
				}
			}
		})
	}
	all.Wait()
	if e := one.Executor.(Prover).Egress(); !e.Proven || e.Policy != NetGateway || e.Canary != canaryUnreached {
		t.Errorf("%+v", e)
	}
}

// hideKey puts a key where keys are on a host: into the environment of a process and a file of its user.
func hideKey(t *testing.T) (home, key string) {
	t.Helper()
	key = "canary-key-" + rand.Text()
	holder := exec.Command("sleep", "100")
	holder.Env = []string{"MODEL_API_KEY=" + key}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { holder.Process.Kill(); holder.Wait() })
	home = t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "credentials"), []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	return home, key
}

// TestA09NoKeyIsSeen searches for a key from a place; without a wall it is found.
func TestA09NoKeyIsSeen(t *testing.T) {
	t.Parallel()
	home, key := hideKey(t)
	for _, wall := range walls {
		a := newArena(t, wall, Session{})
		p := a.open(t, a.network())
		_, got, _ := p.run(t, Command{Argv: p.play("hunt", key, home)})
		if seen := got != ""; seen != (wall == WallNone) {
			t.Errorf("behind %s the key was found at %q", wall, got)
		}
	}
}

// TestBoxHidesWhatOnlyItsOwnerReads looks for files of the system that hold secrets.
func TestBoxHidesWhatOnlyItsOwnerReads(t *testing.T) {
	t.Parallel()
	a := newArena(t, WallBox, Session{})
	p := a.open(t, NetNone)
	_, got, _ := p.run(t, Command{Argv: []string{"sh", "-c",
		"cat /etc/shadow /etc/gshadow; ls /root /home /var/log /sys; touch /usr/x /etc/x /x /.assay/assay /assay/x; cat /etc/passwd >/dev/null && echo passwd; id -un"}})
	if got != "passwd\nnobody\n" && got != "passwd\n" {
		t.Errorf("a box shows %q", got)
	}
}

func TestOurDeathEndsBoxes(t *testing.T) {
	t.Parallel()
	a := newArena(t, WallBox, Session{})
	dir := filepath.Join(a.scratch, "mark-death")
	for _, d := range []string{dir, dir + "/mark-death"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	argv := self("boxhost", a.program, dir)
	host := exec.Command(argv[0], argv[1:]...)
	host.Stderr = os.Stderr
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(dir + "/work/mark-death/main")
	if len(named("mark-death/main")) == 0 {
		t.Fatal("nothing runs")
	}
	host.Process.Kill()
	host.Wait()
	for end := time.Now().Add(5 * time.Second); len(named("mark-death/main")) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("alive after our death: %q", named("mark-death/main"))
		}
	}
}

func TestStartRefusesWhatItCannotHold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule string
		s    Session
		want string
	}{
		{"a closed network without a wall", Session{Isolation: WallNone, Network: NetGateway}, "with isolation none commands reach whatever this host reaches"},
		{"a closed network with another user", Session{Isolation: WallUser, Network: NetNone}, "with isolation uid commands reach whatever"},
		{"bubblewrap that is absent", Session{Isolation: WallBox}, "isolation bwrap cannot be held: bwrap: executable file not found"},
		{"a network that is asked for", Session{Network: NetGateway}, "network gateway cannot be held on this host"},
	} {
		c.s.Scratch, c.s.Environ = t.TempDir(), []string{"PATH=/nowhere"}
		f, err := (&hostBackend{}).Start(t.Context(), c.s)
		if u, ok := errors.AsType[*Unavailable](err); !ok || u.Reason != "policy_unenforceable" || !strings.Contains(u.Text, c.want) {
			t.Errorf("%s: %+v, %v", c.rule, f, err)
		}
	}
	for _, s := range []Session{{}, {Isolation: WallNone, Untrusted: true}, {Network: NetOpen}, {Untrusted: true}} {
		s.Environ = []string{"PATH=/nowhere"}
		f, err := (&hostBackend{}).Start(t.Context(), s)
		if err != nil || f.Name != "host" || f.Network != NetOpen || (f.Unwalled != "") != (s.Untrusted && s.Isolation == "") {
			t.Errorf("%+v: %+v, %v", s, f, err)
		}
	}
}

// TestBoxThatDoesNotHoldIsRefused puts a program in the place of bubblewrap that makes no box.
func TestBoxThatDoesNotHoldIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for rule, c := range map[string]struct{ script, want string }{
		"makes no box":   {"#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift 2\nexec " + self("")[0] + " \"$@\"\n", "it does not hold"},
		"cannot make it": {"#!/bin/sh\necho setting up uid map: Permission denied >&2\nexit 1\n", "setting up uid map: Permission denied"},
	} {
		if err := os.WriteFile(dir+"/bwrap", []byte(c.script), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := (&hostBackend{}).Start(t.Context(), Session{Isolation: WallBox, Program: self("")[0], Scratch: t.TempDir(), Environ: []string{"PATH=" + dir + ":/usr/bin:/bin"}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

func TestPackagesOf(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for _, dir := range []string{"home/.local/bin", "home/.local/share/tool/versions", "home/.nvm/v20/bin", "home/.nvm/v20/lib", "home/bin", "repo/bin",
		"repo/node_modules/.bin", "venv/bin", "python/bin", "plain"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"home/.local/bin/tool":              "../share/tool/current",
		"home/.local/share/tool/current":    "versions/1",
		"venv/bin/python":                   top + "/python/bin/python3",
		"home/.nvm/current":                 "v20",
		"home/.local/share/tool/versions/1": "/usr/bin/env",
	} {
		if err := os.Symlink(target, filepath.Join(top, link)); err != nil {
			t.Fatal(err)
		}
	}
	closed := []string{top + "/home", top + "/repo"}
	for path, want := range map[string][]string{
		"/usr/bin:/bin:relative":  nil,
		"/plain":                  {"/plain"},
		"/home/.local/bin":        {"/home/.local/bin", "/home/.local/share/tool"},
		"/home/.nvm/current/bin":  {"/home/.nvm/current", "/home/.nvm/v20"},
		"/home/bin":               {"/home/bin"},
		"/home":                   nil,
		"":                        nil,
		"/repo/bin":               {"/repo/bin"},
		"/repo/node_modules/.bin": {"/repo/node_modules"},
		"/venv/bin":               {"/venv", "/python"},
		"/none":                   nil,
	} {
		if strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "/usr") {
			path = top + path
		}
		for i := range want {
			want[i] = top + want[i]
		}
		if diff := cmp.Diff(want, packagesOf(path, top+"/home", closed)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func BenchmarkWalls(b *testing.B) {
	for _, wall := range walls {
		a := newArena(b, wall, Session{})
		p := a.open(b, a.network())
		b.Run("run/"+wall, func(b *testing.B) {
			for b.Loop() {
				if exit, err := p.Run(context.Background(), Command{Argv: []string{"/bin/true"}}); err != nil || exit.Code != 0 {
					b.Fatal(exit, err)
				}
			}
		})
		b.Run("open/"+wall, func(b *testing.B) {
			for b.Loop() {
				e, err := a.backend.Open(context.Background(), Spec{Folders: p.Folders, Network: a.network()})
				if err != nil {
					b.Fatal(err)
				}
				e.Close(context.Background())
			}
		})
	}
}

// playWalls are the parts of the tests of walls.
func playWalls(part string, args []string) int {
	switch part {
	case "revolt": // args: folder; starts a family and sends every signal to its supervisor
		begin(false, "note", args[0]+"/plain")
		begin(true, "note", args[0]+"/setsid")
		begin(false, "twice", args[0]+"/double")
		for _, name := range family {
			waitFor(args[0] + "/" + name)
		}
		supervisor := os.Getppid() // once it is dead, our parent is who runs the tests
		for sig := syscall.Signal(1); sig < 32; sig++ {
			syscall.Kill(supervisor, sig)
		}
		syscall.Kill(supervisor, syscall.SIGCONT)
		time.Sleep(100 * time.Millisecond) // for a signal to be dealt with
	case "meddle": // args: file, pid
		if _, err := os.ReadFile(args[0]); err == nil {
			fmt.Println("read")
		}
		var pid int
		fmt.Sscan(args[1], &pid)
		if syscall.Kill(pid, 0) == nil {
			fmt.Println("signalled")
		}
	case "reach": // args: network=address
		for _, target := range args {
			network, addr, _ := strings.Cut(target, "=")
			c, err := net.DialTimeout(network, addr, time.Second)
			if err != nil {
				fmt.Println(err)
				continue
			}
			c.SetReadDeadline(time.Now().Add(2 * time.Second))
			if word, _ := io.ReadAll(c); string(word) == "canary" {
				fmt.Println("reached " + target)
			}
			c.Close()
		}
	case "hunt": // args: key, folder; searches what processes and files show
		files, _ := filepath.Glob("/proc/[0-9]*/environ")
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, name := range append(append(files, lines...), args[1]+"/credentials") {
			own := strings.HasPrefix(name, fmt.Sprintf("/proc/%d/", os.Getpid()))
			if text, _ := os.ReadFile(name); !own && bytes.Contains(text, []byte(args[0])) && !bytes.Contains(text, []byte("hunt")) {
				fmt.Println(name)
			}
		}
	case "boxhost": // args: program, folder; runs a family in a box until it is killed
		b := &hostBackend{}
		s := Session{Program: args[0], Scratch: args[1], Isolation: WallBox, Environ: []string{"PATH=/usr/bin:/bin"}}
		if _, err := b.Start(context.Background(), s); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		f := Folders{Root: args[1], Work: args[1] + "/work", Home: args[1] + "/home", Tmp: args[1] + "/tmp"}
		if err := os.MkdirAll(f.Work+"/mark-death", 0o755); err != nil {
			return 1
		}
		e, err := b.Open(context.Background(), Spec{Folders: f, Network: NetNone})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		in := InsideRoot + "/work/mark-death"
		e.Run(context.Background(), Command{Argv: []string{insideProgram, "play", "family", in, "note", in + "/main"}})
	default:
		fmt.Fprintln(os.Stderr, "no such part:", part)
		return 99
	}
	return 0
}
