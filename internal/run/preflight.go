package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"net/http"
	"os/exec"
	"slices"
	"time"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/gateway"
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

// The reasons for which something cannot be reached.
const (
	NoAuth        = "no_auth"              // it is there, and not for us
	NotFound      = "not_found"            // whoever has it says that it is not there
	NoNetwork     = "no_network"           // nobody answered
	BadCommit     = "bad_commit"           // a repository has no such commit
	NoCLI         = "no_cli"               // a program is not installed
	NoImage       = "no_image"             // an image is not there
	NoKey         = "no_key"               // the key of a model is not set
	NoDaemon      = "no_daemon"            // no container engine answers
	Unenforceable = "policy_unenforceable" // the executor cannot hold what was asked for
	Unknown       = "unknown"              // anything else: never one of the others
)

// Reasons lists them.
func Reasons() []string {
	return []string{NoAuth, NotFound, NoNetwork, BadCommit, NoCLI, NoImage, NoKey, NoDaemon, Unenforceable, Unknown}
}

// Unreachable is something that cells need and that is not there.
type Unreachable struct {
	What     string // such as harness claude, or source of timezone
	Reason   string // one of Reasons
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
func (k *Kit) Versions(ctx context.Context, p Programs) map[string]string {
	if p.look == nil {
		return map[string]string{}
	}
	ids := slices.Sorted(maps.Keys(k.harnesses))
	probed := make([]agent, len(ids))
	var group errgroup.Group
	group.SetLimit(probesAtOnce)
	for i, id := range ids {
		group.Go(func() error {
			a := k.harnesses[id]
			a.version, a.missing = k.probeHarness(ctx, a, p)
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
func (k *Kit) probeHarness(ctx context.Context, a agent, p Programs) (string, error) {
	prober, ok := a.Harness.(harness.Prober)
	if !ok {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	return prober.Probe(ctx, func(name string) (string, error) { return name, p.look(ctx, name) }, p.run)
}

// Describe is a harness as the manifest records it, after Versions.
func (k *Kit) Describe(h suite.Harness) result.Harness {
	a := k.harnesses[h.ID]
	return result.Harness{ID: h.ID, Type: a.kind.Name, Version: a.version, Models: h.Models, Simulated: a.kind.Simulated || k.isScripted(h)}
}

// Reach is what a preflight looks with.
type Reach struct {
	Programs  Programs
	Keys      func(env string) string // the value of an environment variable; nil: no model is called, so none is reached for
	Transport http.RoundTripper       // to the models; nil: plain HTTP without a proxy
	Executor  *executor.Unavailable   // why no place can be made; nil: places can be made
}

// Preflight reaches for everything that the cells need, several at once, before any work: the executor, harnesses, keys and
// addresses of models, sources, hidden assets and tools. It returns all that cannot be reached. The error is suite.Problems
// when a suite is wrong in a way that only looking could show, such as a commit that is not in its repository.
func (k *Kit) Preflight(ctx context.Context, cells []plan.Cell, r Reach) ([]Unreachable, error) {
	out := executorMissing(cells, r.Executor)
	keys, err := k.lackingKeys(cells, r.Keys)
	if err != nil {
		return nil, err
	}
	out = append(out, keys...)
	probes, err := k.upstreamProbes(cells, r)
	if err != nil {
		return nil, err
	}
	probes = slices.Concat(probes, k.harnessProbes(cells), k.caseProbes(cells, r.Programs))
	found := make([][]error, len(probes))
	var group errgroup.Group
	group.SetLimit(probesAtOnce)
	for i, p := range probes {
		group.Go(func() error {
			found[i] = p.look(ctx)
			return nil
		})
	}
	_ = group.Wait() // what was found is in found
	if ctx.Err() != nil {
		return nil, ErrInterrupted
	}
	var faults []error
	for i, p := range probes {
		for _, err := range found[i] {
			if reason := reasonOf(err); reason != "" {
				out = append(out, p.missing(reason, err))
			} else {
				faults = append(faults, err)
			}
		}
	}
	if len(faults) > 0 {
		return nil, suite.Flatten(errors.Join(faults...))
	}
	return out, nil
}

// A probe looks for one thing that cells need.
type probe struct {
	Unreachable // when it is not there; its Reason and Text are those of the error
	look        func(ctx context.Context) []error
}

func (p probe) missing(reason string, err error) Unreachable {
	u := p.Unreachable
	u.Reason, u.Text = reason, err.Error()
	return u
}

// reasonOf is the reason of an error for which something cannot be reached; empty for a fault of the suite.
func reasonOf(err error) string {
	var source *sandbox.Unavailable
	var models *gateway.Unavailable
	var place *executor.Unavailable
	var agent *agentMissing
	reason := ""
	switch {
	case errors.As(err, &source):
		reason = source.Reason
	case errors.As(err, &models):
		reason = models.Reason
	case errors.As(err, &place):
		reason = place.Reason
	case errors.As(err, &agent):
		if reason = Unknown; errors.Is(err, exec.ErrNotFound) {
			reason = NoCLI
		}
	default:
		return ""
	}
	if !slices.Contains(Reasons(), reason) {
		return Unknown
	}
	return reason
}

// executorMissing says that no cell can be run.
func executorMissing(cells []plan.Cell, u *executor.Unavailable) []Unreachable {
	if u == nil {
		return nil
	}
	out := Unreachable{What: u.What, Reason: reasonOf(u), Text: u.Reason + ": " + u.Text, Required: true}
	for _, c := range cells {
		out.Cells = append(out.Cells, c.Key)
	}
	return []Unreachable{out}
}

// agentMissing is the error of a harness that was asked for its version.
type agentMissing struct{ error }

func (a *agentMissing) Unwrap() error { return a.error }

// harnessProbes say which harnesses were not found when they were asked for their versions.
func (k *Kit) harnessProbes(cells []plan.Cell) (probes []probe) {
	for id, keys := range keysBy(cells, func(c plan.Cell) string { return c.Harness }) {
		if err := k.harnesses[id].missing; err != nil {
			probes = append(probes, probe{
				Unreachable{What: "harness " + id, Required: k.suite.Availability != "optional", Agent: true, Cells: keys},
				func(context.Context) []error { return []error{&agentMissing{err}} },
			})
		}
	}
	return probes
}

// caseProbes look for what each case needs.
func (k *Kit) caseProbes(cells []plan.Cell, p Programs) (probes []probe) {
	for id, keys := range keysBy(cells, func(c plan.Cell) string { return c.Case }) {
		t := k.cases[id]
		probes = append(probes, probe{
			Unreachable{What: "case " + id, Required: t.Availability != "optional", Cells: keys},
			func(ctx context.Context) []error { return k.reach(ctx, t, p.forCase(t)) },
		})
	}
	return probes
}

// keysBy yields the keys of cells by a coordinate of theirs, sorted by it.
func keysBy(cells []plan.Cell, of func(plan.Cell) string) iter.Seq2[string, []string] {
	by := map[string][]string{}
	for _, c := range cells {
		by[of(c)] = append(by[of(c)], c.Key)
	}
	return func(yield func(string, []string) bool) {
		for _, name := range slices.Sorted(maps.Keys(by)) {
			if !yield(name, by[name]) {
				return
			}
		}
	}
}

// reach finds the tree, the hidden assets and the reference of one case and the tools it names, and returns what is wrong
// with each.
func (k *Kit) reach(ctx context.Context, t *task, p Programs) (missing []error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	if p.look != nil {
		if err := sandbox.Tools(t.Tools, func(name string) error { return p.look(ctx, name) }); err != nil {
			missing = append(missing, err)
		}
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
