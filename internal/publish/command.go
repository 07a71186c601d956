package publish

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-github/v62/github"
)

// The limits of a command: a line longer than these is not what a person types to start a paid run.
const (
	maxCommand = 1024 // bytes of the line
	maxCases   = 20
	maxTrials  = 10
)

// A Command is a line that asks for a run.
type Command struct {
	SHA    string   // 40 hex digits; empty when the line names no commit
	Cases  []string // patterns of path.Match; empty: all cases
	Trials int      // 1 to 10; 0: as the suite says
	Old    bool     // the commit need not be the newest of the pull request
}

// ReadCommand reads a command from a comment:
//
//	/eval <40-hex commit> [--case GLOB]... [--trials N] [--old]
//
// Only the first line counts, and it must begin with /eval; else ok is false, and the comment is not for us. A line that is
// meant for us but not understood is an error whose words hold no text of the line, so it may be shown anywhere.
func ReadCommand(body string) (c Command, ok bool, err error) {
	line, _, _ := strings.Cut(body, "\n")
	line = strings.TrimSuffix(line, "\r") // GitHub's form ends lines with both
	if word, _, _ := strings.Cut(line, " "); word != "/eval" {
		return Command{}, false, nil
	}
	if len(line) > maxCommand {
		return Command{}, true, fmt.Errorf("the line is longer than %d bytes", maxCommand)
	}
	if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
		return Command{}, true, errors.New("the line holds a character that is not plain ASCII")
	}
	c, err = readArguments(strings.Fields(line)[1:])
	if err != nil {
		return Command{}, true, err
	}
	return c, true, nil
}

// casePattern is what a pattern of case ids is made of, so that it needs no quoting anywhere.
var casePattern = regexp.MustCompile(`^[a-z0-9*?\[][a-z0-9._*?\[\]^-]{0,63}$`)

func readArguments(args []string) (Command, error) {
	var c Command
	if len(args) > 0 && !strings.HasPrefix(args[0], "--") {
		if !fullSHA.MatchString(args[0]) {
			return Command{}, errors.New("the commit must be written in full, 40 lower-case hex digits: a short one may be made to name another")
		}
		c.SHA, args = args[0], args[1:]
	}
	for len(args) > 0 {
		flag := args[0]
		args = args[1:]
		if flag == "--old" && !c.Old {
			c.Old = true
			continue
		}
		if flag != "--case" && (flag != "--trials" || c.Trials > 0) {
			return Command{}, errors.New("after the commit only --case GLOB, --trials N and --old are known, the last two once")
		}
		if len(args) == 0 {
			return Command{}, fmt.Errorf("%s needs a value behind a blank", flag)
		}
		if err := c.set(flag, args[0]); err != nil {
			return Command{}, err
		}
		args = args[1:]
	}
	return c, nil
}

// set takes the value of a flag.
func (c *Command) set(flag, value string) error {
	if flag == "--trials" {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > maxTrials || value != strconv.Itoa(n) {
			return fmt.Errorf("--trials takes a whole number from 1 to %d", maxTrials)
		}
		c.Trials = n
		return nil
	}
	if _, err := path.Match(value, ""); err != nil || !casePattern.MatchString(value) {
		return errors.New("--case takes the id of a case, in which * ? and [a-z] may stand for others")
	}
	if len(c.Cases) == maxCases {
		return fmt.Errorf("--case may be given %d times; use a pattern", maxCases)
	}
	c.Cases = append(c.Cases, value)
	return nil
}

// An Order is what came of a command.
type Order struct {
	Accepted bool
	Why      string // why not, in one line of our own words; empty when accepted
	SHA      string // the commit to run, 40 hex digits
	PR       int
	Cases    []string // patterns of path.Match; empty: all cases
	Trials   int      // 0: as the suite says
}

// Eval obeys a comment or a review that begins with /eval, or refuses. It is the one lock between a text that anybody can
// write and a job that holds keys, so it believes nothing but the event and what the API says of its author and of the
// pull request:
//
//   - the author is a person who may write to the repository;
//   - the comment is as it was first sent;
//   - the commit is the newest of the pull request, or with --old any of it; that of a review is the one that was reviewed.
//
// On acceptance the comment gets eyes and the commit a pending status named statusName that points to runURL. A refusal is answered in one line.
// Silence meets what is not for us: other comments, bots, issues. A reaction, an answer or a status that cannot be written
// changes nothing and goes to the log. An error means that the checks could not be made; then nothing is accepted.
func (h *Hub) Eval(ctx context.Context, e Event, statusName, runURL string) (Order, error) {
	by, ok := asked(e)
	if !ok {
		return Order{Why: "this event is no new comment or review on a pull request"}, nil
	}
	if by.author.Type != "User" {
		return Order{Why: "the author is not a person"}, nil
	}
	command, ok, fault := ReadCommand(by.body)
	if !ok {
		return Order{Why: "the first line does not begin with /eval"}, nil
	}
	order, err := h.judge(ctx, e, by, command, fault)
	if err != nil {
		return Order{}, fmt.Errorf("/eval: %w", err)
	}
	if !order.Accepted {
		h.react(ctx, e, "confused")
		h.answer(ctx, e.PR.Number, order.Why, order.SHA)
		return Order{Why: order.Why}, nil
	}
	h.react(ctx, e, "eyes")
	h.pending(ctx, order.SHA, statusName, runURL)
	return order, nil
}

// An evalRequest is the text that may hold a command, and its author.
type evalRequest struct {
	body   string
	author Account
	edited bool
	commit string // that of a review; empty for a comment
}

// asked is the request of an event: a new comment on a pull request, or a review of one.
func asked(e Event) (evalRequest, bool) {
	switch {
	case e.PR.Number == 0:
	case e.Kind == "issue_comment" && e.Action == "created":
		edited := e.Comment.Created.IsZero() || !e.Comment.Created.Equal(e.Comment.Updated)
		return evalRequest{body: e.Comment.Body, author: e.Comment.Author, edited: edited}, true
	case e.Kind == "pull_request_review" && e.Action == "submitted" && fullSHA.MatchString(e.Review.CommitID):
		return evalRequest{body: e.Review.Body, author: e.Review.Author, commit: e.Review.CommitID}, true
	}
	return evalRequest{}, false
}

// judge holds a command against the rules. A refused order may carry the commit that could be asked for instead.
func (h *Hub) judge(ctx context.Context, e Event, by evalRequest, c Command, fault error) (Order, error) {
	may, err := h.mayWrite(ctx, by.author.Login)
	switch {
	case err != nil:
		return Order{}, err
	case !may:
		return Order{Why: "Only accounts that may write to this repository can start a run."}, nil
	case by.edited:
		return Order{Why: "An edited comment starts nothing. Write a new one."}, nil
	case fault != nil:
		return Order{Why: "Not understood: " + fault.Error() + "."}, nil
	case by.commit != "" && e.Fork:
		return Order{Why: "A review starts no run for a fork. Use a comment."}, nil
	case by.commit != "" && c.SHA == "":
		c.SHA = by.commit
	case by.commit != "" && c.SHA != by.commit:
		return Order{Why: "This review is of another commit than the one named."}, nil
	}
	pull, _, err := h.client.PullRequests.Get(ctx, h.owner, h.repo, e.PR.Number)
	if err != nil {
		return Order{}, fmt.Errorf("read pull request %d: %w", e.PR.Number, err)
	}
	head := pull.GetHead().GetSHA()
	if pull.GetState() != "open" || !fullSHA.MatchString(head) {
		return Order{Why: "The pull request is not open."}, nil
	}
	if c.SHA == "" {
		return Order{Why: "Which commit? A run is bound to the one that you have read.", SHA: head}, nil
	}
	if c.SHA != head {
		if !c.Old {
			return Order{Why: "That commit is not the newest of this pull request. Read what is new, or add `--old`.", SHA: head}, nil
		}
		holds, err := h.holds(ctx, e.PR.Number, c.SHA)
		if err != nil {
			return Order{}, err
		}
		if !holds {
			return Order{Why: "That commit does not belong to this pull request.", SHA: head}, nil
		}
	}
	return Order{Accepted: true, SHA: c.SHA, PR: e.PR.Number, Cases: c.Cases, Trials: c.Trials}, nil
}

// mayWrite tells whether an account may write to the repository. The author_association of an event would also name
// members of the organization who may only read.
func (h *Hub) mayWrite(ctx context.Context, who string) (bool, error) {
	level, _, err := h.client.Repositories.GetPermissionLevel(ctx, h.owner, h.repo, who)
	if err != nil {
		return false, fmt.Errorf("read the permission of %s: %w", who, err)
	}
	return slices.Contains([]string{"write", "maintain", "admin"}, level.GetPermission()), nil
}

// holds tells whether a commit is one of the pull request's own. GitHub lists at most 250 of them.
func (h *Hub) holds(ctx context.Context, pull int, sha string) (bool, error) {
	page := &github.ListOptions{PerPage: 100}
	for {
		commits, answer, err := h.client.PullRequests.ListCommits(ctx, h.owner, h.repo, pull, page)
		if err != nil {
			return false, fmt.Errorf("list the commits of pull request %d: %w", pull, err)
		}
		if slices.ContainsFunc(commits, func(c *github.RepositoryCommit) bool { return c.GetSHA() == sha }) {
			return true, nil
		}
		if answer.NextPage == 0 {
			return false, nil
		}
		page.Page = answer.NextPage
	}
}

// Ended tells whoever asked by /eval that the run is over: a rocket when it measured something, else confusion. Other events
// are left alone.
func (h *Hub) Ended(ctx context.Context, e Event, measured bool) {
	content := "confused"
	if measured {
		content = "rocket"
	}
	h.react(ctx, e, content)
}

// react puts a reaction to the comment. GitHub has none for reviews.
func (h *Hub) react(ctx context.Context, e Event, content string) {
	if e.Kind != "issue_comment" {
		return
	}
	if _, _, err := h.client.Reactions.CreateIssueCommentReaction(ctx, h.owner, h.repo, e.Comment.ID, content); err != nil {
		h.log("the reaction to the comment could not be written: " + err.Error())
	}
}

// answer says why not, and gives the line to copy if there is a commit that could be asked for. The command never stands
// on the first line of what we write.
func (h *Hub) answer(ctx context.Context, pull int, why, sha string) {
	body := why
	if sha != "" {
		body += "\n\n```\n/eval " + sha + "\n```"
	}
	if _, _, err := h.client.Issues.CreateComment(ctx, h.owner, h.repo, pull, &github.IssueComment{Body: &body}); err != nil {
		h.log("the answer to the comment could not be written: " + err.Error())
	}
}

// pending marks the commit as waiting for its run, so that an earlier verdict does not stand in the meantime.
func (h *Hub) pending(ctx context.Context, sha, name, runURL string) {
	status := &github.RepoStatus{State: github.String("pending"), Context: &name, Description: github.String("a run was asked for by /eval")}
	if runURL != "" {
		status.TargetURL = &runURL
	}
	if _, _, err := h.client.Repositories.CreateStatus(ctx, h.owner, h.repo, sha, status); err != nil {
		h.log("the pending status could not be written: " + err.Error())
	}
}

// ResolvePull finds the open pull request of a workflow run, whose payload names none when the head is in a fork. Only one
// whose head is that very branch at that very commit counts; of several, to several bases, the oldest is taken. 0 means
// that there is none: it was closed, or pushed to again.
func ResolvePull(ctx context.Context, hub *Hub, headOwner, headBranch, sha string) (int, error) {
	// GitHub answers a filter that it does not understand with all pull requests, so nothing of the answer is taken on trust.
	list := &github.PullRequestListOptions{
		State: "open", Head: headOwner + ":" + headBranch, ListOptions: github.ListOptions{PerPage: 100},
	}
	pulls, _, err := hub.client.PullRequests.List(ctx, hub.owner, hub.repo, list)
	if err != nil {
		return 0, fmt.Errorf("find the pull request of %s: %w", sha, err)
	}
	oldest := 0
	for _, p := range pulls {
		head := p.GetHead()
		if p.GetState() != "open" || head.GetSHA() != sha || head.GetRef() != headBranch || head.GetRepo().GetOwner().GetLogin() != headOwner {
			continue
		}
		if oldest == 0 || p.GetNumber() < oldest {
			oldest = p.GetNumber()
		}
	}
	return oldest, nil
}
