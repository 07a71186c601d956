package report

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// describedLangfuse is a Langfuse that takes what its published description allows. It keeps scores and spans by their ids.
type describedLangfuse struct {
	t             *testing.T
	check         func(r *http.Request, body []byte) error
	scores, spans map[string]int
}

func newDescribedLangfuse(t *testing.T) *describedLangfuse {
	doc, err := openapi3.NewLoader().LoadFromFile("testdata/langfuse-openapi.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return &describedLangfuse{t: t, scores: map[string]int{}, spans: map[string]int{}, check: func(r *http.Request, body []byte) error {
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.ContentLength = int64(len(body))
		route, params, err := router.FindRoute(r)
		if err != nil {
			return err
		}
		return openapi3filter.ValidateRequest(r.Context(), &openapi3filter.RequestValidationInput{
			Request: r, PathParams: params, Route: route,
			Options: &openapi3filter.Options{AuthenticationFunc: func(_ context.Context, in *openapi3filter.AuthenticationInput) error {
				if user, secret, ok := in.RequestValidationInput.Request.BasicAuth(); !ok || user != "pk" || secret != "sk" {
					return errors.New("no key")
				}
				return nil
			}},
		})
	}}
}

func (l *describedLangfuse) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		l.t.Error(err)
	}
	if r.Header.Get("Content-Type") == "application/x-protobuf" { // described in words only: the same message as JSON is described in full
		var traces tracepb.TracesData
		if err := proto.Unmarshal(body, &traces); err != nil {
			l.t.Error(err)
		}
		for _, s := range traces.ResourceSpans[0].ScopeSpans[0].Spans {
			l.spans[string(s.TraceId)+string(s.SpanId)]++
		}
		if body, err = (protojson.MarshalOptions{UseEnumNumbers: true}).Marshal(&traces); err != nil {
			l.t.Error(err)
		}
		body = regexp.MustCompile(`"intValue":\s*"(-?\d+)"`).ReplaceAll(body, []byte(`"intValue":$1`)) // the description wants it so
		r.Header.Set("Content-Type", "application/json")
	} else {
		l.scores[string(body)]++
	}
	if err := l.check(r, body); err != nil {
		l.t.Errorf("%s: %v", r.URL.Path, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, "{}")
}

// What Langfuse is sent is as its published description has it, and is the same when it is sent twice.
func TestLangfuseByItsDescription(t *testing.T) {
	receiver := newDescribedLangfuse(t)
	server := httptest.NewServer(receiver)
	defer server.Close()
	m, r := exampleCell()
	for range 2 {
		p := &Pusher{
			URL: server.URL + "/api/public/otel/v1/traces", Scores: server.URL + "/api/public/scores", Client: NewClient(),
			Header: map[string]string{"Authorization": "Basic cGs6c2s="}, Wait: func(context.Context, time.Duration) error { return errors.New("it waits") },
		}
		spans := ForLangfuse(m, r, exampleSpans(t, true))
		if err := errors.Join(p.AddSpans(t.Context(), spans), p.AddScores(t.Context(), LangfuseScores(r)), p.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		if !p.Outcome.Whole() || p.Outcome.Scores != 7 {
			t.Errorf("%+v", p.Outcome)
		}
		if len(receiver.spans) != len(spans) || len(receiver.scores) != 7 {
			t.Errorf("%d spans and %d scores are there, want %d and 7", len(receiver.spans), len(receiver.scores), len(spans))
		}
	}
	for id, n := range receiver.spans {
		if n != 2 {
			t.Errorf("span %x came %d times", id, n)
		}
	}
}

// A cell that was not scored is neither passed nor failed in Langfuse.
func TestLangfuseScoresOfErrored(t *testing.T) {
	_, r := exampleCell()
	r.Status, r.Score, r.Scores, r.DiffScope = "errored", nil, nil, nil
	if got := LangfuseScores(r); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}
