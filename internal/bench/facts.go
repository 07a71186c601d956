package bench

import (
	"slices"

	"github.com/assay-ci/assay/internal/result"
)

// mostFacts bounds the tampering findings and the names of dependencies that a run carries; the ledger has all.
const mostFacts = 20

// DiffFacts are what is known of the change of one run beside its size. They are signals for a reader: none of them
// changes a rate or a verdict. Lists are never nil, and hold at most 20 of what is counted beside them.
type DiffFacts struct {
	EffectiveLines      int              `json:"effective_lines"`  // lines changed in scope, without whitespace_lines
	WhitespaceLines     int              `json:"whitespace_lines"` // whose change is blanks and blank lines only
	CommentLines        int              `json:"comment_lines"`    // that hold comments and nothing else
	UnlexedLines        int              `json:"unlexed_lines"`    // lines changed in files in which comments could not be told
	LinesByBucket       LinesByBucket    `json:"lines_by_bucket"`
	Tampering           []result.Finding `json:"tampering"` // what may make a test pass without a fix, in scope and outside
	TamperingCount      int              `json:"tampering_count"`
	TamperingKinds      []string         `json:"tampering_kinds"`    // of all findings
	DependenciesAdded   []string         `json:"dependencies_added"` // names in manifests, in scope and outside
	AddedCount          int              `json:"dependencies_added_count"`
	DependenciesRemoved []string         `json:"dependencies_removed"`
	RemovedCount        int              `json:"dependencies_removed_count"`
	UnreadManifests     int              `json:"unread_manifests"` // changed, and what they gained or lost is not known
	NewExecutables      int              `json:"new_executables"`
	NewLinks            int              `json:"new_links"`
	LeavingLinks        int              `json:"leaving_links"` // new links that point out of the tree
	LargeFiles          int              `json:"large_files"`   // created or modified, above 1 MiB
}

// LinesByBucket are the lines changed in scope by what kind of file they are in. Each file is in one bucket.
type LinesByBucket struct {
	Code      int `json:"code"`
	Test      int `json:"test"`
	Docs      int `json:"docs"`
	Lockfile  int `json:"lockfile"`
	Generated int `json:"generated"`
	Vendored  int `json:"vendored"`
}

func (l LinesByBucket) sum() int {
	return l.Code + l.Test + l.Docs + l.Lockfile + l.Generated + l.Vendored
}

// An Excess sets the change of a run against a reference that is known to solve the case.
type Excess struct {
	ExcessLines   int      `json:"excess_lines"`   // lines changed more than the reference does, at least 0
	Ratio         float64  `json:"ratio"`          // (lines changed + 1) / (those of the reference + 1)
	FilePrecision *float64 `json:"file_precision"` // share of the touched paths that the reference touches, 0 to 1; nil when none is touched
	FileRecall    float64  `json:"file_recall"`    // share of the reference's paths that are touched, 0 to 1
	Approximate   bool     `json:"approximate"`    // the numbers are bounds
}

// TraceChurn is work that the trace of a run shows and its final tree does not.
type TraceChurn struct {
	Edits        int  `json:"edits"`         // calls of editing tools that succeeded
	LinesWritten *int `json:"lines_written"` // by them, added and removed together; nil when not known
	LinesLost    *int `json:"lines_lost"`    // of these, not in the final tree; nil when not known
	PathsUndone  int  `json:"paths_undone"`  // paths edited, and in the end as before
}

// measure lays what is known of the change into the run.
func (r *Run) measure(from result.Result) {
	if c := from.TraceChurn; c != nil {
		r.TraceChurn = &TraceChurn{c.Edits, c.LinesWritten, c.LinesLost, len(c.PathsUndone)}
	}
	s := from.DiffScope
	if s == nil {
		return
	}
	r.DiffScope = &Scope{
		FilesTouched: s.FilesTouched, LinesAdded: s.LinesAdded, LinesRemoved: s.LinesRemoved, Hunks: s.Hunks,
		NoChange: s.NoChange, Approximate: s.Approximate, OutsideFiles: &s.Outside.FilesTouched,
	}
	if !s.Outside.Approximate {
		lines := s.Outside.LinesChanged()
		r.DiffScope.OutsideLines = &lines
	}
	if e := s.Reference; e != nil {
		r.DiffScope.Reference = &Excess{e.ExcessLines, e.Ratio, e.FilePrecision, e.FileRecall, e.Approximate}
	}
	r.DiffFacts = factsOf(from)
}

// factsOf are the facts of a measured change; nil when nobody asked for them.
func factsOf(r result.Result) *DiffFacts {
	f := r.DiffScope.Facts
	if f == nil {
		return nil
	}
	b := f.Buckets
	out := &DiffFacts{
		EffectiveLines: f.Churn.EffectiveLines, WhitespaceLines: f.Churn.WhitespaceLines,
		CommentLines: f.Churn.CommentLines, UnlexedLines: f.Churn.UnlexedLines,
		LinesByBucket: LinesByBucket{
			Code: b.Code.LinesChanged(), Test: b.Test.LinesChanged(), Docs: b.Docs.LinesChanged(),
			Lockfile: b.Lockfile.LinesChanged(), Generated: b.Generated.LinesChanged(), Vendored: b.Vendored.LinesChanged(),
		},
		Tampering: []result.Finding{}, TamperingCount: len(f.Tampering), UnreadManifests: len(f.Dependencies.Unread),
		NewExecutables: len(f.Shape.NewExecutables), NewLinks: len(f.Shape.NewLinks), LargeFiles: len(f.Shape.LargeFiles),
	}
	kinds, added, removed := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for _, t := range f.Tampering {
		kinds[clip(t.Kind)] = true
		if len(out.Tampering) < mostFacts {
			out.Tampering = append(out.Tampering, result.Finding{Kind: clip(t.Kind), Path: clip(t.Path), Text: clip(t.Text)})
		}
	}
	for _, d := range f.Dependencies.Added {
		added[clip(d.Name)] = true
	}
	for _, d := range f.Dependencies.Removed {
		removed[clip(d.Name)] = true
	}
	for _, l := range f.Shape.NewLinks {
		if l.Leaves {
			out.LeavingLinks++
		}
	}
	out.TamperingKinds = sortedKeys(kinds)
	out.DependenciesAdded, out.AddedCount = firstNames(added)
	out.DependenciesRemoved, out.RemovedCount = firstNames(removed)
	return out
}

// firstNames are the first names of a set, with how many it has.
func firstNames(set map[string]bool) (names []string, n int) {
	all := sortedKeys(set)
	return slices.Clip(all[:min(len(all), mostFacts)]), len(all)
}

// ArmSignals count the scored cells of an arm by what their changes show. A count is nil when no cell was looked at.
type ArmSignals struct {
	Inspected         int      `json:"inspected"`                 // cells with facts: the next three are counted among these
	Tampered          *int     `json:"tampered"`                  // with a tampering finding
	TamperingKinds    []string `json:"tampering_kinds,omitempty"` // of their findings
	AddedDependencies *int     `json:"added_dependencies"`        // with a new name in a manifest
	Measured          int      `json:"measured"`                  // cells with a diff scope: the next two are counted among these
	Outside           *int     `json:"outside"`                   // that touched existing files outside scope
	NoChange          *int     `json:"no_change"`                 // that touched nothing
}

// signals counts what the scored cells of the arm show.
func (a *arm) signals() ArmSignals {
	var out ArmSignals
	kinds := make(map[string]bool)
	for _, c := range a.cases {
		for _, s := range c.scored.sizes {
			out.Measured++
			out.Outside = count(out.Outside, s.OutsideFiles != nil && *s.OutsideFiles > 0)
			out.NoChange = count(out.NoChange, s.NoChange)
			if s.facts == nil {
				continue
			}
			out.Inspected++
			out.Tampered = count(out.Tampered, s.facts.TamperingCount > 0)
			out.AddedDependencies = count(out.AddedDependencies, s.facts.AddedCount > 0)
			for _, kind := range s.facts.TamperingKinds {
				kinds[kind] = true
			}
		}
	}
	out.TamperingKinds = sortedKeys(kinds)
	return out
}

// count is n, one larger when a cell has what is counted; from the first cell on it is known.
func count(n *int, has bool) *int {
	if n == nil {
		n = new(int)
	}
	if has {
		*n++
	}
	return n
}

// The numbers of one change of which an arm has medians; nil where they are not known.

func (s size) effectiveLines() *float64 {
	if s.facts == nil {
		return nil
	}
	n := float64(s.facts.EffectiveLines)
	return &n
}

func (s size) excessLines() *float64 {
	if s.Reference == nil {
		return nil
	}
	n := float64(s.Reference.ExcessLines)
	return &n
}

func (s size) ratio() *float64 {
	if s.Reference == nil {
		return nil
	}
	return &s.Reference.Ratio
}

func (s size) testShare() *float64 { return s.share(func(l LinesByBucket) int { return l.Test }) }

func (s size) docsShare() *float64 { return s.share(func(l LinesByBucket) int { return l.Docs }) }

func (s size) generatedShare() *float64 {
	return s.share(func(l LinesByBucket) int { return l.Lockfile + l.Generated + l.Vendored })
}

// share of the lines changed; nil also when there are none.
func (s size) share(of func(LinesByBucket) int) *float64 {
	if s.facts == nil || s.facts.LinesByBucket.sum() == 0 {
		return nil
	}
	v := float64(of(s.facts.LinesByBucket)) / float64(s.facts.LinesByBucket.sum())
	return &v
}
