package bench

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/stats"
)

// An arm gathers the cells of one harness, model and condition while they come in.
type arm struct {
	id                  ArmID
	baseline, simulated bool
	cases               map[string]*caseCells
	fresh               map[string]Coverage // trials of the cases that were run again, by name
	drift               map[string]Coverage // trials that check stored results of the arm; they are in cases too
	models, versions    map[string]bool     // as reported by scored cells
	cost                Cost
	beside              BesideCost
	held                Held
}

// caseCells are the cells of one case in one arm. Only cells of the screen are here: trials that were added because of
// what the screen showed would bend a rate.
type caseCells struct {
	count                         Coverage
	cost, tokens, turns, duration []float64 // of scored cells, where known
	scored, passed                scopes
}

// A size is a measured diff scope, with the facts beside it where they are known.
type size struct {
	*Scope
	facts *DiffFacts
}

// scopes are the measured sizes of a set of cells.
type scopes struct {
	sizes      []size
	unmeasured int
}

func (s *scopes) add(r Run) {
	if r.DiffScope == nil {
		s.unmeasured++
		return
	}
	s.sizes = append(s.sizes, size{r.DiffScope, r.DiffFacts})
}

func (s *scopes) values(number func(Scope) int) []float64 {
	v := make([]float64, len(s.sizes))
	for i, size := range s.sizes {
		v[i] = float64(number(*size.Scope))
	}
	return v
}

// known are the values of a number that not every size has.
func (s *scopes) known(number func(size) *float64) []float64 {
	var v []float64
	for _, size := range s.sizes {
		v = appendKnown(v, number(size))
	}
	return v
}

// median of one number of the sizes; nil without any.
func (s *scopes) median(number func(Scope) int) *float64 {
	return medianOf(s.values(number))
}

// newArm is an arm without cells.
func (o *order) newArm(id ArmID) *arm {
	return &arm{
		id: id, baseline: id.Condition == o.baseline,
		cases: make(map[string]*caseCells), fresh: make(map[string]Coverage), drift: make(map[string]Coverage),
		models: make(map[string]bool), versions: make(map[string]bool),
	}
}

// take counts a planned cell where its phase has it counted; r is nil when there is no result.
func (a *arm) take(c cell, r *record) {
	switch c.phase() {
	case ConfirmPhase:
		a.addFresh(c.Case, r)
	case plan.Drift:
		a.addDrift(c.Case, r)
		a.add(c.Case, r)
	default:
		a.add(c.Case, r)
	}
}

// add counts a planned cell of a rate; r is nil when there is no result.
func (a *arm) add(name string, r *record) {
	c := a.cases[name]
	if c == nil {
		c = &caseCells{}
		a.cases[name] = c
	}
	c.count.add(r)
	if r == nil || !r.run.Status.Scored() {
		return
	}
	note(a.models, r.model)
	note(a.versions, r.version)
	c.cost = appendKnown(c.cost, r.agentCost)
	c.turns = appendKnown(c.turns, r.run.Turns)
	c.tokens = appendKnown(c.tokens, r.run.Result.Tokens)
	c.duration = appendKnown(c.duration, r.run.Result.TimeSeconds)
	c.scored.add(*r.run)
	if r.run.Status == result.Passed {
		c.passed.add(*r.run)
	}
}

// hold counts a cell that was run by whether it had its condition.
func (a *arm) hold(r *record) {
	switch {
	case r.run.Status == result.Skipped:
	case r.verified != nil && !*r.verified:
		a.held.NotHeld++
	case r.verified != nil:
		a.held.Verified++
	default:
		a.held.Unknown++
	}
}

// addFresh counts a planned cell of a case that is run again. Such cells are in no rate, median or coverage.
// One that was left out because it could change nothing is no loss.
func (a *arm) addFresh(name string, r *record) {
	c := a.fresh[name]
	if r != nil && r.run.Reason == string(result.Decided) {
		return
	}
	c.add(r)
	a.fresh[name] = c
}

// addDrift counts a planned cell that checks stored results.
func (a *arm) addDrift(name string, r *record) {
	c := a.drift[name]
	c.add(r)
	a.drift[name] = c
}

// add counts a planned cell; r is nil when there is no result. Share is left to plus.
func (c *Coverage) add(r *record) {
	c.Planned++
	if r == nil {
		c.Pending++
		return
	}
	switch r.run.Status {
	case result.Passed:
		c.Passed++
	case result.Failed:
		c.Failed++
	case result.Errored:
		c.Errored++
	case result.Skipped:
		c.Skipped++
	}
	if r.run.Status.Scored() {
		c.Scored++
	}
}

// spend adds what all attempts of a cell cost, whatever became of it.
func (a *arm) spend(r *record) {
	for _, usd := range r.costs {
		a.cost.add(usd)
	}
	for _, b := range r.beside {
		a.beside.add(b)
	}
}

func note(set map[string]bool, value string) {
	if value != "" {
		set[value] = true
	}
}

func appendKnown[T int | int64 | float64](to []float64, v *T) []float64 {
	if v == nil {
		return to
	}
	return append(to, float64(*v))
}

// screen is the tally of a case; empty when the arm has none.
func (a *arm) screen(name string) stats.Tally {
	if c := a.cases[name]; c != nil {
		return stats.Tally{Passed: c.count.Passed, N: c.count.Scored}
	}
	return stats.Tally{}
}

func (a *arm) coverage() Coverage {
	var sum Coverage
	for _, c := range a.cases {
		sum = sum.plus(c.count)
	}
	return sum
}

// tallies are those of the cases that have a rate, in the order of names.
func (a *arm) tallies() []stats.Tally {
	var out []stats.Tally
	for _, name := range sortedKeys(a.cases) {
		if t := a.screen(name); t.N > 0 {
			out = append(out, t)
		}
	}
	return out
}

// summary is the arm as it stands in benchmark.json.
func (a *arm) summary() Arm {
	out := Arm{
		ArmID: a.id, Baseline: a.baseline, Simulated: a.simulated, Models: sortedKeys(a.models), Versions: sortedKeys(a.versions),
		Coverage: a.coverage(), NCases: len(a.cases), PassAt: []PassAt{}, Cost: a.cost, Beside: a.beside.both(),
		Held:     a.held,
		CostUSD:  a.overCases(func(c *caseCells) []float64 { return c.cost }),
		Tokens:   a.overCases(func(c *caseCells) []float64 { return c.tokens }),
		Turns:    a.overCases(func(c *caseCells) []float64 { return c.turns }),
		Duration: a.overCases(func(c *caseCells) []float64 { return c.duration }),
		DiffScope: ArmScope{
			Scored:  a.scope(func(c *caseCells) scopes { return c.scored }),
			Passed:  a.scope(func(c *caseCells) scopes { return c.passed }),
			Signals: a.signals(),
		},
	}
	tallies := a.tallies()
	if len(tallies) == 0 {
		return out
	}
	value, lo, hi, _ := stats.CaseMeanInterval(tallies, confidence)
	out.PassRate = &Estimate{value, &lo, &hi, len(tallies)}
	if len(tallies) > 1 {
		se := stats.ClusterSE(tallies)
		out.SE = &se
	}
	most := 0
	for _, c := range a.cases {
		most = max(most, c.count.Planned)
	}
	for k := 1; k <= min(most, mostK); k++ {
		out.PassAt = append(out.PassAt, passAt(tallies, k))
	}
	return out
}

// ofCase is what the arm did on one of its cases.
func (a *arm) ofCase(name string) CaseArm {
	c := a.cases[name]
	out := CaseArm{Case: name, ArmID: a.id, Coverage: c.count}
	out.Coverage.Share = share(c.count.Scored, c.count.Planned)
	if fresh, ok := a.fresh[name]; ok {
		fresh.Share = share(fresh.Scored, fresh.Planned)
		out.Confirm = &fresh
	}
	if drift, ok := a.drift[name]; ok {
		drift.Share = share(drift.Scored, drift.Planned)
		out.Drift = &drift
	}
	if lo, hi, err := stats.Wilson(c.count.Passed, c.count.Scored, confidence); err == nil { // no error: there is a rate
		out.PassRate = &Estimate{a.screen(name).Rate(), &lo, &hi, c.count.Scored}
	}
	out.FilesTouched = c.passed.median(func(s Scope) int { return s.FilesTouched })
	out.LinesChanged = c.passed.median(Scope.LinesChanged)
	out.LinesAdded = c.passed.median(func(s Scope) int { return s.LinesAdded })
	out.LinesRemoved = c.passed.median(func(s Scope) int { return s.LinesRemoved })
	out.Hunks = c.passed.median(func(s Scope) int { return s.Hunks })
	out.CostUSD, out.Tokens, out.Turns, out.Duration = medianOf(c.cost), medianOf(c.tokens), medianOf(c.turns), medianOf(c.duration)
	return out
}

// mostK bounds the k of pass@k.
const mostK = 10

func passAt(tallies []stats.Tally, k int) PassAt {
	least := slices.MinFunc(tallies, func(a, b stats.Tally) int { return cmp.Compare(a.N, b.N) }).N
	if k > least {
		return PassAt{K: k, Reason: fmt.Sprintf("a case has %d scored %s", least, plural(least, "trial", "trials"))}
	}
	anyOf, all, _ := stats.PassAt(tallies, k) // k is in range, so it cannot fail
	return PassAt{K: k, Any: &anyOf, All: &all}
}

// overCases is the median over cases of the median of a case's values.
func (a *arm) overCases(values func(*caseCells) []float64) *Estimate {
	var medians []float64
	for _, c := range a.cases { // in any order: they are sorted by value
		if m := medianOf(values(c)); m != nil {
			medians = append(medians, *m)
		}
	}
	return medianEstimate(medians)
}

func (a *arm) scope(of func(*caseCells) scopes) ScopeMedians {
	var out ScopeMedians
	for _, c := range a.cases {
		out.Cells += len(of(c).sizes)
		out.Unmeasured += of(c).unmeasured
	}
	over := func(number func(Scope) int) *Estimate {
		return a.overCases(func(c *caseCells) []float64 {
			s := of(c)
			return s.values(number)
		})
	}
	out.FilesTouched = over(func(s Scope) int { return s.FilesTouched })
	out.LinesChanged = over(Scope.LinesChanged)
	out.LinesAdded = over(func(s Scope) int { return s.LinesAdded })
	out.LinesRemoved = over(func(s Scope) int { return s.LinesRemoved })
	out.Hunks = over(func(s Scope) int { return s.Hunks })
	overKnown := func(number func(size) *float64) *Estimate {
		return a.overCases(func(c *caseCells) []float64 {
			s := of(c)
			return s.known(number)
		})
	}
	out.EffectiveLines = overKnown(size.effectiveLines)
	out.TestShare, out.DocsShare, out.GeneratedShare = overKnown(size.testShare), overKnown(size.docsShare), overKnown(size.generatedShare)
	out.ExcessLines, out.Ratio = overKnown(size.excessLines), overKnown(size.ratio)
	return out
}

// summarize makes skill-creator's summary of one condition from all arms that have it.
func summarize(arms []*arm) Summary {
	var rates, seconds, tokens []float64
	for _, a := range arms {
		for _, t := range a.tallies() {
			rates = append(rates, t.Rate())
		}
		for _, name := range sortedKeys(a.cases) {
			seconds = append(seconds, a.cases[name].duration...)
			tokens = append(tokens, a.cases[name].tokens...)
		}
	}
	return Summary{PassRate: SpreadOf(rates), TimeSeconds: SpreadOf(seconds), Tokens: SpreadOf(tokens)}
}

// SpreadOf describes values; nil when there are none.
func SpreadOf(v []float64) *Spread {
	if len(v) == 0 {
		return nil
	}
	s := &Spread{Mean: stats.Mean(v), Min: slices.Min(v), Max: slices.Max(v), N: len(v)}
	if len(v) > 1 {
		s.StdDev = stats.StdDev(v)
	}
	return s
}

// delta is candidate minus baseline.
func delta(candidate, baseline Summary) *Delta {
	text := func(format string, c, b *Spread) *string {
		if c == nil || b == nil {
			return nil
		}
		s := fmt.Sprintf(format, c.Mean-b.Mean)
		return &s
	}
	return &Delta{
		PassRate:    text("%+.2f", candidate.PassRate, baseline.PassRate),
		TimeSeconds: text("%+.1f", candidate.TimeSeconds, baseline.TimeSeconds),
		Tokens:      text("%+.0f", candidate.Tokens, baseline.Tokens),
	}
}

// sortedKeys is never nil: it may become a JSON list.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := slices.AppendSeq(make([]K, 0, len(m)), maps.Keys(m))
	slices.Sort(keys)
	return keys
}
