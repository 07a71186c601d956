package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/trace"
)

const maxTraceFile = 64 << 20 // bytes that are read of a trace that an agent wrote

// mergeTrace adds the trace that the agent wrote to ours, and what it tells to the outcome. Its events are marked late,
// for they were learned after the fact; how the agent ended is ours to say, and its own stop can only make it worse.
func mergeTrace(ctx context.Context, t Task, o *Outcome, emit func(trace.Event)) error {
	m := merger{emit: emit, prompt: t.Prompt, out: o}
	r, w := io.Pipe()
	done := make(chan executor.Exit, 1)
	go func() {
		// A link or a FIFO that the agent left at the name is not read.
		ex, err := t.Exec.Run(ctx, executor.Command{
			Argv:      []string{"sh", "-c", `[ -L "$1" ] || [ ! -f "$1" ] || cat -- "$1"`, "sh", path.Join(t.Home, traceName)},
			Stdout:    w,
			Timeout:   time.Minute,
			MaxOutput: maxTraceFile,
		})
		w.CloseWithError(err) // nil is the end of the file
		done <- ex
	}()
	var broken error
	for e, err := range trace.Read(r) {
		if line, ok := err.(*trace.LineError); ok {
			emit(warning("the agent's own " + line.Error()))
		} else if err != nil {
			broken = fmt.Errorf("read the agent's trace: %w", err)
		} else {
			m.add(e)
		}
	}
	ex := <-done
	if broken != nil {
		return broken
	}
	if ex.Code != 0 || ex.Signal != "" || ex.Truncated {
		emit(warning("the agent's own trace could not be read to its end"))
	}
	m.finish(t.Limits)
	return nil
}

// merger gathers what the events of an agent say about its session.
type merger struct {
	emit    func(trace.Event)
	prompt  string
	out     *Outcome
	events  int
	turns   int
	final   string
	steps   *trace.Usage // sum of the reports of single steps and turns
	session *trace.Usage // last report of the whole session
	stop    *trace.Stop
}

func (m *merger) add(e trace.Event) {
	m.events++
	switch e.Kind {
	case trace.KindSessionStart: // ours stands already; what the agent adds to it goes to the outcome
		if e.Session != nil {
			m.out.Model, m.out.Version = e.Session.ModelReported, e.Session.Version
		}
		return
	case trace.KindUserMessage:
		if e.Text == m.prompt {
			return
		}
	case trace.KindStop:
		m.stop = e.Stop
		return
	case trace.KindModelCall: // only the gateway may say what a model was asked
		e = trace.Event{Kind: trace.KindOther, Text: "model_call of the agent itself", Raw: rawOf(e)}
	case trace.KindAssistantText:
		if e.Parent == "" && !e.Synthetic {
			m.turns++
			m.final = e.Text
		}
	case trace.KindUsage:
		if e.Usage == nil {
			break
		}
		u := claimed(*e.Usage)
		e.Usage = &u
		switch u.Scope {
		case "session":
			m.session = &u
		case "step", "turn":
			m.steps = addUsage(m.steps, u)
		}
	}
	e.Late = true
	m.emit(e)
}

// finish puts what was gathered into the outcome.
func (m *merger) finish(l Limits) {
	o := m.out
	o.Answered = o.Answered || m.events > 0
	o.Usage = m.steps
	if m.session != nil {
		o.Usage = m.session
	}
	if m.turns > 0 {
		o.Turns, o.FinalText = &m.turns, m.final
	}
	if o.Stop != trace.StopEndTurn {
		return
	}
	if m.stop != nil {
		o.Stop, o.Class, o.Detail = claimedStop(*m.stop)
	}
	if o.Stop == trace.StopEndTurn && l.MaxTurns > 0 && m.turns > l.MaxTurns {
		o.Stop, o.Detail = trace.StopMaxTurns, fmt.Sprintf("%d turns, more than %d; counted when the agent had ended", m.turns, l.MaxTurns)
	}
}

// claimedStop is what an agent's own stop counts for when it exited with 0. Reasons that only we can know are read as an
// error of the agent.
func claimedStop(s trace.Stop) (trace.StopReason, trace.Class, string) {
	switch s.Reason {
	case trace.StopEndTurn, trace.StopMaxTurns, trace.StopMaxCost, trace.StopMaxTokens, trace.StopRefusal:
		return s.Reason, "", s.Detail
	}
	switch s.Class {
	case trace.ClassModelAuth, trace.ClassModelRequest, trace.ClassModelLimit, trace.ClassModelAPI,
		trace.ClassContextOverflow, trace.ClassHarnessConfig:
		return trace.StopError, s.Class, s.Detail
	}
	return trace.StopError, trace.ClassHarnessCrash, fmt.Sprintf("its own trace ends with %q: %s", trace.Shorten(string(s.Reason), 100), s.Detail)
}

func rawOf(e trace.Event) json.RawMessage {
	b, err := json.Marshal(e)
	if err != nil {
		panic("harness: an event that was read is always JSON: " + err.Error())
	}
	return b
}
