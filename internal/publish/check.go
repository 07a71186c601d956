package publish

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/go-github/v62/github"

	"github.com/assay-ci/assay/internal/report"
)

// What GitHub takes.
const (
	checkBudget         = 60_000 // bytes of summary and of text, each; 65,535 are refused
	annotationsAtOnce   = 50
	mostAnnotations     = 100 // 270 were seen to hang the page of a pull request
	mostAnnotationText  = 4_000
	mostAnnotationTitle = 200
)

// checkAPI is what this place needs of GitHub.
type checkAPI interface {
	ListCheckRunsForRef(ctx context.Context, owner, repo, ref string, opts *github.ListCheckRunsOptions) (*github.ListCheckRunsResults, *github.Response, error)
	CreateCheckRun(ctx context.Context, owner, repo string, opts github.CreateCheckRunOptions) (*github.CheckRun, *github.Response, error)
	UpdateCheckRun(ctx context.Context, owner, repo string, id int64, opts github.UpdateCheckRunOptions) (*github.CheckRun, *github.Response, error)
}

var _ checkAPI = (*github.ChecksService)(nil)

// writeCheck is the place "check".
func writeCheck(ctx context.Context, d *delivery) error {
	if d.hub == nil || d.target.SHA == "" || d.superseded || d.settings.Status != "both" && d.settings.Status != "check" {
		return nil
	}
	if _, conclusion := signs(d.page); conclusion == noCheck {
		return nil
	}
	c := newChecker(d.hub.client.Checks, d)
	run, err := c.write(ctx)
	if err != nil {
		return err
	}
	d.outcome.CheckURL = run.GetHTMLURL()
	d.carried = true
	if !c.superseded {
		d.check = &c
	}
	return nil
}

// A checker keeps one check run of a commit.
type checker struct {
	api             checkAPI
	owner, repo, at string // at is the commit
	id              checkID
	update          github.UpdateCheckRunOptions // everything but annotations
	annotations     []*github.CheckRunAnnotation
	run             *github.CheckRun // as GitHub showed it last
	superseded      bool             // a newer run's check run stands
}

func newChecker(api checkAPI, d *delivery) checker {
	c := checker{api: api, owner: d.target.Owner, repo: d.target.Repo, at: d.target.SHA, annotations: annotations(d.notes)}
	c.id = checkID{d.settings.Key, d.target.Run, d.target.Attempt, digest(c.annotations)}
	title, summary, text := d.page.Check(checkBudget)
	c.update = github.UpdateCheckRunOptions{
		Name:       d.settings.StatusName,
		ExternalID: github.String(c.id.String()),
		Status:     github.String("in_progress"),
		Output:     &github.CheckRunOutput{Title: &title, Summary: github.String(string(summary)), Text: github.String(string(text))},
	}
	if address := cmp.Or(d.target.RunURL, d.outcome.CommentURL); address != "" {
		c.update.DetailsURL = &address
	}
	if _, conclusion := signs(d.page); conclusion != "" {
		c.update.Status = github.String("completed")
		c.update.Conclusion = &conclusion
		c.update.CompletedAt = &github.Timestamp{Time: d.hub.now().UTC()}
	}
	return c
}

// write makes or updates the check run with its conclusion. Annotations follow, so that nothing that happens to them can
// lose the verdict.
func (c *checker) write(ctx context.Context) (*github.CheckRun, error) {
	found, err := c.find(ctx)
	if err != nil {
		return nil, err
	}
	if found != nil {
		old, _ := parseCheckID(found.GetExternalID())
		if old.laterThan(c.id) {
			c.superseded = true
			return found, nil
		}
		if old.digest == c.id.digest || found.GetOutput().GetAnnotationsCount() == 0 {
			c.run, _, err = c.api.UpdateCheckRun(ctx, c.owner, c.repo, found.GetID(), c.update)
			return c.run, err
		} // annotations cannot be taken back, so others need another check run; GitHub shows the newest of a name
	}
	return c.create(ctx)
}

// create makes the check run. When the answer is lost it looks, and makes it again if there is none.
func (c *checker) create(ctx context.Context) (*github.CheckRun, error) {
	u := c.update
	create := github.CreateCheckRunOptions{Name: u.Name, HeadSHA: c.at, DetailsURL: u.DetailsURL, ExternalID: u.ExternalID,
		Status: u.Status, Conclusion: u.Conclusion, CompletedAt: u.CompletedAt, Output: u.Output}
	const tries = 3
	for n := 1; ; n++ {
		run, _, err := c.api.CreateCheckRun(ctx, c.owner, c.repo, create)
		if !unclear(err) || n == tries {
			c.run = run
			return run, err
		}
		if err := sleep(ctx, settling<<n); err != nil {
			return nil, err
		}
		found, err := c.find(ctx)
		if err != nil {
			return nil, err
		}
		if found.GetExternalID() == c.id.String() {
			c.run = found
			return found, nil
		}
	}
}

// find is our newest check run of the commit, or nil.
func (c *checker) find(ctx context.Context) (*github.CheckRun, error) {
	var newest *github.CheckRun
	options := &github.ListCheckRunsOptions{CheckName: &c.update.Name, Filter: github.String("all"), ListOptions: github.ListOptions{PerPage: 100}}
	for {
		list, resp, err := c.api.ListCheckRunsForRef(ctx, c.owner, c.repo, c.at, options)
		if err != nil {
			return nil, err
		}
		for _, run := range list.CheckRuns {
			id, ok := parseCheckID(run.GetExternalID())
			if ok && id.key == c.id.key && run.GetName() == c.update.Name && run.GetID() > newest.GetID() {
				newest = run
			}
		}
		if resp.NextPage == 0 {
			return newest, nil
		}
		options.Page = resp.NextPage
	}
}

// annotate sends the annotations that the check run does not hold yet, 50 a request. GitHub adds to those that are there,
// so after an answer that was lost it asks how many arrived.
func (c *checker) annotate(ctx context.Context) error {
	failures := 0
	for {
		have := c.run.GetOutput().GetAnnotationsCount()
		if have >= len(c.annotations) {
			return nil
		}
		u, output := c.update, *c.update.Output
		output.Annotations = c.annotations[have:min(have+annotationsAtOnce, len(c.annotations))]
		u.Output = &output
		run, _, err := c.api.UpdateCheckRun(once(ctx), c.owner, c.repo, c.run.GetID(), u)
		switch {
		case err == nil && run.GetOutput().GetAnnotationsCount() > have:
			c.run = run
			continue
		case err != nil && !unclear(err):
			return err
		}
		if failures++; failures == mostFailures {
			return cmp.Or(err, fmt.Errorf("the check run stays at %d of %d annotations", have, len(c.annotations)))
		}
		if err := sleep(ctx, settling<<failures); err != nil {
			return err
		}
		found, err := c.find(ctx)
		if err != nil {
			return err
		}
		if found.GetID() == c.run.GetID() {
			c.run = found
		}
	}
}

// annotations are the notes as GitHub's check runs take them, worst first.
func annotations(notes []Note) []*github.CheckRunAnnotation {
	var out []*github.CheckRunAnnotation
	for _, n := range worstFirst(notes) {
		if n.Path == "" || len(out) == mostAnnotations {
			continue
		}
		a := &github.CheckRunAnnotation{
			Path:            github.String(n.Path),
			StartLine:       github.Int(max(n.Line, 1)),
			EndLine:         github.Int(max(n.EndLine, n.Line, 1)),
			AnnotationLevel: github.String(level(n.Level)),
			Message:         github.String(cmp.Or(report.Text(n.Text, mostAnnotationText), "no text")),
		}
		if title := report.Text(n.Title, mostAnnotationTitle); title != "" {
			a.Title = &title
		}
		out = append(out, a)
	}
	return out
}

// A checkID is the external id of a check run: by it a later run finds the check run again, an older one leaves it alone,
// and nobody sends the same annotations twice.
type checkID struct {
	key     string
	run     int64
	attempt int
	digest  string // of the annotations
}

// String is assay:KEY:RUN:ATTEMPT:DIGEST.
func (id checkID) String() string {
	return fmt.Sprintf("assay:%s:%d:%d:%s", id.key, id.run, id.attempt, id.digest)
}

func parseCheckID(s string) (checkID, bool) {
	parts := strings.Split(s, ":")
	if len(parts) < 5 || parts[0] != "assay" {
		return checkID{}, false
	}
	n := len(parts)
	run, err := strconv.ParseInt(parts[n-3], 10, 64)
	if err != nil {
		return checkID{}, false
	}
	attempt, err := strconv.Atoi(parts[n-2])
	if err != nil {
		return checkID{}, false
	}
	return checkID{strings.Join(parts[1:n-3], ":"), run, attempt, parts[n-1]}, true
}

func (id checkID) laterThan(other checkID) bool {
	return cmp.Or(cmp.Compare(id.run, other.run), cmp.Compare(id.attempt, other.attempt)) > 0
}

func digest(list []*github.CheckRunAnnotation) string {
	if len(list) == 0 {
		return "none"
	}
	data, err := json.Marshal(list)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6])
}
