package trace_test

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/trace"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestTurnsOfRecordedStreams folds what each harness makes of the recorded streams of real agents.
func TestTurnsOfRecordedStreams(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../harness/testdata/*.jsonl")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d recorded traces: %v", len(files), err)
	}
	var got strings.Builder
	for _, file := range files {
		events := eventsOf(t, file)
		turns := trace.Turns(slices.Values(events))
		if n := countEvents(turns); n != len(events) {
			t.Errorf("%s has %d events, its turns have %d", file, len(events), n)
		}
		fmt.Fprintf(&got, "== %s\n", filepath.Base(file))
		drawTurns(&got, turns, "")
	}
	const golden = "testdata/turns.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Error(diff)
	}
}

// TestTurnsKeepEveryEvent: whatever the events are and whatever they point to, each of them is in one place, and drawing
// them ends.
func TestTurnsKeepEveryEvent(t *testing.T) {
	t.Parallel()
	kinds := []trace.Kind{
		trace.KindUserMessage, trace.KindAssistantText, trace.KindToolCall, trace.KindToolResult, trace.KindPermissionRequest,
		trace.KindPermissionResponse, trace.KindQuestion, trace.KindAnswer, trace.KindUsage, trace.KindModelCall, trace.KindStop,
	}
	ids := rapid.SampledFrom([]string{"", "a", "b", "c"})
	rapid.Check(t, func(t *rapid.T) {
		events := make([]trace.Event, rapid.IntRange(0, 40).Draw(t, "events"))
		for i := range events {
			e := &events[i]
			e.Kind, e.Parent, e.Seq = rapid.SampledFrom(kinds).Draw(t, "kind"), ids.Draw(t, "parent"), i+1
			e.At = time.Duration(rapid.IntRange(-1, 9).Draw(t, "at"))
			if rapid.Bool().Draw(t, "whole") {
				e.Tool = &trace.Tool{ID: ids.Draw(t, "tool")}
				e.Ask = &trace.Ask{ID: ids.Draw(t, "ask"), CallID: ids.Draw(t, "call")}
				e.Call = &trace.ModelCall{Lane: rapid.SampledFrom([]string{"main", "aux"}).Draw(t, "lane")}
				e.Usage = &trace.Usage{Scope: "step"}
			}
		}
		turns := trace.Turns(slices.Values(events))
		if n := countEvents(turns); n != len(events) {
			t.Fatalf("%d events, %d in turns", len(events), n)
		}
	})
}

// TestUsageOfATurn: what the gateway saw comes before what the agent told, and what one call does not know, the sum does not.
func TestUsageOfATurn(t *testing.T) {
	t.Parallel()
	n := func(n int64) *int64 { return &n }
	call := func(lane string, in, out *int64) trace.Event {
		return trace.Event{Kind: trace.KindModelCall, Call: &trace.ModelCall{Lane: lane}, Usage: &trace.Usage{Input: in, Output: out}}
	}
	told := trace.Event{Kind: trace.KindUsage, Usage: &trace.Usage{Input: n(7), Scope: "step"}}
	total := trace.Event{Kind: trace.KindUsage, Usage: &trace.Usage{Input: n(9), Scope: "session"}}
	for name, test := range map[string]struct {
		events []trace.Event
		want   *trace.Usage
	}{
		"none":          {[]trace.Event{say("hi"), total}, nil},
		"told":          {[]trace.Event{say("hi"), told, total}, told.Usage},
		"seen and told": {[]trace.Event{say("hi"), told, call("main", n(1), n(2)), call("aux", n(50), nil)}, &trace.Usage{Input: n(1), Output: n(2)}},
		"two calls":     {[]trace.Event{call("main", n(1), n(2)), call("main", n(3), nil), say("hi")}, &trace.Usage{Input: n(4)}},
	} {
		turns := trace.Turns(slices.Values(test.events))
		if len(turns) != 1 {
			t.Errorf("%s: %d turns", name, len(turns))
			continue
		}
		if diff := cmp.Diff(test.want, turns[0].Usage()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestAnswersAreTurns: each answer of the model is a turn, whether its call is told before what it says or after.
func TestAnswersAreTurns(t *testing.T) {
	t.Parallel()
	call := trace.Event{Kind: trace.KindToolCall, Tool: &trace.Tool{ID: "a"}}
	result := trace.Event{Kind: trace.KindToolResult, Tool: &trace.Tool{ID: "a"}}
	model := trace.Event{Kind: trace.KindModelCall, Call: &trace.ModelCall{Lane: "main"}}
	for name, events := range map[string][]trace.Event{
		"before": {model, say("I look."), call, result, model, say("Done."), stop(trace.StopEndTurn)},
		"after":  {say("I look."), call, model, result, say("Done."), model, stop(trace.StopEndTurn)},
		"never":  {say("I look."), call, result, say("Done."), stop(trace.StopEndTurn)},
	} {
		var got []string
		for _, turn := range trace.Turns(slices.Values(events)) {
			got = append(got, fmt.Sprintf("%s %d", turn.Speaker, turn.Number))
		}
		if want := []string{"agent 1", "agent 2", "machinery 0"}; !slices.Equal(got, want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func eventsOf(t *testing.T, file string) (events []trace.Event) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for e, err := range trace.Read(f) {
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		events = append(events, e)
	}
	return events
}

// countEvents counts the events that the turns hold. That of a question of its own is there twice.
func countEvents(turns []*trace.Turn) (n int) {
	for turn := range every(turns) {
		for _, it := range turn.Items {
			n++
			if it.Result != nil {
				n++
			}
			for _, x := range it.Asks {
				if x.Ask.Seq != it.Seq {
					n++
				}
				if x.Reply != nil {
					n++
				}
			}
		}
	}
	return n
}

func every(turns []*trace.Turn) iter.Seq[*trace.Turn] {
	return func(yield func(*trace.Turn) bool) {
		for _, turn := range turns {
			if !yield(turn) {
				return
			}
			for _, it := range turn.Items {
				every(it.Turns)(yield)
			}
		}
	}
}

func drawTurns(w *strings.Builder, turns []*trace.Turn, indent string) {
	for _, turn := range turns {
		fmt.Fprintf(w, "%s%s %d %s\n", indent, turn.Speaker, turn.Number, turn.Parent)
		for _, it := range turn.Items {
			fmt.Fprintf(w, "%s    %d %s", indent, it.Seq, it.Kind)
			for _, x := range it.Asks {
				fmt.Fprintf(w, " ? %d", x.Ask.Seq)
				if x.Reply != nil {
					fmt.Fprintf(w, " ! %d", x.Reply.Seq)
				}
			}
			if it.Result != nil {
				fmt.Fprintf(w, " → %d", it.Result.Seq)
			}
			w.WriteString("\n")
			drawTurns(w, it.Turns, indent+"        ")
		}
	}
}
