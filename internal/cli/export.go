package cli

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/report"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/run"
	"github.com/assay-ci/assay/internal/trace"
	"github.com/spf13/cobra"
)

// An exportFormat is one place that traces can go to.
type exportFormat struct {
	name, doc string
	do        func(ctx context.Context, x IO, o exportOptions) error
}

// exportFormats are all places there are.
func exportFormats() []exportFormat {
	return []exportFormat{
		{"otlp", "push spans over HTTP to whatever speaks OpenTelemetry's protocol", exportOTLP},
		{"langfuse", "push spans and scores to Langfuse", exportLangfuse},
		{"atif", "write one document of the Agent Trajectory Interchange Format a cell", exportATIF},
		{"skill-creator", "write what skill-creator's viewer reads, a benchmark.json for each arm under test", exportProjections},
		{"eval-magic", "write what eval-magic's aggregate writes, a benchmark.json for each arm under test", exportProjections},
	}
}

type exportOptions struct {
	Dir, To, Endpoint, Out string
	DryRun                 bool
}

func newExport(x IO) *cobra.Command {
	var o exportOptions
	var names []string
	for _, f := range exportFormats() {
		names = append(names, f.name)
	}
	cmd := &cobra.Command{
		Use:   "export DIR --to " + strings.Join(names, "|"),
		Short: "give the traces of the results in a folder to other tools",
		Long: `Give the traces of the results in a folder to other tools: one trace for each cell that was run,
with a span for each call of a model and of a tool, at the times at which they happened, and with
the scores. Ids are made of what was run, so exporting twice leaves one. skill-creator and
eval-magic get no traces but a benchmark.json of theirs; docs/exports.md tells what it holds.

A collector on this machine takes them with --to otlp --endpoint http://localhost:4318; --dry-run
prints what would be sent. Keys come from the environment, and from nowhere else:
  OTEL_EXPORTER_OTLP_ENDPOINT   base address for otlp; --endpoint comes first
  OTEL_EXPORTER_OTLP_HEADERS    name=value,name=value
  LANGFUSE_HOST                 base address for langfuse; --endpoint comes first
  LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY

Exit codes: 0 all was taken, 2 bad usage, 3 some of it was not taken or could not be written.`,
		Example: `assay export assay-results --to otlp --dry-run
assay export assay-results --to langfuse --dry-run
assay export assay-results --to atif --out trajectories
assay export assay-results --to skill-creator --out for-skill-creator`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Dir = args[0]
			for _, f := range exportFormats() {
				if f.name == o.To {
					err := f.do(cmd.Context(), x, o)
					if errors.Is(err, context.Canceled) {
						return run.ErrInterrupted
					}
					return err
				}
			}
			return usage(fmt.Errorf("--to is %q; it may be %s", o.To, strings.Join(names, ", ")))
		},
	}
	cmd.Flags().StringVar(&o.To, "to", "", "one of "+strings.Join(names, ", "))
	cmd.Flags().StringVar(&o.Endpoint, "endpoint", "", "base `address` of the receiver; otlp posts to /v1/traces below it")
	cmd.Flags().StringVar(&o.Out, "out", "", "`folder` for what is written to files; it may not exist yet")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "print the spans and scores as JSON lines, and send nothing")
	return cmd
}

func exportOTLP(ctx context.Context, x IO, o exportOptions) error {
	p := &report.Pusher{Tool: version(), Client: report.NewClient(), Wait: pause}
	if !o.DryRun {
		headers, err := otlpHeaders(x.getenv("OTEL_EXPORTER_OTLP_HEADERS"))
		if err != nil {
			return usage(err)
		}
		base, err := endpoint(cmp.Or(o.Endpoint, x.getenv("OTEL_EXPORTER_OTLP_ENDPOINT")), "OTEL_EXPORTER_OTLP_ENDPOINT", len(headers) > 0)
		if err != nil {
			return usage(err)
		}
		p.Header, p.URL = headers, base+"/v1/traces"
	}
	return push(ctx, x, o, p)
}

func exportLangfuse(ctx context.Context, x IO, o exportOptions) error {
	p := &report.Pusher{Tool: version(), Client: report.NewClient(), Wait: pause}
	if !o.DryRun {
		public, secret := x.getenv("LANGFUSE_PUBLIC_KEY"), x.getenv("LANGFUSE_SECRET_KEY")
		if public == "" || secret == "" {
			return usage(errors.New("langfuse wants LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY in the environment"))
		}
		base, err := endpoint(cmp.Or(o.Endpoint, x.getenv("LANGFUSE_HOST")), "LANGFUSE_HOST", true)
		if err != nil {
			return usage(err)
		}
		p.Header = map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte(public+":"+secret))}
		p.URL, p.Scores = base+"/api/public/otel/v1/traces", base+"/api/public/scores"
	}
	return push(ctx, x, o, p)
}

// push sends every cell that was run, or prints what would be sent.
func push(ctx context.Context, x IO, o exportOptions, p *report.Pusher) error {
	m, cells, err := exported(x, o.Dir)
	if err != nil {
		return err
	}
	out := json.NewEncoder(x.Out)
	out.SetEscapeHTML(false)
	for r := range cells.each {
		spans, err := cellSpans(o.Dir, m, r)
		if err != nil {
			return err
		}
		var scores []report.LangfuseScore
		if o.To == "langfuse" {
			spans, scores = report.ForLangfuse(m, r, spans), report.LangfuseScores(r)
		}
		if o.DryRun {
			err = printSpans(out, spans, scores)
		} else {
			err = errors.Join(p.AddSpans(ctx, spans), p.AddScores(ctx, scores))
		}
		if err != nil {
			return err
		}
	}
	if o.DryRun {
		return cells.done()
	}
	if err := p.Close(ctx); err != nil {
		return err
	}
	sent := p.Outcome
	fmt.Fprintf(x.Out, "%s: %d of %s taken", plural(cells.cells, "trace"), sent.SpansTaken, plural(sent.Spans, "span"))
	if o.To == "langfuse" {
		fmt.Fprintf(x.Out, ", %d of %s taken", sent.ScoresTaken, plural(sent.Scores, "score"))
	}
	fmt.Fprintln(x.Out)
	for _, f := range sent.Faults {
		fmt.Fprintf(x.Err, "assay: %s\n", printable(f, 600))
	}
	if !sent.Whole() {
		return unmeasured(errors.New("not all of it was taken; run the same command again, what is there already stays one"))
	}
	return cells.done()
}

// printSpans prints what would be sent, one object a line.
func printSpans(out *json.Encoder, spans []report.Span, scores []report.LangfuseScore) error {
	for _, s := range spans {
		if err := out.Encode(s); err != nil {
			return err
		}
	}
	for _, s := range scores {
		if err := out.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

// cellSpans makes the spans of a cell.
func cellSpans(dir string, m result.Manifest, r result.Result) ([]report.Span, error) {
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(result.Dir(r.Cell)), "trace.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return report.Spans(m, r, nil)
	}
	if err != nil {
		return nil, unmeasured(err)
	}
	defer f.Close()
	return report.Spans(m, r, trace.Read(f))
}

// An exportable is the cells of a folder that were run. It counts them, and the others, while it gives them.
type exportable struct {
	x              IO
	dir            string
	planned        []plan.Cell
	cells          int // that were given
	notRun, spoilt int
}

// exported opens the results in dir.
func exported(x IO, dir string) (result.Manifest, *exportable, error) {
	m, err := manifestOf(dir)
	if err != nil {
		return m, nil, usage(err)
	}
	cells, err := sortedCells(dir)
	return m, &exportable{x: x, dir: dir, planned: cells}, err
}

// each gives the record of each cell whose agent was started, or should have been.
func (e *exportable) each(yield func(result.Result) bool) {
	broken := func(err error) {
		e.spoilt++
		fmt.Fprintf(e.x.Err, "assay: warning: %s; it is not exported\n", printable(err.Error(), 600))
	}
	for r := range everyCell(e.dir, e.planned, broken) {
		if r.Status == "" || r.Status == result.Skipped {
			e.notRun++
			continue
		}
		e.cells++
		if !yield(r) {
			return
		}
	}
}

// done says what was not exported, and makes an error of what could not be.
func (e *exportable) done() error {
	e.notRun -= e.spoilt // they have no status either, and were named
	if e.notRun > 0 {
		fmt.Fprintf(e.x.Err, "assay: %s without a run: there is nothing to export of them\n", plural(e.notRun, "planned cell"))
	}
	if e.spoilt > 0 {
		return unmeasured(fmt.Errorf("%s could not be read", plural(e.spoilt, "record")))
	}
	return nil
}

// exportATIF writes a document for each cell that has a trace.
func exportATIF(_ context.Context, x IO, o exportOptions) error {
	if o.Out == "" || o.DryRun {
		return usage(errors.New("atif is written to files: name a folder with --out"))
	}
	_, cells, err := exported(x, o.Dir)
	if err != nil {
		return err
	}
	written := 0
	for r := range cells.each {
		ok, err := writeTrajectory(o, r)
		if err != nil {
			return err
		}
		if ok {
			written++
		}
	}
	fmt.Fprintf(x.Out, "%s written to %s\n", plural(written, "document"), o.Out)
	return cells.done()
}

// writeTrajectory writes the trace of a cell as a file named like the folder of the cell. It is false of a cell without one.
func writeTrajectory(o exportOptions, r result.Result) (bool, error) {
	place := filepath.FromSlash(result.Dir(r.Cell))
	f, err := os.Open(filepath.Join(o.Dir, place, "trace.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, unmeasured(err)
	}
	defer f.Close()
	about := trace.About{Session: fmt.Sprintf("%s/%s/%d", r.Case, r.Arm(), r.Trial), Usage: r.Agent.Usage}
	if r.Agent.Started != nil {
		about.Start = *r.Agent.Started
	}
	name := filepath.Join(o.Out, strings.TrimPrefix(place, "cells"+string(filepath.Separator))+".json")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return false, usage(err)
	}
	err = intoFile(nil, name, func(w io.Writer) error { return trace.WriteATIF(w, trace.Read(f), about) })
	return err == nil, err
}

// exportProjections writes a benchmark.json of another tool for each arm under test, in a folder named like the arm.
func exportProjections(_ context.Context, x IO, o exportOptions) error {
	if o.Out == "" || o.DryRun {
		return usage(fmt.Errorf("%s is written to files: name a folder with --out", o.To))
	}
	b, err := resultsOf(x, o.Dir)
	if err != nil {
		return usage(err)
	}
	list, err := report.Project(*b, o.To)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return unmeasured(fmt.Errorf("%s has no two arms that were run side by side, and %s compares two", o.Dir, o.To))
	}
	refused := 0
	for _, p := range list {
		if p.Refused != "" {
			refused++
			fmt.Fprintf(x.Err, "assay: warning: %s: %s; it is not written\n", printable(p.Head.String(), 200), printable(p.Refused, 600))
			continue
		}
		cell := plan.Cell{Harness: p.Head.Harness, Model: p.Head.Model, Condition: p.Head.Condition}
		name := filepath.Join(o.Out, path.Base(path.Dir(result.Dir(cell))), benchmarkFile)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return usage(err)
		}
		if err := os.WriteFile(name, p.File, 0o644); err != nil {
			return usage(err)
		}
		fmt.Fprintln(x.Out, name)
	}
	if refused > 0 {
		return unmeasured(fmt.Errorf("%d of %s could not be written", refused, plural(len(list), "file")))
	}
	return nil
}

// endpoint is the base address of a receiver, without a slash at its end. It comes from a flag or from the variable. Keys go
// over http to this machine alone.
func endpoint(base, variable string, keys bool) (string, error) {
	if base == "" {
		return "", fmt.Errorf("where to? Give --endpoint, or set %s", variable)
	}
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("the endpoint is no address that begins with http:// or https://")
	case u.User != nil:
		return "", fmt.Errorf("the endpoint holds a user or a password; keys come from the environment: see assay export --help")
	case u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("the endpoint is a base address: it has no ? and no #")
	case keys && u.Scheme == "http" && !loopback(u.Hostname()):
		return "", fmt.Errorf("keys are not sent over http to %s; use https", printable(u.Hostname(), 100))
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// loopback tells whether a host is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// otlpHeaders reads name=value,name=value, with values in URL encoding, as OpenTelemetry's variable has it.
func otlpHeaders(list string) (map[string]string, error) {
	out := map[string]string{}
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || strings.TrimSpace(name) == "" || strings.ContainsAny(value, "\r\n") {
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS is not name=value,name=value")
		}
		out[strings.TrimSpace(name)] = value
	}
	return out, nil
}
