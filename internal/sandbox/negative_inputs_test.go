//go:build negative

package sandbox

import (
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// TestA28WithoutTheControl: git itself, asked for the address of a case, runs the program that the address names.
func TestA28WithoutTheControl(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git to be fooled")
	}
	canary := filepath.Join(t.TempDir(), "canary")
	cmd := exec.Command("git", "clone", "-q", "ext::sh -c touch% "+canary, "x")
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "GIT_ALLOW_PROTOCOL=ext") // as older versions of git allow by themselves
	_ = cmd.Run()
	if _, err := os.Lstat(canary); err != nil {
		t.Error("the program was not run: the attack of A28 shows nothing")
	}
}

// TestA29WithoutTheControl: whoever looks a name up, finds the address public, and then dials the name, reaches the canary.
func TestA29WithoutTheControl(t *testing.T) {
	var reached atomic.Int64
	address, resolver := rebound(t, &reached)
	lookedUp(t, resolver)
	client := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{Resolver: resolver}).DialContext}}
	defer client.CloseIdleConnections()
	res, err := client.Get(address)
	if err == nil {
		res.Body.Close()
	}
	if err != nil || reached.Load() != 1 {
		t.Errorf("got %v, canary reached %d times: the attack of A29 shows nothing", err, reached.Load())
	}
}

// TestA33WithoutTheControl: os.RemoveAll alone leaves what an agent that is root made immutable.
func TestA33WithoutTheControl(t *testing.T) {
	dir := t.TempDir()
	makeImmutable(t, dir)
	t.Cleanup(func() { must(t, RemoveAll(filepath.Join(dir, "fixed"))) })
	if err := os.RemoveAll(filepath.Join(dir, "fixed")); !errors.Is(err, os.ErrPermission) {
		t.Errorf("got %v: the attack of A33 shows nothing", err)
	}
}
