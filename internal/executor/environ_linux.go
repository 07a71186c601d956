package executor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// hideEnvironment empties the variables that the kernel shows of this process in /proc/<pid>/environ, where root and
// tools like ps read them. To unset a variable does not change them: they are where the process was given them, and Go
// works on a copy, which stays. Their names stay too, and the mark of a place, by which an assay that an agent started
// is found.
func hideEnvironment() error {
	start, end, err := environmentBlock()
	if err != nil {
		return err
	}
	if start == end {
		return nil
	}
	block := make([]byte, end-start)
	if err := transfer(unix.ProcessVMReadv, block, start); err != nil {
		return fmt.Errorf("process_vm_readv: %w", err)
	}
	emptyValues(block)
	if err := transfer(unix.ProcessVMWritev, block, start); err != nil {
		return fmt.Errorf("process_vm_writev: %w", err)
	}
	return nil
}

// emptyValues overwrites the value of each NAME=value in a block of strings that end in NUL.
func emptyValues(block []byte) {
	for len(block) > 0 {
		variable, rest, _ := bytes.Cut(block, []byte{0})
		if at := bytes.IndexByte(variable, '='); string(variable[:max(at, 0)]) != tokenName {
			clear(variable[at+1:])
		}
		block = rest
	}
}

// transfer reads or writes memory of this process through the kernel, whose check makes an error of a wrong address.
func transfer(call func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error), local []byte, remote uintptr) error {
	ours := unix.Iovec{Base: &local[0]}
	ours.SetLen(len(local))
	n, err := call(os.Getpid(), []unix.Iovec{ours}, []unix.RemoteIovec{{Base: remote, Len: len(local)}}, 0)
	if err == nil && n != len(local) {
		err = fmt.Errorf("%d of %d bytes", n, len(local))
	}
	return err
}

// environmentBlock returns where in our memory the kernel looks for our environment.
func environmentBlock() (start, end uintptr, err error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, 0, err
	}
	const startField, endField = 47, 48 // env_start and env_end, counted from the state
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= endField {
		return 0, 0, fmt.Errorf("/proc/self/stat: %d fields", len(fields))
	}
	from, err1 := strconv.ParseUint(fields[startField], 10, 64)
	to, err2 := strconv.ParseUint(fields[endField], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, fmt.Errorf("/proc/self/stat: %w", err)
	}
	const most = 64 << 20 // the kernel allows an environment of 6 MiB
	if from > to || to-from > most {
		return 0, 0, fmt.Errorf("/proc/self/stat: environment from %#x to %#x", from, to)
	}
	return uintptr(from), uintptr(to), nil
}
