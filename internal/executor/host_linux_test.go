package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// The test binary is also the supervisor, the misbehaving programs, and a host that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "supervise":
			syscall.Exit(Supervise(os.Args[2:])) // os.Exit sleeps for a second under the race detector
		case RelayName:
			os.Exit(Relay(os.Args[2:]))
		case "bridge":
			os.Exit(playBridge(os.Args[2]))
		case "play":
			syscall.Exit(play(os.Args[2], os.Args[3:]))
		}
	}
	if err := Harden(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := endDocker(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// play is what the programs under test do.
func play(part string, args []string) int {
	switch part {
	case "exit":
		code, _ := strconv.Atoi(args[0])
		fmt.Println("to stdout")
		fmt.Fprintln(os.Stderr, "to stderr")
		return code
	case "sleep":
		time.Sleep(time.Hour)
	case "note": // args: file; writes its pid and sleeps
		note(args[0])
		time.Sleep(time.Hour)
	case "twice": // the middle of a double fork
		begin(true, "note", args[0])
	case "family": // args: folder, then what to do; three kinds of grandchildren
		begin(false, "note", args[0]+"/plain")
		begin(true, "note", args[0]+"/setsid")
		begin(false, "twice", args[0]+"/double")
		for _, name := range family {
			waitFor(args[0] + "/" + name)
		}
		return play(args[1], args[2:])
	case "stubborn": // args: file; ignores TERM
		signal.Ignore(syscall.SIGTERM)
		note(args[0])
		time.Sleep(time.Hour)
	case "polite": // args: file; ends at TERM with a code of its own
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		note(args[0])
		<-term
		fmt.Println("good bye")
		return 3
	case "hold": // leaves a child that holds stdout
		begin(false, "sleep")
		fmt.Println("done")
	case "late": // leaves a child that still writes
		begin(false, "later")
	case "later":
		time.Sleep(100 * time.Millisecond)
		fmt.Println("late")
	case "flood": // args: bytes
		n, _ := strconv.ParseInt(args[0], 10, 64)
		piece := bytes.Repeat([]byte{'x', 0, 0xff, 'y'}, 16<<10)
		for n > 0 {
			m, err := os.Stdout.Write(piece[:min(n, int64(len(piece)))])
			if err != nil {
				return 1
			}
			n -= int64(m)
		}
	case "noisy":
		os.Stderr.Write(bytes.Repeat([]byte("e"), 300_000))
		fmt.Println("done")
	case "raw":
		os.Stdout.WriteString("a\xff\x00\xfe\nb")
	case "cat":
		io.Copy(os.Stdout, os.Stdin)
	case "closed": // closes its output and goes on for a while
		os.Stdout.Close()
		os.Stderr.Close()
		time.Sleep(200 * time.Millisecond)
		return 5
	case "suicide":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Hour)
	case "dial": // args: address, text; says what is answered
		conn, err := net.DialTimeout("tcp", args[0], time.Second)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		io.WriteString(conn, args[1])
		conn.(*net.TCPConn).CloseWrite()
		io.Copy(os.Stdout, conn)
	case "search": // args: text; says where it is found in what processes show of themselves
		files, _ := filepath.Glob("/proc/[0-9]*/environ")
		more, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range append(files, more...) {
			text, _ := os.ReadFile(file)
			if bytes.Contains(text, []byte(args[0])) && !bytes.Contains(text, []byte("search")) {
				fmt.Println(file)
			}
		}
	case "hog": // args: bytes; takes them and holds them
		n, _ := strconv.Atoi(args[0])
		held := make([]byte, n)
		for i := 0; i < n; i += 4096 {
			held[i] = 1
		}
		fmt.Println("held")
	case "fill": // args: file, bytes
		f, err := os.Create(args[0])
		if err != nil {
			return 1
		}
		n, _ := strconv.ParseInt(args[1], 10, 64)
		if _, err := f.WriteAt([]byte("x"), n-1); err != nil {
			fmt.Println(err)
			return 1
		}
	case "dockerhost": // args: folder of a place, label; runs a family in a container until it is killed
		return playDockerHost(args[0], args[1])
	case "living": // args: folder
		for _, name := range living(args[0]) {
			fmt.Println(name)
		}
	case "env":
		for _, v := range os.Environ() {
			fmt.Println(v)
		}
	case "where":
		dir, _ := os.Getwd()
		fmt.Println(dir)
	case "state": // what a program can see of how it was started
		for fd := range 3 {
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
			fmt.Println("blocking", fd, err == nil && flags&unix.O_NONBLOCK == 0)
		}
		fds, _ := filepath.Glob("/proc/self/fd/*")
		for _, fd := range fds {
			target, _ := os.Readlink(fd)
			if number, _ := strconv.Atoi(filepath.Base(fd)); number > 2 && (strings.HasPrefix(target, "pipe:") || strings.HasPrefix(target, "socket:")) {
				fmt.Println("inherited", target)
			}
		}
		sid, _ := unix.Getsid(0)
		fmt.Println("leads its session", sid == os.Getpid())
		fmt.Println("leads its group", unix.Getpgrp() == os.Getpid())
		_, err := os.Open("/dev/tty")
		fmt.Println("terminal", err == nil)
		fmt.Printf("umask %03o\n", unix.Umask(0))
		fmt.Println("TERM ignored", signal.Ignored(syscall.SIGTERM), "HUP ignored", signal.Ignored(syscall.SIGHUP))
	case "regicide": // args: folder; kills its supervisor, leaving a family
		ppid := os.Getppid()
		for _, name := range family {
			waitFor(args[0] + "/" + name)
		}
		syscall.Kill(ppid, syscall.SIGKILL)
		time.Sleep(time.Hour)
	case "freeze": // stops its supervisor
		syscall.Kill(os.Getppid(), syscall.SIGSTOP)
	case "host": // args: folder; runs a family in a place of its own until it is killed
		h, err := NewHost(options(args[0], "killed"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		h.Run(context.Background(), Command{Argv: self("family", args[0], "note", args[0]+"/main")})
	default:
		return playWalls(part, args)
	}
	return 0
}

var family = []string{"plain", "setsid", "double"}

// self is the argv of a part.
func self(part string, args ...string) []string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{exe, "play", part}, args...)
}

// begin starts a part and leaves it alone.
func begin(setsid bool, part string, args ...string) {
	argv := self(part, args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: setsid}
	if setsid {
		cmd.Env = []string{} // and nothing that would give it away
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}

// note writes our pid to a file.
func note(file string) {
	if err := os.WriteFile(file+".tmp", []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		panic(err)
	}
	os.Rename(file+".tmp", file)
}

// waitFor waits until a file is there.
func waitFor(file string) {
	for range 3000 {
		if _, err := os.Stat(file); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	panic("nobody wrote " + file)
}

// living returns the names of the notes in a folder whose processes live.
func living(dir string) []string {
	notes, err := os.ReadDir(dir)
	if err != nil {
		panic(err)
	}
	var names []string
	for _, n := range notes {
		text, _ := os.ReadFile(filepath.Join(dir, n.Name()))
		pid, err := strconv.Atoi(string(text))
		if err != nil {
			continue
		}
		if p, err := look(pid); err == nil && !p.zombie {
			names = append(names, n.Name())
		}
	}
	return names
}

// A place is one of an executor under test.
type place struct {
	Executor
	dir, in string // its work folder, here and inside
	program string // inside
	another func(t testing.TB) *place
	alive   func(t testing.TB) []string // as living, of the work folder
}

// self is the argv of a part in this place.
func (p *place) self(part string, args ...string) []string {
	return append([]string{p.program, "play", part}, args...)
}

// everywhere runs a test of what every executor must do, with a place of each.
func everywhere(t *testing.T, test func(t *testing.T, h *place)) {
	for name, open := range map[string]func(t testing.TB) *place{"host": hostPlace, "docker": dockerPlace} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func hostPlace(t testing.TB) *place {
	h, dir := newHost(t)
	return &place{Executor: h, dir: dir, in: dir, program: self("")[0], another: hostPlace,
		alive: func(testing.TB) []string { return living(dir) }}
}

func options(dir, token string) HostOptions {
	return HostOptions{Work: dir, Home: dir, Tmp: dir, Token: token, Host: []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
		Supervisor: []string{self("")[0], "supervise"}}
}

// newHost opens a place whose folders are a fresh folder.
func newHost(t testing.TB) (*Host, string) {
	t.Helper()
	dir := t.TempDir()
	h, err := NewHost(options(dir, dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return h, dir
}

// run runs a command and returns what it wrote.
func run(t testing.TB, h Executor, c Command) (exit Exit, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	c.Stdout, c.Stderr = &out, &err
	exit, fault := h.Run(context.Background(), c)
	if fault != nil {
		t.Fatalf("Run %q: %v", c.Argv, fault)
	}
	return exit, out.String(), err.String()
}

// facts clears what differs from run to run.
func facts(e Exit) Exit {
	e.Took = 0
	return e
}

func TestExitIsData(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		for name, text := range map[string]string{"plain.txt": "x", "script": "#!/bin/sh\necho script\n", "lost": "#!/no/such/interpreter\n", "bare": "echo bare\n"} {
			mode := os.FileMode(0o755)
			if name == "plain.txt" {
				mode = 0o644
			}
			if err := h.Files().Put("bin/"+name, strings.NewReader(text), mode); err != nil {
				t.Fatal(err)
			}
		}
		os.Symlink("/", filepath.Join(h.dir, "away"))
		for _, c := range []struct {
			rule           string
			command        Command
			exit           Exit
			stdout, stderr string
		}{
			{"A03: exits 7 with an error", Command{Argv: h.self("exit", "7")}, Exit{Code: 7, Out: 10, Err: 10}, "to stdout\n", "to stderr\n"},
			{"ends well", Command{Argv: h.self("exit", "0")}, Exit{Out: 10, Err: 10}, "to stdout\n", "to stderr\n"},
			{"killed by a signal", Command{Argv: h.self("suicide")}, Exit{Code: -1, Signal: "SIGKILL"}, "", ""},
			{"invalid UTF-8 and NUL are kept", Command{Argv: h.self("raw")}, Exit{Out: 6}, "a\xff\x00\xfe\nb", ""},
			{"no such program", Command{Argv: []string{"no-such-program"}}, Exit{Code: 127, Err: 51}, "", "assay: no-such-program: no such program on PATH\n"},
			{"no such file", Command{Argv: []string{"./none"}}, Exit{Code: 127, Err: 41}, "", "assay: ./none: no such file or directory\n"},
			{"not executable", Command{Argv: []string{"./bin/plain.txt"}}, Exit{Code: 126, Err: 42}, "", "assay: ./bin/plain.txt: permission denied\n"},
			{"a folder", Command{Argv: []string{"./bin"}}, Exit{Code: 126, Err: 32}, "", "assay: ./bin: permission denied\n"},
			{"interpreter missing", Command{Argv: []string{"bin/lost"}}, Exit{Code: 127, Err: 42}, "", "assay: bin/lost: no such file or directory\n"},
			{"no interpreter named", Command{Argv: []string{"bin/bare"}}, Exit{Code: 126, Err: 34}, "", "assay: bin/bare: exec format error\n"},
			{"argument list too long", Command{Argv: []string{"sh", strings.Repeat("x", 200_000)}}, Exit{Code: 126, Err: 35}, "", "assay: sh: argument list too long\n"},
			{"relative to the folder", Command{Argv: []string{"./script"}, Dir: "bin"}, Exit{Out: 7}, "script\n", ""},
			{"by the command's own PATH", Command{Argv: []string{"script"}, Env: []string{"PATH=" + h.in + "/bin"}}, Exit{Out: 7}, "script\n", ""},
			{"never by a relative PATH", Command{Argv: []string{"script"}, Env: []string{"PATH=bin:."}}, Exit{Code: 127, Err: 38}, "", "assay: script: no such program on PATH\n"},
			{"folder is not there", Command{Argv: []string{"true"}, Dir: "gone"}, Exit{Code: 126, Err: 45}, "", "assay: folder gone: no such file or directory\n"},
			{"folder is a file", Command{Argv: []string{"true"}, Dir: "bin/script"}, Exit{Code: 126, Err: 42}, "", "assay: folder bin/script: not a directory\n"},
			{"folder leads away", Command{Argv: []string{"true"}, Dir: "away"}, Exit{Code: 126, Err: 43}, "", "assay: folder away: path escapes from parent\n"},
			{"stdin is at its end", Command{Argv: h.self("cat")}, Exit{}, "", ""},
			{"stdin is read", Command{Argv: h.self("cat"), Stdin: strings.NewReader("prompt \xff")}, Exit{Out: 8}, "prompt \xff", ""},
			{"output closed early", Command{Argv: h.self("closed")}, Exit{Code: 5}, "", ""},
		} {
			t.Run(c.rule, func(t *testing.T) {
				t.Parallel()
				exit, stdout, stderr := run(t, h, c.command)
				c.exit.Err = int64(len(c.stderr))
				c.exit.Out = int64(len(c.stdout))
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

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		for rule, c := range map[string]Command{
			"nothing to run":     {},
			"empty program":      {Argv: []string{""}},
			"NUL in the program": {Argv: []string{"tr\x00ue"}},
			"NUL in an argument": {Argv: []string{"true", "a\x00b"}},
			"forbidden variable": {Argv: []string{"true"}, Env: []string{"GITHUB_TOKEN=x"}},
			"variable unnamed":   {Argv: []string{"true"}, Env: []string{"=x"}},
			"folder outside":     {Argv: []string{"true"}, Dir: "../x"},
			"absolute folder":    {Argv: []string{"true"}, Dir: "/"},
		} {
			if exit, err := h.Run(context.Background(), c); err == nil {
				t.Errorf("%s: %+v", rule, exit)
			}
		}
	})
}

func TestNewHostRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for rule, change := range map[string]func(*HostOptions){
		"no work folder":     func(o *HostOptions) { o.Work = filepath.Join(dir, "none") },
		"relative folder":    func(o *HostOptions) { o.Home = "." },
		"file for a folder":  func(o *HostOptions) { o.Tmp = file },
		"no token":           func(o *HostOptions) { o.Token = "" },
		"no supervisor":      func(o *HostOptions) { o.Supervisor = nil },
		"forbidden variable": func(o *HostOptions) { o.Env = []string{"NPM_TOKEN=x"} },
	} {
		o := options(dir, "t")
		change(&o)
		if h, err := NewHost(o); err == nil {
			t.Errorf("%s: no error", rule)
			h.Close(context.Background())
		}
	}
}

func TestEnvironmentIsExact(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t)
	_, stdout, _ := run(t, h, Command{Argv: self("env"), Env: []string{"MINE=a=b", "BYTES=\xff", "TMPDIR=/else"}})
	got := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	want := []string{"ASSAY_CELL=" + h.env["ASSAY_CELL"], "BYTES=\xff", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"HOME=" + dir, "MINE=a=b", "PATH=/usr/local/bin:/usr/bin:/bin", "TERM=dumb", "TMPDIR=/else"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestCommandStartsClean(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		var leak [2]int // such as the pipe of a make that started us
		if err := unix.Pipe2(leak[:], 0); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(leak[0])
		defer unix.Close(leak[1])
		_, stdout, _ := run(t, h, Command{Argv: h.self("state")})
		want := "blocking 0 true\nblocking 1 true\nblocking 2 true\nleads its session true\nleads its group true\nterminal false\n" +
			"umask 022\nTERM ignored false HUP ignored false\n"
		if diff := cmp.Diff(want, stdout); diff != "" {
			t.Errorf("state (-want +got):\n%s", diff)
		}
	})
}

// when returns a context that is cancelled as soon as a file is there.
func when(t *testing.T, file string) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	waiting.Go(func() { waitFor(file); cancel() })
	t.Cleanup(waiting.Wait)
	return ctx
}

func TestA01NothingOutlivesItsCommand(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		began := time.Now()
		exit, _, _ := run(t, h, Command{Argv: h.self("family", h.in, "exit", "0")})
		over := time.Since(began) - exit.Took
		if left := h.alive(t); len(left) > 0 {
			t.Errorf("outlived their command: %q", left)
		}
		want := Exit{Swept: 3, Out: 10, Err: 10}
		if diff := cmp.Diff(want, facts(exit)); diff != "" {
			t.Errorf("exit (-want +got):\n%s", diff)
		}
		if over > linger+time.Second {
			t.Errorf("took %v more than the command itself", over)
		}
	})
}

func TestA01NothingOutlivesACancel(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		exit, err := h.Run(when(t, h.dir+"/main"), Command{Argv: h.self("family", h.in, "note", h.in+"/main")})
		if err != nil {
			t.Fatal(err)
		}
		if left := h.alive(t); len(left) > 0 {
			t.Errorf("outlived their command: %q", left)
		}
		if exit.Swept < 2 { // the one in the command's group has got TERM, too
			t.Errorf("swept %d, want those that left the group", exit.Swept)
		}
		exit.Swept = 0
		if diff := cmp.Diff(Exit{Code: -1, Signal: "SIGTERM", Cancelled: true}, facts(exit)); diff != "" {
			t.Errorf("exit (-want +got):\n%s", diff)
		}
	})
}

func TestA01ForkingOnAndOnIsEnded(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		if _, err := exec.LookPath("setsid"); err != nil {
			t.Skip("needs setsid")
		}
		// Each generation starts the next in a session of its own and is gone.
		if err := h.Files().Put("hop", strings.NewReader("#!/bin/sh\necho $$ >last\nsetsid ./hop &\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		exit, _, _ := run(t, h, Command{Argv: []string{"./hop"}})
		if len(exit.Survivors) > 0 {
			t.Errorf("survivors: %q", exit.Survivors)
		}
		os.Remove(filepath.Join(h.dir, "last"))
		time.Sleep(100 * time.Millisecond) // for a generation that got away to show itself
		if _, err := os.Stat(filepath.Join(h.dir, "last")); err == nil {
			t.Error("it hops on")
		}
	})
}

func TestTermIsIgnored(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		const grace = 300 * time.Millisecond
		ctx := when(t, h.dir+"/main")
		asked := make(chan time.Time, 1)
		context.AfterFunc(ctx, func() { asked <- time.Now() })
		exit, err := h.Run(ctx, Command{Argv: h.self("stubborn", h.in+"/main"), Grace: grace})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(<-asked); took < grace-50*time.Millisecond || took > grace+hardLimit {
			t.Errorf("ended %v after it was asked to", took)
		}
		if diff := cmp.Diff(Exit{Code: -1, Signal: "SIGKILL", Cancelled: true}, facts(exit)); diff != "" {
			t.Errorf("exit (-want +got):\n%s", diff)
		}
	})
}

func TestTermIsHeard(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		var out bytes.Buffer
		exit, err := h.Run(when(t, h.dir+"/main"), Command{Argv: h.self("polite", h.in+"/main"), Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Exit{Code: 3, Cancelled: true, Out: 9}, facts(exit)); diff != "" || out.String() != "good bye\n" {
			t.Errorf("exit (-want +got):\n%s\noutput %q", diff, out.String())
		}
	})
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		const timeout, grace = 300 * time.Millisecond, time.Second
		began := time.Now()
		exit, _, _ := run(t, h, Command{Argv: []string{"sh", "-c", "sleep 100 & sleep 100"}, Timeout: timeout, Grace: grace})
		if took := time.Since(began); took < timeout || took > timeout+grace+hardLimit {
			t.Errorf("took %v", took)
		}
		exit.Swept = 0 // a sleep may still be dying of its TERM
		if diff := cmp.Diff(Exit{Code: -1, Signal: "SIGTERM", TimedOut: true}, facts(exit)); diff != "" {
			t.Errorf("exit (-want +got):\n%s", diff)
		}
	})
}

func TestDeadlineOfTheContextIsATimeout(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		exit, err := h.Run(ctx, Command{Argv: []string{"sleep", "100"}})
		if err != nil || !exit.TimedOut || exit.Cancelled {
			t.Errorf("%+v, %v", exit, err)
		}
	})
}

func TestCancelledBeforeItStarts(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		exit, err := h.Run(ctx, Command{Argv: []string{"sleep", "100"}})
		if err != nil || !exit.Cancelled || exit.Code != -1 || exit.Signal != "" {
			t.Errorf("%+v, %v", exit, err)
		}
	})
}

func TestA02HeldOutputEndsWithTheCommand(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		began := time.Now()
		exit, stdout, _ := run(t, h, Command{Argv: h.self("hold"), Timeout: 30 * time.Second})
		most := linger + 500*time.Millisecond
		if h.dir != h.in {
			most += 1500 * time.Millisecond // for the daemon to start the exec
		}
		if over := time.Since(began) - exit.Took; over > most {
			t.Errorf("ended %v after the command", over)
		}
		if diff := cmp.Diff(Exit{Out: 5, Swept: 1}, facts(exit)); diff != "" || stdout != "done\n" {
			t.Errorf("exit (-want +got):\n%s\noutput %q", diff, stdout)
		}
	})
}

func TestA02WhatIsLeftMayFinishItsOutput(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		exit, stdout, _ := run(t, h, Command{Argv: h.self("late")})
		exit.Swept = 0 // a process closes its output before it is dead, so the sweep may meet it in between
		if diff := cmp.Diff(Exit{Out: 5}, facts(exit)); diff != "" || stdout != "late\n" {
			t.Errorf("exit (-want +got):\n%s\noutput %q", diff, stdout)
		}
	})
}

func TestA02OutputHeldFromOutside(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t)
	// A process that is not the command's, here ours, opens its output through /proc and holds it.
	ctx := t.Context()
	held := make(chan *os.File, 1)
	go func() {
		waitFor(dir + "/main")
		pid, _ := os.ReadFile(dir + "/main")
		f, _ := os.OpenFile("/proc/"+string(pid)+"/fd/1", os.O_WRONLY, 0)
		held <- f
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var holder *os.File
	go func() { holder = <-held; cancel() }()
	exit, err := h.Run(ctx, Command{Argv: self("polite", dir+"/main")})
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	if diff := cmp.Diff(Exit{Code: 3, Cancelled: true, Out: 9, Truncated: true}, facts(exit)); diff != "" {
		t.Errorf("exit (-want +got):\n%s", diff)
	}
}

func TestA04StderrFloodWithoutReadingStdin(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		exit, stdout, stderr := run(t, h, Command{Argv: h.self("noisy"), Stdin: readerFunc(func(p []byte) (int, error) { return len(p), nil })})
		if diff := cmp.Diff(Exit{Out: 5, Err: 300_000}, facts(exit)); diff != "" || stdout != "done\n" || len(stderr) != 300_000 {
			t.Errorf("exit (-want +got):\n%s\noutput %q, %d bytes on stderr", diff, stdout, len(stderr))
		}
	})
}

func TestStdinThatFailsIsOurError(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		broken := errors.New("broken")
		exit, err := h.Run(t.Context(), Command{Argv: h.self("cat"), Stdin: readerFunc(func([]byte) (int, error) { return 0, broken })})
		if !errors.Is(err, broken) {
			t.Errorf("%+v, %v", exit, err)
		}
	})
}

func TestProgramThatIsStillBeingWritten(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		program, err := os.OpenFile(filepath.Join(h.dir, "p"), os.O_CREATE|os.O_WRONLY, 0o755)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(program, "#!/bin/sh\nexit 7\n")
		defer time.AfterFunc(200*time.Millisecond, func() { program.Close() }).Stop()
		if exit, _, stderr := run(t, h, Command{Argv: []string{"./p"}}); exit.Code != 7 {
			t.Errorf("%+v %s", exit, stderr)
		}
	})
}

func TestStdinThatNeverEndsIsLeft(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		r, w := io.Pipe()
		defer w.Close()
		within(t, 10*time.Second, func() {
			if exit, _, _ := run(t, h, Command{Argv: []string{"true"}, Stdin: r}); exit.Code != 0 {
				t.Errorf("%+v", exit)
			}
		})
	})
}

func TestStdinIsADialogue(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		in, inW := io.Pipe()
		outR, out := io.Pipe()
		var talk sync.WaitGroup
		talk.Go(func() {
			defer inW.Close()
			line := make([]byte, 5)
			for _, word := range []string{"one\n\n", "two\n\n"} {
				io.WriteString(inW, word)
				if _, err := io.ReadFull(outR, line); err != nil || string(line) != word {
					t.Errorf("answer %q, %v", line, err)
				}
			}
		})
		exit, err := h.Run(t.Context(), Command{Argv: h.self("cat"), Stdin: in, Stdout: out})
		talk.Wait()
		if diff := cmp.Diff(Exit{Out: 10}, facts(exit)); diff != "" || err != nil {
			t.Errorf("%v, exit (-want +got):\n%s", err, diff)
		}
	})
}

func TestA05HugeOutputInFlatMemory(t *testing.T) {
	everywhere(t, func(t *testing.T, h *place) {
		size := int64(1 << 30)
		if testing.Short() {
			size = 64 << 20
		}
		var kept counter
		log := NewLog(&kept)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		exit, err := h.Run(t.Context(), Command{Argv: h.self("flood", strconv.FormatInt(size, 10)), Stdout: log, Stderr: log, MaxOutput: 2 << 30})
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Exit{Out: size}, facts(exit)); diff != "" {
			t.Errorf("exit (-want +got):\n%s", diff)
		}
		if grown := int64(after.TotalAlloc - before.TotalAlloc); grown > 16<<20 {
			t.Errorf("allocated %d MiB", grown>>20)
		}
		if kept < logHead+logTail || kept > logHead+logTail+100 {
			t.Errorf("kept %d bytes", kept)
		}
		t.Logf("%.0f MB/s", float64(size)/1e6/exit.Took.Seconds())
	})
}

func TestMaxOutput(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		for limit, want := range map[int64]Exit{
			99_999:  {Out: 100_000, Truncated: true},
			100_000: {Out: 100_000},
		} {
			var out counter
			exit, err := h.Run(t.Context(), Command{Argv: h.self("flood", "100000"), Stdout: &out, MaxOutput: limit})
			if diff := cmp.Diff(want, facts(exit)); diff != "" || err != nil || int64(out) != limit {
				t.Errorf("limit %d: %v, passed on %d, exit (-want +got):\n%s", limit, err, out, diff)
			}
		}
	})
}

func TestWriterThatFailsIsOurError(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		full := errors.New("disk full")
		exit, err := h.Run(t.Context(), Command{Argv: h.self("flood", "1000000"), Stdout: writerFunc(func([]byte) (int, error) { return 0, full })})
		if !errors.Is(err, full) || exit.Out != 1_000_000 || exit.Code != 0 {
			t.Errorf("%+v, %v", exit, err)
		}
	})
}

func TestNeighboursAreLeftAlone(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, one *place) {
		two := one.another(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var ended sync.WaitGroup
		ended.Go(func() { two.Run(ctx, Command{Argv: two.self("family", two.in, "note", two.in+"/main")}) })
		waitFor(two.dir + "/main")
		if exit, _, _ := run(t, one, Command{Argv: one.self("family", one.in, "exit", "0")}); exit.Swept != 3 {
			t.Errorf("%+v", exit)
		}
		if err := one.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"double", "main", "plain", "setsid"}, two.alive(t)); diff != "" {
			t.Errorf("processes of the neighbour (-want +got):\n%s", diff)
		}
		cancel()
		ended.Wait()
	})
}

func TestCommandsOfOnePlaceRunTogether(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		ctx := when(t, h.dir+"/long")
		var long Exit
		var both sync.WaitGroup
		both.Go(func() { long, _ = h.Run(ctx, Command{Argv: h.self("polite", h.in+"/long")}) })
		for range 3 {
			if exit, _, _ := run(t, h, Command{Argv: h.self("exit", "7")}); exit.Code != 7 {
				t.Errorf("%+v", exit)
			}
		}
		both.Wait()
		if long.Code != 3 {
			t.Errorf("%+v", long)
		}
	})
}

func TestCloseEndsWhatRuns(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		var ended sync.WaitGroup
		var exit Exit
		var err error
		ended.Go(func() {
			exit, err = h.Run(context.Background(), Command{Argv: h.self("family", h.in, "stubborn", h.in+"/main")})
		})
		waitFor(h.dir + "/main")
		interrupted, cancel := context.WithCancel(context.Background())
		cancel()
		within(t, 5*time.Second, func() {
			for range 2 {
				if err := h.Close(interrupted); err != nil {
					t.Error(err)
				}
			}
		})
		if left := h.alive(t); len(left) > 0 {
			t.Errorf("alive after Close: %q", left)
		}
		ended.Wait()
		if err != nil || !exit.Cancelled {
			t.Errorf("%+v, %v", exit, err)
		}
		if _, err := h.Run(context.Background(), Command{Argv: []string{"true"}}); err == nil {
			t.Error("Run after Close succeeded")
		}
		if _, err := h.Files().Open("main"); err == nil {
			t.Error("Open after Close succeeded")
		}
	})
}

func TestA31SupervisorIsKilled(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		exit, err := h.Run(t.Context(), Command{Argv: h.self("family", h.in, "regicide", h.in)})
		if err == nil {
			t.Errorf("no error: %+v", exit)
		}
		if left := h.alive(t); len(left) > 0 {
			t.Errorf("outlived their command: %q", left)
		}
	})
}

func TestA31SupervisorIsStopped(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, h *place) {
		const timeout, grace = time.Second, 100 * time.Millisecond
		began := time.Now()
		exit, err := h.Run(t.Context(), Command{Argv: h.self("freeze"), Timeout: timeout, Grace: grace})
		if err == nil {
			t.Errorf("no error: %+v", exit)
		}
		if took := time.Since(began); took > timeout+grace+hardLimit+time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestOurOwnDeathEndsEverything(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	argv := self("host", dir)
	host := exec.Command(argv[0], argv[1:]...)
	host.Stderr = os.Stderr
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(dir + "/main")
	if living := living(dir); len(living) != 4 {
		t.Fatalf("alive before: %q", living)
	}
	host.Process.Kill()
	host.Wait()
	for end := time.Now().Add(5 * time.Second); len(living(dir)) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("alive after our death: %q", living(dir))
		}
	}
}

func TestSuperviseByHandIsRefused(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(self("")[0], "supervise").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !bytes.Contains(out, []byte("started by assay itself")) {
		t.Errorf("%v: %s", err, out)
	}
}

func TestEndMarkedFindsByToken(t *testing.T) {
	t.Parallel()
	mark := "ASSAY_CELL=" + filepath.Base(t.TempDir()) + strconv.Itoa(os.Getpid())
	start := func(env ...string) *exec.Cmd {
		cmd := exec.Command("sleep", "100")
		cmd.Env = env
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	ours := []*exec.Cmd{start(mark), start("A=b", mark, "C=d")}
	others := []*exec.Cmd{start(), start(mark + "0"), start("X" + mark)}
	endMarked(mark)
	for _, cmd := range ours {
		if err := cmd.Wait(); err == nil {
			t.Errorf("%q ended well", cmd.Env)
		}
	}
	for _, cmd := range others {
		if p, err := look(cmd.Process.Pid); err != nil || p.zombie {
			t.Errorf("%q was ended, too", cmd.Env)
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	const rest = " 4211 4212 4212 0 -1 4194304 90 0 0 0 0 0 0 0 20 0 1 0 8021 2400 200"
	for _, c := range []struct {
		stat string
		want process
	}{
		{"4212 (sh) S" + rest, process{pid: 4212, parent: 4211, session: 4212, started: "8021"}},
		{"4212 (a) Z 1 1 (b) \xff\n) Z" + rest, process{pid: 4212, parent: 4211, session: 4212, zombie: true, started: "8021"}},
	} {
		got, err := parseStat(4212, []byte(c.stat))
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(process{})); diff != "" || err != nil {
			t.Errorf("parseStat(%q) = %v (-want +got):\n%s", c.stat, err, diff)
		}
	}
	for _, stat := range []string{"", "4212", "4212 (sh) S 1 2 3", "4212 (sh) S x" + rest, "(sh) S"} {
		if p, err := parseStat(4212, []byte(stat)); err == nil {
			t.Errorf("parseStat(%q) = %+v", stat, p)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("sh", byte('S'), 1, 2)
	f.Add(") Z 1 1 (", byte('Z'), 4211, 4212)
	f.Add("", byte('R'), 0, 0)
	f.Fuzz(func(t *testing.T, name string, state byte, parent, session int) {
		if !strings.ContainsRune("RSDZTtXxKWPI", rune(state)) {
			t.Skip("no such state")
		}
		stat := fmt.Appendf(nil, "7 (%s) %c %d 7 %d 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0", name, state, parent, session)
		got, err := parseStat(7, stat)
		want := process{pid: 7, parent: parent, session: session, zombie: state == 'Z', started: "99"}
		if err != nil || got != want {
			t.Fatalf("%q: %+v, %v", stat, got, err)
		}
	})
}

func TestKindsAreDocumented(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range Kinds {
		if k.Name == "" || k.Doc == "" || k.Isolation == "" || k.Runs == "" || len(k.Holds) == 0 || k.Keys == "" || k.Limits == "" || len(k.Networks) == 0 || seen[k.Name] {
			t.Errorf("row %+v", k)
		}
		seen[k.Name] = true
	}
}

func BenchmarkRun(b *testing.B) {
	h, _ := newHost(b)
	for b.Loop() {
		if exit, err := h.Run(context.Background(), Command{Argv: []string{"/bin/true"}}); err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
	}
}

func BenchmarkBareProcess(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNewHostAndClose(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		h, err := NewHost(options(dir, "b"))
		if err != nil {
			b.Fatal(err)
		}
		h.Close(context.Background())
	}
}

func BenchmarkEndMarked(b *testing.B) {
	for b.Loop() {
		endMarked("ASSAY_CELL=nobody")
	}
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
