package suite

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// The names of the files of a suite.
const (
	suiteName = "suite.yaml"
	caseName  = "case.yaml"
)

// suiteFile is suite.yaml as it is written.
type suiteFile struct {
	Name         string      `yaml:"name" rule:"required" doc:"names the suite in reports and comments"`
	Matrix       matrix      `yaml:"matrix" rule:"required" doc:"what is run against each other"`
	Retries      int         `yaml:"retries" default:"2" rule:"min=0,max=10" doc:"further attempts of a cell that errored; a failed cell is never repeated"`
	Limits       Limits      `yaml:"limits" doc:"limits of one cell"`
	Budget       Budget      `yaml:"budget" doc:"limits of the whole run"`
	Interaction  interaction `yaml:"interaction" doc:"how the questions of an agent are answered"`
	Availability string      `yaml:"availability" default:"required" rule:"oneof=required optional" doc:"whether an unreachable source stops the run, or skips its cells"`
	Gate         Gate        `yaml:"gate" doc:"when a change is let through"`
	Executor     executor    `yaml:"executor" doc:"where agents and graders run"`
	Environment  environment `yaml:"environment" doc:"what is installed before the agent starts"`
	Assertions   []Assertion `yaml:"assertions" doc:"assertions of every case that has none of its own"`
	Threshold    float64     `yaml:"threshold" default:"1" rule:"min=0,max=1" doc:"score that a cell must reach"`
}

type matrix struct {
	Harnesses  []harnessRow   `yaml:"harnesses" rule:"required" doc:"agents, each with its models"`
	Conditions []conditionRow `yaml:"conditions" doc:"variations of the agent's context"`
	Trials     int            `yaml:"trials" default:"3" rule:"min=1,max=1000" doc:"repetitions of each cell"`
}

type harnessRow struct {
	ID     string   `yaml:"id" rule:"required,id" doc:"names the harness in results"`
	Models []string `yaml:"models" doc:"models it drives; leave out for a harness without a model"`
	Block  Block    `yaml:"type,kind" rule:"required" doc:"which agent this is"`
}

type conditionRow struct {
	ID           string            `yaml:"id" rule:"required,id" doc:"names the condition in results"`
	Baseline     bool              `yaml:"baseline" doc:"the condition that the others are compared with"`
	From         string            `yaml:"from" rule:"oneof=base" doc:"base reads the files below from the merge base instead of the work tree"`
	Skills       []string          `yaml:"skills" doc:"folders that hold a SKILL.md"`
	Instructions string            `yaml:"instructions" doc:"file with standing instructions, such as an AGENTS.md"`
	Files        map[string]string `yaml:"files" rule:"pathkeys" doc:"files to lay into the tree: path there, and path of the file"`
	MCP          Block             `yaml:"mcp" doc:"MCP servers"`
	Env          map[string]string `yaml:"env" rule:"env" doc:"environment variables of the agent"`
	PromptPrefix string            `yaml:"prompt_prefix" doc:"text before every prompt"`
	At           Pos
}

type interaction struct {
	Block Block `yaml:"policy,kind" default:"auto-approve" doc:"who answers"`
}

type environment struct {
	Block Block `yaml:"type,kind" default:"none" doc:"how it is made"`
}

type executor struct {
	Block Block `yaml:"type,kind" default:"host" doc:"what its places are"`
}

// caseFile is case.yaml as it is written. Fields that the suite gives defaults for are filled before decoding.
type caseFile struct {
	ID           string            `yaml:"id" rule:"required,id" doc:"names the case in results"`
	Prompt       string            `yaml:"prompt" doc:"what the agent is asked"`
	PromptFile   string            `yaml:"prompt_file" doc:"file that holds the prompt"`
	Source       sourceRow         `yaml:"source" rule:"required" doc:"the tree that the agent works in"`
	Files        []string          `yaml:"files" rule:"glob" doc:"the diff-scope set; created files always count; default: everything"`
	Ignore       []string          `yaml:"ignore" rule:"glob" doc:"created files that do not count"`
	Hidden       string            `yaml:"hidden" doc:"folder laid over the tree in the grading place only"`
	Fixtures     *Repo             `yaml:"fixtures" doc:"repository laid over the tree in the grading place only"`
	Reference    string            `yaml:"reference" doc:"patch that is known to solve the case"`
	Setup        []Command         `yaml:"setup" doc:"commands before the first snapshot"`
	Environment  environment       `yaml:"environment" doc:"what is installed before the agent starts"`
	Tools        []string          `yaml:"tools" doc:"programs that must be on PATH"`
	Availability string            `yaml:"availability" rule:"oneof=required optional" doc:"whether an unreachable source stops the run, or skips the case"`
	Trials       int               `yaml:"trials" rule:"min=1,max=1000" doc:"repetitions of each cell of this case"`
	Threshold    float64           `yaml:"threshold" rule:"min=0,max=1" doc:"score that a cell must reach"`
	Limits       Limits            `yaml:"limits" doc:"limits of one cell"`
	Env          map[string]string `yaml:"env" rule:"env" doc:"environment variables of the agent and the graders"`
	Assertions   []Assertion       `yaml:"assertions" doc:"what must be true afterwards"`
	At           Pos
}

type sourceRow struct {
	Path      string `yaml:"path" doc:"folder with the tree"`
	Repo      string `yaml:"repo" doc:"https URL of a repository"`
	Commit    string `yaml:"commit" doc:"its full commit, 40 or 64 hex digits"`
	Subdir    string `yaml:"subdir" rule:"path" doc:"the folder of the repository that becomes the tree"`
	Isolation string `yaml:"isolation" default:"auto" rule:"oneof=auto copy clone worktree" doc:"how each cell gets its own tree"`
	At        Pos
}

// A Use says what a block is for, and so which room owns its kind.
type Use int

// The uses of a block.
const (
	ForHarness Use = iota
	ForPolicy
	ForEnvironment
	ForAssertion
	ForExecutor
)

// An Owner builds a block and returns the faults that only the room of its kind can find: a kind that nobody knows, a
// setting that it refuses.
type Owner func(use Use, b Block) error

// Load reads the suite whose suite.yaml, or the folder of it, is at the slash path p. Links are followed, never out of
// fsys, so fsys begins high enough to hold all that the suite names, such as ../skills/x.
//
// The error is [Problems], everything at once, with what owner says of every block that could be read; nil asks nobody.
// When suite.yaml itself is sound the Suite is there beside the error: it holds the sound cases, and Broken names the
// others.
func Load(fsys fs.FS, p string, owner Owner) (*Suite, error) {
	return LoadAgainst(fsys, Base{}, p, owner)
}

// LoadAgainst is Load for a suite that is measured against a base.
func LoadAgainst(fsys fs.FS, base Base, p string, owner Owner) (*Suite, error) {
	l := loader{owner: owner, files: newFiles(fsys), base: base}
	file, ok := l.suitePath(path.Clean(p))
	if ok && base.Rules != nil {
		ok = l.readRules(file)
	}
	if !ok {
		return nil, l.problems.err()
	}
	s, sound := l.suite(file)
	l.cases(s)
	if !sound {
		return nil, l.problems.err()
	}
	s.Warnings = l.warnings.sorted()
	s.Digest = s.digest()
	return s, l.problems.err()
}

// ReadBlock reads a YAML file that holds settings alone, such as the script of a scripted agent. Its kind is empty. The
// error is Problems.
func ReadBlock(fsys fs.FS, p string) (Block, error) {
	l := loader{files: newFiles(fsys)}
	d, ok := l.open(p)
	if !ok {
		return Block{}, l.problems.err()
	}
	return Block{At: d.src.pos(d.root), node: d.root, file: d.src}, d.problems.err()
}

// loader holds what the files of one suite have in common.
type loader struct {
	files    files
	base     Base
	opened   *files     // of the base, once something asked for it
	unopened error      // why the base cannot be read
	rules    *baseRules // of an untrusted load
	owner    Owner      // may be nil
	defaults suiteFile
	partial  bool // suite.yaml could not be decoded, so defaults may lack what it says
	problems Problems
	warnings Problems
}

// doc is one YAML file being checked.
type doc struct {
	src      *source
	root     *node
	problems Problems
	warnings Problems
	faulty   map[Pos]bool // where the problems are
}

// decode fills the struct that into points to from the whole file.
func (d *doc) decode(into any) {
	d.add(Flatten(Block{node: d.root, file: d.src}.Decode(into))...)
}

func (d *doc) add(problems ...Problem) {
	d.problems = append(d.problems, problems...)
	for _, p := range problems {
		d.faulty[p.Pos] = true
	}
}

// fault reports the value at a path of keys, such as matrix.conditions[1].skills[0].
func (d *doc) fault(at, msg, hint string) { d.faultAt(d.nearest(at), msg, hint) }

func (d *doc) faultAt(n *node, msg, hint string) { d.add(d.src.problem(n, msg, hint)) }

func (d *doc) warn(at, msg, hint string) {
	p := d.src.problem(d.nearest(at), msg, hint)
	p.Level = LevelWarning
	d.warnings = append(d.warnings, p)
}

// nearest is the value at a path, or of what encloses it when it is not written.
func (d *doc) nearest(at string) *node {
	for {
		if n := d.root.at(at); n != nil || at == "" {
			return n
		}
		at = at[:max(strings.LastIndexAny(at, ".["), 0)]
	}
}

// pos is where a path of keys stands.
func (d *doc) pos(at string) Pos { return d.src.pos(d.nearest(at)) }

// has tells whether a path of keys is written in the file.
func (d *doc) has(at string) bool { return d.root.at(at) != nil }

const noSuchFile = "there is no such file"

// open reads and parses one YAML file. Without a root there is nothing to check; why is among the loader's problems.
func (l *loader) open(name string) (*doc, bool) {
	data, err := l.files.read(name, maxFile)
	if err != nil {
		p := Problem{Pos: Pos{File: name}, Level: LevelFault, Msg: "the file " + err.Error()}
		if errors.Is(err, fs.ErrNotExist) {
			p.Msg = noSuchFile
		}
		l.problems = append(l.problems, p)
		return nil, false
	}
	src, root, problems := parse(name, data)
	if root == nil {
		l.problems = append(l.problems, problems...)
		return nil, false
	}
	d := &doc{src: src, root: root, faulty: map[Pos]bool{}}
	d.add(problems...)
	return d, true
}

// suitePath is the path of suite.yaml, when p is that or its folder.
func (l *loader) suitePath(p string) (string, bool) {
	real, info, err := l.files.find(p)
	if err == nil && info.IsDir() {
		p = path.Join(real, suiteName)
		_, _, err = l.files.find(p)
	}
	if err == nil {
		return p, true
	}
	problem := Problem{Pos: Pos{File: p}, Level: LevelFault, Msg: "the file " + err.Error()}
	if errors.Is(err, fs.ErrNotExist) {
		problem.Msg, problem.Hint = noSuchFile, "assay init writes a first suite"
	}
	l.problems = append(l.problems, problem)
	return "", false
}

// suite reads suite.yaml. The suite is usable for looking at the cases even when it is not sound.
func (l *loader) suite(file string) (s *Suite, sound bool) {
	s = &Suite{File: file, Dir: path.Dir(file)}
	d, ok := l.open(file)
	if !ok {
		l.partial = true
		return s, false
	}
	l.settings(d, s)
	if l.rules != nil {
		l.restrain(d, s)
	}
	l.conditions(d, s)
	l.problems = append(l.problems, d.problems...)
	l.warnings = append(l.warnings, d.warnings...)
	return s, len(d.problems) == 0
}

// settings reads all of suite.yaml but its conditions.
func (l *loader) settings(d *doc, s *Suite) {
	l.defaults.Gate.Confirm = &Confirm{Cases: 3, Trials: 8}
	raw := &l.defaults
	d.decode(raw)
	l.partial = len(d.problems) > 0
	s.Name, s.Trials, s.Retries = raw.Name, raw.Matrix.Trials, raw.Retries
	s.Limits, s.Budget, s.Gate, s.Availability = raw.Limits, raw.Budget, raw.Gate, raw.Availability
	s.Interaction, s.Executor = raw.Interaction.Block, raw.Executor.Block
	if strings.ContainsFunc(raw.Name, unicode.IsControl) || len(raw.Name) > 100 {
		d.fault("name", "name: want one line of at most 100 bytes", "")
	}
	l.harnesses(d, s)
	d.assertions(raw.Assertions)
	for _, h := range s.Harnesses {
		l.ask(d, ForHarness, h.Block)
	}
	l.ask(d, ForPolicy, raw.Interaction.Block)
	l.ask(d, ForExecutor, raw.Executor.Block)
	l.ask(d, ForEnvironment, raw.Environment.Block)
	l.askAssertions(d, raw.Assertions)
}

// ask adds the faults that the owner of a block's kind finds. A block without a kind has its fault already.
func (l *loader) ask(d *doc, use Use, b Block) {
	if l.owner != nil && b.Kind != "" {
		d.add(Flatten(l.owner(use, b))...)
	}
}

func (l *loader) askAssertions(d *doc, list []Assertion) {
	for _, a := range list {
		l.ask(d, ForAssertion, a.Block)
	}
}

func (l *loader) harnesses(d *doc, s *Suite) {
	ids := map[string]string{}
	for i, raw := range l.defaults.Matrix.Harnesses {
		at := fmt.Sprintf("matrix.harnesses[%d]", i)
		d.unique(ids, "harness", raw.ID, at+".id")
		models := map[string]string{}
		for j, m := range raw.Models {
			here := fmt.Sprintf("%s.models[%d]", at, j)
			d.unique(models, "model", m, here)
			d.word("model", m, here)
		}
		if len(raw.Models) == 0 {
			raw.Models = []string{"none"}
		}
		s.Harnesses = append(s.Harnesses, Harness(raw))
	}
}

// word reports a text that is given to a program or a service as one argument, and could not be.
func (d *doc) word(what, text, at string) {
	switch {
	case d.isFaulty(d.root.at(at)):
	case strings.TrimSpace(text) == "" || strings.ContainsFunc(text, unicode.IsControl) || len(text) > 200:
		d.fault(at, what+": "+quote(text)+" is not a name", "one line of 1 to 200 characters")
	case strings.HasPrefix(text, "-"):
		d.fault(at, what+": "+quote(text)+" begins with -", "a program could take it for an option")
	}
}

// unique reports the second use of a name, telling where the first one is. Names differ by more than upper and lower
// case, since they become file names.
func (d *doc) unique(seen map[string]string, what, name, at string) {
	folded := strings.ToLower(name)
	if name == "" {
		return // reported by the decoder
	}
	if first, ok := seen[folded]; ok {
		d.fault(at, fmt.Sprintf("%s %s stands twice; first at %s", what, quote(name), first), "")
		return
	}
	seen[folded] = d.pos(at).String()
}

func (l *loader) conditions(d *doc, s *Suite) {
	rows := l.defaults.Matrix.Conditions
	if len(rows) == 0 {
		rows = []conditionRow{{ID: "default", Baseline: true, At: d.pos("matrix")}}
	}
	if len(rows) == 1 {
		rows[0].Baseline = true
	}
	ids := map[string]string{}
	baseline := ""
	for i, raw := range rows {
		at := fmt.Sprintf("matrix.conditions[%d]", i)
		d.unique(ids, "condition", raw.ID, at+".id")
		if raw.ID == "delta" { // the run summary of benchmark.json has the differences under this name
			d.fault(at+".id", "condition: delta is the name of the differences in benchmark.json", "choose another id")
		}
		switch {
		case raw.Baseline && baseline != "":
			d.fault(at+".baseline", "a second baseline; the first is "+quote(baseline), "keep baseline: true on one condition")
		case raw.Baseline:
			baseline = raw.ID
		}
		head, content := l.condition(d, raw, at)
		s.Conditions = append(s.Conditions, head)
		if (l.base.Paired || l.base.Spare) && raw.From == "" && raw.readsFiles() {
			if twin, ok := l.twin(d, raw, at, content); ok {
				s.Conditions = append(s.Conditions, twin)
			}
		}
	}
	for i, raw := range rows {
		twin := func(c Condition) bool { return c.TwinOf != "" && strings.EqualFold(c.ID, raw.ID) }
		if slices.ContainsFunc(s.Conditions, twin) {
			d.fault(fmt.Sprintf("matrix.conditions[%d].id", i), "condition: the base version of another one gets the name "+quote(raw.ID), "choose another id")
		}
	}
	if baseline == "" && len(l.defaults.Matrix.Conditions) == len(d.list("matrix.conditions")) {
		d.fault("matrix.conditions", "no condition is the baseline", "add baseline: true to the one that the others are compared with")
	}
}

// list returns the elements that are written at a path.
func (d *doc) list(at string) []*node {
	if n := d.root.at(at); n != nil && n.kind == isList {
		return n.items
	}
	return nil
}

// cases reads every case of the suite.
func (l *loader) cases(s *Suite) {
	names, problems := l.files.caseFiles(s.Dir)
	l.problems = append(l.problems, problems...)
	if len(names) == 0 && len(problems) == 0 {
		l.problems = append(l.problems, Problem{Pos: Pos{File: s.File}, Level: LevelFault,
			Msg: "the suite has no case", Hint: "a case is a folder beside suite.yaml that holds a case.yaml"})
	}
	ids := map[string]string{}
	for _, name := range names {
		d, ok := l.open(name)
		if !ok {
			s.Broken = append(s.Broken, path.Dir(name))
			continue
		}
		c := l.oneCase(d)
		d.unique(ids, "case", c.ID, "id")
		l.problems = append(l.problems, d.problems...)
		if len(d.problems) > 0 {
			s.Broken = append(s.Broken, orElse(c.ID, path.Dir(name)))
			continue
		}
		l.warnings = append(l.warnings, d.warnings...)
		s.Cases = append(s.Cases, c)
	}
	// Of two cases with one id neither can be meant.
	s.Cases = slices.DeleteFunc(s.Cases, func(c Case) bool { return slices.Contains(s.Broken, c.ID) })
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// oneCase reads one case.yaml. The case is whole only when the doc has no problem afterwards.
func (l *loader) oneCase(d *doc) Case {
	raw := caseFile{
		Limits: l.defaults.Limits, Trials: l.defaults.Matrix.Trials, Threshold: l.defaults.Threshold,
		Availability: l.defaults.Availability, Environment: l.defaults.Environment,
	}
	d.decode(&raw)
	if l.rules != nil {
		l.restrainCase(d, &raw)
	}
	c := Case{
		ID: raw.ID, File: d.src.name, Dir: path.Dir(d.src.name), Setup: raw.Setup, Environment: raw.Environment.Block,
		Files: raw.Files, Ignore: raw.Ignore, Fixtures: raw.Fixtures, Tools: raw.Tools, Availability: raw.Availability,
		Trials: raw.Trials, Threshold: raw.Threshold, Limits: raw.Limits, Env: raw.Env, Assertions: raw.Assertions, At: raw.At,
	}
	for i, cmd := range raw.Setup {
		d.command(cmd, fmt.Sprintf("setup[%d]", i))
	}
	for i, tool := range raw.Tools {
		n := d.root.at(fmt.Sprintf("tools[%d]", i))
		if !toolPattern.MatchString(tool) && !d.isFaulty(n) {
			d.faultAt(n, "tools: "+quote(tool)+" is not the name of a program", "as it is found on PATH, such as python3")
		}
	}
	if c.Fixtures != nil {
		d.repo(*c.Fixtures, "fixtures")
	}
	if !d.has("assertions") {
		c.Assertions = l.defaults.Assertions
		if len(c.Assertions) == 0 && !l.partial {
			d.fault("", "the case has no assertion", "say under assertions: what must be true afterwards, such as {id: correct, type: command, run: …, gate: true}")
		}
	}
	d.assertions(raw.Assertions)
	if d.has("environment") {
		l.ask(d, ForEnvironment, raw.Environment.Block)
	}
	l.askAssertions(d, raw.Assertions)
	l.prompt(d, raw, &c)
	l.trees(d, raw, &c)
	return c
}

var toolPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)

// command reports a setup step that is not exactly one of a command line and an argv.
func (d *doc) command(cmd Command, at string) {
	switch {
	case d.has(at+".run") && d.has(at+".argv"):
		d.fault(at, "run and argv exclude each other", "")
	case cmd.Argv != nil && (len(cmd.Argv) == 0 || cmd.Argv[0] == ""):
		d.fault(at+".argv", "argv: want a program and its arguments", "")
	case cmd.Argv == nil && strings.TrimSpace(cmd.Run) == "" && !d.isFaulty(d.root.at(at)):
		d.fault(at, "a setup step needs run or argv", "")
	}
}

// isFaulty tells whether a value, or one inside it, already has a fault, so that a second one would only repeat it.
func (d *doc) isFaulty(n *node) bool {
	return n != nil && (d.faulty[d.src.pos(n)] || slices.ContainsFunc(n.keys, d.isFaulty) || slices.ContainsFunc(n.items, d.isFaulty))
}

// assertions reports a list under the key assertions that could let a cell pass for a wrong reason.
func (d *doc) assertions(list []Assertion) {
	written := d.root.at("assertions")
	if written == nil {
		return
	}
	ids := map[string]string{}
	measured, gates, scopeGate := 0, 0, ""
	for i, a := range list {
		here := fmt.Sprintf("assertions[%d]", i)
		d.unique(ids, "assertion", a.ID, here+".id")
		if a.Block.Kind == "diff_scope" || a.Block.Kind == "trace" {
			measured++
		}
		switch {
		case a.Gate && a.Block.Kind == "diff_scope":
			scopeGate = here
		case a.Gate:
			gates++
		}
	}
	if scopeGate != "" && gates == 0 {
		d.warn(scopeGate+".gate", "a diff_scope gate without another gate lets a small wrong change through", "add gate: true to the assertion that proves the change right")
	}
	switch {
	case len(list) == 0 && !d.isFaulty(written):
		d.faultAt(written, "the list of assertions is empty", "say what must be true afterwards")
	case len(list) > 0 && measured == len(list):
		d.faultAt(written, "nothing here proves that the change is right: smallest is not best", "add an assertion such as command, tests, files or llm_judge")
	}
}

var fullCommit = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// repo reports a repository that is not one commit at one safe URL.
func (d *doc) repo(r Repo, at string) {
	if d.has(at+".commit") && r.Commit != "" && !fullCommit.MatchString(r.Commit) {
		d.fault(at+".commit", "commit: "+quote(r.Commit)+" is not a full commit", "40 or 64 lower-case hex digits; a branch or tag moves, a commit does not")
	}
	if r.URL == "" {
		return
	}
	here := at + ".repo"
	u, err := url.Parse(r.URL)
	switch {
	case strings.HasPrefix(r.URL, "-"):
		d.fault(here, "repo: "+quote(r.URL)+" begins with -", "")
	case err != nil || strings.ContainsFunc(r.URL, unicode.IsSpace):
		d.fault(here, "repo: "+quote(r.URL)+" is not a URL", "such as https://github.com/owner/name")
	case u.User != nil:
		p := d.src.problem(d.nearest(here), "repo: the URL holds a user name or password", "remove it; tokens come from the environment of the run")
		p.snippet = "" // what is printed may be public
		d.add(p)
	case u.Scheme == "http" && (u.Hostname() == "127.0.0.1" || u.Hostname() == "localhost"):
		// Allowed by --allow-private-hosts alone, which the fetch checks.
	case u.Scheme != "https":
		d.fault(here, "repo: "+quote(r.URL)+" is not an https URL", "such as https://github.com/owner/name")
	case u.Hostname() == "":
		d.fault(here, "repo: "+quote(r.URL)+" names no host", "")
	case u.RawQuery != "" || u.Fragment != "":
		d.fault(here, "repo: a repository has no query or fragment", "the commit stands under commit:")
	}
}

// trees checks and reads the files and folders that a case names, and takes its digests.
func (l *loader) trees(d *doc, raw caseFile, c *Case) {
	source := l.caseSource(d, raw.Source, c)
	var hidden, reference tree
	if n := d.root.at("hidden"); n != nil {
		c.Hidden, _ = d.named(&l.files, c.Dir, raw.Hidden, n, "hidden", aFolder)
		hidden = d.tree(&l.files, c.Hidden, n, "hidden")
	}
	if n := d.root.at("reference"); n != nil {
		c.Reference, _ = d.named(&l.files, c.Dir, raw.Reference, n, "reference", aFile)
		reference = d.tree(&l.files, c.Reference, n, "reference")
	}
	others := l.others(d, raw, c)
	d.secret(c)
	for i := range raw.Files {
		c.FilesAt = append(c.FilesAt, d.pos(fmt.Sprintf("files[%d]", i)))
	}
	if len(c.Setup) == 0 { // which may make what is not there yet
		d.matching(raw.Files, source)
	}
	c.SourceDigest = sourceDigest(c.Source, source)
	c.AgentDigest = agentDigest(c, others)
	c.GradeDigest = gradeDigest(c, hidden, reference)
}

// others is what lies in the folder of a case beside the files that the case names. It may be an agent's script. A path
// may be a link, so the place that was written is left out beside the one that it leads to.
func (l *loader) others(d *doc, raw caseFile, c *Case) tree {
	apart := []string{c.File, c.Source.Path, c.Hidden, c.Reference}
	for _, written := range []string{raw.PromptFile, raw.Source.Path, raw.Hidden, raw.Reference} {
		if written != "" {
			apart = append(apart, path.Join(c.Dir, written))
		}
	}
	t := l.files.walk(c.Dir, apart)
	for _, err := range t.faults {
		d.fault("", "the folder of the case: "+err.Error(), "")
	}
	return t
}

// secret reports what the agent would find in its tree and must not.
func (d *doc) secret(c *Case) {
	seen := func(p string) bool { return p != "" && c.Source.Path != "" && below(p, c.Source.Path) }
	if seen(c.File) {
		d.fault("source.path", "path: the agent would see case.yaml", "put the tree into a folder of its own")
		return
	}
	if seen(c.Hidden) {
		d.fault("hidden", "hidden: the folder lies in the source, where the agent would see it", "put it beside the source")
	}
	if seen(c.Reference) {
		d.fault("reference", "reference: the patch lies in the source, where the agent would see it", "put it beside the source")
	}
}

// prompt takes the prompt from the case or from a file of its own.
func (l *loader) prompt(d *doc, raw caseFile, c *Case) {
	c.Prompt = raw.Prompt
	n, other := d.root.at("prompt"), d.root.at("prompt_file")
	switch {
	case n != nil && other != nil:
		d.faultAt(other, "prompt and prompt_file exclude each other", "")
		return
	case n == nil && other == nil:
		d.fault("", "the case has no prompt", "say what the agent is asked under prompt: or prompt_file:")
		return
	case other != nil:
		file, ok := d.named(&l.files, c.Dir, raw.PromptFile, other, "prompt_file", aFile)
		if !ok {
			return
		}
		data, err := l.files.read(file, maxFile)
		switch {
		case err != nil:
		case len(data) > maxFile:
			err = fmt.Errorf("has more than %d bytes", maxFile)
		case !utf8.Valid(data) || bytes.ContainsRune(data, 0):
			err = errors.New("is not a UTF-8 text")
		}
		if err != nil {
			d.faultAt(other, "prompt_file: "+quote(raw.PromptFile)+" "+err.Error(), "")
			return
		}
		n, c.Prompt = other, string(data)
	}
	if strings.TrimSpace(c.Prompt) == "" && !d.isFaulty(n) {
		d.faultAt(n, "the prompt is empty", "say what the agent is asked")
	}
}

// caseSource checks where the tree comes from, and reads it when it is a folder.
func (l *loader) caseSource(d *doc, raw sourceRow, c *Case) tree {
	c.Source = Source{Isolation: raw.Isolation, At: raw.At}
	folder, repo := d.has("source.path"), d.has("source.repo")
	if !d.has("source") || d.isFaulty(d.root.at("source")) {
		return tree{}
	}
	switch {
	case folder && repo:
		d.fault("source", "path and repo exclude each other", "")
		return tree{}
	case !folder && !repo:
		d.fault("source", "the source has neither path nor repo", "path: a folder, or repo: and commit:")
		return tree{}
	case folder && (d.has("source.commit") || d.has("source.subdir")):
		d.fault("source", "commit and subdir belong to a repo, not to a path", "")
	case repo && !d.has("source.commit"):
		d.fault("source", "commit is missing in source", "40 or 64 hex digits")
	}
	if folder && raw.Isolation == "clone" || repo && (raw.Isolation == "copy" || raw.Isolation == "worktree") {
		d.fault("source.isolation", "isolation: "+raw.Isolation+" does not go with this source", "auto takes copy for a path and clone for a repo")
	}
	if repo {
		c.Source.Repo = &Repo{URL: raw.Repo, Commit: raw.Commit, Subdir: raw.Subdir, At: raw.At}
		d.repo(*c.Source.Repo, "source")
		return tree{}
	}
	n := d.root.at("source.path")
	c.Source.Path, _ = d.named(&l.files, c.Dir, raw.Path, n, "path", aFolder)
	return d.tree(&l.files, c.Source.Path, n, "path")
}

// matching warns of entries of the diff-scope set that match no file of a source folder. Of a repository the preflight does.
func (d *doc) matching(globs []string, source tree) {
	if source.entries == nil {
		return
	}
	for i, g := range globs {
		g = path.Clean(g)
		hit := g == "." || slices.ContainsFunc(source.entries, func(e entry) bool {
			ok, _ := doublestar.Match(g, e.path)
			return ok || strings.HasPrefix(e.path, g+"/")
		})
		if !hit {
			d.warn(fmt.Sprintf("files[%d]", i), "files: "+quote(g)+" matches nothing in the source", "")
		}
	}
}

// join makes the path of a file that the document names at n, relative to dir.
func (d *doc) join(dir, p string, n *node, what string) (string, bool) {
	if d.isFaulty(n) {
		return "", false
	}
	if msg, hint := pathFault(p); msg != "" {
		d.faultAt(n, what+": "+quote(p)+" "+msg, hint)
		return "", false
	}
	joined := path.Join(dir, p)
	if !fs.ValidPath(joined) {
		d.faultAt(n, what+": "+quote(p)+" leads out of the tree", "")
		return "", false
	}
	return joined, true
}

// kindOfFile is what a path of a suite must lead to.
type kindOfFile string

const (
	aFile    kindOfFile = "a file"
	aFolder  kindOfFile = "a folder"
	anything kindOfFile = "a file or folder"
)

// named finds a file that the document names at n, and returns its path with every link resolved.
func (d *doc) named(f *files, dir, p string, n *node, what string, want kindOfFile) (string, bool) {
	joined, ok := d.join(dir, p, n, what)
	if !ok {
		return "", false
	}
	real, info, err := f.find(joined)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.faultAt(n, what+": "+quote(p)+" does not exist"+f.where, orElse(f.similar(joined, p), f.absentHint))
	case err != nil:
		d.faultAt(n, what+": "+quote(p)+" "+err.Error()+f.where, "")
	case !info.IsDir() && !info.Mode().IsRegular(), want == aFile && info.IsDir(), want == aFolder && !info.IsDir():
		d.faultAt(n, what+": "+quote(p)+" is not "+string(want)+f.where, "")
	default:
		return real, true
	}
	return "", false
}

// tree reads the file or folder that the document names at n; what cannot be used is a fault there.
func (d *doc) tree(f *files, real string, n *node, what string) tree {
	if real == "" {
		return tree{}
	}
	t := f.tree(real)
	for _, err := range t.faults {
		d.faultAt(n, what+": "+err.Error()+f.where, "")
	}
	return t
}
