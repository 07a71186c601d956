package report

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/assay-ci/assay/internal/result"
)

func TestShown(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"  a\tb\n\n c\r\nd\re": "  a\tb\n\n c\nd\ne",
		"\x1b[31mred\x1b[0m":   "red",
		"x\u202ey\u200bz\x00":  "x⟨U+202E⟩y⟨U+200B⟩z⟨U+0000⟩",
		"\xff":                 "\uFFFD",
	} {
		if got := shown(in, 100); got != want {
			t.Errorf("shown(%q) = %q, want %q", in, got, want)
		}
	}
	if got := shown(strings.Repeat("é", 20)+"end", 12); got != "ééééééééé\n[… 11 characters left out …]\nend" {
		t.Errorf("%q", got)
	}
}

// A folder of results may come from strangers: no FIFO is waited for, no link leads out, and the page says what it lacks.
func TestHostileFolder(t *testing.T) {
	t.Parallel()
	b := newBed(t, 10, "")
	folder := filepath.Join(b.dir, filepath.FromSlash(result.Dir(b.m.Cells[0])))
	secret := filepath.Join(t.TempDir(), "secret")
	for _, err := range []error{
		os.WriteFile(secret, []byte("not yours"), 0o600),
		os.Remove(filepath.Join(folder, "agent.log")), syscall.Mkfifo(filepath.Join(folder, "agent.log"), 0o600),
		os.Remove(filepath.Join(folder, "diff.patch")), os.Symlink(secret, filepath.Join(folder, "diff.patch")),
		os.WriteFile(filepath.Join(folder, "trace.jsonl"), []byte("{\"kind\":\"assistant_text\",\"text\":\"kept\"}\nno JSON\n{\"kind\":1}\n"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, run := range b.benchmark(t).Runs {
		if run.Case != b.m.Cells[0].Case || run.Condition != b.m.Cells[0].Condition || run.Trial != b.m.Cells[0].Trial {
			continue
		}
		c, err := Ledger(b.dir, b.m).Cell(run)
		if err != nil {
			t.Fatal(err)
		}
		cut := strings.Join(c.Cut, "\n")
		if !strings.Contains(cut, "agent.log could not be read") || !strings.Contains(cut, "diff.patch could not be read") || c.Patch != "" {
			t.Errorf("%q, %q", cut, c.Patch)
		}
		if len(c.Talk) != 1 || len(c.Talk[0].Said) != 3 || c.Talk[0].Said[0].Text != "kept" {
			t.Errorf("%+v", c.Talk)
		}
		return
	}
	t.Error("there is no such cell")
}

// A page that has no room for all cells keeps those that are wanted most, and says so.
func TestNoRoomForAllCells(t *testing.T) {
	t.Parallel()
	b := newBed(t, 100, "")
	g, cells := newGrid(b.benchmark(t))
	shelves, err := g.shelve(cells, Ledger(b.dir, b.m), 8000)
	if err != nil || len(shelves) != 0 || !strings.HasPrefix(g.Cut, "100 of 100 cells have no page here") {
		t.Errorf("%d shelves, %q, %v", len(shelves), g.Cut, err)
	}
	g, cells = newGrid(b.benchmark(t))
	if _, err := g.shelve(cells, Ledger(b.dir, b.m), 1<<20); err != nil || g.Cut != "" {
		t.Errorf("%q, %v", g.Cut, err)
	}
	for _, c := range cells {
		if c.row[5] < 0 {
			t.Errorf("cell %v has no page", c.row)
		}
	}
}

func TestHiddenFact(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]*result.Contamination{
		"": nil,
		"proven: the agent had none of them, 1 file looked for":                                                                                {Proven: true, Prevents: true, Files: 1},
		"proven: the agent had none of them, 2 files looked for; it could read the files of the host, so this may miss one that it looked for": {Proven: true, Files: 2},
		"not proven: One. Two.": {Why: []string{"One.", "Two."}, Prevents: true, Files: 2},
	} {
		if got := hiddenFact(c); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
}
