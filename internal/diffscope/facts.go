package diffscope

import (
	"context"
	"fmt"
)

// Facts are what is known of a change beside its size. None of them changes a number of [Scope]. Every rule comes from
// the tree before or from this program, never from the tree after, which the agent wrote. Lists are sorted by path bytes
// and never nil.
type Facts struct {
	Files        []FileFacts  `json:"files"`     // one for each row in scope and outside
	Churn        Churn        `json:"churn"`     // of what is in scope
	Buckets      Buckets      `json:"buckets"`   // of what is in scope: together they are its counts
	Tampering    []Finding    `json:"tampering"` // in scope and outside: what may make a test pass without a fix
	Dependencies Dependencies `json:"dependencies"`
	Shape        Shape        `json:"shape"`
	Copies       []Rename     `json:"copies"` // created files that repeat one of the tree before which is still there
}

// FileFacts are the facts of one touched path.
type FileFacts struct {
	Path            string `json:"path"`
	PathBase64      string `json:"path_base64,omitempty"`
	Bucket          Bucket `json:"bucket"`
	Language        string `json:"language,omitempty"` // of the lexer that was asked; empty when none was
	WhitespaceLines *int   `json:"whitespace_lines"`   // of its lines changed; nil when they were not counted
	CommentLines    *int   `json:"comment_lines"`      // of its lines changed; nil when no lexer could tell
}

// Churn is how much of the lines changed may not matter.
type Churn struct {
	WhitespaceLines int `json:"whitespace_lines"` // whose change vanishes when blanks are ignored and blank lines dropped
	EffectiveLines  int `json:"effective_lines"`  // lines changed without these
	CommentLines    int `json:"comment_lines"`    // that hold comments and nothing else
	UnlexedLines    int `json:"unlexed_lines"`    // lines changed in files of which no lexer could tell: how many are comments is not known
}

// A Bucket says what kind of file a path is. Each path is in one.
type Bucket string

// The buckets, in the order in which they are asked: a lockfile in a vendored folder is vendored.
const (
	Vendored  Bucket = "vendored"
	Generated Bucket = "generated"
	Lockfile  Bucket = "lockfile"
	Test      Bucket = "test"
	Docs      Bucket = "docs"
	Code      Bucket = "code" // all others
)

// Buckets are the counts by bucket.
type Buckets struct {
	Code      Counts `json:"code"`
	Test      Counts `json:"test"`
	Docs      Counts `json:"docs"`
	Lockfile  Counts `json:"lockfile"`
	Generated Counts `json:"generated"`
	Vendored  Counts `json:"vendored"`
}

// Dependencies are what the manifests of package managers gained and lost, in scope and outside.
type Dependencies struct {
	Added         []Dependency `json:"added"`
	Removed       []Dependency `json:"removed"`
	Unread        []string     `json:"unread"`         // changed manifests that could not be understood
	LockfileLines int          `json:"lockfile_lines"` // lines changed in lockfiles, in scope and outside
}

// A Dependency is a name in a manifest.
type Dependency struct {
	File    string `json:"file"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"` // as written
}

// Shape is what kind of things a change left.
type Shape struct {
	LargestFile    *SizedFile  `json:"largest_file"` // of those created or modified in scope; nil when there is none
	LargeFiles     []SizedFile `json:"large_files"`  // those above 1 MiB
	NewExecutables []string    `json:"new_executables"`
	NewLinks       []NewLink   `json:"new_links"`
	FoldersTouched int         `json:"folders_touched"` // that hold a touched path in scope, the root included
}

// A SizedFile is a path with its size after the change.
type SizedFile struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

// A NewLink is a symbolic link that was created or points elsewhere. Leaves tells whether its target, read as text, lies
// outside the tree.
type NewLink struct {
	Path   string `json:"path"`
	Target string `json:"target"`
	Leaves bool   `json:"leaves"`
}

// Inspect finds the facts of a change that Compare measured. The error is for kept content that cannot be read back, and
// for a context that ended.
func Inspect(ctx context.Context, before, after Tree, patch Patch) (Facts, error) {
	f := Facts{Files: []FileFacts{}}
	classes, lexing := newClassifier(before), newLexing()
	for i := range patch.changes {
		if err := ctx.Err(); err != nil {
			return Facts{}, err
		}
		c := &patch.changes[i]
		if c.where == ignored {
			continue
		}
		row, err := c.facts(classes, lexing)
		if err != nil {
			return Facts{}, fmt.Errorf("facts of %s: %w", printable(c.path), err)
		}
		f.Files = append(f.Files, row)
		if c.where == inScope {
			f.Churn.add(c.row, row)
			f.Buckets.of(row.Bucket).add(c.row)
		}
	}
	var err error
	if f.Tampering, err = tampering(patch, f.Files); err != nil {
		return Facts{}, err
	}
	if f.Dependencies, err = dependencies(patch, f.Files); err != nil {
		return Facts{}, err
	}
	if f.Shape, err = shapeOf(patch); err != nil {
		return Facts{}, err
	}
	f.Copies, err = copies(ctx, before, after, patch)
	return f, err
}

// facts are those of one path.
func (c *change) facts(classes *classifier, lexing *lexing) (FileFacts, error) {
	f := FileFacts{Path: c.row.Path, PathBase64: c.row.PathBase64}
	var err error
	if f.Bucket, err = classes.bucket(c); err != nil {
		return f, err
	}
	if c.row.Uncounted != "" {
		return f, nil
	}
	if f.WhitespaceLines, err = c.whitespaceLines(); err != nil {
		return f, err
	}
	if f.Bucket == Vendored || f.Bucket == Generated || f.Bucket == Lockfile || !lexing.may(c) {
		return f, nil
	}
	f.Language, f.CommentLines, err = c.commentLines()
	return f, err
}

// add sums up the facts of a row in scope.
func (c *Churn) add(r Row, f FileFacts) {
	if r.Uncounted != "" {
		return
	}
	changed := *r.LinesAdded + *r.LinesRemoved
	c.EffectiveLines += changed
	if f.WhitespaceLines != nil {
		c.WhitespaceLines += *f.WhitespaceLines
		c.EffectiveLines -= *f.WhitespaceLines
	}
	if f.CommentLines != nil {
		c.CommentLines += *f.CommentLines
	} else {
		c.UnlexedLines += changed
	}
}

// of is the counts of a bucket.
func (b *Buckets) of(name Bucket) *Counts {
	switch name {
	case Vendored:
		return &b.Vendored
	case Generated:
		return &b.Generated
	case Lockfile:
		return &b.Lockfile
	case Test:
		return &b.Test
	case Docs:
		return &b.Docs
	}
	return &b.Code
}

// add counts a row.
func (n *Counts) add(r Row) {
	n.FilesTouched++
	if r.Uncounted == "" {
		n.LinesAdded += *r.LinesAdded
		n.LinesRemoved += *r.LinesRemoved
		n.Hunks += *r.Hunks
	}
}
