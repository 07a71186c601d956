package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
	"github.com/spf13/cobra"
)

func newTrace(x IO) *cobra.Command {
	var atif bool
	cmd := &cobra.Command{
		Use:   "trace DIR CELL | FILE",
		Short: "print what an agent did in one cell, for a person to read",
		Long: `Print the trace of a cell. CELL is the beginning of its key, or its case, arm and trial as in
"timezone/claude/claude-opus-5/with_skill/1".

--atif prints it as a document of the Agent Trajectory Interchange Format instead, with what the
format has no place for in its extra objects. FILE is such a document, of any program.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && atif:
				return usage(errors.New("--atif prints a cell; name the folder of the results and the cell"))
			case len(args) == 1:
				return showATIF(x.Out, args[0])
			case atif:
				return writeATIF(x.Out, args[0], args[1])
			}
			return showCell(x.Out, args[0], args[1])
		},
	}
	cmd.Flags().BoolVar(&atif, "atif", false, "print the cell as a document of ATIF, version 1.8")
	return cmd
}

// showCell prints the trace of a cell of the results in dir.
func showCell(w io.Writer, dir, id string) error {
	_, f, err := openTrace(dir, id)
	if err != nil {
		return err
	}
	defer f.Close()
	for e, err := range trace.Read(f) {
		if err != nil {
			fmt.Fprintf(w, "         (unreadable line: %v)\n", err)
			continue
		}
		showEvent(w, e)
	}
	return nil
}

// writeATIF prints the trace of a cell of the results in dir as an ATIF document. Its totals are the official ones, and its
// steps have no timestamps: the ledger holds when the cell began, not when its agent did.
func writeATIF(w io.Writer, dir, id string) error {
	c, f, err := openTrace(dir, id)
	if err != nil {
		return err
	}
	defer f.Close()
	about := trace.About{Session: fmt.Sprintf("%s/%s/%d", c.Case, c.Arm(), c.Trial)}
	for r, err := range result.Read(dir, []plan.Cell{c}) {
		if err != nil {
			return unmeasured(err)
		}
		about.Usage = r.Agent.Usage
	}
	return trace.WriteATIF(w, trace.Read(f), about)
}

// showATIF prints a document of ATIF as a trace.
func showATIF(w io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return usage(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return usage(fmt.Errorf("%s is a folder; name one of its cells too, as assay plan lists them", name))
	}
	events, err := trace.ReadATIF(f)
	if err != nil {
		return usage(fmt.Errorf("%s: %w", name, err))
	}
	for _, e := range events {
		showEvent(w, e)
	}
	return nil
}

// openTrace opens the trace of a cell of the results in dir.
func openTrace(dir, id string) (plan.Cell, *os.File, error) {
	m, err := manifestOf(dir)
	if err != nil {
		return plan.Cell{}, nil, usage(err)
	}
	c, err := findCell(m.Cells, id)
	if err != nil {
		return c, nil, usage(err)
	}
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(result.Dir(c)), "trace.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s has no trace: it was not run", cellName(c))
	}
	if err != nil {
		return c, nil, usage(err)
	}
	return c, f, nil
}

func showEvent(w io.Writer, e trace.Event) {
	fmt.Fprintf(w, "%8.3fs %-18s %s\n", e.At.Seconds(), e.Kind, printable(eventText(e), 400))
}

// findCell finds the one cell that id names.
func findCell(cells []plan.Cell, id string) (plan.Cell, error) {
	matches := slices.DeleteFunc(slices.Clone(cells), func(c plan.Cell) bool {
		name := fmt.Sprintf("%s/%s/%d", c.Case, c.Arm(), c.Trial)
		return name != id && (len(id) < 4 || !strings.HasPrefix(c.Key, id))
	})
	switch len(matches) {
	case 1:
		return matches[0], nil
	case 0:
		return plan.Cell{}, fmt.Errorf("no cell is called %q; assay plan lists the keys", id)
	}
	return plan.Cell{}, fmt.Errorf("%d cells begin with %q; give more of the key", len(matches), id)
}

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
	case e.Usage != nil:
		return usageText(*e.Usage)
	case e.Ask != nil:
		return askText(*e.Ask)
	}
	return e.Text
}

// sessionText tells which agent it was and which model it worked with.
func sessionText(s trace.Session) string {
	parts := []string{s.Harness, s.Agent, s.Version, cmp.Or(s.Model, s.ModelReported)}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " ")
}

// askText tells what was asked, or what the answer was and who gave it.
func askText(a trace.Ask) string {
	parts := []string{a.Name, a.Input, a.Outcome}
	for _, q := range a.Questions {
		parts = append(parts, q.Text)
	}
	parts = append(append(parts, a.Answers...), a.By, a.Reason)
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
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
