package cli

import (
	"errors"
	"fmt"
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
	return &cobra.Command{
		Use:   "trace DIR CELL",
		Short: "print what an agent did in one cell, for a person to read",
		Long: `Print the trace of a cell. CELL is the beginning of its key, or its case, arm and trial as in
"timezone/claude/claude-opus-5/with_skill/1".`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			m, err := manifestOf(args[0])
			if err != nil {
				return usage(err)
			}
			c, err := findCell(m.Cells, args[1])
			if err != nil {
				return usage(err)
			}
			f, err := os.Open(filepath.Join(args[0], filepath.FromSlash(result.Dir(c)), "trace.jsonl"))
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("%s has no trace: it was not run", cellName(c))
			}
			if err != nil {
				return usage(err)
			}
			defer f.Close()
			for e, err := range trace.Read(f) {
				if err != nil {
					fmt.Fprintf(x.Out, "         (unreadable line: %v)\n", err)
					continue
				}
				fmt.Fprintf(x.Out, "%8.3fs %-18s %s\n", e.At.Seconds(), e.Kind, printable(eventText(e), 400))
			}
			return nil
		},
	}
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
		return strings.TrimSpace(e.Session.Harness + " " + e.Session.Model)
	case e.Usage != nil:
		return usageText(*e.Usage)
	case e.Ask != nil:
		return askText(*e.Ask)
	}
	return e.Text
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
