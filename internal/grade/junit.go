package grade

import (
	"bytes"
	"crypto/sha256"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/assay-ci/assay/internal/executor"
)

const (
	maxReport  = 16 << 20 // bytes of one JUnit file
	maxTotal   = 64 << 20 // bytes of all
	maxReports = 1000     // files
)

// reports are the JUnit files that a glob names. A file that lay there before the command ran was left by the agent: it
// does not count unless the command wrote it again, which shows in its bytes or in its modification time.
type reports struct {
	glob, dir string // dir: the folder that every match lies in
	files     executor.FS
	before    map[string]stamp
	err       error // the files could not be listed before the command ran
}

// stamp tells whether a file was written again.
type stamp struct {
	modified time.Time
	sum      [sha256.Size]byte
}

func newReports(glob string, files executor.FS) *reports {
	dir, _ := doublestar.SplitPattern(glob)
	r := &reports{glob: glob, dir: dir, files: files, before: map[string]stamp{}}
	entries, err := r.list()
	r.err = err
	for _, entry := range entries {
		if content, modified, err := r.open(entry.Path); err == nil {
			r.before[entry.Path] = stamp{modified, sha256.Sum256(content)}
		}
	}
	return r
}

// list returns what the glob matches, folders aside.
func (r *reports) list() ([]executor.Entry, error) {
	entries, err := r.files.List(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var matches []executor.Entry
	var total int64
	for _, entry := range entries {
		if !entry.Mode.IsDir() && doublestar.MatchUnvalidated(r.glob, entry.Path) {
			matches = append(matches, entry)
			total += entry.Size
		}
	}
	if len(matches) > maxReports || total > maxTotal {
		return nil, fmt.Errorf("%d files with %d bytes match, more than %d files or %d MiB", len(matches), total, maxReports, maxTotal>>20)
	}
	return matches, err
}

// open reads a regular file; anything else is an error, and so is a file that is too large.
func (r *reports) open(path string) (content []byte, modified time.Time, err error) {
	file, err := r.files.Open(path)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	content, err = io.ReadAll(io.LimitReader(file, maxReport+1))
	if err == nil && len(content) > maxReport {
		err = fmt.Errorf("larger than %d MiB", maxReport>>20)
	}
	return content, info.ModTime(), err
}

// read reads every report that the command wrote. What is wrong with them is the fault of the command, not ours: it ran
// code of the agent.
func (r *reports) read(found *tally) {
	entries, err := r.list()
	if err = errors.Join(r.err, err); err != nil {
		found.distrust("the reports %s cannot be listed: %s", r.glob, show(err.Error()))
		return
	}
	fresh, stale := 0, ""
	for _, entry := range entries {
		content, modified, err := r.open(entry.Path)
		if err != nil {
			found.distrust("the report %s cannot be read: %s", show(entry.Path), show(err.Error()))
			return
		}
		if old, ok := r.before[entry.Path]; ok && old.modified.Equal(modified) && old.sum == sha256.Sum256(content) {
			stale = entry.Path
			continue
		}
		fresh++
		if err := readJUnit(bytes.NewReader(content), found); err != nil {
			found.distrust("the report %s is not JUnit: %s", show(entry.Path), show(err.Error()))
		}
	}
	switch {
	case fresh > 0:
	case stale != "":
		found.distrust("the report %s was there before the command ran and was not written again", show(stale))
	default:
		found.distrust("the command wrote no report %s", r.glob)
	}
}

// readJUnit adds the test cases of a JUnit XML file. Names of a test are its name, and classname.name. A suite that counts
// failures or errors and lists none, as one that could not be collected does, counts as failed.
func readJUnit(r io.Reader, found *tally) error {
	reader := junitReader{found: found}
	for dec := xml.NewDecoder(r); ; {
		token, err := dec.Token()
		if err == io.EOF && reader.root {
			return nil
		}
		if err == io.EOF {
			return errors.New("it is empty")
		}
		if err != nil {
			return err
		}
		switch element := token.(type) {
		case xml.StartElement:
			if err := reader.start(element); err != nil {
				return err
			}
		case xml.EndElement:
			reader.end(element.Name.Local)
		}
	}
}

type junitReader struct {
	found  *tally
	root   bool // the root element was seen
	depth  int
	suites []junitSuite // open
	test   *junitTest   // open, or nil
}

type junitSuite struct {
	name   string
	counts int // failures and errors by its attributes
	lists  int // failed tests in it
}

type junitTest struct {
	name, class string
	outcome     outcome
}

func (j *junitReader) start(element xml.StartElement) error {
	j.depth++
	name := element.Name.Local
	switch {
	case j.root && j.depth == 1:
		return errors.New("more follows the root element")
	case j.depth > maxDepth:
		return fmt.Errorf("elements are nested more than %d deep", maxDepth)
	case !j.root && name != "testsuites" && name != "testsuite":
		return fmt.Errorf("the root element is <%s>", show(name))
	}
	j.root = true
	switch name {
	case "testsuites", "testsuite":
		suite, err := newJUnitSuite(element.Attr)
		if err != nil {
			return err
		}
		j.suites = append(j.suites, suite)
	case "testcase":
		if j.test != nil {
			return errors.New("a test case lies in another")
		}
		j.test = newJUnitTest(element.Attr)
	case "failure", "error":
		if j.test != nil {
			j.test.outcome = testFailed
		} else {
			j.fail(j.suites[len(j.suites)-1].name)
		}
	case "skipped":
		if j.test != nil {
			j.test.outcome = max(j.test.outcome, testSkipped)
		}
	}
	return nil
}

func newJUnitSuite(attributes []xml.Attr) (junitSuite, error) {
	var suite junitSuite
	for _, a := range attributes {
		switch a.Name.Local {
		case "name":
			suite.name = a.Value
		case "failures", "errors":
			if a.Value == "" {
				continue
			}
			n, err := strconv.ParseUint(a.Value, 10, 31)
			if err != nil {
				return suite, fmt.Errorf("%s is not a count: %s", a.Name.Local, show(a.Value))
			}
			suite.counts += int(n)
		}
	}
	return suite, nil
}

func newJUnitTest(attributes []xml.Attr) *junitTest {
	test := &junitTest{outcome: testPassed}
	for _, a := range attributes {
		switch a.Name.Local {
		case "name":
			test.name = a.Value
		case "classname":
			test.class = a.Value
		case "status", "result": // of GoogleTest, which has no <skipped> for tests that are disabled
			if a.Value == "notrun" || a.Value == "suppressed" || a.Value == "skipped" {
				test.outcome = testSkipped
			}
		}
	}
	return test
}

func (j *junitReader) end(name string) {
	j.depth--
	switch {
	case name == "testcase" && j.test != nil:
		full := j.test.name
		if j.test.class != "" {
			full = j.test.class + "." + full
		}
		j.found.note(j.test.outcome, j.test.name, full)
		if j.test.outcome == testFailed {
			j.fail(full)
		} else {
			j.found.count(j.test.outcome, full)
		}
		j.test = nil
	case name == "testsuites", name == "testsuite":
		suite := j.suites[len(j.suites)-1]
		if suite.counts > 0 && suite.lists == 0 {
			j.fail(suite.name)
			suite = j.suites[len(j.suites)-1]
		}
		j.suites = j.suites[:len(j.suites)-1]
		if len(j.suites) > 0 {
			j.suites[len(j.suites)-1].lists += suite.lists
		}
	}
}

// fail counts a failure of the innermost suite.
func (j *junitReader) fail(name string) {
	j.found.count(testFailed, name)
	j.suites[len(j.suites)-1].lists++
}
