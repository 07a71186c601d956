package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/redact"
)

var exchanges = []Exchange{
	{Lane: "main", Ordinal: 1, Dialect: Anthropic, Path: "/v1/messages", Request: []byte(`{"model":"m","messages":[{"role":"user","content":"Fix <it>"}]}`),
		Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}, "Set-Cookie": {"a=b"}},
		Chunks: []Chunk{{12 * time.Millisecond, []byte("data: {\"é\"}\n\n")}, {time.Second, []byte(": \xff\n\n")}}},
	{Lane: "aux", Ordinal: 1, Dialect: Anthropic, Path: "/v1/messages", Request: []byte(`{"model":"m","messages":[]}`),
		Status: 429, Header: http.Header{"Retry-After": {"3"}}, Body: []byte(`{"error":"slow down"}`)},
	{Lane: "main", Ordinal: 2, Dialect: Gemini, Path: "/v1beta/models/m:generateContent", Request: []byte(`{"contents":[1.50,2e3,9007199254740993]}`),
		Status: 200, Chunks: []Chunk{}, Cut: true},
	{Lane: "sub:1", Ordinal: 1, Dialect: Chat, Request: []byte("no JSON \xff"), Status: 502, Body: []byte{}},
}

func record(t testing.TB, dir, name string, list ...Exchange) {
	t.Helper()
	r, err := Record(dir, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		if err := r.Add(x); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func replay(t testing.TB, dir, name string) *Player {
	t.Helper()
	p, err := Replay(dir, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func question(x Exchange) Exchange {
	return Exchange{Lane: x.Lane, Ordinal: x.Ordinal, Dialect: x.Dialect, Path: x.Path, Request: x.Request}
}

func TestReplayGivesWhatWasRecorded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	record(t, dir, "case/arm/t1", exchanges...)
	p := replay(t, dir, "case/arm/t1")
	for i := range exchanges { // in another order than they were recorded in
		x := exchanges[(i+2)%len(exchanges)]
		if p.Leftover() != len(exchanges)-i {
			t.Errorf("%d are left after %d", p.Leftover(), i)
		}
		got, err := p.Next(question(x))
		if err != nil {
			t.Fatal(err)
		}
		want := x
		want.Header = x.Header.Clone()
		want.Header.Del("Set-Cookie")
		if want.Header == nil {
			want.Header = http.Header{}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if p.Leftover() != 0 {
		t.Error("something is left")
	}
}

func TestReplayRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x := exchanges[0]
	record(t, dir, "c", x)
	tests := map[string]struct {
		change func(*Exchange)
		says   string
	}{
		"another text": {func(x *Exchange) {
			x.Request = []byte(`{"model":"m","messages":[{"role":"user","content":"Fix that"}]}`)
		}, `messages[0].content: recorded "Fix <it>", now "Fix that"`},
		"another model": {func(x *Exchange) {
			x.Request = []byte(`{"model":"n","messages":[{"role":"user","content":"Fix <it>"}]}`)
		}, `model: recorded "m", now "n"`},
		"one more": {func(x *Exchange) {
			x.Request = []byte(`{"model":"m","messages":[{"role":"user","content":"Fix <it>"},{}],"top_k":1}`)
		}, "messages: recorded 1 elements, now 2\n  top_k: recorded absent, now 1"},
		"another sort":    {func(x *Exchange) { x.Request = []byte(`{"model":null,"messages":{}}`) }, "messages: recorded 1 elements, now an object of 0 members\n  model: recorded \"m\", now null"},
		"no JSON":         {func(x *Exchange) { x.Request = []byte(`{"model`) }, `the request: recorded an object of 2 members, now "{\"model"`},
		"another path":    {func(x *Exchange) { x.Path = "/v1/other" }, `went to anthropic "/v1/messages"`},
		"another dialect": {func(x *Exchange) { x.Dialect = Chat }, "goes to chat"},
		"another lane":    {func(x *Exchange) { x.Lane = "aux" }, "no request 1 of lane aux"},
		"one too many":    {func(x *Exchange) { x.Ordinal = 2 }, "no request 2 of lane main"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := question(x)
			tt.change(&q)
			p := replay(t, dir, "c")
			if _, err := p.Next(q); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("said: %v", err)
			}
			if p.Leftover() != 1 {
				t.Error("a refused request was counted as played")
			}
		})
	}
	p := replay(t, dir, "c")
	if _, err := p.Next(question(x)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Next(question(x)); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("said: %v", err)
	}
}

// TestDifferencesAreBounded compares large requests that differ everywhere.
func TestDifferencesAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a\x01é", 1000)
	a, b := object{}, object{}
	for i := range 100 {
		name := fmt.Sprint(i, long)
		a[name], b[name] = long+"x", long+"y"
	}
	got := differences(marshal(a), marshal(b))
	if len(got) > 8<<10 || strings.Count(got, "\n") != maxDifferences || !strings.HasSuffix(got, "and 92 more") {
		t.Errorf("%d bytes: %.300s … %s", len(got), got, got[len(got)-20:])
	}
}

// TestUnfinishedRecordings looks at what a crash leaves.
func TestUnfinishedRecordings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := Record(dir, "c", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Add(exchanges[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := Replay(dir, "c", nil); err == nil || !strings.Contains(err.Error(), "was not finished") {
		t.Errorf("said: %v", err)
	}
	left, err := os.ReadFile(filepath.Join(dir, "c.jsonl.unfinished"))
	if err != nil || strings.Count(string(left), "\n") != 2 || !strings.HasSuffix(string(left), "}\n") {
		t.Errorf("left %q, %v", left, err)
	}
	if _, err := Replay(dir, "d", nil); err == nil || !strings.Contains(err.Error(), "there is no recording of d") {
		t.Errorf("said: %v", err)
	}
	if err := r.Add(exchanges[0]); err == nil {
		t.Error("one request was recorded twice")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, "c.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(whole) - 1 { // without its last line feed it is whole
		if _, err := readCassette(whole[:i], "c"); err == nil {
			t.Errorf("the first %d of %d bytes were taken for a recording", i, len(whole))
		}
	}
	if _, err := readCassette(whole, "other"); err == nil {
		t.Error("the recording of another cell was taken")
	}
	if _, err := readCassette([]byte(strings.Replace(string(whole), "Fix", "fix", 1)), "c"); err == nil {
		t.Error("a changed request was taken")
	}
}

func TestCassettePaths(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, name := range []string{
		"tz/claude/t1", "tz/Claude/t1", "../../etc/passwd", "/", "", ".", "..", "a//b", "a/./b", "a/../b", "m|x", "m/x", "a b", "a\x00b", "a\nb",
		strings.Repeat("n", 300), strings.Repeat("n", 301), "ä", "ö", `a\b`, "c:", "a.b-c_d",
	} {
		got := cassettePath("/tapes", name, cassetteEnd)
		rel, err := filepath.Rel("/tapes", got)
		if err != nil || strings.HasPrefix(rel, "..") || strings.ContainsAny(got, "\x00\n|\\: ") || strings.Contains(got, "/.") {
			t.Errorf("%q is at %q", name, got)
		}
		for part := range strings.SplitSeq(rel, "/") {
			if len(part) > 100 {
				t.Errorf("%q is at %q", name, got)
			}
		}
		if other, is := seen[strings.ToLower(got)]; is {
			t.Errorf("%q and %q share %q", name, other, got)
		}
		seen[strings.ToLower(got)] = name
	}
	if got := cassettePath("/tapes", "tz/claude-with_skill/t1", cassetteEnd); got != "/tapes/tz/claude-with_skill/t1.jsonl" {
		t.Error(got)
	}
}

func TestCassettesHoldNoSecrets(t *testing.T) {
	t.Parallel()
	const secret = "sk-canary-0123456789"
	dir := t.TempDir()
	r, err := Record(dir, "c", redact.New([]redact.Secret{{Name: "KEY", Value: secret}}))
	if err != nil {
		t.Fatal(err)
	}
	x := Exchange{Lane: "main", Ordinal: 1, Dialect: Chat, Path: "/v1/x?k=" + secret, Request: []byte(`{"messages":[{"content":"env: ` + secret + `\n"}]}`),
		Status: 200, Header: http.Header{"Content-Type": {secret}},
		Chunks: []Chunk{{1, []byte("data: sk-can")}, {2, []byte("ary-01234")}, {3, []byte("56789 and sk-can")}}}
	y := x
	y.Ordinal, y.Chunks, y.Body = 2, nil, []byte(`{"key":"`+secret+`"}`)
	for _, x := range []Exchange{x, y} {
		if err := r.Add(x); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "c.jsonl"))
	if err != nil || strings.Contains(string(data), "canary") || strings.Count(string(data), "[redacted:KEY]") != 8 {
		t.Errorf("%s, %v", data, err)
	}
	p, err := Replay(dir, "c", redact.New([]redact.Secret{{Name: "KEY", Value: secret}}))
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Next(question(x))
	if err != nil {
		t.Fatal(err)
	}
	var all string
	for _, c := range got.Chunks {
		all += string(c.Data)
	}
	if all != "data: [redacted:KEY] and sk-can" {
		t.Errorf("played %q", all)
	}
}

func TestManyRecordAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := Record(dir, "c", nil)
	if err != nil {
		t.Fatal(err)
	}
	const n = 50
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			x := exchanges[i%2]
			x.Lane, x.Ordinal = fmt.Sprint("sub:", i%5), i/5+1
			if err := r.Add(x); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	p := replay(t, dir, "c")
	for i := range n {
		wait.Go(func() {
			x := question(exchanges[i%2])
			x.Lane, x.Ordinal = fmt.Sprint("sub:", i%5), i/5+1
			if _, err := p.Next(x); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if p.Leftover() != 0 {
		t.Errorf("%d are left", p.Leftover())
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		dialect Dialect
		in, out string
	}{
		{"claude-code", Anthropic,
			`{"metadata":{"user_id":"{\"device_id\":\"c30d\"}"},"model":"claude-sonnet-4-5","system":[{"text":"memory at ` + "`/tmp/a-1/home/.claude/projects/-tmp-a-1-work/memory/`" +
				`\n - Primary working directory: /tmp/a-1/work\n\nRecent commits:\n7dc3d5c init"}],"messages":[{"content":[{"type":"tool_use","id":"toolu_9e8c","input":{"file_path":"/tmp/a-1/work/calc.py"}}]},` +
				`{"content":[{"type":"tool_result","tool_use_id":"toolu_9e8c","content":"Today's date is 2026-11-21."}]}]}`,
			`{"messages":[{"content":[{"id":"{id 1}","input":{"file_path":"{work}/calc.py"},"type":"tool_use"}]},` +
				`{"content":[{"content":"Today's date is {date}.","tool_use_id":"{id 1}","type":"tool_result"}]}],"model":"claude-sonnet-4-5",` +
				"\"system\":[{\"text\":\"memory at `{place}/home/.claude/projects/{work}/memory/`\\n - Primary working directory: {work}\\n\\nRecent commits:\\n{hex} init\"}]}"},
		{"codex", Responses,
			`{"prompt_cache_key":"01a2","client_metadata":{"turn_id":"x"},"input":[{"id":"msg_1","content":[{"text":"<cwd>/tmp/b/work</cwd>\n<current_date>2026-11-21</current_date> ` +
				`CODEX_HOME /tmp/b/home/.codex 01a2006c-ecd4-75a3-883a-6c5264789ad5"}]},{"type":"function_call","id":"fc_1","call_id":"call_1","name":"exec_command"},` +
				`{"type":"function_call_output","id":"fco_1","call_id":"call_1","output":"Chunk ID: 5b69cd\nWall time: 0.0512 seconds\nProcess exited with code 0\n{\"chunk_id\":\"abcdef\",\"wall_time_seconds\":0.0000055,\"exit_code\":0}"}]}`,
			`{"input":[{"content":[{"text":"<cwd>{work}</cwd>\n<current_date>{date}</current_date> CODEX_HOME {place}/home/.codex {uuid}"}],"id":"{id 1}"},` +
				`{"call_id":"{id 2}","id":"{id 3}","name":"exec_command","type":"function_call"},` +
				`{"call_id":"{id 2}","id":"{id 4}","output":"Chunk ID: {chunk}\nWall time: {duration} seconds\nProcess exited with code 0\n{\"chunk_id\":\"{chunk}\",\"wall_time_seconds\":{duration},\"exit_code\":0}","type":"function_call_output"}]}`},
		{"gemini", Gemini,
			`{"contents":[{"parts":[{"text":"Today's date is Saturday, November 21, 2026 (formatted)\nThe project's temporary directory is: /tmp/c/home/.gemini/tmp/work\n- **Workspace Directories:**\n  - /tmp/c/work\n"}]},` +
				`{"parts":[{"functionResponse":{"id":"fc_1","response":{"output":"-rw-r--r-- 1 root root 33 Nov 21 23:22 calc.py\nBackground PIDs: 4711\nGOOGLE_GEMINI_BASE_URL=http://127.0.0.1:41234/c/0f1e2d"}}}]}],"labels":{"a":"b"}}`,
			`{"contents":[{"parts":[{"text":"Today's date is {date} (formatted)\nThe project's temporary directory is: {place}/home/.gemini/tmp/work\n- **Workspace Directories:**\n  - {work}\n"}]},` +
				`{"parts":[{"functionResponse":{"id":"{id 1}","response":{"output":"-rw-r--r-- 1 root root 33 {date} calc.py\nBackground PIDs: {pid}\nGOOGLE_GEMINI_BASE_URL={gateway}"}}}]}]}`},
		{"opencode", Chat,
			`{"user":"me","prompt_cache_key":"k","messages":[{"content":"  Working directory: /tmp/d/work\n  Today's date: Sat Nov 21 2026\n ok 3 tests in 0.52s"},{"role":"tool","tool_call_id":"call_8","content":"<path>/tmp/d/work/calc.py</path>"}],"max_tokens":32000}`,
			`{"max_tokens":32000,"messages":[{"content":"  Working directory: {work}\n  Today's date: {date}\n ok 3 tests in {duration}"},{"content":"<path>{work}/calc.py</path>","role":"tool","tool_call_id":"{id 1}"}]}`},
		{"what is left alone", Chat, `{"messages":[{"content":"The defaced facade, 3 files, line 120, v1.2.3, 404, May I? 5 min"}],"seed":12345678,"t":1.50}`,
			`{"messages":[{"content":"The defaced facade, 3 files, line 120, v1.2.3, 404, May I? 5 min"}],"seed":12345678,"t":1.50}`},
		{"a work folder at the root", Chat, `{"a":"Working directory: /work\n"}`, `{"a":"Working directory: /work\n"}`},
		{"no JSON", Chat, "at 23:22:40 <&>", `"at {time} <&>"`},
		{"two values", Chat, "{} {}", `"{} {}"`},
		{"nothing", Chat, "", `""`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.out, string(fold(tt.dialect, []byte(tt.in)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzFold(f *testing.F) {
	for _, x := range exchanges {
		f.Add(0, x.Request)
	}
	f.Add(1, []byte(`[1e700, -0, 1.0]`))
	f.Add(2, []byte(`{"id":"a","b":[{"id":"a"}],"t":"<cwd>/a/b/work</cwd> 2026-11-21T00:00:00Z 1234567 /a/b/work 12 ms"}`))
	f.Fuzz(func(t *testing.T, d int, body []byte) {
		dialect := allDialects[uint(d)%4]
		once := fold(dialect, body)
		if !json.Valid(once) {
			t.Fatalf("%q is no JSON", once)
		}
		if again := fold(dialect, body); string(again) != string(once) {
			t.Errorf("folded again, %q is %q", once, again)
		}
		if got := differences(once, once); got != "" {
			t.Errorf("a request differs from itself: %s", got)
		}
		if got := differences(once, marshal(string(body))); len(got) > 8<<10 {
			t.Errorf("the differences have %d bytes", len(got))
		}
	})
}

func FuzzCassette(f *testing.F) {
	dir := f.TempDir()
	record(f, dir, "c", exchanges...)
	whole, err := os.ReadFile(filepath.Join(dir, "c.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{"cassette":1,"name":"c"}` + "\n" + `{"end":0}`))
	f.Add([]byte(`{"cassette":1,"name":"c"}` + "\n" + `{}` + "\n" + `{"end":1}`))
	f.Add([]byte(`{"cassette":1,"name":"c"}` + "\n" + `{"lane":"a","ordinal":1,"request":1,"chunks":[{"data":{"base64":"/w=="}}],"body":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := readCassette(data, "c")
		if err != nil {
			return
		}
		p := &Player{entries: entries, played: map[place]bool{}}
		for at, e := range entries {
			_, _ = p.Next(Exchange{Lane: at.lane, Ordinal: at.ordinal, Dialect: e.Dialect, Path: e.Path, Request: e.Request})
		}
	})
}

// TestReplayElsewhere records a model that names the agent's folder and a secret, in pieces, and plays it in another folder.
func TestReplayElsewhere(t *testing.T) {
	t.Parallel()
	tools := map[Dialect]string{Anthropic: "claude-code", Chat: "opencode", Responses: "codex-apply-patch", Gemini: "gemini"}
	const secret = "sk-canary-0123456789"
	for _, d := range allDialects {
		for _, stream := range []bool{false, true} {
			for _, lineEnd := range []string{"\n", "\r\n"} {
				t.Run(fmt.Sprint(d, stream, len(lineEnd)), func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					in := func(folder string) ([]byte, *Script) {
						s := &Script{Turns: []Turn{{Say: "It is in " + folder + "/calc.py, the key is " + secret + ".",
							Calls: []Call{do("write", input{Path: folder + "/b/it.txt", Content: folder + " " + secret})}}}}
						body := chat{dialect: d, tools: toolsOf(t, tools[d])}.body()
						return []byte(strings.ReplaceAll(string(body), "/cell/work", folder)), s
					}
					r, err := Record(dir, "c", redact.New([]redact.Secret{{Name: "KEY", Value: secret}}))
					if err != nil {
						t.Fatal(err)
					}
					body, s := in("/tmp/assay-4711-abcdef/place/work")
					x := Exchange{Lane: "main", Ordinal: 1, Dialect: d, Request: body, Status: 200}
					a, err := s.Answer(d, stream, body)
					if err != nil {
						t.Fatal(err)
					}
					x.Body = a.Body
					for i, c := range a.Chunks {
						if lineEnd != "\n" {
							c = []byte(strings.ReplaceAll(string(c), "\n", lineEnd))
						}
						half := len(c) / 3 // chunks do not end where events do
						x.Chunks = append(x.Chunks, Chunk{time.Duration(i) * time.Millisecond, c[:half]}, Chunk{time.Duration(i) * time.Millisecond, c[half:]})
					}
					if err := r.Add(x); err != nil {
						t.Fatal(err)
					}
					if err := r.Close(); err != nil {
						t.Fatal(err)
					}
					other, again := in("/srv/b/work")
					got, err := replay(t, dir, "c").Next(Exchange{Lane: "main", Ordinal: 1, Dialect: d, Request: other})
					if err != nil {
						t.Fatal(err)
					}
					b, err := again.Answer(d, stream, other)
					if err != nil {
						t.Fatal(err)
					}
					var heard, want heard
					if stream {
						var chunks [][]byte
						for _, c := range got.Chunks {
							chunks = append(chunks, []byte(strings.ReplaceAll(string(c.Data), lineEnd, "\n")))
						}
						heard, want = hearStream(t, d, chunks), hearStream(t, d, b.Chunks)
					} else {
						heard, want = hear(t, d, got.Body), hear(t, d, b.Body)
					}
					clean := func(s string) string { return strings.ReplaceAll(s, secret, "[redacted:KEY]") }
					if heard.Text != clean(want.Text) || len(heard.Calls) != 1 || !sameJSON(heard.Calls[0].input, clean(want.Calls[0].input)) || heard.Usage != want.Usage {
						t.Errorf("heard %+v\nwant %+v", heard, want)
					}
				})
			}
		}
	}
}

func FuzzStreamCleaning(f *testing.F) {
	const secret = "sk-canary-0123456789"
	secrets := redact.New([]redact.Secret{{Name: "KEY", Value: secret}})
	for i, d := range allDialects {
		a, err := (&Script{}).Answer(d, true, chat{dialect: d}.body())
		if err != nil {
			f.Fatal(err)
		}
		var all []byte
		for _, c := range a.Chunks {
			all = append(all, c...)
		}
		f.Add(i, all, 7)
	}
	f.Add(0, []byte("event: x\r\ndata: {\"index\":0,\"delta\":{\"text\":\"sk-canary\"}}\r\n\r\ndata: {\"index\":0,\"delta\":{\"text\":\"-0123456789\"}}\n\ndata: [DONE]"), 3)
	f.Fuzz(func(t *testing.T, d int, data []byte, cut int) {
		cut = min(max(0, cut), len(data))
		clean := newCleaner([]byte("Working directory: /a/b/work\n"), secrets)
		chunks := clean.stream(allDialects[uint(d)%4], []Chunk{{0, data[:cut]}, {1, data[cut:]}})
		var all []byte
		for _, c := range chunks {
			all = append(all, c.Data...)
		}
		if strings.Contains(string(all), secret) {
			t.Errorf("the secret is in %q", all)
		}
		if !strings.ContainsAny(string(data), `{\/`) && !strings.Contains(string(data), "0123") && string(all) != string(data) {
			t.Errorf("%q became %q", data, all)
		}
	})
}

// TestNoncesAreFolded: what encloses the words of an agent is new in each call and must not tell a replay from its recording;
// what is asked must.
func TestNoncesAreFolded(t *testing.T) {
	t.Parallel()
	ask := func(lane, nonce, place, criterion string) Exchange {
		user := fmt.Sprintf("%s\n=== BEGIN DATA %s ===\nls %s/work/a\n=== END DATA %[2]s ===\n", criterion, nonce, place)
		request := mustJSON(map[string]any{"system": "the code " + nonce, "messages": []any{map[string]string{"role": "user", "content": user}}})
		return Exchange{Lane: lane, Ordinal: 1, Dialect: Chat, Path: "/chat/completions", Request: request, Status: 200, Body: []byte("{}")}
	}
	recorded := [3]string{"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "/tmp/assay-1/p123456", "It is good."}
	for _, tt := range []struct {
		name, lane string
		now        [3]string
		plays      bool
	}{
		{"judge", laneJudge, [3]string{"ZYXWVUTSRQPONMLKJIHGFEDCBA", "/home/me/p98765", "It is good."}, true},
		{"responder", laneResponder, [3]string{"ZYXWVUTSRQPONMLKJIHGFEDCBA", "/home/me/p98765", "It is good."}, true},
		{"another criterion", laneJudge, [3]string{"ZYXWVUTSRQPONMLKJIHGFEDCBA", "/tmp/assay-1/p123456", "It is bad."}, false},
		{"not the agent's", laneMain, [3]string{"ZYXWVUTSRQPONMLKJIHGFEDCBA", "/tmp/assay-1/p123456", "It is good."}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			record(t, dir, "c/a/t1", ask(tt.lane, recorded[0], recorded[1], recorded[2]))
			_, err := replay(t, dir, "c/a/t1").Next(question(ask(tt.lane, tt.now[0], tt.now[1], tt.now[2])))
			if (err == nil) != tt.plays {
				t.Errorf("replayed with %v", err)
			}
		})
	}
}
