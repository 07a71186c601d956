package bench_test

import (
	"fmt"
	"slices"
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
		"[case one changed]":                            func(b *bench.Benchmark) { b.Fingerprint.Cases[0].Agent += "b" },
		"[grading of case one changed]":                 func(b *bench.Benchmark) { b.Fingerprint.Cases[0].Grade += "b" },
		"[case one is gone]":                            func(b *bench.Benchmark) { b.Fingerprint.Cases = nil },
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
