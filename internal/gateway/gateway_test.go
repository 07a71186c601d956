package gateway

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/trace"
	"github.com/google/go-cmp/cmp"
)

const canary = "sk-canary-0123456789abcdef"

var dialects = []Dialect{Anthropic, Chat, Responses, Gemini}

// price is what the reference sums are made with.
func price() map[string]Price {
	in, out, read, write := 3.0, 15.0, 0.30, 3.75
	return map[string]Price{"m": {Input: &in, Output: &out, CacheRead: &read, CacheWrite: &write}}
}

// A fake is a provider that is stricter than the real ones.
type fake struct {
	t       *testing.T
	dialect Dialect
	url     string
	handle  func(w http.ResponseWriter, r *http.Request, n int) // nil: the scripted answers; n counts from 0

	mu   sync.Mutex
	n    int
	last []byte
	head http.Header
}

func newFake(t *testing.T, d Dialect, handle func(w http.ResponseWriter, r *http.Request, n int)) *fake {
	t.Helper()
	f := &fake{t: t, dialect: d, handle: handle}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	f.url = s.URL + d.basePath()
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	n := f.n
	f.n++
	f.last, f.head = body, r.Header.Clone()
	f.mu.Unlock()
	if got, want := r.URL.Path, upstreamPath(f.dialect); !strings.HasPrefix(got, want) {
		f.t.Errorf("the provider was asked for %s, not %s", got, want)
	}
	want := http.Header{}
	f.dialect.authorize(want, canary)
	for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
		if got := r.Header.Get(name); got != want.Get(name) {
			f.t.Errorf("the provider got %s %q, want %q", name, got, want.Get(name))
		}
	}
	if r.URL.Query().Has("key") || r.Header.Get("Cookie") != "" || r.Header.Get("Accept-Encoding") != "identity" || r.Header.Get("Content-Encoding") != "" {
		f.t.Errorf("the provider got %s with headers %v", r.URL, r.Header)
	}
	if !json.Valid(body) {
		f.t.Errorf("the provider got %.100q", body)
	}
	if f.handle != nil {
		f.handle(w, r, n)
		return
	}
	stream := strings.Contains(r.URL.Path, ":stream") || bytes.Contains(body, []byte(`"stream":true`))
	write(w, stream, scripted(f.dialect, stream, n, "stop"))
}

func upstreamPath(d Dialect) string {
	return map[Dialect]string{Anthropic: "/v1/messages", Chat: "/v1/chat/completions", Responses: "/v1/responses", Gemini: "/v1beta/models/m:"}[d]
}

func write(w http.ResponseWriter, stream bool, frames []string) {
	w.Header().Set("Content-Type", "application/json")
	if stream {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	}
	for _, f := range frames {
		if stream {
			f = "data: " + f + "\n\n"
		}
		io.WriteString(w, f)
		w.(http.Flusher).Flush()
	}
}

// scripted is the answer number n of the reference script; reason is that of its end, in the words of chat.
func scripted(d Dialect, stream bool, n int, reason string) []string {
	switch d {
	case Anthropic:
		reason = map[string]string{"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal", "tool_calls": "tool_use"}[reason]
		usage := func(out int) string {
			return fmt.Sprintf(`{"input_tokens":%d,"cache_creation_input_tokens":30,"cache_read_input_tokens":200,"output_tokens":%d}`, 1000+n, out)
		}
		if !stream {
			return []string{fmt.Sprintf(`{"type":"message","content":[{"type":"text","text":"hello"}],"stop_reason":%q,"usage":%s}`, reason, usage(50))}
		}
		return []string{
			`{"type":"message_start","message":{"model":"m","stop_reason":null,"usage":` + usage(1) + `}}`, `{"type": "ping"}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hel"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}`, `{"type":"content_block_stop","index":0}`,
			fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%q},"usage":%s}`, reason, usage(50)), `{"type":"message_stop"}`,
		}
	case Chat:
		usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":50,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":200},"completion_tokens_details":{"reasoning_tokens":7}}`, 1200+n, 1250+n)
		if !stream {
			return []string{fmt.Sprintf(`{"object":"chat.completion","choices":[{"message":{"content":"hello","refusal":null},"finish_reason":%q}],"usage":%s}`, reason, usage)}
		}
		return []string{
			`{"choices":[{"delta":{"content":"hel"},"finish_reason":null}],"usage":null}`, `{"choices":[{"delta":{"content":"lo"},"finish_reason":null}],"usage":null}`,
			fmt.Sprintf(`{"choices":[{"delta":{},"finish_reason":%q}],"usage":null}`, reason), `{"choices":[],"usage":` + usage + `}`, `[DONE]`,
		}
	case Responses:
		status, details := "completed", "null"
		switch reason {
		case "length":
			status, details = "incomplete", `{"reason":"max_output_tokens"}`
		case "content_filter":
			status, details = "incomplete", `{"reason":"content_filter"}`
		}
		item := `{"type":"message","content":[{"type":"output_text","text":"hello"}]}`
		if reason == "tool_calls" {
			item = `{"type":"function_call","name":"x","arguments":"{}"}`
		}
		whole := fmt.Sprintf(`{"object":"response","status":%q,"incomplete_details":%s,"error":null,"output":[%s],"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":200},"output_tokens":50,"output_tokens_details":{"reasoning_tokens":7}}}`,
			status, details, item, 1200+n)
		if !stream {
			return []string{whole}
		}
		return []string{
			`{"type":"response.created","response":{"object":"response","status":"in_progress","usage":null,"output":[]}}`,
			`{"type":"response.output_text.delta","delta":"hello"}`, fmt.Sprintf(`{"type":"response.%s","response":%s}`, status, whole),
		}
	}
	part := `{"text":"hello"}`
	if reason == "tool_calls" {
		part = `{"functionCall":{"name":"x","args":{}}}`
	}
	reason = map[string]string{"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY", "tool_calls": "STOP"}[reason]
	usage := fmt.Sprintf(`{"promptTokenCount":%d,"cachedContentTokenCount":200,"candidatesTokenCount":50,"thoughtsTokenCount":7,"totalTokenCount":%d}`, 1200+n, 1257+n)
	last := fmt.Sprintf(`{"candidates":[{"content":{"parts":[%s]},"finishReason":%q}],"usageMetadata":%s}`, part, reason, usage)
	if !stream {
		return []string{last}
	}
	return []string{`{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}]}}],"usageMetadata":{"promptTokenCount":1}}`, last}
}

// An agent sends requests to a cell.
type agent struct {
	t      *testing.T
	cell   *Cell
	events func() []trace.Event
}

func newGateway(t *testing.T, o Options) *Gateway {
	t.Helper()
	if o.Prices == nil {
		o.Prices = price()
	}
	if o.Keys == nil {
		o.Keys = func(env string) string { return map[string]string{"CANARY_KEY": " " + canary + "\n"}[env] }
	}
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func upstream(f *fake) Upstream {
	return Upstream{Dialect: f.dialect, BaseURL: f.url, KeyEnv: "CANARY_KEY"}
}

func open(t *testing.T, g *Gateway, s Spec) *agent {
	t.Helper()
	var mu sync.Mutex
	var events []trace.Event
	s.Emit = func(e trace.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	}
	c, err := g.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	return &agent{t: t, cell: c, events: func() []trace.Event {
		mu.Lock()
		defer mu.Unlock()
		return append([]trace.Event(nil), events...)
	}}
}

// start opens a cell with one model of one fake provider.
func start(t *testing.T, f *fake, o Options, s Spec) *agent {
	t.Helper()
	s.Name, s.Models = "case/arm/t1", []Model{{Name: "m", Upstream: upstream(f)}}
	return open(t, newGateway(t, o), s)
}

func ask(d Dialect, model string, stream bool) (path, body string) {
	head := fmt.Sprintf(`{"model":%q,"stream":%v,`, model, stream)
	switch d {
	case Anthropic:
		return "/v1/messages?beta=true", head + `"system":[{"type":"text","text":"be good"}],"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"x"}]}`
	case Chat:
		return "/chat/completions", head + `"messages":[{"role":"system","content":"be good"},{"role":"user","content":"hi"}],"tools":[{"type":"function"}]}`
	case Responses:
		return "/responses", head + `"instructions":"be good","input":"hi","tools":[{"type":"function"}]}`
	}
	path = "/v1beta/models/" + model + ":generateContent?key=dummy"
	if stream {
		path = "/v1beta/models/" + model + ":streamGenerateContent?alt=sse&key=dummy"
	}
	return path, `{"systemInstruction":{"parts":[{"text":"be good"}]},"contents":[{"role":"user","parts":[{"text":"hi"}]}],"tools":[{"functionDeclarations":[]}]}`
}

type reply struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

func (a *agent) ask(d Dialect, model string, stream bool) reply {
	path, body := ask(d, model, stream)
	return a.post(d, path, body, nil)
}

func (a *agent) post(d Dialect, path, body string, header http.Header) reply {
	a.t.Helper()
	r, err := http.NewRequest(http.MethodPost, a.cell.URL(d)+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", a.cell.Key())
	r.Header.Set("X-Goog-Api-Key", a.cell.Key())
	r.Header.Set("Authorization", "Bearer "+a.cell.Key())
	r.Header.Set("Cookie", "a=b")
	for name, v := range header {
		r.Header[name] = v
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(got), err}
}

func intp(n int64) *int64 { return &n }

// sums are those of N calls of the reference script.
func sums(d Dialect, n int64) trace.Usage {
	u := trace.Usage{Input: intp(1000*n + n*(n-1)/2), CacheRead: intp(200 * n), Output: intp(50 * n), Reasoning: intp(7 * n), Scope: "session", Source: "gateway"}
	switch d {
	case Anthropic:
		u.CacheWrite, u.Reasoning = intp(30*n), nil
	case Gemini:
		u.Output = intp(57 * n)
	}
	return u
}

var fiveCalls = map[Dialect]float64{Anthropic: 0.0196425, Chat: 0.01908, Responses: 0.01908, Gemini: 0.019605}

func TestSumsToTheToken(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s stream %v", d, stream), func(t *testing.T) {
				t.Parallel()
				a := start(t, newFake(t, d, nil), Options{}, Spec{})
				if u := a.cell.Seen().Usage; u != nil {
					t.Errorf("usage before the first call is %+v", u)
				}
				for range 5 {
					if r := a.ask(d, "m", stream); r.status != 200 || r.err != nil || !strings.Contains(r.body, "hel") {
						t.Fatalf("got %d %v %s", r.status, r.err, r.body)
					}
				}
				seen := a.cell.Close()
				if seen.Usage == nil || seen.Usage.CostUSD == nil || math.Abs(*seen.Usage.CostUSD-fiveCalls[d]) > 1e-12 {
					t.Fatalf("usage is %+v", seen.Usage)
				}
				seen.Usage.CostUSD = nil
				want := sums(d, 5)
				wantSeen := Seen{Calls: 5, Turns: 5, Usage: &want, Models: []string{"m"}, Finish: "end", LastStatus: 200}
				if diff := cmp.Diff(wantSeen, seen); diff != "" {
					t.Error(diff)
				}
				a.checkCalls(5)
			})
		}
	}
}

// checkCalls checks that the trace holds n model calls, all of them whole.
func (a *agent) checkCalls(n int) {
	a.t.Helper()
	events := a.events()
	if len(events) != n {
		a.t.Fatalf("%d events, want %d: %+v", len(events), n, events)
	}
	for i, e := range events {
		c := e.Call
		if e.Kind != trace.KindModelCall || c == nil || e.Usage == nil || e.Usage.Scope != "step" || e.Usage.Source != "gateway" || e.Usage.CostUSD == nil {
			a.t.Fatalf("event %d is %+v", i, e)
		}
		if c.Ordinal != i+1 || c.Lane != "main" || c.Model != "m" || c.HTTP != 200 || c.Finish != "end" || c.Partial || c.FirstByte <= 0 || c.Took < c.FirstByte {
			a.t.Errorf("call %d is %+v", i, c)
		}
	}
}

func TestBytesPassUnchanged(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, d, nil)
			a := start(t, f, Options{}, Spec{})
			path, body := ask(d, "m", false)
			if r := a.post(d, path, body, nil); r.body != strings.Join(scripted(d, false, 0, "stop"), "") {
				t.Errorf("the agent got %s", r.body)
			}
			if string(f.last) != body {
				t.Errorf("the provider got %s", f.last)
			}
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			io.WriteString(z, body)
			z.Close()
			a.post(d, path, packed.String(), http.Header{"Content-Encoding": {"gzip"}, "Anthropic-Beta": {"b1"}})
			if string(f.last) != body || f.head.Get("Anthropic-Beta") != "b1" {
				t.Errorf("of a gzip body the provider got %s", f.last)
			}
		})
	}
}

func TestChunkedBody(t *testing.T) {
	t.Parallel()
	f := newFake(t, Chat, nil)
	a := start(t, f, Options{}, Spec{})
	_, body := ask(Chat, "m", false)
	r, _ := http.NewRequest(http.MethodPost, a.cell.URL(Chat)+"/chat/completions", io.MultiReader(strings.NewReader(body[:5]), strings.NewReader(body[5:])))
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != 200 || string(f.last) != body {
		t.Errorf("%v %v; the provider got %s", err, resp, f.last)
	}
	resp.Body.Close()
}

func TestChatUsageIsAskedForAndHidden(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options string
		hidden  bool
	}{
		"none":         {``, true},
		"null":         {`"stream_options":null,`, true},
		"refused":      {`"stream_options":{"include_usage":false,"x":1},`, true},
		"asked for":    {`"stream_options":{"include_usage":true},`, false},
		"empty object": {`"stream_options":{},`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, Chat, nil)
			a := start(t, f, Options{}, Spec{})
			r := a.post(Chat, "/chat/completions", `{`+c.options+`"model":"m","stream":true,"n":1.50,"messages":[{"role":"user","content":"<hi>"}],"tools":[{}]}`, nil)
			var sent struct {
				Options struct {
					IncludeUsage bool `json:"include_usage"`
				} `json:"stream_options"`
			}
			if json.Unmarshal(f.last, &sent) != nil || !sent.Options.IncludeUsage || !bytes.Contains(f.last, []byte(`"n":1.50`)) || !bytes.Contains(f.last, []byte("<hi>")) {
				t.Errorf("the provider got %s", f.last)
			}
			frames := scripted(Chat, true, 0, "stop")
			if c.hidden {
				frames = append(frames[:3:3], frames[4])
			}
			if want := "data: " + strings.Join(frames, "\n\ndata: ") + "\n\n"; r.body != want {
				t.Errorf("the agent got\n%s\nwant\n%s", r.body, want)
			}
			if u := a.cell.Seen().Usage; u == nil || u.Input == nil || *u.Input != 1000 {
				t.Errorf("usage is %+v", u)
			}
		})
	}
}

func TestFinishReasons(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{"stop": "end", "length": "max_tokens", "content_filter": "refusal", "tool_calls": "tool"} {
		for _, d := range dialects {
			for _, stream := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s %s %v", reason, d, stream), func(t *testing.T) {
					t.Parallel()
					f := newFake(t, d, func(w http.ResponseWriter, _ *http.Request, n int) { write(w, stream, scripted(d, stream, n, reason)) })
					a := start(t, f, Options{}, Spec{})
					a.ask(d, "m", stream)
					if s := a.cell.Seen(); s.Finish != want || s.LastFault != nil || s.Turns != 1 {
						t.Errorf("seen %+v, want finish %s", s, want)
					}
				})
			}
		}
	}
}

func (r reply) refusedWith(t *testing.T, words string) {
	t.Helper()
	var f struct {
		Type  string
		Error struct {
			Type, Message, Status string
			Code                  int
		}
	}
	if err := json.Unmarshal([]byte(r.body), &f); err != nil || r.status != 400 {
		t.Fatalf("got %d %s", r.status, r.body)
	}
	if f.Type != "error" || f.Error.Type != "invalid_request_error" || f.Error.Code != 400 || f.Error.Status != "INVALID_ARGUMENT" {
		t.Errorf("the body is %s", r.body)
	}
	if !strings.HasPrefix(f.Error.Message, "assay: ") || !strings.Contains(f.Error.Message, words) {
		t.Errorf("the message is %q, want %q in it", f.Error.Message, words)
	}
	for _, bad := range []string{"too long", "context", "quota"} {
		if strings.Contains(f.Error.Message, bad) {
			t.Errorf("the message %q holds %q, at which agents try again", f.Error.Message, bad)
		}
	}
}

func TestTurnLimit(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, d, nil)
			a := start(t, f, Options{}, Spec{MaxTurns: 2})
			for range 2 {
				if r := a.ask(d, "m", true); r.status != 200 {
					t.Fatalf("got %d %s", r.status, r.body)
				}
			}
			a.ask(d, "m", true).refusedWith(t, "2 turns")
			a.ask(d, "m", false).refusedWith(t, "2 turns")
			s := a.cell.Close()
			if s.Refused == nil || s.Refused.Stop != trace.StopMaxTurns || s.Turns != 2 || f.n != 2 || s.LastFault != nil {
				t.Errorf("seen %+v after %d calls", s, f.n)
			}
			ends := 0
			for _, e := range a.events() {
				if e.Kind == trace.KindError {
					ends++
				}
			}
			if ends != 1 {
				t.Errorf("the trace tells %d ends", ends)
			}
		})
	}
}

func TestCostLimit(t *testing.T) {
	t.Parallel()
	f := newFake(t, Anthropic, nil)
	a := start(t, f, Options{}, Spec{MaxCostUSD: 0.006}) // a call costs 0.003923
	a.ask(Anthropic, "m", true)
	a.ask(Anthropic, "m", true)
	a.ask(Anthropic, "m", true).refusedWith(t, "cost limit of $0.01 is reached ($0.0078 spent)")
	if s := a.cell.Seen(); s.Refused.Stop != trace.StopMaxCost || f.n != 2 {
		t.Errorf("seen %+v after %d calls", s, f.n)
	}
}

func TestRunBudget(t *testing.T) {
	t.Parallel()
	f := newFake(t, Anthropic, nil)
	g := newGateway(t, Options{RunBudgetUSD: 0.006})
	s := Spec{Models: []Model{{Name: "m", Upstream: upstream(f)}}}
	a, b := open(t, g, s), open(t, g, s)
	a.ask(Anthropic, "m", true)
	if g.BudgetSpent() {
		t.Error("the budget is spent after one call")
	}
	b.ask(Anthropic, "m", true)
	if !g.BudgetSpent() || math.Abs(g.Spent()-0.007848) > 1e-5 {
		t.Errorf("spent %v", g.Spent())
	}
	a.ask(Anthropic, "m", true).refusedWith(t, "budget of the run is spent")
	if s := a.cell.Seen(); s.Refused.Stop != trace.StopError || s.Refused.Class != trace.ClassUnmeasured {
		t.Errorf("refused %+v", s.Refused)
	}
}

func TestCostLimitOfAnswersWithoutUsage(t *testing.T) {
	t.Parallel()
	f := newFake(t, Chat, func(w http.ResponseWriter, _ *http.Request, _ int) {
		write(w, false, []string{`{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`})
	})
	a := start(t, f, Options{}, Spec{MaxCostUSD: 1})
	for range maxUnmeasured {
		if r := a.ask(Chat, "m", false); r.status != 200 {
			t.Fatalf("got %d %s", r.status, r.body)
		}
	}
	a.ask(Chat, "m", false).refusedWith(t, "cost limit cannot be enforced")
	s := a.cell.Seen()
	if s.Usage == nil || s.Usage.Input != nil || s.Usage.Output != nil || s.Usage.CostUSD != nil || s.Turns != 3 {
		t.Errorf("seen %+v, usage %+v", s, s.Usage)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	ok := Upstream{Dialect: Chat, BaseURL: "https://127.0.0.1/v1", KeyEnv: "CANARY_KEY"}
	with := func(f func(*Model)) Spec {
		m := Model{Name: "m", Upstream: ok}
		f(&m)
		return Spec{Models: []Model{m}}
	}
	for name, c := range map[string]struct {
		spec Spec
		want string
	}{
		"unknown price":   {Spec{Models: []Model{{Name: "other", Upstream: ok}}, MaxCostUSD: 1}, `price of the model "other" is not known`},
		"unknown dialect": {with(func(m *Model) { m.Dialect = "x" }), `unknown dialect "x"`},
		"no upstream":     {with(func(m *Model) { m.BaseURL = "" }), "either a base URL or a script"},
		"two upstreams":   {with(func(m *Model) { m.Script = &Script{} }), "either a base URL or a script"},
		"no key":          {with(func(m *Model) { m.KeyEnv = "NOT_SET" }), "set the environment variable NOT_SET"},
		"no name":         {with(func(m *Model) { m.Name = "" }), "no name"},
		"password":        {with(func(m *Model) { m.BaseURL = "https://u:secret@127.0.0.1/v1" }), "user or password"},
		"query":           {with(func(m *Model) { m.BaseURL = "https://127.0.0.1/v1?key=secret" }), "query"},
		"file":            {with(func(m *Model) { m.BaseURL = "file:///etc/passwd" }), "not an http or https"},
		"twice":           {Spec{Models: []Model{{Name: "m", Upstream: ok}, {Name: "m", Upstream: ok}}}, "listed twice"},
		"empty marker":    {Spec{Markers: []Marker{{Of: "skill x", Text: " \n"}}}, "marker of skill x is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newGateway(t, Options{}).Open(c.spec)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error is %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestModelOutsideTheList(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, d, nil)
			a := start(t, f, Options{}, Spec{})
			a.ask(d, "expensive", true).refusedWith(t, `"expensive"`)
			a.ask(d, "m", true).refusedWith(t, `"expensive"`)
			if s := a.cell.Seen(); s.Refused == nil || s.Refused.Class != trace.ClassModelNotAllowed || s.Refused.Stop != trace.StopError || f.n != 0 || s.Usage != nil {
				t.Errorf("seen %+v", s)
			}
		})
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	f := newFake(t, Chat, nil)
	a := start(t, f, Options{}, Spec{})
	for name, body := range map[string]string{
		"empty": "", "not JSON": "hi", "array": "[]", "half": `{"model":"m"`, "two": `{"model":"m"}{"model":"m"}`, "no model": `{}`, "model of another type": `{"model":5}`,
		"model twice": `{"model":"m","model":"expensive"}`, "deep": `{"model":"m","x":` + strings.Repeat("[", 20000), "large": `{"model":"m","x":"` + strings.Repeat("x", maxBody) + `"}`,
	} {
		t.Run(name, func(t *testing.T) { a.post(Chat, "/chat/completions", body, nil).refusedWith(t, "") })
	}
	a.post(Chat, "/chat/completions", "x", http.Header{"Content-Encoding": {"br"}}).refusedWith(t, "gzip")
	a.post(Chat, "/chat/completions", "x", http.Header{"Content-Encoding": {"gzip"}}).refusedWith(t, "gzip")
	if r := a.post(Chat, "/embeddings", "{}", nil); r.status != 404 {
		t.Errorf("an unknown path got %d", r.status)
	}
	before := len(a.events())
	if resp, err := http.Head(a.cell.URL(Anthropic) + "/"); err != nil || resp.StatusCode != 404 || len(a.events()) != before {
		t.Errorf("a knock at the door got %v, %v", resp, err)
	}
	for range 30 {
		a.post(Chat, "/chat/completions", "x", nil)
	}
	if r := a.ask(Chat, "m", false); r.status != 200 {
		t.Errorf("after them the agent got %d %s", r.status, r.body)
	}
	warnings := 0
	for _, e := range a.events() {
		if e.Kind == trace.KindError && e.Err.Class == trace.ClassWarning {
			warnings++
		}
	}
	if s := a.cell.Seen(); warnings != maxRemarks || s.Refused != nil || s.LastFault != nil || f.n != 1 {
		t.Errorf("%d warnings, seen %+v, %d calls", warnings, s, f.n)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	f := newFake(t, Chat, nil)
	g := newGateway(t, Options{})
	s := Spec{Models: []Model{{Name: "m", Upstream: upstream(f)}}, MaxTurns: 1}
	a, b := open(t, g, s), open(t, g, s)
	if a.cell.URL(Chat) == b.cell.URL(Chat) || a.cell.Key() == b.cell.Key() || !strings.HasSuffix(a.cell.URL(Chat), "/v1") || strings.HasSuffix(a.cell.URL(Gemini), "/v1") {
		t.Errorf("addresses %s %s", a.cell.URL(Chat), b.cell.URL(Gemini))
	}
	for _, path := range []string{"", "/", "/c/", "/c/x/v1/models", "/v1/models", "/c//v1/models"} {
		if resp, err := http.Get("http://" + g.address + path); err != nil || resp.StatusCode != 404 {
			t.Errorf("%q got %v %v", path, resp, err)
		} else {
			resp.Body.Close()
		}
	}
	a.ask(Chat, "m", false)
	a.ask(Chat, "m", false).refusedWith(t, "turns")
	if r := b.ask(Chat, "m", false); r.status != 200 {
		t.Errorf("the neighbour got %d %s", r.status, r.body)
	}
	a.cell.Close()
	if r := a.ask(Chat, "m", false); r.status != 404 {
		t.Errorf("the closed cell answered %d", r.status)
	}
	if r := b.ask(Chat, "m", false); r.status != 400 {
		t.Errorf("the neighbour of the closed cell got %d", r.status)
	}
	if s := b.cell.Seen(); s.Calls != 1 || len(b.events()) != 2 {
		t.Errorf("the neighbour saw %+v and has %d events", s, len(b.events()))
	}
}

func TestModelsAreListed(t *testing.T) {
	t.Parallel()
	a := start(t, newFake(t, Chat, nil), Options{}, Spec{})
	resp, err := http.Get(a.cell.URL(Chat) + "/models?client_version=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct {
		Data   []struct{ ID string }
		Models []string
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || len(list.Data) != 1 || list.Data[0].ID != "m" || list.Models == nil {
		t.Errorf("got %+v, %v", list, err)
	}
}

func TestCountingIsFree(t *testing.T) {
	t.Parallel()
	f := newFake(t, Anthropic, func(w http.ResponseWriter, _ *http.Request, _ int) { write(w, false, []string{`{"input_tokens":12}`}) })
	a := start(t, f, Options{RunBudgetUSD: 1}, Spec{MaxTurns: 1, MaxCostUSD: 1})
	for range 5 {
		if r := a.post(Anthropic, "/v1/messages/count_tokens", `{"model":"m","messages":[],"tools":[{}]}`, nil); r.body != `{"input_tokens":12}` {
			t.Errorf("got %d %s", r.status, r.body)
		}
	}
	if s := a.cell.Seen(); s.Calls != 0 || s.Turns != 0 || s.Usage != nil || s.LastFault != nil || len(s.Models) != 0 || s.Refused != nil {
		t.Errorf("seen %+v", s)
	}
	if e := a.events(); len(e) != 5 || e[0].Call.Lane != "count" || e[0].Usage != nil {
		t.Errorf("events %+v", e)
	}
}

func TestKeyNeverLeaves(t *testing.T) {
	t.Parallel()
	leak := canary[:7] // the rest follows in another write
	for name, handle := range map[string]func(w http.ResponseWriter, r *http.Request, n int){
		"error body": func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("X-Debug", "key "+canary)
			w.WriteHeader(401)
			fmt.Fprintf(w, `{"error":{"message":"bad key %s"}}`, canary)
		},
		"error text": func(w http.ResponseWriter, _ *http.Request, _ int) { http.Error(w, "bad key "+canary, 500) },
		"redirect": func(w http.ResponseWriter, r *http.Request, _ int) {
			http.Redirect(w, r, "https://127.0.0.1:1/?"+canary, http.StatusTemporaryRedirect)
		},
		"answer": func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Set-Cookie", "k="+canary)
			write(w, false, []string{`{"error":null,"choices":[{"message":{"content":"` + leak, canary[7:] + `"},"finish_reason":"stop"}]}`})
		},
		"stream": func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, part := range []string{`data: {"choices":[{"delta":{"content":"` + leak, canary[7:] + "\"}}]}\n\n", `data: {"error":{"message":"` + canary + "\"}}\n\n", leak} {
				io.WriteString(w, part)
				w.(http.Flusher).Flush()
			}
		},
		"cut": func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, canary)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start(t, newFake(t, Chat, handle), Options{}, Spec{})
			for range 6 {
				r := a.ask(Chat, "m", name == "stream")
				told, _ := json.Marshal(a.events())
				seen, _ := json.Marshal(a.cell.Seen())
				for what, text := range map[string]string{"body": r.body, "header": fmt.Sprint(r.header), "trace": string(told), "seen": string(seen)} {
					if strings.Contains(text, canary) {
						t.Errorf("the %s holds the key: %s", what, text)
					}
				}
				if strings.HasSuffix(name, "answer") && !strings.Contains(r.body, `"content":"[redacted:CANARY_KEY]"`) {
					t.Errorf("the agent got %s", r.body)
				}
			}
			if strings.Contains(a.cell.URL(Chat)+a.cell.Key(), canary) {
				t.Error("the agent is given the key")
			}
		})
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		status int
		body   string
		class  trace.Class
	}{
		{"bad request", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"nope"}}`, trace.ClassModelRequest},
		{"too long", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}`, trace.ClassContextOverflow},
		{"too long in a code", 400, `{"error":{"message":"no","code":"context_length_exceeded"}}`, trace.ClassContextOverflow},
		{"not found", 404, `not JSON`, trace.ClassModelRequest},
		{"wrong key", 401, `{"error":{"code":401,"message":"no key","status":"UNAUTHENTICATED"}}`, trace.ClassModelAuth},
		{"forbidden", 403, ``, trace.ClassModelAuth},
		{"rate", 429, `[{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}]`, trace.ClassModelLimit},
		{"broken", 500, `{"error":{"message":"oops"}}`, trace.ClassModelAPI},
		{"overloaded", 529, `{"error":{"message":"overloaded"}}`, trace.ClassModelAPI},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, Chat, func(w http.ResponseWriter, _ *http.Request, _ int) {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(c.status)
				io.WriteString(w, c.body)
			})
			a := start(t, f, Options{}, Spec{})
			r := a.ask(Chat, "m", true)
			if r.status != c.status || r.body != c.body || r.header.Get("Retry-After") != "7" {
				t.Errorf("the agent got %d %q %v", r.status, r.body, r.header)
			}
			s := a.cell.Seen()
			if s.LastFault == nil || s.LastFault.Class != c.class || s.LastFault.HTTP != c.status || s.LastStatus != c.status || s.Refused != nil || s.Usage != nil || s.Turns != 0 {
				t.Errorf("seen %+v, fault %+v", s, s.LastFault)
			}
			for range maxFailures - 2 {
				a.ask(Chat, "m", true)
			}
			a.ask(Chat, "m", true).refusedWith(t, "failed 5 times in a row")
			a.ask(Chat, "m", true).refusedWith(t, "failed 5 times in a row")
			if s := a.cell.Seen(); s.Refused.Class != c.class || f.n != maxFailures {
				t.Errorf("refused %+v after %d calls", s.Refused, f.n)
			}
		})
	}
}

func TestSuccessResetsTheBreaker(t *testing.T) {
	t.Parallel()
	f := newFake(t, Chat, func(w http.ResponseWriter, _ *http.Request, n int) {
		if n%5 == 4 {
			write(w, false, scripted(Chat, false, 0, "stop"))
			return
		}
		http.Error(w, "no", http.StatusServiceUnavailable)
	})
	a := start(t, f, Options{}, Spec{})
	for range 15 {
		a.ask(Chat, "m", false)
	}
	if s := a.cell.Seen(); s.Refused != nil || s.LastFault != nil || s.LastStatus != 200 || s.Calls != 3 || f.n != 15 {
		t.Errorf("seen %+v after %d calls", s, f.n)
	}
}

func TestBreakerEndsAMinuteOfFailures(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Unix(0, 0)
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	f := newFake(t, Chat, func(w http.ResponseWriter, _ *http.Request, _ int) {
		http.Error(w, "no", http.StatusServiceUnavailable)
	})
	a := start(t, f, Options{Now: clock}, Spec{})
	a.ask(Chat, "m", false)
	mu.Lock()
	now = now.Add(maxFailing)
	mu.Unlock()
	a.ask(Chat, "m", false).refusedWith(t, "failed 1 times in a row")
	if s := a.cell.Seen(); s.Refused.Class != trace.ClassModelAPI || f.n != 1 {
		t.Errorf("refused %+v after %d calls", s.Refused, f.n)
	}
}

func TestDeadUpstream(t *testing.T) {
	t.Parallel()
	f := newFake(t, Chat, nil)
	u := upstream(f)
	u.BaseURL = "http://127.0.0.1:1/v1"
	a := open(t, newGateway(t, Options{}), Spec{Models: []Model{{Name: "m", Upstream: u}}})
	for range maxFailures - 1 {
		if r := a.ask(Chat, "m", true); r.status != 502 || !json.Valid([]byte(r.body)) {
			t.Errorf("got %d %s", r.status, r.body)
		}
	}
	a.ask(Chat, "m", true).refusedWith(t, "failed 5 times")
	if s := a.cell.Seen(); s.Refused.Class != trace.ClassModelAPI || s.LastFault == nil || s.LastStatus != 0 || s.Usage != nil {
		t.Errorf("seen %+v", s)
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	f := newFake(t, Chat, func(w http.ResponseWriter, r *http.Request, _ int) {
		http.Redirect(w, r, "/v1/chat/completions", http.StatusTemporaryRedirect)
	})
	a := start(t, f, Options{}, Spec{})
	if r := a.ask(Chat, "m", false); r.status != 502 || r.header.Get("Location") != "" {
		t.Errorf("got %d %v", r.status, r.header)
	}
	if s := a.cell.Seen(); f.n != 1 || s.LastFault.Class != trace.ClassModelRequest || !strings.Contains(s.LastFault.Detail, "redirect") {
		t.Errorf("%d calls, fault %+v", f.n, s.LastFault)
	}
}

func TestErrorsInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		d     Dialect
		frame string
		class trace.Class
	}{
		{Anthropic, `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`, trace.ClassModelAPI},
		{Anthropic, `{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`, trace.ClassModelLimit},
		{Chat, `{"error":{"message":"busy","code":503}}`, trace.ClassModelAPI},
		{Responses, `{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}}`, trace.ClassModelLimit},
		{Responses, `{"type":"error","code":"context_length_exceeded","message":"no"}`, trace.ClassContextOverflow},
		{Responses, `{"type":"error","error":{"type":"server_error","message":"no"}}`, trace.ClassModelAPI},
		{Gemini, `{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}`, trace.ClassModelAPI},
	} {
		f := newFake(t, c.d, func(w http.ResponseWriter, _ *http.Request, n int) {
			write(w, true, append(scripted(c.d, true, n, "stop")[:1:1], c.frame))
		})
		a := start(t, f, Options{}, Spec{})
		r := a.ask(c.d, "m", true)
		s := a.cell.Seen()
		if !strings.Contains(r.body, c.frame) || s.LastFault == nil || s.LastFault.Class != c.class || !s.Partial || s.Turns != 0 || s.Calls != 1 {
			t.Errorf("%s %s: seen %+v, fault %+v", c.d, c.frame, s, s.LastFault)
		}
	}
}

func TestUpstreamDiesMidStream(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, d, func(w http.ResponseWriter, _ *http.Request, n int) {
				write(w, true, scripted(d, true, n, "stop")[:1])
				panic(http.ErrAbortHandler)
			})
			a := start(t, f, Options{}, Spec{})
			r := a.ask(d, "m", true)
			if r.err == nil {
				t.Errorf("the agent takes a cut answer for a whole one: %s", r.body)
			}
			a.cell.Close()
			s := a.cell.Seen()
			if !s.Partial || s.LastFault == nil || s.LastFault.Class != trace.ClassModelAPI || s.Turns != 0 || s.Calls != 1 || s.Usage == nil {
				t.Errorf("seen %+v", s)
			}
			if d == Anthropic && (s.Usage.Input == nil || *s.Usage.Input != 1000 || *s.Usage.Output != 1) {
				t.Errorf("usage %+v", s.Usage)
			}
			if d == Chat && (s.Usage.Input != nil || s.Usage.CostUSD != nil) {
				t.Errorf("usage %+v", s.Usage)
			}
			if e := a.events(); len(e) != 2 || !e[0].Call.Partial || e[0].Call.HTTP != 200 || e[1].Err == nil {
				t.Errorf("events %+v", e)
			}
		})
	}
}

func TestClientHangsUp(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	f := newFake(t, Anthropic, func(w http.ResponseWriter, r *http.Request, n int) {
		write(w, true, scripted(Anthropic, true, n, "stop")[:2])
		<-r.Context().Done()
		close(gone)
	})
	a := start(t, f, Options{}, Spec{})
	path, body := ask(Anthropic, "m", true)
	ctx, cancel := context.WithCancel(context.Background())
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, a.cell.URL(Anthropic)+path, strings.NewReader(body))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Read(make([]byte, 10))
	cancel()
	<-gone // the provider was told
	s := a.cell.Close()
	if !s.Partial || s.LastFault != nil || s.Turns != 0 || s.Calls != 1 || s.Usage == nil || *s.Usage.Input != 1000 || s.Refused != nil {
		t.Errorf("seen %+v", s)
	}
}

// TestSlowStreamsAreFlushed has the provider wait for the agent to have read each piece before it writes the next.
func TestSlowStreamsAreFlushed(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			read := make(chan struct{})
			f := newFake(t, d, func(w http.ResponseWriter, r *http.Request, n int) {
				w.Header().Set("Content-Type", "text/event-stream")
				w.WriteHeader(200)
				w.(http.Flusher).Flush()
				for _, frame := range scripted(d, true, n, "stop") {
					select {
					case <-read:
					case <-r.Context().Done():
						return
					}
					fmt.Fprintf(w, "data: %s\n\n", frame)
					w.(http.Flusher).Flush()
				}
			})
			a := start(t, f, Options{}, Spec{})
			path, body := ask(d, "m", true)
			resp, err := http.Post(a.cell.URL(d)+path, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			lines := bufio.NewReader(resp.Body)
			for _, frame := range scripted(d, true, 0, "stop") {
				read <- struct{}{}
				if isUsageChunk([]byte(frame)) && d == Chat {
					continue
				}
				if got, err := lines.ReadString('\n'); err != nil || got != "data: "+frame+"\n" {
					t.Fatalf("got %q, %v", got, err)
				}
				lines.ReadString('\n')
			}
		})
	}
}

func TestCloseCutsWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	f := newFake(t, Chat, func(_ http.ResponseWriter, r *http.Request, _ int) {
		close(asked)
		<-r.Context().Done()
	})
	a := start(t, f, Options{}, Spec{})
	done := make(chan error, 1)
	go func() {
		path, body := ask(Chat, "m", true)
		resp, err := http.Post(a.cell.URL(Chat)+path, "application/json", strings.NewReader(body))
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		done <- err
	}()
	<-asked
	s := a.cell.Close()
	if err := <-done; err == nil {
		t.Error("the agent got an answer")
	}
	if s.Calls != 0 || s.LastFault != nil || len(a.events()) != 1 {
		t.Errorf("seen %+v, events %+v", s, a.events())
	}
}

// TestCloseDoesNotWaitForASilentClient has a client that never sends its body.
func TestCloseDoesNotWaitForASilentClient(t *testing.T) {
	t.Parallel()
	a := start(t, newFake(t, Chat, nil), Options{}, Spec{})
	conn, err := net.Dial("tcp", a.cell.g.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /c/%s/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n", a.cell.token)
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100") { // the body is being read
		t.Fatalf("got %q, %v", line, err)
	}
	done := make(chan Seen)
	go func() { done <- a.cell.Close() }()
	select {
	case s := <-done:
		if s.Calls != 0 || s.Refused != nil {
			t.Errorf("seen %+v", s)
		}
	case <-time.After(20 * time.Second):
		t.Error("the cell waits for a client that sends nothing")
	}
}

func TestActivity(t *testing.T) {
	t.Parallel()
	a := start(t, newFake(t, Chat, nil), Options{}, Spec{})
	var mu sync.Mutex
	n := 0
	a.cell.OnActivity(func() { mu.Lock(); defer mu.Unlock(); n++ })
	a.ask(Chat, "m", true)
	mu.Lock()
	defer mu.Unlock()
	if n == 0 {
		t.Error("no byte was noticed")
	}
}

func TestGzipAnswerIsMetered(t *testing.T) {
	t.Parallel()
	f := newFake(t, Chat, func(w http.ResponseWriter, _ *http.Request, n int) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "application/json")
		z := gzip.NewWriter(w)
		io.WriteString(z, scripted(Chat, false, 0, "stop")[0])
		z.Close()
	})
	a := start(t, f, Options{}, Spec{})
	if r := a.ask(Chat, "m", false); r.body != scripted(Chat, false, 0, "stop")[0] || r.header.Get("Content-Encoding") != "" {
		t.Errorf("the agent got %q %v", r.body, r.header)
	}
	if u := a.cell.Seen().Usage; u == nil || *u.Input != 1000 {
		t.Errorf("usage %+v", u)
	}
}

func TestManyCellsAtOnce(t *testing.T) {
	t.Parallel()
	g := newGateway(t, Options{RunBudgetUSD: 1000})
	var fakes []*fake
	for _, d := range dialects {
		fakes = append(fakes, newFake(t, d, func(w http.ResponseWriter, r *http.Request, _ int) {
			write(w, true, scripted(d, true, 0, "stop"))
		}))
	}
	var wg sync.WaitGroup
	for i := range 12 {
		f := fakes[i%len(fakes)]
		a := open(t, g, Spec{Models: []Model{{Name: "m", Upstream: upstream(f)}}, MaxTurns: 100, MaxCostUSD: 100})
		for range 4 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for range 5 {
					a.ask(f.dialect, "m", true)
					a.cell.Seen()
				}
			}()
		}
		t.Cleanup(func() {
			if s := a.cell.Close(); s.Calls != 20 || s.Turns != 20 || *s.Usage.Input != 20000 || s.Partial || len(a.events()) != 20 {
				t.Errorf("cell %d saw %+v", i, s)
			}
		})
	}
	wg.Wait()
}
