package githubtest

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func (c *call) showPull(p Pull) object {
	side := func(b Branch) object {
		owner, _, _ := strings.Cut(b.Repo, "/")
		return object{
			"label": owner + ":" + b.Ref,
			"ref":   b.Ref,
			"sha":   b.SHA,
			"user":  showUser(known(User{Login: owner})),
			"repo":  showRepository(b.Repo),
		}
	}
	return object{
		"id":        number("pull " + strconv.Itoa(p.Number)),
		"number":    p.Number,
		"title":     p.Title,
		"state":     p.State,
		"draft":     p.Draft,
		"user":      showUser(p.Author),
		"head":      side(p.Head),
		"base":      side(p.Base),
		"url":       api("/pulls/%d", p.Number),
		"html_url":  web("/pull/%d", p.Number),
		"issue_url": api("/issues/%d", p.Number),
	}
}

// listPulls answers newest first. Its filter by head is OWNER:BRANCH; GitHub ignores one without an owner, and so tells of
// pull requests that were not asked for.
func listPulls(c *call) answer {
	state := cmp.Or(c.query.Get("state"), "open")
	head, base := c.query.Get("head"), c.query.Get("base")
	all := filter(c.state.pulls, func(p Pull) bool {
		owner, _, _ := strings.Cut(p.Head.Repo, "/")
		return (state == "all" || p.State == state) &&
			(!strings.Contains(head, ":") || head == owner+":"+p.Head.Ref) &&
			(base == "" || base == p.Base.Ref)
	})
	slices.SortStableFunc(all, func(a, b Pull) int { return cmp.Compare(b.Number, a.Number) })
	if c.query.Get("direction") == "asc" {
		slices.Reverse(all)
	}
	return paged(c, all, c.showPull)
}

func (c *call) pull() *Pull { return c.state.pull(int(c.id("pull_number"))) }

func getPull(c *call) answer {
	p := c.pull()
	if p == nil {
		return notFound()
	}
	shown := c.showPull(*p)
	shown["changed_files"] = len(p.Files)
	shown["commits"] = len(c.state.between(p.Base.SHA, p.Head.SHA))
	shown["comments"] = len(c.state.commentsOf(p.Number))
	return ok(shown)
}

func showFile(f File) object {
	added, removed := 0, 0
	for line := range strings.Lines(f.Patch) {
		switch line[0] {
		case '+':
			added++
		case '-':
			removed++
		}
	}
	shown := object{
		"filename":  f.Name,
		"status":    cmp.Or(f.Status, "modified"),
		"additions": added,
		"deletions": removed,
		"changes":   added + removed,
	}
	if f.Patch != "" {
		shown["patch"] = f.Patch
	}
	return shown
}

func listFiles(c *call) answer {
	p := c.pull()
	if p == nil {
		return notFound()
	}
	return paged(c, p.Files, showFile)
}

func listPullCommits(c *call) answer {
	p := c.pull()
	if p == nil {
		return notFound()
	}
	return paged(c, c.state.between(p.Base.SHA, p.Head.SHA), c.showCommit)
}

func showReview(r Review) object {
	return object{
		"id":               r.ID,
		"user":             showUser(r.Author),
		"state":            r.State,
		"body":             r.Body,
		"commit_id":        r.CommitID,
		"submitted_at":     r.Submitted,
		"html_url":         r.HTMLURL,
		"pull_request_url": api("/pulls/%d", r.Pull),
	}
}

func listReviews(c *call) answer {
	p := c.pull()
	if p == nil {
		return notFound()
	}
	return paged(c, filter(c.state.reviews, func(r Review) bool { return r.Pull == p.Number }), showReview)
}

func listReviewComments(c *call) answer {
	p := c.pull()
	if p == nil {
		return notFound()
	}
	of := filter(c.state.reviewComments, func(m ReviewComment) bool { return m.Pull == p.Number })
	return paged(c, of, func(m ReviewComment) object {
		shown := object{
			"id":                     m.ID,
			"pull_request_review_id": m.Review,
			"user":                   showUser(m.Author),
			"path":                   m.Path,
			"side":                   m.Side,
			"line":                   m.Line,
			"body":                   m.Body,
			"commit_id":              m.CommitID,
			"original_commit_id":     m.CommitID,
			"created_at":             m.Created,
			"updated_at":             m.Created,
			"html_url":               web("/pull/%d#discussion_r%d", m.Pull, m.ID),
		}
		if m.StartLine != 0 {
			shown["start_line"], shown["start_side"] = m.StartLine, m.Side
		}
		return shown
	})
}

// reviewStates are the states that the events of a new review lead to. Without an event it is not submitted.
var reviewStates = map[string]string{
	"": "PENDING", "COMMENT": "COMMENTED", "APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED",
}

// createReview makes a review with its comments, or none of it: one comment off the diff refuses all.
func createReview(c *call) answer {
	p := c.pull()
	if p == nil {
		return notFound()
	}
	in := decode[struct {
		CommitID string `json:"commit_id"`
		Event    string
		Body     string
		Comments []struct {
			Path, Body, Side string
			Line             int
			StartLine        int    `json:"start_line"`
			StartSide        string `json:"start_side"`
			Position         int
		}
	}](c)
	if in.Body == "" && len(in.Comments) == 0 && in.Event != "APPROVE" {
		return badReview("body can't be blank")
	}
	if len(in.Body) > maxComment {
		return badReview("body is too long (maximum is 65536 characters)")
	}
	in.CommitID = cmp.Or(in.CommitID, p.Head.SHA)
	if !slices.ContainsFunc(c.state.between(p.Base.SHA, p.Head.SHA), func(k Commit) bool { return k.SHA == in.CommitID }) {
		return badReview("commit_id is not part of the pull request")
	}
	for _, m := range in.Comments {
		side := cmp.Or(m.Side, "RIGHT")
		file := find(p.Files, func(f *File) bool { return f.Name == m.Path })
		switch {
		case m.Body == "":
			return badReview("body can't be blank")
		case len(m.Body) > maxComment:
			return badReview("body is too long (maximum is 65536 characters)")
		case m.Position != 0 || m.StartSide != "" && m.StartSide != side:
			return badReview("githubtest knows neither positions nor comments over both sides")
		case file == nil:
			return badReview("pull request review thread path could not be resolved")
		case !inHunk(file.Patch, side, cmp.Or(m.StartLine, m.Line), m.Line):
			return badReview("pull request review thread line must be part of the diff")
		}
	}
	r := c.state.addReview(Review{Pull: p.Number, Author: c.by, State: reviewStates[in.Event], Body: in.Body, CommitID: in.CommitID})
	for _, m := range in.Comments {
		c.state.addReviewComment(ReviewComment{
			Review: r.ID, Pull: p.Number, Author: c.by, Path: m.Path, Side: m.Side,
			StartLine: m.StartLine, Line: m.Line, Body: m.Body, CommitID: in.CommitID,
		})
	}
	return ok(showReview(r))
}

func badReview(what string) answer {
	return refuse(http.StatusUnprocessableEntity, "Unprocessable Entity", what)
}

var hunkHeader = regexp.MustCompile(`^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@`)

// inHunk says whether one hunk of the patch holds all lines from first to last on that side.
func inHunk(patch, side string, first, last int) bool {
	if first < 1 || last < first {
		return false
	}
	left, right, held := 0, 0, 0
	for line := range strings.Lines(patch) {
		if m := hunkHeader.FindStringSubmatch(line); m != nil {
			left, right, held = atoi(m[1]), atoi(m[2]), 0
			continue
		}
		at := right
		if side == "LEFT" {
			at = left
		}
		onSide := line[0] == ' ' || line[0] == '+' && side == "RIGHT" || line[0] == '-' && side == "LEFT"
		if onSide && first <= at && at <= last {
			if held++; held == last-first+1 {
				return true
			}
		}
		if line[0] == ' ' || line[0] == '-' {
			left++
		}
		if line[0] == ' ' || line[0] == '+' {
			right++
		}
	}
	return false
}

// atoi is for digits that a regular expression has found.
func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
