package cli

import (
	"fmt"
	"os"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
)

func newDiff(x IO) *cobra.Command {
	var scope diffscope.Paths
	var asJSON, patch bool
	cmd := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "measure how large the change between two folders is",
		Long: `Count the files touched, the lines added and removed and the hunks between two folders, by the
same rules as in a run. Nothing in the folders is obeyed: no git configuration, attributes or
ignore rules. A smaller change is not better by itself.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var trees [2]diffscope.Tree
			for i, name := range args {
				if info, err := os.Stat(name); err != nil {
					return usage(err)
				} else if !info.IsDir() {
					return usage(fmt.Errorf("%s is not a folder", name))
				}
				tree, err := diffscope.Snapshot(cmd.Context(), name)
				if err != nil {
					return unmeasured(fmt.Errorf("%s: %w", name, err))
				}
				trees[i] = tree
			}
			p, s, err := diffscope.Compare(trees[0], trees[1], scope)
			if err != nil {
				return unmeasured(err)
			}
			switch {
			case asJSON:
				return printJSON(x, s)
			case patch:
				_, err := p.WriteTo(x.Out)
				return err
			}
			printScope(x, s)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&scope.Files, "files", nil, "`globs` that are in scope; created files always are (default: everything)")
	f.StringSliceVar(&scope.Ignore, "ignore", nil, "`globs` of created files that do not count")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&patch, "patch", false, "print the patch")
	cmd.MarkFlagsMutuallyExclusive("json", "patch")
	return cmd
}

func printScope(x IO, s diffscope.Scope) {
	if s.NoChange {
		fmt.Fprintln(x.Out, "no change")
		return
	}
	t := table.NewWriter()
	t.SetOutputMirror(x.Out)
	t.SetStyle(table.StyleLight)
	t.Style().Options.DrawBorder = false
	t.Style().Options.SeparateColumns = false
	t.AppendHeader(table.Row{"file", "", "added", "removed", "hunks"})
	rows := func(list []diffscope.Row, mark string) {
		for _, r := range list {
			t.AppendRow(table.Row{printable(r.Path, 100), r.Status + mark, count(r.LinesAdded), count(r.LinesRemoved), count(r.Hunks)})
		}
	}
	rows(s.Files, "")
	t.AppendSeparator()
	total := plural(s.FilesTouched, "file")
	if s.Approximate {
		total += ", approximate"
	}
	t.AppendRow(table.Row{total, "", s.LinesAdded, s.LinesRemoved, s.Hunks})
	if s.Outside.FilesTouched > 0 {
		t.AppendSeparator()
		rows(s.Outside.Files, ", out of scope")
	}
	t.Render()
}

// count prints a number that may not have been measured.
func count(n *int) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}
