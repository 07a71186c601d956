package diffscope

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// testArchives runs a function over the trees in every archive of a folder: files below before/ and after/, and in want what
// the function says of them.
func testArchives(t *testing.T, dir string, tell func(t *testing.T, p Patch, files []FileFacts) string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no archives in %s (%v)", dir, err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(name)
			must(t, err)
			before, after, want := folder{}, folder{}, (*txtar.File)(nil)
			for i := range archive.Files {
				f := &archive.Files[i]
				side, rest, _ := strings.Cut(f.Name, "/")
				switch side {
				case "before":
					before[rest] = string(f.Data)
				case "after":
					after[rest] = string(f.Data)
				case "want":
					want = f
				default:
					t.Fatalf("%s is in neither tree", f.Name)
				}
			}
			p, _ := compare(t, before.memory(), after.memory(), Paths{})
			got := tell(t, p, guessedFacts(p))
			if *update {
				want.Data = []byte(got)
				must(t, os.WriteFile(name, txtar.Format(archive), 0o644))
			}
			if diff := cmp.Diff(string(want.Data), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// guessedFacts are the facts of the changes that are not ignored, with buckets that tests can rely on.
func guessedFacts(p Patch) []FileFacts {
	files := []FileFacts{}
	for _, c := range p.changes {
		if c.where != ignored {
			files = append(files, FileFacts{Path: c.row.Path, Bucket: guessedBucket(c.path)})
		}
	}
	return files
}

func guessedBucket(name string) Bucket {
	base := strings.ToLower(path.Base(name))
	switch {
	case strings.HasPrefix(name, "vendor/"), strings.HasPrefix(name, ".github/"):
		return Vendored
	case base == "go.sum", base == "package-lock.json":
		return Lockfile
	case strings.Contains(base, "test"), strings.Contains(base, "spec"), strings.HasPrefix(name, "tests/"):
		return Test
	}
	return Code
}

func tellDependencies(t *testing.T, p Patch, files []FileFacts) string {
	d, err := dependencies(p, files)
	must(t, err)
	var b strings.Builder
	for _, dep := range d.Added {
		fmt.Fprintf(&b, "+ %s %s %q\n", dep.File, dep.Name, dep.Version)
	}
	for _, dep := range d.Removed {
		fmt.Fprintf(&b, "- %s %s %q\n", dep.File, dep.Name, dep.Version)
	}
	for _, file := range d.Unread {
		fmt.Fprintf(&b, "? %s\n", file)
	}
	fmt.Fprintf(&b, "%d lockfile lines\n", d.LockfileLines)
	return b.String()
}

func tellFindings(t *testing.T, p Patch, files []FileFacts) string {
	t.Helper()
	findings, err := tampering(p, files)
	must(t, err)
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%s %s: %s\n", f.Path, f.Kind, f.Text)
	}
	return b.String()
}
