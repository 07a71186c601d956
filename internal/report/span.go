package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
)

// A Span is one thing that took time in a cell, as OpenTelemetry has it. Its ids are made of what it is, so the same cell
// makes the same spans whenever it is exported.
type Span struct {
	Trace      [16]byte
	ID, Parent [8]byte // Parent is zero in the span of the cell
	Name       string
	Client     bool // the other side is a model; else it is internal
	Start, End time.Time
	Attributes []Attribute
	Events     []SpanEvent
	Failed     bool
	Message    string // why it failed

	role          role
	model         string
	usage         *trace.Usage
	input, output string
	firstByte     time.Duration
}

// An Attribute is a fact of a span. Value is a string, a bool, an int64, a float64 or a []string.
type Attribute struct {
	Key   string
	Value any
}

// A SpanEvent is something that happened at one moment of a span.
type SpanEvent struct {
	At         time.Time
	Name       string
	Attributes []Attribute
}

// A role is the place of a span in a cell.
type role string

const (
	roleCell  role = "cell"
	roleAgent role = "agent"
	roleModel role = "model"
	roleTool  role = "tool"
)

// Bounds of one cell's spans: what is beyond them is left out, and the span of the cell says so.
const (
	mostSpans     = 20_000
	mostText      = 64 << 20
	attributeSize = 16 << 10 // bytes of a text
)

// RunID names a run, for everything that is exported of it.
func RunID(m result.Manifest) string {
	sum := sha256.Sum256([]byte("assay run\x00" + m.Digest + "\x00" + m.Seed + "\x00" + m.Created.UTC().Format(time.RFC3339Nano)))
	return hex.EncodeToString(sum[:8])
}

// traceID is made of the record alone, so that a shard and the merged results export the same trace.
func traceID(r *result.Result) (id [16]byte) {
	name, err := json.Marshal([]any{"assay trace 1", r.Case, r.Harness, r.Model, r.Condition, r.Trial, r.Key, r.Attempt, r.Started.UnixNano()})
	if err != nil {
		panic("report: strings and numbers are always JSON: " + err.Error())
	}
	sum := sha256.Sum256(name)
	copy(id[:], sum[:])
	return id
}

// Spans makes the spans of a cell: one of the cell, one of its agent, and below that one of each call of a model and of a
// tool. Calls of models are those that the gateway saw; without a gateway, they reach from the last thing that the model was
// told to the last thing that it said. It needs nothing but the record and the trace, of which events may be nil. The error
// is one of reading the trace; a line of it that is no event is passed over.
func Spans(m result.Manifest, r result.Result, events iter.Seq2[trace.Event, error]) ([]Span, error) {
	x := newSpanMaker(m, &r)
	if events != nil {
		if err := x.read(events); err != nil {
			return nil, err
		}
	}
	return x.finish(), nil
}

type spanMaker struct {
	r       *result.Result
	trace   [16]byte
	start   time.Time // of the harness
	cell    Span
	agent   *Span // nil: it was not started
	models  []Span
	tools   []Span
	said    []said         // what models said, to be laid into their spans
	byCall  map[string]int // tool spans by the id of their call
	gateway bool           // it saw the calls of models
	text    int
	cut     bool
	last    time.Duration // of the last event
	heard   map[string]time.Duration
	open    map[string]int // span in models of the answer that goes on, by parent, when there is no gateway
	latest  map[string]int // the last answer, whether it goes on or not
}

// said is something that a model said.
type said struct {
	at     time.Duration
	parent string
	answer int // span of the answer; -1: a call of the gateway, not known yet
	part   map[string]any
}

func newSpanMaker(m result.Manifest, r *result.Result) *spanMaker {
	x := &spanMaker{
		r: r, trace: traceID(r), start: r.Started.Add(r.Took.Place),
		byCall: map[string]int{}, heard: map[string]time.Duration{}, open: map[string]int{}, latest: map[string]int{},
	}
	if t := r.Agent.Started; t != nil {
		x.start = *t
	}
	x.cell = Span{
		Trace: x.trace, ID: spanID(x.trace, "cell"), Name: "cell " + r.Case, role: roleCell,
		Start: r.Started, End: r.Started.Add(r.Took.Total), Attributes: cellAttributes(m, r),
	}
	if r.Status == result.Errored {
		x.cell.Failed, x.cell.Message = true, told(string(r.Class), r.Detail)
	}
	return x
}

func spanID(of [16]byte, name string) (id [8]byte) {
	sum := sha256.Sum256(append(of[:], name...))
	copy(id[:], sum[:])
	return id
}

// at is the moment of an event.
func (x *spanMaker) at(d time.Duration) time.Time { return x.start.Add(d) }

// read sorts the events of a trace into spans.
func (x *spanMaker) read(events iter.Seq2[trace.Event, error]) error {
	var kept []trace.Event
	for e, err := range events {
		var broken *trace.LineError
		if errors.As(err, &broken) {
			continue
		}
		if err != nil {
			return err
		}
		if x.text += len(e.Text); e.Tool != nil {
			x.text += len(e.Tool.Output) + len(e.Tool.Input)
		}
		if x.text > mostText || len(kept) > 10*mostSpans {
			x.cut = true
			break
		}
		e.Raw = nil
		x.gateway = x.gateway || e.Kind == trace.KindModelCall
		kept = append(kept, e)
	}
	x.agent = &Span{
		Trace: x.trace, ID: spanID(x.trace, "agent"), Parent: x.cell.ID, Name: "invoke_agent " + clean(x.r.Harness, nameSize),
		role: roleAgent, Start: x.start, Attributes: agentAttributes(x.r), usage: x.r.Agent.Usage, output: x.r.Agent.FinalText,
	}
	for _, e := range kept {
		if len(x.models)+len(x.tools) >= mostSpans {
			x.cut = true
			break
		}
		x.last = max(x.last, e.At)
		x.add(e)
	}
	return nil
}

func (x *spanMaker) add(e trace.Event) {
	switch e.Kind {
	case trace.KindUserMessage:
		if x.agent.input == "" && !e.Synthetic && e.Parent == "" {
			x.agent.input = e.Text
		}
		x.hear(e)
	case trace.KindAnswer, trace.KindSessionStart:
		x.hear(e)
	case trace.KindAssistantText:
		if !e.Synthetic {
			x.say(e, map[string]any{"type": "text", "content": cutText(e.Text)})
		}
	case trace.KindThinking:
		x.say(e, map[string]any{"type": "reasoning", "content": cutText(e.Text)})
	case trace.KindToolCall:
		x.call(e)
	case trace.KindToolResult:
		x.result(e)
	case trace.KindModelCall:
		x.modelCall(e)
	case trace.KindUsage:
		x.use(e)
	}
	x.note(e)
}

// hear marks when a model was told something: what it says next began there at the earliest.
func (x *spanMaker) hear(e trace.Event) {
	x.heard[e.Parent] = e.At
	delete(x.open, e.Parent)
}

// say keeps what a model said. Without a gateway it makes or lengthens the span of the answer.
func (x *spanMaker) say(e trace.Event, part map[string]any) {
	if x.gateway {
		x.said = append(x.said, said{e.At, e.Parent, -1, part})
		return
	}
	i, going := x.open[e.Parent]
	if !going {
		i = len(x.models)
		x.open[e.Parent], x.latest[e.Parent] = i, i
		model := cmp.Or(x.r.Agent.Model, x.r.Model)
		x.models = append(x.models, Span{
			Trace: x.trace, ID: spanID(x.trace, fmt.Sprint("answer ", e.Seq)), Parent: x.parent(e.Parent), Name: "chat " + clean(model, nameSize),
			Client: true, role: roleModel, model: model, Start: x.at(x.heard[e.Parent]),
			Attributes: compact(
				text("gen_ai.operation.name", "chat"), text("gen_ai.request.model", x.r.Model), text("gen_ai.response.model", x.r.Agent.Model),
				text("assay.times", "seen from outside"),
			),
		})
	}
	x.models[i].End = x.at(e.At)
	x.said = append(x.said, said{e.At, e.Parent, i, part})
}

// use lays what an answer used into its span, when there is no gateway that knows better.
func (x *spanMaker) use(e trace.Event) {
	i, told := x.latest[e.Parent]
	if !x.gateway && told && e.Usage != nil && e.Usage.Scope == "step" && x.models[i].usage == nil {
		x.models[i].usage = e.Usage
	}
}

// parent is the span under which a sub-agent works, or the agent itself.
func (x *spanMaker) parent(call string) [8]byte {
	if i, ok := x.byCall[call]; ok && call != "" {
		return x.tools[i].ID
	}
	return x.agent.ID
}

func (x *spanMaker) call(e trace.Event) {
	if e.Tool == nil {
		return
	}
	t := e.Tool
	x.say(e, map[string]any{"type": "tool_call", "id": cutText(t.ID), "name": cutText(t.Name), "arguments": cutText(string(t.Input))})
	if _, again := x.byCall[t.ID]; again {
		return // told twice, as some agents do when they know more of it
	}
	x.byCall[t.ID] = len(x.tools)
	x.heard[t.ID] = e.At // a sub-agent that it starts
	x.tools = append(x.tools, Span{
		Trace: x.trace, ID: spanID(x.trace, fmt.Sprint("tool ", e.Seq)), Parent: x.parent(e.Parent),
		Name: "execute_tool " + clean(cmp.Or(t.Name, string(t.Kind), "unknown"), nameSize), role: roleTool, Start: x.at(e.At),
		input: string(t.Input),
		Attributes: compact(
			text("gen_ai.operation.name", "execute_tool"), text("gen_ai.tool.name", t.Name), text("gen_ai.tool.call.id", t.ID),
			text("gen_ai.tool.call.arguments", string(t.Input)), text("assay.tool.kind", string(t.Kind)), texts("assay.tool.paths", t.Paths),
		),
	})
}

func (x *spanMaker) result(e trace.Event) {
	x.hear(e)
	if e.Tool == nil {
		return
	}
	i, ok := x.byCall[e.Tool.ID]
	if !ok || !x.tools[i].End.IsZero() {
		return
	}
	t, s := e.Tool, &x.tools[i]
	s.End, s.output = x.at(e.At), t.Output
	s.Attributes = append(s.Attributes, compact(
		text("gen_ai.tool.call.result", t.Output), text("assay.tool.status", string(t.Status)), number("process.exit.code", t.Exit),
	)...)
	if t.Status == trace.StatusError || t.Status == trace.StatusDenied {
		s.Failed = true
		s.Attributes = append(s.Attributes, Attribute{"error.type", string(t.Status)})
	}
}

// modelCall makes the span of a call that the gateway saw; the event comes at its end.
func (x *spanMaker) modelCall(e trace.Event) {
	c := e.Call
	if c == nil {
		return
	}
	s := Span{
		Trace: x.trace, ID: spanID(x.trace, fmt.Sprint("call ", e.Seq)), Parent: x.agent.ID, Name: "chat " + clean(c.Model, nameSize),
		Client: true, role: roleModel, model: c.Model, usage: e.Usage, Start: x.at(max(0, e.At-c.Took)), End: x.at(e.At), firstByte: c.FirstByte,
		Attributes: compact(
			text("gen_ai.operation.name", "chat"), text("gen_ai.request.model", c.Model), text("assay.lane", c.Lane),
			Attribute{"assay.ordinal", int64(c.Ordinal)},
		),
	}
	if c.Finish != "" {
		s.Attributes = append(s.Attributes, Attribute{"gen_ai.response.finish_reasons", []string{clean(c.Finish, nameSize)}})
	}
	if c.HTTP > 0 {
		s.Attributes = append(s.Attributes, Attribute{"http.response.status_code", int64(c.HTTP)})
	}
	if c.FirstByte > 0 {
		s.Attributes = append(s.Attributes, Attribute{"gen_ai.response.time_to_first_chunk", c.FirstByte.Seconds()})
	}
	switch {
	case c.HTTP == 0:
		s.Failed, s.Message = true, "no answer came"
		s.Attributes = append(s.Attributes, Attribute{"error.type", "no_answer"})
	case c.HTTP >= 400:
		s.Failed = true
		s.Attributes = append(s.Attributes, Attribute{"error.type", fmt.Sprint(c.HTTP)})
	case c.Partial:
		s.Failed, s.Message = true, "the answer was cut: its usage is what was seen of it"
		s.Attributes = append(s.Attributes, Attribute{"error.type", "partial"})
	}
	x.models = append(x.models, s)
}

// note keeps what has no length as an event of the agent.
func (x *spanMaker) note(e trace.Event) {
	var list []Attribute
	switch {
	case e.Err != nil:
		list = compact(text("error.type", string(e.Err.Class)), text("assay.detail", e.Err.Detail))
		if e.Err.HTTP > 0 {
			list = append(list, Attribute{"http.response.status_code", int64(e.Err.HTTP)})
		}
	case e.Ask != nil:
		var questions []string
		for _, q := range e.Ask.Questions {
			questions = append(questions, q.Text)
		}
		list = compact(
			text("gen_ai.tool.name", e.Ask.Name), text("assay.ask.input", e.Ask.Input), texts("assay.ask.questions", questions),
			text("assay.ask.outcome", e.Ask.Outcome), texts("assay.ask.answers", e.Ask.Answers), text("assay.ask.by", e.Ask.By),
			text("assay.ask.reason", e.Ask.Reason),
		)
	case e.Kind == trace.KindPlan:
		var items []string
		for _, p := range e.Plan {
			items = append(items, strings.TrimSpace(p.Status+" "+p.Text))
		}
		list = compact(texts("assay.plan", items))
	case e.Kind == trace.KindSubagent:
		list = compact(text("assay.detail", e.Text))
	default:
		return
	}
	x.agent.Events = append(x.agent.Events, SpanEvent{At: x.at(e.At), Name: "assay." + string(e.Kind), Attributes: list})
}

// finish closes what is open and gives every span.
func (x *spanMaker) finish() []Span {
	if x.agent != nil {
		x.agent.End = x.at(max(x.last, x.r.Took.Agent))
		if x.agent.input != "" {
			x.agent.Attributes = append(x.agent.Attributes, message("gen_ai.input.messages", "user", []map[string]any{{"type": "text", "content": cutText(x.agent.input)}}))
		}
		if x.agent.output != "" {
			x.agent.Attributes = append(x.agent.Attributes, message("gen_ai.output.messages", "assistant", []map[string]any{{"type": "text", "content": cutText(x.agent.output)}}))
		}
		x.agent.Attributes = append(x.agent.Attributes, usageAttributes(x.agent.usage)...)
		if x.r.Agent.Stop != trace.StopEndTurn {
			x.agent.Failed, x.agent.Message = true, told(string(x.r.Agent.Stop), x.r.Agent.Detail)
		}
		x.layIn()
		if x.agent.End.After(x.cell.End) {
			x.cell.End = x.agent.End
		}
	}
	x.cell.Events = append(x.cell.Events, scoreEvents(x.r, x.cell.End)...)
	if x.cut {
		x.cell.Attributes = append(x.cell.Attributes, Attribute{"assay.trace.cut", true})
	}
	out := []Span{x.cell}
	if x.agent != nil {
		out = append(out, *x.agent)
	}
	for _, s := range x.models {
		s.Attributes = append(s.Attributes, usageAttributes(s.usage)...)
		out = append(out, s)
	}
	for _, s := range x.tools {
		if s.End.IsZero() { // no result was seen
			s.End = x.agent.End
			s.Attributes = append(s.Attributes, Attribute{"assay.tool.status", string(trace.StatusNone)})
		}
		out = append(out, s)
	}
	rest := out[1:]
	slices.SortStableFunc(rest, func(a, b Span) int { return a.Start.Compare(b.Start) })
	return out
}

// layIn lays what was said into the spans of those who said it: with a gateway, the last call that had begun by then.
func (x *spanMaker) layIn() {
	parts := make([][]map[string]any, len(x.models))
	for _, s := range x.said {
		i := s.answer
		if i < 0 {
			i = x.speaker(s)
		}
		if i >= 0 {
			parts[i] = append(parts[i], s.part)
		}
	}
	for i, list := range parts {
		if len(list) > 0 {
			a := message("gen_ai.output.messages", "assistant", list)
			x.models[i].Attributes = append(x.models[i].Attributes, a)
			x.models[i].output = a.Value.(string)
		}
	}
}

// speaker is the call in which something was said, or -1.
func (x *spanMaker) speaker(s said) int {
	found := -1
	for i := range x.models {
		m := &x.models[i]
		lane := laneOf(m)
		if (s.parent == "") != (lane == "main") || lane == "responder" || lane == "judge" || m.Start.After(x.at(s.at)) {
			continue
		}
		if found < 0 || m.Start.After(x.models[found].Start) {
			found = i
		}
	}
	return found
}

func laneOf(s *Span) string {
	for _, a := range s.Attributes {
		if a.Key == "assay.lane" {
			lane, _ := a.Value.(string)
			return lane
		}
	}
	return ""
}

// cellAttributes tell what the cell was and what came of it.
func cellAttributes(m result.Manifest, r *result.Result) []Attribute {
	list := compact(
		text("assay.run", RunID(m)), text("assay.suite", m.Suite), text("assay.suite_digest", m.Digest), text("vcs.ref.head.revision", m.Commit),
		text("assay.case", r.Case), text("assay.harness", r.Harness), text("assay.model", r.Model), text("assay.condition", r.Condition),
		text("assay.key", r.Key), text("assay.phase", cmp.Or(r.Phase, "screen")), text("assay.status", string(r.Status)),
		text("assay.class", string(r.Class)), text("assay.reason", string(r.Reason)), text("assay.detail", r.Detail),
		Attribute{"assay.trial", int64(r.Trial)}, Attribute{"assay.attempt", int64(r.Attempt)},
		fraction("assay.score", r.Score), truth("assay.condition_verified", r.ConditionHeld()), number("assay.turns", r.Agent.Turns),
	)
	for _, h := range m.Harnesses {
		if h.ID == r.Harness && h.Simulated {
			list = append(list, Attribute{"assay.scripted", true})
		}
	}
	if r.Agent.Started == nil {
		list = append(list, Attribute{"assay.times", "approximate: the record does not say when the agent began"})
	}
	if u := r.Agent.Usage; u != nil {
		list = append(list, compact(fraction("assay.cost_usd", u.CostUSD))...)
	}
	if s := r.DiffScope; s != nil {
		list = append(list,
			Attribute{"assay.diff_scope.files_touched", int64(s.FilesTouched)}, Attribute{"assay.diff_scope.lines_added", int64(s.LinesAdded)},
			Attribute{"assay.diff_scope.lines_removed", int64(s.LinesRemoved)}, Attribute{"assay.diff_scope.hunks", int64(s.Hunks)},
			Attribute{"assay.diff_scope.approximate", s.Approximate})
	}
	for _, s := range r.Scores {
		list = append(list, compact(truth("assay.assertion."+clean(s.ID, nameSize), s.Passed))...)
	}
	return list
}

func agentAttributes(r *result.Result) []Attribute {
	return compact(
		text("gen_ai.operation.name", "invoke_agent"), text("gen_ai.agent.name", r.Harness), text("gen_ai.agent.version", r.Agent.Version),
		text("gen_ai.request.model", r.Model), text("gen_ai.response.model", r.Agent.Model), text("assay.stop", string(r.Agent.Stop)),
		number("process.exit.code", r.Agent.Exit),
	)
}

// scoreEvents are the assertions as evaluation results.
func scoreEvents(r *result.Result, at time.Time) []SpanEvent {
	var out []SpanEvent
	for _, s := range r.Scores {
		list := compact(text("gen_ai.evaluation.name", s.ID), text("gen_ai.evaluation.explanation", s.Evidence), text("assay.assertion.type", s.Type))
		if v := scoreValue(s); v != nil {
			list = append(list, Attribute{"gen_ai.evaluation.score.value", *v})
		}
		if s.Passed != nil {
			list = append(list, Attribute{"gen_ai.evaluation.score.label", map[bool]string{true: "passed", false: "failed"}[*s.Passed]})
		}
		if s.Error != "" {
			list = append(list, Attribute{"error.type", string(trace.ClassGrader)})
		}
		out = append(out, SpanEvent{At: at, Name: "gen_ai.evaluation.result", Attributes: list})
	}
	return out
}

// scoreValue is the value of an assertion, 0 to 1; nil when its grader could not tell.
func scoreValue(s result.Score) *float64 {
	if s.Value != nil || s.Passed == nil {
		return s.Value
	}
	v := 0.0
	if *s.Passed {
		v = 1
	}
	return &v
}

// usageAttributes are what is known of a usage. Cached input is a part of the input here, as the conventions have it.
func usageAttributes(u *trace.Usage) []Attribute {
	if u == nil {
		return nil
	}
	var input *int64
	if u.Input != nil {
		sum := *u.Input
		for _, more := range []*int64{u.CacheRead, u.CacheWrite} {
			if more != nil {
				sum += *more
			}
		}
		input = &sum
	}
	return compact(
		number("gen_ai.usage.input_tokens", input), number("gen_ai.usage.cache_read.input_tokens", u.CacheRead),
		number("gen_ai.usage.cache_creation.input_tokens", u.CacheWrite), number("gen_ai.usage.output_tokens", u.Output),
		number("gen_ai.usage.reasoning.output_tokens", u.Reasoning), fraction("assay.cost_usd", u.CostUSD),
	)
}

// message is a message as the conventions write it, in JSON.
func message(key, role string, parts []map[string]any) Attribute {
	b, err := json.Marshal([]map[string]any{{"role": role, "parts": parts}})
	if err != nil {
		panic("report: a message is always JSON: " + err.Error())
	}
	return Attribute{key, string(b)}
}

// compact drops attributes without a value: what is not known is absent.
func compact(list ...Attribute) []Attribute {
	return slices.DeleteFunc(list, func(a Attribute) bool { return a.Value == nil })
}

func text(key, v string) Attribute {
	if v == "" {
		return Attribute{key, nil}
	}
	return Attribute{key, cutText(v)}
}

func texts(key string, list []string) Attribute {
	if len(list) == 0 {
		return Attribute{key, nil}
	}
	list = slices.Clone(list[:min(len(list), 100)])
	for i, s := range list {
		list[i] = clean(s, lineSize)
	}
	return Attribute{key, list}
}

func number[N int | int64](key string, v *N) Attribute {
	if v == nil {
		return Attribute{key, nil}
	}
	return Attribute{key, int64(*v)}
}

func fraction(key string, v *float64) Attribute {
	if v == nil {
		return Attribute{key, nil}
	}
	return Attribute{key, *v}
}

func truth(key string, v *bool) Attribute {
	if v == nil {
		return Attribute{key, nil}
	}
	return Attribute{key, *v}
}

// cutText is foreign text in good UTF-8, cut at a length that receivers take.
func cutText(s string) string {
	if len(s) > attributeSize {
		s = s[:attributeSize] + "… (cut)"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
