package gateway

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// editScript is a script that reads, plans, edits, runs and speaks.
func editScript() *Script {
	return &Script{Turns: []Turn{
		{Think: "I should read the file first.", Say: "Reading the file.", Calls: []Call{do("read", input{Path: "calc.py"})}},
		{Calls: []Call{do("plan", input{Items: []planItem{{"Fix add()", "in_progress"}, {"Verify", "pending"}}})}},
		{Say: "Fixing it.", Calls: []Call{do("edit", input{Path: "calc.py", Old: "return a - b", New: "return a + b"})}},
		{Calls: []Call{do("bash", input{Command: `python3 -c "import calc; print(calc.add(2,3))"`})}},
		{Say: "Fixed add() in calc.py; verified 2+3=5."},
	}}
}

// do is one abstract call of a script.
func do(kind string, in input) Call { return Call{Kind: kind, Input: marshal(in)} }

var allDialects = []Dialect{Anthropic, Chat, Responses, Gemini}

// A chat is a request that an agent of a test makes, grown by the rounds it has had. It is written apart from the script:
// it knows the allDialects as an agent does.
type chat struct {
	dialect Dialect
	tools   string // in the words of the dialect
	rounds  []chatRound
	stream  bool
}

// A chatRound is an answer and the results of its tools.
type chatRound struct {
	calls   []called
	results []string
}

type called struct{ id, name, input string }

func (c chat) body() []byte {
	var turns []any
	add := func(v any) { turns = append(turns, v) }
	switch c.dialect {
	case Anthropic:
		add(object{"role": "user", "content": "Working directory: /cell/work\nFix add()"})
	case Chat:
		add(object{"role": "system", "content": "Working directory: /cell/work\n"})
		add(object{"role": "user", "content": "Fix add()"})
	case Responses:
		add(object{"type": "message", "role": "user", "content": []any{object{"type": "input_text", "text": "<cwd>/cell/work</cwd> Fix add()"}}})
	case Gemini:
		add(object{"role": "user", "parts": []any{object{"text": "- **Workspace Directories:**\n  - /cell/work\n"}}})
	}
	for _, r := range c.rounds {
		var said, heard []any
		for i, call := range r.calls {
			switch c.dialect {
			case Anthropic:
				said = append(said, object{"type": "tool_use", "id": call.id, "name": call.name, "input": json.RawMessage(call.input)})
				heard = append(heard, object{"type": "tool_result", "tool_use_id": call.id, "content": r.results[i]})
			case Chat:
				said = append(said, object{"id": call.id, "function": object{"name": call.name, "arguments": call.input}})
				heard = append(heard, object{"role": "tool", "tool_call_id": call.id, "content": r.results[i]})
			case Responses:
				said = append(said, object{"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.input})
				heard = append(heard, object{"type": "function_call_output", "call_id": call.id, "output": r.results[i]})
			case Gemini:
				said = append(said, object{"functionCall": object{"name": call.name}})
				heard = append(heard, object{"functionResponse": object{"name": call.name, "response": object{"output": r.results[i]}}})
			}
		}
		switch c.dialect {
		case Anthropic:
			add(object{"role": "assistant", "content": said})
			add(object{"role": "user", "content": heard})
		case Chat:
			add(object{"role": "assistant", "tool_calls": said})
			turns = append(turns, heard...)
		case Responses:
			turns = append(append(turns, said...), heard...)
		case Gemini:
			add(object{"role": "model", "parts": said})
			add(object{"role": "user", "parts": heard})
		}
	}
	o := object{"model": "m1"}
	if c.tools != "" {
		o["tools"] = json.RawMessage(c.tools)
	}
	switch c.dialect {
	case Responses:
		o["input"] = turns
	case Gemini:
		o["contents"] = turns
		o["generationConfig"] = object{"thinkingConfig": object{"includeThoughts": true}}
	default:
		o["messages"] = turns
		o["thinking"] = object{"type": "enabled"}
		o["stream_options"] = object{"include_usage": true}
	}
	return marshal(o)
}

// heard is what an agent understands of an answer.
type heard struct {
	Thought, Text, Stop string
	Calls               []called
	Usage               [5]int // input without cache, cache read, cache write, output as billed, reasoning
}

// ask puts a request to a script and reads the answer, streamed or not.
func (c chat) ask(t testing.TB, s *Script) heard {
	t.Helper()
	a, err := s.Answer(c.dialect, c.stream, c.body())
	if err != nil {
		t.Fatal(err)
	}
	if a.Status != 200 {
		t.Fatalf("status %d: %s", a.Status, a.Body)
	}
	if !c.stream {
		return hear(t, c.dialect, a.Body)
	}
	return hearStream(t, c.dialect, a.Chunks)
}

func hear(t testing.TB, d Dialect, body []byte) heard {
	t.Helper()
	var o object
	if err := json.Unmarshal(body, &o); err != nil {
		t.Fatal(err)
	}
	n := func(keys ...string) int { f, _ := at(o, keys...).(float64); return int(f) }
	var h heard
	switch d {
	case Anthropic:
		for _, b := range listAt(o, "content") {
			h.Thought += textAt(b, "thinking")
			h.Text += textAt(b, "text")
			if textAt(b, "type") == "tool_use" {
				h.Calls = append(h.Calls, called{textAt(b, "id"), textAt(b, "name"), string(marshal(at(b, "input")))})
			}
		}
		h.Stop = textAt(o, "stop_reason")
		h.Usage = [5]int{n("usage", "input_tokens"), n("usage", "cache_read_input_tokens"), n("usage", "cache_creation_input_tokens"), n("usage", "output_tokens")}
	case Chat:
		choice := listAt(o, "choices")[0]
		h.Thought, h.Text, h.Stop = textAt(choice, "message", "reasoning_content"), textAt(choice, "message", "content"), textAt(choice, "finish_reason")
		for _, c := range listAt(choice, "message", "tool_calls") {
			h.Calls = append(h.Calls, called{textAt(c, "id"), textAt(c, "function", "name"), textAt(c, "function", "arguments")})
		}
		cached := n("usage", "prompt_tokens_details", "cached_tokens")
		h.Usage = [5]int{n("usage", "prompt_tokens") - cached, cached, 0, n("usage", "completion_tokens"), n("usage", "completion_tokens_details", "reasoning_tokens")}
	case Responses:
		for _, item := range listAt(o, "output") {
			for _, c := range listAt(item, "content") {
				h.Text += textAt(c, "text")
			}
			for _, c := range listAt(item, "summary") {
				h.Thought += textAt(c, "text")
			}
			if textAt(item, "call_id") != "" {
				h.Calls = append(h.Calls, called{textAt(item, "call_id"), textAt(item, "name"), textAt(item, "arguments") + textAt(item, "input")})
			}
		}
		h.Stop = textAt(o, "status") + textAt(o, "incomplete_details", "reason")
		cached := n("usage", "input_tokens_details", "cached_tokens")
		h.Usage = [5]int{n("usage", "input_tokens") - cached, cached, 0, n("usage", "output_tokens"), n("usage", "output_tokens_details", "reasoning_tokens")}
	case Gemini:
		candidate := listAt(o, "candidates")[0]
		for _, p := range listAt(candidate, "content", "parts") {
			if at(p, "thought") == true {
				h.Thought += textAt(p, "text")
			} else {
				h.Text += textAt(p, "text")
			}
			if at(p, "functionCall") != nil {
				h.Calls = append(h.Calls, called{textAt(p, "functionCall", "id"), textAt(p, "functionCall", "name"), string(marshal(at(p, "functionCall", "args")))})
			}
		}
		h.Stop = textAt(candidate, "finishReason")
		cached := n("usageMetadata", "cachedContentTokenCount")
		thoughts := n("usageMetadata", "thoughtsTokenCount")
		h.Usage = [5]int{n("usageMetadata", "promptTokenCount") - cached, cached, 0, n("usageMetadata", "candidatesTokenCount") + thoughts, thoughts}
	}
	return h
}

// hearStream puts the events of a stream together as an agent does.
func hearStream(t testing.TB, d Dialect, chunks [][]byte) heard {
	t.Helper()
	var h heard
	inputs := map[int]string{}
	for _, chunk := range chunks {
		_, data, found := bytes.Cut(chunk, []byte("data: "))
		if !found || !bytes.HasSuffix(data, []byte("\n\n")) || bytes.Count(chunk, []byte("data: ")) != 1 && d != Responses {
			t.Fatalf("no event: %q", chunk)
		}
		if string(data) == "[DONE]\n\n" {
			continue
		}
		var o object
		if err := json.Unmarshal(data, &o); err != nil {
			t.Fatal(err)
		}
		switch d {
		case Anthropic:
			index, _ := o["index"].(float64)
			if b := objectAt(o, "content_block"); textAt(b, "type") == "tool_use" {
				inputs[int(index)] = ""
				h.Calls = append(h.Calls, called{id: textAt(b, "id"), name: textAt(b, "name")})
			}
			h.Thought += textAt(o, "delta", "thinking")
			h.Text += textAt(o, "delta", "text")
			if p := textAt(o, "delta", "partial_json"); p != "" {
				h.Calls[len(h.Calls)-1].input += p
			}
			if o["type"] == "message_delta" {
				o["content"], o["stop_reason"] = nil, at(o, "delta", "stop_reason")
				last := hear(t, d, marshal(o))
				h.Stop, h.Usage = last.Stop, last.Usage
			}
		case Chat:
			if o["usage"] != nil {
				h.Usage = hear(t, d, marshal(object{"usage": o["usage"], "choices": []any{object{}}})).Usage
				continue
			}
			choice := listAt(o, "choices")[0]
			h.Thought += textAt(choice, "delta", "reasoning_content")
			h.Text += textAt(choice, "delta", "content")
			h.Stop += textAt(choice, "finish_reason")
			for _, c := range listAt(choice, "delta", "tool_calls") {
				if id := textAt(c, "id"); id != "" {
					h.Calls = append(h.Calls, called{id: id, name: textAt(c, "function", "name")})
				}
				h.Calls[len(h.Calls)-1].input += textAt(c, "function", "arguments")
			}
		case Responses:
			kind := textAt(o, "type")
			switch {
			case strings.HasSuffix(kind, "summary_text.delta"):
				h.Thought += textAt(o, "delta")
			case strings.HasSuffix(kind, "output_text.delta"):
				h.Text += textAt(o, "delta")
			case strings.HasSuffix(kind, ".delta"):
				h.Calls[len(h.Calls)-1].input += textAt(o, "delta")
			case kind == "response.output_item.added" && textAt(o, "item", "call_id") != "":
				h.Calls = append(h.Calls, called{id: textAt(o, "item", "call_id"), name: textAt(o, "item", "name")})
			case kind == "response.completed" || kind == "response.incomplete":
				last := hear(t, d, marshal(o["response"]))
				h.Stop, h.Usage = last.Stop, last.Usage
				if diff := cmp.Diff(last.Calls, h.Calls, cmp.AllowUnexported(called{})); diff != "" {
					t.Errorf("the stream and its end differ: %s", diff)
				}
			}
		case Gemini:
			one := hear(t, d, data)
			h.Thought, h.Text, h.Stop, h.Usage = h.Thought+one.Thought, h.Text+one.Text, h.Stop+one.Stop, one.Usage
			h.Calls = append(h.Calls, one.Calls...)
		}
	}
	return h
}

// toolsOf are tools as real agents offer them, without their descriptions.
func toolsOf(t testing.TB, agent string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/tools/" + agent + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var agents = []struct {
	name    string
	dialect Dialect
}{
	{"claude-code", Anthropic}, {"codex", Responses}, {"codex-apply-patch", Responses}, {"codex-code-mode", Responses},
	{"codex-acp", Responses}, {"gemini", Gemini}, {"opencode", Chat},
}

// TestCallsOfEveryAgent binds every abstract call to the tools of every agent.
func TestCallsOfEveryAgent(t *testing.T) {
	t.Parallel()
	calls := []Call{
		do("read", input{Path: "calc.py"}),
		do("plan", input{Items: []planItem{{"Fix add()", "in_progress"}, {"Verify", "pending"}}}),
		do("edit", input{Path: "calc.py", Old: "a - b", New: "a + b"}),
		do("edit", input{Path: "it's.txt", Old: "x\ny", New: "z"}),
		do("write", input{Path: "a/new.txt", Content: "one\ntwo\n"}),
		do("write", input{Path: "bare.txt", Content: "no line feed"}),
		do("bash", input{Command: "exit 3"}),
		do("ask", input{Question: "Which?", Header: "Database", Options: []askLabel{{"Postgres", "relational"}, {"Redis", ""}}}),
		do("skill", input{Name: "greeter"}),
		do("agent", input{Prompt: "Say hi"}),
		{Kind: "raw", Name: "no_such_tool", Input: marshal(map[string]any{"x": 1})},
		{Kind: "raw", Name: "broken", Input: marshal(`{"command": 12`)},
	}
	s := &Script{Turns: []Turn{{Calls: calls[:1]}, {Calls: calls}}}
	for _, agent := range agents {
		t.Run(agent.name, func(t *testing.T) {
			t.Parallel()
			c := chat{dialect: agent.dialect, tools: toolsOf(t, agent.name), rounds: []chatRound{{
				calls: []called{{"c1", "read", "{}"}}, results: []string{"def add(a, b):\n    return a - b\n"},
			}}}
			whole := c.ask(t, s)
			c.stream = true
			streamed := c.ask(t, s)
			var b strings.Builder
			for i, call := range whole.Calls {
				b.WriteString(call.name + " " + call.input + "\n")
				if agent.dialect != Gemini && streamed.Calls[i].id == "" {
					t.Error("a call without an id")
				}
			}
			b.WriteString(strings.ReplaceAll(whole.Text, "There is", "\nThere is") + "\n")
			golden(t, "testdata/calls/"+agent.name+".txt", b.String())
			if streamed.Text != whole.Text || len(streamed.Calls) != len(whole.Calls) {
				t.Errorf("streamed %d calls, %q", len(streamed.Calls), streamed.Text)
			}
			for i := range whole.Calls {
				if w, s := whole.Calls[i], streamed.Calls[i]; w.name != s.name || !sameJSON(w.input, s.input) {
					t.Errorf("whole %v, streamed %v", w, s)
				}
			}
		})
	}
}

// sameJSON compares inputs; one that is no JSON may be told as a JSON text.
func sameJSON(a, b string) bool {
	if a == b || a == string(marshal(b)) {
		return true
	}
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && cmp.Equal(x, y)
}

// TestScriptSums plays a script to its end in every dialect: what the calls used must sum up to the token.
func TestScriptSums(t *testing.T) {
	t.Parallel()
	tools := map[Dialect]string{Anthropic: "claude-code", Chat: "opencode", Responses: "codex-apply-patch", Gemini: "gemini"}
	sums := map[Dialect][5]int{
		Anthropic: {5010, 1000, 150, 250, 0}, Chat: {5010, 1000, 0, 250, 35}, Responses: {5010, 1000, 0, 250, 35}, Gemini: {5010, 1000, 0, 285, 35},
	}
	stops := map[Dialect]string{Anthropic: "end_turn", Chat: "stop", Responses: "completed", Gemini: "STOP"}
	for _, d := range allDialects {
		for _, stream := range []bool{false, true} {
			t.Run(string(d), func(t *testing.T) {
				t.Parallel()
				s := editScript()
				c := chat{dialect: d, tools: toolsOf(t, tools[d]), stream: stream}
				var sum [5]int
				for n := 1; ; n++ {
					h := c.ask(t, s)
					for i := range sum {
						sum[i] += h.Usage[i]
					}
					if again := c.ask(t, s); !cmp.Equal(again, h, cmp.AllowUnexported(called{})) {
						t.Errorf("asked again, the model says %v, not %v", again, h)
					}
					if h.Calls == nil {
						if n != 5 || h.Text != "Fixed add() in calc.py; verified 2+3=5." || h.Stop != stops[d] {
							t.Errorf("ended after %d calls with %q, %s", n, h.Text, h.Stop)
						}
						break
					}
					if n == 1 && (h.Text != "Reading the file." || stream && d != Responses && h.Thought != "I should read the file first.") {
						t.Errorf("said %q, thought %q", h.Text, h.Thought)
					}
					r := chatRound{calls: h.Calls}
					for range h.Calls {
						r.results = append(r.results, "def add(a, b):\n    return a - b\n")
					}
					c.rounds = append(c.rounds, r)
				}
				if sum != sums[d] {
					t.Errorf("sums are %v, not %v", sum, sums[d])
				}
			})
		}
	}
}

func TestScriptEnds(t *testing.T) {
	t.Parallel()
	want := map[string]map[Dialect]string{
		"refusal":    {Anthropic: "refusal", Chat: "content_filter", Responses: "incompletecontent_filter", Gemini: "SAFETY"},
		"max_tokens": {Anthropic: "max_tokens", Chat: "length", Responses: "incompletemax_output_tokens", Gemini: "MAX_TOKENS"},
	}
	tools := map[Dialect]string{Anthropic: "claude-code", Chat: "opencode", Responses: "codex", Gemini: "gemini"}
	for stop, byDialect := range want {
		for d, word := range byDialect {
			for _, stream := range []bool{false, true} {
				s := &Script{Turns: []Turn{{Say: "I", Stop: stop}}}
				if h := (chat{dialect: d, tools: toolsOf(t, tools[d]), stream: stream}).ask(t, s); h.Stop != word || h.Text != "I" {
					t.Errorf("%s in %s: %q, %q", stop, d, h.Stop, h.Text)
				}
			}
		}
	}
}

func TestScriptAside(t *testing.T) {
	t.Parallel()
	s := editScript()
	for _, d := range allDialects {
		if h := (chat{dialect: d, stream: true}).ask(t, s); h.Text != asideText || h.Calls != nil {
			t.Errorf("%s without tools: %+v", d, h)
		}
	}
	schema := `{"type":"object","required":["ok","n","list","kind","self"],"properties":{"ok":{"type":"boolean"},"n":{"type":["integer","null"],"minimum":3},
		"list":{"type":"array","minItems":2,"items":{"$ref":"#/$defs/item"}},"kind":{"enum":["b","a"]},"spare":{"type":"string"},
		"self":{"anyOf":[{"type":"STRING","minLength":2},{"type":"null"}]}},"$defs":{"item":{"type":"object","properties":{"a":{"const":7}},"required":["a"]}}}`
	asked := map[Dialect]string{
		Anthropic: `{"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}}`,
		Chat:      `{"response_format":{"type":"json_schema","json_schema":{"schema":` + schema + `}}}`,
		Responses: `{"text":{"format":{"type":"json_schema","schema":` + schema + `}}}`,
		Gemini:    `{"generationConfig":{"responseJsonSchema":` + schema + `}}`,
	}
	for d, body := range asked {
		a, err := s.Answer(d, false, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := hear(t, d, a.Body).Text, `{"kind":"b","list":[{"a":7},{"a":7}],"n":3,"ok":false,"self":"xx"}`; got != want {
			t.Errorf("%s: %s, not %s", d, got, want)
		}
	}
	if a, err := s.Answer(Chat, false, []byte(`{"response_format":{"type":"json_object"}}`)); err != nil || hear(t, Chat, a.Body).Text != "{}" {
		t.Errorf("%s, %v", a.Body, err)
	}
}

func TestScriptFails(t *testing.T) {
	t.Parallel()
	s := &Script{Turns: []Turn{{HTTP: 429, Pause: time.Second}}}
	for _, agent := range agents {
		a, err := s.Answer(agent.dialect, true, chat{dialect: agent.dialect, tools: toolsOf(t, agent.name)}.body())
		if err != nil || a.Status != 429 || a.Chunks != nil || a.Pause != time.Second || a.Header.Get("Retry-After") != "1" || !json.Valid(a.Body) {
			t.Errorf("%s: %+v, %v", agent.name, a, err)
		}
	}
	for _, body := range []string{"", "[]", "{", "null x"} {
		if _, err := s.Answer(Chat, false, []byte(body)); err == nil {
			t.Errorf("%q was taken for a request", body)
		}
	}
	if _, err := s.Answer("morse", false, []byte("{}")); err == nil {
		t.Error("an unknown dialect was spoken")
	}
}

// TestShellEdits runs the commands by which an agent without tools for files edits.
func TestShellEdits(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh: ", err)
	}
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.StringMatching("[a-c'\"\\\\/.*$^&\\[\\] \n]{0,12}")
		old := rapid.StringMatching("[a-c'\"\\\\/.*$^&\\[\\]][a-c'\"\\\\/.*$^&\\[\\] \n]{0,8}[a-c'\"\\\\/.*$^&\\[\\]]").Draw(t, "old")
		before, after, new := texts.Draw(t, "before"), texts.Draw(t, "after"), texts.Draw(t, "new")
		if strings.Contains(before, "\x00") || strings.Index(before+old+after, old) != len(before) {
			t.Skip("the old text stands there twice")
		}
		file := filepath.Join(dir, "it's")
		for _, step := range []struct {
			kind, want string
			in         input
		}{
			{"write", before + old + after, input{Path: file, Content: before + old + after}},
			{"edit", before + new + after, input{Path: file, Old: old, New: new}},
		} {
			command, _ := shell(step.kind, step.in)
			if out, err := exec.Command(sh, "-c", command).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", command, err, out)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != step.want {
				t.Fatalf("%s\nmade %q, not %q (%v)", command, got, step.want, err)
			}
		}
	})
}

func FuzzScriptRequest(f *testing.F) {
	for i, agent := range agents {
		f.Add(i%4, chat{dialect: agent.dialect, rounds: []chatRound{{[]called{{"1", "read", "{}"}}, []string{"x"}}}}.body())
	}
	f.Add(0, []byte(`{"tools":[{"name":"Edit","input_schema":{"type":"object","properties":{"file_path":{"$ref":"#"}},"required":["x",1,"y"]}}],"messages":[1,{"content":[{}]}]}`))
	f.Add(1, []byte(`{"response_format":{"json_schema":{"schema":{"type":"object","required":["a","b"],"properties":{"a":{"$ref":"#"},"b":{"$ref":"#"}}}}}}`))
	f.Add(2, []byte(`{"tools":[{"type":"namespace","tools":[{"type":"custom","name":"exec"}]}],"input":[{"type":"x_output","output":[[["return a - b"]]]}]}`))
	s := editScript()
	f.Fuzz(func(t *testing.T, d int, body []byte) {
		dialect := allDialects[uint(d)%4]
		for _, stream := range []bool{false, true} {
			a, err := s.Answer(dialect, stream, body)
			if err != nil {
				return
			}
			if stream {
				hearStream(t, dialect, a.Chunks)
			} else {
				hear(t, dialect, a.Body)
			}
		}
	})
}
