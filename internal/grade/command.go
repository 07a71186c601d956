package grade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/result"
)

type commandParams struct {
	Run          string            `yaml:"run" doc:"shell line, run by sh -c in the grading place"`
	Argv         []string          `yaml:"argv" doc:"program and arguments, run as they are; instead of run"`
	Timeout      time.Duration     `yaml:"timeout" doc:"a command that takes longer did not pass" default:"10m" rule:"above=0s"`
	ExpectExit   int               `yaml:"expect_exit" doc:"exit code that passes" default:"0" rule:"min=0,max=255"`
	ExpectStdout string            `yaml:"expect_stdout" doc:"RE2 that the first 1 MiB of standard output must match as well" rule:"regex"`
	Env          map[string]string `yaml:"env" doc:"environment variables, added to those of the case" rule:"env"`
}

// maxStdout is how many bytes of standard output expect_stdout sees.
const maxStdout = 1 << 20

// command grades by the exit code of a command. What it prints decides nothing, unless expect_stdout asks for it: a text
// such as "5 passed" costs an agent nothing to print.
type command struct {
	argv    []string
	line    string // as the case wrote it
	timeout time.Duration
	exit    int
	stdout  *regexp.Regexp // nil: standard output does not matter
	env     map[string]string
}

var _ Grader = (*command)(nil)

func buildCommand(s Settings) (Grader, error) {
	var p commandParams
	if err := s.Decode(&p); err != nil {
		return nil, err
	}
	c, faults := newCommand(s, p)
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return c, nil
}

// newCommand checks what no rule of the parameters can say and returns every fault.
func newCommand(s Settings, p commandParams) (*command, []error) {
	c := &command{argv: p.Argv, line: strings.Join(p.Argv, " "), timeout: p.Timeout, exit: p.ExpectExit, env: p.Env}
	var faults []error
	switch {
	case p.Run != "" && p.Argv != nil:
		faults = append(faults, s.Fault("argv", "run and argv exclude each other", "keep one of them"))
	case p.Run != "":
		c.argv, c.line = []string{"sh", "-c", p.Run}, p.Run
	case len(p.Argv) == 0 || p.Argv[0] == "":
		faults = append(faults, s.Fault("argv", "no command: run or argv is needed", `for example run: "node --test"`))
	}
	if p.ExpectStdout != "" {
		re, err := regexp.Compile(p.ExpectStdout)
		if err != nil {
			faults = append(faults, s.Fault("expect_stdout", err.Error(), ""))
		}
		c.stdout = re
	}
	return c, faults
}

// text is what the assertion says.
func (c *command) text() string {
	text := fmt.Sprintf("%q exits %d", c.line, c.exit)
	if c.stdout != nil {
		text += fmt.Sprintf(" and prints /%s/", c.stdout)
	}
	return text
}

func (c *command) Grade(ctx context.Context, e Evidence) (result.Score, error) {
	ran, err := c.run(ctx, e, io.Discard)
	return score(c.text(), ran.passed, ran.evidence, err)
}

// ran is how a command ended, against what was asked of it.
type ran struct {
	passed    bool
	evidence  string
	truncated bool // it printed more than was passed on
}

// run runs the command to its end. Everything that it prints goes to the log of the assertion, standard output to tee as
// well.
func (c *command) run(ctx context.Context, e Evidence, tee io.Writer) (ran, error) {
	place, err := e.Place(ctx)
	if err != nil {
		return ran{}, fmt.Errorf("grading place: %w", err)
	}
	log := executor.NewLog(e.Log)
	out := &head{limit: maxStdout}
	exit, err := place.Run(ctx, executor.Command{
		Argv:    c.argv,
		Env:     environ(e.Env, c.env),
		Stdout:  io.MultiWriter(out, tee, log), // the log last: only it can fail
		Stderr:  log,
		Timeout: c.timeout,
	})
	if err := errors.Join(err, log.Close()); err != nil {
		return ran{}, fmt.Errorf("run %q: %w", c.line, err)
	}
	if exit.Cancelled || exit.TimedOut && ctx.Err() != nil {
		return ran{}, fmt.Errorf("run %q: %w", c.line, context.Cause(ctx))
	}
	if len(exit.Survivors) > 0 {
		return ran{}, fmt.Errorf("run %q: processes could not be ended: %s", c.line, showAll(exit.Survivors, len(exit.Survivors)))
	}
	if exit.Code == 127 && c.exit != 127 {
		if err := c.lookup(ctx, place, e); err != nil {
			return ran{}, err
		}
	}
	passed, evidence := c.judge(exit, out)
	return ran{passed, evidence, exit.Truncated}, nil
}

// judge compares how the command ended with what was asked.
func (c *command) judge(exit executor.Exit, out *head) (passed bool, evidence string) {
	switch {
	case exit.TimedOut:
		return false, fmt.Sprintf("did not end within %s", c.timeout)
	case exit.OOM:
		return false, "ran out of memory"
	case exit.Signal != "":
		return false, "ended by " + exit.Signal
	case exit.Code == 127 && c.exit != 127:
		return false, fmt.Sprintf("exits 127, wanted %d (a program was not found; name it in the tools of the case if it is yours)", c.exit)
	case exit.Code != c.exit:
		return false, fmt.Sprintf("exits %d, wanted %d", exit.Code, c.exit)
	case c.stdout == nil:
		return true, fmt.Sprintf("exits %d", exit.Code)
	case c.stdout.Match(out.kept):
		return true, fmt.Sprintf("exits %d; standard output matches", exit.Code)
	case exit.Out > int64(len(out.kept)):
		return false, fmt.Sprintf("exits %d; the first 1 MiB of standard output does not match", exit.Code)
	default:
		return false, fmt.Sprintf("exits %d; standard output does not match", exit.Code)
	}
}

// lookup tells an absent program from one that ended with 127 itself. Only a bare name is ours to provide: a path such
// as ./gradlew is part of the agent's tree, and what a shell line names may be either.
func (c *command) lookup(ctx context.Context, place executor.Executor, e Evidence) error {
	name := c.argv[0]
	if strings.Contains(name, "/") {
		return nil
	}
	exit, err := place.Run(ctx, executor.Command{
		Argv:    []string{"sh", "-c", `command -v -- "$1"`, "sh", name},
		Env:     environ(e.Env, c.env),
		Timeout: time.Minute,
	})
	if err != nil {
		return fmt.Errorf("look for %q: %w", name, err)
	}
	if exit.Code != 0 {
		return fmt.Errorf("the grading place has no program %q; install it, or build it in the environment of the case", name)
	}
	return nil
}

// environ merges the case's environment and an assertion's, which wins; sorted by name.
func environ(base []string, own map[string]string) []string {
	merged := make(map[string]string, len(base)+len(own))
	for _, pair := range base {
		name, value, _ := strings.Cut(pair, "=")
		merged[name] = value
	}
	maps.Copy(merged, own)
	pairs := make([]string, 0, len(merged))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		pairs = append(pairs, name+"="+merged[name])
	}
	return pairs
}

// head keeps the first bytes of what is written to it.
type head struct {
	limit int
	kept  []byte
}

func (h *head) Write(p []byte) (int, error) {
	h.kept = append(h.kept, p[:min(len(p), h.limit-len(h.kept))]...)
	return len(p), nil
}
