package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
	gocmp "github.com/google/go-cmp/cmp"
)

// TestViewsOfRecordedTraces shows what a person sees of the recorded streams of real agents.
func TestViewsOfRecordedTraces(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	for _, name := range []string{"claude-ctl_edit", "claude-live_bg_agent", "codex-subagent", "acp-gemini-deny_reject", "acp-claude-ask_elicit", "opencode-refusal", "openai"} {
		f, err := os.Open(filepath.Join("../harness/testdata", name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "== %s\n", name)
		if err := viewTrace(screen{w: &got, width: 100}, trace.Read(f), name == "codex-subagent"); err != nil {
			t.Error(err)
		}
		f.Close()
	}
	sameAsGolden(t, "testdata/trace-views.golden", got.Bytes())
}

// sameAsGolden compares with a file, which -update rewrites.
func sameAsGolden(t *testing.T, golden string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
}

// TestHostileTraceIsInert: whatever field holds it, nothing of an agent moves the cursor of a terminal or begins a line of
// its own where one line is promised.
func TestHostileTraceIsInert(t *testing.T) {
	t.Parallel()
	const evil = "\x1b]0;owned\a\x1b[2J\r\u202egnp\u0085\u2028x\x00\u009b31m"
	tool := &trace.Tool{ID: evil, Name: evil, Kind: evil, Input: []byte(`{"command":"` + "\u202e\u009b" + `"}`), Paths: []string{evil}, Status: evil, Output: evil, Diff: evil}
	ask := &trace.Ask{ID: evil, Name: evil, Input: evil, Outcome: evil, Answers: []string{evil}, By: evil, Reason: evil, Questions: []trace.Question{{Text: evil}}}
	var events []trace.Event
	for _, kind := range []trace.Kind{
		trace.KindSessionStart, trace.KindUserMessage, trace.KindAssistantText, trace.KindThinking, trace.KindToolCall, trace.KindToolResult,
		trace.KindPlan, trace.KindPermissionRequest, trace.KindPermissionResponse, trace.KindQuestion, trace.KindAnswer, trace.KindFileIO,
		trace.KindUsage, trace.KindModelCall, trace.KindRetry, trace.KindError, trace.KindSubagent, trace.KindStop, trace.KindOther,
	} {
		for _, parent := range []string{"", evil} {
			events = append(events, trace.Event{Kind: kind, Text: evil, Parent: parent, Raw: []byte(`"` + "\u202e\u009b" + `"`)}, trace.Event{
				Kind: kind, Text: evil, Parent: parent, Tool: tool, Ask: ask, Plan: []trace.PlanItem{{Text: evil, Status: evil}},
				Session: &trace.Session{Harness: evil, Agent: evil, Version: evil, Model: evil},
				Err:     &trace.Fault{Class: evil, Detail: evil}, Stop: &trace.Stop{Reason: evil, Class: evil, Detail: evil},
				Call: &trace.ModelCall{Lane: evil, Model: evil}, Usage: &trace.Usage{Scope: evil},
			})
		}
	}
	var out bytes.Buffer
	s := screen{w: &out, isTerminal: true, width: 80}
	for _, full := range []bool{false, true} {
		err := viewTrace(s, func(yield func(trace.Event, error) bool) {
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
			yield(trace.Event{}, errors.New(evil))
		}, full)
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range events {
		for _, show := range []func(trace.Event) error{s.showEvent, s.showRaw, s.showJSON} {
			if err := show(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	if at := strings.IndexAny(out.String(), "\x1b\a\r\x00\u202e\u0085\u2028\u009b"); at >= 0 {
		t.Errorf("at %d: %q", at, out.String()[max(0, at-80):at+20])
	}
	if n := strings.Count(out.String(), "owned"); n < 50 {
		t.Errorf("only %d texts were shown", n)
	}
}

// TestFollow: a trace is waited for, a line is told when it is whole, and the stop is the end.
func TestFollow(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), plan.Cell{Case: "task", Harness: "h", Model: "m", Condition: "c", Trial: 1, Key: strings.Repeat("a", 64)}
	cell := filepath.Join(dir, result.Dir(c))
	synctest.Test(t, func(t *testing.T) {
		go func() {
			time.Sleep(time.Minute)
			if err := os.MkdirAll(cell, 0o755); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Minute)
			f, err := os.Create(filepath.Join(cell, traceFile))
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			for _, part := range []string{`{"kind":"user_mess`, `age","text":"one"}` + "\n" + `{"kind":`, `"stop"}` + "\n", `{"kind":"thinking"}` + "\n"} {
				f.WriteString(part)
				time.Sleep(time.Minute)
			}
		}()
		var got []string
		began := time.Now()
		for e, err := range followTrace(t.Context(), dir, c) {
			got = append(got, fmt.Sprint(e.Kind, " ", err, " ", time.Since(began).Round(time.Minute)))
		}
		if want := []string{"user_message <nil> 3m0s", "stop <nil> 4m0s"}; !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
		time.Sleep(time.Hour) // the writer ends
	})
}

// TestFollowTakesTheLastAttempt: when a cell is tried again, the new attempt is told.
func TestFollowTakesTheLastAttempt(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), plan.Cell{Case: "task", Harness: "h", Model: "m", Condition: "c", Trial: 1, Key: strings.Repeat("a", 64)}
	cell := filepath.Join(dir, result.Dir(c))
	old := time.Now().Add(-time.Hour)
	for name, text := range map[string]string{traceFile: "first", "attempt-2/" + traceFile: "second"} {
		name = filepath.Join(cell, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(`{"kind":"stop","text":"`+text+`"}`+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if text == "first" {
			if err := os.Chtimes(name, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	for e := range followTrace(t.Context(), dir, c) {
		if e.Text != "second" {
			t.Errorf("told of the %s attempt", e.Text)
		}
	}
}

// TestFollowEnds: who follows what never comes can leave.
func TestFollowEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		for _, err := range followTrace(ctx, dir, plan.Cell{Case: "task", Key: strings.Repeat("a", 64)}) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		}
	})
}
