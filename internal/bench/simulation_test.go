package bench

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/stats"
)

var suites = flag.Int("suites", 100, "simulated suites of each kind; with as many as testdata/simulation.json has, the numbers must be the same")

// A world is a kind of suite that is simulated many times, two arms of it: cases of every difficulty (Beta(½,½)) whose trials
// are independent. Both arms are alike, or the first case breaks: from 95 % to 2 %.
type world struct {
	Cases  int  `json:"cases"`
	Trials int  `json:"trials"` // of the screen, a side
	Broken bool `json:"broken"`
}

// worlds are those of the campaign.
var worlds = []world{
	{5, 3, false}, {10, 3, false}, {10, 5, false}, {20, 3, false}, {20, 5, false}, {50, 3, false}, {50, 5, false},
	{1, 3, true}, {5, 3, true}, {10, 3, true}, {20, 3, true}, {20, 5, true}, {50, 3, true},
}

func (w world) String() string {
	return fmt.Sprintf("%d×%d%s", w.Cases, w.Trials, map[bool]string{true: " one broken"}[w.Broken])
}

// A tallied is what its suites were called, in numbers of suites and of trials.
type tallied struct {
	World     world `json:"world"`
	Suites    int   `json:"suites"`
	Regressed int   `json:"regressed"` // by the gate as it is: with confirm
	Plain     int   `json:"regressed_without_confirm"`
	Drop      int   `json:"dropped_over_5_pp"` // the naive rule
	Fisher    int   `json:"fisher"`            // some case differs, p ≤ 0.05 two-sided, not corrected for their number
	PairedT   int   `json:"paired_t"`          // p ≤ 0.05, one-sided
	Trials    int   `json:"trials"`            // of both sides and all suites, when a Watch ends the fresh ones
	Unstopped int   `json:"trials_unstopped"`  // when every fresh trial is run
}

// A caseRate is the chance of a trial to pass, on both sides.
type caseRate struct{ base, head float64 }

// rates draws a suite.
func (w world) rates(r *rand.Rand) []caseRate {
	out := make([]caseRate, w.Cases)
	for i := range out {
		angle := math.Sin(r.Float64() * math.Pi / 2)
		q := angle * angle // Beta(½,½)
		out[i] = caseRate{q, q}
		if w.Broken && i == 0 {
			out[i] = caseRate{0.95, 0.02}
		}
	}
	return out
}

var arms = [2]ArmID{{"h", "m", "without"}, {"h", "m", "with"}}

// simulate runs a world's suites through the verdict code, all from one seed, so that a few are the first of many.
func (w world) simulate(n int) tallied {
	c := tallied{World: w, Suites: n}
	broken := map[bool]uint64{true: 1}[w.Broken]
	confirming := gate
	confirming.Confirm = &result.Confirm{Cases: 3, Trials: 8}
	r := rand.New(rand.NewPCG(uint64(w.Cases)<<8|uint64(w.Trials), broken))
	for range n {
		rates := w.rates(r)
		p := pairing{axis: axisCondition, base: arms[0], head: arms[1]}
		for i, q := range rates {
			base, head := draw(r, q.base, w.Trials), draw(r, q.head, w.Trials)
			p.cases = append(p.cases, pairedCase{name: fmt.Sprintf("case-%03d", i), base: base, head: head})
		}
		p.coverage = covered(2 * w.Cases * w.Trials)
		screened := compare(p, confirming, gate.Alpha)
		screened.Gates = true
		c.Plain += one(screened.Verdict == Regressed) // no fresh trial is there, so all cases are judged by the screen
		c.rivals(p)

		suspects := screened.suspects(confirming.Confirm)
		ran := w.again(r, &p, rates, suspects)
		if len(suspects) > 0 {
			screened = compare(p, confirming, gate.Alpha)
		}
		c.Regressed += one(screened.Verdict == Regressed)
		screen := 2 * w.Cases * w.Trials
		c.Trials += screen + ran
		c.Unstopped += screen + 2*len(suspects)*confirming.Confirm.Trials
	}
	return c
}

// again runs the fresh trials of the suspects in rounds, until all are run or the watch says that all is decided, and gives
// their number. What was left out is not planned, as in a run.
func (w world) again(r *rand.Rand, p *pairing, rates []caseRate, suspects []Suspect) (ran int) {
	watch := NewWatch(suspects)
	var at []int
	for _, s := range suspects {
		i := slices.IndexFunc(p.cases, func(c pairedCase) bool { return c.name == s.Case })
		p.cases[i].again = &pairedAgain{}
		at = append(at, i)
	}
	if len(suspects) == 0 {
		return 0
	}
	for range suspects[0].Trials {
		for k, s := range suspects {
			again := p.cases[at[k]].again
			for side, to := range []*Passes{&again.base, &again.head} {
				if watch.Decided() {
					return ran
				}
				trial := draw(r, []float64{rates[at[k]].base, rates[at[k]].head}[side], 1)
				*to = Passes{to.Passed + trial.Passed, to.N + 1, to.Planned + 1, 0}
				watch.Count(s.Case, arms[side], map[int]result.Status{0: result.Failed, 1: result.Passed}[trial.Passed])
				ran++
			}
		}
	}
	return ran
}

// rivals are what other rules say to the same trials.
func (c *tallied) rivals(p pairing) {
	d := make([]float64, len(p.cases))
	fisher := false
	for i, x := range p.cases {
		base, head := x.base.tally(), x.head.tally()
		d[i] = head.Rate() - base.Rate()
		fisher = fisher || stats.Fisher(base, head) <= 0.05
	}
	c.Drop += one(stats.Mean(d) < -0.05-slack)
	c.Fisher += one(fisher)
	if len(d) < 2 {
		return
	}
	if s := stats.StdDev(d); s > slack {
		t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(len(d) - 1)}
		c.PairedT += one(t.CDF(stats.Mean(d)/(s/math.Sqrt(float64(len(d))))) <= 0.05)
	}
}

func draw(r *rand.Rand, rate float64, trials int) Passes {
	p := Passes{N: trials, Planned: trials}
	for range trials {
		p.Passed += one(r.Float64() < rate)
	}
	return p
}

func covered(cells int) PairCoverage {
	side := Coverage{Planned: cells / 2, Scored: cells / 2, Share: 1}
	return PairCoverage{side.plus(side), side, side}
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

const (
	campaignFile = "testdata/simulation.json"
	verdictsPage = "../../docs/verdicts.md"
)

// TestSimulation holds the gate to its promises, and the published numbers to what is measured.
func TestSimulation(t *testing.T) {
	got := make([]tallied, len(worlds))
	t.Run("worlds", func(t *testing.T) {
		for i, w := range worlds {
			t.Run(w.String(), func(t *testing.T) {
				t.Parallel()
				got[i] = w.simulate(*suites)
				t.Logf("%+v", got[i])
				got[i].promises(t)
				got[i].asElsewhere(t)
			})
		}
	})
	if *update {
		text, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(campaignFile, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	published := readCampaign(t)
	if published[0].Suites == *suites {
		if diff := cmp.Diff(published, got); diff != "" {
			t.Errorf("%s is stale; write it anew with make simulate (-published +got):\n%s", campaignFile, diff)
		}
		return
	}
	for i := range got {
		got[i].near(t, published[i])
	}
}

// promises are what a gate may be trusted to do.
func (c tallied) promises(t *testing.T) {
	n := float64(c.Suites)
	if most := gate.Alpha + 3*sigma(gate.Alpha, n); !c.World.Broken && c.rate(c.Regressed) > most {
		t.Errorf("identical arms regressed in %.1f %%, at most %.1f %% may", 100*c.rate(c.Regressed), 100*most)
	}
	if c.World.Broken && c.World.Cases <= 20 && c.rate(c.Regressed) < 0.95 {
		t.Errorf("the broken case was found in %.1f %%", 100*c.rate(c.Regressed))
	}
	if c.World.Cases == 20 && c.World.Trials == 3 {
		budget := map[bool]float64{false: 135, true: 149}[c.World.Broken]
		slack := 3 * 16 * math.Sqrt(3/n) // a suspect costs 16 trials, and there are at most 3 of them
		if mean := float64(c.Trials) / n; mean > budget+slack {
			t.Errorf("%.1f trials a suite, %.0f are the budget", mean, budget)
		}
		if mean := float64(c.Unstopped) / n; math.Abs(mean-budget) > slack {
			t.Errorf("%.1f trials a suite without stopping, %.0f were expected", mean, budget)
		}
	}
}

// noted are shares in percent that another program measured over 1,500 suites or more; nan: it did not.
var noted = map[world]struct{ plain, regressed, drop, fisher, t float64 }{
	{5, 3, false}:  {0.5, 0.7, 42, 0, 3.5},
	{10, 3, false}: {1.2, 1.5, nan, nan, nan},
	{10, 5, false}: {nan, 1.6, 24, 6, 4.6},
	{20, 3, false}: {1.6, 1.9, nan, nan, nan},
	{20, 5, false}: {1.8, 2.1, 15, 12, 5.2},
	{50, 3, false}: {0.9, 1.3, nan, nan, nan},
	{50, 5, false}: {nan, 2.0, 6, 28, 5.0},
	{1, 3, true}:   {0, 98.0, nan, nan, nan},
	{5, 3, true}:   {nan, 98.3, nan, nan, nan},
	{10, 3, true}:  {8.1, 98.0, nan, nan, nan},
	{20, 3, true}:  {6.5, 97.6, nan, nan, nan},
	{20, 5, true}:  {10.3, 98.8, nan, nan, nan},
	{50, 3, true}:  {4.0, 97.5, nan, nan, nan},
}

var nan = math.NaN()

func (c tallied) asElsewhere(t *testing.T) {
	want := noted[c.World]
	for _, x := range []struct {
		what string
		got  int
		want float64
	}{
		{"without confirm", c.Plain, want.plain}, {"with confirm", c.Regressed, want.regressed},
		{"a drop of 5 pp", c.Drop, want.drop}, {"Fisher", c.Fisher, want.fisher}, {"paired t", c.PairedT, want.t},
	} {
		if p := x.want / 100; !math.IsNaN(p) {
			agree(t, x.what, c.rate(x.got), p, math.Hypot(sigma(p, float64(c.Suites)), sigma(p, 1500)))
		}
	}
}

// near holds a small simulation to the campaign.
func (c tallied) near(t *testing.T, published tallied) {
	for _, x := range []struct {
		what           string
		got, published int
	}{
		{"without confirm", c.Plain, published.Plain}, {"with confirm", c.Regressed, published.Regressed},
		{"a drop of 5 pp", c.Drop, published.Drop}, {"Fisher", c.Fisher, published.Fisher}, {"paired t", c.PairedT, published.PairedT},
	} {
		p := published.rate(x.published)
		agree(t, c.World.String()+": "+x.what, c.rate(x.got), p, sigma(p, float64(c.Suites)))
	}
}

// agree allows 3σ and the rounding of a published percentage.
func agree(t *testing.T, what string, got, want, sigma float64) {
	t.Helper()
	if math.Abs(got-want) > 3*sigma+0.005 {
		t.Errorf("%s: %.1f %%, published are %.1f %%", what, 100*got, 100*want)
	}
}

// sigma is that of a share of n. A share of 0 was measured too, so it has one as well.
func sigma(p, n float64) float64 { return math.Sqrt(math.Max(p*(1-p), 1/n) / n) }

func (c tallied) rate(n int) float64 { return float64(n) / float64(c.Suites) }

func readCampaign(t *testing.T) []tallied {
	t.Helper()
	text, err := os.ReadFile(campaignFile)
	if err != nil {
		t.Fatal(err)
	}
	var out []tallied
	if err := json.Unmarshal(text, &out); err != nil || len(out) != len(worlds) {
		t.Fatalf("%s: %d kinds of suites, %d were expected, %v", campaignFile, len(out), len(worlds), err)
	}
	return out
}

// TestSimulationTables holds the tables of the docs to the campaign. -update writes them anew.
func TestSimulationTables(t *testing.T) {
	if *suites != readCampaign(t)[0].Suites && *update {
		t.Skip("only a whole campaign makes tables")
	}
	text, err := os.ReadFile(verdictsPage)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- Made by make simulate. Do not edit. -->\n", "<!-- end -->\n"
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the tables", verdictsPage)
	}
	want := before + begin + tables(readCampaign(t)) + end + after
	if *update {
		if err := os.WriteFile(verdictsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("%s is stale (-want +got):\n%s", verdictsPage, diff)
	}
}

// tables are what the docs show of a campaign.
func tables(campaign []tallied) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nNothing changed: how often identical arms are called worse, of %d suites a row.\n\n", campaign[0].Suites)
	b.WriteString("| cases × trials | \"fail if it drops more than 5 pp\" | any case, Fisher uncorrected | paired t | Assay |\n|---|---|---|---|---|\n")
	for _, c := range campaign {
		if !c.World.Broken {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | **%s** |\n", c.World, c.percent(c.Drop), c.percent(c.Fisher), c.percent(c.PairedT), c.percent(c.Regressed))
		}
	}
	b.WriteString("\nOne case broke, from 95 % to 2 %: how often it is found, and the trials of both sides that a suite takes on average.\n\n")
	b.WriteString("| cases × trials | screen alone | with fresh trials | trials | the same, nothing changed |\n|---|---|---|---|---|\n")
	for _, c := range campaign {
		if !c.World.Broken {
			continue
		}
		alike := "–"
		for _, a := range campaign {
			if a.World == (world{c.World.Cases, c.World.Trials, false}) {
				alike = a.mean()
			}
		}
		fmt.Fprintf(&b, "| %d×%d | %s | **%s** | %s | %s |\n", c.World.Cases, c.World.Trials, c.percent(c.Plain), c.percent(c.Regressed), c.mean(), alike)
	}
	b.WriteString("\n")
	return b.String()
}

func (c tallied) percent(n int) string { return fmt.Sprintf("%.1f %%", 100*c.rate(n)) }

func (c tallied) mean() string { return fmt.Sprintf("%.0f", float64(c.Trials)/float64(c.Suites)) }
