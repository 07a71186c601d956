package e2e

import (
	"archive/zip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/githubtest"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// owner is the user whose workspace the runner mounts. It is never root, so files left behind by root are seen.
const owner = 1000

// TestAction runs the action as its users do: a workflow of theirs, their repository, a container built from our
// Dockerfile, and a GitHub that holds every call against GitHub's own description. Then it reads back all that came out.
func TestAction(t *testing.T) {
	docker, act := needDocker(t), buildAct(t)
	hub := githubtest.New(t)
	repo := newConsumer(t)
	pull := openPull(hub, repo.head)
	event := eventFile(t, pull)

	first := runWorkflow(t, docker, act, hub, repo, event, "1001")
	second := runWorkflow(t, docker, act, hub, repo, event, "1002")

	comments := hub.Comments(pull.Number)
	if len(comments) != 1 {
		t.Fatalf("two runs left %d comments, want the one that both wrote", len(comments))
	}
	if strings.Contains(comments[0].Body, `"run":1001`) || !strings.Contains(comments[0].Body, `"run":1002`) {
		t.Errorf("the comment is not the second run's: %.300s", comments[0].Body)
	}
	golden(t, "comment.md", comments[0].Body)

	var places strings.Builder
	for _, s := range hub.Statuses(pull.Head.SHA) {
		fmt.Fprintf(&places, "status %s: %s, %s\n", s.Context, s.State, s.Description)
	}
	for _, c := range hub.CheckRuns() {
		fmt.Fprintf(&places, "check %s on %t: %s %s, %s, %d annotations\n", c.Name, c.HeadSHA == pull.Head.SHA, c.Status, c.Conclusion, c.Title, len(c.Annotations))
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

// A consumer is a repository that uses the action.
type consumer struct {
	dir, head string
}

// newConsumer makes a repository with two cases of ours and a workflow, owned by a user that is not root.
func newConsumer(t *testing.T) consumer {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"suite.yaml", "skills", "access-log", "shell-spaces"} {
		from := filepath.Join("..", "evals", name)
		to := filepath.Join(dir, "evals", name)
		if info, err := os.Stat(from); err != nil {
			t.Fatal(err)
		} else if !info.IsDir() {
			data, err := os.ReadFile(from)
			if err == nil {
				err = os.MkdirAll(filepath.Dir(to), 0o755)
			}
			if err == nil {
				err = os.WriteFile(to, data, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		} else if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	workflow, err := os.ReadFile("testdata/workflow.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, ".github", "workflows"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".github", "workflows", "assay.yml"), workflow, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"remote", "add", "origin", "https://github.com/octo/demo.git"},
		{"add", "."}, {"-c", "user.name=octo", "-c", "user.email=octo@example.org", "commit", "-q", "-m", "evals"},
	} {
		run(t, dir, nil, "git", args...)
	}
	head := strings.TrimSpace(run(t, dir, nil, "git", "rev-parse", "HEAD"))
	run(t, dir, nil, "chown", "-R", fmt.Sprint(owner), dir)
	return consumer{dir, head}
}

// openPull makes the pull request that the workflow runs for.
func openPull(hub *githubtest.Server, head string) githubtest.Pull {
	base := strings.Repeat("b", 40)
	hub.AddCommit(githubtest.Commit{SHA: base}, githubtest.Commit{SHA: head, Parents: []string{base}})
	hub.SetBranch("main", base)
	hub.SetBranch("fix", head)
	return hub.AddPull(githubtest.Pull{
		Number: 7, Title: "Sharpen the skill",
		Head:  githubtest.Branch{Ref: "fix", SHA: head},
		Base:  githubtest.Branch{Ref: "main", SHA: base},
		Files: []githubtest.File{{Name: "evals/skills/minimal-fix/SKILL.md", Patch: "@@ -1 +1 @@\n-a\n+b"}},
	})
}

// eventFile writes the webhook's payload: GitHub's own example, made to be about this pull request.
func eventFile(t *testing.T, pull githubtest.Pull) string {
	t.Helper()
	var event map[string]any
	if err := json.Unmarshal(githubtest.Webhooks(t)["pull_request-synchronize"], &event); err != nil {
		t.Fatal(err)
	}
	repository := event["repository"].(map[string]any)
	repository["full_name"], repository["name"] = "octo/demo", "demo"
	repository["owner"].(map[string]any)["login"] = "octo"
	request := event["pull_request"].(map[string]any)
	event["number"], request["number"], request["draft"] = pull.Number, pull.Number, false
	for side, b := range map[string]githubtest.Branch{"head": pull.Head, "base": pull.Base} {
		branch := request[side].(map[string]any)
		branch["sha"], branch["ref"], branch["repo"] = b.SHA, b.Ref, repository
	}
	data, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "event.json")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
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

// runWorkflow runs the consumer's workflow once.
func runWorkflow(t *testing.T, docker, act string, hub *githubtest.Server, repo consumer, event, runID string) finished {
	t.Helper()
	results := filepath.Join(repo.dir, "assay-results")
	if err := os.RemoveAll(results); err != nil {
		t.Fatal(err)
	}
	checkout, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	store, cache := t.TempDir(), t.TempDir()
	started := time.Now()
	log := run(t, repo.dir, []string{"XDG_CACHE_HOME=" + cache}, act, "pull_request", "-e", event, "-W", ".github/workflows/assay.yml",
		"-P", "ubuntu-latest=debian:bookworm-slim", "--pull=false", "--action-offline-mode", "--no-cache-server", "--bind", "--reuse",
		"--container-daemon-socket", "-", "--use-gitignore=false",
		"--artifact-server-path", store, "--artifact-server-addr", "127.0.0.1", "--artifact-server-port", freePort(t),
		"--local-repository", "assay-ci/assay@v1="+checkout, "--action-cache-path", cache,
		"--env", "GITHUB_API_URL="+hub.URL, "--env", "GITHUB_RUN_ID="+runID, "-s", "GITHUB_TOKEN="+githubtest.Token)
	t.Logf("run %s took %s", runID, time.Since(started).Round(100*time.Millisecond))

	f := finished{log: log, outputs: map[string]string{}, workspace: map[string][]byte{}, owners: map[string]int{}}
	said := regexp.MustCompile(`OUTPUTS (\{.*\})`).FindStringSubmatch(log)
	if said == nil {
		t.Fatalf("the workflow printed no outputs:\n%s", log)
	}
	if err := json.Unmarshal([]byte(said[1]), &f.outputs); err != nil {
		t.Fatalf("outputs %s: %v", said[1], err)
	}
	f.summary = summaryOf(t, docker)
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

// needDocker finds a daemon that answers and has the images that the Dockerfile starts from.
func needDocker(t *testing.T) string {
	t.Helper()
	docker := "docker"
	if _, err := os.Stat("/usr/bin/docker"); err == nil {
		docker = "/usr/bin/docker" // the daemon's own client, should another stand earlier in the PATH
	}
	for _, image := range []string{"debian:bookworm-slim", "golang:1.26-bookworm"} {
		cmd := exec.CommandContext(t.Context(), docker, "image", "inspect", image)
		cmd.WaitDelay = 10 * time.Second
		if out, err := cmd.CombinedOutput(); err != nil {
			missing(t, "docker", "docker with the image "+image+": "+strings.TrimSpace(string(out))+"; see tools/docker.sh")
		}
	}
	return docker
}

// missing skips the test, or fails it where ASSAY_REQUIRE names what is missing.
func missing(t *testing.T, what, text string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("ASSAY_REQUIRE"), ","), what) {
		t.Fatalf("needs %s", text)
	}
	t.Skipf("needs %s", text)
}

// buildAct builds the runner at the version that go.mod names.
func buildAct(t *testing.T) string {
	t.Helper()
	act := filepath.Join(t.TempDir(), "act")
	run(t, ".", nil, "go", "build", "-o", act, "github.com/nektos/act")
	return act
}

// run runs a program and gives what it printed. A program that fails ends the test.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return string(out)
}

// freePort is a port of loopback that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
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
