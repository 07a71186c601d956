//go:build !linux

package executor

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Harden does nothing here: only Linux can do what it does.
func Harden() error { return nil }

// Supervise is there on Linux only.
func Supervise(args []string) int {
	fmt.Fprintln(os.Stderr, "assay: supervise: processes can be contained on Linux only")
	return 2
}

// Relay is there on Linux only.
func Relay(args []string) int {
	fmt.Fprintln(os.Stderr, "assay: relay: places of containers are there on Linux only")
	return 2
}

func canContain() error {
	return errors.New("the processes of a command can be contained on Linux only; run assay there, or in a Linux container")
}

func endOrphans() {}

func endMarked(string) {}

func ofUser(int) []process { return nil }

func endUser(int) error { return nil }

func credential(int) *syscall.Credential { return nil }

type process struct{}
