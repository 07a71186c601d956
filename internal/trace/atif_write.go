package trace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// About is what an ATIF document says of a cell that its trace does not.
type About struct {
	Session string    // names the cell
	Start   time.Time // of the harness; zero: steps have no timestamps
	Usage   *Usage    // official totals; nil: the last total that the trace tells
}

// WriteATIF writes a trace as one ATIF document, on one line. An answer of the model becomes a step with its calls and their
// results; what a sub-agent did becomes a trajectory of its own. [ReadATIF] makes the same events of it, but for this: Raw
// and RawLine are kept of [KindOther] only. A line of the trace that is no event becomes a KindOther.
func WriteATIF(w io.Writer, events iter.Seq2[Event, error], about About) error {
	x := atifWriter{about: about, byParent: map[string]*trajectory{}}
	root := x.trajectory("")
	for e, err := range events {
		var broken *LineError
		switch {
		case errors.As(err, &broken):
			e = Event{Kind: KindOther, Text: err.Error()}
		case err != nil:
			return fmt.Errorf("write ATIF: %w", err)
		}
		x.add(e)
	}
	if len(root.doc.Steps) == 0 {
		if x.session == nil && len(x.order) == 1 {
			return errNoEvents
		}
		root.step(atifSystem, Event{}) // the format wants one
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	if err := out.Encode(x.document()); err != nil {
		return fmt.Errorf("write ATIF: %w", err)
	}
	return nil
}

// An atifWriter sorts events into trajectories.
type atifWriter struct {
	about    About
	session  *Event
	usage    *Usage // the last total
	byParent map[string]*trajectory
	order    []*trajectory // as they began; the agent's own is the first
}

// A trajectory is a document in the making.
type trajectory struct {
	about About
	doc   atifDocument
	open  *atifStep            // answer of the model that goes on
	calls map[string]*atifStep // by the id of the call: the last step that made it
}

func (x *atifWriter) trajectory(parent string) *trajectory {
	t := x.byParent[parent]
	if t == nil {
		t = &trajectory{about: x.about, doc: atifDocument{Schema: ATIF, ID: parent}, calls: map[string]*atifStep{}}
		x.byParent[parent], x.order = t, append(x.order, t)
	}
	return t
}

func (x *atifWriter) add(e Event) {
	if e.Kind != KindOther {
		e.Raw, e.RawLine = nil, 0
	}
	if e.Kind == KindSessionStart && e.Session != nil && x.session == nil {
		x.session = &e
		return
	}
	if e.Kind == KindUsage && e.Usage != nil && e.Usage.Scope == "session" && e.Parent == "" {
		x.usage = e.Usage
	}
	x.trajectory(e.Parent).add(e)
}

func (t *trajectory) add(e Event) {
	text := e.Text
	switch {
	case (e.Kind == KindUserMessage || e.Kind == KindAssistantText) && e.Synthetic:
		e.Text = ""
		s := t.step(atifSystem, e)
		s.Message, s.rest().Said = atifText(text), &e
	case e.Kind == KindUserMessage:
		e.Text = ""
		s := t.step(atifUser, e)
		s.Message, s.rest().Said = atifText(text), &e
	case e.Kind == KindAssistantText:
		e.Text = ""
		s := t.answer(e, func(s *atifStep) bool { return s.rest().Said == nil && len(s.Calls) == 0 })
		s.Message, s.rest().Said = atifText(text), &e
	case e.Kind == KindThinking:
		e.Text = ""
		s := t.answer(e, func(s *atifStep) bool { return s.rest().Thought == nil && s.rest().Said == nil && len(s.Calls) == 0 })
		s.Reasoning, s.rest().Thought = text, &e
	case e.Kind == KindToolCall && e.Tool != nil:
		t.call(e)
	case e.Kind == KindToolResult && e.Tool != nil:
		t.result(e)
	case e.Kind == KindUsage && e.Usage != nil && e.Usage.Scope == "step" && t.open != nil && t.open.Metrics == nil:
		m := metricsOf(*e.Usage)
		m.Extra = &atifExtra{&atifRest{Events: []Event{e}}}
		t.open.Metrics = &m
	default:
		s := t.last(e)
		s.rest().Events = append(s.rest().Events, e)
	}
}

// step begins a step at the time of e.
func (t *trajectory) step(source string, e Event) *atifStep {
	s := &atifStep{ID: len(t.doc.Steps) + 1, Source: source}
	if !t.about.Start.IsZero() {
		s.Timestamp = t.about.Start.Add(e.At).UTC().Format(atifTime)
	}
	t.doc.Steps = append(t.doc.Steps, s)
	t.open = nil
	if source == atifModel {
		t.open = s
	}
	return s
}

// answer is the answer of the model that e belongs to: the one that goes on, as long as nothing came back from its calls
// and it has room for e.
func (t *trajectory) answer(e Event, room func(*atifStep) bool) *atifStep {
	if t.open != nil && t.open.Observation == nil && room(t.open) {
		return t.open
	}
	return t.step(atifModel, e)
}

// last is the step that an event without a place belongs to.
func (t *trajectory) last(e Event) *atifStep {
	if n := len(t.doc.Steps); n > 0 {
		return t.doc.Steps[n-1]
	}
	return t.step(atifSystem, e)
}

func (t *trajectory) call(e Event) {
	s := t.answer(e, func(*atifStep) bool { return true })
	tool := *e.Tool
	c := atifCall{ID: tool.ID, Name: tool.Name, Arguments: json.RawMessage("{}"), Extra: &atifExtra{&atifRest{Tool: &e}}}
	if isFilledObject(tool.Input) {
		c.Arguments, tool.Input = tool.Input, nil
	}
	tool.ID, tool.Name = "", ""
	e.Tool = &tool
	s.Calls = append(s.Calls, c)
	t.calls[c.ID] = s
}

// result goes to the step that made the call; one of a call that nobody saw gets a step of the system.
func (t *trajectory) result(e Event) {
	tool := *e.Tool
	output := atifText(tool.Output)
	r := atifResult{Content: &output, Extra: &atifExtra{&atifRest{Tool: &e}}}
	s := t.calls[tool.ID]
	if s == nil {
		s = t.step(atifSystem, e)
	} else {
		id := tool.ID
		r.Call, tool.ID = &id, ""
	}
	tool.Output = ""
	e.Tool = &tool
	if s.Observation == nil {
		s.Observation = &atifObservation{}
	}
	s.Observation.Results = append(s.Observation.Results, r)
}

// isFilledObject tells whether raw is an object with a key, which is what the format takes as arguments.
func isFilledObject(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return bytes.HasPrefix(raw, []byte("{")) && len(bytes.TrimSpace(raw[1:])) > 1
}

func (s *atifStep) rest() *atifRest {
	if s.Extra == nil {
		s.Extra = &atifExtra{&atifRest{}}
	}
	return s.Extra.Assay
}

// document puts the trajectories together.
func (x *atifWriter) document() atifDocument {
	agent := atifAgent{Name: "unknown", Version: "unknown"}
	if x.session != nil {
		s := x.session.Session
		agent = atifAgent{
			Name: cmp.Or(s.Agent, s.Harness, agent.Name), Version: cmp.Or(s.Version, agent.Version), Model: cmp.Or(s.ModelReported, s.Model),
		}
	}
	for _, t := range x.order {
		t.doc.Agent = agent
		x.refer(t)
	}
	root := x.order[0].doc
	root.Session, root.Extra = x.about.Session, &atifExtra{&atifRest{Session: x.session}}
	for _, t := range x.order[1:] {
		root.Subagents = append(root.Subagents, t.doc)
	}
	root.Totals = &atifTotals{Steps: len(root.Steps)}
	if u := cmp.Or(x.about.Usage, x.usage); u != nil {
		m := metricsOf(*u)
		root.Totals.Prompt, root.Totals.Completion, root.Totals.Cached, root.Totals.CostUSD = m.Prompt, m.Completion, m.Cached, m.CostUSD
	}
	return root
}

// refer lets the results of calls that started a sub-agent point at what it did.
func (x *atifWriter) refer(t *trajectory) {
	for _, s := range t.doc.Steps {
		if s.Observation == nil {
			continue
		}
		for i, r := range s.Observation.Results {
			if r.Call != nil && *r.Call != "" && x.byParent[*r.Call] != nil {
				s.Observation.Results[i].Subagents = []atifRef{{*r.Call}}
			}
		}
	}
}
