package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/trace"
)

// A Turn is what one side of a conversation said and did until it was another one's turn.
type Turn struct {
	Who    string  `json:"who"`              // user, agent or machinery
	Number int     `json:"number,omitempty"` // of an agent's turns, from 1 in each conversation
	Sub    bool    `json:"sub,omitempty"`    // a sub-agent spoke
	At     float64 `json:"at"`               // seconds since the agent began
	End    float64 `json:"end"`
	Used   string  `json:"used,omitempty"` // by the turn as a whole; empty: not known
	Said   []Said  `json:"said"`
}

// A Said is one thing of a turn. A call of a tool holds its result too, what was asked about it, and what the sub-agent did
// that it started.
type Said struct {
	At     float64 `json:"at"`
	Who    string  `json:"who"` // text, thinking, tool, ask, plan, usage, retry, error or note
	Title  string  `json:"title,omitempty"`
	Text   string  `json:"text,omitempty"`
	Input  string  `json:"input,omitempty"`
	Output string  `json:"output,omitempty"`
	End    string  `json:"end,omitempty"`  // of a tool: ok, error, denied …; empty: none was seen
	Mark   string  `json:"mark,omitempty"` // how it became known, where that was not from the agent as it went on
	Asks   []Asked `json:"asks,omitempty"`
	Turns  []Turn  `json:"turns,omitempty"`
}

// An Asked is a question or a request for a permission, with its reply.
type Asked struct {
	At     float64 `json:"at"`
	What   string  `json:"what"` // permission or question
	Title  string  `json:"title,omitempty"`
	Input  string  `json:"input,omitempty"`
	End    string  `json:"end,omitempty"` // outcome and whose it was; empty: no reply was seen
	Output string  `json:"output,omitempty"`
}

// Bounds of a conversation. Entries are those of all turns, in the order in which a reader meets them.
const (
	mostSaidFirst = 200
	mostSaidLast  = 100
	mostEvents    = 20_000 // that are folded: the first and the last half of them
	mostAsks      = 20     // of one call
	mostTitle     = 160    // characters of what a tool was called with
)

// talk is the conversation of a cell, its first and its last parts when it is long.
func (f files) talk(c *Cell) []Turn {
	file, size, err := f.open("trace.jsonl")
	if err != nil {
		c.unread("trace.jsonl", err)
		return nil
	}
	defer file.Close()
	var t talk
	turns := t.read(trace.Read(io.LimitReader(file, mostTrace)))
	if size > mostTrace {
		c.Cut = append(c.Cut, fmt.Sprintf("trace.jsonl: the first %d of %d bytes were read", mostTrace, size))
	}
	c.Cut = append(c.Cut, t.cuts()...)
	return turns
}

// A talk makes of a trace what a page shows of it, and counts what it cuts.
type talk struct {
	entries     int
	left, unfit int // entries that are left out, texts that are cut
	events      int // that are left out
	asks        int // that are left out
}

// read folds events into turns.
func (t *talk) read(events iter.Seq2[trace.Event, error]) []Turn {
	return t.within(t.turns(trace.Turns(slices.Values(t.keep(events)))))
}

// cuts names what was cut.
func (t *talk) cuts() []string {
	var out []string
	if t.events > 0 {
		out = append(out, fmt.Sprintf("trace.jsonl: %d events from its middle are left out", t.events))
	}
	if t.left > 0 {
		out = append(out, fmt.Sprintf("conversation: %d of %d entries, from its middle, are left out", t.left, t.entries))
	}
	if t.asks > 0 {
		out = append(out, fmt.Sprintf("conversation: %d requests of calls with more than %d are left out", t.asks, mostAsks))
	}
	if t.unfit > 0 {
		out = append(out, fmt.Sprintf("conversation: %d long texts are cut in their middle", t.unfit))
	}
	return out
}

// leftOut is the number of the event that stands for those left out; no other event has it.
const leftOut = -1

// keep is the first and the last events, with texts that are fit to be shown. A trace may hold millions of small ones.
func (t *talk) keep(events iter.Seq2[trace.Event, error]) []trace.Event {
	var first, last []trace.Event
	for e, err := range events {
		if bad := (*trace.LineError)(nil); err != nil && !errors.As(err, &bad) {
			e = trace.Event{Kind: trace.KindError, Err: &trace.Fault{Detail: err.Error()}}
		} else if err != nil {
			e = trace.Event{Kind: trace.KindOther, Text: err.Error()}
		}
		e = t.fit(e)
		if len(first) < mostEvents/2 {
			first = append(first, e)
			continue
		}
		if len(last) == mostEvents { // dropped in one go, so that each event is moved once
			last, t.events = append(last[:0], last[mostEvents/2:]...), t.events+mostEvents/2
		}
		last = append(last, e)
	}
	if more := len(last) - mostEvents/2; more > 0 {
		last, t.events = last[more:], t.events+more
	}
	if t.events > 0 {
		note := fmt.Sprintf("%d events are left out here.", t.events)
		first = append(first, trace.Event{Seq: leftOut, At: last[0].At, Kind: trace.KindOther, Text: note})
	}
	return append(first, last...)
}

// fit makes the texts of an event fit to be shown, so that a long trace needs little memory while it is folded.
func (t *talk) fit(e trace.Event) trace.Event {
	e.Raw = nil
	e.Text = t.text(e.Text, mostSpoken)
	if c := e.Tool; c != nil {
		c.Title = clean(join(" ", c.Name, toolTitle(*c)), evidenceHTML)
		c.Input = json.RawMessage(t.text(inputText(c.Input), mostToolText))
		c.Output = t.text(join("\n", c.Output, c.Diff), mostToolText)
		c.Diff = ""
	}
	if a := e.Ask; a != nil {
		a.Input = t.text(askText(*a), mostToolText)
		a.Reason = t.text(join("\n", append(append([]string{a.Choice}, a.Answers...), a.Reason)...), mostToolText)
		a.Questions, a.Options, a.Answers = nil, nil, nil
	}
	if e.Err != nil {
		e.Text = t.text(faultText(e), mostSpoken)
	}
	if e.Kind == trace.KindPlan {
		e.Text, e.Plan = t.text(planText(e.Plan), mostSpoken), nil
	}
	return e
}

// text is foreign text within a bound; a cut is counted.
func (t *talk) text(s string, most int) string {
	if len(s) > most && len([]rune(s)) > most {
		t.unfit++
	}
	return shown(s, most)
}

// toolTitle is what a tool was called with, in a few words: the paths, or the one text that matters.
func toolTitle(c trace.Tool) string {
	if c.Title != "" {
		return c.Title
	}
	if len(c.Paths) > 0 {
		return strings.Join(c.Paths[:min(len(c.Paths), mostRows)], " ")
	}
	var input map[string]json.RawMessage
	if json.Unmarshal(c.Input, &input) != nil {
		return ""
	}
	for _, key := range []string{"command", "cmd", "pattern", "query", "url", "description", "path"} {
		var value string
		if json.Unmarshal(input[key], &value) == nil && strings.TrimSpace(value) != "" {
			return clean(value, mostTitle)
		}
	}
	return ""
}

// inputText is what a tool was called with as a person reads it: each field on a line of its own, or on several where its text
// has several. What is no object stays as it is.
func inputText(input json.RawMessage) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(input, &fields) != nil || len(fields) == 0 {
		return string(input)
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := string(fields[name])
		var text string
		if json.Unmarshal(fields[name], &text) == nil && value != "null" {
			value = strings.TrimSuffix(text, "\n")
		}
		if strings.Contains(value, "\n") {
			value = "\n" + value
		} else {
			value = " " + value
		}
		out.WriteString(name + ":" + value + "\n")
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// askText is what an agent asked: the input of the tool that it wants to use, or questions with their options.
func askText(a trace.Ask) string {
	lines := []string{inputText(json.RawMessage(a.Input))}
	for _, q := range a.Questions {
		lines = append(lines, q.Text)
		for _, o := range q.Options {
			lines = append(lines, "  · "+join(": ", o.Label, o.Description))
		}
	}
	return join("\n", lines...)
}

func planText(plan []trace.PlanItem) string {
	var lines []string
	for _, p := range plan {
		sign := cmp.Or(map[string]string{"completed": "☑", "in_progress": "▸"}[p.Status], "☐")
		lines = append(lines, sign+" "+p.Text)
	}
	return strings.Join(lines, "\n")
}

func faultText(e trace.Event) string {
	http := ""
	if e.Err.HTTP != 0 {
		http = fmt.Sprintf("HTTP %d", e.Err.HTTP)
	}
	return join(" · ", string(e.Err.Class), http, e.Err.Detail, e.Text)
}

// turns are the turns of a conversation with all of their entries.
func (t *talk) turns(list []*trace.Turn) []Turn {
	var out []Turn
	partial := false // events of this turn, or of the end of the one before, are left out
	for _, from := range list {
		to := Turn{Who: string(from.Speaker), Number: from.Number, Sub: from.Parent != "", At: at(from.At), End: at(from.End), Used: tokensOf(from.Usage())}
		for _, it := range from.Items {
			partial = partial || it.Seq == leftOut
			if s := t.say(it); s.Who != "" {
				t.entries++
				to.Said = append(to.Said, s)
			}
		}
		if partial && from.Number > 0 {
			to.Used, partial = "", from.Items[len(from.Items)-1].Seq == leftOut
		}
		if len(to.Said) > 0 {
			out = append(out, to)
		}
	}
	return out
}

func at(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

// say is one thing of a turn; it is nobody's when a page has nothing to tell of it.
func (t *talk) say(it *trace.Item) Said {
	s := Said{At: at(it.At), Mark: markOf(it.Event), Text: it.Text}
	switch it.Kind {
	case trace.KindUserMessage, trace.KindAssistantText:
		s.Who = "text"
	case trace.KindThinking:
		s.Who = "thinking"
	case trace.KindToolCall, trace.KindToolResult:
		return t.tool(it, s)
	case trace.KindPermissionRequest, trace.KindQuestion:
		if s.Asks = t.asked(it.Asks); len(s.Asks) == 0 {
			return Said{}
		}
		s.Who, s.Text = "ask", ""
		return s
	case trace.KindPermissionResponse, trace.KindAnswer:
		return strayReply(it, s)
	case trace.KindPlan:
		s.Who = "plan"
	case trace.KindUsage, trace.KindModelCall:
		s.Who, s.Text = usageEntry(it.Event)
	case trace.KindRetry, trace.KindError:
		s.Who = string(it.Kind)
	case trace.KindSessionStart:
		s.Who, s.Text = "note", join(": ", sessionText(it.Session), s.Text)
	case trace.KindStop:
		s.Who, s.Text = "note", join(": ", stopText(it.Stop), s.Text)
	case trace.KindSubagent:
		s.Who, s.Title = "note", "sub-agent"
	default:
		s.Who, s.Title = "note", clean(string(it.Kind), nameSize)
		if it.Seq == leftOut {
			s.Title = ""
		}
	}
	if s.Text == "" {
		s.Who = ""
	}
	return s
}

// markOf says how an event became known, where that was not from the agent as it went on.
func markOf(e trace.Event) string {
	late, synthetic := "", ""
	if e.Late {
		late = "learned after the fact"
	}
	if e.Synthetic {
		synthetic = "written by the agent's machinery"
	}
	return join(", ", synthetic, late)
}

// tool is a call with its result, or a result whose call was not seen.
func (t *talk) tool(it *trace.Item, s Said) Said {
	if it.Tool == nil {
		return Said{}
	}
	s.Who, s.Title, s.Input = "tool", it.Tool.Title, string(it.Tool.Input)
	s.Asks, s.Turns = t.asked(it.Asks), t.turns(it.Turns)
	for i := range s.Asks {
		if s.Asks[i].Input == s.Input { // it stands above
			s.Asks[i].Input = ""
		}
	}
	result := it.Result
	if it.Kind == trace.KindToolResult {
		result, s.Mark = &it.Event, join(", ", s.Mark, "its call was not seen")
	}
	if result == nil || result.Tool == nil {
		return s
	}
	s.End = clean(join(", ", cmp.Or(string(result.Tool.Status), "ended"), exitText(result.Tool.Exit), took(result.Tool.Duration)), nameSize)
	s.Output = join("\n", result.Text, result.Tool.Output)
	if it.Kind == trace.KindToolResult {
		s.Text, s.Input = "", ""
	}
	if result.Late && !it.Late {
		s.Mark = join(", ", s.Mark, "its result was learned after the fact")
	}
	return s
}

// asked are the requests of one call, or one request.
func (t *talk) asked(list []trace.Exchange) []Asked {
	var out []Asked
	for _, x := range list[:min(len(list), mostAsks)] {
		a := Asked{At: at(x.Ask.At), What: "permission", Title: clean(x.Ask.Ask.Name, evidenceHTML), Input: join("\n", x.Ask.Text, x.Ask.Ask.Input)}
		if x.Ask.Kind == trace.KindQuestion {
			a.What = "question"
		}
		if x.Reply != nil && x.Reply.Ask != nil {
			a.End, a.Output = replyText(*x.Reply)
		}
		out = append(out, a)
	}
	t.asks += len(list) - len(out)
	return out
}

// replyText is the outcome of a reply with whose it was, and what it says.
func replyText(e trace.Event) (outcome, text string) {
	return clean(join(", ", cmp.Or(e.Ask.Outcome, "answered"), e.Ask.By), evidenceHTML), join("\n", e.Text, e.Ask.Reason)
}

// strayReply is a reply to a request that was not seen.
func strayReply(it *trace.Item, s Said) Said {
	if it.Ask == nil {
		return Said{}
	}
	a := Asked{At: s.At, What: "permission", Title: clean(it.Ask.Name, evidenceHTML)}
	if it.Kind == trace.KindAnswer {
		a.What = "question"
	}
	a.End, a.Output = replyText(it.Event)
	s.Who, s.Text, s.Mark, s.Asks = "ask", "", join(", ", s.Mark, "what it replies to was not seen"), []Asked{a}
	return s
}

// usageEntry tells of a call of a model, or of what the agent says that it used. What belongs to the sum of a turn stands
// below that sum.
func usageEntry(e trace.Event) (who, text string) {
	c := e.Call
	if c == nil {
		if e.Usage != nil && e.Usage.Scope == "session" {
			return "note", join(": ", "used in all", usageOf(e.Usage))
		}
		return "usage", usageOf(e.Usage)
	}
	how := ""
	switch {
	case c.HTTP >= 400:
		how = fmt.Sprintf("HTTP %d", c.HTTP)
	case c.HTTP == 0:
		how = "no answer"
	case c.Partial:
		how = "the answer was cut, its usage is what was seen of it"
	}
	text = join(" · ", clean(fmt.Sprintf("model call %d, %s, %s", c.Ordinal, c.Lane, c.Model), evidenceHTML), how, took(c.Took), usageOf(e.Usage))
	if c.HTTP >= 400 || c.HTTP == 0 {
		return "error", text
	}
	return "usage", text
}

// tokensOf is the usage of a turn in words; empty when nothing of it is known.
func tokensOf(u *trace.Usage) string {
	if u == nil {
		return ""
	}
	sum := *u
	sum.Scope, sum.Source = "", ""
	return usageOf(&sum)
}

func sessionText(s *trace.Session) string {
	if s == nil {
		return ""
	}
	return clean("session of "+join(" ", s.Harness, s.Agent, s.Version, cmp.Or(s.ModelReported, s.Model)), evidenceHTML)
}

func stopText(s *trace.Stop) string {
	if s == nil {
		return ""
	}
	return clean("stopped: "+join(", ", string(s.Reason), string(s.Class), s.Detail, exitText(s.Exit), s.Signal), evidenceHTML)
}

// within leaves the middle of a conversation out that has too many entries. An entry stays when one within it does.
func (t *talk) within(turns []Turn) []Turn {
	if t.entries <= mostSaidFirst+mostSaidLast {
		return turns
	}
	place := 0
	return t.prune(turns, &place)
}

func (t *talk) prune(turns []Turn, place *int) []Turn {
	var out []Turn
	for _, turn := range turns {
		var kept []Said
		for _, s := range turn.Said {
			here := *place
			*place++
			s.Turns = t.prune(s.Turns, place)
			switch {
			case here < mostSaidFirst || here >= t.entries-mostSaidLast || len(s.Turns) > 0:
				kept = append(kept, s)
			case t.left == 0:
				kept = append(kept, Said{At: s.At, Who: "note", Text: "Entries are left out here."})
				fallthrough
			default:
				t.left++
			}
		}
		if turn.Said = kept; len(kept) > 0 {
			out = append(out, turn)
		}
	}
	return out
}
