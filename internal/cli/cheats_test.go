package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/assay-ci/assay/internal/result"
)

// cheatsFile is the suite of cheats: one case each, whose honest condition does the task.
const cheatsFile = "testdata/cheats.txtar"

// fewestCheats is how many cheats can be tried with a shell and nothing else.
const fewestCheats = 13

// TestA16A19CheatsAreCaught plays every cheat of the corpus through the real binary, and its honest twin: none may pass but the
// twins. ASSAY_EXECUTOR and ASSAY_IMAGE name another executor and its image.
//
// The first part of a case's name is the row of the table of attacks that it belongs to.
func TestA16A19CheatsAreCaught(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("agents run on Linux only")
	}
	dir := t.TempDir()
	bin := buildPrograms(t, dir)
	cases := writeCheats(t, dir)

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	argv := []string{"run", "suite", "--jobs", "1", "--on-unavailable", "skip"}
	executor := os.Getenv("ASSAY_EXECUTOR")
	if executor != "" {
		argv = append(argv, "--executor", executor)
	}
	if image := os.Getenv("ASSAY_IMAGE"); image != "" {
		argv = append(argv, "--image", image)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "assay"), argv...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Join(dir, "tmp"), "ASSAY_CACHE="+filepath.Join(dir, "cache"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if testing.Verbose() || err != nil {
		t.Logf("%s\nended: %v", out.String(), err)
	}

	m, err := result.ReadManifest(filepath.Join(dir, "assay-results"))
	if err != nil {
		t.Fatal(err)
	}
	caught, honest, tried := 0, 0, 0
	for r, err := range result.Read(filepath.Join(dir, "assay-results"), m.Cells) {
		if err != nil {
			t.Error(err)
			continue
		}
		if r.Status == result.Skipped {
			t.Logf("%s was not tried: %s", r.Case, r.Detail)
			continue
		}
		c := r.Contamination
		proven := c != nil && c.Proven && c.Order.Stopped != nil && c.Order.Laid != nil && *c.Order.Stopped <= *c.Order.Measured && *c.Order.Measured <= *c.Order.Laid
		if !proven {
			t.Errorf("%s %s: its proof does not hold: %+v", r.Case, r.Condition, c)
		}
		switch {
		case r.Condition == "honest" && r.Status == result.Passed:
			honest++
		case r.Condition == "cheat" && r.Status == result.Failed:
			caught++
		default:
			t.Errorf("%s: the %s agent %s: %s, %+v", r.Case, r.Condition, r.Status, r.Detail, r.Scores)
		}
		if r.Condition == "cheat" {
			tried++
		}
	}
	t.Logf("cheats caught: %d of %d; honest twins that pass: %d of %d; cases: %d", caught, tried, honest, tried, cases)
	if tried < fewestCheats || caught != tried || honest != tried {
		t.Errorf("caught %d of %d cheats, %d honest twins passed", caught, tried, honest)
	}
	for _, left := range processesOf(bin) {
		t.Errorf("still running: %s", left)
	}
}

// writeCheats writes the suite of cheats below dir, and tells how many cases it has.
func writeCheats(t *testing.T, dir string) (cases int) {
	t.Helper()
	archive, err := txtar.ParseFile(cheatsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		name := filepath.Join(dir, "suite", filepath.FromSlash(f.Name))
		must(os.MkdirAll(filepath.Dir(name), 0o755))
		mode := os.FileMode(0o644)
		if bytes.HasPrefix(f.Data, []byte("#!")) {
			mode = 0o755
		}
		data := f.Data
		if filepath.Base(name) == "case.yaml" {
			cases++
			data = bytes.ReplaceAll(data, []byte("$CACHE"), []byte(filepath.Join(dir, "cache")))
		}
		must(os.WriteFile(name, data, mode))
	}
	writeHistory(t, filepath.Join(dir, "suite/a20-git-history/fixture"))
	return cases
}

// writeHistory makes a folder a repository in which the answer was right once.
func writeHistory(t *testing.T, dir string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		return // its case is not tried
	}
	const commits = `git init -q .
save() { git add . && git -c user.name=a -c user.email=a@b.example commit -q -m "$1"; }
echo FIXED > answer.txt; save right
echo BROKEN > answer.txt; save wrong`
	cmd := exec.Command("sh", "-ec", commits)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestCheatsHaveRows: every row of the table of attacks that is about grading has a cheat.
func TestCheatsHaveRows(t *testing.T) {
	archive, err := txtar.ParseFile(cheatsFile)
	if err != nil {
		t.Fatal(err)
	}
	for row := 12; row <= 22; row++ {
		if row == 14 {
			continue // it is about the ledger: TestA14ForgedRecords
		}
		found := false
		for _, f := range archive.Files {
			found = found || strings.HasPrefix(f.Name, fmt.Sprintf("a%d-", row))
		}
		if !found {
			t.Errorf("no cheat of row A%d", row)
		}
	}
}
