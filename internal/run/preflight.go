package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/grade"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/responder"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/sandbox"
	"github.com/assay-ci/assay/internal/suite"
	"golang.org/x/sync/errgroup"
)

// Bounds of the preflight.
const (
	probesAtOnce = 8
	probeTime    = time.Minute // an agent of a gigabyte takes its time on a busy machine
	fetchTime    = 5 * time.Minute
)

// Unreachable is something that cells need and that is not there.
type Unreachable struct {
	What     string // such as harness claude, or source of timezone
	Text     string // why, and what to do
	Required bool
	Agent    bool     // it is the harness: grading again can do without
	Cells    []string // keys of the cells that need it
}

// checkConditions finds conditions that a harness cannot honour: what cannot be held is refused, never ignored.
func (k *Kit) checkConditions() error {
	var faults []error
	for _, h := range k.suite.Harnesses {
		a := k.harnesses[h.ID]
		for _, c := range k.suite.Conditions {
			for _, key := range asked(c) {
				if !slices.Contains(a.kind.Takes, key) {
					faults = append(faults, suite.Problem{Pos: c.At, Level: suite.LevelFault,
						Msg: fmt.Sprintf("condition %s sets %s, which the harness type %s cannot be given", c.ID, key, a.kind.Name)})
				}
			}
		}
	}
	for _, c := range k.suite.Conditions {
		if c.From == "base" && k.sandbox.Base == "" && (len(asked(c)) > 0 || len(c.Files) > 0) {
			faults = append(faults, suite.Problem{Pos: c.At, Level: suite.LevelFault, Msg: "condition " + c.ID + " reads from the base, whose files are not there"})
		}
	}
	return errors.Join(faults...)
}

// checkPolicy refuses a policy that a harness would never be asked about: an agent that acts unasked cannot be denied. What
// may not hold, and nobody can know, is a warning.
func (k *Kit) checkPolicy() error {
	policy := k.suite.Interaction
	if policy.Kind == responder.AutoApprove {
		return nil
	}
	ruled, _ := k.responder.(responder.Ruled)
	var faults []error
	for _, h := range k.suite.Harnesses {
		what, known := k.harnesses[h.ID].asks()
		name := fmt.Sprintf("harness %s (%s)", h.ID, k.harnesses[h.ID].kind.Name)
		switch {
		case !known:
			k.warn(policy.Fault("policy", fmt.Sprintf("nobody knows whether the agent of %s asks before it acts, so %s may not hold", name, policy.Kind), ""))
			continue
		case !slices.Contains(what, "permission"):
			faults = append(faults, policy.Fault("policy",
				fmt.Sprintf("%s acts without asking, so %s cannot be held", name, policy.Kind), "use auto-approve, or a harness that asks; see assay explain "+k.harnesses[h.ID].kind.Name))
		}
		if ruled != nil && ruled.ForQuestions() && !slices.Contains(what, "question") {
			k.warn(policy.Fault("rules", fmt.Sprintf("the agent of %s never asks a question, so rules for questions do nothing there", name), ""))
		}
	}
	return errors.Join(faults...)
}

// asks returns what the agent asks of the responder; known is false when nobody can say.
func (a agent) asks() (what []string, known bool) {
	if asker, ok := a.Harness.(harness.Asker); ok {
		return asker.Asks()
	}
	return a.kind.Asks, true
}

// warn keeps a fault as a warning.
func (k *Kit) warn(fault error) {
	for _, p := range suite.Flatten(fault) {
		p.Level = suite.LevelWarning
		k.warnings = append(k.warnings, p)
	}
}

// asked lists what a condition wants of a harness.
func asked(c suite.Condition) []string {
	var keys []string
	if len(c.Skills) > 0 {
		keys = append(keys, "skills")
	}
	if c.Instructions != "" {
		keys = append(keys, "instructions")
	}
	if !bytes.Equal(c.MCP.Canonical(), suite.Block{}.Canonical()) {
		keys = append(keys, "mcp")
	}
	return keys
}

// checkTasks lets each harness look at every case, model and condition that it will meet.
func (k *Kit) checkTasks() error {
	var faults []error
	for _, h := range k.suite.Harnesses {
		checker, ok := k.harnesses[h.ID].Harness.(harness.Checker)
		if !ok {
			continue
		}
		for _, m := range h.Models {
			for _, cond := range k.suite.Conditions {
				for _, c := range k.suite.Cases {
					for n := 1; n <= c.Trials; n++ {
						t, err := k.task(plan.Cell{Case: c.ID, Harness: h.ID, Model: m, Condition: cond.ID, Trial: n})
						faults = append(faults, err)
						if err == nil {
							faults = append(faults, checker.Check(t))
						}
					}
				}
			}
		}
	}
	return errors.Join(faults...)
}

// checkGraders lets each grader look for what it needs of its case: files that it names, and the reference.
func (k *Kit) checkGraders() error {
	var faults []error
	for _, c := range k.suite.Cases {
		dir, err := fs.Sub(k.fsys, c.Dir)
		faults = append(faults, err)
		t := k.cases[c.ID]
		for _, g := range t.graders {
			faults = append(faults, t.needsReference(g))
			if checker, ok := g.Grader.(grade.Checker); ok && err == nil {
				faults = append(faults, checker.Check(dir))
			}
		}
	}
	return errors.Join(faults...)
}

// Versions asks each harness for the version of the agent that would run, by harness id, several at once. A harness that
// has none to tell, or cannot be reached, is left out: the preflight says why.
func (k *Kit) Versions(ctx context.Context, path string) map[string]string {
	ids := slices.Sorted(maps.Keys(k.harnesses))
	probed := make([]agent, len(ids))
	var group errgroup.Group
	group.SetLimit(probesAtOnce)
	for i, id := range ids {
		group.Go(func() error {
			a := k.harnesses[id]
			a.version, a.missing = k.probeHarness(ctx, a, path)
			probed[i] = a
			return nil
		})
	}
	_ = group.Wait() // what could not be reached is in missing
	versions := map[string]string{}
	for i, id := range ids {
		k.harnesses[id] = probed[i]
		if probed[i].version != "" {
			versions[id] = probed[i].version
		}
	}
	return versions
}

// probeHarness asks one harness for its version.
func (k *Kit) probeHarness(ctx context.Context, a agent, path string) (string, error) {
	p, ok := a.Harness.(harness.Prober)
	if !ok {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	look := func(name string) (string, error) { return lookPath(name, path) }
	run := func(ctx context.Context, argv []string) (string, error) {
		name, err := lookPath(argv[0], path)
		if err != nil {
			return "", err
		}
		cmd := exec.CommandContext(ctx, name, argv[1:]...)
		cmd.Env = []string{"PATH=" + path, "TERM=dumb"}
		cmd.WaitDelay = time.Second
		out, err := cmd.CombinedOutput()
		return string(out[:min(len(out), 4<<10)]), err
	}
	return p.Probe(ctx, look, run)
}

// lookPath finds a program in the folders of path, a PATH value.
func lookPath(name, path string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(path) {
		if full, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return full, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

// Describe is a harness as the manifest records it, after Versions.
func (k *Kit) Describe(h suite.Harness) result.Harness {
	a := k.harnesses[h.ID]
	return result.Harness{ID: h.ID, Type: a.kind.Name, Version: a.version, Models: h.Models, Simulated: a.kind.Simulated || k.isScripted(h)}
}

// Preflight reaches for everything that the cells need, several at once, before any work: harnesses, sources, hidden
// assets and tools. It returns all that cannot be reached. The error is suite.Problems when a suite is wrong in a way
// that only looking could show, such as a commit that is not in its repository.
//
// getenv looks up the keys of models; nil when none is needed.
func (k *Kit) Preflight(ctx context.Context, cells []plan.Cell, path string, getenv func(string) string) ([]Unreachable, error) {
	byCase, byHarness := map[string][]string{}, map[string][]string{}
	for _, c := range cells {
		byCase[c.Case] = append(byCase[c.Case], c.Key)
		byHarness[c.Harness] = append(byHarness[c.Harness], c.Key)
	}
	out, err := k.reachModels(cells, getenv)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(byHarness)) {
		if err := k.harnesses[id].missing; err != nil {
			out = append(out, Unreachable{What: "harness " + id, Text: err.Error(), Required: k.suite.Availability != "optional", Agent: true, Cells: byHarness[id]})
		}
	}
	ids := slices.Sorted(maps.Keys(byCase))
	missing := make([][]error, len(ids))
	var group errgroup.Group
	group.SetLimit(probesAtOnce)
	for i, id := range ids {
		group.Go(func() error {
			missing[i] = k.reach(ctx, k.cases[id], path)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var faults []error
	for i, id := range ids {
		for _, err := range missing[i] {
			var u *sandbox.Unavailable
			if errors.As(err, &u) {
				out = append(out, Unreachable{What: "case " + id, Text: u.Error(), Required: k.cases[id].Availability != "optional", Cells: byCase[id]})
			} else {
				faults = append(faults, err)
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, ErrInterrupted
	}
	if len(faults) > 0 {
		return nil, suite.Flatten(errors.Join(faults...))
	}
	return out, nil
}

// reach finds the tree, the hidden assets and the reference of one case and the tools it names, and returns what is wrong
// with each.
func (k *Kit) reach(ctx context.Context, t *task, path string) (missing []error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	if err := sandbox.Tools(t.Tools, path); err != nil {
		missing = append(missing, err)
	}
	var err error
	if t.source, err = k.sandbox.Resolve(ctx, t.Case); err != nil {
		missing = append(missing, placed(err, t.Source.Repo))
	}
	if t.assets, err = k.sandbox.Assets(ctx, t.Case); err != nil {
		missing = append(missing, placed(err, t.Fixtures))
	}
	if t.source != nil {
		if err := k.checkReference(ctx, t); err != nil {
			missing = append(missing, err)
		}
	}
	return missing
}

// placed makes of a commit that its repository does not have a fault of the suite, at the setting that names it: no later
// try will find it.
func placed(err error, r *suite.Repo) error {
	var u *sandbox.Unavailable
	if r == nil || !errors.As(err, &u) || u.Reason != "bad_commit" {
		return err
	}
	return suite.Problem{Pos: r.At, Level: suite.LevelFault, Msg: u.What + ": " + u.Text, Hint: "name a commit that a branch or a tag of the repository leads to"}
}
