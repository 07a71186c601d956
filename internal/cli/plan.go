package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/spf13/cobra"
)

func newPlan(x IO) *cobra.Command {
	var o runOptions
	var shards string
	var results string
	var asJSON, asMatrix, power bool
	cmd := &cobra.Command{
		Use:   "plan [SUITE]",
		Short: "list the cells that a run would hold, in their order",
		Example: `assay plan evals
assay plan evals --condition with_hint --json
assay plan evals --github-matrix --shards 2`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Suite = suiteArg(args)
			w, err := openWork(cmd.Context(), x, o.work())
			if err != nil {
				return err
			}
			defer w.close()
			if err := w.needPlaces(); err != nil {
				return err // what the executor is, is part of each cell's key
			}
			switch {
			case power && asMatrix:
				return usage(errors.New("--power and --github-matrix print two different things; give one of them"))
			case power:
				return w.printPower(x, results, cmd.Flags().Changed("results"), asJSON)
			case asJSON && asMatrix:
				return usage(errors.New("--json and --github-matrix print two different things; give one of them"))
			case asJSON:
				return printJSON(x, w.plan)
			case asMatrix:
				m, err := matrixOf(w.plan.Cells, shards)
				if err != nil {
					return err
				}
				return json.NewEncoder(x.Out).Encode(m)
			}
			for _, c := range w.plan.Cells {
				fmt.Fprintf(x.Out, "%.8s  %s\n", c.Key, cellName(c))
			}
			fmt.Fprintf(x.Out, "%s, seed %s\n", plural(len(w.plan.Cells), "cell"), w.plan.Seed)
			return nil
		},
	}
	selectionFlags(cmd, &o.Select)
	baseFlag(cmd, &o.Base)
	baselineFlag(cmd, &o.Baseline)
	trustFlag(cmd, &o.Trust)
	shardsFlag(cmd, &shards)
	cmd.Flags().BoolVar(&power, "power", false, "print what the plan could find and what that takes, instead of its cells")
	cmd.Flags().StringVar(&results, "results", "assay-results", "`folder` of earlier results whose scatter --power goes by; without one it is assumed")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&asMatrix, "github-matrix", false, "print the jobs of a matrix of GitHub Actions as JSON, one a shard")
	return cmd
}

// writePlan expands the plan and writes its manifest into an empty results folder: what the shards' results are counted
// against.
func writePlan(ctx context.Context, x IO, o runOptions) ([]plan.Cell, error) {
	w, err := openWork(ctx, x, o.work())
	if err != nil {
		return nil, err
	}
	defer w.close()
	if err := w.needPlaces(); err != nil {
		return nil, err
	}
	if err := w.allows(o.Out); err != nil {
		return nil, err
	}
	l, err := result.Open(ctx, o.Out, time.Now)
	if err != nil {
		return nil, ledgerError(err)
	}
	defer l.Close()
	return w.plan.Cells, ledgerError(w.putManifest(l, o))
}

// shardsFlag declares over how many jobs a plan is spread.
func shardsFlag(cmd *cobra.Command, shards *string) {
	*shards = "auto"
	check := form(`^(auto|[1-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-6])$`, "auto or a number from 1 to 256")
	cmd.Flags().Var(&checked{shards, check}, "shards", "how many `jobs` to spread the plan over, 1 to 256; auto: one for every 12 cells, at most 32")
}

// A matrix is the value of strategy.matrix in a workflow. GitHub refuses one without jobs.
type matrix struct {
	Include []matrixJob `json:"include"`
}

// A matrixJob is one shard.
type matrixJob struct {
	Shard string `json:"shard"` // i/n, for --shard
	Cells int    `json:"cells"`
	Label string `json:"label"` // names some of its cases
}

// The shards of auto.
const (
	cellsOfShard = 12
	mostShards   = 32
)

// matrixOf spreads cells over shards. A case's cells stay together, so there are never more shards than cases, and none is
// empty.
func matrixOf(cells []plan.Cell, shards string) (matrix, error) {
	cases := map[string]bool{}
	for _, c := range cells {
		cases[c.Case] = true
	}
	n := min((len(cells)+cellsOfShard-1)/cellsOfShard, mostShards)
	if shards != "auto" {
		var err error
		if n, err = strconv.Atoi(shards); err != nil {
			return matrix{}, err
		}
	}
	n = min(n, len(cases))
	m := matrix{Include: []matrixJob{}}
	for i := 1; i <= n; i++ {
		shard := fmt.Sprintf("%d/%d", i, n)
		part, err := plan.Part(cells, shard)
		if err != nil {
			return matrix{}, err
		}
		m.Include = append(m.Include, matrixJob{shard, len(part), labelOf(part)})
	}
	return m, nil
}

// labelOf names the first cases of a shard by name, and how many more there are.
func labelOf(cells []plan.Cell) string {
	const most = 3
	var names []string
	for _, c := range cells {
		names = append(names, c.Case)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("+%d", more))
	}
	return strings.Join(names, " ")
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
