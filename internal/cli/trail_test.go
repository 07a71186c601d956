package cli

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A trail is what assay may have on a host: the processes, containers, mounts and temporary files that come from one folder.
// Where places are containers it is also all other mounts, interfaces, networks and volumes.
type trail struct {
	dir     string // of the test: its programs are in bin, and its temporary files in tmp
	mounted string // a folder that every container of ours has under its own path
	marks   []string
}

// trailOf takes the trail of a folder. Docker is asked where the places of this test are containers.
func trailOf(t *testing.T, dir, mounted string) trail {
	t.Helper()
	tr := trail{dir: dir, mounted: mounted}
	tr.marks = tr.now(t)
	return tr
}

func (tr trail) now(t *testing.T) (marks []string) {
	t.Helper()
	dir := tr.dir
	add := func(kind string, all []string) {
		for _, one := range all {
			marks = append(marks, kind+" "+one)
		}
	}
	add("process", processesOf(filepath.Join(dir, "bin")))
	add("process", processesWith(dir))
	folders, err := filepath.Glob(filepath.Join(dir, "tmp", scratchPrefix+"*"))
	must(err)
	add("temporary", folders)
	var others []string
	if inDocker() {
		interfaces, err := net.Interfaces()
		must(err)
		for _, i := range interfaces {
			add("interface", []string{i.Name})
		}
		add("container", containersWith(t, tr.mounted))
		add("network", askDocker(t, "network", "ls", "--quiet", "--no-trunc"))
		add("volume", askDocker(t, "volume", "ls", "--quiet"))
		others = mountsOfContainers(t)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	must(err)
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); strings.Contains(line, dir) || inDocker() && !slices.Contains(others, f[4]) {
			add("mount", []string{strings.Join(f[3:], " ")}) // without its number
		}
	}
	return marks
}

// inDocker tells whether the places of these tests are containers.
func inDocker() bool { return os.Getenv("ASSAY_EXECUTOR") == "docker" }

// mountsOfContainers are the mount points that belong to a container, whosever it is. Ours are on the trail themselves.
func mountsOfContainers(t *testing.T) (points []string) {
	t.Helper()
	const form = "{{.GraphDriver.Data.MergedDir}} {{.NetworkSettings.SandboxKey}}"
	for _, id := range askDocker(t, "ps", "--all", "--quiet", "--no-trunc") {
		out, _ := exec.Command("docker", "container", "inspect", "--format", form, id).Output() // it may be gone meanwhile
		points = append(points, strings.Fields(string(out))...)
	}
	return points
}

// containersWith are the containers, whatever their state, that have a folder of this host under its own path.
func containersWith(t *testing.T, dir string) []string {
	t.Helper()
	return askDocker(t, "ps", "--all", "--quiet", "--no-trunc", "--filter", "volume="+dir)
}

// askDocker returns the lines that docker prints.
func askDocker(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %q: %v: %s", args, err, out)
	}
	return strings.Fields(string(out))
}

// left waits a moment until nothing is there that was not there before, and returns what is nevertheless.
func (before trail) left(t *testing.T) (left []string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left = slices.DeleteFunc(before.now(t), func(mark string) bool { return slices.Contains(before.marks, mark) })
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

func (before trail) leftNothing(t *testing.T) {
	t.Helper()
	for _, mark := range before.left(t) {
		t.Errorf("left: %s", mark)
	}
}

// zooExecutor is the block of a suite whose places have the programs of a folder, in the executor that ASSAY_EXECUTOR
// names: docker, or else the host.
func zooExecutor(bin string) string {
	if inDocker() {
		return fmt.Sprintf("executor: {type: docker, image: %q, mount: [%q]}\n", os.Getenv("ASSAY_IMAGE"), bin)
	}
	return ""
}

// TestZooAfterKillNine kills assay while agents are at work that ignore signals and have daemons of their own. These end
// without it, and after the next run nothing of the killed one is left.
func TestZooAfterKillNine(t *testing.T) {
	y := newYard(t, task)
	fakeAgent := y.path("bin", "fake-agent")
	y.write("suite/suite.yaml", fmt.Sprintf(`name: killed
retries: 0
limits: {timeout: 2m}
%smatrix:
  trials: 2
  harnesses:
    - {id: entrench, type: command, stdin: prompt, argv: [%q, entrench]}
    - {id: fix, type: command, stdin: prompt, argv: [%[2]q, fix]}
`, zooExecutor(y.path("bin")), fakeAgent))
	before := trailOf(t, y.dir, y.path("bin"))

	s := y.start("killed", "--harness", "entrench")
	// Two agents, and the daemon of each.
	if !y.until(s, func() bool { return len(agentsOf(y.path("bin"))) == 4 }) {
		t.Fatalf("the run ended by itself:\n%s", s.out.String())
	}
	if inDocker() && len(containersWith(t, y.path("bin"))) < 2 {
		t.Error("the agents are in no containers")
	}
	must(s.cmd.Process.Kill())
	<-s.done
	if !s.signalled(syscall.SIGKILL) {
		t.Fatalf("it ended by itself:\n%s", s.out.String())
	}
	y.noneLeft()

	if e := y.run("next", "--harness", "fix"); e.Code != 0 {
		t.Errorf("the next run ended with exit code %d:\n%s", e.Code, e.Text)
	}
	before.leftNothing(t)
}

// agentsOf are the processes of agents whose program lies in the folder.
func agentsOf(bin string) []string {
	return slices.DeleteFunc(processesOf(bin), func(line string) bool { return !strings.Contains(line, "fake-agent") })
}
