package harness_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/trace"
)

// streaming are the harnesses that read the lines of a CLI, with settings for a program of the test's own.
var streaming = map[string]string{
	"claude-code": "program: %s", "codex": "program: %s", "gemini": "program: %s", "opencode": "program: %s", "acp": "{argv: [%s]}",
}

// TestAgentsThatDieAfterOneLine: an agent reads one line of the prompt, which is longer than a pipe holds, and is gone.
func TestAgentsThatDieAfterOneLine(t *testing.T) {
	t.Parallel()
	for name, form := range streaming {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, nil)
			p.Model, p.Prompt = "m1", "one\n"+strings.Repeat("p", 90_000)+"\n"+strings.Repeat("q", 10_000)
			program := filepath.Join(p.Home, "agent")
			if err := os.WriteFile(program, []byte("#!/bin/sh\nread -r line\necho '[]'\nexit 3\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			o, events := p.drive(t, build(t, name, fmt.Sprintf(form, program)))
			if o.Stop != trace.StopNoTerminalEvent || o.Class != trace.ClassHarnessCrash || o.Exit == nil || *o.Exit != 3 {
				t.Errorf("%s %s: %s", o.Stop, o.Class, o.Detail)
			}
			writeTrace(t, events)
		})
	}
}

// TestStreamsOfAnySizeInFlatMemory gives each harness 64 MiB of lines it does not know and 64 MiB in one line. It is not
// parallel, so that the heap is that of this test.
func TestStreamsOfAnySizeInFlatMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 128 MiB for each harness")
	}
	const half, most = 64 << 20, 32 << 20
	for name, form := range streaming {
		t.Run(name, func(t *testing.T) {
			line, block := append(bytes.Repeat([]byte("x"), 1<<20-1), '\n'), bytes.Repeat([]byte("y"), 1<<20)
			heap := func() uint64 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			var grown uint64
			p := &place{Task: harness.Task{Model: "m1", Prompt: "go", Work: "/w", Home: "/h"}}
			p.Exec = fake{run: func(_ context.Context, c executor.Command) (executor.Exit, error) {
				if c.Argv[0] == "sh" {
					return executor.Exit{}, nil
				}
				before := heap()
				for _, b := range [][]byte{line, block} {
					for range half / len(b) {
						c.Stdout.Write(b)
					}
					if now := heap(); now > before {
						grown = max(grown, now-before)
					}
				}
				return executor.Exit{Out: 2 * half}, nil
			}}
			w := trace.NewWriter(io.Discard, func() time.Duration { return 0 })
			if _, err := build(t, name, fmt.Sprintf(form, "agent")).Drive(t.Context(), p.Task, w.Emit); err != nil {
				t.Fatal(err)
			}
			if grown > most {
				t.Errorf("it keeps %d MiB", grown>>20)
			}
		})
	}
}

// TestEventsHaveTheTimeAtWhichTheirBytesCame: not the one at which a stream was read through.
func TestEventsHaveTheTimeAtWhichTheirBytesCame(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{
		"claude-code": {claudeInit, claudeAnswer, claudeFine},
		"codex": {`{"type":"thread.started","thread_id":"t"}`, `{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"hi"}}`,
			`{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":1}}`},
		"opencode": {`{"type":"text","part":{"text":"hi"}}`, `{"type":"text","part":{"text":"ho"}}`, `{"type":"step_finish","part":{"reason":"stop","tokens":{}}}`},
		"gemini":   {`{"type":"init","model":"m"}`, `{"type":"error","severity":"warning","message":"w"}`, `{"type":"error","severity":"warning","message":"v"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				p := &place{Task: harness.Task{Model: "m1", Prompt: "go", Work: "/w", Home: "/h"}}
				p.Exec = fake{run: func(_ context.Context, c executor.Command) (executor.Exit, error) {
					for _, l := range lines {
						if c.Argv[0] == "sh" {
							break
						}
						time.Sleep(time.Second)
						io.WriteString(c.Stdout, l+"\n")
					}
					return executor.Exit{}, nil
				}}
				var b bytes.Buffer
				w := trace.NewWriter(&b, func() time.Duration { return time.Since(began) })
				if _, err := build(t, name, "{}").Drive(t.Context(), p.Task, w.Emit); err != nil {
					t.Fatal(err)
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				timed := 0
				for e, err := range trace.Read(&b) {
					if err != nil || e.RawLine > 0 && e.At != time.Duration(e.RawLine)*time.Second {
						t.Errorf("%s of line %d came at %s, %v", e.Kind, e.RawLine, e.At, err)
					}
					if e.RawLine > 0 {
						timed++
					}
				}
				if timed < 2 {
					t.Errorf("%d events name their line", timed)
				}
			})
		})
	}
}

// alongside drives the harness while the test goes on. The outcome is zero when the drive was given up.
func (p *place) alongside(t testing.TB, h harness.Harness) <-chan harness.Outcome {
	done := make(chan harness.Outcome, 1)
	go func() {
		defer close(done)
		o, _ := p.drive(t, h)
		done <- o
	}()
	return done
}

// TestTwoCellsOfOneAgent plays two cells at once. Cell b begins first and ends last: that a lives and is swept in between
// changes nothing of b's processes, and neither has anything of the other's in its folders or its environment.
func TestTwoCellsOfOneAgent(t *testing.T) {
	t.Parallel()
	a, b := newPlace(t, map[string]string{"a.txt": "1"}), newPlace(t, map[string]string{"b.txt": "1"})
	a.Model, b.Model = "m-a", "m-b"
	for _, name := range []string{"ready", "go"} {
		if err := syscall.Mkfifo(filepath.Join(b.Home, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const look = `ls -A . "$HOME"; env; sleep 600 & child=$!; `
	last := b.alongside(t, shell(t, look+`echo >"$HOME/ready"; read -r x <"$HOME/go"; kill -0 $child && echo still here`))
	if _, err := os.ReadFile(filepath.Join(b.Home, "ready")); err != nil { // waits for b
		t.Fatal(err)
	}
	oa, _ := a.drive(t, shell(t, look+`echo done`))
	if err := os.WriteFile(filepath.Join(b.Home, "go"), []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	ob := <-last
	if oa.Stop != trace.StopEndTurn || oa.Swept != 1 || ob.Stop != trace.StopEndTurn || ob.Swept != 1 || !strings.Contains(ob.FinalText, "still here") {
		t.Errorf("a: %+v\nb: %+v", oa, ob)
	}
	for text, others := range map[string]*place{oa.FinalText: b, ob.FinalText: a} {
		for _, what := range []string{filepath.Dir(others.Work), strings.Replace(others.Model, "m-", "", 1) + ".txt"} {
			if strings.Contains(text, what) {
				t.Errorf("%s is seen in\n%s", what, text)
			}
		}
	}
}

// TestTwoCellsOfOneGateway has the agent of our own play two scripts at once: each cell is told its own, and counts its own.
func TestTwoCellsOfOneGateway(t *testing.T) {
	t.Parallel()
	g, err := gateway.New(gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	write := func(name string) gateway.Turn {
		return gateway.Turn{Calls: []gateway.Call{{Kind: "write", Input: json.RawMessage(`{"path":"` + name + `","content":"x"}`)}}}
	}
	places, ends := map[string]*place{}, map[string]<-chan harness.Outcome{}
	for name, turns := range map[string][]gateway.Turn{
		"a": {write("a1"), {Say: "a is done"}},
		"b": {write("b1"), write("b2"), write("b3"), {Say: "b is done"}},
	} {
		p := newPlace(t, nil)
		p.Model = "m-" + name
		p.Gateway, err = g.Open(gateway.Spec{Name: name, Models: []gateway.Model{{Name: p.Model, Upstream: gateway.Upstream{Dialect: gateway.Chat, Script: &gateway.Script{Turns: turns}}}}})
		if err != nil {
			t.Fatal(err)
		}
		places[name], ends[name] = p, p.alongside(t, build(t, "openai", "model_script: x.yaml"))
	}
	for name, files := range map[string][]string{"a": {"a1"}, "b": {"b1", "b2", "b3"}} {
		p, o := places[name], <-ends[name]
		seen := p.Gateway.Seen()
		if o.Stop != trace.StopEndTurn || o.FinalText != name+" is done" || compact(t, o.Turns) != fmt.Sprint(len(files)+1) || seen.Calls != len(files)+1 || len(seen.Models) != 1 || seen.Models[0] != "m-"+name {
			t.Errorf("%s: %+v, %+v", name, o, seen)
		}
		there, err := filepath.Glob(filepath.Join(p.Work, "*"))
		if err != nil || len(there) != len(files) {
			t.Errorf("%s has the files %q, %v", name, there, err)
		}
	}
}

// TestTwoCellsOfClaude runs the real CLI in two cells at once.
func TestTwoCellsOfClaude(t *testing.T) {
	cli := realAgent(t, "claude", "claude")
	models := scriptedModels(t)
	h := build(t, "claude-code", "program: "+cli+"\nbase_url: "+models.url("edit", ""))
	var places [2]*place
	var ends [2]<-chan harness.Outcome
	for i := range places {
		p := newPlace(t, map[string]string{"calc.py": calcPy})
		p.Model, p.Responder = "claude-sonnet-4-5", policyOf(t, "policy: auto-approve")
		places[i], ends[i] = p, p.alongside(t, h)
	}
	for i, mine := range places {
		o, other := <-ends[i], places[1-i]
		if text, _ := mine.file(t, "calc.py"); o.Stop != trace.StopEndTurn || text != calcFixed || len(o.Survivors) > 0 {
			t.Errorf("%+v, %q", o, text)
		}
		claudeRun{calls: 5}.checkUsage(t, o.Usage)
		if bytes.Contains(mine.log.Bytes(), []byte(filepath.Dir(other.Work))) {
			t.Error("one cell speaks of the other's folders")
		}
	}
}

// TestRecordedRunsBehindTheGateway: what some agents hide of an end, or tell nobody, the gateway has seen.
func TestRecordedRunsBehindTheGateway(t *testing.T) {
	t.Parallel()
	refusal, cut := gateway.Turn{Say: "No.", Stop: "refusal"}, gateway.Turn{Say: "cut", Stop: "max_tokens"}
	for _, c := range []struct {
		run  string
		turn gateway.Turn
		want string
	}{
		{"gemini/truncate", cut, "F:max_tokens"},
		{"gemini/nogit", refusal, "F:refusal"}, // a refusal prints the same
		{"gemini/err429", gateway.Turn{HTTP: 429}, "X:model_limit"},
		{"gemini/err500", gateway.Turn{HTTP: 500}, "X:model_api"},
		{"gemini/timeout_term", gateway.Turn{HTTP: 401}, "X:model_auth"},
		{"opencode/err500", gateway.Turn{HTTP: 500}, "X:model_api"},
		{"acp-gemini/refusal", refusal, "F:refusal"},
	} {
		t.Run(c.run, func(t *testing.T) {
			t.Parallel()
			g, err := gateway.New(gateway.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { g.Close() })
			cell, err := g.Open(gateway.Spec{Name: "c", Models: []gateway.Model{{Name: "m1", Upstream: gateway.Upstream{Dialect: gateway.Chat, Script: &gateway.Script{Turns: []gateway.Turn{c.turn}}}}}})
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.Post(cell.URL(gateway.Chat)+"/chat/completions", "application/json", strings.NewReader(
				`{"model":"m1","messages":[{"role":"user","content":"go"}],"tools":[{"type":"function","function":{"name":"bash","parameters":{"type":"object"}}}]}`))
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			f := newFeeding(t, c.run)
			f.place.Gateway = cell
			o, _, _ := f.feed(t, f.said, 1<<20, recordedExits(t)[c.run])
			if got, _, _ := strings.Cut(inShort(t, o, nil), " "); got != c.want {
				t.Errorf("%s, want %s: %s", got, c.want, o.Detail)
			}
		})
	}
}
