package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/run"
	"github.com/assay-ci/assay/internal/trace"
	"github.com/spf13/cobra"
)

// traceFile is the trace in the folder of a cell.
const traceFile = "trace.jsonl"

// traceOptions are the flags of assay trace.
type traceOptions struct {
	atif, raw, json, full, follow bool
}

func newTrace(x IO) *cobra.Command {
	var o traceOptions
	cmd := &cobra.Command{
		Use:   "trace DIR CELL | FILE",
		Short: "print what an agent did in one cell, for a person to read",
		Long: `Print the trace of a cell as a conversation: what was said, which tools were called and what came
back, what was asked and answered, what sub-agents did, times and usage. CELL is the beginning of
its key or of its name, which is case, arm and trial as in "timezone/claude/claude-opus-5/with_skill/1".

Long texts are shortened; --full shows all. --follow prints one line an event while the cell runs,
until its agent stops; it waits for a cell that has not begun. --json prints the events themselves,
--raw the lines that the agent wrote.

--atif prints the cell as a document of the Agent Trajectory Interchange Format instead, with what
the format has no place for in its extra objects. FILE is such a document, of any program.`,
		Example: `assay trace assay-results greeting/scripted/none/with_hint/1
assay trace assay-results greeting/scripted/none/with_hint/1 --full
assay trace assay-results greeting/scripted/none/with_hint/1 --follow --json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return showCell(cmd.Context(), x, args[0], args[1], o)
			}
			switch {
			case o.atif:
				return usage(errors.New("--atif prints a cell; name the folder of the results and the cell"))
			case o.follow || o.raw || o.json:
				return usage(errors.New("--follow, --json and --raw print a cell; name the folder of the results and the cell"))
			}
			return showATIF(x, args[0], o.full)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.atif, "atif", false, "print the cell as a document of ATIF, version 1.8")
	f.BoolVar(&o.full, "full", false, "shorten nothing, and show events that seldom matter")
	f.BoolVar(&o.follow, "follow", false, "print a running cell as it goes on, one line an event")
	f.BoolVar(&o.json, "json", false, "print the events, one a line, as trace.jsonl has them but without the agent's lines")
	f.BoolVar(&o.raw, "raw", false, "print the lines that the agent wrote, as far as the trace keeps them")
	cmd.MarkFlagsMutuallyExclusive("atif", "raw", "json", "full")
	cmd.MarkFlagsMutuallyExclusive("atif", "follow")
	return cmd
}

// showCell prints the trace of a cell of the results in dir.
func showCell(ctx context.Context, x IO, dir, id string, o traceOptions) error {
	if o.atif {
		return writeATIF(x.Out, dir, id)
	}
	s := screenOf(x)
	var events iter.Seq2[trace.Event, error]
	if o.follow {
		c, err := cellOf(dir, id)
		if err != nil {
			return err
		}
		events = followTrace(ctx, dir, c)
	} else {
		_, f, err := openTrace(dir, id)
		if err != nil {
			return err
		}
		defer f.Close()
		events = trace.Read(f)
	}
	switch {
	case o.raw:
		return eachEvent(events, x.Err, s.showRaw)
	case o.json:
		return eachEvent(events, x.Err, s.showJSON)
	case o.follow:
		return eachEvent(events, x.Out, s.showEvent)
	}
	return viewTrace(s, events, o.full)
}

// eachEvent shows events one by one, as they come. What is no event is told on faults.
func eachEvent(events iter.Seq2[trace.Event, error], faults io.Writer, show func(trace.Event) error) error {
	for e, err := range events {
		var broken *trace.LineError
		switch {
		case errors.Is(err, context.Canceled):
			return run.ErrInterrupted
		case errors.As(err, &broken):
			fmt.Fprintf(faults, "(unreadable line: %s)\n", printable(err.Error(), 400))
		case err != nil:
			return unmeasured(err)
		default:
			if err := show(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// showRaw prints the agent's own line of an event. A terminal gets it without what it would obey.
func (s screen) showRaw(e trace.Event) error {
	if len(e.Raw) == 0 {
		return nil
	}
	line := string(e.Raw)
	if s.isTerminal {
		line = clean(line)
	}
	_, err := fmt.Fprintln(s.w, line)
	return err
}

// showJSON prints an event without the agent's own line. What JSON leaves as it is and a terminal would obey is escaped.
func (s screen) showJSON(e trace.Event) error {
	e.Raw = nil
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	text := string(line)
	if s.isTerminal {
		text = clean(text)
	}
	_, err = fmt.Fprintln(s.w, text)
	return err
}

// showEvent prints an event on one line.
func (s screen) showEvent(e trace.Event) error {
	kind := fmt.Sprintf("%-19s", printable(string(e.Kind), 40))
	_, err := fmt.Fprintf(s.w, "%s %s%s\n", s.paint(dim, fmt.Sprintf("%8.3fs", e.At.Seconds())), s.paint(kindColor(e), kind),
		printable(eventText(e), 400))
	return err
}

// kindColor marks what a reader looks for.
func kindColor(e trace.Event) color {
	switch {
	case e.Kind == trace.KindError, e.Tool != nil && e.Tool.Status == trace.StatusError:
		return red
	case e.Kind == trace.KindPermissionRequest, e.Kind == trace.KindQuestion, e.Kind == trace.KindRetry:
		return yellow
	case e.Kind == trace.KindStop:
		return green
	}
	return bold
}

// writeATIF prints the trace of a cell of the results in dir as an ATIF document. Its totals are the official ones, and its
// steps have no timestamps: the ledger holds when the cell began, not when its agent did.
func writeATIF(w io.Writer, dir, id string) error {
	c, f, err := openTrace(dir, id)
	if err != nil {
		return err
	}
	defer f.Close()
	about := trace.About{Session: cellID(c)}
	for r, err := range result.Read(dir, []plan.Cell{c}) {
		if err != nil {
			return unmeasured(err)
		}
		about.Usage = r.Agent.Usage
	}
	return trace.WriteATIF(w, trace.Read(f), about)
}

// showATIF prints a document of ATIF as a trace.
func showATIF(x IO, name string, full bool) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return usage(fmt.Errorf("%s is a folder; name one of its cells too, as assay plan lists them", name))
	}
	f, err := openRegular(filepath.Dir(name), filepath.Base(name))
	if err != nil {
		return usage(err)
	}
	defer f.Close()
	events, err := trace.ReadATIF(f)
	if err != nil {
		return usage(fmt.Errorf("%s: %w", name, err))
	}
	return viewTrace(screenOf(x), func(yield func(trace.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}, full)
}

// cellOf finds a cell of the plan of the results in dir.
func cellOf(dir, id string) (plan.Cell, error) {
	m, err := manifestOf(dir)
	if err != nil {
		return plan.Cell{}, usage(err)
	}
	c, err := findCell(m.Cells, id)
	if err != nil {
		return c, usage(err)
	}
	return c, nil
}

// openTrace opens the trace of a cell of the results in dir.
func openTrace(dir, id string) (plan.Cell, *os.File, error) {
	c, err := cellOf(dir, id)
	if err != nil {
		return c, nil, err
	}
	f, err := openRegular(dir, path.Join(result.Dir(c), traceFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s has no trace: it was not run", cellName(c))
	}
	if err != nil {
		return c, nil, usage(err)
	}
	return c, f, nil
}

// findCell finds the one cell that id names: by its name or the beginning of it, up to a slash, or by the beginning of its key.
func findCell(cells []plan.Cell, id string) (plan.Cell, error) {
	matches := slices.DeleteFunc(slices.Clone(cells), func(c plan.Cell) bool {
		byName := strings.HasPrefix(cellID(c)+"/", strings.TrimSuffix(id, "/")+"/")
		return !byName && (len(id) < 4 || !strings.HasPrefix(c.Key, id))
	})
	switch len(matches) {
	case 1:
		return matches[0], nil
	case 0:
		return plan.Cell{}, fmt.Errorf("no cell is called %q; assay plan lists the keys", id)
	}
	var names []string
	for _, c := range matches[:min(len(matches), mostNamed)] {
		names = append(names, cellID(c))
	}
	if more := len(matches) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return plan.Cell{}, fmt.Errorf("%d cells begin with %q; name one of them: %s", len(matches), id, strings.Join(names, ", "))
}

// mostNamed is how many cells a message names when more than one begin as was asked.
const mostNamed = 6

// cellID is the name of a cell that findCell finds it by.
func cellID(c plan.Cell) string { return fmt.Sprintf("%s/%s/%d", c.Case, c.Arm(), c.Trial) }

// eventText tells one event in a line.
func eventText(e trace.Event) string {
	switch {
	case e.Stop != nil:
		return strings.TrimSpace(string(e.Stop.Reason) + " " + e.Stop.Detail)
	case e.Tool != nil && e.Kind == trace.KindToolResult:
		return strings.TrimSpace(string(e.Tool.Status) + " " + e.Tool.Output)
	case e.Tool != nil:
		return strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Tool.Name, strings.Join(e.Tool.Paths, " "), e.Tool.Input))
	case e.Session != nil:
		return sessionText(*e.Session)
	case e.Call != nil:
		return callText(e)
	case e.Usage != nil:
		return usageText(*e.Usage)
	case e.Err != nil:
		return faultText(e)
	case e.Ask != nil:
		return askText(*e.Ask)
	}
	return e.Text
}

// sessionText tells which agent it was and which model it worked with.
func sessionText(s trace.Session) string {
	return joinTexts(s.Harness, s.Agent, s.Version, cmp.Or(s.Model, s.ModelReported))
}

// joinTexts joins what is not empty.
func joinTexts(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " ")
}

// askText tells what was asked, or what the answer was and who gave it.
func askText(a trace.Ask) string {
	parts := []string{a.Name, a.Input, a.Outcome}
	for _, q := range a.Questions {
		parts = append(parts, q.Text)
	}
	parts = append(append(parts, a.Answers...), a.By, a.Reason)
	return joinTexts(parts...)
}

// usageText tells the tokens and the money that were measured.
func usageText(u trace.Usage) string {
	var parts []string
	for _, n := range []struct {
		what  string
		count *int64
	}{{"input", u.Input}, {"cache read", u.CacheRead}, {"cache write", u.CacheWrite}, {"output", u.Output}} {
		if n.count != nil {
			parts = append(parts, fmt.Sprintf("%d %s", *n.count, n.what))
		}
	}
	if u.CostUSD != nil {
		parts = append(parts, fmt.Sprintf("$%.4f", *u.CostUSD))
	}
	return strings.Join(parts, ", ")
}

// callText tells a call of a model as the gateway saw it.
func callText(e trace.Event) string {
	text := fmt.Sprintf("%d %s %s", e.Call.Ordinal, e.Call.Lane, e.Call.Model)
	if e.Call.HTTP != 0 && e.Call.HTTP != 200 {
		text += fmt.Sprintf(" HTTP %d", e.Call.HTTP)
	}
	if e.Usage != nil {
		text = strings.TrimSpace(text + " " + usageText(*e.Usage))
	}
	return text + " " + seconds(e.Call.Took)
}
