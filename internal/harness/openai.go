package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/responder"
	"github.com/assay-ci/assay/internal/trace"
)

// openai is an agent of our own: the plainest loop over Chat Completions that can do the work, for models that no CLI
// drives. It calls the model, does what the model asks for through the executor, and ends when an answer asks for nothing.
type openai struct {
	params   openaiParams
	settings Settings
	client   *http.Client
}

var (
	_ Harness = (*openai)(nil)
	_ Prober  = (*openai)(nil)
	_ Caller  = (*openai)(nil)
)

type openaiParams struct {
	upstream    `yaml:",inline"`
	Temperature *float64 `yaml:"temperature" doc:"sent with every request when set" rule:"min=0"`
	Seed        *int64   `yaml:"seed" doc:"sent with every request when set"`
	MaxTokens   *int64   `yaml:"max_tokens" doc:"tokens of one answer at most, sent as max_completion_tokens when set" rule:"min=1"`
}

// openaiAbout is the page of this kind.
var openaiAbout = About{
	Example: `{id: plain, type: openai, models: [gpt-5.5]}`,
	Runs: "Inside Assay: the model is called over Chat Completions with six tools (`bash`, `read`, `write`, `edit`, `grep`, " +
		"`list`), which are used through the executor and cannot leave the work folder by a file's name. It ends with the " +
		"first answer that calls no tool. Skills and instructions stand in its system prompt. The version of its texts is " +
		"recorded with every cell.",
	Records: "Messages, thoughts where the provider sends them, tool calls with their results and exit codes, permissions, and " +
		"the usage of each answer. `agent.log` holds the answers as they came.",
	Silent: []string{
		"It takes no MCP servers and puts no questions.",
		"It does not shorten its conversation: a task that needs more than the model's context ends in context_overflow.",
		"A call that a model writes into its text is text.",
	},
	Limits: modelLimits,
}

func buildOpenai(s Settings) (Harness, error) {
	var p openaiParams
	if err := s.Decode(&p); err != nil {
		return nil, err
	}
	if err := p.check(s); err != nil {
		return nil, err
	}
	return &openai{p, s, &http.Client{
		Transport:     &http.Transport{}, // no proxy of the host: the gateway is the way out
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Models implements Caller.
func (h *openai) Models(t Task) ([]gateway.Model, error) {
	return h.params.models(t, gateway.Chat, h.settings)
}

// Probe implements Prober. The agent is a part of Assay; its version is that of its texts.
func (h *openai) Probe(context.Context, func(string) (string, error), func(context.Context, []string) (string, error)) (string, error) {
	return openaiVersion, nil
}

// Drive implements Harness.
func (h *openai) Drive(ctx context.Context, t Task, emit func(trace.Event)) (Outcome, error) {
	if t.Limits.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, t.Limits.Timeout)
		defer stop()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &session{ctx: ctx, task: t, emitTo: emit, cancel: cancel, leave: cancel, watch: newWatch(idle, cancel)}
	defer s.watch.stop()
	if t.Gateway != nil {
		t.Gateway.OnActivity(s.watch.alive)
	}
	system, skills, err := systemPrompt(ctx, t)
	if err != nil && ctx.Err() == nil {
		return Outcome{}, err
	}
	opening(t, trace.Session{
		Harness: "openai", Agent: "assay", Version: openaiVersion, Env: envNames(t.Env), Tools: openaiToolNames(), Skills: skills,
	}, emit)
	l := &loop{
		openai: h, s: s, out: &output{log: t.Log, limit: t.Limits.MaxOutput, over: func() { cancel(errOutput) }},
		messages: []chatTurn{{Role: "system", Content: &system}, {Role: "user", Content: &t.Prompt}},
		ids:      map[string]bool{},
	}
	if err := l.run(ctx); err != nil {
		return Outcome{}, err
	}
	if _, err := l.out.state(); err != nil {
		return Outcome{}, err
	}
	if s.askFault != nil {
		return Outcome{Class: trace.ClassResponder}, s.askFault
	}
	late := errors.Is(context.Cause(ctx), context.DeadlineExceeded)
	o := conclude(ctx, t, executor.Exit{TimedOut: late, Cancelled: ctx.Err() != nil && !late}, l.told(), "")
	o.Exit = nil // it is no process
	o.Survivors, o.Swept = l.survivors, l.swept
	return closing(o, emit), nil
}

// loop is one run of the agent.
type loop struct {
	*openai
	s         *session
	out       *output // agent.log holds the answers of the model as they came
	messages  []chatTurn
	ids       map[string]bool // of tool calls
	account   account
	turns     int
	survivors []string
	swept     int
}

// run asks the model and does what it says until it is done or the context has ended. An error is ours.
func (l *loop) run(ctx context.Context) error {
	for l.account.Stop == "" && ctx.Err() == nil {
		if limit := l.s.task.Limits.MaxTurns; limit > 0 && l.turns == limit {
			l.account.Stop, l.account.Detail = trace.StopMaxTurns, fmt.Sprintf("turn limit of %d reached", limit)
			return nil
		}
		answer, fault := l.ask(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if fault != nil {
			l.s.emit(trace.Event{Kind: trace.KindError, Err: fault})
			l.account.Stop, l.account.Class, l.account.Detail = trace.StopError, fault.Class, printable(fault.Detail)
			return nil
		}
		l.heard(answer)
		if l.account.Stop != "" {
			return nil
		}
		for _, c := range answer.calls {
			if err := l.use(ctx, c); err != nil || ctx.Err() != nil {
				return err
			}
		}
	}
	return nil
}

func (l *loop) told() account {
	a := l.account
	if a.Answered = l.turns > 0; a.Answered {
		a.Turns = &l.turns
	}
	return a
}

// heard tells an answer, keeps it for the next request, and says whether it ends the loop.
func (l *loop) heard(a chatAnswer) {
	l.turns++
	l.account.Model = or(a.model, l.account.Model)
	if a.thinking != "" {
		l.s.emit(trace.Event{Kind: trace.KindThinking, Text: a.thinking})
	}
	text := or(a.text, a.refusal)
	if text != "" {
		l.account.FinalText = text
		l.s.emit(trace.Event{Kind: trace.KindAssistantText, Text: text})
	}
	u := a.usage.neutral()
	l.s.emit(trace.Event{Kind: trace.KindUsage, Usage: &u})
	l.account.Usage = addUsage(l.account.Usage, u)
	switch {
	case a.finish == "content_filter" || a.refusal != "":
		l.account.Stop, l.account.Detail = trace.StopRefusal, "the model refused"
	case a.finish == "length":
		l.account.Stop, l.account.Detail = trace.StopMaxTokens, "the model's last answer was cut at its token limit"
	case len(a.calls) == 0:
		l.account.Stop = trace.StopEndTurn
	}
	turn := chatTurn{Role: "assistant", Content: &a.text}
	for i := range a.calls {
		c := &a.calls[i]
		for c.ID == "" || l.ids[c.ID] { // some servers give none, or the same one twice
			c.ID = fmt.Sprintf("call-%d", len(l.ids)+1) + c.ID
		}
		l.ids[c.ID] = true
		c.Type = "function"
		turn.Calls = append(turn.Calls, *c)
	}
	l.messages = append(l.messages, turn)
}

// use does one call of a tool and gives the model its result. A call that cannot be done is the model's to hear of.
func (l *loop) use(ctx context.Context, c chatCall) error {
	kind := openaiToolKind(c.Function.Name)
	input := json.RawMessage(c.Function.Arguments)
	if !json.Valid(input) {
		input = asJSON(c.Function.Arguments)
	}
	l.s.emit(trace.Event{Kind: trace.KindToolCall, Tool: &trace.Tool{
		ID: c.ID, Name: c.Function.Name, Kind: kind, Input: input, Paths: inputPaths(l.s.task.Work, input),
	}})
	r := trace.Tool{ID: c.ID, Name: c.Function.Name, Kind: kind, Status: trace.StatusOK}
	do, why := l.tool(c.Function.Name, c.Function.Arguments)
	switch {
	case why != "":
		fail(&r, "%s", why)
	case !l.allowed(c, kind, &r):
	default:
		if err := do(ctx, &r); err != nil {
			return fmt.Errorf("tool %s: %w", c.Function.Name, err)
		}
	}
	r.Output = shown(r.Output)
	l.s.emit(trace.Event{Kind: trace.KindToolResult, Tool: &r})
	l.messages = append(l.messages, chatTurn{Role: "tool", CallID: c.ID, Content: &r.Output})
	return nil
}

// allowed asks for leave to change files or run commands. Without it r says so.
func (l *loop) allowed(c chatCall, kind trace.ToolKind, r *trace.Tool) bool {
	if kind != trace.ToolEdit && kind != trace.ToolExecute {
		return true
	}
	var reply responder.Reply
	l.s.ask(trace.Ask{
		ID: "ask-" + c.ID, CallID: c.ID, Name: c.Function.Name, Kind: kind, Input: c.Function.Arguments,
		Options: []trace.Option{{ID: "allow", Name: "Allow", Kind: "allow_once"}, {ID: "reject", Name: "Reject", Kind: "reject_once"}},
	}, func(r responder.Reply) { reply = r })
	if reply.Outcome == responder.Allowed {
		return true
	}
	r.Status, r.Output = trace.StatusDenied, "This call was not allowed: "+or(reply.Reason, "denied")
	return false
}

// shown is a text of at most trace.MaxText bytes: what is longer loses its middle.
func shown(text string) string {
	if len(text) <= trace.MaxText {
		return text
	}
	x := trace.NewExcerpt()
	io.WriteString(x, text) // never fails
	return x.String()
}

const (
	chatTries  = 3                // requests for one answer
	chatPause  = time.Second      // before the second; doubled before each further one
	chatMaxGap = 30 * time.Second // that a provider may ask us to wait
)

// ask gets one answer of the model, trying again when the provider may do better. The fault is the last one.
func (l *loop) ask(ctx context.Context) (chatAnswer, *trace.Fault) {
	body := asJSON(chatRequest{
		Model: l.s.task.Model, Messages: l.messages, Tools: json.RawMessage(openaiTools),
		Temperature: l.params.Temperature, Seed: l.params.Seed, MaxTokens: l.params.MaxTokens,
		Stream: true, StreamOptions: map[string]bool{"include_usage": true},
	})
	for try := 1; ; try++ {
		answer, fault, wait := l.request(ctx, body)
		l.account.LastFault = fault
		if fault == nil || ctx.Err() != nil {
			return answer, nil
		}
		if !fault.Retryable || try == chatTries {
			return chatAnswer{}, fault
		}
		wait = min(max(wait, chatPause<<(try-1)), chatMaxGap)
		l.s.emit(trace.Event{Kind: trace.KindRetry, Err: fault, Text: fmt.Sprintf("try %d of %d failed, the next in %s", try, chatTries, wait)})
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// request asks once. wait is how long the provider wants to be left alone.
func (l *loop) request(ctx context.Context, body []byte) (answer chatAnswer, fault *trace.Fault, wait time.Duration) {
	address, key := l.params.address(l.s.task, gateway.Chat)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return answer, &trace.Fault{Class: trace.ClassHarnessConfig, Detail: err.Error()}, 0
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := l.client.Do(req)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err // without the address, which is this cell's alone
		}
		return answer, &trace.Fault{Class: trace.ClassModelAPI, Retryable: true, Detail: err.Error()}, 0
	}
	defer resp.Body.Close()
	raw := io.TeeReader(resp.Body, io.MultiWriter(l.out.stream(trace.NewTail(1)), signOfLife{l.s.watch}))
	if resp.StatusCode != http.StatusOK {
		seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		if err != nil {
			seconds = 0
		}
		return answer, refusedBy(resp.StatusCode, raw), time.Duration(min(max(seconds, 0), 3600)) * time.Second
	}
	answer, err = readChatAnswer(raw)
	if err != nil {
		return answer, &trace.Fault{Class: trace.ClassModelAPI, HTTP: resp.StatusCode, Retryable: true, Detail: err.Error()}, 0
	}
	return answer, nil, 0
}

// signOfLife tells the watch of every byte that comes from the model.
type signOfLife struct{ watch *watch }

func (w signOfLife) Write(p []byte) (int, error) {
	w.watch.alive()
	return len(p), nil
}

// refusedBy is the fault of an answer with an HTTP status that is none of success.
func refusedBy(status int, body io.Reader) *trace.Fault {
	text, err := io.ReadAll(io.LimitReader(body, 64<<10))
	if err != nil && len(text) == 0 {
		text = []byte(err.Error())
	}
	f := &trace.Fault{
		Class: classOfHTTP(status), HTTP: status, Retryable: status == http.StatusTooManyRequests || status >= 500,
		Detail: strings.ToValidUTF8(string(text), "\uFFFD"),
	}
	var said struct{ Error struct{ Message string } }
	if json.Unmarshal(text, &said) == nil && said.Error.Message != "" {
		f.Detail = said.Error.Message
	}
	f.Detail = fmt.Sprintf("HTTP %d: %s", status, f.Detail)
	if status < 500 && overflows(string(text)) {
		f.Class = trace.ClassContextOverflow
	}
	return f
}
