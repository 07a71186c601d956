package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/assay-ci/assay/internal/trace"
)

// echo is the smallest agent that really changes the tree. It asks no model, so its usage is truly zero.
type echo struct{}

var _ Harness = echo{}

type echoParams struct{}

// echoAbout is the page of this kind.
var echoAbout = About{
	Example: `{id: echo, type: echo}`,
	Runs:    "Inside Assay, without a model and without a process: it writes the prompt to `ANSWER.md` and ends.",
	Records: "One call of a tool, one message, and a usage of zero, which is true.",
	Silent: []string{
		"It tells nothing of any model: pages call its numbers simulated.",
	},
	Limits: "It ends by itself.",
}

func buildEcho(s Settings) (Harness, error) {
	if err := s.Decode(&echoParams{}); err != nil {
		return nil, err
	}
	return echo{}, nil
}

const (
	echoFile = "ANSWER.md"
	echoText = "I wrote the prompt to " + echoFile + "."
)

func (echo) Drive(ctx context.Context, t Task, emit func(trace.Event)) (Outcome, error) {
	opening(t, trace.Session{Harness: "echo", Env: envNames(t.Env)}, emit)
	if ctx.Err() != nil {
		stop, detail := halt(ctx, t.Limits)
		return closing(Outcome{Stop: stop, Detail: detail}, emit), nil
	}
	call := trace.Tool{ID: "call-1", Name: "write", Kind: trace.ToolEdit, Paths: []string{echoFile}, Input: json.RawMessage(`{"path":"` + echoFile + `"}`)}
	emit(trace.Event{Kind: trace.KindToolCall, Tool: &call})
	if err := t.Exec.Files().Put(echoFile, strings.NewReader(t.Prompt), 0o644); err != nil {
		return Outcome{}, fmt.Errorf("echo the prompt: %w", err)
	}
	emit(trace.Event{Kind: trace.KindToolResult, Tool: &trace.Tool{ID: call.ID, Name: call.Name, Kind: call.Kind, Status: trace.StatusOK}})
	emit(trace.Event{Kind: trace.KindAssistantText, Text: echoText})
	usage := noUsage()
	emit(trace.Event{Kind: trace.KindUsage, Usage: usage})
	turns := 1
	return closing(Outcome{Stop: trace.StopEndTurn, FinalText: echoText, Turns: &turns, Usage: usage, Answered: true}, emit), nil
}
