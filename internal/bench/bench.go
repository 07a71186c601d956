// Package bench turns the results of a run into a benchmark: [Make] takes the manifest and the results and gives pass
// rates with intervals, diff scopes, a paired comparison of every candidate with the baseline, and a verdict.
// [Benchmark.Against] compares with an earlier run as well, and [Benchmark.Regate] decides again under other settings.
//
// It is pure. The order of results, cases and trials changes no byte, no clock is read and no random number is drawn;
// every test is exact. Only [FalseAlarms] draws, from the plan's seed. What a number means, and why it is computed so, stands in docs/verdicts.md. The rules that
// matter most when changing something here:
//
//   - The unit of analysis is the case. Trials of one case are repeated looks at the same thing.
//   - Scored is passed and failed. Nothing else is in a rate, and everything else is in Missing.
//   - What was planned comes from the manifest alone, so a lost shard cannot shrink a benchmark.
//   - Nothing of the pages counts for itself: a number that a page shows is a field of Benchmark.
package bench

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
)

// longest text of a cell that a benchmark carries, in bytes; the whole stands in the ledger.
const longestText = 2000

// Make computes the benchmark of the planned cells. A result that could not be read (an error of the sequence) leaves
// its cell missing and is named in Unreadable; a result of no planned cell is named in Unplanned. An error is a
// manifest that cannot be one, or two results of one cell.
func Make(m result.Manifest, results iter.Seq2[result.Result, error]) (Benchmark, error) {
	settings, err := settingsOf(m)
	if err != nil {
		return Benchmark{}, err
	}
	order := newOrder(m)
	cells := make([]*cell, len(m.Cells))
	for i := range m.Cells {
		c := (*cell)(&m.Cells[i])
		cells[i] = c
		if err := order.lists(*c); err != nil {
			return Benchmark{}, err
		}
	}
	slices.SortFunc(cells, func(a, b *cell) int { return order.cells(*a, *b) })
	place := make(map[cell]int, len(cells))
	for i, c := range cells {
		if _, twice := place[*c]; twice {
			return Benchmark{}, plannedTwice(*c)
		}
		place[*c] = i
	}

	b := Benchmark{SchemaVersion: Schema, Judges: []Judge{}, Assertions: []Assertion{}, Scores: []ArmScore{}, Missing: []Missing{}, Unplanned: []string{}, Unreadable: []string{}, Runs: []Run{}}
	records, runs := make([]*record, len(cells)), make([]Run, len(cells)) // nil and empty where there is no result
	for r, err := range results {
		c := cell(r.Cell)
		i, planned := place[c]
		switch {
		case err != nil:
			b.Unreadable = append(b.Unreadable, clip(err.Error()))
		case !planned:
			b.Unplanned = append(b.Unplanned, clip(c.String()))
		case records[i] != nil:
			return Benchmark{}, resultsTwice(c)
		default:
			r.Cell = plan.Cell(*cells[i]) // the same, but its text is there already
			records[i] = newRecord(r, order.evalID[c.Case], &runs[i])
		}
	}
	slices.Sort(b.Unreadable)
	slices.Sort(b.Unplanned)

	b.Metadata = metadata(m, order, cells)
	b.Metadata.Policy = policyNotes(m.Policy, records)
	arms, scored := b.gather(m, order, cells, records, runs)
	b.Fingerprint = fingerprint(m)
	b.Simulated = len(b.Metadata.Simulated) > 0
	b.summarizeArms(order, arms)
	b.settle(b.inRun(), settings, settings)
	b.diagnose(m, scored)
	return b, nil
}

func plannedTwice(c cell) error { return fmt.Errorf("manifest: %s is planned twice", c) }
func resultsTwice(c cell) error { return fmt.Errorf("ledger: two results of %s", c) }

// settingsOf are the settings of the gate as they were planned.
func settingsOf(m result.Manifest) (result.Gate, error) {
	if !(m.Gate.Alpha > 0 && m.Gate.Alpha < 1) {
		return result.Gate{}, fmt.Errorf("manifest: alpha of the gate is %g, it must lie between 0 and 1", m.Gate.Alpha)
	}
	settings, err := settled(m.Gate)
	if err != nil {
		return result.Gate{}, fmt.Errorf("manifest: %w", err)
	}
	return settings, nil
}

// A cell is a planned cell with what this room asks of it.
type cell plan.Cell

func (c cell) arm() ArmID { return ArmID{c.Harness, c.Model, c.Condition} }

func (c cell) phase() string { return cmp.Or(c.Phase, screenPhase) }

func (c cell) String() string { return fmt.Sprintf("%s %s trial %d", c.Case, c.arm(), c.Trial) }

// A record is what the benchmark keeps of a result.
type record struct {
	run            *Run
	attempts       int
	model, version string
	rules          []int      // of the policy that its asks met
	agentCost      *float64   // of the last attempt
	costs          []*float64 // of all attempts
	beside         []result.Beside
	judged         []result.Score // those of judges
	verified       *bool          // it had its condition; nil: not known
	weights        []float64      // of the assertions of the run
	proof          *result.Contamination
}

// newRecord keeps of a result what the benchmark needs, and lays its run into the given one.
func newRecord(r result.Result, evalID int, run *Run) *record {
	rec := &record{run: run, attempts: r.Attempt, model: r.Agent.Model, version: r.Agent.Version, rules: r.PolicyRules, verified: r.ConditionHeld(), proof: r.Contamination}
	*run = Run{
		EvalID: evalID, EvalName: r.Case, Configuration: r.Condition, RunNumber: r.Trial,
		Expectations: []Expectation{}, Notes: []string{},
		Case: r.Case, Harness: r.Harness, Model: r.Model, Condition: r.Condition, Trial: r.Trial, Phase: cell(r.Cell).phase(),
		Status: r.Status, Class: string(r.Class), Reason: string(r.Reason), Detail: clip(r.Detail),
		Score: r.Score, Turns: r.Agent.Turns, Unmeasured: r.Unmeasured,
	}
	if r.Took.Agent > 0 {
		seconds := math.Round(r.Took.Agent.Seconds()*1000) / 1000
		rec.run.Result.TimeSeconds = &seconds
	}
	if u := r.Agent.Usage; u != nil {
		rec.agentCost = u.CostUSD
		if u.Input != nil && u.Output != nil {
			tokens := *u.Input + *u.Output
			rec.run.Result.Tokens = &tokens
		}
	}
	if r.Status != result.Skipped {
		rec.costs = append(rec.costs, rec.agentCost)
		if r.Beside != (result.Beside{}) {
			rec.beside = append(rec.beside, r.Beside)
		}
	}
	if r.Status == result.Errored {
		rec.run.Result.Errors++
	}
	for _, a := range r.Earlier {
		rec.costs = append(rec.costs, a.CostUSD)
		rec.beside = append(rec.beside, a.Beside)
		if a.Status == result.Errored {
			rec.run.Result.Errors++
		}
	}
	rec.run.CostUSD = sumKnown(rec.costs)
	for _, f := range r.Findings {
		rec.run.Notes = append(rec.run.Notes, clip(strings.Join(slices.DeleteFunc([]string{f.Kind, f.Path, f.Text}, isEmpty), ": ")))
	}
	rec.run.measure(r)
	rec.assert(r.Scores)
	for _, s := range r.Scores {
		if s.Judged != nil {
			rec.judged = append(rec.judged, s)
		}
	}
	return rec
}

// assert lays the assertions into the run and counts them.
func (rec *record) assert(scores []result.Score) {
	n := &rec.run.Result
	for _, s := range scores {
		rec.weights = append(rec.weights, s.Weight)
		evidence := s.Evidence
		if s.Error != "" {
			evidence = s.Error
		}
		rec.run.Expectations = append(rec.run.Expectations, Expectation{
			Text: clip(cmp.Or(s.Text, s.ID)), Passed: s.Passed, Evidence: clip(evidence), ID: s.ID, Type: s.Type, Gate: s.Gate,
		})
		n.Total++
		switch {
		case s.Passed == nil:
		case *s.Passed:
			n.Passed++
		default:
			n.Failed++
		}
	}
	if graded := n.Passed + n.Failed; graded > 0 {
		rate := float64(n.Passed) / float64(graded)
		n.PassRate = &rate
	}
}

// sumKnown is the sum when every part is known, else nil.
func sumKnown(parts []*float64) *float64 {
	sum := 0.0
	for _, p := range parts {
		if p == nil {
			return nil
		}
		sum += *p
	}
	return &sum
}

func isEmpty(s string) bool { return s == "" }

// clip is text as a benchmark carries it: valid UTF-8 of a bounded length.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= longestText {
		return s
	}
	cut := longestText
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// gather walks the planned cells in order and fills the lists of the benchmark and the arms. runs are those of the records; the
// benchmark keeps them where they are, moved together, since many are large. Those of the screen that were scored come back.
func (b *Benchmark) gather(m result.Manifest, order *order, cells []*cell, records []*record, runs []Run) (map[ArmID]*arm, []graded) {
	var scored []graded
	simulated := make(map[string]bool)
	for _, h := range m.Harnesses {
		simulated[h.ID] = h.Simulated
	}
	arms := make(map[ArmID]*arm)
	b.Runs = runs[:0]
	for i, c := range cells {
		a := arms[c.arm()]
		if a == nil {
			a = order.newArm(c.arm())
			a.simulated = simulated[c.Harness]
			arms[c.arm()] = a
		}
		r := records[i]
		records[i] = nil
		a.take(*c, r)
		if r != nil {
			a.hold(r)
		}
		if missing := missingCell(*c, r); missing != nil {
			b.Missing = append(b.Missing, *missing)
		}
		if r == nil {
			continue
		}
		a.spend(r)
		for _, beside := range r.beside {
			b.Beside.add(beside)
		}
		b.judged(r)
		b.Contamination = b.Contamination.plus(r.proof)
		if r.run.Status == result.Skipped {
			continue
		}
		b.Runs = append(b.Runs, *r.run)
		if c.phase() != ConfirmPhase && r.run.Status.Scored() {
			scored = append(scored, graded{&b.Runs[len(b.Runs)-1], r.weights})
		}
	}
	sortJudges(b.Judges)
	for _, condition := range order.summary {
		b.DiffScope = append(b.DiffScope, Of[[]ScopeRow]{condition, scopeRows(b.Runs, condition)})
	}
	return arms, scored
}

// plus adds the proof of one cell, if it has one.
func (c *Contamination) plus(p *result.Contamination) *Contamination {
	if p == nil {
		return c
	}
	if c == nil {
		c = &Contamination{Prevents: true}
	}
	c.Cells++
	if p.Proven {
		c.Proven++
	}
	c.Prevents = c.Prevents && p.Prevents
	return c
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// missingCell is the entry of a planned cell that is in no rate, or nil.
func missingCell(c cell, r *record) *Missing {
	m := &Missing{Case: c.Case, Harness: c.Harness, Model: c.Model, Condition: c.Condition, Trial: c.Trial, Status: "pending"}
	if r == nil {
		return m
	}
	if r.run.Status.Scored() || r.run.Reason == string(result.Decided) {
		return nil
	}
	m.Status, m.Class, m.Reason, m.Detail, m.Attempts = string(r.run.Status), r.run.Class, r.run.Reason, r.run.Detail, r.attempts
	return m
}

// scopeRows are those of the runs of one condition.
func scopeRows(runs []Run, condition string) []ScopeRow {
	n := 0
	for i := range runs {
		if runs[i].Condition == condition {
			n++
		}
	}
	rows := make([]ScopeRow, 0, n)
	for i := range runs {
		if runs[i].Condition == condition {
			rows = append(rows, scopeRow(&runs[i]))
		}
	}
	return rows
}

func scopeRow(r *Run) ScopeRow {
	row := ScopeRow{Case: r.Case, Harness: r.Harness, Model: r.Model, Trial: r.Trial, Status: r.Status, Unmeasured: r.Unmeasured}
	if s := r.DiffScope; s != nil {
		row.FilesTouched, row.LinesAdded, row.LinesRemoved, row.Hunks = &s.FilesTouched, &s.LinesAdded, &s.LinesRemoved, &s.Hunks
		row.NoChange, row.Approximate, row.OutsideFiles = &s.NoChange, &s.Approximate, s.OutsideFiles
	}
	if f := r.DiffFacts; f != nil {
		row.EffectiveLines = &f.EffectiveLines
	}
	return row
}

// summarizeArms fills Arms, CaseArms, Coverage and RunSummary.
func (b *Benchmark) summarizeArms(order *order, arms map[ArmID]*arm) {
	b.Arms, b.CaseArms = []Arm{}, order.caseArms(arms)
	by := make(map[string][]*arm)
	for _, a := range order.arms(arms) {
		b.Arms = append(b.Arms, a.summary())
		b.Coverage = b.Coverage.plus(a.coverage())
		by[a.id.Condition] = append(by[a.id.Condition], a)
	}
	for _, condition := range order.summary {
		b.RunSummary.Conditions = append(b.RunSummary.Conditions, Of[Summary]{condition, summarize(by[condition])})
	}
	if order.baseline != "" && len(order.summary) > 1 {
		b.RunSummary.Delta = delta(b.RunSummary.Conditions[0].Value, b.RunSummary.Conditions[1].Value)
	}
}

// caseArms is what each arm did on each of its cases, by case and arm.
func (o *order) caseArms(arms map[ArmID]*arm) []CaseArm {
	out := []CaseArm{}
	for _, a := range o.arms(arms) {
		for _, name := range sortedKeys(a.cases) {
			out = append(out, a.ofCase(name))
		}
	}
	slices.SortStableFunc(out, func(x, y CaseArm) int { return strings.Compare(x.Case, y.Case) })
	return out
}

// policyNotes says what a reader should know of the policy: what may not hold, and which of its rules no cell's agent met.
func policyNotes(p *result.Policy, records []*record) []string {
	if p == nil {
		return nil
	}
	notes := slices.Clone(p.Warnings)
	met := map[int]bool{}
	ran := 0
	for _, r := range records {
		if r == nil {
			continue
		}
		if r.run.Status.Scored() {
			ran++
		}
		for _, n := range r.rules {
			met[n] = true
		}
	}
	for n := 1; n <= p.Rules && ran > 0; n++ {
		if !met[n] {
			notes = append(notes, fmt.Sprintf("rule %d of the %s policy matched nothing that an agent asked", n, p.Name))
		}
	}
	return notes
}

func metadata(m result.Manifest, order *order, cells []*cell) Metadata {
	out := Metadata{
		SkillName: m.Suite, EvalsRun: []int{}, Suite: m.Suite, Tool: m.Tool, Seed: m.Seed, Isolation: m.Isolation, KeyIsolation: m.Keys, Host: m.Host,
		Commit: m.Commit, Untrusted: m.Untrusted, PostHoc: m.PostHoc, AA: m.AA, Conditions: order.conditions, Simulated: []string{}, Cases: []Case{},
	}
	if !m.Created.IsZero() {
		created := m.Created.UTC()
		out.Timestamp = &created
	}
	if order.baseline != "" {
		out.Baseline = &order.baseline
	}
	models := make(map[string]bool)
	trials := make(map[cell]int)
	for _, c := range cells {
		models[c.Model] = true
		if c.phase() == screenPhase {
			slot := cell{Case: c.Case, Harness: c.Harness, Model: c.Model, Condition: c.Condition}
			trials[slot]++
			out.RunsPerConfiguration = max(out.RunsPerConfiguration, trials[slot])
		}
	}
	out.ExecutorModel = strings.Join(sortedKeys(models), ", ")
	for _, h := range m.Harnesses {
		if h.Simulated {
			out.Simulated = append(out.Simulated, h.ID)
		}
	}
	at := make(map[string]result.Case, len(m.Cases))
	for _, c := range m.Cases {
		at[c.ID] = c
	}
	planned := map[string]bool{}
	for _, c := range cells {
		planned[c.Case] = true
	}
	for _, name := range sortedKeys(order.evalID) {
		if planned[name] {
			out.EvalsRun = append(out.EvalsRun, order.evalID[name])
		}
		out.Cases = append(out.Cases, caseOf(order.evalID[name], name, at[name]))
	}
	return out
}

func fingerprint(m result.Manifest) Fingerprint {
	f := Fingerprint{
		Suite: m.Digest, Algorithm: m.Algorithm, Rules: m.Rules, Executor: m.Executor,
		Harnesses: orEmpty(m.Harnesses), Conditions: orEmpty(m.Conditions), Cases: []CaseDigest{},
	}
	for _, c := range m.Cases {
		f.Cases = append(f.Cases, CaseDigest{c.ID, c.AgentDigest, c.GradeDigest})
	}
	slices.SortFunc(f.Cases, func(a, b CaseDigest) int { return strings.Compare(a.Case, b.Case) })
	text, err := json.Marshal(f)
	if err != nil {
		panic(err) // strings, numbers and booleans always marshal
	}
	f.Digest = fmt.Sprintf("sha256:%x", sha256.Sum256(text))
	return f
}

// order is the order of everything in a benchmark. Harnesses, models and conditions keep the suite's, cases go by
// name, candidates stand before the baseline among runs and behind it among arms.
type order struct {
	conditions []string // the suite's
	summary    []string // first candidate, baseline, further candidates, base versions of conditions
	baseline   string   // or empty
	harness    map[string]int
	model      map[[2]string]int // of a harness
	condition  map[string]int    // by summary
	evalID     map[string]int
}

func newOrder(m result.Manifest) *order {
	o := &order{
		conditions: []string{}, harness: make(map[string]int), model: make(map[[2]string]int),
		condition: make(map[string]int), evalID: make(map[string]int),
	}
	for i, h := range m.Harnesses {
		o.harness[h.ID] = i
		for j, name := range h.Models {
			o.model[[2]string{h.ID, name}] = j
		}
	}
	var twins []string
	for _, c := range m.Conditions {
		o.conditions = append(o.conditions, c.ID)
		switch {
		case c.Baseline:
			o.baseline = c.ID
		case c.TwinOf != "":
			twins = append(twins, c.ID)
		default:
			o.summary = append(o.summary, c.ID)
		}
	}
	o.summary = append(o.summary, twins...)
	if o.baseline != "" {
		o.summary = slices.Insert(o.summary, min(1, len(o.summary)), o.baseline)
	}
	for i, c := range o.summary {
		o.condition[c] = i
	}
	for _, c := range m.Cases {
		o.evalID[c.ID] = 0
	}
	for _, c := range m.Cells {
		o.evalID[c.Case] = 0
	}
	for i, name := range sortedKeys(o.evalID) {
		o.evalID[name] = i + 1
	}
	return o
}

// lists says it when the condition of a cell is not one of the run's.
func (o *order) lists(c cell) error {
	if !slices.Contains(o.conditions, c.Condition) {
		return fmt.Errorf("manifest: %s has a condition that is not listed", c)
	}
	return nil
}

func (o *order) cells(a, b cell) int {
	if by := strings.Compare(a.Case, b.Case); by != 0 { // most cells differ here, and the rest takes look-ups
		return by
	}
	if by := cmp.Or(o.harnessModel(a.arm(), b.arm()), cmp.Compare(o.condition[a.Condition], o.condition[b.Condition])); by != 0 {
		return by
	}
	return cmp.Or(
		strings.Compare(a.Phase, b.Phase),
		cmp.Compare(a.Trial, b.Trial),
		strings.Compare(a.Key, b.Key),
		strings.Compare(a.GradeKey, b.GradeKey),
	)
}

func (o *order) harnessModel(a, b ArmID) int {
	return cmp.Or(
		cmp.Compare(o.harness[a.Harness], o.harness[b.Harness]), strings.Compare(a.Harness, b.Harness),
		cmp.Compare(o.model[[2]string{a.Harness, a.Model}], o.model[[2]string{b.Harness, b.Model}]), strings.Compare(a.Model, b.Model),
	)
}

// arms lists the arms, each baseline before its candidates.
func (o *order) arms(arms map[ArmID]*arm) []*arm {
	list := make([]*arm, 0, len(arms))
	for _, a := range arms {
		list = append(list, a)
	}
	rank := func(a *arm) int {
		if a.baseline {
			return -1
		}
		return o.condition[a.id.Condition]
	}
	slices.SortFunc(list, func(a, b *arm) int {
		return cmp.Or(o.harnessModel(a.id, b.id), cmp.Compare(rank(a), rank(b)), strings.Compare(a.id.Condition, b.id.Condition))
	})
	return list
}
