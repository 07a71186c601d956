package githubtest

import (
	"net/http"
	"slices"
	"time"
)

// maxComment is the longest body of a comment. Whether GitHub counts characters or bytes is not written down; bytes are the
// safe side.
const maxComment = 65536

func (c *call) showComment(m Comment) object {
	return object{
		"id":         m.ID,
		"user":       showUser(m.Author),
		"body":       m.Body,
		"created_at": m.Created,
		"updated_at": m.Updated,
		"url":        api("/issues/comments/%d", m.ID),
		"html_url":   m.HTMLURL,
		"issue_url":  api("/issues/%d", m.Issue),
	}
}

func (c *call) hasIssue(number int) bool {
	return c.state.pull(number) != nil ||
		slices.ContainsFunc(c.state.comments, func(m Comment) bool { return m.Issue == number })
}

func listComments(c *call) answer {
	issue := int(c.id("issue_number"))
	if !c.hasIssue(issue) {
		return notFound()
	}
	all := c.state.commentsOf(issue)
	if since, err := time.Parse(time.RFC3339, c.query.Get("since")); err == nil {
		all = filter(all, func(m Comment) bool { return !m.Updated.Before(since) })
	}
	return paged(c, all, c.showComment)
}

// commentBody checks the text of a comment.
func commentBody(c *call) (string, answer, bool) {
	in := decode[struct{ Body string }](c)
	switch {
	case in.Body == "":
		return "", invalid("IssueComment", "body", "body cannot be blank"), false
	case len(in.Body) > maxComment:
		return "", invalid("IssueComment", "body", "body is too long (maximum is 65536 characters)"), false
	}
	return in.Body, answer{}, true
}

func createComment(c *call) answer {
	issue := int(c.id("issue_number"))
	if !c.hasIssue(issue) {
		return notFound()
	}
	body, refusal, good := commentBody(c)
	if !good {
		return refusal
	}
	m := c.state.addComment(Comment{Issue: issue, Author: c.by, Body: body})
	a := created(c.showComment(m))
	a.header = http.Header{"Location": {api("/issues/comments/%d", m.ID)}}
	return a
}

func (c *call) comment() (int, bool) {
	id := c.id("comment_id")
	i := slices.IndexFunc(c.state.comments, func(m Comment) bool { return m.ID == id })
	return i, i >= 0
}

func getComment(c *call) answer {
	i, found := c.comment()
	if !found {
		return notFound()
	}
	return ok(c.showComment(c.state.comments[i]))
}

func editComment(c *call) answer {
	i, found := c.comment()
	if !found {
		return notFound()
	}
	body, refusal, good := commentBody(c)
	if !good {
		return refusal
	}
	m := c.state.comments[i]
	var id int64
	m.Body, m.Updated = body, time.Time{}
	c.state.mint(&id, &m.Updated)
	c.state.comments[i] = m
	return ok(c.showComment(m))
}

func deleteComment(c *call) answer {
	i, found := c.comment()
	if !found {
		return notFound()
	}
	c.state.comments = slices.Delete(c.state.comments, i, i+1)
	return answer{status: http.StatusNoContent}
}

func showReaction(r Reaction) object {
	return object{"id": r.ID, "user": showUser(r.Author), "content": r.Content}
}

func listReactions(c *call) answer {
	i, found := c.comment()
	if !found {
		return notFound()
	}
	content := c.query.Get("content")
	return paged(c, filter(c.state.reactions, func(r Reaction) bool {
		return r.Comment == c.state.comments[i].ID && (content == "" || r.Content == content)
	}), showReaction)
}

// createReaction makes a reaction once: the same one again is answered with 200 and the first.
func createReaction(c *call) answer {
	i, found := c.comment()
	if !found {
		return notFound()
	}
	r := Reaction{
		Comment: c.state.comments[i].ID,
		Content: decode[struct{ Content string }](c).Content,
		Author:  c.by,
	}
	if old := find(c.state.reactions, func(o *Reaction) bool {
		return o.Comment == r.Comment && o.Content == r.Content && o.Author == r.Author
	}); old != nil {
		return ok(showReaction(*old))
	}
	var at time.Time
	c.state.mint(&r.ID, &at)
	c.state.reactions = append(c.state.reactions, r)
	return created(showReaction(r))
}
