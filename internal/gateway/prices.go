package gateway

import (
	_ "embed"
	"encoding/json"
	"strings"
	"sync"
)

// A Price is what a model's tokens cost, in US dollars per million, at the standard rate. Nil is not known; a call that used
// tokens of an unknown price has an unknown cost. Fees that are not per token are not in it.
type Price struct {
	Input        *float64 `json:"input" yaml:"input"`                                       // without cached tokens
	Output       *float64 `json:"output" yaml:"output"`                                     // reasoning included
	CacheRead    *float64 `json:"cache_read,omitempty" yaml:"cache_read,omitempty"`         //
	CacheWrite   *float64 `json:"cache_write,omitempty" yaml:"cache_write,omitempty"`       // kept for five minutes
	CacheWrite1h *float64 `json:"cache_write_1h,omitempty" yaml:"cache_write_1h,omitempty"` // kept for one hour
	LongOver     int64    `json:"long_over,omitempty" yaml:"long_over,omitempty"`           // a prompt of more tokens, cached ones included, costs Long; 0: none does
	Long         *Price   `json:"long,omitempty" yaml:"long,omitempty"`                     // nil: not known
}

// A PriceList is what one provider asked for its models, as its source said on one day: a list that many keep up, not the
// provider's own page. What the source does not say is not in it.
type PriceList struct {
	Provider string           `json:"provider"`
	AsOf     string           `json:"as_of"`  // date on which every row was held against the source
	Source   string           `json:"source"` // with its version
	Models   map[string]Price `json:"models"`
}

//go:embed prices.json
var pricesJSON []byte

var priceLists = sync.OnceValue(func() []PriceList {
	var lists []PriceList
	if err := json.Unmarshal(pricesJSON, &lists); err != nil {
		panic("gateway: prices.json: " + err.Error())
	}
	return lists
})

// PriceLists are the prices that Assay knows. They age; those of a suite go before them.
func PriceLists() []PriceList { return priceLists() }

// PriceOf finds the price of a model: by its name, else by its name without the date of a snapshot. Those of a suite go before
// those that Assay knows.
func PriceOf(model string, ofSuite map[string]Price) (Price, bool) {
	for _, name := range []string{model, undated(model)} {
		if p, ok := ofSuite[name]; ok {
			return p, true
		}
		for _, l := range priceLists() {
			if p, ok := l.Models[name]; ok {
				return p, true
			}
		}
	}
	return Price{}, false
}

// undated is a model's name without a last part such as -20251001 or -2026-04-23.
func undated(model string) string {
	for _, layout := range []string{"-00000000", "-0000-00-00"} {
		if cut := len(model) - len(layout); cut > 0 && strings.Map(zeroed, model[cut:]) == layout {
			return model[:cut]
		}
	}
	return model
}

func zeroed(r rune) rune {
	if r >= '0' && r <= '9' {
		return '0'
	}
	return r
}

// cost is what an answer cost in US dollars; nil when a price or a number of tokens is not known. A provider that does not
// tell how many tokens came from a cache counts them as input.
func (p Price) cost(t tokens) *float64 {
	if t.input == nil || t.output == nil || orZero(t.cacheWrite1h) > orZero(t.cacheWrite) {
		return nil
	}
	if p.LongOver > 0 && *t.input+orZero(t.cacheRead)+orZero(t.cacheWrite) > p.LongOver {
		if p.Long == nil {
			return nil
		}
		p = *p.Long
	}
	sum, known := 0.0, true
	add := func(n int64, rate *float64) {
		if rate != nil {
			sum += float64(n) * *rate / 1e6
		} else if n > 0 {
			known = false
		}
	}
	add(*t.input, p.Input)
	add(*t.output, p.Output)
	add(orZero(t.cacheRead), p.CacheRead)
	add(orZero(t.cacheWrite)-orZero(t.cacheWrite1h), p.CacheWrite)
	add(orZero(t.cacheWrite1h), p.CacheWrite1h)
	if !known || p.Input == nil || p.Output == nil {
		return nil
	}
	return &sum
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
