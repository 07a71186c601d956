// Package suite reads a folder of cases into checked values: call [Load] with the folder's file system and the path of
// its suite.yaml, and get either a [Suite] in which every default is filled in, or [Problems]: every fault of every file
// at once, each with file:line:col, the source line and a caret.
//
// The settings of a harness, an assertion, an environment or an interaction policy stay raw here, as a [Block]. The room
// that owns the kind decodes them strictly, so a fault keeps its position and this room never learns of new kinds.
//
// A file goes through four steps, one file of this package each: yaml.go reads text into nodes and refuses what no suite
// needs (several documents, tags, merge keys, bombs); decode.go brings nodes into structs by their tags, and schema.go
// tells editors of the same tags; load.go finds the cases and checks what no tag can say; files.go and digest.go look at
// the files that a suite names, through links but never out of the tree.
package suite

import "time"

// A Suite is a checked suite. Slices keep the order of the files.
type Suite struct {
	Name         string
	File         string // slash path of suite.yaml below the loaded file system
	Dir          string // its folder
	Harnesses    []Harness
	Conditions   []Condition // at least one; exactly one is the baseline
	Trials       int
	Retries      int // further attempts of an errored cell
	Limits       Limits
	Budget       Budget
	Interaction  Block // kind: the responder's policy
	Executor     Block // kind "host" when absent
	Availability string
	Gate         Gate
	HeadGate     *Gate    // what the work tree's suite.yaml says, when [Base].Rules took another gate from the base
	Cases        []Case   // the sound ones, sorted by folder
	Broken       []string // ids of cases with a fault, or their folders when the id is unknown
	Warnings     Problems // what is worth a look and stops nothing
	Digest       string   // of all content that may change an outcome or its grading
}

// A Harness is one row of the matrix; its Block's kind is the harness type.
type Harness struct {
	ID     string
	Models []string // at least one; a harness without a model has the one name "none"
	Block  Block
}

// A Condition is a named variation of the agent's context. Paths are slash paths below the loaded file system, or that of
// the base, links resolved.
type Condition struct {
	ID           string
	Baseline     bool
	From         string // where the files below are read: "" (the work tree) or "base"
	TwinOf       string // id of the condition that this is the base version of, when [Base].Paired or Spare made it
	Spare        bool   // a twin of [Base].Spare: it is in no digest of the suite and in no plan by itself, and its own is that of TwinOf at the base
	CopyOf       string // id of the condition that this is a copy of, which --aa made; agents are told that name
	Skills       []string
	Instructions string
	Files        map[string]string // path in the tree: path of the file or folder to lay there before the first snapshot
	MCP          Block             // raw; zero when absent
	Env          map[string]string
	PromptPrefix string
	Digest       string // of the settings and of the content of every file they name, read where From says
	At           Pos
}

// A Case is one task put to an agent, with the suite's defaults filled in.
type Case struct {
	ID           string
	File, Dir    string // slash paths below the loaded file system
	Prompt       string
	Source       Source
	Setup        []Command
	Environment  Block // kind "none" when absent
	Files        []string
	FilesAt      []Pos // of each entry of Files
	Ignore       []string
	Hidden       string // slash path of the folder, or empty
	Fixtures     *Repo
	Reference    string   // slash path, or empty
	Tools        []string // programs that must be on PATH, such as python3
	Availability string   // required or optional
	Trials       int
	Threshold    float64
	Limits       Limits
	Env          map[string]string
	Assertions   []Assertion
	AgentDigest  string // of everything that may change what the agent does
	GradeDigest  string // of everything that may change how it is graded
	SourceDigest string // of the source alone: the content of its folder, or its repository and commit
	At           Pos
}

// A Source says where the tree of a case comes from: a folder, or a commit of a repository.
type Source struct {
	Path      string // slash path below the loaded file system, when the source is a folder
	Repo      *Repo
	Isolation string // auto, copy, clone or worktree
	At        Pos
}

// A Repo is one folder of one commit of a repository.
type Repo struct {
	URL    string `yaml:"repo" rule:"required" doc:"https URL of the repository"`
	Commit string `yaml:"commit" rule:"required" doc:"the full commit, 40 or 64 hex digits"`
	Subdir string `yaml:"subdir" rule:"path" doc:"the folder of the repository that becomes the tree"`
	At     Pos
}

// A Command is a setup step: Run by sh -c, or Argv as it is.
type Command struct {
	Run     string            `yaml:"run,short" doc:"a command line for sh -c"`
	Argv    []string          `yaml:"argv" doc:"a program and its arguments, without a shell"`
	Timeout time.Duration     `yaml:"timeout" default:"15m" rule:"above=0s,max=24h" doc:"time limit of this command"`
	Env     map[string]string `yaml:"env" rule:"env" doc:"environment variables of this command"`
	At      Pos
}

// Limits bound one cell. Zero is no limit; Timeout always has a value.
type Limits struct {
	Timeout    time.Duration `yaml:"timeout" default:"10m" rule:"above=0s,max=24h" doc:"time that an agent has for one cell"`
	MaxTurns   int           `yaml:"max_turns" rule:"min=1" doc:"answers of the model in one cell"`
	MaxTokens  int64         `yaml:"max_tokens" rule:"min=1" doc:"tokens of one cell"`
	MaxCostUSD float64       `yaml:"max_cost_usd" rule:"above=0" doc:"dollars that one cell may cost"`
}

// Budget bounds the whole run. Zero is no limit.
type Budget struct {
	MaxCostUSD float64          `yaml:"max_cost_usd" rule:"above=0" doc:"dollars that the whole run may cost"`
	Prices     map[string]Price `yaml:"prices" doc:"by model: what its tokens cost, where Assay does not know it or knows it wrong"`
}

// Price is what a model's tokens cost, in US dollars per million. Nil is not known: a call that used such tokens has an unknown
// cost.
type Price struct {
	Input      *float64 `yaml:"input" rule:"required,min=0" doc:"dollars for a million tokens of input that did not come from a cache"`
	Output     *float64 `yaml:"output" rule:"required,min=0" doc:"dollars for a million tokens of output, reasoning included"`
	CacheRead  *float64 `yaml:"cache_read" rule:"min=0" doc:"dollars for a million tokens that came from a cache"`
	CacheWrite *float64 `yaml:"cache_write" rule:"min=0" doc:"dollars for a million tokens that were put into a cache"`
}

// Gate holds the settings of the verdict, fixed before the first cell runs.
type Gate struct {
	MarginPP     float64  `yaml:"margin_pp" default:"2" rule:"min=0,max=100" doc:"percentage points that a candidate may lose before the gate says no"`
	MinCoverage  float64  `yaml:"min_coverage" default:"0.9" rule:"min=0,max=1" doc:"share of planned cells that must be scored"`
	MinPassRate  *float64 `yaml:"min_pass_rate" rule:"min=0,max=1" doc:"pass rate that the candidate must reach; does not gate when absent"`
	Alpha        float64  `yaml:"alpha" default:"0.05" rule:"above=0,max=0.5" doc:"error rate of the family of comparisons"`
	MarginEqPP   float64  `yaml:"margin_eq_pp" default:"5" rule:"above=0,max=100" doc:"percentage points within which two arms count as equivalent"`
	MDEMaxPP     float64  `yaml:"mde_max_pp" default:"15" rule:"above=0,max=100" doc:"detectable difference above which a comparison is underpowered"`
	Claim        string   `yaml:"claim" default:"suite" rule:"oneof=suite population" doc:"what the verdict speaks of: these cases, or all cases like them"`
	Underpowered string   `yaml:"underpowered" default:"warn" rule:"oneof=warn fail" doc:"what the gate says to an underpowered comparison"`
	Confirm      *Confirm `yaml:"confirm" rule:"off" doc:"how the worst cases are run again, or off"`
	At           Pos
}

// Confirm says how the worst cases of a screen are run again.
type Confirm struct {
	Cases  int `yaml:"cases" default:"3" rule:"min=1,max=100" doc:"how many cases at most"`
	Trials int `yaml:"trials" default:"8" rule:"min=1,max=100" doc:"fresh trials of each, on both sides"`
}

// An Assertion is one graded statement; its Block's kind is the assertion type.
type Assertion struct {
	ID     string  `yaml:"id" rule:"required,id" doc:"names the assertion in its case"`
	Weight float64 `yaml:"weight" default:"1" rule:"above=0,max=1000000" doc:"share in the score, against the other assertions"`
	Gate   bool    `yaml:"gate" doc:"must hold, and adds nothing to the score"`
	Guard  bool    `yaml:"guard" doc:"holds before the agent did anything, and must still hold after"`
	Block  Block   `yaml:"type,kind" rule:"required" doc:"what is asserted"`
}
