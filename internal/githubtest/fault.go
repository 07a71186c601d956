package githubtest

import (
	"context"
	"maps"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"time"
)

// A Fault makes calls fail. The first fault that matches a call is taken, Times times. The calls are held against the
// description all the same; what a fault answers is not.
type Fault struct {
	Method, Path string        // Path is a regular expression of the URL's path; empty matches all
	Times        int           // 0: for ever
	Status       int           // answered instead of the real answer; 0: the real one
	Header       http.Header   // added to the answer
	Body         string        // of the answer, when Status is set; empty: what GitHub writes with that status
	Apply        bool          // the call takes effect all the same (accepted, but the answer is lost)
	Cut          bool          // the connection is reset in the middle of the body
	Truncate     bool          // the body ends in the middle, and says that it is whole
	Drop         bool          // the connection is reset before the first byte of an answer; no effect without Apply
	Delay        time.Duration // before the answer, after the effect
	Stale        bool          // a list is answered as it was before the last write
}

// On narrows the fault to a method and to paths that the regular expression matches. Empty words match everything.
func (f Fault) On(method, path string) Fault {
	f.Method, f.Path = method, path
	return f
}

// For limits the fault to so many calls.
func (f Fault) For(times int) Fault {
	f.Times = times
	return f
}

// Unauthorized is what a wrong or ended token gets: 401.
func Unauthorized() Fault { return Fault{Status: http.StatusUnauthorized} }

// Forbidden is a permission that the workflow did not ask for: 403, Resource not accessible by integration.
func Forbidden() Fault { return Fault{Status: http.StatusForbidden} }

// RateLimited is the primary rate limit, spent until reset: 403 with X-RateLimit-Remaining: 0.
func RateLimited(reset time.Time) Fault {
	return Fault{
		Status: http.StatusForbidden,
		Header: http.Header{
			"X-Ratelimit-Remaining": {"0"},
			"X-Ratelimit-Used":      {strconv.Itoa(rateLimit)},
			"X-Ratelimit-Reset":     {strconv.FormatInt(reset.Unix(), 10)},
		},
		Body: `{"message":"API rate limit exceeded for installation ID 1.","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api","status":"403"}`,
	}
}

// SecondaryLimit is the limit on bursts: 403 with Retry-After in whole seconds.
func SecondaryLimit(retryAfter time.Duration) Fault {
	return Fault{Status: http.StatusForbidden, Header: after(retryAfter), Body: secondary}
}

const secondary = `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again.","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`

// NotFound is 404, which GitHub also answers where a permission to write is missing.
func NotFound() Fault { return Fault{Status: http.StatusNotFound} }

// Conflict is 409.
func Conflict() Fault { return Fault{Status: http.StatusConflict} }

// Invalid is 422.
func Invalid() Fault { return Fault{Status: http.StatusUnprocessableEntity} }

// TooMany is 429 with Retry-After in whole seconds.
func TooMany(retryAfter time.Duration) Fault {
	return Fault{Status: http.StatusTooManyRequests, Header: after(retryAfter), Body: secondary}
}

func after(d time.Duration) http.Header {
	return http.Header{"Retry-After": {strconv.Itoa(int(d / time.Second))}}
}

// Down is a 5xx status with a page that is not JSON; the call has no effect.
func Down(status int) Fault {
	return Fault{
		Status: status,
		Header: http.Header{"Content-Type": {"text/html"}},
		Body:   "<html><body><h1>" + http.StatusText(status) + "</h1></body></html>",
	}
}

// Truncated is a body that ends in the middle of its JSON. The call has its effect.
func Truncated() Fault { return Fault{Truncate: true} }

// Reset is a connection reset in the middle of the body. The call has its effect.
func Reset() Fault { return Fault{Cut: true} }

// AnswerLost takes the call and resets the connection before the answer.
func AnswerLost() Fault { return Fault{Drop: true, Apply: true} }

// Refused resets the connection before the call has an effect.
func Refused() Fault { return Fault{Drop: true} }

// StaleList answers as a replica that has not seen the last write.
func StaleList() Fault { return Fault{Stale: true} }

// Slow answers late. The call has its effect before the wait.
func Slow(by time.Duration) Fault { return Fault{Delay: by} }

// Fail adds a fault behind those that are there.
func (s *Server) Fail(f Fault) {
	s.tb.Helper()
	path, err := regexp.Compile(f.Path)
	if err != nil {
		s.tb.Fatalf("githubtest: path of a fault: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &fault{Fault: f, path: path})
}

// Heal takes all faults away.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// A fault is one that waits for its calls.
type fault struct {
	Fault
	path  *regexp.Regexp
	taken int
}

// takeFault finds the fault for a call; without one it is the zero fault, which changes nothing. The server's lock is held.
func (s *Server) takeFault(r *http.Request) (f Fault, found bool) {
	for _, f := range s.faults {
		if f.Method != "" && f.Method != r.Method || !f.path.MatchString(r.URL.Path) || f.Times > 0 && f.taken == f.Times {
			continue
		}
		f.taken++
		return f.Fault, true
	}
	return Fault{}, false
}

// takesEffect says whether the call is done at all.
func (f Fault) takesEffect() bool { return f.Apply || f.Status == 0 && !f.Drop }

// spoil makes the fault's answer of the real one.
func (f Fault) spoil(a answer) answer {
	if f.Status != 0 {
		body := f.Body
		if body == "" {
			body = string(refuse(f.Status, message(f.Status)).raw)
		}
		a = answer{status: f.Status, raw: []byte(body), header: http.Header{"Content-Type": {jsonType}}}
	}
	if len(f.Header) > 0 {
		header := http.Header{}
		maps.Copy(header, a.header)
		for name, values := range f.Header {
			header[http.CanonicalHeaderKey(name)] = values
		}
		a.header = header
	}
	if f.Truncate {
		a.raw = a.raw[:len(a.raw)/2]
	}
	return a
}

// message is what GitHub says with a status.
func message(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "Bad credentials"
	case http.StatusForbidden:
		return "Resource not accessible by integration"
	case http.StatusUnprocessableEntity:
		return "Validation Failed"
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return "Server Error"
	}
	return http.StatusText(status)
}

// wait holds the answer back. It is false when nobody waits for the answer any more.
func (f Fault) wait(client context.Context, ended <-chan struct{}) bool {
	if f.Delay == 0 {
		return true
	}
	timer := time.NewTimer(f.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-client.Done():
	case <-ended:
	}
	return false
}

// send writes the answer, or what the fault leaves of it.
func (f Fault) send(w http.ResponseWriter, a answer) {
	maps.Copy(w.Header(), a.header)
	if a.status != http.StatusNoContent {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.raw)))
	}
	w.WriteHeader(a.status)
	if !f.Cut {
		_, _ = w.Write(a.raw) // an error means that the client went away
		return
	}
	_, _ = w.Write(a.raw[:len(a.raw)/2])
	_ = http.NewResponseController(w).Flush()
	reset(w)
}

// reset ends a connection so that the client sees a reset, not an end.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the next best thing
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
