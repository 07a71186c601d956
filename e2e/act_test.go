package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/githubtest"
)

// A consumer is a repository that uses the action: a commit on main, and one on a branch that sharpens a skill.
type consumer struct {
	dir        string
	base, head string // commits
}

// newConsumer makes a repository with two cases of ours and a workflow, owned by a user that is not root.
func newConsumer(t *testing.T, workflow string) consumer {
	t.Helper()
	c := consumer{dir: t.TempDir()}
	for _, name := range []string{"suite.yaml", "skills", "access-log", "shell-spaces"} {
		copyTree(t, filepath.Join("..", "evals", name), filepath.Join(c.dir, "evals", name))
	}
	for _, name := range []string{"access-log", "shell-spaces"} { // what the scripted agent does under the twin of the condition
		agent := filepath.Join(c.dir, "evals", name, "agent")
		copyTree(t, filepath.Join(agent, "with_skill.yaml"), filepath.Join(agent, "with_skill.base.yaml"))
	}
	copyTree(t, workflow, filepath.Join(c.dir, ".github", "workflows", "workflow.yml"))
	git := func(args ...string) string {
		env := []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}
		for _, role := range []string{"AUTHOR", "COMMITTER"} {
			env = append(env, "GIT_"+role+"_NAME=octo", "GIT_"+role+"_EMAIL=octo@example.org", "GIT_"+role+"_DATE=2026-01-02T03:04:05Z")
		}
		return strings.TrimSpace(run(t, c.dir, env, "git", args...))
	}
	git("init", "-q", "-b", "main")
	git("remote", "add", "origin", "https://github.com/octo/demo.git") // by it the runner knows the repository's name
	git("add", ".")
	git("commit", "-q", "-m", "evals")
	c.base = git("rev-parse", "HEAD")
	git("update-ref", "refs/remotes/origin/main", c.base) // as a checkout of GitHub's leaves it
	git("checkout", "-q", "-b", "fix")
	skill := filepath.Join(c.dir, "evals", "skills", "minimal-fix", "SKILL.md")
	text, err := os.ReadFile(skill)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(skill, append(text, "\nRun the tests before and after.\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	git("commit", "-q", "-a", "-m", "sharpen the skill")
	c.head = git("rev-parse", "HEAD")
	run(t, c.dir, nil, "chown", "-R", fmt.Sprint(owner), c.dir)
	return c
}

// copyTree copies a file or a folder.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, ".", nil, "cp", "-R", from, to)
}

// The pull requests of the consumer's repository.
const (
	pullNumber = 7 // of its own branch
	forkNumber = 8 // of a fork's
	forkName   = "mona/demo"
)

// fill tells the hub of the repository's commits and pull requests.
func (c consumer) fill(hub *githubtest.Server) {
	hub.AddCommit(githubtest.Commit{SHA: c.base}, githubtest.Commit{SHA: c.head, Parents: []string{c.base}})
	hub.SetBranch("main", c.base)
	hub.SetBranch("fix", c.head)
	base := githubtest.Branch{Ref: "main", SHA: c.base}
	files := []githubtest.File{{Name: "evals/skills/minimal-fix/SKILL.md", Patch: "@@ -1 +1 @@\n-a\n+b"}}
	hub.AddPull(githubtest.Pull{Number: pullNumber, Base: base, Head: githubtest.Branch{Ref: "fix", SHA: c.head}, Files: files})
	hub.AddPull(githubtest.Pull{Number: forkNumber, Base: base, Head: githubtest.Branch{Repo: forkName, Ref: "fix", SHA: c.head}, Files: files})
	hub.SetPermission("octocat", "write")
}

// An object is one of JSON.
type object = map[string]any

// event makes the payload of an event: GitHub's own example, made to be about this repository.
func (c consumer) event(t *testing.T, hub *githubtest.Server, example string, set func(object)) string {
	t.Helper()
	event := object{}
	if example != "" {
		if err := json.Unmarshal(githubtest.Webhooks(t)[example], &event); err != nil {
			t.Fatalf("example %s: %v", example, err)
		}
	} else {
		event["repository"] = object{"owner": object{}}
	}
	repository := event["repository"].(object)
	repository["id"], repository["full_name"], repository["name"], repository["default_branch"] = hub.RepoID("octo/demo"), "octo/demo", "demo", "main"
	repository["owner"].(object)["login"] = "octo"
	set(event)
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

// pullEvent is a push to a pull request, of the repository's own branch or of a fork's.
func (c consumer) pullEvent(t *testing.T, hub *githubtest.Server, number int) string {
	t.Helper()
	return c.event(t, hub, "pull_request-synchronize", func(event object) {
		request := event["pull_request"].(object)
		event["number"], request["number"], request["draft"] = number, number, false
		head, base := request["head"].(object), request["base"].(object)
		head["sha"], head["ref"], base["sha"], base["ref"] = c.head, "fix", c.base, "main"
		head["repo"], base["repo"] = event["repository"], event["repository"]
		if number == forkNumber {
			fork := maps.Clone(event["repository"].(object))
			fork["id"], fork["full_name"] = hub.RepoID(forkName), forkName
			head["repo"] = fork
		}
	})
}

// A runner runs workflows in containers.
type runner struct {
	docker, act string
	hub         *githubtest.Server
}

// newRunner finds docker and builds act.
func newRunner(t *testing.T) runner {
	t.Helper()
	return runner{needDocker(t), buildAct(t), githubtest.New(t)}
}

// run runs the workflow of a repository for an event, and gives the log.
func (r runner) run(t *testing.T, c consumer, kind, event, runID string, args ...string) (string, error) {
	t.Helper()
	checkout, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	args = append([]string{kind, "-e", event, "-W", ".github/workflows/workflow.yml",
		"-P", "ubuntu-latest=debian:bookworm-slim", "--pull=false", "--action-offline-mode", "--no-cache-server", "--bind",
		"--container-daemon-socket", "-", "--use-gitignore=false", "--action-cache-path", cache,
		"--local-repository", "assay-ci/assay@v1=" + checkout,
		"--env", "GITHUB_API_URL=" + r.hub.URL, "--env", "GITHUB_RUN_ID=" + runID, "-s", "GITHUB_TOKEN=" + githubtest.Token}, args...)
	cmd := exec.CommandContext(t.Context(), r.act, args...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), "XDG_CACHE_HOME="+cache)
	started := time.Now()
	log, err := cmd.CombinedOutput()
	t.Logf("%s took %s", kind, time.Since(started).Round(100*time.Millisecond))
	if bytes.Contains(log, []byte("GoGitActionCache fetch")) {
		t.Errorf("act went to GitHub for an action that nothing stands in for:\n%s", log)
	}
	return string(log), err
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
