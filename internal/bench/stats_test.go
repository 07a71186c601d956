package bench

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// vector is one reference value, computed by other people's software.
type vector struct {
	Fn, Name string
	In       inputs
	Want     map[string]any
	Tol      float64
}

type inputs struct {
	K, N, C    int
	Conf       float64
	Base, Cand json.RawMessage
	Cases      json.RawMessage
	NCases     int     `json:"n_cases"`
	SDDiff     float64 `json:"sd_diff"`
	Alpha      float64
	Power      float64
	P          json.RawMessage
	DNum       []int `json:"d_num"`
	DDen       []int `json:"d_den"`
	Y          []float64
	Cluster    []int
}

// checks maps each function of the vectors to ours. A check returns the numbers it computed by the vector's names, or
// an error where the vector wants one.
var checks = map[string]func(*testing.T, inputs) (map[string]float64, error){
	"wilson": func(_ *testing.T, in inputs) (map[string]float64, error) {
		lo, hi, err := wilson(in.K, in.N, in.Conf)
		return map[string]float64{"lo": lo, "hi": hi}, err
	},
	"case_mean_interval": func(t *testing.T, in inputs) (map[string]float64, error) {
		value, lo, hi, nEff := caseMeanInterval(tallies(t, in.Cases), in.Conf)
		return map[string]float64{"value": value, "lo": lo, "hi": hi, "n_eff": nEff}, nil
	},
	"strat_newcombe": func(t *testing.T, in inputs) (map[string]float64, error) {
		diff, lo, hi := stratNewcombe(tallies(t, in.Base), tallies(t, in.Cand), in.Conf)
		return map[string]float64{"diff": diff, "lo": lo, "hi": hi}, nil
	},
	"paired_t": func(t *testing.T, in inputs) (map[string]float64, error) {
		base, head := floats(t, in.Base), floats(t, in.Cand)
		d := make([]float64, len(base))
		for i := range d {
			d[i] = head[i] - base[i]
		}
		got := map[string]float64{"diff": mean(d)}
		if lo, hi, ok := pairedT(d, 0.95); ok {
			got["lo"], got["hi"] = lo, hi
		}
		return got, nil
	},
	"cluster_se": func(_ *testing.T, in inputs) (map[string]float64, error) {
		var cases []tally
		for i, y := range in.Y {
			if y != 0 && y != 1 {
				return nil, nil // ours takes passes only
			}
			for in.Cluster[i] >= len(cases) {
				cases = append(cases, tally{})
			}
			cases[in.Cluster[i]].n++
			cases[in.Cluster[i]].passed += int(y)
		}
		return map[string]float64{"se_CR1_stata": clusterSE(cases)}, nil
	},
	"median_ci_ranks": func(_ *testing.T, in inputs) (map[string]float64, error) {
		lo, hi, actual, ok := medianRanks(in.N, in.Conf)
		finite := 0.0
		if ok {
			finite = 1
		}
		return map[string]float64{"lo_rank": float64(lo), "hi_rank": float64(hi), "actual": actual, "finite": finite}, nil
	},
	"pass_at_k": func(_ *testing.T, in inputs) (map[string]float64, error) {
		v, err := passAtK(in.N, in.C, in.K)
		return map[string]float64{"v": v}, err
	},
	"pass_hat_k": func(_ *testing.T, in inputs) (map[string]float64, error) {
		v, err := passHatK(in.N, in.C, in.K)
		return map[string]float64{"v": v}, err
	},
	"pass_at_k_suite": func(t *testing.T, in inputs) (map[string]float64, error) {
		return map[string]float64{"v": *passAt(namedTallies(t, in.Cases), in.K).Any}, nil
	},
	"pass_hat_k_suite": func(t *testing.T, in inputs) (map[string]float64, error) {
		return map[string]float64{"v": *passAt(namedTallies(t, in.Cases), in.K).All}, nil
	},
	"rule_of_three": func(_ *testing.T, in inputs) (map[string]float64, error) {
		return map[string]float64{"exact_upper_one_sided95": ruleOfThree(in.N)}, nil
	},
	"stratified_exact": func(t *testing.T, in inputs) (map[string]float64, error) {
		e := stratifiedExact(tallies(t, in.Base), tallies(t, in.Cand))
		return map[string]float64{"p_less": e.less, "p_greater": e.greater, "p_two": e.twoSided()}, nil
	},
	"signflip_exact": func(_ *testing.T, in inputs) (map[string]float64, error) {
		common := 1
		for _, n := range in.DDen {
			common = common / gcd(common, n) * n
		}
		d := make([]int, len(in.DNum))
		for i := range d {
			d[i] = in.DNum[i] * (common / in.DDen[i])
		}
		e, _ := signflip(d)
		return map[string]float64{"p_less": e.less, "p_greater": e.greater, "p_two": e.twoSided()}, nil
	},
	"holm": func(t *testing.T, in inputs) (map[string]float64, error) {
		got := make(map[string]float64)
		for i, p := range holm(floats(t, in.P)) {
			got["adj"+string(rune('0'+i))] = p
		}
		return got, nil
	},
	"mde_t": func(_ *testing.T, in inputs) (map[string]float64, error) {
		return map[string]float64{"mde": mdeT(in.NCases, in.SDDiff, in.Alpha, in.Power)}, nil
	},
	"mde_suite": func(t *testing.T, in inputs) (map[string]float64, error) {
		base, head := tallies(t, in.Base), tallies(t, in.Cand)
		floor, used := suiteSD(base, head)
		return map[string]float64{"sd_floor": floor, "sd_used": used, "mde": mdeT(len(base), used, in.Alpha, in.Power)}, nil
	},
}

// notOurs are the functions of the vectors that this room does not compute.
var notOurs = []string{
	"bca_acceleration", "bca_alpha", "beta_prob_greater", "beta_uniform", "bh", "bootstrap_bca_seeded", "bootstrap_percentile_exact", "by",
	"clopper_pearson", "cmh", "cohen_kappa", "eprocess_beta_binomial", "eprocess_onesided", "fisher_exact", "flake_rate", "fleiss_kappa",
	"hodges_lehmann_paired", "hodges_lehmann_shift", "jeffreys", "majority_vote", "mannwhitney_exact", "mcnemar_exact", "mde_miller",
	"min_attainable_p", "n_miller", "newcombe_diff", "noninferiority_t", "rogan_gladen", "sign_test", "sprt", "variance_split", "wilcoxon_exact",
}

// notCompared are values of the vectors beside those that we compute.
var notCompared = map[string][]string{
	"paired_t":         {"se", "t", "p_two", "corr", "se_unpaired", "degenerate"},
	"cluster_se":       {"mean", "se_miller_CR0", "se_iid", "mean_of_case_means", "se_case_means", "t_lo", "t_hi"},
	"rule_of_three":    {"approx"},
	"stratified_exact": {"p_less_mid", "mean_diff"},
	"signflip_exact":   {"mean"},
	"holm":             {"reject"},
	"mde_t":            {"mde_normal_approx"},
}

func TestReferenceVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/stats-oracles.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []vector }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 211 {
		t.Fatalf("%d vectors, want 211", len(file.Cases))
	}
	done := make(map[string]int)
	for _, v := range file.Cases {
		check := checks[v.Fn]
		if check == nil {
			if !slices.Contains(notOurs, v.Fn) {
				t.Errorf("%s is neither checked nor in notOurs", v.Fn)
			}
			continue
		}
		got, err := check(t, v.In)
		if v.Want["error"] == true {
			if err == nil {
				t.Errorf("%s %s: no error, got %v", v.Fn, v.Name, got)
			}
			done[v.Fn]++
			continue
		}
		if err != nil {
			t.Errorf("%s %s: %v", v.Fn, v.Name, err)
		}
		if got == nil {
			continue
		}
		done[v.Fn]++
		if v.Want["degenerate"] == true {
			if _, ok := got["lo"]; ok {
				t.Errorf("%s %s: an interval %v from values without spread", v.Fn, v.Name, got)
			}
		}
		for name, want := range numbersOf(v.Want) {
			if slices.Contains(notCompared[v.Fn], name) {
				continue
			}
			if g, ok := got[name]; !ok || math.Abs(g-want) > v.Tol {
				t.Errorf("%s %s: %s = %v (%t), want %v ± %g", v.Fn, v.Name, name, g, ok, want, v.Tol)
			}
		}
	}
	for fn := range checks {
		if done[fn] == 0 {
			t.Errorf("%s: no vector was compared", fn)
		}
	}
}

// numbersOf flattens what a vector wants: lists get an index, booleans are 0 and 1.
func numbersOf(want map[string]any) map[string]float64 {
	out := make(map[string]float64)
	for name, v := range want {
		switch v := v.(type) {
		case float64:
			out[name] = v
		case bool:
			out[name] = map[bool]float64{true: 1}[v]
		case []any:
			for i, x := range v {
				if f, ok := x.(float64); ok {
					out[name+string(rune('0'+i))] = f
				}
			}
		}
	}
	return out
}

func tallies(t *testing.T, raw json.RawMessage) []tally {
	t.Helper()
	var pairs [][2]int
	if err := json.Unmarshal(raw, &pairs); err != nil {
		t.Fatal(err)
	}
	out := make([]tally, len(pairs))
	for i, p := range pairs {
		out[i] = tally{p[0], p[1]}
	}
	return out
}

func namedTallies(t *testing.T, raw json.RawMessage) []tally {
	t.Helper()
	var pairs []struct{ N, C int }
	if err := json.Unmarshal(raw, &pairs); err != nil {
		t.Fatal(err)
	}
	out := make([]tally, len(pairs))
	for i, p := range pairs {
		out[i] = tally{p.C, p.N}
	}
	return out
}

func floats(t *testing.T, raw json.RawMessage) []float64 {
	t.Helper()
	var out []float64
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// The comparison that docs/verdicts.md prints: six cases of five trials, one cell lost.
func TestMeasurePublishedExample(t *testing.T) {
	e := evidence{alpha: 0.05,
		base: []tally{{5, 5}, {4, 5}, {2, 5}, {3, 5}, {5, 5}, {0, 5}},
		head: []tally{{0, 5}, {3, 5}, {2, 4}, {3, 5}, {5, 5}, {0, 5}},
	}
	n := measure(e)
	for _, v := range []struct {
		name      string
		got, want float64
	}{
		{"effect_pp", n.effectPP, -18.333333333333332},
		{"p_global", n.exact.less, 0.07370683061584422},
		{"signflip_p", n.signflip.less, 0.25},
		{"lo_pp", n.loPP, -35.130133397113156},
		{"hi_pp", n.hiPP, 1.6202394902569992},
		{"mde_pp", *n.mdePP, 59.0898},
		{"p of the first case", n.pWorse[0], 0.003968253968253968},
		{"p_holm of the first case", n.holmWorse[0], 0.023809523809523808},
	} {
		if math.Abs(v.got-v.want) > 1e-4 {
			t.Errorf("%s = %v, want %v", v.name, v.got, v.want)
		}
	}
	if n.uninformative != 2 || n.fell+n.rose != 3 {
		t.Errorf("%d cases say nothing and %d moved, want 2 and 3", n.uninformative, n.fell+n.rose)
	}
}

// Uneven trials make so many values that every pass counts alike; the test stays exact.
func TestStratifiedExactCountsPasses(t *testing.T) {
	base := []tally{{16, 17}, {12, 18}, {3, 19}, {20, 20}, {1, 23}}
	head := []tally{{11, 23}, {15, 19}, {2, 18}, {11, 17}, {0, 29}}
	e := stratifiedExact(base, head)
	if !e.counted {
		t.Fatal("the exact differences were used")
	}
	if e.less <= 0 || e.less >= 1 || e.less+e.greater <= 1 {
		t.Errorf("tails %v and %v", e.less, e.greater)
	}
}

func drawTallies(t *rapid.T) (base, head []tally) {
	n := rapid.IntRange(1, 8).Draw(t, "cases")
	for range n {
		x, y := rapid.IntRange(1, 6).Draw(t, "base trials"), rapid.IntRange(1, 6).Draw(t, "head trials")
		base = append(base, tally{rapid.IntRange(0, x).Draw(t, "base"), x})
		head = append(head, tally{rapid.IntRange(0, y).Draw(t, "head"), y})
	}
	return base, head
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestSwappingSidesSwapsTails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, head := drawTallies(t)
		e, swapped := stratifiedExact(base, head), stratifiedExact(head, base)
		if !near(e.less, swapped.greater) || !near(e.greater, swapped.less) {
			t.Fatalf("tails %v, swapped %v", e, swapped)
		}
		diff, lo, hi := stratNewcombe(base, head, 0.95)
		back, lo2, hi2 := stratNewcombe(head, base, 0.95)
		if !near(diff, -back) || !near(lo, -hi2) || !near(hi, -lo2) {
			t.Fatalf("%v [%v, %v], swapped %v [%v, %v]", diff, lo, hi, back, lo2, hi2)
		}
		s, _ := signflipExact(base, head)
		s2, _ := signflipExact(head, base)
		if !near(s.less, s2.greater) {
			t.Fatalf("sign flip %v, swapped %v", s, s2)
		}
	})
}

func TestUninformativeCaseChangesNoP(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, head := drawTallies(t)
		before := stratifiedExact(base, head).less
		n := base[0].n // a new number of trials may change the unit, not the law
		all := rapid.Bool().Draw(t, "all passed")
		k := map[bool]int{true: n}[all]
		after := stratifiedExact(append(base, tally{k, n}), append(head, tally{k, n})).less
		if !near(before, after) {
			t.Fatalf("p %v became %v", before, after)
		}
	})
}

func TestIntervalsHoldTheirEstimate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, head := drawTallies(t)
		diff, lo, hi := stratNewcombe(base, head, 0.95)
		if !(lo <= diff+1e-12 && diff <= hi+1e-12 && lo < hi && lo >= -1 && hi <= 1) {
			t.Fatalf("%v is not in [%v, %v]", diff, lo, hi)
		}
		value, lo, hi, _ := caseMeanInterval(base, 0.95)
		if !(lo <= value+1e-12 && value <= hi+1e-12 && lo < hi && lo >= 0 && hi <= 1) {
			t.Fatalf("%v is not in [%v, %v]", value, lo, hi)
		}
	})
}

// p of the exact test by going through every way to place the passes, for one and two cases.
func TestStratifiedExactAgainstEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, head := drawTallies(t)
		base, head = base[:min(2, len(base))], head[:min(2, len(head))]
		// Each case contributes its possible (difference × common, weight) pairs; 60 divides by all trials to 6.
		law := map[int]float64{0: 1}
		at := 0
		for i := range base {
			x, y := base[i], head[i]
			sum, next, total := x.passed+y.passed, map[int]float64{}, 0.0
			for k := 0; k <= y.n; k++ {
				if sum-k < 0 || sum-k > x.n {
					continue
				}
				ways := math.Exp(logChoose(y.n, k) + logChoose(x.n, sum-k))
				total += ways
				for v, p := range law {
					next[v+k*60/y.n-(sum-k)*60/x.n] += p * ways
				}
			}
			for v := range next {
				next[v] /= total
			}
			law = next
			at += y.passed*60/y.n - x.passed*60/x.n
		}
		want := 0.0
		for v, p := range law {
			if v <= at {
				want += p
			}
		}
		if got := stratifiedExact(base, head).less; !near(got, want) {
			t.Fatalf("p = %v, enumeration says %v", got, want)
		}
	})
}

func TestMedianEstimate(t *testing.T) {
	t.Parallel()
	p := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		name string
		in   []float64
		want *Estimate
	}{
		{"nothing", nil, nil},
		{"five cases have no interval", []float64{5, 1, 4, 2, 3}, &Estimate{Value: 3, N: 5}},
		{"six cases have one", []float64{6, 5, 1, 4, 2, 3}, &Estimate{Value: 3.5, Lo: p(1), Hi: p(6), N: 6}},
	} {
		if diff := cmp.Diff(c.want, medianEstimate(c.in)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
