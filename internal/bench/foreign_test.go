package bench

import (
	"fmt"
	"strings"
	"testing"
)

// FuzzReadRuns reads files that anybody may have written: whatever is taken can be compared with itself, and shows no change.
func FuzzReadRuns(f *testing.F) {
	for _, text := range []string{
		`{"runs": [{"case": "a", "trial": 1, "status": "passed"}]}`,
		`{"runs": [{"case": "a", "trial": -1, "status": "errored", "phase": "confirm", "class": "x"}], "missing": [{"case": "b"}]}`,
		`{"runs": [{"case": "a", "harness": "h", "model": "m", "condition": "c", "trial": 1, "status": "failed"}], "missing": [{"case": "a", "trial": 2, "status": "skipped"}]}`,
		`{"runs": {}}`, `[]`, `{"runs": [{"status": "passed"}]}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		runs, err := ReadRuns(strings.NewReader(text))
		if err != nil {
			return
		}
		_, b, err := Compare(Source{Runs: &runs}, Source{Runs: &runs}, gate, Origin{Source: "file"})
		if err != nil {
			return
		}
		for _, c := range b.Comparisons {
			if c.EffectPP != nil && *c.EffectPP != 0 {
				t.Errorf("%s against itself: %v", c.Head.Arm, *c.EffectPP)
			}
		}
	})
}

// A trial that only one side tells of was planned on the other as well; a case that only one side has was not.
func TestRunsArePlannedTogether(t *testing.T) {
	t.Parallel()
	read := func(trials map[string]int) Source {
		var rows []string
		for name, n := range trials {
			for i := range n {
				rows = append(rows, fmt.Sprintf(`{"case": %q, "trial": %d, "status": "passed"}`, name, i+1))
			}
		}
		runs, err := ReadRuns(strings.NewReader(`{"runs": [` + strings.Join(rows, ",") + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		return Source{Runs: &runs}
	}
	base, head, err := Compare(read(map[string]int{"a": 5, "gone": 2}), read(map[string]int{"a": 3, "new": 4}), gate, Origin{Source: "file"})
	if err != nil {
		t.Fatal(err)
	}
	if got := base.Arms[0].Coverage; got.Planned != 7 || got.Pending != 0 {
		t.Errorf("base: %+v", got)
	}
	if got := head.Arms[0].Coverage; got.Planned != 9 || got.Pending != 2 {
		t.Errorf("head: %+v", got)
	}
	if c := head.Comparisons[0]; c.Verdict != Invalid || c.Reasons[0].Code != lowCoverage {
		t.Errorf("%s %+v", c.Verdict, c.Reasons)
	}
}
