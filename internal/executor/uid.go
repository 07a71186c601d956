package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// Users that no one has: systemd sets this range aside for users that live as long as a process does.
const (
	firstUser = 61184
	lastUser  = 65519
)

// users gives each place a user of its own.
type users struct {
	mu   sync.Mutex
	next int // tried first, so that no two places of a run have the same user one after the other
}

func newUsers() *users {
	return &users{next: firstUser + rand.IntN(lastUser-firstUser+1)}
}

// A placeUser is what the commands of one place run as.
type placeUser struct {
	id     int
	hold   io.Closer
	moveIn func() error // gives the folders of the place to the user, once, before the first command
}

// take finds a user that has no process and that no other run holds.
func (u *users) take(f Folders) (*placeUser, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for range lastUser - firstUser + 1 {
		id := u.next
		if u.next++; u.next > lastUser {
			u.next = firstUser
		}
		// The name of a socket is held by one process at a time and given back when it ends, however it ends.
		hold, err := net.Listen("unix", fmt.Sprintf("@assay-user-%d", id))
		if err != nil {
			continue
		}
		if len(ofUser(id)) > 0 {
			hold.Close()
			continue
		}
		return &placeUser{id: id, hold: hold, moveIn: sync.OnceValue(func() error { return givePlace(f, id) })}, nil
	}
	return nil, fmt.Errorf("no user from %d to %d is free", firstUser, lastUser)
}

// end ends all processes of the user, and gives it back when none is left.
func (u *placeUser) end() error {
	if err := endUser(u.id); err != nil {
		return err // nobody else may have a user that still runs something
	}
	return u.hold.Close()
}

// givePlace gives a place to a user. The folders above let everybody pass, and list nothing.
func givePlace(f Folders, id int) error {
	above := filepath.Dir(f.Root)
	info, err := os.Stat(above)
	if err == nil && info.Mode()&0o001 == 0 {
		err = os.Chmod(above, info.Mode().Perm()|0o011)
	}
	if err == nil {
		err = os.Lchown(f.Root, id, id)
	}
	for _, dir := range []string{f.Work, f.Home, f.Tmp, f.Env} {
		if dir != "" && err == nil {
			err = giveAway(dir, id, id)
		}
	}
	if err != nil {
		return fmt.Errorf("give the place to user %d: %w", id, err)
	}
	return nil
}

// openUser makes a place whose commands run as a user of its own.
func (b *hostBackend) openUser(ctx context.Context, s Spec, o HostOptions) (*Host, error) {
	h, err := NewHost(o)
	if err != nil {
		return nil, err
	}
	if h.user, err = b.users.take(s.Folders); err != nil {
		return nil, errors.Join(fmt.Errorf("host executor: %w", err), h.Close(ctx))
	}
	return h, nil
}

// surveyAs looks around as a user, by a copy of this program that it can run.
func surveyAs(ctx context.Context, program, scratch string, user int, files ...string) (sight, error) {
	copied := filepath.Join(scratch, "assay")
	if err := copyProgram(program, copied); err != nil {
		return sight{}, err
	}
	defer os.Remove(copied)
	argv := append([]string{copied, SuperviseName, surveyName, ""}, files...)
	return takeSurvey(ctx, argv, &syscall.SysProcAttr{Credential: credential(user)})
}

// copyProgram copies a program for others to run. No process is forked meanwhile: one that had the copy open for writing, if
// only until it becomes another program, would keep it from being started.
func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(0o755), out.Close()) // whatever our umask is
}
