package publish

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/githubtest"
)

// checksOnly is a scene where only the check run is written.
func checksOnly(t *testing.T, notes int) *scene {
	s := newScene(t)
	s.settings = Settings{Comment: "off", Status: "check", Annotations: "check"}
	for i := range notes {
		s.notes = append(s.notes, Note{Path: fmt.Sprintf("evals/%03d/case.yaml", i), Line: 1, Level: "warning", Text: "t"})
	}
	return s
}

// Annotations go 50 at a time, at most 100, each once, whatever happens to the answers.
func TestAnnotationsAreSentOnce(t *testing.T) {
	for _, c := range []struct {
		name  string
		notes int
		want  int
		fault githubtest.Fault
	}{
		{"none", 0, 0, githubtest.Fault{}},
		{"one", 1, 1, githubtest.Fault{}},
		{"a request full", 50, 50, githubtest.Fault{}},
		{"one more", 51, 51, githubtest.Fault{}},
		{"too many", 270, 100, githubtest.Fault{}},
		{"an answer is lost", 70, 70, githubtest.AnswerLost().For(1)},
		{"two answers are lost", 70, 70, githubtest.AnswerLost().For(2)},
		{"a request is lost", 70, 70, githubtest.Refused().For(1)},
		{"an answer is cut", 70, 70, githubtest.Reset().For(1)},
		{"GitHub is down for a while", 70, 70, githubtest.Down(502).For(2)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := checksOnly(t, c.notes)
			s.server.Fail(c.fault.On("PATCH", "/check-runs/"))
			got := s.publish(t, done(bench.Regressed, "failed"))
			checks := s.server.CheckRuns()
			if len(got.outcome.Lost) > 0 || len(checks) != 1 {
				t.Fatalf("%d check runs, lost %v: %q", len(checks), got.outcome.Lost, got.log)
			}
			var want, paths []string
			for i := range c.want {
				want = append(want, s.notes[i].Path)
			}
			for _, a := range checks[0].Annotations {
				paths = append(paths, a.Path)
			}
			if diff := cmp.Diff(want, paths); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A later run of the same commit takes the check run over, unless that would leave annotations of the earlier one.
func TestCheckRunIsFoundAgain(t *testing.T) {
	for _, c := range []struct {
		name         string
		first, later int // notes
		runs         int64
		want         []string // conclusions
	}{
		{"nothing annotated", 0, 0, 101, []string{"success"}},
		{"the same notes", 3, 3, 101, []string{"success"}},
		{"notes that are new", 0, 3, 101, []string{"success"}},
		{"other notes", 3, 2, 101, []string{"failure", "success"}},
		{"the same run", 3, 3, 100, []string{"success"}},
		{"an older run", 3, 3, 99, []string{"failure"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := checksOnly(t, c.first)
			s.publish(t, done(bench.Regressed, "failed"))
			later := s.ofRun(c.runs)
			later.notes = checksOnly(t, c.later).notes
			later.publish(t, done(bench.Improved, "passed"))
			var got []string
			for _, run := range s.server.CheckRuns() {
				got = append(got, run.Conclusion)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			last := s.server.CheckRuns()[len(got)-1]
			want := c.later
			if c.runs < 100 {
				want = c.first
			}
			if len(last.Annotations) != want {
				t.Errorf("%d annotations, want %d", len(last.Annotations), want)
			}
		})
	}
}

// A check run of the same name that is not ours is left alone, and so is ours under another key.
func TestForeignCheckRun(t *testing.T) {
	s := checksOnly(t, 0)
	for _, id := range []string{"", "build-7", "assay:nightly:1:1:none"} {
		s.server.AddCheckRun(githubtest.CheckRun{Name: "assay", HeadSHA: newSHA, Conclusion: "success", ExternalID: id})
	}
	s.publish(t, done(bench.Regressed, "failed"))
	var got []string
	for _, run := range s.server.CheckRuns() {
		got = append(got, run.Conclusion)
	}
	if diff := cmp.Diff([]string{"success", "success", "success", "failure"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCheckID(t *testing.T) {
	t.Parallel()
	for _, id := range []checkID{{"assay", 100, 1, "none"}, {"a:b", 1, 2, "0123456789ab"}, {"", 0, 0, "none"}} {
		if got, ok := parseCheckID(id.String()); !ok || got != id {
			t.Errorf("%s came back as %+v, %t", id, got, ok)
		}
	}
	for _, s := range []string{"", "assay", "assay:a:1:1", "assay:a:x:1:none", "assay:a:1:x:none", "other:a:1:1:none"} {
		if got, ok := parseCheckID(s); ok {
			t.Errorf("%q was taken for %+v", s, got)
		}
	}
}

// Hostile notes are inert where GitHub would render them.
func TestAnnotationsAreInert(t *testing.T) {
	t.Parallel()
	got := annotations([]Note{{Path: "a", Level: "worst", Title: "<b>@octo</b>", Text: "![x](https://x.test)"}, {Text: "without a place"}})
	if len(got) != 1 {
		t.Fatalf("%d annotations", len(got))
	}
	a := got[0]
	if a.GetStartLine() != 1 || a.GetEndLine() != 1 || a.GetAnnotationLevel() != "notice" || a.GetTitle() != "&lt;b&gt;@\u200bocto&lt;/b&gt;" {
		t.Errorf("%+v", a)
	}
	if a.GetMessage() == "![x](https://x.test)" || a.GetMessage() == "" {
		t.Errorf("the message is %q", a.GetMessage())
	}
}
