package cli

import (
	"time"

	"github.com/assay-ci/assay/internal/redact"
	"github.com/assay-ci/assay/internal/result"
	"github.com/spf13/cobra"
)

func newMerge(x IO) *cobra.Command {
	var o gateOptions
	var baseline string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "merge OUT DIR...",
		Short: "join the results of shards into one folder, and write every report",
		Long: `Join the results folders of the shards of one plan. A planned cell that no folder holds becomes
skipped (shard_lost): it is listed, and never makes the benchmark smaller. benchmark.json records
the decision of the gate; where flags change what the plan says of it, it is post hoc.`,
		Example: `assay merge joined part-1 part-2`,
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, dir := range args[1:] {
				if _, err := manifestOf(dir); err != nil {
					return usage(err)
				}
			}
			l, err := result.Open(cmd.Context(), args[0], time.Now)
			if err != nil {
				return ledgerError(err)
			}
			defer l.Close()
			l.Redact(redact.New(x.secrets(nil)))
			if err := result.Merge(l, args[1:]); err != nil {
				return usage(err)
			}
			b, err := benchmarkOf(l.Dir())
			if err != nil {
				return ledgerError(err)
			}
			if b, err = decideAgain(b, o, baseline); err != nil {
				return usage(err)
			}
			if err := writePages(l, b); err != nil {
				return ledgerError(err)
			}
			return announce(x, runOptions{Out: args[0], JSON: asJSON}, b)
		},
	}
	gateFlags(cmd, &o)
	storedFlag(cmd, &baseline)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print benchmark.json on standard output")
	return cmd
}
