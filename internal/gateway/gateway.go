// Package gateway stands between agents and models: it holds the keys, counts what every call used, ends a cell that is
// over its limits, and can record a run and play it back without a key or a network. Make one with [New] for a run, open
// a [Cell] for each cell, give the agent [Cell.URL] and [Cell.Key], read [Cell.Seen] when the agent has ended.
//
//	g, err := gateway.New(gateway.Options{Prices: prices, Keys: os.Getenv})
//	c, err := g.Open(gateway.Spec{Name: "timezone/claude-with_skill/t1", Models: models, MaxTurns: 50, Emit: w.Emit})
//	… ANTHROPIC_BASE_URL=c.URL(gateway.Anthropic) ANTHROPIC_API_KEY=c.Key() …
//	seen := c.Close()
//
// Requests pass through in the dialect in which they came and are never translated. A model that the cell may not call, a
// limit that is reached and an upstream that stays broken are answered with one body that makes every agent stop at once.
package gateway

import (
	"encoding/json"
	"time"

	"github.com/assay-ci/assay/internal/trace"
)

// A Dialect is a protocol that agents speak to models.
type Dialect string

// The dialects, each with the paths that belong to it.
const (
	Anthropic Dialect = "anthropic" // /v1/messages, /v1/messages/count_tokens
	Chat      Dialect = "chat"      // /v1/chat/completions
	Responses Dialect = "responses" // /v1/responses
	Gemini    Dialect = "gemini"    // /v1beta/models/M:generateContent, :streamGenerateContent, :countTokens
)

// An Upstream is where the calls of a model go. Exactly one of BaseURL and Script is set.
type Upstream struct {
	Dialect Dialect
	BaseURL string  // as its provider documents it, without the path of a dialect
	KeyEnv  string  // name of the environment variable that holds the key; empty: none is sent
	Script  *Script // plays the model: no key, no network
}

// A Model is one that a cell may call.
type Model struct {
	Name string
	Upstream
	Side bool // the agent calls it beside the one under test, for titles and the like
}

// A Spec says what one cell may do.
type Spec struct {
	Name       string            // the coordinates of the cell; also the name of its cassette
	Models     []Model           // the first is under test
	MaxTurns   int               // answers of the main lane; 0: no limit
	MaxCostUSD float64           // 0: no limit; with a limit, every model must have a price
	Markers    []Marker          // looked for in the first request of the main lane
	Emit       func(trace.Event) // model_call, retry and error events; may be called from any goroutine
}

// A Marker is a text that shows whether a part of a condition reached the model. White space is folded on both sides.
type Marker struct {
	Of     string // what it is from, for people: skill greeter, instructions, prompt_prefix
	Text   string
	Wanted bool // false: it belongs to another condition and must be absent
}

// Seen is what the gateway saw of a cell.
type Seen struct {
	Calls      int          // upstream answers, in all lanes but responder and judge
	Turns      int          // completed answers of the main lane
	Usage      *trace.Usage // sums; nil when no call was answered. Its Source is gateway
	Partial    bool         // an answer was cut: the sums are what was seen of it
	Models     []string     // that were called, sorted
	Finish     string       // of the last main-lane answer: end, tool, refusal, max_tokens or other
	LastStatus int          // HTTP status of the last upstream answer; 0: none came
	LastFault  *trace.Fault // why the last call failed; nil when it did not
	Refused    *Refusal     // why the gateway ended the cell; nil when it did not
	Verified   *bool        // whether the markers of the condition held; nil: no main-lane request, or no markers
	Unverified []string     // the markers that did not hold, as sentences
	Mismatch   string       // of a replay: how the first request that differs does so; empty: none
	Aux        AuxUsage
}

// AuxUsage is what the lanes of ours used: they are not the agent's.
type AuxUsage struct {
	Responder, Judge *trace.Usage
}

// A Refusal is an end that the gateway put to a cell. Stop is max_turns, max_cost or error with a Class.
type Refusal struct {
	Stop   trace.StopReason
	Class  trace.Class
	Detail string
}

// A Script plays the model in tests. Its steps are bound to the tools that a request offers, so one script serves every
// agent; the step played is the number of rounds of tool results in the request, so retries are harmless.
type Script struct {
	Turns []Turn
}

// A Turn is one answer of a scripted model.
type Turn struct {
	Think string
	Say   string
	Calls []Call
	Stop  string        // refusal or max_tokens; empty: the natural end
	HTTP  int           // answer with this status instead
	Pause time.Duration // before the answer
}

// A Call is an abstract use of a tool: read, plan, edit, write, bash, ask, skill, agent, or raw with the tool's own name.
type Call struct {
	Kind  string
	Name  string // of raw
	Input json.RawMessage
}
