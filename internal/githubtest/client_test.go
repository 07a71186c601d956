package githubtest

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-github/v62/github"
)

// client is GitHub's usual Go client. What it sends must pass: it is the dialect that Assay speaks.
func client(t testing.TB, s *Server) *github.Client {
	t.Helper()
	c := github.NewClient(nil).WithAuthToken(Token)
	base, err := url.Parse(s.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	c.BaseURL = base
	return c
}

func TestGoGitHub(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := New(t)
	graph(s)
	s.AddFile("main", "evals/suite.yaml", []byte("name: x"))
	p := s.AddPull(Pull{Head: Branch{Ref: "feature/x"}, Files: []File{{Name: "a", Patch: patch}}})
	run := s.AddRun(Run{HeadSHA: id("9")})
	artifact := s.AddArtifact(Artifact{Run: run.ID, Name: "assay", Zip: []byte("PK")})
	release := s.AddRelease(Release{Tag: "v1/x", Assets: []Asset{{Name: "a", Data: []byte("asset")}}})
	c := client(t, s)
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}

	comparison, _, err := c.Repositories.CompareCommits(ctx, "octo", "demo", "main", "feature/side", nil)
	check("compare", err)
	if comparison.GetMergeBaseCommit().GetSHA() != id("b") {
		t.Errorf("merge base %s", comparison.GetMergeBaseCommit().GetSHA())
	}
	_, _, err = c.Repositories.GetCommit(ctx, "octo", "demo", "feature/side", nil)
	check("commit", err)
	file, _, _, err := c.Repositories.GetContents(ctx, "octo", "demo", "evals/suite.yaml", &github.RepositoryContentGetOptions{Ref: "main"})
	check("contents", err)
	if text, err := file.GetContent(); err != nil || text != "name: x" {
		t.Errorf("contents %q %v", text, err)
	}
	_, _, err = c.Repositories.GetReleaseByTag(ctx, "octo", "demo", "v1/x")
	check("release", err)
	asset, _, err := c.Repositories.DownloadReleaseAsset(ctx, "octo", "demo", release.Assets[0].ID, http.DefaultClient)
	check("asset", err)
	if data, err := io.ReadAll(asset); err != nil || string(data) != "asset" {
		t.Errorf("asset %q %v", data, err)
	}
	at, _, err := c.Actions.DownloadArtifact(ctx, "octo", "demo", artifact.ID, 0)
	check("artifact", err)
	if resp, err := http.Get(at.String()); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("blob %v %v", resp, err)
	}
	list, _, err := c.Actions.ListWorkflowRunArtifacts(ctx, "octo", "demo", run.ID, nil)
	check("artifacts", err)
	if len(list.Artifacts) != 1 || list.Artifacts[0].GetWorkflowRun().GetHeadSHA() != id("9") {
		t.Errorf("artifacts %v", list.Artifacts)
	}
	_, _, err = c.Checks.ListCheckRunsForRef(ctx, "octo", "demo", p.Head.SHA, &github.ListCheckRunsOptions{CheckName: github.String("assay"), Filter: github.String("all")})
	check("check runs", err)
	made, _, err := c.Checks.CreateCheckRun(ctx, "octo", "demo", github.CreateCheckRunOptions{
		Name: "assay", HeadSHA: p.Head.SHA, Status: github.String("in_progress"), StartedAt: &github.Timestamp{Time: time.Now()},
		Output: &github.CheckRunOutput{Title: github.String("t"), Summary: github.String("s")},
	})
	check("check run", err)
	_, _, err = c.Checks.UpdateCheckRun(ctx, "octo", "demo", made.GetID(), github.UpdateCheckRunOptions{Name: "assay", Conclusion: github.String("success")})
	check("check run", err)
	_, _, err = c.PullRequests.CreateReview(ctx, "octo", "demo", p.Number, &github.PullRequestReviewRequest{
		CommitID: github.String(p.Head.SHA), Event: github.String("COMMENT"),
		Comments: []*github.DraftReviewComment{{Path: github.String("a"), Line: github.Int(2), Side: github.String("RIGHT"), Body: github.String("x")}},
	})
	check("review", err)
	permission, _, err := c.Repositories.GetPermissionLevel(ctx, "octo", "demo", "ann")
	check("permission", err)
	if permission.GetPermission() != "read" {
		t.Errorf("permission %s", permission.GetPermission())
	}
}

// TestGoGitHubKnowsTheLimits holds the faults to be what a client takes them for.
func TestGoGitHubKnowsTheLimits(t *testing.T) {
	t.Parallel()
	var (
		primary   *github.RateLimitError
		secondary *github.AbuseRateLimitError
		other     *github.ErrorResponse
	)
	for name, test := range map[string]struct {
		fault Fault
		as    any
	}{
		"primary":   {RateLimited(time.Now().Add(time.Minute)), &primary},
		"secondary": {SecondaryLimit(time.Minute), &secondary},
		"forbidden": {Forbidden(), &other},
		"invalid":   {Invalid(), &other},
	} {
		s := comments(t)
		s.Fail(test.fault)
		_, _, err := client(t, s).Issues.ListComments(t.Context(), "octo", "demo", 1, nil)
		if !errors.As(err, test.as) {
			t.Errorf("%s: %T %v", name, err, err)
		}
	}
}

func BenchmarkListComments(b *testing.B) {
	s := comments(b)
	for range 99 {
		s.AddComment(Comment{Issue: 1, Body: "x"})
	}
	c := client(b, s)
	for b.Loop() {
		if _, _, err := c.Issues.ListComments(b.Context(), "octo", "demo", 1, &github.IssueListCommentsOptions{ListOptions: github.ListOptions{PerPage: 100}}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCreateComment(b *testing.B) {
	s := comments(b)
	c := client(b, s)
	for b.Loop() {
		if _, _, err := c.Issues.CreateComment(b.Context(), "octo", "demo", 1, &github.IssueComment{Body: github.String("x")}); err != nil {
			b.Fatal(err)
		}
	}
}
