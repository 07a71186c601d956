package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/trace"
)

// A memory is a cassette in memory: it records, or plays what it holds back.
type memory struct {
	mu     sync.Mutex
	plays  bool
	held   []taped
	taken  int
	closed bool
}

func (m *memory) open(string) (tape, error) { return m, nil }
func (m *memory) replays() bool             { return m.plays }

func (m *memory) take(k taped) (*taped, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.plays {
		return nil, nil
	}
	for _, h := range m.held {
		if h.lane == k.lane && h.ordinal == k.ordinal {
			if string(h.request) != string(k.request) {
				return nil, fmt.Errorf("call %d of lane %s has the prompt is too long: %s", k.ordinal, k.lane, canary)
			}
			m.taken++
			return &h, nil
		}
	}
	return nil, errors.New("there is no such call")
}

func (m *memory) keep(k taped) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = append(m.held, k)
	return nil
}

func (m *memory) close() (int, error) {
	m.closed = true
	if !m.plays {
		return 0, nil
	}
	return len(m.held) - m.taken, nil
}

func TestRecordAndReplay(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, d, func(w http.ResponseWriter, _ *http.Request, n int) {
				switch n {
				case 1:
					w.Header().Set("X-Echo", canary)
					http.Error(w, "slow down "+canary, http.StatusTooManyRequests)
				case 2:
					write(w, true, scripted(d, true, n, "stop")[:1])
					panic(http.ErrAbortHandler)
				default:
					write(w, true, scripted(d, true, n, "stop"))
				}
			})
			m := &memory{}
			rec := start(t, f, Options{Cassettes: m}, Spec{})
			var first []reply
			for range 4 {
				first = append(first, rec.ask(d, "m", true))
			}
			recorded := rec.cell.Close()
			if len(m.held) != 4 || !m.closed || !m.held[2].cut || m.held[0].cut {
				t.Fatalf("recorded %d", len(m.held))
			}
			for _, h := range m.held {
				text := string(h.request) + fmt.Sprint(h.header)
				for _, c := range h.chunks {
					text += string(c.data)
				}
				if strings.Contains(text, canary) {
					t.Errorf("the recording holds the key: %s", text)
				}
			}

			m.plays = true
			keyless := Options{Cassettes: m, Keys: func(string) string { return "" }, Transport: noSocket{t}}
			play := start(t, f, keyless, Spec{})
			for i := range 4 {
				got := play.ask(d, "m", true)
				if got.status != first[i].status || got.body != first[i].body || (got.err == nil) != (first[i].err == nil) || got.header.Get("Content-Type") != first[i].header.Get("Content-Type") {
					t.Errorf("answer %d is %+v, was %+v", i, got, first[i])
				}
			}
			played := play.cell.Close()
			if played.Calls != recorded.Calls || *played.Usage.CostUSD != *recorded.Usage.CostUSD || played.Mismatch != "" || f.n != 4 || len(m.held) != 4 {
				t.Errorf("played %+v, recorded %+v", played, recorded)
			}
		})
	}
}

type noSocket struct{ t *testing.T }

func (n noSocket) RoundTrip(r *http.Request) (*http.Response, error) {
	n.t.Errorf("a replay asked %s", r.URL)
	return nil, errors.New("no")
}

func TestReplayMismatch(t *testing.T) {
	t.Parallel()
	path, body := ask(Chat, "m", false)
	held := []taped{{lane: "main", ordinal: 1, request: []byte(body), status: 200, chunks: []tapedChunk{{0, []byte(scripted(Chat, false, 0, "stop")[0])}}}}
	for name, c := range map[string]struct {
		ask  func(a *agent)
		want string
	}{
		"another request": {func(a *agent) { a.ask(Chat, "m", true).refusedWith(t, "differs from the recording") }, "is too long"},
		"one too many": {func(a *agent) {
			a.post(Chat, path, body, nil)
			a.post(Chat, path, body, nil).refusedWith(t, "differs from the recording")
		}, "no such call"},
		"one too few": {func(*agent) {}, "1 recorded calls were not made"},
	} {
		t.Run(name, func(t *testing.T) {
			a := start(t, newFake(t, Chat, nil), Options{Cassettes: &memory{plays: true, held: held}, Redact: func(b []byte) []byte {
				return []byte(strings.ReplaceAll(string(b), canary, "gone"))
			}}, Spec{})
			c.ask(a)
			s := a.cell.Close()
			if !strings.Contains(s.Mismatch, c.want) {
				t.Errorf("mismatch is %q", s.Mismatch)
			}
			if name != "one too few" && (s.Refused == nil || s.Refused.Class != trace.ClassCassette || strings.Contains(s.Refused.Detail+s.Mismatch, canary)) {
				t.Errorf("refused %+v, mismatch %s", s.Refused, s.Mismatch)
			}
		})
	}
}

func TestScriptedModel(t *testing.T) {
	t.Parallel()
	g := newGateway(t, Options{Transport: noSocket{t}})
	script := &Script{}
	g.playScript = func(s *Script, d Dialect, stream bool, body []byte) (played, error) {
		if s != script || d != Anthropic || !stream || len(body) == 0 {
			t.Errorf("the script got %s %v %s", d, stream, body)
		}
		var chunks [][]byte
		for _, f := range scripted(d, stream, 0, "stop") {
			chunks = append(chunks, []byte("data: "+f+"\n\n"), nil)
		}
		return played{status: 200, header: http.Header{"Content-Type": {"text/event-stream"}}, chunks: chunks, pause: time.Hour}, nil
	}
	var paused time.Duration
	g.after = func(d time.Duration) <-chan time.Time {
		paused = d
		c := make(chan time.Time, 1)
		c <- time.Time{}
		return c
	}
	a := open(t, g, Spec{Models: []Model{{Name: "m", Upstream: Upstream{Dialect: Anthropic, Script: script}}}})
	if r := a.ask(Anthropic, "m", true); r.status != 200 || !strings.Contains(r.body, "message_stop") || paused != time.Hour {
		t.Errorf("got %d %s after %s", r.status, r.body, paused)
	}
	if r := a.post(Anthropic, "/v1/messages/count_tokens", `{"model":"m"}`, nil); r.status != 200 || r.body != `{"input_tokens":3,"totalTokens":3}` {
		t.Errorf("counting got %d %s", r.status, r.body)
	}
	if s := a.cell.Close(); s.Turns != 1 || *s.Usage.Input != 1000 {
		t.Errorf("seen %+v", s)
	}
}

func TestPiecesArriveOneByOne(t *testing.T) {
	t.Parallel()
	p := &pieces{left: [][]byte{nil, []byte("ab"), {}, []byte("cde")}}
	buf := make([]byte, 2)
	var got []string
	for {
		n, err := p.Read(buf)
		if errors.Is(err, io.EOF) {
			break
		}
		got = append(got, string(buf[:n]))
	}
	if strings.Join(got, "|") != "ab|cd|e" {
		t.Errorf("got %q", got)
	}
}
