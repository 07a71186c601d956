package report

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/trace"
	"github.com/google/go-cmp/cmp"
)

// of is a stream of events that can all be read.
func of(events ...trace.Event) iter.Seq2[trace.Event, error] {
	return func(yield func(trace.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// talkLines is a conversation as lines, each deeper than what holds it.
func talkLines(turns []Turn, indent string) string {
	var out strings.Builder
	for _, t := range turns {
		fmt.Fprintf(&out, "%s%s %d sub=%v %v-%v %s\n", indent, t.Who, t.Number, t.Sub, t.At, t.End, t.Used)
		for _, s := range t.Said {
			fmt.Fprintf(&out, "%s  %s|%s|%s|%s|%s|%s|%s\n", indent, s.Who, s.Title, s.Text, s.Input, s.End, s.Output, s.Mark)
			for _, a := range s.Asks {
				fmt.Fprintf(&out, "%s    %s|%s|%s|%s|%s\n", indent, a.What, a.Title, a.Input, a.End, a.Output)
			}
			out.WriteString(talkLines(s.Turns, indent+"    "))
		}
	}
	return out.String()
}

// What belongs together stands together: results with calls, replies with requests, sub-agents in their calls, usage by turn.
func TestTalk(t *testing.T) {
	t.Parallel()
	n := func(v int64) *int64 { return &v }
	tool := func(at int, kind trace.Kind, tool trace.Tool) trace.Event {
		return trace.Event{At: time.Duration(at) * time.Second, Kind: kind, Tool: &tool}
	}
	ask := func(kind trace.Kind, ask trace.Ask) trace.Event {
		return trace.Event{At: 3 * time.Second, Kind: kind, Ask: &ask}
	}
	main := func(in int64, http int) trace.Event {
		return trace.Event{Kind: trace.KindModelCall, At: 4 * time.Second, Call: &trace.ModelCall{Ordinal: 1, Lane: "main", Model: "m", HTTP: http}, Usage: &trace.Usage{Input: n(in)}}
	}
	var c talk
	got := talkLines(c.read(of(
		trace.Event{Kind: trace.KindSessionStart, Session: &trace.Session{Harness: "codex", Model: "m"}},
		trace.Event{Kind: trace.KindUserMessage, Text: "Mend it."},
		trace.Event{Kind: trace.KindThinking, Text: "how", At: time.Second},
		tool(2, trace.KindToolCall, trace.Tool{ID: "1", Name: "bash", Input: json.RawMessage(`{"command":"rm -r x","timeout":7,"text":"a\nb\n"}`)}),
		ask(trace.KindPermissionRequest, trace.Ask{ID: "p", CallID: "1", Name: "bash", Input: `{"command":"rm -r x","timeout":7,"text":"a\nb\n"}`}),
		ask(trace.KindPermissionResponse, trace.Ask{ID: "p", Outcome: "denied", By: "rule 1", Reason: "no"}),
		main(10, 200), main(5, 200),
		tool(5, trace.KindToolResult, trace.Tool{ID: "1", Status: trace.StatusDenied, Exit: ptr(1), Output: "refused"}),
		ask(trace.KindQuestion, trace.Ask{ID: "q", Questions: []trace.Question{{Text: "Which?", Options: []trace.Choice{{Label: "this", Description: "one"}}}}}),
		ask(trace.KindAnswer, trace.Ask{ID: "q", Answers: []string{"this"}, By: "policy"}),
		tool(6, trace.KindToolCall, trace.Tool{ID: "2", Name: "task", Kind: trace.ToolAgent, Title: "look"}),
		trace.Event{Kind: trace.KindAssistantText, Parent: "2", Text: "seen", At: 7 * time.Second},
		trace.Event{Kind: trace.KindUsage, Usage: &trace.Usage{Output: n(3), Scope: "turn"}, At: 7 * time.Second},
		main(1, 529),
		trace.Event{Kind: trace.KindPlan, Plan: []trace.PlanItem{{Text: "a", Status: "completed"}, {Text: "b"}}, At: 8 * time.Second},
		trace.Event{Kind: trace.KindAssistantText, Text: "done", Late: true, At: 8 * time.Second},
		trace.Event{Kind: trace.KindAssistantText, Text: "again", Synthetic: true, At: 8 * time.Second},
		tool(9, trace.KindToolResult, trace.Tool{ID: "lost", Name: "read", Status: trace.StatusOK}),
		ask(trace.KindAnswer, trace.Ask{ID: "lost", Answers: []string{"yes"}}),
		trace.Event{Kind: trace.KindRetry, Err: &trace.Fault{Class: trace.ClassModelAPI, HTTP: 529, Detail: "overloaded"}},
		trace.Event{Kind: trace.KindUsage, Usage: &trace.Usage{Output: n(9), Scope: "session"}},
		trace.Event{Kind: trace.KindStop, Stop: &trace.Stop{Reason: trace.StopTimeout, Signal: "SIGKILL"}, At: 9 * time.Second},
	)), "")
	want := `machinery 0 sub=false 0-0 
  note||session of codex m||||
user 0 sub=false 0-0 
  text||Mend it.||||
agent 1 sub=false 1-5 tokens: 15 input
  thinking||how||||
  tool|bash rm -r x||command: rm -r x
text:
a
b
timeout: 7|denied, exit 1|refused|
    permission|bash||denied, rule 1|no
  usage||model call 1, main, m · tokens: 10 input||||
  usage||model call 1, main, m · tokens: 5 input||||
  ask||||||
    question||Which?
  · this: one|answered, policy|this
`
	if !strings.HasPrefix(got, want) {
		t.Errorf("the beginning differs (-want +got):\n%s", cmp.Diff(want, got))
	}
	for _, part := range []string{
		"  tool|task look|||||\n    agent 1 sub=true 7-7 \n      text||seen||||\n",
		"error||model call 1, main, m · HTTP 529 · tokens: 1 input",
		"plan||☑ a\n☐ b|", "text||done||||learned after the fact\n", "text||again||||written by the agent's machinery\n",
		"tool|read|||ok||its call was not seen\n", "ask||||||what it replies to was not seen\n", "question|||answered|yes",
		"retry||model_api · HTTP 529 · overloaded|", "note||used in all: tokens: 9 output · session|", "note||stopped: timeout, SIGKILL|",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in\n%s", part, got)
		}
	}
	if cuts := c.cuts(); cuts != nil {
		t.Errorf("%q", cuts)
	}
}

// A long conversation keeps its first and its last entries; a call that ends late still has its result, and every cut is named.
func TestLongTalk(t *testing.T) {
	t.Parallel()
	events := []trace.Event{{Kind: trace.KindToolCall, Tool: &trace.Tool{ID: "early", Name: "read"}}}
	for i := range mostSaidFirst + mostSaidLast + 50 {
		events = append(events, trace.Event{Kind: trace.KindAssistantText, Text: fmt.Sprint(i)})
	}
	events = append(events, trace.Event{Kind: trace.KindToolResult, Tool: &trace.Tool{ID: "early", Status: trace.StatusOK, Output: strings.Repeat("x", mostToolText+1)}})
	var c talk
	turns := c.read(of(events...))
	var all []Said
	for _, t := range turns {
		all = append(all, t.Said...)
	}
	if len(all) != mostSaidFirst+1+mostSaidLast || all[0].End != "ok" || all[mostSaidFirst].Text != "Entries are left out here." || all[len(all)-1].Text != "349" {
		t.Errorf("%d entries, the first %.200v", len(all), all[0])
	}
	if diff := cmp.Diff([]string{"conversation: 51 of 351 entries, from its middle, are left out", "conversation: 1 long texts are cut in their middle"}, c.cuts()); diff != "" {
		t.Error(diff)
	}
}

// A trace of very many events is folded in little memory; the turn in which some are missing has no sum.
func TestHugeTalk(t *testing.T) {
	t.Parallel()
	one := int64(1)
	many := func(yield func(trace.Event, error) bool) {
		for i := range 50_000 {
			e := trace.Event{Seq: i + 1, Kind: trace.KindModelCall, Call: &trace.ModelCall{Lane: "main", HTTP: 200}, Usage: &trace.Usage{Input: &one}}
			if !yield(e, nil) {
				return
			}
		}
		yield(trace.Event{Kind: trace.KindStop, Stop: &trace.Stop{Reason: trace.StopEndTurn}}, nil)
	}
	var c talk
	kept := c.keep(many)
	if len(kept) != mostEvents+1 || kept[len(kept)-1].Kind != trace.KindStop || kept[mostEvents/2].Seq != leftOut || kept[mostEvents/2-1].Seq != mostEvents/2 || c.events != 50_001-mostEvents {
		t.Fatalf("%d events, %d left out", len(kept), c.events)
	}
	turns := new(talk).turns(trace.Turns(slices.Values(kept)))
	if len(turns) != 3 || turns[0].Used != "" || turns[1].Used != "" || turns[2].Said[0].Text != "stopped: end_turn" {
		t.Errorf("%d turns, the first used %q, the second %q", len(turns), turns[0].Used, turns[1].Used)
	}
}

// Requests without end in one call do not make its page large.
func TestManyAsks(t *testing.T) {
	t.Parallel()
	events := []trace.Event{{Kind: trace.KindToolCall, Tool: &trace.Tool{ID: "1", Name: "bash"}}}
	for i := range mostAsks + 5 {
		events = append(events, trace.Event{Kind: trace.KindPermissionRequest, Ask: &trace.Ask{ID: fmt.Sprint(i), CallID: "1"}})
	}
	var c talk
	turns := c.read(of(events...))
	if n := len(turns[0].Said[0].Asks); n != mostAsks || len(c.cuts()) != 1 {
		t.Errorf("%d requests, %q", n, c.cuts())
	}
}

func TestInputText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"b":1,"a":"x"}`:                   "a: x\nb: 1",
		`{"old":"a\nb\n","n":null,"l":[1]}`: "l: [1]\nn: null\nold:\na\nb",
		`["a"]`:                             `["a"]`,
		`{}`:                                `{}`,
		`no JSON`:                           `no JSON`,
		``:                                  ``,
	} {
		if got := inputText(json.RawMessage(in)); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}
