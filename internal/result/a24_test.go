package result

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/redact"
	"github.com/assay-ci/assay/internal/redacttest"
)

// told is a secret with characters that every encoding writes in another way.
const told = `sk-told/ 7Fq+"v'=<&$Zr0`

// streams are the files of a cell into which agents, setup commands and graders write while they work.
var streams = []string{"trace.jsonl", "agent.log", "environment.log", "setup.log", "assertions/shown.log", PatchName}

// tell writes a text by every way that leads into a ledger: streams cut at every byte, all texts of a record, of the journal,
// of the manifest and of pages.
func tell(t *testing.T, l *Ledger, text string) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(l.PutManifest(Manifest{Suite: text, Isolation: text, PostHoc: []string{text}, Harnesses: []Harness{{ID: "h", Version: text}}}))
	check(l.Write(Note{What: "run", Text: text}, false))
	for _, name := range []string{"benchmark.json", "report.md", "report.html", "comment.md"} {
		check(l.PutReport(name, []byte("<p>"+text+"</p>\n")))
	}
	torn, err := l.Begin(cell("torn", 1), text, false)
	check(err)
	check(torn.Abandon("errored", Result{Detail: text}))
	e, err := l.Begin(cell("a", 1), text, false)
	check(err)
	for _, name := range streams {
		f := e.Create(name)
		for cut := range len(text) {
			f.Write([]byte(text[:cut]))
			f.Write([]byte(text[cut:] + "\n.\n"))
		}
	}
	check(e.Commit(Result{
		Cell: cell("a", 1), Status: Failed, Detail: text,
		Agent:     Agent{FinalText: text, Detail: text, Version: text, Model: text, Survivors: []string{text}},
		Scores:    []Score{{ID: "x", Text: text, Evidence: text, Error: text}},
		Findings:  []Finding{{Kind: "k", Path: text, Text: text}},
		Earlier:   []Attempt{{Detail: text}},
		DiffScope: &diffscope.Scope{Files: []diffscope.Row{{Path: text}}},
	}))
}

// leaks are the files of a ledger in which one of all decoders finds the secret that was told, and the number of all files.
func leaks(t *testing.T, dir string) (found map[string][]string, files int) {
	t.Helper()
	found = map[string][]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == lockName {
			return err
		}
		files++
		b, err := os.ReadFile(name)
		if by := redacttest.Find(string(b), told); len(by) > 0 {
			rel, _ := filepath.Rel(dir, name)
			found[rel] = by
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found, files
}

// TestA24EveryChannel tells a secret in each encoding by every way that leads into a ledger.
func TestA24EveryChannel(t *testing.T) {
	t.Parallel()
	for _, e := range redacttest.Encodings() {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l := open(t, dir)
			l.Redact(redact.New([]redact.Secret{{Name: "KEY", Value: told}}))
			tell(t, l, e.Encode(told))
			r, ok, err := l.Lookup(cell("a", 1))
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			found, files := leaks(t, dir)
			for name, by := range found {
				t.Errorf("%s: found by %v", name, by)
			}
			if want := len(streams) + 7; files != want {
				t.Errorf("%d files were searched, want %d", files, want)
			}
			if got, want := slices.Sorted(maps.Keys(r.Redacted)), append(slices.Clone(streams), recordName); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Errorf("counted are %v, want %v", got, want)
			}
			if n := r.Redacted["agent.log"]; n != len(e.Encode(told)) {
				t.Errorf("%d were taken out of agent.log, want %d", n, len(e.Encode(told)))
			}
			if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Kind == EvidenceRedacted && !strings.Contains(f.Text, "KEY") }) {
				t.Errorf("no finding tells of the patch: %v", r.Findings)
			}
		})
	}
}
