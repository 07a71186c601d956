package linguist

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A folder is files by name.
type folder map[string]string

func (f folder) write(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range f {
		must(t, os.MkdirAll(filepath.Dir(root+"/"+name), 0o755))
		must(t, os.WriteFile(root+"/"+name, []byte(content), 0o644))
	}
	return root
}

func (f folder) attributesFiles() iter.Seq[AttributesFile] {
	return func(yield func(AttributesFile) bool) {
		for _, name := range slices.Sorted(maps.Keys(f)) {
			content := f[name]
			load := func() (string, error) { return content, nil }
			if !yield(AttributesFile{strings.TrimSuffix(name, ".gitattributes"), int64(len(content)), load}) {
				return
			}
		}
	}
}

// saysOf prints what our reading of a folder's attributes says about paths, one line each, as gitSays does.
func saysOf(t testing.TB, f folder, names []string) []string {
	t.Helper()
	k, err := New(f.attributesFiles())
	must(t, err)
	var says []string
	for _, name := range names {
		a := k.attributesOf(name)
		says = append(says, fmt.Sprint(name, a))
	}
	return says
}

// gitSays asks git check-attr.
func gitSays(t testing.TB, dir string, names []string) []string {
	t.Helper()
	must(t, gitCommand(t, dir, "init", "-q", ".").Run())
	cmd := gitCommand(t, dir, "check-attr", "-z", "--stdin", "linguist-vendored", "linguist-generated", "linguist-documentation")
	cmd.Stdin = strings.NewReader(strings.Join(names, "\x00") + "\x00")
	out, err := cmd.Output()
	must(t, err)
	fields := strings.Split(string(out), "\x00")
	var says []string
	for answers := range slices.Chunk(fields[:len(fields)-1], 9) {
		var v [3]verdict
		for i := range v {
			switch answers[3*i+2] {
			case "unspecified":
			case "unset", "false":
				v[i] = no
			default:
				v[i] = yes
			}
		}
		says = append(says, fmt.Sprint(answers[0], attributes{v[0], v[1], v[2]}))
	}
	return says
}

func gitCommand(t testing.TB, dir string, args ...string) *exec.Cmd {
	t.Helper()
	program, err := exec.LookPath("git")
	if err != nil {
		t.Skip("needs git")
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ATTR_NOSYSTEM=1",
	}
	return cmd
}

func compareAttributes(t testing.TB, f folder, names []string) {
	t.Helper()
	ours := saysOf(t, f, names)
	for i, theirs := range gitSays(t, f.write(t), names) {
		if ours[i] != theirs {
			folder, _, _ := strings.Cut(names[i], "/")
			t.Errorf("%s%s\nours %q\ngit  %q", f[".gitattributes"], f[folder+"/.gitattributes"], ours[i], theirs)
		}
	}
}

// TestAttributes compares our reading of .gitattributes with git's, on the rules of gitattributes(5).
func TestAttributes(t *testing.T) {
	t.Parallel()
	names := []string{
		"a.go", "gen/a.go", "gen/deep/a.go", "src/gen/a.go", "b.pb.go", "src/b.pb.go", "x y", "src/x y", "a\nb", "a\"b", "é", "[attr]",
		"!a", "#a", "a1", "a-", "a]", "a^", "a[", "a\\", "a*", "ab", "a/b/c", "a/x/b", "a/b", "a/x/y/b", "aXb/c", "z", "\xff", "src/z",
	}
	all, below := folder{}, []string{}
	for i, rule := range []string{
		"a.go", "/a.go", "gen/a.go", "gen/*", "gen/**", "gen/", "gen", "*.go", "**/a.go", "**/gen/*.go", "*/a.go", "src/**/a.go",
		"a/**/b", "a/**/c", "a**b", "a**b/c", "a**/b", "a/**b", "/**", "**", "**/", "*", "?", "??", "a?", "a/?/b", "a[b]", "a[!b]", "a[^b]",
		"a[1-9]", "a[]]", "a[]-^]", "a[!]]", "a[\\]]", "a[[:digit:]]", "a[[:alpha:][:digit:]]", "a[[:nonsense:]]", "a[[:digit]", "a[[:]",
		"a[[]", "a[", "a[b", "a[/]b", "a[!x]b", "a\\*", "a\\", "a\\\\", "\\a.go", "\\!a", "!a", "\\#a", "#a", "[attr]", "[attr]m",
		`"x y"`, `"src/x y"`, `"a\nb"`, `"a\"b"`, `"\303\251"`, `"\377"`, `"\xff"`, `"x y`, `"a\400"`, `"z"linguist-vendored`, `"z\000q"`, `""`,
		"é", "\xff", "/", "//", "/a/b", "a/b/", "a/", "src/*", "a/*/b", "z\x00q", "[a-z]", "[z-a]", "[a-\\z]", "a[-9]", "a[1-]", "*b", "*.pb.*",
	} {
		for j, f := range []folder{
			{".gitattributes": rule + " linguist-generated\n"},
			{".gitattributes": rule + " -linguist-generated linguist-vendored=true linguist-documentation=false\n", "src/.gitattributes": rule + " linguist-generated\n"},
		} {
			rules := fmt.Sprintf("rule%d-%d/", i, j)
			for name, content := range f {
				all[rules+name] = content
			}
			for _, name := range names {
				below = append(below, rules+name)
			}
		}
	}
	compareAttributes(t, all, below)
	long := strings.Repeat("x", 2048-len("z linguist-vendored "))
	for name, f := range map[string]folder{
		"last line wins":             {".gitattributes": "z linguist-generated\nz -linguist-generated\n"},
		"last in the line wins":      {".gitattributes": "z linguist-generated -linguist-generated linguist-vendored !linguist-vendored\n"},
		"nearest folder wins":        {".gitattributes": "z linguist-generated linguist-vendored\n", "src/.gitattributes": "z -linguist-generated\n"},
		"unspecified again":          {".gitattributes": "z linguist-generated\n", "src/.gitattributes": "z !linguist-generated\n"},
		"anchored in its folder":     {"src/.gitattributes": "/z linguist-generated\nsrc/z linguist-vendored\n"},
		"a namesake of the folder":   {"sr/.gitattributes": "* linguist-generated\n", "src/z/.gitattributes": "* linguist-vendored\n"},
		"values":                     {".gitattributes": "z linguist-generated=1 linguist-vendored= linguist-documentation=False\n"},
		"minus and value":            {".gitattributes": "z -linguist-generated=true !linguist-vendored=true\n"},
		"a bad name spoils the line": {".gitattributes": "z linguist-generated a/b\nz linguist-vendored --x\n"},
		"blanks and CR":              {".gitattributes": " \t z\t linguist-generated \r\n"},
		"byte order mark":            {".gitattributes": "\ufeffz linguist-generated\n\ufeffz linguist-vendored\n"},
		"no line feed at the end":    {".gitattributes": "z linguist-generated"},
		"a long line":                {".gitattributes": "z linguist-vendored " + long + "\nz linguist-generated " + long[2:] + "\n"},
		"the builtin macro":          {".gitattributes": "z binary linguist-generated\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compareAttributes(t, f, names)
		})
	}
}

// TestAttributesRandom compares patterns made of parts with git, on random paths.
func TestAttributesRandom(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 5))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	for range 20 {
		var file strings.Builder
		for range 100 {
			var pattern strings.Builder
			for range 1 + random.IntN(7) {
				pattern.WriteString(pick("a", "b", "a", "b", "/", "/", "*", "**", "?", "[ab]", "[!a]", "[^/]", "[a-", "]", "\\", ".", "/**/", "**/", "/*", `"`))
			}
			fmt.Fprintf(&file, "%s %s%s\n", pattern.String(), pick("", "-", "!"), pick("linguist-generated", "linguist-vendored", "linguist-documentation"))
		}
		var names []string
		for range 300 {
			name := pick("a", "b", ".")
			for range random.IntN(7) {
				name += pick("a", "b", "/", ".", "]")
			}
			if path.Clean("/"+name) == "/"+name && !strings.Contains(name, ".git") {
				names = append(names, name)
			}
		}
		compareAttributes(t, folder{".gitattributes": file.String(), "a/.gitattributes": file.String()[:file.Len()/2]}, names)
	}
}

func TestAttributesMacrosSayNothing(t *testing.T) {
	t.Parallel()
	before := folder{".gitattributes": "[attr]made linguist-generated\nz made\ny made linguist-vendored\n"}
	got := strings.Join(saysOf(t, before, []string{"z", "y"}), " ")
	if want := fmt.Sprint("z", attributes{}, " y", attributes{vendored: yes}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAttributesBounds(t *testing.T) {
	t.Parallel()
	line := "z linguist-generated\n"
	for _, test := range []struct {
		rule  string
		files folder
		want  verdict
	}{
		{"a file of 1 MiB", folder{".gitattributes": line + strings.Repeat("#\n", 1000) + strings.Repeat("#", 1<<20-2000-len(line))}, yes},
		{"a larger one", folder{".gitattributes": line + strings.Repeat("#", 1<<20)}, unspecified},
		{"100,000 lines", folder{".gitattributes": line + strings.Repeat("\n", 99_999)}, yes},
		{"one line more", folder{".gitattributes": line + strings.Repeat("\n", 100_000)}, unspecified},
		{"one line more in all", folder{".gitattributes": line, "!/.gitattributes": strings.Repeat("\n", 100_000)}, unspecified},
		{"4 MiB in all", folder{
			".gitattributes": line, "!1/.gitattributes": strings.Repeat("#", 1<<20), "!2/.gitattributes": strings.Repeat("#", 1<<20),
			"!3/.gitattributes": strings.Repeat("#", 1<<20), "!4/.gitattributes": strings.Repeat("#", 1<<20),
		}, unspecified},
	} {
		k, err := New(test.files.attributesFiles())
		must(t, err)
		if got := k.attributesOf("z").generated; got != test.want {
			t.Errorf("%s: %v, want %v", test.rule, got, test.want)
		}
	}
}

func TestAttributesThatCannotBeLoaded(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	file := AttributesFile{Size: 1, Load: func() (string, error) { return "", broken }}
	if k, err := New(slices.Values([]AttributesFile{file})); k != nil || err != broken {
		t.Errorf("%v, %v", k, err)
	}
}

// TestAttributesSteps: patterns made to be slow stop having a say, and the next path is no slower.
func TestAttributesSteps(t *testing.T) {
	t.Parallel()
	pattern := "x/" + strings.Repeat("**/*a*/", 250) + "z"
	before := folder{".gitattributes": strings.Repeat(pattern+" linguist-generated\n", 500) + "q linguist-generated\n"}
	name := "x/" + strings.Repeat("a/a", 1000) + "/y"
	k, err := New(before.attributesFiles())
	must(t, err)
	if k.attributesOf("q").generated != yes {
		t.Error("the pattern that matches is not found")
	}
	k.attributesOf(name)
	if k.attributesOf("q").generated != unspecified {
		t.Error("the bound was not reached")
	}
	if most := maxAttributeSteps + len(name)*len(pattern)*2; k.attributeSteps > most {
		t.Errorf("%d steps, want at most %d", k.attributeSteps, most)
	}
}

func FuzzParseAttributes(f *testing.F) {
	for _, seed := range []string{"a/**/b linguist-generated", `"\303" -linguist-vendored`, "[[:alpha:]x-\\]z linguist-documentation", "[ linguist-generated", "\\"} {
		f.Add(seed, "a/x/b")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		for _, r := range parseAttributes(text) {
			steps := 0
			r.pattern.matches(name, &steps)
			if len(r.pattern.rest) > 3*len(text) {
				t.Errorf("%d parts of %d bytes", len(r.pattern.rest), len(text))
			}
		}
	})
}

func BenchmarkAttributes(b *testing.B) {
	text, err := os.ReadFile("../../../.gitattributes")
	if err != nil {
		text = []byte(strings.Repeat("*.pb.go linguist-generated\n/docs/** linguist-documentation\n", 20))
	}
	rules := parseAttributes(string(text))
	for b.Loop() {
		steps := 0
		for i := range rules {
			rules[i].pattern.matches("internal/diffscope/linguist/attributes.go", &steps)
		}
	}
}
