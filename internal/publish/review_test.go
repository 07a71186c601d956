package publish

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/githubtest"
)

// reviewScene is a pull request that changes lines 10 to 40 of one file, and a picture.
func reviewScene(t *testing.T, notes ...Note) *scene {
	s := newScene(t)
	patch := "@@ -10,0 +10,31 @@\n" + strings.TrimSuffix(strings.Repeat("+x\n", 31), "\n")
	s.pull = s.server.AddPull(githubtest.Pull{
		Head:  githubtest.Branch{Ref: "other", SHA: newSHA},
		Files: []githubtest.File{{Name: "evals/a.yaml", Patch: patch}, {Name: "evals/a.png"}, {Name: "evals/broken", Patch: "?"}},
	})
	s.target.PR = s.pull.Number
	s.settings = Settings{Comment: "off", Status: "check", Annotations: "review"}
	s.spans = func(patch string) ([]Span, error) {
		if patch == "?" {
			return nil, errors.New("not a patch")
		}
		return []Span{{10, 40}}, nil
	}
	s.notes = notes
	return s
}

// reviewed and annotated are the places of the notes on GitHub.
func (s *scene) reviewed() []string {
	var out []string
	for _, c := range s.server.ReviewComments(s.pull.Number) {
		out = append(out, fmt.Sprintf("%s:%d", c.Path, c.Line))
	}
	return out
}

func (s *scene) annotated() []string {
	var out []string
	for _, c := range s.server.CheckRuns() {
		for _, a := range c.Annotations {
			out = append(out, fmt.Sprintf("%s:%d", a.Path, a.StartLine))
		}
	}
	return out
}

func at(path string, line int) Note {
	return Note{Path: path, Line: line, Level: "warning", Title: "title", Text: "text"}
}

// Notes on lines of the diff become review comments, the others stay annotations.
func TestReview(t *testing.T) {
	s := reviewScene(t, at("evals/a.yaml", 10), at("evals/a.yaml", 40), at("evals/a.yaml", 9), at("evals/a.yaml", 41),
		at("evals/a.png", 10), at("evals/broken", 10), at("evals/elsewhere.yaml", 10))
	got := s.publish(t, done(bench.Regressed, "failed"))
	if len(got.outcome.Lost) > 0 {
		t.Errorf("lost %v", got.outcome.Lost)
	}
	if diff := cmp.Diff([]string{"evals/a.yaml:10", "evals/a.yaml:40"}, s.reviewed()); diff != "" {
		t.Errorf("review comments (-want +got):\n%s", diff)
	}
	want := []string{"evals/a.yaml:9", "evals/a.yaml:41", "evals/a.png:10", "evals/broken:10", "evals/elsewhere.yaml:10"}
	if diff := cmp.Diff(want, s.annotated()); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	reviews := s.server.Reviews(s.pull.Number)
	if len(reviews) != 1 || reviews[0].State != "COMMENTED" || reviews[0].CommitID != newSHA {
		t.Errorf("reviews %+v", reviews)
	}
}

// A note is written once, however often it is published; a new text is a new note, a person's copy of one hides nothing.
func TestReviewIsNotRepeated(t *testing.T) {
	s := reviewScene(t, at("evals/a.yaml", 12))
	s.publish(t, done(bench.Regressed, "failed"))
	s.ofRun(101).publish(t, done(bench.Regressed, "failed"))
	if got := s.reviewed(); len(got) != 1 {
		t.Errorf("twice: %q", got)
	}

	other := at("evals/a.yaml", 12)
	other.Text = "another text"
	s.notes = []Note{other}
	s.ofRun(102).publish(t, done(bench.Regressed, "failed"))
	if got := s.reviewed(); len(got) != 2 {
		t.Errorf("another text: %q", got)
	}

	copied := at("evals/a.yaml", 20)
	id := reviewer{key: "assay"}.noteID(copied)
	s.server.AddReviewComment(githubtest.ReviewComment{Pull: s.pull.Number, Path: "evals/a.yaml", Line: 20, Body: noteBody(copied, id)})
	s.notes = []Note{copied}
	s.ofRun(103).publish(t, done(bench.Regressed, "failed"))
	if got := s.reviewed(); len(got) != 4 {
		t.Errorf("after a copy: %q", got)
	}
}

// At most 20 comments make a review, worst first; the others are annotations.
func TestReviewIsBounded(t *testing.T) {
	var notes []Note
	for i := range 25 {
		notes = append(notes, at("evals/a.yaml", 10+i))
	}
	notes[24].Level = "failure"
	s := reviewScene(t, notes...)
	s.publish(t, done(bench.Regressed, "failed"))
	got := s.reviewed()
	if len(got) != 20 || got[0] != "evals/a.yaml:34" || len(s.annotated()) != 5 {
		t.Errorf("%d comments, the first at %v, %d annotations", len(got), got[:1], len(s.annotated()))
	}
}

func TestReviewTextIsInert(t *testing.T) {
	t.Parallel()
	body := noteBody(Note{Title: "--> <img src=x>", Text: "@octo/all [x](https://x.test)\n# title"}, "0123")
	want := "<!-- assay-note 0123 -->\n**"
	if !strings.HasPrefix(body, want) || strings.ContainsAny(strings.TrimPrefix(body, want), "<>") || strings.Contains(body, "@octo") || strings.Contains(body, "[x]") {
		t.Errorf("%q", body)
	}
	if idIn(body) != "0123" || idIn("x"+body) != "" || idIn(reviewMarker+"0123") != "" {
		t.Errorf("ids %q %q", idIn(body), idIn("x"+body))
	}
}
