package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/run"
	"github.com/assay-ci/assay/internal/suite"
)

// admitOptions are the settings of assay check --admit.
type admitOptions struct {
	Times int
	Jobs  int
}

// check refuses settings that no admission could have.
func (o admitOptions) check() error {
	switch {
	case o.Times < 1 || o.Times > 100:
		return fmt.Errorf("--times is %d; each agent may try a case 1 to 100 times", o.Times)
	case o.Jobs < 1:
		return fmt.Errorf("--jobs is %d; at least one case must be tried at a time", o.Jobs)
	}
	return nil
}

// admitted is what an admission of a suite came to.
type admitted struct {
	tried   []result.Admission // by case
	untried map[string]string  // why a case could not be tried
	kept    string             // file of the records, as the caller would write it
}

// admit tries every selected case, and keeps the records beside the suite. Cases that need what is not there are named;
// what is recorded of them stays.
func (w *work) admit(ctx context.Context, x IO, o admitOptions) (*admitted, error) {
	var names []string
	for _, c := range w.suite.Cases {
		if slices.ContainsFunc(w.plan.Cells, func(p plan.Cell) bool { return p.Case == c.ID }) {
			names = append(names, c.ID)
		}
	}
	cells := w.kit.AdmissionCells(names, o.Times+1)
	skipped, err := w.preflight(ctx, x, cells, runOptions{OnUnavailable: "fail"})
	if err != nil {
		return nil, err
	}
	out := &admitted{untried: map[string]string{}}
	for _, c := range cells {
		if why := skipped[c.Key]; why != "" {
			out.untried[c.Case] = why
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return out.untried[name] != "" })
	secrets, err := w.redactor(x, cells, x.getenv)
	if err != nil {
		return nil, err
	}
	models, err := w.openGateway(x, secrets, runOptions{}, w.suite.Budget.MaxCostUSD, 0)
	if err != nil {
		return nil, err
	}
	defer models.Close()
	ledger, err := result.Open(ctx, filepath.Join(w.scratch.dir, "admission"), time.Now)
	if err != nil {
		return nil, ledgerError(err)
	}
	defer ledger.Close()
	ledger.Redact(secrets)
	err = w.kit.Admit(ctx, names, run.AdmitOptions{Ledger: ledger, Times: o.Times, Jobs: o.Jobs, Done: func(a result.Admission, err error) {
		if err != nil {
			out.untried[a.Case] = secrets.String(err.Error())
			return
		}
		a.Rules = gradingRules
		for i := range a.Assertions {
			a.Assertions[i].Evidence = secrets.String(a.Assertions[i].Evidence)
		}
		out.tried = append(out.tried, bench.Admit(a))
		fmt.Fprintf(x.Err, "%d/%d  %s\n", len(out.tried)+len(out.untried), len(names)+len(skippedCases(out.untried, names)), printable(a.Case, 64))
	}})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out.tried, func(a, b result.Admission) int { return strings.Compare(a.Case, b.Case) })
	return out, w.keepAdmissions(out)
}

// skippedCases are those that were never to be tried.
func skippedCases(untried map[string]string, names []string) (out []string) {
	for name := range untried {
		if !slices.Contains(names, name) {
			out = append(out, name)
		}
	}
	return out
}

// admissionFile is the path of the records below the project.
func (w *work) admissionFile() string {
	return path.Join(path.Dir(w.project.file), result.AdmissionFile)
}

// keepAdmissions writes the new records beside the suite, and lets those of other cases stand while they hold.
func (w *work) keepAdmissions(a *admitted) error {
	list := slices.Clone(a.tried)
	old, err := readAdmissions(w.project.fsys, w.admissionFile())
	if err != nil {
		return usage(err)
	}
	for _, was := range old {
		isNew := slices.ContainsFunc(list, func(n result.Admission) bool { return n.Case == was.Case })
		if !isNew && slices.ContainsFunc(w.suite.Cases, func(c suite.Case) bool { return holds(was, c) }) {
			list = append(list, was)
		}
	}
	slices.SortFunc(list, func(a, b result.Admission) int { return strings.Compare(a.Case, b.Case) })
	data, err := result.MarshalAdmissions(list)
	if err != nil {
		return err
	}
	a.kept = w.project.relative(suite.Problems{{Pos: suite.Pos{File: w.admissionFile()}}})[0].Pos.File
	if err := os.WriteFile(filepath.Join(w.project.root, filepath.FromSlash(w.admissionFile())), data, 0o644); err != nil {
		return unmeasured(err)
	}
	return nil
}

// readAdmissions reads the records of a suite; none when there is no file.
func readAdmissions(fsys fs.FS, name string) ([]result.Admission, error) {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := result.ReadAdmissions(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; make it again with assay check --admit", name, err)
	}
	return list, nil
}

// holds tells whether a record is of the case as it is now.
func holds(a result.Admission, c suite.Case) bool {
	return a.Case == c.ID && a.AgentDigest == c.AgentDigest && a.GradeDigest == c.GradeDigest && a.Rules == gradingRules
}

// loadAdmissions reads the records that hold. What a stranger's work tree says of its cases counts for nothing: then they
// are those of the base.
func (w *work) loadAdmissions(untrusted bool) error {
	files := w.project.fsys
	if untrusted {
		var err error
		if files, err = w.base.tip(); err != nil {
			return usage(err)
		}
	}
	list, err := readAdmissions(files, w.admissionFile())
	if err != nil {
		return usage(err)
	}
	w.admissions = map[string]result.Admission{}
	for _, a := range list {
		w.admissions[a.Case] = a
	}
	return nil
}

// admissionOf is the record of a case, or says that there is none.
func (w *work) admissionOf(c suite.Case) *result.Admission {
	if a, ok := w.admissions[c.ID]; ok && holds(a, c) {
		return &a
	}
	return &result.Admission{
		Case: c.ID, AgentDigest: c.AgentDigest, GradeDigest: c.GradeDigest, Rules: gradingRules,
		State: result.NoRecord, Why: []string{}, Assertions: []result.Exercised{},
	}
}

// print says which cases are admitted, why others are not, and what is wrong with single assertions.
func (a *admitted) print(x IO) {
	good := 0
	for _, r := range a.tried {
		switch r.State {
		case result.Admitted:
			good++
			fmt.Fprintf(x.Out, "admitted      %s\n", printable(r.Case, 64))
		case result.Unproven:
			fmt.Fprintf(x.Out, "unproven      %s\n", printable(r.Case, 64))
		default:
			fmt.Fprintf(x.Out, "NOT ADMITTED  %s\n", printable(r.Case, 64))
		}
		for _, why := range r.Why {
			fmt.Fprintf(x.Out, "              %s\n", printable(why, 800))
		}
		for _, e := range r.Assertions {
			if class := bench.ClassOf(e); class != "" {
				fmt.Fprintf(x.Out, "              assertion %s is %s: %s\n", printable(e.ID, 64), class, docOf(class))
			}
		}
	}
	var names []string
	for name := range a.untried {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(x.Out, "not tried     %s\n              %s\n", printable(name, 64), printable(a.untried[name], 800))
	}
	fmt.Fprintf(x.Out, "\n%d of %s admitted, recorded in %s\n", good, plural(len(a.tried)+len(a.untried), "case"), a.kept)
	fmt.Fprintf(x.Out, "%s\n", bench.Detection(run.Gradings))
}

func docOf(class string) string {
	for _, c := range bench.Classes {
		if c.Code == class {
			return c.Doc
		}
	}
	return ""
}

// err is 2 when a case failed, 3 when one could not be tried for a fault that is not its own.
func (a *admitted) err() error {
	if a == nil {
		return nil
	}
	if slices.ContainsFunc(a.tried, func(r result.Admission) bool { return r.State == result.NotAdmitted }) {
		return &exit{ExitUsage, nil}
	}
	if len(a.untried) > 0 {
		return &exit{bench.ExitUnmeasured, nil}
	}
	return nil
}
