package responder_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/responder"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/assay-ci/assay/internal/trace"
)

// settings are the settings of a policy as a suite has them.
func settings(t testing.TB, text string) suite.Block {
	t.Helper()
	b, err := suite.ReadBlock(fstest.MapFS{"policy.yaml": {Data: []byte(text)}}, "policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func build(t testing.TB, kind, text string) responder.Responder {
	t.Helper()
	for _, k := range responder.Kinds {
		if k.Name == kind {
			r, err := k.Build(settings(t, text))
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
	}
	t.Fatalf("no policy %s", kind)
	return nil
}

func options(kinds ...string) []trace.Option {
	var list []trace.Option
	for _, k := range kinds {
		id, kind, ok := strings.Cut(k, "=")
		if !ok {
			id, kind = k, k
		}
		list = append(list, trace.Option{ID: id, Kind: kind})
	}
	return list
}

var (
	permission = trace.Ask{ID: "p", Name: "Bash", Kind: trace.ToolExecute, Input: "rm -rf build", Options: options("allow_always", "allow_once", "reject_always", "reject_once")}
	question   = trace.Ask{ID: "q", Questions: []trace.Question{
		{Text: "Which database?", Options: []trace.Choice{{Label: "postgres"}, {Label: "sqlite", Default: true}}},
		{Text: "Why?"},
	}}
)

const nobody = "No one is available; use your own judgement."

func TestPolicies(t *testing.T) {
	t.Parallel()
	ask := func(kinds ...string) trace.Ask { return trace.Ask{ID: "p", Options: options(kinds...)} }
	lying := trace.Ask{ID: "p", Options: []trace.Option{
		{ID: "1", Name: "No, never", Kind: "allow_once"}, {ID: "2", Name: "Allow for now", Kind: "reject_once"},
	}}
	closed := trace.Ask{ID: "q", Questions: []trace.Question{{Text: "Go on?", Options: []trace.Choice{{Label: "yes"}, {Label: "no"}}}}}
	free := closed
	free.Questions = []trace.Question{{Text: "Go on?", Options: closed.Questions[0].Options, Free: true}}
	const rules = `
rules:
  - {kind: execute, input_regex: "rm -rf /", do: interrupt}
  - {name: Bash, input_regex: "^rm", do: deny}
  - {kind: execute, do: allow}
  - {question_regex: "(?i)database", answer: postgres}
  - {question_regex: "Why", do: allow}
  - {question_regex: "Go on", answer: maybe}
  - {question_regex: "Stop", do: interrupt}
  - {question_regex: "Die", do: fail}
default: `
	denied := func(choice, by string) responder.Reply {
		return responder.Reply{Choice: choice, Outcome: responder.Denied, By: by, Reason: "denied by policy"}
	}
	for _, c := range []struct {
		name, kind, settings string
		ask                  trace.Ask
		want                 responder.Reply
		fails                string // what the error says; its reply is checked apart
	}{
		{"approve prefers once", "auto-approve", "{}", permission, responder.Reply{Choice: "allow_once", Outcome: "allowed", By: "auto-approve"}, ""},
		{"approve takes always", "auto-approve", "{}", ask("reject_once", "allow_always"), responder.Reply{Choice: "allow_always", Outcome: "allowed", By: "auto-approve"}, ""},
		{"approve reads kinds, not labels", "auto-approve", "{}", lying, responder.Reply{Choice: "1", Outcome: "allowed", By: "auto-approve"}, ""},
		{"approve without an option that allows", "auto-approve", "{}", ask("reject_once", "other"), responder.Reply{Choice: "reject_once"}, "no option that allows"},
		{"approve with two options of one id", "auto-approve", "{}", ask("x=allow_once", "x=reject_once"), responder.Reply{}, "no option that allows"},
		{"approve answers by default, then by judgement", "auto-approve", "{}", question, responder.Reply{Outcome: "allowed", Answers: []string{"sqlite", nobody}, By: "auto-approve"}, ""},
		{"approve answers by the first", "auto-approve", "{}", closed, responder.Reply{Outcome: "allowed", Answers: []string{"yes"}, By: "auto-approve"}, ""},
		{"approve nothing at all", "auto-approve", "{}", trace.Ask{ID: "p"}, responder.Reply{}, "no option that allows"},
		{"deny prefers once", "auto-deny", "{}", permission, denied("reject_once", "auto-deny"), ""},
		{"deny takes always", "auto-deny", "{}", ask("allow_once", "reject_always"), denied("reject_always", "auto-deny"), ""},
		{"deny reads kinds, not labels", "auto-deny", "{}", lying, denied("2", "auto-deny"), ""},
		{"deny cancels when nothing rejects", "auto-deny", "{}", ask("allow_once"), responder.Reply{Outcome: "cancelled", By: "auto-deny", Reason: "denied by policy"}, ""},
		{"deny never takes an id that also allows", "auto-deny", "{}", ask("x=allow_once", "x=reject_once"), responder.Reply{Outcome: "cancelled", By: "auto-deny", Reason: "denied by policy"}, ""},
		{"deny declines questions", "auto-deny", "{}", question, denied("", "auto-deny"), ""},
		{"first rule wins", "scripted", rules + "fail", permission, denied("reject_once", "scripted rule 2"), ""},
		{"rule interrupts", "scripted", rules + "fail", trace.Ask{ID: "p", Kind: trace.ToolExecute, Input: "rm -rf /", Options: permission.Options},
			responder.Reply{Choice: "reject_once", Outcome: "denied", Interrupt: true, By: "scripted rule 1", Reason: "denied by policy"}, ""},
		{"rule allows", "scripted", rules + "fail", trace.Ask{ID: "p", Kind: trace.ToolExecute, Input: "ls", Options: permission.Options},
			responder.Reply{Choice: "allow_once", Outcome: "allowed", By: "scripted rule 3"}, ""},
		{"default allows", "scripted", rules + "allow", ask("allow_once"), responder.Reply{Choice: "allow_once", Outcome: "allowed", By: "scripted default"}, ""},
		{"default denies", "scripted", rules + "deny", ask("reject_once"), denied("reject_once", "scripted default"), ""},
		{"default fails", "scripted", rules + "fail", ask("allow_once", "reject_once"), responder.Reply{Choice: "reject_once"}, "scripted default says fail"},
		{"each question has its rule", "scripted", rules + "fail", question, responder.Reply{Outcome: "allowed", Answers: []string{"postgres", nobody}, By: "scripted rule 5"}, ""},
		{"an answer that is not offered", "scripted", rules + "fail", closed, responder.Reply{}, "does not offer"},
		{"a text where text is allowed", "scripted", rules + "fail", free, responder.Reply{Outcome: "allowed", Answers: []string{"maybe"}, By: "scripted rule 6"}, ""},
		{"a question interrupts", "scripted", rules + "fail", trace.Ask{ID: "q", Questions: []trace.Question{{Text: "Stop?"}}},
			responder.Reply{Outcome: "denied", Interrupt: true, By: "scripted rule 7", Reason: "denied by policy"}, ""},
		{"a question fails", "scripted", rules + "allow", trace.Ask{ID: "q", Questions: []trace.Question{{Text: "Die?"}}}, responder.Reply{}, "scripted rule 8 says fail"},
		{"answers never allow a permission", "scripted", "rules: [{answer: \"yes\"}]\ndefault: deny", permission, denied("reject_once", "scripted default"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := responder.Ask(t.Context(), build(t, c.kind, c.settings), c.ask)
			if c.fails == "" {
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("error is %v, want %q", err, c.fails)
			}
			if got.Outcome == responder.Allowed || got.Choice != c.want.Choice || len(got.Answers) > 0 {
				t.Errorf("a failure replied %+v", got)
			}
		})
	}
}

// policy is a Responder made of a func.
type policy func(ctx context.Context, ask trace.Ask) (responder.Reply, error)

func (p policy) Answer(ctx context.Context, ask trace.Ask) (responder.Reply, error) {
	return p(ctx, ask)
}

// TestAskFailsClosed puts policies to Ask that are wrong in every way: none of them may end in an allowance.
func TestAskFailsClosed(t *testing.T) {
	t.Parallel()
	says := func(r responder.Reply) policy {
		return func(context.Context, trace.Ask) (responder.Reply, error) { return r, nil }
	}
	answers := func(a ...string) policy { return says(responder.Reply{Outcome: "allowed", Answers: a}) }
	for _, c := range []struct {
		name string
		r    responder.Responder
		ask  trace.Ask
	}{
		{"no responder", nil, permission},
		{"an error beside an allowance", policy(func(context.Context, trace.Ask) (responder.Reply, error) {
			return responder.Reply{Outcome: "allowed", Choice: "allow_once"}, errors.New("no key")
		}), permission},
		{"the zero reply", says(responder.Reply{}), permission},
		{"allowed by an option that rejects", says(responder.Reply{Outcome: "allowed", Choice: "reject_once"}), permission},
		{"denied by an option that allows", says(responder.Reply{Outcome: "denied", Choice: "allow_once"}), permission},
		{"cancelled by an option that allows", says(responder.Reply{Outcome: "cancelled", Choice: "allow_once"}), permission},
		{"allowed without an option", says(responder.Reply{Outcome: "allowed"}), permission},
		{"an option that was not offered", says(responder.Reply{Outcome: "allowed", Choice: "allow_all"}), permission},
		{"an outcome nobody knows", says(responder.Reply{Outcome: "sure", Choice: "allow_once"}), permission},
		{"answers to a permission", answers("yes"), permission},
		{"too few answers", answers("sqlite"), question},
		{"too many answers", answers("sqlite", "so", "there"), question},
		{"an answer that was not offered", answers("mysql", "so"), question},
		{"an empty answer", answers("sqlite", ""), question},
		{"an endless answer", answers("sqlite", strings.Repeat("x", 2001)), question},
		{"a question with the zero reply", says(responder.Reply{}), question},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := responder.Ask(t.Context(), c.r, c.ask)
			if err == nil {
				t.Error("no error")
			}
			if got.Outcome != responder.Denied && got.Outcome != responder.Cancelled || got.By != "fail-closed" || got.Reason == "" {
				t.Errorf("reply is %+v", got)
			}
		})
	}
}

func TestAskWaitsNoLongerThanAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := policy(func(ctx context.Context, _ trace.Ask) (responder.Reply, error) {
			<-ctx.Done()
			return responder.Reply{Outcome: "allowed", Choice: "allow_once"}, nil
		})
		began := time.Now()
		got, err := responder.Ask(t.Context(), slow, permission)
		if !errors.Is(err, context.DeadlineExceeded) || got.Outcome != responder.Denied {
			t.Errorf("%+v, %v", got, err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("took %s", took)
		}
	})
}

func TestRulesThatWereUsedAreTold(t *testing.T) {
	t.Parallel()
	r := build(t, "scripted", "rules: [{kind: read, do: allow}, {kind: execute, do: deny}, {answer: x}]\ndefault: deny")
	if _, err := responder.Ask(t.Context(), r, permission); err != nil {
		t.Fatal(err)
	}
	ruled := r.(responder.Ruled)
	if diff := cmp.Diff([]int{2}, ruled.Used()); diff != "" || ruled.Rules() != 3 || !ruled.ForQuestions() {
		t.Errorf("%d rules, for questions %v: %s", ruled.Rules(), ruled.ForQuestions(), diff)
	}
	if fresh := ruled.Fresh(); len(fresh.Used()) != 0 || fresh.Rules() != 3 {
		t.Errorf("a fresh one has used %v of %d", fresh.Used(), fresh.Rules())
	}
}

func TestBuildRefusesWithAPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, settings, want string }{
		{"auto-approve", "rules: []", "policy.yaml:1:1: unknown key"},
		{"auto-deny", "default: allow", "policy.yaml:1:1: unknown key"},
		{"scripted", "rules: []", "policy.yaml:1:1: default is missing"},
		{"scripted", "default: interrupt", "policy.yaml:1:10: default"},
		{"scripted", "default: deny\nrules:\n  - {kind: read}", "policy.yaml:3:5: a rule needs do or answer"},
		{"scripted", "default: deny\nrules:\n  - {do: allow, answer: x}", "policy.yaml:3:5: a rule needs do or answer, and not both"},
		{"scripted", "default: deny\nrules:\n  - {do: allow, input_regex: \"(\"}", "policy.yaml:3:30: input_regex"},
		{"scripted", "default: deny\nrules:\n  - {do: maybe}", "policy.yaml:3:10: do"},
		{"llm", "guidelines: Be kind.", "policy.yaml:1:1: model is missing"},
		{"llm", "model: m\ndialect: morse", "policy.yaml:2:10: dialect"},
		{"manual", "model: m", "policy.yaml:1:1: unknown key"},
	} {
		for _, k := range responder.Kinds {
			if k.Name != c.kind {
				continue
			}
			if _, err := k.Build(settings(t, c.settings)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %q: %v, want %q", c.kind, c.settings, err, c.want)
			}
		}
	}
}

func TestEveryPolicyIsDescribed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range responder.Kinds {
		if k.Name == "" || k.Doc == "" || k.Params == nil || k.Build == nil || seen[k.Name] {
			t.Errorf("row %+v", k)
		}
		seen[k.Name] = true
	}
}
