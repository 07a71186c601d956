package bench

import (
	"math"
	"slices"

	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/stats"
)

// A Power is what one comparison of a plan could find, and what it takes, before it is run. Chances are 0 to 1.
type Power struct {
	Base           ArmID    `json:"base"` // the head itself where a stored baseline will be compared with
	Head           ArmID    `json:"head"`
	Cases          int      `json:"cases"`
	Trials         int      `json:"trials"` // a side of the case with the fewest
	Alpha          float64  `json:"alpha"`  // share of the family's level
	SD             float64  `json:"sd"`     // of the case differences
	Measured       bool     `json:"sd_measured"`
	ChanceShare    *float64 `json:"sd_chance_share"` // of its square, that more trials shrink; nil when not measured
	MDEPP          *float64 `json:"mde_pp"`          // nil with one case
	MDEMaxPP       float64  `json:"mde_max_pp"`
	Finds          []Find   `json:"finds"`
	Cells          int      `json:"screen_trials"`   // of both sides
	ExpectedTrials float64  `json:"expected_trials"` // fresh ones included, when nothing changed and none is stopped early
	MostTrials     int      `json:"most_trials"`
	BuyTrials      *int     `json:"buy_trials"` // a side of each case, for mde_max_pp; nil: no number will do
	BuyCases       *int     `json:"buy_cases"`  // of as many trials
}

// A Find is the chance that one case whose rate changes is named, and so regresses the suite.
type Find struct {
	From   float64  `json:"from"`
	To     float64  `json:"to"`
	Screen float64  `json:"screen_alone"`
	Fresh  *float64 `json:"with_fresh_trials"` // nil: no case is run again
}

// changes that a Power tells the chances of.
var changesOfOne = [][2]float64{{0.95, 0.02}, {1, 0.5}}

// PowerOf says what each comparison that gates could find, from the benchmark of a plan without results. measured may be
// nil; it is the benchmark of an earlier run, whose scatter then takes the place of what is assumed.
func PowerOf(planned Benchmark, measured *Benchmark) []Power {
	var gating []Comparison
	for _, c := range planned.Comparisons {
		if c.Gates {
			gating = append(gating, c)
		}
	}
	if len(gating) == 0 {
		gating = planned.withThemselves()
	}
	out := []Power{}
	for _, c := range gating {
		out = append(out, c.power(planned.planned(), c.scatterIn(measured)))
	}
	return out
}

// withThemselves sets each arm under test against itself: as a stored baseline of equal size will be.
func (b Benchmark) withThemselves() []Comparison {
	r, sides, g := b.roster(), b.sides(), b.planned()
	var heads []side
	for _, a := range b.Arms {
		if r.underTest(a.ArmID) {
			heads = append(heads, sides[a.ArmID])
		}
	}
	var out []Comparison
	for _, head := range heads {
		out = append(out, compare(pair(axisBaseline, head, head, b.notAdmitted()), g, g.Alpha/float64(len(heads))))
	}
	return out
}

// A scatter is the standard deviation of case differences that was measured.
type scatter struct {
	floor, sd, trials float64 // trials: mean a side
	chanceShare       *float64
}

// scatterIn is what the same comparison showed in an earlier run; nil when that does not tell.
func (c Comparison) scatterIn(b *Benchmark) *scatter {
	if b == nil {
		return nil
	}
	at := slices.IndexFunc(b.Comparisons, func(o Comparison) bool { return o.Base.ID == c.Base.ID && o.Head.ID == c.Head.ID && o.NPairs > 1 })
	if at < 0 {
		return nil
	}
	var base, head []stats.Tally
	var s scatter
	for _, p := range b.Comparisons[at].PCases {
		base, head = append(base, p.Base.tally()), append(head, p.Head.tally())
		s.trials += float64(p.Base.N+p.Head.N) / 2
	}
	s.trials /= float64(len(base))
	s.floor, s.sd = stats.SuiteSD(base, head)
	if split, ok := stats.VarianceSplit(base, head); ok && split.VarDiff > slack {
		share := math.Min(1, split.Chance/split.VarDiff)
		s.chanceShare = &share
	}
	return &s
}

// at is the same scatter with another number of trials a side.
func (s scatter) at(trials int) scatter {
	stays := math.Max(0, s.sd*s.sd-s.floor*s.floor)
	s.floor *= math.Sqrt(s.trials / float64(trials))
	s.sd, s.trials = math.Sqrt(stays+s.floor*s.floor), float64(trials)
	return s
}

func (c Comparison) power(g result.Gate, known *scatter) Power {
	p := Power{Base: c.Base.ID, Head: c.Head.ID, Cases: len(c.Unpaired), Alpha: c.Alpha, MDEMaxPP: g.MDEMaxPP, Measured: known != nil, Finds: []Find{}}
	for _, x := range c.Unpaired { // nothing has run, so no case has a scored trial
		if fewest := min(x.Base.Planned, x.Head.Planned); p.Trials == 0 || fewest < p.Trials {
			p.Trials = fewest
		}
		p.Cells += x.Base.Planned + x.Head.Planned
	}
	if p.Trials == 0 {
		return p // a case without trials on a side compares nothing
	}
	screen := stats.Screen{Cases: p.Cases, Trials: p.Trials, Level: p.Alpha / 2, Fall: suspectFall}
	if g.Confirm != nil && p.Trials <= mostScreen && c.Axis != axisBaseline {
		screen.Again, screen.Fresh = g.Confirm.Cases, g.Confirm.Trials
	}
	p.chances(screen)
	if known == nil {
		sd := screen.MeanSD()
		known = &scatter{floor: sd, sd: sd, trials: float64(p.Trials)}
	}
	p.size(known.at(p.Trials))
	return p
}

// chances fills in what follows from the exact tests of single cases.
func (p *Power) chances(s stats.Screen) {
	for _, rates := range changesOfOne {
		f := Find{From: rates[0], To: rates[1], Screen: s.ByItself(rates[0], rates[1])}
		if s.Again > 0 {
			fresh := s.ByFresh(rates[0], rates[1])
			f.Fresh = &fresh
		}
		p.Finds = append(p.Finds, f)
	}
	p.ExpectedTrials = float64(p.Cells) + 2*float64(s.Fresh)*s.Suspects()
	p.MostTrials = p.Cells + 2*s.Fresh*min(s.Again, s.Cases)
}

// size fills in what follows from the scatter of the case differences.
func (p *Power) size(s scatter) {
	p.SD, p.ChanceShare = s.sd, s.chanceShare
	limit := p.MDEMaxPP / 100
	if k, ok := stats.CasesFor(s.sd, p.Alpha, limit); ok {
		p.BuyCases = &k
	}
	if p.Cases < 2 {
		return
	}
	mde := 100 * stats.MDE(p.Cases, s.sd, p.Alpha, stats.WantedPower)
	p.MDEPP = &mde
	if k, ok := stats.TrialsFor(p.Cases, s.floor, s.sd, s.trials, p.Alpha, limit); ok {
		p.BuyTrials = &k
	}
}
