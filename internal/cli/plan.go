package cli

import (
	"encoding/json"
	"fmt"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/spf13/cobra"
)

func newPlan(x IO) *cobra.Command {
	var sel plan.Selection
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "plan [SUITE]",
		Short: "list the cells that a run would hold, in their order",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := openWork(cmd.Context(), x, suiteArg(args), sel, nil)
			if err != nil {
				return err
			}
			defer w.close()
			if asJSON {
				return printJSON(x, w.plan)
			}
			for _, c := range w.plan.Cells {
				fmt.Fprintf(x.Out, "%.8s  %s\n", c.Key, cellName(c))
			}
			fmt.Fprintf(x.Out, "%s, seed %s\n", plural(len(w.plan.Cells), "cell"), w.plan.Seed)
			return nil
		},
	}
	selectionFlags(cmd, &sel)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func suiteArg(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return "evals"
}

func printJSON(x IO, v any) error {
	enc := json.NewEncoder(x.Out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
