// Package publish brings a page to a pull request: comment, commit status, check run, annotations, job summary and
// artifact, one file and one row of [Places] each. It also reads what GitHub tells a job: the event that started it, a
// maintainer's /eval, and the results of earlier runs to compare with. Start at [Publish].
//
// Everything on GitHub is a copy. The results folder is complete before the first call, no failure here changes a verdict,
// and what could not be written is told as a [Loss].
package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/report"
)

// A Target is the commit and the pull request that a page belongs to.
type Target struct {
	Owner, Repo string
	PR          int    // 0: no pull request, so no comment and no review
	SHA         string // head commit of the pull request, 40 hex digits; never the merge commit
	Run         int64  // id of the workflow run
	Attempt     int
	Started     time.Time
	RunURL      string
}

// Settings say which places are written. Their words are those of action.yml.
type Settings struct {
	Comment     string // always, changes, regressed or off; the middle two suppress only the making of a new comment
	Key         string // keeps several comments on one pull request apart
	Status      string // both, status, check or off
	StatusName  string // context of the commit status and name of the check run
	Annotations string // check, review or off
	Summary     bool   // write the job summary
}

// A Note points at lines of a file of the repository.
type Note struct {
	Path          string // slash path from the repository's root
	Line, EndLine int    // from 1; EndLine may be 0
	Level         string // notice, warning or failure
	Title, Text   string // foreign text, not escaped
}

// A Span is a run of lines that a pull request's diff holds on its right side, both ends included.
type Span struct{ From, To int }

// Local are the places of the job itself, which need no permission.
type Local struct {
	Log     func(line string) // one line of the step's log, workflow commands included
	Summary func(page []byte) error
	Spans   func(patch string) ([]Span, error) // reads the patch field of a file of a pull request
}

// A Loss is a place that could not be written, in the words of the degraded output.
type Loss struct {
	Place string // comment, status, check, annotations, review, summary, artifact, baseline
	Why   string // 403, 404, 5xx, timeout, …; a word or a few
	Needs string // the permission line to add to the workflow, such as "pull-requests: write"; may be empty
}

// An Outcome is what came of publishing.
type Outcome struct {
	CommentURL, CheckURL string
	Lost                 []Loss
}

// A Place is where a page can be written.
type Place struct {
	Name  string
	Doc   string // one line
	Needs string // permission line of the workflow; empty when it needs none
	write func(context.Context, *delivery) error
}

// Places are all places, in the order in which they are written: each may tell the later ones what it could not take.
var Places = []Place{
	{"comment", "one comment on the pull request, kept up to date", "pull-requests: write", writeComment},
	{"status", "the commit status that a branch rule can require", "statuses: write", writeStatus},
	{"review", "review comments on lines that the pull request changes", "pull-requests: write", writeReview},
	{"check", "a check run with the report", "checks: write", writeCheck},
	{"annotations", "notes at lines of files: of the check run, or in the log", "checks: write", annotate},
	{"summary", "the summary of the job", "", writeSummary},
	{"log", "the report in the log, when no other place took it", "", writeLog},
}

// How long publishing may take, and how much of it one place.
const (
	publishLimit = 3 * time.Minute
	placeLimit   = 75 * time.Second
)

// A delivery is one page on its way through the places.
type delivery struct {
	hub      *Hub // nil: GitHub is left alone
	target   Target
	page     report.Page
	notes    []Note // that no place has taken yet
	settings Settings
	local    Local

	outcome    Outcome
	carried    bool     // a place has taken the whole page
	superseded bool     // a newer run has published for the same commit
	check      *checker // the check run that annotations go to; nil: none
}

// Publish writes the page to every place that the settings name, in the order of [Places]. It fills the page's marker. Its
// work is bounded in time, and it never fails: what could not be done is in the outcome. hub may be nil: then only the
// local places are written.
func Publish(ctx context.Context, hub *Hub, t Target, p report.Page, notes []Note, s Settings, l Local) Outcome {
	ctx, cancel := context.WithTimeout(ctx, publishLimit)
	defer cancel()
	s.Key = cmp.Or(s.Key, "assay")
	s.StatusName = cmp.Or(s.StatusName, "assay")
	if s.Annotations == "off" || p.State == report.Running { // what is annotated cannot be taken back
		notes = nil
	}
	p.Marker = report.Marker{Key: s.Key, SHA: t.SHA, Run: t.Run, Attempt: t.Attempt, Started: t.Started}
	d := &delivery{hub: hub, target: t, page: p, notes: notes, settings: s, local: l}
	for _, place := range Places {
		if err := d.write(ctx, place); err != nil {
			loss := lossOf(place, err)
			d.outcome.Lost = append(d.outcome.Lost, loss)
			l.Log(place.Name + ": " + noCommand(err.Error()))
		}
	}
	if lost := sentences(d.outcome.Lost); len(lost) > 0 {
		l.Log("::warning title=Assay could not write everything::" + escapeData(strings.Join(lost, "\n")))
	}
	return d.outcome
}

func (d *delivery) write(ctx context.Context, place Place) error {
	ctx, cancel := context.WithTimeout(ctx, placeLimit)
	defer cancel()
	return place.write(ctx, d)
}

// lossOf puts an error into the few words of a loss. A 404 on a write is a missing permission too, so both name what to add.
func lossOf(place Place, err error) Loss {
	loss := Loss{Place: place.Name}
	status := statusOf(err)
	switch {
	case limited(err), status == http.StatusTooManyRequests:
		loss.Why = "rate limit"
	case status == http.StatusForbidden, status == http.StatusNotFound:
		loss.Why, loss.Needs = strconv.Itoa(status), place.Needs
	case status != 0:
		loss.Why = strconv.Itoa(status)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errSlow):
		loss.Why = "timeout"
	case errors.Is(err, context.Canceled):
		loss.Why = "cancelled"
	case unclear(err), neverSent(err):
		loss.Why = "no answer"
	default:
		loss.Why = "failed"
	}
	return loss
}

// String is the loss in one line, with what to do about it.
func (l Loss) String() string {
	missed := "not written"
	if l.Place == "baseline" {
		missed = "not looked at"
	}
	if l.Needs == "" {
		return fmt.Sprintf("%s: %s (%s)", l.Place, missed, l.Why)
	}
	return fmt.Sprintf("%s: %s (%s); add `%s` to the permissions of the workflow", l.Place, missed, l.Why, l.Needs)
}

func sentences(losses []Loss) []string {
	var out []string
	for _, l := range losses {
		out = append(out, l.String())
	}
	return out
}
