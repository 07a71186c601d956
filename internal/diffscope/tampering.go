package diffscope

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// The bounds on what is searched in test files.
const (
	maxScanned    = 1 << 20  // bytes of a side; a larger file is not searched
	maxScannedAll = 32 << 20 // bytes of all of them; what comes after is not searched
	maxNamed      = 3        // places that a finding names
)

// tampering finds what may make a test pass without a fix. files are the facts of the changes that are not ignored, in
// their order. It knows words and names, not what a program means: a finding is a place to look at.
func tampering(p Patch, files []FileFacts) ([]Finding, error) {
	findings := []Finding{}
	s := testSearch{created: p.createdContents(), left: maxScannedAll}
	for c, f := range p.withFacts(files) {
		found, err := s.change(c, f.Bucket)
		if err != nil {
			return nil, fmt.Errorf("search %s: %w", f.Path, err)
		}
		for kind, text := range found {
			findings = append(findings, Finding{Kind: kind, Path: f.Path, Text: text})
		}
	}
	slices.SortFunc(findings, func(a, b Finding) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Kind, b.Kind)) })
	return findings, nil
}

// createdContents lists the created files by what they hold, empty ones aside. Each may be taken once as the new place of a
// test.
func (p Patch) createdContents() map[plumbing.Hash][]string {
	contents := map[plumbing.Hash][]string{}
	for i := range p.changes {
		c := &p.changes[i]
		if c.where != ignored && c.old == nil && c.row.Uncounted == "" && c.new.isFile() && c.new.size > 0 {
			id := c.new.blob.hash()
			contents[id] = append(contents[id], c.row.Path)
		}
	}
	return contents
}

// A testSearch is the state that its paths share.
type testSearch struct {
	created map[plumbing.Hash][]string // of Patch.createdContents
	left    budget
}

// change is the findings of one path, a text by kind.
func (s *testSearch) change(c *change, bucket Bucket) (map[string]string, error) {
	found := map[string]string{}
	config, err := s.configChange(c, bucket)
	if err != nil {
		return nil, err
	}
	if config != "" {
		found["test_config_changed"] = config
	}
	snapshot := bucket != Vendored && isSnapshot(c.path)
	if snapshot && c.old != nil {
		found["snapshot_changed"] = c.happened()
	}
	if bucket != Test || snapshot {
		return found, nil
	}
	if config == "" {
		s.testGone(c, found)
	}
	return found, s.test(c, found)
}

// happened is what became of the path, in a word.
func (c *change) happened() string {
	switch {
	case c.lost():
		return "can no longer be read"
	case c.hidden:
		return "could not be read before"
	case c.old == nil:
		return "created"
	case c.new == nil:
		return "deleted"
	}
	return "changed"
}

// lost tells whether the path could be read before only.
func (c *change) lost() bool {
	return c.old != nil && c.old.why == "" && (c.hidden || c.new != nil && c.new.why == unreadable)
}

// testGone reports a test file that was deleted, moved, or made a link. An empty one had no tests.
func (s *testSearch) testGone(c *change, found map[string]string) {
	switch {
	case c.old == nil, c.old.size == 0:
	case c.lost():
		found["test_deleted"] = "the test file can no longer be read"
	case c.new == nil:
		if to := s.newPlace(c.old); to != "" {
			found["test_moved"] = "the test file is now " + to
		} else {
			found["test_deleted"] = "the test file was deleted"
		}
	case c.retyped():
		found["test_deleted"] = "the test file was replaced by something that is no file"
	}
}

// newPlace takes a created file with the content of a deleted one, or returns nothing.
func (s *testSearch) newPlace(e *entry) string {
	if e.blob == nil {
		return ""
	}
	id := e.blob.hash()
	places := s.created[id]
	if len(places) == 0 {
		return ""
	}
	s.created[id] = places[1:]
	return places[0]
}

// test looks for words in a test file that was modified, and for those that leave out all other tests in a new one.
func (s *testSearch) test(c *change, found map[string]string) error {
	words := testWordsOf(c.path)
	if words == nil || c.new == nil {
		return nil
	}
	old, new, known, err := s.left.texts(c, maxScanned)
	if err != nil || !known {
		return err
	}
	if c.old == nil {
		reportSkips(found, c.addedWords(words, words.focus, old, new))
		return nil
	}
	reportSkips(found, c.addedWords(words, slices.Concat(words.skip, words.focus), old, new))
	for _, count := range []struct {
		kind string
		list []string
	}{{"fewer_assertions", words.assert}, {"fewer_tests", words.test}} {
		if before, after := len(words.find(count.list, old)), len(words.find(count.list, new)); after < before {
			found[count.kind] = fmt.Sprintf("%d before, %d after", before, after)
		}
	}
	return nil
}

func reportSkips(found map[string]string, places []string) {
	if len(places) > 0 {
		found["skip_added"] = listed(places)
	}
}

// listed names the first few places.
func listed(places []string) string {
	var named []string
	for _, place := range places[:min(len(places), maxNamed)] {
		named = append(named, shorten(place, maxName))
	}
	text := strings.Join(named, "; ")
	if more := len(places) - maxNamed; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// addedWords lists the added lines that have one of the words. A line that was removed elsewhere in the file has moved.
func (c *change) addedWords(words *testWords, list []string, old, new string) []string {
	hits := words.find(list, new)
	if len(hits) == 0 {
		return nil
	}
	oldLines, newLines := splitLines(old), splitLines(new)
	removed := map[string]int{}
	for _, e := range c.edits {
		for _, line := range oldLines[e.oldStart:e.oldEnd] {
			removed[strings.TrimSpace(line)]++
		}
	}
	var places []string
	edits := c.edits
	for _, h := range hits {
		for len(edits) > 0 && edits[0].newEnd <= h.line {
			edits = edits[1:]
		}
		if len(edits) == 0 || h.line < edits[0].newStart {
			continue
		}
		if line := strings.TrimSpace(newLines[h.line]); removed[line] > 0 {
			removed[line]--
		} else {
			places = append(places, fmt.Sprintf("line %d: %s", h.line+1, h.word))
		}
	}
	return places
}

// isSnapshot tells whether a test runner wrote what is at a path, to compare with later.
func isSnapshot(name string) bool {
	return strings.HasSuffix(name, ".snap") || strings.HasSuffix(name, ".ambr") ||
		strings.HasPrefix(name, "__snapshots__/") || strings.Contains(name, "/__snapshots__/")
}

// configChange says what changed in a file that tells how tests are run, or nothing. Of a file with other uses too, only
// the part about tests matters. What others wrote does not matter, unless it runs by its name or place alone: linguist
// takes .github for vendored.
func (s *testSearch) configChange(c *change, bucket Bucket) (string, error) {
	base := path.Base(c.path)
	switch {
	case isPipeline(c.path), isPythonStart(base) && c.isText():
		return c.happened(), nil
	case bucket == Vendored:
		return "", nil
	case isTestConfig(base), isTaskFile(base):
		return c.happened(), nil
	}
	differing := configParts(base)
	if differing == nil {
		return "", nil
	}
	old, new, known, err := s.left.texts(c, maxScanned)
	switch {
	case err != nil:
		return "", err
	case !known:
		return c.happened() + "; what it says about tests is not known", nil
	}
	parts, readable := differing(old, new)
	if !readable {
		return c.happened() + "; what it says about tests cannot be read", nil
	}
	if len(parts) == 0 {
		return "", nil
	}
	return c.happened() + ": " + listed(parts), nil
}

// isPipeline tells whether a CI service takes its work from a path.
func isPipeline(name string) bool {
	for _, folder := range []string{".github/workflows/", ".github/actions/", ".circleci/", ".buildkite/", ".woodpecker/"} {
		if strings.HasPrefix(name, folder) {
			return true
		}
	}
	switch strings.TrimSuffix(strings.TrimSuffix(name, ".yml"), ".yaml") {
	case ".gitlab-ci", ".travis", ".drone", ".woodpecker", ".appveyor", "appveyor", "azure-pipelines", "bitbucket-pipelines":
		return true
	}
	return name == "Jenkinsfile"
}

// isPythonStart tells whether Python runs a file whenever it starts.
func isPythonStart(base string) bool {
	return base == "sitecustomize.py" || base == "usercustomize.py" || strings.HasSuffix(base, ".pth")
}

// isTestConfig tells whether a file is there for a test runner only.
func isTestConfig(base string) bool {
	switch base {
	case "conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "noxfile.py",
		".mocharc", ".taprc", ".rspec", "spec_helper.rb", "rails_helper.rb", "test_helper.rb", "mocha.opts",
		"phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml", "testng.xml", "junit-platform.properties", "nextest.toml":
		return true
	}
	for _, start := range []string{
		"jest.config.", "jest.setup.", "vitest.config.", "vitest.setup.", "vitest.workspace.", "karma.conf.", ".mocharc.",
		"ava.config.", "playwright.config.", "cypress.config.", "wdio.conf.", "web-test-runner.config.",
	} {
		if strings.HasPrefix(base, start) {
			return true
		}
	}
	return false
}

// isTaskFile tells whether a file holds the commands by which people run tests, among others.
func isTaskFile(base string) bool {
	switch strings.ToLower(base) {
	case "makefile", "gnumakefile", "justfile", ".justfile", "taskfile.yml", "taskfile.yaml", "rakefile":
		return true
	}
	return false
}

// configParts returns what names the parts about tests in which two versions of a file differ, or nil when a file of this
// name has no such parts.
func configParts(base string) func(old, new string) (parts []string, readable bool) {
	switch base {
	case "package.json":
		return packageParts
	case "pyproject.toml":
		return pyprojectParts
	case "setup.cfg":
		return setupParts
	}
	return nil
}

// packageParts names the scripts and the settings of test runners that differ.
func packageParts(old, new string) (parts []string, readable bool) {
	before, okBefore := packageSettings(old)
	after, okAfter := packageSettings(new)
	parts = differingKeys(before, after)
	slices.SortStableFunc(parts, func(a, b string) int { // the first ones are named
		return cmp.Compare(strings.Count(b, "test"), strings.Count(a, "test"))
	})
	return parts, okBefore && okAfter
}

// packageSettings are the scripts and the settings of test runners, by their names.
func packageSettings(text string) (settings map[string]string, ok bool) {
	settings = map[string]string{}
	if text == "" {
		return settings, true
	}
	members, err := jsonObject(text)
	if err != nil {
		return nil, false
	}
	for _, runner := range []string{"jest", "vitest", "mocha", "ava", "tap"} {
		if raw, ok := members[runner]; ok {
			settings[runner] = compactJSON(raw)
		}
	}
	var scripts map[string]json.RawMessage
	if raw := members["scripts"]; raw != nil && json.Unmarshal(raw, &scripts) != nil {
		return nil, false
	}
	for name, raw := range scripts {
		settings["script "+name] = compactJSON(raw)
	}
	return settings, true
}

// compactJSON writes a value without the blanks that do not matter.
func compactJSON(raw json.RawMessage) string {
	compact, err := json.Marshal(raw)
	if err != nil {
		return string(raw)
	}
	return string(compact)
}

// pyprojectParts names the tables of test runners that differ.
func pyprojectParts(old, new string) (parts []string, readable bool) {
	before, errBefore := pyprojectSettings(old)
	after, errAfter := pyprojectSettings(new)
	return differingKeys(before, after), errBefore == nil && errAfter == nil
}

// pyprojectSettings are the digests of the tables of test runners, in the order of the file.
func pyprojectSettings(text string) (map[string]string, error) {
	tables := map[string]*tableDigest{}
	err := eachTOML(text, func(path []string, value string) {
		if len(path) < 2 || path[0] != "tool" || path[1] != "pytest" && path[1] != "tox" {
			return
		}
		if tables[path[1]] == nil {
			tables[path[1]] = &tableDigest{hash: sha256.New()}
		}
		tables[path[1]].add(path, value)
	})
	settings := map[string]string{}
	for name, table := range tables {
		settings["tool."+name] = string(table.hash.Sum(nil))
	}
	return settings, err
}

// A tableDigest sums up values with their paths. Of a path it takes what is new since the one before, so that a long path
// with many values costs no more than it has bytes in the file.
type tableDigest struct {
	hash hash.Hash
	last []string
}

func (d *tableDigest) add(path []string, value string) {
	common := 0
	for common < min(len(path), len(d.last)) && path[common] == d.last[common] {
		common++
	}
	fmt.Fprintf(d.hash, "%d %q %q\n", common, path[common:], value)
	d.last = append(d.last[:0], path...)
}

// setupParts names the sections of pytest that differ. Any text can be read.
func setupParts(old, new string) (parts []string, readable bool) {
	return differingKeys(setupSettings(old), setupSettings(new)), true
}

// setupSettings are the sections of setup.cfg that pytest reads.
func setupSettings(text string) map[string]string {
	sections := map[string]*strings.Builder{"tool:pytest": {}, "pytest": {}}
	var section *strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		if strings.HasPrefix(line, "[") {
			section = sections[strings.Trim(line, "[]")]
		}
		if section != nil && line != "" {
			section.WriteString(line + "\n")
		}
	}
	settings := map[string]string{}
	for name, section := range sections {
		if section.Len() > 0 {
			settings[name] = section.String()
		}
	}
	return settings
}

// differingKeys lists the keys whose values differ, or that one side does not have, in order.
func differingKeys(before, after map[string]string) []string {
	differing := map[string]bool{}
	for _, side := range []map[string]string{before, after} {
		for key := range side {
			was, inBefore := before[key]
			is, inAfter := after[key]
			if was != is || inBefore != inAfter {
				differing[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(differing))
}
