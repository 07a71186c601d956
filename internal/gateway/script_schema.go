package gateway

import "strings"

// maxSmallest bounds how many values a smallest value may have: a schema may contain itself, many times over.
const maxSmallest = 2000

// smallest returns a smallest value that a JSON schema allows: the members that are required, no more elements than must
// be. It understands JSON Schema as providers use it and Gemini's own form of it; null stands for what it cannot fill.
func smallest(schema object) any {
	f := filler{root: schema, left: maxSmallest}
	return f.fill(schema, 0)
}

type filler struct {
	root object
	left int // values that may still be made
}

func (f *filler) fill(s object, depth int) any {
	if f.left--; f.left < 0 || depth > 32 {
		return nil
	}
	if v, is := s["const"]; is {
		return v
	}
	if values := listAt(s, "enum"); len(values) > 0 {
		return values[0]
	}
	if ref := textAt(s, "$ref"); ref != "" {
		return f.fill(f.find(ref), depth+1)
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		if choices := listAt(s, key); len(choices) > 0 {
			choice, _ := choices[0].(object)
			return f.fill(choice, depth+1)
		}
	}
	switch kindOf(s) {
	case "object":
		return f.object(s, depth)
	case "array":
		items := objectAt(s, "items")
		list := []any{}
		for range min(number(s["minItems"]), max(0, f.left), 100) {
			list = append(list, f.fill(items, depth+1))
		}
		return list
	case "string":
		return strings.Repeat("x", max(1, min(number(s["minLength"]), 1000)))
	case "integer", "number":
		return number(s["minimum"])
	case "boolean":
		return false
	}
	return nil
}

func (f *filler) object(s object, depth int) object {
	o := object{}
	for _, name := range listAt(s, "required") {
		if name, is := name.(string); is && f.left > 0 {
			o[name] = f.fill(objectAt(s, "properties", name), depth+1)
		}
	}
	return o
}

// find follows a reference within the schema: #/$defs/name.
func (f *filler) find(ref string) object {
	var v any = f.root
	for key := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		v = at(v, strings.NewReplacer("~1", "/", "~0", "~").Replace(key))
	}
	o, _ := v.(object)
	return o
}

// kindOf is the type of the values that a schema allows, the first one if there are several.
func kindOf(s object) string {
	kind := textAt(s, "type")
	if list := listAt(s, "type"); len(list) > 0 {
		kind, _ = list[0].(string)
	}
	if kind == "" && s["properties"] != nil {
		kind = "object"
	}
	return strings.ToLower(kind)
}

func number(v any) int {
	n, _ := v.(float64)
	return int(max(-1e9, min(n, 1e9)))
}
