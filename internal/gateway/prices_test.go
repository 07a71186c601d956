package gateway

import (
	"math"
	"regexp"
	"testing"
	"time"
)

func TestPriceLists(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, l := range PriceLists() {
		if _, err := time.Parse(time.DateOnly, l.AsOf); err != nil || l.Provider == "" || l.Source == "" || len(l.Models) == 0 {
			t.Errorf("list %s of %s by %q: %v", l.Provider, l.AsOf, l.Source, err)
		}
		for name, p := range l.Models {
			if seen[name] {
				t.Errorf("%s is listed twice", name)
			}
			seen[name] = true
			checkPrice(t, name, p)
			if (p.Long != nil) && p.LongOver == 0 {
				t.Errorf("%s has a long price and no length", name)
			}
			if p.Long != nil {
				checkPrice(t, name+" long", *p.Long)
				if *p.Long.Input <= *p.Input || *p.Long.Output <= *p.Output {
					t.Errorf("%s costs less when it is long", name)
				}
			}
		}
	}
}

// checkPrice holds a price to the order that all providers keep: reading a cache is cheapest, then input, then writing a
// cache, and output costs most.
func checkPrice(t *testing.T, name string, p Price) {
	t.Helper()
	if p.Input == nil || p.Output == nil || p.CacheRead == nil {
		t.Errorf("%s has no input, output or cache price", name)
		return
	}
	order := []*float64{p.CacheRead, p.Input, p.CacheWrite, p.CacheWrite1h, p.Output}
	last := 0.0
	for _, n := range order {
		if n == nil {
			continue
		}
		if *n <= last {
			t.Errorf("%s: the prices %v are out of order", name, *n)
		}
		last = *n
	}
	if !regexp.MustCompile(`^[a-z0-9.-]+( long)?$`).MatchString(name) {
		t.Errorf("%q is not the name of a model", name)
	}
}

func TestPriceOf(t *testing.T) {
	t.Parallel()
	own := 7.0
	ofSuite := map[string]Price{"mine": {Input: &own}, "gpt-5": {Input: &own}}
	for name, want := range map[string]float64{
		"claude-haiku-4-5": 1, "claude-haiku-4-5-20251001": 1, "gpt-5": 7, "gpt-5-2025-08-07": 7, "mine": 7, "mine-20260101": 7, "gpt-4o-2024-08-06": 2.5,
		"gpt-5-pro": 0, "claude": 0, "": 0, "-20251001": 0, "anthropic/claude-haiku-4-5": 0, "claude-haiku-4-5-2025100": 0,
	} {
		p, ok := PriceOf(name, ofSuite)
		if ok != (want > 0) || ok && *p.Input != want {
			t.Errorf("%q has the price %+v, %v", name, p, ok)
		}
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	n := func(v int64) *int64 { return &v }
	r := func(v float64) *float64 { return &v }
	full := Price{Input: r(3), Output: r(15), CacheRead: r(0.3), CacheWrite: r(3.75), CacheWrite1h: r(6), LongOver: 200000, Long: &Price{Input: r(6), Output: r(22.5)}}
	for name, c := range map[string]struct {
		price Price
		t     tokens
		want  *float64
	}{
		"all":                       {full, tokens{input: n(1000), cacheRead: n(200), cacheWrite: n(30), output: n(50)}, r(0.0039225)},
		"an hour":                   {full, tokens{input: n(0), cacheWrite: n(30), cacheWrite1h: n(10), output: n(0)}, r(0.000135)},
		"no cache told":             {full, tokens{input: n(1000), output: n(50)}, r(0.00375)},
		"no input told":             {full, tokens{output: n(50)}, nil},
		"no output told":            {full, tokens{input: n(50)}, nil},
		"cache price not known":     {Price{Input: r(3), Output: r(15)}, tokens{input: n(1), output: n(1), cacheRead: n(1)}, nil},
		"cache price not needed":    {Price{Input: r(3), Output: r(15)}, tokens{input: n(1e6), output: n(0), cacheRead: n(0)}, r(3)},
		"no price of output":        {Price{Input: r(3)}, tokens{input: n(1), output: n(0)}, nil},
		"at the length":             {full, tokens{input: n(100000), cacheRead: n(100000), output: n(0)}, r(0.33)},
		"over the length":           {full, tokens{input: n(200001), output: n(0)}, r(1.200006)},
		"over, cached":              {full, tokens{input: n(100000), cacheRead: n(100001), output: n(0)}, nil},
		"over, price not known":     {Price{Input: r(3), Output: r(15), LongOver: 10}, tokens{input: n(11), output: n(1)}, nil},
		"free":                      {Price{Input: r(0), Output: r(0)}, tokens{input: n(11), output: n(1)}, r(0)},
		"more of an hour than all":  {full, tokens{input: n(0), output: n(0), cacheWrite: n(1), cacheWrite1h: n(2)}, nil},
		"an hour without the total": {full, tokens{input: n(0), output: n(0), cacheWrite1h: n(2)}, nil},
	} {
		got := c.price.cost(c.t)
		if (got == nil) != (c.want == nil) || got != nil && math.Abs(*got-*c.want) > 1e-12 {
			t.Errorf("%s costs %v, want %v", name, got, c.want)
		}
	}
}

// FuzzPrice prices any tokens of a model of any name: the cost is not known, or is what tokens can cost.
func FuzzPrice(f *testing.F) {
	f.Add("claude-haiku-4-5-20251001", int64(1000), int64(200), int64(30), int64(10), int64(50))
	f.Add("gemini-2.5-pro", int64(300000), int64(0), int64(0), int64(0), int64(1))
	f.Add("-2026-01-01\xff|../x", int64(-1), int64(1<<62), int64(1), int64(2), int64(0))
	f.Fuzz(func(t *testing.T, model string, input, read, write, hour, output int64) {
		p, ok := PriceOf(model, nil)
		if again, okAgain := PriceOf(undated(model), nil); ok && (!okAgain || again != p) {
			t.Errorf("%q has another price without its date", model)
		}
		cost := p.cost(tokens{input: counted(input), cacheRead: counted(read), cacheWrite: counted(write), cacheWrite1h: counted(hour), output: counted(output)})
		if cost != nil && (!ok || math.IsNaN(*cost) || math.IsInf(*cost, 0) || *cost < 0) {
			t.Errorf("%q costs %v", model, *cost)
		}
	})
}

// counted is a number of tokens; one that is none is not known.
func counted(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}
