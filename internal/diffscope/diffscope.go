// Package diffscope measures how large a change was: take a [Snapshot] of a folder before and after, [Compare] the two,
// and read files touched, lines added, lines removed and hunks.
//
// Everything happens in this process. No git runs on the measured folder and nothing in it is asked for an opinion: no
// configuration, attributes, ignore rules, refs, index or hooks. (The facts beside the numbers ask the .gitattributes of the
// tree before, which the agent did not write.) The definition of every number is in docs/diff-scope.md.
//
//	before, err := diffscope.Snapshot(ctx, work)    // a value: keep it, share it
//	…                                               // the agent works
//	after, err := before.Again(ctx, work)           // reads every byte again, keeps only what differs
//	patch, scope, err := diffscope.Compare(before, after, diffscope.Paths{Files: []string{"src/**"}})
//	facts, err := diffscope.Inspect(ctx, before, after, patch)
//
// The stages are a file each: snapshot.go reads a folder, tree.go holds what was read (fs.go shows it to graders),
// compare.go finds and counts what differs with the differ of differ.go, patch.go prints it, and apply.go goes the other
// way, from a patch to a tree. reference.go sets a change against a known good one. facts.go tells what else is known of a
// change and has a file for each kind of fact. reading.go and judge.go show a change to people and to a model.
package diffscope

// Algorithm names the differ; it is part of the fingerprint, since another one may count differently.
const Algorithm = "assay-myers-1"

// Counts are the four numbers of diff scope.
type Counts struct {
	FilesTouched int `json:"files_touched"`
	LinesAdded   int `json:"lines_added"`
	LinesRemoved int `json:"lines_removed"`
	Hunks        int `json:"hunks"`
}

// LinesChanged is what limits speak of: added and removed together.
func (c Counts) LinesChanged() int { return c.LinesAdded + c.LinesRemoved }

// Scope is the size of a change. Lists are sorted by path bytes and never nil.
type Scope struct {
	Counts
	NoChange    bool      `json:"no_change"`   // nothing was touched, in scope or outside
	Approximate bool      `json:"approximate"` // the numbers are bounds: a differ gave up, or a changed file was not counted
	Algorithm   string    `json:"algorithm"`
	Files       []Row     `json:"files"`
	Outside     Outside   `json:"outside_scope"` // existing files beyond the case's files set that were edited or deleted
	Ignored     *Outside  `json:"ignored,omitempty"`
	Renames     []Rename  `json:"renames"` // information only: a rename counts as a delete and a create
	Skipped     []Skip    `json:"skipped"`
	Findings    []Finding `json:"findings"`
	Reference   *Excess   `json:"reference,omitempty"` // nil: there is no reference
	Facts       *Facts    `json:"facts,omitempty"`     // nil: nobody asked
}

// Outside is a set of rows that is not part of the headline, with its own counts.
type Outside struct {
	Counts
	Approximate bool  `json:"approximate,omitempty"` // as in Scope, of these counts
	Files       []Row `json:"files"`
}

// A Row is one touched path.
type Row struct {
	Path         string `json:"path"`                  // bad UTF-8 bytes are written as \xNN
	PathBase64   string `json:"path_base64,omitempty"` // the exact bytes, when Path could not hold them
	Status       string `json:"status"`                // added, modified, deleted or type_changed
	LinesAdded   *int   `json:"lines_added"`           // nil when the file was not counted
	LinesRemoved *int   `json:"lines_removed"`
	Hunks        *int   `json:"hunks"`
	Binary       bool   `json:"binary"`
	ModeChanged  bool   `json:"mode_changed"`
	Approximate  bool   `json:"approximate,omitempty"`
	Uncounted    string `json:"uncounted,omitempty"` // too_large or unreadable
}

// A Rename says that a deleted and a created path share content.
type Rename struct {
	From       string  `json:"from"`
	To         string  `json:"to"`
	Similarity float64 `json:"similarity"` // 0.5 to 1
}

// A Skip is something in the tree that is never counted. Why is fifo, socket, device or mount.
type Skip struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// A Finding is something in a tree that a reader should know of, such as a new .git folder.
type Finding struct {
	Kind string `json:"kind"`
	Path string `json:"path"`
	Text string `json:"text"`
}

// Paths chooses what is in scope: doublestar globs on slash paths; an entry without wildcards covers itself and all below.
type Paths struct {
	Files  []string // empty: everything
	Ignore []string // created files that do not count
}
