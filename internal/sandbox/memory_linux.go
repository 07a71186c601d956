package sandbox

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// Shares of memory that places leave alone.
const (
	keepMemory = 4 << 30 // available memory below which no place is made in memory
	keepFolder = 1 << 30 // bytes that stay free in the memory folder
)

// Facts of a file system, from statfs(2).
const (
	tmpfsMagic = 0x01021994
	noExec     = 8
)

// MemoryFolder is a folder whose files live in memory and may be run, or empty when this host has none or has little
// memory to spare. Places made there cost a fraction of those on a disk.
func MemoryFolder() string {
	const dir = "/dev/shm"
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil || st.Type != tmpfsMagic || st.Flags&noExec != 0 || syscall.Access(dir, 7) != nil {
		return ""
	}
	if availableMemory() < keepMemory || !roomIn(dir) {
		return ""
	}
	return dir
}

// roomIn tells whether a memory folder still has room for a place.
func roomIn(dir string) bool {
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && int64(st.Bavail)*st.Bsize > keepFolder
}

// availableMemory is the kernel's own estimate, in bytes; 0 when it is not known.
func availableMemory() int64 {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(line, []byte("MemAvailable:")); ok {
			kib, err := strconv.ParseInt(string(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte(" kB"))), 10, 64)
			if err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}
