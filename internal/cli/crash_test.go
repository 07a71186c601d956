package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
	"github.com/google/go-cmp/cmp"
)

// These tests start the real program and take something away from it: its life, its disk, its ledger, its suite. All of
// them ask one question: does the next start go on, and end as if nothing had happened?

var kills = flag.Int("kills", 10, "how often each test of TestKillNine… kills")

// twelve is a suite of twelve cells, of which three fail.
var twelve = `
-- suite/suite.yaml --
name: twelve
limits: {timeout: 1m}
matrix:
  harnesses: [{id: scripted, type: script, script: "agent/{condition}.yaml"}]
  conditions: [{id: bare, baseline: true}, {id: hinted}]
  trials: 2
` + oneOfTwelve("one") + oneOfTwelve("two") + oneOfTwelve("three")

func oneOfTwelve(id string) string {
	return strings.ReplaceAll(`
-- suite/ID/case.yaml --
id: ID
prompt: Write FIXED into answer.txt.
source: {path: fixture}
hidden: hidden
assertions:
  - {id: correct, gate: true, type: files, present: ["^FIXED"]}
  - {id: small, type: diff_scope, max_lines_changed: 2}
-- suite/ID/fixture/answer.txt --
BROKEN
-- suite/ID/hidden/test.sh --
grep -q '^FIXED' answer.txt
-- suite/ID/agent/bare.yaml --
steps:
  - read: answer.txt
  - edit: {path: answer.txt, old: BROKEN, new: WRONG}
    only_trials: [2]
  - edit: {path: answer.txt, old: BROKEN, new: FIXED}
    only_trials: [1]
  - say: done
-- suite/ID/agent/hinted.yaml --
steps:
  - read: answer.txt
  - edit: {path: answer.txt, old: BROKEN, new: FIXED}
  - say: done
`, "ID", id)
}

// working is the same suite with agents that take their time and leave a daemon behind, and a grader that runs a command.
var working = strings.NewReplacer(
	"read: answer.txt", `run: "setsid sleep 600 >/dev/null 2>&1 & sleep 0.05"`,
	`type: files, present: ["^FIXED"]`, `type: command, run: "sh test.sh"`,
).Replace(twelve)

// TestKillNine kills assay at moments that a seeded generator picks, over and over, until a start gets through. No record
// that was once in the ledger is lost or made again, nothing outlives the next start, and the benchmark is that of a run
// which nobody disturbed.
func TestKillNine(t *testing.T) {
	for name, archive := range map[string]string{"while agents work": working, "while records are committed": twelve} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t, archive)
			began := time.Now()
			whole := y.run("whole")
			k := &killer{yard: y, rng: rand.New(rand.NewPCG(9, 9)), took: time.Since(began)}
			for ledger := 1; k.kills < *kills; ledger++ {
				k.kill(fmt.Sprintf("ledger-%d", ledger), whole)
			}
			t.Logf("%d kills; moments: %v", k.kills, k.hit)
		})
	}
}

// TestKillNineAfresh kills runs that make every cell of a whole ledger again, so that a record which is replaced is hit, too.
// The next start keeps what is whole, old or new, and ends like any other.
func TestKillNineAfresh(t *testing.T) {
	t.Parallel()
	y := newYard(t, twelve)
	began := time.Now()
	whole := y.run("out")
	took := time.Since(began)
	rng := rand.New(rand.NewPCG(9, 9))
	for n := range *kills {
		s := y.start("out", "--fresh")
		select {
		case <-time.After(time.Duration(rng.Int64N(int64(took)))):
		case <-s.done:
		}
		_ = s.cmd.Process.Kill() // it may have ended
		<-s.done
		compareRuns(t, fmt.Sprintf("after kill %d", n+1), whole, y.run("out"))
		if n := len(y.records("out")); n != 12 {
			t.Errorf("%d records, want 12", n)
		}
		y.noPlaceLeft()
	}
	if again := y.run("out"); again.kept() != 12 {
		t.Errorf("a further run kept %d cells:\n%s", again.kept(), again.Text)
	}
	t.Logf("%d kills; %d records were hit while they were replaced", *kills, y.noted("out", "set_aside"))
}

// confirmed is a suite of one case that breaks: six cells, and eight fresh ones, of which none can be left out.
var confirmed = strings.NewReplacer(
	"limits: {timeout: 1m}", "limits: {timeout: 1m}\ngate: {confirm: {cases: 1, trials: 4}}", "trials: 2", "trials: 3",
).Replace(twelve[:strings.Index(twelve, "-- suite/one/")]) + `-- suite/task/case.yaml --
id: task
prompt: Write FIXED into answer.txt.
source: {path: fixture}
assertions: [{id: correct, type: files, present: ["^FIXED"]}]
-- suite/task/fixture/answer.txt --
BROKEN
-- suite/task/agent/bare.yaml --
steps:
  - run: sleep 0.05
  - edit: {path: answer.txt, old: BROKEN, new: FIXED}
  - say: done
-- suite/task/agent/hinted.yaml --
steps:
  - run: sleep 0.05
  - say: done
`

// TestKillNineConfirm kills runs while they run a case again. No fresh trial that was recorded is lost or made again, and the
// last start ends as one that nobody disturbed: by the same fresh trials of both sides.
func TestKillNineConfirm(t *testing.T) {
	t.Parallel()
	y := newYard(t, confirmed)
	whole := y.run("whole")
	if n := len(y.records("whole")); n != 14 {
		t.Fatalf("%d records, want 6 and 8 fresh ones:\n%s", n, whole.Text)
	}
	k := &killer{yard: y, rng: rand.New(rand.NewPCG(9, 9))}
	seen := map[string]result.Result{}
	for k.kills < *kills && len(seen) < 14 {
		s := y.start("out")
		attempts := max(6, y.noted("out", "attempt")) + 1 + k.rng.IntN(2)
		y.until(s, func() bool { return y.noted("out", "attempt") >= attempts })
		_ = s.cmd.Process.Kill() // it may have ended
		<-s.done
		k.kills++
		k.compare("out", seen)
	}
	last := y.run("out")
	k.compare("out", seen)
	compareRuns(t, "out", whole, last)
	k.checkJournal("out")
	if len(seen) != 14 {
		t.Errorf("%d records, want 14:\n%s", len(seen), last.Text)
	}
	y.noPlaceLeft()
	t.Logf("%d kills", k.kills)
}

// A killer kills the runs of a yard.
type killer struct {
	*yard
	rng   *rand.Rand
	took  time.Duration // of a run that is not disturbed
	kills int
	hit   [3]int // kills before the first record, between, and when all records stood
}

// kill makes one ledger: its runs are killed until one gets through, or there were enough kills.
func (k *killer) kill(ledger string, whole ended) {
	seen := map[string]result.Result{}
	for k.kills < *kills && (len(seen) < 12 || k.rng.IntN(2) > 0) {
		s := k.start(ledger)
		k.wait(s, len(seen))
		_ = s.cmd.Process.Kill() // it may have ended
		<-s.done
		if !s.signalled(syscall.SIGKILL) {
			break // it was faster
		}
		k.kills++
		k.compare(ledger, seen)
		switch len(seen) {
		case 0:
			k.hit[0]++
		case 12:
			k.hit[2]++
		default:
			k.hit[1]++
		}
	}
	last := k.run(ledger)
	k.compare(ledger, seen)
	compareRuns(k.T, ledger, whole, last)
	k.checkJournal(ledger)
	k.noneLeft()
	k.noPlaceLeft()

	before := k.content(ledger)
	if again := k.run(ledger); again.kept() != 12 {
		k.Errorf("%s: a further run kept %d cells:\n%s", ledger, again.kept(), again.Text)
	}
	if diff := cmp.Diff(before, k.content(ledger)); diff != "" {
		k.Errorf("%s: a further run changed files:\n%s", ledger, diff)
	}
	for name := range before {
		if base := filepath.Base(name); strings.HasPrefix(base, ".") {
			k.Errorf("%s: a killed run left %s", ledger, name)
		}
	}
}

// wait waits for the moment to kill a run: any, or one in the life of some cell, or one while the reports are written. have
// is how many records the ledger holds.
func (k *killer) wait(s *started, have int) {
	within := k.took
	switch k.rng.IntN(3) {
	case 0:
		attempts := k.noted(s.ledger, "attempt") + 1 + k.rng.IntN(max(1, 12-have))
		k.until(s, func() bool { return k.noted(s.ledger, "attempt") >= attempts })
		within = k.took / 15
	case 1:
		k.until(s, func() bool { return k.noted(s.ledger, "committed") >= 12 })
		within = 30 * time.Millisecond
	}
	select {
	case <-time.After(time.Duration(k.rng.Int64N(int64(within)))):
	case <-s.done:
	}
}

// compare asserts that every record is whole and that those seen before are what they were, and adds the new ones.
func (k *killer) compare(ledger string, seen map[string]result.Result) {
	now := k.records(ledger)
	for dir, r := range seen {
		if diff := cmp.Diff(r, now[dir]); diff != "" {
			k.Errorf("%s: %s was committed, and changed (-was +is):\n%s", ledger, dir, diff)
		}
	}
	maps.Copy(seen, now)
}

// checkJournal asserts that no cell was started again after its record was there.
func (k *killer) checkJournal(ledger string) {
	committed := map[string]bool{}
	for _, n := range k.journal(ledger) {
		switch {
		case n.What == "committed":
			committed[n.Cell] = true
		case n.What == "attempt" && committed[n.Cell]:
			k.Errorf("%s: attempt %d of %s started after it was committed", ledger, n.Attempt, n.Cell)
		}
	}
}

// task is one case for agents that are programs.
const task = `
-- suite/task/case.yaml --
id: task
prompt: Write FIXED into answer.txt.
source: {path: fixture}
assertions: [{id: correct, type: files, present: ["^FIXED"]}]
-- suite/task/fixture/answer.txt --
BROKEN
`

// stuck is a suite whose agents hang until the file YARD/go is there. Some of them ignore that they are told to end.
const stuck = task + `
-- suite/suite.yaml --
name: stuck
retries: 0
limits: {timeout: 5m}
matrix:
  harnesses:
    - {id: quick, type: command, stdin: prompt, argv: [fake-agent, fix]}
    - {id: hangs, type: command, stdin: prompt, argv: [sh, YARD/agent]}
    - {id: deaf, type: command, stdin: prompt, argv: [sh, YARD/agent, deaf]}
  conditions: [{id: only, baseline: true}]
  trials: 3
-- agent --
test "$1" = deaf && trap '' TERM INT HUP
echo thinking
touch YARD/stuck-$$
until test -e YARD/go || ! test -d YARD; do sleep 0.1; done
exec fake-agent fix
`

// startStuck starts a run in which five agents hang, and so all of its five jobs.
func startStuck(t *testing.T) (*yard, *started) {
	t.Helper()
	y := newYard(t, stuck)
	for _, name := range []string{"suite/suite.yaml", "agent"} {
		y.write(name, strings.ReplaceAll(y.read(name), "YARD", y.dir))
	}
	s := y.start("out", "--jobs", "5")
	if !y.until(s, func() bool { hang, _ := filepath.Glob(y.path("stuck-*")); return len(hang) == 5 }) {
		y.Fatalf("the run ended by itself:\n%s", s.out.String())
	}
	return y, s
}

// TestInterrupt sends a signal while agents hang: within two seconds assay is gone with exit code 130, every agent with it,
// and a benchmark stands there that says it is partial. The next start goes on.
func TestInterrupt(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			y, s := startStuck(t)
			before := y.records("out")
			sent := time.Now()
			must(s.cmd.Process.Signal(sig))
			e := y.end(s)
			if took := time.Since(sent); took > 2*time.Second {
				t.Errorf("it took %v to end", took)
			} else {
				t.Logf("ended after %v", took)
			}
			if e.Code != ExitInterrupted || !strings.Contains(e.Text, "run the same command again") {
				t.Errorf("exit code %d, want %d:\n%s", e.Code, ExitInterrupted, e.Text)
			}
			y.noneLeft()
			y.noPlaceLeft()
			b, err := y.benchmark("out")
			if err != nil {
				t.Fatal(err)
			}
			if !b.Interrupted || len(b.Missing) != 9-len(before) {
				t.Errorf("interrupted %v, %d cells are missing, want true, %d", b.Interrupted, len(b.Missing), 9-len(before))
			}
			if n := y.noted("out", "interrupted"); n != 5 {
				t.Errorf("the journal tells of %d interrupted attempts, want 5", n)
			}
			y.goesOn(before)
		})
	}
}

// TestInterruptTwice sends a second signal while the first is obeyed: assay ends at once.
func TestInterruptTwice(t *testing.T) {
	y, s := startStuck(t)
	before := y.records("out")
	must(s.cmd.Process.Signal(syscall.SIGINT))
	y.until(s, func() bool { return y.noted("out", "interrupted") > 0 }) // the first agent has obeyed
	sent := time.Now()
	must(s.cmd.Process.Signal(syscall.SIGINT))
	y.end(s)
	if took := time.Since(sent); took > 500*time.Millisecond {
		t.Errorf("it took %v to end", took)
	}
	if !s.signalled(syscall.SIGINT) {
		t.Errorf("ended by %v, want by the second signal", s.cmd.ProcessState)
	}
	y.noneLeft()
	y.goesOn(before)
}

// TestKillHanging kills assay while agents hang: its supervisors see that it is gone, and end them.
func TestKillHanging(t *testing.T) {
	y, s := startStuck(t)
	before := y.records("out")
	must(s.cmd.Process.Kill())
	<-s.done
	y.noneLeft()
	y.goesOn(before)
}

// goesOn asserts that an interrupted run of the stuck suite can be run to its end, and keeps what it had.
func (y *yard) goesOn(before map[string]result.Result) {
	y.Helper()
	y.write("go", "")
	e := y.run("out")
	if e.kept() != len(before) || !strings.Contains(e.Text, "9/9 cells · 9 passed") {
		y.Errorf("kept %d cells, want %d:\n%s", e.kept(), len(before), e.Text)
	}
	b, err := y.benchmark("out")
	if err != nil {
		y.Fatal(err)
	}
	if b.Interrupted || len(b.Missing) > 0 {
		y.Errorf("interrupted %v, %d cells are missing", b.Interrupted, len(b.Missing))
	}
	y.noPlaceLeft()
}

// TestFullDisk gives the results a disk that is too small, by a little more room each time: every write of a run is once
// the first that fails. It ends with exit code 3 and says what to do; with more room the same command ends as it would have.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	y := newYard(t, twelve)
	whole := y.run("whole")
	y.smallDisk("disk", "4k")
	full := 0
	for room := 4; ; room += 12 {
		y.remount("disk", fmt.Sprintf("size=%dk", room))
		e := y.run("disk/out")
		if e.Code != ExitUnmeasured {
			break
		}
		full++
		for _, want := range []string{"disk/out", "no space left on device", "free space", "run the same command again"} {
			if !strings.Contains(e.Text, want) {
				t.Errorf("%d KiB: does not say %q:\n%s", room, want, e.Text)
			}
		}
		y.records("disk/out")
		if journal, err := os.ReadFile(y.path("disk/out/journal.jsonl")); err == nil && len(journal) > 0 && !strings.HasSuffix(string(journal), "\n") {
			t.Errorf("%d KiB: the journal ends in a torn line", room)
		}
		y.remount("disk", "size=64m")
		compareRuns(t, fmt.Sprintf("%d KiB", room), whole, y.run("disk/out"))
		must(os.RemoveAll(y.path("disk/out")))
	}
	if full < 15 {
		t.Errorf("the disk was full %d times only", full)
	}
	y.noPlaceLeft()
}

// compareRuns asserts that two runs ended in the same way.
func compareRuns(t *testing.T, what string, want, got ended) {
	t.Helper()
	if want.Code != got.Code {
		t.Errorf("%s: exit code %d, want %d:\n%s", what, got.Code, want.Code, got.Text)
	}
	if diff := cmp.Diff(want.Benchmark, got.Benchmark); diff != "" {
		t.Errorf("%s: not the same benchmark (-want +got):\n%s", what, diff)
	}
}

// TestFullScratch lets one agent fill the disk that the places are on. It pays for that, and nobody else does.
func TestFullScratch(t *testing.T) {
	t.Parallel()
	y := newYard(t, task+`
-- suite/suite.yaml --
name: full
retries: 0
matrix:
  harnesses:
    - {id: fix, type: command, stdin: prompt, argv: [fake-agent, fix]}
    - {id: fill, type: command, stdin: prompt, argv: [fake-agent, fill-disk]}
  conditions: [{id: only, baseline: true}]
  trials: 3
`)
	y.smallDisk("tmp", "16m")
	e := y.run("out", "--jobs", "1") // with two, the other agent would meet the full disk, too
	records := y.records("out")
	for _, r := range records {
		want := [...]string{string(result.Passed), "", ""}
		if r.Harness == "fill" {
			want = [...]string{string(result.Errored), string(trace.ClassHarnessCrash), "exit 1"}
		}
		if string(r.Status) != want[0] || string(r.Class) != want[1] || !strings.Contains(r.Detail, want[2]) {
			t.Errorf("%s t%d: %s %s (%s), want %v", r.Harness, r.Trial, r.Status, r.Class, r.Detail, want)
		}
	}
	if len(records) != 6 {
		t.Errorf("%d records, want 6:\n%s", len(records), e.Text)
	}
	y.noPlaceLeft()
}

// TestTwoWriters starts a second run on a ledger that is in use: it waits ten seconds, says who holds it and writes nothing.
// A third one does not have to be waited for when it is interrupted.
func TestTwoWriters(t *testing.T) {
	t.Parallel()
	y, first := startStuck(t)
	before := len(y.journal("out"))

	second, third := y.start("out"), y.start("out")
	y.until(third, func() bool { places, _ := filepath.Glob(y.path("tmp", "assay-*.lock")); return len(places) == 3 })
	sent := time.Now()
	must(third.cmd.Process.Signal(syscall.SIGINT))
	if e := y.end(third); e.Code != ExitInterrupted || time.Since(sent) > 2*time.Second {
		t.Errorf("interrupted at the lock: exit code %d after %v, want %d:\n%s", e.Code, time.Since(sent), ExitInterrupted, e.Text)
	}
	e := y.end(second)
	if want := fmt.Sprintf("in use by process %d", first.cmd.Process.Pid); e.Code != ExitUsage || !strings.Contains(e.Text, want) {
		t.Errorf("the second run: exit code %d, want %d and %q:\n%s", e.Code, ExitUsage, want, e.Text)
	}
	if took := time.Since(sent); took > 12*time.Second {
		t.Errorf("the second run waited for %v", took)
	}
	if after := len(y.journal("out")); after != before {
		t.Errorf("the journal has grown from %d to %d notes", before, after)
	}

	y.write("go", "")
	if e := y.end(first); !strings.Contains(e.Text, "9/9 cells") {
		t.Errorf("the first run was disturbed:\n%s", e.Text)
	}
	if n := y.noted("out", "committed"); n != 9 {
		t.Errorf("%d cells were committed, want 9", n)
	}
}

// TestChangedSuite edits the suite between two runs on one ledger: exactly the cells whose outcome the edit may change run
// again, and when only the grading changed, no agent does.
func TestChangedSuite(t *testing.T) {
	t.Parallel()
	y := newYard(t, twelve)
	y.run("whole")
	for _, c := range []struct {
		what, file, old, new string
		run                  []string // arguments of the second run
		kept, regraded       int      // of the twelve cells; the others run again
	}{
		{what: "nothing", kept: 12},
		{what: "the number of jobs", run: []string{"--jobs", "1"}, kept: 12},
		{what: "a comment and the order of keys", file: "one/case.yaml", old: "id: one\nprompt: Write FIXED into answer.txt.\n", new: "# new\nprompt: 'Write FIXED into answer.txt.'\nid: one\n", kept: 12},
		{what: "the prompt of a case", file: "one/case.yaml", old: "Write FIXED", new: "Please write FIXED", kept: 8},
		{what: "the source of a case", file: "two/fixture/answer.txt", old: "BROKEN\n", new: "BROKEN\n\n", kept: 8},
		{what: "what the agent of a case does", file: "two/agent/bare.yaml", old: "say: done", new: "say: it is done", kept: 8},
		{what: "the limits of a case", file: "three/case.yaml", old: "hidden: hidden", new: "hidden: hidden\nlimits: {timeout: 2m}", kept: 8},
		{what: "the limits of all", file: "suite.yaml", old: "timeout: 1m", new: "timeout: 2m", kept: 0},
		{what: "the prompt of a condition", file: "suite.yaml", old: "{id: hinted}", new: "{id: hinted, prompt_prefix: Hurry.}", kept: 6},
		{what: "a grader of a case", file: "one/case.yaml", old: "max_lines_changed: 2", new: "max_lines_changed: 1", kept: 8, regraded: 4},
		{what: "the hidden files of a case", file: "one/hidden/test.sh", old: "grep", new: "exec grep", kept: 8, regraded: 4},
		{what: "nothing, but all is to run afresh", run: []string{"--fresh"}, kept: 0},
	} {
		out := "out-" + strings.ReplaceAll(c.what, " ", "-")
		must(os.CopyFS(y.path(out), os.DirFS(y.path("whole"))))
		name := filepath.Join("suite", c.file)
		was := ""
		if c.file != "" {
			was = y.read(name)
			y.write(name, strings.Replace(was, c.old, c.new, 1))
			if y.read(name) == was {
				t.Fatalf("%s: nothing was edited", c.what)
			}
		}
		attempts := y.noted(out, "attempt")
		e := y.run(out, c.run...)
		regraded := 0
		for _, n := range y.journal(out)[attempts:] {
			if n.What == "attempt" && strings.Contains(n.Text, "graded again") {
				regraded++
			}
		}
		ran := y.noted(out, "attempt") - attempts - regraded
		if e.kept() != c.kept || regraded != c.regraded || ran != 12-c.kept-c.regraded {
			t.Errorf("%s: %d kept, %d graded again, %d ran; want %d, %d, %d:\n%s", c.what, e.kept(), regraded, ran,
				c.kept, c.regraded, 12-c.kept-c.regraded, e.Text)
		}
		if c.file != "" {
			y.write(name, was)
		}
	}
	must(os.Rename(y.path("suite"), y.path("moved")))
	must(os.MkdirAll(y.path("suite"), 0o755))
	must(os.Rename(y.path("moved"), y.path("suite", "deep")))
	if e := y.end(y.startAt("suite/deep", "whole")); e.kept() != 12 {
		t.Errorf("another path: %d kept, want 12:\n%s", e.kept(), e.Text)
	}
}

// TestBadLedger damages records between two runs: those cells run again and no other, what was there is set aside, and the
// run ends as one on an empty folder.
func TestBadLedger(t *testing.T) {
	t.Parallel()
	y := newYard(t, twelve)
	whole := y.run("whole")
	var cells []string // folders
	for dir := range y.records("whole") {
		cells = append(cells, dir)
	}
	slices.Sort(cells)
	victim, sibling := cells[1], cells[2] // one that failed, one that passed

	edit := func(change func(record string) string) func(string) {
		return func(out string) {
			name := filepath.Join(out, victim, "result.json")
			was := y.read(name)
			y.write(name, change(was))
			if y.read(name) == was {
				t.Fatal("nothing was damaged")
			}
		}
	}
	for _, c := range []struct {
		what   string
		damage func(out string)
		run    []string
		again  []string // the cells that run again
	}{
		{what: "a record cut short", damage: edit(func(r string) string { return r[:len(r)/2] }), again: []string{victim}},
		{what: "an empty record", damage: edit(func(string) string { return "" }), again: []string{victim}},
		{what: "a record of zeros", damage: edit(func(r string) string { return strings.Repeat("\x00", len(r)) }), again: []string{victim}},
		{what: "a record with one other digit", damage: edit(func(r string) string { return strings.Replace(r, `"trial":`, `"trial":1`, 1) }), again: []string{victim}},
		{what: "a record of a later version", damage: edit(func(r string) string {
			return signed(strings.Replace(r, `{"schema":1,`, `{"schema":2,`, 1))
		}), again: []string{victim}},
		{what: "a record that says passed", damage: edit(func(r string) string {
			return strings.Replace(r, `"status":"failed"`, `"status":"passed"`, 1)
		}), again: []string{victim}},
		{what: "a record that says passed, with a right sum", damage: edit(func(r string) string {
			return signed(strings.Replace(r, `"status":"failed"`, `"status":"passed"`, 1))
		}), again: []string{victim}},
		{what: "two records swapped", damage: func(out string) {
			a, b := filepath.Join(out, victim, "result.json"), filepath.Join(out, sibling, "result.json")
			one, other := y.read(a), y.read(b)
			y.write(a, other)
			y.write(b, one)
		}, again: []string{victim, sibling}},
		{what: "a record that is a folder", damage: func(out string) {
			must(os.Remove(y.path(out, victim, "result.json")))
			must(os.Mkdir(y.path(out, victim, "result.json"), 0o755))
		}, again: []string{victim}},
		{what: "a record that is a FIFO", damage: func(out string) {
			must(os.Remove(y.path(out, victim, "result.json")))
			must(syscall.Mkfifo(y.path(out, victim, "result.json"), 0o644))
		}, again: []string{victim}},
		{what: "a forged trace", damage: func(out string) {
			name := filepath.Join(out, victim, "trace.jsonl")
			y.write(name, y.read(name)+"{}\n")
		}, again: []string{victim}},
		{what: "a trace that is a FIFO", damage: func(out string) {
			must(os.Remove(y.path(out, victim, "trace.jsonl")))
			must(syscall.Mkfifo(y.path(out, victim, "trace.jsonl"), 0o644))
		}, again: []string{victim}},
		{what: "a lost trace", damage: func(out string) {
			must(os.Remove(y.path(out, victim, "trace.jsonl")))
		}, again: []string{victim}},
		{what: "a record cut short, and all run again", damage: edit(func(r string) string { return r[:len(r)/2] }),
			run: []string{"--fresh"}, again: cells},
		{what: "a damaged journal", damage: func(out string) {
			name := filepath.Join(out, "journal.jsonl")
			y.write(name, strings.Replace(y.read(name), "attempt", "tempest", 3)+"torn")
		}},
		{what: "no journal", damage: func(out string) { must(os.Remove(y.path(out, "journal.jsonl"))) }},
		{what: "no reports", damage: func(out string) { must(os.Remove(y.path(out, "benchmark.json"))) }},
	} {
		out := "out-" + strings.ReplaceAll(c.what, " ", "-")
		must(os.CopyFS(y.path(out), os.DirFS(y.path("whole"))))
		before := y.records(out)
		c.damage(out)
		e := y.run(out, c.run...)
		compareRuns(t, c.what, whole, e)
		var again []string
		for dir, r := range y.records(out) {
			if !cmp.Equal(r, before[dir]) {
				again = append(again, dir)
			}
		}
		slices.Sort(again)
		if diff := cmp.Diff(c.again, again); diff != "" {
			t.Errorf("%s: other cells ran again (-want +got):\n%s\n%s", c.what, diff, e.Text)
		}
		aside := c.again
		if c.run != nil {
			aside = []string{victim}
		}
		for _, dir := range aside {
			if _, err := os.Lstat(y.path(out, dir, "result.json.bad-1")); err != nil {
				t.Errorf("%s: what was there is not kept: %v", c.what, err)
			}
		}
	}
}

// signed fills in the sum of a record.
func signed(record string) string {
	const digits = 2 * sha256.Size
	at := len(record) - len("\"}\n") - digits
	sum := sha256.Sum256([]byte(record[:at] + record[at+digits:]))
	return record[:at] + hex.EncodeToString(sum[:]) + record[at+digits:]
}

// TestReadOnly runs into a folder that cannot be written to, and goes on when it can.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	y := newYard(t, twelve)
	y.smallDisk("disk", "8m")
	y.remount("disk", "ro")
	for _, when := range []string{"the folder is not there", "the ledger is whole"} {
		e := y.run("disk/out")
		if e.Code != ExitUnmeasured || !strings.Contains(e.Text, "disk/out") || !strings.Contains(e.Text, "read-only file system") ||
			!strings.Contains(e.Text, "fix the folder") {
			t.Errorf("%s: exit code %d, want %d and a remedy:\n%s", when, e.Code, ExitUnmeasured, e.Text)
		}
		y.remount("disk", "rw")
		if e := y.run("disk/out"); e.Code != ExitOK {
			t.Errorf("%s, and can be written again: exit code %d:\n%s", when, e.Code, e.Text)
		}
		y.remount("disk", "ro")
	}
}

// TestRetries runs an agent that crashes and one that fails, with one retry: the first is tried again and every attempt is
// told of; the second is not, neither now nor by the next run.
func TestRetries(t *testing.T) {
	t.Parallel()
	y := newYard(t, task+`
-- suite/suite.yaml --
name: retries
retries: 1
matrix:
  harnesses:
    - {id: crashes, type: command, stdin: prompt, argv: [fake-agent, exit-7]}
    - {id: fails, type: command, stdin: prompt, argv: [fake-agent, talk]}
  conditions: [{id: only, baseline: true}]
  trials: 1
`)
	for started := 1; started <= 2; started++ {
		e := y.run("out")
		first := 2*started - 1 // attempt of this start
		for dir, r := range y.records("out") {
			switch r.Harness {
			case "fails":
				if r.Status != result.Failed || r.Attempt != 1 || len(r.Earlier) > 0 {
					t.Errorf("start %d: %s, attempt %d, earlier %v; want the failure of attempt 1", started, r.Status, r.Attempt, r.Earlier)
				}
			case "crashes":
				want := []result.Attempt{{Attempt: first, Status: result.Errored, Class: trace.ClassHarnessCrash, Detail: "exit 7"}}
				if diff := cmp.Diff(want, r.Earlier); diff != "" || r.Status != result.Errored || r.Attempt != first+1 {
					t.Errorf("start %d: %s, attempt %d, earlier (-want +got):\n%s", started, r.Status, r.Attempt, diff)
				}
				for n := 1; n <= first; n++ {
					if _, err := os.Stat(y.path("out", dir, fmt.Sprintf("attempt-%d", n), "trace.jsonl")); err != nil {
						t.Errorf("start %d: the trace of an earlier attempt is not kept: %v", started, err)
					}
				}
			}
		}
		var told []string
		for _, n := range y.journal("out") {
			if strings.Contains(n.Cell, "crashes") {
				told = append(told, fmt.Sprintf("%s %d %s", n.What, n.Attempt, n.Status))
			}
		}
		want := []string{"attempt 1 ", "errored 1 errored", "attempt 2 ", "committed 2 errored",
			"attempt 3 ", "errored 3 errored", "attempt 4 ", "committed 4 errored"}[:4*started]
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("start %d: the journal (-want +got):\n%s\n%s", started, diff, e.Text)
		}
		if e.kept() != started-1 {
			t.Errorf("start %d: %d cells were kept:\n%s", started, e.kept(), e.Text)
		}
	}
}
