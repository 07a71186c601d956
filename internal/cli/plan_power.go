package cli

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/result"
)

// printPower says what a plan could find. Where results of the same suite are, their scatter is used.
func (w *work) printPower(x IO, results string, given, asJSON bool) error {
	planned, err := bench.Make(w.manifest(), func(func(result.Result, error) bool) {})
	if err != nil {
		return err
	}
	measured, err := benchmarkOf(results)
	var none noResults
	switch {
	case errors.As(err, &none) && !given:
		measured = nil
	case err != nil:
		return usage(err)
	}
	power := bench.PowerOf(planned, measured)
	if asJSON {
		return printJSON(x, struct {
			Comparisons []bench.Power `json:"comparisons"`
		}{power})
	}
	for i, p := range power {
		if i > 0 {
			fmt.Fprintln(x.Out)
		}
		writePower(x.Out, p, results)
	}
	return nil
}

func writePower(out io.Writer, p bench.Power, results string) {
	against := p.Base.String()
	if p.Base == p.Head {
		against = "a stored baseline of the same size"
	}
	fmt.Fprintf(out, "%s against %s: %s, %s a side\n", p.Head, against, plural(p.Cases, "case"), plural(p.Trials, "trial"))
	row := func(what, format string, args ...any) {
		fmt.Fprintf(out, "  %-18s %s\n", what, fmt.Sprintf(format, args...))
	}
	row("level", "α %.3g, half of it for a regression", p.Alpha)
	if p.MDEPP == nil {
		row("all cases", "one case says nothing about the suite; at least 2 are needed")
	} else {
		row("all cases", "%s found in 4 of 5 runs; above %.3g pp (mde_max_pp) finding nothing is underpowered", effectText(*p.MDEPP), p.MDEMaxPP)
	}
	if p.Measured {
		row("", "measured in %s: case differences have the sd %.2f%s", results, p.SD, shareText(p.ChanceShare))
	} else {
		row("", "assumed: case differences have the sd %.2f, that of cases of every difficulty that do not change", p.SD)
	}
	for _, f := range p.Finds {
		text := fmt.Sprintf("named in %s of runs by these trials alone", chanceText(f.Screen))
		if f.Fresh != nil {
			text += fmt.Sprintf(", in %s with fresh trials of the worst cases", chanceText(*f.Fresh))
		}
		row(fmt.Sprintf("one case %.0f→%.0f %%", 100*f.From, 100*f.To), "%s", text)
	}
	trials := fmt.Sprintf("%d", p.Cells)
	if p.MostTrials > p.Cells {
		trials += fmt.Sprintf(", with fresh ones %.0f expected when nothing changed, at most %d", math.Ceil(p.ExpectedTrials), p.MostTrials)
	}
	row("trials", "%s", trials)
	row(fmt.Sprintf("to find %.3g pp", p.MDEMaxPP), "%s", buyText(p))
}

func effectText(pp float64) string {
	if pp > 100 {
		return "no effect, however large, is"
	}
	return fmt.Sprintf("an effect of %.0f pp is", math.Ceil(pp))
}

func shareText(share *float64) string {
	if share == nil {
		return ""
	}
	return fmt.Sprintf("; chance inside cases, which trials shrink, makes %s of its square", chanceText(*share))
}

// buyText says what would bring the effect that is found to its limit.
func buyText(p bench.Power) string {
	switch {
	case p.MDEPP != nil && *p.MDEPP <= p.MDEMaxPP:
		return "this plan is enough"
	case p.BuyTrials != nil && p.BuyCases != nil:
		return fmt.Sprintf("%d trials a side, or %d cases of %d", *p.BuyTrials, *p.BuyCases, p.Trials)
	case p.BuyCases != nil:
		return fmt.Sprintf("%d cases of %d trials a side; more trials alone will not do", *p.BuyCases, p.Trials)
	case p.BuyTrials != nil:
		return fmt.Sprintf("%d trials a side", *p.BuyTrials)
	}
	return "no plan of a reasonable size will do"
}

// chanceText never says that something always or never happens when it may not.
func chanceText(share float64) string {
	switch {
	case share > 0 && share < 0.001:
		return "< 0.1 %"
	case share < 1 && share > 0.999:
		return "> 99.9 %"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}
