package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/assay-ci/assay/internal/publish"
)

// A job is what the runner of GitHub Actions says about the job that runs us. Runners put things into different places, so
// every path comes from the environment.
type job struct {
	Workspace    string
	Event        publish.Event
	Owner, Repo  string
	Commit       string // that the event is about: of a pull request its head, and never the merge commit
	Run          int64  // id of the workflow run
	Attempt      int
	Started      time.Time
	Server, API  string // addresses
	OutputFile   string // empty when the runner takes no outputs
	SummaryFile  string
	Workflows    []string // paths of the workflows whose runs may be a baseline
	RuntimeToken string   // of the artifact service
	ResultsURL   string
}

// readJob reads the environment and the event.
func readJob(getenv func(string) string, now time.Time) (job, error) {
	j := job{
		Workspace: getenv("GITHUB_WORKSPACE"), Commit: getenv("GITHUB_SHA"), Started: now.UTC().Truncate(time.Second),
		Server: cmp.Or(getenv("GITHUB_SERVER_URL"), "https://github.com"), API: cmp.Or(getenv("GITHUB_API_URL"), "https://api.github.com"),
		OutputFile: getenv("GITHUB_OUTPUT"), SummaryFile: getenv("GITHUB_STEP_SUMMARY"),
		RuntimeToken: getenv("ACTIONS_RUNTIME_TOKEN"), ResultsURL: getenv("ACTIONS_RESULTS_URL"),
	}
	j.Owner, j.Repo, _ = strings.Cut(getenv("GITHUB_REPOSITORY"), "/")
	j.Run, _ = strconv.ParseInt(getenv("GITHUB_RUN_ID"), 10, 64)
	j.Attempt, _ = strconv.Atoi(getenv("GITHUB_RUN_ATTEMPT"))
	j.Workflows = []string{baselineWorkflow}
	if ours, _, ok := strings.Cut(getenv("GITHUB_WORKFLOW_REF"), "@"); ok {
		j.Workflows = append(j.Workflows, strings.TrimPrefix(ours, j.Owner+"/"+j.Repo+"/"))
	}
	if j.Workspace == "" {
		return j, errors.New("GITHUB_WORKSPACE is not set: this is no job of GitHub Actions")
	}
	j.Event.Kind = getenv("GITHUB_EVENT_NAME")
	name := getenv("GITHUB_EVENT_PATH")
	if name == "" {
		return j, nil
	}
	payload, err := readRegular(name, maxEventFile)
	if err != nil {
		return j, fmt.Errorf("the event: %w", err)
	}
	if j.Event, err = publish.ReadEvent(j.Event.Kind, payload); err != nil {
		return j, err
	}
	j.Commit = cmp.Or(j.Event.Run.Head.SHA, j.Event.Review.CommitID, pullHead(j.Event), j.Commit)
	if j.Event.Kind == "issue_comment" {
		j.Commit = "" // the runner names the default branch, which nobody spoke of
	}
	return j, nil
}

// baselineWorkflow is where the documentation puts the workflow that leaves baselines. A workflow may also compare with
// earlier runs of itself.
const baselineWorkflow = ".github/workflows/assay-baseline.yml"

// maxEventFile bounds the file of the event, in bytes.
const maxEventFile = 32 << 20

// pullHead is the newest commit of the event's pull request.
func pullHead(e publish.Event) string {
	if e.PR.Number == 0 {
		return ""
	}
	return e.Head.SHA
}

// base is the commit that a change is compared with; empty when the event names none. The event of a comment knows the
// pull request by its number only, so there it is the default branch, where the runner's checkout has put it.
func (j job) base() string {
	if j.Event.Kind == "issue_comment" && j.Event.Repository.DefaultBranch != "" {
		return "refs/remotes/origin/" + j.Event.Repository.DefaultBranch
	}
	if strings.Trim(j.Event.Base.SHA, "0") == "" { // a new branch has only zeros behind it
		return ""
	}
	return j.Event.Base.SHA
}

// untrusted tells whether somebody without write access could have had a say in what this job checked out.
func (j job) untrusted() bool {
	return j.Event.Fork || slices.Contains([]string{"issue_comment", "pull_request_review"}, j.Event.Kind)
}

// runURL is the address of the workflow run.
func (j job) runURL() string {
	if j.Owner == "" || j.Run == 0 {
		return ""
	}
	return fmt.Sprintf("%s/%s/%s/actions/runs/%d", j.Server, j.Owner, j.Repo, j.Run)
}

// keys names the variables of an environment that look like a key to a model. The tokens that GitHub itself gives to a job
// open no model.
func keys(env []string) []string {
	githubs := []string{"GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "INPUT_GITHUB-TOKEN"}
	var found []string
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if value != "" && looksLikeKey(name) && !slices.Contains(githubs, strings.ToUpper(name)) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// handBack gives files to the owner of the workspace. The runner starts containers as root, and what root leaves behind
// breaks the next checkout.
func handBack(workspace, dir string) error {
	if os.Geteuid() != 0 || workspace == "" || !filepath.IsLocal(dir) {
		return nil
	}
	info, err := os.Stat(workspace)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), filepath.ToSlash(dir), func(name string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return cmp.Or(err, root.Lchown(name, int(owner.Uid), int(owner.Gid)))
	})
}

// appendTo adds to one of the runner's files in one write.
func appendTo(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// readRegular reads a regular file of limited size, and never waits for one that is none.
func readRegular(name string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, cmp.Or(err, fmt.Errorf("%s is not a regular file", name))
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return data, err
}
