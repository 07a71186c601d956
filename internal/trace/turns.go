package trace

import (
	"iter"
	"time"
)

// Speaker says whose turn it was.
type Speaker string

// The speakers. What no side said, as the start, the stop and errors before the first answer, is said by the machinery.
const (
	SpeakerUser      Speaker = "user"
	SpeakerAgent     Speaker = "agent"
	SpeakerMachinery Speaker = "machinery"
)

// maxNested is how deep conversations of sub-agents lie within each other; deeper ones stand beside the agent's own.
const maxNested = 8

// A Turn is what one side of a conversation said and did until it was another one's turn. An agent's turn is one answer of
// its model: what it thought and said, the tools that it called, and what came back from them.
type Turn struct {
	Number  int // of an agent's turns, from 1 in each conversation; 0: of another speaker
	Speaker Speaker
	Parent  string        // the call of the sub-agent whose conversation this is; empty in the agent's own
	At      time.Duration // of the first event, since the harness started
	End     time.Duration // of the last event; never before At
	Items   []*Item       // in the order in which they began

	answered bool // something came back from a tool: what the model says now is its next answer
	called   bool // a call of the model is in Items
}

// An Item is one thing of a turn: an event with what belongs to it. Its kind is the event's. A result, a request or an
// answer is an item of its own only when what it belongs to was not seen.
type Item struct {
	Event
	Result *Event     // of a tool_call: its tool_result; nil: none was seen
	Asks   []Exchange // of a tool_call: what it had to ask; of a permission_request and a question: itself
	Turns  []*Turn    // of a tool_call: the conversation of the sub-agent that it started
}

// An Exchange is a permission_request or a question, and what was answered; Reply is nil when nothing was.
type Exchange struct {
	Ask   Event
	Reply *Event
}

// Usage returns what the turn used: the sum over the calls of the agent's model that the gateway saw in it, else what the
// agent told of it. It is nil when neither is known, and a number of it is nil when one of the calls lacks it.
func (t *Turn) Usage() *Usage {
	var sum, told *Usage
	for _, it := range t.Items {
		switch {
		case it.Usage == nil:
		case it.Kind == KindModelCall && it.Call != nil && it.Call.Lane == "main":
			sum = plus(sum, *it.Usage)
		case it.Kind == KindUsage && (it.Usage.Scope == "step" || it.Usage.Scope == "turn"):
			told = plus(told, *it.Usage)
		}
	}
	if sum != nil {
		return sum
	}
	return told
}

// plus adds two usages; what one of them does not know, the sum does not.
func plus(a *Usage, b Usage) *Usage {
	if a == nil {
		return &b
	}
	b.Input, b.CacheRead, b.CacheWrite = added(a.Input, b.Input), added(a.CacheRead, b.CacheRead), added(a.CacheWrite, b.CacheWrite)
	b.Output, b.Reasoning, b.CostUSD = added(a.Output, b.Output), added(a.Reasoning, b.Reasoning), added(a.CostUSD, b.CostUSD)
	return &b
}

func added[N int64 | float64](a, b *N) *N {
	if a == nil || b == nil {
		return nil
	}
	sum := *a + *b
	return &sum
}

// Turns folds the events of a trace into the turns of its conversation, in the order in which they began. Each event is in
// one place of the result, and no event is left out. What sub-agents did lies in the calls that started them; where such a
// call was not seen, their turns stand among the others, with their Parent.
//
// All of the events are in memory when it returns. A caller that does not need Raw takes it out of them before.
func Turns(events iter.Seq[Event]) []*Turn {
	root := &talk{turns: new([]*Turn)}
	f := folder{root: root, talks: map[string]*talk{"": root}, calls: map[string]spot{}, asks: map[string]spot{}}
	for e := range events {
		f.add(e)
	}
	return *root.turns
}

// A folder sorts events into conversations.
type folder struct {
	root  *talk
	talks map[string]*talk // by the call that started them
	calls map[string]spot  // by the id of the call: the last one that had it
	asks  map[string]spot  // by the id of what was asked
}

// A spot is the place of a call, or of something asked.
type spot struct {
	talk *talk
	turn *Turn
	item *Item
	at   int // in item.Asks
}

// A talk is one conversation: the agent's or a sub-agent's.
type talk struct {
	turns  *[]*Turn
	now    *Turn
	depth  int
	number int // of the agent's last turn
}

// talk returns the conversation of the sub-agent that the call started; the agent's own when parent is empty.
func (f *folder) talk(parent string) *talk {
	t := f.talks[parent]
	if t != nil {
		return t
	}
	t = &talk{turns: f.root.turns}
	if call, ok := f.calls[parent]; ok && call.talk.depth < maxNested {
		t.turns, t.depth = &call.item.Turns, call.talk.depth+1
	}
	f.talks[parent] = t
	return t
}

func (f *folder) add(e Event) {
	if f.joins(e) {
		return
	}
	t := f.talk(e.Parent)
	turn := t.turn(e)
	it := &Item{Event: e}
	turn.Items = append(turn.Items, it)
	turn.called = turn.called || isMainCall(e)
	switch {
	case e.Kind == KindToolCall && e.Tool != nil:
		f.calls[e.Tool.ID] = spot{talk: t, turn: turn, item: it}
	case asks(e):
		it.Asks = []Exchange{{Ask: e}}
		f.asks[e.Ask.ID] = spot{talk: t, turn: turn, item: it}
	}
}

// joins puts an event to the item that it belongs to, if that was seen.
func (f *folder) joins(e Event) bool {
	switch {
	case e.Kind == KindToolResult && e.Tool != nil:
		call, ok := f.calls[e.Tool.ID]
		if !ok || call.item.Result != nil {
			return false
		}
		call.item.Result = &e
		call.turn.answered = true
		call.turn.until(e.At)
	case asks(e):
		call, ok := f.calls[e.Ask.CallID]
		if !ok {
			return false
		}
		call.at = len(call.item.Asks)
		call.item.Asks = append(call.item.Asks, Exchange{Ask: e})
		call.turn.until(e.At)
		f.asks[e.Ask.ID] = call
	case (e.Kind == KindPermissionResponse || e.Kind == KindAnswer) && e.Ask != nil:
		in, ok := f.asks[e.Ask.ID]
		if !ok || in.item.Asks[in.at].Reply != nil {
			return false
		}
		in.item.Asks[in.at].Reply = &e
		in.turn.until(e.At)
	default:
		return false
	}
	return true
}

// asks tells whether the agent waits for a reply to e.
func asks(e Event) bool {
	return (e.Kind == KindPermissionRequest || e.Kind == KindQuestion) && e.Ask != nil
}

// turn returns the turn that e belongs to: the one that goes on, or a new one.
func (t *talk) turn(e Event) *Turn {
	by := speakerOf(e)
	if t.now == nil && by == "" {
		by = SpeakerMachinery
	}
	if t.now == nil || by != "" && (by != t.now.Speaker || t.isNext(e)) {
		t.now = &Turn{Speaker: by, Parent: e.Parent, At: e.At}
		if by == SpeakerAgent {
			t.number++
			t.now.Number = t.number
		}
		*t.turns = append(*t.turns, t.now)
	}
	t.now.until(e.At)
	return t.now
}

// isNext tells whether e begins another answer of the model that speaks.
func (t *talk) isNext(e Event) bool {
	switch e.Kind {
	case KindAssistantText, KindThinking, KindToolCall:
		return t.now.answered
	case KindModelCall: // told when the answer has ended, which is before or after the agent tells of it
		return t.now.answered || t.now.called && t.now.Items[len(t.now.Items)-1].Kind != KindModelCall
	}
	return false
}

// speakerOf says who speaks by an event; empty: it belongs to the turn that goes on, whosever it is.
func speakerOf(e Event) Speaker {
	switch e.Kind {
	case KindSessionStart, KindStop:
		return SpeakerMachinery
	case KindUserMessage, KindAssistantText, KindThinking:
		switch {
		case e.Synthetic:
			return SpeakerMachinery
		case e.Kind == KindUserMessage:
			return SpeakerUser
		}
		return SpeakerAgent
	case KindToolCall, KindPlan, KindPermissionRequest, KindQuestion:
		return SpeakerAgent
	case KindModelCall:
		if isMainCall(e) {
			return SpeakerAgent
		}
	}
	return ""
}

// isMainCall tells whether e is a call of the model for the agent's own conversation.
func isMainCall(e Event) bool {
	return e.Kind == KindModelCall && e.Call != nil && e.Call.Lane == "main"
}

// until has the turn end no earlier than at.
func (t *Turn) until(at time.Duration) { t.End = max(t.End, t.At, at) }
