package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/gateway"
)

// upstream are the settings that all harnesses share whose agents call models: where those models are. Settings embed it
// inline and have it checked when they are built.
type upstream struct {
	BaseURL     string   `yaml:"base_url" doc:"address of the models; the provider's own when absent"`
	KeyEnv      string   `yaml:"key_env" doc:"environment variable of Assay that holds the key of the models; the provider's usual one when absent"`
	ModelScript string   `yaml:"model_script" doc:"YAML file of the case's folder that plays the model, instead of base_url; {case} {model} {condition} {trial} are filled in" rule:"path"`
	SideModels  []string `yaml:"side_models" doc:"further models that the agent may call, for titles and the like"`
}

// check finds what the rules of the fields cannot say.
func (u upstream) check(s Settings) error {
	var faults []error
	if u.ModelScript != "" && u.BaseURL != "" {
		faults = append(faults, s.Fault("base_url", "base_url and model_script cannot both be set", "a scripted model has no address"))
	}
	if u.ModelScript != "" && u.KeyEnv != "" {
		faults = append(faults, s.Fault("key_env", "key_env and model_script cannot both be set", "a scripted model has no key"))
	}
	if u.BaseURL != "" {
		if why := badURL(u.BaseURL); why != "" {
			faults = append(faults, s.Fault("base_url", fmt.Sprintf("base_url %q %s", u.BaseURL, why), "such as https://api.example.com/v1"))
		}
	}
	if i := slices.Index(u.SideModels, ""); i >= 0 {
		faults = append(faults, s.Fault(fmt.Sprintf("side_models[%d]", i), "a side model needs a name", ""))
	}
	return errors.Join(faults...)
}

// badURL says why an address is not one of models. A key in it would be printed with it.
func badURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return "is not an http or https address"
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "has more than scheme, host and path"
	}
	return ""
}

// address is what an agent is given to call its models with: the cell's door in the gateway. Without a gateway it is the
// settings' own address, and no key.
func (u upstream) address(t Task, d gateway.Dialect) (baseURL, key string) {
	if t.Gateway != nil {
		return t.Gateway.URL(d), t.Gateway.Key()
	}
	baseURL, _ = gateway.Provider(d)
	return strings.TrimSuffix(or(u.BaseURL, baseURL), "/"), "none"
}

// models returns what the agent may call in the cell of t, its own model first. further are the side models that this
// kind of agent is known to call.
func (u upstream) models(t Task, d gateway.Dialect, s Settings, further ...string) ([]gateway.Model, error) {
	if t.Model == "" || t.Model == "none" {
		return nil, s.Fault("models", "this harness needs models", "such as models: [name-of-the-model]")
	}
	up := gateway.Upstream{Dialect: d}
	if u.ModelScript != "" {
		script, err := loadModelScript(t, u.ModelScript, s)
		if err != nil {
			return nil, err
		}
		up.Script = script
	} else {
		baseURL, keyEnv := gateway.Provider(d)
		up.BaseURL, up.KeyEnv = strings.TrimSuffix(or(u.BaseURL, baseURL), "/"), or(u.KeyEnv, keyEnv)
	}
	models := []gateway.Model{{Name: t.Model, Upstream: up}}
	for _, name := range slices.Concat(u.SideModels, further) {
		if !slices.ContainsFunc(models, func(m gateway.Model) bool { return m.Name == name }) {
			models = append(models, gateway.Model{Name: name, Upstream: up, Side: true})
		}
	}
	return models, nil
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// A modelScript is a file that plays a model. It names what is to be done in the words of no agent; whoever plays it
// binds that to the tools which a request offers.
type modelScript struct {
	Turns []scriptedTurn `yaml:"turns" doc:"answers of the model, in order; the last is repeated" rule:"required"`
}

type scriptedTurn struct {
	Think string         `yaml:"think" doc:"a thought"`
	Say   string         `yaml:"say" doc:"a message"`
	Calls []scriptedCall `yaml:"calls" doc:"uses of tools, all in this answer"`
	Stop  string         `yaml:"stop" doc:"how the answer ends; by itself when absent" rule:"oneof=refusal max_tokens"`
	HTTP  int            `yaml:"http" doc:"answer with this status instead" rule:"min=400,max=599"`
	Pause time.Duration  `yaml:"pause" doc:"silence before the answer"`
}

// A scriptedCall holds exactly one use of a tool.
type scriptedCall struct {
	Read  *scriptedRead  `yaml:"read" doc:"reads a file"`
	Plan  *scriptedPlan  `yaml:"plan" doc:"writes down a plan"`
	Edit  *scriptedEdit  `yaml:"edit" doc:"replaces text in a file"`
	Write *scriptedWrite `yaml:"write" doc:"writes a file"`
	Bash  *scriptedBash  `yaml:"bash" doc:"runs a command line"`
	Ask   *scriptedAsk   `yaml:"ask" doc:"puts a question to the user"`
	Skill *scriptedSkill `yaml:"skill" doc:"uses a skill"`
	Agent *scriptedAgent `yaml:"agent" doc:"starts a sub-agent"`
	Raw   *scriptedRaw   `yaml:"raw" doc:"uses a tool by the agent's own name for it"`
}

type scriptedRead struct {
	Path string `yaml:"path,short" json:"path" rule:"required"`
}

type scriptedPlan struct {
	Items []scriptedItem `yaml:"items" json:"items" rule:"required"`
}

type scriptedItem struct {
	Text   string `yaml:"text,short" json:"text" rule:"required"`
	Status string `yaml:"status" json:"status" default:"pending" rule:"oneof=pending in_progress completed"`
}

type scriptedEdit struct {
	Path string `yaml:"path" json:"path" rule:"required"`
	Old  string `yaml:"old" json:"old" rule:"required"`
	New  string `yaml:"new" json:"new"`
}

type scriptedWrite struct {
	Path    string `yaml:"path" json:"path" rule:"required"`
	Content string `yaml:"content" json:"content"`
}

type scriptedBash struct {
	Command string `yaml:"command,short" json:"command" rule:"required"`
}

type scriptedAsk struct {
	Question string           `yaml:"question,short" json:"question" rule:"required"`
	Header   string           `yaml:"header" json:"header"`
	Options  []scriptedOption `yaml:"options" json:"options"`
}

type scriptedOption struct {
	Label       string `yaml:"label,short" json:"label" rule:"required"`
	Description string `yaml:"description" json:"description"`
}

type scriptedSkill struct {
	Name string `yaml:"name,short" json:"name" rule:"required"`
}

type scriptedAgent struct {
	Prompt string `yaml:"prompt,short" json:"prompt" rule:"required"`
}

type scriptedRaw struct {
	Name  string         `yaml:"name" rule:"required"`
	Input map[string]any `yaml:"input"`
}

// loadModelScript reads the file of one cell that plays its model.
func loadModelScript(t Task, template string, s Settings) (*gateway.Script, error) {
	name, err := caseFile(t, template, "model_script", s)
	if err != nil {
		return nil, err
	}
	file, err := t.Script(name)
	if err != nil {
		return nil, err
	}
	var m modelScript
	if err := file.Decode(&m); err != nil {
		return nil, err
	}
	script := &gateway.Script{}
	var faults []error
	for i, turn := range m.Turns {
		at := fmt.Sprintf("turns[%d]", i)
		if why := turn.fault(); why != "" {
			faults = append(faults, file.Fault(at, why, ""))
		}
		out := gateway.Turn{Think: turn.Think, Say: turn.Say, Stop: turn.Stop, HTTP: turn.HTTP, Pause: turn.Pause}
		for j, c := range turn.Calls {
			call, err := c.call()
			if err != nil {
				faults = append(faults, file.Fault(fmt.Sprintf("%s.calls[%d]", at, j), err.Error(), "write one list item for each"))
			}
			out.Calls = append(out.Calls, call)
		}
		script.Turns = append(script.Turns, out)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return script, nil
}

func (t scriptedTurn) fault() string {
	says := t.Think != "" || t.Say != "" || len(t.Calls) > 0 || t.Stop != ""
	switch {
	case t.HTTP == 0 && !says:
		return "a turn needs something that the model does: think, say, calls, stop or http"
	case t.HTTP != 0 && says:
		return "a turn with http says nothing else"
	}
	return ""
}

// call is the one use of a tool that is set.
func (c scriptedCall) call() (gateway.Call, error) {
	var set []gateway.Call
	add := func(kind string, is bool, input any) {
		if is {
			set = append(set, gateway.Call{Kind: kind, Input: asJSON(input)})
		}
	}
	add("read", c.Read != nil, c.Read)
	add("plan", c.Plan != nil, c.Plan)
	add("edit", c.Edit != nil, c.Edit)
	add("write", c.Write != nil, c.Write)
	add("bash", c.Bash != nil, c.Bash)
	add("ask", c.Ask != nil, c.Ask)
	add("skill", c.Skill != nil, c.Skill)
	add("agent", c.Agent != nil, c.Agent)
	if c.Raw != nil {
		input := c.Raw.Input
		if input == nil {
			input = map[string]any{}
		}
		set = append(set, gateway.Call{Kind: "raw", Name: c.Raw.Name, Input: asJSON(input)})
	}
	if len(set) != 1 {
		return gateway.Call{}, fmt.Errorf("a call is one use of a tool, not %d", len(set))
	}
	return set[0], nil
}

// asJSON encodes a value of ours that JSON can hold.
func asJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("harness: a value of ours is not JSON: " + err.Error())
	}
	return b
}
