package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
)

var exampleStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// exampleCell is a cell with all that can be known of one.
func exampleCell() (result.Manifest, result.Result) {
	yes, no, half, exit, turns := true, false, 0.5, 0, 2
	in, out, cost := int64(10), int64(20), 0.25
	began := exampleStart.Add(time.Second)
	m := result.Manifest{Tool: "1.0", Suite: "demo", Digest: "sha256:1", Seed: "s", Created: exampleStart, Commit: strings.Repeat("ab", 20)}
	r := result.Result{
		Cell:    plan.Cell{Case: "tz", Harness: "claude", Model: "opus", Condition: "with", Trial: 1, Key: "k1"},
		Attempt: 1, Status: result.Passed, Score: &half, ConditionVerified: &yes, Started: exampleStart,
		Took:      result.Durations{Place: time.Second, Agent: 10 * time.Second, Total: 15 * time.Second},
		Agent:     result.Agent{Stop: trace.StopEndTurn, FinalText: "Done.", Exit: &exit, Turns: &turns, Usage: &trace.Usage{Input: &in, Output: &out, CostUSD: &cost}, Model: "opus-5", Version: "2.1", Started: &began},
		DiffScope: &diffscope.Scope{Counts: diffscope.Counts{FilesTouched: 1, LinesAdded: 2, LinesRemoved: 1, Hunks: 1}},
		Scores: []result.Score{
			{ID: "correct", Type: "tests", Gate: true, Passed: &yes, Evidence: "7 passed"},
			{ID: "small", Type: "diff_scope", Passed: &no, Value: &half, Evidence: "\x1b[31m=too large"},
			{ID: "judged", Type: "llm_judge", Error: "no answer"},
		},
	}
	return m, r
}

func second(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// exampleTrace is what its agent did. seen: a gateway saw the calls of its models.
func exampleTrace(seen bool) iter.Seq2[trace.Event, error] {
	in, cached, out, cost := int64(5), int64(100), int64(7), 0.01
	list := []trace.Event{
		{At: 0, Kind: trace.KindSessionStart, Session: &trace.Session{Harness: "claude"}},
		{At: second(0.1), Kind: trace.KindUserMessage, Text: "Fix it."},
		{At: second(2), Kind: trace.KindThinking, Text: "Where?"},
		{At: second(2.5), Kind: trace.KindToolCall, Tool: &trace.Tool{ID: "a", Name: "Bash", Kind: trace.ToolExecute, Input: json.RawMessage(`{"command":"ls"}`)}},
		{At: second(3), Kind: trace.KindPermissionRequest, Ask: &trace.Ask{ID: "p", Name: "Bash", Input: "ls"}},
		{At: second(4), Kind: trace.KindToolResult, Tool: &trace.Tool{ID: "a", Status: trace.StatusError, Output: "\xff no"}},
		{At: second(4.2), Kind: trace.KindToolCall, Tool: &trace.Tool{ID: "b", Name: "Task", Kind: trace.ToolAgent}},
		{At: second(5), Kind: trace.KindAssistantText, Parent: "b", Text: "I help."},
		{At: second(5.5), Kind: trace.KindToolCall, Parent: "b", Tool: &trace.Tool{ID: "c", Name: "Read"}},
		{At: second(6), Kind: trace.KindError, Err: &trace.Fault{Class: trace.ClassWarning, Detail: "slow"}},
		{At: second(9), Kind: trace.KindAssistantText, Text: "Done."},
		{At: second(9.5), Kind: trace.KindStop, Stop: &trace.Stop{Reason: trace.StopEndTurn}},
	}
	if seen {
		calls := []trace.Event{
			{At: second(2.4), Kind: trace.KindModelCall, Usage: &trace.Usage{Input: &in, CacheRead: &cached, Output: &out, CostUSD: &cost}, Call: &trace.ModelCall{Ordinal: 1, Lane: "main", Model: "opus", HTTP: 200, Finish: "tool", FirstByte: second(0.5), Took: second(2)}},
			{At: second(5.4), Kind: trace.KindModelCall, Call: &trace.ModelCall{Ordinal: 2, Lane: "sub:1", Model: "haiku", HTTP: 529, Took: second(1)}},
			{At: second(8.9), Kind: trace.KindModelCall, Call: &trace.ModelCall{Ordinal: 3, Lane: "main", Model: "opus", Took: second(2)}},
		}
		list = append(list, calls...)
		slices.SortStableFunc(list, func(a, b trace.Event) int { return int(a.At - b.At) })
	}
	return func(yield func(trace.Event, error) bool) {
		for i, e := range list {
			e.Seq = i + 1
			if !yield(e, nil) {
				return
			}
		}
	}
}

func exampleSpans(t testing.TB, seen bool) []Span {
	t.Helper()
	m, r := exampleCell()
	spans, err := Spans(m, r, exampleTrace(seen))
	if err != nil {
		t.Fatal(err)
	}
	return spans
}

// The spans of a cell, as a person reads them, and what Langfuse gets of it.
func TestSpans(t *testing.T) {
	m, r := exampleCell()
	var seen, outside, langfuse bytes.Buffer
	print := func(out io.Writer, spans []Span) {
		for _, s := range spans {
			b, err := json.MarshalIndent(s, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(out, "%s\n", b)
		}
	}
	print(&seen, exampleSpans(t, true))
	print(&outside, exampleSpans(t, false))
	print(&langfuse, ForLangfuse(m, r, exampleSpans(t, true)))
	for _, s := range LangfuseScores(r) {
		fmt.Fprintf(&langfuse, "%s\n", asJSON(s))
	}
	golden(t, "spans.txt", seen.Bytes())
	golden(t, "spans-outside.txt", outside.Bytes())
	golden(t, "langfuse.txt", langfuse.Bytes())
}

// Spans stand where the trace says, each below another of the same trace, and none ends before it starts.
func TestSpansNest(t *testing.T) {
	for _, seen := range []bool{true, false} {
		spans := exampleSpans(t, seen)
		ids := map[[8]byte]bool{}
		for _, s := range spans {
			if ids[s.ID] {
				t.Errorf("%s: its id is taken", s.Name)
			}
			ids[s.ID] = true
			if s.End.Before(s.Start) || s.Start.Before(spans[0].Start) || s.End.After(spans[0].End) {
				t.Errorf("%s: %s to %s", s.Name, s.Start, s.End)
			}
		}
		for i, s := range spans {
			if (i > 0) != ids[s.Parent] {
				t.Errorf("%s stands below nothing", s.Name)
			}
		}
	}
}

// The ids are those of the cell and the attempt, and of nothing else.
func TestTraceID(t *testing.T) {
	_, r := exampleCell()
	id := traceID(&r)
	for name, change := range map[string]func(*result.Result){
		"trial": func(r *result.Result) { r.Trial++ }, "attempt": func(r *result.Result) { r.Attempt++ },
		"condition": func(r *result.Result) { r.Condition = "other" }, "begin": func(r *result.Result) { r.Started = r.Started.Add(1) },
	} {
		other := r
		change(&other)
		if traceID(&other) == id {
			t.Errorf("another %s has the same trace", name)
		}
	}
	graded := r
	graded.Status, graded.Scores, graded.Took.Total = result.Failed, nil, 0
	if traceID(&graded) != id {
		t.Error("grading again makes another trace")
	}
}

// The types made from OTLP's definition read what we write.
func TestOTLPIsReadByItsTypes(t *testing.T) {
	spans := exampleSpans(t, true)
	var encoded [][]byte
	for _, s := range spans {
		encoded = append(encoded, otlpSpan(s))
	}
	var got tracepb.TracesData
	if err := proto.Unmarshal(otlpRequest([]Attribute{{"service.name", "assay"}}, "1.0", encoded), &got); err != nil {
		t.Fatal(err)
	}
	if unknown := len(got.ProtoReflect().GetUnknown()); unknown > 0 {
		t.Errorf("%d bytes are of no field", unknown)
	}
	read := got.ResourceSpans[0].ScopeSpans[0].Spans
	if len(read) != len(spans) {
		t.Fatalf("%d spans, want %d", len(read), len(spans))
	}
	for i, s := range read {
		want := spans[i]
		if !bytes.Equal(s.TraceId, want.Trace[:]) || !bytes.Equal(s.SpanId, want.ID[:]) || s.Name != want.Name ||
			s.StartTimeUnixNano != uint64(want.Start.UnixNano()) || s.EndTimeUnixNano != uint64(want.End.UnixNano()) ||
			(s.Kind == tracepb.Span_SPAN_KIND_CLIENT) != want.Client || (s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR) != want.Failed {
			t.Errorf("%s came back as %s", want.Name, protojson.Format(s))
		}
		attributes := map[string]any{}
		for _, a := range s.Attributes {
			attributes[a.Key] = valueOf(a.Value)
		}
		if diff := cmp.Diff(attributeMap(want.Attributes), attributes); diff != "" {
			t.Errorf("%s: %s", want.Name, diff)
		}
		if len(s.Events) != len(want.Events) {
			t.Errorf("%s has %d events, want %d", want.Name, len(s.Events), len(want.Events))
		}
	}
}

// valueOf is a value as an Attribute has it.
func valueOf(v *commonpb.AnyValue) any {
	switch v := v.Value.(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_BoolValue:
		return v.BoolValue
	case *commonpb.AnyValue_IntValue:
		return v.IntValue
	case *commonpb.AnyValue_DoubleValue:
		return v.DoubleValue
	case *commonpb.AnyValue_ArrayValue:
		var list []string
		for _, e := range v.ArrayValue.Values {
			list = append(list, e.GetStringValue())
		}
		return list
	}
	return nil
}

func FuzzOTLPAnswer(f *testing.F) {
	f.Add("application/x-protobuf", []byte("\x0a\x04\x08\x03\x12\x00"))
	f.Add("application/json", []byte(`{"partialSuccess":{"rejectedSpans":"3","errorMessage":"x"}}`))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		if _, _, err := readOTLPAnswer(contentType, body); err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
	})
}

// partial is the answer of a receiver that rejected n spans.
func partial(n int64, why string) []byte {
	m := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(n))
	m = protowire.AppendBytes(protowire.AppendTag(m, 2, protowire.BytesType), []byte(why))
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), m)
}

// A receiver may be slow, busy, broken, picky, or not the one that was meant.
func TestPush(t *testing.T) {
	type reply struct {
		code   int
		header map[string]string
		body   string
	}
	ok := reply{200, map[string]string{"Content-Type": "application/x-protobuf"}, ""}
	busy := reply{429, map[string]string{"Retry-After": "7"}, "slow down, secret-key-1"}
	for _, tt := range []struct {
		name    string
		replies []reply // the last one goes on
		waits   []time.Duration
		taken   string // all, none or the number of spans that were not taken
		fault   string
	}{
		{"all is taken", []reply{ok}, nil, "all", ""},
		{"it is busy, and says for how long", []reply{busy, ok}, []time.Duration{7 * time.Second}, "all", ""},
		{"it is down for a moment", []reply{{503, nil, ""}, {500, nil, ""}, ok}, []time.Duration{0, 0}, "all", ""},
		{"it never recovers", []reply{{502, nil, "bad gateway"}}, []time.Duration{0, 0, 0, 0}, "none", "answered 502: bad gateway; tried 5 times"},
		{"it wants us to wait for hours", []reply{{429, map[string]string{"Retry-After": "99999"}, ""}, ok}, []time.Duration{time.Minute}, "all", ""},
		{"the connection breaks", []reply{{-1, nil, ""}, ok}, []time.Duration{0}, "all", ""},
		{"the key is wrong", []reply{{401, nil, "no such key: secret-key-1"}}, nil, "none", "answered 401: no such key: ***"},
		{"it redirects", []reply{{307, map[string]string{"Location": "/elsewhere"}, ""}}, nil, "none", "redirects are not followed"},
		{"it rejects two", []reply{{200, ok.header, string(partial(2, "too old"))}}, nil, "2", "2 of 8 spans were rejected: too old"},
		{"it rejects two, in JSON", []reply{{200, map[string]string{"Content-Type": "application/json"}, `{"partialSuccess":{"rejectedSpans":"2","errorMessage":"x"}}`}}, nil, "2", "2 of 8 spans were rejected: x"},
		{"it rejects more than there are", []reply{{200, ok.header, string(partial(1<<40, ""))}}, nil, "none", "8 of 8"},
		{"it warns only", []reply{{200, map[string]string{"Content-Type": "application/json"}, `{}`}}, nil, "all", ""},
		{"it is a login page", []reply{{200, map[string]string{"Content-Type": "text/html"}, "<html>"}}, nil, "none", "not OTLP"},
		{"it answers nonsense", []reply{{200, ok.header, "\x0a\xff"}}, nil, "none", "not OTLP"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v1/traces" || r.Header.Get("X-Key") != "secret-key-1" {
					t.Errorf("%s was asked, with key %q", r.URL.Path, r.Header.Get("X-Key"))
				}
				a := tt.replies[min(calls, len(tt.replies)-1)]
				calls++
				if a.code < 0 {
					panic(http.ErrAbortHandler)
				}
				for k, v := range a.header {
					w.Header().Set(k, v)
				}
				w.WriteHeader(a.code)
				io.WriteString(w, a.body)
			}))
			defer server.Close()
			var waits []time.Duration
			p := &Pusher{
				URL: server.URL + "/v1/traces", Header: map[string]string{"X-Key": "secret-key-1"}, Client: NewClient(),
				Wait: func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil },
			}
			spans := exampleSpans(t, true)
			if err := errors.Join(p.AddSpans(t.Context(), spans), p.Close(t.Context())); err != nil {
				t.Fatal(err)
			}
			want := map[string]int{"all": len(spans), "none": 0, "2": len(spans) - 2}[tt.taken]
			if p.Outcome.Spans != len(spans) || p.Outcome.SpansTaken != want {
				t.Errorf("%d of %d taken, want %d of %d", p.Outcome.SpansTaken, p.Outcome.Spans, want, len(spans))
			}
			if p.Outcome.Whole() != (tt.taken == "all") {
				t.Errorf("whole: %v", p.Outcome.Whole())
			}
			said := strings.Join(p.Outcome.Faults, "\n")
			if !strings.Contains(said, tt.fault) || (said == "") != (tt.fault == "") || strings.Contains(said, "secret") {
				t.Errorf("it says %q, want %q", said, tt.fault)
			}
			if len(waits) != len(tt.waits) {
				t.Fatalf("waited %v, want %v", waits, tt.waits)
			}
			for i, d := range tt.waits {
				if d != 0 && waits[i] != d || d == 0 && (waits[i] < time.Second<<i || waits[i] > 2*time.Second<<i) {
					t.Errorf("wait %d was %s, want %s", i, waits[i], d)
				}
			}
		})
	}
}

// After an answer that every batch would get, no more are sent; what was not sent was not taken.
func TestPushGivesUp(t *testing.T) {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { calls++; w.WriteHeader(403) }))
	defer server.Close()
	p := &Pusher{URL: server.URL, Client: NewClient(), Wait: func(context.Context, time.Duration) error { return nil }}
	for range 200 {
		if err := p.AddSpans(t.Context(), exampleSpans(t, true)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if calls != 1 || p.Outcome.SpansTaken != 0 || p.Outcome.Spans != 1600 {
		t.Errorf("%d calls, %+v", calls, p.Outcome)
	}
}
