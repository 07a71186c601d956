package harness_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/assay-ci/assay/internal/trace"
)

// shell is a command harness whose agent is a shell script.
func shell(t testing.TB, script string, args ...string) harness.Harness {
	t.Helper()
	argv := append([]string{"sh", "-c", script, "agent"}, args...)
	return build(t, "command", "stdin: prompt\nargv: "+compact(t, argv))
}

// TestCommandDerivesItsOutcome is the table of how an agent can end: what we did to it counts before how it exited.
func TestCommandDerivesItsOutcome(t *testing.T) {
	t.Parallel()
	zero, seven := 0, 7
	code := func(n int) *int { return &n }
	for _, c := range []struct {
		name, stdout, stderr string
		exit                 executor.Exit
		want                 harness.Outcome
	}{
		{"exit 0", "done\n", "", executor.Exit{}, harness.Outcome{Stop: "end_turn", Exit: &zero, Answered: true, FinalText: "done\n"}},
		{"exit 0 without a word", "", "", executor.Exit{}, harness.Outcome{Stop: "end_turn", Exit: &zero}},
		{"exit 7 never passes", "all passed", "", executor.Exit{Code: 7},
			harness.Outcome{Stop: "error", Class: "harness_crash", Detail: "exit 7", Exit: &seven, Answered: true, FinalText: "all passed"}},
		{"exit 7 and why", "", "Traceback:\n\tboom\x1b[0m\n", executor.Exit{Code: 7},
			harness.Outcome{Stop: "error", Class: "harness_crash", Detail: "exit 7: Traceback:\n\tboom [0m", Exit: &seven, Answered: true}},
		{"no such program", "", "assay: x: not found\n", executor.Exit{Code: 127},
			harness.Outcome{Stop: "error", Class: "harness_config", Detail: "exit 127: assay: x: not found", Exit: code(127), Answered: true}},
		{"not executable", "", "", executor.Exit{Code: 126}, harness.Outcome{Stop: "error", Class: "harness_config", Detail: "exit 126", Exit: code(126)}},
		{"a foreign signal", "", "", executor.Exit{Code: -1, Signal: "SIGSEGV"},
			harness.Outcome{Stop: "killed", Class: "harness_crash", Detail: "ended by SIGSEGV, which Assay did not send", Signal: "SIGSEGV"}},
		{"out of memory", "", "", executor.Exit{Code: -1, Signal: "SIGKILL", OOM: true},
			harness.Outcome{Stop: "killed", Class: "harness_crash", Detail: "out of memory", Signal: "SIGKILL"}},
		{"its time, by TERM", "half", "", executor.Exit{Code: -1, Signal: "SIGTERM", TimedOut: true},
			harness.Outcome{Stop: "timeout", Detail: "time limit of 1m0s reached", Signal: "SIGTERM", Answered: true, FinalText: "half"}},
		{"its time, and it exited 0", "", "", executor.Exit{TimedOut: true}, harness.Outcome{Stop: "timeout", Detail: "time limit of 1m0s reached", Exit: &zero}},
		{"called off", "", "", executor.Exit{Code: -1, Signal: "SIGKILL", Cancelled: true},
			harness.Outcome{Stop: "cancelled", Detail: "called off", Signal: "SIGKILL"}},
		{"survivors", "", "", executor.Exit{Survivors: []string{"sleep 9"}, Swept: 3},
			harness.Outcome{Stop: "end_turn", Exit: &zero, Survivors: []string{"sleep 9"}, Swept: 3}},
		{"a long last word", strings.Repeat("x", 5000) + "end", "", executor.Exit{},
			harness.Outcome{Stop: "end_turn", Exit: &zero, Answered: true, FinalText: strings.Repeat("x", 4093) + "end"}},
		{"a last word that is not UTF-8", "a\xffb", "", executor.Exit{}, harness.Outcome{Stop: "end_turn", Exit: &zero, Answered: true, FinalText: "a\uFFFDb"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &place{Task: harness.Task{Model: "none", Prompt: "Fix it.", Home: "/h", Work: "/w", Limits: harness.Limits{Timeout: time.Minute}}}
			p.Log = &p.log
			p.Exec = fake{run: func(_ context.Context, cmd executor.Command) (executor.Exit, error) {
				if cmd.Timeout != time.Minute {
					t.Errorf("time limit is %s", cmd.Timeout)
				}
				io.WriteString(cmd.Stderr, c.stderr)
				io.WriteString(cmd.Stdout, c.stdout)
				return c.exit, nil
			}}
			got, _ := p.drive(t, shell(t, "x"))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if p.log.String() != c.stderr+c.stdout {
				t.Errorf("agent.log is %q", p.log.String())
			}
		})
	}
}

func TestCommandFillsItsTemplate(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	p.Model = "m|{work}"
	p.Extras = harness.Extras{SkillsDir: "/skills", InstructionsFile: "/in.md"}
	h := build(t, "command", `
argv: [sh, -c, 'printf "%s\n" "$@" "$A" "$FOO"; cat "$1"', agent, "{prompt_file}", "{model}", "--dir={work}/x:{home}",
  "{skills}", "{instructions}", "${HOME}", '{"a": {}}', "{unknown}", "{{model}}", "a b"]
env: {A: "of {model}", FOO: lost}
`)
	o, events := p.drive(t, h)
	promptFile := filepath.Join(p.Home, "assay-prompt.txt")
	want := strings.Join([]string{promptFile, "m|{work}", "--dir=" + p.Work + "/x:" + p.Home, "/skills", "/in.md", "${HOME}", `{"a": {}}`, "{unknown}",
		"{m|{work}}", "a b", "of m|{work}", "bar", "Fix the bug."}, "\n")
	if diff := cmp.Diff(want, o.FinalText); diff != "" {
		t.Error(diff)
	}
	s := events[0].Session
	if diff := cmp.Diff([]string{"A", "FOO"}, s.Env); diff != "" || s.Agent != "sh" || s.Model != p.Model || len(s.Argv) != 14 {
		t.Errorf("session %+v", s)
	}
	if entries, err := os.ReadDir(p.Work); err != nil || len(entries) > 0 {
		t.Errorf("the work folder holds %v, %v", entries, err)
	}
	if info, err := os.Stat(promptFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("prompt file: %v, %v", info, err)
	}
}

// TestCommandTakesALongPrompt: argv could not carry it, and would show it to every process of the host.
func TestCommandTakesALongPrompt(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	p.Prompt = strings.Repeat("fix it! ", 25_000)
	h := build(t, "command", `
argv: [sh, -c, 'wc -c <"$1"; wc -c', agent, "{prompt_file}"]
stdin: prompt
`)
	o, events := p.drive(t, h)
	if got := strings.Fields(o.FinalText); len(got) != 2 || got[0] != "200000" || got[1] != "200000" {
		t.Errorf("the agent read %q", o.FinalText)
	}
	if args := compact(t, events[0].Session.Argv); strings.Contains(args, "fix it") {
		t.Error("the prompt is on argv")
	}
}

// TestCommandMeetsBadAgents runs real programs that misbehave.
func TestCommandMeetsBadAgents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		limits       harness.Limits
		want         string // stop, class and detail
		answered     bool
	}{
		{"hangs", "echo hi; exec sleep 60", harness.Limits{Timeout: 500 * time.Millisecond}, "timeout  time limit of 500ms reached", true},
		{"hangs in silence", "exec sleep 60", harness.Limits{Timeout: 500 * time.Millisecond}, "timeout  time limit of 500ms reached", false},
		{"ignores TERM", "trap '' TERM; while :; do sleep 1; done", harness.Limits{Timeout: 500 * time.Millisecond, Grace: 100 * time.Millisecond}, "timeout  time limit of 500ms reached", false},
		{"traps TERM and exits 0", "exec 2>/dev/null; trap 'exit 0' TERM; while :; do sleep 0.05; done", harness.Limits{Timeout: 500 * time.Millisecond, Grace: 5 * time.Second}, "timeout  time limit of 500ms reached", false},
		{"exits 7", "echo '5 passed'; echo bad >&2; exit 7", harness.Limits{}, "error harness_crash exit 7: bad", true},
		{"kills itself", "kill -KILL $$", harness.Limits{}, "killed harness_crash ended by SIGKILL, which Assay did not send", false},
		{"dies without reading its prompt", "exec <&-; exit 0", harness.Limits{}, "end_turn  ", false},
		{"leaves a child that holds stdout", "sleep 60 & echo bye", harness.Limits{}, "end_turn  ", true},
		{"fills stderr", "head -c 300000 /dev/zero >&2", harness.Limits{}, "end_turn  ", true},
		{"floods stdout", "yes", harness.Limits{MaxOutput: 100_000}, "cancelled  output_limit: more than 100000 bytes", true},
		{"floods one line on both", "cat /dev/zero >&2 & cat /dev/zero", harness.Limits{MaxOutput: 100_000}, "cancelled  output_limit: more than 100000 bytes", true},
		{"floods a little and ends", "head -c 100001 /dev/zero", harness.Limits{MaxOutput: 100_000}, "cancelled  output_limit: more than 100000 bytes", true},
		{"fills its limit exactly", "head -c 100000 /dev/zero", harness.Limits{MaxOutput: 100_000}, "end_turn  ", true},
		{"is not there", "exec no-such-agent", harness.Limits{}, "error harness_config exit 127:", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, nil)
			p.Prompt = strings.Repeat("p", 200_000) // more than a pipe holds
			if p.Limits = c.limits; p.Limits.Timeout == 0 {
				p.Limits.Timeout = time.Minute
			}
			began := time.Now()
			o, _ := p.drive(t, shell(t, c.script))
			if got := fmt.Sprintf("%s %s %s", o.Stop, o.Class, o.Detail); !strings.HasPrefix(got, c.want) || o.Answered != c.answered {
				t.Errorf("%q, answered %v", got, o.Answered)
			}
			if c.limits.MaxOutput > 0 && int64(p.log.Len()) != c.limits.MaxOutput {
				t.Errorf("agent.log has %d bytes", p.log.Len())
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

// TestCommandMergesTheTraceOfItsAgent: the agent's events become ours, and what it says of its own end can only harm it.
func TestCommandMergesTheTraceOfItsAgent(t *testing.T) {
	t.Parallel()
	const body = `{"kind":"session_start","session":{"harness":"mine","version":"1.2","model_reported":"m-2"}}
{"kind":"user_message","text":"Fix the bug."}
{"seq":900,"kind":"assistant_text","text":"one"}
{"kind":"tool_call","tool":{"id":"a","name":"bash","kind":"execute"}}
not json
{"kind":7}
{"kind":"model_call","usage":{"input":1,"source":"gateway"}}
{"kind":"usage","usage":{"input":10,"output":-1,"scope":"turn","source":"gateway"}}
{"kind":"usage","usage":{"input":30,"output":3,"scope":"turn"}}
{"kind":"assistant_text","text":"sub","parent":"a"}
{"kind":"assistant_text","text":"two"}
{"kind":"stop","stop":{"reason":"%s","class":"%s"}}
{"kind":"thinking","text":"after"}
`
	for _, c := range []struct {
		name, reason, class, exit string
		turns                     int
		want                      string
	}{
		{"ends well", "end_turn", "", "0", 0, "end_turn  "},
		{"refuses", "refusal", "", "0", 0, "refusal  "},
		{"met an error of its model", "error", "model_api", "0", 0, "error model_api "},
		{"claims a class that is ours", "error", "grader", "0", 0, "error harness_crash "},
		{"claims an end that is ours", "timeout", "", "0", 0, "error harness_crash "},
		{"claims success and exits 7", "end_turn", "", "7", 0, "error harness_crash exit 7"},
		{"took too many turns", "end_turn", "", "0", 1, "max_turns  2 turns, more than 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, map[string]string{"said.jsonl": fmt.Sprintf(body, c.reason, c.class)})
			p.Limits.MaxTurns = c.turns
			h := build(t, "command", `
argv: [sh, -c, 'cp said.jsonl "$1"; exit "$2"', agent, "{trace_file}", "`+c.exit+`"]
stdin: prompt
`)
			o, events := p.drive(t, h)
			if got := fmt.Sprintf("%s %s %s", o.Stop, o.Class, o.Detail); !strings.HasPrefix(got, c.want) {
				t.Errorf("outcome %q", got)
			}
			if o.Model != "m-2" || o.Version != "1.2" || *o.Turns != 2 || o.FinalText != "two" || *o.Usage.Input != 40 || o.Usage.Output != nil || o.Usage.Source != "agent" {
				t.Errorf("outcome %+v, usage %s", o, compact(t, o.Usage))
			}
			var late []string
			for _, e := range events[2 : len(events)-1] {
				if e.Late {
					late = append(late, string(e.Kind))
				}
				if e.Usage != nil && e.Usage.Source == "gateway" {
					t.Error("the agent speaks as the gateway")
				}
			}
			want := "assistant_text tool_call other other usage usage assistant_text assistant_text thinking"
			if diff := cmp.Diff(want, strings.Join(late, " ")); diff != "" {
				t.Error(diff)
			}
			if c.name == "ends well" {
				p.golden(t, "command-trace", events)
			}
		})
	}
}

func TestCommandReadsOnlyARegularTraceFile(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"nothing":  `echo hi`,
		"a FIFO":   `mkfifo "$1"`,
		"a link":   `echo '{"kind":"thinking"}' >"$HOME/x"; ln -s "$HOME/x" "$1"`,
		"a folder": `mkdir "$1"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, nil)
			p.Limits.MaxTurns = 3
			o, events := p.drive(t, shell(t, script, "{trace_file}"))
			if o.Stop != trace.StopEndTurn || o.Turns != nil || o.Usage != nil {
				t.Errorf("outcome %+v", o)
			}
			// Nothing but our own warning that the turns are not known.
			if len(events) != 4 || events[2].Err == nil || !strings.Contains(events[2].Err.Detail, "max_turns is not enforced") {
				t.Errorf("events %s", compact(t, events))
			}
		})
	}
}

func TestCommandForgetsTheTraceOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	if err := os.WriteFile(filepath.Join(p.Home, "assay-trace.jsonl"), []byte(`{"kind":"assistant_text","text":"old"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if o, _ := p.drive(t, shell(t, "true", "{trace_file}")); o.Answered || o.Turns != nil {
		t.Errorf("outcome %+v", o)
	}
}

func TestCommandEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	p.Log = writer(func(b []byte) (int, error) { cancel(); return len(b), nil }) // called off at its first word
	o, _ := p.driveUntil(t, ctx, shell(t, "echo hi; exec sleep 60", "{trace_file}", "{prompt_file}"))
	if o.Stop != trace.StopCancelled || o.Detail != "called off" || !o.Answered {
		t.Errorf("outcome %+v", o)
	}
	// Called off before it began.
	o, _ = p.driveUntil(t, ctx, shell(t, "echo hi", "{trace_file}", "{prompt_file}"))
	if o.Stop != trace.StopCancelled || o.Answered {
		t.Errorf("outcome %+v", o)
	}
}

func TestCommandTellsOurOwnFailuresApart(t *testing.T) {
	t.Parallel()
	broken := errors.New("no fork")
	task := harness.Task{Exec: fake{run: func(context.Context, executor.Command) (executor.Exit, error) { return executor.Exit{}, broken }}}
	for _, h := range []harness.Harness{shell(t, "x"), shell(t, "x", "{prompt_file}")} {
		if _, err := h.Drive(t.Context(), task, func(trace.Event) {}); !errors.Is(err, broken) {
			t.Errorf("error is %v", err)
		}
	}
	// The agent ran, but its trace cannot be read.
	runs := 0
	task.Exec = fake{run: func(context.Context, executor.Command) (executor.Exit, error) {
		if runs++; runs == 3 {
			return executor.Exit{}, broken
		}
		return executor.Exit{}, nil
	}}
	if _, err := shell(t, "x", "{trace_file}").Drive(t.Context(), task, func(trace.Event) {}); !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
}

func TestCommandFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, settings, want string }{
		{"no argv", "stdin: prompt", "suite.yaml:1:1: argv is missing"},
		{"empty argv", "argv: []", "suite.yaml:1:7: argv must not be empty"},
		{"an empty program", `argv: [""]`, "argv needs a program"},
		{"a placeholder as the program", `argv: ["{model}", "{prompt_file}"]`, "suite.yaml:1:8: the program itself cannot be a placeholder"},
		{"a prompt that goes nowhere", "argv: [agent]", "suite.yaml:1:7: the prompt never reaches the agent"},
		{"another stdin", "argv: [agent]\nstdin: argv", "suite.yaml:2:8: stdin"},
		{"a secret name", "argv: [agent]\nstdin: prompt\nenv: {GITHUB_TOKEN: x}", "suite.yaml:3:7: GITHUB_TOKEN never"},
		{"an unknown key", "argv: [agent]\nstdin: prompt\nshell: true", "suite.yaml:3:1: unknown key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := kind(t, "command").Build(settings(t, c.settings)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestCommandRefusesAConditionThatItWouldDrop(t *testing.T) {
	t.Parallel()
	both := harness.Extras{SkillsDir: "/s", InstructionsFile: "/i"}
	for _, c := range []struct {
		args   string
		extras harness.Extras
		want   string // empty: fine
	}{
		{"[a]", harness.Extras{}, ""},
		{"[a]", harness.Extras{SkillsDir: "/s"}, "has skills"},
		{`[a, "{skills}"]`, both, "has instructions"},
		{`[a, "{skills}", "-i{instructions}"]`, both, ""},
	} {
		h := build(t, "command", "stdin: prompt\nargv: "+c.args)
		err := h.(harness.Checker).Check(harness.Task{Condition: "with", Extras: c.extras})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %+v: %v, want %q", c.args, c.extras, err, c.want)
		}
	}
}

func TestCommandProbesItsProgram(t *testing.T) {
	t.Parallel()
	look := func(name string) (string, error) {
		if name == "agent" {
			return "/bin/agent", nil
		}
		return "", exec.ErrNotFound
	}
	run := func(_ context.Context, argv []string) (string, error) {
		if argv[0] != "agent" {
			return "", errors.New("exit 1")
		}
		return "\nagent 1.2 \xff\nmore\n", nil
	}
	for _, c := range []struct{ settings, version, fails string }{
		{"argv: [agent]", "", ""},
		{"argv: [agent]\nversion: [agent, --version]", "agent 1.2 \uFFFD", ""},
		{"argv: [other]", "", "agent other: executable file not found"},
		{"argv: [/opt/other]", "", "agent /opt/other: executable file not found"},
		{"argv: [./tools/agent]", "", ""}, // in the tree of a case, which is not there yet
		{"argv: [agent]\nversion: [other]", "", "version of agent agent: exit 1"},
	} {
		version, err := build(t, "command", "stdin: prompt\n"+c.settings).(harness.Prober).Probe(t.Context(), look, run)
		if version != c.version || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %q, %v", strconv.Quote(c.settings), version, err)
		}
	}
}

// FuzzCommandTemplate holds the template to its rules: one pass from left to right, nothing split, other braces as they are.
func FuzzCommandTemplate(f *testing.F) {
	for _, s := range []string{"{model}", "{{model}}", "--m={model}:{work}", "${HOME}", `{"a":{}}`, "{mod", "el}", "{model}{model}", "", "{skills", "{sk{skills}ills}"} {
		f.Add(s, "m|{work}")
	}
	f.Fuzz(func(t *testing.T, template, model string) {
		file := fstest.MapFS{"s.yaml": {Data: []byte("stdin: prompt\nargv: " + compact(t, []string{"agent", template}))}}
		s, err := suite.ReadBlock(file, "s.yaml")
		if err != nil || !utf8.ValidString(template) {
			t.Skip("a template that no suite can hold")
		}
		h, err := kind(t, "command").Build(s)
		if err != nil {
			t.Skip(err) // such as a NUL
		}
		want := expand(template, map[string]string{
			"{model}": model, "{work}": "/w", "{home}": "/h", "{skills}": "/s", "{instructions}": "",
			"{prompt_file}": "/h/assay-prompt.txt", "{trace_file}": "/h/assay-trace.jsonl",
		})
		var got []string
		task := harness.Task{Model: model, Work: "/w", Home: "/h", Extras: harness.Extras{SkillsDir: "/s"}}
		task.Exec = fake{run: func(_ context.Context, c executor.Command) (executor.Exit, error) {
			if c.Argv[0] == "agent" {
				got = c.Argv
			}
			return executor.Exit{}, nil
		}}
		if _, err := h.Drive(t.Context(), task, func(trace.Event) {}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"agent", want}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// expand says plainly what a template means.
func expand(template string, values map[string]string) string {
	var out strings.Builder
next:
	for i := 0; i < len(template); {
		for name, value := range values {
			if strings.HasPrefix(template[i:], name) {
				out.WriteString(value)
				i += len(name)
				continue next
			}
		}
		out.WriteByte(template[i])
		i++
	}
	return out.String()
}

// FuzzCommandTrace has an agent leave any bytes as its trace: ours stays whole, and tells no success of a failed agent.
func FuzzCommandTrace(f *testing.F) {
	for _, name := range []string{"command-trace", "script", "claude-truncate", "codex-subagent"} {
		b, err := os.ReadFile(filepath.Join("testdata", name+".jsonl"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, 0)
	}
	f.Add([]byte("{\"kind\":\"usage\",\"usage\":{\"input\":9223372036854775807,\"scope\":\"step\"}}\n"+
		"{\"kind\":\"usage\",\"usage\":{\"input\":1,\"cost_usd\":-1,\"scope\":\"step\"}}\n{\"kind\":\"stop\"}\n{\"kind\":\"tool_result\"}"), 7)
	h := build(f, "command", `{stdin: prompt, argv: [agent, "{trace_file}"]}`)
	f.Fuzz(func(t *testing.T, text []byte, code int) {
		p := &place{Task: harness.Task{Model: "m", Prompt: "go", Work: "/w", Home: "/h"}}
		p.Exec = fake{run: func(_ context.Context, c executor.Command) (executor.Exit, error) {
			switch {
			case c.Argv[0] == "agent":
				return executor.Exit{Code: code}, nil
			case c.Stdout != nil:
				c.Stdout.Write(text)
			}
			return executor.Exit{}, nil
		}}
		o, events := p.drive(t, h)
		writeTrace(t, events)
		if code != 0 && o.Stop == trace.StopEndTurn {
			t.Errorf("exit %d became a success", code)
		}
		if u := o.Usage; u != nil {
			for _, n := range []*int64{u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning} {
				if n != nil && *n < 0 {
					t.Errorf("usage %s", compact(t, u))
				}
			}
		}
	})
}
