package gateway

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/assay-ci/assay/internal/trace"
)

// A Prompt is what a lane of ours asks a model: one question, one answer in text, no tools.
type Prompt struct {
	Model       Model
	System      string
	User        string
	Temperature *float64 // nil: the model's own; some take no other
}

// maxAnswer is the most tokens of an answer to a lane of ours, where the dialect wants a number.
const maxAnswer = 8192

// A CallError is why a model gave no answer to a lane of ours.
type CallError struct {
	Fault trace.Fault
}

func (e *CallError) Error() string { return e.Fault.Detail }

// Complete asks a model for one of our own lanes, responder or judge. It neither counts as the agent's nor is stopped by the
// agent's limits; the lane has a Cap of its own, and the budget of the run holds. A model that did not answer, or not to
// the end, is a [CallError].
func (c *Cell) Complete(ctx context.Context, lane string, p Prompt) (string, error) {
	if !ours(lane) {
		return "", fmt.Errorf("ask a model: %q is no lane for it, responder and judge are", lane)
	}
	most := c.spec.Responder
	if lane == laneJudge {
		most = c.spec.Judge
	}
	m, err := c.g.endpoint(p.Model, most.CostUSD > 0 || c.g.opts.RunBudgetUSD > 0)
	if err != nil {
		return "", fmt.Errorf("ask a model for the %s: %w", lane, err)
	}
	rt, body := p.request()
	q, err := newRequest(rt, body)
	if err != nil {
		return "", fmt.Errorf("ask a model for the %s: %w", lane, err)
	}
	if p.Model.Dialect == Anthropic {
		q.header.Set("Anthropic-Version", "2023-06-01")
	}
	k, err := c.beginOurs(q, m, lane, most)
	if err != nil {
		return "", err
	}
	defer c.running.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	var to kept
	c.exchange(ctx, k, &to)
	return k.text(ctx, &to)
}

// beginOurs admits a call of a lane of ours.
func (c *Cell) beginOurs(q *request, m *endpoint, lane string, most Cap) (*call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	used := 0.0
	if s := c.sums[lane]; s != nil {
		used = s.cost.n
	}
	switch why := c.g.broke(); {
	case c.closed:
		return nil, fmt.Errorf("ask a model for the %s: the cell is closed", lane)
	case most.Calls > 0 && c.ordinals[lane] >= most.Calls:
		return nil, fmt.Errorf("ask a model for the %s: its limit of %d calls is reached", lane, most.Calls)
	case most.CostUSD > 0 && used >= most.CostUSD:
		return nil, fmt.Errorf("ask a model for the %s: its cost limit of $%.2f is reached", lane, most.CostUSD)
	case why != "":
		return nil, fmt.Errorf("ask a model for the %s: %s", lane, why)
	}
	c.running.Add(1)
	return c.start(q, m, lane), nil
}

// kept is a client that keeps an answer.
type kept struct {
	status  int
	body    bytes.Buffer
	aborted bool
}

func (a *kept) begin(status int, _ http.Header) { a.status = status }
func (a *kept) write(p []byte) error            { a.body.Write(p); return nil }
func (a *kept) abort()                          { a.aborted = true }

// text is the text of an answer that came to its natural end.
func (k *call) text(ctx context.Context, a *kept) (string, error) {
	refuse := func(class trace.Class, detail string) (string, error) {
		return "", &CallError{trace.Fault{Class: class, HTTP: k.status, Detail: detail}}
	}
	switch {
	case k.fault != nil:
		return "", &CallError{*k.fault}
	case ctx.Err() != nil:
		return "", ctx.Err()
	case a.aborted || k.cut:
		return refuse(trace.ClassModelAPI, "the answer of the model was cut")
	case a.status != http.StatusOK:
		return refuse(trace.ClassCassette, "the recording holds no such call")
	case k.meter.finish == finishRefusal:
		return refuse(trace.ClassModelRequest, "the model refused to answer")
	case k.meter.finish == finishMaxTokens:
		return refuse(trace.ClassModelRequest, "the answer of the model was cut at its token limit")
	}
	text := answerText(k.req.dialect, a.body.Bytes())
	if text == "" {
		return refuse(trace.ClassModelAPI, "the answer of the model has no text")
	}
	return text, nil
}

// request is the prompt in the dialect of its model.
func (p Prompt) request() (route, []byte) {
	type msg map[string]any
	body := msg{"model": p.Model.Name}
	temperature := body
	var path string
	user := []msg{{"role": "user", "content": p.User}}
	switch p.Model.Dialect {
	case Anthropic:
		path = "/v1/messages"
		body["messages"], body["max_tokens"] = user, maxAnswer
		if p.System != "" {
			body["system"] = p.System
		}
	case Chat:
		path = "/v1/chat/completions"
		if p.System != "" {
			user = append([]msg{{"role": "system", "content": p.System}}, user...)
		}
		body["messages"] = user
	case Responses:
		path = "/v1/responses"
		body["input"], body["store"] = user, false
		if p.System != "" {
			body["instructions"] = p.System
		}
	case Gemini:
		path = "/v1beta/models/" + p.Model.Name + ":generateContent"
		temperature = msg{}
		body = msg{"contents": []msg{{"role": "user", "parts": []msg{{"text": p.User}}}}, "generationConfig": temperature}
		if p.System != "" {
			body["systemInstruction"] = msg{"parts": []msg{{"text": p.System}}}
		}
	}
	if p.Temperature != nil {
		temperature["temperature"] = *p.Temperature
	}
	rt, ok := routeOf(path)
	if !ok {
		rt = route{dialect: p.Model.Dialect, path: path, model: p.Model.Name}
	}
	return rt, mustJSON(body)
}

// answerText is the text of an answer in one piece.
func answerText(d Dialect, doc []byte) string {
	type part struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Thought bool   `json:"thought"`
	}
	var f struct {
		Content []part `json:"content"` // anthropic
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
		Output []struct {
			Content []part `json:"content"`
		} `json:"output"`
		Candidates []struct {
			Content struct {
				Parts []part `json:"parts"`
			} `json:"content"`
		} `json:"candidates"`
	}
	if !decode(doc, &f) {
		return ""
	}
	parts := f.Content
	switch {
	case d == Chat && len(f.Choices) > 0:
		return f.Choices[0].Message.Content
	case d == Responses:
		for _, o := range f.Output {
			parts = append(parts, o.Content...)
		}
	case d == Gemini && len(f.Candidates) > 0:
		parts = f.Candidates[0].Content.Parts
	}
	var text strings.Builder
	for _, p := range parts {
		if !p.Thought && (p.Type == "" || p.Type == "text" || p.Type == "output_text") {
			text.WriteString(p.Text)
		}
	}
	return text.String()
}
