package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/run"
	"github.com/assay-ci/assay/internal/sandbox"
	"github.com/assay-ci/assay/internal/suite"
)

// work is a suite that has been loaded, built and planned: what every command starts from that runs or checks cells.
type work struct {
	project *project
	suite   *suite.Suite
	kit     *run.Kit
	plan    *plan.Plan

	admissions map[string]result.Admission // as recorded, by case

	selected plan.Selection // what the plan was made from
	base     *baseRevision
	scratch  *scratch
	memory   *scratch // nil: places are made on the disk only
	places   executor.Backend
	facts    executor.Facts        // of places
	unmade   *executor.Unavailable // why no place can be made; nil: places can be made
	images   map[string]string     // name of the image of a case's environment, by case
	programs run.Programs
	leave    func()           // the place in which programs were looked for; nil: there is none
	gateway  *gateway.Gateway // nil: nobody calls a model
}

// workOptions say which suite is opened, and how.
type workOptions struct {
	Suite     string         // folder or file of the suite
	Select    plan.Selection // what of it is planned
	Allow     []string       // private hosts that sources may be fetched from
	Base      string         // revision that from: base reads: the merge base of it and HEAD; empty: of the default branch
	Twice     bool           // run the baseline and a copy of it, and no other condition
	Paired    bool           // give every condition that reads files a twin that reads them from the base
	Spare     bool           // have the same twins ready, should stored results of the base have to be measured again
	Untrusted bool           // take what spends, reaches out and judges from the base's suite.yaml
	Executor  string         // kind of the executor; empty: as the suite says
	Isolation string         // wall of the executor host; empty: as the suite says
	Image     string         // that places are made of; empty: as the suite says
	Network   string         // that agents reach; empty: the closest that can be enforced
}

// openWork loads and builds a suite and plans its cells. Nothing is written but an empty scratch folder, which close
// removes.
func openWork(ctx context.Context, x IO, o workOptions) (*work, error) {
	p, err := openProject(o.Suite)
	if err != nil {
		return nil, err
	}
	base := &baseRevision{repo: p.root, rev: o.Base}
	s, err := p.load(base.of(o))
	if err != nil && o.Spare {
		s, err = loadWithoutSpare(x, p, base, o, err)
	}
	if err != nil && !onlyOthersAreBroken(s, o.Select) {
		return nil, err
	}
	if err != nil {
		fmt.Fprintf(x.Err, "%v\n(faults of cases that were not selected)\n\n", err)
	}
	for _, warning := range p.relative(s.Warnings) {
		fmt.Fprintln(x.Err, warning.Error())
	}
	if base.sha != "" {
		fmt.Fprintln(x.Err, "the base is commit "+base.sha)
	}
	if o.Twice {
		if err := runTwice(s); err != nil {
			return nil, err
		}
	}
	w := &work{project: p, suite: s, base: base}
	if w.scratch, err = newScratch(cmp.Or(x.getenv("TMPDIR"), os.TempDir())); err != nil {
		return nil, unmeasured(err)
	}
	w.memory = memoryScratch(x)
	if err := w.loadAdmissions(o.Untrusted); err != nil {
		w.close()
		return nil, err
	}
	if err := w.startPlaces(ctx, x, o); err != nil {
		w.close()
		return nil, err
	}
	if err := w.build(ctx, x, withTwins(o.Select, s), o.Allow); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// build makes the kit and the plan.
func (w *work) build(ctx context.Context, x IO, sel plan.Selection, allow []string) error {
	box, err := w.newSandbox(x, allow)
	if err != nil {
		return unmeasured(err)
	}
	w.kit, err = run.Build(w.suite, w.project.fsys, box, time.Now)
	if err != nil && w.dropSpare(x, err) {
		w.kit, err = run.Build(w.suite, w.project.fsys, box, time.Now)
	}
	if err != nil {
		return w.project.relate(err)
	}
	for _, warning := range w.project.relative(w.kit.Warnings()) {
		fmt.Fprintln(x.Err, warning.Error())
	}
	w.suite.Warnings = append(w.suite.Warnings, w.kit.Warnings()...)
	sel.Executor, sel.Images, sel.Rules = w.facts.Name, w.imageIDs(), gradingRules
	w.lookWhereCellsRun(ctx, x, box)
	sel.Versions = w.kit.Versions(ctx, w.programs)
	w.selected = sel
	if w.plan, err = plan.Expand(w.suite, sel); err != nil {
		return usage(err)
	}
	return nil
}

// lookWhereCellsRun has programs looked for where the commands of cells will run. On this host without walls that is PATH.
func (w *work) lookWhereCellsRun(ctx context.Context, x IO, box *sandbox.Sandbox) {
	switch {
	case w.unmade != nil: // nobody can look
	case w.facts.Name == "host":
		w.programs = run.HostPrograms(x.getenv("PATH"))
	default:
		w.programs, w.leave = run.PlacePrograms(ctx, box)
	}
}

// startPlaces builds the executor, by the options or else by the suite, and finds out what it can do. One that cannot be
// reached is no error yet: the preflight tells it together with all else that cannot be.
func (w *work) startPlaces(ctx context.Context, x IO, o workOptions) error {
	block := w.suite.Executor
	if o.Executor != "" && o.Executor != block.Kind {
		block = suite.Block{Kind: o.Executor}
	}
	program, err := os.Executable()
	if err != nil {
		return unmeasured(err)
	}
	if w.places, err = run.BuildExecutor(block); err != nil {
		return w.project.relate(err)
	}
	if o.Untrusted && o.Network == string(executor.NetOpen) {
		return usage(errors.New("--network open is not for an untrusted run: its agents would reach whatever this host reaches"))
	}
	w.images = run.Images(w.suite)
	maps.DeleteFunc(w.images, func(id, _ string) bool { return !o.Select.Takes(id) })
	w.facts, err = w.places.Start(ctx, executor.Session{
		Program: program, Scratch: w.scratch.dir, Environ: x.Env, Gateway: w.gatewayAddress,
		Image: o.Image, Network: executor.Network(o.Network), Isolation: o.Isolation, Untrusted: o.Untrusted,
		Closed: []string{w.project.root},
		Images: slices.Compact(slices.Sorted(maps.Values(w.images))),
	})
	switch {
	case errors.As(err, &w.unmade) && w.unmade.Reason == run.Unenforceable:
		return usage(err)
	case w.unmade != nil:
		w.facts = factsOf(block.Kind)
		return nil
	case err != nil:
		return unmeasured(err)
	}
	if err := w.checkImages(); err != nil {
		return w.project.relate(err)
	}
	return nil
}

// factsOf is what is known of an executor that could not be started.
func factsOf(kind string) executor.Facts {
	i := slices.IndexFunc(executor.Kinds, func(k executor.Kind) bool { return k.Name == kind })
	return executor.Facts{Name: kind, Isolation: executor.Kinds[i].Isolation, Keys: executor.Kinds[i].Keys}
}

// needPlaces refuses what makes no sense where no place can be made.
func (w *work) needPlaces() error {
	if w.unmade == nil {
		return nil
	}
	return unmeasured(w.unmade)
}

// imagesUsed are the ids of images by their names. What places without a name are made of is not told apart, so all that the
// executor said of itself stands for it.
func (w *work) imagesUsed() map[string]string {
	ids := map[string]string{"": fmt.Sprintf("%s %v", w.facts.Name, w.facts.Images)} // printed sorted
	maps.Copy(ids, w.facts.Images)
	return ids
}

// checkImages refuses images that nobody would use: what a case asks for is held, or it is not run.
func (w *work) checkImages() error {
	var faults []error
	for _, c := range w.suite.Cases {
		if name := w.images[c.ID]; name != "" && w.facts.Images[name] == "" {
			faults = append(faults, c.Environment.Fault("image", "the executor "+w.facts.Name+" makes no places of the image "+name, "use --executor docker"))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return suite.Flatten(err)
	}
	return nil
}

// imageIDs are the ids of the images that environments name, by case.
func (w *work) imageIDs() map[string]string {
	ids := map[string]string{}
	for id, name := range w.images {
		ids[id] = w.facts.Images[name]
	}
	return ids
}

// gatewayAddress is where the model gateway of the run listens; empty when nobody calls a model.
func (w *work) gatewayAddress() string {
	if w.gateway == nil {
		return ""
	}
	return w.gateway.Address()
}

// newSandbox wires the sandbox to the executor.
func (w *work) newSandbox(x IO, allow []string) (*sandbox.Sandbox, error) {
	cache := x.getenv("ASSAY_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("%w; set ASSAY_CACHE to a folder for sources and environments", err)
		}
		cache = filepath.Join(dir, "assay")
	}
	base, err := w.base.copyOut(w.suite, w.scratch.dir)
	if err != nil {
		return nil, err
	}
	return sandbox.New(sandbox.Options{
		Suite: w.project.root, Base: base, Scratch: w.scratch.dir, Memory: w.memory.folder(), Cache: cache, Allow: allow,
		Places: w.places, Network: w.facts.Network, Images: w.imagesUsed(),
		Hides:   w.facts.Keys == "container" || w.facts.Keys == "namespace",
		Overlay: w.facts.Keys == "none", // whose places are given to another user must be copied, or all of it would be
	})
}

// onlyOthersAreBroken tells whether the selection names cases, and all that it names are sound: the faults of one case
// never stop another.
func onlyOthersAreBroken(s *suite.Suite, sel plan.Selection) bool {
	if s == nil || len(sel.Cases) == 0 {
		return false
	}
	return !slices.ContainsFunc(sel.Cases, func(name string) bool {
		return !slices.ContainsFunc(s.Cases, func(c suite.Case) bool { return c.ID == name })
	})
}

func (w *work) close() {
	if w.leave != nil {
		w.leave()
	}
	if w.places != nil {
		_ = w.places.Close(context.Background()) // what it could not remove, the next run will
	}
	w.scratch.remove()
	w.memory.remove()
}

// allows refuses a results folder in what a case is made of: it would change the case, and agents would see it.
func (w *work) allows(out string) error {
	if out == "" {
		return usage(errors.New("--out names no folder"))
	}
	abs, err := filepath.Abs(out)
	if err != nil {
		return usage(err)
	}
	for _, c := range w.suite.Cases {
		for _, dir := range []string{c.Dir, c.Source.Path} {
			rel, err := filepath.Rel(filepath.Join(w.project.root, filepath.FromSlash(dir)), abs)
			if dir != "" && err == nil && filepath.IsLocal(rel) {
				return usage(fmt.Errorf("--out %s lies in case %s, whose agents would see it; name a folder outside of the cases", out, c.ID))
			}
		}
	}
	return nil
}

// preflight reaches for everything that the cells need, says what cannot be reached, and returns why cells are skipped,
// by key. Something required stops the run under the policy fail.
func (w *work) preflight(ctx context.Context, x IO, cells []plan.Cell, o runOptions) (map[string]string, error) {
	if err := w.kit.CheckPrices(cells, w.budget(o, len(cells))); err != nil && !o.Regrade {
		return nil, w.project.relate(err)
	}
	if err := w.kit.CheckGateway(cells, w.facts); err != nil && !o.Regrade {
		return nil, w.project.relate(err)
	}
	out, err := w.kit.Preflight(ctx, cells, w.reach(o, x))
	if err != nil {
		return nil, w.project.relate(err)
	}
	if o.Regrade {
		out = slices.DeleteFunc(out, func(u run.Unreachable) bool { return u.Agent })
	}
	printUnreachable(x, out)
	skipped := map[string]string{}
	for _, u := range out {
		if u.Required && o.OnUnavailable == "fail" {
			return nil, unmeasured(errors.New("something required cannot be reached, so nothing was run; --on-unavailable skip runs the rest"))
		}
		for _, key := range u.Cells {
			if skipped[key] != "" {
				skipped[key] += "; "
			}
			skipped[key] += u.What + ": " + u.Text
		}
	}
	return skipped, nil
}

// reach is what a preflight looks with. In a run that is not trusted, addresses of models get the same care as those of
// repositories.
func (w *work) reach(o runOptions, x IO) run.Reach {
	return run.Reach{Programs: w.programs, Keys: o.modelKeys(x), Transport: o.transport(), Executor: w.unmade}
}

// manifest is the plan with all that is fixed before the first cell runs.
func (w *work) manifest() result.Manifest {
	s := w.suite
	m := result.Manifest{
		Tool: version(), Suite: s.Name, Digest: s.Digest, Seed: w.plan.Seed, Executor: w.facts.Name,
		Algorithm: diffscope.Algorithm, Rules: gradingRules, Created: time.Now().UTC().Truncate(time.Second), Host: hostFacts(),
		Isolation: w.facts.Isolation, Keys: w.facts.Keys, Gate: manifestGate(s.Gate), Cells: w.plan.Cells, Policy: w.kit.Policy(),
	}
	for _, h := range s.Harnesses {
		m.Harnesses = append(m.Harnesses, w.kit.Describe(h))
	}
	for _, c := range s.Conditions {
		if !c.Spare {
			m.Conditions = append(m.Conditions, conditionOf(c))
		}
	}
	for _, c := range s.Cases {
		m.Cases = append(m.Cases, result.Case{
			ID: c.ID, File: c.File, Line: c.At.Line, AgentDigest: c.AgentDigest, GradeDigest: c.GradeDigest, Admission: w.admissionOf(c),
		})
	}
	return m
}

func conditionOf(c suite.Condition) result.Condition {
	return result.Condition{ID: c.ID, Baseline: c.Baseline, Digest: c.Digest, TwinOf: c.TwinOf, Spare: c.Spare}
}
