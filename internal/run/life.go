package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
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
	"github.com/assay-ci/assay/internal/trace"
)

// maxOutput is how much an agent may print before it is ended.
const maxOutput = 256 << 20

// A fault is why we could not do our work in one cell.
type fault struct {
	class trace.Class
	err   error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// A life is one attempt at one cell.
type life struct {
	kit   *Kit
	cell  plan.Cell
	task  *task
	agent agent
	entry *result.Entry
	res   result.Result

	place         *sandbox.Place // where the agent works; nil once it is closed
	request       harness.Task
	before, after *diffscope.Tree
	patch         diffscope.Patch
	shared        bool              // before is that of other cells too
	references    []diffscope.Scope // of the case, measured on before; empty when it has none
	outcome       harness.Outcome
	grading       *sandbox.Place // made when the first grader asks for it
	regrading     string         // folder of the logs of graders that look again; empty: they look once
	door          *gateway.Cell  // to the models; nil when there is none, or it is closed
	proof         proof          // of the condition, while there is a door
	began         time.Time
	watch         *watch // over the hidden assets; nil: the case has none

	ruled responder.Ruled // the policy of this cell, when it is one of rules

	mu     sync.Mutex
	asides map[string]*gateway.Cell // doors for what is asked beside the agent, by lane
}

// live gives a cell its life and returns its record, committed by nobody yet.
func (k *Kit) live(ctx context.Context, c plan.Cell, e *result.Entry) result.Result {
	l := k.newLife(c, e)
	started := l.began
	err := l.run(ctx)
	err = errors.Join(err, l.close(context.WithoutCancel(ctx)))
	if err != nil {
		l.fail(err)
	}
	l.res.Took.Total = time.Since(started)
	return l.res
}

func (k *Kit) newLife(c plan.Cell, e *result.Entry) *life {
	t := k.cases[c.Case]
	return &life{
		kit: k, cell: c, task: t, agent: k.harnesses[c.Harness], entry: e, began: time.Now(),
		res: result.Result{Cell: c, Threshold: t.Threshold, Scores: []result.Score{}, Started: k.now().UTC()},
	}
}

// run is the life itself. The order is a promise: the agent has stopped and its tree is measured before any hidden asset
// is laid, and nothing is graded where the agent ran.
func (l *life) run(ctx context.Context) error {
	for _, step := range []struct {
		do   func(context.Context) error
		took *time.Duration
	}{
		{l.open, &l.res.Took.Place},
		{l.setup, &l.res.Took.Place},
		{l.snapshotBefore, &l.res.Took.Scope},
		{l.guardHidden, &l.res.Took.Grade},
		{l.refer, &l.res.Took.Scope},
		{l.calibrate, &l.res.Took.Grade},
		{l.drive, &l.res.Took.Agent},
		{l.stop, &l.res.Took.Agent},
		{l.snapshotAfter, &l.res.Took.Scope},
		{l.measure, &l.res.Took.Scope},
		{l.churn, &l.res.Took.Scope},
		{l.searchWork, &l.res.Took.Grade},
		{l.grade, &l.res.Took.Grade},
	} {
		started := time.Now()
		err := step.do(ctx)
		*step.took += time.Since(started)
		if err != nil {
			return err
		}
	}
	return nil
}

// fail makes the record one of a cell that could not be measured.
func (l *life) fail(err error) {
	l.res.Status, l.res.Class, l.res.Detail = result.Errored, trace.ClassSandbox, err.Error()
	var f *fault
	var s *sandbox.Error
	switch {
	case errors.As(err, &f):
		l.res.Class = f.class
	case errors.As(err, &s):
		l.res.Class = trace.Class(s.Class)
	}
	l.res.Detail = clip(l.res.Detail, 2<<10)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// open makes the place: the tree of the source, the environment, the files of the condition.
func (l *life) open(ctx context.Context) error {
	cond := l.kit.conditions[l.cell.Condition]
	p, err := l.kit.sandbox.Open(ctx, l.task.source, sandbox.Needs{
		Environment: l.task.env, Env: l.env(), Log: l.entry.Create("environment.log"),
		Network: l.kit.sandbox.Network, Label: l.label(),
	})
	if err != nil {
		return err
	}
	l.place = p
	if p.Layout != sandbox.Copied {
		l.res.Layout = p.Layout
	}
	if err := l.confined(); err != nil {
		return err
	}
	root := l.kit.rootOf(cond)
	if err := l.kit.sandbox.Lay(ctx, p, root, cond.Files); err != nil {
		return &fault{trace.ClassCondition, err}
	}
	skills, instructions, err := l.kit.sandbox.Equip(ctx, p, root, cond.Skills, cond.Instructions)
	if err != nil {
		return &fault{trace.ClassCondition, err}
	}
	l.request, err = l.kit.task(l.cell)
	if err != nil {
		return &fault{trace.ClassHarnessConfig, err}
	}
	l.request.Prompt = cond.PromptPrefix + l.task.Prompt
	l.request.Exec, l.request.Work, l.request.Home, l.request.Env = p.Exec, p.Inside.Work, p.Inside.Home, l.env()
	l.request.Extras.SkillsDir, l.request.Extras.InstructionsFile = skills, instructions
	l.note(p.Findings)
	return nil
}

// label names the cell for whoever looks at what runs on a host.
func (l *life) label() string {
	c := l.cell
	return fmt.Sprintf("%s/%s-%s-%s/t%d", c.Case, c.Harness, c.Model, c.Condition, c.Trial)
}

// confined records what the place can reach, and refuses one that reaches more than it may.
func (l *life) confined() error {
	prover, ok := l.place.Exec.(executor.Prover)
	if !ok {
		return nil
	}
	e := prover.Egress()
	l.res.Egress = &result.Egress{Policy: string(e.Policy), Proven: e.Proven, Interfaces: e.Interfaces, Routes: e.Routes, Canary: e.Canary}
	if !e.Proven && e.Policy != executor.NetOpen {
		return &fault{trace.ClassSandbox, fmt.Errorf("the place reaches more than network %s allows: interfaces %v, %d routes, canary %s", e.Policy, e.Interfaces, e.Routes, e.Canary)}
	}
	return nil
}

// pull brings what the place holds to this host, where it is measured, when it is held elsewhere.
func (l *life) pull(ctx context.Context) error {
	if m, ok := l.place.Exec.(executor.Mirror); ok {
		if err := m.Pull(ctx); err != nil {
			return &fault{trace.ClassExecutor, err}
		}
	}
	return nil
}

// rootOf is the host folder that the paths of a condition are relative to.
func (k *Kit) rootOf(c suite.Condition) string {
	if c.From == "base" {
		return k.sandbox.Base
	}
	return k.sandbox.Suite
}

// env is what case and condition name for everything that runs in a place.
func (l *life) env() []string {
	env := maps.Clone(l.task.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, l.kit.conditions[l.cell.Condition].Env)
	return pairs(env)
}

func pairs(env map[string]string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

func (l *life) note(list []sandbox.Finding) {
	for _, f := range list {
		l.res.Findings = append(l.res.Findings, result.Finding{Kind: f.Kind, Path: f.Path, Text: f.Text})
	}
}

// setup runs the setup commands of the case; what they write is not the agent's.
func (l *life) setup(ctx context.Context) error {
	if len(l.task.Setup) == 0 {
		return nil
	}
	log := executor.NewLog(l.entry.Create("setup.log"))
	return errors.Join(l.place.Setup(ctx, l.task.Setup, log), log.Close(), l.pull(ctx))
}

// snapshotBefore measures the tree that the agent starts from. When nothing but the source decides it, one snapshot
// serves every cell of the case.
func (l *life) snapshotBefore(ctx context.Context) error {
	cond := l.kit.conditions[l.cell.Condition]
	l.shared = len(l.task.Setup) == 0 && len(cond.Files) == 0 && l.task.env == nil && l.task.Source.Isolation != "worktree"
	tree, err := l.task.firstTree(ctx, l.place.Work, l.shared)
	if err != nil {
		return &fault{trace.ClassUnmeasured, err}
	}
	l.before = &tree
	return l.filesHeld(cond)
}

// firstTree takes the snapshot of a place that no agent has touched yet, or returns the one it took before.
func (t *task) firstTree(ctx context.Context, work string, shared bool) (diffscope.Tree, error) {
	if !shared {
		return diffscope.Snapshot(ctx, work)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.before == nil {
		tree, err := diffscope.Snapshot(ctx, work)
		if err != nil {
			return tree, err
		}
		t.before = &tree
	}
	return *t.before, nil
}

// refer measures the reference of the case on the tree that the agent starts from. One that does not apply is found before
// the agent costs anything.
func (l *life) refer(context.Context) error {
	var err error
	if l.references, err = l.task.references(*l.before, l.shared); err != nil {
		return &fault{trace.ClassGrader, err}
	}
	return nil
}

// drive lets the agent work, and writes what it does to the ledger as it comes.
func (l *life) drive(ctx context.Context) error {
	file := l.entry.Create("trace.jsonl")
	began, started := l.kit.now().UTC(), time.Now()
	w := trace.NewWriter(file, func() time.Duration { return time.Since(started) })
	log := executor.NewLog(l.entry.Create("agent.log"))
	l.request.Log, l.request.Responder = log, l.respond()
	if err := l.openDoor(w.Emit); err != nil {
		return errors.Join(err, w.Close(), log.Close())
	}
	outcome, err := l.agent.Drive(ctx, l.request, w.Emit)
	err = errors.Join(err, w.Close(), log.Close())
	l.outcome = outcome
	if l.ruled != nil {
		l.res.PolicyRules = l.ruled.Used()
	}
	l.res.Agent = result.Agent{
		Stop: outcome.Stop, Detail: outcome.Detail, FinalText: outcome.FinalText, Exit: outcome.Exit, Signal: outcome.Signal,
		Turns: outcome.Turns, Usage: outcome.Usage, Model: outcome.Model, Version: orText(outcome.Version, l.agent.version),
		Answered: outcome.Answered, Started: &began, Survivors: outcome.Survivors, Swept: outcome.Swept,
	}
	unseen := l.closeDoor()
	if err != nil {
		return &fault{orClass(outcome.Class, trace.ClassHarnessCrash), err}
	}
	return unseen
}

// stop ends everything that the agent started.
func (l *life) stop(ctx context.Context) error {
	if err := l.pull(ctx); err != nil {
		return err
	}
	if err := l.place.Exec.Close(ctx); err != nil {
		return &fault{trace.ClassExecutor, err}
	}
	if l.watch == nil {
		return nil
	}
	l.watch.Order.Stopped = l.watch.since()
	return l.entry.Note("stopped", "")
}

// snapshotAfter measures the tree that the agent left. Whether a tree that cannot be measured is the agent's doing
// decides what becomes of the cell: an agent must not leave the rate by making itself unmeasurable. One that crashed is
// out of it already, for that reason and no other.
func (l *life) snapshotAfter(ctx context.Context) error {
	tree, err := l.before.Again(ctx, l.place.Work)
	var bad *diffscope.Error
	switch {
	case err == nil:
		l.after = &tree
	case errors.As(err, &bad) && (bad.ByAgent || crashed(l.outcome.Stop)):
		l.res.Unmeasured = &result.Unmeasured{Class: bad.Class, Why: bad.Error(), ByAgent: bad.ByAgent}
	default:
		return &fault{trace.ClassUnmeasured, err}
	}
	if l.watch != nil {
		l.watch.Order.Measured = l.watch.since()
	}
	return nil
}

// measure takes the size of the change, and gives the agent's place back.
func (l *life) measure(ctx context.Context) error {
	if l.after != nil {
		if err := l.size(ctx); err != nil {
			return err
		}
	}
	return l.leave(ctx)
}

// size measures the change, sets it against the reference, finds what else is known of it and writes its patch.
func (l *life) size(ctx context.Context) error {
	patch, scope, err := diffscope.Compare(*l.before, *l.after, diffscope.Paths{Files: l.task.Files, Ignore: l.task.Ignore})
	if err != nil {
		return &fault{trace.ClassUnmeasured, err}
	}
	facts, err := diffscope.Inspect(ctx, *l.before, *l.after, patch)
	if err != nil {
		return &fault{trace.ClassUnmeasured, err}
	}
	scope.Reference, scope.Facts = scope.Against(l.references), &facts
	l.res.DiffScope, l.patch = &scope, patch
	if !patch.Empty() {
		if _, err := patch.WriteTo(l.entry.Create(result.PatchName)); err != nil {
			return err
		}
	}
	return nil
}

// leave closes the agent's place: it is not needed any more, and its disk may be.
func (l *life) leave(ctx context.Context) error {
	p := l.place
	if p == nil {
		return nil
	}
	l.place = nil
	return p.Close(ctx)
}

// grade decides the status: by the agent's end alone, or by the scores of its work.
func (l *life) grade(ctx context.Context) error {
	worked := l.outcome.Answered || l.res.DiffScope != nil && !l.res.DiffScope.NoChange
	status, class, detail, look := ended(l.outcome, worked)
	l.res.Status, l.res.Class, l.res.Detail = status, class, clip(detail, 2<<10)
	switch {
	case !look:
		return nil
	case l.after == nil:
		l.res.Status, l.res.Detail = result.Failed, "the agent left a tree that cannot be measured: "+l.res.Unmeasured.Why
		return nil
	}
	if err := l.scores(ctx); err != nil {
		return err
	}
	byScores, class, detail, mean := graded(l.res.Scores, l.res.Threshold)
	l.res.Score = mean
	if l.res.Status == "" { // a limit that the agent hit has decided already: its scores are for information
		l.res.Status, l.res.Class, l.res.Detail = byScores, class, clip(detail, 2<<10)
	}
	l.unspoilt()
	return nil
}

// scores asks every grader. One that could not do its work is asked again: the evidence is frozen, so no agent's outcome
// is chosen by it.
func (l *life) scores(ctx context.Context) error {
	for _, g := range l.task.graders {
		s, err := l.score(ctx, g, 1)
		for n := 0; err != nil && n < l.kit.suite.Retries && ctx.Err() == nil; n++ {
			s, err = l.score(ctx, g, n+2)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.ID, s.Type, s.Gate, s.Weight = g.ID, g.Block.Kind, g.Assertion.Gate, g.Weight
		var unfit *unfitTree
		switch {
		case errors.As(err, &unfit) || errors.Is(err, sandbox.ErrTooLarge):
			no, zero := false, 0.0
			s.Passed, s.Value, s.Evidence = &no, &zero, clip("the agent's tree cannot be handed to a grader: "+err.Error(), 2<<10)
		case err != nil:
			s.Passed, s.Value, s.Error = nil, nil, clip(err.Error(), 2<<10)
		}
		l.res.Scores = append(l.res.Scores, s)
	}
	return nil
}

// change is what a judge may know of the agent's change.
func (l *life) change() (diffscope.Context, error) {
	if l.res.DiffScope == nil {
		return diffscope.Context{}, errors.New("the change was not measured")
	}
	return diffscope.JudgeContext(*l.res.DiffScope, l.patch)
}

// score asks a grader for the nth time; each time has a log of its own.
func (l *life) score(ctx context.Context, g grader, n int) (result.Score, error) {
	log := "assertions/" + l.regrading + g.ID
	if n > 1 {
		log += ".try-" + strconv.Itoa(n)
	}
	e := grade.Evidence{
		Tree: l.after.FS(), CaseDir: l.request.CaseDir, Place: l.gradingPlace, Trace: l.readTrace(),
		Scope: l.res.DiffScope, Turns: l.outcome.Turns, Usage: l.outcome.Usage,
		Log:    l.entry.Create(log + ".log"),
		Prompt: l.task.Prompt, Judge: l.judge, Change: l.change,
	}
	if u := l.res.Unmeasured; u != nil {
		e.Unmeasured, e.ByAgent = u.Why, u.ByAgent
	}
	return g.Grade(ctx, e)
}

// readTrace reads the trace back from where it was written.
func (l *life) readTrace() iter.Seq2[trace.Event, error] {
	return func(yield func(trace.Event, error) bool) {
		f, err := l.entry.Open("trace.jsonl")
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(trace.Event{}, err)
			return
		}
		defer f.Close()
		for e, err := range trace.Read(f) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// gradingPlace makes the fresh place at the first call: the tree that was measured, with the hidden assets over it.
func (l *life) gradingPlace(ctx context.Context) (executor.Executor, error) {
	if l.grading == nil {
		canary, err := l.watch.laying()
		if err != nil {
			return nil, err
		}
		p, found, err := l.kit.sandbox.Grading(ctx, l.task.source,
			sandbox.Handover{
				Tree: filesOf(*l.after), Before: filesOf(*l.before), Files: l.task.Files, Config: l.testSettings(),
				Hidden: l.task.assets, Canary: canary,
			},
			sandbox.Needs{Environment: l.task.env, Env: pairs(l.task.Env), Network: executor.NetNone, Label: l.label() + " grading"})
		if err != nil {
			return nil, err
		}
		l.note(found)
		l.grading = p
	}
	return l.grading.Exec, nil
}

// testSettings are the files with other uses too in which the agent changed how tests are run. A package.json is not among
// them: the sandbox tells its parts apart.
func (l *life) testSettings() (paths []string) {
	if l.res.DiffScope == nil || l.res.DiffScope.Facts == nil {
		return nil
	}
	for _, f := range l.res.DiffScope.Facts.Tampering {
		if f.Kind == "test_config_changed" && path.Base(f.Path) == "pyproject.toml" {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// An unfitTree is a tree whose content the snapshot could not hold: what the agent left is too large or unreadable. It is
// the agent's doing, so its assertions fail; otherwise an agent could leave the rate that way.
type unfitTree struct{ error }

// filesOf hands a measured tree to the sandbox, so that what is graded is exactly what was measured.
func filesOf(t diffscope.Tree) iter.Seq2[sandbox.File, error] { return handed(t.Files()) }

func handed(files iter.Seq2[diffscope.File, error]) iter.Seq2[sandbox.File, error] {
	return func(yield func(sandbox.File, error) bool) {
		for f, err := range files {
			if err != nil {
				err = &unfitTree{err}
			}
			if !yield(sandbox.File{Path: f.Path, Mode: f.Mode, Link: f.Link, Open: f.Open}, err) {
				return
			}
		}
	}
}

// close gives back what is still open.
func (l *life) close(ctx context.Context) error {
	err := errors.Join(l.closeDoor(), l.closeAsides(), l.leave(ctx))
	if l.grading != nil {
		err = errors.Join(err, l.grading.Close(ctx), l.task.assets.Verify())
	}
	return err
}

// task is the part of a harness's task that does not need a place.
func (k *Kit) task(c plan.Cell) (harness.Task, error) {
	t := k.cases[c.Case]
	dir, err := fs.Sub(k.fsys, t.Dir)
	if err != nil {
		return harness.Task{}, err
	}
	cond := k.conditions[c.Condition]
	extras, err := extrasAsked(cond)
	if err != nil {
		return harness.Task{}, err
	}
	return harness.Task{
		Case: c.Case, Model: c.Model, Condition: cmp.Or(cond.CopyOf, c.Condition), Trial: c.Trial,
		CaseDir: dir, Responder: k.responder,
		Script: func(name string) (harness.Settings, error) { return suite.ReadBlock(k.fsys, path.Join(t.Dir, name)) },
		Extras: extras,
		Limits: harness.Limits{Timeout: t.Limits.Timeout, MaxTurns: t.Limits.MaxTurns, MaxOutput: maxOutput},
	}, nil
}

// extrasAsked tells which extras a condition has, before there is a place that could hold them.
func extrasAsked(c suite.Condition) (e harness.Extras, err error) {
	if len(c.Skills) > 0 {
		e.SkillsDir = "skills"
	}
	e.InstructionsFile = c.Instructions
	e.MCP, err = mcpServers(c)
	return e, err
}
