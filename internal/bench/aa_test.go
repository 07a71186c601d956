package bench

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/assay-ci/assay/internal/result"
)

// twice is a suite whose cases pass more or less often, run twice.
func twice() (result.Manifest, []result.Result) {
	m, results := input([]outcomes{
		{"a", "PPPPP", "PPPPP"}, {"b", "PPPFP", "PPPPP"}, {"c", "PFPFP", "FPPFF"}, {"d", "FFFFF", "FFFPF"}, {"e", "PFFFP", "PPFFF"},
		{"f", "PPFFP", "PPFPF"}, {"g", "FFFFF", "FFFFF"}, {"h", "PPPPF", "PFPPP"},
	})
	m.AA, m.Gate.FailOn = true, []string{"invalid"}
	return m, results
}

// Equal arms raise an alarm at most as often as the level says, and the rule of five points much more often. The same results
// give the same numbers, also when they are judged again; other results than those of --aa have none.
func TestFalseAlarms(t *testing.T) {
	t.Parallel()
	for _, confirm := range []*result.Confirm{nil, {Cases: 3, Trials: 8}} {
		m, results := twice()
		m.Gate.Confirm = confirm
		b := mustMake(t, m, results)
		f := b.FalseAlarms
		if f == nil || *f.Regressed.Lo > m.Gate.Alpha || f.Threshold.Value < 0.15 || f.Threshold.Value > 0.5 {
			t.Fatalf("confirm %v: %+v", confirm, f)
		}
		again, err := mustMake(t, m, results).Regate(b.Gate.Settings)
		if err != nil || !reflect.DeepEqual(again.FalseAlarms, f) {
			t.Errorf("judged again: %+v, %v, want %+v", again.FalseAlarms, err, f)
		}
		loose := b.Gate.Settings
		loose.Alpha, loose.MarginPP = 0.9, 0
		if loosened, err := b.Regate(loose); err != nil || loosened.FalseAlarms.Regressed.Value <= m.Gate.Alpha {
			t.Errorf("at a level of 0.9: %+v, %v", loosened.FalseAlarms, err)
		}
		m.AA = false
		if b := mustMake(t, m, results); b.FalseAlarms != nil {
			t.Errorf("of arms that may differ: %+v", b.FalseAlarms)
		}
	}
}

// A deal moves trials between the sides, and neither makes nor loses one.
func TestDeal(t *testing.T) {
	t.Parallel()
	m, results := twice()
	b := mustMake(t, m, results)
	table := newTable(b.Comparisons[0], b.Gate.Settings, &result.Confirm{Cases: 1, Trials: 4})
	r := rand.New(rand.NewPCG(1, 2))
	moved, again := false, 0
	for range 500 {
		e := table.deal(r)
		for i, p := range table.pairs {
			base, head := e.base[i], e.head[i]
			if base.N != p.Base.N || head.N != p.Head.N || base.Passed+head.Passed != p.Base.Passed+p.Head.Passed ||
				min(base.Passed, head.Passed, base.N-base.Passed, head.N-head.Passed) < 0 {
				t.Fatalf("%s: %+v %+v of %+v", p.Case, base, head, p)
			}
			moved = moved || base.Passed != p.Base.Passed
		}
		again += len(e.fresh)
		if len(e.fresh) > 1 || len(e.fresh) == 1 && e.fresh[0].base.N != 4 {
			t.Fatalf("run again: %+v", e.fresh)
		}
	}
	if !moved || again == 0 {
		t.Errorf("moved %v, %d cases were run again", moved, again)
	}
}
