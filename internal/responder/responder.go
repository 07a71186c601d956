// Package responder answers what an agent asks, permissions and questions alike, by one policy for every agent, so that
// the answers are held constant while something else is under test. Pick a policy from [Kinds], build it from its
// settings, and put every ask to it through [Ask].
//
// It fails closed. Options are chosen by their kind and never by their label, since a label such as "Allow for now"
// proves nothing; and what cannot be decided is denied, with an error that says that the cell cannot be measured.
package responder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/assay-ci/assay/internal/trace"
)

// A Responder answers asks by one policy. Its methods may be called at the same time.
type Responder interface {
	// Answer decides one ask. An error means that the policy could not decide; its Reply is then not used. Callers use
	// [Ask], which holds every policy to the same rules.
	Answer(ctx context.Context, ask trace.Ask) (Reply, error)
}

// A Reply is the answer to one ask.
type Reply struct {
	Choice    string   // id of the option taken; empty for questions
	Outcome   string   // Allowed, Denied or Cancelled
	Answers   []string // one a question
	Interrupt bool     // the agent is to be stopped
	By        string   // the policy, and the number of its rule
	Reason    string
}

// The outcomes of a Reply. A question is Allowed when it was answered and Denied when it was declined. Cancelled is a
// permission refused for which the agent offered no option that rejects.
const (
	Allowed   = "allowed"
	Denied    = "denied"
	Cancelled = "cancelled"
)

// Settings are the raw settings of one block of a suite.
type Settings interface {
	// Decode decodes strictly into a pointer to a struct: an unknown key is an error.
	Decode(into any) error
	// Fault returns an error at the place of the key.
	Fault(key, msg, hint string) error
}

// A Kind is one row of the table of policies.
type Kind struct {
	Name   string
	Doc    string // one line
	Params any    // zero value of the struct that its settings decode into
	Build  func(s Settings) (Responder, error)
}

// AutoApprove is the policy that needs no agent to ask: it allows what an unasked agent would do anyway.
const AutoApprove = "auto-approve"

// Kinds is the table of policies. It is never changed.
var Kinds = []Kind{
	{
		Name:   AutoApprove,
		Doc:    "allows every permission and takes the default, else the first answer to every question",
		Params: noParams{},
		Build:  buildAuto(true),
	},
	{
		Name:   "auto-deny",
		Doc:    "denies every permission and declines every question",
		Params: noParams{},
		Build:  buildAuto(false),
	},
	{
		Name:   "scripted",
		Doc:    "answers by the first rule that matches, else by its default",
		Params: scriptedParams{},
		Build:  buildScripted,
	},
	{
		Name:   "llm",
		Doc:    "has a model of yours decide by guidelines; its cost is not the agent's",
		Params: llmParams{},
		Build:  buildLLM,
	},
	{
		Name:   "manual",
		Doc:    "asks you on the terminal; one cell runs at a time, and an answer takes a minute at most",
		Params: noParams{},
		Build:  buildManual,
	},
}

const (
	patience  = time.Minute // for one answer
	maxAnswer = 2000        // bytes of one answer
)

// Ask puts one ask to r and returns a Reply that may be sent to the agent whatever the error says. When r fails, takes
// longer than a minute, or replies with what was not offered, the Reply denies and the error says why: the cell then ends
// errored, class responder. r may be nil, which denies in the same way.
func Ask(ctx context.Context, r Responder, ask trace.Ask) (Reply, error) {
	if r == nil {
		return refuse(ask, errors.New("there is no responder"))
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	reply, err := r.Answer(ctx, ask)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = check(ask, reply)
	}
	if err != nil {
		return refuse(ask, err)
	}
	return reply, nil
}

// refuse is the reply of a failure, and its error.
func refuse(ask trace.Ask, cause error) (Reply, error) {
	r := deny(ask, "fail-closed", cause.Error())
	return r, fmt.Errorf("answer ask %q: %w", ask.ID, cause)
}

// check tells whether the reply is one that the ask allows.
func check(ask trace.Ask, r Reply) error {
	switch {
	case isQuestion(ask):
		return checkAnswers(ask, r)
	case r.Outcome == Cancelled && r.Choice == "":
		return nil
	case r.Outcome == Allowed && r.Choice != "" && slices.Contains(idsOf(ask, allows), r.Choice):
		return nil
	case r.Outcome == Denied && r.Choice != "" && slices.Contains(idsOf(ask, rejects), r.Choice):
		return nil
	}
	return fmt.Errorf("%s replied %q with option %q, which is not an option of that kind", r.By, r.Outcome, r.Choice)
}

func checkAnswers(ask trace.Ask, r Reply) error {
	switch r.Outcome {
	case Denied, Cancelled:
		return nil
	case Allowed:
	default:
		return fmt.Errorf("%s replied %q, which is no outcome", r.By, r.Outcome)
	}
	if len(r.Answers) != len(ask.Questions) {
		return fmt.Errorf("%s gave %d answers to %d questions", r.By, len(r.Answers), len(ask.Questions))
	}
	for i, q := range ask.Questions {
		if !fits(q, r.Answers[i]) {
			return fmt.Errorf("%s gave the answer %q, which question %d does not offer", r.By, trace.Shorten(r.Answers[i], 200), i+1)
		}
	}
	return nil
}

// fits tells whether the question takes the answer: a label that it offers, or free text where that is allowed.
func fits(q trace.Question, answer string) bool {
	if slices.ContainsFunc(q.Options, func(c trace.Choice) bool { return c.Label == answer }) {
		return true
	}
	return takesText(q) && answer != "" && len(answer) <= maxAnswer
}

// takesText tells whether the question can be answered in free text, as one without options must be.
func takesText(q trace.Question) bool { return q.Free || len(q.Options) == 0 }

// isQuestion tells a question from a permission. An ask that offers options to choose from is always a permission: it is
// the stricter of the two.
func isQuestion(ask trace.Ask) bool { return len(ask.Options) == 0 && len(ask.Questions) > 0 }

// The kinds of options, best first: what is granted once does not change what is asked later.
var (
	allows  = [...]string{"allow_once", "allow_always"}
	rejects = [...]string{"reject_once", "reject_always"}
)

// idsOf returns the ids of the options of these kinds, in the order of the kinds. An id that stands for two options is
// left out, since nobody can tell which of them the agent would take.
func idsOf(ask trace.Ask, kinds [2]string) []string {
	seen := make(map[string]int, len(ask.Options))
	for _, o := range ask.Options {
		seen[o.ID]++
	}
	var ids []string
	for _, k := range kinds {
		for _, o := range ask.Options {
			if o.Kind == k && o.ID != "" && seen[o.ID] == 1 {
				ids = append(ids, o.ID)
			}
		}
	}
	return ids
}

// allow grants a permission. The error says that no option grants it.
func allow(ask trace.Ask, by string) (Reply, error) {
	ids := idsOf(ask, allows)
	if len(ids) == 0 {
		return Reply{}, fmt.Errorf("%s found no option that allows", by)
	}
	return Reply{Choice: ids[0], Outcome: Allowed, By: by}, nil
}

// deny refuses a permission or declines a question.
func deny(ask trace.Ask, by, reason string) Reply {
	if isQuestion(ask) {
		return Reply{Outcome: Denied, By: by, Reason: reason}
	}
	if ids := idsOf(ask, rejects); len(ids) > 0 {
		return Reply{Choice: ids[0], Outcome: Denied, By: by, Reason: reason}
	}
	return Reply{Outcome: Cancelled, By: by, Reason: reason}
}

// pick answers one question without knowing anything: what the agent itself marked as default, else its first option.
func pick(q trace.Question) string {
	if len(q.Options) == 0 {
		return "No one is available; use your own judgement."
	}
	i := slices.IndexFunc(q.Options, func(c trace.Choice) bool { return c.Default })
	return q.Options[max(i, 0)].Label
}
