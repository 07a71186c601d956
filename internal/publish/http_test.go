package publish

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// scripted answers requests one after the other, and notes when they came and what they held.
type scripted struct {
	answers []func(*http.Request) (*http.Response, error)
	start   time.Time
	times   []time.Duration
	bodies  []string
	tokens  []string
}

func (s *scripted) RoundTrip(req *http.Request) (*http.Response, error) {
	body := ""
	if req.Body != nil {
		data, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		body = string(data)
	}
	n := len(s.times)
	s.times = append(s.times, time.Since(s.start))
	s.bodies = append(s.bodies, body)
	s.tokens = append(s.tokens, req.Header.Get("Authorization"))
	return s.answers[min(n, len(s.answers)-1)](req)
}

func says(status int, body string, header ...string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
	}
}

func fails(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

func cutBody(req *http.Request) (*http.Response, error) {
	resp, err := says(200, "")(req)
	resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"a":`), failingReader{}))
	return resp, err
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("connection reset by peer") }

func hangs(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

func TestTransport(t *testing.T) {
	ok := says(200, `{}`)
	const slowDown = `{"message":"You have exceeded a secondary rate limit."}`
	dial := fails(&net.OpError{Op: "dial", Err: errors.New("connection refused")})
	type answers = []func(*http.Request) (*http.Response, error)
	for _, c := range []struct {
		name    string
		method  string
		once    bool
		answers answers
		calls   int
		took    time.Duration
		status  int // 0: an error
		unclear bool
	}{
		{name: "reading is done again", method: "GET", answers: answers{says(502, ""), says(500, ""), ok}, calls: 3, took: 3 * time.Second, status: 200},
		{name: "not for ever", method: "GET", answers: answers{says(502, "")}, calls: 4, took: 7 * time.Second, status: 502},
		{name: "a cut body is read again", method: "GET", answers: answers{cutBody, ok}, calls: 2, took: time.Second, status: 200},
		{name: "broken JSON is read again", method: "GET", answers: answers{says(200, `{"a":`), ok}, calls: 2, took: time.Second, status: 200},
		{name: "a reset is read again", method: "GET", answers: answers{fails(errors.New("reset")), ok}, calls: 2, took: time.Second, status: 200},
		{name: "a hanging answer is given up", method: "GET", answers: answers{hangs, ok}, calls: 2, took: attemptLimit + time.Second, status: 200},
		{name: "a refusal is not asked again", method: "GET", answers: answers{says(404, `{}`)}, calls: 1, status: 404},
		{name: "a permission is not asked again", method: "POST", answers: answers{says(403, `{}`)}, calls: 1, status: 403},
		{name: "changing is done again", method: "PATCH", answers: answers{says(503, ""), ok}, calls: 2, took: time.Second, status: 200},
		{name: "deleting is done again", method: "DELETE", answers: answers{fails(errors.New("reset")), ok}, calls: 2, took: time.Second, status: 200},
		{name: "unless others change it too", method: "PATCH", once: true, answers: answers{fails(errors.New("reset"))}, calls: 1, unclear: true},
		{name: "a POST is not sent again", method: "POST", answers: answers{says(502, "")}, calls: 1, status: 502},
		{name: "nor when its answer is cut", method: "POST", answers: answers{cutBody}, calls: 1, unclear: true},
		{name: "nor when its answer is broken", method: "POST", answers: answers{says(201, `{"a`)}, calls: 1, unclear: true},
		{name: "nor when it hangs", method: "POST", answers: answers{hangs}, calls: 1, took: attemptLimit, unclear: true},
		{name: "a POST that never left is", method: "POST", answers: answers{dial, ok}, calls: 2, took: time.Second, status: 200},
		{name: "429 is obeyed", method: "POST", answers: answers{says(429, `{}`, "Retry-After", "7"), ok}, calls: 2, took: 7 * time.Second, status: 200},
		{name: "429 without a time backs off", method: "POST", answers: answers{says(429, `{}`), says(429, `{}`), ok}, calls: 3, took: 3 * time.Second, status: 200},
		{name: "a secondary limit is obeyed", method: "POST", answers: answers{says(403, slowDown, "Retry-After", "30"), ok}, calls: 2, took: 30 * time.Second, status: 200},
		{name: "up to a minute in all", method: "POST", answers: answers{says(403, slowDown, "Retry-After", "40")}, calls: 2, took: 40 * time.Second, status: 403},
		{name: "not for longer", method: "GET", answers: answers{says(429, `{}`, "Retry-After", "61")}, calls: 1, status: 429},
		{name: "a primary limit ends it", method: "GET", answers: answers{says(403, `{}`, "X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "946688400", "X-Ratelimit-Resource", "core")}, calls: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script := &scripted{answers: c.answers, start: time.Now()}
				tr := newTransport(script, "api.test", "secret", func(string) {})
				ctx := t.Context()
				if c.once {
					ctx = once(ctx)
				}
				req, err := http.NewRequestWithContext(ctx, c.method, "https://api.test/x", strings.NewReader("payload"))
				if err != nil {
					t.Fatal(err)
				}
				resp, err := tr.RoundTrip(req)
				status := 0
				if err == nil {
					status = resp.StatusCode
				}
				if took := time.Since(script.start); len(script.times) != c.calls || took != c.took || status != c.status || unclear(err) != c.unclear {
					t.Errorf("%d calls in %s, status %d, unclear %t (%v); want %d in %s, %d, %t", len(script.times), took, status, unclear(err), err, c.calls, c.took, c.status, c.unclear)
				}
				for _, body := range script.bodies {
					if body != "payload" {
						t.Errorf("the body was sent as %q", body)
					}
				}
				time.Sleep(2 * time.Hour) // the limiter's goroutine waits for the end of the limit
			})
		})
	}
}

// GitHub asks for a second between two writes, whoever makes them.
func TestWritesAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script := &scripted{answers: []func(*http.Request) (*http.Response, error){says(200, `{}`)}, start: time.Now()}
		tr := newTransport(script, "api.test", "secret", func(string) {})
		for _, method := range []string{"POST", "GET", "PATCH", "GET", "DELETE"} {
			req, err := http.NewRequestWithContext(t.Context(), method, "https://api.test/x", nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tr.RoundTrip(req); err != nil {
				t.Fatal(err)
			}
		}
		want := []time.Duration{0, 0, time.Second, time.Second, 2 * time.Second}
		for i := range want {
			if script.times[i] != want[i] {
				t.Errorf("call %d came at %s, want %s", i, script.times[i], want[i])
			}
		}
	})
}

func TestTokenStaysAtHome(t *testing.T) {
	script := &scripted{answers: []func(*http.Request) (*http.Response, error){says(200, `{}`)}}
	tr := newTransport(script, "api.test", "secret", func(string) {})
	for _, address := range []string{"https://api.test/x", "https://blobs.test/x"} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tr.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
	}
	if script.tokens[0] != "Bearer secret" || script.tokens[1] != "" {
		t.Errorf("tokens were %q", script.tokens)
	}
}

// Whatever GitHub does, a request ends with its context.
func TestTransportEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		tr := newTransport(&scripted{answers: []func(*http.Request) (*http.Response, error){hangs}}, "api.test", "", func(string) {})
		req, err := http.NewRequestWithContext(ctx, "GET", "https://api.test/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tr.RoundTrip(req); err == nil || time.Since(start) != 20*time.Second {
			t.Errorf("ended after %s with %v", time.Since(start), err)
		}
	})
}

func TestNewHub(t *testing.T) {
	for _, c := range []struct{ api, owner, repo, err string }{
		{"https://api.github.com", "octo", "demo", ""},
		{"https://ghes.test/api/v3/", "octo", "demo", ""},
		{"ghes.test", "octo", "demo", "not like https://"},
		{"", "octo", "demo", "not like https://"},
		{"https://api.github.com", "", "demo", "not like owner/name"},
	} {
		_, err := NewHub("t", c.api, c.owner, c.repo, time.Now, func(string) {})
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q %q: %v, want %q", c.api, c.owner, err, c.err)
		}
	}
}
