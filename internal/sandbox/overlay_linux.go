package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	umountDetach   = 0x2
	umountNoFollow = 0x8
)

// mountOverlay shows lower at a folder; upper, which is empty, takes what is written there. Folders can be renamed as in a
// copy, which overlays do not allow unless they are told to.
func mountOverlay(lower, upper, at string) error {
	changes, work := filepath.Join(upper, "changes"), filepath.Join(upper, "work")
	if err := errors.Join(os.Mkdir(changes, 0o755), os.Chmod(changes, 0o755), os.Mkdir(work, 0o700)); err != nil {
		return err
	}
	if !overlayable(lower) || !overlayable(upper) {
		return fmt.Errorf("%s or %s cannot be named in a mount", lower, upper)
	}
	options := "lowerdir=" + lower + ",upperdir=" + changes + ",workdir=" + work + ",redirect_dir=on"
	return syscall.Mount("assay", at, "overlay", syscall.MS_NOSUID|syscall.MS_NODEV, options)
}

// unmountOverlay ends a mount, at the latest when the last process lets go of it.
func unmountOverlay(at string) error {
	err := syscall.Unmount(at, umountNoFollow)
	if errors.Is(err, syscall.EBUSY) {
		err = syscall.Unmount(at, umountDetach|umountNoFollow)
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", at, err)
	}
	return nil
}

// canOverlay tries it, in a scratch folder: mount, rename a folder, look whether files are told to lie on the file system
// of their folder, unmount. Where a user may not mount, where the folder lies in an overlay itself, or the kernel is old,
// trees are copied.
func canOverlay(base string) bool {
	dir, err := os.MkdirTemp(base, "probe")
	if err != nil {
		return false
	}
	defer RemoveAll(dir)
	in := func(name string) string { return filepath.Join(dir, name) }
	err = errors.Join(os.MkdirAll(in("lower/sub"), 0o755), os.WriteFile(in("lower/sub/file"), []byte("x"), 0o644), os.Mkdir(in("upper"), 0o700), os.Mkdir(in("at"), 0o755))
	if err != nil || mountOverlay(in("lower"), in("upper"), in("at")) != nil {
		return false
	}
	works := os.Rename(in("at/sub"), in("at/moved")) == nil && device(in("at/moved/file")) == device(in("at"))
	return unmountOverlay(in("at")) == nil && works
}

func device(name string) uint64 {
	var st syscall.Stat_t
	if syscall.Lstat(name, &st) != nil {
		return 0
	}
	return uint64(st.Dev)
}

func stampOf(info fs.FileInfo) stamp {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}
	}
	return stamp{st.Ino, st.Ctim.Nano()}
}

// Unmount ends every mount below a folder: those that a killed process left behind, and those that an agent made. Call it
// before the folder is removed.
func Unmount(dir string) error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	below := mountsBelow(dir, table)
	var errs []error
	for _, at := range slices.Backward(below) { // what was mounted last goes first
		if err := unmountOverlay(at); err != nil && !errors.Is(err, syscall.EINVAL) { // EINVAL: it went with another
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// mountsBelow reads the mount points below a folder from the kernel's table, in the order in which they were mounted.
func mountsBelow(dir string, table []byte) (below []string) {
	for line := range bytes.Lines(table) {
		fields := strings.Fields(string(line))
		if len(fields) < 5 {
			continue
		}
		if at := unescapeMount(fields[4]); strings.HasPrefix(at, dir+"/") {
			below = append(below, at)
		}
	}
	return below
}

// unescapeMount reads a path of the kernel's table, where blanks and backslashes are written as \ and three octal digits.
func unescapeMount(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+4 <= len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
