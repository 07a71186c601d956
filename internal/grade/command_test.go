package grade

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/executor"
)

func TestCommandJudgesTheExit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		params   commandParams
		exit     executor.Exit
		stdout   string
		passed   bool
		evidence string
	}{
		{"right code", commandParams{Run: "x"}, executor.Exit{}, "", true, "exits 0"},
		{"wrong code", commandParams{Run: "x"}, executor.Exit{Code: 1}, "5 passed\n", false, "exits 1, wanted 0"},
		{"other code wanted", commandParams{Run: "x", ExpectExit: 3}, executor.Exit{Code: 3}, "", true, "exits 3"},
		{"other code missed", commandParams{Run: "x", ExpectExit: 3}, executor.Exit{}, "", false, "exits 0, wanted 3"},
		{"timeout", commandParams{Run: "x"}, executor.Exit{TimedOut: true}, "", false, "did not end within 10m0s"},
		{"timeout that ended with the code", commandParams{Run: "x", Timeout: time.Second}, executor.Exit{TimedOut: true, Code: 0}, "", false, "did not end within 1s"},
		{"signal", commandParams{Run: "x"}, executor.Exit{Code: -1, Signal: "SIGSEGV"}, "", false, "ended by SIGSEGV"},
		{"memory", commandParams{Run: "x"}, executor.Exit{Code: -1, Signal: "SIGKILL", OOM: true}, "", false, "ran out of memory"},
		{"output matches", commandParams{Run: "x", ExpectStdout: "^ok$"}, executor.Exit{}, "ok", true, "exits 0; standard output matches"},
		{"output does not match", commandParams{Run: "x", ExpectStdout: "^ok$"}, executor.Exit{}, "okay", false, "exits 0; standard output does not match"},
		{"output matches, code wrong", commandParams{Run: "x", ExpectStdout: "ok"}, executor.Exit{Code: 1}, "ok", false, "exits 1, wanted 0"},
		{"match after the first MiB", commandParams{Run: "x", ExpectStdout: "ok"}, executor.Exit{}, strings.Repeat("-", maxStdout) + "ok", false,
			"exits 0; the first 1 MiB of standard output does not match"},
		{"a shell line that found no program", commandParams{Run: "x"}, executor.Exit{Code: 127}, "", false,
			"exits 127, wanted 0 (a program was not found; name it in the tools of the case if it is yours)"},
		{"127 wanted", commandParams{Argv: []string{"x"}, ExpectExit: 127}, executor.Exit{Code: 127}, "", true, "exits 127"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			place := exits(tt.exit, tt.stdout)
			if tt.exit.Code == 127 { // the program that is looked for is there
				run := place.run
				place.run = func(ctx context.Context, c executor.Command) (executor.Exit, error) {
					if c.Stdout == nil {
						return executor.Exit{}, nil
					}
					return run(ctx, c)
				}
			}
			check(t, build(t, tt.params), Evidence{Place: at(place)}, tt.passed, tt.evidence)
		})
	}
}

func TestCommandErrorsAreOurs(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the run was interrupted"))
	for _, tt := range []struct {
		name string
		ctx  context.Context
		exit executor.Exit
		err  error
		want string
	}{
		{"no fork", t.Context(), executor.Exit{}, errors.New("no fork"), `run "x y": no fork`},
		{"cancelled", cancelled, executor.Exit{Cancelled: true}, nil, `run "x y": the run was interrupted`},
		{"our deadline, not the command's", cancelled, executor.Exit{TimedOut: true}, nil, `run "x y": the run was interrupted`},
		{"survivor", t.Context(), executor.Exit{Survivors: []string{"sleep 9\n"}}, nil, `run "x y": processes could not be ended: "sleep 9\n"`},
		{"absent program", t.Context(), executor.Exit{Code: 127}, nil, `the grading place has no program "x"; install it, or build it in the environment of the case`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			place := fakePlace{run: func(context.Context, executor.Command) (executor.Exit, error) { return tt.exit, tt.err }}
			g := build(t, commandParams{Argv: []string{"x", "y"}})
			s, err := g.Grade(tt.ctx, Evidence{Place: at(place), Log: io.Discard})
			if err == nil || err.Error() != tt.want {
				t.Errorf("error %v, want %s", err, tt.want)
			}
			if s.Passed != nil || s.Text != `"x y" exits 0` {
				t.Errorf("score %+v", s)
			}
		})
	}
}

func TestCommandOfTheTreeMayBeAbsent(t *testing.T) {
	t.Parallel()
	g := build(t, commandParams{Argv: []string{"./gradlew"}})
	check(t, g, Evidence{Place: at(exits(executor.Exit{Code: 127}, ""))}, false,
		"exits 127, wanted 0 (a program was not found; name it in the tools of the case if it is yours)")
}

func TestCommandIsRunAsAsked(t *testing.T) {
	t.Parallel()
	var got executor.Command
	place := fakePlace{run: func(_ context.Context, c executor.Command) (executor.Exit, error) {
		got = c
		return executor.Exit{}, nil
	}}
	g := build(t, commandParams{Run: "a && b", Timeout: time.Minute, Env: map[string]string{"B": "own", "C": "x=y"}})
	check(t, g, Evidence{Place: at(place), Env: []string{"B=base", "A=1"}}, true, "exits 0")
	got.Stdout, got.Stderr = nil, nil
	want := executor.Command{Argv: []string{"sh", "-c", "a && b"}, Timeout: time.Minute, Env: []string{"A=1", "B=own", "C=x=y"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCommandFullDiskIsOurs(t *testing.T) {
	t.Parallel()
	g := build(t, commandParams{Run: "x"})
	place := fakePlace{run: func(_ context.Context, c executor.Command) (executor.Exit, error) {
		io.WriteString(c.Stdout, "output")
		return executor.Exit{}, nil
	}}
	checkError(t, g, Evidence{Place: at(place), Log: fullDisk{}}, "no space left")
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// The rest runs real processes.

func TestA05CommandOutputIsBounded(t *testing.T) {
	size := "1073741824"
	if testing.Short() {
		size = "67108864"
	}
	place, _ := hostPlace(t, nil)
	var log bytes.Buffer
	g := build(t, commandParams{Run: "head -c " + size + " /dev/zero; exit 3", ExpectExit: 3})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	check(t, g, Evidence{Place: at(place), Log: &log}, true, "exits 3")
	runtime.ReadMemStats(&after)
	if log.Len() > 9<<20 {
		t.Errorf("the log holds %d bytes", log.Len())
	}
	if grown := int64(after.Sys) - int64(before.Sys); grown > 100<<20 {
		t.Errorf("memory grew by %d bytes", grown)
	}
}

func TestCommandThatHangsDidNotPass(t *testing.T) {
	t.Parallel()
	place, _ := hostPlace(t, nil)
	start := time.Now()
	g := build(t, commandParams{Run: "echo all tests passed; sleep 60 & sleep 60", Timeout: 300 * time.Millisecond})
	check(t, g, Evidence{Place: at(place)}, false, "did not end within 300ms")
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestCommandLogHoldsBothStreams(t *testing.T) {
	t.Parallel()
	place, _ := hostPlace(t, nil)
	var log bytes.Buffer
	g := build(t, commandParams{Run: `echo out; echo err >&2; printf '\377'`})
	check(t, g, Evidence{Place: at(place), Log: &log}, true, "exits 0")
	for _, want := range []string{"out\n", "err\n", "\xff"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log %q lacks %q", log.String(), want)
		}
	}
}

func TestCommandTellsAbsentFromEnding127(t *testing.T) {
	t.Parallel()
	place, work := hostPlace(t, nil)
	checkError(t, build(t, commandParams{Argv: []string{"no-such-program-of-assay"}}), Evidence{Place: at(place)}, `no program "no-such-program-of-assay"`)
	if err := os.WriteFile(work+"/ends", []byte("#!/bin/sh\nexit 127\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	const evidence = "exits 127, wanted 0 (a program was not found; name it in the tools of the case if it is yours)"
	ends := commandParams{Argv: []string{"ends"}, Env: map[string]string{"PATH": work + ":/usr/bin:/bin"}}
	check(t, build(t, ends), Evidence{Place: at(place)}, false, evidence)
	check(t, build(t, commandParams{Run: "no-such-program-of-assay"}), Evidence{Place: at(place)}, false, evidence)
	check(t, build(t, commandParams{Argv: []string{"./deleted-by-the-agent"}}), Evidence{Place: at(place)}, false, evidence)
}
