package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/report"
	"github.com/assay-ci/assay/internal/result"
	"github.com/spf13/cobra"
)

func newGate(x IO) *cobra.Command {
	var o gateOptions
	var baseline string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "gate DIR",
		Short: "say by the exit code whether the results in a folder may pass",
		Long: `Repeat the decision that benchmark.json of the folder records, as far as its results are those of
the ledger beside it; else decide by the ledger. A flag has the decision taken again, which is
then post hoc and said to be.`,
		Example: `assay gate assay-results
assay gate assay-results --fail-on regressed --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			b, err := resultsOf(x, args[0])
			if err != nil {
				return usage(err)
			}
			if b, err = decideAgain(b, o, baseline); err != nil {
				return usage(err)
			}
			if asJSON {
				if err := printJSON(x, gateSaid{b.Verdict, b.Reason, b.Gate, b.Metadata.PostHoc}); err != nil {
					return err
				}
				return gateExit(b)
			}
			fmt.Fprintln(x.Out, report.Headline(*b))
			if text := b.Gate.Changes(); text != "" {
				fmt.Fprintf(x.Out, "settings that are not as planned: %s\n", printable(text, 600))
			}
			for _, text := range b.Metadata.PostHoc {
				fmt.Fprintf(x.Out, "changed after results were there: %s\n", printable(text, 600))
			}
			fmt.Fprintf(x.Out, "gate: %s, by %s: %s\n", b.Gate.Result, printable(b.Gate.By, 64), printable(b.Gate.Text, 600))
			return gateExit(b)
		},
	}
	gateFlags(cmd, &o)
	storedFlag(cmd, &baseline)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print verdict, reason and gate as benchmark.json has them, and post_hoc")
	return cmd
}

// gateSaid is what assay gate --json prints.
type gateSaid struct {
	Verdict bench.Verdict  `json:"verdict"`
	Reason  bench.Reason   `json:"reason"`
	Gate    bench.Decision `json:"gate"`
	PostHoc []string       `json:"post_hoc"` // how the plan was changed after results of it were there
}

// gateExit turns the gate's decision into the exit code.
func gateExit(b *bench.Benchmark) error {
	if code := b.Gate.ExitCode; code != ExitOK {
		return &exit{code, nil}
	}
	return nil
}

// storedFlag declares the stored results to compare with.
func storedFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "baseline", "", "`path` of earlier results to compare with: a benchmark.json or a results folder")
}

// decideAgain compares with stored results and lays the caller's settings over those of the decision, where asked to.
func decideAgain(b *bench.Benchmark, o gateOptions, baseline string) (*bench.Benchmark, error) {
	out := *b
	if baseline != "" {
		stored, err := readStored(baseline)
		if err != nil {
			return nil, err
		}
		out = out.Against(stored)
	}
	if !o.given() {
		return &out, nil
	}
	settings, err := o.apply(out.Gate.Settings)
	if err != nil {
		return nil, err
	}
	out, err = out.Regate(settings)
	return &out, err
}

// readStored reads a benchmark.json or a results folder as a stored baseline. Of a folder the ledger counts, if it has one.
func readStored(name string) (bench.Stored, error) {
	b, err := readResults(name)
	if err != nil {
		return bench.Stored{}, fmt.Errorf("baseline: %w", err)
	}
	return bench.Stored{Benchmark: b, Origin: bench.Origin{Source: "file", SHA: b.Metadata.Commit, Created: b.Metadata.Timestamp}, MaxAge: maxBaselineAge}, nil
}

// maxBaselineAge is how much older than a run the baseline may be that it is compared with.
const maxBaselineAge = 14 * 24 * time.Hour

func readResults(name string) (*bench.Benchmark, error) {
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		return readBenchmark(filepath.Dir(name), filepath.Base(name))
	}
	b, err := benchmarkOf(name)
	var none noResults
	if errors.As(err, &none) {
		if recorded, unread := readBenchmark(name, benchmarkFile); !errors.Is(unread, fs.ErrNotExist) {
			return recorded, unread
		}
	}
	return b, err
}

// readMemory is from how many bytes on a command that reads results collects garbage more often than it costs least. The
// numbers of 100,000 cells are a quarter of a gigabyte, and twice that with the garbage of reading them.
const readMemory = 448 << 20

// resultsOf reads what a results folder or a benchmark.json says. A folder's own benchmark.json holds what its ledger
// cannot: the stored baseline and the decision. It is believed as far as its results are those of the ledger.
func resultsOf(x IO, name string) (*bench.Benchmark, error) {
	debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), readMemory))
	if _, err := os.Lstat(filepath.Join(name, benchmarkFile)); err != nil {
		return readResults(name) // it is a file, or there is nothing but the ledger
	}
	var recorded *bench.Benchmark
	var unread error
	var reading sync.WaitGroup
	reading.Go(func() { recorded, unread = readBenchmark(name, benchmarkFile) })
	counts, err := countsOf(name)
	reading.Wait()
	var none noResults
	switch {
	case errors.As(err, &none):
		return recorded, unread
	case err != nil:
		return nil, err
	case unread == nil && recorded.Of(counts):
		return recorded, nil
	case unread == nil:
		unread = fmt.Errorf("%s is of other results", filepath.Join(name, benchmarkFile))
	}
	fmt.Fprintf(x.Err, "assay: warning: %s; the ledger beside it decides\n", printable(unread.Error(), 600))
	return benchmarkOf(name)
}

const benchmarkFile = "benchmark.json"

// readBenchmark reads a benchmark.json of a folder.
func readBenchmark(dir, name string) (*bench.Benchmark, error) {
	f, err := openRegular(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := bench.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return &b, nil
}

// openRegular opens a regular file of a folder. It may come from elsewhere: nothing outside of the folder is reached by it,
// and a FIFO in its place is not waited for.
func openRegular(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", filepath.Join(dir, name)), f.Close())
	}
	return f, nil
}

// gateOptions are settings of the gate that come from the caller and beat those of the suite, whether they came as flags
// or as inputs of the action. What is nil stays as the suite says.
type gateOptions struct {
	MarginPP    *float64 // percentage points, 0 to 100
	MinCoverage *float64 // 0 to 1
	MinPassRate *float64 // 0 to 1
	FailOn      []string // of bench.FailOnWords, or none alone
}

// gateFlags declares the flags of the gate.
func gateFlags(cmd *cobra.Command, o *gateOptions) {
	f := cmd.Flags()
	f.Var(number{&o.MarginPP}, "margin-pp", "percentage points that a candidate may lose")
	f.Var(number{&o.MinCoverage}, "min-coverage", "share of planned cells that must be scored, 0 to 1")
	f.Var(number{&o.MinPassRate}, "min-pass-rate", "pass rate whose lower bound a candidate must reach, 0 to 1")
	f.StringSliceVar(&o.FailOn, "fail-on", nil, "`words` that the gate says no to: "+strings.Join(bench.FailOnWords, ", ")+"; or none")
}

// given tells whether anything was set.
func (o gateOptions) given() bool {
	return o.MarginPP != nil || o.MinCoverage != nil || o.MinPassRate != nil || o.FailOn != nil
}

// apply lays the options over the settings of a suite. An error names the flag that cannot be.
func (o gateOptions) apply(g result.Gate) (result.Gate, error) {
	for _, s := range []struct {
		flag string
		from *float64
		to   func(v *float64)
		most float64
	}{
		{"margin-pp", o.MarginPP, func(v *float64) { g.MarginPP = *v }, 100},
		{"min-coverage", o.MinCoverage, func(v *float64) { g.MinCoverage = *v }, 1},
		{"min-pass-rate", o.MinPassRate, func(v *float64) { g.MinPassRate = v }, 1},
	} {
		if s.from == nil {
			continue
		}
		if !(*s.from >= 0 && *s.from <= s.most) { // not a number is no setting
			return g, fmt.Errorf("--%s is %v; it may be from 0 to %v", s.flag, *s.from, s.most)
		}
		s.to(s.from)
	}
	if o.FailOn == nil {
		return g, nil
	}
	g.FailOn, g.Underpowered = []string{}, "warn" // the list says all of it
	for _, word := range o.FailOn {
		switch {
		case word == "none" && len(o.FailOn) == 1:
		case slices.Contains(bench.FailOnWords, word):
			g.FailOn = append(g.FailOn, word)
		default:
			return g, fmt.Errorf("--fail-on holds %q; it may hold %s, or be none", word, strings.Join(bench.FailOnWords, ", "))
		}
	}
	return g, nil
}

// number is a flag that knows whether it was given.
type number struct{ to **float64 }

func (n number) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return errors.New("not a number")
	}
	*n.to = &v
	return nil
}

func (n number) String() string {
	if n.to == nil || *n.to == nil {
		return ""
	}
	return strconv.FormatFloat(**n.to, 'g', -1, 64)
}

func (number) Type() string { return "number" }
