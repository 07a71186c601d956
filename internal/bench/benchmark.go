package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/assay-ci/assay/internal/result"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Schema is the version of benchmark.json.
const Schema = 1

// maxFile bounds the benchmark.json that Read takes: a million runs fit.
const maxFile = 2 << 30

// A Benchmark is everything that a run showed, and the content of benchmark.json. It is a superset of the file that
// skill-creator writes, so that tool's viewer opens it. What is not known is null, never 0.
//
// Wall clock stands in few places, all of which WithoutTimes empties: metadata.timestamp, result.time_seconds of the
// runs, time_seconds of the run summary and its delta, duration_seconds of the arms, of their cases and among the metrics of
// comparisons, created of the baseline's origin, and the history.
type Benchmark struct {
	SchemaVersion int                     `json:"schema_version"`
	Metadata      Metadata                `json:"metadata"`
	Simulated     bool                    `json:"simulated"`   // some agents were scripted: their numbers show the tool, not a model
	Interrupted   bool                    `json:"interrupted"` // the run was stopped before its end
	Verdict       Verdict                 `json:"verdict"`     // the worst of the arms under test
	Reason        Reason                  `json:"reason"`
	Gate          Decision                `json:"gate"`
	Coverage      Coverage                `json:"coverage"` // of all planned cells
	Notes         []string                `json:"notes"`
	RunSummary    RunSummary              `json:"run_summary"`
	Arms          []Arm                   `json:"arms"`                   // baseline before its candidates
	Comparisons   []Comparison            `json:"comparisons"`            // by head arm, and there twin, baseline, condition
	Origin        *Origin                 `json:"baseline_origin"`        // of the stored baseline, or why there is none; nil when none was asked for
	FalseAlarms   *FalseAlarms            `json:"false_alarms,omitempty"` // of a run of equal arms
	History       *History                `json:"history,omitempty"`      // of the arms, from earlier runs to this one; nil: no earlier run is known
	CaseArms      []CaseArm               `json:"case_arms"`              // what each arm did on each case, by case and arm
	DiffScope     ByCondition[[]ScopeRow] `json:"diff_scope"`
	Beside        BesideCost              `json:"beside"`           // what was asked of models beside the agents; in no cost of an arm
	Judges        []Judge                 `json:"judges"`           // how far each judge can be trusted, by case and assertion
	Assertions    []Assertion             `json:"assertions"`       // by case and place in it: which of them measure anything
	Scores        []ArmScore              `json:"assertion_scores"` // with and without those that do not
	Missing       []Missing               `json:"missing"`          // planned cells that are in no rate
	Unplanned     []string                `json:"unplanned"`        // records of no planned cell, by cell or folder; they enter nothing
	Unreadable    []string                `json:"unreadable"`       // records that could not be read; their cells are missing
	Contamination *Contamination          `json:"contamination,omitempty"`
	Fingerprint   Fingerprint             `json:"fingerprint"`
	Runs          []Run                   `json:"runs"` // cells whose agent was started, candidate before baseline
}

// Metadata says what was run. The first six fields are skill-creator's.
type Metadata struct {
	SkillName            string      `json:"skill_name"`
	ExecutorModel        string      `json:"executor_model"` // every model, separated by commas
	AnalyzerModel        *string     `json:"analyzer_model"`
	Timestamp            *time.Time  `json:"timestamp"`              // when the run was planned
	EvalsRun             []int       `json:"evals_run"`              // of the cases that were planned
	RunsPerConfiguration int         `json:"runs_per_configuration"` // most trials planned of any cell
	Suite                string      `json:"suite"`
	Tool                 string      `json:"tool"`
	Seed                 string      `json:"seed"`
	Isolation            string      `json:"isolation"`
	KeyIsolation         string      `json:"key_isolation,omitempty"` // between agents and keys of models: none, uid, namespace or container; empty when not known
	Host                 result.Host `json:"host"`
	Conditions           []string    `json:"conditions"`
	Baseline             *string     `json:"baseline"`
	Commit               string      `json:"commit"`    // that was measured; empty when not known
	Untrusted            bool        `json:"untrusted"` // whoever is not trusted had a say in how it was measured
	Simulated            []string    `json:"simulated_harnesses"`
	Policy               []string    `json:"policy_notes,omitempty"` // what may not hold of the answers that agents got, and rules that met no ask
	AA                   bool        `json:"aa,omitempty"`           // the candidate is a copy of the baseline
	PostHoc              []string    `json:"post_hoc,omitempty"`     // how the plan was changed after results of it were there
	Cases                []Case      `json:"cases"`
}

// A Case is a case of the suite with the number that skill-creator knows it by.
type Case struct {
	EvalID int    `json:"eval_id"`
	Case   string `json:"case"`
	File   string `json:"file"`
	Line   int    `json:"line"`

	Admission    string   `json:"admission,omitempty"`     // admitted, failed, unproven or no_record; empty when nobody looked
	AdmissionWhy []string `json:"admission_why,omitempty"` // of failed and unproven
}

// Contamination counts the cells whose cases have hidden assets by whether it is proven that their agents did not have them.
// Nil: there is no such cell.
type Contamination struct {
	Cells    int  `json:"cells"`
	Proven   int  `json:"proven"`
	Prevents bool `json:"prevents"` // no agent could read the files of the host; false: the proof may only detect it
}

// A Decision is what the gate says, the settings it was taken under and what took it. It is post hoc when it was taken
// again under settings that are not those of before the first cell ran; these are then Planned, which else is nil. It is so,
// too, when the plan was changed after results were there: see Metadata.
type Decision struct {
	Settings result.Gate  `json:"settings"`
	PostHoc  bool         `json:"post_hoc"`
	Planned  *result.Gate `json:"planned"`
	Result   string       `json:"result"` // passed, failed or unmeasured
	ExitCode int          `json:"exit_code"`
	By       string       `json:"by"` // the code of the reason that decided
	Text     string       `json:"text"`
}

// An ArmID names an arm.
type ArmID struct {
	Harness   string `json:"harness"`
	Model     string `json:"model"`
	Condition string `json:"condition"`
}

// String is harness/model/condition.
func (a ArmID) String() string { return a.Harness + "/" + a.Model + "/" + a.Condition }

// Coverage counts planned cells by how they ended. Scored is passed and failed together; they alone enter rates.
type Coverage struct {
	Planned int     `json:"planned"`
	Scored  int     `json:"scored"`
	Passed  int     `json:"passed"`
	Failed  int     `json:"failed"`
	Errored int     `json:"errored"`
	Skipped int     `json:"skipped"`
	Pending int     `json:"pending"` // planned, and no result is there
	Share   float64 `json:"share"`   // scored of planned, 0 to 1
}

// An Arm is what all cells of one harness, model and condition showed. Estimates are nil where nothing was measured.
type Arm struct {
	ArmID
	Baseline  bool      `json:"baseline"`
	Simulated bool      `json:"simulated"`
	Models    []string  `json:"models_reported"`
	Versions  []string  `json:"versions_reported"` // of the agent
	Coverage  Coverage  `json:"coverage"`
	Held      Held      `json:"condition_held"`
	NCases    int       `json:"n_cases"`   // planned
	PassRate  *Estimate `json:"pass_rate"` // mean of the case rates, 0 to 1
	SE        *float64  `json:"se"`        // of the mean of all trials, trials of one case together; nil under two cases
	PassAt    []PassAt  `json:"pass_at"`
	Cost      Cost      `json:"cost"`
	Beside    Cost      `json:"beside"`   // of the responder and of judges, without calibration
	CostUSD   *Estimate `json:"cost_usd"` // of a scored trial, median over cases; so are the following
	Tokens    *Estimate `json:"tokens"`
	Turns     *Estimate `json:"turns"`
	Duration  *Estimate `json:"duration_seconds"`
	DiffScope ArmScope  `json:"diff_scope"`
}

// Held counts the cells of an arm that were run by whether they had their condition. An arm with a cell that had it not is
// not compared.
type Held struct {
	Verified int `json:"verified"` // the agent's first request to its model showed it, or the first snapshot
	NotHeld  int `json:"not_held"` // it was not as it should be; the cell errored
	Unknown  int `json:"unknown"`  // nothing showed it
}

// PassAt is the chance that any of k trials passes, and that all do. Both are nil, with a reason, when a case has
// fewer than k scored trials.
type PassAt struct {
	K      int      `json:"k"`
	Any    *float64 `json:"pass_at_k"`
	All    *float64 `json:"pass_hat_k"`
	Reason string   `json:"reason,omitempty"`
}

// BesideCost is the money that was spent beside the agents, over all attempts of all planned cells.
type BesideCost struct {
	Responder   Cost `json:"responder"`
	Judge       Cost `json:"judge"`
	Calibration Cost `json:"calibration"` // of judges, once in a run
}

// A Judge is a model that judged an assertion of a case, over all cells of the case. A judge that was calibrated more than
// once, in shards or a run that went on, has a row for each time that it did differently.
type Judge struct {
	Case      string `json:"case"`
	Assertion string `json:"assertion"`
	Cells     int    `json:"cells"` // that it was asked about, or refused for
	result.Judged
}

// Cost is the money that all attempts of an arm spent, errored ones too.
type Cost struct {
	USD     *float64 `json:"usd"`     // sum of what is known; nil when nothing is
	Unknown int      `json:"unknown"` // attempts whose cost is not known and not in the sum
}

// ArmScope is the size of the changes of an arm, over all scored cells and over the passed ones. A failed cell that
// changed nothing is not a small fix, so pages show the passed ones.
type ArmScope struct {
	Scored  ScopeMedians `json:"scored"`
	Passed  ScopeMedians `json:"passed"`
	Signals ArmSignals   `json:"signals"` // over all scored cells
}

// ScopeMedians are medians over cases of the median of a case's trials. From effective_lines on they are over the trials
// of which the number is known; n says how many cases have any.
type ScopeMedians struct {
	Cells          int       `json:"cells"`      // with a measured diff scope
	Unmeasured     int       `json:"unmeasured"` // without one; they are in no median
	FilesTouched   *Estimate `json:"files_touched"`
	LinesChanged   *Estimate `json:"lines_changed"` // added and removed together
	LinesAdded     *Estimate `json:"lines_added"`
	LinesRemoved   *Estimate `json:"lines_removed"`
	Hunks          *Estimate `json:"hunks"`
	EffectiveLines *Estimate `json:"effective_lines"` // lines changed without those that only move blanks
	TestShare      *Estimate `json:"test_share"`      // of the lines changed, 0 to 1; of trials that changed lines
	DocsShare      *Estimate `json:"docs_share"`
	GeneratedShare *Estimate `json:"generated_share"` // generated, vendored and lockfiles together
	ExcessLines    *Estimate `json:"excess_lines"`    // over the reference; of cases that have one
	Ratio          *Estimate `json:"ratio"`           // of the size to that of the reference; of cases that have one
}

// A CaseArm is what one arm did on one case.
type CaseArm struct {
	Case string `json:"case"`
	ArmID
	Coverage     Coverage  `json:"coverage"`
	Confirm      *Coverage `json:"confirm"`         // trials of the case when it was run again, in no rate; nil: it was not
	Drift        *Coverage `json:"drift,omitempty"` // of a base version: the trials that check stored results; nil: it was not run for that
	PassRate     *Estimate `json:"pass_rate"`       // with Wilson's interval; n counts trials
	FilesTouched *float64  `json:"files_touched"`   // median of the passed trials; so are the following
	LinesChanged *float64  `json:"lines_changed"`
	LinesAdded   *float64  `json:"lines_added"`
	LinesRemoved *float64  `json:"lines_removed"`
	Hunks        *float64  `json:"hunks"`
	CostUSD      *float64  `json:"cost_usd"` // median of the scored trials of which it is known; so are the following
	Tokens       *float64  `json:"tokens"`
	Turns        *float64  `json:"turns"`
	Duration     *float64  `json:"duration_seconds"`
}

// A Comparison sets a head arm against a base arm, case by case. Effects are head minus base, in percentage points;
// negative is worse. It holds everything that its verdict was made from, so that it can be judged again.
type Comparison struct {
	Axis           string       `json:"axis"` // twin, baseline (the same arm of a stored benchmark) or condition
	Base           Side         `json:"base"`
	Head           Side         `json:"head"`
	Gates          bool         `json:"gates"`    // enters the verdict of the suite; at most one for each head arm
	Alpha          float64      `json:"alpha"`    // of this comparison
	Obstacle       *Reason      `json:"obstacle"` // what forbids to compare, whatever the numbers; nil: nothing
	MarginPP       float64      `json:"margin_pp"`
	NCases         int          `json:"n_cases"` // of either side
	NPairs         int          `json:"n_pairs"` // cases with a scored trial on both sides
	EffectPP       *float64     `json:"effect_pp"`
	LoPP           *float64     `json:"lo_pp"`
	HiPP           *float64     `json:"hi_pp"`
	Test           string       `json:"test"`              // that gates: stratified_exact, or signflip_exact when the suite claims for a population
	PGlobal        *float64     `json:"p_global"`          // one-sided: head is worse on these cases
	PGlobalBetter  *float64     `json:"p_global_improved"` // one-sided: head is better
	PMin           *float64     `json:"p_min"`             // the least p that these trials allow
	SignflipP      *float64     `json:"signflip_p"`        // one-sided: head is worse on cases like these
	SignflipBetter *float64     `json:"signflip_p_improved"`
	CasesLikeThese *Interval    `json:"cases_like_these"` // of the effect, in percentage points
	MDEPP          *float64     `json:"mde_pp"`           // smallest effect found in 80 of 100 such runs
	NUninformative int          `json:"n_uninformative"`  // cases that all trials of both sides passed, or failed
	NWorse         int          `json:"n_worse"`          // cases whose rate fell
	NBetter        int          `json:"n_better"`
	PCases         []CasePair   `json:"p_cases"`        // by p, then case
	Metrics        []Metric     `json:"metrics"`        // cost, tokens, time, turns and size beside the verdict; they never gate
	Split          *Split       `json:"variance_split"` // nil: a case has fewer than two trials on a side, there are fewer than two cases, or nothing scattered
	Coverage       PairCoverage `json:"coverage"`
	Drift          *Drift       `json:"drift,omitempty"` // of axis baseline: whether the stored trials still hold; nil: nobody looked
	InfraSkewP     *float64     `json:"infra_skew_p"`    // two-sided: errored cells fall on one side
	WorstCase      *WorstCase   `json:"worst_case"`      // nil when nothing is missing, or nothing could be compared
	Unpaired       []Unpaired   `json:"unpaired"`
	Verdict        Verdict      `json:"verdict"`
	ExitCode       int          `json:"exit_code"` // as if it were alone
	Reasons        []Reason     `json:"reasons"`
	Warnings       []Warning    `json:"warnings"`
}

// A Metric is one number of both arms beside their passes, paired by case: of each case the median of its scored trials, for
// lines and files of its passed ones. Cases of which a side does not know it are left out, and of ratios those where it is 0.
// It never gates.
type Metric struct {
	Name   string   `json:"name"` // cost_usd, tokens, duration_seconds, turns, lines_changed or files_touched
	Kind   string   `json:"kind"` // ratio (head over base) or difference (head minus base)
	NPairs int      `json:"n_pairs"`
	Base   *float64 `json:"base"` // median over the pairs; nil without any, as are the following
	Head   *float64 `json:"head"`
	Value  *float64 `json:"value"` // the middle ratio or difference (Hodges and Lehmann)
	Lo     *float64 `json:"lo"`    // its 95 % interval; nil under six pairs, and where it would have no width
	Hi     *float64 `json:"hi"`
	P      *float64 `json:"p"` // two-sided signed ranks, exact up to 200 pairs
}

// A Split tells where the scatter of the case differences comes from, in squared rates, and what that means for a plan.
type Split struct {
	Chance float64 `json:"chance"` // part that more trials shrink
	Cases  float64 `json:"cases"`  // part that only more cases shrink
	Advice string  `json:"advice"` // trials or cases, whose part is more than twice the other, or both: what to buy to see smaller effects
}

// A Drift is the check of stored trials against one fresh trial of the base version on each case. It is over the cases with
// a scored trial of both.
type Drift struct {
	NCases int      `json:"n_cases"`
	Stored Passes   `json:"stored"`
	Fresh  Passes   `json:"fresh"`
	P      *float64 `json:"p"`    // two-sided, exact; nil: too few of the fresh trials were scored to say anything
	Seen   bool     `json:"seen"` // p is at most 0.05: the stored trials are dropped
}

// A Side is one arm of a comparison.
type Side struct {
	Arm string `json:"arm"`
	ID  ArmID  `json:"id"`
}

// An Interval has two ends.
type Interval struct {
	LoPP float64 `json:"lo_pp"`
	HiPP float64 `json:"hi_pp"`
}

// Passes are the passed of n scored trials, with how many were planned and how many errored.
type Passes struct {
	Passed  int `json:"passed"`
	N       int `json:"n"`
	Planned int `json:"planned"`
	Errored int `json:"errored"`
}

// A CasePair is one case on both sides, with exact one-sided p-values and the same after Holm's adjustment.
type CasePair struct {
	Case          string        `json:"case"`
	Phase         string        `json:"phase"` // that p_holm is of: screen or confirm
	Base          Passes        `json:"base"`  // of the screen, as are p and the following
	Head          Passes        `json:"head"`
	P             float64       `json:"p"`
	PHolm         *float64      `json:"p_holm"` // nil: other cases were run again, and this one is not in question
	PImproved     float64       `json:"p_improved"`
	PImprovedHolm float64       `json:"p_improved_holm"`
	Confirm       *Confirmation `json:"confirm"`   // nil: the case was not run again
	Regressed     bool          `json:"regressed"` // p_holm is at most half of alpha, and there is no obstacle
	Improved      bool          `json:"improved"`
}

// A Confirmation is what the fresh trials of a case showed that was run again.
type Confirmation struct {
	Base Passes  `json:"base"`
	Head Passes  `json:"head"`
	P    float64 `json:"p"` // one-sided: head is worse; 1 when a side has no scored trial
}

// PairCoverage is the coverage of a comparison and of its sides.
type PairCoverage struct {
	Coverage
	Base Coverage `json:"base"`
	Head Coverage `json:"head"`
}

// WorstCase is the comparison again, with every missing base cell passed and every missing head cell failed. A case that
// only the base has counts as missing from the head.
type WorstCase struct {
	EffectPP float64 `json:"effect_pp"`
	Verdict  Verdict `json:"verdict"`
}

// An Unpaired case is in no effect: one side has no scored trial of it, or it is not the same case on both sides.
type Unpaired struct {
	Case   string `json:"case"`
	Reason string `json:"reason"` // unscored_base, unscored_head, unscored_both, case_changed, graders_changed, only_base or only_head
	Base   Passes `json:"base"`
	Head   Passes `json:"head"`
}

// A Run is one cell that was run. EvalID to Notes are skill-creator's, the rest is ours.
type Run struct {
	EvalID        int                `json:"eval_id"`
	EvalName      string             `json:"eval_name"`
	Configuration string             `json:"configuration"`
	RunNumber     int                `json:"run_number"`
	Result        RunResult          `json:"result"`
	Expectations  []Expectation      `json:"expectations"`
	Notes         []string           `json:"notes"`
	Case          string             `json:"case"`
	Harness       string             `json:"harness"`
	Model         string             `json:"model"`
	Condition     string             `json:"condition"`
	Trial         int                `json:"trial"`
	Phase         string             `json:"phase"` // screen, confirm, or of a base version drift or rerun; confirm trials are in no rate
	Status        result.Status      `json:"status"`
	Class         string             `json:"class,omitempty"`
	Reason        string             `json:"reason,omitempty"`
	Detail        string             `json:"detail,omitempty"`
	Score         *float64           `json:"score"`
	CostUSD       *float64           `json:"cost_usd"` // of all attempts
	Turns         *int               `json:"turns"`
	DiffScope     *Scope             `json:"diff_scope"`
	Unmeasured    *result.Unmeasured `json:"unmeasured,omitempty"` // why there is no diff scope
	DiffFacts     *DiffFacts         `json:"diff_facts"`           // nil: not looked for, or no diff scope
	TraceChurn    *TraceChurn        `json:"trace_churn"`          // nil: the trace shows no edits, or there is no diff scope
}

// Arm names the arm of the run.
func (r Run) Arm() ArmID { return ArmID{r.Harness, r.Model, r.Condition} }

// RunResult counts the assertions of a run. PassRate is the share of the graded ones that held, and nil when none was.
type RunResult struct {
	PassRate    *float64 `json:"pass_rate"`
	Passed      int      `json:"passed"`
	Failed      int      `json:"failed"`
	Total       int      `json:"total"`
	TimeSeconds *float64 `json:"time_seconds"` // of the agent
	Tokens      *int64   `json:"tokens"`       // fresh input and output, without cached input
	ToolCalls   *int     `json:"tool_calls"`
	Errors      int      `json:"errors"` // attempts that errored
}

// An Expectation is an assertion as skill-creator names it. Passed is nil when the grader could not tell.
type Expectation struct {
	Text     string `json:"text"`
	Passed   *bool  `json:"passed"`
	Evidence string `json:"evidence"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Gate     bool   `json:"gate"`
}

// A Scope is the size of one change. The first four numbers count what is in scope.
type Scope struct {
	FilesTouched int     `json:"files_touched"`
	LinesAdded   int     `json:"lines_added"`
	LinesRemoved int     `json:"lines_removed"`
	Hunks        int     `json:"hunks"`
	NoChange     bool    `json:"no_change"`
	Approximate  bool    `json:"approximate"`   // the numbers are bounds
	OutsideFiles *int    `json:"outside_files"` // existing files outside scope that were edited or deleted; nil when not known
	OutsideLines *int    `json:"outside_lines"` // added and removed in them; nil when not known, or only a bound is
	Reference    *Excess `json:"reference"`     // nil: the case has no reference
}

// LinesChanged is added and removed together.
func (s Scope) LinesChanged() int { return s.LinesAdded + s.LinesRemoved }

// A ScopeRow is the diff scope of one cell that was run. The numbers are null where it was not measured.
type ScopeRow struct {
	Case           string             `json:"case"`
	Harness        string             `json:"harness"`
	Model          string             `json:"model"`
	Trial          int                `json:"trial"`
	Status         result.Status      `json:"status"`
	FilesTouched   *int               `json:"files_touched"`
	LinesAdded     *int               `json:"lines_added"`
	LinesRemoved   *int               `json:"lines_removed"`
	Hunks          *int               `json:"hunks"`
	NoChange       *bool              `json:"no_change"`
	Approximate    *bool              `json:"approximate"`
	OutsideFiles   *int               `json:"outside_files"`
	EffectiveLines *int               `json:"effective_lines"`
	Unmeasured     *result.Unmeasured `json:"unmeasured,omitempty"`
}

// A Missing cell was planned and is in no rate.
type Missing struct {
	Case      string `json:"case"`
	Harness   string `json:"harness"`
	Model     string `json:"model"`
	Condition string `json:"condition"`
	Trial     int    `json:"trial"`
	Status    string `json:"status"` // errored, skipped or pending
	Class     string `json:"class,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Detail    string `json:"detail,omitempty"`
	Attempts  int    `json:"attempts"`
}

// Arm names the arm of the cell.
func (m Missing) Arm() ArmID { return ArmID{m.Harness, m.Model, m.Condition} }

// A Fingerprint is what two runs must share to be compared. Digest covers the other fields.
type Fingerprint struct {
	Digest     string             `json:"digest"`
	Suite      string             `json:"suite_digest"`
	Algorithm  string             `json:"diff_algorithm"`
	Rules      string             `json:"grading_rules"` // empty when not known
	Executor   string             `json:"executor"`
	Harnesses  []result.Harness   `json:"harnesses"`
	Conditions []result.Condition `json:"conditions"`
	Cases      []CaseDigest       `json:"cases"`
}

// A CaseDigest says what a case asked and how it was graded.
type CaseDigest struct {
	Case  string `json:"case"`
	Agent string `json:"agent_digest"`
	Grade string `json:"grade_digest"`
}

// A RunSummary is skill-creator's summary by condition, over all harnesses and models: the first candidate, the
// baseline, then further candidates. Delta is first candidate minus baseline by role, nil without either.
type RunSummary struct {
	Conditions ByCondition[Summary]
	Delta      *Delta
}

// A Summary is what one condition did. A field is nil when nothing of it was measured.
type Summary struct {
	PassRate    *Spread `json:"pass_rate"` // over case rates; the mean is the arm's pass rate
	TimeSeconds *Spread `json:"time_seconds"`
	Tokens      *Spread `json:"tokens"`
}

// A Spread describes n values. StdDev is 0 when n is 1, since viewers of this file cannot do without it.
type Spread struct {
	Mean   float64 `json:"mean"`
	StdDev float64 `json:"stddev"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
}

// A Delta is a difference of means as text with its sign, such as "+0.50"; nil when a side is not known.
type Delta struct {
	PassRate    *string `json:"pass_rate"`
	TimeSeconds *string `json:"time_seconds"`
	Tokens      *string `json:"tokens"`
}

// ByCondition is a JSON object with one key a condition, in an order that means something.
type ByCondition[T any] []Of[T]

// Of is the value of one condition.
type Of[T any] struct {
	Condition string
	Value     T
}

// Get returns the value of a condition.
func (o ByCondition[T]) Get(condition string) (T, bool) {
	for _, e := range o {
		if e.Condition == condition {
			return e.Value, true
		}
	}
	var zero T
	return zero, false
}

// MarshalJSONTo writes the object in its order.
func (o ByCondition[T]) MarshalJSONTo(to *jsontext.Encoder) error {
	if err := to.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, e := range o {
		if err := writeMember(to, e.Condition, e.Value); err != nil {
			return err
		}
	}
	return to.WriteToken(jsontext.EndObject)
}

// MarshalJSON is MarshalJSONTo for encoding/json.
func (o ByCondition[T]) MarshalJSON() ([]byte, error) { return jsonv2.Marshal(o, asWritten) }

// UnmarshalJSONFrom reads an object and keeps its order.
func (o *ByCondition[T]) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	*o = nil
	return members(from, func(key string) error {
		e := Of[T]{Condition: key}
		err := jsonv2.UnmarshalDecode(from, &e.Value)
		*o = append(*o, e)
		return err
	})
}

// UnmarshalJSON is UnmarshalJSONFrom for encoding/json.
func (o *ByCondition[T]) UnmarshalJSON(data []byte) error { return jsonv2.Unmarshal(data, o) }

// MarshalJSONTo writes the conditions in their order and delta last.
func (s RunSummary) MarshalJSONTo(to *jsontext.Encoder) error {
	if err := to.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, e := range s.Conditions {
		if err := writeMember(to, e.Condition, e.Value); err != nil {
			return err
		}
	}
	if err := writeMember(to, "delta", s.Delta); err != nil {
		return err
	}
	return to.WriteToken(jsontext.EndObject)
}

// MarshalJSON is MarshalJSONTo for encoding/json.
func (s RunSummary) MarshalJSON() ([]byte, error) { return jsonv2.Marshal(s, asWritten) }

// UnmarshalJSONFrom reads what MarshalJSONTo writes.
func (s *RunSummary) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	*s = RunSummary{}
	return members(from, func(key string) error {
		if key == "delta" {
			return jsonv2.UnmarshalDecode(from, &s.Delta)
		}
		e := Of[Summary]{Condition: key}
		err := jsonv2.UnmarshalDecode(from, &e.Value)
		s.Conditions = append(s.Conditions, e)
		return err
	})
}

// UnmarshalJSON is UnmarshalJSONFrom for encoding/json.
func (s *RunSummary) UnmarshalJSON(data []byte) error { return jsonv2.Unmarshal(data, s) }

func writeMember(to *jsontext.Encoder, key string, value any) error {
	if err := to.WriteToken(jsontext.String(key)); err != nil {
		return err
	}
	return jsonv2.MarshalEncode(to, value)
}

// members calls each for every member of a JSON object, in order, to read its value.
func members(from *jsontext.Decoder, each func(key string) error) error {
	open, err := from.ReadToken()
	if err != nil || open.Kind() == jsontext.KindNull {
		return err
	}
	if open.Kind() != jsontext.KindBeginObject {
		return fmt.Errorf("%s where an object of conditions was expected", open.Kind())
	}
	for from.PeekKind() != jsontext.KindEndObject {
		key, err := from.ReadToken()
		if err != nil {
			return err
		}
		if err := each(key.String()); err != nil {
			return err
		}
	}
	_, err = from.ReadToken()
	return err
}

// ExitCode is what a program that asks the gate ends with: 0 passed, 1 failed, 3 unmeasured.
func (b Benchmark) ExitCode() int { return b.Gate.ExitCode }

// asWritten has the faster encoder write what encoding/json would.
var asWritten = jsonv1.DefaultOptionsV1()

// WriteJSON writes the content of benchmark.json: indented, keys in a fixed order, one newline at the end.
func (b Benchmark) WriteJSON(w io.Writer) error {
	err := jsonv2.MarshalWrite(w, b, asWritten, jsontext.WithIndent("  "))
	if err == nil {
		_, err = io.WriteString(w, "\n")
	}
	if err != nil {
		return fmt.Errorf("write benchmark.json: %w", err)
	}
	return nil
}

// JSON is what WriteJSON writes.
func (b Benchmark) JSON() ([]byte, error) {
	var out bytes.Buffer
	err := b.WriteJSON(&out)
	return out.Bytes(), err
}

// Read reads a benchmark.json that Assay wrote. It refuses one of another schema version, and one whose counts cannot be:
// what it returns can be compared and judged again, wherever it came from.
func Read(r io.Reader) (Benchmark, error) {
	limited := &io.LimitedReader{R: r, N: maxFile}
	var file recorded
	if err := jsonv2.UnmarshalRead(limited, &file); err != nil {
		if limited.N <= 0 {
			return Benchmark{}, fmt.Errorf("read benchmark.json: larger than %d bytes", maxFile)
		}
		return Benchmark{}, fmt.Errorf("read benchmark.json: %w", err)
	}
	b := file.Benchmark
	if b.SchemaVersion != Schema {
		return Benchmark{}, fmt.Errorf("read benchmark.json: schema_version %d, this assay reads %d", b.SchemaVersion, Schema)
	}
	if err := b.sound(); err != nil {
		return Benchmark{}, fmt.Errorf("read benchmark.json: %w", err)
	}
	for _, of := range b.RunSummary.Conditions {
		b.DiffScope = append(b.DiffScope, Of[[]ScopeRow]{of.Condition, scopeRows(b.Runs, of.Condition)})
	}
	return b, nil
}

// recorded is a benchmark in a file.
type recorded struct {
	Benchmark
	DiffScope passedOver `json:"diff_scope"` // a quarter of a large file, and all of it stands in the runs too
}

// passedOver takes any value and keeps nothing of it.
type passedOver struct{}

func (passedOver) UnmarshalJSONFrom(from *jsontext.Decoder) error { return from.SkipValue() }

// What a sound benchmark holds at most. The tests of a comparison take time and memory with the trials of its arms.
const (
	mostArms        = 1000
	mostOfArm       = 50_000 // cells
	mostComparisons = 3 * mostArms
)

// sound says what in the counts of a foreign benchmark cannot be.
func (b Benchmark) sound() error {
	for _, g := range []*result.Gate{&b.Gate.Settings, b.Gate.Planned} {
		if g == nil {
			continue
		}
		if !(g.Alpha > 0 && g.Alpha < 1) {
			return fmt.Errorf("alpha of the gate is %g, it must lie between 0 and 1", g.Alpha)
		}
		if _, err := settled(*g); err != nil {
			return err
		}
	}
	if len(b.Arms) > mostArms || len(b.Comparisons) > mostComparisons {
		return fmt.Errorf("%d arms and %d comparisons are more than it can hold", len(b.Arms), len(b.Comparisons))
	}
	cells := make(map[ArmID]int)
	for _, a := range b.Arms {
		if _, twice := cells[a.ArmID]; twice {
			return fmt.Errorf("arm %s is there twice", clip(a.String()))
		}
		if h := a.Held; min(h.Verified, h.NotHeld, h.Unknown) < 0 {
			return fmt.Errorf("arm %s counts fewer than no cells", clip(a.String()))
		}
		cells[a.ArmID] = 0
		if !a.Coverage.sound() {
			return fmt.Errorf("the counts of arm %s do not add up", clip(a.String()))
		}
	}
	seen := make(map[CaseArm]bool)
	for _, c := range b.CaseArms {
		slot := CaseArm{Case: c.Case, ArmID: c.ArmID}
		if !c.Coverage.sound() || c.Confirm != nil && !c.Confirm.sound() || c.Drift != nil && !c.Drift.sound() || seen[slot] {
			return fmt.Errorf("the counts of case %s of arm %s do not add up", clip(c.Case), clip(c.String()))
		}
		seen[slot] = true
		cells[c.ArmID] += c.Coverage.Planned
		if cells[c.ArmID] > mostOfArm {
			return fmt.Errorf("arm %s has more than %d cells", clip(c.String()), mostOfArm)
		}
	}
	for _, c := range b.Comparisons {
		if err := c.sound(); err != nil {
			return fmt.Errorf("comparison of %s: %w", clip(c.Head.Arm), err)
		}
	}
	if b.History != nil {
		if err := b.History.sound(); err != nil {
			return fmt.Errorf("history: %w", err)
		}
	}
	if !slices.Contains(worstFirst, b.Verdict) {
		return fmt.Errorf("there is no verdict %q", clip(string(b.Verdict)))
	}
	if want, known := decisions[b.Gate.ExitCode]; !known || b.Gate.Result != want {
		return fmt.Errorf("the gate's result %q does not go with its exit code %d", clip(b.Gate.Result), b.Gate.ExitCode)
	}
	return nil
}

func (c Coverage) sound() bool {
	for _, n := range []int{c.Planned, c.Passed, c.Failed, c.Errored, c.Skipped, c.Pending} {
		if n < 0 || n > mostOfArm*mostArms {
			return false
		}
	}
	return c.Scored == c.Passed+c.Failed && c.Planned == c.Scored+c.Errored+c.Skipped+c.Pending
}

func (p Passes) sound() bool {
	return p.Passed >= 0 && p.Passed <= p.N && p.Errored >= 0 && p.N+p.Errored <= p.Planned && p.Planned <= mostOfArm
}

func (c Comparison) sound() error {
	seen, cells := make(map[string]bool), 0
	check := func(name string, sides ...Passes) error {
		if seen[name] {
			return fmt.Errorf("case %s is there twice", clip(name))
		}
		seen[name] = true
		for _, s := range sides {
			if !s.sound() {
				return fmt.Errorf("the counts of case %s do not add up", clip(name))
			}
			cells += s.Planned
		}
		return nil
	}
	for _, p := range c.PCases {
		sides := []Passes{p.Base, p.Head}
		if p.Confirm != nil {
			sides = append(sides, p.Confirm.Base, p.Confirm.Head)
		}
		if err := check(p.Case, sides...); err != nil {
			return err
		}
		if p.Base.N == 0 || p.Head.N == 0 {
			return fmt.Errorf("case %s is paired without trials", clip(p.Case))
		}
	}
	for _, u := range c.Unpaired {
		if err := check(u.Case, u.Base, u.Head); err != nil {
			return err
		}
	}
	switch {
	case c.Drift != nil && (!c.Drift.Stored.sound() || !c.Drift.Fresh.sound()):
		return errors.New("the counts of its check for drift do not add up")
	case cells > 2*mostOfArm:
		return fmt.Errorf("more than %d cells", 2*mostOfArm)
	case !c.Coverage.sound() || !c.Coverage.Base.sound() || !c.Coverage.Head.sound():
		return errors.New("its coverage does not add up")
	case !slices.Contains(worstFirst, c.Verdict) || len(c.Reasons) == 0:
		return errors.New("it has no verdict with a reason")
	}
	return nil
}

// WithoutTimes is the benchmark with every number emptied that a wall clock made, so that two runs can be compared.
func (b Benchmark) WithoutTimes() Benchmark {
	b.Metadata.Timestamp = nil
	b.Runs = append([]Run(nil), b.Runs...)
	for i := range b.Runs {
		b.Runs[i].Result.TimeSeconds = nil
	}
	b.RunSummary.Conditions = append(ByCondition[Summary](nil), b.RunSummary.Conditions...)
	for i := range b.RunSummary.Conditions {
		b.RunSummary.Conditions[i].Value.TimeSeconds = nil
	}
	if b.RunSummary.Delta != nil {
		delta := *b.RunSummary.Delta
		delta.TimeSeconds = nil
		b.RunSummary.Delta = &delta
	}
	b.Arms = append([]Arm(nil), b.Arms...)
	for i := range b.Arms {
		b.Arms[i].Duration = nil
	}
	b.CaseArms = append([]CaseArm(nil), b.CaseArms...)
	for i := range b.CaseArms {
		b.CaseArms[i].Duration = nil
	}
	b.Comparisons = append([]Comparison(nil), b.Comparisons...)
	for i := range b.Comparisons {
		b.Comparisons[i].Metrics = withoutDuration(b.Comparisons[i].Metrics)
	}
	if b.Origin != nil {
		origin := *b.Origin
		origin.Created = nil
		b.Origin = &origin
	}
	b.History = nil
	return b
}

// withoutDuration is the metrics with that of the wall clock empty.
func withoutDuration(metrics []Metric) []Metric {
	out := append([]Metric{}, metrics...)
	for i, m := range out {
		if m.Name == durationMetric {
			out[i] = Metric{Name: m.Name, Kind: m.Kind}
		}
	}
	return out
}
