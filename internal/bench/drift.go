package bench

import (
	"fmt"
	"slices"

	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/stats"
)

// A cached baseline spares running the base, and may be wrong by now: the provider changes its model, the machine is another.
// So a fresh trial of the base on every case is held against it, and what it would convict is judged by a fresh baseline. How
// much of a drift such a check sees stands in docs/verdicts.md.
const (
	driftLevel = 0.05 // of the two-sided test
	mostStored = 20   // trials of a case: of a baseline that is added to for months the old ones say least
)

// A Check is an arm whose cached baseline is to be checked: by one fresh trial of its base version on each case.
type Check struct {
	Head  ArmID
	Cases []string // that are the same on both sides, by name
}

// Checks are the arms under test that are compared with a cached baseline. They follow from the screen alone.
func (b Benchmark) Checks() []Check {
	var out []Check
	for _, c := range b.cached() {
		check := Check{Head: c.Head.ID}
		for _, p := range c.PCases {
			check.Cases = append(check.Cases, p.Case)
		}
		slices.Sort(check.Cases)
		if len(check.Cases) > 0 {
			out = append(out, check)
		}
	}
	return out
}

// Reruns are the arms under test whose base version must be run in full: their cached baseline has drifted, or it convicts
// them, which it may not do.
func (b Benchmark) Reruns() []ArmID {
	var out []ArmID
	for _, c := range b.cached() {
		if c.Obstacle != nil || c.Verdict == Regressed {
			out = append(out, c.Head.ID)
		}
	}
	return out
}

// cached are the comparisons of arms under test with a cached baseline that can be compared, or could until it had drifted.
func (b Benchmark) cached() []Comparison {
	if b.Origin == nil || !b.Origin.Cached {
		return nil
	}
	r := b.roster()
	return slices.DeleteFunc(slices.Clone(b.Comparisons), func(c Comparison) bool {
		return c.Axis != axisBaseline || !r.underTest(c.Head.ID) || c.Obstacle != nil && c.Obstacle.Code != baselineDrifted
	})
}

// checking is the base version of an arm, when it is what the stored run measured; empty when the run has none. A base that
// moved on since differs from the stored one by more than time.
func (b Benchmark) checking(s Stored, of ArmID, sides map[ArmID]side) side {
	r := b.roster()
	for _, a := range b.Arms {
		if a.Harness == of.Harness && a.Model == of.Model && r.twinOf[a.Condition] == of.Condition &&
			s.Measured(of.Condition, b.Fingerprint.digestOf(a.Condition)) {
			return sides[a.ArmID]
		}
	}
	return side{}
}

// onlyChecks tells whether a base version was run to check a cached baseline and no further: then it is too little to be
// compared with.
func onlyChecks(twin, head side) bool {
	if len(twin.drift) == 0 {
		return false
	}
	for name, c := range head.cases {
		if twin.cases[name].Planned < c.Planned {
			return true
		}
	}
	return false
}

// latest is the side of a stored arm with no more than the latest mostStored trials of each case. Medians of cost and the like
// stay those of all trials.
func (b Benchmark) latest(s side) side {
	late := make(map[string]Coverage)
	for _, r := range b.Runs {
		all := s.cases[r.Case].Planned
		if (ArmID{r.Harness, r.Model, r.Condition}) != s.ArmID || r.Phase == ConfirmPhase || r.Trial <= all-mostStored {
			continue
		}
		c := late[r.Case]
		switch r.Status {
		case result.Passed:
			c.Passed++
		case result.Failed:
			c.Failed++
		default:
			c.Errored++
		}
		late[r.Case] = c
	}
	all := s.cases
	s.cases = make(map[string]Coverage, len(all))
	for name, c := range all {
		if few := late[name]; c.Planned > mostStored && few.Passed+few.Failed+few.Errored <= mostStored {
			few.Planned, few.Scored = mostStored, few.Passed+few.Failed
			few.Pending, few.Share = few.Planned-few.Scored-few.Errored, share(few.Scored, few.Planned) // what is no run was skipped or never came
			c = few
		}
		s.cases[name] = c
	}
	return s
}

// driftOf holds the fresh trials of the base version against the stored ones, over the cases that are the same. It is nil when
// none was planned.
func driftOf(cases []pairedCase, twin side, minCoverage float64) *Drift {
	var d Drift
	var stored, fresh []stats.Tally
	for _, c := range cases {
		one, planned := twin.drift[c.name]
		if c.apart != "" || !planned {
			continue
		}
		x := one.passes()
		d.Fresh.Planned, d.Fresh.Errored = d.Fresh.Planned+x.Planned, d.Fresh.Errored+x.Errored
		if c.base.N == 0 || x.N == 0 {
			continue
		}
		d.NCases++
		d.Stored = d.Stored.plus(c.base)
		d.Fresh.Passed, d.Fresh.N = d.Fresh.Passed+x.Passed, d.Fresh.N+x.N
		stored, fresh = append(stored, c.base.tally()), append(fresh, x.tally())
	}
	if d.Fresh.Planned == 0 {
		return nil
	}
	if d.NCases == 0 || share(d.Fresh.N, d.Fresh.Planned) < minCoverage-slack {
		return &d
	}
	p := stats.StratifiedExact(stored, fresh).TwoSided()
	d.P, d.Seen = &p, p <= driftLevel+slack
	return &d
}

func (p Passes) plus(q Passes) Passes {
	return Passes{p.Passed + q.Passed, p.N + q.N, p.Planned + q.Planned, p.Errored + q.Errored}
}

// obstacle is what a drift that was seen forbids.
func (d *Drift) obstacle() *Reason {
	if d == nil || !d.Seen {
		return nil
	}
	return &Reason{Code: baselineDrifted, Text: "the stored baseline was dropped: " + d.Text()}
}

// Text says what the check showed.
func (d Drift) Text() string {
	if d.P == nil {
		return fmt.Sprintf("%d of %d fresh trials of the base were scored, too few to check it", d.Fresh.N, d.Fresh.Planned)
	}
	found := "no drift seen"
	if d.Seen {
		found = "it has drifted"
	}
	return fmt.Sprintf("%d of %d fresh trials of the base passed, and %d of %d stored ones, over %d %s; %s, %s",
		d.Fresh.Passed, d.Fresh.N, d.Stored.Passed, d.Stored.N, d.NCases, plural(d.NCases, "case", "cases"), pText(*d.P), found)
}

// warnOfCached says what is not known of the stored baseline that a comparison gates by.
func (b Benchmark) warnOfCached(c *Comparison) {
	if c.Axis != axisBaseline || c.Obstacle != nil || b.Origin == nil {
		return
	}
	if b.Origin.Ageless {
		c.warn(ageNotKnown, "when the stored baseline was measured is not known, so it may be too old")
	}
	if !b.Origin.Cached || !c.Gates {
		return
	}
	switch {
	case c.Drift == nil:
		c.warn(baselineNotRerun, "the cached baseline was not run again, so what has drifted since it was measured counts as the change's doing")
	case c.Drift.P == nil:
		c.warn(driftNotChecked, c.Drift.Text())
	case c.Verdict == Regressed:
		c.warn(baselineNotRerun, "the cached baseline convicts, and it was not run again in full")
	}
}
