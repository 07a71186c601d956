package publish

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/assay-ci/assay/internal/githubtest"
)

const earlierSHA = "01d0000000000000000000000000000000000000"

func TestReadCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body string
		want Command
	}{
		{"/eval", Command{}},
		{"/eval\r\n", Command{}},
		{"/eval --trials 3", Command{Trials: 3}},
		{"/eval " + headSHA, Command{SHA: headSHA}},
		{"/eval " + headSHA + "\r\nI have read it.", Command{SHA: headSHA}},
		{"/eval " + headSHA + "\n/eval " + earlierSHA + " --trials 10", Command{SHA: headSHA}},
		{"/eval  " + headSHA + "   --old ", Command{SHA: headSHA, Old: true}},
		{
			"/eval " + headSHA + " --case timezone --trials 10 --old --case [a-c]*-2.x",
			Command{SHA: headSHA, Cases: []string{"timezone", "[a-c]*-2.x"}, Trials: 10, Old: true},
		},
	} {
		got, ok, err := ReadCommand(c.body)
		if diff := cmp.Diff(c.want, got); diff != "" || !ok || err != nil {
			t.Errorf("%q: %t, %v (-want +got):\n%s", c.body, ok, err, diff)
		}
	}
}

func TestReadCommandIsSilent(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"", "\n", "please /eval " + headSHA, " /eval " + headSHA, "\n/eval " + headSHA, "thanks\n/eval " + headSHA,
		"/evaluate " + headSHA, "/EVAL " + headSHA, "/eval\t" + headSHA, "/eval\r" + headSHA, "/eval\x00", "> /eval " + headSHA,
		"`/eval " + headSHA + "`", "\ufeff/eval " + headSHA, "\u200b/eval " + headSHA, "／eval " + headSHA, "/evаl " + headSHA, "/eval\u00a0" + headSHA,
		"/eval" + headSHA, strings.Repeat("x", 1<<20),
	} {
		if got, ok, err := ReadCommand(body); ok || err != nil {
			t.Errorf("%.60q was taken for a command: %+v, %v", body, got, err)
		}
	}
}

// faulty are lines that are meant for us and that no check of ours may let through, with a part of what is said of them.
var faulty = map[string]string{
	"/eval c0ffee1":                                                             "40 lower-case hex digits",
	"/eval HEAD":                                                                "40 lower-case hex digits",
	"/eval refs/pull/7/head":                                                    "40 lower-case hex digits",
	"/eval " + strings.ToUpper(headSHA):                                         "40 lower-case hex digits",
	"/eval " + headSHA + "0":                                                    "40 lower-case hex digits",
	"/eval " + headSHA[:39]:                                                     "40 lower-case hex digits",
	"/eval с0ffee" + headSHA[6:]:                                                "not plain ASCII", // the first letter is Cyrillic
	"/eval " + headSHA + " --old\u202e":                                         "not plain ASCII",
	"/eval " + headSHA + "\x00":                                                 "not plain ASCII",
	"/eval " + headSHA + "\r--old\n":                                            "not plain ASCII",
	"/eval " + headSHA + "\r\r\n":                                               "not plain ASCII",
	"/eval " + headSHA + "\v--old":                                              "not plain ASCII",
	"/eval " + headSHA + "\x1b[2K":                                              "not plain ASCII",
	"/eval " + headSHA + "\u2028--old":                                          "not plain ASCII",
	"/eval " + headSHA + " \xff":                                                "not plain ASCII",
	"/eval $(id)":                                                               "40 lower-case hex digits",
	"/eval " + headSHA + "; id":                                                 "40 lower-case hex digits",
	"/eval " + headSHA + " ; id":                                                "only --case GLOB",
	"/eval " + headSHA + " && id":                                               "only --case GLOB",
	"/eval " + headSHA + " " + earlierSHA:                                       "only --case GLOB",
	"/eval " + headSHA + " --yes":                                               "only --case GLOB",
	"/eval " + headSHA + " --old --old":                                         "only --case GLOB",
	"/eval " + headSHA + " -old":                                                "only --case GLOB",
	"/eval " + headSHA + " --trials=3":                                          "only --case GLOB",
	"/eval --old " + headSHA:                                                    "only --case GLOB",
	"/eval " + headSHA + " --trials":                                            "needs a value",
	"/eval " + headSHA + " --case":                                              "needs a value",
	"/eval " + headSHA + " --trials 0":                                          "from 1 to 10",
	"/eval " + headSHA + " --trials 11":                                         "from 1 to 10",
	"/eval " + headSHA + " --trials +3":                                         "from 1 to 10",
	"/eval " + headSHA + " --trials 03":                                         "from 1 to 10",
	"/eval " + headSHA + " --trials 3e0":                                        "from 1 to 10",
	"/eval " + headSHA + " --case $(id)":                                        "the id of a case",
	"/eval " + headSHA + " --case `id`":                                         "the id of a case",
	"/eval " + headSHA + " --case ../x":                                         "the id of a case",
	"/eval " + headSHA + " --case --old":                                        "the id of a case",
	"/eval " + headSHA + " --case [a":                                           "the id of a case",
	"/eval " + headSHA + " --case ${{x}}":                                       "the id of a case",
	"/eval " + headSHA + " --case @mona":                                        "the id of a case",
	"/eval " + headSHA + " --case " + strings.Repeat("a", 65):                   "the id of a case",
	"/eval " + headSHA + strings.Repeat(" --case a", 21):                        "20 times",
	"/eval " + headSHA + " --trials 99999999999999999999":                       "from 1 to 10",
	"/eval " + headSHA + strings.Repeat(" ", 1<<20):                             "longer than 1024 bytes",
	"/eval " + headSHA + strings.Repeat(" --case "+strings.Repeat("a", 60), 50): "longer than 1024 bytes",
}

func TestReadCommandRefuses(t *testing.T) {
	t.Parallel()
	for body, want := range faulty {
		got, ok, err := ReadCommand(body)
		if !ok || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.90q: got %+v, %t, %v; want %s", body, got, ok, err, want)
		}
	}
}

func FuzzReadCommand(f *testing.F) {
	for body := range faulty {
		f.Add(body)
	}
	f.Add("/eval " + headSHA + " --case a*[b-c] --trials 10 --old\r\nmore")
	f.Fuzz(func(t *testing.T, body string) {
		c, ok, err := ReadCommand(body)
		if err != nil {
			if said := err.Error(); len(said) > 200 || strings.ContainsAny(said, "\r\n`@<#") {
				t.Errorf("the fault is not fit to be shown: %q", said)
			}
			return
		}
		if !ok {
			return
		}
		// What was understood, written down again in plain words, is what was written.
		again := "/eval"
		if c.SHA != "" {
			again += " " + c.SHA
		}
		for _, p := range c.Cases {
			if _, err := path.Match(p, "timezone"); err != nil {
				t.Errorf("a pattern that matches nothing went through: %q", p)
			}
			again += " --case " + p
		}
		if c.Trials != 0 {
			again += fmt.Sprintf(" --trials %d", c.Trials)
		}
		if c.Old {
			again += " --old"
		}
		same, ok, err := ReadCommand(again + "\nmore")
		if diff := cmp.Diff(c, same); diff != "" || !ok || err != nil {
			t.Errorf("%q: %t, %v (-want +got):\n%s", again, ok, err, diff)
		}
		line, _, _ := strings.Cut(body, "\n")
		if len(strings.Fields(line)) != len(strings.Fields(again)) {
			t.Errorf("%q was read as %q", line, again)
		}
	})
}

// yard is a GitHub with pull request 7 of a fork, whose branch was pushed to once, and people of every permission.
func yard(t *testing.T) *githubtest.Server {
	t.Helper()
	s := githubtest.New(t)
	s.AddCommit(githubtest.Commit{SHA: baseSHA})
	s.AddCommit(githubtest.Commit{SHA: earlierSHA, Parents: []string{baseSHA}})
	s.AddCommit(githubtest.Commit{SHA: headSHA, Parents: []string{earlierSHA}})
	s.AddPull(githubtest.Pull{
		Number: 7, Author: githubtest.User{Login: "mona"},
		Head: githubtest.Branch{Repo: "mona/demo", Ref: "topic", SHA: headSHA},
		Base: githubtest.Branch{Ref: "main", SHA: baseSHA},
	})
	for _, role := range []string{"admin", "maintain", "write", "triage", "read", "none"} {
		s.SetPermission("the-"+role, role)
	}
	return s
}

// inBubble calls the hub of a server where waiting takes no time, and returns what the hub told the log.
func inBubble(t *testing.T, s *githubtest.Server, call func(context.Context, *Hub)) (log []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		base := &http.Transport{DisableKeepAlives: true} // an idle connection would keep the clock of a bubble from moving
		hub, err := newHub(base, githubtest.Token, s.URL, "octo", "demo", time.Now, func(line string) { log = append(log, line) })
		if err != nil {
			t.Fatal(err)
		}
		call(t.Context(), hub)
	})
	return log
}

// eval obeys an event, and returns what the log was told.
func eval(t *testing.T, s *githubtest.Server, e Event) (o Order, log []string, err error) {
	t.Helper()
	log = inBubble(t, s, func(ctx context.Context, hub *Hub) {
		o, err = hub.Eval(ctx, e, "assay", "https://github.com/octo/demo/actions/runs/1")
	})
	return o, log, err
}

func TestEnded(t *testing.T) {
	for measured, want := range map[bool]string{true: "rocket", false: "confused"} {
		s := githubtest.New(t)
		s.AddPull(githubtest.Pull{Number: 7, Head: githubtest.Branch{Ref: "fix", SHA: strings.Repeat("a", 40)}})
		e := evalComment(s, "octocat", "/eval")
		inBubble(t, s, func(ctx context.Context, hub *Hub) {
			hub.Ended(ctx, e, measured)
			hub.Ended(ctx, Event{Kind: "pull_request", PR: Pull{Number: 7}}, measured)
		})
		if got := s.Reactions(); len(got) != 1 || got[0].Content != want || got[0].Comment != e.Comment.ID {
			t.Errorf("measured %t: reactions %v", measured, got)
		}
	}
}

// evalComment is the event of a new comment on pull request 7.
func evalComment(s *githubtest.Server, who, body string) Event {
	c := s.AddComment(githubtest.Comment{Issue: 7, Author: githubtest.User{Login: who}, Body: body})
	return Event{
		Kind: "issue_comment", Action: "created", Repository: demo, PR: Pull{Number: 7},
		Comment: Comment{ID: c.ID, Body: body, Author: Account{Login: who, Type: "User"}, Created: c.Created, Updated: c.Updated},
	}
}

// evalReview is the event of a new review of a pull request of a branch.
func evalReview(who, body, commit string) Event {
	return Event{
		Kind: "pull_request_review", Action: "submitted", Repository: demo, PR: Pull{Number: 7},
		Review: Review{ID: 5, Body: body, CommitID: commit, Author: Account{Login: who, Type: "User"}},
	}
}

func TestEvalAccepts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		event func(s *githubtest.Server) Event
		want  Order
	}{
		{
			"write", func(s *githubtest.Server) Event { return evalComment(s, "the-write", "/eval "+headSHA) },
			Order{SHA: headSHA},
		},
		{
			"maintain", func(s *githubtest.Server) Event {
				return evalComment(s, "the-maintain", "/eval "+headSHA+" --case time* --trials 5\r\nthanks")
			},
			Order{SHA: headSHA, Cases: []string{"time*"}, Trials: 5},
		},
		{
			"an older commit on demand", func(s *githubtest.Server) Event { return evalComment(s, "the-admin", "/eval "+earlierSHA+" --old") },
			Order{SHA: earlierSHA},
		},
		{
			"a review names its commit", func(*githubtest.Server) Event { return evalReview("the-write", "/eval --trials 2", headSHA) },
			Order{SHA: headSHA, Trials: 2},
		},
		{
			"a review that says it twice", func(*githubtest.Server) Event { return evalReview("the-write", "/eval "+headSHA, headSHA) },
			Order{SHA: headSHA},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := yard(t)
			e := c.event(s)
			before := len(s.Comments(7))
			got, log, err := eval(t, s, e)
			if err != nil {
				t.Fatal(err)
			}
			c.want.Accepted, c.want.PR = true, 7
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the order is not as expected (-want +got):\n%s", diff)
			}
			wantStatus := []githubtest.Status{{SHA: got.SHA, State: "pending", Context: "assay", Description: "a run was asked for by /eval", TargetURL: "https://github.com/octo/demo/actions/runs/1"}}
			if diff := cmp.Diff(wantStatus, s.Statuses(got.SHA), cmpopts.IgnoreFields(githubtest.Status{}, "ID", "Creator", "Created")); diff != "" {
				t.Errorf("the status is not as expected (-want +got):\n%s", diff)
			}
			if n := len(s.Comments(7)) - before; n != 0 {
				t.Errorf("%d answers were written", n)
			}
			if e.Kind == "issue_comment" {
				wantReaction(t, s, e.Comment.ID, "eyes")
			}
			if len(log) > 0 {
				t.Errorf("the log says %q", log)
			}
		})
	}
}

func wantReaction(t *testing.T, s *githubtest.Server, comment int64, content string) {
	t.Helper()
	var got []string
	for _, r := range s.Reactions() {
		if r.Comment == comment {
			got = append(got, r.Content)
		}
	}
	if diff := cmp.Diff([]string{content}, got); diff != "" {
		t.Errorf("the reactions are not as expected (-want +got):\n%s", diff)
	}
}

func TestEvalRefuses(t *testing.T) {
	t.Parallel()
	order := "/eval " + headSHA
	for _, c := range []struct {
		name   string
		event  func(s *githubtest.Server) Event
		want   string // a part of the answer
		offers bool   // the answer holds the line to copy
	}{
		{"a reader", func(s *githubtest.Server) Event { return evalComment(s, "the-read", order) }, "may write", false},
		{"triage", func(s *githubtest.Server) Event { return evalComment(s, "the-triage", order) }, "may write", false},
		{"no permission", func(s *githubtest.Server) Event { return evalComment(s, "the-none", order) }, "may write", false},
		{"the author of the fork", func(s *githubtest.Server) Event { return evalComment(s, "mona", order) }, "may write", false},
		{"a reader who asks for help", func(s *githubtest.Server) Event { return evalComment(s, "the-read", "/eval") }, "may write", false},
		{"bare", func(s *githubtest.Server) Event { return evalComment(s, "the-write", "/eval") }, "Which commit?", true},
		{"bare, the commit below", func(s *githubtest.Server) Event { return evalComment(s, "the-write", "/eval\n"+headSHA) }, "Which commit?", true},
		{"an older commit", func(s *githubtest.Server) Event { return evalComment(s, "the-write", "/eval "+earlierSHA) }, "not the newest", true},
		{"the base", func(s *githubtest.Server) Event { return evalComment(s, "the-write", "/eval "+baseSHA+" --old") }, "does not belong", true},
		{"a foreign commit", func(s *githubtest.Server) Event {
			return evalComment(s, "the-write", "/eval "+strings.Repeat("f", 40)+" --old")
		}, "does not belong", true},
		{"an edited comment", func(s *githubtest.Server) Event {
			e := evalComment(s, "the-write", order)
			e.Comment.Updated = e.Comment.Updated.Add(time.Second)
			return e
		}, "edited comment", false},
		{"a comment without times", func(s *githubtest.Server) Event {
			e := evalComment(s, "the-write", order)
			e.Comment.Created, e.Comment.Updated = time.Time{}, time.Time{}
			return e
		}, "edited comment", false},
		{"a closed pull request", func(s *githubtest.Server) Event {
			s.UpdatePull(7, func(p *githubtest.Pull) { p.State = "closed" })
			return evalComment(s, "the-write", order)
		}, "not open", false},
		{"a push since then", func(s *githubtest.Server) Event {
			s.UpdatePull(7, func(p *githubtest.Pull) { p.Head.SHA = strings.Repeat("e", 40) })
			return evalComment(s, "the-write", order)
		}, "not the newest", true},
		{"a review of a fork", func(*githubtest.Server) Event {
			e := evalReview("the-write", order, headSHA)
			e.Fork = true
			return e
		}, "no run for a fork", false},
		{"a review of an older commit", func(*githubtest.Server) Event { return evalReview("the-write", "/eval", earlierSHA) }, "not the newest", true},
		{"a review of another commit", func(*githubtest.Server) Event { return evalReview("the-write", order, earlierSHA) }, "another commit", false},
		{"a review of a reader", func(*githubtest.Server) Event { return evalReview("the-read", "/eval", headSHA) }, "may write", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := yard(t)
			refused(t, s, c.event(s), c.want, c.offers)
		})
	}
}

// TestEvalRefusesFaultyLines sends every hostile line as a maintainer.
func TestEvalRefusesFaultyLines(t *testing.T) {
	t.Parallel()
	s := yard(t)
	for body, want := range faulty {
		e := evalComment(s, "the-write", "/eval")
		e.Comment.Body = body
		refused(t, s, e, "Not understood: ", false)
		answers := s.Comments(7)
		if answer := answers[len(answers)-1].Body; !strings.Contains(answer, want) {
			t.Errorf("%.90q was answered with %q", body, answer)
		}
	}
}

// copied is the line that an answer offers.
var copied = regexp.MustCompile("^\n```\n/eval (" + headSHA + "|e{40})\n```$")

// refused asserts that an event starts nothing, and that one answer says why in one line.
func refused(t *testing.T, s *githubtest.Server, e Event, want string, offers bool) {
	t.Helper()
	before := len(s.Comments(7))
	got, log, err := eval(t, s, e)
	if err != nil || len(log) > 0 {
		t.Fatalf("got %v, the log says %q", err, log)
	}
	if diff := cmp.Diff(Order{Why: got.Why}, got); diff != "" || got.Why == "" || strings.ContainsAny(got.Why, "\r\n") {
		t.Errorf("the order is not a refusal: %+v", got)
	}
	answers := s.Comments(7)[before:]
	if len(answers) != 1 {
		t.Fatalf("%d answers were written", len(answers))
	}
	body := answers[0].Body
	why, rest, _ := strings.Cut(body, "\n")
	if !strings.Contains(why, want) {
		t.Errorf("the answer is %q, want %s", body, want)
	}
	if offers != copied.MatchString(rest) {
		t.Errorf("the answer is %q, the line to copy %t", body, offers)
	}
	if _, ok, _ := ReadCommand(body); ok {
		t.Errorf("the answer is itself a command: %q", body)
	}
	if e.Kind == "issue_comment" {
		wantReaction(t, s, e.Comment.ID, "confused")
	}
	for _, sha := range []string{headSHA, earlierSHA} {
		if n := len(s.Statuses(sha)); n > 0 {
			t.Errorf("%d statuses were written", n)
		}
	}
}

func TestEvalKeepsSilent(t *testing.T) {
	t.Parallel()
	s := yard(t)
	order := "/eval " + headSHA
	change := func(e Event, by func(*Event)) Event {
		by(&e)
		return e
	}
	fine := evalComment(s, "the-write", order)
	before := len(s.Requests())
	for name, e := range map[string]Event{
		"no event":              {},
		"a pull request":        {Kind: "pull_request", Action: "created", PR: Pull{Number: 7}},
		"an edited comment":     change(fine, func(e *Event) { e.Action = "edited" }),
		"a deleted comment":     change(fine, func(e *Event) { e.Action = "deleted" }),
		"a comment on an issue": change(fine, func(e *Event) { e.PR.Number = 0 }),
		"an app":                change(fine, func(e *Event) { e.Comment.Author = Account{Login: "x[bot]", Type: "Bot"} }),
		"nobody":                change(fine, func(e *Event) { e.Comment.Author = Account{} }),
		"an edited review":      change(evalReview("the-write", order, headSHA), func(e *Event) { e.Action = "edited" }),
		"a review of nothing":   evalReview("the-write", order, ""),
		"a second line":         change(fine, func(e *Event) { e.Comment.Body = "fine\n" + order }),
		"a look-alike":          change(fine, func(e *Event) { e.Comment.Body = "/evаl " + headSHA }),
		"a quotation":           change(fine, func(e *Event) { e.Comment.Body = "> " + order }),
	} {
		got, _, err := eval(t, s, e)
		if err != nil || got.Why == "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if diff := cmp.Diff(Order{Why: got.Why}, got); diff != "" {
			t.Errorf("%s was accepted: %s", name, diff)
		}
	}
	if n := len(s.Requests()) - before; n != 0 {
		t.Errorf("%d calls were made for what is not for us", n)
	}
}

// TestEvalFailsClosed: where a check cannot be made, nothing is accepted and nothing is written.
func TestEvalFailsClosed(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]githubtest.Fault{
		"the permission, forbidden": githubtest.Forbidden().On("GET", "/permission$"),
		"the permission, unknown":   githubtest.NotFound().On("GET", "/permission$"),
		"the permission, wrong":     githubtest.Fault{Status: http.StatusOK, Body: "[]"}.On("GET", "/permission$"),
		"the pull request":          githubtest.NotFound().On("GET", "/pulls/7$"),
		"its commits":               githubtest.Forbidden().On("GET", "/pulls/7/commits$"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := yard(t)
			e := evalComment(s, "the-write", "/eval "+earlierSHA+" --old")
			before := len(s.Comments(7))
			s.Fail(fault)
			got, _, err := eval(t, s, e)
			if diff := cmp.Diff(Order{}, got); diff != "" || err == nil || !strings.HasPrefix(err.Error(), "/eval: ") {
				t.Errorf("got %+v, %v", got, err)
			}
			if len(s.Comments(7)) != before || len(s.Reactions()) > 0 || len(s.Statuses(earlierSHA)) > 0 {
				t.Error("something was written")
			}
		})
	}
}

// TestEvalWithoutWriting: an answer that cannot be written changes nothing of the order.
func TestEvalWithoutWriting(t *testing.T) {
	t.Parallel()
	s := yard(t)
	yes, no := evalComment(s, "the-write", "/eval "+headSHA), evalComment(s, "the-read", "/eval "+headSHA)
	s.Fail(githubtest.Forbidden().On("POST", ""))
	got, log, err := eval(t, s, yes)
	if err != nil || !got.Accepted {
		t.Errorf("got %+v, %v", got, err)
	}
	got, more, err := eval(t, s, no)
	if err != nil || got.Accepted {
		t.Errorf("got %+v, %v", got, err)
	}
	log = append(log, more...)
	for _, want := range []string{"reaction", "status", "reaction", "answer"} {
		if len(log) == 0 || !strings.Contains(log[0], want) {
			t.Fatalf("the log says %q, want %s", log, want)
		}
		log = log[1:]
	}
}

// TestEvalAnswersOnce: an answer that GitHub took and never confirmed is not written again.
func TestEvalAnswersOnce(t *testing.T) {
	t.Parallel()
	s := yard(t)
	e := evalComment(s, "the-read", "/eval "+headSHA)
	before := len(s.Comments(7))
	s.Fail(githubtest.AnswerLost().On("POST", "/issues/7/comments$"))
	got, log, err := eval(t, s, e)
	if err != nil || got.Accepted || len(log) == 0 {
		t.Errorf("got %+v, %v, the log says %q", got, err, log)
	}
	if n := len(s.Comments(7)) - before; n != 1 {
		t.Errorf("%d answers were written", n)
	}
}

// TestEvalTurnsPages finds an older commit that stands on the second page of those of the pull request.
func TestEvalTurnsPages(t *testing.T) {
	t.Parallel()
	s := yard(t)
	parent, shas := headSHA, []string{}
	for i := range 130 {
		sha := fmt.Sprintf("%040x", i+1)
		s.AddCommit(githubtest.Commit{SHA: sha, Parents: []string{parent}})
		parent, shas = sha, append(shas, sha)
	}
	s.UpdatePull(7, func(p *githubtest.Pull) { p.Head.SHA = parent })
	got, _, err := eval(t, s, evalComment(s, "the-write", "/eval "+shas[120]+" --old"))
	if err != nil || !got.Accepted || got.SHA != shas[120] {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestResolvePull(t *testing.T) {
	t.Parallel()
	s := yard(t)
	other := strings.Repeat("d", 40)
	s.AddPull(githubtest.Pull{Number: 8, Head: githubtest.Branch{Repo: "mona/demo", Ref: "topic", SHA: headSHA}, Base: githubtest.Branch{Ref: "main", SHA: baseSHA}})
	s.AddPull(githubtest.Pull{Number: 9, Head: githubtest.Branch{Repo: "zoe/demo", Ref: "topic", SHA: other}, Base: githubtest.Branch{Ref: "main", SHA: baseSHA}})
	s.AddPull(githubtest.Pull{Number: 10, State: "closed", Head: githubtest.Branch{Repo: "zoe/demo", Ref: "done", SHA: other}, Base: githubtest.Branch{Ref: "main", SHA: baseSHA}})
	resolve := func(owner, branch, sha string) (n int, err error) {
		inBubble(t, s, func(ctx context.Context, hub *Hub) { n, err = ResolvePull(ctx, hub, owner, branch, sha) })
		return n, err
	}
	for _, c := range []struct {
		owner, branch, sha string
		want               int
	}{
		{"mona", "topic", headSHA, 7},
		{"mona", "topic", other, 0},
		{"mona", "other", headSHA, 0},
		{"zoe", "topic", other, 9},
		{"zoe", "topic", headSHA, 0},
		{"zoe", "done", other, 0},
	} {
		got, err := resolve(c.owner, c.branch, c.sha)
		if err != nil || got != c.want {
			t.Errorf("%s:%s at %.7s: got %d, %v; want %d", c.owner, c.branch, c.sha, got, err, c.want)
		}
	}
	s.Fail(githubtest.Forbidden().On("GET", "/pulls$"))
	if n, err := resolve("mona", "topic", headSHA); err == nil || n != 0 {
		t.Errorf("got %d, %v", n, err)
	}
}
