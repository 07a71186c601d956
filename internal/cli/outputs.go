package cli

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/publish"
)

// An outcome is what a mode of the action came to. What a mode has nothing to say about is empty.
type outcome struct {
	Code       int    // exit code, as the command line has it
	Forgiven   bool   // the step succeeds whatever the gate says: another job asks it
	State      string // planned, ran, done, awaiting, nothing_to_run, suite_fault or error
	Err        error  // why it is not what was asked for
	Out        string // results folder, below the workspace
	Benchmark  *bench.Benchmark
	Unverified bool // the benchmark is what a fork said of itself: it opens no gate
	Published  publish.Outcome
	Artifact   string // its address
	Matrix     string // of plan
	HasCells   *bool  // of plan
	Order      *publish.Order
}

// stepCode is the exit code of the step.
func (o outcome) stepCode() int {
	if o.Forgiven && (o.Code == ExitGate || o.Code == ExitUnmeasured) {
		return ExitOK
	}
	return o.Code
}

// failure makes an outcome of an error.
func failure(state string, code int, err error) outcome {
	return outcome{State: state, Code: code, Err: err}
}

// An output of the action: one row of action.yml. What is not known is empty, and never 0.
type output struct {
	name, doc string
	value     func(o outcome) string
}

// outputs are those of action.yml, in its order.
var outputs = []output{
	{"verdict", "regressed, improved, equivalent, no_evidence, underpowered or invalid; empty when nothing was measured", ofBenchmark(func(b bench.Benchmark) string {
		return string(b.Verdict)
	})},
	{"reason", "why, in one word of the closed list in docs/verdicts.md, such as no_baseline", ofBenchmark(func(b bench.Benchmark) string {
		return b.Reason.Code
	})},
	{"gate", "passed, failed or unmeasured", func(o outcome) string {
		if o.Unverified {
			return "unmeasured"
		}
		return ofBenchmark(func(b bench.Benchmark) string { return b.Gate.Result })(o)
	}},
	{"state", "planned, ran, done, awaiting, nothing_to_run, suite_fault or error", func(o outcome) string { return o.State }},
	{"exit-code", "0, 1, 2, 3 or 130, as the command line has it, also where the mode does not fail the step", func(o outcome) string {
		return strconv.Itoa(o.Code)
	}},
	{"pass-rate", "pass rate, 0 to 1, of the arm with the worst comparison", ofBenchmark(func(b bench.Benchmark) string {
		if arm := worstArm(b); arm != nil && arm.PassRate != nil {
			return number4(&arm.PassRate.Value)
		}
		return ""
	})},
	{"delta-pp", "its paired difference in percentage points", ofWorst(func(c bench.Comparison) string { return number4(c.EffectPP) })},
	{"delta-low-pp", "lower bound of that difference", ofWorst(func(c bench.Comparison) string { return number4(c.LoPP) })},
	{"delta-high-pp", "upper bound of that difference", ofWorst(func(c bench.Comparison) string { return number4(c.HiPP) })},
	{"regressed-cases", "number of cases that regressed", ofBenchmark(func(b bench.Benchmark) string {
		return countCases(b, func(p bench.CasePair) bool { return p.Regressed })
	})},
	{"improved-cases", "number of cases that improved", ofBenchmark(func(b bench.Benchmark) string {
		return countCases(b, func(p bench.CasePair) bool { return p.Improved })
	})},
	{"errored-cells", "cells lost to us or to a provider", ofBenchmark(func(b bench.Benchmark) string { return strconv.Itoa(b.Coverage.Errored) })},
	{"skipped-cells", "cells planned and not run", ofBenchmark(func(b bench.Benchmark) string {
		return strconv.Itoa(b.Coverage.Skipped + b.Coverage.Pending)
	})},
	{"coverage", "scored cells by planned cells, 0 to 1", ofBenchmark(func(b bench.Benchmark) string { return number4(&b.Coverage.Share) })},
	{"cost-usd", "what the models cost; empty if any of it could not be metered", ofBenchmark(func(b bench.Benchmark) string { return number4(meteredCost(b)) })},
	{"baseline-sha", "commit of the stored baseline", ofBenchmark(func(b bench.Benchmark) string {
		if b.Origin == nil {
			return ""
		}
		return b.Origin.SHA
	})},
	{"baseline-source", "paired, merge-base, ancestor, file, release, run, ref or none", ofBenchmark(baselineSource)},
	{"out", "the results folder, relative to the workspace; empty when there is none", func(o outcome) string { return o.Out }},
	{"benchmark", "path of benchmark.json, relative to the workspace", page("benchmark.json")},
	{"report", "path of report.md, relative to the workspace", page("report.md")},
	{"artifact-url", "address of the artifact; empty if it was not uploaded from here", func(o outcome) string { return o.Artifact }},
	{"comment-url", "address of the comment; empty if none was written", func(o outcome) string { return o.Published.CommentURL }},
	{"check-url", "address of the check run; empty if none was written", func(o outcome) string { return o.Published.CheckURL }},
	{"degraded", "what could not be published and why, such as comment:403 artifact:ghes; empty if all was", func(o outcome) string {
		return degraded(o.Published.Lost)
	}},
	{"matrix", "plan: JSON for strategy.matrix", func(o outcome) string { return o.Matrix }},
	{"has-cells", "plan: true if there is anything to run", func(o outcome) string {
		if o.HasCells == nil {
			return ""
		}
		return strconv.FormatBool(*o.HasCells)
	}},
	{"accepted", "command: true if the command is to be obeyed", ofOrder(func(o publish.Order) string { return strconv.FormatBool(o.Accepted) })},
	{"sha", "command: the commit to run, 40 hex digits", ofAccepted(func(o publish.Order) string { return o.SHA })},
	{"pr", "command: number of the pull request", ofAccepted(func(o publish.Order) string { return strconv.Itoa(o.PR) })},
	{"case", "command: globs of cases, one a line", ofAccepted(func(o publish.Order) string { return strings.Join(o.Cases, "\n") })},
	{"trials", "command: trials, within their limit", ofAccepted(func(o publish.Order) string {
		if o.Trials == 0 {
			return ""
		}
		return strconv.Itoa(o.Trials)
	})},
}

// writeOutputs gives the outputs as the runner's file takes them. A value may hold foreign text, so what ends it cannot be
// guessed.
func writeOutputs(o outcome) []byte {
	var b strings.Builder
	for _, out := range outputs {
		end := rand.Text()
		fmt.Fprintf(&b, "%s<<%s\n%s\n%s\n", out.name, end, out.value(o), end)
	}
	return []byte(b.String())
}

func ofBenchmark(value func(bench.Benchmark) string) func(outcome) string {
	return func(o outcome) string {
		if o.Benchmark == nil {
			return ""
		}
		return value(*o.Benchmark)
	}
}

func ofWorst(value func(bench.Comparison) string) func(outcome) string {
	return ofBenchmark(func(b bench.Benchmark) string {
		if c := worstComparison(b); c != nil {
			return value(*c)
		}
		return ""
	})
}

func ofOrder(value func(publish.Order) string) func(outcome) string {
	return func(o outcome) string {
		if o.Order == nil {
			return ""
		}
		return value(*o.Order)
	}
}

// ofAccepted keeps what a refused command asked for away from whoever would obey it.
func ofAccepted(value func(publish.Order) string) func(outcome) string {
	return ofOrder(func(o publish.Order) string {
		if !o.Accepted {
			return ""
		}
		return value(o)
	})
}

func page(name string) func(outcome) string {
	return func(o outcome) string {
		if o.Benchmark == nil || o.Out == "" {
			return ""
		}
		return o.Out + "/" + name
	}
}

// worstComparison is the gating comparison with the benchmark's verdict, the one that fell deepest if there are several.
func worstComparison(b bench.Benchmark) *bench.Comparison {
	effect := func(c bench.Comparison) float64 {
		if c.EffectPP == nil {
			return math.Inf(1)
		}
		return *c.EffectPP
	}
	var worst *bench.Comparison
	for i, c := range b.Comparisons {
		if c.Gates && c.Verdict == b.Verdict && (worst == nil || effect(c) < effect(*worst)) {
			worst = &b.Comparisons[i]
		}
	}
	return worst
}

// worstArm is the head of the worst comparison, or the only arm there is.
func worstArm(b bench.Benchmark) *bench.Arm {
	if c := worstComparison(b); c != nil {
		if i := slices.IndexFunc(b.Arms, func(a bench.Arm) bool { return a.ArmID == c.Head.ID }); i >= 0 {
			return &b.Arms[i]
		}
	}
	if len(b.Arms) == 1 {
		return &b.Arms[0]
	}
	return nil
}

// countCases counts the cases of which a gating comparison says so; without one nothing is known.
func countCases(b bench.Benchmark, moved func(bench.CasePair) bool) string {
	cases, known := map[string]bool{}, false
	for _, c := range b.Comparisons {
		if !c.Gates {
			continue
		}
		known = true
		for _, p := range c.PCases {
			if moved(p) {
				cases[p.Case] = true
			}
		}
	}
	if !known {
		return ""
	}
	return strconv.Itoa(len(cases))
}

// meteredCost is what all arms spent; nil unless all of it is known.
func meteredCost(b bench.Benchmark) *float64 {
	var sum float64
	for _, a := range b.Arms {
		if a.Cost.USD == nil || a.Cost.Unknown > 0 {
			return nil
		}
		sum += *a.Cost.USD
	}
	if len(b.Arms) == 0 {
		return nil
	}
	return &sum
}

func baselineSource(b bench.Benchmark) string {
	if c := worstComparison(b); c != nil && c.Axis == "twin" {
		return "paired"
	}
	if b.Origin == nil {
		return ""
	}
	return cmp.Or(b.Origin.Source, "none")
}

// number4 writes a number with at most four digits behind the point.
func number4(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(math.Round(*v*1e4)/1e4, 'f', -1, 64)
}

// degraded names every loss in one line: place:why.
func degraded(lost []publish.Loss) string {
	var words []string
	for _, l := range lost {
		words = append(words, l.Place+":"+strings.ReplaceAll(l.Why, " ", "_"))
	}
	return strings.Join(words, " ")
}
