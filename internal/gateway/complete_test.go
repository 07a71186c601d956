package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/trace"
)

func prompt(f *fake) Prompt {
	zero := 0.0
	return Prompt{Model: Model{Name: "m", Upstream: upstream(f)}, System: "judge", User: "is it <good>?", Temperature: &zero}
}

func TestComplete(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, d, nil)
			a := start(t, f, Options{}, Spec{MaxTurns: 1, MaxCostUSD: 0.001, Markers: []Marker{{Of: "x", Text: "judge"}}})
			a.ask(d, "m", true)
			a.ask(d, "m", true).refusedWith(t, "turns")
			for _, lane := range []string{"judge", "responder", "judge"} {
				text, err := a.cell.Complete(context.Background(), lane, prompt(f))
				if err != nil || text != "hello" {
					t.Fatalf("%s got %q, %v", lane, text, err)
				}
			}
			var sent map[string]any
			if err := json.Unmarshal(f.last, &sent); err != nil || !strings.Contains(string(f.last), "judge") || !strings.Contains(string(f.last), `is it \u003cgood\u003e?`) || !strings.Contains(string(f.last), `"temperature":0`) {
				t.Errorf("the provider got %s", f.last)
			}
			s := a.cell.Close()
			if s.Calls != 1 || s.Turns != 1 || *s.Usage.Output != *sums(d, 1).Output {
				t.Errorf("the agent's sums hold ours: %+v", s)
			}
			if s.Aux.Judge == nil || *s.Aux.Judge.CacheRead != 400 || s.Aux.Responder == nil || *s.Aux.Responder.CacheRead != 200 || s.Aux.Judge.CostUSD == nil {
				t.Errorf("ours: %+v %+v", s.Aux.Judge, s.Aux.Responder)
			}
			if e := a.events(); e[2].Call.Lane != "judge" || e[3].Call.Lane != "responder" {
				t.Errorf("events %+v", e)
			}
		})
	}
}

func TestCompleteFails(t *testing.T) {
	t.Parallel()
	end := func(reason string) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, n int) { write(w, false, scripted(Chat, false, n, reason)) }
	}
	for name, c := range map[string]struct {
		handle func(w http.ResponseWriter, r *http.Request, n int)
		class  trace.Class
		words  string
	}{
		"down":      {func(w http.ResponseWriter, _ *http.Request, _ int) { http.Error(w, "no "+canary, 500) }, trace.ClassModelAPI, "HTTP 500"},
		"wrong key": {func(w http.ResponseWriter, _ *http.Request, _ int) { http.Error(w, "no", http.StatusUnauthorized) }, trace.ClassModelAuth, "HTTP 401"},
		"refusal":   {end("content_filter"), trace.ClassModelRequest, "refused"},
		"cut":       {end("length"), trace.ClassModelRequest, "token limit"},
		"no text": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			fmt.Fprint(w, `{"choices":[{"finish_reason":"stop"}]}`)
		}, trace.ClassModelAPI, "no text"},
		"a page": {func(w http.ResponseWriter, _ *http.Request, _ int) { fmt.Fprint(w, `<html>`) }, trace.ClassModelAPI, "whole"},
		"dies": {func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"choices":[`)
		}, trace.ClassModelAPI, "cut"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, Chat, c.handle)
			a := start(t, f, Options{}, Spec{})
			for range 2 * maxFailures { // the breaker is the agent's
				text, err := a.cell.Complete(context.Background(), "judge", prompt(f))
				var call *CallError
				if !errors.As(err, &call) || call.Fault.Class != c.class || !strings.Contains(err.Error(), c.words) || text != "" || strings.Contains(err.Error(), canary) {
					t.Fatalf("got %q, %v", text, err)
				}
			}
			if s := a.cell.Seen(); s.Refused != nil || s.LastFault != nil || s.LastStatus != 0 || s.Usage != nil || f.n != 2*maxFailures {
				t.Errorf("seen %+v after %d calls", s, f.n)
			}
		})
	}
}

func TestCompleteIsBounded(t *testing.T) {
	t.Parallel()
	f := newFake(t, Chat, nil)
	ctx := context.Background()
	unpriced, keyless := prompt(f), prompt(f)
	unpriced.Model.Name, keyless.Model.KeyEnv = "other", "NOT_SET"
	for name, c := range map[string]struct {
		spec Spec
		opts Options
		p    Prompt
		good int
		want string
	}{
		"calls":   {Spec{Judge: Cap{Calls: 2}}, Options{}, prompt(f), 2, "limit of 2 calls"},
		"cost":    {Spec{Judge: Cap{CostUSD: 0.006}}, Options{}, prompt(f), 2, "cost limit of $0.01"},
		"run":     {Spec{}, Options{RunBudgetUSD: 0.006}, prompt(f), 2, "budget of the run"},
		"unknown": {Spec{Judge: Cap{CostUSD: 1}}, Options{}, unpriced, 0, "price of the model"},
		"no key":  {Spec{}, Options{}, keyless, 0, "NOT_SET"},
	} {
		t.Run(name, func(t *testing.T) {
			a := start(t, f, c.opts, c.spec)
			for range c.good {
				if _, err := a.cell.Complete(ctx, "judge", c.p); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := a.cell.Complete(ctx, "judge", c.p); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q in it", err, c.want)
			}
		})
	}
	a := start(t, f, Options{}, Spec{})
	if _, err := a.cell.Complete(ctx, "main", prompt(f)); err == nil {
		t.Error("the agent's lane can be used")
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := a.cell.Complete(gone, "judge", prompt(f)); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	a.cell.Close()
	if _, err := a.cell.Complete(ctx, "judge", prompt(f)); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("error is %v", err)
	}
}

func TestCompleteIsRecorded(t *testing.T) {
	t.Parallel()
	f := newFake(t, Responses, nil)
	m := &memory{}
	a := start(t, f, Options{Cassettes: m}, Spec{})
	if _, err := a.cell.Complete(context.Background(), "judge", prompt(f)); err != nil {
		t.Fatal(err)
	}
	m.plays = true
	b := start(t, f, Options{Cassettes: m, Transport: noSocket{t}}, Spec{})
	if text, err := b.cell.Complete(context.Background(), "judge", prompt(f)); err != nil || text != "hello" {
		t.Errorf("got %q, %v", text, err)
	}
	var call *CallError
	if _, err := b.cell.Complete(context.Background(), "judge", prompt(f)); !errors.As(err, &call) || call.Fault.Class != trace.ClassCassette {
		t.Errorf("error is %v", err)
	}
}
