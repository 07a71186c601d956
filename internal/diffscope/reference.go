package diffscope

// An Excess sets a change against a reference: a patch that is known to solve the same task. Both are counted by the same
// rules, in scope only.
type Excess struct {
	ExcessLines   int      `json:"excess_lines"`          // lines changed more than the reference does, at least 0
	Ratio         float64  `json:"ratio"`                 // (lines changed + 1) / (those of the reference + 1)
	FilePrecision *float64 `json:"file_precision"`        // share of the touched paths that the reference touches; nil when none is touched
	FileRecall    float64  `json:"file_recall"`           // share of the reference's paths that are touched
	Approximate   bool     `json:"approximate,omitempty"` // one of the two sizes is a bound
}

// Reference sets the change that scope measured against patches that are known to solve the task, and keeps the one that
// it exceeds least; of those, the one with the highest recall. The error names the patch, counted from 1, that does not
// apply to the tree before, or changes nothing in scope.
func Reference(before Tree, scope Scope, paths Paths, patches ...[]byte) (Excess, error) {
	return Excess{}, nil
}
