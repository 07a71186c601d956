package cli

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/githubtest"
	"github.com/rogpeppe/go-internal/testscript"
)

// The repository octo/demo of the scripts has pull request 7, whose head is feature and whose base is trunk.
const (
	pullNumber = 7
	headSHA    = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	baseSHA    = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	forkSHA    = "ffffffffffffffffffffffffffffffffffffffff"
	forkPull   = 8
	runID      = 1234
)

// startGitHub is the command github of the scripts: a fake GitHub of the script's own, and commands that play its runner.
//
//	event KIND [BODY]     the event of the steps: pull_request, fork, target, push, comment BODY, review BODY, ended
//	step N NAME=VALUE...  runs the action with these inputs, and in capitals environment, which must end with exit code N;
//	                      its outputs are in outputs.txt, but for those that are empty, and its summary in summary.md
//	shows FILE            writes what GitHub shows of the event's commit and pull request
//	changes PATH FILE     makes pull request 7 change a file by the hunks in FILE
//	fault METHOD PATH N   answers calls with status N, until heal
//	heal                  takes all faults away
//	repo                  makes the workspace a git repository whose one commit is the base of the pull requests
//	artifact NAME DIR     makes an artifact of the run from a folder
//	baseline DIR          makes an artifact of a run of the default branch at the base from a folder
//	service FILE          gives the steps an artifact service that writes the names of the uploaded files to FILE
//	role LOGIN ROLE       gives an account its role
func startGitHub(t *testing.T) func(ts *testscript.TestScript, neg bool, args []string) {
	return func(ts *testscript.TestScript, _ bool, _ []string) {
		g := &fakeRunner{hub: githubtest.New(t), base: baseSHA, head: headSHA}
		base := githubtest.Branch{Ref: "main", SHA: baseSHA}
		g.hub.AddPull(githubtest.Pull{Number: pullNumber, Base: base, Head: githubtest.Branch{Ref: "feature", SHA: headSHA}})
		g.hub.AddPull(githubtest.Pull{Number: forkPull, Base: base, Head: githubtest.Branch{Repo: "mona/demo", Ref: "patch", SHA: forkSHA}})
		g.hub.AddRun(githubtest.Run{ID: runID, Event: "pull_request", HeadBranch: "patch", HeadSHA: forkSHA, HeadRepo: "mona/demo"})
		for name, value := range map[string]string{
			"GITHUB_WORKSPACE": ts.MkAbs("."), "GITHUB_REPOSITORY": "octo/demo", "GITHUB_RUN_ID": strconv.Itoa(runID), "GITHUB_RUN_ATTEMPT": "1",
			"GITHUB_API_URL": g.hub.URL, "GITHUB_SERVER_URL": "https://github.com", "GITHUB_SHA": "cccccccccccccccccccccccccccccccccccccccc",
			"GITHUB_WORKFLOW_REF": "octo/demo/.github/workflows/assay.yml@refs/pull/7/merge",
			"GITHUB_OUTPUT":       ts.MkAbs(".output"), "GITHUB_STEP_SUMMARY": ts.MkAbs("summary.md"),
		} {
			ts.Setenv(name, value)
		}
		for name, command := range map[string]func(*testscript.TestScript, []string){
			"event": g.event, "step": g.step, "shows": g.shows, "changes": g.changes, "fault": g.fault, "artifact": g.artifact, "baseline": g.baseline, "repo": g.repo, "service": service,
			"heal": func(*testscript.TestScript, []string) { g.hub.Heal() },
			"role": func(_ *testscript.TestScript, args []string) { g.hub.SetPermission(args[0], args[1]) },
		} {
			ts.SetCmd(name, func(ts *testscript.TestScript, neg bool, args []string) {
				if neg {
					ts.Fatalf("%s cannot be negated", name)
				}
				command(ts, args)
			})
		}
		g.event(ts, []string{"pull_request"})
	}
}

// A fakeRunner plays the runner of GitHub Actions for one script.
type fakeRunner struct {
	hub  *githubtest.Server
	base string // commit that pull requests are made against
	head string // of pull request 7
	pull int    // that the script looks at
	sha  string
}

func (g *fakeRunner) event(ts *testscript.TestScript, args []string) {
	type m = map[string]any
	repo := func(name string) m {
		return m{"id": g.hub.RepoID(name), "full_name": name, "default_branch": "main"}
	}
	pull := func(number int, from, ref, sha string) m {
		return m{
			"number": number, "head": m{"sha": sha, "ref": ref, "repo": repo(from)},
			"base": m{"sha": g.base, "ref": "main", "repo": repo("octo/demo")},
		}
	}
	octocat := m{"login": "octocat", "type": "User"}
	payload := m{"repository": repo("octo/demo"), "sender": octocat}
	g.pull, g.sha = pullNumber, g.head
	var kind string
	switch args[0] {
	case "pull_request", "target":
		kind = map[string]string{"pull_request": "pull_request", "target": "pull_request_target"}[args[0]]
		payload["action"], payload["pull_request"] = "synchronize", pull(pullNumber, "octo/demo", "feature", g.head)
	case "fork":
		kind, g.pull, g.sha = "pull_request", forkPull, forkSHA
		payload["action"], payload["pull_request"] = "opened", pull(forkPull, "mona/demo", "patch", forkSHA)
	case "push":
		kind, g.sha = "push", g.base
		ts.Setenv("GITHUB_SHA", g.base)
		payload["ref"], payload["before"], payload["after"] = "refs/heads/main", baseSHA, g.sha
	case "comment":
		kind = "issue_comment"
		c := g.hub.AddComment(githubtest.Comment{Issue: pullNumber, Body: args[1]})
		payload["action"], payload["issue"] = "created", m{"number": pullNumber, "pull_request": m{"url": "x"}}
		payload["comment"] = m{"id": c.ID, "body": args[1], "user": octocat, "created_at": c.Created, "updated_at": c.Created}
	case "review":
		kind = "pull_request_review"
		r := g.hub.AddReview(githubtest.Review{Pull: pullNumber, Body: args[1], CommitID: g.head, State: "COMMENTED"})
		payload["action"], payload["pull_request"] = "submitted", pull(pullNumber, "octo/demo", "feature", g.head)
		payload["review"] = m{"id": r.ID, "body": args[1], "user": octocat, "commit_id": g.head, "state": "commented", "submitted_at": r.Submitted}
	case "ended":
		kind, g.pull, g.sha = "workflow_run", forkPull, forkSHA
		payload["action"], payload["workflow_run"] = "completed", m{
			"id": runID, "event": "pull_request", "head_sha": forkSHA, "head_branch": "patch", "head_repository": repo("mona/demo"),
			"path": ".github/workflows/assay.yml", "conclusion": "success", "run_attempt": 1,
		}
	default:
		ts.Fatalf("there is no event %s", args[0])
	}
	data, err := json.Marshal(payload)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(".event.json"), data, 0o644))
	ts.Setenv("GITHUB_EVENT_NAME", kind)
	ts.Setenv("GITHUB_EVENT_PATH", ts.MkAbs(".event.json"))
}

func (g *fakeRunner) step(ts *testscript.TestScript, args []string) {
	fill := strings.NewReplacer("${{ github.workflow }}", "assay", "${{ github.token }}", githubtest.Token)
	for _, in := range inputs {
		ts.Setenv("INPUT_"+strings.ToUpper(in.name), fill.Replace(in.def))
	}
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		if name != strings.ToUpper(name) {
			if !slices.ContainsFunc(inputs, func(in input) bool { return in.name == name }) {
				ts.Fatalf("there is no input %s", name)
			}
			name = "INPUT_" + strings.ToUpper(name)
		} else {
			defer ts.Setenv(name, ts.Getenv(name))
		}
		ts.Setenv(name, value)
	}
	for _, name := range []string{".output", "summary.md"} {
		ts.Check(os.RemoveAll(ts.MkAbs(name)))
	}
	exits(ts, false, []string{args[0], "assay"})
	ts.Check(os.WriteFile(ts.MkAbs("outputs.txt"), []byte(readOutputs(ts.ReadFile(".output"))), 0o644))
}

// readOutputs reads the file that a step wrote for the runner, as the runner does, and leaves out what is empty.
func readOutputs(file string) string {
	var b strings.Builder
	lines := strings.Split(strings.TrimSuffix(file, "\n"), "\n")
	for len(lines) > 0 {
		name, end, ok := strings.Cut(lines[0], "<<")
		at := slices.Index(lines[1:], end)
		if !ok || at < 0 {
			return "not a file of outputs: " + file
		}
		if value := strings.Join(lines[1:at+1], "\n"); value != "" {
			fmt.Fprintf(&b, "%s=%s\n", name, strings.ReplaceAll(value, "\n", "\n  "))
		}
		lines = lines[at+2:]
	}
	return b.String()
}

// times are what differs from run to run in a page.
var times = regexp.MustCompile(`("started":")[^"]*`)

func (g *fakeRunner) shows(ts *testscript.TestScript, args []string) {
	var b bytes.Buffer
	for _, c := range g.hub.Comments(g.pull) {
		fmt.Fprintf(&b, "comment by %s\n%s\n", c.Author.Login, times.ReplaceAllString(c.Body, "${1}TIME"))
	}
	for _, s := range g.hub.Statuses(g.sha) {
		fmt.Fprintf(&b, "status %s %s: %s\n", s.Context, s.State, s.Description)
	}
	for _, c := range g.hub.CheckRuns() {
		fmt.Fprintf(&b, "check %s on %.7s: %s %s: %s\n", c.Name, c.HeadSHA, c.Status, c.Conclusion, c.Title)
		for _, a := range c.Annotations {
			fmt.Fprintf(&b, "  %s %s:%d %s: %s\n", a.Level, a.Path, a.StartLine, a.Title, a.Message)
		}
	}
	for _, c := range g.hub.ReviewComments(g.pull) {
		fmt.Fprintf(&b, "review %s:%d\n", c.Path, c.Line)
	}
	for _, r := range g.hub.Reactions() {
		fmt.Fprintf(&b, "reaction %s\n", r.Content)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o644))
}

func (g *fakeRunner) repo(ts *testscript.TestScript, _ []string) {
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = ts.MkAbs(".")
		cmd.Env = []string{
			"PATH=" + ts.Getenv("PATH"), "HOME=" + cmd.Dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@localhost",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@localhost",
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			ts.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "-b", "main")
	git("add", "evals")
	git("commit", "-q", "-m", "base")
	g.base = git("rev-parse", "HEAD")
	g.head = "dddddddddddddddddddddddddddddddddddddddd"
	g.hub.AddCommit(githubtest.Commit{SHA: g.base, Parents: []string{baseSHA}}, githubtest.Commit{SHA: g.head, Parents: []string{g.base}})
	g.hub.SetBranch("main", g.base)
	g.hub.UpdatePull(pullNumber, func(p *githubtest.Pull) { p.Head.SHA, p.Base.SHA = g.head, g.base })
}

func (g *fakeRunner) changes(ts *testscript.TestScript, args []string) {
	g.hub.UpdatePull(pullNumber, func(p *githubtest.Pull) {
		p.Files = append(p.Files, githubtest.File{Name: args[0], Patch: strings.TrimSuffix(ts.ReadFile(args[1]), "\n")})
	})
}

func (g *fakeRunner) fault(ts *testscript.TestScript, args []string) {
	status, err := strconv.Atoi(args[2])
	ts.Check(err)
	g.hub.Fail(githubtest.Fault{Method: args[0], Path: args[1], Status: status})
}

func (g *fakeRunner) artifact(ts *testscript.TestScript, args []string) {
	g.hub.AddArtifact(githubtest.Artifact{Run: runID, Name: args[0], Zip: zipOf(ts, args[1])})
}

func (g *fakeRunner) baseline(ts *testscript.TestScript, args []string) {
	now := time.Now()
	run := g.hub.AddRun(githubtest.Run{Path: baselineWorkflow, HeadSHA: g.base, Created: now})
	g.hub.AddArtifact(githubtest.Artifact{Run: run.ID, Name: "assay-baseline", Zip: zipOf(ts, args[0]), Created: now})
}

func zipOf(ts *testscript.TestScript, dir string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	ts.Check(z.AddFS(os.DirFS(ts.MkAbs(dir))))
	ts.Check(z.Close())
	return b.Bytes()
}

// service is the artifact service of the runner, as far as the happy way goes; the publisher has tests with a strict one.
func service(ts *testscript.TestScript, args []string) {
	var mu sync.Mutex // the client uploads blocks side by side
	blocks := map[string][]byte{}
	mux := http.NewServeMux()
	const twirp = "POST /twirp/github.actions.results.api.v1.ArtifactService/"
	mux.HandleFunc(twirp+"CreateArtifact", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"ok":true,"signed_upload_url":"http://%s/blob?sig=secret-signature"}`, r.Host)
	})
	mux.HandleFunc("PUT /blob", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Query().Get("comp") == "block" {
			blocks[r.URL.Query().Get("blockid")] = body
		} else {
			var list struct{ Latest []string }
			_ = xml.Unmarshal(body, &list)
			var all []byte
			for _, id := range list.Latest {
				all = append(all, blocks[id]...)
			}
			z, err := zip.NewReader(bytes.NewReader(all), int64(len(all)))
			var names strings.Builder
			for i := 0; err == nil && i < len(z.File); i++ {
				fmt.Fprintln(&names, z.File[i].Name)
			}
			_ = os.WriteFile(ts.MkAbs(args[0]), []byte(names.String()), 0o644)
		}
		w.WriteHeader(http.StatusCreated)
	})
	mux.HandleFunc(twirp+"FinalizeArtifact", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"ok":true,"artifact_id":"42"}`) })
	s := httptest.NewServer(mux)
	ts.Defer(s.Close)
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"scp":"Actions.Results:run:job"}`))
	ts.Setenv("ACTIONS_RUNTIME_TOKEN", "e30."+claims+".c2ln")
	ts.Setenv("ACTIONS_RESULTS_URL", s.URL+"/")
}

// TestStoppedAction ends a step before its time: by a cancelled job, and by a crash. Both say so on the pull request and in
// the outputs, keep what was written, and leave no file of root's in the workspace.
func TestStoppedAction(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("agents run on Linux only")
	}
	for _, c := range []struct {
		name  string
		stop  func(pid int)
		code  int
		says  string
		files []string
	}{
		{"cancelled", func(pid int) { must(syscall.Kill(pid, syscall.SIGINT)) }, ExitInterrupted, "cancelled", []string{"manifest.json", "benchmark.json", "report.md"}},
		{"crashed", func(pid int) { must(syscall.Kill(childOf(pid), syscall.SIGKILL)) }, ExitUnmeasured, "crashed", []string{"manifest.json", "journal.jsonl"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			hub := githubtest.New(t)
			hub.AddPull(githubtest.Pull{Number: pullNumber, Head: githubtest.Branch{Ref: "feature", SHA: headSHA}, Base: githubtest.Branch{Ref: "main", SHA: baseSHA}})
			cmd, log := startHanging(t, hub.URL)
			await(t, "the running page", func() bool {
				said := hub.Comments(pullNumber)
				return len(said) == 1 && strings.Contains(said[0].Body, `"state":"running"`) && len(hub.Statuses(headSHA)) == 1
			})
			c.stop(cmd.Process.Pid)
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d\n%s", code, c.code, log)
			}
			if said := hub.Comments(pullNumber); len(said) != 1 || !strings.Contains(said[0].Body, `"state":"error"`) || !strings.Contains(said[0].Body, c.says) {
				t.Errorf("the pull request says %v\n%s", said, log)
			}
			file, err := os.ReadFile(filepath.Join(cmd.Dir, "output"))
			if got := readOutputs(string(file)); err != nil || !strings.Contains(got, fmt.Sprintf("state=error\nexit-code=%d\n", c.code)) {
				t.Errorf("outputs: %s %v", got, err)
			}
			for _, name := range c.files {
				if uid := ownerOf(t, filepath.Join(cmd.Dir, "assay-results", name)); os.Geteuid() == 0 && uid != 1234 {
					t.Errorf("%s belongs to %d", name, uid)
				}
			}
		})
	}
}

// startHanging starts a step whose agent never ends, in a workspace of another user where that can be.
func startHanging(t *testing.T, api string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	workspace := t.TempDir()
	for name, text := range map[string]string{
		"evals/suite.yaml":        "name: hang\nmatrix:\n  harnesses:\n    - {id: mine, type: script, script: agent.yaml}\n  trials: 1\n",
		"evals/one/case.yaml":     "id: one\nprompt: x\nsource: {path: fixture}\nassertions: [{id: a, type: files, exist: [f.txt]}]\n",
		"evals/one/fixture/f.txt": "x\n",
		"evals/one/agent.yaml":    "steps: [{say: started}, {hang: true}]\n",
		".event.json":             fmt.Sprintf(pullEvent, headSHA, baseSHA),
	} {
		must(os.MkdirAll(filepath.Dir(filepath.Join(workspace, name)), 0o755))
		must(os.WriteFile(filepath.Join(workspace, name), []byte(text), 0o644))
	}
	if os.Geteuid() == 0 {
		must(os.Chown(workspace, 1234, 1235))
	}
	cmd := exec.Command("assay")
	cmd.Dir = workspace
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "ASSAY_CACHE=" + t.TempDir(), "TMPDIR=" + t.TempDir(), quickEnd,
		"INPUT_MODE=auto", "INPUT_GITHUB-TOKEN=" + githubtest.Token, "INPUT_STATUS=status",
		"GITHUB_WORKSPACE=" + workspace, "GITHUB_REPOSITORY=octo/demo", "GITHUB_RUN_ID=1234", "GITHUB_RUN_ATTEMPT=1", "GITHUB_API_URL=" + api,
		"GITHUB_EVENT_NAME=pull_request", "GITHUB_EVENT_PATH=" + filepath.Join(workspace, ".event.json"), "GITHUB_OUTPUT=" + filepath.Join(workspace, "output"),
	}
	log := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	must(cmd.Start())
	return cmd, log
}

// childOf is the process that does the work of a step.
func childOf(parent int) int {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	must(err)
	for _, name := range threads {
		text, err := os.ReadFile(name)
		must(err)
		for field := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(field)
			must(err)
			return pid
		}
	}
	panic("the step has no process of its own")
}

const pullEvent = `{"repository": {"id": 1, "full_name": "octo/demo"}, "sender": {"login": "octocat", "type": "User"},
  "pull_request": {"number": 7, "head": {"sha": "%s", "ref": "feature", "repo": {"id": 1, "full_name": "octo/demo"}},
  "base": {"sha": "%s", "ref": "main", "repo": {"id": 1, "full_name": "octo/demo"}}}}`

// await waits for what another process brings about.
func await(t *testing.T, what string, there func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !there(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}

func TestModeOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, mode, event, shard string
		shards                   bool
		want                     string
	}{
		{name: "a named mode is taken whatever the event", mode: modeGate, event: "issue_comment", want: modeGate},
		{name: "a comment is a command", event: "issue_comment", shard: "1/2", want: modeCommand},
		{name: "so is a review", event: "pull_request_review", want: modeCommand},
		{name: "the end of another run is published", event: "workflow_run", shards: true, want: modePublish},
		{name: "a shard is run", event: "pull_request", shard: "1/2", shards: true, want: modeRun},
		{name: "shards that lie there are merged", event: "pull_request", shards: true, want: modeMerge},
		{name: "else all in one job", event: "pull_request", want: modeWhole},
		{name: "also without a pull request", event: "push", want: modeWhole},
		{name: "also by the clock", event: "schedule", want: modeWhole},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := actionOptions{Mode: c.mode}
			if o.Mode == "" {
				o.Mode = modeAuto
			}
			o.Shard = c.shard
			if got := modeOf(o, c.event, c.shards); got != c.want {
				t.Errorf("mode %q, want %q", got, c.want)
			}
		})
	}
}

func TestGateWithoutResults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, needs string
		want        int
	}{
		{"no needs at all", "", ExitUnmeasured},
		{"not JSON", "success", ExitUnmeasured},
		{"the plan was skipped: a draft", `{"plan":{"result":"skipped","outputs":{}}}`, ExitOK},
		{"the plan holds no cell", `{"plan":{"result":"success","outputs":{"has-cells":"false"}},"merge":{"result":"skipped"}}`, ExitOK},
		{"the plan failed", `{"plan":{"result":"failure","outputs":{}},"run":{"result":"skipped"}}`, ExitUsage},
		{"the plan was cancelled", `{"plan":{"result":"cancelled"}}`, ExitUnmeasured},
		{"the merge failed", `{"plan":{"result":"success","outputs":{"has-cells":"true"}},"merge":{"result":"failure"}}`, ExitUnmeasured},
		{"a fork: nothing was run", `{"plan":{"result":"success","outputs":{"has-cells":"true"}},"run":{"result":"skipped"},"merge":{"result":"skipped"}}`, ExitUnmeasured},
		{"no job is called plan", `{"other":{"result":"skipped"}}`, ExitUnmeasured},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := withoutResults(c.needs); got.Code != c.want {
				t.Errorf("exit code %d, want %d (%v)", got.Code, c.want, got.Err)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	env := []string{
		"PATH=/bin", "ANTHROPIC_API_KEY=x", "HF_TOKEN=x", "OPENAI_API_KEY=", "GITHUB_TOKEN=x", "ACTIONS_RUNTIME_TOKEN=x",
		"INPUT_GITHUB-TOKEN=x", "lower_api_key=x", "AWS_SECRET_ACCESS_KEY=x", "MY_API_KEYS=x",
	}
	want := []string{"ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "lower_api_key"}
	if got := keys(env); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestStepLog holds what is printed to be no command of the runner, whatever it is and however it is cut into writes.
func TestStepLog(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log := newStepLog(&b, nil)
	p := &printed{log: log}
	const hostile = "::error::x\n  ::stop-commands::x\n##[error]x\rsecond\r::add-mask::x\n\x1b[1m::set-output name=a::b"
	for i := range len(hostile) {
		if _, err := p.Write([]byte(hostile[i : i+1])); err != nil {
			t.Fatal(err)
		}
	}
	p.flush()
	log.command("::warning::ours")
	log.close()
	command := regexp.MustCompile(`^\s*::|##\[`)
	stop := ""
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		if !command.MatchString(line) {
			continue
		}
		switch word, ok := strings.CutPrefix(line, "::stop-commands::"); {
		case ok && stop == "" && len(word) >= 26:
			stop = word
		case stop != "" && line == "::"+stop+"::":
			stop = ""
		case stop == "" && line == "::warning::ours":
		default:
			t.Errorf("the runner would obey %q", line)
		}
	}
	if stop != "" || !strings.Contains(b.String(), "::warning::ours") {
		t.Errorf("commands stay off, or ours is lost:\n%s", &b)
	}
}

func TestHandBack(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	workspace, outside := t.TempDir(), filepath.Join(t.TempDir(), "theirs")
	must(os.WriteFile(outside, nil, 0o600))
	must(os.MkdirAll(filepath.Join(workspace, "out", "cells"), 0o755))
	must(os.WriteFile(filepath.Join(workspace, "out", "cells", "f"), nil, 0o600))
	must(os.Symlink(outside, filepath.Join(workspace, "out", "link")))
	must(os.Chown(workspace, 1234, 1235))
	if err := handBack(workspace, "out"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"out", "out/cells", "out/cells/f", "out/link"} {
		if uid := ownerOf(t, filepath.Join(workspace, name)); uid != 1234 {
			t.Errorf("%s belongs to %d", name, uid)
		}
	}
	if uid := ownerOf(t, outside); uid != 0 {
		t.Errorf("a link was followed: its target belongs to %d", uid)
	}
	if err := handBack(workspace, "none"); err != nil {
		t.Errorf("nothing was written: %v", err)
	}
}

func ownerOf(t *testing.T, name string) int {
	t.Helper()
	info, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}
