package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/assay-ci/assay/internal/trace"
	"golang.org/x/sync/errgroup"
)

// Gradings is how often the graders of a case see one and the same tree: one that errs one time in five gives itself away
// with 96 %.
const Gradings = 14

// The agents of an admission. None of them asks a model.
const (
	nullAgent      = "null"      // touches nothing
	noiseAgent     = "noise"     // adds a comment to a source file, and a blank file
	referenceAgent = "reference" // applies the reference patch
)

// AdmitOptions say how cases are tried.
type AdmitOptions struct {
	Ledger *result.Ledger // for logs of the attempts; no record is written there
	Times  int            // trials of each agent
	Jobs   int            // cases at the same time
	Done   func(result.Admission, error)
}

// AdmissionCells are the cells by which cases are tried, for the preflight. None of them is in any plan.
func (k *Kit) AdmissionCells(cases []string, times int) []plan.Cell {
	var cells []plan.Cell
	for _, name := range cases {
		for _, agent := range []string{nullAgent, noiseAgent, referenceAgent} {
			for n := 1; n <= times; n++ {
				c := plan.Cell{Case: name, Harness: agent, Model: "none", Condition: k.plainCondition(), Trial: n}
				c.Key = strings.Join([]string{name, agent, fmt.Sprint(n)}, "/")
				cells = append(cells, c)
			}
		}
	}
	return cells
}

// plainCondition is one that lays no files, or else the baseline.
func (k *Kit) plainCondition() string {
	list := k.suite.Conditions
	at := slices.IndexFunc(list, func(c suite.Condition) bool { return len(c.Files) == 0 && len(asked(c)) == 0 })
	if at < 0 {
		at = slices.IndexFunc(list, func(c suite.Condition) bool { return c.Baseline })
	}
	return list[max(at, 0)].ID
}

// Admit tries each case: every agent Times times, each graded in a place of its own, and then the graders on one tree of
// the reference, again and again. It counts; what the counts mean is said elsewhere, so State and Why are left empty.
// Done is told of each case as it is ready, with the error that kept it from being tried; it is called from one goroutine
// at a time. The error of Admit is ErrInterrupted.
func (k *Kit) Admit(ctx context.Context, cases []string, o AdmitOptions) error {
	type tried struct {
		admission result.Admission
		err       error
	}
	ready := make(chan tried)
	go func() {
		defer close(ready)
		var group errgroup.Group
		group.SetLimit(max(1, o.Jobs))
		for _, name := range cases {
			group.Go(func() error {
				a, err := k.admit(ctx, name, o)
				ready <- tried{a, err}
				return nil
			})
		}
		_ = group.Wait() // what went wrong is in the channel
	}()
	for t := range ready {
		if ctx.Err() == nil {
			o.Done(t.admission, t.err)
		}
	}
	if ctx.Err() != nil {
		return ErrInterrupted
	}
	return nil
}

// admit tries one case.
func (k *Kit) admit(ctx context.Context, name string, o AdmitOptions) (result.Admission, error) {
	t := k.cases[name]
	a := result.Admission{Case: name, AgentDigest: t.AgentDigest, GradeDigest: t.GradeDigest, Why: []string{}}
	for _, g := range t.graders {
		a.Assertions = append(a.Assertions, result.Exercised{
			ID: g.ID, Gate: g.Assertion.Gate, Guard: g.Guard, Session: g.Block.Kind == "trace", Judged: g.Block.Kind == "llm_judge",
		})
	}
	for _, c := range k.AdmissionCells([]string{name}, o.Times) {
		if c.Harness == referenceAgent && t.Reference == "" {
			continue
		}
		graded, err := k.tryOn(ctx, c, o.Ledger, 1)
		if err != nil {
			return a, fmt.Errorf("the %s agent: %w", c.Harness, err)
		}
		count(&a, c.Harness, graded[0])
	}
	if t.Reference == "" {
		return a, nil
	}
	frozen := k.AdmissionCells([]string{name}, o.Times+1)
	graded, err := k.tryOn(ctx, frozen[len(frozen)-1], o.Ledger, Gradings)
	if err != nil {
		return a, fmt.Errorf("grading one tree again: %w", err)
	}
	for _, r := range graded {
		for i, s := range r.Scores {
			a.Assertions[i].Frozen.Add(s.Passed)
		}
	}
	return a, nil
}

// count adds one graded trial of an agent. An agent without merit is caught when it fails the case, and does so by an
// assertion that is no guard; the reference when any assertion fails it. Assertions about a session count for neither.
func count(a *result.Admission, agent string, r result.Result) {
	failed := false
	for i, s := range r.Scores {
		x := &a.Assertions[i]
		switch agent {
		case nullAgent:
			x.Null.Add(s.Passed)
		case noiseAgent:
			x.Noise.Add(s.Passed)
		default:
			x.Reference.Add(s.Passed)
			if x.Evidence == "" && (s.Passed == nil || !*s.Passed) {
				x.Evidence = clip(orText(s.Error, s.Evidence), 500)
			}
		}
		broken := s.Passed == nil || !*s.Passed
		merit := s.Passed != nil && !*s.Passed && !x.Guard && r.Status == result.Failed
		failed = failed || !x.Session && (agent == referenceAgent && broken || agent != referenceAgent && merit)
	}
	of := map[string]*result.Caught{nullAgent: &a.Null, noiseAgent: &a.Noise, referenceAgent: &a.Reference}[agent]
	of.N++
	if failed {
		of.Caught++
	}
}

// tryOn gives an agent of the admission its work on a case, and has the frozen tree graded so many times, each in a fresh
// place. It is a cell's life with the work taken from a patch: nothing runs where the tree lies.
func (k *Kit) tryOn(ctx context.Context, c plan.Cell, ledger *result.Ledger, gradings int) (graded []result.Result, err error) {
	entry, err := ledger.Begin(c, "admission", false)
	if err != nil {
		return nil, err
	}
	l := k.newLife(c, entry)
	defer func() {
		err = errors.Join(err, l.close(context.WithoutCancel(ctx)), entry.Abandon("admission", l.res))
	}()
	zero := 0
	l.outcome = harness.Outcome{Stop: trace.StopEndTurn, Turns: &zero, Answered: true}
	for _, step := range []func(context.Context) error{
		l.open, l.setup, l.snapshotBefore, l.refer, l.calibrate, l.shortSession, l.workOf(c.Harness), l.measure,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	for n := range gradings {
		l.regrading = fmt.Sprintf("%d/", n+1)
		l.res.Scores = []result.Score{}
		if err := l.grade(ctx); err != nil {
			return nil, err
		}
		graded = append(graded, l.res)
		if err := l.leaveGrading(ctx); err != nil {
			return nil, err
		}
	}
	return graded, nil
}

// leaveGrading gives the grading place back, so that the next grader gets a fresh one.
func (l *life) leaveGrading(ctx context.Context) error {
	if l.grading == nil {
		return nil
	}
	p := l.grading
	l.grading = nil
	return errors.Join(p.Close(context.WithoutCancel(ctx)), l.task.assets.Verify())
}

// shortSession writes the trace of an agent that did nothing one could see.
func (l *life) shortSession(context.Context) error {
	w := trace.NewWriter(l.entry.Create("trace.jsonl"), func() time.Duration { return 0 })
	w.Emit(trace.Event{Kind: trace.KindSessionStart, Session: &trace.Session{Harness: "admission"}})
	w.Emit(trace.Event{Kind: trace.KindStop, Stop: &trace.Stop{Reason: trace.StopEndTurn}})
	return w.Close()
}

// workOf is the step in which an agent of the admission leaves its tree.
func (l *life) workOf(agent string) func(context.Context) error {
	return func(context.Context) error {
		var patch []byte
		var err error
		switch agent {
		case noiseAgent:
			patch, err = noise(*l.before, l.task, l.references)
		case referenceAgent:
			patch = l.task.patch
		}
		if err != nil {
			return err
		}
		tree := *l.before
		if len(patch) > 0 {
			if tree, err = diffscope.Apply(*l.before, patch); err != nil {
				return err
			}
		}
		l.after = &tree
		return nil
	}
}

// noise is a patch that changes nothing that matters: a comment at the end of a source file, if there is one, and a file
// with one blank line. It prefers a file that the reference changes, since graders look there.
func noise(before diffscope.Tree, t *task, references []diffscope.Scope) ([]byte, error) {
	wanted := map[string]bool{}
	for _, scope := range references {
		for _, row := range scope.Files {
			wanted[row.Path] = true
		}
	}
	names := map[string]bool{}
	var chosen *diffscope.File
	for f, err := range before.Files() {
		names[f.Path] = true
		if err != nil || f.Link != "" || f.Size > maxNoisy || comment(f.Path) == "" || strings.ContainsAny(f.Path, "\"\\\t\r\n") {
			continue
		}
		if chosen == nil || wanted[f.Path] && !wanted[chosen.Path] {
			chosen = &f
		}
	}
	var patch strings.Builder
	if chosen != nil {
		if err := writeComment(&patch, *chosen); err != nil {
			return nil, err
		}
	}
	blank := "blank.txt"
	for names[blank] {
		blank = "another-" + blank
	}
	fmt.Fprintf(&patch, "diff --git a/%[1]s b/%[1]s\nnew file mode 100644\n--- /dev/null\n+++ b/%[1]s\n@@ -0,0 +1 @@\n+\n", blank)
	return []byte(patch.String()), nil
}

// maxNoisy is the largest file, in bytes, that noise goes to.
const maxNoisy = 1 << 20

// writeComment writes the patch that puts a comment behind the last line of a file.
func writeComment(patch *strings.Builder, f diffscope.File) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	data, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	lines := strings.SplitAfter(string(data), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	text := comment(f.Path)
	fmt.Fprintf(patch, "diff --git a/%[1]s b/%[1]s\n--- a/%[1]s\n+++ b/%[1]s\n", f.Path)
	n := len(lines)
	if n == 0 {
		fmt.Fprintf(patch, "@@ -0,0 +1 @@\n+%s\n", text)
		return nil
	}
	fmt.Fprintf(patch, "@@ -%[1]d +%[1]d,2 @@\n", n)
	if last, whole := strings.CutSuffix(lines[n-1], "\n"); whole {
		fmt.Fprintf(patch, " %s\n", last)
	} else {
		fmt.Fprintf(patch, "-%[1]s\n\\ No newline at end of file\n+%[1]s\n", last)
	}
	fmt.Fprintf(patch, "+%s\n", text)
	return nil
}

// comment is a line that says nothing in the language of a file; empty when that is not known.
func comment(name string) string {
	const text = "a comment"
	switch strings.ToLower(path.Ext(name)) {
	case ".go", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".java", ".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".rs", ".swift", ".kt",
		".scala", ".dart", ".zig", ".proto":
		return "// " + text
	case ".py", ".rb", ".sh", ".bash", ".pl", ".r", ".ex", ".exs", ".nim", ".jl", ".tf", ".toml", ".yaml", ".yml":
		return "# " + text
	case ".sql", ".lua", ".hs", ".elm":
		return "-- " + text
	case ".css", ".scss", ".less":
		return "/* " + text + " */"
	case ".html", ".xml", ".vue", ".svelte", ".md":
		return "<!-- " + text + " -->"
	}
	return ""
}
