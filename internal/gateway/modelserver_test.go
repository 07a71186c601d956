package gateway

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestIndependentServer puts a scripted model server that shares no code with this room where the provider would be, and
// plays its script `edit` to its end in every dialect. ASSAY_MODELSERVER is the path of its Python file.
func TestIndependentServer(t *testing.T) {
	t.Parallel()
	base := modelServer(t)
	for _, d := range dialects {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s stream %v", d, stream), func(t *testing.T) {
				t.Parallel()
				u := Upstream{Dialect: d, BaseURL: base + "/s/edit" + d.basePath()}
				a := open(t, newGateway(t, Options{}), Spec{Models: []Model{{Name: "m", Upstream: u}}, MaxTurns: 5})
				for n := range 5 {
					path, body := round(d, n, stream)
					if r := a.post(d, path, body, nil); r.status != 200 || r.err != nil {
						t.Fatalf("call %d got %d %s", n, r.status, r.body)
					}
					want := "tool"
					if n == 4 {
						want = "end"
					}
					if s := a.cell.Seen(); s.Finish != want {
						t.Errorf("call %d ended with %s", n, s.Finish)
					}
				}
				path, body := round(d, 5, stream)
				a.post(d, path, body, nil).refusedWith(t, "5 turns")
				s := a.cell.Close()
				if s.Usage == nil || s.Usage.CostUSD == nil || math.Abs(*s.Usage.CostUSD-fiveCalls[d]) > 1e-12 || s.Turns != 5 || s.Calls != 5 || s.Partial {
					t.Fatalf("seen %+v, usage %+v", s, s.Usage)
				}
				s.Usage.CostUSD = nil
				want := sums(d, 5)
				if diff := cmp.Diff(&want, s.Usage); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// round is a request with n rounds of tool results.
func round(d Dialect, n int, stream bool) (path, body string) {
	type list = []any
	type obj = map[string]any
	path, text := ask(d, "m", stream)
	var b obj
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		panic(err)
	}
	name, schema := "bash", obj{"type": "object", "properties": obj{"command": obj{"type": "string"}}}
	messages := list{obj{"role": "user", "content": "fix it"}}
	add := func(m ...any) { messages = append(messages, m...) }
	for i := range n {
		id := "c" + strconv.Itoa(i)
		switch d {
		case Anthropic:
			add(obj{"role": "assistant", "content": list{obj{"type": "tool_use", "id": id, "name": name, "input": obj{}}}},
				obj{"role": "user", "content": list{obj{"type": "tool_result", "tool_use_id": id, "content": "ok"}}})
		case Chat:
			add(obj{"role": "assistant"}, obj{"role": "tool", "tool_call_id": id, "content": "ok"})
		case Responses:
			add(obj{"type": "function_call", "call_id": id, "name": name, "arguments": "{}"}, obj{"type": "function_call_output", "call_id": id, "output": "ok"})
		case Gemini:
			add(obj{"role": "model", "parts": list{}}, obj{"role": "user", "parts": list{obj{"functionResponse": obj{"name": name}}}})
		}
	}
	switch d {
	case Anthropic:
		b["messages"], b["tools"] = messages, list{obj{"name": name, "input_schema": schema}}
	case Chat:
		b["messages"], b["tools"] = messages, list{obj{"type": "function", "function": obj{"name": name, "parameters": schema}}}
	case Responses:
		b["input"], b["tools"] = messages, list{obj{"type": "function", "name": name, "parameters": schema}}
	case Gemini:
		messages[0] = obj{"role": "user", "parts": list{obj{"text": "fix it"}}}
		b["contents"], b["tools"] = messages, list{obj{"functionDeclarations": list{obj{"name": name, "parameters": schema}}}}
	}
	return path, string(mustJSON(b))
}

// modelServer starts the server and returns its address.
func modelServer(t *testing.T) string {
	file := os.Getenv("ASSAY_MODELSERVER")
	if file == "" {
		t.Skip("ASSAY_MODELSERVER does not name a scripted model server")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	port := freePorts(t)
	cmd := exec.Command(python, file, strconv.Itoa(port), t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	for range 200 {
		if resp, err := http.Head(base); err == nil {
			resp.Body.Close()
			return base
		}
		time.Sleep(50 * time.Millisecond) // it is another program, and says nothing when it listens
	}
	t.Fatal("the scripted model server did not start")
	return ""
}

// freePorts returns a port that is free together with the next one.
func freePorts(t *testing.T) int {
	for range 50 {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		next, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port+1))
		l.Close()
		if err == nil {
			next.Close()
			return port
		}
	}
	t.Fatal("no two ports are free")
	return 0
}
