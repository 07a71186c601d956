package cli

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/result"
)

// TestRealAgentInAContainer has claude-code repair a demo case in a container, while a script plays its model: the image has
// no agent, whose folder is mounted and cannot be written to, and no network, so the model is reached through the relay. The
// cell ends as it does on a host. ASSAY_IMAGE names another image than that of tools/evals-image.sh.
func TestRealAgentInAContainer(t *testing.T) {
	image := cmp.Or(os.Getenv("ASSAY_IMAGE"), "assay-evals:latest")
	if out, err := exec.Command("docker", "image", "inspect", image).CombinedOutput(); err != nil {
		t.Skipf("no container of %s can be started here: %v: %.200s", image, err, out)
	}
	t.Setenv("ASSAY_EXECUTOR", "docker")
	y, agents := newAgentYard(t)
	if !slices.Contains(agents, "claude") {
		t.Skip("claude is not among the agents that were asked for; make e2e-agents WHICH=claude takes it")
	}
	y.buildStatic()
	folder := filepath.Dir(programsOf(os.Getenv("ASSAY_AGENTS"), "claude"))
	y.write("evals/boxed.yaml", y.read("evals/agents.yaml")+fmt.Sprintf("executor: {type: docker, image: %q, mount: [%q]}\n", image, folder))
	before := trailOf(t, y.dir, folder)

	oneCase := []string{"--case", "access-log", "--harness"}
	y.realRun("reference", "evals/admission.yaml", append(oneCase, "reference")...)
	s := y.startAt("evals/boxed.yaml", "boxed", append(oneCase, "claude")...)
	mounts := ""
	y.until(s, func() bool {
		for _, id := range containersWith(t, folder) {
			const form = `{{range .Mounts}}{{.Destination}} {{.RW}} {{end}}`
			out, _ := exec.Command("docker", "container", "inspect", "--format", form, id).Output()
			mounts += string(out) // empty when the container is gone meanwhile
		}
		return mounts != ""
	})
	<-s.done
	t.Logf("%s", s.out.String())
	if !strings.Contains(mounts, folder+" false ") || strings.Contains(mounts, folder+" true ") {
		t.Errorf("the folder of the agent is mounted thus: %s", mounts)
	}

	reference, version := y.records("reference"), pinnedVersions(t)["claude"]
	own := y.records("boxed")
	if len(own) != 2 || len(reference) != 1 {
		t.Fatalf("%d cells, and %d of the reference; want 2 and 1", len(own), len(reference))
	}
	for dir, r := range own {
		for _, ref := range reference {
			checkRealCell(t, r, ref.DiffScope, y.modelTurns(r.Case), version)
		}
		checkLanes(t, y.path("boxed", dir, "trace.jsonl"), y.modelTurns(r.Case), realAgents["claude"])
		if e := r.Egress; e == nil || !e.Proven || e.Policy != "gateway" || !slices.Equal(e.Interfaces, []string{"lo"}) {
			t.Errorf("what the place reaches is not proven: %+v", e)
		}
	}
	m, err := result.ReadManifest(y.path("boxed"))
	must(err)
	if !strings.HasPrefix(m.Executor, "docker, ") {
		t.Errorf("the executor is %q", m.Executor)
	}
	before.leftNothing(t)
}

// buildStatic puts a program in the yard that containers can run, which have other libraries.
func (y *yard) buildStatic() {
	y.Helper()
	must(os.Remove(y.path("bin", "assay")))
	build := exec.Command("go", "build", "-o", y.path("bin", "assay"), "github.com/assay-ci/assay/cmd/assay")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		y.Fatalf("build: %v\n%s", err, out)
	}
}
