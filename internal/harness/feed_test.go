package harness_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/responder"
	"github.com/assay-ci/assay/internal/trace"
)

// A feeding gives a harness what an agent said, without waiting for what it is told.
type feeding struct {
	run      string // agent/scenario
	h        harness.Harness
	place    *place
	said     []byte // by the recorded agent
	sessions []byte // of codex
}

// newFeeding reads a recording.
func newFeeding(t testing.TB, run string) feeding {
	t.Helper()
	agent, scenario, _ := strings.Cut(run, "/")
	auto, err := responder.Kinds[0].Build(settings(t, "{}"))
	if err != nil {
		t.Fatal(err)
	}
	f := feeding{run: run, place: &place{Task: harness.Task{Model: "m1", Prompt: "go", Work: "/cell/work", Home: "/cell/home", Responder: auto}}}
	if scenario == "ctl_interrupt" {
		f.place.Responder = interrupting
	}
	switch agent {
	case "claude":
		lines, _ := frames(t, scenario)
		f.h, f.said = build(t, "claude-code", "{}"), bytes.Join(lines, nil)
	case "codex":
		r := recordedCodex(t, scenario)
		f.h, f.said, f.sessions = build(t, "codex", "{}"), r.stdout, r.sessions
	case "gemini", "opencode":
		f.h, f.said = build(t, agent, "{}"), stream(t, agent, scenario)
	default:
		c := acpRunOf(t, run)
		f.h = build(t, "acp", c.settings)
		for _, fr := range readFrames(t, run) {
			if fr.Dir == "<-" {
				f.said = append(append(f.said, fr.Msg...), '\n')
			}
		}
	}
	return f
}

// feed gives the harness these bytes in writes of a size, and then the agent ends. It returns the outcome, the trace and
// what the agent was told.
func (f feeding) feed(t testing.TB, said []byte, size int, exit executor.Exit) (harness.Outcome, string, string) {
	t.Helper()
	told := make(chan string, 1)
	p := *f.place
	p.Exec = fake{files: emptyFiles{}, run: func(_ context.Context, c executor.Command) (executor.Exit, error) {
		if c.Argv[0] == "sh" { // lays files, or reads those of codex
			for part := range slices.Chunk(f.sessions, size) {
				if c.Stdin == nil && c.Stdout != nil {
					c.Stdout.Write(part)
				}
			}
			return executor.Exit{}, nil
		}
		go func() {
			b, _ := io.ReadAll(c.Stdin)
			told <- string(b)
		}()
		for part := range slices.Chunk(said, size) {
			c.Stdout.Write(part)
		}
		exit.Out = int64(len(said))
		return exit, nil
	}}
	o, events := p.drive(t, f.h)
	for i, e := range events {
		if e.Tool != nil {
			tool := *e.Tool
			tool.Duration = 0 // by our clock
			events[i].Tool = &tool
		}
	}
	return o, writeTrace(t, events), <-told
}

// everyRecording runs a test on each recording that a harness reads: those of the table, and the later ones.
func everyRecording(t *testing.T, test func(t *testing.T, f feeding)) {
	files, err := filepath.Glob("testdata/streams/*/*.jsonl")
	if err != nil || len(files) < len(recordedRuns) {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		run := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(file), "testdata/streams/"), ".jsonl")
		if strings.Contains(run, ".rollout") {
			continue // a part of another one
		}
		t.Run(run, func(t *testing.T) {
			t.Parallel()
			test(t, newFeeding(t, run))
		})
	}
}

func TestRecordingsReadTheSameInPiecesOfAnySize(t *testing.T) {
	t.Parallel()
	everyRecording(t, func(t *testing.T, f feeding) {
		o, whole, told := f.feed(t, f.said, 1<<20, executor.Exit{})
		p, again, toldAgain := f.feed(t, f.said, 1, executor.Exit{})
		if compact(t, p) != compact(t, o) || again != whole || toldAgain != told {
			t.Error("byte by byte it is another run")
		}
	})
}

// endMarks are in the lines with which an agent says that it is done. opencode has none: how it exits says it.
var endMarks = map[string]string{
	"claude": `"type":"result"`, "codex": `"turn.completed"`, "gemini": `"type":"result"`,
	"acp-claude": `"stopReason"`, "acp-codex": `"stopReason"`, "acp-gemini": `"stopReason"`, "acp-opencode": `"stopReason"`,
}

// TestRecordingsKilledAtAnyLine ends each agent after every line and in the middle of it; of the long ones, at some of their
// lines. Whatever is missing, the trace is whole, and a run that was killed before it said its end is no success.
func TestRecordingsKilledAtAnyLine(t *testing.T) {
	t.Parallel()
	everyRecording(t, func(t *testing.T, f feeding) {
		agent, _, _ := strings.Cut(f.run, "/")
		mark := endMarks[agent]
		ends := lineEnds(f.said)
		for _, i := range sampled(len(ends), min(8, 3+100_000/(1+len(f.said)))) {
			begin := 0
			if i > 0 {
				begin = ends[i-1]
			}
			for _, end := range []int{begin, (begin + ends[i]) / 2} {
				cut := f.said[:end]
				o, _, _ := f.feed(t, cut, 1<<20, executor.Exit{Code: -1, Signal: "SIGKILL"})
				if saidEnd := mark != "" && bytes.Contains(cut, []byte(mark)); o.Stop == trace.StopEndTurn && !saidEnd {
					t.Errorf("killed after byte %d, in line %d, it is a success", end, i+1)
				}
			}
		}
	})
}

// lineEnds are the offsets after each line feed.
func lineEnds(text []byte) []int {
	var ends []int
	n := 0
	for line := range bytes.Lines(text) {
		n += len(line)
		ends = append(ends, n)
	}
	return ends
}

// sampled are the numbers below n, or so many of them, always the same, the first and the last among them.
func sampled(n, most int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	if n <= most {
		return all
	}
	rand.New(rand.NewPCG(7, uint64(n))).Shuffle(n-2, func(i, j int) { all[i+1], all[j+1] = all[j+1], all[i+1] })
	return append(slices.Sorted(slices.Values(all[:most-1])), n-1)
}

// TestRecordingsWithBrokenLines damages recordings: any trace is fine that keeps what every trace promises.
func TestRecordingsWithBrokenLines(t *testing.T) {
	t.Parallel()
	everyRecording(t, func(t *testing.T, f feeding) {
		for seed := range uint64(3) {
			random := rand.New(rand.NewPCG(seed, 7))
			f.feed(t, damaged(random, f.said[:min(len(f.said), 16<<10)]), 1<<20, executor.Exit{})
		}
	})
}

// damaged returns a text in which some lines are lost, told twice, torn, of another shape or no text.
func damaged(random *rand.Rand, text []byte) []byte {
	shapes := []string{"null", "[]", "{}", "-1", `"x"`, "true", "9223372036854775808", "\xff"}
	var out []byte
	for line := range bytes.Lines(text) {
		at := random.IntN(len(line))
		switch random.IntN(12) {
		case 0:
		case 1:
			out = append(append(out, line...), line...)
		case 2:
			out = append(append(out, line[:at]...), '\n')
		case 3:
			out = append(out, line[at:]...)
		case 4:
			out = append(out, bytes.ToUpper(line)...)
		case 5, 6, 7:
			out = append(out, reshaped(random, line, shapes[random.IntN(len(shapes))])...)
		default:
			out = append(out, line...)
		}
	}
	return out
}

// reshaped puts another value in the place of one that follows a key.
func reshaped(random *rand.Rand, line []byte, shape string) []byte {
	keys := bytes.Count(line, []byte(`":`))
	if keys == 0 {
		return []byte(fmt.Sprintf("%s\n", shape))
	}
	at := 0
	for range random.IntN(keys) + 1 {
		at += bytes.Index(line[at:], []byte(`":`)) + len(`":`)
	}
	end := at + bytes.IndexAny(append(line[at:len(line):len(line)], ','), ",]}")
	return slices.Concat(line[:at], []byte(shape), line[min(end, len(line)):])
}
