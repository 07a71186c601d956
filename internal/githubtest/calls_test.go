package githubtest

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestCommentsComePageByPage(t *testing.T) {
	t.Parallel()
	next := regexp.MustCompile(`<([^>]*)>; rel="next"`)
	for _, test := range []struct {
		comments int
		query    string
		pages    []int
	}{
		{0, "", []int{0}},
		{1, "?per_page=100", []int{1}},
		{31, "", []int{30, 1}},
		{100, "?per_page=100", []int{100}},
		{101, "?per_page=100", []int{100, 1}},
		{250, "?per_page=500", []int{100, 100, 50}},
		{3, "?per_page=1", []int{1, 1, 1}},
	} {
		t.Run(strconv.Itoa(test.comments)+test.query, func(t *testing.T) {
			t.Parallel()
			s := New(t)
			p := s.AddPull(Pull{})
			var made, got []int64
			for range test.comments {
				made = append(made, s.AddComment(Comment{Issue: p.Number, Body: "x"}).ID)
			}
			var pages []int
			for at := "/issues/1/comments" + test.query; at != ""; {
				r := want(t, s, 200, "GET", at, "")
				page := r.ids(t)
				pages, got = append(pages, len(page)), append(got, page...)
				at = ""
				if m := next.FindStringSubmatch(r.Header.Get("Link")); m != nil {
					at = m[1]
				}
			}
			if diff := cmp.Diff(test.pages, pages); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(made, got); diff != "" {
				t.Errorf("not the comments in their order:\n%s", diff)
			}
		})
	}
}

func TestLinkHeader(t *testing.T) {
	t.Parallel()
	s := New(t)
	s.AddPull(Pull{})
	for range 5 {
		s.AddComment(Comment{Issue: 1, Body: "x"})
	}
	for at, want := range map[string][]string{
		"1": {"next=2", "last=3"},
		"2": {"prev=1", "next=3", "last=3", "first=1"},
		"3": {"prev=2", "first=1"},
		"9": {"prev=3", "first=1"},
	} {
		r := do(t, s, "GET", "/issues/1/comments?per_page=2&page="+at, "")
		var got []string
		for _, m := range regexp.MustCompile(`<([^>]*)>; rel="(\w+)"`).FindAllStringSubmatch(r.Header.Get("Link"), -1) {
			u, err := url.Parse(m[1])
			if err != nil {
				t.Fatal(err)
			}
			if u.Query().Get("per_page") != "2" {
				t.Errorf("%s loses per_page", m[1])
			}
			got = append(got, m[2]+"="+u.Query().Get("page"))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("page %s: %s", at, diff)
		}
	}
}

func TestCommentLife(t *testing.T) {
	t.Parallel()
	s := New(t)
	p := s.AddPull(Pull{})
	before := s.AddComment(Comment{Issue: p.Number, Body: "first", Author: User{Login: "ann"}})
	r := want(t, s, 201, "POST", "/issues/1/comments", `{"body":"hello"}`)
	if r.field(t, "user.login") != "github-actions[bot]" || r.field(t, "user.type") != "Bot" || r.field(t, "created_at") != r.field(t, "updated_at") {
		t.Errorf("%s", r.Body)
	}
	id := int64(r.field(t, "id").(float64))
	if id <= before.ID {
		t.Errorf("id %d after %d", id, before.ID)
	}
	if got, want := r.field(t, "html_url"), fmt.Sprintf("https://github.com/octo/demo/pull/1#issuecomment-%d", id); got != want {
		t.Errorf("html_url %s, want %s", got, want)
	}
	at := fmt.Sprintf("/issues/comments/%d", id)
	r = want(t, s, 200, "PATCH", at, `{"body":"changed"}`)
	if r.field(t, "updated_at").(string) <= r.field(t, "created_at").(string) {
		t.Errorf("an edit leaves no trace: %s", r.Body)
	}
	if r = want(t, s, 200, "GET", at, ""); r.field(t, "body") != "changed" {
		t.Errorf("%s", r.Body)
	}
	want(t, s, 204, "DELETE", at, "")
	for _, method := range []string{"GET", "DELETE"} {
		want(t, s, 404, method, at, "")
	}
	want(t, s, 404, "PATCH", at, `{"body":"again"}`)
	if diff := cmp.Diff([]Comment{before}, s.Comments(1)); diff != "" {
		t.Error(diff)
	}
	if r = want(t, s, 201, "POST", "/issues/1/comments", `{"body":"hello"}`); int64(r.field(t, "id").(float64)) <= id {
		t.Error("the id of a deleted comment came back")
	}
}

func TestCommentRefusals(t *testing.T) {
	t.Parallel()
	s := New(t)
	s.AddPull(Pull{})
	s.AddComment(Comment{Issue: 7, Body: "an issue"})
	want(t, s, 201, "POST", "/issues/7/comments", `{"body":"x"}`)
	want(t, s, 404, "POST", "/issues/8/comments", `{"body":"x"}`)
	want(t, s, 404, "GET", "/issues/8/comments", "")
	want(t, s, 422, "POST", "/issues/1/comments", `{"body":""}`)
	want(t, s, 201, "POST", "/issues/1/comments", `{"body":"`+strings.Repeat("x", 65536)+`"}`)
	r := want(t, s, 422, "POST", "/issues/1/comments", `{"body":"`+strings.Repeat("x", 65537)+`"}`)
	if got := r.field(t, "errors.0.message"); got != "body is too long (maximum is 65536 characters)" {
		t.Errorf("%v", got)
	}
	if got := len(s.Comments(1)); got != 1 {
		t.Errorf("%d comments, want 1", got)
	}
}

func TestReactions(t *testing.T) {
	t.Parallel()
	s := New(t)
	s.AddPull(Pull{})
	c := s.AddComment(Comment{Issue: 1, Body: "/eval"})
	at := fmt.Sprintf("/issues/comments/%d/reactions", c.ID)
	first := want(t, s, 201, "POST", at, `{"content":"eyes"}`)
	again := want(t, s, 200, "POST", at, `{"content":"eyes"}`)
	if first.field(t, "id") != again.field(t, "id") {
		t.Error("the same reaction twice")
	}
	want(t, s, 201, "POST", at, `{"content":"rocket"}`)
	want(t, s, 404, "POST", "/issues/comments/9/reactions", `{"content":"eyes"}`)
	if got := s.Reactions(); len(got) != 2 || got[0].Comment != c.ID || got[0].Content != "eyes" || got[1].Content != "rocket" {
		t.Errorf("%+v", got)
	}
	if got := want(t, s, 200, "GET", at+"?content=rocket", "").ids(t); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	s := New(t)
	p := s.AddPull(Pull{})
	at := "/statuses/" + p.Head.SHA
	if r := want(t, s, 200, "GET", "/commits/"+p.Head.SHA+"/status", ""); r.field(t, "state") != "pending" {
		t.Errorf("%s", r.Body)
	}
	want(t, s, 201, "POST", at, `{"state":"pending","context":"assay","description":"running","target_url":"https://example.com"}`)
	want(t, s, 201, "POST", at, `{"state":"success","context":"assay"}`)
	want(t, s, 422, "POST", at, `{"state":"success","description":"`+strings.Repeat("x", 141)+`"}`)
	want(t, s, 201, "POST", at, `{"state":"failure","description":"`+strings.Repeat("x", 140)+`"}`)
	want(t, s, 422, "POST", "/statuses/0000000000000000000000000000000000000000", `{"state":"success"}`)
	r := want(t, s, 200, "GET", "/commits/"+p.Head.SHA+"/status", "")
	if r.field(t, "state") != "failure" || r.field(t, "total_count") != 2.0 || r.field(t, "statuses.1.state") != "success" {
		t.Errorf("%s", r.Body)
	}
	if r = want(t, s, 200, "GET", "/commits/topic-1/statuses", ""); r.field(t, "2.state") != "pending" || r.field(t, "2.creator.login") != "github-actions[bot]" {
		t.Errorf("%s", r.Body)
	}
	var states []string
	for _, st := range s.Statuses(p.Head.SHA) {
		states = append(states, st.Context+" "+st.State)
	}
	if diff := cmp.Diff([]string{"assay pending", "assay success", "default failure"}, states); diff != "" {
		t.Error(diff)
	}
}

func TestCheckRunLife(t *testing.T) {
	t.Parallel()
	s := New(t)
	p := s.AddPull(Pull{})
	r := want(t, s, 201, "POST", "/check-runs", `{"name":"assay","head_sha":"`+p.Head.SHA+`","status":"in_progress","external_id":"k1"}`)
	if r.field(t, "status") != "in_progress" || r.field(t, "conclusion") != nil || r.field(t, "completed_at") != nil {
		t.Errorf("%s", r.Body)
	}
	at := fmt.Sprintf("/check-runs/%v", r.field(t, "id"))
	note := `{"path":"a.yml","start_line":1,"end_line":2,"annotation_level":"warning","message":"m"}`
	output := func(annotations ...string) string {
		return `"output":{"title":"t","summary":"s","annotations":[` + strings.Join(annotations, ",") + `]}`
	}
	want(t, s, 200, "PATCH", at, `{`+output(slices.Repeat([]string{note}, 50)...)+`}`)
	r = want(t, s, 200, "PATCH", at, `{"conclusion":"neutral",`+output(note, note)+`}`)
	if r.field(t, "status") != "completed" || r.field(t, "completed_at") == nil || r.field(t, "output.annotations_count") != 52.0 {
		t.Errorf("%s", r.Body)
	}
	if r = want(t, s, 200, "GET", at+"/annotations?per_page=100", ""); r.field(t, "51.path") != "a.yml" {
		t.Errorf("%s", r.Body)
	}
	got := s.CheckRuns()
	if len(got) != 1 || got[0].ExternalID != "k1" || got[0].Title != "t" || got[0].Summary != "s" || len(got[0].Annotations) != 52 ||
		got[0].Annotations[0] != (Annotation{Path: "a.yml", StartLine: 1, EndLine: 2, Level: "warning", Message: "m"}) {
		t.Errorf("%+v", got)
	}
	want(t, s, 404, "PATCH", "/check-runs/9", `{"status":"in_progress"}`)
	want(t, s, 404, "GET", "/check-runs/9", "")
}

func TestCheckRunRefusals(t *testing.T) {
	t.Parallel()
	s := New(t)
	p := s.AddPull(Pull{})
	long := strings.Repeat("é", 65535/2+1) // too many bytes, not too many characters
	for name, rest := range map[string]string{
		"completed without conclusion": `"status":"completed"`,
		"summary":                      `"output":{"title":"t","summary":"` + long + `"}`,
		"text":                         `"output":{"title":"t","summary":"s","text":"` + long + `"}`,
		"message":                      `"output":{"title":"t","summary":"s","annotations":[{"path":"a","start_line":1,"end_line":1,"annotation_level":"notice","message":"` + long + long + `"}]}`,
		"lines":                        `"output":{"title":"t","summary":"s","annotations":[{"path":"a","start_line":2,"end_line":1,"annotation_level":"notice","message":"m"}]}`,
		"line 0":                       `"output":{"title":"t","summary":"s","annotations":[{"path":"a","start_line":0,"end_line":1,"annotation_level":"notice","message":"m"}]}`,
	} {
		if r := do(t, s, "POST", "/check-runs", `{"name":"assay","head_sha":"`+p.Head.SHA+`",`+rest+`}`); r.Status != 422 {
			t.Errorf("%s: status %d", name, r.Status)
		}
	}
	want(t, s, 422, "POST", "/check-runs", `{"name":"assay","head_sha":"abc"}`)
	if got := s.CheckRuns(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestCheckRunsOfACommit(t *testing.T) {
	t.Parallel()
	s := New(t)
	p := s.AddPull(Pull{})
	s.AddCheckRun(CheckRun{Name: "assay", HeadSHA: p.Head.SHA, Conclusion: "failure", ExternalID: "old"})
	s.AddCheckRun(CheckRun{Name: "lint", HeadSHA: p.Head.SHA})
	s.AddCheckRun(CheckRun{Name: "assay", HeadSHA: p.Head.SHA, Status: "in_progress", ExternalID: "new"})
	s.AddCheckRun(CheckRun{Name: "assay", HeadSHA: p.Base.SHA})
	for query, count := range map[string]float64{
		"":                                     2,
		"?check_name=assay":                    1,
		"?check_name=assay&filter=all":         2,
		"?status=completed":                    1,
		"?check_name=lint&status=completed":    0,
		"?check_name=assay&status=in_progress": 1,
	} {
		if r := want(t, s, 200, "GET", "/commits/"+p.Head.SHA+"/check-runs"+query, ""); r.field(t, "total_count") != count {
			t.Errorf("%s: %s", query, r.Body)
		}
	}
	if r := want(t, s, 200, "GET", "/commits/"+p.Head.SHA+"/check-runs?check_name=assay", ""); r.field(t, "check_runs.0.external_id") != "new" {
		t.Errorf("not the newest: %s", r.Body)
	}
}

const patch = `@@ -1,3 +1,4 @@ head
 one
-two
+TWO
+and a half
 three
@@ -10,2 +11,2 @@
 ten
-eleven
+ELEVEN
\ No newline at end of file
`

func TestInHunk(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		side        string
		first, last int
		want        bool
	}{
		{"RIGHT", 1, 1, true}, {"RIGHT", 2, 3, true}, {"RIGHT", 1, 4, true}, {"RIGHT", 4, 4, true}, {"RIGHT", 5, 5, false},
		{"RIGHT", 4, 11, false}, {"RIGHT", 11, 12, true}, {"RIGHT", 13, 13, false}, {"RIGHT", 0, 1, false}, {"RIGHT", 2, 1, false},
		{"LEFT", 2, 2, true}, {"LEFT", 3, 3, true}, {"LEFT", 4, 4, false}, {"LEFT", 10, 11, true}, {"LEFT", 12, 12, false},
	} {
		if got := inHunk(patch, test.side, test.first, test.last); got != test.want {
			t.Errorf("%s %d–%d: %v, want %v", test.side, test.first, test.last, got, test.want)
		}
	}
	if inHunk("", "RIGHT", 1, 1) {
		t.Error("a file without a patch has no lines")
	}
}

func TestReviews(t *testing.T) {
	t.Parallel()
	s := New(t)
	p := s.AddPull(Pull{Files: []File{{Name: "evals/a/case.yaml", Patch: patch}, {Name: "big.bin"}}})
	at := "/pulls/1/reviews"
	review := func(comment string) string { return `{"event":"COMMENT","comments":[` + comment + `]}` }
	for name, comment := range map[string]string{
		"line off the diff":    `{"path":"evals/a/case.yaml","line":9,"side":"RIGHT","body":"x"}`,
		"file off the diff":    `{"path":"other.yaml","line":1,"body":"x"}`,
		"file without a patch": `{"path":"big.bin","line":1,"body":"x"}`,
		"lines of two hunks":   `{"path":"evals/a/case.yaml","start_line":4,"line":11,"body":"x"}`,
		"no body":              `{"path":"evals/a/case.yaml","line":2,"body":""}`,
	} {
		good := `{"path":"evals/a/case.yaml","line":2,"body":"good"}`
		if r := do(t, s, "POST", at, review(good+","+comment)); r.Status != 422 {
			t.Errorf("%s: status %d", name, r.Status)
		}
	}
	want(t, s, 422, "POST", at, `{"event":"COMMENT"}`)
	want(t, s, 422, "POST", at, `{"event":"COMMENT","body":"x","commit_id":"`+p.Base.SHA+`"}`)
	want(t, s, 404, "POST", "/pulls/2/reviews", `{"event":"COMMENT","body":"x"}`)
	if len(s.Reviews(1)) != 0 || len(s.ReviewComments(1)) != 0 {
		t.Fatal("a refused review left something behind")
	}

	s.AddReviewComment(ReviewComment{Pull: 1, Author: User{Login: "ann"}, Path: "big.bin", Line: 1, Body: "hm"})
	r := want(t, s, 200, "POST", at, `{"event":"COMMENT","body":"top","commit_id":"`+p.Head.SHA+`","comments":[`+
		`{"path":"evals/a/case.yaml","line":3,"start_line":2,"start_side":"RIGHT","side":"RIGHT","body":"here"}]}`)
	if r.field(t, "state") != "COMMENTED" || r.field(t, "user.login") != "github-actions[bot]" {
		t.Errorf("%s", r.Body)
	}
	if r = want(t, s, 200, "GET", "/pulls/1/comments", ""); r.field(t, "1.body") != "here" || r.field(t, "1.line") != 3.0 || r.field(t, "0.user.login") != "ann" {
		t.Errorf("%s", r.Body)
	}
	if got := want(t, s, 200, "GET", at, "").ids(t); len(got) != 1 || s.ReviewComments(1)[1].Review != got[0] {
		t.Errorf("reviews %v, comments %+v", got, s.ReviewComments(1))
	}
}

func TestPulls(t *testing.T) {
	t.Parallel()
	s := New(t)
	s.AddPull(Pull{Head: Branch{Ref: "topic"}})
	s.AddPull(Pull{Head: Branch{Repo: "eve/demo", Ref: "main"}, Draft: true, Files: []File{{Name: "a", Patch: patch}}})
	s.AddPull(Pull{Head: Branch{Repo: "eve/demo", Ref: "old"}, State: "closed"})
	numbers := func(query string) []int {
		r := want(t, s, 200, "GET", "/pulls"+query, "")
		var got []int
		for i := range r.ids(t) {
			got = append(got, int(r.field(t, fmt.Sprintf("%d.number", i)).(float64)))
		}
		return got
	}
	for query, want := range map[string][]int{
		"":                              {2, 1},
		"?state=all":                    {3, 2, 1},
		"?state=all&direction=asc":      {1, 2, 3},
		"?state=closed":                 {3},
		"?head=eve:main":                {2},
		"?head=octo:main":               nil,
		"?head=octo:topic&base=main":    {1},
		"?head=octo:topic&base=release": nil,
		"?head=main":                    {2, 1}, // no owner: GitHub ignores the filter
	} {
		if diff := cmp.Diff(want, numbers(query)); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
	r := want(t, s, 200, "GET", "/pulls/2", "")
	if r.field(t, "head.repo.full_name") != "eve/demo" || r.field(t, "head.repo.fork") != true || r.field(t, "draft") != true ||
		int64(r.field(t, "head.repo.id").(float64)) != s.RepoID("eve/demo") || r.field(t, "base.repo.id") != 1.0 || r.field(t, "commits") != 1.0 {
		t.Errorf("%s", r.Body)
	}
	if r = want(t, s, 200, "GET", "/pulls/2/files", ""); r.field(t, "0.additions") != 3.0 || r.field(t, "0.deletions") != 2.0 || r.field(t, "0.patch") != patch {
		t.Errorf("%s", r.Body)
	}
	before := r.field(t, "0.filename")
	s.UpdatePull(2, func(p *Pull) { p.Head.SHA = sha("pushed", 2); p.Files = nil })
	if r = want(t, s, 200, "GET", "/pulls/2/commits", ""); r.field(t, "1.sha") != sha("pushed", 2) {
		t.Errorf("%s", r.Body)
	}
	if got := want(t, s, 200, "GET", "/pulls/2/files", "").ids(t); before != "a" || len(got) != 0 {
		t.Errorf("%v", got)
	}
	want(t, s, 404, "GET", "/pulls/4", "")
}

// graph lays
//
//	A ─ B ─ C ─ M   main
//	     ╲ D ─╱ ╲
//	      ╲      E  topic
//	       F        side
func graph(s *Server) {
	s.AddCommit(
		Commit{SHA: id("a")},
		Commit{SHA: id("b"), Parents: []string{id("a")}},
		Commit{SHA: id("c"), Parents: []string{id("b")}},
		Commit{SHA: id("d"), Parents: []string{id("b")}},
		Commit{SHA: id("9"), Parents: []string{id("c"), id("d")}},
		Commit{SHA: id("e"), Parents: []string{id("9")}},
		Commit{SHA: id("f"), Parents: []string{id("b")}},
		Commit{SHA: id("1")},
	)
	s.SetBranch("main", id("9"))
	s.SetBranch("topic", id("e"))
	s.SetBranch("feature/side", id("f"))
	s.SetBranch("orphan", id("1"))
}

func id(letter string) string { return strings.Repeat(letter, 40) }

func TestCommits(t *testing.T) {
	t.Parallel()
	s := New(t)
	graph(s)
	for query, letters := range map[string]string{
		"":                          "9dcba",
		"?sha=topic":                "e9dcba",
		"?sha=" + id("c"):           "cba",
		"?sha=feature%2Fside":       "fba",
		"?sha=topic&per_page=2":     "e9",
		"?sha=main&per_page=3&page": "9dc",
	} {
		query = strings.TrimSuffix(query, "&page")
		r := want(t, s, 200, "GET", "/commits"+query, "")
		var got string
		for i := range r.ids(t) {
			got += r.field(t, fmt.Sprintf("%d.sha", i)).(string)[:1]
		}
		if got != letters {
			t.Errorf("%s: %s, want %s", query, got, letters)
		}
	}
	if r := want(t, s, 200, "GET", "/commits/main", ""); r.field(t, "parents.0.sha") != id("c") || r.field(t, "parents.1.sha") != id("d") {
		t.Errorf("%s", r.Body)
	}
	want(t, s, 404, "GET", "/commits?sha=nowhere", "")
	want(t, s, 422, "GET", "/commits/nowhere", "")
}

func TestCompare(t *testing.T) {
	t.Parallel()
	s := New(t)
	graph(s)
	s.AddPull(Pull{Number: 5, Base: Branch{SHA: id("9")}, Head: Branch{Repo: "eve/demo", Ref: "main", SHA: id("7")}})
	for basehead, want := range map[string][4]any{
		"main...topic":            {"ahead", 1.0, 0.0, id("9")},
		"topic...main":            {"behind", 0.0, 1.0, id("9")},
		"main...main":             {"identical", 0.0, 0.0, id("9")},
		"main...feature%2Fside":   {"diverged", 1.0, 3.0, id("b")},
		id("c") + "..." + id("d"): {"diverged", 1.0, 1.0, id("b")},
		id("d") + "...topic":      {"ahead", 3.0, 0.0, id("d")},
		"main...eve:main":         {"ahead", 1.0, 0.0, id("9")},
	} {
		r := do(t, s, "GET", "/compare/"+basehead, "")
		if r.Status != 200 {
			t.Errorf("%s: %s", basehead, r.Body)
			continue
		}
		got := [4]any{r.field(t, "status"), r.field(t, "ahead_by"), r.field(t, "behind_by"), r.field(t, "merge_base_commit.sha")}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", basehead, diff)
		}
	}
	for _, basehead := range []string{"main...orphan", "main...nowhere", "main", "main..topic"} {
		want(t, s, 404, "GET", "/compare/"+basehead, "")
	}
}

// TestHistoryLaws holds the graph to what git says of any graph.
func TestHistoryLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		st := newState()
		n := rapid.IntRange(2, 12).Draw(t, "commits")
		for i := range n {
			c := Commit{SHA: sha("law", i)}
			for parent := range i {
				if rapid.IntRange(0, 3).Draw(t, "parent") == 0 {
					c.Parents = append(c.Parents, sha("law", parent))
				}
			}
			if rapid.Bool().Draw(t, "same date") {
				c.Date = start // clocks of developers lie
			}
			st.addCommit(c)
		}
		pick := func(name string) string { return sha("law", rapid.IntRange(0, n-1).Draw(t, name)) }
		base, head := pick("base"), pick("head")

		place := map[string]int{}
		all := st.history(head)
		for i, c := range all {
			if _, twice := place[c.SHA]; twice {
				t.Fatalf("%s is listed twice", c.SHA)
			}
			place[c.SHA] = i
		}
		for _, c := range all {
			for _, parent := range c.Parents {
				if at, listed := place[parent]; !listed || at < place[c.SHA] {
					t.Fatalf("parent %s of %s is not listed after it", parent, c.SHA)
				}
			}
		}
		ahead := len(st.between(base, head))
		common := 0
		for _, c := range st.history(base) {
			if _, both := place[c.SHA]; both {
				common++
			}
		}
		if ahead+common != len(all) {
			t.Fatalf("%d commits ahead and %d common of %d", ahead, common, len(all))
		}
		best, found := st.mergeBase(base, head)
		if found != (common > 0) {
			t.Fatalf("a merge base: %v, with %d common commits", found, common)
		}
		for sha := range shas(st.history(base)) {
			_, both := place[sha]
			if found && both && sha != best.SHA && shas(st.history(sha))[best.SHA] {
				t.Fatalf("%s is common too and after the merge base %s", sha, best.SHA)
			}
		}
	})
}

func TestContents(t *testing.T) {
	t.Parallel()
	s := New(t)
	graph(s)
	s.AddFile(id("a"), "evals/suite.yaml", []byte("old"))
	s.AddFile("main", "evals/suite.yaml", []byte(strings.Repeat("new ", 20)))
	s.AddFile("main", "evals/a/case.yaml", []byte("case"))
	s.AddFile("topic", "big", make([]byte, 1<<20+1))
	read := func(path string) string {
		r := want(t, s, 200, "GET", path, "")
		data, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(r.field(t, "content").(string), "\n", ""))
		if err != nil || r.field(t, "encoding") != "base64" || r.field(t, "type") != "file" {
			t.Errorf("%s: %v: %s", path, err, r.Body)
		}
		return string(data)
	}
	for path, want := range map[string]string{
		"/contents/evals/suite.yaml":                          strings.Repeat("new ", 20),
		"/contents/evals/suite.yaml?ref=topic":                strings.Repeat("new ", 20),
		"/contents/evals/suite.yaml?ref=" + id("c"):           "old",
		"/contents/evals%2Fsuite.yaml?ref=refs/heads/main":    strings.Repeat("new ", 20),
		"/contents/evals/a/case.yaml?ref=" + id("9"):          "case",
		"/contents/evals/suite.yaml?ref=feature%2Fside":       "old",
		"/contents/evals/suite.yaml?ref=heads/feature%2Fside": "old",
	} {
		if got := read(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	raw := want(t, s, 200, "GET", "/contents/evals/a/case.yaml", "", "Accept", "application/vnd.github.raw+json")
	if string(raw.Body) != "case" {
		t.Errorf("%q", raw.Body)
	}
	if r := want(t, s, 200, "GET", "/contents/big?ref=topic", ""); r.field(t, "encoding") != "none" || r.field(t, "content") != "" {
		t.Errorf("a large file came within JSON")
	}
	if r := want(t, s, 200, "GET", "/contents/evals", ""); r.field(t, "0.type") != "dir" || r.field(t, "0.path") != "evals/a" || r.field(t, "1.type") != "file" {
		t.Errorf("%s", r.Body)
	}
	for _, path := range []string{"evals/none.yaml", "evals/suite.yaml?ref=orphan", "evals/suite.yaml?ref=nowhere", "eval"} {
		want(t, s, 404, "GET", "/contents/"+path, "")
	}
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	s := New(t)
	for login, role := range map[string]string{"root": "admin", "May": "maintain", "will": "write", "tri": "triage", "out": "none"} {
		s.SetPermission(login, role)
	}
	for login, want := range map[string][2]any{
		"root": {"admin", "admin"}, "may": {"write", "maintain"}, "will": {"write", "write"}, "tri": {"read", "triage"},
		"out": {"none", "none"}, "stranger": {"read", "read"}, "dependabot%5Bbot%5D": {"read", "read"},
	} {
		r := do(t, s, "GET", "/collaborators/"+login+"/permission", "")
		if got := [2]any{r.field(t, "permission"), r.field(t, "role_name")}; got != want {
			t.Errorf("%s: %v, want %v", login, got, want)
		}
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	s := New(t)
	own := s.AddRun(Run{HeadSHA: id("a")})
	foreign := s.AddRun(Run{HeadSHA: id("b"), HeadRepo: "eve/demo", Event: "pull_request", Path: ".github/workflows/other.yml", Status: "in_progress", Conclusion: "-", Attempt: 2})
	r := want(t, s, 200, "GET", fmt.Sprintf("/actions/runs/%d", own.ID), "")
	if r.field(t, "event") != "push" || r.field(t, "conclusion") != "success" || r.field(t, "path") != ".github/workflows/assay.yml" || r.field(t, "head_repository.id") != 1.0 {
		t.Errorf("%s", r.Body)
	}
	r = want(t, s, 200, "GET", fmt.Sprintf("/actions/runs/%d", foreign.ID), "")
	if r.field(t, "event") != "pull_request" || r.field(t, "conclusion") != nil || r.field(t, "run_attempt") != 2.0 ||
		int64(r.field(t, "head_repository.id").(float64)) != s.RepoID("eve/demo") {
		t.Errorf("%s", r.Body)
	}
	want(t, s, 404, "GET", "/actions/runs/9", "")
}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	if f, err := w.Create("benchmark.json"); err != nil {
		t.Fatal(err)
	} else if _, err := f.Write([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(packed.Bytes())

	s := New(t)
	main := s.AddRun(Run{HeadSHA: id("a")})
	fork := s.AddRun(Run{HeadSHA: id("b"), HeadRepo: "eve/demo"})
	a := s.AddArtifact(Artifact{Run: main.ID, Name: "assay", Zip: packed.Bytes()})
	s.AddArtifact(Artifact{Run: main.ID, Name: "log"})
	old := s.AddArtifact(Artifact{Run: fork.ID, Name: "assay", Expired: true, Digest: "-"})

	r := want(t, s, 200, "GET", "/actions/artifacts?name=assay&per_page=100", "")
	if r.field(t, "total_count") != 2.0 || r.field(t, "artifacts.0.id") != float64(old.ID) || r.field(t, "artifacts.0.digest") != nil ||
		r.field(t, "artifacts.0.expired") != true || int64(r.field(t, "artifacts.0.workflow_run.head_repository_id").(float64)) != s.RepoID("eve/demo") ||
		r.field(t, "artifacts.1.workflow_run.head_sha") != id("a") || r.field(t, "artifacts.1.digest") != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Errorf("%s", r.Body)
	}
	if r = want(t, s, 200, "GET", fmt.Sprintf("/actions/runs/%d/artifacts", main.ID), ""); r.field(t, "total_count") != 2.0 || r.field(t, "artifacts.0.name") != "log" {
		t.Errorf("%s", r.Body)
	}
	want(t, s, 404, "GET", "/actions/runs/9/artifacts", "")
	if r = want(t, s, 200, "GET", fmt.Sprintf("/actions/artifacts/%d", a.ID), ""); r.field(t, "name") != "assay" {
		t.Errorf("%s", r.Body)
	}
	want(t, s, 404, "GET", "/actions/artifacts/9", "")
	want(t, s, 404, "GET", "/actions/artifacts/9/zip", "")
	want(t, s, 410, "GET", fmt.Sprintf("/actions/artifacts/%d/zip", old.ID), "")
	want(t, s, 401, "GET", fmt.Sprintf("/actions/artifacts/%d/zip", a.ID), "", "Authorization", "")

	blob := want(t, s, 302, "GET", fmt.Sprintf("/actions/artifacts/%d/zip", a.ID), "").Header.Get("Location")
	if got := want(t, s, 200, "GET", blob, "", "Authorization", ""); !bytes.Equal(got.Body, packed.Bytes()) {
		t.Errorf("other bytes: %q", got.Body)
	}
	want(t, s, 403, "GET", strings.Split(blob, "?")[0], "", "Authorization", "")
}

func TestTokenAtTheBlobStoreFailsTheTest(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	s := New(r)
	a := s.AddArtifact(Artifact{Run: s.AddRun(Run{HeadSHA: id("a")}).ID, Name: "assay"})
	blob := want(t, s, 302, "GET", fmt.Sprintf("/actions/artifacts/%d/zip", a.ID), "").Header.Get("Location")
	if len(r.errors) != 0 {
		t.Fatal(r.errors)
	}
	want(t, s, 401, "GET", blob, "")
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], "token was sent") {
		t.Errorf("%q", r.errors)
	}
}

func TestReleases(t *testing.T) {
	t.Parallel()
	s := New(t)
	want(t, s, 404, "GET", "/releases/latest", "")
	s.AddRelease(Release{Tag: "v1"})
	two := s.AddRelease(Release{Tag: "v2", Assets: []Asset{{Name: "benchmark.json", Data: []byte("{}")}}})
	s.AddRelease(Release{Tag: "v3-rc", Prerelease: true})
	s.AddRelease(Release{Tag: "v4", Draft: true})
	r := want(t, s, 200, "GET", "/releases/latest", "")
	if r.field(t, "tag_name") != "v2" || r.field(t, "assets.0.name") != "benchmark.json" || r.field(t, "assets.0.id") != float64(two.Assets[0].ID) {
		t.Errorf("%s", r.Body)
	}
	want(t, s, 200, "GET", "/releases/tags/v1", "")
	want(t, s, 404, "GET", "/releases/tags/v4", "")
	at := fmt.Sprintf("/releases/assets/%d", two.Assets[0].ID)
	if r = want(t, s, 200, "GET", at, ""); r.field(t, "size") != 2.0 {
		t.Errorf("%s", r.Body)
	}
	blob := want(t, s, 302, "GET", at, "", "Accept", "application/octet-stream").Header.Get("Location")
	if got := want(t, s, 200, "GET", blob, "", "Authorization", ""); string(got.Body) != "{}" {
		t.Errorf("%q", got.Body)
	}
	want(t, s, 404, "GET", "/releases/assets/9", "")
}

func TestRepository(t *testing.T) {
	t.Parallel()
	s := New(t)
	if r := want(t, s, 200, "GET", "", ""); r.field(t, "id") != 1.0 || r.field(t, "default_branch") != "main" || r.field(t, "full_name") != "octo/demo" {
		t.Errorf("%s", r.Body)
	}
	for _, made := range []time.Time{s.AddRelease(Release{Tag: "v1"}).Created, s.AddRun(Run{}).Created} {
		if !made.After(start) {
			t.Errorf("made at %v", made)
		}
	}
}

func TestManyClientsAtOnce(t *testing.T) {
	t.Parallel()
	s := New(t)
	s.AddPull(Pull{})
	const clients, each = 8, 10
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for n := range each {
				body := fmt.Sprintf(`{"body":"%d of %d"}`, n, client)
				if r, err := try(s, "POST", "/issues/1/comments", body); err != nil || r.Status != 201 {
					t.Errorf("%v %+v", err, r)
				}
				if r, err := try(s, "GET", "/issues/1/comments", ""); err != nil || r.Status != 200 {
					t.Errorf("%v %+v", err, r)
				}
				s.Comments(1)
				s.AddComment(Comment{Issue: 2, Body: "x"})
			}
		})
	}
	wg.Wait()
	seen := map[int64]bool{}
	for _, c := range append(s.Comments(1), s.Comments(2)...) {
		seen[c.ID] = true
	}
	if len(seen) != 2*clients*each {
		t.Errorf("%d comments, want %d", len(seen), 2*clients*each)
	}
	if got := len(s.Requests()); got != 2*clients*each {
		t.Errorf("%d requests", got)
	}
}
