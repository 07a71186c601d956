package harness_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/responder"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/assay-ci/assay/internal/trace"
)

func script(t testing.TB, steps string) harness.Harness {
	t.Helper()
	return build(t, "script", "steps:\n"+steps)
}

const patch = `diff --git a/src/a.txt b/src/a.txt
--- a/src/a.txt
+++ b/src/a.txt
@@ -1,2 +1,2 @@
 one
-two
+2
diff --git a/new.txt b/new.txt
new file mode 100755
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+new
`

// TestScriptPlaysASession shows every kind of step once; the trace is the golden.
func TestScriptPlaysASession(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	p := newPlace(t, map[string]string{"src/a.txt": "one\ntwo\n", "old.txt": "x x\n", "gone.txt": ""})
	p.CaseDir = fstest.MapFS{"fix.patch": {Data: []byte(patch)}}
	o, events := p.drive(t, script(t, `
  - say: I will look at the code.
  - think: It is in a.txt.
  - read: src/a.txt
  - apply: fix.patch
  - write: {path: deep/er/b.txt, text: "b\n"}
  - edit: {path: old.txt, old: x, new: y, all: true}
  - edit: {path: src/a.txt, old: one, new: "1"}
  - move: {from: old.txt, to: sub/moved.txt}
  - delete: gone.txt
  - run: "echo out; echo $FOO >&2; pwd | sed 's/.*\\///'"
  - run: {argv: [sh, -c, "exit 3"]}
  - ask: {question: "Which one?", options: [first, second]}
  - permission: {tool: bash, input: rm -rf build}
  - usage: {input: 100, output: 20, cost_usd: 0.5}
  - usage: {input: 10, output: 2, cost_usd: 0.25, reasoning: 1}
  - {say: only in the second trial, only_trials: [2]}
  - sleep: 1ms
  - say: Done.
`))
	for name, want := range map[string]string{"src/a.txt": "1\n2\n", "new.txt": "new\n", "deep/er/b.txt": "b\n", "sub/moved.txt": "y y\n"} {
		if got, _ := p.file(t, name); got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"old.txt", "gone.txt"} {
		if _, there := p.file(t, name); there {
			t.Errorf("%s is still there", name)
		}
	}
	if o.Stop != trace.StopEndTurn || o.FinalText != "Done." || *o.Turns != 2 || !o.Answered || o.Exit != nil {
		t.Errorf("outcome %+v", o)
	}
	if *o.Usage.Input != 110 || *o.Usage.Output != 22 || *o.Usage.CostUSD != 0.75 || o.Usage.Reasoning != nil || o.Usage.CacheRead != nil {
		t.Errorf("usage %s", compact(t, o.Usage))
	}
	if got := p.log.String(); got != "out\nbar\nwork\n" {
		t.Errorf("agent.log is %q", got)
	}
	p.golden(t, "script", events)
}

func TestScriptGoesOnAfterAFailedStep(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"a.txt": "x x", "file": "", "bin": "\x00\xff"})
	if err := os.Symlink("/etc/passwd", filepath.Join(p.Work, "link")); err != nil {
		t.Fatal(err)
	}
	p.CaseDir = fstest.MapFS{"bad.patch": {Data: []byte(patch)}}
	o, events := p.drive(t, script(t, `
  - read: none.txt
  - read: link
  - read: bin
  - edit: {path: a.txt, old: y, new: z}
  - edit: {path: a.txt, old: x, new: z}
  - edit: {path: link, old: root, new: me}
  - edit: {path: none.txt, old: x, new: z}
  - write: {path: file/below, text: x}
  - delete: none.txt
  - move: {from: none.txt, to: b.txt}
  - move: {from: a.txt, to: file/b.txt}
  - apply: bad.patch
  - run: kill -KILL $$
  - run: {argv: [no-such-program]}
  - run: {run: "printf %s partial; exec sleep 60", timeout: 300ms}
  - say: Still here.
`))
	var got []string
	for _, r := range results(events) {
		exit := "none"
		if r.Exit != nil {
			exit = fmt.Sprint(*r.Exit)
		}
		first, _, _ := strings.Cut(r.Output, "\n")
		got = append(got, fmt.Sprintf("%s %s %s %.60s", r.Name, r.Status, exit, first))
	}
	for i, want := range []string{
		"read error none", "read error none", "read ok none \x00\xff",
		"edit error none a.txt does not hold the text to replace", "edit error none a.txt holds the text to replace 2 times, not once",
		"edit error none", "edit error none", "write error none", "delete error 1", "move error 1", "move error 1",
		"apply_patch error 1 error: src/a.txt: No such file", "bash error none", "bash error 127", "bash error none partial",
	} {
		if i >= len(got) || !strings.HasPrefix(got[i], want) {
			t.Errorf("result %d: %q does not begin with %q", i, got[min(i, len(got)-1)], want)
		}
	}
	if o.Stop != trace.StopEndTurn || o.FinalText != "Still here." {
		t.Errorf("outcome %+v", o)
	}
	if text, _ := p.file(t, "a.txt"); text != "x x" {
		t.Errorf("a.txt holds %q", text)
	}
}

func TestScriptKeepsPermissions(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"run.sh": "echo a", "new.sh": ""})
	for _, name := range []string{"run.sh", "new.sh"} {
		if err := os.Chmod(filepath.Join(p.Work, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.drive(t, script(t, `
  - edit: {path: run.sh, old: a, new: b}
  - write: {path: new.sh, text: echo c}
  - write: {path: made.txt, text: d}
`))
	for name, want := range map[string]fs.FileMode{"run.sh": 0o755, "new.sh": 0o755, "made.txt": 0o644} {
		if info, err := os.Stat(filepath.Join(p.Work, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestScriptAppliesAPatchInsideAnotherRepository(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	p := newPlace(t, map[string]string{"src/a.txt": "one\ntwo\n"})
	if out, err := exec.Command(git, "init", "-q", filepath.Dir(p.Work)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.CaseDir = fstest.MapFS{"fix.patch": {Data: []byte(patch)}}
	p.drive(t, script(t, "  - apply: ./fix.patch"))
	if got, _ := p.file(t, "src/a.txt"); got != "one\n2\n" {
		t.Errorf("a.txt holds %q", got)
	}
}

func TestScriptEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, steps string
		limits      harness.Limits
		want        harness.Outcome
		exit        int
	}{
		{"at the end of its list", "  - say: hi", harness.Limits{}, harness.Outcome{Stop: "end_turn", Answered: true, FinalText: "hi"}, -1},
		{"without a sign of work", "  - sleep: 1ms", harness.Limits{}, harness.Outcome{Stop: "end_turn"}, -1},
		{"by exit 0", "  - exit: 0\n  - say: no", harness.Limits{}, harness.Outcome{Stop: "end_turn"}, 0},
		{"by exit 7, which never passes", "  - say: all good\n  - exit: 7", harness.Limits{},
			harness.Outcome{Stop: "error", Class: "harness_crash", Detail: "exit 7", Answered: true, FinalText: "all good"}, 7},
		{"by refusal", "  - stop: refusal\n  - say: no", harness.Limits{}, harness.Outcome{Stop: "refusal", Detail: "the script says so"}, -1},
		{"at its turn limit", "  - say: one\n  - say: two\n  - say: three", harness.Limits{MaxTurns: 2},
			harness.Outcome{Stop: "max_turns", Detail: "turn limit of 2 reached", Answered: true, FinalText: "two"}, -1},
		{"just within its turn limit", "  - say: one\n  - say: two", harness.Limits{MaxTurns: 2}, harness.Outcome{Stop: "end_turn", Answered: true, FinalText: "two"}, -1},
		{"at its deadline, hanging", "  - hang: true\n  - say: no", harness.Limits{Timeout: 20 * time.Millisecond},
			harness.Outcome{Stop: "timeout", Detail: "time limit of 20ms reached"}, -1},
		{"at its deadline, in a command", "  - run: exec sleep 60\n  - say: no", harness.Limits{Timeout: 300 * time.Millisecond, Grace: time.Second},
			harness.Outcome{Stop: "timeout", Detail: "time limit of 300ms reached", Answered: true}, -1},
		{"at its output limit", "  - run: yes\n  - say: no", harness.Limits{MaxOutput: 1000, Timeout: time.Minute, Grace: time.Second},
			harness.Outcome{Stop: "cancelled", Detail: "output_limit: more than 1000 bytes", Answered: true}, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, nil)
			p.Limits = c.limits
			o, _ := p.drive(t, script(t, c.steps))
			switch {
			case o.Exit == nil && c.exit >= 0, o.Exit != nil && *o.Exit != c.exit:
				t.Errorf("exit is not %d: %v", c.exit, o.Exit)
			}
			if o.Turns == nil || *o.Turns != strings.Count(c.steps, "say")-strings.Count(c.steps, "say: no")-strings.Count(c.steps, "three") {
				t.Errorf("turns %v", o.Turns)
			}
			o.Turns, o.Exit, o.Swept = nil, nil, 0
			if diff := cmp.Diff(c.want, o); diff != "" {
				t.Error(diff)
			}
			if limit := c.limits.MaxOutput; limit > 0 && int64(p.log.Len()) != limit {
				t.Errorf("agent.log has %d bytes", p.log.Len())
			}
		})
	}
}

func TestScriptSleepsAndHangsOnTheClock(t *testing.T) {
	t.Parallel()
	h := script(t, "  - sleep: 2h\n  - hang: true")
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var last trace.Event
		task := harness.Task{Trial: 1, Limits: harness.Limits{Timeout: 5 * time.Hour}}
		o, err := h.Drive(t.Context(), task, func(e trace.Event) { last = e })
		if err != nil || o.Stop != trace.StopTimeout || last.Stop.By != "assay" || time.Since(began) != 5*time.Hour {
			t.Errorf("%+v, %v after %s", o, err, time.Since(began))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, cancel)
		o, err := h.Drive(ctx, harness.Task{Trial: 1}, func(trace.Event) {})
		if err != nil || o.Stop != trace.StopCancelled {
			t.Errorf("%+v, %v", o, err)
		}
	})
}

func TestScriptAsksItsResponder(t *testing.T) {
	t.Parallel()
	const steps = `
  - permission: {tool: bash, input: make, kind: execute}
  - ask: Shall I?
  - say: done
`
	for _, c := range []struct {
		policy, settings string
		outcomes         string
		stop             trace.StopReason
		class            trace.Class
	}{
		{"auto-approve", "{}", "allowed allowed", trace.StopEndTurn, ""},
		{"auto-deny", "{}", "denied denied", trace.StopEndTurn, ""},
		{"scripted", "rules: [{kind: execute, do: interrupt}]\ndefault: allow", "denied", trace.StopCancelled, ""},
		{"scripted", "default: fail", "denied", trace.StopError, trace.ClassResponder},
		{"none", "", "denied", trace.StopError, trace.ClassResponder},
	} {
		t.Run(c.policy+" "+c.settings, func(t *testing.T) {
			p := newPlace(t, nil)
			p.Responder = nil
			for _, k := range responder.Kinds {
				if k.Name == c.policy {
					r, err := k.Build(settings(t, c.settings))
					if err != nil {
						t.Fatal(err)
					}
					p.Responder = r
				}
			}
			o, events := p.drive(t, script(t, steps))
			var outcomes []string
			for _, e := range events {
				if e.Kind == trace.KindPermissionResponse || e.Kind == trace.KindAnswer {
					outcomes = append(outcomes, e.Ask.Outcome)
				}
			}
			if got := strings.Join(outcomes, " "); got != c.outcomes || o.Stop != c.stop || o.Class != c.class {
				t.Errorf("%s, then %s %s (%s)", got, o.Stop, o.Class, o.Detail)
			}
		})
	}
}

func TestScriptReadsTheFileOfItsCell(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	p.Trial, p.Model = 2, "m/1"
	p.CaseDir = fstest.MapFS{"agent/tz-m/1-with_skill-2.yaml": {Data: []byte("steps: [{say: from a file}]")}}
	h := build(t, "script", `script: "agent/{case}-{model}-{condition}-{trial}.yaml"`)
	if err := h.(harness.Checker).Check(p.Task); err != nil {
		t.Error(err)
	}
	if o, _ := p.drive(t, h); o.FinalText != "from a file" {
		t.Errorf("outcome %+v", o)
	}
}

func TestScriptFaultsAreFoundInPreflight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, settings string
		files          map[string]string
		model          string
		want           string // at Build when it is in suite.yaml, else at Check
	}{
		{"neither script nor steps", "{}", nil, "", "suite.yaml:1:1: a script harness needs script or steps"},
		{"both", "script: a.yaml\nsteps: [{say: x}]", nil, "", "suite.yaml:1:1: a script harness needs script or steps"},
		{"no action", "steps:\n  - say: a\n  - {only_trials: [1]}", nil, "", "suite.yaml:3:5: a step needs an action"},
		{"two actions", "steps:\n  - {say: a, read: b}", nil, "", "suite.yaml:2:5: a step has one action, not say and read"},
		{"unknown action", "steps:\n  - shout: a", nil, "", "suite.yaml:2:5: unknown key"},
		{"edit of nothing", "steps:\n  - edit: {path: a, new: b}", nil, "", "edit needs old"},
		{"run of nothing", "steps:\n  - run: {timeout: 1s}", nil, "", "a command needs run or argv"},
		{"a path outside", "steps:\n  - write: {path: ../a, text: b}", nil, "", "leads out"},
		{"an absolute path", "steps:\n  - delete: /etc/passwd", nil, "", "is absolute"},
		{"an exit code that no process has", "steps:\n  - exit: 256", nil, "", "suite.yaml:2:11"},
		{"an unknown stop", "steps:\n  - stop: end_turn", nil, "", "suite.yaml:2:11"},
		{"a missing script", "script: none.yaml", nil, "", "none.yaml"},
		{"a broken script", "script: a.yaml", map[string]string{"a.yaml": "steps:\n  - run: {argv: []}\n"}, "", "a.yaml:2:"},
		{"an empty script", "script: a.yaml", map[string]string{"a.yaml": "steps: []\n"}, "", "a.yaml:1:8: steps must not be empty"},
		{"a model that leads out", "script: \"a/{model}.yaml\"", nil, "../../x", "suite.yaml:1:9: script \"../x.yaml\" leads out"},
		{"a missing patch", "steps:\n  - apply: none.patch", nil, "", "suite.yaml:2:12: patch of case tz"},
		{"a patch that is a folder", "script: a.yaml", map[string]string{"a.yaml": "steps: [{apply: d}]", "d/x": ""}, "", "a.yaml:1:17: d of case tz is not a regular file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := kind(t, "script").Build(settings(t, c.settings))
			if err == nil {
				task := harness.Task{Case: "tz", Model: c.model, Trial: 1}
				files := fstest.MapFS{}
				for name, text := range c.files {
					files[name] = &fstest.MapFile{Data: []byte(text)}
				}
				task.CaseDir = files
				task.Script = func(name string) (harness.Settings, error) {
					b, err := suite.ReadBlock(files, name)
					return b, err
				}
				err = h.(harness.Checker).Check(task)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestScriptTellsOurOwnFailuresApart(t *testing.T) {
	t.Parallel()
	broken := errors.New("no fork")
	task := harness.Task{Trial: 1, Exec: fake{run: func(context.Context, executor.Command) (executor.Exit, error) {
		return executor.Exit{}, broken
	}}}
	if _, err := script(t, "  - run: make").Drive(t.Context(), task, func(trace.Event) {}); !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
	full := errors.New("no space left")
	task.Exec = fake{run: func(_ context.Context, c executor.Command) (executor.Exit, error) {
		_, err := io.WriteString(c.Stdout, "hello")
		return executor.Exit{}, err
	}}
	task.Log = writer(func([]byte) (int, error) { return 0, full })
	if _, err := script(t, "  - run: echo hello").Drive(t.Context(), task, func(trace.Event) {}); !errors.Is(err, full) {
		t.Errorf("error is %v", err)
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
