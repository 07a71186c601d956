package trace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-ci/assay/internal/trace"
)

// exported is the ATIF document of a trace.
func exported(t testing.TB, events []trace.Event, about trace.About) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := trace.WriteATIF(&b, all(events), about); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func all(events []trace.Event) iter.Seq2[trace.Event, error] {
	return func(yield func(trace.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// asLines prints events one a line.
func asLines(t testing.TB, events []trace.Event) string {
	t.Helper()
	var b strings.Builder
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.String()
}

// kept is what a document keeps of events.
func kept(events []trace.Event) []trace.Event {
	out := make([]trace.Event, len(events))
	for i, e := range events {
		if e.Kind != trace.KindOther {
			e.Raw, e.RawLine = nil, 0
		}
		out[i] = e
	}
	return out
}

func tool(kind trace.Kind, parent string, tool trace.Tool) trace.Event {
	return trace.Event{Kind: kind, Parent: parent, Tool: &tool}
}

// session is a trace with all kinds of events: two calls at once, a sub-agent, a denied call, late calls and strange ones.
func session(t testing.TB) []trace.Event {
	exit, n, none, cost := 3, int64(10), int64(0), 0.25
	input := func(text string) json.RawMessage { return json.RawMessage(text) }
	return readAll(t, bytes.NewReader(written(t,
		trace.Event{Kind: trace.KindSessionStart, Session: &trace.Session{Harness: "claude-code", Agent: "claude", Version: "2.1", Model: "m", ModelReported: "m-1", Tools: []string{"Bash"}}},
		trace.Event{Kind: trace.KindUserMessage, Text: "Fix it."},
		trace.Event{Kind: trace.KindThinking, Text: "Where?", Raw: input(`{"native": 1}`), RawLine: 3},
		trace.Event{Kind: trace.KindAssistantText, Text: "I look."},
		tool(trace.KindToolCall, "", trace.Tool{ID: "1", Name: "Bash", Kind: trace.ToolExecute, Input: input(`{"command":"a < b && c"}`), Title: "run"}),
		tool(trace.KindToolCall, "", trace.Tool{ID: "2", Name: "Task", Kind: trace.ToolAgent, Input: input(`{}`)}),
		trace.Event{Kind: trace.KindPermissionRequest, Ask: &trace.Ask{ID: "p", CallID: "1", Options: []trace.Option{{ID: "y", Kind: "allow_once"}}}},
		trace.Event{Kind: trace.KindPermissionResponse, Ask: &trace.Ask{ID: "p", Choice: "y", Outcome: "allowed"}},
		trace.Event{Kind: trace.KindAssistantText, Parent: "2", Text: "I help."},
		tool(trace.KindToolCall, "2", trace.Tool{ID: "2a", Name: "Read", Kind: trace.ToolRead, Input: input(`{"path":"a"}`), Paths: []string{"a"}}),
		tool(trace.KindToolResult, "2", trace.Tool{ID: "2a", Status: trace.StatusOK, Output: "content"}),
		tool(trace.KindToolResult, "", trace.Tool{ID: "1", Status: trace.StatusError, Exit: &exit, Output: "no", Duration: time.Second}),
		tool(trace.KindToolResult, "", trace.Tool{ID: "2", Status: trace.StatusOK, Output: "helped", Diff: "-a\n+b\n"}),
		trace.Event{Kind: trace.KindUsage, Usage: &trace.Usage{Input: &n, CacheRead: &n, CacheWrite: &none, Output: &n, CostUSD: &cost, Scope: "step", Source: "agent"}},
		trace.Event{Kind: trace.KindPlan, Plan: []trace.PlanItem{{Text: "test", Status: "pending"}}},
		trace.Event{Kind: trace.KindUserMessage, Text: "[interrupted]", Synthetic: true},
		tool(trace.KindToolCall, "", trace.Tool{ID: "3", Name: "Edit", Kind: trace.ToolEdit, Input: input(`"not an object"`)}),
		tool(trace.KindToolResult, "", trace.Tool{ID: "3", Status: trace.StatusDenied}),
		tool(trace.KindToolResult, "", trace.Tool{ID: "9", Status: trace.StatusNone, Output: "of a call that nobody saw"}),
		trace.Event{Kind: trace.KindToolCall, Late: true, Tool: &trace.Tool{ID: "1", Name: "Bash"}},
		trace.Event{Kind: trace.KindRetry, Err: &trace.Fault{Class: trace.ClassModelLimit, HTTP: 429}},
		trace.Event{Kind: trace.KindOther, Raw: input(`{"type":"new"}`), RawLine: 20},
		trace.Event{Kind: trace.KindAssistantText, Text: "Done."},
		trace.Event{Kind: trace.KindUsage, Usage: &trace.Usage{Input: &n, CacheRead: &n, Output: &n, Scope: "session", Source: "agent"}},
		trace.Event{Kind: trace.KindStop, Stop: &trace.Stop{Reason: trace.StopEndTurn, FinalText: "Done."}},
	)))
}

var about = trace.About{Session: "timezone/claude-with_skill/t1", Start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))}

func TestATIFGolden(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := json.Indent(&b, exported(t, session(t), about), "", "  "); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/atif/session.json", b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestATIFComesBack(t *testing.T) {
	t.Parallel()
	for _, about := range []trace.About{{}, about} {
		events := session(t)
		back, err := trace.ReadATIF(bytes.NewReader(exported(t, events, about)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(kept(events), back); diff != "" {
			t.Error(diff)
		}
	}
}

// TestATIFOfAnything writes traces of events in any order, with ids that repeat and parents that nobody called.
func TestATIFOfAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		w := trace.NewWriter(&b, ticking())
		for range rapid.IntRange(0, 30).Draw(t, "n") {
			w.Emit(anyEvent(t))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		var events []trace.Event
		for e, err := range trace.Read(&b) {
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
		var doc bytes.Buffer
		if err := trace.WriteATIF(&doc, all(events), about); err != nil {
			t.Fatal(err)
		}
		if err := follows(doc.Bytes()); err != nil {
			t.Fatalf("%v\n%s", err, &doc)
		}
		back, err := trace.ReadATIF(&doc)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(kept(events), back); diff != "" {
			t.Fatal(diff)
		}
	})
}

func anyEvent(t *rapid.T) trace.Event {
	text := rapid.SampledFrom([]string{"", "a", "<b>\u2028\n", "é"})
	kinds := []trace.Kind{
		trace.KindSessionStart, trace.KindUserMessage, trace.KindAssistantText, trace.KindThinking, trace.KindToolCall, trace.KindToolResult,
		trace.KindPlan, trace.KindPermissionRequest, trace.KindAnswer, trace.KindUsage, trace.KindModelCall, trace.KindError, trace.KindOther,
	}
	e := trace.Event{
		Kind: rapid.SampledFrom(append(kinds, kinds[1:6]...)).Draw(t, "kind"), Text: text.Draw(t, "text"),
		Parent: rapid.SampledFrom([]string{"", "", "", "1", "2", "x"}).Draw(t, "parent"), Synthetic: rapid.IntRange(0, 9).Draw(t, "synthetic") == 0,
		Late: rapid.Bool().Draw(t, "late"), Raw: json.RawMessage(rapid.SampledFrom([]string{"", "{}", `"x"`}).Draw(t, "raw")),
	}
	if rapid.IntRange(0, 4).Draw(t, "tool") > 0 {
		e.Tool = &trace.Tool{
			ID: rapid.SampledFrom([]string{"", "1", "2", "3"}).Draw(t, "id"), Name: text.Draw(t, "name"), Kind: rapid.SampledFrom([]trace.ToolKind{"", trace.ToolRead}).Draw(t, "tool kind"),
			Input:  json.RawMessage(rapid.SampledFrom([]string{"", "{}", "{ }", "null", `[1]`, `"s"`, `{"a": {"b": 1e400}}`, `{"": null}`}).Draw(t, "input")),
			Output: text.Draw(t, "output"), Status: rapid.SampledFrom([]trace.ToolStatus{"", trace.StatusOK, trace.StatusError}).Draw(t, "status"),
		}
	}
	if rapid.Bool().Draw(t, "session") {
		e.Session = &trace.Session{Harness: text.Draw(t, "harness"), Version: text.Draw(t, "version")}
	}
	if rapid.Bool().Draw(t, "usage") {
		number := rapid.Ptr(rapid.Int64Range(0, 1e12), true)
		e.Usage = &trace.Usage{
			Input: number.Draw(t, "in"), CacheRead: number.Draw(t, "read"), CacheWrite: number.Draw(t, "write"), Output: number.Draw(t, "out"),
			Scope: rapid.SampledFrom([]string{"", "step", "session", "turn"}).Draw(t, "scope"),
		}
	}
	return e
}

// follows holds a document to the rules of the format, as its own validator does.
func follows(doc []byte) error {
	type document struct {
		Schema  string                    `json:"schema_version"`
		Session *string                   `json:"session_id"`
		ID      *string                   `json:"trajectory_id"`
		Agent   map[string]any            `json:"agent"`
		Steps   []map[string]any          `json:"steps"`
		Totals  map[string]any            `json:"final_metrics"`
		Subs    []json.RawMessage         `json:"subagent_trajectories"`
		Extra   map[string]map[string]any `json:"extra"`
	}
	var d document
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	if err := dec.Decode(&d); err != nil {
		return err
	}
	if d.Schema != "ATIF-v1.8" || d.Agent["name"] == "" || d.Agent["version"] == "" || len(d.Steps) == 0 {
		return errors.New("schema, agent or steps are missing")
	}
	for i, s := range d.Steps {
		if s["step_id"] != json.Number(strconv.Itoa(i+1)) {
			return fmt.Errorf("step %d has the id %v", i+1, s["step_id"])
		}
		if _, ok := s["message"].(string); !ok {
			return fmt.Errorf("step %d has no message", i+1)
		}
		if s["source"] != "agent" && (s["reasoning_content"] != nil || s["tool_calls"] != nil || s["metrics"] != nil) {
			return fmt.Errorf("step %d of %v has what only an agent has", i+1, s["source"])
		}
		calls := map[any]bool{}
		list, _ := s["tool_calls"].([]any)
		for _, c := range list {
			call := c.(map[string]any)
			if _, ok := call["arguments"].(map[string]any); !ok {
				return fmt.Errorf("step %d: arguments are no object", i+1)
			}
			calls[call["tool_call_id"]] = true
		}
		observation, _ := s["observation"].(map[string]any)
		results, _ := observation["results"].([]any)
		for _, r := range results {
			if id, ok := r.(map[string]any)["source_call_id"]; ok && !calls[id] {
				return fmt.Errorf("step %d: a result of %v", i+1, id)
			}
		}
	}
	ids := map[string]bool{}
	for _, sub := range d.Subs {
		var one struct {
			ID string `json:"trajectory_id"`
		}
		if err := json.Unmarshal(sub, &one); err != nil {
			return err
		}
		if one.ID == "" || ids[one.ID] {
			return fmt.Errorf("sub-agent %q", one.ID)
		}
		ids[one.ID] = true
		if err := follows(sub); err != nil {
			return err
		}
	}
	return nil
}

// TestATIFForHarbor lets Harbor's own models read what we write.
func TestATIFForHarbor(t *testing.T) {
	t.Parallel()
	if err := exec.Command("python3", "-c", "import harbor.models.trajectories.trajectory").Run(); err != nil {
		t.Skipf("Harbor cannot be imported: %v", err)
	}
	file := filepath.Join(t.TempDir(), "trajectory.json")
	for _, doc := range [][]byte{exported(t, session(t), about), exported(t, readAll(t, bytes.NewReader(written(t))), trace.About{})} {
		if err := os.WriteFile(file, doc, 0o644); err != nil {
			t.Fatal(err)
		}
		read := exec.Command("python3", "-c", "import sys; from harbor.models.trajectories.trajectory import Trajectory; Trajectory.model_validate_json(open(sys.argv[1]).read())", file)
		if out, err := read.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

func TestATIFTotals(t *testing.T) {
	t.Parallel()
	n := func(v int64) *int64 { return &v }
	for _, c := range []struct {
		usage *trace.Usage
		want  string
	}{
		{nil, `{"total_steps":1}`},
		{&trace.Usage{Input: n(5), CacheRead: n(3), CacheWrite: n(2), Output: n(7)}, `{"total_prompt_tokens":10,"total_completion_tokens":7,"total_cached_tokens":3,"total_steps":1}`},
		{&trace.Usage{Input: n(5), CacheRead: n(3)}, `{"total_prompt_tokens":8,"total_cached_tokens":3,"total_steps":1}`},
		{&trace.Usage{Input: n(5), Output: n(0)}, `{"total_completion_tokens":0,"total_steps":1}`},
	} {
		var d struct {
			Totals json.RawMessage `json:"final_metrics"`
		}
		if err := json.Unmarshal(exported(t, []trace.Event{say("a")}, trace.About{Usage: c.usage}), &d); err != nil {
			t.Fatal(err)
		}
		if string(d.Totals) != c.want {
			t.Errorf("got  %s\nwant %s", d.Totals, c.want)
		}
	}
}

func TestATIFOfBrokenTraces(t *testing.T) {
	t.Parallel()
	if err := trace.WriteATIF(io.Discard, all(nil), trace.About{}); err == nil {
		t.Error("an empty trace was written")
	}
	lost := errors.New("disk on fire")
	failing := func(yield func(trace.Event, error) bool) { yield(trace.Event{}, lost) }
	if err := trace.WriteATIF(io.Discard, failing, trace.About{}); !errors.Is(err, lost) {
		t.Errorf("error is %v", err)
	}
	var b bytes.Buffer
	if err := trace.WriteATIF(&b, trace.Read(strings.NewReader("no event\n{}\n")), trace.About{}); err != nil {
		t.Fatal(err)
	}
	back, err := trace.ReadATIF(&b)
	if err != nil || len(back) != 2 || back[0].Kind != trace.KindOther || !strings.Contains(back[1].Text, "line 2") {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestATIFOfOthers(t *testing.T) {
	t.Parallel()
	f, err := os.Open("testdata/atif/foreign.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events, err := trace.ReadATIF(f)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/atif/foreign.jsonl", asLines(t, events))
}

func TestATIFFaults(t *testing.T) {
	t.Parallel()
	const head = `{"schema_version": "ATIF-v1.8", "agent": {"name": "a", "version": "1"}, "steps": [`
	for _, c := range []struct{ doc, want string }{
		{``, "unexpected end"},
		{`{}`, `schema_version is ""`},
		{`{"schema_version": "ATIF-v2.0"}`, `schema_version is "ATIF-v2.0"`},
		{head + `{"step_id": 2, "source": "user", "message": "a"}]}`, "step_id must be 1"},
		{head + `null]}`, "step_id must be 1"},
		{head + `{"step_id": 1, "source": "god", "message": "a"}]}`, `step 1: source is "god"`},
		{head + `{"step_id": 1, "source": "agent", "message": 7}]}`, "cannot unmarshal number"},
		{head + `{"step_id": 1, "source": "agent", "message": [7]}]}`, "cannot unmarshal number"},
		{head + `{"step_id": 1, "source": "agent", "message": "", "observation": {"results": [{"source_call_id": "x"}]}}]}`, `names the call "x"`},
		{head + `], "subagent_trajectories": [{}]}`, "no trajectory_id of its own"},
		{head + `], "subagent_trajectories": [{"trajectory_id": "x"}]}`, `sub-agent "x": schema_version`},
		{head + `]} {}`, "after top-level value"},
	} {
		if events, err := trace.ReadATIF(strings.NewReader(c.doc)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %q", c.doc, events, err, c.want)
		}
	}
	lost := errors.New("disk on fire")
	if _, err := trace.ReadATIF(iotest.ErrReader(lost)); !errors.Is(err, lost) {
		t.Errorf("error is %v", err)
	}
}

// FuzzATIF reads any document: what comes of it is a trace, and comes back the same when it is written again.
func FuzzATIF(f *testing.F) {
	f.Add(exported(f, session(f), about))
	foreign, err := os.ReadFile("testdata/atif/foreign.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(foreign)
	f.Fuzz(func(t *testing.T, doc []byte) {
		events, err := trace.ReadATIF(bytes.NewReader(doc))
		if err != nil || len(events) == 0 {
			return
		}
		for i, e := range events {
			if e.Seq != i+1 || (e.Schema == trace.Schema) != (i == 0) || e.Kind == trace.KindStop && i < len(events)-1 {
				t.Fatalf("event %d is %+v", i, e)
			}
		}
		again := exported(t, events, about)
		if err := follows(again); err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
		back, err := trace.ReadATIF(bytes.NewReader(again))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(asLines(t, kept(events)), asLines(t, back)); diff != "" {
			t.Error(diff)
		}
	})
}
