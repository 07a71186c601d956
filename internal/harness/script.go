package harness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/trace"
)

// script is an agent whose whole behaviour is written down, so that everything else can be tested and shown without a
// model: the null, the reference and the noisy agents of a suite, and those that misbehave.
type script struct {
	params   scriptParams
	settings Settings // positions for the faults of inline steps
}

var (
	_ Harness = (*script)(nil)
	_ Checker = (*script)(nil)
)

type scriptParams struct {
	Script string `yaml:"script" doc:"YAML file of the case's folder that holds the steps; {case} {model} {condition} {trial} are filled in" rule:"path"`
	Steps  []step `yaml:"steps" doc:"the steps themselves, when they are the same for every case"`
}

// scriptFile is a file that scriptParams.Script names.
type scriptFile struct {
	Steps []step `yaml:"steps" doc:"what the agent does, in order; the end of the list is the end of its turn" rule:"required"`
}

// A step holds exactly one action, and may say in which trials it is played.
type step struct {
	Say        *string         `yaml:"say" doc:"a message of the agent; counts as one turn"`
	Think      *string         `yaml:"think" doc:"a thought of the agent"`
	Read       string          `yaml:"read" doc:"reads a file" rule:"path"`
	Write      *writeStep      `yaml:"write" doc:"writes a file"`
	Edit       *editStep       `yaml:"edit" doc:"replaces text in a file"`
	Delete     string          `yaml:"delete" doc:"removes a file or folder" rule:"path"`
	Move       *moveStep       `yaml:"move" doc:"renames a file or folder"`
	Run        *runStep        `yaml:"run" doc:"runs a command in the work folder"`
	Apply      string          `yaml:"apply" doc:"applies a patch, a file of the case's folder, by git apply" rule:"path"`
	Ask        *askStep        `yaml:"ask" doc:"puts a question to the responder"`
	Permission *permissionStep `yaml:"permission" doc:"asks the responder for leave; the script goes on when it is denied"`
	Usage      *usageStep      `yaml:"usage" doc:"reports tokens and cost; reports add up"`
	Sleep      time.Duration   `yaml:"sleep" doc:"waits"`
	Exit       *int            `yaml:"exit" doc:"ends the agent with this exit code" rule:"min=0,max=255"`
	Hang       bool            `yaml:"hang" doc:"waits until the agent is ended"`
	Stop       string          `yaml:"stop" doc:"ends the agent in another way" rule:"oneof=max_turns max_cost max_tokens refusal cancelled"`

	OnlyTrials []int `yaml:"only_trials" doc:"the trials in which the step is played; all when absent" rule:"min=1"`
}

type writeStep struct {
	Path string `yaml:"path" rule:"required,path"`
	Text string `yaml:"text" doc:"the whole new content"`
}

type editStep struct {
	Path string `yaml:"path" rule:"required,path"`
	Old  string `yaml:"old" doc:"text that stands in the file exactly once"`
	New  string `yaml:"new" doc:"text that takes its place"`
	All  bool   `yaml:"all" doc:"replace every place where old stands"`
}

type moveStep struct {
	From string `yaml:"from" rule:"required,path"`
	To   string `yaml:"to" rule:"required,path"`
}

type runStep struct {
	Run     string        `yaml:"run,short" doc:"a line for sh -c"`
	Argv    []string      `yaml:"argv" doc:"a program and its arguments, instead of run"`
	Timeout time.Duration `yaml:"timeout" doc:"ends the command; the script goes on"`
}

type askStep struct {
	Question string   `yaml:"question,short" rule:"required"`
	Options  []string `yaml:"options" doc:"labels to choose from; free text when there are none"`
}

type permissionStep struct {
	Tool  string `yaml:"tool,short" doc:"name of the tool" rule:"required"`
	Kind  string `yaml:"kind" doc:"its neutral kind; by its name when absent" rule:"oneof=read edit delete move search execute think fetch skill agent ask other"`
	Input string `yaml:"input" doc:"what the tool is to be given"`
}

type usageStep struct {
	Input      *int64   `yaml:"input" doc:"tokens without cached ones" rule:"min=0"`
	CacheRead  *int64   `yaml:"cache_read" rule:"min=0"`
	CacheWrite *int64   `yaml:"cache_write" rule:"min=0"`
	Output     *int64   `yaml:"output" doc:"tokens, reasoning included" rule:"min=0"`
	Reasoning  *int64   `yaml:"reasoning" rule:"min=0"`
	CostUSD    *float64 `yaml:"cost_usd" rule:"min=0"`
}

// scriptAbout is the page of this kind.
var scriptAbout = About{
	Example: `{id: scripted, type: script, steps: [{say: Done.}]}`,
	Runs: "Inside Assay: the steps of the list are played one by one in the place of the cell, commands through the " +
		"executor, permissions and questions through the responder.",
	Records: "Every step as what an agent would tell of it. Tokens and money are those that the steps report.",
	Silent: []string{
		"It tells nothing of any model: pages call its numbers simulated.",
	},
	Limits: "Assay ends it when `limits.timeout` is over or when its commands have printed too much, and counts " +
		"`limits.max_turns` by its messages.",
}

func buildScript(s Settings) (Harness, error) {
	var p scriptParams
	if err := s.Decode(&p); err != nil {
		return nil, err
	}
	if (p.Script == "") == (len(p.Steps) == 0) {
		return nil, s.Fault("", "a script harness needs script or steps, and not both", `such as script: "agent/{condition}.yaml"`)
	}
	if err := checkSteps(p.Steps, s); err != nil {
		return nil, err
	}
	return &script{p, s}, nil
}

// Check implements Checker: the script of this very cell can be read, and the patches that it names are there.
func (h *script) Check(t Task) error {
	steps, s, err := h.load(t)
	if err != nil {
		return err
	}
	var faults []error
	for i, st := range steps {
		if st.Apply == "" {
			continue
		}
		if info, err := fs.Stat(t.CaseDir, path.Clean(st.Apply)); err != nil {
			faults = append(faults, s.Fault(fmt.Sprintf("steps[%d].apply", i), fmt.Sprintf("patch of case %s: %v", t.Case, err), ""))
		} else if !info.Mode().IsRegular() {
			faults = append(faults, s.Fault(fmt.Sprintf("steps[%d].apply", i), fmt.Sprintf("%s of case %s is not a regular file", st.Apply, t.Case), ""))
		}
	}
	return errors.Join(faults...)
}

// load returns the steps of one cell, and the settings that they came from.
func (h *script) load(t Task) ([]step, Settings, error) {
	if h.params.Script == "" {
		return h.params.Steps, h.settings, nil
	}
	name, err := caseFile(t, h.params.Script, "script", h.settings)
	if err != nil {
		return nil, nil, err
	}
	s, err := t.Script(name)
	if err != nil {
		return nil, nil, err
	}
	var file scriptFile
	if err := s.Decode(&file); err != nil {
		return nil, nil, err
	}
	return file.Steps, s, checkSteps(file.Steps, s)
}

// caseFile fills the template of a file of the case's folder for one cell; key is the setting that holds it.
func caseFile(t Task, template, key string, s Settings) (string, error) {
	name := path.Clean(strings.NewReplacer(
		"{case}", t.Case, "{model}", t.Model, "{condition}", t.Condition, "{trial}", strconv.Itoa(t.Trial),
	).Replace(template))
	if !fs.ValidPath(name) {
		return "", s.Fault(key, fmt.Sprintf("%s %q leads out of the folder of case %s", key, name, t.Case), "")
	}
	return name, nil
}

// checkSteps finds what the rules of the fields cannot say.
func checkSteps(steps []step, s Settings) error {
	var faults []error
	for i, st := range steps {
		key := fmt.Sprintf("steps[%d]", i)
		switch actions := st.actions(); {
		case len(actions) == 0:
			faults = append(faults, s.Fault(key, "a step needs an action", "such as say, edit or run"))
		case len(actions) > 1:
			faults = append(faults, s.Fault(key, "a step has one action, not "+strings.Join(actions, " and "), "write one list item for each"))
		case st.Edit != nil && st.Edit.Old == "":
			faults = append(faults, s.Fault(key+".edit", "edit needs old, the text to replace", "write makes a file or replaces all of it"))
		case st.Run != nil && (st.Run.Run == "") == (len(st.Run.Argv) == 0):
			faults = append(faults, s.Fault(key+".run", "a command needs run or argv, and not both", ""))
		}
	}
	return errors.Join(faults...)
}

// actions names the actions that are set.
func (st step) actions() []string {
	var set []string
	for _, a := range []struct {
		name string
		is   bool
	}{
		{"say", st.Say != nil}, {"think", st.Think != nil}, {"read", st.Read != ""}, {"write", st.Write != nil},
		{"edit", st.Edit != nil}, {"delete", st.Delete != ""}, {"move", st.Move != nil}, {"run", st.Run != nil},
		{"apply", st.Apply != ""}, {"ask", st.Ask != nil}, {"permission", st.Permission != nil},
		{"usage", st.Usage != nil}, {"sleep", st.Sleep > 0}, {"exit", st.Exit != nil}, {"hang", st.Hang},
		{"stop", st.Stop != ""},
	} {
		if a.is {
			set = append(set, a.name)
		}
	}
	return set
}

// Drive implements Harness.
func (h *script) Drive(ctx context.Context, t Task, emit func(trace.Event)) (Outcome, error) {
	steps, _, err := h.load(t)
	if err != nil {
		return Outcome{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if t.Limits.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, t.Limits.Timeout)
		defer stop()
	}
	p := &player{
		task: t, emit: emit,
		out: &output{log: t.Log, limit: t.Limits.MaxOutput, over: func() { cancel(errOutput) }},
		end: Outcome{Turns: new(int)},
	}
	opening(t, trace.Session{Harness: "script", Env: envNames(t.Env)}, emit)
	for _, st := range steps {
		if len(st.OnlyTrials) > 0 && !slices.Contains(st.OnlyTrials, t.Trial) {
			continue
		}
		if err := p.play(ctx, st); err != nil {
			return Outcome{}, err
		}
		if _, err := p.out.state(); err != nil {
			return Outcome{}, err
		}
		if p.end.Stop == "" && ctx.Err() != nil {
			p.end.Stop, p.end.Detail = halt(ctx, t.Limits)
		}
		if p.end.Stop != "" {
			return closing(p.end, emit), nil
		}
	}
	p.end.Stop = trace.StopEndTurn
	return closing(p.end, emit), nil
}
