package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/assay-ci/assay/internal/trace"
)

// The ways in which an answer can end.
const (
	finishEnd       = "end"
	finishTool      = "tool"
	finishRefusal   = "refusal"
	finishMaxTokens = "max_tokens"
	finishOther     = "other"
)

// tokens are what one answer used, in the terms of trace.Usage; nil was not told.
type tokens struct {
	input, cacheRead, cacheWrite, output, reasoning *int64
	cacheWrite1h                                    *int64 // a part of cacheWrite
}

// usage is the tokens of one call and what they cost.
func (t tokens) usage(cost *float64) *trace.Usage {
	if t == (tokens{}) {
		return nil
	}
	return &trace.Usage{
		Input: t.input, CacheRead: t.cacheRead, CacheWrite: t.cacheWrite, Output: t.output, Reasoning: t.reasoning,
		CostUSD: cost, Scope: "step", Source: "gateway",
	}
}

// A meter reads what an answer says of itself: its tokens, how it ended, and an error in the middle of it.
type meter struct {
	dialect Dialect
	tokens  tokens
	finish  string // empty: not told yet
	ended   bool   // the answer said that it is whole
	tool    bool   // it calls a tool
	refused bool   // it holds a refusal in words
	fault   *trace.Fault
}

// document reads an answer that came in one piece. It reports whether it was JSON.
func (m *meter) document(body []byte) bool {
	body = bytes.TrimSpace(body)
	if m.dialect == Gemini && len(body) > 0 && body[0] == '[' { // a stream, as one array
		var list []json.RawMessage
		if json.Unmarshal(body, &list) != nil {
			return false
		}
		for _, doc := range list {
			m.read(doc)
		}
		return true
	}
	m.read(body)
	m.ended = m.ended || json.Valid(body)
	return m.ended
}

// event reads the data of one event of a stream.
func (m *meter) event(data []byte) {
	if m.dialect == Chat && string(data) == "[DONE]" {
		m.ended = true
		return
	}
	if !isDelta(data) {
		m.read(data)
	}
}

// isDelta tells, without decoding it, an event that only carries a piece of text. Most of a stream is made of them.
func isDelta(data []byte) bool {
	has := func(text string) bool { return bytes.Contains(data, []byte(text)) }
	switch {
	case bytes.HasPrefix(data, []byte(`{"type":"content_block_`)):
		return true
	case has(`"finish_reason":null`): // within a text, the quotes would be escaped
		return !has(`"prompt_tokens"`) && !has(`"error"`) && !has(`"refusal":"`) && !has(`"finish_reason":"`)
	}
	rest, ok := bytes.CutPrefix(data, []byte(`{"type":"response.`))
	name, _, _ := bytes.Cut(rest, []byte(`"`))
	return ok && bytes.HasSuffix(name, []byte(".delta"))
}

func (m *meter) read(doc []byte) {
	switch m.dialect {
	case Anthropic:
		m.anthropic(doc)
	case Chat:
		m.chat(doc)
	case Responses:
		m.responses(doc)
	case Gemini:
		m.gemini(doc)
	}
}

// stopped notes how the answer ended.
func (m *meter) stopped(finish string) {
	m.finish = finish
	switch {
	case m.refused && (finish == finishEnd || finish == finishOther):
		m.finish = finishRefusal
	case m.tool && finish == finishEnd:
		m.finish = finishTool
	}
}

func (m *meter) anthropic(doc []byte) {
	type usage struct {
		Input      count `json:"input_tokens"`
		CacheRead  count `json:"cache_read_input_tokens"`
		CacheWrite count `json:"cache_creation_input_tokens"`
		Output     count `json:"output_tokens"`
		Writes     struct {
			OneHour count `json:"ephemeral_1h_input_tokens"`
		} `json:"cache_creation"`
		Details struct {
			Thinking count `json:"thinking_tokens"`
		} `json:"output_tokens_details"`
	}
	var f struct {
		Type    string `json:"type"`
		Message struct {
			Usage usage `json:"usage"`
		} `json:"message"`
		Delta struct {
			StopReason string `json:"stop_reason"`
		} `json:"delta"`
		StopReason string   `json:"stop_reason"`
		Usage      usage    `json:"usage"`
		Error      apiError `json:"error"`
	}
	if !decode(doc, &f) {
		return
	}
	for _, u := range []usage{f.Message.Usage, f.Usage} { // later counts hold all that earlier ones did
		keep(&m.tokens.input, u.Input)
		keep(&m.tokens.cacheRead, u.CacheRead)
		keep(&m.tokens.cacheWrite, u.CacheWrite)
		keep(&m.tokens.cacheWrite1h, u.Writes.OneHour)
		keep(&m.tokens.output, u.Output)
		keep(&m.tokens.reasoning, u.Details.Thinking)
	}
	if reason := f.Delta.StopReason + f.StopReason; reason != "" {
		m.stopped(finishOf(reason))
	}
	if f.Type == "error" {
		m.fault = f.Error.fault(0)
	}
	m.ended = m.ended || f.Type == "message_stop"
}

// promptUsage takes apart a prompt that is counted with its cached tokens.
func (m *meter) promptUsage(prompt, read, written count) {
	keep(&m.tokens.cacheRead, read)
	keep(&m.tokens.cacheWrite, written)
	if prompt.n == nil {
		return
	}
	if fresh := *prompt.n - orZero(read.n) - orZero(written.n); fresh >= 0 {
		m.tokens.input = &fresh
	}
}

func (m *meter) chat(doc []byte) {
	var f struct {
		Choices []struct {
			Finish  string      `json:"finish_reason"`
			Delta   chatMessage `json:"delta"`
			Message chatMessage `json:"message"`
		} `json:"choices"`
		Usage struct {
			Prompt  count `json:"prompt_tokens"`
			Output  count `json:"completion_tokens"`
			Details struct {
				Cached  count `json:"cached_tokens"`
				Written count `json:"cache_write_tokens"`
			} `json:"prompt_tokens_details"`
			OutputDetails struct {
				Reasoning count `json:"reasoning_tokens"`
			} `json:"completion_tokens_details"`
		} `json:"usage"`
		Error *apiError `json:"error"`
	}
	if !decode(doc, &f) {
		return
	}
	m.promptUsage(f.Usage.Prompt, f.Usage.Details.Cached, f.Usage.Details.Written)
	keep(&m.tokens.output, f.Usage.Output)
	keep(&m.tokens.reasoning, f.Usage.OutputDetails.Reasoning)
	for _, c := range f.Choices {
		m.refused = m.refused || c.Delta.Refusal != "" || c.Message.Refusal != ""
		if c.Finish != "" {
			m.stopped(finishOf(c.Finish))
		}
	}
	if f.Error != nil {
		m.fault = f.Error.fault(0)
	}
}

type chatMessage struct {
	Refusal string `json:"refusal"`
}

func (m *meter) responses(doc []byte) {
	type response struct {
		Status     string `json:"status"`
		Incomplete struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
		Error  *apiError `json:"error"`
		Output []struct {
			Type    string `json:"type"`
			Content []struct {
				Type string `json:"type"`
			} `json:"content"`
		} `json:"output"`
		Usage struct {
			Prompt  count `json:"input_tokens"`
			Output  count `json:"output_tokens"`
			Details struct {
				Cached  count `json:"cached_tokens"`
				Written count `json:"cache_write_tokens"`
			} `json:"input_tokens_details"`
			OutputDetails struct {
				Reasoning count `json:"reasoning_tokens"`
			} `json:"output_tokens_details"`
		} `json:"usage"`
	}
	var f struct {
		Type     string    `json:"type"`
		Response *response `json:"response"`
		Error    *apiError `json:"error"` // of an event of type error, where it may also stand in the event itself
		Code     anything  `json:"code"`
		Message  string    `json:"message"`
	}
	if !decode(doc, &f) {
		return
	}
	var r response
	switch {
	case f.Response != nil:
		r = *f.Response
	case f.Type == "error" && f.Error != nil:
		m.fault = f.Error.fault(0)
		return
	case f.Type == "error":
		m.fault = (&apiError{Code: f.Code, Message: f.Message}).fault(0)
		return
	case !decode(doc, &r): // an answer in one piece
		return
	}
	m.promptUsage(r.Usage.Prompt, r.Usage.Details.Cached, r.Usage.Details.Written)
	keep(&m.tokens.output, r.Usage.Output)
	keep(&m.tokens.reasoning, r.Usage.OutputDetails.Reasoning)
	for _, item := range r.Output {
		m.tool = m.tool || strings.HasSuffix(item.Type, "_call")
		for _, part := range item.Content {
			m.refused = m.refused || part.Type == "refusal"
		}
	}
	switch r.Status {
	case "completed":
		m.stopped(finishEnd)
	case "incomplete":
		m.stopped(finishOf(r.Incomplete.Reason))
	case "failed":
		m.fault = (&apiError{Message: "the response failed"}).fault(0)
		if r.Error != nil {
			m.fault = r.Error.fault(0)
		}
	default:
		return
	}
	m.ended = true
}

func (m *meter) gemini(doc []byte) {
	var f struct {
		Candidates []struct {
			Finish  string `json:"finishReason"`
			Content struct {
				Parts []struct {
					Call json.RawMessage `json:"functionCall"`
				} `json:"parts"`
			} `json:"content"`
		} `json:"candidates"`
		Feedback struct {
			Block string `json:"blockReason"`
		} `json:"promptFeedback"`
		Usage *struct { // zeros are left out of it
			Prompt   count `json:"promptTokenCount"`
			ToolUse  count `json:"toolUsePromptTokenCount"`
			Cached   count `json:"cachedContentTokenCount"`
			Output   count `json:"candidatesTokenCount"`
			Thoughts count `json:"thoughtsTokenCount"`
		} `json:"usageMetadata"`
		Error *apiError `json:"error"`
	}
	if !decode(doc, &f) {
		return
	}
	if u := f.Usage; u != nil && u.Prompt.n != nil {
		prompt, cached := *u.Prompt.n+orZero(u.ToolUse.n), orZero(u.Cached.n)
		output, thoughts := orZero(u.Output.n)+orZero(u.Thoughts.n), orZero(u.Thoughts.n)
		m.promptUsage(count{&prompt}, count{&cached}, count{})
		m.tokens.output, m.tokens.reasoning = &output, &thoughts
	}
	for _, c := range f.Candidates {
		for _, p := range c.Content.Parts {
			m.tool = m.tool || len(p.Call) > 0
		}
		if c.Finish != "" {
			m.stopped(finishOf(c.Finish))
		}
	}
	if f.Feedback.Block != "" {
		m.stopped(finishRefusal)
	}
	if f.Error != nil {
		m.fault = f.Error.fault(0)
	}
}

// finishOf puts the reason that a provider gave into one of our words.
func finishOf(reason string) string {
	switch reason {
	case "end_turn", "stop_sequence", "stop", "STOP":
		return finishEnd
	case "tool_use", "tool_calls", "function_call":
		return finishTool
	case "refusal", "content_filter", "SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII":
		return finishRefusal
	case "max_tokens", "length", "max_output_tokens", "MAX_TOKENS":
		return finishMaxTokens
	}
	return finishOther
}

// An apiError is what providers say of an error; its members mean much the same in all dialects.
type apiError struct {
	ErrType string   `json:"type"`
	Code    anything `json:"code"`
	State   string   `json:"status"`
	Message string   `json:"message"`
}

// fault is the error as a fault, whose detail is as the provider wrote it until a call is settled: a secret that stands over
// line breaks, or would be cut in two, is found before it is folded and cut. status is that of HTTP; 0 when the error came in the middle of an answer.
func (e *apiError) fault(status int) *trace.Fault {
	said := strings.TrimSpace(e.Message)
	if said == "" {
		said = strings.TrimSpace(e.ErrType + " " + string(e.Code))
	}
	class := classOf(status, strings.ToLower(e.ErrType+" "+string(e.Code)+" "+e.State), strings.ToLower(e.Message))
	return &trace.Fault{
		Class: class, HTTP: status, Detail: said,
		Retryable: class == trace.ClassModelLimit || class == trace.ClassModelAPI,
	}
}

// faultOf is the fault that an answer with an error status tells of.
func faultOf(status int, body []byte) *trace.Fault {
	var f struct {
		Error apiError `json:"error"`
	}
	doc := bytes.TrimSpace(body)
	if len(doc) > 0 && doc[0] == '[' { // gemini streams an error as an array
		doc = bytes.TrimSpace(bytes.TrimSuffix(doc[1:], []byte("]")))
	}
	if !decode(doc, &f) || f.Error == (apiError{}) {
		f.Error.Message = string(bytes.ToValidUTF8(body, []byte("\uFFFD")))
	}
	fault := f.Error.fault(status)
	fault.Detail = strings.TrimSpace("the model's provider answered HTTP " + strconv.Itoa(status) + ": " + fault.Detail)
	return fault
}

// classOf says whose fault an error is, from its status, its codes and its message in lower case.
func classOf(status int, codes, message string) trace.Class {
	overflow := strings.Contains(codes, "context_length") || strings.Contains(message, "prompt is too long") ||
		strings.Contains(message, "context window") || strings.Contains(message, "context length") ||
		strings.Contains(message, "exceeds the maximum number of tokens")
	has := func(word string) bool { return strings.Contains(codes, word) }
	switch {
	case overflow && status < http.StatusInternalServerError && status != http.StatusTooManyRequests:
		return trace.ClassContextOverflow
	case status == 401, status == 403, status == 0 && (has("authentication") || has("permission")):
		return trace.ClassModelAuth
	case status == 429, status == 0 && (has("rate_limit") || has("exhausted")):
		return trace.ClassModelLimit
	case status >= 300 && status < 500, status == 0 && has("invalid"):
		return trace.ClassModelRequest
	}
	return trace.ClassModelAPI
}

// A count is a number of tokens. Whatever is not a whole number between 0 and 10¹² was not told.
type count struct{ n *int64 }

func (c *count) UnmarshalJSON(b []byte) error {
	if n, err := strconv.ParseInt(string(b), 10, 64); err == nil && n >= 0 && n <= 1e12 {
		c.n = &n
	}
	return nil
}

// anything is a JSON string, or another JSON value as it stands.
type anything string

func (a *anything) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) != nil {
		s = trace.Shorten(string(b), 100)
	}
	*a = anything(s)
	return nil
}

func keep(to **int64, c count) {
	if c.n != nil {
		*to = c.n
	}
}

// decode decodes what it can; a member of another type than expected stays empty.
func decode(doc []byte, into any) bool {
	err := json.Unmarshal(doc, into)
	var mismatch *json.UnmarshalTypeError
	return err == nil || errors.As(err, &mismatch)
}
