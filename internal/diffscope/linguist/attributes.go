package linguist

import (
	"cmp"
	"iter"
	"path"
	"slices"
	"strings"
)

// The bounds on .gitattributes files. One that would go beyond is not read.
const (
	maxAttributeFile  = 1 << 20 // bytes
	maxAttributeText  = 4 << 20 // bytes in all
	maxAttributeLines = 100_000 // in all
	maxAttributeLine  = 2048    // bytes; git passes over a line that has as many
	maxAttributeSteps = 100_000_000
)

// An AttributesFile is one .gitattributes file.
type AttributesFile struct {
	Folder string // ends in a slash, or is empty for the root
	Size   int64  // in bytes
	Load   func() (string, error)
}

// attributes are what is known of one path.
type attributes struct{ vendored, generated, docs verdict }

// A verdict is what an attribute says.
type verdict int8

const (
	unspecified verdict = iota
	yes
	no
)

// or is the verdict, or what the rule says when there is none.
func (v verdict) or(rule func() bool) bool { return v == yes || v == unspecified && rule() }

// folderRules are the lines that matter of the .gitattributes file of one folder.
type folderRules struct {
	folder string
	above  *folderRules // of the nearest folder around it that has some
	rules  []attributeRule
}

// An attributeRule is one line.
type attributeRule struct {
	pattern attributePattern
	says    attributes
	names   int // bits of the attributes that the line names
}

// The bits of attributeRule.names.
const (
	namesVendored = 1 << iota
	namesGenerated
	namesDocs
	namesAll = namesVendored | namesGenerated | namesDocs
)

// readAttributes returns what .gitattributes files say about three attributes, as gitattributes(5) defines it, sorted by
// folder. Macros are not known, so a line that defines one is passed over, and one that uses one says nothing by it.
func readAttributes(files iter.Seq[AttributesFile]) ([]folderRules, error) {
	var all []folderRules
	size, lines := int64(0), 0
	for f := range files {
		if f.Size > maxAttributeFile || size+f.Size > maxAttributeText {
			continue
		}
		text, err := f.Load()
		if err != nil {
			return nil, err
		}
		if lines+countLines(text) > maxAttributeLines {
			continue
		}
		size, lines = size+f.Size, lines+countLines(text)
		if rules := parseAttributes(text); len(rules) > 0 {
			all = append(all, folderRules{folder: f.Folder, rules: rules})
		}
	}
	slices.SortFunc(all, func(f, g folderRules) int { return cmp.Compare(f.folder, g.folder) })
	for i := 1; i < len(all); i++ {
		all[i].above = all[i-1].around(all[i].folder)
	}
	return all, nil
}

// countLines counts a last line without a line feed, too.
func countLines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// around returns the first of a file and those above it whose folder holds a path.
func (f *folderRules) around(name string) *folderRules {
	common := 0
	for common < min(len(f.folder), len(name)) && f.folder[common] == name[common] {
		common++
	}
	for f != nil && len(f.folder) > common {
		f = f.above
	}
	return f
}

// attributesOf is what the attributes say about a path: the nearest folder wins, and in a file the last line. Once the
// patterns of a change took too many steps, they say nothing.
func (k *Classifier) attributesOf(name string) attributes {
	var a attributes
	files := k.attributes
	after, _ := slices.BinarySearchFunc(files, name, func(f folderRules, name string) int {
		if f.folder <= name {
			return -1
		}
		return 1
	})
	if after == 0 {
		return a
	}
	known := 0
	for f := files[after-1].around(name); f != nil && known != namesAll; f = f.above {
		for i := len(f.rules) - 1; i >= 0 && known != namesAll; i-- {
			r := &f.rules[i]
			if r.names&^known == 0 {
				continue
			}
			if k.attributeSteps > maxAttributeSteps {
				return attributes{}
			}
			if r.pattern.matches(name[len(f.folder):], &k.attributeSteps) {
				a.fill(r, r.names&^known)
				known |= r.names
			}
		}
	}
	return a
}

// fill takes over those attributes of a line that the bits name.
func (a *attributes) fill(r *attributeRule, names int) {
	if names&namesVendored != 0 {
		a.vendored = r.says.vendored
	}
	if names&namesGenerated != 0 {
		a.generated = r.says.generated
	}
	if names&namesDocs != 0 {
		a.docs = r.says.docs
	}
}

// parseAttributes returns the lines of a file that name one of the three attributes.
func parseAttributes(text string) []attributeRule {
	var rules []attributeRule
	text = strings.TrimPrefix(text, "\ufeff")
	for l := range strings.Lines(text) {
		l = strings.TrimSuffix(strings.TrimSuffix(l, "\n"), "\r")
		l, _, _ = strings.Cut(l, "\x00")
		if len(l) >= maxAttributeLine || !strings.Contains(l, "linguist-") {
			continue
		}
		if r, ok := parseAttributeLine(l); ok {
			rules = append(rules, r)
		}
	}
	return rules
}

const blanks = " \t\r\n"

// parseAttributeLine reads one line. It is not ok when no file can match it, or when it says nothing of interest.
func parseAttributeLine(l string) (r attributeRule, ok bool) {
	l = strings.TrimLeft(l, blanks)
	if l == "" || l[0] == '#' {
		return r, false
	}
	pattern, states, quoted := unquotePattern(l)
	if !quoted {
		end := strings.IndexAny(l, blanks)
		if end < 0 {
			return r, false
		}
		pattern, states = l[:end], l[end:]
	}
	isMacro := strings.HasPrefix(pattern, "[attr]") && pattern != "[attr]"
	if isMacro || strings.HasPrefix(pattern, "!") || strings.HasSuffix(pattern, "/") {
		return r, false
	}
	for _, state := range strings.FieldsFunc(states, func(c rune) bool { return strings.ContainsRune(blanks, c) }) {
		if !r.read(state) {
			return r, false
		}
	}
	r.pattern = newAttributePattern(pattern)
	return r, r.names != 0
}

// read takes in one attribute of a line, and tells whether its name is one. If not, git passes over the whole line.
func (r *attributeRule) read(state string) bool {
	name, value, hasValue := strings.Cut(state, "=")
	says := yes
	switch {
	case strings.HasPrefix(name, "-"):
		name, says = name[1:], no
	case strings.HasPrefix(name, "!"):
		name, says = name[1:], unspecified
	case hasValue && value == "false":
		says = no
	}
	switch name {
	case "linguist-vendored":
		r.says.vendored, r.names = says, r.names|namesVendored
	case "linguist-generated":
		r.says.generated, r.names = says, r.names|namesGenerated
	case "linguist-documentation":
		r.says.docs, r.names = says, r.names|namesDocs
	}
	return isAttributeName(name)
}

func isAttributeName(name string) bool {
	for i := range len(name) {
		c := name[i]
		isLetter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !isLetter && !(c >= '0' && c <= '9') && !strings.Contains("-._", string(rune(c))) {
			return false
		}
	}
	return name != "" && name[0] != '-'
}

// unquotePattern reads a pattern in C-style quotes at the start of a line, and returns what follows it. It is not ok when the
// quotes do not hold.
func unquotePattern(l string) (pattern, rest string, ok bool) {
	if l == "" || l[0] != '"' {
		return "", "", false
	}
	var b strings.Builder
	for i := 1; i < len(l); i++ {
		switch c := l[i]; {
		case c == '"':
			pattern, _, _ = strings.Cut(b.String(), "\x00")
			return pattern, l[i+1:], true
		case c != '\\':
			b.WriteByte(c)
		default:
			c, length := unescape(l[i+1:])
			if length == 0 {
				return "", "", false
			}
			b.WriteByte(c)
			i += length
		}
	}
	return "", "", false
}

// unescape reads what follows a backslash, and how many bytes that is; 0 when it means nothing.
func unescape(s string) (c byte, length int) {
	if s == "" {
		return 0, 0
	}
	if at := strings.IndexByte(`abfnrtv\"`, s[0]); at >= 0 {
		return "\a\b\f\n\r\t\v\\\""[at], 1
	}
	if len(s) < 3 || s[0] > '3' {
		return 0, 0
	}
	for i := range 3 {
		if s[i] < '0' || s[i] > '7' {
			return 0, 0
		}
		c = c<<3 | (s[i] - '0')
	}
	return c, 3
}

// An attributePattern says which paths a line is about.
type attributePattern struct {
	name    bool   // the pattern has no slash: it is compared with the last part of a path
	literal string // how it starts, up to the first wildcard
	rest    glob
}

func newAttributePattern(pattern string) attributePattern {
	p := attributePattern{name: !strings.Contains(pattern, "/")}
	pattern = strings.TrimPrefix(pattern, "/")
	end := strings.IndexAny(pattern, `*?[\`)
	if end < 0 {
		p.literal = pattern
		return p
	}
	p.literal, p.rest = pattern[:end], newGlob(pattern[end:])
	return p
}

// matches tells whether the pattern is about a path that starts in the folder of its file, and adds up the steps taken.
func (p *attributePattern) matches(name string, steps *int) bool {
	if p.name {
		name = path.Base(name)
	}
	*steps++
	rest, found := strings.CutPrefix(name, p.literal)
	if !found || p.rest == nil {
		return found && rest == ""
	}
	*steps += len(rest) * len(p.rest)
	return p.rest.matches(rest)
}
