package cli

import (
	"fmt"
	"os"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/spf13/cobra"
)

func newDiff(x IO) *cobra.Command {
	var scope diffscope.Paths
	var asJSON, patch bool
	var references []string
	cmd := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "measure how large the change between two folders is",
		Long: `Count the files touched, the lines added and removed and the hunks between two folders, by the
same rules as in a run. Nothing in the folders is obeyed: no git configuration, attributes or
ignore rules. A smaller change is not better by itself.

On a terminal the patch follows the table, and neither shows anything that would act on the
terminal. NO_COLOR and TERM=dumb turn colors off. --patch into a file or a pipe writes the exact
bytes that git apply takes.

The exit code is 0 whatever the size, 2 for bad usage and for what is not a folder, and 3 when
a folder could not be measured.`,
		Example: `assay diff evals/greeting/fixture evals/greeting/hidden
assay diff evals/greeting/fixture evals/greeting/hidden --json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkGlobs(scope); err != nil {
				return usage(err)
			}
			for _, name := range args {
				if info, err := os.Stat(name); err != nil {
					return usage(err)
				} else if !info.IsDir() {
					return usage(fmt.Errorf("%s is not a folder", name))
				}
			}
			before, err := diffscope.Snapshot(cmd.Context(), args[0])
			if err != nil {
				return unmeasured(fmt.Errorf("%s: %w", args[0], err))
			}
			after, err := before.Again(cmd.Context(), args[1])
			if err != nil {
				return unmeasured(fmt.Errorf("%s: %w", args[1], err))
			}
			p, s, err := diffscope.Compare(before, after, scope)
			if err != nil {
				return unmeasured(err)
			}
			if patch {
				return printPatch(x, p)
			}
			if s.Reference, err = againstReferences(before, s, scope, references); err != nil {
				return err
			}
			facts, err := diffscope.Inspect(cmd.Context(), before, after, p)
			if err != nil {
				return unmeasured(err)
			}
			s.Facts = &facts
			if asJSON {
				return printJSON(x, s)
			}
			return newFace(screenOf(x)).show(s, p)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&scope.Files, "files", nil, "`glob` that is in scope; repeatable. Created files always are (default: everything)")
	f.StringArrayVar(&scope.Ignore, "ignore", nil, "`glob` of created files that do not count; repeatable")
	f.StringArrayVar(&references, "reference", nil, "`patch` that is known to be right, to compare the size with; of several, the one that is exceeded least")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&patch, "patch", false, "print the patch and nothing else")
	cmd.MarkFlagsMutuallyExclusive("json", "patch")
	cmd.MarkFlagsMutuallyExclusive("reference", "patch")
	return cmd
}

// checkGlobs finds a glob that is none before the folders are read. Between two empty trees nothing else can go wrong.
func checkGlobs(scope diffscope.Paths) error {
	_, _, err := diffscope.Compare(diffscope.Tree{}, diffscope.Tree{}, scope)
	return err
}

// printPatch writes a patch to be applied, or to be read where a person reads it.
func printPatch(x IO, p diffscope.Patch) error {
	s := screenOf(x)
	if !s.isTerminal {
		_, err := p.WriteTo(x.Out)
		return err
	}
	f := newFace(s)
	if err := f.patch(p, 0); err != nil {
		return err
	}
	return f.out.Flush()
}
