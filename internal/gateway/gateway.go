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
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/assay-ci/assay/internal/redact"
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
	BaseURL string  // in the form of [Cell.URL]: with /v1 for chat and responses, without a path for the others
	KeyEnv  string  // name of the environment variable that holds the key; empty: none is sent
	Script  *Script // plays the model: no key, no network
}

// A Model is one that a cell may call.
type Model struct {
	Name string
	Upstream
	Side bool // the agent calls it beside the one under test, for titles and the like
}

// Options make a gateway for one run.
type Options struct {
	Prices       map[string]Price        // of the suite, by model; they go before those that Assay knows
	Keys         func(env string) string // the value of an environment variable; nil: there are no keys
	RunBudgetUSD float64                 // of all cells and lanes together; 0: no limit
	SpentUSD     float64                 // of the budget, by earlier runs
	Transport    http.RoundTripper       // to the providers; nil: plain HTTP without a proxy. Redirects are never followed
	Now          func() time.Time        // nil: time.Now
	Cassettes    Cassettes               // nil: nothing is recorded or played back
	Redact       func([]byte) []byte     // for what is recorded or told of an exchange; nil: only its own key is taken out
}

// A Gateway serves the cells of one run. Its methods may be called at the same time.
type Gateway struct {
	opts       Options
	client     *http.Client
	server     *http.Server
	address    string
	served     chan struct{} // closed when the server has ended
	playScript func(s *Script, d Dialect, stream bool, body []byte) (played, error)
	after      func(time.Duration) <-chan time.Time

	mu         sync.Mutex
	cells      map[string]*Cell // by token
	spent      float64          // US dollars, as far as they are known
	unmeasured int              // answers that were cut before they told what they used
}

// New starts a gateway on a free port of this host's loopback.
func New(o Options) (*Gateway, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the model gateway: %w", err)
	}
	if o.Keys == nil {
		o.Keys = func(string) string { return "" }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Transport == nil {
		o.Transport = &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second, ForceAttemptHTTP2: true, DisableCompression: true}
	}
	g := &Gateway{
		opts: o, spent: o.SpentUSD, address: l.Addr().String(), served: make(chan struct{}), cells: map[string]*Cell{},
		playScript: playScript, after: time.After,
		client: &http.Client{Transport: o.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	g.server = &http.Server{Handler: g, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 5 * time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		defer close(g.served)
		g.server.Serve(l)
	}()
	return g, nil
}

// Address is where the gateway listens, as host:port.
func (g *Gateway) Address() string { return g.address }

// Open opens the door of one cell. Its errors are what a preflight should find: a model without a key, a price or an
// upstream.
func (g *Gateway) Open(s Spec) (*Cell, error) {
	models, err := g.endpoints(s)
	if err != nil {
		return nil, fmt.Errorf("open the gateway for %s: %w", s.Name, err)
	}
	var random [16]byte
	rand.Read(random[:])
	c := &Cell{g: g, spec: s, token: hex.EncodeToString(random[:]), models: models, sums: map[string]*sum{}, ordinals: map[string]int{}}
	if c.spec.Emit == nil {
		c.spec.Emit = func(trace.Event) {}
	}
	if g.opts.Cassettes != nil {
		if c.tape, err = g.opts.Cassettes.open(s.Name); err != nil {
			return nil, fmt.Errorf("open the cassette of %s: %w", s.Name, err)
		}
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cells[c.token] = c
	return c, nil
}

// Book counts money against the budget that an agent spent around the gateway, in US dollars.
func (g *Gateway) Book(usd float64) { g.spend(&usd) }

// Spent is what all calls of the run cost so far in US dollars, with what was booked and what earlier runs spent, as far as
// prices and usage are known. Calls of cells under way are in it.
func (g *Gateway) Spent() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.spent
}

// BudgetSpent reports whether the budget of the run is used up: a cell that has not begun cannot be run any more.
func (g *Gateway) BudgetSpent() bool { return g.broke() != "" }

// Close ends all cells and the server.
func (g *Gateway) Close() error {
	g.mu.Lock()
	cells := slices.Collect(maps.Values(g.cells))
	g.mu.Unlock()
	for _, c := range cells {
		c.Close()
	}
	err := g.server.Close()
	<-g.served
	g.client.CloseIdleConnections()
	return err
}

// ServeHTTP answers the agents.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/c/"), "/")
	g.mu.Lock()
	c := g.cells[token]
	g.mu.Unlock()
	if c == nil || !strings.HasPrefix(r.URL.Path, "/c/") {
		http.NotFound(w, r)
		return
	}
	c.serve(w, r, "/"+path)
}

// An endpoint is a model with its key and its price.
type endpoint struct {
	Model
	key     string
	secrets *redact.Redactor // knows the key; nil when there is none
	price   *Price           // nil: not known
}

// endpoints checks the models of a cell.
func (g *Gateway) endpoints(s Spec) (map[string]*endpoint, error) {
	models := map[string]*endpoint{}
	for _, m := range s.Models {
		e, err := g.endpoint(m, s.MaxCostUSD > 0 || g.opts.RunBudgetUSD > 0)
		if err != nil {
			return nil, err
		}
		if _, twice := models[m.Name]; twice {
			return nil, fmt.Errorf("the model %q is listed twice", m.Name)
		}
		models[m.Name] = e
	}
	for _, m := range s.Markers {
		if folded(m.Text) == "" {
			return nil, fmt.Errorf("the marker of %s is empty", m.Of)
		}
	}
	return models, nil
}

func (g *Gateway) endpoint(m Model, priced bool) (*endpoint, error) {
	e := &endpoint{Model: m}
	if price, ok := PriceOf(m.Name, g.opts.Prices); ok {
		e.price = &price
	} else if priced {
		return nil, fmt.Errorf("the price of the model %q is not known, so a cost limit could not be enforced: add it under prices of the budget, or take the limit out", m.Name)
	}
	switch {
	case m.Name == "":
		return nil, errors.New("a model has no name")
	case !m.Dialect.known():
		return nil, fmt.Errorf("the model %q has the unknown dialect %q", m.Name, m.Dialect)
	case m.Script != nil && m.BaseURL == "":
		return e, nil
	case m.Script != nil || m.BaseURL == "":
		return nil, fmt.Errorf("the model %q needs either a base URL or a script", m.Name)
	}
	if err := checkBaseURL(m.BaseURL); err != nil {
		return nil, fmt.Errorf("the base URL of the model %q %w", m.Name, err)
	}
	if m.KeyEnv == "" || g.opts.Cassettes != nil && g.opts.Cassettes.replays() {
		return e, nil
	}
	if e.key = strings.TrimSpace(g.opts.Keys(m.KeyEnv)); e.key == "" {
		return nil, fmt.Errorf("the model %q needs a key: set the environment variable %s", m.Name, m.KeyEnv)
	}
	e.secrets = redact.New([]redact.Secret{{Name: m.KeyEnv, Value: e.key}})
	return e, nil
}

func checkBaseURL(base string) error {
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("is not an http or https address")
	case u.User != nil:
		return errors.New("holds a user or password: name the key's environment variable instead")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("must not have a query or fragment")
	}
	return nil
}

// broke says why no money may be spent any more; empty when it may.
func (g *Gateway) broke() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch limit := g.opts.RunBudgetUSD; {
	case limit <= 0:
		return ""
	case g.spent >= limit:
		return fmt.Sprintf("the budget of the run is spent ($%.4f of $%.2f)", g.spent, limit)
	case g.unmeasured >= maxUnmeasured:
		return fmt.Sprintf("the budget of the run cannot be enforced: %d answers did not tell what they used", g.unmeasured)
	}
	return ""
}

// spend books what an answer cost; nil when that could not be told.
func (g *Gateway) spend(cost *float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if cost != nil {
		g.spent += *cost
	} else {
		g.unmeasured++
	}
}

// A Spec says what one cell may do.
type Spec struct {
	Name       string            // the coordinates of the cell; also the name of its cassette
	Models     []Model           // the first is under test
	MaxTurns   int               // answers of the main lane; 0: no limit
	MaxCostUSD float64           // 0: no limit; with a limit, every model must have a price
	Markers    []Marker          // looked for in the first request of the main lane; one that does not hold ends the cell
	Emit       func(trace.Event) // model_call and error events; may be called from any goroutine
	Responder  Cap               // of the lane of ours that answers the agent
	Judge      Cap               // of the lane of ours that grades
}

// A Cap bounds a lane of ours. Zero is no limit; with one of money, the model must have a price.
type Cap struct {
	Calls   int
	CostUSD float64
}

// A Marker is a text that shows whether a part of a condition reached the model. White space is folded on both sides.
type Marker struct {
	Of     string // what it is from, for people: skill greeter, instructions, prompt_prefix
	Text   string
	Tool   bool // Text is what the names of tools begin with, and stands in no other text of the request
	Wanted bool // false: it belongs to another condition and must be absent
}

// Seen is what the gateway saw of a cell.
type Seen struct {
	Calls      int          // upstream answers, in all lanes but responder and judge
	Turns      int          // completed answers of the main lane; of an agent that never offers tools, all of them
	Usage      *trace.Usage // sums; nil when no call was answered. Its Source is gateway
	Partial    bool         // an answer was cut: the sums are what was seen of it
	Models     []string     // that were called, sorted
	Finish     string       // of the last main-lane answer: end, tool, refusal, max_tokens or other
	LastStatus int          // HTTP status of the last answer to the agent's main lane; 0: none came
	LastFault  *trace.Fault // why the last call of that lane failed; nil when it did not
	Refused    *Refusal     // why the gateway ended the cell; nil when it did not
	Verified   *bool        // whether the markers of the condition held; nil: no request that could show them, or no markers
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
