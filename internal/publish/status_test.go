package publish

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-github/v62/github"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/report"
)

// done is a page of a run with this verdict, under a gate that decided so.
func done(v bench.Verdict, gate string) report.Page {
	return report.Page{State: report.Done, Benchmark: &bench.Benchmark{Verdict: v, Gate: bench.Decision{Result: gate}}}
}

func TestSigns(t *testing.T) {
	t.Parallel()
	untrusted := done(bench.Improved, "passed")
	untrusted.Untrusted = true
	for _, c := range []struct {
		name              string
		page              report.Page
		state, conclusion string
	}{
		{"regressed", done(bench.Regressed, "failed"), "failure", "failure"},
		{"regressed, which fail-on leaves out", done(bench.Regressed, "passed"), "success", "neutral"},
		{"regressed, and nobody decided", done(bench.Regressed, ""), "failure", "failure"},
		{"improved", done(bench.Improved, "passed"), "success", "success"},
		{"improved, and below the floor", done(bench.Improved, "failed"), "failure", "failure"},
		{"equivalent", done(bench.Equivalent, "passed"), "success", "success"},
		{"no evidence", done(bench.NoEvidence, "passed"), "success", "neutral"},
		{"no evidence, in fail-on", done(bench.NoEvidence, "failed"), "failure", "failure"},
		{"underpowered", done(bench.Underpowered, "passed"), "success", "neutral"},
		{"underpowered, in fail-on", done(bench.Underpowered, "failed"), "failure", "failure"},
		{"invalid", done(bench.Invalid, "unmeasured"), "error", "failure"},
		{"invalid, which fail-on leaves out", done(bench.Invalid, "passed"), "error", "failure"},
		{"invalid, and below the floor", done(bench.Invalid, "failed"), "error", "failure"},
		{"an unmeasured gate", done(bench.NoEvidence, "unmeasured"), "error", "failure"},
		{"an unknown verdict passes for nothing", done("splendid", ""), "failure", "failure"},
		{"numbers of a fork", untrusted, "pending", noCheck},
		{"running", report.Page{State: report.Running}, "pending", ""},
		{"awaiting", report.Page{State: report.Awaiting}, "pending", noCheck},
		{"nothing to run", report.Page{State: report.NothingToRun}, "success", "neutral"},
		{"suite fault", report.Page{State: report.SuiteFault}, "failure", "failure"},
		{"our error", report.Page{State: report.Broken}, "error", "failure"},
		{"done without a benchmark", report.Page{State: report.Done}, "error", "failure"},
		{"no state", report.Page{}, "error", "failure"},
	} {
		if state, conclusion := signs(c.page); state != c.state || conclusion != c.conclusion {
			t.Errorf("%s: %s and %q, want %s and %q", c.name, state, conclusion, c.state, c.conclusion)
		}
	}
}

// statuses is a GitHub that takes statuses, and may lose its answers.
type statuses struct {
	errs []error
	got  []*github.RepoStatus
}

func (s *statuses) CreateStatus(_ context.Context, _, _, _ string, status *github.RepoStatus) (*github.RepoStatus, *github.Response, error) {
	s.got = append(s.got, status)
	if n := len(s.got); n <= len(s.errs) {
		return nil, nil, s.errs[n-1]
	}
	return status, nil, nil
}

func TestStatusIsWrittenAgainWhenTheAnswerWasLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := &lostError{"POST", context.DeadlineExceeded}
		for _, c := range []struct {
			errs  []error
			calls int
			ok    bool
		}{
			{nil, 1, true},
			{[]error{gone}, 2, true},
			{[]error{gone, gone}, 3, true},
			{[]error{gone, gone, gone}, 3, false},
			{[]error{&github.ErrorResponse{}}, 1, false},
		} {
			api := &statuses{errs: c.errs}
			err := setStatus(t.Context(), api, &delivery{page: report.Page{State: report.Running}, settings: Settings{StatusName: "assay"}})
			if len(api.got) != c.calls || (err == nil) != c.ok {
				t.Errorf("%v: %d calls and %v", c.errs, len(api.got), err)
			}
		}
	})
}
