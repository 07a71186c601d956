package grade

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"testing"

	"github.com/assay-ci/assay/internal/trace"
)

func called(id, name string, kind trace.ToolKind) trace.Event {
	return trace.Event{Kind: trace.KindToolCall, Tool: &trace.Tool{ID: id, Name: name, Kind: kind}}
}

func ended(id string, status trace.ToolStatus) trace.Event {
	return trace.Event{Kind: trace.KindToolResult, Tool: &trace.Tool{ID: id, Status: status}}
}

func TestTrace(t *testing.T) {
	t.Parallel()
	session := events(
		trace.Event{Kind: trace.KindSessionStart},
		called("1", "Read", trace.ToolRead), ended("1", trace.StatusOK),
		called("2", "WebFetch", trace.ToolFetch), ended("2", trace.StatusDenied),
		called("3", "Edit", trace.ToolEdit), ended("3", trace.StatusError),
		called("4", "Bash", trace.ToolExecute), ended("4", trace.StatusOK),
		trace.Event{Kind: trace.KindToolCall}, // without a tool
		trace.Event{Kind: trace.KindStop},
	)
	usage := &trace.Usage{Input: ptr[int64](100), CacheRead: ptr[int64](20), CacheWrite: ptr[int64](0), Output: ptr[int64](5), CostUSD: ptr(0.25)}
	e := Evidence{Trace: session, Turns: ptr(3), Usage: usage}
	for _, tt := range []struct {
		name     string
		params   traceParams
		passed   bool
		evidence string
	}{
		{"require by name and kind", traceParams{RequireTools: []string{"Read", "edit"}}, true, "uses of Read: 1; uses of edit: 1"},
		{"require what was denied", traceParams{RequireTools: []string{"fetch"}}, false, "uses of fetch: 0"},
		{"require what is absent", traceParams{RequireTools: []string{"skill"}}, false, "uses of skill: 0"},
		{"names are exact", traceParams{RequireTools: []string{"read", "bash"}}, false, "uses of bash: 0; holds: uses of read: 1"},
		{"forbid", traceParams{ForbidTools: []string{"delete"}}, true, "calls of delete: 0"},
		{"forbid what was denied", traceParams{ForbidTools: []string{"WebFetch"}}, false, "calls of WebFetch: 1"},
		{"order", traceParams{Order: []string{"read", "Bash"}}, true, "the order was kept"},
		{"order skips denied calls", traceParams{Order: []string{"read", "fetch", "execute"}}, false, "fetch did not come in its place, number 2 of the order"},
		{"order turned round", traceParams{Order: []string{"execute", "read"}}, false, "read did not come in its place, number 2 of the order"},
		{"order twice", traceParams{Order: []string{"read", "read"}}, false, "read did not come in its place, number 2 of the order"},
		{"calls", traceParams{MaxToolCalls: ptr(4)}, true, "tool calls 4 <= 4"},
		{"too many calls", traceParams{MaxToolCalls: ptr(3)}, false, "tool calls 4 > 3"},
		{"turns", traceParams{MaxTurns: ptr(3)}, true, "turns 3 <= 3"},
		{"too many turns", traceParams{MaxTurns: ptr(0)}, false, "turns 3 > 0"},
		{"tokens", traceParams{MaxTokens: ptr[int64](125)}, true, "tokens 125 <= 125"},
		{"too many tokens", traceParams{MaxTokens: ptr[int64](124)}, false, "tokens 125 > 124"},
		{"cost", traceParams{MaxCostUSD: ptr(0.25)}, true, "cost in USD 0.25 <= 0.25"},
		{"too much cost", traceParams{MaxCostUSD: ptr(0.2)}, false, "cost in USD 0.25 > 0.2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check(t, build(t, tt.params), e, tt.passed, tt.evidence)
		})
	}
}

func TestTraceUnknownIsNotZero(t *testing.T) {
	t.Parallel()
	session := events(trace.Event{Kind: trace.KindStop})
	n := func(v int64) *int64 { return &v }
	for _, tt := range []struct {
		name   string
		params traceParams
		usage  *trace.Usage
		want   string
	}{
		{"turns", traceParams{MaxTurns: ptr(9)}, nil, "max_turns cannot be graded: the turns of this agent were not measured"},
		{"no usage", traceParams{MaxTokens: n(9)}, nil, "max_tokens cannot be graded: input, output of this agent was not measured"},
		{"no output", traceParams{MaxTokens: n(9)}, &trace.Usage{Input: n(1), CacheRead: n(1), CacheWrite: n(1)},
			"max_tokens cannot be graded: output of this agent was not measured"},
		{"a negative write", traceParams{MaxTokens: n(9)}, &trace.Usage{Input: n(1), CacheWrite: n(-1), Output: n(1)},
			"max_tokens cannot be graded: cache_write of this agent was not measured"},
		{"a negative count", traceParams{MaxTokens: n(9)}, &trace.Usage{Input: n(-5), CacheRead: n(1), CacheWrite: n(1), Output: n(1)},
			"max_tokens cannot be graded: input of this agent was not measured"},
		{"no usage, cost", traceParams{MaxCostUSD: ptr(1.0)}, nil, "max_cost_usd cannot be graded: the cost of this agent was not measured"},
		{"no cost", traceParams{MaxCostUSD: ptr(1.0)}, &trace.Usage{Input: n(1)}, "max_cost_usd cannot be graded: the cost of this agent was not measured"},
		{"cost NaN", traceParams{MaxCostUSD: ptr(1.0)}, &trace.Usage{CostUSD: ptr(math.NaN())}, "max_cost_usd cannot be graded: the cost of this agent is told as NaN"},
		{"cost below zero", traceParams{MaxCostUSD: ptr(1.0)}, &trace.Usage{CostUSD: ptr(-1.0)}, "max_cost_usd cannot be graded: the cost of this agent is told as -1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkError(t, build(t, tt.params), Evidence{Trace: session, Usage: tt.usage}, tt.want)
		})
	}
	// A provider without cache writes has none to tell of.
	for _, limit := range []int64{6, 5} {
		usage := &trace.Usage{Input: n(3), CacheRead: n(2), Output: n(1)}
		sign := map[bool]string{true: "<=", false: ">"}[limit == 6]
		check(t, build(t, traceParams{MaxTokens: n(limit)}), Evidence{Trace: session, Usage: usage}, limit == 6, fmt.Sprintf("tokens 6 %s %d", sign, limit))
	}
	// A lower bound that is over the limit is enough to know that the limit is broken.
	e := Evidence{Trace: session, Usage: &trace.Usage{Input: n(10)}}
	check(t, build(t, traceParams{MaxTokens: n(9)}), e, false, "tokens 10 > 9")
	e.Usage = &trace.Usage{Input: n(math.MaxInt64), CacheRead: n(math.MaxInt64), CacheWrite: n(math.MaxInt64), Output: n(math.MaxInt64)}
	check(t, build(t, traceParams{MaxTokens: n(9)}), e, false, "tokens 9223372036854775804 > 9")
}

func TestTraceThatIsNotThereCannotBeGraded(t *testing.T) {
	t.Parallel()
	g := build(t, traceParams{ForbidTools: []string{"fetch"}})
	checkError(t, g, Evidence{}, "the cell has no trace")
	checkError(t, g, Evidence{Trace: events()}, "the trace has no event")
	var torn iter.Seq2[trace.Event, error] = func(yield func(trace.Event, error) bool) {
		_ = yield(trace.Event{Kind: trace.KindSessionStart}, nil) && yield(trace.Event{}, errors.New("line 2 is torn"))
	}
	checkError(t, g, Evidence{Trace: torn}, "read the trace: line 2 is torn")
}

func TestTraceThatWasCutProvesNoAbsence(t *testing.T) {
	t.Parallel()
	cut := events(called("1", "Read", trace.ToolRead),
		trace.Event{Kind: trace.KindError, Err: &trace.Fault{Class: trace.ClassWarning, Detail: "truncated: the trace passed 67108864 bytes"}},
		trace.Event{Kind: trace.KindStop})
	e := Evidence{Trace: cut}
	check(t, build(t, traceParams{ForbidTools: []string{"fetch"}, MaxToolCalls: ptr(5), RequireTools: []string{"read"}}), e, false,
		"calls of fetch: 0; tool calls 1 <= 5; the trace was too long and was cut, so calls may be missing; holds: uses of read: 1")
	check(t, build(t, traceParams{RequireTools: []string{"read"}}), e, true, "uses of read: 1; the trace was too long and was cut, so calls may be missing")
}
