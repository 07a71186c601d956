package report

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/assay-ci/assay/internal/bench"
)

// A place lies within the picture, whatever the value, and keeps the order of values.
func TestPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ v, want float64 }{{0, 3}, {0.5, 50}, {1, 97}, {-4, 3}, {9, 97}} {
		if got := place(c.v, 0, 1); got != c.want {
			t.Errorf("%v lies at %v, want %v", c.v, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		x, y := rapid.Float64Range(-150, 150).Draw(t, "x"), rapid.Float64Range(-150, 150).Draw(t, "y")
		if place(min(x, y), -50, 50) > place(max(x, y), -50, 50) {
			t.Fatal("out of order")
		}
	})
}

// The case that fell most stands first, with its fresh trials as a second pair; what is not there is not drawn.
func TestStrips(t *testing.T) {
	t.Parallel()
	cases := append(broken(), "rose FFF/PPP", "fell PPP/PFF")
	all := strips(confirmed(t, cases, rerun{"timezone", "PPPPPPPP", "PFFFFFFF"}, rerun{"fell", "PPPPPPPP", "PPPPPPPF"}))
	if len(all) != 1 || !all[0].HasFresh {
		t.Fatalf("%+v", all)
	}
	var got []string
	for _, r := range all[0].Rows[:3] {
		got = append(got, fmt.Sprint(r.Title, "; ", r.Screen.Moved, " ", r.Screen.Base, " ", r.Screen.Head))
	}
	want := `timezone: passed 3 of 3 before and 0 of 3 now; in fresh trials it passed 8 of 8 before and 1 of 8 now: confirmed; worse 97 3
fell: passed 3 of 3 before and 1 of 3 now; in fresh trials it passed 8 of 8 before and 7 of 8 now: not confirmed; worse 97 34.3
csv-quoting: passed 3 of 3 before and 3 of 3 now; same 97 97`
	if strings.Join(got, "\n") != want {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if last := all[0].Rows[len(all[0].Rows)-1]; last.Name != "rose" || last.Screen.Moved != "better" || last.Fresh != nil {
		t.Errorf("%+v", last)
	}
	lost := strips(confirmed(t, broken(), rerun{"timezone", "--------", "--------"}))[0].Rows[0]
	if lost.Name != "timezone" || lost.Fresh != nil || lost.Outcome != "too few" {
		t.Errorf("%+v", lost)
	}
}

// What a picture has no room for is counted.
func TestFiguresStaySmall(t *testing.T) {
	t.Parallel()
	b := huge(t, 200, 50)
	if r, f, s := rates(b), forest(b), strips(b); r.Hidden != 10 || f.Hidden != 10 || len(s) > mostStrips {
		t.Errorf("%d arms, %d comparisons hidden, %d strips", r.Hidden, f.Hidden, len(s))
	} else if len(s) == 0 || s[0].Hidden != 140 || len(s[0].Rows) != mostStrip {
		t.Error("the cases of a strip are not bounded")
	}
}

// Every verdict has a shape of its own, but for the two that leave it open.
func TestShapes(t *testing.T) {
	t.Parallel()
	shapes := make(map[string][]string)
	for _, v := range []bench.Verdict{bench.Regressed, bench.Improved, bench.Equivalent, bench.NoEvidence, bench.Underpowered, bench.Invalid} {
		shape := plotRow{Verdict: v}.Shape()
		shapes[shape] = append(shapes[shape], string(v))
	}
	text, err := json.Marshal(shapes)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"cross":["invalid"],"down":["regressed"],"ring":["no_evidence","underpowered"],"square":["equivalent"],"up":["improved"]}`; string(text) != want {
		t.Errorf("%s", text)
	}
}

var (
	picture = regexp.MustCompile(`<svg role="img" aria-labelledby="([^"]+)"><title id="([^"]+)">([^<]*)</title>`)
	named   = regexp.MustCompile(`\sid="([^"]+)"|\bid: '([^']+)'`) // in the page, and what its script makes
	labels  = regexp.MustCompile(`aria-labelledby="([^"]+)"|'aria-labelledby': '([^']+)'`)
)

// Every picture has its numbers as text, under a name of its own.
func TestPicturesHaveText(t *testing.T) {
	t.Parallel()
	page, err := HTML(confirmed(t, broken(), rerun{"timezone", "PPPPPPPP", "PFFFFFFF"}))
	if err != nil {
		t.Fatal(err)
	}
	text, ids := string(page), make(map[string]bool)
	for _, id := range named.FindAllStringSubmatch(text, -1) {
		name := id[1] + id[2]
		if ids[name] {
			t.Errorf("two things are named %s", name)
		}
		ids[name] = true
	}
	for _, label := range labels.FindAllStringSubmatch(text, -1) {
		if name := label[1] + label[2]; !ids[name] {
			t.Errorf("nothing is named %s", name)
		}
	}
	found := picture.FindAllStringSubmatch(text, -1)
	if want := 2 + 1 + 10; len(found) != want || strings.Count(text, `role="img"`) != want {
		t.Errorf("%d pictures, want %d of arms, comparisons and cases", len(found), want)
	}
	for _, p := range found {
		if p[1] != p[2] || !strings.ContainsAny(p[3], "0123456789") {
			t.Errorf("the picture %s tells %q", p[1], p[3])
		}
	}
}
