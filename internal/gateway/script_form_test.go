package gateway

import (
	"encoding/json"
	"fmt"
	"time"
)

// A ScriptForm is a [Script] as the tests write it, in the form that suites have it in YAML:
//
//	turns:
//	  - think: I should read the file first.
//	    calls: [{read: calc.py}]
//	  - calls: [{edit: {path: calc.py, old: a - b, new: a + b}}]
//	  - say: Fixed.
type ScriptForm struct {
	Turns []TurnForm `yaml:"turns" doc:"the answers of the model, in order; the last one is repeated" rule:"required"`
}

// A TurnForm is a [Turn] in YAML.
type TurnForm struct {
	Think string        `yaml:"think" doc:"a thought before the answer"`
	Say   string        `yaml:"say" doc:"what the model says; with http, the message of the error"`
	Calls []CallForm    `yaml:"calls" doc:"tools that the model calls, all at once"`
	Stop  string        `yaml:"stop" doc:"how the answer ends, when not by itself" rule:"oneof=refusal max_tokens"`
	HTTP  int           `yaml:"http" doc:"answer with this HTTP status instead" rule:"min=400,max=599"`
	Pause time.Duration `yaml:"pause" doc:"silence before the answer"`
}

// A CallForm is a [Call] in YAML. Exactly one member is set.
type CallForm struct {
	Read  string         `yaml:"read" doc:"reads a file" rule:"path"`
	Edit  *EditForm      `yaml:"edit" doc:"replaces text in a file"`
	Write *WriteForm     `yaml:"write" doc:"writes a file"`
	Bash  string         `yaml:"bash" doc:"runs a command in a shell"`
	Plan  []PlanItemForm `yaml:"plan" doc:"writes down a plan"`
	Ask   *AskForm       `yaml:"ask" doc:"asks the user a question"`
	Skill string         `yaml:"skill" doc:"uses a skill, by its name"`
	Agent string         `yaml:"agent" doc:"gives a prompt to another agent"`
	Raw   *RawForm       `yaml:"raw" doc:"calls a tool by the name that the agent has for it"`
}

// An EditForm is the input of an edit.
type EditForm struct {
	Path string `yaml:"path" rule:"required,path"`
	Old  string `yaml:"old" doc:"text that stands in the file exactly once" rule:"required"`
	New  string `yaml:"new" doc:"text that takes its place"`
}

// A WriteForm is the input of a write.
type WriteForm struct {
	Path    string `yaml:"path" rule:"required,path"`
	Content string `yaml:"content" doc:"the whole new content"`
}

// A PlanItemForm is one line of a plan.
type PlanItemForm struct {
	Text   string `yaml:"text,short" rule:"required"`
	Status string `yaml:"status" default:"pending" rule:"oneof=pending in_progress completed"`
}

// An AskForm is a question with the answers that are offered.
type AskForm struct {
	Question string      `yaml:"question" rule:"required"`
	Header   string      `yaml:"header" doc:"a word or two that stand for the question" default:"Question"`
	Options  []LabelForm `yaml:"options" rule:"required"`
}

// A LabelForm is one answer that is offered.
type LabelForm struct {
	Label       string `yaml:"label,short" rule:"required"`
	Description string `yaml:"description"`
}

// A RawForm is a call as it goes out. A text as input goes out as it is, JSON or not.
type RawForm struct {
	Name  string `yaml:"name" rule:"required"`
	Input any    `yaml:"input"`
}

// Script is what the form says. An error names the turn and the call, both from 1.
func (f ScriptForm) Script() (*Script, error) {
	s := &Script{}
	for i, t := range f.Turns {
		turn := Turn{Think: t.Think, Say: t.Say, Stop: t.Stop, HTTP: t.HTTP, Pause: t.Pause}
		for j, c := range t.Calls {
			call, err := c.call()
			if err != nil {
				return nil, fmt.Errorf("turn %d, call %d: %w", i+1, j+1, err)
			}
			turn.Calls = append(turn.Calls, call)
		}
		s.Turns = append(s.Turns, turn)
	}
	return s, nil
}

func (f CallForm) call() (Call, error) {
	var found []Call
	add := func(kind string, in any) { found = append(found, Call{Kind: kind, Input: marshal(in)}) }
	if f.Read != "" {
		add("read", input{Path: f.Read})
	}
	if f.Edit != nil {
		add("edit", input{Path: f.Edit.Path, Old: f.Edit.Old, New: f.Edit.New})
	}
	if f.Write != nil {
		add("write", input{Path: f.Write.Path, Content: f.Write.Content})
	}
	if f.Bash != "" {
		add("bash", input{Command: f.Bash})
	}
	if f.Plan != nil {
		add("plan", f.plan())
	}
	if f.Ask != nil {
		add("ask", f.Ask.input())
	}
	if f.Skill != "" {
		add("skill", input{Name: f.Skill})
	}
	if f.Agent != "" {
		add("agent", input{Prompt: f.Agent})
	}
	if f.Raw != nil {
		in, err := json.Marshal(f.Raw.Input)
		if err != nil {
			return Call{}, fmt.Errorf("the input of raw cannot be written as JSON: %w", err)
		}
		found = append(found, Call{Kind: "raw", Name: f.Raw.Name, Input: in})
	}
	if len(found) != 1 {
		return Call{}, fmt.Errorf("found %d calls, want one of read, edit, write, bash, plan, ask, skill, agent, raw", len(found))
	}
	return found[0], nil
}

func (f CallForm) plan() input {
	var in input
	for _, i := range f.Plan {
		status := i.Status
		if status == "" {
			status = "pending"
		}
		in.Items = append(in.Items, planItem{Text: i.Text, Status: status})
	}
	return in
}

func (f AskForm) input() input {
	in := input{Question: f.Question, Header: f.Header}
	for _, o := range f.Options {
		in.Options = append(in.Options, askLabel(o))
	}
	return in
}
