package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A History is what many benchmarks showed, in the order of time. No line is drawn through it and nothing is tested: what
// changed between two runs may be any of the things that Changes names, and others that nobody recorded.
type History struct {
	SchemaVersion int          `json:"schema_version"`
	Runs          []PastRun    `json:"runs"` // oldest first; those whose time is not known stand before the others
	Arms          []ArmHistory `json:"arms"` // in the order in which they were first run
}

// A PastRun is one benchmark of a history.
type PastRun struct {
	Name      string     `json:"name"`      // where it was read; in the history of a benchmark, of itself: this run
	Timestamp *time.Time `json:"timestamp"` // when it was planned; nil: not known
	Commit    string     `json:"commit"`    // empty: not known
	Suite     string     `json:"suite"`
	Tool      string     `json:"tool"`
	Simulated bool       `json:"simulated"`
	Verdict   Verdict    `json:"verdict"`
	Reason    Reason     `json:"reason"`
	Changes   []Change   `json:"changes"`                // against the run before it; empty for the first one
	More      int        `json:"more_changes,omitempty"` // that are not in the list
}

// This is the name of the run whose benchmark holds the history.
const This = "this run"

// What a benchmark keeps of the runs before it.
const (
	mostPast    = 30 // runs, itself with them
	mostChanges = 20 // of a run
)

// A Change is one thing of the fingerprint that is not as it was in the run before. What a side does not have is empty.
type Change struct {
	Field  string `json:"field"` // suite, executor, diff algorithm, grading rules, tool, harness, condition, case or grading of case
	Name   string `json:"name"`  // of the harness, condition or case; else empty
	Before string `json:"before"`
	Now    string `json:"now"`
}

// String tells the change in a few words. Digests are told to differ, versions are told.
func (c Change) String() string {
	what := strings.TrimSpace(c.Field + " " + c.Name)
	switch {
	case c.Name == "" && c.Before == "":
		return what + " was not recorded before"
	case c.Name == "" && c.Now == "":
		return what + " is not recorded"
	case c.Before == "":
		return what + " is new"
	case c.Now == "":
		return what + " is gone"
	case isDigest(c.Before) || isDigest(c.Now):
		return what + " changed"
	}
	return fmt.Sprintf("%s %s → %s", what, c.Before, c.Now)
}

func isDigest(s string) bool { return len(s) >= 32 && !strings.ContainsAny(s, " .") }

// An ArmHistory is one arm over the runs.
type ArmHistory struct {
	ArmID
	Baseline bool         `json:"baseline"` // in the last run that had it
	Points   []*PastPoint `json:"points"`   // one a run; nil: the run had no such arm
}

// A PastPoint is what one run showed of an arm. Estimates are nil where nothing was measured.
type PastPoint struct {
	PassRate     *Estimate `json:"pass_rate"`
	Coverage     Coverage  `json:"coverage"`
	NCases       int       `json:"n_cases"`
	CostUSD      *Estimate `json:"cost_usd"` // of a scored trial, median over cases; so are the following
	Tokens       *Estimate `json:"tokens"`
	Duration     *Estimate `json:"duration_seconds"`
	LinesChanged *Estimate `json:"lines_changed"` // of the passed trials
}

// A Past is a benchmark that goes into a history, with the name of the place where it was read.
type Past struct {
	Name string
	run  PastRun
	mark Fingerprint
	arms []Arm
}

// PastOf takes out of a benchmark what a history shows of it; the rest may be forgotten.
func PastOf(name string, b *Benchmark) Past {
	return Past{Name: name, mark: b.Fingerprint, arms: b.Arms, run: PastRun{
		Name: name, Timestamp: b.Metadata.Timestamp, Commit: b.Metadata.Commit, Suite: b.Metadata.Suite, Tool: b.Metadata.Tool,
		Simulated: b.Simulated, Verdict: b.Verdict, Reason: b.Reason, Changes: []Change{},
	}}
}

// inTime puts runs in the order of time. Those of one time, and those of none, keep theirs.
func inTime(past []Past) []Past {
	past = slices.Clone(past)
	slices.SortStableFunc(past, func(a, b Past) int {
		x, y := a.run.Timestamp, b.run.Timestamp
		switch {
		case x == nil && y == nil:
			return 0
		case x == nil:
			return -1
		case y == nil:
			return 1
		}
		return x.Compare(*y)
	})
	return past
}

// MakeHistory puts benchmarks in the order of time. Those of one time, and those of none, keep theirs.
func MakeHistory(past []Past) History {
	past = inTime(past)
	h := History{SchemaVersion: Schema, Runs: []PastRun{}, Arms: []ArmHistory{}}
	for i, p := range past {
		if i > 0 {
			p.run.Changes = changedBetween(past[i-1], p)
		}
		h.Runs = append(h.Runs, p.run)
		for _, a := range p.arms {
			at := slices.IndexFunc(h.Arms, func(x ArmHistory) bool { return x.ArmID == a.ArmID })
			if at < 0 {
				at, h.Arms = len(h.Arms), append(h.Arms, ArmHistory{ArmID: a.ArmID, Points: make([]*PastPoint, len(past))})
			}
			h.Arms[at].Baseline = a.Baseline
			h.Arms[at].Points[i] = pointOf(a)
		}
	}
	return h
}

func pointOf(a Arm) *PastPoint {
	return &PastPoint{
		PassRate: a.PassRate, Coverage: a.Coverage, NCases: a.NCases, CostUSD: a.CostUSD, Tokens: a.Tokens, Duration: a.Duration,
		LinesChanged: a.DiffScope.Passed.LinesChanged,
	}
}

// After sets the history of a benchmark: those of these runs that are not later than itself, and itself as [This].
func (b Benchmark) After(past []Past) Benchmark {
	past = slices.DeleteFunc(inTime(past), func(p Past) bool { return later(p.run.Timestamp, b.Metadata.Timestamp) })
	if b.History = nil; len(past) > 0 {
		b.History = MakeHistory(past).upTo(b, past[len(past)-1])
	}
	return b
}

// historyAfter is the history of a stored benchmark, with this run at its end. So a chain of baselines tells its own history,
// and nobody looks for more than one of them. It is nil when the stored run is not the earlier one.
func (b Benchmark) historyAfter(stored *Benchmark, from Origin) *History {
	if later(stored.Metadata.Timestamp, b.Metadata.Timestamp) {
		return nil
	}
	last := PastOf(cmp.Or(from.URL, from.SHA, from.Source), stored)
	if stored.History == nil || len(stored.History.Runs) == 0 {
		return MakeHistory([]Past{last}).upTo(b, last)
	}
	h := *stored.History
	h.Runs = slices.Clone(h.Runs)
	h.Runs[len(h.Runs)-1].Name = last.Name
	return h.upTo(b, last)
}

// later tells whether a time is after another. What is not known is after nothing.
func later(x, y *time.Time) bool { return x != nil && y != nil && x.After(*y) }

// upTo is a history with a benchmark as its newest run, of the benchmark's arms. last is the newest run before it.
func (h History) upTo(b Benchmark, last Past) *History {
	now := PastOf(This, &b)
	now.run.Changes = changedBetween(last, now)
	twins := b.roster()
	out := History{SchemaVersion: Schema, Runs: append(slices.Clone(h.Runs), now.run), Arms: []ArmHistory{}}
	for _, a := range b.Arms {
		if twins.isTwin(a.ArmID) { // some runs have them and some have not: they are no arms of their own
			continue
		}
		points := make([]*PastPoint, len(h.Runs), len(out.Runs))
		if at := slices.IndexFunc(h.Arms, func(x ArmHistory) bool { return x.ArmID == a.ArmID }); at >= 0 {
			copy(points, h.Arms[at].Points)
		}
		out.Arms = append(out.Arms, ArmHistory{a.ArmID, a.Baseline, append(points, pointOf(a))})
	}
	out.shorten()
	return &out
}

// shorten leaves the newest runs, and of each the first changes.
func (h *History) shorten() {
	first := max(0, len(h.Runs)-mostPast)
	h.Runs = h.Runs[first:]
	for i := range h.Arms {
		h.Arms[i].Points = h.Arms[i].Points[first:]
	}
	for i := range h.Runs {
		if r := &h.Runs[i]; len(r.Changes) > mostChanges {
			r.More += len(r.Changes) - mostChanges
			r.Changes = slices.Clone(r.Changes[:mostChanges])
		}
	}
}

// sound says what in a foreign history cannot be.
func (h History) sound() error {
	if len(h.Runs) > mostPast || len(h.Arms) > mostArms {
		return fmt.Errorf("%d runs and %d arms are more than it can hold", len(h.Runs), len(h.Arms))
	}
	for _, r := range h.Runs {
		if len(r.Changes) > mostChanges || r.More < 0 {
			return fmt.Errorf("a run has %d changes and %d more", len(r.Changes), r.More)
		}
	}
	for _, a := range h.Arms {
		if len(a.Points) != len(h.Runs) {
			return fmt.Errorf("arm %s has %d points, not one for each of %d runs", clip(a.String()), len(a.Points), len(h.Runs))
		}
		for _, p := range a.Points {
			if p != nil && !(p.Coverage.sound() && p.PassRate.isShare()) {
				return fmt.Errorf("the numbers of arm %s do not add up", clip(a.String()))
			}
		}
	}
	return nil
}

// isShare tells whether an estimate and its interval lie from 0 to 1, or nothing was measured.
func (e *Estimate) isShare() bool {
	if e == nil {
		return true
	}
	for _, v := range []*float64{e.Lo, &e.Value, e.Hi} {
		if v != nil && !(*v >= 0 && *v <= 1) {
			return false
		}
	}
	return true
}

// changedBetween lists what of the fingerprint is not as before: settings, then harnesses, conditions and cases by name.
func changedBetween(before, now Past) []Change {
	x, y := before.mark, now.mark
	list := []Change{}
	single := func(field, a, b string) {
		if a != b {
			list = append(list, Change{Field: field, Before: a, Now: b})
		}
	}
	single("suite", before.run.Suite, now.run.Suite)
	single("executor", x.Executor, y.Executor)
	single("diff algorithm", x.Algorithm, y.Algorithm)
	single("grading rules", x.Rules, y.Rules)
	single("tool", before.run.Tool, now.run.Tool)
	list = append(list, named("harness", x.versions(), y.versions())...)
	list = append(list, named("condition", x.conditionDigests(), y.conditionDigests())...)
	asked, graded := func(c CaseDigest) string { return c.Agent }, func(c CaseDigest) string { return c.Grade }
	list = append(list, named("case", x.caseDigests(asked), y.caseDigests(asked))...)
	for _, c := range named("grading of case", x.caseDigests(graded), y.caseDigests(graded)) {
		if c.Before != "" && c.Now != "" { // else the case says so
			list = append(list, c)
		}
	}
	return list
}

// named lists the names whose texts differ, by name.
func named(field string, before, now map[string]string) []Change {
	var list []Change
	for name, was := range before {
		if is := now[name]; is != was {
			list = append(list, Change{Field: field, Name: name, Before: was, Now: is})
		}
	}
	for name, is := range now {
		if _, ok := before[name]; !ok {
			list = append(list, Change{Field: field, Name: name, Now: is})
		}
	}
	slices.SortFunc(list, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// versions tells of each harness what drives it. One whose version is not known has its type.
func (f Fingerprint) versions() map[string]string {
	out := make(map[string]string, len(f.Harnesses))
	for _, h := range f.Harnesses {
		out[h.ID] = strings.TrimSpace(h.Type + " " + h.Version)
	}
	return out
}

// conditionDigests are those of the conditions that the suite names: base versions come and go with what is compared.
func (f Fingerprint) conditionDigests() map[string]string {
	out := make(map[string]string, len(f.Conditions))
	for _, c := range f.Conditions {
		if c.TwinOf == "" || c.TwinOf == c.ID {
			out[c.ID] = c.Digest
		}
	}
	return out
}

func (f Fingerprint) caseDigests(of func(CaseDigest) string) map[string]string {
	out := make(map[string]string, len(f.Cases))
	for _, c := range f.Cases {
		out[c.Case] = of(c)
	}
	return out
}
