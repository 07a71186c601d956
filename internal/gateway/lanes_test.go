package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/trace"
)

// said is a request over the Anthropic dialect.
func said(system, first, tools, more string) string {
	return fmt.Sprintf(`{"model":"m","system":%s,"messages":[{"role":"user","content":%s}%s],"tools":[%s]}`, system, first, more, tools)
}

func TestLanes(t *testing.T) {
	t.Parallel()
	const tool = `{"name":"x"}`
	var steps = []struct {
		what, body, agent, lane string
	}{
		{"a title", said(`"titles"`, `"hi"`, ``, ``), "", "aux"},
		{"the first with tools", said(`[{"type":"text","text":"x-anthropic-billing-header: cch=1;"},{"type":"text","text":"be good"}]`, `[{"type":"text","text":"hi","cache_control":{}}]`, tool, ``), "", "main"},
		{"another accounting line, no cache mark", said(`[{"type":"text","text":"x-anthropic-billing-header: cch=2;"},{"type":"text","text":"be good"}]`, `[{"type":"text","text":"hi"}]`, tool, `,{"role":"assistant","content":"x"}`), "", "main"},
		{"a system prompt that grew", said(`"be good, and a tool server came"`, `"hi"`, tool, ``), "", "main"},
		{"a history that was folded up", said(`[{"type":"text","text":"be good"}]`, `"summary"`, tool, ``), "", "main"},
		{"a sub-agent", said(`"search"`, `"find it"`, tool, ``), "", "sub:1"},
		{"the same again", said(`"search"`, `"find it"`, tool, `,{"role":"assistant","content":"x"}`), "", "sub:1"},
		{"another", said(`"plan"`, `"plan it"`, tool, ``), "", "sub:2"},
		{"one with a name and the main prompt", said(`"be good"`, `"hi"`, tool, ``), "a1", "sub:3"},
		{"the named one again", said(`"anything"`, `"else"`, tool, ``), "a1", "sub:3"},
		{"a title with the main prompt", said(`"be good"`, `"hi"`, ``, ``), "", "aux"},
		{"main again", said(`"be good"`, `"hi"`, tool, ``), "", "main"},
	}
	a := start(t, newFake(t, Anthropic, nil), Options{}, Spec{MaxTurns: 5})
	for i, s := range steps {
		if r := a.post(Anthropic, "/v1/messages", s.body, http.Header{"X-Claude-Code-Agent-Id": {s.agent}}); r.status != 200 {
			t.Fatalf("%s: %d %s", s.what, r.status, r.body)
		}
		if e := a.events(); e[len(e)-1].Call.Lane != s.lane || e[len(e)-1].Call.Ordinal != i+1 {
			t.Errorf("%s is call %d in lane %s, want %s", s.what, e[len(e)-1].Call.Ordinal, e[len(e)-1].Call.Lane, s.lane)
		}
	}
	if s := a.cell.Seen(); s.Turns != 5 || s.Calls != len(steps) {
		t.Errorf("seen %+v", s)
	}
	a.post(Anthropic, "/v1/messages", steps[1].body, nil).refusedWith(t, "turns")
}

func TestLanesOfTheOtherDialects(t *testing.T) {
	t.Parallel()
	for d, bodies := range map[Dialect][3]string{ // main, main again, sub
		Chat: {
			`{"model":"m","messages":[{"role":"system","content":"be good"},{"role":"user","content":"hi"}],"tools":[{}]}`,
			`{"model":"m","messages":[{"role":"developer","content":"be better"},{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant"}],"tools":[{}]}`,
			`{"model":"m","messages":[{"role":"system","content":"search"},{"role":"user","content":"find"}],"tools":[{}]}`,
		},
		Responses: {
			`{"model":"m","instructions":"be good","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}],"tools":[{}]}`,
			`{"model":"m","instructions":"be good","input":"hi","tools":[{}]}`,
			`{"model":"m","instructions":"search","input":[{"type":"additional_tools","tools":[{}]},{"role":"user","content":"find"}]}`,
		},
		Gemini: {
			`{"systemInstruction":{"parts":[{"text":"be good"}]},"contents":[{"role":"user","parts":[{"text":"hi"}]}],"tools":[{}]}`,
			`{"system_instruction":{"parts":[{"text":"be good"}]},"contents":[{"parts":[{"text":"hello"}]}],"tools":[{}]}`,
			`{"systemInstruction":{"parts":[{"text":"search"}]},"contents":[{"parts":[{"text":"find"}]}],"tools":[{}]}`,
		},
	} {
		a := start(t, newFake(t, d, nil), Options{}, Spec{})
		path, _ := ask(d, "m", false)
		for i, lane := range []string{"main", "main", "sub:1"} {
			a.post(d, path, bodies[i], nil)
			if e := a.events(); e[len(e)-1].Call == nil || e[len(e)-1].Call.Lane != lane {
				t.Errorf("%s request %d is in lane %+v, want %s", d, i, e[len(e)-1].Call, lane)
			}
		}
	}
}

func TestAgentsWithoutToolsHaveTurns(t *testing.T) {
	t.Parallel()
	f := newFake(t, Chat, nil)
	g := newGateway(t, Options{Prices: map[string]Price{"m": price()["m"], "side": price()["m"]}})
	a := open(t, g, Spec{MaxTurns: 2, Models: []Model{{Name: "m", Upstream: upstream(f)}, {Name: "side", Upstream: upstream(f), Side: true}}})
	body := func(model string) string {
		return `{"model":"` + model + `","messages":[{"role":"user","content":"hi"}]}`
	}
	for _, model := range []string{"side", "side", "side", "m", "m"} {
		if r := a.post(Chat, "/chat/completions", body(model), nil); r.status != 200 {
			t.Fatalf("%s got %d %s", model, r.status, r.body)
		}
	}
	if s := a.cell.Seen(); s.Turns != 2 || s.Calls != 5 || s.Finish != "end" || strings.Join(s.Models, " ") != "m side" {
		t.Errorf("seen %+v", s)
	}
	a.post(Chat, "/chat/completions", body("m"), nil).refusedWith(t, "2 turns")
}

func TestSideModelsAreNeverMain(t *testing.T) {
	t.Parallel()
	f := newFake(t, Chat, nil)
	g := newGateway(t, Options{})
	a := open(t, g, Spec{Models: []Model{{Name: "m", Upstream: upstream(f)}, {Name: "side", Upstream: upstream(f), Side: true}}})
	a.post(Chat, "/chat/completions", `{"model":"side","messages":[{"role":"user","content":"route"}],"tools":[{}]}`, nil)
	a.ask(Chat, "m", false)
	if e := a.events(); e[0].Call.Lane != "sub:1" || e[1].Call.Lane != "main" {
		t.Errorf("lanes %s, %s", e[0].Call.Lane, e[1].Call.Lane)
	}
	if s := a.cell.Seen(); s.Turns != 1 || s.Usage.CostUSD != nil {
		t.Errorf("seen %+v: a model without a price makes the cost unknown", s)
	}
}

// TestFailuresBesideTheMainLane: a title that could not be made is no failure of the agent.
func TestFailuresBesideTheMainLane(t *testing.T) {
	t.Parallel()
	f := newFake(t, Chat, func(w http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			http.Error(w, "no", 500)
			return
		}
		write(w, false, scripted(Chat, false, 0, "stop"))
	})
	a := start(t, f, Options{}, Spec{})
	a.ask(Chat, "m", false)
	a.post(Chat, "/chat/completions", `{"model":"m","messages":[{"role":"user","content":"title"}]}`, nil)
	if s := a.cell.Seen(); s.LastFault != nil || s.LastStatus != 200 || s.Finish != "end" || s.Turns != 1 || s.Calls != 1 {
		t.Errorf("seen %+v", s)
	}
	if e := a.events(); len(e) != 3 || e[2].Err == nil || e[2].Err.Class != trace.ClassModelAPI {
		t.Errorf("the trace does not tell it: %+v", e)
	}
}

func TestLanesAreBounded(t *testing.T) {
	t.Parallel()
	c := &Cell{}
	m := &endpoint{}
	for i := range 3 * maxTalks {
		q := &request{tools: true, system: digest{1, byte(i), byte(i >> 8)}, first: digest{2, byte(i), byte(i >> 8)}}
		if lane := c.laneOf(q, m); lane == laneMain {
			c.mainSeen = true
		}
	}
	if len(c.talks) != maxTalks {
		t.Errorf("%d conversations are kept", len(c.talks))
	}
}

func TestMarkers(t *testing.T) {
	t.Parallel()
	here := Marker{Of: "skill greeter", Text: "greets\n  “politely” <b>", Wanted: true}
	absent := Marker{Of: "skill other", Text: "something else"}
	for name, c := range map[string]struct {
		markers []Marker
		want    []string
		ok      *bool
	}{
		"none":              {nil, nil, nil},
		"all hold":          {[]Marker{here, absent}, nil, ptr(true)},
		"one is missing":    {[]Marker{here, {Of: "instructions", Text: "be bad", Wanted: true}}, []string{"instructions: did not reach the model"}, ptr(false)},
		"one is too many":   {[]Marker{{Of: "skill x", Text: "politely”"}}, []string{"skill x: reached the model, and this condition does not have it"}, ptr(false)},
		"only in the names": {[]Marker{{Of: "x", Text: "db_find", Wanted: true}}, nil, ptr(true)},
		"a tool":            {[]Marker{{Of: "MCP server db", Text: "db_", Tool: true, Wanted: true}}, nil, ptr(true)},
		"no such tool":      {[]Marker{{Of: "MCP server d", Text: "d_", Tool: true, Wanted: true}}, []string{"MCP server d: its tools were not offered to the model"}, ptr(false)},
		"a word of a text":  {[]Marker{{Of: "MCP server files", Text: "files_", Tool: true}}, nil, ptr(true)},
		"a tool kept back":  {[]Marker{{Of: "MCP server late", Text: "mcp__late__", Tool: true, Wanted: true}}, nil, ptr(true)},
		"another kept back": {[]Marker{{Of: "MCP server lat", Text: "mcp__lat__", Tool: true}}, nil, ptr(true)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start(t, newFake(t, Chat, nil), Options{}, Spec{Markers: c.markers})
			a.post(Chat, "/chat/completions", `{"model":"m","messages":[{"role":"user","content":"It greets \u201cpolitely\u201d\t\u003cb\u003e files_with_ mcp__late: x"}],"tools":[{"function":{"name":"db_find"}}]}`, nil)
			a.post(Chat, "/chat/completions", `{"model":"m","messages":[{"role":"user","content":"something else; be bad"}],"tools":[{}]}`, nil)
			s := a.cell.Seen()
			if (s.Verified == nil) != (c.ok == nil) || c.ok != nil && *s.Verified != *c.ok || strings.Join(s.Unverified, "|") != strings.Join(c.want, "|") {
				t.Errorf("verified %v, %q", s.Verified, s.Unverified)
			}
			if ended := s.Refused != nil && s.Refused.Class == trace.ClassCondition && s.Calls == 0; ended != (len(c.want) > 0) {
				t.Errorf("ended: %+v after %d calls", s.Refused, s.Calls)
			}
		})
	}
}

// TestMarkersOfAnAgentWithoutTools: its only requests decide, and any of them may show the condition. A request with tools
// is the main lane, and decides alone.
func TestMarkersOfAnAgentWithoutTools(t *testing.T) {
	t.Parallel()
	say := func(text, tools string) string {
		return `{"model":"m","messages":[{"role":"user","content":"` + text + `"}]` + tools + `}`
	}
	for name, c := range map[string]struct {
		bodies []string
		ok     *bool
	}{
		"no request":             {nil, nil},
		"in the second":          {[]string{say("title", ""), say("it greets", ""), say("more", "")}, ptr(true)},
		"in none":                {[]string{say("title", ""), say("more", "")}, ptr(false)},
		"but the main lane lost": {[]string{say("it greets", ""), say("more", `,"tools":[{}]`)}, ptr(false)},
		"but the main lane has":  {[]string{say("title", ""), say("it greets", `,"tools":[{}]`)}, ptr(true)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start(t, newFake(t, Chat, nil), Options{}, Spec{Markers: []Marker{{Of: "x", Text: "greets", Wanted: true}}})
			for _, body := range c.bodies {
				a.post(Chat, "/chat/completions", body, nil)
			}
			s := a.cell.Seen()
			if (s.Verified == nil) != (c.ok == nil) || c.ok != nil && (*s.Verified != *c.ok || *c.ok != (len(s.Unverified) == 0)) {
				t.Errorf("verified %v, %q", s.Verified, s.Unverified)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }
