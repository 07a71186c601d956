package grade

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"

	"github.com/assay-ci/assay/internal/result"
)

type judgeParams struct {
	Rubric        any    `yaml:"rubric" doc:"one statement that holds or does not, or a list of them; all must hold" rule:"required"`
	Model         string `yaml:"model" doc:"the judge, by its full name; best of another family than the agents" rule:"required"`
	Votes         int    `yaml:"votes" doc:"how often each statement is judged, an odd number; most votes decide" default:"3" rule:"min=1,max=15"`
	WithDiffScope bool   `yaml:"with_diff_scope" doc:"the judge sees the size of the change as it was measured, and the patch" default:"false"`
	WithTrace     bool   `yaml:"with_trace" doc:"the judge sees what the agent said and did, without the names of its tools" default:"false"`
	Calibration   string `yaml:"calibration" doc:"file of the case with work that people have judged, as JSON lines; one that passes what they fail, or fails what they pass, so often that sensitivity and specificity add up to less than 1.5 is not heard" rule:"path"`
}

// judge has a model judge the agent's work, one statement a call. The model sees the task, the work and nothing of where
// the work is from: no condition, no harness, no model. It must quote the work; an answer that quotes what is not there is
// no vote.
//
// A statement holds or does not when more than half of the votes say so. Anything else is undecided, and that is an error:
// a judge that is down, or cannot tell, says nothing about the agent. But one statement that does not hold decides, even
// when another one is undecided, so that no agent leaves the rate by confusing its judge.
type judge struct {
	judgeParams
	statements []string
	nonce      func() string
	fault      func(key, msg, hint string) error
	tried      atomic.Pointer[fitness] // nil: not calibrated
}

var (
	_ Grader     = (*judge)(nil)
	_ Checker    = (*judge)(nil)
	_ Judging    = (*judge)(nil)
	_ Calibrated = (*judge)(nil)
)

// Judging is a grader that asks a model.
type Judging interface {
	// JudgeModel is the name of the model. It must be within reach before the first cell runs.
	JudgeModel() string
}

// A Judge asks a model one thing and returns its answer. What the call costs is not the agent's. An error means that the
// model could not be asked: the cell then ends errored.
type Judge func(ctx context.Context, r JudgeRequest) (string, error)

// A JudgeRequest is one call of a judge. Each is new: one that is answered from a cache is no vote.
type JudgeRequest struct {
	Model, System, User string
}

func buildJudge(s Settings) (Grader, error) {
	j := &judge{nonce: rand.Text, fault: s.Fault}
	if err := s.Decode(&j.judgeParams); err != nil {
		return nil, err
	}
	var faults []error
	switch rubric := j.Rubric.(type) {
	case string:
		j.statements = []string{rubric}
	case []any:
		for i, one := range rubric {
			text, ok := one.(string)
			if !ok {
				faults = append(faults, s.Fault(fmt.Sprintf("rubric[%d]", i), "a statement must be text", "write it between quotes"))
			}
			j.statements = append(j.statements, text)
		}
	default:
		faults = append(faults, s.Fault("rubric", "rubric must be text, or a list of texts", "one statement that holds or does not"))
	}
	for i, text := range j.statements {
		if strings.TrimSpace(text) == "" && len(faults) == 0 {
			faults = append(faults, s.Fault("rubric", fmt.Sprintf("statement %d is empty", i+1), "one statement that holds or does not"))
		}
	}
	if j.Votes%2 == 0 {
		faults = append(faults, s.Fault("votes", "an even number of votes can be a draw", "take an odd number"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return j, nil
}

// JudgeModel implements Judging.
func (j *judge) JudgeModel() string { return j.Model }

// Check reads the file of calibration, if there is one.
func (j *judge) Check(caseDir fs.FS) error {
	if j.Calibration == "" {
		return nil
	}
	if _, err := j.examples(caseDir); err != nil {
		return j.fault("calibration", j.Calibration+": "+err.Error(), exampleHint)
	}
	return nil
}

// text is what the assertion says.
func (j *judge) text() string {
	return "judged by " + j.Model + ": " + strings.Join(j.statements, "; ")
}

func (j *judge) Grade(ctx context.Context, e Evidence) (result.Score, error) {
	judged, _ := j.Standing() // grade tells why it is not heard
	s, err := j.grade(ctx, e, &judged)
	s.Judged = &judged
	return s, err
}

// grade counts the votes into judged.
func (j *judge) grade(ctx context.Context, e Evidence, judged *result.Judged) (result.Score, error) {
	if j.WithDiffScope && e.Scope == nil && e.ByAgent {
		return score(j.text(), false, "the change could not be measured, and the agent's tree was the cause: "+e.Unmeasured, nil)
	}
	fit, err := j.standing()
	if err != nil {
		return score(j.text(), false, "", err)
	}
	w, err := j.work(ctx, e)
	if err != nil {
		return score(j.text(), false, "", err)
	}
	var v verdict
	undecided, err := j.judgeAll(ctx, e, w, &v, judged)
	if err == nil && v.passed() {
		err = undecided
	}
	if undecided != nil {
		v.note("%v", undecided)
	}
	v.note("%s", fit)
	return score(j.text(), v.passed(), v.evidence(), err)
}

// judgeAll judges every statement. undecided joins those without a majority; the error is a judge that cannot be asked.
func (j *judge) judgeAll(ctx context.Context, e Evidence, w work, v *verdict, judged *result.Judged) (undecided, err error) {
	for i, statement := range j.statements {
		b, err := j.decide(ctx, e.Judge, e.Log, statement, w)
		if err != nil {
			return nil, err
		}
		judged.Votes += b.votes
		about := ""
		if len(j.statements) > 1 {
			about = fmt.Sprintf("statement %d ", i+1)
		}
		if holds, ok := b.majority(); ok {
			judged.Agreed += max(len(b.yes), len(b.no))
			v.add(holds, "%s%s", about, b.account(holds))
		} else {
			undecided = errors.Join(undecided, fmt.Errorf("%sis undecided: %s", about, b.counts()))
		}
	}
	return undecided, nil
}

// A ballot holds the votes on one statement.
type ballot struct {
	votes   int // that were asked for
	yes, no []vote
	unsure  int
	void    []string // why answers were no votes
}

// A vote is what one call of the judge said.
type vote struct {
	Verdict string   `json:"verdict"`
	Quotes  []string `json:"quotes"`
	Reason  string   `json:"reason"`
}

// The verdicts that a judge may give.
const (
	holdsVerdict = "holds"
	failsVerdict = "does_not_hold"
	unsure       = "cannot_tell"
)

// decide collects the votes on a statement. All are asked for, also when the first ones agree, since how far they agree is
// a part of the evidence.
func (j *judge) decide(ctx context.Context, ask Judge, log io.Writer, statement string, w work) (ballot, error) {
	b := ballot{votes: j.Votes}
	for n := range j.Votes {
		if ctx.Err() != nil {
			return b, context.Cause(ctx)
		}
		if ask == nil {
			return b, fmt.Errorf("there is no way to ask the judge %s", j.Model)
		}
		shown, err := w.show(j.nonce())
		if err != nil {
			return b, err
		}
		r := JudgeRequest{Model: j.Model, System: fmt.Sprintf(judgeSystem, shown.nonce), User: fmt.Sprintf(judgeUser, statement, shown.text)}
		answer, err := ask(ctx, r)
		if err != nil {
			return b, fmt.Errorf("ask the judge %s: %w", j.Model, err)
		}
		why := b.count(answer, shown.data)
		if n == 0 {
			fmt.Fprintf(log, "%s\n\n%s\n", r.System, r.User)
		}
		fmt.Fprintf(log, "----- vote %d: %s\n%s\n", n+1, why, clip(answer, maxAnswer))
	}
	return b, nil
}

// count adds the vote that an answer is, and says what it was taken for. data are what a quote may be from.
func (b *ballot) count(answer string, data []string) string {
	v, err := readVote(answer, data)
	switch {
	case err != nil:
		b.void = append(b.void, err.Error())
		return "no vote, since " + err.Error()
	case v.Verdict == holdsVerdict:
		b.yes = append(b.yes, v)
	case v.Verdict == failsVerdict:
		b.no = append(b.no, v)
	default:
		b.unsure++
	}
	return v.Verdict
}

// majority tells what more than half of all votes say; ok is false when nothing has so many.
func (b ballot) majority() (holds, ok bool) {
	return 2*len(b.yes) > b.votes, 2*max(len(b.yes), len(b.no)) > b.votes
}

// account is what was decided, by how many votes, and the first words that a vote of these quotes.
func (b ballot) account(holds bool) string {
	votes, word := b.no, "does not hold"
	if holds {
		votes, word = b.yes, "holds"
	}
	said := fmt.Sprintf("%s by %d of %d votes", word, len(votes), b.votes)
	if len(votes) < b.votes {
		said += " (" + b.counts() + ")"
	}
	for _, v := range votes {
		if len(v.Quotes) > 0 {
			return said + ", quoting " + show(v.Quotes[0])
		}
	}
	return said + ", quoting nothing: " + show(votes[0].Reason)
}

func (b ballot) counts() string {
	said := fmt.Sprintf("%d for, %d against, %d cannot tell", len(b.yes), len(b.no), b.unsure)
	if len(b.void) > 0 {
		said += fmt.Sprintf(", %d no vote, since %s", len(b.void), b.void[0])
	}
	return said
}

const (
	maxAnswer = 64 << 10 // bytes of an answer
	maxQuotes = 10       // of an answer
)

// readVote reads an answer. The error says why it is no vote.
func readVote(answer string, data []string) (vote, error) {
	var v vote
	if len(answer) > maxAnswer {
		return v, fmt.Errorf("the answer has %d bytes", len(answer))
	}
	d := json.NewDecoder(strings.NewReader(unfenced(answer)))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return v, errors.New("the answer is not the JSON object that was asked for")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, errors.New("the answer is more than one JSON object")
	}
	switch {
	case v.Verdict == unsure:
		return v, nil
	case v.Verdict != holdsVerdict && v.Verdict != failsVerdict:
		return v, fmt.Errorf("its verdict is %s", show(v.Verdict))
	case len(v.Quotes) > maxQuotes:
		return v, fmt.Errorf("it has %d quotes", len(v.Quotes))
	case v.Verdict == holdsVerdict && len(v.Quotes) == 0:
		return v, errors.New("it quotes nothing")
	}
	for _, q := range v.Quotes {
		if !occurs(q, data) {
			return v, fmt.Errorf("its quote %s is not in the work", show(q))
		}
	}
	return v, nil
}

// unfenced takes off the fence that models like to put around JSON.
func unfenced(answer string) string {
	answer = strings.TrimSpace(answer)
	if inner, ok := strings.CutPrefix(answer, "```"); ok {
		if inner, ok = strings.CutSuffix(inner, "```"); ok {
			return strings.TrimPrefix(inner, "json")
		}
	}
	return answer
}

// occurs tells whether a quote stands in one of the texts. White space counts as one blank, since lines are broken anew
// when they are copied.
func occurs(quote string, texts []string) bool {
	quote = folded(quote)
	if quote == "" {
		return false
	}
	for _, t := range texts {
		if strings.Contains(t, quote) {
			return true
		}
	}
	return false
}

func folded(text string) string { return strings.Join(strings.Fields(text), " ") }
