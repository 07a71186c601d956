package publish

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/githubtest"
	"github.com/assay-ci/assay/internal/report"
)

// A scene is a pull request on a fake GitHub, and a job that publishes to it.
type scene struct {
	server   *githubtest.Server
	pull     githubtest.Pull
	base     http.RoundTripper
	target   Target
	settings Settings
	notes    []Note
	spans    func(string) ([]Span, error)
}

func newScene(t *testing.T) *scene {
	server := githubtest.New(t)
	pull := server.AddPull(githubtest.Pull{Head: githubtest.Branch{Ref: "skill", SHA: newSHA}})
	return &scene{
		server: server,
		pull:   pull,
		base:   &http.Transport{DisableKeepAlives: true}, // an idle connection would keep the clock of a bubble from moving
		target: Target{Owner: "octo", Repo: "demo", PR: pull.Number, SHA: newSHA, Run: 100, Attempt: 1,
			Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), RunURL: "https://github.com/octo/demo/actions/runs/100"},
		settings: Settings{Comment: "always", Status: "both", Annotations: "check", Summary: true},
	}
}

// ofRun is the same scene in another run of the workflow.
func (s scene) ofRun(run int64) *scene {
	s.target.Run = run
	s.target.Started = s.target.Started.Add(time.Duration(run-100) * time.Minute)
	return &s
}

// A stage is what a job left behind.
type stage struct {
	outcome Outcome
	log     []string
	summary string
	took    time.Duration
}

// publish publishes once. It runs in a bubble, so waiting takes no time.
func (s *scene) publish(t *testing.T, p report.Page) stage {
	t.Helper()
	var out stage
	synctest.Test(t, func(t *testing.T) {
		out = s.publishNow(t, p)
		time.Sleep(2 * time.Hour) // what waits for the end of a rate limit ends too
	})
	return out
}

func (s *scene) publishNow(t *testing.T, p report.Page) stage {
	var out stage
	log := func(line string) { out.log = append(out.log, line) }
	hub, err := newHub(s.base, githubtest.Token, s.server.URL, "octo", "demo", time.Now, log)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	out.outcome = Publish(t.Context(), hub, s.target, p, s.notes, s.settings, Local{
		Log:     log,
		Summary: func(page []byte) error { out.summary += string(page); return nil },
		Spans:   s.spans,
	})
	out.took = time.Since(start)
	return out
}

func (s *scene) bodies() []string {
	var out []string
	for _, c := range s.server.Comments(s.pull.Number) {
		out = append(out, c.Body)
	}
	return out
}

// written counts calls that changed something, by a method and the last word of the path that is no number.
func (s *scene) written() map[string]int {
	out := map[string]int{}
	for _, r := range s.server.Requests() {
		if r.Method != http.MethodGet {
			out[r.Method+" "+regexp.MustCompile(`/(\d+|[0-9a-f]{40})(/|$)`).ReplaceAllString(r.Path[len("/repos/octo/demo"):], "/*$2")]++
		}
	}
	return out
}

// One page in all places, and the next run in the same ones.
func TestPublish(t *testing.T) {
	s := newScene(t)
	s.notes = []Note{{Path: "evals/a/case.yaml", Line: 3, Level: "failure", Title: "a regressed", Text: "3/3 to 0/3"}}
	s.publish(t, report.Page{State: report.Running, Ended: 3, Planned: 12})
	if got := s.server.Statuses(newSHA); len(got) != 1 || got[0].State != "pending" || got[0].Context != "assay" {
		t.Errorf("while running the statuses are %+v", got)
	}
	if got := s.server.CheckRuns(); len(got) != 1 || got[0].Status != "in_progress" || got[0].Conclusion != "" || len(got[0].Annotations) > 0 {
		t.Errorf("while running the check runs are %+v", got)
	}

	first := s.publish(t, done(bench.Regressed, "failed"))
	if len(first.outcome.Lost) > 0 {
		t.Fatalf("lost %v: %q", first.outcome.Lost, first.log)
	}
	comments := s.server.Comments(s.pull.Number)
	if len(comments) != 1 || first.outcome.CommentURL != comments[0].HTMLURL {
		t.Fatalf("%d comments, the outcome names %q", len(comments), first.outcome.CommentURL)
	}
	want := report.Marker{V: 1, Key: "assay", SHA: newSHA, Run: 100, Attempt: 1, Started: s.target.Started, State: report.Done, Verdict: "regressed"}
	if got, _ := report.ReadMarker(comments[0].Body); got != want {
		t.Errorf("the marker is %+v", got)
	}
	statuses := s.server.Statuses(newSHA)
	if last := statuses[len(statuses)-1]; last.State != "failure" || last.TargetURL != comments[0].HTMLURL || !strings.Contains(last.Description, "regressed") {
		t.Errorf("the status is %+v", last)
	}
	checks := s.server.CheckRuns()
	if len(checks) != 1 || checks[0].Conclusion != "failure" || checks[0].HTMLURL != first.outcome.CheckURL || len(checks[0].Annotations) != 1 {
		t.Errorf("the check runs are %+v", checks)
	}
	if !strings.HasPrefix(first.summary, "## ❌ Assay: regressed") {
		t.Errorf("the summary is %.200s", first.summary)
	}

	second := s.ofRun(101).publish(t, done(bench.Improved, "passed"))
	if len(second.outcome.Lost) > 0 || len(s.bodies()) != 1 || !strings.Contains(s.bodies()[0], "improved") {
		t.Errorf("after the next run: lost %v, comments %.300q", second.outcome.Lost, s.bodies())
	}
	checks = s.server.CheckRuns()
	if len(checks) != 1 || checks[0].Conclusion != "success" || len(checks[0].Annotations) != 1 {
		t.Errorf("after the next run the check runs are %+v", checks)
	}

	// The first run comes back from the dead: everything stays as the second one left it.
	before := len(s.server.Statuses(newSHA))
	s.publish(t, done(bench.Regressed, "failed"))
	checks = s.server.CheckRuns()
	if !strings.Contains(s.bodies()[0], "improved") || len(s.server.Statuses(newSHA)) != before || len(checks) != 1 || checks[0].Conclusion != "success" {
		t.Errorf("an older run overwrote a newer one: %.200q", s.bodies())
	}
}

// Publishing the same page twice writes the comment once.
func TestEqualPageIsNotWritten(t *testing.T) {
	s := newScene(t)
	s.settings = Settings{Comment: "always", Status: "off"}
	s.publish(t, done(bench.Improved, "passed"))
	s.publish(t, done(bench.Improved, "passed"))
	if diff := cmp.Diff(map[string]int{"POST /issues/*/comments": 1}, s.written()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Without a token nothing on GitHub is touched, and the job's own places are written.
func TestWithoutAHub(t *testing.T) {
	var log []string
	summaries := 0
	notes := []Note{{Path: "a", Line: 1, Level: "failure", Text: "boo"}}
	settings := Settings{Comment: "always", Status: "both", Annotations: "review", Summary: true}
	out := Publish(t.Context(), nil, Target{PR: 1, SHA: newSHA}, done(bench.Regressed, "failed"), notes, settings,
		Local{Log: func(s string) { log = append(log, s) }, Summary: func([]byte) error { summaries++; return nil }})
	if diff := cmp.Diff(Outcome{}, out); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"::error file=a,line=1::boo"}, log); diff != "" || summaries != 1 {
		t.Errorf("%d summaries, log (-want +got):\n%s", summaries, diff)
	}
}

// slowly holds back the answers of some calls.
type slowly struct {
	next  http.RoundTripper
	on    string // method and path
	times int    // 0: for ever
	by    time.Duration
	taken int
}

func (s *slowly) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(req)
	if err != nil || !regexp.MustCompile(s.on).MatchString(req.Method+" "+req.URL.Path) || s.times > 0 && s.taken == s.times {
		return resp, err
	}
	s.taken++
	if err := sleep(req.Context(), s.by); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// Any single fault of GitHub, at any place: the fault is overcome or named with what to do, nothing is there twice, the
// other places say the verdict, the log and the summary tell of the loss, and it all ends in time.
func TestFaults(t *testing.T) {
	inAWhile := time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC) // clocks of bubbles start at 2000
	applied := func(f githubtest.Fault) githubtest.Fault { f.Apply = true; return f }
	type fault struct {
		name  string
		fault githubtest.Fault
		why   string // "": it is overcome
		needs bool
		all   bool // it ends every call to GitHub
	}
	faults := []fault{
		{name: "401", fault: githubtest.Unauthorized(), why: "401"},
		{name: "403, permission", fault: githubtest.Forbidden(), why: "403", needs: true},
		{name: "403, primary limit", fault: githubtest.RateLimited(inAWhile), why: "rate limit", all: true},
		{name: "403, secondary limit, once", fault: githubtest.SecondaryLimit(30 * time.Second).For(1)},
		{name: "403, secondary limit", fault: githubtest.SecondaryLimit(30 * time.Second), why: "rate limit", all: true},
		{name: "404", fault: githubtest.NotFound(), why: "404", needs: true},
		{name: "409", fault: githubtest.Conflict(), why: "409"},
		{name: "422", fault: githubtest.Invalid(), why: "422"},
		{name: "429, once", fault: githubtest.TooMany(20 * time.Second).For(1)},
		{name: "429", fault: githubtest.TooMany(20 * time.Second), why: "rate limit", all: true},
		{name: "500, once", fault: githubtest.Down(500).For(1)},
		{name: "502, once, and it took effect", fault: applied(githubtest.Down(502)).For(1)},
		{name: "503", fault: githubtest.Down(503), why: "503"},
		{name: "truncated, once", fault: githubtest.Truncated().For(1)},
		{name: "reset in mid-body, once", fault: githubtest.Reset().For(1)},
		{name: "answer lost, once", fault: githubtest.AnswerLost().For(1)},
		{name: "refused, once", fault: githubtest.Refused().For(1)},
		{name: "refused", fault: githubtest.Refused(), why: "no answer"},
	}
	places := []struct{ name, method, path, needs string }{
		{"comment", "POST", "/issues/[0-9]+/comments$", "pull-requests: write"},
		{"comment", "GET", "/issues/[0-9]+/comments$", "pull-requests: write"},
		{"status", "POST", "/statuses/", "statuses: write"},
		{"review", "POST", "/reviews$", "pull-requests: write"},
		{"review", "GET", "/pulls/[0-9]+/files$", "pull-requests: write"},
		{"check", "POST", "/check-runs$", "checks: write"},
		{"check", "GET", "/check-runs$", "checks: write"},
		{"annotations", "PATCH", "/check-runs/", "checks: write"},
	}
	for _, place := range places {
		for _, f := range faults {
			t.Run(place.name+" "+place.method+" "+f.name, func(t *testing.T) {
				s := faultScene(t)
				s.server.Fail(f.fault.On(place.method, place.path))
				got := s.publish(t, done(bench.Regressed, "failed"))
				var want []Loss
				if f.why != "" {
					want = []Loss{{Place: place.name, Why: f.why}}
					if f.needs {
						want[0].Needs = place.needs
					}
				}
				lost := got.outcome.Lost
				if f.all && len(lost) > 0 { // the places behind it are lost as well, and say so
					lost = lost[:1]
				}
				if diff := cmp.Diff(want, lost); diff != "" {
					t.Errorf("losses (-want +got):\n%s\n%s", diff, strings.Join(got.log, "\n"))
				}
				s.holdsTogether(t, got)
			})
		}
	}
}

// faultScene has something for every place to do: a line of the diff to review, and a note elsewhere.
func faultScene(t *testing.T) *scene {
	s := newScene(t)
	s.pull = s.server.AddPull(githubtest.Pull{
		Head:  githubtest.Branch{Ref: "other", SHA: newSHA},
		Files: []githubtest.File{{Name: "evals/a/case.yaml", Patch: "@@ -1,2 +1,3 @@\n a\n+b\n c"}},
	})
	s.target.PR = s.pull.Number
	s.settings.Annotations = "review"
	s.spans = func(string) ([]Span, error) { return []Span{{1, 3}}, nil }
	s.notes = []Note{
		{Path: "evals/a/case.yaml", Line: 2, Level: "failure", Title: "a regressed", Text: "3/3 to 0/3"},
		{Path: "evals/b/case.yaml", Line: 7, Level: "warning", Title: "b is not admitted", Text: "the reference fails"},
	}
	return s
}

// holdsTogether is what no fault may break.
func (s *scene) holdsTogether(t *testing.T, got stage) {
	t.Helper()
	is := func(place string) bool {
		return !slices.ContainsFunc(got.outcome.Lost, func(l Loss) bool { return l.Place == place })
	}
	if got.took > publishLimit {
		t.Errorf("it took %s", got.took)
	}
	if n := len(s.bodies()); n > 1 || is("comment") && n != 1 {
		t.Errorf("%d comments", n)
	}
	statuses := s.server.Statuses(newSHA)
	if is("status") && (len(statuses) == 0 || statuses[len(statuses)-1].State != "failure") {
		t.Errorf("the statuses are %+v", statuses)
	}
	checks := s.server.CheckRuns()
	if len(checks) > 1 || is("check") && (len(checks) != 1 || checks[0].Conclusion != "failure") {
		t.Errorf("the check runs are %+v", checks)
	}
	if n := len(s.server.Reviews(s.pull.Number)); n > 1 || is("review") && n != 1 {
		t.Errorf("%d reviews", n)
	}
	var annotated []string
	for _, c := range checks {
		for _, a := range c.Annotations {
			annotated = append(annotated, a.Path)
		}
	}
	if slices.Sort(annotated); len(slices.Compact(slices.Clone(annotated))) != len(annotated) {
		t.Errorf("annotations are there twice: %q", annotated)
	}
	log := strings.Join(got.log, "\n")
	if !strings.Contains(log, "evals/b/case.yaml") && !slices.Contains(annotated, "evals/b/case.yaml") {
		t.Errorf("a note is in no place:\n%s", log)
	}
	if strings.Contains(log, "│ ") {
		t.Errorf("the page is in the log, and the summary took it:\n%s", log)
	}
	for _, l := range got.outcome.Lost {
		if !strings.Contains(log, escapeData(l.String())) {
			t.Errorf("the log does not tell of %s", l)
		}
		if !strings.Contains(got.summary, l.Needs) {
			t.Errorf("the summary does not tell of %s:\n%s", l, got.summary)
		}
	}
}

// Slow answers end in time, and a write that was late is not made twice.
func TestSlowAnswers(t *testing.T) {
	for _, c := range []struct {
		on    string
		times int
		by    time.Duration
		lost  []string
	}{
		{"POST .*/comments$", 1, 20 * time.Second, nil},
		{"POST .*/check-runs$", 1, 20 * time.Second, nil},
		{"POST .*/reviews$", 1, 20 * time.Second, nil},
		{"PATCH .*/check-runs/", 1, 20 * time.Second, nil},
		{"GET .*/comments$", 1, 20 * time.Second, nil},
		{".*", 0, 10 * time.Second, nil},
		{"GET .*/issues/.*/comments$", 0, time.Hour, []string{"comment"}},
		{"GET .*(user|pulls/[0-9]+)$", 0, time.Hour, nil},
		{"GET .*(user|pulls/[0-9]+|comments|files)$", 0, time.Hour, []string{"comment", "review"}},
		{".*", 0, time.Hour, []string{"comment", "status", "review", "check"}},
	} {
		t.Run(c.on+" "+c.by.String(), func(t *testing.T) {
			s := faultScene(t)
			s.base = &slowly{next: s.base, on: c.on, times: c.times, by: c.by}
			got := s.publish(t, done(bench.Regressed, "failed"))
			var lost []string
			for _, l := range got.outcome.Lost {
				if l.Why != "timeout" {
					t.Errorf("%s: %s", l.Place, l.Why)
				}
				lost = append(lost, l.Place)
			}
			if diff := cmp.Diff(c.lost, lost); diff != "" {
				t.Errorf("losses (-want +got):\n%s\n%s", diff, strings.Join(got.log, "\n"))
			}
			s.holdsTogether(t, got)
		})
	}
}

// A job that is cancelled still writes its own places.
func TestCancelled(t *testing.T) {
	s := newScene(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	hub, err := newHub(s.base, githubtest.Token, s.server.URL, "octo", "demo", time.Now, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	summary := ""
	out := Publish(ctx, hub, s.target, done(bench.Improved, "passed"), nil, s.settings,
		Local{Log: func(string) {}, Summary: func(p []byte) error { summary += string(p); return nil }})
	want := []Loss{{Place: "comment", Why: "cancelled"}, {Place: "status", Why: "cancelled"}, {Place: "check", Why: "cancelled"}}
	if diff := cmp.Diff(want, out.Lost); diff != "" || !strings.Contains(summary, "improved") {
		t.Errorf("summary %.80q, losses (-want +got):\n%s", summary, diff)
	}
}

// When no place takes the page, the log does, and no line of it is a command.
func TestTheLogIsTheLastPlace(t *testing.T) {
	s := newScene(t)
	s.server.Fail(githubtest.Forbidden())
	s.settings.Summary = false
	got := s.publish(t, report.Page{State: report.Broken, Text: "::error::boo"})
	if !slices.Contains(got.log, "│ ## ⛔ Assay: error") {
		t.Errorf("the log is\n%s", strings.Join(got.log, "\n"))
	}
	for _, line := range got.log {
		if strings.HasPrefix(line, "::") && !strings.HasPrefix(line, "::warning title=Assay could not write everything::") {
			t.Errorf("a command: %s", line)
		}
	}
}

func TestPlaces(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Places {
		if p.Name == "" || p.Doc == "" || seen[p.Name] || p.Needs != "" && !strings.HasSuffix(p.Needs, ": write") {
			t.Errorf("place %+v", fmt.Sprint(p.Name, p.Doc, p.Needs))
		}
		seen[p.Name] = true
	}
}
