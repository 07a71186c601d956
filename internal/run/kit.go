package run

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/grade"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/responder"
	"github.com/assay-ci/assay/internal/result"
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
	gateway    *gateway.Gateway   // nil: no agent can call a model
	terminal   responder.Terminal // nil: nobody can be asked
	warnings   suite.Problems
	canary     string // what the canaries of all cells begin with
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

	search *sandbox.Search // for the hidden assets, once they were looked for
	shown  sandbox.Look    // of them, in the source

	patch    []byte            // the reference, after the preflight
	measured []diffscope.Scope // the reference, on that tree
}

// A grader is an assertion of a case, built.
type grader struct {
	suite.Assertion
	grade.Grader
	trial *trial
}

// Owned builds one block of a suite and drops it: what comes back are the faults that only the room of its kind can find.
// It is the suite.Owner that a suite is loaded with, so that all its faults are told at once.
func Owned(use suite.Use, b suite.Block) (err error) {
	switch use {
	case suite.ForHarness:
		_, err = buildHarness(b)
	case suite.ForPolicy:
		_, err = buildResponder(b)
	case suite.ForEnvironment:
		_, err = buildEnvironment(b)
	case suite.ForAssertion:
		_, err = buildGrader(b)
	case suite.ForExecutor:
		_, err = BuildExecutor(b)
	}
	return err
}

// Build makes the harnesses, graders, environments and the responder of a suite. The error is suite.Problems: what cannot
// be held together, such as a condition that a harness cannot honour, or a script that a case lacks.
func Build(s *suite.Suite, fsys fs.FS, box *sandbox.Sandbox, now func() time.Time) (*Kit, error) {
	k := &Kit{
		suite: s, fsys: fsys, sandbox: box, now: now, canary: "assay-canary-" + rand.Text() + "-",
		harnesses: map[string]agent{}, conditions: map[string]suite.Condition{}, cases: map[string]*task{},
	}
	var faults []error
	for _, h := range s.Harnesses {
		built, err := buildHarness(h.Block)
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
		faults = append(faults, k.checkPolicy(), k.checkConditions(), k.checkTasks(), k.checkModels(), k.checkSkills(), k.checkGraders())
	}
	if err := errors.Join(faults...); err != nil {
		return nil, suite.Flatten(err)
	}
	return k, nil
}

// Warnings are what may not hold of the policy, and what of it can never apply.
func (k *Kit) Warnings() suite.Problems { return k.warnings }

// Policy is the policy as the manifest records it; nil for one that needs no record.
func (k *Kit) Policy() *result.Policy {
	p := result.Policy{Name: k.suite.Interaction.Kind}
	if ruled, ok := k.responder.(responder.Ruled); ok {
		p.Rules = ruled.Rules()
	}
	for _, w := range k.warnings {
		p.Warnings = append(p.Warnings, w.Msg)
	}
	if p.Rules == 0 && p.Warnings == nil {
		return nil
	}
	return &p
}

func buildHarness(b suite.Block) (agent, error) {
	row, err := find(harness.Kinds, func(r harness.Kind) string { return r.Name }, b)
	if err != nil {
		return agent{}, err
	}
	built, err := row.Build(b)
	return agent{Harness: built, kind: row}, err
}

func buildResponder(b suite.Block) (responder.Responder, error) {
	row, err := find(responder.Kinds, func(r responder.Kind) string { return r.Name }, b)
	if err != nil {
		return nil, err
	}
	return row.Build(b)
}

func buildEnvironment(b suite.Block) (*sandbox.Environment, error) {
	row, err := find(sandbox.Kinds, func(r sandbox.Kind) string { return r.Name }, b)
	if err != nil {
		return nil, err
	}
	return row.Build(b)
}

// Images are the names of the images that environments of the suite ask for, by case. An environment that cannot be built
// has none; Build says why.
func Images(s *suite.Suite) map[string]string {
	names := map[string]string{}
	for _, c := range s.Cases {
		if e, err := buildEnvironment(c.Environment); err == nil && e.Image() != "" {
			names[c.ID] = e.Image()
		}
	}
	return names
}

// BuildExecutor makes the backend that a suite names, not started yet.
func BuildExecutor(b suite.Block) (executor.Backend, error) {
	row, err := find(executor.Kinds, func(r executor.Kind) string { return r.Name }, b)
	if err != nil {
		return nil, err
	}
	return row.Build(b)
}

func buildGrader(b suite.Block) (grade.Grader, error) {
	row, err := find(grade.Kinds, func(r grade.Kind) string { return r.Name }, b)
	if err != nil {
		return nil, err
	}
	return row.Build(b)
}

func buildTask(c suite.Case) (*task, error) {
	env, err := buildEnvironment(c.Environment)
	t := &task{Case: c, env: env}
	faults := []error{err}
	for _, a := range c.Assertions {
		g, err := buildGrader(a.Block)
		t.graders, faults = append(t.graders, grader{a, g, &trial{}}), append(faults, err)
	}
	return t, errors.Join(faults...)
}

// find returns the row of a table that owns a block, or the fault that no row does.
func find[T any](rows []T, name func(T) string, b suite.Block) (T, error) {
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = name(r)
	}
	if i := slices.Index(names, b.Kind); i >= 0 {
		return rows[i], nil
	}
	var none T
	return none, b.UnknownKind(names)
}

// spends tells whether a cell may cost money, by its agent or beside it, so that the journal must know of it before it starts.
func (k *Kit) spends(c plan.Cell) bool {
	return !k.harnesses[c.Harness].kind.Simulated || len(k.asideModels(c)) > 0
}
