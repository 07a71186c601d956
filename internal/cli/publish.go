package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/publish"
	"github.com/assay-ci/assay/internal/redact"
	"github.com/assay-ci/assay/internal/report"
	"github.com/spf13/cobra"
)

// placeOptions say what is written on GitHub, and where.
type placeOptions struct {
	publish.Settings
	PR      int    // 0: of the event
	Commit  string // empty: of the event
	Run     int64  // of the workflow that made the results; 0: our own
	Missing string // warn or fail, when a permission is missing
	Token   string // empty: nothing is written on GitHub
}

// placeFlags declares the options, but for the token: it would be seen in the list of processes.
func placeFlags(cmd *cobra.Command, o *placeOptions) {
	f := cmd.Flags()
	words(f, &o.Comment, "comment", "when to comment on a pull request that has no comment yet; one that is there is kept up to date", "always", "changes", "regressed", "off")
	f.StringVar(&o.Key, "comment-key", "assay", "keeps several comments on one pull request apart")
	words(f, &o.Status, "status", "how the verdict is written on the commit", "both", "status", "check", "off")
	f.StringVar(&o.StatusName, "status-name", "assay", "context of the commit status, and name of the check run")
	words(f, &o.Annotations, "annotations", "how lines of the suite are pointed at; review adds comments to lines that the pull request changes", "check", "review", "off")
	f.BoolVar(&o.Summary, "step-summary", true, "write the report to the summary of the job")
	f.IntVar(&o.PR, "pr-number", 0, "`number` of the pull request; empty: found by the event")
	f.Var(&checked{&o.Commit, form(`^[0-9a-f]{40}$`, "a commit, 40 hex digits")}, "head-sha", "`commit` that the results belong to; empty: that of the event")
	f.Int64Var(&o.Run, "run-id", 0, "`id` of the workflow run that made the results; empty: found by the event")
	words(f, &o.Missing, "on-missing-permission", "what to do when the token may not write something: say so, or end with exit code 2", "warn", "fail")
}

func newPublish(x IO) *cobra.Command {
	var o placeOptions
	cmd := &cobra.Command{
		Use:   "publish DIR",
		Short: "write results to the pull request: comment, status, check, annotations and summary",
		Long: `Write the results in a folder to GitHub, from inside a job of GitHub Actions: the token is that of
GITHUB_TOKEN, and repository, commit and pull request are those of the event. What cannot be
written is said and changes no verdict.`,
		Example: `assay publish assay-results
assay publish assay-results --comment changes --status check`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := resultsOf(x, args[0])
			if err != nil {
				return usage(err)
			}
			j, err := readJob(x.getenv, time.Now())
			if err != nil {
				return usage(err)
			}
			o.Token = x.getenv("GITHUB_TOKEN")
			if o.Token == "" {
				return usage(errors.New("GITHUB_TOKEN is not set; give the step the token of its job"))
			}
			p, err := newPoster(x, j, o, func(line string) { fmt.Fprintln(x.Out, line) })
			if err != nil {
				return usage(err)
			}
			out := p.post(cmd.Context(), report.Page{State: report.Done, Benchmark: b}, caseNotes(*b))
			for _, url := range []string{out.CommentURL, out.CheckURL} {
				if url != "" {
					fmt.Fprintln(x.Out, url)
				}
			}
			for _, l := range out.Lost {
				fmt.Fprintln(x.Err, l)
			}
			return o.missing(out.Lost)
		},
	}
	placeFlags(cmd, &o)
	return cmd
}

// missing is the error of losses that a permission would have avoided, if that is to be one.
func (o placeOptions) missing(lost []publish.Loss) error {
	for _, l := range lost {
		if o.Missing == "fail" && l.Needs != "" {
			return usage(errors.New(l.String()))
		}
	}
	return nil
}

// A poster brings pages of one job to GitHub.
type poster struct {
	job     job
	places  placeOptions
	secrets *redact.Redactor  // that no page holds
	hub     *publish.Hub      // nil without a token
	log     func(line string) // a line of the step's log that the runner obeys
	lost    []publish.Loss    // before the page: in looking for a baseline, in uploading
}

// newPoster makes one. What GitHub makes us wait for is printed.
func newPoster(x IO, j job, o placeOptions, log func(line string)) (*poster, error) {
	p := &poster{job: j, places: o, secrets: redact.New(x.secrets(nil)), log: log}
	if o.Token == "" {
		return p, nil
	}
	hub, err := publish.NewHub(o.Token, j.API, j.Owner, j.Repo, time.Now, func(line string) { fmt.Fprintln(x.Err, line) })
	p.hub = hub
	return p, err
}

// commit is the one that the pages are about.
func (p *poster) commit() string { return cmp.Or(p.places.Commit, p.job.Commit) }

// pull is the pull request that the pages are about; 0 is none.
func (p *poster) pull() int { return cmp.Or(p.places.PR, p.job.Event.PR.Number) }

// post writes a page to every place. It takes minutes at most, and what it could not write is in the outcome.
func (p *poster) post(ctx context.Context, page report.Page, notes []publish.Note) publish.Outcome {
	page.Links.Run = p.job.runURL()
	if p.commit() != "" && p.job.Owner != "" {
		page.Links.Commit = fmt.Sprintf("%s/%s/%s/commit/%s", p.job.Server, p.job.Owner, p.job.Repo, p.commit())
	}
	for _, l := range p.lost {
		page.Lost = append(page.Lost, l.String())
	}
	page = withoutSecrets(p.secrets, page)
	out := publish.Publish(ctx, p.hub, publish.Target{
		Owner: p.job.Owner, Repo: p.job.Repo, PR: p.pull(), SHA: p.commit(),
		Run: p.job.Run, Attempt: p.job.Attempt, Started: p.job.Started, RunURL: p.job.runURL(),
	}, page, notes, p.places.Settings, p.local())
	out.Lost = slices.Concat(p.lost, out.Lost)
	return out
}

// withoutSecrets takes secrets out of what a page says beside its benchmark, which comes from a ledger and has none: an
// error may quote anything.
func withoutSecrets(secrets *redact.Redactor, page report.Page) report.Page {
	page.Text = secrets.String(page.Text)
	page.Lost, page.Faults = slices.Clone(page.Lost), slices.Clone(page.Faults)
	for i, text := range page.Lost {
		page.Lost[i] = secrets.String(text)
	}
	for i, f := range page.Faults {
		page.Faults[i].Text, page.Faults[i].Hint = secrets.String(f.Text), secrets.String(f.Hint)
	}
	return page
}

// local are the places of the job itself.
func (p *poster) local() publish.Local {
	l := publish.Local{Log: p.log, Spans: spansOf}
	if p.job.SummaryFile != "" {
		l.Summary = func(page []byte) error { return appendTo(p.job.SummaryFile, page) }
	}
	return l
}

// spansOf lends the publisher the reader of patches, which is another room's.
func spansOf(patch string) ([]publish.Span, error) {
	pairs, err := diffscope.Spans(patch)
	spans := make([]publish.Span, len(pairs))
	for i, p := range pairs {
		spans[i] = publish.Span{From: p[0], To: p[1]}
	}
	return spans, err
}

// caseNotes point at the cases that regressed, those that fell deepest first.
func caseNotes(b bench.Benchmark) []publish.Note {
	type fallen struct {
		note publish.Note
		by   float64
	}
	places := map[string]bench.Case{}
	for _, c := range b.Metadata.Cases {
		places[c.Case] = c
	}
	var all []fallen
	for _, c := range b.Comparisons {
		for _, p := range c.PCases {
			at, known := places[p.Case]
			if !c.Gates || !p.Regressed || !known || at.File == "" {
				continue
			}
			all = append(all, fallen{publish.Note{
				Path: at.File, Line: max(1, at.Line), Level: "failure", Title: "Assay: " + p.Case + " regressed",
				Text: fmt.Sprintf("%s: %d of %d trials passed, %d of %d in %s", c.Head.ID, p.Head.Passed, p.Head.N, p.Base.Passed, p.Base.N, c.Base.ID),
			}, rate(p.Head) - rate(p.Base)})
		}
	}
	slices.SortStableFunc(all, func(a, b fallen) int { return cmp.Compare(a.by, b.by) })
	notes := make([]publish.Note, len(all))
	for i, f := range all {
		notes[i] = f.note
	}
	return notes
}

func rate(p bench.Passes) float64 { return float64(p.Passed) / float64(max(1, p.N)) }
