package e2e

import (
	"archive/zip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/assay-ci/assay/internal/githubtest"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// owner is the user whose workspace the runner mounts. It is never root, so files left behind by root are seen.
const owner = 1000

// TestAction runs the action as its users do: a workflow of theirs, their repository, a container built from our
// Dockerfile, and a GitHub that holds every call against GitHub's own description. Then it reads back all that came out.
func TestAction(t *testing.T) {
	r := newRunner(t)
	repo := newConsumer(t, "testdata/workflow.yml")
	repo.fill(r.hub)
	event := repo.pullEvent(t, r.hub, pullNumber)

	first := runAction(t, r, repo, event, "1001")
	second := runAction(t, r, repo, event, "1002")

	hub := r.hub
	comments := hub.Comments(pullNumber)
	if len(comments) != 1 {
		t.Fatalf("two runs left %d comments, want the one that both wrote", len(comments))
	}
	if strings.Contains(comments[0].Body, `"run":1001`) || !strings.Contains(comments[0].Body, `"run":1002`) {
		t.Errorf("the comment is not the second run's: %.300s", comments[0].Body)
	}
	golden(t, "comment.md", comments[0].Body)

	var places strings.Builder
	for _, s := range hub.Statuses(repo.head) {
		fmt.Fprintf(&places, "status %s: %s, %s\n", s.Context, s.State, s.Description)
	}
	for _, c := range hub.CheckRuns() {
		fmt.Fprintf(&places, "check %s on %t: %s %s, %s, %d annotations\n", c.Name, c.HeadSHA == repo.head, c.Status, c.Conclusion, c.Title, len(c.Annotations))
		for _, a := range c.Annotations {
			fmt.Fprintf(&places, "  %s:%d %s: %s\n", a.Path, a.StartLine, a.Level, a.Title)
		}
	}
	golden(t, "places.txt", places.String())
	golden(t, "summary.md", first.summary)
	golden(t, "outputs.txt", lines(first.outputs))
	if a, b := first.outputs, second.outputs; a["verdict"] != b["verdict"] || a["gate"] != b["gate"] {
		t.Errorf("the second run says %s, %s; the first said %s, %s", b["verdict"], b["gate"], a["verdict"], a["gate"])
	}
	if got := string(first.artifact["benchmark.json"]); got != string(first.workspace["benchmark.json"]) || got == "" {
		t.Errorf("the artifact's benchmark.json (%d bytes) is not the workspace's (%d bytes)", len(got), len(first.workspace["benchmark.json"]))
	}
	golden(t, "artifact.txt", strings.Join(reports(first.artifact), "\n")+"\n")
	for name, uid := range first.owners {
		if uid != owner {
			t.Errorf("%s belongs to user %d; the workspace is user %d's", name, uid, owner)
		}
	}
	if bad := regexp.MustCompile(`ACTIONS_RUNTIME_TOKEN|` + githubtest.Token + `-secret`).FindString(first.log); bad != "" {
		t.Errorf("the log shows %s", bad)
	}
}

// A finished run of the workflow, with everything that it left.
type finished struct {
	log       string
	outputs   map[string]string
	summary   string
	artifact  map[string][]byte // by name in the zip
	workspace map[string][]byte // reports in the results folder
	owners    map[string]int    // by path below the results folder
}

// runAction runs the consumer's workflow once.
func runAction(t *testing.T, r runner, repo consumer, event, runID string) finished {
	t.Helper()
	results := filepath.Join(repo.dir, "assay-results")
	if err := os.RemoveAll(results); err != nil {
		t.Fatal(err)
	}
	store := t.TempDir()
	log, err := r.run(t, repo, "pull_request", event, runID, "--reuse",
		"--artifact-server-path", store, "--artifact-server-addr", "127.0.0.1", "--artifact-server-port", freePort(t))
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	f := finished{log: log, outputs: map[string]string{}, workspace: map[string][]byte{}, owners: map[string]int{}}
	said := regexp.MustCompile(`OUTPUTS (\{.*\})`).FindStringSubmatch(log)
	if said == nil {
		t.Fatalf("the workflow printed no outputs:\n%s", log)
	}
	if err := json.Unmarshal([]byte(said[1]), &f.outputs); err != nil {
		t.Fatalf("outputs %s: %v", said[1], err)
	}
	f.summary = summaryOf(t, r.docker)
	f.artifact = artifactOf(t, store)
	err = filepath.WalkDir(results, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(results, name)
		f.owners[rel] = int(info.Sys().(*syscall.Stat_t).Uid)
		if filepath.Dir(name) == results && info.Mode().IsRegular() {
			f.workspace[rel], err = os.ReadFile(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// summaryOf reads the job summary where the runner keeps it: in the volume that it shares with the action's container.
// The next step would empty it, so the action is the last step of its job. The volumes are removed afterwards.
func summaryOf(t *testing.T, docker string) string {
	t.Helper()
	var summary string
	for _, name := range strings.Fields(run(t, ".", nil, docker, "ps", "-aq", "--filter", "name=act-")) {
		run(t, ".", nil, docker, "rm", "-f", name)
	}
	for _, volume := range strings.Fields(run(t, ".", nil, docker, "volume", "ls", "-q", "--filter", "name=act-")) {
		text := run(t, ".", nil, docker, "run", "--rm", "--network", "none", "-v", volume+":/act:ro", "debian:bookworm-slim",
			"sh", "-c", "cat /act/workflow/SUMMARY.md 2>/dev/null || true")
		summary = max(summary, text)
		run(t, ".", nil, docker, "volume", "rm", volume)
	}
	return summary
}

// artifactOf unpacks the only artifact of the store.
func artifactOf(t *testing.T, store string) map[string][]byte {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(store, "*", "*", "*.zip"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the artifact server holds %v (%v), want one zip", found, err)
	}
	z, err := zip.OpenReader(found[0])
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	files := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	return files
}

// reports are the names of the files that are not in a folder.
func reports(files map[string][]byte) []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name := range files {
			if !strings.Contains(name, "/") && !yield(name) {
				return
			}
		}
	})
}

// lines are outputs as sorted lines.
func lines(outputs map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		fmt.Fprintf(&b, "%s=%q\n", name, outputs[name])
	}
	return b.String()
}

// inconstant are the parts of a text that differ between two equal runs.
var inconstant = []struct{ pattern, instead string }{
	{`http://127\.0\.0\.1:\d+`, "http://HUB"},
	{`\b[0-9a-f]{40}\b`, "COMMIT"},
	{"\\b[0-9a-f]{6}\u200b[0-9a-f]{4}\\b", "COMMIT"},
	{`\b[0-9a-f]{64}\b`, "DIGEST"},
	{`"started":"[^"]*"`, `"started":"TIME"`},
	{`\b\d+(\.\d+)? (s|ms|min)\b`, "N s"},
	{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, "TIME"},
	{`(?m)^(\| seed \| ).*`, "${1}SEED |"},
	{`(?m)^(\| .* \| – \| \d+ \| )[0-9.]+ \|`, "${1}SECONDS |"},
	{"assay devel", "assay VERSION"},
}

// golden compares a text with its golden file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	for _, p := range inconstant {
		got = regexp.MustCompile(p.pattern).ReplaceAllString(got, p.instead)
	}
	file := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}
