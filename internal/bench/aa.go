package bench

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/stats"
)

// FalseAlarms says how often the gate cries wolf on a suite, from a run that set arms beside copies of themselves. The scored
// trials of each case are dealt to the two sides anew, each side as many as it had, and the gate's rule is asked what it says.
// What the rule would run again is drawn at the pass rate of both sides together. It cannot see what made the sides differ
// while they ran; the comparison itself can.
type FalseAlarms struct {
	Draws     int      `json:"draws"`     // of new sides
	Regressed Estimate `json:"regressed"` // share of them that the rule calls regressed, with Wilson's interval for so many draws
	Threshold Estimate `json:"threshold"` // share of them whose pass rate is more than 5 pp lower: what "fail below −5 pp" would say
}

// The draws, and the fall in percentage points that the rule of others fails at.
const (
	deals       = 2000
	plainFallPP = 5
)

// falseAlarms deals the trials of the comparisons that gate anew; nil when there are none
// that were measured well enough.
func (b *Benchmark) falseAlarms(g result.Gate, confirm *result.Confirm) *FalseAlarms {
	var tables []*table
	for _, c := range b.Comparisons {
		if c.Gates && c.Obstacle == nil && c.Verdict != Invalid && len(c.PCases) > 0 {
			tables = append(tables, newTable(c, g, confirm))
		}
	}
	if len(tables) == 0 {
		return nil
	}
	sum := sha256.Sum256([]byte(b.Metadata.Seed))
	r := rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])))
	regressed, fell := 0, 0
	for range deals {
		anyRegressed, anyFell := false, false
		for _, t := range tables {
			e := t.deal(r)
			anyRegressed = t.regressed(e) || anyRegressed
			anyFell = meanFallPP(e) > plainFallPP+slack || anyFell
		}
		if anyRegressed {
			regressed++
		}
		if anyFell {
			fell++
		}
	}
	return &FalseAlarms{Draws: deals, Regressed: shareOfDeals(regressed), Threshold: shareOfDeals(fell)}
}

func shareOfDeals(n int) Estimate {
	e := Estimate{Value: float64(n) / deals, N: deals}
	if lo, hi, err := stats.Wilson(n, deals, confidence); err == nil {
		e.Lo, e.Hi = &lo, &hi
	}
	return e
}

// A table is one comparison whose trials are dealt again and again. The totals of its cases stay, so p-values come back and
// are kept.
type table struct {
	pairs   []CasePair // by name
	gate    result.Gate
	alpha   float64
	confirm *result.Confirm
	global  map[[2]int64]stats.Exact // by effect and passes of the head
	single  map[[2]stats.Tally]float64
}

func newTable(c Comparison, g result.Gate, confirm *result.Confirm) *table {
	t := &table{
		pairs: slices.Clone(c.PCases), gate: g, alpha: c.Alpha, confirm: confirm,
		global: make(map[[2]int64]stats.Exact), single: make(map[[2]stats.Tally]float64),
	}
	slices.SortFunc(t.pairs, func(x, y CasePair) int { return strings.Compare(x.Case, y.Case) })
	return t
}

// deal gives each side of each case as many of its trials as it had, and runs again what the plan says to.
func (t *table) deal(r *rand.Rand) evidence {
	e := evidence{gate: t.gate, alpha: t.alpha}
	var suspects []int
	for i, p := range t.pairs {
		passed, all := p.Base.Passed+p.Head.Passed, p.Base.N+p.Head.N
		base, head := stats.Tally{N: p.Base.N}, stats.Tally{N: p.Head.N}
		for left, n := passed, all; n > all-p.Head.N; n-- { // one trial of the head after the other
			if r.IntN(n) < left {
				head.Passed++
				left--
			}
		}
		base.Passed = passed - head.Passed
		e.names, e.base, e.head = append(e.names, p.Case), append(e.base, base), append(e.head, head)
		if base.Rate()-head.Rate() >= suspectFall-slack && max(p.Base.Planned, p.Head.Planned) <= mostScreen {
			suspects = append(suspects, i)
		}
	}
	if t.confirm == nil {
		return e
	}
	fall := func(i int) float64 { return e.base[i].Rate() - e.head[i].Rate() }
	slices.SortStableFunc(suspects, func(i, j int) int { return cmp.Compare(fall(j), fall(i)) })
	for _, i := range suspects[:min(len(suspects), t.confirm.Cases)] {
		rate := float64(e.base[i].Passed+e.head[i].Passed) / float64(e.base[i].N+e.head[i].N)
		e.fresh = append(e.fresh, fresh{i, trialsAt(r, rate, t.confirm.Trials), trialsAt(r, rate, t.confirm.Trials)})
	}
	return e
}

// trialsAt are so many trials of a case with this pass rate.
func trialsAt(r *rand.Rand, rate float64, n int) Passes {
	p := Passes{N: n, Planned: n}
	for range n {
		if r.Float64() < rate {
			p.Passed++
		}
	}
	return p
}

// regressed tells whether the rule would say so.
func (t *table) regressed(e evidence) bool {
	n := numbers{effectPP: -meanFallPP(e)}
	for i := range e.base {
		n.pWorse = append(n.pWorse, t.caseP(e, i))
	}
	if e.gate.Claim == population {
		if s, ok := stats.SignFlip(e.base, e.head); ok {
			n.signflip = &s
		}
	} else {
		n.exact = t.suiteP(e, n.effectPP)
	}
	return len(e.moved(e.global(n).Less, -n.effectPP, e.holmWorse(n.pWorse), suiteRegressed, caseRegressed)) > 0
}

func (t *table) caseP(e evidence, i int) float64 {
	key := [2]stats.Tally{e.base[i], e.head[i]}
	p, ok := t.single[key]
	if !ok {
		p = stats.StratifiedExact(e.base[i:i+1], e.head[i:i+1]).Less
		t.single[key] = p
	}
	return p
}

// suiteP is the exact test of all cases. With the totals of all cases fixed it follows from the statistic alone, which is the
// effect or, where numbers of trials are too uneven, the passes of the head.
func (t *table) suiteP(e evidence, effectPP float64) stats.Exact {
	key := [2]int64{int64(math.Round(effectPP * 1e9))}
	for _, y := range e.head {
		key[1] += int64(y.Passed)
	}
	p, ok := t.global[key]
	if !ok {
		p = stats.StratifiedExact(e.base, e.head)
		t.global[key] = p
	}
	return p
}

// meanFallPP is how far the mean of the case rates fell, in percentage points.
func meanFallPP(e evidence) float64 {
	sum := 0.0
	for i := range e.base {
		sum += e.base[i].Rate() - e.head[i].Rate()
	}
	return 100 * sum / float64(len(e.base))
}

// Text is the false alarms in a sentence.
func (f FalseAlarms) Text() string {
	return fmt.Sprintf("Both arms are the same, so every difference is noise. With the trials of each case dealt to the two sides anew, %d times, "+
		"the gate would have said regressed in %s; a rule that fails when the pass rate falls by more than %d pp would have in %s.",
		f.Draws, f.Regressed.percent(), plainFallPP, f.Threshold.percent())
}

// percent is a share with its interval.
func (e Estimate) percent() string {
	if e.Lo == nil || e.Hi == nil {
		return fmt.Sprintf("%.1f %%", 100*e.Value)
	}
	return fmt.Sprintf("%.1f %% (%.1f to %.1f %%)", 100*e.Value, 100**e.Lo, 100**e.Hi)
}
