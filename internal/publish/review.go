package publish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/google/go-github/v62/github"

	"github.com/assay-ci/assay/internal/report"
)

const (
	mostReviewComments = 20
	mostReviewText     = 4_000
	reviewMarker       = "<!-- assay-note "
)

// reviewAPI is what this place needs of GitHub.
type reviewAPI interface {
	ListFiles(ctx context.Context, owner, repo string, number int, opts *github.ListOptions) ([]*github.CommitFile, *github.Response, error)
	ListComments(ctx context.Context, owner, repo string, number int, opts *github.PullRequestListCommentsOptions) ([]*github.PullRequestComment, *github.Response, error)
	CreateReview(ctx context.Context, owner, repo string, number int, review *github.PullRequestReviewRequest) (*github.PullRequestReview, *github.Response, error)
}

var _ reviewAPI = (*github.PullRequestsService)(nil)

// writeReview is the place "review": notes on lines that the pull request's diff shows become one review's comments. They
// leave d.notes, so that what remains is annotated elsewhere.
func writeReview(ctx context.Context, d *delivery) error {
	if d.hub == nil || d.target.PR == 0 || d.settings.Annotations != "review" || len(d.notes) == 0 || d.local.Spans == nil {
		return nil
	}
	r := reviewer{d.hub.client.PullRequests, d.target, d.settings.Key, d.hub.identity(ctx)}
	rest, err := r.write(ctx, d.notes, d.local.Spans)
	if err != nil {
		return err
	}
	d.notes = rest
	return nil
}

// A reviewer writes notes at the lines of one pull request.
type reviewer struct {
	api    reviewAPI
	target Target
	key    string
	me     author
}

// write sends one review with the notes that the diff shows and that are not there yet, and returns those that it has no
// place for.
func (r reviewer) write(ctx context.Context, notes []Note, spans func(string) ([]Span, error)) ([]Note, error) {
	shown, err := r.shown(ctx, spans)
	if err != nil {
		return nil, err
	}
	there, err := r.there(ctx)
	if err != nil {
		return nil, err
	}
	var comments []*github.DraftReviewComment
	var rest []Note
	for _, n := range worstFirst(notes) {
		id := r.noteID(n)
		switch {
		case there[id]:
		case !holds(shown[n.Path], n.Line) || len(comments) == mostReviewComments:
			rest = append(rest, n)
		default:
			there[id] = true
			comments = append(comments, &github.DraftReviewComment{
				Path: github.String(n.Path), Line: github.Int(n.Line), Side: github.String("RIGHT"), Body: github.String(noteBody(n, id))})
		}
	}
	if len(comments) == 0 {
		return rest, nil
	}
	return rest, r.send(ctx, comments)
}

// send makes the review. When the answer is lost it looks whether the comments are there before it sends them again.
func (r reviewer) send(ctx context.Context, comments []*github.DraftReviewComment) error {
	review := &github.PullRequestReviewRequest{
		CommitID: &r.target.SHA,
		Body:     github.String(fmt.Sprintf("Assay has notes on %d of the changed lines.", len(comments))),
		Event:    github.String("COMMENT"),
		Comments: comments,
	}
	const tries = 3
	for n := 1; ; n++ {
		_, _, err := r.api.CreateReview(ctx, r.target.Owner, r.target.Repo, r.target.PR, review)
		if !unclear(err) || n == tries {
			return err
		}
		if err := sleep(ctx, settling<<n); err != nil {
			return err
		}
		there, err := r.there(ctx)
		if err != nil {
			return err
		}
		if there[idIn(comments[0].GetBody())] {
			return nil
		}
	}
}

// shown are the lines of each file that the diff holds on its right side. Files without a patch, big and binary ones,
// show none.
func (r reviewer) shown(ctx context.Context, spans func(string) ([]Span, error)) (map[string][]Span, error) {
	out := map[string][]Span{}
	page := &github.ListOptions{PerPage: 100}
	for {
		files, resp, err := r.api.ListFiles(ctx, r.target.Owner, r.target.Repo, r.target.PR, page)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if f.GetPatch() == "" {
				continue
			}
			if lines, err := spans(f.GetPatch()); err == nil { // a patch that cannot be read shows none either
				out[f.GetFilename()] = lines
			}
		}
		if resp.NextPage == 0 {
			return out, nil
		}
		page.Page = resp.NextPage
	}
}

// there are the ids of the notes that our comments hold. A foreign comment with our marker hides nothing.
func (r reviewer) there(ctx context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	page := &github.PullRequestListCommentsOptions{ListOptions: github.ListOptions{PerPage: 100}}
	for {
		list, resp, err := r.api.ListComments(ctx, r.target.Owner, r.target.Repo, r.target.PR, page)
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			if id := idIn(c.GetBody()); id != "" && c.GetUser().GetLogin() == r.me.login {
				out[id] = true
			}
		}
		if resp.NextPage == 0 {
			return out, nil
		}
		page.Page = resp.NextPage
	}
}

// noteID is a digest of key, place and text: the same note is not written twice.
func (r reviewer) noteID(n Note) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %q %q", r.key, n.Path, n.Line, n.Title, n.Text))
	return hex.EncodeToString(sum[:8])
}

// idIn is the id of the note that a comment holds, or "".
func idIn(body string) string {
	rest, ok := strings.CutPrefix(body, reviewMarker)
	id, _, closed := strings.Cut(rest, " -->")
	if !ok || !closed {
		return ""
	}
	return id
}

func noteBody(n Note, id string) string {
	body := reviewMarker + id + " -->\n"
	if title := report.Text(n.Title, mostAnnotationTitle); title != "" {
		body += "**" + title + "**\n\n"
	}
	return body + report.Text(n.Text, mostReviewText)
}

func holds(spans []Span, line int) bool {
	for _, s := range spans {
		if line >= s.From && line <= s.To {
			return true
		}
	}
	return false
}
