package harness_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/coder/acp-go-sdk"
	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/trace"
)

// The other side of these tests is an implementation of the protocol that is not ours, generated from its schema. It
// refuses frames that the schema does not allow.
type sdkAgent struct {
	acp.Agent // what a test does not need is not there
	conn      *acp.AgentSideConnection
	prompt    func(ctx context.Context, a *sdkAgent, p acp.PromptRequest) (acp.PromptResponse, error)

	client    acp.InitializeRequest
	session   acp.NewSessionRequest
	mode      string
	cancelled chan struct{}
}

func (a *sdkAgent) Initialize(_ context.Context, p acp.InitializeRequest) (acp.InitializeResponse, error) {
	a.client = p
	return acp.InitializeResponse{
		ProtocolVersion:   acp.ProtocolVersionNumber,
		AgentInfo:         &acp.Implementation{Name: "sdk", Version: "0.13.0"},
		AgentCapabilities: acp.AgentCapabilities{McpCapabilities: acp.McpCapabilities{Http: true}},
	}, nil
}

func (a *sdkAgent) NewSession(_ context.Context, p acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	a.session = p
	return acp.NewSessionResponse{SessionId: "s-1", Modes: &acp.SessionModeState{
		CurrentModeId: "free", AvailableModes: []acp.SessionMode{{Id: "free", Name: "Free"}, {Id: "asking", Name: "Asking"}},
	}}, nil
}

func (a *sdkAgent) SetSessionMode(_ context.Context, p acp.SetSessionModeRequest) (acp.SetSessionModeResponse, error) {
	a.mode = string(p.ModeId)
	return acp.SetSessionModeResponse{}, nil
}

func (a *sdkAgent) Prompt(ctx context.Context, p acp.PromptRequest) (acp.PromptResponse, error) {
	return a.prompt(ctx, a, p)
}

func (a *sdkAgent) Cancel(context.Context, acp.CancelNotification) error {
	close(a.cancelled)
	return nil
}

func (a *sdkAgent) tell(ctx context.Context, updates ...acp.SessionUpdate) error {
	var err error
	for _, u := range updates {
		err = errors.Join(err, a.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: "s-1", Update: u}))
	}
	return err
}

// driveSDK drives the agent in this process, over pipes.
func driveSDK(t *testing.T, p *place, settings string, a *sdkAgent) (harness.Outcome, []trace.Event) {
	t.Helper()
	a.cancelled = make(chan struct{})
	return p.play(t, t.Context(), build(t, "acp", settings), func(ctx context.Context, c executor.Command) (executor.Exit, error) {
		out, w := io.Pipe()
		copied := make(chan struct{})
		go func() { io.Copy(c.Stdout, out); close(copied) }()
		in, feed := io.Pipe()
		a.conn = acp.NewAgentSideConnection(a, w, in)
		a.conn.SetLogger(slog.New(slog.DiscardHandler))
		go func() { io.Copy(feed, c.Stdin); feed.Close() }()
		var ex executor.Exit
		select {
		case <-a.conn.Done():
		case <-ctx.Done():
			ex = executor.Exit{Code: -1, Signal: "SIGTERM", Cancelled: true}
		}
		w.Close()
		<-copied
		return ex, nil
	})
}

func TestACPAgainstTheSDK(t *testing.T) {
	t.Parallel()
	p := acpPlace(t, "")
	p.Extras.MCP = []harness.MCPServer{{Name: "db", Argv: []string{"/bin/db", "-x"}, Env: []string{"A=1"}}, {Name: "web", URL: "http://127.0.0.1:9/mcp"}}
	a := &sdkAgent{prompt: func(ctx context.Context, a *sdkAgent, p acp.PromptRequest) (acp.PromptResponse, error) {
		read, err := a.conn.ReadTextFile(ctx, acp.ReadTextFileRequest{SessionId: "s-1", Path: "/cell/work/calc.py"})
		if err != nil {
			return acp.PromptResponse{}, err
		}
		err = a.tell(ctx, acp.UpdateAgentThoughtText("hm"), acp.UpdateAgentMessageText("I "), acp.UpdateAgentMessageText("edit."),
			acp.UpdatePlan(acp.PlanEntry{Content: "edit", Priority: acp.PlanEntryPriorityHigh, Status: acp.PlanEntryStatusInProgress}),
			acp.StartToolCall("c-1", "Edit calc.py", acp.WithStartKind(acp.ToolKindEdit), acp.WithStartStatus(acp.ToolCallStatusPending)))
		if err != nil {
			return acp.PromptResponse{}, err
		}
		answer, err := a.conn.RequestPermission(ctx, acp.RequestPermissionRequest{SessionId: "s-1",
			ToolCall: acp.ToolCallUpdate{ToolCallId: "c-1", RawInput: map[string]any{"path": "calc.py"}},
			Options: []acp.PermissionOption{
				{OptionId: "no", Name: "No", Kind: acp.PermissionOptionKindRejectOnce}, {OptionId: "yes", Name: "Yes", Kind: acp.PermissionOptionKindAllowOnce},
			}})
		if err != nil || answer.Outcome.Selected == nil || answer.Outcome.Selected.OptionId != "yes" {
			return acp.PromptResponse{}, errors.Join(err, errors.New("not allowed"))
		}
		if _, err := a.conn.WriteTextFile(ctx, acp.WriteTextFileRequest{SessionId: "s-1", Path: "/cell/work/calc.py", Content: read.Content + "# done\n"}); err != nil {
			return acp.PromptResponse{}, err
		}
		if _, err := a.conn.ReadTextFile(ctx, acp.ReadTextFileRequest{SessionId: "s-1", Path: "/etc/hostname"}); err == nil {
			return acp.PromptResponse{}, errors.New("a file outside was given")
		}
		if _, err := a.conn.CreateTerminal(ctx, acp.CreateTerminalRequest{SessionId: "s-1", Command: "ls"}); err == nil {
			return acp.PromptResponse{}, errors.New("a terminal was given")
		}
		err = a.tell(ctx, acp.UpdateToolCall("c-1", acp.WithUpdateStatus(acp.ToolCallStatusCompleted), acp.WithUpdateRawOutput(map[string]any{"output": "edited"}),
			acp.WithUpdateContent([]acp.ToolCallContent{acp.ToolDiffContent("/cell/work/calc.py", "new", "old")})))
		if err != nil {
			return acp.PromptResponse{}, err
		}
		form := acp.NewUnstableCreateElicitationRequestForm(acp.UnstableElicitationSchema{Properties: map[string]any{
			"db": map[string]any{"type": "string", "title": "Database", "oneOf": []any{map[string]any{"const": "pg", "title": "Postgres"}}},
		}})
		form.Form.Message = "Which database?"
		filled, err := a.conn.UnstableCreateElicitation(ctx, form)
		if err != nil || filled.Accept == nil || filled.Accept.Content["db"] != "pg" {
			return acp.PromptResponse{}, errors.Join(err, errors.New("the form came back otherwise"))
		}
		err = a.tell(ctx, acp.UpdateAgentMessageText("Done."))
		return acp.PromptResponse{StopReason: acp.StopReasonEndTurn, Usage: &acp.Usage{InputTokens: 10, OutputTokens: 3, CachedReadTokens: acp.Ptr(2), TotalTokens: 15}}, err
	}}
	o, events := driveSDK(t, p, "{argv: [agent], mode: asking}", a)
	if o.Stop != trace.StopEndTurn || o.FinalText != "Done." || o.Version != "0.13.0" || usageLine(o.Usage) != "10/2/-/3" || a.mode != "asking" {
		t.Errorf("%s %s: %s; %q, version %s, usage %s, mode %s", o.Stop, o.Class, o.Detail, o.FinalText, o.Version, usageLine(o.Usage), a.mode)
	}
	file, err := p.Exec.Files().Open("calc.py")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if text, err := io.ReadAll(file); err != nil || string(text) != "def add(a, b):\n    return a - b\n# done\n" {
		t.Errorf("calc.py holds %q, %v", text, err)
	}
	var got []trace.Kind
	for _, e := range events {
		if e.Kind != trace.KindOther {
			got = append(got, e.Kind)
		}
	}
	want := []trace.Kind{"session_start", "user_message", "file_io", "thinking", "assistant_text", "plan", "tool_call", "permission_request", "permission_response",
		"file_io", "tool_result", "question", "answer", "assistant_text", "usage", "stop"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	r := results(events)[0]
	if r.Output != "edited" || r.Diff != "--- calc.py\n+++ calc.py\n-old\n+new\n" || !slices.Equal(r.Paths, []string{"calc.py"}) || r.Title != "Edit calc.py" {
		t.Errorf("%+v", r)
	}
	if s := a.session; s.Cwd != "/cell/work" || len(s.McpServers) != 2 || s.McpServers[0].Stdio == nil || s.McpServers[0].Stdio.Command != "/bin/db" || s.McpServers[1].Http == nil {
		t.Errorf("%+v", s)
	}
	if c := a.client; c.ProtocolVersion != 1 || !c.ClientCapabilities.Fs.ReadTextFile || !c.ClientCapabilities.Fs.WriteTextFile || c.ClientCapabilities.Terminal || c.ClientInfo == nil {
		t.Errorf("%+v", c)
	}
}

func TestACPCancelsTheSDK(t *testing.T) {
	t.Parallel()
	p := acpPlace(t, "")
	p.Limits.Timeout = 50 * time.Millisecond
	o, _ := driveSDK(t, p, anyAgent, &sdkAgent{prompt: func(ctx context.Context, a *sdkAgent, _ acp.PromptRequest) (acp.PromptResponse, error) {
		<-a.cancelled
		return acp.PromptResponse{StopReason: acp.StopReasonCancelled}, nil
	}})
	if o.Stop != trace.StopTimeout || o.Signal != "" {
		t.Errorf("%s: %s, %s", o.Stop, o.Detail, o.Signal)
	}
}

func TestACPFailsWithTheSDK(t *testing.T) {
	t.Parallel()
	o, _ := driveSDK(t, acpPlace(t, ""), anyAgent, &sdkAgent{prompt: func(context.Context, *sdkAgent, acp.PromptRequest) (acp.PromptResponse, error) {
		return acp.PromptResponse{}, acp.NewInternalError(map[string]any{"message": "unexpected status 503 Service Unavailable"})
	}})
	if o.Stop != trace.StopError || o.Class != trace.ClassModelAPI {
		t.Errorf("%s %s: %s", o.Stop, o.Class, o.Detail)
	}
}
