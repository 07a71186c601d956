package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/bench"
)

// A Projection is what a run showed of one arm under test and of the arm beside it, as another tool writes its benchmark.json.
// Both have one harness and one model, so that nothing is mixed.
type Projection struct {
	Head    bench.ArmID
	Refused string // why there is no file: the tool would show a number that was not measured; empty when there is one
	File    []byte
}

// ProjectionFormats are the tools for which there are projections.
var ProjectionFormats = []string{"skill-creator", "eval-magic"}

// Project makes the projections of a benchmark for a tool, by arm under test. Arms that are only compared with stored results
// have none, because the cells of those are elsewhere. The error is an unknown format.
//
// Only scored trials are in it, and of them the assertions that were decided: neither tool can write that it does not know.
// What was left out is said in notes. Rates there are shares of assertions, as both tools have them; a cell that failed
// though its assertions held, such as one at its limit, has one more that tells so.
func Project(b bench.Benchmark, format string) ([]Projection, error) {
	render, ok := map[string]func(*projected) any{"skill-creator": skillCreator, "eval-magic": evalMagic}[format]
	if !ok {
		return nil, fmt.Errorf("there is no projection for %q", format)
	}
	var out []Projection
	seen := map[bench.ArmID]bool{}
	for i := range b.Comparisons {
		c := &b.Comparisons[i]
		if c.Axis == "baseline" || seen[c.Head.ID] {
			continue
		}
		seen[c.Head.ID] = true
		p := newProjected(&b, c)
		one := Projection{Head: c.Head.ID, Refused: p.refused()}
		if one.Refused == "" {
			file, err := json.MarshalIndent(render(p), "", "  ")
			if err != nil {
				return nil, fmt.Errorf("write for %s: %w", format, err)
			}
			one.File = append(file, '\n')
		}
		out = append(out, one)
	}
	return out, nil
}

// A projected is the two sides of a comparison with the runs that a projection shows.
type projected struct {
	b     *bench.Benchmark
	c     *bench.Comparison
	sides [2]projectedSide // head, base
}

type projectedSide struct {
	arm     bench.ArmID
	planned int // cells
	runs    []projectedRun
}

// A projectedRun is a scored trial. Its assertions were decided, and there is at least one.
type projectedRun struct {
	*bench.Run
	assertions []bench.Expectation
	passed     int
}

func (r projectedRun) rate() float64 { return float64(r.passed) / float64(len(r.assertions)) }

func newProjected(b *bench.Benchmark, c *bench.Comparison) *projected {
	p := &projected{b: b, c: c}
	for i, arm := range []bench.ArmID{c.Head.ID, c.Base.ID} {
		side := &p.sides[i]
		side.arm = arm
		for _, a := range b.Arms {
			if a.ArmID == arm {
				side.planned = a.Coverage.Planned
			}
		}
		for j := range b.Runs {
			r := &b.Runs[j]
			if r.Arm() != arm || !r.Status.Scored() || r.Phase == bench.ConfirmPhase {
				continue
			}
			if one := newProjectedRun(r); len(one.assertions) > 0 {
				side.runs = append(side.runs, one)
			}
		}
		slices.SortStableFunc(side.runs, func(x, y projectedRun) int { return cmp.Or(x.EvalID-y.EvalID, x.RunNumber-y.RunNumber) })
	}
	return p
}

func newProjectedRun(r *bench.Run) projectedRun {
	out := projectedRun{Run: r}
	for _, e := range r.Expectations {
		if e.Passed == nil {
			continue
		}
		if *e.Passed {
			out.passed++
		}
		out.assertions = append(out.assertions, e)
	}
	if r.Status == "failed" && out.passed == len(out.assertions) {
		no := false
		out.assertions = append(out.assertions, bench.Expectation{ID: "(cell)", Text: "the cell passes", Passed: &no, Evidence: r.Detail})
	}
	return out
}

// refused tells why the sides must not stand beside each other; empty when they may.
func (p *projected) refused() string {
	if p.c.Obstacle != nil {
		return p.c.Obstacle.Text
	}
	for _, s := range p.sides {
		if len(s.runs) == 0 {
			return "no cell of " + s.arm.String() + " was scored"
		}
	}
	return ""
}

// notes say what a reader of the means must know. rename gives the names under which the sides are shown.
func (p *projected) notes(rename func(string) string) []string {
	out := slices.Clone(p.b.Notes)
	out = append(out, fmt.Sprintf("Assay's verdict on %s is %s; it compares case by case, and these means do not.", p.c.Head.Arm, known(p.c.Verdict)))
	for _, w := range p.c.Warnings {
		out = append(out, w.Text)
	}
	for _, s := range p.sides {
		name := rename(s.arm.Condition)
		if left := s.planned - len(s.runs); left > 0 {
			out = append(out, fmt.Sprintf("%d of %d planned cells of %s were not scored; they are in no number here.", left, s.planned, name))
		}
		for _, m := range []struct {
			name  string
			known int
		}{
			{"The time", len(s.values(agentSeconds))}, {"The number of tokens", len(s.values(freshTokens))},
		} {
			if m.known < len(s.runs) {
				out = append(out, fmt.Sprintf("%s is known of %d of %d runs of %s.", m.name, m.known, len(s.runs), name))
			}
		}
	}
	if len(p.sides[0].values(freshTokens))+len(p.sides[1].values(freshTokens)) > 0 {
		out = append(out, "Tokens are input and output without cached input.")
	}
	return out
}

func shareHeld(r projectedRun) *float64 {
	v := r.rate()
	return &v
}

func agentSeconds(r projectedRun) *float64 { return r.Result.TimeSeconds }

func freshTokens(r projectedRun) *float64 {
	if r.Result.Tokens == nil {
		return nil
	}
	v := float64(*r.Result.Tokens)
	return &v
}

// values are those of the runs of which it is known.
func (s projectedSide) values(of func(projectedRun) *float64) []float64 {
	var out []float64
	for _, r := range s.runs {
		if v := of(r); v != nil {
			out = append(out, *v)
		}
	}
	return out
}

// A viewerSpread is how skill-creator tells of several values. A nil one is not known.
type viewerSpread struct {
	Mean   float64 `json:"mean"`
	StdDev float64 `json:"stddev"` // of a sample; 0 of one value
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func newViewerSpread(v []float64) *viewerSpread {
	s := bench.SpreadOf(v)
	if s == nil {
		return nil
	}
	return &viewerSpread{s.Mean, s.StdDev, s.Min, s.Max}
}

type viewerSummary struct {
	PassRate *viewerSpread `json:"pass_rate"`
	Time     *viewerSpread `json:"time_seconds,omitempty"`
	Tokens   *viewerSpread `json:"tokens,omitempty"`
}

type viewerDelta struct {
	PassRate string `json:"pass_rate"`
	Time     string `json:"time_seconds,omitempty"`
	Tokens   string `json:"tokens,omitempty"`
}

type viewerRun struct {
	EvalID        int               `json:"eval_id"`
	EvalName      string            `json:"eval_name"`
	Configuration string            `json:"configuration"`
	RunNumber     int               `json:"run_number"`
	Result        viewerResult      `json:"result"`
	Expectations  []viewerAssertion `json:"expectations"`
	Notes         []string          `json:"notes"`
}

type viewerResult struct {
	PassRate  float64  `json:"pass_rate"`
	Passed    int      `json:"passed"`
	Failed    int      `json:"failed"`
	Total     int      `json:"total"`
	Time      *float64 `json:"time_seconds,omitempty"`
	Tokens    *int64   `json:"tokens,omitempty"`
	ToolCalls *int     `json:"tool_calls,omitempty"`
	Errors    int      `json:"errors"`
}

type viewerAssertion struct {
	Text     string `json:"text"`
	Passed   bool   `json:"passed"`
	Evidence string `json:"evidence"`
}

// skillCreator is the file that skill-creator's viewer reads.
func skillCreator(p *projected) any {
	summary := bench.ByCondition[any]{}
	var of [2]viewerSummary
	evals := []int{}
	runs := []viewerRun{}
	for i, s := range p.sides {
		of[i] = viewerSummary{newViewerSpread(s.values(shareHeld)), newViewerSpread(s.values(agentSeconds)), newViewerSpread(s.values(freshTokens))}
		summary = append(summary, bench.Of[any]{Condition: configuration(s.arm.Condition), Value: of[i]})
		for _, r := range s.runs {
			runs = append(runs, newViewerRun(r))
			evals = append(evals, r.EvalID)
		}
	}
	slices.SortStableFunc(runs, func(x, y viewerRun) int { return x.EvalID - y.EvalID })
	slices.Sort(evals)
	summary = append(summary, bench.Of[any]{Condition: "delta", Value: viewerDelta{
		differs("%+.2f", of[0].PassRate, of[1].PassRate), differs("%+.1f", of[0].Time, of[1].Time), differs("%+.0f", of[0].Tokens, of[1].Tokens),
	}})
	notes := []string{}
	for _, n := range p.notes(configuration) {
		notes = append(notes, harmless(n))
	}
	return struct {
		Metadata any         `json:"metadata"`
		Runs     []viewerRun `json:"runs"`
		Summary  any         `json:"run_summary"`
		Notes    []string    `json:"notes"`
	}{
		struct {
			Skill            string `json:"skill_name"`
			Model            string `json:"executor_model"`
			Timestamp        string `json:"timestamp,omitempty"`
			Evals            []int  `json:"evals_run"`
			PerConfiguration int    `json:"runs_per_configuration"`
		}{harmless(p.b.Metadata.SkillName), harmless(p.c.Head.ID.Harness + " " + p.c.Head.ID.Model), p.planned(), slices.Compact(evals), p.b.Metadata.RunsPerConfiguration},
		runs, summary, notes,
	}
}

func newViewerRun(r projectedRun) viewerRun {
	out := viewerRun{
		EvalID: r.EvalID, EvalName: harmless(r.EvalName), Configuration: configuration(r.Condition), RunNumber: r.RunNumber, Notes: []string{},
		Expectations: []viewerAssertion{},
		Result: viewerResult{
			PassRate: r.rate(), Passed: r.passed, Failed: len(r.assertions) - r.passed, Total: len(r.assertions),
			Time: r.Result.TimeSeconds, Tokens: r.Result.Tokens, ToolCalls: r.Result.ToolCalls, Errors: r.Result.Errors,
		},
	}
	for _, n := range r.Notes {
		out.Notes = append(out.Notes, harmless(n))
	}
	for _, e := range r.assertions { // the viewer knows them by their texts, so these must differ
		out.Expectations = append(out.Expectations, viewerAssertion{harmless(told(e.ID, e.Text)), *e.Passed, harmless(e.Evidence)})
	}
	return out
}

// configuration is a condition as the viewer may have it: it sorts names that are numbers, and does not escape any.
func configuration(condition string) string {
	if _, err := strconv.Atoi(condition); err == nil {
		return "condition " + condition
	}
	return harmless(condition)
}

// harmless is foreign text that does nothing in skill-creator's viewer, which lays texts into a script and into attributes as
// they are.
func harmless(s string) string {
	return strings.NewReplacer("<", "‹", ">", "›", `"`, "”", "&", "＆").Replace(clean(s, lineSize))
}

// differs is head minus base; empty when a side is not known.
func differs(format string, head, base *viewerSpread) string {
	if head == nil || base == nil {
		return ""
	}
	return fmt.Sprintf(format, head.Mean-base.Mean)
}

// planned is when the run was planned; empty when it is not known.
func (p *projected) planned() string {
	if t := p.b.Metadata.Timestamp; t != nil {
		return t.UTC().Format(time.RFC3339)
	}
	return ""
}

// A magicSpread is how eval-magic tells of several values: of none, all are 0.
type magicSpread struct {
	Mean   float64 `json:"mean"`
	StdDev float64 `json:"stddev"` // of a population
	N      int     `json:"n"`
}

func newMagicSpread(v []float64) magicSpread {
	s := bench.SpreadOf(v)
	if s == nil {
		return magicSpread{}
	}
	return magicSpread{s.Mean, s.StdDev * math.Sqrt(float64(s.N-1)/float64(s.N)), s.N}
}

type magicSummary struct {
	PassRate magicSpread `json:"pass_rate"`
	Duration magicSpread `json:"duration_ms"`
	Tokens   magicSpread `json:"total_tokens"`
}

type magicScope struct {
	Eval         string `json:"eval_id"`
	Run          int    `json:"run_index"`
	FilesTouched int    `json:"files_touched"`
	LinesAdded   int    `json:"lines_added"`
	LinesRemoved int    `json:"lines_removed"`
	Hunks        int    `json:"hunks"`
}

type magicCount struct {
	Passed int `json:"passed"`
	N      int `json:"n"`
}

type magicDelta struct {
	Direction string  `json:"direction"`
	PassRate  float64 `json:"pass_rate"`
	Duration  float64 `json:"duration_ms"`
	Tokens    float64 `json:"total_tokens"`
}

type magicFile struct {
	Generated  string                                      `json:"generated"`
	Mode       string                                      `json:"mode"`
	Baseline   string                                      `json:"baseline,omitempty"`
	Conditions []string                                    `json:"conditions_compared"`
	Missing    int                                         `json:"missing_gradings"`
	Warnings   []string                                    `json:"validity_warnings"`
	Summary    map[string]magicSummary                     `json:"run_summary"`
	Assertions map[string]map[string]map[string]magicCount `json:"assertions"` // by case, assertion and condition
	Scope      map[string][]magicScope                     `json:"diff_scope"`
	Delta      magicDelta                                  `json:"delta"`
}

// evalMagic is the file that eval-magic writes when it aggregates an iteration.
func evalMagic(p *projected) any {
	same := func(name string) string { return name }
	out := magicFile{
		Generated: p.planned(), Mode: "new-skill", Conditions: []string{}, Warnings: p.notes(same),
		Summary: map[string]magicSummary{}, Assertions: map[string]map[string]map[string]magicCount{}, Scope: map[string][]magicScope{},
	}
	if p.c.Axis == "twin" {
		out.Mode, out.Baseline = "revision", p.c.Base.ID.Condition
	}
	var of [2]magicSummary
	for i, s := range p.sides {
		name := s.arm.Condition
		of[i] = magicSummary{newMagicSpread(s.values(shareHeld)), newMagicSpread(s.values(agentMilliseconds)), newMagicSpread(s.values(freshTokens))}
		out.Conditions, out.Summary[name], out.Scope[name] = append(out.Conditions, name), of[i], []magicScope{}
		out.Missing += s.planned - len(s.runs)
		for _, r := range s.runs {
			out.count(name, r)
			if d := r.DiffScope; d != nil && !d.Approximate {
				out.Scope[name] = append(out.Scope[name], magicScope{r.Case, r.RunNumber, d.FilesTouched, d.LinesAdded, d.LinesRemoved, d.Hunks})
			}
		}
		if lost := len(s.runs) - len(out.Scope[name]); lost > 0 {
			out.Warnings = append(out.Warnings, fmt.Sprintf("The diff scope of %d of %d runs of %s is not known, or only bounds of it are; they have no row.", lost, len(s.runs), name))
		}
	}
	out.Delta = magicDelta{
		Direction: out.Conditions[0] + " - " + out.Conditions[1], PassRate: of[0].PassRate.Mean - of[1].PassRate.Mean,
		Duration: of[0].Duration.less(of[1].Duration), Tokens: of[0].Tokens.less(of[1].Tokens),
	}
	return out
}

// less is the difference of two means. It is 0 when one of them is not known, because the format has no other word; n and a
// warning tell so.
func (a magicSpread) less(b magicSpread) float64 {
	if a.N == 0 || b.N == 0 {
		return 0
	}
	return a.Mean - b.Mean
}

func agentMilliseconds(r projectedRun) *float64 {
	if r.Result.TimeSeconds == nil {
		return nil
	}
	v := *r.Result.TimeSeconds * 1000
	return &v
}

// count lays the assertions of a run into the file.
func (f *magicFile) count(condition string, r projectedRun) {
	of := f.Assertions[r.Case]
	if of == nil {
		of = map[string]map[string]magicCount{}
		f.Assertions[r.Case] = of
	}
	for _, e := range r.assertions {
		if of[e.ID] == nil {
			of[e.ID] = map[string]magicCount{}
		}
		n := of[e.ID][condition]
		n.N++
		if *e.Passed {
			n.Passed++
		}
		of[e.ID][condition] = n
	}
}
