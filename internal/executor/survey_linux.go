package executor

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// survey is what a look around in a place does: args are the address of the canary, which may be empty, and files. It
// prints a sight. It runs as a command of the place does, so what it cannot reach, they cannot either.
func survey(args []string) int {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "assay: survey: want the address of a canary, and files")
		return 2
	}
	s := sight{User: os.Getuid(), Interfaces: []string{}, Canary: dialCanary(args[0])}
	for _, name := range args[1:] {
		if readable(name) {
			s.Readable = append(s.Readable, name)
		}
	}
	var err error
	if s.Interfaces, err = liveInterfaces(); err == nil {
		s.Routes, err = countRoutes()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "assay: survey:", err)
		return 1
	}
	if json.NewEncoder(os.Stdout).Encode(s) != nil {
		return 1
	}
	return 0
}

// canaryLimit is how long a place tries to reach what it must not reach. Without a route the answer comes at once.
const canaryLimit = time.Second

// dialCanary tries to reach a TCP address, when there is one.
func dialCanary(addr string) string {
	if addr == "" || addr == nothing {
		return canaryNone
	}
	c, err := net.DialTimeout("tcp", addr, canaryLimit)
	if err != nil {
		return canaryUnreached
	}
	c.Close()
	return canaryReached
}

// readable reports whether a byte of a file can be read.
func readable(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	n, _ := f.Read(make([]byte, 1))
	return n == 1
}

// liveInterfaces are the names of the network interfaces that are up. A kernel may put some that are down into every
// place, and it takes a capability that no place has to bring one up.
func liveInterfaces() ([]string, error) {
	list, err := net.Interfaces()
	names := []string{}
	for _, i := range list {
		if i.Flags&net.FlagUp != 0 {
			names = append(names, i.Name)
		}
	}
	return names, err
}

// countRoutes counts the rows of the route tables that belong to another interface than lo.
func countRoutes() (int, error) {
	n := 0
	for _, table := range []struct {
		file         string
		field        int // that names the interface
		titled, must bool
	}{
		{"/proc/net/route", 0, true, true},
		{"/proc/net/ipv6_route", 9, false, false}, // absent where the kernel has no IPv6
	} {
		f, err := os.Open(table.file)
		if os.IsNotExist(err) && !table.must {
			continue
		}
		if err != nil {
			return 0, err
		}
		lines := bufio.NewScanner(f)
		for first := true; lines.Scan(); first = false {
			fields := strings.Fields(lines.Text())
			if titled := first && table.titled; !titled && len(fields) > table.field && fields[table.field] != "lo" {
				n++
			}
		}
		f.Close()
		if err := lines.Err(); err != nil {
			return 0, err
		}
	}
	return n, nil
}
