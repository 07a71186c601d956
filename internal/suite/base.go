package suite

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
)

// A Base is the revision that a suite is measured against: what the work tree was before the change under test.
type Base struct {
	// Open returns the files of the revision, with the same paths as those of the work tree. It is called once at most, and
	// not when nothing asks for the base. Its error says what to do. Nil: there is no base, and asking for it is a fault.
	Open func() (fs.FS, error)
	// Paired adds a twin to each condition that reads files and does not read them from the base anyway: the same settings,
	// with the files of the base. What the base does not have, the twin does without; where it has nothing, there is no twin.
	Paired bool
	// Spare adds the same twins to be run only when results of the base must be measured again. They change nothing of the
	// suite: see [Condition].Spare.
	Spare bool
	// Rules is there when the work tree is not trusted. It returns the files of the revision whose suite.yaml holds, all but
	// its conditions, and of those env and mcp. The cases are the work tree's, but their env is that of the revision's, their
	// limits and trials are never above, and they name no repository that no case of the revision names. So a change from a
	// stranger can be measured without letting it say where keys are sent to, what is spent and what is let through.
	Rules func() (fs.FS, error)
}

// twinSuffix ends the id of a twin.
const twinSuffix = ".base"

// readBase returns the files of the base.
func (l *loader) readBase() (*files, error) {
	if l.opened == nil && l.unopened == nil {
		l.opened, l.unopened = l.base.files()
	}
	return l.opened, l.unopened
}

func (b Base) files() (*files, error) {
	if b.Open == nil {
		return nil, errors.New("no base revision is known")
	}
	fsys, err := b.Open()
	if err != nil {
		return nil, err
	}
	f := newFiles(fsys)
	f.where = " at the base"
	f.absentHint = "what is new has no base version: leave from: base out, or run with --baseline paired, which leaves out what is new"
	return &f, nil
}

func (c conditionRow) readsFiles() bool {
	return len(c.Skills) > 0 || c.Instructions != "" || len(c.Files) > 0
}

// condition reads one condition where its from: says. content is the digest of its files alone.
func (l *loader) condition(d *doc, raw conditionRow, at string) (c Condition, content string) {
	r := reading{d: d, at: at, files: &l.files}
	if raw.From == "base" && raw.readsFiles() {
		f, err := l.readBase()
		if err != nil {
			d.fault(at+".from", "from: base: "+err.Error(), "")
			return Condition{ID: raw.ID, Baseline: raw.Baseline, From: raw.From, At: raw.At}, ""
		}
		r.files = f
	}
	return r.condition(raw)
}

// twin reads the base version of a condition, whose files in the work tree have the digest head.
func (l *loader) twin(d *doc, raw conditionRow, at, head string) (c Condition, ok bool) {
	f, err := l.readBase()
	if err != nil {
		d.fault("matrix.conditions", "the base versions of the conditions cannot be read: "+err.Error(), "")
		return Condition{}, false
	}
	r := reading{d: d, at: at, files: f, lenient: true}
	of := raw.ID
	raw.ID, raw.Baseline, raw.From = of+twinSuffix, false, "base"
	spare := !l.base.Paired
	if spare {
		raw.From = "" // its digest is the one that the condition had when the base was measured
	}
	c, content := r.condition(raw)
	c.From, c.TwinOf, c.Spare = "base", of, spare
	switch {
	case c.Spare: // nobody asked for it, so what it lacks is told where it is run
	case r.found == 0:
		d.warn(at, "condition "+quote(of)+" is new with this change, so it has no base version to be compared with", "")
	case len(r.absent) > 0:
		d.warn(at, fmt.Sprintf("the base has no %s, so the base version of condition %s does without", strings.Join(r.absent, ", "), quote(of)), "")
	case content == head:
		d.warn(at, "the files of condition "+quote(of)+" are the same at the base, so comparing the two shows noise alone", "")
	}
	return c, r.found > 0
}

// reading is a condition whose files are being read from one of the two trees.
type reading struct {
	d       *doc
	at      string // path of the condition's row
	files   *files
	lenient bool // what is not there is left out
	found   int
	absent  []string
}

func (r *reading) condition(raw conditionRow) (c Condition, content string) {
	c = Condition{
		ID: raw.ID, Baseline: raw.Baseline, From: raw.From, MCP: raw.MCP, Env: raw.Env,
		PromptPrefix: raw.PromptPrefix, At: raw.At,
	}
	all, contents := newSum(), newSum()
	all.value("settings", raw.settings())
	both := func(add func(sum)) { add(all); add(contents) }
	for i, skill := range raw.Skills {
		n := r.d.root.at(fmt.Sprintf("%s.skills[%d]", r.at, i))
		if !r.has(path.Join(skill, "SKILL.md"), skill, n) {
			continue
		}
		real, t := r.read(skill, n, "skill", aFolder)
		both(func(s sum) { s.tree("skill", t); s.text(path.Base(real)) }) // an agent knows a skill by the name of its folder
		if real != "" {
			if _, _, err := r.files.find(path.Join(real, "SKILL.md")); err != nil {
				r.d.faultAt(n, "the skill "+quote(skill)+" has no SKILL.md"+r.files.where, "name the folder that holds SKILL.md")
			}
		}
		c.Skills = append(c.Skills, real)
	}
	if n := r.d.root.at(r.at + ".instructions"); n != nil && r.has(raw.Instructions, raw.Instructions, n) {
		var t tree
		c.Instructions, t = r.read(raw.Instructions, n, "instructions", aFile)
		both(func(s sum) { s.tree("instructions", t) })
	}
	if n := r.d.root.at(r.at + ".files"); n != nil && raw.Files != nil {
		c.Files = map[string]string{}
		for to, item := range n.sorted() {
			if !r.has(raw.Files[to], raw.Files[to], item) {
				continue
			}
			real, t := r.read(raw.Files[to], item, "file", anything)
			both(func(s sum) { s.text(to); s.tree("file", t) })
			c.Files[to] = real
		}
	}
	c.Digest = all.String()
	return c, contents.String()
}

// has tells whether what is written at n should be read. Only a lenient reading looks whether it is there first.
func (r *reading) has(p, written string, n *node) bool {
	if r.lenient && !r.d.isFaulty(n) {
		_, _, err := r.files.find(path.Join(path.Dir(r.d.src.name), p))
		if errors.Is(err, fs.ErrNotExist) {
			r.absent = append(r.absent, quote(written))
			return false
		}
	}
	r.found++
	return true
}

// read finds and hashes what is written at n.
func (r *reading) read(p string, n *node, what string, want kindOfFile) (real string, t tree) {
	real, ok := r.d.named(r.files, path.Dir(r.d.src.name), p, n, what, want)
	if ok {
		t = r.d.tree(r.files, real, n, what)
	}
	return real, t
}

// baseRules are what an untrusted load takes from the base.
type baseRules struct {
	suite    *Suite
	defaults suiteFile
	cases    map[string]caseFile // by id; what of them could be read
}

// readRules reads the base's suite.yaml.
func (l *loader) readRules(file string) bool {
	refuse := func(err error) bool {
		l.problems = append(l.problems, Problem{Pos: Pos{File: file}, Level: LevelFault,
			Msg: "an untrusted run needs the base's suite.yaml for its harnesses, limits and gate: " + err.Error()})
		return false
	}
	fsys, err := l.base.Rules()
	if err != nil {
		return refuse(err)
	}
	b := loader{files: newFiles(fsys), owner: l.owner}
	d, ok := b.open(file)
	if !ok {
		return refuse(b.problems.err())
	}
	s := &Suite{}
	b.settings(d, s)
	if len(d.problems) > 0 {
		return refuse(d.problems.err())
	}
	l.rules = &baseRules{suite: s, defaults: b.defaults, cases: map[string]caseFile{}}
	names, _ := b.files.caseFiles(path.Dir(file)) // what is wrong with a case of the base is not of this change
	for _, name := range names {
		if d, ok := b.open(name); ok {
			raw := caseFile{Limits: b.defaults.Limits, Trials: b.defaults.Matrix.Trials}
			d.decode(&raw)
			l.rules.cases[raw.ID] = raw
		}
	}
	return true
}

const untrustedHint = "a maintainer can run the change as trusted, or bring this in first"

// restrain puts the base's settings in the place of the work tree's, and says so where they differ.
func (l *loader) restrain(d *doc, s *Suite) {
	head, base := l.defaults, l.rules.defaults
	for i, h := range head.Matrix.Harnesses {
		at := fmt.Sprintf("matrix.harnesses[%d]", i)
		j := slices.IndexFunc(base.Matrix.Harnesses, func(b harnessRow) bool { return b.ID == h.ID })
		switch {
		case j < 0:
			d.fault(at, "harness "+quote(h.ID)+" is not in the base's suite.yaml, and an untrusted run takes its harnesses from there", untrustedHint)
		case !sameHarness(h, base.Matrix.Harnesses[j]):
			d.warn(at, "harness "+quote(h.ID)+" is as the base has it: this run is untrusted", "")
		}
	}
	for _, part := range []struct {
		key        string
		head, base any
	}{
		{"matrix.trials", head.Matrix.Trials, base.Matrix.Trials},
		{"retries", head.Retries, base.Retries},
		{"limits", head.Limits, base.Limits},
		{"budget", head.Budget, base.Budget},
		{"interaction", string(head.Interaction.Block.Canonical()), string(base.Interaction.Block.Canonical())},
		{"executor", string(head.Executor.Block.Canonical()), string(base.Executor.Block.Canonical())},
		{"availability", head.Availability, base.Availability},
		{"gate", head.Gate.settings(), base.Gate.settings()},
		{"environment", string(head.Environment.Block.Canonical()), string(base.Environment.Block.Canonical())},
		{"assertions", assertions(head.Assertions), assertions(base.Assertions)},
		{"threshold", head.Threshold, base.Threshold},
	} {
		if !reflect.DeepEqual(part.head, part.base) {
			d.warn(part.key, part.key+": as the base has it: this run is untrusted", "")
		}
	}
	rows := l.restrainConditions(d, head.Matrix.Conditions)
	l.defaults = base
	l.defaults.Matrix.Conditions = rows
	kept := *s
	*s = *l.rules.suite
	s.File, s.Dir = kept.File, kept.Dir
	if !reflect.DeepEqual(kept.Gate.settings(), s.Gate.settings()) {
		s.HeadGate = &kept.Gate
	}
}

func sameHarness(a, b harnessRow) bool {
	return slices.Equal(a.Models, b.Models) && string(a.Block.Canonical()) == string(b.Block.Canonical())
}

// settings is the gate without its place.
func (g Gate) settings() Gate {
	g.At = Pos{}
	return g
}

// restrainConditions returns the work tree's conditions with env, mcp and the choice of the baseline as the base has them.
func (l *loader) restrainConditions(d *doc, head []conditionRow) []conditionRow {
	base := l.rules.defaults.Matrix.Conditions
	rows := slices.Clone(head)
	baseline := slices.IndexFunc(rows, func(c conditionRow) bool {
		return slices.ContainsFunc(base, func(b conditionRow) bool { return b.ID == c.ID && b.Baseline })
	})
	for i := range rows {
		c, at := &rows[i], fmt.Sprintf("matrix.conditions[%d]", i)
		if baseline >= 0 {
			c.Baseline = i == baseline
		}
		var was conditionRow
		j := slices.IndexFunc(base, func(b conditionRow) bool { return b.ID == c.ID })
		if j >= 0 {
			was = base[j]
		}
		sameMCP := string(c.MCP.Canonical()) == string(was.MCP.Canonical())
		switch {
		case maps.Equal(c.Env, was.Env) && sameMCP:
			continue
		case j < 0:
			d.fault(at, "condition "+quote(c.ID)+" is not in the base's suite.yaml, and an untrusted run takes env and mcp from there", untrustedHint)
		default:
			d.warn(at, "env and mcp of condition "+quote(c.ID)+" are as the base has them: this run is untrusted", "")
		}
		c.Env, c.MCP = was.Env, was.MCP
	}
	return rows
}

// restrainSources refuses a repository that no case of the base has. The hosts that a run may reach were allowed for those.
func (l *loader) restrainSources(d *doc, raw caseFile) {
	known := map[string]bool{"": true}
	for _, was := range l.rules.cases {
		known[was.Source.Repo] = true
		if was.Fixtures != nil {
			known[was.Fixtures.URL] = true
		}
	}
	refuse := func(key, url string) {
		if !known[url] {
			d.fault(key, "no case of the base has the repository "+quote(url)+", and an untrusted run takes addresses from there", untrustedHint)
		}
	}
	refuse("source.repo", raw.Source.Repo)
	if raw.Fixtures != nil {
		refuse("fixtures.repo", raw.Fixtures.URL)
	}
}

// restrainCase takes env of a case from the base, and holds its limits and trials below the base's.
func (l *loader) restrainCase(d *doc, raw *caseFile) {
	l.restrainSources(d, *raw)
	was, known := l.rules.cases[raw.ID]
	if !known {
		was = caseFile{Limits: l.defaults.Limits, Trials: l.defaults.Matrix.Trials}
	}
	if !maps.Equal(raw.Env, was.Env) {
		if known {
			d.warn("env", "env: as the base has it: this run is untrusted", "")
		} else {
			d.fault("env", "env: an untrusted run takes no environment variables from a new case", untrustedHint)
		}
		raw.Env = was.Env
	}
	limits := Limits{
		Timeout:    tighter(raw.Limits.Timeout, was.Limits.Timeout),
		MaxTurns:   tighter(raw.Limits.MaxTurns, was.Limits.MaxTurns),
		MaxTokens:  tighter(raw.Limits.MaxTokens, was.Limits.MaxTokens),
		MaxCostUSD: tighter(raw.Limits.MaxCostUSD, was.Limits.MaxCostUSD),
	}
	if limits != raw.Limits {
		d.warn("limits", "limits: held below those of the base: this run is untrusted", "")
	}
	if raw.Trials > was.Trials {
		d.warn("trials", fmt.Sprintf("trials: %d, as many as the base allows: this run is untrusted", was.Trials), "")
	}
	raw.Limits, raw.Trials = limits, min(raw.Trials, was.Trials)
}

// tighter is the smaller of two limits; 0 is none.
func tighter[T cmp.Ordered](a, b T) T {
	var none T
	if a == none || b == none {
		return max(a, b)
	}
	return min(a, b)
}
