// Package githubtest is a GitHub of one repository for tests: a stateful server on loopback that holds every request and
// every answer against GitHub's published OpenAPI description, and can be told to fail in the ways that GitHub does.
//
// Fill the repository octo/demo with the Add methods, point a client at [Server.URL] with [Token], and look afterwards at
// what it holds:
//
//	hub := githubtest.New(t)
//	pull := hub.AddPull(githubtest.Pull{})
//	hub.Fail(githubtest.AnswerLost().On("POST", "/comments$").For(1))
//	… publish …
//	hub.Comments(pull.Number)
//
// It is stricter than GitHub where GitHub is silent: names that the description does not know fail the test, lengths are
// counted in bytes, and a token that reaches the blob store fails the test.
package githubtest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// Token is the only token that the server takes. Calls that carry it are made by [Server.Identity].
const Token = "good"

// maxBody is the largest body of a call.
const maxBody = 16 << 20

// rateLimit is how many calls an hour GITHUB_TOKEN may make.
const rateLimit = 1000

// A Server is the repository octo/demo with nothing in it. Fill it with the Add methods, then point a client at URL.
type Server struct {
	URL string // base of the REST API, http://127.0.0.1:port, without a slash at the end

	// Identity is who the token acts as: github-actions[bot] of type Bot, as with GITHUB_TOKEN. Set it before the first call.
	Identity User

	tb       testing.TB
	router   routers.Router
	blobs    string // base address of the blob store: the same server by another host name, so that clients drop the token
	ended    chan struct{}
	mu       sync.Mutex // guards all below
	state    *state
	before   *state // as it was before the last call that wrote; nil: none did
	faults   []*fault
	requests []Request
}

// A Request is a call that the server got.
type Request struct {
	Method, Path string
	Query        url.Values
	Header       http.Header
	Body         []byte
	Auth         string // the Authorization header
	Status       int    // of the answer; 0: none was given
	Faulty       bool   // a fault answered it
}

// New starts a server that ends with the test. A request or an answer that GitHub's description does not allow fails the
// test.
func New(tb testing.TB) *Server {
	tb.Helper()
	router, err := description()
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{
		Identity: User{Login: "github-actions[bot]", Type: "Bot"},
		tb:       tb,
		router:   router,
		ended:    make(chan struct{}),
		state:    newState(),
	}
	server := httptest.NewServer(s)
	s.URL = server.URL
	s.blobs = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	tb.Cleanup(func() {
		close(s.ended)
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

// Requests are all calls that came in, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// An answer is what a call gets. At most one of body and raw is set.
type answer struct {
	status int
	header http.Header
	body   any    // object or []object, completed by the description
	raw    []byte // sent as it is; the description says nothing of it
}

// refuse is an error in GitHub's words. Its details are objects or, for reviews, plain strings.
func refuse(status int, message string, details ...any) answer {
	body := object{
		"message":           message,
		"documentation_url": "https://docs.github.com/rest",
		"status":            strconv.Itoa(status),
	}
	if len(details) > 0 {
		body["errors"] = details
	}
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings only
	}
	return answer{status: status, raw: data}
}

// ServeHTTP answers a call: it is noted, held against the description, done, answered; a fault may step in at each point.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		reset(w) // the client went away
		return
	}
	if len(body) > maxBody {
		s.tb.Errorf("githubtest: %s %s: a body of more than %d bytes", r.Method, r.URL.Path, maxBody)
	}
	f, number := s.note(r, body)
	give := s.prepare(r, body)
	var a answer
	if f.takesEffect() {
		a = give(f.Stale)
	}
	a = f.spoil(a)
	s.limits(w.Header(), number)
	if !f.wait(r.Context(), s.ended) || f.Drop {
		reset(w)
		return
	}
	s.answered(number, a.status)
	f.send(w, a)
}

// note writes the call down and finds the fault for it.
func (s *Server) note(r *http.Request, body []byte) (Fault, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, faulty := s.takeFault(r)
	s.requests = append(s.requests, Request{
		Method: r.Method,
		Path:   r.URL.Path,
		Query:  r.URL.Query(),
		Header: r.Header.Clone(),
		Body:   body,
		Auth:   r.Header.Get("Authorization"),
		Faulty: faulty,
	})
	return f, len(s.requests) - 1
}

func (s *Server) answered(number, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[number].Status = status
}

// limits tells the primary rate limit, which a test cannot reach by calling: it is far above and comes with a fault.
func (s *Server) limits(h http.Header, calls int) {
	used := calls%rateLimit + 1
	h.Set("X-Ratelimit-Limit", strconv.Itoa(rateLimit))
	h.Set("X-Ratelimit-Used", strconv.Itoa(used))
	h.Set("X-Ratelimit-Remaining", strconv.Itoa(max(rateLimit-used, 1)))
	h.Set("X-Ratelimit-Reset", strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10))
	h.Set("X-Ratelimit-Resource", "core")
}

// prepare checks the call and gives what does it. Checking comes first, so a call that a fault swallows is checked too.
func (s *Server) prepare(r *http.Request, body []byte) func(stale bool) answer {
	if strings.HasPrefix(r.URL.Path, blobPath) {
		return func(bool) answer { return s.blob(r) }
	}
	route, params, err := s.router.FindRoute(r)
	if err != nil {
		s.tb.Errorf("githubtest: %s %s: %v", r.Method, r.URL.Path, err)
		return always(refuse(http.StatusNotFound, "Not Found"))
	}
	for name, value := range params {
		if params[name], err = url.PathUnescape(value); err != nil {
			s.tb.Errorf("githubtest: %s %s: %v", r.Method, r.URL.Path, err)
		}
	}
	if owner, of := params["owner"]; of && !strings.EqualFold(owner+"/"+params["repo"], repository) {
		s.tb.Errorf("githubtest: %s %s: the only repository is %s", r.Method, r.URL.Path, repository)
		return always(refuse(http.StatusNotFound, "Not Found"))
	}
	input := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: checks}
	if err := checkRequest(input, body); err != nil {
		s.tb.Errorf("githubtest: %s %s: the description does not allow this request: %.2000v", r.Method, r.URL.Path, err)
		return always(refuse(http.StatusUnprocessableEntity, "Invalid request."))
	}
	operation, ok := operations[r.Method+" "+route.Path]
	if !ok {
		s.tb.Errorf("githubtest: %s %s is described but not built", r.Method, route.Path)
		return always(refuse(http.StatusNotFound, "Not Found"))
	}
	if name, ok := operation.lacks(r.URL.Query()); ok {
		s.tb.Errorf("githubtest: %s %s: the query %q is described but not built", r.Method, route.Path, name)
	}
	return func(stale bool) answer {
		a := s.do(operation, &call{r: r, params: params, query: r.URL.Query(), body: body, blobs: s.blobs}, stale)
		return s.whole(input, a)
	}
}

func always(a answer) func(bool) answer { return func(bool) answer { return a } }

// do runs a call on the state, or on the state before the last write.
func (s *Server) do(operation operation, c *call, stale bool) answer {
	if a, ok := s.authorize(c); !ok {
		return a
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.r.Method == http.MethodGet {
		c.state = s.state
		if stale && s.before != nil {
			c.state = s.before
		}
		return operation.do(c)
	}
	before := s.state.snapshot()
	c.state = s.state
	a := operation.do(c)
	if a.status < http.StatusBadRequest {
		s.before = before
	}
	return a
}

// authorize finds who calls. Without a token a public repository can be read.
func (s *Server) authorize(c *call) (answer, bool) {
	switch c.r.Header.Get("Authorization") {
	case "Bearer " + Token, "token " + Token:
		c.by = known(s.Identity)
		return answer{}, true
	case "":
		if c.r.Method == http.MethodGet && c.r.URL.Path != "/user" && !strings.HasSuffix(c.r.URL.Path, "/zip") {
			return answer{}, true
		}
		return refuse(http.StatusUnauthorized, "Requires authentication"), false
	}
	return refuse(http.StatusUnauthorized, "Bad credentials"), false
}

// whole completes an answer by the description, and holds it against the description.
func (s *Server) whole(input *openapi3filter.RequestValidationInput, a answer) answer {
	at := input.Request.Method + " " + input.Request.URL.Path
	described := input.Route.Operation.Responses.Status(a.status)
	if a.body != nil {
		if described == nil || described.Value.Content["application/json"] == nil {
			s.tb.Errorf("githubtest: %s: the description has no answer %d", at, a.status)
			return a
		}
		body, err := complete(described.Value.Content["application/json"].Schema.Value, a.body, "answer")
		if err == nil {
			a.raw, err = json.Marshal(body)
		}
		if err != nil {
			s.tb.Errorf("githubtest: %s: %v", at, err)
			return a
		}
	}
	if a.header == nil {
		a.header = http.Header{}
	}
	if a.header.Get("Content-Type") == "" && len(a.raw) > 0 {
		a.header.Set("Content-Type", jsonType)
	}
	if a.header.Get("Content-Type") == rawType {
		return a // the description knows files only as JSON
	}
	if err := checkAnswer(input, a.status, a.header, a.raw); err != nil {
		s.tb.Errorf("githubtest: %s: the description does not allow this answer: %.2000v\n%.2000s", at, err, a.raw)
	}
	return a
}

const blobPath = "/_blobs/"

// blob is the blob store that artifacts and assets are fetched from. It needs no token, and a client that sends one has
// leaked it to a foreign host.
func (s *Server) blob(r *http.Request) answer {
	if r.Header.Get("Authorization") != "" {
		s.tb.Errorf("githubtest: %s %s: the token was sent to the blob store", r.Method, r.URL.Path)
		return answer{status: http.StatusUnauthorized, raw: []byte("<Error><Code>AuthenticationFailed</Code></Error>")}
	}
	id, err := strconv.ParseInt(strings.TrimPrefix(r.URL.Path, blobPath), 10, 64)
	if err != nil || r.Method != http.MethodGet || r.URL.Query().Get("sig") != signature {
		return answer{status: http.StatusForbidden, raw: []byte("<Error><Code>AuthenticationFailed</Code></Error>")}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.state.blob(id)
	if !ok {
		return answer{status: http.StatusNotFound, raw: []byte("<Error><Code>BlobNotFound</Code></Error>")}
	}
	return answer{status: http.StatusOK, header: http.Header{"Content-Type": {"application/octet-stream"}}, raw: data}
}
