package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-github/v62/github"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/report"
)

// The one comment of a pull request is kept right by rounds: read all comments, decide on at most one text to write and on
// twins to remove, do it, wait, read again, until a round finds nothing to do. GitHub has no way to write only if nothing
// changed, so a second reader after each write is what keeps two publishers from undoing each other. It also covers every
// answer that was lost: the next round sees what took effect.
const (
	settling     = 2 * time.Second // between a write and the look at what came of it; doubled with each failed write
	mostRounds   = 12
	mostFailures = 3 // of writes
	lostLooks    = 3 // looks for a comment whose answer was lost, before it is sent again
)

// A comment is one of a pull request's conversation.
type comment struct {
	id     int64
	author string
	bot    bool
	body   string
	url    string
}

// commentAPI is the conversation of one pull request.
type commentAPI interface {
	list(ctx context.Context) ([]comment, error)                       // all pages
	write(ctx context.Context, id int64, body string) (comment, error) // id 0 makes a new one
	remove(ctx context.Context, id int64) error
}

// writeComment is the place "comment".
func writeComment(ctx context.Context, d *delivery) error {
	if d.hub == nil || d.target.PR == 0 || d.settings.Comment == "off" {
		return nil
	}
	k := keeper{
		api:    hubComments{d.hub.client.Issues, d.target},
		me:     d.hub.identity(ctx),
		head:   d.hub.headOf(ctx, d.target),
		body:   string(d.page.Comment(report.CommentBudget)),
		create: creates(d.settings.Comment, d.page),
		log:    d.hub.log,
	}
	k.mine, _ = report.ReadMarker(k.body)
	url, err := k.keep(ctx)
	if k.superseded {
		d.hub.log("the comment belongs to a newer run or a newer head, and stays as it is")
	}
	d.outcome.CommentURL = url
	d.superseded = k.sameCommit
	d.carried = d.carried || err == nil && url != ""
	return err
}

// creates tells whether a page is worth a new comment. A comment that is there is brought up to date in any case.
func creates(setting string, p report.Page) bool {
	var verdict bench.Verdict
	var gate string
	if p.State == report.Done && p.Benchmark != nil {
		verdict, gate = p.Benchmark.Verdict, p.Benchmark.Gate.Result
	}
	regressed := verdict == bench.Regressed || gate == "failed"
	switch setting {
	case "regressed":
		return regressed
	case "changes": // what moved, and what somebody must do something about
		return regressed || verdict == bench.Improved || verdict == bench.Invalid ||
			p.State == report.SuiteFault || p.State == report.Awaiting || p.State == report.Broken
	}
	return true
}

// An author is who a token writes as.
type author struct {
	login string
	bot   bool
}

// actions is who GITHUB_TOKEN writes as. That token may not ask who it is.
var actions = author{"github-actions[bot]", true}

// asideLimit bounds questions that we can do without an answer to.
const asideLimit = 20 * time.Second

// identity is who the token writes as.
func (h *Hub) identity(ctx context.Context) author {
	ctx, cancel := context.WithTimeout(ctx, asideLimit)
	defer cancel()
	user, _, err := h.client.Users.Get(ctx, "")
	if err != nil {
		return actions
	}
	return author{user.GetLogin(), user.GetType() == "Bot"}
}

// headOf is the head commit that the pull request has now, or "" when that cannot be read.
func (h *Hub) headOf(ctx context.Context, t Target) string {
	ctx, cancel := context.WithTimeout(ctx, asideLimit)
	defer cancel()
	pull, _, err := h.client.PullRequests.Get(ctx, t.Owner, t.Repo, t.PR)
	if err != nil {
		return ""
	}
	return pull.GetHead().GetSHA()
}

// A keeper keeps one comment.
type keeper struct {
	api    commentAPI
	me     author
	head   string // head commit of the pull request now; "" when not known
	body   string
	mine   report.Marker // of body
	create bool
	log    func(string)

	superseded bool              // a newer run's comment stands,
	sameCommit bool              // and that run measured the same commit
	known      map[int64]comment // written by us; a list may not show them yet
	gone       map[int64]bool
	unanswered int // looks since a new comment's answer was lost
}

// keep brings the comment up to date and returns its address, which is empty when there is none to keep.
func (k *keeper) keep(ctx context.Context) (string, error) {
	k.known, k.gone = map[int64]comment{}, map[int64]bool{}
	written, failures := "", 0
	// Once it is written, a look that fails is no loss.
	end := func(err error) (string, error) {
		if written == "" {
			return "", err
		}
		k.log(fmt.Sprintf("the comment is written, and could not be looked at again: %v", err))
		return written, nil
	}
	for range mostRounds {
		ours, err := k.ours(ctx)
		if err != nil {
			return end(err)
		}
		url, wrote, err := k.round(ctx, ours)
		wait := settling
		switch {
		case err == nil && !wrote:
			return url, nil
		case err == nil:
			written = cmp.Or(url, written)
		case unclear(err) || errors.Is(err, errVanished):
			failures++
			wait <<= failures
		default:
			return end(err)
		}
		if failures == mostFailures {
			return end(err)
		}
		if err := sleep(ctx, wait); err != nil {
			return end(err)
		}
	}
	return end(errors.New("others kept changing it"))
}

// errVanished is a comment that was removed between our look and our write.
var errVanished = errors.New("the comment was removed meanwhile")

// round makes what there is right, and tells whether it had to write.
func (k *keeper) round(ctx context.Context, ours []comment) (url string, wrote bool, err error) {
	if len(ours) == 0 {
		return k.first(ctx)
	}
	k.unanswered = 0
	k.superseded = slices.ContainsFunc(ours, k.newer)
	k.sameCommit = slices.ContainsFunc(ours, func(c comment) bool {
		theirs, _ := report.ReadMarker(c.body)
		return k.newer(c) && theirs.SHA == k.mine.SHA
	})
	kept := ours[0]
	if !k.superseded && !sameBody(kept.body, k.body) {
		c, err := k.api.write(ctx, kept.id, k.body)
		if k.create && statusOf(err) == http.StatusNotFound {
			k.gone[kept.id] = true // if it is a permission, a new comment is refused as well
			return "", true, errVanished
		}
		if err != nil {
			return "", true, err
		}
		kept, wrote = c, true
	}
	for _, twin := range ours[1:] {
		if k.newer(twin) {
			continue // its run puts things right
		}
		if err := k.api.remove(ctx, twin.id); err != nil && statusOf(err) != http.StatusNotFound {
			k.log(fmt.Sprintf("a second comment of ours stays, %s: %v", twin.url, err))
		}
		k.gone[twin.id], wrote = true, true
	}
	return kept.url, wrote, nil
}

// first makes the comment.
func (k *keeper) first(ctx context.Context) (url string, wrote bool, err error) {
	if !k.create {
		return "", false, nil
	}
	if k.unanswered > 0 && k.unanswered < lostLooks {
		k.unanswered++
		return "", true, nil
	}
	c, err := k.api.write(ctx, 0, k.body)
	if err != nil {
		k.unanswered = 1
		return "", true, err
	}
	k.unanswered = 0
	k.me = author{c.author, c.bot} // an app's token may not ask who it is, and now we know
	k.known[c.id] = c
	return c.url, true, nil
}

// ours are our comments with our key, oldest first. A foreign comment that holds our marker is not ours.
func (k *keeper) ours(ctx context.Context) ([]comment, error) {
	all, err := k.api.list(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range k.known {
		if !slices.ContainsFunc(all, func(o comment) bool { return o.id == c.id }) {
			all = append(all, c)
		}
	}
	all = slices.DeleteFunc(all, func(c comment) bool {
		m, ok := report.ReadMarker(c.body)
		return !ok || m.Key != k.mine.Key || c.author != k.me.login || c.bot != k.me.bot || k.gone[c.id]
	})
	slices.SortFunc(all, func(a, b comment) int { return cmp.Compare(a.id, b.id) })
	return all, nil
}

// newer tells whether a comment belongs to a newer run, or to a newer head of the pull request, than ours.
func (k *keeper) newer(c comment) bool {
	theirs, _ := report.ReadMarker(c.body)
	if k.head != "" && theirs.SHA != k.mine.SHA && (theirs.SHA == k.head || k.mine.SHA == k.head) {
		return theirs.SHA == k.head
	}
	return laterRun(theirs, k.mine)
}

// laterRun tells whether a belongs to a later run than b. GitHub numbers runs in the order in which they came to be, and the
// order in which they end says nothing. Only pages from outside of a run are told apart by the clock.
func laterRun(a, b report.Marker) bool {
	if a.Run == 0 || b.Run == 0 {
		return a.Started.After(b.Started)
	}
	return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Attempt, b.Attempt)) > 0
}

// sameBody compares texts as GitHub keeps them.
func sameBody(a, b string) bool {
	kept := func(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n")) }
	return kept(a) == kept(b)
}

// hubComments is a pull request's conversation on GitHub.
type hubComments struct {
	issues *github.IssuesService
	target Target
}

var _ commentAPI = hubComments{}

func (h hubComments) list(ctx context.Context) ([]comment, error) {
	var out []comment
	page := &github.IssueListCommentsOptions{ListOptions: github.ListOptions{PerPage: 100}}
	for {
		list, resp, err := h.issues.ListComments(ctx, h.target.Owner, h.target.Repo, h.target.PR, page)
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			out = append(out, plainComment(c))
		}
		if resp.NextPage == 0 {
			return out, nil
		}
		page.Page = resp.NextPage
	}
}

func (h hubComments) write(ctx context.Context, id int64, body string) (comment, error) {
	var c *github.IssueComment
	var err error
	if text := (&github.IssueComment{Body: &body}); id == 0 {
		c, _, err = h.issues.CreateComment(ctx, h.target.Owner, h.target.Repo, h.target.PR, text)
	} else {
		c, _, err = h.issues.EditComment(once(ctx), h.target.Owner, h.target.Repo, id, text)
	}
	if err != nil {
		return comment{}, err
	}
	return plainComment(c), nil
}

func (h hubComments) remove(ctx context.Context, id int64) error {
	_, err := h.issues.DeleteComment(ctx, h.target.Owner, h.target.Repo, id)
	return err
}

func plainComment(c *github.IssueComment) comment {
	return comment{c.GetID(), c.GetUser().GetLogin(), c.GetUser().GetType() == "Bot", c.GetBody(), c.GetHTMLURL()}
}
