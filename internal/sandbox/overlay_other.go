//go:build !linux

package sandbox

import (
	"errors"
	"io/fs"
)

// Trees are shown by overlay mounts on Linux only.
func canOverlay(string) bool { return false }

func mountOverlay(_, _, _ string) error { return errors.ErrUnsupported }

func unmountOverlay(string) error { return nil }

func stampOf(fs.FileInfo) stamp { return stamp{} }

// Unmount ends every mount below a folder: here there is none.
func Unmount(string) error { return nil }
