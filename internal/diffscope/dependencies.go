package diffscope

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// The bounds on manifests. One that passes them is listed as unread.
const (
	maxManifest  = 1 << 20  // bytes of a side
	maxManifests = 16 << 20 // bytes of all of them
	maxName      = 256      // bytes of the name of a dependency
	maxVersion   = 256      // bytes that are kept of its version
)

// dependencies finds the names that manifests gained and lost. files are the facts of the changes that are not ignored, in
// their order. A manifest in the vendored bucket is somebody else's.
func dependencies(p Patch, files []FileFacts) (Dependencies, error) {
	d := Dependencies{Added: []Dependency{}, Removed: []Dependency{}, Unread: []string{}}
	left := budget(maxManifests)
	for c, f := range p.withFacts(files) {
		if f.Bucket == Lockfile && c.row.Uncounted == "" {
			d.LockfileLines += *c.row.LinesAdded + *c.row.LinesRemoved
		}
		read := manifestReader(c.path)
		if read == nil || f.Bucket == Vendored {
			continue
		}
		if err := d.compare(c, read, &left); err != nil {
			return d, fmt.Errorf("dependencies of %s: %w", f.Path, err)
		}
	}
	byFile := func(a, b Dependency) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Name, b.Name)) }
	slices.SortFunc(d.Added, byFile)
	slices.SortFunc(d.Removed, byFile)
	slices.Sort(d.Unread)
	return d, nil
}

// compare records what one manifest gained and lost. When one side cannot be understood, neither is known.
func (d *Dependencies) compare(c *change, read func(string) (manifest, error), left *budget) error {
	old, new, known, err := left.texts(c, maxManifest)
	if err != nil {
		return err
	}
	before, errBefore := manifest{}, error(nil)
	after, errAfter := manifest{}, error(nil)
	if known && c.old != nil {
		before, errBefore = read(old)
	}
	if known && c.new != nil {
		after, errAfter = read(new)
	}
	if !known || errBefore != nil || errAfter != nil {
		d.Unread = append(d.Unread, c.row.Path)
		return nil
	}
	d.Added = append(d.Added, after.without(before, c.row.Path)...)
	d.Removed = append(d.Removed, before.without(after, c.row.Path)...)
	return nil
}

// A manifest is the dependencies in a file: versions, as written, by name.
type manifest map[string]string

var errName = errors.New("the name of a dependency is too long")

// add records a dependency. One that is there already keeps its version, if it has one.
func (m manifest) add(name, version string) error {
	if len(name) > maxName {
		return errName
	}
	if name = printable(name); name != "" && m[name] == "" {
		m[name] = shorten(printable(strings.TrimSpace(version)), maxVersion)
	}
	return nil
}

// without returns the dependencies that the other manifest does not name.
func (m manifest) without(other manifest, file string) []Dependency {
	var list []Dependency
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if _, both := other[name]; !both {
			list = append(list, Dependency{File: file, Name: name, Version: m[name]})
		}
	}
	return list
}

// manifestReader returns what reads the manifest at a path, or nil when it is none that can be read.
func manifestReader(name string) func(text string) (manifest, error) {
	base := path.Base(name)
	switch base {
	case "go.mod":
		return readGoMod
	case "package.json":
		return readPackageJSON
	case "composer.json":
		return readComposer
	case "pyproject.toml":
		return readPyproject
	case "Cargo.toml":
		return readCargo
	case "Gemfile", "gems.rb":
		return readGemfile
	}
	if isRequirements(name, base) {
		return readRequirements
	}
	return nil
}

// isRequirements tells whether pip reads a file of this name: requirements.txt, requirements-dev.in, dev-requirements.txt,
// requirements/test.txt, constraints.txt.
func isRequirements(name, base string) bool {
	stem, ok := strings.CutSuffix(base, ".txt")
	if !ok {
		stem, ok = strings.CutSuffix(base, ".in")
	}
	return ok && (strings.HasPrefix(stem, "requirements") || strings.HasSuffix(stem, "requirements") ||
		strings.HasPrefix(stem, "constraints") || path.Base(path.Dir(name)) == "requirements")
}

// readGoMod reads what go.mod requires, without the indirect requirements that the go command keeps there.
func readGoMod(text string) (manifest, error) {
	m, block := manifest{}, ""
	for line := range strings.Lines(text) {
		code, comment, _ := strings.Cut(line, "//")
		code = strings.TrimSpace(code)
		verb, rest := block, code
		if block == "" {
			verb, rest = cutVerb(code)
		}
		switch {
		case code == "":
			continue
		case block != "" && code == ")":
			block = ""
			continue
		case !isGoModVerb(verb):
			return nil, fmt.Errorf("%q is no directive", shorten(verb, maxName))
		case block == "" && rest == "(":
			block = verb
			continue
		case verb != "require":
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) != 2 {
			return nil, fmt.Errorf("a requirement is a module and a version")
		}
		if isIndirect(comment) {
			continue
		}
		if err := m.add(strings.Trim(fields[0], "\"`"), strings.Trim(fields[1], "\"`")); err != nil {
			return nil, err
		}
	}
	if block != "" {
		return nil, fmt.Errorf("the block %s is not closed", block)
	}
	return m, nil
}

// cutVerb splits a line of go.mod behind its first word. A parenthesis may follow that without a blank.
func cutVerb(code string) (verb, rest string) {
	i := strings.IndexAny(code, " \t(")
	if i < 0 {
		return code, ""
	}
	return code[:i], strings.TrimSpace(code[i:])
}

func isGoModVerb(verb string) bool {
	switch verb {
	case "module", "go", "toolchain", "godebug", "require", "exclude", "replace", "retract", "tool", "ignore":
		return true
	}
	return false
}

// isIndirect tells whether the comment behind a requirement says so. A reason may follow.
func isIndirect(comment string) bool {
	word, _, _ := strings.Cut(strings.TrimSpace(comment), ";")
	return strings.TrimSpace(word) == "indirect"
}

func readPackageJSON(text string) (manifest, error) {
	return readJSONSections(text, "dependencies", "devDependencies", "optionalDependencies", "peerDependencies")
}

// readComposer leaves out PHP itself and its extensions, which are the names without a vendor in front.
func readComposer(text string) (manifest, error) {
	m, err := readJSONSections(text, "require", "require-dev")
	maps.DeleteFunc(m, func(name, _ string) bool { return !strings.Contains(name, "/") })
	return m, err
}

// readJSONSections reads members whose values map names to versions.
func readJSONSections(text string, sections ...string) (manifest, error) {
	members, err := jsonObject(text)
	if err != nil {
		return nil, err
	}
	m := manifest{}
	for _, section := range sections {
		var entries map[string]any
		if raw := members[section]; raw != nil {
			if err := json.Unmarshal(raw, &entries); err != nil {
				return nil, err
			}
		}
		for name, value := range entries {
			version, _ := value.(string)
			if err := m.add(name, version); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// jsonObject returns the members of an object by their exact names.
func jsonObject(text string) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	err := json.Unmarshal([]byte(strings.TrimPrefix(text, "\ufeff")), &members)
	return members, err
}

// readCargo reads the dependencies of a package and of a workspace. A renamed one counts under the name of its package.
func readCargo(text string) (manifest, error) {
	found, renamed := manifest{}, map[string]string{}
	var bad error
	err := eachTOML(text, func(path []string, value string) {
		rest := cargoDependency(path)
		switch {
		case len(rest) == 1, len(rest) == 2 && rest[1] == "version":
			bad = cmp.Or(bad, found.add(rest[0], value))
		case len(rest) == 2 && rest[1] == "package":
			renamed[printable(rest[0])] = value
			bad = cmp.Or(bad, found.add(rest[0], ""))
		case len(rest) > 1:
			bad = cmp.Or(bad, found.add(rest[0], ""))
		}
	})
	m := manifest{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		bad = cmp.Or(bad, m.add(cmp.Or(renamed[name], name), found[name]))
	}
	return m, cmp.Or(err, bad)
}

// cargoDependency returns the part of a path from the name of a dependency on, or nothing.
func cargoDependency(path []string) []string {
	switch {
	case len(path) > 2 && path[0] == "target":
		path = path[2:]
	case len(path) > 1 && path[0] == "workspace":
		path = path[1:]
	}
	if len(path) < 2 {
		return nil
	}
	switch path[0] {
	case "dependencies", "dev-dependencies", "dev_dependencies", "build-dependencies", "build_dependencies":
		return path[1:]
	}
	return nil
}

// readPyproject reads the lists of requirements and the tables of Poetry.
func readPyproject(text string) (manifest, error) {
	m := manifest{}
	var bad error
	err := eachTOML(text, func(path []string, value string) {
		if isRequirementList(path) {
			bad = cmp.Or(bad, m.addRequirement(value))
			return
		}
		rest := poetryDependency(path)
		switch {
		case len(rest) == 0 || rest[0] == "python":
		case len(rest) == 1, rest[1] == "version":
			bad = cmp.Or(bad, m.add(pythonName(rest[0]), value))
		default:
			bad = cmp.Or(bad, m.add(pythonName(rest[0]), ""))
		}
	})
	return m, cmp.Or(err, bad)
}

// isRequirementList tells whether the list at a path holds requirements.
func isRequirementList(path []string) bool {
	switch len(path) {
	case 2:
		return path[0] == "project" && path[1] == "dependencies" || path[0] == "build-system" && path[1] == "requires" ||
			path[0] == "dependency-groups"
	case 3:
		return path[0] == "project" && path[1] == "optional-dependencies" ||
			path[0] == "tool" && path[1] == "uv" && path[2] == "dev-dependencies"
	case 4:
		return path[0] == "tool" && path[1] == "pdm" && path[2] == "dev-dependencies"
	}
	return false
}

// poetryDependency returns the part of a path from the name of a dependency on, or nothing.
func poetryDependency(path []string) []string {
	if len(path) < 4 || path[0] != "tool" || path[1] != "poetry" {
		return nil
	}
	switch {
	case path[2] == "dependencies", path[2] == "dev-dependencies":
		return path[3:]
	case path[2] == "group" && len(path) > 5 && path[4] == "dependencies":
		return path[5:]
	}
	return nil
}

// readRequirements reads the files of pip. What has no name is left out: other files (-r), folders, and addresses without
// #egg=NAME.
func readRequirements(text string) (manifest, error) {
	m := manifest{}
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line = strings.TrimSpace(cutComment(line))
		if address, ok := cutEditable(line); ok {
			line = address
		}
		if err := m.addRequirement(line); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// cutComment takes a comment off a line, which starts after a blank, so that an address keeps its #.
func cutComment(line string) string {
	if strings.HasPrefix(line, "#") {
		return ""
	}
	for _, mark := range []string{" #", "\t#"} {
		line, _, _ = strings.Cut(line, mark)
	}
	return line
}

// cutEditable returns what an option to install from a folder or an address names.
func cutEditable(line string) (address string, ok bool) {
	for _, option := range []string{"-e ", "--editable ", "--editable="} {
		if address, ok = strings.CutPrefix(line, option); ok {
			return strings.TrimSpace(address), true
		}
	}
	return "", false
}

// addRequirement records a requirement as PEP 508 writes it: a name, then extras, versions or an address, and a marker.
func (m manifest) addRequirement(line string) error {
	if line == "" || strings.HasPrefix(line, "-") {
		return nil
	}
	end := 0
	for end < len(line) && (isAlphanumeric(line[end]) || strings.IndexByte("-_.", line[end]) >= 0) {
		end++
	}
	name, rest := line[:end], strings.TrimSpace(line[end:])
	if isPlace(name, rest) {
		_, egg, _ := strings.Cut(rest, "#egg=")
		egg, _, _ = strings.Cut(egg, "&")
		egg, _, _ = strings.Cut(egg, "[")
		return m.add(pythonName(egg), "")
	}
	if name == "" || !isAlphanumeric(name[0]) || rest != "" && !strings.ContainsRune("[(<>=!~;@-", rune(rest[0])) {
		return fmt.Errorf("%q is not a requirement", shorten(line, maxName))
	}
	return m.add(pythonName(name), requirementVersion(rest))
}

// isPlace tells whether a requirement is an address or a path, by what stands before and behind its first mark.
func isPlace(name, rest string) bool {
	return strings.HasPrefix(name, ".") || rest != "" && strings.IndexByte(`/\:+`, rest[0]) >= 0 ||
		rest == "" && (strings.HasSuffix(name, ".whl") || strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".zip"))
}

// requirementVersion is what follows the name without extras, marker and options.
func requirementVersion(rest string) string {
	if strings.HasPrefix(rest, "[") {
		_, rest, _ = strings.Cut(rest, "]")
	}
	if strings.HasPrefix(rest, "--") {
		return ""
	}
	rest, _, _ = strings.Cut(rest, " --")
	version, _, _ := strings.Cut(rest, ";")
	return version
}

// pythonName writes a name the one way that PEP 503 does.
func pythonName(name string) string {
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("-_.", r) }) {
		if b.Len() > 0 {
			b.WriteByte('-')
		}
		b.WriteString(part)
	}
	return b.String()
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// readGemfile reads the gems that are named by a string at the start of a line. A Gemfile is a program, so others may be
// made in ways that reading cannot see.
func readGemfile(text string) (manifest, error) {
	m := manifest{}
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "gem")
		if !ok {
			continue
		}
		name, rest, ok := cutString(strings.TrimLeft(rest, " \t("))
		if !ok {
			continue
		}
		version := ""
		if rest, ok = strings.CutPrefix(strings.TrimSpace(rest), ","); ok {
			version, _, _ = cutString(strings.TrimSpace(rest))
		}
		if err := m.add(name, version); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// cutString returns the string literal at the start of a text and what follows it.
func cutString(text string) (literal, rest string, ok bool) {
	if text == "" || text[0] != '"' && text[0] != '\'' {
		return "", text, false
	}
	return strings.Cut(text[1:], text[:1])
}
