// Package result is the ledger in the middle of the house: whoever makes results puts them here, one folder a cell, and
// whoever reads them needs nothing but this folder. Open one with Open (one writer) or read one with Load.
//
// A cell exists when its result.json does; everything else of the cell is written before it. A killed process, a full
// disk or a torn file costs the cell it hit and no other.
package result

import (
	"slices"
	"time"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/trace"
)

// Schema is the version of result.json and manifest.json.
const Schema = 1

// Status is the end of a cell.
type Status string

// The statuses. Only Passed and Failed are scored: they alone enter a rate.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Errored Status = "errored"
	Skipped Status = "skipped"
)

// Scored tells whether the status enters a rate.
func (s Status) Scored() bool { return s == Passed || s == Failed }

// Class says whose fault an errored cell was. The list is that of package trace.
type Class = trace.Class

// Reason says why a cell was skipped. The list is closed.
type Reason string

// The reasons of a skipped cell.
const (
	Unavailable Reason = "unavailable" // a source, tool or harness could not be reached
	BudgetSpent Reason = "budget"      // the budget of the run was spent
	Decided     Reason = "decided"     // of a cell that is run again: the outcome could no longer change
	ShardLost   Reason = "shard_lost"  // the shard that planned it never came back
)

// A Result is the record of one cell.
type Result struct {
	Schema int `json:"schema"`
	plan.Cell
	Attempt           int               `json:"attempt"` // from 1
	Status            Status            `json:"status"`
	Class             trace.Class       `json:"class,omitempty"`  // of errored
	Reason            Reason            `json:"reason,omitempty"` // of skipped
	Detail            string            `json:"detail,omitempty"` // one sentence for a person
	Score             *float64          `json:"score"`            // weighted mean of what is not a gate, 0 to 1; nil when nothing was graded
	Threshold         float64           `json:"threshold"`
	Scores            []Score           `json:"scores"`
	DiffScope         *diffscope.Scope  `json:"diff_scope"` // nil: not measured
	Unmeasured        *Unmeasured       `json:"unmeasured,omitempty"`
	TraceChurn        *TraceChurn       `json:"trace_churn"` // nil: the trace shows no edits, or the tree was not measured
	Agent             Agent             `json:"agent"`
	Beside            Beside            `json:"beside"`
	ConditionVerified *bool             `json:"condition_verified"`      // nil: not checked
	PolicyRules       []int             `json:"policy_rules,omitempty"`  // of the policy that an ask of the agent met, from 1
	Egress            *Egress           `json:"egress,omitempty"`        // nil: the executor cannot look
	Layout            string            `json:"layout,omitempty"`        // overlay: the tree was shown in the place by a mount, and not copied
	Contamination     *Contamination    `json:"contamination,omitempty"` // nil: the case has no hidden assets, or the agent was not started
	Findings          []Finding         `json:"findings,omitempty"`
	Redacted          map[string]int    `json:"redacted,omitempty"` // secrets that were taken out, by the file that they were in; result.json is this record
	Started           time.Time         `json:"started"`
	Took              Durations         `json:"took"`
	Earlier           []Attempt         `json:"earlier,omitempty"` // attempts before this one
	Files             map[string]string `json:"files"`             // sha256 of each file beside result.json
	Sum               string            `json:"sum"`               // sha256 of this record with Sum empty
}

// ConditionHeld tells whether the cell had its condition: false also when it errored for want of it. Nil is not known.
func (r Result) ConditionHeld() *bool {
	if r.Class == trace.ClassCondition {
		return new(bool)
	}
	return r.ConditionVerified
}

// Agent says how the agent ended and what it used.
type Agent struct {
	Stop      trace.StopReason `json:"stop,omitempty"`
	Detail    string           `json:"detail,omitempty"`
	FinalText string           `json:"final_text,omitempty"`
	Exit      *int             `json:"exit,omitempty"`
	Signal    string           `json:"signal,omitempty"`
	Turns     *int             `json:"turns"`
	Usage     *trace.Usage     `json:"usage"`
	Model     string           `json:"model,omitempty"` // as reported
	Version   string           `json:"version,omitempty"`
	Answered  bool             `json:"answered"`
	Started   *time.Time       `json:"started,omitempty"` // when the clock of the trace began; nil: not known, or it was not started
	Survivors []string         `json:"survivors,omitempty"`
	Swept     int              `json:"swept,omitempty"`
}

// Beside is what was asked of models beside the agent in one attempt: no part of it is in the usage of the agent. Nil was not
// asked, or nobody answered; a nil cost is not known.
type Beside struct {
	Responder   *trace.Usage `json:"responder"`
	Judge       *trace.Usage `json:"judge"`
	Calibration *trace.Usage `json:"calibration"` // of judges of the case, in the attempt that first needed them; it serves the whole run
}

// Parts are the usages that are known.
func (b Beside) Parts() []*trace.Usage {
	return slices.DeleteFunc([]*trace.Usage{b.Responder, b.Judge, b.Calibration}, func(u *trace.Usage) bool { return u == nil })
}

// A Judged tells how far a judge can be trusted.
type Judged struct {
	Model       string       `json:"model"`
	Votes       int          `json:"votes"`  // that were asked for, over all statements
	Agreed      int          `json:"agreed"` // votes that said what was decided; those on an undecided statement did not
	Calibration *Calibration `json:"calibration"`
}

// A Calibration says how a judge did on work that people have judged. Undecided examples count as judged wrong.
type Calibration struct {
	Holding      int     `json:"holding"`       // examples of which people say that the statement holds
	HoldsPassed  int     `json:"holds_passed"`  // of these, passed by the judge
	Failing      int     `json:"failing"`       // examples of which people say that it does not
	FailsRefused int     `json:"fails_refused"` // of these, failed by the judge
	Undecided    int     `json:"undecided"`
	Kappa        float64 `json:"kappa"` // Cohen's
	AC1          float64 `json:"ac1"`   // Gwet's
	Heard        bool    `json:"heard"` // false: no match for people, so its cells are errored
}

// A Score is the outcome of one assertion. Errored: the grader could not tell; then Passed and Value are nil.
type Score struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Gate     bool     `json:"gate"`
	Weight   float64  `json:"weight"`
	Passed   *bool    `json:"passed"`
	Value    *float64 `json:"value"`    // 0 to 1
	Text     string   `json:"text"`     // what was asserted
	Evidence string   `json:"evidence"` // what was found
	Error    string   `json:"error,omitempty"`
	Judged   *Judged  `json:"judged,omitempty"` // of a judge
}

// Unmeasured says why a diff scope is missing.
type Unmeasured struct {
	Class   string `json:"class"` // tree_too_big, tree_moving, io
	Why     string `json:"why"`
	ByAgent bool   `json:"by_agent"`
}

// TraceChurn is work that the trace shows and the final tree does not: edits that were taken back or written over. It
// knows only the edits that an agent made with a tool of its own, not those of commands that it ran.
type TraceChurn struct {
	Edits        int      `json:"edits"`         // calls of editing tools that succeeded
	LinesWritten *int     `json:"lines_written"` // added and removed by them together; nil when one does not say what it changed, or the trace is not whole
	LinesLost    *int     `json:"lines_lost"`    // of these, how many more than the final tree shows in the same files; at least 0
	PathsUndone  []string `json:"paths_undone"`  // edited, and in the end as before; nil when the trace is not whole
}

// PatchName is the file of a cell that holds its whole change: what to grade again starts from.
const PatchName = "diff.patch"

// EvidenceRedacted is the kind of finding that says that a secret was taken out of the patch.
const EvidenceRedacted = "evidence_redacted"

// A Finding is something that a reader should know of the cell and that changed no number.
type Finding struct {
	Kind string `json:"kind"`
	Path string `json:"path,omitempty"`
	Text string `json:"text"`
}

// Durations are the monotonic lengths of the parts of a cell's life, in nanoseconds.
type Durations struct {
	Place time.Duration `json:"place"` // open, environment, setup
	Agent time.Duration `json:"agent"`
	Scope time.Duration `json:"scope"` // both snapshots and the comparison
	Grade time.Duration `json:"grade"`
	Total time.Duration `json:"total"`
}

// An Attempt is what is left of an attempt that was not the last.
type Attempt struct {
	Attempt int         `json:"attempt"`
	Status  Status      `json:"status"`
	Class   trace.Class `json:"class,omitempty"`
	Detail  string      `json:"detail,omitempty"`
	CostUSD *float64    `json:"cost_usd"` // of the agent
	Beside  Beside      `json:"beside"`
}

// An Egress is what the place of an agent could reach when it began, as a look around from inside found it.
type Egress struct {
	Policy     string   `json:"policy"`     // none, gateway or open
	Proven     bool     `json:"proven"`     // false: nobody looked
	Interfaces []string `json:"interfaces"` // nil: nobody looked
	Routes     int      `json:"routes"`     // rows of the route tables that belong to other interfaces than lo
	Canary     string   `json:"canary"`     // a listener of ours outside of the place: unreached, reached or none
}

// A Contamination is the proof that an agent did not have the hidden assets of its case, and that no grading place leaked.
//
// It has four parts. Before: the tree that the agent started from, and the skills and instructions that it was given, hold no
// hidden file and no passage of one. Order: nothing of the agent ran any more when its tree was measured, and the hidden
// assets were laid after that, in another place; the journal has a note of the stop from before they were laid. After: a
// random text that lies among the hidden assets of each cell, the canary, stands nowhere in what this agent said, wrote or
// left. Egress, in the record beside this: what the place could reach.
//
// When the first part does not hold, the cell is errored, class grader, before its agent starts: the suite must be changed.
// When the third does not, the cell is failed if it would have passed: the agent has looked into a place of graders. So a cell
// whose proof does not hold is never passed.
type Contamination struct {
	Proven   bool     `json:"proven"`        // every part holds
	Why      []string `json:"why,omitempty"` // it is not proven, a sentence each
	Prevents bool     `json:"prevents"`      // agents cannot read the files of the host; false: the suite is within reach of an agent that looks for it, and this proof may only detect it
	Files    int      `json:"hidden_files"`  // that were looked for; those of less than 16 bytes are not
	Restored int      `json:"restored"`      // of these, the same in the source at the same path: they hide nothing
	Before   Look     `json:"before"`
	After    *Look    `json:"after"` // nil: the work could not be looked at
	Order    Order    `json:"order"`
}

// A Look is what was searched for hidden assets. Passages that the source of the case holds too are not looked for.
type Look struct {
	Files    int        `json:"files"` // files, logs and traces
	Bytes    int64      `json:"bytes"`
	Canaries []string   `json:"canaries,omitempty"` // what held a canary
	Found    []Sighting `json:"found,omitempty"`    // at most 20. In what an agent did they prove nothing: one that solves a case may write what a hidden file expects
}

// A Sighting is text of a hidden file in something else.
type Sighting struct {
	Hidden string  `json:"hidden"`
	In     string  `json:"in"`
	Share  float64 `json:"share"` // of the text that was looked for, 0 to 1
	Told   bool    `json:"told"`  // the whole file, half of it, or a passage of 512 bytes
}

// An Order is when things happened, since the cell began; nil did not happen in this attempt.
type Order struct {
	Stopped  *time.Duration `json:"agent_stopped"` // with all that it started
	Measured *time.Duration `json:"tree_measured"`
	Laid     *time.Duration `json:"hidden_laid"`
	Earlier  bool           `json:"agent_earlier,omitempty"` // the agent worked in an earlier attempt; this one graded its tree again
}

// A Manifest is the plan of a run and all that was fixed before its first cell.
type Manifest struct {
	Schema     int         `json:"schema"`
	Tool       string      `json:"tool"` // version of assay
	Suite      string      `json:"suite"`
	Digest     string      `json:"suite_digest"`
	Seed       string      `json:"seed"`
	Executor   string      `json:"executor"`
	Algorithm  string      `json:"diff_algorithm"`
	Rules      string      `json:"grading_rules,omitempty"` // version of the rules by which trees are measured and graded
	Commit     string      `json:"commit,omitempty"`        // that was measured, 40 hex digits; empty when not known
	Untrusted  bool        `json:"untrusted,omitempty"`     // whoever is not trusted had a say in how it was measured
	Created    time.Time   `json:"created"`
	Host       Host        `json:"host"`
	Isolation  string      `json:"isolation"`               // what the executor does not protect, in a sentence
	Keys       string      `json:"key_isolation,omitempty"` // between agents and our memory with the keys: none, uid, namespace or container; empty when not known
	Gate       Gate        `json:"gate"`
	Harnesses  []Harness   `json:"harnesses"`
	Conditions []Condition `json:"conditions"`
	Cases      []Case      `json:"cases"`
	Policy     *Policy     `json:"policy,omitempty"`
	Shard      string      `json:"shard,omitempty"`    // i/n when only that part of the cells is run here
	PostHoc    []string    `json:"post_hoc,omitempty"` // how the plan was changed after results of it were there
	AA         bool        `json:"aa,omitempty"`       // the second condition is a copy of the first
	Cells      []plan.Cell `json:"cells"`              // of the whole plan, whatever the shard
}

// Host are facts of the machine that matter to durations only.
type Host struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// Gate are the settings of the verdict, as they were before the first cell ran.
type Gate struct {
	Alpha        float64  `json:"alpha"`
	MarginPP     float64  `json:"margin_pp"`
	MarginEqPP   float64  `json:"margin_eq_pp"`
	MDEMaxPP     float64  `json:"mde_max_pp"`
	MinCoverage  float64  `json:"min_coverage"`
	MinPassRate  *float64 `json:"min_pass_rate"`
	Claim        string   `json:"claim"`
	Underpowered string   `json:"underpowered"` // warn, or fail: the same as naming it in FailOn
	FailOn       []string `json:"fail_on"`      // what the gate says no to; empty: nothing; nil: regressed and invalid
	Confirm      *Confirm `json:"confirm"`      // how the worst cases are run again; nil: they are not
}

// Confirm says how many cases are run again after the screen, and how often on each side.
type Confirm struct {
	Cases  int `json:"cases"`
	Trials int `json:"trials"`
}

// A Harness is one harness of the run.
type Harness struct {
	ID        string   `json:"id"`
	Type      string   `json:"type"`
	Version   string   `json:"version,omitempty"`
	Models    []string `json:"models"`
	Simulated bool     `json:"simulated"` // its agents are scripted, no model answers
}

// A Policy is how the asks of the agents were answered, where more is to be said of it than the suite does.
type Policy struct {
	Name     string   `json:"name"`
	Rules    int      `json:"rules,omitempty"`
	Warnings []string `json:"warnings,omitempty"` // what may not hold
}

// A Condition is one condition of the run.
type Condition struct {
	ID       string `json:"id"`
	Baseline bool   `json:"baseline"`
	Digest   string `json:"digest"`
	TwinOf   string `json:"twin_of,omitempty"` // the condition that this one is the base version of
	Spare    bool   `json:"spare,omitempty"`   // it was run only because stored results of the base were to be checked
}

// A Case is one case of the run, with its place in the suite's files.
type Case struct {
	ID          string `json:"id"`
	File        string `json:"file"`
	Line        int    `json:"line"`
	AgentDigest string `json:"agent_digest"`
	GradeDigest string `json:"grade_digest"`

	Admission *Admission `json:"admission,omitempty"` // nil: whoever made the plan did not look for one
}
