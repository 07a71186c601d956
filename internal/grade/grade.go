// Package grade turns the evidence of one cell into scores: each assertion of a case becomes a [Grader], looks at what
// the agent left behind and says passed, failed, or that it could not tell. A new assertion is one file here and one row
// in [Kinds].
//
// A grader never looks at the place where the agent ran. It reads the frozen tree, or runs commands in a fresh grading
// place that holds the agent's tree and the hidden assets. Two rules decide every doubt. What could not be shown to hold
// did not hold: a test that was skipped or never ran is not a pass, and a file that is too large to read proves nothing.
// And a fault of ours is never the agent's: a program that is missing, a trace that is not there or a number that nobody
// measured is an error, not a low score.
//
//	grader, err := kind.Build(settings)       // a row of Kinds; in preflight, so a typo costs nothing
//	score, err := grader.Grade(ctx, evidence) // after the agent has ended, once for each cell
package grade

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
)

// A Grader grades one assertion. Grade may be called for several cells at the same time.
type Grader interface {
	// Grade fills Text, Passed, Value and Evidence of the score; the caller knows the rest. Value is 1 or 0. The error
	// is ours (class grader): what was asserted could not be looked at, and only Text is filled.
	Grade(ctx context.Context, e Evidence) (result.Score, error)
}

// A Checker is a grader that needs files of the case's folder. Check is called in preflight and finds what is missing.
type Checker interface {
	Check(caseDir fs.FS) error
}

// Referential is a grader that measures against the reference of its case. NeedsReference names the settings that do;
// without any, it does not.
type Referential interface {
	NeedsReference() []string
}

// Evidence is all that a grader may look at.
type Evidence struct {
	Tree    fs.FS                                                // the agent's frozen tree, hidden assets absent; links are not followed
	CaseDir fs.FS                                                // the folder of the case
	Place   func(ctx context.Context) (executor.Executor, error) // the grading place: made at the first call, then the same one
	Trace   iter.Seq2[trace.Event, error]
	Scope   *diffscope.Scope // nil: not measured, Unmeasured says why
	// Unmeasured says why Scope is nil; ByAgent, whether the agent's own tree was the cause.
	Unmeasured string
	ByAgent    bool
	// Usage totals; nil was not measured.
	Turns *int
	Usage *trace.Usage
	Env   []string  // NAME=value for commands, from the case's environment
	Log   io.Writer // assertions/<id>.log
	// For judges.
	Prompt string                            // of the case, without what a condition adds to it
	Change func() (diffscope.Context, error) // what a judge may know of the change; nil when Scope is
	Judge  Judge                             // nil: no model can be asked
}

// Settings are the raw settings of one block of a suite.
type Settings interface {
	// Decode fills the struct that into points to, strictly: an unknown key or a wrong type is an error.
	Decode(into any) error
	// Fault makes an error that points at a key, such as "run" or "present[2]"; an empty key is the block itself.
	Fault(key, msg, hint string) error
}

// A Kind is one row of the table of assertions.
type Kind struct {
	Name   string
	Doc    string                           // one line
	Params any                              // zero value of the struct that its settings decode into
	Place  bool                             // runs commands, so it needs a grading place
	Build  func(s Settings) (Grader, error) // the error joins every fault of the settings
}

// Kinds are the assertions that a case may name. Nobody changes it.
var Kinds = []Kind{
	{"command", "a command in the grading place ends with the expected exit code", commandParams{}, true, buildCommand},
	{"tests", "a test command succeeds and its report shows that the expected tests ran and passed", testsParams{}, true, buildTests},
	{"files", "files of the agent's tree hold, or do not hold, what is asked", filesParams{}, false, buildFiles},
	{"trace", "the agent used the tools, turns, tokens and money that it should", traceParams{}, false, buildTrace},
	{"diff_scope", "the agent's change is no larger than asked, and lies where it should", scopeParams{}, false, buildScope},
	{"llm_judge", "a model judges that statements about the agent's work hold, by votes that must quote it", judgeParams{}, false, buildJudge},
}

// score is the outcome of an assertion. The text is there as well when it could not be graded.
func score(text string, passed bool, evidence string, err error) (result.Score, error) {
	s := result.Score{Text: clip(text, maxText)}
	if err != nil {
		return s, err
	}
	value := 0.0
	if passed {
		value = 1
	}
	s.Passed, s.Value, s.Evidence = &passed, &value, clip(evidence, maxText)
	return s, nil
}

// A verdict gathers what holds and what does not when an assertion asks for several things.
type verdict struct{ broken, held, notes []string }

func (v *verdict) add(holds bool, format string, args ...any) {
	list := &v.broken
	if holds {
		list = &v.held
	}
	*list = append(*list, fmt.Sprintf(format, args...))
}

// note adds what decides nothing by itself.
func (v *verdict) note(format string, args ...any) {
	v.notes = append(v.notes, fmt.Sprintf(format, args...))
}

func (v *verdict) passed() bool { return len(v.broken) == 0 }

// evidence puts what does not hold first, so that it is not what is cut off.
func (v *verdict) evidence() string {
	if v.passed() {
		return strings.Join(slices.Concat(v.held, v.notes), "; ")
	}
	evidence := slices.Concat(v.broken, v.notes)
	if len(v.held) > 0 {
		evidence = append(evidence, "holds: "+strings.Join(v.held, "; "))
	}
	return strings.Join(evidence, "; ")
}

// Caps of what a score says, in bytes. Names come from agents: a long one must not push the others out.
const (
	maxText = 2 << 10
	maxName = 200
	maxRows = 20 // names or rows that a list shows
)

// clip makes valid UTF-8 of at most limit bytes; what is cut off shows as an ellipsis.
func clip(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	end := limit - len("…")
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// show prints a name that an agent chose: as it is when that is harmless, quoted when it holds a newline, an escape or
// bytes that are not text, so that it cannot forge a line of the evidence.
func show(name string) string {
	quoted := strconv.Quote(name)
	if quoted != `"`+name+`"` || name == "" {
		name = quoted
	}
	return clip(name, maxName)
}

// showAll prints the first names of a list and how many there are beyond.
func showAll(names []string, total int) string {
	shown := make([]string, 0, maxRows)
	for _, name := range names[:min(len(names), maxRows)] {
		shown = append(shown, show(name))
	}
	list := strings.Join(shown, ", ")
	if more := total - len(shown); more > 0 {
		list += " and " + strconv.Itoa(more) + " more"
	}
	return list
}

// covers tells whether one of the globs matches the slash path, by the same rule as the files of a case: a glob without
// wildcards covers itself and all below.
func covers(globs []string, path string) bool {
	for _, glob := range globs {
		glob = strings.TrimSuffix(glob, "/")
		if doublestar.MatchUnvalidated(glob, path) || strings.HasPrefix(path, glob+"/") {
			return true
		}
	}
	return false
}
