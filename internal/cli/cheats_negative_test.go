//go:build negative

package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/suite"
)

// A box is a runner as many are: agent and graders work in one folder with one home, the hidden tests lie there from the
// beginning, what the agent left running goes on, and text tells how the tests ended.
type box struct {
	root, cache string
	case_       suite.Case
}

// TestA12A13A15A16A17A18A19A20A21CheatsPassInOneBox is the negative control of
// TestA16A19CheatsAreCaught: without its controls every cheat has its way. So none
// is caught for want of trying.
func TestA12A13A15A16A17A18A19A20A21CheatsPassInOneBox(t *testing.T) {
	dir := t.TempDir()
	writeCheats(t, dir)
	p, err := openProject(filepath.Join(dir, "suite"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.load(suite.Base{})
	if err != nil {
		t.Fatal(err)
	}
	passed, tried := 0, 0
	for _, c := range s.Cases {
		if c.ID == "a22-claims" { // what an agent says of itself is believed by nobody but a judge
			continue
		}
		tried++
		from := filepath.Join(dir, "suite", c.ID)
		idle := &box{root: filepath.Join(dir, "idle", c.ID, "x"), cache: filepath.Join(dir, "idle-cache"), case_: c}
		idle.fill(t, from)
		if idle.passes(t, "true") {
			t.Errorf("%s: an agent that does nothing passes, so that the cheat does shows nothing", c.ID)
		}
		b := &box{root: filepath.Join(dir, "boxes", c.ID, "x"), cache: filepath.Join(dir, "cache"), case_: c}
		b.fill(t, from)
		if b.passes(t, c.Prompt) {
			passed++
		} else {
			t.Errorf("the cheat %s does not pass, so that it is caught shows nothing", c.ID)
		}
	}
	t.Logf("cheats that pass in one box: %d of %d", passed, tried)
}

func (b *box) work() string { return filepath.Join(b.root, "work") }

// fill lays out fixture and hidden tests together, and builds the environment into the cache, once.
func (b *box) fill(t *testing.T, from string) {
	t.Helper()
	for _, dir := range []string{"work", "home", "tmp"} {
		must(os.MkdirAll(filepath.Join(b.root, dir), 0o755))
	}
	must(os.MkdirAll(filepath.Join(b.cache, "env"), 0o755))
	for _, dir := range []string{"fixture", "hidden"} {
		if out, err := exec.Command("cp", "-a", filepath.Join(from, dir)+"/.", b.work()).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	if b.case_.Environment.Kind == "command" {
		b.sh(t, "sh build.sh "+filepath.Join(b.cache, "env"), nil)
	}
}

// passes has the agent work, and then the tests run beside what it left.
func (b *box) passes(t *testing.T, agent string) bool {
	t.Helper()
	b.sh(t, agent, nil)
	var command struct {
		Run      string        `yaml:"run"`
		Timeout  time.Duration `yaml:"timeout"`
		Format   string        `yaml:"format"`
		Report   string        `yaml:"report"`
		MustPass []string      `yaml:"must_pass"`
	}
	must(b.case_.Assertions[0].Block.Decode(&command))
	var code int
	out := b.sh(t, command.Run, &code)
	time.Sleep(100 * time.Millisecond) // whoever is left writes
	defer os.RemoveAll(b.root)         // and ends

	if reward, err := os.ReadFile(filepath.Join(b.work(), "reward.txt")); err == nil {
		return strings.TrimSpace(string(reward)) == "1"
	}
	if command.Report != "" {
		report, err := os.ReadFile(filepath.Join(b.work(), command.Report))
		return err == nil && strings.Contains(string(report), "<testcase") && !strings.Contains(string(report), "<failure")
	}
	return code == 0 && !strings.Contains(out, "not ok") || regexp.MustCompile(`\d+ passed`).MatchString(out)
}

// sh runs a line as the agent and the graders of a box do.
func (b *box) sh(t *testing.T, line string, code *int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir = b.work()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(b.root, "home"), "TMPDIR=" + filepath.Join(b.root, "tmp"), "AGENT=cheat",
		"JUDGE=" + filepath.Join(b.cache, "env/judge.sh"), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}
	for name, value := range b.case_.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("%s: %v", line, err)
	}
	if code != nil {
		*code = cmd.ProcessState.ExitCode()
	}
	return string(out)
}
