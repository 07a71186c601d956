package cli

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
)

// zoo says for each misbehaving agent how its cell must end.
var zoo = []struct {
	behaviour string
	status    result.Status
	class     trace.Class
	detail    string // part of the detail, or of the failed assertion's evidence
}{
	{"fix", result.Passed, "", ""},
	{"nothing", result.Errored, trace.ClassHarnessCrash, "ended at once"},
	{"talk", result.Failed, "", "gate not held"},
	{"lie", result.Errored, trace.ClassHarnessCrash, "1"},
	{"exit-7", result.Errored, trace.ClassHarnessCrash, "7"},
	{"die", result.Errored, trace.ClassHarnessCrash, "SIGKILL"},
	{"hang", result.Errored, trace.ClassStalled, ""},
	{"talk-hang", result.Failed, "", "time"},
	{"ignore-term", result.Failed, "", "time"},
	{"entrench", result.Failed, "", "time"},
	{"close-stdout", result.Failed, "", "time"},
	{"daemon", result.Passed, "", ""},
	{"hold-stdout", result.Passed, "", ""},
	{"many-children", result.Passed, "", ""},
	{"late-writer", result.Passed, "", ""},
	{"flood", result.Failed, "", "output_limit"},
	{"one-line", result.Failed, "", "output_limit"},
	{"stderr-flood", result.Passed, "", ""},
	{"bad-utf8", result.Passed, "", ""},
	{"read-stdin", result.Passed, "", ""},
	{"forge-trace", result.Errored, trace.ClassHarnessCrash, "3"},
	{"write-outside", result.Failed, "", "gate not held"},
	{"own-test", result.Failed, "", "gate not held"},
	{"link-test", result.Passed, "", ""},
	{"fifo", result.Passed, "", ""},
	{"links", result.Failed, "", "gate not held"},
	{"git", result.Passed, "", ""},
	{"delete-all", result.Failed, "", "gate not held"},
	{"no-permission", result.Passed, "", ""},
	{"sparse", result.Failed, "", "huge"},
	{"many-files", result.Passed, "", ""},
	{"odd-names", result.Passed, "", ""},
	{"env", result.Passed, "", ""},
}

// zooInDocker are the agents whose cells end otherwise in a container.
var zooInDocker = map[string]result.Status{
	"sparse":   result.Passed, // the file is larger than a file of a place may be
	"flood":    result.Failed, // by its output or by its time: what it says goes a longer way
	"one-line": result.Failed,
}

// peakLimit bounds the resident memory of assay itself, whatever its agents do.
const peakLimit = 150 << 20

// TestZoo runs real programs that misbehave, and asserts the status and the reason of each, that nothing of theirs is left,
// that nothing outside their place changed, and that assay's own memory stays small. ASSAY_EXECUTOR and ASSAY_IMAGE name
// another executor and its image.
func TestZoo(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the host executor contains processes on Linux only")
	}
	if testing.Short() {
		t.Skip("runs agents up to their time limits")
	}
	dir := t.TempDir()
	bin := buildPrograms(t, dir)
	canary := filepath.Join(dir, "canary")
	must(os.WriteFile(canary, []byte("untouched\n"), 0o644))
	writeZoo(t, dir, canary)
	before := trailOf(t, dir, bin)

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "assay"), "run", "suite", "--jobs", "4")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+filepath.Join(dir, "tmp"),
		"ASSAY_CACHE="+filepath.Join(dir, "cache"), "GITHUB_TOKEN=canary-token", "OPENAI_API_KEY=canary-key")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	t.Logf("%s\nended: %v", out.String(), err)

	m, err := result.ReadManifest(filepath.Join(dir, "assay-results"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]result.Result{}
	for r, err := range result.Read(filepath.Join(dir, "assay-results"), m.Cells) {
		if err != nil {
			t.Error(err)
			continue
		}
		got[r.Harness] = r
	}
	for _, want := range zoo {
		if status, other := zooInDocker[want.behaviour]; other && inDocker() {
			want.status, want.class, want.detail = status, "", ""
		}
		r, ok := got[want.behaviour]
		if !ok {
			t.Errorf("%s: not in the ledger", want.behaviour)
			continue
		}
		text := r.Detail
		for _, s := range r.Scores {
			text += " | " + s.ID + ": " + s.Evidence + s.Error
		}
		if r.Status != want.status || r.Class != want.class || !strings.Contains(text, want.detail) {
			t.Errorf("%s: %s %s (%s), want %s %s (%s)", want.behaviour, r.Status, r.Class, text, want.status, want.class, want.detail)
		}
		if len(r.Agent.Survivors) > 0 {
			t.Errorf("%s: left %v", want.behaviour, r.Agent.Survivors)
		}
		if limit := zooLimit(); r.Took.Agent > limit {
			t.Errorf("%s: took %v, the limit is %v", want.behaviour, r.Took.Agent, limit)
		}
	}
	if swept := got["daemon"].Agent.Swept; swept == 0 {
		t.Error("daemon: nothing was swept")
	}
	before.leftNothing(t)
	if b, err := os.ReadFile(canary); err != nil || string(b) != "untouched\n" {
		t.Errorf("a file outside every place was changed: %q %v", b, err)
	}
	if peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10; peak > peakLimit {
		t.Errorf("assay used %d MiB, the limit is %d MiB", peak>>20, peakLimit>>20)
	} else {
		t.Logf("peak memory of assay: %d MiB", peak>>20)
	}
	if leak := findText(t, filepath.Join(dir, "assay-results"), "canary-token", "canary-key"); leak != "" {
		t.Errorf("a secret of the host is in %s", leak)
	}
}

// zooLimit is how long an agent may take to be ended: its time, the grace after it, and what it takes to end it.
func zooLimit() time.Duration {
	if inDocker() {
		return 20 * time.Second
	}
	return 12 * time.Second
}

// buildPrograms builds assay and links this test binary as fake-agent, in one folder.
func buildPrograms(t *testing.T, dir string) string {
	t.Helper()
	bin := filepath.Join(dir, "bin")
	must(os.MkdirAll(bin, 0o755))
	must(os.MkdirAll(filepath.Join(dir, "tmp"), 0o755))
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "assay"), "github.com/assay-ci/assay/cmd/assay")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	self, err := os.Executable()
	must(err)
	agent := filepath.Join(bin, "fake-agent")
	if os.Link(self, agent) != nil {
		b, err := os.ReadFile(self)
		must(err)
		must(os.WriteFile(agent, b, 0o755))
	}
	return bin
}

// writeZoo writes a suite with one case, and one harness a behaviour.
func writeZoo(t *testing.T, dir, canary string) {
	t.Helper()
	var s strings.Builder
	s.WriteString("name: zoo\nretries: 0\nlimits: {timeout: 5s}\n" + zooExecutor(filepath.Join(dir, "bin")) + "matrix:\n  trials: 1\n  harnesses:\n")
	for _, z := range zoo {
		fmt.Fprintf(&s, "    - {id: %s, type: command, stdin: prompt, argv: [%q, %s, \"{trace_file}\", %q]}\n",
			z.behaviour, filepath.Join(dir, "bin", "fake-agent"), z.behaviour, canary)
	}
	for name, text := range map[string]string{
		"suite.yaml": s.String(),
		"task/case.yaml": `id: task
prompt: Write FIXED into answer.txt.
source: {path: fixture}
hidden: hidden
assertions:
  - {id: correct, type: command, run: "sh test.sh", gate: true, timeout: 20s}
  - {id: word, type: files, present: ["^FIXED"]}
  - {id: small, type: diff_scope, max_files_touched: 100000, allow_no_change: true}
`,
		"task/fixture/answer.txt": "BROKEN\n",
		"task/fixture/README":     "The answer is wrong.\n",
		"task/hidden/test.sh":     "grep -q '^FIXED' answer.txt\n",
	} {
		name = filepath.Join(dir, "suite", name)
		must(os.MkdirAll(filepath.Dir(name), 0o755))
		must(os.WriteFile(name, []byte(text), 0o644))
	}
}

// processesOf lists the processes whose program lies in the folder.
func processesOf(bin string) []string {
	var out []string
	exes, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, exe := range exes {
		if target, err := os.Readlink(exe); err == nil && strings.HasPrefix(target, bin+"/") {
			cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(exe), "cmdline"))
			out = append(out, string(bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '})))
		}
	}
	return out
}

// findText returns the first file below dir that holds one of the texts.
func findText(t *testing.T, dir string, texts ...string) string {
	t.Helper()
	found := ""
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || found != "" {
			return err
		}
		b, err := os.ReadFile(name)
		for _, text := range texts {
			if bytes.Contains(b, []byte(text)) {
				found = name
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestZooIsWhole keeps the table and the program together.
func TestZooIsWhole(t *testing.T) {
	known := map[string]bool{"daemon-2": true, "keep-writing": true, "fill-disk": true, "show": true, "acp": true, "snoop": true}
	for _, z := range zoo {
		known[z.behaviour] = true
	}
	for _, name := range slices.Sorted(maps.Keys(behaviours)) {
		if !known[name] {
			t.Errorf("no test runs the behaviour %s", name)
		}
	}
	if len(zoo) < 20 {
		t.Errorf("the zoo has %d agents", len(zoo))
	}
}
