package report

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/google/go-cmp/cmp"
)

// TestHistoryPage holds the page of a history whose names try to be markup, and to leave the chart.
func TestHistoryPage(t *testing.T) {
	t.Parallel()
	const evil = "<img src=x>\n```\n| @team [a](javascript:b) \x1b[2J\u202e"
	var past []bench.Past
	for i := range 4 {
		var b bench.Benchmark
		at := time.Date(2026, 11, 20+i, 9, 30, 0, 0, time.UTC)
		b.Metadata.Timestamp, b.Metadata.Commit, b.Verdict = &at, strings.Repeat(fmt.Sprint(i), 40), bench.NoEvidence
		b.Metadata.Tool = "assay 1.0"
		v := 0.5 + float64(i)/10
		lo, hi := v-0.2, v+0.1
		rate := &bench.Estimate{Value: v, Lo: &lo, Hi: &hi, N: 4}
		b.Arms = []bench.Arm{{ArmID: bench.ArmID{Harness: evil, Model: "m", Condition: "c"}, Coverage: bench.Coverage{Planned: 12, Scored: 11}}}
		switch i {
		case 1:
			b.Metadata.Timestamp, b.Metadata.Commit = nil, ""
		case 2:
			b.Metadata.Tool, b.Fingerprint.Executor = evil, evil
			b.Arms[0].PassRate = rate
		default:
			b.Arms[0].PassRate = rate
		}
		past = append(past, bench.PastOf(evil, &b))
	}
	got := string(History(bench.MakeHistory(past)))
	if *update {
		if err := os.WriteFile("testdata/history.md", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/history.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
	if n := strings.Count(got, "```"); n != 2 {
		t.Errorf("%d fences, not 2", n)
	}
}
