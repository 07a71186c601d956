package trace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-ci/assay/internal/trace"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func say(text string) trace.Event { return trace.Event{Kind: trace.KindAssistantText, Text: text} }

func stop(reason trace.StopReason) trace.Event {
	return trace.Event{Kind: trace.KindStop, Stop: &trace.Stop{Reason: reason}}
}

// ticking is a clock that goes on by a millisecond with each look.
func ticking() func() time.Duration {
	var now time.Duration
	return func() time.Duration { now += time.Millisecond; return now }
}

// written returns the trace that a Writer makes of the events.
func written(t testing.TB, events ...trace.Event) []byte {
	t.Helper()
	var b bytes.Buffer
	w := trace.NewWriter(&b, ticking())
	for _, e := range events {
		w.Emit(e)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readAll(t testing.TB, r io.Reader) []trace.Event {
	t.Helper()
	var events []trace.Event
	for e, err := range trace.Read(r) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

func TestReadTellsEveryLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"event", `{"seq":1,"at":5,"kind":"assistant_text","text":"hi"}`, `assistant_text "hi"`},
		{"no newline at the end", "{\"kind\":\"stop\"}\n{\"kind\":\"thinking\"}", `stop ""; thinking ""`},
		{"empty lines", "\n \r\n{\"kind\":\"stop\"}\r\n\n", `stop ""`},
		{"unknown kind keeps its line", `{"kind":"dance","text":"x"}`, `other "x" {"kind":"dance","text":"x"}`},
		{"not JSON", "panic: no\n{\"kind\":\"stop\"}", `other "line 1 is not JSON" "panic: no"; stop ""`},
		{"torn line", `{"kind":"st`, `other "line 1 is not JSON" "{\"kind\":\"st"`},
		{"invalid UTF-8", "{\"kind\":\"stop\",\"text\":\"a\xffb\"}", "stop \"a\uFFFDb\""},
		{"invalid UTF-8, not JSON", "\xff", "other \"line 1 is not JSON\" \"\uFFFD\""},
		{"no object", "[1]\n{\"kind\":\"stop\"}", `error line 1; stop ""`},
		{"null", `null`, `error line 1`},
		{"no kind", `{"text":"x"}`, `error line 1`},
		{"wrong type", "{\"kind\":\"stop\"}\n{\"kind\":7}\n{\"kind\":\"stop\"}", `stop ""; error line 2; stop ""`},
		{"nothing", ``, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for e, err := range trace.Read(strings.NewReader(c.in)) {
				var line *trace.LineError
				switch {
				case errors.As(err, &line):
					got = append(got, fmt.Sprintf("error line %d", line.Line))
				case err != nil:
					t.Fatal(err)
				default:
					got = append(got, strings.TrimSpace(fmt.Sprintf("%s %q %s", e.Kind, e.Text, e.Raw)))
				}
			}
			if diff := cmp.Diff(c.want, strings.Join(got, "; ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestA27ReadPassesOverALineThatIsTooLong(t *testing.T) {
	t.Parallel()
	fits := `{"kind":"thinking","text":"` + strings.Repeat("x", trace.MaxLine-29) + `"}`
	in := fits + "\n" + fits + " \n" + `{"kind":"stop"}`
	events := readAll(t, strings.NewReader(in))
	if len(events) != 3 || events[0].Kind != trace.KindThinking || events[1].Kind != trace.KindOther || events[2].Kind != trace.KindStop {
		t.Fatalf("kinds of %d events are wrong", len(events))
	}
	if want := fmt.Sprintf("line 2 has %d bytes", trace.MaxLine+1); !strings.HasPrefix(events[1].Text, want) {
		t.Errorf("note %q does not begin with %q", events[1].Text, want)
	}
	if n := len(events[1].Raw); n == 0 || n > 2*trace.MaxText || !json.Valid(events[1].Raw) {
		t.Errorf("raw of the long line has %d bytes", n)
	}
}

// TestA27DeepLinesAreLeftOut: brackets count outside of texts alone, and what goes too deep is an event without meaning.
func TestA27DeepLinesAreLeftOut(t *testing.T) {
	t.Parallel()
	nested := func(n int) string {
		return `{"kind":"other","text":"]]\\\"[[","raw":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + "}"
	}
	for _, text := range []string{`[[\"`, strings.Repeat("[", 300)} {
		in := fmt.Sprintf(`{"kind":"thinking","text":"%s"}`, text) + "\n" + nested(256) + "\n" + nested(257) + "\n"
		events := readAll(t, strings.NewReader(in))
		if len(events) != 3 || events[0].Kind != trace.KindThinking || strings.Contains(events[1].Text, "deep") || events[2].Text != "line 3 is nested more than 256 deep, and was left out" {
			t.Errorf("%d events: %+v", len(events), events)
		}
	}
}

func TestReadEndsWithTheErrorOfItsReader(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk gone")
	r := io.MultiReader(strings.NewReader("{\"kind\":\"thinking\"}\n"), iotest.ErrReader(broken))
	var kinds []trace.Kind
	var last error
	for e, err := range trace.Read(r) {
		if last = err; err == nil {
			kinds = append(kinds, e.Kind)
		}
	}
	if !errors.Is(last, broken) || len(kinds) != 1 {
		t.Errorf("got %v, then error %v", kinds, last)
	}
}

func TestReadDoesNotDependOnHowBytesCome(t *testing.T) {
	t.Parallel()
	in := string(written(t, say("ä"), say("\xff"), stop(trace.StopEndTurn))) + "junk\n{\"kind\":\"new\"}\n"
	want := readAll(t, strings.NewReader(in))
	for name, r := range map[string]io.Reader{
		"one byte":  iotest.OneByteReader(strings.NewReader(in)),
		"halves":    iotest.HalfReader(strings.NewReader(in)),
		"data+EOF":  iotest.DataErrReader(strings.NewReader(in)),
		"one chunk": bytes.NewReader([]byte(in)),
	} {
		if diff := cmp.Diff(want, readAll(t, r)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"", "\n\n", "{}", "null", "{\"kind\":\"stop\",\"stop\":{\"reason\":\"end_turn\"}}\n", "{\"kind\":\"x\"}\nnot json\n[1]\n",
		"{\"kind\":\"usage\",\"usage\":{\"input\":1e3,\"cost_usd\":0.5}}", "{\"kind\":\"tool_call\",\"tool\":{\"id\":\"a\",\"input\":{\"b\":[1,{}]}}}",
		"\xff\xfe{\"kind\":\"stop\"}", "{\"kind\":\"other\",\"raw\":\"\xc3\"}", "{\"KIND\":\"stop\",\"at\":-1}", strings.Repeat("[", 20000),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var events []trace.Event
		n := 0
		for e, err := range trace.Read(bytes.NewReader(in)) {
			if n++; err != nil {
				var line *trace.LineError
				if !errors.As(err, &line) {
					t.Fatalf("reading ended: %v", err)
				}
				continue
			}
			if e.Kind == trace.KindOther && e.Text != "" && len(e.Raw) > 0 && !json.Valid(e.Raw) {
				t.Fatalf("raw is not JSON: %q", e.Raw)
			}
			events = append(events, e)
		}
		if lines := bytes.Count(in, []byte("\n")) + 1; n > lines {
			t.Fatalf("%d values of %d lines", n, lines)
		}
		// What was read can be written, and read again.
		again := readAll(t, bytes.NewReader(written(t, events...)))
		for i, e := range again {
			if e.Seq != i+1 || (e.Schema == trace.Schema) != (i == 0) || (e.Kind == trace.KindStop) != (i == len(again)-1) {
				t.Fatalf("event %d of %d is %+v", i, len(again), e)
			}
		}
	})
}

func TestWriterGolden(t *testing.T) {
	t.Parallel()
	exit, tokens, cost := 3, int64(120), 0.25
	call := trace.Tool{ID: "c1", Name: "bash", Kind: trace.ToolExecute, Input: json.RawMessage(`{"command":"make <all>"}`)}
	result := trace.Tool{ID: "c1", Name: "bash", Kind: trace.ToolExecute, Status: trace.StatusError, Exit: &exit, Output: "no rule\xff", Duration: time.Second}
	got := written(t,
		trace.Event{Seq: 77, Schema: 9, Kind: trace.KindSessionStart, Session: &trace.Session{Harness: "script", Model: "m|x", Env: []string{"A"}}},
		trace.Event{Kind: trace.KindUserMessage, Text: "fix it"},
		trace.Event{Kind: trace.KindToolCall, Tool: &call},
		trace.Event{Kind: trace.KindToolResult, Tool: &result},
		trace.Event{Kind: trace.KindUsage, Usage: &trace.Usage{Input: &tokens, CostUSD: &cost, Scope: "session", Source: "agent"}},
		trace.Event{
			Kind: trace.KindModelCall, Usage: &trace.Usage{Input: &tokens, CostUSD: &cost, Scope: "step", Source: "gateway"},
			Call: &trace.ModelCall{Ordinal: 1, Lane: "main", Model: "m|x", HTTP: 200, Finish: "tool", Partial: true, FirstByte: time.Millisecond, Took: time.Second},
		},
		trace.Event{Kind: trace.KindModelCall, Call: &trace.ModelCall{Ordinal: 2, Lane: "aux", Model: "m|x"}},
		trace.Event{Kind: trace.KindOther, Text: "what", Raw: json.RawMessage("not json")},
		trace.Event{Kind: trace.KindOther, Raw: json.RawMessage("{\"a\":\"\xff\"}")},
		trace.Event{Kind: trace.KindStop, Stop: &trace.Stop{Reason: trace.StopEndTurn, FinalText: "done"}},
		say("after the stop"),
	)
	const golden = "testdata/writer.jsonl"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestWriterAddsTheStopThatNeverCame(t *testing.T) {
	t.Parallel()
	for _, events := range [][]trace.Event{nil, {say("hi")}} {
		got := readAll(t, bytes.NewReader(written(t, events...)))
		last := got[len(got)-1]
		if len(got) != len(events)+1 || last.Kind != trace.KindStop || last.Stop.Reason != trace.StopNoTerminalEvent || last.Stop.Class != trace.ClassHarnessCrash {
			t.Errorf("after %d events the trace ends with %+v", len(events), last)
		}
	}
}

func TestWriterCutsLongTexts(t *testing.T) {
	t.Parallel()
	long := "begin" + strings.Repeat("ä", trace.MaxText) + "end"
	input := json.RawMessage(`"` + strings.Repeat("y", 300<<10) + `"`)
	tool := trace.Tool{ID: "1", Output: long, Diff: long, Title: long, Input: input}
	got := readAll(t, bytes.NewReader(written(t,
		trace.Event{Kind: trace.KindToolResult, Text: long, Tool: &tool, Raw: input},
		trace.Event{Kind: trace.KindPermissionRequest, Ask: &trace.Ask{Input: long, Reason: long}},
		trace.Event{Kind: trace.KindError, Err: &trace.Fault{Detail: long}},
		trace.Event{Kind: trace.KindStop, Stop: &trace.Stop{Detail: long, FinalText: long}},
	)))
	if tool.Output != long || len(tool.Input) != len(input) {
		t.Error("the caller's tool was changed")
	}
	for what, s := range map[string]string{
		"text": got[0].Text, "output": got[0].Tool.Output, "diff": got[0].Tool.Diff, "title": got[0].Tool.Title, "ask": got[1].Ask.Input,
		"reason": got[1].Ask.Reason, "fault": got[2].Err.Detail, "detail": got[3].Stop.Detail, "final": got[3].Stop.FinalText,
	} {
		if len(s) > trace.MaxText || len(s) < 60<<10 || !strings.HasPrefix(s, "begin") || !strings.HasSuffix(s, "end") || !strings.Contains(s, "bytes left out") || strings.ContainsRune(s, utf8.RuneError) {
			t.Errorf("%s was cut to %d bytes: %.10q", what, len(s), s)
		}
	}
	for what, raw := range map[string]json.RawMessage{"raw": got[0].Raw, "input": got[0].Tool.Input} {
		if len(raw) > 70<<10 || !json.Valid(raw) {
			t.Errorf("%s was cut to %d bytes", what, len(raw))
		}
	}
}

func TestWriterEndsATraceThatGrowsTooLarge(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := trace.NewWriter(&b, ticking())
	text := strings.Repeat("x", 60<<10)
	for range 1200 {
		w.Emit(say(text))
	}
	w.Emit(stop(trace.StopTimeout))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 64<<20+1<<10 || b.Len() < 63<<20 {
		t.Errorf("trace has %d bytes", b.Len())
	}
	got := readAll(t, &b)
	note, last := got[len(got)-2], got[len(got)-1]
	if note.Kind != trace.KindError || note.Err.Class != trace.ClassWarning || !strings.HasPrefix(note.Err.Detail, "truncated: ") {
		t.Errorf("the note is %+v", note)
	}
	if last.Stop == nil || last.Stop.Reason != trace.StopTimeout || last.Seq != len(got) {
		t.Errorf("the last of %d events is %+v", len(got), last)
	}
}

func TestWriterNeverWritesALineThatReadLeavesOut(t *testing.T) {
	t.Parallel()
	paths := make([]string, 1<<20)
	for i := range paths {
		paths[i] = "some/long/path/x"
	}
	got := readAll(t, bytes.NewReader(written(t, trace.Event{Kind: trace.KindToolCall, Tool: &trace.Tool{ID: "1", Paths: paths}}, stop(trace.StopEndTurn))))
	if len(got) != 2 || got[0].Kind != trace.KindError || !strings.Contains(got[0].Err.Detail, "an event of kind tool_call had") {
		t.Errorf("got %d events, first of kind %s", len(got), got[0].Kind)
	}
}

// failing takes n bytes and then fails.
type failing struct{ n int }

func (f *failing) Write(p []byte) (int, error) {
	if f.n -= len(p); f.n < 0 {
		return 0, errors.New("no space left")
	}
	return len(p), nil
}

func TestWriterKeepsTheFirstError(t *testing.T) {
	t.Parallel()
	for _, room := range []int{0, 40_000} {
		w := trace.NewWriter(&failing{room}, ticking())
		for range 100 {
			w.Emit(say(strings.Repeat("x", 1000)))
		}
		err := w.Close()
		if err == nil || !strings.Contains(err.Error(), "write trace: no space left") {
			t.Errorf("room %d: %v", room, err)
		}
		if again := w.Close(); again == nil || again.Error() != err.Error() {
			t.Errorf("room %d: the second Close says %v", room, again)
		}
	}
}

func TestWriterTakesEventsFromManyGoroutines(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := trace.NewWriter(&b, ticking())
	done := make(chan bool)
	for range 4 {
		go func() {
			for range 100 {
				w.Emit(say("x"))
			}
			done <- true
		}()
	}
	for range 4 {
		<-done
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got := readAll(t, &b)
	if len(got) != 401 {
		t.Fatalf("%d events", len(got))
	}
	for i, e := range got {
		if e.Seq != i+1 || e.At != time.Duration(i+1)*time.Millisecond {
			t.Fatalf("event %d has seq %d at %s", i, e.Seq, e.At)
		}
	}
}

func TestExcerptKeepsHeadAndTail(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]string{"abc", "äß", "日本", "\xff\xfe", "🙂"}).Draw(t, "unit")
		whole := strings.Repeat(unit, rapid.IntRange(0, 40_000).Draw(t, "n"))
		x, rest := trace.NewExcerpt(), whole
		for rest != "" {
			n := rapid.IntRange(1, max(1, len(rest))).Draw(t, "write")
			io.WriteString(x, rest[:n])
			rest = rest[n:]
		}
		got := x.String()
		if x.Size() != int64(len(whole)) || !utf8.ValidString(got) {
			t.Fatalf("size %d of %d, valid %v", x.Size(), len(whole), utf8.ValidString(got))
		}
		if !utf8.ValidString(whole) {
			return
		}
		if len(whole) <= 64000 && got != whole {
			t.Fatalf("%d bytes became %d", len(whole), len(got))
		}
		head, tail, cut := strings.Cut(got, "\n[… ")
		if !cut {
			if got != whole {
				t.Fatalf("%d bytes became %d without a note", len(whole), len(got))
			}
			return
		}
		var left int
		if _, err := fmt.Sscanf(tail, "%d bytes left out", &left); err != nil {
			t.Fatal(err)
		}
		_, tail, _ = strings.Cut(tail, "…]\n")
		if len(got) > trace.MaxText || !strings.HasPrefix(whole, head) || !strings.HasSuffix(whole, tail) || len(head)+left+len(tail) != len(whole) {
			t.Fatalf("%d + %d left out + %d of %d bytes", len(head), left, len(tail), len(whole))
		}
	})
}

func TestTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 20).Draw(t, "size")
		x, whole := trace.NewTail(size), ""
		for _, part := range rapid.SliceOf(rapid.StringMatching(`[a-z]{0,30}`)).Draw(t, "parts") {
			io.WriteString(x, part)
			whole += part
		}
		if want := whole[max(0, len(whole)-size):]; x.String() != want {
			t.Fatalf("the last %d of %q are %q, got %q", size, whole, want, x.String())
		}
	})
}

// TestTailBeginsWithAWord shows that nothing is left of a word that was cut in two, since it may have been a secret.
func TestTailBeginsWithAWord(t *testing.T) {
	t.Parallel()
	tail, excerpt := trace.NewTail(40), trace.NewExcerpt()
	io.WriteString(tail, "the key is sk-0123456789abcdef and it was refused twice")
	io.WriteString(excerpt, strings.Repeat("x", 100_000)+"sk-0123456789abcdef "+strings.Repeat("y ", (16<<10-64-10)/2))
	if got := tail.String(); got != " and it was refused twice" {
		t.Errorf("the tail is %q", got)
	}
	if got := excerpt.String(); strings.Contains(got, "abcdef") || !strings.Contains(got, "…]\n y y") {
		t.Errorf("the tail of the excerpt begins with %q", got[48<<10:][:60])
	}
}

func TestKindOfTool(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]trace.ToolKind{
		"Read": trace.ToolRead, "read_file": trace.ToolRead, "apply_patch": trace.ToolEdit, "file_change": trace.ToolEdit, "delete": trace.ToolDelete,
		"move": trace.ToolMove, "Grep": trace.ToolSearch, "command_execution": trace.ToolExecute, "update_plan": trace.ToolThink,
		"WebSearch": trace.ToolFetch, "activate_skill": trace.ToolSkill, "Task": trace.ToolAgent, "ask_user": trace.ToolAsk,
		"": trace.ToolOther, "BASH": trace.ToolOther, "exec": trace.ToolOther,
	} {
		if got := trace.KindOfTool(name); got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
}

func BenchmarkWriter(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		w := trace.NewWriter(io.Discard, ticking())
		w.Emit(trace.Event{Kind: trace.KindSessionStart, Session: &trace.Session{Harness: "echo"}})
		w.Emit(trace.Event{Kind: trace.KindUserMessage, Text: "fix it"})
		w.Emit(say("done"))
		w.Emit(stop(trace.StopEndTurn))
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
