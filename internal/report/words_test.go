package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/result"
)

// A rerun is the fresh trials of one case, a letter a trial as in suite; d was left out since it could change nothing.
type rerun struct{ name, base, head string }

// confirmed is a suite of these cases, each base/head, whose worst are run again.
func confirmed(t testing.TB, cases []string, again ...rerun) bench.Benchmark {
	t.Helper()
	m := result.Manifest{
		Suite: "suite", Tool: "test", Seed: "1", Executor: "host",
		Conditions: []result.Condition{{ID: "without", Baseline: true}, {ID: "with"}},
		Gate: result.Gate{Alpha: 0.05, MarginPP: 2, MarginEqPP: 5, MDEMaxPP: 15, MinCoverage: 0.9, Claim: "suite", Underpowered: "warn",
			Confirm: &result.Confirm{Cases: 3, Trials: 8}},
		Harnesses: []result.Harness{{ID: "codex", Type: "codex", Models: []string{"gpt-5.5"}}},
	}
	var results []result.Result
	add := func(name, condition, phase, letters string, first int) {
		for i, letter := range letters {
			var r result.Result
			r.Case, r.Harness, r.Model, r.Condition, r.Trial, r.Phase = name, "codex", "gpt-5.5", condition, first+i, phase
			r.Attempt, r.Key = 1, fmt.Sprint(name, condition, first+i)
			m.Cells = append(m.Cells, r.Cell)
			switch letter {
			case 'P':
				r.Status = result.Passed
			case 'F':
				r.Status = result.Failed
			case 'd':
				r.Status, r.Reason = result.Skipped, result.Decided
			default:
				r.Status, r.Reason = result.Skipped, result.BudgetSpent
			}
			results = append(results, r)
		}
	}
	for _, c := range cases {
		name, letters, _ := strings.Cut(c, " ")
		base, head, _ := strings.Cut(letters, "/")
		m.Cases = append(m.Cases, result.Case{ID: name, File: name + "/case.yaml", Line: 1})
		add(name, "without", "", base, 1)
		add(name, "with", "", head, 1)
	}
	for _, a := range again {
		add(a.name, "without", bench.ConfirmPhase, a.base, 4)
		add(a.name, "with", bench.ConfirmPhase, a.head, 4)
	}
	b, err := bench.Make(m, func(yield func(result.Result, error) bool) {
		for _, r := range results {
			if !yield(r, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// broken is a suite in which one case collapsed.
func broken() []string {
	var cases []string
	for _, name := range []string{"csv-quoting", "data-race", "large-log", "monorepo", "pagination", "shell-glob", "sql-join", "unicode-slug"} {
		cases = append(cases, name+" PPP/PPP")
	}
	return append(cases, "flaky-retry PPF/PFP", "timezone PPP/FFF")
}

// What the pages say of each kind of comparison, in sentences that are made of its numbers.
func TestSentences(t *testing.T) {
	t.Parallel()
	uneven := pair(t, 12, "PPPPP", "PPPPE")
	var told strings.Builder
	for _, s := range []struct {
		name string
		b    bench.Benchmark
	}{
		{"regressed by one case in fresh trials", confirmed(t, broken(), rerun{"timezone", "PPPPPPPP", "PFFFFFFF"})},
		{"stopped early since nothing could change", confirmed(t, broken(), rerun{"timezone", "PPPPPddd", "FFFFFddd"})},
		{"fresh trials clear the case", confirmed(t, broken(), rerun{"timezone", "PPPPPPPP", "PPPPPPPF"})},
		{"confirm not run", confirmed(t, broken())},
		{"too few fresh trials", confirmed(t, broken(), rerun{"timezone", "PPPP----", "FFF-----"})},
		{"regressed by one case", pairs(t, "PPPPP/FFFFF", "FPPPP/PPPPP")},
		{"regressed as a whole", pair(t, 10, "PPPPF", "PPFFF")},
		{"regressed as a whole and by itself", pairs(t, "PPPPPPPP/FFFFFFFF", "PPPPPPPP/PPPPPPPP", "PPPPPPPP/FPPPPPPP")},
		{"improved", pair(t, 10, "PPFFF", "PPPPF")},
		{"equivalent", pair(t, 24, "PPPPPPPPPP", "PPPPPPPPPP")},
		{"no evidence", pair(t, 40, "PPPFF", "FPPPF")},
		{"underpowered by trials", pair(t, 1, "PPP", "FFF")},
		{"underpowered by cases", pair(t, 5, "PPPPF", "PPPPP")},
		{"low coverage", pair(t, 3, "PPP", "P--")},
		{"errors fall unevenly", uneven},
		{"errors and coverage", pair(t, 4, "PPP", "EEE")},
	} {
		var again strings.Builder
		for _, sentence := range sentences(s.b, plain) {
			again.WriteString("  " + sentence + "\n")
		}
		fmt.Fprintf(&told, "%s (%s)\n%s", s.name, s.b.Verdict, again.String())
	}
	golden(t, "sentences.txt", []byte(told.String()))
}

// pairs is a suite of cases, each base/head.
func pairs(t testing.TB, cases ...string) bench.Benchmark {
	var list []map[string]string
	for _, c := range cases {
		base, head, _ := strings.Cut(c, "/")
		list = append(list, map[string]string{"without": base, "with": head})
	}
	return suite(t, []result.Condition{{ID: "without", Baseline: true}, {ID: "with"}}, list...)
}
