package report

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/assay-ci/assay/internal/bench"
)

// CommentBudget is how many bytes a comment may have: GitHub refuses a longer one than 65,536, and the rest is for what
// publishing adds.
const CommentBudget = 60_000

func commentFace(b bench.Benchmark) ([]byte, error) { return Comment(b, CommentBudget), nil }

// lastLevel is the shortest comment. Each level leaves out more, and says so: 0 all, 1 without unchanged cases, 2
// without the bodies of details, 3 with at most 20 moved cases, 4 headline and table only.
const lastLevel = 4

// Comment is the report as a comment on a pull request, at the fullest level that fits the budget. The first line is a
// marker by which the comment is found again, so no cut ever hits it. The budget is kept whenever it is at least
// CommentBudget.
func Comment(b bench.Benchmark, budget int) []byte {
	for level := range lastLevel {
		if page := comment(b, level); len(page) <= budget {
			return page
		}
	}
	return comment(b, lastLevel)
}

func comment(b bench.Benchmark, level int) []byte {
	var w writer
	w.WriteString(marker(b))
	w.line("## %s", strings.Replace(title(b), " ", " Assay: ", 1))
	w.banner(b)
	for i, s := range sentences(b, inMarkdown) {
		if i == 0 {
			s = "**" + s + "**"
		}
		w.line("%s", s)
	}
	w.line("%s", coverageLine(b))

	arms := worstArms(b)
	w.arms(b, arms)
	w.more(len(b.Arms)-len(arms), "arms")
	w.line("%s", smallerIsNotBetter)
	if level == lastLevel {
		w.line("The report was too long for a comment; the cases are in `report.md`, `report.html` and `benchmark.json`.")
		return []byte(w.String())
	}

	most := mostRows
	if level >= 3 {
		most = 20
	}
	fell, rose := movedCases(b)
	w.fell(fell, most)
	w.notScored(b, level)
	w.details(fmt.Sprintf("Cases that passed more often: %d", len(rose)), level, func() { w.rose(rose, most) })
	names := caseNames(b)
	if level >= 1 {
		names = changed(names, fell, rose)
	}
	w.details(fmt.Sprintf("%d of %d cases", len(names), len(caseNames(b))), level, func() { w.cases(b, names) })
	w.details("Method and provenance", level, func() {
		for _, p := range method(b) {
			w.line("%s", text(p, 2000))
		}
		w.table([]string{"what", "value"}, "ll")
		for _, p := range provenance(b) {
			w.row(p[0], code(p[1], 200))
		}
	})
	return []byte(w.String())
}

// marker is the comment's first line. JSON escapes angle brackets, so nothing inside can end it.
func marker(b bench.Benchmark) string {
	data, err := json.Marshal(struct {
		V       int           `json:"v"`
		Key     string        `json:"key"`
		Verdict bench.Verdict `json:"verdict"`
	}{1, "assay", b.Verdict})
	if err != nil {
		panic(err) // a number and two strings always marshal
	}
	return "<!-- assay " + strings.ReplaceAll(string(data), "--", "") + " -->\n"
}

// worstArms are the arms of the comment's table: all, or the worst when there are very many.
func worstArms(b bench.Benchmark) []bench.Arm {
	const most = 30
	if len(b.Arms) <= most {
		return b.Arms
	}
	var out []bench.Arm
	for _, v := range []bench.Verdict{bench.Regressed, bench.Invalid, bench.Underpowered, bench.NoEvidence, bench.Equivalent, bench.Improved} {
		for _, a := range b.Arms {
			if c := comparisonOf(b, a.ArmID); c != nil && c.Verdict == v && len(out) < most {
				out = append(out, a)
			}
		}
	}
	return out
}

// notScored is the warning about cells that are in no rate.
func (w *writer) notScored(b bench.Benchmark, level int) {
	if len(b.Missing) == 0 {
		return
	}
	most := 20
	if level >= 2 {
		most = 5
	}
	var items []string
	for _, m := range b.Missing[:min(len(b.Missing), most)] {
		why := missingWhy(m)
		if m.Detail != "" {
			why = strings.TrimPrefix(why+": "+m.Detail, ": ")
		}
		items = append(items, fmt.Sprintf("> - %s: %s trial %d of %s (%s)", text(m.Status, nameSize), code(m.Case, nameSize), m.Trial, codeName(m.Harness, m.Model, m.Condition), text(why, evidenceSize)))
	}
	w.line("> [!WARNING]\n> **Not scored: %d of %d cells.** They are in no rate.\n>\n%s", len(b.Missing), b.Coverage.Planned, strings.Join(items, "\n"))
	w.more(len(b.Missing)-most, "cells that were not scored")
}

// details writes a part that a reader opens. From level 2 on only its title stays.
func (w *writer) details(title string, level int, body func()) {
	if level >= 2 {
		w.line("%s: see `report.md`.", title)
		return
	}
	w.line("<details><summary><b>%s</b></summary>", title)
	body()
	w.line("</details>")
}

// changed keeps the names of cases that moved.
func changed(names []string, lists ...[]moved) []string {
	is := make(map[string]bool)
	for _, list := range lists {
		for _, m := range list {
			is[m.Case] = true
		}
	}
	var out []string
	for _, n := range names {
		if is[n] {
			out = append(out, n)
		}
	}
	return out
}
