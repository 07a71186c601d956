//go:build negative && linux

package executor

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// These tests show that the attacks of docker_linux_test.go succeed where our controls are missing: each runs a container
// as one would without them.

// naively starts a container that sleeps, with more arguments of docker run, and gives its id.
func naively(t *testing.T, args ...string) (docker, string) {
	t.Helper()
	needDocker(t)
	program, err := staticSelf()
	if err != nil {
		t.Fatal(err)
	}
	d, err := findDocker(os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"run", "--detach", "--init", "--pull", "never", "--mount", mountArg("type=bind", "src="+program, "dst="+insideProgram, "readonly")}, args...)
	id, err := d.output(t.Context(), append(args, testImage(), "sleep", "1000")...)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSpace(string(id))
	t.Cleanup(func() { d.output(context.Background(), "rm", "--force", "--volumes", name) })
	return d, name
}

func TestA06WithoutSupervisorTheCommandOutlivesItsClient(t *testing.T) {
	d, name := naively(t, "--network", "none")
	client := exec.Command(d.path, "exec", name, "sleep", "777")
	client.Env = d.env
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	runs := func() bool {
		top, err := d.output(t.Context(), "top", name)
		return err == nil && strings.Contains(string(top), "sleep 777")
	}
	eventually(t, "the command runs", runs)
	client.Process.Kill()
	client.Wait()
	time.Sleep(500 * time.Millisecond) // for it to end, if it wanted to
	if !runs() {
		t.Error("the command ended with its client")
	}
}

func TestA07WithoutCollectionAContainerStays(t *testing.T) {
	label := labelCell + "=" + killedHost(t)
	left := containersOf(t, label)
	if len(left) == 0 {
		t.Error("the container went by itself")
	}
	for _, id := range left {
		sharedDocker(t).(*dockerBackend).docker.output(context.Background(), "rm", "--force", "--volumes", id)
	}
}

func TestA08OnTheBridgeTheCanaryIsReached(t *testing.T) {
	b := sharedDocker(t).(*dockerBackend)
	if b.canary == nil {
		t.Skip("the daemon has no bridge on this host that a canary could listen on")
	}
	d, name := naively(t)
	if _, err := d.output(t.Context(), "exec", name, insideProgram, "play", "dial", b.canary.address(), ""); err != nil {
		t.Errorf("the canary is not reached: %v", err)
	}
}

func TestA09AKeyInTheEnvironmentOfAContainerIsVisible(t *testing.T) {
	const canary = "sk-canary-3141592653589793"
	d, name := naively(t, "--network", "none", "--env", "OPENAI_API_KEY="+canary)
	if out, err := d.output(t.Context(), "exec", name, insideProgram, "play", "search", canary); err != nil || len(out) == 0 {
		t.Errorf("%v: not found", err)
	}
}

func TestA10ASharedFolderOfSocketsIsOpenToAll(t *testing.T) {
	b := sharedDocker(t).(*dockerBackend)
	one := placeOf(t, b, NetNone).Executor.(*container)
	l, err := one.doors.listen(gatewaySocket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d, name := naively(t, "--network", "none", "--mount", mountArg("type=bind", "src="+b.base, "dst=/sockets", "readonly"))
	socket := filepath.Join("/sockets", filepath.Base(one.doors.dir), gatewaySocket)
	if _, err := d.output(t.Context(), "exec", name, "test", "-S", socket); err != nil {
		t.Errorf("the socket of another place is out of reach: %v", err)
	}
}

func TestA11WithoutALimitMemoryIsTaken(t *testing.T) {
	d, name := naively(t, "--network", "none")
	out, err := d.output(t.Context(), "exec", name, insideProgram, "play", "hog", strconv.Itoa(512<<20))
	if err != nil || string(out) != "held\n" {
		t.Errorf("%q, %v", out, err)
	}
	script := "i=0; while [ $i -lt 300 ]; do sleep 5 & i=$((i+1)); done; echo started"
	if out, err := d.output(t.Context(), "exec", name, "sh", "-c", script); err != nil || string(out) != "started\n" {
		t.Errorf("%q, %v", out, err)
	}
}
