package run

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/assay-ci/assay/internal/trace"
)

// How a condition is proven.
//
// A part of a condition (a skill, the instructions, an MCP server, the prompt prefix) is proven by a marker: a text of its
// own that stands in the first request of the agent to its model. Nothing is added to what the suite says. A cell is
// verified when every part of its condition is proven and no marker of another condition is there; it errored when one of
// them is not as it should be. What cannot be proven is not known, and says why in a finding: a part without a text that
// would not be met by chance, or whose text the agent is given in another way too. Files are looked for in the first
// snapshot. The environment of a condition shows nowhere; we set it.

const (
	minMarker  = 24        // characters of a line that is not met by chance
	usualSkill = 40        // characters of a description that mark its skill, when no other begins like it
	maxMarker  = 400       // characters; every agent that was looked at passes on twice as many of a description
	maxRead    = 32 << 10  // bytes of a file that marks are taken from: an agent may cut what is longer
	maxGiven   = 256 << 10 // bytes of a condition's files that are looked through for the markers of others
)

// A proof is what shows that a cell had its condition.
type proof struct {
	markers  []gateway.Marker
	unproven []string // parts of the condition without a marker, each with why
}

// A part is one thing that a condition gives an agent.
type part struct {
	of    string   // for people, such as skill greeter
	text  string   // all of it that a request may show, in one line
	marks []string // texts that could mark it, the best first
	none  string   // why there are none
	tool  bool     // marks are what the names of its tools begin with
}

// proofOf returns the markers of a cell. The error is a condition that no agent could be shown.
func (k *Kit) proofOf(c plan.Cell) (proof, error) {
	own, err := k.parts(k.conditions[c.Condition], c)
	if err != nil {
		return proof{}, err
	}
	var others []part
	for _, cond := range k.suite.Conditions {
		if cond.ID != c.Condition && !cond.Spare { // a spare one must change nothing for the others
			parts, err := k.parts(cond, c)
			if err != nil && !errors.As(err, new(*fault)) {
				return proof{}, err
			}
			others = append(others, parts...) // of a broken one, as far as it goes: its own cells say what is wrong
		}
	}
	given := append(slices.Clone(own), part{text: oneLine(k.cases[c.Case].Prompt)}, part{text: k.laidTexts(k.conditions[c.Condition])})
	var p proof
	for i, o := range own {
		rest := slices.Delete(slices.Clone(given), i, i+1)
		mark := o.mark(func(m string) bool { return within(rest, m, o.tool) }, func(m string) bool { return within(others, m, o.tool) })
		if mark == "" {
			p.unproven = append(p.unproven, o.of+": "+cmp.Or(o.none, "what would show it is given to the agent in another way too"))
			continue
		}
		p.markers = append(p.markers, gateway.Marker{Of: o.of, Text: mark, Tool: o.tool, Wanted: true})
	}
	for _, o := range others {
		mark := o.mark(func(m string) bool { return within(given, m, o.tool) }, func(string) bool { return false })
		absent := gateway.Marker{Of: o.of, Text: mark, Tool: o.tool}
		if mark != "" && !slices.Contains(p.markers, absent) {
			p.markers = append(p.markers, absent)
		}
	}
	return p, nil
}

// mark is the best text that marks the part: one that is not lost, and rather one that is not shared. Empty: none.
func (p part) mark(lost, shared func(string) bool) string {
	marks := slices.DeleteFunc(slices.Clone(p.marks), lost)
	if i := slices.IndexFunc(marks, func(m string) bool { return !shared(m) }); i >= 0 {
		return marks[i]
	}
	return cmp.Or(marks...)
}

// within tells whether a mark is found in what some parts give an agent. Names of tools are met by those of tools alone.
func within(parts []part, mark string, tool bool) bool {
	return slices.ContainsFunc(parts, func(p part) bool {
		if tool {
			return p.tool && strings.HasPrefix(p.text, mark)
		}
		return !p.tool && strings.Contains(p.text, mark)
	})
}

// parts are what a condition gives the agent of a cell. The error is a *fault when the condition is broken.
func (k *Kit) parts(c suite.Condition, cell plan.Cell) ([]part, error) {
	root, err := os.OpenRoot(k.rootOf(c))
	if err != nil {
		return nil, fmt.Errorf("condition %s: %w", c.ID, err)
	}
	defer root.Close()
	var parts []part
	for _, skill := range c.Skills {
		p, err := skillPart(root, skill)
		if err != nil {
			return parts, err
		}
		parts = append(parts, p)
	}
	if c.Instructions != "" {
		text, err := head(root, c.Instructions)
		if err != nil {
			return parts, fmt.Errorf("instructions %s: %w", c.Instructions, err)
		}
		p := part{of: "instructions", text: oneLine(text), marks: lineMarks(text)}
		if len(p.marks) == 0 {
			p.none = fmt.Sprintf("in fewer than %d characters they cannot be told from chance", minMarker)
		}
		parts = append(parts, p)
	}
	servers, err := mcpServers(c)
	if err != nil {
		return parts, err
	}
	for _, s := range servers {
		parts = append(parts, k.serverPart(s.Name, cell.Harness))
	}
	if c.PromptPrefix != "" {
		prompt := k.cases[cell.Case].Prompt
		text := oneLine(c.PromptPrefix + prompt)
		parts = append(parts, part{of: "prompt_prefix", text: text, marks: []string{oneLine(c.PromptPrefix + firstRunes(prompt, usualSkill))}})
	}
	return parts, nil
}

// skillPart is a skill as agents show it to their models: by name and description. One that lacks them is shown by no
// agent, or by each in its own way.
func skillPart(root *os.Root, skill string) (part, error) {
	text, err := head(root, path.Join(skill, "SKILL.md"))
	if err != nil {
		return part{}, &fault{trace.ClassCondition, fmt.Errorf("skill %s: its SKILL.md cannot be read: %w", skill, err)}
	}
	name, description := harness.SkillHeader(text)
	if name == "" || description == "" {
		return part{}, &fault{trace.ClassCondition, fmt.Errorf("skill %s: its SKILL.md does not begin with a name and a description, by which agents know a skill", skill)}
	}
	p := part{of: "skill " + name, text: oneLine(description)}
	for n := usualSkill; n <= maxMarker; n += usualSkill {
		p.marks = append(p.marks, firstRunes(p.text, n))
	}
	p.marks = slices.Compact(p.marks)
	return p, nil
}

// lineMarks are the lines of instructions that are long enough, the longest first, or when there is none the beginning of
// them all. Lines that an agent may replace or leave out are none: comments, and imports of other files.
func lineMarks(text string) []string {
	text = withoutComments(text)
	var marks []string
	for line := range strings.Lines(text) {
		if line = firstRunes(line, maxMarker); !strings.HasPrefix(line, "@") {
			marks = append(marks, line)
		}
	}
	short := func(m string) bool { return len([]rune(m)) < minMarker }
	if marks = slices.DeleteFunc(marks, short); len(marks) == 0 {
		return slices.DeleteFunc([]string{firstRunes(text, maxMarker)}, short)
	}
	slices.SortStableFunc(marks, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return marks
}

// withoutComments is a Markdown text without its comments, each of which leaves a line behind.
func withoutComments(text string) string {
	var kept strings.Builder
	for {
		before, comment, found := strings.Cut(text, "<!--")
		kept.WriteString(before)
		if !found {
			return kept.String()
		}
		_, text, _ = strings.Cut(comment, "-->")
		kept.WriteByte('\n')
	}
}

// serverPart is an MCP server, which a request shows by the names of its tools.
func (k *Kit) serverPart(name, harnessID string) part {
	p := part{of: "MCP server " + name, tool: true}
	if namer, ok := k.harnesses[harnessID].Harness.(harness.ToolNamer); ok {
		if p.text = namer.ToolsOf(name); p.text != "" {
			p.marks = []string{p.text}
			return p
		}
	}
	p.none = "how this agent names the tools of a server is not known"
	return p
}

// head reads the beginning of a file.
func head(root *os.Root, name string) (string, error) {
	f, err := root.Open(path.Clean(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRead))
	return strings.ToValidUTF8(string(b), "\uFFFD"), err
}

// laidTexts are the files that a condition lays in the tree, in one line: an agent may show its model what it finds there,
// such as a skill that another condition has elsewhere.
func (k *Kit) laidTexts(c suite.Condition) string {
	root, err := os.OpenRoot(k.rootOf(c))
	if err != nil {
		return ""
	}
	defer root.Close()
	var all strings.Builder
	for _, from := range c.Files {
		_ = fs.WalkDir(root.FS(), path.Clean(from), func(name string, d fs.DirEntry, err error) error { // what cannot be read cannot be laid
			if err != nil || all.Len() > maxGiven {
				return fs.SkipAll
			}
			if d.Type().IsRegular() {
				text, _ := head(root, name)
				all.WriteString(oneLine(text) + "\n")
			}
			return nil
		})
	}
	return all.String()
}

// oneLine is a text with every run of white space as one blank, as the gateway compares it.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func firstRunes(text string, n int) string {
	runes := []rune(oneLine(text))
	return string(runes[:min(n, len(runes))])
}

// checkSkills finds skills that no agent could be shown, where a gateway would miss them. A skill that is read from the
// base is not the author's to mend here: its cells say what is wrong.
func (k *Kit) checkSkills() error {
	var faults []error
	for _, c := range k.suite.Conditions {
		if c.From == "base" || !k.watched() {
			continue
		}
		root, err := os.OpenRoot(k.rootOf(c))
		if err != nil {
			return err
		}
		for _, skill := range c.Skills {
			if _, err := skillPart(root, skill); err != nil {
				faults = append(faults, suite.Problem{
					Pos: c.At, Level: suite.LevelFault, Msg: "condition " + c.ID + ": " + err.Error(),
					Hint: "begin SKILL.md with the lines ---, name: …, description: … and ---",
				})
			}
		}
		root.Close()
	}
	return errors.Join(faults...)
}

// watched tells whether the gateway sees what an agent of some harness asks its model.
func (k *Kit) watched() bool {
	for _, h := range k.suite.Harnesses {
		for _, c := range k.suite.Cases {
			models, err := k.models(plan.Cell{Case: c.ID, Harness: h.ID, Model: cmp.Or(h.Models...), Condition: k.suite.Conditions[0].ID, Trial: 1})
			if err == nil && len(models) > 0 {
				return true
			}
		}
	}
	return false
}

// filesHeld looks in the first snapshot for the files that the condition lays: what setup made of them is not what is
// under test. A condition that gives nothing but files is proven by it.
func (l *life) filesHeld(c suite.Condition) error {
	if len(c.Files) == 0 {
		return nil
	}
	err := l.kit.sandbox.Holds(l.kit.rootOf(c), c.Files, l.before.FS())
	if err == nil && (len(asked(c)) > 0 || c.PromptPrefix != "") {
		return nil
	}
	held := err == nil
	l.res.ConditionVerified = &held
	if err != nil {
		return &fault{trace.ClassCondition, fmt.Errorf("the condition did not hold: %w", err)}
	}
	return nil
}

// proven decides, after the agent, whether the cell had its condition. An agent that never showed it measured something
// else, and one that ended well without a request measured nobody knows what.
func (l *life) proven(seen gateway.Seen) error {
	p := l.proof
	switch {
	case len(p.markers) == 0 && len(p.unproven) == 0: // there is nothing to prove, here or elsewhere
		return nil
	case seen.Verified != nil && !*seen.Verified:
		l.res.ConditionVerified = seen.Verified
		return &fault{trace.ClassCondition, errors.New("the condition did not hold: " + strings.Join(seen.Unverified, "; "))}
	case len(p.markers) > 0 && seen.Verified == nil && l.outcome.Stop == trace.StopEndTurn:
		return &fault{trace.ClassCondition, errors.New("the agent asked no model through the gateway, so nothing shows which condition it had")}
	}
	l.res.ConditionVerified = seen.Verified
	if len(p.unproven) > 0 {
		l.res.ConditionVerified = nil
		for _, why := range p.unproven {
			l.res.Findings = append(l.res.Findings, result.Finding{Kind: "condition_unproven", Text: why})
		}
	}
	return nil
}
