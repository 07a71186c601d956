package suite

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// A Kind is what a schema must know of one kind of block: its name, one line of text, and a value of the struct that its
// settings decode into (nil when it has none).
type Kind struct {
	Name, Doc string
	Params    any
}

// Kinds are all kinds of blocks there are. A list that is empty leaves its blocks open.
type Kinds struct {
	Harnesses, Assertions, Environments, Policies, Executors []Kind
}

// Schema is a JSON Schema (2020-12) of suite.yaml and of case.yaml, made from the tags that the decoder obeys. A file
// with the key matrix is taken for a suite.yaml; $defs/suite and $defs/case are the two alone. What a schema cannot say,
// such as that a path exists, is found by Load alone.
func Schema(k Kinds) ([]byte, error) {
	w := schemas{kinds: map[reflect.Type][]Kind{
		reflect.TypeFor[harnessRow]():  k.Harnesses,
		reflect.TypeFor[Assertion]():   k.Assertions,
		reflect.TypeFor[environment](): k.Environments,
		reflect.TypeFor[interaction](): k.Policies,
		reflect.TypeFor[executor]():    k.Executors,
	}}
	return json.MarshalIndent(object{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "Assay: suite.yaml and case.yaml",
		"if":      object{"required": []string{"matrix"}},
		"then":    object{"$ref": "#/$defs/suite"},
		"else":    object{"$ref": "#/$defs/case"},
		"$defs": object{
			"suite": w.structure(reflect.TypeFor[suiteFile]()),
			"case":  w.structure(reflect.TypeFor[caseFile]()),
		},
	}, "", "  ")
}

type object = map[string]any

// schemas walks the types of the files.
type schemas struct {
	kinds map[reflect.Type][]Kind // of the structs that hold a block
	open  []reflect.Type          // structs being walked: one that holds itself is left open at the inner place
}

func (w *schemas) structure(t reflect.Type) object {
	if slices.Contains(w.open, t) {
		return object{}
	}
	w.open = append(w.open, t)
	defer func() { w.open = w.open[:len(w.open)-1] }()

	properties, required := object{}, []string{}
	out := object{"type": "object", "properties": properties, "additionalProperties": false}
	for _, f := range fieldsOf(t) {
		if f.kindKey {
			properties[f.key] = w.choice(out, w.kinds[t], f)
		} else {
			properties[f.key] = w.described(t.FieldByIndex(f.index).Type, f)
		}
		if f.rules.has("required") {
			required = append(required, f.key)
		}
		if f.short {
			defer func() { out["type"] = []string{"object", "string"} }()
		}
	}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// choice adds to out what each kind of block allows, and returns the schema of the key that names the kind.
func (w *schemas) choice(out object, kinds []Kind, f field) object {
	key := object{"type": "string", "description": f.doc}
	if f.def != "" {
		key["default"] = f.def
	}
	if len(kinds) == 0 {
		delete(out, "additionalProperties")
		return key
	}
	var names, docs []string
	var branches []object
	for _, k := range kinds {
		names = append(names, k.Name)
		docs = append(docs, k.Name+": "+k.Doc)
		condition := object{"properties": object{f.key: object{"const": k.Name}}}
		if k.Name != f.def {
			condition["required"] = []string{f.key}
		}
		then := object{}
		if t := structOf(k.Params); t != nil {
			then = w.structure(t)
			delete(then, "additionalProperties") // the keys of the suite stand beside them
			delete(then, "type")
		}
		branches = append(branches, object{"if": condition, "then": then})
	}
	key["enum"] = names
	key["description"] = f.doc + "\n" + strings.Join(docs, "\n")
	delete(out, "additionalProperties")
	out["unevaluatedProperties"] = false
	out["allOf"] = branches
	return key
}

// structOf is the struct type of a Params value, or nil.
func structOf(params any) reflect.Type {
	t := reflect.TypeOf(params)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

// described is the schema of a field with its doc and default.
func (w *schemas) described(t reflect.Type, f field) object {
	out := w.value(t, f.rules)
	if f.doc != "" {
		out["description"] = f.doc
	}
	if f.def != "" {
		out["default"] = defaultValue(t, f.def)
	}
	return out
}

// defaultValue is a default as JSON: a tag holds it as it would stand in YAML.
func defaultValue(t reflect.Type, text string) any {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		if t != durationType {
			return json.RawMessage(text)
		}
	}
	return text
}

func (w *schemas) value(t reflect.Type, r rules) object {
	switch {
	case t == blockType:
		return object{"type": "object"}
	case t == durationType:
		return object{"type": "string", "pattern": `^([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)`}
	case t.Kind() == reflect.Struct:
		return w.structure(t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		inner := w.value(t.Elem(), r)
		if r.has("off") {
			return object{"oneOf": []any{inner, object{"const": "off"}, object{"type": "null"}}}
		}
		return object{"anyOf": []any{inner, object{"type": "null"}}}
	case reflect.Slice:
		out := object{"type": "array", "items": w.value(t.Elem(), r.elements())}
		if r.has("required") {
			out["minItems"] = 1
		}
		return out
	case reflect.Map:
		out := object{"type": "object", "additionalProperties": w.value(t.Elem(), r.elements())}
		if r.has("env") {
			out["propertyNames"] = object{"pattern": envPattern.String()}
		}
		if r.has("required") {
			out["minProperties"] = 1
		}
		return out
	case reflect.String:
		return texts(r)
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return bounded("integer", r)
	case reflect.Float64:
		return bounded("number", r)
	}
	return object{} // any
}

// elements are the rules that hold for the elements of a list or a map.
func (r rules) elements() rules {
	return slices.DeleteFunc(slices.Clone(r), func(one rule) bool { return one.name == "required" })
}

func texts(r rules) object {
	out := object{"type": "string"}
	for _, one := range r {
		switch one.name {
		case "required":
			out["minLength"] = 1
		case "oneof":
			out["enum"] = strings.Fields(one.arg)
		case "regex":
			out["format"] = "regex"
		case "id":
			out["pattern"] = idPattern.String()
		case "path", "glob":
			out["minLength"] = 1
		}
	}
	return out
}

func bounded(kind string, r rules) object {
	out := object{"type": kind}
	names := map[string]string{"min": "minimum", "max": "maximum", "above": "exclusiveMinimum"}
	for _, one := range r {
		if name, ok := names[one.name]; ok {
			out[name] = json.RawMessage(one.arg)
		}
	}
	return out
}

// A Field is one setting of a kind, for people: Name may be a path such as steps[].run, Type is in words.
type Field struct {
	Name, Type, Doc, Rule, Default string
}

// Describe lists the settings that decode into the struct params, in their order; nil has none.
func Describe(params any) []Field {
	t := structOf(params)
	if t == nil {
		return nil
	}
	return fieldsBelow(t, "", nil)
}

// DescribeFiles lists the keys of suite.yaml and of case.yaml in the same way. What a kind adds to its block is not there.
func DescribeFiles() (ofSuite, ofCase []Field) {
	return Describe(suiteFile{}), Describe(caseFile{})
}

func fieldsBelow(t reflect.Type, prefix string, open []reflect.Type) []Field {
	if slices.Contains(open, t) {
		return nil
	}
	open = append(slices.Clone(open), t)
	var out []Field
	for _, f := range fieldsOf(t) {
		inner := t.FieldByIndex(f.index).Type
		var said []string
		for _, r := range f.rules {
			said = append(said, strings.TrimSuffix(r.name+" "+r.arg, " "))
		}
		name, words := prefix+f.key, inWords(inner)
		if f.kindKey {
			words = "text" // the key names the kind; the other keys of the block are described with it
		}
		out = append(out, Field{Name: name, Type: words, Doc: f.doc, Rule: strings.Join(said, ", "), Default: f.def})
		for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map || inner.Kind() == reflect.Pointer {
			switch inner.Kind() {
			case reflect.Slice:
				name += "[]"
			case reflect.Map:
				name += ".*"
			}
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner != blockType {
			out = append(out, fieldsBelow(inner, name+".", open)...)
		}
	}
	return out
}

func inWords(t reflect.Type) string {
	switch {
	case t == durationType:
		return "duration"
	case t == blockType:
		return "mapping"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return inWords(t.Elem())
	case reflect.Slice:
		return "list of " + inWords(t.Elem())
	case reflect.Map:
		return "mapping to " + inWords(t.Elem())
	case reflect.Struct:
		if slices.ContainsFunc(fieldsOf(t), func(f field) bool { return f.short }) {
			return "text or mapping"
		}
		return "mapping"
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "whole number"
	case reflect.Float64:
		return "number"
	}
	return "anything"
}
