package gateway

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// namesFor lists how agents call the tool for an abstract call.
func namesFor(kind string) []string {
	switch kind {
	case "read":
		return []string{"Read", "read_file", "read"}
	case "edit":
		return []string{"Edit", "replace", "edit"}
	case "write":
		return []string{"Write", "write_file", "write"}
	case "bash":
		return []string{"Bash", "run_shell_command", "exec_command", "shell_command", "shell", "bash"}
	case "plan":
		return []string{"TodoWrite", "TaskCreate", "update_plan", "write_todos", "todowrite"}
	case "ask":
		return []string{"AskUserQuestion", "ask_user", "request_user_input", "question"}
	case "skill":
		return []string{"Skill", "activate_skill", "skill"}
	case "agent":
		return []string{"Task", "Agent", "task", "invoke_agent", "spawn_agent"}
	}
	return nil
}

// input is the input of an abstract call: the members that its kind has.
type input struct {
	Path     string     `json:"path,omitempty"`    // read, edit, write
	Old      string     `json:"old,omitempty"`     // edit: stands in the file exactly once
	New      string     `json:"new,omitempty"`     // edit
	Content  string     `json:"content,omitempty"` // write
	Command  string     `json:"command,omitempty"` // bash
	Items    []planItem `json:"items,omitempty"`   // plan
	Question string     `json:"question,omitempty"`
	Header   string     `json:"header,omitempty"`
	Options  []askLabel `json:"options,omitempty"`
	Name     string     `json:"name,omitempty"`   // skill
	Prompt   string     `json:"prompt,omitempty"` // agent
}

type planItem struct {
	Text   string `json:"text"`
	Status string `json:"status"` // pending, in_progress or completed
}

type askLabel struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
}

// bind makes an abstract call one of a tool that the request offers. When there is none, a shell does it.
func (r *asked) bind(c Call) part {
	if c.Kind == "raw" {
		return r.raw(c)
	}
	var in input
	if err := json.Unmarshal(c.Input, &in); err != nil {
		return part{kind: isText, text: fmt.Sprintf("The input of the call %s cannot be read: %v", c.Kind, err)}
	}
	if t, found := r.offered(namesFor(c.Kind)...); found {
		return part{kind: isCall, tool: t, text: string(marshal(fill(t, r.values(c.Kind, t, in))))}
	}
	if t, found := r.offered("exec"); found && t.freeform {
		if code, is := r.javascript(c.Kind, in); is {
			return part{kind: isCall, tool: t, text: code}
		}
	}
	if t, found := r.offered("apply_patch"); found {
		if p, is := r.patch(c.Kind, in); is {
			return patchCall(t, p)
		}
	}
	if command, is := shell(c.Kind, in); is && c.Kind != "bash" {
		return r.bind(Call{Kind: "bash", Input: marshal(input{Command: command})})
	}
	return part{kind: isText, text: fmt.Sprintf("There is no tool for %s among %s.", c.Kind, strings.Join(r.toolNames(), ", "))}
}

// raw is a call of a tool by its own name, offered or not. An input that is a text goes out as it is, JSON or not.
func (r *asked) raw(c Call) part {
	t, found := r.offered(c.Name)
	if !found {
		t = tool{name: c.Name}
	}
	text := string(c.Input)
	var verbatim string
	if json.Unmarshal(c.Input, &verbatim) == nil {
		text = verbatim
	}
	return part{kind: isCall, tool: t, text: text}
}

func (r *asked) offered(names ...string) (tool, bool) {
	for _, n := range names {
		if i := slices.IndexFunc(r.tools, func(t tool) bool { return t.name == n }); i >= 0 {
			return r.tools[i], true
		}
	}
	return tool{}, false
}

func (r *asked) toolNames() []string {
	var names []string
	for _, t := range r.tools {
		names = append(names, t.name)
	}
	return names
}

// A value is a part of an abstract input, with the names that tools have for it. What is a list of lists of values is a
// list of objects.
type value struct {
	names []string
	v     any
}

func (r *asked) values(kind string, t tool, in input) []value {
	file := value{[]string{"file_path", "filePath", "path", "absolute_path"}, r.absolute(in.Path)}
	switch kind {
	case "edit":
		return []value{file, {[]string{"old_string", "oldString", "old"}, in.Old}, {[]string{"new_string", "newString", "new"}, in.New}}
	case "write":
		return []value{file, {[]string{"content", "text"}, in.Content}}
	case "bash":
		return []value{{[]string{"command", "cmd"}, in.Command}}
	case "plan":
		return planValues(in)
	case "ask":
		return askValues(in)
	case "skill":
		return []value{{[]string{"skill", "name"}, in.Name}}
	case "agent":
		helper := "general-purpose"
		if t.name == "task" {
			helper = "general"
		}
		return []value{
			{[]string{"prompt", "message"}, in.Prompt}, {[]string{"subagent_type"}, helper}, {[]string{"agent_name"}, "generalist"},
		}
	}
	return []value{file}
}

func planValues(in input) []value {
	var items [][]value
	for _, i := range in.Items {
		items = append(items, []value{
			{[]string{"content", "step", "description"}, i.Text}, {[]string{"status"}, i.Status}, {[]string{"activeForm"}, i.Text},
			{[]string{"priority"}, "medium"},
		})
	}
	list := []value{{[]string{"todos", "plan"}, items}}
	if len(in.Items) > 0 { // a tool that takes one item at a time gets the first
		list = append(list, value{[]string{"subject"}, in.Items[0].Text}, value{[]string{"description"}, in.Items[0].Text})
	}
	return list
}

func askValues(in input) []value {
	var options [][]value
	for _, o := range in.Options {
		options = append(options, []value{{[]string{"label"}, o.Label}, {[]string{"description"}, o.Description}})
	}
	return []value{{[]string{"questions"}, [][]value{{
		{[]string{"question"}, in.Question}, {[]string{"header"}, in.Header}, {[]string{"options"}, options},
		{[]string{"multiSelect"}, false}, {[]string{"id"}, "q1"}, {[]string{"type"}, "choice"},
	}}}}
}

// absolute is a path below the work folder, if that is known.
func (r *asked) absolute(p string) string {
	if r.work == "" || path.IsAbs(p) {
		return p
	}
	return path.Join(r.work, p)
}

// fill makes the input of a tool: each value under the name that the tool's schema has for it, and something harmless for
// what else the schema requires.
func fill(t tool, values []value) object {
	return fillObject(t.schema, t.schema, values)
}

func fillObject(root, schema object, values []value) object {
	properties := objectAt(schema, "properties")
	o := object{}
	for _, v := range values {
		name := v.names[0]
		if properties != nil {
			i := slices.IndexFunc(v.names, func(n string) bool { return properties[n] != nil })
			if i < 0 {
				continue
			}
			name = v.names[i]
		}
		o[name] = fillValue(root, objectAt(properties, name), v.v)
	}
	for _, name := range listAt(schema, "required") {
		name, _ := name.(string)
		if o[name] != nil {
			continue
		}
		f := filler{root: root, left: maxSmallest}
		o[name] = f.fill(objectAt(properties, name), 0)
		if o[name] == "x" {
			o[name] = "scripted step"
		}
	}
	return o
}

func fillValue(root, schema object, v any) any {
	switch v := v.(type) {
	case [][]value:
		list := []any{}
		for _, one := range v {
			list = append(list, fillObject(root, objectAt(schema, "items"), one))
		}
		return list
	case string:
		if kindOf(schema) == "array" { // a command may be wanted as arguments
			return []string{"bash", "-lc", v}
		}
	}
	return v
}

// javascript does a call by the one tool of an agent whose model writes programs.
func (r *asked) javascript(kind string, in input) (string, bool) {
	if p, is := r.patch(kind, in); is {
		return fmt.Sprintf("const r = await tools.apply_patch(%s); text(String(r));", marshal(p)), true
	}
	if kind == "plan" {
		plan := fillObject(nil, nil, []value{{[]string{"plan"}, planSteps(in)}})
		return fmt.Sprintf("if (tools.update_plan) { await tools.update_plan(%s); } text(\"planned\");", marshal(plan)), true
	}
	command, is := shell(kind, in)
	return fmt.Sprintf("const r = await tools.exec_command({cmd: %s}); text(r.output);", marshal(command)), is
}

func planSteps(in input) [][]value {
	var steps [][]value
	for _, i := range in.Items {
		steps = append(steps, []value{{[]string{"step"}, i.Text}, {[]string{"status"}, i.Status}})
	}
	return steps
}

// patch writes an edit or a new file in the patch format of codex, which knows whole lines only: those of an edit are taken
// from what tools have shown of the file.
func (r *asked) patch(kind string, in input) (string, bool) {
	const head, foot = "*** Begin Patch\n", "*** End Patch"
	switch kind {
	case "write":
		lines, ended := strings.CutSuffix(in.Content, "\n")
		return head + "*** Add File: " + in.Path + "\n" + signed("+", lines) + foot, ended
	case "edit":
		before, after, found := r.wholeLines(in.Old, in.New)
		return head + "*** Update File: " + in.Path + "\n@@\n" + signed("-", before) + signed("+", after) + foot, found
	}
	return "", false
}

// wholeLines widens an edit to the lines that it is in.
func (r *asked) wholeLines(old, new string) (before, after string, found bool) {
	if strings.HasSuffix(old, "\n") && strings.HasSuffix(new, "\n") {
		old, new = old[:len(old)-1], new[:len(new)-1]
	}
	if old == "" || strings.HasSuffix(old, "\n") {
		return "", "", false
	}
	for _, shown := range slices.Backward(r.results) {
		i := strings.Index(shown, old)
		if i < 0 {
			continue
		}
		start := strings.LastIndexByte(shown[:i], '\n') + 1
		end := len(shown)
		if n := strings.IndexByte(shown[i+len(old):], '\n'); n >= 0 {
			end = i + len(old) + n
		}
		return shown[start:end], shown[start:i] + new + shown[i+len(old):end], true
	}
	return "", "", false
}

// signed puts a sign before every line.
func signed(sign, lines string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(lines, "\n") {
		b.WriteString(sign + line + "\n")
	}
	return b.String()
}

func patchCall(t tool, patch string) part {
	if t.freeform {
		return part{kind: isCall, tool: t, text: patch}
	}
	return part{kind: isCall, tool: t, text: string(marshal(fill(t, []value{{[]string{"input", "patchText", "patch"}, patch}})))}
}

// shell is a command of a POSIX shell that does a call.
func shell(kind string, in input) (string, bool) {
	switch kind {
	case "bash":
		return in.Command, true
	case "read":
		return "cat " + quote(in.Path), true
	case "write":
		return fmt.Sprintf("mkdir -p %s && printf %%s %s > %s", quote(path.Dir(in.Path)), quote(in.Content), quote(in.Path)), true
	case "edit":
		return sed(in), true
	case "plan":
		return "true", true
	}
	return "", false
}

// sed replaces the first place of a text in a file, over line breaks, and keeps the file's mode. It needs no other file:
// some agents refuse commands that remove one.
func sed(in input) string {
	old := strings.NewReplacer(
		`\`, `\\`, `/`, `\/`, `.`, `\.`, `*`, `\*`, `[`, `\[`, `^`, `\^`, `$`, `\$`, "\n", `\n`).Replace(in.Old)
	new := strings.NewReplacer(`\`, `\\`, `/`, `\/`, `&`, `\&`, "\n", "\\\n").Replace(in.New)
	file := quote(in.Path)
	return fmt.Sprintf(`c=$(sed -e ':a' -e '$!{' -e 'N' -e 'ba' -e '}' -e %s %s && printf x) && printf %%s "${c%%x}" > %s`,
		quote("s/"+old+"/"+new+"/"), file, file)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
