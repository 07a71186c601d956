package grade

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/result"
)

type scopeParams struct {
	MaxFilesTouched *int     `yaml:"max_files_touched" doc:"most files touched in scope" rule:"min=0"`
	MaxLinesChanged *int     `yaml:"max_lines_changed" doc:"most lines added and removed together in scope" rule:"min=0"`
	MaxHunks        *int     `yaml:"max_hunks" doc:"most separate places of a change in scope" rule:"min=0"`
	MaxOutsideFiles *int     `yaml:"max_outside_files" doc:"most files touched outside the files of the case" rule:"min=0"`
	MaxExcessLines  *int     `yaml:"max_excess_lines" doc:"most lines changed beyond those of the case's reference" rule:"min=0"`
	MaxRatio        *float64 `yaml:"max_ratio" doc:"most (lines changed + 1) / (lines changed by the case's reference + 1)" rule:"above=0"`
	Allow           []string `yaml:"allow" doc:"globs; every touched file must match one" rule:"glob"`
	Deny            []string `yaml:"deny" doc:"globs; no touched file may match one" rule:"glob"`
	AllowNoChange   bool     `yaml:"allow_no_change" doc:"doing nothing is right in this case" default:"false"`
}

// scope grades how large the agent's change was. Limits are inclusive and all must hold. An agent that changed nothing
// does not pass, unless the case says that doing nothing is right: the smallest change is not the best one.
type scope struct{ scopeParams }

var (
	_ Grader      = scope{}
	_ Referential = scope{}
)

func buildScope(s Settings) (Grader, error) {
	var p scopeParams
	if err := s.Decode(&p); err != nil {
		return nil, err
	}
	if p.text() == "" {
		return nil, s.Fault("", "no limit is given", "name at least one of max_files_touched, max_lines_changed, max_hunks, max_outside_files, max_excess_lines, "+
			"max_ratio, allow and deny")
	}
	return scope{p}, nil
}

// text is what the assertion says.
func (p scopeParams) text() string {
	var parts []string
	for _, l := range []struct {
		name string
		max  *int
	}{
		{"files touched", p.MaxFilesTouched},
		{"lines changed", p.MaxLinesChanged},
		{"hunks", p.MaxHunks},
		{"files outside", p.MaxOutsideFiles},
		{"excess lines", p.MaxExcessLines},
	} {
		if l.max != nil {
			parts = append(parts, fmt.Sprintf("%s <= %d", l.name, *l.max))
		}
	}
	if p.MaxRatio != nil {
		parts = append(parts, fmt.Sprintf("ratio <= %v", *p.MaxRatio))
	}
	if len(p.Allow) > 0 {
		parts = append(parts, "only "+strings.Join(p.Allow, ", "))
	}
	if len(p.Deny) > 0 {
		parts = append(parts, "never "+strings.Join(p.Deny, ", "))
	}
	return strings.Join(parts, "; ")
}

// NeedsReference implements Referential.
func (p scopeParams) NeedsReference() []string {
	var keys []string
	if p.MaxExcessLines != nil {
		keys = append(keys, "max_excess_lines")
	}
	if p.MaxRatio != nil {
		keys = append(keys, "max_ratio")
	}
	return keys
}

func (g scope) Grade(_ context.Context, e Evidence) (result.Score, error) {
	switch {
	case e.Scope == nil && e.ByAgent:
		return score(g.text(), false, "the change could not be measured, and the agent's tree was the cause: "+e.Unmeasured, nil)
	case e.Scope == nil:
		return score(g.text(), false, "", fmt.Errorf("the change could not be measured: %s", e.Unmeasured))
	case e.Scope.Reference == nil && len(g.NeedsReference()) > 0:
		return score(g.text(), false, "", errors.New("there is no reference to measure the change against"))
	case e.Scope.NoChange && !g.AllowNoChange:
		return score(g.text(), false, "no change was made", nil)
	}
	j := scopeJudge{scopeParams: g.scopeParams, scope: e.Scope}
	j.limits()
	j.places()
	return score(g.text(), !j.failed, strings.Join(j.said, "; ")+j.table(), nil)
}

// scopeJudge holds a scope against the limits.
type scopeJudge struct {
	scopeParams
	scope  *diffscope.Scope
	failed bool
	said   []string // one phrase a limit
	rows   []string // the rows that broke one
}

func (j *scopeJudge) limits() {
	counts := j.scope.Counts
	files := j.limit("files touched", counts.FilesTouched, j.MaxFilesTouched, "")
	lines := j.limit("lines changed", counts.LinesChanged(), j.MaxLinesChanged,
		fmt.Sprintf(" (%d added + %d removed)", counts.LinesAdded, counts.LinesRemoved))
	hunks := j.limit("hunks", counts.Hunks, j.MaxHunks, "")
	excess := j.reference()
	if !files || !lines || !hunks || !excess {
		j.list("", j.scope.Files)
	}
	if j.MaxLinesChanged != nil || j.MaxHunks != nil || len(j.NeedsReference()) > 0 {
		j.uncounted()
	}
	if outside := j.scope.Outside; j.MaxOutsideFiles != nil || outside.FilesTouched > 0 {
		if !j.limit("files outside", outside.FilesTouched, j.MaxOutsideFiles, "") {
			j.list("outside: ", outside.Files)
		}
	}
	if j.scope.Approximate {
		j.said = append(j.said, "the numbers are bounds")
	}
}

// limit says how a number stands to its limit and tells whether it keeps it.
func (j *scopeJudge) limit(name string, n int, limit *int, detail string) bool {
	if limit == nil {
		j.said = append(j.said, fmt.Sprintf("%s %d%s (no limit)", name, n, detail))
		return true
	}
	j.said = append(j.said, fmt.Sprintf("%s %s%s", name, against(n, *limit), detail))
	if n > *limit {
		j.failed = true
		return false
	}
	return true
}

// reference judges how far the change goes beyond the reference of its case, if there is one, and tells whether it keeps
// the limits. Of a size that is only a bound nobody knows how far it goes.
func (j *scopeJudge) reference() bool {
	r := j.scope.Reference
	if r == nil {
		return true
	}
	lines := j.limit("excess lines", r.ExcessLines, j.MaxExcessLines, fmt.Sprintf(" (reference changes %d)", r.LinesChanged))
	ratio := j.ratio(r.Ratio)
	if limited := j.MaxExcessLines != nil || j.MaxRatio != nil; limited && r.Approximate {
		j.failed = true
		j.said = append(j.said, "how far it goes beyond the reference is not known exactly")
	}
	return lines && ratio
}

// ratio is limit for the ratio.
func (j *scopeJudge) ratio(r float64) bool {
	shown := math.Round(r*1000) / 1000
	if j.MaxRatio == nil {
		j.said = append(j.said, fmt.Sprintf("ratio %v (no limit)", shown))
		return true
	}
	holds := r <= *j.MaxRatio
	if holds != (shown <= *j.MaxRatio) {
		shown = r // what is shown must not deny what is said of it
	}
	j.said = append(j.said, "ratio "+against(shown, *j.MaxRatio))
	j.failed = j.failed || !holds
	return holds
}

// uncounted fails a limit on lines or hunks when a changed file has none that were counted: the true number is larger
// than the one that we know.
func (j *scopeJudge) uncounted() {
	for _, row := range j.scope.Files {
		if row.Uncounted != "" {
			j.failed = true
			j.said = append(j.said, fmt.Sprintf("%s changed and was not counted (%s)", show(row.Path), row.Uncounted))
		}
	}
}

// places judges where the change lies, in scope and outside.
func (j *scopeJudge) places() {
	for _, rows := range [][]diffscope.Row{j.scope.Files, j.scope.Outside.Files} {
		for _, row := range rows {
			path := pathOf(row)
			if len(j.Allow) > 0 && !covers(j.Allow, path) {
				j.failed = true
				j.list("not allowed: ", []diffscope.Row{row})
			}
			if covers(j.Deny, path) {
				j.failed = true
				j.list("denied: ", []diffscope.Row{row})
			}
		}
	}
}

// pathOf is the exact path of a row.
func pathOf(row diffscope.Row) string {
	if exact, err := base64.StdEncoding.DecodeString(row.PathBase64); err == nil && len(exact) > 0 {
		return string(exact)
	}
	return row.Path
}

func (j *scopeJudge) list(why string, rows []diffscope.Row) {
	for _, row := range rows {
		j.rows = append(j.rows, why+rowText(row))
	}
}

// table prints the rows that broke a limit, one a line.
func (j *scopeJudge) table() string {
	var b strings.Builder
	for _, row := range j.rows[:min(len(j.rows), maxRows)] {
		b.WriteString("\n" + row)
	}
	if more := len(j.rows) - maxRows; more > 0 {
		fmt.Fprintf(&b, "\nand %d more", more)
	}
	return b.String()
}

// rowText is a row as a person reads it: its path, what happened to it and its numbers.
func rowText(row diffscope.Row) string {
	text := show(row.Path) + " " + row.Status
	switch {
	case row.Uncounted != "":
		return text + ", not counted: " + row.Uncounted
	case row.Binary:
		return text + ", binary"
	case row.LinesAdded == nil || row.LinesRemoved == nil || row.Hunks == nil:
		return text + ", not counted"
	}
	return fmt.Sprintf("%s +%d -%d, hunks %d", text, *row.LinesAdded, *row.LinesRemoved, *row.Hunks)
}
