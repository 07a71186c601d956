package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"github.com/rogpeppe/go-internal/testscript"
)

// sit runs a program as a person would who sits at a terminal: it waits for each pattern of the file ANSWERS, a line
// "pattern => what is typed", before it types. ^C and ^D are those keys. SCREEN gets all that was on the screen.
func sit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: sit N ANSWERS SCREEN PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	keyboard, tty, err := openTerminal()
	ts.Check(err)
	defer keyboard.Close()
	cmd := exec.Command(args[3], args[4:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "ASSAY_CACHE", "GORACE", "GITHUB_ACTIONS", "CI", "NO_COLOR"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	lines := strings.Split(strings.TrimSpace(ts.ReadFile(args[1])), "\n")
	if typed, ok := strings.CutPrefix(lines[0], "=> "); ok { // before anything is asked
		fmt.Fprintln(keyboard, typed)
		lines = lines[1:]
	}
	err = cmd.Start()
	tty.Close()
	ts.Check(err)
	screen := converse(keyboard, lines)
	err = cmd.Wait()
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(strings.ReplaceAll(screen, "\r\n", "\n")), 0o644))
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ts.Fatalf("%v", err)
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		ts.Fatalf("exit code %d, want %d; on the screen:\n%s", got, want, screen)
	}
}

// converse types each answer when its question is there, and returns what the screen showed until it was closed.
func converse(keyboard *os.File, lines []string) string {
	var screen strings.Builder
	seen := 0
	for buf := make([]byte, 4096); ; {
		n, err := keyboard.Read(buf)
		if err != nil { // the last program at the terminal has ended
			return screen.String()
		}
		screen.Write(buf[:n])
		if len(lines) == 0 {
			continue
		}
		pattern, typed, _ := strings.Cut(lines[0], " => ")
		if at := regexp.MustCompile(pattern).FindStringIndex(screen.String()[seen:]); at != nil {
			seen, lines = screen.Len(), lines[1:]
			switch typed {
			case "^C":
				typed = "\x03"
			case "^D":
				typed = "\x04"
			default:
				typed += "\n"
			}
			keyboard.WriteString(typed)
		}
	}
}

// openTerminal opens a terminal of its own: what is written to the keyboard is typed there, what is read from it was shown.
func openTerminal() (keyboard, tty *os.File, err error) {
	keyboard, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	var number, locked uint32
	for request, value := range map[uintptr]*uint32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &locked} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, keyboard.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			keyboard.Close()
			return nil, nil, errno
		}
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		keyboard.Close()
	}
	return keyboard, tty, err
}
