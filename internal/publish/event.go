package publish

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxEvent is the largest payload that GitHub delivers, in bytes.
const maxEvent = 25 << 20

// An Event is what GitHub tells a job about its cause: the name of the event and its payload. What an event does not hold is
// zero. All texts are foreign; only what ends up in an address (owner, names, commits) has been checked for its form.
type Event struct {
	Kind       string // the name of the event, such as pull_request
	Action     string // such as opened, created or submitted; empty where the event has none
	Repository Repository
	PR         Pull     // also of comments and reviews on a pull request; its number is 0 if there is none
	Head, Base Revision // of a pull request; of a push: the commits after and before
	Fork       bool     // the head is in another repository, or its repository is gone. Of comments: not known, false
	Actor      Account  // who caused the event
	Comment    Comment  // of issue_comment
	Review     Review   // of pull_request_review
	Run        WorkflowRun
	Inputs     map[string]string // of workflow_dispatch
}

// A Repository on GitHub.
type Repository struct {
	Owner, Name   string
	ID            int64
	DefaultBranch string
	Private       bool
}

// A Pull is a pull request of the event's repository.
type Pull struct {
	Number int
	Draft  bool
}

// A Revision is a commit and where it comes from.
type Revision struct {
	SHA    string // 40 hex digits
	Ref    string // a branch without refs/heads/; of a push the whole ref
	Repo   string // owner/name; empty when the repository is gone
	RepoID int64
}

// An Account on GitHub.
type Account struct {
	Login string
	Type  string // User, Bot or Organization
}

// A Comment on an issue or a pull request.
type Comment struct {
	ID               int64
	Body             string
	Author           Account
	Created, Updated time.Time
}

// A Review of a pull request.
type Review struct {
	ID        int64
	Body      string
	CommitID  string // the commit that the reviewer saw
	Author    Account
	Submitted time.Time
}

// A WorkflowRun is the run whose end or start the event tells.
type WorkflowRun struct {
	ID         int64
	Event      string // what started that run
	Head       Revision
	Path       string // of the workflow's file
	Conclusion string // empty while it runs
	Attempt    int
}

// ReadEvent reads the payload of an event, the file at GITHUB_EVENT_PATH, that GITHUB_EVENT_NAME names. It is tolerant
// towards fields that it does not know and events that it has no use for (of these only Kind, and what else every event
// has, is set). A field that it needs and that is missing or has another type is an error that names it.
func ReadEvent(name string, payload []byte) (Event, error) {
	if len(payload) > maxEvent {
		return Event{}, fmt.Errorf("event %s: the payload has %d bytes, more than the %d that GitHub sends", name, len(payload), maxEvent)
	}
	var w wireEvent
	if err := json.Unmarshal(payload, &w); err != nil {
		return Event{}, eventError(name, payload, err)
	}
	r := eventReader{event: name}
	e := Event{Kind: name, Action: w.Action, Repository: r.repository(w.Repository), Actor: r.account("sender", w.Sender)}
	switch name {
	case "pull_request", "pull_request_target", "push", "issue_comment", "pull_request_review", "workflow_run":
		r.need("repository", w.Repository != nil)
	}
	switch name {
	case "pull_request", "pull_request_target":
		r.pull(&e, w.PullRequest)
	case "push":
		r.push(&e, w)
	case "issue_comment":
		r.comment(&e, w)
	case "pull_request_review":
		r.pull(&e, w.PullRequest)
		r.review(&e, w.Review)
	case "workflow_run":
		r.run(&e, w.WorkflowRun)
	case "workflow_dispatch", "workflow_call":
		e.Inputs = r.inputs(w.Inputs)
	}
	if r.err != nil {
		return Event{}, r.err
	}
	return e, nil
}

// eventError names the field of a payload that has the wrong type.
func eventError(name string, payload []byte, err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Errorf("event %s: %s is a %s", name, wrong.Field, wrong.Value)
	}
	if len(bytes.TrimSpace(payload)) == 0 {
		return fmt.Errorf("event %s: the payload is empty", name)
	}
	return fmt.Errorf("event %s: %w", name, err)
}

// wireEvent is a payload as GitHub writes it, as far as it is used here.
type wireEvent struct {
	Action      string          `json:"action"`
	Repository  *wireRepository `json:"repository"`
	Sender      *wireAccount    `json:"sender"`
	PullRequest *wirePull       `json:"pull_request"`
	Issue       *struct {
		Number      int `json:"number"`
		PullRequest *struct {
			URL string `json:"url"`
		} `json:"pull_request"`
		Draft bool `json:"draft"`
	} `json:"issue"`
	Comment *struct {
		ID      int64        `json:"id"`
		Body    *string      `json:"body"`
		User    *wireAccount `json:"user"`
		Created string       `json:"created_at"`
		Updated string       `json:"updated_at"`
	} `json:"comment"`
	Review      *wireReview    `json:"review"`
	WorkflowRun *wireRun       `json:"workflow_run"`
	Ref         string         `json:"ref"`
	Before      string         `json:"before"`
	After       string         `json:"after"`
	Inputs      map[string]any `json:"inputs"`
}

type wireRepository struct {
	ID            int64  `json:"id"`
	FullName      string `json:"full_name"`
	DefaultBranch string `json:"default_branch"`
	Private       bool   `json:"private"`
}

type wireAccount struct {
	Login string `json:"login"`
	Type  string `json:"type"`
}

type wirePull struct {
	Number int       `json:"number"`
	Draft  bool      `json:"draft"`
	Head   *wireSide `json:"head"`
	Base   *wireSide `json:"base"`
}

type wireSide struct {
	SHA  string          `json:"sha"`
	Ref  string          `json:"ref"`
	Repo *wireRepository `json:"repo"` // null when the repository is gone
}

type wireReview struct {
	ID        int64        `json:"id"`
	Body      *string      `json:"body"` // null for a review without text
	CommitID  string       `json:"commit_id"`
	User      *wireAccount `json:"user"`
	Submitted string       `json:"submitted_at"`
}

type wireRun struct {
	ID         int64           `json:"id"`
	Event      string          `json:"event"`
	HeadSHA    string          `json:"head_sha"`
	HeadBranch *string         `json:"head_branch"` // null for a run on a tag
	HeadRepo   *wireRepository `json:"head_repository"`
	Path       string          `json:"path"`
	Conclusion *string         `json:"conclusion"`
	Attempt    int             `json:"run_attempt"`
}

// An eventReader turns the wire form into an Event and keeps the first fault.
type eventReader struct {
	event string
	err   error
}

func (r *eventReader) fault(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("event %s: %s", r.event, what)
	}
}

// need notes a field as missing unless it is there, and tells whether it is.
func (r *eventReader) need(field string, there bool) bool {
	if !there {
		r.fault(field + " is missing")
	}
	return there
}

// The forms of what becomes part of an address. The login of an app ends in [bot].
var (
	fullSHA     = regexp.MustCompile(`^[0-9a-f]{40}$`)
	fullName    = regexp.MustCompile(`^[A-Za-z0-9_-]+/[A-Za-z0-9._-]+$`)
	accountName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\[bot\])?$`)
)

// form notes a field that is missing or has not the form it must have.
func (r *eventReader) form(field, value string, pattern *regexp.Regexp, what string) string {
	if r.need(field, value != "") && !pattern.MatchString(value) {
		r.fault(field + " is not " + what)
	}
	return value
}

func (r *eventReader) time(field, value string) time.Time {
	if !r.need(field, value != "") {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		r.fault(field + " is not a time")
	}
	return t
}

func (r *eventReader) sha(field, value string) string {
	return r.form(field, value, fullSHA, "a commit of 40 hex digits")
}

func (r *eventReader) repository(w *wireRepository) Repository {
	if w == nil {
		return Repository{}
	}
	owner, name, _ := strings.Cut(r.form("repository.full_name", w.FullName, fullName, "owner/name"), "/")
	r.need("repository.id", w.ID != 0)
	return Repository{Owner: owner, Name: name, ID: w.ID, DefaultBranch: w.DefaultBranch, Private: w.Private}
}

// account reads who did something; nobody is an account too: GitHub writes null for users that are gone.
func (r *eventReader) account(field string, w *wireAccount) Account {
	if w == nil {
		return Account{}
	}
	return Account{Login: r.form(field+".login", w.Login, accountName, "the name of an account"), Type: w.Type}
}

func (r *eventReader) pull(e *Event, w *wirePull) {
	if !r.need("pull_request", w != nil) {
		return
	}
	r.need("pull_request.number", w.Number > 0)
	e.PR = Pull{Number: w.Number, Draft: w.Draft}
	e.Head = r.side("pull_request.head", w.Head)
	e.Base = r.side("pull_request.base", w.Base)
	e.Fork = e.Head.RepoID != e.Repository.ID
}

func (r *eventReader) side(field string, w *wireSide) Revision {
	if !r.need(field, w != nil) {
		return Revision{}
	}
	rev := Revision{SHA: r.sha(field+".sha", w.SHA), Ref: w.Ref}
	r.need(field+".ref", w.Ref != "")
	r.home(&rev, field+".repo", w.Repo)
	return rev
}

// home sets the repository of a revision, if it still exists.
func (r *eventReader) home(rev *Revision, field string, w *wireRepository) {
	if w == nil {
		return
	}
	rev.Repo, rev.RepoID = r.form(field+".full_name", w.FullName, fullName, "owner/name"), w.ID
	r.need(field+".id", w.ID != 0)
}

// push reads a push. Making or deleting a branch has a side of 40 zeros, and so it is told.
func (r *eventReader) push(e *Event, w wireEvent) {
	repo := e.Repository.Owner + "/" + e.Repository.Name
	r.need("ref", w.Ref != "")
	e.Head = Revision{SHA: r.sha("after", w.After), Ref: w.Ref, Repo: repo, RepoID: e.Repository.ID}
	e.Base = Revision{SHA: r.sha("before", w.Before), Ref: w.Ref, Repo: repo, RepoID: e.Repository.ID}
}

func (r *eventReader) comment(e *Event, w wireEvent) {
	if !r.need("issue", w.Issue != nil) || !r.need("comment", w.Comment != nil) {
		return
	}
	r.need("issue.number", w.Issue.Number > 0)
	if w.Issue.PullRequest != nil {
		e.PR = Pull{Number: w.Issue.Number, Draft: w.Issue.Draft}
	}
	c := w.Comment
	r.need("comment.id", c.ID != 0)
	e.Comment = Comment{
		ID: c.ID, Author: r.account("comment.user", c.User),
		Created: r.time("comment.created_at", c.Created), Updated: r.time("comment.updated_at", c.Updated),
	}
	if r.need("comment.body", c.Body != nil) {
		e.Comment.Body = *c.Body
	}
}

func (r *eventReader) review(e *Event, w *wireReview) {
	if !r.need("review", w != nil) {
		return
	}
	r.need("review.id", w.ID != 0)
	e.Review = Review{
		ID: w.ID, CommitID: r.sha("review.commit_id", w.CommitID), Author: r.account("review.user", w.User),
		Submitted: r.time("review.submitted_at", w.Submitted),
	}
	if w.Body != nil {
		e.Review.Body = *w.Body
	}
}

func (r *eventReader) run(e *Event, w *wireRun) {
	if !r.need("workflow_run", w != nil) {
		return
	}
	r.need("workflow_run.id", w.ID != 0)
	r.need("workflow_run.event", w.Event != "")
	e.Run = WorkflowRun{ID: w.ID, Event: w.Event, Path: w.Path, Attempt: w.Attempt}
	e.Run.Head.SHA = r.sha("workflow_run.head_sha", w.HeadSHA)
	if w.HeadBranch != nil {
		e.Run.Head.Ref = *w.HeadBranch
	}
	r.home(&e.Run.Head, "workflow_run.head_repository", w.HeadRepo)
	if w.Conclusion != nil {
		e.Run.Conclusion = *w.Conclusion
	}
	e.Fork = e.Run.Head.RepoID != e.Repository.ID
}

// inputs are those of a form or of a call: texts, and what else a call may send, as text.
func (r *eventReader) inputs(w map[string]any) map[string]string {
	if len(w) == 0 {
		return nil
	}
	in := make(map[string]string, len(w))
	for name, v := range w {
		switch v := v.(type) {
		case nil:
		case string:
			in[name] = v
		case bool:
			in[name] = strconv.FormatBool(v)
		case float64:
			in[name] = strconv.FormatFloat(v, 'f', -1, 64)
		default:
			r.fault("inputs." + name + " is neither a text nor a number nor true or false")
		}
	}
	return in
}
