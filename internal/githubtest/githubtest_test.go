package githubtest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
)

// A recorder is a test that notes its errors instead of failing.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	errors []string
}

func (r *recorder) Errorf(format string, a ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, a...))
}

// A reply is an answer as a client sees it.
type reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// field is a part of the body by its path, such as 0.user.login.
func (r reply) field(t *testing.T, path string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(r.Body, &v); err != nil {
		t.Fatalf("%v: %s", err, r.Body)
	}
	for part := range strings.SplitSeq(path, ".") {
		switch w := v.(type) {
		case map[string]any:
			v = w[part]
		case []any:
			v = w[atoi(part)]
		default:
			t.Fatalf("%s: nothing at %s: %s", path, part, r.Body)
		}
	}
	return v
}

// ids are the ids of a list.
func (r reply) ids(t *testing.T) []int64 {
	t.Helper()
	var list []struct{ ID int64 }
	if err := json.Unmarshal(r.Body, &list); err != nil {
		t.Fatalf("%v: %s", err, r.Body)
	}
	var ids []int64
	for _, item := range list {
		ids = append(ids, item.ID)
	}
	return ids
}

// try makes a call that may fail. path is below the repository, or whole when it starts with /user, /repos or http.
func try(s *Server, method, path, body string, header ...string) (reply, error) {
	target := path
	switch {
	case strings.HasPrefix(path, "/user"), strings.HasPrefix(path, "/repos"):
		target = s.URL + path
	case !strings.HasPrefix(path, "http"):
		target = s.URL + "/repos/octo/demo" + path
	}
	req, err := http.NewRequest(method, target, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+Token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, data}, err
}

func do(t *testing.T, s *Server, method, path, body string, header ...string) reply {
	t.Helper()
	r, err := try(s, method, path, body, header...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// want makes a call and holds it to a status.
func want(t *testing.T, s *Server, status int, method, path, body string, header ...string) reply {
	t.Helper()
	r := do(t, s, method, path, body, header...)
	if r.Status != status {
		t.Fatalf("%s %s: status %d, want %d: %s", method, path, r.Status, status, r.Body)
	}
	return r
}

func TestEveryDescribedCallIsBuilt(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(openapi)
	if err != nil {
		t.Fatal(err)
	}
	var described []string
	for path, item := range doc.Paths.Map() {
		if routed, found := slashed[path]; found {
			path = routed
		}
		for method, operation := range item.Operations() {
			name := method + " " + path
			described = append(described, name)
			for _, query := range operations[name].query {
				if operation.Parameters.GetByInAndName("query", query) == nil {
					t.Errorf("%s: the query %s is built but not described", name, query)
				}
			}
		}
	}
	slices.Sort(described)
	if diff := cmp.Diff(described, slices.Sorted(maps.Keys(operations))); diff != "" {
		t.Errorf("described (-) and built (+):\n%s", diff)
	}
}

func TestWrongRequestsFailTheTest(t *testing.T) {
	t.Parallel()
	tooMany := strings.Repeat(`{"path":"a","start_line":1,"end_line":1,"annotation_level":"notice","message":"m"},`, 51)
	tests := []struct {
		name, method, path, body string
		want                     string
	}{
		{"unknown path", "GET", "/issues/1/timeline", "", "no matching operation"},
		{"unknown method", "PUT", "/issues/1/comments", "", "method not allowed"},
		{"no body", "POST", "/issues/1/comments", "", "value is required"},
		{"body is not JSON", "POST", "/issues/1/comments", "{", "failed to decode"},
		{"missing field", "POST", "/issues/1/comments", `{}`, `property "body" is missing`},
		{"wrong type", "POST", "/issues/1/comments", `{"body":1}`, "must be a string"},
		{"unknown field", "POST", "/issues/1/comments", `{"body":"x","boddy":"y"}`, "body.boddy is not in the description"},
		{"unknown field within", "POST", "/check-runs", `{"name":"a","head_sha":"b","output":{"title":"a","summary":"b","txt":"c"}}`, "body.output.txt"},
		{"body on GET", "GET", "/issues/1/comments", `{}`, "request body not allowed"},
		{"unknown query", "GET", "/issues/1/comments?perpage=1", "", `query "perpage"`},
		{"wrong query", "GET", "/issues/1/comments?page=one", "", "page"},
		{"id is not a number", "GET", "/issues/comments/x", "", "comment_id"},
		{"conclusion", "POST", "/check-runs", `{"name":"a","head_sha":"b","conclusion":"passed"}`, "conclusion"},
		{"51 annotations", "POST", "/check-runs", `{"name":"a","head_sha":"b","output":{"title":"a","summary":"b","annotations":[` + strings.TrimSuffix(tooMany, ",") + `]}}`, "maximum number of items is 50"},
		{"state of a status", "POST", "/statuses/abc", `{"state":"passed"}`, "state"},
		{"review event", "POST", "/pulls/1/reviews", `{"event":"COMMENTED","body":"x"}`, "event"},
		{"reaction", "POST", "/issues/comments/1/reactions", `{"content":"shrug"}`, "content"},
		{"query that is not built", "GET", "/commits?author=x", "", "described but not built"},
		{"other repository", "GET", "/repos/octo/other", "", "the only repository is octo/demo"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{TB: t}
			s := New(r)
			s.AddPull(Pull{})
			got := do(t, s, test.method, test.path, test.body)
			if got.Status < 400 && test.name != "query that is not built" {
				t.Errorf("status %d: %s", got.Status, got.Body)
			}
			if len(r.errors) != 1 || !strings.Contains(r.errors[0], test.want) {
				t.Errorf("errors %q, want one with %q", r.errors, test.want)
			}
		})
	}
}

func TestWrongAnswersFailTheTest(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(openapi)
	if err != nil {
		t.Fatal(err)
	}
	schema := doc.Components.Schemas["issue-comment"].Value
	for _, test := range []struct {
		name  string
		shown object
		want  string
	}{
		{"unknown field", object{"text": "x"}, "answer.text is not in the description"},
		{"unknown field within", object{"user": object{"name_": "x"}}, "answer.user.name_"},
	} {
		if _, err := complete(schema, test.shown, "answer"); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	r := &recorder{TB: t}
	s := New(r)
	s.AddPull(Pull{State: "merged"})
	do(t, s, "GET", "/pulls/1", "")
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], "does not allow this answer") {
		t.Errorf("errors %q, want one about the answer's state", r.errors)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	s := New(t)
	s.AddPull(Pull{})
	const comments = "/issues/1/comments"
	if r := want(t, s, 401, "GET", comments, "", "Authorization", "Bearer bad"); r.field(t, "message") != "Bad credentials" {
		t.Errorf("%s", r.Body)
	}
	want(t, s, 200, "GET", comments, "", "Authorization", "")
	want(t, s, 200, "GET", comments, "", "Authorization", "token "+Token)
	want(t, s, 401, "POST", comments, `{"body":"x"}`, "Authorization", "")
	want(t, s, 401, "GET", "/user", "", "Authorization", "")
	if r := want(t, s, 403, "GET", "/user", ""); r.field(t, "message") != "Resource not accessible by integration" {
		t.Errorf("%s", r.Body)
	}
	if len(s.Comments(1)) != 0 {
		t.Error("a comment was made without a token")
	}

	person := New(t)
	person.Identity = User{Login: "ann"}
	if r := want(t, person, 200, "GET", "/user", ""); r.field(t, "login") != "ann" || r.field(t, "type") != "User" {
		t.Errorf("%s", r.Body)
	}
}

func TestRequestsAreKept(t *testing.T) {
	t.Parallel()
	s := New(t)
	s.AddPull(Pull{})
	r := want(t, s, 201, "POST", "/issues/1/comments", `{"body":"x"}`)
	want(t, s, 200, "GET", "/issues/1/comments?per_page=100", "")
	type seen struct {
		Method, Path, Query, Body, Auth string
		Status                          int
	}
	var got []seen
	for _, q := range s.Requests() {
		got = append(got, seen{q.Method, q.Path, q.Query.Encode(), string(q.Body), q.Auth, q.Status})
	}
	const path = "/repos/octo/demo/issues/1/comments"
	if diff := cmp.Diff([]seen{
		{"POST", path, "", `{"body":"x"}`, "Bearer good", 201},
		{"GET", path, "per_page=100", "", "Bearer good", 200},
	}, got); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"Limit", "Remaining", "Used", "Reset", "Resource"} {
		if r.Header.Get("X-RateLimit-"+name) == "" {
			t.Errorf("no X-RateLimit-%s", name)
		}
	}
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	all := Webhooks(t)
	for name, data := range all {
		event, _, _ := strings.Cut(name, "-")
		var payload struct {
			Action     string
			Repository struct{ Full_name string }
		}
		if err := json.Unmarshal(data, &payload); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if payload.Repository.Full_name == "" || payload.Action != "" && !strings.HasPrefix(name, event+"-"+payload.Action) {
			t.Errorf("%s: action %q of repository %q", name, payload.Action, payload.Repository.Full_name)
		}
	}
	for _, name := range []string{"pull_request-opened", "pull_request-synchronize", "issue_comment-created", "pull_request_review-submitted", "workflow_run-completed", "push", "workflow_dispatch"} {
		if all[name] == nil {
			t.Errorf("no example %s", name)
		}
	}
}

func BenchmarkDescription(b *testing.B) {
	for b.Loop() {
		if _, err := openapi3.NewLoader().LoadFromData(openapi); err != nil {
			b.Fatal(err)
		}
	}
}
