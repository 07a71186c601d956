package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/publish"
	"github.com/assay-ci/assay/internal/redact"
	"github.com/assay-ci/assay/internal/report"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/run"
	"github.com/sethvargo/go-githubactions"
)

// The modes of the action.
const (
	modeAuto    = "auto"
	modePlan    = "plan"
	modeRun     = "run"
	modeMerge   = "merge"
	modePublish = "publish"
	modeGate    = "gate"
	modeCommand = "command"
	modeWhole   = "" // what auto is when nothing else fits: run, compare, report, publish and ask the gate, in one job
)

// modeNames are the modes that a workflow may name, the default first.
func modeNames() []string {
	return []string{modeAuto, modePlan, modeRun, modeMerge, modePublish, modeGate, modeCommand}
}

// modeOf finds the mode of a job: the one that is named, or under auto the first that fits.
func modeOf(o actionOptions, event string, shards bool) string {
	switch {
	case o.Mode != modeAuto:
		return o.Mode
	case event == "issue_comment", event == "pull_request_review":
		return modeCommand
	case event == "workflow_run":
		return modePublish
	case o.Shard != "":
		return modeRun
	case shards:
		return modeMerge
	}
	return modeWhole
}

// isAction tells whether the runner of GitHub Actions started us as the program of an action's container.
func isAction(args []string, x IO) bool { return len(args) == 0 && x.getenv("INPUT_MODE") != "" }

// stepName is the hidden command that does the work of a step.
const stepName = "step"

// actionMain is the face of the program inside GitHub Actions: options from inputs, results to outputs, and the same exit
// codes as on the command line. The work is done by a process of its own, so that files are given back to the owner of the
// workspace, and the pull request is told, even when that one crashes.
func actionMain(ctx context.Context, x IO) int {
	program, err := os.Executable()
	if err != nil {
		fmt.Fprintf(x.Err, "assay: %v\n", err)
		return ExitUnmeasured
	}
	child := exec.CommandContext(ctx, program, stepName)
	child.Env, child.Stdout, child.Stderr = x.Env, x.Out, x.Err
	child.Cancel = func() error { return child.Process.Signal(os.Interrupt) }
	child.WaitDelay = stepGrace
	err = child.Run()
	code := child.ProcessState.ExitCode() // -1 of a crash, also when there is no process
	if code < 0 {
		fmt.Fprintf(x.Err, "assay: crashed: %v\n", err)
		code = step(x, func(a *action) outcome {
			return a.broken(ctx, ExitUnmeasured, errors.New("assay crashed; the log of the job has the details"))
		})
	}
	if err := handBack(x.getenv("GITHUB_WORKSPACE"), resultsBelow(x)); err != nil {
		fmt.Fprintf(x.Err, "assay: files are left as root's: %v\n", err)
	}
	return code
}

// stepGrace is how long a cancelled step may take to end: its last words on GitHub, and the end of its agents.
const stepGrace = 20 * time.Second

// resultsBelow is the results folder below the workspace; empty when the inputs name none.
func resultsBelow(x IO) string {
	o, _ := readInputs(x.getenv)
	return o.below()
}

// below is the results folder as the outputs name it: slash path below the workspace.
func (o actionOptions) below() string {
	return path.Join(filepath.ToSlash(o.Dir), filepath.ToSlash(o.Out))
}

// stepMain is the command step. A crash must not look like the exit code of a usage fault, so it ends by a signal.
func stepMain(ctx context.Context, x IO) int {
	debug.SetTraceback("crash")
	return step(x, func(a *action) outcome { return a.do(ctx) })
}

// An action is one step of a workflow.
type action struct {
	x      IO // what is printed there is never a command to the runner
	o      actionOptions
	job    job
	poster *poster
	runner *githubactions.Action
}

// step opens the world of a step, does its work, and closes it. Everything that the work prints goes through the log.
func step(x IO, work func(*action) outcome) int {
	log := newStepLog(x.Out, redact.New(x.secrets(nil)))
	defer log.close()
	out, err := &printed{log: log}, &printed{log: log}
	defer out.flush()
	defer err.flush()
	x.Out, x.Err = out, err
	a := &action{x: x, runner: githubactions.New(githubactions.WithWriter(commands{log}), githubactions.WithGetenv(x.getenv))}
	if err := a.open(log); err != nil {
		return a.close(failure("error", ExitUsage, err))
	}
	return a.close(work(a))
}

// open reads what the step was told. The token and the keys of the runtime never show in the log.
func (a *action) open(log *stepLog) error {
	options, wrong := readInputs(a.x.getenv)
	j, err := readJob(a.x.getenv, time.Now())
	a.o, a.job = options, j
	if err := errors.Join(wrong, err); err != nil {
		return err
	}
	for _, secret := range []string{a.o.Places.Token, j.RuntimeToken} {
		if secret != "" {
			a.runner.AddMask(secret)
		}
	}
	a.o.Commit = cmp.Or(a.o.Places.Commit, j.Commit)
	a.o.Base = j.base()
	if a.o.Trust == trustAuto && j.untrusted() {
		a.o.Trust = untrusted
	}
	if a.poster, err = newPoster(a.x, j, a.o.Places, log.command); err != nil {
		return err
	}
	if !filepath.IsLocal(filepath.FromSlash(a.o.Dir)) || !filepath.IsLocal(filepath.FromSlash(a.o.Out)) {
		return errors.New("working-directory and out are folders below the workspace, such as evals or assay-results")
	}
	return os.Chdir(filepath.Join(j.Workspace, filepath.FromSlash(a.o.Dir)))
}

// close writes the outputs, says what went wrong, and turns the outcome into an exit code.
func (a *action) close(out outcome) int {
	if err := a.o.Places.missing(out.Published.Lost); err != nil && out.stepCode() == ExitOK {
		out.Code, out.Err = ExitUsage, err
	}
	if _, err := os.Stat(a.o.Out); err == nil {
		out.Out = a.o.below()
	}
	faults := []error{out.Err}
	if a.job.OutputFile != "" {
		faults = append(faults, appendTo(a.job.OutputFile, writeOutputs(out)))
	}
	for _, err := range faults {
		if err != nil {
			a.runner.Errorf("%s", hide(redact.New(a.x.secrets(nil)), err))
		}
	}
	return out.stepCode()
}

// do does the work of the step's mode.
func (a *action) do(ctx context.Context) outcome {
	shards := a.shards()
	mode := modeOf(a.o, a.job.Event.Kind, len(shards) > 0)
	fmt.Fprintf(a.x.Out, "assay %s: %s\n", version(), cmp.Or(mode, "run, compare, publish"))
	if err := a.allowed(mode); err != nil {
		return failure("error", ExitUsage, err)
	}
	switch mode {
	case modePlan:
		return a.plan(ctx)
	case modeRun:
		return a.runShard(ctx)
	case modeMerge:
		return a.merge(ctx, shards)
	case modePublish:
		out := a.publish(ctx)
		if a.poster.hub != nil {
			a.poster.hub.Ended(ctx, a.job.Event, out.State == string(report.Done))
		}
		return out
	case modeGate:
		return a.gate()
	case modeCommand:
		return a.command(ctx)
	}
	return a.whole(ctx)
}

// allowed refuses to run what strangers wrote where something could be stolen.
func (a *action) allowed(mode string) error {
	if !slices.Contains([]string{modePlan, modeRun, modeWhole}, mode) {
		return nil
	}
	if a.job.Event.Kind == "pull_request_target" {
		return errors.New("pull_request_target runs beside the repository's secrets, so no suite is run there; use pull_request, and /eval for forks")
	}
	if found := keys(a.x.Env); a.o.Trust == untrusted && len(found) > 0 {
		return fmt.Errorf("this run is not trusted and the step has %s: agents on this host could read it; take it out, or run trusted code (trust: full)",
			strings.Join(found, ", "))
	}
	return nil
}

// plan writes the manifest and the matrix.
func (a *action) plan(ctx context.Context) outcome {
	cells, err := writePlan(ctx, a.x, a.o.runOptions)
	if err != nil {
		return a.failed(ctx, ungated(err))
	}
	m, err := matrixOf(cells, a.o.Shards)
	if err != nil {
		return a.failed(ctx, ungated(err))
	}
	text, err := json.Marshal(m)
	if err != nil {
		return a.failed(ctx, ungated(err))
	}
	found := len(cells) > 0
	fmt.Fprintf(a.x.Out, "%s in %s\n", plural(len(cells), "cell"), plural(len(m.Include), "shard"))
	return outcome{State: "planned", Matrix: string(text), HasCells: &found}
}

// runShard runs the cells of this shard. They never fail the step: the merging job tells what came of them.
func (a *action) runShard(ctx context.Context) outcome {
	b, err := measure(ctx, a.x, a.o.runOptions, watch{})
	if err != nil {
		return failure("error", codeOf(ungated(err)), err)
	}
	return outcome{State: "ran", Code: b.Gate.ExitCode, Forgiven: true, Benchmark: b}
}

// whole does everything in one job.
func (a *action) whole(ctx context.Context) outcome {
	news := a.announceRunning(ctx)
	b, err := measure(ctx, a.x, a.o.runOptions, watch{planned: news.planned, event: news.event, stored: a.stored})
	news.stop()
	if err != nil {
		return a.failed(ctx, err)
	}
	return a.done(ctx, b)
}

// shards are the ledgers that were downloaded below the results folder, in the order of their names.
func (a *action) shards() []string {
	const depth = 3
	top := filepath.Join(a.o.Out, "shards")
	var found []string
	_ = filepath.WalkDir(top, func(name string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(top, name)
		switch {
		case err != nil, e.IsDir() && strings.Count(filepath.ToSlash(rel), "/") >= depth:
			return fs.SkipDir
		case e.Name() == "manifest.json" && e.Type().IsRegular():
			found = append(found, filepath.Dir(name))
		}
		return nil
	})
	return found
}

// merge joins the shards and tells the verdict everywhere but in its exit code: that is the gate's, which asks later.
func (a *action) merge(ctx context.Context, shards []string) outcome {
	if len(shards) == 0 {
		return a.broken(ctx, ExitUsage, fmt.Errorf("no results of shards below %s/shards; download the artifacts of the shards and of the plan there", a.o.Out))
	}
	l, err := result.Open(ctx, a.o.Out, time.Now)
	if err != nil {
		return a.broken(ctx, ExitUsage, ledgerError(err))
	}
	defer l.Close()
	l.Redact(redact.New(a.x.secrets(nil)))
	if err := result.Merge(l, shards); err != nil {
		return a.broken(ctx, ExitUsage, err)
	}
	b, err := a.judge(ctx, l.Dir())
	if err == nil {
		err = writePages(l, b)
	}
	if err != nil {
		return a.broken(ctx, ExitUsage, err)
	}
	out := a.done(ctx, b)
	out.Forgiven = true
	return out
}

// judge makes the benchmark of a results folder: its own comparisons, the stored baseline, and the settings of this step.
func (a *action) judge(ctx context.Context, dir string) (*bench.Benchmark, error) {
	b, err := benchmarkOf(dir)
	if err != nil {
		return nil, err
	}
	*b = b.Against(a.stored(ctx))
	return decideAgain(b, a.o.Gate, "")
}

// gate repeats what the merging job decided, and is never green for what was not measured.
func (a *action) gate() outcome {
	b, err := resultsOf(a.x, a.o.Out)
	var none noResults
	if errors.As(err, &none) {
		return withoutResults(a.x.getenv("ASSAY_NEEDS"))
	}
	if err == nil {
		b, err = decideAgain(b, a.o.Gate, "")
	}
	switch {
	case err != nil:
		return failure("error", ExitUnmeasured, err)
	case b.Coverage.Planned == 0:
		return outcome{State: string(report.NothingToRun)}
	}
	fmt.Fprintln(a.x.Out, report.Headline(*b))
	return outcome{State: string(report.Done), Code: b.Gate.ExitCode, Benchmark: b}
}

// withoutResults is what the gate says when there are no results, by the ends of the jobs that it needs: the value of the
// needs context as JSON.
func withoutResults(text string) outcome {
	var needs map[string]struct {
		Result  string            `json:"result"`
		Outputs map[string]string `json:"outputs"`
	}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &needs); err != nil {
			return failure("error", ExitUnmeasured, fmt.Errorf("ASSAY_NEEDS is not the JSON of the needs context: %w", err))
		}
	}
	switch plan := needs["plan"]; {
	case plan.Result == "skipped", plan.Result == "success" && plan.Outputs["has-cells"] == "false":
		return outcome{State: string(report.NothingToRun)}
	case plan.Result == "failure":
		return failure("error", ExitUsage, errors.New("the plan failed: see the job plan"))
	}
	return failure("error", ExitUnmeasured, errors.New("there are no results, so nothing was measured; see the jobs run and merge"))
}

// command obeys or refuses an /eval.
func (a *action) command(ctx context.Context) outcome {
	if a.poster.hub == nil {
		return failure("error", ExitUsage, errors.New("mode command needs a github-token"))
	}
	order, err := a.poster.hub.Eval(ctx, a.job.Event, a.o.Places.StatusName, a.job.runURL())
	if err != nil {
		return failure("error", ExitUsage, err)
	}
	fmt.Fprintln(a.x.Out, cmp.Or(order.Why, "accepted"))
	return outcome{State: string(report.Done), Order: &order}
}

// stored looks for the results to compare with.
func (a *action) stored(ctx context.Context) bench.Stored {
	e := a.job.Event
	found, lost := publish.FindBaseline(ctx, a.poster.hub, publish.Query{
		Want: a.o.Baseline, Artifact: a.o.Stored.Artifact, MaxAge: a.o.Stored.MaxAge, Run: a.job.Run,
		Branch: cmp.Or(strings.TrimPrefix(e.Base.Ref, "refs/heads/"), e.Repository.DefaultBranch), Base: a.pullBase(), Head: a.o.Commit,
		Repository: e.Repository.ID, Workflows: a.job.Workflows,
		File: path.Join(filepath.ToSlash(a.o.Dir), strings.TrimSuffix(filepath.ToSlash(a.o.Suite), "suite.yaml"), "baseline.json"),
	})
	a.poster.lost = append(a.poster.lost, lost...)
	found.Cached = true
	return found
}

// pullBase is the base of the pull request: its commit, or where the event does not tell it the default branch. It is
// empty outside of a pull request.
func (a *action) pullBase() string {
	if a.poster.pull() == 0 {
		return ""
	}
	return cmp.Or(a.job.Event.Base.SHA, a.job.Event.Repository.DefaultBranch)
}

// ungated is an error of a job that has no gate: whatever kept it from its work, its exit code is that of a fault.
func ungated(err error) error {
	if codeOf(err) == ExitUnmeasured {
		return usage(err)
	}
	return err
}

// codeOf is the exit code that the command line has for an error.
func codeOf(err error) int {
	var has *exit
	switch {
	case errors.As(err, &has):
		return has.code
	case errors.Is(err, run.ErrInterrupted):
		return ExitInterrupted
	}
	return ExitUnmeasured
}
