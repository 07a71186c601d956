package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"syscall"
	"time"
)

// surveyName is the word after [SuperviseName] that makes it look around.
const surveyName = "survey"

// What is said of the canary.
const (
	canaryNone      = "none"
	canaryReached   = "reached"
	canaryUnreached = "unreached"
)

// A sight is what a look around from inside a place saw.
type sight struct {
	User       int
	Interfaces []string // that are up
	Routes     int      // of other interfaces than lo
	Canary     string
	Readable   []string // of the files that were named
}

// egress tells whether a place holds to its network.
func (s sight) egress(policy Network) Egress {
	return egressOf(policy, s.Interfaces, s.Routes, s.Canary)
}

// surveyTime is how long a look around may take on a machine that is busy.
const surveyTime = 20 * time.Second

// takeSurvey runs a command that ends in [surveyName] and its arguments, and returns what it saw.
func takeSurvey(ctx context.Context, argv []string, attr *syscall.SysProcAttr) (sight, error) {
	ctx, cancel := context.WithTimeout(ctx, surveyTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.WaitDelay, cmd.SysProcAttr = []string{}, linger, attr
	text, err := cmd.Output()
	var s sight
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		err = fmt.Errorf("%w: %s", err, shorten(string(bytes.TrimSpace(exit.Stderr)), 500))
	}
	return s, err
}

// A canaryListener is a listener of this host that no place without the host's network can reach.
type canaryListener struct{ listener net.Listener }

// newCanary listens at an IP address, and makes sure that the canary can be reached from here.
func newCanary(ip string) (*canaryListener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		return nil, err
	}
	c := &canaryListener{l}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	conn, err := net.DialTimeout("tcp", c.address(), time.Second)
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("reach our own canary: %w", err)
	}
	return c, conn.Close()
}

func (c *canaryListener) address() string { return c.listener.Addr().String() }

func (c *canaryListener) close() { c.listener.Close() }
