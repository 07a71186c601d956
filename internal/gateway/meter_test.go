package gateway

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/redact"
	"github.com/assay-ci/assay/internal/trace"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestMeterDocuments(t *testing.T) {
	t.Parallel()
	usage := func(n ...int64) *trace.Usage { // input, cache read, cache write, output, reasoning; negative: not told
		p := make([]*int64, 5)
		for i := range p {
			if n[i] >= 0 {
				p[i] = &n[i]
			}
		}
		return &trace.Usage{Input: p[0], CacheRead: p[1], CacheWrite: p[2], Output: p[3], Reasoning: p[4], Scope: "step", Source: "gateway"}
	}
	for name, c := range map[string]struct {
		d      Dialect
		doc    string
		want   *trace.Usage
		finish string
	}{
		"anthropic without a cache":       {Anthropic, `{"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":2}}`, usage(9, -1, -1, 2, -1), "end"},
		"anthropic with thinking":         {Anthropic, `{"stop_reason":"pause_turn","usage":{"input_tokens":9,"output_tokens":2,"output_tokens_details":{"thinking_tokens":1}}}`, usage(9, -1, -1, 2, 1), "other"},
		"chat without details":            {Chat, `{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`, usage(9, -1, -1, 2, -1), "end"},
		"chat with cache writes":          {Chat, `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":3}}}`, usage(2, 4, 3, 2, -1), ""},
		"chat with more cached than read": {Chat, `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`, usage(-1, 4, -1, 2, -1), ""},
		"chat with a refusal in words":    {Chat, `{"choices":[{"finish_reason":"stop","message":{"refusal":"no"}}]}`, nil, "refusal"},
		"chat without usage":              {Chat, `{"choices":[{"finish_reason":"weird"}],"usage":null}`, nil, "other"},
		"responses with cache writes":     {Responses, `{"status":"completed","output":[{"type":"custom_tool_call"}],"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":5},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":1}}}`, usage(0, 4, 5, 2, 1), "tool"},
		"responses with a refusal":        {Responses, `{"status":"completed","output":[{"type":"message","content":[{"type":"refusal"}]}]}`, nil, "refusal"},
		"gemini without zeros":            {Gemini, `{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9}}`, usage(9, 0, -1, 0, 0), "end"},
		"gemini with tool prompts":        {Gemini, `{"candidates":[{"finishReason":"RECITATION"}],"usageMetadata":{"promptTokenCount":9,"toolUsePromptTokenCount":2,"cachedContentTokenCount":1,"candidatesTokenCount":3,"thoughtsTokenCount":4}}`, usage(10, 1, -1, 7, 4), "other"},
		"gemini that blocked the prompt":  {Gemini, `{"promptFeedback":{"blockReason":"OTHER"},"usageMetadata":{"promptTokenCount":9}}`, usage(9, 0, -1, 0, 0), "refusal"},
		"gemini as an array":              {Gemini, `[{"candidates":[{"content":{"parts":[{"functionCall":{}}]}}],"usageMetadata":{"promptTokenCount":1}},` + "\n" + `{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2}}]`, usage(9, 0, -1, 2, 0), "tool"},
		"numbers that are none":           {Anthropic, `{"stop_reason":"end_turn","usage":{"input_tokens":-1,"output_tokens":1.5,"cache_read_input_tokens":"7","cache_creation_input_tokens":1e300}}`, nil, "end"},
		"types that are none":             {Anthropic, `{"stop_reason":"end_turn","usage":[1],"error":7,"type":{}}`, nil, "end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &meter{dialect: c.d}
			if !m.document([]byte(c.doc)) {
				t.Fatal("it was not understood")
			}
			if diff := cmp.Diff(c.want, m.tokens.usage(nil)); diff != "" || m.finish != c.finish || m.fault != nil {
				t.Errorf("finish %q, fault %+v, usage:\n%s", m.finish, m.fault, diff)
			}
		})
	}
	for _, bad := range []string{"", "<html>", "{", "[{]", "null null"} {
		for _, d := range dialects {
			if m := (&meter{dialect: d}); m.document([]byte(bad)) {
				t.Errorf("%s takes %q for an answer", d, bad)
			}
		}
	}
}

// TestAnswersThatAreNone: a page of a proxy is no answer of a model.
func TestAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	for name, handle := range map[string]func(w http.ResponseWriter, r *http.Request, n int){
		"page":    func(w http.ResponseWriter, _ *http.Request, _ int) { fmt.Fprint(w, "<html>sign in</html>") },
		"nothing": func(http.ResponseWriter, *http.Request, int) {},
		"half a stream": func(w http.ResponseWriter, _ *http.Request, n int) {
			write(w, true, scripted(Chat, true, n, "stop")[:2])
		},
		"unknown encoding": func(w http.ResponseWriter, _ *http.Request, _ int) { w.Header().Set("Content-Encoding", "br") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start(t, newFake(t, Chat, handle), Options{}, Spec{})
			a.ask(Chat, "m", true)
			if s := a.cell.Seen(); s.LastFault == nil || s.LastFault.Class != trace.ClassModelAPI || s.Turns != 0 {
				t.Errorf("seen %+v", s)
			}
		})
	}
}

func TestStreamsAreReadHoweverTheyAreCut(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		for _, newline := range []string{"\n", "\r\n"} {
			var text strings.Builder
			for _, f := range scripted(d, true, 3, "stop") {
				text.WriteString(": note" + newline + "event: x" + newline + "data: " + f + newline + newline)
			}
			whole := strings.TrimRight(text.String(), "\r\n") // the last blank line is often forgotten
			want, hidden := metered(d, whole)
			if want.tokens.input == nil || *want.tokens.input != 1003 || want.finish != "end" || !want.ended && d != Gemini {
				t.Fatalf("%s: %+v", d, want)
			}
			for i := range len(whole) {
				if got, out := metered(d, whole[:i], whole[i:]); out != hidden || !cmp.Equal(*got.tokens.usage(nil), *want.tokens.usage(nil)) || got.finish != want.finish {
					t.Fatalf("%s cut at %d: %+v", d, i, got)
				}
			}
		}
	}
}

// metered feeds a stream in pieces and returns what the meter read and what passes when the usage is hidden.
func metered(d Dialect, pieces ...string) (*meter, string) {
	m := &meter{dialect: d}
	h := newHold(m, true, d == Chat)
	var out strings.Builder
	for _, p := range pieces {
		out.Write(h.pass([]byte(p)))
	}
	out.Write(h.end())
	return m, out.String()
}

func TestHiddenChunkIsAllThatIsMissing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var in, want strings.Builder
		for range rapid.IntRange(0, 10).Draw(t, "events") {
			frame := rapid.SampledFrom([]string{
				`data: {"choices":[],"usage":{"prompt_tokens":1}}`, `data: {"choices":[{}],"usage":{"prompt_tokens":1}}`, `data: {"choices":[],"usage":null}`,
				`data: {"error":{},"usage":{}}`, ": keep-alive", "data: [DONE]", "id: 7", "data: {", "data:", "event: usage",
			}).Draw(t, "frame") + rapid.SampledFrom([]string{"\n\n", "\r\n\r\n", "\n", "\n\n\n"}).Draw(t, "end")
			in.WriteString(frame)
		}
		text := in.String()
		e := &events{each: func(raw, data []byte) {
			if !isUsageChunk(data) {
				want.Write(raw)
			}
		}}
		e.Write([]byte(text))
		e.flush()
		cut := rapid.IntRange(0, len(text)).Draw(t, "cut")
		if _, got := metered(Chat, text[:cut], text[cut:]); got != want.String() {
			t.Fatalf("of %q passed %q, want %q", text, got, want.String())
		}
	})
}

func TestEventsTooLargePass(t *testing.T) {
	t.Parallel()
	big := "data: {\"x\":\"" + strings.Repeat("y", 2*maxEvent+100) + "\"}\n"
	text := "data: a\n\n" + big + big + "\ndata: b\n\n"
	var raw bytes.Buffer
	var datas []string
	e := &events{each: func(r, data []byte) {
		raw.Write(r)
		if data != nil {
			datas = append(datas, string(data))
		}
	}}
	for p := []byte(text); len(p) > 0; {
		n := min(len(p), 1<<20)
		e.Write(p[:n])
		p = p[n:]
		if len(e.raw) > maxEvent+1<<20 {
			t.Fatal("it grows without bound")
		}
	}
	e.flush()
	if raw.String() != text || strings.Join(datas, ",") != "a,b" {
		t.Errorf("%d of %d bytes passed, events %.100q", raw.Len(), len(text), datas)
	}
}

func TestScrubberAtEveryCut(t *testing.T) {
	t.Parallel()
	const secret = "sk-ababab-abab"
	text := "sk-" + secret + "sk-abababsk-" + secret + secret[:5]
	secrets := redact.New([]redact.Secret{{Name: "KEY", Value: secret}})
	want := strings.ReplaceAll(text, secret, "[redacted:KEY]")
	for i := range len(text) + 1 {
		for j := i; j <= len(text); j++ {
			s := scrubber{secrets: secrets}
			var got strings.Builder
			for _, p := range []string{text[:i], text[i:j], text[j:]} {
				got.Write(s.pass([]byte(p)))
			}
			got.Write(s.rest())
			if got.String() != want {
				t.Fatalf("cut at %d and %d: %s", i, j, got.String())
			}
		}
	}
	s := scrubber{secrets: secrets}
	if out := s.pass([]byte("data: nothing of it\n\n")); string(out) != "data: nothing of it\n\n" {
		t.Errorf("%q is held back", s.rest())
	}
}

func FuzzStreamAnthropic(f *testing.F) { fuzzStream(f, Anthropic) }
func FuzzStreamChat(f *testing.F)      { fuzzStream(f, Chat) }
func FuzzStreamResponses(f *testing.F) { fuzzStream(f, Responses) }
func FuzzStreamGemini(f *testing.F)    { fuzzStream(f, Gemini) }

// fuzzStream feeds any bytes as a stream and as a document: nothing is lost, and no number is made up.
func fuzzStream(f *testing.F, d Dialect) {
	for _, reason := range []string{"stop", "length", "content_filter", "tool_calls"} {
		for _, stream := range []bool{true, false} {
			f.Add([]byte("data: "+strings.Join(scripted(d, stream, 1, reason), "\r\n\r\ndata: ")+"\n\n"), 7)
			f.Add([]byte(strings.Join(scripted(d, stream, 1, reason), "\n")), 0)
		}
	}
	f.Add([]byte("data: {\"usage\":{\"input_tokens\":1e99,\"prompt_tokens\":-1}}\n\ndata:"+strings.Repeat("[", 20000)), 1)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		cut = min(max(cut, 0), len(in))
		m := &meter{dialect: d}
		h := newHold(m, true, false)
		var out bytes.Buffer
		out.Write(h.pass(in[:cut]))
		out.Write(h.pass(in[cut:]))
		out.Write(h.end())
		if !bytes.Equal(out.Bytes(), in) {
			t.Fatalf("%q passed as %q", in, out.Bytes())
		}
		doc := &meter{dialect: d}
		doc.document(in)
		for _, m := range []*meter{m, doc} {
			u := m.tokens
			for _, n := range []*int64{u.input, u.cacheRead, u.cacheWrite, u.output, u.reasoning} {
				if n != nil && (*n < 0 || *n > 4e12) {
					t.Fatalf("%d tokens", *n)
				}
			}
			if c := price()["m"].cost(u); c != nil && *c < 0 {
				t.Fatalf("cost %v", *c)
			}
			if m.fault != nil && (m.fault.Class == "" || len(m.fault.Detail) > 600) {
				t.Fatalf("fault %+v", m.fault)
			}
		}
		_ = faultOf(500, in)
		_ = answerText(d, in)
	})
}

// TestA24FaultIsCleanBeforeItIsFolded has a provider break a secret over lines, and end with one that is cut.
func TestA24FaultIsCleanBeforeItIsFolded(t *testing.T) {
	t.Parallel()
	secrets := redact.New([]redact.Secret{{Name: "S", Value: "sk-0123456789abcdef"}})
	f := newFake(t, Chat, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"message":"no: sk-0123\n456789ab\r\ncdef %s sk-0123456789abcdef"}}`, strings.Repeat("x", 415))
	})
	a := start(t, f, Options{Redact: secrets.Bytes}, Spec{})
	a.ask(Chat, "m", false)
	fault := a.cell.Seen().LastFault
	if fault == nil || !strings.Contains(fault.Detail, "no: [redacted:S] xxx") || strings.Contains(fault.Detail, "sk-") {
		t.Errorf("the fault is %+v", fault)
	}
}
