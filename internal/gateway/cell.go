package gateway

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-ci/assay/internal/trace"
)

const (
	maxFailures   = 5           // in a row, then the cell is ended
	maxFailing    = time.Minute // without a success, then the cell is ended
	maxUnmeasured = 3           // answers that did not tell what they used, under a cost limit
	maxDetail     = 500         // bytes of what a fault says
	maxRemarks    = 20          // warnings in the trace about requests that make no sense
	maxTalks      = 256         // sub-agents that are told apart
)

// The lanes of a cell, beside sub:<n>.
const (
	laneMain      = "main"      // the agent under test; turns and conditions look here
	laneAux       = "aux"       // requests without tools: titles and the like
	laneCount     = "count"     // token counts, which are free
	laneResponder = "responder" // ours
	laneJudge     = "judge"     // ours
)

// A Cell is the door of one cell to its models. Its methods may be called at the same time.
type Cell struct {
	g        *Gateway
	spec     Spec
	token    string
	models   map[string]*endpoint
	tape     tape // nil: none
	ctx      context.Context
	cancel   context.CancelFunc
	activity atomic.Pointer[func()]
	running  sync.WaitGroup // calls

	mu       sync.Mutex
	closed   bool
	ordinal  int            // of the last call
	ordinals map[string]int // of the last call of each lane
	talks    []talk         // who speaks, by the beginning of the conversation
	mainSeen bool           // the main lane had a request
	calls    int
	turns    int             // completed answers of the main lane
	auxTurns int             // completed answers of the model under test in the aux lane
	sums     map[string]*sum // agent, responder, judge
	called   map[string]bool // models
	spent    float64         // by the agent, as far as it is known
	unknown  int             // answers to the agent that did not tell what they cost
	partial  bool
	finish   string
	status   int
	fault    *trace.Fault
	refused  *Refusal
	verified *bool    // by the first request of the main lane
	unmet    []string // markers, there
	aux      *verdict // of the markers, by the requests without tools before any with
	mismatch string
	failures int // in a row
	failing  time.Time
	failure  *trace.Fault  // the last, of any lane of the agent
	news     []trace.Event // to be told when the lock is free
	remarks  int
}

// A verdict is what a request says of the markers.
type verdict struct {
	holds bool
	unmet []string
}

// A talk is a conversation of the agent, known by what it begins with.
type talk struct {
	lane          string
	agent         string
	system, first digest
}

// A call is one request on its way.
type call struct {
	req      *request
	model    *endpoint
	lane     string
	ordinal  int // in the cell
	inLane   int
	began    time.Time
	first    time.Duration // until the first byte of the answer; 0: none came
	status   int           // 0: no answer came
	meter    *meter
	fault    *trace.Fault
	cut      bool // the answer did not come to its end
	replayed bool
	recorded []tapedChunk
	header   http.Header
	scrub    scrubber
}

// URL is the base address of a dialect, as the settings of an agent want it: for anthropic and gemini without a path, for
// chat and responses with /v1.
func (c *Cell) URL(d Dialect) string {
	return "http://" + c.g.address + "/c/" + c.token + d.basePath()
}

// Key is what the agent sends as its key. It opens nothing but this cell.
func (c *Cell) Key() string { return "assay-" + c.token }

// OnActivity has f called whenever a byte comes from a model.
func (c *Cell) OnActivity(f func()) { c.activity.Store(&f) }

func (c *Cell) alive() {
	if f := c.activity.Load(); f != nil {
		(*f)()
	}
}

// Seen is what was seen so far.
func (c *Cell) Seen() Seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Seen{
		Calls: c.calls, Turns: c.turns, Usage: c.sums[""].usage(), Partial: c.partial, Models: slices.Sorted(maps.Keys(c.called)),
		Finish: c.finish, LastStatus: c.status, LastFault: c.fault, Refused: c.refused, Verified: c.verified,
		Unverified: slices.Clone(c.unmet), Mismatch: c.mismatch,
		Aux: AuxUsage{Responder: c.sums[laneResponder].usage(), Judge: c.sums[laneJudge].usage()},
	}
	if !c.mainSeen {
		s.Turns = c.auxTurns
		if c.aux != nil {
			s.Verified, s.Unverified = &c.aux.holds, slices.Clone(c.aux.unmet)
		}
	}
	return s
}

// Close ends the cell: its address answers 404 from now on, and what is on its way has two seconds before it is cut. It
// returns what was seen. Closing again does the same.
func (c *Cell) Close() Seen {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if first {
		c.g.mu.Lock()
		delete(c.g.cells, c.token)
		c.g.mu.Unlock()
	}
	c.drain()
	c.cancel()
	c.running.Wait()
	if first && c.tape != nil {
		left, err := c.tape.close()
		c.mu.Lock()
		switch {
		case c.mismatch != "":
		case err != nil:
			c.mismatch = "the cassette could not be written: " + err.Error()
		case left > 0:
			c.mismatch = fmt.Sprintf("%d recorded calls were not made in this run", left)
		}
		c.mu.Unlock()
	}
	return c.Seen()
}

// settling is how long the calls of an agent that has ended may take to be counted.
const settling = 2 * time.Second

// drain waits for calls under way. An agent may have read its last answer to the end, and gone, before we have counted it.
func (c *Cell) drain() {
	done := make(chan struct{})
	go func() {
		c.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-c.g.after(settling):
	}
}

// begin admits a request of the agent, or says why not.
func (c *Cell) begin(q *request) (*call, *Refusal) {
	defer c.tell()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused != nil {
		return nil, c.refused
	}
	m := c.models[q.model]
	if m == nil || m.Dialect != q.dialect {
		return nil, c.refuse(Refusal{
			Stop: trace.StopError, Class: trace.ClassModelNotAllowed,
			Detail: fmt.Sprintf("the model %q over %s is not one that this cell may call", trace.Shorten(q.model, 100), q.dialect),
		})
	}
	lane := c.laneOf(q, m)
	if !c.mainSeen && (lane == laneMain || lane == laneAux && !m.Side) {
		c.mainSeen = lane == laneMain
		if r := c.verify(q); r != nil {
			return nil, c.refuse(*r)
		}
	}
	if r := c.overLimit(lane, m); r != nil {
		return nil, c.refuse(*r)
	}
	return c.start(q, m, lane), nil
}

// start counts a call. It must not be called when the cell is closed.
func (c *Cell) start(q *request, m *endpoint, lane string) *call {
	c.ordinal++
	c.ordinals[lane]++
	if c.called == nil {
		c.called = map[string]bool{}
	}
	if !ours(lane) && lane != laneCount {
		c.called[m.Name] = true
	}
	return &call{
		req: q, model: m, lane: lane, ordinal: c.ordinal, inLane: c.ordinals[lane], began: c.g.opts.Now(),
		meter: &meter{dialect: q.dialect}, scrub: scrubber{secrets: m.secrets},
	}
}

// laneOf tells who speaks. A conversation is known by its system prompt and by the first message of its user: agents change
// one of them under way, when a tool server comes late or a history is folded up, and hardly both at once.
func (c *Cell) laneOf(q *request, m *endpoint) string {
	switch {
	case q.count:
		return laneCount
	case !q.tools:
		return laneAux
	}
	t := talk{agent: q.agent, system: q.system, first: q.first}
	for _, known := range c.talks {
		if known.same(t) {
			return known.lane
		}
	}
	subs := len(c.talks)
	if c.mainSeen {
		subs--
	}
	switch {
	case !c.mainSeen && q.agent == "" && !m.Side:
		t.lane = laneMain
	case len(c.talks) == maxTalks:
		return c.talks[maxTalks-1].lane
	default:
		t.lane = fmt.Sprintf("sub:%d", subs+1)
	}
	c.talks = append(c.talks, t)
	return t.lane
}

func (t talk) same(other talk) bool {
	if t.agent != "" || other.agent != "" {
		return t.agent == other.agent
	}
	none := digest{}
	if t.system == none && t.first == none {
		return other.system == none && other.first == none
	}
	return t.system != none && t.system == other.system || t.first != none && t.first == other.first
}

func ours(lane string) bool { return lane == laneResponder || lane == laneJudge }

// verify looks for the markers of the condition in the first request of the main lane. When they do not hold the cell ends
// at once: what its agent would do, and cost, belongs to no condition. An agent that never offers tools is judged by its
// other requests, of which one must hold; they end nothing, since one with tools may still come.
func (c *Cell) verify(q *request) *Refusal {
	if len(c.spec.Markers) == 0 || c.aux != nil && c.aux.holds && !c.mainSeen {
		return nil
	}
	lacking := q.unmet(c.spec.Markers)
	v := verdict{len(lacking) == 0, lacking}
	if !c.mainSeen {
		c.aux = &v
		return nil
	}
	c.verified, c.unmet = &v.holds, v.unmet
	if v.holds {
		return nil
	}
	return &Refusal{Stop: trace.StopError, Class: trace.ClassCondition, Detail: "the condition did not hold: " + strings.Join(v.unmet, "; ")}
}

// overLimit is the limit that another call of the lane would pass; nil when there is none.
func (c *Cell) overLimit(lane string, m *endpoint) *Refusal {
	turns := -1
	switch {
	case lane == laneMain:
		turns = c.turns
	case lane == laneAux && !c.mainSeen && !m.Side: // an agent that never offers tools has its turns here
		turns = c.auxTurns
	}
	limit := c.spec.MaxCostUSD
	switch {
	case c.spec.MaxTurns > 0 && turns >= c.spec.MaxTurns:
		return &Refusal{Stop: trace.StopMaxTurns, Detail: fmt.Sprintf("the limit of %d turns is reached", c.spec.MaxTurns)}
	case limit > 0 && c.spent >= limit:
		return &Refusal{Stop: trace.StopMaxCost, Detail: fmt.Sprintf("the cost limit of $%.2f is reached ($%.4f spent)", limit, c.spent)}
	case limit > 0 && c.unknown >= maxUnmeasured:
		return &Refusal{
			Stop: trace.StopError, Class: trace.ClassUnmeasured,
			Detail: fmt.Sprintf("the cost limit cannot be enforced: %d answers did not tell what they used", c.unknown),
		}
	case c.failures > 0 && c.g.opts.Now().Sub(c.failing) >= maxFailing:
		return c.broken()
	}
	if why := c.g.broke(); why != "" {
		return &Refusal{Stop: trace.StopError, Class: trace.ClassUnmeasured, Detail: why}
	}
	return nil
}

// broken is the end of a cell whose models keep failing.
func (c *Cell) broken() *Refusal {
	return &Refusal{
		Stop: trace.StopError, Class: c.failure.Class,
		Detail: fmt.Sprintf("the model failed %d times in a row, last: %s", c.failures, c.failure.Detail),
	}
}

// refuse ends the cell. The first refusal stays.
func (c *Cell) refuse(r Refusal) *Refusal {
	if c.refused == nil {
		r.Detail = c.clean(r.Detail)
		c.refused = &r
		class := r.Class
		if class == "" {
			class = trace.ClassWarning // a limit of the agent is no error of ours
		}
		c.news = append(c.news, trace.Event{Kind: trace.KindError, Err: &trace.Fault{Class: class, Detail: "the gateway ended the cell: " + r.Detail}})
	}
	return c.refused
}

// tell emits what happened under the lock.
func (c *Cell) tell() {
	c.mu.Lock()
	news := c.news
	c.news = nil
	c.mu.Unlock()
	for _, e := range news {
		c.spec.Emit(e)
	}
}

// remark puts a warning about a request that makes no sense into the trace.
func (c *Cell) remark(detail string) {
	c.mu.Lock()
	c.remarks++
	few := c.remarks <= maxRemarks
	c.mu.Unlock()
	if few {
		c.spec.Emit(trace.Event{Kind: trace.KindError, Err: &trace.Fault{Class: trace.ClassWarning, Detail: detail}})
	}
}

// clean is a text of an upstream as others may read it.
func (c *Cell) clean(text string) string {
	for _, m := range c.models {
		text = m.secrets.String(text)
	}
	if c.g.opts.Redact != nil {
		text = string(c.g.opts.Redact([]byte(text)))
	}
	return text
}

// settle books a call that has ended. The refusal, if it has one, is what the client is to be told instead of a failure.
func (c *Cell) settle(k *call) *Refusal {
	if k.fault != nil {
		k.fault.Detail = trace.Shorten(folded(c.clean(k.scrub.all(k.fault.Detail))), maxDetail)
	}
	answered := k.status >= 200 && k.status < 300
	whole := answered && !k.cut && k.fault == nil
	var cost *float64
	if k.model.price != nil {
		cost = k.model.price.cost(k.meter.tokens)
	}
	if answered && k.lane != laneCount {
		c.g.spend(cost)
	}
	c.emit(k, cost)
	defer c.tell()
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.lane == laneCount {
		return nil
	}
	if answered {
		c.book(k, cost, whole)
	}
	if ours(k.lane) {
		return nil
	}
	if k.lane == laneMain || k.lane == laneAux && !c.mainSeen {
		c.fault, c.finish = k.fault, k.meter.finish
		if k.status != 0 {
			c.status = k.status
		}
	}
	return c.health(k, whole)
}

// book adds an answer to the sums.
func (c *Cell) book(k *call, cost *float64, whole bool) {
	name := ""
	if ours(k.lane) {
		name = k.lane
	}
	if c.sums[name] == nil {
		c.sums[name] = &sum{}
	}
	c.sums[name].add(k.meter.tokens, cost, k.cut)
	if name != "" {
		return
	}
	c.calls++
	c.partial = c.partial || k.cut
	if cost != nil {
		c.spent += *cost
	} else {
		c.unknown++
	}
	switch {
	case whole && k.lane == laneMain:
		c.turns++
	case whole && k.lane == laneAux && !k.model.Side:
		c.auxTurns++
	}
}

// health is the breaker: it ends a cell whose models keep failing, before its agent has waited for them in vain.
func (c *Cell) health(k *call, whole bool) *Refusal {
	switch {
	case whole:
		c.failures = 0
	case k.fault != nil:
		if c.failures++; c.failures == 1 {
			c.failing = k.began
		}
		c.failure = k.fault
		if c.failures >= maxFailures || c.g.opts.Now().Sub(c.failing) >= maxFailing {
			return c.refuse(*c.broken())
		}
	}
	return nil
}

// emit puts a call into the trace, and why it failed.
func (c *Cell) emit(k *call, cost *float64) {
	c.spec.Emit(trace.Event{Kind: trace.KindModelCall, Usage: k.meter.tokens.usage(cost), Call: &trace.ModelCall{
		Ordinal: k.ordinal, Lane: k.lane, Model: k.model.Name, HTTP: k.status, Finish: k.meter.finish, Partial: k.cut,
		FirstByte: k.first, Took: c.g.opts.Now().Sub(k.began),
	}})
	if k.fault != nil {
		c.spec.Emit(trace.Event{Kind: trace.KindError, Err: k.fault})
	}
}

// A sum is what several answers used.
type sum struct {
	input, cacheRead, cacheWrite, output, reasoning addend[int64]
	cost                                            addend[float64]
}

// An addend is a sum of numbers that may not be known. One of a whole answer that is not makes the sum unknown; of an
// answer that was cut, what was seen counts.
type addend[N int64 | float64] struct {
	n       N
	told    bool
	unknown bool
}

func (a *addend[N]) add(n *N, cut bool) {
	switch {
	case n != nil:
		a.n, a.told = a.n+*n, true
	case !cut:
		a.unknown = true
	}
}

func (a addend[N]) value() *N {
	if !a.told || a.unknown {
		return nil
	}
	return &a.n
}

func (s *sum) add(t tokens, cost *float64, cut bool) {
	s.input.add(t.input, cut)
	s.cacheRead.add(t.cacheRead, cut)
	s.cacheWrite.add(t.cacheWrite, cut)
	s.output.add(t.output, cut)
	s.reasoning.add(t.reasoning, cut)
	s.cost.add(cost, cut)
}

// usage is the sum for a whole session; nil when there was no answer.
func (s *sum) usage() *trace.Usage {
	if s == nil {
		return nil
	}
	return &trace.Usage{
		Input: s.input.value(), CacheRead: s.cacheRead.value(), CacheWrite: s.cacheWrite.value(), Output: s.output.value(),
		Reasoning: s.reasoning.value(), CostUSD: s.cost.value(), Scope: "session", Source: "gateway",
	}
}
