package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/publish"
	"github.com/assay-ci/assay/internal/redact"
	"github.com/assay-ci/assay/internal/report"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/run"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/spf13/cobra"
)

// runOptions are the settings of assay run, whether they came as flags or as inputs of the action.
type runOptions struct {
	Suite         string
	Select        plan.Selection
	Shard         string
	Out           string
	Jobs          int
	Fresh         bool
	Regrade       bool
	MaxCostUSD    float64
	Executor      string // empty: as the suite says
	Isolation     string // wall of the executor host; empty: as the suite says
	Image         string // that places are made of; empty: as the suite says
	Network       string // that agents reach; empty: the closest that can be enforced
	OnUnavailable string
	AllowPrivate  []string
	Base          string // see workOptions
	Baseline      string // which earlier results are compared with, in the words of publish.CheckWant
	Trust         string // auto, full or untrusted
	Gate          gateOptions
	JSON          bool
	Commit        string // that is measured, 40 hex digits; empty when not known
	Record        string // folder that every model call is recorded in; empty: none
	AA            bool   // run the baseline twice, and nothing else
	Replay        string // folder of such a recording, which answers instead of the models; empty: none
}

// work says how the suite of these options is opened.
func (o runOptions) work() workOptions {
	return workOptions{
		Suite: o.Suite, Select: o.Select, Allow: o.AllowPrivate, Base: o.Base,
		Paired: o.Baseline == "paired", Twice: o.AA, Untrusted: o.Trust == untrusted,
		Executor: o.Executor, Isolation: o.Isolation, Image: o.Image, Network: o.Network,
	}
}

// The words of --trust. Outside of the action auto is full: whoever types a command trusts what it runs.
const (
	trustAuto = "auto"
	trustFull = "full"
	untrusted = "untrusted"
)

func newRun(x IO) *cobra.Command {
	o := runOptions{Suite: "evals"}
	cmd := &cobra.Command{
		Use:   "run [SUITE]",
		Short: "run what the ledger does not hold yet, and write every report",
		Long: `Run every planned cell that the results folder does not hold yet, then write benchmark.json,
report.md, report.html and comment.md there. Running again goes on where it stopped.`,
		Example: `assay run evals
assay run evals --case greeting --trials 1 --out quick
assay run evals --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.Suite = args[0]
			}
			return runSuite(cmd.Context(), x, o)
		},
	}
	runFlags(cmd, &o)
	cmd.Flags().BoolVar(&o.JSON, "json", false, "print benchmark.json on standard output")
	cmd.Flags().BoolVar(&o.AA, "aa", false, "run the baseline twice and nothing else, to see how often the gate cries wolf; never gates")
	for _, other := range []string{"condition", "margin-pp", "min-coverage", "min-pass-rate", "fail-on"} {
		cmd.MarkFlagsMutuallyExclusive("aa", other)
	}
	return cmd
}

// runFlags declares the flags of a run.
func runFlags(cmd *cobra.Command, o *runOptions) {
	f := cmd.Flags()
	selectionFlags(cmd, &o.Select)
	jobsFlag(cmd, &o.Jobs)
	f.StringVar(&o.Shard, "shard", "", "run part `i/n` of the plan only; join the parts with assay merge")
	f.StringVarP(&o.Out, "out", "o", "assay-results", "folder of the results")
	f.BoolVar(&o.Fresh, "fresh", false, "run every cell again, also those that the folder holds")
	f.Float64Var(&o.MaxCostUSD, "max-cost-usd", 0, "stop starting cells when this much is spent; a part of the plan gets its share (0: as the suite says)")
	words(f, &o.Executor, "executor", "where the agents' commands run", executorNames()...)
	words(f, &o.Isolation, "isolation", "what stands between agents and this host with --executor host; empty: as the suite says",
		"", executor.WallAuto, executor.WallBox, executor.WallUser, executor.WallNone)
	f.StringVar(&o.Image, "image", "", "`image` of the containers that agents and graders run in; empty: as the suite says")
	words(f, &o.Network, "network", "what agents reach; empty: the closest that the executor can enforce", "", "none", "gateway", "open")
	f.StringVar(&o.OnUnavailable, "on-unavailable", "fail", "what to do when something required cannot be reached: fail or skip")
	allowFlag(cmd, &o.AllowPrivate)
	baseFlag(cmd, &o.Base)
	baselineFlag(cmd, &o.Baseline)
	trustFlag(cmd, &o.Trust)
	gateFlags(cmd, &o.Gate)
	f.StringVar(&o.Record, "record", "", "`folder` in which every model call is recorded, without keys")
	f.StringVar(&o.Replay, "replay", "", "`folder` of such a recording, which answers instead of the models: no key, no network")
	cmd.MarkFlagsMutuallyExclusive("record", "replay")
}

// trustFlag declares whose rules a run obeys.
func trustFlag(cmd *cobra.Command, trust *string) {
	words(cmd.Flags(), trust, "trust", "whether the work tree is trusted: if not, harnesses, limits, budget and gate are those of the base", trustAuto, trustFull, untrusted)
}

// baselineFlag declares which earlier results are compared with.
func baselineFlag(cmd *cobra.Command, want *string) {
	*want = "auto"
	cmd.Flags().Var(&checked{want, publish.CheckWant}, "baseline",
		"`what` to compare with: paired runs each condition from the base as well; file:PATH reads stored results; "+
			"auto, merge-base, ref:REF, release:TAG and run:ID look on GitHub, from the action only")
}

func newGrade(x IO) *cobra.Command {
	o := runOptions{Suite: "evals", OnUnavailable: "skip", Regrade: true}
	cmd := &cobra.Command{
		Use:   "grade DIR [SUITE]",
		Short: "grade the kept work again, without running an agent",
		Long: `Grade again what the agents left: each tree is rebuilt from the source and the kept patch, and
put before the suite's graders as they are now. No agent is run.`,
		Example: `assay grade assay-results evals`,
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				o.Suite = args[1]
			}
			o.Out = args[0]
			m, err := manifestOf(o.Out)
			if err != nil {
				return usage(err)
			}
			o.AA = m.AA
			return runSuite(cmd.Context(), x, o)
		},
	}
	selectionFlags(cmd, &o.Select)
	jobsFlag(cmd, &o.Jobs)
	allowFlag(cmd, &o.AllowPrivate)
	baseFlag(cmd, &o.Base)
	baselineFlag(cmd, &o.Baseline)
	cmd.Flags().BoolVar(&o.JSON, "json", false, "print benchmark.json on standard output")
	return cmd
}

// jobsFlag declares how many cells run at the same time. Its help is the same on every machine.
func jobsFlag(cmd *cobra.Command, jobs *int) {
	cmd.Flags().IntVar(jobs, "jobs", runtime.NumCPU(), "cells at the same time")
	cmd.Flags().Lookup("jobs").DefValue = "one a CPU"
}

// allowFlag declares the exceptions to the rule that sources come from public hosts.
func allowFlag(cmd *cobra.Command, hosts *[]string) {
	cmd.Flags().StringSliceVar(hosts, "allow-private-hosts", nil, "private `hosts` that sources may be fetched from")
}

// selectionFlags declares the flags that narrow a plan.
func selectionFlags(cmd *cobra.Command, sel *plan.Selection) {
	f := cmd.Flags()
	f.StringSliceVar(&sel.Cases, "case", nil, "only these cases (`globs`)")
	f.StringSliceVar(&sel.Harnesses, "harness", nil, "only these harnesses (`globs`)")
	f.StringSliceVar(&sel.Models, "model", nil, "only these models (`globs`)")
	f.StringSliceVar(&sel.Conditions, "condition", nil, "only these conditions (`globs`)")
	f.IntVar(&sel.Trials, "trials", 0, "trials of each cell (0: as the suite says)")
}

// runSuite is assay run on the command line.
func runSuite(ctx context.Context, x IO, o runOptions) error {
	stored, err := storedFile(o.Baseline)
	if err != nil {
		return usage(err)
	}
	b, err := measure(ctx, x, o, watch{stored: stored})
	if err != nil {
		return err
	}
	return announce(x, o, b)
}

// storedFile reads the stored results that --baseline names in a file; nil when it names none.
func storedFile(want string) (func(context.Context) bench.Stored, error) {
	kind, name, _ := strings.Cut(want, ":")
	switch kind {
	case "", "auto", "none", "paired":
		return nil, nil
	case "file":
		s, err := readStored(name)
		s.Cached = true
		return func(context.Context) bench.Stored { return s }, err
	}
	return nil, fmt.Errorf("--baseline %s looks on GitHub, which only the action does; name a file: file:PATH", want)
}

// A watch is told how far a run is, and adds what the run itself cannot know. Each of its functions may be nil.
type watch struct {
	planned func(w *work, cells []plan.Cell)       // all is ready; nothing was run yet
	event   func(run.Event)                        // from one goroutine at a time
	stored  func(ctx context.Context) bench.Stored // the earlier results to compare with
}

// measure loads, plans, runs and reports. The results folder is whole when it returns; a run that was interrupted returns
// what it measured beside run.ErrInterrupted.
func measure(ctx context.Context, x IO, o runOptions, watch watch) (_ *bench.Benchmark, failed error) {
	if err := o.check(); err != nil {
		return nil, usage(err)
	}
	opened := o.work()
	opened.Spare = watch.stored != nil && o.Shard == "" && !opened.Paired && !opened.Twice
	w, err := openWork(ctx, x, opened)
	if err != nil {
		return nil, err
	}
	defer w.close()
	if err := w.allows(o.Out); err != nil {
		return nil, err
	}
	if w.facts.Unwalled != "" {
		return nil, usage(errors.New(w.facts.Unwalled))
	}
	cells, err := plan.Part(w.plan.Cells, o.Shard)
	if err != nil {
		return nil, usage(fmt.Errorf("--shard: %w", err))
	}
	if !o.Regrade {
		if x, o.Jobs, err = w.seat(x, o.Jobs); err != nil {
			return nil, err
		}
	}
	secrets, err := w.redactor(x, cells, o.modelKeys(x))
	if err != nil {
		return nil, err
	}
	defer func() { failed = hide(secrets, failed) }()
	ledger, err := result.Open(ctx, o.Out, time.Now)
	if err != nil {
		return nil, ledgerError(err)
	}
	defer ledger.Close()
	ledger.Redact(secrets)
	standing := w.standing(o)
	if standing == nil { // the plan is there before anything is reached for, so that nothing of it can vanish
		err = w.putManifest(ledger, o)
	}
	if err != nil {
		return nil, ledgerError(err)
	}
	unreached, err := w.preflight(ctx, x, cells, o)
	if err == nil {
		err = standing
	}
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(x.Err, "executor %s: %s\n", w.facts.Name, w.facts.Isolation)
	models, err := w.openGateway(x, secrets, o, w.budget(o, len(cells)), ledger.Spent())
	if err != nil {
		return nil, err
	}
	defer models.Close()
	if watch.planned != nil {
		watch.planned(w, cells)
	}
	options := run.Options{
		Ledger: ledger, Jobs: o.Jobs, Retries: w.suite.Retries, MaxCost: w.budget(o, len(cells)),
		Unreached: unreached, Fresh: o.Fresh, Regrade: o.Regrade, Progress: watch.event,
	}
	ended := execute(ctx, x, secrets, w.kit, cells, options)
	var stored *bench.Stored
	if ended == nil && o.Shard == "" && watch.stored != nil {
		found := watch.stored(ctx)
		stored = &found
		ended = w.checkStored(ctx, x, secrets, found, options)
	}
	if ended == nil && o.Shard == "" {
		ended = w.confirm(ctx, x, secrets, options)
	}
	if ended != nil && !errors.Is(ended, run.ErrInterrupted) {
		return nil, ledgerError(ended)
	}
	b, err := benchmarkOf(ledger.Dir())
	if err != nil {
		return nil, ledgerError(err)
	}
	b.Interrupted = ended != nil
	if stored != nil && ended == nil {
		*b = b.Against(*stored)
	}
	if err := writePages(ledger, b); err != nil {
		return nil, ledgerError(err)
	}
	return b, ended
}

// standing says why a results folder must stay as it is: the executor cannot be reached, so the keys of the cells are not
// known, and those of a folder with results would be lost.
func (w *work) standing(o runOptions) error {
	_, err := result.ReadManifest(o.Out)
	if w.unmade == nil || errors.Is(err, fs.ErrNotExist) && !o.Regrade {
		return nil
	}
	return unmeasured(fmt.Errorf("%w; the results in %s stay as they are", w.unmade, o.Out))
}

// check refuses settings that no run could have.
func (o runOptions) check() error {
	switch {
	case o.OnUnavailable != "fail" && o.OnUnavailable != "skip":
		return fmt.Errorf("--on-unavailable is %q; it may be fail or skip", o.OnUnavailable)
	case o.Jobs < 1:
		return fmt.Errorf("--jobs is %d; at least one cell must run at a time", o.Jobs)
	case o.AA && !slices.Contains([]string{"", "auto", "none"}, o.Baseline):
		return fmt.Errorf("--aa compares the baseline with itself, and --baseline %s with something else", o.Baseline)
	case !(o.MaxCostUSD >= 0): // not a number is not a limit
		return fmt.Errorf("--max-cost-usd is %v; it may be 0 or more", o.MaxCostUSD)
	}
	return nil
}

// budget is what so many cells may spend, in US dollars: a part of the plan has its share of the whole.
func (w *work) budget(o runOptions, cells int) float64 {
	return cmp.Or(o.MaxCostUSD, w.suite.Budget.MaxCostUSD) * float64(cells) / float64(max(1, len(w.plan.Cells)))
}

// execute runs the cells under a progress display. Events come from several cells at once; the display takes them one by
// one.
func execute(ctx context.Context, x IO, secrets *redact.Redactor, kit *run.Kit, cells []plan.Cell, o run.Options) error {
	d := newDisplay(x, cells, o.Jobs)
	defer d.close()
	also := o.Progress
	o.Progress = cleaned(secrets, func(e run.Event) {
		d.show(e)
		if also != nil {
			also(e)
		}
	})
	return run.Run(ctx, kit, cells, o)
}

// putManifest writes down the plan and all that was fixed before the first cell. An unchanged plan keeps its manifest, and
// with it the time it was made at.
func (w *work) putManifest(l *result.Ledger, o runOptions) error {
	m := w.manifest()
	m.Shard, m.Commit, m.Untrusted = o.Shard, o.Commit, o.Trust == untrusted
	var err error
	if m.Gate, err = o.Gate.apply(m.Gate); err != nil {
		return usage(err)
	}
	if m.AA = o.AA; o.AA {
		m.Gate = neverGates(m.Gate)
	}
	old, err := result.ReadManifest(l.Dir())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l.PutManifest(m)
	case err != nil:
		return spoilt(err)
	}
	if o.Regrade {
		m.Gate = old.Gate // no setting can be given
	}
	if !o.Fresh {
		if err := fixedAtStart(&old, &m, l.Dir()); err != nil {
			return usage(err)
		}
	}
	m.Created, m.Host = old.Created, old.Host
	if !o.Fresh && reflect.DeepEqual(normal(withoutAdded(old)), normal(m)) {
		return nil // what is run again stays in it
	}
	m.Created, m.Host = time.Now().UTC().Truncate(time.Second), hostFacts()
	return l.PutManifest(m)
}

// fixedAtStart holds a plan that goes on with the results of an older one against it. Other settings of the gate are refused
// once there are results; other numbers of trials make it post hoc, and stay so.
func fixedAtStart(old, m *result.Manifest, dir string) error {
	m.PostHoc = old.PostHoc
	changed := trialsChanged(old.Cells, m.Cells)
	sameGate := reflect.DeepEqual(old.Gate, m.Gate)
	if sameGate && changed == "" {
		return nil
	}
	seen := scoredOfBoth(old.Cells, m.Cells, dir)
	if !sameGate && (seen > 0 || old.Digest == m.Digest) {
		return errors.New("the gate's settings are not those that this folder's results were planned under; run with --fresh or another --out")
	}
	if changed != "" && seen > 0 {
		m.PostHoc = append(slices.Clip(m.PostHoc), fmt.Sprintf("%s, planned after %d cells were scored", changed, seen))
	}
	return nil
}

// trialsChanged says which numbers of trials of a case differ between two plans: "3 → 5 trials of a case". Fresh trials are
// not counted, nor what only one of the plans has.
func trialsChanged(old, now []plan.Cell) string {
	before, after := trialsOf(old), trialsOf(now)
	var changes []string
	for slot, n := range before {
		if text := fmt.Sprintf("%d → %d", n, after[slot]); after[slot] > 0 && after[slot] != n && !slices.Contains(changes, text) {
			changes = append(changes, text)
		}
	}
	if len(changes) == 0 {
		return ""
	}
	slices.Sort(changes)
	return strings.Join(changes, ", ") + " trials of a case"
}

func trialsOf(cells []plan.Cell) map[plan.Slot]int {
	out := make(map[plan.Slot]int)
	for _, c := range screenCells(cells) {
		out[plan.Slot{Case: c.Case, Arm: c.Arm()}]++
	}
	return out
}

// scoredOfBoth counts the cells of both plans whose result was there to be seen.
func scoredOfBoth(old, now []plan.Cell, dir string) int {
	kept := make(map[string]bool, len(now))
	for _, c := range now {
		kept[c.Key] = true
	}
	n := 0
	for r, err := range result.Read(dir, slices.DeleteFunc(slices.Clone(old), func(c plan.Cell) bool { return !kept[c.Key] })) {
		if err == nil && r.Status.Scored() {
			n++
		}
	}
	return n
}

// normal brings a manifest into the form that reading it back gives.
func normal(m result.Manifest) result.Manifest {
	m.Schema = result.Schema
	b, err := json.Marshal(m)
	if err != nil {
		return m
	}
	var out result.Manifest
	if err := json.Unmarshal(b, &out); err != nil {
		return m
	}
	return out
}

func hostFacts() result.Host {
	return result.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
}

// ledgerError marks what went wrong with the results folder: a full disk, a missing permission, another writer.
func ledgerError(err error) error {
	var locked *result.Locked
	var coded *exit
	switch {
	case err == nil:
		return nil
	case errors.As(err, &coded):
		return err
	case errors.Is(err, context.Canceled):
		return run.ErrInterrupted
	case errors.As(err, &locked):
		return usage(err)
	}
	return unmeasured(fmt.Errorf("%w; free space or fix the folder, then run the same command again to go on", err))
}

// writePages writes every page of a benchmark into the results folder.
func writePages(l *result.Ledger, b *bench.Benchmark) error {
	faces := report.Over(detailsOf(l.Dir()))
	faults := make([]error, len(faces))
	var pages sync.WaitGroup
	for i, face := range faces {
		pages.Go(func() {
			page, err := face.Render(*b)
			if err == nil {
				err = l.PutReport(face.File, page)
			}
			if err != nil {
				faults[i] = fmt.Errorf("%s: %w", face.File, err)
			}
		})
	}
	pages.Wait()
	return errors.Join(faults...)
}

// announce prints where the pages are and what they say, and turns the verdict into the exit code.
func announce(x IO, o runOptions, b *bench.Benchmark) error {
	if o.JSON {
		if err := b.WriteJSON(x.Out); err != nil {
			return err
		}
	} else {
		headline := report.Headline(*b)
		if o.Shard != "" {
			headline = "part " + o.Shard + " of the plan; assay merge joins the parts and gives the verdict"
		}
		fmt.Fprintf(x.Out, "\n%s\n\n", headline)
		if b.FalseAlarms != nil && o.Shard == "" {
			fmt.Fprintf(x.Out, "%s\n\n", b.FalseAlarms.Text())
		}
		if o.Shard == "" && len(b.Arms) > 0 { // a part has no verdict
			summarize(screenOf(x), b)
			fmt.Fprintln(x.Out)
		}
		for _, face := range report.Faces {
			fmt.Fprintf(x.Out, "  %s/%-15s %s\n", o.Out, face.File, face.Doc)
		}
	}
	if o.Shard != "" {
		return nil // a part has no verdict
	}
	if code := b.Gate.ExitCode; code != ExitOK {
		return &exit{code, nil}
	}
	return nil
}

// manifestGate copies the gate's settings as they are before the first cell runs.
func manifestGate(g suite.Gate) result.Gate {
	return result.Gate{
		Alpha: g.Alpha, MarginPP: g.MarginPP, MarginEqPP: g.MarginEqPP, MDEMaxPP: g.MDEMaxPP,
		MinCoverage: g.MinCoverage, MinPassRate: g.MinPassRate, Claim: g.Claim, Underpowered: g.Underpowered,
		Confirm: (*result.Confirm)(g.Confirm),
	}
}

// gradingRules is the version of the rules by which a tree is measured and graded: part of every grade key.
const gradingRules = "3/" + diffscope.Algorithm
