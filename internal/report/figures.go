package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/bench"
)

// How much of a large run the pictures hold; the tables and benchmark.json have the rest.
const (
	mostPlotted = 40  // rows of the arms, and of the comparisons
	mostStrips  = 10  // comparisons whose cases are drawn
	mostStrip   = 60  // cases of a comparison
	wholeName   = 200 // characters of each part of a name in the title of a picture
)

// Places in a picture are in percent of its width, so that it fits screens and paper alike. Its ends keep free of marks.
const plotEdge = 3

// place is where a value lies between the ends of a scale, as a percentage with a digit.
func place(v, lo, hi float64) float64 {
	share := min(1, max(0, (v-lo)/(hi-lo)))
	return math.Round(10*(plotEdge+share*(100-2*plotEdge))) / 10
}

// A tick is a number under a picture.
type tick struct {
	At   float64
	Text string
}

// A plotRow is an estimate with its interval, and its numbers in words.
type plotRow struct {
	ID                   string // of its title, in the page
	Name, Note           string
	Title                string // whole names and numbers, for those who do not see the picture
	Figures              string
	Verdict              bench.Verdict // of a comparison
	Drawn                bool
	Lo, At, Hi           float64
	BandStart, BandWidth float64 // of the margin, of a comparison
}

// A plot is a picture of several rows over one scale.
type plot struct {
	Rows   []plotRow
	Zero   float64 // of the comparisons
	Ticks  []tick
	Hidden int // rows that it has no room for
}

// wholeOf is a name of several parts as long as it is, within reason.
func wholeOf(parts ...string) string {
	whole := make([]string, len(parts))
	for i, p := range parts {
		whole[i] = clean(p, wholeName)
	}
	return strings.Join(whole, " · ")
}

// rates is the picture of the pass rate of each arm.
func rates(b bench.Benchmark) plot {
	out := plot{Hidden: max(0, len(b.Arms)-mostPlotted)}
	for _, share := range []float64{0, 0.25, 0.5, 0.75, 1} {
		out.Ticks = append(out.Ticks, tick{place(share, 0, 1), fmt.Sprintf("%.0f %%", 100*share)})
	}
	for i, a := range b.Arms[:min(len(b.Arms), mostPlotted)] {
		row := plotRow{ID: fmt.Sprintf("rate-%d", i), Name: plainName(a.Harness, a.Model, a.Condition), Figures: "nothing scored"}
		if a.Baseline {
			row.Note = "baseline"
		}
		if a.PassRate != nil {
			row.Figures = percent(a.PassRate.Value) + " %"
		}
		if r := a.PassRate; r != nil && r.Lo != nil && r.Hi != nil {
			row.Drawn, row.Lo, row.At, row.Hi = true, place(*r.Lo, 0, 1), place(r.Value, 0, 1), place(*r.Hi, 0, 1)
			row.Figures += fmt.Sprintf(" (%s)", interval(percent, r.Lo, r.Hi))
		}
		row.Title = fmt.Sprintf("%s: pass rate %s", wholeOf(a.Harness, a.Model, a.Condition), row.Figures)
		out.Rows = append(out.Rows, row)
	}
	return out
}

// forest is the picture of the effect of each comparison.
func forest(b bench.Benchmark) plot {
	shown := b.Comparisons[:min(len(b.Comparisons), mostPlotted)]
	scale := scaleOf(shown)
	out := plot{Zero: place(0, -scale, scale), Hidden: len(b.Comparisons) - len(shown)}
	for _, v := range []float64{-scale, -scale / 2, 0, scale / 2, scale} {
		out.Ticks = append(out.Ticks, tick{place(v, -scale, scale), plusMinus(v)})
	}
	for i, c := range shown {
		row := plotRow{ID: fmt.Sprintf("effect-%d", i), Name: plainName(c.Head.ID.Harness, c.Head.ID.Model, c.Head.ID.Condition),
			Note: "against " + baseName(c, plain), Verdict: c.Verdict, Figures: "nothing to compare"}
		if !c.Gates {
			row.Note += ", does not gate"
		}
		row.BandStart = place(-c.MarginPP, -scale, scale)
		row.BandWidth = math.Round(10*(place(c.MarginPP, -scale, scale)-row.BandStart)) / 10
		if c.EffectPP != nil {
			row.Figures = fmt.Sprintf("%s pp (%s)", signed(*c.EffectPP), interval(signed, c.LoPP, c.HiPP))
		}
		if c.EffectPP != nil && c.LoPP != nil && c.HiPP != nil {
			row.Drawn = true
			row.Lo, row.At, row.Hi = place(*c.LoPP, -scale, scale), place(*c.EffectPP, -scale, scale), place(*c.HiPP, -scale, scale)
		}
		row.Title = fmt.Sprintf("%s %s: %s, %s", wholeOf(c.Head.ID.Harness, c.Head.ID.Model, c.Head.ID.Condition), row.Note, word(c.Verdict), row.Figures)
		out.Rows = append(out.Rows, row)
	}
	return out
}

// Shape is how the verdict is drawn, since not every eye shows colour.
func (r plotRow) Shape() string {
	switch r.Verdict {
	case bench.Regressed:
		return "down"
	case bench.Improved:
		return "up"
	case bench.Equivalent:
		return "square"
	case bench.NoEvidence, bench.Underpowered:
		return "ring"
	}
	return "cross"
}

// A strip is the cases of one comparison, the largest fall first.
type strip struct {
	Name, Base string
	Rows       []stripRow
	Ticks      []tick
	Hidden     int
	HasFresh   bool
}

// A stripRow is the rates of one case on both sides; Fresh are those of its fresh trials, or nil.
type stripRow struct {
	ID, Name, Title string
	Screen          change
	Fresh           *change
	Outcome         string // of the fresh trials
	fall            float64
}

// A change is two rates as places, with the numbers that they are of.
type change struct {
	Base, Head float64
	Moved      string // worse, better or same
	Figures    string
}

func changeOf(base, head bench.Passes) change {
	b, h := rateOf(base), rateOf(head)
	moved := "same"
	switch {
	case h < b:
		moved = "worse"
	case h > b:
		moved = "better"
	}
	return change{place(b, 0, 1), place(h, 0, 1), moved, fromTo(base, head)}
}

// rateOf is the share of passed trials; without a trial it is 0.
func rateOf(p bench.Passes) float64 { return float64(p.Passed) / float64(max(1, p.N)) }

// strips are the pictures of the cases of each gating comparison.
func strips(b bench.Benchmark) []strip {
	var out []strip
	for _, c := range gating(b) {
		if len(c.PCases) == 0 || len(out) == mostStrips {
			continue
		}
		s := strip{Name: plainName(c.Head.ID.Harness, c.Head.ID.Model, c.Head.ID.Condition), Base: baseName(*c, plain), Hidden: max(0, len(c.PCases)-mostStrip)}
		for _, share := range []float64{0, 0.5, 1} {
			s.Ticks = append(s.Ticks, tick{place(share, 0, 1), fmt.Sprintf("%.0f %%", 100*share)})
		}
		for _, p := range c.PCases {
			s.Rows = append(s.Rows, stripOf(p))
			s.HasFresh = s.HasFresh || s.Rows[len(s.Rows)-1].Fresh != nil
		}
		slices.SortStableFunc(s.Rows, func(x, y stripRow) int { return cmp.Or(cmp.Compare(y.fall, x.fall), strings.Compare(x.Name, y.Name)) })
		s.Rows = s.Rows[:min(len(s.Rows), mostStrip)]
		for i := range s.Rows {
			s.Rows[i].ID = fmt.Sprintf("case-%d-%d", len(out), i)
		}
		out = append(out, s)
	}
	return out
}

func stripOf(p bench.CasePair) stripRow {
	row := stripRow{Name: plainName(p.Case), Screen: changeOf(p.Base, p.Head), fall: rateOf(p.Base) - rateOf(p.Head)}
	row.Title = fmt.Sprintf("%s: %s", wholeOf(p.Case), beforeAndNow(p.Base, p.Head))
	if p.Confirm == nil {
		return row
	}
	row.Title += "; in fresh trials it " + beforeAndNow(p.Confirm.Base, p.Confirm.Head)
	switch {
	case p.Phase != bench.ConfirmPhase:
		row.Outcome = "too few"
	case p.Regressed:
		row.Outcome = "confirmed"
	default:
		row.Outcome = "not confirmed"
	}
	if p.Confirm.Base.N > 0 && p.Confirm.Head.N > 0 {
		fresh := changeOf(p.Confirm.Base, p.Confirm.Head)
		row.Fresh = &fresh
	}
	row.Title += ": " + row.Outcome
	return row
}

// scaleOf is the smallest of a few round bounds, in percentage points, that holds every interval and margin.
func scaleOf(list []bench.Comparison) float64 {
	most := 0.0
	for _, c := range list {
		most = max(most, math.Abs(c.MarginPP))
		for _, v := range []*float64{c.EffectPP, c.LoPP, c.HiPP} {
			if v != nil {
				most = max(most, math.Abs(*v))
			}
		}
	}
	for _, scale := range []float64{10, 20, 50} {
		if most <= scale {
			return scale
		}
	}
	return 100
}
