//go:build linux && (amd64 || arm64)

package sandbox

import (
	"os"
	"syscall"
	"unsafe"
)

// The requests and flags of <linux/fs.h> on these machines.
const (
	getFlags  = 0x80086601
	setFlags  = 0x40086602
	immutable = 0x10
	appendTo  = 0x20
)

// release takes the flags from a file or folder by which not even root may remove it. Only root can have set them.
func release(f *os.File) error {
	return changeFlags(f, func(flags int32) int32 { return flags &^ (immutable | appendTo) })
}

func changeFlags(f *os.File, change func(int32) int32) error {
	var flags int32
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), getFlags, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		return errno
	}
	wanted := change(flags)
	if wanted == flags {
		return nil
	}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), setFlags, uintptr(unsafe.Pointer(&wanted))); errno != 0 {
		return errno
	}
	return nil
}
