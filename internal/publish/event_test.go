package publish

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/githubtest"
)

const (
	headSHA = "c0ffee1111111111111111111111111111111111"
	baseSHA = "ba5e000000000000000000000000000000000000"
)

// demo is the repository of the payloads below.
var demo = Repository{Owner: "octo", Name: "demo", ID: 1, DefaultBranch: "main"}

const (
	demoJSON = `"repository": {"id": 1, "full_name": "octo/demo", "default_branch": "main", "private": false, "created_at": 1557933565}`
	pullJSON = `"pull_request": {"number": 7, "draft": false,
		"head": {"sha": "` + headSHA + `", "ref": "topic", "repo": {"id": 2, "full_name": "mona/demo"}},
		"base": {"sha": "` + baseSHA + `", "ref": "main", "repo": {"id": 1, "full_name": "octo/demo"}}}`
	senderJSON = `"sender": {"login": "mona", "type": "User"}`
)

func TestReadEvent(t *testing.T) {
	t.Parallel()
	mona := Account{Login: "mona", Type: "User"}
	head := Revision{SHA: headSHA, Ref: "topic", Repo: "mona/demo", RepoID: 2}
	base := Revision{SHA: baseSHA, Ref: "main", Repo: "octo/demo", RepoID: 1}
	at := time.Date(2026, 11, 21, 6, 31, 0, 0, time.UTC)
	for _, c := range []struct {
		name, kind, payload string
		want                Event
	}{
		{
			"a pull request of a fork", "pull_request",
			`{"action": "synchronize", ` + pullJSON + `, ` + demoJSON + `, ` + senderJSON + `}`,
			Event{Kind: "pull_request", Action: "synchronize", PR: Pull{Number: 7}, Head: head, Base: base, Fork: true, Actor: mona},
		},
		{
			"a pull request whose fork is gone", "pull_request_target",
			`{"action": "closed", "pull_request": {"number": 7, "draft": true, "head": {"sha": "` + headSHA + `", "ref": "topic", "repo": null},
				"base": {"sha": "` + baseSHA + `", "ref": "main", "repo": {"id": 1, "full_name": "octo/demo"}}}, ` + demoJSON + `}`,
			Event{Kind: "pull_request_target", Action: "closed", PR: Pull{Number: 7, Draft: true}, Head: Revision{SHA: headSHA, Ref: "topic"}, Base: base, Fork: true},
		},
		{
			"a pull request of a branch", "pull_request",
			strings.ReplaceAll(`{"action": "opened", `+pullJSON+`, `+demoJSON+`}`, `{"id": 2, "full_name": "mona/demo"}`, `{"id": 1, "full_name": "octo/demo"}`),
			Event{
				Kind: "pull_request", Action: "opened", PR: Pull{Number: 7}, Base: base,
				Head: Revision{SHA: headSHA, Ref: "topic", Repo: "octo/demo", RepoID: 1},
			},
		},
		{
			"a push", "push",
			`{"ref": "refs/heads/main", "before": "` + baseSHA + `", "after": "` + headSHA + `", ` + demoJSON + `, ` + senderJSON + `}`,
			Event{
				Kind: "push", Actor: mona,
				Head: Revision{SHA: headSHA, Ref: "refs/heads/main", Repo: "octo/demo", RepoID: 1},
				Base: Revision{SHA: baseSHA, Ref: "refs/heads/main", Repo: "octo/demo", RepoID: 1},
			},
		},
		{
			"a comment on a pull request", "issue_comment",
			`{"action": "created", "issue": {"number": 7, "draft": true, "pull_request": {"url": "u"}},
				"comment": {"id": 9, "body": "hi", "user": {"login": "mona", "type": "User"}, "created_at": "2026-11-21T06:31:00Z", "updated_at": "2026-11-21T06:31:00Z"}, ` + demoJSON + `}`,
			Event{
				Kind: "issue_comment", Action: "created", PR: Pull{Number: 7, Draft: true},
				Comment: Comment{ID: 9, Body: "hi", Author: mona, Created: at, Updated: at},
			},
		},
		{
			"a comment of nobody on an issue", "issue_comment",
			`{"action": "edited", "issue": {"number": 8},
				"comment": {"id": 9, "body": "", "user": null, "created_at": "2026-11-21T06:31:00Z", "updated_at": "2026-11-21T07:31:00+01:00"}, ` + demoJSON + `}`,
			Event{Kind: "issue_comment", Action: "edited", Comment: Comment{ID: 9, Created: at, Updated: at}},
		},
		{
			"a review without text", "pull_request_review",
			`{"action": "submitted", "review": {"id": 5, "body": null, "commit_id": "` + headSHA + `", "user": {"login": "app[bot]", "type": "Bot"}, "submitted_at": "2026-11-21T06:31:00Z"}, ` + pullJSON + `, ` + demoJSON + `}`,
			Event{
				Kind: "pull_request_review", Action: "submitted", PR: Pull{Number: 7}, Head: head, Base: base, Fork: true,
				Review: Review{ID: 5, CommitID: headSHA, Author: Account{Login: "app[bot]", Type: "Bot"}, Submitted: at},
			},
		},
		{
			"a run of a fork", "workflow_run",
			`{"action": "completed", "workflow_run": {"id": 30, "event": "pull_request", "head_sha": "` + headSHA + `", "head_branch": "topic", "path": ".github/workflows/assay.yml",
				"conclusion": "success", "run_attempt": 2, "head_repository": {"id": 2, "full_name": "mona/demo"}, "pull_requests": []}, ` + demoJSON + `}`,
			Event{
				Kind: "workflow_run", Action: "completed", Fork: true,
				Run: WorkflowRun{ID: 30, Event: "pull_request", Head: head, Path: ".github/workflows/assay.yml", Conclusion: "success", Attempt: 2},
			},
		},
		{
			"a run that has not ended", "workflow_run",
			`{"action": "requested", "workflow_run": {"id": 30, "event": "push", "head_sha": "` + headSHA + `", "head_branch": null, "conclusion": null, "run_attempt": 1, "head_repository": {"id": 1, "full_name": "octo/demo"}}, ` + demoJSON + `}`,
			Event{Kind: "workflow_run", Action: "requested", Run: WorkflowRun{ID: 30, Event: "push", Head: Revision{SHA: headSHA, Repo: "octo/demo", RepoID: 1}, Attempt: 1}},
		},
		{
			"a form", "workflow_dispatch", `{"inputs": {"ref": "main", "trials": 5, "fresh": true, "case": null}, ` + demoJSON + `}`,
			Event{Kind: "workflow_dispatch", Inputs: map[string]string{"ref": "main", "trials": "5", "fresh": "true"}},
		},
		{"the clock", "schedule", `{"schedule": "23 2 * * *", ` + demoJSON + `}`, Event{Kind: "schedule"}},
		{"an event that we have no use for", "watch", `{"action": "started", "pull_request": {}, ` + demoJSON + `}`, Event{Kind: "watch", Action: "started"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := ReadEvent(c.kind, []byte(c.payload))
			if err != nil {
				t.Fatal(err)
			}
			c.want.Repository = demo
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the event is not as expected (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadEventNamesTheField(t *testing.T) {
	t.Parallel()
	comment := `{"issue": {"number": 7, "pull_request": {}}, "comment": {"id": 9, "body": "", "created_at": "2026-11-21T06:31:00Z", "updated_at": "2026-11-21T06:31:00Z"}, ` + demoJSON + `}`
	pull := `{` + pullJSON + `, ` + demoJSON + `}`
	for _, c := range []struct{ kind, payload, old, new, want string }{
		{"push", ``, ``, ``, "event push: the payload is empty"},
		{"push", `{}`, ``, ``, "event push: repository is missing"},
		{"push", `[1]`, ``, ``, "event push: json: cannot unmarshal array"},
		{"schedule", `{"action": 1}`, ``, ``, "event schedule: action is a number"},
		{"schedule", `{"sender": {"login": "../user"}}`, ``, ``, "event schedule: sender.login is not the name of an account"},
		{"workflow_dispatch", `{"inputs": {"x": [1]}}`, ``, ``, "event workflow_dispatch: inputs.x is neither a text"},
		{"pull_request", pull, `"number": 7`, `"number": "7"`, "pull_request.number is a string"},
		{"pull_request", pull, `"number": 7`, `"number": 0`, "pull_request.number is missing"},
		{"pull_request", pull, headSHA, `c0ffee1`, "pull_request.head.sha is not a commit of 40 hex digits"},
		{"pull_request", pull, `"ref": "main"`, `"ref": null`, "pull_request.base.ref is missing"},
		{"pull_request", pull, `mona/demo`, `mona/demo/../x`, "pull_request.head.repo.full_name is not owner/name"},
		{"pull_request", pull, `"id": 2, `, ``, "pull_request.head.repo.id is missing"},
		{"pull_request", pull, `"id": 1, "full_name": "octo/demo", "d`, `"full_name": "octo/demo", "d`, "repository.id is missing"},
		{"issue_comment", comment, `"number": 7`, `"no": 7`, "issue.number is missing"},
		{"issue_comment", comment, `"body": ""`, `"body": {}`, "comment.body is a object"},
		{"issue_comment", comment, `"body": ""`, `"body": null`, "comment.body is missing"},
		{"issue_comment", comment, `"created_at"`, `"at"`, "comment.created_at is missing"},
		{"issue_comment", comment, `2026-11-21T`, `yesterday `, "comment.created_at is not a time"},
		{"pull_request_review", pull, ``, ``, "review is missing"},
		{"workflow_run", pull, ``, ``, "workflow_run is missing"},
	} {
		payload := c.payload
		if c.old != "" {
			if !strings.Contains(payload, c.old) {
				t.Fatalf("the payload has no %s", c.old)
			}
			payload = strings.Replace(payload, c.old, c.new, 1)
		}
		if _, err := ReadEvent(c.kind, []byte(payload)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %q for %q: got %v, want %s", c.kind, c.new, c.old, err, c.want)
		}
	}
}

func TestReadEventRefusesFloods(t *testing.T) {
	t.Parallel()
	if _, err := ReadEvent("push", make([]byte, 25<<20+1)); err == nil || !strings.Contains(err.Error(), "26214401 bytes") {
		t.Errorf("got %v", err)
	}
}

// TestReadEventOfGitHub reads GitHub's own examples: all of them can be read, and what matters in the ones named here is
// found.
func TestReadEventOfGitHub(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for name, payload := range githubtest.Webhooks(t) {
		kind, _, _ := strings.Cut(name, "-")
		e, err := ReadEvent(kind, payload)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got[name] = outline(e)
	}
	for name, want := range map[string]string{
		"issue_comment-created":           "created Codertocat/Hello-World comment 492700400 by Codertocat, 54 bytes, edited false from Codertocat (User)",
		"issue_comment-edited":            "edited Codertocat/Hello-World comment 492700400 by Codertocat, 49 bytes, edited true from Codertocat (User)",
		"pull_request-opened":             "opened Codertocat/Hello-World #2 ec26c3e changes from Codertocat (User)",
		"pull_request-synchronize":        "synchronize Codertocat/Hello-World #2 ec26c3e changes from Codertocat (User)",
		"pull_request-converted_to_draft": "converted_to_draft Codertocat/Hello-World #2 draft ec26c3e changes from Codertocat (User)",
		"pull_request_review-submitted":   "submitted Codertocat/Hello-World #2 ec26c3e changes review 237895671 by Codertocat of ec26c3e from Codertocat (User)",
		"push":                            "Codertocat/Hello-World 6113728 refs/tags/simple-tag from Codertocat (User)",
		"push-2":                          "Codertocat/Hello-World 0000000 refs/tags/simple-tag from Codertocat (User)",
		"workflow_dispatch":               "octo-org/octo-repo from octocat (User)",
		"workflow_run-completed":          "completed Codertocat/Hello-World fork run 1589141559 of 5779607 by workflow_dispatch,  from Codertocat (User)",
		"workflow_run-completed-2":        "completed octo-org/octo-repo run 289782451 of 3484a3f by repository_dispatch, success from Codertocat (User)",
	} {
		if diff := cmp.Diff(want, got[name]); diff != "" {
			t.Errorf("%s is not read as expected (-want +got):\n%s", name, diff)
		}
	}
}

func outline(e Event) string {
	words := []string{e.Action, e.Repository.Owner + "/" + e.Repository.Name}
	add := func(there bool, format string, args ...any) {
		if there {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(e.PR.Number > 0, "#%d", e.PR.Number)
	add(e.PR.Draft, "draft")
	add(e.Fork, "fork")
	add(e.Head.SHA != "", "%.7s %s", e.Head.SHA, e.Head.Ref)
	add(e.Comment.ID != 0, "comment %d by %s, %d bytes, edited %t", e.Comment.ID, e.Comment.Author.Login, len(e.Comment.Body), !e.Comment.Created.Equal(e.Comment.Updated))
	add(e.Review.ID != 0, "review %d by %s of %.7s", e.Review.ID, e.Review.Author.Login, e.Review.CommitID)
	add(e.Run.ID != 0, "run %d of %.7s by %s, %s", e.Run.ID, e.Run.Head.SHA, e.Run.Event, e.Run.Conclusion)
	add(len(e.Inputs) > 0, "%d inputs", len(e.Inputs))
	add(true, "from %s (%s)", e.Actor.Login, e.Actor.Type)
	return strings.TrimSpace(strings.Join(words, " "))
}

func FuzzReadEvent(f *testing.F) {
	for name, payload := range githubtest.Webhooks(f) {
		kind, _, _ := strings.Cut(name, "-")
		f.Add(kind, payload)
	}
	f.Add("schedule", []byte(`{"schedule": "23 2 * * *"}`))
	f.Add("issue_comment", []byte(`{"comment": {"created_at": "x"}}`))
	f.Add("workflow_dispatch", []byte(`{"inputs": {"a": 1e300}}`))
	sha := regexp.MustCompile(`^([0-9a-f]{40})?$`)
	word := regexp.MustCompile(`^[A-Za-z0-9._-]*(\[bot\])?$`)
	f.Fuzz(func(t *testing.T, kind string, payload []byte) {
		e, err := ReadEvent(kind, payload)
		if err != nil {
			if diff := cmp.Diff(Event{}, e); diff != "" {
				t.Errorf("an event came beside the error %v: %s", err, diff)
			}
			return
		}
		for _, s := range []string{e.Head.SHA, e.Base.SHA, e.Review.CommitID, e.Run.Head.SHA} {
			if !sha.MatchString(s) {
				t.Errorf("%q went through as a commit", s)
			}
		}
		for _, s := range []string{e.Repository.Owner, e.Repository.Name, e.Actor.Login, e.Comment.Author.Login, e.Review.Author.Login} {
			if !word.MatchString(s) {
				t.Errorf("%q went through as a part of an address", s)
			}
		}
		if (e.Repository.ID == 0) != (e.Repository.Name == "") {
			t.Errorf("half a repository: %+v", e.Repository)
		}
	})
}
