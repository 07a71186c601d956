package gateway

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// What a scripted model says when it is not the one under test: agents ask for titles and the like without tools.
const asideText = "A scripted answer."

// What a call of a scripted model uses, in tokens. Input grows by one with each round, so a call that was counted twice or
// not at all shows in the sum.
const (
	scriptInput      = 1000 // plus the number of the round, from 0
	scriptCacheRead  = 200
	scriptCacheWrite = 30 // told by Anthropic only
	scriptOutput     = 50 // without the thoughts of Gemini, which come beside them
	scriptReasoning  = 7  // not told by Anthropic; a part of the output but for Gemini
)

// An Answer is what a scripted model replies to a request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte        // of an answer that is not streamed
	Chunks [][]byte      // of a streamed one, an event each
	Pause  time.Duration // before the first byte
}

// Answer plays the turn that a request asks for. It keeps nothing in mind: the turn is the number of rounds of tool results
// in the request, and the same request gets the same answer. After the last turn, the last one is played again, so a script
// whose last turn calls a tool never ends.
//
// A request without tools gets a fixed text, one that asks for JSON the smallest value that its schema allows. An abstract
// call for which the request offers no tool, and which no shell can do, becomes a text that says so. An error means that the
// body is no request of the dialect.
//
// For Chat the body must be the one that would go to a provider: usage is streamed only if stream_options asks for it.
func (s *Script) Answer(d Dialect, stream bool, body []byte) (Answer, error) {
	r, err := readAsked(d, body)
	if err != nil {
		return Answer{}, err
	}
	t := s.turn(r)
	if t.HTTP != 0 {
		return failure(t), nil
	}
	reply := r.reply(t)
	var whole object
	var events [][]byte
	switch d {
	case Anthropic:
		whole, events = answerAnthropic(r, reply)
	case Chat:
		whole, events = answerChat(r, reply)
	case Responses:
		whole, events = answerResponses(r, reply)
	default:
		whole, events = answerGemini(r, reply)
	}
	a := Answer{Status: http.StatusOK, Header: http.Header{}, Pause: t.Pause}
	if stream {
		a.Header.Set("Content-Type", "text/event-stream")
		a.Chunks = events
		return a, nil
	}
	a.Header.Set("Content-Type", "application/json")
	a.Body = marshal(whole)
	return a, nil
}

// turn is what the request is answered with.
func (s *Script) turn(r *asked) Turn {
	switch {
	case r.schema != nil:
		return Turn{Say: string(marshal(smallest(r.schema)))}
	case len(r.tools) == 0 || len(s.Turns) == 0:
		return Turn{Say: asideText}
	}
	return s.Turns[min(r.rounds, len(s.Turns)-1)]
}

// bound is a turn whose calls are bound to the tools of a request.
type bound struct {
	parts []part
	stop  string // as in Turn
	seed  [sha256.Size]byte
}

// A part is a thought, a text or a call.
type part struct {
	kind partKind
	text string // of a call: its input, JSON or, for a tool that takes text, that text
	tool tool
}

type partKind int

const (
	isThought partKind = iota
	isText
	isCall
)

func (r *asked) reply(t Turn) bound {
	a := bound{stop: t.Stop, seed: sha256.Sum256(r.body)}
	if t.Think != "" {
		a.parts = append(a.parts, part{kind: isThought, text: t.Think})
	}
	if t.Say != "" {
		a.parts = append(a.parts, part{kind: isText, text: t.Say})
	}
	for _, c := range t.Calls {
		a.parts = append(a.parts, r.bind(c))
	}
	return a
}

func (a bound) calls() bool {
	for _, p := range a.parts {
		if p.kind == isCall {
			return true
		}
	}
	return false
}

// text joins the parts of a kind.
func (a bound) text(kind partKind) string {
	var b strings.Builder
	for _, p := range a.parts {
		if p.kind == kind {
			b.WriteString(p.text)
		}
	}
	return b.String()
}

// id names the nth thing of an answer. It depends on the request alone.
func (a bound) id(prefix string, n int) string {
	sum := sha256.Sum256(fmt.Append(a.seed[:], prefix, n))
	return fmt.Sprintf("%s%x", prefix, sum[:10])
}

// failure is the answer of a turn that asks for an HTTP status. Its body is understood in every dialect.
func failure(t Turn) Answer {
	kind, status := "api_error", "INTERNAL"
	switch t.HTTP {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity:
		kind, status = "invalid_request_error", "INVALID_ARGUMENT"
	case http.StatusUnauthorized:
		kind, status = "authentication_error", "UNAUTHENTICATED"
	case http.StatusForbidden:
		kind, status = "permission_error", "PERMISSION_DENIED"
	case http.StatusTooManyRequests:
		kind, status = "rate_limit_error", "RESOURCE_EXHAUSTED"
	case http.StatusServiceUnavailable, 529:
		kind, status = "overloaded_error", "UNAVAILABLE"
	}
	message := t.Say
	if message == "" {
		message = "the script answers " + fmt.Sprint(t.HTTP)
	}
	a := Answer{Status: t.HTTP, Header: http.Header{"Content-Type": {"application/json"}}, Pause: t.Pause}
	if t.HTTP == http.StatusTooManyRequests {
		a.Header.Set("Retry-After", "1")
	}
	a.Body = marshal(object{"type": "error", "error": object{"type": kind, "message": message, "code": t.HTTP, "status": status}})
	return a
}

// object is a JSON object.
type object = map[string]any

// marshal writes a value that we made.
func marshal(v any) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("gateway: " + err.Error()) // objects, lists, texts and numbers only
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

// event is one event of a stream, with a name if there is one.
func event(name string, data any) []byte {
	head := ""
	if name != "" {
		head = "event: " + name + "\n"
	}
	return fmt.Appendf(nil, "%sdata: %s\n\n", head, marshal(data))
}

// inPieces cuts a text as a model streams it.
func inPieces(text string) []string {
	const size = 24 // characters
	var list []string
	for r := []rune(text); len(r) > 0; {
		n := min(len(r), size)
		list = append(list, string(r[:n]))
		r = r[n:]
	}
	return list
}
