package diffscope

import (
	"errors"
	"fmt"
)

// An Excess sets a change against a reference: a patch that is known to solve the same task. Both are counted by the same
// rules, in scope only.
type Excess struct {
	FilesTouched  int      `json:"files_touched"`         // by the reference
	LinesChanged  int      `json:"lines_changed"`         // by the reference: added and removed together
	ExcessLines   int      `json:"excess_lines"`          // lines changed more than the reference does, at least 0
	Ratio         float64  `json:"ratio"`                 // (lines changed + 1) / (those of the reference + 1)
	FilePrecision *float64 `json:"file_precision"`        // share of the touched paths that the reference touches; nil when none is touched
	FileRecall    float64  `json:"file_recall"`           // share of the reference's paths that are touched
	Approximate   bool     `json:"approximate,omitempty"` // one of the two sizes is a bound
}

// A PatchError says which reference cannot be used, and why.
type PatchError struct {
	Patch int   // from 1
	Line  int   // of the patch, from 1; 0: the patch as a whole
	Err   error // without these two
}

func (e *PatchError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("patch %d: %v", e.Patch, e.Err)
	}
	return fmt.Sprintf("patch %d: line %d: %v", e.Patch, e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *PatchError) Unwrap() error { return e.Err }

// Reference sets the change that scope measured against patches that are known to solve the task, and keeps the one that
// it exceeds least; of those, the one with the highest recall. The error is a *PatchError for the patch, counted from 1,
// that does not apply to the tree before, or changes nothing in scope.
func Reference(before Tree, scope Scope, paths Paths, patches ...[]byte) (Excess, error) {
	if len(patches) == 0 {
		return Excess{}, errors.New("there is no reference to compare with")
	}
	references, err := References(before, paths, patches...)
	if err != nil {
		return Excess{}, err
	}
	return *scope.Against(references), nil
}

// References measures what each patch makes of before, for changes of the same tree to be held Against. The error is that
// of Reference.
func References(before Tree, paths Paths, patches ...[]byte) ([]Scope, error) {
	var references []Scope
	for i, patch := range patches {
		after, err := Apply(before, patch)
		if err != nil {
			return nil, patchError(i+1, err)
		}
		_, scope, err := Compare(before, after, paths)
		if err != nil {
			return nil, err
		}
		if scope.FilesTouched == 0 {
			return nil, &PatchError{Patch: i + 1, Err: errors.New("it changes nothing in scope")}
		}
		references = append(references, scope)
	}
	return references, nil
}

// patchError takes the line out of an error of Apply.
func patchError(n int, err error) error {
	var at *lineError
	if errors.As(err, &at) {
		return &PatchError{Patch: n, Line: at.line, Err: at.err}
	}
	return &PatchError{Patch: n, Err: err}
}

// Against sets a change against references of the same tree and the same paths, and keeps one as Reference does. It is nil
// when there are none.
func (s Scope) Against(references []Scope) *Excess {
	var best *Excess
	for _, r := range references {
		e := s.excessOver(r)
		if best == nil || e.ExcessLines < best.ExcessLines || e.ExcessLines == best.ExcessLines && e.FileRecall > best.FileRecall {
			best = &e
		}
	}
	return best
}

// excessOver compares the size of two changes, and the paths that they touch.
func (s Scope) excessOver(r Scope) Excess {
	lines, reference := s.LinesChanged(), r.LinesChanged()
	common := float64(commonPaths(s.Files, r.Files))
	e := Excess{
		FilesTouched: r.FilesTouched,
		LinesChanged: reference,
		ExcessLines:  max(0, lines-reference),
		Ratio:        float64(lines+1) / float64(reference+1),
		FileRecall:   common / float64(r.FilesTouched),
		Approximate:  s.Approximate || r.Approximate,
	}
	if s.FilesTouched > 0 {
		precision := common / float64(s.FilesTouched)
		e.FilePrecision = &precision
	}
	return e
}

// commonPaths counts the paths that both lists have. Path alone may be the same for two names whose bytes differ.
func commonPaths(a, b []Row) int {
	type name struct{ path, exact string }
	touched := make(map[name]bool, len(b))
	for _, row := range b {
		touched[name{row.Path, row.PathBase64}] = true
	}
	n := 0
	for _, row := range a {
		if touched[name{row.Path, row.PathBase64}] {
			n++
		}
	}
	return n
}
