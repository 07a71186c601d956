package run

import (
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/grade"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/responder"
	"github.com/assay-ci/assay/internal/sandbox"
	"github.com/assay-ci/assay/internal/suite"
)

// A Kit is a suite with everything built that its cells need: a typo in the last case is found before the first cell runs.
type Kit struct {
	suite      *suite.Suite
	fsys       fs.FS
	sandbox    *sandbox.Sandbox
	responder  responder.Responder
	harnesses  map[string]agent
	conditions map[string]suite.Condition
	cases      map[string]*task
	now        func() time.Time
}

// An agent is a harness of the suite, built.
type agent struct {
	harness.Harness
	kind    harness.Kind
	version string
	missing error // why it cannot be reached
}

// A task is a case of the suite with its graders built and, after the preflight, its sources found.
type task struct {
	suite.Case
	env     *sandbox.Environment
	graders []grader
	source  *sandbox.Source
	assets  *sandbox.Assets

	mu     sync.Mutex
	before *diffscope.Tree // of every place of the case, when nothing but its source decides it
}

// A grader is an assertion of a case, built.
type grader struct {
	suite.Assertion
	grade.Grader
}

// Build makes the harnesses, graders, environments and the responder of a suite. The error is suite.Problems: every kind
// that nobody knows and every setting that its kind refuses.
func Build(s *suite.Suite, fsys fs.FS, box *sandbox.Sandbox, now func() time.Time) (*Kit, error) {
	k := &Kit{
		suite: s, fsys: fsys, sandbox: box, now: now,
		harnesses: map[string]agent{}, conditions: map[string]suite.Condition{}, cases: map[string]*task{},
	}
	var faults []error
	for _, h := range s.Harnesses {
		built, err := buildHarness(h)
		k.harnesses[h.ID], faults = built, append(faults, err)
	}
	policy, err := buildResponder(s.Interaction)
	k.responder, faults = policy, append(faults, err)
	for _, c := range s.Cases {
		t, err := buildTask(c)
		k.cases[c.ID], faults = t, append(faults, err)
	}
	for _, c := range s.Conditions {
		k.conditions[c.ID] = c
	}
	if errors.Join(faults...) == nil {
		faults = append(faults, k.checkPolicy(), k.checkConditions(), k.checkTasks())
	}
	if err := errors.Join(faults...); err != nil {
		return nil, suite.Flatten(err)
	}
	return k, nil
}

func buildHarness(h suite.Harness) (agent, error) {
	row, ok := find(harness.Kinds, func(r harness.Kind) string { return r.Name }, h.Block.Kind)
	if !ok {
		return agent{}, h.Block.UnknownKind(names(harness.Kinds, func(r harness.Kind) string { return r.Name }))
	}
	built, err := row.Build(h.Block)
	return agent{Harness: built, kind: row}, err
}

func buildResponder(b suite.Block) (responder.Responder, error) {
	row, ok := find(responder.Kinds, func(r responder.Kind) string { return r.Name }, b.Kind)
	if !ok {
		return nil, b.UnknownKind(names(responder.Kinds, func(r responder.Kind) string { return r.Name }))
	}
	return row.Build(b)
}

func buildTask(c suite.Case) (*task, error) {
	t := &task{Case: c}
	var faults []error
	if row, ok := find(sandbox.Kinds, func(r sandbox.Kind) string { return r.Name }, c.Environment.Kind); ok {
		env, err := row.Build(c.Environment)
		t.env, faults = env, append(faults, err)
	} else {
		faults = append(faults, c.Environment.UnknownKind(names(sandbox.Kinds, func(r sandbox.Kind) string { return r.Name })))
	}
	for _, a := range c.Assertions {
		row, ok := find(grade.Kinds, func(r grade.Kind) string { return r.Name }, a.Block.Kind)
		if !ok {
			faults = append(faults, a.Block.UnknownKind(names(grade.Kinds, func(r grade.Kind) string { return r.Name })))
			continue
		}
		g, err := row.Build(a.Block)
		t.graders, faults = append(t.graders, grader{a, g}), append(faults, err)
	}
	return t, errors.Join(faults...)
}

func find[T any](rows []T, name func(T) string, want string) (T, bool) {
	i := slices.IndexFunc(rows, func(r T) bool { return name(r) == want })
	if i < 0 {
		var none T
		return none, false
	}
	return rows[i], true
}

func names[T any](rows []T, name func(T) string) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = name(r)
	}
	return out
}

// spends tells whether a cell's agent may cost money, so that the journal must know of it before it starts.
func (k *Kit) spends(c plan.Cell) bool { return !k.harnesses[c.Harness].kind.Simulated }
