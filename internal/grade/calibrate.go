package grade

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/stats"
)

// Calibrated is a grader that may have to be tried on work that people have judged.
type Calibrated interface {
	// Calibrate is called once in a run, before the first cell is graded; without examples it does nothing. The error is
	// ours: the judge could not be asked, or the examples could not be read.
	Calibrate(ctx context.Context, ask Judge, caseDir fs.FS) error
	// NeedsCalibration tells whether there are examples.
	NeedsCalibration() bool
	// Standing is what Calibrate found. The error says that the judge is not to be heard.
	Standing() (result.Judged, error)
}

// An example is one line of a file of calibration: work that people have judged. A judge is shown of it what it is shown of
// a cell.
type example struct {
	Statement int    `json:"statement"` // from 1; may be left out when there is one
	Task      string `json:"task"`
	Answer    string `json:"answer"` // the agent's last words
	Trace     string `json:"trace"`
	Change    string `json:"change"`
	Holds     *bool  `json:"holds"` // what people say
}

const (
	minExamples = 50
	maxExamples = 1000
	exampleHint = `one JSON object a line, such as {"answer": "…", "holds": true}; further keys: statement (a number from 1), task, trace, change`
)

// examples reads the file of calibration.
func (j *judge) examples(caseDir fs.FS) ([]example, error) {
	content, err := readWhole(caseDir, j.Calibration)
	if err != nil {
		return nil, err
	}
	var list []example
	var fit fitness
	for n := 1; len(content) > 0; n++ {
		var line []byte
		line, content, _ = bytes.Cut(content, []byte("\n"))
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		one, err := j.example(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		list = append(list, one)
		fit.add(*one.Holds, *one.Holds)
		if len(list) > maxExamples {
			return nil, fmt.Errorf("there are more than %d examples", maxExamples)
		}
	}
	switch {
	case len(list) < minExamples:
		return nil, fmt.Errorf("%d examples are too few to tell how good a judge is; %d is the least", len(list), minExamples)
	case fit.tp == 0 || fit.tn == 0:
		return nil, errors.New("the examples are all of one kind; some must hold and some not")
	}
	return list, nil
}

func (j *judge) example(line []byte) (example, error) {
	var one example
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&one); err != nil {
		return one, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return one, errors.New("there is more than one JSON object")
	}
	if one.Statement == 0 && len(j.statements) == 1 {
		one.Statement = 1
	}
	switch {
	case one.Holds == nil:
		return one, errors.New("holds is missing")
	case one.Statement < 1 || one.Statement > len(j.statements):
		return one, fmt.Errorf("statement is %d, and the rubric has %d", one.Statement, len(j.statements))
	}
	return one, nil
}

// work is the example as a judge sees it.
func (x example) work(p judgeParams) work {
	w := work{task: x.Task, parts: []part{{answerTitle, bounded(x.Answer)}}}
	if p.WithTrace {
		w.parts = append(w.parts, part{traceTitle, bounded(x.Trace)})
	}
	if p.WithDiffScope {
		w.parts = append(w.parts, part{changeTitle, bounded(x.Change)})
	}
	return w
}

// NeedsCalibration implements Calibrated.
func (j *judge) NeedsCalibration() bool { return j.Calibration != "" }

// Calibrate implements Calibrated. An example is judged like a cell, with all its votes.
func (j *judge) Calibrate(ctx context.Context, ask Judge, caseDir fs.FS) error {
	if j.Calibration == "" {
		return nil
	}
	list, err := j.examples(caseDir)
	if err != nil {
		return fmt.Errorf("calibrate the judge %s by %s: %w", j.Model, j.Calibration, err)
	}
	fit := &fitness{}
	for _, one := range list {
		b, err := j.decide(ctx, ask, io.Discard, j.statements[one.Statement-1], one.work(j.judgeParams))
		if err != nil {
			return fmt.Errorf("calibrate the judge: %w", err)
		}
		said, ok := b.majority()
		if !ok {
			said = !*one.Holds // people could tell
			fit.undecided++
		}
		fit.add(*one.Holds, said)
	}
	j.tried.Store(fit)
	return nil
}

// A fitness tells how well a judge agrees with people. Undecided examples count as wrong.
type fitness struct {
	tp, fn    int // people say that it holds: so does the judge, or not
	tn, fp    int // people say that it does not
	undecided int // of fn and fp
}

func (f *fitness) add(truth, said bool) {
	switch {
	case truth && said:
		f.tp++
	case truth:
		f.fn++
	case said:
		f.fp++
	default:
		f.tn++
	}
}

// sensitivity is the share of what holds that the judge passes, specificity the share of the rest that it fails.
func (f *fitness) sensitivity() float64 { return float64(f.tp) / float64(f.tp+f.fn) }
func (f *fitness) specificity() float64 { return float64(f.tn) / float64(f.tn+f.fp) }

// agreement is how people and the judge stand to each other.
func (f *fitness) agreement() stats.Confusion {
	return stats.Confusion{BothYes: f.tp, OnlyFirst: f.fn, OnlySecond: f.fp, BothNo: f.tn}
}

// minInformed is the least sensitivity + specificity − 1 of a judge that is heard: half way between a coin and people.
const minInformed = 0.5

// calibration is the fitness as a result holds it; nil when there is none.
func (f *fitness) calibration() *result.Calibration {
	if f == nil {
		return nil
	}
	return &result.Calibration{
		Holding: f.tp + f.fn, HoldsPassed: f.tp, Failing: f.tn + f.fp, FailsRefused: f.tn, Undecided: f.undecided,
		Kappa: f.agreement().Kappa(), AC1: f.agreement().AC1(), Heard: f.informed(),
	}
}

func (f *fitness) informed() bool { return f.sensitivity()+f.specificity()-1 >= minInformed }

// Standing implements Calibrated.
func (j *judge) Standing() (result.Judged, error) {
	_, err := j.standing()
	return result.Judged{Model: j.Model, Calibration: j.tried.Load().calibration()}, err
}

// standing says how far the judge can be trusted. The error is for one that is not to be heard.
func (j *judge) standing() (string, error) {
	if j.Calibration == "" {
		return "the judge is not calibrated", nil
	}
	f := j.tried.Load()
	if f == nil {
		return "", fmt.Errorf("the judge %s was not calibrated before it was asked", j.Model)
	}
	said := fmt.Sprintf("on %d examples the judge passed %d of the %d that hold and failed %d of the %d that do not (kappa %.2f, AC1 %.2f, %d undecided)",
		f.tp+f.fn+f.tn+f.fp, f.tp, f.tp+f.fn, f.tn, f.tn+f.fp, f.agreement().Kappa(), f.agreement().AC1(), f.undecided)
	if !f.informed() {
		return "", fmt.Errorf("the judge %s is no match for people, so it is not heard: %s", j.Model, said)
	}
	return said, nil
}
