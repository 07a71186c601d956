package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// repository is the top of the checkout, seen from here.
const repository = "../.."

// TestReference holds the pages that are made from tables to what the tables say. -update writes them anew.
func TestReference(t *testing.T) {
	schema := says(t, "schema")
	if !json.Valid([]byte(schema)) {
		t.Error("assay schema prints no JSON")
	}
	pages := map[string]string{
		repository + "/docs/suite.md":            suitePage(),
		repository + "/docs/cli.md":              commandPage(),
		repository + "/docs/harnesses/README.md": harnessIndex(),
		repository + "/docs/suite.schema.json":   schema,
		repository + "/docs/executors.md":        executorPage(),
		"testdata/explain.txt":                   explanations(t),
	}
	for _, k := range harness.Kinds {
		pages[repository+"/docs/harnesses/"+k.Name+".md"] = harnessPage(k)
	}
	for name, want := range pages {
		if *update {
			must(os.WriteFile(name, []byte(want), 0o644))
			continue
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is stale; write it anew with go test ./internal/cli -run TestReference -update\n%s", name, diff)
		}
	}
}

const madeByTest = "<!-- Made from the tables of the program by go test ./internal/cli -run TestReference -update. Do not edit. -->\n"

// suitePage is docs/suite.md.
func suitePage() string {
	var b strings.Builder
	b.WriteString("# suite.yaml and case.yaml\n\n" + madeByTest + `
A suite is a folder with one suite.yaml and a folder with a case.yaml for each case. Paths are relative to the file that
names them and may not leave the repository. An unknown key is a fault: ` + "`assay check`" + ` finds every fault of every file at
once. [suite.schema.json](suite.schema.json) tells editors the same.

In a name, ` + "`[]`" + ` stands for each item of a list and ` + "`.*`" + ` for each key of a mapping.
`)
	ofSuite, ofCase := suite.DescribeFiles()
	b.WriteString("\n## suite.yaml\n\n" + fieldTable(ofSuite))
	b.WriteString("\n## case.yaml\n\n" + fieldTable(ofCase))
	b.WriteString(aboutTheBase)
	for _, g := range groups() {
		fmt.Fprintf(&b, "\n## Kinds of %s\n", g.what)
		for _, k := range g.list {
			fmt.Fprintf(&b, "\n### %s\n\n%s\n", k.Name, cell(sentence(k.Doc)))
			if g.what == "harness" {
				fmt.Fprintf(&b, "[How it is run, and what it cannot tell](harnesses/%s.md).\n", k.Name)
			}
			if g.what == "executor" {
				fmt.Fprintf(&b, "[How it is run, and what it does not protect](executors.md#%s).\n", k.Name)
			}
			if fields := suite.Describe(k.Params); len(fields) > 0 {
				b.WriteString("\n" + fieldTable(fields))
			}
		}
	}
	return b.String()
}

// executorPage is docs/executors.md.
func executorPage() string {
	var b strings.Builder
	b.WriteString("# The executors\n\n" + madeByTest + `
An executor makes the places in which agents, setup commands and graders run: ` + "`executor`" + ` of suite.yaml, or the flag
` + "`--executor`" + `. What is asked of one and cannot be enforced is refused before any cell runs. What it found out is in
manifest.json, and it is part of what a cell is: numbers of different executors, limits or images are never compared.

| executor | what it does | networks | limits | sees files of the host |
| :-- | :-- | :-- | :-- | :-- |
`)
	for _, k := range executor.Kinds {
		sees := "no"
		if k.SeesHostFiles {
			sees = "yes"
		}
		fmt.Fprintf(&b, "| [%s](#%[1]s) | %s | %s | %s | %s |\n", k.Name, cell(k.Doc), strings.Join(k.Networks, ", "), k.Limits, sees)
	}
	for _, k := range executor.Kinds {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", k.Name, cell(sentence(k.Doc)))
		for _, s := range aboutExecutor(k) {
			fmt.Fprintf(&b, "\n### %s: %s\n\n", k.Name, strings.ToLower(s.title[:1])+s.title[1:])
			for _, line := range s.lines {
				if len(s.lines) > 1 {
					b.WriteString(wrapped(line, "- ", "  "))
				} else {
					b.WriteString(wrapped(line, "", ""))
				}
			}
		}
		if fields := suite.Describe(k.Params); len(fields) > 0 {
			fmt.Fprintf(&b, "\n### %s: settings\n\n%s", k.Name, fieldTable(fields))
		}
	}
	return b.String()
}

// harnessIndex is docs/harnesses/README.md.
func harnessIndex() string {
	var b strings.Builder
	b.WriteString("# The harnesses\n\n" + madeByTest + `
A harness drives one kind of agent: ` + "`type`" + ` of an item of ` + "`matrix.harnesses`" + ` in suite.yaml. Each page says how the
agent is run, what is recorded, and what the agent cannot tell. Where its agents call their models through the gateway, the
gateway's count of turns, tokens and money is the official one, and the condition is looked for in what the model was told.

| harness | what it does | takes | asks | models through the gateway |
| :-- | :-- | :-- | :-- | :-- |
`)
	for _, k := range harness.Kinds {
		through := "no"
		if calls(k) {
			through = "yes"
		}
		fmt.Fprintf(&b, "| [%s](%[1]s.md) | %s | %s | %s | %s |\n", k.Name, cell(k.Doc), strings.Join(k.Takes, ", "), strings.Join(k.Asks, ", "), through)
	}
	return b.String()
}

// harnessPage is the page of one harness in docs/harnesses.
func harnessPage(k harness.Kind) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n%s\n\n```yaml\nmatrix:\n  harnesses:\n    - %s\n```\n", k.Name, madeByTest, cell(sentence(k.Doc)), k.About.Example)
	for _, s := range aboutHarness(k) {
		fmt.Fprintf(&b, "\n## %s\n\n", s.title)
		for _, line := range s.lines {
			if len(s.lines) > 1 {
				b.WriteString(wrapped(line, "- ", "  "))
			} else {
				b.WriteString(wrapped(line, "", ""))
			}
		}
	}
	if fields := suite.Describe(k.Params); len(fields) > 0 {
		b.WriteString("\n## Settings\n\n" + fieldTable(fields))
	}
	return b.String()
}

// TestHarnessExamples checks a suite that is made of the examples of all harnesses.
func TestHarnessExamples(t *testing.T) {
	dir := t.TempDir()
	text := "name: examples\nmatrix:\n  harnesses:\n"
	for _, k := range harness.Kinds {
		if k.About.Example == "" {
			t.Fatalf("%s has no example", k.Name)
		}
		text += "    - " + k.About.Example + "\n"
	}
	text += "  conditions:\n    - {id: without, baseline: true}\n    - {id: with, skills: [skill]}\n"
	for name, text := range map[string]string{
		"suite.yaml":     text,
		"skill/SKILL.md": "---\nname: greeter\ndescription: Greets everyone in a very particular and unusual manner\n---\nSay hello.\n",
		"one/case.yaml":  "id: one\nprompt: Fix it.\nsource: {path: tree}\nassertions: [{id: there, type: files, exist: [a.txt]}]\n",
		"one/tree/a.txt": "a\n",
	} {
		name = filepath.Join(dir, name)
		must(os.MkdirAll(filepath.Dir(name), 0o755))
		must(os.WriteFile(name, []byte(text), 0o644))
	}
	if out := says(t, "check", dir); !strings.HasSuffix(out, "no fault\n") {
		t.Error(out)
	}
	used := map[string]bool{}
	useKinds(t, used, os.DirFS(dir), ".")
	for _, k := range harness.Kinds {
		if !used["harness "+k.Name] {
			t.Errorf("the example of %s shows another harness", k.Name)
		}
	}
}

// TestAgentsAreInstalledAsDocumented: the versions on the pages are those that the tests install.
func TestAgentsAreInstalledAsDocumented(t *testing.T) {
	script, err := os.ReadFile(repository + "/tools/agents.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range harness.Kinds {
		installs := []string{k.About.Install}
		for _, p := range profiles(k) {
			installs = append(installs, p.Install)
		}
		for _, line := range installs {
			if pkg, ok := strings.CutPrefix(line, "npm install -g "); line != "" && (!ok || !strings.Contains(string(script), "package="+pkg+" ")) {
				t.Errorf("%s: tools/agents.sh does not install what %q does", k.Name, line)
			}
		}
	}
}

// TestEveryHarnessTellsAboutItself holds each row to a page that a reader can use.
func TestEveryHarnessTellsAboutItself(t *testing.T) {
	for _, k := range harness.Kinds {
		a := k.About
		texts := append([]string{a.Runs, a.Records, a.Limits}, a.Silent...)
		for _, p := range profiles(k) {
			texts = append(texts, p.Silent...)
			if p.Name == "" || p.Install == "" || p.Runs == "" {
				t.Errorf("%s: the agent %q does not say how it is got and run", k.Name, p.Name)
			}
		}
		if k.Params == nil || a.Runs == "" || a.Records == "" || a.Limits == "" {
			t.Errorf("%s does not say how it is run, what is recorded and what ends it", k.Name)
			continue
		}
		if len(a.Silent) == 0 {
			t.Errorf("%s does not say what its agent cannot tell", k.Name)
		}
		for _, text := range texts {
			if !strings.HasSuffix(text, ".") || strings.Contains(text, "  ") {
				t.Errorf("%s: %q is no whole sentence", k.Name, text)
			}
		}
	}
}

// aboutTheBase is the part of docs/suite.md that says what no table can.
const aboutTheBase = `
## Conditions are proven

A cell counts for its condition only when the condition was there. The first request of the agent to its model must show each
part of it, and nothing that only another condition has. ` + "`condition_verified`" + ` in result.json is true, false or null. When it is
false the cell errored with class ` + "`condition`" + `, at its first request and so at no cost, and its arm is not compared.

| part | is shown by |
|---|---|
| ` + "`skills`" + ` | the beginning of the description, as far as another condition has the same. A SKILL.md without name or description is a fault; from the base, it errors the cells |
| ` + "`instructions`" + ` | the longest line that no other condition has, of at least 24 characters |
| ` + "`mcp`" + ` | a tool whose name begins with that of the server. A server that is not ready for the first request was not there |
| ` + "`prompt_prefix`" + ` | itself, before the prompt |
| ` + "`files`" + ` | the first snapshot, byte for byte, after setup |
| ` + "`env`" + ` | nothing: it is set by Assay |

The condition is null, and a finding of the cell says why, when a part cannot be told from chance or from what the agent is given in
another way. It is null as well when the gateway sees no request: with a ` + "`command`" + ` or a scripted agent, and with one that calls its
model by itself. An agent that should ask through the gateway, ended well and never asked, errored. Two versions of a skill that
have the same description are not told apart by this; the files that are laid are those of the digest.

## The base

The base is what the work tree was before the change under test: the commit where the history of HEAD left that of the
branch it will be merged into. ` + "`--base`" + ` names the branch, a tag or a full commit id; otherwise it is the first there is of
origin/HEAD, origin/main, origin/master, main and master. The clone must hold the history down to that commit:
` + "`fetch-depth: 0`" + ` of actions/checkout.

` + "`from: base`" + ` reads the skills, instructions and files of a condition from there. Everything else that the condition says
(env, mcp, prompt_prefix) is taken as it stands. A path that the base does not have is a fault, since what is new has no
earlier version. The bytes are those of the commit: git's filters and line endings are not applied, links lead only to what
the commit holds, a submodule is an empty folder, and a file in Git LFS cannot be read.

` + "`--baseline paired`" + ` does this for every condition that reads files. Condition ` + "`x`" + ` gets a twin ` + "`x.base`" + `, with the same settings
and the files of the base, and is compared with it in the same run. What the base does not have, the twin does without. A
condition whose files are all new gets no twin. Both are told, and so is a twin whose files are the same. ` + "`--condition x`" + `
chooses the twin too.

` + "`--trust untrusted --base BRANCH`" + ` measures the change of a stranger. Of the work tree's suite.yaml only the conditions are
taken, without their env and mcp; harnesses, trials, limits, budget, gate and all else are those of the branch as it is now.
The cases are the work tree's, with the env that the branch gives them and limits and trials no higher than there. What was
not taken is told. A harness that only the work tree has is a fault, and so is env or mcp of a new condition or a new case.
`

func fieldTable(fields []suite.Field) string {
	var b strings.Builder
	b.WriteString("| key | value | what it is |\n| :-- | :-- | :-- |\n")
	for _, f := range fields {
		value := f.Type
		if l := limits(f); l != "" {
			value += "; " + l
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Name, cell(value), cell(f.Doc))
	}
	return b.String()
}

// sentence makes a line of a table a sentence.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }

// cell makes a text of ours fit for a table of Markdown.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "_", `\_`, "<", `\<`).Replace(s)
}

// commandPage is docs/cli.md.
func commandPage() string {
	root := newRoot(IO{})
	var b strings.Builder
	b.WriteString("# The commands\n\n" + madeByTest + "\n" + root.Long + "\n")
	for _, c := range root.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		about := c.Long
		if about == "" {
			about = sentence(c.Short)
		}
		fmt.Fprintf(&b, "\n## assay %s\n\n```\n%s\n```\n\n%s\n", c.Name(), strings.TrimSuffix(c.UseLine(), " [flags]"), about)
		if c.Example != "" {
			fmt.Fprintf(&b, "\n```\n%s\n```\n", c.Example)
		}
		if flags := flagTable(c); flags != "" {
			b.WriteString("\n| flag | default | what it is |\n| :-- | :-- | :-- |\n" + flags)
		}
	}
	return b.String()
}

func flagTable(c *cobra.Command) string {
	var b strings.Builder
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		name, text := pflag.UnquoteUsage(f)
		short := ""
		if f.Shorthand != "" {
			short = "-" + f.Shorthand + ", "
		}
		def := f.DefValue
		if def == "[]" || def == "false" {
			def = ""
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.TrimSpace(short+"--"+f.Name+" "+name), cell(def), cell(text))
	})
	return b.String()
}

// explanations are all that assay explain can say.
func explanations(t *testing.T) string {
	t.Helper()
	names := map[string]bool{}
	for _, g := range groups() {
		for _, k := range g.list {
			names[k.Name] = true
		}
	}
	var b strings.Builder
	b.WriteString("$ assay explain\n" + says(t, "explain"))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(&b, "\n$ assay explain %s\n%s", name, says(t, "explain", name))
	}
	return b.String()
}

// says runs a command that starts no agent, and returns all that it prints.
func says(t *testing.T, args ...string) string {
	t.Helper()
	var b bytes.Buffer
	if code := Main(t.Context(), args, IO{Out: &b, Err: &b, Env: os.Environ()}); code != ExitOK {
		t.Errorf("assay %s: exit code %d\n%s", strings.Join(args, " "), code, &b)
	}
	return b.String()
}

// TestEveryKind holds each row of each table to one line of text, and to a suite that uses it: in evals, in what assay
// init writes, or in a script.
func TestEveryKind(t *testing.T) {
	used := map[string]bool{}
	useKinds(t, used, os.DirFS(repository), "evals")
	useKinds(t, used, starter, ".")
	for _, script := range archives(t) {
		useKinds(t, used, script, ".")
	}
	for _, g := range groups() {
		for _, k := range g.list {
			if k.Doc == "" || strings.ContainsAny(k.Doc, "\n") || len(k.Doc) > 120 {
				t.Errorf("%s %s has no line of text: %q", g.what, k.Name, k.Doc)
			}
			for _, f := range suite.Describe(k.Params) {
				if f.Doc == "" && !strings.Contains(f.Name, ".") {
					t.Errorf("%s %s: %s is not described", g.what, k.Name, f.Name)
				}
			}
			if !used[g.what+" "+k.Name] {
				t.Errorf("no suite shows the %s %s", g.what, k.Name)
			}
		}
	}
}

// archives are the files of all scripts.
func archives(t *testing.T) []fs.FS {
	names, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	var out []fs.FS
	for _, name := range names {
		a, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m := fstest.MapFS{}
		for _, f := range a.Files {
			m[f.Name] = &fstest.MapFile{Data: f.Data}
		}
		out = append(out, m)
	}
	return out
}

// useKinds adds to used the kinds of all sound cases of all suites below top, under the name of what they are.
func useKinds(t *testing.T, used map[string]bool, fsys fs.FS, top string) {
	t.Helper()
	err := fs.WalkDir(fsys, top, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Base(name) != "suite.yaml" {
			return err
		}
		s, _ := suite.Load(fsys, name, nil) // a faulty suite is another test's
		if s == nil {
			return nil
		}
		used["policy "+s.Interaction.Kind] = true
		used["executor "+s.Executor.Kind] = true
		for _, h := range s.Harnesses {
			used["harness "+h.Block.Kind] = true
		}
		for _, c := range s.Cases {
			used["environment "+c.Environment.Kind] = true
			for _, a := range c.Assertions {
				used["assertion "+a.Block.Kind] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// readmeSuite are the files that the suite of the README names and a reader brings along.
var readmeSuite = map[string]string{
	"skills/investigating-bugs/SKILL.md": "Look twice.\n",
	"evals/timezone/fixture/src/due.js":  "export const due = (d) => d.getDate();\n",
	"evals/timezone/hidden/due.test.js":  "",
	"evals/timezone/reference.patch": "--- a/src/due.js\n+++ b/src/due.js\n@@ -1 +1 @@\n" +
		"-export const due = (d) => d.getDate();\n+export const due = (d) => d.getUTCDate();\n",
}

// TestReadmeSuite writes the YAML of the README to the files that it is said to be, and checks it without a fault.
func TestReadmeSuite(t *testing.T) {
	dir := t.TempDir()
	files := maps.Clone(readmeSuite)
	for _, block := range regexp.MustCompile("(?s)```yaml\n# (\\S+)\n(.*?)```").FindAllStringSubmatch(readme(t), -1) {
		files[block[1]] = block[2]
	}
	if len(files) != len(readmeSuite)+strings.Count(readme(t), "```yaml") {
		t.Fatal("a YAML block of the README does not say which file it is")
	}
	for name, text := range files {
		name = filepath.Join(dir, name)
		must(os.MkdirAll(filepath.Dir(name), 0o755))
		must(os.WriteFile(name, []byte(text), 0o644))
	}
	if out := says(t, "check", filepath.Join(dir, "evals")); !strings.HasSuffix(out, "no fault\n") || strings.Contains(out, "warning") {
		t.Error(out)
	}
}

// TestReadmeCommands runs every command line of the README, in a folder with the suite that assay init writes.
func TestReadmeCommands(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("agents run on Linux only")
	}
	fill := strings.NewReplacer(
		"BEFORE AFTER", "evals/greeting/fixture evals/greeting/hidden", "DIR CELL", "assay-results greeting/scripted/none/with_hint/1",
		"OUT DIR…", "joined part-1 part-2", "history DIR…", "history part-1 assay-results",
		"report DIR", "report assay-results", "export DIR", "export assay-results", "FOLDER", "trajectories", "i/n", "1/2 --out part",
	)
	dir := t.TempDir()
	assay := func(line string) (string, error) {
		cmd := exec.Command("assay", strings.Fields(line)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "ASSAY_CACHE="+dir+"/cache", "TMPDIR="+dir, quickEnd)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	lines := commandLines(readme(t))
	if len(lines) < 10 {
		t.Fatalf("the README has %d command lines: %q", len(lines), lines)
	}
	for _, line := range append([]string{"init evals", "run --shard 1/2 --out part-1", "run --shard 2/2 --out part-2"}, lines...) {
		if line == "init evals" {
			must(os.RemoveAll(filepath.Join(dir, "evals")))
		}
		if out, err := assay(fill.Replace(line)); err != nil {
			t.Errorf("assay %s: %v\n%s", line, err, out)
		}
	}
}

// commandLines are the command lines of assay in a page: those in blocks, up to the text beside them, and those in a line
// of prose. They come without the name of the program, each once.
func commandLines(page string) []string {
	var lines []string
	for _, m := range regexp.MustCompile("(?m)^assay (.+?)(?:  .*)?$|`assay ([^`]+)`").FindAllStringSubmatch(page, -1) {
		if line := m[1] + m[2]; !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(repository + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
