package suite

import (
	"fmt"
	"math"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/bmatcuk/doublestar/v4"
)

// A decoder fills Go values from nodes and reports every fault of a node. What it reads is said by struct tags:
//
//	yaml:"key"      the key; a field without the tag is not read. "key,short" marks the field that a plain text stands
//	                for where the mapping is expected. "key,kind" marks a Block that takes its kind from key and all
//	                keys of the mapping that no other field has. ",inline" on an embedded struct gives its fields to the
//	                mapping of the struct that embeds it
//	doc:"one line"  for schemas and assay explain
//	default:"10m"   the value when the key is absent and the field is still zero
//	rule:"a,b=1"    the rules below, separated by commas
//
// Rules: required (the key is there and not empty) · min=, max= (inclusive) and above= (exclusive) for numbers and
// durations · oneof=a b c · regex (RE2) · glob (doublestar) · path (slash separated, relative, inside its folder) ·
// pathkeys (the same for the keys of a map, in their shortest form) · id (of a case, a condition and the like) · env (the
// keys of a map are names of environment variables that may pass) · off (the word off makes a pointer nil). Rules that
// speak of one value hold for every element of a list and every value of a map.
//
// Fields are strings, bools, ints, int64s, float64s, time.Durations, lists, maps with string keys, pointers, structs,
// any, and Block. A field of type Pos without a yaml tag gets the position of its mapping. A value that stands in a
// field before decoding is kept when its key is absent.
type decoder struct {
	src      *source
	problems Problems
}

var (
	blockType    = reflect.TypeFor[Block]()
	posType      = reflect.TypeFor[Pos]()
	durationType = reflect.TypeFor[time.Duration]()
)

// A field is one tagged field of a struct.
type field struct {
	index          []int // of the struct, and of those that it embeds
	key, doc, def  string
	short, kindKey bool
	rules          rules
}

type rules []rule

type rule struct{ name, arg string }

func (r rules) has(name string) bool {
	return slices.ContainsFunc(r, func(one rule) bool { return one.name == name })
}

// fieldsOf reads the tags of a struct type. A tag that says nonsense is a bug of ours, so it panics.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag, ok := f.Tag.Lookup("yaml")
		if !ok {
			continue
		}
		key, option, _ := strings.Cut(tag, ",")
		one := field{index: f.Index, key: key, doc: f.Tag.Get("doc"), def: f.Tag.Get("default")}
		switch option {
		case "":
		case "short":
			one.short = true
		case "kind":
			one.kindKey = true
		case "inline":
			for _, inner := range fieldsOf(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				fields = append(fields, inner)
			}
			continue
		default:
			panic(fmt.Sprintf("suite: %s.%s has the unknown tag option %q", t, f.Name, option))
		}
		if text := f.Tag.Get("rule"); text != "" {
			for part := range strings.SplitSeq(text, ",") {
				name, arg, _ := strings.Cut(part, "=")
				if !slices.Contains([]string{"required", "min", "max", "above", "oneof", "regex", "glob", "path", "pathkeys", "id", "env", "off"}, name) {
					panic(fmt.Sprintf("suite: %s.%s has the unknown rule %q", t, f.Name, name))
				}
				one.rules = append(one.rules, rule{name, arg})
			}
		}
		fields = append(fields, one)
	}
	return fields
}

func (d *decoder) fault(n *node, msg, hint string) {
	d.problems = append(d.problems, d.src.problem(n, msg, hint))
}

// wrong reports a value of the wrong sort: what was found and what is wanted.
func (d *decoder) wrong(n *node, name, want, hint string) {
	d.fault(n, fmt.Sprintf("%sfound %s, want %s", of(name), describe(n), want), hint)
}

// of begins a message with the key that it is about; the file as a whole has none.
func of(name string) string {
	if name == "" {
		return ""
	}
	return name + ": "
}

func describe(n *node) string {
	switch n.kind {
	case isText:
		return "the text " + quote(n.text)
	case isNumber:
		return "the number " + n.text
	case isBool:
		return n.text
	case isList:
		return "a list"
	case isMapping:
		return "a mapping"
	}
	return "nothing"
}

// value decodes n into v; name is the key that messages speak of.
func (d *decoder) value(n *node, v reflect.Value, name string, r rules) {
	switch t := v.Type(); {
	case t == blockType:
		if n.kind != isMapping {
			d.wrong(n, name, "a mapping", "")
			return
		}
		v.Set(reflect.ValueOf(Block{At: d.src.pos(n), node: n, file: d.src}))
	case t == durationType:
		d.duration(n, v, name, r)
	case t.Kind() == reflect.Pointer:
		d.pointer(n, v, name, r)
	case t.Kind() == reflect.Interface:
		if n.kind != isNull { // a nil has no reflect.Value that could be set
			v.Set(reflect.ValueOf(free(n)))
		}
	case t.Kind() == reflect.Struct:
		d.structure(n, v, name)
	case t.Kind() == reflect.Slice:
		d.list(n, v, name, r)
	case t.Kind() == reflect.Map:
		d.table(n, v, name, r)
	case t.Kind() == reflect.String:
		d.text(n, v, name, r)
	case t.Kind() == reflect.Bool:
		if n.kind != isBool {
			d.wrong(n, name, "true or false", yesOrNo(n))
			return
		}
		v.SetBool(strings.EqualFold(n.text, "true"))
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		i, err := strconv.ParseInt(n.text, 10, 64)
		if n.kind != isNumber || err != nil {
			d.wrong(n, name, "a whole number", "")
			return
		}
		v.SetInt(i)
		d.bounds(n, name, float64(i), r, number)
	case t.Kind() == reflect.Float64:
		f, err := strconv.ParseFloat(n.text, 64)
		if n.kind != isNumber || err != nil || !decimal.MatchString(n.text) {
			d.wrong(n, name, "a number", "")
			return
		}
		v.SetFloat(f)
		d.bounds(n, name, f, r, number)
	default:
		panic(fmt.Sprintf("suite: cannot decode into %s", t))
	}
}

// decimal is a number as JSON writes it; YAML's hexadecimal, octal, infinite and grouped ones are not taken.
var decimal = regexp.MustCompile(`^[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?$`)

func yesOrNo(n *node) string {
	switch strings.ToLower(n.text) {
	case "yes", "y", "on":
		return "write true"
	case "no", "n", "off":
		return "write false"
	}
	return ""
}

func (d *decoder) pointer(n *node, v reflect.Value, name string, r rules) {
	switch {
	case n.kind == isNull, r.has("off") && n.kind == isText && n.text == "off":
		v.SetZero()
		return
	case r.has("off") && n.kind != isMapping:
		d.wrong(n, name, "a mapping or off", "")
		return
	}
	into := reflect.New(v.Type().Elem())
	if !v.IsNil() {
		into.Elem().Set(v.Elem())
	}
	d.value(n, into.Elem(), name, r)
	v.Set(into)
}

// structure decodes a mapping into the tagged fields of a struct, and reports the keys that no field has.
func (d *decoder) structure(n *node, v reflect.Value, name string) {
	fields := fieldsOf(v.Type())
	if short := slices.IndexFunc(fields, func(f field) bool { return f.short }); short >= 0 && n.kind == isText {
		n = &node{kind: isMapping, line: n.line, col: n.col, keys: []*node{{kind: isText, text: fields[short].key}}, items: []*node{n}}
	}
	if n.kind != isMapping {
		d.wrong(n, name, "a mapping", "")
		return
	}
	d.position(n, v)
	var known []string
	rest := false
	for _, f := range fields {
		known = append(known, f.key)
		rest = rest || f.kindKey
		item := n.get(f.key)
		if f.kindKey {
			d.block(n, v.FieldByIndex(f.index), f, fields, name)
		} else if item == nil {
			d.absent(n, v.FieldByIndex(f.index), f, name)
		} else if !d.empty(item, f) {
			d.value(item, v.FieldByIndex(f.index), f.key, f.rules)
		}
	}
	if rest {
		return // the owner of the kind judges the other keys
	}
	for _, k := range n.keys {
		if !slices.Contains(known, k.text) {
			d.fault(k, "unknown key "+quote(k.text)+in(name), didYouMean(k.text, known))
		}
	}
}

func in(name string) string {
	if name == "" {
		return ""
	}
	return " in " + name
}

func (d *decoder) position(n *node, v reflect.Value) {
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Type == posType && f.Tag.Get("yaml") == "" && f.IsExported() {
			v.Field(i).Set(reflect.ValueOf(d.src.pos(n)))
		}
	}
}

// block takes a kind, and the keys of the mapping that no field owns.
func (d *decoder) block(n *node, v reflect.Value, f field, fields []field, name string) {
	b := Block{Kind: f.def, At: d.src.pos(n), kindKey: f.key, node: n, file: d.src}
	for _, other := range fields {
		b.owned = append(b.owned, other.key)
	}
	if item := n.get(f.key); item != nil {
		if !d.empty(item, f) {
			d.text(item, reflect.ValueOf(&b.Kind).Elem(), f.key, f.rules)
		}
	} else if f.rules.has("required") {
		d.missing(n, f, name)
	}
	v.Set(reflect.ValueOf(b))
}

func (d *decoder) missing(n *node, f field, name string) {
	d.fault(n, f.key+" is missing"+in(name), f.doc)
}

// absent handles a key that is not there: it was required, or its default counts.
func (d *decoder) absent(n *node, v reflect.Value, f field, name string) {
	switch {
	case f.rules.has("required") && v.IsZero():
		d.missing(n, f, name)
	case f.def != "" && v.IsZero():
		d.preset(v, f)
	case v.Kind() == reflect.Struct && v.Type() != blockType:
		d.defaults(v)
	}
}

// defaults fills a struct whose mapping is not there at all.
func (d *decoder) defaults(v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		switch at := v.FieldByIndex(f.index); {
		case f.kindKey && at.IsZero():
			at.Set(reflect.ValueOf(Block{Kind: f.def, kindKey: f.key, file: d.src}))
		case f.def != "" && at.IsZero():
			d.preset(at, f)
		case at.Kind() == reflect.Struct && at.Type() != blockType:
			d.defaults(at)
		}
	}
}

// preset decodes a default, which is written in the tag as it would stand in the file.
func (d *decoder) preset(v reflect.Value, f field) {
	n := &node{kind: isText, text: f.def}
	switch v.Kind() {
	case reflect.Bool:
		n.kind = isBool
	case reflect.Int, reflect.Int64, reflect.Float64:
		if v.Type() != durationType {
			n.kind = isNumber
		}
	}
	own := decoder{}
	own.value(n, v, f.key, f.rules)
	if len(own.problems) > 0 {
		panic(fmt.Sprintf("suite: the default of %s: %v", f.key, own.problems))
	}
}

// empty reports a required key that is there without a value.
func (d *decoder) empty(n *node, f field) bool {
	blank := n.kind == isText && strings.TrimSpace(n.text) == "" || (n.kind == isList || n.kind == isMapping) && len(n.items) == 0
	if !f.rules.has("required") || !blank && n.kind != isNull {
		return false
	}
	d.fault(n, f.key+" must not be empty", f.doc)
	return true
}

func (d *decoder) list(n *node, v reflect.Value, name string, r rules) {
	if n.kind != isList {
		hint := ""
		if n.kind == isText {
			hint = "write [" + quote(n.text) + "]"
		}
		d.wrong(n, name, "a list", hint)
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
	for i, item := range n.items {
		d.value(item, out.Index(i), fmt.Sprintf("%s[%d]", name, i), r)
	}
	v.Set(out)
}

func (d *decoder) table(n *node, v reflect.Value, name string, r rules) {
	if n.kind != isMapping {
		d.wrong(n, name, "a mapping", "")
		return
	}
	out := reflect.MakeMapWithSize(v.Type(), len(n.items))
	for i, key := range n.keys {
		if r.has("env") {
			d.envName(key)
		}
		if r.has("pathkeys") {
			d.pathKey(key, name)
		}
		d.nul(key, name)
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(n.items[i], item, name+"."+key.text, r)
		out.SetMapIndex(reflect.ValueOf(key.text).Convert(v.Type().Key()), item)
	}
	v.Set(out)
}

func (d *decoder) text(n *node, v reflect.Value, name string, r rules) {
	if n.kind != isText {
		hint := ""
		if n.kind == isNumber || n.kind == isBool {
			hint = "quote it: " + strconv.Quote(n.text)
		}
		d.wrong(n, name, "a text", hint)
		return
	}
	d.nul(n, name)
	v.SetString(n.text)
	for _, one := range r {
		d.textRule(n, name, one)
	}
}

func (d *decoder) nul(n *node, name string) {
	if strings.ContainsRune(n.text, 0) {
		d.fault(n, name+": a NUL character cannot stand in a text", "")
	}
}

func (d *decoder) textRule(n *node, name string, r rule) {
	switch r.name {
	case "oneof":
		known := strings.Fields(r.arg)
		if slices.Contains(known, n.text) {
			return
		}
		hint := ""
		if best := nearest(n.text, known); best != "" {
			hint = "did you mean " + best + "?"
		}
		d.fault(n, fmt.Sprintf("%s: found %s, want %s", name, quote(n.text), strings.Join(known, " or ")), hint)
	case "regex":
		if _, err := regexp.Compile(n.text); err != nil {
			d.fault(n, name+": "+strings.TrimPrefix(err.Error(), "error parsing regexp: "), "the syntax is RE2: no look-around, no back-references")
		}
	case "glob":
		if n.text == "" || !doublestar.ValidatePattern(n.text) {
			d.fault(n, name+": "+quote(n.text)+" is not a glob", "such as src/**/*.go")
		} else {
			d.inside(n, name)
		}
	case "path":
		d.inside(n, name)
	case "id":
		d.id(n, name)
	}
}

// inside reports a path that is not slash separated, relative and below the folder that it is relative to.
func (d *decoder) inside(n *node, name string) {
	if msg, hint := pathFault(n.text); msg != "" {
		d.fault(n, name+": "+quote(n.text)+" "+msg, hint)
	} else if clean := path.Clean(n.text); clean == ".." || strings.HasPrefix(clean, "../") {
		d.fault(n, name+": "+quote(n.text)+" leads out of its folder", "")
	}
}

// pathKey reports a key that is no path, or one that another key could be equal to.
func (d *decoder) pathKey(key *node, name string) {
	d.inside(key, name)
	if clean := path.Clean(key.text); key.text != "" && clean != key.text {
		d.fault(key, name+": "+quote(key.text)+" is not the shortest form of the path", "write "+clean)
	}
}

// pathFault says what is wrong with a path wherever it may lead; the message is empty when nothing is.
func pathFault(p string) (msg, hint string) {
	switch {
	case strings.TrimSpace(p) == "":
		return "is not a path", ""
	case strings.ContainsRune(p, '\\'):
		return "has a backslash", "separate folders with /"
	case path.IsAbs(p), len(p) > 1 && p[1] == ':' && unicode.IsLetter(rune(p[0])):
		return "is absolute", "write it relative to the file that names it"
	case strings.HasPrefix(p, "~"):
		return "begins with ~", "write it relative to the file that names it"
	case strings.HasPrefix(p, "-"):
		return "begins with -", "a program could take it for an option; write ./" + p
	}
	return "", ""
}

var idPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// device are names that Windows keeps for devices, whatever extension follows.
var device = regexp.MustCompile(`^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)

// id reports an id that could not be a file name on every system: ids become folders of the ledger.
func (d *decoder) id(n *node, name string) {
	switch {
	case !idPattern.MatchString(n.text):
		hint := "1 to 64 of a-z 0-9 . _ - beginning with a letter or digit"
		if lower := strings.ToLower(strings.ReplaceAll(n.text, " ", "-")); idPattern.MatchString(lower) {
			hint = "write " + lower
		}
		d.fault(n, name+": "+quote(n.text)+" is not an id", hint)
	case strings.HasSuffix(n.text, "."):
		d.fault(n, name+": "+quote(n.text)+" ends with a dot", "")
	case device.MatchString(n.text):
		d.fault(n, name+": "+quote(n.text)+" is the name of a device on Windows", "")
	}
}

var envPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// forbidden are the variables that never pass to an agent or a command, even when a suite names them: they carry the
// rights of the job that runs Assay.
var forbidden = regexp.MustCompile(`^(GITHUB_.*|ACTIONS_.*|RUNNER_.*|INPUT_.*|.*_TOKEN|SSH_AUTH_SOCK|DOCKER_.*)$`)

func (d *decoder) envName(key *node) {
	switch {
	case !envPattern.MatchString(key.text):
		d.fault(key, quote(key.text)+" is not the name of an environment variable", "")
	case forbidden.MatchString(strings.ToUpper(key.text)):
		d.fault(key, key.text+" never passes to a cell", "GITHUB_*, ACTIONS_*, RUNNER_*, INPUT_*, *_TOKEN, SSH_AUTH_SOCK and DOCKER_* carry the rights of the job")
	}
}

func (d *decoder) duration(n *node, v reflect.Value, name string, r rules) {
	length, err := time.ParseDuration(n.text)
	if n.kind != isText || err != nil {
		hint := ""
		if n.kind == isNumber {
			hint = "write " + n.text + "s for seconds"
		}
		d.wrong(n, name, "a duration such as 90s or 10m", hint)
		return
	}
	if length < 0 {
		d.fault(n, name+": "+n.text+" is negative", "")
		return
	}
	v.SetInt(int64(length))
	d.bounds(n, name, float64(length), r, func(arg string) float64 {
		limit, err := time.ParseDuration(arg)
		if err != nil {
			panic("suite: the limit " + arg + " of " + name + " is not a duration")
		}
		return float64(limit)
	})
}

func number(arg string) float64 {
	f, err := strconv.ParseFloat(arg, 64)
	if err != nil {
		panic("suite: the limit " + arg + " is not a number")
	}
	return f
}

// bounds checks min, max and above; limit reads their argument.
func (d *decoder) bounds(n *node, name string, got float64, r rules, limit func(string) float64) {
	for _, one := range r {
		switch {
		case one.name == "min" && got < limit(one.arg):
			d.fault(n, fmt.Sprintf("%s: %s is less than %s", name, n.text, one.arg), "")
		case one.name == "max" && got > limit(one.arg):
			d.fault(n, fmt.Sprintf("%s: %s is more than %s", name, n.text, one.arg), "")
		case one.name == "above" && got <= limit(one.arg):
			d.fault(n, fmt.Sprintf("%s: %s is not above %s", name, n.text, one.arg), "")
		}
	}
}

// free gives a value without a type of ours: string, int64, float64, bool, nil, []any or map[string]any.
func free(n *node) any {
	switch n.kind {
	case isText:
		return n.text
	case isNumber:
		if i, err := strconv.ParseInt(n.text, 10, 64); err == nil {
			return i
		}
		if f, err := strconv.ParseFloat(n.text, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return f
		}
		return n.text
	case isBool:
		return strings.EqualFold(n.text, "true")
	case isList:
		out := make([]any, len(n.items))
		for i, item := range n.items {
			out[i] = free(item)
		}
		return out
	case isMapping:
		out := make(map[string]any, len(n.items))
		for i, key := range n.keys {
			out[key.text] = free(n.items[i])
		}
		return out
	}
	return nil
}
