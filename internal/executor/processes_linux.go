package executor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Harden makes this process fit to run agents: other processes of the user can neither trace it nor read its memory, no
// process finds a value in what the kernel tells of its environment, and what a killed supervisor leaves behind becomes
// its child, where NewHost's places find and end it. Root can still read its memory, and the environment of whoever
// started it. Call it once, first thing in main, and after the environment was copied.
//
// A process that is not dumpable leaves no core file, a debugger of the same user cannot attach, and unless it is root it
// cannot open most of its own /proc/self.
func Harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl: dumpable: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl: child subreaper: %w", err)
	}
	if err := hideEnvironment(); err != nil {
		return fmt.Errorf("hide the environment: %w", err)
	}
	return nil
}

// canContain says why the processes of a command could get away from us.
func canContain() error {
	self := os.Getpid()
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d/children", self, self)); err != nil {
		return fmt.Errorf("needs /proc with the children of a process: %w", err)
	}
	fd, err := unix.PidfdOpen(self, 0)
	if err != nil {
		return fmt.Errorf("needs Linux 5.3 or newer: pidfd_open: %w", err)
	}
	return unix.Close(fd)
}

// A process is one line of /proc/<pid>/stat. A pid alone says little: it is given to another process after the first
// one is gone.
type process struct {
	pid, parent, session int
	zombie               bool
	started              string // clock ticks since boot
}

// look reads what a process is now.
func look(pid int) (process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	return parseStat(pid, stat)
}

// parseStat reads a line such as "42 (sh) S 1 42 42 …". The name is the process's own choice and may hold anything,
// parentheses too, but it ends at the last one.
func parseStat(pid int, stat []byte) (process, error) {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return process{}, fmt.Errorf("/proc/%d/stat: %q", pid, stat)
	}
	parent, err1 := strconv.Atoi(fields[1])
	session, err2 := strconv.Atoi(fields[3])
	if err := errors.Join(err1, err2); err != nil {
		return process{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	return process{pid: pid, parent: parent, session: session, zombie: fields[0] == "Z", started: fields[19]}, nil
}

// kill ends this process and no other that got its pid.
func (p process) kill() {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return // gone
	}
	defer unix.Close(fd)
	if now, err := look(p.pid); err == nil && now.started == p.started {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// String is the command line, for a person.
func (p process) String() string {
	const most = 200
	text := ""
	if f, err := os.Open(fmt.Sprintf("/proc/%d/cmdline", p.pid)); err == nil {
		line, _ := io.ReadAll(io.LimitReader(f, most))
		f.Close()
		text = strings.ToValidUTF8(strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " ")), "\uFFFD")
	}
	return fmt.Sprintf("pid %d: %s", p.pid, text)
}

// children returns the children of all threads of a process.
func children(pid int) []process {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	var list []process
	for _, task := range tasks {
		pids, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		for _, field := range strings.Fields(string(pids)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				continue
			}
			if p, err := look(child); err == nil && p.parent == pid {
				list = append(list, p)
			}
		}
	}
	return list
}

// withDescendants returns the processes and all that descend from them. It is a snapshot: what is started meanwhile may
// be missing.
func withDescendants(list []process) []process {
	for i := 0; i < len(list); i++ {
		list = append(list, children(list[i].pid)...)
	}
	return list
}

// endOrphans ends what descends from us without being ours: the orphans that killed supervisors left behind, which come
// to us after Harden. They are known by their session: a supervisor stays in ours, its command starts another one, and
// there is no way back.
func endOrphans() {
	ours, err := unix.Getsid(0)
	if err != nil {
		return
	}
	for end := time.Now().Add(sweepLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var orphans []process
		for _, p := range children(os.Getpid()) {
			if p.session != ours {
				orphans = append(orphans, p)
			}
		}
		if len(orphans) == 0 {
			return
		}
		for _, p := range withDescendants(orphans) {
			p.kill()
		}
		for _, p := range orphans {
			unix.Wait4(p.pid, nil, unix.WNOHANG, nil)
		}
	}
}

// endMarked ends all processes that hold NAME=value in their environment. It is a net below the supervisors, for those
// that were killed: a process can easily drop the variable.
func endMarked(variable string) {
	for end := time.Now().Add(sweepLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		marked := withVariable(variable)
		if len(marked) == 0 {
			return
		}
		for _, p := range marked {
			p.kill()
		}
	}
}

// withVariable returns the processes that hold NAME=value in their environment.
func withVariable(variable string) []process {
	dirs, _ := os.ReadDir("/proc")
	var list []process
	for _, dir := range dirs {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		p, err := look(pid)
		if err != nil {
			continue
		}
		if env := environ(pid); bytes.Contains(env, []byte("\x00"+variable+"\x00")) {
			list = append(list, p)
		}
	}
	return list
}

// ofUser returns the processes whose real or effective user is this one, without those that are dead and not collected.
func ofUser(user int) []process {
	dirs, _ := os.ReadDir("/proc")
	var list []process
	for _, dir := range dirs {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil || !runsAs(pid, strconv.Itoa(user)) {
			continue
		}
		if p, err := look(pid); err == nil && !p.zombie {
			list = append(list, p)
		}
	}
	return list
}

// runsAs reports whether a process has a user among its four.
func runsAs(pid int, user string) bool {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if users, ok := strings.CutPrefix(line, "Uid:"); ok {
			return slices.Contains(strings.Fields(users), user)
		}
	}
	return false
}

// endUser ends all processes of a user. The error says what is left.
func endUser(user int) error {
	var left []process
	for end := time.Now().Add(sweepLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if left = ofUser(user); len(left) == 0 {
			return nil
		}
		for _, p := range left {
			p.kill()
		}
	}
	return fmt.Errorf("%d processes of user %d are left, such as %s", len(left), user, left[0])
}

// environ returns the environment of a process between NUL bytes; nothing when it is not ours to read.
func environ(pid int) []byte {
	f, err := os.Open(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return nil
	}
	defer f.Close()
	env, err := io.ReadAll(io.LimitReader(f, 4<<20))
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return nil
	}
	return append([]byte{0}, env...)
}
