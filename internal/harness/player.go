package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/responder"
	"github.com/assay-ci/assay/internal/trace"
)

// maxFile is the largest file, in bytes, that a script reads, edits or applies.
const maxFile = 64 << 20

// player plays the steps of one script. A step that fails is a failed tool call of the agent, and the play goes on; an
// error is ours.
type player struct {
	task  Task
	emit  func(trace.Event)
	out   *output
	end   Outcome // Stop is set when a step has ended the agent
	calls int
	asks  int
}

func (p *player) play(ctx context.Context, st step) error {
	switch {
	case st.Say != nil:
		p.say(*st.Say)
	case st.Think != nil:
		p.emit(trace.Event{Kind: trace.KindThinking, Text: *st.Think})
	case st.Read != "":
		return p.tool("read", map[string]any{"path": st.Read}, []string{st.Read}, func(r *trace.Tool) error { return p.read(st.Read, r) })
	case st.Write != nil:
		in := map[string]any{"path": st.Write.Path, "content": st.Write.Text}
		return p.tool("write", in, []string{st.Write.Path}, func(r *trace.Tool) error { return p.write(st.Write.Path, []byte(st.Write.Text), r) })
	case st.Edit != nil:
		in := map[string]any{"path": st.Edit.Path, "old": st.Edit.Old, "new": st.Edit.New, "all": st.Edit.All}
		return p.tool("edit", in, []string{st.Edit.Path}, func(r *trace.Tool) error { return p.edit(*st.Edit, r) })
	case st.Delete != "":
		return p.tool("delete", map[string]any{"path": st.Delete}, []string{st.Delete}, func(r *trace.Tool) error {
			return p.run(ctx, executor.Command{Argv: []string{"rm", "-r", "--", st.Delete}}, r)
		})
	case st.Move != nil:
		in := map[string]any{"from": st.Move.From, "to": st.Move.To}
		return p.tool("move", in, []string{st.Move.From, st.Move.To}, func(r *trace.Tool) error { return p.move(ctx, *st.Move, r) })
	case st.Run != nil:
		c := executor.Command{Argv: st.Run.Argv, Timeout: st.Run.Timeout}
		in := map[string]any{"argv": st.Run.Argv}
		if st.Run.Run != "" {
			// One stream for both, so that the lines keep their order.
			c.Argv, in = []string{"sh", "-c", "exec 2>&1\n" + st.Run.Run}, map[string]any{"command": st.Run.Run}
		}
		return p.tool("bash", in, nil, func(r *trace.Tool) error { return p.run(ctx, c, r) })
	case st.Apply != "":
		return p.tool("apply_patch", map[string]any{"patch": st.Apply}, nil, func(r *trace.Tool) error { return p.apply(ctx, st.Apply, r) })
	case st.Ask != nil:
		p.ask(ctx, *st.Ask)
	case st.Permission != nil:
		p.permission(ctx, *st.Permission)
	case st.Usage != nil:
		p.usage(*st.Usage)
	case st.Sleep > 0:
		select {
		case <-time.After(st.Sleep):
		case <-ctx.Done():
		}
	case st.Exit != nil:
		p.exit(*st.Exit)
	case st.Hang:
		<-ctx.Done()
	case st.Stop != "":
		p.end.Stop, p.end.Detail = trace.StopReason(st.Stop), "the script says so"
	}
	return nil
}

// say is one turn: the stand-in for one answer of a model.
func (p *player) say(text string) {
	if limit := p.task.Limits.MaxTurns; limit > 0 && *p.end.Turns == limit {
		p.end.Stop, p.end.Detail = trace.StopMaxTurns, fmt.Sprintf("turn limit of %d reached", limit)
		return
	}
	*p.end.Turns++
	p.end.Answered, p.end.FinalText = true, text
	p.emit(trace.Event{Kind: trace.KindAssistantText, Text: text})
}

func (p *player) exit(code int) {
	p.end.Exit = &code
	p.end.Stop = trace.StopEndTurn
	if code != 0 {
		p.end.Stop, p.end.Class, p.end.Detail = trace.StopError, trace.ClassHarnessCrash, fmt.Sprintf("exit %d", code)
	}
}

// tool plays one tool call. do fills the result; it is ok unless do says otherwise.
func (p *player) tool(name string, input map[string]any, paths []string, do func(*trace.Tool) error) error {
	in, err := json.Marshal(input)
	if err != nil {
		return fmt.Errorf("script step %s: %w", name, err)
	}
	p.calls++
	p.end.Answered = true
	call := trace.Tool{ID: fmt.Sprintf("call-%d", p.calls), Name: name, Kind: trace.KindOfTool(name), Input: in, Paths: paths}
	p.emit(trace.Event{Kind: trace.KindToolCall, Tool: &call})
	r := trace.Tool{ID: call.ID, Name: call.Name, Kind: call.Kind, Status: trace.StatusOK}
	if err := do(&r); err != nil {
		return fmt.Errorf("script step %s: %w", name, err)
	}
	p.emit(trace.Event{Kind: trace.KindToolResult, Tool: &r})
	return nil
}

// fail makes r the result of a failed call.
func fail(r *trace.Tool, format string, args ...any) {
	r.Status, r.Output = trace.StatusError, fmt.Sprintf(format, args...)
}

// load reads a file of the tree for read and edit, with its permissions; ok is false when r has become a failure.
func (p *player) load(name string, r *trace.Tool) (content []byte, mode fs.FileMode, ok bool) {
	f, err := p.task.Exec.Files().Open(name)
	if err != nil {
		fail(r, "%v", err)
		return nil, 0, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		content, err = readAll(f, name)
	}
	if err != nil {
		fail(r, "%v", err)
		return nil, 0, false
	}
	return content, info.Mode().Perm(), true
}

func readAll(r io.Reader, name string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return b, err
}

func (p *player) read(name string, r *trace.Tool) error {
	if content, _, ok := p.load(name, r); ok {
		r.Output = string(content)
	}
	return nil
}

// write replaces a file or makes it. A file that is there keeps its permissions.
func (p *player) write(name string, content []byte, r *trace.Tool) error {
	mode := fs.FileMode(0o644)
	if f, err := p.task.Exec.Files().Open(name); err == nil {
		if info, err := f.Stat(); err == nil {
			mode = info.Mode().Perm()
		}
		f.Close()
	}
	if err := p.task.Exec.Files().Put(name, bytes.NewReader(content), mode); err != nil {
		fail(r, "%v", err)
	}
	return nil
}

func (p *player) edit(e editStep, r *trace.Tool) error {
	content, mode, ok := p.load(e.Path, r)
	if !ok {
		return nil
	}
	switch n := bytes.Count(content, []byte(e.Old)); {
	case n == 0:
		fail(r, "%s does not hold the text to replace", e.Path)
		return nil
	case n > 1 && !e.All:
		fail(r, "%s holds the text to replace %d times, not once", e.Path, n)
		return nil
	}
	content = bytes.ReplaceAll(content, []byte(e.Old), []byte(e.New))
	if err := p.task.Exec.Files().Put(e.Path, bytes.NewReader(content), mode); err != nil {
		fail(r, "%v", err)
	}
	return nil
}

func (p *player) move(ctx context.Context, m moveStep, r *trace.Tool) error {
	if dir := path.Dir(path.Clean(m.To)); dir != "." {
		if err := p.run(ctx, executor.Command{Argv: []string{"mkdir", "-p", "--", dir}}, r); err != nil || r.Status != trace.StatusOK {
			return err
		}
	}
	return p.run(ctx, executor.Command{Argv: []string{"mv", "--", m.From, m.To}}, r)
}

// apply gives a patch to git apply. The ceiling keeps git from taking a repository above the work folder for the one that
// the patch is meant for: it would then leave out, without a word, what lies beside that repository's subfolder.
func (p *player) apply(ctx context.Context, name string, r *trace.Tool) error {
	f, err := p.task.CaseDir.Open(path.Clean(name))
	if err != nil {
		return err
	}
	defer f.Close()
	patch, err := readAll(f, name)
	if err != nil {
		return err
	}
	return p.run(ctx, executor.Command{
		Argv:  []string{"git", "apply", "--whitespace=nowarn", "-"},
		Env:   []string{"GIT_CEILING_DIRECTORIES=" + path.Dir(p.task.Work)},
		Stdin: bytes.NewReader(patch),
	}, r)
}

// run runs a command and fills the result of the call with how it ended.
func (p *player) run(ctx context.Context, c executor.Command, r *trace.Tool) error {
	shown := trace.NewExcerpt()
	w := p.out.stream(shown)
	c.Env = append(append([]string{}, p.task.Env...), c.Env...)
	c.Stdout, c.Stderr, c.Grace = w, w, p.task.Limits.Grace
	if p.task.Limits.MaxOutput > 0 {
		c.MaxOutput = p.task.Limits.MaxOutput + 1 // so that passing the limit is seen
	}
	ex, err := p.task.Exec.Run(ctx, c)
	if err != nil {
		return err
	}
	p.end.Survivors = append(p.end.Survivors, ex.Survivors...)
	p.end.Swept += ex.Swept
	r.Output, r.Duration = shown.String(), r.Duration+ex.Took
	if ex.Signal == "" {
		r.Exit = &ex.Code
	}
	if ex.Code != 0 {
		r.Status = trace.StatusError
	}
	if note := howEnded(ex); note != "" {
		r.Status = trace.StatusError
		r.Output += "\n[" + note + "]"
	}
	return nil
}

// howEnded says how a command ended that did not end by itself.
func howEnded(ex executor.Exit) string {
	switch {
	case ex.TimedOut:
		return "ended at its time limit"
	case ex.Cancelled:
		return "ended with the agent"
	case ex.OOM:
		return "ended by the memory limit"
	case ex.Signal != "":
		return "ended by " + ex.Signal
	}
	return ""
}

func (p *player) ask(ctx context.Context, a askStep) {
	q := trace.Question{Text: a.Question}
	for _, o := range a.Options {
		q.Options = append(q.Options, trace.Choice{Label: o})
	}
	p.put(ctx, trace.KindQuestion, trace.KindAnswer, trace.Ask{Kind: trace.ToolAsk, Questions: []trace.Question{q}})
}

func (p *player) permission(ctx context.Context, a permissionStep) {
	kind := trace.ToolKind(a.Kind)
	if kind == "" {
		kind = trace.KindOfTool(a.Tool)
	}
	p.put(ctx, trace.KindPermissionRequest, trace.KindPermissionResponse, trace.Ask{
		Name: a.Tool, Kind: kind, Input: a.Input,
		Options: []trace.Option{{ID: "allow", Name: "Allow", Kind: "allow_once"}, {ID: "reject", Name: "Reject", Kind: "reject_once"}},
	})
}

// put takes one ask to the responder and tells both sides of it. An answer that cannot be had ends the agent.
func (p *player) put(ctx context.Context, request, response trace.Kind, ask trace.Ask) {
	p.asks++
	p.end.Answered = true
	ask.ID = fmt.Sprintf("ask-%d", p.asks)
	p.emit(trace.Event{Kind: request, Ask: &ask})
	reply, err := responder.Ask(ctx, p.task.Responder, ask)
	p.emit(trace.Event{Kind: response, Ask: &trace.Ask{
		ID: ask.ID, Choice: reply.Choice, Outcome: reply.Outcome, Answers: reply.Answers, By: reply.By, Reason: reply.Reason,
	}})
	switch {
	case ctx.Err() != nil: // the agent is being ended; that is what its outcome will say
	case err != nil:
		p.end.Stop, p.end.Class, p.end.Detail = trace.StopError, trace.ClassResponder, err.Error()
	case reply.Interrupt:
		p.end.Stop, p.end.Detail = trace.StopCancelled, "interrupted by "+reply.By
	}
}

// usage reports one step's usage and adds it to that of the session.
func (p *player) usage(s usageStep) {
	u := trace.Usage{
		Input: s.Input, CacheRead: s.CacheRead, CacheWrite: s.CacheWrite, Output: s.Output, Reasoning: s.Reasoning,
		CostUSD: s.CostUSD, Scope: "step", Source: "agent",
	}
	p.emit(trace.Event{Kind: trace.KindUsage, Usage: &u})
	p.end.Usage = addUsage(p.end.Usage, u)
}
