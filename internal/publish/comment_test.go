package publish

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-github/v62/github"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/githubtest"
	"github.com/assay-ci/assay/internal/report"
)

const (
	oldSHA = "0123456789abcdef0123456789abcdef01234567"
	newSHA = "89abcdef0123456789abcdef0123456789abcdef"
)

// bodyOf is the comment of a run.
func bodyOf(m report.Marker, text string) string {
	return string(report.Page{State: report.NothingToRun, Text: text, Marker: m}.Comment(report.CommentBudget))
}

func TestCreates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		page    report.Page
		always  bool
		changes bool
		regress bool
	}{
		{"regressed", done(bench.Regressed, "failed"), true, true, true},
		{"regressed, which fail-on leaves out", done(bench.Regressed, "passed"), true, true, true},
		{"improved", done(bench.Improved, "passed"), true, true, false},
		{"improved, and below the floor", done(bench.Improved, "failed"), true, true, true},
		{"invalid", done(bench.Invalid, "unmeasured"), true, true, false},
		{"equivalent", done(bench.Equivalent, "passed"), true, false, false},
		{"no evidence", done(bench.NoEvidence, "passed"), true, false, false},
		{"underpowered", done(bench.Underpowered, "passed"), true, false, false},
		{"running", report.Page{State: report.Running}, true, false, false},
		{"nothing to run", report.Page{State: report.NothingToRun}, true, false, false},
		{"awaiting", report.Page{State: report.Awaiting}, true, true, false},
		{"suite fault", report.Page{State: report.SuiteFault}, true, true, false},
		{"our error", report.Page{State: report.Broken}, true, true, false},
	} {
		got := []bool{creates("always", c.page), creates("changes", c.page), creates("regressed", c.page)}
		if diff := cmp.Diff([]bool{c.always, c.changes, c.regress}, got); diff != "" {
			t.Errorf("%s: always, changes, regressed (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestNewer(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC) }
	mine := report.Marker{Key: "assay", SHA: newSHA, Run: 20, Attempt: 2, Started: at(20)}
	for _, c := range []struct {
		name   string
		head   string
		theirs report.Marker
		want   bool
	}{
		{"the same run", "", mine, false},
		{"an older run", "", report.Marker{SHA: newSHA, Run: 10, Attempt: 1, Started: at(10)}, false},
		{"a newer run", "", report.Marker{SHA: newSHA, Run: 30, Attempt: 1, Started: at(30)}, true},
		{"an older attempt", "", report.Marker{SHA: newSHA, Run: 20, Attempt: 1, Started: at(10)}, false},
		{"a newer attempt", "", report.Marker{SHA: newSHA, Run: 20, Attempt: 3, Started: at(30)}, true},
		{"an older run whose job started later", "", report.Marker{SHA: newSHA, Run: 10, Attempt: 3, Started: at(30)}, false},
		{"a newer run that does not say when", "", report.Marker{SHA: newSHA, Run: 30, Attempt: 1}, true},
		{"a page from outside that does not say when", "", report.Marker{SHA: newSHA}, false},
		{"an earlier page from outside", "", report.Marker{SHA: newSHA, Started: at(10)}, false},
		{"a later page from outside", "", report.Marker{SHA: newSHA, Started: at(30)}, true},
		{"a newer run of an older head", newSHA, report.Marker{SHA: oldSHA, Run: 30, Attempt: 1, Started: at(30)}, false},
		{"an older run of a newer head", oldSHA, report.Marker{SHA: oldSHA, Run: 10, Attempt: 1, Started: at(10)}, true},
		{"a newer run, and neither is the head", "elsewhere", report.Marker{SHA: oldSHA, Run: 30, Attempt: 1, Started: at(30)}, true},
	} {
		k := keeper{mine: mine, head: c.head}
		c.theirs.Key = "assay"
		if got := k.newer(comment{body: bodyOf(c.theirs, "x")}); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

var notThere = &github.ErrorResponse{Response: &http.Response{StatusCode: http.StatusNotFound}}

// talk is a conversation without a server. Every call may be slow, so that publishers meet in every order.
type talk struct {
	mu       sync.Mutex
	comments []comment
	next     int64
	writes   int
	pause    func()
}

func (c *talk) list(context.Context) ([]comment, error) {
	c.pause()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.comments), nil
}

func (c *talk) write(_ context.Context, id int64, body string) (comment, error) {
	c.pause()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	if id == 0 {
		c.next++
		made := comment{c.next, actions.login, true, body, fmt.Sprint("url", c.next)}
		c.comments = append(c.comments, made)
		return made, nil
	}
	for i := range c.comments {
		if c.comments[i].id == id {
			c.comments[i].body = body
			return c.comments[i], nil
		}
	}
	return comment{}, notThere
}

func (c *talk) remove(_ context.Context, id int64) error {
	c.pause()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	n := len(c.comments)
	c.comments = slices.DeleteFunc(c.comments, func(o comment) bool { return o.id == id })
	if len(c.comments) == n {
		return notThere
	}
	return nil
}

// However publishers of one pull request meet, one comment is left, and it is that of the newest run. No call takes longer
// than half the time to settle: that is what the protocol promises, and all it can.
func TestPublishersMeet(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			var lock sync.Mutex
			random := func(limit time.Duration) time.Duration {
				lock.Lock()
				defer lock.Unlock()
				return time.Duration(rng.Int64N(int64(limit)))
			}
			conversation := &talk{pause: func() { time.Sleep(random(settling / 4)) }}
			for range rng.IntN(3) { // of earlier runs
				conversation.next++
				body := bodyOf(report.Marker{Key: "assay", Run: 1, Attempt: 1}, "earlier")
				conversation.comments = append(conversation.comments, comment{conversation.next, actions.login, true, body, ""})
			}
			publishers := 2 + rng.IntN(2)
			var all sync.WaitGroup
			for run := range publishers {
				k := &keeper{api: conversation, me: actions, create: true, log: func(string) {}}
				k.body = bodyOf(report.Marker{Key: "assay", SHA: newSHA, Run: int64(run + 10), Attempt: 1}, fmt.Sprint("run ", run))
				k.mine, _ = report.ReadMarker(k.body)
				delay := random(3 * settling)
				all.Go(func() {
					time.Sleep(delay)
					if _, err := k.keep(t.Context()); err != nil {
						t.Errorf("seed %d: %v", seed, err)
					}
				})
			}
			all.Wait()
			if n := len(conversation.comments); n != 1 {
				t.Fatalf("seed %d: %d comments are left", seed, n)
			}
			if body := conversation.comments[0].body; !strings.Contains(body, fmt.Sprint("run ", publishers-1)) {
				t.Errorf("seed %d: the text is that of another run: %.300s", seed, body)
			}
		})
	}
}

// commentsOnly is a scene where only the comment is written.
func commentsOnly(t *testing.T) *scene {
	s := newScene(t)
	s.settings = Settings{Comment: "always", Status: "off"}
	return s
}

// add puts a comment into the conversation.
func (s *scene) add(author, body string) githubtest.Comment {
	return s.server.AddComment(githubtest.Comment{Issue: s.pull.Number, Author: githubtest.User{Login: author}, Body: body})
}

// Our comment is found wherever it stands among others, and only one is made when it is not there.
func TestCommentIsFoundOnEveryPage(t *testing.T) {
	for _, n := range []int{1, 100, 101, 250} {
		for _, at := range []int{-1, 0, n - 1} { // -1: it is not there
			s := commentsOnly(t)
			for i := range n {
				if i == at {
					s.add(actions.login, bodyOf(report.Marker{Key: "assay", SHA: newSHA, Run: 99, Attempt: 1}, "mine"))
				} else {
					s.add("octocat", fmt.Sprint("talk ", i))
				}
			}
			got := s.publish(t, done(bench.Improved, "passed"))
			want := n
			if at < 0 {
				want++
			}
			improved := slices.DeleteFunc(s.bodies(), func(b string) bool { return !strings.Contains(b, "improved") })
			if len(got.outcome.Lost) > 0 || len(s.bodies()) != want || len(improved) != 1 {
				t.Errorf("%d comments, ours at %d: %d afterwards, %d of them ours; lost %v", n, at, len(s.bodies()), len(improved), got.outcome.Lost)
			}
		}
	}
}

func TestUpsert(t *testing.T) {
	mine := func(run int64, sha, text string) string {
		return bodyOf(report.Marker{Key: "assay", SHA: sha, Run: run, Attempt: 1}, text)
	}
	type given struct{ author, body string }
	const bot = "github-actions[bot]"
	for _, c := range []struct {
		name  string
		given []given
		fault []githubtest.Fault
		me    githubtest.User
		want  []string       // what each comment holds
		calls map[string]int // that wrote; nil: any
	}{
		{name: "a foreign comment with our marker stays as it is",
			given: []given{{"mallory", mine(999, newSHA, "forged")}}, want: []string{"forged", "improved"}},
		{name: "so does that of another bot",
			given: []given{{"other[bot]", mine(50, newSHA, "forged")}}, want: []string{"forged", "improved"}},
		{name: "a comment of ours with another key stays as it is",
			given: []given{{bot, bodyOf(report.Marker{Key: "nightly", SHA: newSHA, Run: 50}, "nightly")}}, want: []string{"nightly", "improved"}},
		{name: "our comment without a marker stays as it is",
			given: []given{{bot, "hello"}}, want: []string{"hello", "improved"}},
		{name: "a marker that is not in the first line is none",
			given: []given{{bot, "quoted\n" + mine(50, newSHA, "older")}}, want: []string{"older", "improved"}},
		{name: "an older run that died is overwritten",
			given: []given{{bot, mine(50, newSHA, "older")}}, want: []string{"improved"}},
		{name: "a newer run is not overwritten",
			given: []given{{bot, mine(999, newSHA, "newer")}}, want: []string{"newer"}},
		{name: "a newer run of an older head is",
			given: []given{{bot, mine(999, oldSHA, "outdated")}}, want: []string{"improved"}},
		{name: "of several the oldest is kept",
			given: []given{{bot, mine(50, newSHA, "one")}, {"octocat", "talk"}, {bot, mine(60, newSHA, "two")}, {bot, mine(55, newSHA, "three")}},
			want:  []string{"improved", "talk"}},
		{name: "a newer twin stays for its run to tidy",
			given: []given{{bot, mine(50, newSHA, "one")}, {bot, mine(999, newSHA, "newer")}, {bot, mine(60, newSHA, "two")}},
			want:  []string{"one", "newer"}},
		{name: "a comment that vanishes under our hands is made again",
			given: []given{{bot, mine(50, newSHA, "one")}}, fault: []githubtest.Fault{githubtest.NotFound().On("PATCH", "").For(1)},
			want: []string{"one", "improved"}},
		{name: "an answer that was lost makes no twin",
			fault: []githubtest.Fault{githubtest.AnswerLost().On("POST", "/comments$").For(1)}, want: []string{"improved"}},
		{name: "nor when the list is stale as well",
			fault: []githubtest.Fault{githubtest.AnswerLost().On("POST", "/comments$").For(1), githubtest.Fault{}.On("GET", "/comments$").For(1), githubtest.StaleList().On("GET", "/comments$").For(1)},
			want:  []string{"improved"}, calls: map[string]int{"POST /issues/*/comments": 1}},
		{name: "nor when the list stays stale for longer than we wait",
			fault: []githubtest.Fault{githubtest.AnswerLost().On("POST", "/comments$").For(1), githubtest.Fault{}.On("GET", "/comments$").For(1), githubtest.StaleList().On("GET", "/comments$").For(3)},
			want:  []string{"improved"}},
		{name: "a stale list after a comment makes no twin",
			fault: []githubtest.Fault{githubtest.Fault{}.On("GET", "/comments$").For(1), githubtest.StaleList().On("GET", "/comments$").For(1)},
			want:  []string{"improved"}, calls: map[string]int{"POST /issues/*/comments": 1}},
		{name: "a twin that may not be removed stays, and is no loss",
			given: []given{{bot, mine(50, newSHA, "one")}, {bot, mine(60, newSHA, "two")}}, fault: []githubtest.Fault{githubtest.Forbidden().On("DELETE", "")},
			want: []string{"improved", "two"}, calls: map[string]int{"PATCH /issues/comments/*": 1, "DELETE /issues/comments/*": 1}},
		{name: "a lost change is made again",
			given: []given{{bot, mine(50, newSHA, "one")}}, fault: []githubtest.Fault{githubtest.Refused().On("PATCH", "").For(2)},
			want: []string{"improved"}},
		{name: "an app that may not ask who it is finds its comment all the same",
			given: []given{{"our-app[bot]", mine(50, newSHA, "one")}}, me: githubtest.User{Login: "our-app[bot]", Type: "Bot"},
			want: []string{"improved"}},
		{name: "a person's token finds that person's comment",
			given: []given{{"hubot", mine(50, newSHA, "one")}, {bot, mine(50, newSHA, "bot")}}, me: githubtest.User{Login: "hubot", Type: "User"},
			want: []string{"improved", "bot"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := commentsOnly(t)
			if c.me.Login != "" {
				s.server.Identity = c.me
			}
			for _, g := range c.given {
				s.add(g.author, g.body)
			}
			for _, f := range c.fault {
				s.server.Fail(f)
			}
			got := s.publish(t, done(bench.Improved, "passed"))
			if len(got.outcome.Lost) > 0 {
				t.Errorf("lost %v: %q", got.outcome.Lost, got.log)
			}
			if diff := cmp.Diff(c.calls, s.written()); c.calls != nil && diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			bodies := s.bodies()
			if len(bodies) != len(c.want) {
				t.Fatalf("%d comments, want %d: %.200q", len(bodies), len(c.want), bodies)
			}
			for i, want := range c.want {
				if !strings.Contains(bodies[i], want) {
					t.Errorf("comment %d is %.300q, want %q", i, bodies[i], want)
				}
			}
		})
	}
}

// The settings keep a comment from being made, and never from being kept up to date.
func TestCommentSettings(t *testing.T) {
	for _, c := range []struct {
		setting string
		there   bool
		want    string // what our comment says afterwards; empty: there is none
	}{
		{"always", false, "equivalent"},
		{"changes", false, ""},
		{"changes", true, "equivalent"},
		{"regressed", false, ""},
		{"regressed", true, "equivalent"},
		{"off", false, ""},
		{"off", true, "older"},
	} {
		s := commentsOnly(t)
		s.settings.Comment = c.setting
		if c.there {
			s.add(actions.login, bodyOf(report.Marker{Key: "assay", SHA: newSHA, Run: 50, Attempt: 1}, "older"))
		}
		s.publish(t, done(bench.Equivalent, "passed"))
		bodies := s.bodies()
		if c.want == "" && len(bodies) > 0 || c.want != "" && (len(bodies) != 1 || !strings.Contains(bodies[0], c.want)) {
			t.Errorf("%s, there %t: %.200q, want %q", c.setting, c.there, bodies, c.want)
		}
	}
}

// A comment that was written is no loss, even when nobody can look at it again.
func TestWrittenIsNotLost(t *testing.T) {
	s := commentsOnly(t)
	s.server.Fail(githubtest.Fault{}.On("GET", "/comments$").For(1))
	s.server.Fail(githubtest.Down(502).On("GET", "/comments$"))
	got := s.publish(t, done(bench.Improved, "passed"))
	if len(got.outcome.Lost) > 0 || len(s.bodies()) != 1 || got.outcome.CommentURL == "" {
		t.Errorf("%d comments, outcome %+v", len(s.bodies()), got.outcome)
	}
}

// A 404 on a write is a missing permission, also when no new comment would be made.
func TestCommentThatMayNotBeChanged(t *testing.T) {
	for _, setting := range []string{"always", "regressed"} {
		s := commentsOnly(t)
		s.settings.Comment = setting
		s.add(actions.login, bodyOf(report.Marker{Key: "assay", SHA: newSHA, Run: 50, Attempt: 1}, "older"))
		s.server.Fail(githubtest.NotFound().On("PATCH", ""))
		s.server.Fail(githubtest.NotFound().On("POST", ""))
		got := s.publish(t, done(bench.Improved, "passed"))
		want := []Loss{{Place: "comment", Why: "404", Needs: "pull-requests: write"}}
		if diff := cmp.Diff(want, got.outcome.Lost); diff != "" {
			t.Errorf("%s (-want +got):\n%s", setting, diff)
		}
	}
}

// A run of an older head leaves the comment to the newer one, and says of its own commit what it measured.
func TestNewerHeadKeepsTheComment(t *testing.T) {
	s := newScene(t)
	s.server.AddCommit(githubtest.Commit{SHA: oldSHA})
	s.publish(t, done(bench.Improved, "passed"))
	older := s.ofRun(200)
	older.target.SHA = oldSHA
	got := older.publish(t, done(bench.Regressed, "failed"))
	statuses := s.server.Statuses(oldSHA)
	if len(got.outcome.Lost) > 0 || len(s.bodies()) != 1 || !strings.Contains(s.bodies()[0], "improved") || len(statuses) != 1 || statuses[0].State != "failure" {
		t.Errorf("lost %v, statuses %+v, comments %.200q", got.outcome.Lost, statuses, s.bodies())
	}
}

// Two runs publish at once, 500 times, on a server.
func TestTwoPublishersRace(t *testing.T) {
	races := 500
	if testing.Short() {
		races = 50
	}
	server := commentsOnly(t)
	var scenes []*scene
	for i := range races {
		s := *server
		s.pull = s.server.AddPull(githubtest.Pull{Head: githubtest.Branch{Ref: fmt.Sprint("b", i), SHA: newSHA}})
		s.target.PR = s.pull.Number
		scenes = append(scenes, &s)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	// The rate limiter starts a timer of no length before each call. When two goroutines of a bubble run such timers at the
	// same moment, the race detector of Go 1.26 crashes: they share one context of it. On one processor they take turns.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		for i, s := range scenes {
			var both sync.WaitGroup
			for n, page := range []report.Page{done(bench.Regressed, "failed"), done(bench.Improved, "passed")} {
				delay := time.Duration(rng.Int64N(int64(2*settling))) * time.Duration(i%3) / 2
				both.Go(func() {
					time.Sleep(delay)
					if got := s.ofRun(int64(100+n)).publishNow(t, page); len(got.outcome.Lost) > 0 {
						t.Errorf("race %d: lost %v: %q", i, got.outcome.Lost, got.log)
					}
				})
			}
			both.Wait()
		}
	})
	for i, s := range scenes {
		if bodies := s.bodies(); len(bodies) != 1 || !strings.Contains(bodies[0], "improved") {
			t.Errorf("race %d: %d comments: %.200q", i, len(bodies), bodies)
		}
	}
}
