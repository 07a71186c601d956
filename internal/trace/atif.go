package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// ATIF is the version of the Agent Trajectory Interchange Format, Harbor's, that [WriteATIF] writes. [ReadATIF] reads all
// versions 1.
const ATIF = "ATIF-v1.8"

// maxATIF is the size in bytes of the largest document that ReadATIF reads.
const maxATIF = 2 * maxTrace

// An atifDocument is one trajectory. The format keeps what was said, which tools were called and what came back. It has no
// place for exit codes, statuses, durations, diffs, permissions, questions, plans, retries, errors and the end; those stand
// in the extra objects that it has at every level, below the key assay.
type atifDocument struct {
	Schema    string         `json:"schema_version"`
	Session   string         `json:"session_id,omitempty"`
	ID        string         `json:"trajectory_id,omitempty"` // of a sub-agent: the tool call that started it
	Agent     atifAgent      `json:"agent"`
	Steps     []*atifStep    `json:"steps"`
	Totals    *atifTotals    `json:"final_metrics,omitempty"`
	Subagents []atifDocument `json:"subagent_trajectories,omitempty"`
	Extra     *atifExtra     `json:"extra,omitempty"`
}

type atifAgent struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Model   string `json:"model_name,omitempty"`
}

// An atifStep is one message of the user or the system, or one answer of the model with the calls it made and their results.
type atifStep struct {
	ID          int              `json:"step_id"` // from 1, without a gap
	Timestamp   string           `json:"timestamp,omitempty"`
	Source      string           `json:"source"`
	Message     atifText         `json:"message"`
	Reasoning   string           `json:"reasoning_content,omitempty"`
	Calls       []atifCall       `json:"tool_calls,omitempty"`
	Observation *atifObservation `json:"observation,omitempty"`
	Metrics     *atifMetrics     `json:"metrics,omitempty"`
	Extra       *atifExtra       `json:"extra,omitempty"`
}

// The sources of a step.
const (
	atifUser   = "user"
	atifModel  = "agent"
	atifSystem = "system"
)

type atifCall struct {
	ID        string          `json:"tool_call_id"`
	Name      string          `json:"function_name"`
	Arguments json.RawMessage `json:"arguments"` // an object
	Extra     *atifExtra      `json:"extra,omitempty"`
}

type atifObservation struct {
	Results []atifResult `json:"results"`
}

type atifResult struct {
	Call      *string    `json:"source_call_id,omitempty"` // of the same step
	Content   *atifText  `json:"content,omitempty"`
	Subagents []atifRef  `json:"subagent_trajectory_ref,omitempty"`
	Extra     *atifExtra `json:"extra,omitempty"`
}

type atifRef struct {
	ID string `json:"trajectory_id,omitempty"`
}

// atifMetrics count the tokens of a step. Prompt includes Cached.
type atifMetrics struct {
	Prompt     *int64     `json:"prompt_tokens,omitempty"`
	Completion *int64     `json:"completion_tokens,omitempty"`
	Cached     *int64     `json:"cached_tokens,omitempty"`
	CostUSD    *float64   `json:"cost_usd,omitempty"`
	Extra      *atifExtra `json:"extra,omitempty"`
}

type atifTotals struct {
	Prompt     *int64   `json:"total_prompt_tokens,omitempty"`
	Completion *int64   `json:"total_completion_tokens,omitempty"`
	Cached     *int64   `json:"total_cached_tokens,omitempty"`
	CostUSD    *float64 `json:"total_cost_usd,omitempty"`
	Steps      int      `json:"total_steps"`
}

type atifExtra struct {
	Assay *atifRest `json:"assay,omitempty"`
}

// An atifRest is what the format has no place for: events whose text, input or output stands in the format's own fields,
// and whole events.
type atifRest struct {
	Said    *Event  `json:"said,omitempty"`    // of the message
	Thought *Event  `json:"thought,omitempty"` // of the reasoning
	Tool    *Event  `json:"tool,omitempty"`    // of a call or a result
	Session *Event  `json:"session,omitempty"` // of a document
	Events  []Event `json:"events,omitempty"`  // whole
}

// An atifText is a text, or parts of which some are text.
type atifText string

// UnmarshalJSON joins the parts that are text and names the others.
func (t *atifText) UnmarshalJSON(b []byte) error {
	if !bytes.HasPrefix(b, []byte("[")) {
		return json.Unmarshal(b, (*string)(t))
	}
	var parts []struct {
		Type, Text string
		Source     struct{ Path string }
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	var lines []string
	for _, p := range parts {
		if p.Type == "text" {
			lines = append(lines, p.Text)
		} else {
			lines = append(lines, fmt.Sprintf("[%s %s]", p.Type, p.Source.Path))
		}
	}
	*t = atifText(strings.Join(lines, "\n"))
	return nil
}

// check refuses what the format does not allow and what events cannot be told from.
func (d *atifDocument) check() error {
	if !strings.HasPrefix(d.Schema, "ATIF-v1.") {
		return fmt.Errorf("schema_version is %q, want %s or another version 1", Shorten(d.Schema, 40), ATIF)
	}
	for i, s := range d.Steps {
		if s == nil || s.ID != i+1 {
			return fmt.Errorf("steps[%d]: step_id must be %d: they go up by one from 1", i, i+1)
		}
		if s.Source != atifUser && s.Source != atifModel && s.Source != atifSystem {
			return fmt.Errorf("step %d: source is %q, want user, agent or system", s.ID, Shorten(s.Source, 40))
		}
		if err := s.checkResults(); err != nil {
			return fmt.Errorf("step %d: %w", s.ID, err)
		}
	}
	ids := map[string]bool{"": true}
	for i := range d.Subagents {
		if ids[d.Subagents[i].ID] {
			return fmt.Errorf("subagent_trajectories[%d] has no trajectory_id of its own", i)
		}
		ids[d.Subagents[i].ID] = true
		if err := d.Subagents[i].check(); err != nil {
			return fmt.Errorf("sub-agent %q: %w", Shorten(d.Subagents[i].ID, 80), err)
		}
	}
	return nil
}

func (s *atifStep) checkResults() error {
	if s.Observation == nil {
		return nil
	}
	calls := map[string]bool{}
	for _, c := range s.Calls {
		calls[c.ID] = true
	}
	for _, r := range s.Observation.Results {
		if r.Call != nil && !calls[*r.Call] {
			return fmt.Errorf("a result names the call %q, which is not one of its step", Shorten(*r.Call, 80))
		}
	}
	return nil
}

// readDocument reads one document and nothing behind it.
func readDocument(r io.Reader) (*atifDocument, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxATIF+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read ATIF: %w", err)
	case len(text) > maxATIF:
		return nil, fmt.Errorf("read ATIF: the document has more than %d MiB", maxATIF>>20)
	}
	d := &atifDocument{}
	text = bytes.ToValidUTF8(text, []byte("\uFFFD"))
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("read ATIF%s: %w", placeOf(text, err), err)
	}
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("read ATIF: %w", err)
	}
	return d, nil
}

// placeOf is where in the text an error of JSON lies, as it stands behind a subject; empty when the error does not tell.
func placeOf(text []byte, err error) string {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	var at int64
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &wrong):
		at = wrong.Offset
	default:
		return ""
	}
	before := text[:min(max(at-1, 0), int64(len(text)))]
	return fmt.Sprintf(", line %d, column %d", 1+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n'))
}

// metricsOf are the numbers of a usage as the format counts them; what was not measured is absent.
func metricsOf(u Usage) atifMetrics {
	m := atifMetrics{Completion: u.Output, Cached: u.CacheRead, CostUSD: u.CostUSD}
	if u.Input != nil && u.CacheRead != nil {
		prompt := *u.Input + *u.CacheRead
		if u.CacheWrite != nil { // some providers have no such count
			prompt += *u.CacheWrite
		}
		m.Prompt = &prompt
	}
	return m
}

// usageOf is the way back. Tokens that came from no cache are known only where the cached ones are told, too.
func usageOf(prompt, cached, completion *int64, cost *float64, scope string) *Usage {
	u := &Usage{CacheRead: natural(cached), Output: natural(completion), CostUSD: cost, Scope: scope, Source: "agent"}
	if cost != nil && *cost < 0 {
		u.CostUSD = nil
	}
	if p, c := natural(prompt), u.CacheRead; p != nil && c != nil && *p >= *c {
		input := *p - *c
		u.Input = &input
	}
	return u
}

func natural(n *int64) *int64 {
	if n == nil || *n < 0 {
		return nil
	}
	return n
}

// atifTime is the form of a timestamp: no finer than all readers take.
const atifTime = "2006-01-02T15:04:05.000000Z07:00"

// readTime reads a timestamp with or without a zone; ok is false for what is none.
func readTime(text string) (at time.Time, ok bool) {
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999"} {
		if at, err := time.Parse(form, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// errNoEvents is the error of a trace without an event: the format has no empty trajectory.
var errNoEvents = errors.New("write ATIF: the trace has no event")
