package bench

import (
	"math"
	"testing"
)

// What a plan promises is what the simulated suites did.
func TestPowerIsWhatSimulationsShow(t *testing.T) {
	t.Parallel()
	for _, c := range readCampaign(t) {
		m, _ := confirming(times(c.World.Cases, "---", "---"))
		if c.World.Trials == 5 {
			m, _ = confirming(times(c.World.Cases, "-----", "-----"))
		}
		power := PowerOf(mustMake(t, m, nil), nil)
		if len(power) != 1 {
			t.Fatalf("%s: %d comparisons", c.World, len(power))
		}
		p, n := power[0], float64(c.Suites)
		if p.Cases != c.World.Cases || p.Trials != c.World.Trials || p.Cells != 2*c.World.Cases*c.World.Trials || p.Measured {
			t.Fatalf("%s: %+v", c.World, p)
		}
		if !c.World.Broken {
			if mean := float64(c.Unstopped) / n; math.Abs(mean-p.ExpectedTrials) > 3*16*math.Sqrt(3/n) {
				t.Errorf("%s: %.1f trials expected, %.1f were run", c.World, p.ExpectedTrials, mean)
			}
			continue
		}
		// The test of all cases and false alarms find a few more, and in the simulation ties go to the broken case.
		want, got := *p.Finds[0].Fresh, c.rate(c.Regressed)
		if room := 3 * sigma(want, n); got < want-room || got > want+room+0.025 {
			t.Errorf("%s: the broken case is found in %.3f, was found in %.3f", c.World, want, got)
		}
	}
}

func TestPowerBySize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cases  int
		trials string
		mde    float64 // typical of identical arms, in percentage points, as docs/verdicts.md has it
	}{{5, "-----", 42}, {10, "-----", 24}, {20, "---", 21}, {20, "-----", 16}, {50, "---", 13}, {50, "-----", 10}, {100, "-----", 7}} {
		m, _ := confirming(times(c.cases, c.trials, c.trials))
		p := PowerOf(mustMake(t, m, nil), nil)[0]
		if !(math.Abs(*p.MDEPP-c.mde) <= 0.1*c.mde) {
			t.Errorf("%d×%d: %.1f pp, %.0f are typical", c.cases, len(c.trials), *p.MDEPP, c.mde)
		}
		if (p.BuyCases == nil) || *p.MDEPP > 15 && *p.BuyCases <= c.cases {
			t.Errorf("%d×%d: buy %v cases", c.cases, len(c.trials), p.BuyCases)
		}
	}
}

// An earlier run's scatter is that of its comparison, brought to the planned number of trials.
func TestPowerFromResults(t *testing.T) {
	t.Parallel()
	m, results := confirming(append(times(10, "PPPFF", "PFPFF"), outcomes{"x", "PPPPP", "PPPPP"}, outcomes{"y", "FFFFF", "PPPPP"}))
	earlier := mustMake(t, m, results)
	same := PowerOf(mustMake(t, m, nil), &earlier)[0]
	if !same.Measured || math.Abs(*same.MDEPP-*earlier.Comparisons[0].MDEPP) > 1e-9 {
		t.Errorf("the same plan finds %v pp, the run said %v", *same.MDEPP, *earlier.Comparisons[0].MDEPP)
	}
	if same.ChanceShare == nil || *same.ChanceShare <= 0 || *same.ChanceShare > 1 {
		t.Errorf("chance share %v", same.ChanceShare)
	}
	more, _ := confirming(times(12, "----------", "----------"))
	if p := PowerOf(mustMake(t, more, nil), &earlier)[0]; *p.MDEPP >= *same.MDEPP || p.Finds[0].Fresh != nil {
		t.Errorf("twice the trials find %v pp, %v before; %+v", *p.MDEPP, *same.MDEPP, p.Finds)
	}
}
