package publish

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofri/go-github-ratelimit/v2/github_ratelimit"
	"github.com/gofri/go-github-ratelimit/v2/github_ratelimit/github_primary_ratelimit"
	"github.com/gofri/go-github-ratelimit/v2/github_ratelimit/github_secondary_ratelimit"
	"github.com/google/go-github/v62/github"
)

// How long GitHub may make us wait.
const (
	attemptLimit = 15 * time.Second // of one request: a JSON answer whole, another one's beginning
	mostWaiting  = 60 * time.Second // because of rate limits, all requests together
	betweenWrite = time.Second      // GitHub asks for this much between two writes
	mostAttempts = 4                // of one request
	firstBackoff = time.Second      // doubled with each attempt
	maxAnswer    = 64 << 20         // bytes of a JSON answer
)

// transport sends requests the way GitHub wants them sent: writes apart from each other, limits obeyed, and again when
// that can do no harm. Reading, changing and deleting may be done twice; a POST is sent again only when it surely did not
// take effect. Its caller looks, when unclear says so, and decides.
type transport struct {
	next http.RoundTripper
	log  func(string)

	mu        sync.Mutex
	lastWrite time.Time
	waited    time.Duration // of mostWaiting, outside of the rate limiter
	tired     bool          // the rate limiter waits no more
}

// newTransport stacks, from the client down: again and apart (transport), secondary and primary rate limits, one attempt.
func newTransport(base http.RoundTripper, host, token string, log func(string)) *transport {
	t := &transport{log: log}
	told := func(c *github_secondary_ratelimit.CallbackContext) {
		log(fmt.Sprintf("GitHub asks to slow down until %s", c.ResetTime.UTC().Format(time.RFC3339)))
	}
	t.next = github_ratelimit.New(attempt{base, host, token},
		github_secondary_ratelimit.WithLimitDetectedCallback(told),
		github_secondary_ratelimit.WithTotalSleepLimit(mostWaiting, func(*github_secondary_ratelimit.CallbackContext) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.tired = true
		}))
	return t
}

// RoundTrip sends a request, up to mostAttempts times.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	for n := 1; ; n++ {
		if err := t.apart(req); err != nil {
			return nil, err
		}
		resp, err := t.next.RoundTrip(req)
		wait, again := t.again(req, resp, err, n)
		if !again {
			return resp, err
		}
		t.log(fmt.Sprintf("%s %s: %s; again in %s", req.Method, req.URL.Path, noCommand(outcome(resp, err)), wait.Round(time.Second)))
		if resp != nil {
			resp.Body.Close()
		}
		if err := sleep(req.Context(), wait); err != nil {
			return nil, err
		}
	}
}

// apart waits until a write may follow the last one.
func (t *transport) apart(req *http.Request) error {
	if req.Method == http.MethodGet || req.Method == http.MethodHead {
		return nil
	}
	t.mu.Lock()
	now := time.Now()
	at := now
	if next := t.lastWrite.Add(betweenWrite); next.After(now) {
		at = next
	}
	t.lastWrite = at
	t.mu.Unlock()
	return sleep(req.Context(), at.Sub(now))
}

// again says whether a request is sent once more after its nth attempt, and when.
func (t *transport) again(req *http.Request, resp *http.Response, err error, n int) (time.Duration, bool) {
	if n >= mostAttempts || req.Context().Err() != nil {
		return 0, false
	}
	backoff := firstBackoff << (n - 1)
	switch {
	case limited(err):
		return 0, false // the limit ends much later
	case neverSent(err):
		return backoff, true
	case err == nil && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusForbidden):
		seconds, none := strconv.Atoi(resp.Header.Get("Retry-After"))
		if none != nil && resp.StatusCode == http.StatusForbidden {
			return 0, false // a permission
		}
		return t.allow(max(backoff, time.Duration(seconds)*time.Second))
	case req.Method == http.MethodPost || isOnce(req.Context()):
		return 0, false
	}
	return backoff, err != nil || resp.StatusCode >= 500
}

// allow takes a wait from what may be waited in all.
func (t *transport) allow(wait time.Duration) (time.Duration, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tired || t.waited+wait > mostWaiting {
		return 0, false
	}
	t.waited += wait
	return wait, true
}

// attempt sends a request once, with the token, and takes in the whole answer, so that one that was cut is known as such.
type attempt struct {
	base  http.RoundTripper
	host  string // that the token is for
	token string
}

// RoundTrip answers what it got, or a *lostError when the request was sent and its answer did not come whole.
func (a attempt) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	limit := time.AfterFunc(attemptLimit, func() { cancel(errSlow) })
	end := func() { limit.Stop(); cancel(nil) }
	out := req.Clone(ctx)
	if a.token != "" && req.URL.Host == a.host {
		out.Header.Set("Authorization", "Bearer "+a.token)
	}
	if req.GetBody != nil { // the rate limiter sends the same request again
		body, err := req.GetBody()
		if err != nil {
			end()
			return nil, err
		}
		out.Body = body
	}
	resp, err := a.base.RoundTrip(out)
	if err != nil {
		defer end()
		if neverSent(err) {
			return nil, err
		}
		return nil, lost(req, cmp.Or(slow(ctx), err))
	}
	if !isJSON(resp.Header) { // an archive may take longer; the caller's context bounds it
		limit.Stop()
		resp.Body = &ending{resp.Body, end}
		return resp, nil
	}
	defer end()
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, lost(req, cmp.Or(slow(ctx), err))
	case len(data) > maxAnswer:
		return nil, fmt.Errorf("%s %s: the answer is over %d bytes", req.Method, req.URL.Path, maxAnswer)
	case len(data) > 0 && !json.Valid(data):
		return nil, lost(req, errors.New("the answer is broken JSON"))
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}

// errSlow ends an attempt whose answer takes too long.
var errSlow = fmt.Errorf("no whole answer in %s", attemptLimit)

// slow is errSlow when that ended the attempt.
func slow(attempt context.Context) error {
	if err := context.Cause(attempt); err == errSlow {
		return err
	}
	return nil
}

func isJSON(h http.Header) bool { return strings.Contains(h.Get("Content-Type"), "json") }

// ending is a body that ends its request when it is closed.
type ending struct {
	io.ReadCloser
	end func()
}

func (e *ending) Close() error {
	defer e.end()
	return e.ReadCloser.Close()
}

// A lostError is a request that GitHub may have carried out without our knowing.
type lostError struct {
	what string
	err  error
}

func lost(req *http.Request, err error) error {
	return &lostError{req.Method + " " + req.URL.Path, err}
}

func (e *lostError) Error() string { return e.what + ": the answer was lost: " + e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// unclear tells whether a write may have taken effect although it failed.
func unclear(err error) bool {
	var le *lostError
	return errors.As(err, &le) || statusOf(err) >= 500
}

// neverSent tells whether no byte of a request left.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// limited tells whether GitHub takes no more requests for a long time.
func limited(err error) bool {
	var reached *github_primary_ratelimit.RateLimitReachedError
	var primary *github.RateLimitError
	var secondary *github.AbuseRateLimitError
	return errors.As(err, &reached) || errors.As(err, &primary) || errors.As(err, &secondary)
}

// statusOf is the HTTP status that an error of the client stands for, or 0.
func statusOf(err error) int {
	var answer *github.ErrorResponse
	if errors.As(err, &answer) && answer.Response != nil {
		return answer.Response.StatusCode
	}
	return 0
}

func outcome(resp *http.Response, err error) string {
	if err != nil {
		return err.Error()
	}
	return resp.Status
}

type onceKey struct{}

// once marks writes that must not be repeated without a look, since others write at the same place.
func once(ctx context.Context) context.Context { return context.WithValue(ctx, onceKey{}, true) }

func isOnce(ctx context.Context) bool { return ctx.Value(onceKey{}) != nil }

// sleep waits, or returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
