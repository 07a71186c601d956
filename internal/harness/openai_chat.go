package harness

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/assay-ci/assay/internal/trace"
)

type chatRequest struct {
	Model         string          `json:"model"`
	Messages      []chatTurn      `json:"messages"`
	Tools         json.RawMessage `json:"tools"`
	Temperature   *float64        `json:"temperature,omitempty"`
	Seed          *int64          `json:"seed,omitempty"`
	MaxTokens     *int64          `json:"max_completion_tokens,omitempty"`
	Stream        bool            `json:"stream"`
	StreamOptions map[string]bool `json:"stream_options"`
}

// A chatTurn is one message of the conversation as it is sent.
type chatTurn struct {
	Role    string     `json:"role"`
	Content *string    `json:"content"`
	Calls   []chatCall `json:"tool_calls,omitempty"`
	CallID  string     `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// A chatAnswer is one answer of a model, its pieces put together.
type chatAnswer struct {
	model, text, thinking, refusal string
	calls                          []chatCall
	finish                         string
	usage                          *chatUsage
}

type chatUsage struct {
	Prompt  *int64 `json:"prompt_tokens"` // cached ones included
	Output  *int64 `json:"completion_tokens"`
	Details struct {
		Cached *int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	OutputDetails struct {
		Reasoning *int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// neutral is the usage of one answer; nothing is known when the provider told nothing.
func (u *chatUsage) neutral() trace.Usage {
	out := trace.Usage{Scope: "step"}
	if u != nil {
		out.Input, out.CacheRead, out.Output, out.Reasoning = u.Prompt, u.Details.Cached, u.Output, u.OutputDetails.Reasoning
		if u.Prompt != nil && u.Details.Cached != nil {
			fresh := *u.Prompt - *u.Details.Cached
			out.Input = &fresh
		}
	}
	return claimed(out)
}

// A chatPiece is a chunk of a streamed answer, or an answer that came whole.
type chatPiece struct {
	Model   string `json:"model"`
	Choices []struct {
		Index        int         `json:"index"`
		Delta        chatMessage `json:"delta"`
		Message      chatMessage `json:"message"`
		FinishReason string      `json:"finish_reason"`
	} `json:"choices"`
	Usage *chatUsage `json:"usage"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

type chatMessage struct {
	Content   string `json:"content"`
	Reasoning string `json:"reasoning_content"`
	Refusal   string `json:"refusal"`
	Calls     []struct {
		Index    *int         `json:"index"`
		ID       string       `json:"id"`
		Function chatFunction `json:"function"`
	} `json:"tool_calls"`
}

const (
	maxAnswer = 64 << 20 // bytes of one answer with all that is around it
	maxCalls  = 128      // of tools in one answer
)

// readChatAnswer reads an answer, streamed or whole. One that ends before the model said why is an error.
func readChatAnswer(r io.Reader) (chatAnswer, error) {
	in := &io.LimitedReader{R: r, N: maxAnswer + 1}
	b := &chatBuilder{}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxAnswer)
	var whole bytes.Buffer // the lines that are no events
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if data = bytes.TrimSpace(data); !ok {
			whole.Write(lines.Bytes())
		} else if string(data) == "[DONE]" {
			break
		} else if err := b.add(data); err != nil {
			return chatAnswer{}, err
		}
	}
	switch err := lines.Err(); {
	case in.N == 0:
		return chatAnswer{}, fmt.Errorf("an answer of more than %d bytes", maxAnswer)
	case err != nil:
		return chatAnswer{}, fmt.Errorf("the answer broke off: %w", err)
	}
	if bytes.HasPrefix(bytes.TrimSpace(whole.Bytes()), []byte("{")) {
		if err := b.add(whole.Bytes()); err != nil {
			return chatAnswer{}, err
		}
	}
	return b.answer()
}

// chatBuilder puts the pieces of an answer together.
type chatBuilder struct {
	out                     chatAnswer
	text, thinking, refusal strings.Builder
	arguments               []*strings.Builder // of out.calls
	at                      map[int]int        // where in out.calls the call of an index is
}

func (b *chatBuilder) add(data []byte) error {
	var p chatPiece
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("the answer is not that of a chat: %w", err)
	}
	if p.Error != nil {
		return fmt.Errorf("the model failed within its answer: %s", p.Error.Message)
	}
	b.out.model = or(p.Model, b.out.model)
	if p.Usage != nil {
		b.out.usage = p.Usage
	}
	for _, c := range p.Choices {
		if c.Index != 0 {
			continue // only one was asked for
		}
		b.out.finish = or(c.FinishReason, b.out.finish)
		for _, m := range []chatMessage{c.Delta, c.Message} {
			b.text.WriteString(m.Content)
			b.thinking.WriteString(m.Reasoning)
			b.refusal.WriteString(m.Refusal)
			for _, call := range m.Calls {
				if err := b.call(call.Index, call.ID, call.Function); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// call adds a piece of a tool call. A piece without an index belongs to the last call, unless it has an id of its own.
func (b *chatBuilder) call(index *int, id string, f chatFunction) error {
	last := len(b.out.calls) - 1
	at, known := last, last >= 0 && (id == "" || id == b.out.calls[last].ID)
	if index != nil {
		at, known = b.at[*index]
	}
	if !known {
		if at = last + 1; at == maxCalls {
			return fmt.Errorf("more than %d tool calls in one answer", maxCalls)
		}
		b.out.calls, b.arguments = append(b.out.calls, chatCall{ID: id}), append(b.arguments, &strings.Builder{})
		if b.at == nil {
			b.at = map[int]int{}
		}
		if index != nil {
			b.at[*index] = at
		}
	}
	call := &b.out.calls[at]
	call.Function.Name = or(call.Function.Name, f.Name)
	b.arguments[at].WriteString(f.Arguments)
	return nil
}

func (b *chatBuilder) answer() (chatAnswer, error) {
	if b.out.finish == "" {
		return chatAnswer{}, errors.New("the answer ended before the model had finished")
	}
	b.out.text, b.out.thinking, b.out.refusal = b.text.String(), b.thinking.String(), b.refusal.String()
	for i, a := range b.arguments {
		b.out.calls[i].Function.Arguments = a.String()
	}
	return b.out, nil
}
