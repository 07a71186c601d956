package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// asked is what a scripted model must know of a request.
type asked struct {
	body    []byte
	model   string
	tools   []tool
	rounds  int      // of tool results
	results []string // texts that tools returned, in order
	schema  object   // of the JSON that is asked for; nil: none is
	thinks  bool     // thoughts may be answered
	usage   bool     // usage may be streamed
	work    string   // the folder that the agent works in; empty: not said
}

// A tool is one that a request offers.
type tool struct {
	name      string
	namespace string
	schema    object // of its input
	freeform  bool   // takes text instead of JSON
}

// readAsked understands a request as far as it can: members that are not what they should be count as absent.
func readAsked(d Dialect, body []byte) (*asked, error) {
	var o object
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, fmt.Errorf("read a request to the scripted %s model: %w", d, err)
	}
	r := &asked{body: body, model: textAt(o, "model"), work: workFolder(body), usage: true}
	switch d {
	case Anthropic:
		r.readAnthropic(o)
	case Chat:
		r.readChat(o)
	case Responses:
		r.readResponses(o)
	case Gemini:
		r.readGemini(o)
	default:
		return nil, fmt.Errorf("no scripted model speaks the dialect %q", d)
	}
	return r, nil
}

func (r *asked) readAnthropic(o object) {
	for _, t := range listAt(o, "tools") {
		r.offer(textAt(t, "name"), "", objectAt(t, "input_schema"), false)
	}
	for _, m := range listAt(o, "messages") {
		found := false
		for _, block := range listAt(m, "content") {
			if textAt(block, "type") == "tool_result" {
				found = true
				r.result(at(block, "content"))
			}
		}
		if found {
			r.rounds++
		}
	}
	r.schema = objectAt(o, "output_config", "format", "schema")
	if r.schema == nil {
		r.schema = objectAt(o, "output_format", "schema")
	}
	kind := textAt(o, "thinking", "type")
	r.thinks = kind != "" && kind != "disabled"
}

func (r *asked) readChat(o object) {
	for _, t := range listAt(o, "tools") {
		r.offer(textAt(t, "function", "name"), "", objectAt(t, "function", "parameters"), false)
	}
	before := false
	for _, m := range listAt(o, "messages") {
		is := textAt(m, "role") == "tool"
		if is {
			r.result(at(m, "content"))
		}
		if is && !before {
			r.rounds++
		}
		before = is
	}
	r.schema = objectAt(o, "response_format", "json_schema", "schema")
	if r.schema == nil && textAt(o, "response_format", "type") == "json_object" {
		r.schema = object{"type": "object"}
	}
	r.usage, _ = at(o, "stream_options", "include_usage").(bool)
	r.thinks = true
}

func (r *asked) readResponses(o object) {
	r.offerAll(listAt(o, "tools"), "")
	before := false
	for _, item := range listAt(o, "input") {
		r.offerAll(listAt(item, "tools"), "") // tools may come as an item too
		is := strings.HasSuffix(textAt(item, "type"), "_output")
		if is {
			r.result(at(item, "output"))
		}
		if is && !before {
			r.rounds++
		}
		before = is
	}
	r.schema = objectAt(o, "text", "format", "schema")
	r.thinks = true
}

func (r *asked) offerAll(tools []any, namespace string) {
	for _, t := range tools {
		switch textAt(t, "type") {
		case "namespace":
			if namespace == "" {
				r.offerAll(listAt(t, "tools"), textAt(t, "name"))
			}
		case "custom":
			r.offer(textAt(t, "name"), namespace, nil, true)
		case "function":
			r.offer(textAt(t, "name"), namespace, objectAt(t, "parameters"), false)
		}
	}
}

func (r *asked) readGemini(o object) {
	for _, group := range listAt(o, "tools") {
		for _, f := range listAt(group, "functionDeclarations") {
			schema := objectAt(f, "parametersJsonSchema")
			if schema == nil {
				schema = objectAt(f, "parameters")
			}
			r.offer(textAt(f, "name"), "", schema, false)
		}
	}
	for _, c := range listAt(o, "contents") {
		found := false
		for _, p := range listAt(c, "parts") {
			if response := at(p, "functionResponse", "response"); response != nil {
				found = true
				r.result(response)
			}
		}
		if found {
			r.rounds++
		}
	}
	for _, name := range []string{"responseJsonSchema", "responseSchema"} {
		if s := objectAt(o, "generationConfig", name); s != nil {
			r.schema = s
		}
	}
	r.thinks, _ = at(o, "generationConfig", "thinkingConfig", "includeThoughts").(bool)
}

func (r *asked) offer(name, namespace string, schema object, freeform bool) {
	if name != "" {
		r.tools = append(r.tools, tool{name: name, namespace: namespace, schema: schema, freeform: freeform})
	}
}

// result keeps the texts of a tool's result.
func (r *asked) result(v any) {
	switch v := v.(type) {
	case string:
		r.results = append(r.results, v)
	case []any:
		for _, one := range v {
			r.result(one)
		}
	case object:
		for _, key := range []string{"text", "output", "error", "content"} {
			r.result(v[key])
		}
	}
}

// workFolder finds where the agent says that it works. Tools of some agents take absolute paths only.
func workFolder(body []byte) string {
	for _, label := range []string{
		"Primary working directory: ", `Workspace Directories:**\n  - `, "<cwd>", "Working directory: ", "working directory: ",
	} {
		_, rest, found := bytes.Cut(body, []byte(label))
		if !found || !bytes.HasPrefix(rest, []byte("/")) {
			continue
		}
		end := bytes.IndexAny(rest, "\"\\<\n")
		if end < 0 {
			continue
		}
		return strings.TrimRight(string(rest[:end]), "/")
	}
	return ""
}

// at walks down members of objects; nil when one is absent.
func at(v any, keys ...string) any {
	for _, k := range keys {
		o, _ := v.(object)
		v = o[k]
	}
	return v
}

func textAt(v any, keys ...string) string {
	s, _ := at(v, keys...).(string)
	return s
}

func listAt(v any, keys ...string) []any {
	l, _ := at(v, keys...).([]any)
	return l
}

func objectAt(v any, keys ...string) object {
	o, _ := at(v, keys...).(object)
	return o
}
