//go:build negative

package executor

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// These attacks work where the wall that stands against them is taken away. Each is the other half of a test of its name.

// TestA08NegativeSharedNetwork gives a box the network of the host.
func TestA08NegativeSharedNetwork(t *testing.T) {
	targets := listeners(t)
	a := newArena(t, WallBox, Session{})
	p := a.open(t, NetOpen)
	_, got, _ := p.run(t, Command{Argv: p.play("reach", targets...)})
	for _, target := range targets {
		if !strings.Contains(got, "reached "+target+"\n") {
			t.Errorf("%s was not reached: %s", target, got)
		}
	}
	if e := p.Executor.(Prover).Egress(); e.Proven || e.Canary != canaryReached {
		t.Errorf("the proof does not see it: %+v", e)
	}
}

// TestA09NegativeKeyIsSeen searches for a key without a wall.
func TestA09NegativeKeyIsSeen(t *testing.T) {
	home, key := hideKey(t)
	a := newArena(t, WallNone, Session{})
	p := a.open(t, NetOpen)
	if _, got, _ := p.run(t, Command{Argv: p.play("hunt", key, home)}); !strings.Contains(got, "/environ") || !strings.Contains(got, "/credentials") {
		t.Errorf("found only %q", got)
	}
}

// TestA10NegativeDoorByName has the gateway on a loopback that all places share, as without a box.
func TestA10NegativeDoorByName(t *testing.T) {
	target := listeners(t)[0]
	a := newArena(t, WallNone, Session{})
	for range 2 {
		p := a.open(t, NetOpen)
		if _, got, _ := p.run(t, Command{Argv: p.play("reach", target)}); !strings.Contains(got, "reached") {
			t.Errorf("not reached: %s", got)
		}
	}
}

// TestA31NegativeSupervisorIsKilled has a command end a supervisor that runs as the same user, where it can see it.
func TestA31NegativeSupervisorIsKilled(t *testing.T) {
	a := newArena(t, WallNone, Session{})
	p := a.open(t, NetOpen)
	if exit, err := p.Run(t.Context(), Command{Argv: p.play("revolt", p.in), Timeout: 20 * time.Second}); err == nil {
		t.Errorf("the supervisor lived: %+v", exit)
	}
}

// TestA01NegativeKillingTheGroup ends a command without a supervisor, by its group: what left the group lives.
func TestA01NegativeKillingTheGroup(t *testing.T) {
	a := newArena(t, WallNone, Session{})
	p := a.open(t, NetOpen)
	argv := p.play("family", p.in, "note", p.in+"/main")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(p.host + "/main")
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	cmd.Wait()
	left := p.alive()
	for _, pid := range holders(strings.TrimPrefix(p.host, p.Work+"/")) {
		if n, err := strconv.Atoi(pid); err == nil {
			syscall.Kill(n, syscall.SIGKILL)
		}
	}
	for len(p.alive()) > 0 {
		time.Sleep(time.Millisecond)
	}
	if len(left) < 2 {
		t.Errorf("outlived the kill of their group: %q", left)
	}
}
