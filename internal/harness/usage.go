package harness

import "github.com/assay-ci/assay/internal/trace"

// noUsage is a usage that was measured and is zero.
func noUsage() *trace.Usage {
	return &trace.Usage{
		Input: new(int64), CacheRead: new(int64), CacheWrite: new(int64), Output: new(int64), Reasoning: new(int64),
		CostUSD: new(float64), Scope: "session", Source: "agent",
	}
}

// addUsage adds the usage of one step to that of a session, nil before the first. A number that one of the steps did not
// report is unknown for the session: a sum with a gap would look like a measurement.
func addUsage(sum *trace.Usage, step trace.Usage) *trace.Usage {
	step.Scope = "session"
	if sum == nil {
		return &step
	}
	return &trace.Usage{
		Input: plus(sum.Input, step.Input), CacheRead: plus(sum.CacheRead, step.CacheRead), CacheWrite: plus(sum.CacheWrite, step.CacheWrite),
		Output: plus(sum.Output, step.Output), Reasoning: plus(sum.Reasoning, step.Reasoning), CostUSD: plus(sum.CostUSD, step.CostUSD),
		Scope: "session", Source: step.Source,
	}
}

func plus[N int64 | float64](a, b *N) *N {
	if a == nil || b == nil {
		return nil
	}
	sum := *a + *b
	return count(&sum) // a sum that overflowed is not one
}

// claimed is a usage as an agent reported it: its source is the agent whatever it says, and a negative number is unknown.
func claimed(u trace.Usage) trace.Usage {
	u.Source = "agent"
	u.Input, u.CacheRead, u.CacheWrite = count(u.Input), count(u.CacheRead), count(u.CacheWrite)
	u.Output, u.Reasoning, u.CostUSD = count(u.Output), count(u.Reasoning), count(u.CostUSD)
	return u
}

func count[N int64 | float64](n *N) *N {
	if n == nil || *n < 0 {
		return nil
	}
	return n
}
