package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/suite"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// small is a suite of n cases, two harnesses with three models in all, two conditions and three trials.
func small(n int) *suite.Suite {
	s := &suite.Suite{
		Digest: "sha256:0123456789abcdef0123456789abcdef",
		Harnesses: []suite.Harness{
			{ID: "h1", Models: []string{"m1", "m2"}},
			{ID: "h2", Models: []string{"m1"}},
		},
		Conditions: []suite.Condition{{ID: "without", Baseline: true, Digest: "c0"}, {ID: "with", Digest: "c1"}},
	}
	for i := range n {
		s.Cases = append(s.Cases, suite.Case{ID: fmt.Sprintf("case-%02d", i), Trials: 3, AgentDigest: fmt.Sprint("a", i), GradeDigest: fmt.Sprint("g", i)})
	}
	return s
}

func expand(t testing.TB, s *suite.Suite, sel Selection) []Cell {
	t.Helper()
	p, err := Expand(s, sel)
	if err != nil {
		t.Fatal(err)
	}
	return p.Cells
}

func TestExpandSameInputSameBytes(t *testing.T) {
	a, err := Expand(small(5), Selection{})
	if err != nil {
		t.Fatal(err)
	}
	s := small(5)
	slices.Reverse(s.Cases)
	slices.Reverse(s.Harnesses)
	slices.Reverse(s.Conditions)
	b, err := Expand(s, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	ja, _ := json.Marshal(a)
	jb, _ := json.Marshal(b)
	if string(ja) != string(jb) {
		t.Error("the order of the suite's lists changes the plan")
	}
	if len(a.Cells) != 5*3*2*3 {
		t.Errorf("%d cells, want %d", len(a.Cells), 5*3*2*3)
	}
}

// The order: rounds by trial; inside a round the conditions of one case, harness and model side by side.
func TestOrder(t *testing.T) {
	cells := expand(t, small(6), Selection{})
	for i, c := range cells {
		if i > 0 && c.Trial < cells[i-1].Trial {
			t.Fatalf("cell %d is of trial %d, after one of trial %d", i, c.Trial, cells[i-1].Trial)
		}
		if i%2 == 1 {
			b := cells[i-1]
			if b.Case != c.Case || b.Harness != c.Harness || b.Model != c.Model || b.Trial != c.Trial || b.Condition == c.Condition {
				t.Fatalf("cells %d and %d are no pair: %+v %+v", i-1, i, b, c)
			}
		}
	}
	first := map[string]int{}
	for i := 0; i < len(cells); i += 2 {
		first[cells[i].Condition]++
	}
	if len(first) != 2 {
		t.Errorf("one condition always comes first: %v", first)
	}
}

func TestAddingACaseMovesNoPair(t *testing.T) {
	few, many := expand(t, small(6), Selection{Seed: "s"}), expand(t, small(7), Selection{Seed: "s"})
	many = slices.DeleteFunc(many, func(c Cell) bool { return c.Case == "case-06" })
	if diff := cmp.Diff(few, many); diff != "" {
		t.Errorf("(-without +with another case):\n%s", diff)
	}
}

// Golden keys: a key that changes by accident makes every user's ledger worthless. Change them only with `format`.
// Spare base versions move no cell of the plan, and are run with its trials and keys of their own.
func TestTwins(t *testing.T) {
	s := small(2)
	alone := expand(t, s, Selection{})
	s.Conditions = append(s.Conditions, suite.Condition{ID: "with.base", TwinOf: "with", Spare: true, Digest: "c2"})
	p, err := Expand(s, Selection{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(alone, p.Cells); diff != "" {
		t.Errorf("the plan (-alone +with spare):\n%s", diff)
	}
	if _, err := Expand(s, Selection{Conditions: []string{"with.base"}}); err == nil {
		t.Error("a spare base version can be selected")
	}
	first := p.Twins(s, Selection{}, Drift, func(c Cell) bool { return c.Trial == 1 && c.Harness == "h2" })
	if len(first) != 2 {
		t.Fatalf("%v, want one trial of two cases; the condition without has no base version", first)
	}
	keys := make(map[string]bool)
	for _, c := range slices.Concat(p.Cells, first, p.Twins(s, Selection{}, Rerun, func(Cell) bool { return true })) {
		if keys[c.Key] {
			t.Errorf("two cells have the key of %v", c)
		}
		keys[c.Key] = true
	}
	for _, c := range first {
		if c.Condition != "with.base" || c.Phase != Drift || c.Trial != 1 || c.Harness != "h2" || c.GradeKey == "" {
			t.Errorf("%+v", c)
		}
	}
}

func TestGoldenKeys(t *testing.T) {
	cells := expand(t, small(1), Selection{Trials: 1, Harnesses: []string{"h2"}, Executor: "host", Versions: map[string]string{"h2": "1.0"}})
	var got []string
	for _, c := range cells {
		got = append(got, fmt.Sprintf("%s %.16s %.16s", c.Condition, c.Key, c.GradeKey))
	}
	slices.Sort(got)
	want := []string{
		"with 8be10243b0610652 de9e68a258a28a19",
		"without a00c7472b10c3b4d 5e9ceaa1327376bd",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys changed (-want +got):\n%s", diff)
	}
}

func TestKeysChangeWithTheirInputs(t *testing.T) {
	base := Selection{Executor: "host", Rules: "1", Versions: map[string]string{"h1": "1"}}
	old := expand(t, small(2), base)
	for name, change := range map[string]struct {
		suite     func(*suite.Suite)
		sel       func(*Selection)
		key       bool // the agent's work may change
		gradeOnly bool
	}{
		"prompt":     {suite: func(s *suite.Suite) { s.Cases[0].AgentDigest = "x"; s.Cases[1].AgentDigest = "y" }, key: true},
		"condition":  {suite: func(s *suite.Suite) { s.Conditions[0].Digest = "x"; s.Conditions[1].Digest = "y" }, key: true},
		"executor":   {sel: func(s *Selection) { s.Executor = "docker" }, key: true},
		"grading":    {suite: func(s *suite.Suite) { s.Cases[0].GradeDigest = "x"; s.Cases[1].GradeDigest = "y" }, gradeOnly: true},
		"rules":      {sel: func(s *Selection) { s.Rules = "2" }, gradeOnly: true},
		"seed":       {sel: func(s *Selection) { s.Seed = "other" }},
		"name":       {suite: func(s *suite.Suite) { s.Name = "renamed"; s.Dir = "elsewhere" }},
		"more cases": {suite: func(s *suite.Suite) { s.Cases = append(s.Cases, suite.Case{ID: "new", Trials: 1}) }},
	} {
		t.Run(name, func(t *testing.T) {
			s, sel := small(2), base
			if change.suite != nil {
				change.suite(s)
			}
			if change.sel != nil {
				change.sel(&sel)
			}
			now := map[Cell]Cell{}
			for _, c := range expand(t, s, sel) {
				id := c
				id.Key, id.GradeKey = "", ""
				now[id] = c
			}
			for _, was := range old {
				id := was
				id.Key, id.GradeKey = "", ""
				is := now[id]
				if (is.Key != was.Key) != change.key {
					t.Fatalf("key changed: %v, want %v", is.Key != was.Key, change.key)
				}
				if (is.GradeKey != was.GradeKey) != (change.key || change.gradeOnly) {
					t.Fatalf("grade key changed: %v", is.GradeKey != was.GradeKey)
				}
			}
		})
	}
}

func TestSelection(t *testing.T) {
	s := small(3)
	cells := expand(t, s, Selection{Cases: []string{"case-0[01]"}, Conditions: []string{"with"}, Models: []string{"m2"}, Trials: 2})
	if len(cells) != 2*1*1*2 {
		t.Errorf("%d cells", len(cells))
	}
	for _, sel := range []Selection{{Cases: []string{"nope"}}, {Harnesses: []string{"h1", "h9"}}, {Models: []string{"["}}, {Conditions: []string{"WITH"}}} {
		if _, err := Expand(s, sel); err == nil || !strings.Contains(err.Error(), "the suite has") {
			t.Errorf("%+v: %v", sel, err)
		}
	}
}

// Shards: every cell in exactly one, no case cut, whatever the numbers.
func TestShardLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := small(rapid.IntRange(1, 12).Draw(t, "cases"))
		for i := range s.Cases {
			s.Cases[i].Trials = rapid.IntRange(1, 5).Draw(t, "trials")
		}
		p, err := Expand(s, Selection{})
		if err != nil {
			t.Fatal(err)
		}
		n := rapid.IntRange(1, 8).Draw(t, "n")
		home := map[string]int{}
		total := 0
		for i := 1; i <= n; i++ {
			part, err := Part(p.Cells, fmt.Sprintf("%d/%d", i, n))
			if err != nil {
				t.Fatal(err)
			}
			total += len(part)
			for _, c := range part {
				if was, ok := home[c.Case]; ok && was != i {
					t.Fatalf("%s is in shards %d and %d", c.Case, was, i)
				}
				home[c.Case] = i
			}
		}
		if total != len(p.Cells) {
			t.Fatalf("%d cells in shards, %d in the plan", total, len(p.Cells))
		}
	})
}

func TestPartRefuses(t *testing.T) {
	for _, shard := range []string{"0/2", "3/2", "1", "a/b", "1/257", "/", "-1/2"} {
		if _, err := Part(nil, shard); err == nil {
			t.Errorf("%q is taken", shard)
		}
	}
}

func BenchmarkExpand(b *testing.B) {
	s := small(1000)
	for b.Loop() {
		if _, err := Expand(s, Selection{Trials: 5}); err != nil {
			b.Fatal(err)
		}
	}
}

// A case without an image keeps the key that it had before cases could have one.
func TestImageIsInTheKeyOfItsCaseAlone(t *testing.T) {
	t.Parallel()
	keys := func(images map[string]string) map[string]string {
		of := map[string]string{}
		for _, c := range expand(t, small(2), Selection{Images: images}) {
			of[fmt.Sprintf("%s %s %d", c.Case, c.Arm(), c.Trial)] = c.Key
		}
		return of
	}
	without, with := keys(nil), keys(map[string]string{"case-01": "sha256:a"})
	other := keys(map[string]string{"case-01": "sha256:b"})
	for at, key := range without {
		if own := strings.HasPrefix(at, "case-01"); (with[at] != key) != own || (other[at] != with[at]) != own {
			t.Errorf("%s: %s without an image, %s with one, %s with another", at, key, with[at], other[at])
		}
	}
	const golden = "b275bec34fc215d8c686fc058065f763620eba05afe159eac71aa91d1d4a9fde"
	if got := without["case-00 h1/m1/with 1"]; got != golden {
		t.Errorf("the key of a cell without an image is %s, want %s", got, golden)
	}
}
