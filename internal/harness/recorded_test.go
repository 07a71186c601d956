package harness_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/trace"
)

// A recordedRun is one recording and what it has to come to.
type recordedRun struct {
	run string // agent/scenario

	// E is an end that is graded, F: one that failed with its stop, X: one that is nobody's failure but an error with its
	// class. Then come model calls/tool calls of the main lane, and what else there was. The model calls are those whose
	// usage, summed up as the scripted model told it, is what the agent reports; – is no report of tokens.
	want string

	shows  string // what the trace also holds
	reason string // why more, or less, is told than the agent reports
}

const (
	cachedInside = "its input holds cached tokens that it does not tell apart, so the report is words"
	lastStepOnly = "it reports the last step alone, which is no sum"
	onlyGateway  = "nothing but the gateway sees the reason; see TestRecordedRunsBehindTheGateway"
)

// recordedRuns is the table of what each recording comes to.
var recordedRuns = []recordedRun{
	{run: "claude/edit", want: "E 5/4 $0.0196425"},
	{run: "claude/ctl_edit", want: "E 5/4 p2 $0.0196425"},
	{run: "claude/edit_json", want: "E 5/0 $0.0196425"},
	{run: "claude/cmd", want: "E 3/2 1 error $0.0117765"},
	{run: "claude/deny", want: "E 3/2 1 denied 1 error $0.0117765"},
	{run: "claude/ctl_allow", want: "E 3/2 1 error p1 $0.0117765"},
	{run: "claude/skip_root_sandbox", want: "E 3/2 1 error $0.0117765"},
	{run: "claude/skip_uid1000", want: "E 3/2 1 error $0.0117765"},
	{run: "claude/ctl_interrupt", want: "F:cancelled 1/1 1 denied p1 $0.0039225"},
	{run: "claude/ask", want: "E 1/0 $0.0039225"},
	{run: "claude/textask", want: "E 1/0 $0.0039225"},
	{run: "claude/badtool", want: "E 2/1 1 error $0.007848"},
	{run: "claude/parallel", want: "E 2/2 $0.007848"},
	{run: "claude/skill", want: "E 2/1 $0.007848"},
	{run: "claude/skill_plugin", want: "E 2/1 $0.007848"},
	{run: "claude/skill_bare", want: "E 1/0 $0.0039225"},
	{run: "claude/subagent", want: "E 11005/2200/330/550/1 $0.0431625"},
	{run: "claude/nogit", want: "E 1/0 $0.0039225"},
	{run: "claude/leak_home", want: "E 1/0 $0.0065375", shows: "claude-opus-4-8"},
	{run: "claude/leak_cfgdir", want: "E 1/0 $0.0065375", shows: "claude-opus-4-8"},
	{run: "claude/truncate", want: "F:max_tokens 4000/800/120/200/0 $0.01569"},
	{run: "claude/maxturns", want: "F:max_turns 3/3 $0.0117765"},
	{run: "claude/err400", want: "X:model_request –/0"},
	{run: "claude/err401", want: "X:model_auth –/0 7 retries"},
	{run: "claude/err500_default", want: "X:model_api –/0 10 retries"},
	{run: "claude/err500_retries2", want: "X:model_api –/0 2 retries"},
	{run: "claude/timeout_term", want: "X:model_api –/0"},

	{run: "codex/edit", want: "E 5/4"},
	{run: "codex/edit_codemode", want: "E 5/4 1 error 1 late", reason: "the call that standard output lost is the plan, a script that failed"},
	{run: "codex/edit_slug", want: "E 1/0"},
	{run: "codex/cmd", want: "E 3/2 1 error"},
	{run: "codex/cmd_codemode", want: "E 3/2 1 error"},
	{run: "codex/write", want: "E 2/1"},
	{run: "codex/deny_ro", want: "E 3/2 2 error 2 late"},
	{run: "codex/default_sbx", want: "E 3/2 2 error 2 late"},
	{run: "codex/bypass", want: "E 3/2"},
	{run: "codex/ask", want: "E 2/1 1 error 1 late"},
	{run: "codex/badargs", want: "E 2/1 1 error 1 late"},
	{run: "codex/skill", want: "E 1/0"},
	{run: "codex/noplug", want: "E 1/0"},
	{run: "codex/nogit", want: "X:harness_config –/0"},
	{run: "codex/refusal", want: "F:refusal –/0 1 retries"},
	{run: "codex/loop", want: "F:timeout –/192"},
	{run: "codex/err400", want: "X:model_request –/0"},
	{run: "codex/err429", want: "X:model_limit –/0 1 retries"},
	{run: "codex/overlong", want: "X:context_overflow –/0"},
	{run: "codex/timeout_term", want: "X:model_api –/0"},

	{run: "gemini/edit", want: "E 5/4 1 plans"},
	{run: "gemini/edit_json", want: "E 5/0"},
	{run: "gemini/cmd", want: "E 3/2"},
	{run: "gemini/deny_default", want: "E 1/0"},
	{run: "gemini/deny_autoedit", want: "E 1/0"},
	{run: "gemini/ask", want: "E 1/0"},
	{run: "gemini/nogit", want: "E 1/0"},
	{run: "gemini/truncate", want: "E 1/0", reason: onlyGateway},
	{run: "gemini/maxturns", want: "F:max_turns 3/3"},
	{run: "gemini/err401", want: "X:model_auth –/0"},
	{run: "gemini/err429", want: "X:model_api –/0", reason: onlyGateway},
	{run: "gemini/err500", want: "X:model_api –/0"},
	{run: "gemini/timeout_group", want: "X:model_api –/0"},
	{run: "gemini/timeout_term", want: "X:model_api –/0"},
	{run: "gemini/timeout_int", want: "X:model_api –/0"},

	{run: "opencode/edit", want: "E 5/4 1 plans $0.01908"},
	{run: "opencode/cmd", want: "E 3/2 1 error $0.011439"},
	{run: "opencode/deny_ask", want: "E 1/1 1 denied $0.00381"},
	{run: "opencode/deny_deny", want: "E 1/0 $0.00381"},
	{run: "opencode/ask", want: "E 1/0 $0.00381"},
	{run: "opencode/pure", want: "E 1/0 $0.00381"},
	{run: "opencode/nogit", want: "E 1/0 $0.00381"},
	{run: "opencode/refusal", want: "F:refusal 1/0 $0.00381"},
	{run: "opencode/maxturns", want: "F:timeout 89/90 $0.350838"},
	{run: "opencode/err400", want: "X:model_request –/0"},
	{run: "opencode/err500", want: "X:model_api –/0"},
	{run: "opencode/timeout_term", want: "X:model_api –/0"},

	{run: "acp-claude/edit", want: "E 5/3 p2 2 plans $0.0196425"},
	{run: "acp-claude/edit_nofs", want: "E 5/3 p2 2 plans $0.0196425"},
	{run: "acp-claude/deny_reject", want: "E 3/2 1 denied 1 error p1 $0.0117765"},
	{run: "acp-claude/ask_elicit", want: "E 2/1 q1 $0.007848"},
	{run: "acp-claude/ask_noelicit", want: "E 1/0 $0.0039225"},
	{run: "acp-claude/cancel", want: "F:cancelled –/66 $0.26532"},
	{run: "acp-claude/err400", want: "X:model_request –/0 $0"},
	{run: "acp-gemini/edit", want: "E –/4 p3", shows: "6010 input tokens with those from the cache", reason: cachedInside},
	{run: "acp-gemini/edit_nofs", want: "E –/4 p3", shows: "6010 input tokens with those from the cache", reason: cachedInside},
	{run: "acp-gemini/edit_yolo", want: "E –/4", shows: "6010 input tokens with those from the cache", reason: cachedInside},
	{run: "acp-gemini/deny_reject", want: "E –/2 2 denied p2", shows: "3603 input tokens with those from the cache", reason: cachedInside},
	{run: "acp-gemini/ask_elicit", want: "E –/0", shows: "1200 input tokens with those from the cache", reason: cachedInside},
	{run: "acp-gemini/ask_noelicit", want: "E –/0", shows: "1200 input tokens with those from the cache", reason: cachedInside},
	{run: "acp-gemini/refusal", want: "E –/0", shows: "1200 input tokens with those from the cache", reason: onlyGateway},
	{run: "acp-gemini/cancel", want: "F:max_turns –/38", shows: "46294 input tokens with those from the cache", reason: cachedInside},
	{run: "acp-opencode/edit", want: "E –/4 p2 $0.01908", shows: `"input":1004,"cache_read":200,"cache_write":null,"output":50,"reasoning":7,"cost_usd":null,"scope":"last_step"`, reason: lastStepOnly},
	{run: "acp-opencode/ask_elicit", want: "E –/0 $0.00381", shows: `"scope":"last_step"`, reason: lastStepOnly},
	{run: "acp-opencode/cancel", want: "F:cancelled –/9 p9 $0.034398"},
	{run: "acp-opencode/err400", want: "X:model_request –/0 $0"},
	{run: "acp-codex/edit", want: "E –/2 1 plans"},
	{run: "acp-codex/edit_full", want: "E –/3 1 plans"},
	{run: "acp-codex/deny_reject", want: "E –/0"},
	{run: "acp-codex/perm_cancel", want: "E –/0"},
	{run: "acp-codex/ask_elicit", want: "E –/0"},
	{run: "acp-codex/ask_noelicit", want: "E –/0"},
	{run: "acp-codex/cancel", want: "F:cancelled –/16"},
	{run: "acp-codex/err400", want: "X:model_request –/0"},
}

// notOurs are recordings of agents that Assay runs by the command harness, which reads no stream.
var notOurs = map[string]string{
	"qwen":           "has no harness of its own",
	"cline":          "has no harness of its own",
	"mini-swe-agent": "prints text for people and exits with 0 whatever happened",
}

func TestRecordedRunsComeToWhatIsKnownOfThem(t *testing.T) {
	t.Parallel()
	for _, r := range recordedRuns {
		t.Run(r.run, func(t *testing.T) {
			t.Parallel()
			o, events := playBack(t, r.run)
			if got := inShort(t, o, events); got != r.want {
				t.Errorf("got  %s\nwant %s (%s %s: %s)", got, r.want, o.Stop, o.Class, o.Detail)
			}
			if written := writeTrace(t, events); !strings.Contains(written, r.shows) {
				t.Errorf("the trace does not show %s", r.shows)
			}
		})
	}
}

// TestNoRecordingIsLeftOut holds the table to the list of all runs that were recorded.
func TestNoRecordingIsLeftOut(t *testing.T) {
	t.Parallel()
	rows := map[string]int{}
	for _, r := range recordedRuns {
		rows[r.run]++
	}
	for run := range recordedExits(t) {
		agent, _, _ := strings.Cut(run, "/")
		if n := rows[run]; n != 1 && notOurs[agent] == "" || n > 0 && notOurs[agent] != "" {
			t.Errorf("%s is in the table %d times", run, n)
		}
		delete(rows, run)
	}
	for run := range rows {
		t.Errorf("%s was not recorded", run)
	}
}

// recordedExits reads index.tsv: how each recorded process ended, by agent/scenario.
func recordedExits(t testing.TB) map[string]executor.Exit {
	t.Helper()
	b, err := os.ReadFile("testdata/streams/index.tsv")
	if err != nil {
		t.Fatal(err)
	}
	exits := map[string]executor.Exit{}
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		if i == 0 {
			continue // the names of the columns
		}
		column := strings.Split(line, "\t")
		code, err := strconv.Atoi(column[2])
		if err != nil || len(column) != 4 {
			t.Fatalf("index.tsv:%d: %q, %v", i+1, line, err)
		}
		ex := executor.Exit{Code: code, TimedOut: column[3] != "-"} // a signal that the recorder sent stands for our time limit
		if code < 0 {
			ex.Code, ex.Signal = -1, map[int]string{-9: "SIGKILL", -15: "SIGTERM"}[code]
		}
		exits[column[0]+"/"+column[1]] = ex
	}
	return exits
}

// playBack drives the harness that a recording belongs to with an agent that does again what the recorded one did.
func playBack(t testing.TB, run string) (harness.Outcome, []trace.Event) {
	t.Helper()
	agent, scenario, _ := strings.Cut(run, "/")
	exit := recordedExits(t)[run]
	switch agent {
	case "claude":
		said, _ := frames(t, scenario)
		o, events, _ := replay(t, &claudeFake{said: said, write: 1 << 20, exit: exit}, responderOf(scenario))
		return o, events
	case "codex":
		r := recordedCodex(t, scenario)
		r.exit = exit
		return r.play(t)
	case "gemini", "opencode":
		_, o, events := playStream(t, agent, &oneShot{stdout: stream(t, agent, scenario), exit: exit})
		return o, events
	}
	c := acpRunOf(t, run)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &recorded{frames: readFrames(t, run), stays: agent == "acp-codex", cancel: cancel}
	o, events := acpPlace(t, c.policy).play(t, ctx, build(t, "acp", c.settings), r.run)
	for _, d := range r.differ {
		t.Error(d)
	}
	return o, events
}

func acpRunOf(t testing.TB, run string) acpRun {
	t.Helper()
	i := slices.IndexFunc(acpRuns, func(c acpRun) bool { return c.name == run })
	if i < 0 {
		t.Fatalf("nothing is known of %s", run)
	}
	return acpRuns[i]
}

// inShort tells a run as the table does.
func inShort(t testing.TB, o harness.Outcome, events []trace.Event) string {
	t.Helper()
	end := "F:" + string(o.Stop)
	switch {
	case o.Stop == trace.StopEndTurn:
		end = "E"
	case o.Stop == trace.StopError, o.Stop == trace.StopKilled, o.Stop == trace.StopNoTerminalEvent, o.Stop == trace.StopTimeout && !o.Answered:
		end = "X:" + string(o.Class)
	}
	calls, late, status := 0, 0, map[string]trace.ToolStatus{}
	for _, e := range events {
		if e.Tool == nil || e.Parent != "" {
			continue
		}
		if e.Kind == trace.KindToolResult {
			status[e.Tool.ID] = e.Tool.Status
			continue
		}
		calls++
		if e.Late {
			late++
		}
	}
	line := fmt.Sprintf("%s %s/%d", end, callsOf(o.Usage), calls)
	counted := func(n int, format string) {
		if n > 0 {
			line += fmt.Sprintf(format, n)
		}
	}
	sum := map[trace.ToolStatus]int{}
	for _, s := range status {
		sum[s]++
	}
	counted(sum[trace.StatusDenied], " %d denied")
	counted(sum[trace.StatusError], " %d error")
	counted(late, " %d late")
	counted(tally(events, trace.KindPermissionRequest), " p%d")
	counted(tally(events, trace.KindQuestion), " q%d")
	counted(tally(events, trace.KindPlan), " %d plans")
	counted(tally(events, trace.KindRetry), " %d retries")
	if o.Usage != nil && o.Usage.CostUSD != nil {
		line += fmt.Sprintf(" $%.7g", *o.Usage.CostUSD)
	}
	return line
}

// callsOf is the number of calls to the scripted model that come to this usage, or the numbers themselves when it was not
// played straight through.
func callsOf(u *trace.Usage) string {
	if u == nil || u.Input == nil || u.Output == nil {
		return "–"
	}
	or0 := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	got := []int64{*u.Input, or0(u.CacheRead), or0(u.CacheWrite), *u.Output, or0(u.Reasoning)}
	n := or0(u.CacheRead) / 200
	in, read := 1000*n+n*(n-1)/2, 200*n
	for _, dialect := range [][]int64{{in, read, 30 * n, 50 * n, 0}, {in, read, 0, 50 * n, 7 * n}, {in, read, 0, 57 * n, 7 * n}} {
		if slices.Equal(got, dialect) {
			return fmt.Sprint(n)
		}
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(got[:4]), "[]"), " ", "/")
}

// writeTrace writes the events as a run does, reads them back and checks what every trace promises. It returns the file.
func writeTrace(t testing.TB, events []trace.Event) string {
	t.Helper()
	var b bytes.Buffer
	w := trace.NewWriter(&b, func() time.Duration { return 0 })
	for _, e := range events {
		w.Emit(e)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	written, n := b.String(), 0
	if !utf8.ValidString(written) {
		t.Error("the trace is not UTF-8")
	}
	for e, err := range trace.Read(&b) {
		if n++; err != nil || e.Seq != n || (e.Schema == trace.Schema) != (n == 1) || (e.Kind == trace.KindStop) != (n == len(events)) {
			t.Fatalf("line %d of %d is %+v, %v", n, len(events), e, err)
		}
	}
	if n != len(events) {
		t.Fatalf("%d of %d events are there", n, len(events))
	}
	return written
}
