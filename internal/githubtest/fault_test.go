package githubtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// comments is a server with a pull request that has one comment.
func comments(t testing.TB) *Server {
	s := New(t)
	s.AddPull(Pull{})
	s.AddComment(Comment{Issue: 1, Body: "a comment of some length, so that half of it is still something"})
	return s
}

func TestFaultyStatuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		fault  Fault
		status int
		header string // Name: value
		body   string // is within it
	}{
		{"unauthorized", Unauthorized(), 401, "", "Bad credentials"},
		{"forbidden", Forbidden(), 403, "X-Ratelimit-Remaining: ", "Resource not accessible by integration"},
		{"rate limit", RateLimited(time.Unix(2e9, 0)), 403, "X-Ratelimit-Remaining: 0", "API rate limit exceeded"},
		{"rate limit's end", RateLimited(time.Unix(2e9, 0)), 403, "X-Ratelimit-Reset: 2000000000", ""},
		{"secondary limit", SecondaryLimit(time.Minute), 403, "Retry-After: 60", "secondary rate limit"},
		{"not found", NotFound(), 404, "", "Not Found"},
		{"conflict", Conflict(), 409, "", "Conflict"},
		{"invalid", Invalid(), 422, "", "Validation Failed"},
		{"too many", TooMany(3 * time.Second), 429, "Retry-After: 3", "secondary rate limit"},
		{"down", Down(502), 502, "Content-Type: text/html", "<h1>Bad Gateway</h1>"},
		{"down, in JSON", Fault{Status: 500}, 500, "Content-Type: application/json", "Server Error"},
		{"own body", Fault{Status: 200, Body: "[]"}, 200, "", "[]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := comments(t)
			s.Fail(test.fault)
			for _, method := range []string{"GET", "POST"} {
				body := ""
				if method == "POST" {
					body = `{"body":"x"}`
				}
				r := want(t, s, test.status, method, "/issues/1/comments", body)
				name, value, _ := strings.Cut(test.header, ": ")
				if !strings.HasPrefix(r.Header.Get(name), value) || !strings.Contains(string(r.Body), test.body) {
					t.Errorf("%s: %v %s", method, r.Header, r.Body)
				}
			}
			if got := len(s.Comments(1)); got != 1 {
				t.Errorf("%d comments: a refused call took effect", got)
			}
			if forbidden := test.name == "forbidden"; forbidden && do(t, s, "GET", "/issues/1/comments", "").Header.Get("X-Ratelimit-Remaining") == "0" {
				t.Error("a missing permission looks like a rate limit")
			}
		})
	}
}

func TestFaultsMatch(t *testing.T) {
	t.Parallel()
	s := comments(t)
	s.Fail(Invalid().On("POST", "/comments$").For(2))
	s.Fail(Conflict().On("POST", "").For(1))
	s.Fail(NotFound().On("", "/pulls/1$"))
	post := func() int { return do(t, s, "POST", "/issues/1/comments", `{"body":"x"}`).Status }
	for i, want := range []int{422, 422, 409, 201, 201} {
		if got := post(); got != want {
			t.Errorf("call %d: %d, want %d", i+1, got, want)
		}
	}
	want(t, s, 200, "GET", "/issues/1/comments", "")
	want(t, s, 404, "GET", "/pulls/1", "")
	want(t, s, 200, "GET", "/pulls/1/files", "")
	s.Heal()
	want(t, s, 200, "GET", "/pulls/1", "")
	faulty := 0
	for _, r := range s.Requests() {
		if r.Faulty {
			faulty++
		}
	}
	if faulty != 4 {
		t.Errorf("%d faulty requests, want 4", faulty)
	}
}

func TestFaultyCallsAreChecked(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	s := New(r)
	s.Fail(Down(503))
	want(t, s, 503, "POST", "/issues/1/comments", `{}`)
	if len(r.errors) != 1 {
		t.Errorf("%q", r.errors)
	}
}

func TestAppliedAllTheSame(t *testing.T) {
	t.Parallel()
	s := comments(t)
	s.Fail(Fault{Status: 502, Apply: true})
	want(t, s, 502, "POST", "/issues/1/comments", `{"body":"x"}`)
	if got := len(s.Comments(1)); got != 2 {
		t.Errorf("%d comments, want 2", got)
	}
}

func TestLostConnections(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		fault    Fault
		comments int // after a POST
		status   int // 0: none came
	}{
		{"answer lost", AnswerLost(), 2, 0},
		{"refused", Refused(), 1, 0},
		{"reset", Reset(), 2, 201},
		{"reset within an error", Fault{Status: 502, Cut: true}, 1, 502},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := comments(t)
			s.Fail(test.fault)
			r, err := try(s, "POST", "/issues/1/comments", `{"body":"x"}`)
			// A reset may overtake the bytes before it, so the status may be lost as well.
			if err == nil || r.Status != 0 && r.Status != test.status {
				t.Errorf("status %d, error %v", r.Status, err)
			}
			if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%v", err)
			}
			if got := len(s.Comments(1)); got != test.comments {
				t.Errorf("%d comments, want %d", got, test.comments)
			}
		})
	}
}

func TestTruncated(t *testing.T) {
	t.Parallel()
	s := comments(t)
	s.Fail(Truncated())
	for _, method := range []string{"GET", "POST"} {
		body := ""
		if method == "POST" {
			body = `{"body":"x"}`
		}
		r := do(t, s, method, "/issues/1/comments", body)
		if r.Status >= 300 || len(r.Body) == 0 || json.Valid(r.Body) || strconv.Itoa(len(r.Body)) != r.Header.Get("Content-Length") {
			t.Errorf("%s: status %d: %s", method, r.Status, r.Body)
		}
	}
	if got := len(s.Comments(1)); got != 2 {
		t.Errorf("%d comments, want 2", got)
	}
}

func TestStaleList(t *testing.T) {
	t.Parallel()
	s := comments(t)
	s.Fail(StaleList().On("GET", ""))
	list := func() int { return len(do(t, s, "GET", "/issues/1/comments", "").ids(t)) }
	if got := list(); got != 1 {
		t.Errorf("%d comments before any write, want 1", got)
	}
	for i := range 2 {
		c := want(t, s, 201, "POST", "/issues/1/comments", `{"body":"x"}`)
		if got := list(); got != 1+i {
			t.Errorf("%d comments after write %d, want %d", got, i+1, 1+i)
		}
		want(t, s, 404, "GET", fmt.Sprintf("/issues/comments/%v", c.field(t, "id")), "")
	}
	want(t, s, 422, "POST", "/issues/1/comments", `{"body":""}`) // a refused write hides nothing
	if got := list(); got != 2 {
		t.Errorf("%d comments, want 2", got)
	}
	s.Heal()
	if got := list(); got != 3 {
		t.Errorf("%d comments, want 3", got)
	}
}

// TestStaleKeepsWhatAnEditReplaced holds snapshots to be snapshots.
func TestStaleKeepsWhatAnEditReplaced(t *testing.T) {
	t.Parallel()
	s := comments(t)
	p := s.AddPull(Pull{})
	check := s.AddCheckRun(CheckRun{Name: "assay", HeadSHA: p.Head.SHA, Title: "old"})
	first := s.Comments(1)[0]
	s.Fail(StaleList().On("GET", ""))
	want(t, s, 200, "PATCH", fmt.Sprintf("/issues/comments/%d", first.ID), `{"body":"new"}`)
	if r := do(t, s, "GET", "/issues/1/comments", ""); r.field(t, "0.body") != first.Body {
		t.Errorf("%s", r.Body)
	}
	want(t, s, 200, "PATCH", fmt.Sprintf("/check-runs/%d", check.ID), `{"output":{"title":"new","summary":"s"}}`)
	if r := do(t, s, "GET", fmt.Sprintf("/check-runs/%d", check.ID), ""); r.field(t, "output.title") != "old" {
		t.Errorf("%s", r.Body)
	}
	want(t, s, 204, "DELETE", fmt.Sprintf("/issues/comments/%d", first.ID), "")
	if r := do(t, s, "GET", "/issues/1/comments", ""); r.field(t, "0.body") != "new" {
		t.Errorf("%s", r.Body)
	}
}

func TestSlow(t *testing.T) {
	t.Parallel()
	s := comments(t)
	s.Fail(Slow(time.Hour))
	client := http.Client{Timeout: 50 * time.Millisecond}
	req, err := http.NewRequest("POST", s.URL+"/repos/octo/demo/issues/1/comments", strings.NewReader(`{"body":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+Token)
	req.Header.Set("Content-Type", "application/json")
	if resp, err := client.Do(req); err == nil {
		resp.Body.Close()
		t.Fatalf("status %d before the delay was over", resp.StatusCode)
	}
	if got := len(s.Comments(1)); got != 2 {
		t.Errorf("%d comments, want 2: the effect comes before the wait", got)
	}
	s.Heal()
	s.Fail(Slow(time.Millisecond))
	want(t, s, 200, "GET", "/issues/1/comments", "")
}

// TestEndsWhileSlow holds the server to end with its test, also when a client still waits.
func TestEndsWhileSlow(t *testing.T) {
	t.Parallel()
	waits := make(chan struct{})
	t.Run("server", func(sub *testing.T) {
		s := comments(sub)
		s.Fail(Slow(time.Hour))
		go func() {
			defer close(waits)
			if r, err := try(s, "GET", "/issues/1/comments", ""); err == nil {
				t.Errorf("an answer after all: %+v", r)
			}
		}()
		for len(s.Requests()) == 0 {
			time.Sleep(time.Millisecond)
		}
	})
	<-waits
}

func TestWrongFaultEndsTheTest(t *testing.T) {
	t.Parallel()
	r := &fatal{TB: t}
	s := New(r)
	func() {
		defer func() { _ = recover() }()
		s.Fail(Fault{Path: "("})
	}()
	if !r.ended {
		t.Error("a broken regular expression went unnoticed")
	}
}

// A fatal is a test that notes its end.
type fatal struct {
	testing.TB
	ended bool
}

func (f *fatal) Fatalf(string, ...any) {
	f.ended = true
	panic("ended")
}
