package suite

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// archive is the file system of a txtar file.
func archive(t testing.TB, a *txtar.Archive) fstest.MapFS {
	t.Helper()
	fsys := fstest.MapFS{}
	for _, f := range a.Files {
		fsys[f.Name] = &fstest.MapFile{Data: f.Data, Mode: 0o644}
	}
	return fsys
}

func readArchive(t testing.TB, file string) *txtar.Archive {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestFaults loads broken suites. Each file of testdata/faults holds one, and under want exactly what is printed for it;
// its name says the rule that it breaks.
func TestFaults(t *testing.T) {
	files, err := filepath.Glob("testdata/faults/*.txtar")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d broken suites, want at least 60 (%v)", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a := readArchive(t, file)
			last := &a.Files[len(a.Files)-1]
			if last.Name != "want" {
				t.Fatal("the last section is not want")
			}
			input := *a
			input.Files = a.Files[:len(a.Files)-1]
			fsys := archive(t, &input)
			_, err := Load(fsys, "evals", nil)
			var problems Problems
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("no fault was found: %v", err)
			}
			checkPlaces(t, fsys, problems)
			got := problems.Error() + "\n"
			if *update {
				last.Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(last.Data), got); diff != "" {
				t.Errorf("the printed problems differ (-want +got):\n%s", diff)
			}
		})
	}
}

// checkPlaces asserts that every problem lies in its file.
func checkPlaces(t testing.TB, fsys fstest.MapFS, problems Problems) {
	t.Helper()
	for _, p := range problems {
		if p.Msg == "" || p.File == "" {
			t.Errorf("a problem without a message or a file: %#v", p)
		}
		if p.Line == 0 {
			continue
		}
		f, ok := fsys[p.File]
		if !ok {
			t.Errorf("%s: there is no such file", p.Pos)
			continue
		}
		lines := splitLines(string(bytes.TrimPrefix(f.Data, []byte("\ufeff"))))
		if p.Line > len(lines) || p.Col < 1 || p.Col > len([]rune(lines[p.Line-1]))+1 {
			t.Errorf("%s: the place is outside the file", p.Pos)
		}
	}
}

func load(t testing.TB, file string) (*Suite, fstest.MapFS) {
	t.Helper()
	fsys := archive(t, readArchive(t, file))
	s, err := LoadAgainst(fsys, against(goneSkill), "evals", nil)
	if err != nil {
		t.Fatalf("%s:\n%v", file, err)
	}
	return s, fsys
}

// ignorePlaces leaves out of a comparison what other tests look at.
var ignorePlaces = cmp.FilterPath(func(p cmp.Path) bool {
	name := p.Last().String()
	return name == ".At" || name == ".FilesAt" || strings.HasSuffix(name, "Digest")
}, cmp.Ignore())

// blocks compares blocks by what they say.
var blocks = cmp.Transformer("canonical", func(b Block) string { return string(b.Canonical()) })

func TestLoadFillsDefaults(t *testing.T) {
	s, _ := load(t, "testdata/good/small.txtar")
	want := &Suite{
		Name: "small", File: "evals/suite.yaml", Dir: "evals",
		Harnesses:  []Harness{{ID: "bot", Models: []string{"none"}, Block: Block{Kind: "script"}}},
		Conditions: []Condition{{ID: "default", Baseline: true}},
		Trials:     3, Retries: 2, Limits: Limits{Timeout: 10 * time.Minute},
		Interaction: Block{Kind: "auto-approve"}, Executor: Block{Kind: "host"}, Availability: "required",
		Gate: Gate{MarginPP: 2, MinCoverage: 0.9, Alpha: 0.05, MarginEqPP: 5, MDEMaxPP: 15, Claim: "suite", Underpowered: "warn", Confirm: &Confirm{3, 8}},
		Cases: []Case{{
			ID: "one", File: "evals/one/case.yaml", Dir: "evals/one", Prompt: "Fix the bug.",
			Source: Source{Path: "evals/one/tree", Isolation: "auto"}, Environment: Block{Kind: "none"},
			Availability: "required", Trials: 3, Threshold: 1, Limits: Limits{Timeout: 10 * time.Minute},
			Assertions: []Assertion{{ID: "right", Weight: 1, Block: s.Cases[0].Assertions[0].Block}},
		}},
	}
	if diff := cmp.Diff(want, s, ignorePlaces, blocks, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, want := s.Cases[0].Assertions[0].Block.At, (Pos{"evals/one/case.yaml", 5, 5}); got != want {
		t.Errorf("the assertion stands at %v, want %v", got, want)
	}
}

func TestLoadReadsEveryKey(t *testing.T) {
	s, _ := load(t, "testdata/good/full.txtar")
	rate := 0.5
	gate := Gate{MarginPP: 3, MinCoverage: 0.8, MinPassRate: &rate, Alpha: 0.1, MarginEqPP: 4, MDEMaxPP: 20, Claim: "population",
		Underpowered: "fail", Confirm: &Confirm{2, 8}}
	if diff := cmp.Diff(gate, s.Gate, ignorePlaces); diff != "" {
		t.Errorf("gate (-want +got):\n%s", diff)
	}
	conditions := []Condition{
		{ID: "without_skill", Baseline: true},
		{ID: "with_skill", Skills: []string{"skills/fixing"}, Instructions: "AGENTS.md", Files: map[string]string{"docs/GUIDE.md": "guide.md", "B.md": "guide.md"},
			MCP: s.Conditions[1].MCP, Env: map[string]string{"LEVEL": "2"}, PromptPrefix: "Use the skill."},
		{ID: "of_base", From: "base", Skills: []string{"skills/gone"}},
	}
	if diff := cmp.Diff(conditions, s.Conditions, ignorePlaces, blocks); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if got, want := string(s.Conditions[1].MCP.Canonical()), `{"kind":"","settings":{"files":{"command":["mcp-files"]}}}`; got != want {
		t.Errorf("mcp is %s, want %s", got, want)
	}
	if got, want := string(s.Harnesses[1].Block.Canonical()), `{"kind":"openai","settings":{"base_url":"https://api.example.org/v1"}}`; got != want {
		t.Errorf("the harness is %s, want %s", got, want)
	}
	limits := Limits{20 * time.Minute, 50, 200000, 1.5}
	short := limits
	short.Timeout = 5 * time.Minute
	cases := []Case{
		{
			ID: "cloned", File: "evals/group/cloned/case.yaml", Dir: "evals/group/cloned", Prompt: "Fix the bug.\nChange nothing else.\n",
			Source:      Source{Repo: &Repo{URL: "https://example.org/owner/name", Commit: strings.Repeat("0123456789abcdef", 4)[:40], Subdir: "service"}, Isolation: "auto"},
			Environment: s.Cases[0].Environment,
			Fixtures:    &Repo{URL: "http://127.0.0.1:8080/tests", Commit: s.Cases[0].Fixtures.Commit},
			Limits:      limits, Trials: 5, Threshold: 0.75, Availability: "optional", Assertions: s.Cases[0].Assertions,
		},
		{
			ID: "own", File: "evals/own/case.yaml", Dir: "evals/own", Prompt: "Find the bug and fix it.\n",
			Source: Source{Path: "common/tree", Isolation: "worktree"}, Files: []string{"src/**", "README.md"}, Ignore: []string{"**/*.log"},
			Hidden: "evals/own/hidden", Reference: "evals/own/reference.patch",
			Setup: []Command{{Run: "make tools", Timeout: 15 * time.Minute},
				{Argv: []string{"make", "data"}, Timeout: 30 * time.Second, Env: map[string]string{"SEED": "1"}}},
			Environment: Block{Kind: "none"}, Tools: []string{"python3", "g++"}, Availability: "required", Trials: 2, Threshold: 0,
			Limits: short, Env: map[string]string{"TZ": "UTC"}, Assertions: s.Cases[1].Assertions,
		},
	}
	if diff := cmp.Diff(cases, s.Cases, ignorePlaces, blocks); diff != "" {
		t.Errorf("cases (-want +got):\n%s", diff)
	}
	if a := s.Cases[0].Assertions; len(a) != 1 || a[0].ID != "builds" || !a[0].Gate {
		t.Errorf("a case without assertions has %+v, want those of the suite", a)
	}
	if a := s.Cases[1].Assertions; len(a) != 2 || a[0].Weight != 2 || !a[0].Guard || a[1].Block.Kind != "diff_scope" {
		t.Errorf("a case with assertions has %+v", a)
	}
	if e := string(s.Cases[0].Environment.Canonical()); e != `{"kind":"command","settings":{"run":["make deps"]}}` {
		t.Errorf("the environment is %s, want the one of the suite", e)
	}
	// Nothing is said of files: [README.md], which setup may make.
	want := "evals/own/case.yaml:20:63: warning: a diff_scope gate without another gate lets a small wrong change through"
	if got := s.Warnings.Error(); !strings.HasPrefix(got, want) {
		t.Errorf("the warnings are\n%s\nwant\n%s", got, want)
	}
}

func TestLoadFindsTheSuite(t *testing.T) {
	fsys := archive(t, readArchive(t, "testdata/good/small.txtar"))
	for _, p := range []string{"evals", "evals/", "./evals", "evals/suite.yaml"} {
		if s, err := Load(fsys, p, nil); err != nil || s.File != "evals/suite.yaml" {
			t.Errorf("Load(%q) = %v, %v", p, s, err)
		}
	}
	for _, p := range []string{"", "..", "/evals", "evals/one/tree/main.go", "evals/one"} {
		if s, err := Load(fsys, p, nil); err == nil || s != nil {
			t.Errorf("Load(%q) = %v without an error", p, s)
		}
	}
}

func TestLoadKeepsTheSoundCases(t *testing.T) {
	fsys := archive(t, readArchive(t, "testdata/good/small.txtar"))
	put := func(name, text string) { fsys[name] = &fstest.MapFile{Data: []byte(text)} }
	sound := string(fsys["evals/one/case.yaml"].Data)
	put("evals/two/case.yaml", "id: two\n")
	put("evals/three/case.yaml", "id: [\n")
	put("evals/four/case.yaml", strings.Replace(sound, "path: tree", "path: ../one/tree", 1))
	put("evals/five/case.yaml", strings.NewReplacer("path: tree", "path: ../one/tree", "id: one", "id: five").Replace(sound))
	s, err := Load(fsys, "evals", nil)
	if err == nil || s == nil {
		t.Fatalf("Load = %v, %v; want a suite and an error", s, err)
	}
	if len(s.Cases) != 1 || s.Cases[0].ID != "five" {
		t.Errorf("the sound cases are %v, want five alone: four says that it is one too", s.Cases)
	}
	if diff := cmp.Diff([]string{"one", "evals/three", "two"}, s.Broken); diff != "" {
		t.Errorf("broken (-want +got):\n%s", diff)
	}
	put("evals/suite.yaml", "name: 3\n")
	if s, err := Load(fsys, "evals", nil); err == nil || s != nil {
		t.Errorf("a broken suite.yaml gives %v, %v; want no suite", s, err)
	}
}

// onDisk writes an archive into a folder, for what only a real file system has.
func onDisk(t *testing.T, file string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range readArchive(t, file).Files {
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, f.Data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoadAndLinks(t *testing.T) {
	tests := map[string]struct {
		link, target string // below evals
		remove       string
		want         string // of the error; empty: the suite is sound
	}{
		"a link inside the source":            {link: "one/tree/alias.go", target: "main.go"},
		"a link of the source to nothing":     {link: "one/tree/gone", target: "nothing", want: `"evals/one/tree/gone" is a link to nothing`},
		"a link that leaves the source":       {link: "one/tree/up", target: "../case.yaml", want: `"evals/one/tree/up" leads out of the tree through a link`},
		"an absolute link in the source":      {link: "one/tree/abs", target: "/etc/passwd", want: `"evals/one/tree/abs" leads out of the tree through a link`},
		"a link in a loop":                    {link: "one/tree/loop", target: "loop", want: `"evals/one/tree/loop" goes through too many links`},
		"the source is a link":                {link: "one/tree", target: "../common", remove: "one/tree"},
		"the source is a link to outside":     {link: "one/tree", target: "../../../..", remove: "one/tree", want: "leads out of the tree through a link"},
		"case.yaml is a link":                 {link: "one/case.yaml", target: "../common/case.yaml", remove: "one/case.yaml"},
		"case.yaml is a link to outside":      {link: "one/case.yaml", target: "/dev/zero", remove: "one/case.yaml", want: "leads out of the tree through a link"},
		"suite.yaml is a link to nothing":     {link: "suite.yaml", target: "sweet.yaml", remove: "suite.yaml", want: "there is no such file"},
		"a link beside the source to nothing": {link: "one/agent", target: "../agents", want: `the folder of the case: "evals/one/agent" leads out of the tree through a link`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := onDisk(t, "testdata/good/small.txtar")
			evals := filepath.Join(dir, "evals")
			sound, err := os.ReadFile(filepath.Join(evals, "one/case.yaml"))
			err = errors.Join(err, os.Mkdir(filepath.Join(evals, "common"), 0o755), os.WriteFile(filepath.Join(evals, "common/case.yaml"), sound, 0o644))
			if test.want == "" {
				// The common folder is where the sound links lead; it must not be taken for a case of its own.
				err = errors.Join(err, os.Rename(filepath.Join(evals, "common"), filepath.Join(evals, ".common")))
				test.target = strings.Replace(test.target, "../common", "../.common", 1)
			} else {
				err = errors.Join(err, os.RemoveAll(filepath.Join(evals, "common")))
			}
			if test.remove != "" {
				err = errors.Join(err, os.RemoveAll(filepath.Join(evals, test.remove)))
			}
			if err := errors.Join(err, os.Symlink(test.target, filepath.Join(evals, test.link))); err != nil {
				t.Fatal(err)
			}
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			for _, fsys := range []fs.FS{os.DirFS(dir), root.FS()} {
				_, err := Load(fsys, "evals", nil)
				switch {
				case test.want == "" && err != nil:
					t.Errorf("%T: %v", fsys, err)
				case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
					t.Errorf("%T: got %v, want %s", fsys, err, test.want)
				}
			}
		})
	}
}

func TestLoadReportsEveryBadEntryOfAFolder(t *testing.T) {
	fsys := archive(t, readArchive(t, "testdata/good/small.txtar"))
	for i := range 30 {
		fsys[fmt.Sprintf("evals/one/tree/link%02d", i)] = &fstest.MapFile{Data: []byte("nothing"), Mode: fs.ModeSymlink | 0o777}
	}
	_, err := Load(fsys, "evals", nil)
	if n := len(Flatten(err)); n != maxFaults {
		t.Errorf("%d problems, want the first %d:\n%v", n, maxFaults, err)
	}
}

func TestLoadNeverOpensAFIFO(t *testing.T) {
	for _, name := range []string{"evals/suite.yaml", "evals/one/case.yaml", "evals/one/tree/pipe", "evals/one/pipe"} {
		t.Run(name, func(t *testing.T) {
			dir := onDisk(t, "testdata/good/small.txtar")
			pipe := filepath.Join(dir, name)
			os.Remove(pipe)
			if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
				t.Skipf("mkfifo: %v: %s", err, out)
			}
			done := make(chan error, 1)
			go func() {
				_, err := Load(os.DirFS(dir), "evals", nil)
				done <- err
			}()
			select {
			case err := <-done:
				if err == nil || !strings.Contains(err.Error(), "is not a regular file") && !strings.Contains(err.Error(), "is neither a file") {
					t.Errorf("got %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("Load waits for a writer")
			}
		})
	}
}

func TestLoadRefusesBytes(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"not UTF-8":         {"name: d\xff\n", "evals/suite.yaml:1:8: the file is not UTF-8"},
		"UTF-16":            {"\xff\xfen\x00", "evals/suite.yaml:1:1: the file is not UTF-8"},
		"control character": {"name: a\x1b[31m\n", "evals/suite.yaml:1:8: the character U+001B cannot stand in YAML"},
		"NUL":               {"name: demo\nx: \x00\n", "evals/suite.yaml:2:4: the character U+0000 cannot stand in YAML"},
		"too long":          {"name: " + strings.Repeat("a", maxFile), "evals/suite.yaml: the file has more than 1048576 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			fsys := archive(t, readArchive(t, "testdata/good/small.txtar"))
			fsys["evals/suite.yaml"] = &fstest.MapFile{Data: []byte(test.text)}
			if _, err := Load(fsys, "evals", nil); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %.300v, want %s", err, test.want)
			}
		})
	}
	fsys := archive(t, readArchive(t, "testdata/good/small.txtar"))
	for _, f := range fsys {
		f.Data = append([]byte("\ufeff"), bytes.ReplaceAll(f.Data, []byte("\n"), []byte("\r\n"))...)
	}
	if _, err := Load(fsys, "evals", nil); err != nil {
		t.Errorf("a byte order mark and CRLF are no faults: %v", err)
	}
}

// bomb is 9 levels of aliases: 10^9 values in 300 bytes.
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	return b.String()
}

func TestA27HostileFilesAreCheap(t *testing.T) {
	tests := map[string]string{
		"alias bomb":    bomb(),
		"deep nesting":  strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"deep mappings": strings.Repeat("{a: ", 9000) + strings.Repeat("}", 9000),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			fsys := archive(t, readArchive(t, "testdata/good/small.txtar"))
			fsys["evals/suite.yaml"] = &fstest.MapFile{Data: []byte(text)}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			_, err := Load(fsys, "evals", nil)
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), "more than") {
				t.Errorf("got %v", err)
			}
			if took > time.Second { // measured: below 50 ms; the limit leaves room for a busy machine and the race detector
				t.Errorf("it took %v", took)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 50<<20 {
				t.Errorf("it took %d MiB", used>>20)
			}
		})
	}
}

// TestA27HostileYAML: what another reader of YAML might take for something else is a fault with its place.
func TestA27HostileYAML(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"a key twice":       {"name: a\nname: b\n", `evals/suite.yaml:2:1: the key "name" stands twice`},
		"a tag":             {"name: !!python/object x\n", "evals/suite.yaml:1:7: the tag"},
		"a merge key":       {"a: &a {name: x}\nb:\n  <<: *a\n", "evals/suite.yaml:3:3: merge keys are not supported"},
		"several documents": {"name: a\n---\nname: b\n", "evals/suite.yaml:2:1: "},
		"a loop":            {"a: &a [*a]\n", "evals/suite.yaml:1:8: the alias *a stands inside what it names"},
		"a huge file":       {"name: " + strings.Repeat("a", maxFile), "evals/suite.yaml: the file has more than 1048576 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			fsys := archive(t, readArchive(t, "testdata/good/small.txtar"))
			fsys["evals/suite.yaml"] = &fstest.MapFile{Data: []byte(test.text)}
			if _, err := Load(fsys, "evals", nil); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %.300v, want %s", err, test.want)
			}
		})
	}
}

// TestA32IDs: an id becomes a name of folders and files, so one that is another's twin on some file system, or none at all on
// another, is a fault.
func TestA32IDs(t *testing.T) {
	load := func(ids ...string) error {
		fsys := archive(t, readArchive(t, "testdata/good/small.txtar"))
		var text strings.Builder
		text.WriteString("id: one\nprompt: Fix the bug.\nsource: {path: tree}\nassertions:\n")
		for _, id := range ids {
			fmt.Fprintf(&text, "  - {id: %q, type: command, run: make test}\n", id)
		}
		fsys["evals/one/case.yaml"] = &fstest.MapFile{Data: []byte(text.String())}
		_, err := Load(fsys, "evals", nil)
		return err
	}
	for _, id := range []string{"../x", "a/b", `a\b`, "..", ".", "", ".hidden", "-rf", "A", "a b", "a\n", "ä", "con", "nul.txt", "com1", "a.", "a\u202eb", strings.Repeat("a", 65)} {
		if err := load(id); err == nil || !strings.Contains(err.Error(), "evals/one/case.yaml:5:") {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, twins := range [][2]string{{"a", "a"}, {"a", "A"}, {"k", "\u212a"}} {
		if err := load(twins[:]...); err == nil || !strings.Contains(err.Error(), "evals/one/case.yaml:6:") {
			t.Errorf("%q: %v", twins, err)
		}
	}
	if err := load("a-b", "a.b", "a_b", "0", "console", strings.Repeat("a", 64)); err != nil {
		t.Error(err)
	}
}

func TestReadBlock(t *testing.T) {
	fsys := fstest.MapFS{
		"agent/fix.yaml":  {Data: []byte("steps:\n  - say: hello\n  - {run: make, tiems: 2}\n")},
		"agent/list.yaml": {Data: []byte("- say: hello\n")},
	}
	var script struct {
		Steps []struct {
			Say string `yaml:"say"`
			Run string `yaml:"run"`
		} `yaml:"steps"`
	}
	b, err := ReadBlock(fsys, "agent/fix.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := "agent/fix.yaml:3:17: unknown key \"tiems\" in steps[1]\n    - {run: make, tiems: 2}\n                  ^~~~~\nhint: known: say, run"
	if err := b.Decode(&script); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if len(script.Steps) != 2 || script.Steps[1].Run != "make" {
		t.Errorf("decoded %+v", script)
	}
	if b, err = ReadBlock(fsys, "agent/list.yaml"); err == nil {
		err = b.Decode(&script)
	}
	if err == nil || !strings.HasPrefix(err.Error(), "agent/list.yaml:1:1: found a list, want a mapping") {
		t.Errorf("got %v", err)
	}
	if _, err := ReadBlock(fsys, "agent/gone.yaml"); err == nil || !strings.HasPrefix(err.Error(), "agent/gone.yaml: there is no such file") {
		t.Errorf("got %v", err)
	}
}
