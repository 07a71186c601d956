package e2e

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/githubtest"
	"github.com/google/go-cmp/cmp"
)

// A workflowTest is one event for one workflow of docs/github.
type workflowTest struct {
	name, file, kind string
	event            func(*testing.T, *scene) string // writes the payload and gives its file
	args             []string                        // for act
	succeeded        []string                        // jobs, in the order in which they ended
	failed           []string
	check            func(*testing.T, *scene)
}

// TestDocumentedWorkflows runs every workflow of docs/github for the event that it is made for, in a repository that has
// copied it. Only GitHub's own actions are stood in for, by those of testdata/actions.
func TestDocumentedWorkflows(t *testing.T) {
	r := newRunner(t)
	const runID = 2000
	tests := []workflowTest{
		{
			name: "simple", file: "assay-simple.yml", kind: "pull_request", event: ownPull,
			succeeded: []string{"assay"},
			check: func(t *testing.T, s *scene) {
				s.wantComment(t, pullNumber, `"state":"done"`, "arms are compared within this run")
			},
		},
		{
			name: "simple after a baseline", file: "assay-simple.yml", kind: "pull_request",
			event: func(t *testing.T, s *scene) string {
				s.storeBaseline(t)
				return ownPull(t, s)
			},
			succeeded: []string{"assay"},
			check: func(t *testing.T, s *scene) {
				s.wantComment(t, pullNumber, `"state":"done"`, "stored baseline comes from the merge base", "commit `"+s.repo.base+"`")
			},
		},
		{
			name: "many runners", file: "assay.yml", kind: "pull_request", event: ownPull,
			succeeded: []string{"plan", "run access-log shell-spaces", "merge", "assay-gate"},
			check: func(t *testing.T, s *scene) {
				s.wantComment(t, pullNumber, `"state":"done"`, "12 of 12 planned cells scored")
				s.wantStatus(t, "success", "underpowered")
				s.wantArtifact(t, "assay-shard-plan", "manifest.json")
				s.wantArtifact(t, "assay", "report.html")
			},
		},
		{
			name: "a fork, which publish tells of", file: "assay-publish.yml", kind: "workflow_run",
			event: func(t *testing.T, s *scene) string {
				s.take(t, "assay.yml")
				log, _ := s.run(t, "pull_request", s.repo.pullEvent(t, s.hub, forkNumber))
				if diff := cmp.Diff([][]string{{"plan"}, {"assay-gate"}}, [][]string{jobs(log, "succeeded"), jobs(log, "failed")}); diff != "" {
					t.Fatalf("jobs of the fork's run that succeeded, and that failed (-want +got):\n%s\n%s", diff, log)
				}
				s.wantNothingWritten(t)
				s.take(t, "assay-publish.yml")
				return s.repo.event(t, s.hub, "workflow_run-completed", func(event object) {
					from := event["workflow_run"].(object)
					from["id"], from["event"], from["head_sha"], from["head_branch"] = runID, "pull_request", s.repo.head, "fix"
					from["head_repository"] = object{"id": s.hub.RepoID(forkName), "full_name": forkName}
					from["path"], from["conclusion"], from["run_attempt"], from["pull_requests"] = ".github/workflows/assay.yml", "success", 1, []any{}
				})
			},
			succeeded: []string{"publish"},
			check: func(t *testing.T, s *scene) {
				s.wantComment(t, forkNumber, `"state":"awaiting"`, "/eval "+s.repo.head, "12 cells")
				s.wantStatus(t, "pending", "waiting for a maintainer")
			},
		},
		{
			name: "eval", file: "assay-command.yml", kind: "issue_comment",
			event: func(t *testing.T, s *scene) string {
				said := s.hub.AddComment(githubtest.Comment{Issue: pullNumber, Body: "/eval " + s.repo.head + " --case access-log --trials 2"})
				return s.repo.event(t, s.hub, "issue_comment-created", func(event object) {
					issue, comment := event["issue"].(object), event["comment"].(object)
					issue["number"], issue["pull_request"] = pullNumber, object{"url": "https://api.github.com/repos/octo/demo/pulls/7"}
					comment["id"], comment["body"], comment["user"] = said.ID, said.Body, object{"login": "octocat", "type": "User"}
					comment["created_at"], comment["updated_at"] = said.Created, said.Created
					event["sender"] = comment["user"]
				})
			},
			succeeded: []string{"authorize", "eval", "publish"},
			check: func(t *testing.T, s *scene) {
				s.wantComment(t, pullNumber, `"state":"done"`, "`access-log`", "with_skill.base")
				if got := s.hub.Reactions(); len(got) != 2 || got[0].Content != "eyes" || got[1].Content != "rocket" {
					t.Errorf("reactions %v", got)
				}
			},
		},
		{
			name: "baseline", file: "assay-baseline.yml", kind: "push",
			event: func(t *testing.T, s *scene) string {
				return s.repo.event(t, s.hub, "push", func(event object) {
					event["ref"], event["before"], event["after"] = "refs/heads/main", s.repo.base, s.repo.head
				})
			},
			succeeded: []string{"baseline"},
			check: func(t *testing.T, s *scene) {
				s.wantArtifact(t, "assay-baseline", "benchmark.json")
				s.wantNothingWritten(t)
			},
		},
		{
			name: "benchmark by hand", file: "assay-benchmark.yml", kind: "workflow_dispatch",
			event: func(t *testing.T, s *scene) string {
				return s.repo.event(t, s.hub, "workflow_dispatch", func(event object) {
					event["ref"] = "refs/heads/main"
					event["inputs"] = object{
						"ref": "main", "baseline": "none", "case": "access-log", "harness": "", "model": "", "condition": "", "trials": "2", "max-cost-usd": "1",
					}
				})
			},
			succeeded: []string{"benchmark"},
			check: func(t *testing.T, s *scene) {
				if got := s.benchmark(t, "assay-benchmark").Coverage; got.Planned != 4 || got.Scored != 4 {
					t.Errorf("2 trials of one case under 2 conditions gave %+v", got)
				}
				s.wantNothingWritten(t)
			},
		},
		{
			name: "nightly", file: "assay-nightly.yml", kind: "schedule",
			event: func(t *testing.T, s *scene) string {
				return s.repo.event(t, s.hub, "", func(event object) { event["schedule"] = "23 2 * * *" })
			},
			succeeded: []string{"nightly"},
			check:     func(t *testing.T, s *scene) { s.wantArtifact(t, "assay-baseline", "benchmark.json") },
		},
		{
			name: "release of what is not shown to be good", file: "assay-release.yml", kind: "push",
			event: func(t *testing.T, s *scene) string {
				return s.repo.event(t, s.hub, "push", func(event object) {
					event["ref"], event["before"], event["after"] = "refs/tags/v1.0.0", strings.Repeat("0", 40), s.repo.head
				})
			},
			args:   []string{"--env", "GITHUB_REF_NAME=v1.0.0"},
			failed: []string{"evals"}, // and publish is skipped
			check: func(t *testing.T, s *scene) {
				if got := s.benchmark(t, "assay"); got.Gate.Result != "failed" {
					t.Errorf("two cases passed a release gate: %+v", got.Gate)
				}
			},
		},
	}
	documented, err := filepath.Glob("../docs/github/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range documented {
		if !slices.ContainsFunc(tests, func(tt workflowTest) bool { return tt.file == filepath.Base(file) }) {
			t.Errorf("%s is not run by any test", file)
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene(t, r, filepath.Join("../docs/github", tt.file), runID)
			event := tt.event(t, s)
			log, err := s.run(t, tt.kind, event, tt.args...)
			if (err != nil) != (len(tt.failed) > 0) {
				t.Fatalf("%v\n%s", err, log)
			}
			if diff := cmp.Diff(tt.succeeded, jobs(log, "succeeded")); diff != "" {
				t.Errorf("jobs that succeeded (-want +got):\n%s\n%s", diff, log)
			}
			if diff := cmp.Diff(tt.failed, jobs(log, "failed")); diff != "" {
				t.Errorf("jobs that failed (-want +got):\n%s\n%s", diff, log)
			}
			if !t.Failed() {
				tt.check(t, s)
			}
			if t.Failed() {
				t.Logf("%s", log)
			}
		})
	}
}

func ownPull(t *testing.T, s *scene) string { return s.repo.pullEvent(t, s.hub, pullNumber) }

// A scene is one repository with one workflow, its GitHub, and the artifacts of its runs.
type scene struct {
	runner
	repo      consumer
	runID     int64
	artifacts string // a folder an artifact
}

func newScene(t *testing.T, r runner, workflow string, runID int64) *scene {
	t.Helper()
	r.hub = githubtest.New(t)
	s := &scene{runner: r, repo: newConsumer(t, workflow), runID: runID, artifacts: t.TempDir()}
	s.repo.fill(s.hub)
	s.hub.AddRun(githubtest.Run{ID: runID, Event: "pull_request", HeadBranch: "fix", HeadSHA: s.repo.head, HeadRepo: forkName})
	return s
}

// take puts another documented workflow into the place of the first.
func (s *scene) take(t *testing.T, workflow string) {
	t.Helper()
	copyTree(t, filepath.Join("../docs/github", workflow), filepath.Join(s.repo.dir, ".github/workflows/workflow.yml"))
}

// run runs the workflow. What its jobs keep as artifacts is artifacts of the run at GitHub too, as soon as it is there.
func (s *scene) run(t *testing.T, kind, event string, args ...string) (string, error) {
	t.Helper()
	actions, err := filepath.Abs("testdata/actions")
	if err != nil {
		t.Fatal(err)
	}
	args = append(args, "--rm", "--container-options", "-v "+s.artifacts+":/artifacts")
	for action, commit := range s.pinned(t) {
		args = append(args, "--local-repository", "actions/"+action+"@"+commit+"="+filepath.Join(actions, action))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.watch(ctx, t)
	}()
	defer func() { cancel(); <-ended }()
	return s.runner.run(t, s.repo, kind, event, strconv.FormatInt(s.runID, 10), args...)
}

// pinned are the commits at which the workflow uses the actions that are stood in for.
func (s *scene) pinned(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.repo.dir, ".github/workflows/workflow.yml"))
	if err != nil {
		t.Fatal(err)
	}
	commits := map[string]string{}
	for _, use := range regexp.MustCompile(`uses: actions/(checkout|upload-artifact|download-artifact)@([0-9a-f]{40})`).FindAllStringSubmatch(string(text), -1) {
		commits[use[1]] = use[2]
	}
	return commits
}

// watch brings artifacts to GitHub until the context ends.
func (s *scene) watch(ctx context.Context, t *testing.T) {
	known := map[string]bool{}
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		entries, _ := os.ReadDir(s.artifacts)
		for _, e := range entries {
			if name := e.Name(); !known[name] && !strings.HasPrefix(name, ".") {
				known[name] = true
				s.hub.AddArtifact(githubtest.Artifact{Run: s.runID, Name: name, Zip: zipped(t, filepath.Join(s.artifacts, name))})
			}
		}
	}
}

// zipped is a folder as a zip.
func zipped(t *testing.T, dir string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	if err := z.AddFS(os.DirFS(dir)); err != nil {
		t.Error(err)
	}
	if err := z.Close(); err != nil {
		t.Error(err)
	}
	return b.Bytes()
}

// assay builds the program for this machine and runs it in the repository.
func (s *scene) assay(t *testing.T, args ...string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "assay")
	run(t, "..", nil, "go", "build", "-o", program, "./cmd/assay")
	run(t, s.repo.dir, []string{"ASSAY_CACHE=" + t.TempDir()}, program, args...)
}

// storeBaseline leaves what a run of main left at the base.
func (s *scene) storeBaseline(t *testing.T) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "baseline")
	run(t, s.repo.dir, nil, "git", "-c", "safe.directory=*", "checkout", "-q", "main")
	s.assay(t, "run", "evals", "--out", out)
	run(t, s.repo.dir, nil, "git", "-c", "safe.directory=*", "checkout", "-q", "fix")
	measured := []byte(`"commit": "` + s.repo.base + `"`)
	for _, name := range []string{"benchmark.json", "manifest.json"} { // what the action knows from its event
		file := filepath.Join(out, name)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, bytes.Replace(text, []byte(`"commit": ""`), measured, 1), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	stored := s.hub.AddRun(githubtest.Run{Path: ".github/workflows/assay-baseline.yml", HeadSHA: s.repo.base, Created: now})
	s.hub.AddArtifact(githubtest.Artifact{Run: stored.ID, Name: "assay-baseline", Zip: zipped(t, out), Created: now})
}

// jobs are the names of the jobs that ended in a way, in the order in which they did.
func jobs(log, how string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^\[[^/\]]+/(.+?)\s*\] 🏁  Job `+how).FindAllStringSubmatch(log, -1) {
		out = append(out, m[1])
	}
	return out
}

func (s *scene) wantComment(t *testing.T, pull int, parts ...string) {
	t.Helper()
	var body string
	for _, c := range s.hub.Comments(pull) {
		if c.Author.Login == s.hub.Identity.Login {
			body += c.Body
		}
	}
	for _, part := range parts {
		if !strings.Contains(body, part) {
			t.Errorf("the comment does not say %q:\n%s", part, body)
		}
	}
}

func (s *scene) wantStatus(t *testing.T, state, says string) {
	t.Helper()
	all := s.hub.Statuses(s.repo.head)
	if len(all) == 0 {
		t.Error("there is no commit status")
		return
	}
	newest := slices.MaxFunc(all, func(a, b githubtest.Status) int { return int(a.ID - b.ID) })
	if newest.State != state || !strings.Contains(newest.Description, says) {
		t.Errorf("the newest status is %s, %q", newest.State, newest.Description)
	}
}

func (s *scene) wantNothingWritten(t *testing.T) {
	t.Helper()
	for _, r := range s.hub.Requests() {
		if r.Method != "GET" {
			t.Errorf("it wrote %s %s", r.Method, r.Path)
		}
	}
}

func (s *scene) wantArtifact(t *testing.T, name, file string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(s.artifacts, name, file)); err != nil {
		t.Errorf("artifact %s: %v", name, err)
	}
}

// summary is what a test reads of a benchmark.json.
type summary struct {
	Coverage struct{ Planned, Scored int }
	Gate     struct{ Result string }
}

func (s *scene) benchmark(t *testing.T, artifact string) summary {
	t.Helper()
	var b summary
	data, err := os.ReadFile(filepath.Join(s.artifacts, artifact, "benchmark.json"))
	if err == nil {
		err = json.Unmarshal(data, &b)
	}
	if err != nil {
		t.Errorf("artifact %s: %v", artifact, err)
	}
	return b
}
