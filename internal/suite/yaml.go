package suite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3" // this file alone knows it; everything else works on node
)

// The limits of one YAML file. They bound what a hostile file can cost.
const (
	maxFile  = 1 << 20 // bytes
	maxDepth = 64
	maxNodes = 100_000 // counted after alias expansion, so an alias bomb is over the limit
	maxLine  = 4 << 10 // bytes of a line that is shown below a fault; thousands of faults may share one line
)

// source is one file's text, for the snippets of faults.
type source struct {
	name  string
	lines []string
}

// A node is one value of a YAML file. Aliases are replaced by what they stand for, tags and documents are gone.
type node struct {
	kind      nodeKind
	text      string // of a scalar, as written when it is a number
	line, col int
	keys      []*node // of a mapping, beside items
	items     []*node // values of a mapping or elements of a list
	size      int     // nodes, this one included; saturates above maxNodes
	depth     int     // levels, this one included
}

type nodeKind int

const (
	isNull nodeKind = iota
	isText
	isNumber
	isBool
	isList
	isMapping
)

// get returns the value at a key of a mapping, or nil.
func (n *node) get(key string) *node {
	if n == nil || n.kind != isMapping {
		return nil
	}
	for i, k := range n.keys {
		if k.text == key {
			return n.items[i]
		}
	}
	return nil
}

// sorted gives the keys and values of a mapping in the order of the keys.
func (n *node) sorted() iter.Seq2[string, *node] {
	order := make([]int, len(n.keys))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return strings.Compare(n.keys[i].text, n.keys[j].text) })
	return func(yield func(string, *node) bool) {
		for _, i := range order {
			if !yield(n.keys[i].text, n.items[i]) {
				return
			}
		}
	}
}

// at follows a path such as steps[2].run, or returns nil. A key may hold dots: the longest key that fits is taken.
func (n *node) at(path string) *node {
	for n != nil && path != "" {
		if rest, ok := strings.CutPrefix(path, "["); ok {
			index, after, _ := strings.Cut(rest, "]")
			i, err := strconv.Atoi(index)
			if err != nil || i < 0 || n.kind != isList || i >= len(n.items) {
				return nil
			}
			n, path = n.items[i], strings.TrimPrefix(after, ".")
			continue
		}
		key, rest := longestKey(n, path)
		n, path = n.get(key), rest
	}
	return n
}

// longestKey splits path into a key of n and what follows it.
func longestKey(n *node, path string) (key, rest string) {
	found := false
	for _, k := range n.keys {
		after, ok := strings.CutPrefix(path, k.text)
		if !ok || after != "" && after[0] != '.' && after[0] != '[' || found && len(k.text) < len(key) {
			continue
		}
		key, rest, found = k.text, strings.TrimPrefix(after, "."), true
	}
	if !found {
		return path, ""
	}
	return key, rest
}

// problem places a fault at a node; a nil node stands for the whole file.
func (s *source) problem(n *node, msg, hint string) Problem {
	p := Problem{Level: LevelFault, Msg: msg, Hint: hint}
	if s != nil {
		p.File = s.name
	}
	if s == nil || n == nil || n.line < 1 || n.line > len(s.lines) {
		return p
	}
	p.Line, p.Col = n.line, n.col
	if line := s.lines[n.line-1]; len(line) <= maxLine {
		runes := []rune(line)
		p.snippet, p.Col = line, min(max(n.col, 1), len(runes)+1)
		p.width = tokenWidth(string(runes[p.Col-1:]), n)
	}
	return p
}

// pos is the place of a node.
func (s *source) pos(n *node) Pos {
	switch {
	case s == nil:
		return Pos{}
	case n == nil:
		return Pos{File: s.name}
	}
	return Pos{File: s.name, Line: n.line, Col: n.col}
}

// tokenWidth counts the characters of the token that rest begins with.
func tokenWidth(rest string, n *node) int {
	switch {
	case n.kind == isList, rest == "", rest[0] == '[':
		return 1
	case n.kind == isMapping && len(n.keys) > 0 && rest[0] != '{':
		return tokenWidth(rest, n.keys[0])
	case rest[0] == '"' || rest[0] == '\'':
		for i := 1; i < len(rest); i++ {
			switch {
			case rest[0] == '"' && rest[i] == '\\':
				i++
			case rest[i] == rest[0] && rest[0] == '\'' && i+1 < len(rest) && rest[i+1] == '\'':
				i++
			case rest[i] == rest[0]:
				return utf8.RuneCountInString(rest[:i+1])
			}
		}
	case n.text != "" && strings.HasPrefix(rest, n.text):
		return utf8.RuneCountInString(n.text)
	}
	if end := strings.IndexAny(rest, " ,]}"); end >= 0 {
		rest = rest[:end]
	}
	return max(1, utf8.RuneCountInString(rest))
}

// parse reads one YAML document. The node is nil when the text is not YAML that we take; problems may be there all the
// same beside a node, such as a key that stands twice.
func parse(name string, data []byte) (*source, *node, Problems) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	src := &source{name: name, lines: splitLines(string(data))}
	if p, bad := unreadable(src, data); bad {
		return src, nil, Problems{p}
	}
	doc, err := document(data)
	switch {
	case errors.Is(err, io.EOF), err == nil && len(doc.Content) == 1 && isEmpty(doc.Content[0]):
		return src, nil, Problems{src.problem(nil, "the file is empty", "")}
	case err != nil:
		return src, nil, Problems{src.syntax(err)}
	}
	r := reader{src: src, anchored: map[*yaml.Node]*node{}}
	root := r.node(doc.Content[0], 1)
	if r.over {
		return src, nil, r.problems
	}
	return src, root, r.problems
}

func isEmpty(y *yaml.Node) bool {
	return y.Kind == yaml.ScalarNode && y.Tag == "!!null" && y.Value == ""
}

// splitLines cuts at the line breaks that YAML knows, so that our lines are its lines.
func splitLines(text string) []string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n").Replace(text)
	return strings.Split(text, "\n")
}

// unreadable finds bytes that no YAML file may hold, which the YAML reader would report without a place.
func unreadable(src *source, data []byte) (Problem, bool) {
	if len(data) > maxFile {
		return src.problem(nil, fmt.Sprintf("the file has more than %d bytes", maxFile), "keep long texts in files of their own"), true
	}
	for i, line := range src.lines {
		col := 0
		for at, r := range line {
			col++
			switch {
			case r == utf8.RuneError && line[at] != "\ufffd"[0]:
				return src.problem(&node{line: i + 1, col: col}, "the file is not UTF-8", "save it as UTF-8"), true
			case r != '\t' && unicode.IsControl(r), r == 0xfeff, r == 0xfffe, r == 0xffff:
				return src.problem(&node{line: i + 1, col: col}, fmt.Sprintf("the character %U cannot stand in YAML", r),
					`in a quoted text, write it as an escape such as "\u0007"`), true
			}
		}
	}
	return Problem{}, false
}

// document returns the only document of a file. The error is io.EOF when there is none. The library panics on some
// texts that are not YAML; that is the text's fault, and an error like any other.
func document(data []byte) (doc *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: %v", p)
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	doc = new(yaml.Node)
	if err := dec.Decode(doc); err != nil {
		return nil, err
	}
	var second yaml.Node
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
		return doc, nil
	case err != nil:
		return nil, err
	}
	return nil, fmt.Errorf("yaml: line %d: a second document begins", second.Line)
}

var (
	syntaxError   = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced`) // the library tells no line
)

// syntax turns an error of the library into a problem. It tells the line at best, so the fault spans the line.
func (s *source) syntax(err error) Problem {
	found := syntaxError.FindStringSubmatch(err.Error())
	if found == nil {
		return s.problem(nil, err.Error(), "")
	}
	line, _ := strconv.Atoi(found[1])
	if anchor := unknownAnchor.FindStringSubmatch(found[2]); anchor != nil {
		line = 1 + slices.IndexFunc(s.lines, func(l string) bool { return strings.Contains(l, "*"+anchor[1]) })
	}
	line = min(max(line, 1), len(s.lines))
	text := s.lines[line-1]
	body := strings.TrimLeft(text, " \t")
	p := s.problem(&node{line: line, col: 1 + utf8.RuneCountInString(text) - utf8.RuneCountInString(body)}, found[2], "")
	p.width = max(1, utf8.RuneCountInString(strings.TrimRight(body, " \t")))
	switch {
	case strings.Contains(p.Msg, "second document"):
		p.Hint = "a file holds one document: remove the --- line"
	case strings.Contains(text[:len(text)-len(body)], "\t"):
		p.Hint = "YAML is indented with spaces, not with tabs"
	case strings.Contains(p.Msg, "mapping values are not allowed"):
		p.Hint = `quote a text that holds ": "`
	case strings.Contains(p.Msg, "cannot start any token"), strings.Contains(p.Msg, "unknown anchor"):
		p.Hint = "quote a text that begins with a special character"
	}
	return p
}

// reader turns the library's nodes into ours.
type reader struct {
	src      *source
	anchored map[*yaml.Node]*node // nil while the node is being read: an alias to it is a loop
	over     bool                 // a limit was passed; the file is not used
	problems Problems
}

func (r *reader) fault(n *node, msg, hint string) {
	r.problems = append(r.problems, r.src.problem(n, msg, hint))
}

// limit reports the first limit that is passed; the rest of the file is not looked at any more.
func (r *reader) limit(n *node, msg, hint string) {
	if !r.over {
		r.fault(n, msg, hint)
	}
	r.over = true
}

func (r *reader) node(y *yaml.Node, level int) *node {
	n := &node{line: y.Line, col: y.Column, size: 1, depth: 1}
	if level > maxDepth {
		r.limit(n, fmt.Sprintf("more than %d levels of nesting", maxDepth), "")
	}
	if r.over {
		return n
	}
	if y.Kind == yaml.AliasNode {
		return r.alias(y, n, level)
	}
	if y.Anchor != "" {
		r.anchored[y] = nil
	}
	if y.Style&yaml.TaggedStyle != 0 {
		r.fault(n, "the tag "+quote(y.Tag)+" is not allowed", "remove it; quote a value to make it a text")
	}
	switch y.Kind {
	case yaml.ScalarNode:
		n.kind, n.text = scalarKind(y), y.Value
	case yaml.SequenceNode:
		n.kind = isList
		for _, child := range y.Content {
			r.add(n, r.node(child, level+1))
		}
	case yaml.MappingNode:
		n.kind = isMapping
		r.pairs(n, y, level)
	}
	if n.size > maxNodes {
		r.limit(n, fmt.Sprintf("more than %d values", maxNodes), "")
	}
	if y.Anchor != "" {
		r.anchored[y] = n
	}
	return n
}

func (r *reader) alias(y *yaml.Node, n *node, level int) *node {
	known, seen := r.anchored[y.Alias]
	switch {
	case !seen || known == nil:
		r.limit(n, "the alias *"+y.Value+" stands inside what it names", "")
		return n
	case level+known.depth-1 > maxDepth:
		r.limit(n, fmt.Sprintf("more than %d levels of nesting", maxDepth), "")
		return n
	}
	return known
}

func (r *reader) add(parent, child *node) {
	parent.items = append(parent.items, child)
	parent.size = min(parent.size+child.size, maxNodes+1)
	parent.depth = max(parent.depth, child.depth+1)
}

// pairs reads the keys and values of a mapping. Of a key that stands twice the first counts.
func (r *reader) pairs(n *node, y *yaml.Node, level int) {
	first := map[string]*node{}
	for i := 0; i+1 < len(y.Content) && !r.over; i += 2 {
		key, value := r.node(y.Content[i], level+1), r.node(y.Content[i+1], level+1)
		switch {
		case y.Content[i].Tag == "!!merge":
			r.fault(key, "merge keys are not supported", "write the keys out, or use an alias for a whole value")
			continue
		case key.kind == isList || key.kind == isMapping || key.kind == isNull:
			r.fault(key, "a key must be a text", "")
			continue
		case first[key.text] != nil:
			r.fault(key, fmt.Sprintf("the key %s stands twice; first at %d:%d", quote(key.text), first[key.text].line, first[key.text].col), "")
			continue
		}
		first[key.text] = key
		n.keys = append(n.keys, key)
		n.size = min(n.size+1, maxNodes+1)
		r.add(n, value)
	}
}

// scalarKind follows the core schema of YAML 1.2: yes, on and dates are texts.
func scalarKind(y *yaml.Node) nodeKind {
	if y.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return isText
	}
	switch y.Tag {
	case "!!null":
		return isNull
	case "!!bool":
		return isBool
	case "!!int", "!!float":
		return isNumber
	}
	return isText
}
