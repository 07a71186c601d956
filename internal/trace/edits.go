package trace

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// An Edit is what the call of an editing tool says that it did to one path.
type Edit struct {
	Op   EditOp
	Path string // as the agent wrote it, absolute or relative; empty when the call does not say
	To   string // of a move: the new path
	Old  string // of a replacement: the text that went
	New  string // of a replacement or a write: the text that came
	All  bool   // of a replacement: Old went wherever it stood, not in one place only
}

// EditOp says what an edit did.
type EditOp string

// The ops. EditUnsaid: the path changed, and the call does not say how, or not in a way that we know.
const (
	EditReplace EditOp = "replace" // Old became New; with no Old, New was put in somewhere
	EditWrite   EditOp = "write"   // the whole file became New
	EditDelete  EditOp = "delete"  // a file, or a folder with all that is in it
	EditMove    EditOp = "move"    // of a file or a folder
	EditUnsaid  EditOp = "unsaid"
)

// Edits reads what a call changed from the inputs that agents give to their editing tools, and from the diff that an agent
// sends with the call or its result where the input does not say. It returns at least one edit for a call of an editing
// tool, nil for any other. Whether the call succeeded is for the caller to know.
func Edits(call, result Tool) []Edit {
	kind := call.Kind
	if kind == "" {
		kind = KindOfTool(call.Name)
	}
	if kind != ToolEdit && kind != ToolDelete && kind != ToolMove {
		return nil
	}
	edits := inputEdits(kind, call.Input)
	if said(edits) {
		return edits
	}
	for _, diff := range []string{call.Diff, result.Diff} {
		if fromDiff := diffEdits(diff); said(fromDiff) {
			return fromDiff
		}
	}
	if paths := slices.Concat(call.Paths, result.Paths); len(edits) == 0 && len(paths) > 0 {
		return pathEdits(kind, paths)
	}
	if len(edits) == 0 {
		return []Edit{{Op: EditUnsaid}}
	}
	return edits
}

// said tells whether there are edits, and all of them say what they did.
func said(edits []Edit) bool {
	return len(edits) > 0 && !slices.ContainsFunc(edits, func(e Edit) bool { return e.Op == EditUnsaid })
}

// pathEdits makes edits of the paths of a call whose input nobody could read.
func pathEdits(kind ToolKind, paths []string) []Edit {
	if kind == ToolMove && len(paths) == 2 {
		return []Edit{{Op: EditMove, Path: paths[0], To: paths[1]}}
	}
	op := EditUnsaid
	if kind == ToolDelete {
		op = EditDelete
	}
	var edits []Edit
	for _, p := range paths {
		edits = append(edits, Edit{Op: op, Path: p})
	}
	return edits
}

// An object is a JSON object whose fields may be of any type.
type object map[string]json.RawMessage

// text returns the first of the fields that is there and a string.
func (o object) text(names ...string) (string, bool) {
	for _, name := range names {
		var s *string
		if json.Unmarshal(o[name], &s) == nil && s != nil {
			return *s, true
		}
	}
	return "", false
}

// is tells whether one of the fields is true.
func (o object) is(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return string(o[name]) == "true" })
}

// many tells whether a field is a number other than 1.
func (o object) many(name string) bool {
	var n *float64
	return json.Unmarshal(o[name], &n) == nil && n != nil && *n != 1
}

// inputEdits reads the input of a call: an object, or the text of a patch.
func inputEdits(kind ToolKind, input json.RawMessage) []Edit {
	var patch string
	if json.Unmarshal(input, &patch) == nil {
		return diffEdits(patch)
	}
	var in object
	if json.Unmarshal(input, &in) != nil {
		return nil
	}
	if edits := diffEdits(first(in.text("patch", "patchText", "input", "diff"))); edits != nil {
		return edits
	}
	if edits := changeEdits(in["changes"]); edits != nil {
		return edits
	}
	return objectEdits(kind, in)
}

func first(s string, _ bool) string { return s }

// objectEdits reads an input that names its path, and what is to be done with it, in fields.
func objectEdits(kind ToolKind, in object) []Edit {
	from, isMove := in.text("from")
	to, hasTo := in.text("to")
	if kind == ToolMove && isMove && hasTo {
		return []Edit{{Op: EditMove, Path: from, To: to}}
	}
	name, ok := in.text("file_path", "filePath", "path", "filepath", "notebook_path")
	if !ok {
		return nil
	}
	if kind == ToolDelete {
		return []Edit{{Op: EditDelete, Path: name}}
	}
	var parts []object
	if json.Unmarshal(in["edits"], &parts) != nil || len(parts) == 0 {
		return []Edit{fieldEdit(name, in)}
	}
	var edits []Edit
	for _, part := range parts {
		edits = append(edits, fieldEdit(name, part))
	}
	return edits
}

// fieldEdit reads one edit of a path from fields. To replace nothing is how agents make a file, or fill an empty one.
func fieldEdit(name string, o object) Edit {
	old, hasOld := o.text("old_string", "oldString", "oldText", "old")
	new, hasNew := o.text("new_string", "newString", "newText", "new")
	content, isWrite := o.text("content")
	all := o.is("replace_all", "replaceAll", "allow_multiple", "all") || o.many("expected_replacements")
	switch {
	case hasOld && hasNew && old != "":
		return Edit{Op: EditReplace, Path: name, Old: old, New: new, All: all}
	case hasOld && hasNew && !all:
		return Edit{Op: EditWrite, Path: name, New: new}
	case isWrite && !hasOld && !hasNew:
		return Edit{Op: EditWrite, Path: name, New: content}
	}
	return Edit{Op: EditUnsaid, Path: name}
}

// changeEdits reads a list of changed files: an array with the path in each element, or an object by path.
func changeEdits(list json.RawMessage) []Edit {
	var edits []Edit
	var array []object
	var byPath map[string]object
	if json.Unmarshal(list, &array) == nil {
		for _, c := range array {
			if name, ok := c.text("path"); ok {
				edits = append(edits, changeEdit(name, c)...)
			}
		}
	} else if json.Unmarshal(list, &byPath) == nil {
		for _, name := range slices.Sorted(maps.Keys(byPath)) {
			edits = append(edits, changeEdit(name, byPath[name])...)
		}
	}
	return edits
}

// changeEdit reads one changed file of a list.
func changeEdit(name string, c object) []Edit {
	kind, _ := c.text("kind", "type")
	content, hasContent := c.text("content")
	switch {
	case kind == "delete":
		return []Edit{{Op: EditDelete, Path: name}}
	case kind == "add" && hasContent:
		return []Edit{{Op: EditWrite, Path: name, New: content}}
	}
	p := patchReader{path: name, lines: patchLines(first(c.text("unified_diff", "diff")))}
	if to, moved := c.text("move_path"); moved {
		p.add(Edit{Op: EditMove, Path: name, To: to})
		p.path = to
	}
	if hunks, ok := p.unified(); ok && len(hunks) > 0 {
		return hunks
	}
	return []Edit{{Op: EditUnsaid, Path: name}}
}

// diffEdits reads a diff in any of the three forms in which agents send one: whole texts or excerpts before and after as
// JSON, the patch language of apply_patch, a unified diff. It returns nil when the text is none of them, or is cut.
func diffEdits(text string) []Edit {
	if text == "" {
		return nil
	}
	if edits := jsonDiffEdits(text); edits != nil {
		return edits
	}
	p := patchReader{lines: patchLines(text)}
	read := p.unified
	if at := slices.Index(p.lines, patchBegin); at >= 0 {
		p.lines = p.lines[at+1:]
		read = p.patch
	}
	if edits, ok := read(); ok {
		return edits
	}
	return nil
}

// jsonDiffEdits reads one or several objects with a path and the text before and after; a file without the former is new.
func jsonDiffEdits(text string) []Edit {
	var list []object
	if json.Unmarshal([]byte(text), &list) != nil {
		var one object
		if json.Unmarshal([]byte(text), &one) != nil {
			return nil
		}
		list = []object{one}
	}
	var edits []Edit
	for _, d := range list {
		name, ok := d.text("path")
		new, hasNew := d.text("newText")
		if !ok || !hasNew {
			continue // other content that stands beside a diff
		}
		if _, hasOld := d.text("oldText"); !hasOld {
			edits = append(edits, Edit{Op: EditWrite, Path: name, New: new})
			continue
		}
		edits = append(edits, fieldEdit(name, d))
	}
	return edits
}

func patchLines(text string) []string {
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
