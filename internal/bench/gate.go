package bench

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/stats"
)

// FailOnWords are what a gate may say no to: verdicts, then reasons of no_evidence.
var FailOnWords = []string{
	string(Regressed), string(Underpowered), string(NoEvidence), string(Invalid),
	noBaseline, incomparable, staleBaseline,
}

// failOn is what the gate says no to, in the order of FailOnWords. Settings that say nothing get regressed and invalid.
func failOn(g result.Gate) []string {
	given := g.FailOn
	if given == nil {
		given = []string{string(Regressed), string(Invalid)}
	}
	words := []string{}
	for _, w := range FailOnWords {
		if slices.Contains(given, w) || w == string(Underpowered) && g.Underpowered == "fail" {
			words = append(words, w)
		}
	}
	return words
}

// settled is the settings with everything said, so that two of them can be compared.
func settled(g result.Gate) (result.Gate, error) {
	for _, w := range g.FailOn {
		if !slices.Contains(FailOnWords, w) {
			return g, fmt.Errorf("fail_on of the gate holds %q; it may hold %s", clip(w), strings.Join(FailOnWords, ", "))
		}
	}
	g.FailOn = failOn(g)
	g.Underpowered = "warn"
	if slices.Contains(g.FailOn, string(Underpowered)) {
		g.Underpowered = "fail"
	}
	return g, nil
}

// Regate takes the decision again under other settings: every comparison is judged anew from what it holds, with its
// test, its share of alpha and its verdict. When the settings are not those of before the first cell ran, the decision
// is post hoc and a note says what was changed. An error is a setting that cannot be.
func (b Benchmark) Regate(g result.Gate) (Benchmark, error) {
	if !(g.Alpha > 0 && g.Alpha < 1) {
		return Benchmark{}, fmt.Errorf("alpha of the gate is %g, it must lie between 0 and 1", g.Alpha)
	}
	g, err := settled(g)
	if err != nil {
		return Benchmark{}, err
	}
	b.settle(b.pairings(), g, b.planned())
	return b, nil
}

// planned are the gate's settings as they were before the first cell ran.
func (b Benchmark) planned() result.Gate {
	if b.Gate.Planned != nil {
		return *b.Gate.Planned
	}
	return b.Gate.Settings
}

// pairings are what the comparisons were made from.
func (b Benchmark) pairings() []pairing {
	var out []pairing
	for _, c := range b.Comparisons {
		out = append(out, c.pairing())
	}
	return out
}

// The axes of comparisons. The first of them that can be compared gates an arm: what ran side by side shares its clock
// and its provider's weather, and the version before the change is closer to the question than another condition.
const (
	axisTwin      = "twin"
	axisBaseline  = "baseline"
	axisCondition = "condition"
)

var axes = []string{axisTwin, axisBaseline, axisCondition}

// A roster knows which arms of a run are under test.
type roster struct {
	place      map[ArmID]int     // in Arms
	twinOf     map[string]string // condition that a condition is the base version of
	candidates map[ArmID]bool    // harness and model of the arms that are neither baseline nor base version
	arms       []Arm
}

func (b Benchmark) roster() roster {
	r := roster{make(map[ArmID]int), make(map[string]string), make(map[ArmID]bool), b.Arms}
	for i, a := range b.Arms {
		r.place[a.ArmID] = i
	}
	for _, c := range b.Fingerprint.Conditions {
		if c.TwinOf != c.ID {
			r.twinOf[c.ID] = c.TwinOf
		}
	}
	for _, a := range b.Arms {
		if !a.Baseline && !r.isTwin(a.ArmID) {
			r.candidates[ArmID{a.Harness, a.Model, ""}] = true
		}
	}
	return r
}

// isTwin tells whether the arm is the base version of an arm of this run.
func (r roster) isTwin(id ArmID) bool {
	of := r.twinOf[id.Condition]
	_, here := r.place[ArmID{id.Harness, id.Model, of}]
	return of != "" && here
}

// underTest tells whether the arm is what the run is about: it is no base version, and no baseline that has a candidate.
func (r roster) underTest(id ArmID) bool {
	at, here := r.place[id]
	return here && !r.isTwin(id) && !(r.arms[at].Baseline && r.candidates[ArmID{id.Harness, id.Model, ""}])
}

// inRun are the pairings of the run by itself: each arm with the base version of its condition, and each candidate with
// the baseline condition.
func (b Benchmark) inRun() []pairing {
	var out []pairing
	r, sides, refused := b.roster(), b.sides(), b.notAdmitted()
	for _, head := range b.Arms {
		if r.isTwin(head.ArmID) {
			continue
		}
		for _, base := range b.Arms {
			switch {
			case base.ArmID == head.ArmID || base.Harness != head.Harness || base.Model != head.Model:
			case r.twinOf[base.Condition] == head.Condition:
				if onlyChecks(sides[base.ArmID], sides[head.ArmID]) {
					continue
				}
				out = append(out, pair(axisTwin, sides[base.ArmID], sides[head.ArmID], refused))
			case base.Baseline && !head.Baseline:
				out = append(out, pair(axisCondition, sides[base.ArmID], sides[head.ArmID], refused))
			}
		}
	}
	return out
}

// settle chooses which comparison gates each arm under test, judges all, and decides.
func (b *Benchmark) settle(pairings []pairing, g, planned result.Gate) {
	r := b.roster()
	slices.SortStableFunc(pairings, func(x, y pairing) int {
		return cmp.Or(cmp.Compare(r.place[x.head], r.place[y.head]), cmp.Compare(slices.Index(axes, x.axis), slices.Index(axes, y.axis)))
	})
	gating := make(map[ArmID]int) // of an arm under test, the index of its pairing
	for i, p := range pairings {
		first, chosen := gating[p.head]
		if r.underTest(p.head) && (!chosen || pairings[first].obstacle != nil && p.obstacle == nil) {
			gating[p.head] = i
		}
	}
	b.Comparisons = []Comparison{}
	for i, p := range pairings {
		c := compare(p, g, g.Alpha/float64(max(1, len(gating)))) // shared, so that more comparisons do not mean more false alarms
		at, chosen := gating[p.head]
		c.Gates = chosen && at == i
		if c.notConfirmed(planned.Confirm) {
			c.warn(confirmNotRun, "the worst cases were not run again, so the cases are judged by the screen")
		}
		b.warnOfAdmission(&c)
		if b.Origin != nil && b.Origin.Gate != nil && p.axis == axisBaseline {
			c.warn(gateChanged, "the gate has changed since the stored baseline was measured: "+changes(*b.Origin.Gate, planned))
		}
		if p.axis == axisBaseline && p.obstacle == nil && !b.Fingerprint.known() {
			c.warn(noFingerprint, "neither side says what was measured, and how, so they were compared as they are")
		}
		b.warnOfCached(&c)
		b.Comparisons = append(b.Comparisons, c)
	}
	b.decide(g, r)
	if !reflect.DeepEqual(g, planned) {
		b.Gate.PostHoc, b.Gate.Planned = true, &planned
	}
	b.Gate.PostHoc = b.Gate.PostHoc || len(b.Metadata.PostHoc) > 0
	b.FalseAlarms = nil
	if b.Metadata.AA {
		b.FalseAlarms = b.falseAlarms(g, planned.Confirm)
	}
	b.Notes = b.notes()
}

// An outcome is what the gate sees of one arm under test.
type outcome struct {
	verdict Verdict
	reason  Reason
	exit    int
}

// decide sets the verdict of the suite and the gate. The verdict is the worst of the arms under test; the gate is decided
// by the worst of those that it says no to.
func (b *Benchmark) decide(g result.Gate, r roster) {
	outcomes := b.outcomes(g, r)
	slices.SortStableFunc(outcomes, func(x, y outcome) int {
		return cmp.Compare(slices.Index(worstFirst, x.verdict), slices.Index(worstFirst, y.verdict))
	})
	by := outcomes[0]
	b.Verdict, b.Reason = by.verdict, by.reason
	if no := slices.IndexFunc(outcomes, func(o outcome) bool { return o.exit != ExitPassed }); no >= 0 {
		by = outcomes[no]
	}
	if by.exit == ExitPassed {
		by = cmp.Or(b.passedOver(g, r), b.floor(g, r), by)
	}
	b.Gate = Decision{
		Settings: g, ExitCode: by.exit, By: by.reason.Code, Text: by.reason.Text,
		Result: decisions[by.exit],
	}
}

// decisions are the words for the exit codes.
var decisions = map[int]string{ExitPassed: "passed", ExitFailed: "failed", ExitUnmeasured: "unmeasured"}

// outcomes has one entry for each arm under test, and at least one.
func (b *Benchmark) outcomes(g result.Gate, r roster) []outcome {
	gating := make(map[ArmID]Comparison)
	for _, c := range b.Comparisons {
		if c.Gates {
			gating[c.Head.ID] = c
		}
	}
	var out []outcome
	var arms []ArmID
	for _, a := range b.Arms {
		if !r.underTest(a.ArmID) {
			continue
		}
		verdict, reasons := alone(a, g)
		if c, ok := gating[a.ArmID]; ok {
			verdict, reasons = c.Verdict, c.Reasons
		}
		out, arms = append(out, outcome{verdict, reasons[0], exitCode(verdict, reasons, g)}), append(arms, a.ArmID)
	}
	if len(out) == 0 {
		return []outcome{{Invalid, Reason{Code: lowCoverage, Text: "no cell was planned"}, Invalid.ExitCode(g)}}
	}
	if len(out) > 1 {
		for i := range out {
			out[i].reason.Text = arms[i].String() + ": " + out[i].reason.Text
		}
	}
	return out
}

// alone is the verdict of an arm that is compared with nothing: coverage decides.
func alone(a Arm, g result.Gate) (Verdict, []Reason) {
	if a.Coverage.Scored == 0 || a.Coverage.Share < g.MinCoverage-slack {
		return Invalid, []Reason{{Code: lowCoverage, Text: lowCoverageText("candidate", a.Coverage, g.MinCoverage)}}
	}
	return NoEvidence, []Reason{{Code: noBaseline, Text: "no baseline was run, so nothing can be said about a change; give the suite a second condition and mark one of them as the baseline, or compare with stored results"}}
}

// exitCode is the verdict's, or 1 when the gate says no to one of its reasons.
func exitCode(v Verdict, reasons []Reason, g result.Gate) int {
	code := v.ExitCode(g)
	named := slices.ContainsFunc(reasons, func(r Reason) bool { return slices.Contains(g.FailOn, r.Code) })
	if code == ExitPassed && named {
		return ExitFailed
	}
	return code
}

// passedOver says no when an obstacle that the gate names kept a comparison from gating its arm, and another one took its
// place. The zero outcome lets pass.
func (b *Benchmark) passedOver(g result.Gate, r roster) outcome {
	gated := make(map[ArmID]bool)
	for _, c := range b.Comparisons { // of one arm, the first in the order of axes comes first
		switch {
		case c.Gates:
			gated[c.Head.ID] = true
		case c.Obstacle != nil && !gated[c.Head.ID] && r.underTest(c.Head.ID) && slices.Contains(g.FailOn, c.Obstacle.Code):
			return outcome{c.Verdict, Reason{Code: c.Obstacle.Code, Text: c.Head.Arm + ": " + c.Obstacle.Text}, ExitFailed}
		}
	}
	return outcome{}
}

// floor says no when the lower bound of the pass rate of an arm under test is below the floor. The zero outcome lets pass.
func (b *Benchmark) floor(g result.Gate, r roster) outcome {
	for _, a := range b.Arms {
		if g.MinPassRate == nil || a.PassRate == nil || !r.underTest(a.ArmID) {
			continue
		}
		rate := b.admittedRate(a)
		if rate == nil {
			continue
		}
		low := rate.Value
		if rate.Lo != nil {
			low = *rate.Lo
		}
		if low < *g.MinPassRate-slack {
			return outcome{reason: Reason{Code: belowFloor, Text: fmt.Sprintf("%s: pass rate %.1f %%, by its lower bound %.1f %%; the floor is %.3g %%",
				a.ArmID, 100*rate.Value, 100*low, 100**g.MinPassRate)}, exit: ExitFailed}
		}
	}
	return outcome{}
}

// Changes says what of the settings is not as planned, field by field; empty when the decision is not post hoc.
func (d Decision) Changes() string {
	if d.Planned == nil {
		return ""
	}
	return changes(*d.Planned, d.Settings)
}

// changes tells two settings apart, field by field: "margin_pp 2 → 5, fail_on regressed+invalid → none".
func changes(from, to result.Gate) string {
	floor := func(v *float64) string {
		if v == nil {
			return "none"
		}
		return fmt.Sprint(*v)
	}
	list := func(words []string) string { return cmp.Or(strings.Join(words, "+"), "none") }
	var out []string
	for _, f := range []struct{ name, from, to string }{
		{"margin_pp", fmt.Sprint(from.MarginPP), fmt.Sprint(to.MarginPP)},
		{"min_coverage", fmt.Sprint(from.MinCoverage), fmt.Sprint(to.MinCoverage)},
		{"min_pass_rate", floor(from.MinPassRate), floor(to.MinPassRate)},
		{"fail_on", list(from.FailOn), list(to.FailOn)},
		{"alpha", fmt.Sprint(from.Alpha), fmt.Sprint(to.Alpha)},
		{"margin_eq_pp", fmt.Sprint(from.MarginEqPP), fmt.Sprint(to.MarginEqPP)},
		{"mde_max_pp", fmt.Sprint(from.MDEMaxPP), fmt.Sprint(to.MDEMaxPP)},
		{"claim", from.Claim, to.Claim},
		{"confirm", confirmText(from.Confirm), confirmText(to.Confirm)},
	} {
		if f.from != f.to {
			out = append(out, f.name+" "+f.from+" → "+f.to)
		}
	}
	return strings.Join(out, ", ")
}

func confirmText(c *result.Confirm) string {
	if c == nil {
		return "off"
	}
	return fmt.Sprintf("%d cases × %d trials", c.Cases, c.Trials)
}

// postHoc says in one note what was changed after results were there; empty when nothing was.
func (b *Benchmark) postHoc() string {
	var out []string
	if text := b.Gate.Changes(); text != "" {
		out = append(out, "The gate's settings are not those that the run was planned under: "+text+".")
	}
	for _, text := range b.Metadata.PostHoc {
		out = append(out, "The plan was changed after results were there: "+clip(text)+".")
	}
	return strings.Join(out, " ")
}

// notes are the sentences that a reader of the bare numbers needs.
func (b *Benchmark) notes() []string {
	notes := []string{}
	if text := b.postHoc(); text != "" {
		notes = append(notes, text)
	}
	if b.FalseAlarms != nil {
		notes = append(notes, b.FalseAlarms.Text())
	}
	if b.Simulated {
		notes = append(notes, fmt.Sprintf("The agents of %s are scripted; no model drove them. Their numbers show what the tool does and say nothing about any model.", strings.Join(b.Metadata.Simulated, ", ")))
	}
	for _, text := range b.Metadata.Policy {
		notes = append(notes, "The policy: "+text+".")
	}
	notes = append(notes, "A smaller diff is not better by itself; read it next to the pass rate.")
	if n := b.Coverage.Planned - b.Coverage.Scored; n > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d planned cells were not scored; they are in no rate and all are listed.", n, b.Coverage.Planned))
	}
	if k := b.Metadata.RunsPerConfiguration; k > 0 {
		notes = append(notes, fmt.Sprintf("A case that passed %d of %d trials may still fail %.0f %% of the time (95 %% upper bound).", k, k, 100*stats.RuleOfThree(k)))
	}
	return notes
}
