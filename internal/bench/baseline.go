package bench

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/result"
)

// A Stored baseline is the benchmark of an earlier run, with where it came from.
type Stored struct {
	Benchmark *Benchmark // nil: none was found
	Origin    Origin
	Cached    bool          // a run takes it for its baseline: it may acquit, and convicts nobody without being run again
	MaxAge    time.Duration // between both runs, above which it is stale; 0: any
	lone      bool          // each side has one arm, and they pair whatever they are called
}

// Measured tells whether the stored run had a condition of this name and digest: then running that again measures the same.
func (s Stored) Measured(condition, digest string) bool {
	return s.Benchmark != nil && digest != "" && s.Benchmark.Fingerprint.digestOf(condition) == digest
}

// An Origin says where a stored baseline came from, or why there is none.
type Origin struct {
	Source   string       `json:"source"` // merge-base, ancestor, file, release, run, ref or none
	SHA      string       `json:"sha"`    // the commit that was measured; empty when not known
	URL      string       `json:"url"`
	Created  *time.Time   `json:"created"`
	Behind   int          `json:"behind"`                // commits between the exact merge base and SHA
	Why      string       `json:"why"`                   // of none: what was looked for, and what to do
	Reason   string       `json:"reason"`                // of none: no_baseline or stale_baseline; could also be that nobody could look
	Cached   bool         `json:"cached,omitempty"`      // the run took it for its baseline; see Stored
	Ageless  bool         `json:"age_unknown,omitempty"` // its age was to be held against a limit, and is not known
	Rejected []Rejected   `json:"rejected"`
	Gate     *result.Gate `json:"gate"` // that the baseline was planned under, when it is not this run's; set by Against
}

// A Rejected candidate for the baseline, with the filter that it did not pass.
type Rejected struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// The reasons of a case that is not the same on both sides.
const (
	caseChanged    = "case_changed"    // what the agent is given
	gradersChanged = "graders_changed" // how its work is graded
	onlyBase       = "only_base"
	onlyHead       = "only_head"
	notAdmitted    = "not_admitted" // it cannot tell good work from none, or its graders disagree with themselves
)

// Against compares every arm with the same arm (harness, model and condition) of a stored baseline, case by case, and
// decides again. Only cases with equal digests are paired; the others are listed. Without a stored benchmark each arm
// under test that has no other comparison gets one that says why. What was compared with another baseline before is
// replaced.
func (b Benchmark) Against(s Stored) Benchmark {
	origin := s.Origin
	origin.Rejected, origin.Gate = orEmpty(origin.Rejected), nil
	if s.Benchmark != nil && s.Benchmark.Metadata.Untrusted {
		s.Benchmark, origin.Source = nil, "none"
		origin.Why = cmp.Or(origin.Why, "the stored results come from a run that is not trusted; measure the baseline again")
	}
	if s.Benchmark != nil && s.MaxAge > 0 {
		age, known := b.ageOf(origin)
		origin.Ageless = !known
		if known && age > s.MaxAge {
			s.Benchmark, origin.Source, origin.Reason = nil, "none", staleBaseline
			origin.Why = fmt.Sprintf("the stored baseline is %.1f days old, more than %.0f; measure it again", days(age), days(s.MaxAge))
		}
	}
	planned := b.planned()
	if s.Benchmark != nil {
		if g := s.Benchmark.planned(); !reflect.DeepEqual(g, planned) {
			origin.Gate = &g
		}
	}
	origin.Cached = s.Cached && s.Benchmark != nil
	b.Origin, b.History = &origin, nil
	if s.Benchmark != nil {
		b.History = b.historyAfter(s.Benchmark, origin)
	}
	pairings := slices.DeleteFunc(b.pairings(), func(p pairing) bool { return p.axis == axisBaseline })
	b.settle(append(pairings, b.withStored(s, pairings)...), b.Gate.Settings, planned)
	return b
}

// ageOf is how long before this run a stored baseline was measured. The clock is not asked, so that judging the same results
// again says the same.
func (b Benchmark) ageOf(o Origin) (age time.Duration, known bool) {
	if o.Created == nil || b.Metadata.Timestamp == nil {
		return 0, false
	}
	return b.Metadata.Timestamp.Sub(*o.Created), true
}

func days(age time.Duration) float64 { return age.Hours() / 24 }

// withStored are the pairings of the arms with those of the stored benchmark, which may be nil. others are all other
// pairings.
func (b Benchmark) withStored(s Stored, others []pairing) []pairing {
	var bases map[ArmID]side
	stored := s.Benchmark
	if stored != nil {
		bases = stored.sides()
	}
	r, heads := b.roster(), b.sides()
	var out []pairing
	for _, a := range b.Arms {
		base, found := bases[a.ArmID]
		if s.lone && stored != nil {
			base, found = bases[stored.Arms[0].ArmID], true
		}
		compared := slices.ContainsFunc(others, func(p pairing) bool { return p.head == a.ArmID })
		switch {
		case r.isTwin(a.ArmID):
		case found:
			if s.Cached {
				base = stored.latest(base)
			}
			out = append(out, b.acrossRuns(stored, base, heads[a.ArmID], b.checking(s, a.ArmID, heads)))
		case r.underTest(a.ArmID) && !compared:
			out = append(out, pairing{
				axis: axisBaseline, base: a.ArmID, head: a.ArmID, coverage: PairCoverage{Coverage: a.Coverage, Head: a.Coverage},
				obstacle: b.noStored(stored),
			})
		}
	}
	return out
}

// noStored says why there is nothing to compare an arm with.
func (b Benchmark) noStored(stored *Benchmark) *Reason {
	if stored != nil {
		return &Reason{Code: noBaseline, Text: "the stored baseline has no such arm"}
	}
	code := noBaseline
	if b.Origin.Reason == staleBaseline {
		code = staleBaseline
	}
	return &Reason{Code: code, Text: cmp.Or(clip(b.Origin.Why), "no stored baseline was found")}
}

// acrossRuns sets an arm beside its stored self. The base's coverage is over the cases that are the same on both sides,
// the head's over all that it planned. twin is the base version of the head that checks the
// stored one; without any it is empty.
func (b Benchmark) acrossRuns(stored *Benchmark, base, head, twin side) pairing {
	p := pairing{axis: axisBaseline, base: base.ArmID, head: head.ArmID}
	before, now := stored.Fingerprint.digests(), b.Fingerprint.digests()
	refused := b.notAdmitted()
	same := 0
	for _, name := range sortedUnion(base.cases, head.cases) {
		x, inBase := base.cases[name]
		y, inHead := head.cases[name]
		one := pairedCase{name: name, base: x.passes(), head: y.passes()}
		switch {
		case !inHead:
			one.apart = onlyBase
		case refused[name]:
			one.apart = notAdmitted
		case !inBase:
			one.apart = onlyHead
		case before[name].Agent != now[name].Agent:
			one.apart = caseChanged
		case before[name].Grade != now[name].Grade:
			one.apart = gradersChanged
		default:
			same++
			p.coverage.Base = p.coverage.Base.plus(x)
		}
		p.cases = append(p.cases, one)
	}
	p.metrics = metrics(base, head, p.cases)
	p.coverage.Head = head.without(refused)
	p.coverage.Coverage = p.coverage.Base.plus(p.coverage.Head)
	field := cmp.Or(stored.Fingerprint.differ(b.Fingerprint, base.Harness, head.Harness), differ(base.Arm, head.Arm))
	p.obstacle = lostCondition(base.Arm, head.Arm)
	switch {
	case p.obstacle != nil:
	case stored.Fingerprint.known() != b.Fingerprint.known():
		p.obstacle = &Reason{Code: oneFingerprint, Text: "only one side says what was measured, and how, so nobody knows whether they can be compared"}
	case field != "":
		p.obstacle = &Reason{Code: incomparable, Text: field}
	case same == 0:
		p.obstacle = &Reason{Code: incomparable, Text: "no case is the same on both sides: " + apartText(p.cases)}
	}
	if p.obstacle == nil {
		p.drift = driftOf(p.cases, twin, b.planned().MinCoverage)
		p.obstacle = p.drift.obstacle()
	}
	return p
}

func (f Fingerprint) digests() map[string]CaseDigest {
	out := make(map[string]CaseDigest, len(f.Cases))
	for _, c := range f.Cases {
		out[c.Case] = c
	}
	return out
}

// digestOf is the digest of a condition; empty when it is not known.
func (f Fingerprint) digestOf(condition string) string {
	for _, c := range f.Conditions {
		if c.ID == condition {
			return c.Digest
		}
	}
	return ""
}

// known tells whether anybody said what was measured.
func (f Fingerprint) known() bool { return f.Digest != "" }

// differ names the field in which two runs of a harness, by its name on each side, were not the same; empty when none is known
// to. Conditions may differ: they are what is under test.
func (f Fingerprint) differ(head Fingerprint, before, now string) string {
	find := func(f Fingerprint, harness string) result.Harness {
		for _, h := range f.Harnesses {
			if h.ID == harness {
				return h
			}
		}
		return result.Harness{}
	}
	x, y := find(f, before), find(head, now)
	return cmp.Or(
		differIn("harness type", []string{x.Type}, []string{y.Type}),
		differIn("harness version", []string{x.Version}, []string{y.Version}),
		differIn("diff algorithm", []string{f.Algorithm}, []string{head.Algorithm}),
		differIn("grading rules", []string{f.Rules}, []string{head.Rules}),
		differIn("executor", []string{f.Executor}, []string{head.Executor}),
	)
}

// apartText counts the cases that are not the same on both sides; empty when all are.
func apartText(cases []pairedCase) string {
	count := make(map[string]int)
	for _, c := range cases {
		count[c.apart]++
	}
	var out []string
	for _, w := range []struct{ reason, text string }{
		{caseChanged, "changed"}, {gradersChanged, "graded otherwise"}, {onlyHead, "new"}, {onlyBase, "gone"},
		{notAdmitted, "not admitted"},
	} {
		if n := count[w.reason]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s %s", n, plural(n, "case", "cases"), w.text))
		}
	}
	return strings.Join(out, ", ")
}
