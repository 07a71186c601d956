// Package cli is the face of the program: it turns flags into one options struct, wires the rooms together, shows
// progress, and turns what came back into an exit code. A new command is one file here and one row in the list of
// commands below.
//
// Everything of the outside world (streams, environment, clock, working directory) enters here and goes down as values.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/redact"
	"github.com/assay-ci/assay/internal/run"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/spf13/cobra"
)

// The exit codes of every command.
const (
	ExitOK          = 0   // passed, or nothing to object to
	ExitGate        = 1   // the gate says no
	ExitUsage       = 2   // bad flags, a faulty suite, unreadable input
	ExitUnmeasured  = 3   // could not be measured: infrastructure, coverage
	ExitInterrupted = 130 // stopped by a signal
)

// IO is the outside world of one call.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
	Env      []string // NAME=value
}

// getenv looks a name up in the environment of the call.
func (x IO) getenv(name string) string {
	for _, kv := range x.Env {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v
		}
	}
	return ""
}

// exit carries an exit code through the command tree; err may be nil when everything has been said.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// usage marks an error as the caller's: exit 2.
func usage(err error) error { return &exit{ExitUsage, err} }

// unmeasured marks an error as ours or the machine's: exit 3.
func unmeasured(err error) error { return &exit{ExitUnmeasured, err} }

// Main runs one command line and returns its exit code.
func Main(ctx context.Context, args []string, x IO) int {
	switch { // first, and alone: these paths are taken once for every command of a cell, and for every place
	case len(args) > 0 && args[0] == executor.SuperviseName:
		return executor.Supervise(args[1:])
	case len(args) > 0 && args[0] == executor.RelayName:
		return executor.Relay(args[1:])
	}
	if err := executor.Harden(); err != nil {
		fmt.Fprintf(x.Err, "assay: warning: agents could read our memory or our environment: %v\n", err)
	}
	switch {
	case isAction(args, x):
		return actionMain(ctx, x)
	case len(args) == 1 && args[0] == stepName && x.getenv("INPUT_MODE") != "":
		return stepMain(ctx, x)
	}
	root := newRoot(x)
	root.SetArgs(args)
	root.SetIn(x.In)
	root.SetOut(x.Out)
	root.SetErr(x.Err)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	code, hint := ExitUsage, "see "+cmd.CommandPath()+" --help\n" // an error of cobra's: coded marks all others
	var ended *exit
	if errors.As(err, &ended) {
		code, hint = ended.code, ""
	}
	secrets := redact.New(x.secrets(nil))
	var problems suite.Problems
	switch {
	case errors.Is(err, run.ErrInterrupted):
		fmt.Fprintln(x.Err, "assay: interrupted; what was finished is kept, run the same command again to go on")
	case errors.As(err, &problems):
		fmt.Fprintf(x.Err, "%s\n%s\n", unobeyed(secrets.String(problems.Error())), plural(len(problems), "fault"))
	case err.Error() != "":
		fmt.Fprintf(x.Err, "assay: %s\n%s", unobeyed(secrets.String(strings.TrimSpace(err.Error()))), hint)
	}
	return code
}

// newRoot builds the command tree.
func newRoot(x IO) *cobra.Command {
	root := &cobra.Command{
		Use:   "assay",
		Short: "Regression tests for coding agents",
		Long: `Assay runs your cases against real agents with everything held constant except the one
thing under test, grades what the agents did, measures how large each change was, and says
better, worse or no evidence.

Exit codes: 0 passed, 1 the gate says no, 2 bad usage or a faulty suite, 3 could not be
measured, 130 interrupted.`,
		Example: `assay init evals
assay check evals
assay run evals
assay trace assay-results greeting/scripted/none/with_hint/1
assay run evals --help`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		newRun(x),
		newCheck(x),
		newPlan(x),
		newDiff(x),
		newGrade(x),
		newMerge(x),
		newGate(x),
		newCompare(x),
		newHistory(x),
		newReport(x),
		newExport(x),
		newPublish(x),
		newTrace(x),
		newInit(x),
		newExplain(x),
		newSchema(x),
		newVersion(x),
	)
	for _, c := range root.Commands() {
		c.RunE = coded(c.RunE)
	}
	complete(root)
	return root
}

// coded gives each error of a command an exit code; one that has none is ours. What comes out of the command tree without
// a code is cobra's own then: an unknown command, an unknown flag, wrong arguments.
func coded(command func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := command(cmd, args)
		var has *exit
		switch {
		case err == nil, errors.As(err, &has):
			return err
		case errors.Is(err, run.ErrInterrupted):
			return &exit{ExitInterrupted, err}
		}
		return unmeasured(err)
	}
}

func newVersion(x IO) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "print the version",
		Example: `assay version`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(x.Out, "assay "+version())
			return err
		},
	}
}

// release is the version of a release; only the linker sets it.
var release string

// version is what the build says of itself: the release, the module's version, or the commit it was built from.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
