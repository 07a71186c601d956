package stats

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
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
		lo, hi, err := Wilson(in.K, in.N, in.Conf)
		return map[string]float64{"lo": lo, "hi": hi}, err
	},
	"case_mean_interval": func(t *testing.T, in inputs) (map[string]float64, error) {
		value, lo, hi, nEff := CaseMeanInterval(tallies(t, in.Cases), in.Conf)
		return map[string]float64{"value": value, "lo": lo, "hi": hi, "n_eff": nEff}, nil
	},
	"strat_newcombe": func(t *testing.T, in inputs) (map[string]float64, error) {
		diff, lo, hi := StratNewcombe(tallies(t, in.Base), tallies(t, in.Cand), in.Conf)
		return map[string]float64{"diff": diff, "lo": lo, "hi": hi}, nil
	},
	"paired_t": func(t *testing.T, in inputs) (map[string]float64, error) {
		base, head := floats(t, in.Base), floats(t, in.Cand)
		d := make([]float64, len(base))
		for i := range d {
			d[i] = head[i] - base[i]
		}
		got := map[string]float64{"diff": Mean(d)}
		if lo, hi, ok := PairedT(d, 0.95); ok {
			got["lo"], got["hi"] = lo, hi
		}
		return got, nil
	},
	"cluster_se": func(_ *testing.T, in inputs) (map[string]float64, error) {
		var cases []Tally
		for i, y := range in.Y {
			if y != 0 && y != 1 {
				return nil, nil // ours takes passes only
			}
			for in.Cluster[i] >= len(cases) {
				cases = append(cases, Tally{})
			}
			cases[in.Cluster[i]].N++
			cases[in.Cluster[i]].Passed += int(y)
		}
		return map[string]float64{"se_CR1_stata": ClusterSE(cases)}, nil
	},
	"median_ci_ranks": func(_ *testing.T, in inputs) (map[string]float64, error) {
		lo, hi, actual, ok := MedianRanks(in.N, in.Conf)
		finite := 0.0
		if ok {
			finite = 1
		}
		return map[string]float64{"lo_rank": float64(lo), "hi_rank": float64(hi), "actual": actual, "finite": finite}, nil
	},
	"pass_at_k": func(_ *testing.T, in inputs) (map[string]float64, error) {
		v, err := PassAtK(in.N, in.C, in.K)
		return map[string]float64{"v": v}, err
	},
	"pass_hat_k": func(_ *testing.T, in inputs) (map[string]float64, error) {
		v, err := PassHatK(in.N, in.C, in.K)
		return map[string]float64{"v": v}, err
	},
	"pass_at_k_suite": func(t *testing.T, in inputs) (map[string]float64, error) {
		v, _, err := PassAt(namedTallies(t, in.Cases), in.K)
		return map[string]float64{"v": v}, err
	},
	"pass_hat_k_suite": func(t *testing.T, in inputs) (map[string]float64, error) {
		_, v, err := PassAt(namedTallies(t, in.Cases), in.K)
		return map[string]float64{"v": v}, err
	},
	"rule_of_three": func(_ *testing.T, in inputs) (map[string]float64, error) {
		return map[string]float64{"exact_upper_one_sided95": RuleOfThree(in.N)}, nil
	},
	"stratified_exact": func(t *testing.T, in inputs) (map[string]float64, error) {
		e := StratifiedExact(tallies(t, in.Base), tallies(t, in.Cand))
		return map[string]float64{"p_less": e.Less, "p_greater": e.Greater, "p_two": e.TwoSided()}, nil
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
		e, _ := SignFlipOf(d)
		return map[string]float64{"p_less": e.Less, "p_greater": e.Greater, "p_two": e.TwoSided()}, nil
	},
	"holm": func(t *testing.T, in inputs) (map[string]float64, error) {
		got := make(map[string]float64)
		for i, p := range Holm(floats(t, in.P)) {
			got["adj"+string(rune('0'+i))] = p
		}
		return got, nil
	},
	"mde_t": func(_ *testing.T, in inputs) (map[string]float64, error) {
		return map[string]float64{"mde": MDE(in.NCases, in.SDDiff, in.Alpha, in.Power)}, nil
	},
	"mde_suite": func(t *testing.T, in inputs) (map[string]float64, error) {
		base, head := tallies(t, in.Base), tallies(t, in.Cand)
		floor, used := SuiteSD(base, head)
		return map[string]float64{"sd_floor": floor, "sd_used": used, "mde": MDE(len(base), used, in.Alpha, in.Power)}, nil
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

func tallies(t *testing.T, raw json.RawMessage) []Tally {
	t.Helper()
	var pairs [][2]int
	if err := json.Unmarshal(raw, &pairs); err != nil {
		t.Fatal(err)
	}
	out := make([]Tally, len(pairs))
	for i, p := range pairs {
		out[i] = Tally{p[0], p[1]}
	}
	return out
}

func namedTallies(t *testing.T, raw json.RawMessage) []Tally {
	t.Helper()
	var pairs []struct{ N, C int }
	if err := json.Unmarshal(raw, &pairs); err != nil {
		t.Fatal(err)
	}
	out := make([]Tally, len(pairs))
	for i, p := range pairs {
		out[i] = Tally{p.C, p.N}
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
