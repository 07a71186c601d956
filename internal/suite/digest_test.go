package suite

import (
	"bytes"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// digests are what a change of a file may change.
type digests struct{ agent, grade, source, condition, suite string }

func digestsOf(t *testing.T, fsys fs.FS, path string) digests {
	t.Helper()
	s, err := LoadAgainst(fsys, against(goneSkill), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := s.Cases[slices.IndexFunc(s.Cases, func(c Case) bool { return c.ID == "own" })]
	return digests{c.AgentDigest, c.GradeDigest, c.SourceDigest, s.Conditions[1].Digest, s.Digest}
}

// changed names the digests that differ; the suite's is told only when it is alone.
func changed(a, b digests) string {
	var names []string
	for _, d := range []struct{ name, a, b string }{
		{"agent", a.agent, b.agent}, {"grade", a.grade, b.grade}, {"source", a.source, b.source}, {"condition", a.condition, b.condition},
	} {
		if d.a != d.b {
			names = append(names, d.name)
		}
	}
	if a.suite != b.suite && names == nil {
		return "suite"
	}
	if a.suite == b.suite && names != nil {
		return "not the suite"
	}
	return strings.Join(names, " ")
}

func TestDigests(t *testing.T) {
	const own, suite = "evals/own/case.yaml", "evals/suite.yaml"
	edit := func(file, from, to string) func(fstest.MapFS) {
		return func(fsys fstest.MapFS) {
			if !bytes.Contains(fsys[file].Data, []byte(from)) {
				panic(file + " has no " + from)
			}
			fsys[file] = &fstest.MapFile{Data: bytes.Replace(fsys[file].Data, []byte(from), []byte(to), 1), Mode: fsys[file].Mode}
		}
	}
	put := func(file, text string) func(fstest.MapFS) {
		return func(fsys fstest.MapFS) { fsys[file] = &fstest.MapFile{Data: []byte(text), Mode: 0o644} }
	}
	tests := map[string]struct {
		change func(fstest.MapFS)
		want   string // digests that change
	}{
		// What must not matter.
		"nothing":          {func(fstest.MapFS) {}, ""},
		"comments":         {edit(own, "id: own", "# hello\nid: own # there\n"), ""},
		"style of a list":  {edit(own, "tools: [python3, g++]", "tools:\n- 'python3'\n- \"g++\""), ""},
		"order of keys":    {edit(own, "tools: [python3, g++]\navailability: required", "availability: required\ntools: [python3, g++]"), ""},
		"order in a block": {edit(own, "type: tests, run: make test", "run: make test, type: tests"), ""},
		"times": {func(fsys fstest.MapFS) {
			for _, f := range fsys {
				f.ModTime = time.Unix(1, 0)
			}
		}, ""},
		"modes beyond executable": {func(fsys fstest.MapFS) { fsys["common/tree/src/main.go"].Mode = 0o600 }, ""},
		"where the source lies": {func(fsys fstest.MapFS) {
			edit(own, "../../common/tree", "../../moved")(fsys)
			fsys["moved/src/main.go"] = fsys["common/tree/src/main.go"]
			delete(fsys, "common/tree/src/main.go")
		}, ""},
		"the prompt moves into the case": {func(fsys fstest.MapFS) {
			edit(own, "prompt_file: prompt.md", `prompt: "Find the bug and fix it.\n"`)(fsys)
			delete(fsys, "evals/own/prompt.md")
		}, ""},
		".git in the source":           {put("common/tree/.git/HEAD", "x"), ""},
		"a file beside the cases":      {put("evals/README.md", "x"), ""},
		"order of a condition's files": {edit(suite, "{docs/GUIDE.md: ../guide.md, B.md: ../guide.md}", "{B.md: ../guide.md, docs/GUIDE.md: ../guide.md}"), ""},
		// What the agent may see.
		"prompt":         {put("evals/own/prompt.md", "Fix it."), "agent"},
		"source content": {put("common/tree/src/main.go", "package other\n"), "agent source"},
		"source file name": {func(fsys fstest.MapFS) {
			put("common/tree/src/b.go", "package main\n")(fsys)
			delete(fsys, "common/tree/src/main.go")
		}, "agent source"},
		"a new source file": {put("common/tree/src/x", ""), "agent source"},
		"an executable":     {func(fsys fstest.MapFS) { fsys["common/tree/src/main.go"].Mode = 0o755 }, "agent source"},
		"a link in the source": {func(fsys fstest.MapFS) {
			fsys["common/tree/src/l"] = &fstest.MapFile{Data: []byte("main.go"), Mode: fs.ModeSymlink | 0o777}
		}, "agent source"},
		"isolation":         {edit(own, "isolation: worktree", "isolation: copy"), "agent"},
		"setup":             {edit(own, "make tools", "make tool"), "agent"},
		"environment":       {edit(own, "environment: {}", "environment: {type: command}"), "agent"},
		"limits":            {edit(own, "timeout: 5m", "timeout: 6m"), "agent"},
		"limits from suite": {edit(suite, "max_turns: 50", "max_turns: 51"), "agent"},
		"env":               {edit(own, "TZ: UTC", "TZ: CET"), "agent"},
		"agent's script":    {put("evals/own/agent/script.yaml", "steps: [x]\n"), "agent"},
		"another file":      {put("evals/own/notes.txt", "x"), "agent"},
		// What grades it.
		"hidden content":    {put("evals/own/hidden/test.sh", "exit 0\n"), "grade"},
		"a new hidden file": {put("evals/own/hidden/b/test.sh", "exit 0\n"), "grade"},
		"reference":         {put("evals/own/reference.patch", "--- b\n"), "grade"},
		"threshold":         {edit(own, "threshold: 0", "threshold: 0.5"), "grade"},
		"an assertion":      {edit(own, "run: make test", "run: make tests"), "grade"},
		"a weight":          {edit(own, "weight: 2", "weight: 3"), "grade"},
		"a gate":            {edit(own, "gate: true", "gate: false"), "grade"},
		"a guard":           {edit(own, "guard: true", "guard: false"), "grade"},
		"files":             {edit(own, `"src/**"`, `"src/*"`), "grade"},
		"ignore":            {edit(own, "**/*.log", "*.log"), "grade"},
		// What belongs to the condition or to the suite.
		"a skill":            {put("skills/fixing/SKILL.md", "other"), "condition"},
		"a file of a skill":  {put("skills/fixing/more.md", "other"), "condition"},
		"instructions":       {put("AGENTS.md", "other"), "condition"},
		"a condition's file": {put("guide.md", "other"), "condition"},
		"where it is laid":   {edit(suite, "docs/GUIDE.md", "docs/GUIDE2.md"), "condition"},
		"the name of a skill": {func(fsys fstest.MapFS) {
			edit(suite, "skills/fixing", "skills/mending")(fsys)
			fsys["skills/mending/SKILL.md"] = fsys["skills/fixing/SKILL.md"]
		}, "condition"},
		"MCP":                 {edit(suite, "mcp-files", "mcp-other"), "condition"},
		"a condition's env":   {edit(suite, `LEVEL: "2"`, `LEVEL: "3"`), "condition"},
		"prompt prefix":       {edit(suite, "Use the skill.", "Use it."), "condition"},
		"a harness":           {edit(suite, "api.example.org", "api2.example.org"), "suite"},
		"models":              {edit(suite, "[opus, haiku]", "[opus]"), "suite"},
		"trials":              {edit(own, "trials: 2", "trials: 3"), "suite"},
		"interaction":         {edit(suite, "answers: [yes]", "answers: [no]"), "suite"},
		"the gate's settings": {edit(suite, "margin_pp: 3", "margin_pp: 4"), "suite"},
		"fixtures of another": {edit("evals/group/cloned/case.yaml", "8080", "8081"), "suite"},
		"a commit of another": {edit("evals/group/cloned/case.yaml", "subdir: service", "subdir: app"), "suite"},
	}
	fresh := func() fstest.MapFS { return archive(t, readArchive(t, "testdata/good/full.txtar")) }
	before := digestsOf(t, fresh(), "evals")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			fsys := fresh()
			test.change(fsys)
			if got := changed(before, digestsOf(t, fsys, "evals")); got != test.want {
				t.Errorf("changed %q, want %q", got, test.want)
			}
		})
	}
	t.Run("the folder of everything", func(t *testing.T) {
		moved := fstest.MapFS{}
		for name, f := range fresh() {
			moved["deep/down/"+name] = f
		}
		if got := changed(before, digestsOf(t, moved, "deep/down/evals")); got != "" {
			t.Errorf("changed %q", got)
		}
	})
	if seen := map[string]bool{before.agent: true, before.grade: true, before.source: true, before.condition: true, before.suite: true}; len(seen) != 5 {
		t.Errorf("digests are equal: %v", slices.Sorted(maps.Keys(seen)))
	}
	for _, d := range []string{before.agent, before.suite} {
		if !strings.HasPrefix(d, "sha256:") || len(d) != 7+64 {
			t.Errorf("%q is not a digest", d)
		}
	}
}
