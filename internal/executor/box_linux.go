package executor

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// settle makes a supervisor in a box what it has to be: the streams of the command become its own, for the command to
// take over, and what connects to the gateway's port goes to the host.
func (b *boxStart) settle() error {
	for fd := range 3 {
		if err := unix.Dup3(streamsFD+fd, fd, 0); err != nil {
			return fmt.Errorf("supervisor: stream %d: %w", fd, err)
		}
		unix.Close(streamsFD + fd)
	}
	if b.Gateway == "" {
		return nil
	}
	l, err := net.Listen("tcp", b.Gateway)
	if err != nil {
		return fmt.Errorf("supervisor: the gateway's port: %w", err)
	}
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		return fmt.Errorf("supervisor: the gateway's port: %w", err)
	}
	defer f.Close()
	defer unix.Close(doorFD)
	if err := unix.Sendmsg(doorFD, []byte{0}, unix.UnixRights(int(f.Fd())), nil, 0); err != nil {
		return fmt.Errorf("supervisor: hand over the gateway's port: %w", err)
	}
	return nil
}

// as does something that looks at files with the rights of a user, not ours. It is for a process that does nothing else
// meanwhile: its thread is never given back.
func as(user int, do func() error) error {
	if user == 0 {
		return do()
	}
	runtime.LockOSThread()
	unix.Setfsgid(user)
	unix.Setfsuid(user)
	defer unix.Setfsgid(os.Getegid())
	defer unix.Setfsuid(os.Geteuid())
	return do()
}

// credential is a user of no group but its own.
func credential(user int) *syscall.Credential {
	return &syscall.Credential{Uid: uint32(user), Gid: uint32(user), Groups: []uint32{}}
}

// noNewPrivileges keeps what this thread starts from gaining rights, such as by a setuid program.
func noNewPrivileges() error {
	runtime.LockOSThread()
	return os.NewSyscallError("prctl: no new privileges", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}
