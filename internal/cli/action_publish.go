package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/publish"
	"github.com/assay-ci/assay/internal/report"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/run"
	"github.com/assay-ci/assay/internal/suite"
)

// publish tells what another run measured, whose token could not. Nothing of that run is believed but its records, which
// are read as strangers' and judged anew.
func (a *action) publish(ctx context.Context) outcome {
	if a.poster.hub == nil {
		return failure("error", ExitUsage, errors.New("mode publish needs a github-token"))
	}
	dir, err := os.MkdirTemp("", "assay-publish-")
	if err != nil {
		return failure("error", ExitUsage, err)
	}
	defer os.RemoveAll(dir)
	if err := a.resolvePull(ctx); err != nil {
		return failure("error", ExitUsage, err)
	}
	ledgers, err := a.fetch(ctx, dir)
	if err != nil {
		return a.broken(ctx, ExitUsage, err)
	}
	page, err := a.foreignPage(ctx, dir, ledgers)
	if err != nil {
		return a.broken(ctx, ExitUsage, err)
	}
	out := outcome{State: string(page.State), Benchmark: page.Benchmark, Forgiven: true}
	var notes []publish.Note
	if page.Benchmark != nil {
		out.Code, notes = page.Benchmark.Gate.ExitCode, caseNotes(*page.Benchmark)
		if out.Unverified = page.Untrusted; out.Unverified {
			out.Code = ExitUnmeasured
		}
		fmt.Fprintln(a.x.Out, report.Headline(*page.Benchmark))
	} else {
		fmt.Fprintf(a.x.Out, "%s: %s\n", page.State, page.Text)
	}
	out.Published = a.poster.post(ctx, page, notes)
	return out
}

// done tells a benchmark to everybody.
func (a *action) done(ctx context.Context, b *bench.Benchmark) outcome {
	if b.Coverage.Planned == 0 {
		page := report.Page{State: report.NothingToRun, Text: emptyPlan}
		return outcome{State: string(page.State), Published: a.poster.post(ctx, page, nil)}
	}
	page := report.Page{State: report.Done, Benchmark: b}
	page.Links.Artifact = a.upload(ctx)
	fmt.Fprintln(a.x.Out, report.Headline(*b))
	return outcome{
		State: string(report.Done), Code: b.Gate.ExitCode, Benchmark: b,
		Artifact: page.Links.Artifact, Published: a.poster.post(ctx, page, caseNotes(*b)),
	}
}

// upload brings the results folder to GitHub, and gives the address it has there; empty when that could not be.
func (a *action) upload(ctx context.Context) string {
	if a.o.Upload.Artifact == "false" || a.o.Upload.Artifact == "auto" && a.job.RuntimeToken == "" {
		return ""
	}
	url, err := publish.Uploader{
		Token: a.job.RuntimeToken, Results: a.job.ResultsURL, Server: a.job.Server,
		Repository: a.job.Owner + "/" + a.job.Repo, Run: a.job.Run, Attempt: a.job.Attempt, Client: &http.Client{},
		Mask: a.runner.AddMask, Now: time.Now, Sleep: pause,
	}.Upload(ctx, a.o.Upload.Name, a.o.Out, []string{"shards"}, a.o.Upload.RetentionDays)
	if err != nil {
		fmt.Fprintf(a.x.Err, "the artifact could not be uploaded: %v\n", err)
		a.poster.lost = append(a.poster.lost, publish.UploadLoss(err))
	}
	return url
}

// pause waits, unless the context ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failed tells an error to everybody: a faulty suite with its places, an interrupted run, or that we could not do our work.
func (a *action) failed(ctx context.Context, err error) outcome {
	var problems suite.Problems
	if !errors.As(err, &problems) {
		return a.broken(ctx, codeOf(err), err)
	}
	faults := a.faults(problems)
	out := failure(string(report.SuiteFault), ExitUsage, fmt.Errorf("%w\n%s", problems, plural(len(problems), "fault")))
	out.Published = a.poster.post(ctx, report.Page{State: report.SuiteFault, Faults: faults}, faultNotes(faults))
	return out
}

// lastWords is how long a cancelled job may still write: the runner kills it soon after.
const lastWords = 4 * time.Second

// broken tells that there is no verdict, and why.
func (a *action) broken(ctx context.Context, code int, err error) outcome {
	text := err.Error()
	if errors.Is(err, run.ErrInterrupted) || ctx.Err() != nil {
		code, text = ExitInterrupted, "The job was cancelled before its end."
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer cancel()
	}
	out := failure(string(report.Broken), code, err)
	out.Published = a.poster.post(ctx, report.Page{State: report.Broken, Text: text}, nil)
	return out
}

// resolvePull finds the pull request of a workflow run. The payload names none when its head is in a fork.
func (a *action) resolvePull(ctx context.Context) error {
	from := a.job.Event.Run
	if a.poster.pull() != 0 || from.ID == 0 || from.Head.Repo == "" {
		return nil
	}
	owner, _, _ := strings.Cut(from.Head.Repo, "/")
	var err error
	a.poster.places.PR, err = publish.ResolvePull(ctx, a.poster.hub, owner, from.Head.Ref, a.poster.commit())
	return err
}

// fetch downloads what the run left, each artifact to a folder of its own below dir, and returns the folders. The results
// as a whole come before their parts.
func (a *action) fetch(ctx context.Context, dir string) ([]string, error) {
	id := cmp.Or(a.o.Places.Run, a.job.Event.Run.ID, a.job.Run)
	all, err := a.poster.hub.Artifacts(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("artifacts of run %d: %w", id, err)
	}
	latest := map[string]publish.Artifact{} // a run that was tried again leaves a name more than once
	for _, art := range all {
		if old, ok := latest[art.Name]; !ok || art.Created.After(old.Created) {
			latest[art.Name] = art
		}
	}
	chosen := []publish.Artifact{}
	if whole, ok := latest[a.o.Upload.Name]; ok {
		chosen = append(chosen, whole)
	} else {
		for _, name := range slices.Sorted(maps.Keys(latest)) {
			if strings.HasPrefix(name, a.o.Upload.Name+"-shard-") {
				chosen = append(chosen, latest[name])
			}
		}
	}
	if len(chosen) == 0 || len(chosen) > mostParts {
		return nil, fmt.Errorf("run %d has %d artifacts named %s or %[3]s-shard-…; it may have from 1 to %d", id, len(chosen), a.o.Upload.Name, mostParts)
	}
	var dirs []string
	for i, art := range chosen {
		into := filepath.Join(dir, fmt.Sprint("part-", i))
		if err := os.Mkdir(into, 0o700); err != nil {
			return nil, err
		}
		if err := a.poster.hub.FetchArtifact(ctx, art, into, publish.LimitsFor(mostForeignCells)); err != nil {
			return nil, err
		}
		if err := checkForeign(into); err != nil {
			return nil, fmt.Errorf("artifact %d of run %d: %w", art.ID, id, err)
		}
		dirs = append(dirs, into)
	}
	return dirs, nil
}

// Bounds of what is taken from another run.
const (
	mostParts         = 257 // 256 shards and the plan
	mostForeignCells  = 20_000
	mostForeignTrials = 1000
	longestForeign    = 200 // bytes of a name
	maxManifest       = 64 << 20
)

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// checkForeign holds the manifest of another run against what assay itself would have written: every field known, every
// name short, every cell addressable. The records beside it are checked where they are read.
func checkForeign(dir string) error {
	data, err := readRegular(filepath.Join(dir, "manifest.json"), maxManifest)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var m result.Manifest
	if err := d.Decode(&m); err != nil {
		return fmt.Errorf("manifest.json: %w", err)
	}
	if len(m.Cells) > mostForeignCells {
		return fmt.Errorf("manifest.json: %d cells, more than %d", len(m.Cells), mostForeignCells)
	}
	for i, c := range m.Cells {
		named := slices.ContainsFunc([]string{c.Case, c.Harness, c.Model, c.Condition}, func(s string) bool { return s == "" || len(s) > longestForeign })
		if named || c.Trial < 1 || c.Trial > mostForeignTrials || !digestForm.MatchString(c.Key) || !digestForm.MatchString(c.GradeKey) {
			return fmt.Errorf("manifest.json: cell %d is none that assay plans", i)
		}
	}
	return nil
}

// foreignPage judges what another run left. A plan of which nothing was measured waits for a maintainer.
func (a *action) foreignPage(ctx context.Context, dir string, ledgers []string) (report.Page, error) {
	l, err := result.Open(ctx, filepath.Join(dir, "joined"), time.Now)
	if err != nil {
		return report.Page{}, err
	}
	defer l.Close()
	l.Redact(a.poster.secrets)
	if err := result.Merge(l, ledgers); err != nil {
		return report.Page{}, err
	}
	counted, err := benchmarkOf(l.Dir())
	switch {
	case err != nil:
		return report.Page{}, err
	case counted.Coverage.Planned == 0:
		return report.Page{State: report.NothingToRun, Text: emptyPlan}, nil
	case unmeasuredAtAll(*counted):
		return report.Page{
			State: report.Awaiting, Planned: counted.Coverage.Planned, Command: "/eval " + a.poster.commit(),
			Text: "This run had no keys. A maintainer may read the commit and start a run that has them.",
		}, nil
	}
	b, err := a.judge(ctx, l.Dir())
	return report.Page{State: report.Done, Benchmark: b, Untrusted: a.job.Event.Fork}, err
}

// emptyPlan is what there is to say when the suite and the selection leave no cell.
const emptyPlan = "The plan of the suite holds no cell."

// unmeasuredAtAll tells whether no shard brought a single record.
func unmeasuredAtAll(b bench.Benchmark) bool {
	return !slices.ContainsFunc(b.Missing, func(m bench.Missing) bool { return m.Reason != string(result.ShardLost) }) && b.Coverage.Scored == 0
}

// faults gives the places of problems below the top of the repository, as GitHub names them.
func (a *action) faults(problems suite.Problems) []report.Fault {
	top := ""
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(repositoryOf(filepath.Join(wd, filepath.FromSlash(a.o.Suite))), wd); err == nil {
			top = filepath.ToSlash(rel)
		}
	}
	faults := make([]report.Fault, len(problems))
	for i, p := range problems {
		faults[i] = report.Fault{Line: p.Line, Col: p.Col, Text: p.Msg, Hint: p.Hint}
		if p.File != "" {
			faults[i].File = path.Join(top, p.File)
		}
	}
	return faults
}

// faultNotes point at the places of faults. One without a place is in the text of the page only.
func faultNotes(faults []report.Fault) []publish.Note {
	var notes []publish.Note
	for _, f := range faults {
		if f.File == "" {
			continue
		}
		text := f.Text
		if f.Hint != "" {
			text += "\nhint: " + f.Hint
		}
		notes = append(notes, publish.Note{Path: f.File, Line: max(1, f.Line), Level: "failure", Title: "Assay: fault of the suite", Text: text})
	}
	return notes
}
