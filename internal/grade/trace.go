package grade

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
)

type traceParams struct {
	RequireTools []string `yaml:"require_tools" doc:"tools that must be used; an agent's own name, or a kind such as edit or execute"`
	ForbidTools  []string `yaml:"forbid_tools" doc:"tools that must not be called, also not in vain"`
	Order        []string `yaml:"order" doc:"tools that must be used in this order, others may come between"`
	MaxToolCalls *int     `yaml:"max_tool_calls" doc:"most tool calls, those of sub-agents and denied ones included" rule:"min=0"`
	MaxTurns     *int     `yaml:"max_turns" doc:"most answers of the model" rule:"min=0"`
	MaxTokens    *int64   `yaml:"max_tokens" doc:"most tokens: input, cache reads, cache writes and output together" rule:"min=0"`
	MaxCostUSD   *float64 `yaml:"max_cost_usd" doc:"most money" rule:"min=0"`
}

// transcript grades what the agent did by its trace. A limit on what nobody measured cannot be graded.
type transcript struct{ traceParams }

var _ Grader = transcript{}

func buildTrace(s Settings) (Grader, error) {
	var p traceParams
	if err := s.Decode(&p); err != nil {
		return nil, err
	}
	var faults []error
	for _, list := range []struct {
		key   string
		tools []string
	}{{"require_tools", p.RequireTools}, {"forbid_tools", p.ForbidTools}, {"order", p.Order}} {
		if i := slices.Index(list.tools, ""); i >= 0 {
			faults = append(faults, s.Fault(fmt.Sprintf("%s[%d]", list.key, i), "the name of a tool is empty", ""))
		}
	}
	if p.text() == "" {
		faults = append(faults, s.Fault("", "nothing is asserted", "name at least one tool or limit"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return transcript{p}, nil
}

// text is what the assertion says.
func (p traceParams) text() string {
	var parts []string
	if len(p.RequireTools) > 0 {
		parts = append(parts, "uses "+strings.Join(p.RequireTools, ", "))
	}
	if len(p.ForbidTools) > 0 {
		parts = append(parts, "never calls "+strings.Join(p.ForbidTools, ", "))
	}
	if len(p.Order) > 0 {
		parts = append(parts, "uses in order "+strings.Join(p.Order, ", "))
	}
	if p.MaxToolCalls != nil {
		parts = append(parts, fmt.Sprintf("tool calls <= %d", *p.MaxToolCalls))
	}
	if p.MaxTurns != nil {
		parts = append(parts, fmt.Sprintf("turns <= %d", *p.MaxTurns))
	}
	if p.MaxTokens != nil {
		parts = append(parts, fmt.Sprintf("tokens <= %d", *p.MaxTokens))
	}
	if p.MaxCostUSD != nil {
		parts = append(parts, fmt.Sprintf("cost <= $%v", *p.MaxCostUSD))
	}
	return strings.Join(parts, "; ")
}

func (t transcript) Grade(ctx context.Context, e Evidence) (result.Score, error) {
	var v verdict
	err := t.judge(ctx, e, &v)
	return score(t.text(), v.passed(), v.evidence(), err)
}

func (t transcript) judge(ctx context.Context, e Evidence, v *verdict) error {
	calls, cut, err := readCalls(ctx, e)
	if err != nil {
		return err
	}
	t.judgeTools(calls, cut, v)
	return errors.Join(t.judgeTurns(e, v), t.judgeTokens(e, v), t.judgeCost(e, v))
}

// A call is one tool call of the trace.
type call struct {
	name, kind string
	denied     bool
}

func (c call) is(tool string) bool { return c.name == tool || c.kind == tool }

// readCalls reads the tool calls in their order. cut tells that the trace was too long to be kept whole.
func readCalls(ctx context.Context, e Evidence) (calls []call, cut bool, err error) {
	if e.Trace == nil {
		return nil, false, errors.New("the cell has no trace")
	}
	events := 0
	waiting := map[string]int{} // tool call id: index of the call whose result is to come
	for event, err := range e.Trace {
		switch {
		case err != nil:
			return nil, false, fmt.Errorf("read the trace: %w", err)
		case ctx.Err() != nil:
			return nil, false, context.Cause(ctx)
		}
		events++
		switch tool := event.Tool; {
		case event.Kind == trace.KindToolCall && tool != nil:
			waiting[tool.ID] = len(calls)
			calls = append(calls, call{name: tool.Name, kind: string(tool.Kind)})
		case event.Kind == trace.KindToolResult && tool != nil:
			if i, ok := waiting[tool.ID]; ok && tool.Status == trace.StatusDenied {
				calls[i].denied = true
			}
		case event.Kind == trace.KindError && event.Err != nil && event.Err.Class == trace.ClassWarning:
			cut = cut || strings.HasPrefix(event.Err.Detail, "truncated:")
		}
	}
	if events == 0 {
		return nil, false, errors.New("the trace has no event")
	}
	return calls, cut, nil
}

// judgeTools judges which tools were called. A denied call did not use a tool, but it did call it. What a trace that was
// cut does not show may have happened all the same.
func (t transcript) judgeTools(calls []call, cut bool, v *verdict) {
	count := func(tool string, denied bool) (n int) {
		for _, c := range calls {
			if c.is(tool) && (denied || !c.denied) {
				n++
			}
		}
		return n
	}
	for _, tool := range t.RequireTools {
		n := count(tool, false)
		v.add(n > 0, "uses of %s: %d", tool, n)
	}
	for _, tool := range t.ForbidTools {
		n := count(tool, true)
		v.add(n == 0 && !cut, "calls of %s: %d", tool, n)
	}
	if len(t.Order) > 0 {
		done := 0
		for _, c := range calls {
			if done < len(t.Order) && !c.denied && c.is(t.Order[done]) {
				done++
			}
		}
		if done == len(t.Order) {
			v.add(true, "the order was kept")
		} else {
			v.add(false, "%s did not come in its place, number %d of the order", t.Order[done], done+1)
		}
	}
	if limit := t.MaxToolCalls; limit != nil {
		v.add(len(calls) <= *limit && !cut, "tool calls %s", against(len(calls), *limit))
	}
	if cut {
		v.note("the trace was too long and was cut, so calls may be missing")
	}
}

func (t transcript) judgeTurns(e Evidence, v *verdict) error {
	if t.MaxTurns == nil {
		return nil
	}
	if e.Turns == nil {
		return errors.New("max_turns cannot be graded: the turns of this agent were not measured")
	}
	v.add(*e.Turns <= *t.MaxTurns, "turns %s", against(*e.Turns, *t.MaxTurns))
	return nil
}

// judgeTokens compares the total. When a part of it was not measured, the rest is a lower bound: it can break the limit,
// but not show that the limit holds. A cache is no such part: a provider that tells nothing of reads from one counts them
// as input, and one that tells nothing of writes has none.
func (t transcript) judgeTokens(e Evidence, v *verdict) error {
	if t.MaxTokens == nil {
		return nil
	}
	usage := trace.Usage{}
	if e.Usage != nil {
		usage = *e.Usage
	}
	var total int64
	var unknown []string
	for _, part := range []struct {
		name    string
		count   *int64
		ofCache bool
	}{{"input", usage.Input, false}, {"cache_read", usage.CacheRead, true}, {"cache_write", usage.CacheWrite, true}, {"output", usage.Output, false}} {
		switch {
		case part.count == nil && part.ofCache:
		case part.count == nil || *part.count < 0:
			unknown = append(unknown, part.name)
		default:
			total += min(*part.count, math.MaxInt64/4) // an absurd number must not overflow into a small one
		}
	}
	if len(unknown) > 0 && total <= *t.MaxTokens {
		return fmt.Errorf("max_tokens cannot be graded: %s of this agent was not measured", strings.Join(unknown, ", "))
	}
	v.add(total <= *t.MaxTokens, "tokens %s", against(total, *t.MaxTokens))
	return nil
}

func (t transcript) judgeCost(e Evidence, v *verdict) error {
	if t.MaxCostUSD == nil {
		return nil
	}
	if e.Usage == nil || e.Usage.CostUSD == nil {
		return errors.New("max_cost_usd cannot be graded: the cost of this agent was not measured")
	}
	cost := *e.Usage.CostUSD
	if !(cost >= 0) {
		return fmt.Errorf("max_cost_usd cannot be graded: the cost of this agent is told as %v", cost)
	}
	v.add(cost <= *t.MaxCostUSD, "cost in USD %s", against(cost, *t.MaxCostUSD))
	return nil
}

// against prints a number and the limit that it keeps or breaks, such as 6 <= 8.
func against[N int | int64 | float64](n, limit N) string {
	sign := "<="
	if n > limit {
		sign = ">"
	}
	return fmt.Sprintf("%v %s %v", n, sign, limit)
}
