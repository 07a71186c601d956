package gateway

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestScriptThroughTheGateway plays a script to its end in every dialect, records it, and plays the recording: what was used
// must be the same, to the token and the cent.
func TestScriptThroughTheGateway(t *testing.T) {
	t.Parallel()
	tools := map[Dialect]string{Anthropic: "claude-code", Chat: "opencode", Responses: "codex-apply-patch", Gemini: "gemini"}
	costs := map[Dialect]float64{Anthropic: 0.0196425, Chat: 0.01908, Responses: 0.01908, Gemini: 0.019605}
	for _, d := range allDialects {
		for _, stream := range []bool{false, true} {
			t.Run(string(d), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				up := Upstream{Dialect: d, Script: editScript()}
				spec := Spec{Name: "edit/" + string(d) + "/t1", Models: []Model{{Name: "m1", Upstream: up}}}
				prices := map[string]Price{"m1": price()["m"]}
				first := playThrough(t, newGateway(t, Options{Prices: prices, Cassettes: RecordTo(dir, nil)}), spec, d, tools[d], stream)
				spec.Models[0].Upstream = Upstream{Dialect: d, BaseURL: "http://127.0.0.1:9", KeyEnv: "ABSENT"}
				again := playThrough(t, newGateway(t, Options{Prices: prices, Cassettes: PlayFrom(dir, nil)}), spec, d, tools[d], stream)
				if diff := cmp.Diff(first, again); diff != "" {
					t.Error(diff)
				}
				if u := first.Usage; u == nil || *u.Input != 5010 || *u.CacheRead != 1000 || *u.CostUSD < costs[d]-1e-9 || *u.CostUSD > costs[d]+1e-9 {
					t.Errorf("%+v", first)
				}
				if first.Calls != 5 || first.Turns != 5 || first.Finish != "end" || first.Mismatch != "" {
					t.Errorf("%+v", first)
				}
			})
		}
	}
}

func playThrough(t *testing.T, g *Gateway, spec Spec, d Dialect, tools string, stream bool) Seen {
	a := open(t, g, spec)
	c := chat{dialect: d, tools: toolsOf(t, tools), stream: stream}
	path := map[Dialect]string{
		Anthropic: "/v1/messages", Chat: "/chat/completions", Responses: "/responses", Gemini: "/v1beta/models/m1:generateContent",
	}[d]
	if d == Gemini && stream {
		path = "/v1beta/models/m1:streamGenerateContent?alt=sse"
	}
	for {
		body := string(c.body())
		if stream {
			body = strings.Replace(body, `{"`, `{"stream":true,"`, 1)
			body = strings.Replace(body, `"stream_options":{"include_usage":true},`, "", 1) // the gateway asks for it
		}
		r := a.post(d, path, body, http.Header{})
		if r.status != 200 {
			t.Fatalf("%d: %s", r.status, r.body)
		}
		var h heard
		if stream {
			var chunks [][]byte
			for chunk := range strings.SplitAfterSeq(r.body, "\n\n") {
				if chunk != "" {
					chunks = append(chunks, []byte(chunk))
				}
			}
			h = hearStream(t, d, chunks)
		} else {
			h = hear(t, d, []byte(r.body))
		}
		if h.Calls == nil {
			return a.cell.Close()
		}
		one := chatRound{calls: h.Calls}
		for range h.Calls {
			one.results = append(one.results, "def add(a, b):\n    return a - b\n")
		}
		c.rounds = append(c.rounds, one)
	}
}

func TestReplayWithoutARecording(t *testing.T) {
	t.Parallel()
	g := newGateway(t, Options{Cassettes: PlayFrom(t.TempDir(), nil)})
	_, err := g.Open(Spec{Name: "a/b", Models: []Model{{Name: "m", Upstream: Upstream{Dialect: Chat, BaseURL: "http://127.0.0.1:9"}}}})
	if err == nil || !strings.Contains(err.Error(), "there is no recording of a/b") {
		t.Error(err)
	}
	if _, err := os.Stat("a"); err == nil {
		t.Error("a replay made a folder")
	}
}
