package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Relay is the body of the hidden subcommand that is the first process of a place: it looks around, reports what it found,
// and carries the connections of 127.0.0.1:PORT to the gateway's socket until the host closes its end. It returns the exit
// code of this process. The arguments are the folder of the sockets, the root of the place, the port and the address of the
// canary; "-" is an absent port or canary.
func Relay(args []string) int {
	if len(args) != 4 {
		fmt.Fprintln(os.Stderr, "assay: relay is started by assay itself, as the first process of a place")
		return 2
	}
	if err := relay(args[0], args[1], args[2], args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "assay: relay:", err)
		return 1
	}
	return 0
}

func relay(sockets, root, port, canary string) error {
	host, err := net.Dial("unix", filepath.Join(sockets, readySocket))
	if err != nil {
		return err
	}
	defer host.Close()
	// Programs of the same user find nothing in our memory, but need not look either.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	found, err := lookAround(root, canary)
	if err != nil {
		return err
	}
	if port != nothing {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			return err
		}
		socket := filepath.Join(sockets, gatewaySocket)
		go forward(context.Background(), l, "unix", socket)
	}
	if err := json.NewEncoder(host).Encode(found); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, host) // until the host is gone
	return err
}

// lookAround takes the census of a place.
func lookAround(root, canary string) (c census, err error) {
	if c.Interfaces, err = liveInterfaces(); err != nil {
		return c, err
	}
	if c.Routes, err = countRoutes(); err != nil {
		return c, err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return c, err
	}
	c.Canary = dialCanary(canary)
	nonce, err := os.ReadFile(filepath.Join(root, nonceFile))
	c.Nonce = orError(string(nonce), err)
	c.Uncontained = orError("", canContain())
	c.Unwritable = orError("", tryWrite(filepath.Join(root, "work")))
	c.RootWritable = tryWrite("/") == nil
	c.Capabilities, c.NoNewPrivs = privileges(status)
	c.Memory, c.Processes, c.CPUs = limits("/sys/fs/cgroup")
	return c, nil
}

func orError(text string, err error) string {
	if err != nil {
		return err.Error()
	}
	return text
}

// tryWrite makes a file in a folder and removes it.
func tryWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".assay-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// privileges reads /proc/self/status: whether any set of capabilities holds one, and whether no program can bring more.
func privileges(status []byte) (capabilities, noNewPrivs bool) {
	for line := range bytes.Lines(status) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(":"))
		text := strings.TrimSpace(string(value))
		switch {
		case bytes.HasPrefix(name, []byte("Cap")):
			capabilities = capabilities || strings.Trim(text, "0") != ""
		case string(name) == "NoNewPrivs":
			noNewPrivs = text == "1"
		}
	}
	return capabilities, noNewPrivs
}

// limits reads the limits of the control group below a folder, of either version. What has no limit is 0.
func limits(dir string) (memory, processes int64, cpus float64) {
	first := func(files ...string) (list []int64) {
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				continue
			}
			for _, field := range strings.Fields(string(text)) {
				n, _ := strconv.ParseInt(field, 10, 64) // max and -1 are no limit
				list = append(list, max(n, 0))
			}
			return list
		}
		return []int64{0}
	}
	memory = first("memory.max", "memory/memory.limit_in_bytes")[0]
	processes = first("pids.max", "pids/pids.max")[0]
	quota := first("cpu.max", "cpu/cpu.cfs_quota_us", "cpu,cpuacct/cpu.cfs_quota_us")
	if len(quota) < 2 {
		quota = append(quota, first("cpu/cpu.cfs_period_us", "cpu,cpuacct/cpu.cfs_period_us")[0])
	}
	if quota[1] > 0 {
		cpus = float64(quota[0]) / float64(quota[1])
	}
	return memory, processes, cpus
}
