package trace

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"time"
)

// ReadATIF reads an ATIF document as the events of a trace, numbered from 1. Of a document that [WriteATIF] wrote they are
// those that went in, but for what it says. Of another one they are the session, the messages, the reasoning, the calls,
// the results and the usage, in the order of the steps; whether a call succeeded is not known, and a document that does not
// say how the agent ended has no stop. Pictures and sounds become their paths; token ids, probabilities, definitions of
// tools and what stands in foreign extra objects are left out.
func ReadATIF(r io.Reader) ([]Event, error) {
	d, err := readDocument(r)
	if err != nil {
		return nil, err
	}
	x := &atifReader{}
	x.session(d)
	x.document(d, "")
	return x.trace(), nil
}

// An atifReader collects events.
type atifReader struct {
	events []Event
	start  time.Time // of the first step that tells the time
	last   time.Duration
	ours   bool // we wrote the document
}

func (x *atifReader) add(e Event) { x.events = append(x.events, e) }

// session is how every trace begins.
func (x *atifReader) session(d *atifDocument) {
	if rest := d.Extra.rest(); rest != nil {
		x.ours = true
		if rest.Session != nil {
			x.add(as(rest.Session, KindSessionStart))
		}
		return
	}
	x.add(Event{Kind: KindSessionStart, Session: &Session{Harness: "atif", Agent: d.Agent.Name, Version: d.Agent.Version, ModelReported: d.Agent.Model}})
}

// document adds what one trajectory tells. What a sub-agent did follows the step that called it, else it comes last.
func (x *atifReader) document(d *atifDocument, parent string) {
	subagents := map[string]*atifDocument{}
	for i := range d.Subagents {
		subagents[d.Subagents[i].ID] = &d.Subagents[i]
	}
	for _, s := range d.Steps {
		x.step(s, parent)
		for _, r := range s.results() {
			for _, ref := range r.Subagents {
				if sub := subagents[ref.ID]; sub != nil && r.Call != nil {
					delete(subagents, ref.ID)
					x.document(sub, *r.Call)
				}
			}
		}
	}
	for i := range d.Subagents {
		if sub := subagents[d.Subagents[i].ID]; sub != nil {
			delete(subagents, sub.ID)
			x.document(sub, sub.ID)
		}
	}
	if t := d.Totals; t != nil && !x.ours && parent == "" {
		if u := usageOf(t.Prompt, t.Cached, t.Completion, t.CostUSD, "session"); u.tells() {
			x.add(Event{Kind: KindUsage, At: x.last, Usage: u})
		}
	}
}

// step adds what one step tells.
func (x *atifReader) step(s *atifStep, parent string) {
	from := len(x.events)
	rest := cmp.Or(s.Extra.rest(), &atifRest{})
	if rest.Thought != nil || s.Reasoning != "" {
		e := as(rest.Thought, KindThinking)
		e.Text = s.Reasoning
		x.add(e)
	}
	if rest.Said != nil || s.Message != "" {
		e := s.said(rest.Said)
		e.Text = string(s.Message)
		x.add(e)
	}
	for _, c := range s.Calls {
		x.add(c.event())
	}
	for _, r := range s.results() {
		x.add(r.event())
	}
	if m := s.Metrics; m != nil {
		x.metrics(m)
	}
	at := x.at(s)
	for i := range x.events[from:] {
		if e := &x.events[from+i]; e.Seq == 0 {
			e.At, e.Parent = at, parent
		}
	}
	for _, e := range rest.Events {
		x.add(as(&e, e.Kind))
	}
}

// said is the event of a message. What a foreign system says was written by neither the model nor the user.
func (s *atifStep) said(rest *Event) Event {
	switch {
	case rest != nil && (rest.Kind == KindUserMessage || rest.Kind == KindAssistantText):
		return as(rest, rest.Kind)
	case s.Source == atifModel:
		return as(rest, KindAssistantText)
	}
	e := as(rest, KindUserMessage)
	e.Synthetic = s.Source == atifSystem
	return e
}

func (s *atifStep) results() []atifResult {
	if s.Observation == nil {
		return nil
	}
	return s.Observation.Results
}

func (c atifCall) event() Event {
	rest := c.Extra.toolRest()
	e := as(rest, KindToolCall)
	tool := e.tool()
	tool.ID, tool.Name = c.ID, c.Name
	if rest == nil {
		tool.Kind = KindOfTool(c.Name)
	}
	if rest == nil || isFilledObject(c.Arguments) { // else what it was stands in the rest
		tool.Input = c.Arguments
	}
	return e
}

func (r atifResult) event() Event {
	e := as(r.Extra.toolRest(), KindToolResult)
	tool := e.tool()
	if r.Call != nil {
		tool.ID = *r.Call
	}
	if r.Content != nil {
		tool.Output = string(*r.Content)
	}
	return e
}

func (x *atifReader) metrics(m *atifMetrics) {
	if rest := m.Extra.rest(); rest != nil && len(rest.Events) == 1 {
		x.add(as(&rest.Events[0], KindUsage))
		return
	}
	if u := usageOf(m.Prompt, m.Cached, m.Completion, m.CostUSD, "step"); u.tells() {
		x.add(Event{Kind: KindUsage, Usage: u})
	}
}

// tells tells whether a usage holds a number.
func (u *Usage) tells() bool {
	return u.Input != nil || u.CacheRead != nil || u.Output != nil || u.CostUSD != nil
}

// at is how long after the first step a step came; where that is not told, or goes back, the time of the step before.
func (x *atifReader) at(s *atifStep) time.Duration {
	at, ok := readTime(s.Timestamp)
	if ok && x.start.IsZero() {
		x.start = at
	}
	if ok {
		x.last = max(x.last, at.Sub(x.start))
	}
	return x.last
}

// trace puts the events into the order in which they came, where they tell it, and numbers them. A stop is the last.
func (x *atifReader) trace() []Event {
	if !slices.ContainsFunc(x.events, func(e Event) bool { return e.Seq <= 0 }) {
		slices.SortStableFunc(x.events, func(a, b Event) int { return cmp.Compare(a.Seq, b.Seq) })
	}
	var stop *Event
	events := x.events[:0]
	for _, e := range x.events {
		if e.Kind == KindStop {
			stop = &e
			continue
		}
		events = append(events, e)
	}
	if stop != nil {
		events = append(events, *stop)
	}
	for i := range events {
		events[i].Seq, events[i].Schema = i+1, 0
	}
	if len(events) > 0 {
		events[0].Schema = Schema
	}
	return events
}

// as is what is kept of an event, nil for nothing, as an event of a kind.
func as(rest *Event, kind Kind) Event {
	if rest == nil {
		return Event{Kind: kind}
	}
	e := *rest
	e.Kind = kind
	if !known(kind) {
		raw, err := json.Marshal(rest)
		if err == nil {
			e.Raw = raw
		}
		e.Kind = KindOther
	}
	return e
}

// tool is the tool of an event, its own and not shared with what it was made of.
func (e *Event) tool() *Tool {
	var own Tool
	if e.Tool != nil {
		own = *e.Tool
	}
	e.Tool = &own
	return e.Tool
}

func (x *atifExtra) rest() *atifRest {
	if x == nil {
		return nil
	}
	return x.Assay
}

func (x *atifExtra) toolRest() *Event {
	if rest := x.rest(); rest != nil {
		return rest.Tool
	}
	return nil
}
