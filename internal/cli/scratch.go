package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/assay-ci/assay/internal/sandbox"
)

// A scratch is the folder that all places of one process are made in. A file beside it is locked for as long as the process
// lives: whoever comes later and can lock it knows that a killed process left the folder behind, and removes it.
type scratch struct {
	dir  string
	lock *os.File
}

// The name of a scratch folder is that of its lock without the suffix.
const (
	scratchPrefix = "assay-"
	lockSuffix    = ".lock"
)

// newScratch sweeps the temporary folder and makes an empty scratch folder there.
func newScratch(temp string) (*scratch, error) {
	sweep(temp)
	for {
		lock, err := os.CreateTemp(temp, scratchPrefix+"*"+lockSuffix)
		if err != nil {
			return nil, err
		}
		s := &scratch{strings.TrimSuffix(lock.Name(), lockSuffix), lock}
		switch err := tryLock(lock); {
		case err == nil && stands(lock):
			if err = os.Mkdir(s.dir, 0o700); err == nil {
				return s, nil
			}
			return nil, errors.Join(err, os.Remove(lock.Name()), lock.Close())
		case err != nil && !errors.Is(err, syscall.EWOULDBLOCK):
			return nil, errors.Join(fmt.Errorf("lock %s: %w; set TMPDIR to a folder where files can be locked", lock.Name(), err),
				os.Remove(lock.Name()), lock.Close())
		}
		lock.Close() // another process was faster than our lock, and swept the file
	}
}

// memoryScratch is a scratch folder in memory, where places cost a fraction of those on a disk. It is nil when the host has
// none to spare, and when TMPDIR says where places belong.
func memoryScratch(x IO) *scratch {
	memory := sandbox.MemoryFolder()
	if memory == "" || x.getenv("TMPDIR") != "" {
		return nil
	}
	s, err := newScratch(memory)
	if err != nil {
		return nil
	}
	return s
}

// folder is the scratch folder, empty when there is none.
func (s *scratch) folder() string {
	if s == nil {
		return ""
	}
	return s.dir
}

// remove removes the folder and then its lock. What cannot be removed is left with an open lock, for the next sweep.
func (s *scratch) remove() {
	if s == nil {
		return
	}
	if sandbox.Unmount(s.dir) == nil && sandbox.RemoveAll(s.dir) == nil {
		_ = os.Remove(s.lock.Name())
	}
	s.lock.Close()
}

// sweep removes the scratch folders of processes that are gone. One that cannot be removed costs room and nothing else.
func sweep(temp string) {
	entries, _ := os.ReadDir(temp)
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, scratchPrefix) || !strings.HasSuffix(name, lockSuffix) || !e.Type().IsRegular() {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(temp, name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		s := &scratch{strings.TrimSuffix(lock.Name(), lockSuffix), lock}
		if ours(lock) && tryLock(lock) == nil {
			s.remove()
		} else {
			lock.Close()
		}
	}
}

// ours tells whether a file belongs to the user that we are: the temporary folder may be everybody's.
func ours(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// tryLock locks a file; the error is EWOULDBLOCK when another process holds it.
func tryLock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// stands tells whether an open file is still the one of its name.
func stands(f *os.File) bool {
	held, err1 := f.Stat()
	named, err2 := os.Stat(f.Name())
	return errors.Join(err1, err2) == nil && os.SameFile(held, named)
}
