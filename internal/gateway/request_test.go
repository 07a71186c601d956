package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestRoutes(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]route{
		"/v1/messages":                                 {dialect: Anthropic, path: "/v1/messages"},
		"//v1//messages":                               {dialect: Anthropic, path: "/v1/messages"},
		"/v1/messages/count_tokens":                    {dialect: Anthropic, path: "/v1/messages/count_tokens", count: true},
		"/v1/chat/completions":                         {dialect: Chat, path: "/chat/completions"},
		"/v1/responses":                                {dialect: Responses, path: "/responses"},
		"/v1beta/models/g-1:generateContent":           {dialect: Gemini, path: "/v1beta/models/g-1:generateContent", model: "g-1"},
		"/v1beta/models/g:1:streamGenerateContent":     {dialect: Gemini, path: "/v1beta/models/g:1:streamGenerateContent", model: "g:1", stream: true},
		"/v1beta/models/a/b?c:countTokens":             {dialect: Gemini, path: "/v1beta/models/a%2Fb%3Fc:countTokens", model: "a/b?c", count: true},
		"/v1beta/models/../../v1/messages":             {dialect: Anthropic, path: "/v1/messages"},
		"/v1/messages/batches":                         {},
		"/v1beta/models/:generateContent":              {},
		"/v1beta/models/g:deleteContent":               {},
		"/v1/models":                                   {},
		"/v1beta/models/g":                             {},
		"/v1beta/cachedContents/models/g:countTokens2": {},
		"":  {},
		"/": {},
	} {
		if got, ok := routeOf(path); got != want || ok != (want != route{}) {
			t.Errorf("%s is %+v, want %+v", path, got, want)
		}
	}
}

func TestHeadersAndQueries(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"authorization", "x-api-key", "x-goog-api-key", "cookie", "proxy-authorization", "x-forwarded-for", "transfer-encoding", "content-length", "accept-encoding", "x-goog-user-project"} {
		if !notForwarded(http.CanonicalHeaderKey(name)) {
			t.Errorf("%s is forwarded", name)
		}
	}
	for _, name := range []string{"anthropic-beta", "anthropic-version", "user-agent", "x-stainless-lang", "accept"} {
		if notForwarded(http.CanonicalHeaderKey(name)) {
			t.Errorf("%s is not forwarded", name)
		}
	}
	if notReturned("Retry-After") || !notReturned("Set-Cookie") || !notReturned("Location") {
		t.Error("the headers that return are wrong")
	}
	q, _ := url.ParseQuery("alt=sse&key=dummy&beta=true")
	if got := forwardedQuery(q); got != "alt=sse&beta=true" {
		t.Errorf("the query is %s", got)
	}
}

// FuzzRequest: whatever an agent sends, what we understood of it is what a provider would read.
func FuzzRequest(f *testing.F) {
	for i, d := range dialects {
		for _, stream := range []bool{true, false} {
			_, body := ask(d, "m", stream)
			f.Add([]byte(body), i)
		}
	}
	for _, body := range []string{
		`{"model":"m","model":"n"}`, `{"MODEL":"n","model":"m","stream":true}`, `{"model":"m","stream":true,"stream_options":[]}`, `{"model":null}`, "{}", "[]", "\xff", `{"model":"m"} x`,
		`{"model":"m","messages":{"role":1},"tools":{},"system":[[["a"]],{"text":[1],"parts":[{"text":"x"}]}],"input":[null,1]}`,
		`{"model":"m","tools":[{"name":"a","type":"namespace","tools":[{"name":1}]},{"functionDeclarations":[{"name":"b"}]},{"function":null},null]}`, `{"model":"m","x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}",
	} {
		f.Add([]byte(body), 1)
	}
	paths := []string{"/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1beta/models/m:streamGenerateContent"}
	f.Fuzz(func(t *testing.T, body []byte, which int) {
		rt, ok := routeOf(paths[uint(which)%uint(len(paths))])
		if !ok {
			t.Fatal("no route")
		}
		q, err := readRequest(rt, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)))
		if err == nil {
			q.unmet([]Marker{{Text: "x"}, {Text: "x", Tool: true}})
		}
		if err != nil {
			if len(err.Error()) > 200 || !json.Valid(endBody(err.Error())) {
				t.Fatalf("error %q", err)
			}
			return
		}
		sent, err := q.upstreamBody()
		if err != nil {
			return
		}
		if !json.Valid(sent) {
			t.Fatalf("%q was sent for %q", sent, body)
		}
		again, err := newRequest(rt, sent)
		if err != nil {
			t.Fatalf("what was sent is not understood: %v", err)
		}
		if again.model != q.model || again.tools != q.tools || again.system != q.system || again.first != q.first || again.stream != q.stream || !again.asked {
			t.Fatalf("%q was sent for %q", sent, body)
		}
	})
}

// TestTowersOfListsAreNotClimbed: reading each of 9,000 levels again for the next would take hours.
func TestTowersOfListsAreNotClimbed(t *testing.T) {
	t.Parallel()
	tower := strings.Repeat("[", 9000) + `"` + strings.Repeat("x", 8<<20) + `"` + strings.Repeat("]", 9000)
	for _, body := range []string{`{"model":"m","system":` + tower + `}`, `{"model":"m","messages":[{"role":"user","content":` + tower + `}]}`} {
		if q, err := newRequest(route{dialect: Anthropic}, []byte(body)); err != nil || q.system != (digest{}) || q.first != (digest{}) {
			t.Errorf("%+v, %v", q, err)
		}
	}
}

// BenchmarkRequest understands a request of 1 MB: what the gateway adds before a call is on its way.
func BenchmarkRequest(b *testing.B) {
	turn := `{"role":"assistant","content":[{"type":"text","text":"` + strings.Repeat("some words ", 80) + `"}]}`
	body := []byte(`{"model":"m","stream":true,"system":"be good","messages":[{"role":"user","content":"hi"}` + strings.Repeat(","+turn, 1000) + `],"tools":[{}]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := newRequest(route{dialect: Anthropic}, body); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStream meters a stream of 1 MB in pieces of text.
func BenchmarkStream(b *testing.B) {
	for _, d := range dialects {
		b.Run(string(d), func(b *testing.B) {
			piece := map[Dialect]string{
				Anthropic: `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"some words"}}`,
				Chat:      `{"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"some words"},"finish_reason":null}],"usage":null}`,
				Responses: `{"type":"response.output_text.delta","item_id":"x","output_index":0,"delta":"some words"}`,
				Gemini:    `{"candidates":[{"content":{"parts":[{"text":"some words"}],"role":"model"}}],"usageMetadata":{"promptTokenCount":1}}`,
			}[d]
			event := []byte("data: " + piece + "\n\n")
			n := 1 << 20 / len(event)
			b.SetBytes(int64(n * len(event)))
			for b.Loop() {
				h := newHold(&meter{dialect: d}, true, d == Chat)
				for range n {
					h.pass(event)
				}
				h.end()
			}
		})
	}
}
