package responder

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync/atomic"

	"github.com/assay-ci/assay/internal/trace"
)

type scriptedParams struct {
	Rules   []ruleParams `yaml:"rules" doc:"tried in order; the first that matches decides"`
	Default string       `yaml:"default" doc:"what is done when no rule matches; fail makes the cell errored" rule:"required,oneof=allow deny fail"`
}

type ruleParams struct {
	Kind          string `yaml:"kind" doc:"neutral kind of the tool that asks, such as execute"`
	Name          string `yaml:"name" doc:"name of the tool as the agent calls it"`
	InputRegex    string `yaml:"input_regex" doc:"found in the tool's input" rule:"regex"`
	QuestionRegex string `yaml:"question_regex" doc:"found in the question; the rule then matches questions only" rule:"regex"`
	Do            string `yaml:"do" doc:"what is done; allow takes the default answer of a question" rule:"oneof=allow deny interrupt fail"`
	Answer        string `yaml:"answer" doc:"label or text that answers a question; the rule then matches questions only"`
}

// scripted answers by rules.
type scripted struct {
	rules    []*rule
	fallback string
}

// A Ruled is a policy of rules, counted from 1, that knows which of them decided something.
type Ruled interface {
	Responder
	Rules() int         // how many there are
	ForQuestions() bool // some of them match questions only
	Fresh() Ruled       // the policy with no rule used, for one cell
	Used() []int        // the rules that an ask has met so far, in their order
}

var (
	_ Responder = (*scripted)(nil)
	_ Ruled     = (*scripted)(nil)
)

type rule struct {
	ruleParams
	input, question *regexp.Regexp // nil matches everything
	used            atomic.Bool
}

func buildScripted(s Settings) (Responder, error) {
	var p scriptedParams
	if err := s.Decode(&p); err != nil {
		return nil, err
	}
	r := &scripted{fallback: p.Default}
	var faults []error
	for i, rp := range p.Rules {
		rule, err := buildRule(rp, s, fmt.Sprintf("rules[%d]", i))
		r.rules, faults = append(r.rules, rule), append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return r, nil
}

func buildRule(p ruleParams, s Settings, key string) (*rule, error) {
	if (p.Do == "") == (p.Answer == "") {
		return nil, s.Fault(key, "a rule needs do or answer, and not both", "do: allow, deny, interrupt or fail; answer: a label or text")
	}
	input, err := compile(p.InputRegex)
	if err != nil {
		return nil, s.Fault(key+".input_regex", err.Error(), "")
	}
	question, err := compile(p.QuestionRegex)
	if err != nil {
		return nil, s.Fault(key+".question_regex", err.Error(), "")
	}
	return &rule{ruleParams: p, input: input, question: question}, nil
}

func compile(expr string) (*regexp.Regexp, error) {
	if expr == "" {
		return nil, nil
	}
	return regexp.Compile(expr)
}

func (s *scripted) Answer(_ context.Context, ask trace.Ask) (Reply, error) {
	if !isQuestion(ask) {
		do, _, by := s.decide(ask, nil)
		if do == "allow" {
			return allow(ask, by)
		}
		return refuseBy(ask, do, by)
	}
	reply := Reply{Outcome: Allowed}
	for i := range ask.Questions {
		do, answer, by := s.decide(ask, &ask.Questions[i])
		switch do {
		case "allow":
			answer = pick(ask.Questions[i])
		case "":
		default:
			return refuseBy(ask, do, by)
		}
		reply.By, reply.Answers = by, append(reply.Answers, answer)
	}
	return reply, nil
}

// refuseBy does what a rule says that neither allows nor answers.
func refuseBy(ask trace.Ask, do, by string) (Reply, error) {
	if do == "fail" {
		return Reply{}, fmt.Errorf("%s says fail", by)
	}
	r := deny(ask, by, "denied by policy")
	r.Interrupt = do == "interrupt"
	return r, nil
}

// decide returns what the first rule that matches says: do, else an answer. q is nil for a permission.
func (s *scripted) decide(ask trace.Ask, q *trace.Question) (do, answer, by string) {
	for i, r := range s.rules {
		if r.matches(ask, q) {
			r.used.Store(true)
			return r.Do, r.Answer, fmt.Sprintf("scripted rule %d", i+1)
		}
	}
	return s.fallback, "", "scripted default"
}

func (r *rule) matches(ask trace.Ask, q *trace.Question) bool {
	if q == nil && (r.question != nil || r.Answer != "") {
		return false
	}
	return (r.Kind == "" || r.Kind == string(ask.Kind)) &&
		(r.Name == "" || r.Name == ask.Name) &&
		(r.input == nil || r.input.MatchString(ask.Input)) &&
		(r.question == nil || r.question.MatchString(q.Text))
}

// Rules implements Ruled.
func (s *scripted) Rules() int { return len(s.rules) }

// ForQuestions implements Ruled.
func (s *scripted) ForQuestions() bool {
	return slices.ContainsFunc(s.rules, func(r *rule) bool { return r.question != nil || r.Answer != "" })
}

// Fresh implements Ruled.
func (s *scripted) Fresh() Ruled {
	fresh := &scripted{fallback: s.fallback}
	for _, r := range s.rules {
		fresh.rules = append(fresh.rules, &rule{ruleParams: r.ruleParams, input: r.input, question: r.question})
	}
	return fresh
}

// Used implements Ruled.
func (s *scripted) Used() []int {
	var used []int
	for i, r := range s.rules {
		if r.used.Load() {
			used = append(used, i+1)
		}
	}
	return used
}
