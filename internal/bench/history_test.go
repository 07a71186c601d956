package bench_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/result"
)

// past is a benchmark of one arm, so many hours after the epoch; 0 is not known.
func past(name string, hour int, change func(*bench.Benchmark)) bench.Past {
	var b bench.Benchmark
	if hour > 0 {
		at := time.Unix(int64(hour)*3600, 0).UTC()
		b.Metadata.Timestamp = &at
	}
	b.Metadata.Tool = "assay 1.0"
	b.Arms = []bench.Arm{{ArmID: bench.ArmID{Harness: "h", Model: "m", Condition: "c"}, PassRate: &bench.Estimate{Value: float64(hour) / 10, N: 1}}}
	b.Fingerprint = bench.Fingerprint{
		Executor: "host", Rules: "1", Harnesses: []result.Harness{{ID: "h", Type: "claude-code", Version: "2.0"}},
		Conditions: []result.Condition{{ID: "c", Digest: "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},
		Cases:      []bench.CaseDigest{{Case: "one", Agent: "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Grade: "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"}},
	}
	if change != nil {
		change(&b)
	}
	return bench.PastOf(name, &b)
}

func TestHistoryIsInTheOrderOfTime(t *testing.T) {
	t.Parallel()
	other := func(b *bench.Benchmark) { b.Arms[0].Model = "other" }
	h := bench.MakeHistory([]bench.Past{past("c", 3, nil), past("a", 1, nil), past("x", 0, nil), past("b", 2, other), past("y", 0, nil)})
	var names []string
	for _, r := range h.Runs {
		names = append(names, r.Name)
	}
	if want := []string{"x", "y", "a", "b", "c"}; !slices.Equal(names, want) {
		t.Errorf("runs %v, want %v", names, want)
	}
	if len(h.Arms) != 2 || h.Arms[0].Points[3] != nil || h.Arms[1].Points[3] == nil || h.Arms[1].Points[2] != nil {
		t.Errorf("a run without an arm has a point, or one with it has none: %+v", h.Arms)
	}
	if got := h.Arms[0].Points[4].PassRate.Value; got != 0.3 {
		t.Errorf("the last point is %v", got)
	}
}

func TestHistoryNamesWhatChanged(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*bench.Benchmark){
		"[]":                              nil,
		"[tool assay 1.0 → 2.0]":          func(b *bench.Benchmark) { b.Metadata.Tool = "2.0" },
		"[executor host → docker]":        func(b *bench.Benchmark) { b.Fingerprint.Executor = "docker" },
		"[grading rules is not recorded]": func(b *bench.Benchmark) { b.Fingerprint.Rules = "" },
		"[harness h claude-code 2.0 → claude-code 2.1]": func(b *bench.Benchmark) { b.Fingerprint.Harnesses[0].Version = "2.1" },
		"[harness g is new harness h is gone]":          func(b *bench.Benchmark) { b.Fingerprint.Harnesses[0].ID = "g" },
		"[condition c changed]":                         func(b *bench.Benchmark) { b.Fingerprint.Conditions[0].Digest += "b" },
		"[condition d is new]": func(b *bench.Benchmark) {
			b.Fingerprint.Conditions = append(b.Fingerprint.Conditions, result.Condition{ID: "d"}, result.Condition{ID: "c.base", TwinOf: "c"})
		},
		"[case one changed]":            func(b *bench.Benchmark) { b.Fingerprint.Cases[0].Agent += "b" },
		"[grading of case one changed]": func(b *bench.Benchmark) { b.Fingerprint.Cases[0].Grade += "b" },
		"[case one is gone]":            func(b *bench.Benchmark) { b.Fingerprint.Cases = nil },
	} {
		h := bench.MakeHistory([]bench.Past{past("a", 1, nil), past("b", 2, change)})
		if got := fmt.Sprint(h.Runs[1].Changes); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if len(h.Runs[0].Changes) != 0 {
			t.Errorf("the first run changed: %v", h.Runs[0].Changes)
		}
	}
}

// timed is a benchmark that was planned so many hours after the epoch, with the arms of these conditions.
func timed(hour int, conditions ...string) bench.Benchmark {
	var b bench.Benchmark
	at := time.Unix(int64(hour)*3600, 0).UTC()
	b.Metadata.Timestamp, b.Metadata.Tool = &at, "assay 1.0"
	rate := float64(hour) / 100
	for _, c := range conditions {
		b.Arms = append(b.Arms, bench.Arm{ArmID: bench.ArmID{Harness: "h", Model: "m", Condition: c}, PassRate: &bench.Estimate{Value: rate, N: 1}})
	}
	return b
}

// rates are the pass rates of an arm over the runs of a history, as text; - is a run without the arm.
func rates(h *bench.History, condition string) string {
	var out []string
	for _, a := range h.Arms {
		if a.Condition != condition {
			continue
		}
		for _, p := range a.Points {
			if p == nil {
				out = append(out, "-")
			} else {
				out = append(out, fmt.Sprint(p.PassRate.Value))
			}
		}
	}
	return strings.Join(out, " ")
}

// A chain of baselines hands its history on: each run looks at the one before it alone.
func TestBaselinesHandTheirHistoryOn(t *testing.T) {
	t.Parallel()
	b := timed(1, "c", "gone")
	for hour := 2; hour <= 4; hour++ {
		next := timed(hour, "c")
		if hour == 3 {
			next = timed(hour, "c", "new")
			next.Metadata.Tool = "assay 2.0"
		}
		before := b
		b = next.Against(bench.Stored{Benchmark: &before, Origin: bench.Origin{Source: "ancestor", SHA: fmt.Sprint("commit", hour-1)}})
	}
	h := b.History
	if got := rates(h, "c"); got != "0.01 0.02 0.03 0.04" {
		t.Errorf("the arm has %q", got)
	}
	if len(h.Arms) != 1 {
		t.Errorf("%d arms, though this run has one", len(h.Arms))
	}
	var told []string
	for _, r := range h.Runs {
		told = append(told, r.Name+fmt.Sprint(r.Changes))
	}
	want := "commit1[] commit2[] commit3[tool assay 1.0 → assay 2.0] this run[tool assay 2.0 → assay 1.0]"
	if got := strings.Join(told, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if again := b.Against(bench.Stored{Origin: bench.Origin{Source: "none"}}); again.History != nil {
		t.Error("without a baseline there is a history")
	}
}

// Base versions are run when stored results are checked, and are no arms of a history.
func TestAHistoryHasNoTwins(t *testing.T) {
	t.Parallel()
	before, now := timed(1, "c"), timed(2, "c", "c.base")
	now.Fingerprint.Conditions = []result.Condition{{ID: "c"}, {ID: "c.base", TwinOf: "c"}}
	h := now.Against(bench.Stored{Benchmark: &before}).History
	if len(h.Arms) != 1 || rates(h, "c") != "0.01 0.02" {
		t.Errorf("%+v", h.Arms)
	}
}

// What is later than a run is not its past: old results that are judged by a newer baseline.
func TestALaterBaselineIsNoHistory(t *testing.T) {
	t.Parallel()
	later := timed(9, "c")
	if b := timed(1, "c").Against(bench.Stored{Benchmark: &later, Origin: bench.Origin{Source: "file"}}); b.History != nil {
		t.Errorf("the history is %+v", b.History.Runs)
	}
}

// A history that is handed on stays small: it has the newest runs, and of each the first changes and how many there were.
func TestAHistoryStaysSmall(t *testing.T) {
	t.Parallel()
	b := timed(1, "c")
	for hour := 2; hour <= 40; hour++ {
		next, before := timed(hour, "c"), b
		for i := range 25 {
			next.Fingerprint.Cases = append(next.Fingerprint.Cases, bench.CaseDigest{Case: fmt.Sprintf("case-%02d", i), Agent: fmt.Sprint(hour), Grade: "g"})
		}
		b = next.Against(bench.Stored{Benchmark: &before, Origin: bench.Origin{Source: "ancestor"}})
	}
	h := b.History
	if len(h.Runs) != 30 || len(h.Arms[0].Points) != 30 || !strings.HasPrefix(rates(h, "c"), "0.11 ") {
		t.Errorf("%d runs, points %s", len(h.Runs), rates(h, "c"))
	}
	if r := h.Runs[7]; len(r.Changes) != 20 || r.More != 5 {
		t.Errorf("%d changes and %d more", len(r.Changes), r.More)
	}
}

// A foreign history that cannot be is not read: pages go along its runs.
func TestReadRefusesAnUnsoundHistory(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/benchmark.json")
	if err != nil {
		t.Fatal(err)
	}
	run := bench.PastRun{Changes: []bench.Change{}}
	arm := func(points ...*bench.PastPoint) []bench.ArmHistory {
		return []bench.ArmHistory{{ArmID: bench.ArmID{Harness: "h"}, Points: points}}
	}
	for why, h := range map[string]bench.History{
		"":                          {Runs: []bench.PastRun{run, run}, Arms: arm(nil, &bench.PastPoint{PassRate: &bench.Estimate{Value: 1}})},
		"has 1 points":              {Runs: []bench.PastRun{run, run}, Arms: arm(nil)},
		"31 runs":                   {Runs: slices.Repeat([]bench.PastRun{run}, 31)},
		"21 changes":                {Runs: []bench.PastRun{{Changes: make([]bench.Change, 21)}}},
		"-1 more":                   {Runs: []bench.PastRun{{More: -1}}},
		"numbers of arm h// do not": {Runs: []bench.PastRun{run}, Arms: arm(&bench.PastPoint{PassRate: &bench.Estimate{Value: 1e300}})},
		"arm h// do not add up":     {Runs: []bench.PastRun{run}, Arms: arm(&bench.PastPoint{Coverage: bench.Coverage{Scored: 7}})},
	} {
		b, err := bench.Read(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		b.History = &h
		page, err := b.JSON()
		if err != nil {
			t.Fatal(err)
		}
		_, err = bench.Read(bytes.NewReader(page))
		if why == "" && err != nil || why != "" && (err == nil || !strings.Contains(err.Error(), why)) {
			t.Errorf("%q: %v", why, err)
		}
	}
}
