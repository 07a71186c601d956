package harness

import (
	"context"
	"errors"
	"fmt"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/trace"
)

// conclude derives how an agent ended. What we did to it decides first, then what the gateway saw, then the agent's own
// terminal event, and only then how its process exited: an exit code alone is never a success.
func conclude(ctx context.Context, t Task, ex executor.Exit, a account, complaint string) Outcome {
	var seen gateway.Seen
	if t.Gateway != nil {
		seen = t.Gateway.Close() // the agent has ended; its last answer may not be counted yet
	}
	o := Outcome{
		FinalText: a.FinalText, Turns: a.Turns, Usage: a.Usage, Model: a.Model, Version: a.Version,
		Answered: a.Answered || seen.Turns > 0, Signal: ex.Signal, Survivors: ex.Survivors, Swept: ex.Swept,
	}
	if ex.Signal == "" {
		o.Exit = &ex.Code
	}
	if t.Gateway != nil { // what went over the wire is counted the same way for every agent
		turns := seen.Turns
		o.Turns, o.Usage = &turns, seen.Usage
	}
	if !o.byUs(ctx, t, ex, a, seen) && !o.byGateway(seen) && !o.byAgent(a) {
		o.byProcess(ex, a, complaint)
	}
	o.overflow(t.Gateway == nil && a.Answered || seen.Turns > 0)
	return o
}

// overflow makes a context that the agent filled a limit that it hit. One that was too long for its model from the
// beginning is no doing of the agent: nothing was measured.
func (o *Outcome) overflow(answered bool) {
	if answered && o.Class == trace.ClassContextOverflow && (o.Stop == trace.StopError || o.Stop == trace.StopNoTerminalEvent) {
		o.Stop, o.Class, o.Detail = trace.StopMaxTokens, "", "context overflow: "+o.Detail
	}
}

// byUs is an end that we put to the agent. The class is there for a cell whose model never answered.
func (o *Outcome) byUs(ctx context.Context, t Task, ex executor.Exit, a account, seen gateway.Seen) bool {
	cause := context.Cause(ctx)
	switch {
	case seen.Mismatch != "":
		o.Stop, o.Class, o.Detail = trace.StopError, trace.ClassCassette, seen.Mismatch
	case seen.Refused != nil:
		o.Stop, o.Class, o.Detail = seen.Refused.Stop, seen.Refused.Class, seen.Refused.Detail
	case errors.Is(cause, errStalled):
		o.Stop, o.Class, o.Detail = trace.StopError, trace.ClassStalled, fmt.Sprintf("nothing came from the agent or its model for %s", idle)
	case errors.Is(cause, errTurns):
		o.Stop, o.Detail = trace.StopMaxTurns, fmt.Sprintf("turn limit of %d reached", t.Limits.MaxTurns)
	case errors.Is(cause, errInterrupted):
		o.Stop, o.Detail = trace.StopCancelled, "the responder interrupted the agent"
	case ex.TimedOut:
		o.Stop, o.Detail = trace.StopTimeout, timeoutDetail(t.Limits)
		o.Class = lastClass(a, seen, trace.ClassModelAPI)
	case ex.Cancelled, errors.Is(cause, errOutput):
		o.Stop, o.Detail = halt(ctx, t.Limits)
	default:
		return false
	}
	return true
}

// byGateway is an end that the provider put to the last answer, which some agents hide.
func (o *Outcome) byGateway(seen gateway.Seen) bool {
	switch {
	case seen.LastFault != nil:
		o.Stop, o.Class, o.Detail = trace.StopError, seen.LastFault.Class, seen.LastFault.Detail
	case seen.Finish == "refusal":
		o.Stop, o.Detail = trace.StopRefusal, "the model refused"
	case seen.Finish == "max_tokens":
		o.Stop, o.Detail = trace.StopMaxTokens, "the model's last answer was cut at its token limit"
	default:
		return false
	}
	return true
}

func (o *Outcome) byAgent(a account) bool {
	o.Stop, o.Class, o.Detail = a.Stop, a.Class, a.Detail
	return a.Stop != ""
}

// byProcess is an end without a terminal event.
func (o *Outcome) byProcess(ex executor.Exit, a account, complaint string) {
	o.Stop, o.Class = trace.StopNoTerminalEvent, trace.ClassHarnessCrash
	switch {
	case ex.OOM:
		o.Stop, o.Detail = trace.StopKilled, "out of memory"
	case ex.Signal != "":
		o.Stop, o.Detail = trace.StopKilled, "ended by "+ex.Signal+", which Assay did not send"
	case ex.Code == 126 || ex.Code == 127 || ex.Code != 0 && ex.Out == 0:
		o.Class, o.Detail = trace.ClassHarnessConfig, fmt.Sprintf("exit %d before it said anything", ex.Code)
	default:
		o.Detail = fmt.Sprintf("exit %d without a terminal event", ex.Code)
	}
	if a.LastFault != nil {
		o.Class = a.LastFault.Class
		o.Detail += ": " + a.LastFault.Detail
	} else if said := printable(complaint); said != "" {
		o.Detail += ": " + said
	}
}

// lastClass is the class of the last fault that anyone knows of.
func lastClass(a account, seen gateway.Seen, otherwise trace.Class) trace.Class {
	switch {
	case seen.LastFault != nil:
		return seen.LastFault.Class
	case a.LastFault != nil && a.LastFault.Class != trace.ClassWarning:
		return a.LastFault.Class
	}
	return otherwise
}

// classOfHTTP is the class of an answer that a provider gave with this status.
func classOfHTTP(status int) trace.Class {
	switch {
	case status == 401 || status == 403:
		return trace.ClassModelAuth
	case status == 429:
		return trace.ClassModelLimit
	case status >= 400 && status < 500:
		return trace.ClassModelRequest
	}
	return trace.ClassModelAPI
}
