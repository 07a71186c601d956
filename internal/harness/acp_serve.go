package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/assay-ci/assay/internal/responder"
	"github.com/assay-ci/assay/internal/trace"
)

// What an agent may ask of us: permissions, answers to questions, and the files of the work folder.

// asked answers a request of the agent.
func (a *acpTalk) asked(f acpFrame) {
	var err error
	switch f.Method {
	case "session/request_permission":
		err = a.permission(f)
	case "elicitation/create":
		err = a.elicitation(f)
	case "fs/read_text_file":
		err = a.readFile(f)
	case "fs/write_text_file":
		err = a.writeFile(f)
	default:
		a.other(f.Method)
		a.refuse(f.ID, acpNoMethod, "Assay does not offer %q", trace.Shorten(f.Method, 100))
	}
	if err != nil {
		a.other(f.Method)
		a.refuse(f.ID, acpBadParams, "%v", err)
	}
}

// permission puts a permission request to the responder.
func (a *acpTalk) permission(f acpFrame) error {
	var p struct {
		Call    acpCallUpdate `json:"toolCall"`
		Options []struct {
			ID   string `json:"optionId"`
			Name string `json:"name"`
			Kind string `json:"kind"`
		} `json:"options"`
	}
	if err := json.Unmarshal(f.Params, &p); err != nil {
		return err
	}
	p.Call.Update = ""
	a.flush()
	ask := a.ask()
	c := a.calls.asked(p.Call)
	if c != nil {
		ask.CallID, ask.Name, ask.Kind, ask.Input = c.tool.ID, c.tool.Name, c.tool.Kind, string(c.tool.Input)
		if ask.Input == "" { // an agent that tells no arguments puts what matters of them into the title
			ask.Input = c.tool.Title
		}
	}
	for _, o := range p.Options {
		ask.Options = append(ask.Options, trace.Option{ID: o.ID, Name: o.Name, Kind: o.Kind})
	}
	a.s.ask(ask, func(reply responder.Reply) {
		a.reply(f.ID, acpObject{"outcome": a.outcome(reply)})
		if c != nil && reply.Outcome != responder.Allowed {
			c.denied = true
			if a.agent.silentDeny {
				a.calls.end(c, "")
			}
		}
	})
	return nil
}

// outcome is a reply in the words of the protocol, which wants every request that is open at a cancellation cancelled.
func (a *acpTalk) outcome(r responder.Reply) acpObject {
	if r.Choice == "" || a.s.ctx.Err() != nil {
		return acpObject{"outcome": "cancelled"}
	}
	return acpObject{"outcome": "selected", "optionId": r.Choice}
}

func (a *acpTalk) ask() trace.Ask {
	a.asks++
	return trace.Ask{ID: fmt.Sprintf("ask-%d", a.asks)}
}

// An acpField is one property of a form.
type acpField struct {
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default"`
	Enum        []string        `json:"enum"`
	OneOf       []acpEnumOption `json:"oneOf"`
	Items       struct {
		Enum  []string        `json:"enum"`
		AnyOf []acpEnumOption `json:"anyOf"`
	} `json:"items"`
}

type acpEnumOption struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// customSuffix marks the field in which claude-agent-acp takes an answer to the question before it in free text.
const customSuffix = "_custom"

// elicitation puts the fields of a form to the responder, as questions.
func (a *acpTalk) elicitation(f acpFrame) error {
	var p struct {
		Mode    string `json:"mode"`
		Message string `json:"message"`
		Call    string `json:"toolCallId"`
		Schema  struct {
			Fields map[string]acpField `json:"properties"`
		} `json:"requestedSchema"`
	}
	if err := json.Unmarshal(f.Params, &p); err != nil {
		return err
	}
	if p.Mode != "form" && p.Mode != "" {
		return fmt.Errorf("mode %q is not offered", trace.Shorten(p.Mode, 100))
	}
	names := questionNames(p.Schema.Fields)
	a.flush()
	ask := a.ask()
	ask.CallID, ask.Kind, ask.Name = p.Call, trace.ToolAsk, "elicitation"
	if c := a.calls.open[p.Call]; c != nil && c.tool.Name != "" {
		ask.Name = c.tool.Name
	}
	for _, name := range names {
		_, free := p.Schema.Fields[name+customSuffix]
		ask.Questions = append(ask.Questions, p.Schema.Fields[name].question(name, p.Message, len(names) == 1, free))
	}
	if len(names) == 0 { // nothing to fill in: it only wants to be confirmed
		ask.Questions = []trace.Question{{Text: p.Message}}
	}
	a.s.ask(ask, func(reply responder.Reply) {
		a.reply(f.ID, a.form(p.Schema.Fields, names, ask.Questions, reply))
	})
	return nil
}

// questionNames returns the names of the fields that ask something, in an order that counts.
func questionNames(fields map[string]acpField) []string {
	var names []string
	for name := range fields {
		base, custom := strings.CutSuffix(name, customSuffix)
		if _, ok := fields[base]; !custom || !ok {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b) // question_2 before question_10
		}
		return strings.Compare(a, b)
	})
	return names
}

// question is the field as a question. One that stands alone is asked by the message of its form.
func (f acpField) question(name, message string, alone, free bool) trace.Question {
	q := trace.Question{Text: f.Description, Header: f.Title, Multi: f.Type == "array", Free: free}
	switch {
	case q.Text != "":
	case alone && message != "":
		q.Text = message
	case f.Title != "":
		q.Text = f.Title
	default:
		q.Text = name
	}
	for _, label := range append(slices.Clip(f.Enum), f.Items.Enum...) {
		q.Options = append(q.Options, trace.Choice{Label: label})
	}
	for _, o := range append(slices.Clip(f.OneOf), f.Items.AnyOf...) {
		q.Options = append(q.Options, trace.Choice{Label: o.Const, Description: o.Title})
	}
	if f.Type == "boolean" {
		q.Options = []trace.Choice{{Label: "true"}, {Label: "false"}}
	}
	for i := range q.Options {
		q.Options[i].Default = f.isDefault(q.Options[i].Label)
	}
	return q
}

func (f acpField) isDefault(label string) bool {
	var s string
	if json.Unmarshal(f.Default, &s) == nil {
		return s == label
	}
	return string(f.Default) == label // a boolean
}

// form is the reply to an elicitation in the words of the protocol.
func (a *acpTalk) form(fields map[string]acpField, names []string, questions []trace.Question, r responder.Reply) acpObject {
	switch {
	case r.Outcome == responder.Cancelled || a.s.ctx.Err() != nil:
		return acpObject{"action": "cancel"}
	case r.Outcome != responder.Allowed:
		return acpObject{"action": "decline"}
	}
	content := acpObject{}
	for i, name := range names {
		key, value, err := fields[name].value(name, questions[i], r.Answers[i])
		if err != nil {
			a.s.emit(warning(fmt.Sprintf("the answer to %q does not fit its field, so the form is declined: %v", trace.Shorten(name, 100), err)))
			return acpObject{"action": "decline"}
		}
		content[key] = value
	}
	return acpObject{"action": "accept", "content": content}
}

// value is an answer as the field wants it, and the field that it goes to.
func (f acpField) value(name string, q trace.Question, answer string) (key string, value any, err error) {
	offered := slices.ContainsFunc(q.Options, func(c trace.Choice) bool { return c.Label == answer })
	switch {
	case q.Free && !offered:
		return name + customSuffix, answer, nil
	case f.Type == "array":
		return name, []string{answer}, nil
	case f.Type == "boolean":
		return name, answer == "true", nil
	case f.Type == "integer":
		n, err := strconv.ParseInt(answer, 10, 64)
		return name, n, err
	case f.Type == "number":
		n, err := strconv.ParseFloat(answer, 64)
		if err == nil && (n-n != 0) {
			err = errors.New("it is no number")
		}
		return name, n, err
	}
	return name, answer, nil
}

// inside is the name in the work folder of a path as the agent gives it.
func (a *acpTalk) inside(p string) (string, error) {
	work := path.Clean(a.s.task.Work)
	if !path.IsAbs(p) {
		p = path.Join(work, p)
	}
	name, ok := strings.CutPrefix(path.Clean(p), work+"/")
	if !ok || name == "" {
		return "", fmt.Errorf("%q is not a file of the work folder", trace.Shorten(p, 300))
	}
	return name, nil
}

// readFile gives the agent a text file of the work folder, or some lines of it.
func (a *acpTalk) readFile(f acpFrame) error {
	var p struct {
		Path  string `json:"path"`
		Line  *int   `json:"line"` // from 1
		Limit *int   `json:"limit"`
	}
	if err := json.Unmarshal(f.Params, &p); err != nil {
		return err
	}
	name, err := a.inside(p.Path)
	if err != nil {
		return err
	}
	text, err := a.load(name)
	if err != nil {
		a.fileIO("did not read %s: %v", name, err)
		a.refuseFile(f.ID, p.Path, err)
		return nil
	}
	text = someLines(text, p.Line, p.Limit)
	a.fileIO("read %s: %d bytes", name, len(text))
	a.reply(f.ID, acpObject{"content": text})
	return nil
}

func (a *acpTalk) load(name string) (string, error) {
	file, err := a.s.task.Exec.Files().Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxLine+1))
	switch {
	case err != nil:
		return "", err
	case len(content) > maxLine:
		return "", fmt.Errorf("%s is larger than %d bytes", name, maxLine)
	case !utf8.Valid(content): // it would come back changed
		return "", fmt.Errorf("%s is not UTF-8 text", name)
	}
	return string(content), nil
}

// someLines cuts a text to at most limit lines from line on.
func someLines(text string, line, limit *int) string {
	for n := 1; line != nil && n < *line && text != ""; n++ {
		_, text, _ = strings.Cut(text, "\n")
	}
	if limit == nil || *limit < 0 {
		return text
	}
	end := 0
	for n := 0; n < *limit && end < len(text); n++ {
		i := strings.IndexByte(text[end:], '\n')
		if i < 0 {
			return text
		}
		end += i + 1
	}
	return text[:end]
}

// writeFile writes a file of the work folder for the agent. One that is there keeps its permissions.
func (a *acpTalk) writeFile(f acpFrame) error {
	var p struct {
		Path    string `json:"path"`
		Content string `json:"content"`
	}
	if err := json.Unmarshal(f.Params, &p); err != nil {
		return err
	}
	name, err := a.inside(p.Path)
	if err != nil {
		return err
	}
	if a.s.ctx.Err() != nil {
		return errors.New("the session is being ended, and nothing is written any more")
	}
	mode, err := a.modeOf(name)
	if err == nil {
		err = a.s.task.Exec.Files().Put(name, strings.NewReader(p.Content), mode)
	}
	if err != nil {
		a.fileIO("did not write %s: %v", name, err)
		a.refuseFile(f.ID, p.Path, err)
		return nil
	}
	a.fileIO("wrote %s: %d bytes", name, len(p.Content))
	a.reply(f.ID, acpObject{})
	return nil
}

// modeOf is the mode to write a file with. A link is not a file to write.
func (a *acpTalk) modeOf(name string) (fs.FileMode, error) {
	file, err := a.s.task.Exec.Files().Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0o644, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Mode().Perm(), nil
}

func (a *acpTalk) fileIO(format string, args ...any) {
	a.flush()
	a.s.emit(trace.Event{Kind: trace.KindFileIO, Text: fmt.Sprintf(format, args...)})
}

// refuseFile says why a file is not given. Agents know a file that is absent by the words.
func (a *acpTalk) refuseFile(id json.RawMessage, name string, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		a.refuse(id, acpNotFound, "Resource not found: %s", name)
		return
	}
	a.refuse(id, acpInternal, "%v", err)
}
