package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/responder"
	"github.com/assay-ci/assay/internal/trace"
)

// policyFunc is a policy made of a func.
type policyFunc func(ctx context.Context, ask trace.Ask) (responder.Reply, error)

func (p policyFunc) Answer(ctx context.Context, ask trace.Ask) (responder.Reply, error) {
	return p(ctx, ask)
}

// anyPolicy draws a policy that may do anything at all, and remembers which asks it really allowed.
func anyPolicy(t *rapid.T) policyFunc {
	kinds := rapid.SliceOfN(rapid.SampledFrom([]string{"allow", "deny", "interrupt", "error", "error beside an allowance", "zero", "foreign option", "wrong outcome", "none"}), 1, 6).Draw(t, "policy")
	var mu sync.Mutex
	n := 0
	return func(_ context.Context, ask trace.Ask) (responder.Reply, error) {
		mu.Lock()
		defer mu.Unlock()
		do := kinds[n%len(kinds)]
		n++
		switch do {
		case "allow":
			return responder.Reply{Outcome: responder.Allowed, Choice: "allow", By: "test"}, nil
		case "deny":
			return responder.Reply{Outcome: responder.Denied, Choice: "reject", By: "test"}, nil
		case "interrupt":
			return responder.Reply{Outcome: responder.Denied, Choice: "reject", Interrupt: true, By: "test"}, nil
		case "error":
			return responder.Reply{}, errors.New("no key")
		case "error beside an allowance":
			return responder.Reply{Outcome: responder.Allowed, Choice: "allow"}, errors.New("no key")
		case "foreign option":
			return responder.Reply{Outcome: responder.Allowed, Choice: "allow_all"}, nil
		case "wrong outcome":
			return responder.Reply{Outcome: responder.Allowed, Choice: "reject"}, nil
		case "none":
			return responder.Reply{Outcome: responder.Allowed}, nil
		}
		return responder.Reply{}, nil
	}
}

// Whatever a policy replies, a call of the openai agent runs only when the trace says that its ask was allowed, nothing runs
// after an ask that failed or interrupted, and a failure is an error of class responder.
func TestNoDeniedCallIsExecuted(t *testing.T) {
	t.Parallel()
	h := build(t, "openai", "base_url: http://host/v1")
	rapid.Check(t, func(t *rapid.T) {
		calls := rapid.IntRange(1, 6).Draw(t, "calls")
		var pairs []string
		for i := range calls {
			pairs = append(pairs, "bash", fmt.Sprintf(`{"command": "run %d"}`, i))
		}
		var ran []string
		task := harness.Task{Model: "m1", Responder: anyPolicy(t), Exec: fake{run: func(_ context.Context, c executor.Command) (executor.Exit, error) {
			if line := strings.Join(c.Argv, " "); strings.Contains(line, "run ") {
				ran = append(ran, line[strings.LastIndex(line, "run "):])
			}
			return executor.Exit{}, nil
		}}}
		var events []trace.Event
		harness.SetTransport(h, &chat{answers: []string{uses(pairs...), says("Done.")}})
		o, err := h.Drive(context.Background(), task, func(e trace.Event) { events = append(events, e) })
		var allowed []string
		names := map[string]string{}
		failed := false
		for _, e := range events {
			switch {
			case e.Kind == trace.KindPermissionRequest:
				var in struct{ Command string }
				if json.Unmarshal([]byte(e.Ask.Input), &in) != nil {
					t.Fatalf("input %q", e.Ask.Input)
				}
				names[e.Ask.ID] = in.Command
			case e.Kind == trace.KindPermissionResponse && e.Ask.Outcome == responder.Allowed:
				allowed = append(allowed, names[e.Ask.ID])
			case e.Kind == trace.KindPermissionResponse && e.Ask.By == "fail-closed":
				failed = true
			}
		}
		if !slices.Equal(ran, allowed) {
			t.Fatalf("ran %q, allowed %q", ran, allowed)
		}
		if failed != (err != nil) || failed != (o.Class == trace.ClassResponder) {
			t.Fatalf("an ask failed: %v; %+v, %v", failed, o, err)
		}
	})
}

// After an ask of a script that failed or interrupted, none of its steps is played.
func TestNoScriptGoesOnAfterAFailedAsk(t *testing.T) {
	t.Parallel()
	var steps strings.Builder
	for i := range 6 {
		fmt.Fprintf(&steps, "  - permission: {tool: bash, input: run %d}\n  - run: run %[1]d\n", i)
	}
	h := script(t, steps.String())
	rapid.Check(t, func(t *rapid.T) {
		ran := 0
		task := harness.Task{Model: "none", Responder: anyPolicy(t), Exec: fake{run: func(context.Context, executor.Command) (executor.Exit, error) {
			ran++
			return executor.Exit{}, nil
		}}}
		answered, last := 0, ""
		o, err := h.Drive(context.Background(), task, func(e trace.Event) {
			if e.Kind == trace.KindPermissionResponse {
				answered, last = answered+1, e.Ask.By
			}
		})
		want := answered
		if o.Stop != trace.StopEndTurn {
			want--
		}
		if err != nil || ran != want || (last == "fail-closed") != (o.Class == trace.ClassResponder) {
			t.Fatalf("%d asks, the last answered by %s, and %d commands; %+v, %v", answered, last, ran, o, err)
		}
	})
}

// Every way in which a policy can fail ends in a denial and in class responder, at every door that an agent asks at.
func TestEveryDoorFailsClosed(t *testing.T) {
	t.Parallel()
	bound := func(text string, r responder.Resources) responder.Responder {
		return policyOf(t, text).(responder.Needy).With(r)
	}
	garbage := func(context.Context, string, string) (string, error) { return "Sure, go ahead!", nil }
	policies := map[string]responder.Responder{
		"no responder": nil,
		"an error":     policyFunc(func(context.Context, trace.Ask) (responder.Reply, error) { return responder.Reply{}, errors.New("no") }),
		"silence": policyFunc(func(ctx context.Context, _ trace.Ask) (responder.Reply, error) {
			<-ctx.Done()
			return responder.Reply{}, nil
		}),
		"two invalid replies":   bound("policy: llm, model: m", responder.Resources{Complete: garbage}),
		"no model and no key":   bound("policy: llm, model: m", responder.Resources{}),
		"no terminal":           bound("policy: manual", responder.Resources{}),
		"a rule that says fail": policyOf(t, "{policy: scripted, default: allow, rules: [{do: fail}]}"),
		"an unknown option": policyFunc(func(context.Context, trace.Ask) (responder.Reply, error) {
			return responder.Reply{Outcome: responder.Allowed, Choice: "any"}, nil
		}),
	}
	for name, policy := range policies {
		for door, open := range doors {
			t.Run(door+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { failsClosed(t, open, policy, "n deny reject") })
			})
		}
	}
	// Options whose kinds nobody knows cannot be chosen by kind, and where there is none there is nothing to choose.
	for name, options := range map[string]string{
		"unknown kinds": `[{"optionId":"y","kind":"allow_for_now","name":"Allow"},{"optionId":"n","kind":"no","name":"No"}]`,
		"no options":    `[]`,
	} {
		t.Run("acp "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failsClosed(t, func(t *testing.T) (harness.Harness, harness.Task) { return acpDoor(t, options) }, policyOf(t, "policy: auto-approve"), "")
			})
		})
	}
}

// failsClosed puts one ask of an agent to a policy that fails. choices are the ids of options that deny.
func failsClosed(t *testing.T, open func(*testing.T) (harness.Harness, harness.Task), policy responder.Responder, choices string) {
	t.Helper()
	h, task := open(t)
	task.Responder = policy
	var replies []trace.Ask
	asked := 0
	o, err := h.Drive(t.Context(), task, func(e trace.Event) {
		switch e.Kind {
		case trace.KindPermissionRequest:
			asked++
		case trace.KindPermissionResponse:
			replies = append(replies, *e.Ask)
		}
	})
	if asked != 1 || len(replies) != 1 || o.Class != trace.ClassResponder {
		t.Fatalf("asked %d, answered %d times; %+v, %v", asked, len(replies), o, err)
	}
	r := replies[0]
	denied := r.Outcome == responder.Denied && r.Choice != "" && slices.Contains(strings.Fields(choices), r.Choice)
	cancelled := r.Outcome == responder.Cancelled && r.Choice == "" && choices == ""
	if !denied && !cancelled || r.By != "fail-closed" || r.Reason == "" {
		t.Errorf("%+v", r)
	}
}

// doors are the ways in which an agent asks, each with one that asks once.
var doors = map[string]func(*testing.T) (harness.Harness, harness.Task){
	"acp": func(t *testing.T) (harness.Harness, harness.Task) {
		return acpDoor(t, `[{"optionId":"y","kind":"allow_once","name":"y"},{"optionId":"n","kind":"reject_once","name":"n"}]`)
	},
	"claude": func(t *testing.T) (harness.Harness, harness.Task) {
		return build(t, "claude-code", "{}"), harness.Task{Model: "m", Prompt: "go", Home: "/home", Work: "/work", Exec: fake{run: func(_ context.Context, c executor.Command) (executor.Exit, error) {
			if c.Argv[0] == "sh" { // lays files
				return executor.Exit{}, nil
			}
			fmt.Fprintln(c.Stdout, `{"type":"control_request","request_id":"1","request":{"subtype":"can_use_tool","tool_name":"Bash","tool_use_id":"t","input":{"command":"ls"}}}`)
			return executor.Exit{Code: 1}, nil
		}}}
	},
	"openai": func(t *testing.T) (harness.Harness, harness.Task) {
		h := build(t, "openai", "base_url: http://host/v1")
		harness.SetTransport(h, &chat{answers: []string{uses("bash", `{"command": "ls"}`), says("Done.")}})
		return h, harness.Task{Model: "m1", Exec: neverRuns(t)}
	},
	"script": func(t *testing.T) (harness.Harness, harness.Task) {
		return script(t, "  - permission: {tool: bash, input: ls}\n  - run: ls\n"), harness.Task{Model: "none", Exec: neverRuns(t)}
	},
}

func neverRuns(t *testing.T) fake {
	return fake{run: func(_ context.Context, c executor.Command) (executor.Exit, error) {
		t.Errorf("%q was run", c.Argv)
		return executor.Exit{}, nil
	}}
}

func acpDoor(t *testing.T, options string) (harness.Harness, harness.Task) {
	prompt := 0
	run := polite(func(id int, say func(string)) {
		prompt = id
		say(`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"toolCall":{"toolCallId":"c","kind":"execute"},"options":` + options + `}}`)
	}, func(answer string, say func(string)) {
		if answer == "session/cancel" {
			say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"cancelled"}}`, prompt))
		}
	})
	return build(t, "acp", anyAgent), harness.Task{Model: "m", Prompt: "go", Home: "/home", Work: "/work", Exec: fake{files: emptyFiles{}, run: run}}
}
