package publish

import (
	"cmp"
	"context"

	"github.com/google/go-github/v62/github"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/report"
)

// statusAPI is what this place needs of GitHub.
type statusAPI interface {
	CreateStatus(ctx context.Context, owner, repo, ref string, status *github.RepoStatus) (*github.RepoStatus, *github.Response, error)
}

var _ statusAPI = (*github.RepositoriesService)(nil)

// writeStatus is the place "status". Of several statuses with one context GitHub takes the last, so one whose answer was
// lost is simply written again.
func writeStatus(ctx context.Context, d *delivery) error {
	if d.hub == nil || d.target.SHA == "" || d.superseded || d.settings.Status != "both" && d.settings.Status != "status" {
		return nil
	}
	return setStatus(ctx, d.hub.client.Repositories, d)
}

func setStatus(ctx context.Context, api statusAPI, d *delivery) error {
	state, _ := signs(d.page)
	description := d.page.Status()
	status := &github.RepoStatus{State: &state, Description: &description, Context: &d.settings.StatusName}
	if address := cmp.Or(d.outcome.CommentURL, d.target.RunURL); address != "" {
		status.TargetURL = &address
	}
	const tries = 3
	var err error
	for n := range tries {
		if n > 0 {
			if err := sleep(ctx, settling<<n); err != nil {
				return err
			}
		}
		_, _, err = api.CreateStatus(ctx, d.target.Owner, d.target.Repo, d.target.SHA, status)
		if !unclear(err) {
			break
		}
	}
	return err
}

// signs are the state of the commit status and the conclusion of the check run that a page stands for. The gate's
// decision comes first, so that a status never says other than the exit code; what it lets pass is told apart by the
// verdict. Conclusion "" leaves the check run in progress, "none" means that there is none to write.
//
// What was not measured is never green: a status that no run rewrites stays pending.
func signs(p report.Page) (state, conclusion string) {
	switch p.State {
	case report.Running:
		return "pending", ""
	case report.Awaiting:
		return "pending", noCheck
	case report.NothingToRun:
		return "success", "neutral"
	case report.SuiteFault:
		return "failure", "failure"
	}
	if p.State != report.Done || p.Benchmark == nil {
		return "error", "failure"
	}
	if p.Untrusted { // shown, and never gating: neither a pass nor a failure
		return "pending", noCheck
	}
	verdict := p.Benchmark.Verdict
	switch {
	case p.Benchmark.Gate.Result == "unmeasured", verdict == bench.Invalid:
		return "error", "failure"
	case p.Benchmark.Gate.Result != "passed":
		return "failure", "failure"
	case verdict == bench.Improved, verdict == bench.Equivalent:
		return "success", "success"
	}
	return "success", "neutral" // no evidence, underpowered, or a regression that fail-on leaves out
}

// noCheck is the conclusion of a page that has no check run.
const noCheck = "none"
